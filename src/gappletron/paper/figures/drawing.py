"""Shared by all figures: what a figure is, the layout of a page, legends, axes, and facts for captions.

All figures use matplotlib's defaults and the settings of :func:`use_figure_style`, whatever the user's configuration.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gappletron.paper.results import Result, Spread, Task
from gappletron.paper.styles import GREY, Line, Style, find_style, sort_learners
from gappletron.paper.templates import list_words, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.lines import Line2D


class Drawn(NamedTuple):
    """A picture and its caption, which is also its alternative text in the report."""

    picture: Picture
    caption: str


class Figure(NamedTuple):
    """A figure of the report and the runs it shows: those of `sweeps`, with one of `tunings` where these are given.

    `draw` gets the runs of these sweeps, of which at least one is shown; it returns None where they do not suffice.
    `paper` is the number of the corresponding figure of the paper.
    A figure `beyond` the paper is about a learner that is not in it, and has a section of its own in the report. The
    runs of a figure have one T, unless it has `many_lengths`.
    """

    id: str
    title: str
    draw: Callable[[Figure, Sequence[Result]], Drawn | None]
    sweeps: tuple[str, ...]
    tunings: tuple[str, ...] | None = None
    paper: int | None = None
    beyond: bool = False
    many_lengths: bool = False

    def shows(self, task: Task) -> bool:
        """Whether the figure shows this run."""
        return task.sweep in self.sweeps and (self.tunings is None or task.tuning in self.tunings)

    def choose(self, results: Iterable[Result]) -> list[Result]:
        """Return the results that the figure shows."""
        return [result for result in results if self.shows(result.task)]


class Saved(NamedTuple):
    """A figure that was drawn and saved: its SVG and its caption."""

    figure: Figure
    svg: bytes
    caption: str


# The line of an upper bound.
DASHED = (0.0, (4.0, 2.0))

# The names of the feedback graphs in figures, in the order of the panels.
GRAPHS = {
    "bandit": "bandit graph",
    "filtering": "multiclass filtering",
    "label-efficient": "label-efficient graph",
    "full": "full information",
}

# Dots per inch of a PNG file.
DPI = 160


@contextlib.contextmanager
def use_figure_style() -> Iterator[None]:
    """Use matplotlib's defaults and our style sheet, so that a figure depends only on the results."""
    from matplotlib import style

    with style.context(["default", Path(__file__).with_name("report.mplstyle")]):
        yield


# ------------------------------------------------------------------------------------------------------------- captions


def write_caption(name: str, results: Sequence[Result], **facts: Any) -> str:
    """Return the caption of a template, on one line; it also knows the T and the number of repeats of the runs."""
    most, runs = count_repeats(results)
    text = render(f"captions/{name}.jinja", horizon=_describe_horizon(results), most=most, runs=runs, **facts)
    return " ".join(text.split())


def _describe_horizon(results: Sequence[Result]) -> str:
    """Return the T of the runs, or their range."""
    horizons = sorted({result.task.rounds for result in results})
    return f"T = {horizons[0]:,}" if len(horizons) == 1 else f"T from {horizons[0]:,} to {horizons[-1]:,}"


def count_repeats(results: Iterable[Result]) -> tuple[int, str]:
    """Return the most repeats of a configuration, and a text with this number that names the learners with fewer."""
    runs = Counter(result.task.configuration for result in results)
    most = max(runs.values())
    fewest: dict[str, int] = {}
    for learner in sort_learners(task.learner for task in runs):
        counts = [count for task, count in runs.items() if task.learner == learner]
        label = find_style(learner).label
        fewest[label] = min(fewest.get(label, most), *counts)
    groups: dict[int, list[str]] = {}
    for label, count in fewest.items():
        if count < most:
            groups.setdefault(count, []).append(label)
    fewer = "; ".join(f"{list_words(labels)}: {count}" for count, labels in sorted(groups.items()))
    return most, f"{most} run{'s' * (most > 1)}" + f" ({fewer})" * bool(fewer)


# ---------------------------------------------------------------------------------------------------------------- pages

# The text in a figure without runs.
EMPTY = "no data at this T"


class Page(NamedTuple):
    """A figure and its panels."""

    picture: Picture
    axes: list[list[Axes]]

    def name_rows(self, words: Sequence[str]) -> None:
        """Write headings at the left of the rows, aligned whatever the width of the tick labels."""
        width = self.picture.get_figwidth()
        for row, heading in zip(self.axes, words, strict=True):
            place = row[0].get_position()
            self.picture.text(
                place.x0 - 0.62 / width,
                (place.y0 + place.y1) / 2.0,
                heading,
                rotation=90,
                ha="center",
                va="center",
                fontweight="bold",
                fontsize=9.5,
            )

    def set_log_axes(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Make the axes of all panels log axes of counts with these limits, and draw their grids."""
        set_log_axis(self.axes[0][0], "x", format_count, x)
        set_log_axis(self.axes[0][0], "y", format_count, y)
        for ax in itertools.chain.from_iterable(self.axes):
            ax.grid(which="major")


def make_page(
    title: str,
    rows: int,
    columns: int,
    panel: tuple[float, float],
    keys: Sequence[Line2D] = (),
    *,
    x: str = "",
    y: str = "",
    share_y: Literal["all", "col"] = "all",
    head: float = 0.0,
    between: float = 0.26,
) -> Page:
    """Return panels of a given size in inches below a title and one legend, with one label for all axes of a kind.

    The positions are computed here, without a layout engine: that is faster and the same in every format.
    """
    from matplotlib.figure import Figure as Picture

    left, right, bottom, gap = 1.0, 0.2, 0.62, 0.3 if share_y == "all" else 0.6
    width = max(left + right + columns * panel[0] + (columns - 1) * gap, 0.3 + 0.09 * len(title))
    legend_columns, lines = _shape_legend([str(key.get_label()) for key in keys], width - 0.3)
    top = 0.36 + (0.2 * lines + 0.12) * bool(keys) + 0.22 + head
    height = top + rows * panel[1] + (rows - 1) * between + bottom
    picture = Picture(figsize=(width, height), dpi=DPI)
    inside = ((width - left - right) - (columns - 1) * gap) / columns
    axes = picture.subplots(
        rows,
        columns,
        squeeze=False,
        sharex="all",
        sharey=share_y,
        gridspec_kw={
            "left": left / width,
            "right": 1.0 - right / width,
            "top": 1.0 - top / height,
            "bottom": bottom / height,
            "wspace": gap / inside,
            "hspace": between / panel[1],
        },
    )
    middle = (left + width - right) / 2.0 / width
    picture.suptitle(title, x=0.5, y=1.0 - 0.1 / height, va="top")
    picture.supxlabel(x, x=middle, y=0.1 / height)
    picture.supylabel(y, x=0.1 / width, y=(bottom + height - top) / 2.0 / height)
    if keys:
        picture.legend(
            handles=list(keys),
            loc="upper center",
            bbox_to_anchor=(0.5, 1.0 - 0.34 / height),
            frameon=False,
            ncols=legend_columns,
            columnspacing=1.8,
            handletextpad=0.6,
            borderaxespad=0.0,
        )
    return Page(picture, [list(row) for row in axes])


def _shape_legend(labels: Sequence[str], width: float) -> tuple[int, int]:
    """Return the columns and the lines of text of the legend with the fewest rows that fits into a width in inches."""
    # Only numbers of columns that fill the rows evenly, to avoid a single entry in the last row.
    for columns in sorted({-(-len(labels) // rows) for rows in range(1, len(labels) + 1)}, reverse=True):
        # As in matplotlib: column by column, the first columns one entry longer.
        short, longer = divmod(len(labels), columns)
        ends = [short * column + min(column, longer) for column in range(columns + 1)]
        parts = ["\n".join(labels[start:end]).split("\n") for start, end in itertools.pairwise(ends)]
        if columns == 1 or sum(0.6 + 0.075 * max(len(line) for line in part) for part in parts) <= width:
            return columns, max(len(part) for part in parts)
    return 1, 0


def mark_empty(ax: Axes) -> None:
    """Put a text into a panel without runs."""
    ax.text(0.5, 0.5, EMPTY, transform=ax.transAxes, ha="center", va="center", color=GREY)


def head_panel(ax: Axes, words: str) -> None:
    """Set the heading of a panel or of its column."""
    ax.set_title(words, fontweight="bold", pad=5.0)


# -------------------------------------------------------------------------------------------------------------- legends


def make_marker_key(style: Style, *, line: bool = False, hollow: bool = False) -> Line2D:
    """Return the legend entry of a learner."""
    from matplotlib.lines import Line2D

    look = style.look if line else {**style.look, "linestyle": "none"}
    return Line2D([], [], **look, markersize=6.5, markerfacecolor="white" if hollow else style.colour)


def make_tuning_keys() -> list[Line2D]:
    """Return the legend entries for filled and hollow markers."""
    return [
        make_marker_key(Style("tuning: all 1 except T", GREY, "o")),
        make_marker_key(Style("tuning: theory", GREY, "o"), hollow=True),
    ]


def make_line_key(label: str, colour: str, line: Line | tuple[float, tuple[float, float]] = "-") -> Line2D:
    """Return a legend entry that is only a line."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=line, linewidth=1.4, label=label)


# ---------------------------------------------------------------------------------------------------- axes and whiskers


def set_log_axis(ax: Axes, name: Literal["x", "y"], text: Callable[[float], str], limits: tuple[float, float]) -> None:
    """Make a log axis with plain tick labels: at 1, 2 and 5 of every decade, or only at 1 on a long axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = ax.xaxis if name == "x" else ax.yaxis
    wide = math.log10(limits[1] / limits[0]) > 2.4
    (ax.set_xscale if name == "x" else ax.set_yscale)("log")
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
    axis.set_minor_locator(LogLocator(subs=(2.0, 5.0) if wide else tuple(range(1, 10)), numticks=100))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())
    (ax.set_xlim if name == "x" else ax.set_ylim)(*limits)


def format_percent(value: float) -> str:
    """Return a rate for an axis.

    >>> format_percent(0.025)
    '2.5%'
    """
    return f"{100.0 * value:.6g}%"


def format_count(value: float) -> str:
    """Return a count for an axis, with k for thousands and M for millions from 10,000 on.

    >>> format_count(5000), format_count(20_000)
    ('5,000', '20k')
    """
    return (
        f"{value:,.0f}" if value < 10_000 else f"{value / 1000:,.0f}k" if value < 1_000_000 else f"{value / 1e6:,.0f}M"
    )


def count_by_graph(cases: Iterable[tuple[str, bool]]) -> list[tuple[int, int, str]]:
    """Count for each graph the cases that are true, and all; with the name of the graph.

    >>> count_by_graph([("full", True), ("full", False)])
    [(1, 2, 'full information')]
    """
    grouped: dict[str, list[bool]] = {}
    for graph, is_true in cases:
        grouped.setdefault(graph, []).append(is_true)
    return [(sum(found), len(found), GRAPHS[graph]) for graph, found in grouped.items()]


def find_limits(values: Iterable[float], share: float = 0.05) -> tuple[float, float]:
    """Return limits of a log axis around positive values, with a margin."""
    found = list(values)
    least, most = min(found), max(found)
    margin = max((most / least) ** share, 1.12)
    return least / margin, most * margin


def clip_rate(rate: float, rounds: int) -> float:
    """Return the rate to show on a log axis: half a mistake in place of 0."""
    return max(rate, 0.5 / rounds)


def draw_whiskers(
    ax: Axes,
    points: Sequence[tuple[float, Spread]],
    style: Style,
    *,
    hollow: bool = False,
    line: bool = False,
    size: float = 5.0,
) -> None:
    """Draw means at places of the x axis, with whiskers from the minimum to the maximum.

    The markers are filled, but for those of learners tuned by theory if these are to be `hollow`.
    """
    places = [place for place, _ in points]
    least, mean, most = (
        [clip_rate(getattr(spread, name), spread.configuration.rounds) for _, spread in points]
        for name in ("least", "mean", "most")
    )
    # Not below 0: the mean of equal numbers can differ from them by a rounding error.
    down = [max(0.0, value - low) for value, low in zip(mean, least, strict=True)]
    up = [max(0.0, high - value) for value, high in zip(mean, most, strict=True)]
    look = style.look if line else {**style.look, "linestyle": "none"}
    widths: dict[str, Any] = {"linewidth": 0.9, "elinewidth": 1.1, "capsize": 1.8, "capthick": 0.9}
    ax.errorbar(places, mean, yerr=[down, up], **look, **widths, markersize=size, zorder=3)
    holes = [(place, value) for (place, spread), value in zip(points, mean, strict=True) if spread.is_tuned_by_theory]
    if hollow and holes:
        look = {"color": style.colour, "marker": style.marker, "markersize": size, "linestyle": "none"}
        ax.plot(*zip(*holes, strict=True), **look, markerfacecolor="white", markeredgewidth=0.9, zorder=4)
