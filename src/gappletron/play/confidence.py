"""Confidence sequences by betting: lower bounds on sums that hold at all times at once, in plain loops.

The bounds rest on test supermartingales. A process that starts at 1, is never negative and does not grow on average
stays below 1 / alpha for ever with probability at least 1 - alpha (Ville). The docs, page Monitoring, have the proofs.

The functions run inside compiled rounds and in plain Python, with the same bits.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.kernel.pieces import helper
from gappletron.kernel.types import Floats

BETS = 16  # the number of stakes that a process is a mixture of

# lambda_j. Halving them loses at most 6 percent of width against the best stake; each has the weight 1/16.
STAKES = np.array([0.9 * 0.5**j for j in range(BETS)])
# ln(1 - lambda_j): what a unit of the hidden sum takes from the logarithm of a wealth, at most.
SLOPES = np.array([math.log1p(-0.9 * 0.5**j) for j in range(BETS)])
# ln(1 + lambda_j): what a unit of the hidden sum adds to the logarithm of a wealth that bets on it, at least.
GAINS = np.array([math.log1p(0.9 * 0.5**j) for j in range(BETS)])

LARGEST_LOSS = 0.75  # a bet on the hidden sum never loses a larger share of its wealth in one round
CHORD = -math.log1p(-LARGEST_LOSS) / LARGEST_LOSS  # -ln(1 - z) <= CHORD z for z from 0 to the largest loss

LOG_BETS, LOG_2 = math.log(BETS), math.log(2.0)
LARGEST_BET = 1e100  # a larger x counts as this one: the bound only gets wider

# A wealth beyond this, or below its inverse, is moved to its logarithm: the product of several then stays within the
# range of doubles.
FULL = 1e30

# What bets may lose in rounds that wait is counted in units of 2^-20, rounded up: the counts are exact.
DUE_UNIT = 1048576.0

NEWTON_STEPS = 40
HALVINGS = 52

STAKES.flags.writeable = SLOPES.flags.writeable = GAINS.flags.writeable = False


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
def first_stake(largest: float) -> int:
    """Return the first stake that may bet on the hidden sum in a round whose X is at most this; 16 where none may.

    >>> first_stake(0.5), first_stake(19.0), first_stake(math.inf)
    (0, 5, 16)
    """
    j = 0
    while j < BETS and STAKES[j] * largest > LARGEST_LOSS:
        j += 1
    return j


@helper
def lose(wealth: Floats, logs: Floats, x: float, first: int) -> None:
    """Multiply the wealths from the first stake on by 1 - lambda_j x: they had bet on the hidden sum.

    >>> wealth, logs = np.ones(BETS), np.zeros(BETS)
    >>> lose(wealth, logs, 2.0, 2)
    >>> wealth[1:4].tolist()
    [1.0, 0.55, 0.775]
    """
    least = 1.0
    for j in range(first, BETS):
        wealth[j] *= 1.0 - STAKES[j] * x
        least = min(least, wealth[j])
    if least < 1.0 / FULL:
        for j in range(first, BETS):
            if wealth[j] < 1.0 / FULL:
                logs[j] += math.log(wealth[j])
                wealth[j] = 1.0


@helper
def most_hidden(savings: Floats, ceiling: float, losses: Floats, uncovered: Floats, most: float, level: float) -> float:
    """Return the largest h <= most that two families of bets leave possible for the hidden sum: the root of

    ``ln (sum_j exp(savings[j] + (ceiling - h) SLOPES[j]) + sum_j exp(losses[j] + max(0, h - uncovered[j]) GAINS[j]))
    / 32 = level``.

    The first bet on the hidden savings, which are at most ceiling - h. The second bet on the hidden sum itself, in
    rounds that hold all of it but `uncovered`. The left side is convex and grows, so Newton's steps from the right
    never pass the root.

    >>> zeros = np.zeros(BETS)
    >>> found = most_hidden(zeros, 100.0, zeros, zeros, 100.0, math.log(20.0))  # nothing was lost: little is hidden
    >>> round(float(found), 2)
    9.88
    """
    reach = level + LOG_BETS + LOG_2
    largest = most
    for j in range(BETS):  # what each bet alone shows
        largest = min(largest, ceiling - (reach - savings[j]) / SLOPES[j])
        largest = min(largest, uncovered[j] + (reach - losses[j]) / GAINS[j])
    largest = max(0.0, largest)
    for _ in range(NEWTON_STEPS):
        top = -math.inf
        for j in range(BETS):
            top = max(top, savings[j] + (ceiling - largest) * SLOPES[j])
            top = max(top, losses[j] + max(0.0, largest - uncovered[j]) * GAINS[j])
        total = slope = 0.0
        for j in range(BETS):
            part = math.exp(savings[j] + (ceiling - largest) * SLOPES[j] - top)
            total += part
            slope -= part * SLOPES[j]
            part = math.exp(losses[j] + max(0.0, largest - uncovered[j]) * GAINS[j] - top)
            total += part
            slope += part * GAINS[j] if largest > uncovered[j] else 0.0
        above = top + math.log(total) - reach
        if above <= 0.0:
            break
        step = above * total / slope
        if step >= largest:
            return 0.0
        largest -= step
        if step <= 1e-13 * largest:
            break
    return largest


@helper
def least_hidden(logs: Floats, level: float) -> float:
    """Return the root h of ``ln sum_j exp(logs[j] + h SLOPES[j]) / 16 = level``; 0 where the left side is less at 0.

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
    """Return ``ln sum_j (1 + c_j)^S / (1 + c_j q)^n / 16``, for c_j = 8 lambda_j (sign 1) or -lambda_j (sign -1).

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
def bound_mean(successes: float, rounds: float, level: float, sign: float) -> float:
    """Return a bound, below (sign 1) or above (sign -1), on the mean of the conditional probabilities of events,
    `successes` of which happened: the end of the means that the evidence leaves possible.

    >>> [round(bound_mean(50.0, 1000.0, math.log(20.0), sign), 4) for sign in (1.0, -1.0)]
    [0.0306, 0.0767]
    """
    far = 0.0 if sign > 0.0 else 1.0
    near = successes / rounds if rounds > 0.0 else far
    if mean_evidence(successes, rounds, far, sign) <= level:
        return far
    for _ in range(HALVINGS):
        middle = 0.5 * (far + near)
        if mean_evidence(successes, rounds, middle, sign) > level:
            far = middle
        else:
            near = middle
    return far


# ------------------------------------------------------------------------------------------------ the bets on one value


class Bets(NamedTuple):
    """The bets on one value, with a row for each slot, which is a part of the rounds.

    `wealth` and `logs` have two rows of stakes each: they bet that much is hidden (MUCH), or little (LITTLE).
    `losses` and `loss_logs` are those that bet on the hidden sum itself, and lose where it shows. `opened` is what may
    be hidden in judged rounds, by the first stake that bets in them.
    """

    logs: Floats
    wealth: Floats
    loss_logs: Floats
    losses: Floats
    opened: Floats


MUCH, LITTLE = range(2)


@helper
def add_logs(logs: Floats, wealth: Floats, slots: int, out: Floats) -> None:
    """Fill `out` with the logarithms of a process over the first slots."""
    for j in range(BETS):
        total, product = 0.0, 1.0
        for slot in range(slots):
            total += logs[slot, j]
            product *= wealth[slot, j]
        out[j] = total + math.log(product)


@helper
def sum_opened(bets: Bets, slots: int) -> float:
    """Return what may be hidden in judged rounds of the first slots, the sum of (M_a - m_a) / d over the unseen."""
    total = 0.0
    for slot in range(slots):
        for first in range(BETS + 1):
            total += bets.opened[slot, first]
    return total


@helper
def hidden_at_least(bets: Bets, slots: int, level: float, work: Any) -> float:
    """Return a lower bound on what is hidden, in units of d, in all rounds of the first slots, also those that wait.

    :param work: with room for a number per stake in `total`, and in `lost` and `outside` for :func:`hidden_at_most`.
    """
    add_logs(bets.logs[:, MUCH], bets.wealth[:, MUCH], slots, work.total)
    return least_hidden(work.total, level)


@helper
def hidden_at_most(
    bets: Bets, slots: int, due: NDArray[np.int64], opened: float, waiting: float, level: float, work: Any
) -> float:
    """Return an upper bound on what is hidden, in units of d, in the judged rounds of the first slots.

    The bets on the hidden sum itself may still lose what is `due` in rounds that wait, and there may be more of it in
    rounds that they do not cover.
    """
    add_logs(bets.logs[:, LITTLE], bets.wealth[:, LITTLE], slots, work.total)
    add_logs(bets.loss_logs, bets.losses, slots, work.lost)
    outside, lost = 0.0, 0
    for j in range(BETS - 1, -1, -1):
        for slot in range(slots):
            outside += bets.opened[slot, j + 1]
        work.outside[j] = outside
    for j in range(BETS):
        for slot in range(due.shape[0]):
            lost += due[slot, j]
        work.lost[j] -= CHORD * STAKES[j] * (lost / DUE_UNIT)
    return most_hidden(work.total, opened + waiting, work.lost, work.outside, opened, level)
