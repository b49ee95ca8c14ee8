"""What one-sided feedback does on two real streams: SMS messages and Reuters news, as a picture for the docs.

    python benchmarks/curves.py [--out docs/curves.png]

Needs `../shared/data`. Predicting the most frequent class shows the label; other predictions show nothing. The same
learner plays with its own exploration, without any, after a burn-in, and with every label shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gappletron import BurnIn, Greedy, named, open_stream, play

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
AUTO, PLAIN = named("auto"), named("one-against-all")
PLAYERS = {
    "Gappletron (auto)": (AUTO, "filtering"),
    "greedy": (PLAIN.replace(exploration=Greedy()), "filtering"),
    "greedy after a burn-in of 100": (PLAIN.replace(exploration=BurnIn(rounds=100)), "filtering"),
    "sees every label": (AUTO, "full"),
}
STYLES = {
    "Gappletron (auto)": {"color": "#0072b2", "linewidth": 2.4},
    "greedy": {"color": "#d55e00", "linestyle": "--", "linewidth": 2.0},
    "greedy after a burn-in of 100": {"color": "#009e73", "linestyle": "-.", "linewidth": 2.0},
    "sees every label": {"color": "#cc79a7", "linestyle": ":", "linewidth": 2.0},
}
REPEATS = 5


def streams() -> dict[str, tuple[object, object]]:
    """The streams and the class that reveals, the most frequent one."""
    sms = open_stream(DATA / "sms_spam.tsv.gz", label="label", columns=["label", "message"], text="message")
    reuters = open_stream(str(DATA / "reuters21578.svm.gz"))
    labels = np.concatenate([chunk.labels for chunk in reuters.chunks()])
    return {
        "SMS messages, from raw text: only delivered ones are read": (sms, "ham"),
        "Reuters news: only what is predicted as the most frequent topic is checked": (
            reuters,
            reuters.classes[int(np.bincount(labels).argmax())],
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "curves.png")
    options = parser.parse_args()
    figure = Figure(figsize=(11, 7.6), layout="constrained")
    axes = figure.subplots(2, 2)
    for row, (title, (stream, revealing)) in zip(axes, streams().items(), strict=True):
        print(title)
        for name, (learner, graph) in PLAYERS.items():
            shown = {"revealing": revealing} if graph == "filtering" else {}
            runs = play({name: learner}, stream, graph, repeats=REPEATS, **shown)
            rounds = runs[0].curve.rounds
            keep = rounds >= 20
            errors = np.mean([run.curve.error_rate for run in runs], axis=0)
            seen = np.mean([run.curve.labels_seen for run in runs], axis=0)
            row[0].plot(rounds[keep], 100 * errors[keep], label=name, **STYLES[name])
            row[1].plot(rounds[keep], seen[keep], label=name, **STYLES[name])
            print(f"  {name:30} error {errors[-1]:.4f}, labels seen {seen[-1]:,.0f} of {rounds[-1]:,}")
        row[0].set(title=title, xlabel="rounds", ylabel="running error (%)", ylim=(0, None))
        row[0].title.set(fontsize=10, horizontalalignment="left", position=(0, 1))
        row[1].set(xlabel="rounds", ylabel="labels seen", ylim=(0, None))
        for axis in row:
            axis.grid(alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
