"""The sensitivity run: every reading by hand, kills, and counts that depend on the stored runs alone."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics

import pytest

from gappletron import BanditronIW, FeedbackGraph, Gappletron, Synthetic, UserError, interpreted, named, play
from gappletron.base.progress import View
from gappletron.paper.claims import CLAIMS
from gappletron.paper.figures.catalogue import select_tasks
from gappletron.paper.report import draw_heat_map
from gappletron.paper.reproduce import reproduce_readings
from gappletron.paper.results import Cell, Result, Summary
from gappletron.paper.runner import find_stream, tune_learner
from gappletron.paper.sensitivity import (
    AXES,
    BASE,
    PAPER_CLAIMS,
    SEEDS,
    SETTINGS,
    Count,
    Reading,
    Size,
    Tally,
    count_claims,
    from_json,
    judge_reading,
    list_entries,
    list_stages,
    to_json,
)
from gappletron.paper.store import read_results
from gappletron.paper.tuning import compute_mean_norm, tune
from problems import ended

K, T = 9, 100_000
SMALL = Size(seeds=(0, 1), repeats=2, rounds=100, cells=(Cell(9, 120, 0.05),))


# ------------------------------------------------------------------------------------------------- the readings by hand


def test_one_axis_at_a_time_and_the_plane():
    assert SETTINGS[0].reading == BASE
    assert len({setting.id for setting in SETTINGS}) == len(SETTINGS)
    for setting in SETTINGS[1:]:
        changed = {
            field.name
            for field in dataclasses.fields(Reading)
            if getattr(setting.reading, field.name) != getattr(BASE, field.name)
        }
        assert changed == ({"rounds", "constant"} if setting.axis == "plane" else {setting.axis})
    assert {setting.axis for setting in SETTINGS} == {"base", "plane", *AXES}
    times = [setting.reading.rounds for setting in SETTINGS if setting.axis == "rounds"]
    assert (min(times), max(times), len(SEEDS)) == (3_000, 300_000, 5)
    plane = {
        (setting.reading.constant, setting.reading.rounds)
        for setting in SETTINGS
        if setting.axis in ("base", "plane", "constant", "rounds")
    }
    assert plane == {(constant, rounds) for constant in AXES["constant"] for rounds in AXES["rounds"]}


def learners(reading, sweep, learner, tuning, seed=0, cell=(9, 120, 0.05)):
    """The learner that counts as this one under a reading."""
    return next(
        tune_learner(entry.task)
        for entry in list_entries(reading, seed, Size(cells=(Cell(*cell),), repeats=1))
        if (entry.counts_as.sweep, entry.counts_as.learner, entry.counts_as.tuning) == (sweep, learner, tuning)
    )


X = Synthetic(9, 120, 0.05).max_norm
OWN = {"gaplog": X**2 / math.log(K), "gaphin": 2 * X**2, "gapsmh": 4 * X**2}


@pytest.mark.parametrize(
    ("constant", "L"),
    [
        ("own", OWN),
        ("1", dict.fromkeys(OWN, X**2)),
        ("2", dict.fromkeys(OWN, 2 * X**2)),
        ("4", dict.fromkeys(OWN, 4 * X**2)),
        ("gaplog", dict.fromkeys(OWN, X**2 / math.log(K))),
        ("2 in gaplog", {**OWN, "gaplog": 2 * X**2}),
    ],
)
def test_the_constant_is_in_the_theory_tuning_alone(constant, L):
    for gap, value in L.items():
        reading = Reading(constant=constant)
        bandit = learners(reading, "bandit", gap, "theory")
        assert bandit.exploration.gamma == pytest.approx(math.sqrt(K * K * value) / 2)
        assert learners(reading, "filtering", gap, "theory").exploration.gamma == pytest.approx(
            math.sqrt(K * value) / 2
        )
        assert learners(reading, "bandit", gap, "only-t") == learners(BASE, "bandit", gap, "only-t")


def test_the_mean_norm():
    stream = Synthetic(9, 120, 0.05, rounds=5_000)
    chunks = list(stream.chunks())
    norms = [math.sqrt(length) for chunk in chunks for length in chunk.indptr[1:] - chunk.indptr[:-1]]
    assert compute_mean_norm(stream) == pytest.approx(statistics.fmean(norms), rel=0.02)
    reading = Reading(norm="mean")
    typical = compute_mean_norm(stream)
    assert learners(reading, "bandit", "gapsmh", "theory").exploration.gamma == pytest.approx(K * typical)
    for name in ("banditron-iw", "banditron"):
        assert learners(reading, "bandit", name, "theory").gamma == pytest.approx((K * typical**2 / T) ** (1 / 3))
    assert learners(reading, "bandit", "pnewtron", "theory") == learners(BASE, "bandit", "pnewtron", "theory")
    with pytest.raises(UserError, match="leave out X=mean"):
        compute_mean_norm(object())


def test_the_other_readings():
    assert learners(Reading(gamma=0.5), "bandit", "gaphin", "only-t").exploration.gamma == 0.5
    assert learners(Reading(gamma=0.5), "bandit", "gaphin", "theory") == learners(BASE, "bandit", "gaphin", "theory")
    assert learners(Reading(root=3), "bandit", "soba-diag", "only-t").rate.gamma == pytest.approx(T ** (-1 / 3))
    assert learners(BASE, "bandit", "soba-diag", "only-t").rate.gamma == pytest.approx(T ** (-1 / 2))
    assert learners(Reading(banditron="standard"), "bandit", "banditron-iw", "theory") == learners(
        BASE, "bandit", "banditron", "theory"
    )
    # It has no form for filtering.
    assert isinstance(learners(Reading(banditron="standard"), "filtering", "banditron-iw", "theory"), BanditronIW)
    few = {entry.task.learner for entry in list_entries(Reading(least_b=10.0), 0, SMALL) if ":b=" in entry.task.learner}
    assert few == {"label-efficient-perceptron:b=10", "label-efficient-perceptron:b=100"}
    entry = next(entry for entry in list_entries(Reading(rounds=3_000), seed=4) if entry.task.sweep == "full")
    assert entry.task.stream.endswith("T=3000,seed=4")
    assert find_stream(entry.task).name == entry.task.stream
    with pytest.raises(UserError, match="soba-diag has no reading L=2"):
        tune(named("soba-diag"), "theory", FeedbackGraph.bandit(9), Synthetic(), [("L", "2")])


@pytest.mark.parametrize("graph", ["bandit", "filtering"])
def test_banditron_with_a_margin_and_a_step_size(graph):
    """The same exploration as Banditron's, with the weighted hinge and Gappletron's step size."""
    margin = learners(Reading(banditron="margin"), graph, "banditron-iw", "only-t")
    weighted = learners(BASE, graph, "banditron-iw", "only-t")
    assert isinstance(margin, Gappletron)
    assert margin.exploration.epsilon == weighted.gamma == pytest.approx(T ** (-1 / 3))
    assert (margin.optimizer.scale, margin.loss.kappa) == (1.0, pytest.approx(1.0))
    assert margin.loss.slope(0.999, True, 9) == 1.0
    stream, runs = "synthetic:K=3,d=40,noise=0.1,T=600", {}
    with interpreted():
        for name, learner in (("margin", margin.replace(epsilon=0.3)), ("weighted", weighted.with_gamma(0.3))):
            runs[name] = play(learner, stream, graph)[0]
    if graph == "bandit":  # in filtering the rate is 0 where the greedy class reveals, and the actions are the same
        assert runs["margin"].rate_sum == pytest.approx(runs["weighted"].rate_sum)
    assert runs["margin"].mistakes != runs["weighted"].mistakes


def test_main_tasks_count_as_themselves():
    """What the claims see at the base is what the main command runs, but for the ids."""
    mine = {dataclasses.replace(entry.counts_as, id="") for entry in list_entries(BASE, 0)}
    main = select_tasks(["bandit", "filtering", "full", "label-efficient"], repeats=3)
    assert mine == {dataclasses.replace(task, id="") for task in main}
    assert all(dataclasses.replace(entry.task, id="") in mine for entry in list_entries(BASE, 0))
    assert not any(":" in task.tuning for task in select_tasks())


def test_each_run_is_run_once():
    stages = list_stages(SETTINGS, SMALL)
    ids = [task.id for stage in stages for task in stage]
    assert len(ids) == len(set(ids))
    assert [sorted({task.stream.rpartition("=")[2] for task in stage}) for stage in stages] == [["0"], ["1"], ["0"]]
    assert {task.rounds for stage in stages for task in stage} == {3, 10, 30, 50, 100, 300}
    asked = sum(len(list_entries(setting.reading, 0, SMALL)) for setting in SETTINGS)
    assert len(ids) < asked


# ----------------------------------------------------------------------------------------------------- kills and purity


class Stopping(View):
    def __init__(self, after):
        self.left = after
        self.missing = 0

    def begun(self, runs, missing):
        self.missing = len(missing)

    def finished(self, sweep, rounds):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Every axis at small T, stopped twice on the way."""
    out = tmp_path_factory.mktemp("sensitivity")
    runs = sum(map(len, list_stages(SETTINGS, SMALL)))
    for after in (100, 700):
        with pytest.raises(KeyboardInterrupt):
            reproduce_readings(out, SMALL, jobs=2, view=Stopping(after))
    view = Stopping(runs)
    reproduce_readings(out, SMALL, jobs=2, view=view)
    assert runs - 810 <= view.missing <= runs - 800
    return out


def test_the_tables_are_functions_of_the_stored_runs(folder):
    results = read_results(folder)
    assert len(results) == sum(map(len, list_stages(SETTINGS, SMALL)))
    found = count_claims(reversed(results), SETTINGS, SMALL)
    text = (folder / "sensitivity.json").read_text()
    assert text == to_json(found, SMALL)
    assert from_json(text) == found
    assert {setting.id for setting in found.settings()} == {setting.id for setting in SETTINGS}
    left = {path.name for path in folder.iterdir() if not path.name.startswith("results.sqlite-")}  # SQLite's own
    assert left == {"results.sqlite", "sensitivity.html", "sensitivity.json", "sensitivity.png"}


def test_counts_are_those_of_the_main_command_s_claims(folder):
    """At the base, on the first seed, by the main path: a summary of the runs under the names of its tasks."""
    by_id = {result.task.id: result for result in read_results(folder)}
    mine = judge_reading(by_id, BASE, [0], SMALL)
    summary = Summary(Result(entry.counts_as, by_id[entry.task.id].outcome) for entry in list_entries(BASE, 0, SMALL))
    for verdict in mine:
        assert [check.holds for check in verdict.checks] == [check.holds for check in verdict.claim.test(summary)]
    # SOBAdiag's other rate is seen by the claims about it, and by no others.
    rates = {
        name: next(
            by_id[entry.task.id].outcome.mistakes
            for entry in list_entries(reading, 0, SMALL)
            if entry.counts_as.learner == "soba-diag" and entry.counts_as.tuning == "only-t"
        )
        for name, reading in (("base", BASE), ("root", Reading(root=3)))
    }
    assert rates["base"] != rates["root"]


def test_incomplete_readings_are_not_judged(folder):
    results = read_results(folder)
    without = [result for result in results if result.task.tuning != "theory:X=mean"]
    found = count_claims(without, SETTINGS, SMALL)
    assert {setting.axis for setting in SETTINGS} - {setting.axis for setting in found.settings()} == {"norm"}
    gone = list_entries(BASE, 1, SMALL)[0].task.id
    assert found.words
    assert count_claims([result for result in results if result.task.id != gone], SETTINGS, SMALL).words == {}


def test_the_page(folder):
    text = (folder / "sensitivity.html").read_text()
    found = from_json((folder / "sensitivity.json").read_text())
    for claim in found.claims():
        assert f'id="claim-{claim.id}"' in text
        assert found.describe_flips(claim.id).split(";")[0].replace("'", "&#39;") in text
    for setting in SETTINGS:
        assert setting.label.replace("'", "&#39;") in text
    assert "<script" not in text
    assert (folder / "sensitivity.png").stat().st_size > 10_000
    axes = draw_heat_map(found).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [claim.id for claim in found.claims()]
    assert [label.get_text() for label in axes.get_xticklabels()] == [setting.label for setting in SETTINGS]


# ------------------------------------------------------------------------------------------- what is said of the counts


def made_up(**shares):
    """Every claim true in all of its 10 cells under the base, and otherwise under these settings, on three seeds."""
    counts = {claim.id: {"base": (Count(10, 10),) * 3} for claim in PAPER_CLAIMS}
    for claim, by_setting in shares.items():
        for name, trues in by_setting.items():
            counts[claim.replace("_", "-")][name] = tuple(Count(true, 10) for true in trues)
    return Tally(counts, 3)


def test_sentences_name_what_flips_a_verdict():
    found = made_up(
        full_separated={"norm=mean": (0, 0, 10), "rounds=3000": (0, 10, 10)},
        filtering_best={"norm=mean": (10, 10, 10)},
        full_log_explores={"base": (10, 10, 9)},
        stability={"base": (9, 9, 9), "rounds=30000,constant=2": (10, 10, 10)},
    )
    assert found.describe_flips("full-separated") == "Holds at the base; does not hold with X the mean norm."
    assert found.describe_flips("filtering-best") == "Holds at the base; no reading changes that."
    assert found.describe_flips("full-log-explores") == (
        "Depends on the data: holds at the base with 2 of 3 seeds; no reading changes that on most seeds of the data."
    )
    assert found.describe_flips("stability") == "Does not hold at the base; holds with L = 2X² for all, T = 30,000."
    assert [found.find_robustness(name) for name in ("filtering-best", "full-separated", "full-log-explores")] == [
        True,
        None,
        None,
    ]
    assert made_up(stability={"base": (9, 0, 9)}).find_robustness("stability") is False


def test_the_reading_that_explains_most():
    names = [claim.id for claim in PAPER_CLAIMS]
    counts = {
        name: {"base": (Count(0, 10),), "norm=mean": (Count(10, 10),), "root=3": (Count(9, 10),)} for name in names
    }
    study = Tally(counts, 3)
    assert (study.best.id, study.best.label) == ("norm=mean", "X the mean norm")
    assert study.best_by_share == study.best
    assert study.find_held_share("stability", study.best) == 1.0


def test_the_stored_study_knows_every_claim():
    from gappletron.paper.sensitivity import read_stored

    found = read_stored()
    assert {claim.id for claim in found.claims()} == {claim.id for claim in CLAIMS if claim.source != "ours"}
    assert json.loads(to_json(found))["repeats"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure", "full"), "leave out --figure"),
        (("--rounds", "99"), "rounds with --sensitivity must be"),
        (("--repeats", "1"), "repeats must be"),
    ],
)
def test_errors_are_one_sentence(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = ended("reproduce", "--sensitivity", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
