"""OneAgainstAll, PartialLikelihood and SquareCBG, their optimizer, and the rules InverseGap, Greedy, EpsilonGreedy and
BurnIn.

Each against a naive transcription, and against what is known of it: finite differences, invariance, examples by hand.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import reference
from gappletron import (
    UNSEEN,
    AdaptiveOGD,
    ArrayStream,
    BurnIn,
    ConfidenceWeighted,
    EpsilonGreedy,
    FeedbackGraph,
    Gappletron,
    Greedy,
    Hinge,
    InverseGap,
    OneAgainstAll,
    Online,
    Optimised,
    PartialLikelihood,
    Player,
    Round,
    SmoothHinge,
    SquareCB,
    SquareCBG,
    UserError,
    interpreted,
    named,
    play,
)
from gappletron.graphs.graph import Plan
from gappletron.learners.exploration.rules import Outlook
from problems import GRAPHS, play_one_at_a_time, random_graph, row_of, small_stream, state_of
from storms import extreme_numbers

RANDOM = {
    "random": random_graph(np.random.default_rng(1), 5),
    "random with extras": random_graph(np.random.default_rng(2), 4, 2),
    "no self-loops": FeedbackGraph(np.roll(np.eye(5), 1, axis=1)),
    "one shows nothing": FeedbackGraph([[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
}
ALL = {**GRAPHS, **RANDOM}
COSTS = {
    name: graph.with_costs(np.random.default_rng(7).random((graph.n_actions, graph.n_classes)))
    for name, graph in ALL.items()
}

RULES = {
    "greedy": (Greedy(), reference.never),
    "epsilon": (EpsilonGreedy(0.2), reference.in_a_share(0.2)),
    "burn-in": (BurnIn(25), reference.at_first(25)),
}


def draws_of(seed, rounds):
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0,)))).random(rounds)


def assert_plays(learner, graph, X, y, expected):
    """One at a time and in bulk, against the reference's actions and W (K x d)."""
    actions, W = play_one_at_a_time(learner, graph, X, y, seed=3)
    assert actions == expected[0]
    np.testing.assert_allclose(W.T, expected[1], rtol=1e-9, atol=1e-9)
    bulk = Player(learner, graph, X.shape[1], seed=3, normalize=None, bias=False)
    stream = ArrayStream(X, [graph.classes[label] for label in y], classes=graph.classes)
    for chunk in stream.chunks():
        bulk.advance(chunk)
    assert bulk.weights.tobytes() == W.tobytes()


def naive(graph, X, y, loss, rule, optimizer=None):
    optimizer = optimizer or reference.ConfidenceWeighted(graph.n_classes, X.shape[1])
    known = (graph.visible, graph.dominating_indices, graph.costs)
    return reference.estimator(X, y, known, loss, rule, draws_of(3, len(y)), optimizer)


# ------------------------------------------------------------------------------------------------ against the reference


@pytest.mark.parametrize(
    "graph", [*ALL.values(), *COSTS.values()], ids=[*ALL, *(f"{name} with costs" for name in COSTS)]
)
def test_one_against_all_is_its_transcription(graph):
    X, y = small_stream(np.random.default_rng(graph.n_edges), 120, 6, graph.n_classes)
    with interpreted():
        assert_plays(named("one-against-all"), graph, X, y, naive(graph, X, y, "squared hinge", ("inverse gap", 2.4)))


@pytest.mark.parametrize("graph", [*ALL.values(), COSTS["random"]], ids=[*ALL, "random with costs"])
def test_partial_likelihood_is_its_transcription(graph):
    X, y = small_stream(np.random.default_rng(graph.n_edges), 100, 6, graph.n_classes)
    optimizer = reference.ConfidenceWeighted(graph.n_classes, 6, noise=0.01, shrink=0.01)
    with interpreted():
        expected = naive(graph, X, y, "partial likelihood", ("inverse gap", 2.4), optimizer)
        assert_plays(named("partial-likelihood"), graph, X, y, expected)


@pytest.mark.parametrize("K", [3, 4, 7])
def test_squarecb_on_the_bandit_graph_is_inverse_gap_weighting(K):
    graph = FeedbackGraph.bandit(K)
    X, y = small_stream(np.random.default_rng(K), 150, 6, K)
    with interpreted():
        assert_plays(named("squarecb-g"), graph, X, y, naive(graph, X, y, "square", ("squarecb", 10.0)))


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("graph", ALL, ids=str)
def test_the_simple_rules_are_their_transcriptions(graph, rule):
    """With both kinds of learners."""
    graph, (ours, theirs) = ALL[graph], RULES[rule]
    X, y = small_stream(np.random.default_rng(5), 60, 5, graph.n_classes)
    with interpreted():
        learner = OneAgainstAll(exploration=ours)
        assert_plays(learner, graph, X, y, naive(graph, X, y, "squared hinge", (theirs,)))
        optimizer = reference.Optimizer("adaptive ogd", graph.n_classes, 5)
        expected = reference.gappletron_with_rule(
            X, y, (graph.visible, graph.dominating_indices), "smooth hinge", theirs, optimizer, draws_of(3, len(y))
        )
        assert_plays(Gappletron(SmoothHinge(), AdaptiveOGD(), ours), graph, X, y, expected)


# -------------------------------------------------------------------------------------------------- confidence weighted


def stepped(optimizer, rows, K):
    state = state_of(optimizer, len(rows[0][0]), K)
    for x, direction, weight in rows:
        optimizer.step(state.tuple, row_of(x, K), np.asarray(direction, float), weight)
    return state


@pytest.mark.parametrize(("noise", "shrink"), [(0.03, 0.3), (1.0, 1.0), (0.001, 0.0)])
def test_confidence_weighted_is_its_transcription(noise, shrink):
    rng = np.random.default_rng(3)
    K, d = 4, 5
    rows = [
        (rng.normal(size=d) * (rng.random(d) < 0.5), rng.normal(size=K) * (rng.random(K) < 0.6), float(weight))
        for weight in np.exp(2.0 * rng.normal(size=1000))
    ]
    expected = reference.ConfidenceWeighted(K, d, noise, shrink)
    for x, direction, weight in rows:
        expected.step(x, direction, weight)
    state = stepped(ConfidenceWeighted(noise, shrink), rows, K)
    np.testing.assert_allclose(state.arrays["weights"].T, expected.W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.arrays["variances"].T, expected.S, rtol=1e-9)
    for x in (rows[0][0], rows[1][0], np.zeros(d)):
        found = ConfidenceWeighted(noise, shrink).uncertainty(state.tuple, row_of(x, K), 1, 3)
        assert found == pytest.approx(expected.uncertainty(x, 1, 3), rel=1e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.001, 0.03, 1.0]), st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=30)
def test_a_step_moves_the_score_by_less_than_the_derivative_and_more_with_more_weight(seed, noise, shrink):
    rng = np.random.default_rng(seed)
    K, d = 3, 4
    before = [(rng.normal(size=d), rng.normal(size=K), 1.0) for _ in range(5)]
    x, direction, optimizer = rng.normal(size=d), rng.normal(size=K), ConfidenceWeighted(noise, shrink)
    at_first = stepped(optimizer, before, K).arrays["weights"].T @ x
    last = np.zeros(K)
    for weight in (1e-9, 0.01, 0.5, 1.0, 3.0, 100.0, 2.0**53):
        after = stepped(optimizer, [*before, (x, direction, weight)], K).arrays["weights"].T @ x
        moved = (at_first - after) / direction
        assert (moved > 0.0).all()
        assert (moved >= last * (1 - 1e-9)).all()
        assert (moved <= 1.0 + 1e-9).all()
        last = moved


def test_for_squares_the_step_is_the_implicit_one():
    """The minimum of ``(s - z)^2 / 2 * v + r/2 sum (w - w_before)^2 / S``, by solving for it."""
    rng = np.random.default_rng(2)
    before = [(rng.normal(size=3), rng.normal(size=2), 1.0) for _ in range(4)]
    state = stepped(ConfidenceWeighted(0.2, 0.5), before, 2)
    W, S = state.arrays["weights"].T.copy(), state.arrays["variances"].T.copy()
    x, z, v = rng.normal(size=3), np.array([1.0, -1.0]), 2.5
    r = 0.2 * np.mean([row @ row for row, _, _ in before] + [x @ x])
    ConfidenceWeighted(0.2, 0.5).step(state.tuple, row_of(x, 2), W @ x - z, v)
    for k in range(2):
        solved = np.linalg.solve(v * np.outer(x, x) + np.diag(r / S[k]), v * z[k] * x + r / S[k] * W[k])
        np.testing.assert_allclose(state.arrays["weights"][:, k], solved, rtol=1e-9)


LEARNERS = [
    OneAgainstAll(),
    PartialLikelihood(),
    SquareCBG(),
    *(OneAgainstAll(exploration=rule) for rule, _ in RULES.values()),
    Gappletron(Hinge(), ConfidenceWeighted(), EpsilonGreedy()),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_the_scale_of_the_features_does_not_matter(learner):
    """A power of two: the same bits. Another factor: the same actions."""
    graph = FeedbackGraph.filtering(4)
    X, y = small_stream(np.random.default_rng(9), 150, 6, 4)
    with interpreted():
        actions, W = play_one_at_a_time(learner, graph, X, y, seed=1)
        scaled, V = play_one_at_a_time(learner, graph, 1024.0 * X, y, seed=1)
        assert scaled == actions
        assert (1024.0 * V).tobytes() == W.tobytes()
        assert play_one_at_a_time(learner, graph, 1000.0 * X, y, seed=1)[0] == actions


@pytest.mark.parametrize("rule", [InverseGap(), SquareCB(), SquareCB(0), Greedy(), EpsilonGreedy(), BurnIn()], ids=str)
def test_extreme_rows_break_no_rule(rule):
    with interpreted():
        for number, graph in enumerate([FeedbackGraph.bandit(3), FeedbackGraph.label_efficient(3), RANDOM["random"]]):
            for learner in (OneAgainstAll(exploration=rule), PartialLikelihood(exploration=rule)):
                extreme_numbers(25, number, learner, graph)
            if not rule.needs_estimates:
                extreme_numbers(25, number, Gappletron(Hinge(), ConfidenceWeighted(), rule), graph)


# --------------------------------------------------------------------------------------------------- partial likelihood


def negative_log_likelihood(s, shown, label):
    q = np.exp(s) / np.exp(s).sum()
    return -math.log(q[label] if label >= 0 else 1.0 - q[shown].sum())


@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(0, 2))
def test_the_derivatives_of_the_partial_likelihood(seed, K, extra):
    """Against finite differences of the likelihood, for every action of a random graph and every label."""
    rng = np.random.default_rng(seed)
    graph, learner = random_graph(rng, K, extra), PartialLikelihood()
    s, out = 2.0 * rng.normal(size=K), np.full(K, np.nan)
    for action in range(graph.n_actions):
        shown = graph.visible[action]
        for label in {int(y) if shown[y] else -1 for y in range(K)}:
            played = Round(s, np.full(graph.n_actions, 1.0 / graph.n_actions), 0, action, label)
            if not shown.any():
                assert not learner.differentiate(learner.plan(graph), played, out)
                continue
            assert learner.differentiate(learner.plan(graph), played, out)
            for k in range(K):
                step = 1e-6 * np.eye(K)[k]
                slope = (
                    negative_log_likelihood(s + step, shown, label) - negative_log_likelihood(s - step, shown, label)
                ) / 2e-6
                assert out[k] == pytest.approx(slope, abs=1e-6)


def test_the_likelihood_of_almost_nothing_is_cut():
    learner, out = PartialLikelihood(), np.zeros(3)
    played = Round(np.array([100.0, 0.0, 0.0]), np.full(3, 1 / 3), 0, 0, -1)
    assert learner.differentiate(learner.plan(FeedbackGraph.bandit(3)), played, out)
    q = math.exp(-100.0)
    np.testing.assert_allclose(out, [1.0, -q * 1e6, -q * 1e6], rtol=1e-9)


def test_of_two_classes_wrong_says_as_much_as_the_label():
    """With bandit feedback proper, without the edge that follows from the others."""
    graph, X_y = FeedbackGraph.full(2), small_stream(np.random.default_rng(4), 200, 5, 2)
    learner, X, y = PartialLikelihood(), *X_y
    plans = [learner.plan(graph), Plan(graph.arrays._replace(visible=np.eye(2, dtype=bool)), learner.table(graph))]
    states = [state_of(learner, 5, 2) for _ in plans]
    rng = np.random.default_rng(6)
    for row, label in zip(X, y, strict=True):
        action = int(rng.integers(2))
        for state, plan in zip(states, plans, strict=True):
            x, scores = row_of(row, 2), np.zeros(2)
            learner.scores(state.tuple, x, scores)
            seen = int(label) if plan.graph.visible[action, label] else -1
            learner.update(state.tuple, plan, x, Round(scores, np.full(2, 0.5), 0, action, seen))
    np.testing.assert_allclose(
        states[0].arrays["optimizer.weights"], states[1].arrays["optimizer.weights"], rtol=1e-9, atol=1e-9
    )
    assert np.abs(states[0].arrays["optimizer.weights"]).max() > 0.1


@pytest.mark.parametrize("name", ["one-against-all", "partial-likelihood", "squarecb-g"])
def test_they_learn_what_a_blind_learner_cannot(name):
    """K = 3: the best fixed class is wrong two times of three."""
    with interpreted():
        for graph in ("bandit", "filtering", "label-efficient"):
            options = {"revealing": "1"} if graph == "filtering" else {}
            history = play(name, "synthetic:K=3,d=40,noise=0,T=600", graph, **options)[0]
            assert history.error_rate < 0.35


# ---------------------------------------------------------------------------------------------------------- inverse gap


def explored(graph, q, doubt=1.0, informed=0, scale=2.4, greedy=None, sharpness=1.0, suspicion=0.0):
    """The play of InverseGap for estimates q."""
    rule = InverseGap(scale)
    state, out = state_of(rule, 1, graph.n_classes, graph.n_actions), np.full(graph.n_actions, np.nan)
    state.arrays["informed"][0] = informed
    greedy = int(np.argmax(q)) if greedy is None else greedy

    class Known:
        def uncertainty(self, memory, x, a, b):
            assert a == greedy != b
            return doubt

    plan = Plan(graph.arrays, rule.table(graph))
    rule.appraise(
        state.tuple, plan, Outlook(Known(), None, None, greedy, 0.0, suspicion, 0.0), np.asarray(q, float), sharpness
    )
    rate = rule.explore(state.tuple, plan, greedy, 0.0, out)
    assert rate == pytest.approx(1.0 - out[greedy])
    return out


def test_inverse_gap_by_hand():
    # K = 3, n = 30, scale 2: the factor is 20. q = (.8, .3, .1): gaps of .5 and .7.
    q, rest = [0.8, 0.3, 0.1], {"informed": 30, "scale": 2.0}
    bandit = explored(FeedbackGraph.bandit(3), q, **rest)
    p1, p2 = 1 / (1 + 20 * 0.5**2 * 0.5) / 3, 1 / (1 + 20 * 0.7**2 * 0.7) / 3
    np.testing.assert_allclose(bandit, [1 - p1 - p2, p1, p2])
    # Filtering by the class 2: it costs .7 to reveal, and the closest class has a gap of .5.
    p2 = 1 / (1 + 20 * 0.5**2 * 0.7)
    np.testing.assert_allclose(explored(FeedbackGraph.filtering(3, revealing=2), q, **rest), [1 - p2, 0, p2])
    # A query costs the .8 that the greedy class would be right.
    p3 = 1 / (1 + 20 * 0.5**2 * 0.8)
    np.testing.assert_allclose(explored(FeedbackGraph.label_efficient(3), q, **rest), [1 - p3, 0, 0, p3])
    # Half the doubt.
    p3 = 0.5 / (0.5 + 20 * 0.5**2 * 0.8)
    np.testing.assert_allclose(explored(FeedbackGraph.label_efficient(3), q, 0.5, **rest), [1 - p3, 0, 0, p3])
    # With costs. The classes cost .4, .9 and 1.1. A query at .3 costs .36, less than the greedy class: it is played.
    cheap = FeedbackGraph.label_efficient(3, costs=np.vstack([1 - np.eye(3), np.full((1, 3), 0.3)]))
    np.testing.assert_allclose(explored(cheap, q, sharpness=2.0, **rest), [0, 0, 0, 1])
    # The gap is ln(.9 / .4) / (2 b). At .34 a query costs .008 more, and counts with a price of .05.
    fair = FeedbackGraph.label_efficient(3, costs=np.vstack([1 - np.eye(3), np.full((1, 3), 0.34)]))
    p3 = 1 / (1 + 20 * (math.log(0.9 / 0.4) / 4) ** 2 * 0.05)
    np.testing.assert_allclose(explored(fair, q, sharpness=2.0, **rest), [1 - p3, 0, 0, p3])
    # At .5 it costs .2 more than the greedy class, in units of what that costs, .4.
    dear = FeedbackGraph.label_efficient(3, costs=np.vstack([1 - np.eye(3), np.full((1, 3), 0.5)]))
    p3 = 1 / (1 + 20 * (math.log(0.9 / 0.4) / 4) ** 2 * (0.6 - 0.4) / 0.4)
    np.testing.assert_allclose(explored(dear, q, sharpness=2.0, **rest), [1 - p3, 0, 0, p3])
    for graph in (FeedbackGraph.full(3), FeedbackGraph.filtering(3), FeedbackGraph.disease_prevention(3)):
        np.testing.assert_array_equal(explored(graph, q, **rest), [1, 0, 0])
    # Apple tasting by the class 1.
    p1 = 1 / (1 + 2 * 30 / 2 * 0.5**2 * 0.5)
    np.testing.assert_allclose(explored(FeedbackGraph.apple_tasting(revealing="spam"), q[:2], **rest), [1 - p1, p1])


@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(0, 2), st.floats(1e-9, 1), st.integers(0, 10**6))
def test_inverse_gap_is_a_distribution_that_looks_only_where_y_star_does_not_reveal(seed, K, extra, doubt, informed):
    rng = np.random.default_rng(seed)
    graph, q = random_graph(rng, K, extra), rng.normal(size=K)
    for greedy in range(K):
        p = explored(graph, q, doubt, informed, greedy=greedy)
        assert (p >= 0.0).all()
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        if graph.visible[greedy].all():
            assert p[greedy] == 1.0
        elif informed == 0:  # nothing is known: the dominating set shows all that y* does not
            assert (p @ graph.visible >= 1.0 / graph.rho - 1e-12).all()


@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(0, 2), st.floats(0.01, 1), st.floats(1e-4, 0.5))
def test_inverse_gap_is_its_formula_also_where_the_floor_counts_and_v_is_not_computed(seed, K, extra, doubt, least):
    rng = np.random.default_rng(seed)
    graph, q, informed = random_graph(rng, K, extra), rng.normal(size=K), int(rng.integers(0, 10**4))
    q -= min(0.0, q.max())
    star = int(np.argmax(q))
    d, e = reference.gaps_and_prices(graph.costs, q, star, 1.0)
    expected = reference.inverse_gap(
        graph.visible, graph.dominating_indices, d, e, star, doubt, informed, 2.4, least=least
    )
    p = explored(graph, q, doubt, informed, suspicion=least)
    np.testing.assert_allclose(p, expected, atol=1e-12)


def test_inverse_gap_looks_at_y_star_itself_where_y_star_does_not_show_it():
    """Without self-loops only the action before y* shows y*; else nothing could prove it wrong."""
    p = explored(RANDOM["no self-loops"], [0.9, 0.1, 0.1, 0.1, 0.2], informed=50, scale=2.0)
    assert p[4] == pytest.approx(1 / (1 + 20 * 0.7**2 * 0.7) / 5)


def test_feedback_that_shows_nothing_is_not_counted():
    graph = FeedbackGraph.label_efficient(3)
    with interpreted():
        model = Online(OneAgainstAll(exploration=InverseGap()), graph, features=2, seed=0)
        X, y = small_stream(np.random.default_rng(0), 60, 2, 3)
        queries = 0
        for row, label in zip(X, y, strict=True):
            receipt = model.act(row)
            queries += receipt.action == graph.actions[3]
            model.learn(receipt, graph.classes[label] if receipt.reveals else UNSEEN)
        assert model._player.engine.state.arrays["exploration.informed"][0] == queries
        assert 0 < queries < 60


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Gappletron(exploration=InverseGap()),
            r"^InverseGap\(.*\) needs a learner that estimates .*: use it with",
        ),
        (lambda: Gappletron(exploration=SquareCB()), r"^SquareCB\(.*\) needs a learner that estimates .*: use it with"),
        (lambda: OneAgainstAll(exploration=Optimised()), r"^Optimised\(.*\) needs a learner with a loss: use it"),
        (lambda: PartialLikelihood(exploration=Optimised()), r"^Optimised\(.*\) needs a learner with a loss"),
        (lambda: SquareCBG(exploration=Optimised()), r"^Optimised\(.*\) needs a learner with a loss"),
        (lambda: Gappletron(Hinge(), ConfidenceWeighted(), Optimised()), "does not: choose another"),
        (lambda: ConfidenceWeighted(0), "noise"),
        (lambda: ConfidenceWeighted(0.1, -1), "shrink"),
        (lambda: ConfidenceWeighted(math.inf), "noise"),
        (lambda: InverseGap(-1), "scale"),
        (lambda: SquareCB(math.nan), "scale"),
        (lambda: EpsilonGreedy(1.5), "epsilon"),
        (lambda: EpsilonGreedy(-0.1), "epsilon"),
        (lambda: BurnIn(-1), "rounds"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(make, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["one-against-all", "partial-likelihood", "squarecb-g"])
def test_late_feedback_is_learned_as_if_the_row_came_today(name):
    """All feedback after the last action leaves the weights that feedback in time leaves: nothing is stale."""
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 3, 60)
    graph = FeedbackGraph.full(3)
    in_time, late = (Player(name, graph, 5, normalize=None, bias=False) for _ in range(2))
    for x, label in zip(X, y.tolist(), strict=True):
        in_time.learn(in_time.act(x), label)
    turns = [late.act(x) for x in X]
    for turn, label in zip(turns, y.tolist(), strict=True):
        late.learn(turn, label)
    np.testing.assert_array_equal(late.weights, in_time.weights)
    assert in_time.weights.any()
