"""What an exploration rule is: from what a learner knows to the distribution p_t over actions that is played."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

from gappletron.graphs.graph import FeedbackGraph, GraphArrays, Plan
from gappletron.kernel.numerics import Row
from gappletron.kernel.pieces import Piece, compiled, helper
from gappletron.kernel.state import Layout
from gappletron.kernel.types import Floats


class Outlook(NamedTuple):
    """What any rule may look at before the action: the optimizer with its state (`memory`), the row, and y*."""

    optimizer: Any
    memory: Any
    x: Row
    greedy: int


@helper
def mix_in_dominating(graph: GraphArrays, greedy: int, share: float, out: Floats) -> None:
    """Fill `out` with p = (1 - share) e_{y*} + share/rho 1_S, with the dominating set S."""
    for i in range(out.size):
        out[i] = 0.0
    out[greedy] = 1.0 - share
    if share > 0.0:
        rho = graph.dominating.size
        for s in range(rho):
            out[graph.dominating[s]] += share / rho


class Exploration(Piece, abstract=True):
    """The family of exploration rules.

    >>> from gappletron import FeedbackGraph, Paper, TopUp
    >>> import numpy as np
    >>> from gappletron.graphs.graph import Plan
    >>> from gappletron.kernel.state import Sizes, State
    >>> graph, p = FeedbackGraph.apple_tasting(), np.zeros(2)
    >>> for rule in TopUp(gamma=0.3), Paper(gamma=0.3):
    ...     state = State(rule.declare(), Sizes(1, 2, 2)).tuple
    ...     rate = rule.explore(state, Plan(graph.arrays, rule.table(graph)), 1, 0.3, p)
    ...     print(p.round(3), "sees a label with probability", p[0].round(3))
    [0.3 0.7] sees a label with probability 0.3
    [0.15 0.85] sees a label with probability 0.15
    """

    def declare(self) -> Layout:
        """The fields of the state; none by default."""
        return {}

    def table(self, graph: FeedbackGraph) -> Any:
        """What the rule derives from the graph alone, for :attr:`Plan.table`."""
        return ()

    needs_stability: ClassVar[bool] = False
    """Whether the rule can only be used with a loss, and with an optimizer that states its stability."""

    needs_estimates: ClassVar[bool] = False
    """Whether the rule can only be used with a learner that estimates how likely each label is."""

    uses_costs: ClassVar[bool] = False
    """Whether a loss of the label, with this rule, minimises the costs of the graph."""

    @property
    def has_gamma(self) -> bool:
        """Whether :meth:`tuned` sets anything: a field `gamma`."""
        return "gamma" in self._fields

    @compiled
    def prepare(self, state: Any, plan: Plan, outlook: Outlook, loss: Any, scores: Floats, work: Floats) -> None:
        """Write into the state's scratch what :meth:`explore` needs to know beyond the gap; nothing by default.

        `work` is what ``loss.gap_with`` has left there.
        """

    @compiled
    def appraise(self, state: Any, plan: Plan, outlook: Outlook, estimates: Floats, sharpness: float) -> None:
        """As :meth:`prepare`, for a learner that estimates how likely each label is; nothing by default.

        With costs the estimates are ``softmax(sharpness * scores)``.
        """

    @compiled
    def label_weight(self, plan: Plan, y: int) -> float:
        """By how much the loss of label `y` is multiplied before its gradient goes to the optimizer; 1 by default."""
        return 1.0

    @abstractmethod
    @compiled
    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        """Fill `out` with p_t and return gamma_t; changes nothing else."""

    @compiled
    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        """Count the round, once it is played; nothing by default."""

    @compiled
    def count_feedback(self, state: Any, plan: Plan, action: int) -> None:
        """Count the feedback on an action, once it is there; nothing by default."""

    def tuned(self, gamma: float) -> Exploration:
        """The same rule with another gamma; itself, where it has none."""
        return self.replace(gamma=gamma) if self.has_gamma else self

    def theorem_refusal(self, graph: FeedbackGraph) -> str | None:
        """Why the theorems do not apply to this rule on this graph, as the end of a sentence; None where they do.

        They apply to a rule with a field `gamma` that shows every label with probability at least ``gamma_t /
        effective_rho(graph)`` in every round, and for which Lemma 1 holds.
        """
        return f"needs the exploration rule TopUp or Paper, not {self!r}"

    def effective_rho(self, graph: FeedbackGraph) -> int:
        """rho', which stands for rho in the bounds and in their gamma."""
        return graph.rho
