"""Feature vectors from outside: one vector, or a batch of them, as the sparse rows that kernels play.

Compiled code trusts what it is given, so everything is checked here: indices in range and increasing, values finite and
not beyond :data:`~gappletron.numerics.LARGEST_VALUE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gappletron._dispatch import entry
from gappletron._validate import UserError
from gappletron.numerics import LARGEST_VALUE
from gappletron.streams.stream import ArrayStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from gappletron.numerics import Floats
    from gappletron.streams.stream import Chunk

__all__ = ["Vector", "batches_of", "vector_of"]

FINE, UNSORTED, OUTSIDE, TOO_LARGE = range(4)


class Vector(NamedTuple):
    """A checked sparse vector x: strictly increasing indices, their values, and ||x||^2."""

    indices: NDArray[np.int32]
    values: Floats
    squared: float


def checked(
    indices: NDArray[np.int64], values: Floats, features: int, out: NDArray[np.int32]
) -> tuple[int, int, float]:
    """Copy the indices; what is wrong (FINE if nothing), where, and ||x||^2."""
    unsorted = False
    squared = 0.0
    for p in range(indices.size):
        if indices[p] < 0 or indices[p] >= features:
            return OUTSIDE, p, 0.0
        if not abs(values[p]) <= LARGEST_VALUE:  # so NaN is caught as well
            return TOO_LARGE, p, 0.0
        if p > 0 and indices[p] <= indices[p - 1]:
            unsorted = True
        out[p] = indices[p]
        squared += values[p] * values[p]
    return (UNSORTED if unsorted else FINE), 0, squared


def checker() -> Callable[[NDArray[np.int64], Floats, int, NDArray[np.int32]], tuple[int, int, float]]:
    """:func:`checked` as machine code, or itself inside :func:`gappletron.interpreted`."""
    return entry(checked, np.zeros(0, np.int64), np.zeros(0), 1, np.zeros(0, np.int32))


def vector_of(x: Any, features: int, check: Any) -> Vector:
    """A feature vector as a user gives it, checked: see :meth:`gappletron.Online.act` for the forms it may have."""
    given_indices, given_values = sparse_parts(x, features)
    indices, numbers = _array(given_indices), _array(given_values)
    if numbers.size and numbers.dtype.kind not in "biuf":
        raise UserError(f"x has values of type {numbers.dtype}: give numbers")
    if numbers.dtype.kind == "f" and numbers.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # a long double beyond the range becomes inf and is refused as such
            values = np.array(numbers, dtype=np.float64)
    else:
        values = np.array(numbers, dtype=np.float64)
    if indices.ndim != 1 or indices.shape != values.shape:
        raise UserError(
            f"x has {indices.shape} indices and {values.shape} values: give two flat sequences of one length"
        )
    if indices.size and indices.dtype.kind not in "iu":
        raise UserError(f"x has indices of type {indices.dtype}: they must be whole numbers")
    wide = np.ascontiguousarray(indices, dtype=np.int64)
    narrow = np.empty(wide.size, np.int32)
    problem, position, squared = check(wide, values, features, narrow)
    if problem == UNSORTED:
        unique, inverse = np.unique(wide, return_inverse=True)
        return vector_of((unique, np.bincount(inverse, weights=values)), features, check)
    if problem == OUTSIDE:
        raise UserError(
            f"x has the index {indices[position]}, and the model's {features} features run from 0 to {features - 1}: "
            "hash or drop what is outside"
        )
    if problem == TOO_LARGE:
        raise UserError(
            f"x has the value {values[position]} at index {wide[position]}: features must be finite, and at most "
            f"{LARGEST_VALUE:g} in size"
        )
    return Vector(narrow, values, squared)


def sparse_parts(x: Any, features: int | None) -> tuple[Any, Any]:
    """(indices, values) of whatever a user may call a feature vector; without `features` it may have any length."""
    if isinstance(x, tuple) and len(x) == 2:
        return x
    if hasattr(x, "tocsr"):
        if features is not None and x.shape not in ((1, features), (features,)):
            raise UserError(f"x has the shape {x.shape}: give one row of {features} features")
        row = x.tocoo()
        return row.coords[-1] if hasattr(row, "coords") else row.col, row.data
    if isinstance(x, Mapping):  # after the sparse forms, of which one is a dict
        return list(x.keys()), list(x.values())
    dense = _array(x)
    if features is None and dense.ndim == 1:
        features = dense.size
    if dense.shape not in ((features,), (1, features)):
        raise UserError(f"x has the shape {dense.shape}: give {features} numbers, or a pair (indices, values)")
    if dense.dtype.kind not in "biuf":
        raise UserError(f"x has entries of type {dense.dtype}: give numbers")
    dense = dense.reshape(-1)
    (indices,) = np.nonzero(dense)
    return indices, dense[indices]


def _array(given: Any) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise UserError(
            "x cannot be made into an array: give a pair (indices, values) of flat sequences, or a vector of numbers"
        ) from None


def batches_of(X: Any, features: int) -> Iterator[Chunk]:
    """The rows of a dense 2-D array or a sparse matrix, in chunks whose labels mean nothing."""
    rows = len(X) if not hasattr(X, "shape") else X.shape[0] if X.shape else 0
    stream = ArrayStream(X, np.zeros(rows, np.int64), classes=(0, 1))
    if stream.features != features:
        raise UserError(f"X has {stream.features} columns and the model {features} features: give one for each")
    return stream.chunks()
