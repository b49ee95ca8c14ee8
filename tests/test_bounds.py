"""The theorems' right-hand sides against values computed by hand, and the high-probability ones in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gappletron import (
    AdaptiveOGD,
    ArrayStream,
    FeedbackGraph,
    Gappletron,
    Hinge,
    LogisticBaseK,
    Paper,
    ProjectedOGD,
    UserError,
    bounds,
    named,
    play,
    tuned,
)


def by_name(*args, **options):
    return {bound.theorem: bound for bound in bounds(*args, **options)}


def test_by_hand_on_the_bandit_graph():
    """K = rho = 3, smooth hinge with X = 1: L = 4, h = 2 sqrt 2, h^2 = 8, G = 2 sqrt 2, lmax = 1 + G; T = 10,000."""
    graph = FeedbackGraph.bandit(3)
    found = by_name(
        Gappletron(optimizer=ProjectedOGD(1.0)), graph, rounds=10_000, max_norm=1.0, delta=0.1, loss_sum=30.0
    )
    assert found["expectation"].value == pytest.approx(2 * math.sqrt(8) * math.sqrt(3 * 3 * 4 * 10_000))  # 3394
    assert found["expectation-separable"].value == pytest.approx(4 * math.sqrt(8) * math.sqrt(3 * 4 * 10_000) - 10)
    log, lmax = math.log(20), 1 + math.sqrt(8)
    z = 32 + 5 * lmax * log
    assert found["high-probability"].value == pytest.approx(10 * log + 5 * math.sqrt(9 * 10_000 * z))
    z = 5 * lmax * log + 32
    assert found["high-probability-separable"].value == pytest.approx(2 * log + 5 * math.sqrt(z * 3 * 10_000))
    assert found["full-expectation"].value == pytest.approx(3 * 4 * 8 / 2)
    assert found["full-expectation"].refusal == "is about full information"


def test_by_hand_where_the_constant_term_is_larger():
    """Few rounds: 2 K^2 L h^2 = 576 beats 2 h sqrt(rho K L n); with two revealing classes it is halved."""
    learner = Gappletron(optimizer=ProjectedOGD(1.0))
    assert by_name(learner, FeedbackGraph.bandit(3), rounds=100, max_norm=1.0)["expectation"].value == pytest.approx(
        576
    )
    two = FeedbackGraph.filtering(3, revealing=[0, 1])
    assert by_name(learner, two, rounds=10, max_norm=1.0)["expectation"].value == pytest.approx(288)


def test_by_hand_with_full_information():
    """The hinge with two classes: K' = 3, L = 2 X^2 = 8, h^2 = 8."""
    learner = Gappletron(Hinge(), ProjectedOGD(1.0))
    found = by_name(learner, FeedbackGraph.full(2), rounds=50, max_norm=2.0, delta=0.1, loss_sum=6.0)
    log = math.log(10)
    assert found["full-expectation"].value == pytest.approx(3 * 8 * 8 / 2)
    assert found["full-expectation-separable"].value == pytest.approx(2 * 8 * 8 - 2)
    assert found["full-high-probability"].value == pytest.approx(3 * 64 + 5 * log)
    assert found["full-high-probability-separable"].value == pytest.approx(4 * 64 + 11 / 4 * log)
    assert [found[name].refusal for name in found if name.startswith("full")] == [None] * 4


def test_a_theorem_that_does_not_apply_says_why():
    bandit, filtering = FeedbackGraph.bandit(3), FeedbackGraph.filtering(3)

    def refusal(learner, graph, theorem="expectation"):
        return by_name(learner, graph, rounds=100, max_norm=1.0)[theorem].refusal

    good = tuned(Gappletron(optimizer=ProjectedOGD(1.0)), "expectation", filtering, max_norm=1.0)
    assert refusal(good, filtering) is None
    assert "gamma" in refusal(good, filtering, "high-probability")
    assert "regular" in refusal(good.replace(loss=LogisticBaseK()), filtering)
    assert "guarantee" in refusal(good.replace(optimizer=AdaptiveOGD()), filtering)
    assert "K in place of rho" in refusal(good.replace(exploration=Paper(good.exploration.gamma)), filtering)
    on_bandit = tuned(good, "expectation", bandit, max_norm=1.0)
    assert refusal(on_bandit.replace(exploration=Paper(on_bandit.exploration.gamma)), bandit) is None
    with pytest.raises(UserError, match="about Gappletron"):
        bounds(named("perceptron"), bandit, rounds=10, max_norm=1.0)


def test_high_probability_bounds_hold_in_nearly_all_runs():
    """Separable one-hot data, K = 2, delta = .2: the share of 40 runs above the bound is at most .2.

    The runs are seeded, and stay so far below the bound that the test cannot fail by chance.
    """
    graph = FeedbackGraph.filtering(2)
    y = np.random.default_rng(0).integers(0, 2, 200_000)
    stream = ArrayStream(np.eye(2)[y], y, classes=range(2))
    for tuning in ("high-probability", "high-probability-separable"):
        learner = tuned(Gappletron(optimizer=ProjectedOGD(1.0)), tuning, graph, max_norm=1.0, delta=0.2)
        bound = by_name(learner, graph, rounds=200_000, max_norm=1.0, delta=0.2)[tuning]
        assert bound.refusal is None
        assert bound.value < 100_000
        runs = play(learner, stream, graph, repeats=40, seed=3)
        assert sum(run.mistakes > bound.value for run in runs) <= 0.2 * 40
        assert max(run.mistakes for run in runs) > bound.value / 100  # not absurdly far below either
