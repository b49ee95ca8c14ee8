"""The statements of the paper's experiment sections that can be checked, each with a test on the stored runs.

A claim is a sentence in our words, a rule in words, and the same rule as a function that returns one :class:`Check` for
each cell that the sentence is about. Verdicts are computed from these checks only. "Better" is always a strict
comparison of means over the repeats; a "range" is the maximum error rate minus the minimum over the repeats.

A check of an ordering of means also has the ordering as a formula of the single runs, for a paired test: see
:mod:`gappletron.paper.evidence`. Ranges, and gains in percent, are counted only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from gappletron.paper import evidence
from gappletron.paper.drawing import label_of
from gappletron.paper.evidence import All, Any, Formula, Less, Series
from gappletron.paper.summary import Sample, Spread, Summary
from gappletron.paper.sweeps import GAPS, SWEEPS, TUNINGS, Cell

__all__ = ["CLAIMS", "Check", "Claim", "Verdict", "verdicts"]

ON_PAR = 1.05
"""Two means are on par if the first is at most this many times the second."""

SEPARATED = 0.001
"""The classes count as separated if the error rate in the second half of the rounds is below this."""

ABOUT_HALF = (1 / 3, 2 / 3)

BASELINES = ("pnewtron", "soba-diag", "banditron-iw")
NOT_GAPS = ("second-order-perceptron-diag", "perceptron", "passive-aggressive")


class Check(NamedTuple):
    """Whether a claim holds in one cell, the numbers that decide this, and the ordering of means that it states."""

    where: str
    holds: bool
    numbers: str
    ordering: Formula | None = None


Test = Callable[[Summary], Iterator[Check]]


class Claim(NamedTuple):
    """A statement of the paper (in its section `source`) with its test.

    `needs` names the runs that the test uses: a sweep, or a sweep and one tuning; `repeats` is the minimum number of
    repeats (two for a range). `unit` is what the rule is checked on: the cells, or rows or learners in them. `share` is
    the minimum and the maximum share of these on which the rule must be true; all of them by default.
    """

    id: str
    source: str
    needs: tuple[str, ...]
    sentence: str
    rule: str
    test: Test
    unit: str = "cells"
    repeats: int = 1
    share: tuple[float, float] = (1.0, 1.0)


class Verdict(NamedTuple):
    """A claim's checks on some stored runs.

    >>> claim = Claim("x", "section 5", ("full",), "All is well.", "true", lambda summary: iter(()))
    >>> print(Verdict(claim, (Check("K=6", True, ""), Check("K=9", False, "2 > 1"))).text)
    holds in 1 of 2 cells
    """

    claim: Claim
    checks: tuple[Check, ...]

    @property
    def part(self) -> float:
        """The share of the checks in which the rule is true."""
        return sum(check.holds for check in self.checks) / len(self.checks)

    @property
    def holds(self) -> bool:
        """Whether the statement as a whole is true for these runs."""
        least, most = self.claim.share
        return least <= self.part <= most

    @property
    def text(self) -> str:
        """In how many cells the rule is true, and whether the claim holds if it is about a share of the cells."""
        count = f"{sum(check.holds for check in self.checks)} of {len(self.checks)} {self.claim.unit}"
        if self.claim.share == (1.0, 1.0):
            return f"holds in {count}"
        return f"{'holds' if self.holds else 'does not hold'}: true in {count}"

    @property
    def told(self) -> str | None:
        """What a paired test over the repeats (and the seeds of the data, where there are several) says.

        "holds", "does not hold" or "cannot be told at this size"; each of the first two is wrong with probability at
        most :data:`gappletron.paper.evidence.ERROR_RATE`. None where the claim is not about means.
        """
        orderings = [check.ordering for check in self.checks if check.ordering is not None]
        if len(orderings) < len(self.checks):
            return None
        return evidence.told([evidence.weigh(ordering) for ordering in orderings], self.claim.share)

    @property
    def exceptions(self) -> tuple[Check, ...]:
        """The cells in which the rule is not true."""
        return tuple(check for check in self.checks if not check.holds)


def verdicts(summary: Summary) -> list[Verdict]:
    """The verdict on every claim whose runs are all in the summary.

    >>> verdicts(Summary([]))
    []
    """
    return [
        Verdict(claim, tuple(claim.test(summary)))
        for claim in CLAIMS
        if all(_is_there(summary, needed, claim.repeats) for needed in claim.needs)
    ]


def _is_there(summary: Summary, needed: str, repeats: int) -> bool:
    """Whether every learner of a sweep (with one tuning, if given) played in every cell, with enough repeats."""
    name, _, tuning = needed.partition(":")
    spreads = [
        summary.spreads(
            name,
            entrant.learner,
            Cell(data.classes, data.features, data.noise),
            tuning=entrant.tuning,
            graph=sweep.graph,
        )
        for sweep in SWEEPS
        if sweep.id == name
        for data in sweep.data
        for entrant in sweep.entrants
        if not tuning or entrant.tuning == tuning
    ]
    return all(spreads) and max(spread.runs for found in spreads for spread in found) >= repeats


# -------------------------------------------------------------------------------------------------------- shared tests


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 1.0 else f"{value:,.0f}"


def _numbers(spreads: dict[str, Spread], value: Callable[[Spread], float]) -> str:
    return ", ".join(f"{label_of(name)} {_number(value(spread))}" for name, spread in spreads.items())


def _mean(spread: Spread) -> float:
    return spread.mean


def _width(spread: Spread) -> float:
    return spread.width


def _explored(spread: Spread) -> float:
    return spread.explored


SAMPLED: dict[Callable[[Spread], float], Callable[[Sample], float]] = {
    _mean: lambda sample: sample.error,
    _explored: lambda sample: sample.explored,
}
"""The value of a single run, for the values that are means over the runs."""


def ordering(
    lows: Sequence[Spread], highs: Sequence[Spread], value: Callable[[Spread], float] = _mean, slack: float = 1.0
) -> Formula | None:
    """The lowest value among some configurations is below the lowest among others; None for what is not a mean."""
    sampled = SAMPLED.get(value)
    if sampled is None:
        return None
    return Any(
        tuple(All(tuple(Less(low.series(sampled), high.series(sampled), slack) for high in highs)) for low in lows)
    )


def all_of(parts: Iterable[Formula | None]) -> Formula | None:
    """Every part is true; None where a part has no formula."""
    found = tuple(parts)
    known = tuple(part for part in found if part is not None)
    return All(known) if len(known) == len(found) else None


def any_of(parts: Iterable[Formula | None]) -> Formula | None:
    """Some part is true; None where a part has no formula."""
    found = tuple(parts)
    known = tuple(part for part in found if part is not None)
    return Any(known) if len(known) == len(found) else None


def _any(_: float) -> bool:
    return True


def _some(
    summary: Summary, sweep: str, noises: Callable[[float], bool] = _any, classes: Callable[[float], bool] = _any
) -> Iterator[Cell]:
    return (cell for cell in summary.cells(sweep) if noises(cell.noise) and classes(cell.classes))


def below(
    sweep: str,
    better: Sequence[str],
    worse: Sequence[str],
    *,
    tuning: str | None = None,
    value: Callable[[Spread], float] = _mean,
    noises: Callable[[float], bool] = _any,
    classes: Callable[[float], bool] = _any,
    slack: float = 1.0,
) -> Test:
    """In each cell: the largest value among `better` is strictly below the smallest among `worse` times `slack`."""

    def test(summary: Summary) -> Iterator[Check]:
        for cell in _some(summary, sweep, noises, classes):
            spreads = {name: summary.best(sweep, name, cell, tuning=tuning) for name in (*better, *worse)}
            most = max(value(spreads[name]) for name in better)
            least = min(value(spreads[name]) for name in worse)
            where = f"{cell}, {tuning}" if tuning else str(cell)
            every = {name: summary.spreads(sweep, name, cell, tuning=tuning) for name in spreads}
            means = all_of(ordering(every[low], every[high], value, slack) for low in better for high in worse)
            yield Check(where, most < least * slack, _numbers(spreads, value), means)

    return test


def lowest_among(
    sweep: str,
    some: Sequence[str],
    others: Sequence[str],
    *,
    tuning: str | None = None,
    noises: Callable[[float], bool] = _any,
) -> Test:
    """In each cell: one of `some` has a lower mean than all `others`."""

    def test(summary: Summary) -> Iterator[Check]:
        for cell in _some(summary, sweep, noises):
            spreads = {name: summary.best(sweep, name, cell, tuning=tuning) for name in (*some, *others)}
            first = min(spreads[name].mean for name in some)
            every = {name: summary.spreads(sweep, name, cell, tuning=tuning) for name in spreads}
            means = any_of(all_of(ordering(every[low], every[high]) for high in others) for low in some)
            yield Check(str(cell), all(first < spreads[name].mean for name in others), _numbers(spreads, _mean), means)

    return test


def between_tunings(
    sweep: str, learners: Sequence[str], lower: str, higher: str, value: Callable[[Spread], float]
) -> Test:
    """For each learner in each cell: the value is strictly lower with the tuning `lower` than with `higher`."""

    def test(summary: Summary) -> Iterator[Check]:
        for learner in learners:
            for cell in summary.cells(sweep):
                low = summary.best(sweep, learner, cell, tuning=lower)
                high = summary.best(sweep, learner, cell, tuning=higher)
                yield Check(
                    f"{sweep}, {label_of(learner)}, {cell}",
                    value(low) < value(high),
                    f"{lower} {_number(value(low))}, {higher} {_number(value(high))}",
                    ordering([low], [high], value),
                )

    return test


def each_tuning(sweep: str, better: Sequence[str], worse: Sequence[str], value: Callable[[Spread], float]) -> Test:
    """As :func:`below`, with either tuning."""
    return together(*(below(sweep, better, worse, tuning=tuning, value=value) for tuning in TUNINGS))


def rising_with_classes(
    sweep: str, series: Callable[[Summary, Cell], Series], noises: Callable[[float], bool] = _any
) -> Test:
    """For each d and noise: the mean of the series increases strictly from each K to the next."""

    def test(summary: Summary) -> Iterator[Check]:
        rows: dict[tuple[int, float], list[Cell]] = {}
        for cell in _some(summary, sweep, noises):
            rows.setdefault((cell.features, cell.noise), []).append(cell)
        for (features, noise), cells in rows.items():
            found = [series(summary, cell) for cell in cells]
            values = [one.mean for one in found]
            yield Check(
                f"d={features}, noise {noise:g}",
                all(a < b for a, b in itertools.pairwise(values)),
                ", ".join(f"K={cell.classes} {_number(number)}" for cell, number in zip(cells, values, strict=True)),
                All(tuple(Less(low, high) for low, high in itertools.pairwise(found))),
            )

    return test


def together(*tests: Test) -> Test:
    """The checks of several tests."""

    def test(summary: Summary) -> Iterator[Check]:
        for each in tests:
            yield from each(summary)

    return test


# ----------------------------------------------------------------------------------------------- tests of single claims


def most_gained_without_noise(summary: Summary) -> Iterator[Check]:
    """For each K and d: the relative gain of GapLog and GapSmH from the tuning only-t is largest without noise."""
    for learner in ("gaplog", "gapsmh"):
        gains: dict[tuple[int, int], dict[float, float]] = {}
        for cell in summary.cells("bandit"):
            theory = summary.best("bandit", learner, cell, tuning="theory").mean
            only_t = summary.best("bandit", learner, cell, tuning="only-t").mean
            gains.setdefault((cell.classes, cell.features), {})[cell.noise] = 1.0 - only_t / theory if theory else 0.0
        for (K, d), by_noise in gains.items():
            clean, *noisy = (by_noise[noise] for noise in sorted(by_noise))
            yield Check(
                f"{label_of(learner)}, K={K}, d={d}",
                all(clean > gain for gain in noisy),
                ", ".join(f"noise {noise:g} {gain:.0%}" for noise, gain in by_noise.items()),
            )


def banditron_on_par(summary: Summary) -> Iterator[Check]:
    """With noise below 0.1 and theory tuning: Banditron's mean is on par with that of each Gappletron, or lower."""
    for cell in _some(summary, "bandit", lambda noise: noise < 0.1):
        gaps = {name: summary.best("bandit", name, cell, tuning="theory") for name in GAPS}
        banditron = summary.best("bandit", "banditron-iw", cell, tuning="theory")
        within = all(banditron.mean <= ON_PAR * spread.mean for spread in gaps.values())
        means = all_of(ordering([banditron], [spread], slack=ON_PAR) for spread in gaps.values())
        yield Check(str(cell), within, _numbers({"banditron-iw": banditron, **gaps}, _mean), means)


def others_separate(summary: Summary) -> Iterator[Check]:
    """Without noise: all learners except GapLog make almost no mistakes in the second half of the rounds."""
    for cell in _some(summary, "full", lambda noise: noise == 0.0):
        spreads = {name: summary.best("full", name, cell) for name in ("gaphin", "gapsmh", *NOT_GAPS)}
        yield Check(
            str(cell),
            all(spread.late < SEPARATED for spread in spreads.values()),
            _numbers(spreads, lambda spread: spread.late),
            All(
                tuple(
                    Less(spread.series(lambda sample: sample.late), Series(constant=SEPARATED))
                    for spread in spreads.values()
                )
            ),
        )


def query_perceptrons(summary: Summary) -> list[str]:
    """The names of the label-efficient Perceptrons, one per b."""
    return [name for name in summary.learners("label-efficient") if name.startswith("label-efficient-perceptron")]


def query_perceptron_behind(
    rank: Callable[[Iterable[float]], float], join: Callable[[Iterable[Formula | None]], Formula | None]
) -> Test:
    """In each cell: the mean of the Perceptron with its best b is above that of the best (`rank` is min, `join` any_of)
    or of every (max, all_of) Gappletron.
    """

    def test(summary: Summary) -> Iterator[Check]:
        for cell in summary.cells("label-efficient"):
            gaps = {name: summary.best("label-efficient", name, cell) for name in GAPS}
            perceptrons = {name: summary.best("label-efficient", name, cell) for name in query_perceptrons(summary)}
            best = min(perceptrons, key=lambda name: perceptrons[name].mean)
            yield Check(
                str(cell),
                rank(spread.mean for spread in gaps.values()) < perceptrons[best].mean,
                _numbers({**gaps, best: perceptrons[best]}, _mean),
                join(
                    all_of(
                        ordering(summary.spreads("label-efficient", name, cell), [spread])
                        for spread in perceptrons.values()
                    )
                    for name in gaps
                ),
            )

    return test


def mean_of(sweep: str, learner: str, tuning: str | None = None) -> Callable[[Summary, Cell], Series]:
    """A learner's error rates, as a function of the cell."""
    return lambda summary, cell: summary.best(sweep, learner, cell, tuning=tuning).series(SAMPLED[_mean])


def behind_banditron(gap: str) -> Callable[[Summary, Cell], Series]:
    """The error rates of a Gappletron minus those of Banditron, in filtering with theory tuning."""
    ours, theirs = (mean_of("filtering", name, "theory") for name in (gap, "banditron-iw"))
    return lambda summary, cell: ours(summary, cell).minus(theirs(summary, cell))


def top_up_helps(graph: str) -> Test:
    """For each Gappletron in each cell: the mean with top-up is strictly lower than with the paper's rule."""

    def test(summary: Summary) -> Iterator[Check]:
        for learner in GAPS:
            for cell in summary.cells(graph):
                ours = summary.best("exploration", learner, cell, tuning="only-t", graph=graph)
                theirs = summary.best(graph, learner, cell, tuning="only-t")
                yield Check(
                    f"{label_of(learner)}, {cell}",
                    ours.mean < theirs.mean,
                    f"top-up {_number(ours.mean)}, paper {_number(theirs.mean)}",
                    ordering([ours], [theirs]),
                )

    return test


# --------------------------------------------------------------------------------------------------------------- claims

LOG_SMOOTH = ("gaplog", "gapsmh")
OTHERS = ("gaphin", *BASELINES)


def _noisy(noise: float) -> bool:
    return noise > 0.0


def _clean(noise: float) -> bool:
    return noise == 0.0


SECTION = "section 5"
BANDIT, FILTERING, FULL, QUERIES = (
    f"appendix, {setting}" for setting in ("bandit", "filtering", "full information", "label efficient")
)
OURS = "ours"
STEPS = "rows of K"
EXPLORED = "average number of rounds in which the action is not the greedy class"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "bandit-all-gaps",
        SECTION,
        ("bandit",),
        "With its better tuning every version of Gappletron beats every baseline on average.",
        "the largest of the three Gappletrons' means < the smallest of the baselines' means",
        below("bandit", GAPS, BASELINES),
    ),
    Claim(
        "bandit-best",
        BANDIT,
        ("bandit",),
        "With each learner's better tuning, GapLog and GapSmH beat all others.",
        "the means of GapLog and GapSmH < the mean of every other learner",
        below("bandit", LOG_SMOOTH, OTHERS),
    ),
    Claim(
        "bandit-hinge-unstable",
        SECTION,
        ("bandit",),
        "GapHin is less stable than GapLog and GapSmH (better tunings).",
        "GapHin's range > the range of GapLog and of GapSmH",
        below("bandit", LOG_SMOOTH, ("gaphin",), value=_width),
        repeats=2,
    ),
    Claim(
        "bandit-hinge-wider-than-log",
        SECTION,
        ("bandit",),
        "GapHin's range is wider than GapLog's (better tunings).",
        "GapLog's range < GapHin's range",
        below("bandit", ("gaplog",), ("gaphin",), value=_width),
        repeats=2,
    ),
    Claim(
        "bandit-log-stable",
        SECTION,
        ("bandit",),
        "GapLog has the smallest range of the three versions (better tunings).",
        "GapLog's range < the ranges of GapHin and of GapSmH",
        below("bandit", ("gaplog",), ("gaphin", "gapsmh"), value=_width),
        repeats=2,
    ),
    Claim(
        "bandit-hinge-explores-least",
        BANDIT,
        ("bandit",),
        "GapHin explores less than GapSmH and GapLog.",
        f"{EXPLORED}, both tunings: GapHin < GapSmH and GapLog",
        each_tuning("bandit", ("gaphin",), LOG_SMOOTH, _explored),
        unit="cells x tunings",
    ),
    Claim(
        "bandit-smooth-explores-less-than-log",
        BANDIT,
        ("bandit",),
        "GapSmH explores less than GapLog.",
        f"{EXPLORED}, both tunings: GapSmH < GapLog",
        each_tuning("bandit", ("gapsmh",), ("gaplog",), _explored),
        unit="cells x tunings",
    ),
    Claim(
        "bandit-smooth-wider-than-log",
        BANDIT,
        ("bandit:only-t",),
        "GapSmH's range is wider than GapLog's (only-T tuning).",
        "GapLog's range < GapSmH's range",
        below("bandit", ("gaplog",), ("gapsmh",), tuning="only-t", value=_width),
        repeats=2,
    ),
    Claim(
        "bandit-theory-poor",
        BANDIT,
        ("bandit:theory",),
        "With theory tuning PNewtron and SOBAdiag perform poorly.",
        "theory tuning: the means of PNewtron and SOBAdiag > the mean of every other learner",
        below("bandit", (*GAPS, "banditron-iw"), ("pnewtron", "soba-diag"), tuning="theory"),
    ),
    Claim(
        "bandit-theory-hurts",
        BANDIT,
        ("bandit",),
        "Theory tuning hurts PNewtron and SOBAdiag: without it they improve greatly.",
        "mean with only-T < mean with theory, for each of the two (the paper does not say by how much)",
        between_tunings("bandit", ("pnewtron", "soba-diag"), "only-t", "theory", _mean),
        unit="cells x learners",
    ),
    Claim(
        "bandit-theory-banditron-half",
        BANDIT,
        ("bandit:theory",),
        "With theory tuning Banditron is the best in about half of the cells.",
        "Banditron's mean < all other means; true in a third to two thirds of the cells",
        lowest_among("bandit", ("banditron-iw",), (*GAPS, "pnewtron", "soba-diag"), tuning="theory"),
        share=ABOUT_HALF,
    ),
    Claim(
        "bandit-standard-banditron",
        SECTION,
        ("bandit",),
        "The standard Banditron is not satisfactory, so the importance-weighted one is used.",
        "better tunings: the mean of the importance-weighted Banditron < that of the standard one",
        below("bandit", ("banditron-iw",), ("banditron",)),
    ),
    Claim(
        "bandit-only-t-helps",
        BANDIT,
        ("bandit",),
        "GapLog and GapSmH improve when tuned only with T.",
        "mean with only-T < mean with theory, for each of the two",
        between_tunings("bandit", LOG_SMOOTH, "only-t", "theory", _mean),
        unit="cells x learners",
    ),
    Claim(
        "bandit-only-t-helps-most-clean",
        BANDIT,
        ("bandit",),
        "GapLog and GapSmH improve most without noise.",
        "for each of the two, each K and d: 1 - only-T mean / theory mean is largest without noise",
        most_gained_without_noise,
        unit="pairs (K, d) x learners",
    ),
    Claim(
        "bandit-only-t-hinge",
        BANDIT,
        ("bandit",),
        "GapHin becomes less stable when tuned only with T.",
        "GapHin's range with theory < its range with only-T",
        between_tunings("bandit", ("gaphin",), "theory", "only-t", _width),
        repeats=2,
    ),
    Claim(
        "bandit-only-t-spread",
        FILTERING,
        ("bandit",),
        "In the bandit setting the ranges of the learners grow when tuned only with T.",
        "each learner: range with theory < range with only-T",
        between_tunings("bandit", (*GAPS, *BASELINES), "theory", "only-t", _width),
        unit="cells x learners",
        repeats=2,
    ),
    Claim(
        "bandit-theory-low-noise",
        BANDIT,
        ("bandit:theory",),
        "With theory tuning and little noise Banditron is on par with every version of Gappletron.",
        f"noise 0 and 0.05: Banditron's mean <= {ON_PAR:g} times the mean of each Gappletron",
        banditron_on_par,
    ),
    Claim(
        "bandit-theory-high-noise",
        BANDIT,
        ("bandit:theory",),
        "With theory tuning and much noise GapLog and GapSmH beat all others.",
        "noise 0.1: the means of GapLog and GapSmH < the mean of every other learner",
        below("bandit", LOG_SMOOTH, OTHERS, tuning="theory", noises=lambda noise: noise >= 0.1),
    ),
    Claim(
        "bandit-only-t-best",
        BANDIT,
        ("bandit:only-t",),
        "When tuned only with T, GapLog and GapSmH beat all others.",
        "the means of GapLog and GapSmH < the mean of every other learner",
        below("bandit", LOG_SMOOTH, OTHERS, tuning="only-t"),
    ),
    Claim(
        "stability",
        SECTION,
        ("bandit", "filtering"),
        "More exploration makes Gappletron more stable, in all cases.",
        "each Gappletron, bandit and filtering: range with theory (the larger gamma) < range with only-T",
        together(
            between_tunings("bandit", GAPS, "theory", "only-t", _width),
            between_tunings("filtering", GAPS, "theory", "only-t", _width),
        ),
        unit="cells x learners",
        repeats=2,
    ),
    Claim(
        "filtering-log-behind",
        SECTION,
        ("filtering",),
        "In filtering GapLog makes more mistakes than GapHin and GapSmH for K > 6 (better tunings).",
        "K > 6: GapLog's mean > the means of GapHin and of GapSmH",
        below("filtering", ("gaphin", "gapsmh"), ("gaplog",), classes=lambda K: K > 6),
    ),
    Claim(
        "filtering-log-explores",
        SECTION,
        ("filtering",),
        "In filtering GapLog explores more than GapHin and GapSmH.",
        f"{EXPLORED}, both tunings: GapLog > GapHin and GapSmH",
        each_tuning("filtering", ("gaphin", "gapsmh"), ("gaplog",), _explored),
        unit="cells x tunings",
    ),
    Claim(
        "filtering-theory-clean",
        FILTERING,
        ("filtering:theory",),
        "In filtering with theory tuning and no noise Banditron is the best.",
        "noise 0: Banditron's mean < all other means",
        lowest_among("filtering", ("banditron-iw",), GAPS, tuning="theory", noises=_clean),
    ),
    *(
        Claim(
            f"filtering-theory-classes-{gap}",
            FILTERING,
            ("filtering:theory",),
            f"In filtering with theory tuning and noise, {label} falls behind Banditron as K grows.",
            f"for each d and noise > 0: mean of {label} - mean of Banditron increases with K",
            rising_with_classes("filtering", behind_banditron(gap), _noisy),
            unit=STEPS,
        )
        for gap, label in (("gaplog", "GapLog"), ("gaphin", "GapHin"), ("gapsmh", "GapSmH"))
    ),
    Claim(
        "filtering-only-t-spread",
        FILTERING,
        ("filtering",),
        "In filtering the ranges of the learners grow when tuned only with T.",
        "each learner: range with theory < range with only-T",
        between_tunings("filtering", (*GAPS, "banditron-iw"), "theory", "only-t", _width),
        unit="cells x learners",
        repeats=2,
    ),
    Claim(
        "filtering-only-t-best",
        FILTERING,
        ("filtering:only-t",),
        "In filtering, when tuned only with T, GapHin or GapSmH is the best.",
        "the lowest of all means is GapHin's or GapSmH's",
        lowest_among("filtering", ("gaphin", "gapsmh"), ("gaplog", "banditron-iw"), tuning="only-t"),
    ),
    Claim(
        "filtering-best",
        FILTERING,
        ("filtering",),
        "In filtering GapHin or GapSmH is the best across the tunings.",
        "better tunings: the lowest of all means is GapHin's or GapSmH's",
        lowest_among("filtering", ("gaphin", "gapsmh"), ("gaplog", "banditron-iw")),
    ),
    Claim(
        "filtering-log-classes",
        FILTERING,
        ("filtering:only-t",),
        "In filtering GapLog gets worse as K grows.",
        "for each d and noise, only-T: GapLog's mean increases with K",
        rising_with_classes("filtering", mean_of("filtering", "gaplog", "only-t")),
        unit=STEPS,
    ),
    Claim(
        "full-log-classes",
        FILTERING,
        ("full",),
        "With full information GapLog also gets worse as K grows.",
        "for each d and noise: GapLog's mean increases with K",
        rising_with_classes("full", mean_of("full", "gaplog")),
        unit=STEPS,
    ),
    Claim(
        "full-separated",
        FULL,
        ("full",),
        "With full information and no noise essentially all learners find the separating hyperplane.",
        "noise 0: for every learner except GapLog, which never stops exploring, the error rate in the second half of "
        f"the rounds is below {SEPARATED:g}",
        others_separate,
    ),
    Claim(
        "full-log-worst-clean",
        FULL,
        ("full",),
        "With full information and no noise GapLog is the worst.",
        "noise 0: GapLog's mean > the mean of every other learner",
        below("full", ("gaphin", "gapsmh", *NOT_GAPS), ("gaplog",), noises=_clean),
    ),
    Claim(
        "full-log-explores",
        FULL,
        ("full",),
        "With full information GapLog explores more than GapHin and GapSmH.",
        f"{EXPLORED}: GapLog > GapHin and GapSmH",
        below("full", ("gaphin", "gapsmh"), ("gaplog",), value=_explored),
    ),
    Claim(
        "full-log-worse-noisy",
        FULL,
        ("full",),
        "With full information and noise GapLog is the worst version of Gappletron.",
        "noise > 0: GapLog's mean > the means of GapHin and of GapSmH",
        below("full", ("gaphin", "gapsmh"), ("gaplog",), noises=_noisy),
    ),
    Claim(
        "full-log-on-par",
        FULL,
        ("full",),
        "With full information and noise GapLog is on par with the non-Gappletrons or better.",
        f"noise > 0: GapLog's mean < {ON_PAR:g} times the mean of each of them",
        below("full", ("gaplog",), NOT_GAPS, noises=_noisy, slack=ON_PAR),
    ),
    Claim(
        "full-smooth-best",
        FULL,
        ("full",),
        "With full information and noise GapSmH is the best.",
        "noise > 0: GapSmH's mean < all other means",
        below("full", ("gapsmh",), ("gaplog", "gaphin", *NOT_GAPS), noises=_noisy),
    ),
    Claim(
        "full-smooth-best-overall",
        FULL,
        ("full",),
        "Overall, with full information, GapSmH performs best.",
        "GapSmH's mean < all other means; true in half of the cells or more",
        below("full", ("gapsmh",), ("gaplog", "gaphin", *NOT_GAPS)),
        share=(0.5, 1.0),
    ),
    Claim(
        "label-efficient-best",
        QUERIES,
        ("label-efficient",),
        "For every b the label-efficient Perceptron is worse than the best Gappletron.",
        "for every b: its mean > the smallest of the Gappletrons' means with their better tunings (a query is a "
        "mistake)",
        query_perceptron_behind(min, any_of),
    ),
    Claim(
        "label-efficient-all",
        QUERIES,
        ("label-efficient",),
        "For every b the label-efficient Perceptron is worse than every Gappletron.",
        "for every b: its mean > the largest of the Gappletrons' means with their better tunings (a query "
        "is a mistake)",
        query_perceptron_behind(max, all_of),
    ),
    Claim(
        "ours-top-up-filtering",
        OURS,
        ("exploration", "filtering:only-t"),
        "In filtering the top-up rule makes fewer mistakes than the rule of Algorithm 1.",
        "each Gappletron, only-T: mean with top-up < mean with paper",
        top_up_helps("filtering"),
        unit="cells x learners",
    ),
    Claim(
        "ours-top-up-label-efficient",
        OURS,
        ("exploration", "label-efficient:only-t"),
        "In label efficient classification the top-up rule makes fewer mistakes than the rule of Algorithm 1.",
        "each Gappletron, only-T: mean with top-up < mean with paper",
        top_up_helps("label-efficient"),
        unit="cells x learners",
    ),
)
"""All claims, in the order of the report; the last two are about the top-up rule, which is not in the paper."""
