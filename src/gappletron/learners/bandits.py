"""Linear learners for bandit feedback: Banditron (2008), Newtron (2011) and SOBA (2017).

The last two have a diagonal version and one with the full matrix, whose inverse is kept by rank-one steps.
"""

import math
from abc import abstractmethod
from typing import Any, Self

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import (
    Row,
    argmax,
    diagonal_step,
    dot,
    hinge_direction,
    inner_product,
    margin,
    rival,
    sharpened_softmax,
    squared_norm,
)
from gappletron.kernel.pieces import Piece, Positive, Share, compiled, helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rules import mix_in_dominating
from gappletron.learners.full_matrix import declare_inverse, inner, is_sound, shorten, solve, take_step
from gappletron.learners.learner import (
    Decision,
    Learner,
    Linear,
    Problem,
    Round,
    action_probability,
    add_column,
    exchange,
    explore_uniformly,
    propensity,
)


class BanditFeedback(Linear, abstract=True):
    """Linear learners that look at one thing only, whether the action was the label.

    With two classes the closure turns the bandit graph into full information; the learners are the same on it.
    """

    setting = "bandit"
    teachable = False  # what they learn depends on whether the action drawn was the label

    def refusal(self, graph: FeedbackGraph) -> str | None:
        if graph.is_bandit:
            return None
        return "needs bandit feedback, where there are no extra actions and an action reveals exactly its own class"


def cube_root_rate(scale: float, rounds: int) -> float:
    """min(1/2, (scale / T)^(1/3))."""
    return min(0.5, (scale / rounds) ** (1.0 / 3.0))


class Banditron(BanditFeedback):
    """Banditron as published (Kakade, Shalev-Shwartz, Tewari 2008), for bandit feedback.

    With ``yhat = argmax_k <W^k, x>`` it plays ``i ~ p = (1-gamma) e_yhat + gamma/K``. In every round ``W^yhat -= x``,
    and if the action was right, ``i = y``, also ``W^y += x / p(y)``. So the expected update is the Perceptron's, and it
    is not zero in rounds in which yhat was right but something else was played.

    Only whether the action was right is used, also with two classes, where a wrong action tells the label. Its
    surrogate loss is the multiclass hinge ``max(0, 1 - m(y))``, in which its mistakes are bounded. A round costs
    O(nnz(x) K).

    Tunings: ``theory`` is ``gamma = min(1/2, (K X^2/T)^(1/3))``, ``only-t`` is ``min(1/2, T^(-1/3))``.

    >>> from gappletron import play
    >>> play(Banditron(0.1), "synthetic:K=3,d=40,noise=0,T=500", "bandit")[0].rounds
    500
    """

    gamma: Share = 0.05

    new_class = "weights 0; exploration is uniform over the new K; gamma stays"
    reference = "Kakade, Shalev-Shwartz, Tewari: Efficient bandit algorithms for online multiclass prediction (2008)"

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = argmax(scores)
        explore_uniformly(greedy, self.gamma, out)
        return Decision(greedy, self.gamma)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        add_column(state.weights, x, played.greedy, -1.0)
        if played.label == played.action:
            add_column(state.weights, x, played.action, 1.0 / action_probability(played))

    def tuned(self, tuning: str, problem: Problem) -> Self:
        scale = problem.graph.n_classes * problem.norm() ** 2 if tuning == "theory" else 1.0
        return self.replace(gamma=cube_root_rate(scale, problem.horizon()))


class BanditronIW(Linear):
    """Importance-weighted Banditron, the one in the figures of the Gappletron paper, for any graph.

    It plays ``i ~ p = (1-gamma) e_yhat + gamma/rho 1_S`` with S the graph's dominating set: with bandit feedback that
    is uniform exploration of the classes, in filtering the revealing class with probability gamma. Only when the label
    was observed and ``yhat != y``: ``W^y += x / P(y observed)`` and ``W^yhat -= x / P(y observed)``. That is a step of
    size 1 along the importance-weighted gradient of the Perceptron's hinge, ``1 - m(y)`` if ``yhat != y``, else 0,
    which is its surrogate loss.

    Where we had to choose: on other graphs it explores the dominating set; it explores at the same rate where yhat
    reveals the label itself, so in full information gamma only costs (gamma = 0 is then the Perceptron; elsewhere a
    class that no greedy prediction reveals would never be learned). Bandit feedback with two classes is full
    information, with rho = 1. A round costs O(nnz(x) K + N).

    Tunings: ``theory`` is ``gamma = min(1/2, (rho X^2/T)^(1/3))`` (with rho = K for bandit feedback and 1 in filtering,
    as in the paper; for other graphs that is our reading), ``only-t`` is ``min(1/2, T^(-1/3))``.

    >>> from gappletron import play
    >>> play(BanditronIW(0.1), "synthetic:K=3,d=40,noise=0,T=500", "filtering")[0].rounds
    500
    """

    gamma: Share = 0.05

    setting = "any graph"
    reference = (
        "Kakade, Shalev-Shwartz, Tewari: Efficient bandit algorithms for online multiclass prediction (2008), "
        "weighted as by van der Hoeven, Fusco, Cesa-Bianchi (2021)"
    )

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = argmax(scores)
        mix_in_dominating(plan.graph, greedy, self.gamma, out)
        return Decision(greedy, self.gamma)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        y = played.label
        if y >= 0 and y != played.greedy:
            exchange(state.weights, x, y, played.greedy, 1.0 / propensity(plan, played, y))

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        return 0.0 if greedy == y else 1.0 - margin(scores, y)

    def tuned(self, tuning: str, problem: Problem) -> Self:
        scale = problem.graph.rho * problem.norm() ** 2 if tuning == "theory" else 1.0
        return self.replace(gamma=cube_root_rate(scale, problem.horizon()))


# -------------------------------------------------------------------------------------------------------------- Newtron


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


class NewtonStep(BanditFeedback, abstract=True):
    """What both Newtrons share: the log loss, its bandit gradient, and softmax predictions mixed with uniform
    exploration.
    """

    gamma: Share = 0.05
    alpha: Positive = 10.0
    beta: Positive = 0.01
    radius: Positive = 1.0

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

    def tuned(self, tuning: str, problem: Problem) -> Self:
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

    name = "pnewtron"  # its authors' spelling

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
        push = 1.0 - bend * inner_product(direction, played.scores)
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

    def declare(self) -> Layout:
        """``W = scale * V`` with ``V = -A^-1 b``, and A^-1."""
        return {**declare_inverse(self.radius), "scale": Field(fill=1.0, above=0)}

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if x.squared == 0.0:
            return
        direction = state.direction
        bend = gradient_estimate(self.alpha, played, direction) * self.beta
        shorten(x, direction, bend, self.radius)
        push = 1.0 - bend * inner_product(direction, played.scores)
        quadratic = solve(state.inverse, x, direction, state.solution)
        width = 1.0 + bend * quadratic
        miss = push + bend * inner(state.weights, x, direction)
        if is_sound(state, x, direction, quadratic, self.radius, bend / width, miss):
            take_step(state, -miss / width, bend / width)
            state.scale[0] = into_ball(squared_norm(state.weights), self.radius)


# ----------------------------------------------------------------------------------------------------------------- SOBA


class Rate(Piece, abstract=True):
    """The family of SOBA's exploration rates.

    >>> FixedRate(0.1).rate_in_round(9, 2.0, 100), AdaptiveRate().rate_in_round(9, 3.0, 100)
    (0.1, 0.6)
    """

    @abstractmethod
    @compiled
    def rate_in_round(self, classes: int, volume: float, t: int) -> float:
        """The probability of exploring in round t (counted from 1) with K classes; `volume` is SOBA's Q so far."""


class FixedRate(Rate):
    """The same rate in every round.

    >>> FixedRate(0.1)
    FixedRate(gamma=0.1)
    """

    gamma: Share = 0.05

    def rate_in_round(self, classes: int, volume: float, t: int) -> float:
        return self.gamma


class AdaptiveRate(Rate):
    """``min(1, sqrt(K (1 + Q) / t))``: as much as the updates so far can pay for, without a number to choose.

    >>> AdaptiveRate().rate_in_round(2, 0.0, 1)
    1.0
    """

    def rate_in_round(self, classes: int, volume: float, t: int) -> float:
        return min(1.0, math.sqrt(classes * (1.0 + volume) / t))


def declare_books() -> Layout:
    """Return fields: the sums over all updates, M of m (`credit`) and Q of z2/(1+z2) (`volume`), and the rounds."""
    return {"credit": Field(least=0), "volume": Field(least=0), "rounds": Field(dtype="int64", least=0)}


@helper
def accept_round(books: Any, played: Round, r: int, z2: float, part: float) -> bool:
    """Whether SOBA learns from a round whose action was right; then the round is added to its sums.

    :param part: the factor by which x was shortened.
    """
    y = played.action
    delta = part * (played.scores[r] - played.scores[y])
    m = (delta * delta + 2.0 * delta) / (action_probability(played) * (1.0 + z2))
    if played.greedy == y and books.credit[0] + m < 0.0:
        return False
    books.credit[0] += m
    books.volume[0] += z2 / (1.0 + z2)
    return True


class SobaFamily(BanditFeedback, abstract=True):
    """What both SOBAs share: greedy predictions mixed with uniform exploration at a rate, and the squared hinge."""

    rate: Rate = AdaptiveRate()
    a: Positive = 1.0

    reference = "Beygelzimer, Orabona, Zhang: Efficient online bandit multiclass learning with O~(sqrt T) regret (2017)"

    @property
    def has_gamma(self) -> bool:
        return True

    def with_gamma(self, gamma: float) -> Self:
        """The same learner, exploring at a fixed rate."""
        return self.replace(rate=FixedRate(gamma))

    new_class = "weights 0 and the first precision; exploration and the adaptive rate use the new K; M and Q stay"

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        rate = self.rate.rate_in_round(out.size, state.books.volume[0], state.books.rounds[0] + 1)
        greedy = argmax(scores)
        explore_uniformly(greedy, rate, out)
        return Decision(greedy, rate)

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        state.books.rounds[0] += 1

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        short = max(0.0, 1.0 - margin(scores, y))
        return short * short

    def tuned(self, tuning: str, problem: Problem) -> Self:
        if tuning == "theory":
            return self.replace(rate=AdaptiveRate())
        return self.with_gamma(min(0.5, problem.horizon() ** -0.5))


class SobaDiag(SobaFamily):
    """SOBAdiag, the diagonal version of SOBA (Beygelzimer, Orabona, Zhang 2017), for bandit feedback.

    It plays ``i ~ p = (1-g) e_yhat + g/K``, with g from `rate`: a :class:`FixedRate`, or an :class:`AdaptiveRate`,
    ``g_t = min(1, sqrt(K (1 + Q)/t))``. Only when the action was right, ``i = y``: with r the best class other than y,
    ``delta = s_r - s_y``, ``z2 = (1/p_y) sum_j x_j^2 (1/A_rj + 1/A_yj)`` and ``m = (delta^2 + 2 delta) / (p_y (1 +
    z2))`` it learns if ``yhat != y``, or if ``M + m >= 0``; then ``M += m``, ``Q += z2/(1+z2)``, ``theta_y += x/p_y``,
    ``theta_r -= x/p_y``, ``A_y, A_r += x^2/p_y`` and ``W = theta/A``, entry by entry; ``A = a`` at first.

    So M is never negative, which is what the bound of the full version needs (see :class:`Soba`). Rounds are counted
    when an action is drawn, whether feedback comes or not; late feedback has the delta of prediction time and the A of
    today. Only whether the action was right is used, also with two classes. The surrogate loss is the squared hinge
    ``max(0, 1 - m(y))^2``, of the family in which SOBA is bounded the one whose regularised minimum W follows. A round
    costs O(nnz(x) K).

    Tunings: ``theory`` is the adaptive rate, ``only-t`` the fixed ``min(1/2, T^(-1/2))``.

    >>> from gappletron import play
    >>> play(SobaDiag(), "synthetic:K=3,d=40,noise=0,T=500", "bandit")[0].rounds
    500
    >>> SobaDiag().with_gamma(0.1)
    SobaDiag(rate=FixedRate(gamma=0.1), a=1.0)
    """

    def declare(self) -> Layout:
        """``W = theta/A`` entry by entry, theta (`sums`), A (`precision`), and the books."""
        return {
            "weights": Field("features", "classes"),
            "sums": Field("features", "classes"),
            "precision": Field("features", "classes", fill=self.a, above=0),
            "books": declare_books(),
        }

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        y = played.action
        if played.label != y:
            return
        r = rival(played.scores, y)
        weight = 1.0 / action_probability(played)
        z2 = 0.0
        for p in range(x.start, x.stop):
            j = x.indices[p]
            z2 += x.values[p] * x.values[p] * (1.0 / state.precision[j, r] + 1.0 / state.precision[j, y])
        z2 *= weight
        if accept_round(state.books, played, r, z2, 1.0):
            for p in range(x.start, x.stop):
                j = x.indices[p]
                push = weight * x.values[p]
                state.sums[j, y] += push
                state.sums[j, r] -= push
                state.precision[j, y] += push * x.values[p]
                state.precision[j, r] += push * x.values[p]
                state.weights[j, y] = state.sums[j, y] / state.precision[j, y]
                state.weights[j, r] = state.sums[j, r] / state.precision[j, r]


class Soba(SobaFamily):
    """SOBA (Beygelzimer, Orabona, Zhang 2017) with the full matrix, for bandit feedback and small K d.

    As :class:`SobaDiag`, but with ``z = (e_y - e_r) (x) x`` the matrix is ``A += z z^T / p_y``, of size Kd x Kd and at
    first ``a I``, with ``z2 = <z, A^-1 z> / p_y`` (before), ``theta += z/p_y`` and ``W = A^-1 theta``. The inverse is
    kept, and with ``u = A^-1 z`` (before) an update is two rank-one steps: ``W += u (1 - <z, W>) / (p_y (1 + z2))`` and
    ``A^-1 -= u u^T / (p_y (1 + z2))``.

    The rule by which rounds are skipped: over the updates, ``<theta, W> = sum (1/p_y) z2/(1+z2) - M``, and so for every
    U ``sum (1/p_y) (1 - (1 - <U, z>)^2) <= a ||U||^2 + sum (1/p_y) z2/(1+z2)``, because M >= 0.

    It takes 8 (K d)^2 bytes and O((K d)^2) an update: meant for K d up to a thousand or two, and for checking the
    diagonal one. A matrix that would not fit in memory is refused.

    Tunings: as SobaDiag's.

    >>> from gappletron import play
    >>> play(Soba(), "synthetic:K=3,d=40,noise=0,T=500", "bandit")[0].rounds
    500
    """

    def declare(self) -> Layout:
        """``W = A^-1 theta``, A^-1, and the books."""
        return {**declare_inverse(1.0 / self.a), "books": declare_books()}

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        y = played.action
        if played.label != y:
            return
        r = rival(played.scores, y)
        hinge_direction(y, r, -1.0, state.direction)
        weight = 1.0 / action_probability(played)
        part = shorten(x, state.direction, weight, 1.0 / self.a)
        quadratic = solve(state.inverse, x, state.direction, state.solution)
        z2 = weight * quadratic
        step = weight / (1.0 + z2)
        miss = 1.0 - inner(state.weights, x, state.direction)
        is_possible = is_sound(state, x, state.direction, quadratic, 1.0 / self.a, step, miss)
        if is_possible and accept_round(state.books, played, r, z2, part) and x.stop > x.start:
            take_step(state, step * miss, step)


LEARNERS: dict[str, Learner] = {
    "banditron": Banditron(),
    "banditron-iw": BanditronIW(),
    "pnewtron": PNewtron(),
    "newtron": Newtron(),
    "soba-diag": SobaDiag(),
    "soba": Soba(),
}
