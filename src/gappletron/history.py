"""The results of runs: counts, curves, tables and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from gappletron import _files
from gappletron._validate import UserError, printable
from gappletron.engine import BLIND, EXPLORED, LABELS_SEEN, LOSSES, MISTAKES, RATES, Tally

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from gappletron.learners.learner import Learner
    from gappletron.numerics import Floats

__all__ = ["Curve", "Histories", "History"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
"""The palette of Okabe and Ito, ordered so that the first lines differ most in print."""


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

    @property
    def error_rate(self) -> Floats:
        """Mistakes per round, up to each of the rounds."""
        return self.mistakes / self.rounds


@dataclass(frozen=True)
class History:
    """One run: a learner, a seed, and the results.

    `explored` counts the rounds whose action was not the greedy class, `blind_rounds` those whose greedy class does not
    reveal (n_T), `rate_sum` is the sum of gamma_t, `loss_sum` that of the surrogate losses l_t(W_t) (None unless
    requested), and `seconds` is the time spent playing, without reading data or compiling.

    >>> from gappletron import play
    >>> history = play("gapsmh", "synthetic:K=3,d=40,noise=0,T=2000", "bandit", seed=1)[0]
    >>> history.rounds, history.error_rate < 0.2, history.curve.rounds[:4].tolist()
    (2000, True, [1, 2, 3, 4])
    """

    name: str
    learner: Learner
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
    curve: Curve

    @property
    def error_rate(self) -> float:
        """Mistakes per round."""
        return self.mistakes / self.rounds if self.rounds else 0.0


def curve_of(tally: Tally, with_losses: bool) -> Curve:
    """The marked rounds that were reached, and the last round."""
    import numpy as np

    rounds, passed = tally.played
    counts, sums, at = tally.counts_at[:passed], tally.sums_at[:passed], tally.marks[:passed]
    if rounds and (passed == 0 or at[-1] != rounds):
        counts, sums, at = np.vstack([counts, tally.counts]), np.vstack([sums, tally.sums]), np.append(at, rounds)
    return Curve(
        at.copy(),
        counts[:, MISTAKES].copy(),
        counts[:, LABELS_SEEN].copy(),
        counts[:, EXPLORED].copy(),
        counts[:, BLIND].copy(),
        sums[:, RATES].copy(),
        sums[:, LOSSES].copy() if with_losses else None,
    )


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
    def __getitem__(self, index: slice) -> Histories: ...
    def __getitem__(self, index: int | slice) -> History | Histories:
        return Histories(self._runs[index], self.title) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def names(self) -> list[str]:
        """The learners' names, in the order in which they were given."""
        return list(dict.fromkeys(run.name for run in self))

    def of(self, name: str) -> list[History]:
        """The runs of one learner."""
        return [run for run in self if run.name == name]

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells: a row for each learner."""
        return [_row(name, self.of(name)) for name in self.names]

    def __str__(self) -> str:
        rows = [HEADER, *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
        pads = [str.ljust, *[str.rjust] * (len(HEADER) - 1)]
        lines = [
            "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)) for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(([self.title] if self.title else []) + lines)

    def __repr__(self) -> str:
        return f"<Histories of {', '.join(self.names)}: {len(self)} runs>"

    def to_frame(self) -> pandas.DataFrame:
        """The runs as a pandas DataFrame, one row per run; `loss_sum` is NaN unless the losses were requested.

        >>> from gappletron import play
        >>> runs = play(["gapsmh", "gaphin"], "synthetic:K=3,d=40,T=500", "bandit", repeats=2)
        >>> runs.to_frame()[["name", "repeat", "rounds"]]
             name  repeat  rounds
        0  gapsmh       0     500
        1  gapsmh       1     500
        2  gaphin       0     500
        3  gaphin       1     500
        """
        try:
            import pandas
        except ImportError:
            raise UserError("to_frame needs pandas, which is not installed: pip install 'gappletron[pandas]'") from None
        columns = {column: [getattr(run, column) for run in self] for column in COLUMNS}
        return pandas.DataFrame(columns).astype({"loss_sum": float})

    def plot(self, path: str | Path | None = None, ax: Axes | None = None) -> Figure:
        """Draw the error rate against the rounds: the mean of the repeats, and a band from minimum to maximum.

        With `path`, also write it, as PNG, SVG or PDF by the suffix.
        """
        return error_curves(self, path, ax)


COLUMNS = (
    "name",
    "repeat",
    "seed",
    "rounds",
    "mistakes",
    "error_rate",
    "labels_seen",
    "explored",
    "blind_rounds",
    "rate_sum",
    "loss_sum",
    "seconds",
)
"""The columns of :meth:`Histories.to_frame`."""

HEADER = ("learner", "mean error", "min", "max", "labels seen", "ns per round")


def _row(name: str, runs: list[History]) -> tuple[str, ...]:
    rates = [run.error_rate for run in runs]
    rounds = sum(run.rounds for run in runs)
    seen = sum(run.labels_seen for run in runs) / len(runs)
    nanoseconds = sum(run.seconds for run in runs) / max(1, rounds) * 1e9
    return (
        printable(name),
        f"{sum(rates) / len(rates):.4f}",
        f"{min(rates):.4f}",
        f"{max(rates):.4f}",
        f"{seen:,.0f}",
        f"{nanoseconds:,.0f}",
    )


def error_curves(histories: Histories, path: str | Path | None, ax: Axes | None) -> Figure:
    """The plot of :meth:`Histories.plot`."""
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    if ax is None:
        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        ax = figure.add_subplot()
    else:
        figure = ax.get_figure(root=True)  # type: ignore[assignment]
    banded = 0
    for name, colour in zip(histories.names, COLOURS * (1 + len(histories.names) // len(COLOURS)), strict=False):
        curves = [run.curve for run in histories.of(name) if run.rounds]
        if not curves:
            continue
        shared = min((curve.rounds for curve in curves), key=len)
        rates = np.array([curve.error_rate[: len(shared)] for curve in curves])
        ax.plot(shared, rates.mean(axis=0), color=colour, label=printable(name), linewidth=1.8)
        if len(curves) > 1:
            banded = len(curves)
            ax.fill_between(shared, rates.min(axis=0), rates.max(axis=0), color=colour, alpha=0.18, linewidth=0)
    what = f"round (mean of {banded} runs; band from minimum to maximum)" if banded else "round"
    ax.set(xscale="log", xlabel=what, ylabel="mistakes so far / rounds so far", ylim=(0, None))
    ax.set_title(histories.title, parse_math=False)
    if max(run.rounds for run in histories) >= 1000:
        ax.set_xlim(left=10)  # the first rounds are mostly noise, and their wide bands would hide the rest
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    ax.grid(alpha=0.25)
    if ax.lines:
        for text in ax.legend(frameon=False).get_texts():
            text.set_parse_math(False)
    if path is not None:
        _files.save_figure(figure, path)
    return figure
