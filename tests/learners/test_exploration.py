"""Both rules: distributions, Lemma 1, visibility, unbiasedness, and the counterexample to the paper's rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import reference
from gappletron import FeedbackGraph, FixedOGD, Gappletron, LogisticBaseK, Paper, Round, TopUp, UserError
from gappletron.graphs.graph import Plan
from gappletron.learners.exploration.rules import find_profiles
from problems import LOSSES, random_graph, sparse_row, state_of

RULES = [TopUp, Paper]


def plan_of(rule, graph):
    return Plan(graph.arrays, rule.table(graph))


def distribution(rule, graph, greedy, gap, rounds_before=0):
    state, out = state_of(rule, 1, graph.n_classes, graph.n_actions), np.full(graph.n_actions, np.nan)
    state.arrays["blind"][0] = rounds_before
    rate = rule.explore(state.tuple, plan_of(rule, graph), greedy, gap, out)
    assert state.arrays["blind"][0] == rounds_before
    return out, rate


def graphs():
    return st.builds(
        lambda seed, K, extra, density: random_graph(np.random.default_rng(seed), K, extra, density),
        st.integers(0, 2**32 - 1),
        st.integers(2, 9),
        st.integers(0, 2),
        st.sampled_from([0.05, 0.2, 0.5, 0.9]),
    )


gaps = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.3]))
gammas = st.one_of(st.floats(0, 3), st.sampled_from([0.0, 0.3, 100.0]))


@given(graphs(), st.sampled_from(RULES), gaps, gammas, st.integers(0, 1000), st.data())
def test_a_distribution_that_equals_the_reference(graph, rule, gap, gamma, before, data):
    greedy = data.draw(st.integers(0, graph.n_classes - 1))
    p, rate = distribution(rule(gamma), graph, greedy, gap, before)
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    expected_rate = 0.0 if graph.visible[greedy].all() else min(0.5, gamma / math.sqrt(before + 1))
    assert rate == pytest.approx(expected_rate, rel=1e-14)
    name = "top-up" if rule is TopUp else "paper"
    np.testing.assert_allclose(
        p, reference.DISTRIBUTIONS[name](graph.visible, graph.dominating_indices, greedy, gap, rate), rtol=0, atol=1e-12
    )


@given(graphs(), gaps, gammas, st.integers(0, 100), st.data())
def test_top_up_shows_every_label_often_enough(graph, gap, gamma, before, data):
    greedy = data.draw(st.integers(0, graph.n_classes - 1))
    p, rate = distribution(TopUp(gamma), graph, greedy, gap, before)
    assert (p @ graph.visible >= rate / graph.rho - 1e-12).all()


def test_the_papers_rule_does_not():
    """Erratum 2, the smallest case: apple tasting, y* blind, a = gamma_t = .3 gives P(observed) = .15 < .3."""
    graph = FeedbackGraph.filtering(2)
    p, rate = distribution(Paper(0.3), graph, greedy=1, gap=0.3)
    assert (rate, graph.rho) == (0.3, 1)
    assert p @ graph.visible == pytest.approx([0.15, 0.15])
    p, _ = distribution(TopUp(0.3), graph, greedy=1, gap=0.3)
    assert p @ graph.visible == pytest.approx([0.3, 0.3])


@given(graphs(), gaps, gammas, st.data())
def test_the_papers_rule_with_K_in_place_of_rho(graph, gap, gamma, data):
    """What remains true of Algorithm 1 with N = K: P(observed) >= gamma_t / K."""
    greedy = data.draw(st.integers(0, graph.n_classes - 1))
    p, rate = distribution(Paper(gamma), graph, greedy, gap)
    assert (p @ graph.visible >= rate / graph.n_actions - 1e-12).all()


@given(st.integers(2, 12), gaps, gammas, st.integers(0, 1000), st.data())
def test_on_the_bandit_graph_the_rules_agree(K, gap, gamma, before, data):
    graph = FeedbackGraph.bandit(K)
    greedy = data.draw(st.integers(0, K - 1))
    ours, paper = (distribution(rule(gamma), graph, greedy, gap, before)[0] for rule in RULES)
    np.testing.assert_allclose(ours, paper, rtol=0, atol=1e-12)


@given(
    graphs(),
    st.sampled_from(RULES),
    st.sampled_from([loss for loss in LOSSES.values() if loss != LogisticBaseK()]),
    gammas,
    st.integers(0, 50),
    st.data(),
)
def test_lemma_1(graph, rule, loss, gamma, before, data):
    """P(mistake) <= (K'-1)/K' l(y) + gamma_t for every label, at any scores; with N for K in the paper's rule (erratum
    7).
    """
    K = graph.n_classes
    s = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=K, max_size=K)))
    greedy = int(np.argmax(s))
    p, rate = distribution(rule(gamma), graph, greedy, loss.gap(s, greedy), before)
    drawn_from = K if rule is TopUp else graph.n_actions
    effective = max(loss.effective_classes(K), drawn_from)
    for y in range(K):
        assert 1.0 - p[y] <= (effective - 1) / effective * loss.value(s, greedy, y) + rate + 1e-12


def test_lemma_1_fails_for_the_base_K_logistic_loss():
    """Erratum 1: scores (0, 0, -inf, ...), gamma = 0: half of the mistakes are not paid for."""
    K, loss, graph = 9, LogisticBaseK(), FeedbackGraph.full(9)
    s = np.full(K, -1e3)
    s[:2] = 0.0
    p, _ = distribution(TopUp(), graph, 0, loss.gap(s, 0))
    assert 1.0 - p[1] > (K - 1) / K * loss.value(s, 0, 1) + 0.3


@given(graphs(), st.sampled_from(RULES), st.sampled_from(list(LOSSES.values())), st.floats(0.05, 3), st.data())
def test_the_weighted_loss_is_unbiased(graph, rule, loss, gamma, data):
    """E[v_t grad l_t] = grad l_t: over all actions, the updates of a descent with rate 1 add up to minus the
    gradient.
    """
    K = graph.n_classes
    x = sparse_row([0, 2], [0.5, -1.5], K)
    learner = Gappletron(loss, FixedOGD(1.0), rule(gamma))
    W = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=3 * K, max_size=3 * K))).reshape(3, K)
    y, plan = data.draw(st.integers(0, K - 1)), learner.plan(graph)

    def state():
        fresh = state_of(learner, 3, K, graph.n_actions)
        fresh.arrays["optimizer.weights"][...] = W
        return fresh.tuple

    scores, p, gradient = np.zeros(K), np.zeros(graph.n_actions), np.zeros(K)
    learner.scores(state(), x, scores)
    greedy, _ = learner.distribution(state(), plan, None, scores, p)
    if p @ graph.visible[:, y] == 0.0:  # Algorithm 1's rule may never show a label; then there is nothing to weight
        assert rule is Paper
        return
    expected = np.zeros((3, K))
    for action in range(graph.n_actions):
        after = state()
        played = Round(scores, p, greedy, action, y if graph.visible[action, y] else -1)
        learner.recall(after, x, played)
        learner.update(after, plan, x, played)
        expected += p[action] * (learner.weights(after)[:, :K] - W)
    loss.gradient(scores, greedy, y, gradient)
    np.testing.assert_allclose(expected, -np.outer([0.5, 0.0, -1.5], gradient), rtol=1e-9, atol=1e-9)


@given(graphs(), gaps, gammas, st.integers(0, 100), st.data())
def test_top_up_explores_at_most_gamma(graph, gap, gamma, before, data):
    """0 <= c <= gamma_t, seen from outside: what the play loses against b is at most gamma_t."""
    greedy = data.draw(st.integers(0, graph.n_classes - 1))
    p, rate = distribution(TopUp(gamma), graph, greedy, gap, before)
    b = np.zeros(graph.n_actions)
    b[greedy] += 1 - gap
    b[: graph.n_classes] += gap / graph.n_classes
    assert np.maximum(b - p, 0).sum() <= rate + 1e-12


def test_the_rate_counts_only_blind_rounds():
    graph, rule = FeedbackGraph.filtering(3), TopUp(1.2)
    state, plan, out, rates = state_of(rule, 1, 3), plan_of(rule, graph), np.zeros(3), []
    for greedy in (1, 0, 2, 0, 0, 1, *[1] * 20):
        rates.append(rule.explore(state.tuple, plan, greedy, 0.0, out))
        rule.count_round(state.tuple, plan, greedy)
    blind = iter(range(1, 100))
    assert rates == [0.0 if i in (1, 3, 4) else min(0.5, 1.2 / math.sqrt(next(blind))) for i in range(26)]
    assert state.arrays["blind"][0] == 23


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [-0.1, math.inf, math.nan, "1", True])
def test_gamma_is_checked(rule, gamma):
    with pytest.raises(UserError, match="gamma"):
        rule(gamma)
    with pytest.raises(UserError, match="gamma"):
        rule(1.0).replace(gamma=gamma)


@given(graphs())
def test_the_profiles_are_the_minimal_triples(graph):
    """Against the definition: of the triples (shown by y*, n_y, k_y), those that no other is below in every entry."""
    first, *columns = find_profiles(graph)
    K = graph.n_classes
    n, k = graph.visible[:K].sum(axis=0), graph.visible[list(graph.dominating_indices)].sum(axis=0)
    for star in range(K):
        triples = {(int(graph.visible[star, y]), int(n[y]), int(k[y])) for y in range(K)}
        minimal = {
            t for t in triples if not any(o != t and all(a <= b for a, b in zip(o, t, strict=True)) for o in triples)
        }
        found = list(
            zip(*(column[first[star] : first[star + 1]].astype(int).tolist() for column in columns), strict=True)
        )
        assert set(found) == minimal
        assert len(found) == len(minimal)


def test_large_graphs_start_quickly():
    """Not a timing: K = 1,500 would need 3e9 comparisons by the definition."""
    graph = random_graph(np.random.default_rng(0), 1500, density=0.01)
    assert TopUp().table(graph).first[-1] >= 1500
