"""The figures: pure functions of runs and ratios."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.peers.feedback import GRAPHS
from benchmarks.peers.runs import BAD_START, picture_stream
from benchmarks.peers.settings import OURS
from benchmarks.peers.summary import CLOSE, lines

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from benchmarks.peers.runs import Run
    from benchmarks.peers.settings import Setting
    from benchmarks.peers.summary import Ratio

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
LINES = ("-", "-", "--", "-", "--", "-.", ":", ":")
"""Two greedy learners draw the same curve: dashes show both."""
GRAPH_WORDS = {
    "full": "full information",
    "filtering": "filtering",
    "label-efficient": "label efficient",
    "bandit": "bandit",
}
RATIOS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
LIBRARY_WORDS = {"VW": "Vowpal Wabbit", "River": "River", "scikit-learn": "scikit-learn"}


def new_figure(width: float, height: float) -> Figure:
    """An empty figure that no window shows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=150, metadata={"Software": None})


# ----------------------------------------------------------------------------------------------------------- front page


def picture_name(setting: Setting) -> str:
    """A player's ordinary name."""
    if setting.package == "Ours":
        return f"Gappletron ({setting.method})"
    package = LIBRARY_WORDS[setting.package]
    return f"{package}, deliver the first {setting.amount:g}" if setting.policy == "first" else f"{package}, greedy"


def bad_start(runs: list[Run], path: Path) -> bool:
    """Running error where only delivered mail is seen and the first messages are spam; whether there was anything.

    The first of our learners is drawn, whatever its error: choosing the best of them here would be hindsight.
    """
    found = [run for run in runs if run.task.form == "bad start"]
    groups: dict[Setting, list[Run]] = {}
    for run in found:
        groups.setdefault(run.task.setting, []).append(run)
    if not groups:
        return False
    drawn = [setting for setting in groups if setting.package != "Ours" or setting.method == OURS[0]]
    figure = new_figure(7.5, 4.2)
    axes = figure.add_subplot()
    for colour, dashes, setting in zip(COLOURS, LINES, drawn, strict=False):
        group = groups[setting]
        rounds = group[0].outcome.rounds
        errors = np.array([run.outcome.mistakes for run in group]) / np.array(rounds)
        seen = statistics.mean(run.outcome.labels_seen[-1] for run in group)
        width = 2.5 if setting.package == "Ours" else 1.5
        label = f"{picture_name(setting)}: error {errors[:, -1].mean():.3f}, labels seen: {seen:,.0f}"
        axes.plot(rounds, errors.mean(axis=0), color=colour, linestyle=dashes, linewidth=width, label=label)
    is_mail = picture_stream() == "sms_spam"
    axes.set_xscale("log")
    axes.set_xlim(10, rounds[-1])
    axes.set_ylim(0, 1)
    axes.set_xlabel("messages" if is_mail else "rounds")
    axes.set_ylabel("running error")
    words = "Only delivered mail is seen" if is_mail else f"{picture_stream()}: only one class reveals the label"
    axes.set_title(
        f"{words}; {BAD_START} {'spam messages' if is_mail else 'rows that hide'} were moved to the front", fontsize=11
    )
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
    return True


# --------------------------------------------------------------------------------------------------------------- ratios


def ratio_dots(ratios: list[Ratio], path: Path) -> bool:
    """Our error over the peers' best in hindsight, a dot for each cell, by graph; whether there was anything."""
    if not ratios:
        return False
    learners = list(dict.fromkeys(ratio.learner for ratio in ratios))
    figure = new_figure(7.5, 1.2 + 0.9 * len(GRAPHS))
    axes = figure.add_subplot()
    rng = np.random.default_rng(0)
    for place, graph in enumerate(GRAPHS):
        for which, learner in enumerate(learners):
            values = [ratio.value for ratio in ratios if (ratio.best.graph, ratio.learner) == (graph, learner)]
            if not values:
                continue
            height = place + 0.7 * ((which + 0.5) / len(learners) - 0.5)
            spots = height + rng.uniform(-0.2, 0.2, len(values)) / len(learners)
            label = learner if place == 0 else None
            axes.plot(values, spots, "o", color=COLOURS[which], markersize=3.5, alpha=0.6, label=label)
            axes.plot(statistics.median(values), height, "|", color=COLOURS[which], markersize=16, markeredgewidth=2.5)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.axvline(CLOSE, color="black", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xticks(RATIOS, [f"{ratio:g}" for ratio in RATIOS])
    axes.minorticks_off()
    axes.set_yticks(range(len(GRAPHS)), [GRAPH_WORDS[graph] for graph in GRAPHS])
    axes.invert_yaxis()
    values = [ratio.value for ratio in ratios]
    axes.set_xlim(0.95 * min(0.9, *values), 1.05 * max(2.0, *values))
    axes.set_xlabel(f"our error / the least error of peers, chosen in hindsight (dotted: {CLOSE}; bars: medians)")
    axes.legend(frameon=False, fontsize=8, ncols=max(1, len(learners)), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
    return True


# ---------------------------------------------------------------------------------------------------------------- speed


def list_speeds(runs: list[Run]) -> dict[str, list[float]]:
    """Nanoseconds per round of every player whose setting is the same on all streams, one number for each stream."""
    groups: dict[str, list[float]] = {}
    for line in lines(runs):
        if line.form == "prepared" and not line.setting.tuned:
            name = f"{line.setting.name} ({GRAPH_WORDS[line.graph]})"
            groups.setdefault(name, []).append(line.nanoseconds)
    return groups


def speed_dots(groups: dict[str, list[float]], path: Path) -> bool:
    """Nanoseconds per round of every player, a dot for each stream; whether there was anything."""
    if not groups:
        return False
    names = sorted(groups, key=lambda name: statistics.median(groups[name]))
    figure = new_figure(9.0, 1.6 + 0.2 * len(names))
    axes = figure.add_subplot()
    for place, name in enumerate(names):
        colour = COLOURS[0] if name.startswith("Ours") else COLOURS[1]
        axes.plot(groups[name], [place] * len(groups[name]), "o", color=colour, markersize=4, alpha=0.6)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.set_xlabel("nanoseconds per round, a dot for each stream")
    figure.suptitle(
        "A round is cheapest where many are played in one compiled call (ours, blue);\n"
        "others (orange) are called from Python once or twice a round, which costs microseconds",
        fontsize=11,
    )
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
    return True


def draw_all(runs: list[Run], ratios: list[Ratio], folder: Path) -> list[str]:
    """Every figure that the runs allow; the names of their files."""
    made = {
        "benchmark-start.png": bad_start(runs, folder / "benchmark-start.png"),
        "benchmark-ratios.png": ratio_dots(ratios, folder / "benchmark-ratios.png"),
        "benchmark-speed.png": speed_dots(list_speeds(runs), folder / "benchmark-speed.png"),
    }
    return [name for name, was_made in made.items() if was_made]
