"""The theorems' right-hand sides against values computed by hand, and the high-probability ones in simulation."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from gappletron import (
    AdaptiveOGD,
    ArrayStream,
    DecodedLogistic,
    Exploration,
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

SHORT = 4 - 2 * math.sqrt(2)


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
    assert found["full-expectation"].refusal == "needs full information"


def test_by_hand_where_the_constant_term_is_larger():
    """Few rounds: (4 - 2 sqrt 2) K^2 L h^2 = 337 beats 2 h sqrt(rho K L n); with two revealing classes it is halved."""
    learner = Gappletron(optimizer=ProjectedOGD(1.0))
    assert by_name(learner, FeedbackGraph.bandit(3), rounds=50, max_norm=1.0)["expectation"].value == pytest.approx(
        SHORT * 288
    )
    two = FeedbackGraph.filtering(3, revealing=[0, 1])
    assert by_name(learner, two, rounds=10, max_norm=1.0)["expectation"].value == pytest.approx(SHORT * 144)


def test_by_hand_with_full_information():
    """The hinge with two classes: K' = 3, L = 2 X^2 = 8, h^2 = 8."""
    learner = Gappletron(Hinge(), ProjectedOGD(1.0))
    found = by_name(learner, FeedbackGraph.full(2), rounds=50, max_norm=2.0, delta=0.1, loss_sum=6.0)
    log = math.log(10)
    assert found["full-expectation"].value == pytest.approx(3 * 8 * 8 / 2)
    assert found["full-expectation-separable"].value == pytest.approx(2 * 8 * 8 - 2)
    assert found["full-high-probability"].value == pytest.approx(3 * 64 + 5 * log)
    assert found["full-high-probability-separable"].value == pytest.approx(4 * 64 + 11 / 4 * log)
    assert [found[name].refusal for name in found if name.startswith("full") and "ogd" not in name] == [None] * 4


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
    with pytest.raises(UserError, match="the theorems apply to Gappletron and DecodedLogistic only"):
        bounds(named("perceptron"), bandit, rounds=10, max_norm=1.0)


@pytest.mark.parametrize(
    ("graph", "like"),
    [
        ((FeedbackGraph.bandit(3),) * 100, FeedbackGraph.bandit(3)),
        ([FeedbackGraph.full(3), FeedbackGraph.bandit(3)], FeedbackGraph.bandit(3)),
        (lambda t: FeedbackGraph.filtering(3, revealing=t % 3), FeedbackGraph.filtering(3)),
        ([FeedbackGraph.full(3)] * 2, FeedbackGraph.full(3)),
    ],
    ids=["tuple", "list", "function", "full"],
)
def test_a_graph_that_changes_has_the_bounds_of_its_worst_round(graph, like):
    for tuning in ("expectation", "high-probability"):
        learner = tuned(Gappletron(optimizer=ProjectedOGD(1.0)), tuning, like, max_norm=1.0)
        fixed = bounds(learner, like, rounds=100, max_norm=1.0)
        assert bounds(learner, graph, rounds=100, max_norm=1.0) == fixed
        assert [bound.refusal for bound in fixed if bound.theorem == tuning] == [None]
    decoded = tuned(DecodedLogistic(), "theory", like, rounds=100, max_norm=1.0)
    assert bounds(decoded, graph, rounds=100, max_norm=1.0) == bounds(decoded, like, rounds=100, max_norm=1.0)


def test_a_graph_that_changes_has_the_largest_rho_and_R():
    """Label efficient has rho = R = 1, filtering R = 3, bandit rho = R = 3; K = 3, L = 4, h^2 = 8, gamma with rho."""
    changing = [FeedbackGraph.filtering(3), FeedbackGraph.bandit(3)]
    learner = tuned(Gappletron(optimizer=ProjectedOGD(1.0)), "expectation", changing[0], max_norm=1.0)
    found = by_name(learner, changing, rounds=10_000, max_norm=1.0)["expectation"]
    assert found.value == pytest.approx(2 * math.sqrt(8) * math.sqrt(3 * 3 * 4 * 10_000))
    assert found.refusal == "is proved for gamma = 8.485, and the learner has 4.899"
    mixed = [FeedbackGraph.full(3), FeedbackGraph.filtering(3)]
    assert by_name(learner, mixed, rounds=10, max_norm=1.0)["expectation"].value == pytest.approx(SHORT * 3 * 3 * 4 * 8)
    assert by_name(learner, mixed, rounds=10, max_norm=1.0)["full-expectation"].refusal == "needs full information"
    with pytest.raises(UserError, match="have different classes"):
        bounds(learner, [FeedbackGraph.bandit(3), FeedbackGraph.bandit(4)], rounds=10, max_norm=1.0)


def test_where_no_class_reveals_R_is_rho():
    """Label efficient, K = 10, T = 1,000: max{375, 1,131}, where K/Q = 10 in place of R would give 3,749."""
    learner = Gappletron(optimizer=ProjectedOGD(1.0))
    graph = FeedbackGraph.label_efficient(10)
    long, short = (by_name(learner, graph, rounds=T, max_norm=1.0)["expectation"].value for T in (1000, 100))
    assert long == pytest.approx(2 * math.sqrt(8 * 10 * 4 * 1000))
    assert short == pytest.approx(SHORT * 10 * 1 * 4 * 8)
    filtering = by_name(learner, FeedbackGraph.filtering(10), rounds=1000, max_norm=1.0)["expectation"].value
    assert filtering == pytest.approx(SHORT * 10 * 10 * 4 * 8)


@pytest.mark.parametrize("graph", ["bandit", None, 3, [FeedbackGraph.bandit(3), "bandit"], []], ids=repr)
def test_what_is_not_a_graph_is_refused(graph):
    wrong = graph[-1] if isinstance(graph, list) and graph else graph
    with pytest.raises(UserError, match=re.escape(f"{wrong!r} is not a FeedbackGraph: pass one")):
        bounds(Gappletron(), graph, rounds=100, max_norm=1.0)


def test_numbers_are_checked_whatever_the_graph():
    for graph in (FeedbackGraph.bandit(3), [FeedbackGraph.bandit(3)]):
        with pytest.raises(UserError, match="rounds"):
            bounds(Gappletron(), graph, rounds=0, max_norm=1.0)


class Uniform(Exploration):
    """Uniform play: a rule that no theorem is about."""

    gamma: float = 1.0

    def explore(self, state, plan, greedy, gap, out):
        out[:] = 1.0 / out.size
        return 1.0

    def tuned(self, gamma):
        return Uniform(gamma)


class Covered(Exploration):
    """A rule whose author has proved that it shows every label with probability gamma_t / (3 rho) or more."""

    gamma: float = 1.0

    def explore(self, state, plan, greedy, gap, out):
        out[:] = 1.0 / out.size
        return 1.0

    def tuned(self, gamma):
        return Covered(gamma)

    def theorem_refusal(self, graph):
        return None if graph.rho > 1 else "is proved for rho > 1"

    def effective_rho(self, graph):
        return 3 * graph.rho


def test_a_users_rule_is_refused_unless_it_says_what_is_proved():
    """K = rho = 3, L = 4, h = 2 sqrt 2: gamma = h sqrt(K 3 rho L) / 2, and the bound is 2 h sqrt(3 rho K L n)."""
    graph, options = FeedbackGraph.bandit(3), {"rounds": 10_000, "max_norm": 1.0}

    def found(rule, graph=graph):
        return by_name(Gappletron(optimizer=ProjectedOGD(1.0), exploration=rule), graph, **options)

    assert {bound.refusal for name, bound in found(Uniform(8.0)).items() if not name.startswith("full")} == {
        "needs the exploration rule TopUp or Paper, not Uniform(gamma=8.0)"
    }
    gamma = math.sqrt(8) * math.sqrt(3 * 3 * 3 * 4) / 2
    assert found(Covered(gamma))["expectation"].refusal is None
    value = 2 * math.sqrt(8) * math.sqrt(3 * 3 * 3 * 4 * 10_000)
    assert found(Covered(gamma))["expectation"].value == pytest.approx(value)
    assert found(Covered(gamma))["high-probability"].refusal.endswith(f"and the learner has {gamma:.4g}")
    assert found(Covered(8.0))["expectation"].refusal == f"is proved for gamma = {gamma:.4g}, and the learner has 8"
    assert found(Covered(gamma), FeedbackGraph.filtering(3))["expectation"].refusal == "is proved for rho > 1"


def test_the_papers_rule_is_covered_where_rho_is_K():
    learner = Gappletron(optimizer=ProjectedOGD(1.0), exploration=Paper(1.0))

    def found(graph):
        return by_name(learner, graph, rounds=10_000, max_norm=1.0)

    full = found(FeedbackGraph.full(3))
    assert [full[name].refusal for name in full if "ogd" not in name] == [None] * 8
    assert "extra action" in found(FeedbackGraph.label_efficient(3))["expectation"].refusal
    filtering = found(FeedbackGraph.filtering(3))["expectation"]
    assert "K in place of rho" in filtering.refusal
    assert filtering.value == pytest.approx(2 * math.sqrt(8) * math.sqrt(3 * 3 * 4 * 10_000))  # with K, not rho = 1


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
