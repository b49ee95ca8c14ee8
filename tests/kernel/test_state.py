"""Declared state: allocation, padding, memory, saving, comparing, resizing; and the vector code against plain loops."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, strategies as st

import gappletron
from gappletron import Field, Scratch, UserError, named, names
from gappletron.kernel.inlined import OPTIONS
from gappletron.kernel.lanes import WIDEST
from gappletron.kernel.numerics import Row, add_outer, argmax, dot, lanes_for, rival, squared_length
from gappletron.kernel.state import Sizes, State, measure

LAYOUT = {
    "weights": Field("features", "classes", fill=0.5),
    "part": {
        "rounds": Field(dtype="int64"),
        "votes": Field("actions"),
        "matrix": Field("features", "features", diagonal=2.0),
    },
    "work": Scratch("classes"),
}


def numbered(state: State) -> None:
    """Every entry that is remembered gets its own number."""
    start = 0
    for array in state.arrays.values():
        array[...] = np.arange(start, start + array.size).reshape(array.shape)
        start += array.size


def test_what_is_allocated():
    state = State(LAYOUT, Sizes(features=3, classes=5, actions=7))
    shapes = {name: array.shape for name, array in state.arrays.items()}
    assert shapes == {"weights": (3, 5), "part.rounds": (1,), "part.votes": (7,), "part.matrix": (3, 3)}
    assert state.tuple.weights.shape == (3, 8)
    assert (state.tuple.weights == 0.5).all()
    assert state.tuple.work.shape == (5,)
    assert state.tuple.part.rounds.dtype == np.int64
    assert state.tuple.part.matrix.tolist() == (2.0 * np.eye(3)).tolist()
    assert state.tuple._fields == ("weights", "part", "work")
    assert state.nbytes == measure(LAYOUT, state.sizes) == 8 * (24 + 1 + 7 + 9 + 8)
    for array in (state.tuple.weights, state.tuple.work, state.tuple.part.votes):
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous


@given(st.integers(1, 6), st.integers(2, 9), st.integers(0, 2), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_resizing_keeps_what_was_there_by_name(features, classes, extra, more_features, more_classes, twice):
    before = Sizes(features, classes, classes + extra)
    after = Sizes(features + more_features, classes + more_classes, classes + more_classes + extra)
    state = State(LAYOUT, before)
    numbered(state)
    old = {name: array.copy() for name, array in state.arrays.items()}
    if twice:
        state = state.resized(before._replace(features=after.features))
    state = state.resized(after)
    fresh = State(LAYOUT, after).arrays
    actions = [*range(classes), *range(after.classes, after.actions)]
    places = {"features": range(features), "classes": range(classes), "actions": actions, 1: range(1)}
    axes = {
        "weights": ("features", "classes"),
        "part.rounds": (1,),
        "part.votes": ("actions",),
        "part.matrix": ("features", "features"),
    }
    for name, array in state.arrays.items():
        where = np.ix_(*(list(places[axis]) for axis in axes[name]))
        assert (array[where] == old[name]).all()
        rest = np.ones(array.shape, bool)
        rest[where] = False
        assert (array[rest] == fresh[name][rest]).all()
    assert (state._padded["weights"][:, after.classes :] == 0.5).all()


def test_the_view_of_fewer_classes_has_scratch_of_its_own():
    state = State(
        {"votes": Field("classes"), "weights": Field("features", "classes"), "work": Scratch("classes")}, Sizes(2, 5, 5)
    )
    numbered(state)
    state.tuple.work[:] = 7.0
    view = state.view(3)
    assert view.votes.tolist() == [0.0, 1.0, 2.0]
    assert view.weights is state.tuple.weights
    assert view.work.tolist() == [0.0, 0.0, 0.0]
    assert not np.shares_memory(view.work, state.tuple.work)
    view.votes[0] = 9.0
    assert state.arrays["votes"][0] == 9.0


def test_equal_means_the_same_bits_in_what_is_remembered():
    first, second = (State(LAYOUT, Sizes(3, 5, 5)) for _ in range(2))
    second.tuple.work[:] = 1.0
    assert first == second
    second.arrays["part.votes"][4] = -0.0
    assert first != second
    assert first != State(LAYOUT, Sizes(3, 6, 6))
    assert first != "a state"


def test_loading_takes_exactly_what_fits():
    first, second = (State(LAYOUT, Sizes(3, 5, 6)) for _ in range(2))
    numbered(first)
    saved = {name: array.copy() for name, array in first.arrays.items()}
    second.load({**saved, "of no use": np.zeros(3)})
    assert first == second
    for name, array in saved.items():
        for wrong in (None, array[..., :-1], array.astype(np.float32)):
            other = {**saved, name: wrong}
            if wrong is None:
                del other[name]
            with pytest.raises(UserError, match=f"the saved array '{name}' does not fit"):
                State(LAYOUT, Sizes(3, 5, 6)).load(other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Field("feature"),
        lambda: Field(0),
        lambda: Field(2.5),
        lambda: Field("features", "classes", diagonal=1.0),
        lambda: State({"weights": np.zeros(3)}, Sizes(1, 2, 2)),
        lambda: State({"a__b": Field()}, Sizes(1, 2, 2)),
        lambda: State({"_a": Field()}, Sizes(1, 2, 2)),
        lambda: State({"class": Field()}, Sizes(1, 2, 2)),
        lambda: State({"a.b": Field()}, Sizes(1, 2, 2)),
        lambda: State({"votes": Field("actions")}, Sizes(1, 3, 4)).view(2),
        lambda: State({"weights": Field("features", "features")}, Sizes(2**30, 2, 2)),
    ],
)
def test_what_cannot_be_declared_is_a_user_error(make):
    with pytest.raises(UserError):
        make()


def test_the_memory_is_measured_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("gappletron.base.checks.free_memory", lambda: 20_000_000)
    with pytest.raises(UserError, match=r"the state for 2000000 features x 2 classes would take .* hash the features"):
        State({"weights": Field("features", "classes")}, Sizes(2_000_000, 2, 2))
    state = State({"weights": Field("features", "classes")}, Sizes(100, 2, 2))
    with pytest.raises(UserError, match="hash the features"):
        state.resized(Sizes(2_000_000, 2, 2))
    assert state.sizes == Sizes(100, 2, 2)


def test_the_classes_of_states_are_found_by_name_in_any_process():
    state = State(LAYOUT, Sizes(1, 2, 2)).tuple
    assert pickle.loads(pickle.dumps(type(state))) is type(state)
    assert type(copy.copy(state)) is type(state)


def test_no_learner_and_no_optimizer_makes_arrays_of_its_own():
    package = Path(gappletron.__file__).parent
    for path in (package / "learners").glob("*.py"):
        if path.stem == "score_parts":  # explains a decision, in plain Python
            continue
        tree = ast.parse(path.read_text())
        explaining = [node for node in ast.walk(tree) if getattr(node, "name", "") == "split_scores"]
        aside = {part for function in explaining for part in ast.walk(function)}
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and node not in aside]
        called = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
        assert not called & {"zeros", "ones", "empty", "full", "array", "setflags"}, path


@pytest.mark.parametrize("name", names())
def test_the_states_of_all_learners_are_measured_and_compared(name):
    state = State(named(name).declare(), Sizes(4, 3, 3))
    assert state.nbytes == measure(state.layout, state.sizes) > 0
    assert state == State(named(name).declare(), Sizes(4, 3, 3))


# ------------------------------------------------------------------------------------------------------ the vector code


def compiled(function):
    return numba.njit(**OPTIONS)(function)


@compiled
def only_dot(weights, x, scores):
    dot(weights, x, scores)


@compiled
def only_argmax(scores):
    return argmax(scores)


@compiled
def all_of_it(weights, x, scores, direction, factor):
    dot(weights, x, scores)
    add_outer(weights, x, direction, factor)
    return squared_length(direction, x), argmax(scores), rival(scores, argmax(scores))


def plain(weights, x, scores, direction, factor):
    dot(weights, x, scores)
    add_outer(weights, x, direction, factor)
    return squared_length(direction, x), argmax(scores), rival(scores, argmax(scores))


@pytest.mark.parametrize("K", [2, 3, 4, 5, 8, 9, 16, 33, WIDEST, WIDEST + 1, 100])
def test_vector_code_gives_the_bits_of_the_plain_loops(K):
    rng = np.random.default_rng(K)
    lanes = lanes_for(K)
    assert lanes.padded(K) == (2 if K == 2 else -(-K // 4) * 4)
    for kind in range(40):
        weights = np.zeros((6, lanes.padded(K)))
        weights[:, :K] = rng.normal(size=(6, K)) if kind % 3 else rng.integers(-1, 2, (6, K))  # ties
        n = int(rng.integers(0, 5))
        indices = np.sort(rng.choice(6, n, replace=False)).astype(np.int32)
        values = rng.normal(size=n) if kind % 2 else np.ones(n)
        x = Row(indices, values, 0, n, float((values**2).sum()), lanes)
        direction = np.zeros(lanes.padded(K))[:K]
        active = rng.choice(K, min(K, int(rng.integers(0, 4))), replace=False) if kind % 4 else np.arange(K)
        direction[active] = rng.normal(size=active.size)
        outcomes = []
        for run in (all_of_it, plain):
            W, scores = weights.copy(), np.zeros(lanes.padded(K))[:K]
            outcomes.append((run(W, x, scores, direction, 0.37), W.tobytes(), scores.tobytes()))
        assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_other_numbers_than_doubles_take_the_plain_loops(dtype):
    lanes = lanes_for(3)
    weights = np.arange(24).reshape(6, 4).astype(dtype)
    x = Row(np.array([1, 5], np.int32), np.array([1.0, 2.0]), 0, 2, 5.0, lanes)
    outcomes = []
    for run in (only_dot, dot):
        scores = np.zeros(4, "float64")[:3]
        run(weights, x, scores)
        outcomes.append(scores.tolist())
    assert outcomes[0] == outcomes[1] == [44.0, 47.0, 50.0]
    columns = np.arange(12.0).reshape(6, 2)[:, 1]
    assert only_argmax(columns) == argmax(columns) == 5
    assert only_argmax(weights[:, 0].copy()) == 5


def test_where_nothing_is_larger_than_minus_infinity():
    for scores, y in ((np.full(5, -np.inf), 0), (np.full(5, -np.inf), 2), (np.array([-np.inf, 0.0]), 1)):
        assert top_two(scores, y) == (argmax(scores), rival(scores, y))


@compiled
def top_two(scores, y):
    return argmax(scores), rival(scores, y)


@given(st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.0, 1.0, 1.0, 3.5, -1e300]), min_size=2, max_size=20), st.data())
def test_argmax_and_rival_take_the_lowest_on_a_tie(values, data):
    scores, y = np.array(values), data.draw(st.integers(0, len(values) - 1))
    others = [k for k in range(len(values)) if k != y]
    expected = int(np.argmax(scores)), max(others, key=lambda k: (scores[k], -k))
    assert top_two(scores, y) == expected
    assert (argmax(scores), rival(scores, y)) == expected
