"""The ASGI application: addresses, bodies, errors.

Every endpoint of a model is there twice, as ``/v1/act`` for the first model and as ``/v1/models/{name}/act`` for each
of them. Batches have paths of their own (``/v1/act/batch``), so that every path has one kind of request and one of
answer: a type in the OpenAPI description, and in clients made from it, is then never "either of two".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from gappletron.base.errors import (
    KeyReused,
    NotDeciding,
    SpentReceipt,
    TooManyWaiting,
    Unavailable,
    UnknownReceipt,
    UserError,
)
from gappletron.base.text import unknown
from gappletron.service import openapi, pages
from gappletron.service.access import Access
from gappletron.service.hosted import Hosted, Key
from gappletron.service.metrics import CONTENT_TYPE, Metrics
from gappletron.service.schemas import (
    ActRecord,
    ActRecords,
    ActVector,
    ActVectors,
    Failure,
    Feedback,
    Feedbacks,
    Forget,
    ForgetMany,
    Health,
    Models,
)
from gappletron.service.upkeep import look_after

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

__all__ = ["MAX_BODY", "create_app"]

MAX_BODY = 16_000_000
"""The largest body that is read, in bytes."""
LONGEST_KEY = 200
"""Characters of an idempotency key."""
JSON = "application/json"

log = logging.getLogger("gappletron.service")
encoded = msgspec.json.Encoder().encode

STATUS: tuple[tuple[type[Exception], int], ...] = (
    (UnknownReceipt, 404),
    (SpentReceipt, 409),
    (NotDeciding, 409),
    (KeyReused, 422),
    (TooManyWaiting, 429),
    (Unavailable, 503),
    (OSError, 503),
    (UserError, 422),
)
"""The first class that an exception belongs to decides; everything else is an error of ours."""
RETRY_AFTER = {429: "1", 503: "5"}
"""Seconds after which it may be tried again."""


class Refusal(Exception):
    """A request that no model has looked at: its status and its sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def create_app(models: Sequence[Hosted], *, tokens: Sequence[str] = (), max_body: int = MAX_BODY) -> Counted:
    """The service for these models, as an ASGI application; it closes them when it shuts down.

    :param tokens: one of them must be in the header ``Authorization: Bearer ...``; without any, requests must be for
        a name of this machine.
    :param max_body: bytes that a request may have.

    >>> from gappletron.service.app import create_app
    >>> create_app([])
    Traceback (most recent call last):
        ...
    gappletron.UserError: there is no model to serve: give at least one
    """
    if not models:
        raise UserError("there is no model to serve: give at least one")
    names = [hosted.name for hosted in models]
    if len(set(names)) < len(names):
        raise UserError(f"two models have the same name among {', '.join(names)}: give each its own, as in NAME=FOLDER")
    for hosted in models:
        hosted.warm_up()
    service = Service(models, Access(tokens), max_body)
    return Counted(Starlette(routes=service.routes(), lifespan=service.lifespan, exception_handlers=HANDLERS), service)


class Service:
    """The endpoints, with what they share."""

    def __init__(self, models: Sequence[Hosted], access: Access, max_body: int) -> None:
        self.models = {hosted.name: hosted for hosted in models}
        self.first = models[0]
        self.access, self.max_body = access, max_body
        self.failures: list[str] = []
        """Why models could not be closed."""
        self.metrics = Metrics(models)
        description = openapi.document(
            needs_token=not access.is_open, takes_records=self.first.model.encoder is not None
        )
        self.description, self.pages = encoded(description), pages.rendered(description)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Look after the models meanwhile, and close them at the end."""
        care = asyncio.create_task(look_after(list(self.models.values())))
        try:
            yield
        finally:
            care.cancel()
            await asyncio.wait([care])
            for hosted in self.models.values():
                try:
                    await hosted.close()
                except (UserError, OSError) as error:  # the others are closed all the same
                    self.failures.append(str(error))

    def routes(self) -> list[Route]:
        """Every address; the busy ones first, since they are tried in this order."""
        posts = {
            "/act": self.act,
            "/learn": self.learn,
            "/act/batch": self.act_many,
            "/learn/batch": self.learn_many,
            "/predict": self.predict,
            "/predict/batch": self.predict_many,
            "/forget": self.forget,
            "/forget/batch": self.forget_many,
        }
        gets = {"/model": self.model, "/estimates": self.estimates}
        found = []
        for prefix in ("/v1", "/v1/models/{name}"):
            found += [Route(prefix + path, self.guarded(call), methods=["POST"]) for path, call in posts.items()]
            found += [Route(prefix + path, self.guarded(call), methods=["GET"]) for path, call in gets.items()]
        found += [
            Route("/v1/models", self.guarded(self.list_models), methods=["GET"]),
            Route("/metrics", self.guarded(self.show_metrics), methods=["GET"]),
            Route("/v1/health", self.health, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
        ]
        found += [Route(path, page_endpoint(page), methods=["GET"]) for path, page in self.pages.items()]
        return found

    def guarded(self, call: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint for those who may use it."""

        async def endpoint(request: Request) -> Response:
            headers = request.headers
            if self.access.is_open:
                if not self.access.is_local(headers.get("host")):
                    raise Refusal(
                        403,
                        "this server has no tokens, so it answers to localhost and 127.0.0.1 only: use these names, or "
                        "start it with --token-file",
                    )
            elif not self.access.is_granted(headers.get("authorization")):
                raise Refusal(401, "a token of this server is missing or wrong: send Authorization: Bearer TOKEN")
            return await call(request)

        return endpoint

    # ---------------------------------------------------------------------------------------------------------- models

    def hosted(self, request: Request) -> Hosted:
        """The model that the address names."""
        name = request.path_params.get("name")
        if name is None:
            return self.first
        found = self.models.get(name)
        if found is None:
            raise Refusal(404, str(unknown(name, "model", list(self.models))))
        return found

    async def act(self, request: Request) -> Response:
        hosted = self.hosted(request)
        body = await self.body(request)
        asked = ACT_RECORD(body) if hosted.model.encoder is not None else ACT_VECTOR(body)
        return answer(await hosted.act(asked.x, key_of(request, "act", body)))

    async def act_many(self, request: Request) -> Response:
        hosted = self.hosted(request)
        body = await self.body(request)
        asked = ACT_RECORDS(body) if hosted.model.encoder is not None else ACT_VECTORS(body)
        return answer(await hosted.act_many(asked.rows, key_of(request, "act/batch", body)))

    async def learn(self, request: Request) -> Response:
        hosted = self.hosted(request)
        body = await self.body(request)
        asked = FEEDBACK(body)
        check_feedback(asked, "")
        return answer(await hosted.learn([asked], key_of(request, "learn", body)))

    async def learn_many(self, request: Request) -> Response:
        hosted = self.hosted(request)
        body = await self.body(request)
        asked = FEEDBACKS(body).feedback
        for place, each in enumerate(asked):
            check_feedback(each, f" in feedback[{place}]")
        return answer(await hosted.learn(asked, key_of(request, "learn/batch", body)))

    async def forget(self, request: Request) -> Response:
        hosted = self.hosted(request)
        body = await self.body(request)
        return answer(await hosted.forget([FORGET(body).id], key_of(request, "forget", body)))

    async def forget_many(self, request: Request) -> Response:
        hosted = self.hosted(request)
        body = await self.body(request)
        return answer(await hosted.forget(FORGET_MANY(body).ids, key_of(request, "forget/batch", body)))

    async def predict(self, request: Request) -> Response:
        hosted = self.hosted(request)
        body = await self.body(request)
        asked = ACT_RECORD(body) if hosted.model.encoder is not None else ACT_VECTOR(body)
        return answer(hosted.predict(asked.x))

    async def predict_many(self, request: Request) -> Response:
        hosted = self.hosted(request)
        body = await self.body(request)
        asked = ACT_RECORDS(body) if hosted.model.encoder is not None else ACT_VECTORS(body)
        return answer(hosted.predict_many(asked.rows))

    async def model(self, request: Request) -> Response:
        return answer(encoded(await self.hosted(request).info()))

    async def estimates(self, request: Request) -> Response:
        return answer(encoded(await self.hosted(request).estimates()))

    async def list_models(self, request: Request) -> Response:
        return answer(encoded(Models([await hosted.info() for hosted in self.models.values()])))

    # ------------------------------------------------------------------------------------------------------- the others

    async def health(self, request: Request) -> Response:
        """503 only where decisions cannot be stored: a probe that restarts the server on other problems would not cure
        them. A shadow decides nothing.
        """
        found = [(hosted, hosted.problem) for hosted in self.models.values()]
        problems = [problem for _, problem in found if problem is not None]
        for hosted, problem in found:
            if problem is not None and hosted.champion is None and not hosted.is_storing:
                raise Unavailable(problem)
        return answer(encoded(Health("degraded", problems) if problems else Health("ok")))

    async def show_metrics(self, request: Request) -> Response:
        return Response(await self.metrics.text(), media_type=CONTENT_TYPE)

    async def openapi(self, request: Request) -> Response:
        return answer(self.description)

    async def body(self, request: Request) -> bytes:
        """The body of a request, if it is JSON and not too large."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            # A browser sends other types for any page, without asking the server first.
            raise Refusal(415, f"the body must be JSON: send the header Content-Type: {JSON}")
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > self.max_body:
            raise self.too_large()
        parts, size = [], 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > self.max_body:
                raise self.too_large()
        return b"".join(parts)

    def too_large(self) -> Refusal:
        return Refusal(
            413, f"the body has more than {self.max_body:,} bytes: send fewer rows at a time, or raise --max-body"
        )


# ------------------------------------------------------------------------------------------------- requests and answers


def reading(kind: type[Any]) -> Callable[[bytes], Any]:
    """A function that decodes and checks a body."""
    decode = msgspec.json.Decoder(kind).decode

    def read(body: bytes) -> Any:
        try:
            return decode(body)
        except msgspec.ValidationError as error:
            raise Refusal(400, f"the body is not as it must be: {error} (see /docs)") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refusal(400, f"the body is not JSON that can be read: {error}") from None

    return read


ACT_RECORD, ACT_RECORDS = reading(ActRecord), reading(ActRecords)
ACT_VECTOR, ACT_VECTORS = reading(ActVector), reading(ActVectors)
FEEDBACK, FEEDBACKS = reading(Feedback), reading(Feedbacks)
FORGET, FORGET_MANY = reading(Forget), reading(ForgetMany)


def check_feedback(feedback: Feedback, where: str) -> None:
    """Refuse feedback that says nothing, or two things."""
    if (feedback.label is msgspec.UNSET) is (feedback.unseen is msgspec.UNSET) or feedback.unseen is False:
        raise Refusal(400, f'there must be either a "label" or "unseen": true{where}')


def key_of(request: Request, endpoint: str, body: bytes) -> Key | None:
    """The idempotency key of a request, which may be in quotes, as the draft of the IETF has it."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    name = given[1:-1] if len(given) > 1 and given[0] == given[-1] == '"' else given
    if not 0 < len(name) <= LONGEST_KEY or not name.isascii() or not name.isprintable():
        raise Refusal(400, f"the Idempotency-Key must have 1 to {LONGEST_KEY} printable ASCII characters")
    return Key.of(endpoint, name, body)


def answer(content: bytes) -> Response:
    """JSON that was encoded before."""
    return Response(content, media_type=JSON)


def page_endpoint(page: pages.Page) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(_: Request) -> Response:
        return Response(page.content, media_type="text/html", headers=page.headers)

    return endpoint


def failure(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """An error as JSON."""
    merged = dict(headers or {})
    if status in RETRY_AFTER:
        merged["Retry-After"] = RETRY_AFTER[status]
    if status == 401:
        merged["WWW-Authenticate"] = "Bearer"
    if status == 413:
        merged["Connection"] = "close"  # the rest of the body is not read
    return Response(encoded(Failure(sentence)), status, merged, JSON)


async def on_refusal(_: Request, error: Exception) -> Response:
    return failure(getattr(error, "status", 400), str(error))


async def on_model_error(_: Request, error: Exception) -> Response:
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    return failure(status, str(error))


async def on_http_error(request: Request, error: Exception) -> Response:
    """What Starlette found: an address that is not there, or a method that it does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    sentences = {
        404: f"there is nothing at {request.url.path}: see /docs for the addresses",
        405: f"{request.url.path} does not take {request.method}: see /docs",
    }
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return failure(status, sentences.get(status, str(error)), headers)


async def on_disconnect(_: Request, __: Exception) -> Response:
    return failure(400, "the connection was closed before the body was complete")  # nobody reads it


async def on_bug(_: Request, __: Exception) -> Response:
    return failure(500, "an error in the service, which has noted it: please report it")


HANDLERS: dict[Any, Any] = {
    Refusal: on_refusal,
    UserError: on_model_error,
    OSError: on_model_error,
    HTTPException: on_http_error,
    ClientDisconnect: on_disconnect,
    Exception: on_bug,
}


class Counted:
    """Around the application: the time of every request, and its status."""

    def __init__(self, app: Starlette, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sent)
        finally:
            route = scope.get("route")
            endpoint = "other" if route is None else route.path
            self.service.metrics.count(endpoint, status, time.perf_counter() - begin)
