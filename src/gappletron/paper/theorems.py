"""Compares stored runs with the theorems: upper bounds, and lower bounds against the adversaries of their proofs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gappletron.base.errors import UserError
from gappletron.data.adversarial import FreshFeatures, FreshThenSegments, Segments
from gappletron.kernel.compiling import source_hash
from gappletron.learners.gappletron import Gappletron
from gappletron.paper.comparator import Comparator, best_comparator
from gappletron.paper.runner import graph_of, stream_of
from gappletron.paper.store import Result
from gappletron.paper.sweeps import Task, probes
from gappletron.paper.theory import THEOREMS, Bound, bounds
from gappletron.play.runs import play

__all__ = [
    "Examined",
    "Lower",
    "Tightness",
    "Upper",
    "adversary",
    "bounds_of",
    "examined",
    "has_fixed_rate",
    "is_with_high_probability",
    "least_share",
    "lower_bounds",
    "tightness",
    "tightness_of",
    "upper_bounds",
    "with_comparator",
]

DELTA = 0.05
CONFIDENCE = 0.95
"""With which a share of runs is told from 1 - delta."""
STANDARD_ERRORS = 3.0
ENOUGH_RUNS = 5


class Upper(NamedTuple):
    """One theorem and the runs of one learner: the bound and the mistakes.

    `bound` is an upper bound on the mistakes, averaged over the runs: the right-hand side of the theorem, plus
    `comparator` (the loss of the best U found) where the theorem bounds the regret. `within` is the share of runs that
    are within their bound, and `tightness` the measured mistakes over the bound (:func:`tightness_of`). `refusal` is
    the reason why the theorem does not apply, or None.
    """

    graph: str
    learner: str
    noise: float
    theorem: str
    rounds: int
    runs: int
    mistakes: float
    most: int
    comparator: float
    bound: float
    within: float
    tightness: float
    refusal: str | None

    @property
    def regret(self) -> float:
        """The measured surrogate regret: average mistakes minus the comparator's loss."""
        return self.mistakes - self.comparator

    @property
    def verdict(self) -> str:
        """Whether the bound holds for the runs."""
        if self.refusal is not None:
            return "does not apply"
        if is_with_high_probability(self.theorem):
            found = share_verdict(self.runs, round(self.within * self.runs), DELTA)
        else:
            found = "holds" if self.mistakes <= self.bound else "is violated"
        return found + (", but is vacuous (above T)" if self.bound >= self.rounds else "")


def is_with_high_probability(theorem: str) -> bool:
    """Whether a theorem is about single runs, not about their mean."""
    return "high-probability" in theorem


def least_share(runs: int, within: int, confidence: float = CONFIDENCE) -> float:
    """The lower limit of Clopper and Pearson for a probability, when `within` of `runs` independent runs had it.

    It is above the true probability with a probability of at most 1 - `confidence`.

    >>> round(least_share(300, 300), 4), round(least_share(10, 10), 4)
    (0.9901, 0.7411)
    """
    from scipy import stats

    return 0.0 if within == 0 else float(stats.beta.ppf(1.0 - confidence, within, runs - within + 1))


def share_verdict(runs: int, within: int, delta: float) -> str:
    """Whether a statement that holds with probability 1 - delta was true in enough runs, as far as they can tell.

    Each of the two firm verdicts is wrong with a probability of at most 1 - :data:`CONFIDENCE`.

    >>> share_verdict(300, 300, 0.05), share_verdict(10, 10, 0.05), share_verdict(300, 200, 0.05)
    ('holds', 'holds in 10 of 10 runs, too few to tell', 'is violated')
    """
    if least_share(runs, within) >= 1.0 - delta:
        return "holds"
    if 1.0 - least_share(runs, runs - within) < 1.0 - delta:
        return "is violated"
    return f"holds in {within} of {runs} runs, too few to tell"


def tightness_of(theorem: str, mistakes: Sequence[float], limits: Sequence[float]) -> float:
    """The measured mistakes over the bound: 1 would be a bound that is attained.

    Of the means for a theorem in expectation; for one with high probability the largest ratio of a run.

    >>> tightness_of("expectation", [10, 30], [100, 100]), tightness_of("high-probability", [10, 30], [100, 100])
    (0.2, 0.3)
    """
    if is_with_high_probability(theorem):
        return max(made / limit for made, limit in zip(mistakes, limits, strict=True))
    return sum(mistakes) / sum(limits)


def loses_nothing(loss: float | None, gap: float | None) -> bool:
    """Whether the best comparator has zero loss, up to the gap of the solver: the data are separable for this loss."""
    return loss is not None and gap is not None and loss <= gap + 1e-6


def with_comparator(bound: Bound, loss: float, gap: float) -> Bound:
    """The bound; a bound for separable data does not apply if the best comparator found has a loss above zero."""
    if not bound.separable or bound.refusal is not None or loses_nothing(loss, gap):
        return bound
    return bound._replace(refusal=f"needs a comparator with zero loss, and the best in the ball has loss {loss:,.1f}")


def bounds_of(result: Result, delta: float = DELTA) -> list[Bound]:
    """The right-hand side of every theorem with the values of a run: K, rho, Q, L, h, T, n_T and sum l_t(W_t)."""
    learner = result.learner
    assert isinstance(learner, Gappletron)
    return bounds(
        learner,
        graph_of(result.task),
        rounds=result.task.rounds,
        max_norm=result.outcome.max_norm,
        blind_rounds=result.outcome.blind_rounds,
        loss_sum=result.outcome.loss_sum or 0.0,
        delta=delta,
    )


class Examined(NamedTuple):
    """A stored run, the best comparator found in the ball of this radius, and every bound."""

    result: Result
    learner: Gappletron
    radius: float
    comparator: Comparator
    bounds: list[Bound]

    @property
    def regret(self) -> float:
        """The surrogate regret: mistakes minus the comparator's loss."""
        return self.result.outcome.mistakes - self.comparator.loss


def examined(
    result: Result,
    radius: float | None = None,
    delta: float = DELTA,
    progress: Callable[[int, int | None], None] | None = None,
) -> Examined:
    """Find the best comparator in hindsight for a run, in the ball of its optimizer or in one of this radius.

    For the hinge the comparator depends on the run, through the case split at the learner's weights, so the run is
    played again.
    """
    task = result.task
    if result.outcome.sources != source_hash():
        raise UserError(
            f"{task.id!r} was run with other sources of gappletron, so it cannot be played again: run "
            "`gappletron reproduce` again first"
        )
    learner, graph = result.learner, graph_of(task)
    if not isinstance(learner, Gappletron):
        raise UserError(
            f"the theorems are about Gappletron, and {task.id!r} is a run of {task.learner}: choose "
            "one of gapsmh, gaphin, gaplog2 or gaplog"
        )
    reach = learner.optimizer.reach()
    if radius is not None and radius > reach:
        raise UserError(
            f"the optimizer of this run keeps the weights in a ball of radius {reach:g}, and the bounds hold for "
            "comparators in that ball: give a smaller --radius, or none"
        )
    ball = radius if radius is not None else 1.0 if math.isinf(reach) else reach
    stream, skipped = stream_of(task), None
    if learner.loss.has_case_split:
        again = play(learner, stream, graph, repeats=[task.repeat], seed=task.seed, losses=True, curve="every")[0]
        assert again.curve.loss_sum is not None
        skipped = np.diff(again.curve.loss_sum, prepend=0.0) == 0.0
    comparator = best_comparator(learner.loss, stream, graph, ball, skipped=skipped, progress=progress)
    found = [with_comparator(bound, comparator.loss, comparator.gap) for bound in bounds_of(result, delta)]
    return Examined(result, learner, ball, comparator, found)


def has_fixed_rate(task: Task) -> bool:
    """Whether the learner of a task is gradient descent with a fixed rate."""
    return task.optimizer.partition(":")[0] == "fixed-ogd"


def _about(result: Result) -> list[str]:
    """The names of the theorems for the graph, tuning and data of a run."""
    separable = result.task.noise == 0.0
    if result.task.graph == "full":
        return [
            theorem.name
            for theorem in THEOREMS
            if theorem.full_information
            and (separable or not theorem.separable)
            and theorem.fixed_rate == has_fixed_rate(result.task)
        ]
    return [theorem.name for theorem in THEOREMS if theorem.tuning == result.task.tuning]


def upper_bounds(results: Iterable[Result]) -> list[Upper]:
    """The table of the sweep "bounds": one row per learner, graph, data set and theorem."""
    grouped: dict[Task, list[Result]] = {}
    for result in results:
        if result.task.sweep == "bounds":
            grouped.setdefault(result.task.configuration, []).append(result)
    return [row for runs in grouped.values() for row in _upper(runs)]


def _upper(runs: list[Result]) -> list[Upper]:
    task = runs[0].task
    by_run = [bounds_of(run) for run in runs]
    rows = []
    for place, theorem in enumerate(THEOREMS):
        if theorem.name not in _about(runs[0]):
            continue
        losses = [run.outcome.comparator_loss or 0.0 for run in runs]
        refusal = with_comparator(by_run[0][place], losses[0], runs[0].outcome.comparator_gap or 0.0).refusal
        limits = [
            found[place].value + (0.0 if theorem.separable else loss)
            for found, loss in zip(by_run, losses, strict=True)
        ]
        mistakes = [run.outcome.mistakes for run in runs]
        n = len(runs)
        rows.append(
            Upper(
                task.graph,
                task.learner,
                task.noise,
                theorem.name,
                task.rounds,
                n,
                sum(mistakes) / n,
                max(mistakes),
                sum(losses) / n,
                sum(limits) / n,
                sum(made <= limit for made, limit in zip(mistakes, limits, strict=True)) / n,
                tightness_of(theorem.name, mistakes, limits),
                refusal,
            )
        )
    return rows


class Tightness(NamedTuple):
    """One number for a theorem on a graph: the largest measured share of the bound, and the learner that has it."""

    theorem: str
    graph: str
    value: float
    learner: str


def tightness(rows: Iterable[Upper]) -> list[Tightness]:
    """For every theorem and graph, in the order of the rows, the learner that comes closest to its bound."""
    best: dict[tuple[str, str], Tightness] = {}
    for row in rows:
        key = row.theorem, row.graph
        if row.refusal is None and (key not in best or row.tightness > best[key].value):
            best[key] = Tightness(row.theorem, row.graph, row.tightness, row.learner)
    return list(best.values())


class Lower(NamedTuple):
    """A learner against an adversary: its average mistakes and the lower bound for every learner.

    `error` is the standard error of the average. On fresh features the bound is attained, so an average can be below it
    by chance: the verdict allows three standard errors, and needs at least five runs to estimate them.
    """

    sweep: str
    adversary: str
    learner: str
    rounds: int
    runs: int
    mistakes: float
    error: float
    bound: float

    @property
    def verdict(self) -> str:
        """Whether the bound holds for the average, up to chance."""
        if self.mistakes >= self.bound:
            return "holds"
        if self.runs < ENOUGH_RUNS:
            return "unknown: too few runs"
        return "holds" if self.mistakes + STANDARD_ERRORS * self.error >= self.bound else "is violated"


ADVERSARIES = {"segments": Segments, "fresh": FreshFeatures, "fresh-segments": FreshThenSegments}
ONE_STREAM, TWO_STREAMS = ("lower-full", "lower-classes"), ("lower-filtering", "lower-both")


def adversary(task: Task) -> Segments | FreshFeatures | FreshThenSegments:
    """The adversary of a task, without a turned segment. Only its numbers are computed, no rounds are generated.

    >>> from gappletron.paper.sweeps import selected
    >>> adversary(selected(["lower-filtering"], rounds=50)[-1]).lower_bound
    2.5
    """
    kind, _, numbers = probes(task.stream)[0].partition(":")
    found: Segments | FreshFeatures | FreshThenSegments = ADVERSARIES[kind].parse(numbers)  # type: ignore[attr-defined]
    return found


def lower_bounds(results: Iterable[Result]) -> list[Lower]:
    """One row per learner and adversary; for :class:`Segments` that of the worse of the two streams, as in the theorem.

    A learner that played only one of the two streams has no row: the theorem needs both.
    """
    grouped: dict[tuple[str, int, str, str], dict[str, list[Result]]] = {}
    for result in results:
        task = result.task.configuration
        if task.sweep in ONE_STREAM + TWO_STREAMS:
            kind = probes(task.stream)[0].split(",T=")[0]
            by_stream = grouped.setdefault((task.sweep, task.rounds, kind, task.learner), {})
            by_stream.setdefault(task.stream, []).append(result)
    return [
        _lower(list(by_stream.values()), kind)
        for (sweep, _, kind, _), by_stream in sorted(grouped.items())
        if sweep in ONE_STREAM or len(by_stream) == 2
    ]


def _lower(by_stream: list[list[Result]], kind: str) -> Lower:
    task = by_stream[0][0].task
    mistakes, error = max(map(_average, by_stream))
    return Lower(
        task.sweep,
        kind,
        task.learner,
        task.rounds,
        max(map(len, by_stream)),
        mistakes,
        error,
        adversary(task).lower_bound,
    )


def _average(runs: Sequence[Result]) -> tuple[float, float]:
    """The mean number of mistakes and its standard error."""
    n = len(runs)
    mean = sum(run.outcome.mistakes for run in runs) / n
    variance = sum((run.outcome.mistakes - mean) ** 2 for run in runs) / max(1, n - 1)
    return mean, math.sqrt(variance / n)
