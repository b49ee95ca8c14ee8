"""What a player writes down of its rounds, so that its error can be estimated from the labels that were seen.

:class:`Watch` is a part of the compiled round. It keeps sums and the wealths of betting processes, from which
:class:`gappletron.Monitor` makes estimates with intervals. The docs, page Monitoring, have the formulas and the proofs;
the letters here are those of that page.

A round with the distribution p, the action a, the label y and the greedy class g has *values*: the policy's mistake
1[a != y] and cost C[a, y], the greedy class's mistake 1[g != y] and cost C[g, y]. Where a hides y, a value is known to
lie between m_a and M_a, its extremes over the labels that a hides. The hidden excess D = v - m_a is bounded below by
bets on X = 1[seen] Q(y) / P(y), and the hidden saving M_a - v likewise, which bounds the excess above. In rounds that
reveal every label with a propensity that is not too small there are also bets on D, against X.

Rounds belong to blocks of an eighth of the window, by their numbers. The last eight blocks are kept apart, and older
ones are added up in a ninth: a window is the first eight slots, everything is all nine.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph, GraphArrays
from gappletron.kernel.pieces import Piece, compiled, helper, seldom
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.play import confidence
from gappletron.play.confidence import BETS, DUE_UNIT, LITTLE, MUCH, Bets
from gappletron.play.monitor_values import (
    Played,
    find_value,
    largest_x,
    predicted_share,
    range_at,
    value_at,
    weigh_hidden,
)

# The slots: 0 to 7 for the blocks of a window, by the number of the block, and one for all rounds before the window.
BLOCKS, OLDER, SLOTS = 8, 8, 9

# The quantities. Each has two processes: 2 q for the hidden excess, 2 q + 1 for the hidden saving.
POLICY_ERROR, GREEDY_ERROR, POLICY_COST, GREEDY_COST = range(4)
# The sums of a quantity: of what is known at least and at most, of X, and of the values in rounds whose label was seen.
KNOWN_LOW, KNOWN_HIGH, HIDDEN, AMONG_SEEN = range(4)
# The counts of a block.
DECIDED, JUDGED, SEEN, EXPLORED = range(4)
# Where a watch is: the present block, its first block, its first round.
BLOCK, FIRST_BLOCK, SINCE = range(3)

# Whose predictions a class's numbers are about. Each has two values, of labels that were missed and that were hit, and
# each value has two processes: 2 v for what is hidden of it at least, and 2 v + 1 for at most.
POLICY, GREEDY = range(2)
MISSES, HITS = range(2)
# The sums of a class and a predictor: how often it was predicted; labels of the class that were seen and missed, or
# hit; the sums of X of either; predictions of the class whose label was seen.
PREDICTED, MISSED, HIT, MISSED_HIDDEN, HIT_HIDDEN, SEEN_PREDICTED = range(6)

UNIT = 4294967296.0  # what may be hidden in rounds that wait is counted in units of 2^-32, rounded up: exactly

# A curve: the most points, of which every second one is dropped then, and the rounds between two points of a short one.
# A point has the round, its time, the value, low, high and naive of the policy's and of the greedy class's error, the
# labels seen and the rounds explored.
POINTS, FIRST_STRIDE, COLUMNS = 256, 20, 12

# What the alarm remembers: the window with the lowest upper bound, the last window, and since when it is on.
BEST_LOW, BEST_HIGH, BEST_END, LAST_LOW, LAST_HIGH, LAST_END, ALARM_SINCE = range(7)


class WatchPlan(NamedTuple):
    """What a watch derives from a graph alone: the largest difference of costs of one action at two labels that it
    hides, and at any two labels (d for the policy, and for what does not depend on the action that is played); for
    each action whether it shows any label; and for each label whether every action reveals it, so that no bet is on it.
    """

    own_scale: float
    scale: float
    shows: NDArray[np.bool_]
    sure: NDArray[np.bool_]


class Watching(Piece, abstract=True):
    """The family of what is written down of every round; by default nothing."""

    def declare(self) -> Layout:
        """Return what is remembered; nothing by default."""
        return {}

    def plan(self, graph: FeedbackGraph) -> Any:
        """Return what the methods below need to know of a graph."""
        return ()

    def check_state(self, saved: Mapping[str, NDArray[Any]], rounds: int) -> None:
        """Refuse a saved state with numbers that compiled code would take for places in arrays, where they are none."""

    @compiled
    def open_round(self, watched: Any, at: int, now: float) -> None:
        """End a block, and draw a point of the curve, where it is time before round number `at`."""

    @compiled
    def note_action(self, watched: Any, plan: Any, graph: GraphArrays, played: Played) -> None:
        """Note the action of a round whose feedback comes later; judge the round if the action reveals nothing."""

    @compiled
    def note_feedback(self, watched: Any, plan: Any, graph: GraphArrays, played: Played, label: int) -> None:
        """Note the feedback of a round: its label, or -1 where the action hid it."""

    @compiled
    def note_round(self, watched: Any, plan: Any, graph: GraphArrays, played: Played, label: int) -> None:
        """Note the action and the feedback of a round at once."""


class NoWatch(Watching):
    """Nothing is written down.

    >>> NoWatch()
    NoWatch()
    """


class Watch(Watching):
    """Writes down, in every round, what :class:`gappletron.Monitor` needs.

    :param window: the rounds of the sliding window, a multiple of 8.
    :param alpha: of the curve and of the drift alarm; a report is made for any other.

    >>> Watch(window=4000)
    Watch(window=4000, alpha=0.05)
    """

    window: int = 10_000
    alpha: float = 0.05

    def check(self) -> None:
        whole(self.window, "Watch's window", least=BLOCKS)
        if self.window % BLOCKS:
            raise UserError(f"Watch's window is {self.window}, and it has 8 blocks of one length: give a multiple of 8")
        number(self.alpha, "Watch's alpha", above=0.0, most=0.5)

    def declare(self) -> Layout:
        """Return the state; its axes are explained by the constants of this module."""
        whole_numbers: dict[str, Any] = {"dtype": np.int64, "least": 0}
        return {
            "place": Field(3, dtype=np.int64, fill=-1, least=-1),
            "wealth": Field(SLOTS, 8, BETS, fill=1.0, least=1.0),
            "logs": Field(SLOTS, 8, BETS, least=0.0),
            "losses": Field(SLOTS, 4, BETS, fill=1.0, above=0.0),
            "loss_logs": Field(SLOTS, 4, BETS),
            "opened": Field(SLOTS, 4, BETS + 1, least=0.0),
            "due": Field(SLOTS, BETS + 1, **whole_numbers),
            "sums": Field(SLOTS, 4, 4, least=0.0),
            "scales": Field(SLOTS, 2, 2, least=0.0),
            "counts": Field(SLOTS, 4, **whole_numbers),
            "waiting": Field(SLOTS, 4, **whole_numbers),
            "costly": Field(1, **whole_numbers),
            "actions": Field("actions", **whole_numbers),
            "class_wealth": Field("classes", 2, 4, BETS, fill=1.0, least=1.0),
            "class_logs": Field("classes", 2, 4, BETS, least=0.0),
            "class_losses": Field("classes", 2, 2, BETS, fill=1.0, above=0.0),
            "class_loss_logs": Field("classes", 2, 2, BETS),
            "class_opened": Field("classes", 2, 2, BETS + 1, least=0.0),
            "class_sums": Field("classes", 2, 6, least=0.0),
            "class_waiting": Field("classes", 2, 2, **whole_numbers),
            "curve": Field(POINTS, COLUMNS),
            "drawn": Field(2, **whole_numbers),
            "earlier": Field(BLOCKS, 3, fill=2.0),
            "alarm": Field(7, fill=-1.0),
            "hiding": Scratch("classes"),
            "expected": Scratch("classes"),
            "total": Scratch(BETS),
            "lost": Scratch(BETS),
            "outside": Scratch(BETS),
        }

    def check_state(self, saved: Mapping[str, NDArray[Any]], rounds: int) -> None:
        block, first, since = saved["place"].tolist()
        points, halvings = saved["drawn"].tolist()
        size, begun = self.window // BLOCKS, block >= 0
        fits = begun and since < rounds and first == since // size and block == (rounds - 1) // size
        if (begun and not fits) or (not begun and max(first, since) >= 0) or points >= POINTS or halvings > 50:
            raise UserError("the watch does not fit the number of rounds: the file is damaged, load an older copy")

    def plan(self, graph: FeedbackGraph) -> WatchPlan:
        scale = own_scale = 1.0
        if graph.has_costs:
            hidden = np.ma.masked_array(graph.costs, graph.visible)
            own_scale = float((hidden.max(axis=1) - hidden.min(axis=1)).filled(0.0).max())
            scale = float((graph.costs.max(axis=1) - graph.costs.min(axis=1)).max())
        shows, sure = (np.ascontiguousarray(each) for each in (graph.visible.any(axis=1), graph.visible.all(axis=0)))
        shows.flags.writeable = sure.flags.writeable = False
        return WatchPlan(own_scale, scale, shows, sure)

    def open_round(self, watched: Any, at: int, now: float) -> None:
        block = at // (self.window // BLOCKS)
        if block != watched.place[BLOCK]:
            if watched.place[BLOCK] < 0:
                watched.place[FIRST_BLOCK] = block
                watched.place[SINCE] = at
            else:
                end_block(watched, at, self.alpha)
            watched.place[BLOCK] = block
        stride = FIRST_STRIDE << watched.drawn[1]
        if at % stride == 0 and at > watched.place[SINCE]:
            draw_point(watched, at, now, self.alpha)

    def note_action(self, watched: Any, plan: Any, graph: GraphArrays, played: Played) -> None:
        count_action(watched, plan, graph, played)
        slot = find_slot(watched, self.window, played.at)
        if plan.shows[played.action]:
            wait(watched, plan, graph, slot, played, 1)
        else:
            judge(watched, plan, graph, slot, played, -1)

    def note_feedback(self, watched: Any, plan: Any, graph: GraphArrays, played: Played, label: int) -> None:
        at, action, since = played.at, played.action, watched.place[SINCE]
        seen = label >= 0 and graph.visible[action, label]
        if since < 0 or at < since or not plan.shows[action]:
            return  # of before the watch, or judged when the action was played
        if graph.revealing[action] and not seen:
            return  # the label is of a class that was added since: it is none of the round's
        slot = find_slot(watched, self.window, at)
        wait(watched, plan, graph, slot, played, -1)
        judge(watched, plan, graph, slot, played, label if seen else -1)

    def note_round(self, watched: Any, plan: Any, graph: GraphArrays, played: Played, label: int) -> None:
        count_action(watched, plan, graph, played)
        judge(watched, plan, graph, find_slot(watched, self.window, played.at), played, label)


def find_watch(given: Any) -> Watching:
    """Return the watch that an argument means: None and False are none, True is the default one.

    >>> find_watch(True), find_watch(None)
    (Watch(window=10000, alpha=0.05), NoWatch())
    """
    if given is None or given is False:
        return NoWatch()
    if given is True:
        return Watch()
    if not isinstance(given, Watching):
        raise UserError(f"{given!r} is not a watch: give True, None or Watch(window=10_000)")
    return given


# ------------------------------------------------------------------------------------------------------- the quantities


@helper
def find_slot(watched: Any, window: int, at: int) -> int:
    """Return the slot in which round number `at` is counted."""
    block = at // (window // BLOCKS)
    return block % BLOCKS if block > watched.place[BLOCK] - BLOCKS else OLDER


@helper
def quantity_bets(watched: Any, q: int) -> Bets:
    """Return the bets on a quantity."""
    logs, wealth = watched.logs[:, 2 * q : 2 * q + 2], watched.wealth[:, 2 * q : 2 * q + 2]
    return Bets(logs, wealth, watched.loss_logs[:, q], watched.losses[:, q], watched.opened[:, q])


@helper
def class_bets(watched: Any, k: int, who: int, value: int) -> Bets:
    """Return the bets on the labels of class k that were missed, or hit; all rounds are one slot."""
    logs = watched.class_logs[k : k + 1, who, 2 * value : 2 * value + 2]
    wealth = watched.class_wealth[k : k + 1, who, 2 * value : 2 * value + 2]
    loss_logs, losses = watched.class_loss_logs[k : k + 1, who, value], watched.class_losses[k : k + 1, who, value]
    return Bets(logs, wealth, loss_logs, losses, watched.class_opened[k : k + 1, who, value])


@helper
def count_action(watched: Any, plan: Any, graph: GraphArrays, played: Played) -> None:
    """Count the decision of the present round; from the first graph with costs on, costs are kept apart."""
    if graph.has_costs and watched.costly[0] == 0:
        begin_costs(watched)
    slot = watched.place[BLOCK] % BLOCKS
    watched.counts[slot, DECIDED] += 1
    watched.counts[slot, EXPLORED] += played.action != played.greedy
    watched.actions[played.action] += 1
    if watched.costly[0] > 0:
        for who in range(2):
            note_scale(watched.scales[slot, who], find_scale(plan, graph, played.own, who == POLICY, True))


@helper
def find_scale(plan: Any, graph: GraphArrays, own: Floats, is_policy: bool, by_cost: bool) -> float:
    """Return d: no two values of a round that look the same from the action played differ by more."""
    if not by_cost or not graph.has_costs:
        return 1.0
    return plan.own_scale if is_policy and own.size == 0 else plan.scale


@helper
def note_scale(scales: Floats, scale: float) -> None:
    """Keep the least and the largest d of the rounds that have one."""
    if scale > 0.0:
        scales[0] = min(scales[0], scale) if scales[0] > 0.0 else scale
        scales[1] = max(scales[1], scale)


@seldom
def begin_costs(watched: Any) -> None:
    """Begin to keep costs apart. So far a cost was a mistake: what is known of one is known of the other."""
    watched.costly[0] = 1
    for array in (watched.wealth, watched.logs, watched.losses, watched.loss_logs, watched.opened, watched.sums):
        half = array.shape[1] // 2
        for slot in range(SLOTS):
            for q in range(half):
                for j in range(array.shape[2]):
                    array[slot, half + q, j] = array[slot, q, j]
    for slot in range(SLOTS):
        for who in range(2):
            watched.waiting[slot, POLICY_COST + who] = watched.waiting[slot, who]
            if watched.counts[slot, DECIDED] > 0:
                note_scale(watched.scales[slot, who], 1.0)


@seldom
def wait(watched: Any, plan: Any, graph: GraphArrays, slot: int, played: Played, sign: int) -> None:
    """Add to what may be hidden, or lost, in rounds that wait for feedback; or (sign -1) take it away."""
    action, largest = played.action, largest_x(graph, played.probabilities)
    first = confidence.first_stake(largest)
    if first < BETS:
        watched.due[slot, first] += sign * math.ceil(largest * DUE_UNIT)
    if graph.revealing[action]:
        return
    for q in range(4 if watched.costly[0] > 0 else 2):
        value = find_value(graph, q % 2 == 0, q >= POLICY_COST and graph.has_costs, played, watched.expected)
        low, high = range_at(graph, value, action, played.greedy)
        if high > low:
            scale = find_scale(plan, graph, played.own, q % 2 == 0, q >= POLICY_COST)
            watched.waiting[slot, q] += sign * math.ceil((high - low) / scale * UNIT)
    for k in range(graph.visible.shape[1]):
        if not graph.visible[action, k]:
            for who in range(2):
                share = predicted_share(k, played, who == GREEDY)
                watched.class_waiting[k, who, MISSES] += sign * math.ceil(max(0.0, 1.0 - share) * UNIT)
                watched.class_waiting[k, who, HITS] += sign * math.ceil(share * UNIT)


@seldom
def judge(watched: Any, plan: Any, graph: GraphArrays, slot: int, played: Played, label: int) -> None:
    """Take in what is known of a round: its label, or -1, that the action hid it. The bets on the hidden excess itself
    are from the first stake on.
    """
    watched.counts[slot, JUDGED] += 1
    watched.counts[slot, SEEN] += label >= 0
    is_sure = label >= 0 and plan.sure[label]
    first = BETS if is_sure else confidence.first_stake(largest_x(graph, played.probabilities))
    for q in range(4 if watched.costly[0] > 0 else 2):
        value = find_value(graph, q % 2 == 0, q >= POLICY_COST and graph.has_costs, played, watched.expected)
        sums, wealth, logs = watched.sums[slot, q], watched.wealth[slot], watched.logs[slot]
        scale = find_scale(plan, graph, played.own, value.is_policy, value.by_cost)
        if label < 0:
            low, high = range_at(graph, value, played.action, played.greedy)
            sums[KNOWN_LOW] += low
            sums[KNOWN_HIGH] += high
            if high > low:
                watched.opened[slot, q, first] += (high - low) / scale
        else:
            known = value_at(graph, value, played.action, played.greedy, label)
            sums[KNOWN_LOW] += known
            sums[KNOWN_HIGH] += known
            sums[AMONG_SEEN] += known
            if is_sure:
                continue
            excess, saving = weigh_hidden(graph, value, played, label)
            if excess > 0.0:
                sums[HIDDEN] += excess
                confidence.bet(wealth[2 * q + MUCH], logs[2 * q + MUCH], excess / scale)
                confidence.lose(watched.losses[slot, q], watched.loss_logs[slot, q], excess / scale, first)
            confidence.bet(wealth[2 * q + LITTLE], logs[2 * q + LITTLE], saving / scale)
    judge_classes(watched, graph, first, played, label)
    if label >= 0 and not is_sure:
        bet_on_classes(watched, graph, first, played, label)


@helper
def judge_classes(watched: Any, graph: GraphArrays, first: int, played: Played, label: int) -> None:
    """Take in the values 1[y = k, missed] and 1[y = k, hit] of every class k likewise. Their least values are 0."""
    sums, K, seen = watched.class_sums, graph.visible.shape[1], 1.0 * (label >= 0)
    count_prediction(sums[played.greedy, GREEDY], 1.0, seen)
    if played.own.size > 0:
        for k in range(K):
            count_prediction(sums[k, POLICY], played.own[k], seen)
    elif played.action < K:
        count_prediction(sums[played.action, POLICY], 1.0, seen)
    if label >= 0:
        for who in range(2):
            share = predicted_share(label, played, who == GREEDY)
            sums[label, who, MISSED] += max(0.0, 1.0 - share)
            sums[label, who, HIT] += share
    else:
        for k in range(K):
            if not graph.visible[played.action, k]:
                for who in range(2):
                    share = predicted_share(k, played, who == GREEDY)
                    if share < 1.0:
                        watched.class_opened[k, who, MISSES, first] += 1.0 - share
                    if share > 0.0:
                        watched.class_opened[k, who, HITS, first] += share


@helper
def count_prediction(sums: Floats, share: float, seen: float) -> None:
    """Count a prediction of a class, and whether its label was seen."""
    sums[PREDICTED] += share
    sums[SEEN_PREDICTED] += share * seen


@helper
def bet_on_classes(watched: Any, graph: GraphArrays, first: int, played: Played, label: int) -> None:
    """Bet in a round whose label was seen: on hidden labels of its class, and against those of the others."""
    probabilities = played.probabilities
    propensity = weigh_hiding(watched, graph, probabilities, label)
    if watched.hiding[label] <= 0.0:
        return
    for k in range(graph.visible.shape[1]):
        hiding = watched.hiding[k] / propensity
        if hiding > 0.0:
            for who in range(2):
                if who == POLICY and played.own.size == 0:
                    # Of the actions that hide the label and k, only k itself would hit.
                    hides = not graph.visible[k, k] and not graph.visible[k, label]
                    hit = min(hiding, probabilities[k] / propensity) if hides else 0.0
                else:
                    hit = hiding * predicted_share(k, played, who == GREEDY)
                for value in (MISSES, HITS):
                    x = hit if value == HITS else max(0.0, hiding - hit)
                    if x <= 0.0:
                        continue  # nothing would change
                    process = 2 * value + (MUCH if k == label else LITTLE)
                    confidence.bet(watched.class_wealth[k, who, process], watched.class_logs[k, who, process], x)
                    if k == label:
                        watched.class_sums[k, who, MISSED_HIDDEN + value] += x
                        confidence.lose(
                            watched.class_losses[k, who, value], watched.class_loss_logs[k, who, value], x, first
                        )


@helper
def weigh_hiding(watched: Any, graph: GraphArrays, probabilities: Floats, label: int) -> float:
    """Return the propensity of the label; fill `watched.hiding`, for every class k, with the probability of an action
    that hides both the label and k.
    """
    hiding, propensity = watched.hiding, 0.0
    K = graph.visible.shape[1]
    for k in range(K):
        hiding[k] = 0.0
    for i in range(probabilities.size):
        p = probabilities[i]
        if graph.observers[label, i]:
            propensity += p
        elif p > 0.0:
            for k in range(K):
                hiding[k] += p * (1.0 - graph.visible[i, k])
    return propensity


# ------------------------------------------------------------------------------------------------------- bounds on sums


@helper
def sum_slots(watched: Any, q: int, which: int, slots: int) -> float:
    """Return one of the sums of a quantity over the first slots."""
    total = 0.0
    for slot in range(slots):
        total += watched.sums[slot, q, which]
    return total


@helper
def bound_class_total(watched: Any, k: int, who: int, value: int, level: float) -> tuple[float, float]:
    """Return how many labels of class k were missed, or hit, in the judged rounds, at least and at most."""
    known = watched.class_sums[k, who, MISSED + value]
    bets, waiting = class_bets(watched, k, who, value), watched.class_waiting[k, who, value] / UNIT
    low = known + max(0.0, confidence.hidden_at_least(bets, 1, level, watched) - waiting)
    high = known + confidence.hidden_at_most(
        bets, 1, watched.due, confidence.sum_opened(bets, 1), waiting, level, watched
    )
    return min(low, high), high


@helper
def bound_scale(watched: Any, q: int, slots: int) -> tuple[float, float]:
    """Return the least and the largest d of a quantity over the first slots; 1 for mistakes, or where there is none."""
    if q < POLICY_COST:
        return 1.0, 1.0
    least, most = math.inf, 0.0
    for slot in range(slots):
        if watched.scales[slot, q % 2, 0] > 0.0:
            least = min(least, watched.scales[slot, q % 2, 0])
            most = max(most, watched.scales[slot, q % 2, 1])
    return (least, most) if most > 0.0 else (1.0, 1.0)


@helper
def bound_total(watched: Any, q: int, slots: int, level: float) -> tuple[float, float]:
    """Return two numbers between which the sum of a quantity over the judged rounds of the first slots lies."""
    known_low, known_high = sum_slots(watched, q, KNOWN_LOW, slots), sum_slots(watched, q, KNOWN_HIGH, slots)
    bets = quantity_bets(watched, q)
    opened = confidence.sum_opened(bets, slots)
    if opened == 0.0:
        return known_low, known_low  # nothing is hidden in rounds that were judged
    least_scale, most_scale = bound_scale(watched, q, slots)
    waiting = 0.0  # what may be hidden in rounds that wait
    for slot in range(slots):
        waiting += watched.waiting[slot, q] / UNIT
    low = known_low + max(
        0.0, confidence.hidden_at_least(bets, slots, level, watched) * least_scale - waiting * most_scale
    )
    hidden = confidence.hidden_at_most(bets, slots, watched.due[:slots], opened, waiting, level, watched)
    high = min(known_low + hidden * most_scale, known_high - (opened - hidden) * least_scale)
    high = max(high, known_low)
    return min(low, high), high


@helper
def estimate_total(watched: Any, q: int, slots: int, low: float, high: float) -> float:
    """Return the known part and the inversely weighted hidden part, within the bounds."""
    return min(high, max(low, sum_slots(watched, q, KNOWN_LOW, slots) + sum_slots(watched, q, HIDDEN, slots)))


# ------------------------------------------------------------------------------------ at the end of a block, and points


@seldom
def draw_point(watched: Any, at: int, now: float, alpha: float) -> None:
    """Add a point to the curve; where that makes it full, drop every second one."""
    fill_point(watched, watched.drawn[0], at, now, alpha)
    watched.drawn[0] += 1
    if watched.drawn[0] == POINTS:
        halve(watched)


@helper
def fill_point(watched: Any, point: int, at: int, now: float, alpha: float) -> None:
    """Write what is known before round `at` as a point of the curve; what is not known is -1."""
    judged, seen = watched.counts[:, JUDGED].sum(), watched.counts[:, SEEN].sum()
    watched.curve[point, 0] = at
    watched.curve[point, 1] = now
    for q in range(2):
        low, high = bound_total(watched, q, SLOTS, math.log(2.0 / alpha))
        value = estimate_total(watched, q, SLOTS, low, high)
        watched.curve[point, 2 + 4 * q] = value / judged if judged else -1.0
        watched.curve[point, 3 + 4 * q] = low / judged if judged else 0.0
        watched.curve[point, 4 + 4 * q] = high / judged if judged else 1.0
        watched.curve[point, 5 + 4 * q] = sum_slots(watched, q, AMONG_SEEN, SLOTS) / seen if seen else -1.0
    watched.curve[point, 10] = seen
    watched.curve[point, 11] = watched.counts[:, EXPLORED].sum()


@helper
def halve(watched: Any) -> None:
    """Keep the points whose rounds are multiples of twice the stride."""
    stride = 2 * (FIRST_STRIDE << watched.drawn[1])
    kept = 0
    for point in range(watched.drawn[0]):
        if watched.curve[point, 0] % stride == 0.0:
            for column in range(watched.curve.shape[1]):
                watched.curve[kept, column] = watched.curve[point, column]
            kept += 1
    watched.drawn[0] = kept
    watched.drawn[1] += 1


@seldom
def end_block(watched: Any, at: int, alpha: float) -> None:
    """Look for drift in the window that ends before round `at`, and make room for the next block."""
    last = watched.place[BLOCK]
    if last - watched.place[FIRST_BLOCK] >= BLOCKS - 1:
        look_for_drift(watched, at, alpha)
    slot = (last + 1) % BLOCKS
    for logs, wealth in ((watched.logs, watched.wealth), (watched.loss_logs, watched.losses)):
        for process in range(logs.shape[1]):
            for j in range(BETS):
                logs[OLDER, process, j] += logs[slot, process, j] + math.log(wealth[slot, process, j])
        logs[slot] = 0.0
        wealth[slot] = 1.0
    for sums in (watched.opened, watched.sums):
        for q in range(4):
            drain(sums[slot, q], sums[OLDER, q])
    for counts in (watched.waiting, watched.due, watched.counts):
        drain(counts[slot], counts[OLDER])
    for who in range(2):
        for i in range(2):
            note_scale(watched.scales[OLDER, who], watched.scales[slot, who, i])
            watched.scales[slot, who, i] = 0.0


@helper
def drain(source: Any, target: Any) -> None:
    """Move all that one array holds to another."""
    for i in range(source.size):
        target[i] += source[i]
        source[i] = 0


@helper
def share_alpha(alpha: float, start: int) -> float:
    """Return alpha / ((b + 1)(b + 2)) for the window that starts with block b of a watch: these add up to alpha."""
    return alpha / ((start + 1.0) * (start + 2.0))


@helper
def look_for_drift(watched: Any, at: int, alpha: float) -> None:
    """Compare the probability of an error of the greedy class in the last window, which ends before round `at`, with
    the best one of the windows that ended before it began.

    The bounds are on the mean of the conditional probabilities, not on what happened: labels that are drawn by chance
    differ from window to window though nothing has changed. All rounds of a window count, and those that wait may have
    been right or wrong. Of alpha, a quarter is for each of the bounds.
    """
    last = watched.place[BLOCK]
    start = last - (BLOCKS - 1) - watched.place[FIRST_BLOCK]
    level = math.log(4.0 / share_alpha(alpha, start))
    rounds = 1.0 * watched.counts[:BLOCKS, DECIDED].sum()
    unjudged = rounds - watched.counts[:BLOCKS, JUDGED].sum()
    hidden = confidence.hidden_at_least(quantity_bets(watched, GREEDY_ERROR), BLOCKS, level, watched)
    least = sum_slots(watched, GREEDY_ERROR, KNOWN_LOW, BLOCKS) + hidden
    most = bound_total(watched, GREEDY_ERROR, BLOCKS, level)[1] + unjudged
    low = confidence.bound_mean(min(least, rounds), rounds, level, 1.0)
    high = confidence.bound_mean(most, rounds, level, -1.0)

    earlier, alarm, slot = watched.earlier, watched.alarm, last % BLOCKS
    if earlier[slot, 1] < alarm[BEST_HIGH] or (alarm[BEST_HIGH] < 0.0 and earlier[slot, 1] <= 1.0):
        alarm[BEST_LOW], alarm[BEST_HIGH], alarm[BEST_END] = earlier[slot, 0], earlier[slot, 1], earlier[slot, 2]
    earlier[slot, 0], earlier[slot, 1], earlier[slot, 2] = low, high, at
    alarm[LAST_LOW], alarm[LAST_HIGH], alarm[LAST_END] = low, high, at
    if 0.0 <= alarm[BEST_HIGH] < low:
        if alarm[ALARM_SINCE] < 0.0:
            alarm[ALARM_SINCE] = at
    else:
        alarm[ALARM_SINCE] = -1.0
