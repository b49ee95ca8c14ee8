"""Transformations of the rows of a stream: normalization, and a bias."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.data.normalization import AsGiven, Normalization, find_normalization
from gappletron.data.stream import Chunk, Stream, Wrapped, add_bias, check_stream, find_max_norm, make_chunk
from gappletron.kernel.compiling import run
from gappletron.kernel.state import Sizes, State
from gappletron.kernel.types import Floats


def _normalize(normalization: Normalization, state: Any, chunk: Chunk, values: NDArray[np.float64]) -> None:
    """Scale the rows of a chunk, whose values are copied to `values`, one after the other."""
    for row in range(len(chunk.labels)):
        start, stop = chunk.indptr[row], chunk.indptr[row + 1]
        normalization.take(state, chunk.indices, values, start, stop, 0, 0.0)


class Transformed(Wrapped):
    """Another stream with its rows changed; made by :func:`transform`."""

    is_transformed = True

    def __init__(self, stream: Stream, normalization: Normalization, bias: bool) -> None:
        super().__init__(stream)
        self._normalization, self._bias = normalization, bias
        self._normalizes = normalization != AsGiven()

    @property
    def features(self) -> int:  # type: ignore[override]
        """The stream's features, and one more with a bias."""
        return int(self._stream.features) + self._bias

    @functools.cached_property
    def max_norm(self) -> float | None:  # type: ignore[override]
        """That of normalized rows, measured where the normalization has no bound, else that of the stream; with a bias
        the root of 1 + its square. A pipe cannot be measured: there it is what was given.
        """
        norm = self._normalization.longest() if self._normalizes else None
        if norm is None and self._normalizes and not self.is_pipe:
            return find_max_norm(self)
        norm = self._stream.max_norm if norm is None else norm
        return math.hypot(1.0, norm) if self._bias and norm is not None else norm

    def scored(self) -> Iterator[tuple[Chunk, Floats]]:
        """Yield the rounds from the beginning, changed, with their scores."""
        state = State(self._normalization.declare(), Sizes(self._stream.features, 1, 1)).tuple
        for chunk, scores in check_stream(self._stream).scored():
            if self._normalizes:
                values = np.array(chunk.values, np.float64)
                run(_normalize, self._normalization, state, chunk, values)
                chunk = make_chunk(chunk.indptr, chunk.indices, values, chunk.labels)  # noqa: PLW2901
            yield (add_bias(chunk) if self._bias else chunk), scores


def transform(stream: Stream, normalize: str | None = "none", bias: bool = False) -> Stream:
    """Return a stream with its rows normalized and then, with `bias`, preceded by a first feature that is always 1.

    ``normalize="unit"`` scales every row to Euclidean norm 1; ``"log1p-unit"`` first replaces each value v by
    sign(v) log(1 + abs(v)), which is useful for counts; ``"columns"`` first centres and scales the columns by what was
    seen of them so far (:class:`gappletron.Columns`). Empty rows stay empty.

    >>> from gappletron import ArrayStream
    >>> stream = transform(ArrayStream([[3, 4], [0, 0]], ["a", "b"]), normalize="unit", bias=True)
    >>> chunk = next(stream.chunks())
    >>> chunk.indices, chunk.values
    (array([0, 1, 2, 0, 1, 2], dtype=int32), array([1. , 0.6, 0.8, 1. , 0. , 0. ]))
    >>> stream.features, stream.max_norm
    (3, 1.4142135623730951)
    """
    if type(bias) is not bool:
        raise UserError(f"bias must be True or False, not {bias!r}")
    normalization = find_normalization(normalize, "none")
    return Transformed(stream, normalization, bias) if bias or normalization != AsGiven() else stream
