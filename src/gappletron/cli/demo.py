"""``gappletron demo``: real data under partial feedback, the default learner beside greedy ones, in one picture."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import gappletron as gp
from gappletron.base.checks import whole
from gappletron.base.colours import COLOURS
from gappletron.base.files import cannot_write, check_writable, save_figure
from gappletron.base.progress import progress
from gappletron.cli.output import play_and_report, say, show_table

EXAMPLES = """\
gappletron demo
gappletron demo --repeats 3 --rounds 300
gappletron demo --out pictures"""

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

OURS, GREEDY, BURN_IN, ALL_LABELS = "Gappletron (auto)", "greedy", "greedy after a burn-in of 50", "sees every label"
STYLES = dict(zip((OURS, GREEDY, BURN_IN, ALL_LABELS), ("-", "--", "-.", ":"), strict=True))
# What the title of a picture calls those that see only what they reveal, and what is written at the ends of lines.
SHORT = {GREEDY: "greedy", BURN_IN: "greedy after a burn-in", OURS: "Gappletron"}
ENDS = {OURS: "Gappletron", GREEDY: "greedy", BURN_IN: "burn-in of 50", ALL_LABELS: "every label"}
# A method that sees no label in so many last rounds counts as stuck.
LAST = 100
# The running error of the first rounds jumps, and is not drawn.
FIRST_DRAWN = 20


def demo(
    rounds: Annotated[int | None, typer.Option(help="Play at most this many rows of each data set.")] = None,
    repeats: Annotated[int, typer.Option(help="Random orders of the rows. Default: 20.")] = 20,
    out: Annotated[Path, typer.Option(help="The folder of the picture. Default: demo.", metavar="FOLDER")] = Path(
        "demo"
    ),
) -> None:
    """Play two real data sets under partial feedback, beside a greedy model; print the tables and draw the picture."""
    picture = out / "demo.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(picture, error.strerror or str(error)) from None
    check_writable(picture)
    shown: list[gp.Histories] = []
    for comparison in list_comparisons(repeats, rounds):
        with progress("compiling"):
            comparison.make_runs(0)

        def report(histories: gp.Histories, _: str | None, positive: str | None = comparison.positive) -> None:
            show_table(histories.title, *make_table(histories, positive))
            say()
            shown.append(histories)

        play_and_report(comparison, report)
    draw(shown, picture)
    say("The greedy methods learn by AROW, the first of the three scorers of the default learner.")
    say(f"'stuck' counts the orders in which no label was seen in the last {LAST} rounds.")
    say(f"The picture is in {picture}")


@dataclass
class Comparison:
    """The runs of every method on random orders of the rows of a data set, under partial feedback.

    `order` shuffles the rows by a seed, `length` is how many of them are played, `orders` how often.

    >>> comparison = list_comparisons(orders=2, rounds=30)[0]
    >>> list(comparison)[-1], comparison.histories().names
    (60, ['Gappletron (auto)', 'greedy', 'greedy after a burn-in of 50', 'sees every label'])
    """

    title: str
    X: NDArray[Any]
    y: NDArray[Any]
    graph: gp.FeedbackGraph
    order: Callable[[int], NDArray[Any]]
    length: int
    orders: int
    positive: str | None = None
    played: list[gp.History] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """The rounds of all orders."""
        return self.length * self.orders

    def make_runs(self, seed: int) -> list[gp.Runs]:
        """Return runs under partial feedback, and with every label revealed; they are compiled."""
        hidden: dict[str, gp.Learner] = {
            OURS: gp.Guarded(),
            GREEDY: gp.OneAgainstAll(exploration=gp.Greedy()),
            BURN_IN: gp.OneAgainstAll(exploration=gp.BurnIn(rounds=50)),
        }
        order = self.order(seed)[: self.length]
        stream = gp.open_stream((self.X[order], self.y[order]), classes=self.graph.classes)
        full = gp.FeedbackGraph.full(self.graph.classes)
        return [
            gp.Runs(hidden, stream, self.graph, seed=seed, curve="every"),
            gp.Runs({ALL_LABELS: hidden[OURS]}, stream, full, seed=seed, curve="every"),
        ]

    def __iter__(self) -> Iterator[int]:
        for seed in range(self.orders):
            for runs in self.make_runs(seed):
                before = len(self.played)
                for _ in runs:
                    played = [dataclasses.replace(run, repeat=seed) for run in runs.histories()]
                    self.played[before:] = played
                    yield seed * self.length + played[0].rounds

    def histories(self) -> gp.Histories:
        """Return what happened up to now."""
        orders = f"{self.orders} random orders" if self.orders > 1 else "one random order"
        return gp.Histories(self.played, f"{self.title} ({self.length:,} rows in {orders})")


def list_comparisons(orders: int, rounds: int | None = None) -> list[Comparison]:
    """Return what is played: scikit-learn's breast cancer data as screening, also with an unlucky start, and digits.

    >>> [comparison.length for comparison in list_comparisons(orders=2)]
    [569, 569, 1797]
    """
    import numpy as np
    from sklearn.datasets import load_breast_cancer, load_digits

    whole(orders, "repeats", least=1)
    cancer, digits = load_breast_cancer(), load_digits()
    classes = ["malignant", "benign"]
    diagnosis = np.array(classes)[cancer.target]

    def compare(title: str, X: NDArray[Any], y: NDArray[Any], graph: gp.FeedbackGraph) -> Comparison:
        length = len(y) if rounds is None else min(whole(rounds, "rounds", least=1), len(y))
        return Comparison(
            title, X, y, graph, lambda seed: np.random.default_rng(seed).permutation(len(y)), length, orders
        )

    def put_healthy_first(seed: int) -> NDArray[Any]:
        order = screening.order(seed)
        early = np.cumsum(diagnosis[order] == "benign") <= 50
        first = early & (diagnosis[order] == "benign")
        return np.concatenate((order[first], order[~first]))

    screening = compare(
        "Breast cancer screening: only the prediction 'malignant' leads to the biopsy that reveals the label",
        cancer.data,
        diagnosis,
        gp.FeedbackGraph.filtering(classes, revealing="malignant"),
    )
    screening.positive = "malignant"
    unlucky = "The same with an unlucky start: the first 50 patients are healthy"
    return [
        screening,
        dataclasses.replace(screening, title=unlucky, order=put_healthy_first, played=[]),
        compare(
            "Handwritten digits as a bandit: a prediction only reveals whether it was right",
            digits.data,
            digits.target,
            gp.FeedbackGraph.bandit(10),
        ),
    ]


def make_table(histories: gp.Histories, positive: str | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows of a setting's table: a row for each method."""
    header, rows = histories.header, histories.rows()
    if positive is None:
        return header, rows
    for place, name in enumerate(histories.names):
        runs, confusion = histories.of(name), histories.confusion(name).counts
        sick = runs[0].graph.class_index(positive)
        missed, needless = confusion[1 - sick, sick] / len(runs), confusion[sick, 1 - sick] / len(runs)
        rows[place] += (f"{missed:.1f}", f"{needless:.1f}", f"{sum(map(is_stuck, runs))} of {len(runs)}")
    return (*header, "cancers missed", "needless biopsies", "stuck"), rows


def is_stuck(run: gp.History) -> bool:
    """Return whether a method saw no label in its last rounds."""
    seen = run.curve.labels_seen
    return len(seen) > LAST and bool(seen[-1] == seen[-1 - LAST])


def conclude(histories: gp.Histories) -> str:
    """Return what a setting shows: which methods get stuck, or, where none does, which has the lowest error."""
    stuck = {name: sum(map(is_stuck, histories.of(name))) for name in SHORT}
    greedy = [(SHORT[name], number) for name, number in stuck.items() if number and name != OURS]
    if greedy:
        (first, number), *others = [*greedy, (SHORT[OURS], stuck[OURS] or "none")]
        begin = f"{first.capitalize()} gets stuck in {number} of {len(histories.of(OURS))} orders"
        return ", ".join([begin, *(f"{name} in {count}" for name, count in others)])
    mistakes = {name: sum(run.mistakes for run in histories.of(name)) for name in SHORT}
    return f"No method gets stuck; {SHORT[min(mistakes, key=lambda name: mistakes[name])]} has the lowest error"


def draw(shown: Sequence[gp.Histories], path: Path) -> None:
    """Draw two panels for each setting, one above the other so that a phone can show them: the running error, and the
    labels seen.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(6.4, 7.2 * len(shown)), layout="constrained")
    parts = figure.subfigures(len(shown), 1, squeeze=False, hspace=0.05)[:, 0]
    for part, histories in zip(parts, shown, strict=True):
        part.suptitle(textwrap.fill(conclude(histories), 60), fontsize=13, parse_math=False)
        errors, labels = part.subplots(2, 1, height_ratios=(3, 2))
        _draw_panel(errors, histories, "error_rate", "running error")
        _draw_panel(labels, histories, "labels_seen", "labels seen")
        errors.set_title(textwrap.fill(histories.title, 72), fontsize=10.5, loc="left", parse_math=False)
        errors.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        labels.set_xlabel("rows so far", fontsize=12)
    save_figure(figure, path)


def _draw_panel(ax: Axes, shown: gp.Histories, of: str, title: str) -> None:
    """Draw the mean over the orders as a thick line that is labelled at its end, and each order as a thin one."""
    import numpy as np

    ends = []
    for name, colour in zip(STYLES, COLOURS, strict=False):
        runs = shown.of(name)
        if not runs:
            continue
        rounds = runs[0].curve.rounds
        values = np.array([getattr(run.curve, of) for run in runs], float)
        start = min(FIRST_DRAWN, len(rounds)) - 1
        ax.plot(rounds[start:], values[:, start:].T, color=colour, linewidth=0.6, alpha=0.25, zorder=2)
        mean = values[:, start:].mean(0)
        ax.plot(rounds[start:], mean, STYLES[name], color=colour, linewidth=2.4, zorder=3)
        ends.append((mean[-1], rounds[-1], ENDS[name], colour))
    ax.set(xlim=(0, None), ylim=(0, None))
    ax.set_ylabel(title, fontsize=12)
    label_ends(ax, ends)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def label_ends(ax: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write names beside the ends of lines, one above the other: each is the height and the place of an end, the name
    and its colour.
    """
    top, room = 0.0, 0.033 * ax.get_ylim()[1]  # half a line of text
    for height, end, name, colour in sorted(ends):
        half = room * (name.count("\n") + 1)
        place = max(height, top + half)
        ax.annotate(
            name, (end, place), (6, 0), textcoords="offset points", color=colour, va="center", annotation_clip=False
        )
        top = place + half
