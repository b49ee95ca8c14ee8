"""The recorded errors of peers, each with its parameters chosen in hindsight (`../shared/research/peers.csv`)."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.settings import Setting, active, burn_in, cbify, graph_feedback, now_and_then, one_vs_all, river

FILE = Path(__file__).resolve().parents[3] / "shared" / "research" / "peers.csv"


class Best(NamedTuple):
    """The least error that any peer reached on a stream, a graph and a number of rounds."""

    stream: str
    graph: str
    rounds: int
    error: float
    method: str
    parameters: str
    labels_seen: int
    settings_tried: int
    most_frequent_class_error: float


def read(path: Path = FILE) -> list[Best]:
    """Every recorded best; none where the file is not there."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [best_of(row) for row in csv.DictReader(file)]


def best_of(row: dict[str, str]) -> Best:
    """One line of the file."""
    return Best(
        stream=row["stream"],
        graph=row["graph"],
        rounds=int(row["rounds"]),
        error=float(row["best_error"]),
        method=row["method"],
        parameters=row["parameters_chosen_in_hindsight"],
        labels_seen=int(row["labels_seen"]),
        settings_tried=int(row["settings_tried"]),
        most_frequent_class_error=float(row["most_frequent_class_error"]),
    )


def loss_and_flags(words: str) -> tuple[str, str]:
    """The loss and the options of Vowpal Wabbit.

    >>> loss_and_flags("hinge nonorm -l 2 m=100")
    ('hinge', '--adaptive --invariant -l 2')
    """
    loss, *rest = words.split()
    flags = ["--adaptive --invariant" if word == "nonorm" else word for word in rest if "=" not in word]
    return loss, " ".join(flags)


def number_after(name: str, words: str) -> float:
    """The number in "name=number".

    >>> number_after("m", "hinge -l 1 m=1000")
    1000.0
    """
    return float(re.search(rf"\b{name}=([0-9.]+)", words)[1])


def setting_of(best: Best) -> Setting | None:
    """The setting of a recorded best, or None for a hand-written baseline of which no library is the peer."""
    method, words = best.method, re.sub(r"\[.*\]", "", best.parameters).strip()
    if method.startswith("VW --oaa + first m"):
        loss, flags = loss_and_flags(words)
        found = burn_in(one_vs_all(loss, flags), int(number_after("m", words)))
    elif method.startswith("VW --oaa + eps-explore"):
        loss, flags = loss_and_flags(words)
        found = now_and_then(one_vs_all(loss, flags), number_after("eps", words))
    elif method.startswith("VW --oaa"):
        found = one_vs_all(method.split()[-1], words)
    elif method.startswith("VW --cbify"):
        found = cbify(words)
    elif method.startswith("VW --active"):
        found = active(method.split()[-1], words)
    elif method.startswith("VW --graph_feedback"):
        found = graph_feedback(" ".join(word for word in words.split() if "=" not in word))
    elif method.startswith("River"):
        found = river(method.split()[-1], float(number_after_parenthesis(words)))
    else:
        return None
    return found._replace(tuned=True)


def number_after_parenthesis(words: str) -> str:
    """The number in "AdaGrad(1)"."""
    return re.search(r"\(([0-9.]+)\)", words)[1]


def tuned_settings(stream: str, graph: str, bests: list[Best]) -> list[Setting]:
    """The settings that were best for some number of rounds of this stream and graph."""
    found = (setting_of(best) for best in bests if (best.stream, best.graph) == (stream, graph))
    return list(dict.fromkeys(setting for setting in found if setting is not None))


def error_of(stream: str, graph: str, rounds: int, bests: list[Best]) -> float | None:
    """The recorded least error of this cell, if there is one."""
    for best in bests:
        if (best.stream, best.graph, best.rounds) == (stream, graph, rounds):
            return best.error
    return None
