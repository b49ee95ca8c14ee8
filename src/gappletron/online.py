"""One round at a time, for real use: act now, learn when the feedback comes, save and go on later.

:class:`Online` is a :class:`~gappletron.player.Player` with names, receipts and their expiry.
"""

from __future__ import annotations

import copy
import enum
import os
import secrets
import threading
import time
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gappletron import model_files
from gappletron._signals import Held
from gappletron._validate import Label, UserError, whole
from gappletron.engine import HEAD, new_record
from gappletron.inputs import Vector, sparse_parts
from gappletron.learners.learner import Learner
from gappletron.numerics import UNSEEN_LABEL
from gappletron.player import Player, Turn, for_records
from gappletron.records.encoder import Encoder
from gappletron.streams.stream import MOST_FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

    from numpy.typing import NDArray

    from gappletron._dispatch import Piece
    from gappletron.graphs import FeedbackGraph
    from gappletron.normalization import Normalization
    from gappletron.numerics import Floats

__all__ = ["UNSEEN", "Online", "Receipt"]

FORMAT = "gappletron.Online"
FIRST_FEATURES = 1024
PENDING, PENDING_BYTES = 10_000, 2**28
"""How many receipts may wait for feedback unless said otherwise, and how much memory they may take."""
RECEIPT = ("serial", "action", "greedy", "size of the row", "graph, or -1 for the model's own")
"""The columns of the array "receipts" in a file."""
MOST_SESSIONS = 256
"""Past sessions whose receipts are told from those of other models."""
MOST_NAME = 100
"""Characters in the name of a session."""
ROUNDING = 1e-6
"""How far the sum of saved probabilities may be from 1."""

forks = [0]
"""The number of forks between the first process and this one. After a fork, models start a new session."""

_models: dict[int, weakref.ref[Online]] = {}
"""Every model of this process, for :func:`os.fork`: a copy made in the middle of a round would be torn, and a lock that
another thread held would never be released in the child."""

_held_locks: list[threading.RLock] = []
"""The locks that are held while the process forks."""
_held_signals = Held()
"""A handler that raises inside the functions below would leave locks behind. Its exception is lost in any case: Python
ignores those of functions that it calls around a fork, and says so on the standard error."""


def _before_fork() -> None:
    _held_signals.begin()
    patience = 0.05
    # Never wait for long with other locks held: a thread that has this lock may be waiting for one of those.
    while not _all_acquired(patience):
        _release_all()
        time.sleep(0.001)
        patience = min(2.0 * patience, 5.0)  # others may hold several for long, one after the other


def _all_acquired(patience: float) -> bool:
    """Take the locks of all models, also of those that are made meanwhile, but not again those that this thread has;
    False where one was not to be had in time.
    """
    while True:
        models = [reference() for reference in list(_models.values())]
        missing = [model._lock for model in models if model is not None and not model._is_busy_here()]
        if not missing:
            return True
        for lock in missing:
            if not lock.acquire(timeout=patience):
                return False
            _held_locks.append(lock)


def _release_all() -> None:
    while _held_locks:
        _held_locks.pop().release()


def _after_fork_in_parent() -> None:
    _release_all()
    _held_signals.end()


def _after_fork_in_child() -> None:
    forks[0] += 1
    _held_signals.arrived.clear()  # they were sent to the parent
    _after_fork_in_parent()  # the thread that forks holds them all


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


class Unseen(enum.Enum):
    """The type of :data:`UNSEEN`."""

    UNSEEN = "UNSEEN"

    def __repr__(self) -> str:
        return "UNSEEN"


UNSEEN = Unseen.UNSEEN
"""In place of a label: the round is over, and the graph hid the label."""


class Receipt:
    """An action that was taken, and all that learning from it later will need.

    >>> from gappletron import FeedbackGraph, Online
    >>> model = Online("gapsmh", FeedbackGraph.apple_tasting(), features=4, seed=1)
    >>> receipt = model.act(([0, 3], [1.0, 0.5]))
    >>> receipt.action, receipt.greedy, receipt.probability, receipt.reveals
    ('spam', 'ham', 0.5, ())
    >>> receipt.propensity("ham")
    0.5
    """

    __slots__ = ("_turn", "serial", "session")

    def __init__(self, session: str, serial: int, turn: Turn) -> None:
        self.session, self.serial, self._turn = session, serial, turn

    @property
    def id(self) -> str:
        """Names the receipt across processes and files."""
        return f"{self.session}-{self.serial}"

    @property
    def graph(self) -> FeedbackGraph:
        """The feedback graph of the round."""
        return self._turn.graph

    @property
    def probabilities(self) -> Floats:
        """The probability of every action of the graph; not to be written to, since learning will need it."""
        return self._turn.probabilities

    @property
    def action(self) -> Label:
        """What to do: a class, or an extra action such as a query."""
        return self.graph.actions[self._turn.action]

    @property
    def greedy(self) -> Label:
        """The class that the learner would predict without exploration, y*."""
        return self.graph.classes[self._turn.greedy]

    @property
    def probability(self) -> float:
        """The probability with which the action was drawn."""
        return float(self._turn.probabilities[self._turn.action])

    @property
    def reveals(self) -> tuple[Label, ...]:
        """The labels that the action reveals: learn one of these, or UNSEEN where the label is another."""
        return self.graph.reveals(self.action)

    def propensity(self, label: Label) -> float:
        """P_t(label observed): the probability that the action drawn reveals this label, if it is the true one."""
        return float(self._turn.probabilities @ self.graph.visible[:, self.graph.class_index(label)])

    def __repr__(self) -> str:
        return f"<Receipt {self.id}: {self.action!r} with probability {self.probability:.3g}>"


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
    :param feature_limit: the most features with ``features="grow"``.

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
        feature_limit: int = 2**24,
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
        self._player = Player(learner, graph, first, seed, normalize=normalize, bias=bias)
        self._begin(pending, pending_bytes)

    def _bind(self) -> None:
        """What is not saved: the lock, what a signal may interrupt, and machine code, now rather than in a round."""
        self._player.may_have_more = self.feature_limit is not None
        self._lock = threading.RLock()  # reentrant: a signal handler may save in the middle of a call
        self._acting: Turn | None = None
        self._learning: Receipt | None = None
        self._waiting_bytes = sum(receipt._turn.nbytes for receipt in self._pending.values())
        self._player.compile_rounds()
        key = id(self)
        _models[key] = weakref.ref(self, lambda _: _models.pop(key, None))

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
        model._begin(PENDING, PENDING_BYTES)
        return model

    def _begin(self, pending: int, pending_bytes: int) -> None:
        """No receipt was given out yet."""
        self.pending_limit = whole(pending, "pending", least=1)
        self.pending_bytes = whole(pending_bytes, "pending_bytes", least=1)
        self._session, self._forks = _new_session(self.rounds), forks[0]
        self._past: dict[str, Session] = {}
        self._pending: OrderedDict[int, Receipt] = OrderedDict()
        self._expired: OrderedDict[int, None] = OrderedDict()
        self._bind()

    @property
    def player(self) -> Player:
        """The player underneath, for playing in bulk; it is not locked, so let no other thread use the model
        meanwhile.
        """
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
            self._settle()
            player, vector = self._player, self._taken(x)
            if self._forks != forks[0]:  # a copy of the process: its receipts are its own
                self._start_session(player.rounds)
            self._acting = turn = player.new_turn(vector, graph)
            serial = player.draw(turn)
            self._pending[serial] = receipt = Receipt(self._session.name, serial, turn)
            self._waiting_bytes += turn.nbytes
            if len(self._pending) > self.pending_limit or self._waiting_bytes > self.pending_bytes:
                self._expire()
            self._acting = None
            return receipt

    def _expire(self) -> None:
        """Let the oldest receipts expire where too many wait."""
        while len(self._pending) > self.pending_limit or (
            self._waiting_bytes > self.pending_bytes and len(self._pending) > 1
        ):
            oldest = next(iter(self._pending.values()))
            self._expired[oldest.serial] = None
            self._waiting_bytes -= oldest._turn.nbytes
            self._pending.pop(oldest.serial, None)
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
        if self._acting is not None or self._learning is not None:
            self._take_note()
            self._waiting_bytes = sum(receipt._turn.nbytes for receipt in self._pending.values())
            self._expire()
            self._acting = self._learning = None

    def _take_note(self) -> None:
        """Let the waiting receipts be those that the state tells of."""
        turn, receipt = self._acting, self._learning
        if turn is not None and turn.round >= 0 and turn.round not in self._expired:
            self._pending.setdefault(turn.round, Receipt(self._session.name, turn.round, turn))
        if receipt is not None and self._player.last_learned == receipt.serial:
            self._pending.pop(receipt.serial, None)

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

    def _is_busy_here(self) -> bool:
        """Whether this thread is inside a call already: then the present one comes from a signal handler."""
        return self._lock._is_owned()  # type: ignore[attr-defined]  # also used by threading.Condition

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
            self._settle()
            waiting = self._waiting(receipt)
            position = self._position(waiting, label)
            self._learning = waiting
            self._player.learn(waiting._turn, position)
            self._pending.pop(waiting.serial, None)
            self._waiting_bytes -= waiting._turn.nbytes
            self._learning = None

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
            self._settle()
            position = self.graph.class_index(label)
            self._player.teach_on(self._taken(x), position, propensity)

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
            self._settle()
            waiting = self._waiting(receipt)
            self._learning = waiting
            self._pending.pop(waiting.serial, None)
            self._waiting_bytes -= waiting._turn.nbytes
            self._learning = None

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
        session, _, number = name.rpartition("-")
        foreign = f"the receipt {name!r} is not from this model: learn from the receipts that its own act() returned"
        if not number.isascii() or not number.isdigit() or len(number) > 18:
            raise UserError(foreign)
        serial = int(number)
        past = self._past.get(session)
        if past is not None and serial >= past.stop:
            raise UserError(
                f"the receipt {name!r} was issued after this model was saved or copied, by the one that went on: learn "
                "from it there; if that one is lost, so is what happened in between, so save more often"
            )
        known = self._session._replace(stop=self.rounds) if session == self._session.name else past
        if known is None or not known.first <= serial < known.stop:
            raise UserError(foreign)
        if serial in self._pending:
            return self._pending[serial]
        if serial in self._expired:
            raise UserError(
                f"the receipt {name!r} has expired, since more than {self.pending_limit} others, or more than "
                f"{self.pending_bytes:,} bytes, were waiting: give the feedback sooner, or make the model with a "
                "larger pending= or pending_bytes="
            )
        raise UserError(
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
            self._settle()
            self._player.add_class(name, reveals, revealed_by, costs)
            self._player.compile_rounds()

    def grow(self, features: int) -> None:
        """Give the model more features; what was learned stays."""
        self._refuse_nesting()
        with self._lock:
            self._settle()
            self._player.grow(features)

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

    def _start_session(self, first: int) -> None:
        """From this round on receipts have another random part; those of before are known as past."""
        session = self._session._replace(stop=first)
        self._past[session.name] = session
        self._session, self._forks = _new_session(first), forks[0]

    def __getstate__(self) -> dict[str, Any]:
        """A copy of its own, made under the lock: copying and pickling go on when other threads play again."""
        is_nested = self._is_busy_here()
        with self._lock:
            self._look(is_nested)
            left_out = ("_lock", "_acting", "_learning", "_waiting_bytes")
            kept = {name: value for name, value in self.__dict__.items() if name not in left_out}
            waiting, expired = self._settled()
            copies = {name: copy.copy(kept[name]) for name in ("_player", "_past")}
            return kept | copies | {"_pending": waiting, "_expired": expired}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        # A copy or an unpickled model is another model: its new receipts must not be taken for those of the first.
        self.__dict__.update(saved)
        self._start_session(self.rounds)
        self._bind()

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
        turns = [receipt._turn for receipt in waiting.values()]
        graphs = list(dict.fromkeys(turn.graph for turn in turns if turn.graph is not self.graph))
        header |= {
            "sessions": [*self._past.values(), self._session._replace(stop=self.rounds)],
            "feature_limit": self.feature_limit,
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "pending_limit": self.pending_limit,
            "pending_bytes": self.pending_bytes,
            "graphs": [model_files.graph_header(graph) for graph in graphs],
        }
        places = {graph: place for place, graph in enumerate(graphs)}
        receipts = [
            (
                serial,
                turn.action,
                turn.greedy,
                turn.x.indices.size,
                -1 if turn.graph is self.graph else places[turn.graph],
            )
            for serial, turn in zip(waiting, turns, strict=True)
        ]
        for place, graph in enumerate(graphs):
            arrays |= model_files.graph_arrays(graph, f".{place}")
        arrays |= {
            "expired": np.array(list(expired), np.int64),
            "receipts": np.array(receipts, np.int64).reshape(len(receipts), len(RECEIPT)),
            "rates": np.array([turn.rate for turn in turns], np.float64),
            "indices": _joined([turn.x.indices for turn in turns], np.int32),
            "values": _joined([turn.x.values for turn in turns], np.float64),
            "scores": _joined([turn.scores for turn in turns], np.float64),
            "probabilities": _joined([turn.probabilities for turn in turns], np.float64),
        }
        return header, arrays

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
        model.pending_limit = whole(header["pending_limit"], "pending", least=1)
        model.pending_bytes = whole(header["pending_bytes"], "pending_bytes", least=1)
        past = _sessions(header["sessions"], model.rounds)
        model._pending = OrderedDict()
        for serial, turn in _turns(header, arrays, model):
            session = next((each.name for each in past if each.first <= serial < each.stop), None)
            if session is None:
                raise UserError("a waiting receipt belongs to no session: the file is damaged")
            model._pending[serial] = Receipt(session, serial, turn)
        model._expired = OrderedDict.fromkeys(_expired(arrays["expired"], model))
        needed = {receipt.session for receipt in model._pending.values()}
        kept = [each for place, each in enumerate(past, MOST_SESSIONS) if place >= len(past) or each.name in needed]
        model._past = {each.name: each for each in kept}
        # The receipts of this copy are its own: other copies of the file do not know them.
        model._session, model._forks = _new_session(model.rounds), forks[0]
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


class Session(NamedTuple):
    """One time that a model was made or loaded: its receipts have the serial numbers from `first` to before `stop`."""

    name: str
    first: int
    stop: int


def _new_session(first: int) -> Session:
    return Session(secrets.token_hex(6), first, first)


def _sessions(rows: list[Any], rounds: int) -> list[Session]:
    """The sessions of a file that gave out receipts, checked."""
    least, found = 0, []
    for name, first, stop in rows:
        if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME:
            raise UserError("a session's name is not a short text: the file is damaged")
        session = Session(
            name,
            whole(first, "the first receipt of a session", least=least, most=rounds),
            whole(stop, "the end of a session", least=first, most=rounds),
        )
        least = session.stop
        found.append(session)
    if least != rounds or not found or len({session.name for session in found}) < len(found):
        raise UserError("the sessions do not fit the number of rounds, or share a name: the file is damaged")
    # One that issued nothing is of no use, but the last may have issued receipts after it was saved.
    return [session for session in found if session.stop > session.first or session is found[-1]]


def _expired(serials: NDArray[Any], model: Online) -> list[int]:
    """The last expired receipts of a file, checked."""
    if serials.ndim != 1 or serials.dtype != np.int64 or serials.size > model.pending_limit:
        raise UserError("the expired receipts do not fit the model: the file is damaged")
    found = [whole(serial, "a serial", most=model.rounds - 1) for serial in serials.tolist()]
    if not model._pending.keys().isdisjoint(found):
        raise UserError("a receipt is both waiting and expired: the file is damaged")
    return found


def _turns(header: dict[str, Any], arrays: dict[str, NDArray[Any]], model: Online) -> Iterator[tuple[int, Turn]]:
    """The waiting receipts of a file, checked: compiled code will trust them."""
    damaged = "a waiting receipt does not fit the model: the file is damaged"
    rows, rates = arrays["receipts"], arrays["rates"]
    graphs = [model_files.graph_of(about, arrays, f".{place}") for place, about in enumerate(header["graphs"])]
    if not all(graph.may_precede(model.graph) for graph in graphs):
        raise UserError(damaged)
    if rows.dtype != np.int64 or rows.shape != (len(rates), len(RECEIPT)) or len(rows) > model.pending_limit:
        raise UserError(damaged)
    if rates.dtype != np.float64 or not (np.isfinite(rates) & (rates >= 0.0)).all():
        raise UserError(damaged)
    starts = dict.fromkeys(("indices", "values", "scores", "probabilities"), 0)

    def cut(name: str, size: int, dtype: type) -> NDArray[Any]:
        start = starts[name]
        starts[name] = start + size
        part = arrays[name][start : start + size]
        if part.shape != (size,) or part.dtype != dtype:
            raise UserError(damaged)
        return part.copy()

    by_score = type(model.learner).choice is Learner.choice
    least = 0
    for (serial, action, greedy, size, place), rate in zip(rows.tolist(), rates.tolist(), strict=True):
        graph = model.graph if place == -1 else graphs[whole(place, "a graph")]
        indices, values = cut("indices", whole(size, "a size"), np.int32), cut("values", size, np.float64)
        squared = model._player.checker.is_fine(indices, values, model._player.width)
        if squared is None:
            raise UserError(damaged)
        least = whole(serial, "a serial", least=least, most=model.rounds - 1) + 1
        whole(action, "an action", most=graph.n_actions - 1)
        probabilities = cut("probabilities", graph.n_actions, np.float64)
        scores = cut("scores", graph.n_classes, np.float64)
        if not _is_distribution(probabilities) or probabilities[action] <= 0.0 or not np.isfinite(scores).all():
            raise UserError(damaged)
        whole(greedy, "a greedy class", most=graph.n_classes - 1)
        if by_score and int(np.argmax(scores)) != greedy:
            raise UserError(damaged)
        record = new_record(graph.n_classes, graph.n_actions)
        record[:HEAD] = (serial, action, greedy, rate, squared)
        record[HEAD : HEAD + graph.n_actions] = probabilities
        start = HEAD + graph.n_actions
        record[start : start + graph.n_classes] = scores
        yield serial, Turn(Vector(indices, values, squared), graph, model._player.width, record)
    if any(starts[name] != arrays[name].size for name in starts):
        raise UserError(damaged)


def _is_distribution(probabilities: Floats) -> bool:
    inside = (probabilities >= 0.0) & (probabilities <= 1.0)  # False for NaN
    return bool(inside.all()) and abs(float(probabilities.sum()) - 1.0) <= ROUNDING


def _joined(parts: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *parts])
