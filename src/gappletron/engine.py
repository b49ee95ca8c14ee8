"""The round loop, once, for every learner; and the same round cut in two for playing one at a time.

:func:`advance` takes state in and leaves state behind over one chunk of a stream. Streaming from files, progress,
Ctrl-C and resuming all rest on that shape. :func:`decide` and :meth:`Learner.update` are the two halves of a round that
it shares with :class:`gappletron.Online`, so both ways of playing give the same bits.

Every round consumes exactly one uniform draw, also when the distribution is a point, and the action is the inverse of
the cumulative distribution in the order of the actions.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gappletron._dispatch import Piece, compiled, helper
from gappletron.learners.learner import Round
from gappletron.numerics import UNSEEN_LABEL, Row, argmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gappletron.graphs import FeedbackGraph, GraphArrays
    from gappletron.learners.learner import Learner
    from gappletron.numerics import Floats
    from gappletron.streams.stream import Chunk

__all__ = ["Counts", "Desk", "Losses", "Tally", "Turn", "advance", "decide", "greedy_class"]

MISTAKES, LABELS_SEEN, EXPLORED, BLIND = range(4)
RATES, LOSSES = range(2)


class Desk(NamedTuple):
    """Room for one round's scores (K) and probabilities (N)."""

    scores: Floats
    probabilities: Floats


class Turn(NamedTuple):
    """A decision made: the action drawn, y*, and gamma_t."""

    action: int
    greedy: int
    rate: float


class Tally(NamedTuple):
    """Running totals, and copies of them at the marked rounds.

    `counts`: mistakes, labels seen, rounds whose action was not y*, rounds whose y* does not reveal (n_T). `sums`: of
    gamma_t, of the surrogate losses. `played`: rounds so far, and marks passed.
    """

    counts: NDArray[np.int64]
    sums: Floats
    played: NDArray[np.int64]
    marks: NDArray[np.int64]
    counts_at: NDArray[np.int64]
    sums_at: Floats


def generator(seed: int, repeat: int = 0) -> np.random.Generator:
    """The one source of a run's randomness."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(repeat,))))


def new_desk(graph: FeedbackGraph) -> Desk:
    """An empty desk of the graph's size."""
    return Desk(np.zeros(graph.n_classes), np.zeros(graph.n_actions))


def new_tally(marks: NDArray[np.int64]) -> Tally:
    """All zero, to be copied at the given rounds (sorted, counted from 1)."""
    n = marks.size
    return Tally(
        np.zeros(4, np.int64), np.zeros(2), np.zeros(2, np.int64), marks, np.zeros((n, 4), np.int64), np.zeros((n, 2))
    )


class Record(Piece, abstract=True):
    """What is written down of a round beyond the counts."""

    @abstractmethod
    @compiled
    def measure(self, learner: Any, scores: Floats, greedy: int, y: int) -> float:
        """What the round adds to the sum of losses."""


class Counts(Record):
    """Nothing but the counts."""

    def measure(self, learner: Any, scores: Floats, greedy: int, y: int) -> float:
        return 0.0


class Losses(Record):
    """Also the surrogate loss of every round, whether the learner saw the label or not."""

    def measure(self, learner: Any, scores: Floats, greedy: int, y: int) -> float:
        return learner.surrogate(scores, greedy, y)


@helper
def draw(probabilities: Floats, u: float) -> int:
    """The action whose stretch of the cumulative distribution holds u in [0, 1)."""
    total = 0.0
    last = 0
    for i in range(probabilities.size):
        if probabilities[i] > 0.0:
            total += probabilities[i]
            last = i
            if u < total:
                return i
    return last  # the probabilities may add up to a rounding error less than u


@helper
def decide(learner: Learner, state: Any, graph: GraphArrays, x: Row, desk: Desk, u: float) -> Turn:
    """The first half of a round: from x to an action."""
    learner.scores(state, x, desk.scores)
    decision = learner.distribution(state, graph, desk.scores, desk.probabilities)
    return Turn(draw(desk.probabilities, u), decision.greedy, decision.rate)


def greedy_class(learner: Learner, state: Any, x: Row, scores: Floats) -> int:
    """y* for x; changes nothing but `scores`."""
    learner.scores(state, x, scores)
    return argmax(scores)


def update(learner: Learner, state: Any, graph: GraphArrays, x: Row, played: Round) -> None:
    """The second half of a round."""
    learner.update(state, graph, x, played)


def advance(
    learner: Learner,
    state: Any,
    graph: GraphArrays,
    chunk: Chunk,
    rng: np.random.Generator,
    desk: Desk,
    tally: Tally,
    record: Record,
) -> None:
    """Play every round of a chunk."""
    for t in range(chunk.labels.size):
        x = Row(chunk.indices, chunk.values, chunk.indptr[t], chunk.indptr[t + 1])
        turn = decide(learner, state, graph, x, desk, rng.random())
        y = chunk.labels[t]
        seen = graph.visible[turn.action, y]

        tally.counts[MISTAKES] += turn.action != y
        tally.counts[LABELS_SEEN] += seen
        tally.counts[EXPLORED] += turn.action != turn.greedy
        tally.counts[BLIND] += not graph.revealing[turn.greedy]
        tally.sums[RATES] += turn.rate
        tally.sums[LOSSES] += record.measure(learner, desk.scores, turn.greedy, y)

        label = y if seen else UNSEEN_LABEL
        learner.update(state, graph, x, Round(desk.scores, desk.probabilities, turn.greedy, turn.action, label))

        tally.played[0] += 1
        mark = tally.played[1]
        if mark < tally.marks.size and tally.marks[mark] == tally.played[0]:
            for i in range(tally.counts.size):
                tally.counts_at[mark, i] = tally.counts[i]
            for i in range(tally.sums.size):
                tally.sums_at[mark, i] = tally.sums[i]
            tally.played[1] += 1
