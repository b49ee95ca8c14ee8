"""One round at a time, for real use: act now, learn when the feedback comes, save and go on later.

:class:`Online` is a :class:`~gappletron.play.player.Player` with names, receipts and their expiry.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import SpentReceipt, Unavailable, UserError
from gappletron.base.forks import forks, guard
from gappletron.base.signals import held_back
from gappletron.data.normalization import Normalization
from gappletron.data.records.encoder import Encoder
from gappletron.data.stream import MOST_FEATURES
from gappletron.data.vectors import NO_VECTOR, Vector, Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import UNSEEN_LABEL, Floats
from gappletron.kernel.pieces import Piece
from gappletron.learners.learner import Learner
from gappletron.online import events, opening
from gappletron.online.folder import FolderStore
from gappletron.online.journal import DURABILITIES, Journal, Policy, Snapshot
from gappletron.online.parts import FORMAT, TOGETHER, Parts
from gappletron.online.presence import Trouble
from gappletron.online.receipts import Receipt, Unseen
from gappletron.online.settings import versions
from gappletron.online.store import Store
from gappletron.online.waiting import PENDING, PENDING_BYTES, Waiting
from gappletron.play import saved
from gappletron.play.limits import Budget, Limits
from gappletron.play.monitor import Monitor
from gappletron.play.player import Player, Turn, for_records
from gappletron.play.watch import NoWatch, Watch

__all__ = ["Online"]

P = ParamSpec("P")
T = TypeVar("T")

FIRST_FEATURES = 1024
NOTHING_PLAYED = (0.0, NO_VECTOR, 0, False)
"""Of a round that is being played: when, and for the journal its row, its graph's version, and whether it follows
another model's decision."""


def changing(method: Callable[Concatenate[Online, P], T]) -> Callable[Concatenate[Online, P], T]:
    """A call that changes the model: alone under the lock, and stored when it returns.

    :meth:`Online.act` and :meth:`Online.learn` do the same themselves, since a wrapper takes time.
    """

    @functools.wraps(method)
    def call(self: Online, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._refuse_nesting()
        with self._lock:
            try:
                self._begin_call()
                result = method(self, *args, **kwargs)
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()
        return result

    return call


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
        limit: int | None = None
        first: Any = features
        if encoder is not None:
            first = _encoded_features(encoder, features)
            normalize, bias = for_records(normalize, bias)
        elif isinstance(features, str):
            if features != "grow":
                raise UserError(f"features={features!r} is neither a number nor 'grow': give one of them")
            limit = whole(feature_limit, "feature_limit", least=1, most=MOST_FEATURES)
            first = min(FIRST_FEATURES, limit)
        limits = Limits(min_propensity, budget)
        player = Player(learner, graph, first, seed, normalize=normalize, bias=bias, watch=monitor, limits=limits)
        self._adopt(Parts(player, encoder, limit, Waiting(player.rounds, pending, pending_bytes, pending_age)))

    def _adopt(self, parts: Parts) -> None:
        """Be the model that has these parts. Beside them: the lock, what a signal may interrupt, no journal yet, and
        machine code, now rather than in a round.
        """
        self._parts = parts
        self._player, self._receipts, self._answers = parts.player, parts.waiting, parts.answers
        self._forks = forks[0]
        self._lock = threading.RLock()  # reentrant: a signal handler may save in the middle of a call
        self._acting: Turn | None = None
        self._acting_how = NOTHING_PLAYED
        self._learning: Receipt | None = None
        self._learning_what = (UNSEEN_LABEL, 0.0)
        self._journal: Journal | None = None
        self._held_by: int | None = None
        self._is_idle = False
        self._player.compile_rounds()
        guard(self)

    @classmethod
    def _of(cls, parts: Parts) -> Online:
        """A model with these parts."""
        model = cls.__new__(cls)
        model._adopt(parts)
        return model

    def __repr__(self) -> str:
        return (
            f"<Online {self.learner.name} on {self.graph}: {self.rounds} rounds, {self.waiting} waiting, "
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
        return cls._of(Parts(player, encoder))

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
    def encoder(self) -> Encoder | None:
        """What turns records into features; None for a model of vectors."""
        return self._parts.encoder

    @encoder.setter
    def encoder(self, encoder: Encoder | None) -> None:
        """Another encoder with as many features, such as one that declares more columns."""
        if self._journal is not None:
            raise UserError("the encoder of a model with a journal cannot be replaced: make another model")
        with self._lock:
            self._settle()
            if self._parts.encoder is None or encoder is None or encoder.features != self.features:
                raise UserError(
                    f"the model takes {'vectors' if self._parts.encoder is None else f'{self.features} features'}, so "
                    "it cannot have this encoder: make another model"
                )
            self._parts.encoder = encoder

    @property
    def feature_limit(self) -> int | None:
        """The most features of a model that grows; None where their number is fixed."""
        return self._parts.feature_limit

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
            return tuple(self._receipts.settled()[0].values())

    @property
    def waiting(self) -> int:
        """How many receipts wait for feedback: the length of :attr:`pending`, without making it.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> receipt = model.act([0.5, 1.0])
        >>> model.waiting
        1
        """
        return len(self._receipts.pending)

    @property
    def monitor(self) -> Monitor:
        """What is known of the error so far, from revealed labels alone; with ``monitor=True``, and by :meth:`open`.

        >>> from gappletron import UNSEEN, FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(["a", "b", "c"]), features=2, monitor=True)
        >>> for label in "ab" * 50:
        ...     receipt = model.act([1.0, float(label == "a")])
        ...     model.learn(receipt, label if label in receipt.reveals else UNSEEN)
        >>> report = model.monitor.report()
        >>> report.rounds, report.policy.error.low == report.policy.error.high  # on this graph mistakes are seen
        (100, True)
        """
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            if isinstance(self._player.watch, NoWatch):
                raise UserError("the model is not monitored: make it with Online(..., monitor=True)")
            return Monitor(self._player)

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the journal, also where no call has failed yet: a snapshot in the background that could
        not be stored, or files that were removed. None where all is well, or where there is no journal.

        >>> from gappletron import FeedbackGraph, Online
        >>> Online(graph=FeedbackGraph.bandit(3), features=2).trouble is None
        True
        """
        return None if self._journal is None else self._journal.trouble

    @property
    def spent(self) -> float | None:
        """What exploration has cost in the present window of the budget; None without a budget.

        >>> from gappletron import Budget, FeedbackGraph, Online
        >>> Online(graph=FeedbackGraph.bandit(3), features=2, budget=Budget(50, per=1000)).spent
        0.0
        """
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._player.spent_until(time.time())

    @property
    def pending_limit(self) -> int:
        """How many receipts may wait."""
        return self._receipts.limit

    @property
    def pending_bytes(self) -> int:
        """How much memory waiting receipts may take."""
        return self._receipts.most_bytes

    @property
    def pending_age(self) -> float | None:
        """For how many seconds a receipt may wait; None for any time."""
        return self._receipts.age

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

    @changing
    def act_many(self, X: Iterable[Any], graph: FeedbackGraph | None = None) -> list[Receipt]:
        """Draw an action for every x, in order: as :meth:`act` does, with one write to the journal for all.

        All are checked before the first is played.

        :param X: rows as those of :meth:`act`. For a model with an encoder also a frame of pandas or polars or a table
            of Arrow; for one without also a SciPy sparse matrix, which is the fastest.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> [receipt.serial for receipt in model.act_many([[0.5, 1.0], [1.0, 0.0]])]
        [0, 1]
        """
        is_table = hasattr(X, "tocsr") or (self.encoder is not None and hasattr(X, "columns"))
        rows = X if is_table else list(X)
        given, now = self._growing(lambda: self._parts.taken_many(rows)), time.time()
        if isinstance(given, Vectors):
            receipts = self._act_together(given, graph, now)
        else:
            receipts = [self._act(vector, graph, now) for vector in given]
        return receipts

    def _begin_call(self) -> None:
        """At the start of every call that changes the model, under the lock: what an earlier one left is done first."""
        self._is_idle = False
        if self._acting is not None or self._learning is not None:
            self._settle()
        if self._forks != forks[0]:
            self._refuse_copies()
            self._start_session()  # a copy of the process: its receipts are its own
        if self._journal is not None:
            if self._held_by is None:  # a block of hold() has begun with it, and must not be refused in its middle
                self._journal.check()
                if self._receipts.age is not None:
                    self._expire(time.time())
            if self._journal.rounds not in (-1, self.rounds):
                raise Unavailable(
                    f"a round of the model in {self._journal.store.name!r} was played and not logged, after an error "
                    "in the middle of it: open the folder again (restart the server)"
                )

    def _refuse_copies(self) -> None:
        """A copy of the process (fork) has no journal."""
        if self._journal is not None and self._forks != forks[0]:
            raise UserError(
                "this process is a copy (fork) of the one that opened the journal, which goes on there: open another "
                "folder here, or load a saved copy"
            )

    def _leave_journal(self) -> None:
        if self._journal is not None:
            self._journal.leave()

    def _act(self, vector: Vector, graph: FeedbackGraph | None, now: float) -> Receipt:
        """Play a round."""
        player = self._player
        self._acting = turn = self._prepared(vector, graph, now, False)
        player.draw(turn, vector)
        return self._issued(turn, now)

    def compile_batches(self) -> None:
        """Compile, or load from the cache, what :meth:`act_many` and :meth:`learn_many` need, before many rows come in;
        nothing is played.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> model.compile_batches()
        >>> model.rounds
        0
        """
        from scipy.sparse import csr_array

        self._refuse_nesting()
        with self._lock:
            self._settle()
            nothing = self._player.take_many(csr_array((0, 1)))
            assert nothing is not None
            self._player.draw_many(nothing)
            self._player.learn_many([], [])
        if self.encoder is not None:
            self.encoder.encode_many(["word"])

    def _act_together(self, rows: Vectors, graph: FeedbackGraph | None, now: float) -> list[Receipt]:
        """Play many rounds in one call of compiled code. Signals wait until all are written down, so there is nothing
        to settle.
        """
        player, receipts, journal = self._player, self._receipts, self._journal
        session = receipts.session.name
        with held_back():
            if player.needs_time:
                player.now = now
            turns = player.draw_many(rows, graph)
            if journal is not None:
                data = events.packed_decisions(now, journal.version_of(turns.graph), *rows[:3], turns.decisions())
                journal.add("decided", self.rounds - 1, data, rows.squared.size)
                journal.rounds = self.rounds
            found = [Receipt(session, serial, turn, now) for serial, turn in enumerate(turns.each(), turns.first)]
            receipts.add_many(found)
            if receipts.may_be_overdue:
                self._expire(now)
        return found

    @changing
    def follow(self, x: Any, action: Label, probabilities: Any, graph: FeedbackGraph | None = None) -> Receipt:
        """A round in which another model has decided: this one is its shadow, and learns from the same feedback.

        Its monitor estimates what its own predictions would have led to.

        :param x, graph: as those of :meth:`act`.
        :param action: what the other model did.
        :param probabilities: with which the other drew it, of all actions; those of its receipt.

        >>> from gappletron import UNSEEN, FeedbackGraph, Online
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
        vector, position = self._taken(x), self.graph.action_index(action)
        now = time.time()
        self._acting = turn = self._prepared(vector, graph, now, True)
        self._player.follow_turn(turn, vector, position, probabilities)
        return self._issued(turn, now)

    def _prepared(self, vector: Vector, graph: FeedbackGraph | None, now: float, followed: bool) -> Turn:
        """A round that is about to be played."""
        turn = self._player.new_turn(vector, graph)
        if self._player.needs_time:
            self._player.now = now
        version = 0 if self._journal is None else self._journal.version_of(turn.graph)
        self._acting_how = (now, vector, version, followed)
        return turn

    def _issued(self, turn: Turn, now: float) -> Receipt:
        """The receipt of a round that was played, which waits from now on."""
        receipts = self._receipts
        receipt = Receipt(receipts.session.name, turn.round, turn, now)
        if self._journal is not None:
            self._log_decision(turn, self._journal)
        receipts.add(receipt)
        if receipts.may_be_overdue:
            self._expire(now)
        self._acting = None
        return receipt

    def _log_decision(self, turn: Turn, journal: Journal) -> None:
        now, (indices, values, _), version, followed = self._acting_how
        row, decision = indices.tobytes() + values.tobytes(), turn.decision().tobytes()
        data = events.packed_decision(now, version, events.FOLLOWED * followed, indices.size, row, decision)
        journal.add("decided", turn.round, data)
        journal.rounds = turn.round + 1

    def _expire(self, now: float) -> None:
        """Let the oldest receipts expire where too many wait, or for too long."""
        for oldest in self._receipts.overdue(now):
            if self._journal is not None:  # first: said twice it means the same
                self._journal.add("expired", oldest.serial, events.Expired(oldest.serial, now).to_bytes())
            self._receipts.expire(oldest)

    def _settle(self) -> None:
        """Bring to its end what a signal handler interrupted in an earlier call; at the start of every call.

        Compiled code changes the state and notes it in one step: see :class:`gappletron.play.rounds.Desk`.
        """
        turn, receipt = self._acting, self._learning
        if turn is not None or receipt is not None:
            if self._journal is not None:
                self._log_missing(self._journal)
                if turn is not None:
                    self._journal.rounds = self.rounds
            self._take_note()
            self._receipts.recount()
            self._expire(time.time() if turn is None else self._acting_how[0])
            self._acting = self._learning = None

    def _log_missing(self, journal: Journal) -> None:
        """Log what an interrupted call has done, where it did not come to that."""
        turn, receipt = self._acting, self._learning
        if turn is not None and turn.round >= 0 and not journal.has_added("decided", turn.round):
            self._log_decision(turn, journal)
        if receipt is not None and self._has_learned(receipt) and not journal.has_added("fed", receipt.serial):
            self._log_feedback(receipt, journal)

    def _take_note(self) -> None:
        """Let the waiting receipts be those that the state and the journal tell of."""
        turn, receipts = self._acting, self._receipts
        if turn is not None and turn.round >= 0 and turn.round not in receipts.expired:
            receipt = Receipt(receipts.session.name, turn.round, turn, self._acting_how[0])
            receipts.pending.setdefault(turn.round, receipt)
        if self._learning is not None and self._has_learned(self._learning):
            receipts.pending.pop(self._learning.serial, None)

    def _has_learned(self, receipt: Receipt) -> bool:
        """Whether feedback that was being taken in is part of the state."""
        if self._learning_what[0] == events.FORGOTTEN:
            return self._journal is not None and self._journal.has_added("fed", receipt.serial)
        return self._player.last_learned == receipt.serial

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
        return not self._is_idle and self._lock._is_owned()  # type: ignore[attr-defined]

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
                waiting = self._parts.found(receipt)
                self._learn(waiting, self._parts.position(waiting, label), time.time())
                self._publish()
            finally:
                self._is_idle = self._held_by is not None
        self._acknowledge()

    @changing
    def learn_many(self, feedback: Iterable[tuple[Receipt | str, Label | Unseen]]) -> None:
        """Take in the feedback of several actions, in order: as :meth:`learn` does, with one write to the journal.

        All are checked before the first is learned from: where one is refused, nothing is learned.

        >>> from gappletron import UNSEEN, FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> first, second = model.act_many([[0.5, 1.0], [1.0, 0.0]])
        >>> model.learn_many([(second, UNSEEN), (first.id, first.action)])
        >>> model.pending
        ()
        """
        given = list(feedback)
        now = time.time()
        found: dict[int, tuple[Receipt, int]] = {}
        for receipt, label in given:
            waiting = self._parts.found(receipt)
            if waiting.serial in found:
                raise SpentReceipt(f"the receipt {waiting.id!r} stands twice in the feedback: feedback counts once")
            found[waiting.serial] = waiting, self._parts.position(waiting, label)
        if len(found) < TOGETHER:
            for waiting, position in found.values():
                self._learn(waiting, position, now)
        else:
            self._learn_together(list(found.values()), now)

    def _learn(self, waiting: Receipt, position: int, now: float) -> None:
        """Take in feedback that was checked."""
        self._learning_what = (position, now)
        self._learning = waiting
        self._player.learn(waiting._turn, position)
        if self._journal is not None:
            self._log_feedback(waiting, self._journal)
        self._receipts.remove(waiting)
        self._learning = None

    def _learn_together(self, feedback: list[tuple[Receipt, int]], now: float) -> None:
        """Take in much feedback that was checked; signals wait until all is written down."""
        player, receipts, journal = self._player, self._receipts, self._journal
        serials, labels = [waiting.serial for waiting, _ in feedback], [label for _, label in feedback]
        data = b"" if journal is None else events.packed_feedbacks(serials, now, labels)
        with held_back():
            player.learn_many([waiting._turn for waiting, _ in feedback], labels)
            if journal is not None:
                journal.add("fed", serials[-1], data, len(serials))
            for waiting, _ in feedback:
                receipts.remove(waiting)

    def _log_feedback(self, waiting: Receipt, journal: Journal) -> None:
        label, now = self._learning_what
        journal.add("fed", waiting.serial, events.packed_feedback(waiting.serial, now, label))

    @changing
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
        position = self.graph.class_index(label)
        vector = self._taken(x)
        known = math.nan if propensity is None else number(propensity, "propensity", above=0.0, most=1.0)
        event = b""
        if self._journal is not None:
            row = events.Features(vector.indices, vector.values)
            event = events.Taught(time.time(), position, known, row).to_bytes()
        with self._logged_at_once():
            self._player.teach_on(vector, position, propensity)
            if self._journal is not None:
                self._journal.add("taught", -1, event)

    def _logged_at_once(self) -> contextlib.AbstractContextManager[None]:
        """Around a change that the state does not tell of later: with a journal, signals wait until it is logged."""
        return contextlib.nullcontext() if self._journal is None else held_back()

    @changing
    def forget(self, receipt: Receipt | str) -> None:
        """Stop waiting for the feedback of an action, since none will come; nothing is learned.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> model.forget(model.act([0.5, 1.0]))
        >>> model.pending
        ()
        """
        waiting = self._parts.found(receipt)
        self._learning_what = (events.FORGOTTEN, time.time())
        self._learning = waiting
        if self._journal is not None:
            self._log_feedback(waiting, self._journal)
        self._receipts.remove(waiting)
        self._learning = None

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
            return self._parts.found(id)

    def predict(self, x: Any, graph: FeedbackGraph | None = None) -> Label:
        """The greedy class for x; draws nothing and changes nothing.

        :param graph: as that of :meth:`act`; it matters to learners that use its costs.
        """
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            parts, player = self._parts, self._player
            if parts.encoder is not None:
                position = player.predict_on(parts.encoder.vector(x), graph)
            elif parts.feature_limit is None:
                position = player.predict(x, graph)
            else:
                position = player.predict_on(player.checked(x, MOST_FEATURES), graph)
            return self.graph.classes[position]

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
            return [self.graph.classes[k] for k in self._player.predict_many(self._parts.matrix(X), graph)]

    def scores(self, X: Any) -> Floats:
        """The scores of every row, one column per class of the graph; most learners predict that of the largest."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._player.scores(self._parts.matrix(X))

    def predict_proba(self, X: Any) -> Floats:
        """The probability of every label, one column per class of the graph; see :meth:`Player.predict_proba`.

        >>> from gappletron import FeedbackGraph, Online
        >>> Online(graph=FeedbackGraph.bandit(["a", "b"]), features=2).predict_proba([[1.0, 0.5]])
        array([[0.5, 0.5]])
        """
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._player.predict_proba(self._parts.matrix(X))

    def probabilities(self, X: Any, graph: FeedbackGraph | None = None) -> Floats:
        """The probability of every action, one column per action of the graph, if the row came next."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._player.probabilities(self._parts.matrix(X), graph)

    # ---------------------------------------------------------------------------------------------------------- growing

    @changing
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
        with self._logged_at_once():
            self._player.add_class(name, reveals, revealed_by, costs)
            if self._journal is not None:
                version = self._journal.version_of(self.graph)
                self._journal.add("added", -1, events.Added(version, time.time()).to_bytes())
        self._player.compile_rounds()

    @changing
    def grow(self, features: int) -> None:
        """Give the model more features; what was learned stays."""
        if self.encoder is not None:
            raise UserError("the number of features is the encoder's: make a model with Encoder(features=...)")
        most = MOST_FEATURES if self.feature_limit is None else self.feature_limit
        wanted = whole(features, "features", least=self.features, most=most)
        with self._logged_at_once():
            self._player.grow(wanted)
            self._log_growth()

    def _log_growth(self) -> None:
        if self._journal is not None:
            self._journal.add("grown", -1, events.Grown(self.features).to_bytes())

    @property
    def limits(self) -> Limits:
        """The limits on the exploration."""
        return self._player.limits

    @changing
    def set_limits(self, *, min_propensity: float | None = None, budget: Budget | str | None = "keep") -> None:
        """Go on with other limits on the exploration; what is not given stays. ``budget=None`` removes the budget.

        A new budget starts with nothing spent.

        >>> from gappletron import Budget, FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.label_efficient(3), features=2, budget=Budget(50, per=1000))
        >>> model.set_limits(budget=Budget(20, per="day"))
        >>> model.limits.budget
        Budget(limit=20.0, per='day', prices=None)
        """
        kept = self.limits
        least = kept.min_propensity if min_propensity is None else min_propensity
        if isinstance(budget, str):
            if budget != "keep":
                raise UserError(f"budget={budget!r} is not a budget: give Budget(50, per=1000), None, or 'keep'")
            budget = kept.budget
        limits = Limits(least, budget)
        with self._logged_at_once():
            self._player.set_limits(limits)
            if self._journal is not None:
                event = events.Limited(limits.to_dict(), time.time())
                self._journal.add("limited", -1, event.to_bytes())
        self._player.compile_rounds()

    def _taken(self, x: Any) -> Vector:
        """x for a call that learns, checked, and the model grown for it where it grows."""
        if self._parts.feature_limit is None:
            return self._parts.taken(x)
        return self._growing(lambda: self._parts.taken(x))

    def _growing(self, take: Callable[[], T]) -> T:
        """What a function returns that takes in rows; where the model grows for them, that is logged."""
        before = self.features
        try:
            return take()
        finally:
            if self.features != before:  # also where the call is refused
                self._log_growth()

    # ----------------------------------------------------------------------------------------------------------- copies

    def _start_session(self) -> None:
        """From now on receipts have another random part."""
        self._receipts.start_session(self.rounds)
        self._forks = forks[0]

    def __getstate__(self) -> dict[str, Any]:
        """A copy of its own, made under the lock: copying and pickling go on when other threads play again."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return {"parts": copy.copy(self._parts)}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        # A copy or an unpickled model is another model: its new receipts must not be taken for those of the first.
        self._adopt(saved["parts"])
        self._start_session()

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
        which may change. One process at a time can have a folder open. :meth:`close` ends it; the model is also a
        context manager.

        :param folder: where the journal is; or a :class:`~gappletron.online.store.Store`.
        :param learner, graph, features: as those of :class:`Online`, and so are `options`.
        :param start: a model to begin with, such as one that was taught, in place of a new one.
        :param durability: what a call waits for: ``"disk"``, that its events survive a power failure (calls of several
            threads share one write), or ``"os"``, that they survive the end of the process.
        :param snapshot_every: the least number of events between two snapshots of the state, which are written in the
            background and make opening quick. A large state is written more rarely (docs, page Journal).
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
        named = {"learner": learner, "graph": graph, "features": features, "monitor": monitor}
        given = {name: value for name, value in named.items() if value is not None} | options
        if not isinstance(folder, Store) and graph is None and start is None and not Path(folder).exists():
            raise UserError(
                f"there is no model in {str(folder)!r} yet, and a new one needs a graph: give one, for example "
                "graph=FeedbackGraph.filtering(['ham', 'spam'])"
            )
        store = folder if isinstance(folder, Store) else FolderStore(folder)
        try:
            settings = store.settings()
            limits: dict[str, Any] = {}
            if settings is None:
                made = {"monitor": True, **given}
                model = cls(**made) if start is None else _copied(start, given)
                opening.begin(store, model._parts, _with_defaults(made) if start is None else model._parts.made_of())
            elif start is None:
                parts, limits = opening.resumed(store, settings, given, tuple(pieces))
                model = cls._of(parts)
            else:
                raise UserError(f"{store.name!r} holds a model already: omit start, or use another folder")
            model._attach(Journal(store, policy))
            if limits:
                model.set_limits(**limits)
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
        return cls._of(opening.read(folder, replay, stop, tuple(pieces)))

    def _attach(self, journal: Journal) -> None:
        """Log from now on. The session is new, so its name is logged first."""
        waiting = self._receipts
        limits = [waiting.limit, waiting.most_bytes, waiting.age]
        opened = events.Opened(waiting.session.name, self.rounds, time.time(), versions(), limits)
        journal.add("opened", -1, opened.to_bytes())
        self._journal = journal
        with self._lock:
            self._expire(time.time())  # the limits may have changed
            journal.publish()
        journal.commit()

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
        if self._held_by == threading.get_ident():
            raise UserError("a hold() block was begun inside of another one: one block is enough")
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
            self._refuse_copies()
            self._journal.commit()
            if self._journal.is_snapshot_due and not self._owns_lock():
                self._journal.put_snapshot_in_background(self._copied_state)

    @changing
    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None:
        """Keep the answer to a request under an idempotency key, for :meth:`recall`; the last 100,000 are kept.

        Inside :meth:`hold` it is logged together with what the request did.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> model.remember("7f3a", b"hash of the request", b"the answer")
        >>> model.recall("7f3a", b"hash of the request")
        b'the answer'
        """
        with self._logged_at_once():
            self._answers.put(key, fingerprint, answer)
            if self._journal is not None:
                event = events.Answered(time.time(), key, fingerprint, answer)
                self._journal.add("answered", -1, event.to_bytes())

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
        self._refuse_inside("checkpoint()")
        if self._journal is None:
            raise UserError("the model has no journal: use save(), or make it with Online.open()")
        self._refuse_copies()
        self._journal.put_snapshot(self._copied_state)

    def _refuse_inside(self, call: str) -> None:
        if self._owns_lock():
            raise UserError(f"{call} was called in the middle of a call or of a hold() block: call it afterwards")

    def _copied_state(self) -> Snapshot:
        """A copy of the state for the journal, and what of the log need not be kept any more."""
        with self._lock:
            self._settle()
            journal = self._journal
            assert journal is not None
            self._publish()
            at = journal.begin_part()
            self._parts.marks.append((at, self.rounds))
            header, arrays = self._player.snapshot()
            copied = {name: array.copy() for name, array in arrays.items()}
            about, receipts = self._parts.beside_player()
            stop = None
            if journal.policy.keep_rows is not None:
                last = self.rounds - journal.policy.keep_rows
                stop = max((place for place, rounds in self._parts.marks if rounds <= last), default=0)
                self._parts.marks = [mark for mark in self._parts.marks if mark[0] >= stop]
            answers = copy.copy(self._answers)
            return Snapshot(at, FORMAT, header | about, copied | receipts, answers.to_arrays, stop)

    def close(self) -> None:
        """Store a snapshot and let another process open the folder; afterwards the model can only be looked at.

        Without a journal there is nothing to close.
        """
        journal = self._journal
        if journal is None or journal.is_closed:
            return
        self._refuse_inside("close()")
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
            saved.write(path, FORMAT, *self._parts.snapshot())

    def differences(self, other: Online) -> list[str]:
        """The names of the parts of the state in which another model differs, bit for bit; none where they are equal.

        The times of waiting receipts and the names of sessions are not compared.

        >>> from gappletron import FeedbackGraph, Online
        >>> first, second = (Online(graph=FeedbackGraph.bandit(3), features=2, seed=1) for _ in range(2))
        >>> receipt = first.act([0.5, 1.0])
        >>> first.differences(second)[:2]
        ['rounds', 'random']
        """
        ours, theirs = self._comparable(), other._comparable()
        names = dict.fromkeys([*ours, *theirs])
        return [name for name in names if ours.get(name) != theirs.get(name)]

    def _comparable(self) -> dict[str, Any]:
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            return self._parts.comparable()

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
        parts = saved.read(path, FORMAT, lambda header, arrays: Parts.restored(header, arrays, pieces))
        return cls._of(parts)


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


def _with_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a new model, with the defaults of those that were not given."""
    return {each.name: each.default for each in inspect.signature(Online).parameters.values()} | given


def _copied(start: Any, given: dict[str, Any]) -> Online:
    """A model to begin a journal with, which others may go on to use."""
    if not isinstance(start, Online):
        raise UserError(f"start is {start!r}, not a model: give one, for example Online.load('model.npz')")
    if given:
        raise UserError(f"{next(iter(given))} was given beside start, which has its own: omit it")
    return copy.copy(start)
