"""The figures of the paper's remarks: another norm, dynamic regret, and future work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gappletron.learners.gappletron import Gappletron
from gappletron.learners.optimizers import FixedOGD
from gappletron.paper.drawing import (
    BLACK,
    DASHED,
    as_count,
    head_panel,
    horizon,
    in_order,
    line_key,
    log_limits,
    logarithmic,
    new_page,
    numbers,
    repeats,
    runs_of,
    style_of,
)
from gappletron.paper.remarks import (
    ExponentiatedGradient,
    PerceptronsFirst,
    Turning,
    drift_bound,
    norm_bound,
    perceptrons_bound,
)
from gappletron.paper.runner import graph_of
from gappletron.paper.store import Result
from gappletron.paper.sweeps import Figure
from gappletron.paper.theory import bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

__all__ = [
    "drift_caption",
    "drift_picture",
    "future_caption",
    "future_picture",
    "norms_caption",
    "norms_picture",
]

NAMES = {
    "exponentiated-gradient": "exponentiated gradient",
    "projected-ogd": "projected gradient descent",
    "fixed-ogd": "gradient descent, fixed rate",
}
"""The optimizers, in the order in which they are drawn."""

LOOKS = {
    "exponentiated-gradient": (style_of("gaphin").colour, "s"),
    "projected-ogd": (style_of("gapsmh").colour, "o"),
    "fixed-ogd": (style_of("gaplog").colour, "^"),
}


class _Point(NamedTuple):
    """An optimizer at a place of the x axis: the mean mistakes of its runs, and the bound on them, if there is one."""

    optimizer: str
    place: float
    mistakes: float
    bound: float | None


def _points(
    results: Sequence[Result], place: Callable[[Result], float], bound: Callable[[Result], float | None]
) -> list[_Point]:
    grouped: dict[tuple[str, float], list[Result]] = {}
    for result in results:
        grouped.setdefault((_optimizer(result), place(result)), []).append(result)
    return [
        _Point(name, at, sum(run.outcome.mistakes for run in runs) / len(runs), bound(runs[0]))
        for (name, at), runs in sorted(grouped.items(), key=lambda item: (list(NAMES).index(item[0][0]), item[0][1]))
    ]


def _optimizer(result: Result) -> str:
    return result.task.optimizer.partition(":")[0]


def _draw(figure: Figure, points: Sequence[_Point], x: str) -> Picture:
    """Mistakes (solid) and bounds (dashed) by optimizer, on log scales."""
    names = list(dict.fromkeys(point.optimizer for point in points))
    keys = [line_key(NAMES[name], LOOKS[name][0]) for name in names] + [line_key("upper bound", BLACK, DASHED)]
    page = new_page(figure.title, 1, 1, (6.6, 3.6), keys, x=x, y="mean mistakes (log scale)")
    ax, values = page.axes[0][0], [1.0]
    for name in names:
        own, (colour, marker) = [point for point in points if point.optimizer == name], LOOKS[name]
        at = [point.place for point in own]
        ax.plot(at, [point.mistakes for point in own], color=colour, marker=marker, markersize=5, label=NAMES[name])
        limits = [point.bound for point in own if point.bound is not None]
        if limits:
            ax.plot(at, limits, color=colour, linestyle=DASHED, linewidth=1.2, label=f"{NAMES[name]}: bound")
        values += [point.mistakes for point in own if point.mistakes > 0.0] + limits
    logarithmic(ax, "y", as_count, log_limits(values, 0.05))
    logarithmic(ax, "x", as_count, log_limits([point.place for point in points], 0.05))
    ax.grid(which="major")
    return page.picture


def _norm_bound(result: Result) -> float:
    """K L h^2 / 2 in the norm of the optimizer."""
    learner, graph = result.learner, graph_of(result.task)
    assert isinstance(learner, Gappletron)
    if isinstance(learner.optimizer, ExponentiatedGradient):
        return norm_bound(graph.n_classes, learner.optimizer.guarantee())
    every = bounds(learner, graph, rounds=result.task.rounds, max_norm=result.outcome.max_norm)
    return next(bound.value for bound in every if bound.theorem == "full-expectation")


def _norm_points(results: Sequence[Result]) -> list[_Point]:
    return _points(results, lambda result: float(result.task.features), _norm_bound)


def norms_picture(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """Mistakes and bounds against the number of features."""
    points = _norm_points(runs_of(figure, results))
    return _draw(figure, points, "number of features d (log scale)") if points else None


def norms_caption(figure: Figure, results: Sequence[Result]) -> str:
    """What :func:`norms_picture` shows."""
    drawn = runs_of(figure, results)
    if not drawn:
        return ""
    return (
        f"GapSmH with full information on dense rows of signs, of which the first K = "
        f"{numbers(result.task.classes for result in drawn)} tell the label ({horizon(drawn)}; the mean of "
        f"{repeats(drawn)[1]}). Dashed: the bound K L h^2/2, once in the Euclidean norm (L = 4 d) and once in that of "
        "the largest entry (L = 2), in which the exponentiated gradient has an h that grows with ln d. The comparator "
        "has zero loss."
    )


def _turning(result: Result) -> Turning:
    return Turning.parse(result.task.stream.partition(":")[2])


def _drift_bound(result: Result) -> float | None:
    """K L (B^2 + 2 B P) / 2 for gradient descent with a fixed rate; the other optimizer has no such bound."""
    learner, K = result.learner, result.task.classes
    assert isinstance(learner, Gappletron)
    if not isinstance(learner.optimizer, FixedOGD):
        return None
    L = learner.loss.smoothness(K, result.outcome.max_norm)
    return drift_bound(K, L, learner.optimizer.radius, _turning(result).path)


def _drift_points(results: Sequence[Result]) -> list[_Point]:
    return _points(results, lambda result: 1.0 + _turning(result).turns, _drift_bound)


def drift_picture(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """Mistakes and the dynamic bound against the number of stretches without a change."""
    points = _drift_points(runs_of(figure, results))
    return _draw(figure, points, "1 + number of changes of the classes (log scale)") if points else None


def drift_caption(figure: Figure, results: Sequence[Result]) -> str:
    """What :func:`drift_picture` shows."""
    drawn = runs_of(figure, results)
    if not drawn:
        return ""
    return (
        f"GapSmH with full information on unit vectors whose classes change cyclically, {horizon(drawn)}, against the "
        f"number of changes (the mean of {repeats(drawn)[1]}). Dashed: the bound K L (B^2 + 2 B P)/2 on the mistakes "
        "of gradient descent with the rate 1/(K L); P is the path length of the comparators, which change with the "
        "classes and have zero loss. With at least one change no fixed comparator loses less than about T."
    )


def _budget(results: Sequence[Result]) -> float | None:
    """The bound on the mistakes of the Perceptrons on separable data; None where they did not play."""
    for result in results:
        learner = result.learner
        if isinstance(learner, PerceptronsFirst):
            return perceptrons_bound(result.task.classes, learner.budget)
    return None


def future_picture(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """The mean mistakes up to each round, one panel for separable and one for noisy data."""
    drawn = runs_of(figure, results)
    if not drawn:
        return None
    noises = sorted({result.task.noise for result in drawn})
    learners = in_order(result.task.learner for result in drawn)
    keys = [line_key(style_of(name).label, style_of(name).colour, style_of(name).line) for name in learners]
    page = new_page(
        figure.title,
        1,
        len(noises),
        (3.6, 3.2),
        [*keys, line_key("upper bound if separable", BLACK, DASHED)],
        x="round (log scale)",
        y="mean mistakes (log scale)",
    )
    values, rounds, bound = [1.0], drawn[0].task.rounds, _budget(drawn)
    for noise, ax in zip(noises, page.axes[0], strict=True):
        for name in learners:
            runs = [result for result in drawn if (result.task.learner, result.task.noise) == (name, noise)]
            if runs:
                at = [t for t, _ in runs[0].curve]
                means = [sum(run.curve[place][1] for run in runs) / len(runs) for place in range(len(at))]
                style = style_of(name)
                shown = [mean or math.nan for mean in means]
                ax.plot(at, shown, color=style.colour, linestyle=style.line, linewidth=1.5, label=style.label)
                values += [mean for mean in means if mean > 0.0]
        if noise == 0.0 and bound is not None:
            ax.plot([1, rounds], [bound] * 2, color=BLACK, linestyle=DASHED, linewidth=1.2, label="upper bound")
            values.append(bound)
        ax.grid(which="major")
        head_panel(ax, f"noise rate {noise:g}" if noise else "separable")
    logarithmic(page.axes[0][0], "x", as_count, (1.0, max(2.0, rounds)))
    logarithmic(page.axes[0][0], "y", as_count, log_limits(values, 0.05))
    return page.picture


def future_caption(figure: Figure, results: Sequence[Result]) -> str:
    """What :func:`future_picture` shows."""
    drawn = runs_of(figure, results)
    if not drawn:
        return ""
    return (
        f"Mistakes up to each round on unit vectors with bandit feedback (the mean of {repeats(drawn)[1]}; "
        f"{horizon(drawn)}; both on log scales). 'Perceptrons first' plays the Perceptrons of Beygelzimer et al. "
        "(2019), and changes to GapSmH once they have made more updates than strongly separable data of the assumed "
        "norm allow. In expectation it makes at most (K - 1)(X^2 ||U||^2 + 1) mistakes before that (dashed), on any "
        "data: O(K ||U||^2) in all if the data are strongly separable, and otherwise so many more than GapSmH. This "
        "answers the question of the paper's last section for strong separability. The paper's own notion is weaker, "
        "and we know no efficient method with such a bound for it."
    )
