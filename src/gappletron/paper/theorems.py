"""Compares stored runs with the theorems: upper bounds, and lower bounds against the adversaries of their proofs."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from gappletron.data.adversarial import FreshFeatures, FreshThenSegments, Segments
from gappletron.learners.decoded import DecodedLogistic
from gappletron.learners.gappletron import Gappletron
from gappletron.learners.optimizers import FixedOGD
from gappletron.paper.comparator import Comparator
from gappletron.paper.results import Result, Task
from gappletron.paper.sweeps import RADIUS, WIDE
from gappletron.paper.theory import MARGIN, MOVING, SINGLE, Bound, Proved, Theorem, bounds, list_theorems

DELTA = 0.05
# The confidence of the verdicts on theorems that hold with high probability.
CONFIDENCE = 0.95
STANDARD_ERRORS = 3.0
ENOUGH_RUNS = 5


def is_with_high_probability(theorem: str) -> bool:
    """Whether a theorem is about single runs, not about their mean."""
    return "high-probability" in theorem


def find_least_share(runs: int, within: int) -> float:
    """Return the lower limit of Clopper and Pearson for a probability, when `within` of `runs` independent runs had it.

    It is above the true probability with a probability of at most 1 - :data:`CONFIDENCE`.

    >>> round(find_least_share(300, 300), 4), round(find_least_share(10, 10), 4)
    (0.9901, 0.7411)
    """
    from scipy import stats

    return 0.0 if within == 0 else float(stats.beta.ppf(1.0 - CONFIDENCE, within, runs - within + 1))


def judge_share(runs: int, within: int, delta: float) -> str:
    """Say whether a statement that holds with probability 1 - delta was true in enough runs, as far as they can tell.

    Each of the two firm verdicts is wrong with a probability of at most 1 - :data:`CONFIDENCE`.

    >>> judge_share(300, 300, 0.05), judge_share(10, 10, 0.05), judge_share(300, 200, 0.05)
    ('holds', 'holds in 10 of 10 runs, too few to tell', 'is violated')
    """
    if find_least_share(runs, within) >= 1.0 - delta:
        return "holds"
    if 1.0 - find_least_share(runs, runs - within) < 1.0 - delta:
        return "is violated"
    return f"holds in {within} of {runs} runs, too few to tell"


@dataclass(frozen=True)
class Measured:
    """Runs and the bounds on their mistakes: the mean and the largest number of mistakes, and the mean bound.

    `within` is the share of the runs that are within their bound. `tightness` is the measured mistakes over the bound;
    1 would be a bound that is attained. For a theorem in expectation it is that of the means, for one with high
    probability the largest of a run.

    >>> [Measured.compute(name, [10, 30], [100, 100]).tightness for name in ("expectation", "high-probability")]
    [0.2, 0.3]
    """

    runs: int
    mistakes: float
    most: int
    bound: float
    within: float
    tightness: float

    @classmethod
    def compute(cls, theorem: str, mistakes: Sequence[int], limits: Sequence[float]) -> Self:
        """Return the numbers of some runs, from their mistakes and the bounds on these."""
        ratios = [made / limit for made, limit in zip(mistakes, limits, strict=True)]
        n, within = len(mistakes), sum(made <= limit for made, limit in zip(mistakes, limits, strict=True))
        tightness = max(ratios) if is_with_high_probability(theorem) else sum(mistakes) / sum(limits)
        return cls(n, sum(mistakes) / n, max(mistakes), sum(limits) / n, within / n, tightness)


@dataclass(frozen=True)
class Upper(Measured):
    """One theorem and the runs of one learner, of which `task` is the first: the bound and the mistakes.

    `bound` is the right-hand side of the theorem, plus `comparator` (the loss of the best U found) where the theorem
    bounds the regret. `refusal` is the reason why the theorem does not apply, or None.
    """

    task: Task
    theorem: str
    comparator: float
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
            found = judge_share(self.runs, round(self.within * self.runs), DELTA)
        else:
            found = "holds" if self.mistakes <= self.bound else "is violated"
        return found + (", but is vacuous (above T)" if self.bound >= self.task.rounds else "")


def loses_nothing(loss: float | None, gap: float | None) -> bool:
    """Whether the best comparator has zero loss, up to the gap of the solver: the data are separable for this loss."""
    return loss is not None and gap is not None and loss <= gap + 1e-6


def apply_comparator(bound: Bound, loss: float, gap: float) -> Bound:
    """Return the bound; one for separable data does not apply if the best comparator found has a loss above zero.

    That of logistic losses always has one: their theorem states its condition, a margin, which is not checked here.
    """
    if not bound.separable or bound.theorem == MARGIN.name or bound.refusal is not None or loses_nothing(loss, gap):
        return bound
    return bound._replace(refusal=f"needs a comparator with zero loss, and the best in the ball has loss {loss:,.1f}")


def compute_bounds(result: Result, delta: float = DELTA, radius: float | None = None) -> list[Bound]:
    """Return the right-hand side of every theorem with the values of a run; `radius` is that of the comparators."""
    learner = result.learner
    assert isinstance(learner, Proved)
    return bounds(
        learner,
        result.task.pieces.graph,
        rounds=result.task.rounds,
        max_norm=result.outcome.max_norm,
        blind_rounds=result.outcome.blind_rounds,
        loss_sum=result.outcome.loss_sum or 0.0,
        radius=radius,
        delta=delta,
    )


class Examined(NamedTuple):
    """A stored run, the best comparator found in the ball of this radius, and every bound."""

    result: Result
    learner: Proved
    radius: float
    comparator: Comparator
    bounds: list[Bound]

    @property
    def regret(self) -> float:
        """The surrogate regret: mistakes minus the comparator's loss."""
        return self.result.outcome.mistakes - self.comparator.loss


def has_fixed_rate(result: Result) -> bool:
    """Whether the learner of a run is gradient descent with a fixed rate."""
    learner = result.task.pieces.learner
    return isinstance(learner, Gappletron) and isinstance(learner.optimizer, FixedOGD)


def is_decoded(result: Result) -> bool:
    """Whether the learner of a run is :class:`gappletron.DecodedLogistic`."""
    return isinstance(result.task.pieces.learner, DecodedLogistic)


def _is_about(theorem: Theorem, result: Result) -> bool:
    """Whether a theorem is for the graph, tuning and data of a run."""
    if is_decoded(result):
        return theorem not in (MOVING, SINGLE) and (theorem is not MARGIN or result.task.noise == 0.0)
    if result.task.graph != "full":
        return theorem.tuning == result.task.tuning
    is_possible = result.task.noise == 0.0 or not theorem.separable
    return theorem.full_information and is_possible and theorem.fixed_rate == has_fixed_rate(result)


def upper_bounds(results: Iterable[Result]) -> list[Upper]:
    """Return the table of the sweep "bounds": one row per learner, graph, data set and theorem."""
    grouped: dict[Task, list[Result]] = {}
    for result in results:
        if result.task.sweep == "bounds":
            grouped.setdefault(result.task.configuration, []).append(result)
    return [row for runs in grouped.values() for row in _compare_with_theorems(runs)]


def _compare_with_theorems(runs: list[Result]) -> list[Upper]:
    task, n = runs[0].task, len(runs)
    # DecodedLogistic has no ball: its theorem is about every U, and that with a margin about another one.
    radii = (WIDE, RADIUS) if is_decoded(runs[0]) else (None, None)
    found = [[compute_bounds(run, radius=radius) for run in runs] for radius in radii]
    mistakes = [run.outcome.mistakes for run in runs]
    losses = [run.outcome.comparator_loss or 0.0 for run in runs]
    rows = []
    learner = runs[0].learner
    assert isinstance(learner, Proved)
    for place, theorem in enumerate(list_theorems(learner)):
        by_run = found[theorem is MARGIN]
        if _is_about(theorem, runs[0]):
            refusal = apply_comparator(by_run[0][place], losses[0], runs[0].outcome.comparator_gap or 0.0).refusal
            values = [each[place].value for each in by_run]
            limits = values if theorem.separable else [a + b for a, b in zip(values, losses, strict=True)]
            numbers = vars(Measured.compute(theorem.name, mistakes, limits))
            rows.append(Upper(**numbers, task=task, theorem=theorem.name, comparator=sum(losses) / n, refusal=refusal))
    return rows


def find_tightest(rows: Iterable[Upper]) -> list[Upper]:
    """Return, for every theorem and graph in the order of the rows, that of the learner closest to its bound."""
    best: dict[tuple[str, str], Upper] = {}
    for row in rows:
        key = row.theorem, row.task.graph
        if row.refusal is None and (key not in best or row.tightness > best[key].tightness):
            best[key] = row
    return list(best.values())


class Lower(NamedTuple):
    """A learner against an adversary: its average mistakes and the lower bound for every learner.

    `error` is the standard error of the average, `comparator_loss` the loss of the comparator of the proof. On fresh
    features the bound is attained, so an average can be below it by chance: the verdict allows three standard errors,
    and needs at least five runs to estimate them.
    """

    sweep: str
    adversary: str
    learner: str
    rounds: int
    runs: int
    mistakes: float
    error: float
    bound: float
    classes: int = 2
    comparator_loss: float = 0.0

    @property
    def verdict(self) -> str:
        """Whether the bound holds for the average, up to chance."""
        if self.mistakes >= self.bound:
            return "holds"
        if self.runs < ENOUGH_RUNS:
            return "unknown: too few runs"
        return "holds" if self.mistakes + STANDARD_ERRORS * self.error >= self.bound else "is violated"


ONE_STREAM, TWO_STREAMS = ("lower-full", "lower-classes"), ("lower-filtering", "lower-both")


def find_adversary(task: Task) -> Segments | FreshFeatures | FreshThenSegments:
    """Return the adversary of a task, without a turned segment.

    >>> from gappletron.paper.figures.catalogue import select_tasks
    >>> find_adversary(select_tasks(["lower-filtering"], rounds=50)[-1]).lower_bound
    2.5
    """
    stream = task.pieces.stream
    assert isinstance(stream, Segments | FreshFeatures | FreshThenSegments)
    return stream


def lower_bounds(results: Iterable[Result]) -> list[Lower]:
    """Return one row per learner and adversary; of two streams that of the worse, as in the theorem.

    A learner that played only one of the two streams has no row: the theorem needs both.
    """
    grouped: dict[tuple[str, int, str, str], dict[str, list[Result]]] = {}
    for result in results:
        task = result.task
        if task.sweep in ONE_STREAM + TWO_STREAMS:
            kind = re.sub(r",(T|seed)=\d+", "", find_adversary(task).name)
            by_stream = grouped.setdefault((task.sweep, task.rounds, kind, task.learner), {})
            by_stream.setdefault(task.configuration.stream, []).append(result)
    return [
        _compare_with_adversary(list(by_stream.values()), kind)
        for (sweep, _, kind, _), by_stream in sorted(grouped.items())
        if sweep in ONE_STREAM or len(by_stream) == 2
    ]


def _compare_with_adversary(by_stream: list[list[Result]], kind: str) -> Lower:
    task, runs = by_stream[0][0].task, max(map(len, by_stream))
    mistakes, error = max(map(_average, by_stream))
    stream = find_adversary(task)
    lost = 0.0 if isinstance(stream, Segments) else stream.comparator_loss
    head = task.sweep, kind, task.learner, task.rounds, runs
    return Lower(*head, mistakes, error, stream.lower_bound, task.classes, lost)


def _average(runs: Sequence[Result]) -> tuple[float, float]:
    """Return the mean number of mistakes and its standard error."""
    n = len(runs)
    mean = sum(run.outcome.mistakes for run in runs) / n
    variance = sum((run.outcome.mistakes - mean) ** 2 for run in runs) / max(1, n - 1)
    return mean, math.sqrt(variance / n)
