"""Dominating sets against brute force over all subsets, and against what is known by hand."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from itertools import combinations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings, strategies as st

from gappletron.base.errors import UserError
from gappletron.graphs import cover
from gappletron.graphs.cover import (
    EXACT_ACTIONS,
    bound_size,
    find_dominating_set,
    find_greedy_dominating_set,
    is_dominating,
)


def brute_force(matrix):
    """The lexicographically first of the smallest dominating sets, from the definition, with sets of ints only."""
    n_actions, n_classes = len(matrix), len(matrix[0])
    for size in range(1, n_actions + 1):
        covers = [
            members
            for members in combinations(range(n_actions), size)
            if all(any(matrix[i][y] for i in members) for y in range(n_classes))
        ]
        if covers:
            return min(covers)
    raise AssertionError("no action observes some class")


def find_minimum(matrix):
    found = find_dominating_set(matrix, limited=False)
    assert found.exact
    return found.members


@st.composite
def matrices(draw, most_classes=8, most_extra=3):
    n_classes = draw(st.integers(1, most_classes))
    n_actions = n_classes + draw(st.integers(0, most_extra))
    density = draw(st.sampled_from([1, 2, 4]))  # one entry in two, three or five is an edge
    entry = st.integers(0, density).map(lambda value: value == 0)
    matrix = [[draw(entry) for _ in range(n_classes)] for _ in range(n_actions)]
    for y in range(n_classes):
        if not any(row[y] for row in matrix):
            matrix[draw(st.integers(0, n_actions - 1))][y] = True
    return matrix


@settings(max_examples=300, deadline=None)
@given(matrices())
def test_minimum_is_the_first_of_the_smallest(matrix):
    assert find_dominating_set(matrix) == (brute_force(matrix), True)


@settings(max_examples=100, deadline=None)
@given(matrices())
def test_search_gives_the_first_of_the_smallest_without_the_shortcuts(matrix):
    assert tuple(cover._find_first_minimum(np.array(matrix), 1000)) == brute_force(matrix)


@settings(max_examples=50, deadline=None)
@given(matrices(), st.integers(1, 5))
def test_search_in_smaller_blocks_is_the_same_search(matrix, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cover, "BLOCK", size)
        assert tuple(cover._find_first_minimum(np.array(matrix), 1000)) == brute_force(matrix)


@settings(max_examples=200, deadline=None)
@given(matrices())
def test_least_size_is_a_lower_bound(matrix):
    assert 1 <= bound_size(matrix) <= len(brute_force(matrix))


@settings(max_examples=200, deadline=None)
@given(matrices())
def test_greedy_dominates_within_its_factor(matrix):
    members = find_greedy_dominating_set(matrix)
    assert is_dominating(matrix, members)
    assert list(members) == sorted(set(members))
    assert len(members) <= (1 + math.log(len(matrix[0]))) * len(brute_force(matrix)) + 1e-9


@settings(max_examples=200, deadline=None)
@given(matrices(), st.data())
def test_is_dominating_is_the_definition(matrix, data):
    members = data.draw(st.sets(st.integers(0, len(matrix) - 1)))
    by_definition = all(any(matrix[i][y] for i in members) for y in range(len(matrix[0])))
    assert is_dominating(matrix, members) == by_definition


def test_a_member_is_not_exempt():
    # A star without self-loops: the centre sees the leaves, not itself; networkx would call {0} dominating.
    star = [[0, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert not is_dominating(star, [0])
    assert find_minimum(star) == (0, 1)


def test_nothing_dominates_with_no_members():
    assert not is_dominating([[1, 1], [1, 1]], [])


def nested_halves():
    """Blocks of 64, 32, ..., 2 classes, each seen whole by one action; two more actions see half of every block."""
    visible = np.zeros((126, 126), dtype=bool)
    start = 0
    for block, size in enumerate([64, 32, 16, 8, 4, 2]):
        visible[block, start : start + size] = True
        visible[6, start : start + size // 2] = True
        visible[7, start + size // 2 : start + size] = True
        start += size
    return visible


def test_greedy_takes_six_where_two_are_enough():
    """The paper's (ln rho + 2) rho would allow 5; the factor of set cover, 1 + ln K, allows 11."""
    visible = nested_halves()
    assert find_greedy_dominating_set(visible) == (0, 1, 2, 3, 4, 5)
    assert find_minimum(visible) == (6, 7)
    assert (math.log(2) + 2) * 2 < 6 <= (1 + math.log(126)) * 2


@pytest.mark.parametrize("solve", [find_greedy_dominating_set, find_minimum])
def test_ties_go_to_the_lowest_index(solve):
    assert solve(np.ones((4, 4), dtype=bool)) == (0,)
    assert solve([[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]) == (1, 3)


def test_later_superset_does_not_replace_an_earlier_action():
    # Action 0 sees less than action 3, but {0, 1} is as small as {1, 3} and comes first.
    visible = [[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1], [1, 1, 0, 0]]
    assert find_minimum(visible) == brute_force(visible) == (0, 1)


def test_parts_are_solved_apart():
    cycle = np.roll(np.eye(5, dtype=bool), 1, axis=1) | np.eye(5, dtype=bool)
    copies = np.kron(np.eye(12, dtype=bool), cycle)
    expected = tuple(5 * part + member for part in range(12) for member in brute_force(cycle.tolist()))
    assert find_minimum(copies) == expected


def by_integer_programming(visible):
    """A smallest set by SciPy's solver."""
    n_actions = len(visible)
    result = scipy.optimize.milp(
        np.ones(n_actions),
        integrality=1,
        bounds=scipy.optimize.Bounds(0, 1),
        constraints=scipy.optimize.LinearConstraint(visible.T.astype(float), lb=1),
        options={"mip_rel_gap": 0.0},
    )
    return np.flatnonzero(np.rint(result.x))


@pytest.mark.parametrize("seed", range(6))
def test_search_finds_the_size_that_integer_programming_finds(seed):
    rng = np.random.default_rng(seed)
    visible = (rng.random((60, 50)) < [0.06, 0.1, 0.2][seed % 3]) | np.eye(60, 50, dtype=bool)
    found = find_dominating_set(visible)
    assert found.exact
    assert is_dominating(visible, found.members)
    assert len(found.members) == len(by_integer_programming(visible))


@pytest.mark.parametrize("seed", range(3))
def test_search_agrees_with_trying_on_larger_graphs(seed):
    rng = np.random.default_rng(seed)
    visible = (rng.random((24, 22)) < 0.25) | np.eye(24, 22, dtype=bool)
    assert find_dominating_set(visible).members == brute_force(visible.tolist())


def seen_by_three(classes, extra=60):
    """Classes that three of the extra actions observe, and no other action does."""
    rng = np.random.default_rng(0)
    visible = np.zeros((classes + extra, classes), dtype=bool)
    for y in range(classes):
        visible[classes + rng.choice(extra, 3, replace=False), y] = True
    return visible


def test_search_is_bounded():
    visible = seen_by_three(1500)
    start = time.process_time()
    assert find_dominating_set(visible) == (find_greedy_dominating_set(visible), False)
    assert time.process_time() - start < 30  # without the limit it takes minutes


def test_limit_is_a_number_of_linear_programs(monkeypatch):
    visible = seen_by_three(100)
    assert find_dominating_set(visible).exact
    monkeypatch.setattr(cover, "EXACT_NODES", 1)
    assert find_dominating_set(visible) == (find_greedy_dominating_set(visible), False)
    assert find_dominating_set(visible, limited=False).exact


def test_search_is_interrupted_when_the_solver_returns():
    calls = 0

    def stop(number, frame):
        nonlocal calls
        calls += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            find_dominating_set(seen_by_three(1500))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert calls == 1
    assert time.monotonic() - start < 60


def path(size):
    """Action i observes the classes i and i + 1. Reductions remove the last two at a time."""
    return np.eye(size, dtype=bool) | np.eye(size, k=1, dtype=bool)


def test_reductions_are_bounded(monkeypatch):
    compared = []
    compare = cover._contain_another

    def counted(rows):
        compared.append(rows.size * sum(rows.shape))
        return compare(rows)

    monkeypatch.setattr(cover, "_contain_another", counted)
    assert find_dominating_set(path(200)) == (tuple(range(0, 200, 2)), True)
    assert len(compared) > 90
    monkeypatch.setattr(cover, "COMPARISONS", 3 * compared[0])
    compared.clear()
    visible = path(200)
    found = find_dominating_set(visible)
    assert len(compared) == 4
    assert found == (find_greedy_dominating_set(visible), True)  # 100 members are the lower bound too


def test_large_graphs_are_exact_when_they_are_easy():
    size = 3000
    assert find_dominating_set(np.eye(size, dtype=bool)) == (tuple(range(size)), True)
    revealing = np.zeros((size, size), dtype=bool)
    revealing[[7, 1900]] = True
    assert find_dominating_set(revealing) == ((7,), True)


def test_large_hard_graphs_are_greedy():
    rng = np.random.default_rng(1)
    size = 4 * EXACT_ACTIONS
    visible = (rng.random((size, size)) < 0.1) | np.eye(size, dtype=bool)
    found = find_dominating_set(visible)
    assert found == (find_greedy_dominating_set(visible), False)
    assert is_dominating(visible, found.members)


def test_common_graphs_need_no_solver():
    code = (
        "import sys, numpy as np\n"
        "from gappletron.graphs.cover import find_dominating_set\n"
        "query = np.zeros((51, 50)); query[-1] = 1\n"
        "for graph in (np.eye(50), np.ones((50, 50)), query, query[::-1][:50]):\n"
        "    assert find_dominating_set(graph).exact\n"
        "assert not {'numba', 'scipy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("solve", [find_greedy_dominating_set, find_dominating_set])
def test_unobserved_classes_are_refused(solve):
    with pytest.raises(UserError, match="no action reveals column 1: give every class an in-edge"):
        solve([[1, 0, 1], [1, 0, 0]])
    with pytest.raises(UserError, match="2 dimensions, not 1"):
        solve([1, 0, 1])
