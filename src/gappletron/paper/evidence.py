"""What runs can tell about orderings of means: paired t-tests, combined so that the error rates are known.

A statement about one cell is a formula: orderings "the mean of this is below the mean of that" (:class:`Less`), joined
by :class:`AllOf` and :class:`AnyOf`. :func:`weigh` gives two p-values for it, one against "it is false" and one against
"it is true". A conjunction is shown by showing every part (intersection-union test, no correction), a disjunction by
showing one part of n at n times its p-value (Bonferroni); for "it is false" the two change places. So each p-value is
valid whatever the other orderings are. That a learner's better tuning is chosen by looking is a disjunction too.

:func:`judge` turns the p-values of all cells into one of three words. Each of "holds" and "does not hold" is wrong with
probability at most :data:`ERROR_RATE`, if the differences between paired runs are normally distributed. If a learner
fails badly with a probability p so small that all of n runs may miss it, "holds" can be wrong with a probability of
about (1 - p)^n; no test on n runs can exclude that.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

# The probability with which "holds", and with which "does not hold", may be said wrongly of one claim.
ERROR_RATE = 0.05

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot be told at this size"


@dataclass(frozen=True)
class Series:
    """The values of a learner in one cell, by the seed of the data and the repeat.

    A learner that does not draw (`drawn` is False) has the same value in every repeat on the same data; a constant has
    it on all data.

    >>> twice = Series({(0, 0): 0.5, (0, 1): 0.7})
    >>> twice.minus(Series({(0, 0): 0.1}, drawn=False)).values[0, 0]
    0.4
    """

    values: Mapping[tuple[int, int], float] = field(default_factory=dict)
    drawn: bool = True
    constant: float | None = None

    def at(self, seed: int, repeat: int) -> float | None:
        """Return the value in a repeat on the data with this seed; None where there is none."""
        if self.constant is not None:
            return self.constant
        return self.values.get((seed, repeat if self.drawn else 0))

    @property
    def mean(self) -> float:
        """The mean over all runs."""
        return statistics.fmean(self.values.values()) if self.constant is None else self.constant

    def minus(self, other: Series, factor: float = 1.0) -> Series:
        """Return the differences between this series and a multiple of another, run by run."""
        drawn = [one for one in (self, other) if one.drawn and one.constant is None]
        keys = [key for one in drawn for key in one.values]
        pairs = {key: (self.at(*key), other.at(*key)) for key in keys or (*self.values, *other.values)}
        found = {key: a - factor * b for key, (a, b) in pairs.items() if a is not None and b is not None}
        return Series(found, bool(drawn))


class Less(NamedTuple):
    """The mean of `low` is below `factor` times the mean of `high`.

    >>> weigh(Less(Series(constant=0.1), Series({(0, 0): 0.5}, drawn=False)))
    Weight(true=0.0, false=1.0)
    """

    low: Series
    high: Series
    factor: float = 1.0


class AllOf(NamedTuple):
    """Every part is true."""

    parts: tuple[Formula, ...]


class AnyOf(NamedTuple):
    """At least one part is true."""

    parts: tuple[Formula, ...]


Formula: TypeAlias = Less | AllOf | AnyOf


class Weight(NamedTuple):
    """The p-value at which a formula is shown to be true, and that at which it is shown to be false."""

    true: float
    false: float


def weigh(formula: Formula) -> Weight:
    """Return the p-values of a formula.

    >>> low, high = Series({(0, r): 1.0 + 0.1 * r for r in range(5)}), Series({(0, r): 2.0 for r in range(5)})
    >>> weigh(Less(low, high)).true < 0.001
    True
    >>> weigh(AllOf((Less(low, high), Less(high, low)))).false < 0.001
    True
    >>> weigh(AnyOf((Less(low, high), Less(high, low)))).true < 0.001
    True
    """
    if isinstance(formula, Less):
        return _compare_pairs(formula.low.minus(formula.high, formula.factor))
    parts = [weigh(part) for part in formula.parts]
    true, false = [part.true for part in parts], [part.false for part in parts]
    if isinstance(formula, AllOf):
        return Weight(_show_all(true), _show_one(false))
    return Weight(_show_one(true), _show_all(false))


def _show_all(values: Sequence[float]) -> float:
    """Return the p-value at which every part is shown: the largest."""
    return max(values, default=0.0)


def _show_one(values: Sequence[float]) -> float:
    """Return the p-value at which one part is shown: the smallest of n, times n."""
    return min(1.0, len(values) * min(values)) if values else 1.0


def _compare_pairs(differences: Series) -> Weight:
    """One-sided t-tests of the mean difference; over the seeds of the data where there are several, as runs on the same
    data are not independent samples of all data.
    """
    seeds: dict[int, list[float]] = {}
    for (seed, _), value in differences.values.items():
        seeds.setdefault(seed, []).append(value)
    sample = (
        [statistics.fmean(values) for values in seeds.values()] if len(seeds) > 1 else next(iter(seeds.values()), [])
    )
    if not differences.drawn and len(sample) == 1:
        return Weight(float(sample[0] >= 0.0), float(sample[0] < 0.0))  # nothing is random here
    if len(sample) < 2:
        return Weight(1.0, 1.0)
    return _test_mean(sample)


def _test_mean(sample: Sequence[float]) -> Weight:
    from scipy.special import stdtr

    n = len(sample)
    mean = math.fsum(sample) / n
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in sample) / (n - 1))
    if spread == 0.0:
        return Weight(float(mean >= 0.0), float(mean <= 0.0))  # equal numbers tell nothing where the mean is 0
    t = mean / spread * math.sqrt(n)
    return Weight(float(stdtr(n - 1, t)), float(stdtr(n - 1, -t)))


def judge(weights: Sequence[Weight], share: tuple[float, float] = (1.0, 1.0), rate: float = ERROR_RATE) -> str:
    """Return one of three words for a claim whose rule must be true in a share of its cells, from least to most.

    >>> sure, refuted, open_ = Weight(0.0001, 1.0), Weight(1.0, 0.0001), Weight(0.3, 0.7)
    >>> judge([sure, sure]), judge([sure, refuted]), judge([sure, open_])
    ('holds', 'does not hold', 'cannot be told at this size')
    >>> judge([sure, refuted, open_, refuted], share=(0.2, 0.6))
    'holds'
    """
    n = len(weights)
    if share == (1.0, 1.0):
        if _show_all([weight.true for weight in weights]) <= rate:
            return HOLDS
        return FAILS if _show_one([weight.false for weight in weights]) <= rate else UNKNOWN
    # Every cell at a rate of rate/n, so that all the words about cells are right at once.
    fewest = sum(weight.true <= rate / n for weight in weights) / n
    most = (n - sum(weight.false <= rate / n for weight in weights)) / n
    if share[0] <= fewest and most <= share[1]:
        return HOLDS
    return FAILS if most < share[0] or share[1] < fewest else UNKNOWN


def find_levels(weights: Sequence[Weight], share: tuple[float, float] = (1.0, 1.0)) -> Weight:
    """Return the smallest rates at which :func:`judge` says "holds", and "does not hold", of a claim; 1 if at none.

    >>> find_levels([Weight(0.01, 0.99), Weight(0.02, 0.98)])
    Weight(true=0.02, false=1.0)
    """
    n = 1 if share == (1.0, 1.0) else len(weights)
    rates = sorted({min(1.0, value * n) for weight in weights for value in weight} | {1.0})
    if share == (1.0, 1.0):
        return Weight(_show_all([weight.true for weight in weights]), _show_one([weight.false for weight in weights]))
    words = [judge(weights, share, rate) for rate in rates]
    return Weight(
        *(next((rate for rate, said in zip(rates, words, strict=True) if said == word), 1.0) for word in (HOLDS, FAILS))
    )


def adjust(levels: Mapping[str, Weight]) -> dict[str, str]:
    """Return one of the three words for every claim, so that all together are wrong with probability at most
    :data:`ERROR_RATE`.

    Holm's method on two hypotheses per claim, that it holds and that it does not.

    >>> adjust({"a": Weight(0.001, 1.0), "b": Weight(0.04, 1.0)})
    {'a': 'holds', 'b': 'cannot be told at this size'}
    """
    every = sorted(
        (value, name, word) for name, pair in levels.items() for value, word in zip(pair, (HOLDS, FAILS), strict=True)
    )
    found = dict.fromkeys(levels, UNKNOWN)
    for place, (value, name, word) in enumerate(every):
        if value > ERROR_RATE / (len(every) - place):
            break
        found[name] = word
    return found
