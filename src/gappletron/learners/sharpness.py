"""Scores as probabilities of the labels, ``softmax(b s)``: which values of b make what was revealed so far likely."""

import math

from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import argmax, sharpened_softmax
from gappletron.kernel.pieces import helper
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Round

# The probabilities of the labels are ``softmax(b s)``, with b of these, from 1/2 to 16. With costs it is that b under
# which what was revealed so far was most likely, each round weighted by what was at stake: the largest cost of a class
# at the label, or that of the action at the labels that are left. From the third on, each is twice the one two places
# before.
SHARPNESS = tuple(2.0 ** (0.5 * power) for power in range(-2, 9))

TIE = 1e-12  # losses that differ by less are the same

# What was shown is never taken for less likely than this when the values of b are compared.
LEAST_CHANCE = 1e-9


@helper
def begin_comparison(fit: Floats, K: int) -> None:
    """Begin to compare the values of b as if one round had been wrong at full confidence: scores of 1 for a class that
    was not the label, and of -1 for the label and all others.
    """
    for b in range(fit.size):
        fit[b] = math.log(math.exp(2.0 * SHARPNESS[b]) + (K - 1.0))


@helper
def average_softmax(fit: Floats, scores: Floats, work: Floats, out: Floats) -> None:
    """Fill `out` with ``softmax(b s)``, averaged over the values of b with weights ``exp(-loss)``; `work` is room for a
    number per class.
    """
    least = fit[0]
    for b in range(1, fit.size):
        least = min(least, fit[b])
    total = 0.0
    for k in range(scores.size):
        out[k] = 0.0
    for b in range(fit.size):
        part = math.exp(least - fit[b])
        sharpened_softmax(scores, SHARPNESS[b], work)
        total += part
        for k in range(scores.size):
            out[k] += part * work[k]
    for k in range(scores.size):
        out[k] /= total


@helper
def best_sharpness(fit: Floats) -> float:
    """The b with the least loss so far; the lowest one on a tie, also where rounding errors make a difference."""
    best = 0
    for b in range(1, fit.size):
        if fit[b] < fit[best] - TIE:
            best = b
    return SHARPNESS[best]


@helper
def compare_sharpness(fit: Floats, plan: Plan, scores: Floats, played: Round, stake: float, work: Floats) -> None:
    """Add the losses of the round: minus the logarithm of how likely it was under each b, the label or that it is none
    of the classes shown, times what was at stake. `work` is room for a number per class.
    """
    top = argmax(scores)
    for first in range(2):
        for k in range(scores.size):
            work[k] = math.exp(SHARPNESS[first] * (scores[k] - scores[top]))
        for b in range(first, fit.size, 2):
            total, shown = 0.0, 0.0
            if played.label >= 0:
                shown = work[played.label]
            else:
                for k in range(scores.size):
                    if not plan.graph.visible[played.action, k]:
                        shown += work[k]
            for k in range(scores.size):
                total += work[k]
                work[k] *= work[k]  # for the next b, which is twice this one
            fit[b] -= stake * math.log(max(LEAST_CHANCE, shown / total))
