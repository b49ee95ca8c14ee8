"""The figures of the paper, of its theorems and beyond, drawn from the stored runs only.

:func:`draw` is a pure function of the results: the same rows give the same SVG file, byte for byte. :func:`caption`
describes a figure; all its numbers are computed from the rows. :data:`DRAWINGS` maps the id of a figure to its drawing.
The drawings of the paper's figures are here, those of the theorems in :mod:`gappletron.paper.theorem_figures`
and that of the default learner in :mod:`gappletron.paper.beyond`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gappletron.base import files
from gappletron.base.errors import UserError
from gappletron.paper.beyond import beyond_caption, beyond_picture
from gappletron.paper.drawing import (
    DPI,
    EMPTY,
    GRAPHS,
    GREY,
    Style,
    as_count,
    as_percent,
    head_panel,
    horizon,
    in_order,
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
    shown_rate,
    style_of,
    tuning_keys,
    whisker_words,
    whiskers,
)
from gappletron.paper.remark_figures import (
    drift_caption,
    drift_picture,
    future_caption,
    future_picture,
    norms_caption,
    norms_picture,
)
from gappletron.paper.store import Result
from gappletron.paper.summary import Spread, Summary
from gappletron.paper.sweeps import Cell, Figure
from gappletron.paper.theorem_figures import (
    bounds_caption,
    bounds_picture,
    lower_both_caption,
    lower_both_picture,
    lower_classes_caption,
    lower_classes_picture,
    lower_filtering_caption,
    lower_filtering_picture,
    lower_full_caption,
    lower_full_picture,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.lines import Line2D

__all__ = ["DRAWINGS", "Drawing", "caption", "draw", "save"]


# ---------------------------------------------------------------------------------------------------- public functions


def draw(figure: Figure, results: Sequence[Result]) -> Picture:
    """Draw a figure from the results; those of other sweeps are ignored."""
    drawn = runs_of(figure, results)
    horizons = sorted({result.task.rounds for result in drawn})
    if len(horizons) > 1 and figure.id not in OF_MANY_LENGTHS:
        lengths = listed([f"{rounds:,}" for rounds in horizons])
        raise UserError(f"the runs of {figure.id!r} have T = {lengths}: draw the runs of one T at a time")
    with our_settings():
        return DRAWINGS[figure.id].draw(figure, results) or new_page(figure.title, 1, 1, (5.0, 0.8)).mark_empty()


def caption(figure: Figure, results: Sequence[Result]) -> str:
    """What the figure shows, in plain sentences; also its alternative text in the report."""
    return DRAWINGS[figure.id].caption(figure, results) or f"{figure.title}: {EMPTY}."


def save(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG and as SVG, to `path` plus .png and .svg."""
    with our_settings():
        for kind in ("png", "svg"):
            files.save_figure(picture, f"{os.fspath(path)}.{kind}", dpi=DPI)


class Drawing(NamedTuple):
    """The functions that draw a figure and write its caption; they return None and "" where there are no runs."""

    draw: Callable[[Figure, Sequence[Result]], Picture | None]
    caption: Callable[[Figure, Sequence[Result]], str]


# -------------------------------------------------------------------------------------- the paper's grids: K x d panels

TUNED = {"theory": "the parameters that theory suggests", "only-t": "all parameters 1 except T"}


class _Grid:
    """The runs of a figure on the paper's data: for each learner and cell the configuration with the lowest mean."""

    def __init__(self, figure: Figure, results: Sequence[Result], noisy: bool = False) -> None:
        self.tunings = figure.tunings
        self.results = [result for result in runs_of(figure, results) if result.task.noise > 0.0 or not noisy]
        sweep = figure.sweeps[0]
        summary = Summary(self.results)
        cells = summary.cells(sweep)
        self.learners = in_order(summary.learners(sweep))
        self.spreads = {
            (learner, cell): min(found, key=lambda spread: spread.mean)
            for learner in self.learners
            for cell in cells
            if (found := summary.spreads(sweep, learner, cell))
        }
        self.classes = sorted({cell.classes for cell in cells})
        self.features = sorted({cell.features for cell in cells})
        self.noises = sorted({cell.noise for cell in cells})
        self.rounds = self.results[0].task.rounds if self.results else 1
        # All figures of a sweep have the same axis, whatever their tuning, so that they can be compared.
        self.limits = log_limits(
            [1.0]
            if not self.results
            else [
                shown_rate(result.outcome.error_rate, self.rounds)
                for result in results
                if result.task.sweep == sweep
                and result.task.rounds == self.rounds
                and (result.task.noise > 0.0 or not noisy)
            ]
        )

    @property
    def mixed(self) -> bool:
        """Whether the better tuning differs between cells; then the markers show which one it is."""
        return len({spread.configuration.tuning for spread in self.spreads.values()}) > 1

    def keys(self) -> list[Line2D]:
        return [marker_key(style_of(learner)) for learner in self.learners] + (tuning_keys() if self.mixed else [])

    def draw(self, ax: Axes, cells: Sequence[Cell], *, width: float, size: float) -> None:
        """Draw every learner in these cells, side by side, so that the whiskers do not overlap."""
        for rank, learner in enumerate(self.learners):
            offset = width * ((rank + 0.5) / len(self.learners) - 0.5)
            found = [
                (place + offset, self.spreads[learner, cell])
                for place, cell in enumerate(cells)
                if (learner, cell) in self.spreads
            ]
            if found:
                whiskers(
                    ax,
                    [place for place, _ in found],
                    [spread for _, spread in found],
                    style_of(learner),
                    self.rounds,
                    hollow=[self.mixed and spread.configuration.tuning == "theory" for _, spread in found],
                    size=size,
                )
        if not ax.containers:
            mark_empty(ax)
        ax.set_xlim(-0.5, len(cells) - 0.5)
        ax.grid(axis="y", which="major")
        for place in range(1, len(cells)):
            ax.axvline(place - 0.5, color=GREY, alpha=0.25, linewidth=0.6)

    def words(self) -> str:
        """The graph, T and the tuning, for the caption."""
        tuning = ""
        if self.tunings is not None:
            tuning = ", with " + listed([TUNED[tuning] for tuning in self.tunings])
        elif any(spread.configuration.tuning for spread in self.spreads.values()):
            tuning = (
                ", each learner with the better of its tunings in each cell" + " (hollow markers: theory)" * self.mixed
            )
        return f"{GRAPHS[self.results[0].task.graph]}, {horizon(self.results)}{tuning}"

    def markers(self) -> str:
        """The markers and whiskers, for the caption."""
        zero = any(spread.least == 0.0 for spread in self.spreads.values())
        return whisker_words(self.results) + "; a rate of 0 is shown as half a mistake" * zero


def _grid(figure: Figure, results: Sequence[Result]) -> Picture | None:
    grid = _Grid(figure, results)
    if not grid.results:
        return None
    page = new_page(
        figure.title,
        len(grid.classes),
        len(grid.features),
        (2.73, 1.95),
        grid.keys(),
        x="label noise rate",
        y="error rate (log scale)",
    )
    for classes, row in zip(grid.classes, page.axes, strict=True):
        for features, ax in zip(grid.features, row, strict=True):
            grid.draw(ax, [Cell(classes, features, noise) for noise in grid.noises], width=0.7, size=5.0)
            ax.set_xticks(range(len(grid.noises)), [f"{noise:g}" for noise in grid.noises])
    page.name_rows([f"K = {classes}" for classes in grid.classes])
    for features, ax in zip(grid.features, page.axes[0], strict=True):
        head_panel(ax, f"d = {features}")
    logarithmic(page.axes[0][0], "y", as_percent, grid.limits)
    return page.picture


def _grid_caption(figure: Figure, results: Sequence[Result]) -> str:
    grid = _Grid(figure, results)
    if not grid.results:
        return ""
    return (
        f"Error rate (log scale) against the label noise rate, for K = {numbers(grid.classes)} classes (rows) and "
        f"d = {numbers(grid.features)} features (columns); {grid.words()}. {grid.markers()}."
    )


def _intro(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """The cells with label noise, one panel per noise rate."""
    grid = _Grid(figure, results, noisy=True)
    if not grid.results:
        return None
    pairs = [(classes, features) for classes in grid.classes for features in grid.features]
    page = new_page(figure.title, len(grid.noises), 1, (5.9, 1.6), grid.keys(), y="error rate (log scale)", between=0.4)
    for noise, (ax,) in zip(grid.noises, page.axes, strict=True):
        grid.draw(ax, [Cell(classes, features, noise) for classes, features in pairs], width=0.84, size=4.6)
        ax.set_xticks(range(len(pairs)), [f"K={classes}\nd={features}" for classes, features in pairs])
        ax.tick_params(axis="x", length=0)
        head_panel(ax, f"noise rate {noise:g}")
    logarithmic(page.axes[0][0], "y", as_percent, grid.limits)
    return page.picture


def _intro_caption(figure: Figure, results: Sequence[Result]) -> str:
    grid = _Grid(figure, results, noisy=True)
    if not grid.results:
        return ""
    return (
        f"Error rate (log scale) on the data with label noise (rate {numbers(grid.noises)}), for each number of "
        f"classes K and of features d; {grid.words()}. {grid.markers()}."
    )


# ------------------------------------------------------------------------------------------------------ label efficient


class _Queries:
    """The runs on the label-efficient graph: those of the Perceptron sorted by b, and those of the other learners."""

    def __init__(self, figure: Figure, results: Sequence[Result]) -> None:
        self.results = runs_of(figure, results)
        self.sweep, self.summary = figure.sweeps[0], Summary(self.results)
        self.cells = self.summary.cells(self.sweep)
        learners = in_order(self.summary.learners(self.sweep))
        self.scaled = sorted((name for name in learners if ":b=" in name), key=query_scale)
        self.others = [name for name in learners if name not in self.scaled]
        self.rounds = self.results[0].task.rounds if self.results else 1

    def of(self, names: Sequence[str], cell: Cell) -> list[tuple[str, Spread]]:
        return [(name, spread) for name in names for spread in self.summary.spreads(self.sweep, name, cell)]

    def without_queries(self, spread: Spread) -> float:
        """The rate of wrong predictions: every query counts as a mistake, and only queries show labels."""
        return shown_rate(spread.mean - spread.labels_seen / self.rounds, self.rounds)


def query_scale(learner: str) -> float:
    """The number b of a label-efficient Perceptron.

    >>> query_scale("label-efficient-perceptron:b=0.1")
    0.1
    """
    return float(learner.partition(":b=")[2])


def _asked(spread: Spread) -> float:
    """The number of queries to show on a log axis: 0.5 in place of 0."""
    return max(spread.labels_seen, 0.5)


def _label_efficient(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """Error rate against the number of queries."""
    queries = _Queries(figure, results)
    if not queries.results:
        return None
    classes = sorted({cell.classes for cell in queries.cells})
    columns = sorted({(cell.features, cell.noise) for cell in queries.cells})
    learners = in_order([*queries.others, *queries.scaled[:1]])
    keys = [marker_key(style_of(name), line=name in queries.scaled) for name in learners] + tuning_keys()
    keys.append(marker_key(Style("the same, without the queries", "#aaaaaa", ".", ":"), line=True))
    page = new_page(
        figure.title,
        len(classes),
        len(columns),
        (2.53, 2.1),
        keys,
        x="queries, that is, labels seen (log scale)",
        y="error rate (log scale)",
        share_y="col",
    )
    asked = []
    for j, (features, noise) in enumerate(columns):
        rates = []
        for i, K in enumerate(classes):
            ax, cell = page.axes[i][j], Cell(K, features, noise)
            _query_line(ax, queries, cell)
            _query_points(ax, queries, cell)
            shown = [spread for _, spread in queries.of([*queries.others, *queries.scaled], cell)]
            asked += [_asked(spread) for spread in shown]
            rates += [shown_rate(rate, queries.rounds) for spread in shown for rate in (spread.least, spread.most)]
            ax.grid(which="major")
            if not shown:
                mark_empty(ax)
        head_panel(page.axes[0][j], f"noise rate {noise:g}")
        # The faint markers, without the queries, may be outside of the panel.
        least, most = log_limits([*rates, 1.0])
        logarithmic(page.axes[0][j], "y", as_percent, (least / 4.0 if noise == 0.0 else least / 1.3, most))
    page.name_rows([f"K = {K}" for K in classes])
    least, most = log_limits(asked)
    logarithmic(page.axes[0][0], "x", as_count, (least / 2.8, most))  # space for the label of the first b
    return page.picture


def _query_points(ax: Axes, queries: _Queries, cell: Cell) -> None:
    for name, spread in queries.of(queries.others, cell):
        style, theory = style_of(name), spread.configuration.tuning == "theory"
        ax.plot(
            [_asked(spread)],
            [queries.without_queries(spread)],
            color=style.colour,
            marker=style.marker,
            markersize=4,
            alpha=0.5,
            linestyle="none",
            markerfacecolor="white" if theory else style.colour,
            zorder=2,
        )
        whiskers(ax, [_asked(spread)], [spread], style, queries.rounds, hollow=[theory], size=6.0)


def _query_line(ax: Axes, queries: _Queries, cell: Cell) -> None:
    """The label-efficient Perceptron from the smallest b to the largest, and a faint line without the queries."""
    line = queries.of(queries.scaled, cell)
    if not line:
        return
    style, spreads, asked = style_of(line[0][0]), [spread for _, spread in line], [_asked(spread) for _, spread in line]
    whiskers(ax, asked, spreads, style, queries.rounds, line=True, size=4.5)
    ax.plot(
        asked,
        [queries.without_queries(spread) for spread in spreads],
        color=style.colour,
        linestyle=":",
        linewidth=1.0,
        marker=".",
        markersize=4,
        alpha=0.4,
    )
    # Label the first, the best and the last b, and those between the best and the last where there is space.
    last, best = len(line) - 1, min(range(len(line)), key=lambda place: spreads[place].mean)
    shown = {0: (-6, -2), best: (4, -10), last: (-6, -2)}
    for place in range(best + 1, last):
        if (
            asked[place] > 2.2 * asked[max(other for other in shown if other < place)]
            and asked[last] > 2.2 * asked[place]
        ):
            shown[place] = (-3, 4)
    for place, offset in shown.items():
        ax.annotate(
            f"b={query_scale(line[place][0]):g}",
            (asked[place], shown_rate(spreads[place].mean, queries.rounds)),
            xytext=offset,
            textcoords="offset points",
            ha="right" if offset[0] < 0 else "center",
            fontsize=7.5,
            color="#333333",
        )


def _label_efficient_caption(figure: Figure, results: Sequence[Result]) -> str:
    queries = _Queries(figure, results)
    if not queries.results:
        return ""
    features = numbers(cell.features for cell in queries.cells)
    scales = numbers(query_scale(name) for name in queries.scaled)
    against = f": the Gappletrons, and the label-efficient Perceptron with b = {scales}" if queries.scaled else ""
    return (
        f"Error rate against the number of queries (both on log scales; each column has its own y axis), "
        f"d = {features} features, {horizon(queries.results)}{against}. {whisker_words(queries.results)}; a query "
        "counts as a mistake, and the small faint markers do not count the queries."
    )


# ---------------------------------------------------------------------------------------------------- exploration rules


class _Pair(NamedTuple):
    """A learner in a cell with both exploration rules."""

    learner: str
    graph: str
    paper: Spread
    ours: Spread


def _pairs(figure: Figure, results: Sequence[Result]) -> list[_Pair]:
    summary, found = Summary(runs_of(figure, results)), []
    for graph in figure.sweeps[1:]:
        for learner in in_order(summary.learners("exploration")):
            for cell in summary.cells("exploration"):
                if summary.spreads(graph, learner, cell) and summary.spreads("exploration", learner, cell, graph=graph):
                    paper = summary.best(graph, learner, cell)
                    ours = summary.best("exploration", learner, cell, graph=graph)
                    found.append(_Pair(learner, graph, paper, ours))
    return found


def _exploration(figure: Figure, results: Sequence[Result]) -> Picture | None:
    pairs = _pairs(figure, results)
    if not pairs:
        return None
    rounds = runs_of(figure, results)[0].task.rounds
    graphs, learners = list(dict.fromkeys(pair.graph for pair in pairs)), in_order(pair.learner for pair in pairs)
    side = 4.2
    page = new_page(
        figure.title,
        1,
        len(graphs),
        (side, side),
        [marker_key(style_of(learner)) for learner in learners],
        x="error rate with Algorithm 1's rule (log scale)",
        y="error rate with the top-up rule (log scale)",
    )
    limits = log_limits(shown_rate(spread.mean, rounds) for pair in pairs for spread in (pair.paper, pair.ours))
    for graph, ax in zip(graphs, page.axes[0], strict=True):
        ax.plot(limits, limits, color=GREY, linewidth=0.9, zorder=1)
        ax.fill_between(limits, limits, limits[0], color=GREY, alpha=0.08, linewidth=0, zorder=0)
        ax.text(0.97, 0.04, "top-up is better", transform=ax.transAxes, ha="right", color="#555555")
        ax.text(0.03, 0.96, "Algorithm 1 is better", transform=ax.transAxes, va="top", color="#555555")
        for learner in learners:
            style = style_of(learner)
            here = [pair for pair in pairs if pair.graph == graph and pair.learner == learner]
            ax.plot(
                [shown_rate(pair.paper.mean, rounds) for pair in here],
                [shown_rate(pair.ours.mean, rounds) for pair in here],
                color=style.colour,
                marker=style.marker,
                markersize=6,
                linestyle="none",
                alpha=0.7,
                markeredgewidth=0,
                label=style.label,
            )
        head_panel(ax, GRAPHS[graph])
    logarithmic(page.axes[0][0], "x", as_percent, limits)
    logarithmic(page.axes[0][0], "y", as_percent, limits)
    return page.picture


def _exploration_caption(figure: Figure, results: Sequence[Result]) -> str:
    pairs = _pairs(figure, results)
    if not pairs:
        return ""
    played = {pair.learner for pair in pairs}
    drawn = [result for result in runs_of(figure, results) if result.task.learner in played]
    less = []
    for graph in dict.fromkeys(pair.graph for pair in pairs):
        here = [pair for pair in pairs if pair.graph == graph]
        less.append(
            f"{sum(pair.ours.mean < pair.paper.mean for pair in here)} of {len(here)} cases on the "
            f"{GRAPHS[graph].removesuffix(' graph')} graph"
        )
    return (
        f"Error rate with the top-up rule against that with Algorithm 1's rule (both on log scales), {horizon(drawn)}, "
        "all parameters 1 except T; one marker per learner and data set (K, d, noise), the mean of "
        f"{repeats(drawn)[1]}. The error rate with top-up is lower (below the diagonal) in {listed(less)}."
    )


# --------------------------------------------------------------------------------------------------------- all drawings

OF_MANY_LENGTHS = ("lower-filtering", "lower-classes", "lower-both")
"""The figures whose streams have different lengths."""

GRID = Drawing(_grid, _grid_caption)

DRAWINGS: dict[str, Drawing] = {
    "bandit-intro": Drawing(_intro, _intro_caption),
    "bandit-best": GRID,
    "bandit-only-t": GRID,
    "bandit-theory": GRID,
    "filtering-best": GRID,
    "filtering-only-t": GRID,
    "filtering-theory": GRID,
    "full": GRID,
    "label-efficient": Drawing(_label_efficient, _label_efficient_caption),
    "exploration": Drawing(_exploration, _exploration_caption),
    "bounds": Drawing(bounds_picture, bounds_caption),
    "lower-filtering": Drawing(lower_filtering_picture, lower_filtering_caption),
    "lower-full": Drawing(lower_full_picture, lower_full_caption),
    "lower-classes": Drawing(lower_classes_picture, lower_classes_caption),
    "lower-both": Drawing(lower_both_picture, lower_both_caption),
    "norms": Drawing(norms_picture, norms_caption),
    "drift": Drawing(drift_picture, drift_caption),
    "future": Drawing(future_picture, future_caption),
    "ours": Drawing(beyond_picture, beyond_caption),
}
"""The drawing of each figure, by its id."""
