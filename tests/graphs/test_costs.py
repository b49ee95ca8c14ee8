"""Costs: what each action costs at each label, from the graph to the tables."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import pickle
import re
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from hypothesis.extra.numpy import arrays

import gappletron.learners.registry
from gappletron import (
    UNSEEN,
    ArrayStream,
    Confusion,
    Decision,
    FeedbackGraph,
    Field,
    Gappletron,
    Learner,
    Online,
    Player,
    ProjectedOGD,
    Runs,
    UserError,
    bounds,
    cli,
    interpreted,
    names,
    play,
)
from gappletron.graphs.open import open_graph, read_costs as parsed_costs
from gappletron.kernel.numerics import dot
from gappletron.learners.learner import cost_of
from gappletron.learners.registry import check_can_play
from gappletron.play.rounds import new_tally
from problems import NO_MARKS, random_graph, small_stream

FEATURES = 5
MAIL = {("spam", "ham"): 10}


class Cheapest(Learner):
    """Multinomial logistic regression that predicts the class of least expected cost, and explores uniformly."""

    gamma: float = 0.2

    uses_costs = True
    setting = "any graph"
    reference = "none"

    def declare(self):
        return {"weights": Field("features", "classes")}

    def scores(self, state, x, out):
        dot(state.weights, x, out)

    def choice(self, state, plan, scores):
        best, least = 0, math.inf
        for i in range(scores.size):
            expected = 0.0
            for y in range(scores.size):
                expected += math.exp(scores[y]) * cost_of(plan, i, y)
            if expected < least:
                best, least = i, expected
        return best

    def distribution(self, state, plan, x, scores, out):
        greedy = self.choice(state, plan, scores)
        for i in range(out.size):
            out[i] = self.gamma / out.size
        out[greedy] += 1.0 - self.gamma
        return Decision(greedy, self.gamma)

    def update(self, state, plan, x, played):
        if played.label >= 0:
            total = 0.0
            for k in range(played.scores.size):
                total += math.exp(played.scores[k])
            for k in range(played.scores.size):
                step = 0.5 * ((k == played.label) - math.exp(played.scores[k]) / total)
                for p in range(x.start, x.stop):
                    state.weights[x.indices[p], k] += step * x.values[p]

    def surrogate(self, scores, greedy, y):
        return 0.0

    def weights(self, state):
        return state.weights


def refused(sentence):
    """The block raises a UserError with exactly this text."""
    return pytest.raises(UserError, match=rf"\A{re.escape(sentence)}\Z")


def expected_costs(scores, costs):
    """For every class its expected cost, up to a factor, by NumPy."""
    return costs[: len(scores)] @ np.exp(scores)


def random_costs(rng, graph):
    return rng.choice([0.0, 0.1, 1.0, 2.5, 10.0], size=graph.visible.shape)


COST = st.one_of(st.sampled_from([0.0, -0.0, 0.1, 1.0, 10.0, 1e6]), st.floats(0.0, 1e6))
NAME = st.one_of(st.text(max_size=5), st.integers(-9, 9), st.booleans(), st.none())


@st.composite
def graphs_with_costs(draw):
    K, extra = draw(st.integers(2, 4)), draw(st.integers(0, 2))
    own = draw(st.lists(NAME, min_size=K + extra, max_size=K + extra, unique=True))
    visible = np.vstack([np.ones((K, K), bool), draw(arrays(np.bool_, (extra, K)))])
    return FeedbackGraph(visible, own[:K], own, costs=draw(arrays(np.float64, (K + extra, K), elements=COST)))


# --------------------------------------------------------------------------------------------------------------- graphs


@pytest.mark.parametrize(
    "given_costs",
    [
        [[0, 1], [10, 0]],
        np.array([[0, 1], [10, 0]], np.float32),
        {("spam", "ham"): 10},
        {("spam", "ham"): 10, ("ham", "spam"): np.int64(1)},
        [("spam", "ham", 10.0)],
        (entry for entry in [("spam", "ham", 10)]),
    ],
    ids=["lists", "array", "mapping", "mapping with a default", "entries", "generator"],
)
def test_every_way_to_give_costs(given_costs):
    graph = FeedbackGraph.apple_tasting(costs=given_costs)
    assert graph.has_costs
    assert graph.costs.tolist() == [[0.0, 1.0], [10.0, 0.0]]
    assert graph == FeedbackGraph.apple_tasting().with_costs(MAIL)
    assert (graph.costs.dtype, graph.costs.flags.c_contiguous, graph.costs.flags.writeable) == (np.float64, True, False)
    assert graph.arrays.costs is graph.costs


@pytest.mark.parametrize("preset", FeedbackGraph.PRESETS)
def test_presets_take_costs(preset):
    classes = ["a", "b"] if preset == "apple-tasting" else ["a", "b", "c"]
    plain = FeedbackGraph.preset(preset, classes)
    zero_one = [[float(action != name) for name in classes] for action in plain.actions]
    assert (plain.has_costs, plain.costs.tolist()) == (False, zero_one)
    for same in (None, zero_one, {}, [], {("a", "b"): 1.0}, np.array(zero_one) * -0.0 + zero_one):
        graph = FeedbackGraph.preset(preset, classes, costs=same)
        assert (graph.has_costs, graph, hash(graph), repr(graph)) == (False, plain, hash(plain), repr(plain))
    graph = FeedbackGraph.preset(preset, classes, costs=[("b", "a", 0.5)])
    zero_one[1][0] = 0.5
    assert graph.costs.tolist() == zero_one
    assert graph != plain
    assert len({graph, plain, plain.with_costs([("b", "a", 0.5)])}) == 2
    assert repr(graph) == repr(plain)[:-1] + ", with costs)"
    assert graph.caption == plain.caption + ", with costs"
    assert graph.with_costs(None) == plain


def test_single_costs_change_those_of_the_graph():
    graph = FeedbackGraph.bandit(["a", "b"]).with_costs({("a", "b"): 5}).with_costs({("b", "a"): 7})
    assert graph.costs.tolist() == [[0, 5], [7, 0]]
    assert graph.with_costs([[0, 2], [1, 0]]).costs.tolist() == [[0, 2], [1, 0]]
    assert graph.with_costs([[0, 1], [1, 0]]).has_costs is False
    assert graph.dominating_set == FeedbackGraph.bandit(["a", "b"]).dominating_set


def test_descriptions_list_the_costs():
    graph = FeedbackGraph.label_efficient(
        ["ham", "spam"], costs=[("spam", "ham", 10), ("query", "ham", 0.1), ("query", "spam", 0.1)]
    )
    assert graph.describe().endswith(
        "\n\nCosts: 0 for the label, 1 for any other action, except\n"
        "  'spam' at the label 'ham': 10\n"
        "  'query' at any label: 0.1"
    )
    assert "Costs" not in graph.with_costs(None).describe()
    many = FeedbackGraph.bandit(5, costs=np.arange(25.0).reshape(5, 5)).describe()
    assert many.endswith("  and 11 more")  # of 25 entries two are 0 and 1 as by default, and 12 are shown


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs_with_costs())
def test_costs_survive_files_and_copies(graph, tmp_path):
    path = tmp_path / "graph.json"
    graph.to_json(path)
    twins = [FeedbackGraph.from_json(path), pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph)]
    for twin in twins:
        assert twin == graph
        assert hash(twin) == hash(graph)
        assert twin.costs.tobytes() == graph.costs.tobytes()
        assert not twin.costs.flags.writeable
    written = json.loads(path.read_text()).get("costs", [])
    wanted = [
        [action, name, graph.costs[i, y]]
        for i, action in enumerate(graph.actions)
        for y, name in enumerate(graph.classes)
        if graph.costs[i, y] != (i != y)
    ]
    assert written == wanted
    assert graph.has_costs == bool(wanted)


def test_the_costs_of_a_file(tmp_path):
    path = tmp_path / "graph.json"
    FeedbackGraph.apple_tasting(costs={("spam", "ham"): 10, ("ham", "spam"): 0.5}).to_json(path)
    assert path.read_text().endswith('  "costs": [\n    ["ham", "spam", 0.5],\n    ["spam", "ham", 10]\n  ]\n}\n')
    FeedbackGraph.apple_tasting().to_json(path)
    assert "costs" not in path.read_text()


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ('"high"', '"costs" must be a list, not a str'),
        (
            "[3]",
            "cost 1 is a tuple of length 1: give each cost as (action, class, number), "
            "and the rows of a matrix as lists",
        ),
        (
            '[["a", "b", 1], ["a", "b"]]',
            "cost 2 is a tuple of length 2: give each cost as (action, class, number), "
            "and the rows of a matrix as lists",
        ),
        ('[["a", 2.5, 1]]', "cost 1: class 2.5 is a float: names may be str, int, bool or None"),
        ('[["a", "c", 1]]', "cost 1: there is no class 'c': choose one of 'a', 'b'"),
        ('[["a", "b", "x"]]', "the cost of 'a' at the label 'b' must be a number, not 'x'"),
        ('[["a", "b", true]]', "the cost of 'a' at the label 'b' must be a number, not True"),
        ('[["a", "b", 1e999]]', "the cost of 'a' at the label 'b' must be finite, not inf"),
        (
            '[["a", "b", NaN]]',
            "the cost of 'a' at the label 'b' must be finite, not nan",
        ),
    ],
)
def test_bad_costs_in_a_file(costs, message, tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(f'{{"classes": ["a", "b"], "edges": [["a", "a"], ["a", "b"]], "costs": {costs}}}')
    with refused(f"graph file {path}: {message}"):
        FeedbackGraph.from_json(path)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([[0, 1, 1], [1, 0, 1]], "the costs have the shape (2, 3), and the graph (2, 2): give 2 rows, one for each "),
        ([0, 1], "the costs have the shape (2,), and the graph (2, 2): give 2 rows, one for each action, of 2 numbers"),
        ([[0, 1], [1]], "the costs are neither tuples (action, class, number) nor a matrix with rows of one length: "),
        ([["0", "1"], ["1", "0"]], "the matrix of costs must hold numbers only: give 2 rows"),
        ([[0, -1], [1, 0]], "a cost is -1: every cost must be a number from 0 to 1,000,000"),
        ([[0, math.nan], [1, 0]], "a cost is nan: every cost must be a number from 0 to 1,000,000"),
        ([[0, math.inf], [1, 0]], "a cost is inf: every cost must be a number from 0 to 1,000,000"),
        ([[0, 1], [2e6, 0]], "a cost is 2e+06: every cost must be a number from 0 to 1,000,000"),
        ({("a", "b"): -1}, "the cost of 'a' at the label 'b' must be at least 0, not -1"),
        ({("a", "b"): 2e6}, "the cost of 'a' at the label 'b' must be at most 1e+06, not 2e+06"),
        ({("a", "b"): math.nan}, "the cost of 'a' at the label 'b' must be finite, not nan"),
        ({("a", "b"): "1"}, "the cost of 'a' at the label 'b' must be a number, not '1'"),
        ({"a": 1}, "the costs have the key 'a': write each key as a pair (action, class)"),
        ({("a", "x"): 1}, "cost 1: there is no class 'x': choose one of 'a', 'b'"),
        ([("a", "b", 1), ("x", "b", 1)], "cost 2: there is no action 'x': choose one of 'a', 'b'"),
        ([("a", "b", 1), ("a", "b", 1)], "the cost of 'a' at the label 'b' is given twice: keep one"),
        ([("a", "b")], "cost 1 is a tuple of length 2: give each cost as (action, class, number), and the rows of a "),
        ([([], "b", 1)], "cost 1: action [] is a list: names may be str, int, bool or None"),
        ("a,b=1", "costs must be a matrix, a mapping from (action, class) to a number, or tuples (action, class, "),
        (5, "costs must be a matrix, a mapping from (action, class) to a number, or tuples (action, class, number), "),
        ({("a", "b", 1)}, "costs must be a matrix, a mapping from (action, class) to a number, or tuples (action, "),
    ],
)
def test_bad_costs(costs, message):
    with pytest.raises(UserError, match=rf"\A{re.escape(message)}"):
        FeedbackGraph.bandit(["a", "b"], costs=costs)


def test_a_new_class_keeps_the_costs():
    graph = FeedbackGraph.label_efficient(["a", "b"], costs=[[0, 2], [3, 0], [0.1, 0.2]])
    assert graph.with_class("c").costs.tolist() == [[0, 2, 1], [3, 0, 1], [1, 1, 0], [0.1, 0.2, 1]]
    given_too = graph.with_class("c", costs={("query", "c"): 0.3, ("c", "a"): 4})
    assert given_too.costs.tolist() == [[0, 2, 1], [3, 0, 1], [4, 1, 0], [0.1, 0.2, 0.3]]
    plain = graph.with_costs(None)
    assert plain.with_class("c") == FeedbackGraph.label_efficient(["a", "b", "c"])
    assert plain.with_class("c", costs={("c", "a"): 4}).costs[2].tolist() == [4, 1, 0]


# ------------------------------------------------------------------------------------------------------------- learners


def test_learners_that_minimise_mistakes_refuse_costs():
    graph, plain = FeedbackGraph.bandit(2, costs=[[0, 1], [10, 0]]), FeedbackGraph.bandit(2)
    with interpreted():
        able = names(graph)
        sentence = (
            "gapsmh cannot play the graph 'bandit': it minimises mistakes, and the graph has costs (leave them out to "
            f"play it); choose for example {', '.join(map(repr, able))}"
        )
        for attempt in (
            lambda: check_can_play(Gappletron(), graph),
            lambda: Player("gapsmh", graph, 2),
            lambda: Online("gapsmh", graph, 2),
            lambda: play("gapsmh", "synthetic:K=2,d=40,T=9", graph),
            lambda: Player("gapsmh", plain, 2).act([1.0, 2.0], graph),
            lambda: Player("gapsmh", plain, 2).predict([1.0, 2.0], graph),
            lambda: Online("gapsmh", plain, 2).add_class("c", costs={("c", 0): 3}),
        ):
            with pytest.raises(UserError, match="it minimises mistakes, and the graph has costs"):
                attempt()
        with refused(sentence):
            Player("gapsmh", graph, 2)
    assert not set(able) & {"gapsmh", "perceptron", "banditron", "exp3-g"}
    assert Cheapest().uses_costs
    check_can_play(Cheapest(), graph)


def test_the_theorems_are_about_mistakes():
    graph = FeedbackGraph.bandit(3, costs=[(0, 1, 5)])
    found = bounds(Gappletron(optimizer=ProjectedOGD()), graph, rounds=100, max_norm=1.0)
    assert {bound.refusal for bound in found} == {"bounds mistakes, and the graph has costs"}


def played_by_hand(player, X, y, graphs):
    """Rounds of act and learn: the actions, and the confusion table and running costs of plain Python."""
    confusion = np.zeros(graphs[0].visible.shape, int)
    costs, total = [], 0.0
    for x, label, graph in zip(X, y.tolist(), graphs, strict=True):
        assert player.predict(x, graph) == int(np.argmin(expected_costs(player.scores([x])[0], graph.costs)))
        turn = player.act(x, graph)
        assert turn.greedy == player.predict(x, graph) == player.predict_many([x], graph)[0]
        player.learn(turn, label if graph.visible[turn.action, label] else -1)
        confusion[turn.action, label] += 1
        total += float(graph.costs[turn.action, label])
        costs.append(total)
    return confusion, costs


@pytest.mark.parametrize("plainly", [True, False], ids=["interpreted", "compiled"])
def test_confusion_and_cost_are_those_of_the_rounds(plainly):
    """Also where edges and costs change from round to round, at every mark, and in chunks of any size."""
    rng = np.random.default_rng(3)
    T = 60
    X, y = small_stream(rng, T, FEATURES, 3)
    base = [random_graph(rng, 3, 1) for _ in range(6)]
    pool = [graph.with_costs(random_costs(rng, graph)) for graph in base]
    graphs = [pool[k] for k in rng.integers(0, 6, T)]
    with interpreted():
        by_hand = Player(Cheapest(), graphs[0], FEATURES, seed=5)
        confusion, costs = played_by_hand(by_hand, X, y, graphs)
    with interpreted() if plainly else contextlib.nullcontext():
        run = play(Cheapest(), ArrayStream(X, y, classes=range(3)), graphs, seed=5, curve="every")[0]
        chunk = next(iter(ArrayStream(X, y, classes=range(3)).chunks()))
        pieces, tally = Player(Cheapest(), graphs[0], FEATURES, seed=5), new_tally(NO_MARKS, 4, 3)
        for start, stop in ((0, 1), (1, 20), (20, T)):
            rows = chunk._replace(
                indptr=chunk.indptr[start : stop + 1] - chunk.indptr[start],
                indices=chunk.indices[chunk.indptr[start] : chunk.indptr[stop]],
                values=chunk.values[chunk.indptr[start] : chunk.indptr[stop]],
                labels=chunk.labels[start:stop],
            )
            pieces.advance(rows, tally, graphs=graphs[start:stop])
        for graph in pool:
            wanted = [int(np.argmin(expected_costs(scores, graph.costs))) for scores in X @ by_hand.weights]
            assert pieces.predict_many(X, graph).tolist() == wanted
    assert run.confusion.tolist() == tally.confusion.tolist() == confusion.tolist()
    assert run.curve.cost.tolist() == costs
    assert run.cost == tally.sums[2] == costs[-1]
    assert run.mistakes == T - np.trace(confusion)
    assert run.mean_cost == costs[-1] / T
    assert run.curve.mean_cost.tolist() == [total / t for t, total in enumerate(costs, start=1)]
    assert run.has_costs


def test_with_one_graph_the_cost_follows_from_the_confusion_table():
    X, y = small_stream(np.random.default_rng(1), 80, FEATURES, 3)
    with interpreted():
        for graph in (FeedbackGraph.bandit(3), FeedbackGraph.label_efficient(3, costs=np.arange(12.0).reshape(4, 3))):
            run = play(Cheapest(), ArrayStream(X, y, classes=range(3)), graph)[0]
            assert run.cost == (run.confusion * graph.costs).sum()
            assert run.confusion.sum(axis=0).tolist() == np.bincount(y, minlength=3).tolist()
            assert run.has_costs == graph.has_costs
            assert not run.confusion.flags.writeable
        plain = play("gapsmh", ArrayStream(X, y, classes=range(3)), "label-efficient", curve="every")[0]
        assert plain.cost == plain.mistakes == 80 - np.trace(plain.confusion)
        assert plain.curve.cost.tolist() == plain.curve.mistakes.tolist()


def test_costs_that_come_later_are_noticed():
    plain, costly = FeedbackGraph.bandit(3), FeedbackGraph.bandit(3, costs=[(0, 1, 5)])
    X, y = small_stream(np.random.default_rng(1), 20, FEATURES, 3)
    with interpreted():
        runs = Runs(Cheapest(), ArrayStream(X, y, classes=range(3)), lambda t: costly if t == 19 else plain)
        assert not runs.histories().has_costs
        list(runs)
        assert runs.histories().has_costs


def test_the_labels_of_the_stream_are_those_of_the_graph():
    """The rows and columns of the table are in the graph's order, not in that of the stream."""
    X, y = small_stream(np.random.default_rng(1), 60, FEATURES, 3)
    with interpreted():
        run = play("gapsmh", ArrayStream(X, y, classes=range(3)), FeedbackGraph.full([2, 0, 1]))[0]
    counts = np.bincount(y, minlength=3)
    assert run.confusion.sum(axis=0).tolist() == [counts[2], counts[0], counts[1]]
    assert run.graph.classes == (2, 0, 1)


def test_a_tally_of_another_size_is_refused():
    X, y = small_stream(np.random.default_rng(1), 5, FEATURES, 2)
    chunk = next(iter(ArrayStream(X, y, classes=range(2)).chunks()))
    with interpreted():
        player, tally = Player("gapsmh", FeedbackGraph.bandit(2), FEATURES), new_tally(NO_MARKS, 2, 2)
        player.advance(chunk, tally)
        player.add_class("new")
        with refused(
            "the tally counts 2 actions and 2 classes, and the player has 3 and 3: start a new one when a class is "
            "added"
        ):
            player.advance(chunk, tally)
    assert (tally.confusion.sum(), player.rounds) == (5, 5)


def test_costs_are_saved_with_the_model_and_its_receipts(tmp_path):
    path = tmp_path / "model.npz"
    own = FeedbackGraph.bandit(["a", "b", "c"], costs=[[0, 1, 1], [9, 0, 1], [1, 1, 0]])
    other = FeedbackGraph.full(["a", "b", "c"], costs=[("a", "c", 50), ("b", "c", 50)])
    with interpreted():
        model = Online(Cheapest(), own, features=2, seed=1)
        for x, label in [([1.0, 0.5], "a"), ([0.5, 1.0], "b"), ([1.0, 1.0], "c")] * 10:
            receipt = model.act(x)
            model.learn(receipt, label if label in receipt.reveals else UNSEEN)
        waiting = [model.act(x, graph) for x in ([1.0, 0.5], [0.5, 1.0], [0.2, 0.1]) for graph in (own, other)]
        greedy = [receipt.turn.greedy for receipt in waiting]
        assert greedy != [int(np.argmax(receipt.turn.scores)) for receipt in waiting]  # it depends on the costs
        model.save(path)
        again = Online.load(path, pieces=[Cheapest])
        assert again.graph == own
        assert [receipt.graph for receipt in again.pending] == [own, other] * 3
        assert [receipt.turn.greedy for receipt in again.pending] == greedy
        for one in (model, again):
            one.learn(waiting[1].id, "c")
        assert (model.weights == again.weights).all()
        assert [model.act([0.3, 0.4]).action for _ in range(9)] == [again.act([0.3, 0.4]).action for _ in range(9)]
        model.add_class("d", costs={("d", "a"): 7})
        assert model.graph.costs.tolist() == [[0, 1, 1, 1], [9, 0, 1, 1], [1, 1, 0, 1], [7, 1, 1, 0]]
        model.learn(waiting[0], "a" if "a" in waiting[0].reveals else UNSEEN)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda costs: costs.astype(np.float32),
        lambda costs: costs[:1],
        lambda costs: costs * np.nan,
        lambda costs: costs - 5.0,
        lambda costs: costs * 1e9,
    ],
)
def test_damaged_costs_are_refused(spoil, tmp_path):
    from gappletron.play import archive

    path = tmp_path / "player.npz"
    with interpreted():
        player = Player(Cheapest(), FeedbackGraph.bandit(2, costs=[[0, 1], [9, 0]]), features=2)
        header, members = player.engine.describe()
        archive.write(path, "gappletron.Player", header, members)
        assert Player.load(path, pieces=[Cheapest]).graph == player.graph
        archive.write(path, "gappletron.Player", header, {**members, "costs": spoil(members["costs"])})
        with pytest.raises(UserError, match="cost"):
            Player.load(path, pieces=[Cheapest])


# --------------------------------------------------------------------------------------------------------------- tables


@pytest.fixture(scope="module")
def runs():
    with interpreted():
        graph = FeedbackGraph.label_efficient(3, costs=[("query", k, 0.1) for k in range(3)])
        learners = {"cheap": Cheapest(), "curious": Cheapest(0.9)}
        return play(learners, "synthetic:K=3,d=40,noise=0.1,T=60", graph, repeats=2)


def test_the_table_and_the_frame_show_costs(runs):
    assert runs.header == (
        "learner",
        "mean error",
        "min",
        "max",
        "mean cost",
        "total cost",
        "labels seen",
        "ns per round",
    )
    assert runs.title.endswith("label-efficient graph, 'query' reveals, with costs")
    for name, row in zip(("cheap", "curious"), runs.rows(), strict=True):
        costs = [(run.confusion * run.graph.costs).sum() for run in runs.of(name)]
        assert row[4:6] == (f"{sum(costs) / 2 / 60:.4f}", f"{sum(costs) / 2:.1f}")
    frame = runs.to_frame()
    assert list(frame.columns[-2:]) == ["cost", "mean_cost"]
    assert frame["cost"].tolist() == [run.cost for run in runs]
    assert (frame["mean_cost"] == frame["cost"] / 60).all()
    assert str(runs).splitlines()[1].split()[-9:] == [
        *("mean", "cost", "total", "cost", "labels", "seen", "ns", "per", "round")
    ]


def test_the_plot_shows_costs(runs):
    assert [ax.get_ylabel() for ax in runs.plot().axes] == [
        "mistakes so far / rounds so far",
        "cost so far / rounds so far",
    ]
    (ax,) = runs.plot(of="mean_cost").axes
    mean = np.mean([run.curve.mean_cost for run in runs.of("cheap")], axis=0)
    assert ax.lines[0].get_ydata().tolist() == mean.tolist()
    with interpreted():
        assert len(play("gapsmh", "synthetic:K=3,d=40,T=20", "bandit").plot().axes) == 1
    with refused("there is no curve 'cost', did you mean 'mean_cost'? Choose one of 'error_rate', 'mean_cost'"):
        runs.plot(of="cost")


def test_the_confusion_table_of_a_learner(runs):
    table = runs.confusion("curious")
    first, second = runs.of("curious")
    assert table.counts.tolist() == (first.confusion + second.confusion).tolist()
    assert (table.actions, table.classes) == ((0, 1, 2, "query"), (0, 1, 2))
    lines = str(table).splitlines()
    assert lines[0].split() == ["action", "\\", "label", "0", "1", "2"]
    assert [line.split() for line in lines[2:]] == [
        [str(action), *map(str, row)] for action, row in zip(table.actions, table.counts.tolist(), strict=True)
    ]
    frame = table.to_frame()
    assert frame.loc["query", 1] == table.counts[3, 1]
    assert runs.confusion().counts.tolist() == runs.confusion("cheap").counts.tolist()
    with refused("there is no run of 'dear': choose one of 'cheap', 'curious'"):
        runs.confusion("dear")


def test_large_confusion_tables_are_not_printed():
    table = Confusion(np.zeros((50, 50), np.int64), tuple(range(50)), tuple(range(50)))
    assert str(table) == "(The confusion table of 50 x 50 is too large to print: use to_frame() or --json.)"
    assert table.to_frame().shape == (50, 50)


# -------------------------------------------------------------------------------------------------------------- parsing


LETTERS = st.text("ab,=* ", max_size=4)


@settings(max_examples=300, deadline=None)
@given(
    classes=st.lists(st.one_of(LETTERS, st.integers(0, 3), st.none()), min_size=2, max_size=4, unique=True),
    extra=LETTERS,
    pick=st.tuples(st.integers(0, 4), st.integers(0, 3)),
    cost=st.sampled_from(["0", "1", "0.25", "1e3", "10"]),
)
def test_a_text_means_the_pair_that_its_last_comma_separates(classes, extra, pick, cost):
    actions = [*classes, extra] if extra not in classes else classes
    action, name = actions[pick[0] % len(actions)], classes[pick[1] % len(classes)]
    assume("," not in str(name))
    text = f"{action},{name}={cost}"
    ((first, second, number),) = parsed_costs(text, actions, classes)
    assert (str(first), str(second), number) == (str(action), str(name), float(cost))
    assert first in actions
    assert second in classes


@settings(max_examples=200, deadline=None)
@given(st.text("ab01,=.* -\n", max_size=12))
def test_any_text_is_read_or_refused(text):
    actions, classes = ["a", "b", "a,b", 1], ["a", "b", "a,b"]
    try:
        entries = parsed_costs(text, actions, classes)
    except UserError as error:
        entries, message = None, str(error)
    if entries is None:
        assert message.isprintable()
    else:
        assert entries
        assert all(action in actions and name in classes and isinstance(cost, float) for action, name, cost in entries)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("spam,ham=10", [("spam", "ham", 10.0)]),
        (" spam , ham = 1e-1 ", [("spam", "ham", 0.1)]),
        ("spam,1=2", [("spam", 1, 2.0)]),
        ("a,b,ham=2", [("a,b", "ham", 2.0)]),
        ("x=y,ham=2", [("x=y", "ham", 2.0)]),
        ("spam,*=3", [("spam", "ham", 3.0), ("spam", "spam", 3.0), ("spam", 1, 3.0)]),
    ],
)
def test_texts_of_costs(text, wanted):
    assert parsed_costs(text, ["ham", "spam", 1, "a,b", "x=y"], ["ham", "spam", 1]) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spam=10", "expected ACTION,CLASS=NUMBER, not 'spam=10': write for example spam,ham=10"),
        ("spam,ham", "expected ACTION,CLASS=NUMBER, not 'spam,ham': write for example spam,ham=10"),
        ("spam,ham=ten", "'ten' in 'spam,ham=ten' is not a number: write for example spam,ham=10"),
        ("spma,ham=1", "'spma,ham=1': there is no action 'spma', did you mean 'spam'? Choose one of 'ham', 'spam'"),
        ("spam,eggs=1", "'spam,eggs=1': there is no class 'eggs': choose one of 'ham', 'spam'"),
    ],
)
def test_bad_texts_of_costs(text, message):
    with refused(message):
        parsed_costs(text, ["ham", "spam"], ["ham", "spam"])


# ----------------------------------------------------------------------------------------------------- the command line


def ended(*arguments):
    """The exit code, standard output and standard error of a command, run here as plain Python."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        interpreted(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["gappletron", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
    return stop.value.code or 0, out.getvalue(), err.getvalue()


STREAM = "synthetic:K=3,d=40,noise=0.1,T=60,seed=0"


def test_run_with_costs(monkeypatch, tmp_path):
    monkeypatch.setitem(gappletron.learners.registry.REGISTERED, "cheapest", Cheapest())
    options = ["--graph", "label-efficient", "--learner", "cheapest", "--repeats", 2, "--cost", "query,*=0.1"]
    code, out, err = ended(
        *("run", STREAM, *options, "--cost", "2,0=10", "--confusion", "--json", tmp_path / "runs.json")
    )
    assert (code, err) == (0, "")
    graph = FeedbackGraph.label_efficient(3, costs=[(2, 0, 10), *(("query", k, 0.1) for k in range(3))])
    with interpreted():
        wanted = play("cheapest", STREAM, graph, repeats=2)
    table, _, confusion = out.partition("\n\n")
    assert table.splitlines()[0] == f"{STREAM}, label-efficient graph, 'query' reveals, with costs"
    assert table.splitlines()[1:3] == str(wanted).splitlines()[1:3]
    assert table.splitlines()[3].split()[:7] == str(wanted).splitlines()[3].split()[:7]
    assert confusion.splitlines()[0] == "cheapest, how often each action was played at each label in 2 runs"
    assert confusion.splitlines()[1:] == str(wanted.confusion()).splitlines()
    document = json.loads((tmp_path / "runs.json").read_text())
    assert document["graph"]["costs"] == [[2, 0, 10.0], ["query", 0, 0.1], ["query", 1, 0.1], ["query", 2, 0.1]]
    for found, run in zip(document["runs"], wanted, strict=True):
        assert (found["cost"], found["mean_cost"]) == (run.cost, run.cost / 60)
        assert found["confusion"] == run.confusion.tolist()


def test_run_without_costs_says_nothing_of_them(tmp_path):
    code, out, _ = ended("run", STREAM, "--json", tmp_path / "runs.json")
    assert code == 0
    assert "cost" not in out
    assert "action" not in out
    document = json.loads((tmp_path / "runs.json").read_text())
    assert "costs" not in document["graph"]
    (run,) = document["runs"]
    assert not {"cost", "mean_cost"} & set(run)
    assert np.sum(run["confusion"]) == 60
    assert 60 - np.trace(run["confusion"]) == run["mistakes"]


def test_costs_on_the_command_line_add_to_those_of_a_file(tmp_path):
    path = tmp_path / "mail.json"
    FeedbackGraph.apple_tasting(costs=MAIL).to_json(path)
    code, out, err = ended("graph", path, "--cost", "ham,spam=0.5")
    assert (code, err) == (0, "")
    wanted = open_graph(path, 2).with_costs({("ham", "spam"): 0.5})
    assert out == f"{wanted.describe()}\n\n{wanted.as_text()}\n"
    assert "  'ham' at the label 'spam': 0.5\n  'spam' at the label 'ham': 10\n" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", STREAM, "--learner", "gapsmh", "--cost", "1,2=3"],
            "gapsmh cannot play the graph 'bandit': it minimises mistakes, and the graph has costs ",
        ),
        (["run", STREAM, "--cost", "1,3=3"], "'1,3=3': there is no class '3': choose one of 0, 1, 2"),
        (["graph", "bandit", "--cost", "1,2=-3"], "the cost of 1 at the label 2 must be at least 0, not -3"),
        (["graph", "bandit", "--cost", "1,2=nan"], "the cost of 1 at the label 2 must be finite, not nan"),
        (["graph", "bandit", "--cost", "1,*=2", "--cost", "1,0=2"], "the cost of 1 at the label 0 is given twice: "),
        (["graph", "bandit", "--cost", "12"], "expected ACTION,CLASS=NUMBER, not '12': write for example spam,ham=10"),
    ],
)
def test_bad_costs_on_the_command_line(arguments, message):
    code, out, err = ended(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"gappletron: {message}")
    assert err.count("\n") == 1
