"""Full-information learners of the second order: the second-order Perceptron, diagonal and full, and AROW."""

from __future__ import annotations

from typing import Any

from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import Row, bounded_step, hinge_direction, rival
from gappletron.kernel.pieces import Positive, helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.learners.full_matrix import inner, is_sound, scaled_identity, shorten, solve, take_step
from gappletron.learners.learner import Learner, Round
from gappletron.learners.linear import FullInformation


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
        return {
            "weights": Field("features", "classes"),
            "inverse": scaled_identity(1.0 / self.a),
            "solution": Scratch("features", "classes"),
            "direction": Scratch("classes"),
        }

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
                    believe(state, x.indices[p], played.label, x.values[p], alpha, self.r)
                    believe(state, x.indices[p], other, -x.values[p], alpha, self.r)


@helper
def believe(state: Any, j: int, k: int, z: float, alpha: float, r: float) -> None:
    """W += alpha S z and 1/S += z^2 / r in one entry."""
    before = state.variances[j, k]
    state.weights[j, k] += alpha * before * z
    state.variances[j, k] = before / (1.0 + before * z * z / r)


LEARNERS: dict[str, Learner] = {
    "second-order-perceptron-diag": SecondOrderPerceptronDiag(),
    "second-order-perceptron": SecondOrderPerceptron(),
    "arow": Arow(),
}
