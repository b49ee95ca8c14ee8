"""Scores of one's own model that come with rows, brought between -1 and 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.kernel.types import Floats

# In place of the scores that come with rows, where none do.
NO_SCORES = np.zeros((0, 0))
# Numbers from 0 to 1 whose sum is as close to 1 as this are probabilities, also where they were rounded.
ROUNDED = 0.01


def squash_scores(scores: Floats) -> Floats:
    """Return scores between -1 and 1, ``2 p - 1``: p are the numbers themselves where they are probabilities (from 0 to
    1, and their sum is 1 but for rounding), else their softmax. Logarithms of probabilities may be -inf.

    >>> squash_scores(np.array([0.2, 0.8])), squash_scores(np.array([-3.0, -3.0]))
    (array([-0.6,  0.6]), array([0., 0.]))
    """
    inside = ((scores >= 0.0) & (scores <= 1.0)).all(axis=-1, keepdims=True)
    total = np.where(inside, scores, 0.0).sum(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):  # the difference of two huge numbers is -inf, and its exponential 0
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    softmax = exponentials / exponentials.sum(axis=-1, keepdims=True)
    probabilities = np.where(inside, scores, 0.0) / np.where(total > 0.0, total, 1.0)
    chances = np.where(inside & (np.abs(total - 1.0) <= ROUNDED), probabilities, softmax)
    return np.ascontiguousarray(np.clip(2.0 * chances - 1.0, -1.0, 1.0))


def read_scores(given: Any) -> Floats:
    """Return numbers as an array; NaN where they are none.

    >>> read_scores([1, 2]), read_scores(["a", "b"])
    (array([1., 2.]), array(nan))
    """
    try:
        found = np.asarray(given)
        typed = np.array(found if found.dtype.kind in "biufO" else np.nan, np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        return np.full((), np.nan)
    return typed  # in the order of C, which is that of sums, and so of their bits


def find_wrong(scores: Floats) -> NDArray[np.bool_]:
    """Return which rows are no scores: with NaN or inf, or with nothing above -inf."""
    return np.asarray(~(scores < np.inf).all(axis=-1) | (scores.max(axis=-1) == -np.inf))


def check_score_table(given: Any, rows: int, classes: int, what: str = "scores") -> Floats:
    """Return the scores of so many rows and classes, between -1 and 1."""
    found = read_scores(given)
    if found.shape != (rows, classes):
        raise UserError(f"{what} must be numbers in {rows} rows and {classes} columns, one per class")
    wrong = find_wrong(found)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UserError(f"{what} must be finite numbers, and those of row {row} are {found[row].tolist()}")
    return squash_scores(found)
