"""The best comparator in hindsight: the U of a ball with the least loss on a whole stream, and a proof of how good it
is.

The losses are convex in U, so this is a convex problem: minimise ``F(U) = sum_t l_t(U)`` over ``||U|| <= B``. A pass
over the data gives F(U) and, for every round, a plane that lies below l_t everywhere. The sum of the planes, ``c + <G,
V>``, is at least ``c - B ||G||`` on the ball, so no comparator loses less than that: the difference to F(U) is the gap
that is reported. The solver cannot make it wrong, only large.

* A loss of the margin ``m = s_y - max_{k != y} s_k`` has kinks, where a gradient of its own says little. The maximum is
  smoothed at a temperature mu, into ``mu ln sum_k exp(s_k / mu)`` over the rivals, with the gradient p, a distribution.
  For any p, ``m(V) <= s_y(V) - <p, s(V)>``, which is linear in V; and a convex f that falls lies above its tangents. So
  the gradient of the smoothed loss is that of a plane below the true one.
* The ball is the augmented Lagrangian's: for a multiplier nu, L-BFGS minimises ``F + max(0, nu + rho (||U||^2 -
  B^2)/2)^2 / (2 rho)`` without constraints, and what stands in the maximum is the next nu. A slack ball needs no case
  of its own: nu becomes 0.
* mu falls tenfold at a time, down to where smoothing costs less than the tolerance allows.
"""

from __future__ import annotations

import contextlib
import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gappletron._dispatch import Piece, compiled, helper, ready
from gappletron._validate import UserError, fits_in_memory, number
from gappletron.graphs import class_positions, open_graph
from gappletron.learners.gaptron import GaptronHinge
from gappletron.losses import Hinge, Loss, SmoothHinge
from gappletron.numerics import LARGEST_VALUE, Row, add_outer, argmax, dot, margin, rival
from gappletron.runs import EMPTY
from gappletron.streams import open_stream
from gappletron.streams.stream import frozen, largest_norm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from gappletron.graphs import FeedbackGraph
    from gappletron.numerics import Floats
    from gappletron.streams.stream import Chunk, Stream

__all__ = ["Comparator", "best_comparator"]

MOST_PASSES = 1000
"""The end of all patience: a gap that is still larger than asked for is reported as it is."""

FIRST_TEMPERATURE, COOLING = 0.1, 0.1
LONGEST_MEMORY, SHORTEST_MEMORY = 40, 10  # pairs of vectors that L-BFGS remembers: more save passes, and cost memory
ROUNDING = 1e-13  # of sums of many terms, relative to their size
FIRST_RHO = 10.0  # in units in which nu is between 0 and 1


class Comparator(NamedTuple):
    """`weights` U (d x K), its `loss` sum_t l_t(U), and `gap`: no U of the ball loses less than ``loss - gap``.

    >>> from gappletron import SmoothHinge
    >>> from gappletron.comparator import best_comparator
    >>> found = best_comparator(SmoothHinge(), "synthetic:K=3,d=40,T=1000", "bandit", radius=2.0)
    >>> found.weights.shape, found.gap <= 1e-3 * found.loss
    ((40, 3), True)
    """

    weights: Floats
    loss: float
    gap: float


# --------------------------------------------------------------------------------------------- what a round contributes


class Plane(NamedTuple):
    """The loss of a round, the smoothed loss, and the constant of a plane ``constant + <out, s>`` that is nowhere above
    it.
    """

    value: float
    smoothed: float
    constant: float


class Smoothing(Piece, abstract=True):
    """The family of ways to smooth a loss."""

    @abstractmethod
    @compiled
    def plane(self, scores: Floats, y: int, mu: float, out: Floats) -> Plane:
        """The loss of `y` at these scores, smoothed at the temperature mu; `out` becomes the smoothed loss's
        gradient.
        """


@helper
def soften(scores: Floats, y: int, mu: float, out: Floats) -> float:
    """mu ln sum_{k != y} exp(s_k / mu), at least the largest rival's score; `out` becomes its gradient p."""
    r = rival(scores, y)
    total = 0.0
    for k in range(scores.size):
        out[k] = 0.0
        if k != y:
            out[k] = math.exp((scores[k] - scores[r]) / mu)
            total += out[k]
    for k in range(scores.size):
        out[k] /= total
    return scores[r] + mu * math.log(total)


@helper
def spread(y: int, slope: float, out: Floats) -> None:
    """out = -slope (e_y - p) for the p that it holds."""
    for k in range(out.size):
        out[k] *= slope
    out[y] = -slope


class SoftenedSmoothHinge(Smoothing):
    """The smooth hinge with a smoothed margin: f(m) >= 2a(1 - m) - a^2 for every a of [0, 1], with equality at a = 1 -
    m.

    >>> import numpy as np
    >>> [float(number) for number in SoftenedSmoothHinge().plane(np.array([0.5, 0.0]), 0, 0.1, np.zeros(2))]
    [0.25, 0.25, 0.75]
    """

    loss: SmoothHinge = SmoothHinge()

    def plane(self, scores: Floats, y: int, mu: float, out: Floats) -> Plane:
        m = scores[y] - soften(scores, y, mu, out)
        a = min(1.0, max(0.0, 1.0 - m))
        spread(y, 2.0 * a, out)
        return Plane(self.loss.value(scores, argmax(scores), y), 2.0 * a * (1.0 - m) - a * a, 2.0 * a - a * a)


class SoftenedHinge(Smoothing):
    """max(0, 1 - m), the hinge without its case split, both maxima smoothed: f(m) >= a(1 - m) for every a of [0, 1].

    >>> import numpy as np
    >>> float(SoftenedHinge().plane(np.array([1.0, 0.0]), 0, 0.1, np.zeros(2)).constant)
    0.5
    """

    def plane(self, scores: Floats, y: int, mu: float, out: Floats) -> Plane:
        z = (1.0 - (scores[y] - soften(scores, y, mu, out))) / mu
        small = math.exp(-abs(z))
        a = (1.0 if z > 0.0 else small) / (1.0 + small)
        spread(y, a, out)
        return Plane(max(0.0, 1.0 - margin(scores, y)), mu * (max(0.0, z) + math.log1p(small)), a)


class Unsmoothed(Smoothing):
    """A loss as it is, with its tangents: the logistic losses, which are smooth, and losses from outside the package.

    >>> import numpy as np
    >>> from gappletron import LogisticBase2
    >>> [float(number) for number in Unsmoothed(LogisticBase2()).plane(np.zeros(2), 0, 0.1, np.zeros(2))]
    [1.0, 1.0, 1.0]
    """

    loss: Loss

    def plane(self, scores: Floats, y: int, mu: float, out: Floats) -> Plane:
        greedy = argmax(scores)
        value = self.loss.value(scores, greedy, y)
        self.loss.gradient(scores, greedy, y, out)
        constant = value
        for k in range(out.size):
            constant -= out[k] * scores[k]
        return Plane(value, value, constant)


def smoothing_of(loss: Loss) -> Smoothing:
    """How a loss is smoothed."""
    if isinstance(loss, SmoothHinge):
        return SoftenedSmoothHinge()
    return SoftenedHinge() if has_case_split(loss) else Unsmoothed(loss)


def has_case_split(loss: Loss) -> bool:
    """Whether the learner's own weights decide which rounds cost a comparator nothing."""
    return isinstance(loss, Hinge | GaptronHinge)


class Room(NamedTuple):
    """Room for K scores, K derivatives, and the sums of a pass: of `value`, `smoothed`, `constant` and the
    |derivatives|.
    """

    scores: Floats
    direction: Floats
    sums: Floats


def add_planes(
    smoothing: Smoothing,
    weights: Floats,
    chunk: Chunk,
    skipped: NDArray[np.bool_],
    mu: float,
    gradient: Floats,
    room: Room,
) -> None:
    """Add up the planes of a chunk's rounds in `gradient` and `room.sums`."""
    for t in range(chunk.labels.size):
        if not skipped[t]:
            x = Row(chunk.indices, chunk.values, chunk.indptr[t], chunk.indptr[t + 1])
            dot(weights, x, room.scores)
            plane = smoothing.plane(room.scores, chunk.labels[t], mu, room.direction)
            room.sums[0] += plane.value
            room.sums[1] += plane.smoothed
            room.sums[2] += plane.constant
            for k in range(room.direction.size):
                room.sums[3] += abs(room.direction[k])
            add_outer(gradient, x, room.direction, 1.0)


# ----------------------------------------------------------------------------------------------------------- the search


def best_comparator(
    loss: Loss,
    stream: Any,
    graph: FeedbackGraph | str,
    radius: float,
    *,
    skipped: Sequence[bool] | NDArray[np.bool_] | None = None,
    tolerance: float = 1e-3,
    progress: Callable[[int, int], None] | None = None,
) -> Comparator:
    """The U with ``||U|| <= radius`` and the least ``sum_t l_t(U)``, up to `tolerance` of that loss (or of 1, if it is
    less).

    It takes some hundred passes over the data, which are held in memory; after 1000 passes, or when they no longer
    help, the best U is returned with the gap that is left. For a loss from outside the package the gap is true if the
    loss is convex, and may stay large if it has kinks.

    :param loss: the learner's.
    :param stream: what :func:`gappletron.play` takes, if its length is known.
    :param graph: that of the run; only the order of its classes matters.
    :param skipped: for the hinge losses, whose case split is at the learner's W_t: True in the rounds in which the
        split made the run's loss 0, where it is 0 for every U. Without it every round counts, and the least loss is at
        least that of the run. The rounds are ``np.diff(run.curve.loss_sum, prepend=0.0) == 0.0`` for a run of
        ``play(..., losses=True, curve="every")``.
    :param progress: called after every pass with the number of passes so far, and the most that there will be.

    Two classes with a unit vector each, and one label in four is noise:

    >>> import numpy as np
    >>> from gappletron import LogisticBase2
    >>> x, y = np.array([0, 0, 0, 0, 1, 1, 1, 1] * 10), np.array([0, 0, 0, 1, 1, 1, 1, 0] * 10)
    >>> found = best_comparator(LogisticBase2(), (np.eye(2)[x], y), "bandit", radius=5.0)
    >>> round(found.loss / len(y), 3)  # the entropy of a coin with 1/4
    0.811
    >>> margins = found.weights @ [1, -1]
    >>> margins.round(1).tolist()  # ln 3, either way
    [1.1, -1.1]
    """
    if not isinstance(loss, Loss):
        raise UserError(f"{loss!r} is not a loss: give one, such as SmoothHinge() or a learner's .loss")
    if skipped is not None and not has_case_split(loss):
        raise UserError(
            f"skipped= is for the hinge losses, whose case split is at the learner's weights: {loss!r} has none, "
            "leave it out"
        )
    search = _Search(
        loss,
        stream,
        graph,
        number(radius, "the radius", above=0.0),
        skipped,
        number(tolerance, "the tolerance", above=0.0),
        progress,
    )
    search.run()
    return Comparator(search.best, search.loss, search.gap)


class _Enough(Exception):
    """The point just looked at is as good as this solve has to make it."""


class _Step(NamedTuple):
    """A pass's findings at U = B Z: the smoothed loss, its gradient by Z, and how far above the planes it is."""

    smoothed: float
    gradient: Floats
    smoothing: float


class _End(NamedTuple):
    """Where a solve ended: Z, the multiplier there, and what smoothing costs."""

    Z: Floats
    multiplier: float
    smoothing: float


class _Search:
    """Passes over the data, and the best that they have shown so far.

    Inside, the ball is that of radius 1 (Z = U/B) and the loss is divided by its value at 0. Then, by convexity, the
    multiplier of the ball is at most 1: ``1 = F(0) >= F(Z) - <G, Z> = F(Z) + nu`` at the solution.
    """

    def __init__(
        self,
        loss: Loss,
        stream: Any,
        graph: FeedbackGraph | str,
        radius: float,
        skipped: Sequence[bool] | NDArray[np.bool_] | None,
        tolerance: float,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        stream = open_stream(stream)
        graph = open_graph(graph, stream.classes)
        self._shape = stream.features, graph.n_classes
        size = stream.features * graph.n_classes
        self._memory = min(LONGEST_MEMORY, max(SHORTEST_MEMORY, 2**22 // size))
        fits_in_memory(
            (2 * self._memory + 10) * 8 * size,
            f"the comparator for {stream.features} features and {graph.n_classes} classes",
            "hash the features into fewer",
        )
        self._chunks = _held(stream, class_positions(stream.classes, graph))
        self._max_norm = max(map(largest_norm, self._chunks))
        if not self._max_norm * max(1.0, radius) <= LARGEST_VALUE:
            raise UserError(
                f"{stream.name} has rows of norm {self._max_norm:g}, which with a radius of {radius:g} leave the "
                "range of doubles: scale the rows, for example to unit norm"
            )
        rounds = np.array([chunk.labels.size for chunk in self._chunks], dtype=np.int64)
        self._skipped = np.split(_mask(skipped, int(rounds.sum())), np.cumsum(rounds)[:-1])
        self._smoothing = smoothing_of(loss)
        self._room = Room(np.zeros(graph.n_classes), np.zeros(graph.n_classes), np.zeros(4))
        self._kernel = ready(
            add_planes,
            self._smoothing,
            np.zeros((1, 1)),
            EMPTY,
            np.zeros(0, np.bool_),
            1.0,
            np.zeros((1, 1)),
            self._room,
        )
        self._radius, self._tolerance, self._progress = radius, tolerance, progress
        self._passes, self._unit = 0, 1.0
        self.best, self.loss = np.zeros(self._shape), math.inf
        # No loss is negative: ||grad l||^2 <= 2 L l.
        self._lower = 0.0

    @property
    def gap(self) -> float:
        """No comparator's loss is further below `loss`."""
        return max(0.0, self.loss - self._lower)

    @property
    def goal(self) -> float:
        """How large the gap may be."""
        return self._tolerance * max(1.0, self.loss)

    @property
    def over(self) -> bool:
        """Whether the gap is small enough, or patience at its end."""
        return self.gap <= self.goal or self._passes >= MOST_PASSES - 1  # one more, for where the last solve ended

    def look(self, Z: Floats, mu: float) -> _Step:
        """One pass over the data, at U = B Z."""
        U, gradient = self._radius * Z.reshape(self._shape), np.zeros(self._shape)
        self._room.sums[:] = 0.0
        for chunk, skipped in zip(self._chunks, self._skipped, strict=True):
            self._kernel(self._smoothing, U, chunk, skipped, mu, gradient, self._room)
        value, smoothed, constant, derivatives = self._room.sums.tolist()
        slope, norm = self._radius * gradient.ravel(), _norm(Z)
        # Scores are at most ||U|| X: where that is astronomic, rounding alone could lift the planes above the loss.
        rounding = ROUNDING * (abs(constant) + max(1.0, norm) * self._radius * self._max_norm * derivatives)
        self._lower = max(self._lower, constant - _norm(slope) - rounding)
        if norm <= 1.0 + 1e-12 and value < self.loss:
            self.best, self.loss = U, value
        self._passes += 1
        if self._progress is not None:
            self._progress(self._passes, MOST_PASSES)
        return _Step(smoothed / self._unit, slope / self._unit, (smoothed - constant - float(slope @ Z)) / self._unit)

    def run(self) -> None:
        """Look until the gap is small enough, or does not shrink any more."""
        mu, rho, share, futile = FIRST_TEMPERATURE, FIRST_RHO, 0.5, 0
        Z = np.zeros(self.best.size)
        step = self.look(Z, mu)
        if not math.isfinite(step.smoothed):
            raise UserError(
                f"the loss at U = 0 is {step.smoothed}: a comparator can be found for a loss that is finite"
            )
        if self.over:
            return
        self._unit = step.smoothed
        steepest = _norm(step.gradient)
        multiplier = 0.0
        if steepest > 0.0:
            Z = -step.gradient / steepest
            multiplier = max(0.0, -float(self.look(Z, mu).gradient @ Z))
        while futile < 3:
            before = self.gap
            Z, multiplier, smoothing = self.solve(Z, mu, multiplier, rho, share)
            norm = _norm(Z)
            if norm > 1.0 or multiplier > 0.0:
                self.look(Z / norm, mu)
            if self.over:
                break
            if smoothing * self._unit >= 0.4 * self.gap:
                # What smoothing costs is about proportional to mu. (The gap is above the goal here, so mu falls.)
                mu *= max(COOLING, 0.4 * self.goal / (smoothing * self._unit))
            else:
                share, rho = 0.25 * share, 4.0 * rho
            futile = futile + 1 if self.gap > 0.999 * before else 0

    def solve(self, Z: Floats, mu: float, multiplier: float, rho: float, share: float) -> _End:
        """L-BFGS on the augmented Lagrangian from Z on, until its own part of the gap is a `share` of that of
        smoothing.
        """
        from scipy import optimize

        end = _End(Z, multiplier, 0.0)

        def lagrangian(Z: Floats) -> tuple[float, Floats]:
            nonlocal end
            step, norm = self.look(Z, mu), _norm(Z)
            force = max(0.0, multiplier + rho * (norm * norm - 1.0) / 2.0)
            end = _End(Z.copy(), force, step.smoothing)
            # How far above the planes' least sum the smoothed loss is at the point of the ball that Z stands for, to
            # first order; and what the next step along Z would still change, since scaling moves all rounds at a kink
            # at once.
            length = norm if force > 0.0 else max(1.0, norm)
            steepness = _norm(step.gradient)
            own = float(step.gradient @ Z) / length + steepness + force * abs(steepness - force * norm) / rho
            if self.over or own <= share * max(step.smoothing, self.goal / self._unit):
                raise _Enough
            return step.smoothed + force * force / (2.0 * rho), step.gradient + force * Z

        options = {"maxcor": self._memory, "maxiter": MOST_PASSES, "maxfun": MOST_PASSES, "ftol": 1e-15, "gtol": 1e-12}
        with contextlib.suppress(_Enough):
            found = optimize.minimize(lagrangian, Z, jac=True, method="L-BFGS-B", options=options)
            lagrangian(found.x)  # the point looked at last was perhaps a step too far
        return end


def _norm(vector: Floats) -> float:
    return math.sqrt(float(vector @ vector))


def _held(stream: Stream, positions: NDArray[np.int64] | None) -> list[Chunk]:
    """All chunks of a stream, labels as positions in the graph."""
    if stream.rounds is None:
        raise UserError(
            f"the length of {stream.name} is unknown, and a comparator needs all of it in memory: say how many "
            "rounds to take, as in open_stream(..., rounds=100_000)"
        )
    chunks: list[Chunk] = []
    for chunk in stream.chunks():
        if not chunks and chunk.labels.size:
            fits_in_memory(
                sum(array.nbytes for array in chunk) * (stream.rounds // chunk.labels.size),
                stream.name,
                "take fewer rounds",
            )
        chunks.append(chunk if positions is None else frozen(*chunk[:3], positions[chunk.labels]))
    return chunks or [EMPTY]


def _mask(skipped: Sequence[bool] | NDArray[np.bool_] | None, rounds: int) -> NDArray[np.bool_]:
    if skipped is None:
        return np.zeros(rounds, np.bool_)
    mask = np.asarray(skipped)
    if mask.dtype != np.bool_ or mask.shape != (rounds,):
        raise UserError(
            f"skipped must hold True or False for each of the {rounds} rounds, not {mask.dtype} values in the "
            f"shape {mask.shape}"
        )
    return mask.copy()  # one that may be written to, as all others: kernels are compiled for each kind
