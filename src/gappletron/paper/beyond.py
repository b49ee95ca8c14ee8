"""Beyond the paper: the default learner beside the best of the paper's learners, on the same data.

:func:`contests` finds, for each graph and cell, the best Gappletron and the best baseline among the stored runs of the
paper's sweeps. The figure and the table of the report show them beside the runs of the sweep ``ours``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gappletron.paper.drawing import (
    GRAPHS,
    GREY,
    as_percent,
    head_panel,
    horizon,
    in_order,
    label_of,
    listed,
    log_limits,
    logarithmic,
    mark_empty,
    marker_key,
    new_page,
    numbers,
    runs_of,
    shown_rate,
    style_of,
    tuning_keys,
    whiskers,
)
from gappletron.paper.store import Result
from gappletron.paper.summary import Spread, Summary
from gappletron.paper.sweeps import GAPS, Cell, Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

__all__ = ["Contest", "beyond_caption", "beyond_picture", "contests"]

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


def contests(summary: Summary) -> list[Contest]:
    """Every run of ours, in the order of the graphs and cells, with the best of the paper's learners.

    The paper's sweeps have the names of their graphs.

    >>> contests(Summary([]))
    []
    """
    found = []
    for graph in GRAPHS:
        others = summary.learners(graph)
        gaps = [name for name in others if name in GAPS]
        baselines = [name for name in others if name not in GAPS]
        for cell in summary.cells(OURS):
            pair = _best(summary, graph, gaps, cell), _best(summary, graph, baselines, cell)
            for name in in_order(summary.learners(OURS)):
                found += [Contest(graph, cell, ours, *pair) for ours in summary.spreads(OURS, name, cell, graph=graph)]
    return found


def _best(summary: Summary, sweep: str, learners: Iterable[str], cell: Cell) -> Spread | None:
    spreads = [spread for learner in learners for spread in summary.spreads(sweep, learner, cell)]
    return min(spreads, key=lambda spread: spread.mean, default=None)


def _is_theory(spread: Spread) -> bool:
    return spread.configuration.tuning == "theory"


def beyond_picture(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """Graphs as rows, noise rates as columns; in each panel the data sets by K and d, with three markers each."""
    found = contests(Summary(runs_of(figure, results)))
    if not found:
        return None
    graphs = list(dict.fromkeys(contest.graph for contest in found))
    noises = sorted({contest.cell.noise for contest in found})
    pairs = sorted({(contest.cell.classes, contest.cell.features) for contest in found})
    classes = sorted({K for K, _ in pairs})
    rounds = found[0].ours.configuration.rounds
    spreads = [spread for contest in found for _, spread in contest.shown]
    # Learners that differ only in their numbers look the same.
    looks = dict.fromkeys(style_of(name) for name in in_order(spread.configuration.learner for spread in spreads))
    page = new_page(
        figure.title,
        len(graphs),
        len(noises),
        (2.65, 1.75),
        [marker_key(style) for style in looks] + (tuning_keys() if any(map(_is_theory, spreads)) else []),
        x=f"number of classes K; for each, from left to right, d = {numbers(d for _, d in pairs)} features",
        y="error rate (log scale)",
        share_y="col",
    )
    for j, noise in enumerate(noises):
        rates = []
        for graph, ax in zip(graphs, (row[j] for row in page.axes), strict=True):
            here = [contest for contest in found if (contest.graph, contest.cell.noise) == (graph, noise)]
            _panel(ax, here, pairs, rounds)
            rates += [rate for contest in here for _, spread in contest.shown for rate in (spread.least, spread.most)]
        head_panel(page.axes[0][j], f"noise rate {noise:g}")
        if rates:
            logarithmic(page.axes[0][j], "y", as_percent, log_limits(shown_rate(rate, rounds) for rate in rates))
    middle = [[place for place, pair in enumerate(pairs) if pair[0] == K] for K in classes]
    page.axes[0][0].set_xticks([(some[0] + some[-1]) / 2.0 for some in middle], [f"K = {K}" for K in classes])
    for ax in (ax for row in page.axes for ax in row):
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.5, len(pairs) - 0.5)
        for some in middle[1:]:
            ax.axvline(some[0] - 0.5, color=GREY, alpha=0.25, linewidth=0.6)
    page.name_rows([GRAPHS[graph] for graph in graphs])
    return page.picture


def _panel(ax: Axes, here: Sequence[Contest], pairs: Sequence[tuple[int, int]], rounds: int) -> None:
    points = [
        (pairs.index((contest.cell.classes, contest.cell.features)) + 0.27 * (place - 1), spread)
        for contest in here
        for place, spread in contest.shown
    ]
    for name in in_order(spread.configuration.learner for _, spread in points):
        some = [(x, spread) for x, spread in points if spread.configuration.learner == name]
        whiskers(
            ax,
            [x for x, _ in some],
            [spread for _, spread in some],
            style_of(name),
            rounds,
            hollow=[_is_theory(spread) for _, spread in some],
            size=7.0 if any(spread is contest.ours for contest in here for _, spread in some) else 4.6,
        )
    if not points:
        mark_empty(ax)
    ax.grid(axis="y", which="major")


def beyond_caption(figure: Figure, results: Sequence[Result]) -> str:
    """What is compared, and in how many cells ours is the best."""
    drawn = runs_of(figure, results)
    found = contests(Summary(drawn))
    if not found:
        return ""
    names = listed([label_of(name) for name in in_order(contest.ours.configuration.learner for contest in found)])
    ours, rivals = [contest.ours for contest in found], [spread for contest in found for spread in contest.rivals]
    hollow = " (hollow markers: theory)" * any(map(_is_theory, rivals))
    beside = ", beside the best of the paper's Gappletrons and the best baseline" * bool(rivals)
    chosen = (
        " The best are chosen afterwards, in every cell: the lowest mean of all learners, tunings and settings that "
        f"played there{hollow}. {names} has one setting for all cells."
    ) * bool(rivals)
    less = []
    for graph in dict.fromkeys(contest.graph for contest in found if contest.rivals):
        here = [contest for contest in found if contest.graph == graph and contest.rivals]
        less.append(f"{sum(contest.won for contest in here)} of {len(here)} cells ({GRAPHS[graph]})")
    return (
        f"Error rate (log scale; each column has its own y axis) of {names}, the default learner of this "
        f"library{beside}, on the paper's data, {horizon(drawn)}. {names} is not in the paper, and has no theorem."
        f"{chosen} It plays as it does by default, with columns scaled by what it has seen and a constant feature; the "
        f"others see the rows as they are. {_runs(ours, rivals)}"
        + (f" {names} has the lowest error rate in {listed(less)}." if less else "")
        + " On the label-efficient graph a query counts as a mistake." * ("label-efficient" in {c.graph for c in found})
    )


def _runs(ours: Sequence[Spread], rivals: Sequence[Spread]) -> str:
    """How many runs the markers and whiskers show."""
    counts = [max(spread.runs for spread in spreads) for spreads in (ours, rivals) if spreads]
    names = f"{counts[0]} run{'s' * (counts[0] > 1)} of ours" + (f" and {counts[1]} of the others" if rivals else "")
    if max(counts) == 1:
        return "Markers show one run each."
    once = any(spread.runs == 1 for spread in (*ours, *rivals))
    return (
        f"Markers show the mean of {names}, whiskers the minimum and the maximum"
        + " (where nothing is drawn at random, one run)" * once
        + "."
    )
