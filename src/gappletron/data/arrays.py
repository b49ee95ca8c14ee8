"""Rows in memory, with a label for each: dense arrays and sparse matrices as a stream."""

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, label, labels, whole
from gappletron.base.errors import UserError
from gappletron.base.text import listing
from gappletron.data.records.values import unbox_numbers
from gappletron.data.stream import CHUNK, ENTRIES, Chunk, Stream, find_max_norm, make_chunk
from gappletron.data.vectors import dense_parts
from gappletron.kernel.types import MOST_NARROW


class ArrayRows:
    """The rows of a dense array-like or of any scipy.sparse matrix, checked as they are cut into chunks."""

    def __init__(self, X: Any) -> None:
        self._rows: Any = _read_sparse(X) if hasattr(X, "tocsr") else _read_dense(X)
        self.count, features = self._rows.shape
        if self.count == 0 or features == 0:
            raise UserError(f"X has the shape {self._rows.shape}: a stream needs at least one row and one column")
        self.features = whole(features, "the number of columns of X", most=MOST_NARROW)

    def chunks(self, positions: NDArray[np.int64]) -> Iterator[Chunk]:
        """Yield the rows with these labels, or raise a UserError that says which entry is not finite."""
        start = 0
        while start < self.count:
            stop = self._find_end(start)
            indptr, indices, values = self._extract(start, stop)
            if indices.size and not 0 <= indices.min() <= indices.max() < self.features:
                what = f"X was changed and has an index outside its {self.features} columns"
                raise UserError(f"{what}: make the stream from a copy")
            finite = np.isfinite(values)
            if not finite.all():
                entry = int(np.argmin(finite))
                row = start + int(np.searchsorted(indptr, entry, side="right")) - 1
                where = f"row {row}, column {indices[entry]} (counting from 0)"
                raise UserError(f"X has {values[entry]} in {where}: give finite values; an Encoder takes gaps")
            yield make_chunk(indptr, indices, values, positions[start:stop])
            start = stop

    def _find_end(self, start: int) -> int:
        """Return where the chunk ends that begins here: it has at most CHUNK rows and, unless it is a single row,
        ENTRIES entries.
        """
        if isinstance(self._rows, np.ndarray):
            most = ENTRIES // self.features
        else:
            indptr = self._rows.indptr[start : start + CHUNK + 1].astype(np.int64)
            most = int(np.searchsorted(indptr, indptr[0] + ENTRIES, side="right")) - 1
        return min(start + CHUNK, start + max(most, 1), self.count)

    def _extract(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        if not isinstance(self._rows, np.ndarray):
            indptr = self._rows.indptr[start : stop + 1].astype(np.int64)
            span = slice(indptr[0], indptr[-1])
            indices, values = self._rows.indices[span].astype(np.int32), _as_doubles(self._rows.data[span])
            return indptr - indptr[0], indices, values
        return dense_parts(self._rows[start:stop])


class ArrayStream(Stream):
    """Rows in memory: a dense array-like or any scipy.sparse matrix, and a label for each row.

    X is not copied: later changes to it are played, and checked again. Dense rows become sparse one chunk at a time (a
    sparse matrix that is unsorted or has duplicate entries is copied and sorted first). Classes are the distinct
    labels, sorted if they can be compared, else in order of first appearance; `classes` overrides that. Whole floats in
    `y`, as loaders return them, count as ints.

    >>> from gappletron import ArrayStream
    >>> stream = ArrayStream([[1, 0], [3, 4], [0, 0]], ["spam", "ham", "spam"])
    >>> stream.classes, stream.features, stream.rounds, stream.max_norm
    (('ham', 'spam'), 2, 3, 5.0)
    >>> ArrayStream([[1, float("nan")]], ["spam"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    gappletron.UserError: X has nan in row 0, column 1 (counting from 0): give finite values; ...
    """

    def __init__(self, X: Any, y: Any, *, classes: Iterable[Any] | None = None, name: str = "arrays") -> None:
        self.name = name
        self._rows = ArrayRows(X)
        self.rounds, self.features = self._rows.count, self._rows.features
        for _ in self._rows.chunks(np.zeros(self.rounds, np.int64)):
            pass  # what is wrong is said at once
        self.classes, self._labels = locate_labels(y, self.rounds, classes)
        self.classes_given = classes is not None

    @functools.cached_property
    def max_norm(self) -> float | None:  # type: ignore[override]
        """The largest Euclidean norm of a row."""
        return find_max_norm(self)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
        return self._rows.chunks(self._labels)


def load_digits() -> ArrayStream:
    """Return scikit-learn's 1,797 handwritten digits in their original order: 64 pixels from 0 to 16, divided by 16.

    >>> stream = load_digits()
    >>> stream.rounds, stream.features, len(stream.classes)
    (1797, 64, 10)
    """
    from sklearn.datasets import load_digits

    pixels, y = load_digits(return_X_y=True)
    return ArrayStream(pixels / 16.0, y, classes=range(10), name="digits")


# ----------------------------------------------------------------------------------------------------------------- rows


def _as_doubles(values: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # a long double beyond the range becomes inf and is refused as such
        return values.astype(np.float64, copy=False)


def _check_kind(ndim: int, dtype: np.dtype[Any]) -> None:
    if ndim != 2:
        raise UserError(f"X must have two dimensions, one row for each round, not {ndim}")
    if dtype.kind not in "biuf":
        raise UserError(f"X holds {dtype} values: give real numbers; texts and categories need an Encoder")


def _read_dense(X: Any) -> NDArray[Any]:
    try:
        rows = unbox_numbers(np.asarray(X))
    except (ValueError, TypeError, OverflowError):
        raise UserError("X cannot be made into an array: give rows of numbers, all of one length") from None
    if isinstance(X, np.ma.MaskedArray) and np.ma.getmaskarray(X).any():
        raise UserError("X has masked values: fill them, for example with X.filled(0)")
    _check_kind(rows.ndim, rows.dtype)
    return rows


def check_sparse(matrix: Any) -> None:
    """Raise a UserError if the parts of a SciPy matrix do not fit together."""
    try:
        matrix.check_format(full_check=True)
    except (ValueError, IndexError, TypeError) as error:
        raise UserError(f"X is not a consistent sparse matrix ({error}): rebuild it from its entries") from None


def _read_sparse(X: Any) -> Any:
    """Return X as CSR with sorted, distinct indices; X itself is left as it is."""
    import scipy.sparse

    _check_kind(X.ndim, X.dtype)
    csr = X.tocsr()
    check_sparse(csr)
    # A new object, so that scipy computes its flags about sorted indices instead of keeping those of X.
    rows = scipy.sparse.csr_array((csr.data, csr.indices, csr.indptr), shape=csr.shape)
    if not rows.has_canonical_format:
        rows = scipy.sparse.csr_array((_as_doubles(rows.data), rows.indices, rows.indptr), shape=rows.shape, copy=True)
        with np.errstate(over="ignore", invalid="ignore"):
            rows.sum_duplicates()
    return rows


# --------------------------------------------------------------------------------------------------------------- labels


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's, and a whole float as an int."""
    plain = value.item() if isinstance(value, np.generic) else value
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def plain_names(classes: Iterable[Any]) -> list[Any]:
    """Return the items of a user's `classes`, NumPy scalars and whole floats as plain numbers.

    >>> plain_names(np.array([0.0, 1.0])), plain_names(["ham", "spam"])
    ([0, 1], ['ham', 'spam'])
    """
    try:
        if isinstance(classes, str | bytes):
            raise TypeError
        return [_plain(item) for item in classes]
    except TypeError:
        raise UserError(f"classes must be a list of names, not {classes!r}") from None


def _find_labels(y: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct labels of y, and for each row the position of its label among them."""
    if isinstance(y, str | bytes):
        raise UserError("y must hold a label for each row of X, not a string: give a list")
    if isinstance(y, np.ndarray):
        if y.ndim != 1:
            raise UserError(f"y must have one dimension, a label for each row of X, not {y.ndim}")
        if y.dtype.kind in "biufU" and not (y.dtype.kind == "f" and np.isnan(y).any()):
            found, first, inverse = np.unique(y, return_index=True, return_inverse=True)
            order = np.argsort(first)
            return [_plain(item) for item in found[order]], np.argsort(order)[inverse]
    try:
        rows = list(y)
    except TypeError:
        raise UserError(f"y must be a sequence with a label for each row of X, not {type(y).__name__}") from None
    places: dict[tuple[type, Any], int] = {}  # by type as well: True and 1 are equal, but are two classes
    positions = np.empty(len(rows), np.int64)
    for row, item in enumerate(rows):
        plain = label(_plain(item), f"in row {row} of y the class")
        positions[row] = places.setdefault((type(plain), plain), len(places))
    return [plain for _, plain in places], positions


def locate_labels(y: Any, rounds: int, classes: Iterable[Any] | None) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    """Return the classes, and every row's position in them."""
    found, positions = _find_labels(y)
    if len(positions) != rounds:
        raise UserError(f"X has {rounds} rows and y has {len(positions)} labels: give one label for each row")
    appearing = labels(found, "class")
    if classes is not None:
        names = check_classes(plain_names(classes))
    else:
        try:
            names = check_classes(sorted(appearing))
        except TypeError:
            names = check_classes(appearing)
    place = {name: position for position, name in enumerate(names)}
    to_place = np.array([place.get(name, -1) for name in appearing], np.int64)
    result = to_place[positions]
    if (to_place < 0).any():
        row = int(np.argmin(result))
        what = f"row {row} of y (counting from 0) has the label {appearing[positions[row]]!r}"
        raise UserError(f"{what}, which is not among the classes {listing(names)}: add it to classes or drop the row")
    return names, result


def check_classes(given: Iterable[Any]) -> tuple[Label, ...]:
    """Return the names of classes, or raise a UserError if two are the same, or there are fewer than two."""
    names = labels(given, "class")
    if len(names) < 2:
        named = f"only {names[0]!r}" if names else "none"
        raise UserError(f"a stream needs at least 2 classes, but {named} is named: name all of them, as in ham,spam")
    return names
