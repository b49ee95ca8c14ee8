"""What `play` returns: the table and the frame say what the runs say."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gappletron import Histories, UserError, interpreted, play

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
    with pytest.raises(
        UserError, match=r"\Ato_frame needs pandas, which is not installed: pip install 'gappletron\[pandas\]'\Z"
    ):
        runs.to_frame()
