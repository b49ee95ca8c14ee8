"""Surrogate losses l(W, x, y), as functions of the scores s = W x: section 2 of the paper, and its appendix on the
hinge.

A loss is *regular* for K classes if ``(K-1)/K l(y) + 1/K a >= 1`` for every ``y != y*`` (the paper's equation "wrong
plus right"), where ``a`` is the gap map and ``y*`` the argmax of the scores. Lemma 1 and the theorems hold for regular
losses; :meth:`Loss.is_regular` says for which K a loss is regular. L is the constant in ``||grad l||^2 <= 2 L l``, G is
a bound on ``||grad l||``, and X is the largest ``||x_t||_2``.
"""

import math
from abc import abstractmethod
from typing import ClassVar, NamedTuple

from gappletron.base.errors import UserError
from gappletron.kernel.numerics import (
    argmax,
    exponentials,
    hinge_direction,
    log_of,
    log_partition,
    margin,
    rival,
    softmax_gradient,
)
from gappletron.kernel.pieces import Piece, compiled, helper
from gappletron.kernel.types import Floats


class Plane(NamedTuple):
    """What :meth:`Loss.plane` returns: the loss at some scores, the smoothed loss there, and the constant of a plane
    ``constant + <out, s>`` that is at most the loss for all scores s.

    >>> import numpy as np
    >>> from gappletron import LogisticBase2
    >>> float(LogisticBase2().plane(np.zeros(2), 0, 0.1, np.zeros(2)).constant)
    1.0
    """

    value: float
    smoothed: float
    constant: float


class Loss(Piece, abstract=True):
    """The family of surrogate losses. A new loss is a subclass with the six abstract methods; the rest has defaults.

    >>> import numpy as np
    >>> from gappletron import SmoothHinge
    >>> loss, s = SmoothHinge(), np.array([0.6, 0.1, 0.0])
    >>> [float(number) for number in (loss.gap(s, 0), loss.value(s, 0, 0), loss.value(s, 0, 1))]
    [0.25, 0.25, 2.0]
    """

    @abstractmethod
    @compiled
    def value(self, scores: Floats, greedy: int, y: int) -> float:
        """The loss of label `y` at these scores; `greedy` is y*, the argmax of the scores."""

    @abstractmethod
    @compiled
    def gradient(self, scores: Floats, greedy: int, y: int, out: Floats) -> None:
        """Fill `out` with the derivatives of the loss of `y` with respect to the scores."""

    @abstractmethod
    @compiled
    def gap(self, scores: Floats, greedy: int) -> float:
        """The gap map a in [0, 1]: the loss of y*, at most 1."""

    @compiled
    def gap_with(self, scores: Floats, greedy: int, work: Floats) -> float:
        """As :meth:`gap`; it may leave in `work` (K numbers) what :meth:`gradient_with` can use in the same round."""
        return self.gap(scores, greedy)

    @compiled
    def gradient_with(self, scores: Floats, greedy: int, y: int, work: Floats, out: Floats) -> None:
        """As :meth:`gradient`, after :meth:`gap_with` of the same scores."""
        self.gradient(scores, greedy, y, out)

    @compiled
    def values_with(self, scores: Floats, greedy: int, work: Floats, out: Floats) -> None:
        """Fill `out` with the loss of every label, after :meth:`gap_with` of the same scores."""
        for y in range(out.size):
            out[y] = self.value(scores, greedy, y)

    @abstractmethod
    def is_regular(self, classes: int) -> bool:
        """Whether the loss is regular for this number of classes, so that the theorems apply."""

    @abstractmethod
    def smoothness(self, classes: int, max_norm: float) -> float:
        """The constant L in ``||grad l||^2 <= 2 L l``."""

    @abstractmethod
    def gradient_bound(self, classes: int, max_norm: float) -> float:
        """An upper bound G on ``||grad l||``."""

    def at_zero(self, classes: int) -> float:
        """The loss at W = 0."""
        return 1.0

    def effective_classes(self, classes: int) -> float:
        """K', which replaces K in gamma and in the bounds."""
        return float(classes)

    def gaptron_rate(self, classes: int, max_norm: float) -> float | None:
        """Gaptron's learning rate under full information, or None where none is known."""
        return None

    gappletron_name: ClassVar[str] = ""
    """What Gappletron with this loss is called (``gapsmh``); by default ``gappletron-`` and the name of the class."""

    gaptron_name: ClassVar[str] = ""
    """What Gaptron with this loss is called (``gaptron-smh``); by default ``gaptron-`` and the name of the class."""

    has_case_split: ClassVar[bool] = False
    """Whether the learner's own weights decide in which rounds the loss is 0 for every comparator."""

    @compiled
    def plane(self, scores: Floats, y: int, mu: float, out: Floats) -> Plane:
        """The loss of `y` smoothed at the temperature `mu`, and a plane below the loss; `out` becomes the gradient of
        both.

        :func:`gappletron.best_comparator` minimises the smoothed loss and computes its gap from the planes. By default
        nothing is smoothed and the plane is the tangent. This is valid for every convex loss without a case split, but
        the gap can be large for a loss with kinks.
        """
        greedy = argmax(scores)
        value = self.value(scores, greedy, y)
        self.gradient(scores, greedy, y, out)
        constant = value
        for k in range(out.size):
            constant -= out[k] * scores[k]
        return Plane(value, value, constant)


@helper
def soften(scores: Floats, y: int, mu: float, out: Floats) -> float:
    """mu ln sum_{k != y} exp(s_k / mu), an upper bound on the best other score; `out` becomes its gradient p."""
    r = rival(scores, y)
    total = 0.0
    for k in range(scores.size):
        out[k] = 0.0
        if k != y:
            out[k] = math.exp((scores[k] - scores[r]) / mu)
            total += out[k]
    for k in range(scores.size):
        out[k] /= total
    return scores[r] + mu * math.log(total)


@helper
def spread(y: int, slope: float, out: Floats) -> None:
    """Replace the p in `out` by -slope (e_y - p)."""
    for k in range(out.size):
        out[k] *= slope
    out[y] = -slope


@helper
def hinge_plane(scores: Floats, y: int, mu: float, out: Floats) -> Plane:
    """:meth:`Loss.plane` of max(0, 1 - m), the hinge without a case split: both maxima are smoothed.

    The plane is below the loss since ``max(0, 1 - m) >= a (1 - m)`` for every a in [0, 1].

    >>> import numpy as np
    >>> float(hinge_plane(np.array([1.0, 0.0]), 0, 0.1, np.zeros(2)).constant)
    0.5
    """
    z = (1.0 - (scores[y] - soften(scores, y, mu, out))) / mu
    small = math.exp(-abs(z))
    a = (1.0 if z > 0.0 else small) / (1.0 + small)
    spread(y, a, out)
    return Plane(max(0.0, 1.0 - margin(scores, y)), mu * (max(0.0, z) + math.log1p(small)), a)


class Hinges(Loss, abstract=True):
    """Losses of the margin, whose gradient has two entries: y and its rival, the largest of the other scores. The gap
    map is the loss of y*, which is at most 1. By default the slope is at most 1, and the plane that of the hinge.
    """

    def gap_with(self, scores: Floats, greedy: int, work: Floats) -> float:
        r = rival(scores, greedy)
        work[0] = r
        return self.value_of(scores[greedy] - scores[r], True, scores.size)

    def gradient_with(self, scores: Floats, greedy: int, y: int, work: Floats, out: Floats) -> None:
        r = greedy if y != greedy else int(work[0])
        hinge_direction(y, r, self.slope(scores[y] - scores[r], y == greedy, scores.size), out)

    def values_with(self, scores: Floats, greedy: int, work: Floats, out: Floats) -> None:
        for y in range(out.size):
            r = greedy if y != greedy else int(work[0])
            out[y] = self.value_of(scores[y] - scores[r], y == greedy, scores.size)

    def value(self, scores: Floats, greedy: int, y: int) -> float:
        return self.value_of(margin(scores, y), y == greedy, scores.size)

    def gap(self, scores: Floats, greedy: int) -> float:
        return self.value_of(margin(scores, greedy), True, scores.size)

    def gradient(self, scores: Floats, greedy: int, y: int, out: Floats) -> None:
        r = greedy if y != greedy else rival(scores, y)
        hinge_direction(y, r, self.slope(scores[y] - scores[r], y == greedy, scores.size), out)

    def gradient_bound(self, classes: int, max_norm: float) -> float:
        return math.sqrt(2.0) * max_norm

    def plane(self, scores: Floats, y: int, mu: float, out: Floats) -> Plane:
        return hinge_plane(scores, y, mu, out)

    @abstractmethod
    @compiled
    def value_of(self, m: float, right: bool, classes: int) -> float:
        """The loss of a class with the margin m; `right`: the class is y*."""

    @abstractmethod
    @compiled
    def slope(self, m: float, right: bool, classes: int) -> float:
        """How fast the loss of a class with the margin m falls with it; `right`: the class is y*."""


@helper
def smooth_hinge(right: bool, m: float) -> float:
    """The smooth hinge of a class with the margin m; `right`: the class is y*."""
    if not right:
        return 1.0 - 2.0 * m
    return (1.0 - m) * (1.0 - m) if m < 1.0 else 0.0


@helper
def smooth_slope(right: bool, m: float) -> float:
    """Minus the derivative of :func:`smooth_hinge` by m."""
    if not right:
        return 2.0
    return 2.0 * (1.0 - m) if m < 1.0 else 0.0


class SmoothHinge(Hinges):
    """The smooth multiclass hinge of Rennie and Srebro (2005), the default: regular for every K >= 2.

    l(y) = 1 - 2 m(y) for y != y*; (1 - m*)^2 for y = y* with m* < 1; else 0. The gap map is l(y*).

    >>> SmoothHinge().is_regular(2), SmoothHinge().smoothness(9, max_norm=2.0)
    (True, 16.0)
    """

    gappletron_name, gaptron_name = "gapsmh", "gaptron-smh"

    def value_of(self, m: float, right: bool, classes: int) -> float:
        return smooth_hinge(right, m)

    def slope(self, m: float, right: bool, classes: int) -> float:
        return smooth_slope(right, m)

    def is_regular(self, classes: int) -> bool:
        return True

    def smoothness(self, classes: int, max_norm: float) -> float:
        return 4.0 * max_norm * max_norm

    def gradient_bound(self, classes: int, max_norm: float) -> float:
        return 2.0 * math.sqrt(2.0) * max_norm

    def gaptron_rate(self, classes: int, max_norm: float) -> float:
        return 1.0 / (4.0 * classes * max_norm * max_norm)

    def plane(self, scores: Floats, y: int, mu: float, out: Floats) -> Plane:
        # As a function f of the margin, f(m) >= 2a(1 - m) - a^2 for every a in [0, 1], with equality at a = 1 - m.
        m = scores[y] - soften(scores, y, mu, out)
        a = min(1.0, max(0.0, 1.0 - m))
        spread(y, 2.0 * a, out)
        return Plane(self.value(scores, argmax(scores), y), 2.0 * a * (1.0 - m) - a * a, 2.0 * a - a * a)


class Hinge(Hinges):
    """The multiclass hinge of the paper's appendix: 0 where the learner is right by a margin of at least kappa.

    l(y) = max(0, 1 - m(y)), and 0 for y = y* with m* >= kappa; the gap map is l(y*). The case split uses the
    *learner's* scores. Regular for ``K >= (1 + kappa)/kappa``, which is K >= 3 for the paper's kappa = 1/2. For smaller
    K, Lemma 1 holds with K' = (1 + kappa)/kappa in place of K.

    >>> Hinge().is_regular(2), Hinge().is_regular(3), Hinge().effective_classes(2)
    (False, True, 3.0)
    """

    kappa: float = 0.5

    gappletron_name = "gaphin"
    has_case_split = True

    def check(self) -> None:
        if not 0.0 < self.kappa < 1.0:
            raise UserError(f"Hinge's kappa must be between 0 and 1 (the paper uses 1/2), not {self.kappa:g}")

    def value_of(self, m: float, right: bool, classes: int) -> float:
        if right:
            return 1.0 - m if m < self.kappa else 0.0
        return max(0.0, 1.0 - m)

    def slope(self, m: float, right: bool, classes: int) -> float:
        return 0.0 if right and m >= self.kappa else 1.0

    def is_regular(self, classes: int) -> bool:
        return classes >= (1.0 + self.kappa) / self.kappa

    def smoothness(self, classes: int, max_norm: float) -> float:
        return max_norm * max_norm / (1.0 - self.kappa)

    def effective_classes(self, classes: int) -> float:
        return max(float(classes), (1.0 + self.kappa) / self.kappa)


@helper
def sum_logarithm(exponentials: Floats, greedy: int) -> float:
    """Return ``-ln softmax(s)_{y*}`` from the exponentials of ``s - s_{y*}``."""
    total = 0.0
    for k in range(exponentials.size):
        if k != greedy:
            total += exponentials[k]
    return math.log1p(total)


class Logistic(Loss, abstract=True):
    """Losses ``-ln softmax(s)_y / ln(base)``: the exponentials of the gap map serve for the gradient."""

    @abstractmethod
    @compiled
    def log_base(self, classes: int) -> float:
        """ln(base)."""

    @compiled
    def gap_of(self, m: float, classes: int) -> float:
        """The gap map where ``m = -ln softmax(s)_{y*}``: by default the loss of y*, at most 1."""
        return min(1.0, m / self.log_base(classes))

    def value(self, scores: Floats, greedy: int, y: int) -> float:
        return (log_partition(scores, greedy) + scores[greedy] - scores[y]) / self.log_base(scores.size)

    def gap(self, scores: Floats, greedy: int) -> float:
        return self.gap_of(log_partition(scores, greedy), scores.size)

    def gradient(self, scores: Floats, greedy: int, y: int, out: Floats) -> None:
        exponentials(scores, greedy, out)
        softmax_gradient(out, y, 1.0 / self.log_base(scores.size), out)

    def gap_with(self, scores: Floats, greedy: int, work: Floats) -> float:
        exponentials(scores, greedy, work)
        return self.gap_of(sum_logarithm(work, greedy), scores.size)

    def values_with(self, scores: Floats, greedy: int, work: Floats, out: Floats) -> None:
        m = sum_logarithm(work, greedy)
        for y in range(out.size):
            out[y] = (m + scores[greedy] - scores[y]) / self.log_base(scores.size)

    def gradient_with(self, scores: Floats, greedy: int, y: int, work: Floats, out: Floats) -> None:
        softmax_gradient(work, y, 1.0 / self.log_base(scores.size), out)

    def smoothness(self, classes: int, max_norm: float) -> float:
        return max_norm * max_norm / float(self.log_base(classes))

    def gradient_bound(self, classes: int, max_norm: float) -> float:
        return math.sqrt(2.0) * max_norm / float(self.log_base(classes))


class LogisticBaseK(Logistic):
    """The paper's logistic loss, ``l(y) = -log_K softmax(s)_y``; its gap map is l(y*).

    Regular for K = 2 only: the paper's claim is false for K >= 3 (docs, page Errata), and its theorems may fail. Use it
    to reproduce the paper, and :class:`LogisticBase2` where a guarantee is needed.

    >>> LogisticBaseK().is_regular(2), LogisticBaseK().is_regular(3)
    (True, False)
    """

    gappletron_name = "gaplog"

    def log_base(self, classes: int) -> float:
        return log_of(classes)

    def is_regular(self, classes: int) -> bool:
        return classes == 2


class InBase2(Logistic, abstract=True):
    """The logistic loss in base 2, ``l(y) = -log_2 softmax(s)_y``; its subclasses differ in the gap map."""

    def log_base(self, classes: int) -> float:
        return math.log(2.0)

    def at_zero(self, classes: int) -> float:
        return math.log2(classes)


# b = max_s 2 (1-s)^2 / (-ln s ln 2), rounded up: ||grad l||^2 <= b ||x||^2 l for the logistic loss l in base 2, the
# smallest number that does for all K (docs, page Decoding).
CURVATURE = 1.1751166


class LogisticBase2(InBase2):
    """The logistic loss in base 2 with the gap map ``min(1, l(y*))``: regular for every K.

    Proof: let q = softmax(s). If q_{y*} >= 1/2, then q_y <= 1 - q_{y*}, and the sum in the definition is 1 at q_{y*} =
    1/2 and increases with q_{y*}. If q_{y*} < 1/2, then a = 1 and l(y) > 1.

    >>> LogisticBase2().is_regular(12), LogisticBase2().at_zero(8)
    (True, 3.0)
    """

    gappletron_name = "gaplog2"  # ours; the others are the paper's

    def is_regular(self, classes: int) -> bool:
        return True

    def smoothness(self, classes: int, max_norm: float) -> float:
        return 0.5 * CURVATURE * max_norm * max_norm
