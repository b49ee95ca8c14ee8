"""Linear learners of the first order: Perceptron, passive-aggressive, and the label-efficient Perceptron."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import Row, argmax, bounded_step, margin, rival
from gappletron.kernel.pieces import Positive, PositiveOrInfinite
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Decision, Learner, Round
from gappletron.learners.linear import FullInformation, Linear, exchange

# A squared norm below this counts as that of an empty x: what is divided by it could overflow.
TINIEST_SQUARE = 1e-300


class Perceptron(FullInformation):
    """The multiclass Perceptron: where ``yhat != y``, ``W^y += x`` and ``W^yhat -= x``.

    Crammer and Singer, "Ultraconservative online algorithms for multiclass problems" (2003), with all of the correction
    on the predicted class. For every U with ``<U^y - U^k, x> >= margin`` for all ``k != y`` in every round it makes at
    most ``2 X^2 ||U||^2 / margin^2`` mistakes. The surrogate loss that is reported is the multiclass hinge ``max(0, 1 -
    m(y))``.

    >>> from gappletron import play
    >>> play(Perceptron(), "synthetic:K=3,d=40,noise=0,T=500", "full")[0].mistakes < 50
    True
    """

    reference = "Crammer, Singer: Ultraconservative online algorithms for multiclass problems (2003)"

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if played.label >= 0 and played.label != played.greedy:
            exchange(state.weights, x, played.label, played.greedy, 1.0)


class PassiveAggressive(FullInformation):
    """Multiclass passive-aggressive learning: the least change of W that gives the label a margin of 1 over its rival.

    Crammer, Dekel, Keshet, Shalev-Shwartz and Singer, "Online passive-aggressive algorithms" (2006). With the rival r,
    the best class but y, and the hinge ``l = max(0, 1 - (s_y - s_r))``: ``tau = min(C, l / (2 ||x||^2))``, ``W^y += tau
    x`` and ``W^r -= tau x``. ``C = inf`` is PA, where afterwards ``s_y - s_r = 1`` for that r; a finite C is PA-I. It
    updates on every round with ``l > 0``, mistake or not.

    Chosen here: only that one rival is pushed back, so another class may still be within the margin afterwards; and an
    x that is empty, or so short that ``||x||^2`` has no reciprocal, changes nothing. No update moves a weight by more
    than 1e50: with late feedback, whose hinge is that of prediction time, the scores could grow without bound.

    >>> from gappletron import play
    >>> play(PassiveAggressive(), "synthetic:K=3,d=40,noise=0,T=500", "full")[0].mistakes < 50
    True
    >>> PassiveAggressive(C=0.01)
    PassiveAggressive(C=0.01)
    """

    C: PositiveOrInfinite = math.inf

    reference = "Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online passive-aggressive algorithms (2006)"

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if played.label >= 0:
            r = rival(played.scores, played.label)
            hinge = 1.0 - (played.scores[played.label] - played.scores[r])
            if hinge > 0.0 and x.squared > TINIEST_SQUARE:
                exchange(state.weights, x, played.label, r, bounded_step(min(self.C, hinge / (2.0 * x.squared)), x))


class QueryTable(NamedTuple):
    """The index of the action that asks for the label."""

    query: int


class LabelEfficientPerceptron(Linear):
    """The Perceptron that asks for the label where it is unsure: with probability ``b / (b + m*)``.

    Cesa-Bianchi, Gentile and Zaniboni, "Worst-case analysis of selective sampling for linear classification" (2006),
    whose ``|<w, x>|`` becomes the margin ``m* = s_yhat - max_{k != yhat} s_k`` for K classes. It plays the query with
    that probability and ``yhat`` otherwise; where it asked and ``yhat != y``, ``W^y += x`` and ``W^yhat -= x``.

    Chosen here: a query is an action of the graph (so it counts as a mistake, and `labels_seen` counts it); of several
    extra actions that show every label it takes the first; a label that a prediction happens to show is not used, since
    the analysis is of the queried rounds. The exploration rate that is reported is the probability of the query, and
    the surrogate loss is the multiclass hinge ``max(0, 1 - m(y))``.

    >>> from gappletron import play
    >>> run = play(LabelEfficientPerceptron(b=2), "synthetic:K=3,d=40,noise=0,T=500", "label-efficient")[0]
    >>> run.labels_seen == run.explored < 500
    True
    """

    b: Positive = 1.0

    setting = "label efficient"
    teachable = False  # it learns only where it drew the query
    reference = (
        "Cesa-Bianchi, Gentile, Zaniboni: Worst-case analysis of selective sampling for linear classification (2006)"
    )

    def refusal(self, graph: FeedbackGraph) -> str | None:
        if graph.visible[graph.n_classes :].all(axis=1).any():
            return None
        return "needs a query, an extra action that predicts nothing and shows the label"

    def table(self, graph: FeedbackGraph) -> QueryTable:
        return QueryTable(min(i for i in graph.revealing_indices if i >= graph.n_classes))

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = argmax(scores)
        rate = self.b / (self.b + margin(scores, greedy))
        for i in range(out.size):
            out[i] = 0.0
        out[greedy] = 1.0 - rate
        out[plan.table.query] = rate
        return Decision(greedy, rate)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if played.action == plan.table.query and played.label >= 0 and played.label != played.greedy:
            exchange(state.weights, x, played.label, played.greedy, 1.0)


LEARNERS: dict[str, Learner] = {
    "perceptron": Perceptron(),
    "passive-aggressive": PassiveAggressive(),
    "label-efficient-perceptron": LabelEfficientPerceptron(),
}
