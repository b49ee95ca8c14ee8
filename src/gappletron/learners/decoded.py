"""A learner whose bound has no K: logistic regression in base 2 with randomized decoding (docs, page Decoding)."""

import math
from typing import Any, Self

from gappletron.kernel.numerics import Row
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.decoding import Decoding, decoding_rate
from gappletron.learners.gappletron import WithLoss
from gappletron.learners.learner import Learner, Problem
from gappletron.learners.losses import CURVATURE, LogisticBase2
from gappletron.learners.optimizers import FixedOGD

# What a single run costs more than the mean (docs, page Decoding): so many times ln(2/delta), and a factor of the
# exploration. The steps are half as large.
DEVIATION, EXPLORED = 5.0, 1.15


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
    P`` for a path of length P). "high-probability" is for single runs, and "only-t" is "theory" with gamma = 1. The
    docs, page Decoding, have the proofs.

    >>> DecodedLogistic().name, DecodedLogistic().exploration
    ('decoded-logistic', Decoding(gamma=1.0, horizon=0.0))
    """

    loss: LogisticBase2 = LogisticBase2()
    optimizer: FixedOGD = FixedOGD(0.85)
    exploration: Decoding = Decoding()

    setting = "any graph"
    reference = "ours; the decoding is that of Sakaue, Bao, Tsuchiya, Oki: Online structured prediction with \
Fenchel-Young losses and improved surrogate regret for online multiclass classification with logistic loss (2024)"
    tunings = ("theory", "any-time", "moving", "high-probability", "only-t")
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
        is_single = tuning == "high-probability"
        rate, gamma, horizon = self.largest_rate(problem, is_single), 1.0, 0.0
        if not problem.graph.is_full_information:
            horizon = 0.0 if tuning == "any-time" else float(problem.horizon())
            match tuning:
                case "any-time":
                    gamma = B * X * math.sqrt(CURVATURE * rho) / 2.0
                case "theory" | "moving":
                    gamma = B * X * math.sqrt(CURVATURE * rho / 2.0)
                case "high-probability":
                    deviation = DEVIATION * self.largest_loss(problem, B) * math.log(2.0 / problem.delta)
                    gamma = math.sqrt(rho * (CURVATURE * X * X * B * B + deviation) / EXPLORED)
        pace = float(decoding_rate(gamma, horizon, 0))
        radius = B / pace if tuning == "moving" or is_single else math.inf
        return self.replace(optimizer=FixedOGD(rate, radius), exploration=Decoding(gamma, horizon))

    def largest_rate(self, problem: Problem, is_single: bool = False) -> float:
        """The largest `rate` that the theorem allows; that about single runs allows half of it.

        eta_t is at most half of it. With full information every label is seen, else with probability gamma_t/rho.
        """
        seen = 2.0 if problem.graph.is_full_information else 1.0 / problem.graph.rho
        return (0.5 if is_single else 1.0) * seen / (CURVATURE * problem.norm() ** 2)

    def largest_loss(self, problem: Problem, radius: float) -> float:
        """The largest loss of weights in the ball of this radius: ``log_2 K + sqrt 2 B X / ln 2``."""
        K = problem.graph.n_classes
        return self.loss.at_zero(K) + radius * self.loss.gradient_bound(K, problem.norm())


LEARNERS: dict[str, Learner] = {DecodedLogistic().name: DecodedLogistic()}
