"""Dominating sets: the fewest actions that together observe every class.

Everything here works on the visibility matrix alone: `visible[i, y]` says that playing action `i` reveals whether the
label is class `y`. A dominating set is a set of rows that covers every column, so finding the smallest one is set
cover. A class is not covered by its own action unless that action has a self-loop (networkx's definition differs).
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gappletron._validate import UserError, listing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "EXACT_ACTIONS",
    "DominatingSet",
    "dominating_set",
    "greedy_dominating_set",
    "is_dominating",
    "minimum_dominating_set",
]

EXACT_ACTIONS = 60
"""Graphs with at most this many actions get a minimum dominating set; for larger ones see :func:`dominating_set`."""

_COMPARED_ACTIONS = 2000  # comparing all pairs of actions costs the cube: 0.2 s at this size
_TRIED_SUBSETS = 50_000  # some 20 ms; importing the solver takes longer
_BLOCK = 16  # weights of 2**15 times the solver's integrality tolerance of 1e-6 stay far below 1


class DominatingSet(NamedTuple):
    """Members in ascending order, and whether it is proved that no smaller set exists."""

    members: tuple[int, ...]
    exact: bool


def is_dominating(visible: ArrayLike, members: Iterable[int]) -> bool:
    """Whether every class has an in-edge from a member.

    >>> is_dominating([[0, 1], [1, 1]], [1]), is_dominating([[0, 1], [1, 1]], [0])
    (True, False)
    """
    return bool(np.asarray(visible, dtype=bool)[list(members)].any(axis=0).all())


def greedy_dominating_set(visible: ArrayLike) -> tuple[int, ...]:
    """Take the action that covers most uncovered classes, the lowest index on a tie, until all are covered.

    The result has at most `(1 + ln K) rho` members for K classes and a minimum of `rho`.

    >>> greedy_dominating_set([[1, 1, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]])
    (0, 1, 2)
    """
    matrix = _checked(visible)
    uncovered = np.ones(matrix.shape[1], dtype=bool)
    gains = matrix.sum(axis=1)
    members = []
    while uncovered.any():
        best = int(gains.argmax())
        members.append(best)
        newly = np.flatnonzero(matrix[best] & uncovered)
        uncovered[newly] = False
        gains -= matrix[:, newly].sum(axis=1)
    return tuple(sorted(members))


def minimum_dominating_set(visible: ArrayLike) -> tuple[int, ...]:
    """A smallest dominating set and, among those, the lexicographically first.

    Exact at any size and without a time limit, so it may take very long on large graphs; :func:`dominating_set` uses
    the greedy set there. The result depends on the matrix alone, not on the solver: once the size is known, the lowest
    indices are decided first.

    >>> minimum_dominating_set([[1, 1, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]])
    (1, 2)
    """
    matrix = _checked(visible)
    forced, actions, classes = _reduce(matrix)
    return _complete(matrix, forced, actions, classes)


def dominating_set(visible: ArrayLike) -> DominatingSet:
    """The minimum dominating set where that is quick, otherwise the greedy one.

    Exact for up to :data:`EXACT_ACTIONS` actions, and for larger graphs if at most that many remain after simple
    reductions (an action that reveals every label, a class with a single observer, an action that reveals no more than
    an earlier one). So bandits, full information, filtering and label efficient graphs of any size are exact.

    The limit was measured with scipy 1.17's HiGHS on one core. Of 192 random graphs with 60 classes and no extra action
    (edge probabilities .02 to .5, with and without self-loops, directed and undirected) the slowest took 1.3 s; of 36
    random regular graphs, the hardest that were found, the slowest took 3.2 s. With 80 actions the slowest took 6 s,
    with 100 over 20 s.

    >>> dominating_set(np.eye(5, dtype=bool))
    DominatingSet(members=(0, 1, 2, 3, 4), exact=True)
    """
    matrix = _checked(visible)
    forced, actions, classes = _reduce(matrix)
    if len(actions) <= EXACT_ACTIONS:
        return DominatingSet(_complete(matrix, forced, actions, classes), exact=True)
    members = greedy_dominating_set(matrix)
    return DominatingSet(members, exact=len(members) == 1)


def _checked(visible: ArrayLike) -> NDArray[np.bool_]:
    matrix = np.asarray(visible, dtype=bool)
    if matrix.ndim != 2:
        raise UserError(
            f"a visibility matrix has 2 dimensions, not {matrix.ndim}: give a row per action, a column per class"
        )
    unseen = np.flatnonzero(~matrix.any(axis=0))
    if len(unseen):
        raise UserError(f"no action observes column {listing(unseen.tolist())}: give every class an in-edge")
    return matrix


def _reduce(matrix: NDArray[np.bool_]) -> tuple[list[int], NDArray[np.intp], NDArray[np.intp]]:
    """Members that every answer has, and the actions and classes that remain to be decided.

    Each step keeps the lexicographically first minimum set: a lone observer is in every dominating set; a class whose
    observers include all observers of another is covered with it; an action that sees no more than an earlier one can
    be exchanged for that one. (The later of two actions must stay even when it sees less than a still later one:
    exchanging it would keep the size and lose the order.)
    """
    forced: list[int] = []
    revealing = np.flatnonzero(matrix.all(axis=1))
    if len(revealing):
        return [int(revealing[0])], revealing[:0], revealing[:0]
    actions, classes = np.arange(matrix.shape[0]), np.arange(matrix.shape[1])
    while len(classes):
        left = matrix[np.ix_(actions, classes)]
        lone = left.sum(axis=0) == 1
        if lone.any():
            taken = left[:, lone].any(axis=1)
            forced += actions[taken].tolist()
            keep_actions, keep_classes = ~taken, ~left[taken].any(axis=0)
        elif max(left.shape) > _COMPARED_ACTIONS:
            keep_actions, keep_classes = left.any(axis=1), np.ones(len(classes), dtype=bool)
        else:
            keep_classes = ~_above_another(left.T)
            keep_actions = ~_below_earlier(left[:, keep_classes])
        if keep_actions.all() and keep_classes.all():
            break
        actions, classes = actions[keep_actions], classes[keep_classes]
    return forced, actions[: len(actions) * bool(len(classes))], classes


def _contained(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """`[i, j]`: row i is a subset of row j. Counts in float32 are exact below 2**24 and let BLAS do the work."""
    counts = rows.astype(np.float32)
    return np.asarray(counts @ counts.T == counts.sum(axis=1)[:, None])


def _above_another(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows that contain another row; of equal rows all but the first."""
    inside = _contained(rows)
    strictly = inside & ~inside.T
    earlier_equal = np.triu(inside & inside.T, k=1)
    return np.asarray((strictly | earlier_equal).any(axis=0))


def _below_earlier(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows that are empty or contained in an earlier row."""
    return np.asarray(np.tril(_contained(rows), k=-1).any(axis=1) | ~rows.any(axis=1))


def _complete(
    matrix: NDArray[np.bool_],
    forced: list[int],
    actions: NDArray[np.intp],
    classes: NDArray[np.intp],
) -> tuple[int, ...]:
    members = list(forced)
    left = matrix[np.ix_(actions, classes)]
    for rows, columns in _components(left):
        part = left[np.ix_(rows, columns)]
        members += actions[rows[list(_first_by_trying(part) or _first_by_solver(part))]].tolist()
    result = tuple(sorted(members))
    if not is_dominating(matrix, result):
        raise RuntimeError(f"internal error: {result} is not a dominating set")
    return result


def _components(left: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows and columns of the parts that share nothing. Their first minimum sets together are the first of
    the whole.
    """
    parts = []
    waiting = left.any(axis=1)
    while waiting.any():
        rows = np.zeros(left.shape[0], dtype=bool)
        rows[waiting.argmax()] = True
        while True:
            columns = left[rows].any(axis=0)
            grown = np.asarray(left[:, columns].any(axis=1))
            if (grown == rows).all():
                break
            rows = grown
        parts.append((np.flatnonzero(rows), np.flatnonzero(columns)))
        waiting &= ~rows
    return parts


def _first_by_trying(part: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """The first minimum set by trying subsets in order of size and then of index, or None if there are too many."""
    n_actions, n_classes = part.shape
    everything = (1 << n_classes) - 1
    masks = [int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little") for row in part]
    tries = 0
    for size in range(1, n_actions + 1):
        tries += comb(n_actions, size)
        if tries > _TRIED_SUBSETS:
            return None
        for subset in combinations(range(n_actions), size):
            seen = 0
            for member in subset:
                seen |= masks[member]
            if seen == everything:
                return subset
    raise RuntimeError("internal error: the actions together do not observe every class")


def _first_by_solver(part: NDArray[np.bool_]) -> tuple[int, ...]:
    """The first minimum set by integer programming.

    Of two sets of one size the first is the one that has the lowest index in which they differ. So, the size being
    fixed, the indices are decided a block at a time from the lowest, with weights that halve from one index to the
    next.
    """
    n_actions = len(part)
    lower, upper = np.zeros(n_actions), np.ones(n_actions)
    chosen = _solve(part, np.ones(n_actions), lower, upper, None)
    rho = int(chosen.sum())
    for start in range(0, n_actions, _BLOCK):
        block = slice(start, min(start + _BLOCK, n_actions))
        if lower.sum() == rho:
            break
        weights = np.zeros(n_actions)
        weights[block] = -(2.0 ** np.arange(block.stop - start - 1, -1, -1))
        chosen = _solve(part, weights, lower, upper, rho)
        lower[block] = upper[block] = chosen[block]
    return tuple(np.flatnonzero(chosen).tolist())


def _solve(
    part: NDArray[np.bool_],
    weights: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    size: int | None,
) -> NDArray[np.bool_]:
    """The dominating set of least weight within the bounds (and of the given size), as a mask."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    constraints = [LinearConstraint(part.T.astype(np.float64), lb=1.0)]
    if size is not None:
        constraints.append(LinearConstraint(np.ones((1, len(part))), lb=size, ub=size))
    result = milp(
        weights, integrality=1, bounds=Bounds(lower, upper), constraints=constraints, options={"mip_rel_gap": 0.0}
    )
    if result.x is None or result.status != 0:
        raise RuntimeError(f"the integer program for the dominating set was not solved: {result.message}")
    chosen = np.asarray(np.rint(result.x) > 0)
    if not is_dominating(part, np.flatnonzero(chosen)) or (size is not None and chosen.sum() != size):
        raise RuntimeError(
            "the integer program for the dominating set returned a set that does not dominate: please report the graph"
        )
    return chosen
