"""The exploration that people use in practice: none, a fixed share of the rounds, or the first rounds."""

from __future__ import annotations

from typing import Any

from gappletron.graphs.graph import Plan
from gappletron.kernel.pieces import NotNegative, Share
from gappletron.kernel.state import Field, Layout
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rule import Exploration, mix_in_dominating


class Greedy(Exploration):
    """Always plays the greedy class, and so learns only from what its own predictions show.

    >>> Greedy()
    Greedy()
    """

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        mix_in_dominating(plan.graph, greedy, 0.0, out)
        return 0.0


class EpsilonGreedy(Exploration):
    """Plays the dominating set, uniformly, in a fixed share of the rounds; else the greedy class.

    On the bandit graph the dominating set is all classes; in filtering it is the class that reveals, in label efficient
    classification the query.

    >>> EpsilonGreedy()
    EpsilonGreedy(epsilon=0.05)
    """

    epsilon: Share = 0.05

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        share = 0.0 if plan.graph.revealing[greedy] else self.epsilon
        mix_in_dominating(plan.graph, greedy, share, out)
        return share


class BurnIn(Exploration):
    """Plays the dominating set, uniformly, in those of the first rounds whose greedy class does not reveal; then always
    the greedy class.

    >>> BurnIn(rounds=30)
    BurnIn(rounds=30.0)
    """

    rounds: NotNegative = 100.0

    def declare(self) -> Layout:
        return {"played": Field(dtype="int64", least=0)}

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        share = 1.0 if state.played[0] < self.rounds and not plan.graph.revealing[greedy] else 0.0
        mix_in_dominating(plan.graph, greedy, share, out)
        return share

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        state.played[0] += 1
