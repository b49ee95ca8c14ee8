"""``report.html``: one file with the runs, the figures, the claims, the bounds and the times."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from gappletron.base import files
from gappletron.paper.beyond import contests
from gappletron.paper.claims import CLAIMS, OURS, Verdict
from gappletron.paper.drawing import label_of
from gappletron.paper.evidence import ERROR_RATE, FAILS, HOLDS, UNKNOWN
from gappletron.paper.sensitivity import (
    SEEDS,
    SETTINGS,
    Interval,
    Tally,
    best,
    best_by_share,
    flips,
    held_claims,
    robust,
)
from gappletron.paper.store import Result
from gappletron.paper.summary import Summary
from gappletron.paper.sweeps import SWEEPS, Figure, probes
from gappletron.paper.theorems import CONFIDENCE, DELTA, STANDARD_ERRORS, Upper, lower_bounds, tightness, upper_bounds
from gappletron.paper.theory import THEOREMS

__all__ = ["Picture", "render", "write_report"]


class Picture(NamedTuple):
    """A drawn figure: its SVG and its caption."""

    figure: Figure
    svg: bytes
    caption: str

    @property
    def uri(self) -> str:
        """The SVG as a data URI."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()


CHOICES: tuple[tuple[str, str], ...] = (
    ("Number of rounds T", "The paper does not give it. Here it is set by --rounds, by default 100,000."),
    (
        "Exploration",
        "The paper's figures use the rule of Algorithm 1 exactly ('paper'). On graphs whose dominating set is smaller "
        "than K, that rule does not observe every label as often as the proof needs; our rule ('top-up') does, and one "
        "figure compares the two. In label efficient classification the uniform distribution of Algorithm 1 is over "
        "all K + 1 actions, because otherwise no label would ever be observed.",
    ),
    (
        "Loss",
        "GapLog uses the paper's logistic loss in base K, which is not regular for three or more classes: no theorem "
        "applies to it. The theorems are shown for the smooth hinge, the hinge (kappa = 1/2) and the logistic loss in "
        "base 2.",
    ),
    (
        "Optimizer",
        "The paper's figures use gradient descent without projection, with the rate 1 / sqrt(1e-8 + sum of squared "
        "gradient norms). The bounds need a regret guarantee, so they are shown for its projected version.",
    ),
    ("Ties", "The lowest index wins, for the greedy class and for the runner-up."),
    (
        "Theory tuning",
        "Gappletron: gamma = h sqrt(K rho L) / 2 with h = 1. Banditron: min(1/2, (K X^2 / T)^(1/3)), in filtering "
        "min(1/2, (X^2 / T)^(1/3)) (the paper prints max). PNewtron: min(1/2, (d K / T)^(1/3)); the paper says only "
        "that it depends on d. SOBAdiag: its adaptive rate.",
    ),
    (
        "Tuning with only T",
        "Gappletron: gamma = 1. Banditron and PNewtron: min(1/2, T^(-1/3)). SOBAdiag: min(1/2, T^(-1/2)).",
    ),
    (
        "Other parameters",
        "PNewtron: alpha = 10, beta = 0.01, D = 1. SOBAdiag and the second-order Perceptron: the initial matrix is the "
        "identity. Passive-aggressive: PA, without a limit on the step. Label-efficient Perceptron: the b of the "
        "figure. 'Explored' counts the rounds in which the action is not the greedy class. On unit vectors a noisy "
        "label is one of the other classes, uniformly at random.",
    ),
    (
        "The constant L",
        "In the theory tuning of Gappletron, L of ||grad||^2 <= 2 L l is that of each loss: X^2/ln K for GapLog, 2 X^2 "
        "for GapHin, 4 X^2 for GapSmH. The paper does not say which values it used; the verdicts on theory tuning "
        "depend on them more than on anything else that is open.",
    ),
    (
        "The norm X",
        "The largest norm of a feature vector, in the theory tunings of Gappletron and Banditron. The mean norm is "
        "another reading.",
    ),
    (
        "Banditron",
        "The importance-weighted version, in the bandit graph and in filtering. The paper says that the standard "
        "version is not satisfactory; it is drawn lightly in the bandit figures, and a claim compares the two.",
    ),
    (
        "Data",
        "Keyword sets are drawn again if two classes have the same one. The seed of every data set is 0; data sets "
        "that differ only in their noise have the same rows. Repeat r of every learner uses the same random numbers.",
    ),
    (
        "Label efficient",
        "Nine data sets (d = 120). A query is a separate action without a prediction, so it counts as a mistake. This "
        "is also so for the label-efficient Perceptron, whose authors do not count queries.",
    ),
    (
        "Adversaries",
        "The turned segment is the one in which the learner plays the revealing class least often, averaged over the "
        "repeats of the sweep{probes}. The second-order Perceptron with a full matrix plays only the smallest of the "
        "three streams of fresh features, because its matrix has (Kd)^2 entries.",
    ),
    ("Best of tunings", "For each learner in each cell, the tuning with the lower mean."),
)


class Study(NamedTuple):
    """What the stored sensitivity run says, for the report.

    `most` is the reading under which most claims hold, and `held` their number there, averaged over the seeds of the
    data; `by_share` is the one with the largest share of cells. `by_claim` has what is said of each claim.
    """

    most: str
    by_share: str
    held: float
    base: float
    claims: int
    settings: int
    by_claim: dict[str, Dependence]

    @property
    def robust(self) -> tuple[int, int]:
        """The number of claims that hold under every reading, and of those that hold under none."""
        found = [one.robust for one in self.by_claim.values()]
        return found.count(True), found.count(False)


class Dependence(NamedTuple):
    """A claim in the sensitivity run: the share of cells under the best reading, how robust it is, what flips it."""

    share: Interval | None
    held: float | None
    robust: bool | None
    sentence: str
    over_seeds: str | None


def study_of(studied: tuple[Tally, Mapping[str, str]] | None) -> Study | None:
    """What a report says of a sensitivity run; None without one."""
    if studied is None or not studied[0].claims():
        return None
    found, words = studied
    most, claims = best(found), [claim.id for claim in found.claims()]
    judged = [claim for claim in claims if found.of(claim, most)]
    return Study(
        most.label,
        best_by_share(found).label,
        held_claims(found, most),
        held_claims(found, SETTINGS[0]),
        len(claims),
        len(found.settings()),
        {
            claim: Dependence(
                found.share(claim, most) if claim in judged else None,
                found.held(claim, most) if claim in judged else None,
                robust(found, claim),
                flips(found, claim),
                words.get(claim),
            )
            for claim in claims
        },
    )


def render(
    results: Sequence[Result],
    summary: Summary,
    verdicts: Sequence[Verdict],
    pictures: Iterable[Picture],
    studied: tuple[Tally, Mapping[str, str]] | None = None,
) -> str:
    """The HTML page. `studied` is the outcome of a sensitivity run (:mod:`gappletron.paper.sensitivity`)."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        thousands=lambda number: f"{number:,.0f}",
        short=lambda number: f"{number:.4g}",
        label=label_of,
        duration=_duration,
        count=_count,
    )
    template = environment.from_string(
        resources.files(__package__).joinpath("report.html.jinja").read_text(encoding="utf-8")
    )
    judged = [verdict.claim for verdict in verdicts]
    drawn = list(pictures)
    uppers = upper_bounds(results)
    told = {verdict.claim.id: verdict.told for verdict in verdicts}
    ours_not = [claim for claim in judged if claim.source != OURS]
    return template.render(
        facts=_facts(results),
        sweeps=_sweeps(results),
        choices=_choices(results),
        pictures=[picture for picture in drawn if not picture.figure.beyond],
        beyond=[picture for picture in drawn if picture.figure.beyond],
        contests=contests(summary),
        verdicts=verdicts,
        told=told,
        words=[(word, sum(told[claim.id] == word for claim in ours_not)) for word in (HOLDS, FAILS, UNKNOWN)],
        error_rate=ERROR_RATE,
        study=study_of(studied),
        seeds=len(SEEDS),
        paper=[verdict for verdict in verdicts if verdict.claim.source != OURS],
        unjudged=[claim.id for claim in CLAIMS if claim not in judged],
        tables=_tables(summary),
        uppers=uppers,
        tightness=_tightness(uppers),
        confidence=CONFIDENCE,
        lowers=lower_bounds(results),
        times=_times(results),
        delta=DELTA,
        standard_errors=STANDARD_ERRORS,
    )


def write_report(
    results: Sequence[Result],
    summary: Summary,
    verdicts: Sequence[Verdict],
    pictures: Iterable[Picture],
    path: str | os.PathLike[str],
    studied: tuple[Tally, Mapping[str, str]] | None = None,
) -> None:
    """Write the page; an existing file is replaced in one step."""
    with files.replacing(path) as file:
        file.write(render(results, summary, verdicts, pictures, studied).encode())


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _facts(results: Sequence[Result]) -> dict[str, Any]:
    return {
        "runs": len(results),
        "rounds": max(result.task.rounds for result in results),
        "seconds": sum(result.outcome.seconds for result in results),
        "versions": sorted({result.outcome.version for result in results}),
        "sources": sorted({result.outcome.sources for result in results}),
        "machines": sorted({result.outcome.machine for result in results}),
        "finished": max(result.outcome.finished_at for result in results),
    }


def _choices(results: Sequence[Result]) -> list[tuple[str, str]]:
    """What the paper does not specify, and the choice made here."""
    found = sorted({n for result in results if (n := probes(result.task.stream)[1]) is not None})
    runs = f" ({', '.join(map(str, found))} runs)" if found else ""
    return [(what, how.format(probes=runs)) for what, how in CHOICES]


def _sweeps(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row per sweep: what was run."""
    rows = []
    for name in dict.fromkeys(sweep.id for sweep in SWEEPS if any(result.task.sweep == sweep.id for result in results)):
        some = [result for result in results if result.task.sweep == name]
        rows.append(
            {
                "id": name,
                "graphs": sorted({result.task.graph for result in some}),
                "streams": len(
                    {(run.task.classes, run.task.features, run.task.noise, run.task.rounds) for run in some}
                ),
                "learners": _learners(some),
                "runs": len(some),
                "repeats": 1 + max(result.task.repeat for result in some),
                "rounds": sum(result.task.rounds for result in some),
                "seconds": sum(result.outcome.seconds for result in some),
            }
        )
    return rows


def _learners(results: Sequence[Result]) -> list[str]:
    """The labels of the learners, each once, with the number of settings where there are several."""
    settings: dict[str, set[str]] = {}
    for result in results:
        settings.setdefault(result.task.learner.partition(":")[0], set()).add(result.task.learner)
    return [
        label_of(name) + (f" ({len(found)} settings)" if len(found) > 1 else "") for name, found in settings.items()
    ]


def _tables(summary: Summary) -> list[dict[str, Any]]:
    """The numbers of the grids: one table per sweep of the paper, with cells as rows and learners as columns."""
    tables = []
    for sweep in ("bandit", "filtering", "full", "label-efficient"):
        cells = summary.cells(sweep)
        columns = [
            (learner, spread.configuration.tuning, spread.configuration.optimizer)
            for learner in summary.learners(sweep)
            for spread in (summary.spreads(sweep, learner, cells[0]) if cells else ())
        ]
        if cells:
            rows = [
                (
                    cell,
                    [
                        summary.best(sweep, name, cell, tuning=tuning, optimizer=optimizer)
                        for name, tuning, optimizer in columns
                    ],
                )
                for cell in cells
            ]
            tables.append({"sweep": sweep, "columns": columns, "rows": rows})
    return tables


def _tightness(uppers: Sequence[Upper]) -> dict[str, Any]:
    """The table of the measured mistakes over the bounds: theorems as rows, graphs as columns."""
    cells = {(cell.theorem, cell.graph): cell for cell in tightness(uppers)}
    graphs = list(dict.fromkeys(row.graph for row in uppers))
    names = [theorem.name for theorem in THEOREMS if any(name == theorem.name for name, _ in cells)]
    return {"graphs": graphs, "rows": [(name, [cells.get((name, graph)) for graph in graphs]) for name in names]}


def _times(results: Sequence[Result]) -> list[tuple[str, int, float, float]]:
    """For each learner: the runs, the seconds in total, the nanoseconds per round."""
    rows = []
    for learner in sorted({result.task.learner.partition(":")[0] for result in results}):
        some = [result for result in results if result.task.learner.partition(":")[0] == learner]
        seconds = sum(result.outcome.seconds for result in some)
        rows.append((learner, len(some), seconds, 1e9 * seconds / sum(result.task.rounds for result in some)))
    return rows
