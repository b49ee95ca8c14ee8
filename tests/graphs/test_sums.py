"""Products with matrices of few numbers, against NumPy; and learners with structured costs, against transcriptions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import reference
from gappletron import FeedbackGraph, Player, interpreted, named
from gappletron.graphs.costs import zero_one
from gappletron.graphs.sums import multiply, split
from problems import play_one_at_a_time, random_graph, small_stream


def costs_of(kind: str, rng: np.random.Generator, N: int, K: int) -> np.ndarray:
    C = zero_one(N, K).copy()
    match kind:
        case "row":
            C[0, 1:] = 5.0
        case "column":
            C[1:, 0] = 0.2
        case "query":
            C[-1] = 0.3
        case "entry":
            C[1, 2] = 10.0
            C[2, 0] = 0.0
        case "by label":
            C *= rng.uniform(0.5, 3.0, K)
        case "by action":
            C *= rng.uniform(0.5, 3.0, (N, 1))
        case "dense":
            C = rng.uniform(0.0, 3.0, (N, K))
    return C


KINDS = ("zero-one", "row", "column", "query", "entry", "by label", "by action", "dense")


def product(sums, v):
    out = np.full(sums.rows.size + 3, np.nan)  # longer, as padded rows are
    multiply(sums, v, out)
    assert np.isnan(out[sums.rows.size :]).all()
    return out[: sums.rows.size]


@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.integers(3, 40), st.integers(0, 2), st.floats(0, 16))
@settings(max_examples=200, deadline=None)
def test_expected_costs_are_those_of_numpy(seed, kind, K, extra, sharpness):
    """Also the smallest ones, where a difference of large numbers would lose all digits; and signed vectors."""
    rng = np.random.default_rng(seed)
    C = costs_of(kind, rng, K + extra, K)
    q = reference.softmax(sharpness * rng.uniform(-1, 1, K))
    exact = (C.astype(np.longdouble) @ q.astype(np.longdouble)).astype(float)
    rtol = 1e-12 if kind in ("zero-one", "row", "query", "dense") else 1e-9
    np.testing.assert_allclose(product(split(C), q), exact, rtol=rtol, atol=1e-15 * C.max())
    step = rng.normal(size=K)
    np.testing.assert_allclose(product(split(C), step), C @ step, atol=1e-12)


def test_structure_is_found():
    rng = np.random.default_rng(1)
    for kind in KINDS[:-1]:
        made = split(costs_of(kind, rng, 101, 100))
        assert made.whole.size == 0
        assert made.lines.size <= 4 * 100
    assert split(costs_of("dense", rng, 101, 100)).whole.shape == (100, 101)


def test_classes_that_are_alike_cost_the_same_bits():
    for K in (3, 7, 50, 333):
        for kind in ("zero-one", "row"):
            found = product(split(costs_of(kind, np.random.default_rng(0), K, K)), np.full(K, 1.0 / K))
            assert len(set(found[1:])) == 1
            assert found[0] == (5.0 if kind == "row" else 1.0) * found[1]


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(0, 2), st.sampled_from([0.05, 0.35, 0.95]))
@settings(max_examples=60, deadline=None)
def test_what_is_seen_is_a_sum_and_never_a_difference(seed, K, extra, density):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, K, extra, density)
    p = 10.0 ** rng.uniform(-30, 0, graph.n_actions)
    made = split(graph.visible.T.astype(float), np.min)
    np.testing.assert_allclose(product(made, p), p @ graph.visible, rtol=1e-13)


def test_interpreted_and_compiled_rounds_with_structured_costs_give_the_same_bits():
    graph = FeedbackGraph.label_efficient(9)
    X, y = small_stream(np.random.default_rng(2), 150, 6, 9)
    for kind in ("row", "entry"):
        priced = graph.with_costs(costs_of(kind, np.random.default_rng(0), 10, 9))
        for learner in (named("auto"), named("one-against-all")):
            actions, W = play_one_at_a_time(learner, priced, X, y, seed=2)
            with interpreted():
                plain, W_plain = play_one_at_a_time(learner, priced, X, y, seed=2)
            assert actions == plain
            assert W.tobytes() == W_plain.tobytes()


@pytest.mark.parametrize("kind", KINDS[1:-1])
@pytest.mark.parametrize("preset", ["full", "bandit", "label-efficient"])
def test_learners_with_structured_costs_are_their_transcriptions(kind, preset):
    rng = np.random.default_rng(4)
    graph = FeedbackGraph.preset(preset, 9)
    graph = graph.with_costs(costs_of(kind, rng, graph.n_actions, 9))
    X, y = small_stream(rng, 120, 6, 9)
    parts = (graph.visible, graph.dominating_indices, graph.costs)
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(3, spawn_key=(0,)))).random(120)
    with interpreted():
        player = Player("auto", graph, 6, seed=3, normalize=None, bias=False)
        for x, label in zip(X, y, strict=True):
            turn = player.act(x)
            player.learn(turn, int(label) if graph.visible[turn.action, label] else -1)
        expected = reference.guarded(X, y, parts, draws)
        np.testing.assert_allclose(player.weights.T, expected[1].slow.W, rtol=1e-7, atol=1e-9)
        actions, W = play_one_at_a_time(named("one-against-all"), graph, X, y, seed=3)
        optimizer = reference.ConfidenceWeighted(9, 6)
        found = reference.estimator(X, y, parts, "squared hinge", ("inverse gap", 2.4), draws, optimizer)
        assert actions == found[0]
        np.testing.assert_allclose(W.T, found[1], rtol=1e-7, atol=1e-9)
