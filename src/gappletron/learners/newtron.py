"""Newtron of Hazan and Kale (2011), for bandit feedback: with a diagonal matrix (PNewtron) and with the full one.

The full matrix is kept as its inverse, and changed by rank-one steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gappletron.graphs.graph import Plan
from gappletron.kernel.lanes import divide_rows, width_of
from gappletron.kernel.numerics import Row, are_doubles, argmax, dot, sharpened_softmax, squared_norm
from gappletron.kernel.pieces import Positive, Share, compiled_by, helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.full_matrix import inner, is_sound, scaled_identity, shorten, solve, take_step
from gappletron.learners.learner import Decision, Learner, Problem, Round, action_probability
from gappletron.learners.linear import BanditFeedback, cube_root_rate


@helper
def gradient_estimate(alpha: float, played: Round, out: Floats) -> float:
    """Fill `out` with the factors of x in G, the estimated gradient of -(1/alpha) ln q_y, and return k, its curvature's
    weight.

    For the action i, right: ``G = (1-q_i)/p_i (1/K - e_i) (x) x``, ``k = p_i``; wrong: ``G = q_i/p_i (e_i - 1/K) (x)
    x``, ``k = 1``.
    """
    K = out.size
    i = played.action
    own = 0.0
    rest = 0.0
    for k in range(K):
        mass = math.exp(alpha * (played.scores[k] - played.scores[played.greedy]))
        if k == i:
            own = mass
        else:
            rest += mass
    p = action_probability(played)
    if played.label == i:
        slope = -rest / (own + rest) / p
        k_t = p
    else:
        slope = own / (own + rest) / p
        k_t = 1.0
    for k in range(K):
        out[k] = -slope / K
    out[i] += slope
    return k_t


@helper
def at_prediction(direction: Floats, scores: Floats) -> float:
    """<G, W_t> for ``G = x (x) direction``, from the scores <W_t^k, x> of prediction time."""
    total = 0.0
    for k in range(direction.size):
        total += direction[k] * scores[k]
    return total


@helper
def into_ball(squared: float, radius: float) -> float:
    """The scale that brings a vector of this squared norm into the ball."""
    norm = math.sqrt(squared)
    return radius / norm if norm > radius else 1.0


DECADES = 4.0 * math.log(10.0)

MEASURED_BEYOND = 1e8  # in squared radii: a squared norm of V below this is kept by adding up its changes alone


@helper
def has_collapsed(before: float, after: float, radius: float) -> bool:
    """Whether a squared norm that is kept by adding up its changes fell through a power of 10,000 beyond
    MEASURED_BEYOND: then the rounding errors of the longer vector may matter for the shorter one.
    """
    least = MEASURED_BEYOND * (radius * radius)
    if before < least or after >= before:
        return False
    return after < least or math.floor(math.log(after / least) / DECADES) < math.floor(
        math.log(before / least) / DECADES
    )


def diagonal_step(arrays: tuple[Floats, Floats, Floats], x: Row, direction: Floats, bend: float, push: float) -> float:
    """``A += bend G^2``, ``b += push G`` and ``V = -b/A`` where x is active, for (V, b, A) = `arrays`; the change of
    ||V||^2.
    """
    weights, sums, precision = arrays
    change = 0.0
    for p in range(x.start, x.stop):
        j = x.indices[p]
        for k in range(direction.size):
            g = x.values[p] * direction[k]
            old = weights[j, k]
            precision[j, k] += bend * g * g
            sums[j, k] += push * g
            new = -sums[j, k] / precision[j, k]
            weights[j, k] = new
            change += (new - old) * (new + old)
    return change


@compiled_by(diagonal_step)
def _compiled_diagonal_step(arrays: Any, x: Any, direction: Any, bend: Any, push: Any) -> Callable[..., float]:  # noqa: ARG001
    def by_rows(arrays: tuple[Floats, Floats, Floats], x: Row, direction: Floats, bend: float, push: float) -> float:
        return divide_rows(arrays, x, direction, bend, push)

    return by_rows if width_of(x) and are_doubles(*arrays, direction) else diagonal_step


class NewtonStep(BanditFeedback, abstract=True):
    """What both Newtrons share: the log loss, its bandit gradient, and softmax predictions mixed with uniform
    exploration.
    """

    gamma: Share
    alpha: Positive
    beta: Positive
    radius: Positive

    knows_classes = True
    new_class = "weights 0 and the first precision; softmax, exploration and the 1/K of the gradient use the new K"
    reference = "Hazan, Kale: Newtron: an efficient bandit algorithm for online multiclass prediction (2011)"

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        dot(state.weights, x, out)
        for k in range(out.size):
            out[k] *= state.scale[0]

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        sharpened_softmax(scores, self.alpha, out)
        for k in range(out.size):
            out[k] = (1.0 - self.gamma) * out[k] + self.gamma / out.size
        return Decision(argmax(scores), self.gamma)

    def label_probabilities(self, state: Any, scores: Floats, out: Floats) -> None:
        """``softmax(alpha scores)``, those of its loss."""
        sharpened_softmax(scores, self.alpha, out)

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        total = 0.0
        for k in range(scores.size):
            total += math.exp(self.alpha * (scores[k] - scores[greedy]))
        return scores[greedy] - scores[y] + math.log(total) / self.alpha

    def weights(self, state: Any) -> Floats:
        return state.scale[0] * state.weights

    def tuned(self, tuning: str, problem: Problem) -> NewtonStep:
        scale = problem.dimension() * problem.graph.n_classes if tuning == "theory" else 1.0
        return self.replace(gamma=cube_root_rate(scale, problem.horizon()))


class PNewtron(NewtonStep):
    """PNewtron, the diagonal Newtron of Hazan and Kale (2011), for bandit feedback.

    With ``q = softmax(alpha W x)`` it plays ``i ~ p = (1-gamma) q + gamma/K`` and estimates the gradient of its
    surrogate loss ``-(1/alpha) ln q_y``: ``G = (1-q_i)/p_i (1/K - e_i) (x) x`` with ``k = p_i`` if i was right, else
    ``G = q_i/p_i (e_i - 1/K) (x) x`` with ``k = 1``. Then, entry by entry, ``A += k beta G^2``, ``b += (1 - k beta <G,
    W>) G`` and ``W = -b/A``, scaled into the ball of radius D where it is outside; ``A = 1/D`` at first.

    ``V = -b/A`` changes only where x is active, so its norm is kept incrementally and the ball is one number, ``W =
    scale * V``: a round costs O(nnz(x) K). <G, W> is taken at the W that predicted, also when feedback comes late. Only
    whether the action was right is used, also with two classes. The greedy class that `predict` gives is the argmax,
    while play draws from p.

    Tunings: ``theory`` is ``gamma = min(1/2, (d K/T)^(1/3))`` (the Gappletron paper says only that it tunes with d: our
    reading), ``only-t`` is ``min(1/2, T^(-1/3))``.

    >>> from gappletron import play
    >>> play(PNewtron(0.1), "synthetic:K=3,d=40,noise=0,T=500", "bandit")[0].rounds
    500
    """

    gamma: Share = 0.05
    alpha: Positive = 10.0
    beta: Positive = 0.01
    radius: Positive = 1.0

    @property
    def name(self) -> str:
        """Its authors' spelling."""
        return "pnewtron"

    def declare(self) -> Layout:
        """``W = scale * V`` with ``V = -b/A`` entry by entry, b (`sums`), A (`precision`) and ||V||^2."""
        return {
            "weights": Field("features", "classes"),
            "sums": Field("features", "classes"),
            "precision": Field("features", "classes", fill=1.0 / self.radius, above=0),
            "scale": Field(fill=1.0, above=0),
            "squared": Field(least=0),
            "direction": Scratch("classes"),
        }

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        direction = state.direction
        bend = gradient_estimate(self.alpha, played, direction) * self.beta
        push = 1.0 - bend * at_prediction(direction, played.scores)
        change = diagonal_step((state.weights, state.sums, state.precision), x, direction, bend, push)
        before = state.squared[0]
        state.squared[0] = max(0.0, before + change)
        if has_collapsed(before, state.squared[0], self.radius):
            state.squared[0] = squared_norm(state.weights)
        state.scale[0] = into_ball(state.squared[0], self.radius)


class Newtron(NewtonStep):
    """Newtron of Hazan and Kale (2011) with the full matrix, for bandit feedback and small K d.

    As :class:`PNewtron`, but ``A += k beta G G^T`` is a Kd x Kd matrix, at first ``I/D``, and ``W = -A^-1 b``. The
    inverse is kept, and with ``u = A^-1 G`` (before) and V the W before it was scaled into the ball, a round is two
    rank-one steps: ``V -= u (1 - k beta <G, W> + k beta <G, V>) / (1 + k beta <G, u>)`` and ``A^-1 -= u u^T k beta / (1
    + k beta <G, u>)``.

    It takes 8 (K d)^2 bytes and O((K d)^2) per round: meant for K d up to a thousand or two, and for checking the
    diagonal one. A matrix that would not fit in memory is refused. W is scaled back in the Euclidean norm, as in the
    diagonal version.

    Tunings: as PNewtron's.

    >>> from gappletron import play
    >>> play(Newtron(0.1), "synthetic:K=3,d=40,noise=0,T=500", "bandit")[0].rounds
    500
    """

    gamma: Share = 0.05
    alpha: Positive = 10.0
    beta: Positive = 0.01
    radius: Positive = 1.0

    def declare(self) -> Layout:
        """``W = scale * V`` with ``V = -A^-1 b``, and A^-1."""
        return {
            "weights": Field("features", "classes"),
            "inverse": scaled_identity(self.radius),
            "scale": Field(fill=1.0, above=0),
            "solution": Scratch("features", "classes"),
            "direction": Scratch("classes"),
        }

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if x.squared == 0.0:
            return
        direction = state.direction
        bend = gradient_estimate(self.alpha, played, direction) * self.beta
        shorten(x, direction, bend, self.radius)
        push = 1.0 - bend * at_prediction(direction, played.scores)
        quadratic = solve(state.inverse, x, direction, state.solution)
        width = 1.0 + bend * quadratic
        miss = push + bend * inner(state.weights, x, direction)
        if is_sound(state, x, direction, quadratic, self.radius, bend / width, miss):
            take_step(state, -miss / width, bend / width)
            state.scale[0] = into_ball(squared_norm(state.weights), self.radius)


LEARNERS: dict[str, Learner] = {"pnewtron": PNewtron(), "newtron": Newtron()}
