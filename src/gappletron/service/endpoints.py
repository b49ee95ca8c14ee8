"""The endpoints of the service: one table, from which routes, the OpenAPI description and the client's paths come.

To add an endpoint, add an entry here, the classes of its bodies to :mod:`gappletron.service.schemas`, and the method
that it names to :class:`~gappletron.service.models.HostedModel` or to :class:`~gappletron.service.app.Service`. This
module imports nothing, since the client reads it too.

Every endpoint of a model is there twice, as ``/v1/act`` for the first model and as ``/v1/models/{name}/act`` for each
of them. Batches have paths of their own (``/v1/act/batch``), so that every path has one kind of request and one of
answer: a type in the OpenAPI description, and in clients made from it, is then never "either of two".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

FIRST_MODEL, ANY_MODEL = "/v1", "/v1/models/{name}"
"""What the paths of endpoints of a model begin with."""


class Body(NamedTuple):
    """The JSON of a request or an answer: the class in :mod:`gappletron.service.schemas`, and an example."""

    schema: str
    example: Any


@dataclass(frozen=True)
class Endpoint:
    """One endpoint: where it is, who answers, what it takes and returns, and how it can fail.

    :param path: after the prefix of a model; of an endpoint of the server the whole.
    :param handler: the method that answers.
    :param request: the body; two where it differs between models that take records and models that take vectors; none
        for GET.
    :param answer: None where it is not JSON.
    :param errors: status codes; those of access and of names of models are added.
    :param is_stored: whether the answer waits until the request is durable, and may be asked for again by its key.
    :param is_public: whether anyone may ask, without a token.

    >>> BY_HANDLER["act_many"].method, BY_HANDLER["act_many"].operation
    ('POST', 'actBatch')
    """

    path: str
    handler: str
    summary: str
    about: str
    request: tuple[Body, ...]
    answer: Body | None
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


RECORD = {"message": "Win a prize, reply now!", "links": 3}
VECTOR = {"indices": [3, 59, 141], "values": [1.0, 2.0, 1.0]}
ONE_ROW = (Body("OneRecord", {"x": RECORD}), Body("OneVector", {"x": VECTOR}))
MANY_ROWS = (Body("ManyRecords", {"rows": [RECORD]}), Body("ManyVectors", {"rows": [VECTOR]}))

ID, OTHER_ID = "5f2b9c01a7de-41", "5f2b9c01a7de-42"
DECISION = {"id": ID, "action": "ham", "probability": 0.93, "greedy": "ham", "reveals": ["ham", "spam"]}
PREDICTION = {"class": "spam", "probabilities": [0.12, 0.88]}
RATES = {"error": {"value": 0.041, "low": 0.029, "high": 0.056, "naive": 0.018}, "cost": None, "classes": {}}
REPORT = {
    "rounds": 1200,
    "judged": 1170,
    "labels_seen": 832,
    "explored": 48,
    "actions": {"ham": 871, "spam": 329},
    "alpha": 0.05,
    "policy": RATES,
    "greedy": RATES,
    "window": None,
    "alarm": None,
    "spent": None,
}
POINT = {
    "round": 1200,
    "time": 1.76e9,
    "policy": [0.041, 0.029, 0.056, 0.018],
    "greedy": [0.030, 0.019, 0.044, 0.018],
    "labels_seen": 832,
    "explored": 48,
}
CLASSES = ["ham", "spam"]
MODEL = {
    "name": "mail",
    "shadows": None,
    "learner": "auto",
    "graph": {"name": "filtering", "classes": CLASSES, "actions": CLASSES, "reveals": [CLASSES, []]},
    "features": 262144,
    "encoder": {"text": ["message"]},
    "columns": {
        "strict": False,
        "missing": {"records": 2, "columns": {"message": 2}},
        "undeclared": {"records": 2, "columns": {"mesage": 2}},
    },
    "example": {"message": "some words"},
    "rounds": 1200,
    "waiting": 30,
    "limits": {
        "min_propensity": 0.02,
        "budget": {"limit": 50.0, "per": 1000, "prices": None},
        "spent": 7.0,
        "pending": 1000000,
        "pending_bytes": 268435456,
        "pending_age": None,
        "max_waiting": None,
    },
    "problem": None,
    "versions": {"gappletron": "0.3.0", "python": "3.13.1", "numpy": "2.3.0"},
    "estimates": REPORT,
}
CURVE = {"model": "mail", "rounds": 1200, "waiting": 30, "report": REPORT, "curve": [POINT], "activity": [0, 14, 12]}

READING = (400, 413, 415, 422)
DECIDING = (*READING, 409, 429, 503)
LEARNING = (*READING, 404, 409, 503)

OF_MODELS = (  # the busy ones first, since addresses are tried in this order
    Endpoint(
        "/act",
        "act",
        "Decide",
        "Draws an action for x. It is stored before it is answered. Give feedback with the id, now or later.",
        ONE_ROW,
        Body("Decision", DECISION),
        DECIDING,
        is_stored=True,
    ),
    Endpoint(
        "/learn",
        "learn",
        "Give feedback",
        "Learns the label of a decision, or that the round is over and the label stayed unseen.",
        (Body("Feedback", {"id": ID, "label": "spam"}),),
        Body("Learned", {"learned": 1}),
        LEARNING,
        is_stored=True,
    ),
    Endpoint(
        "/predict",
        "predict",
        "Predict",
        "The class that the model believes in, without exploration. It draws nothing, and nothing is stored.",
        ONE_ROW,
        Body("Prediction", {**PREDICTION, "classes": CLASSES}),
        READING,
    ),
    Endpoint(
        "/act/batch",
        "act_many",
        "Decide for many rows",
        "Decisions in the order of the rows. They are stored together: either all of them are made, or none.",
        MANY_ROWS,
        Body("Decisions", {"decisions": [DECISION]}),
        DECIDING,
        is_stored=True,
    ),
    Endpoint(
        "/learn/batch",
        "learn_many",
        "Give feedback for many decisions",
        "Either all of it is learned, or, where one piece cannot be, none.",
        (Body("ManyFeedbacks", {"feedback": [{"id": ID, "label": "ham"}, {"id": OTHER_ID, "unseen": True}]}),),
        Body("Learned", {"learned": 2}),
        LEARNING,
        is_stored=True,
    ),
    Endpoint(
        "/forget",
        "forget",
        "Forget a decision",
        "Stops waiting for its feedback, since none will come; nothing is learned. Where the action hid the label, say "
        "that it stayed unseen instead (/learn): from that the model learns.",
        (Body("Forget", {"id": ID}),),
        Body("Forgotten", {"forgotten": 1}),
        LEARNING,
        is_stored=True,
    ),
    Endpoint(
        "/forget/batch",
        "forget_many",
        "Forget many decisions",
        "Either all of them are forgotten, or, where one cannot be, none.",
        (Body("ForgetMany", {"ids": [ID, OTHER_ID]}),),
        Body("Forgotten", {"forgotten": 2}),
        LEARNING,
        is_stored=True,
    ),
    Endpoint(
        "/predict/batch",
        "predict_many",
        "Predict many rows",
        "Predictions in the order of the rows, with probabilities in the order of the classes.",
        MANY_ROWS,
        Body("Predictions", {"classes": CLASSES, "predictions": [PREDICTION]}),
        READING,
    ),
    Endpoint(
        "/model",
        "describe",
        "Describe the model",
        "What it is, how many rounds it has played, and how well it does by its own estimate.",
        (),
        Body("ModelInfo", MODEL),
    ),
    Endpoint(
        "/estimates",
        "estimate",
        "Estimate the error",
        "The report of the monitor with its curve over the rounds, and the decisions in each of the last 120 seconds.",
        (),
        Body("Estimates", CURVE),
    ),
)
OF_SERVER = (
    Endpoint(
        "/v1/models",
        "list_models",
        "List the models",
        "All models, in their order.",
        (),
        Body("Models", {"models": [MODEL]}),
    ),
    Endpoint(
        "/v1/health",
        "check_health",
        "Is it well?",
        "Needs no token. 503 if decisions cannot be stored. `degraded` if they can, and something else is wrong, such "
        "as a snapshot that failed: starting the server again would not help.",
        (),
        Body("Health", {"status": "ok"}),
        (503,),
        is_public=True,
    ),
    Endpoint(
        "/metrics",
        "show_metrics",
        "Metrics",
        "Counters and estimates in the text format of Prometheus.",
        (),
        None,
    ),
)
BY_HANDLER = {endpoint.handler: endpoint for endpoint in (*OF_MODELS, *OF_SERVER)}
