"""What one-sided feedback does on two real streams: SMS messages and Reuters news, as a picture for the docs.

    python benchmarks/curves.py [--out docs/curves.png]

Needs `../shared/data`. Predicting the most frequent class reveals the label; other predictions reveal nothing. The
default learner plays, beside one without exploration, one with a burn-in, and itself with every label revealed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gappletron import BurnIn, Greedy, named, open_stream, play
from gappletron.cli.demo import label_ends

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
AUTO, PLAIN = named("auto"), named("one-against-all")
PLAYERS = {
    "auto": (AUTO, "filtering"),
    "greedy": (PLAIN.replace(exploration=Greedy()), "filtering"),
    "burn-in of 100": (PLAIN.replace(exploration=BurnIn(rounds=100)), "filtering"),
    "every label": (AUTO, "full"),
}
STYLES = {
    "auto": {"color": "#0072b2", "linewidth": 2.4},
    "greedy": {"color": "#d55e00", "linestyle": "--", "linewidth": 2.0},
    "burn-in of 100": {"color": "#009e73", "linestyle": "-.", "linewidth": 2.0},
    "every label": {"color": "#cc79a7", "linestyle": ":", "linewidth": 2.0},
}
REPEATS = 5


def streams() -> dict[str, tuple[object, object]]:
    """The streams and the class that reveals, the most frequent one."""
    sms = open_stream(DATA / "sms_spam.tsv.gz", label="label", columns=["label", "message"], text="message")
    reuters = open_stream(str(DATA / "reuters21578.svm.gz"))
    labels = np.concatenate([chunk.labels for chunk in reuters.chunks()])
    return {
        "SMS messages, of which only delivered ones are read:\ngreedy does as well": (sms, "ham"),
        "Reuters news, of which only one predicted topic is checked:\ngreedy never sees a second label": (
            reuters,
            reuters.classes[int(np.bincount(labels).argmax())],
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "curves.png")
    options = parser.parse_args()
    figure = Figure(figsize=(7, 8), layout="constrained")
    for ax, (title, (stream, revealing)) in zip(figure.subplots(2, 1), streams().items(), strict=True):
        print(title)
        ends = []
        for name, (learner, graph) in PLAYERS.items():
            shown = {"revealing": revealing} if graph == "filtering" else {}
            runs = play({name: learner}, stream, graph, repeats=REPEATS, **shown)
            rounds = runs[0].curve.rounds
            keep = rounds >= 20
            errors = np.mean([run.curve.error_rate for run in runs], axis=0)
            seen = np.mean([run.labels_seen for run in runs])
            ax.plot(rounds[keep], 100 * errors[keep], **STYLES[name])
            ends.append((100 * errors[-1], rounds[-1], f"{name}:\n{seen:,.0f} labels", STYLES[name]["color"]))
            print(f"  {name:30} error {errors[-1]:.4f}, labels seen {seen:,.0f} of {rounds[-1]:,}")
        ax.set_title(title, fontsize=13, loc="left")
        ax.set(xlim=(0, None), ylim=(0, None))
        ax.set_xlabel("rounds", fontsize=12)
        ax.set_ylabel("running error (%)", fontsize=12)
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
        label_ends(ax, ends)
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
