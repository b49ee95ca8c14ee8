"""An exact search for the smallest dominating set, compiled.

It counts its steps (visits of an edge or a class), so that a limit on them gives the same result on every machine. The
compiled part is called for a limited number of steps at a time, and signals are answered in between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.kernel.compiling import in_mode, prepare
from gappletron.kernel.pieces import helper

SLICE = 5_000_000
"""Steps between two looks at the signals: less than 0.1 s."""

HEIGHT, CHOSEN, UNCOVERED, FIXED, MOST, STEPS, BACK = range(7)  # the places in `Search.now`
FOUND, NONE, UNFINISHED = range(3)


class Search(NamedTuple):
    """A search for a dominating set of at most `now[MOST]` members.

    An action is chosen, excluded or undecided. `trail` holds the decisions in their order, an excluded action `i` as
    `-1 - i`; the first `now[FIXED]` of them are not part of the search. `now[BACK]` is 1 while decisions are undone.
    """

    seen_from: NDArray[np.int64]  # the classes that action i observes are seen[seen_from[i] : seen_from[i + 1]]
    seen: NDArray[np.int64]
    observers_from: NDArray[np.int64]  # the observers of class y are observers[observers_from[y] : ...[y + 1]]
    observers: NDArray[np.int64]
    excluded: NDArray[np.int64]  # of an action: 1 if it is excluded
    gains: NDArray[np.int64]  # of an action: the uncovered classes that it observes
    covered: NDArray[np.int64]  # of a class: the chosen actions that observe it
    choices: NDArray[np.int64]  # of a class: the actions that observe it and are not excluded
    trail: NDArray[np.int64]
    now: NDArray[np.int64]


class TooLong(Exception):
    """The search has used up its steps."""


def first_minimum(visible: NDArray[np.bool_], least: int, steps: int | None) -> tuple[tuple[int, ...] | None, int]:
    """The lexicographically first of the smallest dominating sets, which have `least` members or more.

    First the size: the search is repeated with one more member until it finds a set. Then the lowest undecided action
    is decided: chosen if a set of this size has it, else excluded. Also returns the number of steps. The set is None if
    it takes more than `steps` of them.

    >>> first_minimum(np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]], dtype=bool), 1, None)[0]
    (1, 2)
    """
    search = started(visible)
    most = least
    try:
        while (members := found(search, most, steps)) is None:
            most += 1
        for action in range(len(visible)):
            if not search.now[UNCOVERED]:
                break
            choose(search, action)
            if action not in members:
                others = found(search, most, steps)
                if others is None:
                    undo(search)
                    exclude(search, action)
                else:
                    members = others
    except TooLong:
        return None, int(search.now[STEPS])
    return chosen(search), int(search.now[STEPS])


def started(visible: NDArray[np.bool_]) -> Search:
    """A search in which nothing is decided."""
    n_actions, n_classes = visible.shape
    by_action, by_class = visible.sum(axis=1), visible.sum(axis=0)
    now = np.zeros(7, dtype=np.int64)
    now[UNCOVERED] = n_classes
    return Search(
        np.concatenate([[0], np.cumsum(by_action)]).astype(np.int64),
        np.nonzero(visible)[1].astype(np.int64),
        np.concatenate([[0], np.cumsum(by_class)]).astype(np.int64),
        np.nonzero(visible.T)[1].astype(np.int64),
        np.zeros(n_actions, dtype=np.int64),
        by_action.astype(np.int64),
        np.zeros(n_classes, dtype=np.int64),
        by_class.astype(np.int64),
        np.zeros(n_actions, dtype=np.int64),
        now,
    )


def chosen(search: Search) -> tuple[int, ...]:
    """The chosen actions, ascending."""
    return tuple(sorted(i for i in search.trail[: search.now[HEIGHT]].tolist() if i >= 0))


def found(search: Search, most: int, steps: int | None) -> tuple[int, ...] | None:
    """Some set of at most this size that agrees with the decisions so far, or None if there is none.

    The decisions are then as before. Raises TooLong where the count of steps passes `steps`.
    """
    now = search.now
    now[FIXED], now[MOST], now[BACK] = now[HEIGHT], most, 0
    with in_mode(interpreted=False):  # plain Python would take minutes for what takes a second
        kernel = prepare(advance, search, 0)
    while (outcome := kernel(search, int(now[STEPS]) + SLICE)) == UNFINISHED:
        if steps is not None and now[STEPS] > steps:
            raise TooLong
    members = chosen(search) if outcome == FOUND else None
    while now[HEIGHT] > now[FIXED]:
        undo(search)
    return members


@helper
def choose(search: Search, action: int) -> None:
    """Choose an action."""
    now = search.now
    search.trail[now[HEIGHT]] = action
    now[HEIGHT] += 1
    now[CHOSEN] += 1
    cover(search, action, 1)


@helper
def exclude(search: Search, action: int) -> None:
    """Exclude an action."""
    now = search.now
    search.trail[now[HEIGHT]] = -1 - action
    now[HEIGHT] += 1
    search.excluded[action] = 1
    offer(search, action, -1)


@helper
def undo(search: Search) -> int:
    """Undo the last decision, and return it."""
    now = search.now
    now[HEIGHT] -= 1
    last = search.trail[now[HEIGHT]]
    if last >= 0:
        now[CHOSEN] -= 1
        cover(search, last, -1)
    else:
        search.excluded[-1 - last] = 0
        offer(search, -1 - last, 1)
    return last


@helper
def cover(search: Search, action: int, change: int) -> None:
    """Count an action among the chosen observers of its classes (1), or no longer (-1)."""
    now = search.now
    for a in range(search.seen_from[action], search.seen_from[action + 1]):
        y = search.seen[a]
        search.covered[y] += change
        if search.covered[y] == (1 if change > 0 else 0):
            now[UNCOVERED] -= change
            for b in range(search.observers_from[y], search.observers_from[y + 1]):
                search.gains[search.observers[b]] -= change
            now[STEPS] += search.observers_from[y + 1] - search.observers_from[y]
    now[STEPS] += search.seen_from[action + 1] - search.seen_from[action]


@helper
def offer(search: Search, action: int, change: int) -> None:
    """Count an action among the choices of its classes (1), or no longer (-1)."""
    for a in range(search.seen_from[action], search.seen_from[action + 1]):
        search.choices[search.seen[a]] += change
    search.now[STEPS] += search.seen_from[action + 1] - search.seen_from[action]


@helper
def next_class(search: Search) -> int:
    """The uncovered class with the fewest choices, or -1 if no set of this size is left, by the bound of bound_size."""
    now = search.now
    needed, best, fewest = 0.0, -1, len(search.gains) + 1
    for y in range(len(search.covered)):
        if search.covered[y] == 0:
            top = 0
            for b in range(search.observers_from[y], search.observers_from[y + 1]):
                i = search.observers[b]
                if search.excluded[i] == 0 and search.gains[i] > top:
                    top = search.gains[i]
            now[STEPS] += search.observers_from[y + 1] - search.observers_from[y]
            if top == 0:
                return -1
            needed += 1.0 / top
            if search.choices[y] < fewest:
                best, fewest = y, search.choices[y]
    now[STEPS] += len(search.covered)
    return best if now[CHOSEN] + needed <= now[MOST] + 1e-6 else -1


@helper
def next_action(search: Search, y: int) -> int:
    """Of the choices of a class the one that observes most uncovered classes, the lowest index on a tie."""
    best = -1
    for b in range(search.observers_from[y], search.observers_from[y + 1]):
        i = search.observers[b]
        if search.excluded[i] == 0 and (best < 0 or search.gains[i] > search.gains[best]):
            best = i
    return best


def advance(search: Search, until: int) -> int:
    """Search until the count of steps is `until`: FOUND, NONE, or UNFINISHED if it can be called again."""
    now = search.now
    while now[STEPS] < until:
        if now[BACK] == 0:
            if now[UNCOVERED] == 0:
                return FOUND
            y = next_class(search)
            if y < 0:
                now[BACK] = 1
            else:
                choose(search, next_action(search, y))
        elif now[HEIGHT] == now[FIXED]:
            return NONE
        else:
            last = undo(search)
            if last >= 0:  # all sets with this action were tried
                exclude(search, last)
                now[BACK] = 0
    return UNFINISHED
