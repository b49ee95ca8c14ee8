"""What the linear learners share: W as it is, the hinge, the feedback they ask for, and single-column steps."""

from __future__ import annotations

from typing import Any

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import Row, argmax, dot, margin
from gappletron.kernel.pieces import helper
from gappletron.kernel.state import Field, Layout
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rule import mix_in_dominating
from gappletron.learners.learner import Decision, Learner


class Linear(Learner, abstract=True):
    """Learners whose state holds W in its field `weights`, with the multiclass hinge ``max(0, 1 - m(y))`` as surrogate
    loss.
    """

    def declare(self) -> Layout:
        return {"weights": Field("features", "classes")}

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        dot(state.weights, x, out)

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        return max(0.0, 1.0 - margin(scores, y))

    def weights(self, state: Any) -> Floats:
        return state.weights


class FullInformation(Linear, abstract=True):
    """Linear learners that predict the greedy class always, and must see the label whatever they predict."""

    setting = "full information"

    def refusal(self, graph: FeedbackGraph) -> str | None:
        return (
            None if graph.is_full_information else "needs full information, where predicting any class shows the label"
        )

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = argmax(scores)
        mix_in_dominating(plan.graph, greedy, 0.0, out)
        return Decision(greedy, 0.0)


class BanditFeedback(Linear, abstract=True):
    """Linear learners that look at one thing only, whether the action was the label.

    With two classes the closure turns the bandit graph into full information; the learners are the same on it.
    """

    setting = "bandit"
    teachable = False  # what they learn depends on whether the action drawn was the label

    def refusal(self, graph: FeedbackGraph) -> str | None:
        if graph.is_bandit:
            return None
        return "needs bandit feedback, where there are no extra actions and an action shows exactly its own class"


@helper
def explore_uniformly(greedy: int, rate: float, out: Floats) -> None:
    """p = (1 - rate) e_greedy + rate/N."""
    for i in range(out.size):
        out[i] = rate / out.size
    out[greedy] += 1.0 - rate


@helper
def add_column(weights: Floats, x: Row, k: int, factor: float) -> None:
    """W^k += factor * x."""
    for p in range(x.start, x.stop):
        weights[x.indices[p], k] += factor * x.values[p]


@helper
def exchange(weights: Floats, x: Row, towards: int, away: int, step: float) -> None:
    """W += step (e_towards - e_away) (x) x."""
    for p in range(x.start, x.stop):
        j = x.indices[p]
        weights[j, towards] += step * x.values[p]
        weights[j, away] -= step * x.values[p]


def cube_root_rate(scale: float, rounds: int) -> float:
    """min(1/2, (scale / T)^(1/3))."""
    return min(0.5, (scale / rounds) ** (1.0 / 3.0))
