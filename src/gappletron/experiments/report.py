"""``report.html``: one file that holds what was run, the figures, the claims, the bounds and the times."""

from __future__ import annotations

import base64
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from gappletron import _files
from gappletron.experiments.claims import CLAIMS, OURS
from gappletron.experiments.drawing import label_of
from gappletron.experiments.sweeps import SWEEPS, probes
from gappletron.experiments.theorems import DELTA, STANDARD_ERRORS, lower_bounds, upper_bounds

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from gappletron.experiments.claims import Verdict
    from gappletron.experiments.store import Result
    from gappletron.experiments.summary import Summary
    from gappletron.experiments.sweeps import Figure

__all__ = ["Picture", "render", "write_report"]


class Picture(NamedTuple):
    """A figure, drawn: its SVG and the words below it."""

    figure: Figure
    svg: bytes
    caption: str

    @property
    def uri(self) -> str:
        """The picture as a part of the page itself."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()


CHOICES: tuple[tuple[str, str], ...] = (
    ("The number of rounds T", "The paper does not say. Here it is what --rounds says, 100,000 unless told otherwise."),
    (
        "Exploration",
        "The paper's figures are drawn with Algorithm 1 to the letter ('paper'). On graphs whose dominating set is "
        "smaller than K that rule does not see every label as often as the proof says; our rule ('top-up') does, and "
        "one figure sets the two side by side. In label efficient classification the 'uniform' of Algorithm 1 is over "
        "all K + 1 actions, since nothing would ever be seen otherwise.",
    ),
    (
        "Loss",
        "GapLog is the paper's logistic loss in base K, which is not regular for three classes or more: no theorem "
        "applies to it. The theorems are shown with the smooth hinge, the hinge (kappa = 1/2), and the logistic loss "
        "in base 2.",
    ),
    (
        "Optimizer",
        "In the paper's figures, gradient descent without projection and with the rate 1 / sqrt(1e-8 + sum of squared "
        "gradient norms). The bounds need a guarantee, so they are shown with its projected form.",
    ),
    ("Ties", "The lowest index, for the greedy class and for its rival."),
    (
        "Theory tuning",
        "Gappletron: gamma = h sqrt(K rho L) / 2 with h = 1. Banditron: min(1/2, (K X^2 / T)^(1/3)), in filtering "
        "min(1/2, (X^2 / T)^(1/3)) (the paper prints max). PNewtron: min(1/2, (d K / T)^(1/3)): the paper says only "
        "that d is in it. SOBAdiag: its adaptive rate.",
    ),
    (
        "Tuning with only T",
        "Gappletron: gamma = 1. Banditron and PNewtron: min(1/2, T^(-1/3)). SOBAdiag: min(1/2, T^(-1/2)).",
    ),
    (
        "Other parameters",
        "PNewtron: alpha = 10, beta = 0.01, D = 1. SOBAdiag and the second-order Perceptron: their "
        "matrices begin as the "
        "identity. Passive-aggressive: without a cap (PA). Label-efficient Perceptron: the b of the figure. 'Explored' "
        "counts the rounds in which the action was not the greedy class. On unit vectors a noisy label is another "
        "class, uniformly.",
    ),
    (
        "Banditron",
        "The importance-weighted version, in the bandit graph as well as in filtering. That the standard "
        "version is not "
        "satisfactory, as the paper says, is not checked here: it is not run.",
    ),
    (
        "Data",
        "Keyword sets are drawn again where two classes would share one. The seed of every data set is 0; data sets "
        "that differ only in their noise have the same rows. Repeat r of every learner draws from the same numbers.",
    ),
    (
        "Label efficient",
        "Nine data sets (d = 120). A query is an action of its own that predicts nothing and so counts as a mistake, "
        "also for the label-efficient Perceptron, whose authors let labels come without a cost.",
    ),
    (
        "Against the adversaries",
        "The segment that is turned is the one in which the learner plays the revealing class least often, averaged "
        "over the sweep's own repeats{probes}. The second-order Perceptron with its full matrix plays the smallest of "
        "the three streams of fresh features alone: its matrix has (Kd)^2 entries.",
    ),
    ("Best of tunings", "For each learner in each cell, the tuning with the lower mean."),
)


def render(
    results: Sequence[Result], summary: Summary, verdicts: Sequence[Verdict], pictures: Iterable[Picture]
) -> str:
    """The page."""
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
    return template.render(
        facts=_facts(results),
        sweeps=_sweeps(results),
        choices=_choices(results),
        pictures=list(pictures),
        verdicts=verdicts,
        paper=[verdict for verdict in verdicts if verdict.claim.source != OURS],
        unjudged=[claim.id for claim in CLAIMS if claim not in judged],
        tables=_tables(summary),
        uppers=upper_bounds(results),
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
) -> None:
    """Write the page, whole or not at all."""
    with _files.replacing(path) as file:
        file.write(render(results, summary, verdicts, pictures).encode())


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
    """What the paper leaves open and what was chosen, with the number of runs that decide the turned segment."""
    found = sorted({n for result in results if (n := probes(result.task.stream)[1]) is not None})
    runs = f" ({', '.join(map(str, found))} runs)" if found else ""
    return [(what, how.format(probes=runs)) for what, how in CHOICES]


def _sweeps(results: Sequence[Result]) -> list[dict[str, Any]]:
    """What was run, a row for each sweep."""
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
    """Who played, each once; how many settings of it where there are several."""
    settings: dict[str, set[str]] = {}
    for result in results:
        settings.setdefault(result.task.learner.partition(":")[0], set()).add(result.task.learner)
    return [
        label_of(name) + (f" ({len(found)} settings)" if len(found) > 1 else "") for name, found in settings.items()
    ]


def _tables(summary: Summary) -> list[dict[str, Any]]:
    """The numbers behind the grids: for each sweep of the paper a table of cells by learners."""
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


def _times(results: Sequence[Result]) -> list[tuple[str, int, float, float]]:
    """For each learner: runs, seconds in all, nanoseconds a round."""
    rows = []
    for learner in sorted({result.task.learner.partition(":")[0] for result in results}):
        some = [result for result in results if result.task.learner.partition(":")[0] == learner]
        seconds = sum(result.outcome.seconds for result in some)
        rows.append((learner, len(some), seconds, 1e9 * seconds / sum(result.task.rounds for result in some)))
    return rows
