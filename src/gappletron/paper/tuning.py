"""Tunings by name: set the parameters of a learner from what is known about a problem.

A task of the experiments may also say what is read otherwise in its tuning than in the main command.
The tuning "theory" with the changes L=2 and X=mean, in tables ``theory:L=2,X=mean``, has the constant L = 2 X^2 for
every loss, and X is the mean norm of the features. What can be read otherwise:

=========  ==========================  =======================================================================
setting    tuning and learners         meaning
=========  ==========================  =======================================================================
L          theory, Gappletrons         L = L X^2 for a number, X^2 / ln K for ``gaplog``; not the loss's own
X          theory, all that use it     ``mean``: the mean norm of the features instead of the largest
gamma      only-t, Gappletrons         gamma itself, which is 1 in the main command
root       only-t, SOBAdiag            the rate min(1/2, T^(-1/root)), whose root is 2 in the main command
update     both, Banditron             ``margin``: the hinge with a margin of 1 and Gappletron's own step size
=========  ==========================  =======================================================================
"""

import math
import statistics
from collections.abc import Iterable
from typing import TypeVar

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.base.text import unknown
from gappletron.data.stream import Stream
from gappletron.data.synthetic import Synthetic
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import MOST_FEATURES
from gappletron.learners.bandits import BanditronIW, SobaDiag
from gappletron.learners.exploration.rules import EpsilonGreedy
from gappletron.learners.gappletron import Gappletron
from gappletron.learners.learner import Learner, Problem
from gappletron.learners.losses import Hinge
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
        None if features is None else whole(features, "features", least=1, most=MOST_FEATURES + 1),  # with a bias
        None if max_norm is None else number(max_norm, "the largest norm of the features, max_norm", least=0.0),
        None if guarantee is None else number(guarantee, "guarantee", above=0.0),
        None if radius is None else number(radius, "radius", above=0.0),
        number(delta, "delta", above=0.0, most=1.0),
    )
    return learner.tuned(tuning, problem)


# ------------------------------------------------------------------------------------------------------ other readings

# kappa of the hinge with a margin of 1: the class Hinge needs a number below 1.
MARGIN = 1.0 - 2.0**-30


def tune(
    learner: Learner, tuning: str, graph: FeedbackGraph, stream: Stream, changes: Iterable[tuple[str, str]] = ()
) -> Learner:
    """Return the learner with its numbers set for a graph and a stream, by a tuning and what is read otherwise in it.

    >>> from gappletron import FeedbackGraph, named
    >>> stream, graph = Synthetic(9, 120), FeedbackGraph.bandit(9)
    >>> own, common = (tune(named("gapsmh"), "theory", graph, stream, changes) for changes in ((), [("L", "1")]))
    >>> own.exploration.gamma / common.exploration.gamma  # its own L is 4 X^2
    2.0
    >>> short = Synthetic(9, 120, rounds=8000)
    >>> round(tune(named("soba-diag"), "only-t", graph, short, [("root", "3")]).rate.gamma, 6)
    0.05
    """
    reading = dict(changes)
    norm = compute_mean_norm(stream) if reading.pop("X", "") == "mean" else stream.max_norm
    found = tuned(learner, tuning, graph, rounds=stream.rounds, features=stream.features, max_norm=norm)
    for key, value in reading.items():
        found = _read_otherwise(found, key, value, graph, norm or 0.0, stream.rounds or 1)
    return found


def _read_otherwise(learner: Learner, key: str, value: str, graph: FeedbackGraph, norm: float, rounds: int) -> Learner:
    match key, learner:
        case "L", Gappletron():
            K = graph.n_classes
            wanted = norm**2 / math.log(K) if value == "gaplog" else float(value) * norm**2
            # The theorem's gamma grows with sqrt(L), and L enters nowhere else.
            ratio = wanted / learner.loss.smoothness(K, norm)
            return learner.with_gamma(learner.exploration.gamma * math.sqrt(ratio))  # type: ignore[attr-defined]
        case "gamma", Gappletron():
            return learner.with_gamma(float(value))
        case "root", SobaDiag():
            return learner.with_gamma(min(0.5, rounds ** (-1.0 / float(value))))
        case "update", BanditronIW():
            return Gappletron(loss=Hinge(kappa=MARGIN), exploration=EpsilonGreedy(learner.gamma))
    raise UserError(f"{learner.name} has no reading {key}={value}: see gappletron.paper.tuning")


def compute_mean_norm(stream: Stream) -> float:
    """Return the expected norm of the features of a synthetic stream, whose classes are equally likely.

    >>> stream = Synthetic(9, 120)
    >>> compute_mean_norm(stream) < stream.max_norm
    True
    """
    if not isinstance(stream, Synthetic):
        raise UserError(f"the mean norm is known for synthetic streams, not for {stream!r}: leave out X=mean")
    return statistics.fmean(math.sqrt(len(words) + stream.features // 8) for words in stream.keywords)
