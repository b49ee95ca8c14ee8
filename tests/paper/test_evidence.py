"""The paired tests on tables with known truth: the p-values of SciPy, and error rates as stated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gappletron.paper.evidence import (
    ERROR_RATE,
    FAILS,
    HOLDS,
    UNKNOWN,
    AllOf,
    AnyOf,
    Less,
    Series,
    Weight,
    judge,
    weigh,
)

REPEATS = 10
TABLES = 600


def series(values, seeds=1):
    """Values by seed and repeat, the repeats of the first seed first."""
    repeats = len(values) // seeds
    return Series({divmod(place, repeats): float(value) for place, value in enumerate(values)})


def most(rate, tables=TABLES):
    """The largest share of errors that is likely at this rate: four standard errors above it."""
    return rate + 4.0 * math.sqrt(rate * (1.0 - rate) / tables)


def test_p_values_are_scipy_s():
    rng = np.random.default_rng(0)
    for n in (2, 3, 10):
        low, high = rng.normal(0.0, 1.0, n), rng.normal(0.3, 1.0, n)
        weight = weigh(Less(series(low), series(high), 1.5))
        assert weight.true == pytest.approx(stats.ttest_rel(low, 1.5 * high, alternative="less").pvalue)
        assert weight.false == pytest.approx(stats.ttest_rel(low, 1.5 * high, alternative="greater").pvalue)


def test_the_seeds_of_the_data_are_the_sample_where_there_are_several():
    rng = np.random.default_rng(1)
    low, high = rng.normal(size=15), rng.normal(size=15)
    means = (low - high).reshape(5, 3).mean(axis=1)
    assert weigh(Less(series(low, 5), series(high, 5))).true == pytest.approx(
        stats.ttest_1samp(means, 0.0, alternative="less").pvalue
    )


def test_runs_are_paired_by_seed_and_repeat_whatever_their_order():
    low = Series({(0, 0): 1.0, (0, 1): 2.0, (0, 2): 3.0})
    high = Series({(0, 2): 3.1, (0, 0): 1.1, (0, 1): 2.15, (1, 0): 99.0})
    assert low.minus(high).values == pytest.approx({(0, 0): -0.1, (0, 1): -0.15, (0, 2): -0.1})
    assert weigh(Less(low, high)).true < 0.02  # 1, 2, 3 against 1.1, 2.15, 3.1 would tell nothing unpaired


def test_what_is_not_random_is_known():
    fixed, other = Series({(0, 0): 0.1}, drawn=False), Series({(0, 0): 0.2}, drawn=False)
    assert weigh(Less(fixed, other)) == (0.0, 1.0)
    assert weigh(Less(other, fixed)) == (1.0, 0.0)
    assert weigh(Less(fixed, Series(constant=0.2))) == (0.0, 1.0)
    drawn = series([0.15, 0.16, 0.17])
    assert weigh(Less(fixed, drawn)).true == pytest.approx(
        stats.ttest_1samp([-0.05, -0.06, -0.07], 0.0, alternative="less").pvalue
    )


def test_too_few_runs_and_equal_runs_tell_nothing():
    assert weigh(Less(series([0.1]), series([0.9]))) == (1.0, 1.0)
    assert weigh(Less(series([0.5, 0.5]), series([0.5, 0.5]))) == (1.0, 1.0)
    assert weigh(Less(Series(), series([0.5, 0.5]))) == (1.0, 1.0)


def test_parts_are_combined_as_stated():
    low, middle, high = (series(np.arange(6) % 3 + shift) for shift in (0.0, 0.4 + 0.01 * np.arange(6), 3.0))
    sure, open_ = weigh(Less(low, high)), weigh(Less(middle, middle))
    both, either = (weigh(join((Less(low, high), Less(middle, middle)))) for join in (AllOf, AnyOf))
    assert both == (max(sure.true, open_.true), min(1.0, 2 * min(sure.false, open_.false)))
    assert either == (min(1.0, 2 * min(sure.true, open_.true)), max(sure.false, open_.false))
    assert weigh(AllOf(())) == (0.0, 1.0)
    assert weigh(AnyOf(())) == (1.0, 0.0)


# ---------------------------------------------------------------------------------------------------- known truth

CELLS, BETTER, WORSE = 5, 2, 3


def normal(rng, shape):
    return rng.normal(size=shape)


def judged(rng, gap, draw=normal, share=(1.0, 1.0)):
    """The word on a table in which the mean of low b is below that of high w by gap[cell, b, w].

    Every low has a repeat-by-repeat noise that it shares with the highs of its cell, as paired runs do.
    """
    weights = []
    for cell in range(CELLS):
        shared = rng.normal(size=REPEATS)
        lows = [series(shared + draw(rng, REPEATS)) for _ in range(BETTER)]
        parts = [
            Less(low, series(shared + draw(rng, REPEATS) + gap[cell, b, w]))
            for b, low in enumerate(lows)
            for w in range(WORSE)
        ]
        weights.append(weigh(AllOf(tuple(parts))))
    return judge(weights, share)


def share_of(word, gap, seed, **options):
    rng = np.random.default_rng(seed)
    return sum(judged(rng, gap, **options) == word for _ in range(TABLES)) / TABLES


def test_holds_is_wrong_as_rarely_as_stated():
    """All orderings are clear but one, whose means are equal: the hardest false claim."""
    gap = np.full((CELLS, BETTER, WORSE), 9.0)
    gap[2, 1, 1] = 0.0
    found = share_of(HOLDS, gap, 2)
    assert found <= most(ERROR_RATE)
    assert found >= ERROR_RATE / 3  # the test is not merely silent


def test_does_not_hold_is_wrong_as_rarely_as_stated():
    """All orderings are true by next to nothing: the hardest true claim."""
    gap = np.full((CELLS, BETTER, WORSE), 1e-9)
    assert share_of(FAILS, gap, 3) <= most(ERROR_RATE)


def test_clear_tables_get_the_clear_word_and_others_the_third():
    clear = np.full((CELLS, BETTER, WORSE), 9.0)
    assert share_of(HOLDS, clear, 4) == 1.0
    violated = clear.copy()
    violated[0, 0, 0] = -9.0
    assert share_of(FAILS, violated, 5) == 1.0
    assert share_of(UNKNOWN, np.full((CELLS, BETTER, WORSE), 1e-9), 6) >= 0.9


def two_values(rng, shape):
    """A learner that fails rarely and then badly, as GapHin does: mean 0, far from normal."""
    return np.where(rng.random(shape) < 0.2, 2.0, -0.5)


def test_the_error_rate_with_learners_that_fail_rarely_and_badly():
    """Two such learners: the differences are symmetric, and the rate stays as stated."""
    gap = np.full((CELLS, BETTER, WORSE), 9.0)
    gap[2, 1, 1] = 0.0
    assert share_of(HOLDS, gap, 7, draw=two_values) <= most(ERROR_RATE)


@pytest.mark.parametrize("chance", [0.03, 0.1, 0.2])
def test_failures_that_no_run_shows_cannot_be_told(chance):
    """A learner that is a little better, and fails badly with a small probability: its mean is above the other's.

    "Holds" is then wrong at least where no run fails, and hardly more often, as the documents say.
    """
    rng, wrong, tables = np.random.default_rng(12), 0, 4 * TABLES
    for _ in range(tables):
        failed = rng.random(REPEATS) < chance
        differences = -0.01 + 1e-3 * rng.normal(size=REPEATS) + failed * 0.02 / chance
        wrong += weigh(Less(series(differences), Series(constant=0.0)))[0] <= ERROR_RATE
    missed = (1.0 - chance) ** REPEATS
    assert wrong / tables <= most(missed, tables)
    assert 1.0 - wrong / tables <= most(1.0 - missed, tables)


def test_claims_about_a_share_are_wrong_as_rarely_as_stated():
    """True in 3 of 5 cells; the claim asks for 1 to 2, then for 3 to 4; two of the true cells are true by nothing."""
    gap = np.full((CELLS, BETTER, WORSE), 9.0)
    gap[:2] = -9.0
    gap[2:4] = 1e-9
    assert share_of(HOLDS, gap, 8, share=(0.2, 0.4)) <= most(ERROR_RATE)
    assert share_of(FAILS, gap, 9, share=(0.6, 0.8)) <= most(ERROR_RATE)
    assert judge([Weight(0.0, 1.0), Weight(1.0, 0.0), Weight(0.5, 0.5)], (1 / 3, 2 / 3)) == HOLDS
    assert judge([Weight(0.0, 1.0), Weight(1.0, 0.0), Weight(0.5, 0.5)], (0.9, 1.0)) == FAILS
    assert judge([Weight(0.0, 1.0), Weight(1.0, 0.0), Weight(0.5, 0.5)], (0.5, 1.0)) == UNKNOWN


def test_choosing_the_better_tuning_is_paid_for():
    """Both tunings of the low and both of the high have the same mean; the lows' minimum is not below the highs'."""
    rng, wrong = np.random.default_rng(10), 0
    for _ in range(4 * TABLES):
        lows, highs = ([series(rng.normal(size=REPEATS)) for _ in range(2)] for _ in range(2))
        chosen = AnyOf(tuple(AllOf(tuple(Less(low, high) for high in highs)) for low in lows))
        wrong += weigh(chosen).true <= ERROR_RATE
    assert wrong / (4 * TABLES) <= most(ERROR_RATE, 4 * TABLES)


def test_runs_on_the_same_data_are_not_counted_as_independent():
    """Each seed of the data favours a learner by chance; three runs on it repeat that chance."""
    rng, wrong, naive = np.random.default_rng(11), 0, 0
    for _ in range(TABLES):
        favour = np.repeat(rng.normal(size=5), 3)
        low, high = favour + 0.1 * rng.normal(size=15), 0.1 * rng.normal(size=15)
        wrong += weigh(Less(series(low, 5), series(high, 5))).true <= ERROR_RATE
        naive += weigh(Less(series(low), series(high))).true <= ERROR_RATE
    assert wrong / TABLES <= most(ERROR_RATE)
    assert naive / TABLES > 2 * ERROR_RATE
