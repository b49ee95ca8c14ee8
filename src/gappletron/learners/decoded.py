"""A learner whose bound has no K: logistic regression in base 2 with randomized decoding (docs, page Decoding)."""

import math
from typing import Any, Self

from gappletron.kernel.numerics import Row
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.decoding import Decoding, decoding_rate
from gappletron.learners.gappletron import WithLoss
from gappletron.learners.learner import Learner, Problem
from gappletron.learners.losses import LogisticBase2
from gappletron.learners.optimizers import FixedOGD

# b = max_s 2 (1-s)^2 / (-ln s ln 2), rounded up: ||grad S||^2 <= b ||x||^2 S for the logistic loss S in base 2.
CURVATURE = 1.1751166


class DecodedLogistic(WithLoss):
    """Logistic regression in base 2, decoded at random: on every graph its bound has rho, but not K.

    It follows the regularised leader, ``W_t = -eta_t sum_{s<t} v_s g_s`` with ``eta_t = rate min(1/2, gamma /
    sqrt(max(n_t, horizon)))``: the scores are those of gradient descent with the fixed `rate`, times the rate of
    :class:`gappletron.Decoding`; `weights` are those of the gradient descent. With ``rate <= 1/(b rho X^2)``, b =
    1.1752, and for all (U, T),

        E[mistakes] <= sum S_t(U) + ||U||^2 / (2 eta_T) + sum gamma_t.

    The tuning "theory" knows T and B, a bound on ||U||, and has ``sum S_t(U) + 1.534 B X sqrt(rho T)``; "any-time" does
    not know T, and has 2.169 in place of 1.534; "moving" is for comparators that move in the ball of radius B. With
    full information each has ``sum S_t(U) + .588 ||U||^2 X^2``, for every T and U ("moving": the same with ``B^2 + 2 B
    P`` for a path of length P). "only-t" is "theory" with gamma = 1. The docs, page Decoding, have the proofs.

    >>> DecodedLogistic().name, DecodedLogistic().exploration
    ('decoded-logistic', Decoding(gamma=1.0, horizon=0.0))
    """

    loss: LogisticBase2 = LogisticBase2()
    optimizer: FixedOGD = FixedOGD(0.85)
    exploration: Decoding = Decoding()

    setting = "any graph"
    reference = "ours; the decoding is that of Sakaue, Bao, Tsuchiya, Oki: Online structured prediction with \
Fenchel-Young losses and improved surrogate regret for online multiclass classification with logistic loss (2024)"
    tunings = ("theory", "any-time", "moving", "only-t")
    new_class = "weights 0; gamma and n_t stay"

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        self.optimizer.scores(state.optimizer, x, out)
        pace = decoding_rate(self.exploration.gamma, self.exploration.horizon, state.exploration.blind[0])
        for k in range(out.size):
            out[k] *= pace

    def rate_after(self, blind: int) -> float:
        """eta_t after so many rounds whose y* does not reveal."""
        return self.optimizer.rate * self.pace_after(blind)

    def pace_after(self, blind: int) -> float:
        """gamma_t after so many rounds whose y* does not reveal."""
        return float(decoding_rate(self.exploration.gamma, self.exploration.horizon, blind))

    def tuned(self, tuning: str, problem: Problem) -> Self:
        X, rho = problem.norm(), problem.graph.rho
        B = 1.0 if problem.radius is None else problem.radius
        if problem.graph.is_full_information:
            # Every label is seen, so eta = 1/(b X^2) is allowed; half of the rate is eta.
            rate, gamma, horizon = 2.0 / (CURVATURE * X * X), 1.0, 0.0
        else:
            rate = 1.0 / (CURVATURE * rho * X * X)
            gamma = B * X * math.sqrt(CURVATURE * rho) / 2.0
            horizon = 0.0
            if tuning != "any-time":
                gamma, horizon = gamma * math.sqrt(2.0), float(problem.horizon())
            if tuning == "only-t":
                gamma = 1.0
        pace = float(decoding_rate(gamma, horizon, 0))
        radius = B / pace if tuning == "moving" else math.inf
        return self.replace(optimizer=FixedOGD(rate, radius), exploration=Decoding(gamma, horizon))


LEARNERS: dict[str, Learner] = {DecodedLogistic().name: DecodedLogistic()}
