"""The statements of the paper's experiment sections that can be checked, each with a test on the stored runs.

The claims are data, in ``claims.toml``: a sentence in our words, a rule in words, and one of the tests of this module
with its arguments. A test yields one :class:`Check` for each cell that the sentence is about, and verdicts are computed
from these checks only. "Better" is always a strict comparison of means over the repeats; a "range" is the maximum error
rate minus the minimum over the repeats.

A check of an ordering of means also has the ordering as a formula of the single runs, for a paired test: see
:mod:`gappletron.paper.evidence`. Ranges, and gains in percent, are counted only.
"""

import functools
import itertools
import statistics
import tomllib
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from typing import Any, NamedTuple

from gappletron.paper import evidence
from gappletron.paper.evidence import AllOf, AnyOf, Formula, Less, Series, Weight
from gappletron.paper.results import Cell, Result, Spread, Summary
from gappletron.paper.styles import label_learner
from gappletron.paper.sweeps import DETERMINISTIC, SWEEPS

# The source of the claims that are not the paper's.
OURS = "ours"
# With fewer rounds the learners are still at the start of learning, and the verdicts mean little.
ENOUGH_ROUNDS = 50_000

NOISES: dict[str, Callable[[float], bool]] = {
    "any": lambda noise: True,  # noqa: ARG005
    "none": lambda noise: noise == 0.0,
    "some": lambda noise: noise > 0.0,
    "little": lambda noise: noise < 0.1,
    "much": lambda noise: noise >= 0.1,
}


class Check(NamedTuple):
    """Whether a claim holds in one cell, the numbers that decide this, and the ordering of means that it states."""

    where: str
    holds: bool
    numbers: str
    ordering: Formula | None = None


class Claim(NamedTuple):
    """A statement of the paper (in its section `source`) with its test.

    `needs` names the runs that the test uses: a sweep, or a sweep and one tuning; `repeats` is the minimum number of
    repeats (two for a range). `unit` is what the rule is checked on: the cells, or rows or learners in them. `share` is
    the minimum and the maximum share of these on which the rule must be true; all of them by default. `average` is the
    same rule for the means over all cells, where the paper says "on average".
    """

    id: str
    source: str
    needs: tuple[str, ...]
    sentence: str
    rule: str
    test: Callable[[Summary], Iterator[Check]]
    unit: str = "cells"
    repeats: int = 1
    share: tuple[float, float] = (1.0, 1.0)
    average: Callable[[Summary], Check] | None = None


class Verdict(NamedTuple):
    """A claim's checks on some stored runs.

    >>> claim = Claim("x", "section 5", ("full",), "All is well.", "true", lambda summary: iter(()))
    >>> print(Verdict(claim, (Check("K=6", True, ""), Check("K=9", False, "2 > 1"))).text)
    holds in 1 of 2 cells
    """

    claim: Claim
    checks: tuple[Check, ...]
    average: Check | None = None

    @property
    def true_checks(self) -> int:
        """The number of checks in which the rule is true."""
        return sum(check.holds for check in self.checks)

    @property
    def part(self) -> float:
        """The share of the checks in which the rule is true."""
        return self.true_checks / len(self.checks)

    @property
    def holds(self) -> bool:
        """Whether the statement as a whole is true for these runs."""
        least, most = self.claim.share
        return least <= self.part <= most

    @property
    def text(self) -> str:
        """In how many cells the rule is true, and whether the claim holds if it is about a share of the cells; and
        whether the rule is true of the means over all cells, where the paper speaks of an average.
        """
        if self.average is None:
            return self._count()
        return f"{self._count()}; the means over all cells {'hold' if self.average.holds else 'do not hold'}"

    def _count(self) -> str:
        count = f"{self.true_checks} of {len(self.checks)} {self.claim.unit}"
        if self.claim.share == (1.0, 1.0):
            return f"holds in {count}"
        return f"{'holds' if self.holds else 'does not hold'}: true in {count}"

    @property
    def word(self) -> str | None:
        """What a paired test over the repeats (and the seeds of the data, where there are several) says.

        "holds", "does not hold" or "cannot be told at this size"; each of the first two is wrong with probability at
        most :data:`gappletron.paper.evidence.ERROR_RATE`. None where the claim is not about means.
        """
        weights = self._weigh()
        return evidence.judge(weights, self.claim.share) if weights else None

    @property
    def levels(self) -> Weight | None:
        """The smallest error rates at which the test says "holds" and "does not hold"; None as for `word`."""
        weights = self._weigh()
        return evidence.find_levels(weights, self.claim.share) if weights else None

    def _weigh(self) -> list[Weight]:
        """Return the p-values of every check; none where the claim is not about means."""
        orderings = [check.ordering for check in self.checks if check.ordering is not None]
        return [evidence.weigh(ordering) for ordering in orderings] if len(orderings) == len(self.checks) else []

    @property
    def exceptions(self) -> tuple[Check, ...]:
        """The cells in which the rule is not true."""
        return tuple(check for check in self.checks if not check.holds)


def judge_claims(summary: Summary) -> list[Verdict]:
    """Return the verdict on every claim whose runs are all in the summary.

    >>> judge_claims(Summary([]))
    []
    """
    return [
        Verdict(claim, tuple(claim.test(summary)), claim.average(summary) if claim.average else None)
        for claim in CLAIMS
        if all(_has_runs(summary, needed, claim.repeats) for needed in claim.needs)
    ]


def _has_runs(summary: Summary, needed: str, repeats: int) -> bool:
    """Whether every learner of a sweep (with one tuning, if given) played in every cell, with enough repeats."""
    name, _, tuning = needed.partition(":")
    spreads = [
        summary.spreads(name, entrant.name, cell, tuning=entrant.tuning, graph=sweep.graph)
        for sweep in SWEEPS
        if sweep.id == name
        for cell in sweep.data
        if isinstance(cell, Cell)
        for entrant in sweep.entrants
        if not tuning or entrant.tuning == tuning
    ]
    return all(spreads) and max(spread.runs for found in spreads for spread in found) >= repeats


# ------------------------------------------------------------------------------------------------- values and orderings


class Value(NamedTuple):
    """A number of a configuration, and that of a single run if the first is their mean."""

    of_spread: Callable[[Spread], float]
    of_run: Callable[[Result], float] | None


VALUES = {
    "error": Value(lambda spread: spread.mean, lambda run: run.outcome.error_rate),
    "explored": Value(lambda spread: spread.explored, lambda run: run.outcome.explored),
    "late": Value(lambda spread: spread.late, lambda run: run.late_error),
    "range": Value(lambda spread: spread.width, None),
}


def _format(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 1.0 else f"{value:,.0f}"


def _list_numbers(spreads: dict[str, Spread], value: str = "error") -> str:
    return ", ".join(
        f"{label_learner(name)} {_format(VALUES[value].of_spread(spread))}" for name, spread in spreads.items()
    )


def _order(lows: Sequence[Spread], highs: Sequence[Spread], value: str = "error", slack: float = 1.0) -> Formula:
    """State that the lowest value of some configurations is below the lowest of others."""
    below, above = ([_list_values(spread, value) for spread in spreads] for spreads in (lows, highs))
    return AnyOf(tuple(AllOf(tuple(Less(low, high, slack) for high in above)) for low in below))


def _list_values(spread: Spread, value: str) -> Series:
    """Return a value of every single run, for tests that pair the runs of two learners."""
    measure = VALUES[value].of_run
    assert measure is not None, f"{value} is no mean of single runs"
    values = {(run.task.data_seed, run.task.repeat): measure(run) for run in spread.results}
    return Series(values, spread.configuration.learner not in DETERMINISTIC)


def _choose_cells(summary: Summary, sweep: str, noise: str = "any", least_classes: int = 0) -> list[Cell]:
    return [cell for cell in summary.cells(sweep) if NOISES[noise](cell.noise) and cell.classes >= least_classes]


# --------------------------------------------------------------------------------------------------------------- tests


def below(
    summary: Summary,
    sweep: str,
    better: Sequence[str],
    worse: Sequence[str],
    *,
    tunings: Sequence[str | None] = (None,),
    value: str = "error",
    noise: str = "any",
    least_classes: int = 0,
    slack: float = 1.0,
) -> Iterator[Check]:
    """In each cell: the largest value among `better` is strictly below the smallest among `worse` times `slack`."""
    measure = VALUES[value].of_spread
    for tuning, cell in itertools.product(tunings, _choose_cells(summary, sweep, noise, least_classes)):
        every = {name: summary.spreads(sweep, name, cell, tuning=tuning) for name in (*better, *worse)}
        spreads = {name: summary.best(sweep, name, cell, tuning=tuning) for name in every}
        most = max(measure(spreads[name]) for name in better)
        least = min(measure(spreads[name]) for name in worse)
        where = f"{cell}, {tuning}" if tuning else str(cell)
        pairs = itertools.product(better, worse) if VALUES[value].of_run else ()
        parts = tuple(_order(every[low], every[high], value, slack) for low, high in pairs)
        yield Check(where, most < least * slack, _list_numbers(spreads, value), AllOf(parts) if parts else None)


def below_on_average(summary: Summary, sweep: str, better: Sequence[str], worse: Sequence[str]) -> Check:
    """The same for the means over all cells, each learner with its better tuning in each of them."""
    means = {
        name: statistics.fmean(summary.best(sweep, name, cell).mean for cell in summary.cells(sweep))
        for name in (*better, *worse)
    }
    holds = max(means[name] for name in better) < min(means[name] for name in worse)
    return Check(
        "all cells", holds, ", ".join(f"{label_learner(name)} {_format(mean)}" for name, mean in means.items())
    )


def lowest(
    summary: Summary,
    sweep: str,
    some: Sequence[str],
    others: Sequence[str],
    *,
    tuning: str | None = None,
    noise: str = "any",
) -> Iterator[Check]:
    """In each cell: one of `some` has a lower mean than all `others`."""
    for cell in _choose_cells(summary, sweep, noise):
        every = {name: summary.spreads(sweep, name, cell, tuning=tuning) for name in (*some, *others)}
        spreads = {name: summary.best(sweep, name, cell, tuning=tuning) for name in every}
        first = min(spreads[name].mean for name in some)
        means = AnyOf(tuple(AllOf(tuple(_order(every[low], every[high]) for high in others)) for low in some))
        yield Check(str(cell), all(first < spreads[name].mean for name in others), _list_numbers(spreads), means)


def on_par(
    summary: Summary, sweep: str, learner: str, others: Sequence[str], *, tuning: str, noise: str, slack: float
) -> Iterator[Check]:
    """In each cell: the mean of a learner is at most `slack` times that of each of the others."""
    for cell in _choose_cells(summary, sweep, noise):
        spreads = {name: summary.best(sweep, name, cell, tuning=tuning) for name in (learner, *others)}
        own = spreads[learner]
        within = all(own.mean <= slack * spreads[name].mean for name in others)
        means = AllOf(tuple(_order([own], [spreads[name]], slack=slack) for name in others))
        yield Check(str(cell), within, _list_numbers(spreads), means)


def between_tunings(
    summary: Summary, sweeps: Sequence[str], learners: Sequence[str], lower: str, higher: str, value: str
) -> Iterator[Check]:
    """For each learner in each cell: the value is strictly lower with the tuning `lower` than with `higher`."""
    measure = VALUES[value].of_spread
    for sweep, learner in itertools.product(sweeps, learners):
        for cell in summary.cells(sweep):
            low = summary.best(sweep, learner, cell, tuning=lower)
            high = summary.best(sweep, learner, cell, tuning=higher)
            yield Check(
                f"{sweep}, {label_learner(learner)}, {cell}",
                measure(low) < measure(high),
                f"{lower} {_format(measure(low))}, {higher} {_format(measure(high))}",
                _order([low], [high], value) if VALUES[value].of_run else None,
            )


def rising_with_classes(
    summary: Summary,
    sweep: str,
    learner: str,
    *,
    minus: str | None = None,
    tuning: str | None = None,
    noise: str = "any",
) -> Iterator[Check]:
    """For each d and noise: the mean of a learner (less that of another) increases strictly from each K to the next."""

    def errors(name: str, cell: Cell) -> Series:
        return _list_values(summary.best(sweep, name, cell, tuning=tuning), "error")

    rows: dict[tuple[int, float], list[Cell]] = {}
    for cell in _choose_cells(summary, sweep, noise):
        rows.setdefault((cell.features, cell.noise), []).append(cell)
    for (features, rate), cells in rows.items():
        found = [errors(learner, cell).minus(errors(minus, cell)) if minus else errors(learner, cell) for cell in cells]
        means = [series.mean for series in found]
        yield Check(
            f"d={features}, noise {rate:g}",
            all(a < b for a, b in itertools.pairwise(means)),
            ", ".join(f"K={cell.classes} {_format(mean)}" for cell, mean in zip(cells, means, strict=True)),
            AllOf(tuple(Less(low, high) for low, high in itertools.pairwise(found))),
        )


def most_gained_without_noise(summary: Summary, sweep: str, learners: Sequence[str]) -> Iterator[Check]:
    """For each K and d: the relative gain of each learner from the tuning only-t is largest without noise."""
    for learner in learners:
        gains: dict[tuple[int, int], dict[float, float]] = {}
        for cell in summary.cells(sweep):
            theory = summary.best(sweep, learner, cell, tuning="theory").mean
            only_t = summary.best(sweep, learner, cell, tuning="only-t").mean
            gains.setdefault((cell.classes, cell.features), {})[cell.noise] = 1.0 - only_t / theory if theory else 0.0
        for (K, d), by_noise in gains.items():
            clean, *noisy = (by_noise[noise] for noise in sorted(by_noise))
            yield Check(
                f"{label_learner(learner)}, K={K}, d={d}",
                all(clean > gain for gain in noisy),
                ", ".join(f"noise {noise:g} {gain:.0%}" for noise, gain in by_noise.items()),
            )


def separated(summary: Summary, sweep: str, learners: Sequence[str], most: float, noise: str) -> Iterator[Check]:
    """In each cell: the error rate in the second half of the rounds is below `most`, for every learner."""
    for cell in _choose_cells(summary, sweep, noise):
        spreads = {name: summary.best(sweep, name, cell) for name in learners}
        below_most = tuple(Less(_list_values(spread, "late"), Series(constant=most)) for spread in spreads.values())
        holds = all(spread.late < most for spread in spreads.values())
        yield Check(str(cell), holds, _list_numbers(spreads, "late"), AllOf(below_most))


def scaled_behind(summary: Summary, sweep: str, scaled: str, learners: Sequence[str], versus: str) -> Iterator[Check]:
    """In each cell: a learner with its best setting (of those that were run) is worse than the others.

    Worse than the best of them, or than every one: `versus` is "best" or "every".
    """
    settings = [name for name in summary.learners(sweep) if name.startswith(scaled)]
    for cell in summary.cells(sweep):
        others = {name: summary.best(sweep, name, cell) for name in learners}
        own = {name: summary.best(sweep, name, cell) for name in settings}
        best = min(own, key=lambda name: own[name].mean)
        means = [spread.mean for spread in others.values()]
        parts = tuple(
            AllOf(tuple(_order(summary.spreads(sweep, name, cell), [spread]) for spread in own.values()))
            for name in others
        )
        yield Check(
            str(cell),
            (min(means) if versus == "best" else max(means)) < own[best].mean,
            _list_numbers({**others, best: own[best]}),
            AnyOf(parts) if versus == "best" else AllOf(parts),
        )


def top_up_helps(summary: Summary, graph: str, learners: Sequence[str]) -> Iterator[Check]:
    """For each learner in each cell: the mean with top-up is strictly lower than with the paper's rule."""
    for learner in learners:
        for cell in summary.cells(graph):
            ours = summary.best("exploration", learner, cell, tuning="only-t", graph=graph)
            theirs = summary.best(graph, learner, cell, tuning="only-t")
            yield Check(
                f"{label_learner(learner)}, {cell}",
                ours.mean < theirs.mean,
                f"top-up {_format(ours.mean)}, paper {_format(theirs.mean)}",
                _order([ours], [theirs]),
            )


# The tests by their names in ``claims.toml``.
TESTS: dict[str, Callable[..., Iterator[Check]]] = {
    test.__name__.replace("_", "-"): test
    for test in (
        below,
        lowest,
        on_par,
        between_tunings,
        rising_with_classes,
        most_gained_without_noise,
        separated,
        scaled_behind,
        top_up_helps,
    )
}


def _make_claim(test: dict[str, Any], needs: list[str], *, on_average: bool = False, **fields: Any) -> Claim:
    kind = test.pop("kind")
    if on_average:
        fields["average"] = functools.partial(below_on_average, **test)
    fields["share"] = tuple(fields.get("share", (1.0, 1.0)))
    return Claim(needs=tuple(needs), test=functools.partial(TESTS[kind], **test), **fields)


# All claims, in the order of the report; the last two are about the top-up rule, which is not in the paper.
CLAIMS: tuple[Claim, ...] = tuple(
    _make_claim(**claim)
    for claim in tomllib.loads(resources.files(__package__).joinpath("claims.toml").read_text("utf-8"))["claim"]
)
