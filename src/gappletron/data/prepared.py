"""Chunks that are ready to be played: measured once for all players, those of :class:`Remembered` once for all runs."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.data.arrays import ArrayRows
from gappletron.data.scores import NO_SCORES
from gappletron.data.stream import (
    Chunk,
    Stream,
    Wrapped,
    add_bias,
    check_chunk,
    check_stream,
    drop_zeros,
    make_chunk,
    squared_size,
)
from gappletron.data.vectors import Vectors
from gappletron.kernel.compiling import run
from gappletron.kernel.numerics import LARGEST_VALUE
from gappletron.kernel.types import Floats, Vector


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A chunk that was checked, with ||x||^2 of every row, the least number of features and classes it needs, and the
    scores that came with its rows, if any did (n x K).
    """

    chunk: Chunk
    squared: Floats
    features: int
    classes: int
    scores: Floats = dataclasses.field(default_factory=lambda: NO_SCORES)

    def with_bias(self) -> Self:
        """Return the same rows with one more feature, the first, that is always 1."""
        chunk = add_bias(self.chunk)
        return dataclasses.replace(self, chunk=chunk, squared=1.0 + self.squared, features=self.features + 1)

    def relabel(self, positions: NDArray[np.int64]) -> Self:
        """Return the same rows with each label y, and the scores of class y, moved to ``positions[y]``."""
        labels, scores = positions[self.chunk.labels], self.scores
        chunk = make_chunk(*self.chunk[:3], labels)
        if scores.size:
            if positions.max() >= positions.size:
                raise UserError(
                    f"the rows have scores for {positions.size} classes, and the graph has more: name all of its "
                    "classes with --classes (classes=), and give each its scores"
                )
            scores = scores[:, np.argsort(positions)]
        return dataclasses.replace(self, chunk=chunk, classes=int(labels.max(initial=-1)) + 1, scores=scores)

    def move(self, rows: NDArray[np.int32]) -> Self:
        """Return the same entries with these indices; those with a negative one are left out."""
        indptr, _, values, labels = self.chunk
        kept = rows >= 0
        if kept.all():
            return dataclasses.replace(self, chunk=make_chunk(indptr, rows, values, labels))
        ends = np.concatenate([[0], np.cumsum(kept)])[indptr]
        moved = measure(make_chunk(ends, rows[kept], values[kept], labels), "the chunk")
        return dataclasses.replace(self, chunk=moved.chunk, squared=moved.squared)

    def without_zeros(self) -> "Prepared":
        """Return the same rows without entries of 0, for players to which these mean nothing; made once for all."""
        return self._without_zeros or self

    @functools.cached_property
    def _without_zeros(self) -> "Prepared | None":
        indptr, indices, values = drop_zeros(*self.chunk[:3])
        if values is self.chunk.values:
            return None
        return dataclasses.replace(self, chunk=make_chunk(indptr, indices, values, self.chunk.labels))


def prepare(chunk: Chunk) -> Prepared:
    """Return a chunk from outside ready to be played by any number of players, or raise a UserError."""
    return measure(check_chunk(chunk, "the chunk"), "the chunk")


def measure(chunk: Chunk, where: str, first: int = 0) -> Prepared:
    """Return a chunk whose rows are well made ready to be played, or raise a UserError if a value is too large.

    Its rows are numbered from `first` in messages.
    """
    squared = np.empty(len(chunk.labels))
    run(measure_rows, chunk.indptr, chunk.values, squared)
    if not np.abs(chunk.values).max(initial=0.0) <= LARGEST_VALUE:  # so NaN is found as well
        entry = int(np.argmin(np.abs(chunk.values) <= LARGEST_VALUE))
        row = int(np.searchsorted(chunk.indptr, entry, side="right")) - 1
        what = f"{where} has the value {chunk.values[entry]:g} in row {first + row + 1}"
        cure = "scale the rows, for example to unit norm (normalize='unit', --normalize unit)"
        raise UserError(f"{what}, and values must be at most {LARGEST_VALUE:g} in size: {cure}")
    return Prepared(chunk, squared, int(chunk.indices.max(initial=-1)) + 1, int(chunk.labels.max(initial=-1)) + 1)


def measure_rows(indptr: NDArray[np.int64], values: Floats, out: Floats) -> None:
    """Write ||x_t||^2 of every row of a chunk."""
    for t in range(out.size):
        out[t] = squared_size(values, indptr[t], indptr[t + 1])


def prepare_chunks(stream: Stream) -> Iterator[Prepared]:
    """Yield the chunks of a stream from the beginning, each ready to be played."""
    if isinstance(stream, Remembered):
        yield from stream.kept
        return
    played = 0
    for chunk, scores in check_stream(stream).scored():
        yield dataclasses.replace(measure(chunk, stream.name, played), scores=scores)
        played += len(chunk.labels)


def prepare_rows(X: Any, features: int | None) -> Iterator[Prepared]:
    """Return vectors that were checked for a model, or the rows of a dense 2-D array or a sparse matrix, in chunks
    whose labels mean nothing.

    >>> [ready.squared for ready in prepare_rows([[0.0, 2.0], [1.0, 1.0]], 2)]
    [array([4., 2.])]
    """
    if isinstance(X, Vectors):
        return iter([measure(make_chunk(*X[:3], np.zeros(X.squared.size, np.int64)), "X")])
    rows = ArrayRows(X)
    if features not in (None, rows.features):
        raise UserError(f"X has {rows.features} columns and the model {features} features: give one for each")
    return (measure(chunk, "X") for chunk in rows.chunks(np.zeros(rows.count, np.int64)))


def prepare_vector(vector: Vector, label: int = 0, given: Floats | None = None) -> Prepared:
    """Return a checked vector as a chunk of one row, with the checked scores that came with it."""
    features = vector.indices.item(-1) + 1 if vector.indices.size else 0
    chunk = make_chunk(np.array([0, vector.indices.size]), vector.indices, vector.values, np.array([label]))
    scores = NO_SCORES if given is None else given[np.newaxis]
    return Prepared(chunk, np.array([vector.squared]), features, label + 1, scores)


class Remembered(Wrapped):
    """Another stream with all chunks kept in memory, prepared, for many runs on the same data.

    >>> from gappletron import Synthetic
    >>> stream = Remembered(Synthetic(rounds=100))
    >>> next(stream.chunks()) is next(stream.chunks())
    True
    """

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.kept = tuple(prepare_chunks(self._stream))

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
        return (ready.chunk for ready in self.kept)

    def scored(self) -> Iterator[tuple[Chunk, Floats]]:
        """Yield the rounds from the beginning, with their scores."""
        return ((ready.chunk, ready.scores) for ready in self.kept)
