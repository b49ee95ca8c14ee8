"""The endpoints of the service: one table, from which routes, the OpenAPI description and the client's paths come.

To add an endpoint, add an entry here, the classes of its bodies to :mod:`gappletron.service.schemas`, the method that
it names to :class:`~gappletron.service.models.HostedModel` or to :class:`~gappletron.service.app.Service`, and what is
said of it, with examples, to ``description.json``. This module imports nothing, since the client reads it too.

Every endpoint of a model is there twice, as ``/v1/act`` for the first model and as ``/v1/models/{name}/act`` for each
of them; in a fleet, which has no first model, once. Batches have paths of their own (``/v1/act/batch``), so that every
path has one kind of request and one of answer: a type in the OpenAPI description, and in clients made from it, is then
never "either of two".
"""

from dataclasses import dataclass
from typing import Any

# What the paths of endpoints of a model begin with.
FIRST_MODEL, ANY_MODEL = "/v1", "/v1/models/{name}"


@dataclass(frozen=True)
class Endpoint:
    """One endpoint: where it is, who answers, what it takes and returns, and how it can fail.

    :param path: after the prefix of a model; of an endpoint of the server the whole.
    :param handler: the method that answers, and the name in ``description.json``.
    :param request: the class of the body; two where it differs between models that take records and models that take
        vectors; none for GET.
    :param answer: the class of the answer; None where it is not JSON.
    :param errors: status codes; those of access and of names of models are added.
    :param is_stored: whether the answer waits until the request is durable, and may be asked for again by its key.
    :param is_change: whether it changes the model in another way than by decisions and feedback: it may need a token of
        its own, and the log has who asked.
    :param is_own: whether it is about the model that the address names, also where another decides in its place.
    :param prepare: the method that reads, in a thread, what the handler needs beside the request.
    :param is_public: whether anyone may ask, without a token.

    >>> BY_HANDLER["act_many"].method, BY_HANDLER["act_many"].operation
    ('POST', 'actBatch')
    """

    path: str
    handler: str
    request: tuple[str, ...]
    answer: str | None
    errors: tuple[int, ...] = ()
    is_stored: bool = False
    is_change: bool = False
    is_own: bool = False
    prepare: str | None = None
    is_public: bool = False

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "POST" if self.request else "GET"

    @property
    def operation(self) -> str:
        """The name in the OpenAPI description."""
        first, *others = self.path.removeprefix("/v1").strip("/").split("/")
        return first + "".join(other.title() for other in others)


ONE_ROW, MANY_ROWS = ("OneRecord", "OneVector"), ("ManyRecords", "ManyVectors")
READING = (400, 413, 415, 422)
DECIDING = (*READING, 409, 429, 503)
LEARNING = (*READING, 404, 409, 503)
CHANGING = (*READING, 403, 409, 503)


def _change(path: str, handler: str, *request: str, **options: Any) -> Endpoint:
    return Endpoint(path, handler, request, "Changed", CHANGING, is_stored=True, is_change=True, **options)


OF_MODELS = (  # the busy ones first, since addresses are tried in this order
    Endpoint("/act", "act", ONE_ROW, "Decision", DECIDING, is_stored=True),
    Endpoint("/learn", "learn", ("Feedback",), "Learned", LEARNING, is_stored=True),
    Endpoint("/predict", "predict", ONE_ROW, "Prediction", READING),
    Endpoint("/act/batch", "act_many", MANY_ROWS, "Decisions", DECIDING, is_stored=True),
    Endpoint("/learn/batch", "learn_many", ("ManyFeedbacks",), "Learned", LEARNING, is_stored=True),
    Endpoint("/forget", "forget", ("Forget",), "Forgotten", LEARNING, is_stored=True),
    Endpoint("/forget/batch", "forget_many", ("ForgetMany",), "Forgotten", LEARNING, is_stored=True),
    Endpoint("/predict/batch", "predict_many", MANY_ROWS, "Predictions", READING),
    Endpoint("/explain", "explain", ONE_ROW, "Explanation", READING),
    Endpoint("/model", "describe", (), "ModelInfo", is_own=True),
    Endpoint("/estimates", "estimate", (), "Estimates", is_own=True),
    Endpoint("/changes", "list_changes", (), "Changes", is_own=True),
    _change("/teach", "teach", "TeachRecords", "TeachVectors"),
    _change("/class", "add_class", "AddClass"),
    _change("/graph", "set_graph", "SetGraph"),
    _change("/limits", "set_limits", "SetLimits"),
    _change("/reset", "reset", "Reset", is_own=True),
    _change("/rollback", "roll_back", "RollBack", is_own=True, prepare="read_past"),
    _change("/promote", "promote", "Promote", is_own=True, prepare="prepare_promotion"),
)
OF_SERVER = (
    Endpoint("/v1/models", "list_models", (), "Models"),
    Endpoint("/v1/health", "check_health", (), "Health", (503,), is_public=True),
    Endpoint("/metrics", "show_metrics", (), None),
)
OF_FLEET = (Endpoint("/v1/models/new", "create_model", ("NewModel",), "ModelInfo", (307, *READING, 403, 503)),)
BY_HANDLER = {endpoint.handler: endpoint for endpoint in (*OF_MODELS, *OF_SERVER, *OF_FLEET)}
