"""Streams of rounds, in chunks of sparse rows.

A :class:`Stream` knows its features and classes before the first round, and yields :class:`Chunk` after :class:`Chunk`
in one fixed set of array types, so that the round loop is compiled once. Zeros are never stored: a sparse row, the same
row dense and the same row in a file make the same chunk, bit for bit.
"""

from __future__ import annotations

import abc
import functools
import math
import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, label, labels, whole
from gappletron.base.errors import UserError
from gappletron.base.text import listing
from gappletron.data.records.encoder import Encoder
from gappletron.kernel.compiling import specialise
from gappletron.kernel.pieces import helper

__all__ = ["CHUNK", "ArrayStream", "Chunk", "Stream", "digits", "limited"]

CHUNK = 65_536
"""The maximum number of rounds in a chunk."""

MOST_FEATURES = 2**31 - 1
"""The largest number of features: indices are int32."""

ENTRIES = 4_194_304
"""The maximum number of non-zeros in a chunk, unless a single row has more: it bounds the memory of wide streams."""


class Chunk(NamedTuple):
    """Consecutive rounds: row ``i`` has non-zeros at ``indices[indptr[i]:indptr[i + 1]]`` and the label ``labels[i]``.

    The arrays are one-dimensional, contiguous and read-only; ``indptr`` and ``labels`` are int64, ``indices`` int32,
    sorted and distinct within a row, ``values`` float64; ``indptr`` begins at 0, labels are positions in the stream's
    ``classes``.

    >>> from gappletron.data.open import ArrayStream
    >>> chunk = next(ArrayStream([[0, 2.5], [0, 0]], ["ham", "spam"]).chunks())
    >>> chunk.indptr, chunk.indices, chunk.values, chunk.labels
    (array([0, 1, 1]), array([1], dtype=int32), array([2.5]), array([0, 1]))
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    labels: NDArray[np.int64]


def frozen(indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], labels: NDArray[Any]) -> Chunk:
    """A chunk of these arrays, in the types that kernels are compiled for.

    >>> frozen(np.array([0, 1]), np.array([3]), np.array([1.0]), np.array([0])).indices.flags.writeable
    False
    """
    typed = (
        np.require(array, dtype, ["C", "A"]).view()
        for array, dtype in ((indptr, np.int64), (indices, np.int32), (values, np.float64), (labels, np.int64))
    )
    chunk = Chunk(*typed)
    for array in chunk:
        array.setflags(write=False)
    return chunk


def without_zeros(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """The same rows without their stored zeros.

    >>> without_zeros(np.array([0, 2, 3]), np.array([4, 6, 5], np.int32), np.array([1.0, 0.0, -0.0]))
    (array([0, 1, 1]), array([4], dtype=int32), array([1.]))
    """
    keep = values != 0.0
    if keep.all():
        return indptr, indices, values
    kept_before = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)))
    return kept_before[indptr], indices[keep], values[keep]


@helper
def euclidean(values: Any, start: int, stop: int) -> float:
    """The Euclidean norm of values[start:stop], also where the squares leave the range of doubles."""
    total = 0.0
    for i in range(start, stop):
        value = float(values[i])
        total += value * value
    if 1e-280 < total < 1e300:
        return math.sqrt(total)
    largest = 0.0
    for i in range(start, stop):
        largest = max(largest, abs(float(values[i])))
    if largest == 0.0:
        return 0.0
    total = 0.0
    for i in range(start, stop):
        scaled = float(values[i]) / largest
        total += scaled * scaled
    return largest * math.sqrt(total)


def _largest_norm(chunk: Chunk) -> float:
    largest = 0.0
    for row in range(len(chunk.labels)):
        largest = max(largest, euclidean(chunk.values, chunk.indptr[row], chunk.indptr[row + 1]))
    return largest


def largest_norm(chunk: Chunk) -> float:
    """The largest Euclidean norm among the rows of a chunk.

    >>> largest_norm(frozen(np.array([0, 2, 2]), np.array([0, 7]), np.array([2e200, 0.0]), np.array([0, 1])))
    2e+200
    """
    return float(specialise(_largest_norm, chunk)(chunk))


def finite_norm(norm: float, name: str) -> float:
    """`norm`, or a UserError if it is too large for a double."""
    if math.isinf(norm):
        raise UserError(
            f"{name} has a row whose Euclidean norm is too large for a double: scale it, or use normalize='unit'"
        )
    return norm


class Stream(abc.ABC):
    """A sequence of rounds (x, y), each made of a sparse row and a class.

    A subclass sets the attributes and yields chunks; every call of :meth:`chunks` starts from the first round.

    >>> import numpy as np
    >>> from gappletron.data.open import Chunk, Stream
    >>> class Alternating(Stream):
    ...     name, features, classes, rounds, max_norm = "alternating", 1, ("no", "yes"), 4, 1.0
    ...     def chunks(self):
    ...         yield Chunk(np.arange(5), np.zeros(4, np.int32), np.ones(4), np.arange(4) % 2)
    >>> Alternating()
    <Alternating 'alternating'>
    """

    name: str
    """The name in titles and messages."""
    features: int
    """The number of features d; every index is below it."""
    classes: tuple[Label, ...]
    """The classes' names; a chunk's labels are positions in it."""
    classes_given: bool = True
    """Whether the order of the classes was chosen, by the user or by the definition of the stream. False where the
    order was derived from the data (sorted labels): then the filtering presets require the revealing class by name.
    """
    rounds: int | None
    """The number of rounds T, None if it is not known in advance."""
    max_norm: float | None
    """The largest Euclidean norm of a row, or an upper bound of it; None if unknown."""
    is_transformed: bool = False
    """Whether the rows were normalized, or have a bias on request: see :func:`transformed`."""
    encoder: Encoder | None = None
    """What made the rows from records, where they are; its columns have any scale."""
    label: str | None = None
    """The column of the labels, where the rows come from a table."""
    is_open: bool = False
    """Whether classes are added while the stream is played: `classes` are those that have come so far."""

    @abc.abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning, at most :data:`CHUNK` at a time."""

    def prepare(self, progress: Callable[[int, int], None] | None = None) -> None:  # noqa: B027 - most have nothing to prepare
        """Read now what playing needs, such as the classes of a file; `progress` is called with (done, total)."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


# --------------------------------------------------------------------------------------------------------------- arrays


class ArrayStream(Stream):
    """Rows in memory: a dense array-like or any scipy.sparse matrix, and a label for each row.

    X is not copied: later changes to it are played, and checked again. Dense rows become sparse one chunk at a time (a
    sparse matrix that is unsorted or has duplicate entries is copied and sorted first). Classes are the distinct
    labels, sorted if they can be compared, else in order of first appearance; `classes` overrides that. Whole floats in
    `y`, as loaders return them, count as ints.

    >>> from gappletron.data.open import ArrayStream
    >>> stream = ArrayStream([[1, 0], [3, 4], [0, 0]], ["spam", "ham", "spam"])
    >>> stream.classes, stream.features, stream.rounds, stream.max_norm
    (('ham', 'spam'), 2, 3, 5.0)
    >>> ArrayStream([[1, float("nan")]], ["spam"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    gappletron.UserError: X has nan in row 0, column 1 (counting from 0): every value must be finite; ...
    """

    def __init__(self, X: Any, y: Any, *, classes: Iterable[Any] | None = None, name: str = "arrays") -> None:
        self.name = name
        self._rows: Any = _sparse(X) if _is_sparse(X) else _dense(X)
        self.rounds, self.features = self._rows.shape
        if self.rounds == 0 or self.features == 0:
            raise UserError(f"X has the shape {self._rows.shape}: a stream needs at least one row and one column")
        self.features = whole(self.features, "the number of columns of X", most=MOST_FEATURES)
        for start, stop in self._cuts():
            self._checked_entries(start, stop)
        self.classes, self._labels = label_positions(y, self.rounds, classes)
        self.classes_given = classes is not None

    @functools.cached_property
    def max_norm(self) -> float | None:  # type: ignore[override]
        """The largest Euclidean norm of a row."""
        return finite_norm(max(map(largest_norm, self.chunks())), self.name)

    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning."""
        for start, stop in self._cuts():
            yield frozen(*self._checked_entries(start, stop), self._labels[start:stop])

    def _cuts(self) -> Iterator[tuple[int, int]]:
        """Where to cut the rows: a chunk has at most CHUNK rows and, except for a single row, ENTRIES entries."""
        total = self._rows.shape[0]
        start = 0
        while start < total:
            if isinstance(self._rows, np.ndarray):
                most = ENTRIES // self.features
            else:
                indptr = self._rows.indptr[start : start + CHUNK + 1].astype(np.int64)
                most = int(np.searchsorted(indptr, indptr[0] + ENTRIES, side="right")) - 1
            stop = min(start + CHUNK, start + max(most, 1), total)
            yield start, stop
            start = stop

    def _entries(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        if not isinstance(self._rows, np.ndarray):
            indptr = self._rows.indptr[start : stop + 1].astype(np.int64)
            span = slice(indptr[0], indptr[-1])
            return without_zeros(
                indptr - indptr[0], self._rows.indices[span].astype(np.int32), _doubles(self._rows.data[span])
            )
        block = _doubles(self._rows[start:stop])
        keep = block != 0.0
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.count_nonzero(keep, axis=1), dtype=np.int64)))
        columns = np.broadcast_to(np.arange(self.features, dtype=np.int32), keep.shape)
        return indptr, columns[keep], block[keep]

    def _checked_entries(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        indptr, indices, values = self._entries(start, stop)
        if indices.size and not 0 <= indices.min() <= indices.max() < self.features:
            raise UserError(
                f"X was changed and has an index outside its {self.features} columns: make the stream from a copy"
            )
        finite = np.isfinite(values)
        if not finite.all():
            entry = int(np.argmin(finite))
            row = start + int(np.searchsorted(indptr, entry, side="right")) - 1
            raise UserError(
                f"X has {values[entry]} in row {row}, column {indices[entry]} (counting from 0): "
                "every value must be finite; records may have gaps, see Encoder"
            )
        return indptr, indices, values


def _is_sparse(X: Any) -> bool:
    # scipy.sparse costs a tenth of a second to import; an array-like never needs it.
    if not any(base.__module__.startswith("scipy.sparse") for base in type(X).__mro__):
        return False
    import scipy.sparse

    return bool(scipy.sparse.issparse(X))


def _doubles(values: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # a long double beyond the range becomes inf and is refused as such
        return values.astype(np.float64, copy=False)


def _check_real(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biuf":
        raise UserError(
            f"X holds {dtype} values: give real numbers (bool, int or float); texts and categories need an Encoder"
        )


def plain_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """An array of objects that are all real numbers or booleans as doubles, as rows of mixed columns need it; others as
    they are.

    >>> plain_numbers(np.array([True, 2, 2.5], dtype=object))
    array([1. , 2. , 2.5])
    """
    if array.dtype.kind != "O" or not all(isinstance(item, numbers.Real | np.bool_) for item in array.flat):
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # a number of some other type, or beyond a double
        return array


def _dense(X: Any) -> NDArray[Any]:
    try:
        rows = plain_numbers(np.asarray(X))
    except (ValueError, TypeError, OverflowError):
        raise UserError(
            "X cannot be made into an array: give one row of numbers for each round, all of one length"
        ) from None
    if isinstance(X, np.ma.MaskedArray) and np.ma.getmaskarray(X).any():
        raise UserError("X has masked values: fill them, for example with X.filled(0)")
    if rows.ndim != 2:
        raise UserError(f"X must have two dimensions, one row for each round, not {rows.ndim}")
    _check_real(rows.dtype)
    return rows


def _sparse(X: Any) -> Any:
    """X as CSR with sorted, distinct indices; X itself is left as it is."""
    import scipy.sparse

    if X.ndim != 2:
        raise UserError(f"X must have two dimensions, one row for each round, not {X.ndim}")
    _check_real(X.dtype)
    try:
        csr = X.tocsr()
        # A new object, so that scipy computes its flags about sorted indices instead of keeping those of X.
        rows = scipy.sparse.csr_array((csr.data, csr.indices, csr.indptr), shape=csr.shape)
        rows.check_format(full_check=True)
    except (ValueError, IndexError, TypeError) as error:
        raise UserError(f"X is not a consistent sparse matrix ({error}): rebuild it from its entries") from None
    if not rows.has_canonical_format:
        rows = scipy.sparse.csr_array((_doubles(rows.data), rows.indices, rows.indptr), shape=rows.shape, copy=True)
        with np.errstate(over="ignore", invalid="ignore"):
            rows.sum_duplicates()
    return rows


def _whole_float(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def plain_names(classes: Iterable[Any]) -> list[Any]:
    """The items of a user's `classes`, NumPy scalars and whole floats as plain numbers.

    >>> plain_names(np.array([0.0, 1.0])), plain_names(["ham", "spam"])
    ([0, 1], ['ham', 'spam'])
    """
    try:
        if isinstance(classes, str | bytes):
            raise TypeError
        return [_whole_float(item) for item in classes]
    except TypeError:
        raise UserError(f"classes must be a list of names, not {classes!r}") from None


def _distinct(y: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct labels of y, and for each row the position of its label among them."""
    if isinstance(y, str | bytes):
        raise UserError("y must hold a label for each row of X, not a string: give a list")
    if isinstance(y, np.ndarray):
        if y.ndim != 1:
            raise UserError(f"y must have one dimension, a label for each row of X, not {y.ndim}")
        if y.dtype.kind in "biufU" and not (y.dtype.kind == "f" and np.isnan(y).any()):
            found, first, inverse = np.unique(y, return_index=True, return_inverse=True)
            order = np.argsort(first)
            return [_whole_float(item) for item in found[order]], np.argsort(order)[inverse]
    try:
        rows = list(y)
    except TypeError:
        raise UserError(f"y must be a sequence with a label for each row of X, not {type(y).__name__}") from None
    places: dict[tuple[type, Any], int] = {}  # by type as well: True and 1 are equal, but are two classes
    positions = np.empty(len(rows), np.int64)
    for row, item in enumerate(rows):
        plain = label(_whole_float(item), f"in row {row} of y the class")
        positions[row] = places.setdefault((type(plain), plain), len(places))
    return [plain for _, plain in places], positions


def label_positions(y: Any, rounds: int, classes: Iterable[Any] | None) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    """The classes, and every row's position in them."""
    found, positions = _distinct(y)
    if len(positions) != rounds:
        raise UserError(f"X has {rounds} rows and y has {len(positions)} labels: give one label for each row")
    appearing = labels(found, "class")
    if classes is not None:
        names = two_classes(labels(plain_names(classes), "class"))
    else:
        try:
            names = tuple(sorted(appearing))  # type: ignore[type-var]
        except TypeError:
            names = appearing
        two_classes(names)
    place = {name: position for position, name in enumerate(names)}
    to_place = np.array([place.get(name, -1) for name in appearing], np.int64)
    result = to_place[positions]
    if (to_place < 0).any():
        row = int(np.argmin(result))
        raise UserError(
            f"row {row} of y (counting from 0) has the label {appearing[positions[row]]!r}, which is not among the "
            f"classes {listing(names)}: add it to classes or drop the row"
        )
    return names, result


def two_classes(names: tuple[Label, ...]) -> tuple[Label, ...]:
    """The names, if there are two of them."""
    if len(names) < 2:
        raise UserError(
            f"a stream needs at least 2 classes, but {'only ' + repr(names[0]) if names else 'none'} is named: name "
            "all of them, as in ham,spam"
        )
    return names


def digits() -> ArrayStream:
    """scikit-learn's 1,797 handwritten digits in their original order: 64 pixels from 0 to 16, divided by 16 (so 0 to
    1).

    >>> from gappletron.data.open import digits
    >>> stream = digits()
    >>> stream.rounds, stream.features, len(stream.classes)
    (1797, 64, 10)
    """
    from sklearn.datasets import load_digits

    pixels, y = load_digits(return_X_y=True)
    return ArrayStream(pixels / 16.0, y, classes=range(10), name="digits")


# --------------------------------------------------------------------------------------------------------------- limits


def trusted(stream: Stream) -> Stream:
    """The stream itself if it is defined by the package, which checks what it yields; else one whose chunks are
    checked.
    """
    return stream if type(stream).__module__.startswith("gappletron.data.open.") else Checked(stream)


class Wrapped(Stream):
    """Another stream with some change; all attributes are those of the other stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = trusted(stream)
        self.name = stream.name

    @property
    def features(self) -> int:  # type: ignore[override]
        """The stream's features."""
        return self._stream.features

    @property
    def classes(self) -> tuple[Label, ...]:  # type: ignore[override]
        """The stream's classes."""
        return self._stream.classes

    @property
    def classes_given(self) -> bool:  # type: ignore[override]
        """Whether the order of the stream's classes was chosen, not derived from the data."""
        return self._stream.classes_given

    @property
    def is_transformed(self) -> bool:  # type: ignore[override]
        """Whether the stream's rows were normalized, or have a bias on request."""
        return self._stream.is_transformed

    @property
    def encoder(self) -> Encoder | None:  # type: ignore[override]
        """The stream's encoder."""
        return self._stream.encoder

    @property
    def label(self) -> str | None:  # type: ignore[override]
        """The stream's column of labels."""
        return self._stream.label

    @property
    def is_open(self) -> bool:  # type: ignore[override]
        """Whether classes are added to the stream's."""
        return self._stream.is_open

    @property
    def rounds(self) -> int | None:  # type: ignore[override]
        """The stream's rounds."""
        return self._stream.rounds

    @property
    def max_norm(self) -> float | None:  # type: ignore[override]
        """The largest norm in the stream, or an upper bound of it."""
        return self._stream.max_norm

    def prepare(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Prepare the stream."""
        self._stream.prepare(progress)


class Checked(Wrapped):
    """A stream from outside the package. Each chunk is checked, because compiled code would read beyond the end of an
    array if a chunk is wrong.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.name = stream.name

    def chunks(self) -> Iterator[Chunk]:
        """The stream's chunks, in the types that kernels are compiled for."""
        for number, chunk in enumerate(self._stream.chunks()):
            try:
                typed = frozen(*chunk)
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"chunk {number} of {self.name} is not made of one-dimensional arrays of numbers ({error}): "
                    "see Chunk"
                ) from None
            problem = self._problem(typed)
            if problem:
                raise UserError(f"chunk {number} of {self.name} is wrong: {problem}")
            yield typed

    def _problem(self, chunk: Chunk) -> str:  # noqa: PLR0911 - a list of reasons
        indptr, indices, values, positions = chunk
        if any(array.ndim != 1 for array in chunk):
            return "its arrays must be one-dimensional"
        if indptr.size != positions.size + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            return "indptr must start at 0, must not decrease, and must have one entry more than labels"
        if not indptr[-1] == indices.size == values.size:
            return "indices and values must have indptr[-1] entries"
        if positions.size and not 0 <= positions.min() <= positions.max() < len(self.classes):
            return f"labels must be positions from 0 to {len(self.classes) - 1}"
        if indices.size and not 0 <= indices.min() <= indices.max() < self.features:
            return f"indices must lie between 0 and {self.features - 1}"
        rising = np.diff(indices) > 0
        rising[indptr[(indptr > 0) & (indptr < indices.size)] - 1] = True  # from one row to the next they may decrease
        if not rising.all():
            return "indices must increase within a row"
        return "" if np.isfinite(values).all() else "values must be finite"


class Limited(Wrapped):
    """The first rounds of another stream; made by :func:`limited`."""

    def __init__(self, stream: Stream, rounds: int) -> None:
        super().__init__(stream)
        self._most = whole(rounds, "rounds", least=1)

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """The limit, or the length of the stream where that is known to be smaller."""
        known = self._stream.rounds
        return self._most if known is None else min(self._most, known)

    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning, up to the limit."""
        return self._cut(self._stream.chunks())

    def _cut(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        left = self._most
        for chunk in chunks:
            if len(chunk.labels) > left:
                entries = chunk.indptr[left]
                yield Chunk(
                    chunk.indptr[: left + 1], chunk.indices[:entries], chunk.values[:entries], chunk.labels[:left]
                )
                return
            yield chunk
            left -= len(chunk.labels)
            if left == 0:  # do not ask for more: a pipe may wait forever
                return


def limited(stream: Stream, rounds: int) -> Stream:
    """The first `rounds` rounds of a stream, or all of it if it is shorter.

    Features, classes and the largest norm are those of the whole stream, so a longer run begins like a shorter one.

    >>> from gappletron.data.open import digits, limited
    >>> limited(digits(), 100).rounds, limited(digits(), 10_000).rounds
    (100, 1797)
    """
    return Limited(stream, rounds)
