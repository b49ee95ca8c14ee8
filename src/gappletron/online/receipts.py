"""Receipts: an action that was taken and waits for its feedback; and all that wait of one model.

Whether a receipt waits is written in the record of its turn (:mod:`gappletron.play.turns`), so what a signal handler
has interrupted can always be read off there.
"""

import enum
import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from gappletron.base.checks import Label, number
from gappletron.base.errors import SpentReceipt, UnknownReceipt, UserError
from gappletron.base.parts import part
from gappletron.data.vectors import check_sizes
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import Floats
from gappletron.play import archive, turns
from gappletron.play.index import FeatureIndex
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

    graph: FeedbackGraph = part("turn.graph", "The feedback graph of the round.")

    probabilities: Floats = part("turn.probabilities", "The probability of every action; not to be written to.")

    @property
    def action(self) -> Label:
        """What to do: a class, or an extra action such as a query."""
        turn = self.turn
        return turn.graph.actions[int(turn.record.item(ACTION))]  # not turn.action: a server asks often

    @property
    def greedy(self) -> Label:
        """The class that the learner would predict without exploration, y*."""
        return self.turn.graph.classes[self.turn.greedy]

    probability: float = part("turn.probability", "The probability with which the action was drawn.")

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

        `features` are those of the row, with their values as the learner saw them: scaled. `bias` is the value of the
        bias, None where there is none.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(["a", "b", "c"]), features=4, seed=1)
        >>> data = model.act(([0, 3], [1.0, 0.5])).to_dict()
        >>> data["action"], data["reveals"], data["features"]
        ('c', ['c'], {'indices': [0, 3], 'values': [1.0, 0.5]})
        """
        turn, x, index = self.turn, self.turn.x, self.turn.index
        names = index.name(x.indices[index.bias :] - index.bias)
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
            "features": {"indices": names.tolist(), "values": x.values[index.bias :].tolist()},
            "bias": x.values.item(0) if index.bias else None,
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
            known, bias = np.array(features["indices"], np.int64), [] if data["bias"] is None else [data["bias"]]
            values = np.array([*bias, *features["values"]], np.float64)
            index = FeatureIndex(known.size, bool(bias), known)  # rows of its own: those of the model are not known
            x = np.arange(index.rows, dtype=np.int32), values
            names = ("probabilities", "scores", "own_probabilities", "kept")
            probabilities, scores, own, kept = (np.array(data[name] or (), np.float64) for name in names)
            rate, time = number(data["rate"], "rate", least=0.0), number(data["time"], "time")
            with np.errstate(over="ignore"):
                head = {turns.ROUND: serial, turns.RATE: rate, turns.SQUARED: float(x[1] @ x[1])}
            check_sizes(*x, head[turns.SQUARED])
            head |= {ACTION: graph.action_index(data["action"]), GREEDY: graph.class_index(data["greedy"])}
            turn = turns.build_turn(graph, index, head, probabilities, scores, own, x, kept)
            fits = probabilities.shape == (graph.n_actions,) and scores.shape == (graph.n_classes,)
            fits = fits and kept.ndim == 1
            fits = fits and x[0].shape == x[1].shape and bool((np.diff(known, prepend=-1) > 0).all())
            span = np.array([0]), np.array([turn.record.size])
            if not fits or not turns.check_records(graph, index.rows, kept.size, turn.record, *span):
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
        # Whether nothing is coming or going, and not too many wait: each change begins by setting it to False.
        self.is_settled = True
        self.session = Session.begin(first)
        self.past: dict[str, Session] = {}
        # Since the model was opened: how many have expired, by the limit that let them, and the last of them.
        self.expired: Counter[str] = Counter()
        self._last_expired: dict[str, int] = {}

    @property
    def waiting(self) -> list[Receipt]:
        """The receipts that wait, oldest first; never more than may wait, also before the oldest has expired."""
        return self._read_records()[-self.limits.pending :]

    def count_shown(self) -> int:
        """Return how many wait for feedback that says something: their action reveals a label, or that it is none of
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

    def find_overdue(self, now: float) -> tuple[Receipt, str] | None:
        """Return the oldest receipt where too many wait, or for too long, and the name of that limit; None where none
        must expire.

        A time in the future comes from a clock that was wrong, and counts as now: no other receipt waits for it.
        """
        oldest = next(iter(self.pending.values()), None)
        if oldest is None:
            return None
        most, most_bytes, age = self.limits
        if len(self.pending) > most:
            return oldest, "pending"
        if self.nbytes > most_bytes and len(self.pending) > 1:
            return oldest, "pending_bytes"
        if age is None:
            return None
        if oldest.time > now:
            for receipt in self.pending.values():
                receipt.time = min(receipt.time, now)
        return (oldest, "pending_age") if now - oldest.time > age else None

    def note_expired(self, receipt: Receipt, limit: str) -> None:
        """Count a receipt that has expired, by the name of the limit."""
        self.expired[limit] += 1
        self._last_expired[limit] = receipt.serial

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
        seconds = "" if age is None else f"{age:g} "
        reasons = {
            "pending": f"more than {most:,} others were waiting (pending)",
            "pending_bytes": f"those that waited took more than {most_bytes:,} bytes (pending_bytes)",
            "pending_age": f"it waited for more than {seconds}seconds (pending_age)",
        }
        # The oldest expire first, so those after the last that a limit has let expire are not among them.
        acted = [each for limit, each in reasons.items() if self._last_expired.get(limit, -1) >= serial]
        expired = f", or has expired, since {', or '.join(acted)}" if acted else ", or has expired"
        raise SpentReceipt(
            f"the receipt {name!r} was already learned from or forgotten{expired}: feedback counts once; to let "
            "receipts wait longer, allow a larger pending, pending_bytes or pending_age"
        )

    # ------------------------------------------------------------------------------------------------------- sessions

    def start_session(self, first: int, name: str | None = None) -> None:
        """Give receipts from this round on another random part; those of before are known as past."""
        session = self.session._replace(stop=first)
        self.past[session.name] = session
        self.session = Session.begin(first) if name is None else Session(name, first, first)
        self.past.pop(self.session.name, None)  # a log goes on with the session of its first snapshot

    def resume_session(self) -> None:
        """Go on with the last session of a file: the receipts that follow in a log are its own."""
        _, self.session = self.past.popitem()


def _foreign(name: str) -> UnknownReceipt:
    return UnknownReceipt(f"the receipt {name!r} is not from this model: give one that its own decisions returned")
