"""Reproduces the paper: runs what is not stored yet, then writes the table, the figures and the report."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gappletron.base import files
from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.base.progress import View
from gappletron.kernel.compiling import source_hash
from gappletron.paper.claims import Verdict
from gappletron.paper.compilation import compile_in_processes
from gappletron.paper.report import Picture
from gappletron.paper.runner import run
from gappletron.paper.sensitivity import Size, Tally
from gappletron.paper.store import Result, Store, write_table
from gappletron.paper.sweeps import FIGURES, ROUNDS, Task, drawable, left_out, selected
from gappletron.play.runs import usable_cores

MAX_COMPILERS = 8  # processes: there are some forty loops, and each process needs a second to start


__all__ = ["Plan", "Reproduction", "carry_out", "carry_out_sensitivity", "planned", "reproduce"]


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
    plan = planned(figures, rounds, repeats)
    return carry_out(plan, out, jobs=jobs, executor=executor, in_flight=in_flight, view=view)


def planned(figures: Sequence[str] = (), rounds: int = ROUNDS, repeats: int | None = None) -> Plan:
    """The runs that :func:`reproduce` needs, or a UserError where there are none."""
    tasks = selected(figures, rounds, repeats)
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
    from gappletron.paper.claims import verdicts
    from gappletron.paper.report import write_report
    from gappletron.paper.sensitivity import stored
    from gappletron.paper.summary import Summary

    tasks = plan.tasks
    workers = usable_cores() if jobs is None else whole(jobs, "jobs", least=1, most=100_000)
    view = View() if view is None else view

    with Store(out) as store:
        view.left_out(left_out(plan.figures, {task.sweep for task in tasks}))
        results = completed(store, [tasks], workers, executor, in_flight, view)
        # Still under the lock of the store, so that no other command writes these files.
        write_table(results, Path(out) / "results.csv")
        pictures = draw_all(results, Path(out) / "figures", plan.figures, view)
        summary = Summary(results)
        judged = verdicts(summary)
        write_report(results, summary, judged, pictures, Path(out) / "report.html", stored())
    return Reproduction(results, judged)


def carry_out_sensitivity(
    out: str | os.PathLike[str],
    size: Size,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    in_flight: Callable[[], int] | None = None,
    view: View | None = None,
) -> Tally:
    """Run the paper's experiments under every reading, and write ``sensitivity.json``, ``.html`` and ``.png``."""
    from gappletron.paper.sensitivity import FILE, SETTINGS, needed, tally, to_json, told_over_seeds
    from gappletron.paper.sensitivity_page import write_page

    workers = usable_cores() if jobs is None else whole(jobs, "jobs", least=1, most=100_000)
    view = View() if view is None else view
    stages = needed(SETTINGS, size)
    with Store(out) as store:
        results = completed(store, stages, workers, executor, in_flight, view)
        view.drawing("sensitivity")
        found, words = tally(results, SETTINGS, size), told_over_seeds(results, size)
        with files.replacing(Path(out) / FILE) as file:
            file.write(to_json(found, words, size).encode())
        write_page(found, words, out)
    return found


def completed(
    store: Store,
    stages: Sequence[Sequence[Task]],
    workers: int,
    executor: Executor | None,
    in_flight: Callable[[], int] | None,
    view: View,
) -> list[Result]:
    """Run the tasks that are not stored, stage after stage, and return the results of all."""

    def finished(result: Result) -> None:
        view.finished(result.task.sweep, result.task.rounds)

    tasks = [task for stage in stages for task in stage]
    view.damaged(store.remove_damaged())
    stored = store.finished(tasks, source_hash())
    missing = [[task for task in stage if task.id not in stored] for stage in stages]
    waiting = [task for stage in missing for task in stage]
    if executor is None:
        compile_in_processes(waiting, min(workers, MAX_COMPILERS), view.compiling)
    view.begun(*([(task.sweep, task.rounds) for task in some] for some in (tasks, waiting)))
    with contextlib.ExitStack() as stack:
        pool = executor or stack.enter_context(ThreadPoolExecutor(workers))
        for stage in missing:
            run(stage, store, pool, in_flight or (lambda: workers), finished)
    stored = store.finished(tasks, source_hash())
    return [stored[task.id] for task in tasks]


def draw_all(results: Sequence[Result], folder: Path, figures: Sequence[str], view: View) -> list[Picture]:
    """Write the figures as PNG and SVG files, and remove those of an earlier command."""
    from gappletron.paper.figures import caption, draw, save
    from gappletron.paper.report import Picture

    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise files.cannot_write(folder, error.strerror or str(error)) from None
    pictures = []
    drawn = drawable(figures, {result.task.sweep for result in results})
    for figure in FIGURES:
        if figure not in drawn:
            for kind in ("png", "svg"):
                (folder / f"{figure.id}.{kind}").unlink(missing_ok=True)
    for figure in drawn:
        view.drawing(figure.id)
        save(draw(figure, results), folder / figure.id)
        pictures.append(Picture(figure, (folder / f"{figure.id}.svg").read_bytes(), caption(figure, results)))
    return pictures
