"""Rows on demand: against a dict, and against models that had a row for every feature from the start."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gappletron import (
    UNSEEN,
    Encoder,
    FeedbackGraph,
    Online,
    Player,
    Receipt,
    UserError,
    interpreted,
)
from gappletron.data.stream import make_chunk
from gappletron.kernel.types import Vector
from gappletron.play.index import FeatureIndex

D = 200
GRAPH = FeedbackGraph.filtering(["a", "b", "c"], revealing="a")
# What stands for feature j in a model with rows on demand: an increasing sequence up to 2^62.
NAMES = np.sort(np.random.default_rng(8).integers(0, 2**62, D))
NAMES[-1] = 2**62 - 1


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


# ------------------------------------------------------------------------------------------------------------ the table

claims = st.lists(st.tuples(st.lists(st.integers(0, 40), unique=True), st.booleans()), max_size=25)


@settings(max_examples=100, deadline=None)
@given(claims, st.integers(1, 50))
def test_the_table_is_a_dict_of_the_rounds_that_were_played(rounds, most):
    """A claim whose round was not played is undone by the next one."""
    index, at, kept, left_out = FeatureIndex(most, bias=False), 0, {}, 0
    for numbers, is_played in rounds:
        features = np.array(numbers, np.int64) * 2**56 + 5
        known, missed = dict(kept), 0
        for feature in features.tolist():
            if feature not in known and len(known) >= most:
                missed += 1
            else:
                known.setdefault(feature, len(known))
        assert index.claim(features, at).tolist() == [known.get(feature, -1) for feature in features.tolist()]
        if is_played:
            kept, at, left_out = known, at + 1, left_out + missed
    index.settle(at)
    assert (index.features.tolist(), index.left_out) == (list(kept), left_out)
    every = np.arange(41) * 2**56 + 5
    assert index.find(every).tolist() == [kept.get(feature, len(kept)) for feature in every.tolist()]
    again = pickle.loads(pickle.dumps(index))
    assert again.find(every).tolist() == index.find(every).tolist()
    assert again.name(np.arange(len(kept), dtype=np.int32)).tolist() == list(kept)


# -------------------------------------------------------------------------------------------- against all rows at once


class Pair:
    """Two models that do the same: one on features below D, one on their names, with rows on demand."""

    def __init__(self, learner, seed=0):
        self.rng = np.random.default_rng(seed)
        self.models = [
            Online(learner, GRAPH, features, seed=4, monitor=True, min_propensity=0.01) for features in (D, "grow")
        ]
        self.seen = set()

    def draw(self):
        """A row of features that come little by little."""
        reach = min(D, 5 + self.models[0].rounds)
        indices = np.unique(self.rng.integers(0, reach, 6))
        return indices, self.rng.normal(size=indices.size)

    def rows(self, x):
        return x, (NAMES[x[0]], x[1])

    def act(self):
        x = self.draw()
        receipts = [model.act(row) for model, row in zip(self.models, self.rows(x), strict=True)]
        self.seen |= set(x[0].tolist())
        self.check(*receipts)

    def act_many(self):
        xs = [self.draw() for _ in range(40)]
        many = [model.act_many([self.rows(x)[place] for x in xs]) for place, model in enumerate(self.models)]
        self.seen |= {j for x in xs for j in x[0].tolist()}
        for receipts in zip(*many, strict=True):
            self.check(*receipts)

    def check(self, direct, grown):
        assert direct.probabilities.tobytes() == grown.probabilities.tobytes()
        assert direct.action == grown.action
        ours, theirs = direct.to_dict(), grown.to_dict()
        assert NAMES[ours["features"]["indices"]].tolist() == theirs["features"]["indices"]
        assert (ours["features"]["values"], ours["bias"]) == (theirs["features"]["values"], theirs["bias"])
        assert Receipt.from_dict(json.loads(json.dumps(theirs))).to_dict() == theirs

    def learn(self):
        waiting = len(self.models[0].pending)
        for _ in range(min(5, waiting)):
            place = int(self.rng.integers(len(self.models[0].pending)))
            label = GRAPH.classes[int(self.rng.integers(3))]
            for model in self.models:
                receipt = model.pending[place]
                model.learn(receipt, label if label in receipt.reveals else UNSEEN)

    def teach(self):
        x = self.draw()
        self.seen |= set(x[0].tolist())
        for model, row in zip(self.models, self.rows(x), strict=True):
            model.teach(row, "b")

    def compare(self):
        direct, grown = self.models
        place = grown.player.feature_indices
        j = np.searchsorted(NAMES, place)
        assert set(j.tolist()) == self.seen
        bias = direct.player.engine.bias
        rows = np.concatenate([np.arange(bias), j + bias])
        assert direct.weights[rows].tobytes() == grown.weights.tobytes()
        x = self.draw()  # some of these features have no row yet
        ours, theirs = self.rows(x)
        assert direct.predict_both(ours)[1].tobytes() == grown.predict_both(theirs)[1].tobytes()
        assert direct.monitor.report() == grown.monitor.report()


def reload(pair, tmp_path):
    for place, model in enumerate(pair.models):
        model.save(tmp_path / "model.npz")
        again = Online.load(tmp_path / "model.npz")
        assert again.differences(model) == []
        pair.models[place] = again


def copied(pair, tmp_path):
    pair.models = [pickle.loads(pickle.dumps(pair.models[0])), copy.deepcopy(pair.models[1])]


def add_class(pair, tmp_path):
    if len(pair.models[0].graph.classes) < 6:
        for model in pair.models:
            model.add_class(f"new {len(model.graph.classes)}")


@pytest.mark.parametrize("learner", ["auto", "gapsmh", "gaplog", "one-against-all"])
def test_a_model_with_rows_on_demand_equals_one_with_all_from_the_start(learner, tmp_path):
    """The same bits after any mixture of calls, with copies, files and added classes in between."""
    pair = Pair(learner)
    order = np.random.default_rng(1)
    steps = [pair.act, pair.act, pair.learn, pair.learn, pair.teach]
    for number in range(120):
        steps[int(order.integers(len(steps)))]()
        if number % 17 == 5:
            pair.act_many()
        if number % 23 == 11:
            (reload, copied, add_class)[number // 23 % 3](pair, tmp_path)
        if number % 10 == 0:
            pair.compare()
    reload(pair, tmp_path)
    pair.learn()
    pair.act()
    pair.compare()
    assert 100 < pair.models[1].features <= D


def test_chunks_too():
    rng = np.random.default_rng(2)
    indices = np.sort(np.argsort(rng.random((300, D)), axis=1)[:, :5], axis=1)
    values, labels = rng.normal(size=indices.size), rng.integers(0, 3, 300)
    for learner in ("auto", "gapsmh"):
        players = [Player(learner, GRAPH, features, seed=6) for features in (D, "grow")]
        for player, names in zip(players, (indices, NAMES[indices]), strict=True):
            chunk = make_chunk(np.arange(0, indices.size + 1, 5), names.reshape(-1), values, labels)
            player.advance(chunk.part(0, 150))
            player.teach(chunk.part(150, 180))
            player.advance(chunk.part(180, 300))
        assert chunk.indices.dtype == np.int64
        place = np.searchsorted(NAMES, players[1].feature_indices)
        bias = players[0].engine.bias
        rows = np.concatenate([np.arange(bias), place + bias])
        assert players[0].weights[rows].tobytes() == players[1].weights.tobytes()


def test_replay_gives_the_same_model_and_the_log_holds_features(tmp_path):
    pair = Pair("auto")
    pair.models[1] = Online.open(
        tmp_path / "journal", "auto", GRAPH, "grow", seed=4, min_propensity=0.01, durability="os", snapshot_every=30
    )
    for number in range(80):
        (pair.act, pair.learn, pair.act, pair.teach)[number % 4]()
        if number == 40:
            pair.act_many()
            add_class(pair, tmp_path)
    pair.models[1].close()
    for replay in ("first", "last"):
        again = Online.from_store(tmp_path / "journal", replay=replay)
        assert again.differences(pair.models[1]) == []
    with Online.open(tmp_path / "journal") as pair.models[1]:
        pair.act()
        pair.learn()
        assert (
            pair.models[0].probabilities([np.zeros(D)])[0].tobytes()
            == pair.models[1].probabilities([np.zeros(1)])[0].tobytes()
        )


# --------------------------------------------------------------------------------------------------------- max_features


def test_features_that_come_after_max_features_are_left_out(tmp_path):
    """The model equals one that never saw them, but for their count."""
    rng, most = np.random.default_rng(3), 30
    limited = Online("auto", GRAPH, "grow", seed=2, max_features=most)
    narrow = Online("auto", GRAPH, "grow", seed=2)
    known, left_out = set(), 0
    for t in range(60):
        indices = np.unique(rng.integers(0, 3 * (t + 1), 5))
        values = rng.normal(size=indices.size)
        for j in indices.tolist():
            if len(known) < most:
                known.add(j)
        kept = np.isin(indices, list(known))
        left_out += int((~kept).sum())
        first, second = limited.act((indices, values)), narrow.act((indices[kept], values[kept]))
        assert first.probabilities.tobytes() == second.probabilities.tobytes()
        assert first.to_dict()["features"] == second.to_dict()["features"]
        for model, receipt in ((limited, first), (narrow, second)):
            model.learn(receipt, "b" if "b" in receipt.reveals else UNSEEN)
        if t == 40:
            limited.save(tmp_path / "model.npz")
            limited = Online.load(tmp_path / "model.npz")
    assert (limited.features, limited.max_features, limited.features_left_out) == (most, most, left_out)
    assert left_out > 100
    assert limited.weights.tobytes() == narrow.weights.tobytes()
    new = (np.array([5000]), np.ones(1))
    assert limited.predict_both(new)[1].tobytes() == narrow.predict_both(new)[1].tobytes()
    assert limited.features_left_out == left_out  # predictions count nothing


def test_where_the_number_of_features_is_given_it_is_the_limit():
    for features, expected in ((5, 5), (10**6, 10**6), ("grow", 7)):
        assert Player("auto", GRAPH, features, max_features=7).max_features == expected
    assert Online(graph=GRAPH, encoder=Encoder(), max_features=7).max_features == 7
    assert Online(graph=GRAPH, encoder=Encoder(features=2**18), max_features=7).max_features == 2**18
    with pytest.raises(UserError, match="max_features"):
        Player("auto", GRAPH, "grow", max_features=0)


def test_turns_of_another_player_are_refused():
    one, other = Player("gapsmh", GRAPH, "grow"), Player("gapsmh", GRAPH, "grow")
    one.act({3: 1.0})
    turn = one.act({7: 1.0, 9: 1.0})
    with pytest.raises(UserError, match="more features than this player"):
        other.learn(turn, -1)
    copy.copy(one).learn(turn, -1)


def test_a_narrow_vector_is_taken_too():
    player = Player("gapsmh", GRAPH, "grow")
    placed = player.place(Vector(np.array([4, 9], np.int32), np.ones(2), 2.0), -1)
    assert placed.indices.dtype == np.int32
    assert player.feature_indices.tolist() == [4, 9]
