"""Exploration for learners that estimate how likely each label is: the closer two classes, the more often."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.graphs.graph import FeedbackGraph, GraphArrays, Plan
from gappletron.kernel.pieces import NotNegative, helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rule import Exploration, Outlook

# In units of the cost of the worst class: an action that explores is never taken for cheaper, and every action costs at
# least this much in expectation.
LEAST_PRICE, LEAST_COST = 0.05, 1e-12


class InverseGap(Exploration):
    """Explores with a probability that falls with the squared gap between the greedy class and the others.

    Let q be the learner's estimates, y* the greedy class, ``d_k = q_{y*} - q_k`` the gap of class k, and e_i by how
    much action i is expected to cost more than y*: ``e_k = d_k`` for a class and ``e_i = q_{y*}`` for a query. Let V in
    (0, 1] be the optimizer's uncertainty at x between y* and the closest class, and n the number of rounds with
    feedback so far. An action i of the dominating set S is played with probability ::

        1/rho max_k V / (V + scale * n/K * d_k^2 * max(0.05, e_i))

    where k runs over the classes that i shows and y* does not; for y* itself, which not every graph shows where it is
    played, d_k is that of the closest class. The rest is played as y*. So it explores where classes are close together
    (d), where the features are new (V), where exploring is cheap (e), and as long as there are few labels per class.
    Nothing is explored where y* reveals. Where an action that is not a class, such as a query, is expected to cost less
    than y*, it is played in place of y*.

    With costs, let ``c_i = sum_y C[i, y] q_y`` for the probabilities ``q = softmax(b s)``. Then ``d_k = ln(c_k /
    c_{y*}) / (2b)``, how far the scores are from where the two classes would cost the same, and ``e_i = (c_i - c_{y*})
    / max_k c_k``.

    A heuristic without a theorem; the docs, page Default, have the evidence.

    >>> InverseGap()
    InverseGap(scale=2.4)
    """

    scale: NotNegative = 2.4

    needs_estimates = True

    def declare(self) -> Layout:
        """n; and for one round V, the gaps of the classes, and what the actions cost more than y*."""
        return {
            "informed": Field(dtype="int64", least=0),
            "doubt": Scratch(1),
            "gaps": Scratch("classes"),
            "prices": Scratch("actions"),
        }

    def table(self, graph: FeedbackGraph) -> Shown:
        return shown_by(graph)

    def appraise(self, state: Any, plan: Plan, outlook: Outlook, estimates: Floats, sharpness: float) -> None:
        graph, greedy = plan.graph, outlook.greedy
        if not graph.revealing[greedy]:
            if graph.has_costs:
                compare_costs(graph, estimates, sharpness, greedy, state.gaps, state.prices)
            else:
                compare_mistakes(estimates, greedy, state.gaps, state.prices)
            closest = closest_class(state.gaps, greedy)
            state.doubt[0] = outlook.optimizer.uncertainty(outlook.memory, outlook.x, greedy, closest)

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        graph = plan.graph
        for i in range(out.size):
            out[i] = 0.0
        explored = 0.0
        chosen = greedy
        if not graph.revealing[greedy]:
            chosen = cheapest(state.prices, greedy, state.gaps.size)
        if not graph.revealing[chosen]:
            rho = graph.dominating.size
            V, factor = state.doubt[0], self.scale * state.informed[0] / state.gaps.size
            for s in range(rho):
                i = graph.dominating[s]
                d = hidden_gap(plan, state.gaps, greedy, s) if i != chosen else -1.0
                if d >= 0.0:
                    out[i] = V / (V + factor * (d * d) * max(LEAST_PRICE, state.prices[i])) / rho
                    explored += out[i]
        out[chosen] = max(0.0, 1.0 - explored)
        return 1.0 - out[greedy]

    def count_feedback(self, state: Any, plan: Plan, action: int) -> None:
        if plan.table.something[action]:
            state.informed[0] += 1


class Shown(NamedTuple):
    """What actions show: classes ``first[s]`` to ``first[s + 1]`` are those of the dominating set's s-th member; and
    whether each action shows something.
    """

    first: NDArray[np.int64]
    classes: NDArray[np.int64]
    something: NDArray[np.bool_]


@functools.lru_cache(maxsize=32)
def shown_by(graph: FeedbackGraph) -> Shown:
    """What the actions of a graph show, once per graph."""
    rows = graph.visible[list(graph.dominating_indices)]
    first = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(np.int64)
    found = Shown(first, np.nonzero(rows)[1].astype(np.int64), np.asarray(graph.visible.any(axis=1)))
    for array in found:
        array.setflags(write=False)
    return found


@helper
def compare_mistakes(estimates: Floats, greedy: int, gaps: Floats, prices: Floats) -> None:
    """d_k and e_i where only mistakes count."""
    K = estimates.size
    for k in range(K):
        gaps[k] = abs(estimates[greedy] - estimates[k])
        prices[k] = gaps[k]
    for i in range(K, prices.size):
        prices[i] = estimates[greedy]


@helper
def compare_costs(
    graph: GraphArrays, estimates: Floats, sharpness: float, greedy: int, gaps: Floats, prices: Floats
) -> None:
    """d_k and e_i where actions have costs."""
    K = estimates.size
    worst = 0.0
    for i in range(prices.size):
        prices[i] = 0.0
        for y in range(K):
            prices[i] += graph.costs[i, y] * estimates[y]
        if i < K:
            worst = max(worst, prices[i])
    if worst == 0.0:
        worst = 1.0  # no class costs anything
    base = prices[greedy] / worst
    for k in range(K):
        # No cost is taken for 0, so that its logarithm is finite.
        gaps[k] = abs(math.log((prices[k] / worst + LEAST_COST) / (base + LEAST_COST))) / (2.0 * sharpness)
    for i in range(prices.size):
        prices[i] = prices[i] / worst - base


@helper
def cheapest(prices: Floats, greedy: int, classes: int) -> int:
    """The action of least expected cost among y* and those that are no classes; y* on a tie."""
    best = greedy
    for i in range(classes, prices.size):
        if prices[i] < prices[best]:
            best = i
    return best


@helper
def closest_class(gaps: Floats, greedy: int) -> int:
    """The class with the smallest gap other than the greedy one; the lowest index on a tie."""
    best = 1 if greedy == 0 else 0
    for k in range(best + 1, gaps.size):
        if k != greedy and gaps[k] < gaps[best]:
            best = k
    return best


@helper
def hidden_gap(plan: Plan, gaps: Floats, greedy: int, s: int) -> float:
    """The smallest gap of the classes that the dominating set's s-th member shows and y* does not; -1 without any."""
    smallest = -1.0
    for place in range(plan.table.first[s], plan.table.first[s + 1]):
        k = plan.table.classes[place]
        if not plan.graph.visible[greedy, k]:
            d = gaps[closest_class(gaps, greedy)] if k == greedy else gaps[k]
            if smallest < 0.0 or d < smallest:
                smallest = d
    return smallest
