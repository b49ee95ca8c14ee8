"""Mean and range of the error rate over the repeats of each configuration, as figures, tables and claims need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gappletron.paper.evidence import Series
from gappletron.paper.store import Result
from gappletron.paper.sweeps import SWEEPS, Cell, Task

__all__ = ["Sample", "Spread", "Summary"]

DRAWING_NOTHING = frozenset(entrant.learner for sweep in SWEEPS for entrant in sweep.entrants if not entrant.draws)
"""The learners that play the same data in the same way in every repeat."""


class Sample(NamedTuple):
    """One run: the seed of its data, its repeat, its error rate (also of the second half), and its explored rounds."""

    seed: int
    repeat: int
    error: float
    late: float
    explored: float


class Spread(NamedTuple):
    """The repeats of one configuration (:attr:`Task.configuration`): error rates, and averages of the counts.

    `late` is the error rate of the second half of the rounds; `samples` has the numbers of every run.

    >>> from gappletron.paper.sweeps import SWEEPS, tasks
    >>> spread = Spread(tasks(SWEEPS[0])[0].configuration, 4, 0.2, 0.1, 0.3, 0.15, 50.0, 20.0)
    >>> spread.configuration.tuning, round(spread.width, 2)
    ('theory', 0.2)
    """

    configuration: Task
    runs: int
    mean: float
    least: float
    most: float
    late: float
    labels_seen: float
    explored: float
    samples: tuple[Sample, ...] = ()

    def series(self, value: Callable[[Sample], float]) -> Series:
        """A value of every run, for tests that pair the runs of two learners."""
        drawn = self.configuration.learner not in DRAWING_NOTHING
        return Series({(sample.seed, sample.repeat): value(sample) for sample in self.samples}, drawn)

    @property
    def width(self) -> float:
        """The largest error rate minus the smallest."""
        return self.most - self.least


class Summary:
    """Runs grouped by configuration: only the repeats of one entrant on one data set are averaged.

    A learner that played a cell in several configurations (tunings, optimizers, graphs) has a :class:`Spread` for each.

    >>> from gappletron.paper.runner import execute
    >>> from gappletron.paper.store import Result
    >>> from gappletron.paper.sweeps import Entrant, Sweep, tasks
    >>> entrants = (Entrant("gapsmh", "only-t"), Entrant("gapsmh", "only-t", optimizer="ada-grad"))
    >>> mine = Sweep("mine", "bandit", (Cell(3, 40, 0.05),), entrants, repeats=2)
    >>> summary = Summary(Result(task, execute(task)) for task in tasks(mine, rounds=100))
    >>> [cell] = summary.cells("mine")
    >>> [(spread.configuration.optimizer, spread.runs) for spread in summary.spreads("mine", "gapsmh", cell)]
    [('', 2), ('ada-grad', 2)]
    >>> summary.best("mine", "gapsmh", cell, optimizer="ada-grad").configuration.optimizer
    'ada-grad'
    """

    def __init__(self, results: Iterable[Result]) -> None:
        grouped: dict[Task, list[Result]] = {}
        for result in results:
            grouped.setdefault(result.task.configuration, []).append(result)
        self._spreads: dict[tuple[str, str, Cell], list[Spread]] = {}
        for task, runs in grouped.items():
            key = (task.sweep, task.learner, Cell(task.classes, task.features, task.noise))
            self._spreads.setdefault(key, []).append(_spread(task, runs))

    def cells(self, sweep: str) -> list[Cell]:
        """The cells of a sweep, sorted."""
        return sorted({cell for played, _, cell in self._spreads if played == sweep})

    def learners(self, sweep: str) -> list[str]:
        """The learners that played in a sweep."""
        return list(dict.fromkeys(learner for played, learner, _ in self._spreads if played == sweep))

    def spreads(
        self,
        sweep: str,
        learner: str,
        cell: Cell,
        *,
        tuning: str | None = None,
        optimizer: str | None = None,
        graph: str | None = None,
    ) -> Sequence[Spread]:
        """Every configuration of a learner in a cell; only those with this tuning, optimizer or graph where given."""
        return [
            spread
            for spread in self._spreads.get((sweep, learner, cell), [])
            if tuning in (None, spread.configuration.tuning)
            and optimizer in (None, spread.configuration.optimizer)
            and graph in (None, spread.configuration.graph)
        ]

    def best(
        self,
        sweep: str,
        learner: str,
        cell: Cell,
        *,
        tuning: str | None = None,
        optimizer: str | None = None,
        graph: str | None = None,
    ) -> Spread:
        """The configuration with the lowest mean error rate among :meth:`spreads`; a KeyError where there is none."""
        found = self.spreads(sweep, learner, cell, tuning=tuning, optimizer=optimizer, graph=graph)
        if not found:
            raise KeyError(f"{learner} did not play {sweep} in {cell}")
        return min(found, key=lambda spread: spread.mean)


def _spread(configuration: Task, runs: list[Result]) -> Spread:
    rates, late = [run.outcome.error_rate for run in runs], list(map(_late, runs))
    n = len(runs)
    return Spread(
        configuration,
        n,
        sum(rates) / n,
        min(rates),
        max(rates),
        sum(late) / n,
        sum(run.outcome.labels_seen for run in runs) / n,
        sum(run.outcome.explored for run in runs) / n,
        tuple(
            Sample(_seed(run.task.stream), run.task.repeat, rate, half, run.outcome.explored)
            for run, rate, half in zip(runs, rates, late, strict=True)
        ),
    )


def _seed(stream: str) -> int:
    """The seed in a stream's name; 0 where it has none."""
    found = stream.rpartition("seed=")[2]
    return int(found) if "seed=" in stream and found.isdigit() else 0


def _late(run: Result) -> float:
    total, rounds = run.outcome.mistakes, run.task.rounds
    half = max(1, rounds // 2)
    return (total - dict(run.curve)[half]) / max(1, rounds - half)
