"""The pages: tables between the markers of docs/benchmarks.md, a table of all players as CSV, and the figures."""

from __future__ import annotations

import csv
import platform
from importlib import metadata
from typing import TYPE_CHECKING

from benchmarks.peers import figures, recorded, summary
from benchmarks.peers.feedback import GRAPHS
from benchmarks.peers.figures import GRAPH_WORDS
from benchmarks.peers.players import HORIZONS
from benchmarks.peers.streams import FORMS
from benchmarks.peers.summary import CLOSE

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peers.runs import Run
    from benchmarks.peers.summary import Duel, Line, Ratio

PACKAGES = ("gappletron", "vowpalwabbit", "river", "scikit-learn", "numpy", "numba")


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def shown(error: float | None) -> str:
    """An error in a table."""
    return "" if error is None else f"{error:.4f}"


def version_of(package: str) -> str:
    """The installed version, or that there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def circumstances(played: int, planned: int, is_quick: bool) -> str:
    """Versions, the machine's kind, and how much was played."""
    versions = ", ".join(f"{package} {version_of(package)}" for package in PACKAGES)
    kind = "a quick benchmark (1,000 rounds, one seed)" if is_quick else "the whole benchmark"
    machine = f"Python {platform.python_version()} on {platform.machine()}"
    return f"{played:,} of the {planned:,} runs of {kind}. {machine}; {versions}."


# --------------------------------------------------------------------------------------------------------------- tables


def spread_row(name: str, graph: str, values: list[float]) -> list[str]:
    """One row of the table of ratios."""
    found = summary.spread(values)
    return [name, graph, str(found.cells), f"{found.median:.2f}", f"{found.close:.0%}", f"{found.largest:.2f}"]


def ratio_table(ratios: list[Ratio]) -> str:
    """Our error against the peers' best in hindsight: for each learner, over all cells and by graph."""
    rows = []
    for learner in dict.fromkeys(ratio.learner for ratio in ratios):
        mine = [ratio for ratio in ratios if ratio.learner == learner]
        rows.append(spread_row(f"`{learner}`", "all", [ratio.value for ratio in mine]))
        for graph in GRAPHS:
            values = [ratio.value for ratio in mine if ratio.best.graph == graph]
            if values:
                rows.append(spread_row(f"`{learner}`", GRAPH_WORDS[graph], values))
    return table(["learner", "graph", "cells", "median ratio", f"at most {CLOSE}", "largest"], rows)


def peer_cell(line: Line | None, rounds: int) -> str:
    """A peer's error and name in the table of duels."""
    return "" if line is None else f"{line.errors[rounds]:.4f} ({line.setting.name})"


def duel_table(duels: list[Duel]) -> str:
    """Ours beside the best peers, at the end of each stream."""
    learners = [line.setting.method for line in duels[0].ours]
    header = ["stream", "graph", "rounds", *(f"`{name}`" for name in learners), "best peer, fixed settings"]
    header += ["best peer, tuned in hindsight", "best recorded"]
    rows = []
    for duel in duels:
        ours = {line.setting.method: line.errors.get(duel.rounds) for line in duel.ours}
        cells = [
            duel.stream,
            GRAPH_WORDS[duel.graph],
            f"{duel.rounds:,}",
            *(shown(ours.get(name)) for name in learners),
        ]
        cells += [peer_cell(duel.fixed, duel.rounds), peer_cell(duel.tuned, duel.rounds), shown(duel.recorded)]
        rows.append(cells)
    return table(header, rows)


def natural_table(duels: list[Duel]) -> str:
    """Streams in the order of their time: ours, the default of version 0.2.0, and the best peer."""
    learners = [line.setting.method for line in duels[0].ours]
    header = ["stream", "graph", "rounds", *(f"`{name}`" for name in learners), "best peer, fixed settings"]
    rows = []
    for duel in duels:
        ours = [shown(line.error) for line in duel.ours]
        cells = [duel.stream, GRAPH_WORDS[duel.graph], f"{duel.rounds:,}", *ours, peer_cell(duel.fixed, duel.rounds)]
        rows.append(cells)
    return table(header, rows)


def links(names: list[str]) -> str:
    """The figures that were drawn."""
    captions = {
        "benchmark-start.png": "Running error where only delivered mail is seen and the first messages are spam",
        "benchmark-ratios.png": "Our error over the least error of peers, a dot for each cell",
        "benchmark-speed.png": "Nanoseconds per round of every player",
    }
    return "\n\n".join(f"![{captions[name]}]({name})" for name in names)


# -------------------------------------------------------------------------------------------------------------- writing


def replaced(page: str, name: str, text: str) -> str:
    """The page with new text between the markers of a part.

    >>> print(replaced("<!-- begin x -->\\nold\\n<!-- end x -->", "x", "new"))
    <!-- begin x -->
    new
    <!-- end x -->
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{text}\n{end}{after}"


def list_cells(line: Line) -> list[str]:
    """One row of the table of all players."""
    errors = [shown(line.errors.get(horizon)) for horizon in HORIZONS]
    start = [line.form, GRAPH_WORDS[line.graph], line.stream, line.setting.name, "yes" if line.setting.tuned else "no"]
    end = [str(line.rounds), f"{line.error:.4f}", f"{line.labels_seen:.0f}", f"{line.nanoseconds:.0f}"]
    return [*start, *errors, *end]


def write_csv(lines: list[Line], path: Path) -> None:
    """Write every player on every stream and graph, one row each, sorted by form and graph as they are listed."""
    header = ["form", "graph", "stream", "player", "tuned", *(f"error_at_{horizon}" for horizon in HORIZONS)]
    order = sorted(lines, key=lambda line: (FORMS.index(line.form), list(GRAPHS).index(line.graph)))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*header, "rounds", "error", "labels_seen", "ns_per_round"])
        writer.writerows(map(list_cells, order))


def write(runs: list[Run], docs: Path, *, planned: int, is_quick: bool) -> None:
    """Tables, figures and the CSV, of the runs that were played among those planned."""
    bests = recorded.read()
    lines = summary.lines(runs)
    ratios = summary.ratios(runs, bests)
    duels = summary.duels(lines, bests)
    natural = summary.duels(lines, [], "natural")
    drawn = figures.draw_all(runs, ratios, docs)
    parts = {
        "circumstances": circumstances(len(runs), planned, is_quick),
        "ratios": ratio_table(ratios)
        if ratios
        else "The recorded errors of peers were not there when this was written.",
        "figures": links(drawn),
        "duels": duel_table(duels) if duels else "No prepared stream was played.",
        "natural": natural_table(natural) if natural else "No stream in natural order was played.",
    }
    page = docs / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = replaced(text, name, part)
    page.write_text(text, encoding="utf-8")
    write_csv(lines, docs / "benchmarks.csv")
    print(f"wrote {page}, {docs / 'benchmarks.csv'}, {', '.join(drawn)}")
    if ratios:
        print(parts["ratios"])
