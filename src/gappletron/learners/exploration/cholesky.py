"""Systems of linear equations with a symmetric positive matrix, solved in place: the Newton steps of two programs."""

from __future__ import annotations

import math

from gappletron.kernel.numerics import Floats
from gappletron.kernel.pieces import seldom

__all__ = ["back_substitute", "factorise"]


@seldom
def factorise(matrix: Floats, pivots: Floats) -> None:
    """Cholesky's factor in the lower half; a pivot lost to rounding becomes so large that its row stays fixed."""
    for i in range(pivots.size):
        for j in range(i):
            entry = matrix[i, j]
            for k in range(j):
                entry -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = entry / pivots[j]
        entry = matrix[i, i]
        for k in range(i):
            entry -= matrix[i, k] * matrix[i, k]
        pivots[i] = math.sqrt(entry) if entry > 1e-15 * matrix[i, i] else 1e100


@seldom
def back_substitute(matrix: Floats, pivots: Floats, vector: Floats) -> None:
    """Solve for the vector in place, with the factor of :func:`factorise`."""
    N = pivots.size
    for i in range(N):
        entry = vector[i]
        for k in range(i):
            entry -= matrix[i, k] * vector[k]
        vector[i] = entry / pivots[i]
    for i in range(N - 1, -1, -1):
        entry = vector[i]
        for k in range(i + 1, N):
            entry -= matrix[k, i] * vector[k]
        vector[i] = entry / pivots[i]
