"""Tunings under other readings of the paper: a task may say what is read otherwise in its tuning.

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

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from gappletron.base.errors import UserError
from gappletron.data.stream import Stream
from gappletron.data.synthetic import Synthetic
from gappletron.graphs.graph import FeedbackGraph
from gappletron.learners.banditron import BanditronIW
from gappletron.learners.exploration.simple_rules import EpsilonGreedy
from gappletron.learners.gappletron import Gappletron
from gappletron.learners.learner import Learner
from gappletron.learners.losses import Hinge
from gappletron.learners.soba import SobaDiag
from gappletron.paper.tuning import tuned

MARGIN = 1.0 - 2.0**-30
"""kappa of the hinge with a margin of 1: the class Hinge needs a number below 1."""


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
    norm = mean_norm(stream) if reading.pop("X", "") == "mean" else stream.max_norm
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
    raise UserError(f"{learner.name} has no reading {key}={value}: see gappletron.paper.readings")


def mean_norm(stream: Stream) -> float:
    """Return the expected norm of the features of a synthetic stream, whose classes are equally likely.

    >>> stream = Synthetic(9, 120)
    >>> mean_norm(stream) < stream.max_norm
    True
    """
    if not isinstance(stream, Synthetic):
        raise UserError(f"the mean norm is known for synthetic streams, not for {stream!r}: leave out X=mean")
    return statistics.fmean(math.sqrt(len(words) + stream.features // 8) for words in stream.keywords)
