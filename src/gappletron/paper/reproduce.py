"""Reproduces the paper: runs what is not stored yet, then writes the tables, the figures and the pages."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from gappletron.base import files
from gappletron.base.errors import UserError
from gappletron.base.progress import View
from gappletron.paper import sensitivity
from gappletron.paper.claims import Verdict, judge_claims
from gappletron.paper.results import Result, Summary
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

    :param figures: ids of figures or sweeps (:data:`~gappletron.paper.figures.catalogue.FIGURES`); by default all.
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
    from gappletron.paper.figures.catalogue import draw_all, list_missing, select_tasks
    from gappletron.paper.report import render

    view, folder, tasks = view or View(), Path(out), select_tasks(figures, rounds, repeats)
    if not tasks:
        raise UserError(f"there are no runs of {', '.join(figures)} with at most {rounds} rounds: give more rounds")
    with Store(out) as store:
        view.left_out(list_missing(figures, {task.sweep for task in tasks}))
        results = complete(store, [tasks], jobs, executor, in_flight, view)
        # Still under the lock of the store, so that no other command writes these files.
        write_table(results, folder / "results.csv")
        pictures = draw_all(figures, results, folder / "figures", view.drawing)
        summary = Summary(results)
        verdicts = judge_claims(summary)
        with files.replacing(folder / "report.html") as file:
            file.write(render(results, summary, verdicts, pictures, sensitivity.read_stored()).encode())
    return Reproduction(results, verdicts)


def reproduce_readings(
    out: str | os.PathLike[str],
    size: sensitivity.Size = sensitivity.FULL_SIZE,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    in_flight: Callable[[], int] | None = None,
    view: View | None = None,
) -> sensitivity.Tally:
    """Run the experiments under every reading of the paper, and write ``sensitivity.json``, ``.html`` and ``.png``.

    The other parameters are those of :func:`reproduce`.

    :param size: how much is run.
    """
    from gappletron.paper.figures.drawing import DPI, use_figure_style
    from gappletron.paper.report import draw_heat_map, render_sensitivity

    view, folder = view or View(), Path(out)
    with Store(out) as store:
        results = complete(store, sensitivity.list_stages(sensitivity.SETTINGS, size), jobs, executor, in_flight, view)
        view.drawing("sensitivity")
        found = sensitivity.count_claims(results, sensitivity.SETTINGS, size)
        with files.replacing(folder / sensitivity.FILE) as file:
            file.write(sensitivity.to_json(found, size).encode())
        picture = folder / "sensitivity.png"
        with use_figure_style():
            files.save_figure(draw_heat_map(found), picture, dpi=DPI)
        with files.replacing(folder / "sensitivity.html") as file:
            file.write(render_sensitivity(found, picture.read_bytes()).encode())
    return found
