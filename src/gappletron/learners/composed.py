"""What learners share that are made of an optimizer and an exploration rule."""

from typing import Any

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import Row
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rules import Exploration
from gappletron.learners.learner import Learner
from gappletron.learners.optimizers import Optimizer


class Composed(Learner, abstract=True):
    """Learners whose W is that of an optimizer, and whose gamma is that of an exploration rule."""

    optimizer: Optimizer
    exploration: Exploration

    def table(self, graph: FeedbackGraph) -> Any:
        return self.exploration.table(graph)

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        self.optimizer.scores(state.optimizer, x, out)

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        self.exploration.count_round(state.exploration, plan, greedy)

    def weights(self, state: Any) -> Floats:
        return self.optimizer.weights(state.optimizer)
