"""The values of a round: what the graph and the action tell of a mistake or a cost, before and after the label.

The letters are those of the docs, page Monitoring, as in :mod:`gappletron.play.monitor_state`.
"""

import math
from typing import Any, NamedTuple

from gappletron.kernel.numerics import least_propensity
from gappletron.kernel.pieces import helper
from gappletron.kernel.types import Floats


class Played(NamedTuple):
    """A round that was played: its number, the probabilities of the actions, the learner's own distribution where it
    follows another's decision (else empty), the greedy class, and the action.
    """

    at: int
    probabilities: Floats
    own: Floats
    greedy: int
    action: int


class Value(NamedTuple):
    """What a quantity means in a round: its value at a label y is the expected value at y of the learner's own
    distribution, or the cost of an action, or its mistake.
    """

    is_policy: bool
    by_expected: bool
    by_cost: bool
    expected: Floats


@helper
def find_value(graph: Any, is_policy: bool, by_cost: bool, played: Played, expected: Floats) -> Value:
    """Return what a quantity means in this round; `expected` is room for a number per class, the expected mistake or
    cost of the learner's own distribution at each label.
    """
    own = played.own
    by_expected = is_policy and own.size > 0
    if by_expected:
        for y in range(graph.visible.shape[1]):
            expected[y] = 0.0 if by_cost else max(0.0, 1.0 - own[y])
            if by_cost:
                for i in range(own.size):
                    expected[y] += own[i] * graph.costs[i, y]
    return Value(is_policy, by_expected, by_cost, expected)


@helper
def extremes(graph: Any, action: int, values: Floats) -> tuple[float, float]:
    """Return the least and the largest of these values over the labels that the action hides."""
    least, most = math.inf, -math.inf
    for y in range(graph.visible.shape[1]):
        if not graph.visible[action, y]:
            least = min(least, values[y])
            most = max(most, values[y])
    return least, most


@helper
def range_at(graph: Any, value: Value, action: int, greedy: int) -> tuple[float, float]:
    """Return (m_a, M_a) at the action a: the least and the largest value over the labels that it hides."""
    target = action if value.is_policy else greedy
    if value.by_expected:
        return extremes(graph, action, value.expected)
    if value.by_cost:
        return extremes(graph, action, graph.costs[target])
    surely = target >= graph.visible.shape[1] or graph.visible[action, target]
    return (1.0 if surely else 0.0), 1.0


@helper
def value_at(graph: Any, value: Value, action: int, greedy: int, y: int) -> float:
    """Return the value at the label y, where `action` is played."""
    target = action if value.is_policy else greedy
    if value.by_expected:
        return value.expected[y]
    if value.by_cost:
        return graph.costs[target, y]
    return 1.0 * (target != y)


@helper
def weigh_hidden(graph: Any, value: Value, played: Played, label: int) -> tuple[float, float]:
    """Return X of the excess and of the saving, in a round whose label was seen: what other actions would have hidden
    of it, over the propensity of the label.
    """
    propensity = excess = saving = 0.0
    for i in range(played.probabilities.size):
        p = played.probabilities[i]
        if graph.observers[label, i]:
            propensity += p
        elif p > 0.0:
            low, high = range_at(graph, value, i, played.greedy)
            at = value_at(graph, value, i, played.greedy, label)
            excess += p * (at - low)
            saving += p * (high - at)
    return excess / propensity, saving / propensity


@helper
def predicted_share(k: int, played: Played, is_greedy: bool) -> float:
    """Return how much of the round's prediction is class k: 0 or 1, but for the policy of one that follows another."""
    if is_greedy:
        return 1.0 * (played.greedy == k)
    return played.own[k] if played.own.size > 0 else 1.0 * (played.action == k)


@helper
def largest_x(graph: Any, probabilities: Floats) -> float:
    """Return a number r such that no X of a round is larger than d r: (1 - P) / P for the least propensity P."""
    least = least_propensity(graph, probabilities)
    return (1.0 - least) / least if least > 0.0 else math.inf
