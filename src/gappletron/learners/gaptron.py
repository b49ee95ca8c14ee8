"""Gaptron: van der Hoeven, "Exploiting the surrogate gap in online multiclass classification" (NeurIPS 2020).

Gappletron's predecessor: a fixed learning rate, one gap map for each loss, and uniform exploration at a fixed rate.
"""

import math
from typing import Any, Self

from gappletron.base.errors import UserError
from gappletron.base.text import to_kebab_case
from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.pieces import Share
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rules import Exploration
from gappletron.learners.gappletron import WithLoss
from gappletron.learners.learner import Learner, Problem
from gappletron.learners.losses import Hinges, InBase2, Loss, SmoothHinge
from gappletron.learners.optimizers import FixedOGD, Optimizer


class GaptronLogistic(InBase2):
    """The logistic loss in base 2 with Gaptron's gap map, ``a = 1 - 1[q* >= 1/2] q*`` for q* = softmax(s)_{y*}.

    >>> import numpy as np
    >>> float(GaptronLogistic().gap(np.zeros(2), 0)), float(GaptronLogistic().gap(np.zeros(3), 0))
    (0.5, 1.0)
    """

    gaptron_name = "gaptron-log"

    def gap_of(self, m: float, classes: int) -> float:
        q = math.exp(-m)
        if q >= 0.5:
            return 1.0 - q
        return 1.0

    def is_regular(self, classes: int) -> bool:
        return False  # not in Gappletron's sense: Gaptron's own inequality takes the place of regularity

    def gaptron_rate(self, classes: int, max_norm: float) -> float:
        return math.log(2.0) / (2.0 * classes * max_norm * max_norm)


class GaptronHinge(Hinges):
    """The hinge with Gaptron's case split at beta = 1/K: no loss where the learner is right by a margin above beta.

    ``a = max(0, 1 - max(1[m* > beta], m*))``.

    >>> import numpy as np
    >>> float(GaptronHinge().gap(np.array([0.25, 0, 0, 0]), 0)), float(GaptronHinge().gap(np.array([0.3, 0, 0, 0]), 0))
    (0.75, 0.0)
    """

    gaptron_name = "gaptron-hin"
    has_case_split = True

    def value_of(self, m: float, right: bool, classes: int) -> float:
        if right:
            return 0.0 if m > 1.0 / classes else 1.0 - m
        return max(0.0, 1.0 - m)

    def slope(self, m: float, right: bool, classes: int) -> float:
        return 0.0 if right and m > 1.0 / classes else 1.0

    def is_regular(self, classes: int) -> bool:
        return False  # as above

    def smoothness(self, classes: int, max_norm: float) -> float:
        return max_norm * max_norm / (1.0 - 1.0 / classes)

    def gaptron_rate(self, classes: int, max_norm: float) -> float:
        return (1.0 - 1.0 / classes) / (classes * max_norm * max_norm)


class GaptronMix(Exploration):
    """``p = (1 - max(a, g)) e_{y*} + max(a, g)/K 1_[K]``: uniform play, at least as often as the fixed rate g.

    >>> GaptronMix(0.2)
    GaptronMix(gamma=0.2)
    """

    gamma: Share = 0.1

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        uniform = max(gap, self.gamma)
        K = plan.graph.visible.shape[1]
        for i in range(out.size):
            out[i] = uniform / K if i < K else 0.0
        out[greedy] += 1.0 - uniform
        return self.gamma


class Gaptron(WithLoss):
    """Gaptron: projected gradient descent with a fixed rate on the importance-weighted loss, for bandit or full
    feedback.

    Each loss has its own rate under full information, with X the largest norm: logistic ``ln 2 / (2 K X^2)``, hinge
    ``(1 - 1/K) / (K X^2)``, smooth hinge ``1 / (4 K X^2)``. On the bandit graph it is multiplied by g/K, and ``g =
    min(1, sqrt(K D^2 / (2 eta T)))``, with D the radius. "only-t" takes ``g = min(1, T^(-1/2))`` and the same rates
    (our reading). A tuning sets the optimizer and the exploration anew.

    >>> from gappletron import play
    >>> play(Gaptron(), "synthetic:K=3,d=40,noise=0,T=500", "bandit")[0].rounds
    500
    """

    loss: Loss = SmoothHinge()
    optimizer: Optimizer = FixedOGD(0.01, 1.0)
    exploration: Exploration = GaptronMix()

    setting = "bandit, full information"
    reference = "van der Hoeven: Exploiting the surrogate gap in online multiclass classification (2020)"

    @property
    def name(self) -> str:
        """``gaptron-log``, ``gaptron-hin`` or ``gaptron-smh``, by the loss."""
        return self.loss.gaptron_name or f"gaptron-{to_kebab_case(type(self.loss).__name__)}"

    def refusal(self, graph: FeedbackGraph) -> str | None:
        if graph.is_bandit or graph.is_full_information:
            return None
        return "is made for bandit feedback and full information"

    def tuned(self, tuning: str, problem: Problem) -> Self:
        K = problem.graph.n_classes
        reach = self.optimizer.reach() if problem.radius is None else problem.radius
        D = 1.0 if math.isinf(reach) else reach
        eta = self.loss.gaptron_rate(K, problem.norm())
        if eta is None:
            raise UserError(f"no rate of Gaptron's is known for {self.loss!r}: give the optimizer a rate of your own")
        if problem.graph.is_full_information:
            return self.replace(optimizer=FixedOGD(eta, D), exploration=GaptronMix(0.0))
        T = problem.horizon()
        g = min(1.0, math.sqrt(K * D * D / (2.0 * eta * T)) if tuning == "theory" else 1.0 / math.sqrt(T))
        return self.replace(optimizer=FixedOGD(eta * g / K, D), exploration=GaptronMix(g))


LEARNERS: dict[str, Learner] = {
    learner.name: learner for learner in map(Gaptron, (GaptronLogistic(), GaptronHinge(), SmoothHinge()))
}
