"""Transformations of the rows of a stream: normalization, and a bias feature."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gappletron._dispatch import helper, specialised
from gappletron._validate import UserError, unknown
from gappletron.streams.stream import Chunk, Stream, Wrapped, frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["NORMALIZATIONS", "transformed"]

NORMALIZATIONS = ("none", "unit", "log1p-unit")
"""The ways to normalize a row."""


@helper
def scale_to_unit(values: Any, start: int, stop: int) -> None:
    """Divide values[start:stop] by their Euclidean norm, also where the squares leave the range of doubles."""
    total = 0.0
    for i in range(start, stop):
        value = float(values[i])
        total += value * value
    if not 1e-280 < total < 1e300:
        largest = 0.0
        for i in range(start, stop):
            largest = max(largest, abs(float(values[i])))
        if largest == 0.0:
            return
        total = 0.0
        for i in range(start, stop):
            values[i] = float(values[i]) / largest
            total += float(values[i]) * float(values[i])
    norm = math.sqrt(total)
    for i in range(start, stop):
        values[i] = float(values[i]) / norm


def _normalized(chunk: Chunk, logarithm: bool, values: NDArray[np.float64]) -> None:
    """Write to `values` those of the rows, scaled to unit norm, if wanted after a logarithm that keeps their signs."""
    for i in range(len(values)):
        value = float(chunk.values[i])
        values[i] = math.copysign(math.log1p(abs(value)), value) if logarithm else value
    for row in range(len(chunk.labels)):
        scale_to_unit(values, chunk.indptr[row], chunk.indptr[row + 1])


def _biased(chunk: Chunk, indices: NDArray[np.int32], values: NDArray[np.float64], bias: int) -> None:
    """Write the rows to `indices` and `values`, each followed by the feature `bias` with value 1."""
    at = 0
    for row in range(len(chunk.labels)):
        for i in range(chunk.indptr[row], chunk.indptr[row + 1]):
            indices[at] = chunk.indices[i]
            values[at] = chunk.values[i]
            at += 1
        indices[at] = bias
        values[at] = 1.0
        at += 1


class Transformed(Wrapped):
    """Another stream with its rows changed; made by :func:`transformed`."""

    def __init__(self, stream: Stream, normalize: str, bias: bool) -> None:
        if normalize not in NORMALIZATIONS:
            raise unknown(normalize, "normalization", NORMALIZATIONS)
        if type(bias) is not bool:
            raise UserError(f"bias must be True or False, not {bias!r}")
        super().__init__(stream)
        self._normalize, self._bias = normalize, bias

    @property
    def features(self) -> int:  # type: ignore[override]
        """The stream's features, and one more with a bias."""
        return self._stream.features + self._bias

    @property
    def max_norm(self) -> float | None:  # type: ignore[override]
        """1 for normalized rows, else that of the stream; with a bias the root of 1 + its square."""
        norm = 1.0 if self._normalize != "none" else self._stream.max_norm
        return math.hypot(1.0, norm) if self._bias and norm is not None else norm

    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning, changed."""
        return map(self._changed, self._stream.chunks())

    def _changed(self, chunk: Chunk) -> Chunk:
        if self._normalize != "none":
            values = np.empty(len(chunk.values))
            specialised(_normalized, chunk)(chunk, self._normalize == "log1p-unit", values)
            chunk = frozen(chunk.indptr, chunk.indices, values, chunk.labels)
        if not self._bias:
            return chunk
        rounds = len(chunk.labels)
        indices, values = np.empty(len(chunk.indices) + rounds, np.int32), np.empty(len(chunk.values) + rounds)
        specialised(_biased, chunk)(chunk, indices, values, self._stream.features)
        return frozen(chunk.indptr + np.arange(rounds + 1), indices, values, chunk.labels)


def transformed(stream: Stream, normalize: str = "none", bias: bool = False) -> Stream:
    """A stream with its rows normalized and then, with `bias`, extended by a last feature that is always 1.

    ``normalize="unit"`` scales every row to Euclidean norm 1; ``"log1p-unit"`` first replaces each value v by
    sign(v) log(1 + abs(v)), which is useful for counts. Empty rows stay empty.

    >>> from gappletron.streams import ArrayStream, transformed
    >>> stream = transformed(ArrayStream([[3, 4], [0, 0]], ["a", "b"]), normalize="unit", bias=True)
    >>> chunk = next(stream.chunks())
    >>> chunk.indices, chunk.values
    (array([0, 1, 2, 2], dtype=int32), array([0.6, 0.8, 1. , 1. ]))
    >>> stream.features, stream.max_norm
    (3, 1.4142135623730951)
    """
    result = Transformed(stream, normalize, bias)
    return stream if normalize == "none" and not bias else result
