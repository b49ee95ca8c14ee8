"""The ASGI application: routes, bodies, errors, times. The endpoints are in :mod:`gappletron.service.endpoints`."""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from gappletron.base import errors
from gappletron.base.errors import Unavailable, UserError
from gappletron.base.text import unknown
from gappletron.online.follower import Lag
from gappletron.service import schemas
from gappletron.service.endpoints import ANY_MODEL, FIRST_MODEL, OF_MODELS, OF_SERVER, Endpoint
from gappletron.service.metrics import Metrics
from gappletron.service.models import HostedModel, encode_json, look_after, tell_when_compiled
from gappletron.service.openapi import describe_service
from gappletron.service.pages import render_pages
from gappletron.service.roles import Key
from gappletron.service.schemas import LONGEST_KEY, RETRY_AFTER, Failure, Health, Models
from gappletron.service.standby import Standby
from gappletron.service.tokens import Token, find_token, is_local

# The largest body that is read, in bytes.
MAX_BODY = 16_000_000
# A body of so many bytes asks for a long step.
LONG_BODY = 4_096
JSON = "application/json"

# The first class that an exception belongs to decides; everything else is an error of ours.
STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.UnknownReceipt, 404),
    (errors.SpentReceipt, 409),
    (errors.NotDeciding, 409),
    (errors.KeyReused, 422),
    (errors.TooManyWaiting, 429),
    (Unavailable, 503),
    (OSError, 503),
    (UserError, 422),
    (ClientDisconnect, 400),
)

access = logging.getLogger("gappletron.access")

Call = Callable[[Request], Awaitable[Response]]


class Refusal(HTTPException):
    """A request that no model has looked at: its status and its sentence."""


class Service:
    """The models behind their endpoints, as an ASGI application."""

    # What the addresses of models begin with, and the endpoints of the server.
    prefixes: tuple[str, ...] = (FIRST_MODEL, ANY_MODEL)
    of_server: tuple[Endpoint, ...] = OF_SERVER

    def __init__(
        self,
        models: Sequence[HostedModel],
        tokens: Sequence[Token | str],
        max_body: int,
        *,
        logs_access: bool = False,
        standbys: Sequence[Standby] = (),
    ) -> None:
        self.standbys = standbys
        self.models = {hosted.name: hosted for hosted in models}
        self.tokens = [Token(each) if isinstance(each, str) else each for each in tokens]
        self.max_body, self.logs_access = max_body, logs_access
        # Why models could not be closed.
        self.failures: list[str] = []
        self.metrics = Metrics(models)
        handlers: dict[Any, Any] = dict.fromkeys((*dict(STATUS), HTTPException, Exception), show_error)
        self.app = Starlette(routes=self.routes(), lifespan=self.lifespan, exception_handlers=handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and count it with its time and its status."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_on)
        finally:
            route = scope.get("route")
            seconds = time.perf_counter() - begin
            self.metrics.count("other" if route is None else route.path, status, seconds)
            if self.logs_access:
                log_access(scope, status, seconds)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Look after the models meanwhile, and close them at the end."""
        jobs = look_after(list(self.models.values())), tell_when_compiled(), *(each.run() for each in self.standbys)
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for hosted in self.models.values():
                try:
                    await hosted.close()
                except (UserError, OSError) as error:  # the others are closed all the same
                    self.failures.append(str(error))

    # ---------------------------------------------------------------------------------------------------------- routes

    def routes(self) -> list[Route]:
        """Return every address with what answers there."""
        routes = [
            Route(prefix + endpoint.path, self.guard(self.call_model(endpoint)), methods=[endpoint.method])
            for prefix in self.prefixes
            for endpoint in OF_MODELS
        ]
        for endpoint in self.of_server:
            call = getattr(self, endpoint.handler)
            call = call if endpoint.is_public else self.guard(call)
            routes.append(Route(endpoint.path, call, methods=[endpoint.method]))
        description = describe_service(needs_token=bool(self.tokens), takes_records=self.takes_records)
        pages = {"/openapi.json": Response(encode_json(description), media_type=JSON), **render_pages(description)}
        return routes + [Route(path, page, methods=["GET"]) for path, page in pages.items()]

    @property
    def takes_records(self) -> bool | None:
        """Whether the first model takes records; None where there is no first model."""
        return next(iter(self.models.values())).takes_records

    def guard(self, call: Call) -> Call:
        """Return a call that refuses those who may not make it."""

        async def guarded(request: Request) -> Response:
            self.check_access(request)
            return await call(request)

        return guarded

    def check_access(self, request: Request) -> None:
        """Refuse a request without a token, or without tokens one that is not for a name of this machine."""
        if self.tokens and find_token(request.headers.get("authorization"), self.tokens) is None:
            raise Refusal(401, "a token of this server is missing or wrong: send Authorization: Bearer TOKEN")
        if not self.tokens and not is_local(request.headers.get("host")):
            raise Refusal(403, "only localhost and 127.0.0.1 are served without tokens: use them, or --token-file")

    def check_right(self, request: Request) -> str | None:
        """Return the name of the token of a request, if it may change a model."""
        token = find_token(request.headers.get("authorization"), self.tokens)
        if token is not None and not token.may_change:
            raise Refusal(403, "this token may not change the model: use one of --admin-token-file")
        return None if token is None else token.name

    def call_model(self, endpoint: Endpoint) -> Call:
        """Return the call that hands the body of a request to the model that its address names."""
        decoders = [msgspec.json.Decoder(getattr(schemas, name)) for name in endpoint.request]

        async def call(request: Request) -> Response:
            hosted = self.find_model(request)
            if not decoders:
                return answer_json(await getattr(hosted, endpoint.handler)(), hosted.lag)
            who = self.check_right(request) if endpoint.is_change else None
            body = await self.read_body(request)
            is_long = len(body) >= LONG_BODY
            content = decode(decoders[0 if hosted.takes_records else -1], body)
            if is_long:
                await asyncio.sleep(0)  # to read it took long already: what else is ready has its turn
            if not endpoint.is_stored:
                deciding = hosted.champion if hosted.champion is not None and hosted.passes_on else hosted
                return answer_json(getattr(deciding, endpoint.handler)(content), deciding.lag)
            key = read_key(request, endpoint, body)
            return answer_json(await hosted.carry_out(endpoint, content, key, who, is_long=is_long))

        return call

    def find_model(self, request: Request) -> HostedModel:
        """Return the model that the address names."""
        name = request.path_params.get("name")
        if name is None:  # of the models that were promoted over the first, the present one
            first = next(iter(self.models.values()))
            return first.champion if first.passes_on and first.champion is not None else first
        found = self.models.get(name)
        if found is None:
            raise Refusal(404, str(unknown(name, "model", list(self.models))))
        return found

    async def read_body(self, request: Request) -> bytes:
        """Return the body of a request, if it is JSON and not too large."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            # A browser sends other types for any page, without asking the server first.
            raise Refusal(415, f"the body must be JSON: send the header Content-Type: {JSON}")
        too_large = Refusal(
            413, f"the body has more than {self.max_body:,} bytes: send fewer rows, or raise --max-body"
        )
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > self.max_body:
            raise too_large
        parts, size = [], 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > self.max_body:
                raise too_large
        return b"".join(parts)

    # ------------------------------------------------------------------------------------------------------- the server

    async def list_models(self, _: Request) -> Response:
        """Describe all models."""
        return answer_json(Models([await hosted.describe() for hosted in self.models.values()]))

    async def check_health(self, request: Request) -> Response:
        """Answer 503 only where decisions cannot be stored: a probe that restarts the server on other problems would
        not cure them. A shadow decides nothing. What is wrong, which names files, and how far the models are behind is
        for those who may ask everything.
        """
        lags = {name: hosted.lag for name, hosted in self.models.items()}
        following = {name: schemas.Following(*lag) for name, lag in lags.items() if lag is not None}
        problems = {name: hosted.problem for name, hosted in self.models.items() if hosted.problem is not None}
        try:
            self.check_access(request)
        except Refusal:
            problems = dict.fromkeys(problems, "something is wrong: ask with a token, or as localhost, to read what")
            following = {}
        for name, problem in problems.items():
            if self.models[name].champion is None and not self.models[name].is_storing:
                raise Unavailable(problem)
        return answer_json(Health("degraded" if problems else "ok", list(problems.values()), following))

    async def show_metrics(self, _: Request) -> Response:
        """Return what Prometheus reads."""
        return Response(await self.metrics.write(), media_type=CONTENT_TYPE_LATEST)


def log_access(scope: Scope, status: int, seconds: float) -> None:
    """Log a request: when it ended, from where it came, what it asked for, its status and its milliseconds."""
    now, client = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), scope.get("client")
    where = "-" if client is None else client[0]
    access.info("%s %s %s %s %d %.1f ms", now, where, scope["method"], scope["path"], status, 1000 * seconds)


def create_app(
    models: Sequence[HostedModel],
    *,
    tokens: Sequence[Token | str] = (),
    max_body: int = MAX_BODY,
    logs_access: bool = False,
    standbys: Sequence[Standby] = (),
) -> Service:
    """Return the service for these models, an ASGI application; it closes them when it shuts down.

    :param tokens: one of them must be in the header ``Authorization: Bearer ...``; without any, requests must be for
        a name of this machine.
    :param max_body: bytes that a request may have.
    :param logs_access: log a line for each request, as `gappletron.access`.
    :param standbys: what keeps models up with those of other servers.

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
        raise UserError(f"two models have the same name among {', '.join(names)}: give each its own, as in NAME=STORE")
    for hosted in models:
        hosted.warm_up()
    return Service(models, tokens, max_body, logs_access=logs_access, standbys=standbys)


# ------------------------------------------------------------------------------------------------- requests and answers


def decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """Return the body of a request as the class that it must be of."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the body is not as it must be: {error} (see /docs)") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON that can be read: {error}") from None


def read_key(request: Request, endpoint: Endpoint, body: bytes) -> Key | None:
    """Return the idempotency key of a request, which may be in quotes, as the draft of the IETF has it."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    name = given[1:-1] if len(given) > 1 and given[0] == given[-1] == '"' else given
    if not 0 < len(name) <= LONGEST_KEY or not name.isascii() or not name.isprintable():
        raise Refusal(400, f"the Idempotency-Key must have 1 to {LONGEST_KEY} printable ASCII characters")
    return Key(f"{name} {endpoint.path}", hashlib.blake2b(body, digest_size=16).digest())


def answer_json(answer: msgspec.Struct | msgspec.Raw, lag: Lag | None = None) -> Response:
    """Return the response that holds an answer, and how far the model behind it lags where another server leads."""
    headers = None if lag is None else {"Gappletron-Lag": f"rounds={lag.rounds}, seconds={lag.seconds:.3f}"}
    return Response(encode_json(answer), headers=headers, media_type=JSON)


async def show_error(request: Request, error: Exception) -> Response:
    """Return an error as JSON with one sentence."""
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        status, sentence = error.status_code, error.detail
        headers.update(error.headers or {})
        if not isinstance(error, Refusal):  # of Starlette
            missing = f"there is nothing at {request.url.path}: see /docs for the addresses"
            sentence = f"{request.url.path} does not take {request.method}: see /docs" if status == 405 else missing
    else:
        status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
        sentence = "an error in the service, which has noted it: please report it" if status == 500 else str(error)
    if status in RETRY_AFTER:
        headers["Retry-After"] = "1" if isinstance(error, errors.NotLeading) else RETRY_AFTER[status]
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status == 413:
        headers["Connection"] = "close"  # the rest of the body is not read
    return Response(encode_json(Failure(sentence)), status, headers, JSON)
