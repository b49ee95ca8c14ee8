from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import chisquare

from gappletron import Budget, FeedbackGraph, Limits, Monitor, Player, UserError, interpreted
from gappletron.data.stream import make_chunk
from gappletron.play.limits import Clock, NoLimits, pace
from problems import GRAPHS, random_graph, small_stream

RNG = np.random.default_rng(4)
CASES = {**GRAPHS, "random": random_graph(RNG, 4), "random with extra actions": random_graph(RNG, 3, 2)}


def chunk_of(X, y):
    rows = csr_matrix(X)
    return make_chunk(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.copy(), y.astype(np.int64))


# ------------------------------------------------------------------------------------------------- the least propensity


@pytest.mark.parametrize("name", CASES)
def test_the_mixture_is_the_smallest_that_reaches_the_propensity(name):
    graph = CASES[name]
    X, y = small_stream(np.random.default_rng(1), 150, 4, graph.n_classes)
    with interpreted():
        free = Player("auto", graph, 4, seed=2)
        for least in (0.01, 0.5 / graph.rho, 1 / graph.rho):
            bound = Player("auto", graph, 4, seed=2, min_propensity=least)
            for player in (free, bound):
                player.advance(chunk_of(X, y))
            rows = X[:20]
            p = Player.from_bytes(bound.to_bytes())  # the same weights without the limit
            p.set_limits(Limits())
            for before, after in zip(p.probabilities(rows), bound.probabilities(rows), strict=True):
                assert after.sum() == pytest.approx(1)
                assert (after @ graph.visible).min() >= least - 1e-12
                uniform = np.zeros(graph.n_actions)
                uniform[list(graph.dominating_indices)] = 1 / graph.rho
                # the least e of a fine search by halves
                low, high = 0.0, 1.0
                for _ in range(60):
                    e = (low + high) / 2
                    reached = (((1 - e) * before + e * uniform) @ graph.visible).min() >= least - 1e-15
                    low, high = (low, e) if reached else (e, high)
                assert after == pytest.approx((1 - high) * before + high * uniform, abs=1e-9)


def test_more_than_a_graph_can_give_is_refused():
    graph = FeedbackGraph.bandit(["a", "b", "c"])
    with pytest.raises(UserError, match=r"needs 3 actions to reveal every label: give at most 0.333"):
        Player("auto", graph, 2, min_propensity=0.34)
    with interpreted():
        player = Player("auto", graph, 2, min_propensity=1 / 3)
        with pytest.raises(UserError, match=r"give at most 0.25"):
            player.add_class("d")
        assert player.graph is graph
        player.act([1.0, 0.5])


# --------------------------------------------------------------------------------------------------------- the budget


class Purse:
    """A budget by the docs, one round at a time."""

    def __init__(self, limit: float, length: float, by_time: bool) -> None:
        self.limit, self.length, self.by_time = limit, length, by_time
        self.window, self.spent, self.last = -1.0, 0.0, None
        # Of a window by time a twentieth has passed before it begins, with a demand that the budget suffices for.
        self.demand, self.span = (limit / 20, length / 20) if by_time else (0.0, 0.0)

    def scaled(self, p, prices, greedy: int, at: int, now: float):
        reading, after = (now, now) if self.by_time else (float(at), at + 1.0)
        window = max(self.window, math.floor(reading / self.length))
        if window != self.window:
            weight = 0.5 if self.last is not None else 1.0
            self.window, self.spent = window, 0.0
            self.demand, self.span = weight * self.demand, weight * self.span
        left = self.limit - self.spent
        asked = sum(price * q for i, (price, q) in enumerate(zip(prices, p, strict=True)) if i != greedy)
        self.demand += asked
        self.span += (after - reading) if self.last is None else min(self.length, max(0.0, after - self.last))
        self.last = after if self.last is None else max(self.last, after)
        rate = self.demand / max(1.0, self.span)
        remaining = min(self.length, (window + 1) * self.length - reading)
        factor = 1.0 if rate * remaining <= left else left / (rate * remaining)
        found = list(p)
        for i in range(len(p)):
            if i != greedy and prices[i] > 0:
                found[i] = p[i] * factor if prices[i] <= left + 1e-9 * self.limit else 0.0
                found[greedy] += p[i] - found[i]
        return found

    def pay(self, price: float) -> None:
        self.spent += price


@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("name", ["bandit", "label efficient", "random with extra actions"])
def test_the_budget_is_that_of_the_reference(name, by_time):
    graph, rng = CASES[name], np.random.default_rng(6)
    prices = {graph.actions[-1]: 0.7, graph.actions[0]: 0.25}
    budget = Budget(3.0, per="hour" if by_time else 50, prices=prices)
    X, y = small_stream(rng, 240, 4, graph.n_classes)
    with interpreted():
        player = Player("exp3-g", graph, 4, seed=1, budget=budget)
        purse = Purse(3.0, 3600.0 if by_time else 50.0, by_time)
        listed, now, spent = budget.prices_on(graph), 7e5, {}
        for t, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
            now += rng.choice([0.0, 3.0, 60.0, 900.0], p=[0.4, 0.3, 0.2, 0.1]) - (20.0 if t % 50 == 30 else 0.0)
            player.now = now
            free = Player.from_bytes(player.to_bytes())
            free.set_limits(Limits())
            asked = free.probabilities([x])[0]
            shown = player.probabilities([x])[0]
            turn = player.act(x)
            assert turn.probabilities.tolist() == shown.tolist()
            expected = purse.scaled(asked, listed, turn.greedy, t, now)
            assert shown == pytest.approx(expected, abs=1e-12)
            price = listed[turn.action] if turn.action != turn.greedy else 0.0
            purse.pay(price)
            key = purse.window
            spent[key] = spent.get(key, 0.0) + price
            player.learn(turn, label if graph.visible[turn.action, label] else -1)
    assert max(spent.values()) <= 3.0 + 1e-6
    assert player.spent == pytest.approx(sum(spent.values()))
    assert player.spent > 0.0


@pytest.mark.parametrize("name", ["bandit", "filtering", "label efficient"])
def test_a_budget_is_never_exceeded_and_well_spent(name):
    graph = CASES[name]
    X, y = small_stream(np.random.default_rng(2), 3000, 4, graph.n_classes)
    with interpreted():
        # The least propensity asks for more than there is.
        player = Player("gapsmh", graph, 4, seed=5, min_propensity=0.1, budget=Budget(20, per=500))
        before, spent = 0.0, []
        for start in range(0, 3000, 500):
            player.advance(chunk_of(X[start : start + 500], y[start : start + 500]))
            spent.append(player.spent - before)
            before = player.spent
    assert max(spent) <= 20
    assert min(spent[1:]) >= 14


def test_propensities_are_frequencies():
    """The actions of one row that comes again and again, while the budget's factor stays; chi-square, with a false
    alarm in one of a million runs."""
    graph = GRAPHS["label efficient"]
    with interpreted():
        first = Player("gapsmh", graph, 2, seed=0, min_propensity=0.3, budget=Budget(5, per=40))
        blob, counts = first.to_bytes(), np.zeros(graph.n_actions)
        expected = first.probabilities([[1.0, 0.5]])[0]
        for seed in range(1500):
            other = Player("gapsmh", graph, 2, seed=seed, min_propensity=0.3, budget=Budget(5, per=40))
            counts[other.act([1.0, 0.5]).action] += 1
    assert Player.from_bytes(blob).limits == first.limits
    kept = expected > 0
    assert not counts[~kept].any()
    assert expected[-1] == pytest.approx(5 / 40)
    assert chisquare(counts[kept], 1500 * expected[kept]).pvalue > 1e-6


def test_teaching_knows_no_limits():
    graph = GRAPHS["filtering"]
    X, y = small_stream(np.random.default_rng(2), 100, 4, 4)
    with interpreted():
        free, bound = Player("auto", graph, 4), Player("auto", graph, 4, min_propensity=0.2, budget=Budget(1))
        for player in (free, bound):
            player.teach(chunk_of(X, y))
    assert np.array_equal(free.weights, bound.weights)


def test_limits_and_the_monitor_agree():
    with interpreted():
        player = Player("auto", GRAPHS["filtering"], 4, monitor=True, min_propensity=0.1, budget=Budget(10, per=100))
        X, y = small_stream(np.random.default_rng(2), 300, 4, 4)
        player.advance(chunk_of(X, y))
    report = Monitor(player).report()
    assert 0 < report.spent == report.explored <= 30


def ask(player, rounds, now, step=1.0):
    """Play rounds at these times; what exploration has cost in them."""
    before = player.spent
    for t in range(rounds):
        player.now = now + step * t
        player.act([1.0, 0.5])
    return player.spent - before


def asking(budget, **options):
    """A player that asks for a label in every round, where the budget lets it."""
    options = {"min_propensity": 1.0, "seed": 1, **options}
    return Player("gapsmh", FeedbackGraph.label_efficient(2), 2, budget=budget, **options)


HOUR = 1_800_000_000.0  # where an hour begins
YEARS = 5 * 365 * 86_400.0


@pytest.mark.parametrize("jump", [YEARS, 2.5 * 3600.0])
@pytest.mark.parametrize("readings", [1, 3])
def test_a_wrong_reading_of_the_clock_does_not_end_exploration(jump, readings):
    # The jump counts as a window in which nothing was asked for, so more is spent at first, and never too much.
    with interpreted():
        right, wrong = asking(Budget(50, per="hour")), asking(Budget(50, per="hour"))
        first = [ask(player, 600, HOUR) for player in (right, wrong)]
        assert first[0] == first[1]
        during = ask(wrong, readings, HOUR + jump)
        later = [ask(player, 600, HOUR + 600.0 + 3600.0 * h) for player in (right, wrong) for h in range(3)]
        assert during + first[1] + later[3] <= 50.0  # the hour is the same one: what was spent in it counts
        for without, with_jump in zip(later[:3], later[3:], strict=True):
            assert without / 2 <= with_jump <= 50.0
        reports = [player.report_limits(HOUR + 3.0 * 3600.0) for player in (right, wrong)]
    assert [report.clock_resets for report in reports] == [0, 1]
    assert reports[1].spent_in_all == wrong.spent


def test_a_clock_that_is_set_back_a_little_opens_no_window_again():
    with interpreted():
        player = asking(Budget(5, per="hour"))
        ask(player, 20, HOUR + 3590.0, step=0.1)
        spent = player.report_limits(HOUR + 3600.0).spent
        ask(player, 40, HOUR + 3600.0)
        before = player.report_limits(HOUR + 3640.0).spent
        ask(player, 40, HOUR + 3590.0, step=0.1)  # ten seconds back, into the hour before
        after = player.report_limits(HOUR + 3640.0)
    assert (spent, after.clock_resets) == (0.0, 0)
    assert before <= after.spent <= 5.0


def test_a_budget_that_is_changed_again_and_again_is_no_larger():
    with interpreted():
        player = asking(Budget(5, per="hour"))
        for k in range(12):
            ask(player, 300, HOUR + 300.0 * k)
            player = Player.from_bytes(player.to_bytes())
            player.set_limits(Limits(1.0, Budget(5 + k % 2, per="hour")))
        assert 3.0 <= player.spent <= 6.0
        assert player.report_limits(HOUR + 3599.0).spent == player.spent


@pytest.mark.parametrize("first", [Budget(20, per="day"), Budget(20, per="hour"), Budget(20, per=200)])
@pytest.mark.parametrize("then", [Budget(5, per="day"), Budget(5, per="hour"), Budget(5, per=100)])
def test_what_was_spent_counts_for_another_window(first, then):
    """All of it counts until the window is over that the last round is in, by the new way of counting."""
    with interpreted():
        player = asking(first)
        ask(player, 130, HOUR, step=20.0)
        spent = player.spent
        assert spent > 0.0
        player.set_limits(Limits(1.0, then))
        assert player.report_limits(HOUR + 2600.0).spent == spent
        assert ask(player, 10, HOUR + 2600.0) <= max(0.0, 5.0 - spent)
        ask(player, 400, HOUR + 86_400.0)
        assert player.spent > spent + 3.0


@pytest.mark.parametrize("name", ["bandit", "filtering", "label efficient"])
def test_what_a_budget_leaves_of_the_least_propensity(name):
    """Compared with the probabilities of every round; a window counts twice the one before."""
    graph, rng = CASES[name], np.random.default_rng(8)
    X, y = small_stream(rng, 250, 4, graph.n_classes)
    total = count = 0.0
    with interpreted():
        player = Player("gapsmh", graph, 4, seed=3, min_propensity=0.2, budget=Budget(6, per=100))
        assert player.report_limits(0.0).propensity is None
        for t, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
            turn = player.act(x)
            if t % 100 == 0:
                total, count = total / 2, count / 2
            total, count = total + min(0.2, (turn.probabilities @ graph.visible).min()), count + 1.0
            player.learn(turn, label if graph.visible[turn.action, label] else -1)
            assert player.report_limits(0.0).propensity == pytest.approx(total / count, abs=1e-9)
    assert total / count < 0.15


def test_a_burst_at_the_start_finds_money():
    """A hundred decisions per second and a budget by the hour: nothing was spent of it in the first minute."""
    with interpreted():
        burst = asking(Budget(50, per="hour"), min_propensity=0.05)
        assert 3.0 <= ask(burst, 4600, HOUR, step=0.01) <= 25.0
        steady = asking(Budget(50, per="hour"), min_propensity=0.05)
        shares = [ask(steady, 900, HOUR + 900.0 * quarter) for quarter in range(4)]
    assert 45.0 <= sum(shares) <= 50.0
    assert min(shares) >= 5.0


# --------------------------------------------------------------------------------------------------------- the surface


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Budget(-1), "at least 0"),
        (lambda: Budget(1, per="week"), "'hour' or 'day'"),
        (lambda: Budget(1, per=0), "at least 1"),
        (lambda: Budget(1, prices=[1]), "mapping"),
        (lambda: Budget(1, prices={"query": "much"}), "must be a number"),
        (lambda: Budget.parse("many/day"), "as in 50/1000 or 50/day"),
        (lambda: Budget.parse("50"), "as in 50/1000 or 50/day"),
        (lambda: Budget.parse("50/week"), "'hour' or 'day'"),
        (lambda: Budget.parse("-5/day"), "at least 0"),
        (lambda: Limits(min_propensity=2), "at most 1"),
        (lambda: Limits(budget=50), "is not a budget"),
        (lambda: Player("auto", FeedbackGraph.bandit(3), 2, min_propensity=2), "at most 1"),
        (lambda: Player("auto", FeedbackGraph.bandit(3), 2, budget=Budget(1, prices={"x": 1})), "no action"),
        (lambda: Limits.from_dict({"min_propensity": 0.1}), "damaged"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with interpreted(), pytest.raises(UserError, match=message):
        make()


def test_limits_are_saved_as_json():
    limits = Limits(0.01, Budget(2.5, "day", {"query": 0.05, 3: 1}))
    assert Limits.from_dict(json.loads(json.dumps(limits.to_dict()))) == limits
    assert len({limits, Limits.from_dict(limits.to_dict()), Limits()}) == 2
    assert Limits().piece() == NoLimits()
    assert Budget.parse("50/1000") == Budget(50, 1000)


def test_no_probability_is_rounded_above_1():
    """A spent budget moves all of an action's probability to the greedy class; that sum may be rounded up."""
    rng, raw = np.random.default_rng(0), 0.0
    for _ in range(300):
        p = rng.dirichlet(np.full(4, 0.3))
        greedy, given = int(p.argmax()), p.tolist()
        others = sum(given[:greedy] + given[greedy + 1 :])
        raw = max(raw, given[greedy] + others)
        spending = SimpleNamespace(
            asked=np.zeros(2), window=np.array([0.0, -1.0]), spent=np.array([5.0, 5.0, 0.0]), demand=np.zeros(3)
        )
        assert pace(spending, np.ones(4), 5.0, Clock(100.0, 3.0, 4.0, 0.0), greedy, p)
        assert p.max() <= 1.0
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.count_nonzero(p) == 1
    assert raw > 1.0  # as the plain sum is at times
