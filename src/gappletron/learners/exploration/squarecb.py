"""Exploration by the decision-estimation program, for learners that estimate how likely each label is."""

from __future__ import annotations

import functools
import math
from typing import Any

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.pieces import NotNegative
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.barrier import work_space
from gappletron.learners.exploration.decision_estimation import Program, best_play, make_program
from gappletron.learners.exploration.rule import Exploration, Outlook


class SquareCB(Exploration):
    """SquareCB.G: plays what has the least regret against all labels that the estimates do not exclude.

    With the estimated costs c of the actions and ``gamma_t = scale * sqrt(t)`` in round t, it plays the p that makes ::

        max_a { sum_i p_i c_i - c_a + 1/gamma_t [ (1 - p_a)^2 / P_p(a) + sum_{k != a} p_k^2 / P_p(k) ] }

    least, where P_p(k) is the probability that p shows class k (Zhang, Zhang, Vrousgou, Luo, Mineiro 2023). On the
    bandit graph this is inverse gap weighting, ``p_a = 1 / (lambda + gamma_t (c_a - min c))``. A query has its known
    cost, and for other costs than 0 and 1 the squares are those of the costs (module decision_estimation).

    >>> SquareCB()
    SquareCB(scale=10.0)
    """

    scale: NotNegative = 10.0

    needs_estimates = True

    def declare(self) -> Layout:
        """The rounds so far; and for one round gamma_t times the costs, and room for solving the program."""
        return {"rounds": Field(dtype="int64", least=0), "gaps": Scratch("actions"), "work": work_space()}

    def table(self, graph: FeedbackGraph) -> Program:
        return program_on(graph)

    def appraise(self, state: Any, plan: Plan, outlook: Outlook, estimates: Floats, sharpness: float) -> None:
        program, gaps = plan.table, state.gaps
        least = math.inf
        for i in range(gaps.size):
            gaps[i] = program.worst[i]
        for k in range(estimates.size):
            q = min(1.0, max(0.0, estimates[k]))
            for i in range(gaps.size):
                gaps[i] -= program.saved[k, i] * q
        for i in range(gaps.size):
            least = min(least, gaps[i])
        gamma = self.scale * math.sqrt(state.rounds[0] + 1.0)
        for i in range(gaps.size):
            gaps[i] = gamma * (gaps[i] - least)

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        best_play(plan.table, state.gaps, state.work, out)
        return 1.0 - out[greedy]

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        state.rounds[0] += 1


@functools.lru_cache(maxsize=32)
def program_on(graph: FeedbackGraph) -> Program:
    """Return what :class:`SquareCB` needs to know of a graph."""
    return make_program(graph.visible, graph.costs)
