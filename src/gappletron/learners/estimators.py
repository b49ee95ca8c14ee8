"""Learners that estimate how likely each label is, and learn from all that a round shows without importance weights.

A round shows more than the label or nothing: after action i it is known of every class k with ``A[i, k]`` whether it is
the label. That is used as it is. Which rounds show it depends on x and on the draw, not on the label, so nothing has to
be weighted.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import Floats, Row, argmax, is_followed, rival, sharpened_softmax
from gappletron.kernel.pieces import compiled, helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.learners.exploration.rule import Exploration, Outlook
from gappletron.learners.learner import Decision, Learner, Round
from gappletron.learners.optimizers import Optimizer

__all__ = ["Estimator"]


SHARPNESS = tuple(2.0 ** (0.5 * power) for power in range(-2, 9))
"""The probabilities of the labels are ``softmax(b s)``, with b of these, from 1/2 to 16. With costs it is that b under
which what was shown so far was most likely, each round weighted by what was at stake: the largest cost of a class at
the label, or that of the action at the labels that are left. Each but the first two is twice the one before the last.
"""

LEAST_CHANCE = 1e-9
"""What was shown is never taken for less likely than this when the values of b are compared."""


class Estimator(Learner, abstract=True):
    """What the estimators share: the optimizer, the exploration rule, and the choice of least expected cost."""

    optimizer: Optimizer
    exploration: Exploration

    setting = "any graph, any costs"
    knows_classes = True
    new_class = "weights 0, as uncertain as at the start; exploration uses the new K"
    default_normalize = "columns"
    default_bias = True

    @property
    def uses_costs(self) -> bool:
        return True

    def check(self) -> None:
        if self.exploration.needs_stability:
            raise UserError(
                f"{self.exploration!r} needs a loss and the stability of an optimizer: use it with Gappletron "
                "(gapsmh), or choose another exploration rule, for example InverseGap() (inverse-gap)"
            )

    @property
    def has_gamma(self) -> bool:
        return self.exploration.has_gamma

    def with_gamma(self, gamma: float) -> Estimator:
        if not self.has_gamma:
            raise UserError(f"{self.exploration!r} has no gamma to set: leave it out")
        return self.replace(exploration=self.exploration.tuned(gamma))

    def declare(self) -> Layout:
        return {
            "optimizer": self.optimizer.declare(),
            "exploration": self.exploration.declare(),
            "fit": Field(len(SHARPNESS), least=0),
            "learned": Field(least=0),
            "estimates": Scratch("classes"),
            "direction": Scratch("classes"),
        }

    def table(self, graph: FeedbackGraph) -> Any:
        return self.exploration.table(graph)

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        self.optimizer.scores(state.optimizer, x, out)

    def choice(self, state: Any, plan: Plan, scores: Floats) -> int:
        top = argmax(scores)
        if not plan.graph.has_costs:
            return top
        sharpness = best_sharpness(state.fit)
        best, least = 0, 0.0
        for i in range(scores.size):
            cost = 0.0
            for y in range(scores.size):
                if plan.graph.costs[i, y] > 0.0:
                    cost += plan.graph.costs[i, y] * math.exp(sharpness * (scores[y] - scores[top]))
            if i == 0 or cost < least:
                best, least = i, cost
        return best

    def label_probabilities(self, state: Any, scores: Floats, out: Floats) -> None:
        """``softmax(b s)``, averaged over the values of b: the more likely one made what was shown so far, the more it
        counts.
        """
        least = state.fit[0]
        for b in range(1, state.fit.size):
            least = min(least, state.fit[b])
        total = 0.0
        for k in range(scores.size):
            out[k] = 0.0
        for b in range(state.fit.size):
            part = math.exp(least - state.fit[b])
            sharpened_softmax(scores, SHARPNESS[b], state.estimates)
            total += part
            for k in range(scores.size):
                out[k] += part * state.estimates[k]
        for k in range(scores.size):
            out[k] /= total

    @abstractmethod
    @compiled
    def estimate(self, scores: Floats, out: Floats) -> None:
        """Fill `out` with the estimates q that exploration is made from, where only mistakes count."""

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = self.choice(state, plan, scores)
        sharpness = 1.0
        if plan.graph.has_costs:
            sharpness = best_sharpness(state.fit)
            sharpened_softmax(scores, sharpness, state.estimates)
        else:
            self.estimate(scores, state.estimates)
        outlook = Outlook(self.optimizer, state.optimizer, x, greedy)
        self.exploration.appraise(state.exploration, plan, outlook, state.estimates, sharpness)
        r = rival(state.estimates, greedy)
        gap = min(1.0, max(0.0, 1.0 - (state.estimates[greedy] - state.estimates[r])))
        return Decision(greedy, self.exploration.explore(state.exploration, plan, greedy, gap, out))

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        self.exploration.count_round(state.exploration, plan, greedy)

    def recall(self, state: Any, x: Row, played: Round) -> None:
        # Late feedback is learned at the scores of today. The optimizer is made for the loss at its own weights: a step
        # from those of long ago, repeated for every row that waited, would overshoot.
        self.optimizer.scores(state.optimizer, x, played.scores)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        self.exploration.count_feedback(state.exploration, plan, played.action)
        state.learned[0] += 1.0
        if plan.graph.has_costs or is_followed(state.learned[0]):  # in all rounds it would cost half as much again
            compare_sharpness(state.fit, plan, played, state.direction)
        if self.differentiate(plan, played, state.direction):
            self.optimizer.step(state.optimizer, x, state.direction, 1.0)

    @abstractmethod
    @compiled
    def differentiate(self, plan: Plan, played: Round, out: Floats) -> bool:
        """Fill `out` with the derivatives of the loss of what the round showed; False where it showed nothing."""

    def weights(self, state: Any) -> Floats:
        return self.optimizer.weights(state.optimizer)


@helper
def best_sharpness(fit: Floats) -> float:
    """The b with the least loss so far; the lowest one on a tie."""
    best = 0
    for b in range(1, fit.size):
        if fit[b] < fit[best]:
            best = b
    return SHARPNESS[best]


@helper
def compare_sharpness(fit: Floats, plan: Plan, played: Round, work: Floats) -> None:
    """Add the losses of the round: minus the logarithm of how likely it was under each b, the label or that it is none
    of the classes shown, times what was at stake. `work` is room for a number per class.
    """
    scores, top = played.scores, argmax(played.scores)
    stake = at_stake(plan, played)
    for first in range(2):
        for k in range(scores.size):
            work[k] = math.exp(SHARPNESS[first] * (scores[k] - scores[top]))
        for b in range(first, fit.size, 2):
            total, shown = 0.0, 0.0
            if played.label >= 0:
                shown = work[played.label]
            else:
                for k in range(scores.size):
                    if not plan.graph.visible[played.action, k]:
                        shown += work[k]
            for k in range(scores.size):
                total += work[k]
                work[k] *= work[k]  # for the next b, which is twice this one
            fit[b] -= stake * math.log(max(LEAST_CHANCE, shown / total))


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
