"""The edges of a graph as a matrix: checked, closed, made for a preset, extended by a class.

Entry `[i, y]` says that playing action `i` reveals whether the label is class `y`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gappletron.base.errors import UserError
from gappletron.graphs.presets import Preset


def check_matrix(visible: ArrayLike) -> NDArray[np.bool_]:
    """Return a new matrix of booleans, with at least two classes and an action for each."""
    try:
        given = np.asarray(visible)
    except ValueError:
        raise UserError("the rows of the matrix differ in length: give each action one entry for every class") from None
    if given.ndim != 2:
        raise UserError(
            f"the matrix must have 2 dimensions, not {given.ndim}: give one row per action, one column per class"
        )
    if given.dtype.kind not in "biuf" or not ((given == 0) | (given == 1)).all():
        raise UserError("the matrix must hold only 0 and 1: write 1 where the action reveals the class")
    n_actions, n_classes = given.shape
    if n_actions < n_classes:
        raise UserError(
            f"the matrix has {n_actions} rows for {n_classes} classes: give one row for each class, "
            "and more for extra actions"
        )
    return given.astype(np.bool_, order="C")


def close_edges(given: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the matrix in which an action that reveals all classes but one reveals that one too."""
    closed = given.copy()
    closed[given.sum(axis=1) == given.shape[1] - 1] = True
    return freeze(closed)


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, which is read-only from now on."""
    array.setflags(write=False)
    return array


def make_preset(preset: Preset, n_classes: int) -> NDArray[np.bool_]:
    """Return the edges of a preset, but for classes that reveal every label.

    >>> from gappletron.graphs.presets import PRESETS
    >>> make_preset(PRESETS["label-efficient"], 2).astype(int)
    array([[0, 0],
           [0, 0],
           [1, 1]])
    """
    edges = np.full((n_classes + preset.query, n_classes), preset.others)
    np.fill_diagonal(edges, preset.itself)
    edges[n_classes:] = True
    return edges


def insert_class(matrix: NDArray[Any], value: float) -> NDArray[Any]:
    """Return an N x K matrix with a column for a new class, the last, and a row for its action, all of one value."""
    place = matrix.shape[1]
    return np.insert(np.insert(matrix, place, value, axis=0), place, value, axis=1)


def extend_preset(given: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
    """Return the edges of a preset with one more class; an error where the graph of this name is not a preset's.

    >>> extend_preset(np.eye(2, dtype=bool), "bandit").astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 0, 1]])
    """
    n_actions, K = given.shape
    itself, other = given[0, :2]
    everything: NDArray[np.bool_] = np.asarray(given.all(axis=1))
    if n_actions == K and (given == np.where(np.eye(K, dtype=bool), itself, other)).all():
        edges = np.full((K + 1, K + 1), other)  # bandit, full, disease prevention
        np.fill_diagonal(edges, itself)
        return edges
    if not (everything | ~given.any(axis=1)).all():
        raise UserError(
            f"the graph {name!r} is not a preset, so its edges do not follow for a new class: say what it "
            "reveals=[...] and what it is revealed_by=[...]"
        )
    rows = np.insert(everything, K, everything[:K].all())  # filtering, label efficient
    return np.repeat(rows[:, None], K + 1, axis=1)


def find_strongly_observed(visible: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for every class whether its own action or every other action reveals it."""
    n_actions, n_classes = visible.shape
    own = visible[np.arange(n_classes), np.arange(n_classes)]
    by_all_others = visible.sum(axis=0) - own == n_actions - 1
    return np.asarray(own | by_all_others)
