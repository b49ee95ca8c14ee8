"""The results of runs: counts, curves, tables and plots."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray

from gappletron.base import files, tables
from gappletron.base.checks import Label
from gappletron.base.colours import COLOURS
from gappletron.base.errors import UserError
from gappletron.base.text import make_printable, shorten, unknown
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Learner
from gappletron.learners.run_bound import Restart
from gappletron.play.few_labels import FEW_LATELY, warn_of_few_labels
from gappletron.play.rounds import TOTALS, Tally

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


NO_COLUMN = {"is_column": False}  # of :meth:`Histories.to_frame`
TITLE_WIDTH = 64  # characters in a line of a plot's title
SHOWN_ACTIONS, SHOWN_CLASSES = 40, 24  # a confusion table with more rows or columns is not printed


@dataclass(frozen=True)
class Curve:
    """The running totals at some rounds, one entry each; the last is the run's last round.

    >>> from gappletron import play
    >>> curve = play("gapsmh", "synthetic:K=3,d=40,noise=0,T=1000", "bandit", curve=[10, 100])[0].curve
    >>> curve.rounds.tolist(), len(curve.error_rate), bool(curve.mistakes[0] <= curve.mistakes[2])
    ([10, 100, 1000], 3, True)
    """

    rounds: NDArray[np.int64]
    mistakes: NDArray[np.int64]
    labels_seen: NDArray[np.int64]
    explored: NDArray[np.int64]
    blind_rounds: NDArray[np.int64]
    rate_sum: Floats
    loss_sum: Floats | None
    cost: Floats

    @property
    def error_rate(self) -> Floats:
        """Mistakes per round, up to each of the rounds."""
        return self.mistakes / self.rounds

    @property
    def mean_cost(self) -> Floats:
        """Cost per round, up to each of the rounds."""
        return self.cost / self.rounds


@dataclass(frozen=True)
class History:
    """One run: a learner, a seed, and the results.

    `explored` counts the rounds whose action was not the greedy class, `blind_rounds` those whose greedy class does not
    reveal (n_T), `rate_sum` is the sum of gamma_t, `loss_sum` that of the surrogate losses l_t(W_t) (None unless
    requested), and `seconds` is the time spent playing, without reading data or compiling. `graph` is the feedback
    graph (of the first round, if it changes). `confusion[i, y]` counts the rounds with action `i` and label `y`, in the
    order of `graph.actions` and `graph.classes`. `cost` is the sum of the costs, which is the number of mistakes unless
    `has_costs`: some round's graph had other costs than 0 and 1. `restarts` are the last 16 of the learner in this run.

    >>> from gappletron import play
    >>> history = play("gapsmh", "synthetic:K=3,d=40,noise=0,T=2000", "bandit", seed=1)[0]
    >>> history.rounds, history.error_rate < 0.2, history.curve.rounds[:4].tolist()
    (2000, True, [1, 2, 3, 4])
    >>> history.confusion.shape, int(history.confusion.sum()), history.cost == history.mistakes
    ((3, 3), 2000, True)
    """

    name: str
    learner: Learner = field(metadata=NO_COLUMN)
    repeat: int
    seed: int
    rounds: int
    mistakes: int
    labels_seen: int
    explored: int
    blind_rounds: int
    rate_sum: float
    loss_sum: float | None
    seconds: float
    curve: Curve = field(repr=False, metadata=NO_COLUMN)
    graph: FeedbackGraph = field(metadata=NO_COLUMN)
    confusion: NDArray[np.int64] = field(repr=False, metadata=NO_COLUMN)
    cost: float = field(metadata=NO_COLUMN)
    has_costs: bool = field(metadata=NO_COLUMN)
    restarts: tuple[Restart, ...] = field(default=(), repr=False, metadata=NO_COLUMN)

    def _repr_html_(self) -> str:
        return Histories([self])._repr_html_()

    @property
    def error_rate(self) -> float:
        """Mistakes per round."""
        return self.mistakes / self.rounds if self.rounds else 0.0

    @property
    def mean_cost(self) -> float:
        """Cost per round."""
        return self.cost / self.rounds if self.rounds else 0.0

    @property
    def warning(self) -> str | None:
        """That next to no labels are seen, so that the learner could not find out that it errs, and the cure; None
        where that is not so.

        The bounds on the error are what is certain without the labels that `graph` has hidden. A
        :class:`gappletron.Monitor` knows the probabilities too, and so more.

        >>> from gappletron import Greedy, PartialLikelihood, play
        >>> learner = PartialLikelihood(exploration=Greedy())
        >>> runs = play(learner, "synthetic:K=3,d=40,T=1000", "label-efficient")
        >>> runs[0].labels_seen, runs[0].warning[:39]
        (0, 'No label was seen in 1,000 rounds, and ')
        """
        before = self.curve.labels_seen[self.curve.rounds <= self.rounds // 2]
        lately = self.labels_seen - int(before.max(initial=0))
        # Costs can push away from what reveals: there, some labels from the floor under exploration do not tell enough.
        if not self.rounds or (lately > FEW_LATELY and not self.has_costs):
            return None
        tells = np.append(self.graph.visible.diagonal(), np.ones(self.graph.n_actions - self.graph.n_classes, bool))
        unknown = np.where(self.graph.visible | tells[:, None], 0, self.confusion)
        low = (self.mistakes - int(unknown.sum() - unknown.trace())) / self.rounds
        return warn_of_few_labels(self.labels_seen, self.rounds, low, low + int(unknown.sum()) / self.rounds)


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each action (row) was played at each label (column); prints as a table, and converts to pandas.

    >>> import numpy as np
    >>> table = Confusion(np.array([[7, 1], [0, 2], [3, 0]]), ("ham", "spam", "query"), ("ham", "spam"))
    >>> print(table)
    action \\ label  ham  spam
    --------------  ---  ----
    ham               7     1
    spam              0     2
    query             3     0
    """

    counts: NDArray[np.int64]
    actions: tuple[Label, ...]
    classes: tuple[Label, ...]

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int | None = None) -> str:
        """Return the table, with lines of at most so many characters."""
        if len(self.actions) > SHOWN_ACTIONS or len(self.classes) > SHOWN_CLASSES:
            size = f"{len(self.actions)} x {len(self.classes)}"
            return f"(The confusion table of {size} is too large to print: use to_frame() or --json.)"
        header = ("action \\ label", *(shorten(make_printable(str(name)), 16) for name in self.classes))
        rows = [
            (shorten(make_printable(str(name)), 16), *(f"{count:,}" for count in counts))
            for name, counts in zip(self.actions, self.counts.tolist(), strict=True)
        ]
        return "\n".join(tables.split(header, rows, width))

    def _repr_html_(self) -> str:
        names = [str(name) for name in self.classes]
        rows = zip(self.actions, self.counts.tolist(), strict=True)
        return tables.make_html(
            ["action \\ label", *names], ([str(name), *(f"{count:,}" for count in counts)] for name, counts in rows)
        )

    def to_frame(self) -> "pandas.DataFrame":
        """Return the table as a pandas DataFrame: actions as the index, labels as the columns."""
        pandas = _pandas()
        return pandas.DataFrame(
            self.counts, pandas.Index(self.actions, name="action"), pandas.Index(self.classes, name="label")
        )


def read_curve(tally: Tally, with_losses: bool) -> Curve:
    """Return the curve of a tally: the marked rounds that were reached, and the last round."""
    rounds, passed = tally.played
    counts, sums, at = tally.counts_at[:passed], tally.sums_at[:passed], tally.marks[:passed]
    if rounds and (passed == 0 or at[-1] != rounds):
        counts, sums, at = np.vstack([counts, tally.counts]), np.vstack([sums, tally.sums]), np.append(at, rounds)
    totals: dict[str, Any] = dict(zip(TOTALS, [*counts.T.copy(), *sums.T.copy()], strict=True))
    return Curve(at.copy(), **totals if with_losses else totals | {"loss_sum": None})


class Histories(Sequence[History]):
    """The runs of one call to :func:`gappletron.play`; prints as a table, plots itself, and converts to pandas.

    >>> from gappletron import play
    >>> runs = play(["gapsmh", "gaphin"], "synthetic:K=3,d=40,T=500", "bandit", repeats=2)
    >>> len(runs), runs.names, [run.repeat for run in runs.of("gaphin")]
    (4, ['gapsmh', 'gaphin'], [0, 1])
    """

    def __init__(self, runs: Sequence[History], title: str = "") -> None:
        self._runs = tuple(runs)
        self.title = title

    @overload
    def __getitem__(self, index: int) -> History: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> History | Self:
        return type(self)(self._runs[index], self.title) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def names(self) -> list[str]:
        """The learners' names, in the order in which they were given."""
        return list(dict.fromkeys(run.name for run in self))

    def of(self, name: str) -> list[History]:
        """Return the runs of one learner."""
        return [run for run in self if run.name == name]

    @property
    def has_costs(self) -> bool:
        """Whether some run had costs other than 0 and 1; then tables and plots show them."""
        return any(run.has_costs for run in self)

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return tuple(_make_cells(self.of(self.names[0]), self.has_costs)) if self.names else ("learner",)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table's cells: a row for each learner."""
        return [tuple(_make_cells(self.of(name), self.has_costs).values()) for name in self.names]

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int | None = None) -> str:
        """Return the table; lines have at most so many characters, and columns that have no room are left out."""
        title = [tables.wrap(self.title, width)] if self.title else []
        return "\n".join([*title, *tables.align(self.header, self.rows(), width)])

    def _repr_html_(self) -> str:
        return tables.make_html(self.header, self.rows(), self.title)

    def confusion(self, name: str | None = None) -> Confusion:
        """Return how often each action was played at each label, over all runs of a learner; by default the first.

        >>> from gappletron import play
        >>> runs = play("gapsmh", "synthetic:K=3,d=40,T=500", "label-efficient", repeats=2)
        >>> runs.confusion().counts.sum(), runs.confusion("gapsmh").actions
        (np.int64(1000), (0, 1, 2, 'query'))
        """
        runs = self.of(self.names[0] if name is None and self.names else str(name))
        if not runs:
            raise unknown(name, "run of", self.names)
        graph = runs[0].graph
        return Confusion(sum(run.confusion for run in runs), graph.actions, graph.classes)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<Histories of {', '.join(self.names)}: {len(self)} runs>"

    def to_frame(self) -> "pandas.DataFrame":
        """Return the runs as a pandas DataFrame, one row per run; `loss_sum` is NaN unless losses were requested.

        With costs there are two more columns, `cost` and `mean_cost`.

        >>> from gappletron import play
        >>> runs = play(["gapsmh", "gaphin"], "synthetic:K=3,d=40,T=500", "bandit", repeats=2)
        >>> runs.to_frame()[["name", "repeat", "rounds"]]
             name  repeat  rounds
        0  gapsmh       0     500
        1  gapsmh       1     500
        2  gaphin       0     500
        3  gaphin       1     500
        """
        pandas = _pandas()
        shown = [known.name for known in fields(History) if not known.metadata]
        shown.insert(shown.index("mistakes") + 1, "error_rate")
        shown += ["cost", "mean_cost"] if self.has_costs else []
        columns = {column: [getattr(run, column) for run in self] for column in shown}
        return pandas.DataFrame(columns).astype({"loss_sum": float})

    def plot(
        self,
        path: str | Path | None = None,
        ax: "Axes | None" = None,
        of: Literal["error_rate", "mean_cost"] | None = None,
    ) -> "Figure":
        """Draw the error rate against the rounds: the mean of the repeats, and a band from minimum to maximum.

        With costs, a second panel draws the cost per round; `of` selects one of the two. With `path`, also write it, as
        PNG, SVG or PDF by the suffix. With `ax` it is drawn there: one panel, by default the error rate.
        """
        if of not in (None, "error_rate", "mean_cost"):
            raise unknown(of, "curve", ("error_rate", "mean_cost"))
        panels = [of] if of else ["error_rate", "mean_cost"] if self.has_costs and ax is None else ["error_rate"]
        figure, axes = new_figure(ax, len(panels))
        for drawn, panel in zip(axes, panels, strict=True):
            _draw_panel(self, drawn, panel)
        axes[0].set_title(self.title if ax is not None else textwrap.fill(self.title, TITLE_WIDTH), parse_math=False)
        if path is not None:
            files.save_figure(figure, path)
        return figure


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise UserError("to_frame needs pandas, which is not installed: pip install pandas") from None
    return pandas


def _make_cells(runs: list[History], has_costs: bool) -> dict[str, str]:
    """Return a row of the table, by the names of its columns."""
    rates = [run.error_rate for run in runs]
    rounds = sum(run.rounds for run in runs)
    seen = sum(run.labels_seen for run in runs) / len(runs)
    nanoseconds = sum(run.seconds for run in runs) / max(1, rounds) * 1e9
    costs = {
        "mean cost": f"{sum(run.mean_cost for run in runs) / len(runs):.4f}",
        "total cost": f"{sum(run.cost for run in runs) / len(runs):,.1f}",
    }
    return {
        "learner": make_printable(runs[0].name),
        "mean error": f"{sum(rates) / len(rates):.4f}",
        "min": f"{min(rates):.4f}",
        "max": f"{max(rates):.4f}",
        **(costs if has_costs else {}),
        "labels seen": f"{seen:,.0f}",
        "ns per round": f"{nanoseconds:,.0f}",
    }


def new_figure(ax: "Axes | None", panels: int = 1) -> tuple["Figure", list["Axes"]]:
    """Return a new figure with some panels side by side; or the given axes, and the figure that they belong to."""
    from matplotlib.figure import Figure

    if ax is not None:
        return ax.get_figure(root=True), [ax]  # type: ignore[return-value]
    figure = Figure(figsize=(7.0 * panels, 4.2), layout="constrained")
    return figure, [figure.add_subplot(1, panels, place) for place in range(1, panels + 1)]


def draw_band(ax: "Axes", rounds: Any, low: Any, high: Any, colour: str) -> None:
    """Shade what lies between two curves."""
    ax.fill_between(rounds, low, high, color=colour, alpha=0.18, linewidth=0)


def label_axes(ax: "Axes", xlabel: str, ylabel: str, as_percent: bool) -> None:
    """Name the axes of rates over rounds, and add the grid and the legend."""
    from matplotlib.ticker import PercentFormatter

    ax.set(xlabel=xlabel, ylabel=ylabel, ylim=(0, None))
    if as_percent:
        ax.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    ax.grid(alpha=0.25)
    if ax.lines:
        for text in ax.legend(frameon=False).get_texts():
            text.set_parse_math(False)


def _draw_panel(histories: Histories, ax: "Axes", of: str) -> None:
    """Draw the mean of each learner's runs against the rounds, and a band."""
    banded = 0
    for place, name in enumerate(histories.names):
        curves = [run.curve for run in histories.of(name) if run.rounds]
        if not curves:
            continue
        colour = COLOURS[place % len(COLOURS)]
        shared = min((curve.rounds for curve in curves), key=len)
        rates = np.array([getattr(curve, of)[: len(shared)] for curve in curves])
        ax.plot(shared, rates.mean(axis=0), color=colour, label=make_printable(name), linewidth=1.8)
        if len(curves) > 1:
            banded = len(curves)
            draw_band(ax, shared, rates.min(axis=0), rates.max(axis=0), colour)
    ax.set(xscale="log")
    if max(run.rounds for run in histories) >= 1000:
        ax.set_xlim(left=10)  # the first rounds are mostly noise, and their wide bands would hide the rest
    what = f"round (mean of {banded} runs; band from minimum to maximum)" if banded else "round"
    total = "mistakes" if of == "error_rate" else "cost"
    label_axes(ax, what, f"{total} so far / rounds so far", of == "error_rate")
