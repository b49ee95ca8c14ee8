"""Receipts: an action that was taken and waits for its feedback; and all that wait of one model.

Whether a receipt waits is written in the record of its turn (:mod:`gappletron.play.turns`), so what a signal handler
has interrupted can always be read off there.
"""

import enum
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import SpentReceipt, UnknownReceipt, UserError
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import Floats
from gappletron.play import archive, turns
from gappletron.play.options import Options
from gappletron.play.turns import ACTION, GREEDY, HEAD, WAITING, Turn

ID = re.compile(r"(.+)-(0|[1-9][0-9]{0,17})", re.DOTALL)


class Unseen(enum.Enum):
    """The type of :data:`UNSEEN`."""

    UNSEEN = "UNSEEN"

    def __repr__(self) -> str:
        return "UNSEEN"


# In place of a label: the round is over, and the graph hid the label.
UNSEEN = Unseen.UNSEEN


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

    __slots__ = ("serial", "session", "time", "turn")

    def __init__(self, session: str, serial: int, turn: Turn, time: float) -> None:
        self.session, self.serial, self.turn = session, serial, turn
        # When the action was taken, in seconds since 1970.
        self.time = time

    @property
    def id(self) -> str:
        """Names the receipt across processes and files."""
        return f"{self.session}-{self.serial}"

    @property
    def graph(self) -> FeedbackGraph:
        """The feedback graph of the round."""
        return self.turn.graph

    @property
    def probabilities(self) -> Floats:
        """The probability of every action of the graph; not to be written to, since learning will need it."""
        return self.turn.probabilities

    @property
    def action(self) -> Label:
        """What to do: a class, or an extra action such as a query."""
        turn = self.turn
        return turn.graph.actions[int(turn.record.item(ACTION))]  # not turn.action: a server asks often

    @property
    def greedy(self) -> Label:
        """The class that the learner would predict without exploration, y*."""
        return self.turn.graph.classes[self.turn.greedy]

    @property
    def probability(self) -> float:
        """The probability with which the action was drawn."""
        return self.turn.probability

    @property
    def reveals(self) -> tuple[Label, ...]:
        """The labels that the action reveals: learn one of these, or UNSEEN where the label is another."""
        return self.graph.reveals(self.action)

    def to_decision(self) -> tuple[str, Label, float, Label]:
        """Return the id, the action, its probability and the greedy class, which are all that a server tells."""
        turn = self.turn
        action, greedy = map(int, turn.record[ACTION:HEAD].tolist())
        graph = turn.graph
        return self.id, graph.actions[action], turn.record.item(HEAD + action), graph.classes[greedy]

    def propensity(self, label: Label) -> float:
        """Return P_t(label observed): the probability that the action drawn reveals this label, if it is true."""
        return float(self.turn.probabilities @ self.graph.visible[:, self.graph.class_index(label)])

    def to_dict(self) -> dict[str, Any]:
        """Return the whole receipt as plain values, ready for JSON: what a database, a queue or an audit may keep.

        `features` are those that the learner saw: with the bias first, and scaled.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(["a", "b", "c"]), features=4, seed=1)
        >>> data = model.act(([0, 3], [1.0, 0.5])).to_dict()
        >>> data["action"], data["reveals"], data["features"]
        ('c', ['c'], {'indices': [0, 3], 'values': [1.0, 0.5]})
        """
        turn = self.turn
        return {
            "id": self.id,
            "time": self.time,
            "action": self.action,
            "greedy": self.greedy,
            "probability": self.probability,
            "reveals": list(self.reveals),
            "probabilities": turn.probabilities.tolist(),
            "own_probabilities": turn.own_probabilities.tolist() if turn.is_following else None,
            "scores": turn.scores.tolist(),
            "kept": turn.kept.tolist(),
            "rate": turn.rate,
            "features": {"indices": turn.x.indices.tolist(), "values": turn.x.values.tolist()},
            "width": turn.features,
            "graph": archive.encode_graph(self.graph),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the receipt that :meth:`to_dict` was called on.

        Its model learns from it as from its id: once, and only if the receipt still waits there.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(["a", "b", "c"]), features=4, seed=1)
        >>> again = Receipt.from_dict(model.act(([0, 3], [1.0, 0.5])).to_dict())
        >>> model.learn(again, again.action)
        >>> model.pending
        ()
        """
        try:
            session, serial = split_id(data["id"])
            graph = archive.decode_graph(data["graph"])
            features = data["features"]
            x = np.array(features["indices"], np.int32), np.array(features["values"], np.float64)
            names = ("probabilities", "scores", "own_probabilities", "kept")
            probabilities, scores, own, kept = (np.array(data[name] or (), np.float64) for name in names)
            rate, time = number(data["rate"], "rate", least=0.0), number(data["time"], "time")
            head = {turns.ROUND: serial, turns.RATE: rate, turns.SQUARED: float(x[1] @ x[1])}
            head |= {ACTION: graph.action_index(data["action"]), GREEDY: graph.class_index(data["greedy"])}
            width = whole(data["width"], "width", least=1)
            turn = turns.build_turn(graph, width, head, probabilities, scores, own, x, kept)
            fits = probabilities.shape == (graph.n_actions,) and scores.shape == (graph.n_classes,)
            fits = fits and kept.ndim == 1
            if not fits or x[0].shape != x[1].shape or not turns.check_turn(turn):
                raise ValueError("they were changed")
        except (UserError, KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            raise UserError(
                f"these are not the values of a receipt ({type(error).__name__}: {error}): give what to_dict() returned"
            ) from None
        return cls(session, serial, turn, time)

    def __repr__(self) -> str:
        return f"<Receipt {self.id}: {self.action!r} with probability {self.probability:.3g}>"


def split_id(name: Any) -> tuple[str, int]:
    """Return the session and the serial number of a receipt's id; a ValueError where it is none, or written otherwise.

    >>> split_id("5f-20")
    ('5f', 20)
    """
    match = ID.fullmatch(name)
    if match is None:
        raise ValueError("this is not the id of a receipt")
    return match[1], int(match[2])


class Session(NamedTuple):
    """One time that a model was made or loaded: its receipts have the serial numbers from `first` to before `stop`."""

    name: str
    first: int
    stop: int

    @classmethod
    def begin(cls, first: int) -> Self:
        """Return a session with a random name, whose first receipt has this serial number."""
        return cls(secrets.token_hex(6), first, first)


class WaitingLimits(NamedTuple):
    """How many receipts may wait, how much memory they may take, and for how many seconds each may wait.

    These are options of a model (:class:`gappletron.play.options.Options`).
    """

    pending: int
    pending_bytes: int
    pending_age: float | None

    @classmethod
    def select(cls, options: Options) -> Self:
        """Return the limits among the options of a model."""
        return cls(*(getattr(options, name) for name in cls._fields))

    @classmethod
    def check(cls, *limits: Any) -> Self:
        """Return limits that come from a file or a log, checked."""
        return cls.select(Options(**dict(zip(cls._fields, limits, strict=True))))


class Receipts:
    """The waiting receipts by their serial numbers, oldest first.

    :param first: the serial number of the first receipt that will be issued.
    :param limits: how many may wait, and for how long.

    A receipt is put here before its round is played, and removed after it was learned from, so :attr:`pending` may hold
    one that a signal handler has left: its record says so, and then :attr:`is_settled` is False.

    >>> receipts = Receipts(0, WaitingLimits(10, 1000, None))
    >>> len(receipts.waiting), receipts.session.first
    (0, 0)
    """

    def __init__(self, first: int, limits: WaitingLimits) -> None:
        self.limits = limits
        self.pending: OrderedDict[int, Receipt] = OrderedDict()  # a dict is slow to find its first of many removed
        self.nbytes = 0
        # Whether nothing is coming or going, and not too many wait: each change begins by setting it to
        # False.
        self.is_settled = True
        self.session = Session.begin(first)
        self.past: dict[str, Session] = {}

    @property
    def waiting(self) -> list[Receipt]:
        """The receipts that wait, oldest first; never more than may wait, also before the oldest has expired."""
        return self._read_records()[-self.limits.pending :]

    def count_shown(self) -> int:
        """Return how many wait for feedback that says something: their action shows a label, or that it is none of
        some.
        """
        return sum(bool(each.turn.graph.visible[each.turn.action].any()) for each in self.waiting)

    def _read_records(self) -> list[Receipt]:
        """Return the receipts that wait as their records say."""
        if self.is_settled:  # quick, since a model may have a million of them
            return list(self.pending.values())
        return [receipt for receipt in self.pending.values() if receipt.turn.status == WAITING]

    def copy(self) -> "Receipts":
        """Return a copy that shares nothing that changes."""
        copied = Receipts(self.session.first, self.limits)
        copied.session, copied.past = self.session, self.past.copy()
        copied.add(Receipt(each.session, each.serial, each.turn.copy(), each.time) for each in self.waiting)
        return copied

    # ---------------------------------------------------------------------------------------------- coming and going

    def settle(self) -> None:
        """Bring to its end what a signal handler has interrupted: what waits is what the records say."""
        if not self.is_settled:
            self.pending = OrderedDict((receipt.serial, receipt) for receipt in self._read_records())
            self.nbytes = 0
            self.count(sum(receipt.turn.record.nbytes for receipt in self.pending.values()))

    def begin(self, receipt: Receipt) -> None:
        """Register a receipt before its round is played."""
        self.is_settled = False
        self.pending[receipt.serial] = receipt

    def add(self, receipts: Iterable[Receipt]) -> None:
        """Let receipts wait whose rounds were played."""
        self.is_settled = False
        found = {receipt.serial: receipt for receipt in receipts}
        self.pending.update(found)
        self.count(sum(receipt.turn.record.nbytes for receipt in found.values()))

    def remove(self, *receipts: Receipt) -> None:
        """Let receipts wait no more; their records have said so before, after `is_settled` was set to False."""
        nbytes = 0
        for receipt in receipts:
            self.pending.pop(receipt.serial, None)
            nbytes += receipt.turn.record.nbytes
        self.count(-nbytes)

    def count(self, nbytes: int) -> None:
        """Count so many bytes more, at the end of a change: all is settled then, unless too many wait."""
        self.nbytes += nbytes
        self.is_settled = len(self.pending) <= self.limits.pending and self.nbytes <= self.limits.pending_bytes

    def find_overdue(self, now: float) -> Receipt | None:
        """Return the oldest receipt where too many wait, or for too long; None where none must expire."""
        oldest = next(iter(self.pending.values()), None)
        if oldest is None:
            return None
        most, most_bytes, age = self.limits
        too_many = len(self.pending) > most or (self.nbytes > most_bytes and len(self.pending) > 1)
        return oldest if too_many or (age is not None and now - oldest.time > age) else None

    # -------------------------------------------------------------------------------------------------------- finding

    def find(self, receipt: Any, player: Any) -> Receipt:
        """Return the waiting receipt that is meant, by itself or by its id; an error says why there is none."""
        if self.is_settled and type(receipt) is Receipt and self.pending.get(receipt.serial) is receipt:
            return receipt
        name = receipt.id if isinstance(receipt, Receipt) else receipt
        if not isinstance(name, str):
            raise UserError(f"{receipt!r} is not a receipt: give what act() returned, or its id")
        try:
            session, serial = split_id(name)
        except ValueError:
            raise _foreign(name) from None
        found = self.pending.get(serial)
        if found is not None and found.session == session and found.turn.status == WAITING:
            return found
        past = self.past.get(session)
        if past is not None and serial >= past.stop:
            raise UnknownReceipt(
                f"the receipt {name!r} was issued after this model was saved or copied, by the one that went on: "
                "give the feedback there; if that one is lost, so is what happened in between, so save more often"
            )
        known = self.session._replace(stop=player.rounds) if session == self.session.name else past
        if known is None or not known.first <= serial < known.stop:
            raise _foreign(name)
        most, most_bytes, age = self.limits
        too_long = "" if age is None else f", or it waited for more than {age:g} seconds"
        raise SpentReceipt(
            f"the receipt {name!r} was already learned from, forgotten, or has expired, since more than {most} others, "
            f"or more than {most_bytes:,} bytes, were waiting{too_long}: feedback counts once; to let receipts wait "
            "longer, allow a larger pending or pending_bytes (or pending_age)"
        )

    # ------------------------------------------------------------------------------------------------------- sessions

    def start_session(self, first: int, name: str | None = None) -> None:
        """Give receipts from this round on another random part; those of before are known as past."""
        session = self.session._replace(stop=first)
        self.past[session.name] = session
        self.session = Session.begin(first) if name is None else Session(name, first, first)
        self.past.pop(self.session.name, None)  # a journal goes on with the session of its first snapshot

    def resume_session(self) -> None:
        """Go on with the last session of a file: the receipts that follow in a journal are its own."""
        _, self.session = self.past.popitem()


def _foreign(name: str) -> UnknownReceipt:
    return UnknownReceipt(f"the receipt {name!r} is not from this model: give one that its own decisions returned")
