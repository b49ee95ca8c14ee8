"""A turn: one round that was begun, with all its numbers in one array, the record.

The record holds, in this order: gamma_t, ||x||^2, whether the turn follows another's decision, its status, the number
of entries of x, how many numbers of its own the learner keeps, the number of the round, the action, and y*. Then the
probabilities of the actions, the scores of the classes with their padding, what the learner keeps (first of all the
scores that came with x), where it follows another's decision the learner's own distribution, and the row x as the
learner sees it: its values, and its indices, two in the room of one number. It is one array, since each array takes
time to make and to pass on.

**The record is the truth.** Compiled code changes the state of the learner and the status of the record in one call,
which no signal handler can enter. So whatever was interrupted, the status tells whether the round was played, and
whether it was learned from.
"""

import itertools
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import is_distribution, lanes_for
from gappletron.kernel.pieces import helper
from gappletron.kernel.types import NO_VECTOR, Floats, Vector
from gappletron.play.index import Index

RATE, SQUARED, FOLLOWS, STATUS, ENTRIES, KEPT, ROUND, ACTION, GREEDY = range(9)
# The numbers in front of the probabilities in a record.
HEAD = 9
# The status of a record: not played; played, and waiting for feedback; and what ended the waiting.
NEW, WAITING, LEARNED, FORGOTTEN, EXPIRED = range(5)


@helper
def row_size(entries: Any) -> Any:
    """Return the numbers in a record that a row with so many entries takes; also for an array of such counts.

    >>> row_size(3)
    5
    """
    return entries + (entries + 1) // 2


def record_size(classes: int, actions: int, kept: int = 0) -> int:
    """Return the numbers in a record without its row."""
    return HEAD + actions + int(lanes_for(classes).padded(classes)) + kept


@helper
def row_start(record: Floats) -> int:
    """Return where the row begins in a record."""
    return record.size - row_size(int(record[ENTRIES]))


@helper
def own_start(record: Floats, actions: int) -> int:
    """Return where the learner's own distribution begins, where a turn follows another's decision; else where the row
    begins.
    """
    start = row_start(record)
    return start - actions if record[FOLLOWS] > 0.0 else start


@helper
def kept_start(record: Floats, actions: int) -> int:
    """Return where what the learner keeps begins in a record."""
    return own_start(record, actions) - int(record[KEPT])


class Turn:
    """An action that was drawn, and all that learning from it later needs.

    `graph` is the feedback graph of the round; actions and classes are positions in it. `index` tells which features
    the rows of the state are. `record` holds all numbers (:mod:`gappletron.play.turns`).

    >>> from gappletron import FeedbackGraph, Player
    >>> turn = Player("gapsmh", FeedbackGraph.bandit(3), features=2).act([1.0, 0.5])
    >>> turn.greedy, turn.probabilities.round(2).tolist()
    (0, [0.33, 0.33, 0.33])
    """

    __slots__ = ("graph", "index", "record")

    def __init__(self, graph: FeedbackGraph, index: Index, record: Floats) -> None:
        self.graph, self.index, self.record = graph, index, record

    def copy(self) -> Self:
        """Return a copy with a record of its own."""
        return type(self)(self.graph, self.index, self.record.copy())

    @property
    def status(self) -> int:
        """Whether the round was played, and what became of it: NEW, WAITING, LEARNED, FORGOTTEN or EXPIRED."""
        return int(self.record.item(STATUS))

    @status.setter
    def status(self, status: int) -> None:
        self.record[STATUS] = status

    @property
    def x(self) -> Vector:
        """The row as the learner sees it: with the bias first, scaled, and with rows of the state as indices."""
        record, start, entries = self.record, row_start(self.record), int(self.record.item(ENTRIES))
        indices = record[start + entries :].view(np.int32)[:entries]
        return Vector(_read_only(indices), _read_only(record[start : start + entries]), record.item(SQUARED))

    @property
    def round(self) -> int:
        """The number of the round, from 0; -1 where the action was not drawn yet."""
        return int(self.record.item(ROUND)) if self.record.item(STATUS) else -1

    @property
    def action(self) -> int:
        """The action drawn."""
        return int(self.record.item(ACTION))

    @property
    def greedy(self) -> int:
        """The class that the learner would predict without exploration, y*."""
        return int(self.record.item(GREEDY))

    @property
    def rate(self) -> float:
        """The rate of exploration, gamma_t."""
        return float(self.record[RATE])

    @property
    def probability(self) -> float:
        """The probability of the action drawn."""
        return self.record.item(HEAD + self.action)

    @property
    def probabilities(self) -> Floats:
        """The probability of every action; not to be written to, since learning will need it."""
        return _read_only(self.record[HEAD : HEAD + self.graph.n_actions])

    @property
    def own_probabilities(self) -> Floats:
        """The learner's own distribution, where the turn follows the decision of another; else as `probabilities`."""
        if not self.is_following:
            return self.probabilities
        start = own_start(self.record, self.graph.n_actions)
        return _read_only(self.record[start : start + self.graph.n_actions])

    @property
    def is_following(self) -> bool:
        """Whether the action is that of another's decision: see :meth:`Player.follow`."""
        return self.record.item(FOLLOWS) > 0.0

    @property
    def scores(self) -> Floats:
        """The score of every class at prediction time; after :meth:`Player.learn` those that it was learned at."""
        start = HEAD + self.graph.n_actions
        return _read_only(self.record[start : start + self.graph.n_classes])

    @property
    def kept(self) -> Floats:
        """What the learner keeps of the round until its feedback comes."""
        start = kept_start(self.record, self.graph.n_actions)
        return _read_only(self.record[start : start + int(self.record.item(KEPT))])

    @property
    def decision(self) -> Floats:
        """The numbers that a log keeps: the round, the action, y*, and the probability of every action."""
        return self.record[ROUND : HEAD + self.graph.n_actions]


class Turns(NamedTuple):
    """The turns of many rounds, the first of which is number `first`; the record of turn t is the part of `records`
    from `ends[t]` to `ends[t + 1]`.
    """

    graph: FeedbackGraph
    features: Index
    first: int
    ends: NDArray[np.int64]
    records: Floats

    def split(self) -> list[Turn]:
        """Return the turns one by one, as copies: one that waits for long must not keep the others in memory."""
        graph, index, records, ends = self.graph, self.features, self.records, self.ends.tolist()
        return [Turn(graph, index, records[a:b].copy()) for a, b in itertools.pairwise(ends)]

    @property
    def decisions(self) -> Floats:
        """The numbers of each that a log keeps (:attr:`Turn.decision`), in a row."""
        return self.records[self.ends[:-1, np.newaxis] + np.arange(ROUND, HEAD + self.graph.n_actions)]


def build_turn(
    graph: FeedbackGraph,
    index: Index,
    head: dict[int, float],
    probabilities: Floats,
    scores: Floats,
    own: Floats,
    x: tuple[NDArray[np.int32], Floats],
    kept: Floats = NO_VECTOR.values,
) -> Turn:
    """Return the waiting turn with these numbers; :func:`check_records` tells whether it can be played.

    :param head: the numbers at the front of the record, by their places.
    :param own: the learner's own distribution, where it follows the decision of another; else empty.
    """
    indices, values = x
    size = record_size(graph.n_classes, graph.n_actions, kept.size)
    record = np.zeros(size + own.size + row_size(indices.size))
    for place, number in head.items():
        record[place] = number
    record[[FOLLOWS, STATUS, ENTRIES, KEPT]] = float(own.size > 0), WAITING, indices.size, kept.size
    record[size - kept.size : size] = kept
    record[HEAD : HEAD + probabilities.size] = probabilities
    record[HEAD + graph.n_actions : HEAD + graph.n_actions + scores.size] = scores
    start = row_start(record)
    record[start - own.size : start] = own
    record[start : start + values.size] = values
    record[start + values.size :].view(np.int32)[: indices.size] = indices
    return Turn(graph, index, record)


def check_records(
    graph: FeedbackGraph, rows: int, kept: int, records: Floats, starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> bool:
    """Return whether these parts of an array are records of waiting turns on a graph: compiled code will trust it."""
    bare = record_size(graph.n_classes, graph.n_actions, kept)
    if (sizes < bare).any():
        return False
    front = records[starts[:, np.newaxis] + np.arange(bare)]
    chances = front[:, HEAD : HEAD + graph.n_actions]
    if not np.isfinite(front).all() or (front[:, :HEAD] < 0.0).any() or not is_distribution(chances):
        return False
    whole = front[:, [ENTRIES, FOLLOWS, STATUS, KEPT, ROUND, ACTION, GREEDY]]
    below = [records.size + 1, 2, WAITING + 1, kept + 1, 2**53, graph.n_actions, graph.n_classes]
    if (whole % 1.0).any() or (whole >= below).any() or (whole[:, 2:4] < [WAITING, kept]).any():
        return False
    entries, follows, _, _, _, actions, _ = whole.astype(np.int64).T
    ends, width = starts + sizes, row_size(entries)
    if (sizes != bare + graph.n_actions * follows + width).any() or (
        chances[np.arange(starts.size), actions] <= 0
    ).any():
        return False
    own = (ends - width - graph.n_actions)[follows > 0, np.newaxis] + np.arange(graph.n_actions)
    turn = np.repeat(np.arange(starts.size), entries)
    places = np.arange(turn.size) - (np.cumsum(entries) - entries)[turn]
    values = records[(ends - width)[turn] + places]
    indices = records.view(np.int32)[2 * (ends - width + entries)[turn] + places]
    order = np.lexsort([indices, turn])  # rows on demand are not in the order of their features
    with np.errstate(over="ignore"):
        squared = np.bincount(turn, values * values, starts.size)
    return bool(
        is_distribution(records[own])
        and np.isfinite(values).all()
        and ((indices >= 0) & (indices < rows)).all()
        and ((np.diff(indices[order]) > 0) | (np.diff(turn) > 0)).all()
        and np.isclose(squared, front[:, SQUARED], rtol=1e-9, atol=0.0).all()
    )


def _read_only(view: NDArray[Any]) -> NDArray[Any]:
    view.flags.writeable = False
    return view
