"""The pages: tables between the markers of docs/benchmarks.md, a table of all runs as CSV, and the figures."""

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


def line_row(line: Line) -> list[str]:
    """One row of the table of all players."""
    errors = [shown(line.errors.get(horizon)) for horizon in HORIZONS]
    words = f"{line.setting.name}{' (tuned)' if line.setting.tuned else ''}"
    end = f"{line.error:.4f} at {line.rounds:,}"
    return [line.stream, words, *errors, end, f"{line.labels_seen:,.0f}", f"{line.nanoseconds:,.0f}"]


def line_table(lines: list[Line]) -> str:
    """Every player, one row each."""
    header = ["stream", "player", *(f"T = {horizon:,}" for horizon in HORIZONS), "end", "labels seen", "ns per round"]
    return table(header, [line_row(line) for line in lines])


def all_tables(lines: list[Line]) -> str:
    """A table for each form and graph."""
    parts = []
    for form in FORMS:
        for graph in GRAPHS:
            here = [line for line in lines if (line.form, line.graph) == (form, graph)]
            if here:
                parts += [f"### {GRAPH_WORDS[graph].capitalize()}, {form} streams", "", line_table(here), ""]
    return "\n".join(parts).rstrip("\n")


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


def write_csv(lines: list[Line], path: Path) -> None:
    """Every line of the tables as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["stream", "form", "graph", "player", "tuned", "seeds", "rounds", "error", "labels", "ns"])
        for line in lines:
            for rounds, error in line.errors.items():
                start = [line.stream, line.form, line.graph, line.setting.name, line.setting.tuned, line.seeds]
                writer.writerow([*start, rounds, f"{error:.6f}", f"{line.labels_seen:.1f}", f"{line.nanoseconds:.0f}"])


def write(runs: list[Run], docs: Path, out: Path, *, planned: int, is_quick: bool) -> None:
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
        "all": all_tables(lines),
    }
    page = docs / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = replaced(text, name, part)
    page.write_text(text, encoding="utf-8")
    write_csv(lines, out / "table.csv")
    print(f"wrote {page}, {out / 'table.csv'}, {', '.join(drawn)}")
    if ratios:
        print(parts["ratios"])
