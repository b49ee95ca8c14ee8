"""The sentences of the paper's experiment sections that can be checked, each with its test on the stored runs.

A claim is a sentence in our words, a rule in words, and the same rule as a function: from the runs of a sweep to one
:class:`Check` for each cell in which the sentence says something. Verdicts are computed from these alone. "Better" is always a
strict comparison of stored means, "range" is from the least to the most error rate over the repeats.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gappletron.experiments.summary import Summary
from gappletron.experiments.sweeps import GAPS

if TYPE_CHECKING:
    from gappletron.experiments.store import Result
    from gappletron.experiments.summary import Cell, Spread

__all__ = ["CLAIMS", "Check", "Claim", "Verdict", "verdicts"]

BASELINES = ("pnewtron", "soba-diag", "banditron-iw")
NOT_GAPS = ("second-order-perceptron-diag", "perceptron", "passive-aggressive")


class Check(NamedTuple):
    """Whether a claim holds in one cell, and the numbers that decide it."""

    where: str
    holds: bool
    numbers: str


Test = Callable[[Summary], Iterator[Check]]


class Claim(NamedTuple):
    """A sentence of the paper with its test.

    `share` is the least and the largest part of the cells in which the rule must be true for the sentence to be; a sentence
    without a number in it speaks of all.
    """

    id: str
    sweeps: tuple[str, ...]
    sentence: str
    rule: str
    test: Test
    share: tuple[float, float] = (1.0, 1.0)


class Verdict(NamedTuple):
    """A claim's checks on some stored runs.

    >>> claim = Claim("x", ("full",), "All is well.", "true", lambda summary: iter(()))
    >>> print(Verdict(claim, (Check("K=6", True, ""), Check("K=9", False, "2 > 1"))).text)
    holds in 1 of 2 cells
    """

    claim: Claim
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether the sentence, as a whole, is true of these runs."""
        least, most = self.claim.share
        return least <= sum(check.holds for check in self.checks) / len(self.checks) <= most

    @property
    def text(self) -> str:
        """In how many cells the rule is true; where the sentence speaks of a part of them, whether that is so."""
        count = f"{sum(check.holds for check in self.checks)} of {len(self.checks)} cells"
        if self.claim.share == (1.0, 1.0):
            return f"holds in {count}"
        return f"{'holds' if self.holds else 'does not hold'}: true in {count}"

    @property
    def exceptions(self) -> tuple[Check, ...]:
        """The cells in which the rule is not true."""
        return tuple(check for check in self.checks if not check.holds)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """Every claim whose sweeps are there, judged by these runs."""
    summary = Summary(results)
    there = {result.task.figure for result in results}
    found = (Verdict(claim, tuple(claim.test(summary))) for claim in CLAIMS if there.issuperset(claim.sweeps))
    return [verdict for verdict in found if verdict.checks]


# ----------------------------------------------------------------------------------------------------------- tests to reuse

def _numbers(spreads: dict[str, Spread], value: Callable[[Spread], float]) -> str:
    return ", ".join(f"{name} {value(spread):.4g}" for name, spread in spreads.items())


def _mean(spread: Spread) -> float:
    return spread.mean


def _width(spread: Spread) -> float:
    return spread.width


def _explored(spread: Spread) -> float:
    return spread.explored


def _any(_: float) -> bool:
    return True


def _some(summary: Summary, figure: str, noises: Callable[[float], bool] = _any,
          classes: Callable[[float], bool] = _any) -> Iterator[Cell]:
    return (cell for cell in summary.cells(figure) if noises(cell.noise) and classes(cell.classes))


def below(figure: str, better: Sequence[str], worse: Sequence[str], *, tuning: str | None = None,
          value: Callable[[Spread], float] = _mean, noises: Callable[[float], bool] = _any,
          classes: Callable[[float], bool] = _any, slack: float = 1.0) -> Test:
    """In each cell: the value of every one of `better` is strictly below that of every one of `worse` (times `slack`)."""
    def test(summary: Summary) -> Iterator[Check]:
        for cell in _some(summary, figure, noises, classes):
            spreads = {name: summary.best(figure, name, cell, tuning=tuning) for name in (*better, *worse)}
            most = max(value(spreads[name]) for name in better)
            least = min(value(spreads[name]) for name in worse)
            yield Check(str(cell), most < least * slack, _numbers(spreads, value))
    return test


def lowest_among(figure: str, some: Sequence[str], others: Sequence[str], *, tuning: str | None = None,
                 noises: Callable[[float], bool] = _any) -> Test:
    """In each cell: the lowest mean of all belongs to one of `some`."""
    def test(summary: Summary) -> Iterator[Check]:
        for cell in _some(summary, figure, noises):
            spreads = {name: summary.best(figure, name, cell, tuning=tuning) for name in (*some, *others)}
            first = min(spreads[name].mean for name in some)
            yield Check(str(cell), all(first < spreads[name].mean for name in others), _numbers(spreads, _mean))
    return test


def between_tunings(figure: str, learners: Sequence[str], lower: str, higher: str,
                    value: Callable[[Spread], float]) -> Test:
    """For each learner in each cell: the value is strictly lower with the one tuning than with the other."""
    def test(summary: Summary) -> Iterator[Check]:
        for learner in learners:
            for cell in summary.cells(figure):
                low = summary.best(figure, learner, cell, tuning=lower)
                high = summary.best(figure, learner, cell, tuning=higher)
                yield Check(f"{learner}, {cell}", value(low) < value(high),
                            f"{lower} {value(low):.4g}, {higher} {value(high):.4g}")
    return test


def in_order(figure: str, learners: Sequence[str], value: Callable[[Spread], float],
             tuning: str | None = None) -> Test:
    """In each cell the values rise strictly in the order of the learners."""
    def test(summary: Summary) -> Iterator[Check]:
        for cell in summary.cells(figure):
            spreads = {name: summary.best(figure, name, cell, tuning=tuning) for name in learners}
            values = [value(spread) for spread in spreads.values()]
            yield Check(str(cell), all(a < b for a, b in itertools.pairwise(values)), _numbers(spreads, value))
    return test


def rising_with_classes(figure: str, value: Callable[[Summary, Cell], float],
                        noises: Callable[[float], bool] = _any) -> Test:
    """For each d and noise: the value rises strictly from each K to the next."""
    def test(summary: Summary) -> Iterator[Check]:
        rows: dict[tuple[int, float], list[Cell]] = {}
        for cell in _some(summary, figure, noises):
            rows.setdefault((cell.features, cell.noise), []).append(cell)
        for (features, noise), cells in rows.items():
            values = [value(summary, cell) for cell in cells]
            yield Check(f"d={features}, noise {noise:g}", all(a < b for a, b in itertools.pairwise(values)),
                        ", ".join(f"K={cell.classes} {number:.4g}" for cell, number in zip(cells, values, strict=True)))
    return test


def together(*tests: Test) -> Test:
    """The checks of several tests."""
    def test(summary: Summary) -> Iterator[Check]:
        for each in tests:
            yield from each(summary)
    return test


# ------------------------------------------------------------------------------------------------------- tests of their own


def most_gained_without_noise(summary: Summary) -> Iterator[Check]:
    """For each K and d: what GapLog and GapSmH gain by the tuning only-t, as a part of the error, is largest without noise."""
    for learner in ("gaplog", "gapsmh"):
        gains: dict[tuple[int, int], dict[float, float]] = {}
        for cell in summary.cells("bandit"):
            theory = summary.best("bandit", learner, cell, tuning="theory").mean
            only_t = summary.best("bandit", learner, cell, tuning="only-t").mean
            gains.setdefault((cell.classes, cell.features), {})[cell.noise] = 1.0 - only_t / theory
        for (K, d), by_noise in gains.items():
            yield Check(f"{learner}, K={K}, d={d}", by_noise[min(by_noise)] == max(by_noise.values()),
                        ", ".join(f"noise {noise:g} {gain:.0%}" for noise, gain in by_noise.items()))


def banditron_on_par(summary: Summary) -> Iterator[Check]:
    """Banditron's mean, tuned by theory, is at most a tenth above or below that of some Gappletron, or below all of them."""
    for cell in _some(summary, "bandit", lambda noise: noise < 0.1):
        gaps = {name: summary.best("bandit", name, cell, tuning="theory") for name in GAPS}
        banditron = summary.best("bandit", "banditron-iw", cell, tuning="theory")
        within = all(banditron.mean <= 1.1 * spread.mean for spread in gaps.values())
        yield Check(str(cell), within, _numbers({"banditron-iw": banditron, **gaps}, _mean))


def others_separate(summary: Summary) -> Iterator[Check]:
    """Without noise all but GapLog make less than one mistake in a thousand rounds in the second half."""
    for cell in _some(summary, "full", lambda noise: noise == 0.0):
        spreads = {name: summary.best("full", name, cell) for name in ("gaphin", "gapsmh", *NOT_GAPS)}
        yield Check(str(cell), all(spread.late < 0.001 for spread in spreads.values()),
                    _numbers(spreads, lambda spread: spread.late))


def query_perceptrons(summary: Summary) -> list[str]:
    """The label-efficient Perceptrons that played, one for each b."""
    return [name for name in summary.learners("label-efficient") if name.startswith("label-efficient-perceptron")]


def query_perceptron_behind(rank: Callable[[Iterable[float]], float]) -> Test:
    """In each cell: with every b the Perceptron's mean is above that of the best (`min`) or of every (`max`) Gappletron."""
    def test(summary: Summary) -> Iterator[Check]:
        for cell in summary.cells("label-efficient"):
            gaps = {name: summary.best("label-efficient", name, cell) for name in GAPS}
            perceptrons = {name: summary.best("label-efficient", name, cell) for name in query_perceptrons(summary)}
            best = min(perceptrons, key=lambda name: perceptrons[name].mean)
            yield Check(str(cell), rank(spread.mean for spread in gaps.values()) < perceptrons[best].mean,
                        _numbers({**gaps, best: perceptrons[best]}, _mean))
    return test


def mean_of(figure: str, learner: str, tuning: str | None = None) -> Callable[[Summary, Cell], float]:
    """A learner's mean, as a function of the cell."""
    return lambda summary, cell: summary.best(figure, learner, cell, tuning=tuning).mean


def behind_banditron(gap: str) -> Callable[[Summary, Cell], float]:
    """How far a Gappletron's mean is above Banditron's, in filtering with theory tuning."""
    return lambda summary, cell: (summary.best("filtering", gap, cell, tuning="theory").mean
                                  - summary.best("filtering", "banditron-iw", cell, tuning="theory").mean)


def top_up_helps(graph: str, paper: str) -> Test:
    """For each Gappletron in each cell: the mean with top-up is strictly below that with the paper's rule."""
    def test(summary: Summary) -> Iterator[Check]:
        for learner in GAPS:
            for cell in summary.cells(paper):
                ours = summary.best("exploration", learner, cell, tuning="only-t", graph=graph)
                theirs = summary.best(paper, learner, cell, tuning="only-t")
                yield Check(f"{learner}, {cell}", ours.mean < theirs.mean, f"top-up {ours.mean:.4g}, paper {theirs.mean:.4g}")
    return test


# ------------------------------------------------------------------------------------------------------------------ claims

LOG_SMOOTH = ("gaplog", "gapsmh")
OTHERS = ("gaphin", *BASELINES)


def _noisy(noise: float) -> bool:
    return noise > 0.0


def _clean(noise: float) -> bool:
    return noise == 0.0


CLAIMS: tuple[Claim, ...] = (
    Claim("bandit-all-gaps", ("bandit",),
          "With its better tuning every version of Gappletron beats every baseline on average.",
          "the largest of the three Gappletrons' means < the smallest of the baselines' means",
          below("bandit", GAPS, BASELINES)),
    Claim("bandit-best", ("bandit",),
          "With each learner's better tuning, GapLog and GapSmH beat all others.",
          "the means of GapLog and GapSmH < the mean of every other learner",
          below("bandit", LOG_SMOOTH, OTHERS)),
    Claim("bandit-hinge-unstable", ("bandit",),
          "GapHin is less stable than GapLog and GapSmH (better tunings).",
          "GapHin's range > the range of GapLog and of GapSmH",
          below("bandit", LOG_SMOOTH, ("gaphin",), value=_width)),
    Claim("bandit-hinge-wider-than-log", ("bandit",),
          "GapHin's range is wider than GapLog's (better tunings).",
          "GapLog's range < GapHin's range",
          below("bandit", ("gaplog",), ("gaphin",), value=_width)),
    Claim("bandit-log-stable", ("bandit",),
          "GapLog has the smallest range of the three versions (better tunings).",
          "GapLog's range < the ranges of GapHin and of GapSmH",
          below("bandit", ("gaplog",), ("gaphin", "gapsmh"), value=_width)),
    Claim("bandit-exploring-only-t", ("bandit",),
          "GapHin explores least and GapLog most (only-T tuning).",
          "rounds in which the action is not the greedy class, averaged: GapHin < GapSmH < GapLog",
          in_order("bandit", ("gaphin", "gapsmh", "gaplog"), _explored, "only-t")),
    Claim("bandit-exploring-theory", ("bandit",),
          "GapHin explores least and GapLog most (theory tuning).",
          "rounds in which the action is not the greedy class, averaged: GapHin < GapSmH < GapLog",
          in_order("bandit", ("gaphin", "gapsmh", "gaplog"), _explored, "theory")),
    Claim("bandit-theory-hurts", ("bandit",),
          "Theory tuning hurts PNewtron and SOBAdiag.",
          "mean with only-T < mean with theory, for each of the two",
          between_tunings("bandit", ("pnewtron", "soba-diag"), "only-t", "theory", _mean)),
    Claim("bandit-theory-banditron-half", ("bandit",),
          "With theory tuning Banditron is the best in about half of the cells.",
          "Banditron's mean < all other means; true in a third to two thirds of the cells",
          lowest_among("bandit", ("banditron-iw",), (*GAPS, "pnewtron", "soba-diag"), tuning="theory"), (1 / 3, 2 / 3)),
    Claim("bandit-only-t-helps", ("bandit",),
          "GapLog and GapSmH improve when only tuned with T.",
          "mean with only-T < mean with theory, for each of the two",
          between_tunings("bandit", LOG_SMOOTH, "only-t", "theory", _mean)),
    Claim("bandit-only-t-helps-most-clean", ("bandit",),
          "They improve most where there is no noise.",
          "for each K and d: 1 - only-T mean / theory mean is largest at the least noise",
          most_gained_without_noise),
    Claim("bandit-only-t-hinge", ("bandit",),
          "GapHin becomes less stable when only tuned with T.",
          "GapHin's range with theory < its range with only-T",
          between_tunings("bandit", ("gaphin",), "theory", "only-t", _width)),
    Claim("bandit-theory-low-noise", ("bandit",),
          "With theory tuning and little noise Banditron is on par with every version of Gappletron.",
          "noise 0 and 0.05: Banditron's mean <= 1.1 times the mean of each Gappletron",
          banditron_on_par),
    Claim("bandit-theory-high-noise", ("bandit",),
          "With theory tuning and much noise GapLog and GapSmH beat all others.",
          "noise 0.1: the means of GapLog and GapSmH < the mean of every other learner",
          below("bandit", LOG_SMOOTH, OTHERS, tuning="theory", noises=lambda noise: noise >= 0.1)),
    Claim("bandit-only-t-best", ("bandit",),
          "When only tuned with T, GapLog and GapSmH beat all others.",
          "the means of GapLog and GapSmH < the mean of every other learner",
          below("bandit", LOG_SMOOTH, OTHERS, tuning="only-t")),
    Claim("stability", ("bandit", "filtering"),
          "More exploration makes Gappletron more stable, in all cases.",
          "each Gappletron, bandit and filtering: range with theory (the larger gamma) < range with only-T",
          together(between_tunings("bandit", GAPS, "theory", "only-t", _width),
                   between_tunings("filtering", GAPS, "theory", "only-t", _width))),
    Claim("filtering-log-behind", ("filtering",),
          "In filtering GapLog errs more than GapHin and GapSmH for K > 6 (better tunings).",
          "K > 6: GapLog's mean > the means of GapHin and of GapSmH",
          below("filtering", ("gaphin", "gapsmh"), ("gaplog",), classes=lambda K: K > 6)),
    Claim("filtering-theory-clean", ("filtering",),
          "In filtering with theory tuning Banditron is the best where there is no noise.",
          "noise 0: Banditron's mean < all other means",
          lowest_among("filtering", ("banditron-iw",), GAPS, tuning="theory", noises=_clean)),
    *(Claim(f"filtering-theory-classes-{gap}", ("filtering",),
            f"In filtering with theory tuning and noise, {label} falls behind Banditron as K grows.",
            f"for each d and noise > 0: mean of {label} - mean of Banditron rises from K to K",
            rising_with_classes("filtering", behind_banditron(gap), _noisy))
      for gap, label in (("gaplog", "GapLog"), ("gaphin", "GapHin"), ("gapsmh", "GapSmH"))),
    Claim("filtering-only-t-spread", ("filtering",),
          "In filtering the ranges grow when only tuned with T.",
          "each learner: range with theory < range with only-T",
          between_tunings("filtering", (*GAPS, "banditron-iw"), "theory", "only-t", _width)),
    Claim("filtering-only-t-best", ("filtering",),
          "In filtering, only tuned with T, GapHin or GapSmH is the best.",
          "the lowest of all means is GapHin's or GapSmH's",
          lowest_among("filtering", ("gaphin", "gapsmh"), ("gaplog", "banditron-iw"), tuning="only-t")),
    Claim("filtering-best", ("filtering",),
          "In filtering GapHin or GapSmH is the best across the tunings.",
          "better tunings: the lowest of all means is GapHin's or GapSmH's",
          lowest_among("filtering", ("gaphin", "gapsmh"), ("gaplog", "banditron-iw"))),
    Claim("filtering-log-classes", ("filtering",),
          "In filtering GapLog gets worse as K grows.",
          "for each d and noise, only-T: GapLog's mean rises from K to K",
          rising_with_classes("filtering", mean_of("filtering", "gaplog", "only-t"))),
    Claim("full-log-classes", ("full",),
          "So it does with full information.",
          "for each d and noise: GapLog's mean rises from K to K",
          rising_with_classes("full", mean_of("full", "gaplog"))),
    Claim("full-separated", ("full",),
          "With full information and no noise all but GapLog find the separating hyperplane.",
          "noise 0: every other learner errs in less than one of a thousand rounds of the second half",
          others_separate),
    Claim("full-log-worst-clean", ("full",),
          "With full information and no noise GapLog is the worst.",
          "noise 0: GapLog's mean > the mean of every other learner",
          below("full", ("gaphin", "gapsmh", *NOT_GAPS), ("gaplog",), noises=_clean)),
    Claim("full-log-worse-noisy", ("full",),
          "With full information and noise GapLog is the worst version of Gappletron.",
          "noise > 0: GapLog's mean > the means of GapHin and of GapSmH",
          below("full", ("gaphin", "gapsmh"), ("gaplog",), noises=_noisy)),
    Claim("full-log-on-par", ("full",),
          "With full information and noise GapLog is on par with the non-Gappletrons or better.",
          "noise > 0: GapLog's mean < 1.02 times the mean of each of them",
          below("full", ("gaplog",), NOT_GAPS, noises=_noisy, slack=1.02)),
    Claim("full-smooth-best", ("full",),
          "With full information and noise GapSmH is the best.",
          "noise > 0: GapSmH's mean < all other means",
          below("full", ("gapsmh",), ("gaplog", "gaphin", *NOT_GAPS), noises=_noisy)),
    Claim("full-smooth-best-overall", ("full",),
          "Overall, with full information, GapSmH performs best.",
          "GapSmH's mean < all other means; true in more than half of the cells",
          below("full", ("gapsmh",), ("gaplog", "gaphin", *NOT_GAPS)), (0.5, 1.0)),
    Claim("label-efficient-best", ("label-efficient",),
          "With no b does the label-efficient Perceptron do as well as the best Gappletron.",
          "for every b: its mean > the least of the Gappletrons' means with their better tunings (a query is a mistake)",
          query_perceptron_behind(min)),
    Claim("label-efficient-all", ("label-efficient",),
          "With no b does the label-efficient Perceptron do as well as any of the Gappletrons.",
          "for every b: its mean > the largest of the Gappletrons' means with their better tunings (a query is a mistake)",
          query_perceptron_behind(max)),
    Claim("ours-top-up-filtering", ("exploration", "filtering"),
          "Ours: the top-up rule errs less than Algorithm 1's own in filtering.",
          "each Gappletron, only-T: mean with top-up < mean with paper",
          top_up_helps("filtering", "filtering")),
    Claim("ours-top-up-label-efficient", ("exploration", "label-efficient"),
          "Ours: the top-up rule errs less than Algorithm 1's own in label efficient classification.",
          "each Gappletron, only-T: mean with top-up < mean with paper",
          top_up_helps("label-efficient", "label-efficient")),
)
"""Every sentence, in the order of the report; the last two are about our exploration rule, not the paper's."""
