"""The inverse of a matrix with a row and a column per weight, kept by rank-one steps, for the full-matrix learners.

Entry ``[j, k, m, l]`` belongs to the weights of feature j, class k and feature m, class l.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gappletron._dispatch import helper
from gappletron.state import Field

if TYPE_CHECKING:
    from gappletron.numerics import Floats, Row


def scaled_identity(scale: float) -> Field:
    """``scale * I``, of size Kd x Kd."""
    return Field("features", "classes", "features", "classes", diagonal=scale)


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
def deflate(inverse: Floats, vector: Floats, factor: float) -> None:
    """A^-1 -= factor * vector vector^T, which leaves it exactly symmetric."""
    d, K = inverse.shape[0], inverse.shape[1]
    for j in range(d):
        for k in range(K):
            if vector[j, k] != 0.0:
                for m in range(d):
                    for n in range(K):
                        inverse[j, k, m, n] -= factor * (vector[j, k] * vector[m, n])


@helper
def inner(weights: Floats, x: Row, direction: Floats) -> float:
    """<W, x (x) direction>."""
    total = 0.0
    for p in range(x.start, x.stop):
        for k in range(direction.size):
            total += x.values[p] * direction[k] * weights[x.indices[p], k]
    return total


@helper
def add_solution(weights: Floats, inverse: Floats, solution: Floats, factor: float) -> None:
    """W += factor * solution, for all classes of A."""
    for j in range(inverse.shape[0]):
        for k in range(inverse.shape[1]):
            weights[j, k] += factor * solution[j, k]
