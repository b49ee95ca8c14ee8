"""Feedback graphs: matrices written out by hand, every refusal with its sentence, files that must never crash."""

from __future__ import annotations

import copy
import dataclasses
import doctest
import json
import pickle
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.figure import Figure

from gappletron.base.errors import UserError
from gappletron.graphs.cover import EXACT_ACTIONS, EXACT_NODES, bound_size, find_greedy_dominating_set
from gappletron.graphs.graph import FeedbackGraph, GraphArrays
from gappletron.graphs.presets import PRESETS


def refused(sentence):
    """The block raises a UserError with exactly this text."""
    return pytest.raises(UserError, match=rf"\A{re.escape(sentence)}\Z")


def names_in(folder):
    return sorted(file.name for file in folder.iterdir())


def rows(graph):
    return graph.visible.astype(int).tolist()


@st.composite
def graphs(draw):
    n_classes = draw(st.integers(2, 6))
    n_extra = draw(st.integers(0, 2))
    visible = draw(arrays(np.bool_, (n_classes + n_extra, n_classes)))
    visible[draw(st.integers(0, n_classes + n_extra - 1))] |= ~visible.any(axis=0)
    name = st.one_of(st.text(max_size=6), st.integers(-9, 9), st.booleans(), st.none())
    names = draw(st.lists(name, min_size=n_classes + n_extra, max_size=n_classes + n_extra, unique=True))
    graph = FeedbackGraph(visible, names[:n_classes], names, name=draw(st.text(max_size=9)))
    if draw(st.booleans()):
        return graph
    own = draw(st.sets(st.sampled_from(range(graph.n_actions)))) | set(graph.dominating_indices)
    return FeedbackGraph(visible, names[:n_classes], names, name=graph.name, dominating_set=[names[i] for i in own])


# Presets, by hand

BY_HAND = {
    ("full", 2): ["11", "11"],
    ("full", 3): ["111", "111", "111"],
    ("full", 4): ["1111", "1111", "1111", "1111"],
    ("bandit", 2): ["11", "11"],
    ("bandit", 3): ["100", "010", "001"],
    ("bandit", 4): ["1000", "0100", "0010", "0001"],
    ("filtering", 2): ["11", "00"],
    ("filtering", 3): ["111", "000", "000"],
    ("filtering", 4): ["1111", "0000", "0000", "0000"],
    ("apple-tasting", 2): ["11", "00"],
    ("label-efficient", 2): ["00", "00", "11"],
    ("label-efficient", 3): ["000", "000", "000", "111"],
    ("label-efficient", 4): ["0000", "0000", "0000", "0000", "1111"],
    ("disease-prevention", 2): ["11", "11"],
    ("disease-prevention", 3): ["111", "111", "111"],
    ("disease-prevention", 4): ["1111", "1111", "1111", "1111"],
}
# revealing actions, revealing classes, dominating set, observability
FACTS = {
    ("full", 4): ((0, 1, 2, 3), (0, 1, 2, 3), (0,), "strong"),
    ("bandit", 2): ((0, 1), (0, 1), (0,), "strong"),
    ("bandit", 4): ((), (), (0, 1, 2, 3), "strong"),
    ("filtering", 4): ((0,), (0,), (0,), "weak"),
    ("apple-tasting", 2): ((0,), (0,), (0,), "strong"),
    ("label-efficient", 4): ((4,), (), (4,), "weak"),
    ("disease-prevention", 4): ((0, 1, 2, 3), (0, 1, 2, 3), (0,), "strong"),
}


@pytest.mark.parametrize(("name", "n_classes"), BY_HAND)
def test_presets_by_hand(name, n_classes):
    graph = FeedbackGraph.preset(name, n_classes)
    assert rows(graph) == [[int(entry) for entry in row] for row in BY_HAND[name, n_classes]]
    assert graph.classes == tuple(range(n_classes))
    assert graph.name == name
    assert (graph.n_actions, graph.n_classes) == graph.visible.shape


@pytest.mark.parametrize(("name", "n_classes"), FACTS)
def test_facts_about_presets_by_hand(name, n_classes):
    graph = FeedbackGraph.preset(name, n_classes)
    found = graph.revealing_indices, graph.revealing_classes, graph.dominating_indices, graph.observability
    assert found == FACTS[name, n_classes]
    assert graph.rho == len(graph.dominating_set)
    assert graph.dominating_set_is_exact


def test_two_class_bandit_is_full_information():
    assert FeedbackGraph.bandit(2) == FeedbackGraph.full(2)


def test_disease_prevention_is_full_information_by_the_closure():
    graph = FeedbackGraph.disease_prevention(["north", "south", "west"])
    assert graph == FeedbackGraph.full(["north", "south", "west"])
    assert graph.completed == ((0, 0), (1, 1), (2, 2))
    assert "('north', 'north'), ('south', 'south'), ('west', 'west')" in graph.describe(width=None)


def test_the_papers_spam_filter():
    graph = FeedbackGraph.apple_tasting()
    assert graph.reveals("ham") == ("ham", "spam")
    assert graph.reveals("spam") == ()
    turned = FeedbackGraph.apple_tasting(["spam", "ham"], revealing="ham")
    assert rows(turned) == [[0, 0], [1, 1]]


def test_apple_tasting_with_a_third_class_is_filtering():
    graph = FeedbackGraph.apple_tasting().with_class("news")
    assert graph == FeedbackGraph.filtering(["ham", "spam", "news"], revealing="ham")
    assert graph.name == "filtering"


def test_filtering_with_chosen_classes():
    assert FeedbackGraph.filtering(["a", "b", "c"], revealing="b").revealing == ("b",)
    assert FeedbackGraph.filtering(["a", "b", "c"], revealing=["c", "a"]).revealing == ("a", "c")
    assert FeedbackGraph.filtering(["a", None, "c"], revealing=[None]).revealing == (None,)
    assert FeedbackGraph.filtering(3, revealing=np.array([2])).revealing == (2,)


def test_preset_names_are_all_there():
    assert sorted(FeedbackGraph.PRESETS) == sorted({name for name, _ in BY_HAND})


def test_query_has_the_name_given():
    assert FeedbackGraph.label_efficient(["cat", "dog"], query="ask").actions == ("cat", "dog", "ask")


# The constructor


def test_closure_completes_one_missing_edge_only():
    graph = FeedbackGraph([[1, 1, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 1]])
    assert rows(graph) == [[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert graph.completed == ((0, 2), (4, 0))
    assert graph.revealing_indices == (0, 3, 4)
    assert graph.revealing == (0, 3, "query")
    assert graph.revealing_classes == (0, 3)


def test_closure_can_make_a_class_observable():
    # Nobody has an edge to class 2, yet who sees the other two knows.
    assert FeedbackGraph([[1, 1, 0], [0, 0, 0], [0, 0, 0]]).revealing == (0,)


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_closure_is_idempotent_and_never_removes(graph):
    again = FeedbackGraph(graph.visible, graph.classes, graph.actions, dominating_set=graph.dominating_set)
    assert again == graph
    assert again.completed == ()
    assert not (graph.visible.sum(axis=1) == graph.n_classes - 1).any()


def test_extra_actions_are_called_query():
    assert FeedbackGraph([[0, 0], [0, 0], [1, 1]]).actions == (0, 1, "query")
    assert FeedbackGraph([[0, 0], [0, 0], [1, 1], [1, 1]]).actions == (0, 1, "query 1", "query 2")


def test_numpy_scalars_become_plain():
    graph = FeedbackGraph.bandit(np.array(["a", "b", "c"]))
    assert [type(name) for name in graph.classes] == [str] * 3
    assert [type(name) for name in FeedbackGraph.bandit(np.arange(3)).classes] == [int] * 3
    assert FeedbackGraph.bandit(np.int64(3)) == FeedbackGraph.bandit(3)


def test_the_matrix_is_copied():
    given_matrix = np.ones((2, 2), dtype=bool)
    graph = FeedbackGraph(given_matrix)
    given_matrix[:] = False
    assert graph.visible.all()


def test_own_dominating_set():
    graph = FeedbackGraph(np.ones((3, 3)), ["a", "b", "c"], dominating_set=["c", "a"])
    assert graph.dominating_set == ("a", "c")
    assert graph.dominating_indices == (0, 2)
    assert graph.rho == 2
    assert not graph.dominating_set_is_exact
    assert graph.dominating_set_is_given
    assert graph != FeedbackGraph.full(["a", "b", "c"])
    assert FeedbackGraph.full(3) == FeedbackGraph(np.ones((3, 3)), dominating_set=[0])


def test_a_greedy_dominating_set_says_how_far_it_is_from_the_minimum():
    rng = np.random.default_rng(3)
    visible = np.eye(150, dtype=bool) | (rng.random((150, 150)) < 0.03)
    graph = FeedbackGraph(visible)
    assert not graph.dominating_set_is_exact
    assert graph.dominating_indices == find_greedy_dominating_set(visible)
    assert graph.least_rho == bound_size(visible) < graph.rho
    ratio = graph.rho / graph.least_rho
    assert f"(rho = {graph.rho}, greedy, at most {ratio:.3g} times the minimum)" in graph.describe(width=None)


def test_sets_of_actions_are_names_and_their_indices_are_apart():
    """With the classes 2, 0, 1 an index taken for a name would be another action."""
    for graph in (
        FeedbackGraph.filtering([2, 0, 1]),
        FeedbackGraph.filtering([2, 0, 1], revealing=[0, 1]),
        FeedbackGraph.bandit([2, 0, 1]),
        FeedbackGraph.label_efficient([2, 0, 1], query=3),
        FeedbackGraph([[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1]], [2, 0, 1], [2, 0, 1, 5]),
    ):
        again = FeedbackGraph(graph.visible, graph.classes, graph.actions, dominating_set=graph.dominating_set)
        assert again == graph
        assert graph.dominating_set == tuple(graph.actions[i] for i in graph.dominating_indices)
        assert graph.revealing == tuple(a for a in graph.actions if len(graph.reveals(a)) == 3)
        assert graph.revealing == tuple(graph.actions[i] for i in graph.revealing_indices)
        assert graph.revealing_classes == tuple(a for a in graph.revealing if a in graph.classes)
    assert FeedbackGraph.filtering([2, 0, 1]).dominating_set == FeedbackGraph.filtering([2, 0, 1]).revealing == (2,)


EYE = np.eye(3, dtype=int)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FeedbackGraph.bandit(1), "a graph needs at least 2 classes, not 1: name two or more"),
        (lambda: FeedbackGraph.full([]), "a graph needs at least 2 classes, not 0: name two or more"),
        (
            lambda: FeedbackGraph(np.ones((1, 1))),
            "a graph needs at least 2 classes, not 1: name two or more",
        ),
        (lambda: FeedbackGraph.bandit(-4), "the number of classes must be at least 0, not -4"),
        (lambda: FeedbackGraph.bandit(True), "the number of classes must be a whole number, not True"),
        (lambda: FeedbackGraph.bandit(2.5), "classes must be a list, not a float"),
        (lambda: FeedbackGraph.bandit("abc"), "classes must be a list, not a str"),
        (lambda: FeedbackGraph.bandit({"a", "b"}), "classes must be a list, not a set"),
        (lambda: FeedbackGraph.bandit(np.array(3)), "classes must be a list, not a single value"),
        (lambda: FeedbackGraph.bandit([1, 2.5]), "class 2.5 is a float: names may be str, int, bool or None"),
        (
            lambda: FeedbackGraph.bandit([1, True]),
            "the names 1 and True compare equal: every class needs a name of its own",
        ),
        (
            lambda: FeedbackGraph.bandit([1, 10**5000]),
            "class: a whole number that is a name must fit in 64 bits: write it as a string instead",
        ),
        (
            lambda: FeedbackGraph(np.ones((2, 3))),
            "the matrix has 2 rows for 3 classes: give one row for each class, and more for extra actions",
        ),
        (
            lambda: FeedbackGraph([1, 0, 1]),
            "the matrix must have 2 dimensions, not 1: give one row per action, one column per class",
        ),
        (
            lambda: FeedbackGraph([[1, 0], [1]]),
            "the rows of the matrix differ in length: give each action one entry for every class",
        ),
        (
            lambda: FeedbackGraph([[1, 2], [0, 1]]),
            "the matrix must hold only 0 and 1: write 1 where the action reveals the class",
        ),
        (
            lambda: FeedbackGraph([[1, float("nan")], [0, 1]]),
            "the matrix must hold only 0 and 1: write 1 where the action reveals the class",
        ),
        (
            lambda: FeedbackGraph([["1", "0"], ["0", "1"]]),
            "the matrix must hold only 0 and 1: write 1 where the action reveals the class",
        ),
        (
            lambda: FeedbackGraph(EYE, ["a", "b"]),
            "the matrix has 3 columns but there are 2 classes: give one column for each class",
        ),
        (lambda: FeedbackGraph(EYE, name=3), "the name of a graph must be a str, not int"),
        (
            lambda: FeedbackGraph(EYE, actions=[0, 1]),
            "the matrix has 3 rows but there are 2 actions: give one row for each action",
        ),
        (
            lambda: FeedbackGraph(EYE, actions=[0, 2, 1]),
            "action 2 is 2 where class 1 was expected: list the classes first, in order, then the extra actions",
        ),
        (
            lambda: FeedbackGraph(EYE, actions=[0, True, 2]),
            "action 2 is True where class 1 was expected: list the classes first, in order, then the extra actions",
        ),
        (
            lambda: FeedbackGraph([[0, 0], [0, 0], [1, 1]], ["query", "a"]),
            "the extra action would be called 'query', which is a class: name the actions yourself",
        ),
        (
            lambda: FeedbackGraph.label_efficient(["ask", "a"], query="ask"),
            "the names 'ask' and 'ask' compare equal: every action needs a name of its own",
        ),
        (
            lambda: FeedbackGraph([[1, 0, 0, 0], [0] * 4, [0] * 4, [0, 0, 0, 1]], ["a", "b", "c", "d"]),
            "no action reveals 'b', 'c': give some action an edge to every class",
        ),
        (
            lambda: FeedbackGraph([[1, 0, 0], [0, 1, 0], [0] * 3], ["a", "b", "c"]),
            "no action reveals 'c': give some action an edge to every class",
        ),
        (
            lambda: FeedbackGraph(EYE, ["a", "b", "c"], dominating_set=["b"]),
            "the dominating set ['b'] does not reveal 'a', 'c': add actions that do, or omit dominating_set",
        ),
        (lambda: FeedbackGraph(EYE, dominating_set=[0, 1, 2, 3]), "there is no action 3: choose one of 0, 1, 2"),
        (
            lambda: FeedbackGraph(EYE, dominating_set=[0, 1, 2, 2]),
            "the names 2 and 2 compare equal: every member of the dominating set needs a name of its own",
        ),
        (lambda: FeedbackGraph.filtering(3, revealing=True), "there is no class True: choose one of 0, 1, 2"),
        (
            lambda: FeedbackGraph.filtering(3, revealing=[]),
            "a filtering graph needs a revealing class, but none was named: name at least one",
        ),
        (
            lambda: FeedbackGraph.apple_tasting(3),
            "the apple-tasting graph has 2 classes, but 3 were given: use filtering for more",
        ),
        (
            lambda: FeedbackGraph.preset("bandits", 3),
            "there is no graph 'bandits', did you mean 'bandit'? Choose one of 'bandit', 'full', 'filtering', "
            "'label-efficient', 'apple-tasting', "
            "'disease-prevention'",
        ),
        (
            lambda: FeedbackGraph.preset("bandit", 3, revealing=0),
            "the bandit graph has no revealing class to choose: omit revealing, or use filtering",
        ),
        (lambda: FeedbackGraph.from_edges(2, [(0, 0), (1, 2)]), "edge 2: there is no class 2: choose one of 0, 1"),
        (lambda: FeedbackGraph.from_edges(2, [("0", 0)]), "edge 1: there is no action '0': choose one of 0, 1"),
        (
            lambda: FeedbackGraph.from_edges(["a", "b"], ["ab"]),
            "edge 1 is not a pair of names: give each edge as (action, class)",
        ),
        (
            lambda: FeedbackGraph.from_edges(2, [(0, 0, 1)]),
            "edge 1 is not a pair of names: give each edge as (action, class)",
        ),
        (
            lambda: FeedbackGraph.from_edges(2, [([0], 0)]),
            "edge 1: action [0] is a list: names may be str, int, bool or None",
        ),
        (lambda: FeedbackGraph.from_edges(2, 7), "edges must be a list, not a int"),
        (
            lambda: FeedbackGraph.from_edges(3, [], actions=[0, 1]),
            "action 3 is missing where class 2 was expected: list the classes first, in order, then the extra actions",
        ),
        (
            lambda: FeedbackGraph.from_networkx([[1]]),
            "expected a networkx graph, not a list: give a Graph or a DiGraph",
        ),
    ],
)
def test_refusals_say_the_cure(make, sentence):
    with refused(sentence):
        make()


def test_a_graph_beyond_memory_is_refused_before_it_is_made():
    with pytest.raises(UserError, match=r"a graph of 100000000 actions and 100000000 classes would take .* GiB"):
        FeedbackGraph.bandit(10**8)


# Observability, by hand


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        # Class 2 has no self-loop but both others see it.
        ([[1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 1, 1]], "strong"),
        # The same without the edge from action 1.
        ([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]], "weak"),
        # All classes see themselves, the extra action sees nothing.
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], "strong"),
        # Class 2 is seen by both other classes but not by the extra action.
        ([[1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], "weak"),
        # A ring without self-loops.
        ([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]], "weak"),
    ],
)
def test_observability_by_hand(visible, expected):
    assert FeedbackGraph(visible).observability == expected


# Arrays and look-ups


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_arrays_are_what_kernels_expect(graph):
    found = graph.arrays
    fields = ("visible", "observers", "revealing", "dominating", "sole_observer", "costs", "has_costs")
    assert GraphArrays._fields == (*fields, "cost_sums")
    assert (found.has_costs, found.costs.shape) == (False, (0, 0))
    priced = graph.with_costs(3.0 * graph.costs).arrays
    assert priced.has_costs
    assert priced.costs.tolist() == (3.0 * graph.costs).tolist()
    *found_arrays, _, _ = found
    for array in found_arrays:
        assert array.flags.c_contiguous
        assert not array.flags.writeable
    assert [array.dtype for array in found_arrays] == [np.bool_, np.bool_, np.bool_, np.int64, np.int64, np.float64]
    assert (found.observers == graph.visible.T).all()
    assert tuple(np.flatnonzero(found.revealing)) == graph.revealing_indices
    assert tuple(found.dominating) == graph.dominating_indices
    observers = [np.flatnonzero(column).tolist() for column in graph.visible.T]
    assert found.sole_observer.tolist() == [each[0] if len(each) == 1 else -1 for each in observers]
    assert graph.costs.tolist() == [[float(i != y) for y in range(graph.n_classes)] for i in range(graph.n_actions)]
    assert graph.arrays is found


def test_look_ups_are_exact_about_type():
    graph = FeedbackGraph.label_efficient([0, 1, "1", None])
    assert [graph.class_index(name) for name in (0, 1, "1", None)] == [0, 1, 2, 3]
    assert graph.action_index("query") == 4
    assert graph.class_index(np.int32(1)) == 1
    with refused("there is no class 'query': choose one of 0, 1, '1', None"):
        graph.class_index("query")
    with refused("there is no action True: choose one of 0, 1, '1', None, 'query'"):
        graph.action_index(True)
    with refused("class 1.0 is a float: names may be str, int, bool or None"):
        graph.class_index(1.0)
    with refused("action: a whole number that is a name must fit in 64 bits: write it as a string instead"):
        graph.action_index(10**5000)


def test_bool_classes_are_not_numbers():
    graph = FeedbackGraph.bandit([False, True])
    assert graph.class_index(True) == 1
    with refused("there is no class 1: choose one of False, True"):
        graph.class_index(1)
    assert graph != FeedbackGraph.bandit(2)


# Value semantics


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_copies_are_equal(graph):
    for twin in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph)):
        assert twin == graph
        assert hash(twin) == hash(graph)
        assert (twin.name, twin.completed) == (graph.name, graph.completed)
        assert not twin.visible.flags.writeable
        assert twin.arrays.visible is twin.visible


def test_equality_is_by_value():
    graph = FeedbackGraph.bandit(3)
    assert graph == FeedbackGraph(EYE, name="another name")
    assert len({graph, FeedbackGraph(EYE), FeedbackGraph.full(3)}) == 2
    assert graph != FeedbackGraph.bandit(["0", "1", "2"])
    assert graph != "bandit"
    # The same matrix and names, but an extra action instead of a third class.
    assert FeedbackGraph([[1, 1], [0, 0], [0, 0]], [0, 1], [0, 1, 2]) != FeedbackGraph.filtering(3)


def test_nothing_can_be_changed():
    graph = FeedbackGraph.bandit(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.name = "mine"
    with pytest.raises(ValueError, match="read-only"):
        graph.visible[0, 1] = True


def test_repr_and_str():
    graph = FeedbackGraph.label_efficient(3)
    assert repr(graph) == "FeedbackGraph('label-efficient': 3 classes, 4 actions, 3 edges, rho 1, 'query' reveals)"
    assert str(graph) == "label-efficient (3 classes, 4 actions, 3 edges, rho 1, 'query' reveals)"
    assert repr(FeedbackGraph.bandit(3)) == "FeedbackGraph('bandit': 3 classes, 3 actions, 3 edges, rho 3)"
    assert str(FeedbackGraph.full(3)) == "full (3 classes, 3 actions, 9 edges, rho 1)"


@pytest.mark.parametrize(
    ("graph", "caption"),
    [
        (FeedbackGraph.bandit(3), "bandit graph"),
        (FeedbackGraph.full(3), "full graph"),
        (FeedbackGraph.filtering(["junk", "legit"], revealing="legit"), "filtering graph, 'legit' reveals"),
        (FeedbackGraph.filtering(9, revealing=[8, 1]), "filtering graph, 1, 8 reveal"),
        (FeedbackGraph.filtering(9, revealing=[*range(1, 9)]), "filtering graph, 1, 2, 3 and 5 more reveal"),
        (FeedbackGraph.label_efficient(3), "label-efficient graph, 'query' reveals"),
        (FeedbackGraph.filtering(["x" * 99, "y", "z"]), f"filtering graph, '{'x' * 18}… reveals"),
        (FeedbackGraph([[1, 1], [0, 0]]), "graph, 0 reveals"),
    ],
)
def test_captions_name_the_revealing_actions(graph, caption):
    assert graph.caption == caption
    assert graph.draw().axes[0].get_title() == caption


# Edges and networkx


@settings(max_examples=50, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_edges_rebuild_the_graph(graph, random):
    edges = [(action, name) for action in graph.actions for name in graph.reveals(action)]
    edges += edges[:3]
    random.shuffle(edges)
    again = FeedbackGraph.from_edges(graph.classes, edges, graph.actions, dominating_set=graph.dominating_set)
    assert again == graph


def test_edges_may_be_arrays():
    assert FeedbackGraph.from_edges(3, np.array([[0, 0], [1, 1], [2, 2]])) == FeedbackGraph.bandit(3)


def test_directed_networkx():
    graph = networkx.DiGraph([("a", "a"), ("a", "b"), ("c", "c"), ("d", "d"), ("d", "a")])
    assert FeedbackGraph.from_networkx(graph) == FeedbackGraph(
        [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]], ["a", "b", "c", "d"]
    )


def test_undirected_networkx_counts_both_ways_and_adds_no_loops():
    ring = FeedbackGraph.from_networkx(networkx.cycle_graph(4))
    assert rows(ring) == [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]


@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph])
def test_networkx_extra_nodes(kind):
    graph = kind()
    graph.add_node("query", extra=True)
    graph.add_nodes_from(["cat", "dog"])
    graph.add_edges_from([("query", "cat"), ("query", "dog")])
    assert FeedbackGraph.from_networkx(graph) == FeedbackGraph.label_efficient(["cat", "dog"])


def test_networkx_refusals():
    into_query = networkx.DiGraph([("a", "a"), ("b", "b"), ("a", "ask")])
    into_query.nodes["ask"]["extra"] = True
    with refused("an edge goes into the extra action 'ask', whose loss is known: remove that edge"):
        FeedbackGraph.from_networkx(into_query)
    with pytest.raises(UserError, match="is a tuple: names may be"):
        FeedbackGraph.from_networkx(networkx.grid_2d_graph(2, 2))


def test_networkx_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with refused("networkx is not installed: pip install networkx"):
        FeedbackGraph.from_networkx(object())


# Files


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs())
def test_json_round_trip(tmp_path, graph):
    file = tmp_path / "graph.json"
    graph.to_json(file)
    again = FeedbackGraph.from_json(str(file))
    assert again == graph
    assert (again.name, again.completed, again.dominating_set_is_given) == (
        graph.name,
        graph.completed,
        graph.dominating_set_is_given,
    )
    assert names_in(tmp_path) == ["graph.json"]


def test_json_as_documented(tmp_path):
    file = tmp_path / "graph.json"
    FeedbackGraph.label_efficient(["cat", "dog"]).to_json(file)
    assert json.loads(file.read_text()) == {
        "name": "label-efficient",
        "classes": ["cat", "dog"],
        "actions": ["cat", "dog", "query"],
        "edges": [["query", "cat"], ["query", "dog"]],
    }
    file.write_text('\ufeff{"classes": [1, "b", null], "edges": [[1, 1], [1, "b"], [1, null]]}', encoding="utf-8")
    assert FeedbackGraph.from_json(file) == FeedbackGraph.filtering([1, "b", None])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is not JSON (Expecting value: line 1 column 1 (char 0)): correct it"),
        (
            b'{\n "classes": [1, 2],\n "edges" [[1, 1]]}',
            "it is not JSON (Expecting ':' delimiter: line 3 column 10 (char 31)): correct it",
        ),
        (b"[1, 2]", 'it holds no object: write an object with "classes" and "edges"'),
        (b"null", 'it holds no object: write an object with "classes" and "edges"'),
        (b"{}", '"classes" is missing: a graph needs "classes" and "edges"'),
        (b'{"classes": [1, 2]}', '"edges" is missing: a graph needs "classes" and "edges"'),
        (
            b'{"classes": [1, 2], "edges": [], "weights": 3}',
            "there is no key 'weights': choose one of 'classes', 'actions', 'edges', 'name', 'dominating_set', 'costs'",
        ),
        (b'{"classes": 2, "edges": []}', '"classes" must be a list, not a int'),
        (
            b'{"classes": [1, 2.0], "edges": []}',
            "class 2.0 is a float: names may be str, int, bool or None",
        ),
        (
            b'{"classes": [1, [2]], "edges": []}',
            "class [2] is a list: names may be str, int, bool or None",
        ),
        (
            b'{"classes": [1, NaN], "edges": []}',
            "class nan is a float: names may be str, int, bool or None",
        ),
        (
            b'{"classes": ["a", "a"], "edges": []}',
            "the names 'a' and 'a' compare equal: every class needs a name of its own",
        ),
        (b'{"classes": ["a"], "edges": []}', "a graph needs at least 2 classes, not 1: name two or more"),
        (
            b'{"classes": [1, 2], "actions": [2, 1], "edges": []}',
            "action 1 is 2 where class 1 was expected: list the classes first, in order, then the extra actions",
        ),
        (b'{"classes": [1, 2], "edges": {}}', '"edges" must be a list, not a dict'),
        (
            b'{"classes": [1, 2], "edges": [[1, 1], [2]]}',
            "edge 2 is not a pair of names: give each edge as (action, class)",
        ),
        (
            b'{"classes": [1, 2], "edges": [[1, 1], [2, {}]]}',
            "edge 2: class {} is a dict: names may be str, int, bool or None",
        ),
        (b'{"classes": [1, 2], "edges": [[1, 1], [2, true]]}', "edge 2: there is no class True: choose one of 1, 2"),
        (
            b'{"classes": [1, 2, 3], "edges": [[1, 1]]}',
            "no action reveals 2, 3: give some action an edge to every class",
        ),
        (b'{"classes": [1, 2], "edges": [[1, 1]], "name": 4}', "the name of a graph must be a str, not int"),
        (
            b'{"classes": [1, 2, 3], "edges": [[1, 1], [2, 2], [3, 3]], "dominating_set": [1]}',
            "the dominating set [1] does not reveal 2, 3: add actions that do, or omit dominating_set",
        ),
        (
            b'{"classes": [1, ' + b"9" * 30 + b'], "edges": []}',
            "class: a whole number that is a name must fit in 64 bits: write it as a string instead",
        ),
        (
            b'{"classes": ' + b"[" * 600 + b"]" * 600 + b', "edges": []}',
            "class [[[[[[[...]]]]]]] is a list: names may be str, int, bool or None",
        ),
    ],
)
def test_bad_files_say_the_place_and_the_cure(tmp_path, content, sentence):
    file = tmp_path / "g.json"
    file.write_bytes(content)
    with refused(f"graph file {file}: {sentence}"):
        FeedbackGraph.from_json(file)


def test_files_that_cannot_be_read(tmp_path):
    with refused(
        f"graph file {tmp_path / 'no.json'}: it cannot be read (No such file or directory): name a readable file"
    ):
        FeedbackGraph.from_json(tmp_path / "no.json")
    with refused(f"graph file {tmp_path}: it cannot be read (Is a directory): name a readable file"):
        FeedbackGraph.from_json(tmp_path)
    with pytest.raises(UserError, match="it cannot be read"):
        FeedbackGraph.from_json("a\0b")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfe{}", "'utf-8' codec can't decode byte 0xff in position 0"),
        (b'{"classes": [1, ' + b"9" * 5000 + b'], "edges": []}', "Exceeds the limit"),
        (b"[" * 100_000, "maximum recursion depth exceeded"),
    ],
)
def test_files_that_are_not_json_say_why(tmp_path, content, reason):
    file = tmp_path / "g.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=rf"it is not JSON \({re.escape(reason)}.*\): correct it"):
        FeedbackGraph.from_json(file)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["a", "b", "classes", 0, 1, True, 10**30]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["classes", "actions", "edges", "name", "dominating_set"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
NAMES = st.lists(st.sampled_from(["a", "b", "c", 0, 1, False, None]), max_size=4)
NEARLY_GRAPHS = st.fixed_dictionaries(
    {
        "classes": NAMES | JSON_VALUES,
        "edges": st.lists(
            st.lists(st.sampled_from(["a", "b", "c", 0, 1, True, None]), min_size=1, max_size=3), max_size=8
        )
        | JSON_VALUES,
    },
    optional={
        "actions": NAMES | JSON_VALUES,
        "name": st.text(max_size=3) | JSON_VALUES,
        "dominating_set": NAMES | JSON_VALUES,
    },
)


def check_any_content(tmp_path, content):
    file = tmp_path / "fuzz.json"
    file.write_bytes(content)
    try:
        assert FeedbackGraph.from_json(file).visible.any(axis=0).all()
        return
    except UserError as error:
        sentence = str(error)
    assert sentence.startswith(f"graph file {file}: ")
    assert "\n" not in sentence


FUZZ = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(document=JSON_VALUES | NEARLY_GRAPHS)
def test_any_json_is_a_graph_or_a_user_error(tmp_path, document):
    check_any_content(tmp_path, json.dumps(document).encode())


@FUZZ
@given(content=st.binary(max_size=60) | st.text('[]{}":,0123456789.eE-+ \nantrufls\\u', max_size=60).map(str.encode))
def test_any_bytes_are_a_graph_or_a_user_error(tmp_path, content):
    check_any_content(tmp_path, content)


@FUZZ
@given(data=st.data())
def test_a_damaged_file_is_a_graph_or_a_user_error(tmp_path, data):
    good = bytearray(
        b'{"classes": ["a", "b"], "actions": ["a", "b", "q"], "edges": [["a", "a"], ["q", "b"]], "name": "n"}'
    )
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    check_any_content(tmp_path, bytes(good))


@pytest.mark.parametrize("depth", range(200, 3000, 200))
def test_nesting_of_any_depth_is_a_user_error(tmp_path, depth):
    for opening, closing in ((b"[", b"]"), (b'{"classes":', b"}"), (b'{"edges": [], "classes":[', b"]}")):
        check_any_content(tmp_path, opening * depth + b"0" + closing * depth)


def test_unwritable_output_is_a_user_error(tmp_path):
    graph = FeedbackGraph.bandit(3)
    with pytest.raises(UserError, match=r"cannot write .*No such file or directory.*: name a file"):
        graph.to_json(tmp_path / "no" / "g.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        graph.to_json(tmp_path / "folder")
    with pytest.raises(UserError, match="cannot write"):
        graph.to_json("a\0b")
    with pytest.raises(UserError, match="cannot write"):
        graph.to_json("/")
    assert names_in(tmp_path) == ["folder"]


def test_an_old_file_is_replaced_whole_with_ordinary_permissions(tmp_path):
    file = tmp_path / "g.json"
    file.write_text("old")
    FeedbackGraph.bandit(3).to_json(file)
    assert FeedbackGraph.from_json(file) == FeedbackGraph.bandit(3)
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


# For people


@pytest.mark.parametrize(
    ("graph", "phrases"),
    [
        (FeedbackGraph.full(3), ["every label: 0, 1, 2", "no exploration is needed"]),
        (
            FeedbackGraph.bandit(["a", "b", "c"]),
            [
                "only whether it is correct: 'a', 'b', 'c'",
                "Observability: strong",
                "rho = 3, minimum",
                "sqrt(9 T)",
                "about 949 mistakes",
            ],
        ),
        (
            FeedbackGraph.bandit(2),
            ["Added edges, from action to class: (0, 1), (1, 0).", "a label that is none of the others is it"],
        ),
        (
            FeedbackGraph.label_efficient(4),
            ["4 classes, 5 actions (1 of them extra: 'query'), 4 edges", "nothing: 0, 1, 2, 3", "Observability: weak"],
        ),
        (FeedbackGraph.from_networkx(networkx.cycle_graph(5)), ["some classes: 0, 1, 2, 3, 4"]),
        (FeedbackGraph(np.ones((3, 3)), dominating_set=[0, 1]), ["(rho = 2, given, at most 2 times the minimum)"]),
        (FeedbackGraph.disease_prevention(9), ["(5, 5) and 3 more."]),
    ],
)
def test_description(graph, phrases):
    text = graph.describe()
    for phrase in phrases:
        assert phrase in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 130


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_every_graph_can_be_described(graph):
    assert graph.describe().encode("ascii", "backslashreplace")


def patches(figure, kind):
    return [patch for patch in figure.axes[0].patches if type(patch).__name__ == kind]


@pytest.mark.parametrize(
    ("graph", "circles", "squares", "arrows"),
    [
        (FeedbackGraph.bandit(6), 6, 0, 6),
        (FeedbackGraph.filtering(5), 5, 0, 5),
        (FeedbackGraph.label_efficient(4), 4, 1, 4),
        (FeedbackGraph([[0, 0, 0]] * 3 + [[1, 1, 1]] * 2), 3, 2, 6),
        (FeedbackGraph.full(["long name of a class", "$x$", "\n"]), 3, 0, 9),
    ],
)
def test_drawing_shows_every_node_and_edge(graph, circles, squares, arrows):
    figure = graph.draw()
    found = [len(patches(figure, kind)) for kind in ("Circle", "Rectangle", "FancyArrowPatch")]
    assert found == [circles, squares, arrows]
    assert len(figure.axes[0].texts) == graph.n_actions


def test_large_graphs_are_drawn_as_a_matrix():
    graph = FeedbackGraph.bandit(60)
    (image,) = graph.draw().axes[0].images
    assert (image.get_array() == graph.visible).all()
    assert len(FeedbackGraph.full(12).draw().axes[0].images) == 1
    assert len(FeedbackGraph([[1, 1]] * 12).draw().axes[0].images) == 1
    queries = FeedbackGraph(np.vstack([np.eye(30), np.ones((2, 30))]))
    assert int(queries.draw().axes[0].images[0].get_array().max()) == 2


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF")])
@pytest.mark.parametrize("graph", [FeedbackGraph.label_efficient(["a$b$", "cat"]), FeedbackGraph.bandit(30)])
def test_drawing_is_written(tmp_path, suffix, magic, graph):
    file = tmp_path / f"graph{suffix}"
    graph.draw(file)
    assert file.read_bytes().startswith(magic)
    assert names_in(tmp_path) == [file.name]


def test_drawing_into_axes_of_the_users():
    whole = Figure()
    left, right = whole.subfigures(1, 2)
    axes = left.add_subplot()
    assert FeedbackGraph.bandit(3).draw(ax=axes) is whole
    assert len(axes.patches) == 6
    assert not right.axes


def test_drawing_refusals(tmp_path):
    graph = FeedbackGraph.bandit(3)
    for name in ("graph.bmp", "graph"):
        with refused(f"cannot draw into {str(tmp_path / name)!r}: let its name end in .png, .svg or .pdf"):
            graph.draw(tmp_path / name)
    with pytest.raises(UserError, match="cannot write"):
        graph.draw(tmp_path / "no" / "graph.png")


def test_the_guide_runs(tmp_path, monkeypatch):
    guide = Path(__file__).parents[2] / "docs" / "graphs.md"
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(guide), module_relative=False, encoding="utf-8")
    assert found.attempted > 10
    assert found.failed == 0


def test_the_guide_states_the_exact_size():
    guide = Path(__file__).parents[2] / "docs" / "graphs.md"
    assert f"at most {EXACT_ACTIONS} actions remain" in guide.read_text(encoding="utf-8")
    assert f"after {EXACT_NODES} linear programs" in guide.read_text(encoding="utf-8")


def test_the_guide_lists_the_presets():
    lines = (Path(__file__).parents[2] / "docs" / "presets.md").read_text(encoding="utf-8").splitlines()
    listed = [line.split(" | ")[1].strip("`") for line in lines if line.startswith("| `FeedbackGraph.")]
    assert sorted(listed) == sorted(PRESETS)
    assert all(hasattr(FeedbackGraph, name.replace("-", "_")) for name in PRESETS)


def test_heavy_libraries_wait_until_they_are_needed():
    code = (
        "import sys\n"
        "from gappletron.graphs.graph import FeedbackGraph\n"
        "FeedbackGraph.bandit(5).describe()\n"
        "assert not {'scipy.optimize', 'matplotlib', 'networkx'} & set(sys.modules)\n"
        "FeedbackGraph.bandit(5).draw()\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_very_large_graph_is_drawn_as_a_summary(tmp_path):
    graph = FeedbackGraph.filtering(3000, revealing=[5, 1200])
    figure = graph.draw(tmp_path / "x.png")
    axes = figure.axes[0]
    assert axes.get_title().startswith("summary in blocks of 6 x 6: filtering graph")
    shares = axes.images[0].get_array()
    assert shares.shape == (500, 500)
    by_hand = graph.visible.reshape(500, 6, 500, 6).mean(axis=(1, 3))
    np.testing.assert_allclose(shares, by_hand)


HOSTILE_FILES = {
    "duplicate": '{"0":0,' + ",".join(f'"{i}":0' for i in range(200_000)) + "}",
    "deep": "[" * 1_000_000,
    "long names": json.dumps({"classes": ["a" * 10**6, "b" * 10**6], "edges": [["a" * 10**6 + "c", "b"]]}),
    "many classes": json.dumps({"classes": list(range(1_000_000)), "edges": []}),
    "infinity": '{"classes": [1e999, 2], "edges": []}',
}


@pytest.mark.parametrize("kind", HOSTILE_FILES)
def test_a_hostile_file_is_refused_at_once_in_one_short_sentence(kind, tmp_path):
    file = tmp_path / "x.json"
    file.write_text(HOSTILE_FILES[kind])
    start = time.process_time()
    with pytest.raises(UserError) as refused_with:
        FeedbackGraph.from_json(file)
    assert len(str(refused_with.value)) < 1000
    assert time.process_time() - start < 10
