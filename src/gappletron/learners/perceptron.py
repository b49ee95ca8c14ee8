"""Perceptrons and their relatives: of the first order (also passive-aggressive, label efficient), and of the second."""

import math
from typing import Any, NamedTuple

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import Row, argmax, bounded_step, hinge_direction, margin, rival
from gappletron.kernel.pieces import Positive, PositiveOrInfinite, helper
from gappletron.kernel.state import Field, Layout
from gappletron.kernel.types import Floats
from gappletron.learners.full_matrix import declare_inverse, inner, is_sound, shorten, solve, take_step
from gappletron.learners.learner import Decision, Learner, Linear, Round, exchange, explore_uniformly

# A squared norm below this counts as that of an empty x: what is divided by it could overflow.
TINIEST_SQUARE = 1e-300


class FullInformation(Linear, abstract=True):
    """Linear learners that predict the greedy class always, and must see the label whatever they predict."""

    setting = "full information"

    def refusal(self, graph: FeedbackGraph) -> str | None:
        if graph.is_full_information:
            return None
        return "needs full information, where predicting any class reveals the label"

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = argmax(scores)
        explore_uniformly(greedy, 0.0, out)
        return Decision(greedy, 0.0)


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
    extra actions that reveal every label it takes the first; a label that a prediction happens to show is not used,
    since the analysis is of the queried rounds. The exploration rate that is reported is the probability of the query,
    and the surrogate loss is the multiclass hinge ``max(0, 1 - m(y))``.

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
        return "needs a query, an extra action that predicts nothing and reveals the label"

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


# --------------------------------------------------------------------------------------------------------- second order


@helper
def add_example(state: Any, j: int, k: int, z: float) -> None:
    """theta += z, A += z^2 and W = theta / A in one entry."""
    state.theta[j, k] += z
    state.diagonal[j, k] += z * z
    state.weights[j, k] = state.theta[j, k] / state.diagonal[j, k]


class SecondOrderPerceptronDiag(FullInformation):
    """The second-order Perceptron with a diagonal matrix: on a mistake ``theta += z``, ``A += z^2``; ``W = theta / A``.

    Cesa-Bianchi, Conconi and Gentile, "A second-order Perceptron algorithm" (2005), with ``z = (e_y - e_yhat) (x) x``
    for K classes, ``A_0 = a``. O(nnz(x)) for a mistake, O(nnz(x) K) for the scores.

    Chosen here: only mistakes update (the conservative version), and the scores are those of ``theta / A`` before the
    round: the example that is being predicted is not added to A, as it is in their analysis. The surrogate loss that is
    reported is the multiclass hinge ``max(0, 1 - m(y))``.

    >>> from gappletron import play
    >>> play(SecondOrderPerceptronDiag(), "synthetic:K=3,d=40,noise=0,T=500", "full")[0].mistakes < 50
    True
    """

    a: Positive = 1.0

    reference = "Cesa-Bianchi, Conconi, Gentile: A second-order Perceptron algorithm (2005)"

    def declare(self) -> Layout:
        """``W = theta / A``, theta, and the diagonal of A."""
        return {
            "weights": Field("features", "classes"),
            "theta": Field("features", "classes"),
            "diagonal": Field("features", "classes", fill=self.a, above=0),
        }

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if played.label >= 0 and played.label != played.greedy:
            for p in range(x.start, x.stop):
                add_example(state, x.indices[p], played.label, x.values[p])
                add_example(state, x.indices[p], played.greedy, -x.values[p])


class SecondOrderPerceptron(FullInformation):
    """The second-order Perceptron: on a mistake ``theta += z``, ``A += z z^T``; ``W = A^-1 theta``.

    Cesa-Bianchi, Conconi and Gentile, "A second-order Perceptron algorithm" (2005), with ``z = (e_y - e_yhat) (x) x``
    for K classes, ``A_0 = a I``. The inverse follows by rank-one updates: with ``u = A^-1 z`` and ``c = 1 + <z, u>``,
    both of before the round, ``A^-1 -= u u^T / c`` and ``W += (1 - <z, W>) u / c``.

    A mistake costs ``O((Kd)^2)`` and the matrix takes ``8 (Kd)^2`` bytes: it is meant for Kd up to a few thousand and
    for checking the diagonal one; what would not fit in memory is refused. Chosen here: as for the diagonal one, only
    mistakes update, the predicted example is not in A, and the surrogate loss is the multiclass hinge.

    >>> from gappletron import play
    >>> play(SecondOrderPerceptron(), "synthetic:K=3,d=40,noise=0,T=500", "full")[0].mistakes < 50
    True
    """

    a: Positive = 1.0

    reference = "Cesa-Bianchi, Conconi, Gentile: A second-order Perceptron algorithm (2005)"

    def declare(self) -> Layout:
        """``W = A^-1 theta``, and A^-1."""
        return declare_inverse(1.0 / self.a)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if played.label >= 0 and played.label != played.greedy:
            z = state.direction
            hinge_direction(played.label, played.greedy, -1.0, z)
            shorten(x, z, 1.0, 1.0 / self.a)
            quadratic = solve(state.inverse, x, z, state.solution)
            c = 1.0 + quadratic
            miss = 1.0 - inner(state.weights, x, z)
            if is_sound(state, x, z, quadratic, 1.0 / self.a, 1.0 / c, miss):
                take_step(state, miss / c, 1.0 / c)


class Arow(FullInformation):
    """Adaptive regularisation of weights, diagonal: W is the mean of a Gaussian whose variances S shrink where x was
    active.

    Crammer, Kulesza and Dredze, "Adaptive regularization of weight vectors" (2009). With the rival ``r'``, the best
    class but y, and ``m = s_y - s_r'``: ``v = sum_j x_j^2 (S_yj + S_r'j)``, ``alpha = max(0, 1 - m) / (v + r)``; where
    ``alpha > 0``, ``W_y += alpha S_y x``, ``W_r' -= alpha S_r' x``, and ``1/S += x^2 / r`` on both rows. ``S_0 = 1``.

    With ``z = (e_y - e_r') (x) x`` this is the exact optimum, over all means mu and all *diagonal* covariances Sigma,
    of their objective ``KL(N(mu, Sigma) || N(W, S)) + max(0, 1 - <mu, z>)^2 / (2r) + z^T Sigma z / (2r)``. (The
    diagonal of the optimum over all matrices is another one.) Chosen here, as in their Figure 1: a round whose hinge is
    0 leaves the variances alone. The surrogate loss that is reported is the multiclass hinge ``max(0, 1 - m(y))``.

    >>> from gappletron import play
    >>> play(Arow(), "synthetic:K=3,d=40,noise=0,T=500", "full")[0].mistakes < 50
    True
    """

    r: Positive = 1.0

    reference = "Crammer, Kulesza, Dredze: Adaptive regularization of weight vectors (2009)"

    def declare(self) -> Layout:
        """The means W, and their variances S."""
        return {"weights": Field("features", "classes"), "variances": Field("features", "classes", fill=1.0, above=0)}

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if played.label >= 0:
            other = rival(played.scores, played.label)
            hinge = 1.0 - (played.scores[played.label] - played.scores[other])
            if hinge > 0.0:
                spread = 0.0
                for p in range(x.start, x.stop):
                    j = x.indices[p]
                    spread += x.values[p] * x.values[p] * (state.variances[j, played.label] + state.variances[j, other])
                alpha = bounded_step(hinge / (spread + self.r), x)
                for p in range(x.start, x.stop):
                    add_evidence(state, x.indices[p], played.label, x.values[p], alpha, self.r)
                    add_evidence(state, x.indices[p], other, -x.values[p], alpha, self.r)


@helper
def add_evidence(state: Any, j: int, k: int, z: float, alpha: float, r: float) -> None:
    """W += alpha S z and 1/S += z^2 / r in one entry."""
    before = state.variances[j, k]
    state.weights[j, k] += alpha * before * z
    state.variances[j, k] = before / (1.0 + before * z * z / r)


LEARNERS: dict[str, Learner] = {
    "perceptron": Perceptron(),
    "passive-aggressive": PassiveAggressive(),
    "label-efficient-perceptron": LabelEfficientPerceptron(),
    "second-order-perceptron-diag": SecondOrderPerceptronDiag(),
    "second-order-perceptron": SecondOrderPerceptron(),
    "arow": Arow(),
}
