"""What a stream is: rounds in chunks of sparse rows, and the wrappers that change or check another stream.

A :class:`Stream` knows its features and classes before the first round, and yields :class:`Chunk` after :class:`Chunk`
in one fixed set of array types, so that the round loop is compiled once. A zero that was given is an entry; what a
sparse row leaves out is none.
"""

import abc
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, whole
from gappletron.base.errors import UserError
from gappletron.data.scores import NO_SCORES, check_score_table
from gappletron.kernel.compiling import run
from gappletron.kernel.pieces import helper
from gappletron.kernel.types import MOST_FEATURES, MOST_NARROW, Floats, Indices

# The maximum number of rounds in a chunk.
CHUNK = 65_536

# The maximum number of entries in a chunk, unless a single row has more: it bounds the memory of wide streams.
ENTRIES = 4_194_304


class Chunk(NamedTuple):
    """Consecutive rounds: row ``i`` has entries at ``indices[indptr[i]:indptr[i + 1]]`` and the label ``labels[i]``.

    The arrays are one-dimensional, contiguous and read-only; ``indptr`` and ``labels`` are int64, ``indices`` int32
    (int64 where one is larger), sorted and distinct within a row, ``values`` float64; ``indptr`` begins at 0, labels
    are positions in the stream's ``classes``.

    >>> from gappletron import ArrayStream
    >>> chunk = next(ArrayStream([[0, 2.5], [3, 4]], ["ham", "spam"]).chunks())
    >>> chunk.indptr, chunk.indices, chunk.values, chunk.labels
    (array([0, 2, 4]), array([0, 1, 0, 1], dtype=int32), array([0. , 2.5, 3. , 4. ]), array([0, 1]))
    """

    indptr: NDArray[np.int64]
    indices: Indices
    values: NDArray[np.float64]
    labels: NDArray[np.int64]

    def part(self, start: int, stop: int) -> "Chunk":
        """Return the rows from `start` to `stop`, as far as there are so many."""
        indptr = self.indptr[start : stop + 1]
        entries = slice(indptr[0], indptr[-1])
        return make_chunk(indptr - indptr[0], self.indices[entries], self.values[entries], self.labels[start:stop])


def make_chunk(indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], labels: NDArray[Any]) -> Chunk:
    """Return a chunk of these arrays, read-only and in the types that kernels are compiled for.

    >>> make_chunk(np.array([0, 1]), np.array([3]), np.array([1.0]), np.array([0])).indices.flags.writeable
    False
    """
    indices = np.asarray(indices)
    wide = indices.dtype == np.int64 and indices.max(initial=0) > MOST_NARROW
    typed = (
        np.require(array, dtype, ["C", "A"]).view()
        for array, dtype in (
            (indptr, np.int64),
            (indices, np.int64 if wide else np.int32),
            (values, np.float64),
            (labels, np.int64),
        )
    )
    chunk = Chunk(*typed)
    for array in chunk:
        array.setflags(write=False)
    return chunk


def check_chunk(chunk: Chunk, where: str, features: int = MOST_FEATURES, classes: int = 2**62) -> Chunk:
    """Return a chunk from outside in the types of kernels, or raise a UserError if compiled code cannot trust it."""
    try:
        typed = make_chunk(*chunk)
    except (TypeError, ValueError) as error:
        raise UserError(f"{where} is not made of flat arrays of numbers ({error}): see gappletron.Chunk") from None
    problem = _find_problem(chunk, typed, features, classes)
    if problem:
        raise UserError(f"{where} is wrong: {problem}")
    return typed


def _find_problem(given: Chunk, typed: Chunk, features: int, classes: int) -> str:  # noqa: PLR0911 - a list of reasons
    indptr, indices, values, labels = typed
    if any(array.ndim != 1 for array in typed):
        return "its arrays must have one dimension"
    if not all(np.array_equal(given[i], typed[i]) for i in (0, 1, 3)):  # their types hold no other numbers
        return f"indptr, indices and labels must be whole numbers, and indices at most {MOST_FEATURES}"
    if indptr.size != labels.size + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        return "indptr must start at 0, must not decrease, and must have one entry more than labels"
    if not indptr[-1] == indices.size == values.size:
        return "indices and values must have indptr[-1] entries"
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        return f"labels must be positions from 0 to {classes - 1}"
    if indices.size and not 0 <= indices.min() <= indices.max() < features:
        return f"indices must lie between 0 and {features - 1}"
    rising = np.diff(indices) > 0
    rising[indptr[(indptr > 0) & (indptr < indices.size)] - 1] = True  # from one row to the next they may decrease
    if not rising.all():
        return "indices must increase within a row"
    return "" if np.isfinite(values).all() else "values must be finite"


def drop_zeros(
    indptr: NDArray[np.int64], indices: Indices, values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], Indices, NDArray[np.float64]]:
    """Return the same rows without their stored zeros.

    >>> drop_zeros(np.array([0, 2, 3]), np.array([4, 6, 5], np.int32), np.array([1.0, 0.0, -0.0]))
    (array([0, 1, 1]), array([4], dtype=int32), array([1.]))
    """
    kept = np.count_nonzero(values)
    if kept == values.size:
        return indptr, indices, values
    out = np.zeros_like(indptr), np.empty(kept + 1, indices.dtype), np.empty(kept + 1)
    run(_drop_zeros, indptr, indices, values, *out)
    return out[0], out[1][:kept], out[2][:kept]


def _drop_zeros(
    indptr: NDArray[np.int64],
    indices: Indices,
    values: NDArray[np.float64],
    out_indptr: NDArray[np.int64],
    out_indices: Indices,
    out_values: NDArray[np.float64],
) -> None:
    at = 0
    for row in range(indptr.size - 1):
        for p in range(indptr[row], indptr[row + 1]):
            # Every entry is written, and the next one takes the place of a zero: faster than a jump.
            out_indices[at], out_values[at] = indices[p], values[p]
            at += values[p] != 0.0
        out_indptr[row + 1] = at


@helper
def squared_size(values: Any, start: int, stop: int) -> float:
    """Return the sum of the squares of values[start:stop]."""
    total = 0.0
    for p in range(start, stop):
        value = float(values[p])
        total += value * value
    return total


@helper
def largest_size(values: Any, start: int, stop: int) -> float:
    """Return the largest absolute value of values[start:stop]."""
    largest = 0.0
    for p in range(start, stop):
        largest = max(largest, abs(float(values[p])))
    return largest


@helper
def compute_norm(values: Any, start: int, stop: int) -> float:
    """Return the Euclidean norm of values[start:stop], also where the squares leave the range of doubles."""
    total = squared_size(values, start, stop)
    if 1e-280 < total < 1e300:
        return math.sqrt(total)
    largest = largest_size(values, start, stop)
    if largest == 0.0:
        return 0.0
    total = 0.0
    for p in range(start, stop):
        scaled = float(values[p]) / largest
        total += scaled * scaled
    return largest * math.sqrt(total)


def _largest_norm(indptr: NDArray[np.int64], values: Floats) -> float:
    largest = 0.0
    for row in range(indptr.size - 1):
        largest = max(largest, compute_norm(values, indptr[row], indptr[row + 1]))
    return largest


def largest_norm(chunk: Chunk) -> float:
    """Return the largest Euclidean norm among the rows of a chunk.

    >>> largest_norm(make_chunk(np.array([0, 2, 2]), np.array([0, 7]), np.array([2e200, 0.0]), np.array([0, 1])))
    2e+200
    """
    return float(run(_largest_norm, chunk.indptr, chunk.values))


def check_norm(norm: float, name: str) -> float:
    """Return the norm, or raise a UserError if it is too large for a double."""
    if math.isinf(norm):
        raise UserError(f"{name} has a row whose norm is too large for a double: scale it, or use normalize='unit'")
    return norm


def add_bias(chunk: Chunk) -> Chunk:
    """Return a chunk whose rows have one more feature, the first, that is always 1."""
    indptr = chunk.indptr + np.arange(chunk.indptr.size)
    is_given = np.ones(indptr[-1], np.bool_)
    is_given[indptr[:-1]] = False
    indices, values = np.zeros(is_given.size, chunk.indices.dtype), np.ones(is_given.size)
    indices[is_given], values[is_given] = chunk.indices + chunk.indices.dtype.type(1), chunk.values
    return make_chunk(indptr, indices, values, chunk.labels)


class Stream(abc.ABC):
    """A sequence of rounds (x, y), each made of a sparse row and a class.

    A subclass sets the attributes and yields chunks; every call of :meth:`chunks` starts from the first round.

    :ivar name: the name in titles and messages.
    :ivar features: the number of features d; every index is below it.
    :ivar classes: the classes' names; a chunk's labels are positions in it.
    :ivar classes_given: whether the order of the classes was chosen, by the user or by the definition of the
        stream. False where the order was derived from the data (sorted labels): then the filtering presets require
        the revealing class by name.
    :ivar rounds: the number of rounds T, None if it is not known in advance.
    :ivar max_norm: the largest Euclidean norm of a row, or an upper bound of it; None if unknown.
    :ivar is_transformed: whether the rows were normalized, or have a bias on request: see
        :mod:`gappletron.data.transform`.
    :ivar encoder: the :class:`~gappletron.Encoder` that made the rows, where they were records; its columns have
        any scale.
    :ivar names: with ``Encoder(names=True)`` what the features of the rows read so far stand for.
    :ivar label: the column of the labels, where the rows come from a table.
    :ivar is_pipe: whether it can be read only once.
    :ivar is_open: whether classes are added while the stream is played: `classes` are those that have come so far.

    >>> import numpy as np
    >>> from gappletron import Chunk, Stream
    >>> class Alternating(Stream):
    ...     name, features, classes, rounds, max_norm = "alternating", 1, ("no", "yes"), 4, 1.0
    ...     def chunks(self):
    ...         yield Chunk(np.arange(5), np.zeros(4, np.int32), np.ones(4), np.arange(4) % 2)
    >>> Alternating()
    <Alternating 'alternating'>
    """

    name: str
    features: int
    classes: tuple[Label, ...]
    classes_given: bool = True
    rounds: int | None
    max_norm: float | None
    is_transformed: bool = False
    encoder: Any = None
    names: Any = None
    label: str | None = None
    is_pipe: bool = False
    is_open: bool = False

    @abc.abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning, at most :data:`CHUNK` at a time."""

    def scored(self) -> Iterator[tuple[Chunk, Floats]]:
        """Yield the same chunks with the scores that came with their rows: one for every class, n x K; by default none.

        Those of a stream of your own are probabilities, or any numbers (:func:`gappletron.data.scores.squash_scores`).
        """
        return ((chunk, NO_SCORES) for chunk in self.chunks())

    def prepare(self, progress: Callable[[int, int], None] | None = None) -> None:  # noqa: B027 - most have nothing to prepare
        """Read now what playing needs, such as the classes of a file; `progress` is called with (done, total)."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def find_max_norm(stream: Stream) -> float:
    """Return the largest Euclidean norm of a row, from all rounds of a stream."""
    return check_norm(max(map(largest_norm, stream.chunks())), stream.name)


# ------------------------------------------------------------------------------------------------------------- wrappers


def check_stream(stream: Stream) -> Stream:
    """Return the stream itself if it is one of the package's, whose rows are well made; else one that checks them."""
    return stream if type(stream).__module__.startswith("gappletron.data.") else Checked(stream)


class Wrapped(Stream):
    """Another stream with some change; all attributes are those of the other stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self.name = stream, stream.name

    def prepare(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Prepare the stream."""
        self._stream.prepare(progress)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning, changed."""
        return (chunk for chunk, _ in self.scored())


for _name in Stream.__annotations__.keys() - {"name"}:
    setattr(Wrapped, _name, property(operator.attrgetter(f"_stream.{_name}")))


class Checked(Wrapped):
    """A stream from outside the package. Each chunk is checked, because compiled code would read beyond the end of an
    array if a chunk is wrong.
    """

    def scored(self) -> Iterator[tuple[Chunk, Floats]]:
        """Yield the stream's chunks, in the types that kernels are compiled for, and their scores."""
        for number, (chunk, scores) in enumerate(self._stream.scored()):
            where = f"chunk {number} of {self.name}"
            checked = check_chunk(chunk, where, self.features, len(self.classes))
            shape = len(checked.labels), len(self.classes)
            given = check_score_table(scores, *shape, f"the scores of {where}") if np.size(scores) else NO_SCORES
            yield checked, given


class FirstRounds(Wrapped):
    """The first `rounds` rounds of a stream, or all of it if it is shorter.

    Features, classes and the largest norm are those of the whole stream, so a longer run begins like a shorter one.

    >>> from gappletron import Synthetic
    >>> FirstRounds(Synthetic(rounds=500), 100).rounds, FirstRounds(Synthetic(rounds=500), 10_000).rounds
    (100, 500)
    """

    def __init__(self, stream: Stream, rounds: int) -> None:
        super().__init__(stream)
        self._most = whole(rounds, "rounds", least=1)

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """The limit, or the length of the stream where that is known to be smaller."""
        known = self._stream.rounds
        return self._most if known is None else min(self._most, known)

    def scored(self) -> Iterator[tuple[Chunk, Floats]]:
        """Yield the rounds from the beginning, up to the limit, with their scores."""
        left = self._most
        for chunk, scores in check_stream(self._stream).scored():
            if len(chunk.labels) > left:
                yield chunk.part(0, left), scores[:left]
                return
            yield chunk, scores
            left -= len(chunk.labels)
            if left == 0:  # do not ask for more: a pipe may wait forever
                return
