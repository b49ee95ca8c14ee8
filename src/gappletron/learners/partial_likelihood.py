"""Partial likelihood: a softmax over the classes, learned from the label or from what it is not."""

from __future__ import annotations

from gappletron.base.text import to_kebab_case
from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import Floats, argmax, log_partition, sharpened_softmax
from gappletron.learners.estimators import Estimator
from gappletron.learners.exploration.inverse_gap import InverseGap
from gappletron.learners.exploration.rule import Exploration
from gappletron.learners.learner import Learner, Round
from gappletron.learners.optimizers import ConfidenceWeighted, Optimizer

__all__ = ["PartialLikelihood"]

LEAST_REST = 1e-6
"""The classes that an action does not show are never taken for less likely than this, all together."""


class PartialLikelihood(Estimator):
    """Maximises the likelihood of what a round shows, with ``q = softmax(s)`` as the probabilities of the labels.

    Where the label y is seen the loss is ``-ln q_y``, with the derivatives ``q - e_y``. Where it is not, it is none of
    the classes that action i shows. With their probability ``Q = sum_{k: A[i, k]} q_k`` the loss is ``-ln(1 - Q)``.
    Its derivatives are ``q_k`` for the classes that i shows and ``-q_k Q / (1 - Q)`` for the others, where 1 - Q counts
    as at least 1e-6. An action that shows no class teaches nothing. The second loss is not convex unless only one class
    is left, so there is no theorem. Every round changes every class a little, so the optimizer becomes certain more
    slowly than that of :class:`~gappletron.OneAgainstAll`.

    >>> from gappletron import play
    >>> play(PartialLikelihood(), "synthetic:K=3,d=40,noise=0,T=3000", "bandit")[0].error_rate < 0.2
    True
    """

    optimizer: Optimizer = ConfidenceWeighted(noise=0.01, shrink=0.01)
    exploration: Exploration = InverseGap()

    reference = (
        "ours; the likelihood of partial labels is that of Jin, Ghahramani: Learning with multiple labels (2002)"
    )

    @property
    def name(self) -> str:
        """``partial-likelihood`` for the default, else with the name of the exploration rule."""
        if self == type(self)():
            return "partial-likelihood"
        return f"partial-likelihood-{to_kebab_case(type(self.exploration).__name__)}"

    def estimate(self, scores: Floats, out: Floats) -> None:
        sharpened_softmax(scores, 1.0, out)

    def differentiate(self, plan: Plan, played: Round, out: Floats) -> bool:
        self.estimate(played.scores, out)
        if played.label >= 0:
            out[played.label] -= 1.0
            return True
        Q, shows = 0.0, False
        for k in range(out.size):
            if plan.graph.visible[played.action, k]:
                Q += out[k]
                shows = True
        if not shows:
            return False
        odds = Q / max(LEAST_REST, 1.0 - Q)
        for k in range(out.size):
            if not plan.graph.visible[played.action, k]:
                out[k] *= -odds
        return True

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        top = argmax(scores)
        return log_partition(scores, top) + (scores[top] - scores[y])


LEARNERS: dict[str, Learner] = {"partial-likelihood": PartialLikelihood()}
