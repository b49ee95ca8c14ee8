"""The streams of the paper's two lower bounds (its appendix on lower bounds).

:class:`Segments`: in filtering every learner makes a number of mistakes of order sqrt(T), even if the classes are
separable. :class:`FreshFeatures`: with full information the surrogate regret grows with the number of classes and the
norm of the comparator, but not with T. :class:`FreshThenSegments`: both, one after the other.
"""

import math
from collections.abc import Iterator

import numpy as np

from gappletron.base.checks import whole
from gappletron.data.stream import CHUNK, Chunk, make_chunk
from gappletron.data.synthetic import GeneratedStream
from gappletron.kernel.types import MOST_NARROW


class Segments(GeneratedStream):
    """The stream of the filtering lower bound (Theorem "apple lower bound"): separable, and still root-T mistakes.

    Two classes; 1 reveals and 0 is blind, as in ``FeedbackGraph.filtering(2, revealing=1)`` (they are the paper's 2 and
    1). T = 2 R^2 rounds in 2 R segments of R rounds; in segment i, counted from 0, the features 0 and i + 1 of 2 R + 1
    are on. All labels are 0, except that those of the segment `turned` are 1. A learner has to play 1 in a segment to
    notice that it is turned; playing 1 about once in every segment costs R mistakes where none is, and never doing so
    costs the R of the turned one. On one of the two streams, then, any learner makes at least ``lower_bound`` mistakes
    in expectation, if the turned segment is the one in which it plays 1 least often:
    :func:`gappletron.paper.adversary.quietest_segment` finds it.

    The comparator's smooth hinge loss is 0 on both. Without a turned segment it scores class 0 by feature 0, with
    weight 1, and has norm 1; with one it also scores class 1 by the feature of that segment, with weight 2, and has
    norm sqrt(5).

    >>> from gappletron import Segments
    >>> stream = Segments(root=8, turned=3)
    >>> stream
    <Segments 'segments:R=8,turned=3'>
    >>> stream.rounds, stream.features, stream.lower_bound, stream.segment_ends[3]
    (128, 17, 4.0, 32)
    >>> next(stream.chunks()).labels[20:40]
    array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    """

    kind = "segments"
    keys = {"R": "root", "turned": "turned"}  # noqa: RUF012
    example = "R=8,turned=3"

    def __init__(self, root: int, turned: int | None = None) -> None:
        self.root = whole(root, "the root R", least=1, most=(MOST_NARROW - 1) // 2)
        self.turned = (
            None if turned is None else whole(turned, "the turned segment, counted from 0,", most=2 * self.root - 1)
        )
        self.rounds: int = 2 * self.root**2
        self.features = 2 * self.root + 1
        self.classes = (0, 1)
        self.max_norm = math.sqrt(2.0)

    @property
    def segment_ends(self) -> range:
        """The number of rounds at the end of each segment; a `curve` for :func:`gappletron.play`."""
        return range(self.root, self.rounds + 1, self.root)

    @property
    def lower_bound(self) -> float:
        """min{R, T / (4 R)} = R / 2, the theorem's number: the expected mistakes without or with the turned segment
        reach it.

        They even reach 2 R / 3: m plays of 1 in expectation leave a segment in which there is one with probability at
        most m / (2 R), so the two streams cost at least m and R - m / 2.
        """
        return self.root / 2.0

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
        for start in range(0, self.rounds, CHUNK):
            segment = np.arange(start, min(start + CHUNK, self.rounds)) // self.root
            n = segment.size
            indices = np.zeros((n, 2), np.int32)
            indices[:, 1] = segment + 1
            labels = np.zeros(n, np.int64) if self.turned is None else segment == self.turned
            yield make_chunk(np.arange(0, 2 * n + 1, 2), indices.reshape(-1), np.ones(2 * n), labels)


class FreshFeatures(GeneratedStream):
    """The stream of the full-information lower bound (Theorem "full info lower bound"): a regret that grows with B and
    K.

    For an integer B = `radius` >= 2 the first M = (B^2 - 1) K^2 rounds have a feature each that was never on before,
    with value 1, and a uniformly random label. From then on one more feature is on in every round, and its label,
    uniformly random too, stays. Every learner errs with probability (K - 1)/K in each of the first M + 1 rounds:
    ``lower_bound`` in expectation, over the labels as well, so average over seeds.

    The comparator scores the label of each fresh feature by 1/K and that of the last by 1: its norm is B, its smooth
    hinge loss ``comparator_loss``, and the bound exceeds that by (B^2 - 1)(K - 1) + (K - 1)/K, the surrogate regret.

    The labels depend on `classes` and `seed` alone: the first rounds of a longer stream are the shorter stream.

    >>> from gappletron import FreshFeatures
    >>> stream = FreshFeatures(classes=3, radius=2, rounds=100)
    >>> stream
    <FreshFeatures 'fresh:K=3,B=2,T=100,seed=0'>
    >>> stream.features, stream.max_norm, round(stream.lower_bound, 2), round(stream.comparator_loss, 2)
    (28, 1.0, 18.67, 12.0)
    >>> FreshFeatures(classes=3, radius=2, rounds=27)
    Traceback (most recent call last):
        ...
    gappletron.UserError: the number of rounds T, with (B^2 - 1) K^2 + 1 features, must be at least 28, not 27
    """

    kind = "fresh"
    keys = {"K": "classes", "B": "radius", "T": "rounds", "seed": "seed"}  # noqa: RUF012
    example = "K=3,B=2,T=100,seed=0"

    def __init__(self, classes: int, radius: int, rounds: int, seed: int = 0) -> None:
        K = whole(classes, "the number of classes K", least=2, most=10_000)
        self.radius = whole(radius, "the comparator's norm B", least=2)
        # M, the rounds before the last feature.
        self.fresh = (self.radius**2 - 1) * K**2
        self.features = whole(self.fresh + 1, "the number of features, (B^2 - 1) K^2 + 1,", most=MOST_NARROW)
        self.rounds: int = whole(
            rounds, "the number of rounds T, with (B^2 - 1) K^2 + 1 features,", least=self.features
        )
        self.seed = whole(seed, "seed")
        self.classes = tuple(range(K))
        self.max_norm = 1.0

    @property
    def lower_bound(self) -> float:
        """(M + 1)(K - 1)/K: no learner's expected mistakes are fewer, over the labels and its own randomness."""
        K = len(self.classes)
        return (self.fresh + 1) * (K - 1) / K

    @property
    def comparator_loss(self) -> float:
        """M (1 - 1/K)^2: the smooth hinge loss of the theorem's comparator; the best of norm B loses no more."""
        K = len(self.classes)
        return self.fresh * (1.0 - 1.0 / K) ** 2

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
        # Not a spawned sequence: the learners' generators are spawned from their seed, which may be the same number.
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed)))
        K = len(self.classes)
        last = 0
        for start in range(0, self.rounds, CHUNK):
            n = min(CHUNK, self.rounds - start)
            labels = np.full(n, last, np.int64)
            drawn = min(n, self.features - start)
            if drawn > 0:
                labels[:drawn] = rng.random(drawn) * K  # never rounds up to K: see `draw_below` in synthetic.py
                labels[drawn:] = last = int(labels[drawn - 1])
            yield make_chunk(np.arange(n + 1), np.minimum(np.arange(start, start + n), self.fresh), np.ones(n), labels)


class FreshThenSegments(GeneratedStream):
    """Both lower bounds on one filtering graph with K classes (Corollary "lower"): fresh features, then segments.

    The first ``M + 1 = (B^2 - 1) K^2 + 1`` rounds are those of :class:`FreshFeatures`, with labels from all K classes;
    the 2 R^2 rounds after them are those of :class:`Segments`, on features of their own. The graph is
    ``FeedbackGraph.filtering(K, revealing=1)``. Feedback that shows less does not help a learner in the first part, and
    in the second a class that neither reveals nor is the label is only a mistake. So the two bounds add up. The
    comparator loses nothing in the second part, and has the squared norm B^2 + 5.

    >>> from gappletron import FreshThenSegments
    >>> stream = FreshThenSegments(classes=4, radius=2, root=8)
    >>> stream
    <FreshThenSegments 'fresh-segments:K=4,B=2,R=8,seed=0'>
    >>> stream.rounds, stream.features, stream.lower_bound, stream.comparator_loss
    (177, 66, 40.75, 27.0)
    """

    kind = "fresh-segments"
    keys = {"K": "classes", "B": "radius", "R": "root", "seed": "seed", "turned": "turned"}  # noqa: RUF012
    example = "K=4,B=2,R=8,seed=0"

    def __init__(self, classes: int, radius: int, root: int, turned: int | None = None, seed: int = 0) -> None:
        self.second = Segments(root, turned)
        K, B = whole(classes, "the number of classes K", least=2), whole(radius, "the comparator's norm B", least=2)
        self.first = FreshFeatures(K, B, (B * B - 1) * K * K + 1, seed)
        self.radius, self.seed = self.first.radius, self.first.seed
        self.root, self.turned = self.second.root, self.second.turned
        self.rounds: int = self.first.rounds + self.second.rounds
        self.features = self.first.features + self.second.features
        self.classes = self.first.classes
        self.max_norm = self.second.max_norm

    @property
    def segment_ends(self) -> list[int]:
        """The number of rounds before the segments, and at the end of each."""
        return [self.first.rounds + end for end in (0, *self.second.segment_ends)]

    @property
    def lower_bound(self) -> float:
        """The sum of the two: no learner's expected mistakes are fewer on the worse of the two streams."""
        return self.first.lower_bound + self.second.lower_bound

    @property
    def comparator_loss(self) -> float:
        """The smooth hinge loss of the comparator, all of it in the first part."""
        return self.first.comparator_loss

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
        yield from self.first.chunks()
        for chunk in self.second.chunks():
            yield make_chunk(chunk.indptr, chunk.indices + self.first.features, chunk.values, chunk.labels)
