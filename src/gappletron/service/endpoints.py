"""The endpoints of the service: one table, from which routes, the OpenAPI description and the client's paths come.

To add an endpoint, add an entry here, the classes of its bodies to :mod:`gappletron.service.schemas` with examples in
``examples.json``, and the method that it names to :class:`~gappletron.service.models.HostedModel` or to
:class:`~gappletron.service.app.Service`. This module imports nothing, since the client reads it too.

Every endpoint of a model is there twice, as ``/v1/act`` for the first model and as ``/v1/models/{name}/act`` for each
of them. Batches have paths of their own (``/v1/act/batch``), so that every path has one kind of request and one of
answer: a type in the OpenAPI description, and in clients made from it, is then never "either of two".
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_MODEL, ANY_MODEL = "/v1", "/v1/models/{name}"
"""What the paths of endpoints of a model begin with."""


@dataclass(frozen=True)
class Endpoint:
    """One endpoint: where it is, who answers, what it takes and returns, and how it can fail.

    :param path: after the prefix of a model; of an endpoint of the server the whole.
    :param handler: the method that answers.
    :param about: the summary, a point, and more.
    :param request: the class of the body; two where it differs between models that take records and models that take
        vectors; none for GET.
    :param answer: the class of the answer; None where it is not JSON.
    :param errors: status codes; those of access and of names of models are added.
    :param is_stored: whether the answer waits until the request is durable, and may be asked for again by its key.
    :param is_public: whether anyone may ask, without a token.

    >>> BY_HANDLER["act_many"].method, BY_HANDLER["act_many"].operation
    ('POST', 'actBatch')
    """

    path: str
    handler: str
    about: str
    request: tuple[str, ...]
    answer: str | None
    errors: tuple[int, ...] = ()
    is_stored: bool = False
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

OF_MODELS = (  # the busy ones first, since addresses are tried in this order
    Endpoint(
        "/act",
        "act",
        "Decide. Draws an action for x. It is stored before it is answered. Give feedback with the id, now or later.",
        ONE_ROW,
        "Decision",
        DECIDING,
        is_stored=True,
    ),
    Endpoint(
        "/learn",
        "learn",
        "Give feedback. Learns the label of a decision, or that the round is over and the label stayed unseen.",
        ("Feedback",),
        "Learned",
        LEARNING,
        is_stored=True,
    ),
    Endpoint(
        "/predict",
        "predict",
        "Predict. The class that the model believes in, without exploration. It draws nothing, and nothing is stored.",
        ONE_ROW,
        "Prediction",
        READING,
    ),
    Endpoint(
        "/act/batch",
        "act_many",
        "Decide for many rows. Decisions in the order of the rows, stored together: either all are made, or none.",
        MANY_ROWS,
        "Decisions",
        DECIDING,
        is_stored=True,
    ),
    Endpoint(
        "/learn/batch",
        "learn_many",
        "Give feedback for many decisions. Either all of it is learned, or, where one piece cannot be, none.",
        ("ManyFeedbacks",),
        "Learned",
        LEARNING,
        is_stored=True,
    ),
    Endpoint(
        "/forget",
        "forget",
        "Forget a decision. Stops waiting for its feedback, since none will come; nothing is learned. Where the action "
        "hid the label, say that it stayed unseen instead (/learn): from that the model learns.",
        ("Forget",),
        "Forgotten",
        LEARNING,
        is_stored=True,
    ),
    Endpoint(
        "/forget/batch",
        "forget_many",
        "Forget many decisions. Either all of them are forgotten, or, where one cannot be, none.",
        ("ForgetMany",),
        "Forgotten",
        LEARNING,
        is_stored=True,
    ),
    Endpoint(
        "/predict/batch",
        "predict_many",
        "Predict many rows. Predictions in the order of the rows, with probabilities in the order of the classes.",
        MANY_ROWS,
        "Predictions",
        READING,
    ),
    Endpoint(
        "/model",
        "describe",
        "Describe the model. What it is, how many rounds it has played, and how well it does by its own estimate.",
        (),
        "ModelInfo",
    ),
    Endpoint(
        "/estimates",
        "estimate",
        "Estimate the error. The report of the monitor with its curve, and decisions in each of the last 120 seconds.",
        (),
        "Estimates",
    ),
)
OF_SERVER = (
    Endpoint(
        "/v1/models",
        "list_models",
        "List the models. All models, in their order.",
        (),
        "Models",
    ),
    Endpoint(
        "/v1/health",
        "check_health",
        "Check the health. Needs no token. 503 if decisions cannot be stored. `degraded` if they can, and something "
        "else is wrong, such as a snapshot that failed: starting the server again would not help.",
        (),
        "Health",
        (503,),
        is_public=True,
    ),
    Endpoint(
        "/metrics",
        "show_metrics",
        "Metrics. Counters and estimates in the text format of Prometheus.",
        (),
        None,
    ),
)
BY_HANDLER = {endpoint.handler: endpoint for endpoint in (*OF_MODELS, *OF_SERVER)}
