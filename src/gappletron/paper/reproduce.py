"""Reproduces the paper: runs what is not stored yet, then writes the table, the figures and the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gappletron.base.errors import UserError
from gappletron.base.progress import View
from gappletron.paper.claims import Verdict, judge_claims
from gappletron.paper.results import Result, Summary, Task
from gappletron.paper.runner import complete
from gappletron.paper.store import Store, write_table
from gappletron.paper.sweeps import ROUNDS


@dataclass(frozen=True)
class Reproduction:
    """What :func:`reproduce` returns: the runs sorted by id, and a verdict for each claim that they can decide.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = reproduce(folder, figures=["full"], rounds=50, repeats=1)
    >>> len(done.results), done.results[0].task.learner, done.results[0].task.rounds
    (162, 'gaphin', 50)
    >>> done.verdicts[0].claim.id, done.verdicts[0].claim.needs
    ('full-log-classes', ('full',))
    """

    results: list[Result]
    verdicts: list[Verdict]


class Plan(NamedTuple):
    """The requested figures or sweeps (all if empty), and the runs that they need."""

    figures: tuple[str, ...]
    tasks: list[Task]


def reproduce(
    out: str | os.PathLike[str] = "results",
    *,
    figures: Sequence[str] = (),
    rounds: int = ROUNDS,
    repeats: int | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    in_flight: Callable[[], int] | None = None,
    view: View | None = None,
) -> Reproduction:
    """Run the paper's experiments and write ``results.sqlite``, ``results.csv``, ``figures/`` and ``report.html`` to
    `out`.

    Runs that `out` already holds are not repeated if their parameters and the sources of the package are the same. So
    after an interruption, call it again. The table, the figures and the report cover the requested figures only.

    :param figures: ids of figures or sweeps (:data:`~gappletron.paper.sweeps.FIGURES`); by default all.
    :param rounds: T.
    :param repeats: number of runs of each randomized learner; by default that of the sweep, mostly ten.
    :param jobs: number of runs at the same time; by default the number of cores.
    :param executor: any executor of ``concurrent.futures``; by default `jobs` threads.
    :param in_flight: returns how many runs may be submitted and not yet stored; by default `jobs`.
    :param view: called with the progress.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = reproduce(folder, figures=["full"], rounds=50, repeats=1)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['figures', 'report.html', 'results.csv', 'results.sqlite']
    >>> len(done.results)
    162
    """
    plan = make_plan(figures, rounds, repeats)
    return carry_out(plan, out, jobs=jobs, executor=executor, in_flight=in_flight, view=view)


def make_plan(figures: Sequence[str] = (), rounds: int = ROUNDS, repeats: int | None = None) -> Plan:
    """Return the runs that :func:`reproduce` needs, or raise a UserError where there are none."""
    from gappletron.paper.figures.catalogue import select_tasks

    tasks = select_tasks(figures, rounds, repeats)
    if not tasks:
        raise UserError(f"there are no runs of {', '.join(figures)} with at most {rounds} rounds: give more rounds")
    return Plan(tuple(figures), tasks)


def carry_out(
    plan: Plan,
    out: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    in_flight: Callable[[], int] | None = None,
    view: View | None = None,
) -> Reproduction:
    """Run a plan and write the files of :func:`reproduce`."""
    from gappletron.paper.figures.catalogue import draw_all, list_missing
    from gappletron.paper.report import write_report
    from gappletron.paper.sensitivity import read_stored, summarise

    view, folder = view or View(), Path(out)
    with Store(out) as store:
        view.left_out(list_missing(plan.figures, {task.sweep for task in plan.tasks}))
        results = complete(store, [plan.tasks], jobs, executor, in_flight, view)
        # Still under the lock of the store, so that no other command writes these files.
        write_table(results, folder / "results.csv")
        pictures = draw_all(plan.figures, results, folder / "figures", view.drawing)
        summary = Summary(results)
        judged = judge_claims(summary)
        write_report(results, summary, judged, pictures, folder / "report.html", summarise(read_stored()))
    return Reproduction(results, judged)
