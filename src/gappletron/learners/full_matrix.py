"""The inverse of a matrix with a row and a column per weight, kept by rank-one steps, for the full-matrix learners.

Entry ``[j, k, m, l]`` belongs to the weights of feature j, class k and feature m, class l.

Each step subtracts from A^-1, whose entries have about 16 digits. Where a row is so long, or its direction so well
known, that what remains is below the rounding errors, A^-1 would cease to be positive definite, and W would diverge. So
a row with ``weight |g|^2`` beyond :data:`LONGEST` (in units of the first A) counts as a shorter one, and a step that
rounding errors would decide is left out. Rows of ordinary size are not affected: with A = I at first, LONGEST is a norm
of 700,000.
"""

import math
from typing import Any

from gappletron.kernel.numerics import Row, squared_length
from gappletron.kernel.pieces import helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats

LONGEST = 1e12  # the largest ``weight |g|^2 * first`` of a step, with `first` on the diagonal of A^-1 at the start
FAINTEST = 1e-13  # where ``<g, A^-1 g>`` is below this part of ``|g|^2 * first``, it consists of rounding errors
LARGEST_MISS = 1e20  # what a step corrects, such as ``1 - <g, W>``, is far below this but for rounding errors


def declare_inverse(first: float) -> Layout:
    """Return the fields W and A^-1, at the start ``first * I`` of size Kd x Kd, and the scratch of a step."""
    return {
        "weights": Field("features", "classes"),
        "inverse": Field("features", "classes", "features", "classes", diagonal=first, above=0),
        "solution": Scratch("features", "classes"),
        "direction": Scratch("classes"),
    }


@helper
def shorten(x: Row, direction: Floats, weight: float, first: float) -> float:
    """Scale the direction down so that ``weight |g|^2 * first`` is at most LONGEST; returns the factor, mostly 1."""
    length = weight * squared_length(direction, x) * x.squared * first
    if not length > LONGEST:
        return 1.0
    factor = math.sqrt(LONGEST / length)
    for k in range(direction.size):
        direction[k] *= factor
    return factor


@helper
def is_sound(state: Any, x: Row, direction: Floats, quadratic: float, first: float, factor: float, miss: float) -> bool:
    """Whether :func:`take_step` leaves a positive diagonal, and is not made of rounding errors.

    :param quadratic: ``<g, A^-1 g>``.
    :param miss: what the step corrects.
    """
    length = squared_length(direction, x) * x.squared * first
    share = quadratic / length if length > 0.0 else 1.0  # where g is so short that its square is 0
    if not (share >= FAINTEST and abs(miss) < LARGEST_MISS):
        return False
    inverse, vector = state.inverse, state.solution
    for j in range(inverse.shape[0]):
        for k in range(inverse.shape[1]):
            if not factor * (vector[j, k] * vector[j, k]) < inverse[j, k, j, k]:
                return False
    return True


@helper
def solve(inverse: Floats, x: Row, direction: Floats, out: Floats) -> float:
    """out = A^-1 g for ``g = x (x) direction`` and a symmetric A^-1; returns <g, A^-1 g>.

    `direction` may be shorter than A has classes, for a round from before a class was added; `out` is of all of them.
    """
    d, K = inverse.shape[0], inverse.shape[1]
    for m in range(d):
        for n in range(K):
            out[m, n] = 0.0
    for p in range(x.start, x.stop):
        j = x.indices[p]
        for k in range(direction.size):
            if direction[k] != 0.0:
                factor = x.values[p] * direction[k]
                for m in range(d):
                    for n in range(K):
                        out[m, n] += factor * inverse[j, k, m, n]
    total = 0.0
    for p in range(x.start, x.stop):
        for k in range(direction.size):
            total += x.values[p] * direction[k] * out[x.indices[p], k]
    return total


@helper
def inner(weights: Floats, x: Row, direction: Floats) -> float:
    """<W, x (x) direction>."""
    total = 0.0
    for p in range(x.start, x.stop):
        for k in range(direction.size):
            total += x.values[p] * direction[k] * weights[x.indices[p], k]
    return total


@helper
def take_step(state: Any, along: float, factor: float) -> None:
    """W += along * u and A^-1 -= factor * u u^T, which leaves it exactly symmetric, for the solution u = A^-1 g."""
    inverse, u = state.inverse, state.solution
    d, K = inverse.shape[0], inverse.shape[1]
    for j in range(d):
        for k in range(K):
            state.weights[j, k] += along * u[j, k]
            if u[j, k] != 0.0:
                for m in range(d):
                    for n in range(K):
                        inverse[j, k, m, n] -= factor * (u[j, k] * u[m, n])
