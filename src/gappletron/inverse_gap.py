"""Exploration for learners that estimate how likely each label is: the closer two classes, the more often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gappletron._dispatch import helper
from gappletron._validate import number
from gappletron.exploration import Exploration
from gappletron.state import Field, Scratch

if TYPE_CHECKING:
    from gappletron.graphs import GraphArrays, Plan
    from gappletron.numerics import Floats, Row
    from gappletron.state import Layout

__all__ = ["InverseGap"]

LEAST_PRICE = 0.05
"""An action that explores is never taken for cheaper than this, in units of the largest cost."""


class InverseGap(Exploration):
    """Explores with a probability that falls with the squared gap between the greedy class and the others.

    Let q be the learner's estimates, ``c_i = sum_y C[i, y] q_y / max C`` the expected cost of action i, y* the greedy
    class, V in (0, 1] the optimizer's uncertainty at x between y* and the next best class, and n the number of rounds
    with feedback so far. An action i of the dominating set S is played with probability ::

        1/rho max_k V / (V + scale * n/K * (c_k - c_{y*})^2 * max(0.05, c_i - c_{y*}))

    where k runs over the classes that i shows and y* does not; for y* itself, which not every graph shows where it is
    played, c_k is that of the next best class. The rest is played as y*. So it explores where classes
    are close together (the second factor), where the features are new (V), where exploring is cheap (the last factor),
    and as long as there are few labels per class. Nothing is explored where y* reveals.

    A heuristic without a theorem; the docs, page Default, have the evidence.

    >>> InverseGap()
    InverseGap(scale=2.4)
    """

    scale: float = 2.4

    needs_estimates = True
    has_gamma = False

    def check(self) -> None:
        number(self.scale, "InverseGap's scale", least=0.0)

    def declare(self) -> Layout:
        """n; and for one round V, and the expected costs of the actions."""
        return {"informed": Field(dtype="int64", least=0), "doubt": Scratch(1), "prices": Scratch("actions")}

    def appraise(
        self, state: Any, plan: Plan, optimizer: Any, memory: Any, x: Row, estimates: Floats, greedy: int
    ) -> None:
        if not plan.graph.revealing[greedy]:
            expected_costs(plan.graph, estimates, state.prices)
            state.doubt[0] = optimizer.uncertainty(memory, x, greedy, runner_up(state.prices, greedy, estimates.size))

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        graph = plan.graph
        for i in range(out.size):
            out[i] = 0.0
        explored = 0.0
        if not graph.revealing[greedy]:
            rho, K = graph.dominating.size, graph.visible.shape[1]
            factor = self.scale * state.informed[0] / K
            second = runner_up(state.prices, greedy, K)
            for s in range(rho):
                i = graph.dominating[s]
                if i != greedy:
                    out[i] = most_contested(graph, state.prices, greedy, second, i, state.doubt[0], factor) / rho
                    explored += out[i]
        out[greedy] = max(0.0, 1.0 - explored)
        return explored

    def count_feedback(self, state: Any, plan: Plan, action: int) -> None:
        for k in range(plan.graph.visible.shape[1]):
            if plan.graph.visible[action, k]:
                state.informed[0] += 1
                return


@helper
def expected_costs(graph: GraphArrays, estimates: Floats, out: Floats) -> None:
    """The expected cost of every action, up to a constant that all share, in units of the largest cost."""
    K = estimates.size
    for i in range(out.size):
        out[i] = 0.0
    if graph.largest_cost > 0.0:
        for i in range(out.size):
            for y in range(K):
                out[i] += graph.costs[i, y] * estimates[y]
            out[i] /= graph.largest_cost
    else:
        # sum_{y != i} q_y for a class and sum_y q_y for another action, both without sum_y q_y
        for k in range(K):
            out[k] = -estimates[k]


@helper
def runner_up(prices: Floats, greedy: int, classes: int) -> int:
    """The cheapest class other than the greedy one; the lowest index on a tie."""
    best = 1 if greedy == 0 else 0
    for k in range(best + 1, classes):
        if k != greedy and prices[k] < prices[best]:
            best = k
    return best


@helper
def most_contested(
    graph: GraphArrays, prices: Floats, greedy: int, second: int, i: int, V: float, factor: float
) -> float:
    """max_k V / (V + factor (c_k - c_{y*})^2 (c_i - c_{y*})) over the classes that i shows and y* does not; `second` is
    the class that y* is compared with.
    """
    closest = -1.0
    for k in range(graph.visible.shape[1]):
        if graph.visible[i, k] and not graph.visible[greedy, k]:
            gap = abs(prices[second if k == greedy else k] - prices[greedy])
            if closest < 0.0 or gap < closest:
                closest = gap
    if closest < 0.0:
        return 0.0
    return V / (V + factor * (closest * closest) * max(LEAST_PRICE, prices[i] - prices[greedy]))
