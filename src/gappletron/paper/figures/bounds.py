"""The figures of mistakes: stored runs with the upper bounds and the lower bounds, and the paper's remarks."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from gappletron.base.colours import COLOURS
from gappletron.data.adversarial import FreshFeatures, FreshThenSegments
from gappletron.kernel.types import Floats
from gappletron.learners.gappletron import Gappletron
from gappletron.learners.optimizers import FixedOGD, Optimizer, ProjectedOGD
from gappletron.paper import remarks, theorems
from gappletron.paper.figures.drawing import (
    DASHED,
    GRAPHS,
    Drawn,
    Figure,
    find_limits,
    format_count,
    head_panel,
    make_line_key,
    make_marker_key,
    make_page,
    mark_empty,
    set_log_axis,
    use_figure_style,
    write_caption,
)
from gappletron.paper.results import Result, Task
from gappletron.paper.styles import BLACK, GREY, STYLES, Style, find_style, sort_learners
from gappletron.paper.templates import list_numbers
from gappletron.paper.theorems import Examined, Lower
from gappletron.paper.theory import THEOREMS, Bound, bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.lines import Line2D

Place = TypeVar("Place")


# --------------------------------------------------------------------------------------------------------- upper bounds

# The theorems, one row of panels each; the second of a pair is the version for full information.
ROWS = (
    ("expectation", "full-expectation"),
    ("high-probability", "full-high-probability"),
    ("expectation-separable", "full-expectation-separable"),
    ("high-probability-separable", "full-high-probability-separable"),
)

IS_SEPARABLE = {theorem.name: theorem.separable for theorem in THEOREMS}


class _Entry(NamedTuple):
    """A learner in the panel of a theorem: the mistakes of its runs at the stored rounds, and the bound on them."""

    learner: str
    at: Floats
    mistakes: Floats
    bound: Floats | None


def _collect_curves(results: Sequence[Result]) -> tuple[Floats, Floats]:
    """Return the stored rounds, and the mistakes up to them with one row per run."""
    curves = np.array([result.curve for result in results], float)
    return curves[0, :, 0], curves[:, :, 1]


def _positive(values: Floats) -> Floats:
    """Return NaN in place of 0, which a log axis cannot show."""
    return np.where(values > 0.0, values, np.nan)


def _choose_theorem(row: tuple[str, str], graph: str) -> str:
    return row[graph == "full"]


def _choose_entries(results: Sequence[Result], graph: str, row: tuple[str, str]) -> list[_Entry]:
    """Return the learners shown for a theorem on a graph: those tuned for it.

    If the theorem is about separable data, the comparator must have zero loss.
    """
    theorem = _choose_theorem(row, graph)
    separable = IS_SEPARABLE[theorem]
    grouped: dict[str, list[Result]] = {}
    for result in results:
        task = result.task
        if (
            task.graph == graph
            and task.tuning in ("", row[0])
            and not theorems.has_fixed_rate(result)
            and (task.noise == 0.0) == separable
            and (not separable or theorems.loses_nothing(result.outcome.comparator_loss, result.outcome.comparator_gap))
        ):
            grouped.setdefault(task.learner, []).append(result)
    return [_make_entry(learner, theorem, grouped[learner]) for learner in sort_learners(grouped)]


def _make_entry(learner: str, theorem: str, runs: list[Result]) -> _Entry:
    at, mistakes = _collect_curves(runs)
    losses = [run.outcome.comparator_loss for run in runs if run.outcome.comparator_loss is not None]
    bound = _find_bounds(runs[0], theorem, at, sum(losses) / len(losses)) if losses else None
    return _Entry(learner, at, mistakes, bound)


def _find_bounds(run: Result, theorem: str, rounds: Iterable[float], loss: float = 0.0) -> Floats | None:
    """Return the bound on the mistakes of a run for each of these values of T, with all rounds blind.

    None where the theorem does not apply.

    :param loss: the comparator's loss over all rounds of the run. It is added where the theorem bounds the regret, in
        proportion to T.
    """
    learner = run.learner
    if not isinstance(learner, Gappletron):
        return None
    found = {t: _evaluate(run, learner, theorem, t) for t in rounds}
    if any(bound.refusal is not None for bound in found.values()):
        return None
    return np.array([b.value + (0.0 if b.separable else loss * t / run.task.rounds) for t, b in found.items()])


def _evaluate(run: Result, learner: Gappletron, theorem: str, rounds: float) -> Bound:
    """Return the bound of a theorem for a run of so many rounds, with all rounds blind."""
    every = bounds(learner, run.task.pieces.graph, rounds=int(rounds), max_norm=run.outcome.max_norm)
    return next(bound for bound in every if bound.theorem == theorem)


def draw_bounds(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the mistakes of the runs of the paper's learners and their bounds, one panel per theorem and graph."""
    runs = [run for run in runs if not theorems.is_decoded(run)]
    present = {result.task.graph for result in runs}
    graphs = [graph for graph in GRAPHS if graph in present]
    panels = {row: [_choose_entries(runs, graph, row) for graph in graphs] for row in ROWS}
    rows = [row for row in ROWS if any(panels[row])]
    if not rows:
        return None
    rounds = runs[0].task.rounds
    learners = sort_learners(result.task.learner for result in runs)
    keys = [make_line_key(find_style(name).label, find_style(name).colour) for name in learners]
    keys += [make_line_key("upper bound", GREY, DASHED), make_line_key("a mistake in every round", GREY, ":")]
    x, y = "round (log scale)", "mistakes (log scale)"
    page = make_page(figure.title, len(rows), len(graphs), (1.98, 1.65), keys, x=x, y=y, head=0.16, between=0.4)
    start = 10.0 if rounds >= 1000 else 1.0  # the first rounds are mostly noise
    values = [1.0]
    for row, row_axes in zip(rows, page.axes, strict=True):
        for graph, entries, ax in zip(graphs, panels[row], row_axes, strict=True):
            for entry in entries:
                values += _draw_entry(ax, entry, start)
            if entries:
                ax.plot([start, rounds], [start, rounds], color=GREY, linewidth=0.8, linestyle=":", zorder=1)
            else:
                mark_empty(ax)
            ax.set_title(_choose_theorem(row, graph), fontsize=8.0, pad=4.0)
    for graph, ax in zip(graphs, page.axes[0], strict=True):
        ax.set_title(GRAPHS[graph], fontweight="bold", pad=16.0)
        words = _choose_theorem(rows[0], graph)
        ax.text(0.5, 1.0, words, transform=ax.transAxes, ha="center", va="bottom", fontsize=8.0)
    noises = {result.task.noise for result in runs} - {0.0}
    page.name_rows(["separable" if IS_SEPARABLE[row[0]] else f"noise {list_numbers(noises)}" for row in rows])
    page.set_log_axes((start, max(rounds, 2.0)), find_limits(values))
    shown = [entry for row in rows for entries in panels[row] for entry in entries]
    proved = {entry.learner for entry in shown if entry.bound is not None}
    unproved = [
        find_style(name).label for name in sort_learners(entry.learner for entry in shown) if name not in proved
    ]
    return Drawn(page.picture, write_caption("bounds", runs, noises=noises, unproved=unproved))


def _draw_entry(ax: Axes, entry: _Entry, start: float) -> list[float]:
    """Draw the mistakes and their bound, and return the values that the axis must include."""
    style, at, mistakes = find_style(entry.learner), entry.at, entry.mistakes
    mean, late = mistakes.mean(axis=0), at >= start
    ax.plot(at, _positive(mean), color=style.colour, linewidth=1.5, label=style.label)
    band = (np.maximum(some, 0.1) for some in (mistakes.min(axis=0), mistakes.max(axis=0)))
    ax.fill_between(at, *band, color=style.colour, alpha=0.2, linewidth=0)
    held = [float(value) for value in mean[late] if value > 0.0]
    if entry.bound is not None:
        ax.plot(at, entry.bound, color=style.colour, linewidth=1.2, linestyle=DASHED, label=f"{style.label}: bound")
        held += [float(value) for value in entry.bound[late]]
    return held


def draw_examined(found: Examined) -> Picture:
    """Draw the mistakes of one stored run up to each round, the comparator's loss, and every bound that applies."""
    task, comparator = found.result.task, found.comparator
    at, mistakes = _collect_curves([found.result])
    style = find_style(task.learner)
    # Under full information the other theorems hold too, but are weaker.
    lines = {
        f"bound: {theorem.name}": line
        for theorem in THEOREMS
        if theorem.full_information == task.pieces.graph.is_full_information
        and (not theorem.separable or theorems.loses_nothing(comparator.loss, comparator.gap))
        and (line := _find_bounds(found.result, theorem.name, at, comparator.loss)) is not None
    }
    colours = dict(zip(lines, (colour for colour in COLOURS if colour != style.colour), strict=False))
    with use_figure_style():
        keys = [
            make_line_key(f"mistakes of {style.label}", style.colour),
            make_line_key(f"comparator's loss{'' if comparator.loss >= 0.5 else ': 0'}", GREY, "-."),
            *(make_line_key(label, colour, DASHED) for label, colour in colours.items()),
            make_line_key("a mistake in every round", GREY, ":"),
        ]
        title = task.id if lines else f"{task.id}\n(no theorem applies)"
        page = make_page(title, 1, 1, (6.6, 4.0), keys, x="round (log scale)", y="mistakes (log scale)")
        ax = page.axes[0][0]
        ax.plot(at, _positive(mistakes[0]), color=style.colour, linewidth=1.8, label="mistakes")
        ax.plot(at, _positive(comparator.loss * at / task.rounds), color=GREY, linewidth=1.2, linestyle="-.")
        for label, colour in colours.items():
            ax.plot(at, lines[label], color=colour, linewidth=1.4, linestyle=DASHED, label=label)
        ax.plot(at, at, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
        largest = max(2.0, float(at[-1]))
        page.set_log_axes((1.0, largest), (0.8, 1.2 * max(largest, *(float(line[-1]) for line in lines.values()))))
    return page.picture


# ----------------------------------------------------------------------------------------------------- the lower bounds


def _merge_equal(series: dict[str, dict[Place, float]]) -> list[list[str]]:
    """Return groups of learners with equal values wherever both have one: they share one line and one legend entry."""
    groups: list[list[str]] = []
    for learner, points in series.items():
        for group in groups:
            first = series[group[0]]
            shared = points.keys() & first.keys()
            if shared and all(first[place] == points[place] for place in shared):
                group.append(learner)
                break
        else:
            groups.append([learner])
    return groups


def _make_group_keys(groups: Sequence[Sequence[str]]) -> list[Line2D]:
    labels = ["\n".join(textwrap.wrap(", ".join(find_style(name).label for name in group), 32)) for group in groups]
    return [
        make_marker_key(find_style(group[0])._replace(label=label), line=True)
        for group, label in zip(groups, labels, strict=True)
    ]


LOWER_BOUND, UPPER_BOUND = "lower bound for every learner", "upper bound for GapSmH"


def _draw_lower_bound(ax: Axes, rounds: Sequence[float], mistakes: Sequence[float]) -> None:
    # Above the other lines: learners that attain the bound lie on it.
    ax.plot(rounds, mistakes, color=BLACK, linewidth=1.8, zorder=5, label=LOWER_BOUND)
    ax.fill_between(rounds, mistakes, 1e-3, color=GREY, alpha=0.15, linewidth=0, zorder=0)


def draw_lower_filtering(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the mistakes on the worse of the two streams against T, and the lower bound for every learner."""
    rows = theorems.lower_bounds(runs)
    if not rows:
        return None
    series: dict[str, dict[int, float]] = {}
    for learner in sort_learners(row.learner for row in rows):
        series[learner] = {row.rounds: row.mistakes for row in rows if row.learner == learner}
    groups = _merge_equal(series)
    keys = [
        *_make_group_keys(groups),
        make_line_key(LOWER_BOUND, BLACK),
        make_line_key(UPPER_BOUND, BLACK, "-."),
        make_line_key("a mistake in every round", GREY, ":"),
    ]
    x, y = "T (log scale)", "mean mistakes on the worse stream (log scale)"
    page = make_page(figure.title, 1, 1, (6.6, 4.0), keys, x=x, y=y)
    ax = page.axes[0][0]
    for group in groups:
        style, points = find_style(group[0]), series[group[0]]
        shown = [value or math.nan for value in points.values()]
        ax.plot(list(points), shown, **style.look, markersize=6, linewidth=1.2)
    horizons = sorted({rounds for points in series.values() for rounds in points})
    bounds_by_rounds = {row.rounds: row.bound for row in rows}
    floor = [bounds_by_rounds[rounds] for rounds in horizons]
    _draw_lower_bound(ax, horizons, floor)
    values = [*floor, *(value for points in series.values() for value in points.values() if value > 0.0)]
    # The bound of the expectation theorem for GapSmH; its comparator has zero loss on both streams.
    ours = {run.task.rounds: run for run in runs if run.task.learner == "gapsmh"}
    lines = {rounds: _find_bounds(run, "expectation", [rounds]) for rounds, run in sorted(ours.items())}
    ceiling = {rounds: float(line[0]) for rounds, line in lines.items() if line is not None}
    if ceiling:
        ax.plot(list(ceiling), list(ceiling.values()), color=BLACK, linewidth=1.2, linestyle="-.", label="upper bound")
        values += ceiling.values()
    ax.plot(horizons, horizons, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
    page.set_log_axes(find_limits(horizons, 0.03), find_limits(values, 0.03))
    return Drawn(page.picture, write_caption("lower-filtering", runs))


def _find_fresh(task: Task) -> FreshFeatures:
    stream = theorems.find_adversary(task)
    assert isinstance(stream, FreshFeatures)
    return stream


def draw_lower_full(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the mistakes up to each round with the lower and the upper bound, one panel per norm of the comparator."""
    grouped: dict[int, dict[str, list[Result]]] = {}
    for run in sorted(runs, key=lambda run: _find_fresh(run.task).radius):
        grouped.setdefault(_find_fresh(run.task).radius, {}).setdefault(run.task.learner, []).append(run)
    means: dict[str, dict[int, dict[float, float]]] = {
        learner: {} for learner in sort_learners(run.task.learner for run in runs)
    }
    for radius, by_name in grouped.items():
        for learner, own in by_name.items():
            at, mistakes = _collect_curves(own)
            means[learner][radius] = dict(zip(at.tolist(), mistakes.mean(axis=0).tolist(), strict=True))
    groups = _merge_equal(
        {
            learner: {(radius, t): mean for radius, curve in by_radius.items() for t, mean in curve.items()}
            for learner, by_radius in means.items()
        }
    )
    keys = [*_make_group_keys(groups), make_line_key(LOWER_BOUND, BLACK), make_line_key(UPPER_BOUND, BLACK, "-.")]
    x, y = "round (log scale)", "mean mistakes (log scale)"
    page = make_page(figure.title, 1, len(grouped), (2.73, 3.6), keys, x=x, y=y)
    values, last = [1.0], 2.0
    for (radius, by_name), ax in zip(grouped.items(), page.axes[0], strict=True):
        for group in groups:
            curve = next((means[name][radius] for name in group if name in by_name), {})
            if curve:
                shown = [mean or math.nan for mean in curve.values()]
                look = find_style(group[0]).look
                ax.plot(list(curve), shown, **look, markersize=4.5, linewidth=1.2, markevery=5)
                values += [mean for mean in curve.values() if mean > 0.0]
                last = max(last, *curve)
        first = next(iter(by_name.values()))[0].task
        stream, span = _find_fresh(first), [_find_fresh(first).features, first.rounds]
        _draw_lower_bound(ax, span, [stream.lower_bound] * 2)
        ours = by_name.get("gapsmh")
        regret = _find_bounds(ours[0], "full-expectation", span[-1:]) if ours else None
        if regret is not None:
            values.append(stream.comparator_loss + float(regret[0]))
            ax.plot(span, values[-1:] * 2, color=BLACK, linewidth=1.2, linestyle="-.", label="upper bound")
        head_panel(ax, f"B = {radius}")
    page.set_log_axes((1.0, last * 1.2), find_limits(values, 0.03))
    classes = [result.task.classes for result in runs]
    return Drawn(page.picture, write_caption("lower-full", runs, classes=classes, radii=list(grouped)))


def _draw_regrets(ax: Axes, rows: Sequence[Lower], place: Callable[[Lower], float]) -> None:
    """Draw the surrogate regrets with whiskers of three standard errors, and the lower bound."""
    rows = sorted(rows, key=place)
    for learner in sort_learners(row.learner for row in rows):
        own = [row for row in rows if row.learner == learner]
        regrets = [row.mistakes - row.comparator_loss for row in own]
        errors = [theorems.STANDARD_ERRORS * row.error for row in own]
        ax.errorbar(list(map(place, own)), regrets, errors, **find_style(learner).look, markersize=5, linewidth=1.0)
    floor = sorted({(place(row), row.bound - row.comparator_loss) for row in rows})
    ax.plot(*zip(*floor, strict=True), color=BLACK, linewidth=1.8, zorder=5, label=LOWER_BOUND)
    ax.grid(which="major")


def _make_regret_keys(rows: Iterable[Lower]) -> list[Line2D]:
    names = sort_learners(row.learner for row in rows)
    return [*(make_marker_key(find_style(name), line=True) for name in names), make_line_key(LOWER_BOUND, BLACK)]


def draw_lower_classes(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the surrogate regret against K, and the lower bound (B^2 - 1)(K - 1) + (K - 1)/K."""
    rows = theorems.lower_bounds(runs)
    x, y = "number of classes K", "mean surrogate regret"
    page = make_page(figure.title, 1, 1, (6.6, 3.6), _make_regret_keys(rows), x=x, y=y)
    _draw_regrets(page.axes[0][0], rows, lambda row: float(row.classes))
    ours = next((result for result in runs if result.task.learner == "gapsmh"), None)
    line = None if ours is None else _find_bounds(ours, "full-expectation", [ours.task.rounds])
    slope = None if line is None or ours is None else line[0] / ours.task.classes
    radius = _find_fresh(runs[0].task).radius
    return Drawn(
        page.picture, write_caption("lower-classes", runs, errors=theorems.STANDARD_ERRORS, radius=radius, slope=slope)
    )


def draw_lower_both(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the surrogate regret against sqrt T on the streams of the corollary, and the sum of both lower bounds."""
    rows = theorems.lower_bounds(runs)
    if not rows:
        return None
    x, y = "square root of T", "mean surrogate regret on the worse stream (log scale)"
    page = make_page(figure.title, 1, 1, (6.6, 3.6), _make_regret_keys(rows), x=x, y=y)
    ax = page.axes[0][0]
    _draw_regrets(ax, rows, lambda row: math.sqrt(row.rounds))
    values = [value - row.comparator_loss for row in rows for value in (row.mistakes, row.bound)]
    set_log_axis(ax, "y", format_count, find_limits([value for value in values if value > 0.0], 0.05))
    stream = theorems.find_adversary(runs[0].task)
    assert isinstance(stream, FreshThenSegments)
    caption = write_caption(
        "lower-both",
        runs,
        errors=theorems.STANDARD_ERRORS,
        classes=len(stream.classes),
        radius=stream.first.radius,
        constant=stream.first.lower_bound - stream.comparator_loss,
    )
    return Drawn(page.picture, caption)


# ---------------------------------------------------------------------------------------------------------- the remarks

# The optimizers, in the order in which they are drawn.
LOOKS: dict[type[Optimizer], Style] = {
    remarks.ExponentiatedGradient: STYLES["gaphin"]._replace(label="exponentiated gradient"),
    ProjectedOGD: STYLES["gapsmh"]._replace(label="projected gradient descent"),
    FixedOGD: STYLES["gaplog"]._replace(label="gradient descent, fixed rate"),
}


class Point(NamedTuple):
    """An optimizer at a place of the x axis: the mean mistakes of its runs, and the bound on them, if there is one."""

    optimizer: type[Optimizer]
    place: float
    mistakes: float
    bound: float | None


def _find_points(
    results: Sequence[Result], place: Callable[[Result], float], bound: Callable[[Result, Gappletron], float | None]
) -> list[Point]:
    grouped: dict[tuple[type[Optimizer], float], list[tuple[Result, Gappletron]]] = {}
    for result in results:
        learner = result.learner
        assert isinstance(learner, Gappletron)
        grouped.setdefault((type(learner.optimizer), place(result)), []).append((result, learner))
    return [
        Point(kind, at, sum(run.outcome.mistakes for run, _ in runs) / len(runs), bound(*runs[0]))
        for (kind, at), runs in sorted(grouped.items(), key=lambda item: (list(LOOKS).index(item[0][0]), item[0][1]))
    ]


def _draw_points(figure: Figure, points: Sequence[Point], x: str) -> Picture:
    """Draw mistakes (solid) and bounds (dashed) by optimizer, on log scales."""
    kinds = list(dict.fromkeys(point.optimizer for point in points))
    keys = [make_line_key(LOOKS[kind].label, LOOKS[kind].colour) for kind in kinds]
    keys.append(make_line_key("upper bound", BLACK, DASHED))
    page = make_page(figure.title, 1, 1, (6.6, 3.6), keys, x=x, y="mean mistakes (log scale)")
    ax, values = page.axes[0][0], [1.0]
    for kind in kinds:
        own, style = [point for point in points if point.optimizer == kind], LOOKS[kind]
        at = [point.place for point in own]
        ax.plot(at, [point.mistakes for point in own], **style.look, markersize=5)
        limits = [point.bound for point in own if point.bound is not None]
        if limits:
            ax.plot(at, limits, color=style.colour, linestyle=DASHED, linewidth=1.2, label=f"{style.label}: bound")
        values += [point.mistakes for point in own if point.mistakes > 0.0] + limits
    page.set_log_axes(find_limits(point.place for point in points), find_limits(values))
    return page.picture


def _bound_norm(result: Result, learner: Gappletron) -> float:
    """Return K L h^2 / 2 in the norm of the optimizer."""
    if isinstance(learner.optimizer, remarks.ExponentiatedGradient):
        return remarks.norm_bound(result.task.classes, learner.optimizer.guarantee())
    return _evaluate(result, learner, "full-expectation", result.task.rounds).value


def find_norm_points(results: Sequence[Result]) -> list[Point]:
    """Return the mistakes and bounds at each number of features."""
    return _find_points(results, lambda result: float(result.task.features), _bound_norm)


def draw_norms(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw mistakes and bounds against the number of features."""
    picture = _draw_points(figure, find_norm_points(runs), "number of features d (log scale)")
    return Drawn(picture, write_caption("norms", runs, classes=[result.task.classes for result in runs]))


def _get_turning(result: Result) -> remarks.Turning:
    stream = result.task.pieces.stream
    assert isinstance(stream, remarks.Turning)
    return stream


def _bound_drift(result: Result, learner: Gappletron) -> float | None:
    """Return K L (B^2 + 2 B P) / 2 for gradient descent with a fixed rate; the other optimizer has no such bound."""
    if not isinstance(learner.optimizer, FixedOGD):
        return None
    K = result.task.classes
    L = learner.loss.smoothness(K, result.outcome.max_norm)
    return remarks.drift_bound(K, L, learner.optimizer.radius, _get_turning(result).path)


def find_drift_points(results: Sequence[Result]) -> list[Point]:
    """Return the mistakes and bounds at each number of stretches without a change."""
    return _find_points(results, lambda result: 1.0 + _get_turning(result).turns, _bound_drift)


def draw_drift(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw mistakes and the dynamic bound against the number of stretches without a change."""
    picture = _draw_points(figure, find_drift_points(runs), "1 + number of changes of the classes (log scale)")
    return Drawn(picture, write_caption("drift", runs))


def draw_future(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the mean mistakes up to each round, one panel for separable and one for noisy data."""
    noises = sorted({result.task.noise for result in runs})
    styles = {name: find_style(name) for name in sort_learners(result.task.learner for result in runs)}
    keys = [make_line_key(style.label, style.colour, style.line) for style in styles.values()]
    keys.append(make_line_key("upper bound if separable", BLACK, DASHED))
    x, y = "round (log scale)", "mean mistakes (log scale)"
    page = make_page(figure.title, 1, len(noises), (3.6, 3.2), keys, x=x, y=y)
    values, rounds, bound = [1.0], runs[0].task.rounds, _bound_perceptrons(runs)
    for noise, ax in zip(noises, page.axes[0], strict=True):
        for name, style in styles.items():
            own = [run for run in runs if (run.task.learner, run.task.noise) == (name, noise)]
            if own:
                at, mistakes = _collect_curves(own)
                means = _positive(mistakes.mean(axis=0))
                ax.plot(at, means, color=style.colour, linestyle=style.line, linewidth=1.5, label=style.label)
                values += means[means > 0.0].tolist()
        if noise == 0.0 and bound is not None:
            ax.plot([1, rounds], [bound] * 2, color=BLACK, linestyle=DASHED, linewidth=1.2, label="upper bound")
            values.append(bound)
        head_panel(ax, f"noise rate {noise:g}" if noise else "separable")
    page.set_log_axes((1.0, max(2.0, rounds)), find_limits(values))
    return Drawn(page.picture, write_caption("future", runs))


def _bound_perceptrons(results: Sequence[Result]) -> float | None:
    """Return the bound on the mistakes of the Perceptrons on separable data; None where they did not play."""
    for result in results:
        learner = result.learner
        if isinstance(learner, remarks.PerceptronsFirst):
            return remarks.perceptrons_bound(result.task.classes, learner.budget)
    return None
