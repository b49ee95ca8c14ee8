"""SOBA of Beygelzimer, Orabona and Zhang (2017), for bandit feedback: with a diagonal matrix and with the full one."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import Row, argmax, hinge_direction, margin, rival
from gappletron.kernel.pieces import Piece, Positive, Share, compiled, helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.full_matrix import inner, is_sound, scaled_identity, shorten, solve, take_step
from gappletron.learners.learner import Decision, Learner, Problem, Round, action_probability
from gappletron.learners.linear import BanditFeedback, explore_uniformly

# ------------------------------------------------------------------------------------------------- the exploration rate


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


# --------------------------------------------------------------------------------------------------------- the learners


def books() -> Layout:
    """The sums over all updates, M of m (`credit`) and Q of z2/(1+z2) (`volume`), and the number of rounds."""
    return {"credit": Field(least=0), "volume": Field(least=0), "rounds": Field(dtype="int64", least=0)}


@helper
def accepted(books: Any, played: Round, r: int, z2: float, part: float) -> bool:
    """Whether a round whose action was right is learned from, and if so, its entry in the books; `part` is the factor
    by which x was shorten."""
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

    rate: Rate
    a: Positive

    reference = "Beygelzimer, Orabona, Zhang: Efficient online bandit multiclass learning with O~(sqrt T) regret (2017)"

    @property
    def has_gamma(self) -> bool:
        return True

    def with_gamma(self, gamma: float) -> SobaFamily:
        """The same learner, exploring at a fixed rate."""
        return self.replace(rate=FixedRate(gamma))

    knows_classes = True
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

    def tuned(self, tuning: str, problem: Problem) -> SobaFamily:
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

    rate: Rate = AdaptiveRate()
    a: Positive = 1.0

    def declare(self) -> Layout:
        """``W = theta/A`` entry by entry, theta (`sums`), A (`precision`), and the books."""
        return {
            "weights": Field("features", "classes"),
            "sums": Field("features", "classes"),
            "precision": Field("features", "classes", fill=self.a, above=0),
            "books": books(),
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
        if accepted(state.books, played, r, z2, 1.0):
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

    rate: Rate = AdaptiveRate()
    a: Positive = 1.0

    def declare(self) -> Layout:
        """``W = A^-1 theta``, A^-1, and the books."""
        return {
            "weights": Field("features", "classes"),
            "inverse": scaled_identity(1.0 / self.a),
            "books": books(),
            "solution": Scratch("features", "classes"),
            "direction": Scratch("classes"),
        }

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
        if is_possible and accepted(state.books, played, r, z2, part) and x.stop > x.start:
            take_step(state, step * miss, step)


LEARNERS: dict[str, Learner] = {"soba-diag": SobaDiag(), "soba": Soba()}
