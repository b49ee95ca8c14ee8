"""The figures of error rates: the paper's grids, queries, the two exploration rules, and the default learner.

A drawing is a pure function of the results: the same rows give the same SVG file, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gappletron.paper.figures.drawing import (
    GRAPHS,
    Drawn,
    Figure,
    clip_rate,
    count_by_graph,
    draw_whiskers,
    find_limits,
    format_count,
    format_percent,
    head_panel,
    make_marker_key,
    make_page,
    make_tuning_keys,
    mark_empty,
    set_log_axis,
    write_caption,
)
from gappletron.paper.results import Cell, Result, Spread, Summary
from gappletron.paper.styles import GREY, Style, find_style, label_learner, read_scale, sort_learners
from gappletron.paper.sweeps import GAPS
from gappletron.paper.templates import list_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

# -------------------------------------------------------------------------------------- the paper's grids: K x d panels


class _Grid:
    """The runs of a figure on the paper's data: for each learner and cell the configuration with the lowest mean."""

    def __init__(self, figure: Figure, runs: Sequence[Result]) -> None:
        self.figure, self.results = figure, figure.choose(runs)
        sweep = figure.sweeps[0]
        summary = Summary(self.results)
        cells = summary.cells(sweep)
        self.learners = sort_learners(summary.learners(sweep))
        self.spreads = {
            (learner, cell): min(found, key=lambda spread: spread.mean)
            for learner in self.learners
            for cell in cells
            if (found := summary.spreads(sweep, learner, cell))
        }
        self.classes = sorted({cell.classes for cell in cells})
        self.features = sorted({cell.features for cell in cells})
        self.noises = sorted({cell.noise for cell in cells})
        self.rounds = self.results[0].task.rounds
        # All figures of a sweep have the same axis, whatever their tuning, so that they can be compared.
        same = [result for result in runs if result.task.rounds == self.rounds]
        self.limits = find_limits(clip_rate(result.outcome.error_rate, self.rounds) for result in same)

    @property
    def mixed(self) -> bool:
        """Whether the better tuning differs between cells; then the markers show which one it is."""
        return len({spread.configuration.tuning for spread in self.spreads.values()}) > 1

    def keys(self) -> list[Line2D]:
        return [make_marker_key(find_style(learner)) for learner in self.learners] + (
            make_tuning_keys() if self.mixed else []
        )

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
                draw_whiskers(ax, found, find_style(learner), hollow=self.mixed, size=size)
        if not ax.containers:
            mark_empty(ax)
        ax.set_xlim(-0.5, len(cells) - 0.5)
        ax.grid(axis="y", which="major")
        for place in range(1, len(cells)):
            ax.axvline(place - 0.5, color=GREY, alpha=0.25, linewidth=0.6)

    def write_caption(self, name: str) -> str:
        """Return the caption, with the graph, T, the tuning and the markers."""
        spreads = self.spreads.values()
        return write_caption(
            name,
            self.results,
            graph=GRAPHS[self.results[0].task.graph],
            classes=self.classes,
            features=self.features,
            noises=self.noises,
            tunings=self.figure.tunings,
            is_tuned=any(spread.configuration.tuning for spread in spreads),
            mixed=self.mixed,
            zero=any(spread.least == 0.0 for spread in spreads),
        )


def draw_grid(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the error rates against the noise, with K as rows and d as columns."""
    grid = _Grid(figure, runs)
    x, y = "label noise rate", "error rate (log scale)"
    page = make_page(figure.title, len(grid.classes), len(grid.features), (2.73, 1.95), grid.keys(), x=x, y=y)
    for classes, row in zip(grid.classes, page.axes, strict=True):
        for features, ax in zip(grid.features, row, strict=True):
            grid.draw(ax, [Cell(classes, features, noise) for noise in grid.noises], width=0.7, size=5.0)
            ax.set_xticks(range(len(grid.noises)), [f"{noise:g}" for noise in grid.noises])
    page.name_rows([f"K = {classes}" for classes in grid.classes])
    for features, ax in zip(grid.features, page.axes[0], strict=True):
        head_panel(ax, f"d = {features}")
    set_log_axis(page.axes[0][0], "y", format_percent, grid.limits)
    return Drawn(page.picture, grid.write_caption("grid"))


def draw_noisy_cells(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the cells with label noise, one panel per noise rate."""
    noisy = [run for run in runs if run.task.noise > 0.0]
    if not figure.choose(noisy):
        return None
    grid = _Grid(figure, noisy)
    pairs = [(classes, features) for classes in grid.classes for features in grid.features]
    y = "error rate (log scale)"
    page = make_page(figure.title, len(grid.noises), 1, (5.9, 1.6), grid.keys(), y=y, between=0.4)
    for noise, (ax,) in zip(grid.noises, page.axes, strict=True):
        grid.draw(ax, [Cell(classes, features, noise) for classes, features in pairs], width=0.84, size=4.6)
        ax.set_xticks(range(len(pairs)), [f"K={classes}\nd={features}" for classes, features in pairs])
        ax.tick_params(axis="x", length=0)
        head_panel(ax, f"noise rate {noise:g}")
    set_log_axis(page.axes[0][0], "y", format_percent, grid.limits)
    return Drawn(page.picture, grid.write_caption("noisy-cells"))


# ------------------------------------------------------------------------------------------------------ label efficient


class _Queries:
    """The runs on the label-efficient graph: those of the Perceptron sorted by b, and those of the other learners."""

    def __init__(self, sweep: str, runs: Sequence[Result]) -> None:
        self.sweep, self.summary = sweep, Summary(runs)
        self.cells = self.summary.cells(self.sweep)
        learners = sort_learners(self.summary.learners(self.sweep))
        self.scaled = sorted((name for name in learners if ":b=" in name), key=read_scale)
        self.others = [name for name in learners if name not in self.scaled]
        self.rounds = runs[0].task.rounds

    def list_spreads(self, names: Sequence[str], cell: Cell) -> list[Spread]:
        """Return every configuration of these learners in a cell."""
        return [spread for name in names for spread in self.summary.spreads(self.sweep, name, cell)]

    def without_queries(self, spread: Spread) -> float:
        """Return the rate of wrong predictions: every query counts as a mistake, and only queries reveal labels."""
        return clip_rate(spread.mean - spread.labels_seen / self.rounds, self.rounds)


def _count_queries(spread: Spread) -> float:
    """Return the number of queries to show on a log axis: 0.5 in place of 0."""
    return max(spread.labels_seen, 0.5)


def draw_queries(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the error rate against the number of queries."""
    queries = _Queries(figure.sweeps[0], runs)
    classes = sorted({cell.classes for cell in queries.cells})
    columns = sorted({(cell.features, cell.noise) for cell in queries.cells})
    learners = sort_learners([*queries.others, *queries.scaled[:1]])
    keys = [make_marker_key(find_style(name), line=name in queries.scaled) for name in learners] + make_tuning_keys()
    keys.append(make_marker_key(Style("the same, without the queries", "#aaaaaa", ".", ":"), line=True))
    x, y = "queries, that is, labels seen (log scale)", "error rate (log scale)"
    page = make_page(figure.title, len(classes), len(columns), (2.53, 2.1), keys, x=x, y=y, share_y="col")
    asked = []
    for j, (features, noise) in enumerate(columns):
        rates = []
        for i, K in enumerate(classes):
            ax, cell = page.axes[i][j], Cell(K, features, noise)
            _draw_query_line(ax, queries, cell)
            _draw_query_points(ax, queries, cell)
            shown = queries.list_spreads([*queries.others, *queries.scaled], cell)
            asked += [_count_queries(spread) for spread in shown]
            rates += [clip_rate(rate, queries.rounds) for spread in shown for rate in (spread.least, spread.most)]
            ax.grid(which="major")
            if not shown:
                mark_empty(ax)
        head_panel(page.axes[0][j], f"noise rate {noise:g}")
        # The faint markers, without the queries, may be outside of the panel.
        least, most = find_limits([*rates, 1.0])
        set_log_axis(page.axes[0][j], "y", format_percent, (least / 4.0 if noise == 0.0 else least / 1.3, most))
    page.name_rows([f"K = {K}" for K in classes])
    least, most = find_limits(asked)
    set_log_axis(page.axes[0][0], "x", format_count, (least / 2.8, most))  # space for the label of the first b
    features_shown, scales = {cell.features for cell in queries.cells}, [read_scale(name) for name in queries.scaled]
    return Drawn(page.picture, write_caption("queries", runs, features=features_shown, scales=scales))


def _draw_query_points(ax: Axes, queries: _Queries, cell: Cell) -> None:
    for spread in queries.list_spreads(queries.others, cell):
        style, asked = find_style(spread.configuration.learner), _count_queries(spread)
        look = {**style.look, "label": None, "linestyle": "none", "alpha": 0.5, "markersize": 4}
        face = "white" if spread.is_tuned_by_theory else style.colour
        ax.plot([asked], [queries.without_queries(spread)], **look, markerfacecolor=face, zorder=2)
        draw_whiskers(ax, [(asked, spread)], style, hollow=True, size=6.0)


def _draw_query_line(ax: Axes, queries: _Queries, cell: Cell) -> None:
    """Draw the label-efficient Perceptron from the smallest b to the largest, and a faint line without the queries."""
    spreads = queries.list_spreads(queries.scaled, cell)
    if not spreads:
        return
    style = find_style(spreads[0].configuration.learner)
    asked = [_count_queries(spread) for spread in spreads]
    draw_whiskers(ax, list(zip(asked, spreads, strict=True)), style, line=True, size=4.5)
    rates = [queries.without_queries(spread) for spread in spreads]
    ax.plot(asked, rates, color=style.colour, linestyle=":", linewidth=1.0, marker=".", markersize=4, alpha=0.4)
    # Label the first, the best and the last b, and those between the best and the last where there is space.
    last, best = len(spreads) - 1, min(range(len(spreads)), key=lambda place: spreads[place].mean)
    shown = {0: (-6, -2), best: (4, -10), last: (-6, -2)}
    for place in range(best + 1, last):
        before = asked[max(other for other in shown if other < place)]
        if asked[place] > 2.2 * before and asked[last] > 2.2 * asked[place]:
            shown[place] = (-3, 4)
    for place, offset in shown.items():
        ax.annotate(
            f"b={read_scale(spreads[place].configuration.learner):g}",
            (asked[place], clip_rate(spreads[place].mean, queries.rounds)),
            xytext=offset,
            textcoords="offset points",
            ha="right" if offset[0] < 0 else "center",
            fontsize=7.5,
            color="#333333",
        )


# ---------------------------------------------------------------------------------------------------- exploration rules


def _find_pairs(figure: Figure, runs: Sequence[Result]) -> list[tuple[Spread, Spread]]:
    """Return for each graph, learner and cell the runs with Algorithm 1's rule, and those with the top-up rule."""
    summary, found = Summary(figure.choose(runs)), []
    for graph in figure.sweeps[1:]:
        for learner in sort_learners(summary.learners("exploration")):
            for cell in summary.cells("exploration"):
                if summary.spreads(graph, learner, cell) and summary.spreads("exploration", learner, cell, graph=graph):
                    ours = summary.best("exploration", learner, cell, graph=graph)
                    found.append((summary.best(graph, learner, cell), ours))
    return found


def draw_exploration(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw the error rates with the top-up rule against those with Algorithm 1's rule."""
    pairs = _find_pairs(figure, runs)
    if not pairs:
        return None
    graphs = list(dict.fromkeys(paper.configuration.graph for paper, _ in pairs))
    learners = sort_learners(paper.configuration.learner for paper, _ in pairs)
    drawn = [result for result in figure.choose(runs) if result.task.learner in learners]
    rounds = drawn[0].task.rounds
    keys = [make_marker_key(find_style(learner)) for learner in learners]
    x, y = "error rate with Algorithm 1's rule (log scale)", "error rate with the top-up rule (log scale)"
    page = make_page(figure.title, 1, len(graphs), (4.2, 4.2), keys, x=x, y=y)
    limits = find_limits(clip_rate(spread.mean, rounds) for pair in pairs for spread in pair)
    for graph, ax in zip(graphs, page.axes[0], strict=True):
        ax.plot(limits, limits, color=GREY, linewidth=0.9, zorder=1)
        ax.fill_between(limits, limits, limits[0], color=GREY, alpha=0.08, linewidth=0, zorder=0)
        ax.text(0.97, 0.04, "top-up is better", transform=ax.transAxes, ha="right", color="#555555")
        ax.text(0.03, 0.96, "Algorithm 1 is better", transform=ax.transAxes, va="top", color="#555555")
        for learner in learners:
            here = [
                [clip_rate(spread.mean, rounds) for spread in pair]
                for pair in pairs
                if (pair[0].configuration.graph, pair[0].configuration.learner) == (graph, learner)
            ]
            look = {**find_style(learner).look, "linestyle": "none", "markersize": 6, "markeredgewidth": 0}
            ax.plot([paper for paper, _ in here], [ours for _, ours in here], **look, alpha=0.7)
        head_panel(ax, GRAPHS[graph])
    set_log_axis(page.axes[0][0], "x", format_percent, limits)
    set_log_axis(page.axes[0][0], "y", format_percent, limits)
    better = ((paper.configuration.graph, ours.mean < paper.mean) for paper, ours in pairs)
    return Drawn(page.picture, write_caption("exploration", drawn, less=count_by_graph(better)))


# ----------------------------------------------------------------------------------------------------- beyond the paper

# The id of the sweep.
OURS = "ours"


class Contest(NamedTuple):
    """One of our learners on one graph and one data set, and the best of the paper's learners there.

    The best have the lowest mean over their runs, whatever their tuning; None where there are no runs.
    """

    graph: str
    cell: Cell
    ours: Spread
    gappletron: Spread | None
    baseline: Spread | None

    @property
    def rivals(self) -> list[Spread]:
        """The best of the paper's learners, as far as they played."""
        return [spread for spread in (self.gappletron, self.baseline) if spread is not None]

    @property
    def shown(self) -> list[tuple[int, Spread]]:
        """What is drawn, from left to right: the place, and the runs there."""
        trio = enumerate((self.ours, self.gappletron, self.baseline))
        return [(place, spread) for place, spread in trio if spread is not None]

    @property
    def won(self) -> bool:
        """Whether ours has the lowest mean."""
        return all(self.ours.mean < spread.mean for spread in self.rivals)


def find_contests(summary: Summary, sweep: str = OURS) -> list[Contest]:
    """Return every run of ours in this sweep, in the order of the graphs and cells, with the best of the paper's
    learners.

    The paper's sweeps have the names of their graphs.

    >>> find_contests(Summary([]))
    []
    """
    found = []
    for graph in GRAPHS:
        others = summary.learners(graph)
        gaps = [name for name in others if name in GAPS]
        baselines = [name for name in others if name not in GAPS]
        for cell in summary.cells(sweep):
            pair = _find_best(summary, graph, gaps, cell), _find_best(summary, graph, baselines, cell)
            for name in sort_learners(summary.learners(sweep)):
                found += [Contest(graph, cell, ours, *pair) for ours in summary.spreads(sweep, name, cell, graph=graph)]
    return found


def _find_best(summary: Summary, sweep: str, learners: Iterable[str], cell: Cell) -> Spread | None:
    spreads = [spread for learner in learners for spread in summary.spreads(sweep, learner, cell)]
    return min(spreads, key=lambda spread: spread.mean, default=None)


def draw_ours(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw graphs as rows, noise rates as columns; in each panel the data sets by K and d, with three markers each."""
    found = find_contests(Summary(runs), figure.sweeps[0])
    if not found:
        return None
    graphs = list(dict.fromkeys(contest.graph for contest in found))
    noises = sorted({contest.cell.noise for contest in found})
    pairs = sorted({(contest.cell.classes, contest.cell.features) for contest in found})
    classes = sorted({K for K, _ in pairs})
    rounds = found[0].ours.configuration.rounds
    spreads = [spread for contest in found for _, spread in contest.shown]
    # Learners that differ only in their numbers look the same.
    looks = dict.fromkeys(
        find_style(name) for name in sort_learners(spread.configuration.learner for spread in spreads)
    )
    keys = [make_marker_key(style) for style in looks]
    if any(spread.is_tuned_by_theory for spread in spreads):
        keys += make_tuning_keys()
    features = list_numbers(d for _, d in pairs)
    x, y = f"number of classes K; for each, from left to right, d = {features} features", "error rate (log scale)"
    page = make_page(figure.title, len(graphs), len(noises), (2.65, 1.75), keys, x=x, y=y, share_y="col")
    for j, noise in enumerate(noises):
        rates = []
        for graph, ax in zip(graphs, (row[j] for row in page.axes), strict=True):
            here = [contest for contest in found if (contest.graph, contest.cell.noise) == (graph, noise)]
            _draw_panel(ax, here, pairs)
            rates += [rate for contest in here for _, spread in contest.shown for rate in (spread.least, spread.most)]
        head_panel(page.axes[0][j], f"noise rate {noise:g}")
        if rates:
            set_log_axis(page.axes[0][j], "y", format_percent, find_limits(clip_rate(rate, rounds) for rate in rates))
    middle = [[place for place, pair in enumerate(pairs) if pair[0] == K] for K in classes]
    page.axes[0][0].set_xticks([(some[0] + some[-1]) / 2.0 for some in middle], [f"K = {K}" for K in classes])
    for ax in (ax for row in page.axes for ax in row):
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.5, len(pairs) - 0.5)
        for some in middle[1:]:
            ax.axvline(some[0] - 0.5, color=GREY, alpha=0.25, linewidth=0.6)
    page.name_rows([GRAPHS[graph] for graph in graphs])
    return Drawn(page.picture, _describe(found, runs, figure.sweeps[0]))


def _draw_panel(ax: Axes, here: Sequence[Contest], pairs: Sequence[tuple[int, int]]) -> None:
    points = [
        (pairs.index((contest.cell.classes, contest.cell.features)) + 0.27 * (place - 1), spread)
        for contest in here
        for place, spread in contest.shown
    ]
    for name in sort_learners(spread.configuration.learner for _, spread in points):
        some = [(x, spread) for x, spread in points if spread.configuration.learner == name]
        is_ours = any(spread is contest.ours for contest in here for _, spread in some)
        draw_whiskers(ax, some, find_style(name), hollow=True, size=7.0 if is_ours else 4.6)
    if not points:
        mark_empty(ax)
    ax.grid(axis="y", which="major")


def _describe(found: Sequence[Contest], drawn: Sequence[Result], sweep: str) -> str:
    """Return the caption: what is compared, how many runs are shown, and in how many cells ours is the best."""
    ours, rivals = [contest.ours for contest in found], [spread for contest in found for spread in contest.rivals]
    return write_caption(
        "ours",
        drawn,
        is_default=sweep == OURS,
        names=[label_learner(name) for name in sort_learners(spread.configuration.learner for spread in ours)],
        ours=max(spread.runs for spread in ours),
        others=max((spread.runs for spread in rivals), default=0),
        once=any(spread.runs == 1 for spread in (*ours, *rivals)),
        hollow=any(spread.is_tuned_by_theory for spread in rivals),
        won=count_by_graph((contest.graph, contest.won) for contest in found if contest.rivals),
        has_queries=any(contest.graph == "label-efficient" for contest in found),
    )
