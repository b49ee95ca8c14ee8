"""Regularity where it is claimed and counterexamples where it is not; gradients by finite differences and at
the kinks.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import reference
from gappletron import (
    Gappletron,
    Gaptron,
    GaptronHinge,
    GaptronLogistic,
    Hinge,
    LogisticBase2,
    LogisticBaseK,
    Loss,
    SmoothHinge,
    UserError,
)
from problems import LOSSES

ALL = [*LOSSES.values(), Hinge(0.2), Hinge(0.9)]


some_classes = st.integers(2, 9)


def scores(classes=some_classes):
    number = st.one_of(st.floats(-40, 40), st.sampled_from([0.0, 0.5, 1.0, -1.0]))
    return classes.flatmap(lambda K: st.lists(number, min_size=K, max_size=K)).map(np.array)


def score_pairs():
    return scores().flatmap(lambda s: st.tuples(st.just(s), scores(st.just(s.size))))


def gradient_of(loss, s, y):
    out = np.full(s.size, np.nan)
    loss.gradient(s, int(np.argmax(s)), y, out)
    return out


@given(scores(), st.sampled_from(ALL))
def test_regular_where_claimed(s, loss):
    """(K'-1)/K' l(y) + a/K' >= 1 for every y != y*, with K' = K for a regular loss."""
    K, star = loss.effective_classes(s.size), int(np.argmax(s))
    if loss.is_regular(s.size):
        assert s.size == K
    assume(not isinstance(loss, LogisticBaseK) or s.size == 2)
    a = loss.gap(s, star)
    assert 0.0 <= a <= 1.0
    for y in set(range(s.size)) - {star}:
        if isinstance(loss, Hinge):
            # Its Lemma is about the sum that the proof of Lemma 1 needs: 1 - a/K <= (K'-1)/K' l(y), K that of the
            # uniform draw.
            assert 1.0 - a / s.size <= (K - 1) / K * loss.value(s, star, y) + 1e-12
        else:
            assert (K - 1) / K * loss.value(s, star, y) + a / K >= 1.0 - 1e-12


@pytest.mark.parametrize("K", [3, 5, 12])
def test_the_base_K_logistic_loss_is_not_regular(K):
    """Erratum 1: at scores (0, 0, -inf, ...) the sum is ln 2 / ln K < 1."""
    s = np.full(K, -1e3)
    s[:2] = 0.0
    loss = LogisticBaseK()
    total = (K - 1) / K * loss.value(s, 0, 1) + loss.gap(s, 0) / K
    assert total == pytest.approx(math.log(2) / math.log(K))
    assert total < 1.0
    assert not loss.is_regular(K)


def test_the_hinge_is_not_regular_for_two_classes():
    """Erratum 3: at m* = kappa the loss of the other class is 1 + kappa, and half of that is below 1."""
    loss, s = Hinge(), np.array([0.5, 0.0])
    assert 0.5 * loss.value(s, 0, 1) + 0.5 * loss.gap(s, 0) == 0.75
    assert not loss.is_regular(2)
    assert loss.effective_classes(2) == 3.0


@given(scores(), st.sampled_from(ALL), st.data())
def test_values_and_gradients_equal_the_reference(s, loss, data):
    assume(loss in LOSSES.values())
    name = next(name for name, piece in LOSSES.items() if piece == loss)
    y, star = data.draw(st.integers(0, s.size - 1)), int(np.argmax(s))
    if name.startswith("logistic"):
        assume(np.ptp(s) < 30)  # beyond, the naive softmax has lost its digits
    assert loss.value(s, star, y) == pytest.approx(reference.loss_value(name, s, y), rel=1e-9, abs=1e-12)
    assert loss.gap(s, star) == pytest.approx(reference.gap_map(name, s), rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(gradient_of(loss, s, y), reference.loss_gradient(name, s, y), rtol=1e-9, atol=1e-12)


@given(scores(), st.sampled_from(ALL), st.data())
def test_gradients_are_derivatives(s, loss, data):
    """Central differences, away from the kinks (scores that tie for first or second place, margins at 1 or kappa)."""
    y, star = data.draw(st.integers(0, s.size - 1)), int(np.argmax(s))
    top = np.sort(s)[::-1][:3]
    m = reference.margin(s, star)[0]
    kinks = [*(-np.diff(top)), abs(m - 1), abs(m - getattr(loss, "kappa", 9.0))]
    assume(min(kinks) > 1e-3)
    step = 1e-5
    for k in range(s.size):
        up, down = s.copy(), s.copy()
        up[k] += step
        down[k] -= step
        slope = (loss.value(up, star, y) - loss.value(down, star, y)) / (2 * step)
        assert gradient_of(loss, s, y)[k] == pytest.approx(slope, abs=2e-5)


@given(score_pairs(), st.sampled_from([SmoothHinge(), LogisticBaseK(), LogisticBase2()]), st.data())
def test_subgradients_at_kinks_too(pair, loss, data):
    """l(s') >= l(s) + <g, s' - s>: convexity, which at a kink is what "gradient" means. (The hinge's split is
    at W_t.)
    """
    s, other = pair
    y = data.draw(st.integers(0, s.size - 1))
    here, there = loss.value(s, int(np.argmax(s)), y), loss.value(other, int(np.argmax(other)), y)
    assert there >= here + gradient_of(loss, s, y) @ (other - s) - 1e-9 * (1 + abs(here) + abs(there))


@given(score_pairs(), st.floats(0.05, 0.95), st.data())
def test_hinge_is_convex_given_the_learners_case(pair, kappa, data):
    """For a comparator the case split stays that of the learner's scores s."""
    s, other = pair
    loss, star, y = Hinge(kappa), int(np.argmax(s)), data.draw(st.integers(0, s.size - 1))
    if y == star and reference.margin(s, y)[0] >= kappa:
        assert loss.value(s, star, y) == 0.0
        assert not gradient_of(loss, s, y).any()
    else:
        there = max(0.0, 1 - reference.margin(other, y)[0])
        assert there >= loss.value(s, star, y) + gradient_of(loss, s, y) @ (other - s) - 1e-9


@given(scores(), st.sampled_from(ALL), st.floats(0.1, 3.0), st.data())
def test_constants(s, loss, X, data):
    """||grad||^2 <= 2 L l and ||grad|| <= G for ||x|| = X; l(0) as said."""
    K, y, star = s.size, data.draw(st.integers(0, s.size - 1)), int(np.argmax(s))
    norm = math.sqrt(gradient_of(loss, s, y) @ gradient_of(loss, s, y)) * X
    assert norm**2 <= 2 * loss.smoothness(K, X) * loss.value(s, star, y) * (1 + 1e-9) + 1e-12
    assert norm <= loss.gradient_bound(K, X) * (1 + 1e-9)
    assert loss.value(np.zeros(K), 0, 0) == pytest.approx(loss.at_zero(K))
    assert loss.value(np.zeros(K), 0, K - 1) == pytest.approx(loss.at_zero(K))


def test_exact_values_at_kinks():
    smooth, hinge = SmoothHinge(), Hinge()
    assert smooth.gap(np.array([1.0, 0.0]), 0) == 0.0
    assert smooth.gap(np.array([0.0, 0.0]), 0) == 1.0
    assert smooth.value(np.array([0.0, 0.0]), 0, 1) == 1.0
    assert hinge.gap(np.array([0.5, 0.0]), 0) == 0.0
    assert hinge.gap(np.array([np.nextafter(0.5, 0), 0.0]), 0) == 0.5
    np.testing.assert_array_equal(gradient_of(smooth, np.zeros(3), 1), [2.0, -2.0, 0.0])
    np.testing.assert_array_equal(gradient_of(hinge, np.zeros(3), 0), [-1.0, 1.0, 0.0])
    np.testing.assert_array_equal(gradient_of(hinge, np.array([0.5, 0.0, 0.0]), 0), np.zeros(3))


@pytest.mark.parametrize("loss", [LogisticBaseK(), LogisticBase2()])
def test_huge_scores_neither_overflow_nor_lose_the_loss(loss):
    s = np.array([1e300, -1e300, 0.0])
    assert loss.gap(s, 0) == 0.0
    assert loss.value(s, 0, 2) == pytest.approx(1e300 / math.log(3 if isinstance(loss, LogisticBaseK) else 2))
    assert np.isfinite(gradient_of(loss, s, 1)).all()


class Named(Loss):
    """A constant loss that names one learner."""

    gappletron_name = "gapcon"

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


def test_a_loss_names_its_learners():
    """Every other combination is named after both classes, so no two share a name."""
    assert Gappletron(Named()).name == "gapcon"
    assert Gaptron(Named()).name == "gaptron-named"
    losses = [SmoothHinge(), Hinge(), LogisticBaseK(), LogisticBase2(), GaptronLogistic(), GaptronHinge()]
    assert [Gappletron(loss).name for loss in losses] == [
        "gapsmh",
        "gaphin",
        "gaplog",
        "gaplog2",
        "gappletron-gaptron-logistic",
        "gappletron-gaptron-hinge",
    ]
    assert [Gaptron(loss).name for loss in losses] == [
        "gaptron-smh",
        "gaptron-hinge",
        "gaptron-logistic-base-k",
        "gaptron-logistic-base2",
        "gaptron-log",
        "gaptron-hin",
    ]


@pytest.mark.parametrize("kappa", [0.0, 1.0, -1.0, math.nan])
def test_kappa_is_checked(kappa):
    with pytest.raises(UserError, match="kappa"):
        Hinge(kappa)
