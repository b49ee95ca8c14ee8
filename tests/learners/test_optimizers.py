"""Each optimizer against its definition, its guarantee on adversarial sequences, and the numerics of the lazy scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import reference
from gappletron import AdaGrad, AdaptiveOGD, ConfidenceWeighted, FixedOGD, ProjectedOGD, ScaleFreeFTRL, UserError
from problems import OPTIMIZERS, row_of, state_of


def weights_of(optimizer, state):
    """A copy of W (d x K), without padding."""
    return optimizer.weights(state.tuple)[:, : state.sizes.classes].copy()


def play_gradients(optimizer, gradients, d, K):
    """Feed (x, direction, weight) triples; returns the W (d x K) before each, the last one, and the arrays."""
    state, path = state_of(optimizer, d, K), []
    for x, direction, weight in gradients:
        path.append(weights_of(optimizer, state))
        optimizer.step(state.tuple, row_of(x, K), np.asarray(direction, float), weight)
    return path, weights_of(optimizer, state), state.arrays


def random_gradients(rng, rounds, d, K, spread=0.0):
    """Directions of logistic and of hinge shape, weights that vary by orders of magnitude, some gradients zero."""
    for _ in range(rounds):
        x = rng.normal(size=d) * (rng.random(d) < 0.5)
        direction = rng.normal(size=K)
        if rng.random() < 0.5:
            direction = np.zeros(K)
            direction[rng.choice(K, 2, replace=False)] = [1.0, -1.0]
        if rng.random() < 0.1:
            direction = np.zeros(K)
        yield x, direction, float(np.exp(spread * rng.normal()))


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=str)
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_equals_the_dense_definition(kind, spread):
    optimizer, parameters = OPTIMIZERS[kind]
    rng = np.random.default_rng(4)
    d, K = 5, 4
    gradients = list(random_gradients(rng, 3000, d, K, spread))
    naive = reference.Optimizer(kind, K, d, **parameters)
    for x, direction, weight in gradients:
        naive.take(weight * np.outer(direction, x))
    _, W, _ = play_gradients(optimizer, gradients, d, K)
    np.testing.assert_allclose(W.T, naive.W, rtol=1e-9, atol=1e-9)


def regret_ratio(optimizer, gradients, d, K, comparators):
    """The largest regret against the comparators, in units of sqrt(sum ||g||^2)."""
    path, _, _ = play_gradients(optimizer, gradients, d, K)
    G = [weight * np.outer(x, direction) for x, direction, weight in gradients]
    total, squares = sum(G), sum((g**2).sum() for g in G)
    played = sum((g * W).sum() for g, W in zip(G, path, strict=True))
    # Against a ball the worst comparator is known: -B total / ||total||.
    worst = max((played - (U * total).sum()) for U in comparators(total))
    return worst / math.sqrt(squares)


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([0.3, 1.0, 4.0]), st.sampled_from(["random", "drift", "flip", "burst"])
)
def test_guarantees_hold_on_hostile_sequences(seed, B, kind):
    """regret <= h sqrt(sum ||g||^2) against the worst U of the ball, for linear losses (the hardest convex ones)."""
    rng = np.random.default_rng(seed)
    d, K = 3, 2
    fixed = rng.normal(size=d)
    gradients = []
    for t in range(60):
        x = {
            "random": rng.normal(size=d),
            "drift": fixed,
            "flip": fixed * (-1) ** t,
            "burst": rng.normal(size=d) * 10.0 ** rng.integers(-3, 4),
        }[kind]
        gradients.append((x, rng.choice([[1.0, -1.0], [-1.0, 1.0], [1.0, 0.0]]), float(rng.choice([1.0, 0.01, 30.0]))))
    for optimizer in (ProjectedOGD(B), ScaleFreeFTRL(B)):
        ratio = regret_ratio(
            optimizer, gradients, d, K, lambda total: [-B * total / np.linalg.norm(total), np.zeros((d, K))]
        )
        assert ratio <= optimizer.guarantee() * (1 + 1e-9)


def test_a_guarantee_that_is_too_small_is_noticed():
    """The test above can fail: gradients that turn against W as soon as it has followed them cost a third of h."""
    gradients, optimizer = [], ProjectedOGD(1.0)
    state = state_of(optimizer, 1, 2)
    for _ in range(400):
        direction = [1.0, -1.0] if weights_of(optimizer, state)[0, 0] >= 0 else [-1.0, 1.0]
        gradients.append((np.ones(1), direction, 1.0))
        optimizer.step(state.tuple, row_of([1.0], 2), np.array(direction), 1.0)
    ratio = regret_ratio(optimizer, gradients, 1, 2, lambda total: [-total / max(np.linalg.norm(total), 1e-9)])
    assert ratio > optimizer.guarantee() / 4


@pytest.mark.parametrize("optimizer", [ProjectedOGD(0.5), FixedOGD(5.0, 0.5), ScaleFreeFTRL(0.5)])
def test_never_leaves_its_ball(optimizer):
    gradients = list(random_gradients(np.random.default_rng(0), 500, 4, 3, spread=2.0))
    path, W, arrays = play_gradients(optimizer, gradients, 4, 3)
    assert max(np.linalg.norm(w) for w in [*path, W]) <= 0.5 * (1 + 1e-9)
    assert optimizer.reach() == 0.5
    assert arrays["squared"][0] == pytest.approx((arrays["weights"] ** 2).sum(), rel=1e-9)


def test_the_scale_is_folded_in_before_it_underflows():
    """A rate so large that every projection shrinks W a thousandfold: after 200 rounds the bare scale would
    be 1e-600.
    """
    gradients = [(np.array([1.0, (-1.0) ** t]), [1.0, -1.0], 1000.0) for t in range(200)]
    optimizer = FixedOGD(1.0, 1.0)
    _, W, arrays = play_gradients(optimizer, gradients, 2, 2)
    naive = reference.Optimizer("fixed ogd", 2, 2, rate=1.0, radius=1.0)
    for x, direction, weight in gradients:
        naive.take(weight * np.outer(direction, x))
    np.testing.assert_allclose(W.T, naive.W, rtol=1e-9)
    assert 1e-100 <= arrays["scale"][0] <= 1.0
    assert np.isfinite(arrays["weights"]).all()


@pytest.mark.parametrize(
    "optimizer", [AdaptiveOGD(), ProjectedOGD(), FixedOGD(), AdaGrad(), ScaleFreeFTRL(), ConfidenceWeighted()]
)
def test_nothing_happens_without_a_gradient(optimizer):
    state = state_of(optimizer, 3, 2)
    optimizer.step(state.tuple, row_of([1.0, 0, 0], 2), np.array([1.0, -1.0]), 2.0)
    before = weights_of(optimizer, state)
    optimizer.step(state.tuple, row_of([0.0, 0, 0], 2), np.array([1.0, -1.0]), 2.0)
    optimizer.step(state.tuple, row_of([1.0, 1, 1], 2), np.zeros(2), 2.0)
    assert weights_of(optimizer, state).tobytes() == before.tobytes()
    assert np.abs(before).max() > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdaptiveOGD(0),
        lambda: ProjectedOGD(-1),
        lambda: ProjectedOGD(math.inf),
        lambda: FixedOGD(math.nan),
        lambda: FixedOGD(1, 0),
        lambda: AdaGrad("1"),
        lambda: ScaleFreeFTRL(0),
    ],
)
def test_numbers_are_checked(make):
    with pytest.raises(UserError):
        make()


def test_a_matrix_that_cannot_fit_is_refused():
    with pytest.raises(UserError, match="GiB"):
        state_of(AdaptiveOGD(), 2**31 - 1, 10**6)
