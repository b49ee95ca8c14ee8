"""The OpenAPI 3.1 description of the service, made from the table of endpoints and the classes of their bodies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from gappletron.base.version import __version__
from gappletron.service import schemas
from gappletron.service.endpoints import ANY_MODEL, FIRST_MODEL, OF_MODELS, OF_SERVER, Endpoint

EXAMPLES = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))
"""An example of each class of bodies."""
EXAMPLES["Models"] = {"models": [EXAMPLES["ModelInfo"]]}
ERRORS = {
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
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A name for this request, such as a UUID. A request with the same key and the same body gets the "
    "same answer again, and is done once. With another body it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": schemas.LONGEST_KEY, "pattern": "^[ -~]+$"},
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
RETRY_AFTER = {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}


def describe_service(*, needs_token: bool, takes_records: bool) -> dict[str, Any]:
    """Return the description of a server whose first model takes records, or vectors.

    >>> found = describe_service(needs_token=False, takes_records=True)
    >>> found["openapi"], sorted(found["paths"]["/v1/act"]["post"]["responses"])
    ('3.1.0', ['200', '400', '403', '409', '413', '415', '422', '429', '503'])
    """
    refused = 401 if needs_token else 403
    place = 0 if takes_records else -1
    paths = {
        FIRST_MODEL + each.path: _describe(each, "The first model", each.request[place:][:1], (refused,))
        for each in OF_MODELS
    }
    for each in OF_MODELS:
        described = _describe(each, "One of several models", each.request, (refused, 404), (NAME,))
        described[each.method.lower()]["operationId"] += "OfModel"
        paths[ANY_MODEL + each.path] = described
    for each in OF_SERVER:
        paths[each.path] = _describe(each, "The server", each.request, () if each.is_public else (refused,))
    names = ["Failure", *(name for each in (*OF_MODELS, *OF_SERVER) for name in (*each.request, each.answer) if name)]
    classes = [getattr(schemas, name) for name in names]
    _, components = msgspec.json.schema_components(classes, ref_template="#/components/schemas/{name}")
    components["Feedback"]["oneOf"] = [{"required": ["label"]}, {"required": ["unseen"]}]  # classes cannot say this
    security = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if needs_token else {}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gappletron",
            "version": __version__,
            "summary": "Online classification when what you see depends on what you predict.",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "paths": paths,
        "components": {"schemas": components, **security},
        **({"security": [{"token": []}]} if needs_token else {}),
    }


def _describe(
    endpoint: Endpoint,
    tag: str,
    request: tuple[str, ...],
    more_errors: tuple[int, ...],
    parameters: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """Describe the endpoint at one of its addresses, where it takes one of these bodies."""
    summary, _, about = endpoint.about.partition(". ")
    errors = sorted({*endpoint.errors, *more_errors})
    answer = {"text/plain": {"schema": {"type": "string"}}} if endpoint.answer is None else _content(endpoint.answer)
    described: dict[str, Any] = {
        "operationId": endpoint.operation,
        "summary": summary,
        "description": about,
        "tags": [tag],
        "responses": {
            "200": {"description": "Done.", "content": answer},
            **{str(status): _describe_error(status) for status in errors},
        },
    }
    if endpoint.is_stored:
        parameters = (*parameters, KEY)
    if parameters:
        described["parameters"] = list(parameters)
    if endpoint.is_public:
        described["security"] = []
    if request:
        described["requestBody"] = {"required": True, "content": _content(*request)}
    return {endpoint.method.lower(): described}


def _content(*names: str, example: Any = None) -> dict[str, Any]:
    """Describe JSON that is of one of these classes."""
    forms = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    schema = forms[0] if len(forms) == 1 else {"anyOf": forms}
    return {"application/json": {"schema": schema, "example": example or EXAMPLES[names[0]]}}


def _describe_error(status: int) -> dict[str, Any]:
    sentence = ERRORS[status]
    headers = {"headers": {"Retry-After": RETRY_AFTER}} if status in schemas.RETRY_AFTER else {}
    return {"description": sentence, "content": _content("Failure", example={"error": sentence}), **headers}
