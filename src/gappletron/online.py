"""One round at a time, for real use: act now, learn when the feedback comes, save and go on later.

:class:`Online` is a :class:`~gappletron.player.Player` with names, receipts and their expiry.
"""

from __future__ import annotations

import contextlib
import copy
import math
import threading
import time
import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gappletron import model_files
from gappletron._forks import forks, guard
from gappletron._signals import held_back
from gappletron._validate import Label, SpentReceipt, UnknownReceipt, UserError, number, whole
from gappletron.answers import Answers
from gappletron.engine import ACTION, HEAD
from gappletron.inputs import Vector, sparse_parts
from gappletron.journal import events
from gappletron.journal.folder import FolderReader, FolderStore
from gappletron.journal.journal import DURABILITIES, Journal, Policy, Snapshot
from gappletron.journal.settings import check_settings, settings_of, versions
from gappletron.journal.store import Store
from gappletron.learners.learner import Learner
from gappletron.limits import Limits
from gappletron.numerics import UNSEEN_LABEL
from gappletron.player import Player, Turn, for_records
from gappletron.receipts import (
    UNSEEN,
    Receipt,
    Session,
    checked_sessions,
    new_session,
    read_receipts,
    split_id,
    write_receipts,
)
from gappletron.records.encoder import Encoder
from gappletron.streams.stream import MOST_FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike
    from types import TracebackType

    from numpy.typing import NDArray

    from gappletron._dispatch import Piece
    from gappletron.graphs import FeedbackGraph
    from gappletron.limits import Budget
    from gappletron.normalization import Normalization
    from gappletron.numerics import Floats
    from gappletron.receipts import Unseen
    from gappletron.watching import Watch

__all__ = ["Online"]

FORMAT = "gappletron.Online"
FIRST_FEATURES = 1024
PENDING, PENDING_BYTES = 10_000, 2**28
"""How many receipts may wait for feedback unless said otherwise, and how much memory they may take."""
MOST_SESSIONS = 256
"""Past sessions whose receipts are told from those of other models."""


WAITING = {"pending": "pending_limit", "pending_bytes": "pending_bytes", "pending_age": "pending_age"}
"""Arguments that limit the waiting receipts, and the attributes that hold them."""
CHANGEABLE = (*WAITING, "min_propensity", "budget")
"""Arguments that may change from one opening of a journal to the next."""


class Acting(NamedTuple):
    """A round that is being played: its turn, when, and for the journal its row as bytes and its graph's version."""

    turn: Turn
    time: float
    row: bytes
    version: int
    followed: bool


class Learning(NamedTuple):
    """Feedback that is being taken in: the label's position, or :data:`~gappletron.journal.events.FORGOTTEN`."""

    receipt: Receipt
    label: int
    time: float


class Online:
    """A learner in front of a real stream.

    :param learner: a learner, or the name of one; ``"auto"`` is the default (docs, page Default).
    :param graph: which action reveals which label; its class names are the labels.
    :param features: the number of features; indices run from 0 to features - 1. With ``"grow"`` any index below
        `feature_limit` is accepted, and the state doubles when it must.
    :param encoder: turns records (dicts, rows of frames, texts) into features; then `act`, `predict`, `teach` and
        batches take records, and `features` is the encoder's.
    :param seed: of the learner's randomness.
    :param normalize: how rows are scaled before the learner sees them, by what was seen so far: ``"columns"``,
        ``"unit"``, ``"log1p-unit"``, None (as they are), or ``"auto"``: columns for the default learner and for
        records, none for vectors and learners of the paper.
    :param bias: whether rows get one more feature that is always 1; ``"auto"``: for the default learner and for
        records. Its weights are the first row of `weights`.
    :param pending: how many receipts may wait for feedback; beyond that the oldest expire.
    :param pending_bytes: how much memory the rows and probabilities of waiting receipts may take; beyond that the
        oldest expire.
    :param pending_age: for how many seconds a receipt may wait; then it expires. By default there is no such limit.
    :param feature_limit: the most features with ``features="grow"``.
    :param monitor: True, or a :class:`gappletron.Watch` with its window, to estimate the error from the labels that are
        seen: :attr:`monitor`.
    :param min_propensity: every label is shown with at least this probability, at most 1 / rho (docs, page Monitoring).
    :param budget: what exploration may cost, a :class:`gappletron.Budget`.

    >>> from gappletron import FeedbackGraph, Online, UNSEEN
    >>> model = Online("gapsmh", FeedbackGraph.apple_tasting(), features=3, seed=0)
    >>> for x, label in [([1.0, 0, 1], "ham"), ([1.0, 1, 0], "spam")] * 50:
    ...     receipt = model.act(x)
    ...     model.learn(receipt, label if label in receipt.reveals else UNSEEN)
    >>> model.predict([1.0, 0, 1]), model.predict([1.0, 1, 0])
    ('ham', 'spam')

    With an encoder, of records:

    >>> from gappletron import Encoder
    >>> model = Online("auto", FeedbackGraph.filtering(["ham", "spam"]), encoder=Encoder(text="message"))
    >>> for message, label in [("win a prize", "spam"), ("see you at five", "ham")] * 20:
    ...     receipt = model.act({"message": message})
    ...     model.learn(receipt, label if label in receipt.reveals else UNSEEN)
    >>> model.predict({"message": "win a prize"})
    'spam'

    Feedback may come later, out of order, by receipt or by its id; an action that is never followed by `learn` simply
    had no feedback. The default learner learns late feedback as if the row came today. Learners of the paper take the
    gradient at the scores of prediction time and apply it to the weights of today.

    Several threads may share a model: a lock lets one at a time in. Where a signal handler raises in the middle of
    `act`, the model is as before or the receipt is in `pending`; in the middle of `learn`, the receipt still waits
    exactly if nothing was learned from it, so it is safe to try again.
    """

    def __init__(
        self,
        learner: Learner | str = "auto",
        graph: FeedbackGraph | None = None,
        features: int | str = "grow",
        *,
        encoder: Encoder | None = None,
        seed: int = 0,
        normalize: Normalization | str | None = "auto",
        bias: bool | str = "auto",
        pending: int = PENDING,
        pending_bytes: int = PENDING_BYTES,
        pending_age: float | None = None,
        feature_limit: int = 2**24,
        monitor: bool | Watch = False,
        min_propensity: float = 0.0,
        budget: Budget | None = None,
    ) -> None:
        if not isinstance(learner, Learner | str) and graph is None:
            raise UserError(f"{learner!r} is not a learner, which comes first: write Online(graph=...)")
        if graph is None:
            raise UserError(
                "there is no feedback graph: say what is seen after which prediction, for example "
                "graph=FeedbackGraph.filtering(['ham', 'spam']), where only what is predicted as ham is looked at"
            )
        self.feature_limit: int | None = None
        self.encoder = encoder
        first: Any = features
        if encoder is not None:
            first = _encoded_features(encoder, features)
            normalize, bias = for_records(normalize, bias)
        elif isinstance(features, str):
            if features != "grow":
                raise UserError(f"features={features!r} is neither a number nor 'grow': give one of them")
            self.feature_limit = whole(feature_limit, "feature_limit", least=1, most=MOST_FEATURES)
            first = min(FIRST_FEATURES, self.feature_limit)
        limits = Limits(min_propensity, budget)
        self._player = Player(learner, graph, first, seed, normalize=normalize, bias=bias, watch=monitor, limits=limits)
        self._begin(pending, pending_bytes, pending_age)

    def _bind(self) -> None:
        """What is not saved: the lock, what a signal may interrupt, and machine code, now rather than in a round."""
        self._player.may_have_more = self.feature_limit is not None
        self._lock = threading.RLock()  # reentrant: a signal handler may save in the middle of a call
        self._acting: Acting | None = None
        self._learning: Learning | None = None
        self._journal: Journal | None = None
        self._held_by: int | None = None
        self._is_idle = False
        self._waiting_bytes = sum(receipt._turn.nbytes for receipt in self._pending.values())
        self._player.compile_rounds()
        guard(self)

    def __repr__(self) -> str:
        return (
            f"<Online {self.learner.name} on {self.graph}: {self.rounds} rounds, {len(self._pending)} waiting, "
            f"{self.features} features>"
        )

    @classmethod
    def from_player(cls, player: Player, encoder: Encoder | None = None) -> Online:
        """A model around a player, which goes on where the player is.

        >>> from gappletron import FeedbackGraph, Online, Player
        >>> player = Player("auto", FeedbackGraph.bandit(3), features=2)
        >>> turn = player.act([0.5, 1.0])
        >>> Online.from_player(player).rounds
        1
        """
        if encoder is not None and encoder.features != player.features:
            raise UserError(
                f"the encoder has {encoder.features} features and the player {player.features}: make the player with "
                "features=encoder.features"
            )
        model = cls.__new__(cls)
        model._player, model.encoder, model.feature_limit = player, encoder, None
        model._begin(PENDING, PENDING_BYTES, None)
        return model

    def _begin(self, pending: int, pending_bytes: int, pending_age: float | None) -> None:
        """No receipt was given out yet."""
        self._set_waiting(pending, pending_bytes, pending_age)
        self._answers = Answers()
        self._session, self._forks = new_session(self.rounds), forks[0]
        self._past: dict[str, Session] = {}
        self._pending: OrderedDict[int, Receipt] = OrderedDict()
        self._expired: OrderedDict[int, None] = OrderedDict()
        self._bind()

    def _set_waiting(self, pending: Any, pending_bytes: Any, pending_age: Any) -> None:
        """How many receipts may wait, and for how long."""
        self.pending_limit = whole(pending, "pending", least=1)
        self.pending_bytes = whole(pending_bytes, "pending_bytes", least=1)
        self.pending_age = None if pending_age is None else number(pending_age, "pending_age", above=0.0)

    @property
    def player(self) -> Player:
        """The player underneath, for playing in bulk; it is not locked, so let no other thread use the model
        meanwhile. A model with a journal has none to show: what it played would not be logged.
        """
        if self._journal is not None:
            raise UserError(
                "the player of a model with a journal is not to be used directly, since nothing of it would be logged: "
                "call the methods of the model, or save the model and load the copy"
            )
        with self._lock:
            self._settle()
            return self._player

    @property
    def learner(self) -> Learner:
        """The learner with all its numbers."""
        return self._player.learner

    @property
    def graph(self) -> FeedbackGraph:
        """The feedback graph of rounds for which no other is given."""
        return self._player.graph

    @property
    def features(self) -> int:
        """The number of features that the state has at present."""
        return self._player.features

    @property
    def rounds(self) -> int:
        """The number of actions taken so far."""
        return self._player.rounds

    @property
    def weights(self) -> Floats:
        """W as a matrix of features x classes; with a bias, its weights are the first row."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._player.weights

    @property
    def pending(self) -> tuple[Receipt, ...]:
        """The receipts that still wait for feedback, oldest first."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return tuple(self._settled()[0].values())

    @property
    def waiting(self) -> int:
        """How many receipts wait for feedback: the length of `pending`, without making it.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> receipt = model.act([0.5, 1.0])
        >>> model.waiting
        1
        """
        return len(self._pending)

    # ---------------------------------------------------------------------------------------------------------- playing

    def act(self, x: Any, graph: FeedbackGraph | None = None) -> Receipt:
        """Draw an action for x.

        :param x: ``(indices, values)`` (the fastest), a dense vector of length `features`, a one-row scipy sparse
            matrix, or a mapping from index to value. Values of a repeated index are added up.
        :param graph: the feedback graph of this round, where it is not the model's own: any graph over the same
            classes and actions. No theorem of the paper covers a graph that changes.
        """
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                receipt = self._act(self._taken(x), graph, time.time())
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()
        return receipt

    def act_many(self, X: Iterable[Any], graph: FeedbackGraph | None = None) -> list[Receipt]:
        """Draw an action for every x, in order: as :meth:`act` does, with one write to the journal for all.

        All are checked before the first is played.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> [receipt.serial for receipt in model.act_many([[0.5, 1.0], [1.0, 0.0]])]
        [0, 1]
        """
        rows = list(X)
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                vectors = [self._taken(x) for x in rows]
                now = time.time()
                receipts = [self._act(vector, graph, now) for vector in vectors]
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()
        return receipts

    def _begin_call(self) -> None:
        """At the start of every call that changes the model, under the lock: what an earlier one left is done first."""
        self._is_idle = False
        self._settle()
        if self._journal is not None:
            if self._forks != forks[0]:
                raise UserError(
                    "this process is a copy (fork) of the one that opened the journal, which goes on there: open "
                    "another folder here, or load a saved copy"
                )
            self._journal.check()

    def _act(self, vector: Vector, graph: FeedbackGraph | None, now: float) -> Receipt:
        """Play a round."""
        player = self._player
        if self._forks != forks[0]:  # a copy of the process: its receipts are its own
            self._start_session(player.rounds)
        self._acting = acting = self._prepared(vector, graph, now, followed=False)
        player.draw(acting.turn)
        return self._issued(acting)

    def follow(self, x: Any, action: Label, probabilities: Any, graph: FeedbackGraph | None = None) -> Receipt:
        """A round in which another model has decided: this one is its shadow, and learns from the same feedback.

        Its monitor estimates what its own predictions would have led to.

        :param x, graph: as those of :meth:`act`.
        :param action: what the other model did.
        :param probabilities: with which the other drew it, of all actions; those of its receipt.

        >>> from gappletron import FeedbackGraph, Online
        >>> champion, challenger = (
        ...     Online(name, FeedbackGraph.bandit(["a", "b", "c"]), features=2) for name in ("auto", "gapsmh")
        ... )
        >>> receipt = champion.act([0.5, 1.0])
        >>> shadow = challenger.follow([0.5, 1.0], receipt.action, receipt.probabilities)
        >>> for model, own in ((champion, receipt), (challenger, shadow)):
        ...     model.learn(own, UNSEEN)
        >>> shadow.action == receipt.action
        True
        """
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                vector, position = self._taken(x), self.graph.action_index(action)
                self._acting = acting = self._prepared(vector, graph, time.time(), followed=True)
                self._player.follow(acting.turn, position, probabilities)
                receipt = self._issued(acting)
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()
        return receipt

    def _prepared(self, vector: Vector, graph: FeedbackGraph | None, now: float, *, followed: bool) -> Acting:
        """A round that is about to be played. Its row is noted before normalization changes it."""
        turn = self._player.new_turn(vector, graph)
        if self._player.needs_time:
            self._player.now = now
        if self._journal is None:
            return Acting(turn, now, b"", 0, followed)
        row = vector.indices.tobytes() + vector.values.tobytes()
        return Acting(turn, now, row, self._journal.version_of(turn.graph), followed)

    def _issued(self, acting: Acting) -> Receipt:
        """The receipt of a round that was played, which waits from now on."""
        turn, now = acting.turn, acting.time
        receipt = Receipt(self._session.name, turn.round, turn, now)
        if self._journal is not None:
            self._log_decision(acting)
        self._pending[receipt.serial] = receipt
        self._waiting_bytes += turn.nbytes
        if (
            len(self._pending) > self.pending_limit
            or self._waiting_bytes > self.pending_bytes
            or self.pending_age is not None
        ):
            self._expire(now)
        self._acting = None
        return receipt

    def _log_decision(self, acting: Acting) -> None:
        journal, turn = self._journal, acting.turn
        if journal is not None and not journal.has_added("decided", turn.round):
            size = len(acting.row) // 12
            flags = events.FOLLOWED * acting.followed
            data = events.packed_decision(
                turn.round,
                acting.time,
                turn.action,
                turn.greedy,
                acting.version,
                flags,
                size,
                acting.row,
                turn.probabilities,
            )
            journal.add("decided", turn.round, data)

    def _expire(self, now: float) -> None:
        """Let the oldest receipts expire where too many wait, or for too long."""
        while self._pending:
            oldest = next(iter(self._pending.values()))
            too_many = len(self._pending) > self.pending_limit
            too_large = self._waiting_bytes > self.pending_bytes and len(self._pending) > 1
            too_old = self.pending_age is not None and now - oldest.time > self.pending_age
            if not (too_many or too_large or too_old):
                break
            if self._journal is not None:  # first: said twice it means the same
                self._journal.add("expired", oldest.serial, events.Expired(oldest.serial, now).to_bytes())
            self._expired[oldest.serial] = None
            self._waiting_bytes -= oldest._turn.nbytes
            self._pending.pop(oldest.serial, None)
        self._trim_expired()

    def _trim_expired(self) -> None:
        while len(self._expired) > self.pending_limit:
            self._expired.popitem(last=False)

    def _settled(self) -> tuple[OrderedDict[int, Receipt], OrderedDict[int, None]]:
        """The waiting and the expired receipts, as they are after the call that a signal handler has interrupted."""
        expired = OrderedDict(self._expired)
        waiting = OrderedDict((serial, receipt) for serial, receipt in self._pending.items() if serial not in expired)
        size = sum(receipt._turn.nbytes for receipt in waiting.values())
        while len(waiting) > self.pending_limit or (size > self.pending_bytes and len(waiting) > 1):
            serial, receipt = waiting.popitem(last=False)
            size -= receipt._turn.nbytes
            expired[serial] = None
        while len(expired) > self.pending_limit:
            expired.popitem(last=False)
        return waiting, expired

    def _settle(self) -> None:
        """Bring to its end what a signal handler interrupted in an earlier call; at the start of every call.

        Compiled code changes the state and notes it in one step: see :class:`gappletron.engine.Desk`.
        """
        acting, learning = self._acting, self._learning
        if acting is not None or learning is not None:
            if acting is not None and acting.turn.round >= 0:
                self._log_decision(acting)
            if learning is not None and learning.label != events.FORGOTTEN and self._has_learned(learning):
                self._log_feedback(learning)
            self._take_note()
            self._waiting_bytes = sum(receipt._turn.nbytes for receipt in self._pending.values())
            self._expire(time.time() if acting is None else acting.time)
            self._acting = self._learning = None

    def _take_note(self) -> None:
        """Let the waiting receipts be those that the state and the journal tell of."""
        acting, learning = self._acting, self._learning
        if acting is not None:
            turn = acting.turn
            if turn.round >= 0 and turn.round not in self._expired:
                self._pending.setdefault(turn.round, Receipt(self._session.name, turn.round, turn, acting.time))
        if learning is not None and self._has_learned(learning):
            self._pending.pop(learning.receipt.serial, None)

    def _has_learned(self, learning: Learning) -> bool:
        """Whether feedback that was being taken in is part of the state."""
        serial = learning.receipt.serial
        if learning.label == events.FORGOTTEN:
            return self._journal is not None and self._journal.has_added("fed", serial)
        return self._player.last_learned == serial

    def _look(self, is_nested: bool) -> None:
        """Bring the model up to date for a call that changes nothing, under the lock.

        A signal handler may make such a call in the middle of one that does: that one goes on afterwards, and brings
        itself to its end. No context manager does this and holds the lock: the exception of a handler that raises
        inside of it would keep the lock as long as the exception is kept.
        """
        if is_nested:
            self._take_note()
        else:
            self._settle()

    def _owns_lock(self) -> bool:
        """Whether this thread has the lock."""
        return self._lock._is_owned()  # type: ignore[attr-defined]  # also used by threading.Condition

    def _is_busy_here(self) -> bool:
        """Whether this thread is inside a call already: then the present one comes from a signal handler."""
        return not self._is_idle and self._owns_lock()

    def _refuse_nesting(self) -> None:
        """A signal handler must not change the model in the middle of a call that changes it."""
        if self._is_busy_here():
            raise UserError(
                "the model is in the middle of another call, which a signal handler has interrupted (or an x that runs "
                "code of its own): there, it may be saved and looked at; act, learn, teach, forget, grow or add a "
                "class after that call has ended"
            )

    def learn(self, receipt: Receipt | str, label: Label | Unseen) -> None:
        """Take in the feedback of one action: the label, or UNSEEN where the round is over and the graph hid it."""
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                waiting = self._waiting(receipt)
                self._learn(Learning(waiting, self._position(waiting, label), time.time()))
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()

    def learn_many(self, feedback: Iterable[tuple[Receipt | str, Label | Unseen]]) -> None:
        """Take in the feedback of several actions, in order: as :meth:`learn` does, with one write to the journal.

        All are checked before the first is learned from: where one is refused, nothing is learned.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> first, second = model.act_many([[0.5, 1.0], [1.0, 0.0]])
        >>> model.learn_many([(second, UNSEEN), (first.id, first.action)])
        >>> model.pending
        ()
        """
        given = list(feedback)
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                now = time.time()
                found: dict[int, Learning] = {}
                for receipt, label in given:
                    waiting = self._waiting(receipt)
                    if waiting.serial in found:
                        raise SpentReceipt(
                            f"the receipt {waiting.id!r} stands twice in the feedback: feedback counts once"
                        )
                    found[waiting.serial] = Learning(waiting, self._position(waiting, label), now)
                for learning in found.values():
                    self._learn(learning)
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()

    def _learn(self, learning: Learning) -> None:
        """Take in feedback that was checked."""
        waiting, self._learning = learning.receipt, learning
        self._player.learn(waiting._turn, learning.label)
        self._log_feedback(learning)
        self._pending.pop(waiting.serial, None)
        self._waiting_bytes -= waiting._turn.nbytes
        self._learning = None

    def _log_feedback(self, learning: Learning) -> None:
        journal, serial = self._journal, learning.receipt.serial
        if journal is not None and not journal.has_added("fed", serial):
            journal.add("fed", serial, events.Fed(serial, learning.time, learning.label).to_bytes())

    def teach(self, x: Any, label: Label, propensity: float | None = None) -> None:
        """Learn the label of x without acting: a warm start from rows whose labels are known.

        The label is learned as if the graph showed every label, whatever is predicted; see :meth:`Player.teach`, also
        for the learners that cannot be taught. There is no receipt, and `rounds` and the draws stay as they are. Where
        a signal handler raises in the middle, the model has learned the row or is as before.

        :param x: as that of :meth:`act`.
        :param propensity: the probability with which the label was observed; by default 1.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online(graph=FeedbackGraph.apple_tasting())
        >>> for x, label in [({0: 1.0, 2: 1.0}, "ham"), ({0: 1.0, 1: 1.0}, "spam")] * 20:
        ...     model.teach(x, label)
        >>> model.predict({1: 1.0}), model.rounds
        ('spam', 0)
        """
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                position = self.graph.class_index(label)
                vector = self._taken(x)
                with self._logged_at_once():
                    self._player.teach_on(vector, position, propensity)
                    if self._journal is not None:
                        known = float("nan") if propensity is None else float(propensity)
                        row = events.Features(vector.indices, vector.values)
                        self._journal.add("taught", -1, events.Taught(time.time(), position, known, row).to_bytes())
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()

    def _logged_at_once(self) -> contextlib.AbstractContextManager[None]:
        """Around a change that the state does not tell of later: with a journal, signals wait until it is logged."""
        return contextlib.nullcontext() if self._journal is None else held_back()

    def forget(self, receipt: Receipt | str) -> None:
        """Stop waiting for the feedback of an action, since none will come; nothing is learned.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> model.forget(model.act([0.5, 1.0]))
        >>> model.pending
        ()
        """
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                waiting = self._waiting(receipt)
                self._learning = learning = Learning(waiting, events.FORGOTTEN, time.time())
                self._log_feedback(learning)
                self._pending.pop(waiting.serial, None)
                self._waiting_bytes -= waiting._turn.nbytes
                self._learning = None
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()

    def receipt(self, id: str) -> Receipt:
        """The waiting receipt with this id.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> receipt = model.act([0.5, 1.0])
        >>> model.receipt(receipt.id) is receipt
        True
        """
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._waiting(id)

    def _position(self, waiting: Receipt, label: Label | Unseen) -> int:
        """The position of a label that the action of a receipt reveals, or that of none."""
        turn = waiting._turn
        if label is UNSEEN:
            position = UNSEEN_LABEL
            # A class that was added since the action is one that the action did not reveal.
            if turn.graph.arrays.revealing[turn.action] and turn.graph.n_classes == self.graph.n_classes:
                raise UserError(
                    f"the action {waiting.action!r} reveals every label, so there is one to learn: give it, or leave "
                    "the receipt alone if the label is not known"
                )
        else:
            position = self.graph.class_index(label)
            if position >= turn.graph.n_classes:
                raise UserError(
                    f"the class {label!r} was added after the action of receipt {waiting.id!r}, which does not reveal "
                    "it: pass UNSEEN"
                )
            if not turn.graph.arrays.visible[turn.action, position]:
                raise UserError(
                    f"the action {waiting.action!r} does not reveal the label {label!r}, so learning from it would be "
                    "biased: pass UNSEEN"
                )
        return position

    def _waiting(self, receipt: Receipt | str) -> Receipt:
        if isinstance(receipt, Receipt) and self._pending.get(receipt.serial) is receipt:
            return receipt
        name = receipt.id if isinstance(receipt, Receipt) else receipt
        if not isinstance(name, str):
            raise UserError(f"{receipt!r} is not a receipt: give what act() returned, or its id")
        foreign = f"the receipt {name!r} is not from this model: learn from the receipts that its own act() returned"
        try:
            session, serial = split_id(name)
        except ValueError:
            raise UnknownReceipt(foreign) from None
        past = self._past.get(session)
        if past is not None and serial >= past.stop:
            raise UnknownReceipt(
                f"the receipt {name!r} was issued after this model was saved or copied, by the one that went on: learn "
                "from it there; if that one is lost, so is what happened in between, so save more often"
            )
        known = self._session._replace(stop=self.rounds) if session == self._session.name else past
        if known is None or not known.first <= serial < known.stop:
            raise UnknownReceipt(foreign)
        if serial in self._pending:
            return self._pending[serial]
        if serial in self._expired:
            aged = self.pending_age is not None
            too_long = f", or it waited for more than {self.pending_age:g} seconds" if aged else ""
            or_age = " or pending_age=" if aged else ""
            raise SpentReceipt(
                f"the receipt {name!r} has expired, since more than {self.pending_limit} others, or more than "
                f"{self.pending_bytes:,} bytes, were waiting{too_long}: give the feedback sooner, or make the model "
                f"with a larger pending= or pending_bytes={or_age}"
            )
        raise SpentReceipt(
            f"the receipt {name!r} was already learned from, forgotten, or expired long ago: feedback counts once"
        )

    def predict(self, x: Any, graph: FeedbackGraph | None = None) -> Label:
        """The greedy class for x; draws nothing and changes nothing.

        :param graph: as that of :meth:`act`; it matters to learners that use its costs.
        """
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            if self.encoder is not None:
                return self.graph.classes[self._player.predict(self.encoder.encode(x), graph)]
            if self.feature_limit is None:
                return self.graph.classes[self._player.predict(x, graph)]
            return self.graph.classes[self._player.predict_on(self._vector(x, MOST_FEATURES), graph)]

    def predict_many(self, X: Any, graph: FeedbackGraph | None = None) -> list[Label]:
        """The greedy class of every row of a dense array, a sparse matrix or a frame of numbers; with an encoder, of
        every record of a frame or a list.

        >>> from gappletron import FeedbackGraph, Online
        >>> Online("gapsmh", FeedbackGraph.bandit(["a", "b"]), features=2).predict_many([[1.0, 0.5], [0.0, 2.0]])
        ['a', 'a']
        """
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return [self.graph.classes[k] for k in self._player.predict_many(self._rows(X), graph)]

    def scores(self, X: Any) -> Floats:
        """The scores of every row, one column per class of the graph; most learners predict that of the largest."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._player.scores(self._rows(X))

    def predict_proba(self, X: Any) -> Floats:
        """The probability of every label, one column per class of the graph; see :meth:`Player.predict_proba`.

        >>> from gappletron import FeedbackGraph, Online
        >>> Online(graph=FeedbackGraph.bandit(["a", "b"]), features=2).predict_proba([[1.0, 0.5]])
        array([[0.5, 0.5]])
        """
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._player.predict_proba(self._rows(X))

    def probabilities(self, X: Any, graph: FeedbackGraph | None = None) -> Floats:
        """The probability of every action, one column per action of the graph, if the row came next."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._player.probabilities(self._rows(X), graph)

    # ---------------------------------------------------------------------------------------------------------- growing

    def add_class(
        self,
        name: Label,
        reveals: Iterable[Label] | None = None,
        revealed_by: Iterable[Label] | None = None,
        costs: Any = None,
    ) -> None:
        """Add a class, and the action that predicts it, while running; what was learned stays.

        :param reveals: the classes that the new action reveals (the new one may be among them).
        :param revealed_by: the actions that reveal the new class. Where neither is given, a preset's graph stays that
            preset.
        :param costs: those of the new class and of its action, where they are not 0 and 1: single entries as in
            :class:`FeedbackGraph`. The other costs stay.

        Receipts that wait can still be learned from: they did not reveal the new class.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(["cat", "dog"]), features=2)
        >>> model.add_class("fox")
        >>> model.graph.reveals("fox")
        ('fox',)
        """
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                with self._logged_at_once():
                    self._player.add_class(name, reveals, revealed_by, costs)
                    if self._journal is not None:
                        version = self._journal.version_of(self.graph)
                        self._journal.add("added", -1, events.Added(version, time.time()).to_bytes())
                self._player.compile_rounds()
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()

    def grow(self, features: int) -> None:
        """Give the model more features; what was learned stays."""
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                with self._logged_at_once():
                    self._player.grow(features)
                    if self._journal is not None:
                        self._journal.add("grown", -1, events.Grown(self.features).to_bytes())
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()

    @property
    def limits(self) -> Limits:
        """The limits on the exploration."""
        return self._player.limits

    def set_limits(self, *, min_propensity: float = 0.0, budget: Budget | None = None) -> None:
        """Go on with other limits on the exploration. A budget starts with nothing spent, unless it is the same.

        >>> from gappletron import Budget, FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.label_efficient(3), features=2, budget=Budget(50, per=1000))
        >>> model.set_limits(budget=Budget(20, per="day"))
        >>> model.limits.budget
        Budget(limit=20.0, per='day', prices=None)
        """
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                limits = Limits(min_propensity, budget)
                with self._logged_at_once():
                    self._player.set_limits(limits)
                    if self._journal is not None:
                        event = events.Limited(limits.to_dict(), time.time())
                        self._journal.add("limited", -1, event.to_bytes())
                self._player.compile_rounds()
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()

    def _rows(self, X: Any) -> Any:
        """A batch of records as the rows of a sparse matrix; other batches as they are."""
        return X if self.encoder is None else self.encoder.matrix(X)

    def _vector(self, x: Any, limit: int) -> Vector:
        """x, checked, with indices below the limit."""
        return self._player.checker.vector(tuple(sparse_parts(x, None)), limit)

    def _taken(self, x: Any) -> Vector:
        """x for a call that learns, checked, and the model grown for it where it grows."""
        if self.encoder is not None:
            return self._player.checker.vector(self.encoder.encode(x), self._player.features)
        if self.feature_limit is None:
            return self._player.checker.vector(x, self._player.features)
        return self._grown_for(x, self.feature_limit)

    def _grown_for(self, x: Any, limit: int) -> Vector:
        """x, checked, after the state was doubled where an index asks for it."""
        vector = self._vector(x, limit)
        needed = int(vector.indices[-1]) + 1 if vector.indices.size else 0
        if needed > self.features:
            self._player.grow(min(limit, max(2 * self.features, needed)))
        return vector

    # ----------------------------------------------------------------------------------------------------------- copies

    def _start_session(self, first: int, name: str | None = None) -> None:
        """From this round on receipts have another random part; those of before are known as past."""
        session = self._session._replace(stop=first)
        self._past[session.name] = session
        self._session, self._forks = new_session(first) if name is None else Session(name, first, first), forks[0]
        self._past.pop(self._session.name, None)  # a journal goes on with the session of its first snapshot

    def __getstate__(self) -> dict[str, Any]:
        """A copy of its own, made under the lock: copying and pickling go on when other threads play again."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            left_out = ("_lock", "_acting", "_learning", "_journal", "_held_by", "_is_idle", "_waiting_bytes")
            kept = {name: value for name, value in self.__dict__.items() if name not in left_out}
            waiting, expired = self._settled()
            copies = {name: copy.copy(kept[name]) for name in ("_player", "_past", "_answers")}
            return kept | copies | {"_pending": waiting, "_expired": expired}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        # A copy or an unpickled model is another model: its new receipts must not be taken for those of the first.
        self.__dict__.update(saved)
        self._start_session(self.rounds)
        self._bind()

    # ---------------------------------------------------------------------------------------------------------- journal

    @classmethod
    def open(
        cls,
        folder: str | PathLike[str] | Store,
        learner: Learner | str | None = None,
        graph: FeedbackGraph | None = None,
        features: int | str | None = None,
        *,
        start: Online | None = None,
        durability: str = "disk",
        snapshot_every: int = 100_000,
        keep_rows: int | None = None,
        monitor: bool | Watch | None = None,
        pieces: Iterable[type[Piece]] = (),
        **options: Any,
    ) -> Online:
        """A model with a journal: every decision and every piece of feedback is logged before the call returns.

        Opened again, also after a kill or a power failure, the model goes on bit for bit. A new folder gets a new
        model. For one that holds a journal, the arguments may be omitted; where they are given, they must be those
        that the model was made with, but for `pending`, `pending_bytes`, `pending_age`, `min_propensity` and `budget`,
        which may change. One process at a time can have a folder open. :meth:`close` ends it; the model is also a context manager.

        :param folder: where the journal is; or a :class:`~gappletron.journal.store.Store`.
        :param learner, graph, features: as those of :class:`Online`, and so are `options`.
        :param start: a model to begin with, such as one that was taught, in place of a new one.
        :param durability: what a call waits for: ``"disk"``, that its events survive a power failure (calls of several
            threads share one write), or ``"os"``, that they survive the end of the process.
        :param snapshot_every: events between two snapshots of the state, which are written in the background. They
            make opening quick.
        :param keep_rows: the features of at least so many last rounds are kept; in older parts of the log a hash may
            stand for them. By default all are kept.
        :param monitor: as that of :class:`Online`; here it is on by default.
        :param pieces: classes of your own that the learner is made of.

        >>> import tempfile
        >>> from gappletron import FeedbackGraph, Online
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Online.open(folder, graph=FeedbackGraph.bandit(3), features=2) as model:
        ...         receipt = model.act([0.5, 1.0])
        ...     with Online.open(folder) as again:  # perhaps another process, another day
        ...         again.learn(receipt.id, receipt.action)
        ...         again.rounds, again.pending
        (1, ())
        """
        if durability not in DURABILITIES:
            raise UserError(f"durability={durability!r} is not known: choose 'disk' or 'os'")
        policy = Policy(
            durability,
            whole(snapshot_every, "snapshot_every", least=1),
            None if keep_rows is None else whole(keep_rows, "keep_rows", least=0),
        )
        given = {"learner": learner, "graph": graph, "features": features, "monitor": monitor, **options}
        given = {name: value for name, value in given.items() if value is not None}
        store = folder if isinstance(folder, Store) else FolderStore(folder)
        try:
            settings = store.settings()
            if settings is None:
                model = cls(**{"monitor": True, **given}) if start is None else _copied(start, given)
                store.put_snapshot(0, FORMAT, *model._snapshot())
                store.put_settings({"options": settings_of(given)})
            else:
                if start is not None:
                    raise UserError(f"{store.name!r} holds a model already: omit start, or use another folder")
                changes = {name: given.pop(name) for name in CHANGEABLE if name in given}
                check_settings(store.name, settings["options"], given)
                model = cls._recovered(store, tuple(pieces), store.snapshots())
                model._set_waiting(*(changes.get(name, getattr(model, kept)) for name, kept in WAITING.items()))
            model._attach(Journal(store, policy))
            if settings is not None and not changes.keys().isdisjoint(("min_propensity", "budget")):
                kept = model.limits
                model.set_limits(
                    min_propensity=changes.get("min_propensity", kept.min_propensity),
                    budget=changes.get("budget", kept.budget),
                )
        except BaseException:
            store.close()
            raise
        return model

    @classmethod
    def from_journal(
        cls,
        folder: str | PathLike[str],
        *,
        replay: str = "last",
        stop: int | None = None,
        pieces: Iterable[type[Piece]] = (),
    ) -> Online:
        """A copy in memory of the model in a folder, which stays as it is; another process may have it open.

        :param replay: from the ``"last"`` snapshot, or from the ``"first"``, which does everything again that was ever
            logged. Both lead to the same bits.
        :param stop: replay the events before this number only.
        :param pieces: as that of :meth:`open`.

        >>> import tempfile
        >>> from gappletron import FeedbackGraph, Online
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Online.open(folder, graph=FeedbackGraph.bandit(3), features=2) as model:
        ...         receipt = model.act([0.5, 1.0])
        ...         model.learn(receipt, receipt.action)
        ...         copy = Online.from_journal(folder)
        >>> bool((copy.weights == model.weights).all())
        True
        """
        if replay not in ("last", "first"):
            raise UserError(f"replay={replay!r} is not known: choose 'last' or 'first'")
        reader = FolderReader(folder)
        found = reader.snapshots()
        chosen = found[:1] if replay == "first" else [at for at in found if stop is None or at <= stop]
        return cls._recovered(reader, tuple(pieces), chosen, stop)

    @classmethod
    def _recovered(
        cls, store: Store | FolderReader, pieces: tuple[type[Piece], ...], found: list[int], stop: int | None = None
    ) -> Online:
        """The model of a journal: the newest of these snapshots that is whole, and what was logged since then."""
        for at in reversed(found):
            try:
                model = store.read_snapshot(at, FORMAT, lambda header, arrays: cls._restored(header, arrays, pieces))
            except UserError:
                if at == found[0]:
                    raise
                continue
            _, model._session = model._past.popitem()  # the one that was going on: its receipts follow
            model._replay(store, at, stop)
            model._start_session(model.rounds)
            return model
        raise UserError(f"the journal in {store.name!r} has no snapshot left: restore the folder from a copy")

    def _replay(self, store: Store | FolderReader, start: int, stop: int | None) -> None:
        """Do again what was logged from event number `start` on, to before `stop`."""
        graphs: dict[int, FeedbackGraph] = {}
        changed = 0
        try:
            for group in store.groups(start):
                for place, event in enumerate(events.events_of(group.events), group.first):
                    if place >= start and (stop is None or place < stop):
                        changed += self._redo(event, graphs)
        except (events.Damaged, KeyError):
            raise UserError(
                f"an event in the journal in {store.name!r} does not fit those before it: restore the folder from a "
                "copy"
            ) from None
        if changed:
            warnings.warn(
                f"{changed:,} decisions of the journal in {store.name!r} have other probabilities when they are "
                "computed again, as after a change of versions or of the machine: those of the log were kept",
                stacklevel=4,
            )

    def _redo(self, event: events.Event, graphs: dict[int, FeedbackGraph]) -> bool:
        """Do again what an event tells of; whether a decision came out differently."""
        player = self._player
        match event:
            case events.GraphMade(version, document):
                graph = model_files.graph_from(document)
                graphs[version] = self.graph if graph == self.graph else graph
            case events.Decided():
                return self._redo_decision(event, graphs[event.graph])
            case events.Fed(serial, _, label):
                turn = self._pending.pop(serial)._turn
                self._waiting_bytes -= turn.nbytes
                if label != events.FORGOTTEN:
                    player.learn(turn, label)
            case events.Expired(serial, _):
                if serial in self._pending:
                    self._waiting_bytes -= self._pending.pop(serial)._turn.nbytes
                    self._expired[serial] = None
                    self._trim_expired()
            case events.Taught(_, label, propensity, features):
                known = None if math.isnan(propensity) else propensity
                player.teach_on(self._taken_again(features), label, known)
            case events.Added(version, _):
                player.extend(graphs[version])
                player.compile_rounds()
            case events.Limited(limits, _):
                player.set_limits(Limits.from_dict(limits))
                player.compile_rounds()
            case events.Grown(features):
                player.grow(features)
            case events.Answered(_, key, fingerprint, answer):
                self._answers.put(key, fingerprint, answer)
            case events.Opened(name, first, _, _):
                if first != self.rounds:
                    raise events.Damaged
                self._start_session(first, name)
        return False

    def _redo_decision(self, event: events.Decided, graph: FeedbackGraph) -> bool:
        """Play a round again. Its action and probabilities are those of the log: they were acknowledged."""
        if event.round != self.rounds:
            raise events.Damaged
        player = self._player
        turn = player.new_turn(self._taken_again(event.features), graph)
        if player.needs_time:
            player.now = event.time
        if event.followed:
            player.follow(turn, event.action, event.probabilities)
        else:
            player.draw(turn)
        chances = turn.record[HEAD : HEAD + graph.n_actions]
        differs = turn.action != event.action or not np.array_equal(chances, event.probabilities)
        if differs:
            turn.record[ACTION], chances[:] = event.action, event.probabilities
        self._pending[event.round] = Receipt(self._session.name, event.round, turn, event.time)
        self._waiting_bytes += turn.nbytes
        return differs

    def _taken_again(self, features: events.Features) -> Vector:
        """The row of an event, as it was taken then."""
        if features.digest:
            raise UserError(
                "the features of this part of the log were compacted, so it cannot be replayed: only the snapshots "
                "after it lead on"
            )
        row = (features.indices, features.values)
        if self.encoder is None and self.feature_limit is not None:
            return self._grown_for(row, self.feature_limit)
        return self._player.checker.vector(row, self._player.features)

    def _attach(self, journal: Journal) -> None:
        """Log from now on. The session is new, so its name is logged first."""
        opened = events.Opened(self._session.name, self.rounds, time.time(), versions())
        journal.add("opened", -1, opened.to_bytes())
        journal.publish()
        journal.commit()
        self._journal = journal
        self._marks = [(journal.store.count, self.rounds)]

    def _publish(self) -> None:
        """At the end of a call that changed the model: what it has logged may be written, unless a block holds it."""
        if self._journal is not None and self._held_by is None:
            self._journal.publish()

    def _acknowledge(self) -> None:
        """After a call that changed the model, without the lock: wait until it is stored."""
        if self._journal is not None and self._held_by != threading.get_ident():
            self.commit()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Inside the block no other thread uses the model, and no call waits for the disk; :meth:`commit` does later.

        What happens inside is logged together: after a crash all of it is there, or nothing. A server uses this: it
        collects the requests that arrive while the disk is busy, and one write serves them all.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> with model.hold():
        ...     receipt = model.act([0.5, 1.0])
        ...     model.learn(receipt, receipt.action)
        >>> model.commit()
        """
        self._refuse_nesting()
        with self._lock:
            self._begin_call()
            self._held_by, self._is_idle = threading.get_ident(), True
            try:
                yield
            finally:
                self._held_by, self._is_idle = None, False
                self._settle()
                self._publish()

    def commit(self) -> None:
        """Return when everything up to now is stored; after a full disk, try again to store it.

        Every call does this by itself, except inside :meth:`hold`. Without a journal there is nothing to wait for.
        """
        if self._journal is not None:
            self._journal.commit()
            if self._journal.is_snapshot_due and not self._owns_lock():
                self._journal.put_snapshot_in_background(self._copied_state)

    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None:
        """Keep the answer to a request under an idempotency key, for :meth:`recall`; the last 100,000 are kept.

        Inside :meth:`hold` it is logged together with what the request did.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> model.remember("7f3a", b"hash of the request", b"the answer")
        >>> model.recall("7f3a", b"hash of the request")
        b'the answer'
        """
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                with self._logged_at_once():
                    self._answers.put(key, fingerprint, answer)
                    if self._journal is not None:
                        event = events.Answered(time.time(), key, fingerprint, answer)
                        self._journal.add("answered", -1, event.to_bytes())
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()

    def recall(self, key: str, fingerprint: bytes) -> bytes | None:
        """The answer that was kept under this key, None where there is none; a UserError if the fingerprint differs."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._answers.find(key, fingerprint)

    def checkpoint(self) -> None:
        """Store a snapshot of the state now, so that opening again need not replay the log.

        This happens by itself, in the background, once in `snapshot_every` events, and in :meth:`close`.
        """
        if self._owns_lock():
            raise UserError("checkpoint() was called in the middle of a call or of a hold() block: call it afterwards")
        if self._journal is None:
            raise UserError("the model has no journal: use save(), or make it with Online.open()")
        self._journal.put_snapshot(self._copied_state)

    def _copied_state(self) -> Snapshot:
        """A copy of the state for the journal, and what of the log need not be kept any more."""
        with self._lock:
            self._settle()
            journal = self._journal
            assert journal is not None
            self._publish()
            at = journal.begin_part()
            header, arrays = self._snapshot()
            self._marks.append((at, self.rounds))
            stop = None
            if journal.policy.keep_rows is not None:
                last = self.rounds - journal.policy.keep_rows
                stop = max((number for number, rounds in self._marks if rounds <= last), default=0)
                self._marks = [mark for mark in self._marks if mark[0] >= stop]
            return Snapshot(at, FORMAT, header, {name: array.copy() for name, array in arrays.items()}, stop)

    def close(self) -> None:
        """Store a snapshot and let another process open the folder; afterwards the model can only be looked at.

        Without a journal there is nothing to close.
        """
        journal = self._journal
        if journal is None or journal.is_closed:
            return
        try:
            self.checkpoint()
        finally:
            journal.close()

    def __enter__(self) -> Online:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ----------------------------------------------------------------------------------------------- saving and loading

    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole model: weights, accumulators, random state, waiting receipts.

        The file is a NumPy archive with a JSON header: nothing in it can run code. It replaces an older one at once or
        not at all. A model that was saved and loaded at any round goes on bit for bit. Waiting receipts keep their ids,
        and can be learned from once in each loaded copy.
        """
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            model_files.write(path, FORMAT, *self._snapshot())

    def _snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything that the model is, as a JSON-ready header and named arrays."""
        header, arrays = self._player.snapshot()
        waiting, expired = self._settled()
        graphs, receipts = write_receipts(waiting.values(), self.graph)
        header |= {
            "sessions": [*self._past.values(), self._session._replace(stop=self.rounds)],
            "feature_limit": self.feature_limit,
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "pending_limit": self.pending_limit,
            "pending_bytes": self.pending_bytes,
            "pending_age": self.pending_age,
            "graphs": graphs,
        }
        arrays |= receipts | self._answers.to_arrays()
        arrays["expired"] = np.array(list(expired), np.int64)
        return header, arrays

    def differences(self, other: Online) -> list[str]:
        """The names of the parts of the state in which another model differs, bit for bit; none where they are equal.

        The times of waiting receipts and the names of sessions are not compared.

        >>> from gappletron import FeedbackGraph, Online
        >>> first, second = (Online(graph=FeedbackGraph.bandit(3), features=2, seed=1) for _ in range(2))
        >>> receipt = first.act([0.5, 1.0])
        >>> first.differences(second)[:2]
        ['rounds', 'random']
        """
        ours, theirs = self._parts(), other._parts()
        names = dict.fromkeys([*ours, *theirs])
        return [name for name in names if ours.get(name) != theirs.get(name)]

    def _parts(self) -> dict[str, Any]:
        """Everything that the model is, by name, for comparing."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            header, arrays = self._snapshot()
            del header["sessions"], header["now"], arrays["times"]
            return header | {name: (array.shape, array.tobytes()) for name, array in arrays.items()}

    @classmethod
    def load(cls, path: str | PathLike[str], *, pieces: Iterable[type[Piece]] = ()) -> Online:
        """Read what :meth:`save` wrote; `pieces` are the classes of your own that the learner is made of.

        >>> import tempfile, pathlib
        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> receipt = model.act([0.5, 1.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder) / "model.npz")
        ...     again = Online.load(pathlib.Path(folder) / "model.npz")
        >>> again.learn(receipt.id, receipt.action)
        >>> again.rounds
        1
        """
        return model_files.read(path, FORMAT, lambda header, arrays: cls._restored(header, arrays, pieces))

    @classmethod
    def _restored(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], pieces: Iterable[type[Piece]]
    ) -> Online:
        model = cls.__new__(cls)
        model._player = Player.restored(header, arrays, pieces)
        limit = header["feature_limit"]
        if limit is not None:
            limit = whole(limit, "feature_limit", least=model.features, most=MOST_FEATURES)
        model.feature_limit = limit
        saved = header.get("encoder")  # absent in files of version 0.1
        model.encoder = None if saved is None else Encoder.from_dict(saved)
        if model.encoder is not None and (model.encoder.features != model.features or limit is not None):
            raise UserError("the encoder does not fit the number of features: the file is damaged")
        model._set_waiting(header["pending_limit"], header["pending_bytes"], header.get("pending_age"))
        model._answers = Answers.from_arrays(arrays)
        past = checked_sessions(header["sessions"], model.rounds)
        model._pending = OrderedDict()
        for serial, turn, issued in read_receipts(header["graphs"], arrays, model._player, model.pending_limit):
            session = next((each.name for each in past if each.first <= serial < each.stop), None)
            if session is None:
                raise UserError("a waiting receipt belongs to no session: the file is damaged")
            model._pending[serial] = Receipt(session, serial, turn, issued)
        model._expired = OrderedDict.fromkeys(_expired(arrays["expired"], model))
        needed = {receipt.session for receipt in model._pending.values()}
        kept = [each for place, each in enumerate(past, MOST_SESSIONS) if place >= len(past) or each.name in needed]
        model._past = {each.name: each for each in kept}
        # The receipts of this copy are its own: other copies of the file do not know them.
        model._session, model._forks = new_session(model.rounds), forks[0]
        model._bind()
        return model


def _encoded_features(encoder: Any, features: Any) -> int:
    """The features of a model with this encoder."""
    if not isinstance(encoder, Encoder):
        raise UserError(f"{encoder!r} is not an encoder: give Encoder(), or one with your columns")
    if features not in ("grow", encoder.features):
        raise UserError(
            f"features={features!r} was given beside an encoder with {encoder.features} features: say it there, as in "
            "Encoder(features=2**16)"
        )
    return encoder.features


def _copied(start: Any, given: dict[str, Any]) -> Online:
    """A model to begin a journal with, which others may go on to use."""
    if not isinstance(start, Online):
        raise UserError(f"start is {start!r}, not a model: give one, for example Online.load('model.npz')")
    if given:
        raise UserError(f"{next(iter(given))} was given beside start, which has its own: omit it")
    return copy.copy(start)


def _expired(serials: NDArray[Any], model: Online) -> list[int]:
    """The last expired receipts of a file, checked."""
    if serials.ndim != 1 or serials.dtype != np.int64 or serials.size > model.pending_limit:
        raise UserError("the expired receipts do not fit the model: the file is damaged")
    found = [whole(serial, "a serial", most=model.rounds - 1) for serial in serials.tolist()]
    if not model._pending.keys().isdisjoint(found):
        raise UserError("a receipt is both waiting and expired: the file is damaged")
    return found
