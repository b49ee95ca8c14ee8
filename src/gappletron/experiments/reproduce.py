"""The paper in one call: play what is not stored yet, then write the table, the figures and the report."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from gappletron._dispatch import source_hash
from gappletron._validate import whole
from gappletron.experiments.runner import run
from gappletron.experiments.store import Store, write_table
from gappletron.experiments.sweeps import ROUNDS, selected
from gappletron.runs import usable_cores

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from gappletron.experiments.store import Result
    from gappletron.experiments.sweeps import Task

__all__ = ["reproduce"]


def reproduce(out: str | os.PathLike[str] = "results", *, figures: Iterable[str] = (), rounds: int = ROUNDS,
              repeats: int | None = None, jobs: int | None = None, executor: Executor | None = None,
              begun: Callable[[list[Task], list[Task]], None] | None = None,
              finished: Callable[[Result], None] | None = None) -> list[Result]:
    """Run the paper's experiments, and leave ``results.sqlite``, ``results.csv``, ``figures/`` and ``report.html`` in `out`.

    What `out` holds already is not played again, if it was played with the same parameters and the same sources: after an
    interruption, call it again.

    :param figures: ids of figures or sweeps (:data:`~gappletron.experiments.sweeps.FIGURES`); all where none is named.
    :param rounds: T.
    :param repeats: runs of each learner that draws; the sweeps' own number (mostly ten) where none is given.
    :param jobs: runs at the same time; by default as many as there are cores.
    :param executor: any of ``concurrent.futures``, with `jobs` workers; by default threads.
    :param begun: called with all tasks and those among them still to be played, before the first.
    :param finished: called with each result once it is stored.
    """
    tasks = selected(figures, rounds, repeats)
    workers = usable_cores() if jobs is None else whole(jobs, "jobs", least=1, most=100_000)
    with Store(out) as store:
        stored = store.finished(tasks, source_hash())
        missing = [task for task in tasks if task.id not in stored]
        if begun is not None:
            begun(tasks, missing)
        if executor is None:
            with ThreadPoolExecutor(workers) as threads:
                run(missing, store, threads, workers, finished)
        else:
            run(missing, store, executor, workers, finished)
        stored = store.finished(tasks, source_hash())
        results = [stored[task.id] for task in tasks]
    write_table(results, Path(out) / "results.csv")
    return results
