"""The OpenAPI 3.1 description of the service, made from the table of endpoints and the classes of their bodies."""

import json
from pathlib import Path
from typing import Any

import msgspec

from gappletron.base.version import __version__
from gappletron.service import schemas
from gappletron.service.endpoints import ANY_MODEL, FIRST_MODEL, OF_FLEET, OF_MODELS, OF_SERVER, Endpoint

# What is said of the endpoints, of errors and of parameters, and an example of each class of bodies.
TEXTS = json.loads(Path(__file__).with_name("description.json").read_text(encoding="utf-8"))
TEXTS["examples"]["Models"] = {"models": [TEXTS["examples"]["ModelInfo"]]}
KEY, NAME = TEXTS["parameters"]["key"], TEXTS["parameters"]["name"]
KEY["schema"]["maxLength"] = schemas.LONGEST_KEY
RETRY_AFTER = {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}


def describe_service(*, needs_token: bool, takes_records: bool | None) -> dict[str, Any]:
    """Return the description of a server whose first model takes records, or vectors; None: of a fleet.

    >>> found = describe_service(needs_token=False, takes_records=True)
    >>> found["openapi"], sorted(found["paths"]["/v1/act"]["post"]["responses"])
    ('3.1.0', ['200', '400', '403', '409', '413', '415', '422', '429', '503'])
    """
    refused = 401 if needs_token else 403
    paths: dict[str, Any] = {}
    if takes_records is not None:
        for each in OF_MODELS:
            request = each.request[0 if takes_records else -1 :][:1]
            paths[FIRST_MODEL + each.path] = _describe(each, "The first model", request, (refused,))
    of_server = OF_SERVER if takes_records is not None else (*OF_SERVER, *OF_FLEET)
    moved = () if takes_records is not None else (307, 503)
    for each in OF_MODELS:
        described = _describe(each, "One of several models", each.request, (refused, 404, *moved), (NAME,))
        described[each.method.lower()]["operationId"] += "OfModel"
        paths[ANY_MODEL + each.path] = described
    for each in of_server:
        paths[each.path] = _describe(each, "The server", each.request, () if each.is_public else (refused,))
    names = ["Failure", *(name for each in (*OF_MODELS, *of_server) for name in (*each.request, each.answer) if name)]
    classes = [getattr(schemas, name) for name in names]
    _, components = msgspec.json.schema_components(classes, ref_template="#/components/schemas/{name}")
    components["Feedback"]["oneOf"] = [{"required": ["label"]}, {"required": ["unseen"]}]  # classes cannot say this
    security = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if needs_token else {}
    return {
        "openapi": "3.1.0",
        "info": {"version": __version__, **TEXTS["info"]},
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
    summary, _, about = TEXTS["endpoints"][endpoint.handler].partition(". ")
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
    return {"application/json": {"schema": schema, "example": example or TEXTS["examples"][names[0]]}}


def _describe_error(status: int) -> dict[str, Any]:
    sentence = TEXTS["errors"][str(status)]
    headers = {"headers": {"Retry-After": RETRY_AFTER}} if status in schemas.RETRY_AFTER else {}
    return {"description": sentence, "content": _content("Failure", example={"error": sentence}), **headers}
