"""A fleet: as many models as a database has, opened by their first request and closed when memory is needed.

One process has a model open at a time. Several may serve the same PostgreSQL database: a request for a model that
another process has open is answered with 307 and the address of that process (:mod:`gappletron.online.ownership`). The
models of a process that has died are opened by the others, again by their first request.
"""

import asyncio
import contextlib
import contextvars
import dataclasses
import logging
import re
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from prometheus_client import Metric
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from gappletron import Online
from gappletron.base.errors import Elsewhere, Unavailable, UserError
from gappletron.online.contents import Contents
from gappletron.online.database import Database, Missing
from gappletron.online.journal import Policy
from gappletron.online.opening import open_contents
from gappletron.online.shared import LANES, Shared
from gappletron.play.options import Options
from gappletron.service.app import MAX_BODY, Call, Refusal, Service, answer_json, decode
from gappletron.service.endpoints import ANY_MODEL, BY_HANDLER, OF_FLEET, OF_SERVER, Endpoint
from gappletron.service.metrics import COUNTER, GAUGE, Metrics
from gappletron.service.models import EVERY, HostedModel, look_after, tell_when_compiled
from gappletron.service.schemas import Health, Models, NewModel
from gappletron.service.tokens import Token

# Names that can be given over HTTP: they need no quoting in a file, an address or a shell.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}")
# So many models are opened or closed at the same moment.
OPENERS = 4
# Seconds for which another process is believed to have a model open.
BELIEVED = 0.5
# So many models are listed, and so many problems told.
LISTED = 20
# What a model takes beside its arrays, in bytes, about.
OBJECTS = 120_000
MODEL = "gappletron.model"

T = TypeVar("T")

log = logging.getLogger("gappletron.service")


class Fleet:
    """The models of a database that are open in this process.

    :param options: those of :meth:`gappletron.Online.open`. How models are stored, and what may change of them, holds
        for all; the rest is for new ones.
    :param makes: whether new models may be made, all by these options. Their seeds differ.
    :param most_bytes: beyond this memory the models that were not used for longest are closed.
    :param hosting: arguments of :class:`HostedModel`.
    """

    def __init__(
        self, shared: Shared, options: Mapping[str, Any], *, makes: bool, most_bytes: int, hosting: Mapping[str, Any]
    ) -> None:
        self.shared, self.makes, self.most_bytes, self._hosting = shared, makes, most_bytes, hosting
        policy = {field.name for field in dataclasses.fields(Policy)}
        self._policy = Policy(**{name: value for name, value in options.items() if name in policy})
        self._template = {name: value for name, value in options.items() if name not in policy}
        self._changes = {name: value for name, value in self._template.items() if name in Options.may_change()}
        # The one that was used last is the last.
        self._open: OrderedDict[str, _Member] = OrderedDict()
        # What opens or closes a model at present.
        self._busy: dict[str, asyncio.Task[None]] = {}
        # How many requests need a model: it is not closed meanwhile.
        self._wanted: Counter[str] = Counter()
        # How many requests make a model that is not there.
        self._making: Counter[str] = Counter()
        # Which models other processes have open: the sentence, the address, and until when this is believed.
        self._elsewhere: dict[str, tuple[str, str, float]] = {}
        self._warm: set[tuple[Any, ...]] = set()
        self._openers = ThreadPoolExecutor(OPENERS, "open")
        self._committers = ThreadPoolExecutor(LANES, "commit")
        # Since the start: models opened, closed, made, and requests that were sent to other processes.
        self.counts = Counter(opened=0, closed=0, created=0, redirected=0)
        self._done = Counter(decisions=0, feedback=0)  # of models that are closed
        self.nbytes = 0

    def __iter__(self) -> Iterator[HostedModel]:
        """Yield the open models, that which was used last first."""
        return iter([member.hosted for member in reversed(self._open.values())])

    def __len__(self) -> int:
        return len(self._open)

    @property
    def done(self) -> dict[str, int]:
        """Decisions and pieces of feedback since the start."""
        return {name: self._done[name] + sum(getattr(hosted, name) for hosted in self) for name in self._done}

    def warm_up(self) -> None:
        """Ask for the machine code that new models need, before requests come."""
        if self.makes:
            hosted = HostedModel("new", Online(**{"monitor": True, **self._template}), **self._hosting)
            self._warm_up(hosted, hosted.model._contents)
            hosted.commits.close()

    def _warm_up(self, hosted: HostedModel, contents: Contents) -> None:
        """Ask for machine code, if no model of this kind was here before."""
        model = hosted.model
        kind = (model.learner.name, model.graph.n_classes, model.graph.n_actions, hosted.takes_records)
        if kind not in self._warm:
            hosted.warm_up()
            contents.player.engine.find_repeat()  # what was logged since the last snapshot is played again
            self._warm.add(kind)

    # ---------------------------------------------------------------------------------------------------------- using

    @contextlib.asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[HostedModel]:
        """Provide a model, which stays open inside of the block.

        :class:`Missing` where there is none of this name, :class:`Elsewhere` where another process has it open.
        """
        self._wanted[name] += 1
        try:
            yield (await self._find(name)).hosted
        finally:
            self._let_go(name)

    @contextlib.asynccontextmanager
    async def create(self, name: str) -> AsyncIterator[HostedModel]:
        """Provide a model as :meth:`use` does, which is made where there is none of this name."""
        self._wanted[name] += 1
        try:
            try:
                found = await self._find(name)
            except Missing:
                found = await self._make(name)
            yield found.hosted
        finally:
            self._let_go(name)

    async def _make(self, name: str) -> "_Member":
        """Return a model of a name that was not there, which is made by whichever request opens it from now on."""
        self._making[name] += 1
        try:
            try:
                return await self._find(name)
            except Missing:  # of an opening that had begun before
                return await self._find(name)
        finally:
            self._making[name] -= 1
            if not self._making[name]:
                del self._making[name]

    def _let_go(self, name: str) -> None:
        self._wanted[name] -= 1
        if not self._wanted[name]:
            del self._wanted[name]

    async def _find(self, name: str) -> "_Member":
        """Return a model that is open, or is opened now."""
        while True:
            member = self._open.get(name)
            if member is not None and member.database.problem is None:
                self._open.move_to_end(name)
                return member
            if name not in self._busy:
                if member is not None:  # another process has taken over
                    self._start(name, self._close(name, self._drop(name)))
                else:
                    self._check_elsewhere(name)
                    self._start(name, self._open_one(name, makes=name in self._making))
            await asyncio.shield(self._busy[name])  # a request that is cancelled leaves it to the others

    def _check_elsewhere(self, name: str) -> None:
        """Raise :class:`Elsewhere` where another process had the model a moment ago."""
        sentence, address, until = self._elsewhere.get(name, ("", "", 0.0))
        if time.monotonic() < until:
            raise Elsewhere(sentence, address)

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Open or close a model in a task of its own."""

        async def run() -> None:
            try:
                await work
            finally:
                del self._busy[name]

        self._busy[name] = task = asyncio.create_task(run())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # those that wait for it have it too

    def _run_in_thread(self, call: Callable[..., T], *given: Any) -> asyncio.Future[T]:
        """Open or close a model where it does not keep the loop busy; as :func:`asyncio.to_thread`, in own threads."""
        run = contextvars.copy_context().run
        return asyncio.get_running_loop().run_in_executor(self._openers, run, call, *given)

    async def _open_one(self, name: str, *, makes: bool) -> None:
        try:
            member = await self._run_in_thread(self._load, name, makes)
        except Elsewhere as error:
            if len(self._elsewhere) > 100_000:
                self._elsewhere.clear()
            self._elsewhere[name] = str(error), error.address, time.monotonic() + BELIEVED
            raise
        self._open[name] = member
        self.counts["created" if makes else "opened"] += 1
        self.nbytes += member.nbytes
        self._close_some()

    def _load(self, name: str, makes: bool) -> "_Member":
        """Return a stored model, or a new one; in a thread."""
        given = self._changes
        if makes:
            seed = self._template.get("seed", 0) ^ zlib.crc32(name.encode())
            given = {**self._template, "seed": seed}
        try:
            contents = open_contents(self.shared, name, self._policy, given, None, ())
        except Missing:
            raise Missing(f"there is no model {name!r}: create it first, with POST /v1/models/new") from None
        model = Online._from_contents(contents)
        try:
            hosted = HostedModel(name, model, threads=self._committers, **self._hosting)
            self._warm_up(hosted, contents)
        except BaseException:
            model.close()
            raise
        return _Member(hosted, contents)

    # --------------------------------------------------------------------------------------------------------- closing

    def _close_some(self) -> None:
        """Begin to close models that no request needs, those that were not used for longest first, until the others fit
        into the memory. One always stays.
        """
        for name in list(self._open)[:-1]:
            if self.nbytes <= self.most_bytes:
                return
            if name not in self._wanted and name not in self._busy:
                self._start(name, self._close(name, self._drop(name)))

    def _drop(self, name: str) -> "_Member":
        """Take a model off the list, to close it."""
        member = self._open.pop(name)
        self.nbytes -= member.nbytes
        self.counts["closed"] += 1
        self._done.update(decisions=member.hosted.decisions, feedback=member.hosted.feedback)
        return member

    async def _close(self, name: str, member: "_Member") -> None:
        """Close a model that is not in the list any more. What goes wrong loses nothing that was acknowledged."""
        try:
            await self._run_in_thread(member.hosted.model.close)
        except (UserError, OSError) as error:
            if member.database.problem is None:
                log.warning("the model %r was closed without a snapshot: %s", name, error)

    async def keep_small(self, every: float = EVERY) -> None:
        """Measure the models again and again, and close some where they have grown, until the task is cancelled."""
        while True:
            await asyncio.sleep(every)
            for member in self._open.values():
                member.nbytes = member.measure()
            self.nbytes = sum(member.nbytes for member in self._open.values())
            self._close_some()

    async def close(self) -> list[str]:
        """Close all models and the connections; return why models could not be closed."""
        while self._busy:
            await asyncio.wait(list(self._busy.values()))
        failures = []
        members = list(self._open.values())
        closing = [self._run_in_thread(member.hosted.model.close) for member in members]
        for member, found in zip(members, await asyncio.gather(*closing, return_exceptions=True), strict=True):
            if found is not None and "has taken over" not in (member.database.problem or ""):
                failures.append(str(found))
        self._openers.shutdown()
        self._committers.shutdown()
        self.shared.close()
        return failures


class _Member:
    """A model that is open, its database, and its size in bytes."""

    def __init__(self, hosted: HostedModel, contents: Contents) -> None:
        self.hosted, self._contents = hosted, contents
        assert contents.journal is not None
        self.database: Database = contents.journal.store.database
        self.nbytes = self.measure()

    def measure(self) -> int:
        """Return about how much memory the model takes."""
        return self._contents.player.engine.nbytes + self._contents.receipts.nbytes + OBJECTS


# --------------------------------------------------------------------------------------------------------- the service


class FleetService(Service):
    """The models of a fleet behind their endpoints, as an ASGI application."""

    prefixes = (ANY_MODEL,)
    of_server = (*OF_SERVER, *OF_FLEET)

    def __init__(
        self, fleet: Fleet, tokens: Sequence[Token | str] = (), max_body: int = MAX_BODY, *, logs_access: bool = False
    ) -> None:
        self.fleet = fleet
        super().__init__((), tokens, max_body, logs_access=logs_access)
        self.metrics = FleetMetrics(fleet)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Look after the models that are open meanwhile, and close them at the end."""
        work = (look_after(self.fleet), self.fleet.keep_small(), tell_when_compiled())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self.failures += await self.fleet.close()

    @property
    def takes_records(self) -> None:
        """There is no first model."""
        return

    def call_model(self, endpoint: Endpoint) -> Call:
        """Return the call that hands the body of a request to the model that its address names, which is opened."""
        call = super().call_model(endpoint)

        async def call_open(request: Request) -> Response:
            name = request.path_params["name"]
            problem = self.fleet.shared.problem if endpoint.is_stored else None
            if problem is not None:  # to try it would keep all other requests of this process waiting
                raise Unavailable(problem)
            with self.redirecting(f"{ANY_MODEL.format(name=quote(name, safe=''))}{endpoint.path}"):
                async with self.fleet.use(name) as request.scope[MODEL]:
                    return await call(request)

        return call_open

    def find_model(self, request: Request) -> HostedModel:
        """Return the model that the address names, which is open."""
        found: HostedModel = request.scope[MODEL]
        return found

    @contextlib.contextmanager
    def redirecting(self, path: str) -> Iterator[None]:
        """Say where a model is that another process has open."""
        try:
            yield
        except Missing as error:
            raise Refusal(404, str(error)) from None
        except Elsewhere as error:
            self.fleet.counts["redirected"] += 1
            raise Refusal(307, str(error), {"Location": error.address.rstrip("/") + path}) from None

    async def create_model(self, request: Request) -> Response:
        """Make a model; one that is there stays as it is."""
        self.check_right(request)
        name = decode(NEW_MODEL, await self.read_body(request)).name
        if not self.fleet.makes:
            raise Refusal(403, "this server makes no models: start it with the options of new ones, such as --graph")
        if not NAME.fullmatch(name):
            raise UserError(
                f"a model cannot be called {name[:200]!r}: take 1 to 100 ASCII letters, digits and _ . @ - that do not "
                "begin with . @ -"
            )
        with self.redirecting(BY_HANDLER["create_model"].path):
            async with self.fleet.create(name) as hosted:
                return answer_json(await hosted.describe())

    async def list_models(self, _: Request) -> Response:
        """Describe the models that were used last in this process."""
        used = list(self.fleet)[:LISTED]
        return answer_json(Models([await hosted.describe() for hosted in used]))

    async def check_health(self, request: Request) -> Response:
        """Answer 503 where nothing can be stored. What is wrong with single models does not concern the others."""
        problems = [hosted.problem for hosted in self.fleet if hosted.problem is not None][:LISTED]
        problem = self.fleet.shared.problem
        try:
            self.check_access(request)
        except Refusal:
            hidden = "something is wrong: ask with a token, or as localhost, to read what"
            problems, problem = [hidden] * bool(problems), problem and hidden
        if problem is not None:
            raise Unavailable(problem)
        return answer_json(Health("degraded", problems) if problems else Health("ok"))


NEW_MODEL = msgspec.json.Decoder(NewModel)


class FleetMetrics(Metrics):
    """Metrics of a fleet as a whole: those of thousands of models would be too many."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        super().__init__(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the fleet, for the registry."""
        fleet = self._fleet
        for kind, name, about, value in (
            (COUNTER, "decisions", "Decisions since the start of the server.", fleet.done["decisions"]),
            (COUNTER, "feedback", "Pieces of feedback learned from since the start.", fleet.done["feedback"]),
            (COUNTER, "models_opened", "Models opened since the start.", fleet.counts["opened"]),
            (COUNTER, "models_closed", "Models closed since the start.", fleet.counts["closed"]),
            (COUNTER, "models_created", "Models made since the start.", fleet.counts["created"]),
            (COUNTER, "redirected", "Requests sent to the process that has the model.", fleet.counts["redirected"]),
            (GAUGE, "open_models", "Models that are open.", len(fleet)),
            (GAUGE, "open_models_bytes", "Memory that they take, about.", fleet.nbytes),
            (GAUGE, "open_models_bytes_limit", "Beyond it models are closed.", fleet.most_bytes),
            (GAUGE, "storage_problem", "1 while nothing can be stored.", fleet.shared.problem is not None),
        ):
            family = kind(f"gappletron_{name}", about)
            family.add_metric([], float(value))
            yield family
