"""What `play` returns: the table and the frame say what the runs say."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gappletron import (
    ArrayStream,
    FeedbackGraph,
    Greedy,
    Histories,
    PartialLikelihood,
    Player,
    Runs,
    UserError,
    interpreted,
    play,
)

STREAM = "synthetic:K=3,d=40,noise=0.1,T=60"


@pytest.fixture(scope="module")
def runs() -> Histories:
    with interpreted():
        return play(["gapsmh", "gaphin"], STREAM, "filtering", repeats=[0, 3], seed=7)


def test_the_frame_has_a_row_for_each_run(runs):
    frame = runs.to_frame()
    assert list(frame.columns) == [
        "name",
        "repeat",
        "seed",
        "rounds",
        "mistakes",
        "error_rate",
        "labels_seen",
        "explored",
        "blind_rounds",
        "rate_sum",
        "loss_sum",
        "seconds",
    ]
    assert frame[["name", "repeat"]].values.tolist() == [["gapsmh", 0], ["gapsmh", 3], ["gaphin", 0], ["gaphin", 3]]
    for row, run in zip(frame.itertuples(), runs, strict=True):
        assert (row.seed, row.rounds, row.mistakes, row.labels_seen) == (7, 60, run.mistakes, run.labels_seen)
        assert (row.explored, row.blind_rounds) == (run.explored, run.blind_rounds)
        assert (row.rate_sum, row.seconds) == (run.rate_sum, run.seconds)
        assert row.error_rate == run.mistakes / 60
    assert {column: frame[column].dtype.kind for column in ("mistakes", "error_rate", "seconds", "loss_sum")} == {
        "mistakes": "i",
        "error_rate": "f",
        "seconds": "f",
        "loss_sum": "f",
    }


def test_the_frame_and_the_table_agree(runs):
    means = runs.to_frame().groupby("name", sort=False)["error_rate"].agg(["mean", "min", "max"])
    shown = [[name, *(f"{value:.4f}" for value in row)] for name, row in zip(means.index, means.values, strict=True)]
    assert [list(row[:4]) for row in runs.rows()] == shown


def test_the_losses_of_the_frame(runs):
    assert runs.to_frame()["loss_sum"].isna().all()
    with interpreted():
        with_losses = play("gapsmh", STREAM, "filtering", losses=True)
    assert with_losses.to_frame()["loss_sum"].tolist() == [with_losses[0].loss_sum]
    assert np.isfinite(with_losses[0].loss_sum)


def test_the_frame_of_a_part(runs):
    assert runs[1:3].to_frame()["name"].tolist() == ["gapsmh", "gaphin"]
    nothing = runs[:0].to_frame()
    assert len(nothing) == 0
    assert list(nothing.columns) == list(runs.to_frame().columns)


def test_pandas_is_optional(runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"\Ato_frame needs pandas, which is not installed: pip install pandas\Z"):
        runs.to_frame()


# -------------------------------------------------------------------------------------------- restarts, and being stuck


def changing(rounds, at, places=3):
    """Rows whose label follows from the place of their only entry; from round `at` on it is the next class."""
    place = np.random.default_rng(0).integers(0, places, rounds)
    return np.eye(places)[place], (place + (np.arange(rounds) >= at)) % 3


def test_a_change_that_is_noticed_is_in_the_history():
    with interpreted():
        steady, changed = (play("auto", changing(600, at, 30), "full")[0] for at in (600, 500))
    assert steady.restarts == ()
    assert {each.reason for each in changed.restarts} == {"change"}
    assert 500 < changed.restarts[0].round < 530
    assert "restarts" not in Histories([changed]).to_frame()


def test_the_restarts_of_a_run_that_goes_on_are_its_own():
    X, y = changing(25, 25)
    with interpreted():
        player = Player("auto", FeedbackGraph.full(3), 3, memory=10)
        rounds = []
        for _ in range(2):
            runs = Runs.continuing(player, ArrayStream(X, y, classes=(0, 1, 2)))
            list(runs)
            rounds.append([each.round for each in runs.histories()[0].restarts])
    assert rounds == [[10, 20], [30, 40, 50]]


def stuck(graph, rounds=1000, label=1):
    """A run of one that never explores, on rows of one label: it plays class 0 for as long as it sees nothing."""
    with interpreted():
        X, y = np.ones((rounds, 1)), np.full(rounds, label)
        stream = ArrayStream(X, y, classes=graph.classes)
        return play(PartialLikelihood(exploration=Greedy()), stream, graph)[0]


def test_a_run_that_sees_no_labels_warns():
    graph = FeedbackGraph.label_efficient(2)
    run = stuck(graph)
    assert (run.error_rate, run.labels_seen) == (1.0, 0)
    sentence = "No label was seen in 1,000 rounds, and the error may be anything from 0.00 to 1.00"
    assert run.warning.startswith(sentence)
    assert all(cure in run.warning for cure in ("teach", "min_propensity", "budget"))
    assert stuck(graph, rounds=999).warning is None  # too early to tell


@pytest.mark.parametrize("preset", ["bandit", "full", "apple-tasting"])
def test_a_run_whose_predictions_show_whether_they_are_right_does_not_warn(preset):
    """Apple tasting: class 0 reveals, and it is what is played."""
    assert stuck(FeedbackGraph.preset(preset, 2), label=0).warning is None


def test_labels_that_come_in_the_last_half_are_enough():
    """The last rounds show every label, and those before them none."""
    none, few = FeedbackGraph.label_efficient(2), FeedbackGraph([[1, 1], [1, 1], [1, 1]], [0, 1], [0, 1, "query"])
    for shown, warns in ((0, True), (18, True), (19, False)):
        graphs = [none] * (1000 - shown) + [few] * shown
        with interpreted():
            run = play(PartialLikelihood(exploration=Greedy()), (np.ones((1000, 1)), np.arange(1000) % 2), graphs)[0]
        assert run.labels_seen == shown
        assert (run.warning is not None) == warns
