"""The inverse of a Kd x Kd matrix, kept by rank-one steps, for the full-matrix learners."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gappletron._dispatch import helper
from gappletron._validate import fits_in_memory

if TYPE_CHECKING:
    from gappletron.numerics import Floats, Row


def scaled_identity(features: int, classes: int, scale: float, name: str, diagonal: str) -> Floats:
    """``scale * I`` of size Kd x Kd, refused where it could not fit; entry ``j K + k`` belongs to feature j and class
    k.
    """
    n = features * classes
    fits_in_memory(
        8 * n * n,
        f"the full matrix of {name} for {features} features x {classes} classes",
        f"use {diagonal}, which keeps only its diagonal",
    )
    matrix = np.zeros((n, n))
    np.fill_diagonal(matrix, scale)
    return matrix


@helper
def solve(inverse: Floats, x: Row, direction: Floats, out: Floats) -> float:
    """out = A^-1 g for ``g = x (x) direction`` and a symmetric A^-1; returns <g, A^-1 g>."""
    K = direction.size
    for n in range(out.size):
        out[n] = 0.0
    for p in range(x.start, x.stop):
        for k in range(K):
            if direction[k] != 0.0:
                row = x.indices[p] * K + k
                factor = x.values[p] * direction[k]
                for n in range(out.size):
                    out[n] += factor * inverse[row, n]
    total = 0.0
    for p in range(x.start, x.stop):
        for k in range(K):
            total += x.values[p] * direction[k] * out[x.indices[p] * K + k]
    return total


@helper
def deflate(inverse: Floats, vector: Floats, factor: float) -> None:
    """A^-1 -= factor * vector vector^T, which leaves it exactly symmetric."""
    for m in range(vector.size):
        if vector[m] != 0.0:
            for n in range(vector.size):
                inverse[m, n] -= factor * (vector[m] * vector[n])


@helper
def inner(weights: Floats, x: Row, direction: Floats) -> float:
    """<W, x (x) direction>."""
    total = 0.0
    for p in range(x.start, x.stop):
        for k in range(direction.size):
            total += x.values[p] * direction[k] * weights[x.indices[p], k]
    return total


@helper
def add_flat(weights: Floats, vector: Floats, factor: float) -> None:
    """W += factor * vector, entry by entry."""
    K = weights.shape[1]
    for j in range(weights.shape[0]):
        for k in range(K):
            weights[j, k] += factor * vector[j * K + k]
