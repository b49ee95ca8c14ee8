"""The figures of the theorems: mistakes of stored runs with their upper bounds, and with the lower bounds.

Where there are no runs to show, a picture is None and its caption is empty.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gappletron.data.adversarial import FreshFeatures, FreshThenSegments, Segments
from gappletron.kernel.numerics import Floats
from gappletron.learners.gappletron import Gappletron
from gappletron.paper.drawing import (
    BLACK,
    DASHED,
    GRAPHS,
    GREY,
    as_count,
    head_panel,
    horizon,
    in_order,
    line_key,
    listed,
    log_limits,
    logarithmic,
    mark_empty,
    marker_key,
    new_page,
    numbers,
    our_settings,
    repeats,
    runs_of,
    style_of,
)
from gappletron.paper.runner import graph_of
from gappletron.paper.store import Result
from gappletron.paper.sweeps import Figure, Task
from gappletron.paper.theorems import (
    STANDARD_ERRORS,
    Examined,
    Lower,
    adversary,
    has_fixed_rate,
    loses_nothing,
    lower_bounds,
)
from gappletron.paper.theory import THEOREMS, bounds
from gappletron.play.history import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.lines import Line2D

__all__ = [
    "bounds_caption",
    "bounds_picture",
    "lower_both_caption",
    "lower_both_picture",
    "lower_classes_caption",
    "lower_classes_picture",
    "lower_filtering_caption",
    "lower_filtering_picture",
    "lower_full_caption",
    "lower_full_picture",
    "mistakes_and_bounds",
]

Place = TypeVar("Place")


# --------------------------------------------------------------------------------------------------------- upper bounds

ROWS = (
    ("expectation", "full-expectation"),
    ("high-probability", "full-high-probability"),
    ("expectation-separable", "full-expectation-separable"),
    ("high-probability-separable", "full-high-probability-separable"),
)
"""The theorems, one row of panels each; the second of a pair is the version for full information."""

IS_SEPARABLE = {theorem.name: theorem.separable for theorem in THEOREMS}


class _Entry(NamedTuple):
    """The runs of a learner in the panel of a theorem."""

    learner: str
    theorem: str
    runs: list[Result]


def _marks(result: Result) -> Floats:
    import numpy as np

    return np.array([t for t, _ in result.curve], float)


def _curves(results: Sequence[Result]) -> tuple[Floats, Floats]:
    """The stored rounds, and the mistakes up to them with one row per run."""
    import numpy as np

    return _marks(results[0]), np.array([[mistakes for _, mistakes in result.curve] for result in results], float)


def _positive(values: Floats) -> Floats:
    """NaN in place of 0, which a log axis cannot show."""
    import numpy as np

    return np.where(values > 0.0, values, np.nan)


def _theorem(row: tuple[str, str], graph: str) -> str:
    return row[graph == "full"]


def _panel(results: Sequence[Result], graph: str, row: tuple[str, str]) -> list[_Entry]:
    """The learners shown for a theorem on a graph: those tuned for it, with a comparator of zero loss if it is
    separable.
    """
    theorem = _theorem(row, graph)
    separable = IS_SEPARABLE[theorem]
    grouped: dict[str, list[Result]] = {}
    for result in results:
        task = result.task
        if (
            task.graph == graph
            and task.tuning in ("", row[0])
            and not has_fixed_rate(task)
            and (task.noise == 0.0) == separable
            and (not separable or loses_nothing(result.outcome.comparator_loss, result.outcome.comparator_gap))
        ):
            grouped.setdefault(task.learner, []).append(result)
    return [_Entry(learner, theorem, grouped[learner]) for learner in in_order(grouped)]


def _bound_line(run: Result, theorem: str, rounds: Iterable[float], loss: float = 0.0) -> Floats | None:
    """The bound on the mistakes of a run for each of these values of T, with all rounds blind.

    None where the theorem does not apply.

    :param loss: the comparator's loss over all rounds of the run. It is added where the theorem bounds the regret, in
        proportion to T.
    """
    import numpy as np

    learner, graph, values = run.learner, graph_of(run.task), []
    if not isinstance(learner, Gappletron):
        return None
    for t in rounds:
        every = bounds(learner, graph, rounds=int(t), max_norm=run.outcome.max_norm)
        bound = next(bound for bound in every if bound.theorem == theorem)
        if bound.refusal is not None:
            return None
        values.append(bound.value + (0.0 if bound.separable else loss * t / run.task.rounds))
    return np.array(values)


def _entry_bound(entry: _Entry, at: Floats) -> Floats | None:
    """The bound on the mistakes of the runs of an entry."""
    losses = [run.outcome.comparator_loss for run in entry.runs if run.outcome.comparator_loss is not None]
    return _bound_line(entry.runs[0], entry.theorem, at, sum(losses) / len(losses)) if losses else None


def bounds_picture(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """The mistakes of the runs and their bounds, one panel per theorem and graph."""
    drawn = runs_of(figure, results)
    present = {result.task.graph for result in drawn}
    graphs = [graph for graph in GRAPHS if graph in present]
    rows = [row for row in ROWS if any(_panel(drawn, graph, row) for graph in graphs)]
    if not rows:
        return None
    rounds = drawn[0].task.rounds
    learners = in_order(result.task.learner for result in drawn)
    keys = [line_key(style_of(name).label, style_of(name).colour) for name in learners]
    keys += [line_key("upper bound", GREY, DASHED), line_key("a mistake in every round", GREY, ":")]
    page = new_page(
        figure.title,
        len(rows),
        len(graphs),
        (1.98, 1.65),
        keys,
        x="round (log scale)",
        y="mistakes (log scale)",
        head=0.16,
        between=0.4,
    )
    start = 10.0 if rounds >= 1000 else 1.0  # the first rounds are mostly noise
    values = [1.0]
    for row, axes in zip(rows, page.axes, strict=True):
        for graph, ax in zip(graphs, axes, strict=True):
            panel = _panel(drawn, graph, row)
            for entry in panel:
                values += _draw_entry(ax, entry, start)
            if panel:
                ax.plot([start, rounds], [start, rounds], color=GREY, linewidth=0.8, linestyle=":", zorder=1)
            else:
                mark_empty(ax)
            ax.grid(which="major")
            ax.set_title(_theorem(row, graph), fontsize=8.0, pad=4.0)
    for graph, ax in zip(graphs, page.axes[0], strict=True):
        ax.set_title(GRAPHS[graph], fontweight="bold", pad=16.0)
        ax.text(0.5, 1.0, _theorem(rows[0], graph), transform=ax.transAxes, ha="center", va="bottom", fontsize=8.0)
    noisy = f"noise {numbers({result.task.noise for result in drawn} - {0.0})}"
    page.name_rows(["separable" if IS_SEPARABLE[row[0]] else noisy for row in rows])
    logarithmic(page.axes[0][0], "x", as_count, (start, max(rounds, 2.0)))
    logarithmic(page.axes[0][0], "y", as_count, log_limits(values))
    return page.picture


def _draw_entry(ax: Axes, entry: _Entry, start: float) -> list[float]:
    """Draw the mistakes and their bound; returns the values that the axis must include."""
    import numpy as np

    style = style_of(entry.learner)
    at, mistakes = _curves(entry.runs)
    mean, late = mistakes.mean(axis=0), at >= start
    ax.plot(at, _positive(mean), color=style.colour, linewidth=1.5, label=style.label)
    ax.fill_between(
        at,
        np.maximum(mistakes.min(axis=0), 0.1),
        np.maximum(mistakes.max(axis=0), 0.1),
        color=style.colour,
        alpha=0.2,
        linewidth=0,
    )
    held = [float(value) for value in mean[late] if value > 0.0]
    bound = _entry_bound(entry, at)
    if bound is not None:
        ax.plot(at, bound, color=style.colour, linewidth=1.2, linestyle=DASHED, label=f"{style.label}: bound")
        held += [float(value) for value in bound[late]]
    return held


def bounds_caption(figure: Figure, results: Sequence[Result]) -> str:
    """What :func:`bounds_picture` shows."""
    drawn = runs_of(figure, results)
    panels = [entry for graph in GRAPHS for row in ROWS for entry in _panel(drawn, graph, row)]
    if not panels:
        return ""
    most, runs = repeats(drawn)
    noises = {result.task.noise for result in drawn} - {0.0}
    unproved = [
        style_of(name).label
        for name in in_order(entry.learner for entry in panels)
        if all(_entry_bound(entry, _marks(entry.runs[0])[-1:]) is None for entry in panels if entry.learner == name)
    ]
    return (
        f"Mistakes up to each round (solid: the mean of {runs}"
        + ", with a band from minimum to maximum" * (most > 1)
        + "), and the bound of the theorem named above each panel (dashed), on log scales; unit vectors as features, "
        f"{horizon(drawn)}"
        + f", noise rate {numbers(noises)} where the theorem bounds the regret"
        * bool(noises)
        + ". The bound in round t is that of the theorem for T = t, with all rounds blind and the comparator's loss "
        "spread evenly over the rounds; the losses of the learner, which lower a separable bound, are ignored."
        + f" No theorem applies to {listed(unproved)} here."
        * bool(unproved)
    )


def mistakes_and_bounds(found: Examined) -> Picture:
    """The mistakes of one stored run up to each round, the comparator's loss, and every bound that applies."""
    task, comparator = found.result.task, found.comparator
    at, mistakes = _curves([found.result])
    style = style_of(task.learner)
    # Under full information the other theorems hold too, but are weaker.
    lines = {
        f"bound: {theorem.name}": line
        for theorem in THEOREMS
        if theorem.full_information == graph_of(task).is_full_information
        and (not theorem.separable or loses_nothing(comparator.loss, comparator.gap))
        and (line := _bound_line(found.result, theorem.name, at, comparator.loss)) is not None
    }
    colours = dict(zip(lines, (colour for colour in COLOURS if colour != style.colour), strict=False))
    with our_settings():
        keys = [
            line_key(f"mistakes of {style.label}", style.colour),
            line_key(f"comparator's loss{'' if comparator.loss >= 0.5 else ': 0'}", GREY, "-."),
            *(line_key(label, colour, DASHED) for label, colour in colours.items()),
            line_key("a mistake in every round", GREY, ":"),
        ]
        title = task.id if lines else f"{task.id}\n(no theorem applies)"
        page = new_page(title, 1, 1, (6.6, 4.0), keys, x="round (log scale)", y="mistakes (log scale)")
        ax = page.axes[0][0]
        ax.plot(at, _positive(mistakes[0]), color=style.colour, linewidth=1.8, label="mistakes")
        ax.plot(at, _positive(comparator.loss * at / task.rounds), color=GREY, linewidth=1.2, linestyle="-.")
        for label, colour in colours.items():
            ax.plot(at, lines[label], color=colour, linewidth=1.4, linestyle=DASHED, label=label)
        ax.plot(at, at, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
        ax.grid(which="major")
        logarithmic(ax, "x", as_count, (1.0, max(2.0, float(at[-1]))))
        logarithmic(ax, "y", as_count, (0.8, 1.2 * max(2.0, at[-1], *(float(line[-1]) for line in lines.values()))))
    return page.picture


# ----------------------------------------------------------------------------------------------------- the lower bounds


def _merged(series: dict[str, dict[Place, float]]) -> list[list[str]]:
    """Groups of learners with equal values wherever both have one: they share one line and one legend entry."""
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


def _group_keys(groups: Sequence[Sequence[str]]) -> list[Line2D]:
    labels = ["\n".join(textwrap.wrap(", ".join(style_of(name).label for name in group), 32)) for group in groups]
    return [
        marker_key(style_of(group[0])._replace(label=label), line=True)
        for group, label in zip(groups, labels, strict=True)
    ]


LOWER_BOUND = "lower bound for every learner"


def _draw_lower_bound(ax: Axes, rounds: Sequence[float], mistakes: Sequence[float]) -> None:
    # Above the other lines: learners that attain the bound lie on it.
    ax.plot(rounds, mistakes, color=BLACK, linewidth=1.8, zorder=5, label=LOWER_BOUND)
    ax.fill_between(rounds, mistakes, 1e-3, color=GREY, alpha=0.15, linewidth=0, zorder=0)


def _worse_means(rows: Sequence[Lower]) -> dict[str, dict[int, float]]:
    """For each learner, by T, its mean number of mistakes on the worse of the two streams."""
    return {
        learner: {row.rounds: row.mistakes for row in rows if row.learner == learner}
        for learner in in_order({row.learner for row in rows})
    }


def lower_filtering_picture(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """The mistakes on the worse of the two streams against T, and the lower bound for every learner."""
    drawn = runs_of(figure, results)
    rows = lower_bounds(drawn)
    series = _worse_means(rows)
    if not series:
        return None
    groups = _merged(series)
    keys = [
        *_group_keys(groups),
        line_key(LOWER_BOUND, BLACK),
        line_key("upper bound for GapSmH", BLACK, "-."),
        line_key("a mistake in every round", GREY, ":"),
    ]
    page = new_page(
        figure.title, 1, 1, (6.6, 4.0), keys, x="T (log scale)", y="mean mistakes on the worse stream (log scale)"
    )
    ax = page.axes[0][0]
    for group in groups:
        style, points = style_of(group[0]), series[group[0]]
        ax.plot(
            list(points),
            [value or math.nan for value in points.values()],
            color=style.colour,
            marker=style.marker,
            markersize=6,
            linewidth=1.2,
            linestyle=style.line,
            label=style.label,
        )
    horizons = sorted({rounds for points in series.values() for rounds in points})
    bounds_by_rounds = {row.rounds: row.bound for row in rows}
    floor = [bounds_by_rounds[rounds] for rounds in horizons]
    _draw_lower_bound(ax, horizons, floor)
    values = [*floor, *(value for points in series.values() for value in points.values() if value > 0.0)]
    ceiling = {rounds: float(bound[0]) for rounds in horizons if (bound := _upper_bound(drawn, rounds)) is not None}
    if ceiling:
        ax.plot(list(ceiling), list(ceiling.values()), color=BLACK, linewidth=1.2, linestyle="-.", label="upper bound")
        values += ceiling.values()
    ax.plot(horizons, horizons, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
    logarithmic(ax, "x", as_count, log_limits(horizons, 0.03))
    logarithmic(ax, "y", as_count, log_limits(values, 0.03))
    ax.grid(which="major")
    return page.picture


def _upper_bound(results: Iterable[Result], rounds: int) -> Floats | None:
    """The bound of the expectation theorem for GapSmH; its comparator has zero loss on both streams."""
    first = next(
        (result for result in results if result.task.learner == "gapsmh" and result.task.rounds == rounds), None
    )
    return None if first is None else _bound_line(first, "expectation", [rounds])


def lower_filtering_caption(figure: Figure, results: Sequence[Result]) -> str:
    """What :func:`lower_filtering_picture` shows."""
    drawn = runs_of(figure, results)
    if not lower_bounds(drawn):
        return ""
    return (
        f"Mistakes against T (both on log scales, {horizon(drawn)}) on the two streams of the lower bound for "
        f"filtering: the larger of the two means of each learner, each over {repeats(drawn)[1]}. In expectation no "
        "learner is below the black line, sqrt(T/8); the dash-dotted line is the bound of the expectation theorem for "
        "GapSmH."
    )


def _fresh(task: Task) -> FreshFeatures:
    stream = adversary(task)
    assert isinstance(stream, FreshFeatures)
    return stream


def _by_radius(results: Iterable[Result]) -> dict[int, dict[str, list[Result]]]:
    """The runs by the norm B of the comparator and by learner."""
    grouped: dict[int, dict[str, list[Result]]] = {}
    for result in results:
        grouped.setdefault(_fresh(result.task).radius, {}).setdefault(result.task.learner, []).append(result)
    return {radius: {name: grouped[radius][name] for name in in_order(grouped[radius])} for radius in sorted(grouped)}


def lower_full_picture(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """The mistakes up to each round with the lower and the upper bound, one panel per norm of the comparator."""
    grouped = _by_radius(runs_of(figure, results))
    if not grouped:
        return None
    means = {
        (radius, name): (at, mistakes.mean(axis=0))
        for radius, by_name in grouped.items()
        for name, runs in by_name.items()
        for at, mistakes in (_curves(runs),)
    }
    names = in_order(name for _, name in means)
    groups = _merged(
        {
            name: {
                (radius, t): value
                for (radius, other), (at, mean) in means.items()
                if other == name
                for t, value in zip(at.tolist(), mean.tolist(), strict=True)
            }
            for name in names
        }
    )
    keys = [*_group_keys(groups), line_key(LOWER_BOUND, BLACK), line_key("upper bound for GapSmH", BLACK, "-.")]
    page = new_page(
        figure.title, 1, len(grouped), (2.73, 3.6), keys, x="round (log scale)", y="mean mistakes (log scale)"
    )
    values, last = [1.0], 2.0
    for (radius, by_name), ax in zip(grouped.items(), page.axes[0], strict=True):
        for group in groups:
            name = next((name for name in group if name in by_name), None)
            if name is not None:
                style, (at, mean) = style_of(group[0]), means[radius, name]
                ax.plot(
                    at,
                    _positive(mean),
                    color=style.colour,
                    marker=style.marker,
                    markersize=4.5,
                    linewidth=1.2,
                    linestyle=style.line,
                    markevery=5,
                    label=style.label,
                )
                values += [value for value in mean.tolist() if value > 0.0]
                last = max(last, float(at[-1]))
        first = next(iter(by_name.values()))[0].task
        stream, span = _fresh(first), [_fresh(first).features, first.rounds]
        _draw_lower_bound(ax, span, [stream.lower_bound] * 2)
        ours = by_name.get("gapsmh")
        regret = _bound_line(ours[0], "full-expectation", span[-1:]) if ours else None
        if regret is not None:
            values.append(stream.comparator_loss + float(regret[0]))
            ax.plot(span, values[-1:] * 2, color=BLACK, linewidth=1.2, linestyle="-.", label="upper bound")
        ax.grid(which="major")
        head_panel(ax, f"B = {radius}")
    logarithmic(page.axes[0][0], "x", as_count, (1.0, last * 1.2))
    logarithmic(page.axes[0][0], "y", as_count, log_limits(values, 0.03))
    return page.picture


def lower_full_caption(figure: Figure, results: Sequence[Result]) -> str:
    """What :func:`lower_full_picture` shows."""
    drawn = runs_of(figure, results)
    if not drawn:
        return ""
    return (
        f"Mistakes up to each round (the mean of {repeats(drawn)[1]}; both on log scales) on the streams of the lower "
        f"bound for full information, K = {numbers(result.task.classes for result in drawn)}, "
        f"{horizon(drawn)}; one panel per norm of the comparator, B = {numbers(_by_radius(drawn))}. In expectation "
        "over the labels no learner is below the black line; the dash-dotted line is the comparator's loss plus the "
        "regret bound of the expectation theorem for GapSmH."
    )


class _Regret(NamedTuple):
    """The mean surrogate regret of a learner against an adversary, its standard error, and the lower bound."""

    learner: str
    place: float
    mean: float
    error: float
    bound: float


def _regrets(results: Sequence[Result], place: Callable[[Task], float]) -> list[_Regret]:
    """The regrets against the comparator of the proof, by learner and place; on two streams that of the worse."""
    tasks = {(result.task.rounds, result.task.learner): result.task for result in results}
    found = []
    for row in lower_bounds(results):
        task = tasks[row.rounds, row.learner]
        stream = adversary(task)
        assert not isinstance(stream, Segments)
        lost = stream.comparator_loss
        found.append(_Regret(row.learner, place(task), row.mistakes - lost, row.error, row.bound - lost))
    return sorted(found, key=lambda regret: regret.place)


def _draw_regrets(ax: Axes, regrets: Sequence[_Regret]) -> None:
    """The regrets with whiskers of three standard errors, and the lower bound."""
    for learner in in_order(regret.learner for regret in regrets):
        own, style = [regret for regret in regrets if regret.learner == learner], style_of(learner)
        ax.errorbar(
            [regret.place for regret in own],
            [regret.mean for regret in own],
            [STANDARD_ERRORS * regret.error for regret in own],
            color=style.colour,
            marker=style.marker,
            markersize=5,
            linewidth=1.0,
            linestyle=style.line,
            label=style.label,
        )
    floor = sorted({(regret.place, regret.bound) for regret in regrets})
    ax.plot(*zip(*floor, strict=True), color=BLACK, linewidth=1.8, zorder=5, label=LOWER_BOUND)
    ax.grid(which="major")


def _regret_keys(regrets: Iterable[_Regret]) -> list[Line2D]:
    names = in_order(regret.learner for regret in regrets)
    return [*(marker_key(style_of(name), line=True) for name in names), line_key(LOWER_BOUND, BLACK)]


def lower_classes_picture(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """The surrogate regret against K, and the lower bound (B^2 - 1)(K - 1) + (K - 1)/K."""
    regrets = _regrets(runs_of(figure, results), lambda task: float(task.classes))
    if not regrets:
        return None
    page = new_page(
        figure.title, 1, 1, (6.6, 3.6), _regret_keys(regrets), x="number of classes K", y="mean surrogate regret"
    )
    _draw_regrets(page.axes[0][0], regrets)
    return page.picture


def lower_classes_caption(figure: Figure, results: Sequence[Result]) -> str:
    """What :func:`lower_classes_picture` shows."""
    drawn = runs_of(figure, results)
    if not drawn:
        return ""
    radius = _fresh(drawn[0].task).radius
    ours = next((result for result in drawn if result.task.learner == "gapsmh"), None)
    line = None if ours is None else _bound_line(ours, "full-expectation", [ours.task.rounds])
    above = "" if line is None or ours is None else f" The bound for GapSmH is {line[0] / ours.task.classes:.4g} K."
    return (
        f"Mean mistakes ({repeats(drawn)[1]}; whiskers: {STANDARD_ERRORS:g} standard errors) minus the loss of the "
        f"comparator of the proof, on the streams of the lower bound for full information, B = {radius}, against K. In "
        f"expectation no learner is below the black line, {radius**2 - 1} (K - 1) + (K - 1)/K." + above
    )


def lower_both_picture(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """The surrogate regret against sqrt T on the streams of the corollary, and the sum of both lower bounds."""
    regrets = _regrets(runs_of(figure, results), lambda task: math.sqrt(task.rounds))
    if not regrets:
        return None
    page = new_page(
        figure.title,
        1,
        1,
        (6.6, 3.6),
        _regret_keys(regrets),
        x="square root of T",
        y="mean surrogate regret on the worse stream (log scale)",
    )
    ax = page.axes[0][0]
    _draw_regrets(ax, regrets)
    values = [value for regret in regrets for value in (regret.mean, regret.bound) if value > 0.0]
    logarithmic(ax, "y", as_count, log_limits(values, 0.05))
    return page.picture


def lower_both_caption(figure: Figure, results: Sequence[Result]) -> str:
    """What :func:`lower_both_picture` shows."""
    drawn = runs_of(figure, results)
    if not lower_bounds(drawn):
        return ""
    stream = adversary(drawn[0].task)
    assert isinstance(stream, FreshThenSegments)
    K, B = len(stream.classes), stream.first.radius
    constant = stream.first.lower_bound - stream.comparator_loss
    return (
        f"Mean mistakes ({repeats(drawn)[1]}; whiskers: {STANDARD_ERRORS:g} standard errors) minus the loss of the "
        f"comparator, on one filtering graph with K = {K} classes: first the fresh features of one lower bound (B = "
        f"{B}), then the segments of the other. The larger of the two means without and with a turned segment. In "
        f"expectation no learner is below the black line, {constant:.4g} + R/2, where the segments have 2 R^2 rounds: "
        "both parts of the corollary, K B^2 and sqrt(T), at once."
    )
