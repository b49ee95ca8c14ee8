"""Small loops that every piece shares, in the one order of operations that all ways of running agree on.

Interpreted and compiled code give the same bits for plain loops, ``math.exp`` and ``math.log``; they do not for ``**``,
``np.exp``, ``np.sum`` or ``np.dot``. So kernels use the functions below and nothing else.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from gappletron._dispatch import helper

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int32]

LARGEST_VALUE = 1e100
"""A feature beyond this is refused at the border: its square, weighted and summed up, would leave the range of doubles.
"""

UNSEEN_LABEL = -1
"""In place of a label's position: the graph did not show it."""


class Row(NamedTuple):
    """A sparse feature vector x: entries `start` to `stop` of a chunk's indices and values."""

    indices: Ints
    values: Floats
    start: int
    stop: int


@helper
def argmax(scores: Floats) -> int:
    """The position of the largest score, the lowest one on a tie."""
    best = 0
    for k in range(1, scores.size):
        if scores[k] > scores[best]:
            best = k
    return best


@helper
def rival(scores: Floats, y: int) -> int:
    """The position of the largest score other than that of `y`, the lowest one on a tie."""
    best = 1 if y == 0 else 0
    for k in range(best + 1, scores.size):
        if k != y and scores[k] > scores[best]:
            best = k
    return best


@helper
def margin(scores: Floats, y: int) -> float:
    """m(y) = s_y - max_{k != y} s_k."""
    return scores[y] - scores[rival(scores, y)]


@helper
def hinge_direction(y: int, r: int, slope: float, out: Floats) -> None:
    """out = -slope (e_y - e_r), the gradient of a function of s_y - s_r that falls with this slope."""
    for k in range(out.size):
        out[k] = 0.0
    out[y] = -slope
    out[r] = slope


@helper
def log_partition(scores: Floats, top: int) -> float:
    """ln sum_k exp(s_k - s_top), with `top` the argmax: at least 0, and no term overflows."""
    total = 0.0
    for k in range(scores.size):
        if k != top:
            total += math.exp(scores[k] - scores[top])
    return math.log1p(total)


@helper
def dot(weights: Floats, x: Row, out: Floats) -> None:
    """out = W^T x for feature-major W (d x K): each active feature adds one contiguous row."""
    K = out.size
    for k in range(K):
        out[k] = 0.0
    for p in range(x.start, x.stop):
        j = x.indices[p]
        v = x.values[p]
        for k in range(K):
            out[k] += v * weights[j, k]


@helper
def squared_norm(x: Row) -> float:
    """||x||_2^2."""
    total = 0.0
    for p in range(x.start, x.stop):
        total += x.values[p] * x.values[p]
    return total


@helper
def squared_length(vector: Floats) -> float:
    """||vector||_2^2."""
    total = 0.0
    for k in range(vector.size):
        total += vector[k] * vector[k]
    return total


@helper
def add_outer(weights: Floats, x: Row, direction: Floats, factor: float) -> None:
    """W += factor * x (x) direction, touching only active features and the classes whose direction is not zero."""
    K = direction.size
    active = 0
    first = last = 0
    for k in range(K):
        if direction[k] != 0.0:
            if active == 0:
                first = k
            last = k
            active += 1
    if active == 2:
        # The two columns of a hinge-like loss: for many classes this is what keeps an update cheaper than the scores.
        a = factor * direction[first]
        b = factor * direction[last]
        for p in range(x.start, x.stop):
            j = x.indices[p]
            weights[j, first] += a * x.values[p]
            weights[j, last] += b * x.values[p]
    elif active > 0:
        for p in range(x.start, x.stop):
            j = x.indices[p]
            step = factor * x.values[p]
            for k in range(K):
                weights[j, k] += step * direction[k]


@helper
def softmax_gradient(scores: Floats, top: int, y: int, factor: float, out: Floats) -> None:
    """out = factor * (softmax(s) - e_y), the gradient of -factor * ln softmax(s)_y; `top` is the argmax."""
    total = 0.0
    for k in range(scores.size):
        out[k] = math.exp(scores[k] - scores[top])
        total += out[k]
    scale = factor / total
    for k in range(scores.size):
        out[k] *= scale
    out[y] -= factor
