"""Scores of one's own model that come with rows, brought between -1 and 1."""

from typing import Any

import numpy as np

from gappletron.base.errors import UserError
from gappletron.kernel.types import Floats

# In place of the scores that come with rows, where none do.
NO_SCORES = np.zeros((0, 0))
# Numbers from 0 to 1 whose sum is as close to 1 as this are probabilities, also where they were rounded.
ROUNDED = 0.01


def squash_scores(scores: Floats) -> Floats:
    """Return scores between -1 and 1, ``2 p - 1``: p are the numbers themselves where they are probabilities (from 0 to
    1, and their sum is 1 but for rounding), else their softmax.

    >>> squash_scores(np.array([0.2, 0.8])), squash_scores(np.array([-3.0, -3.0]))
    (array([-0.6,  0.6]), array([0., 0.]))
    """
    total = scores.sum(axis=-1, keepdims=True)
    inside = ((scores >= 0.0) & (scores <= 1.0)).all(axis=-1, keepdims=True)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    softmax = exponentials / exponentials.sum(axis=-1, keepdims=True)
    chances = np.where(inside & (np.abs(total - 1.0) <= ROUNDED), scores / np.where(total > 0.0, total, 1.0), softmax)
    return np.ascontiguousarray(np.clip(2.0 * chances - 1.0, -1.0, 1.0))


def check_score_table(given: Any, rows: int, classes: int, what: str = "scores") -> Floats:
    """Return the scores of so many rows and classes, between -1 and 1."""
    try:
        found = np.array(given, np.float64, order="C")  # the order of sums, and so their bits
    except (TypeError, ValueError, OverflowError):
        found = np.full((), np.nan)
    if found.shape != (rows, classes) or not np.isfinite(found).all():
        raise UserError(f"{what} must be finite numbers in {rows} rows and {classes} columns, one per class")
    return squash_scores(found)
