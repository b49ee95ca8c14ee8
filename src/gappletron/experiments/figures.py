"""The figures of the paper and of its theorems, drawn from stored runs and from nothing else.

:func:`draw` is a pure function of the results: the same rows give the same picture, to the byte in SVG. :func:`caption` says
what a picture shows, with every number in it counted from the rows. A figure's id picks its drawing from :data:`DRAWINGS`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from gappletron import _files
from gappletron._validate import UserError
from gappletron.experiments.runner import graph_of, player
from gappletron.experiments.summary import Cell, Spread, Summary
from gappletron.history import COLOURS
from gappletron.learners.gappletron import Gappletron
from gappletron.streams import open_stream
from gappletron.streams.adversarial import FreshFeatures
from gappletron.theory import THEOREMS, bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.lines import Line2D

    from gappletron.experiments.store import Result
    from gappletron.experiments.sweeps import Figure, Task
    from gappletron.experiments.theorems import Examined
    from gappletron.numerics import Floats

__all__ = ["DRAWINGS", "STYLES", "Drawing", "Style", "caption", "draw", "mistakes_and_bounds", "save", "style_of"]


# ------------------------------------------------------------------------------------------------------------------ the looks

Line = Literal["-", "--", "-.", ":"]
Place = TypeVar("Place")


class Style(NamedTuple):
    """How a learner looks in every figure: the name that the paper gives it, a colour, a marker and a kind of line."""

    label: str
    colour: str
    marker: str
    line: Line = "-"


BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, OLIVE = COLOURS
GREY = "#777777"

STYLES: dict[str, Style] = {
    "gaplog": Style("GapLog", GREEN, "^"),
    "gaphin": Style("GapHin", VERMILION, "s"),
    "gapsmh": Style("GapSmH", BLUE, "o"),
    "gaplog2": Style("GapLog2", SKY, "v"),
    "pnewtron": Style("PNewtron", ORANGE, "D"),
    "newtron": Style("Newtron", SKY, "8"),
    "soba-diag": Style("SOBAdiag", BLACK, "X"),
    "soba": Style("SOBA", GREY, "x"),
    "banditron-iw": Style("Banditron", PURPLE, "P"),
    "banditron": Style("Banditron (original)", OLIVE, "H"),
    # A Gaptron has the colour of the Gappletron with its loss, and a line of its own.
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
}
"""One look for each learner, the same in all figures; in the order of the legends."""

DASHED = (0.0, (4.0, 2.0))


def style_of(learner: str) -> Style:
    """The look of a learner, also of one with numbers of its own.

    >>> style_of("label-efficient-perceptron:b=0.1").label
    'label-efficient Perceptron'
    """
    return STYLES[learner.partition(":")[0]]


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


@contextlib.contextmanager
def _our_settings() -> Iterator[None]:
    """Matplotlib's defaults and ours, whatever the user's matplotlibrc says: the results alone decide the picture."""
    from matplotlib import style

    with style.context(["default", SETTINGS]):
        yield


# --------------------------------------------------------------------------------------------------------------- the ways in


def draw(figure: Figure, results: Sequence[Result]) -> Picture:
    """The picture of a figure, from those of the results that it is drawn from."""
    drawn = _drawn(figure, results)
    horizons = sorted({result.task.rounds for result in drawn})
    if len(horizons) > 1 and figure.id != "lower-filtering":  # whose streams have lengths of their own
        listed = _listed([f"{rounds:,}" for rounds in horizons])
        raise UserError(f"the runs of {figure.id!r} are of T = {listed}: draw those of one T at a time")
    with _our_settings():
        return DRAWINGS[figure.id].draw(figure, results) or _page(figure.title, 1, 1, (5.0, 0.8)).say_empty()


def caption(figure: Figure, results: Sequence[Result]) -> str:
    """What the picture shows, in plain sentences; also the text for those who cannot see it."""
    return DRAWINGS[figure.id].caption(figure, results) or f"{figure.title}: {EMPTY}."


def save(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write a picture as PNG and as SVG, into `path` with .png and .svg at its end."""
    with _our_settings():
        for kind in ("png", "svg"):
            _files.save_figure(picture, f"{os.fspath(path)}.{kind}", dpi=DPI)


class Drawing(NamedTuple):
    """How a figure is drawn, and how it is put into words; nothing (None, "") where there are no runs to show."""

    draw: Callable[[Figure, Sequence[Result]], Picture | None]
    caption: Callable[[Figure, Sequence[Result]], str]


EMPTY = "no data at this T"


def _drawn(figure: Figure, results: Iterable[Result]) -> list[Result]:
    """Those of the results that a figure shows."""
    return [result for result in results if result.task.figure in figure.sweeps
            and (figure.tunings is None or result.task.tuning in figure.tunings)]


# ------------------------------------------------------------------------------------------------------ counting for captions


def _listed(words: Sequence[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


def _numbers(values: Iterable[float]) -> str:
    return _listed([f"{value:g}" for value in sorted(set(values))])


def _horizon(results: Sequence[Result]) -> str:
    horizons = sorted({result.task.rounds for result in results})
    return f"T = {horizons[0]:,}" if len(horizons) == 1 else f"T from {horizons[0]:,} to {horizons[-1]:,}"


def _repeats(results: Iterable[Result]) -> tuple[int, str]:
    """The most runs that anybody has in one place, and that number in words, with who has fewer somewhere."""
    runs = Counter((result.task.learner, result.task.id.rpartition("/")[0]) for result in results)
    most = max(runs.values())
    fewest: dict[str, int] = {}
    for learner in _in_order(learner for learner, _ in runs):
        label = style_of(learner).label
        fewest[label] = min(fewest.get(label, most), *(count for (name, _), count in runs.items() if name == learner))
    groups: dict[int, list[str]] = {}
    for label, count in fewest.items():
        if count < most:
            groups.setdefault(count, []).append(label)
    fewer = "; ".join(f"{_listed(labels)}: {count}" for count, labels in sorted(groups.items()))
    return most, f"{most} run{'s' * (most > 1)}" + f" ({fewer})" * bool(fewer)


def _whisker_words(results: Sequence[Result]) -> str:
    most, runs = _repeats(results)
    if most == 1:
        return "Markers show one run each"
    return (f"Markers show the mean of {runs}, whiskers the least and the greatest error rate among them (hidden where shorter "
            "than the marker)")


# -------------------------------------------------------------------------------------------------------- what figures share


def _in_order(learners: Iterable[str]) -> list[str]:
    """Learners in the order of the legends; those that differ in their numbers as they come."""
    order = list(STYLES)
    return sorted(dict.fromkeys(learners), key=lambda learner: order.index(learner.partition(":")[0]))


class _Page(NamedTuple):
    """A picture and its panels."""

    picture: Picture
    axes: list[list[Axes]]

    def name_rows(self, words: Sequence[str]) -> None:
        """Headings at the left, in one line whatever the width of the tick labels."""
        width = self.picture.get_figwidth()
        for row, heading in zip(self.axes, words, strict=True):
            place = row[0].get_position()
            self.picture.text(place.x0 - 0.62 / width, (place.y0 + place.y1) / 2.0, heading, rotation=90, ha="center",
                              va="center", fontweight="bold", fontsize=9.5)

    def say_empty(self) -> Picture:
        _say_empty(self.axes[0][0])
        self.axes[0][0].set_axis_off()
        return self.picture


def _page(title: str, rows: int, columns: int, panel: tuple[float, float], keys: Sequence[Line2D] = (), *, x: str = "",
          y: str = "", share_y: Literal["all", "col"] = "all", head: float = 0.0, between: float = 0.26) -> _Page:
    """Panels of so many inches under the title and one legend, with one label for all x axes and one for all y axes.

    The places are computed, not left to a layout engine: that is quicker, and the same in every format.
    """
    from matplotlib.figure import Figure as Picture

    left, right, bottom, gap = 1.0, 0.2, 0.62, 0.3 if share_y == "all" else 0.6
    width = max(left + right + columns * panel[0] + (columns - 1) * gap, 0.3 + 0.09 * len(title))
    legend_columns, lines = _legend_shape([str(key.get_label()) for key in keys], width - 0.3)
    top = 0.36 + (0.2 * lines + 0.12) * bool(keys) + 0.22 + head
    height = top + rows * panel[1] + (rows - 1) * between + bottom
    picture = Picture(figsize=(width, height), dpi=DPI)
    inside = ((width - left - right) - (columns - 1) * gap) / columns
    axes = picture.subplots(rows, columns, squeeze=False, sharex="all", sharey=share_y, gridspec_kw={
        "left": left / width, "right": 1.0 - right / width, "top": 1.0 - top / height, "bottom": bottom / height,
        "wspace": gap / inside, "hspace": between / panel[1]})
    middle = (left + width - right) / 2.0 / width
    picture.suptitle(title, x=0.5, y=1.0 - 0.1 / height, va="top")
    picture.supxlabel(x, x=middle, y=0.1 / height)
    picture.supylabel(y, x=0.1 / width, y=(bottom + height - top) / 2.0 / height)
    if keys:
        picture.legend(handles=list(keys), loc="upper center", bbox_to_anchor=(0.5, 1.0 - 0.34 / height), frameon=False,
                       ncols=legend_columns, columnspacing=1.8, handletextpad=0.6, borderaxespad=0.0)
    return _Page(picture, [list(row) for row in axes])


def _legend_shape(labels: Sequence[str], width: float) -> tuple[int, int]:
    """The most columns of a legend that fit into so many inches, and its lines of text."""
    for columns in range(len(labels), 0, -1):
        # As matplotlib does it: down the columns, the first ones longer by one.
        short, longer = divmod(len(labels), columns)
        ends = [short * column + min(column, longer) for column in range(columns + 1)]
        parts = ["\n".join(labels[start:end]).split("\n") for start, end in itertools.pairwise(ends)]
        if columns == 1 or sum(0.6 + 0.075 * max(len(line) for line in part) for part in parts) <= width:
            return columns, max(len(part) for part in parts)
    return 1, 0


def _say_empty(ax: Axes) -> None:
    ax.text(0.5, 0.5, EMPTY, transform=ax.transAxes, ha="center", va="center", color=GREY)


def _head(ax: Axes, words: str) -> None:
    ax.set_title(words, fontweight="bold", pad=5.0)


def _key(style: Style, *, line: bool = False, hollow: bool = False) -> Line2D:
    """A learner's entry in the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=style.colour, marker=style.marker, linestyle=style.line if line else "none",
                  label=style.label, markersize=6.5, markerfacecolor="white" if hollow else style.colour)


def _tuning_keys() -> list[Line2D]:
    """What filled and hollow markers mean."""
    return [_key(Style("tuned: all 1 except T", GREY, "o")), _key(Style("tuned by theory", GREY, "o"), hollow=True)]


def _stroke(label: str, colour: str, line: Line | tuple[float, tuple[float, float]] = "-") -> Line2D:
    """An entry of the legend that is a line alone."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=line, linewidth=1.4, label=label)


def _logarithmic(ax: Axes, name: Literal["x", "y"], text: Callable[[float], str], limits: tuple[float, float]) -> None:
    """A log axis with labels that people read: at 1, 2 and 5 of a decade where there is room, else at 1."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = ax.xaxis if name == "x" else ax.yaxis
    wide = math.log10(limits[1] / limits[0]) > 2.4
    (ax.set_xscale if name == "x" else ax.set_yscale)("log")
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
    axis.set_minor_locator(LogLocator(subs=(2.0, 5.0) if wide else tuple(range(1, 10)), numticks=100))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())
    (ax.set_xlim if name == "x" else ax.set_ylim)(*limits)


def _percent(value: float) -> str:
    return f"{100.0 * value:.6g}%"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 10_000 else f"{value / 1000:,.0f}k" if value < 1_000_000 else f"{value / 1e6:,.0f}M"


def _room(values: Iterable[float], share: float = 0.05) -> tuple[float, float]:
    """Limits of a log axis around positive values."""
    found = list(values)
    least, most = min(found), max(found)
    margin = max((most / least) ** share, 1.12)
    return least / margin, most * margin


def _shown(rate: float, rounds: int) -> float:
    """A log axis has no 0: a run without mistakes is shown at half of one."""
    return max(rate, 0.5 / rounds)


def _whiskers(ax: Axes, places: Sequence[float], spreads: Sequence[Spread], style: Style, rounds: int, *,
              hollow: Sequence[bool] = (), line: bool = False, size: float = 5.0) -> None:
    """Means as markers, hollow or filled, with whiskers from the least to the most."""
    mean = [_shown(spread.mean, rounds) for spread in spreads]
    # Not below 0: the mean of equal numbers may differ from them by a rounding.
    down = [max(0.0, value - _shown(spread.least, rounds)) for value, spread in zip(mean, spreads, strict=True)]
    up = [max(0.0, _shown(spread.most, rounds) - value) for value, spread in zip(mean, spreads, strict=True)]
    ax.errorbar(places, mean, yerr=[down, up], color=style.colour, marker=style.marker, markersize=size,
                linestyle=style.line if line else "none", linewidth=0.9, elinewidth=1.1, capsize=1.8, capthick=0.9,
                label=style.label, zorder=3)
    holes = [(place, value) for place, value, is_hollow in zip(places, mean, hollow, strict=False) if is_hollow]
    if holes:
        ax.plot(*zip(*holes, strict=True), color=style.colour, marker=style.marker, markersize=size, linestyle="none",
                markerfacecolor="white", markeredgewidth=0.9, zorder=4)


TUNED = {"theory": "the parameters that theory suggests", "only-t": "all parameters 1 except T"}
GRAPHS = {"bandit": "bandit graph", "filtering": "multiclass filtering", "label-efficient": "label-efficient graph",
          "full": "full information"}
"""The feedback graphs in words, in the order of the panels."""


# --------------------------------------------------------------------------------------------- the paper's grids: K x d panels


class _Grid:
    """The runs of a figure on the paper's data: for each learner and cell the spread of its better tuning."""

    def __init__(self, figure: Figure, results: Sequence[Result], noisy: bool = False) -> None:
        self.tunings = figure.tunings
        self.results = [result for result in _drawn(figure, results) if result.task.noise > 0.0 or not noisy]
        sweep = figure.sweeps[0]
        summary = Summary(self.results)
        cells = summary.cells(sweep)
        self.learners = _in_order(summary.learners(sweep))
        self.spreads = {(learner, cell): min(found, key=lambda spread: spread.mean) for learner in self.learners
                        for cell in cells if (found := summary.spreads(sweep, learner, cell))}
        self.classes = sorted({cell.classes for cell in cells})
        self.features = sorted({cell.features for cell in cells})
        self.noises = sorted({cell.noise for cell in cells})
        self.rounds = self.results[0].task.rounds if self.results else 1
        # All figures of a sweep have the same axis, whatever their tuning: they may be laid side by side.
        self.limits = _room([1.0] if not self.results else [
            _shown(result.outcome.error_rate, self.rounds) for result in results
            if result.task.figure == sweep and result.task.rounds == self.rounds and (result.task.noise > 0.0 or not noisy)])

    @property
    def mixed(self) -> bool:
        """Whether one tuning was better here and another there: then the markers tell which."""
        return len({spread.tuning for spread in self.spreads.values()}) > 1

    def keys(self) -> list[Line2D]:
        return [_key(style_of(learner)) for learner in self.learners] + (_tuning_keys() if self.mixed else [])

    def draw(self, ax: Axes, cells: Sequence[Cell], *, width: float, size: float) -> None:
        """Every learner in these cells, from left to right; side by side, so that whiskers do not cover each other."""
        for rank, learner in enumerate(self.learners):
            offset = width * ((rank + 0.5) / len(self.learners) - 0.5)
            found = [(place + offset, self.spreads[learner, cell]) for place, cell in enumerate(cells)
                     if (learner, cell) in self.spreads]
            if found:
                _whiskers(ax, [place for place, _ in found], [spread for _, spread in found], style_of(learner), self.rounds,
                          hollow=[self.mixed and spread.tuning == "theory" for _, spread in found], size=size)
        if not ax.containers:
            _say_empty(ax)
        ax.set_xlim(-0.5, len(cells) - 0.5)
        ax.grid(axis="y", which="major")
        for place in range(1, len(cells)):
            ax.axvline(place - 0.5, color=GREY, alpha=0.25, linewidth=0.6)

    def words(self) -> str:
        """The setting: graph, T, tuning."""
        tuning = ""
        if self.tunings is not None:
            tuning = ", with " + _listed([TUNED[tuning] for tuning in self.tunings])
        elif any(spread.tuning for spread in self.spreads.values()):
            tuning = ", each learner with the better of its tunings in each cell" + " (hollow markers: theory's)" * self.mixed
        return f"{GRAPHS[self.results[0].task.graph]}, {_horizon(self.results)}{tuning}"

    def markers(self) -> str:
        """What the markers and whiskers are."""
        zero = any(spread.least == 0.0 for spread in self.spreads.values())
        return _whisker_words(self.results) + "; a rate of 0 is shown as half a mistake" * zero


def _grid(figure: Figure, results: Sequence[Result]) -> Picture | None:
    grid = _Grid(figure, results)
    if not grid.results:
        return None
    page = _page(figure.title, len(grid.classes), len(grid.features), (2.73, 1.95), grid.keys(), x="label noise rate",
                 y="error rate (log scale)")
    for classes, row in zip(grid.classes, page.axes, strict=True):
        for features, ax in zip(grid.features, row, strict=True):
            grid.draw(ax, [Cell(classes, features, noise) for noise in grid.noises], width=0.7, size=5.0)
            ax.set_xticks(range(len(grid.noises)), [f"{noise:g}" for noise in grid.noises])
    page.name_rows([f"K = {classes}" for classes in grid.classes])
    for features, ax in zip(grid.features, page.axes[0], strict=True):
        _head(ax, f"d = {features}")
    _logarithmic(page.axes[0][0], "y", _percent, grid.limits)
    return page.picture


def _grid_caption(figure: Figure, results: Sequence[Result]) -> str:
    grid = _Grid(figure, results)
    if not grid.results:
        return ""
    return (f"Error rate (log scale) against the label noise rate, for K = {_numbers(grid.classes)} classes (rows) and "
            f"d = {_numbers(grid.features)} features (columns); {grid.words()}. {grid.markers()}.")


def _intro(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """The noisy cells side by side, one panel for each noise rate."""
    grid = _Grid(figure, results, noisy=True)
    if not grid.results:
        return None
    pairs = [(classes, features) for classes in grid.classes for features in grid.features]
    page = _page(figure.title, len(grid.noises), 1, (5.9, 1.6), grid.keys(), y="error rate (log scale)", between=0.4)
    for noise, (ax,) in zip(grid.noises, page.axes, strict=True):
        grid.draw(ax, [Cell(classes, features, noise) for classes, features in pairs], width=0.84, size=4.6)
        ax.set_xticks(range(len(pairs)), [f"K={classes}\nd={features}" for classes, features in pairs])
        ax.tick_params(axis="x", length=0)
        _head(ax, f"noise rate {noise:g}")
    _logarithmic(page.axes[0][0], "y", _percent, grid.limits)
    return page.picture


def _intro_caption(figure: Figure, results: Sequence[Result]) -> str:
    grid = _Grid(figure, results, noisy=True)
    if not grid.results:
        return ""
    return (f"Error rate (log scale) on the data with label noise (rate {_numbers(grid.noises)}), for each number of classes K "
            f"and of features d; {grid.words()}. {grid.markers()}.")


# ------------------------------------------------------------------------------------------------------------ label efficient


class _Queries:
    """The runs on the label-efficient graph: the Perceptron by its b, and who has no b."""

    def __init__(self, figure: Figure, results: Sequence[Result]) -> None:
        self.results = _drawn(figure, results)
        self.sweep, self.summary = figure.sweeps[0], Summary(self.results)
        self.cells = self.summary.cells(self.sweep)
        learners = _in_order(self.summary.learners(self.sweep))
        self.scaled = sorted((name for name in learners if ":b=" in name), key=query_scale)
        self.others = [name for name in learners if name not in self.scaled]
        self.rounds = self.results[0].task.rounds if self.results else 1

    def of(self, names: Sequence[str], cell: Cell) -> list[tuple[str, Spread]]:
        return [(name, spread) for name in names for spread in self.summary.spreads(self.sweep, name, cell)]

    def without_queries(self, spread: Spread) -> float:
        """The rate of wrong predictions alone: every query counts as a mistake, and only queries show labels."""
        return _shown(spread.mean - spread.labels_seen / self.rounds, self.rounds)


def query_scale(learner: str) -> float:
    """The number b of a label-efficient Perceptron.

    >>> query_scale("label-efficient-perceptron:b=0.1")
    0.1
    """
    return float(learner.partition(":b=")[2])


def _asked(spread: Spread) -> float:
    """A learner that never asks has its place at half a query."""
    return max(spread.labels_seen, 0.5)


def _label_efficient(figure: Figure, results: Sequence[Result]) -> Picture | None:
    """Error rate against queries: who stands lower is better."""
    queries = _Queries(figure, results)
    if not queries.results:
        return None
    classes = sorted({cell.classes for cell in queries.cells})
    columns = sorted({(cell.features, cell.noise) for cell in queries.cells})
    keys = [_key(style_of(name)) for name in queries.others]
    keys += [_key(style_of(name), line=True) for name in queries.scaled[:1]] + _tuning_keys()
    keys.append(_key(Style("the same, without the queries", "#aaaaaa", ".", ":"), line=True))
    page = _page(figure.title, len(classes), len(columns), (2.53, 2.1), keys, x="queries, that is, labels seen (log scale)",
                 y="error rate (log scale)", share_y="col")
    asked = []
    for j, (features, noise) in enumerate(columns):
        rates = []
        for i, K in enumerate(classes):
            ax, cell = page.axes[i][j], Cell(K, features, noise)
            _query_line(ax, queries, cell)
            _query_points(ax, queries, cell)
            shown = [spread for _, spread in queries.of([*queries.others, *queries.scaled], cell)]
            asked += [_asked(spread) for spread in shown]
            rates += [_shown(rate, queries.rounds) for spread in shown for rate in (spread.least, spread.most)]
            ax.grid(which="major")
            if not shown:
                _say_empty(ax)
        _head(page.axes[0][j], f"noise rate {noise:g}")
        # Those without the queries may leave the panel: they are beside the point.
        least, most = _room([*rates, 1.0])
        _logarithmic(page.axes[0][j], "y", _percent, (least / 4.0 if noise == 0.0 else least / 1.3, most))
    page.name_rows([f"K = {K}" for K in classes])
    least, most = _room(asked)
    _logarithmic(page.axes[0][0], "x", _count, (least / 2.8, most))  # room for the name of the first b
    return page.picture


def _query_points(ax: Axes, queries: _Queries, cell: Cell) -> None:
    for name, spread in queries.of(queries.others, cell):
        style, theory = style_of(name), spread.tuning == "theory"
        ax.plot([_asked(spread)], [queries.without_queries(spread)], color=style.colour, marker=style.marker, markersize=4,
                alpha=0.5, linestyle="none", markerfacecolor="white" if theory else style.colour, zorder=2)
        _whiskers(ax, [_asked(spread)], [spread], style, queries.rounds, hollow=[theory], size=6.0)


def _query_line(ax: Axes, queries: _Queries, cell: Cell) -> None:
    """The label-efficient Perceptron from its smallest b to its largest, and faintly the same without the queries."""
    line = queries.of(queries.scaled, cell)
    if not line:
        return
    style, spreads, asked = style_of(line[0][0]), [spread for _, spread in line], [_asked(spread) for _, spread in line]
    _whiskers(ax, asked, spreads, style, queries.rounds, line=True, size=4.5)
    ax.plot(asked, [queries.without_queries(spread) for spread in spreads], color=style.colour, linestyle=":", linewidth=1.0,
            marker=".", markersize=4, alpha=0.4)
    # The names of the ends, of the best, and of those between it and the last that have room.
    last, best = len(line) - 1, min(range(len(line)), key=lambda place: spreads[place].mean)
    shown = {0: (-6, -2), best: (4, -10), last: (-6, -2)}
    for place in range(best + 1, last):
        if asked[place] > 2.2 * asked[max(other for other in shown if other < place)] and asked[last] > 2.2 * asked[place]:
            shown[place] = (-3, 4)
    for place, offset in shown.items():
        ax.annotate(f"b={query_scale(line[place][0]):g}", (asked[place], _shown(spreads[place].mean, queries.rounds)),
                    xytext=offset, textcoords="offset points", ha="right" if offset[0] < 0 else "center", fontsize=7.5,
                    color="#333333")


def _label_efficient_caption(figure: Figure, results: Sequence[Result]) -> str:
    queries = _Queries(figure, results)
    if not queries.results:
        return ""
    features = _numbers(cell.features for cell in queries.cells)
    scales = _numbers(query_scale(name) for name in queries.scaled)
    against = f": the Gappletrons, and the label-efficient Perceptron with b = {scales}" if queries.scaled else ""
    return (f"Error rate against the number of queries (both on log scales; the columns differ in their y axis), "
            f"d = {features} features, {_horizon(queries.results)}{against}. {_whisker_words(queries.results)}; a query counts "
            "as a mistake, and the small faint markers leave the queries out.")


# -------------------------------------------------------------------------------------------------------- our exploration rule


class _Pair(NamedTuple):
    """A learner in a cell by both rules."""

    learner: str
    graph: str
    paper: Spread
    ours: Spread


def _pairs(figure: Figure, results: Sequence[Result]) -> list[_Pair]:
    summary, found = Summary(_drawn(figure, results)), []
    for graph in figure.sweeps[1:]:
        for learner in _in_order(summary.learners("exploration")):
            for cell in summary.cells("exploration"):
                ours = summary.spreads("exploration", learner, cell, graph=graph)
                paper = summary.spreads(graph, learner, cell, graph=graph)
                if ours and paper:
                    found.append(_Pair(learner, graph, paper[0], ours[0]))
    return found


def _exploration(figure: Figure, results: Sequence[Result]) -> Picture | None:
    pairs = _pairs(figure, results)
    if not pairs:
        return None
    rounds = _drawn(figure, results)[0].task.rounds
    graphs, learners = list(dict.fromkeys(pair.graph for pair in pairs)), _in_order(pair.learner for pair in pairs)
    side = 4.2
    page = _page(figure.title, 1, len(graphs), (side, side), [_key(style_of(learner)) for learner in learners],
                 x="error rate by Algorithm 1's rule (log scale)", y="error rate by the top-up rule (log scale)")
    limits = _room(_shown(spread.mean, rounds) for pair in pairs for spread in (pair.paper, pair.ours))
    for graph, ax in zip(graphs, page.axes[0], strict=True):
        ax.plot(limits, limits, color=GREY, linewidth=0.9, zorder=1)
        ax.fill_between(limits, limits, limits[0], color=GREY, alpha=0.08, linewidth=0, zorder=0)
        ax.text(0.97, 0.04, "top-up errs less", transform=ax.transAxes, ha="right", color="#555555")
        ax.text(0.03, 0.96, "Algorithm 1 errs less", transform=ax.transAxes, va="top", color="#555555")
        for learner in learners:
            style = style_of(learner)
            here = [pair for pair in pairs if pair.graph == graph and pair.learner == learner]
            ax.plot([_shown(pair.paper.mean, rounds) for pair in here], [_shown(pair.ours.mean, rounds) for pair in here],
                    color=style.colour, marker=style.marker, markersize=6, linestyle="none", alpha=0.7, markeredgewidth=0,
                    label=style.label)
        _head(ax, GRAPHS[graph])
    _logarithmic(page.axes[0][0], "x", _percent, limits)
    _logarithmic(page.axes[0][0], "y", _percent, limits)
    return page.picture


def _exploration_caption(figure: Figure, results: Sequence[Result]) -> str:
    pairs = _pairs(figure, results)
    if not pairs:
        return ""
    played = {pair.learner for pair in pairs}
    drawn = [result for result in _drawn(figure, results) if result.task.learner in played]
    less = []
    for graph in dict.fromkeys(pair.graph for pair in pairs):
        here = [pair for pair in pairs if pair.graph == graph]
        less.append(f"{sum(pair.ours.mean < pair.paper.mean for pair in here)} of {len(here)} times on the "
                    f"{GRAPHS[graph].removesuffix(' graph')} graph")
    return (f"Error rate by the top-up rule against that by Algorithm 1's rule (both on log scales), {_horizon(drawn)}, all "
            f"parameters 1 except T; a marker for each learner and data set (K, d, noise) is the mean of {_repeats(drawn)[1]}. "
            f"Top-up errs less, below the diagonal, {_listed(less)}.")


# --------------------------------------------------------------------------------------------------------- the theorems' bounds

ROWS = (
    ("expectation", "full-expectation"),
    ("high-probability", "full-high-probability"),
    ("expectation-separable", "full-expectation-separable"),
    ("high-probability-separable", "full-high-probability-separable"),
)
"""The theorems, a row of panels each; the second of a pair is the one for full information."""

IS_SEPARABLE = {theorem.name: theorem.separable for theorem in THEOREMS}


class _Guarded(NamedTuple):
    """A learner's runs in the panel of a theorem."""

    learner: str
    theorem: str
    runs: list[Result]


def _marks(result: Result) -> Floats:
    import numpy as np

    return np.array([t for t, _ in result.curve], float)


def _curves(results: Sequence[Result]) -> tuple[Floats, Floats]:
    """The marked rounds, and the mistakes up to them, a row for each run."""
    import numpy as np

    return _marks(results[0]), np.array([[mistakes for _, mistakes in result.curve] for result in results], float)


def _positive(values: Floats) -> Floats:
    """A log axis has no 0: leave it out."""
    import numpy as np

    return np.where(values > 0.0, values, np.nan)


def _theorem(row: tuple[str, str], graph: str) -> str:
    return row[graph == "full"]


def _panel(results: Sequence[Result], graph: str, row: tuple[str, str]) -> list[_Guarded]:
    """Who is shown under a theorem on a graph: runs tuned for it, where the comparator loses nothing if it is separable."""
    theorem = _theorem(row, graph)
    separable = IS_SEPARABLE[theorem]
    grouped: dict[str, list[Result]] = {}
    for result in results:
        task = result.task
        if task.graph == graph and task.tuning in ("", row[0]) and (task.noise == 0.0) == separable \
                and (not separable or _loses_nothing(result.outcome.comparator_loss, result.outcome.comparator_gap)):
            grouped.setdefault(task.learner, []).append(result)
    return [_Guarded(learner, theorem, grouped[learner]) for learner in _in_order(grouped)]


def _loses_nothing(loss: float | None, gap: float | None) -> bool:
    """The least loss of a comparator is 0, as far as the search for it can tell."""
    return loss is not None and loss - (gap or 0.0) <= 1e-6


def _bound_line(task: Task, theorem: str, max_norm: float, rounds: Iterable[float], loss: float = 0.0) -> Floats | None:
    """The bound on the mistakes with each of these rounds for T, all of them blind; None where the theorem does not apply.

    :param loss: the comparator's, over all rounds of the task, where the theorem is about regret; it counts evenly in each.
    """
    import numpy as np

    learner, graph, values = player(task), graph_of(task), []
    if not isinstance(learner, Gappletron):
        return None
    for t in rounds:
        every = bounds(learner, graph, rounds=int(t), max_norm=max_norm)
        bound = next(bound for bound in every if bound.theorem == theorem)
        if bound.refusal is not None:
            return None
        values.append(bound.value + (0.0 if bound.separable else loss * t / task.rounds))
    return np.array(values)


def _guarantee(guarded: _Guarded, at: Floats) -> Floats | None:
    """The bound on the mistakes of the runs of a panel."""
    first = guarded.runs[0]
    losses = [run.outcome.comparator_loss for run in guarded.runs if run.outcome.comparator_loss is not None]
    return _bound_line(first.task, guarded.theorem, first.outcome.max_norm, at, sum(losses) / len(losses)) if losses else None


def _bounds(figure: Figure, results: Sequence[Result]) -> Picture | None:
    drawn = _drawn(figure, results)
    present = {result.task.graph for result in drawn}
    graphs = [graph for graph in GRAPHS if graph in present]
    rows = [row for row in ROWS if any(_panel(drawn, graph, row) for graph in graphs)]
    if not rows:
        return None
    rounds = drawn[0].task.rounds
    learners = _in_order(result.task.learner for result in drawn)
    keys = [_stroke(style_of(name).label, style_of(name).colour) for name in learners]
    keys += [_stroke("its bound", GREY, DASHED), _stroke("a mistake every round", GREY, ":")]
    page = _page(figure.title, len(rows), len(graphs), (1.98, 1.65), keys, x="round (log scale)", y="mistakes (log scale)",
                 head=0.16, between=0.4)
    start = 10.0 if rounds >= 1000 else 1.0  # the first rounds are all chance
    values = [1.0]
    for row, axes in zip(rows, page.axes, strict=True):
        for graph, ax in zip(graphs, axes, strict=True):
            panel = _panel(drawn, graph, row)
            for guarded in panel:
                values += _draw_guarded(ax, guarded, start)
            if panel:
                ax.plot([start, rounds], [start, rounds], color=GREY, linewidth=0.8, linestyle=":", zorder=1)
            else:
                _say_empty(ax)
            ax.grid(which="major")
            ax.set_title(_theorem(row, graph), fontsize=8.0, pad=4.0)
    for graph, ax in zip(graphs, page.axes[0], strict=True):
        ax.set_title(GRAPHS[graph], fontweight="bold", pad=16.0)
        ax.text(0.5, 1.0, _theorem(rows[0], graph), transform=ax.transAxes, ha="center", va="bottom", fontsize=8.0)
    noisy = f"noise {_numbers({result.task.noise for result in drawn} - {0.0})}"
    page.name_rows(["separable" if IS_SEPARABLE[row[0]] else noisy for row in rows])
    _logarithmic(page.axes[0][0], "x", _count, (start, max(rounds, 2.0)))
    _logarithmic(page.axes[0][0], "y", _count, _room(values))
    return page.picture


def _draw_guarded(ax: Axes, guarded: _Guarded, start: float) -> list[float]:
    """The mistakes and their bound; the numbers that the axis has to hold."""
    import numpy as np

    style = style_of(guarded.learner)
    at, mistakes = _curves(guarded.runs)
    mean, late = mistakes.mean(axis=0), at >= start
    ax.plot(at, _positive(mean), color=style.colour, linewidth=1.5, label=style.label)
    ax.fill_between(at, np.maximum(mistakes.min(axis=0), 0.1), np.maximum(mistakes.max(axis=0), 0.1), color=style.colour,
                    alpha=0.2, linewidth=0)
    held = [float(value) for value in mean[late] if value > 0.0]
    bound = _guarantee(guarded, at)
    if bound is not None:
        ax.plot(at, bound, color=style.colour, linewidth=1.2, linestyle=DASHED, label=f"{style.label}: bound")
        held += [float(value) for value in bound[late]]
    return held


def _bounds_caption(figure: Figure, results: Sequence[Result]) -> str:
    drawn = _drawn(figure, results)
    panels = [guarded for graph in GRAPHS for row in ROWS for guarded in _panel(drawn, graph, row)]
    if not panels:
        return ""
    most, runs = _repeats(drawn)
    noises = {result.task.noise for result in drawn} - {0.0}
    unproved = [style_of(name).label for name in _in_order(guarded.learner for guarded in panels)
                if all(_guarantee(guarded, _marks(guarded.runs[0])[-1:]) is None
                       for guarded in panels if guarded.learner == name)]
    return (f"Mistakes up to each round (solid: the mean of {runs}" + ", with a band from the least to the most" * (most > 1)
            + "), and the bound of the theorem named over each panel (dashed), on log scales; unit vectors as features, "
            f"{_horizon(drawn)}" + f", noise rate {_numbers(noises)} where the theorem is about regret" * bool(noises)
            + ". The bound in round t is the theorem's for T = t, with every round blind and the comparator's loss spread "
            "evenly over the rounds; the learner's own losses, which lower a separable bound, are left out."
            + f" No theorem covers {_listed(unproved)} here." * bool(unproved))


def mistakes_and_bounds(found: Examined) -> Picture:
    """The mistakes of one stored run up to each round, and over them the comparator's loss and every bound that applies."""
    task, outcome, comparator = found.result.task, found.result.outcome, found.comparator
    at, mistakes = _curves([found.result])
    style = style_of(task.learner)
    # Under full information the other theorems are true as well, and say less.
    lines = {f"bound: {theorem.name}": line for theorem in THEOREMS
             if theorem.full_information == graph_of(task).is_full_information
             and (not theorem.separable or _loses_nothing(comparator.loss, comparator.gap))
             and (line := _bound_line(task, theorem.name, outcome.max_norm, at, comparator.loss)) is not None}
    colours = dict(zip(lines, (colour for colour in COLOURS if colour != style.colour), strict=False))
    with _our_settings():
        keys = [_stroke(f"mistakes of {style.label}", style.colour), _stroke("comparator's loss", GREY, "-."),
                *(_stroke(label, colour, DASHED) for label, colour in colours.items()),
                _stroke("a mistake every round", GREY, ":")]
        page = _page(task.id, 1, 1, (6.6, 4.0), keys, x="round (log scale)", y="mistakes (log scale)")
        ax = page.axes[0][0]
        ax.plot(at, _positive(mistakes[0]), color=style.colour, linewidth=1.8, label="mistakes")
        ax.plot(at, _positive(comparator.loss * at / task.rounds), color=GREY, linewidth=1.2, linestyle="-.")
        for label, colour in colours.items():
            ax.plot(at, lines[label], color=colour, linewidth=1.4, linestyle=DASHED, label=label)
        ax.plot(at, at, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
        ax.grid(which="major")
        _logarithmic(ax, "x", _count, (1.0, max(2.0, float(at[-1]))))
        _logarithmic(ax, "y", _count, (0.8, 1.2 * max(2.0, at[-1], *(float(line[-1]) for line in lines.values()))))
    return page.picture


# ------------------------------------------------------------------------------------------------------------ the lower bounds


def _merged(series: dict[str, dict[Place, float]]) -> list[list[str]]:
    """Learners with equal numbers wherever both have one: their lines lie on each other, so they share one."""
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
    return [_key(style_of(group[0])._replace(label=label), line=True) for group, label in zip(groups, labels, strict=True)]


NEVER_BELOW = "lower bound for every learner"


def _draw_floor(ax: Axes, rounds: Sequence[float], mistakes: Sequence[float]) -> None:
    ax.plot(rounds, mistakes, color=BLACK, linewidth=1.8, zorder=1.5, label=NEVER_BELOW)
    ax.fill_between(rounds, mistakes, 1e-3, color=GREY, alpha=0.15, linewidth=0, zorder=0)


def _worse_means(results: Iterable[Result]) -> dict[str, dict[int, float]]:
    """For each learner, by T, its mean number of mistakes on the worse of the two streams, where it played both."""
    grouped: dict[str, dict[int, tuple[list[int], list[int]]]] = {}
    for result in results:
        task = result.task
        both = grouped.setdefault(task.learner, {}).setdefault(task.rounds, ([], []))
        both["turned=" in task.stream].append(result.outcome.mistakes)
    means = {learner: {rounds: max(sum(mistakes) / len(mistakes) for mistakes in both)
                       for rounds, both in sorted(grouped[learner].items()) if all(both)} for learner in _in_order(grouped)}
    return {learner: points for learner, points in means.items() if points}


def _lower_filtering(figure: Figure, results: Sequence[Result]) -> Picture | None:
    drawn = _drawn(figure, results)
    series = _worse_means(drawn)
    if not series:
        return None
    groups, gapsmh = _merged(series), STYLES["gapsmh"]
    keys = [*_group_keys(groups), _stroke(NEVER_BELOW, BLACK), _stroke("upper bound for GapSmH", gapsmh.colour, DASHED),
            _stroke("a mistake every round", GREY, ":")]
    page = _page(figure.title, 1, 1, (6.6, 4.0), keys, x="T (log scale)",
                 y="mean mistakes on the worse stream (log scale)")
    ax = page.axes[0][0]
    for group in groups:
        style, points = style_of(group[0]), series[group[0]]
        ax.plot(list(points), [value or math.nan for value in points.values()], color=style.colour, marker=style.marker,
                markersize=6, linewidth=1.2, linestyle=style.line, label=style.label)
    horizons = sorted({rounds for points in series.values() for rounds in points})
    floor = [math.sqrt(rounds / 8.0) for rounds in horizons]
    _draw_floor(ax, horizons, floor)
    values = [*floor, *(value for points in series.values() for value in points.values() if value > 0.0)]
    ceiling = {rounds: float(bound[0]) for rounds in horizons if (bound := _ceiling(drawn, rounds)) is not None}
    if ceiling:
        ax.plot(list(ceiling), list(ceiling.values()), color=gapsmh.colour, linewidth=1.4, linestyle=DASHED,
                label="upper bound")
        values += ceiling.values()
    ax.plot(horizons, horizons, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
    _logarithmic(ax, "x", _count, _room(horizons, 0.03))
    _logarithmic(ax, "y", _count, _room(values, 0.03))
    ax.grid(which="major")
    return page.picture


def _ceiling(results: Iterable[Result], rounds: int) -> Floats | None:
    """What the expectation theorem says of GapSmH, whose comparator loses nothing on either stream."""
    first = next((result for result in results if result.task.learner == "gapsmh" and result.task.rounds == rounds), None)
    return None if first is None else _bound_line(first.task, "expectation", first.outcome.max_norm, [rounds])


def _lower_filtering_caption(figure: Figure, results: Sequence[Result]) -> str:
    drawn = _drawn(figure, results)
    if not _worse_means(drawn):
        return ""
    return (f"Mistakes against T (both on log scales, {_horizon(drawn)}) on the two streams of the lower bound for filtering: "
            f"the larger of a learner's means on the two, each over {_repeats(drawn)[1]}. No learner stays below the black "
            "line, sqrt(T/8), in expectation; the dashed line is the bound of the theorem in expectation for GapSmH.")


def _fresh(task: Task) -> FreshFeatures:
    stream = open_stream(task.stream)
    assert isinstance(stream, FreshFeatures)
    return stream


def _by_radius(results: Iterable[Result]) -> dict[int, dict[str, list[Result]]]:
    """The runs for each norm B of the comparator and each learner."""
    grouped: dict[int, dict[str, list[Result]]] = {}
    for result in results:
        grouped.setdefault(_fresh(result.task).radius, {}).setdefault(result.task.learner, []).append(result)
    return {radius: {name: grouped[radius][name] for name in _in_order(grouped[radius])} for radius in sorted(grouped)}


def _lower_full(figure: Figure, results: Sequence[Result]) -> Picture | None:
    grouped = _by_radius(_drawn(figure, results))
    if not grouped:
        return None
    means = {(radius, name): (at, mistakes.mean(axis=0)) for radius, by_name in grouped.items()
             for name, runs in by_name.items() for at, mistakes in (_curves(runs),)}
    names = _in_order(name for _, name in means)
    groups = _merged({name: {(radius, t): value for (radius, other), (at, mean) in means.items() if other == name
                             for t, value in zip(at.tolist(), mean.tolist(), strict=True)} for name in names})
    gapsmh = STYLES["gapsmh"]
    keys = [*_group_keys(groups), _stroke(NEVER_BELOW, BLACK), _stroke("upper bound for GapSmH", gapsmh.colour, DASHED)]
    page = _page(figure.title, 1, len(grouped), (2.73, 3.6), keys, x="round (log scale)", y="mean mistakes (log scale)")
    values, last = [1.0], 2.0
    for (radius, by_name), ax in zip(grouped.items(), page.axes[0], strict=True):
        for group in groups:
            name = next((name for name in group if name in by_name), None)
            if name is not None:
                style, (at, mean) = style_of(group[0]), means[radius, name]
                ax.plot(at, _positive(mean), color=style.colour, marker=style.marker, markersize=4.5, linewidth=1.2,
                        linestyle=style.line, markevery=5, label=style.label)
                values += [value for value in mean.tolist() if value > 0.0]
                last = max(last, float(at[-1]))
        first = next(iter(by_name.values()))[0].task
        stream, span = _fresh(first), [_fresh(first).features, first.rounds]
        _draw_floor(ax, span, [stream.lower_bound] * 2)
        ours = by_name.get("gapsmh")
        regret = _bound_line(ours[0].task, "full-expectation", ours[0].outcome.max_norm, span[-1:]) if ours else None
        if regret is not None:
            values.append(stream.comparator_loss + float(regret[0]))
            ax.plot(span, values[-1:] * 2, color=gapsmh.colour, linewidth=1.4, linestyle=DASHED, label="upper bound")
        ax.grid(which="major")
        _head(ax, f"B = {radius}")
    _logarithmic(page.axes[0][0], "x", _count, (1.0, last * 1.2))
    _logarithmic(page.axes[0][0], "y", _count, _room(values, 0.03))
    return page.picture


def _lower_full_caption(figure: Figure, results: Sequence[Result]) -> str:
    drawn = _drawn(figure, results)
    if not drawn:
        return ""
    return (f"Mistakes up to each round (the mean of {_repeats(drawn)[1]}; both on log scales) on the streams of the lower "
            f"bound for full information, K = {_numbers(result.task.classes for result in drawn)}, {_horizon(drawn)}; panels: "
            f"the comparator's norm, B = {_numbers(_by_radius(drawn))}. No learner stays below the black line in expectation "
            "over the labels; the dashed line is the comparator's loss plus the regret of the expectation theorem for GapSmH.")


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
    "bounds": Drawing(_bounds, _bounds_caption),
    "lower-filtering": Drawing(_lower_filtering, _lower_filtering_caption),
    "lower-full": Drawing(_lower_full, _lower_full_caption),
}
"""The drawing of each figure, by its id."""
