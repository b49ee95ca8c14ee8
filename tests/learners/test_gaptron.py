"""Gaptron: against its naive transcription, its inequality for the three losses, its rates by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import reference
from gappletron import (
    ArrayStream,
    FeedbackGraph,
    FixedOGD,
    Hinge,
    Loss,
    Online,
    Runs,
    SmoothHinge,
    UserError,
    interpreted,
    tuned,
)
from gappletron.learners.gaptron import Gaptron, GaptronHinge, GaptronLogistic, GaptronMix
from problems import small_stream

LOSSES = {"logistic": GaptronLogistic(), "hinge": GaptronHinge(), "smooth hinge": SmoothHinge()}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("graph", [FeedbackGraph.bandit(2), FeedbackGraph.bandit(5), FeedbackGraph.full(3)], ids=str)
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_equals_the_reference(loss, graph, gamma):
    X, y = small_stream(np.random.default_rng(len(loss)), 120, 6, graph.n_classes)
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(4, spawn_key=(0,)))).random(len(y))
    actions, W = reference.gaptron(X, y, graph.visible, loss, 0.05, 0.9, gamma, draws)
    learner = Gaptron(LOSSES[loss], FixedOGD(0.05, 0.9), GaptronMix(gamma))
    with interpreted():
        runs = Runs(learner, ArrayStream(X, y, classes=range(graph.n_classes)), graph, seed=4, jobs=1, curve="every")
        list(runs)
    np.testing.assert_allclose(runs.weights().T, W, rtol=1e-9, atol=1e-9)
    assert (np.diff(runs.histories()[0].curve.mistakes, prepend=0) == (np.array(actions) != y)).all()


@given(
    st.integers(2, 9).flatmap(lambda K: st.lists(st.floats(-4, 4), min_size=K, max_size=K)),
    st.sampled_from(list(LOSSES)),
    st.floats(0.1, 3.0),
    st.data(),
)
def test_gaptrons_inequality(scores, loss, X, data):
    """(1-a) 1[y* != y] + a (K-1)/K + eta/2 ||grad l||^2 <= l(y) with ||x|| = X and its full-information rate."""
    s, piece = np.array(scores), LOSSES[loss]
    K, star, y = s.size, int(np.argmax(s)), data.draw(st.integers(0, s.size - 1))
    out = np.zeros(K)
    piece.gradient(s, star, y, out)
    a, eta = piece.gap(s, star), piece.gaptron_rate(K, X)
    left = (1 - a) * (y != star) + a * (K - 1) / K + eta / 2 * X**2 * (out @ out)
    assert left <= piece.value(s, star, y) + 1e-9


@given(
    st.integers(2, 9).flatmap(lambda K: st.lists(st.floats(-20, 20), min_size=K, max_size=K)),
    st.sampled_from(list(LOSSES)),
    st.data(),
)
def test_values_gradients_and_gaps_equal_the_reference(scores, loss, data):
    s, piece = np.array(scores), LOSSES[loss]
    star, y, out = int(np.argmax(s)), data.draw(st.integers(0, s.size - 1)), np.zeros(s.size)
    piece.gradient(s, star, y, out)
    value, gradient = reference.gaptron_loss(loss, s, y)
    assert piece.value(s, star, y) == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert piece.gap(s, star) == pytest.approx(reference.gaptron_gap(loss, s), rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(out, gradient, rtol=1e-9, atol=1e-12)


def test_a_rate_that_is_three_times_too_large_breaks_the_inequality():
    """So the test above can fail."""
    piece, s, out = SmoothHinge(), np.zeros(3), np.zeros(3)
    piece.gradient(s, 0, 1, out)
    eta = 3 * piece.gaptron_rate(3, 1.0)
    assert piece.gap(s, 0) * 2 / 3 + eta / 2 * (out @ out) > piece.value(s, 0, 1)


def test_tunings_by_hand():
    bandit, full = FeedbackGraph.bandit(4), FeedbackGraph.full(4)
    learner = tuned(Gaptron(SmoothHinge()), "theory", bandit, rounds=10_000, max_norm=2.0)
    eta = 1 / (4 * 4 * 2.0**2)
    g = math.sqrt(4 / (2 * eta * 10_000))
    assert learner.optimizer == FixedOGD(eta * g / 4, 1.0)
    assert learner.exploration == GaptronMix(g)
    assert tuned(Gaptron(SmoothHinge()), "only-t", bandit, rounds=10_000, max_norm=2.0).exploration == GaptronMix(0.01)
    assert tuned(Gaptron(GaptronLogistic()), "theory", full, max_norm=2.0).optimizer == FixedOGD(math.log(2) / 32, 1.0)
    assert tuned(Gaptron(GaptronHinge()), "theory", full, max_norm=2.0).optimizer == FixedOGD(0.75 / 16, 1.0)
    assert tuned(Gaptron(GaptronHinge()), "theory", full, max_norm=2.0).exploration == GaptronMix(0.0)
    with pytest.raises(UserError, match="give rounds"):
        tuned(Gaptron(), "theory", bandit, max_norm=1.0)
    with pytest.raises(UserError, match="give max_norm"):
        tuned(Gaptron(), "theory", bandit, rounds=10)


class WithARate(Loss):
    """Constant, and with a rate of its own."""

    def value(self, scores, greedy, y):
        return 1.0

    def gradient(self, scores, greedy, y, out):
        out[:] = 0.0

    def gap(self, scores, greedy):
        return 1.0

    def is_regular(self, classes):
        return False

    def smoothness(self, classes, max_norm):
        return 1.0

    def gradient_bound(self, classes, max_norm):
        return 0.0

    def gaptron_rate(self, classes, max_norm):
        return 1.0 / (classes * max_norm)


def test_a_users_loss_says_its_own_rate():
    full = FeedbackGraph.full(4)
    assert tuned(Gaptron(WithARate()), "theory", full, max_norm=2.0).optimizer == FixedOGD(1 / 8, 1.0)
    with pytest.raises(
        UserError, match=r"no rate of Gaptron's is known for Hinge\(kappa=0.5\): give the optimizer a rate of your own"
    ):
        tuned(Gaptron(Hinge()), "theory", full, max_norm=2.0)


def test_other_graphs_are_refused():
    with pytest.raises(
        UserError, match="gaptron-smh cannot play the graph 'filtering': it is made for bandit feedback"
    ):
        Online(Gaptron(), FeedbackGraph.filtering(3), features=2)
