"""The figures show what is in the rows: means, ranges and bounds, computed here once more, naively."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.container import ErrorbarContainer

from gappletron._validate import UserError
from gappletron.experiments.figures import DRAWINGS, STYLES, caption, draw, mistakes_and_bounds, save, style_of
from gappletron.experiments.runner import graph_of, marks, player
from gappletron.experiments.store import Outcome, Result
from gappletron.experiments.sweeps import FIGURES, SWEEPS, Task, selected, tasks
from gappletron.learners import names
from gappletron.theory import bounds

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from gappletron.experiments.sweeps import Figure

BY_ID = {figure.id: figure for figure in FIGURES}
LABELS = {style.label: name for name, style in STYLES.items()}


# ------------------------------------------------------------------------------------------------------------------ fake runs


def result_of(task: Task, mistakes: int, labels_seen: int = 0, curve: list[tuple[int, int]] | None = None,
              comparator: float | None = None) -> Result:
    rounds, made = zip(*(curve or [(t, mistakes * t // task.rounds) for t in marks(task.rounds)]), strict=True)
    norm = {"segments": math.sqrt(2.0), "fresh": 1.0, "unit-vectors": 1.0}.get(task.stream.partition(":")[0], 4.0)
    return Result(task, Outcome("{}", norm, mistakes, labels_seen, 0, 0, mistakes / task.rounds, 0.0, 1.0, comparator,
                                None if comparator is None else 0.0, json.dumps([rounds, made]), "", "", "", 0.1, ""))


def faked(task: Task, rng: random.Random) -> Result:
    """A run that never happened: any numbers, of the right kind."""
    at = marks(task.rounds)
    share = rng.uniform(0.01, 0.9)
    curve = [(t, round(share * t)) for t in at]
    seen = rng.randint(1, max(1, curve[-1][1]))
    lost = None if task.figure != "bounds" else 0.0 if task.noise == 0.0 and "log" not in task.learner else 0.1 * task.rounds
    return result_of(task, curve[-1][1], seen, curve, lost)


def fakes(*figures: str, rounds: int = 1000, repeats: int = 3, seed: int = 0) -> list[Result]:
    rng = random.Random(seed)
    return [faked(task, rng) for task in selected(figures, rounds, repeats)]


@pytest.fixture(scope="module")
def everything() -> list[Result]:
    """A table like that of a whole reproduction, but for its numbers."""
    return fakes(rounds=100_000, repeats=2)


# --------------------------------------------------------------------------------------------------------- reading a picture


def panels(picture: Picture) -> list[Axes]:
    return picture.get_axes()


def bars(ax: Axes) -> dict[str, dict[float, tuple[float, float, float]]]:
    """Of each learner in a panel, by place: the marker and the ends of its whisker."""
    found: dict[str, dict[float, tuple[float, float, float]]] = defaultdict(dict)
    for container in ax.containers:
        assert isinstance(container, ErrorbarContainer)
        line, _, (collection,) = container.lines
        for x, y, segment in zip(*line.get_data(), collection.get_segments(), strict=True):
            assert segment[0][0] == segment[1][0] == x
            found[LABELS[container.get_label()]][float(x)] = (float(y), float(segment[0][1]), float(segment[1][1]))
    return found


def hollows(ax: Axes) -> set[tuple[float, float]]:
    return {(float(x), float(y)) for line in ax.get_lines()
            if line.get_marker() not in ("None", "", None) and line.get_markerfacecolor() == "white"
            for x, y in zip(*line.get_data(), strict=True)}


def lines(ax: Axes, label: str) -> list[tuple[np.ndarray, np.ndarray]]:
    return [tuple(np.asarray(data, float) for data in line.get_data()) for line in ax.get_lines() if line.get_label() == label]


def spread(rates: list[float]) -> tuple[float, float, float]:
    return statistics.fmean(rates), min(rates), max(rates)


# ------------------------------------------------------------------------------------------------------------------- styles


def test_there_is_a_distinct_style_for_every_learner() -> None:
    assert set(STYLES) == set(names())
    assert len({style.label for style in STYLES.values()}) == len(STYLES)
    assert len({style.marker for style in STYLES.values()}) == len(STYLES)  # told apart in grey, too
    assert style_of("label-efficient-perceptron:b=0.1") == STYLES["label-efficient-perceptron"]


@pytest.mark.parametrize("sweep", ["bandit", "filtering", "full", "label-efficient", "exploration", "bounds",
                                   "lower-filtering"])
def test_learners_of_one_figure_have_colours_of_their_own(sweep: str) -> None:
    bare = {entrant.learner.partition(":")[0] for each in SWEEPS if each.id == sweep for entrant in each.entrants}
    assert len({to_rgba(STYLES[name].colour) for name in bare}) == len(bare)


def test_where_colours_repeat_markers_or_lines_differ() -> None:
    looks = [(to_rgba(style.colour), style.line, style.marker) for style in STYLES.values()]
    assert len(set(looks)) == len(looks)
    assert STYLES["gaptron-smh"].line != STYLES["gapsmh"].line


def test_every_figure_has_a_drawing() -> None:
    assert set(DRAWINGS) == set(BY_ID)


# ------------------------------------------------------------------------------------------------------------ the paper's grids


def naive_cells(results: list[Result], figure: Figure) -> dict[tuple[int, int, float, str], tuple[str, tuple[float, ...]]]:
    """By K, d, noise and learner: the tuning of the lower mean, and mean, least and most."""
    rates: dict[tuple[int, int, float, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        task = result.task
        if task.figure == figure.sweeps[0] and (figure.tunings is None or task.tuning in figure.tunings):
            rates[task.classes, task.features, task.noise, task.learner][task.tuning].append(result.outcome.error_rate)
    return {key: min(((tuning, spread(found)) for tuning, found in by_tuning.items()), key=lambda pair: pair[1][0])
            for key, by_tuning in rates.items()}


@pytest.mark.parametrize("name", ["bandit-best", "bandit-only-t", "filtering-theory", "full"])
def test_grid_shows_means_and_ranges(name: str) -> None:
    figure = BY_ID[name]
    results = fakes(figure.sweeps[0])
    picture = draw(figure, results)
    wanted = naive_cells(results, figure)
    axes = panels(picture)
    assert len(axes) == 9
    places = [(K, d) for K in (6, 9, 12) for d in (80, 120, 160)]
    assert [ax.get_title() for ax in axes[:3]] == ["d = 80", "d = 120", "d = 160"]
    assert [text.get_text() for text in picture.texts if text.get_text().startswith("K =")] == ["K = 6", "K = 9", "K = 12"]
    seen = 0
    for (K, d), ax in zip(places, axes, strict=True):
        holes = hollows(ax)
        for learner, points in bars(ax).items():
            for x, (mean, least, most) in points.items():
                tuning, expected = wanted[K, d, (0.0, 0.05, 0.1)[round(x)], learner]
                assert (mean, least, most) == pytest.approx(expected, rel=1e-12)
                assert ((x, mean) in holes) == (tuning == "theory" and figure.tunings is None)
                assert ax.get_ylim()[0] < least <= most < ax.get_ylim()[1]
                seen += 1
        xs = [x for points in bars(ax).values() for x in points]
        assert len(set(xs)) == len(xs)  # side by side
    assert seen == len(wanted)


def test_figures_of_a_sweep_share_their_axis() -> None:
    results = [result for result in fakes("bandit") if result.task.features == 80]
    limits = {draw(BY_ID[name], results).get_axes()[0].get_ylim() for name in ("bandit-best", "bandit-only-t", "bandit-theory")}
    assert len(limits) == 1


def test_introduction_shows_the_noisy_cells() -> None:
    results = fakes("bandit")
    wanted = naive_cells(results, BY_ID["bandit-intro"])
    axes = panels(draw(BY_ID["bandit-intro"], results))
    cells = [(K, d) for K in (6, 9, 12) for d in (80, 120, 160)]
    assert [ax.get_title() for ax in axes] == ["noise rate 0.05", "noise rate 0.1"]
    for noise, ax in zip((0.05, 0.1), axes, strict=True):
        found = bars(ax)
        assert set(found) == {"gaplog", "gaphin", "gapsmh", "pnewtron", "soba-diag", "banditron-iw"}
        for learner, points in found.items():
            assert len(points) == 9
            for x, numbers in points.items():
                assert numbers == pytest.approx(wanted[*cells[round(x)], noise, learner][1], rel=1e-12)


def test_a_run_without_mistakes_is_shown_at_half_a_mistake() -> None:
    results = [result_of(task, 0 if task.repeat == 0 else 5) for task in selected(["full"], 100, 2)]
    found = bars(panels(draw(BY_ID["full"], results))[0])
    for mean, least, most in found["gapsmh"].values():
        assert (mean, least, most) == pytest.approx((0.025, 0.005, 0.05))
    for mean, least, most in found["perceptron"].values():  # which plays once
        assert (mean, least, most) == pytest.approx((0.005, 0.005, 0.005))
    assert "a rate of 0 is shown as half a mistake" in caption(BY_ID["full"], results)
    assert "half a mistake" not in caption(BY_ID["full"], fakes("full"))


def test_a_grid_of_one_cell_and_of_a_missing_panel() -> None:
    results = fakes("bandit")
    one = [result for result in results if (result.task.classes, result.task.features, result.task.noise) == (9, 120, 0.05)]
    assert len(panels(draw(BY_ID["bandit-best"], one))) == 1
    most = [result for result in results if (result.task.classes, result.task.features) != (9, 120)]
    axes = panels(draw(BY_ID["bandit-best"], most))
    said = [[text.get_text() for text in ax.texts] for ax in axes]
    assert said == [["no data at this T"] if place == 4 else [] for place in range(9)]
    left = axes[0].yaxis.get_ticklabels()
    assert any(label.get_visible() and label.get_text() for label in left)


# ----------------------------------------------------------------------------------------------- label efficient, exploration


def test_label_efficient_shows_queries_and_mistakes() -> None:
    results = fakes("label-efficient", rounds=5000)
    grouped: dict[tuple[int, float, str, str], list[Outcome]] = defaultdict(list)
    for result in results:
        task = result.task
        grouped[task.classes, task.noise, task.learner, task.tuning].append(result.outcome)
    axes = panels(draw(BY_ID["label-efficient"], results))
    cells = [(K, noise) for K in (6, 9, 12) for noise in (0.0, 0.05, 0.1)]
    for (K, noise), ax in zip(cells, axes, strict=True):
        points = {(learner, tuning): outcomes for (k, n, learner, tuning), outcomes in grouped.items() if (k, n) == (K, noise)}
        drawn = bars(ax)
        assert sum(map(len, drawn.values())) == len(points)
        every = {(round(float(x), 9), round(float(y), 9)) for line in ax.get_lines()
                 for x, y in zip(*line.get_data(), strict=True)}
        for (learner, tuning), outcomes in points.items():
            queries = statistics.fmean(outcome.labels_seen for outcome in outcomes)
            expected = spread([outcome.error_rate for outcome in outcomes])
            assert drawn[learner.partition(":")[0]][queries] == pytest.approx(expected, rel=1e-12)
            assert ((queries, drawn[learner.partition(":")[0]][queries][0]) in hollows(ax)) == (tuning == "theory")
            wrong = statistics.fmean((outcome.mistakes - outcome.labels_seen) / 5000 for outcome in outcomes)
            assert (round(queries, 9), round(max(wrong, 0.5 / 5000), 9)) in every
        assert ax.get_xlim()[0] < min(x for by_x in drawn.values() for x in by_x)


def test_exploration_sets_the_two_rules_side_by_side() -> None:
    results = fakes("exploration", "filtering", "label-efficient")
    picture, words = draw(BY_ID["exploration"], results), caption(BY_ID["exploration"], results)
    for graph, ax, name in zip(("filtering", "label-efficient"), panels(picture), ("multiclass filtering", "label-efficient"),
                               strict=True):
        rates: dict[tuple[str, str, int, int, float], list[float]] = defaultdict(list)
        for result in results:
            task = result.task
            if task.graph == graph and task.tuning == "only-t":
                key = task.exploration, task.learner, task.classes, task.features, task.noise
                rates[key].append(result.outcome.error_rate)
        less = total = 0
        for learner in ("gaplog", "gaphin", "gapsmh"):
            keys = [key for key in rates if key[:2] == ("top-up", learner)]
            wanted = [(statistics.fmean(rates["paper", *key[1:]]), statistics.fmean(rates[key])) for key in keys]
            (data,) = lines(ax, STYLES[learner].label)
            assert {(round(x, 12), round(y, 12)) for x, y in zip(*data, strict=True)} \
                == {(round(x, 12), round(y, 12)) for x, y in wanted}
            less += sum(ours < paper for paper, ours in wanted)
            total += len(wanted)
        assert f"{less} of {total} times on the {name} graph" in words


# ----------------------------------------------------------------------------------------------------- the theorems' figures


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
                runs = [result for result in results if result.task.graph == graph and result.task.learner == learner
                        and result.task.noise == noise and result.task.tuning in ("", row)]
                label = STYLES[learner].label
                if not runs or (noise == 0.0 and "log" in learner):  # the logistic loss is never 0
                    assert not lines(ax, label)
                    continue
                ((at, mean),) = lines(ax, label)
                assert at.tolist() == marks(2000)
                wanted = [statistics.fmean(run.curve[place][1] for run in runs) for place in range(len(at))]
                assert np.nan_to_num(mean) == pytest.approx(np.array(wanted))
                if learner == "gaplog":  # whose loss is not regular for three classes
                    assert not lines(ax, f"{label}: bound")
                    continue
                ((_, bound),) = lines(ax, f"{label}: bound")
                for t, value in list(zip(at, bound, strict=True))[::5]:
                    found = {each.theorem: each for each in bounds(player(runs[0].task), graph_of(runs[0].task), rounds=int(t),
                                                                   max_norm=1.0)}[theorem]
                    assert found.refusal is None
                    assert value == pytest.approx(found.value + (0.0 if noise == 0.0 else 200.0 * t / 2000))
    words = caption(BY_ID["bounds"], results)
    assert "T = 2,000" in words
    assert "the mean of 3 runs" in words
    assert words.endswith("No theorem covers GapLog here.")


def test_bounds_need_a_comparator() -> None:
    results = [Result(result.task, dataclasses.replace(result.outcome, comparator_loss=None, comparator_gap=None))
               for result in fakes("bounds", rounds=200)]
    picture = draw(BY_ID["bounds"], results)
    assert not any("bound" in str(line.get_label()) for ax in panels(picture) for line in ax.get_lines())
    assert len(panels(picture)) == 8  # nothing is known to be separable


def test_one_run_and_its_bounds() -> None:
    from gappletron.comparator import Comparator
    from gappletron.experiments.theorems import Examined, bounds_of

    for result in fakes("bounds", rounds=500, repeats=1):
        task = result.task
        if task.learner != "gapsmh":
            continue
        lost = result.outcome.comparator_loss or 0.0
        found = Examined(result, player(task), 1.0, Comparator(np.zeros((3, 3)), lost, 0.0), bounds_of(result))
        (ax,) = panels(mistakes_and_bounds(found))
        wanted = {bound.theorem: bound.value + (0.0 if bound.separable else lost)
                  for bound in bounds(player(task), graph_of(task), rounds=500, max_norm=1.0)
                  if bound.refusal is None and bound.theorem.startswith("full-") == (task.graph == "full")
                  and (task.noise == 0.0 or not bound.separable)}
        drawn = {str(line.get_label()).removeprefix("bound: "): float(np.asarray(line.get_ydata())[-1])
                 for line in ax.get_lines() if str(line.get_label()).startswith("bound: ")}
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
    assert ceiling == pytest.approx([max(2 * 2 * 2 * L * h2, 2 * math.sqrt(h2 * 2 * L * T)) for T in horizons], rel=1e-5)


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
    results = [result_of(task, task.rounds // (2 if "gaplog" in task.learner else 3))
               for task in selected(["lower-filtering"], 300, 1)]
    picture = draw(BY_ID["lower-filtering"], results)
    entries = [text.get_text().replace("\n", " ") for text in picture.legends[0].get_texts()]
    assert entries[:2] == ["GapLog, GapLog2", "GapHin, GapSmH, Banditron, Exp3.G"]


# ------------------------------------------------------------------------------------------------------------------ odd tables


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.id)
def test_nothing_to_draw_is_said(figure: Figure) -> None:
    (ax,) = panels(draw(figure, []))
    assert [text.get_text() for text in ax.texts] == ["no data at this T"]
    assert caption(figure, []) == f"{figure.title}: no data at this T."


def test_any_part_of_a_table_can_be_drawn() -> None:
    rng = random.Random(1)
    table = fakes(rounds=60, repeats=2)
    for size in (1, 3, 10, 40):
        some = rng.sample(table, size)
        for figure in FIGURES:
            draw(figure, some)
            assert caption(figure, some)


def test_tiny_horizons() -> None:
    rng = random.Random(2)
    table = [faked(task, rng) for task in selected((), 2, 1) if task.classes <= 6]
    for figure in FIGURES:
        draw(figure, table)
        assert caption(figure, table)
    assert "no data" in caption(BY_ID["lower-full"], table)


def test_runs_of_different_length_are_not_averaged() -> None:
    mixed = fakes("full", rounds=100, repeats=1) + fakes("full", rounds=200, repeats=1)
    with pytest.raises(UserError, match="T = 100 and 200: draw those of one T at a time"):
        draw(BY_ID["full"], mixed)


# ------------------------------------------------------------------------------------------------------------------- captions


def test_captions_count(everything: list[Result]) -> None:
    words = caption(BY_ID["bandit-best"], everything)
    assert "T = 100,000" in words
    assert "mean of 2 runs," in words
    assert "least and the greatest" in words
    assert "K = 6, 9 and 12 classes (rows) and d = 80, 120 and 160 features (columns)" in words
    assert "all parameters 1 except T" in caption(BY_ID["bandit-only-t"], everything)
    assert "parameters that theory suggests" in caption(BY_ID["filtering-theory"], everything)
    assert "2 runs (soPerceptron, Perceptron and PA: 1)" in caption(BY_ID["full"], everything)
    assert "B = 2, 4 and 8" in caption(BY_ID["lower-full"], everything)
    assert "T from 50 to 99,458" in caption(BY_ID["lower-filtering"], everything)


def test_captions_of_single_runs() -> None:
    words = caption(BY_ID["full"], fakes("full", rounds=77, repeats=1))
    assert "T = 77" in words
    assert "Markers show one run each." in words
    assert "whisker" not in words


# ------------------------------------------------------------------------------------------------------------ layout and files


@pytest.mark.parametrize("name", ["bandit-intro", "bandit-best", "full", "label-efficient", "exploration", "bounds",
                                  "lower-filtering", "lower-full"])
def test_nothing_is_cut_off_and_the_legend_is_free(name: str, everything: list[Result]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = BY_ID[name]
    picture = draw(figure, everything)
    renderer = FigureCanvasAgg(picture).get_renderer()
    picture.draw(renderer)
    whole = picture.bbox
    for text in [*picture.texts, *(text for legend in picture.legends for text in legend.get_texts())]:
        box = text.get_window_extent(renderer)
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
        assert whole.y0 <= box.y0
        assert box.y1 <= whole.y1
    title = next(text for text in picture.texts if text.get_text() == figure.title).get_window_extent(renderer)
    for legend in picture.legends:
        frame = legend.get_window_extent(renderer)
        assert whole.x0 <= frame.x0
        assert frame.x1 <= whole.x1
        assert not frame.overlaps(title)
        for ax in panels(picture):
            assert frame.y0 >= ax.bbox.y1
            if ax.get_title():
                assert frame.y0 >= ax.title.get_window_extent(renderer).y1


def test_both_files_are_written_and_text_stays_text(tmp_path: Path) -> None:
    save(draw(BY_ID["full"], [result for result in fakes("full") if result.task.features == 80]), tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full.png", "full.svg"]
    assert (tmp_path / "full.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "full.svg").read_text()
    assert ">GapSmH</text>" in svg
    assert "sans-serif" in svg
    assert "<dc:date>" not in svg


def test_svg_depends_on_the_rows_alone(tmp_path: Path) -> None:
    results = [result for result in fakes("filtering", "lower-full", repeats=2)
               if (result.task.classes, result.task.features) in ((6, 80), (3, 28))]
    before = dict(mpl.rcParams)
    for figure in (BY_ID["filtering-best"], BY_ID["lower-full"]):
        save(draw(figure, results), tmp_path / "one")
        with mpl.rc_context({"font.size": 20, "lines.linewidth": 5, "svg.hashsalt": "other", "figure.dpi": 50}):
            picture = draw(figure, results)
            save(picture, tmp_path / "two")
            save(picture, tmp_path / "two")  # and saving changes nothing
        assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
        assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert dict(mpl.rcParams) == before


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write"):
        save(draw(BY_ID["full"], []), tmp_path / "nowhere" / "full")


def test_tasks_of_the_sweeps_are_those_the_figures_expect() -> None:
    """A sweep that changes its graph or its streams must not leave its figure empty."""
    for sweep in SWEEPS:
        for figure in FIGURES:
            if sweep.id == figure.sweeps[0]:
                rng = random.Random(0)
                some = [faked(task, rng) for task in tasks(sweep, 1000, 1)]
                assert "no data" not in caption(figure, some) or figure.id == "exploration"
