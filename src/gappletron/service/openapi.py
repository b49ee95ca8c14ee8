"""The OpenAPI 3.1 description of the service, made from the classes of :mod:`gappletron.service.schemas`."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from gappletron.base.version import __version__
from gappletron.service import schemas

__all__ = ["document"]

LABEL = {"type": ["string", "integer", "boolean", "null"], "description": "The name of a class or of an action."}

RECORD_FORMS = [
    {"type": "object", "title": "Record", "description": "Columns by name."},
    {"type": "string", "title": "Text"},
]
VECTOR_FORMS = [
    {"$ref": "#/components/schemas/Sparse"},
    {"type": "array", "title": "Dense", "items": {"type": "number"}},
]
X = {
    "Record": {"description": "The columns of a record by name, or a text.", "anyOf": RECORD_FORMS},
    "Vector": {"description": "A sparse vector, or all numbers of a dense one.", "anyOf": VECTOR_FORMS},
    "X": {
        "description": "For a model with an encoder a record (columns by name) or a text. For others a sparse vector, "
        "or a list of all numbers.",
        "anyOf": [*RECORD_FORMS, *VECTOR_FORMS],
    },
}
FEEDBACK = {
    "description": "The label of a decision, or that it stayed unseen.",
    "oneOf": [
        {
            "type": "object",
            "title": "Label",
            "properties": {"id": {"type": "string"}, "label": {"$ref": "#/components/schemas/Label"}},
            "required": ["id", "label"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "title": "Unseen",
            "properties": {"id": {"type": "string"}, "unseen": {"const": True}},
            "required": ["id", "unseen"],
            "additionalProperties": False,
        },
    ],
}


def _body(field: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with one field."""
    return {"type": "object", "properties": {field: schema}, "required": [field], "additionalProperties": False}


def _batch(field: str, kind: str) -> dict[str, Any]:
    """The schema of an object with a list of rows."""
    items = {"$ref": f"#/components/schemas/{kind}"}
    return _body(field, {"type": "array", "items": items, "minItems": 1, "maxItems": schemas.MOST_ROWS})


REQUESTS = {
    **X,
    "Label": LABEL,
    **{f"One{kind}": _body("x", {"$ref": f"#/components/schemas/{kind}"}) for kind in X},
    **{f"Many{kind}": _batch("rows", kind) for kind in X},
    "Feedback": FEEDBACK,
    "FeedbackBatch": _batch("feedback", "Feedback"),
    "Forget": _body("id", {"type": "string"}),
    "ForgetBatch": _body(
        "ids", {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": schemas.MOST_ROWS}
    ),
}
"""Requests by hand, since what x may be depends on the model, and feedback is one of two kinds."""

RECORD = {"message": "Win a prize, reply now!", "links": 3}
VECTOR = {"indices": [3, 59, 141], "values": [1.0, 2.0, 1.0]}
DECISION = {"id": "5f2b9c01a7de-41", "action": "ham", "probability": 0.93, "greedy": "ham", "reveals": ["ham", "spam"]}
PREDICTION = {"class": "spam", "classes": ["ham", "spam"], "probabilities": [0.12, 0.88]}
RATE = {"value": 0.041, "low": 0.029, "high": 0.056, "naive": 0.018}
REPORT = {
    "rounds": 1200,
    "judged": 1170,
    "labels_seen": 832,
    "explored": 48,
    "actions": {"ham": 871, "spam": 329},
    "alpha": 0.05,
    "policy": {"error": RATE, "cost": None, "classes": {}},
    "greedy": {"error": RATE, "cost": None, "classes": {}},
    "window": None,
    "alarm": None,
    "spent": None,
}
MODEL = {
    "name": "mail",
    "shadows": None,
    "learner": "auto",
    "graph": {
        "name": "filtering",
        "classes": ["ham", "spam"],
        "actions": ["ham", "spam"],
        "reveals": [["ham", "spam"], []],
    },
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
    "versions": {"gappletron": __version__},
    "estimates": REPORT,
}
POINT = {
    "round": 1200,
    "time": 1.76e9,
    "policy": [0.041, 0.029, 0.056, 0.018],
    "greedy": [0.030, 0.019, 0.044, 0.018],
    "labels_seen": 832,
    "explored": 48,
}

SENTENCES = {
    400: "The body is not JSON, or not of this form; or the idempotency key is not one.",
    401: "A token is missing or wrong.",
    403: "The server has no tokens, and the request is not for a name of this machine.",
    404: "There is no such model, or no such receipt.",
    409: "The receipt was learned from before or has expired; or the model shadows another and does not decide.",
    413: "The body is too large.",
    415: "The body is not declared as application/json.",
    422: "The features or the label cannot be used, or the idempotency key was used for another body.",
    429: "Too many receipts wait for feedback.",
    503: "It cannot be stored at present, for example since the disk is full.",
}


class Operation(NamedTuple):
    """One endpoint: where it is, what it takes and returns, and how it can fail."""

    name: str
    path: str
    summary: str
    about: str
    answer: str
    example: Any
    request: str | None = None
    request_example: Any = None
    failures: tuple[int, ...] = ()
    keyed: bool = False


POST = (400, 413, 415, 422)
DECIDING = (*POST, 409, 429, 503)
LEARNING = (*POST, 404, 409, 503)

OF_MODELS = (
    Operation(
        "act",
        "/act",
        "Decide",
        "Draws an action for x. It is stored before it is answered. Give feedback with the id, now or later.",
        "Decision",
        DECISION,
        "One",
        {"x": RECORD},
        DECIDING,
        keyed=True,
    ),
    Operation(
        "learn",
        "/learn",
        "Give feedback",
        "Learns the label of a decision, or that the round is over and the label stayed unseen.",
        "Learned",
        {"learned": 1},
        "Feedback",
        {"id": DECISION["id"], "label": "spam"},
        LEARNING,
        keyed=True,
    ),
    Operation(
        "predict",
        "/predict",
        "Predict",
        "The class that the model believes in, without exploration. It draws nothing, and nothing is stored.",
        "Prediction",
        PREDICTION,
        "One",
        {"x": RECORD},
        POST,
    ),
    Operation(
        "actBatch",
        "/act/batch",
        "Decide for many rows",
        "Decisions in the order of the rows. They are stored together: either all of them are made, or none.",
        "Decisions",
        {"decisions": [DECISION]},
        "Many",
        {"rows": [RECORD]},
        DECIDING,
        keyed=True,
    ),
    Operation(
        "learnBatch",
        "/learn/batch",
        "Give feedback for many decisions",
        "Either all of it is learned, or, where one piece cannot be, none.",
        "Learned",
        {"learned": 2},
        "FeedbackBatch",
        {"feedback": [{"id": DECISION["id"], "label": "ham"}, {"id": "5f2b9c01a7de-42", "unseen": True}]},
        LEARNING,
        keyed=True,
    ),
    Operation(
        "forget",
        "/forget",
        "Forget a decision",
        "Stops waiting for its feedback, since none will come; nothing is learned. Where the action hid the label, say "
        "that it stayed unseen instead (/learn): from that the model learns.",
        "Forgotten",
        {"forgotten": 1},
        "Forget",
        {"id": DECISION["id"]},
        LEARNING,
        keyed=True,
    ),
    Operation(
        "forgetBatch",
        "/forget/batch",
        "Forget many decisions",
        "Either all of them are forgotten, or, where one cannot be, none.",
        "Forgotten",
        {"forgotten": 2},
        "ForgetBatch",
        {"ids": [DECISION["id"], "5f2b9c01a7de-42"]},
        LEARNING,
        keyed=True,
    ),
    Operation(
        "predictBatch",
        "/predict/batch",
        "Predict many rows",
        "Predictions in the order of the rows, with probabilities in the order of the classes.",
        "Predictions",
        {"classes": ["ham", "spam"], "predictions": [{"class": "spam", "probabilities": [0.12, 0.88]}]},
        "Many",
        {"rows": [RECORD]},
        POST,
    ),
    Operation(
        "model",
        "/model",
        "Describe the model",
        "What it is, how many rounds it has played, and how well it does by its own estimate.",
        "ModelInfo",
        MODEL,
    ),
    Operation(
        "estimates",
        "/estimates",
        "Estimate the error",
        "The report of the monitor with its curve over the rounds, and the decisions in each of the last 120 seconds.",
        "Estimates",
        {"model": "mail", "rounds": 1200, "waiting": 30, "report": REPORT, "curve": [POINT], "activity": [0, 14, 12]},
    ),
)
OF_SERVER = (
    Operation("models", "/v1/models", "List the models", "All models, in their order.", "Models", {"models": [MODEL]}),
    Operation(
        "health",
        "/v1/health",
        "Is it well?",
        "Needs no token. 503 if decisions cannot be stored. `degraded` if they can, and something else is wrong, such "
        "as a snapshot that failed: starting the server again would not help.",
        "Health",
        {"status": "ok"},
        failures=(503,),
    ),
)

KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A name for this request, such as a UUID. A request with the same key and the same body gets the "
    "same answer again, and is done once. With another body it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
    "example": "b7d1c9f0-2f4e-4d0e-9a55-0d5a3c1f8e11",
}
NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The name of a model.",
    "schema": {"type": "string", "minLength": 1},
    "example": "mail",
}


def document(*, needs_token: bool, takes_records: bool) -> dict[str, Any]:
    """The description of a server whose first model takes records, or vectors.

    >>> found = document(needs_token=False, takes_records=True)
    >>> found["openapi"], sorted(found["paths"]["/v1/act"]["post"]["responses"])
    ('3.1.0', ['200', '400', '403', '409', '413', '415', '422', '429', '503'])
    """
    refused = 401 if needs_token else 403
    paths: dict[str, Any] = {}
    for prefix in ("/v1", "/v1/models/{name}"):
        for operation in OF_MODELS:
            named = prefix != "/v1"
            kind = "X" if named else "Record" if takes_records else "Vector"
            paths[prefix + operation.path] = _path(operation, refused, kind, named=named)
    for operation in OF_SERVER:
        paths[operation.path] = _path(operation, None if operation.name == "health" else refused, "X", named=False)
    paths["/metrics"] = {"get": _metrics(refused)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gappletron",
            "version": __version__,
            "summary": "Online classification when what you see depends on what you predict.",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "paths": paths,
        "components": {
            "schemas": _components(),
            **({"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if needs_token else {}),
        },
        **({"security": [{"token": []}]} if needs_token else {}),
    }


def _components() -> dict[str, Any]:
    answers = (
        schemas.Decision,
        schemas.Decisions,
        schemas.Learned,
        schemas.Forgotten,
        schemas.Prediction,
        schemas.Predictions,
        schemas.ModelInfo,
        schemas.Models,
        schemas.Estimates,
        schemas.Health,
        schemas.Failure,
        schemas.Sparse,
    )
    _, components = msgspec.json.schema_components(answers, ref_template="#/components/schemas/{name}")
    return {**components, **REQUESTS}


def _path(operation: Operation, refused: int | None, kind: str, *, named: bool) -> dict[str, Any]:
    failures = {*operation.failures, *([] if refused is None else [refused]), *([404] if named else [])}
    described: dict[str, Any] = {
        "operationId": operation.name + ("OfModel" if named else ""),
        "summary": operation.summary,
        "description": operation.about,
        "tags": ["One of several models" if named else "The first model" if operation in OF_MODELS else "The server"],
        "responses": {
            "200": _content("Done.", operation.answer, operation.example),
            **{str(status): _failure(status) for status in sorted(failures)},
        },
    }
    parameters = [*([NAME] if named else []), *([KEY] if operation.keyed else [])]
    if parameters:
        described["parameters"] = parameters
    if operation.name == "health":
        described["security"] = []
    if operation.request is None:
        return {"get": described}
    example = operation.request_example
    if kind == "Vector":
        example = {"One": {"x": VECTOR}, "Many": {"rows": [VECTOR]}}.get(operation.request, example)
    name = operation.request + (kind if operation.request in ("One", "Many") else "")
    described["requestBody"] = {"required": True, "content": {"application/json": _schema(name, example)}}
    return {"post": described}


def _content(description: str, schema: str, example: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": _schema(schema, example)}}


def _schema(name: str, example: Any) -> dict[str, Any]:
    return {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": example}


def _failure(status: int) -> dict[str, Any]:
    found = _content(SENTENCES[status], "Failure", {"error": SENTENCES[status]})
    if status in (429, 503):
        found["headers"] = {
            "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}
        }
    return found


def _metrics(refused: int) -> dict[str, Any]:
    return {
        "operationId": "metrics",
        "summary": "Metrics",
        "description": "Counters and estimates in the text format of Prometheus.",
        "tags": ["The server"],
        "responses": {
            "200": {"description": "Done.", "content": {"text/plain": {"schema": {"type": "string"}}}},
            str(refused): _failure(refused),
        },
    }
