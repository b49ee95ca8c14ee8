"""Dominating sets against brute force over all subsets, and against what is known by hand."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings, strategies as st

from gappletron import domination
from gappletron._validate import UserError
from gappletron.domination import (
    EXACT_ACTIONS,
    dominating_set,
    greedy_dominating_set,
    is_dominating,
    minimum_dominating_set,
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
    expected = brute_force(matrix)
    assert minimum_dominating_set(matrix) == expected
    assert dominating_set(matrix) == (expected, True)


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_solver_gives_the_first_of_the_smallest_without_the_shortcuts(matrix):
    assert domination._first_by_solver(np.array(matrix)) == brute_force(matrix)


@settings(max_examples=60, deadline=None)
@given(matrices(most_classes=7), st.integers(1, 3))
def test_solver_decides_blocks_in_order(matrix, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(domination, "_BLOCK", block)
        assert domination._first_by_solver(np.array(matrix)) == brute_force(matrix)


@settings(max_examples=200, deadline=None)
@given(matrices())
def test_greedy_dominates_within_its_factor(matrix):
    members = greedy_dominating_set(matrix)
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
    assert minimum_dominating_set(star) == (0, 1)


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
    assert greedy_dominating_set(visible) == (0, 1, 2, 3, 4, 5)
    assert minimum_dominating_set(visible) == (6, 7)
    assert (math.log(2) + 2) * 2 < 6 <= (1 + math.log(126)) * 2


@pytest.mark.parametrize("solve", [greedy_dominating_set, minimum_dominating_set])
def test_ties_go_to_the_lowest_index(solve):
    assert solve(np.ones((4, 4), dtype=bool)) == (0,)
    assert solve([[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]) == (1, 3)


def test_later_superset_does_not_replace_an_earlier_action():
    # Action 0 sees less than action 3, but {0, 1} is as small as {1, 3} and comes first.
    visible = [[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1], [1, 1, 0, 0]]
    assert minimum_dominating_set(visible) == brute_force(visible) == (0, 1)


def test_parts_are_solved_apart():
    cycle = np.roll(np.eye(5, dtype=bool), 1, axis=1) | np.eye(5, dtype=bool)
    copies = np.kron(np.eye(12, dtype=bool), cycle)
    expected = tuple(5 * part + member for part in range(12) for member in brute_force(cycle.tolist()))
    assert minimum_dominating_set(copies) == expected


@pytest.mark.parametrize("seed", range(3))
def test_solver_agrees_with_trying_on_larger_graphs(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    visible = (rng.random((30, 28)) < 0.25) | np.eye(30, 28, dtype=bool)
    by_solver = domination._first_by_solver(visible)
    monkeypatch.setattr(domination, "_TRIED_SUBSETS", 10**9)
    assert domination._first_by_trying(visible) == by_solver == minimum_dominating_set(visible)


def test_large_graphs_are_exact_when_they_are_easy():
    size = 3000
    assert dominating_set(np.eye(size, dtype=bool)) == (tuple(range(size)), True)
    revealing = np.zeros((size, size), dtype=bool)
    revealing[[7, 1900]] = True
    assert dominating_set(revealing) == ((7,), True)


def test_large_hard_graphs_are_greedy():
    rng = np.random.default_rng(1)
    size = 4 * EXACT_ACTIONS
    visible = (rng.random((size, size)) < 0.1) | np.eye(size, dtype=bool)
    found = dominating_set(visible)
    assert found == (greedy_dominating_set(visible), False)
    assert is_dominating(visible, found.members)


def test_common_graphs_need_no_solver():
    code = (
        "import sys, numpy as np\n"
        "from gappletron.domination import dominating_set\n"
        "query = np.zeros((51, 50)); query[-1] = 1\n"
        "for graph in (np.eye(50), np.ones((50, 50)), query, query[::-1][:50], 1 - np.eye(9)):\n"
        "    assert dominating_set(graph).exact\n"
        "assert 'scipy.optimize' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_solver_that_fails_is_reported(monkeypatch):
    class Failed:
        x, status, message = None, 4, "numerical trouble"

    monkeypatch.setattr(scipy.optimize, "milp", lambda *args, **options: Failed)
    with pytest.raises(RuntimeError, match="was not solved: numerical trouble"):
        domination._first_by_solver(np.eye(3, dtype=bool))


def test_solver_that_lies_is_caught(monkeypatch):
    class Wrong:
        x, status, message = np.array([1.0, 0.0, 0.0]), 0, "optimal"

    monkeypatch.setattr(scipy.optimize, "milp", lambda *args, **options: Wrong)
    with pytest.raises(RuntimeError, match="returned a set that does not dominate"):
        domination._first_by_solver(np.eye(3, dtype=bool))


@pytest.mark.parametrize("solve", [greedy_dominating_set, minimum_dominating_set, dominating_set])
def test_unobserved_classes_are_refused(solve):
    with pytest.raises(UserError, match="no action observes column 1: give every class an in-edge"):
        solve([[1, 0, 1], [1, 0, 0]])
    with pytest.raises(UserError, match="2 dimensions, not 1"):
        solve([1, 0, 1])
