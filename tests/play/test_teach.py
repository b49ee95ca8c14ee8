"""Learning from known labels without acting: the same bits as playing the full graph, and no draw."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from gappletron import (
    ArrayStream,
    BurnIn,
    FeedbackGraph,
    OneAgainstAll,
    Online,
    Player,
    UserError,
    interpreted,
    named,
    names,
)
from problems import small_stream

FEATURES = 5
UNTEACHABLE = ["banditron", "pnewtron", "newtron", "soba-diag", "soba", "label-efficient-perceptron"]


def chunk_of(graph: FeedbackGraph, X: np.ndarray, y: np.ndarray):
    labels = [graph.classes[k] for k in y]
    return next(ArrayStream(X, labels, classes=graph.classes).chunks())


def same_state(first: Player, second: Player) -> bool:
    return first.engine.state == second.engine.state and first.engine.scales == second.engine.scales


def full_graphs(name: str) -> list[FeedbackGraph]:
    """Graphs that show every label after every action, with and without an extra action and costs."""
    query = FeedbackGraph(np.ones((4, 3)), ["a", "b", "c"])
    graphs = [FeedbackGraph.full(2), FeedbackGraph.full(5), query]
    if named(name).uses_costs:
        graphs.append(FeedbackGraph.full(3, costs={(0, 1): 7.0, (2, 0): 0.5}))
    return [graph for graph in graphs if named(name).refusal(graph) is None]


def test_who_cannot_be_taught():
    assert [name for name in names() if not named(name).teachable] == UNTEACHABLE


@pytest.mark.parametrize("name", [name for name in names() if name not in UNTEACHABLE])
def test_teaching_leaves_the_state_that_playing_the_full_graph_leaves(name):
    with interpreted():
        for number, graph in enumerate(full_graphs(name)):
            X, y = small_stream(np.random.default_rng(number), 80, FEATURES, graph.n_classes)
            played, taught = (Player(name, graph, FEATURES, seed=number) for _ in range(2))
            draws = taught.engine.draws.state_at(0)
            played.advance(chunk_of(graph, X, y))
            taught.teach(chunk_of(graph, X[:30], y[:30]))
            taught.teach(chunk_of(graph, X[30:], y[30:]))
            assert same_state(played, taught)
            assert taught.rounds == 0
            assert taught.engine.draws.state_at(taught.rounds) == draws


@pytest.mark.parametrize("name", UNTEACHABLE)
def test_learners_of_their_own_actions_say_so(name):
    graph = FeedbackGraph.label_efficient(3) if "label" in name else FeedbackGraph.bandit(2)
    X, y = small_stream(np.random.default_rng(1), 5, FEATURES, graph.n_classes)
    with interpreted():
        player = Player(name, graph, FEATURES)
        with pytest.raises(UserError, match=f"{name} cannot be taught labels"):
            player.teach(chunk_of(graph, X, y))
    assert not player.weights.any()


@pytest.mark.parametrize("name", ["auto", "gapsmh"])
def test_compiled_and_on_a_graph_that_hides_labels(name):
    """The state depends on the graph only through its classes: taught on filtering, the weights are those of full."""
    full, filtering = FeedbackGraph.full(3), FeedbackGraph.filtering(3, revealing=1)
    X, y = small_stream(np.random.default_rng(3), 300, FEATURES, 3)
    played, taught = Player(name, full, FEATURES), Player(name, filtering, FEATURES, seed=9)
    played.advance(chunk_of(full, X, y))
    taught.teach(chunk_of(full, X, y))
    assert same_state(played, taught)


def test_teaching_then_playing_equals_the_naive_reference():
    """Rows that are taught are rounds of the full graph; the draws begin after them."""
    full, bandit = FeedbackGraph.full(4), FeedbackGraph.bandit(4)
    X, y = small_stream(np.random.default_rng(4), 120, FEATURES, 4)
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(3, spawn_key=(0,)))).random(70)
    graphs = [(graph.visible, graph.arrays.dominating.tolist()) for graph in [full] * 50 + [bandit] * 70]
    optimizer = reference.Optimizer("adaptive ogd", 4, FEATURES)
    drawn = np.concatenate([np.zeros(50), draws])
    actions, weights = reference.gappletron(X, y, graphs, "smooth hinge", optimizer, "top-up", 1.0, drawn)[:2]
    with interpreted():
        player = Player("gapsmh", bandit, FEATURES, seed=3)
        player.teach(chunk_of(full, X[:50], y[:50]))
        turns = []
        for x, label in zip(X[50:], y[50:], strict=True):
            turns.append(player.act(x))
            player.learn(turns[-1], int(label) if turns[-1].action == label else -1)
    assert [turn.action for turn in turns] == actions[50:]
    np.testing.assert_allclose(player.weights.T, weights, rtol=1e-9, atol=1e-9)


def test_propensities_are_importance_weights():
    """One mistake of the importance-weighted Banditron is a step of 1 / P(observed); the default does not weight."""
    graph = FeedbackGraph.filtering(3)
    x, y = np.array([[1.0, 0.0, 2.0, 0.0, 0.0]]), np.array([2])
    with interpreted():
        banditron = Player("banditron-iw", graph, FEATURES)
        banditron.teach(chunk_of(graph, x, y), propensity=[0.25])
        np.testing.assert_allclose(banditron.weights[:, 2], 4.0 * x[0], rtol=1e-12)
        np.testing.assert_allclose(banditron.weights[:, 0], -4.0 * x[0], rtol=1e-12)
        first, second = (Player("one-against-all", graph, FEATURES) for _ in range(2))
        first.teach(chunk_of(graph, x, y), propensity=[0.25])
        second.teach(chunk_of(graph, x, y))
        assert same_state(first, second)


@pytest.mark.parametrize("name", ["gapsmh", "gaplog", "exp3-g", "gaptron-smh"])
def test_a_propensity_of_one_half_is_the_label_seen_half_of_the_time(name):
    """In expectation: teaching the first row with 1/2 is a step twice as long (before any projection or step size that
    depends on it), so it differs from 1, while 1 is the default.
    """
    graph = FeedbackGraph.full(3)
    X, y = small_stream(np.random.default_rng(6), 20, FEATURES, 3)
    with interpreted():
        plain, one, half = (Player(name, graph, FEATURES) for _ in range(3))
        plain.teach(chunk_of(graph, X, y))
        one.teach(chunk_of(graph, X, y), propensity=np.ones(20))
        half.teach(chunk_of(graph, X, y), propensity=0.5)
    assert same_state(plain, one)
    assert not same_state(plain, half)


@pytest.mark.parametrize("wrong", [[0.5], 0.0, 1.5, [float("nan")] * 3, "often"])
def test_wrong_propensities(wrong):
    graph = FeedbackGraph.full(3)
    X, y = small_stream(np.random.default_rng(6), 3, FEATURES, 3)
    with interpreted():
        player = Player("gapsmh", graph, FEATURES)
        with pytest.raises(UserError, match="propensity"):
            player.teach(chunk_of(graph, X, y), propensity=wrong)


def test_rules_that_count_rounds_count_those_that_were_taught():
    graph = FeedbackGraph.filtering(3)
    X, y = small_stream(np.random.default_rng(6), 30, FEATURES, 3)
    with interpreted():
        player = Player(OneAgainstAll(exploration=BurnIn(30)), graph, FEATURES)
        player.teach(chunk_of(graph, X, y))
        assert set(np.unique(player.probabilities(X))) == {0.0, 1.0}
        assert (player.probabilities(X).argmax(axis=1) == player.predict_many(X)).all()


# ------------------------------------------------------------------------------------------------------------- Online


@pytest.mark.parametrize("features", [FEATURES, "grow"])
def test_online_teaches_by_name_and_goes_on_after_saving(tmp_path, features):
    graph = FeedbackGraph.filtering(["inbox", "work", "spam"])
    X, y = small_stream(np.random.default_rng(7), 90, FEATURES, 3)
    with interpreted():
        model = Online("auto", graph, features, seed=5)
        for x, label in zip(X[:40], y[:40], strict=True):
            model.teach(dict(enumerate(x)), graph.classes[label])
        player = Player("auto", graph, FEATURES, seed=5)
        player.teach(chunk_of(graph, X[:40], y[:40]))
        np.testing.assert_array_equal(model.weights[: FEATURES + 1], player.weights)
        assert model.rounds == 0
        assert model.pending == ()
        model.save(tmp_path / "model.npz")
        again = Online.load(tmp_path / "model.npz")
        for x, label in zip(X[40:], y[40:], strict=True):
            receipts = [each.act(dict(enumerate(x))) for each in (model, again)]
            assert receipts[0].action == receipts[1].action
            assert receipts[0].probabilities.tobytes() == receipts[1].probabilities.tobytes()
            for each, receipt in zip((model, again), receipts, strict=True):
                if graph.classes[label] in receipt.reveals:
                    each.learn(receipt, graph.classes[label])
        model.teach(X[0], graph.classes[y[0]])
        again.teach(X[0], graph.classes[y[0]])
        assert model.weights.tobytes() == again.weights.tobytes()


def test_a_waiting_receipt_is_not_disturbed_by_teaching():
    """Its gradient is that of prediction time, on the weights of today."""
    graph = FeedbackGraph.filtering(3)
    X, y = small_stream(np.random.default_rng(8), 30, FEATURES, 3)
    with interpreted():
        model, other = (Online("banditron-iw", graph, FEATURES, seed=1) for _ in range(2))
        receipt, twin = model.act(X[0]), other.act(X[0])
        other.learn(twin, 2)
        step = other.weights
        assert step.any()
        for x, label in zip(X, y, strict=True):
            model.teach(x, int(label))
        before = model.weights
        model.learn(receipt, 2)
        np.testing.assert_allclose(model.weights - before, step, rtol=0, atol=1e-12)


def test_wrong_labels_teach_nothing():
    with interpreted():
        model = Online("gapsmh", FeedbackGraph.apple_tasting(), 2)
        with pytest.raises(UserError, match="there is no class 'news'"):
            model.teach([1.0, 0.0], "news")
        player = Player("gapsmh", FeedbackGraph.bandit(3), 2)
        with pytest.raises(UserError, match="labels up to 3"):
            player.teach_vector(player.check([1.0, 0.0]), 3)
        assert not model.weights.any()
        assert not player.weights.any()
