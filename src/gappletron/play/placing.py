"""Rows of features as rows of the states (:mod:`gappletron.play.index`), which is what compiled code takes.

Where rows are on demand, new features get one, or are left out where there is none left. `at` is the number of the
first round that is to be played with them; -1 for none.
"""

import numpy as np

from gappletron.data.prepared import Prepared
from gappletron.data.stream import make_chunk, squared_size
from gappletron.data.vectors import Vectors
from gappletron.kernel.types import Vector
from gappletron.play.index import FeatureIndex, Index


def place_vector(index: FeatureIndex, vector: Vector, at: int) -> Vector:
    """Return a checked vector with the rows of its features as indices."""
    rows, values, squared = index.claim(vector.indices, at), vector.values, vector.squared
    if rows.size and rows.min() < 0:
        kept = rows >= 0
        rows, values = rows[kept], values[kept]
        squared = squared_size(values, 0, values.size)
    return Vector(rows, values, squared)


def place_chunk(index: Index, chunk: Prepared, at: int = -1) -> Prepared:
    """As :func:`place_vector`, for a checked chunk."""
    return chunk.move(index.claim(chunk.chunk.indices, at)) if isinstance(index, FeatureIndex) else chunk


def place_many(index: Index, rows: Vectors, at: int) -> Vectors:
    """As :func:`place_vector`, for many."""
    if not isinstance(index, FeatureIndex):
        return rows
    chunk = make_chunk(*rows[:3], np.zeros(rows.squared.size, np.int64))
    placed = place_chunk(index, Prepared(chunk, rows.squared, 0, 0), at)
    return Vectors(*placed.chunk[:3], placed.squared)
