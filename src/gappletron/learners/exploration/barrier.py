"""What the interior point methods of both programs share: Newton's method with a logarithmic barrier.

Both find a distribution p over N actions, and a number V. In every round of the method they write down the derivatives
of ``tau * objective + barrier``, solve for a Newton step, and go along it as far as the slope allows. All numbers are
in the rows of a few arrays (:func:`work_space`).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.kernel.pieces import helper, seldom
from gappletron.kernel.state import Layout, Scratch
from gappletron.kernel.types import Floats

Flags = NDArray[np.bool_]

# The rows of numbers per action: p, its step, the gradient of the barrier by p, its second derivatives by p and V, the
# solutions for that column and for ones, a constraint's slope, the pivots, and the slacks of as many constraints.
PLAY, STEP, GRADIENT, COLUMN, SOLVED, ONES, SLOPE, PIVOTS, SLACK = range(9)
# The rows of numbers per label: its propensity under p, what p saves there, and how both change along the step. The
# others are each program's own.
SEEN, SAVED, SEEN_STEP, SAVED_STEP, OWN = range(5)

LINE_STEPS = 60  # at most so many lengths of a step are tried
SHORTER = 0.6  # each by this factor shorter than the one before
NEAR = 0.3  # where the squared decrement is less, p is close to the minimum for this tau


def work_space() -> Layout:
    """Return the scratch of both programs. Few arrays, each with several rows, take less time to compile."""
    return {
        "labels": Scratch(OWN + 3, "classes"),
        "actions": Scratch(9, "actions"),
        "matrix": Scratch("actions", "actions"),
    }


@helper
def measure(program: Any, vector: Floats, start: float, seen: Floats, saved: Floats) -> None:
    """Fill `seen` with the sum of the vector over the actions that show each label, and `saved` with `start` plus what
    the vector saves there.
    """
    for y in range(program.saved.shape[0]):
        P, saving = 0.0, start
        for i in range(vector.size):
            saving += vector[i] * program.saved[y, i]
            if program.observers[y, i]:
                P += vector[i]
        seen[y] = P
        saved[y] = saving


@helper
def begin_derivatives(work: Any, every: float) -> None:
    """Begin the derivatives of the barrier with those of ``-sum_i ln p_i``, and of a term whose gradient has `every` in
    each entry, and its second derivatives the square of that.
    """
    p, gradient, column, matrix = work.actions[PLAY], work.actions[GRADIENT], work.actions[COLUMN], work.matrix
    for i in range(p.size):
        gradient[i] = every - 1.0 / p[i]
        column[i] = 0.0
        for j in range(i):
            matrix[i, j] = every * every
        matrix[i, i] = every * every + 1.0 / (p[i] * p[i])


@helper
def longest_step(work: Any) -> float:
    """Return the length of a step, at most 1, that leaves every p positive."""
    p, step, size = work.actions[PLAY], work.actions[STEP], 1.0
    for i in range(p.size):
        if step[i] < 0.0:
            size = min(size, 0.99 * p[i] / -step[i])
    return size


@helper
def add_slopes(work: Any, size: float, slope: float) -> float:
    """Add to a slope that of ``-sum_i ln p_i`` along a step of this size."""
    p, step = work.actions[PLAY], work.actions[STEP]
    for i in range(p.size):
        slope -= step[i] / (p[i] + size * step[i])
    return slope


@seldom
def factorise(matrix: Floats, pivots: Floats) -> None:
    """Put Cholesky's factor in the lower half; a pivot lost to rounding becomes so large that its row stays fixed."""
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
