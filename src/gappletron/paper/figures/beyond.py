"""Beyond the paper: the default learner beside the best of the paper's learners, on the same data.

:func:`find_contests` finds, for each graph and cell, the best Gappletron and the best baseline among the stored runs of
the paper's sweeps. The figure and the table of the report show them beside the runs of the sweep ``ours``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gappletron.paper.figures.drawing import (
    GRAPHS,
    Drawn,
    Figure,
    clip_rate,
    draw_whiskers,
    find_limits,
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
from gappletron.paper.styles import GREY, find_style, label_learner, sort_learners
from gappletron.paper.sweeps import GAPS
from gappletron.paper.templates import list_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS = "ours"
"""The id of the sweep."""


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


def find_contests(summary: Summary) -> list[Contest]:
    """Return every run of ours, in the order of the graphs and cells, with the best of the paper's learners.

    The paper's sweeps have the names of their graphs.

    >>> find_contests(Summary([]))
    []
    """
    found = []
    for graph in GRAPHS:
        others = summary.learners(graph)
        gaps = [name for name in others if name in GAPS]
        baselines = [name for name in others if name not in GAPS]
        for cell in summary.cells(OURS):
            pair = _find_best(summary, graph, gaps, cell), _find_best(summary, graph, baselines, cell)
            for name in sort_learners(summary.learners(OURS)):
                found += [Contest(graph, cell, ours, *pair) for ours in summary.spreads(OURS, name, cell, graph=graph)]
    return found


def _find_best(summary: Summary, sweep: str, learners: Iterable[str], cell: Cell) -> Spread | None:
    spreads = [spread for learner in learners for spread in summary.spreads(sweep, learner, cell)]
    return min(spreads, key=lambda spread: spread.mean, default=None)


def draw_ours(figure: Figure, runs: Sequence[Result]) -> Drawn | None:
    """Draw graphs as rows, noise rates as columns; in each panel the data sets by K and d, with three markers each."""
    found = find_contests(Summary(runs))
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
            _draw_panel(ax, here, pairs, rounds)
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
    return Drawn(page.picture, _describe(found, runs))


def _draw_panel(ax: Axes, here: Sequence[Contest], pairs: Sequence[tuple[int, int]], rounds: int) -> None:
    points = [
        (pairs.index((contest.cell.classes, contest.cell.features)) + 0.27 * (place - 1), spread)
        for contest in here
        for place, spread in contest.shown
    ]
    for name in sort_learners(spread.configuration.learner for _, spread in points):
        some = [(x, spread) for x, spread in points if spread.configuration.learner == name]
        draw_whiskers(
            ax,
            [x for x, _ in some],
            [spread for _, spread in some],
            find_style(name),
            rounds,
            hollow=[spread.is_tuned_by_theory for _, spread in some],
            size=7.0 if any(spread is contest.ours for contest in here for _, spread in some) else 4.6,
        )
    if not points:
        mark_empty(ax)
    ax.grid(axis="y", which="major")


def _describe(found: Sequence[Contest], drawn: Sequence[Result]) -> str:
    """Return the caption: what is compared, how many runs are shown, and in how many cells ours is the best."""
    ours, rivals = [contest.ours for contest in found], [spread for contest in found for spread in contest.rivals]
    won = []
    for graph in dict.fromkeys(contest.graph for contest in found if contest.rivals):
        here = [contest for contest in found if contest.graph == graph and contest.rivals]
        won.append((sum(contest.won for contest in here), len(here), GRAPHS[graph]))
    return write_caption(
        "ours",
        drawn,
        names=[label_learner(name) for name in sort_learners(spread.configuration.learner for spread in ours)],
        ours=max(spread.runs for spread in ours),
        others=max((spread.runs for spread in rivals), default=0),
        once=any(spread.runs == 1 for spread in (*ours, *rivals)),
        hollow=any(spread.is_tuned_by_theory for spread in rivals),
        won=won,
        has_queries=any(contest.graph == "label-efficient" for contest in found),
    )
