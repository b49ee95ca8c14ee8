"""What learners share that are made of an optimizer and an exploration rule."""

from __future__ import annotations

from typing import Any

from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import Row
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rule import Exploration
from gappletron.learners.learner import Learner
from gappletron.learners.optimizers import Optimizer


class Composed(Learner, abstract=True):
    """Learners whose W is that of an optimizer, and whose gamma is that of an exploration rule."""

    optimizer: Optimizer
    exploration: Exploration

    knows_classes = True

    @property
    def has_gamma(self) -> bool:
        return self.exploration.has_gamma

    def with_gamma(self, gamma: float) -> Composed:
        if not self.has_gamma:
            raise UserError(f"{self.exploration!r} has no gamma to set: leave it out")
        return self.replace(exploration=self.exploration.tuned(gamma))

    def table(self, graph: FeedbackGraph) -> Any:
        return self.exploration.table(graph)

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        self.optimizer.scores(state.optimizer, x, out)

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        self.exploration.count_round(state.exploration, plan, greedy)

    def weights(self, state: Any) -> Floats:
        return self.optimizer.weights(state.optimizer)
