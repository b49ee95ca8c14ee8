"""The round loop, once, for every learner; and the same round cut in two for playing one at a time.

:func:`advance` takes state in and leaves state behind over one chunk of a stream. Streaming from files, progress,
Ctrl-C and resuming all rest on that shape. :func:`decide` and :meth:`Learner.update` are the two halves of a round;
:func:`act` and :func:`learn` are the same halves for one round at a time, so both ways of playing give the same bits.

Every round consumes exactly one uniform draw, also when the distribution is a point, and the action is the inverse of
the cumulative distribution in the order of the actions.

Functions that Python calls return numbers or plain tuples. A named tuple would be made by Numba from its pickled class,
which crashes the process when a signal handler has raised in the meantime.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.data.normalization import Normalization, Room
from gappletron.data.stream import squared_size
from gappletron.graphs.graph import Plan
from gappletron.kernel.compiling import brief
from gappletron.kernel.numerics import UNSEEN_LABEL, Lanes, Row
from gappletron.kernel.packed import Packed, unpacked
from gappletron.kernel.pieces import Piece, compiled, helper
from gappletron.kernel.types import Floats, Vector
from gappletron.learners.learner import Decision, Learner, Round, cost_of
from gappletron.play import turns
from gappletron.play.limits import Limiting, Time
from gappletron.play.monitor_state import Watching
from gappletron.play.monitor_values import Played
from gappletron.play.turns import HEAD, LEARNED, WAITING

MISTAKES, LABELS_SEEN, EXPLORED, BLIND = range(4)
RATES, LOSSES, COSTS = range(3)
# In place of the label of a step in a log.
DECISION = -2
# The names of the counts and sums of a tally, in their order.
TOTALS = ("mistakes", "labels_seen", "explored", "blind_rounds", "rate_sum", "loss_sum", "cost")


class Setup(NamedTuple):
    """What rounds need besides the learner, its state and its plan.

    Arrays for one round's scores (K, padded beyond its end), probabilities (N), and what the learner keeps of it; the
    size of a record without its row; the number of rounds played; the padded width; and how a row is prepared: its
    normalization, what that remembers, and 1 where its first entry is a bias. Then the time of the round; the limits on
    its distribution, what they remember, and what they derive from the graph; and the watch, what it remembers, and
    what it derives from the graph.

    The number of rounds played is changed by the same calls of compiled code as the state. A signal handler runs before
    or after such a call, never inside it, so the number always tells what the state has seen.
    """

    scores: Floats
    probabilities: Floats
    kept: Floats
    record_size: int
    played: NDArray[np.int64]
    lanes: Lanes
    normalization: Normalization
    scales: Any
    bias: int
    now: Floats
    limits: Limiting
    limited: Any
    limits_plan: Any
    watch: Watching
    watched: Any
    watch_plan: Any


class Rows(NamedTuple):
    """A chunk, ||x||^2 of each of its rows, room for one row, and the scores that came with the rows, if any (n x
    K).
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: Floats
    labels: NDArray[np.int64]
    squared: Floats
    room: Room
    given: Floats


@helper
def row_at(rows: Rows, t: int, lanes: Lanes) -> Row:
    """Return row t."""
    return Row(rows.indices, rows.values, rows.indptr[t], rows.indptr[t + 1], rows.squared[t], lanes)


class Logged(NamedTuple):
    """What a log has of rounds to be played again.

    `steps`: the halves of rounds in their order, each the place of its record and a label, DECISION for a first half.
    For each decision, `times` has its time, and `decisions` its action and the probabilities of all actions.
    """

    steps: NDArray[np.int64]
    times: Floats
    decisions: Floats


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
    """Return totals of zero for a graph of this size, to be copied at the given rounds (sorted, counted from 1)."""
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
        """Return what the round adds to the sum of losses."""


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
    """Return the action whose part of the cumulative distribution holds u in [0, 1)."""
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
def give_scores(rows: Rows, t: int, kept: Floats) -> None:
    """Copy the scores that came with row t to the front of what the learner keeps, for a learner that takes any."""
    if kept.size > 0:
        kept[0] = 1.0 if rows.given.shape[0] > 0 else 0.0
        for k in range(rows.given.shape[1] if rows.given.shape[0] > 0 else 0):
            kept[1 + k] = rows.given[t, k]


@helper
def score(learner: Learner, state: Any, plan: Plan, x: Row, kept: Floats, out: Floats) -> None:
    """Write the scores of x; changes nothing else."""
    learner.take_row(state, plan, x, kept)
    learner.scores(state, x, out)


@helper
def propose(learner: Learner, state: Any, plan: Plan, x: Row, setup: Setup, kept: Floats) -> Decision:
    """Write the distribution over the actions that the learner asks for at x; changes nothing else."""
    score(learner, state, plan, x, kept, setup.scores)
    return learner.distribution(state, plan, x, setup.scores, setup.probabilities)


@helper
def decide(learner: Learner, state: Any, plan: Plan, x: Row, setup: Setup, kept: Floats, at: int) -> Decision:
    """Write the distribution of round number `at` at x, within its limits."""
    decision = propose(learner, state, plan, x, setup, kept)
    time = Time(at, setup.now[0])
    setup.limits.restrain(setup.limited, setup.limits_plan, plan.graph, time, decision.greedy, setup.probabilities)
    return decision


@helper
def charge(setup: Setup, at: int, greedy: int, action: int) -> None:
    """Count what the action of round number `at` cost; for -1, what the distribution costs on average."""
    time = Time(at, setup.now[0])
    setup.limits.charge(setup.limited, setup.limits_plan, time, greedy, action, setup.probabilities)


def advance(player: Packed, rows: Rows, draws: Floats, at: int, tally: Tally, record: Record) -> bool:
    """Play every round of a chunk, with a uniform draw for each; the first is round number `at`.

    `player` is (learner, state, plan, setup). False, and nothing is changed, where another round comes next: a
    signal handler may have played this one.
    """
    parts = unpacked(player)
    if parts[3].played[0] != at:
        return False
    parts[3].played[0] = at + rows.labels.size
    t = 0
    while t < rows.labels.size:
        mark = tally.played[1]
        stop = rows.labels.size
        if mark < tally.marks.size:
            stop = min(stop, t + tally.marks[mark] - tally.played[0])
        play_until(parts, rows, draws, t, stop, at, tally, record)
        tally.played[0] += stop - t
        t = stop
        if mark < tally.marks.size and tally.marks[mark] == tally.played[0]:
            for i in range(tally.counts.size):
                tally.counts_at[mark, i] = tally.counts[i]
            for i in range(tally.sums.size):
                tally.sums_at[mark, i] = tally.sums[i]
            tally.played[1] += 1
    return True


@helper
def play_until(
    player: Any, rows: Rows, draws: Floats, start: int, stop: int, first: int, tally: Tally, record: Record
) -> None:
    """Play the rounds from `start` to `stop` of a chunk, whose first is round number `first`; the totals are kept in
    registers meanwhile.
    """
    learner, state, plan, setup = player
    graph, own, kept = plan.graph, setup.probabilities[:0], setup.kept
    mistakes = seen = explored = blind = 0
    rates, losses, costs = tally.sums[RATES], tally.sums[LOSSES], tally.sums[COSTS]
    for t in range(start, stop):
        setup.watch.open_round(setup.watched, first + t, setup.now[0])
        given = row_at(rows, t, setup.lanes)
        x = setup.normalization.present(setup.scales, given, setup.bias, rows.room)
        give_scores(rows, t, kept)
        decision = decide(learner, state, plan, x, setup, kept, first + t)
        learner.count_round(state, plan, decision.greedy)
        learner.take_distribution(state, plan, x, setup.probabilities, kept)
        action = draw(setup.probabilities, draws[t])
        charge(setup, first + t, decision.greedy, action)
        y = rows.labels[t]
        label = y if graph.visible[action, y] else UNSEEN_LABEL

        mistakes += action != y
        seen += label >= 0
        explored += action != decision.greedy
        blind += not graph.revealing[decision.greedy]
        rates += decision.rate
        losses += record.measure(learner, setup.scores, decision.greedy, y)
        costs += cost_of(plan, action, y)
        tally.confusion[action, y] += 1
        played = Played(first + t, setup.probabilities, own, decision.greedy, action)
        setup.watch.note_round(setup.watched, setup.watch_plan, graph, played, label)

        learner.update(
            state, plan, x, Round(setup.scores, setup.probabilities, decision.greedy, action, label, kept, 0)
        )
    tally.counts[MISTAKES] += mistakes
    tally.counts[LABELS_SEEN] += seen
    tally.counts[EXPLORED] += explored
    tally.counts[BLIND] += blind
    tally.sums[RATES] = rates
    tally.sums[LOSSES] = losses
    tally.sums[COSTS] = costs


def teach(player: Packed, rows: Rows, observed: Floats) -> None:
    """Learn the label of every row of a chunk without a draw; no round is counted.

    The plan is that of a graph on which every action reveals every label, so the greedy action may stand for the one
    that was not drawn. `observed` holds the probability with which each label was observed: the probabilities of the
    actions are scaled so that they add up to it.
    """
    learner, state, plan, setup = unpacked(player)
    for t in range(rows.labels.size):
        given = row_at(rows, t, setup.lanes)
        x = setup.normalization.present(setup.scales, given, setup.bias, rows.room)
        give_scores(rows, t, setup.kept)
        greedy = propose(learner, state, plan, x, setup, setup.kept).greedy
        learner.count_round(state, plan, greedy)
        learner.take_distribution(state, plan, x, setup.probabilities, setup.kept)
        for i in range(setup.probabilities.size):
            setup.probabilities[i] *= observed[t]
        played = Round(setup.scores, setup.probabilities, greedy, greedy, rows.labels[t], setup.kept, 0)
        learner.update(state, plan, x, played)


def reset(player: Packed) -> None:
    """Let the learner forget what may be out of date."""
    learner, state, _, _ = unpacked(player)
    learner.reset(state)


# ------------------------------------------------------------------------------------------------ one round at a time


@helper
def can_begin(player: Any, at: int, entries: int, follows: int, record: Floats) -> bool:
    """Return whether round number `at` comes next, on a graph with the present classes, and the record has the size for
    a row with so many entries; not so where a signal handler has played it, or added a class.
    """
    _, _, plan, setup = player
    N, K = setup.probabilities.size, setup.scores.size
    size = setup.record_size + N * follows + turns.row_size(setup.bias + entries)
    return setup.played[0] == at and plan.graph.visible.shape == (N, K) and record.size == size


@brief
def act(
    player: Packed, indices: NDArray[np.int32], values: Floats, squared: float, u: float, at: int, record: Floats
) -> bool:
    """Play the first half of round number `at`, and write it to the record (:mod:`gappletron.play.turns`), with the row
    as the learner sees it. False, and nothing is changed, unless it :func:`can_begin`.
    """
    parts = unpacked(player)
    if not can_begin(parts, at, indices.size, 0, record):
        return False
    draw_action(parts, (indices, values, squared), u, at, record)
    return True


def act_rows(player: Packed, rows: Any, draws: Floats, at: int, ends: NDArray[np.int64], records: Floats) -> bool:
    """As :func:`act`, for many rows (:class:`gappletron.data.vectors.Vectors`), which are rounds number `at` and the
    following; the record of row t is the part of `records` from `ends[t]` to `ends[t + 1]`, which must fit.
    """
    parts = unpacked(player)
    if parts[3].played[0] != at:
        return False
    for t in range(draws.size):
        first, last = rows.indptr[t], rows.indptr[t + 1]
        vector = (rows.indices[first:last], rows.values[first:last], rows.squared[t])
        draw_action(parts, vector, draws[t], at + t, records[ends[t] : ends[t + 1]])
    return True


@brief
def follow(player: Packed, vector: Vector, action: int, greedy: int, at: int, record: Floats) -> bool:
    """As :func:`act`, but the action, and the probabilities in the record, are those of another's decision; so is the
    greedy class, unless it is -1. The learner's own distribution is written down.
    """
    parts = unpacked(player)
    _, _, plan, setup = parts
    if not can_begin(parts, at, vector.indices.size, 1, record):
        return False
    record[turns.FOLLOWS] = 1.0
    decision = begin_round(parts, (vector.indices, vector.values, vector.squared), at, record)
    start = turns.own_start(record, setup.probabilities.size)
    for i in range(setup.probabilities.size):
        record[start + i] = setup.probabilities[i]
    charge(setup, at, decision.greedy, -1)
    end_decision(plan, setup, at, decision.greedy if greedy < 0 else greedy, action, record)
    return True


@helper
def draw_action(player: Any, vector: Any, u: float, at: int, record: Floats) -> None:
    """Play the first half of round number `at`, which comes next."""
    _, _, plan, setup = player
    decision = begin_round(player, vector, at, record)
    for i in range(setup.probabilities.size):
        record[HEAD + i] = setup.probabilities[i]
    action = draw(setup.probabilities, u)
    charge(setup, at, decision.greedy, action)
    end_decision(plan, setup, at, decision.greedy, action, record)


@helper
def write_row(
    setup: Setup, indices: NDArray[np.int32], values: Floats, record: Floats
) -> tuple[NDArray[np.int32], Floats, Floats]:
    """Copy a row to its record, with its bias; return its indices and values there, and where its numbers are kept."""
    bias, size = setup.bias, setup.bias + indices.size
    record[turns.ENTRIES] = size
    record[turns.KEPT] = setup.kept.size
    start = turns.row_start(record)
    own_values, own_indices = record[start : start + size], record[start + size :].view(np.int32)
    if bias:
        own_indices[0] = 0
        own_values[0] = 1.0
    for p in range(indices.size):
        own_indices[bias + p] = indices[p] + bias
        own_values[bias + p] = values[p]
    start = turns.kept_start(record, setup.probabilities.size)
    return own_indices, own_values, record[start : start + setup.kept.size]


@helper
def begin_round(player: Any, vector: Any, at: int, record: Floats) -> Decision:
    """Copy the row to the record, write the learner's own distribution at it, and count the round."""
    learner, state, plan, setup = player
    indices, values, squared = vector
    setup.watch.open_round(setup.watched, at, setup.now[0])
    bias, size = setup.bias, setup.bias + indices.size
    own_indices, own_values, kept = write_row(setup, indices, values, record)
    record[turns.SQUARED] = setup.normalization.take(setup.scales, own_indices, own_values, 0, size, bias, squared)
    x = Row(own_indices, own_values, 0, size, record[turns.SQUARED], setup.lanes)
    decision = decide(learner, state, plan, x, setup, kept, at)
    learner.count_round(state, plan, decision.greedy)
    N = setup.probabilities.size
    learner.take_distribution(
        state, plan, x, record[HEAD : HEAD + N] if record[turns.FOLLOWS] > 0.0 else setup.probabilities, kept
    )
    record[turns.RATE] = decision.rate
    for k in range(setup.scores.size):
        record[HEAD + N + k] = setup.scores[k]
    return decision


@helper
def end_decision(plan: Plan, setup: Setup, at: int, greedy: int, action: int, record: Floats) -> None:
    """Write down the action of round number `at`, which is played now."""
    N = setup.probabilities.size
    record[turns.ACTION] = action
    record[turns.GREEDY] = greedy
    probabilities, own = record[HEAD : HEAD + N], record[turns.own_start(record, N) : turns.row_start(record)]
    played = Played(at, probabilities, own, greedy, action)
    setup.watch.note_action(setup.watched, setup.watch_plan, plan.graph, played)
    record[turns.ROUND] = at
    record[turns.STATUS] = WAITING
    setup.played[0] = at + 1


@brief
def learn(player: Packed, record: Floats, label: int) -> None:
    """Play the second half of the round of a record, now or after others: the learner and the watch take in its
    feedback.
    """
    learn_record(unpacked(player), record, label)


@helper
def learn_record(player: Any, record: Floats, label: int) -> None:
    """Play the second half of the round of a record."""
    learner, state, plan, setup = player
    N, K = plan.graph.visible.shape
    # The setup has room for the padding of today's classes; the record only for that of its own time.
    scores = setup.scores[:K]
    for k in range(K):
        scores[k] = record[HEAD + N + k]
    first = turns.kept_start(record, N)
    kept = record[first : first + int(record[turns.KEPT])]
    delay = setup.played[0] - 1 - int(record[turns.ROUND])
    greedy, action = int(record[turns.GREEDY]), int(record[turns.ACTION])
    played = Round(scores, record[HEAD : HEAD + N], greedy, action, label, kept, delay)
    start, size = turns.row_start(record), int(record[turns.ENTRIES])
    own_values, own_indices = record[start : start + size], record[start + size :].view(np.int32)
    x = Row(own_indices, own_values, 0, size, record[turns.SQUARED], setup.lanes)
    learner.recall(state, x, played)
    learner.update(state, plan, x, played)
    for k in range(K):
        record[HEAD + N + k] = scores[k]
    if record[turns.STATUS] == WAITING:
        own = record[turns.own_start(record, N) : start]
        noted = Played(int(record[turns.ROUND]), played.probabilities, own, played.greedy, played.action)
        setup.watch.note_feedback(setup.watched, setup.watch_plan, plan.graph, noted, label)
        record[turns.STATUS] = LEARNED


def repeat(
    player: Packed, rows: Any, draws: Floats, at: int, ends: NDArray[np.int64], records: Floats, log: Logged
) -> int:
    """Play halves of rounds again as they are in a log; return how many decisions come out differently now.

    The arguments are those of :func:`act_rows`, but that `records` has those of earlier rounds at its end. The action
    and the probabilities of each decision are those of the log, whatever comes out.
    """
    parts = unpacked(player)
    setup, changed = parts[3], 0
    for i in range(log.steps.shape[0]):
        t, label = log.steps[i, 0], log.steps[i, 1]
        record = records[ends[t] : ends[t + 1]]
        if label != DECISION:
            learn_record(parts, record, label)
            continue
        first, last = rows.indptr[t], rows.indptr[t + 1]
        setup.now[0] = log.times[t]
        vector = (rows.indices[first:last], rows.values[first:last], rows.squared[t])
        draw_action(parts, vector, draws[t], at + t, record)
        differs = record[turns.ACTION] != log.decisions[t, 0]
        record[turns.ACTION] = log.decisions[t, 0]
        for n in range(setup.probabilities.size):
            differs |= record[HEAD + n] != log.decisions[t, 1 + n]
            record[HEAD + n] = log.decisions[t, 1 + n]
        changed += differs
    return changed


# ------------------------------------------------------------------------------------- predict, nothing is changed


def scale_rows(player: Packed, rows: Rows) -> None:
    """Scale every row, and measure it; nothing is remembered of them."""
    _, _, _, setup = unpacked(player)
    for t in range(rows.labels.size):
        rows.squared[t] = scale_row(setup, rows.indices, rows.values, rows.indptr[t], rows.indptr[t + 1])


@helper
def scale_row(setup: Setup, indices: NDArray[np.int32], values: Floats, first: int, last: int) -> float:
    """Scale the row from first to last as :func:`scale_rows` does, and return ||x||^2."""
    setup.normalization.apply(setup.scales, indices, values, first + setup.bias, last)
    return squared_size(values, first, last)


@brief
def predict(player: Packed, indices: NDArray[np.int32], values: Floats, record: Floats, chances: Floats) -> int:
    """Return y* at one row, and fill `chances`, unless it is empty, with the probabilities of the labels.

    :param record: room for the row and for what the learner keeps of it, as for :func:`act`.
    """
    learner, state, plan, setup = unpacked(player)
    own_indices, own_values, kept = write_row(setup, indices, values, record)
    size = setup.bias + indices.size
    squared = scale_row(setup, own_indices, own_values, 0, size)
    score(learner, state, plan, Row(own_indices, own_values, 0, size, squared, setup.lanes), kept, setup.scores)
    if chances.size > 0:
        learner.label_probabilities(state, setup.scores, chances)
    return learner.choice(state, plan, setup.scores)


@helper
def score_row(player: Any, rows: Rows, t: int) -> Row:
    """Write the scores of scaled row t, and return it; changes nothing else."""
    learner, state, plan, setup = player
    x = row_at(rows, t, setup.lanes)
    give_scores(rows, t, setup.kept)
    score(learner, state, plan, x, setup.kept, setup.scores)
    return x


def write_scores(player: Packed, rows: Rows, out: Floats) -> None:
    """Write the scores of every scaled row; changes nothing else."""
    parts = unpacked(player)
    setup = parts[3]
    for t in range(out.shape[0]):
        score_row(parts, rows, t)
        for k in range(out.shape[1]):
            out[t, k] = setup.scores[k]


def write_greedy(player: Packed, rows: Rows, out: NDArray[np.int64]) -> None:
    """Write y* of every scaled row, in the only column; changes nothing else."""
    parts = unpacked(player)
    learner, state, plan, setup = parts
    for t in range(out.shape[0]):
        score_row(parts, rows, t)
        out[t, 0] = learner.choice(state, plan, setup.scores)


def write_label_probabilities(player: Packed, rows: Rows, out: Floats) -> None:
    """Write the probabilities of the labels of every scaled row, as the learner estimates them."""
    parts = unpacked(player)
    learner, state, _, setup = parts
    for t in range(out.shape[0]):
        score_row(parts, rows, t)
        learner.label_probabilities(state, setup.scores, out[t])


def write_probabilities(player: Packed, rows: Rows, out: Floats) -> None:
    """Write the distribution over the actions that each scaled row would meet if it came next; changes nothing else."""
    learner, state, plan, setup = unpacked(player)
    for t in range(out.shape[0]):
        give_scores(rows, t, setup.kept)
        decide(learner, state, plan, row_at(rows, t, setup.lanes), setup, setup.kept, setup.played[0])
        for i in range(out.shape[1]):
            out[t, i] = setup.probabilities[i]
