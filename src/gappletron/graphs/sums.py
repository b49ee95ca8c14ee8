"""Matrices that are mostly a number per row plus a number per column, and their products with vectors.

Costs of 0 and 1 are 1 everywhere but on the diagonal. A dear action changes a row, a label that costs more a column, a
query adds a row. All of them are ``M[i, j] = rows[i] + columns[j]`` but for few entries, so that ``M v`` takes O(K) and
not O(K^2).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.kernel.numerics import argmax
from gappletron.kernel.pieces import seldom
from gappletron.kernel.state import freeze
from gappletron.kernel.types import Floats

# A matrix in which more than one in so many entries is an exception is kept whole.
MOST_EXCEPTIONS = 4

# An entry that differs by less than this, relative to its parts, is no exception.
SAME = 4.0 * float(np.finfo(float).eps)


class Sums(NamedTuple):
    """A matrix with n rows and m columns: ``rows[i] + columns[j]``, plus exceptions.

    :param first, lines, extra: places ``first[j]`` to ``first[j + 1]`` of the other two are the rows that have an
        exception in column j, and what it adds.
    :param whole: m x n, the transpose of the matrix, where there are too many exceptions; the others are 0 then.
    """

    rows: Floats
    columns: Floats
    first: NDArray[np.int64]
    lines: NDArray[np.int64]
    extra: Floats
    whole: Floats


def upper_median(matrix: Floats, axis: int, keepdims: bool) -> Floats:
    """Return the middle entry along an axis: the number that more than half of the entries are, if there is one."""
    middle = matrix.shape[axis] // 2
    return np.take(np.partition(matrix, middle, axis=axis), [middle] if keepdims else middle, axis=axis)


def peel(matrix: Floats, typical: Callable[..., Floats], axis: int) -> tuple[Floats, Floats, Floats]:
    """Return the rows, the columns and what is left; for axis 1 the rows are found first, for axis 0 the columns."""
    base = typical(matrix, axis=axis, keepdims=True)
    other = typical(matrix - base, axis=1 - axis, keepdims=True)
    extra = matrix - base - other
    extra[np.abs(extra) <= SAME * (np.abs(matrix) + np.abs(base) + np.abs(other))] = 0.0
    rows, columns = (base, other) if axis == 1 else (other, base)
    return rows.ravel(), columns.ravel(), extra


def split(matrix: Floats, typical: Callable[..., Floats] = upper_median) -> Sums:
    """Return a matrix as sums; `typical` is the number of a row or a column. With the least entry nothing is negative.

    >>> made = split(np.vstack([1.0 - np.eye(5), np.full(5, 0.25)]))  # a query costs a quarter
    >>> made.rows.tolist(), made.columns.tolist(), made.lines.tolist()
    ([1.0, 1.0, 1.0, 1.0, 1.0, 0.25], [0.0, 0.0, 0.0, 0.0, 0.0], [0, 1, 2, 3, 4])
    """
    n, m = matrix.shape
    rows, columns, extra = min(
        (peel(matrix, typical, axis) for axis in (1, 0)), key=lambda parts: int(np.count_nonzero(parts[2]))
    )
    labels, lines = np.nonzero(extra.T)
    if MOST_EXCEPTIONS * lines.size > n * m:
        rows, columns, labels, lines, whole = 0.0 * rows, 0.0 * columns, labels[:0], lines[:0], matrix.T
    else:
        whole = np.zeros((0, 0))
    first = np.searchsorted(labels, np.arange(m + 1)).astype(np.int64)
    made = Sums(rows, columns, first, lines.astype(np.int64), extra[lines, labels], np.ascontiguousarray(whole))
    freeze(made)
    return made


@seldom
def multiply(sums: Sums, v: Floats, out: Any) -> None:
    """Fill the first n entries of `out` with ``M v``, in O(n + m + exceptions).

    The largest entry of v is kept apart, so that ``1 - v_i`` is the sum of the others and not a difference. Rows that
    are alike give the same bits.
    """
    n, m, top = sums.rows.size, sums.columns.size, argmax(v)
    for i in range(n):
        out[i] = (sums.rows[i] + sums.columns[top]) * v[top]
    if sums.whole.size > 0:
        for j in range(m):
            factor = v[j]
            if factor != 0.0:
                for i in range(n):
                    out[i] += sums.whole[j, i] * factor
        return
    for place in range(sums.first[top], sums.first[top + 1]):
        i = sums.lines[place]
        out[i] = (sums.rows[i] + sums.columns[top] + sums.extra[place]) * v[top]
    total = weighted = 0.0
    for j in range(m):
        if j != top:
            total += v[j]
            weighted += sums.columns[j] * v[j]
            for place in range(sums.first[j], sums.first[j + 1]):
                out[sums.lines[place]] += sums.extra[place] * v[j]
    for i in range(n):
        out[i] += sums.rows[i] * total + weighted
