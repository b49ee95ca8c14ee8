"""Receipts: an action that was taken and waits for its feedback, as an object, as plain data, and in files."""

from __future__ import annotations

import enum
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import Floats, is_distribution
from gappletron.learners.learner import Learner
from gappletron.play import saved
from gappletron.play.player import Player, Turn
from gappletron.play.rounds import (
    ACTION,
    ENTRIES,
    FOLLOWS,
    GREEDY,
    HEAD,
    RATE,
    ROUND,
    SQUARED,
    new_record,
    own_part,
    record_size,
    row_indices,
    row_size,
    row_values,
)

__all__ = [
    "UNSEEN",
    "Receipt",
    "Session",
    "Unseen",
    "checked_sessions",
    "is_serial",
    "new_session",
    "read_receipts",
    "split_id",
    "write_receipts",
]

MOST_DIGITS = 18
"""Digits of the serial number in a receipt's id."""
MOST_NAME = 100
"""Characters in the name of a session."""
COLUMNS = ("serial", "action", "greedy", "size of the row", "graph, or -1 for the model's own")
"""The columns of the array "receipts" in a file."""
NO_NUMBERS = np.zeros(0)
DAMAGED = "a waiting receipt does not fit the model: the file is damaged"


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

    __slots__ = ("_turn", "serial", "session", "time")

    def __init__(self, session: str, serial: int, turn: Turn, time: float) -> None:
        self.session, self.serial, self._turn = session, serial, turn
        self.time = time
        """When the action was taken, in seconds since 1970."""

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
        turn = self._turn
        return turn.graph.actions[int(turn.record.item(ACTION))]  # not turn.action: a server asks often

    @property
    def greedy(self) -> Label:
        """The class that the learner would predict without exploration, y*."""
        turn = self._turn
        return turn.graph.classes[int(turn.record.item(GREEDY))]

    @property
    def probability(self) -> float:
        """The probability with which the action was drawn."""
        record = self._turn.record
        return record.item(HEAD + int(record.item(ACTION)))

    @property
    def reveals(self) -> tuple[Label, ...]:
        """The labels that the action reveals: learn one of these, or UNSEEN where the label is another."""
        return self.graph.reveals(self.action)

    def propensity(self, label: Label) -> float:
        """P_t(label observed): the probability that the action drawn reveals this label, if it is the true one."""
        return float(self._turn.probabilities @ self.graph.visible[:, self.graph.class_index(label)])

    def to_dict(self) -> dict[str, Any]:
        """The whole receipt as plain values, ready for JSON: what a database, a queue or an audit may keep.

        `features` are those that the learner saw: with the bias first, and scaled.

        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(["a", "b", "c"]), features=4, seed=1)
        >>> data = model.act(([0, 3], [1.0, 0.5])).to_dict()
        >>> data["action"], data["reveals"], data["features"]
        ('c', ['c'], {'indices': [0, 3], 'values': [1.0, 0.5]})
        """
        turn = self._turn
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
            "rate": turn.rate,
            "features": {"indices": turn.x.indices.tolist(), "values": turn.x.values.tolist()},
            "width": turn.features,
            "graph": saved.graph_document(self.graph),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Receipt:
        """The receipt that :meth:`to_dict` was called on.

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
            graph = saved.graph_from(data["graph"])
            features = data["features"]
            x = np.array(features["indices"], np.int32), np.array(features["values"], np.float64)
            names = ("probabilities", "scores", "own_probabilities")
            numbers = [np.array(data[name] or (), np.float64) for name in names]
            position = graph.action_index(data["action"]), graph.class_index(data["greedy"])
            rate, time = number(data["rate"], "rate", least=0.0), number(data["time"], "time")
            width = whole(data["width"], "width", least=1)
        except UserError as error:
            raise UserError(f"these are not the values of a receipt, since {error}") from None
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            raise UserError(
                f"these are not the values of a receipt ({type(error).__name__}: {error}): give what to_dict() returned"
            ) from None
        turn = checked_turn(graph, width, Row(serial, *position, rate, *x, _squared(x[1]), *numbers))
        if turn is None:
            raise UserError("these are not the values of a receipt, or they were changed: give what to_dict() returned")
        return cls(session, serial, turn, time)

    def __repr__(self) -> str:
        return f"<Receipt {self.id}: {self.action!r} with probability {self.probability:.3g}>"


def _squared(values: Floats) -> float:
    """||x||^2, added up in order, as compiled code does it."""
    total = 0.0
    for value in values.tolist():
        total += value * value
    return total


def split_id(name: Any) -> tuple[str, int]:
    """The session and the serial number of a receipt's id; a ValueError where it is none."""
    if not isinstance(name, str):
        raise ValueError
    session, _, digits = name.rpartition("-")
    if not session or not is_serial(digits):
        raise ValueError
    return session, int(digits)


def is_serial(digits: str) -> bool:
    """Whether these are the digits of a serial number, in their one way of writing.

    >>> is_serial("20"), is_serial("020")
    (True, False)
    """
    if len(digits) > MOST_DIGITS or not digits.isascii() or not digits.isdigit():
        return False
    return digits[0] != "0" or len(digits) == 1


# ------------------------------------------------------------------------------------------------------------- sessions


class Session(NamedTuple):
    """One time that a model was made or loaded: its receipts have the serial numbers from `first` to before `stop`."""

    name: str
    first: int
    stop: int


def new_session(first: int) -> Session:
    """A session with a random name, whose first receipt has this serial number."""
    return Session(secrets.token_hex(6), first, first)


def checked_sessions(rows: list[Any], rounds: int) -> list[Session]:
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


# ------------------------------------------------------------------------------------------------------------ in a file


class Row(NamedTuple):
    """The numbers of a receipt, as they come from a file or from JSON."""

    serial: int
    action: int
    greedy: int
    rate: float
    indices: NDArray[np.int32]
    values: Floats
    squared: float
    probabilities: Floats
    scores: Floats
    own: Floats
    """The learner's own distribution, where it follows the decision of another; else empty."""


def checked_turn(graph: FeedbackGraph, width: int, row: Row) -> Turn | None:
    """The turn with these numbers; None where it is none that was played. Compiled code will trust it."""
    x, p = row.indices, row.probabilities
    if x.ndim != 1 or x.shape != row.values.shape or not np.isfinite(row.values).all():
        return None
    if x.size and (x[0] < 0 or x[-1] >= width or (np.diff(x) <= 0).any()):
        return None
    if p.shape != (graph.n_actions,) or row.scores.shape != (graph.n_classes,) or not np.isfinite(row.scores).all():
        return None
    if not is_distribution(p) or p[row.action] <= 0.0:
        return None
    if row.own.size and (row.own.shape != p.shape or not is_distribution(row.own)):
        return None
    return Turn(graph, width, _record(graph, row))


def _record(graph: FeedbackGraph, row: Row) -> Floats:
    """The record of a turn with these numbers."""
    N, K = graph.n_actions, graph.n_classes
    record = new_record(record_size(K, N) + row.own.size + row_size(row.indices.size))
    record[[RATE, SQUARED, FOLLOWS]] = row.rate, row.squared, float(row.own.size > 0)
    record[[ENTRIES, ROUND, ACTION, GREEDY]] = row.indices.size, row.serial, row.action, row.greedy
    record[HEAD : HEAD + N] = row.probabilities
    record[HEAD + N : HEAD + N + K] = row.scores
    own_part(record, N)[:] = row.own
    row_indices(record)[:], row_values(record)[:] = row.indices, row.values
    return record


def write_receipts(waiting: Iterable[Receipt], own: FeedbackGraph) -> tuple[list[Any], dict[str, NDArray[Any]]]:
    """The waiting receipts for a file: their graphs other than the model's own, as JSON, and named arrays.

    A model may have a million of them, and nobody can use it meanwhile: so their records are taken apart together.
    """
    receipts = list(waiting)
    turns = [receipt._turn for receipt in receipts]
    graphs = list(dict.fromkeys(turn.graph for turn in turns if turn.graph is not own))
    places = {graph: place for place, graph in enumerate(graphs)}
    place = np.array([-1 if turn.graph is own else places[turn.graph] for turn in turns], np.int64)
    N, K = np.array([(graph.n_actions, graph.n_classes) for graph in (*graphs, own)], np.int64)[place].T
    records = np.concatenate([NO_NUMBERS, *(turn.record for turn in turns)])
    stops = np.cumsum([turn.record.size for turn in turns], dtype=np.int64)
    starts = stops - np.diff(stops, prepend=0)
    heads = records[starts[:, np.newaxis] + np.arange(HEAD)]
    entries, following = heads[:, ENTRIES].astype(np.int64), heads[:, FOLLOWS] > 0.0
    rows = stops - entries - (entries + 1) // 2
    serials = np.array([receipt.serial for receipt in receipts], np.int64)
    action, greedy = heads[:, ACTION].astype(np.int64), heads[:, GREEDY].astype(np.int64)
    arrays: dict[str, NDArray[Any]] = {}
    for graph, which in places.items():
        arrays |= saved.graph_arrays(graph, f".{which}")
    arrays |= {
        "receipts": np.stack([serials, action, greedy, entries, place], axis=1),
        "times": np.array([receipt.time for receipt in receipts], np.float64),
        "rates": heads[:, RATE].copy(),
        "indices": _gathered(records.view(np.int32), 2 * (rows + entries), entries),
        "values": _gathered(records, rows, entries),
        "scores": _gathered(records, starts + HEAD + N, K),
        "probabilities": _gathered(records, starts + HEAD, N),
        "following": following,
        "own": _gathered(records, (rows - N)[following], N[following]),
    }
    return [saved.graph_header(graph) for graph in graphs], arrays


def _gathered(numbers: NDArray[Any], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[Any]:
    """Parts of an array, one behind the other.

    >>> _gathered(np.arange(10), np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    before = np.cumsum(sizes) - sizes
    return numbers[np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))]


def read_receipts(
    headers: list[Any], arrays: dict[str, NDArray[Any]], player: Player, most: int
) -> Iterator[tuple[int, Turn, float]]:
    """The serial numbers, turns and times of the waiting receipts of a file, checked."""
    rows, rates = arrays["receipts"], arrays["rates"]
    times = arrays.get("times", np.zeros(len(rates)))  # absent, as the next two, in files of version 0.1
    following = arrays.get("following", np.zeros(len(rates), np.bool_))
    arrays.setdefault("own", np.zeros(0))
    graphs = [saved.graph_of(about, arrays, f".{place}") for place, about in enumerate(headers)]
    if not all(graph.may_precede(player.graph) for graph in graphs):
        raise UserError(DAMAGED)
    if rows.dtype != np.int64 or rows.shape != (len(rates), len(COLUMNS)) or len(rows) > most:
        raise UserError(DAMAGED)
    for array in (rates, times):
        if array.dtype != np.float64 or array.shape != (len(rows),) or not (np.isfinite(array) & (array >= 0.0)).all():
            raise UserError(DAMAGED)
    if following.dtype != bool or following.shape != (len(rows),):
        raise UserError(DAMAGED)
    starts = dict.fromkeys(("indices", "values", "scores", "probabilities", "own"), 0)

    def cut(name: str, size: int, dtype: type) -> NDArray[Any]:
        start = starts[name]
        starts[name] = start + size
        part = arrays[name][start : start + size]
        if part.shape != (size,) or part.dtype != dtype:
            raise UserError(DAMAGED)
        return part.copy()

    by_score = type(player.learner).choice is Learner.choice
    least = 0
    for (serial, action, greedy, size, place), rate, time, follows in zip(
        rows.tolist(), rates.tolist(), times.tolist(), following.tolist(), strict=True
    ):
        graph = player.graph if place == -1 else graphs[whole(place, "a graph")]
        indices, values = cut("indices", whole(size, "a size"), np.int32), cut("values", size, np.float64)
        squared = player.checker.squared_norm(indices, values, player.width)
        if squared is None:
            raise UserError(DAMAGED)
        least = whole(serial, "a serial", least=least, most=player.rounds - 1) + 1
        whole(action, "an action", most=graph.n_actions - 1)
        whole(greedy, "a greedy class", most=graph.n_classes - 1)
        probabilities, scores = cut("probabilities", graph.n_actions, np.float64), cut("scores", graph.n_classes, float)
        own = cut("own", graph.n_actions if follows else 0, np.float64)
        row = Row(serial, action, greedy, rate, indices, values, squared, probabilities, scores, own)
        turn = checked_turn(graph, player.width, row)
        if turn is None or (by_score and int(np.argmax(scores)) != greedy):
            raise UserError(DAMAGED)
        yield serial, turn, time
    if any(starts[name] != arrays[name].size for name in starts):
        raise UserError(DAMAGED)
