"""The experiments as data: what the notes ask for, counted and computed by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from gappletron import FeedbackGraph, Gappletron, UserError, named, quietest_segment
from gappletron.data.synthetic import Synthetic
from gappletron.paper.figures.catalogue import FIGURES, choose_drawable, select_tasks
from gappletron.paper.runner import choose_marks, find_stream, tune_learner
from gappletron.paper.sweeps import SWEEPS, list_tasks

ALL = select_tasks()
BY_SWEEP = {name: [task for task in ALL if task.sweep == name] for name in {task.sweep for task in ALL}}


def test_the_paper_s_sweeps_have_the_runs_of_the_notes():
    cells = set(itertools.product((6, 9, 12), (80, 120, 160), (0.0, 0.05, 0.1)))
    for name in ("bandit", "filtering", "full"):
        assert {(task.classes, task.features, task.noise) for task in BY_SWEEP[name]} == cells
    assert len(BY_SWEEP["bandit"]) == 27 * 7 * 2 * 10
    assert len(BY_SWEEP["filtering"]) == 27 * 4 * 2 * 10
    assert len(BY_SWEEP["full"]) == 27 * (3 * 10 + 3)
    everyone = Counter((task.learner, task.tuning) for task in BY_SWEEP["bandit"])
    assert set(everyone) == {
        (name, tuning)
        for tuning in ("theory", "only-t")
        for name in ("gaplog", "gaphin", "gapsmh", "pnewtron", "soba-diag", "banditron-iw", "banditron")
    }
    assert set(everyone.values()) == {270}
    assert Counter(task.repeat for task in BY_SWEEP["full"] if task.learner == "perceptron") == {0: 27}


def test_the_default_learner_plays_the_data_of_the_paper_s_figures():
    for graph, repeats in (("bandit", 3), ("filtering", 3), ("label-efficient", 3), ("full", 1)):
        ours = [task for task in BY_SWEEP["ours"] if task.graph == graph]
        assert {task.stream for task in ours} == {task.stream for task in BY_SWEEP[graph]}
        assert set(Counter(task.stream for task in ours).values()) == {repeats}
    assert {task.learner for task in BY_SWEEP["ours"]} == {"auto"}
    assert tune_learner(BY_SWEEP["ours"][0]) == named("auto")


def test_ids_are_unique_and_stay_as_they_are():
    assert len({task.id for task in ALL}) == len(ALL)
    for known in (
        "bandit/bandit/K=9,d=120,noise=0.05,T=100000/gapsmh,only-t,paper/03",
        "filtering/filtering/K=12,d=80,noise=0.1,T=100000/banditron-iw,theory/09",
        "full/full/K=6,d=160,noise=0.0,T=100000/passive-aggressive/00",
        "label-efficient/label-efficient/K=6,d=120,noise=0.1,T=100000/label-efficient-perceptron:b=0.1/00",
        "exploration/filtering/K=9,d=80,noise=0.1,T=100000/gaphin,only-t,top-up/05",
        "lower-filtering/filtering:revealing=1/segments:R=22,turned=quietest/exp3-g,theory/19",
        "lower-full/full/fresh:K=3,B=8,T=100000/arow/39",
        "ours/label-efficient/K=9,d=120,noise=0.05,T=100000/auto/02",
    ):
        assert any(task.id == known for task in ALL), known
    assert [task.id for task in ALL] == sorted(task.id for task in ALL)


@pytest.mark.parametrize("repeats", [None, 1, 5])
def test_the_turned_segment_is_decided_by_the_repeats_of_the_sweep(repeats):
    """The number is a field of the task and part of the stored stream, but not of the id."""
    lower = select_tasks(["lower-filtering"], rounds=50, repeats=repeats)
    expected = {"segments:R=5", f"segments:R=5,turned=quietest,repeats={repeats or 20}"}
    assert {task.stream for task in lower} == expected
    assert {task.pieces.probes for task in lower} == {None, repeats or 20}
    assert {task.pieces.stream.name for task in lower} == {"segments:R=5"}
    assert {task.id.split("/")[2] for task in lower} == {"segments:R=5", "segments:R=5,turned=quietest"}


@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_an_adversary_probes_with_the_runs_of_the_sweep(repeats):
    for task in select_tasks(["lower-filtering"], rounds=200, repeats=repeats):
        if "turned" in task.stream:
            root, learner = math.isqrt(task.rounds // 2), tune_learner(task)
            # Their losses change nothing; left out for one learner alone, since that is another loop to compile.
            losses = isinstance(learner, Gappletron) and task.learner != "gapsmh"
            probe = quietest_segment(learner, root, repeats=repeats, losses=losses)
            assert find_stream(task).turned == probe.segment


def test_the_figures_use_the_paper_s_exploration_and_losses():
    gaps = [
        task
        for name in ("bandit", "filtering", "full", "label-efficient")
        for task in BY_SWEEP[name]
        if task.learner.startswith("gap")
    ]
    assert {task.exploration for task in gaps} == {"paper"}
    assert {task.learner for task in gaps} == {"gaplog", "gaphin", "gapsmh"}
    assert {task.optimizer for task in gaps} == {""}
    assert {task.exploration for task in BY_SWEEP["exploration"]} == {"top-up"}


def task_of(sweep, learner, tuning, cell=(9, 120, 0.05)):
    return next(
        task
        for task in BY_SWEEP[sweep]
        if task.learner == learner and task.tuning == tuning and (task.classes, task.features, task.noise) == cell
    )


def test_the_numbers_in_the_players_are_those_of_the_notes():
    X, T, K, d = Synthetic(9, 120, 0.05).max_norm, 100_000, 9, 120
    assert tune_learner(task_of("bandit", "gapsmh", "theory")).exploration.gamma == pytest.approx(
        math.sqrt(K * K * 4 * X**2) / 2
    )
    assert tune_learner(task_of("bandit", "gaphin", "theory")).exploration.gamma == pytest.approx(
        math.sqrt(K * K * 2 * X**2) / 2
    )
    gaplog = tune_learner(task_of("bandit", "gaplog", "theory"))
    assert gaplog.exploration.gamma == pytest.approx(math.sqrt(K * K * X**2 / math.log(K)) / 2)
    assert tune_learner(task_of("filtering", "gapsmh", "theory")).exploration.gamma == pytest.approx(
        math.sqrt(K * 4 * X**2) / 2
    )
    assert tune_learner(task_of("bandit", "gaplog", "only-t")).exploration.gamma == 1.0
    assert tune_learner(task_of("bandit", "banditron-iw", "theory")).gamma == pytest.approx((K * X**2 / T) ** (1 / 3))
    assert tune_learner(task_of("filtering", "banditron-iw", "theory")).gamma == pytest.approx((X**2 / T) ** (1 / 3))
    assert tune_learner(task_of("bandit", "banditron-iw", "only-t")).gamma == pytest.approx(T ** (-1 / 3))
    assert tune_learner(task_of("bandit", "pnewtron", "theory")).gamma == pytest.approx((d * K / T) ** (1 / 3))
    assert tune_learner(task_of("full", "perceptron", "")) == named("perceptron")


def test_graphs_and_streams():
    assert task_of("filtering", "gapsmh", "theory").pieces.graph.revealing_indices == (0,)
    assert BY_SWEEP["lower-filtering"][0].pieces.graph.revealing_indices == (1,)
    assert task_of("label-efficient", "gapsmh", "theory").pieces.graph.n_actions == 10
    assert isinstance(ALL[0].pieces.graph, FeedbackGraph)
    assert find_stream(select_tasks(["full"], rounds=50)[0]).rounds == 50


def test_every_learner_of_the_paper_that_can_play_meets_each_adversary():
    from gappletron import Estimator, Guarded, named, names

    for sweep in ("lower-filtering", "lower-full"):
        graph = BY_SWEEP[sweep][0].pieces.graph
        assert {task.learner for task in BY_SWEEP[sweep]} == {
            name
            for name in names(graph)
            if name != "decoded-logistic" and not isinstance(named(name), Estimator | Guarded)  # ours
        }


def test_every_player_can_play_its_graph():
    for task in {(task.sweep, task.graph, task.learner, task.tuning): task for task in ALL}.values():
        assert tune_learner(task).refusal(task.pieces.graph) is None


def test_fewer_repeats_and_rounds():
    few = select_tasks(["bandit"], rounds=500, repeats=3)
    assert len(few) == 27 * 14 * 3
    assert {task.rounds for task in few} == {500}
    assert {task.rounds for task in select_tasks(["lower-filtering"], rounds=1000)} == {50, 200, 968}
    assert select_tasks(["lower-full"], rounds=20) == []


def test_figures_choose_their_runs():
    theory = select_tasks(["bandit-theory"], repeats=1)
    assert {task.tuning for task in theory} == {"theory"}
    both = select_tasks(["exploration"], repeats=1)
    assert {(task.graph, task.exploration) for task in both if task.learner == "gapsmh"} == {
        ("filtering", "paper"),
        ("filtering", "top-up"),
        ("label-efficient", "paper"),
        ("label-efficient", "top-up"),
    }
    with pytest.raises(UserError, match="did you mean 'bandit-theory'"):
        select_tasks(["bandit-theroy"])
    assert [figure.id for figure in choose_drawable((), {sweep.id for sweep in SWEEPS})] == [
        figure.id for figure in FIGURES
    ]
    assert [figure.id for figure in choose_drawable(["exploration"], {"exploration"})] == []


def test_sweeps_are_counted_anew_for_each_repeat_only_where_the_data_change():
    lower = next(sweep for sweep in SWEEPS if sweep.id == "lower-full")
    assert Counter(task.learner for task in list_tasks(lower))["perceptron"] == 40
    assert len({task.stream for task in list_tasks(lower)}) == 40


def test_marks_hold_the_half_and_the_end():
    for rounds in (1, 2, 3, 10, 999, 100_000):
        found = choose_marks(rounds)
        assert found == sorted(set(found))
        assert found[0] == 1
        assert {max(1, rounds // 2), rounds} <= set(found)
        assert found[-1] == rounds
