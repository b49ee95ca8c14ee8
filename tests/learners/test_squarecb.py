"""The decision-estimation program: its derivation, and its solutions against scipy, a grid and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import optimize

from gappletron import FeedbackGraph, OneAgainstAll, PartialLikelihood, Player, SquareCB, interpreted, play
from gappletron.graphs.graph import Plan
from gappletron.kernel.state import Sizes, State
from gappletron.learners.exploration.barrier import work_space
from gappletron.learners.exploration.rules import Outlook
from gappletron.learners.exploration.squarecb import (
    ANY,
    BANDIT,
    FULL,
    SOLE,
    best_play,
    make_program,
    regret,
)
from problems import GRAPHS, random_graph, small_stream, state_of
from storms import chunk_of


def costs_of(graph, q):
    """b_i - sum_k D[i, k] q_k, in units of the largest cost."""
    C = graph.costs / graph.costs.max()
    top = C.max(axis=1)
    return top - (top[:, np.newaxis] - C) @ q


def regret_against(graph, q, gamma, p, a):
    """The term of action a in the program, straight from its definition."""
    C = graph.costs / graph.costs.max()
    D = C.max(axis=1)[:, np.newaxis] - C
    c, off, seen = costs_of(graph, q), p @ D - D[a], p @ graph.visible
    return p @ c - c[a] + sum(e * e / P if P > 0 else math.inf for e, P in zip(off, seen, strict=True) if e) / gamma


def comparators(graph):
    """The actions that no other dominates."""
    C = graph.costs
    return [
        a
        for a in range(len(C))
        if not any((C[i] <= C[a]).all() and ((C[i] < C[a]).any() or i < a) for i in range(len(C)))
    ]


def value(graph, q, gamma, p):
    """gamma times the maximum."""
    return gamma * max(regret_against(graph, q, gamma, p, a) for a in comparators(graph))


def solved(graph, q, gamma):
    c, work = costs_of(graph, q), State(work_space(), Sizes(1, graph.n_classes, graph.n_actions)).tuple
    program, out = make_program(graph.visible, graph.costs), np.full(graph.n_actions, np.nan)
    best_play(program, gamma * (c - c.min()), work, out)
    assert (out >= 0.0).all()
    assert out.sum() == pytest.approx(1.0, abs=1e-12)
    assert regret(program, gamma * (c - c.min()), out, work) == pytest.approx(
        value(graph, q, gamma, out), rel=1e-9, abs=1e-9
    )
    return out


def solved_by_scipy(graph, q, gamma, start):
    """SLSQP on the epigraph, from a p; the value of what it finds."""
    N, rivals = graph.n_actions, comparators(graph)
    start = np.maximum(start, 1e-4) / np.maximum(start, 1e-4).sum()

    def slacks(z):
        return np.array([z[N] - gamma * regret_against(graph, q, gamma, z[:N], a) for a in rivals])

    first = np.append(start, value(graph, q, gamma, start) + 0.1)
    found = optimize.minimize(
        lambda z: z[N],
        first,
        method="SLSQP",
        bounds=[(1e-10, 1.0)] * N + [(None, None)],
        constraints=[{"type": "ineq", "fun": slacks}, {"type": "eq", "fun": lambda z: z[:N].sum() - 1.0}],
        options={"maxiter": 300, "ftol": 1e-12},
    ).x[:N]
    return value(graph, q, gamma, np.maximum(found, 0.0) / np.maximum(found, 0.0).sum())


def assert_optimal(graph, q, gamma, tolerance):
    p = solved(graph, q, gamma)
    ours = value(graph, q, gamma, p)
    theirs = min(solved_by_scipy(graph, q, gamma, start) for start in (np.full(len(p), 1.0 / len(p)), p))
    assert ours <= theirs + tolerance * max(1.0, theirs)


def estimates(rng, K):
    return rng.dirichlet(np.full(K, rng.choice([0.1, 1.0, 10.0])))


def test_kinds():
    kinds = {name: make_program(graph.visible, graph.costs).kind for name, graph in GRAPHS.items()}
    full = {"full", "bandit of two", "disease prevention"}
    assert kinds == {name: BANDIT if name == "bandit" else FULL if name in full else SOLE for name in GRAPHS}
    assert make_program(np.eye(3, dtype=bool), 2.0 - 2.0 * np.eye(3)).kind == BANDIT  # in units of the largest cost
    assert make_program(np.eye(3, dtype=bool), np.random.default_rng(0).random((3, 3))).kind == ANY
    assert make_program(np.ones((4, 3), dtype=bool), np.vstack([1 - np.eye(3), np.ones((1, 3))])).kind == ANY


@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_presets_are_solved(graph):
    rng = np.random.default_rng(GRAPHS[graph].n_edges)
    for gamma in (0.5, 10.0, 300.0):
        assert_optimal(GRAPHS[graph], estimates(rng, GRAPHS[graph].n_classes), gamma, 1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_random_graphs_and_costs_are_solved(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 9))
    graph = random_graph(rng, K, seed % 3, float(rng.choice([0.1, 0.3, 0.6])))
    if seed % 2:
        graph = graph.with_costs(rng.random((graph.n_actions, K)))
    assert_optimal(graph, estimates(rng, K), float(10.0 ** rng.uniform(-1, 4)), 1e-4)


@pytest.mark.parametrize("gamma", [0.3, 5.0, 100.0, 1e4])
def test_apple_tasting_on_a_grid(gamma):
    """Two classes: all p, one after the other."""
    graph = FeedbackGraph.apple_tasting()
    for q in ([0.5, 0.5], [0.1, 0.9], [0.45, 0.55], [0.7, 0.3]):
        grid = np.concatenate([np.geomspace(1e-6, 1.0, 300), np.linspace(1e-3, 1.0, 300)])
        least = min(value(graph, np.array(q), gamma, np.array([r, 1.0 - r])) for r in grid)
        ours = value(graph, np.array(q), gamma, solved(graph, np.array(q), gamma))
        assert ours <= least + 1e-9
        assert ours >= least - 0.03 * max(1.0, least)  # the grid is coarse


@given(st.integers(0, 2**32 - 1), st.integers(3, 9), st.floats(-2, 5))
@settings(max_examples=40)
def test_on_the_bandit_graph_it_is_inverse_gap_weighting(seed, K, size):
    """``1/p_a - gamma c_a`` is the same for all actions: the closed form of Foster and Rakhlin."""
    q, gamma = estimates(np.random.default_rng(seed), K), 10.0**size
    p = solved(FeedbackGraph.bandit(K), q, gamma)
    level = 1.0 / p - gamma * (q.max() - q)
    np.testing.assert_allclose(level, level[0], rtol=1e-6 * max(1.0, gamma))
    assert 1.0 - 1e-9 <= 1.0 / p[np.argmax(q)] <= K + 1e-9


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_the_program_is_the_largest_regret_less_the_price_of_being_found_out(seed):
    """Its closed form is the maximum over q', with gamma/4 of the squared errors that are seen (the derivation)."""
    rng = np.random.default_rng(seed)
    K, extra = int(rng.integers(2, 6)), int(rng.integers(0, 2))
    graph = random_graph(rng, K, extra).with_costs(rng.random((K + extra, K)))
    q, p, gamma = estimates(rng, K), rng.dirichlet(np.ones(K + extra)), float(rng.uniform(0.5, 20.0))
    seen = p @ graph.visible

    for a in range(graph.n_actions):

        def gain(other, a=a):
            c = costs_of(graph, other)
            return p @ c - c[a] - gamma / 4.0 * (seen * (other - q) ** 2).sum()

        best = optimize.minimize(lambda other: -gain(other), q, method="BFGS", options={"gtol": 1e-10})
        assert -best.fun == pytest.approx(regret_against(graph, q, gamma, p, a), rel=1e-6, abs=1e-8)


def test_a_known_cost_is_not_estimated():
    """A query costs 1 whatever the estimates add up to, and nobody's regret is measured against it."""
    graph = FeedbackGraph.label_efficient(3)
    np.testing.assert_allclose(costs_of(graph, np.array([0.9, 0.8, 0.1])), [0.1, 0.2, 0.9, 1.0])
    assert list(make_program(graph.visible, graph.costs).rivals) == [0, 1, 2]
    cheap = FeedbackGraph.label_efficient(3, costs=np.vstack([1 - np.eye(3), np.full((1, 3), 0.3)]))
    assert list(make_program(cheap.visible, cheap.costs).rivals) == [0, 1, 2, 3]


def test_what_reveals_is_played_alone_where_the_gap_is_clear():
    rule = SquareCB(10.0)
    for graph in (FeedbackGraph.full(3), FeedbackGraph.filtering(3), FeedbackGraph([[1, 1, 1], [0, 1, 0], [0, 0, 1]])):
        state, out = state_of(rule, 1, 3), np.zeros(3)
        plan = Plan(graph.arrays, rule.table(graph))
        rule.appraise(state.tuple, plan, Outlook(None, None, None, 0, 0.0, 0.0, 0.0), np.array([0.9, 0.1, 0.0]), 1.0)
        assert rule.explore(state.tuple, plan, 0, 0.0, out) == pytest.approx(0.0, abs=1e-9)
        assert out[0] == pytest.approx(1.0, abs=1e-9)


def test_it_explores_less_from_round_to_round():
    rule, graph, rates = SquareCB(2.0), FeedbackGraph.bandit(3), []
    state, out, plan = state_of(rule, 1, 3), np.zeros(3), Plan(graph.arrays, rule.table(graph))
    for _ in range(50):
        rule.appraise(state.tuple, plan, Outlook(None, None, None, 1, 0.0, 0.0, 0.0), np.array([0.2, 0.7, 0.1]), 1.0)
        rates.append(rule.explore(state.tuple, plan, 1, 0.0, out))
        rule.count_round(state.tuple, plan, 1)
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 2 * rates[-1]


def test_all_kinds_compiled_are_interpreted():
    """On graphs of four classes: one compilation, shared with the contract's bandit graph."""
    costs = np.random.default_rng(1).random((4, 4))
    for graph in (
        FeedbackGraph.full(4),
        FeedbackGraph.filtering(4),
        FeedbackGraph.label_efficient(4),
        FeedbackGraph.bandit(4, costs=costs),
        random_graph(np.random.default_rng(6), 4, 2),
    ):
        X, y = small_stream(np.random.default_rng(3), 60, 5, 4)
        compiled = Player("squarecb-g", graph, 5, seed=2)
        compiled.advance(chunk_of(X, y))
        with interpreted():
            plain = Player("squarecb-g", graph, 5, seed=2)
            plain.advance(chunk_of(X, y))
        assert compiled.engine.state == plain.engine.state


def test_with_other_estimators():
    with interpreted():
        for learner in (OneAgainstAll(exploration=SquareCB()), PartialLikelihood(exploration=SquareCB())):
            history = play(learner, "synthetic:K=3,d=40,noise=0,T=400", "bandit")[0]
            assert history.error_rate < 0.45
