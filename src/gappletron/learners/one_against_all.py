"""One against all: a scorer for each class, learned from whether the class was the label. The default learner."""

from __future__ import annotations

from gappletron.base.text import to_kebab_case
from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import Floats
from gappletron.learners.estimators import Estimator
from gappletron.learners.exploration.inverse_gap import InverseGap
from gappletron.learners.exploration.rule import Exploration
from gappletron.learners.learner import Learner, Round
from gappletron.learners.optimizers import ConfidenceWeighted, Optimizer

__all__ = ["ByClass", "OneAgainstAll"]


class ByClass(Estimator, abstract=True):
    """Estimators with a scorer for each class whose target is 1 for the label, and -1 for all other classes."""

    def estimate(self, scores: Floats, out: Floats) -> None:
        for k in range(scores.size):
            out[k] = 0.5 + 0.5 * scores[k]


class OneAgainstAll(ByClass):
    """A linear scorer for each class with the squared hinge ``max(0, 1 - z_k s_k)^2 / 2``, where z_k is 1 for the label
    and -1 for all other classes.

    After action i the scorers of all classes with ``A[i, k]`` are updated: of each of them it is known whether it was
    the label, also when it was not. With the optimizer :class:`~gappletron.ConfidenceWeighted` this is AROW (Crammer,
    Kulesza, Dredze 2009), one against all; the estimate of class k is ``(1 + s_k) / 2``.

    >>> OneAgainstAll().name
    'auto'
    """

    optimizer: Optimizer = ConfidenceWeighted()
    exploration: Exploration = InverseGap()

    reference = "ours; the update is that of Crammer, Kulesza, Dredze: Adaptive regularization of weight vectors (2009)"

    @property
    def name(self) -> str:
        """``auto`` for the default, else with the name of the exploration rule."""
        if self == type(self)():
            return "auto"
        return f"one-against-all-{to_kebab_case(type(self.exploration).__name__)}"

    def differentiate(self, plan: Plan, played: Round, out: Floats) -> bool:
        learned = False
        for k in range(out.size):
            out[k] = 0.0
            if plan.graph.visible[played.action, k]:
                z = 1.0 if k == played.label else -1.0
                short = 1.0 - z * played.scores[k]
                if short > 0.0:
                    out[k] = -z * short
                    learned = True
        return learned

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        total = 0.0
        for k in range(scores.size):
            z = 1.0 if k == y else -1.0
            short = max(0.0, 1.0 - z * scores[k])
            total += 0.5 * short * short
        return total


LEARNERS: dict[str, Learner] = {"auto": OneAgainstAll()}
