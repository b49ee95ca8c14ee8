"""Banditron of Kakade, Shalev-Shwartz and Tewari (2008), and its importance-weighted form for any graph."""

from __future__ import annotations

from typing import Any

from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import Row, argmax, margin
from gappletron.kernel.pieces import Share
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rule import mix_in_dominating
from gappletron.learners.learner import Decision, Learner, Problem, Round, action_probability, propensity
from gappletron.learners.linear import (
    BanditFeedback,
    Linear,
    add_column,
    cube_root_rate,
    exchange,
    explore_uniformly,
)


class Banditron(BanditFeedback):
    """Banditron as published (Kakade, Shalev-Shwartz, Tewari 2008), for bandit feedback.

    With ``yhat = argmax_k <W^k, x>`` it plays ``i ~ p = (1-gamma) e_yhat + gamma/K``. In every round ``W^yhat -= x``,
    and if the action was right, ``i = y``, also ``W^y += x / p(y)``. So the expected update is the Perceptron's, and it
    is not zero in rounds in which yhat was right but something else was played.

    Only whether the action was right is used, also with two classes, where a wrong action tells the label. Its
    surrogate loss is the multiclass hinge ``max(0, 1 - m(y))``, in which its mistakes are bounded. A round costs
    O(nnz(x) K).

    Tunings: ``theory`` is ``gamma = min(1/2, (K X^2/T)^(1/3))``, ``only-t`` is ``min(1/2, T^(-1/3))``.

    >>> from gappletron import play
    >>> play(Banditron(0.1), "synthetic:K=3,d=40,noise=0,T=500", "bandit")[0].rounds
    500
    """

    gamma: Share = 0.05

    knows_classes = True
    new_class = "weights 0; exploration is uniform over the new K; gamma stays"
    reference = "Kakade, Shalev-Shwartz, Tewari: Efficient bandit algorithms for online multiclass prediction (2008)"

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = argmax(scores)
        explore_uniformly(greedy, self.gamma, out)
        return Decision(greedy, self.gamma)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        add_column(state.weights, x, played.greedy, -1.0)
        if played.label == played.action:
            add_column(state.weights, x, played.action, 1.0 / action_probability(played))

    def tuned(self, tuning: str, problem: Problem) -> Banditron:
        scale = problem.graph.n_classes * problem.norm() ** 2 if tuning == "theory" else 1.0
        return self.replace(gamma=cube_root_rate(scale, problem.horizon()))


class BanditronIW(Linear):
    """Importance-weighted Banditron, the one in the figures of the Gappletron paper, for any graph.

    It plays ``i ~ p = (1-gamma) e_yhat + gamma/rho 1_S`` with S the graph's dominating set: with bandit feedback that
    is uniform exploration of the classes, in filtering the revealing class with probability gamma. Only when the label
    was observed and ``yhat != y``: ``W^y += x / P(y observed)`` and ``W^yhat -= x / P(y observed)``. That is a step of
    size 1 along the importance-weighted gradient of the Perceptron's hinge, ``1 - m(y)`` if ``yhat != y``, else 0,
    which is its surrogate loss.

    Where we had to choose: on other graphs it explores the dominating set; it explores at the same rate where yhat
    reveals the label itself, so in full information gamma only costs (gamma = 0 is then the Perceptron; elsewhere a
    class that no greedy prediction shows would never be learned). Bandit feedback with two classes is full information,
    with rho = 1. A round costs O(nnz(x) K + N).

    Tunings: ``theory`` is ``gamma = min(1/2, (rho X^2/T)^(1/3))`` (with rho = K for bandit feedback and 1 in filtering,
    as in the paper; for other graphs that is our reading), ``only-t`` is ``min(1/2, T^(-1/3))``.

    >>> from gappletron import play
    >>> play(BanditronIW(0.1), "synthetic:K=3,d=40,noise=0,T=500", "filtering")[0].rounds
    500
    """

    gamma: Share = 0.05

    setting = "any graph"
    reference = (
        "Kakade, Shalev-Shwartz, Tewari: Efficient bandit algorithms for online multiclass prediction (2008), "
        "weighted as by van der Hoeven, Fusco, Cesa-Bianchi (2021)"
    )

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = argmax(scores)
        mix_in_dominating(plan.graph, greedy, self.gamma, out)
        return Decision(greedy, self.gamma)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        y = played.label
        if y >= 0 and y != played.greedy:
            exchange(state.weights, x, y, played.greedy, 1.0 / propensity(plan, played, y))

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        return 0.0 if greedy == y else 1.0 - margin(scores, y)

    def tuned(self, tuning: str, problem: Problem) -> BanditronIW:
        scale = problem.graph.rho * problem.norm() ** 2 if tuning == "theory" else 1.0
        return self.replace(gamma=cube_root_rate(scale, problem.horizon()))


LEARNERS: dict[str, Learner] = {"banditron": Banditron(), "banditron-iw": BanditronIW()}
