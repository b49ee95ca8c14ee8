"""The figures of the paper and of its theorems, drawn from stored runs and from nothing else.

:func:`draw` is a pure function of the results: the same rows give the same picture, to the byte in SVG. :func:`caption` says what
a picture shows, with every number in it counted from the rows. A figure's id picks its drawing from :data:`DRAWINGS`.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from gappletron import _files
from gappletron._validate import UserError
from gappletron.experiments.runner import graph_of, player
from gappletron.experiments.summary import Cell, Spread, Summary
from gappletron.experiments.sweeps import Figure
from gappletron.history import COLOURS
from gappletron.learners.gappletron import Gappletron
from gappletron.streams import open_stream
from gappletron.streams.adversarial import FreshFeatures
from gappletron.theory import THEOREMS, bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Picture, SubFigure
    from matplotlib.lines import Line2D

    from gappletron.experiments.store import Result
    from gappletron.experiments.sweeps import Task
    from gappletron.numerics import Floats

__all__ = ["DRAWINGS", "STYLES", "Style", "caption", "draw", "save", "style_of"]


# ------------------------------------------------------------------------------------------------------------------ the looks


class Style(NamedTuple):
    """How a learner looks in every figure: the name that the paper gives it, a colour, a marker and a kind of line."""

    label: str
    colour: str
    marker: str
    line: str = "-"


BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, OLIVE = COLOURS
GREY = "#777777"

STYLES: dict[str, Style] = {
    "gaplog": Style("GapLog", GREEN, "^"),
    "gaphin": Style("GapHin", VERMILION, "s"),
    "gapsmh": Style("GapSmH", BLUE, "o"),
    "gaplog2": Style("GapLog2", SKY, "v"),
    "pnewtron": Style("PNewtron", ORANGE, "D"),
    "soba-diag": Style("SOBAdiag", BLACK, "X"),
    "banditron-iw": Style("Banditron", PURPLE, "P"),
    "banditron": Style("Banditron (original)", OLIVE, "p"),
    "newtron": Style("Newtron", SKY, "d"),
    "soba": Style("SOBA", GREY, "x"),
    # A Gaptron has the colour of the Gappletron with its loss, and a line of its own.
    "gaptron-log": Style("Gaptron, logistic", GREEN, "2", "--"),
    "gaptron-hin": Style("Gaptron, hinge", VERMILION, "h", "--"),
    "gaptron-smh": Style("Gaptron, smooth hinge", BLUE, "8", "--"),
    "second-order-perceptron-diag": Style("soPerceptron", ORANGE, "<"),
    "second-order-perceptron": Style("soPerceptron, full matrix", OLIVE, "+", ":"),
    "perceptron": Style("Perceptron", BLACK, "*"),
    "passive-aggressive": Style("PA", PURPLE, ">"),
    "arow": Style("AROW", GREY, "H", "-."),
    "label-efficient-perceptron": Style("label-efficient Perceptron", BLACK, "1"),
    "exp3-g": Style("Exp3.G", OLIVE, "4", ":"),
}
"""One look for each learner, the same in all figures; in the order of the legends."""


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
    "axes.labelsize": 10.0,
    "legend.fontsize": 9.0,
    "figure.titlesize": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}
DPI = 160
WIDTH = 10.0  # inches


@contextlib.contextmanager
def _our_settings() -> Iterator[None]:
    """Matplotlib's defaults and ours, whatever the user's matplotlibrc says: the results alone decide the picture."""
    from matplotlib import style

    with style.context(["default", SETTINGS]):
        yield


# ------------------------------------------------------------------------------------------------------------------- the ways in


def draw(figure: Figure, results: Sequence[Result]) -> Picture:
    """The picture of a figure, from those of the results that it is drawn from."""
    _check_horizon(figure, results)
    with _our_settings():
        picture = DRAWINGS[figure.id].draw(figure, results)
        picture.suptitle(figure.title)
        # Where things stand is settled once, so that every format and every later call shows the same.
        picture.draw_without_rendering()
        picture.set_layout_engine("none")
    return picture


def caption(figure: Figure, results: Sequence[Result]) -> str:
    """What the picture shows, in a few plain sentences; also its text for those who cannot see it."""
    if not _drawn(figure, results):
        return f"{figure.title}: no data at this T."
    return DRAWINGS[figure.id].caption(figure, results)


def save(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write a picture as PNG and as SVG: `path` with .png and .svg at its end."""
    with _our_settings():
        for kind in ("png", "svg"):
            _files.save_figure(picture, f"{os.fspath(path)}.{kind}", dpi=DPI)


def _drawn(figure: Figure, results: Iterable[Result]) -> list[Result]:
    """Those of the results that a figure shows."""
    return [result for result in results if result.task.figure in figure.sweeps
            and (figure.tunings is None or result.task.tuning in figure.tunings)]


def _check_horizon(figure: Figure, results: Iterable[Result]) -> None:
    """Error rates of one T and of another are not to be averaged."""
    horizons = sorted({result.task.rounds for result in _drawn(figure, results)})
    if len(horizons) > 1 and figure.id != "lower-filtering":
        listed = " and ".join(f"{rounds:,}" for rounds in horizons)
        raise UserError(f"the runs of {figure.id!r} are of T = {listed}: draw those of one T at a time")


# ------------------------------------------------------------------------------------------------------------ counting for captions


def _listed(words: Sequence[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


def _horizon(results: Sequence[Result]) -> str:
    horizons = sorted({result.task.rounds for result in results})
    return f"T = {horizons[0]:,}" if len(horizons) == 1 else f"T from {horizons[0]:,} to {horizons[-1]:,}"


def _repeats(results: Iterable[Result]) -> tuple[int, str]:
    """The most runs that anybody has in one place, and that number in words, with who has fewer.

    >>> _repeats([])
    (0, '')
    """
    runs = Counter((result.task.learner, result.task.id.rpartition("/")[0]) for result in results)
    if not runs:
        return 0, ""
    most = max(runs.values())
    fewest: dict[str, int] = {}
    for (learner, _), count in runs.items():
        label = style_of(learner).label
        fewest[label] = min(count, fewest.get(label, count))
    groups: dict[int, list[str]] = {}
    for label in (style.label for style in STYLES.values() if style.label in fewest):
        if fewest[label] < most:
            groups.setdefault(fewest[label], []).append(label)
    fewer = "; ".join(f"{_listed(labels)} {count}" for count, labels in sorted(groups.items()))
    return most, f"{most} run{'s' * (most > 1)}" + f" ({fewer})" * bool(fewer)


def _numbers(values: Iterable[float]) -> str:
    return _listed([f"{value:g}" for value in sorted(set(values))])


# -------------------------------------------------------------------------------------------------------------- what figures share


def _picture(width: float, height: float) -> Picture:
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(width, height), dpi=DPI, layout="constrained")
    picture.get_layout_engine().set(w_pad=0.06, h_pad=0.05)  # type: ignore[union-attr, call-arg]
    return picture


def _nothing(note: str = "no data at this T") -> Picture:
    picture = _picture(5.0, 1.6)
    _say_empty(picture.add_subplot(), note)
    return picture


def _say_empty(ax: Axes, note: str = "no data at this T") -> None:
    ax.text(0.5, 0.5, note, transform=ax.transAxes, ha="center", va="center", color=GREY)
    ax.tick_params(which="both", length=0)


def _in_order(learners: Iterable[str]) -> list[str]:
    """Learners in the order of the legends; the numbers of one learner as they come."""
    order = list(STYLES)
    return sorted(dict.fromkeys(learners), key=lambda learner: order.index(learner.partition(":")[0]))


def _key(style: Style, *, line: bool = False, hollow: bool = False) -> Line2D:
    """A learner's entry in the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=style.colour, marker=style.marker, linestyle=style.line if line else "none",
                  label=style.label, markersize=6.5, markerfacecolor="white" if hollow else style.colour)


def _legend(picture: Picture | SubFigure, keys: Sequence[Line2D], columns: int = 7) -> None:
    if keys:
        # Rows of equal length, rather than a long one and a remainder.
        rows = math.ceil(len(keys) / columns)
        picture.legend(handles=keys, loc="outside upper center", ncols=math.ceil(len(keys) / rows), frameon=False,
                       columnspacing=1.6, handletextpad=0.5)


def _tuning_keys() -> list[Line2D]:
    """What filled and hollow markers mean."""
    return [_key(Style("tuning: all 1 except T", GREY, "o")), _key(Style("tuning: theory", GREY, "o"), hollow=True)]


def _logarithmic(axis: Axis, text: Callable[[float], str], least: float, most: float) -> None:
    """A log axis from `least` to `most` with labels that people read: at 1, 2 and 5 of a decade where there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    wide = math.log10(most / least) > 2.4
    axis._set_axes_scale("log")  # type: ignore[attr-defined]
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
    axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10)), numticks=100))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())
    axis.axes.set(**{f"{axis.axis_name}lim": (least, most)})  # type: ignore[attr-defined]


def _percent(value: float) -> str:
    return f"{100.0 * value:.6g}%"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _room(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    """Limits of a log axis around positive values."""
    least, most = min(values), max(values)
    margin = max((most / least) ** share, 1.12)
    return least / margin, most * margin


def _shown(rate: float, rounds: int) -> float:
    """A log axis has no 0: a run without mistakes is shown at half of one."""
    return max(rate, 0.5 / rounds)


def _whiskers(ax: Axes, places: Sequence[float], spreads: Sequence[Spread], style: Style, rounds: int, *,
              hollow: Sequence[bool] = (), line: float = 0.0, size: float = 5.0) -> None:
    """Means as markers with whiskers from least to most, and the markers of the hollow ones on top."""
    mean = [_shown(spread.mean, rounds) for spread in spreads]
    down = [value - _shown(spread.least, rounds) for value, spread in zip(mean, spreads, strict=True)]
    up = [_shown(spread.most, rounds) - value for value, spread in zip(mean, spreads, strict=True)]
    # The mean of equal numbers may differ from them by a rounding.
    bars = [[max(0.0, value) for value in down], [max(0.0, value) for value in up]]
    ax.errorbar(places, mean, yerr=bars, color=style.colour, marker=style.marker, markersize=size, linestyle="none",
                elinewidth=1.1, capsize=1.8, capthick=0.9, label=style.label, zorder=3)
    if line and len(places) > 1:
        ax.plot(places, mean, color=style.colour, linewidth=0.8, alpha=line, zorder=2)
    open_at = [(place, value) for place, value, is_open in zip(places, mean, hollow, strict=False) if is_open]
    if open_at:
        ax.plot(*zip(*open_at, strict=True), color=style.colour, marker=style.marker, markersize=size, linestyle="none",
                markerfacecolor="white", zorder=4)


def _rounds_of(results: Sequence[Result]) -> int:
    return results[0].task.rounds


# ------------------------------------------------------------------------------------------------- the paper's grids: K x d panels

GRAPH_WORDS = {"bandit": "the bandit graph", "filtering": "the multiclass filtering graph", "full": "full information",
               "label-efficient": "the label-efficient graph"}


class _Grid:
    """The runs of a figure on the paper's data: for each learner and cell the spread of its better tuning."""

    def __init__(self, figure: Figure, results: Sequence[Result], noisy: bool = False) -> None:
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
        # All figures of a sweep have the same axis, so that they may be laid side by side.
        rounds = _rounds_of(self.results) if self.results else 1
        whole = Summary(result for result in results if result.task.figure == sweep and result.task.rounds == rounds
                        and (result.task.noise > 0.0 or not noisy))
        self.limits = _room([_shown(rate, rounds) for learner in self.learners for cell in whole.cells(sweep)
                             for spread in whole.spreads(sweep, learner, cell) for rate in (spread.least, spread.most)] or [1.0])
        self.rounds = rounds

    @property
    def mixed(self) -> bool:
        """Whether one tuning was better here and another there: then the markers tell which."""
        return len({spread.tuning for spread in self.spreads.values()}) > 1

    def draw(self, ax: Axes, cells: Sequence[Cell], *, width: float, line: float = 0.0, size: float = 5.0) -> None:
        """Every learner in these cells, from left to right; side by side, so that whiskers do not cover each other."""
        for rank, learner in enumerate(self.learners):
            offset = width * ((rank + 0.5) / len(self.learners) - 0.5)
            found = [(place + offset, self.spreads[learner, cell]) for place, cell in enumerate(cells)
                     if (learner, cell) in self.spreads]
            if found:
                _whiskers(ax, [place for place, _ in found], [spread for _, spread in found], style_of(learner), self.rounds,
                          hollow=[self.mixed and spread.tuning == "theory" for _, spread in found], line=line, size=size)
        if not ax.containers:
            _say_empty(ax)
        ax.set_xlim(-0.5, len(cells) - 0.5)
        ax.grid(axis="y", which="major", alpha=0.3, linewidth=0.6)
        for place in range(1, len(cells)):
            ax.axvline(place - 0.5, color=GREY, alpha=0.25, linewidth=0.6)

    def keys(self) -> list[Line2D]:
        """The entries of the legend."""
        return [_key(style_of(learner)) for learner in self.learners] + (_tuning_keys() if self.mixed else [])


def _grid(figure: Figure, results: Sequence[Result]) -> Picture:
    grid = _Grid(figure, results)
    if not grid.results:
        return _nothing()
    rows, columns = len(grid.classes), len(grid.features)
    picture = _picture(max(4.2, WIDTH * columns / 3), 1.1 + 2.25 * rows)
    axes = picture.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for row, classes in enumerate(grid.classes):
        for column, features in enumerate(grid.features):
            ax = axes[row, column]
            grid.draw(ax, [Cell(classes, features, noise) for noise in grid.noises], width=0.66, line=0.35)
            ax.set_xticks(range(len(grid.noises)), [f"{noise:g}" for noise in grid.noises])
            if row == 0:
                ax.set_title(f"d = {features}", fontweight="bold")
        axes[row, 0].set_ylabel(f"K = {classes}", fontweight="bold", fontsize=9.5)
    _logarithmic(axes[0, 0].yaxis, _percent, *grid.limits)
    picture.supxlabel("label noise rate", fontsize=10)
    picture.supylabel("error rate (log scale)", fontsize=10)
    _legend(picture, grid.keys(), 8)
    return picture


def _whisker_words(results: Sequence[Result], what: str = "error rate") -> str:
    most, words = _repeats(results)
    if most == 1:
        return f"Markers show {words} each"
    return f"Markers show the mean of {words}, whiskers the least and the greatest {what} among them"


def _tuning_words(grid: _Grid, tunings: tuple[str, ...] | None) -> str:
    if tunings == ("theory",):
        return ", with the parameters that theory suggests"
    if tunings == ("only-t",):
        return ", with all parameters 1 except T"
    if not any(spread.tuning for spread in grid.spreads.values()):
        return ""
    return ", each learner with its better tuning in each cell" + " (hollow markers: theory's)" * grid.mixed


def _zero_words(grid: _Grid) -> str:
    return " A rate of 0 is shown as half a mistake." if any(not spread.least for spread in grid.spreads.values()) else ""


def _grid_caption(figure: Figure, results: Sequence[Result]) -> str:
    grid = _Grid(figure, results)
    graph = GRAPH_WORDS[grid.results[0].task.graph]
    return (f"Error rate (log scale) against the label noise rate, {graph}, {_horizon(grid.results)}"
            f"{_tuning_words(grid, figure.tunings)}; rows: K = {_numbers(grid.classes)} classes, columns: "
            f"d = {_numbers(grid.features)} features. {_whisker_words(grid.results)}.{_zero_words(grid)}")


def _intro(figure: Figure, results: Sequence[Result]) -> Picture:
    """One panel for each noise rate, the cells side by side."""
    grid = _Grid(figure, results, noisy=True)
    if not grid.results:
        return _nothing()
    cells = [(classes, features) for classes in grid.classes for features in grid.features]
    picture = _picture(6.6, 1.3 + 1.9 * len(grid.noises))
    axes = picture.subplots(len(grid.noises), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, noise in zip(axes, grid.noises, strict=True):
        grid.draw(ax, [Cell(classes, features, noise) for classes, features in cells], width=0.76, size=4.2)
        ax.set_title(f"noise rate {noise:g}", fontweight="bold")
        ax.set_xticks(range(len(cells)), [f"K={classes}\nd={features}" for classes, features in cells])
        ax.tick_params(axis="x", length=0)
    _logarithmic(axes[0].yaxis, _percent, *grid.limits)
    picture.supylabel("error rate (log scale)", fontsize=10)
    _legend(picture, grid.keys(), 4)
    return picture


def _intro_caption(figure: Figure, results: Sequence[Result]) -> str:
    grid = _Grid(figure, results, noisy=True)
    if not grid.results:
        return f"{figure.title}: no data at this T."
    return (f"Error rate (log scale) on the data with label noise (rate {_numbers(grid.noises)}), "
            f"{GRAPH_WORDS[grid.results[0].task.graph]}, {_horizon(grid.results)}{_tuning_words(grid, figure.tunings)}. "
            f"{_whisker_words(grid.results)}.{_zero_words(grid)}")


# ---------------------------------------------------------------------------------------------------------- label efficient


def _label_efficient(figure: Figure, results: Sequence[Result]) -> Picture:
    """Error rate against queries: whoever is lower and further to the left is better."""
    drawn = _drawn(figure, results)
    if not drawn:
        return _nothing()
    summary, sweep, rounds = Summary(drawn), figure.sweeps[0], _rounds_of(drawn)
    cells = summary.cells(sweep)
    features = min(cell.features for cell in cells)
    classes, noises = sorted({cell.classes for cell in cells}), sorted({cell.noise for cell in cells})
    learners = _in_order(summary.learners(sweep))
    scaled = sorted((name for name in learners if ":b=" in name), key=_query_scale)
    picture = _picture(max(4.2, WIDTH * len(noises) / 3), 1.3 + 2.5 * len(classes))
    axes = picture.subplots(len(classes), len(noises), sharex=True, sharey=True, squeeze=False)
    queries, rates = [], []
    for row, K in enumerate(classes):
        for column, noise in enumerate(noises):
            ax, cell = axes[row, column], Cell(K, features, noise)
            found = {name: summary.spreads(sweep, name, cell) for name in learners}
            line = [(name, found[name][0]) for name in scaled if found[name]]
            points = [(name, spread) for name in learners if name not in scaled for spread in found[name]]
            _query_line(ax, line, rounds)
            for name, spread in points:
                style, x = style_of(name), _asked(spread)
                _whiskers(ax, [x], [spread], style, rounds, hollow=[spread.tuning == "theory"], size=6.5)
                ax.plot([x], [_without_queries(spread, rounds)], color=style.colour, marker=style.marker, markersize=4,
                        alpha=0.45, linestyle="none", markerfacecolor="white" if spread.tuning == "theory" else style.colour)
            if not line and not points:
                _say_empty(ax)
            queries += [_asked(spread) for _, spread in (*line, *points)]
            rates += [rate for _, spread in (*line, *points)
                      for rate in (_shown(spread.most, rounds), _shown(spread.least, rounds), _without_queries(spread, rounds))]
            ax.grid(which="major", alpha=0.3, linewidth=0.6)
            if row == 0:
                ax.set_title(f"noise rate {noise:g}", fontweight="bold")
        axes[row, 0].set_ylabel(f"K = {K}", fontweight="bold", fontsize=9.5)
    _logarithmic(axes[0, 0].xaxis, _count, *_room(queries))
    _logarithmic(axes[0, 0].yaxis, _percent, *_room(rates))
    picture.supxlabel("queries (labels seen; log scale)", fontsize=10)
    picture.supylabel("error rate (log scale)", fontsize=10)
    keys = [_key(style_of(name)) for name in learners if name not in scaled] + [_key(style_of(name), line=True) for name in scaled[:1]]
    _legend(picture, keys + _tuning_keys(), 6)
    return picture


def _query_scale(learner: str) -> float:
    return float(learner.partition(":b=")[2])


def _asked(spread: Spread) -> float:
    """A learner that never asks has its place at half a query."""
    return max(spread.labels_seen, 0.5)


def _without_queries(spread: Spread, rounds: int) -> float:
    """The rate of wrong predictions alone: every query counts as a mistake, and only queries show labels."""
    return _shown(spread.mean - spread.labels_seen / rounds, rounds)


def _query_line(ax: Axes, line: Sequence[tuple[str, Spread]], rounds: int) -> None:
    """The label-efficient Perceptron from its smallest b to its largest, and below it the same without the queries."""
    if not line:
        return
    style, spreads = style_of(line[0][0]), [spread for _, spread in line]
    asked = [_asked(spread) for spread in spreads]
    _whiskers(ax, asked, spreads, style, rounds, line=0.8, size=6.5)
    ax.plot(asked, [_without_queries(spread, rounds) for spread in spreads], color=style.colour, linestyle=":", linewidth=1.0,
            marker=".", markersize=4, alpha=0.45)
    for (name, spread), x in zip(line, asked, strict=True):
        ax.annotate(f"b={_query_scale(name):g}", (x, _shown(spread.most, rounds)), xytext=(0, 5), textcoords="offset points", ha="center",
                    fontsize=7)


def _label_efficient_caption(figure: Figure, results: Sequence[Result]) -> str:
    drawn = _drawn(figure, results)
    cells = Summary(drawn).cells(figure.sweeps[0])
    return (f"Error rate against the number of queries, both on log scales, {GRAPH_WORDS['label-efficient']}, "
            f"d = {min(cell.features for cell in cells)} features, {_horizon(drawn)}: the label-efficient Perceptron for several b, "
            f"and the Gappletrons. {_whisker_words(drawn)}; a query counts as a mistake, and the faint small markers leave the "
            "queries out.")


# ------------------------------------------------------------------------------------------------------ our exploration rule


class _Pair(NamedTuple):
    learner: str
    graph: str
    paper: Spread
    ours: Spread


def _pairs(figure: Figure, results: Sequence[Result]) -> list[_Pair]:
    """The runs by our rule, each with those of Algorithm 1 in the same cell."""
    summary = Summary(result for result in _drawn(figure, results))
    found = []
    for graph in figure.sweeps[1:]:
        for learner in _in_order(summary.learners("exploration")):
            for cell in summary.cells("exploration"):
                ours = summary.spreads("exploration", learner, cell, graph=graph)
                paper = summary.spreads(graph, learner, cell, graph=graph)
                if ours and paper:
                    found.append(_Pair(learner, graph, paper[0], ours[0]))
    return found


def _exploration(figure: Figure, results: Sequence[Result]) -> Picture:
    pairs = _pairs(figure, results)
    if not pairs:
        return _nothing()
    rounds = _rounds_of(_drawn(figure, results))
    graphs = list(dict.fromkeys(pair.graph for pair in pairs))
    learners = _in_order(pair.learner for pair in pairs)
    picture = _picture(1.0 + 4.5 * len(graphs), 5.4)
    axes = picture.subplots(1, len(graphs), squeeze=False, sharex=True, sharey=True)[0]
    least, most = _room([_shown(spread.mean, rounds) for pair in pairs for spread in (pair.paper, pair.ours)])
    for ax, graph in zip(axes, graphs, strict=True):
        ax.plot([least, most], [least, most], color=GREY, linewidth=0.9, zorder=1)
        ax.fill_between([least, most], [least, most], least, color=GREY, alpha=0.08, linewidth=0, zorder=0)
        ax.text(0.97, 0.04, "top-up errs less", transform=ax.transAxes, ha="right", color="#555555")
        ax.text(0.03, 0.96, "Algorithm 1 errs less", transform=ax.transAxes, va="top", color="#555555")
        for learner in learners:
            style = style_of(learner)
            points = [(_shown(pair.paper.mean, rounds), _shown(pair.ours.mean, rounds)) for pair in pairs
                      if pair.graph == graph and pair.learner == learner]
            if points:
                ax.plot(*zip(*points, strict=True), color=style.colour, marker=style.marker, markersize=5.5, linestyle="none",
                        alpha=0.75, markeredgewidth=0, label=style.label)
        ax.set_title(graph.replace("-", " "), fontweight="bold")
        ax.set_aspect("equal")
        ax.set_xlabel("error rate of Algorithm 1's rule (log scale)")
    _logarithmic(axes[0].xaxis, _percent, least, most)
    _logarithmic(axes[0].yaxis, _percent, least, most)
    axes[0].set_ylabel("error rate of the top-up rule (log scale)")
    _legend(picture, [_key(style_of(learner)) for learner in learners])
    return picture


def _exploration_caption(figure: Figure, results: Sequence[Result]) -> str:
    drawn, pairs = _drawn(figure, results), _pairs(figure, results)
    if not pairs:
        return f"{figure.title}: no data at this T."
    played = {pair.learner for pair in pairs}
    _, runs = _repeats([result for result in drawn if result.task.learner in played])
    sides = []
    for graph in dict.fromkeys(pair.graph for pair in pairs):
        here = [pair for pair in pairs if pair.graph == graph]
        less = sum(pair.ours.mean < pair.paper.mean for pair in here)
        sides.append(f"{less} of {len(here)} in {graph.replace('-', ' ')}")
    return (f"Mean error rate of the top-up rule against that of Algorithm 1, both on log scales, {_horizon(drawn)}, all parameters "
            f"1 except T: one marker for each learner and cell (K, d, noise), the mean of {runs}. Below the diagonal top-up "
            f"errs less: {_listed(sides)}.")


# ------------------------------------------------------------------------------------------------------ the theorems' bounds


def _curves(results: Sequence[Result]) -> tuple[Floats, Floats]:
    """The marked rounds, and the mistakes up to them, one row for each run."""
    import numpy as np

    return _marks(results[0]), np.array([[mistakes for _, mistakes in result.curve] for result in results], float)


def _marks(result: Result) -> Floats:
    import numpy as np

    return np.array([t for t, _ in result.curve], float)


def _positive(values: Floats) -> Floats:
    """A log axis has no 0: leave it out."""
    import numpy as np

    return np.where(values > 0.0, values, np.nan)


ROWS = (
    ("expectation", "full-expectation"),
    ("high-probability", "full-high-probability"),
    ("expectation-separable", "full-expectation-separable"),
    ("high-probability-separable", "full-high-probability-separable"),
)
"""The theorems by row; the second of a pair is the one for full information."""

IS_SEPARABLE = {theorem.name: theorem.separable for theorem in THEOREMS}


def _bound_at(task: Task, theorem: str, rounds: int, max_norm: float) -> float | None:
    """The theorem's right-hand side for T = `rounds`, all rounds blind; None where it does not apply."""
    learner = player(task)
    if not isinstance(learner, Gappletron):
        return None
    found = next(bound for bound in bounds(learner, graph_of(task), rounds=rounds, max_norm=max_norm) if bound.theorem == theorem)
    return found.value if found.refusal is None else None


class _Guarded(NamedTuple):
    """The runs of one learner in one panel of the bounds' figure."""

    learner: str
    runs: list[Result]
    theorem: str


def _panel(results: Sequence[Result], graph: str, row: tuple[str, str]) -> list[_Guarded]:
    """Who is shown under a theorem on a graph: the runs tuned for it, and on separable data only who can lose nothing there."""
    theorem = row[1] if graph == "full" else row[0]
    grouped: dict[str, list[Result]] = {}
    for result in results:
        task = result.task
        if task.graph == graph and task.tuning in ("", row[0]) and (task.noise == 0.0) == IS_SEPARABLE[theorem]:
            grouped.setdefault(task.learner, []).append(result)
    return [_Guarded(learner, grouped[learner], theorem) for learner in _in_order(grouped)
            if not IS_SEPARABLE[theorem] or _loses_nothing(grouped[learner])]


def _loses_nothing(runs: Sequence[Result]) -> bool:
    """The comparator's loss is 0, as far as the search for it can tell."""
    outcomes = [run.outcome for run in runs if run.outcome.comparator_loss is not None]
    return bool(outcomes) and all((run.comparator_loss or 0.0) - (run.comparator_gap or 0.0) <= 1e-6 for run in outcomes)


def _bounds(figure: Figure, results: Sequence[Result]) -> Picture:
    import numpy as np

    drawn = _drawn(figure, results)
    if not drawn:
        return _nothing()
    present = {result.task.graph for result in drawn}
    graphs = [graph for graph in GRAPH_WORDS if graph in present]
    rows = [row for row in ROWS if any(_panel(drawn, graph, row) for graph in graphs)]
    if not rows:
        return _nothing()
    rounds = _rounds_of(drawn)
    start = 10.0 if rounds >= 1000 else 1.0
    picture = _picture(max(5.0, 1.0 + 2.25 * len(graphs)), 1.3 + 2.05 * len(rows))
    axes = picture.subplots(len(rows), len(graphs), sharex=True, sharey=True, squeeze=False)
    values = []
    for i, row in enumerate(rows):
        for j, graph in enumerate(graphs):
            ax = axes[i, j]
            panel = _panel(drawn, graph, row)
            for guarded in panel:
                style = style_of(guarded.learner)
                at, mistakes = _curves(guarded.runs)
                ax.plot(at, _positive(mistakes.mean(axis=0)), color=style.colour, linewidth=1.5)
                ax.fill_between(at, np.maximum(mistakes.min(axis=0), 0.1), np.maximum(mistakes.max(axis=0), 0.1),
                                color=style.colour, alpha=0.2, linewidth=0)
                bound = _bound_line(guarded, at)
                if bound is not None:
                    ax.plot(at, bound, color=style.colour, linewidth=1.2, linestyle=DASHED)
                    values += list(bound[at >= start])
                values += [value for value in mistakes.mean(axis=0)[at >= start] if value > 0]
            if panel:
                ax.plot([start, rounds], [start, rounds], color=GREY, linewidth=0.8, linestyle=":", zorder=1)
            else:
                _say_empty(ax)
            ax.grid(which="major", alpha=0.25, linewidth=0.6)
            theorem = row[1] if graph == "full" else row[0]
            ax.set_title((f"{graph.replace('-', ' ')}\n" if i == 0 else "") + theorem, fontsize=8)
    _logarithmic(axes[0, 0].xaxis, _short, start, max(rounds, 2.0))
    _logarithmic(axes[0, 0].yaxis, _short, *_room([*values, 1.0]))
    picture.supxlabel("round (log scale)", fontsize=10)
    picture.supylabel("mistakes (log scale)", fontsize=10)
    learners = _in_order(result.task.learner for result in drawn)
    _legend(picture, [_stroke(style_of(name).label, style_of(name).colour) for name in learners]
            + [_stroke("its bound", GREY, DASHED), _stroke("every round", GREY, ":")])
    return picture


DASHED = (0, (4, 2))


def _stroke(label: str, colour: str, line: str | tuple[int, tuple[int, int]] = "-") -> Line2D:
    """An entry of the legend that is a line alone."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=line, linewidth=1.4, label=label)


def _bounds_caption(figure: Figure, results: Sequence[Result]) -> str:
    drawn = _drawn(figure, results)
    most, runs = _repeats(drawn)
    noises = sorted({result.task.noise for result in drawn} - {0.0})
    unproved = [style_of(name).label for name in _in_order(result.task.learner for result in drawn)
                if not any(_bound_line(guarded, _marks(guarded.runs[0])[-1:]) is not None for guarded in _panels(drawn)
                           if guarded.learner == name)]
    band = ", with a band from the least to the most" if most > 1 else ""
    noisy = f"noise rate {_numbers(noises)}" if noises else "noise"
    return (f"Mistakes up to each round (solid: mean of {runs}{band}) and the bound of the theorem named above each panel (dashed), "
            f"both axes logarithmic, {_horizon(drawn)}; unit vectors as features, with {noisy} for the theorems about regret and "
            "without noise for the separable ones. The bounds are the worst case: every round blind, the comparator's loss "
            "spread evenly over the rounds where it counts, and the learner's own losses not subtracted."
            + f" No theorem is about {_listed(unproved)}." * bool(unproved))


def _panels(results: Sequence[Result]) -> list[_Guarded]:
    return [guarded for graph in dict.fromkeys(result.task.graph for result in results) for row in ROWS
            for guarded in _panel(results, graph, row)]


def _bound_line(guarded: _Guarded, at: Floats) -> Floats | None:
    """The theorem's right-hand side at each of the rounds; the comparator loses evenly over the rounds."""
    import numpy as np

    first = guarded.runs[0]
    losses = [run.outcome.comparator_loss for run in guarded.runs if run.outcome.comparator_loss is not None]
    if not losses:
        return None
    lost = 0.0 if IS_SEPARABLE[guarded.theorem] else sum(losses) / len(losses)
    values = []
    for t in at:
        value = _bound_at(first.task, guarded.theorem, int(t), first.outcome.max_norm)
        if value is None:
            return None
        values.append(value + lost * t / first.task.rounds)
    return np.array(values)


def _short(value: float) -> str:
    """A power of ten as people write it."""
    return f"{value:,.0f}" if value < 10_000 else f"{value / 1000:,.0f}k"


# ---------------------------------------------------------------------------------------------------------- the lower bounds


def _largest_means(results: Sequence[Result]) -> dict[str, list[tuple[int, float]]]:
    """For each learner, by T, its mean number of mistakes on the worse of the two streams (where it played both)."""
    grouped: dict[tuple[str, int, bool], list[int]] = {}
    for result in results:
        task = result.task
        grouped.setdefault((task.learner, task.rounds, "turned=" in task.stream), []).append(result.outcome.mistakes)
    means = {key: sum(mistakes) / len(mistakes) for key, mistakes in grouped.items()}
    return {learner: points for learner in _in_order(key[0] for key in means)
            if (points := [(rounds, max(means[learner, rounds, False], means[learner, rounds, True]))
                           for rounds in sorted({key[1] for key in means})
                           if (learner, rounds, False) in means and (learner, rounds, True) in means])}


def _merged(series: dict[str, list[tuple[object, float]]]) -> list[list[str]]:
    """Learners by equal numbers, wherever both have one: they lie on each other, and the legend says so."""
    groups: list[list[str]] = []
    for learner, points in series.items():
        for group in groups:
            first = dict(series[group[0]])
            shared = [(first[place], value) for place, value in points if place in first]
            if shared and all(one == other for one, other in shared):
                group.append(learner)
                break
        else:
            groups.append([learner])
    return groups


def _group_keys(groups: Sequence[Sequence[str]]) -> list[Line2D]:
    keys = []
    for group in groups:
        style = style_of(group[0])
        keys.append(_key(style._replace(label=" = ".join(style_of(name).label for name in group)), line=True))
    return keys


def _lower_filtering(figure: Figure, results: Sequence[Result]) -> Picture:
    drawn = _drawn(figure, results)
    series = _largest_means(drawn)
    if not series:
        return _nothing()
    picture = _picture(7.6, 5.4)
    ax = picture.add_subplot()
    groups = _merged({name: list(points) for name, points in series.items()})
    for group in groups:
        style = style_of(group[0])
        ax.plot(*zip(*series[group[0]], strict=True), color=style.colour, marker=style.marker, markersize=6, linewidth=1.2,
                linestyle=style.line, label=style.label)
    horizons = sorted({rounds for points in series.values() for rounds, _ in points})
    lower = [math.sqrt(rounds / 8.0) for rounds in horizons]
    ax.plot(horizons, lower, color=BLACK, linewidth=1.6, linestyle="-", label="lower bound")
    ax.fill_between(horizons, lower, [0.01] * len(lower), color=GREY, alpha=0.15, linewidth=0)
    upper = _upper_line(drawn, horizons)
    keys = [_stroke("no learner below: R/2 = sqrt(T/8)", BLACK)]
    if upper:
        ax.plot(horizons, upper, color=STYLES["gapsmh"].colour, linewidth=1.4, linestyle=DASHED, label="upper bound")
        keys.append(_stroke("GapSmH's upper bound (expectation)", STYLES["gapsmh"].colour, DASHED))
    ax.plot(horizons, horizons, color=GREY, linewidth=0.8, linestyle=":", label="every round")
    values = [*lower, *(upper or ()), *(value for points in series.values() for _, value in points if value > 0.0)]
    _logarithmic(ax.xaxis, _short, *_room([float(rounds) for rounds in horizons], 0.03))
    _logarithmic(ax.yaxis, _short, *_room(values, 0.03))
    ax.set(xlabel="T (log scale)", ylabel="mean mistakes on the worse of the two streams (log scale)")
    ax.grid(which="major", alpha=0.3, linewidth=0.6)
    _legend(picture, [*_group_keys(groups), *keys, _stroke("every round", GREY, ":")], 4)
    return picture


def _upper_line(results: Sequence[Result], horizons: Sequence[int]) -> list[float] | None:
    """What the expectation theorem says of GapSmH, whose comparator loses nothing on either stream."""
    by_rounds = {result.task.rounds: result for result in results if result.task.learner == "gapsmh"}
    found = [_bound_at(by_rounds[rounds].task, "expectation", rounds, by_rounds[rounds].outcome.max_norm)
             for rounds in horizons if rounds in by_rounds]
    values = [value for value in found if value is not None]
    return values if len(values) == len(horizons) else None


def _lower_filtering_caption(figure: Figure, results: Sequence[Result]) -> str:
    drawn = _drawn(figure, results)
    if not _largest_means(drawn):
        return f"{figure.title}: no data at this T."
    return (f"Mistakes against T on the two streams of the filtering lower bound (T = 2 R^2, {_horizon(drawn)}), both axes "
            f"logarithmic: for each learner the larger of its means on the two, over {_repeats(drawn)[1]} each. The black line is the "
            "theorem's R/2, which no learner can stay below in expectation; dashed, what the expectation theorem promises GapSmH.")


def _fresh_curves(results: Sequence[Result]) -> dict[int, dict[str, tuple[Floats, Floats]]]:
    """For each B and learner the marked rounds and the mean number of mistakes up to them."""
    grouped: dict[int, dict[str, list[Result]]] = {}
    for result in results:
        grouped.setdefault(_fresh(result.task).radius, {}).setdefault(result.task.learner, []).append(result)
    return {radius: {name: (at, mistakes.mean(axis=0)) for name in _in_order(grouped[radius])
                     for at, mistakes in (_curves(grouped[radius][name]),)} for radius in sorted(grouped)}


def _fresh(task: Task) -> FreshFeatures:
    stream = open_stream(task.stream)
    assert isinstance(stream, FreshFeatures)
    return stream


def _lower_full(figure: Figure, results: Sequence[Result]) -> Picture:
    drawn = _drawn(figure, results)
    curves = _fresh_curves(drawn)
    if not curves:
        return _nothing()
    rounds = _rounds_of(drawn)
    picture = _picture(max(5.0, 1.0 + 3.0 * len(curves)), 5.0)
    axes = picture.subplots(1, len(curves), sharex=True, sharey=True, squeeze=False)[0]
    points: dict[str, list[tuple[object, float]]] = {}
    for radius, by_name in curves.items():
        for name, (at, mistakes) in by_name.items():
            points.setdefault(name, []).extend(((radius, t), value) for t, value in zip(at, mistakes, strict=True))
    groups = _merged({name: points[name] for name in _in_order(points)})
    values = [1.0]
    for ax, (radius, by_name) in zip(axes, curves.items(), strict=True):
        for group in groups:
            name = next((name for name in group if name in by_name), None)
            if name is None:
                continue
            style = style_of(group[0])
            at, mistakes = by_name[name]
            ax.plot(at, _positive(mistakes), color=style.colour, marker=style.marker, markersize=4, linewidth=1.1,
                    linestyle=style.line, markevery=5)
            values += [value for value in mistakes if value > 0.0]
        sample = [result for result in drawn if _fresh(result.task).radius == radius]
        stream = _fresh(sample[0].task)
        ax.plot([stream.fresh + 1, rounds], [stream.lower_bound] * 2, color=BLACK, linewidth=1.6)
        upper = _fresh_upper(sample, stream)
        if upper is not None:
            ax.plot([stream.fresh + 1, rounds], [upper] * 2, color=STYLES["gapsmh"].colour, linewidth=1.4, linestyle=DASHED)
            values.append(upper)
        ax.set_title(f"B = {radius}", fontweight="bold")
        ax.grid(which="major", alpha=0.3, linewidth=0.6)
    _logarithmic(axes[0].xaxis, _short, 1.0, max(2.0, rounds * 1.15))
    _logarithmic(axes[0].yaxis, _short, *_room(values, 0.04))
    picture.supxlabel("round (log scale)", fontsize=10)
    picture.supylabel("mean mistakes (log scale)", fontsize=10)
    _legend(picture, [*_group_keys(groups), _stroke("no learner below", BLACK),
                      _stroke("GapSmH's upper bound (full-expectation)", STYLES["gapsmh"].colour, DASHED)], 4)
    return picture


def _fresh_upper(results: Sequence[Result], stream: FreshFeatures) -> float | None:
    """What the theorem says of GapSmH: the comparator's loss and the regret."""
    for result in results:
        if result.task.learner == "gapsmh":
            regret = _bound_at(result.task, "full-expectation", result.task.rounds, result.outcome.max_norm)
            return None if regret is None else stream.comparator_loss + regret
    return None


def _lower_full_caption(figure: Figure, results: Sequence[Result]) -> str:
    drawn = _drawn(figure, results)
    streams = [_fresh(result.task) for result in drawn]
    return (f"Mean mistakes up to each round, over {_repeats(drawn)[1]}, on the streams of the full-information lower bound with "
            f"K = {_numbers(result.task.classes for result in drawn)}, {_horizon(drawn)}, both axes logarithmic; panels: the "
            f"comparator's norm B = {_numbers(stream.radius for stream in streams)}. Black: no learner makes fewer mistakes in "
            "expectation, once the fresh features are over; dashed: what the theorem for full information promises GapSmH.")


class Drawing(NamedTuple):
    """How a figure is drawn, and how it is put into words."""

    draw: Callable[[Figure, Sequence[Result]], Picture]
    caption: Callable[[Figure, Sequence[Result]], str]


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
