"""Learners that estimate how likely each label is, and learn from all that a round reveals, without importance weights.

A round reveals more than the label or nothing: after action i it is known of every class k with ``A[i, k]`` whether it
is the label. That is used as it is. Which rounds reveal it depends on x and on the draw, not on the label, so nothing
has to be weighted.
"""

from abc import abstractmethod
from typing import Any, ClassVar

from gappletron.base.errors import UserError
from gappletron.base.text import to_kebab_case
from gappletron.graphs.graph import Plan
from gappletron.graphs.sums import multiply
from gappletron.kernel.numerics import Row, argmax, is_followed, log_partition, rival, sharpened_softmax
from gappletron.kernel.pieces import compiled, helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.composed import Composed
from gappletron.learners.exploration.rules import Exploration, InverseGap, Outlook
from gappletron.learners.exploration.squarecb import SquareCB
from gappletron.learners.learner import Decision, Learner, Round
from gappletron.learners.optimizers import ConfidenceWeighted, Optimizer
from gappletron.learners.sharpness import SHARPNESS, average_softmax, best_sharpness, compare_sharpness

# The classes that an action does not reveal are never taken for less likely than this, all together.
LEAST_REST = 1e-6


class Estimator(Composed, abstract=True):
    """What the estimators share: the optimizer, the exploration rule, and the choice of least expected cost."""

    setting = "any graph, any costs"
    new_class = "weights 0, as uncertain as at the start; exploration uses the new K"
    default_normalize = "columns"
    default_bias = True

    @property
    def uses_costs(self) -> bool:
        return True

    def check(self) -> None:
        if self.exploration.needs_loss:
            raise UserError(
                f"{self.exploration!r} needs a learner with a loss: use it with Gappletron "
                "(gapsmh), or choose another exploration rule, for example InverseGap() (inverse-gap)"
            )

    default_name: ClassVar[str]
    loss_name: ClassVar[str]

    @property
    def name(self) -> str:
        """The name of the default, else that of the loss and of the exploration rule."""
        if self == type(self)():  # type: ignore[call-arg]
            return self.default_name
        return f"{self.loss_name}-{to_kebab_case(type(self.exploration).__name__)}"

    def declare(self) -> Layout:
        return {
            "optimizer": self.optimizer.declare(),
            "exploration": self.exploration.declare(),
            "fit": Field(len(SHARPNESS), least=0),
            "learned": Field(least=0),
            "estimates": Scratch("classes"),
            "expected": Scratch("actions"),
            "direction": Scratch("classes"),
        }

    def choice(self, state: Any, plan: Plan, scores: Floats) -> int:
        if not plan.graph.has_costs:
            return argmax(scores)
        sharpened_softmax(scores, best_sharpness(state.fit), state.estimates)
        multiply(plan.graph.cost_sums, state.estimates, state.expected)
        best = 0
        for k in range(1, scores.size):
            if state.expected[k] < state.expected[best]:
                best = k
        return best

    def label_probabilities(self, state: Any, scores: Floats, out: Floats) -> None:
        """``softmax(b s)``, averaged over the values of b: the more likely one made what was revealed so far, the
        more it counts.
        """
        average_softmax(state.fit, scores, state.estimates, out)

    @abstractmethod
    @compiled
    def estimate(self, scores: Floats, out: Floats) -> None:
        """Fill `out` with the estimates q that exploration is made from, where only mistakes count."""

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = self.choice(state, plan, scores)
        sharpness = 1.0
        if plan.graph.has_costs:  # then the choice has left its probabilities in the estimates
            sharpness = best_sharpness(state.fit)
        else:
            self.estimate(scores, state.estimates)
        outlook = Outlook(self.optimizer, state.optimizer, x, greedy, 0.0, 0.0, 0.0)
        self.exploration.appraise(state.exploration, plan, outlook, state.estimates, sharpness)
        r = rival(state.estimates, greedy)
        gap = min(1.0, max(0.0, 1.0 - (state.estimates[greedy] - state.estimates[r])))
        return Decision(greedy, self.exploration.explore(state.exploration, plan, greedy, gap, out))

    def recall(self, state: Any, x: Row, played: Round) -> None:
        # Late feedback is learned at the scores of today. The optimizer is made for the loss at its own weights: a step
        # from those of long ago, repeated for every row that waited, would overshoot.
        self.optimizer.scores(state.optimizer, x, played.scores)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        self.exploration.count_feedback(state.exploration, plan, played.action)
        state.learned[0] += 1.0
        if plan.graph.has_costs or is_followed(state.learned[0]):  # in all rounds it would cost half as much again
            compare_sharpness(state.fit, plan, played.scores, played, at_stake(plan, played), state.direction)
        if self.differentiate(plan, played, state.direction):
            self.optimizer.step(state.optimizer, x, state.direction, 1.0)

    @abstractmethod
    @compiled
    def differentiate(self, plan: Plan, played: Round, out: Floats) -> bool:
        """Fill `out` with the derivatives of the loss of what the round showed; False where it showed nothing."""


@helper
def at_stake(plan: Plan, played: Round) -> float:
    """The largest cost of a class at the label, or of the action at the labels that are left; 1 without costs."""
    if not plan.graph.has_costs:
        return 1.0
    stake = 0.0
    for k in range(played.scores.size):
        if played.label >= 0:
            stake = max(stake, plan.graph.costs[k, played.label])
        elif not plan.graph.visible[played.action, k]:
            stake = max(stake, plan.graph.costs[played.action, k])
    return stake


# --------------------------------------------------------------------------------------------------------- the learners


class ByClass(Estimator, abstract=True):
    """Estimators with a scorer for each class, whose loss is half of a squared error.

    The target z_k is 1 for the label and -1 for all other classes; the estimate of class k is ``(1 + s_k) / 2``. After
    action i the scorers of all classes with ``A[i, k]`` are updated: of each of them it is known whether it was the
    label, also when it was not.
    """

    @abstractmethod
    @compiled
    def error(self, score: float, target: float) -> float:
        """The error e of a score, whose loss is ``e^2 / 2``: also the derivative of the loss by the score."""

    def estimate(self, scores: Floats, out: Floats) -> None:
        for k in range(scores.size):
            out[k] = 0.5 + 0.5 * scores[k]

    def differentiate(self, plan: Plan, played: Round, out: Floats) -> bool:
        learned = False
        for k in range(out.size):
            out[k] = 0.0
            if plan.graph.visible[played.action, k]:
                out[k] = self.error(played.scores[k], 1.0 if k == played.label else -1.0)
                learned = learned or out[k] != 0.0
        return learned

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        total = 0.0
        for k in range(scores.size):
            error = self.error(scores[k], 1.0 if k == y else -1.0)
            total += 0.5 * error * error
        return total


class OneAgainstAll(ByClass):
    """A linear scorer for each class with the squared hinge ``max(0, 1 - z_k s_k)^2 / 2``, where z_k is 1 for the label
    and -1 for all other classes.

    After action i the scorers of all classes with ``A[i, k]`` are updated. With the optimizer
    :class:`~gappletron.ConfidenceWeighted` this is AROW (Crammer, Kulesza, Dredze 2009), one against all; the estimate
    of class k is ``(1 + s_k) / 2``.

    >>> OneAgainstAll().name
    'one-against-all'
    """

    optimizer: Optimizer = ConfidenceWeighted()
    exploration: Exploration = InverseGap()

    reference = "ours; the update is that of Crammer, Kulesza, Dredze: Adaptive regularization of weight vectors (2009)"

    default_name, loss_name = "one-against-all", "one-against-all"

    def error(self, score: float, target: float) -> float:
        short = 1.0 - target * score
        return -target * short if short > 0.0 else 0.0


class PartialLikelihood(Estimator):
    """Maximises the likelihood of what a round reveals, with ``q = softmax(s)`` as the probabilities of the labels.

    Where the label y is seen the loss is ``-ln q_y``, with the derivatives ``q - e_y``. Where it is not, it is none of
    the classes that action i reveals. With their probability ``Q = sum_{k: A[i, k]} q_k`` the loss is ``-ln(1 - Q)``.
    Its derivatives are ``q_k`` for the classes that i reveals and ``-q_k Q / (1 - Q)`` for the others, where 1 - Q
    counts as at least 1e-6. An action that reveals no class teaches nothing. The second loss is not convex unless only
    one class is left, so there is no theorem. Every round changes every class a little, so the optimizer becomes
    certain more slowly than that of :class:`~gappletron.OneAgainstAll`.

    >>> from gappletron import play
    >>> play(PartialLikelihood(), "synthetic:K=3,d=40,noise=0,T=3000", "bandit")[0].error_rate < 0.2
    True
    """

    optimizer: Optimizer = ConfidenceWeighted(noise=0.01, shrink=0.01)
    exploration: Exploration = InverseGap()

    reference = (
        "ours; the likelihood of partial labels is that of Jin, Ghahramani: Learning with multiple labels (2002)"
    )

    default_name, loss_name = "partial-likelihood", "partial-likelihood"

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

    default_name, loss_name = "squarecb-g", "squares"

    def error(self, score: float, target: float) -> float:
        return score - target


LEARNERS: dict[str, Learner] = {
    learner.name: learner for learner in (OneAgainstAll(), PartialLikelihood(), SquareCBG())
}
