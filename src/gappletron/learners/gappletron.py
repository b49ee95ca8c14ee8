"""Gappletron: Algorithm 1 of van der Hoeven, Fusco and Cesa-Bianchi, "Beyond Bandit Feedback in Online Multiclass
Classification" (NeurIPS 2021)."""

import math
from typing import Any, NamedTuple, Self

from gappletron.base.errors import UserError
from gappletron.base.text import to_kebab_case
from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import Row, argmax
from gappletron.kernel.state import Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.composed import Composed
from gappletron.learners.exploration.rules import Exploration, Outlook, TopUp
from gappletron.learners.learner import Decision, Learner, Problem, Round, propensity
from gappletron.learners.losses import Hinge, LogisticBase2, LogisticBaseK, Loss, SmoothHinge
from gappletron.learners.optimizers import AdaptiveOGD, Optimizer


class WithLoss(Composed, abstract=True):
    """Learners that are a loss with its gap map, an optimizer, and an exploration rule.

    In round t they play ``i ~ p_t``, see y iff ``A[i, y]``, and send the gradient of ``v_t l_t`` to the optimizer, with
    ``v_t = 1[y observed] / P_t(y observed)`` (Algorithm 1, lines 10 to 14). With costs, :class:`gappletron.Optimised`
    multiplies the loss of label y by the largest cost that an action has for it.
    """

    loss: Loss

    new_class = (
        "weights 0; the uniform part of exploration, and losses that depend on K, use the new K; gamma and n_t stay"
    )

    @property
    def uses_costs(self) -> bool:
        return self.exploration.uses_costs

    def check(self) -> None:
        if self.exploration.needs_estimates:
            raise UserError(
                f"{self.exploration!r} needs a learner that estimates how likely each label is: use it with "
                "OneAgainstAll (one-against-all) or PartialLikelihood (partial-likelihood)"
            )
        if self.exploration.needs_stability and not self.optimizer.has_stability():
            raise UserError(
                f"{self.exploration!r} needs an optimizer that states its stability, and {self.optimizer!r} does not: "
                "choose another, for example AdaGrad() or ProjectedOGD()"
            )

    def declare(self) -> Layout:
        return {
            "optimizer": self.optimizer.declare(),
            "exploration": self.exploration.declare(),
            "work": Scratch("classes"),
            "direction": Scratch("classes"),
        }

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = argmax(scores)
        gap = self.loss.gap_with(scores, greedy, state.work)
        outlook = Outlook(self.optimizer, state.optimizer, x, greedy, 0.0, 0.0, 0.0)
        self.exploration.prepare(state.exploration, plan, outlook, self.loss, scores, state.work)
        rate = self.exploration.explore(state.exploration, plan, greedy, gap, out)
        return Decision(greedy, rate)

    def recall(self, state: Any, x: Row, played: Round) -> None:
        self.loss.gap_with(played.scores, played.greedy, state.work)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if played.label >= 0:
            self.loss.gradient_with(played.scores, played.greedy, played.label, state.work, state.direction)
            weight = self.exploration.label_weight(plan, played.label) / propensity(plan, played, played.label)
            self.optimizer.step(state.optimizer, x, state.direction, weight)

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        return self.loss.value(scores, greedy, y)


class Constants(NamedTuple):
    """The letters of the theorems: K (or K'), rho, L, h, the largest loss on the ball of radius B, and B."""

    K: float
    rho: int
    L: float
    h: float
    lmax: float
    B: float


def constants(learner: WithLoss, problem: Problem) -> Constants:
    """Return the constants of a learner on a problem.

    Where the optimizer has no guarantee and none is given, h = B = 1, as in the paper's experiments.
    """
    X, K = problem.norm(), problem.graph.n_classes
    known = learner.optimizer.guarantee() if problem.guarantee is None else problem.guarantee
    reach = learner.optimizer.reach() if problem.radius is None else problem.radius
    radius = 1.0 if math.isinf(reach) else reach
    lmax = learner.loss.at_zero(K) + radius * learner.loss.gradient_bound(K, X)
    return Constants(
        learner.loss.effective_classes(K),
        problem.graph.rho,
        learner.loss.smoothness(K, X),
        1.0 if known is None else known,
        lmax,
        radius,
    )


TUNINGS = ("expectation", "expectation-separable", "high-probability", "high-probability-separable", "theory", "only-t")


def find_gamma(tuning: str, learner: WithLoss, problem: Problem) -> float:
    """Return the gamma of a tuning: of the paper's theorems (for separable data of their second parts), or its figures.

    "theory" is what the figures call the first; "only-t" is "tuned with all parameters set to 1, except for T".
    """
    if tuning == "only-t":
        return 1.0
    c, delta = constants(learner, problem), problem.delta
    match tuning:
        case "expectation" | "theory":
            return c.h * math.sqrt(c.K * c.rho * c.L) / 2.0
        case "expectation-separable":
            return c.h * math.sqrt(c.rho * c.L)
        case "high-probability":
            return math.sqrt(c.K * c.rho * (c.L * c.h * c.h + 5.0 * c.lmax * math.log(2.0 / delta)))
        case _:
            return math.sqrt(c.rho * ((c.K + 2.0) * c.lmax * math.log(2.0 / delta) + c.L * c.h * c.h))


class Gappletron(WithLoss):
    """Algorithm 1: a regular loss, any optimizer, and an exploration rule that follows the graph.

    >>> Gappletron()
    Gappletron(loss=SmoothHinge(), optimizer=AdaptiveOGD(scale=1.0), exploration=TopUp(gamma=1.0))
    """

    loss: Loss = SmoothHinge()
    optimizer: Optimizer = AdaptiveOGD()
    exploration: Exploration = TopUp()

    setting = "any graph"
    reference = "van der Hoeven, Fusco, Cesa-Bianchi: Beyond bandit feedback in online multiclass classification (2021)"
    tunings = TUNINGS

    @property
    def name(self) -> str:
        """The paper's name (``gapsmh``), which the loss knows, or that of the loss's class (``gappletron-my-loss``)."""
        return self.loss.gappletron_name or f"gappletron-{to_kebab_case(type(self.loss).__name__)}"

    def tuned(self, tuning: str, problem: Problem) -> Self:
        """The same learner with the gamma of :func:`find_gamma`; a rule without gamma stays as it is."""
        if not self.has_gamma:
            return self
        return self.with_gamma(find_gamma(tuning, self, problem))


LEARNERS: dict[str, Learner] = {
    learner.name: learner for learner in map(Gappletron, (SmoothHinge(), Hinge(), LogisticBaseK(), LogisticBase2()))
}
