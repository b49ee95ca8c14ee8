"""The round loop, once, for every learner; and the same round cut in two for playing one at a time.

:func:`advance` takes state in and leaves state behind over one chunk of a stream. Streaming from files, progress,
Ctrl-C and resuming all rest on that shape. :func:`decide` and :meth:`Learner.update` are the two halves of a round;
:func:`act` and :func:`learn` are the same halves for one round at a time, so both ways of playing give the same bits.

Every round consumes exactly one uniform draw, also when the distribution is a point, and the action is the inverse of
the cumulative distribution in the order of the actions.

Functions that Python calls return numbers or plain tuples. A named tuple would be made by Numba from its pickled class,
which crashes the process when a signal handler has raised in the meantime.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.data.normalization import Normalization, Room
from gappletron.data.stream import squared_size
from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import UNSEEN_LABEL, Lanes, Row
from gappletron.kernel.packed import Packed, unpacked
from gappletron.kernel.pieces import Piece, compiled, helper
from gappletron.kernel.types import Floats, Vector
from gappletron.learners.learner import Decision, Learner, Round, cost_of
from gappletron.play.limits import Limiting
from gappletron.play.turns import (
    ACTION,
    ENTRIES,
    FOLLOWS,
    GREEDY,
    HEAD,
    LEARNED,
    RATE,
    ROUND,
    SQUARED,
    STATUS,
    WAITING,
    own_start,
    row_start,
)
from gappletron.play.values import Played
from gappletron.play.watch import Watching

MISTAKES, LABELS_SEEN, EXPLORED, BLIND = range(4)
RATES, LOSSES, COSTS = range(3)
PLAYED = 0
"""The place of the number of rounds in a clock."""


class Desk(NamedTuple):
    """Arrays for one round's scores (K, padded beyond its end) and probabilities (N), the clock, the padded width, and
    how a row is prepared: its normalization, what that remembers, and 1 where its first entry is a bias. Then the time
    of the round; the limits on its distribution, what they remember, and what they derive from the graph; and what is
    written down of it: the watch, its state, and what it derives from the graph.

    The clock holds the number of rounds played. It is changed by the same calls of compiled code as the state. A signal
    handler runs before or after such a call, never inside it, so the clock always tells what the state has seen.
    """

    scores: Floats
    probabilities: Floats
    clock: NDArray[np.int64]
    lanes: Lanes
    normalization: Normalization
    scales: Any
    bias: int
    now: Floats
    limits: Limiting
    limited: Any
    bounds: Any
    watch: Watching
    watched: Any
    sight: Any


class Rows(NamedTuple):
    """A chunk, for each of its rounds ||x||^2 and the uniform draw, and room for one row."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: Floats
    labels: NDArray[np.int64]
    squared: Floats
    draws: Floats
    room: Room


class Tally(NamedTuple):
    """Running totals, and copies of them at the marked rounds.

    `counts`: mistakes, labels seen, rounds whose action was not y*, rounds whose y* does not reveal (n_T). `sums`: of
    gamma_t, of the surrogate losses, of the costs. `played`: rounds so far, and marks passed. `confusion`: how often
    each action was played at each label.
    """

    counts: NDArray[np.int64]
    sums: Floats
    played: NDArray[np.int64]
    marks: NDArray[np.int64]
    counts_at: NDArray[np.int64]
    sums_at: Floats
    confusion: NDArray[np.int64]


def new_tally(marks: NDArray[np.int64], actions: int, classes: int) -> Tally:
    """All zero, for a graph of this size, to be copied at the given rounds (sorted, counted from 1)."""
    n = marks.size
    marks = marks.view()
    marks.flags.writeable = False  # kernels are compiled for one type of array
    return Tally(
        np.zeros(4, np.int64),
        np.zeros(3),
        np.zeros(2, np.int64),
        marks,
        np.zeros((n, 4), np.int64),
        np.zeros((n, 3)),
        np.zeros((actions, classes), np.int64),
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
    for i in range(probabilities.size):
        total += probabilities[i]
        if u < total:  # never at an action of probability 0, since u was not below the same total before
            return i
    last = probabilities.size - 1  # the probabilities may add up to a rounding error less than u
    while probabilities[last] <= 0.0:
        last -= 1
    return last


@helper
def propose(learner: Learner, state: Any, plan: Plan, x: Row, desk: Desk) -> Decision:
    """From x to the distribution over the actions that the learner asks for, in `desk.probabilities`; changes nothing
    else.
    """
    learner.scores(state, x, desk.scores)
    return learner.distribution(state, plan, x, desk.scores, desk.probabilities)


@helper
def decide(learner: Learner, state: Any, plan: Plan, x: Row, desk: Desk, at: int) -> Decision:
    """From x to the distribution of round number `at`, within its limits."""
    decision = propose(learner, state, plan, x, desk)
    desk.limits.restrain(desk.limited, desk.bounds, plan.graph, at, desk.now[0], decision.greedy, desk.probabilities)
    return decision


def advance(learner: Learner, state: Any, plan: Plan, rows: Rows, desk: Desk, tally: Tally, record: Record) -> None:
    """Play every round of a chunk."""
    first = desk.clock[PLAYED]
    desk.clock[PLAYED] = first + rows.labels.size
    t = 0
    while t < rows.labels.size:
        mark = tally.played[1]
        stop = rows.labels.size
        if mark < tally.marks.size:
            stop = min(stop, t + tally.marks[mark] - tally.played[0])
        play_until((learner, state, plan, desk), rows, t, stop, first, tally, record)
        tally.played[0] += stop - t
        t = stop
        if mark < tally.marks.size and tally.marks[mark] == tally.played[0]:
            for i in range(tally.counts.size):
                tally.counts_at[mark, i] = tally.counts[i]
            for i in range(tally.sums.size):
                tally.sums_at[mark, i] = tally.sums[i]
            tally.played[1] += 1


@helper
def play_until(player: Any, rows: Rows, start: int, stop: int, first: int, tally: Tally, record: Record) -> None:
    """Play the rounds from `start` to `stop` of a chunk, whose first is round number `first`; the totals are kept in
    registers meanwhile.
    """
    learner, state, plan, desk = player
    graph, own = plan.graph, desk.probabilities[:0]
    mistakes = seen = explored = blind = 0
    rates, losses, costs = tally.sums[RATES], tally.sums[LOSSES], tally.sums[COSTS]
    for t in range(start, stop):
        desk.watch.open_round(desk.watched, first + t, desk.now[0])
        given = Row(rows.indices, rows.values, rows.indptr[t], rows.indptr[t + 1], rows.squared[t], desk.lanes)
        x = desk.normalization.present(desk.scales, given, desk.bias, rows.room)
        decision = decide(learner, state, plan, x, desk, first + t)
        learner.count_round(state, plan, decision.greedy)
        action = draw(desk.probabilities, rows.draws[t])
        desk.limits.settle(desk.limited, desk.bounds, first + t, desk.now[0], decision.greedy, action)
        y = rows.labels[t]
        label = y if graph.visible[action, y] else UNSEEN_LABEL

        mistakes += action != y
        seen += label >= 0
        explored += action != decision.greedy
        blind += not graph.revealing[decision.greedy]
        rates += decision.rate
        losses += record.measure(learner, desk.scores, decision.greedy, y)
        costs += cost_of(plan, action, y)
        tally.confusion[action, y] += 1
        played = Played(first + t, desk.probabilities, own, decision.greedy, action)
        desk.watch.note_round(desk.watched, desk.sight, graph, played, label)

        learner.update(state, plan, x, Round(desk.scores, desk.probabilities, decision.greedy, action, label))
    tally.counts[MISTAKES] += mistakes
    tally.counts[LABELS_SEEN] += seen
    tally.counts[EXPLORED] += explored
    tally.counts[BLIND] += blind
    tally.sums[RATES] = rates
    tally.sums[LOSSES] = losses
    tally.sums[COSTS] = costs


def teach(learner: Learner, state: Any, plan: Plan, rows: Rows, desk: Desk, observed: Floats) -> None:
    """Learn the label of every row of a chunk without a draw; the clock stands still.

    The plan is that of a graph on which every action shows every label, so the greedy action may stand for the one that
    was not drawn. `observed` holds the probability with which each label was observed: the probabilities of the actions
    are scaled so that they add up to it.
    """
    for t in range(rows.labels.size):
        given = Row(rows.indices, rows.values, rows.indptr[t], rows.indptr[t + 1], rows.squared[t], desk.lanes)
        x = desk.normalization.present(desk.scales, given, desk.bias, rows.room)
        decision = propose(learner, state, plan, x, desk)
        learner.count_round(state, plan, decision.greedy)
        for i in range(desk.probabilities.size):
            desk.probabilities[i] *= observed[t]
        greedy = decision.greedy
        learner.update(state, plan, x, Round(desk.scores, desk.probabilities, greedy, greedy, rows.labels[t]))


# ------------------------------------------------------------------------------------------------ one round at a time


def act(
    player: Packed, indices: NDArray[np.int32], values: Floats, squared: float, u: float, at: int, record: Floats
) -> bool:
    """Play the first half of round number `at`, and write it to the record (:mod:`gappletron.play.turns`), with the row
    as the learner sees it.

    `player` is (learner, state, plan, desk). False, and nothing is changed, where the round was played by another call
    in the meantime (of a signal handler).
    """
    parts = unpacked(player)
    if parts[3].clock[PLAYED] != at:
        return False
    draw_action(parts, (indices, values, squared), u, at, record)
    return True


def act_rows(player: Packed, rows: Any, draws: Floats, at: int, ends: NDArray[np.int64], records: Floats) -> bool:
    """As :func:`act`, for many rows (:class:`gappletron.data.vectors.Vectors`), which are rounds number `at` and the
    following; the record of row t is the part of `records` from `ends[t]` to `ends[t + 1]`.
    """
    parts = unpacked(player)
    if parts[3].clock[PLAYED] != at:
        return False
    for t in range(draws.size):
        first, last = rows.indptr[t], rows.indptr[t + 1]
        vector = (rows.indices[first:last], rows.values[first:last], rows.squared[t])
        draw_action(parts, vector, draws[t], at + t, records[ends[t] : ends[t + 1]])
    return True


def follow(player: Packed, vector: Vector, action: int, greedy: int, at: int, record: Floats) -> bool:
    """As :func:`act`, but the action, and the probabilities in the record, are those of another's decision; so is the
    greedy class, unless it is -1. The learner's own distribution is written down.
    """
    learner, state, plan, desk = unpacked(player)
    if desk.clock[PLAYED] != at:
        return False
    decision = begin_round((learner, state, plan, desk), (vector.indices, vector.values, vector.squared), at, record)
    record[FOLLOWS] = 1.0
    start = own_start(record, desk.probabilities.size)
    for i in range(desk.probabilities.size):
        record[start + i] = desk.probabilities[i]
    desk.limits.settle_expected(desk.limited, desk.bounds, at, desk.now[0], decision.greedy, desk.probabilities)
    end_decision(plan, desk, at, decision.greedy if greedy < 0 else greedy, action, record)
    return True


@helper
def draw_action(player: Any, vector: Any, u: float, at: int, record: Floats) -> None:
    """Play the first half of round number `at`, which comes next."""
    _, _, plan, desk = player
    decision = begin_round(player, vector, at, record)
    for i in range(desk.probabilities.size):
        record[HEAD + i] = desk.probabilities[i]
    action = draw(desk.probabilities, u)
    desk.limits.settle(desk.limited, desk.bounds, at, desk.now[0], decision.greedy, action)
    end_decision(plan, desk, at, decision.greedy, action, record)


@helper
def begin_round(player: Any, vector: Any, at: int, record: Floats) -> Decision:
    """From the row to the learner's own distribution; counts the round."""
    learner, state, plan, desk = player
    indices, values, squared = vector
    desk.watch.open_round(desk.watched, at, desk.now[0])
    bias, size = desk.bias, desk.bias + indices.size
    record[ENTRIES] = size
    start = row_start(record)
    own_values, own_indices = record[start : start + size], record[start + size :].view(np.int32)
    if bias:
        own_indices[0] = 0
        own_values[0] = 1.0
    for p in range(indices.size):
        own_indices[bias + p] = indices[p] + bias
        own_values[bias + p] = values[p]
    record[SQUARED] = desk.normalization.take(desk.scales, own_indices, own_values, 0, size, bias, squared)
    x = Row(own_indices, own_values, 0, size, record[SQUARED], desk.lanes)
    decision = decide(learner, state, plan, x, desk, at)
    learner.count_round(state, plan, decision.greedy)
    record[RATE] = decision.rate
    N = desk.probabilities.size
    for k in range(desk.scores.size):
        record[HEAD + N + k] = desk.scores[k]
    return decision


@helper
def end_decision(plan: Plan, desk: Desk, at: int, greedy: int, action: int, record: Floats) -> None:
    """Write down the action of round number `at`, which is played now."""
    N = desk.probabilities.size
    record[ACTION] = action
    record[GREEDY] = greedy
    probabilities, own = record[HEAD : HEAD + N], record[own_start(record, N) : row_start(record)]
    played = Played(at, probabilities, own, greedy, action)
    desk.watch.note_action(desk.watched, desk.sight, plan.graph, played)
    record[ROUND] = at
    record[STATUS] = WAITING
    desk.clock[PLAYED] = at + 1


def learn(player: Packed, record: Floats, label: int) -> None:
    """The second half of the round of a record, now or after others."""
    learner, state, plan, desk = unpacked(player)
    end_round(learner, state, plan, desk, record, label)


def learn_rows(player: Packed, ends: NDArray[np.int64], records: Floats, labels: NDArray[np.int64]) -> None:
    """As :func:`learn`, for many records, which stand in one array as those of :func:`act_rows` do."""
    learner, state, plan, desk = unpacked(player)
    for t in range(labels.size):
        end_round(learner, state, plan, desk, records[ends[t] : ends[t + 1]], labels[t])


@helper
def end_round(learner: Learner, state: Any, plan: Plan, desk: Desk, record: Floats, label: int) -> None:
    """Let the learner and the watch take in the feedback of a round."""
    N, K = plan.graph.visible.shape
    # The desk has room for the padding of today's classes; the record only for that of its own time.
    scores = desk.scores[:K]
    for k in range(K):
        scores[k] = record[HEAD + N + k]
    played = Round(scores, record[HEAD : HEAD + N], int(record[GREEDY]), int(record[ACTION]), label)
    start, size = row_start(record), int(record[ENTRIES])
    own_values, own_indices = record[start : start + size], record[start + size :].view(np.int32)
    x = Row(own_indices, own_values, 0, size, record[SQUARED], desk.lanes)
    learner.recall(state, x, played)
    learner.update(state, plan, x, played)
    for k in range(K):
        record[HEAD + N + k] = scores[k]
    if record[STATUS] == WAITING:
        own = record[own_start(record, N) : start]
        noted = Played(int(record[ROUND]), played.probabilities, own, played.greedy, played.action)
        desk.watch.note_feedback(desk.watched, desk.sight, plan.graph, noted, label)
        record[STATUS] = LEARNED


# ------------------------------------------------------------------------------------------------ looking, for a batch


def scale_rows(desk: Desk, rows: Rows, width: int) -> None:
    """Scale every row, and measure it; nothing is remembered of them.

    Features beyond the width, which a growing model does not have yet, count when a row is scaled. Their weights are 0:
    they become entries of 0.
    """
    for t in range(rows.labels.size):
        first, last = rows.indptr[t], rows.indptr[t + 1]
        desk.normalization.apply(desk.scales, rows.indices, rows.values, first + desk.bias, last)
        for p in range(first, last):
            if rows.indices[p] >= width:
                rows.indices[p] = 0
                rows.values[p] = 0.0
        rows.squared[t] = squared_size(rows.values, first, last)


def many_greedy(
    learner: Learner, state: Any, plan: Plan, rows: Rows, desk: Desk, scores: Floats, greedy: NDArray[np.int64]
) -> None:
    """The scores of every row, and y*; changes nothing else."""
    for t in range(greedy.size):
        x = Row(rows.indices, rows.values, rows.indptr[t], rows.indptr[t + 1], rows.squared[t], desk.lanes)
        learner.scores(state, x, desk.scores)
        for k in range(desk.scores.size):
            scores[t, k] = desk.scores[k]
        greedy[t] = learner.choice(state, plan, desk.scores)


def many_probabilities(learner: Learner, state: Any, plan: Plan, rows: Rows, desk: Desk, out: Floats) -> None:
    """The distribution over the actions that each row would meet if it came next; changes nothing else."""
    for t in range(out.shape[0]):
        x = Row(rows.indices, rows.values, rows.indptr[t], rows.indptr[t + 1], rows.squared[t], desk.lanes)
        decide(learner, state, plan, x, desk, desk.clock[PLAYED])
        for i in range(out.shape[1]):
            out[t, i] = desk.probabilities[i]


def many_label_probabilities(learner: Learner, state: Any, rows: Rows, desk: Desk, out: Floats) -> None:
    """The probabilities of the labels of every row, as the learner estimates them; changes nothing else."""
    for t in range(out.shape[0]):
        x = Row(rows.indices, rows.values, rows.indptr[t], rows.indptr[t + 1], rows.squared[t], desk.lanes)
        learner.scores(state, x, desk.scores)
        learner.label_probabilities(state, desk.scores, out[t])
