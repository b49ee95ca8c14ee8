"""Confidence sequences by betting: lower bounds on sums that hold at all times at once, in plain loops.

The bounds rest on test supermartingales. A process that starts at 1, is never negative and does not grow on average
stays below 1 / alpha for ever with probability at least 1 - alpha (Ville). The docs, page Monitoring, have the proofs.

The functions run inside compiled rounds and in plain Python, with the same bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gappletron._dispatch import helper

if TYPE_CHECKING:
    from gappletron.numerics import Floats

__all__ = ["BETS", "bet", "least_hidden", "mean_at_least", "mean_at_most"]

BETS = 16
"""The number of stakes that a process is a mixture of."""

STAKES = np.array([0.9 * 0.5**j for j in range(BETS)])
"""lambda_j. Halving them loses at most 6 percent of width against the best stake; each has the weight 1/16."""

SLOPES = np.array([math.log1p(-0.9 * 0.5**j) for j in range(BETS)])
"""ln(1 - lambda_j): what a unit of the hidden sum takes from the logarithm of a wealth, at most."""

LOG_BETS = math.log(BETS)
LARGEST_BET = 1e100
"""A larger x counts as this one: the bound only gets wider."""

FULL = 1e30
"""A wealth beyond this is moved to its logarithm: the product of several then stays within the range of doubles."""

NEWTON_STEPS = 40
HALVINGS = 52

STAKES.flags.writeable = SLOPES.flags.writeable = False


@helper
def bet(wealth: Floats, logs: Floats, x: float) -> None:
    """Multiply every wealth by 1 + lambda_j x; the logarithms are the sums of `logs` and those of `wealth`.

    >>> wealth, logs = np.ones(BETS), np.zeros(BETS)
    >>> bet(wealth, logs, 2.0)
    >>> wealth[:2].tolist()
    [2.8, 1.9]
    """
    if x > 0.0:
        x = min(x, LARGEST_BET)
        for j in range(BETS):
            wealth[j] *= 1.0 + STAKES[j] * x
        if wealth[0] > FULL:
            for j in range(BETS):
                logs[j] += math.log(wealth[j])
                wealth[j] = 1.0


@helper
def least_hidden(logs: Floats, level: float) -> float:
    """The root h of ``ln sum_j exp(logs[j] + h SLOPES[j]) / 16 = level``; 0 where the left side is below at h = 0.

    `logs` are sums of ln(1 + lambda_j X_t). With ``level = ln(1 / alpha)`` the hidden sum is at least h, at all times
    at once, with probability at least 1 - alpha. The left side is convex and falls, so Newton's steps from the left
    never pass the root.

    >>> logs = np.array([100 * math.log(1.0 + stake) for stake in STAKES])  # X = 1 in 100 rounds
    >>> round(float(least_hidden(logs, math.log(20.0))), 2)
    58.05
    """
    least = 0.0
    for j in range(BETS):
        least = max(least, (level + LOG_BETS - logs[j]) / SLOPES[j])  # what the bet alone shows
    for _ in range(NEWTON_STEPS):
        top = logs[0] + least * SLOPES[0]
        for j in range(1, BETS):
            top = max(top, logs[j] + least * SLOPES[j])
        total = slope = 0.0
        for j in range(BETS):
            part = math.exp(logs[j] + least * SLOPES[j] - top)
            total += part
            slope += part * SLOPES[j]
        above = top + math.log(total) - LOG_BETS - level
        if above <= 0.0:
            break
        step = -above * total / slope
        least += step
        if step <= 1e-13 * least:
            break
    return least


@helper
def mean_evidence(successes: float, rounds: float, mean: float, sign: float) -> float:
    """``ln sum_j (1 + c_j)^S / (1 + c_j q)^n / 16``, for c_j = 8 lambda_j (sign 1) or -lambda_j (sign -1).

    With q the mean of the conditional probabilities of n events and S the number of those that happened, its
    exponential is at most a martingale that starts at 1: ln(1 + c q) is concave in q.
    """
    top = -math.inf
    for j in range(BETS):
        c = 8.0 * STAKES[j] if sign > 0.0 else -STAKES[j]
        top = max(top, successes * math.log1p(c) - rounds * math.log1p(c * mean))
    total = 0.0
    for j in range(BETS):
        c = 8.0 * STAKES[j] if sign > 0.0 else -STAKES[j]
        total += math.exp(successes * math.log1p(c) - rounds * math.log1p(c * mean) - top)
    return top + math.log(total) - LOG_BETS


@helper
def mean_at_least(successes: float, rounds: float, level: float) -> float:
    """A lower bound on the mean of the conditional probabilities of events, `successes` of which happened.

    >>> round(mean_at_least(50.0, 1000.0, math.log(20.0)), 4)
    0.0306
    """
    low, high = 0.0, successes / rounds if rounds > 0.0 else 0.0
    if mean_evidence(successes, rounds, low, 1.0) <= level:
        return 0.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if mean_evidence(successes, rounds, middle, 1.0) > level:
            low = middle
        else:
            high = middle
    return low


@helper
def mean_at_most(successes: float, rounds: float, level: float) -> float:
    """An upper bound, as :func:`mean_at_least`.

    >>> round(mean_at_most(50.0, 1000.0, math.log(20.0)), 4)
    0.0767
    """
    low, high = successes / rounds if rounds > 0.0 else 1.0, 1.0
    if mean_evidence(successes, rounds, high, -1.0) <= level:
        return 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if mean_evidence(successes, rounds, middle, -1.0) > level:
            high = middle
        else:
            low = middle
    return high
