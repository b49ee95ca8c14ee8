"""Shared by all figures: the style of each learner, the layout of a page, legends, axes, and parts of captions.

All figures use matplotlib's defaults and the settings of :func:`our_settings`, whatever the user's configuration.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple
from zlib import crc32

from gappletron.learners.registry import names
from gappletron.paper.store import Result
from gappletron.paper.summary import Spread
from gappletron.paper.sweeps import Figure, draws
from gappletron.play.history import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.lines import Line2D

__all__ = [
    "BLACK",
    "DASHED",
    "DPI",
    "EMPTY",
    "GRAPHS",
    "GREY",
    "STYLES",
    "Page",
    "Style",
    "as_count",
    "as_percent",
    "head_panel",
    "horizon",
    "in_order",
    "label_of",
    "line_key",
    "listed",
    "log_limits",
    "logarithmic",
    "mark_empty",
    "marker_key",
    "new_page",
    "numbers",
    "our_settings",
    "repeats",
    "runs_of",
    "shown_rate",
    "style_of",
    "tuning_keys",
    "whisker_words",
    "whiskers",
]


# --------------------------------------------------------------------------------------------------------------- styles

Line = Literal["-", "--", "-.", ":"]
Marker = str | tuple[int, Literal[0, 1], int]
"""One of matplotlib's markers; a tuple is the number of corners, 0 for a polygon or 1 for a star, and an angle."""


class Style(NamedTuple):
    """The style of a learner in every figure: its label (the paper's name for it), colour, marker and line."""

    label: str
    colour: str
    marker: Marker
    line: Line = "-"


BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, OLIVE = COLOURS
GREY = "#777777"
"""Also for everything that does not belong to a learner."""

STYLES: dict[str, Style] = {
    "auto": Style("auto", "#882255", (4, 1, 0)),
    "gaplog": Style("GapLog", GREEN, "^"),
    "gaphin": Style("GapHin", VERMILION, "s"),
    "gapsmh": Style("GapSmH", BLUE, "o"),
    "gaplog2": Style("GapLog2", SKY, "v"),
    "pnewtron": Style("PNewtron", ORANGE, "D"),
    "soba-diag": Style("SOBAdiag", BLACK, "X"),
    "banditron-iw": Style("Banditron", PURPLE, "P"),
    # Lightly, since the paper's figures do not have it.
    "banditron": Style("standard Banditron", "#d9b8cc", "H"),
    # A Gaptron has the colour of the Gappletron with the same loss, and another line.
    "gaptron-log": Style("Gaptron (logistic)", GREEN, "1", "--"),
    "gaptron-hin": Style("Gaptron (hinge)", VERMILION, "2", "--"),
    "gaptron-smh": Style("Gaptron (smooth hinge)", BLUE, "3", "--"),
    "second-order-perceptron-diag": Style("soPerceptron", ORANGE, "<"),
    "second-order-perceptron": Style("soPerceptron (full)", SKY, "+", ":"),
    "perceptron": Style("Perceptron", BLACK, "*"),
    "passive-aggressive": Style("PA", PURPLE, ">"),
    "arow": Style("AROW", GREY, "h", "-."),
    "label-efficient-perceptron": Style("label-efficient Perceptron", BLACK, "d"),
    "exp3-g": Style("Exp3.G", OLIVE, "p", ":"),
    "perceptrons-first": Style("Perceptrons first", VERMILION, "H"),
}
"""The learners of the sweeps, in the order of the legends. :func:`style_of` gives other learners a style."""

OTHER_COLOURS = ("#661100", "#332288", "#44AA99", "#DDCC77", "#AA4499", "#117733", "#88CCEE", "#CC6677")
OTHER_MARKERS: tuple[Marker, ...] = ((7, 1, 0), (6, 1, 0), (5, 1, 36), (4, 1, 45), (5, 0, 180), (8, 1, 0), (7, 0, 0))
OTHER_LINES: tuple[Line, ...] = ("--", "-.", ":")
"""For learners that are not in STYLES: a brown and Paul Tol's muted palette, and markers that STYLES does not use."""

DASHED = (0.0, (4.0, 2.0))
"""The line of an upper bound."""


def label_of(learner: str) -> str:
    """The label of a learner in figures and tables, with its numbers.

    >>> label_of("soba-diag"), label_of("label-efficient-perceptron:b=0.1")
    ('SOBAdiag', 'label-efficient Perceptron (b=0.1)')
    """
    _, colon, numbers = learner.partition(":")
    return style_of(learner).label + (f" ({numbers})" if colon else "")


def style_of(learner: str) -> Style:
    """The style of a learner; the numbers in its name do not matter.

    A learner that is not in :data:`STYLES` is labelled with its name. Its colour, marker and line follow from its place
    among the other registered learners (from its name if it is not registered), so that no two of them look the same.

    >>> style_of("label-efficient-perceptron:b=0.1").label
    'label-efficient Perceptron'
    >>> style_of("soba").label
    'soba'
    """
    name = learner.partition(":")[0]
    if name in STYLES:
        return STYLES[name]
    others = [other for other in names() if other not in STYLES]
    place = others.index(name) if name in others else crc32(name.encode())
    return Style(
        name,
        OTHER_COLOURS[place % len(OTHER_COLOURS)],
        OTHER_MARKERS[place % len(OTHER_MARKERS)],
        OTHER_LINES[place % len(OTHER_LINES)],
    )


SETTINGS = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica", "sans-serif"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.labelsize": 10.0,
    "figure.titlesize": 11.0,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.fontsize": 9.0,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}
DPI = 160
"""Dots per inch of a PNG file."""


@contextlib.contextmanager
def our_settings() -> Iterator[None]:
    """Use matplotlib's defaults and our settings, so that a figure depends only on the results."""
    from matplotlib import style

    with style.context(["default", SETTINGS]):
        yield


# ------------------------------------------------------------------------------------------------------- runs and order


def runs_of(figure: Figure, results: Iterable[Result]) -> list[Result]:
    """The results that a figure shows."""
    return [result for result in results if draws(figure, result.task)]


def in_order(learners: Iterable[str]) -> list[str]:
    """Learners in the order of the legends: those of :data:`STYLES`, others in the order of their registration.

    Those that differ only in their numbers stay in the order given.

    >>> in_order(["soba", "perceptron", "arow", "gaplog"])
    ['gaplog', 'perceptron', 'arow', 'soba']
    """
    rank = {name: place for place, name in enumerate(dict.fromkeys([*STYLES, *names()]))}
    return sorted(dict.fromkeys(learners), key=lambda learner: rank.get(learner.partition(":")[0], len(rank)))


# ------------------------------------------------------------------------------------------------------------- captions

GRAPHS = {
    "bandit": "bandit graph",
    "filtering": "multiclass filtering",
    "label-efficient": "label-efficient graph",
    "full": "full information",
}
"""The names of the feedback graphs in figures, in the order of the panels."""


def listed(words: Sequence[str]) -> str:
    """Words joined by commas and "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


def numbers(values: Iterable[float]) -> str:
    """Different numbers in ascending order, joined by commas and "and".

    >>> numbers([9, 6, 9, 0.5])
    '0.5, 6 and 9'
    """
    return listed([f"{value:g}" for value in sorted(set(values))])


def horizon(results: Sequence[Result]) -> str:
    """The T of the runs, or their range."""
    horizons = sorted({result.task.rounds for result in results})
    return f"T = {horizons[0]:,}" if len(horizons) == 1 else f"T from {horizons[0]:,} to {horizons[-1]:,}"


def repeats(results: Iterable[Result]) -> tuple[int, str]:
    """The largest number of repeats of a configuration, and a text with it that names the learners with fewer."""
    runs = Counter(result.task.configuration for result in results)
    most = max(runs.values())
    fewest: dict[str, int] = {}
    for learner in in_order(task.learner for task in runs):
        label = style_of(learner).label
        fewest[label] = min(
            fewest.get(label, most), *(count for task, count in runs.items() if task.learner == learner)
        )
    groups: dict[int, list[str]] = {}
    for label, count in fewest.items():
        if count < most:
            groups.setdefault(count, []).append(label)
    fewer = "; ".join(f"{listed(labels)}: {count}" for count, labels in sorted(groups.items()))
    return most, f"{most} run{'s' * (most > 1)}" + f" ({fewer})" * bool(fewer)


def whisker_words(results: Sequence[Result]) -> str:
    """The explanation of the markers and whiskers of :func:`whiskers`."""
    most, runs = repeats(results)
    if most == 1:
        return "Markers show one run each"
    return (
        f"Markers show the mean of {runs}, whiskers the minimum and the maximum error rate (hidden where shorter than "
        "the marker)"
    )


# ---------------------------------------------------------------------------------------------------------------- pages

EMPTY = "no data at this T"
"""The text in a figure without runs."""


class Page(NamedTuple):
    """A figure and its panels."""

    picture: Picture
    axes: list[list[Axes]]

    def name_rows(self, words: Sequence[str]) -> None:
        """Headings at the left of the rows, aligned whatever the width of the tick labels."""
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

    def mark_empty(self) -> Picture:
        """The text of an empty figure, in place of its first panel."""
        mark_empty(self.axes[0][0])
        self.axes[0][0].set_axis_off()
        return self.picture


def new_page(
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
    """Panels of a given size in inches below a title and one legend, with one label for all x axes and one for all y
    axes.

    The positions are computed here, without a layout engine: that is faster and the same in every format.
    """
    from matplotlib.figure import Figure as Picture

    left, right, bottom, gap = 1.0, 0.2, 0.62, 0.3 if share_y == "all" else 0.6
    width = max(left + right + columns * panel[0] + (columns - 1) * gap, 0.3 + 0.09 * len(title))
    legend_columns, lines = _legend_shape([str(key.get_label()) for key in keys], width - 0.3)
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


def _legend_shape(labels: Sequence[str], width: float) -> tuple[int, int]:
    """The columns, and the lines of text, of the legend with the fewest rows that fits into this width in inches."""
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


def marker_key(style: Style, *, line: bool = False, hollow: bool = False) -> Line2D:
    """The legend entry of a learner."""
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        color=style.colour,
        marker=style.marker,
        linestyle=style.line if line else "none",
        label=style.label,
        markersize=6.5,
        markerfacecolor="white" if hollow else style.colour,
    )


def tuning_keys() -> list[Line2D]:
    """The legend entries for filled and hollow markers."""
    return [
        marker_key(Style("tuning: all 1 except T", GREY, "o")),
        marker_key(Style("tuning: theory", GREY, "o"), hollow=True),
    ]


def line_key(label: str, colour: str, line: Line | tuple[float, tuple[float, float]] = "-") -> Line2D:
    """A legend entry that is only a line."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=line, linewidth=1.4, label=label)


# ---------------------------------------------------------------------------------------------------- axes and whiskers


def logarithmic(ax: Axes, name: Literal["x", "y"], text: Callable[[float], str], limits: tuple[float, float]) -> None:
    """A log axis with plain tick labels: at 1, 2 and 5 of every decade, or only at 1 on a long axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = ax.xaxis if name == "x" else ax.yaxis
    wide = math.log10(limits[1] / limits[0]) > 2.4
    (ax.set_xscale if name == "x" else ax.set_yscale)("log")
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
    axis.set_minor_locator(LogLocator(subs=(2.0, 5.0) if wide else tuple(range(1, 10)), numticks=100))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())
    (ax.set_xlim if name == "x" else ax.set_ylim)(*limits)


def as_percent(value: float) -> str:
    """A rate on an axis.

    >>> as_percent(0.025)
    '2.5%'
    """
    return f"{100.0 * value:.6g}%"


def as_count(value: float) -> str:
    """A count on an axis, with k for thousands and M for millions from 10,000 on.

    >>> as_count(5000), as_count(20_000)
    ('5,000', '20k')
    """
    return (
        f"{value:,.0f}" if value < 10_000 else f"{value / 1000:,.0f}k" if value < 1_000_000 else f"{value / 1e6:,.0f}M"
    )


def log_limits(values: Iterable[float], share: float = 0.05) -> tuple[float, float]:
    """Limits of a log axis around positive values, with a margin."""
    found = list(values)
    least, most = min(found), max(found)
    margin = max((most / least) ** share, 1.12)
    return least / margin, most * margin


def shown_rate(rate: float, rounds: int) -> float:
    """The rate to show on a log axis: half a mistake in place of 0."""
    return max(rate, 0.5 / rounds)


def whiskers(
    ax: Axes,
    places: Sequence[float],
    spreads: Sequence[Spread],
    style: Style,
    rounds: int,
    *,
    hollow: Sequence[bool] = (),
    line: bool = False,
    size: float = 5.0,
) -> None:
    """Draw means as filled or hollow markers, with whiskers from the minimum to the maximum."""
    mean = [shown_rate(spread.mean, rounds) for spread in spreads]
    # Not below 0: the mean of equal numbers can differ from them by a rounding error.
    down = [max(0.0, value - shown_rate(spread.least, rounds)) for value, spread in zip(mean, spreads, strict=True)]
    up = [max(0.0, shown_rate(spread.most, rounds) - value) for value, spread in zip(mean, spreads, strict=True)]
    ax.errorbar(
        places,
        mean,
        yerr=[down, up],
        color=style.colour,
        marker=style.marker,
        markersize=size,
        linestyle=style.line if line else "none",
        linewidth=0.9,
        elinewidth=1.1,
        capsize=1.8,
        capthick=0.9,
        label=style.label,
        zorder=3,
    )
    holes = [(place, value) for place, value, is_hollow in zip(places, mean, hollow, strict=False) if is_hollow]
    if holes:
        ax.plot(
            *zip(*holes, strict=True),
            color=style.colour,
            marker=style.marker,
            markersize=size,
            linestyle="none",
            markerfacecolor="white",
            markeredgewidth=0.9,
            zorder=4,
        )
