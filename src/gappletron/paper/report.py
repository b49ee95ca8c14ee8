"""``report.html``: one file with the runs, the figures, the claims, the bounds and the times."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gappletron.base import files
from gappletron.paper import templates
from gappletron.paper.claims import CLAIMS, OURS, Verdict
from gappletron.paper.evidence import ERROR_RATE, FAILS, HOLDS, UNKNOWN
from gappletron.paper.figures.beyond import find_contests
from gappletron.paper.figures.drawing import Saved
from gappletron.paper.results import Result, Summary
from gappletron.paper.sensitivity import Study
from gappletron.paper.styles import label_learner
from gappletron.paper.sweeps import SWEEPS
from gappletron.paper.theorems import (
    CONFIDENCE,
    DELTA,
    STANDARD_ERRORS,
    Upper,
    find_tightest,
    lower_bounds,
    upper_bounds,
)
from gappletron.paper.theory import THEOREMS


def render(
    results: Sequence[Result],
    summary: Summary,
    verdicts: Sequence[Verdict],
    pictures: Sequence[Saved],
    study: Study | None = None,
) -> str:
    """Return the HTML page.

    :param pictures: the figures, as :func:`gappletron.paper.figures.catalogue.draw_all` returns them.
    :param study: what the sensitivity run says, as :func:`gappletron.paper.sensitivity.summarise` returns it.
    """
    uppers = upper_bounds(results)
    words = {verdict.claim.id: verdict.word for verdict in verdicts}
    paper = [verdict for verdict in verdicts if verdict.claim.source != OURS]
    return templates.render(
        "report.html.jinja",
        results=results,
        rounds=max(result.task.rounds for result in results),
        seconds=sum(result.outcome.seconds for result in results),
        sweeps=_describe_sweeps(results),
        probes=sorted({probes for result in results if (probes := result.task.pieces.probes) is not None}),
        pictures=[picture for picture in pictures if not picture.figure.beyond],
        beyond=[picture for picture in pictures if picture.figure.beyond],
        contests=find_contests(summary),
        verdicts=verdicts,
        verdict_words=words,
        words=[(word, sum(words[verdict.claim.id] == word for verdict in paper)) for word in (HOLDS, FAILS, UNKNOWN)],
        error_rate=ERROR_RATE,
        study=study,
        paper=paper,
        unjudged=[claim.id for claim in CLAIMS if claim.id not in words],
        tables=_make_tables(summary),
        uppers=uppers,
        tightness=_tabulate_tightness(uppers),
        confidence=CONFIDENCE,
        lowers=lower_bounds(results),
        times=_measure_times(results),
        delta=DELTA,
        standard_errors=STANDARD_ERRORS,
    )


def write_report(
    results: Sequence[Result],
    summary: Summary,
    verdicts: Sequence[Verdict],
    pictures: Sequence[Saved],
    path: str | os.PathLike[str],
    study: Study | None = None,
) -> None:
    """Write the page; an existing file is replaced in one step."""
    with files.replacing(path) as file:
        file.write(render(results, summary, verdicts, pictures, study).encode())


def _describe_sweeps(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return one row per sweep: what was run."""
    by_sweep = {sweep.id: [result for result in results if result.task.sweep == sweep.id] for sweep in SWEEPS}
    return [
        {
            "id": name,
            "runs": runs,
            "streams": len({(run.task.cell, run.task.rounds) for run in runs}),
            "learners": _label_learners(runs),
        }
        for name, runs in by_sweep.items()
        if runs
    ]


def _label_learners(results: Sequence[Result]) -> list[str]:
    """Return the labels of the learners, each once, with the number of settings where there are several."""
    settings: dict[str, set[str]] = {}
    for result in results:
        settings.setdefault(result.task.learner.partition(":")[0], set()).add(result.task.learner)
    return [
        label_learner(name) + (f" ({len(found)} settings)" if len(found) > 1 else "")
        for name, found in settings.items()
    ]


def _make_tables(summary: Summary) -> list[dict[str, Any]]:
    """Return the numbers of the grids: one table per sweep of the paper, with cells as rows and learners as columns."""
    tables = []
    for sweep in ("bandit", "filtering", "full", "label-efficient"):
        cells = summary.cells(sweep)
        shown = [spread for name in summary.learners(sweep) for spread in summary.spreads(sweep, name, cells[0])]
        columns = [(task.learner, task.tuning, task.optimizer) for task in (spread.configuration for spread in shown)]
        rows = [
            [summary.best(sweep, name, cell, tuning=tuning, optimizer=optimizer) for name, tuning, optimizer in columns]
            for cell in cells
        ]
        if cells:
            tables.append({"sweep": sweep, "columns": columns, "rows": list(zip(cells, rows, strict=True))})
    return tables


def _tabulate_tightness(uppers: Sequence[Upper]) -> dict[str, Any]:
    """Return the table of the measured mistakes over the bounds: theorems as rows, graphs as columns."""
    cells = {(cell.theorem, cell.graph): cell for cell in find_tightest(uppers)}
    graphs = list(dict.fromkeys(row.graph for row in uppers))
    names = [theorem.name for theorem in THEOREMS if any(name == theorem.name for name, _ in cells)]
    return {"graphs": graphs, "rows": [(name, [cells.get((name, graph)) for graph in graphs]) for name in names]}


def _measure_times(results: Sequence[Result]) -> list[tuple[str, int, float, float]]:
    """Return, for each learner, the runs, the seconds in total, the nanoseconds per round."""
    rows = []
    for learner in sorted({result.task.learner.partition(":")[0] for result in results}):
        some = [result for result in results if result.task.learner.partition(":")[0] == learner]
        seconds = sum(result.outcome.seconds for result in some)
        rows.append((learner, len(some), seconds, 1e9 * seconds / sum(result.task.rounds for result in some)))
    return rows
