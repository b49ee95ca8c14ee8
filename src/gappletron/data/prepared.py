"""Chunks that are ready to be played: checked, because compiled code trusts them, and measured.

A chunk is prepared once for all players, and the chunks of a :class:`Remembered` stream once for all runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.data.stream import MOST_FEATURES, Chunk, Stream, Wrapped, frozen
from gappletron.data.transform import biased
from gappletron.kernel.compiling import specialise
from gappletron.kernel.numerics import LARGEST_VALUE, Floats

__all__ = ["Prepared", "Remembered", "prepared", "prepared_chunks"]


class Prepared(NamedTuple):
    """A chunk, checked, with ||x||^2 of every row, and the least number of features and classes that it needs."""

    chunk: Chunk
    squared: Floats
    features: int
    classes: int

    def biased(self) -> Prepared:
        """The same rows with one more feature, the first, that is always 1."""
        chunk = biased(self.chunk)
        return self._replace(chunk=chunk, squared=1.0 + self.squared, features=self.features + 1)

    def relabelled(self, positions: NDArray[np.int64]) -> Prepared:
        """The same rows with the label y replaced by ``positions[y]``."""
        labels = positions[self.chunk.labels]
        chunk = frozen(*self.chunk[:3], labels)
        return self._replace(chunk=chunk, classes=int(labels.max()) + 1 if labels.size else 0)


def prepared(chunk: Chunk, where: str = "the chunk", first: int = 0) -> Prepared:
    """A chunk ready to be played by any number of players, or a UserError: compiled code will trust it.

    Its rows are numbered from `first` in messages.
    """
    arrays: tuple[NDArray[Any], ...] = tuple(chunk)
    for array, kinds in zip(arrays, ("iu", "iu", "biuf", "iu"), strict=True):
        if array.ndim != 1 or array.dtype.kind not in kinds:
            raise UserError(f"{where} is not a chunk of flat arrays: indptr, indices and labels must be whole numbers")
    if chunk.indices.dtype != np.int32 and chunk.indices.size and chunk.indices.max() > MOST_FEATURES:
        raise UserError(f"{where} has an index beyond {MOST_FEATURES}: hash the features into fewer")
    typed = frozen(*chunk)
    rounds, ends = len(typed.labels), typed.indptr
    if (
        len(ends) != rounds + 1
        or ends[0] < 0
        or (np.diff(ends) < 0).any()
        or ends[-1] > min(typed.indices.size, typed.values.size)
    ):
        raise UserError(f"{where} is not a chunk: indptr must never fall, and index entries that there are")
    squared = np.empty(rounds)
    largest, lowest, highest = specialise(measured_rows, typed, squared)(typed, squared)
    if not largest <= LARGEST_VALUE:
        entry = int(np.argmin(np.abs(typed.values) <= LARGEST_VALUE))
        row = int(np.searchsorted(ends, entry, side="right")) - 1
        raise UserError(
            f"{where} has the value {typed.values[entry]:g} in row {first + row + 1}, and values must be at most "
            f"{LARGEST_VALUE:g} in size: scale the rows, for example to unit norm (normalize='unit', --normalize unit)"
        )
    if lowest < 0 or (rounds and typed.labels.min() < 0):
        raise UserError(f"{where} has a negative index or label: indices and labels are positions from 0")
    return Prepared(typed, squared, int(highest) + 1, int(typed.labels.max()) + 1 if rounds else 0)


def measured_rows(chunk: Chunk, out: Floats) -> tuple[float, int, int]:
    """||x_t||^2 of every row of a chunk; returns the largest absolute value, the lowest and the highest index."""
    largest = 0.0
    lowest, highest = 0, -1
    for t in range(out.size):
        total = 0.0
        for p in range(chunk.indptr[t], chunk.indptr[t + 1]):
            value = chunk.values[p]
            total += value * value
            if not abs(value) <= largest:  # so NaN is found as well
                largest = abs(value)
            lowest = min(lowest, chunk.indices[p])
            highest = max(highest, chunk.indices[p])
        out[t] = total
    return largest, lowest, highest


def prepared_chunks(stream: Stream) -> Iterator[Prepared]:
    """The chunks of a stream from the beginning, each ready to be played."""
    if isinstance(stream, Remembered):
        yield from stream.kept
        return
    played = 0
    for chunk in stream.chunks():
        yield prepared(chunk, stream.name, played)
        played += len(chunk.labels)


class Remembered(Wrapped):
    """Another stream with all chunks kept in memory, prepared, for many runs on the same data.

    >>> from gappletron.data.open import Synthetic
    >>> stream = Remembered(Synthetic(rounds=100))
    >>> next(stream.chunks()) is next(stream.chunks())
    True
    """

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.kept = tuple(prepared_chunks(self._stream))

    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning."""
        return (ready.chunk for ready in self.kept)
