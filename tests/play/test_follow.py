from __future__ import annotations

import copy

import numpy as np
import pytest

from gappletron import Budget, FeedbackGraph, Monitor, Player, UserError, Watch, interpreted
from gappletron.play.turns import ACTION, GREEDY, RATE, ROUND, SQUARED, build_turn, check_records
from problems import GRAPHS, small_stream


def feedback(turn, label: int) -> int:
    return label if turn.graph.visible[turn.action, label] else -1


@pytest.mark.parametrize("name", ["bandit", "filtering", "label efficient"])
@pytest.mark.parametrize("learner", ["auto", "gapsmh"])
def test_a_copy_that_follows_learns_the_same(name, learner):
    """Fed its own decisions, a player becomes what it is without following: weights, random state, watch."""
    graph = GRAPHS[name]
    X, y = small_stream(np.random.default_rng(3), 120, 5, graph.n_classes)
    with interpreted():
        first, shadow = (Player(learner, graph, 5, seed=4, monitor=Watch(window=80)) for _ in range(2))
        for x, label in zip(X, y.tolist(), strict=True):
            turn = first.act(x)
            other = shadow.follow(x, turn.action, turn.probabilities)
            assert (other.greedy, other.round, other.rate) == (turn.greedy, turn.round, turn.rate)
            assert other.own_probabilities.tolist() == turn.probabilities.tolist()
            first.learn(turn, feedback(turn, label))
            shadow.learn(other, feedback(turn, label))
        assert np.array_equal(first.weights, shadow.weights)
        assert first.act(X[0]).action == shadow.act(X[0]).action  # one draw per round, followed or not
    for which in ("greedy", "window"):
        mine, theirs = (getattr(Monitor(player).report(), which) for player in (first, shadow))
        if which == "window":
            mine, theirs = mine.greedy, theirs.greedy
        assert mine == theirs  # the greedy class is the same; the policy is judged by its whole distribution


def test_compiled_and_interpreted_follow_alike():
    graph = GRAPHS["filtering"]
    X, y = small_stream(np.random.default_rng(3), 60, 5, 4)
    rng = np.random.default_rng(0)
    given = [rng.dirichlet(np.ones(4)) for _ in X]
    actions = [int(rng.choice(4, p=p)) for p in given]

    def play():
        player = Player("auto", graph, 5, seed=4, monitor=Watch(window=80), min_propensity=0.05)
        for x, label, p, action in zip(X, y.tolist(), given, actions, strict=True):
            turn = player.follow(x, action, p, greedy=1 if action == 2 else None)
            player.learn(turn, feedback(turn, label))
        return player

    compiled = play()
    with interpreted():
        plain = play()
    assert compiled.engine.watched == plain.engine.watched
    assert np.array_equal(compiled.weights, plain.weights)


def test_the_own_policy_is_estimated_from_the_decisions_of_another():
    """A shadow that never acts: its expected error is inside of its interval, at the end of a run."""
    graph, rng = FeedbackGraph.filtering(3), np.random.default_rng(1)
    X, y = small_stream(rng, 600, 5, 3)
    true = 0.0
    with interpreted():
        shadow = Player("gapsmh", graph, 5, seed=1, monitor=Watch(window=80))
        for x, label in zip(X, y.tolist(), strict=True):
            p = np.array([0.4, 0.3, 0.3])
            turn = shadow.follow(x, int(rng.choice(3, p=p)), p)
            true += 1.0 - turn.own_probabilities[label]
            shadow.learn(turn, feedback(turn, label))
    error = Monitor(shadow).report(1e-6).policy.error  # a false alarm in one of a million runs
    assert error.low <= true / 600 <= error.high
    assert error.width < 0.6


def test_a_given_greedy_class_stands_for_the_own_one():
    with interpreted():
        player = Player("auto", FeedbackGraph.bandit(3), 2, monitor=True)
        turn = player.follow([1.0, 0.5], 2, [0.2, 0.2, 0.6], greedy=2)
        player.learn(turn, 2)
    assert turn.greedy == 2
    report = Monitor(player).report()
    assert (report.explored, report.greedy.error.value) == (0, 0.0)


def test_the_record_of_a_turn_that_follows():
    with interpreted():
        player = Player("auto", FeedbackGraph.bandit(3), 2)
        plain = copy.copy(player).act([1.0, 0.5])
        turn = player.follow([1.0, 0.5], 1, [0.1, 0.8, 0.1])
    assert not plain.is_following
    assert turn.is_following
    assert turn.record.nbytes == plain.record.nbytes + 8 * 3
    # what a file needs to restore it
    x = turn.x
    assert (x.indices.tolist(), x.values[0]) == ([0, 1, 2], 1.0)
    head = {ROUND: turn.round, ACTION: turn.action, GREEDY: turn.greedy, RATE: turn.rate, SQUARED: x.squared}
    again = build_turn(
        turn.graph, turn.index, head, turn.probabilities, turn.scores, turn.own_probabilities, x[:2], turn.kept
    )
    assert check_records(again.graph, 3, turn.kept.size, again.record, np.array([0]), np.array([again.record.size]))
    assert again.record.tolist() == turn.record.tolist()
    other = copy.copy(player)
    with interpreted():
        player.learn(turn, 1)
        other.learn(again, 1)
    assert np.array_equal(player.weights, other.weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, [0.2, 0.2, 0.6]), "at most 2"),
        ((0, [0.0, 0.4, 0.6]), "has the probability 0"),
        ((0, [0.5, 0.5]), "3 numbers from 0 to 1, one for each action"),
        ((0, [0.5, 0.5, 0.5]), "add up to 1"),
        ((0, [0.5, float("nan"), 0.5]), "add up to 1"),
        ((0, "abc"), "3 numbers"),
        ((0, [0.2, 0.2, 0.6], None, 3), "at most 2"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with interpreted():
        player = Player("auto", FeedbackGraph.bandit(3), 2)
        with pytest.raises(UserError, match=message):
            player.follow([1.0, 0.5], *arguments)
    assert player.rounds == 0


def test_the_budget_of_a_shadow_counts_what_its_own_policy_would_cost():
    """Not the queries of the one that decides, who asks for every label here."""
    graph, rng = FeedbackGraph.label_efficient(3), np.random.default_rng(2)
    X, y = small_stream(rng, 400, 5, 3)
    p = np.array([0.01, 0.01, 0.01, 0.97])
    budget = Budget(10, per=100)
    expected, window = 0.0, []
    with interpreted():
        shadow = Player("gapsmh", graph, 5, seed=1, budget=budget)
        for t, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
            if t % 100 == 0:
                window.append(0.0)
            turn = shadow.follow(x, 3, p)
            price = float(turn.own_probabilities[3])  # a query costs 1, a class nothing
            expected += price
            window[-1] += price
            shadow.learn(turn, label)
            assert shadow.report_limits(0.0).spent == pytest.approx(window[-1] if t % 100 < 99 else 0.0)
    assert shadow.spent == pytest.approx(expected)
    assert expected > 15.0
    assert max(window) <= 10.0 + 1e-6
