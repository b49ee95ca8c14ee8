"""One model in the event loop: decisions, feedback and predictions as bytes that are ready to be sent.

A request is one step of the loop under the model's lock; then it waits, without the lock, until the step is durable. So
one thread works on a model, and as many requests as there are share a write to the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import platform
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from scipy.sparse import csr_array

from gappletron.base.checks import Label
from gappletron.base.errors import NotDeciding, TooManyWaiting, UserError
from gappletron.base.version import __version__
from gappletron.data.records.encoder import Encoder
from gappletron.data.stream import MOST_FEATURES
from gappletron.data.vectors import Checker, Vectors, sparse_parts
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import Floats
from gappletron.learners.learner import Learner
from gappletron.online.receipts import UNSEEN, Receipt, Unseen
from gappletron.online.store import Trouble
from gappletron.play.limits import Limits
from gappletron.play.monitor import Monitor
from gappletron.service.columns import Columns, example_vector
from gappletron.service.commits import Commits
from gappletron.service.schemas import (
    Decision,
    Decisions,
    Estimates,
    Feedback,
    Forgotten,
    GraphInfo,
    Learned,
    LimitsInfo,
    ModelInfo,
    Prediction,
    Predictions,
    RowPrediction,
    Sparse,
)

__all__ = ["Hosted", "Key", "Model", "NotDeciding", "TooManyWaiting"]

ACTIVITY = 120
"""Seconds of which the number of decisions is kept."""
ESTIMATES_AGE = 1.0
"""Seconds for which estimates are kept: as many readers as there are cost one computation."""

MANY = 32
"""A request of so many rows is a long step."""

COMPLAINTS = 60.0
"""Seconds between two lines of the log about the same shadow."""

log = logging.getLogger("gappletron.service")
encoded = msgspec.json.Encoder().encode


class Model(Protocol):
    """What the service needs of a model: :meth:`gappletron.Online.open` returns one."""

    @property
    def encoder(self) -> Encoder | None: ...

    @property
    def feature_limit(self) -> int | None: ...

    @property
    def graph(self) -> FeedbackGraph: ...

    @property
    def learner(self) -> Learner: ...

    @property
    def monitor(self) -> Monitor: ...

    @property
    def features(self) -> int: ...

    @property
    def rounds(self) -> int: ...

    @property
    def waiting(self) -> int:
        """How many receipts wait for feedback."""

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the journal."""

    @property
    def limits(self) -> Limits: ...

    @property
    def spent(self) -> float | None: ...

    @property
    def pending_limit(self) -> int: ...

    @property
    def pending_bytes(self) -> int: ...

    @property
    def pending_age(self) -> float | None: ...

    def receipt(self, id: str) -> Receipt: ...

    def forget(self, receipt: Receipt | str) -> None: ...

    def hold(self) -> AbstractContextManager[object]:
        """Take the model's lock; calls inside do not wait for the disk, and are logged together."""

    def compile_batches(self) -> None: ...

    def act_many(self, X: Any) -> Sequence[Receipt]: ...

    def learn_many(self, feedback: Sequence[tuple[str, Label | Unseen]]) -> None: ...

    def follow(self, x: Any, action: Label, probabilities: Floats) -> Receipt: ...

    def recall(self, key: str, fingerprint: bytes) -> bytes | None: ...

    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None: ...

    def predict_many(self, X: Any) -> Sequence[Label]: ...

    def predict_proba(self, X: Any) -> Floats: ...

    def commit(self) -> None:
        """Block until everything so far is durable."""

    def close(self) -> None: ...


class Key(NamedTuple):
    """An idempotency key: a name for the request, and what tells its content from another's."""

    name: str
    fingerprint: bytes

    @classmethod
    def of(cls, endpoint: str, name: str, body: bytes) -> Key:
        """The key of a request to an endpoint.

        >>> Key.of("act", "7f3a", b"{}").name
        '7f3a /act'
        """
        return cls(f"{name} /{endpoint}", hashlib.blake2b(body, digest_size=16).digest())


class Hosted:
    """A model with its name, its shadows and its limits.

    :param name: in the addresses, and on the page.
    :param model: what :meth:`gappletron.Online.open` returned.
    :param shadows: models that follow the decisions of this one and learn from the same feedback. They must have the
        same graph, and take the same kind of x.
    :param max_waiting: so many receipts may wait for feedback; then decisions are refused. By default they are not:
        the oldest receipts expire.
    :param alpha: the intervals of the estimates hold with probability 1 - alpha.
    :param strict: refuse records whose columns are not those that the encoder declares; by default they are counted.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        *,
        shadows: Iterable[Hosted] = (),
        max_waiting: int | None = None,
        alpha: float = 0.05,
        strict: bool = False,
    ) -> None:
        self.name, self.model, self.max_waiting, self.alpha = name, model, max_waiting, alpha
        self.shadows = list(shadows)
        self.champion: Hosted | None = None
        self.commits = Commits(model.commit)
        self._steps = asyncio.Lock()
        self.activity = Activity()
        self.decisions = self.feedback = self.missed = 0
        """Since the start: decisions, pieces of feedback, and rounds or feedback that a shadow could not follow."""
        self._reveals: tuple[FeedbackGraph, dict[Label, tuple[Label, ...]]] = (model.graph, {})
        self._estimates: tuple[float, dict[str, Any], list[dict[str, Any]]] | None = None
        self._estimating = asyncio.Lock()
        self._complained = -math.inf
        self._checker = Checker()
        self.columns = Columns(model.encoder, is_strict=strict, name=name)
        for shadow in self.shadows:
            _check_shadow(self, shadow)
            shadow.champion = self

    def warm_up(self) -> None:
        """Compile what batches, predictions, estimates and texts need, before requests come; an error where the model
        has no monitor, whose estimates most pages show.
        """
        self.model.monitor.report(self.alpha)
        self.model.compile_batches()
        encoder = self.model.encoder
        if encoder is not None:
            encoder.encode("word")
            encoder.encode({"text": "word", "number": 1.0})
        self._predictions(["word"] if encoder is not None else [Sparse([], [])])

    # ------------------------------------------------------------------------------------------------------- deciding

    async def act(self, x: Any, key: Key | None = None) -> bytes:
        """A decision for x, durable."""
        return await self._decided([x], lambda decisions: encoded(decisions[0]), key)

    async def act_many(self, rows: Sequence[Any], key: Key | None = None) -> bytes:
        """Decisions for many rows, durable."""
        return await self._decided(rows, lambda decisions: encoded(Decisions(decisions)), key)

    async def learn(self, feedback: Sequence[Feedback], key: Key | None = None) -> bytes:
        """Learn from all pieces of feedback, or from none; durable."""
        pairs = [(each.id, _label(each)) for each in feedback]

        def learned() -> bytes:
            self.model.learn_many(pairs)
            self.feedback += len(pairs)
            for shadow in self.shadows:
                shadow._learn_too(pairs)
            return encoded(Learned(len(pairs)))

        return await self._once(learned, len(pairs), key)

    async def forget(self, ids: Sequence[str], key: Key | None = None) -> bytes:
        """Wait no more for the feedback of all these decisions, or of none; durable."""

        def forgotten() -> bytes:
            found = {name: self.model.receipt(name) for name in ids}  # all are there, before the first is forgotten
            for receipt in found.values():
                self.model.forget(receipt)
            for shadow in self.shadows:
                shadow._forget_too(ids)
            return encoded(Forgotten(len(found)))

        return await self._once(forgotten, len(ids), key)

    async def _decided(self, rows: Sequence[Any], answer: Callable[[list[Decision]], bytes], key: Key | None) -> bytes:
        def decided() -> bytes:
            self._refuse_too_many(len(rows))
            self.columns.check(rows)
            given = self._given(rows)
            receipts = self.model.act_many(given)
            self.columns.count(rows)
            decisions = [self._decision(receipt) for receipt in receipts]
            self.decisions += len(rows)
            self.activity.count(len(rows))
            for shadow in self.shadows:
                shadow._follow(given, receipts)
            return answer(decisions)

        return await self._once(decided, len(rows), key)

    async def _once(self, step: Callable[[], bytes], size: int, key: Key | None) -> bytes:
        """The answer of the step, which has so many rows, or of the request that had the same key, when it is durable.

        A step with many rows takes milliseconds. So there is one in each turn of the loop, and what else is ready has
        its turn before the next.
        """
        if self.champion is not None:
            raise NotDeciding(
                f"the model {self.name!r} shadows {self.champion.name!r}, and learns from its decisions alone: send "
                f"this to {self.champion.name!r}"
            )
        model = self.model
        async with self._steps:
            with model.hold():
                answer = None if key is None else model.recall(*key)
                if answer is None:
                    answer = step()
                    if key is not None:
                        model.remember(*key, answer)
            durable = self.commits.begin()
            if size >= MANY:
                await asyncio.sleep(0)  # its write begins, and answers that are stored go out, before the next step
        if self.shadows:
            await asyncio.gather(durable, *(shadow._durable_if_possible() for shadow in self.shadows))
        else:
            await durable
        return answer

    def _refuse_too_many(self, more: int) -> None:
        if self.max_waiting is not None and self.model.waiting + more > self.max_waiting:
            raise TooManyWaiting(
                f"{self.model.waiting:,} receipts wait for feedback, and at most {self.max_waiting:,} may: give "
                "feedback first, also where the label stayed unseen"
            )

    def _given(self, rows: Sequence[Any]) -> Any:
        """Rows as :meth:`gappletron.Online.act_many` takes them."""
        if self.model.encoder is not None:
            return list(rows)
        matrix = _matrix_of(rows) if len(rows) > 1 and not self.shadows else None
        return [_pair(row) for row in rows] if matrix is None else matrix

    def _decision(self, receipt: Receipt) -> Decision:
        action = receipt.action
        graph, known = self._reveals
        if receipt.graph is not graph:
            graph, known = self._reveals = receipt.graph, {}
        reveals = known.get(action)
        if reveals is None:
            reveals = known[action] = receipt.reveals
        return Decision(receipt.id, action, receipt.probability, receipt.greedy, reveals)

    # ------------------------------------------------------------------------------------------------------ following

    def _follow(self, rows: Sequence[Any], receipts: Sequence[Receipt]) -> None:
        """Take the decisions of the champion for one's own; what goes wrong here is no concern of its clients."""
        model = self.model
        with self._shielded():
            self.columns.count(rows)
        for x, receipt in zip(rows, receipts, strict=True):
            with self._shielded(), model.hold():
                own = model.follow(x, receipt.action, receipt.probabilities)
                # Remembered, since feedback may come after a restart.
                model.remember(*_shadow_key(receipt.id), own.id.encode())
                self.decisions += 1

    def _learn_too(self, pairs: Sequence[tuple[str, Label | Unseen]]) -> None:
        """Learn from the feedback of the champion, where the decision was followed."""
        model = self.model
        for name, label in pairs:
            with self._shielded(), model.hold():
                own = model.recall(*_shadow_key(name))
                if own is None:
                    self.missed += 1
                    continue
                model.learn_many([(own.decode(), label)])
                self.feedback += 1

    def _forget_too(self, ids: Sequence[str]) -> None:
        """Forget what the champion forgets, where the decision was followed."""
        model = self.model
        for name in dict.fromkeys(ids):
            with self._shielded(), model.hold():
                own = model.recall(*_shadow_key(name))
                if own is not None:
                    model.forget(own.decode())

    async def _durable_if_possible(self) -> None:
        with self._shielded():
            await self.commits.durable()

    @contextlib.contextmanager
    def _shielded(self) -> Any:
        try:
            yield
        except Exception as error:
            self.missed += 1
            if time.monotonic() - self._complained > COMPLAINTS:
                self._complained = time.monotonic()
                log.warning("the shadow %r could not follow (%d so far): %s", self.name, self.missed, error)

    # ---------------------------------------------------------------------------------------------------- looking at it

    def predict(self, x: Any) -> bytes:
        """The class of x, and the probability of each."""
        self.columns.check([x])
        ((label, row),) = self._predictions([x])
        return encoded(Prediction(label, self.model.graph.classes, row))

    def predict_many(self, rows: Sequence[Any]) -> bytes:
        """The same for many rows."""
        self.columns.check(rows)
        found = [RowPrediction(label, row) for label, row in self._predictions(rows)]
        return encoded(Predictions(self.model.graph.classes, found))

    def _predictions(self, rows: Sequence[Any]) -> list[tuple[Label, list[float]]]:
        X = self._matrix(rows)
        return list(zip(self.model.predict_many(X), self.model.predict_proba(X).tolist(), strict=True))

    def _matrix(self, rows: Sequence[Any]) -> Any:
        """Rows as the batch methods take them: records as they are, vectors checked."""
        model = self.model
        if model.encoder is not None:
            return list(rows)
        fixed = model.features if model.feature_limit is None else None
        limit = MOST_FEATURES if fixed is None else fixed
        return Vectors.joined([self._checker.vector(tuple(sparse_parts(_pair(row), fixed)), limit) for row in rows])

    async def info(self) -> ModelInfo:
        """What the model is, and how well it does."""
        model, graph = self.model, self.model.graph
        return ModelInfo(
            name=self.name,
            shadows=None if self.champion is None else self.champion.name,
            learner=model.learner.name,
            graph=GraphInfo(
                graph.name, graph.classes, graph.actions, [graph.reveals(action) for action in graph.actions]
            ),
            features=model.features,
            encoder=None if model.encoder is None else model.encoder.to_dict(),
            columns=self.columns.to_dict() if self.columns.needed else None,
            example=self.columns.example() if model.encoder is not None else example_vector(model.features),
            rounds=model.rounds,
            waiting=model.waiting,
            limits=self._limits(),
            problem=self.problem,
            versions={"gappletron": __version__, "python": platform.python_version(), "numpy": np.__version__},
            estimates=await self.report(),
        )

    def _limits(self) -> LimitsInfo:
        model = self.model
        return LimitsInfo(
            **model.limits.to_dict(),
            spent=self.spent,
            pending=model.pending_limit,
            pending_bytes=model.pending_bytes,
            pending_age=model.pending_age,
            max_waiting=self.max_waiting,
        )

    @property
    def spent(self) -> float | None:
        """What exploration has cost in the present window of the budget; of a shadow, would have cost on average."""
        return self.model.spent

    @property
    def problem(self) -> str | None:
        """What is wrong with storing what the model does, in one sentence: a commit that failed, or its journal."""
        if self.commits.failure is not None:
            return self.commits.failure
        trouble = self.model.trouble
        return None if trouble is None else trouble.sentence

    @property
    def is_storing(self) -> bool:
        """Whether decisions can be made durable at present."""
        trouble = self.model.trouble
        return self.commits.failure is None and (trouble is None or not trouble.stops_writes)

    async def expire(self) -> None:
        """Let receipts expire that have waited too long, also when no request comes; it is logged, as ever."""
        if self.model.pending_age is not None and self.model.waiting and self.is_storing:
            with self.model.hold():  # every call lets them expire
                pass
            await self.commits.durable()

    async def report(self) -> dict[str, Any]:
        """The monitor's report, not older than a second."""
        return (await self._estimated())[0]

    async def _estimated(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The report and the curve, computed in a thread: the monitor is a copy, so that nothing waits for it."""
        async with self._estimating:
            known = self._estimates
            if known is None or time.monotonic() - known[0] > ESTIMATES_AGE:
                monitor = self.model.monitor
                report, curve = await asyncio.to_thread(lambda: (monitor.report(self.alpha).to_dict(), monitor.curve))
                known = self._estimates = time.monotonic(), report, curve
            return known[1], known[2]

    async def estimates(self) -> Estimates:
        """The report with its curve, for the page."""
        report, curve = await self._estimated()
        return Estimates(self.name, self.model.rounds, self.model.waiting, report, curve, self.activity.last(ACTIVITY))

    async def close(self) -> None:
        """Write what is left, and close the model."""
        try:
            await asyncio.to_thread(self.model.close)
        finally:
            self.commits.close()


class Activity:
    """How many decisions were made in each of the last seconds.

    >>> activity = Activity()
    >>> activity.count(3, now=100.2), activity.count(1, now=100.9), activity.count(5, now=102.0)
    (None, None, None)
    >>> activity.last(3, now=103.5)
    [4, 0, 5]
    """

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, int]] = deque(maxlen=ACTIVITY + 1)

    def count(self, decisions: int, now: float | None = None) -> None:
        """Add decisions to the present second."""
        second = int(time.monotonic() if now is None else now)
        if self._seconds and self._seconds[-1][0] == second:
            decisions += self._seconds.pop()[1]
        self._seconds.append((second, decisions))

    def last(self, seconds: int, now: float | None = None) -> list[int]:
        """The decisions in each of the last full seconds, the oldest first."""
        present = int(time.monotonic() if now is None else now)
        found = dict(self._seconds)
        return [found.get(second, 0) for second in range(present - seconds, present)]


def _label(feedback: Feedback) -> Label | Unseen:
    """The label of feedback that was checked: it has one, or it says that the label stayed unseen."""
    return UNSEEN if feedback.label is msgspec.UNSET else feedback.label


def _pair(x: Sparse | list[float]) -> Any:
    """A vector as the library takes it; arrays are what it is quickest with."""
    if type(x) is not Sparse:
        return x
    try:
        return np.array(x.indices, np.int64), np.array(x.values, np.float64)
    except OverflowError:  # an index beyond 64 bits: the library says what is wrong with it
        return x.indices, x.values


def _matrix_of(rows: Sequence[Sparse | list[float]]) -> csr_array | None:
    """Sparse rows as a matrix, which is quicker than many arrays; None where one is dense, or wrong: the library says
    what is wrong with a single row.
    """
    sizes = []
    for row in rows:
        if type(row) is not Sparse or len(row.indices) != len(row.values):
            return None
        sizes.append(len(row.indices))
    try:
        indices = np.array(list(chain.from_iterable(row.indices for row in rows)), np.int32)  # type: ignore[union-attr]
    except OverflowError:
        return None
    if indices.size and indices.min() < 0:
        return None
    values = np.array(list(chain.from_iterable(row.values for row in rows)), np.float64)  # type: ignore[union-attr]
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    return csr_array((values, indices, ends), shape=(len(rows), int(indices.max(initial=0)) + 1))


def _shadow_key(receipt: str) -> Key:
    """Under which a shadow remembers its own receipt for a decision of the champion."""
    return Key(f"{receipt} /shadow", b"")


def _check_shadow(champion: Hosted, shadow: Hosted) -> None:
    mine, other = champion.model, shadow.model
    same = mine.graph.actions == other.graph.actions and mine.graph.classes == other.graph.classes
    if not same or not np.array_equal(mine.graph.visible, other.graph.visible):
        raise UserError(
            f"the model {shadow.name!r} cannot shadow {champion.name!r}, since their graphs differ: make it with the "
            "same classes, actions and edges"
        )
    if (mine.encoder is None) != (other.encoder is None):
        raise UserError(
            f"the model {shadow.name!r} cannot shadow {champion.name!r}, since one takes records and the other "
            "vectors: make both with an encoder, or both without"
        )
