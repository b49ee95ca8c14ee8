"""The theorems' figures show what is in the rows, between bounds that are computed here once more."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict

import numpy as np
import pytest

import gappletron.data.open
import gappletron.paper.figures.grids
import gappletron.paper.tuning
from gappletron.data.adversarial import FreshFeatures, Segments
from gappletron.paper import figures, report, runner, theorems
from gappletron.paper.claims import judge_claims
from gappletron.paper.comparator import Comparator
from gappletron.paper.figures import catalogue
from gappletron.paper.figures.bounds import draw_examined
from gappletron.paper.figures.catalogue import FIGURES, select_tasks
from gappletron.paper.results import Result, Summary
from gappletron.paper.runner import choose_marks, tune_learner
from gappletron.paper.styles import STYLES
from gappletron.paper.theorems import Examined, compute_bounds
from gappletron.paper.theory import bounds
from pictures import BY_ID, caption, draw, fakes, lines, panels, result_of


def test_bounds_are_drawn_over_the_mistakes() -> None:
    results = fakes("bounds", rounds=2000)
    axes = iter(panels(draw(BY_ID["bounds"], results)))
    rows = ["expectation", "high-probability", "expectation-separable", "high-probability-separable"]
    for row in rows:
        for graph in ("bandit", "filtering", "label-efficient", "full"):
            ax, theorem = next(axes), f"full-{row}" if graph == "full" else row
            assert theorem in ([ax.get_title(), *(text.get_text() for text in ax.texts)])
            noise = 0.0 if "separable" in row else 0.05
            for learner in ("gapsmh", "gaphin", "gaplog2", "gaplog"):
                runs = [
                    result
                    for result in results
                    if result.task.graph == graph
                    and result.task.learner == learner
                    and result.task.noise == noise
                    and result.task.tuning in ("", row)
                    and "fixed-ogd" not in result.task.optimizer
                ]
                label = STYLES[learner].label
                if not runs or (noise == 0.0 and "log" in learner):  # the logistic loss is never 0
                    assert not lines(ax, label)
                    continue
                ((at, mean),) = lines(ax, label)
                assert at.tolist() == choose_marks(2000)
                wanted = [statistics.fmean(run.curve[place][1] for run in runs) for place in range(len(at))]
                assert np.nan_to_num(mean) == pytest.approx(np.array(wanted))
                if learner == "gaplog":  # whose loss is not regular for three classes
                    assert not lines(ax, f"{label}: bound")
                    continue
                ((_, bound),) = lines(ax, f"{label}: bound")
                for t, value in list(zip(at, bound, strict=True))[::5]:
                    found = {
                        each.theorem: each
                        for each in bounds(
                            tune_learner(runs[0].task), runs[0].task.pieces.graph, rounds=int(t), max_norm=1.0
                        )
                    }[theorem]
                    assert found.refusal is None
                    assert value == pytest.approx(found.value + (0.0 if noise == 0.0 else 200.0 * t / 2000))
    words = caption(BY_ID["bounds"], results)
    assert "T = 2,000" in words
    assert "the mean of 3 runs" in words
    assert words.endswith("No theorem applies to GapLog here.")


def test_bounds_are_those_of_the_stored_parameters() -> None:
    """Twice the radius that was stored is twice h, and four times K L h^2 / 2."""
    results = [
        result
        for result in fakes("bounds", rounds=500)
        if result.task.graph == "full" and result.task.learner == "gapsmh" and result.task.noise > 0.0
    ]
    wider = [
        dataclasses.replace(
            result,
            outcome=dataclasses.replace(
                result.outcome, parameters=result.outcome.parameters.replace("1.414214", "2.828428")
            ),
        )
        for result in results
    ]
    values = [lines(panels(draw(BY_ID["bounds"], some))[0], "GapSmH: bound")[0][1][0] for some in (results, wider)]
    spread_loss = 0.1 * 1  # the comparator's loss in the first round: 0.1 T, evenly over T
    assert values[1] - spread_loss == pytest.approx(4 * (values[0] - spread_loss))


def refused(*_: object, **__: object) -> None:
    raise AssertionError("drawing must not tune a learner or open a stream")


def test_drawing_needs_the_stored_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    results = fakes(rounds=1000, repeats=2)
    for module, names in (
        (
            runner,
            ("tune_learner", "find_stream", "tune", "play", "quietest_segment", "best_comparator"),
        ),
        (gappletron.paper.tuning, ("tuned",)),
        (gappletron.data.open, ("open_stream",)),
        (Segments, ("chunks",)),
        (FreshFeatures, ("chunks",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, refused)
    for module in (catalogue, figures.bounds, figures.grids, theorems, report):
        assert not {"tune_learner", "find_stream", "open_stream", "play", "tuned", "tune"} & set(vars(module))
    for figure in FIGURES:
        draw(figure, results)
        assert "no data" not in caption(figure, results)
    summary = Summary(results)
    assert "upper-bounds" in report.render(results, summary, judge_claims(summary), [])


def test_bounds_need_a_comparator() -> None:
    results = [
        Result(result.task, dataclasses.replace(result.outcome, comparator_loss=None, comparator_gap=None))
        for result in fakes("bounds", rounds=200)
    ]
    picture = draw(BY_ID["bounds"], results)
    assert not any("bound" in str(line.get_label()) for ax in panels(picture) for line in ax.get_lines())
    assert len(panels(picture)) == 8  # nothing is known to be separable


def test_one_run_and_its_bounds() -> None:
    for result in fakes("bounds", rounds=500, repeats=1):
        task = result.task
        if task.learner != "gapsmh" or ("fixed-ogd" in task.optimizer and task.noise > 0.0):  # it has no theorem there
            continue
        lost = result.outcome.comparator_loss or 0.0
        found = Examined(
            result, tune_learner(task), 1.0, Comparator(np.zeros((3, 3)), lost, 0.0), compute_bounds(result)
        )
        (ax,) = panels(draw_examined(found))
        wanted = {
            bound.theorem: bound.value + (0.0 if bound.separable else lost)
            for bound in bounds(tune_learner(task), task.pieces.graph, rounds=500, max_norm=1.0)
            if bound.refusal is None
            and bound.theorem.startswith("full-") == (task.graph == "full")
            and (task.noise == 0.0 or not bound.separable)
        }
        drawn = {
            str(line.get_label()).removeprefix("bound: "): float(np.asarray(line.get_ydata())[-1])
            for line in ax.get_lines()
            if str(line.get_label()).startswith("bound: ")
        }
        assert wanted
        assert drawn == pytest.approx(wanted)
        assert lines(ax, "mistakes")[0][1][-1] == result.outcome.mistakes


def test_lower_filtering_shows_the_worse_stream() -> None:
    results = fakes("lower-filtering", rounds=1000)
    (ax,) = panels(draw(BY_ID["lower-filtering"], results))
    horizons = [2 * root**2 for root in (5, 10, 22)]
    for learner in ("gaplog", "gaphin", "gapsmh", "gaplog2", "banditron-iw", "exp3-g"):
        wanted = []
        for rounds in horizons:
            both: dict[bool, list[int]] = defaultdict(list)
            for result in results:
                if result.task.learner == learner and result.task.rounds == rounds:
                    both["turned" in result.task.stream].append(result.outcome.mistakes)
            wanted.append(max(statistics.fmean(both[False]), statistics.fmean(both[True])))
        ((at, values),) = lines(ax, STYLES[learner].label)
        assert at.tolist() == horizons
        assert values == pytest.approx(np.array(wanted))
    ((_, floor),) = lines(ax, "lower bound for every learner")
    assert floor == pytest.approx([2.5, 5.0, 11.0])  # R / 2
    ((_, ceiling),) = lines(ax, "upper bound")
    h2, L = 8.0 * 5.0, 4.0 * 2.0
    assert ceiling == pytest.approx(
        [max((4 - 2 * math.sqrt(2)) * 2 * 2 * L * h2, 2 * math.sqrt(h2 * 2 * L * T)) for T in horizons], rel=1e-5
    )


def test_lower_filtering_needs_both_streams() -> None:
    straight = [result for result in fakes("lower-filtering", rounds=1000) if "turned" not in result.task.stream]
    assert "no data at this T" in caption(BY_ID["lower-filtering"], straight)
    (ax,) = panels(draw(BY_ID["lower-filtering"], straight))
    assert [text.get_text() for text in ax.texts] == ["no data at this T"]


def test_lower_full_shows_mean_curves_between_the_bounds() -> None:
    results = fakes("lower-full", rounds=1000)
    axes = panels(draw(BY_ID["lower-full"], results))
    assert [ax.get_title() for ax in axes] == ["B = 2", "B = 4", "B = 8"]
    for B, ax in zip((2, 4, 8), axes, strict=True):
        M = (B**2 - 1) * 9
        for learner in ("gaplog", "gapsmh", "exp3-g", "perceptron", "arow"):
            runs = [result for result in results if result.task.learner == learner and f"B={B}," in result.task.stream]
            ((at, values),) = lines(ax, STYLES[learner].label)
            wanted = [statistics.fmean(run.curve[place][1] for run in runs) for place in range(len(at))]
            assert np.nan_to_num(values) == pytest.approx(np.array(wanted))
        ((at, floor),) = lines(ax, "lower bound for every learner")
        assert at.tolist() == [M + 1, 1000]
        assert floor == pytest.approx([(M + 1) * 2 / 3] * 2)
        ((_, ceiling),) = lines(ax, "upper bound")
        assert ceiling == pytest.approx([M * (2 / 3) ** 2 + 3 * 4 * (8 * B**2) / 2] * 2)


def test_learners_with_the_same_numbers_share_a_line() -> None:
    results = [
        result_of(task, task.rounds // (2 if "gaplog" in task.learner else 3))
        for task in select_tasks(["lower-filtering"], 300, 1)
    ]
    picture = draw(BY_ID["lower-filtering"], results)
    entries = [text.get_text().replace("\n", " ") for text in picture.legends[0].get_texts()]
    assert entries[:2] == ["GapLog, GapLog2", "GapHin, GapSmH, Banditron, Exp3.G"]


def test_lower_classes_and_lower_both_show_the_regret_over_the_bound() -> None:
    results = fakes("lower-classes", rounds=1000)
    (ax,) = panels(draw(BY_ID["lower-classes"], results))
    ((at, floor),) = lines(ax, "lower bound for every learner")
    assert at.tolist() == [2, 3, 4, 6, 8, 10, 12]
    assert floor == pytest.approx([3 * (K - 1) + (K - 1) / K for K in at])
    K = 6
    made = [run.outcome.mistakes for run in results if (run.task.learner, run.task.classes) == ("gapsmh", K)]
    bars = next(bar for bar in ax.containers if bar.get_label() == STYLES["gapsmh"].label)
    assert bars[0].get_ydata()[3] == pytest.approx(statistics.fmean(made) - 3 * K * K * (1 - 1 / K) ** 2)
    assert "3 (K - 1) + (K - 1)/K. The bound for GapSmH is 64 K." in caption(BY_ID["lower-classes"], results)
    results = fakes("lower-both", rounds=1100)
    (ax,) = panels(draw(BY_ID["lower-both"], results))
    ((at, floor),) = lines(ax, "lower bound for every learner")
    assert at**2 == pytest.approx([99, 249, 1017])
    assert floor == pytest.approx([3 * 3 + 3 / 4 + R / 2 for R in (5, 10, 22)])
    assert "K = 4" in caption(BY_ID["lower-both"], results)
