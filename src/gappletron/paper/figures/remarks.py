"""The figures of the paper's remarks: another norm, dynamic regret, and future work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gappletron.learners.gappletron import Gappletron
from gappletron.learners.optimizers import FixedOGD, Optimizer, ProjectedOGD
from gappletron.paper.figures.drawing import (
    DASHED,
    Drawn,
    Figure,
    find_limits,
    format_count,
    head_panel,
    make_line_key,
    make_page,
    set_log_axis,
    write_caption,
)
from gappletron.paper.remarks import (
    ExponentiatedGradient,
    PerceptronsFirst,
    Turning,
    drift_bound,
    norm_bound,
    perceptrons_bound,
)
from gappletron.paper.results import Result
from gappletron.paper.styles import BLACK, STYLES, Style, find_style, sort_learners
from gappletron.paper.theory import bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

LOOKS: dict[type[Optimizer], Style] = {
    ExponentiatedGradient: STYLES["gaphin"]._replace(label="exponentiated gradient"),
    ProjectedOGD: STYLES["gapsmh"]._replace(label="projected gradient descent"),
    FixedOGD: STYLES["gaplog"]._replace(label="gradient descent, fixed rate"),
}
"""The optimizers, in the order in which they are drawn."""


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
    set_log_axis(ax, "y", format_count, find_limits(values, 0.05))
    set_log_axis(ax, "x", format_count, find_limits([point.place for point in points], 0.05))
    ax.grid(which="major")
    return page.picture


def _bound_norm(result: Result, learner: Gappletron) -> float:
    """Return K L h^2 / 2 in the norm of the optimizer."""
    graph = result.task.pieces.graph
    if isinstance(learner.optimizer, ExponentiatedGradient):
        return norm_bound(graph.n_classes, learner.optimizer.guarantee())
    every = bounds(learner, graph, rounds=result.task.rounds, max_norm=result.outcome.max_norm)
    return next(bound.value for bound in every if bound.theorem == "full-expectation")


def find_norm_points(results: Sequence[Result]) -> list[Point]:
    """Return the mistakes and bounds at each number of features."""
    return _find_points(results, lambda result: float(result.task.features), _bound_norm)


def draw_norms(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw mistakes and bounds against the number of features."""
    picture = _draw_points(figure, find_norm_points(runs), "number of features d (log scale)")
    return Drawn(picture, write_caption("norms", runs, classes=[result.task.classes for result in runs]))


def _get_turning(result: Result) -> Turning:
    stream = result.task.pieces.stream
    assert isinstance(stream, Turning)
    return stream


def _bound_drift(result: Result, learner: Gappletron) -> float | None:
    """Return K L (B^2 + 2 B P) / 2 for gradient descent with a fixed rate; the other optimizer has no such bound."""
    if not isinstance(learner.optimizer, FixedOGD):
        return None
    K = result.task.classes
    L = learner.loss.smoothness(K, result.outcome.max_norm)
    return drift_bound(K, L, learner.optimizer.radius, _get_turning(result).path)


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
            curves = [run.curve for run in runs if (run.task.learner, run.task.noise) == (name, noise)]
            if curves:
                at = [t for t, _ in curves[0]]
                means = [sum(curve[place][1] for curve in curves) / len(curves) for place in range(len(at))]
                shown = [mean or math.nan for mean in means]
                ax.plot(at, shown, color=style.colour, linestyle=style.line, linewidth=1.5, label=style.label)
                values += [mean for mean in means if mean > 0.0]
        if noise == 0.0 and bound is not None:
            ax.plot([1, rounds], [bound] * 2, color=BLACK, linestyle=DASHED, linewidth=1.2, label="upper bound")
            values.append(bound)
        ax.grid(which="major")
        head_panel(ax, f"noise rate {noise:g}" if noise else "separable")
    set_log_axis(page.axes[0][0], "x", format_count, (1.0, max(2.0, rounds)))
    set_log_axis(page.axes[0][0], "y", format_count, find_limits(values, 0.05))
    return Drawn(page.picture, write_caption("future", runs))


def _bound_perceptrons(results: Sequence[Result]) -> float | None:
    """Return the bound on the mistakes of the Perceptrons on separable data; None where they did not play."""
    for result in results:
        learner = result.learner
        if isinstance(learner, PerceptronsFirst):
            return perceptrons_bound(result.task.classes, learner.budget)
    return None
