from __future__ import annotations

import json

import numpy as np

from gappletron import Monitor, Online
from gappletron.base import progress
from problems import ended

DATA = "synthetic:K=3,d=40,noise=0.05,T=600"


def test_the_estimate_stands_beside_the_true_error(tmp_path):
    path = tmp_path / "run.json"
    arguments = ("run", DATA, "--graph", "filtering", "--revealing", 0, "--estimate", "--alpha", 0.1)
    code, out, err = ended(*arguments, "--min-propensity", 0.1, "--budget", "40/200", "--json", path)
    assert (code, err) == (0, "")
    table = out.splitlines()
    assert "from the labels seen alone, with confidence 0.9" in table
    policy, greedy = table[-2:]
    (run,) = json.loads(path.read_text())["runs"]
    found = run["estimate"]["policy"]["error"]
    assert policy.split()[2:] == [
        f"{number:.4f}" for number in (run["error_rate"], found["value"], found["low"], found["high"], found["naive"])
    ]
    assert greedy.split()[2] == "-"
    assert found["low"] <= run["error_rate"] <= found["high"]
    assert run["estimate"]["alpha"] == 0.1
    assert 0 < run["estimate"]["spent"] <= 120


def test_runs_of_several_learners_are_told_apart():
    code, out, _ = ended("run", DATA, "--learner", "gapsmh", "--learner", "gaphin", "--repeats", 2, "--estimate")
    assert code == 0
    assert [line.split(",")[0] for line in out.splitlines()[-8:]] == [
        f"{name} {repeat}" for name in ("gapsmh", "gaphin") for repeat in (0, 1) for _ in range(2)
    ]


def test_a_saved_model_is_watched_from_now_on(tmp_path):
    data, path = tmp_path / "rows.csv", tmp_path / "model.npz"
    rng = np.random.default_rng(0)
    rows = [f"{'ab'[int(x > 0)]},{x:.3f}" for x in rng.normal(size=100)]
    data.write_text("\n".join(["label,x", *rows]))
    arguments = ("run", data, "--label", "label", "--features", 64, "--save", path)
    assert ended(*arguments)[0] == 0
    again = ("run", data, "--label", "label", "--load", path, "--save", path, "--estimate")
    for rounds in (100, 200):
        assert ended(*again)[0] == 0
        report = Monitor(Online.load(path).player).report()
        assert (report.rounds, report.window.first, report.window.last) == (rounds, 100, 99 + rounds)


def test_options_that_do_not_fit_are_refused():
    for arguments, message in (
        (("--alpha", 0.1), "without --estimate"),
        (("--estimate", "--alpha", 2), "Invalid value for '--alpha'"),
        (("--budget", "many"), "as in 50/1000 or 50/day"),
        (("--min-propensity", 0.9), "give at most 0.333"),
    ):
        code, _, err = ended("run", DATA, *arguments)
        assert code == 2
        assert message in err


def test_the_note_is_in_the_progress_line(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress.progress("playing", lambda: "error 0.1 [0.0, 0.2]") as show:
        show(10, 20)
    assert capsys.readouterr().err == "playing: 10 of 20; error 0.1 [0.0, 0.2]\n"
