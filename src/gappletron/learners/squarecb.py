"""SquareCB.G: a regression for each class, and exploration by the decision-estimation program."""

from __future__ import annotations

from gappletron.base.text import to_kebab_case
from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import Floats
from gappletron.learners.exploration.rule import Exploration
from gappletron.learners.exploration.squarecb import SquareCB
from gappletron.learners.learner import Learner, Round
from gappletron.learners.one_against_all import ByClass
from gappletron.learners.optimizers import ConfidenceWeighted, Optimizer

__all__ = ["SquareCBG"]


class SquareCBG(ByClass):
    """A linear regression for each class with the squared error ``(s_k - z_k)^2 / 2``, where z_k is 1 for the label and
    -1 for all other classes; it explores by :class:`~gappletron.SquareCB`.

    After action i the regressions of all classes with ``A[i, k]`` are updated. The estimate of class k is
    ``(1 + s_k) / 2``.

    >>> SquareCBG().name
    'squarecb-g'
    """

    optimizer: Optimizer = ConfidenceWeighted()
    exploration: Exploration = SquareCB()

    reference = "Zhang, Zhang, Vrousgou, Luo, Mineiro: Practical contextual bandits with feedback graphs (2023)"

    @property
    def name(self) -> str:
        """``squarecb-g`` for the default, else with the name of the exploration rule."""
        if self == type(self)():
            return "squarecb-g"
        return f"squares-{to_kebab_case(type(self.exploration).__name__)}"

    def differentiate(self, plan: Plan, played: Round, out: Floats) -> bool:
        learned = False
        for k in range(out.size):
            out[k] = 0.0
            if plan.graph.visible[played.action, k]:
                out[k] = played.scores[k] - (1.0 if k == played.label else -1.0)
                learned = True
        return learned

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        total = 0.0
        for k in range(scores.size):
            off = scores[k] - (1.0 if k == y else -1.0)
            total += 0.5 * off * off
        return total


LEARNERS: dict[str, Learner] = {"squarecb-g": SquareCBG()}
