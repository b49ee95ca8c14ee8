"""The best comparator in hindsight: the U in a ball with the smallest loss on a whole stream, with a certified gap.

The losses are convex in U, so this is a convex problem: minimise ``F(U) = sum_t l_t(U)`` over ``||U|| <= B``. One pass
over the data gives F(U) and, for every round, a plane that is at most l_t everywhere. The sum of the planes, ``c + <G,
V>``, is at least ``c - B ||G||`` on the ball. So this number is a lower bound on the loss of every comparator, and its
difference to F(U) is the reported gap. An error of the solver can only make the gap larger, never wrong.

* A loss of the margin ``m = s_y - max_{k != y} s_k`` has kinks, where its tangent is a weak lower bound. The maximum is
  replaced by ``mu ln sum_k exp(s_k / mu)`` over the rivals, where mu is a temperature; its gradient p is a
  distribution. For any p, ``m(V) <= s_y(V) - <p, s(V)>``, which is linear in V, and a convex decreasing f lies above
  its tangents. So the gradient of the smoothed loss defines a plane below the true loss (:meth:`Loss.plane`).
* The constraint is handled by an augmented Lagrangian: for a multiplier nu, L-BFGS minimises ``F + max(0, nu + rho
  (||U||^2 - B^2)/2)^2 / (2 rho)`` without constraints, and the value of the maximum is the next nu. If the constraint
  is not active, nu becomes 0.
* mu is reduced tenfold at a time, until smoothing costs less than the tolerance.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import check_memory, number
from gappletron.base.errors import UserError
from gappletron.data.open import open_stream
from gappletron.data.prepared import prepare_chunks
from gappletron.data.stream import Chunk, Stream, largest_norm
from gappletron.graphs.graph import FeedbackGraph
from gappletron.graphs.open import match_classes, open_graph
from gappletron.kernel.compiling import prepare
from gappletron.kernel.numerics import LARGEST_VALUE, Lanes, Row, add_outer, dot, lanes_for
from gappletron.kernel.types import Floats
from gappletron.learners.losses import Loss
from gappletron.play.engine import NO_ROWS

# The maximum number of passes over the data. If the gap is still above the tolerance then, it is reported as it is.
MAX_PASSES = 1000

FIRST_TEMPERATURE, COOLING = 0.1, 0.1
MAX_MEMORY, MIN_MEMORY = 40, 10  # pairs of vectors that L-BFGS stores: more of them save passes, and cost memory
ROUNDING = 1e-13  # relative rounding error of sums of many terms
FIRST_RHO = 10.0  # in units in which nu is between 0 and 1


class Comparator(NamedTuple):
    """Weights U (d x K), their loss sum_t l_t(U), and the gap: no U in the ball has a loss below ``loss - gap``.

    >>> from gappletron import SmoothHinge
    >>> from gappletron.paper.comparator import best_comparator
    >>> found = best_comparator(SmoothHinge(), "synthetic:K=3,d=40,T=1000", "bandit", radius=2.0)
    >>> found.weights.shape, found.gap <= 1e-3 * found.loss
    ((40, 3), True)
    """

    weights: Floats
    loss: float
    gap: float


# ----------------------------------------------------------------------------------------------- one pass over the data


class Buffers(NamedTuple):
    """K scores, K derivatives, and the sums of a pass: of `value`, `smoothed`, `constant` and the |derivatives|."""

    scores: Floats
    direction: Floats
    sums: Floats
    lanes: Lanes


def add_planes(
    loss: Loss, weights: Floats, chunk: Chunk, skipped: NDArray[np.bool_], mu: float, gradient: Floats, buffers: Buffers
) -> None:
    """Add the planes of a chunk's rounds to `gradient` and `buffers.sums`."""
    for t in range(chunk.labels.size):
        if not skipped[t]:
            x = Row(chunk.indices, chunk.values, chunk.indptr[t], chunk.indptr[t + 1], 0.0, buffers.lanes)
            dot(weights, x, buffers.scores)
            plane = loss.plane(buffers.scores, chunk.labels[t], mu, buffers.direction)
            buffers.sums[0] += plane.value
            buffers.sums[1] += plane.smoothed
            buffers.sums[2] += plane.constant
            for k in range(buffers.direction.size):
                buffers.sums[3] += abs(buffers.direction[k])
            add_outer(gradient, x, buffers.direction, 1.0)


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
    """Return the U with ``||U|| <= radius`` that minimises ``sum_t l_t(U)``, up to a relative tolerance.

    The data are kept in memory, and the search typically takes some hundred passes over them. It ends when the gap is
    at most ``tolerance * max(1, loss)``, when further passes do not reduce the gap, or after 1000 passes; the gap that
    is reached is reported. For a loss from outside the package the gap is valid if the loss is convex, and may be large
    if it has kinks (see :meth:`Loss.plane`).

    :param loss: the loss of the learner.
    :param stream: any stream that :func:`gappletron.play` takes and whose length is known.
    :param graph: the graph of the run; only the order of its classes matters.
    :param skipped: only for a loss with a case split at the learner's W_t (the hinge losses): True in the rounds in
        which the split made the loss of the run 0, where it is 0 for every U. By default every round counts, and the
        result is an upper bound on the loss of the run's best comparator. For a run of ``play(..., losses=True,
        curve="every")`` these rounds are ``np.diff(run.curve.loss_sum, prepend=0.0) == 0.0``.
    :param progress: called after every pass with the number of passes so far and the maximum number of passes.

    Two classes with one unit vector each, where one label in four is noise:

    >>> import numpy as np
    >>> from gappletron import LogisticBase2
    >>> x, y = np.array([0, 0, 0, 0, 1, 1, 1, 1] * 10), np.array([0, 0, 0, 1, 1, 1, 1, 0] * 10)
    >>> found = best_comparator(LogisticBase2(), (np.eye(2)[x], y), "bandit", radius=5.0)
    >>> round(found.loss / len(y), 3)  # the entropy of a coin with probability 1/4
    0.811
    >>> margins = found.weights @ [1, -1]
    >>> margins.round(1).tolist()  # ln 3 for the right class
    [1.1, -1.1]
    """
    if not isinstance(loss, Loss):
        raise UserError(f"{loss!r} is not a loss: pass a Loss, for example SmoothHinge() or the .loss of a learner")
    if skipped is not None and not loss.has_case_split:
        raise UserError(
            f"skipped= is only for losses with a case split at the learner's weights, and {loss!r} has none: remove it"
        )
    radius, tolerance = number(radius, "the radius", above=0.0), number(tolerance, "the tolerance", above=0.0)
    search = _Search(loss, stream, graph, radius, skipped, tolerance, progress)
    search.run()
    return Comparator(search.best, search.loss, search.gap)


class _Converged(Exception):
    """The last point is accurate enough for this solve."""


class _Step(NamedTuple):
    """The result of a pass at U = B Z: the smoothed loss, its gradient in Z, and its distance above the planes."""

    smoothed: float
    gradient: Floats
    smoothing: float


class _End(NamedTuple):
    """The end of a solve: Z, the multiplier there, and the part of the gap that is due to smoothing."""

    Z: Floats
    multiplier: float
    smoothing: float


class _Search:
    """Passes over the data, and the best result so far.

    Internally the ball has radius 1 (Z = U/B) and the loss is divided by its value at 0. Then, by convexity, the
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
        self._memory = min(MAX_MEMORY, max(MIN_MEMORY, 2**22 // size))
        check_memory(
            (2 * self._memory + 10) * 8 * size,
            f"the comparator for {stream.features} features and {graph.n_classes} classes",
            "hash the features into fewer columns",
        )
        self._chunks = _read_chunks(stream, match_classes(stream.classes, graph))
        self._max_norm = max(map(largest_norm, self._chunks))
        if not self._max_norm * max(1.0, radius) <= LARGEST_VALUE:
            raise UserError(
                f"{stream.name} has rows of norm {self._max_norm:g}: with a radius of {radius:g} the scores exceed the "
                "range of 64-bit floats; scale the rows, for example to unit norm"
            )
        rounds = np.array([chunk.labels.size for chunk in self._chunks], dtype=np.int64)
        self._skipped = np.split(_check_mask(skipped, int(rounds.sum())), np.cumsum(rounds)[:-1])
        self._loss = loss
        lanes, K = lanes_for(graph.n_classes), graph.n_classes
        self._padded_shape = stream.features, lanes.padded(K)
        scores, direction = (np.zeros(lanes.padded(K))[:K] for _ in range(2))
        self._buffers = Buffers(scores, direction, np.zeros(4), lanes)
        matrix, mask = np.zeros((1, 1)), np.zeros(0, np.bool_)
        self._kernel = prepare(add_planes, loss, matrix, NO_ROWS, mask, 1.0, matrix, self._buffers)
        self._radius, self._tolerance, self._progress = radius, tolerance, progress
        self._passes, self._unit = 0, 1.0
        self.best, self.loss = np.zeros(self._shape), math.inf
        # A valid lower bound: no loss is negative, since ||grad l||^2 <= 2 L l.
        self._lower = 0.0

    @property
    def gap(self) -> float:
        """Every comparator in the ball has a loss of at least `loss` minus this."""
        return max(0.0, self.loss - self._lower)

    @property
    def target(self) -> float:
        """The gap that the tolerance allows."""
        return self._tolerance * max(1.0, self.loss)

    @property
    def finished(self) -> bool:
        """Whether the gap is small enough, or the number of passes at its maximum."""
        return self.gap <= self.target or self._passes >= MAX_PASSES - 1  # the last pass is for the projected end point

    def evaluate(self, Z: Floats, mu: float) -> _Step:
        """Make one pass over the data, at U = B Z."""
        U, K = self._radius * Z.reshape(self._shape), self._shape[1]
        padded, gradients = np.zeros(self._padded_shape), np.zeros(self._padded_shape)
        padded[:, :K] = U
        self._buffers.sums[:] = 0.0
        for chunk, skipped in zip(self._chunks, self._skipped, strict=True):
            self._kernel(self._loss, padded, chunk, skipped, mu, gradients, self._buffers)
        gradient = gradients[:, :K]
        value, smoothed, constant, derivatives = self._buffers.sums.tolist()
        slope, norm = self._radius * gradient.ravel(), _norm(Z)
        # Scores are at most ||U|| X. Where that is huge, rounding errors alone could put the planes above the loss.
        rounding = ROUNDING * (abs(constant) + max(1.0, norm) * self._radius * self._max_norm * derivatives)
        self._lower = max(self._lower, constant - _norm(slope) - rounding)
        if norm <= 1.0 + 1e-12 and value < self.loss:
            self.best, self.loss = U, value
        self._passes += 1
        if self._progress is not None:
            self._progress(self._passes, MAX_PASSES)
        return _Step(smoothed / self._unit, slope / self._unit, (smoothed - constant - float(slope @ Z)) / self._unit)

    def run(self) -> None:
        """Search until the gap is small enough, or three solves in a row have not reduced it."""
        mu, rho, share, stalled = FIRST_TEMPERATURE, FIRST_RHO, 0.5, 0
        Z = np.zeros(self.best.size)
        step = self.evaluate(Z, mu)
        if not math.isfinite(step.smoothed):
            raise UserError(
                f"the loss at U = 0 is {step.smoothed}, and best_comparator needs a finite loss: check its value method"
            )
        if self.finished:
            return
        self._unit = step.smoothed
        steepest = _norm(step.gradient)
        multiplier = 0.0
        if steepest > 0.0:
            Z = -step.gradient / steepest
            multiplier = max(0.0, -float(self.evaluate(Z, mu).gradient @ Z))
        while stalled < 3:
            before = self.gap
            Z, multiplier, smoothing = self.solve(Z, mu, multiplier, rho, share)
            norm = _norm(Z)
            if norm > 1.0 or multiplier > 0.0:
                self.evaluate(Z / norm, mu)
            if self.finished:
                break
            if smoothing * self._unit >= 0.4 * self.gap:
                # The cost of smoothing is about proportional to mu. (The gap is above the target, so mu decreases.)
                mu *= max(COOLING, 0.4 * self.target / (smoothing * self._unit))
            else:
                share, rho = 0.25 * share, 4.0 * rho
            stalled = stalled + 1 if self.gap > 0.999 * before else 0

    def solve(self, Z: Floats, mu: float, multiplier: float, rho: float, share: float) -> _End:
        """L-BFGS on the augmented Lagrangian, starting at Z, until the part of the gap that is due to optimisation is
        at most `share` times the part that is due to smoothing.
        """
        from scipy import optimize

        end = _End(Z, multiplier, 0.0)

        def lagrangian(Z: Floats) -> tuple[float, Floats]:
            nonlocal end
            step, norm = self.evaluate(Z, mu), _norm(Z)
            force = max(0.0, multiplier + rho * (norm * norm - 1.0) / 2.0)
            end = _End(Z.copy(), force, step.smoothing)
            # To first order: the smoothed loss at the projection of Z onto the ball, minus the minimum of the planes;
            # plus the change that a further step along Z can make, since scaling moves all rounds at a kink at once.
            length = norm if force > 0.0 else max(1.0, norm)
            steepness = _norm(step.gradient)
            own = float(step.gradient @ Z) / length + steepness + force * abs(steepness - force * norm) / rho
            if self.finished or own <= share * max(step.smoothing, self.target / self._unit):
                raise _Converged
            return step.smoothed + force * force / (2.0 * rho), step.gradient + force * Z

        options = {"maxcor": self._memory, "maxiter": MAX_PASSES, "maxfun": MAX_PASSES, "ftol": 1e-15, "gtol": 1e-12}
        with contextlib.suppress(_Converged):
            found = optimize.minimize(lagrangian, Z, jac=True, method="L-BFGS-B", options=options)
            lagrangian(found.x)  # the last evaluation may have been a rejected step
        return end


def _norm(vector: Floats) -> float:
    return math.sqrt(float(vector @ vector))


def _read_chunks(stream: Stream, positions: NDArray[np.int64] | None) -> list[Chunk]:
    """Return all chunks of a stream, with labels as positions in the graph."""
    if stream.rounds is None:
        raise UserError(
            f"the length of {stream.name} is unknown, and best_comparator keeps the whole stream in memory: set the "
            "number of rounds, for example open_stream(..., rounds=100_000)"
        )
    chunks: list[Chunk] = []
    for checked in prepare_chunks(stream):
        chunk = (checked if positions is None else checked.relabel(positions)).without_zeros().chunk
        if not chunks and chunk.labels.size:
            check_memory(
                sum(array.nbytes for array in chunk) * (stream.rounds // chunk.labels.size),
                stream.name,
                "take fewer rounds",
            )
        chunks.append(chunk)
    return chunks or [NO_ROWS]


def _check_mask(skipped: Sequence[bool] | NDArray[np.bool_] | None, rounds: int) -> NDArray[np.bool_]:
    if skipped is None:
        return np.zeros(rounds, np.bool_)
    mask = np.asarray(skipped)
    if mask.dtype != np.bool_ or mask.shape != (rounds,):
        raise UserError(
            f"skipped must be a boolean for each of the {rounds} rounds: expected shape ({rounds},) and dtype bool, "
            f"got shape {mask.shape} and dtype {mask.dtype}"
        )
    return mask.copy()  # writeable, as every other mask: a read-only array would be another compilation
