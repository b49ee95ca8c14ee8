"""Online convex optimisation: the paper's algorithm A, which turns the gradients of the weighted losses into W_{t+1}.

Every optimizer costs O(nnz(x) K) per round: a gradient is ``g = weight * x (x) direction``, and only active features
are touched. Where a step changes all of W (a projection, the growing regulariser of FTRL) the state holds ``W = scale *
V`` and the running ``||V||^2``, so the change is one number. The norm is the Euclidean one throughout.

The theorems need ``regret <= h(U) sqrt(sum_t ||g_t||^2)`` (the paper's condition on A); :meth:`Optimizer.guarantee` is
that h, or None where there is none.

:class:`gappletron.Optimised` needs the *stability* S_t of an optimizer instead, which is known before the round:
``sum_t <g_t, W_t - U> <= B_T(U) + sum_t S_t(g_t)``, and ``S_t(v g) <= v^2 S_t(g)`` for v = 0 and for v >= 1 (docs, page
Optimised). It is computed in two steps, so that the stabilities of all K labels share their sums over the features:
:meth:`Optimizer.share` of each class, and :meth:`Optimizer.stability` of the sum of the shares.
"""

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from gappletron.kernel.numerics import (
    Row,
    add_outer,
    dot,
    forget_certainty,
    inner_product,
    next_nonzero,
    root_step,
    squared_length,
    squared_norm,
    to_double,
    variance_step,
    weigh_squares,
)
from gappletron.kernel.pieces import NotNegative, Piece, Positive, PositiveOrInfinite, Share, compiled, helper, seldom
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats

DELTA = 1e-8  # what is added to a sum of squares before its root is divided by

SMALLEST_SCALE = 1e-100  # below this the scale is multiplied into V, long before V's squared norm could overflow

# While the squared gradient norms add up to less than this, nothing is learned: their reciprocal could overflow.
SMALLEST_TOTAL = 1e-200

# For a radius below the root of this: a sum of gradients whose squared norm is less than this part of their squared
# norms is measured again, since the norm that is kept has the rounding errors of the longest sum so far.
CANCELLED = 1e-6

SAFE_FACTOR = 1e80  # with a factor below this no step on V is as long as LONGEST_STEP
LONGEST_STEP = 1e140  # where a step on V is longer, or its factor larger, the scale is multiplied into V first
# No weight of :class:`ConfidenceWeighted` becomes more certain than this: below the smallest normal number, also of
# single floats, the next division could overflow.
SMALLEST_VARIANCE = 1e-30
# While the mean of ||x||^2 is less than this times 1 / noise, it learns nothing: weights could be too large for single
# floats.
SHORTEST = 1e-60


class Optimizer(Piece, abstract=True):
    """The family of optimizers. A new one is a subclass with the methods below.

    >>> from gappletron import AdaptiveOGD, ProjectedOGD
    >>> AdaptiveOGD().guarantee() is None, round(ProjectedOGD(radius=2.0).guarantee(), 3)
    (True, 5.657)
    """

    @abstractmethod
    def declare(self) -> Layout:
        """The fields of the state; W must be 0 at the start."""

    @compiled
    def scores(self, state: Any, x: Row, out: Floats) -> None:
        """Fill `out` with <W^k, x> for every class k; by default W is the field `weights`."""
        dot(state.weights, x, out)

    @abstractmethod
    @compiled
    def step(self, state: Any, x: Row, direction: Floats, weight: float) -> None:
        """Take in the gradient ``weight * x (x) direction``."""

    def weights(self, state: Any) -> Floats:
        """W as a d x K matrix; by default the field `weights`."""
        return state.weights

    def guarantee(self) -> float | None:
        """The h with ``regret <= h sqrt(sum ||g||^2)`` against every U that the optimizer can reach, or None."""
        return None

    def reach(self) -> float:
        """The radius of the ball that W never leaves."""
        return math.inf

    @compiled
    def share(self, state: Any, x: Row, k: int, derivative: float) -> float:
        """What the entries ``derivative * x`` of class k add to the sum that :meth:`stability` is given.

        By default their squared norm, so that the sum over the classes is ``||g||^2``.
        """
        return derivative * derivative * x.squared

    @compiled
    def stability(self, state: Any, total: float) -> float:
        """S_t(g), where the shares of g add up to `total`; by default there is none."""
        return math.nan

    def has_stability(self) -> bool:
        """Whether the optimizer states its stability, which :class:`gappletron.Optimised` needs."""
        return type(self).stability is not Optimizer.stability

    @compiled
    def uncertainty(self, state: Any, x: Row, a: int, b: int) -> float:
        """How little is known of the score of `a` minus that of `b` at x: from 1 (nothing) towards 0; 1 by default."""
        return 1.0

    def stability_offset(self, state: Any, U: Floats) -> float | None:
        """B_T(U) for the rounds that `state` has seen, infinite for a U outside of the optimizer's domain.

        None where the stability is a heuristic: then :class:`gappletron.Optimised` has no theorem.

        >>> from gappletron import AdaptiveOGD, FixedOGD
        >>> FixedOGD(rate=0.1).stability_offset(None, np.ones((3, 2))), AdaptiveOGD().stability_offset(None, np.ones(2))
        (30.0, None)
        """
        return None


@helper
def scale_all(weights: Floats, factor: float) -> None:
    """Multiply every entry by a factor."""
    for j in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            weights[j, k] = factor * to_double(weights[j, k])


@helper
def fill_all(weights: Floats, value: float) -> None:
    """Set every entry to a value."""
    for j in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            weights[j, k] = value


@helper
def copy_all(weights: Floats, out: Floats) -> None:
    """Copy every entry."""
    for j in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            out[j, k] = weights[j, k]


@helper
def exchange_all(weights: Floats, others: Floats) -> None:
    """Exchange every entry."""
    for j in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            kept = others[j, k]
            others[j, k] = weights[j, k]
            weights[j, k] = kept


@helper
def growth(before: float, added: float) -> float:
    """``sqrt(before + added) - sqrt(before)``, without cancellation."""
    if added == 0.0:
        return 0.0
    return added / (math.sqrt(before + added) + math.sqrt(before))


class AdaptiveOGD(Optimizer):
    """Online gradient descent as in the paper's experiments: ``eta_t = scale / sqrt(1e-8 + sum_{j<=t} ||g_j||^2)``.

    Without a projection it has no h: its regret can grow faster than the theorems allow.

    >>> AdaptiveOGD()
    AdaptiveOGD(scale=1.0)
    """

    scale: Positive = 1.0

    def declare(self) -> Layout:
        """W, and the sum of the squared gradient norms."""
        return {"weights": Field("features", "classes"), "total": Field(least=0)}

    def step(self, state: Any, x: Row, direction: Floats, weight: float) -> None:
        squared = squared_length(direction, x)
        if squared > 0.0:  # where the label is right by a margin there is no gradient: most rounds, in the end
            state.total[0] += weight * weight * squared * x.squared
            eta = self.scale / math.sqrt(DELTA + state.total[0])
            add_outer(state.weights, x, direction, -eta * weight)

    def stability(self, state: Any, total: float) -> float:
        """``eta_t/2 ||g||^2``, a heuristic: without a projection B_T depends on the run."""
        return 0.5 * self.scale * total / math.sqrt(DELTA + state.total[0] + total)


class InBall(Optimizer, abstract=True):
    """Optimizers that keep ``W = scale * V`` in the ball of their `radius`."""

    radius: float

    def declare(self) -> Layout:
        """``W = scale * V``, ``||V||^2``, and the sum of the squared gradient norms."""
        return {
            "weights": Field("features", "classes"),
            "scale": Field(fill=1.0, above=0),
            "squared": Field(least=0),
            "total": Field(least=0),
            "inner": Scratch("classes"),
        }

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        dot(state.weights, x, out)
        for k in range(out.size):
            out[k] *= state.scale[0]

    def weights(self, state: Any) -> Floats:
        return state.scale[0] * state.weights

    def reach(self) -> float:
        return self.radius

    def holds(self, U: Floats) -> bool:
        """Whether U is in the ball, up to rounding."""
        return float(np.sqrt((U * U).sum())) <= self.radius * (1.0 + 1e-12)


class WithGuarantee(InBall, abstract=True):
    """Optimizers whose regret against every U in their ball is at most ``h sqrt(sum ||g||^2)``; B = inf: no h."""

    @abstractmethod
    @compiled
    def regret_factor(self) -> float:
        """The h of a ball with a finite radius."""

    def guarantee(self) -> float | None:
        return None if math.isinf(self.radius) else float(self.regret_factor())

    def stability(self, state: Any, total: float) -> float:
        """``h (sqrt(G + ||g||^2) - sqrt(G))``, with G the sum of the squared norms before the round: these add up to
        the bound on the regret.
        """
        return self.regret_factor() * growth(state.total[0], total)

    def has_stability(self) -> bool:
        return not math.isinf(self.radius)

    def stability_offset(self, state: Any, U: Floats) -> float | None:
        if math.isinf(self.radius):
            return None
        return 0.0 if self.holds(U) else math.inf


@helper
def count_gradient(state: Any, x: Row, direction: Floats, weight: float) -> bool:
    """Add ||g||^2 to the total; whether there is a gradient, and enough of them to learn from."""
    squared = weight * weight * squared_length(direction, x) * x.squared
    if not squared > 0.0:
        return False
    state.total[0] += squared
    return state.total[0] > SMALLEST_TOTAL


@helper
def fold(state: Any) -> None:
    """Multiply the scale into V."""
    scale = state.scale[0]
    for j in range(state.weights.shape[0]):
        for k in range(state.weights.shape[1]):
            state.weights[j, k] *= scale
    # Below 1e-300 the square of the scale has lost digits.
    state.squared[0] = state.squared[0] * (scale * scale) if scale * scale > 1e-300 else squared_norm(state.weights)
    state.scale[0] = 1.0


@helper
def move(state: Any, x: Row, direction: Floats, factor: float) -> None:
    """W += factor * x (x) direction, and ||V||^2 with it."""
    on_V = factor / state.scale[0]
    if abs(on_V) > SAFE_FACTOR and (
        max(1.0, math.sqrt(squared_length(direction, x) * x.squared)) > LONGEST_STEP / abs(on_V)
    ):
        fold(state)
        on_V = factor
    add_measured(state, x, direction, on_V)


@helper
def add_measured(state: Any, x: Row, direction: Floats, factor: float) -> None:
    """V += factor * x (x) direction, and ||V||^2 with it: ||V + D||^2 = ||V||^2 + 2 <V, D> + ||D||^2."""
    dot(state.weights, x, state.inner)  # of V as it is now: with delayed feedback the scores at hand may be old
    inner = inner_product(direction, state.inner)
    change = 2.0 * factor * inner + factor * factor * squared_length(direction, x) * x.squared
    state.squared[0] = max(0.0, state.squared[0] + change)
    add_outer(state.weights, x, direction, factor)


@helper
def project(state: Any, radius: float) -> None:
    """Scale W back into the ball, if it is outside."""
    length = state.scale[0] * math.sqrt(state.squared[0])
    if length > radius:
        state.scale[0] *= radius / length
        if state.scale[0] < SMALLEST_SCALE:
            fold(state)


class ProjectedOGD(WithGuarantee):
    """Adaptive gradient descent on the ball of radius B: ``eta_t = sqrt(2) B / sqrt(sum_{j<=t} ||g_j||^2)``.

    ``h = 2 sqrt(2) B`` for every ``||U|| <= B`` (Orabona, "A modern introduction to online learning", section 4.2.1,
    for the diameter 2 B): the optimizer that bounds are tested and reported with.

    >>> ProjectedOGD(radius=3)
    ProjectedOGD(radius=3.0)
    """

    radius: Positive = 1.0

    def step(self, state: Any, x: Row, direction: Floats, weight: float) -> None:
        if count_gradient(state, x, direction, weight):
            eta = math.sqrt(2.0) * self.radius / math.sqrt(state.total[0])
            move(state, x, direction, -eta * weight)
            project(state, self.radius)

    def regret_factor(self) -> float:
        return 2.0 * math.sqrt(2.0) * self.radius


class FixedOGD(InBall):
    """Online gradient descent with a fixed rate, projected onto the ball of radius B (Gaptron's); B = inf: no
    projection.

    Its regret is ``||U||^2 / (2 rate) + rate/2 sum ||g||^2`` (Zinkevich 2003), which is not of the form that the
    theorems need: no h.

    >>> FixedOGD(0.1)
    FixedOGD(rate=0.1, radius=inf)
    """

    rate: Positive = 0.1
    radius: PositiveOrInfinite = math.inf

    def step(self, state: Any, x: Row, direction: Floats, weight: float) -> None:
        move(state, x, direction, -self.rate * weight)
        project(state, self.radius)

    def stability(self, state: Any, total: float) -> float:
        """``rate/2 ||g||^2``."""
        return 0.5 * self.rate * total

    def stability_offset(self, state: Any, U: Floats) -> float:
        """``||U||^2 / (2 rate)``."""
        return float((U * U).sum()) / (2.0 * self.rate) if self.holds(U) else math.inf


class AdaGrad(Optimizer):
    """Diagonal AdaGrad (Duchi, Hazan, Singer 2011): each weight has its own rate, ``rate / sqrt(1e-8 + sum g_jk^2)``.

    With a finite `clip` every weight is kept in [-clip, clip]. Its guarantee is not one in the Euclidean norm: no h.

    >>> AdaGrad(rate=0.5)
    AdaGrad(rate=0.5, clip=inf)
    """

    rate: Positive = 1.0
    clip: PositiveOrInfinite = math.inf

    def declare(self) -> Layout:
        """W, and the sum of the squared gradients, coordinate by coordinate."""
        return {"weights": Field("features", "classes"), "totals": Field("features", "classes", least=0)}

    def step(self, state: Any, x: Row, direction: Floats, weight: float) -> None:
        numbers = (weight, self.rate, DELTA, self.clip)
        k = next_nonzero(direction, x, 0)
        while k < direction.size:  # most classes have no gradient in most rounds, and roots are slow
            root_step((state.weights, state.totals), x, k, direction[k], numbers)
            k = next_nonzero(direction, x, k + 1)

    @compiled
    def begin_anew(self, state: Any, keep: float) -> None:
        """Forget how certain the weights are, and keep only this part of them."""
        scale_all(state.weights, keep)
        fill_all(state.totals, 0.0)

    def share(self, state: Any, x: Row, k: int, derivative: float) -> float:
        """The stability itself, class by class, each weight by its own sum G_jk of squares before the round.

        Clipped to [-b, b]: ``(2 b^2 / rate + rate) sum_j (sqrt(1e-8 + G_jk + g_j^2) - sqrt(1e-8 + G_jk))``. Otherwise
        ``rate/2 sum_j g_j^2 / sqrt(1e-8 + G_jk + g_j^2)``, a heuristic: B_T depends on the run.
        """
        total = 0.0
        if self.clip < math.inf:
            for p in range(x.start, x.stop):
                g = derivative * x.values[p]
                total += growth(DELTA + state.totals[x.indices[p], k], g * g)
            return (2.0 * self.clip * self.clip / self.rate + self.rate) * total
        for p in range(x.start, x.stop):
            g = derivative * x.values[p]
            total += g * g / math.sqrt(DELTA + state.totals[x.indices[p], k] + g * g)
        return 0.5 * self.rate * total

    def stability(self, state: Any, total: float) -> float:
        return total

    def stability_offset(self, state: Any, U: Floats) -> float | None:
        """``(2 b^2 / rate) sqrt(1e-8)`` for every weight that had a gradient."""
        if math.isinf(self.clip):
            return None
        if float(np.abs(U).max()) > self.clip * (1.0 + 1e-12):
            return math.inf
        return 2.0 * self.clip * self.clip / self.rate * math.sqrt(DELTA) * int((state.totals > 0.0).sum())


class ScaleFreeFTRL(WithGuarantee):
    """SOLO FTRL (Orabona and Pal 2018): ``W = -sum g / sqrt(sum ||g||^2)``, projected onto the ball of radius B.

    Their Theorem 1 with the regulariser ``||.||^2 / 2`` and the diameter 2 B gives, for ``||U|| <= B``,
    ``h = B^2 / 2 + 2.75 + 7 B``. B = inf: no projection, and no h.

    >>> ScaleFreeFTRL().guarantee() is None, ScaleFreeFTRL(radius=1.0).guarantee()
    (True, 10.25)
    """

    radius: PositiveOrInfinite = math.inf

    def declare(self) -> Layout:
        """As the others, but V is the sum of the gradients, so the scale is negative after the first."""
        return {**super().declare(), "scale": Field(fill=1.0)}

    def step(self, state: Any, x: Row, direction: Floats, weight: float) -> None:
        if count_gradient(state, x, direction, weight):
            add_measured(state, x, direction, weight)
            # The scale follows from the sums alone, so it never wears down and there is nothing to fold in.
            state.scale[0] = -1.0 / math.sqrt(state.total[0])
            if self.radius * self.radius < CANCELLED and state.squared[0] < CANCELLED * state.total[0]:
                state.squared[0] = squared_norm(state.weights)
            length = -state.scale[0] * math.sqrt(state.squared[0])
            if length > self.radius:
                state.scale[0] *= self.radius / length

    def regret_factor(self) -> float:
        return self.radius * self.radius / 2.0 + 2.75 + 7.0 * self.radius


class ConfidenceWeighted(Optimizer):
    """Steps of at most the size of the error, larger for weights that are less certain; there is no rate to set.

    The update of AROW (Crammer, Kulesza, Dredze 2009) with a diagonal covariance, for any derivatives d of the loss
    with respect to the scores. With ``V_k = sum_j x_j^2 S_jk``, an importance weight v, and ``r = noise * mean
    ||x||^2``::

        W_jk <- W_jk - v d_k S_jk x_j / (r + v V_k)
        1/S_jk <- 1/S_jk + shrink * v x_j^2 / r         where d_k is not 0

    A step changes the score of class k by less than d_k, whatever v is. It is the implicit step for a squared loss, for
    which d_k is the whole error. Features that are all multiplied by a number give the same scores. The mean is that of
    the rounds which were learned from. There is no h.

    With `retain` below 1 it forgets: before each step ``1/S_jk <- 1 + retain (1/S_jk - 1)`` for the features of x and
    the classes that are moved. Then no weight stays certain for long, and the scores follow what was seen last.

    >>> ConfidenceWeighted()
    ConfidenceWeighted(noise=0.03, shrink=0.3, retain=1.0)
    """

    noise: Positive = 0.03
    shrink: NotNegative = 0.3
    retain: Share = 1.0

    def declare(self) -> Layout:
        """W, the variances S, and the squared norms of the rows that were learned from: their sum and their number; for
        one step V.
        """
        return {
            "weights": Field("features", "classes"),
            "variances": Field("features", "classes", fill=1.0, above=0),
            "total": Field(least=0),
            "rows": Field(least=0),
            "V": Scratch("classes"),
        }

    def step(self, state: Any, x: Row, direction: Floats, weight: float) -> None:
        confident_step(self, state, x, direction, weight)

    @compiled
    def begin_anew(self, state: Any, keep: float) -> None:
        """Forget how certain the weights are, and keep only this part of them."""
        scale_all(state.weights, keep)
        fill_all(state.variances, 1.0)

    def uncertainty(self, state: Any, x: Row, a: int, b: int) -> float:
        """The mean of S over both classes and the features, weighted by x_j^2."""
        total = 0.0
        for p in range(x.start, x.stop):
            j = x.indices[p]
            total += x.values[p] * x.values[p] * (to_double(state.variances[j, a]) + to_double(state.variances[j, b]))
        return 0.5 * total / x.squared if total > 0.0 else 1.0


@seldom
def confident_step(optimizer: ConfidenceWeighted, state: Any, x: Row, direction: Floats, weight: float) -> None:
    """The step of :class:`ConfidenceWeighted`."""
    state.total[0] += x.squared
    state.rows[0] += 1.0
    r = optimizer.noise * (state.total[0] / state.rows[0])
    if r > SHORTEST and x.squared > 0.0:
        needed, gain = r / weight, optimizer.shrink * (weight / r)
        if optimizer.retain == 1.0:
            weigh_squares(state.variances, x, state.V)
        k = next_nonzero(direction, x, 0)
        while k < direction.size:
            if optimizer.retain < 1.0:
                state.V[k] = forget_certainty(state.variances, x, k, optimizer.retain)
            step = -direction[k] / (needed + state.V[k])
            variance_step((state.weights, state.variances), x, k, step, gain, SMALLEST_VARIANCE)
            k = next_nonzero(direction, x, k + 1)
