"""Of what a row's scores are the sum: what each of its entries adds, and what else there is.

This is for people who ask why a decision was made, one row at a time: plain Python that calls the learner's own scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gappletron.base.errors import UserError
from gappletron.kernel.numerics import Row
from gappletron.kernel.types import Floats

# What scores may consist of besides the entries of x, by name.
GIVEN, GUARD, LIMITS, COSTS = "your scores", "guard", "limits", "costs"


class ScoreParts(NamedTuple):
    """What the scores of a row are the sum of.

    :param entries: what each entry of x adds to the score of each class (n x K).
    :param others: what else is added to the score of each class, by name: GIVEN, GUARD, LIMITS and COSTS.

    >>> ScoreParts(np.array([[1.0, 0.0], [0.5, -1.0]]), {}).total()
    array([ 1.5, -1. ])
    """

    entries: Floats
    others: dict[str, Floats]

    def total(self) -> Floats:
        """Return the sums: the score of each class.

        >>> ScoreParts(np.array([[1.0, 0.0], [0.5, -1.0]]), {GUARD: np.array([0.0, 0.25])}).total()
        array([ 1.5 , -0.75])
        """
        return np.asarray(sum(self.others.values(), self.entries.sum(axis=0)))


def score_entries(score: Callable[[Row, Floats], Any], x: Row, classes: int) -> Floats:
    """Return what a linear function says of each entry of x on its own (n x K).

    :param score: fills its second argument with the scores of a row.

    >>> from gappletron.kernel.numerics import dot, lanes_for
    >>> W = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> x = Row(np.array([0, 1]), np.array([3.0, 4.0]), 0, 2, 25.0, lanes_for(2))
    >>> score_entries(lambda row, out: dot(W, row, out), x, classes=2)
    array([[3., 0.],
           [0., 8.]])
    """
    found = np.zeros((x.stop - x.start, classes))
    for place, p in enumerate(range(x.start, x.stop)):
        alone = x._replace(start=p, stop=p + 1, squared=float(x.values[p]) ** 2)
        score(alone, found[place])
    return found


def not_linear(name: str) -> UserError:
    """Return the error for scores that are no sums over the entries of a row."""
    return UserError(
        f"the scores of {name} are not a sum over the columns of a row, so nobody can say what each adds: explain a "
        "model with linear scores, such as 'auto'"
    )
