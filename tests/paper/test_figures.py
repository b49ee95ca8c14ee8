"""The figures show what is in the rows: means and ranges, computed here once more, naively."""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

import matplotlib as mpl
import pytest
from matplotlib.colors import to_rgba
from matplotlib.container import ErrorbarContainer

from gappletron.base.errors import UserError
from gappletron.learners.registry import REGISTERED, names
from gappletron.paper.claims import CLAIMS, judge_claims
from gappletron.paper.figures.catalogue import FIGURES, save, select_tasks
from gappletron.paper.report import render
from gappletron.paper.results import Summary
from gappletron.paper.styles import STYLES, find_style, sort_learners
from gappletron.paper.sweeps import SWEEPS, list_tasks
from pictures import BY_ID, caption, draw, faked, fakes, lines, panels, result_of

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from gappletron.paper.figures.drawing import Figure
    from gappletron.paper.results import Outcome, Result

LABELS = {style.label: name for name, style in STYLES.items()}


@pytest.fixture(scope="module")
def everything() -> list[Result]:
    """A table like that of a whole reproduction, but for its numbers."""
    return fakes(rounds=100_000, repeats=2)


# ---------------------------------------------------------------------------------------------------- reading a picture


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
    return {
        (float(x), float(y))
        for line in ax.get_lines()
        if line.get_marker() not in ("None", "", None) and line.get_markerfacecolor() == "white"
        for x, y in zip(*line.get_data(), strict=True)
    }


def spread(rates: list[float]) -> tuple[float, float, float]:
    return statistics.fmean(rates), min(rates), max(rates)


# --------------------------------------------------------------------------------------------------------------- styles


def test_there_is_a_distinct_style_for_every_learner() -> None:
    assert set(STYLES) == {entrant.name.partition(":")[0] for sweep in SWEEPS for entrant in sweep.entrants}
    styles = [find_style(name) for name in names()]
    assert len({style.label for style in styles}) == len(styles)
    assert len({style.marker for style in styles}) == len(styles)  # told apart in grey, too
    assert find_style("label-efficient-perceptron:b=0.1") == STYLES["label-efficient-perceptron"]


@pytest.fixture
def new_learners(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Thirty learners that no figure knows, registered after all others and not in alphabetical order."""
    added = [f"new-{number}" for number in range(30, 0, -1)]
    for name in added:
        monkeypatch.setitem(REGISTERED, name, REGISTERED["gapsmh"])
    return added


def test_new_learners_look_different(new_learners: list[str]) -> None:
    others = [name for name in names() if name not in STYLES]
    assert others[-30:] == new_learners
    looks = [find_style(name)[1:] for name in names()]
    assert len(set(looks)) == len(looks)
    assert {find_style(name).colour for name in others}.isdisjoint(style.colour for style in STYLES.values())
    assert find_style("new-7:gamma=3") == find_style("new-7")
    assert find_style("new-7").label == "new-7"
    mixed = ["new-1", "perceptron", "new-2", "unregistered", "gaplog"]
    assert sort_learners(mixed) == ["gaplog", "perceptron", "new-2", "new-1", "unregistered"]
    assert find_style("unregistered") == find_style("unregistered:gamma=1")


@pytest.mark.parametrize(
    "figure",
    [figure for figure in FIGURES if not figure.beyond and figure.id not in ("norms", "drift")],  # of optimizers
    ids=lambda figure: figure.id,
)
def test_a_new_learner_is_drawn(figure: Figure, new_learners: list[str]) -> None:
    """The runs of GapSmH once more under the names of two new learners."""
    rng = random.Random(0)
    found = select_tasks(figure.sweeps, 1000, 1)
    found += [
        dataclasses.replace(task, learner=name, id=task.id.replace("gapsmh", name))
        for name in new_learners[:2]
        for task in found
        if task.learner == "gapsmh"
    ]
    results = [faked(task, rng) for task in found]
    shown = [text.get_text().replace("\n", " ") for text in draw(figure, results).legends[0].get_texts()]
    assert [label for label in shown if label.startswith("new-")] == ["new-30", "new-29"]
    assert max(map(shown.index, {style.label for style in STYLES.values()} & set(shown))) < shown.index("new-30")
    assert caption(figure, results)
    summary = Summary(results)
    assert "new-30" in render(results, summary, judge_claims(summary), [])


@pytest.mark.parametrize(
    "sweep", ["bandit", "filtering", "full", "label-efficient", "exploration", "bounds", "lower-filtering"]
)
def test_learners_of_one_figure_have_colours_of_their_own(sweep: str) -> None:
    bare = {entrant.name.partition(":")[0] for each in SWEEPS if each.id == sweep for entrant in each.entrants}
    assert len({to_rgba(STYLES[name].colour) for name in bare}) == len(bare)


def test_where_colours_repeat_markers_or_lines_differ() -> None:
    looks = [(to_rgba(style.colour), style.line, style.marker) for style in STYLES.values()]
    assert len(set(looks)) == len(looks)
    assert STYLES["gaptron-smh"].line != STYLES["gapsmh"].line


# ---------------------------------------------------------------------------------------------------- the paper's grids


def naive_cells(
    results: list[Result], figure: Figure
) -> dict[tuple[int, int, float, str], tuple[str, tuple[float, ...]]]:
    """By K, d, noise and learner: the tuning of the lower mean, and mean, least and most."""
    rates: dict[tuple[int, int, float, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        task = result.task
        if task.sweep == figure.sweeps[0] and (figure.tunings is None or task.tuning in figure.tunings):
            rates[task.classes, task.features, task.noise, task.learner][task.tuning].append(result.outcome.error_rate)
    return {
        key: min(((tuning, spread(found)) for tuning, found in by_tuning.items()), key=lambda pair: pair[1][0])
        for key, by_tuning in rates.items()
    }


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
    assert [text.get_text() for text in picture.texts if text.get_text().startswith("K =")] == [
        "K = 6",
        "K = 9",
        "K = 12",
    ]
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
    limits = {
        draw(BY_ID[name], results).get_axes()[0].get_ylim()
        for name in ("bandit-best", "bandit-only-t", "bandit-theory")
    }
    assert len(limits) == 1


def test_introduction_shows_the_noisy_cells() -> None:
    results = fakes("bandit")
    wanted = naive_cells(results, BY_ID["bandit-intro"])
    axes = panels(draw(BY_ID["bandit-intro"], results))
    cells = [(K, d) for K in (6, 9, 12) for d in (80, 120, 160)]
    assert [ax.get_title() for ax in axes] == ["noise rate 0.05", "noise rate 0.1"]
    for noise, ax in zip((0.05, 0.1), axes, strict=True):
        found = bars(ax)
        assert set(found) == {"gaplog", "gaphin", "gapsmh", "pnewtron", "soba-diag", "banditron-iw", "banditron"}
        for learner, points in found.items():
            assert len(points) == 9
            for x, numbers in points.items():
                assert numbers == pytest.approx(wanted[*cells[round(x)], noise, learner][1], rel=1e-12)


def test_a_run_without_mistakes_is_shown_at_half_a_mistake() -> None:
    results = [result_of(task, 0 if task.repeat == 0 else 5) for task in select_tasks(["full"], 100, 2)]
    found = bars(panels(draw(BY_ID["full"], results))[0])
    for mean, least, most in found["gapsmh"].values():
        assert (mean, least, most) == pytest.approx((0.025, 0.005, 0.05))
    for mean, least, most in found["perceptron"].values():  # which plays once
        assert (mean, least, most) == pytest.approx((0.005, 0.005, 0.005))
    assert "a rate of 0 is shown as half a mistake" in caption(BY_ID["full"], results)
    assert "half a mistake" not in caption(BY_ID["full"], fakes("full"))


def test_a_grid_of_one_cell_and_of_a_missing_panel() -> None:
    results = fakes("bandit")
    one = [
        result for result in results if (result.task.classes, result.task.features, result.task.noise) == (9, 120, 0.05)
    ]
    assert len(panels(draw(BY_ID["bandit-best"], one))) == 1
    most = [result for result in results if (result.task.classes, result.task.features) != (9, 120)]
    axes = panels(draw(BY_ID["bandit-best"], most))
    said = [[text.get_text() for text in ax.texts] for ax in axes]
    assert said == [["no data at this T"] if place == 4 else [] for place in range(9)]
    left = axes[0].yaxis.get_ticklabels()
    assert any(label.get_visible() and label.get_text() for label in left)


# ----------------------------------------------------------------------------------------- label efficient, exploration


def test_label_efficient_shows_queries_and_mistakes() -> None:
    results = fakes("label-efficient", rounds=5000)
    grouped: dict[tuple[int, float, str, str], list[Outcome]] = defaultdict(list)
    for result in results:
        task = result.task
        grouped[task.classes, task.noise, task.learner, task.tuning].append(result.outcome)
    axes = panels(draw(BY_ID["label-efficient"], results))
    cells = [(K, noise) for K in (6, 9, 12) for noise in (0.0, 0.05, 0.1)]
    for (K, noise), ax in zip(cells, axes, strict=True):
        points = {
            (learner, tuning): outcomes for (k, n, learner, tuning), outcomes in grouped.items() if (k, n) == (K, noise)
        }
        drawn = bars(ax)
        assert sum(map(len, drawn.values())) == len(points)
        every = {
            (round(float(x), 9), round(float(y), 9))
            for line in ax.get_lines()
            for x, y in zip(*line.get_data(), strict=True)
        }
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
    for graph, ax, name in zip(
        ("filtering", "label-efficient"), panels(picture), ("multiclass filtering", "label-efficient"), strict=True
    ):
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
            assert {(round(x, 12), round(y, 12)) for x, y in zip(*data, strict=True)} == {
                (round(x, 12), round(y, 12)) for x, y in wanted
            }
            less += sum(ours < paper for paper, ours in wanted)
            total += len(wanted)
        assert f"{less} of {total} cases on the {name} graph" in words


# ----------------------------------------------------------------------------------------------------- beyond the paper


@pytest.fixture(scope="module")
def contested() -> list[Result]:
    """The runs of the default learner and those that it is compared with, these on two data sets per noise rate."""
    return [
        result
        for result in fakes("ours", repeats=2)
        if result.task.sweep == "ours" or (result.task.classes, result.task.features) in ((6, 120), (12, 120))
    ]


def test_ours_stands_beside_the_best(contested: list[Result]) -> None:
    """Means and ranges once more, naively: of ours in every cell, of the others where they are the best."""
    rates: dict[tuple[str, int, int, float], dict[tuple[str, str], list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in contested:
        task = result.task
        rates[task.graph, task.classes, task.features, task.noise][task.learner, task.tuning].append(
            result.outcome.error_rate
        )
    picture, words = draw(BY_ID["ours"], contested), caption(BY_ID["ours"], contested)
    axes = panels(picture)
    assert [ax.get_title() for ax in axes[:3]] == ["noise rate 0", "noise rate 0.05", "noise rate 0.1"]
    graphs = {
        "bandit": "bandit graph",
        "filtering": "multiclass filtering",
        "label-efficient": "label-efficient graph",
        "full": "full information",
    }
    assert [text.get_text() for text in picture.texts if text.get_text() in graphs.values()] == list(graphs.values())
    cells = [(K, d) for K in (6, 9, 12) for d in (80, 120, 160)]
    won: dict[str, list[bool]] = defaultdict(list)
    for (graph, noise), ax in zip(
        ((graph, noise) for graph in graphs for noise in (0.0, 0.05, 0.1)), axes, strict=True
    ):
        wanted = {}
        for place, (K, d) in enumerate(cells):
            found = {key: spread(some) for key, some in rates[graph, K, d, noise].items()}
            for offset, some in enumerate(
                [key for key in found if key[0].startswith(part)]
                for part in ("auto", "gap", ("p", "soba", "banditron", "second", "label-efficient"))
            ):
                if some:
                    best = min(some, key=lambda key: found[key][0])
                    wanted[place, offset] = (best[0].partition(":")[0], best[1], *found[best])
            if (place, 1) in wanted:
                won[graph].append(wanted[place, 0][2] < min(wanted[place, 1][2], wanted[place, 2][2]))
        holes = hollows(ax)
        seen = {
            (round(x), round((x - round(x)) / 0.27) + 1): (
                learner,
                "theory" if (x, numbers[0]) in holes else "",
                *numbers,
            )
            for learner, points in bars(ax).items()
            for x, numbers in points.items()
        }
        assert set(seen) == set(wanted)
        for key, (learner, tuning, *numbers) in seen.items():
            assert (learner, tuning == "theory") == (wanted[key][0], wanted[key][1] == "theory")
            assert numbers == pytest.approx(wanted[key][2:], rel=1e-12)
    for graph, name in graphs.items():
        assert len(won[graph]) == 6
        assert f"{sum(won[graph])} of 6 cells ({name})" in words


def test_the_caption_of_ours_says_what_is_compared(contested: list[Result]) -> None:
    words = caption(BY_ID["ours"], contested)
    assert "auto is not in the paper." in words
    assert "beside the best of the paper's Gappletrons and the best baseline" in words
    assert "columns scaled by what it has seen and a constant feature; the others see the rows as they are" in words
    assert "the mean of 2 runs of ours and 2 of the others" in words
    assert "T = 1,000" in words
    alone = [result for result in contested if result.task.sweep == "ours" and result.task.repeat == 0]
    words = caption(BY_ID["ours"], alone)
    assert "Markers show one run each." in words
    assert "best" not in words
    assert [text.get_text() for text in draw(BY_ID["ours"], alone).legends[0].get_texts()] == ["auto"]


def test_ours_changes_nothing_of_the_paper() -> None:
    """No claim needs its runs, and no other figure shows them."""
    assert not any(need.partition(":")[0] == "ours" for claim in CLAIMS for need in claim.needs)
    assert [figure.id for figure in FIGURES if "ours" in figure.sweeps] == ["ours"]
    assert FIGURES[-1].id == "ours"


# ----------------------------------------------------------------------------------------------------------- odd tables


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
    table = [faked(task, rng) for task in select_tasks((), 2, 1) if task.classes <= 6]
    for figure in FIGURES:
        draw(figure, table)
        assert caption(figure, table)
    assert "no data" in caption(BY_ID["lower-full"], table)


def test_runs_of_different_length_are_not_averaged() -> None:
    mixed = fakes("full", rounds=100, repeats=1) + fakes("full", rounds=200, repeats=1)
    with pytest.raises(UserError, match="T = 100 and 200: draw the runs of one T at a time"):
        draw(BY_ID["full"], mixed)


# ------------------------------------------------------------------------------------------------------------- captions


def test_captions_count(everything: list[Result]) -> None:
    words = caption(BY_ID["bandit-best"], everything)
    assert "T = 100,000" in words
    assert "mean of 2 runs," in words
    assert "the minimum and the maximum error rate" in words
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


# ----------------------------------------------------------------------------------------------------- layout and files


@pytest.mark.parametrize(
    "name",
    [
        "bandit-intro",
        "bandit-best",
        "full",
        "label-efficient",
        "exploration",
        "bounds",
        "lower-filtering",
        "lower-full",
        "lower-classes",
        "lower-both",
        "norms",
        "drift",
        "future",
        "decoded",
        "ours",
    ],
)
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
    results = [
        result
        for result in fakes("filtering", "lower-full", repeats=2)
        if (result.task.classes, result.task.features) in ((6, 80), (3, 28))
    ]
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
                some = [faked(task, rng) for task in list_tasks(sweep, 1000, 1)]
                is_ours = {task.learner for task in list_tasks(sweep, 1000, 1)} == {"decoded-logistic"}  # in a table
                assert "no data" not in caption(figure, some) or figure.id == "exploration" or is_ours
