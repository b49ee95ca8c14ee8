"""The contract of :class:`Player` over every registered learner: mixtures, growing, changing graphs, saving."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest

import reference
from gappletron import (
    ArrayStream,
    Decision,
    FeedbackGraph,
    Field,
    Learner,
    Player,
    UserError,
    interpreted,
    named,
    names,
    play,
)
from gappletron.kernel.numerics import add_outer, argmax, dot
from gappletron.play.rounds import new_tally
from gappletron.play.turns import NEW
from problems import NO_MARKS, playable, random_graph, small_stream

FEATURES = 5


def chunk_of(graph: FeedbackGraph, X: np.ndarray, y: np.ndarray):
    labels = [graph.classes[k] for k in y]
    return next(ArrayStream(X, labels, classes=graph.classes).chunks())


def one_by_one(player: Player, X: np.ndarray, y: np.ndarray, graphs=None) -> list[int]:
    actions = []
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        turn = player.act(x, None if graphs is None else graphs[t])
        actions.append(turn.action)
        player.learn(turn, int(label) if turn.graph.visible[turn.action, label] else -1)
    return actions


def same(first: Player, second: Player) -> bool:
    """The same bits in the state and in the random generator."""
    return (
        first.engine.state == second.engine.state
        and first.engine.draws.state_at(first.rounds) == second.engine.draws.state_at(second.rounds)
        and first.rounds == second.rounds
        and first.graph == second.graph
    )


@pytest.fixture(params=names())
def name(request) -> str:
    return request.param


# ---------------------------------------------------------------------------------------------------------- mixtures


def played_in_pieces(player: Player, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> None:
    t = 0
    while t < len(y):
        n = int(rng.integers(1, 12))
        here = slice(t, t + n)
        if rng.random() < 0.5:
            player.advance(chunk_of(player.graph, X[here], y[here]))
        else:
            one_by_one(player, X[here], y[here])
        t += n


def test_any_mixture_of_advance_and_act_gives_the_same_bits(name):
    with interpreted():
        for number, graph in enumerate(playable(name)):
            X, y = small_stream(np.random.default_rng(number), 90, FEATURES, graph.n_classes)
            whole, pieces, rounds = (Player(name, graph, FEATURES, seed=4) for _ in range(3))
            whole.advance(chunk_of(graph, X, y))
            played_in_pieces(pieces, X, y, np.random.default_rng(100 + number))
            one_by_one(rounds, X, y)
            assert same(whole, pieces)
            assert same(whole, rounds)


@pytest.mark.parametrize("name", ["gaplog", "gaphin", "pnewtron", "exp3-g"])
def test_mixtures_compiled(name):
    graph = playable(name)[0]
    X, y = small_stream(np.random.default_rng(1), 300, FEATURES, graph.n_classes)
    whole, pieces = (Player(name, graph, FEATURES, seed=4) for _ in range(2))
    whole.advance(chunk_of(graph, X, y))
    played_in_pieces(pieces, X, y, np.random.default_rng(2))
    assert same(whole, pieces)
    with interpreted():
        plain = Player(name, graph, FEATURES, seed=4)
        played_in_pieces(plain, X, y, np.random.default_rng(3))
    assert same(whole, plain)


def test_looking_changes_nothing_and_tells_what_comes(name):
    with interpreted():
        graph = playable(name)[-1]
        X, y = small_stream(np.random.default_rng(8), 40, FEATURES, graph.n_classes)
        quiet, asked = (Player(name, graph, FEATURES, seed=5) for _ in range(2))
        for t, (x, label) in enumerate(zip(X, y, strict=True)):
            near = X[[t, t - 1, t // 2]]  # the row that comes next, and others
            probabilities, scores, greedy = asked.probabilities(near), asked.scores(near), asked.predict_many(near)
            turn = asked.act(x)
            assert probabilities[0].tobytes() == turn.probabilities.tobytes()
            assert scores[0].tobytes() == turn.scores.tobytes()
            assert greedy[0] == turn.greedy
            asked.learn(turn, int(label) if graph.visible[turn.action, label] else -1)
        one_by_one(quiet, X, y)
        assert same(quiet, asked)


# ----------------------------------------------------------------------------------------------------------- growing


def test_grown_features_equal_a_player_that_had_them_from_the_start(name):
    with interpreted():
        for number, graph in enumerate(playable(name)):
            X, y = small_stream(np.random.default_rng(number), 60, 9, graph.n_classes)
            wide, growing = Player(name, graph, 9, seed=2), Player(name, graph, 4, seed=2)
            # The features that are not there yet are left out: a zero that is given would be a value.
            one_by_one(wide, [(np.arange(4), row) for row in X[:25, :4]], y[:25])
            one_by_one(wide, X[25:], y[25:])
            one_by_one(growing, X[:25, :4], y[:25])
            growing.grow(features=7)
            growing.grow(features=9)
            one_by_one(growing, X[25:], y[25:])
            assert same(wide, growing)


def with_one_more(graph: FeedbackGraph, name) -> dict:
    """What add_class is told: nothing for a preset."""
    try:
        graph.with_class(name)
    except UserError:
        return {"reveals": [name, graph.classes[0]], "revealed_by": [graph.actions[-1]]}
    return {}


def test_a_class_added_before_the_first_round_equals_one_that_was_there(name):
    with interpreted():
        for number, graph in enumerate(playable(name)):
            told = with_one_more(graph, "new")
            larger = graph.with_class("new", **told)
            if named(name).refusal(larger) is not None:
                continue
            X, y = small_stream(np.random.default_rng(number), 60, FEATURES, larger.n_classes)
            there, added = Player(name, larger, FEATURES, seed=2), Player(name, graph, FEATURES, seed=2)
            added.add_class("new", **told)
            one_by_one(there, X, y)
            one_by_one(added, X, y)
            assert same(there, added)


def never_predicts(player: Player, k: int, X: np.ndarray, y: np.ndarray) -> bool:
    """Play, and say whether class k was never y*."""
    quiet = True
    for x, label in zip(X, y, strict=True):
        turn = player.act(x)
        quiet &= turn.greedy != k
        player.learn(turn, int(label) if player.graph.visible[turn.action, label] else -1)
    return quiet


WITHOUT_K = (
    "banditron-iw",
    "perceptron",
    "label-efficient-perceptron",
    "second-order-perceptron-diag",
    "second-order-perceptron",
)
"""No formula of theirs depends on K, and they push back no rival, which a class with scores of 0 is as soon as it is
there."""


@pytest.mark.parametrize("name", WITHOUT_K)
def test_where_the_formula_does_not_know_K_a_late_class_equals_one_that_was_there(name):
    """As long as its scores of 0 never win: then a class that has not come yet changes nothing."""
    graph = next(graph for graph in playable(name) if graph.n_classes == 3)
    told = with_one_more(graph, "new")
    larger, equal = graph.with_class("new", **told), 0
    with interpreted():
        for seed in range(40):
            rng = np.random.default_rng(seed)
            X = np.hstack([np.eye(3)[rng.integers(0, 3, 60)] + 0.1 * rng.random((60, 3)), rng.random((60, 2))])
            y = np.argmax(X[:, :3], axis=1)
            there, added = Player(name, larger, FEATURES, seed=2), Player(name, graph, FEATURES, seed=2)
            quiet = never_predicts(there, 3, X[:30], y[:30])
            one_by_one(added, X[:30], y[:30])
            if not quiet or there.engine.state.arrays["weights"][:, 3].any():
                continue
            equal += 1
            added.add_class("new", **told)
            late = np.where(rng.random(30) < 0.3, 3, y[30:])
            one_by_one(there, X[30:], late)
            one_by_one(added, X[30:], late)
            assert same(there, added)
    assert equal >= 3


def test_a_class_added_while_running_keeps_what_was_learned_and_waits_to_be_learned(name):
    with interpreted():
        for number, graph in enumerate(playable(name)):
            told = with_one_more(graph, "new")
            larger = graph.with_class("new", **told)
            if named(name).refusal(larger) is not None:
                continue
            X, y = small_stream(np.random.default_rng(number), 90, FEATURES, graph.n_classes)
            player = Player(name, graph, FEATURES, seed=2)
            one_by_one(player, X[:40], y[:40])
            before, K = player.weights, graph.n_classes
            waiting = player.act(X[40])
            player.add_class("new", **told)
            assert player.weights[:, :K].tobytes() == before.tobytes()
            if named(name).setting != "any graph, ignores the features":
                assert not player.weights[:, K:].any()
            # A turn of before teaches what it could teach then, on the old graph.
            twin = Player(name, graph, FEATURES, seed=2)
            one_by_one(twin, X[:40], y[:40])
            late = twin.act(X[40])
            label = int(y[40]) if graph.visible[waiting.action, y[40]] else -1
            twin.learn(late, label)
            player.learn(waiting, label)
            assert player.weights[:, :K].tobytes() == twin.weights.tobytes()
            y[60:][np.random.default_rng(1).random(30) < 0.4] = K
            one_by_one(player, X[41:], y[41:])
            assert np.isfinite(player.weights).all()
            for array in player.engine.state.arrays.values():
                assert np.isfinite(array).all()


def test_exp3_gives_a_new_class_the_smallest_loss():
    with interpreted():
        player = Player("exp3-g", FeedbackGraph.bandit(3), 1, seed=1)
        one_by_one(player, np.zeros((50, 1)), np.zeros(50, int))
        losses = player.engine.state.arrays["losses"].copy()
        player.add_class("new")
        assert player.engine.state.arrays["losses"].tolist() == [*losses, losses.min()]


def test_padding_is_never_touched(name):
    """Columns behind the classes hold the fill value, whatever is played: padding does not leak into a result."""
    with interpreted():
        for graph in playable(name):
            X, y = small_stream(np.random.default_rng(3), 60, FEATURES, graph.n_classes)
            player = Player(name, graph, FEATURES, seed=1)
            one_by_one(player, X, y)
            for field, array in player.engine.state._padded.items():
                declared = player.engine.state._fields[field]
                if declared.axes[-1] == "classes":
                    assert (array[..., graph.n_classes :] == declared.fill).all()


def test_padding_is_never_touched_compiled():
    for name in ("gapsmh", "gaplog", "banditron-iw"):
        graph = FeedbackGraph.filtering(5)
        X, y = small_stream(np.random.default_rng(3), 400, FEATURES, 5)
        player = Player(name, graph, FEATURES, seed=1)
        player.advance(chunk_of(graph, X, y))
        for field, array in player.engine.state._padded.items():
            if player.engine.state._fields[field].axes == ("features", "classes"):
                assert array.shape[1] == 8
                assert not array[:, 5:].any()


# --------------------------------------------------------------------------------------------------- changing graphs


def naive(name: str, X, y, graphs, draws):  # noqa: PLR0911 - a case for each family
    """(actions, W of K x d) of the naive reference, for the learners that play more than one graph."""
    graph = [(graph.visible, graph.arrays.dominating.tolist()) for graph in graphs]
    learner = named(name)
    losses = {"gapsmh": "smooth hinge", "gaphin": "hinge", "gaplog": "logistic base K", "gaplog2": "logistic base 2"}
    K = graphs[0].n_classes
    if name in losses:
        optimizer = reference.Optimizer("adaptive ogd", K, X.shape[1])
        return reference.gappletron(X, y, graph, losses[name], optimizer, "top-up", 1.0, draws)[:2]
    if name == "decoded-logistic":
        rule = learner.exploration
        return reference.decoded_logistic(X, y, graph, learner.optimizer.rate, rule.gamma, rule.horizon, draws)
    if name == "banditron-iw":
        return reference.banditron_iw(X, y, graph, learner.gamma, draws)[:2]
    if name == "exp3-g":
        actions, losses = reference.exp3_g(y, graph, learner.gamma, learner.eta, draws)
        return actions, -losses[:K].reshape(K, 1)
    if name == "label-efficient-perceptron":
        return reference.label_efficient_perceptron(X, y, graph, learner.b, draws)
    losses = {"one-against-all": "squared hinge", "partial-likelihood": "partial likelihood"}
    graph = [(graph.visible, graph.arrays.dominating.tolist(), graph.costs) for graph in graphs]
    if name == "auto":
        actions, scorer, _ = reference.guarded(X, y, graph, draws)
        return actions, scorer.slow.W
    if name in losses:
        optimizer = reference.ConfidenceWeighted(K, X.shape[1], *learner.optimizer[:2])
        return reference.estimator(X, y, graph, losses[name], ("inverse gap", 2.4), draws, optimizer)
    return None


def changing_graphs(name: str, rounds: int, rng: np.random.Generator) -> list[FeedbackGraph]:
    """A graph for each round over the same classes and actions, another one almost always."""
    graphs = []
    for _ in range(rounds):
        visible = random_graph(rng, 4, 2).visible.copy()
        if rng.random() < 0.3:
            visible[rng.integers(4)] = True
        if name == "label-efficient-perceptron":
            visible[4 + rng.integers(2)] = True
        graphs.append(FeedbackGraph(visible))
    return graphs


@pytest.mark.parametrize(
    "name",
    [name for name in names() if named(name).refusal(random_graph(np.random.default_rng(6), 4, 2)) is None]
    + ["label-efficient-perceptron"],
)
def test_a_graph_that_changes_every_round_equals_the_naive_reference(name):
    rng = np.random.default_rng(7)
    X, y = small_stream(rng, 120, FEATURES, 4)
    graphs = changing_graphs(name, 120, rng)
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(3, spawn_key=(0,)))).random(120)
    expected = naive(name, X, y, graphs, draws)
    with interpreted():
        single, bulk = (Player(name, graphs[0], FEATURES, seed=3, normalize=None, bias=False) for _ in range(2))
        actions = one_by_one(single, X, y, graphs)
        tally = new_tally(NO_MARKS, 6, 4)
        bulk.advance(chunk_of(graphs[0], X, y), tally, graphs=graphs)
    if name != "squarecb-g":  # what it plays on such graphs is compared with scipy, in test_squarecb.py
        assert expected is not None, f"the reference has no {name}"
        assert actions == expected[0]
        np.testing.assert_allclose(single.weights.T, expected[1], rtol=1e-9, atol=1e-9)
    assert same(single, bulk)
    assert tally.counts[0] == sum(action != label for action, label in zip(actions, y, strict=True))
    seen = [graph.visible[action, label] for graph, action, label in zip(graphs, actions, y, strict=True)]
    assert tally.counts[1] == sum(seen)


@pytest.mark.parametrize("name", names())
def test_learners_of_one_graph_only_refuse_others_in_the_middle_too(name):
    learner = named(name)
    if learner.refusal(random_graph(np.random.default_rng(6), 4, 2)) is None:
        return
    with interpreted():
        graph = next(graph for graph in playable(name) if graph.n_classes > 2)
        rng = np.random.default_rng(1)
        K, extra = graph.n_classes, graph.n_actions - graph.n_classes
        edges = [random_graph(rng, K, extra).visible for _ in range(9)]
        others = [FeedbackGraph(visible, graph.classes, graph.actions) for visible in edges]
        other = next(other for other in others if learner.refusal(other) is not None)
        player = Player(name, graph, 2)
        with pytest.raises(UserError, match="cannot play the graph"):
            player.act([1.0, 0.5], other)
        assert same(player, Player(name, graph, 2))


def test_a_rounds_graph_may_change_edges_and_costs_only():
    player = Player("gapsmh", FeedbackGraph.bandit(3), 2)
    for other in (FeedbackGraph.bandit(4), FeedbackGraph.label_efficient(3), FeedbackGraph.bandit(["a", "b", "c"])):
        with pytest.raises(UserError, match="only edges and costs may change"):
            player.act([1.0, 0.5], other)
    with pytest.raises(UserError, match="not a FeedbackGraph"):
        player.act([1.0, 0.5], "bandit")
    assert same(player, Player("gapsmh", FeedbackGraph.bandit(3), 2))


def test_play_takes_a_sequence_of_graphs_or_a_function():
    rng = np.random.default_rng(11)
    X, y = small_stream(rng, 200, FEATURES, 4)
    graphs = changing_graphs("gapsmh", 200, rng)
    stream = ArrayStream(X, y, classes=range(4))
    by_list = play("gapsmh", stream, graphs, seed=3)[0]
    by_function = play("gapsmh", stream, lambda t: graphs[t], seed=3)[0]
    with interpreted():
        player = Player("gapsmh", graphs[0], FEATURES, seed=3)
        actions = one_by_one(player, X, y, graphs)
    blind = 0
    again = Player("gapsmh", graphs[0], FEATURES, seed=3)
    for t in range(200):
        turn = again.act(X[t], graphs[t])
        blind += not graphs[t].visible[turn.greedy].all()
        again.learn(turn, int(y[t]) if graphs[t].visible[turn.action, y[t]] else -1)
    for run in (by_list, by_function):
        assert run.mistakes == sum(action != label for action, label in zip(actions, y, strict=True))
        assert run.blind_rounds == blind
    with pytest.raises(UserError, match="one graph for each round"):
        play("gapsmh", stream, graphs[:150])
    with pytest.raises(UserError, match="must be a FeedbackGraph"):
        play("gapsmh", stream, ["bandit"] * 200)


def test_what_is_derived_from_at_most_64_graphs_is_kept():
    rng = np.random.default_rng(2)
    graphs = changing_graphs("gapsmh", 200, rng)
    with interpreted():
        player = Player("gapsmh", graphs[0], 2)
        for graph in graphs:
            player.act([1.0, 0.0], graph)
        assert len(player.engine._packs) <= 64


# ------------------------------------------------------------------------------------------- interrupted by a handler


@pytest.mark.parametrize("mode", [interpreted, contextlib.nullcontext])
def test_a_record_that_does_not_fit_is_not_written_to(mode):
    with mode():
        player = Player("gapsmh", FeedbackGraph.bandit(4), FEATURES)
        short, long = player.check(([0], [1.0])), player.check(([0, 1, 2], [1.0, 1.0, 1.0]))
        turn = player.new_turn(short)
        assert not player.draw(turn, long, 0)
        player.add_class("new")
        assert not player.draw(turn, short, 0)
        assert (player.rounds, turn.status, turn.record.any()) == (0, NEW, False)
        assert player.draw(player.new_turn(long), long, 0)


def test_act_goes_on_with_the_classes_that_a_handler_added(monkeypatch):
    with interpreted():
        player = Player("gapsmh", FeedbackGraph.bandit(4), FEATURES)
        new_turn = player.new_turn

        def interrupted(*arguments, **options):
            turn = new_turn(*arguments, **options)
            if player.graph.n_classes == 4:
                player.add_class("new")
            return turn

        monkeypatch.setattr(player, "new_turn", interrupted)
        assert player.act([1.0] * FEATURES).probabilities.size == 5
        assert player.rounds == 1


def test_a_round_that_a_handler_plays_in_the_middle_of_advance_has_its_own_draw(monkeypatch):
    rng = np.random.default_rng(3)
    with interpreted():
        graphs = changing_graphs("gapsmh", 20, rng)
        X, y = small_stream(rng, 20, FEATURES, graphs[0].n_classes)
        for changing in (None, graphs):
            interrupted, expected = (Player("gapsmh", graphs[0], FEATURES) for _ in range(2))
            one_by_one(expected, X[:1], y[:1])
            expected.advance(chunk_of(expected.graph, X, y), graphs=changing)
            draw_many = interrupted.engine.draws.draw_many

            def handled(start, count, player=interrupted, draw_many=draw_many):
                found = draw_many(start, count)
                monkeypatch.undo()
                one_by_one(player, X[:1], y[:1])
                return found

            monkeypatch.setattr(interrupted.engine.draws, "draw_many", handled)
            interrupted.advance(chunk_of(interrupted.graph, X, y), graphs=changing)
            assert same(interrupted, expected)


# -------------------------------------------------------------------------------------------------- saving in between


def test_saved_and_loaded_in_all_these_states_it_goes_on_bit_for_bit(name, tmp_path):
    with interpreted():
        graph = playable(name)[0]
        told = with_one_more(graph, "new")
        X, y = small_stream(np.random.default_rng(11), 120, 9, graph.n_classes)
        player = Player(name, graph, 4, seed=6)
        one_by_one(player, X[:20, :4], y[:20])
        player.grow(features=9)
        copies = [player]

        def reloaded(place: int) -> None:
            player.save(tmp_path / f"{place}.npz")
            copies.append(Player.load(tmp_path / f"{place}.npz"))
            assert same(player, copies[-1])

        reloaded(0)
        for copy in copies:
            one_by_one(copy, X[20:40], y[20:40])
        if named(name).refusal(graph.with_class("new", **told)) is None:
            for copy in copies:
                copy.add_class("new", **told)
            y[80:][np.random.default_rng(1).random(40) < 0.3] = graph.n_classes
        reloaded(1)
        for copy in copies:
            one_by_one(copy, X[40:80], y[40:80])
        reloaded(2)
        for copy in copies:
            one_by_one(copy, X[80:], y[80:])
            assert same(player, copy)
            assert copy.graph.given.tobytes() == player.graph.given.tobytes()
            assert copy.graph.dominating_set_is_given == player.graph.dominating_set_is_given


def test_a_players_file_is_no_model_of_online(tmp_path):
    from gappletron import Online

    Player("gapsmh", FeedbackGraph.bandit(3), 2).save(tmp_path / "player.npz")
    with pytest.raises(UserError, match=r"holds a 'gappletron.Player', not a 'gappletron.Online'"):
        Online.load(tmp_path / "player.npz")


@pytest.mark.parametrize("name", ["soba", "newtron", "second-order-perceptron"])
def test_late_turns_keep_the_inverse_of_a_full_matrix_an_inverse(name):
    """A turn of before a class was added changes the whole inverse: it stays positive definite and symmetric."""
    with interpreted():
        for seed in range(12):
            graph = playable(name)[0] if playable(name)[0].n_classes == 3 else FeedbackGraph.bandit(3)
            graph = graph if named(name).refusal(graph) is None else FeedbackGraph.full(3)
            X, y = small_stream(np.random.default_rng(seed), 30, 2, 3)
            player = Player(named(name).replace(beta=1.0) if name == "newtron" else name, graph, 2, seed=seed)
            one_by_one(player, X[:8], y[:8])
            waiting = [player.act(x) for x in X[8:14]]
            player.add_class("new")
            y[14:][np.random.default_rng(seed).random(16) < 0.4] = 3
            one_by_one(player, X[14:], y[14:])
            for turn, label in zip(waiting, y[8:14], strict=True):
                player.learn(turn, int(label) if graph.visible[turn.action, label] else -1)
            inverse = player.engine.state.arrays["inverse"].reshape(8, 8)
            assert (inverse == inverse.T).all()
            assert np.linalg.eigvalsh(inverse).min() > 0.0


class Unsteady(Learner):
    """Its table fails, or has another type, on some graphs."""

    trouble: float = 0.0
    setting = "any graph"

    def table(self, graph):
        if graph.n_classes == 5:
            raise MemoryError
        return (graph.visible[0] if graph.visible[0].all() and self.trouble else graph.visible,)

    def declare(self):
        return {"weights": Field("features", "classes")}

    def scores(self, state, x, out):
        dot(state.weights, x, out)

    def distribution(self, state, plan, x, scores, out):
        for i in range(out.size):
            out[i] = 1.0 / out.size
        return Decision(argmax(scores), 0.0)

    def update(self, state, plan, x, played):
        add_outer(state.weights, x, played.scores, 1.0)
        for p in range(x.start, x.stop):
            state.weights[x.indices[p], played.action] += x.values[p]

    def surrogate(self, scores, greedy, y):
        return 0.0

    def weights(self, state):
        return state.weights


def test_a_class_that_cannot_be_added_leaves_the_player_as_it_was():
    X, y = small_stream(np.random.default_rng(0), 40, FEATURES, 4)
    player, twin = (Player(Unsteady(), FeedbackGraph.bandit(4), FEATURES, seed=1) for _ in range(2))
    for each in (player, twin):
        one_by_one(each, X[:20], y[:20])
    with pytest.raises(MemoryError):
        player.add_class("new")
    for each in (player, twin):
        one_by_one(each, X[20:], y[20:])
        each.advance(chunk_of(each.graph, X, y))
    assert same(player, twin)
    with interpreted():
        plain = Player(Unsteady(), FeedbackGraph.bandit(4), FEATURES, seed=1)
        one_by_one(plain, X, y)
        plain.advance(chunk_of(plain.graph, X, y))
    assert same(player, plain)
    assert not player.engine.state._padded["weights"][:, 4:].any()


def test_a_table_of_another_type_is_refused():
    player = Player(Unsteady(1.0), FeedbackGraph.bandit(4), 2)
    with pytest.raises(UserError, match="a table of another type"):
        player.act([1.0, 0.5], FeedbackGraph.full(4))
    player.act([1.0, 0.5])


# ------------------------------------------------------------------------------------------------------------ borders


def test_bad_calls_are_one_sentence_and_change_nothing():
    player, fresh = (Player("gapsmh", FeedbackGraph.bandit(3), 3) for _ in range(2))
    for call in (
        lambda: player.grow(features=2),
        lambda: player.grow(features=2**40),
        lambda: player.add_class(1),
        lambda: player.add_class("new", reveals=["nobody"], revealed_by=[0]),
        lambda: player.add_class("new", reveals=[], revealed_by=[]),
        lambda: player.predict_many(np.ones((2, 4))),
        lambda: player.scores(np.full((2, 3), np.nan)),
        lambda: player.probabilities(np.full((2, 3), 1e200)),
        lambda: player.act(([5], [1.0])),
        lambda: Player("gapsmh", "bandit", 3),
        lambda: Player("gapsmh", FeedbackGraph.bandit(3), 0),
        lambda: Player("nobody", FeedbackGraph.bandit(3), 3),
    ):
        with pytest.raises(UserError):
            call()
    assert same(player, fresh)


def test_what_compiled_code_would_trust_is_refused():
    player, fresh = (Player("gapsmh", FeedbackGraph.bandit(3), 3) for _ in range(2))
    good = chunk_of(player.graph, np.ones((4, 3)), np.array([0, 1, 2, 0]))
    many = chunk_of(FeedbackGraph.bandit(5), np.ones((2, 7)), np.array([0, 4]))
    for chunk in (
        many,
        good._replace(indices=good.indices + 1),
        good._replace(indices=good.indices - 1),
        good._replace(labels=good.labels + 1),
        good._replace(labels=good.labels - 1),
        good._replace(values=np.full(12, np.nan)),
        good._replace(values=good.values[:5]),
        good._replace(indptr=good.indptr[:-1]),
        good._replace(indptr=good.indptr[::-1]),
        good._replace(labels=good.labels.reshape(-1, 1)),
        good._replace(labels=good.labels + 0.7),
        good._replace(indices=np.full(12, 2**32)),
    ):
        with pytest.raises(UserError):
            player.advance(chunk)
    assert same(player, fresh)
    turn = player.act(np.ones(3))
    for label in (-2, 3, 10**6, 1.5, "a", None, True):
        with pytest.raises(UserError, match="position of a label"):
            player.learn(turn, label)
    player.learn(turn, np.int64(turn.action))
    wide = Player("gapsmh", FeedbackGraph.bandit(3), 9).act(np.ones(9))
    with pytest.raises(UserError, match="more features than this player"):
        player.learn(wide, 0)
    other = Player("gapsmh", FeedbackGraph.bandit(["a", "b", "c"]), 3).act(np.ones(3))
    with pytest.raises(UserError, match="learn from its own turns"):
        player.learn(other, 0)


def test_graphs_that_cannot_be_played_are_found_before_the_first_round():
    bandit, other = FeedbackGraph.bandit(3), FeedbackGraph.filtering(3)
    X, y = small_stream(np.random.default_rng(0), 4, 2, 3)
    with interpreted():
        player = Player("banditron", bandit, 2)
        with pytest.raises(UserError, match="cannot play the graph"):
            player.advance(chunk_of(bandit, X, y), graphs=[bandit, bandit, other, bandit])
        assert same(player, Player("banditron", bandit, 2))


def test_scores_and_probabilities_of_no_rows_and_many():
    player = Player("gapsmh", FeedbackGraph.label_efficient(3), 4)
    X = np.random.default_rng(0).normal(size=(200, 4))
    assert player.probabilities(X).shape == (200, 4)
    np.testing.assert_allclose(player.probabilities(X).sum(axis=1), 1.0)
    assert player.scores(X).shape == (200, 3)
    assert player.predict_many(X).tolist() == [player.predict(x) for x in X]
    assert math.isclose(float(player.scores(X)[0].sum()), 0.0)
