"""From runs to numbers: means over seeds, the best of several players, ratios to the recorded errors of peers."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.peers.players import HORIZONS
from benchmarks.peers.recorded import error_of

if TYPE_CHECKING:
    from benchmarks.peers.recorded import Best
    from benchmarks.peers.runs import Run
    from benchmarks.peers.settings import Setting

CLOSE = 1.15
"""A ratio that counts as close."""


class Line(NamedTuple):
    """One player on one stream and graph: means over its seeds."""

    stream: str
    form: str
    graph: str
    setting: Setting
    seeds: int
    rounds: int
    """The last round that was played with every seed."""
    errors: dict[int, float]
    """The error at each horizon that was reached, and at the last round."""
    labels_seen: float
    nanoseconds: float
    """The median over seeds."""

    @property
    def error(self) -> float:
        """At the last round."""
        return self.errors[self.rounds]


class Ratio(NamedTuple):
    """Our error against the least recorded error of peers in one cell."""

    learner: str
    best: Best
    error: float

    @property
    def value(self) -> float:
        """The ratio."""
        return self.error / self.best.error


def mean_at(runs: list[Run], rounds: int) -> float | None:
    """The mean error at a round, where every run kept totals there."""
    errors = [run.outcome.error_at(rounds) for run in runs]
    found = [error for error in errors if error is not None]
    return statistics.mean(found) if found and len(found) == len(errors) else None


def line_of(runs: list[Run]) -> Line | None:
    """The runs of one player with different seeds as one line; None where they ended at different rounds."""
    task = runs[0].task
    last = min(run.outcome.rounds[-1] for run in runs)
    means = {rounds: mean_at(runs, rounds) for rounds in (*HORIZONS, last) if rounds <= last}
    errors = {rounds: error for rounds, error in means.items() if error is not None}
    if last not in errors:
        longest = max(errors, default=None)
        if longest is None:
            return None
        last = longest
    seen = [run.outcome.labels_seen[run.outcome.rounds.index(last)] for run in runs]
    speed = statistics.median(run.outcome.nanoseconds for run in runs)
    return Line(task.stream, task.form, task.graph, task.setting, len(runs), last, errors, statistics.mean(seen), speed)


def lines(runs: list[Run]) -> list[Line]:
    """One line for each player, stream, form and graph, in the order of playing."""
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault((run.task.stream, run.task.form, run.task.graph, run.task.setting), []).append(run)
    return [line for line in map(line_of, groups.values()) if line is not None]


def ratios(runs: list[Run], bests: list[Best]) -> list[Ratio]:
    """Our mean error over seeds against every recorded error, for the cells that were played."""
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        task = run.task
        if task.setting.package == "Ours" and task.form == "prepared":
            groups.setdefault((task.setting.method, task.stream, task.graph), []).append(run)
    found = []
    for (learner, stream, graph), group in groups.items():
        for best in bests:
            error = mean_at(group, best.rounds) if (best.stream, best.graph) == (stream, graph) else None
            if error is not None:
                found.append(Ratio(learner, best, error))
    return found


class Spread(NamedTuple):
    """Ratios in three numbers."""

    cells: int
    median: float
    close: float
    """The share of ratios of at most CLOSE."""
    largest: float


def spread(values: list[float]) -> Spread:
    """The median, the share that is close, and the largest.

    >>> spread([1.0, 1.1, 2.0])
    Spread(cells=3, median=1.1, close=0.6666666666666666, largest=2.0)
    """
    close = sum(value <= CLOSE for value in values) / len(values)
    return Spread(len(values), statistics.median(values), close, max(values))


class Duel(NamedTuple):
    """Ours beside theirs on one stream and graph, at the stream's end."""

    stream: str
    graph: str
    rounds: int
    ours: list[Line]
    fixed: Line | None
    """The peer with the least error among those with fixed settings."""
    tuned: Line | None
    """The peer with the least error among those whose parameters were chosen in hindsight."""
    recorded: float | None


def least(found: list[Line], rounds: int) -> Line | None:
    """The line with the least error at a round, of those that reached it."""
    reached = [line for line in found if rounds in line.errors]
    return min(reached, key=lambda line: line.errors[rounds], default=None)


def duels(found: list[Line], bests: list[Best], form: str = "prepared") -> list[Duel]:
    """A duel for each stream and graph, of the streams in one form."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in found:
        if line.form == form:
            groups.setdefault((line.stream, line.graph), []).append(line)
    result = []
    for (stream, graph), group in groups.items():
        ours = [line for line in group if line.setting.package == "Ours"]
        theirs = [line for line in group if line.setting.package != "Ours"]
        if ours:
            rounds = ours[0].rounds
            fixed = least([line for line in theirs if not line.setting.tuned], rounds)
            tuned = least([line for line in theirs if line.setting.tuned], rounds)
            known = error_of(stream, graph, rounds, bests)
            result.append(Duel(stream, graph, rounds, ours, fixed, tuned, known))
    return result
