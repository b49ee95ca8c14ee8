"""Perceptron, passive-aggressive, label-efficient and second-order Perceptrons, AROW and Exp3.G.

Each against its naive transcription, interpreted and compiled, and against what is known of it: the optimisation
problem that an update solves, a direct solution of a linear system, a mistake bound, unbiasedness, a regret bound.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import optimize, sparse

import reference
from gappletron import UNSEEN, ArrayStream, FeedbackGraph, Online, Player, Runs, UserError, interpreted, play, tuned
from gappletron.kernel.compiling import is_interpreted
from gappletron.learners import exp3, perceptron
from gappletron.learners.exp3 import Exp3G
from gappletron.learners.learner import Round
from gappletron.learners.perceptron import (
    Arow,
    LabelEfficientPerceptron,
    PassiveAggressive,
    Perceptron,
    SecondOrderPerceptron,
    SecondOrderPerceptronDiag,
)
from problems import GRAPHS, play_one_at_a_time, random_graph, row_of, small_stream, sparse_row, state_of

FULL_INFORMATION = {
    "perceptron": (Perceptron(), reference.perceptron),
    "PA": (PassiveAggressive(), lambda X, y, K: reference.passive_aggressive(X, y, K, math.inf)),
    "PA-I": (PassiveAggressive(0.03), lambda X, y, K: reference.passive_aggressive(X, y, K, 0.03)),
    "diagonal": (SecondOrderPerceptronDiag(), lambda X, y, K: reference.second_order_perceptron(X, y, K, 1.0, True)),
    "diagonal, a = 0.2": (
        SecondOrderPerceptronDiag(0.2),
        lambda X, y, K: reference.second_order_perceptron(X, y, K, 0.2, True),
    ),
    "full": (SecondOrderPerceptron(), lambda X, y, K: reference.second_order_perceptron(X, y, K, 1.0, False)),
    "full, a = 0.2": (
        SecondOrderPerceptron(0.2),
        lambda X, y, K: reference.second_order_perceptron(X, y, K, 0.2, False),
    ),
    "AROW": (Arow(), lambda X, y, K: reference.arow(X, y, K, 1.0)[:2]),
    "AROW, r = 0.1": (Arow(0.1), lambda X, y, K: reference.arow(X, y, K, 0.1)[:2]),
}

SHOWING = {
    "full of two": FeedbackGraph.full(2),
    "full": FeedbackGraph.full(5),
    "bandit of two": FeedbackGraph.bandit(2),
    "with an extra action": FeedbackGraph(np.vstack([np.ones((3, 3)), np.zeros((1, 3))])),
}

QUERYING = {
    "two classes": FeedbackGraph.label_efficient(2),
    "label efficient": FeedbackGraph.label_efficient(5),
    # Predictions show labels, too, and the first extra action shows too little to be a query.
    "two of three extras": FeedbackGraph(np.vstack([np.eye(4), [[1, 1, 0, 0]], np.ones((2, 4))])),
    "full and a query": FeedbackGraph(np.ones((4, 3))),
}

EXP3_GRAPHS = {
    **GRAPHS,
    "no self-loops": FeedbackGraph([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]),
    "querying": QUERYING["two of three extras"],
}


# ------------------------------------------------------------------------------------------------ against the reference


def draws_of(seed, rounds):
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0,)))).random(rounds)


def run_bulk(learner, graph, X, y, seed=3):
    stream = ArrayStream(X, [graph.classes[label] for label in y], classes=graph.classes)
    # Losses only interpreted: without them the compiled code is that of other tests.
    runs = Runs(learner, stream, graph, seed=seed, losses=is_interpreted(), curve="every", jobs=1)
    for _ in runs:
        pass
    return runs.histories()[0], runs.weights()


def assert_agrees(learner, graph, X, y, expected):
    """In bulk and one at a time, with arrays and with a sparse matrix, against the reference's actions and W
    (K x d).
    """
    expected_actions, expected_W = expected
    history, W = run_bulk(learner, graph, X, y)
    actions, W_online = play_one_at_a_time(learner, graph, X, y, seed=3)
    assert actions == expected_actions
    np.testing.assert_allclose(W.T, expected_W, rtol=1e-9, atol=1e-9)
    assert W.tobytes() == W_online.tobytes()
    assert W.tobytes() == run_bulk(learner, graph, sparse.csr_array(X), y)[1].tobytes()
    assert (history.curve.mistakes == np.cumsum(np.array(actions) != y)).all()
    assert history.labels_seen == sum(graph.visible[action, label] for action, label in zip(actions, y, strict=True))


def assert_compiled_is_interpreted(learner, graph, X, y):
    compiled, W = run_bulk(learner, graph, X, y)
    with interpreted():
        plain, W_plain = run_bulk(learner, graph, X, y)
    assert W.tobytes() == W_plain.tobytes()
    for name in ("mistakes", "labels_seen", "explored", "blind_rounds", "rate_sum"):
        assert getattr(compiled, name) == getattr(plain, name)


def streams_for(name, classes, rounds=70):
    """A dense, a sparse and a one-feature stream."""
    rng = np.random.default_rng([*name.encode(), classes])
    yield small_stream(rng, rounds, 6, classes)
    X, y = small_stream(rng, rounds, 11, classes)
    yield X * (rng.random(X.shape) < 0.25), y
    yield small_stream(rng, rounds, 1, classes)


@pytest.mark.parametrize("graph", SHOWING, ids=str)
@pytest.mark.parametrize("case", FULL_INFORMATION, ids=str)
def test_full_information_learners_are_their_transcriptions(case, graph):
    learner, naive = FULL_INFORMATION[case]
    K = SHOWING[graph].n_classes
    with interpreted():
        for X, y in streams_for(case + graph, K):
            assert_agrees(learner, SHOWING[graph], X, y, naive(X, y, K))


@pytest.mark.parametrize("b", [0.2, 1.0, 7.0])
@pytest.mark.parametrize("name", QUERYING, ids=str)
def test_label_efficient_perceptron_is_its_transcription(name, b):
    graph = QUERYING[name]
    with interpreted():
        for X, y in streams_for(name, graph.n_classes, rounds=150):
            expected = reference.label_efficient_perceptron(X, y, (graph.visible, None), b, draws_of(3, len(y)))
            assert_agrees(LabelEfficientPerceptron(b), graph, X, y, expected)


def exp3_reference(graph, y, gamma, eta):
    actions, losses = reference.exp3_g(y, (graph.visible, graph.dominating_indices), gamma, eta, draws_of(3, len(y)))
    return actions, -losses[: graph.n_classes, np.newaxis]


# A rounding error in the losses is multiplied by up to eta / P(seen) in every round, so a large eta allows few rounds:
# with eta = 3 on the bandit graph a change of 1e-15 in the transcription changes its own actions after 130.
@pytest.mark.parametrize(
    ("gamma", "eta", "rounds"), [(0.1, 0.05, 150), (0.5, 0.01, 150), (0.02, 3.0, 20), (1.0, 0.1, 150), (0.0, 0.05, 80)]
)
@pytest.mark.parametrize("graph", EXP3_GRAPHS, ids=str)
def test_exp3_is_its_transcription(graph, gamma, eta, rounds):
    graph = EXP3_GRAPHS[graph]
    X, y = small_stream(np.random.default_rng(4), rounds, 3, graph.n_classes)
    with interpreted():
        assert_agrees(Exp3G(gamma, eta), graph, X, y, exp3_reference(graph, y, gamma, eta))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 6),
    st.integers(0, 2),
    st.sampled_from([0.05, 0.5]),
    st.sampled_from([0.01, 0.1]),
)
def test_exp3_on_random_graphs(seed, classes, extra, gamma, eta):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, classes, extra)
    X, y = small_stream(rng, 40, 2, classes)
    with interpreted():
        assert_agrees(Exp3G(gamma, eta), graph, X, y, exp3_reference(graph, y, gamma, eta))


def test_ties_go_to_the_lowest_class():
    """Features of 0 and 1 keep a Perceptron's scores whole numbers, so the ties of the reference are ties of the
    learner.
    """
    rng = np.random.default_rng(0)
    X = (rng.random((300, 5)) < 0.5).astype(float)
    y = rng.integers(0, 4, 300)
    with interpreted():
        assert_agrees(Perceptron(), FeedbackGraph.full(4), X, y, reference.perceptron(X, y, 4))
        graph = FeedbackGraph.label_efficient(4)
        expected = reference.label_efficient_perceptron(X, y, (graph.visible, None), 2.0, draws_of(3, 300))
        assert_agrees(LabelEfficientPerceptron(2.0), graph, X, y, expected)
    W, ties = np.zeros((4, 5)), 0
    for t in range(300):
        s = W @ X[t]
        ties += (s == s.max()).sum() > 1
        W = reference.perceptron(X[: t + 1], y[: t + 1], 4)[1]
    assert ties > 30


@pytest.mark.parametrize("case", ["perceptron", "PA-I", "diagonal", "full", "AROW"])
def test_full_information_learners_compiled(case):
    learner, naive = FULL_INFORMATION[case]
    X, y = small_stream(np.random.default_rng(5), 300, 8, 4)
    graph = FeedbackGraph.full(4)
    assert_agrees(learner, graph, X, y, naive(X, y, 4))
    assert_compiled_is_interpreted(learner, graph, X, y)


def test_label_efficient_perceptron_compiled():
    X, y = small_stream(np.random.default_rng(6), 300, 8, 4)
    for graph in (FeedbackGraph.label_efficient(4), QUERYING["two of three extras"]):
        expected = reference.label_efficient_perceptron(X, y, (graph.visible, None), 3.0, draws_of(3, 300))
        assert_agrees(LabelEfficientPerceptron(3.0), graph, X, y, expected)
        assert_compiled_is_interpreted(LabelEfficientPerceptron(3.0), graph, X, y)


def test_exp3_compiled():
    for graph in EXP3_GRAPHS.values():
        X, y = small_stream(np.random.default_rng(7), 150, 2, graph.n_classes)
        assert_agrees(Exp3G(0.1, 0.05), graph, X, y, exp3_reference(graph, y, 0.1, 0.05))
        assert_compiled_is_interpreted(Exp3G(0.1, 0.05), graph, X, y)
        X, y = small_stream(np.random.default_rng(8), 400, 2, graph.n_classes)
        assert_compiled_is_interpreted(Exp3G(0.02, 3.0), graph, X, y)


def test_arow_keeps_the_variances_of_its_transcription():
    X, y = small_stream(np.random.default_rng(8), 120, 6, 3)
    with interpreted():
        model = Online(Arow(0.5), FeedbackGraph.full(3), features=6)
        for row, label in zip(X, y, strict=True):
            model.learn(model.act(row), label)
    np.testing.assert_allclose(
        model._player.engine.state.arrays["variances"].T, reference.arow(X, y, 3, 0.5)[2], rtol=1e-9
    )


# ------------------------------------------------------------------------------------------ which graphs, which numbers


def test_names_settings_and_references():
    learners = {**perceptron.LEARNERS, **exp3.LEARNERS}
    assert list(learners) == [
        "perceptron",
        "passive-aggressive",
        "label-efficient-perceptron",
        "second-order-perceptron-diag",
        "second-order-perceptron",
        "arow",
        "exp3-g",
    ]
    for name, learner in learners.items():
        assert learner.name == name
        assert learner.setting
        assert learner.reference[-6:-5] == "("


@pytest.mark.parametrize(
    "learner",
    [Perceptron(), PassiveAggressive(), SecondOrderPerceptronDiag(), SecondOrderPerceptron(), Arow()],
    ids=lambda learner: learner.name,
)
def test_full_information_learners_refuse_hidden_labels(learner):
    for graph in (FeedbackGraph.bandit(3), FeedbackGraph.filtering(3), FeedbackGraph.label_efficient(3)):
        with pytest.raises(UserError, match="full information, where predicting any class reveals the label"):
            Online(learner, graph, features=2)
    for graph in SHOWING.values():
        assert learner.refusal(graph) is None
    with pytest.raises(UserError, match="no gamma"):
        learner.with_gamma(0.1)
    for tuning in learner.tunings:
        assert tuned(learner, tuning, SHOWING["full"]) == learner


def test_the_label_efficient_perceptron_needs_a_query():
    learner = LabelEfficientPerceptron()
    blind = FeedbackGraph(np.vstack([np.eye(4), [[1, 1, 0, 0]]]))
    for graph in (FeedbackGraph.full(3), FeedbackGraph.filtering(3), blind):
        with pytest.raises(UserError, match="needs a query"):
            Online(learner, graph, features=2)
    assert [learner.plan(graph).table.query for graph in QUERYING.values()] == [2, 5, 5, 3]
    assert tuned(learner, "theory", QUERYING["two classes"]) == learner


@pytest.mark.parametrize(
    ("piece", "numbers"),
    [
        (PassiveAggressive, {"C": 0.0}),
        (LabelEfficientPerceptron, {"b": 0.0}),
        (LabelEfficientPerceptron, {"b": math.inf}),
        (SecondOrderPerceptronDiag, {"a": -1.0}),
        (SecondOrderPerceptron, {"a": 0.0}),
        (Arow, {"r": 0.0}),
        (Exp3G, {"gamma": -0.1}),
        (Exp3G, {"gamma": 1.1}),
        (Exp3G, {"eta": 0.0}),
    ],
)
def test_numbers_that_make_no_sense(piece, numbers):
    with pytest.raises(UserError, match=f"{piece.__name__}'s {next(iter(numbers))} must be"):
        piece(**numbers)


def test_a_matrix_that_does_not_fit():
    with pytest.raises(UserError, match=r"60000 features x 10 classes would take .*a learner without a full matrix"):
        Player(SecondOrderPerceptron(), FeedbackGraph.full(10), features=60_000)


def test_tunings_of_exp3():
    bandit, filtering, query = FeedbackGraph.bandit(5), FeedbackGraph.filtering(4), FeedbackGraph.label_efficient(3)
    assert (bandit.observability, filtering.observability, query.observability) == ("strong", "weak", "weak")
    assert tuned(Exp3G(), "theory", bandit, rounds=500) == Exp3G(0.02, 0.04)  # 1 / sqrt(5 * 500)
    assert tuned(Exp3G(), "only-t", bandit, rounds=400) == Exp3G(0.05, 0.1)
    for graph, N in (
        (filtering, 4),
        (query, 4),
        (FeedbackGraph([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]), 4),
    ):
        gamma = (graph.rho * math.log(N) / 10_000) ** (1 / 3)
        learner = tuned(Exp3G(), "theory", graph, rounds=10_000)
        assert learner.gamma == pytest.approx(gamma, rel=1e-12)
        assert learner.eta == pytest.approx(gamma**2 / graph.rho, rel=1e-12)
        learner = tuned(Exp3G(), "only-t", graph, rounds=1000)
        assert (learner.gamma, learner.eta) == pytest.approx((0.1, 0.01), rel=1e-12)
        assert tuned(Exp3G(), "only-t", graph, rounds=2).gamma == 0.5
    assert tuned(Exp3G(), "only-t", bandit, rounds=2) == Exp3G(0.5, 1.0)
    with pytest.raises(UserError, match="tuning of exp3-g"):
        tuned(Exp3G(), "expectation", bandit, rounds=10)
    with pytest.raises(UserError, match="give rounds"):
        tuned(Exp3G(), "theory", bandit)


def test_surrogates():
    scores = np.array([0.5, 2.0, 1.75, -3.0])
    for learner in (
        Perceptron(),
        PassiveAggressive(),
        SecondOrderPerceptronDiag(),
        SecondOrderPerceptron(),
        Arow(),
        LabelEfficientPerceptron(),
    ):
        assert [learner.surrogate(scores, 1, y) for y in range(4)] == [2.5, 0.75, 1.25, 6.0]
        assert learner.surrogate(np.array([0.0, 3.0]), 1, 1) == 0.0
    assert [Exp3G().surrogate(scores, 1, y) for y in range(4)] == [1.0, 0.0, 1.0, 1.0]


# ---------------------------------------------------------------------------------------------------- what an update is


def state_with(learner, graph, features, **arrays):
    """A state that holds these arrays."""
    state = state_of(learner, features, graph.n_classes, graph.n_actions)
    state.load(arrays)
    return state


def update(learner, graph, state, x, played):
    learner.update(state.tuple, learner.plan(graph), row_of(x, graph.n_classes), played)


def played_round(scores, y, probabilities=None, action=None):
    greedy = int(np.argmax(scores))
    p = np.eye(scores.size)[greedy] if probabilities is None else probabilities
    return Round(scores, p, greedy, greedy if action is None else action, y)


def random_round(rng, K, d):
    """A W, an x with a zero in it, a label and the rival at these scores."""
    W, x, y = rng.normal(size=(K, d)), rng.normal(size=d), int(rng.integers(K))
    x[rng.integers(d)] = 0.0
    s = W @ x
    return W, x, y, s, reference.margin(s, y)[1]


def test_passive_aggressive_gives_a_margin_of_one_over_the_rival():
    moved = rested = 0
    for seed in range(40):
        W, x, y, s, r = random_round(np.random.default_rng(seed), 2 + seed % 4, 5)
        graph, learner = FeedbackGraph.full(W.shape[0]), PassiveAggressive()
        state = state_with(learner, graph, 5, weights=W.T)
        update(learner, graph, state, x, played_round(s, y))
        W_after = state.arrays["weights"].T
        after = W_after @ x
        if s[y] - s[r] < 1:
            moved += 1
            assert after[y] - after[r] == pytest.approx(1.0, abs=1e-12)
        else:
            rested += 1
            assert (W_after == W).all()
    assert min(moved, rested) >= 4


@pytest.mark.parametrize("C", [math.inf, 0.1])
@pytest.mark.parametrize("seed", range(6))
def test_passive_aggressive_solves_its_problem(seed, C):
    """min ||W' - W||^2 / 2 + C xi subject to <W', z> >= 1 - xi, xi >= 0 (PA: xi = 0), by sequential quadratic
    programming.
    """
    rng = np.random.default_rng(seed)
    W, x, _, s, _ = random_round(rng, 3, 3)
    y = int(np.argmin(s))
    r = reference.margin(s, y)[1]
    z = np.outer(np.eye(3)[y] - np.eye(3)[r], x).ravel()
    graph, learner = FeedbackGraph.full(3), PassiveAggressive(C)
    state = state_with(learner, graph, 3, weights=W.T)
    update(learner, graph, state, x, played_round(s, y))
    slack = 0.0 if math.isinf(C) else 1.0
    price = 0.0 if math.isinf(C) else C
    best = optimize.minimize(
        lambda v: ((v[:-1] - W.ravel()) ** 2).sum() / 2 + price * v[-1],
        np.append(W.ravel(), max(0.0, 1 - z @ W.ravel())),
        jac=lambda v: np.append(v[:-1] - W.ravel(), price),
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
        bounds=[(None, None)] * 9 + [(0, None if slack else 0.0)],
        constraints={
            "type": "ineq",
            "fun": lambda v: v[:-1] @ z - 1 + slack * v[-1],
            "jac": lambda v: np.append(z, slack),
        },
    )
    assert best.success
    W_after = state.arrays["weights"].T
    np.testing.assert_allclose(W_after.ravel(), best.x[:-1], atol=1e-6)
    assert np.abs(W_after - W).max() > 0.01


def test_passive_aggressive_and_tiny_features():
    """The reciprocal of ||x||^2 does not exist for these, and weights stay finite."""
    learner, plan = PassiveAggressive(), PassiveAggressive().plan(FeedbackGraph.full(2))
    for value in (0.0, 1e-200, 1e-160):
        state = state_of(learner, 1, 2)
        learner.update(state.tuple, plan, sparse_row([0], [value], 2), played_round(np.zeros(2), 1))
        assert not state.arrays["weights"].any()


def test_delayed_feedback_uses_the_scores_of_prediction_time():
    """Two rounds in flight, each at margin 0: each adds 1 to the margin, where one after the other would stop at 1."""
    with interpreted():
        model = Online(PassiveAggressive(), FeedbackGraph.full(3), features=2)
        first, second = model.act([3.0, 4.0]), model.act([3.0, 4.0])
        model.learn(second, 2)
        model.learn(first, 2)
    s = model.weights.T @ [3.0, 4.0]
    assert s[2] - s[0] == pytest.approx(2.0)


def arow_objective(parameters, W, S, z, r):
    """KL(N(mu, Sigma) || N(W, S)) + hinge^2 / (2 r) + z^T Sigma z / (2 r) for Sigma = diag(exp(rest)), and its
    gradient.
    """
    mu, log_s = np.split(parameters, 2)
    s = np.exp(log_s)
    divergence = 0.5 * (np.log(S).sum() - log_s.sum() + (s / S).sum() + ((mu - W) ** 2 / S).sum() - mu.size)
    hinge = max(0.0, 1 - mu @ z)
    value = divergence + hinge**2 / (2 * r) + (z**2 * s).sum() / (2 * r)
    return value, np.concatenate([(mu - W) / S - hinge / r * z, 0.5 * (-1 + s / S + z**2 * s / r)])


@pytest.mark.parametrize("r", [1.0, 0.2, 5.0])
@pytest.mark.parametrize("seed", range(5))
def test_arow_is_the_optimum_of_its_objective(seed, r):
    """Over every mean and every diagonal covariance of all K d weights; only the rows of the label and its
    rival move.
    """
    rng = np.random.default_rng(seed)
    K, d = 3, 4
    W, x, _, s, _ = random_round(rng, K, d)
    S = rng.uniform(0.1, 2.0, size=(K, d))
    y = int(np.argmin(s)) if seed % 2 else int(np.argmax(s))
    if not seed % 2:  # correct, but within the margin: AROW still moves
        W *= 0.2
        s = W @ x
    other = reference.margin(s, y)[1]
    assert s[y] - s[other] < 1
    z = np.outer(np.eye(K)[y] - np.eye(K)[other], x).ravel()
    graph = FeedbackGraph.full(K)
    state = state_with(Arow(r), graph, d, weights=W.T, variances=S.T)
    update(Arow(r), graph, state, x, played_round(s, y))
    found = np.concatenate([state.arrays["weights"].T.ravel(), np.log(state.arrays["variances"].T.ravel())])

    start = np.concatenate([W.ravel(), np.log(S.ravel())])
    arguments = (W.ravel(), S.ravel(), z, r)
    assert (
        optimize.check_grad(
            lambda v: arow_objective(v, *arguments)[0], lambda v: arow_objective(v, *arguments)[1], start
        )
        < 1e-5
    )
    best = optimize.minimize(arow_objective, start, args=arguments, jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(found, best.x, atol=1e-6)
    assert arow_objective(found, *arguments)[0] <= best.fun + 1e-12
    assert arow_objective(start, *arguments)[0] > best.fun + 1e-3
    assert np.abs(arow_objective(found, *arguments)[1]).max() < 1e-12


def test_arow_rests_where_the_hinge_is_zero():
    graph = FeedbackGraph.full(2)
    state = state_with(Arow(), graph, 1, weights=np.array([[2.0, 0.5]]), variances=np.array([[0.3, 0.4]]))
    update(Arow(), graph, state, np.ones(1), played_round(np.array([2.0, 0.5]), 0))
    assert state.arrays["weights"].tolist() == [[2.0, 0.5]]
    assert state.arrays["variances"].tolist() == [[0.3, 0.4]]


def in_flight(learner, graph, X, y, rng):
    """Play with up to five rounds waiting for feedback; the model, and theta and the z of every mistake, made
    by hand.
    """
    K, d = graph.n_classes, X.shape[1]
    model = Online(learner, graph, features=d)
    zs, waiting = [], []
    for t in range(len(y)):
        waiting.append((model.act(X[t]), t))
        while len(waiting) > rng.integers(0, 6):
            receipt, past = waiting.pop(rng.integers(len(waiting)))
            yhat = graph.action_index(receipt.action)
            model.learn(receipt, graph.classes[y[past]])
            if yhat != y[past]:
                zs.append(np.outer(np.eye(K)[y[past]] - np.eye(K)[yhat], X[past]).ravel())
    return model, np.array(zs)


@pytest.mark.parametrize(("K", "d", "a"), [(2, 1, 1.0), (3, 4, 1.0), (4, 3, 0.1), (2, 7, 20.0)])
def test_second_order_perceptrons_are_direct_solutions(K, d, a):
    """Also with feedback out of order; the diagonal one divides by the diagonal of the full one's matrix."""
    rng = np.random.default_rng([K, d])
    X, y = small_stream(rng, 200, d, K)
    with interpreted():
        model, zs = in_flight(SecondOrderPerceptron(a), FeedbackGraph.full(K), X, y, rng)
        A = a * np.eye(K * d) + zs.T @ zs
        np.testing.assert_allclose(model.weights.T.ravel(), np.linalg.solve(A, zs.sum(axis=0)), rtol=1e-9, atol=1e-9)
        inverse = model._player.engine.state.arrays["inverse"]
        assert (inverse == inverse.transpose(2, 3, 0, 1)).all()
        by_class = inverse.transpose(1, 0, 3, 2).reshape(K * d, K * d)
        np.testing.assert_allclose(by_class @ A, np.eye(K * d), atol=1e-9)

        model, zs = in_flight(SecondOrderPerceptronDiag(a), FeedbackGraph.full(K), X, y, rng)
        A = a * np.eye(K * d) + zs.T @ zs
        np.testing.assert_allclose(model.weights.T.ravel(), zs.sum(axis=0) / np.diag(A), rtol=1e-9, atol=1e-9)
    assert len(zs) > 20


def test_the_inverse_stays_accurate_over_many_updates():
    """Labels that nothing predicts: about 13,000 rank-one updates."""
    rng = np.random.default_rng(1)
    K, d = 3, 10
    X, y = rng.normal(size=(20_000, d)) * np.logspace(-2, 2, d), rng.integers(0, K, 20_000)
    history, W = run_bulk(SecondOrderPerceptron(), FeedbackGraph.full(K), X, y)
    actions, expected = reference.second_order_perceptron(X, y, K, 1.0, False)
    assert history.mistakes == (np.array(actions) != y).sum() > 12_000
    np.testing.assert_allclose(W.T, expected, rtol=1e-6, atol=1e-9)


# ---------------------------------------------------------------------------------------------------- what they achieve


def separable_stream(rng, rounds, features, classes, margin):
    """Unit vectors x that a U of norm 1 labels with at least this margin."""
    U = rng.normal(size=(classes, features))
    U /= np.linalg.norm(U)
    X = rng.normal(size=(40 * rounds, features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    scores = X @ U.T
    top = np.sort(scores, axis=1)
    wide = top[:, -1] - top[:, -2] >= margin
    assert wide.sum() >= rounds
    return X[wide][:rounds], np.argmax(scores[wide], axis=1)[:rounds]


@pytest.mark.parametrize(("classes", "features"), [(2, 10), (3, 5), (5, 8)])
@pytest.mark.parametrize("seed", range(4))
def test_the_perceptron_keeps_its_mistake_bound(seed, classes, features):
    """At most 2 X^2 ||U||^2 / margin^2 mistakes where <U^y - U^k, x> >= margin for every k != y.

    With z = (e_y - e_yhat) (x) x a mistake adds at least the margin to <W, U>, and at most ||z||^2 = 2 ||x||^2 to
    ||W||^2, since <W, z> = s_y - s_yhat <= 0. So M margin <= <W, U> <= ||U|| ||W|| <= ||U|| sqrt(2 X^2 M).
    """
    rng = np.random.default_rng([seed, classes])
    X, y = separable_stream(rng, 200, features, classes, margin=0.15)
    bound = 2 / 0.15**2
    passes = int(bound) + 2
    history, W = run_bulk(Perceptron(), FeedbackGraph.full(classes), np.tile(X, (passes, 1)), np.tile(y, passes))
    assert 0 < history.mistakes <= bound
    assert np.linalg.norm(W) ** 2 <= 2 * history.mistakes * (1 + 1e-9)
    assert (
        np.argmax(X @ W, axis=1) == y
    ).all()  # with more passes than mistakes, one pass had none, nor had any after it


NOISE_FREE = "synthetic:K=6,d=80,noise=0,T=20000"


@pytest.mark.parametrize(
    "learner",
    [
        Perceptron(),
        PassiveAggressive(),
        PassiveAggressive(0.1),
        SecondOrderPerceptronDiag(),
        SecondOrderPerceptron(),
        Arow(),
    ],
    ids=repr,
)
def test_no_mistakes_at_the_end_of_the_noise_free_stream(learner):
    curve = play(learner, NOISE_FREE, "full", curve=[18_000, 20_000])[0].curve
    assert curve.mistakes[1] - curve.mistakes[0] <= 2
    assert 0 < curve.mistakes[0] < 400


def test_queries_are_actions_of_their_exact_probability():
    graph = QUERYING["two of three extras"]
    learner = LabelEfficientPerceptron(0.5)
    p, state = np.full(graph.n_actions, 9.0), state_of(learner, 1, graph.n_classes, graph.n_actions).tuple
    for scores, m in (([0, 2.0, 1.5, -1], 0.5), ([3.0, 0, 0, 0], 3.0), ([1.0, 1.0, 0, 0], 0.0)):
        decision = learner.distribution(state, learner.plan(graph), None, np.array(scores), p)
        query = 0.5 / (0.5 + m)
        assert decision == (int(np.argmax(scores)), query)
        expected = np.zeros(7)
        expected[decision.greedy] = 1 - query
        expected[5] = query
        assert (p == expected).all()


def test_queries_are_counted():
    """labels_seen is the queries, all of them mistakes; rate_sum is their conditional mean.

    queries - rate_sum is a sum of 20,000 martingale differences of length 1: by Azuma and Hoeffding it leaves +-380
    with probability below 2 exp(-2 380^2 / 20000) < 2e-6, on each of three streams.
    """
    for noise in (0, 0.1, 0.5):
        run = play(LabelEfficientPerceptron(20), f"synthetic:K=6,d=80,noise={noise},T=20000", "label-efficient")[0]
        assert run.explored == run.labels_seen <= run.mistakes
        assert abs(run.labels_seen - run.rate_sum) < 380
        assert 500 < run.labels_seen < 15_000


def test_more_queries_with_more_b():
    seen = [play(LabelEfficientPerceptron(b), NOISE_FREE, "label-efficient")[0].labels_seen for b in (0.1, 1, 10, 100)]
    assert seen == sorted(seen)
    assert seen[0] < seen[-1] / 4


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(0, 2), st.sampled_from([0.15, 0.35, 0.8]))
def test_exp3_estimates_are_unbiased(seed, classes, extra, density):
    """Over the actions, for every label: the expected estimate of a class's loss is that loss, exactly."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, classes, extra, density)
    learner = Exp3G(rng.uniform(0.01, 1), rng.uniform(0.01, 1))
    before = {"losses": rng.uniform(0, 30, classes), "rounds": rng.uniform(0, 30, 1)}
    state, plan, x = state_with(learner, graph, 1, **before).tuple, learner.plan(graph), row_of([1.0], classes)
    scores, p = np.zeros(classes), np.zeros(graph.n_actions)
    learner.scores(state, x, scores)
    decision = learner.distribution(state, plan, None, scores, p)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    for y in range(classes):
        mean = np.zeros(classes)
        for action in range(graph.n_actions):
            state = state_with(learner, graph, 1, **before).tuple
            label = y if graph.visible[action, y] else -1
            learner.update(state, plan, x, Round(scores, p, decision.greedy, action, label))
            mean += p[action] * (state.losses - before["losses"])
            assert state.rounds[0] == before["rounds"][0] + 1
        np.testing.assert_allclose(mean, 1 - np.eye(classes)[y], atol=1e-10)


def test_both_kinds_of_graphs_were_tested():
    kinds = [
        random_graph(np.random.default_rng(seed), 2 + seed % 5, seed % 3, density).observability
        for seed in range(20)
        for density in (0.15, 0.35, 0.8)
    ]
    assert min(kinds.count("strong"), kinds.count("weak")) >= 5


def test_exp3_is_stable_at_large_losses():
    graph = FeedbackGraph.label_efficient(3)
    learner = Exp3G(0.25, 1.0)

    def distribution(losses, rounds):
        state, p = state_with(learner, graph, 1, losses=np.array(losses), rounds=np.array([rounds])), np.zeros(4)
        learner.distribution(state.tuple, learner.plan(graph), None, -np.array(losses), p)
        return p

    q = np.array([1, math.exp(-1), 0, 0]) / (1 + math.exp(-1))
    p = distribution([1e12, 1e12 + 1, 5e15], 2e12)
    np.testing.assert_allclose(p, 0.75 * q + 0.25 * np.array([0, 0, 0, 1]), rtol=1e-12)
    p = distribution([3e12, 3e12 + 1, 5e15], 2e12)  # now the query has the least
    np.testing.assert_allclose(p, [0, 0, 0, 1], atol=1e-300)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 5),
    st.integers(0, 1),
    st.sampled_from([0.03, 0.3]),
    st.sampled_from([0.05, 0.5]),
)
def test_exp3_keeps_the_inequality_of_exponential_weights(seed, classes, extra, gamma, eta):
    """On every path: sum <q, lhat> - sum lhat(i) <= ln N / eta + eta/2 sum <q, lhat^2> for every action i, as lhat >=
    0.
    """
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, classes, extra)
    N = graph.n_actions
    learner, x = Exp3G(gamma, eta), row_of([1.0], classes)
    state, plan = state_of(learner, 1, classes, N).tuple, learner.plan(graph)
    scores, p = np.zeros(classes), np.zeros(N)
    explored = np.bincount(graph.dominating_indices, minlength=N) / graph.rho
    ours = squares = 0.0
    losses = np.zeros(N)
    for y in rng.choice(classes, size=80, p=rng.dirichlet(np.ones(classes))):
        learner.scores(state, x, scores)
        decision = learner.distribution(state, plan, None, scores, p)
        q = (p - gamma * explored) / (1 - gamma)
        action = int(rng.choice(N, p=p / p.sum()))
        before = state.losses.copy()
        learner.update(state, plan, x, Round(scores, p, decision.greedy, action, y if graph.visible[action, y] else -1))
        estimate = np.append(state.losses - before, np.ones(N - classes))
        ours += q @ estimate
        squares += q @ estimate**2
        losses += estimate
    assert ours - losses.min() <= math.log(N) / eta + eta / 2 * squares + 1e-9


@pytest.mark.parametrize("graph", ["bandit", "filtering", "label efficient", "no self-loops", "full"])
def test_exp3_regret(graph):
    """E[regret] <= gamma T + ln N / eta + eta/2 T V against the best fixed class, and half of a uniform player's
    regret.

    This is the inequality above in expectation: E[lhat(i)^2] <= 1 / P(seen i), so V bounds sum_i q(i) / P(seen i). V is
    N / (1 - gamma) where every class sees itself (P >= (1 - gamma) q), else rho / gamma + 1 (P >= gamma / rho, and 1
    for the query).

    The regret of one run spreads far less than the bound's slack: the mean of 40 runs and five of its standard errors
    must stay below, so the test raises a false alarm with probability below 1e-6 for any seed of the draws.
    """
    graph = EXP3_GRAPHS[graph]
    K, N, T = graph.n_classes, graph.n_actions, 40_000
    learner = tuned(Exp3G(), "theory", graph, rounds=T)
    rng = np.random.default_rng(0)
    y = rng.choice(K, size=T, p=[0.1] * (K - 2) + [0.9 - 0.1 * (K - 2), 0.1])
    runs = play(
        learner,
        ArrayStream(np.ones((T, 1)), [graph.classes[label] for label in y], classes=graph.classes),
        graph,
        repeats=40,
        seed=1,
    )
    best = T - np.bincount(y).max()
    regrets = np.array([run.mistakes - best for run in runs])
    sees_itself = graph.visible[:K].diagonal().all()
    V = N / (1 - learner.gamma) if sees_itself else graph.rho / learner.gamma + 1
    bound = learner.gamma * T + math.log(N) / learner.eta + learner.eta / 2 * T * V
    uniform = T * (1 - 1 / N) - best
    assert bound < uniform / 2
    assert regrets.mean() + 5 * regrets.std(ddof=1) / math.sqrt(40) <= bound
    assert regrets.mean() > 0


def test_exp3_ignores_the_features_and_predicts_the_best_class():
    graph = FeedbackGraph.bandit(4)
    X, y = small_stream(np.random.default_rng(0), 400, 3, 4)
    y = np.where(np.random.default_rng(1).random(400) < 0.7, 2, y)
    learner = Exp3G(0.1, 0.05)
    with interpreted():
        with_features, W = run_bulk(learner, graph, X, y)
        without, W_other = run_bulk(learner, graph, np.zeros((400, 5)), y)
        assert with_features.mistakes == without.mistakes
        assert W.tobytes() == W_other.tobytes()
        assert W.shape == (1, 4)
        model = Online(learner, graph, features=3)
        for x, label in zip(X, y, strict=True):
            receipt = model.act(x)
            model.learn(receipt, label if label in receipt.reveals else UNSEEN)
        assert model.predict([1.0, 2.0, 3.0]) == model.predict([0.0, 0.0, 0.0]) == 2 == int(np.argmax(model.weights))
