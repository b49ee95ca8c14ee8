"""The probabilities of labels: against formulas of their own, and against how often the labels come."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gappletron import ArrayStream, FeedbackGraph, Online, Player, interpreted, named, names
from problems import playable, small_stream

FEATURES = 5


def softmax(z: np.ndarray) -> np.ndarray:
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def played(player: Player, X: np.ndarray, y: np.ndarray) -> list:
    """(scores at prediction time, action, label) of every round."""
    rounds = []
    for x, label in zip(X, y, strict=True):
        turn = player.act(x)
        rounds.append((turn.scores.copy(), turn.action, int(label)))
        player.learn(turn, int(label) if player.graph.visible[turn.action, label] else -1)
    return rounds


@pytest.mark.parametrize("name", names())
def test_probabilities_are_probabilities_and_looking_changes_nothing(name):
    with interpreted():
        for graph in playable(name):
            X, y = small_stream(np.random.default_rng(3), 60, FEATURES, graph.n_classes)
            player = Player(name, graph, FEATURES, seed=1)
            np.testing.assert_allclose(player.predict_proba(X), 1 / graph.n_classes)
            played(player, X, y)
            before = {field: array.copy() for field, array in player.engine.state.arrays.items()}
            found = player.predict_proba(X)
            assert found.shape == (60, graph.n_classes)
            assert (found >= 0).all()
            np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
            if name != "auto":  # its probabilities are those of the scorer, which the guard corrects
                np.testing.assert_array_equal(found.argmax(axis=1), player.predict_many(X))
            for field, array in player.engine.state.arrays.items():
                assert array.tobytes() == before[field].tobytes()


@pytest.mark.parametrize("name", names())
def test_the_formula_of_every_learner(name):
    """The softmax of the scores but where a learner has a model of its own."""
    graph = playable(name)[0]
    X, y = small_stream(np.random.default_rng(4), 80, FEATURES, graph.n_classes)
    with interpreted():
        player = Player(name, graph, FEATURES, seed=1)
        rounds = played(player, X, y)
        found, s = player.predict_proba(X), player.scores(X)
    if name == "auto":
        return  # of the scorer's scores, and discounted: see test_guard.py
    if name in ("one-against-all", "partial-likelihood", "squarecb-g"):
        expected = averaged(rounds, graph, s, range(80))
    elif name in ("newtron", "pnewtron"):
        expected = softmax(named(name).alpha * s)
    elif name == "exp3-g":
        expected = np.clip(80 + s, 0, None) / np.clip(80 + s, 0, None).sum(axis=1, keepdims=True)
    else:
        expected = softmax(s)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def averaged(rounds: list, graph: FeedbackGraph, s: np.ndarray, followed) -> np.ndarray:
    """softmax(b s), each b weighted by the likelihood of what was shown."""
    total, weights = np.zeros(s.shape), []
    grid = [2 ** (power / 2) for power in range(-2, 9)]
    for b in grid:
        loss = 0.0
        for t in followed:
            scores, action, label = rounds[t]
            seen = graph.visible[action]
            q = softmax(b * scores)
            loss -= math.log(max(1e-9, q[label] if seen[label] else q[~seen].sum()))
        weights.append(loss)
    chances = softmax(-np.array(weights))
    for b, chance in zip(grid, chances, strict=True):
        total += chance * softmax(b * s)
    return total


def test_after_1024_rounds_one_in_eight_is_followed():
    graph = FeedbackGraph.filtering(3)
    X, y = small_stream(np.random.default_rng(5), 1500, FEATURES, 3)
    golden = (math.sqrt(5) - 1) / 2
    followed = [t for t in range(1500) if t < 1024 or (t + 1) * golden % 1 < 1 / 8]
    assert 1024 + 50 < len(followed) < 1024 + 70
    player = Player("one-against-all", graph, FEATURES, seed=1)
    rounds = played(player, X, y)
    np.testing.assert_allclose(
        player.predict_proba(X[:20]), averaged(rounds, graph, player.scores(X[:20]), followed), rtol=1e-9
    )
    with interpreted():
        plain = Player("one-against-all", graph, FEATURES, seed=1)
        played(plain, X, y)
        assert plain.predict_proba(X).tobytes() == player.predict_proba(X).tobytes()


def log_loss(found: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.maximum(1e-9, found[np.arange(len(y)), y])).mean())


@pytest.mark.parametrize("preset", ["full", "bandit"])
@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_calibrated_where_the_labels_follow_a_softmax(preset, scale):
    """Labels drawn from softmax(scale * U x): close to the entropy, and of the labels that get a probability near p a
    share near p come.

    The median of nine data sets: in the hardest case one of four is above the bound, so that at least five of nine are
    has a probability of .04.
    """
    excess, gaps = [], []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        X, U = rng.normal(size=(12_000, 6)), rng.normal(size=(6, 4))
        true = softmax(scale * X @ U)
        y = np.array([rng.choice(4, p=p) for p in true])
        player = Player("auto", FeedbackGraph.preset(preset, 4), 6)
        player.advance(next(ArrayStream(X[:8000], y[:8000], classes=range(4)).chunks()))
        found = player.predict_proba(X[8000:])
        least, blind = log_loss(true[8000:], y[8000:]), math.log(4)
        excess.append((log_loss(found, y[8000:]) - least) / (blind - least))
        hits = np.eye(4)[y[8000:]]
        for low in np.arange(0.0, 1.0, 0.2):
            here = (found >= low) & (found < low + 0.2)
            if here.sum() > 300:
                gaps.append(abs(found[here].mean() - hits[here].mean()))
    assert min(excess) >= 0.0
    assert np.median(excess) < 0.15
    assert np.median(gaps) < 0.1


def test_exp3_tells_how_often_labels_come():
    rng = np.random.default_rng(7)
    y = rng.choice(3, p=[0.6, 0.3, 0.1], size=20_000)
    player = Player("exp3-g", FeedbackGraph.bandit(3), 1, seed=2)
    player.advance(next(ArrayStream(np.ones((20_000, 1)), y, classes=range(3)).chunks()))
    np.testing.assert_allclose(player.predict_proba([[1.0]])[0], [0.6, 0.3, 0.1], atol=0.05)


def test_online_has_the_columns_of_its_classes():
    graph = FeedbackGraph.apple_tasting()
    with interpreted():
        model = Online(graph=graph, features="grow")
        for _ in range(20):
            model.teach({0: 1.0}, "ham")
            model.teach({1: 1.0}, "spam")
        found = model.predict_proba([[1.0, 0.0], [0.0, 1.0]])
        assert found[0, 0] > 0.8
        assert found[1, 1] > 0.8
        assert model.predict_proba(np.zeros((1, 5000))).shape == (1, 2)  # features that it does not have yet
