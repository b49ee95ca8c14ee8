"""Plays the pages of the gallery, writes what their code prints into them, and draws their figures.

    python docs/gallery.py [sms ...]

The code is that of the pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from outputs import play_page

from gappletron.base.colours import COLOURS

HERE = Path(__file__).parent
Names = Mapping[str, Any]
# What the figure of a page says, and its curves: the total cost after each round, by label.
FIGURES: dict[str, tuple[str, str, Callable[[Names], dict[str, Any]]]] = {
    "sms": (
        "Learning from delivered messages alone costs\nno more than learning from all of them",
        "messages",
        lambda names: {
            "greedy": names["runs"].of("greedy"),
            "every label": names["ideal"].of("every label"),
            "auto": names["runs"].of("auto"),
        },
    ),
    "fraud": (
        "Chargebacks alone come too late:\nanalysts who look find out at once",
        "payments",
        lambda names: names["totals"],
    ),
    "loans": (
        "Outcomes must be learned at the same age:\nas they come, the first ones are all bad",
        "applications",
        lambda names: names["totals"],
    ),
    "triage": (
        "A greedy model sends nearly everybody home;\nthe default learns whom it may send home",
        "patients",
        lambda names: {
            "greedy": names["runs"].of("greedy"),
            "auto": names["runs"].of("auto"),
            "every label": names["ideal"].of("every label"),
        },
    ),
    "moderation": (
        "Too few answers of moderators\ncost more than the moderators",
        "posts",
        lambda names: names["found"],
    ),
    "labelling": (
        "A price buys labels when they are needed,\nalso after the release",
        "tickets",
        lambda names: {label: names["runs"].of(label) for label in names["learners"]},
    ),
}


def find_curve(runs: Any) -> tuple[Any, Any]:
    """Return the rounds and the mean cost up to each, of runs or of a list of totals."""
    if hasattr(runs[0], "curve"):
        return runs[0].curve.rounds, np.mean([run.curve.mean_cost for run in runs], axis=0)
    rounds = np.unique(np.geomspace(1, len(runs), 200).astype(int))
    return rounds, np.asarray(runs)[rounds - 1] / rounds


def draw(name: str, names: Names) -> None:
    """Draw the curves of a page, labelled at their ends."""
    title, unit, choose = FIGURES[name]
    figure = Figure(figsize=(6.4, 4.6), layout="constrained")
    axes = figure.subplots()
    ends = []
    for (label, runs), colour, line in zip(choose(names).items(), COLOURS, ("--", ":", "-", "-.", "-"), strict=False):
        rounds, costs = find_curve(runs)
        keep = rounds >= rounds[-1] / 60
        axes.plot(rounds[keep], costs[keep], color=colour, linestyle=line, linewidth=2.2)
        ends.append([costs[-1], label, colour])
    axes.set_ylim(0, None)
    axes.set_xlim(0, rounds[-1])
    gap = 0.062 * axes.get_ylim()[1]
    place = -np.inf
    for cost, label, colour in sorted(ends):
        place = max(cost, place + gap)
        axes.annotate(
            label, (rounds[-1], place), xytext=(6, 0), textcoords="offset points", color=colour, fontsize=13,
            va="center", annotation_clip=False,
        )  # fmt: skip
    axes.set_title(title, fontsize=15, loc="left")
    axes.set_xlabel(unit, fontsize=13)
    axes.set_ylabel("mean cost so far", fontsize=13)
    axes.tick_params(labelsize=12)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / f"gallery-{name}.png", dpi=110)


def main() -> None:
    """Play the pages that are named, or all."""
    for name in sys.argv[1:] or FIGURES:
        page = HERE / f"gallery-{name}.md"
        names, text = play_page(page)
        page.write_text(text, "utf-8")
        draw(name, names)
        print(page.name)


if __name__ == "__main__":
    main()
