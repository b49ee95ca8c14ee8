"""Feature vectors from outside: one vector, or a batch of them, as the sparse rows that kernels play.

Compiled code trusts what it is given, so everything is checked here: indices in range and increasing, values finite and
not beyond :data:`~gappletron.kernel.numerics.LARGEST_VALUE`.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.data.records.values import is_record, unbox_numbers
from gappletron.kernel.compiling import KeptCode, brief, entry_now, run
from gappletron.kernel.numerics import LARGEST_VALUE
from gappletron.kernel.pieces import helper
from gappletron.kernel.types import MOST_FEATURES, MOST_NARROW, NO_VECTOR, Floats, Indices, Vector

FINE, UNSORTED, OUTSIDE, TOO_LARGE = range(4)
FLOAT64, INT32, INT64 = np.dtype(np.float64), np.dtype(np.int32), np.dtype(np.int64)


class Vectors(NamedTuple):
    """Checked sparse vectors as a compressed sparse row matrix, with ||x||^2 of each: many of :class:`Vector`."""

    indptr: NDArray[np.int64]
    indices: Indices
    values: Floats
    squared: Floats

    @classmethod
    def join(cls, vectors: Sequence[Vector]) -> Self:
        """Return these vectors together.

        >>> Vectors.join([Vector(np.array([3], np.int32), np.ones(1), 1.0)]).indptr
        array([0, 1])
        """
        indptr = np.zeros(len(vectors) + 1, np.int64)
        np.cumsum([vector.indices.size for vector in vectors], out=indptr[1:])
        indices: Indices = np.concatenate([NO_VECTOR.indices, *(vector.indices for vector in vectors)])
        values = np.concatenate([NO_VECTOR.values, *(vector.values for vector in vectors)])
        return cls(indptr, indices, values, np.array([vector.squared for vector in vectors], np.float64))

    def each(self) -> list[Vector]:
        """Return the vectors, one by one."""
        ends = itertools.pairwise(self.indptr.tolist())
        return [
            Vector(self.indices[start:stop], self.values[start:stop], squared)
            for (start, stop), squared in zip(ends, self.squared.tolist(), strict=True)
        ]


def check_sizes(indices: Indices, values: Floats, squared: float) -> None:
    """Raise a UserError if one of the values is too large; `squared` is the largest ||x||^2 of their rows."""
    if squared > LARGEST_VALUE**2:
        place = int(np.argmax(np.abs(values)))
        if not abs(values[place]) <= LARGEST_VALUE:
            raise _refuse_value(indices[place], values[place])


@helper
def check_span(
    indices: NDArray[Any], values: Floats, start: int, stop: int, features: int, out: Indices
) -> tuple[int, int, float]:
    """Copy the indices from start to stop; return what is wrong (FINE if nothing), where, and ||x||^2."""
    problem = FINE
    squared = 0.0
    for p in range(start, stop):
        if indices[p] < 0 or indices[p] >= features:
            return OUTSIDE, p, 0.0
        if not abs(values[p]) <= LARGEST_VALUE:  # so NaN is caught as well
            return TOO_LARGE, p, 0.0
        if p > start and indices[p] <= indices[p - 1]:
            problem = UNSORTED
        out[p] = indices[p]
        squared += values[p] * values[p]
    return problem, 0, squared


@brief
def check_vector(indices: NDArray[Any], values: Floats, features: int, out: Indices) -> tuple[int, int, float]:
    """As :func:`check_span`, for the whole of two arrays."""
    return check_span(indices, values, 0, indices.size, features, out)


def check_rows(indptr: NDArray[np.int64], indices: Indices, values: Floats, features: int, squared: Floats) -> bool:
    """Return whether every row is well made, and write ||x||^2 of each."""
    entries = min(indices.size, values.size)
    for t in range(squared.size):
        if not 0 <= indptr[t] <= indptr[t + 1] <= entries:
            return False
        problem, _, squared[t] = check_span(indices, values, indptr[t], indptr[t + 1], features, indices)
        if problem != FINE:
            return False
    return True


class Checker:
    """Checks of vectors as machine code, or as plain Python inside :func:`gappletron.interpreted`.

    :param features: of a model: indices are below, and it decides their type.
    """

    def __init__(self, features: int) -> None:
        self.features = features
        # The length of dense vectors; None where it is any.
        self.length = None if features == MOST_FEATURES else features
        self._kind: Any = np.int64 if features > MOST_NARROW else np.int32
        _ = self._narrow, self._wide  # asked for early, and interpreted for life where the checker is made so
        self._places = np.zeros(0, np.int32)

    _narrow = KeptCode(lambda self: self._find_check(np.int32))
    _wide = KeptCode(lambda self: self._find_check(np.int64))

    def _find_check(self, given: Any) -> Any:
        """Return :func:`check_vector` for indices of a type."""
        return entry_now(check_vector, np.zeros(0, given), np.zeros(0), 1, np.zeros(0, self._kind))

    def vector(self, x: Any) -> Vector:
        """Return a feature vector as a user gives it, checked: see :meth:`gappletron.Online.act` for its forms."""
        found = None
        if type(x) is tuple and len(x) == 2 and type(x[0]) is type(x[1]) is np.ndarray:
            found = self._check_arrays(x[0], x[1], self.features)
        elif type(x) is np.ndarray and x.shape == (self.length,):
            found = self._check_dense(x)
        return self._convert(x) if found is None else found

    def only_row(self, X: Any) -> Vector | None:
        """Return the row of an array or a sparse matrix that has one; None where there are more, or the row must be
        converted, or is wrong.
        """
        if getattr(X, "ndim", 0) != 2 or X.shape[0] != 1 or not 0 < X.shape[1] <= MOST_NARROW:
            return None
        if self.length not in (None, X.shape[1]):
            return None
        if type(X) is np.ndarray:
            return self._check_dense(X[0])
        return self._check_arrays(X.indices, X.data, X.shape[1]) if getattr(X, "format", "") == "csr" else None

    def vectors(self, X: Any) -> Vectors | None:
        """Return the rows of a SciPy sparse matrix or a 2-D array if all of them are well made; None where one must be
        converted, or is wrong: then :meth:`vector` says what is.
        """
        if isinstance(X, np.ndarray):
            if X.dtype.kind not in "biuf" or not 0 < X.shape[1] <= (self.length or X.shape[1]):
                return None
            indptr, indices, values = dense_parts(X)
        else:
            matrix = X.tocsr()
            if matrix.data.dtype.kind not in "biuf":
                return None
            indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.copy()
            values = matrix.data.astype(np.float64)
        return self.rows(indptr, indices, values)

    def rows(self, indptr: NDArray[np.int64], indices: NDArray[Any], values: Floats) -> Vectors | None:
        """Return rows that are arrays of their own; None where one must be converted, or is wrong."""
        if indices.max(initial=0) > np.iinfo(self._kind).max:
            return None
        own, squared = indices.astype(self._kind, copy=False), np.empty(indptr.size - 1)
        is_fine = run(check_rows, indptr, own, values, self.features, squared)
        return Vectors(indptr, own, values, squared) if is_fine else None

    def _check_dense(self, x: NDArray[Any]) -> Vector | None:
        """Return a copy of a dense vector of the usual type if all is well with it, else None."""
        places = self._places
        if places.size != x.size:
            places = self._places = np.arange(x.size, dtype=np.int32)
        return self._check_arrays(places, x, x.size)

    def _check_arrays(self, indices: NDArray[Any], values: NDArray[Any], features: int) -> Vector | None:
        """Return copies of arrays of the usual types if all is well with them, else None."""
        kind, shape = indices.dtype, values.shape
        check = self._narrow if kind is INT32 else self._wide if kind is INT64 else None
        if check is None or values.dtype is not FLOAT64 or len(shape) != 1 or indices.shape != shape:
            return None
        own, narrow = values.copy(), np.empty(shape, self._kind)
        problem, _, squared = check(np.ascontiguousarray(indices), own, features, narrow)
        return Vector(narrow, own, squared) if problem == FINE else None

    def _convert(self, x: Any) -> Vector:
        given_indices, given_values = sparse_parts(x, self.length)
        indices, numbers = _to_array(given_indices), unbox_numbers(_to_array(given_values))
        if numbers.size and numbers.dtype.kind not in "biuf":
            raise UserError(f"x has values of type {numbers.dtype}: give numbers")
        with np.errstate(over="ignore"):  # a long double beyond the range becomes inf and is refused as such
            values = np.array(numbers, dtype=np.float64)
        if indices.ndim == values.ndim == 0:
            cure = "give a list or an array of numbers, or two flat sequences"
            raise UserError(f"x is a tuple of two numbers, which could be a vector or a pair (indices, values): {cure}")
        if indices.ndim != 1 or indices.shape != values.shape:
            counts = (given.size if given.ndim == 1 else given.shape for given in (indices, values))
            raise UserError("x has {} indices and {} values: give flat lists of one length".format(*counts))
        if indices.dtype.kind == "O" and all(type(index) is int for index in indices):
            beyond = max(indices, key=abs)  # Python's ints of any size
            raise _refuse_index(beyond if abs(beyond) < 10**30 else "of more than 30 digits", self.features)
        if indices.size and indices.dtype.kind not in "iu":
            raise UserError(f"x has indices of type {indices.dtype}: they must be whole numbers")
        wide = np.ascontiguousarray(indices, dtype=np.int64)
        narrow = np.empty(wide.size, self._kind)
        problem, position, squared = self._wide(wide, values, self.features, narrow)
        if problem == UNSORTED:
            unique, inverse = np.unique(wide, return_inverse=True)
            return self._convert((unique, np.bincount(inverse, weights=values)))
        if problem == OUTSIDE:
            raise _refuse_index(indices[position], self.features)
        if problem == TOO_LARGE:
            raise _refuse_value(wide[position], values[position])
        return Vector(narrow, values, squared)


def _refuse_index(index: Any, features: int) -> UserError:
    what = f"x has the index {index}, and the model takes indices from 0 to {features - 1}"
    return UserError(f"{what}: drop what is outside, or make the model with more features, or one that takes any index")


def _refuse_value(index: Any, value: float) -> UserError:
    limits = f"features must be finite, and at most {LARGEST_VALUE:g} in size"
    return UserError(f"x has the value {value} at index {index}: {limits}")


def sparse_parts(x: Any, features: int | None) -> tuple[Any, Any]:
    """Return (indices, values) of whatever a user may call a feature vector, of any length if `features` is None."""
    if is_record(x):
        kind = "text" if isinstance(x, str | bytes) else "record with named columns"
        cure = "make one with encoder=Encoder(), or give x as (indices, values) or a list of numbers"
        raise UserError(f"x is a {kind}, and this model takes numbers: {cure}")
    if isinstance(x, tuple) and len(x) == 2:
        return x
    wanted = "any number of" if features is None else features
    if hasattr(x, "tocsr"):
        if not _is_one_row(x.shape, features):
            raise UserError(f"x has the shape {x.shape}: give one row of {wanted} features")
        row = x.tocoo()
        return row.coords[-1] if hasattr(row, "coords") else row.col, row.data
    if isinstance(x, Mapping):  # after the sparse forms, of which one is a dict
        return list(x.keys()), list(x.values())
    dense = unbox_numbers(_to_array(x))
    if not _is_one_row(dense.shape, features):
        many = ", or use act_many, teach_many or predict_many for many rows" if dense.ndim == 2 else ""
        raise UserError(f"x has the shape {dense.shape}: give {wanted} numbers, or their indices and values{many}")
    if dense.dtype.kind not in "biuf":
        raise UserError(f"x has entries of type {dense.dtype}: give numbers")
    dense = dense.reshape(-1)
    return np.arange(dense.size), dense


def dense_parts(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """Return a 2-D array of numbers as a compressed sparse row matrix with all its entries, as copies.

    >>> dense_parts(np.array([[0, 2], [1, 1]]))[2]
    array([0., 2., 1., 1.])
    """
    count, features = rows.shape
    indices = np.tile(np.arange(features, dtype=np.int32), count)
    with np.errstate(over="ignore"):  # a long double beyond the range becomes inf and is refused as such
        values = rows.astype(np.float64).reshape(-1)
    return np.arange(count + 1, dtype=np.int64) * features, indices, values


def _is_one_row(shape: tuple[int, ...], features: int | None) -> bool:
    """Return whether this is the shape of one vector, with so many features where that is known."""
    return len(shape) in (1, 2) and shape[:-1] in ((), (1,)) and features in (None, shape[-1])


def _to_array(given: Any) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise UserError("x cannot be made into an array: give (indices, values) as flat lists, or numbers") from None
