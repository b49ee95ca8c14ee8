"""Plays a stream for a theorem, and compares the mistakes with its bound: ``gappletron bound --measure``."""

from __future__ import annotations

import math
from typing import NamedTuple

from gappletron.data.generated import UnitVectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.learners.gappletron import Gappletron
from gappletron.learners.optimizers import FixedOGD
from gappletron.paper.comparator import best_comparator
from gappletron.paper.theorems import tightness_of, with_comparator
from gappletron.paper.theory import THEOREMS, Bound, Theorem, bounds
from gappletron.paper.tuning import tuned
from gappletron.play.runs import play

__all__ = ["NOISE", "Measured", "for_theorem", "measured"]

NOISE = 0.05
"""The label noise where a theorem does not need separable data."""


class Measured(NamedTuple):
    """A theorem and the runs that were played for it: the mean and the largest number of mistakes, the mean of the
    bounds on them (with the loss of the comparator, where the theorem bounds the regret), and the tightness.
    """

    mistakes: float
    most: int
    bound: float
    tightness: float


def measured(
    theorem: Theorem,
    learner: Gappletron,
    graph: FeedbackGraph,
    *,
    rounds: int,
    repeats: int,
    delta: float,
    noise: float,
) -> Measured | str:
    """Play unit vectors with a learner that a theorem applies to; noise-free if the theorem needs separable data.

    A text says why the theorem does not apply. As in the report, the comparator of the hinge ignores the case split.

    >>> from gappletron import FeedbackGraph, Gappletron, ProjectedOGD
    >>> learner, graph = Gappletron(optimizer=ProjectedOGD(2**0.5)), FeedbackGraph.full(3)
    >>> found = measured(THEOREMS[4], learner, graph, rounds=500, repeats=2, delta=0.05, noise=0.05)
    >>> 0.0 < found.tightness < 1.0
    True
    """
    stream = UnitVectors(graph.n_classes, 0.0 if theorem.separable else noise, rounds)
    stream.classes = graph.classes
    place = THEOREMS.index(theorem)

    def bound_of(blind_rounds: float, loss_sum: float) -> Bound:
        return bounds(
            learner,
            graph,
            rounds=rounds,
            max_norm=1.0,
            blind_rounds=blind_rounds,
            loss_sum=loss_sum,
            delta=delta,
        )[place]

    refusal = bound_of(rounds, 0.0).refusal
    if refusal is not None:
        return refusal
    reach = learner.optimizer.reach()
    comparator = best_comparator(learner.loss, stream, graph, 1.0 if math.isinf(reach) else reach)
    refusal = with_comparator(bound_of(rounds, 0.0), comparator.loss, comparator.gap).refusal
    if refusal is not None:
        return refusal
    runs = play(learner, stream, graph, repeats=repeats, losses=True)
    added = 0.0 if theorem.separable else comparator.loss
    limits = [bound_of(run.blind_rounds, run.loss_sum or 0.0).value + added for run in runs]
    mistakes = [run.mistakes for run in runs]
    return Measured(
        sum(mistakes) / len(mistakes),
        max(mistakes),
        sum(limits) / len(limits),
        tightness_of(theorem.name, mistakes, limits),
    )


def for_theorem(
    theorem: Theorem, learner: Gappletron, graph: FeedbackGraph, max_norm: float, delta: float
) -> Gappletron:
    """The learner with the gamma of a theorem, or with the fixed rate that it is about."""
    if theorem.fixed_rate:
        L = learner.loss.smoothness(graph.n_classes, max_norm)
        return learner.replace(optimizer=FixedOGD(1.0 / (2.0 * L), learner.optimizer.reach()))
    if theorem.tuning is None:
        return learner
    return tuned(learner, theorem.tuning, graph, max_norm=max_norm, delta=delta)
