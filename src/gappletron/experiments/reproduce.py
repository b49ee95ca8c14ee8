"""The paper in one call: play what is not stored yet, then write the table, the figures and the report."""

from __future__ import annotations

import contextlib
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from gappletron import _files
from gappletron._dispatch import source_hash
from gappletron._validate import UserError, whole
from gappletron.experiments.runner import prepare, run
from gappletron.experiments.store import Store, write_table
from gappletron.experiments.sweeps import FIGURES, ROUNDS, drawable, left_out, selected
from gappletron.progress import View
from gappletron.runs import usable_cores

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from gappletron.experiments.store import Result

__all__ = ["draw_all", "reproduce"]


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
) -> list[Result]:
    """Run the paper's experiments, and leave ``results.sqlite``, ``results.csv``, ``figures/`` and ``report.html`` in
    `out`.

    What `out` holds already is not played again, if it was played with the same parameters and the same sources: after
    an interruption, call it again. The table, the figures and the report are of what was asked for.

    :param figures: ids of figures or sweeps (:data:`~gappletron.experiments.sweeps.FIGURES`); all where none is named.
    :param rounds: T.
    :param repeats: runs of each learner that draws; the sweeps' own number (mostly ten) where none is given.
    :param jobs: runs at the same time; by default as many as there are cores.
    :param executor: any of ``concurrent.futures``; by default `jobs` threads.
    :param in_flight: how many runs may be handed to the executor and not stored yet; by default `jobs`.
    :param view: is told what happens.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = reproduce(folder, figures=["full"], rounds=50, repeats=1)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['figures', 'report.html', 'results.csv', 'results.sqlite']
    >>> len(results), results[0].task.learner, results[0].task.rounds
    (162, 'gaphin', 50)
    """
    tasks = selected(figures, rounds, repeats)
    if not tasks:
        raise UserError(f"nothing is that short: {', '.join(figures)} at {rounds} rounds has no runs; give more rounds")
    workers = usable_cores() if jobs is None else whole(jobs, "jobs", least=1, most=100_000)
    view = View() if view is None else view
    with Store(out) as store:
        stored = store.finished(tasks, source_hash())
        missing = [task for task in tasks if task.id not in stored]
        if executor is None:
            prepare(missing, view.compiling)
        view.left_out(left_out(figures, {task.sweep for task in tasks}))
        view.begun(tasks, missing)
        with contextlib.ExitStack() as stack:
            pool = executor or stack.enter_context(ThreadPoolExecutor(workers))
            run(missing, store, pool, in_flight or (lambda: workers), view.finished)
        stored = store.finished(tasks, source_hash())
        results = [stored[task.id] for task in tasks]
        # Still under the store's lock: another command's files do not get between these.
        write_table(results, Path(out) / "results.csv")
        draw_all(results, Path(out), figures, view)
    return results


def draw_all(results: Sequence[Result], out: Path, wanted: Iterable[str] = (), view: View | None = None) -> None:
    """Write the figures and the report: a pure function of the results."""
    from gappletron.experiments.figures import caption, draw, save
    from gappletron.experiments.report import Picture, write_report

    folder = out / "figures"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise _files.cannot_write(folder, error.strerror or str(error)) from None
    pictures = []
    drawn = drawable(wanted, {result.task.sweep for result in results})
    for figure in FIGURES:
        if figure not in drawn:  # of an earlier command: not of these results
            for kind in ("png", "svg"):
                (folder / f"{figure.id}.{kind}").unlink(missing_ok=True)
    for figure in drawn:
        if view is not None:
            view.drawing(figure)
        save(draw(figure, results), folder / figure.id)
        pictures.append(Picture(figure, (folder / f"{figure.id}.svg").read_bytes(), caption(figure, results)))
    write_report(results, pictures, out / "report.html")
