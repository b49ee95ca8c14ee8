"""The two pages: ``report.html`` (runs, figures, claims, bounds, times) and ``sensitivity.html`` with its heat map."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gappletron.paper import templates, theorems
from gappletron.paper.claims import CLAIMS, ENOUGH_ROUNDS, OURS, Claim, Verdict
from gappletron.paper.evidence import ERROR_RATE, FAILS, HOLDS, UNKNOWN, adjust
from gappletron.paper.figures.drawing import DPI, Saved, use_figure_style
from gappletron.paper.figures.grids import find_contests
from gappletron.paper.results import Result, Summary
from gappletron.paper.sensitivity import BASE_SETTING, SEEDS, Tally
from gappletron.paper.styles import label_learner
from gappletron.paper.sweeps import SWEEPS
from gappletron.paper.theory import DECODED, THEOREMS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


# How well a claim holds: the colour that the page gives it, and what it says.
KINDS = {"all": "holds", "part": "holds in at least half of the cells", "none": "holds in fewer"}


def render(
    results: Sequence[Result],
    summary: Summary,
    verdicts: Sequence[Verdict],
    pictures: Sequence[Saved],
    study: Tally | None = None,
) -> str:
    """Return the report.

    :param pictures: the figures, as :func:`gappletron.paper.figures.catalogue.draw_all` returns them.
    :param study: the counts of the sensitivity run.
    """
    uppers = theorems.upper_bounds(results)
    words = {verdict.claim.id: verdict.word for verdict in verdicts}
    strips = itertools.groupby(verdicts, key=lambda verdict: _find_group(verdict.claim))
    paper = [verdict for verdict in verdicts if verdict.claim.source != OURS]
    return templates.render(
        "report.html.jinja",
        results=results,
        rounds=max(result.task.rounds for result in results),
        enough_rounds=ENOUGH_ROUNDS,
        seconds=sum(result.outcome.seconds for result in results),
        sweeps=_describe_sweeps(results),
        probes=sorted({probes for result in results if (probes := result.task.pieces.probes) is not None}),
        pictures=[picture for picture in pictures if not picture.figure.beyond],
        beyond=[picture for picture in pictures if picture.figure.beyond],
        contests=[*find_contests(summary, "decoded"), *find_contests(summary)],
        verdicts=verdicts,
        verdict_words=words,
        strips=[(sweep, list(some)) for sweep, some in strips],
        kinds=KINDS,
        grades={verdict.claim.id: _grade(verdict) for verdict in verdicts},
        links={verdict.claim.id: _find_figures(verdict.claim, pictures) for verdict in verdicts},
        words=[(word, sum(words[verdict.claim.id] == word for verdict in paper)) for word in (HOLDS, FAILS, UNKNOWN)],
        adjusted=_count_adjusted(paper),
        error_rate=ERROR_RATE,
        study=study,
        base=BASE_SETTING,
        study_seeds=len(SEEDS),
        paper=paper,
        unjudged=[claim.id for claim in CLAIMS if claim.id not in words],
        tables=_make_tables(summary),
        uppers=uppers,
        tightness=_tabulate_tightness(uppers),
        table=_fill_table(uppers),
        confidence=theorems.CONFIDENCE,
        lowers=theorems.lower_bounds(results),
        times=_measure_times(results),
        delta=theorems.DELTA,
        standard_errors=theorems.STANDARD_ERRORS,
    )


def _count_adjusted(verdicts: Sequence[Verdict]) -> list[tuple[str, int]]:
    """Return how often each of the three words is said, if all together may be wrong at the error rate."""
    said = list(adjust({each.claim.id: each.levels for each in verdicts if each.levels is not None}).values())
    return [(word, said.count(word)) for word in (HOLDS, FAILS, UNKNOWN)]


def _grade(verdict: Verdict) -> str:
    """Return one of KINDS."""
    return "all" if verdict.holds else "part" if verdict.part >= 0.5 else "none"


def _find_group(claim: Claim) -> str:
    """Return the graph that a claim of the paper is about."""
    return claim.needs[0].partition(":")[0] if claim.source != OURS else OURS


def _find_figures(claim: Claim, pictures: Sequence[Saved]) -> list[str]:
    """Return the figures that show the runs of a claim: for each sweep that it needs the one of its tuning, or else
    that of the better tunings.
    """
    found = []
    for sweep, _, tuning in (needed.partition(":") for needed in claim.needs):
        shown = [picture.figure for picture in pictures if picture.figure.sweeps[0] == sweep]
        exact = [figure for figure in shown if figure.tunings == ((tuning,) if tuning else None)]
        found += [figure.id for figure in (exact or shown)[-1:]]
    return found


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


def _tabulate_tightness(uppers: Sequence[theorems.Upper]) -> dict[str, Any]:
    """Return the table of the measured mistakes over the bounds: theorems as rows, graphs as columns."""
    cells = {(cell.theorem, cell.task.graph): cell for cell in theorems.find_tightest(uppers)}
    graphs = list(dict.fromkeys(row.task.graph for row in uppers))
    names = [theorem.name for theorem in THEOREMS + DECODED if any(name == theorem.name for name, _ in cells)]
    return {"graphs": graphs, "rows": [(name, [cells.get((name, graph)) for graph in graphs]) for name in names]}


# Table 1 of the paper: the rows, the orders that it prints, and the theorems in our list for partial and full feedback.
TABLE = (
    ("non-separable", "B √(ρKT)", "KB²", "expectation", "full-expectation"),
    ("separable", "B √(ρT)", "B²", "expectation-separable", "full-expectation-separable"),
)


def _fill_table(uppers: Sequence[theorems.Upper]) -> dict[str, Any] | None:
    """Return the paper's Table 1 with the bounds and mistakes of GapSmH on unit vectors, for each graph."""
    rows = {
        (row.theorem, row.task.graph): row
        for row in uppers
        if row.task.learner == "gapsmh" and not row.task.optimizer.startswith("fixed-ogd") and row.refusal is None
    }
    graphs = list(dict.fromkeys(graph for _, graph in rows))
    lines = [
        (name, partial, full, [rows.get((whole if graph == "full" else part, graph)) for graph in graphs])
        for name, partial, full, part, whole in TABLE
    ]
    return {"graphs": graphs, "rows": lines} if rows else None


def _measure_times(results: Sequence[Result]) -> list[tuple[str, int, float, float]]:
    """Return, for each learner, the runs, the seconds in total, the nanoseconds per round."""
    rows = []
    for learner in sorted({result.task.learner.partition(":")[0] for result in results}):
        some = [result for result in results if result.task.learner.partition(":")[0] == learner]
        seconds = sum(result.outcome.seconds for result in some)
        rows.append((learner, len(some), seconds, 1e9 * seconds / sum(result.task.rounds for result in some)))
    return rows


# ---------------------------------------------------------------------------------------------------- sensitivity.html

# The axes, as columns of the page.
QUESTIONS = {
    "rounds": "T",
    "constant": "L",
    "norm": "X",
    "gamma": "only-T γ",
    "root": "SOBAdiag's rate",
    "banditron": "Banditron",
    "least_b": "b",
    "plane": "L and T",
}


def draw_heat_map(found: Tally) -> Picture:
    """Draw claims by settings: the colour is the share of cells in which the rule is true.

    A dot marks that the claim holds, which is with more than half of the seeds of the data.
    """
    from matplotlib.figure import Figure as Picture

    claims, settings = found.claims(), found.settings()
    with use_figure_style():
        height, width = 0.22 * len(claims) + 3.2, 0.22 * len(settings) + 3.6
        picture = Picture(figsize=(width, height), dpi=DPI)
        ax = picture.add_axes((2.9 / width, 2.55 / height, 1.0 - 3.5 / width, 1.0 - 3.1 / height))
        shares = [
            [math.nan if (share := found.find_share(claim.id, setting)) is None else share.mean for setting in settings]
            for claim in claims
        ]
        image = ax.imshow(shares, cmap="cividis", vmin=0.0, vmax=1.0, aspect="auto", interpolation="none")
        held = [
            (x, y)
            for y, claim in enumerate(claims)
            for x, setting in enumerate(settings)
            if found.find_counts(claim.id, setting) and found.find_held_share(claim.id, setting) > 0.5
        ]
        if held:
            xs, ys = zip(*held, strict=True)
            ax.plot(xs, ys, "o", markersize=4.0, color="black", markeredgecolor="white")
        ax.set_xticks(range(len(settings)), [setting.label for setting in settings], rotation=90, fontsize=7.0)
        ax.set_yticks(range(len(claims)), [claim.id for claim in claims], fontsize=7.0)
        ax.tick_params(length=0)
        for place in range(1, len(settings)):
            if settings[place].axis != settings[place - 1].axis:
                ax.axvline(place - 0.5, color="white", linewidth=2.5)
        ax.set_title(
            f"{found.count_robust(True)} of {len(claims)} claims hold under every reading and on all seeds, "
            f"{found.count_robust(False)} never (colour: share of cells with a true rule; dot: holds on most seeds)",
            fontsize=10.0,
        )
        bar = picture.add_axes((1.0 - 0.42 / width, 2.55 / height, 0.12 / width, 1.0 - 3.1 / height))
        picture.colorbar(image, cax=bar).ax.tick_params(labelsize=7.0)
    return picture


def render_sensitivity(found: Tally, picture: bytes) -> str:
    """Return the page of the sensitivity run, with the heat map as PNG."""
    return templates.render(
        "sensitivity.html.jinja",
        study=found,
        base=BASE_SETTING,
        questions=QUESTIONS,
        picture=picture,
        seeds=max(len(found.find_counts(claim.id, BASE_SETTING)) for claim in found.claims()),
    )
