"""The option `memory`: whose it is, what it does, and where it is kept."""

from __future__ import annotations

import numpy as np
import pytest

from gappletron import ArrayStream, FeedbackGraph, GivenScores, Guarded, Online, Player, UserError, interpreted, play
from problems import small_stream

FULL = FeedbackGraph.full(3)


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


def easy(rounds):
    """Rows whose label is the place of their only entry: nothing about them changes."""
    y = np.random.default_rng(0).integers(0, 3, rounds)
    return np.eye(3)[y], y


def ends(player):
    return [(each.round, each.reason) for each in player.restarts]


def test_where_every_label_is_shown_the_memory_ends_after_so_many_rounds():
    X, y = easy(170)
    chunk = next(ArrayStream(X, y, classes=(0, 1, 2)).chunks())
    for learner, memory in (("auto", 50), ("auto:memory=50", None), (Guarded(), 50)):
        player = Player(learner, FULL, 3, memory=memory)
        player.advance(chunk)
        assert ends(player) == [(50, "memory"), (100, "memory"), (150, "memory")]
        assert player.learner.scorer.memory == 50
    player = Player("auto", FULL, 3)
    player.advance(chunk)
    assert ends(player) == []


def test_play_and_saved_models_have_it(tmp_path):
    X, y = easy(40)
    (run,) = play("auto", (X, y), "full", memory=20)
    assert run.learner.scorer.memory == 20
    model = Online("auto", FULL, 3, memory=15)
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn(model.act(x), label)
    model.save(tmp_path / "model.npz")
    again = Online.load(tmp_path / "model.npz")
    assert again.differences(model) == []
    for x, label in zip(X[:6], y[:6].tolist(), strict=True):
        again.learn(again.act(x), label)
    assert [each.round for each in again.restarts] == [15, 30, 45]


def test_a_store_has_it_too_and_must_be_given_the_same(tmp_path):
    (x, *_), (label, *_) = easy(1)
    with Online.open(tmp_path / "store.sqlite", "auto", FULL, 3, memory=2, durability="os") as model:
        model.learn(model.act(x), int(label))
    for given in ({}, {"learner": "auto"}, {"memory": 2}):
        with Online.open(tmp_path / "store.sqlite", **given) as model:
            assert model.learner.scorer.memory == 2
    for wrong, message in (({"memory": 3}, "another memory"), ({"memory": None}, "another memory")):
        with pytest.raises(UserError, match=message):
            Online.open(tmp_path / "store.sqlite", **wrong)
    with Online.open(tmp_path / "store.sqlite") as model:
        model.learn(model.act(x), int(label))
        assert [each.reason for each in model.restarts] == ["memory"]


@pytest.mark.parametrize("learner", ["gapsmh", "banditron", Guarded(GivenScores())])
def test_a_learner_without_a_memory_says_what_to_do(learner):
    X, y = small_stream(np.random.default_rng(0), 5, 3, 3)
    for make in (
        lambda: Player(learner, FULL, 3, memory=50),
        lambda: Online(learner, FULL, 3, memory=50),
        lambda: play(learner, (X, y), "bandit", memory=50),
    ):
        with pytest.raises(UserError, match="has no memory to set: omit it, or use the learner 'auto'"):
            make()


@pytest.mark.parametrize("memory", [0, -1, 2.5, "many", True])
def test_a_memory_is_a_number_of_rounds(memory):
    with pytest.raises(UserError, match="memory"):
        Player("auto", FULL, 3, memory=memory)
