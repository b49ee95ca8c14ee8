"""What is run and what comes out: tasks, outcomes, and their means and ranges over the repeats.

A :class:`Task` says in plain values what is played, and holds the pieces that play it. A :class:`Result` is a task and
its outcome, one row of the table. A :class:`Summary` groups results, as figures, tables and claims need them.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gappletron.data.stream import Stream
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.spelling import decode_piece
from gappletron.learners.learner import Learner


class Setup(NamedTuple):
    """What plays a task: the learner before it is tuned, the graph, the stream and the tuning.

    `probes` is for the adversary of the filtering lower bound: the number of runs that decide which segment of the
    stream is turned; None where the stream is played as it is. `changes` are other readings of the tuning, as in
    :mod:`gappletron.paper.tuning`.
    """

    learner: Learner
    graph: FeedbackGraph
    stream: Stream
    tuning: str = ""
    probes: int | None = None
    changes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Task:
    """One run in plain values, which are the first columns of the table, and its components.

    The pieces follow from the values, so they do not count where tasks are compared. A task that was read from a file
    has none.

    >>> from gappletron.paper.sweeps import SWEEPS, list_tasks
    >>> task = list_tasks(SWEEPS[0])[0]
    >>> task.id, task.learner, task.setup.learner.exploration
    ('bandit/bandit/K=6,d=80,noise=0.0,T=100000/gaplog,theory,paper/00', 'gaplog', Paper(gamma=1.0))
    """

    id: str
    sweep: str
    graph: str
    exploration: str
    learner: str
    tuning: str
    optimizer: str
    classes: int
    features: int
    noise: float
    rounds: int
    stream: str
    repeat: int
    seed: int
    setup: Setup | None = field(default=None, compare=False, repr=False)

    @property
    def pieces(self) -> Setup:
        """The pieces of a task that is to be played."""
        assert self.setup is not None, f"{self.id} was read from a file"
        return self.setup

    @functools.cached_property
    def configuration(self) -> Task:
        """The task without what differs between its repeats: the id, the repeat and the seeds (also the stream's).

        >>> from gappletron.paper.sweeps import SWEEPS, list_tasks
        >>> first, second = list_tasks(SWEEPS[0])[:2]
        >>> first == second, first.configuration == second.configuration
        (False, True)
        """
        return replace(self, id="", stream=re.sub(r",seed=\d+", "", self.stream), repeat=0, seed=0, setup=None)

    @property
    def cell(self) -> Cell:
        """The data set: K, d and the noise."""
        return Cell(self.classes, self.features, self.noise)

    @functools.cached_property
    def data_seed(self) -> int:
        """The seed of the data; 0 where the stream has none."""
        found = re.search(r"seed=(\d+)$", self.stream)
        return int(found[1]) if found else 0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: totals, mistakes at some rounds, and the version, machine and time that it was run with.

    `parameters` is the learner with all its numbers, as JSON. `comparator_loss` is sum l_t(U) of the best U found in
    the ball of the optimizer, at most `comparator_gap` above the minimum; None where it was not computed.

    >>> from gappletron.paper.figures.catalogue import select_tasks
    >>> from gappletron.paper.runner import execute
    >>> outcome = execute(select_tasks(["full"], rounds=100)[0])
    >>> outcome.error_rate == outcome.mistakes / 100, outcome.labels_seen, outcome.comparator_loss
    (True, 100, None)
    """

    parameters: str
    max_norm: float
    mistakes: int
    labels_seen: int
    explored: int
    blind_rounds: int
    error_rate: float
    rate_sum: float
    loss_sum: float | None
    comparator_loss: float | None
    comparator_gap: float | None
    curve: str
    version: str
    sources: str
    machine: str
    seconds: float
    finished_at: str


@dataclass(frozen=True)
class Result:
    """A task and its outcome: one row of the table.

    >>> result = Result(Task("a/b/c/d/00", "a", "bandit", "", "perceptron", "", "", 3, 40, 0.0, 10, "s", 0, 0),
    ...                 Outcome("{}", 1.0, 4, 6, 4, 10, 0.4, 0.0, None, None, None, "[[5, 10], [3, 4]]",
    ...                         "", "", "", 0.1, ""))
    >>> result.curve
    [(5, 3), (10, 4)]
    """

    task: Task
    outcome: Outcome

    @property
    def learner(self) -> Learner:
        """The learner with all the numbers that it played with, from the stored `parameters`.

        >>> from gappletron.paper.figures.catalogue import select_tasks
        >>> from gappletron.paper.runner import execute
        >>> task = select_tasks(["full"], rounds=100)[0]
        >>> Result(task, execute(task)).learner
        Gappletron(loss=Hinge(kappa=0.5), optimizer=AdaptiveOGD(scale=1.0), exploration=Paper(gamma=1.0))
        """
        import gappletron.learners.registry
        import gappletron.paper.remarks  # noqa: F401 - both make their classes known

        return decode_piece(json.loads(self.outcome.parameters))

    @property
    def curve(self) -> list[tuple[int, int]]:
        """Pairs of a round and the number of mistakes up to it, at the rounds that are stored."""
        rounds, mistakes = json.loads(self.outcome.curve)
        return list(zip(rounds, mistakes, strict=True))

    @functools.cached_property
    def late_error(self) -> float:
        """The error rate in the second half of the rounds."""
        half = max(1, self.task.rounds // 2)
        return (self.outcome.mistakes - dict(self.curve)[half]) / max(1, self.task.rounds - half)


# -------------------------------------------------------------------------------------------------- means over repeats


class Cell(NamedTuple):
    """One of the paper's data sets: K classes, d features and label noise.

    >>> str(Cell(9, 120, 0.05))
    'K=9, d=120, noise 0.05'
    """

    classes: int
    features: int
    noise: float

    def __str__(self) -> str:
        return f"K={self.classes}, d={self.features}, noise {self.noise:g}"


class Spread(NamedTuple):
    """The repeats of one configuration (:attr:`Task.configuration`): error rates, and averages of the counts.

    `late` is the error rate of the second half of the rounds; `results` are the single runs.

    >>> from gappletron.paper.sweeps import SWEEPS, list_tasks
    >>> spread = Spread(list_tasks(SWEEPS[0])[0].configuration, 4, 0.2, 0.1, 0.3, 0.15, 50.0, 20.0)
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
    results: tuple[Result, ...] = ()

    @property
    def width(self) -> float:
        """The largest error rate minus the smallest."""
        return self.most - self.least

    @property
    def is_tuned_by_theory(self) -> bool:
        """Whether its numbers are those that theory suggests."""
        return self.configuration.tuning == "theory"


class Summary:
    """Runs grouped by configuration: only the repeats of one entrant on one data set are averaged.

    A learner that played a cell in several configurations (tunings, optimizers, graphs) has a :class:`Spread` for each.

    >>> from gappletron import AdaGrad
    >>> from gappletron.paper.runner import execute
    >>> from gappletron.paper.sweeps import Entrant, Synthetic, Sweep, list_tasks
    >>> entrants = (Entrant.make("gapsmh", "only-t"), Entrant.make("gapsmh", "only-t", optimizer=AdaGrad()))
    >>> mine = Sweep("mine", "bandit", (Cell(3, 40, 0.05),), entrants, repeats=2)
    >>> summary = Summary(Result(task, execute(task)) for task in list_tasks(mine, rounds=100))
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
            self._spreads.setdefault((task.sweep, task.learner, task.cell), []).append(_summarise(task, runs))

    def cells(self, sweep: str) -> list[Cell]:
        """Return the cells of a sweep, sorted."""
        return sorted({cell for played, _, cell in self._spreads if played == sweep})

    def learners(self, sweep: str) -> list[str]:
        """Return the learners that played in a sweep."""
        return list(dict.fromkeys(learner for played, learner, _ in self._spreads if played == sweep))

    def spreads(self, sweep: str, learner: str, cell: Cell, **chosen: str | None) -> list[Spread]:
        """Return every configuration of a learner in a cell, or those with this `tuning`, `optimizer` or `graph`."""
        return [
            spread
            for spread in self._spreads.get((sweep, learner, cell), [])
            if all(value in (None, getattr(spread.configuration, name)) for name, value in chosen.items())
        ]

    def best(self, sweep: str, learner: str, cell: Cell, **chosen: str | None) -> Spread:
        """Return the configuration with the lowest mean among :meth:`spreads`; a KeyError where there is none."""
        found = self.spreads(sweep, learner, cell, **chosen)
        if not found:
            raise KeyError(f"{learner} did not play {sweep} in {cell}")
        return min(found, key=lambda spread: spread.mean)


def _summarise(configuration: Task, results: list[Result]) -> Spread:
    rates, n = [result.outcome.error_rate for result in results], len(results)
    return Spread(
        configuration,
        n,
        sum(rates) / n,
        min(rates),
        max(rates),
        sum(result.late_error for result in results) / n,
        sum(result.outcome.labels_seen for result in results) / n,
        sum(result.outcome.explored for result in results) / n,
        tuple(results),
    )
