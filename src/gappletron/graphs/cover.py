"""Dominating sets: the fewest actions that together observe every class.

Everything here works on the visibility matrix alone: `visible[i, y]` says that playing action `i` reveals whether the
label is class `y`. A dominating set is a set of rows that covers every column, so finding the smallest one is set
cover. A class is not covered by its own action unless that action has a self-loop (networkx's definition differs).
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gappletron.base.errors import UserError
from gappletron.base.text import listing

# Graphs with more actions than this, after reductions, get a greedy dominating set.
EXACT_ACTIONS = 60

# The search for a minimum dominating set ends after this many linear programs: seconds at most.
EXACT_NODES = 1000

# Comparing all pairs of actions takes the cube of their number: 0.2 s at this size.
COMPARED_ACTIONS = 2000

# Single entries that are compared in all rounds of comparing pairs: 1 to 2 s.
COMPARISONS = 5 * 10**10

# Actions that are decided by one program: its weights are powers of 2, which must stay exact in the solver.
BLOCK = 16


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


def find_dominating_set(visible: ArrayLike, *, limited: bool = True) -> DominatingSet:
    """Find the minimum dominating set where that is quick, otherwise the greedy one.

    Simple reductions come first (an action that reveals every label, a class with a single observer, an action that
    reveals no more than an earlier one). If at most :data:`EXACT_ACTIONS` actions remain, the lexicographically first
    of the minimum sets is found by integer programming with at most :data:`EXACT_NODES` linear programs. These are
    counted, not seconds: a graph has the same set on every machine. Bandits, full information, filtering and label
    efficient graphs of any size are exact.

    :param limited: False to search without these limits, which may take very long on large graphs.

    >>> find_dominating_set(np.eye(5, dtype=bool))
    DominatingSet(members=(0, 1, 2, 3, 4), exact=True)
    """
    matrix = _check_matrix(visible)
    forced, actions, classes = _reduce(matrix)
    if len(actions) <= EXACT_ACTIONS or not limited:
        chosen = _find_first_minimum(matrix[np.ix_(actions, classes)], EXACT_NODES if limited else 2**31 - 1)
        if chosen is not None:
            return DominatingSet(tuple(sorted([*forced, *actions[chosen].tolist()])), exact=True)
    members = find_greedy_dominating_set(matrix)
    return DominatingSet(members, exact=len(members) == bound_size(matrix))


def find_greedy_dominating_set(visible: ArrayLike) -> tuple[int, ...]:
    """Take the action that covers most uncovered classes, the lowest index on a tie, until all are covered.

    The result has at most `(1 + ln K) rho` members for K classes and a minimum of `rho`.

    >>> find_greedy_dominating_set([[1, 1, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]])
    (0, 1, 2)
    """
    matrix = _check_matrix(visible)
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


def bound_size(visible: ArrayLike) -> int:
    """Return a lower bound on the size of a dominating set, which is computed at once.

    An action that observes class y observes at most `top(y)` classes, so y takes at least `1 / top(y)` of a member.

    >>> bound_size([[1, 1, 1, 0], [0, 0, 1, 1]]), bound_size(np.eye(3)), bound_size(np.ones((3, 3)))
    (2, 3, 1)
    """
    matrix = _check_matrix(visible)
    sizes = matrix.sum(axis=1)
    tops = np.zeros(matrix.shape[1], dtype=np.int64)
    for i in np.argsort(sizes, kind="stable"):
        tops[matrix[i]] = sizes[i]
    return math.ceil((1.0 / tops).sum() - 1e-6)


def _check_matrix(visible: ArrayLike) -> NDArray[np.bool_]:
    matrix = np.asarray(visible, dtype=bool)
    if matrix.ndim != 2:
        raise UserError(f"the matrix must have 2 dimensions, not {matrix.ndim}: give a row per action")
    unseen = np.flatnonzero(~matrix.any(axis=0))
    if len(unseen):
        raise UserError(f"no action reveals column {listing(unseen.tolist())}: give every class an in-edge")
    return matrix


def _reduce(matrix: NDArray[np.bool_]) -> tuple[list[int], NDArray[np.intp], NDArray[np.intp]]:
    """Return members that every answer has, and the actions and classes that remain to be decided.

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
    compared = 0
    while len(classes):
        left = matrix[np.ix_(actions, classes)]
        lone = left.sum(axis=0) == 1
        if lone.any():
            only = left[:, lone].any(axis=1)
            forced += actions[only].tolist()
            keep_actions, keep_classes = ~only, ~left[only].any(axis=0)
        elif max(left.shape) > COMPARED_ACTIONS or compared > COMPARISONS:
            keep_actions, keep_classes = left.any(axis=1), np.ones(len(classes), dtype=bool)
        else:
            compared += left.size * sum(left.shape)
            keep_classes = ~_contain_another(left.T)
            keep_actions = ~_are_in_earlier(left[:, keep_classes])
        if keep_actions.all() and keep_classes.all():
            break
        actions, classes = actions[keep_actions], classes[keep_classes]
    return forced, actions[: len(actions) * bool(len(classes))], classes


def _compare(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return `[i, j]`: row i is a subset of row j. Counts in float32 are exact below 2**24 and let BLAS do the work."""
    counts = rows.astype(np.float32)
    return np.asarray(counts @ counts.T == counts.sum(axis=1)[:, None])


def _contain_another(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows contain another row; of equal rows all but the first do."""
    inside = _compare(rows)
    strictly = inside & ~inside.T
    earlier_equal = np.triu(inside & inside.T, k=1)
    return np.asarray((strictly | earlier_equal).any(axis=0))


def _are_in_earlier(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows are empty or contained in an earlier row."""
    return np.asarray(np.tril(_compare(rows), k=-1).any(axis=1) | ~rows.any(axis=1))


def _find_first_minimum(left: NDArray[np.bool_], nodes: int) -> list[int] | None:
    """Find the lexicographically first minimum set, or None if that takes more linear programs than `nodes`.

    First the size of a minimum set, then a block of actions at a time: of the sets of this size that have the members
    found so far, the one whose indicators, read as a binary number, are largest.
    """
    if not left.size:
        return []
    from scipy.optimize import Bounds, LinearConstraint, milp  # it loads slowly, and common graphs do not need it

    n_actions = len(left)
    least, most = np.zeros(n_actions), np.ones(n_actions)
    everything = np.ones(n_actions)
    constraints = [LinearConstraint(left.T.astype(np.float64), lb=1.0)]

    def minimise(weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
        nonlocal nodes
        options = {"node_limit": nodes, "mip_rel_gap": 0.0}
        found = milp(weights, integrality=1, bounds=Bounds(least, most), constraints=constraints, options=options)
        if not found.success:
            return None
        nodes = max(1, nodes - int(found.mip_node_count or 0))
        return np.rint(found.x)

    chosen = minimise(everything)
    if chosen is None:
        return None
    constraints.append(LinearConstraint(everything, lb=chosen.sum(), ub=chosen.sum()))
    for start in range(0, n_actions, BLOCK):
        block = slice(start, min(start + BLOCK, n_actions))
        weights = np.zeros(n_actions)
        weights[block] = -(2.0 ** np.arange(block.stop - start)[::-1])
        chosen = minimise(weights)
        if chosen is None:
            return None
        least[block] = most[block] = chosen[block]
    if not is_dominating(left, np.flatnonzero(chosen)):
        raise RuntimeError(f"internal error: {chosen} is not a dominating set")
    return np.flatnonzero(chosen).tolist()
