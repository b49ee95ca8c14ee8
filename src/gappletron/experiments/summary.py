"""What figures and claims ask of the stored runs: the mean and the range over the repeats of each learner in
each cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gappletron.experiments.sweeps import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gappletron.experiments.store import Result

__all__ = ["Entry", "Spread", "Summary"]


class Entry(NamedTuple):
    """Who played in which sweep: the sweep, its graph, the learner, its tuning and its exploration rule."""

    figure: str
    graph: str
    learner: str
    tuning: str
    exploration: str


class Spread(NamedTuple):
    """The repeats of one learner in one cell: error rates, and averages of the counts.

    `late` is the error rate of the second half of the rounds.

    >>> Spread("theory", 4, 0.2, 0.1, 0.3, 0.15, 50.0, 20.0).width
    0.19999999999999998
    """

    tuning: str
    runs: int
    mean: float
    least: float
    most: float
    late: float
    labels_seen: float
    explored: float

    @property
    def width(self) -> float:
        """From the least error rate to the most."""
        return self.most - self.least


class Summary:
    """The runs of some sweeps, grouped.

    A lookup of what was not run raises a KeyError: ask :attr:`cells` first.
    """

    def __init__(self, results: Iterable[Result]) -> None:
        grouped: dict[tuple[Entry, Cell], list[Result]] = {}
        for result in results:
            task = result.task
            entry = Entry(task.figure, task.graph, task.learner, task.tuning, task.exploration)
            grouped.setdefault((entry, Cell(task.classes, task.features, task.noise)), []).append(result)
        self._spreads: dict[tuple[str, str, Cell], list[tuple[Entry, Spread]]] = {}
        for (entry, cell), runs in grouped.items():
            self._spreads.setdefault((entry.figure, entry.learner, cell), []).append((entry, _spread(runs)))

    def cells(self, figure: str) -> list[Cell]:
        """The cells of a sweep, sorted."""
        return sorted({cell for played, _, cell in self._spreads if played == figure})

    def learners(self, figure: str) -> list[str]:
        """Who played in a sweep."""
        return list(dict.fromkeys(learner for played, learner, _ in self._spreads if played == figure))

    def spreads(
        self, figure: str, learner: str, cell: Cell, *, tuning: str | None = None, graph: str | None = None
    ) -> Sequence[Spread]:
        """The learner's runs in this cell, one entry for each tuning (or for the one that was named)."""
        return [
            spread
            for entry, spread in self._spreads.get((figure, learner, cell), [])
            if tuning in (None, entry.tuning) and graph in (None, entry.graph)
        ]

    def best(
        self, figure: str, learner: str, cell: Cell, *, tuning: str | None = None, graph: str | None = None
    ) -> Spread:
        """The tuning with the lowest mean error (or the one that was named)."""
        found = self.spreads(figure, learner, cell, tuning=tuning, graph=graph)
        if not found:
            raise KeyError(f"{learner} did not play {figure} in {cell}")
        return min(found, key=lambda spread: spread.mean)


def _spread(runs: list[Result]) -> Spread:
    rates = [run.outcome.error_rate for run in runs]
    n = len(runs)
    return Spread(
        runs[0].task.tuning,
        n,
        sum(rates) / n,
        min(rates),
        max(rates),
        sum(map(_late, runs)) / n,
        sum(run.outcome.labels_seen for run in runs) / n,
        sum(run.outcome.explored for run in runs) / n,
    )


def _late(run: Result) -> float:
    total, rounds = run.outcome.mistakes, run.task.rounds
    half = max(1, rounds // 2)
    return (total - dict(run.curve)[half]) / max(1, rounds - half)
