"""The adversary of the filtering lower bound: it plays a learner to find the segment in which it explores least."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.data.adversarial import FreshThenSegments, Segments
from gappletron.graphs.graph import FeedbackGraph
from gappletron.learners.learner import Learner
from gappletron.play.runs import play

# The graph of the theorem: class 1 reveals the label, class 0 reveals nothing.
GRAPH = FeedbackGraph.filtering(2, revealing=1)


class Probe(NamedTuple):
    """How a learner plays the stream on which all labels are 0, averaged over its runs.

    `segment` is the segment in which it plays 1 least often, `plays` the number of times that it does so there, and
    `mistakes` the number of times in all segments.

    >>> Probe(segment=3, plays=0.25, mistakes=9.5).segment
    3
    """

    segment: int
    plays: float
    mistakes: float


def quietest_segment(
    learner: Learner | str,
    root: int,
    *,
    repeats: int = 32,
    seed: int = 0,
    jobs: int | None = None,
    losses: bool = False,
) -> Probe:
    """Return the segment of :class:`~gappletron.data.adversarial.Segments` in which the learner plays 1 least often.

    Of several it is the first. This is the segment to turn (Theorem "apple lower bound"): either the learner plays 1
    there at most 0.5 times in expectation, or it makes R mistakes on the stream without a turned segment. The
    expectation is estimated by playing that stream `repeats` times. If the turned stream is played with the same
    `repeats` and `seed`, the bound holds exactly: the theorem applies to a learner that draws one of these seeds at
    random, so the larger of the two averages is at least ``Segments.lower_bound``. With `losses` the surrogate losses
    are computed as well, which changes nothing: give it as in the runs that follow, and the same compiled loop plays
    both.

    >>> from gappletron import play
    >>> from gappletron.paper.adversary import GRAPH, quietest_segment
    >>> from gappletron import Segments
    >>> probe = quietest_segment("gapsmh", root=16, repeats=100)
    >>> turned = Segments(16, turned=probe.segment)
    >>> runs = play("gapsmh", turned, GRAPH, repeats=100)
    >>> max(probe.mistakes, sum(run.mistakes for run in runs) / 100) >= turned.lower_bound
    True
    """
    found = _count_mistakes(learner, Segments(root), GRAPH, repeats=repeats, seed=seed, jobs=jobs, losses=losses)
    # Without a turned segment, every play of 1 is a mistake. The sums are integers, so that ties are exact.
    plays = np.diff(np.sum(found, axis=0), prepend=0)
    segment = int(np.argmin(plays))
    return Probe(segment, float(plays[segment]) / len(found), float(plays.sum()) / len(found))


def _count_mistakes(
    learner: Learner | str, stream: Segments | FreshThenSegments, graph: FeedbackGraph, **options: Any
) -> list[NDArray[np.int64]]:
    """Play a stream and return, for each run, the mistakes up to the ends of the segments."""
    runs = play({"learner": learner}, stream, graph, curve=stream.segment_ends, **options)
    return [run.curve.mistakes for run in runs]


def quietest_after_fresh(
    learner: Learner | str, stream: FreshThenSegments, *, repeats: int = 32, seed: int = 0, losses: bool = False
) -> int:
    """Return the segment to turn of :class:`~gappletron.data.adversarial.FreshThenSegments`, found as above.

    Repeat r plays the first part with the labels of seed r. The segment is the one with the fewest mistakes, which are
    at least as many as the plays of the class that reveals.

    >>> from gappletron import FreshThenSegments
    >>> 0 <= quietest_after_fresh("gapsmh", FreshThenSegments(3, 2, 5), repeats=2) < 10
    True
    """
    K, B = len(stream.classes), stream.first.radius
    graph = FeedbackGraph.filtering(K, revealing=1)
    found = []
    for repeat in range(repeats):
        straight = FreshThenSegments(K, B, stream.root, seed=repeat)
        found += _count_mistakes(learner, straight, graph, repeats=[repeat], seed=seed, jobs=1, losses=losses)
    return int(np.argmin(np.diff(np.sum(found, axis=0))))
