from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle

import numpy as np
import pytest

import naive_monitor as naive
from gappletron import FeedbackGraph, Monitor, Online, Player, UserError, Watch, interpreted
from gappletron.data.stream import make_chunk
from gappletron.play.monitor_state import bound_total
from problems import GRAPHS, random_graph, small_stream

WINDOW = 80
BLOCK = WINDOW // 8


class Logged:
    """A player, and the naive list of what it played."""

    def __init__(self, graph: FeedbackGraph, seed: int, alpha: float = 0.2) -> None:
        with interpreted():
            self.player = Player("auto", graph, 5, seed=seed, monitor=Watch(window=WINDOW, alpha=alpha))
        self.rounds: list[naive.Played] = []
        self.rng = np.random.default_rng(seed)
        self.waiting: list = []

    def play(self, x, label: int, graph: FeedbackGraph | None = None, follows: bool = False) -> None:
        if follows:
            played_on = self.player.graph if graph is None else graph
            p = self.rng.dirichlet(np.full(played_on.n_actions, 0.7))
            turn = self.player.follow(x, int(self.rng.choice(p.size, p=p)), p, graph)
        else:
            turn = self.player.act(x, graph)
        own = turn.own_probabilities.tolist() if follows else None
        played = naive.Played(turn.round, turn.graph, turn.probabilities.tolist(), own, turn.greedy, turn.action)
        played.is_judged = not played.shows()
        self.rounds.append(played)
        self.waiting.append((turn, played, label))

    def answer(self, place: int) -> None:
        turn, played, label = self.waiting.pop(place)
        seen = bool(turn.graph.visible[turn.action, label])
        self.player.learn(turn, label if seen else -1)
        played.label, played.is_judged = (label if seen else None), True

    def check(self, alpha: float) -> None:
        """Every number of a report, against the list."""
        report = Monitor(self.player).report(alpha)
        judged = [r for r in self.rounds if r.is_judged]
        assert (report.rounds, report.judged) == (len(self.rounds), len(judged))
        assert report.labels_seen == sum(r.is_seen for r in self.rounds)
        assert report.explored == sum(r.action != r.greedy for r in self.rounds)
        block = self.rounds[-1].at // BLOCK
        start = max(0, block - 7)
        recent = [r for r in self.rounds if r.at // BLOCK >= start]
        assert (report.window.first, report.window.last) == (start * BLOCK, self.rounds[-1].at)
        window_alpha = alpha / ((start + 1) * (start + 2))
        costly = any(r.graph.has_costs for r in self.rounds)
        for who, error, cost in (
            ("policy", naive.policy_error, naive.policy_cost),
            ("greedy", naive.greedy_error, naive.greedy_cost),
        ):
            rates, window = getattr(report, who), getattr(report.window, who)
            for found, value, rounds, level in (
                (rates.error, error, self.rounds, alpha),
                (rates.cost, cost, self.rounds, alpha),
                (window.error, error, recent, window_alpha),
                (window.cost, cost, recent, window_alpha),
            ):
                if found is None:
                    assert not costly
                    continue
                compare(found, rounds, value, level)
            self.check_classes(rates.classes, who, alpha)

    def check_classes(self, classes, who: str, alpha: float) -> None:
        judged = [r for r in self.rounds if r.is_judged]
        seen = [r for r in judged if r.is_seen]
        for k, found in enumerate(classes.values()):
            missed, hit = (naive.class_value(k, who, is_hit) for is_hit in (False, True))
            (_, m_low, m_high), (_, h_low, h_high) = (
                naive.total(self.rounds, value, alpha / 4) for value in (missed, hit)
            )
            if judged:
                assert found.share.low == pytest.approx((m_low + h_low) / len(judged), abs=1e-9)
                assert found.share.high == pytest.approx((m_high + h_high) / len(judged), abs=1e-9)
            if m_high + h_high > 0:
                low = m_low / (m_low + h_high) if m_low + h_high > 0 else 0.0
                high = m_high / (m_high + h_low) if m_high + h_low > 0 else 1.0
                assert (found.error.low, found.error.high) == pytest.approx((low, high), abs=1e-9)
            predicted = math.fsum(naive.share(r, r.action, k, who) for r in judged)
            if predicted > 0:
                _, low, high = naive.total(self.rounds, hit, alpha / 2)
                bounds = 1 - high / predicted, 1 - low / predicted
                assert (found.precision_error.low, found.precision_error.high) == pytest.approx(bounds, abs=1e-9)
            labels = sum(r.label == k for r in seen)
            if seen:
                assert found.share.naive == pytest.approx(labels / len(seen))
            if labels:
                wrong = math.fsum(1 - naive.share(r, r.action, k, who) for r in seen if r.label == k)
                assert found.error.naive == pytest.approx(wrong / labels)


def compare(found, rounds, value, alpha: float) -> None:
    judged = [r for r in rounds if r.is_judged]
    seen = [r for r in judged if r.is_seen]
    if not judged:
        assert found.value is None
        return
    expected = np.array(naive.total(rounds, value, alpha / 2)) / len(judged)
    assert (found.value, found.low, found.high) == pytest.approx(tuple(expected), abs=1e-9, rel=1e-9)
    if seen:
        assert found.naive == pytest.approx(math.fsum(value(r, r.action, r.label) for r in seen) / len(seen))


RNG = np.random.default_rng(11)
COSTS = {("spam", "ham"): 10, ("ham", "spam"): 3}
CASES = {
    **GRAPHS,
    "random": random_graph(RNG, 4),
    "random with extra actions": random_graph(RNG, 3, 2),
    "weak": FeedbackGraph([[0, 0, 0], [0, 1, 1], [1, 0, 0]]),
    "costs": FeedbackGraph.apple_tasting(costs=COSTS),
    "bandit costs": FeedbackGraph.bandit(3, costs=RNG.random((3, 3)).round(2) * 4),
    "random costs": random_graph(RNG, 3, 1).with_costs(RNG.random((4, 3)).round(2)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("delayed", [False, True])
def test_the_report_is_that_of_the_formulas(name, delayed):
    """On every preset and on random graphs: with late, disordered and missing feedback, while following another's
    decisions, and with a class that is added."""
    graph, rng = CASES[name], np.random.default_rng(5)
    X, y = small_stream(rng, 170, 5, graph.n_classes)
    logged = Logged(graph, seed=3)
    for t, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        logged.play(x, label, follows=delayed and t % 3 == 2)
        while logged.waiting and (not delayed or rng.random() < 0.55):
            logged.answer(int(rng.integers(len(logged.waiting))))
        if delayed and t % 40 == 7 and logged.waiting:
            logged.waiting.pop(0)  # forgotten
        if delayed and t == 90:
            logged.player.add_class("new", reveals=["new"], revealed_by=["new"])
        if t in (3, 60, 169):
            logged.check(alpha=0.1)


def test_graphs_and_costs_that_change():
    rng = np.random.default_rng(8)
    base = random_graph(rng, 3, 1)
    others = [FeedbackGraph.label_efficient(3), base.with_costs(rng.random((4, 3)) * 5), base]
    X, y = small_stream(rng, 120, 5, 3)
    logged = Logged(base, seed=1)
    for t, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        # costs come late: until then a cost is a mistake
        logged.play(x, label, graph=others[rng.integers(3)] if t > 50 else others[0 if t % 2 else 2])
        if rng.random() < 0.8 and logged.waiting:
            logged.answer(int(rng.integers(len(logged.waiting))))
        if t in (49, 52, 119):
            logged.check(alpha=0.1)


def test_what_waits_could_hide_everything():
    """On the bandit graph a greedy class other than the action may be right or wrong in every round that waits."""
    graph = FeedbackGraph.bandit(3)
    logged = Logged(graph, seed=0)
    X, y = small_stream(np.random.default_rng(0), 60, 5, 3)
    for x, label in zip(X, y.tolist(), strict=True):
        logged.play(x, label, follows=True)
    logged.check(0.1)
    report = Monitor(logged.player).report()
    assert (report.judged, report.policy.error.value) == (0, None)
    while logged.waiting:
        logged.answer(0)
    logged.check(0.1)


def test_a_turn_that_is_learned_from_twice_is_judged_once():
    with interpreted():
        player = Player("auto", FeedbackGraph.bandit(3), 2, monitor=True)
        turn = player.act([1.0, 0.5])
        player.learn(turn, turn.action)
        player.learn(turn, turn.action)
    assert Monitor(player).report().judged == 1


def test_a_watch_that_begins_later_knows_nothing_of_before():
    graph = FeedbackGraph.bandit(3)
    with interpreted():
        player = Player("auto", graph, 2, seed=1)
        early = [player.act([1.0, 0.5]) for _ in range(30)]
        player.begin_watch(Watch(window=80))
        player.learn(early[0], -1)
        assert Monitor(player).report().rounds == 0
        turn = player.act([1.0, 0.5])
        for late in early[1:]:
            player.learn(late, -1)
        assert (Monitor(player).report().rounds, Monitor(player).report().judged) == (1, 0)
        player.learn(turn, turn.action)
        report = Monitor(Player.from_bytes(player.to_bytes())).report()
        with pytest.raises(UserError, match="watched already"):
            player.begin_watch()
    assert (report.judged, report.window.first, report.window.last) == (1, 30, 30)


# ------------------------------------------------------------------------------------------------------------ same bits


def chunk_of(X, y, start, stop):
    n, d = X[start:stop].shape
    return make_chunk(np.arange(n + 1) * d, np.tile(np.arange(d), n), X[start:stop].reshape(-1), y[start:stop])


def one_by_one(player, graph, X, y):
    for x, label in zip(X, y.tolist(), strict=True):
        turn = player.act(x)
        player.learn(turn, label if graph.visible[turn.action, label] else -1)


@pytest.mark.parametrize("name", ["filtering", "random with extra actions", "costs"])
def test_every_way_of_playing_gives_the_same_bits(name, tmp_path):
    graph = CASES[name]
    X, y = small_stream(np.random.default_rng(2), 400, 5, graph.n_classes)

    def new():
        return Player("auto", graph, 5, seed=7, monitor=Watch(window=WINDOW), min_propensity=0.05)

    whole = new()
    whole.advance(chunk_of(X, y, 0, 400))
    single = new()
    one_by_one(single, graph, X[:150], y[:150])
    single.save(tmp_path / "player.npz")
    single = copy.copy(pickle.loads(pickle.dumps(Player.load(tmp_path / "player.npz"))))
    one_by_one(single, graph, X[150:], y[150:])
    chunks = new()
    for start in range(0, 400, 37):
        chunks.advance(chunk_of(X, y, start, min(400, start + 37)))
    with interpreted():
        plain = new()
        plain.advance(chunk_of(X, y, 0, 400))
    for other in (single, chunks, plain):
        assert other.engine.watched == whole.engine.watched
        assert Monitor(other).report() == Monitor(whole).report()


def test_damaged_files():
    with interpreted():
        player = Player("auto", FeedbackGraph.bandit(3), 2, monitor=Watch(window=16))
        for _ in range(20):
            player.act([1.0, 0.5])
    header, arrays = player.engine.describe()
    header = json.loads(json.dumps(header))
    assert Player.build(header, arrays).rounds == 20
    for name, place, value in (("place", 0, 7), ("place", 2, 10**9), ("drawn", 0, 256), ("drawn", 1, 60)):
        damaged = {key: array.copy() for key, array in arrays.items()}
        damaged[f"watch.{name}"][place] = value
        with pytest.raises(UserError, match="watch does not fit"):
            Player.build(header, damaged)
    with pytest.raises(UserError, match="the watch is not one"):
        Player.build(header | {"watch": header["learner"]}, arrays)


# ------------------------------------------------------------------------------------------------- the curve and drift


def test_the_curve_is_thinned_and_holds_what_was_known():
    graph = GRAPHS["filtering"]
    X, y = small_stream(np.random.default_rng(4), 7000, 5, 4)
    player = Player("auto", graph, 5, seed=1, monitor=Watch(window=WINDOW), min_propensity=0.05)
    counts = {}
    for start in range(0, 7000, 500):
        player.now = float(start)
        player.advance(chunk_of(X, y, start, start + 500))
        counts[start + 500] = Monitor(player).report(0.05)
    points = Monitor(player).curve
    assert len(points) <= 257
    rounds = [point["round"] for point in points]
    assert rounds == sorted(set(rounds))
    assert (rounds[-1], set(np.diff(rounds[:-1]))) == (7000, {40})
    for point in points:
        if point["round"] in counts:
            report = counts[point["round"]]
            for who in ("policy", "greedy"):
                error = getattr(report, who).error
                assert point[who] == pytest.approx([error.value, error.low, error.high, error.naive], abs=1e-12)
            assert (point["labels_seen"], point["explored"]) == (report.labels_seen, report.explored)
            assert point["time"] in (point["round"], point["round"] - 500.0)


def drifting(player, graph, rng, rates, rounds: int) -> list:
    """Feedback on rounds whose greedy class is wrong with these probabilities; the alarm after each block."""
    alarms = []
    for rate in rates:
        for _ in range(rounds):
            turn = player.act([1.0])
            label = turn.greedy if rng.random() >= rate else (turn.greedy + 1) % graph.n_classes
            player.learn(turn, label)
            if player.rounds % 100 == 1:
                alarms.append(Monitor(player).report().alarm)
    return alarms


def test_the_alarm_follows_the_formulas():
    """Full information: only chance is between what happened and the probabilities."""
    graph, rng = FeedbackGraph.full(3), np.random.default_rng(0)
    with interpreted():
        player = Player("gapsmh", graph, 1, monitor=Watch(window=800, alpha=0.05))
        alarms = drifting(player, graph, rng, (0.05, 0.05, 0.3, 0.05), 1600)
    on = [place for place, alarm in enumerate(alarms) if alarm is not None]
    assert on
    assert min(on) > 32
    assert max(on) < 60
    first = alarms[on[0]]
    assert first.since == 100 * on[0]
    # the last window, and the best of those before it, by the formulas
    assert first.error[0] > first.best[1]


def test_the_bounds_of_a_window_for_the_alarm():
    """Without late feedback: the bounds of the hidden errors, then those of the mean of probabilities."""
    graph, rng = GRAPHS["filtering"], np.random.default_rng(3)
    X, y = small_stream(rng, 191, 5, 4)
    logged = Logged(graph, seed=3, alpha=0.2)
    windows = []
    for t, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        logged.play(x, label)
        logged.answer(0)
        if t % BLOCK == 0 and t >= WINDOW:
            b = t // BLOCK - 8
            alpha = 0.2 / ((b + 1) * (b + 2)) / 4
            _, least, most = naive.total(logged.rounds[t - WINDOW : t], naive.greedy_error, alpha)
            windows.append(naive.mean_bounds(least, most, WINDOW, alpha))
            alarm = logged.player.engine.watched.tuple.alarm
            assert (alarm[3], alarm[4]) == pytest.approx(windows[-1], abs=1e-9)
            if len(windows) > 8:
                assert tuple(alarm[:2]) == pytest.approx(min(windows[:-8], key=lambda bounds: bounds[1]), abs=1e-9)


# ---------------------------------------------------------------------------------------------------------- the surface


def test_a_report_is_json_and_prints():
    with interpreted():
        player = Player("auto", FeedbackGraph.apple_tasting(costs=COSTS), 2, monitor=Watch(window=16))
        X, y = small_stream(np.random.default_rng(0), 60, 2, 2)
        player.advance(chunk_of(X, y, 0, 60))
    report = Monitor(player).report(0.1)
    again = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert list(again)[:6] == ["rounds", "judged", "labels_seen", "explored", "actions", "alpha"]
    assert list(again)[6:] == [
        "policy",
        "greedy",
        "window",
        "alarm",
        "spent",
        "restarts",
        "restart_count",
        "bound",
        "unjudged",
        "warning",
    ]
    assert again["policy"]["classes"]["ham"]["error"]["low"] == report.policy.classes["ham"].error.low
    assert "classes" not in again["window"]["policy"]
    assert again["greedy"]["cost"]["high"] == report.greedy.cost.high
    text = str(report)
    assert text.splitlines()[0].startswith("60 rounds, 60 judged")
    assert "greedy error at ham" in text


def test_the_plot_is_drawn(tmp_path):
    with interpreted():
        player = Player("auto", GRAPHS["filtering"], 5, monitor=True)
        X, y = small_stream(np.random.default_rng(0), 60, 5, 4)
        player.advance(chunk_of(X, y, 0, 60))
    figure = Monitor(player).plot(tmp_path / "error.svg")
    assert (tmp_path / "error.svg").read_text().count("<path") > 10
    assert len(figure.axes[0].lines) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Watch(window=100), "give a multiple of 8"),
        (lambda: Watch(window=0), "at least 8"),
        (lambda: Watch(alpha=0.0), "above 0"),
        (lambda: Player("auto", FeedbackGraph.bandit(3), 2, monitor="yes"), "is not a watch"),
        (lambda: Monitor(Player("auto", FeedbackGraph.bandit(3), 2)), "make it with monitor=True"),
        (lambda: Monitor(Player("auto", FeedbackGraph.bandit(3), 2, monitor=True)).report(0.9), "at most 0.5"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with interpreted(), pytest.raises(UserError, match=message):
        make()


def test_online_keeps_the_watch_of_its_player(tmp_path):
    with interpreted():
        model = Online.from_player(Player("auto", FeedbackGraph.bandit(3), 2, monitor=True))
        receipt = model.act([1.0, 0.5])
        model.save(tmp_path / "model.npz")
        again = Online.load(tmp_path / "model.npz")
        again.learn(receipt.id, receipt.action)
    report = Monitor(again.player).report()
    assert (report.rounds, report.judged, report.labels_seen) == (1, 1, 1)
    assert bound_total(again.player.engine.watched.tuple, 0, 9, 1.0) == (0.0, 0.0)


def test_rounds_without_feedback_are_counted_and_make_the_interval_of_all_rounds_wider():
    """Every label is shown, and feedback comes only where the prediction was right: it says nothing of the others."""
    graph, rng = FeedbackGraph.full(3), np.random.default_rng(5)
    with interpreted():
        player, mistakes = Player("auto", graph, 5, monitor=Watch(window=WINDOW)), 0
        for _ in range(60):
            y = int(rng.integers(3))
            turn = player.act(rng.standard_normal(5))
            mistakes += turn.action != y
            if turn.action == y:
                player.learn(turn, y)
    report = Monitor(player).report()
    n, J = 60, 60 - mistakes
    assert (report.rounds, report.judged, report.unjudged) == (n, J, mistakes)
    assert 0 < mistakes < n
    for rates in (report.policy, report.greedy, report.window.policy):
        low, high = rates.error.low, rates.error.high
        assert rates.error_of_all == pytest.approx((low * J / n, (high * J + n - J) / n))
    assert report.policy.error.high == 0.0  # of the judged rounds: only good news was told
    low, high = report.policy.error_of_all
    assert low <= mistakes / n <= high
    assert f"{mistakes} rounds have had no feedback. With them, whatever they were, the error of all rounds is" in str(
        report
    )
    assert report.to_dict()["policy"]["error_of_all"] == [low, high]
    assert report.to_dict()["unjudged"] == mistakes


def test_labels_that_depend_on_the_action_break_the_interval():
    """Label 1 if it is shown, else 0: every prediction is wrong, and the interval says at most a fifth of them.

    That the least propensity shows 160 or more of 800 labels has a probability below 1e-17; 80 are expected.
    """
    graph = FeedbackGraph.filtering(2, revealing=0)
    with interpreted():
        player = Player("gapsmh", graph, 1, monitor=True, min_propensity=0.1)
        for _ in range(800):
            turn = player.act([1.0])
            player.learn(turn, 1 if turn.action == 0 else -1)  # where it is hidden it is 0, and the action was 1
    assert Monitor(player).report().policy.error.high < 0.35


def test_a_report_lists_restarts_and_warns():
    """Label efficient play that never asks: nothing is known of its error, and nothing changes by itself."""
    graph = FeedbackGraph.label_efficient(3)
    with interpreted():
        player = Player("auto", graph, 5, monitor=True)
        X, y = small_stream(np.random.default_rng(0), 30, 5, 3)
        player.advance(chunk_of(X, y, 0, 30))
        for _ in range(20):
            player.reset()
    report = Monitor(player).report()
    assert (len(report.restarts), report.restart_count) == (16, 20)
    assert "The learner restarted lately after rounds 30, 30, 30 and 30, because it was reset." in str(report)
    assert report.to_dict()["restarts"][0] == {"round": 30, "reason": "reset"}
    assert report.to_dict()["warning"] is None
    few = dataclasses.replace(report, judged=1000, labels_seen=50)
    assert few.warning == few.to_dict()["warning"] == str(few).splitlines()[-1]
    assert few.warning.startswith("Only 50 labels were seen in 1,000 rounds")
    for enough in ({"judged": 999}, {"labels_seen": 51}):
        assert dataclasses.replace(few, **enough).warning is None
