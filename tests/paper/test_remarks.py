"""The paper's remarks on other norms and on dynamic regret: the pieces, their guarantees, and what the figures show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gappletron import (
    FeedbackGraph,
    FixedOGD,
    Gappletron,
    Player,
    ProjectedOGD,
    SmoothHinge,
    UnitVectors,
    interpreted,
    play,
)
from gappletron.paper.figures.bounds import find_drift_points, find_norm_points
from gappletron.paper.remarks import (
    ExponentiatedGradient,
    PerceptronsFirst,
    Signs,
    Turning,
    drift_bound,
    norm_bound,
    perceptrons_bound,
)
from pictures import BY_ID, caption, draw, fakes, lines, panels
from problems import row_of, state_of


def steps(optimizer, gradients, d, K):
    """W before each gradient (x, direction, weight), and after the last."""
    state, path = state_of(optimizer, d, K), []
    for x, direction, weight in gradients:
        path.append(optimizer.weights(state.tuple)[:, :K].copy())
        optimizer.step(state.tuple, row_of(x, K), np.asarray(direction, float), weight)
    return path, optimizer.weights(state.tuple)[:, :K].copy()


def hostile(kind, rng, rounds=80, d=4, K=3):
    fixed = rng.normal(size=d)
    for t in range(rounds):
        x = {
            "random": rng.normal(size=d),
            "drift": fixed,
            "flip": fixed * (-1) ** t,
            "burst": rng.normal(size=d) * 10.0 ** rng.integers(-3, 4),
        }[kind]
        direction = np.zeros(K)
        direction[rng.choice(K, 2, replace=False)] = 1.0, -1.0
        yield x, direction, float(rng.choice([1.0, 0.01, 30.0]))


@pytest.mark.parametrize("kind", ["random", "drift", "flip", "burst"])
def test_the_exponentiated_gradient_has_its_h(kind):
    """regret <= h sqrt(sum ||g||^2) in the norm of the largest entry, against the worst vertex of the ball."""
    for seed in range(10):
        gradients = list(hostile(kind, np.random.default_rng(seed)))
        optimizer = ExponentiatedGradient(1.5, 12.0)
        path, last = steps(optimizer, gradients, 4, 3)
        G = [weight * np.outer(x, direction) for x, direction, weight in gradients]
        played = sum((g * W).sum() for g, W in zip(G, path, strict=True))
        squares = sum(np.abs(g).max() ** 2 for g in G)
        worst = played + 1.5 * np.abs(sum(G)).max()
        assert worst <= optimizer.guarantee() * math.sqrt(squares)
        assert max(np.abs(W).sum() for W in [*path, last]) <= 1.5 * (1.0 + 1e-12)


def test_the_exponentiated_gradient_equals_its_definition():
    gradients = list(hostile("random", np.random.default_rng(1), rounds=30))
    _, last = steps(ExponentiatedGradient(2.0, 12.0), gradients, 4, 3)
    G = [weight * np.outer(x, direction) for x, direction, weight in gradients]
    theta = math.sqrt(math.log(24.0) / 2.75 / sum(np.abs(g).max() ** 2 for g in G)) * sum(G)
    mass = (np.exp(theta) + np.exp(-theta)).sum()
    np.testing.assert_allclose(last, 2.0 * (np.exp(-theta) - np.exp(theta)) / mass, rtol=1e-9, atol=1e-14)


def test_the_smooth_hinge_has_L_2_in_the_norm_of_the_largest_entry():
    """(max_jk |grad_jk|)^2 <= 2 L l with L = 2 max_j x_j^2; and no smaller L serves."""
    rng, loss, tightest = np.random.default_rng(0), SmoothHinge(), 0.0
    for _ in range(2000):
        scores, slope, y = rng.normal(size=3), np.zeros(3), int(rng.integers(3))
        greedy = int(np.argmax(scores))
        loss.gradient(scores, greedy, y, slope)
        lost = loss.value(scores, greedy, y)
        assert np.abs(slope).max() ** 2 <= 4.0 * lost * (1 + 1e-12)
        if lost > 0.0:
            tightest = max(tightest, np.abs(slope).max() ** 2 / lost)
    assert tightest > 3.99
    assert norm_bound(3, 10.0, max_entry=2.0) == 4.0 * norm_bound(3, 10.0)


def test_the_comparator_of_the_signs():
    stream = Signs(3, 8, 200, seed=2)
    U = np.zeros((8, 3))
    U[range(3), range(3)] = 0.5
    assert (np.abs(U).sum(), np.linalg.norm(U)) == pytest.approx((1.5, math.sqrt(3.0) / 2.0))
    for chunk in stream.chunks():
        X = chunk.values.reshape(-1, 8)
        assert set(X.ravel()) == {-1.0, 1.0}
        scores = X @ U
        right = scores[np.arange(len(X)), chunk.labels]
        scores[np.arange(len(X)), chunk.labels] = -np.inf
        assert right - scores.max(axis=1) == pytest.approx(1.0)


def dynamic_regret(path, U, gradients):
    """sum <g_t, W_t - U_t>, sum ||g_t||^2, and the path length of U."""
    G = np.array([weight * np.outer(x, direction) for x, direction, weight in gradients])
    length = np.linalg.norm(np.diff(U, axis=0), axis=(1, 2)).sum()
    return (G * (np.array(path) - U)).sum(), (G**2).sum(), length


@pytest.mark.parametrize("kind", ["random", "drift", "flip"])
def test_dynamic_regret_of_gradient_descent(kind):
    """sum <g_t, W_t - U_t> <= (B^2 + 2 B P)/(2 eta) + eta/2 sum ||g||^2, for comparators that change."""
    B, rng = 1.0, np.random.default_rng(3)
    for rate in (0.01, 0.1, 1.0):
        gradients = list(hostile(kind, rng))
        path, _ = steps(FixedOGD(rate, B), gradients, 4, 3)
        for stay in (1, 5, 40):  # U changes every so many rounds, to the best for the gradients that follow
            G = [weight * np.outer(x, direction) for x, direction, weight in gradients]
            U = []
            for start in range(0, len(G), stay):
                total = sum(G[start : start + stay])
                U += [-B * total / max(1e-12, np.linalg.norm(total))] * len(G[start : start + stay])
            regret, squares, length = dynamic_regret(path, np.array(U), gradients)
            assert regret <= ((B * B + 2.0 * B * length) / (2.0 * rate) + rate / 2.0 * squares) * (1 + 1e-12)


def test_mistakes_stay_below_the_dynamic_bound():
    """Twenty changes in 2,000 rounds, the mean of 3 runs: a third of the bound of 843.4.

    The mistakes of a run have a variance of at most their number, so chance reaches the bound with probability below
    1e-12.
    """
    stream, B = Turning(3, 20, 2000), math.sqrt(2.0)
    bound = drift_bound(3, 4.0, B, stream.path)
    assert bound == pytest.approx(6.0 * (2.0 + 2.0 * B * 20 * math.sqrt(6.0)))
    with interpreted():
        runs = play(Gappletron(optimizer=FixedOGD(1.0 / 12.0, B)), stream, "full", repeats=3)
    assert 0.1 * bound < np.mean([run.mistakes for run in runs]) < 0.6 * bound


def test_perceptrons_first_on_separable_and_on_any_data():
    """On separable data at most X^2 ||U||^2 updates in every run, so it never changes to Gappletron.

    Expected mistakes: at most (K - 1) budget = 18. The mean of 30 runs has a standard error below 2.4 (a run's variance
    is below 18 K^2), and is 6 as measured: the false-alarm rate is below 1e-6.
    """
    learner = PerceptronsFirst(9.0, Gappletron(optimizer=ProjectedOGD(1.0)))
    with interpreted():
        runs = play(learner, UnitVectors(3, 0.0, 300), "bandit", repeats=30)
        assert np.mean([run.mistakes for run in runs]) <= 18.0
        player = Player(learner, FeedbackGraph.bandit(3), 3, seed=0)
        for chunk in UnitVectors(3, 0.0, 400).chunks():
            player.advance(chunk)
        assert 0 < player.engine.state.tuple.updates[0] <= 9
        noisy = Player(learner, FeedbackGraph.bandit(3), 3, seed=0)
        for chunk in UnitVectors(3, 0.3, 400).chunks():
            noisy.advance(chunk)
        assert noisy.engine.state.tuple.updates[0] == 10  # one more than the budget, then Gappletron plays
        assert noisy.engine.state.tuple.then.exploration.blind[0] > 0
    assert perceptrons_bound(3, 9.0) == 20.0
    assert "bandit" in learner.refusal(FeedbackGraph.full(3))


def test_the_comparators_of_the_turning_classes():
    stream = Turning(4, 3, 40)
    assert stream.path == pytest.approx(3 * np.linalg.norm(np.eye(4) - np.roll(np.eye(4), 1, axis=1)))
    (chunk,) = stream.chunks()
    assert np.unique((chunk.labels - chunk.indices) % 4, return_counts=True)[1].tolist() == [10] * 4


def test_the_figures_of_the_remarks():
    results = fakes("norms", rounds=1000)
    points = {(point.optimizer, point.place): point for point in find_norm_points(results)}
    assert points[ProjectedOGD, 100.0].bound == pytest.approx(36.0 * 100, rel=1e-5)
    h = 1.5 * (2.0 * math.sqrt(2.75 * math.log(600.0)) + 7.0)
    assert points[ExponentiatedGradient, 100.0].bound == pytest.approx(3.0 * h * h)
    (ax,) = panels(draw(BY_ID["norms"], results))
    ((at, bound),) = lines(ax, "exponentiated gradient: bound")
    assert at.tolist() == [10, 30, 100, 300]
    assert bound[2] == pytest.approx(3.0 * h * h)
    assert "T = 1,000" in caption(BY_ID["norms"], results)
    results = fakes("drift", rounds=1000)
    points = {(point.optimizer, point.place): point for point in find_drift_points(results)}
    assert points[ProjectedOGD, 11.0].bound is None
    assert points[FixedOGD, 11.0].bound == pytest.approx(
        drift_bound(3, 4.0, math.sqrt(2.0), 10 * math.sqrt(6.0)), rel=1e-5
    )
    (ax,) = panels(draw(BY_ID["drift"], results))
    assert len(lines(ax, "gradient descent, fixed rate: bound")) == 1
    assert not lines(ax, "projected gradient descent: bound")
    results = fakes("future", rounds=1000)
    clean, noisy = panels(draw(BY_ID["future"], results))
    ((_, bound),) = lines(clean, "upper bound")
    assert bound.tolist() == [20.0, 20.0]
    assert not lines(noisy, "upper bound")
    assert "the mean of 3 runs" in caption(BY_ID["future"], results)
