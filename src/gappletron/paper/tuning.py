"""Tunings by name: set the parameters of a learner from what is known about a problem."""

from __future__ import annotations

from typing import TypeVar

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.base.text import unknown
from gappletron.graphs.graph import FeedbackGraph
from gappletron.learners.learner import Learner, Problem
from gappletron.learners.registry import check_can_play, named

L = TypeVar("L", bound=Learner)


def tuned(
    learner: L | str,
    tuning: str,
    graph: FeedbackGraph,
    *,
    rounds: int | None = None,
    features: int | None = None,
    max_norm: float | None = None,
    guarantee: float | None = None,
    radius: float | None = None,
    delta: float = 0.05,
) -> L:
    """Return a copy of a learner whose parameters are set for a problem.

    :param learner: a learner or its name.
    :param tuning: one of ``learner.tunings``, for example "expectation" or "theory".
    :param rounds: T.
    :param features: d.
    :param max_norm: X, the largest Euclidean norm of a feature vector.
    :param guarantee: h(U); by default that of the optimizer, or 1 (as in the paper's experiments) if it has none.
    :param radius: B, the norm of the comparator; by default the radius of the optimizer's ball, or 1 if it has none.
    :param delta: the probability with which a high-probability bound may fail.

    >>> from gappletron import FeedbackGraph, Gappletron, tuned
    >>> tuned(Gappletron(), "expectation", FeedbackGraph.bandit(9), max_norm=2.0).exploration
    TopUp(gamma=18.0)
    """
    if isinstance(learner, str):
        learner = named(learner)  # type: ignore[assignment]
    if not isinstance(learner, Learner):
        raise UserError(f"{learner!r} is not a learner: pass a Learner or a name, for example 'gapsmh'")
    if not isinstance(graph, FeedbackGraph):
        raise UserError(f"{graph!r} is not a FeedbackGraph: pass one, for example FeedbackGraph.bandit(9)")
    if not isinstance(tuning, str) or tuning not in learner.tunings:
        raise unknown(tuning, f"tuning of {learner.name}", learner.tunings)
    check_can_play(learner, graph)
    problem = Problem(
        graph,
        None if rounds is None else whole(rounds, "rounds", least=1),
        None if features is None else whole(features, "features", least=1),
        None if max_norm is None else number(max_norm, "the largest norm of the features, max_norm", least=0.0),
        None if guarantee is None else number(guarantee, "guarantee", above=0.0),
        None if radius is None else number(radius, "radius", above=0.0),
        number(delta, "delta", above=0.0, most=1.0),
    )
    return learner.tuned(tuning, problem)  # type: ignore[return-value]
