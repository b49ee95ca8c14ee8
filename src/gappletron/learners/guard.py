"""The guard: it plays on top of any scorer, and its expected cost has a bound whatever the scorer does.

Let b_t be scores that were made from x_t and the past in any way, cut to [-1, 1]. The guard plays and learns ::

    scores    s_t = G_t x_t + a_t b_t,  theta = (G, a), which begins at (0, 1): at first it plays b
    loss      l_t(theta, y): the smooth hinge of s_t; the greedy class is y* = argmax s_t
    learning  theta_t = theta_1 - eta_t sum_{s<t} v_s g_s,  v_s = 1[y_s seen] / P_s(y_s)
    playing   a distribution p_t with V_t(p_t) <= a_t: gamma_t, or more while a change is suspected, where
              V_t(p) = max_y { 1 - p_y - l_t(theta_t, y) + eta_t/2 ||g_y||^2 / P_p(y) }

**Theorem** (docs, page Guard, with the proof). For every graph, every scorer, every sequence of labels that are fixed
before the round's draw, and every (U, a)::

    E[mistakes] <= E[sum_t l_t((U, a), y_t)] + E[||(U, a - 1)||^2 / (2 eta_T)] + E[sum_t max(0, V_t(p_t))]

G_t x_t is taken at x_t cut to twice the root mean square of the lengths so far, so that one long row does not make all
steps small. With costs, those of the right class are subtracted, and the loss and the gradient of label y are
multiplied by c_y, the largest cost that is left there.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.graphs.sums import multiply
from gappletron.kernel.numerics import Row, argmax, dot, is_followed, margin, rival, sharpened_softmax
from gappletron.kernel.pieces import NotNegative, Positive, Share, compiled, helper, seldom
from gappletron.kernel.state import Field, Layout, Scratch, freeze
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.minimax import Game, make_game
from gappletron.learners.exploration.rules import LEAST_COST, Exploration, InverseGap, Outlook
from gappletron.learners.exploration.secure import secure, value
from gappletron.learners.learner import Decision, Learner, Round, exchange, propensity
from gappletron.learners.losses import smooth_hinge, smooth_slope
from gappletron.learners.optimizers import fill_all
from gappletron.learners.run_bound import DISTRUST, REASONS, Restart, RunBound
from gappletron.learners.score_parts import COSTS, GIVEN, GUARD, LIMITS, ScoreParts, not_linear, score_entries
from gappletron.learners.scorers import NONE, RESET, RETURN, Scorer, Tracking
from gappletron.learners.sharpness import (
    SHARPNESS,
    average_softmax,
    begin_comparison,
    best_sharpness,
    compare_sharpness,
)

# What the state keeps of the guard's sums: of max(0, V_t), of the scorer's losses and of the guard's own (each label
# that was seen weighted by 1 / P), the variance of the first, of 1 / (2 eta) at the end of each phase that began at
# (0, 1) and of each that began at (0, 0), the number of labels seen, the longest delay of feedback, and the rounds in
# which a limit on the exploration hid a label.
VALUES, SCORER, SQUARES, OWN, FROM_SCORER, FROM_NOTHING, SEEN, LATEST, UNCOVERED = range(9)

# What is remembered of restarts: how many there were, and the rounds of the last ones with their reasons.
REMEMBERED = 16

# A scorer that does not learn fails where the sum of its losses above the first number (knowing nothing has a loss of
# 1) is at least so much, and so many times the root of the sum of their squares. It does well again where that is true
# of the negative sum, and it also errs less often than the guard's own part of the scores. One that learns fails where
# that is true of its errors above the second number times those of guessing, and does well again where it is true of
# the negative sum. The sum that is needed doubles with every phase, so that there are few.
USELESS_LOSS, USELESS_ERROR, LEAST_SUM, LEAST_SCORE = 0.97, 0.9, 5.0, 4.0

# No row counts as longer than so many times the root mean square of the lengths so far.
LONGEST = 2.0

LEAST_SIZE = 1e-12  # in place of 0, where neither the row nor the scores say anything

LEAST_VALUE = 1e-12  # V_t / C up to this is 0 but for rounding, as in full information: n does not count it

# gamma_t and eta_t of a round, what its row is multiplied by, a_t (the largest V_t / C that may be played), the largest
# size so far, and how large the steps of the scorer's weight are, as a part of those of the other weights.
GAMMA, ETA, CUT, ALLOWED, SIZE, TRUST = range(6)

# c in a phase of large steps that begins with the scorer, and in one that begins without it; divided by sqrt(rho).
BOLD, ALONE = 2.0, 3.0

FORGETTING = 0.998  # what the comparison of the values of b counts for after one more round that it follows


class GuardTable(NamedTuple):
    """What the guard derives from a graph: the table of its exploration rule, the game of costs, the largest cost of
    all labels, whether every action reveals every label, and whether each action reveals anything.
    """

    rule: Any
    game: Game
    largest: float
    is_full: bool
    shows: NDArray[np.bool_]


class Guarded(Learner):
    """Any scorer with a bound on the expected cost. With its default scorer this is the default learner, ``auto``,
    which follows a world that changes.

    The exploration rule proposes a distribution, and the guard changes it as little as is needed for the theorem. Its
    steps are small (`kappa`) while the scorer does well. When the losses of the scorer are clearly not below those of
    knowing nothing, it begins anew with the largest steps; and with small ones when the scorer does well again. The
    bounds of these phases add up, and there are at most about the logarithm of the number of rounds.

    :param scorer: what makes the scores.
    :param exploration: the rule that proposes a distribution.
    :param kappa: the size of the steps, relative to the largest.
    :param c: gamma_t is ``min(1/2, c / sqrt(n))``, where n counts the rounds with V_t > 0.
    :param delay: how many rounds feedback may be late for the theorem to hold.

    >>> from gappletron import play
    >>> Guarded().name
    'auto'
    >>> play(Guarded(), "synthetic:K=3,d=40,noise=0,T=2000", "label-efficient")[0].error_rate < 0.2
    True
    """

    scorer: Scorer = Tracking()
    exploration: Exploration = InverseGap(floor=0.1)
    kappa: Share = 0.01
    c: Positive = 1.0
    delay: NotNegative = 0.0

    setting = "any graph, any costs, a world that changes"
    reference = "ours; the loss, and the theorem's form, are those of van der Hoeven, Fusco, Cesa-Bianchi (2021)"
    new_class = "weights 0, as uncertain as at the start; exploration uses the new K"
    default_normalize = "columns"
    default_bias = True
    takes_scores = True

    @property
    def can_reset(self) -> bool:
        return type(self.scorer).restart_now is not Scorer.restart_now

    @property
    def uses_costs(self) -> bool:
        return True

    @property
    def name(self) -> str:
        """``auto`` with the scorer of the default, whatever its numbers are; else ``guarded``."""
        return "auto" if type(self.scorer) is Tracking else "guarded"

    def check(self) -> None:
        if self.exploration.needs_loss:
            raise UserError(f"{self.exploration!r} needs a learner with a loss: use it with Gappletron (gapsmh)")
        if self.kappa == 0.0:
            raise UserError("kappa must be above 0: with steps of 0 the guard could not learn")

    def declare(self) -> Layout:
        return {
            "scorer": self.scorer.declare(),
            "exploration": self.exploration.declare(),
            "gradients": Field("features", "classes"),
            "slopes": Field(2),
            "size": Field(least=0),
            "lengths": Field(2, least=0),
            "rho": Field(least=0),
            "blind": Field(least=0),
            "paid": Field(least=0),
            "phase": Field(least=0),
            "evidence": Field(2, least=0),
            "errors": Field(1),
            "share": Field(fill=1.0, least=0),
            "sums": Field(9, least=0),
            "rounds": Field(least=0),
            "restarts": Field(least=0),
            "restarted": Field(2, REMEMBERED, least=0),
            "fit": Field(len(SHARPNESS), least=0),
            "learned": Field(least=0),
            "base": Scratch("classes"),
            "adjusted": Scratch("classes"),
            "given": Scratch("classes"),
            "estimates": Scratch("classes"),
            "losses": Scratch("classes"),
            "prices": Scratch("classes"),
            "rates": Scratch(6),
            "safe": Scratch("actions"),
            "candidate": Scratch("actions"),
            "expected": Scratch("actions"),
            "room": Scratch(2, "classes"),
        }

    def table(self, graph: FeedbackGraph) -> GuardTable:
        costs = graph.costs
        excess = costs - costs[np.arange(graph.n_classes), np.arange(graph.n_classes)]
        game = make_game(graph.visible, np.ascontiguousarray(excess))
        freeze(game)
        rule = freeze(self.exploration.table(graph))
        shows = np.asarray(graph.visible.any(axis=1))
        # Where all actions cost the same, so that nothing can be learned, any number above 0 does.
        return GuardTable(rule, game, float(game.top.max()) or 1.0, bool(graph.visible.all()), shows)

    # ----------------------------------------------------------------------------------------------------- the decision

    def keeps(self, classes: int) -> int:
        """Whether scores came with x, these scores, those of the scorer that the loss was made from, and what the row
        was multiplied by.
        """
        return 2 + 2 * classes

    def take_row(self, state: Any, plan: Plan, x: Row, kept: Floats) -> None:
        """Take in the scores that came with x, and let the scorer judge it."""
        self.fill_scores(state, x, kept)
        if plan.graph.has_costs:
            sharpness = best_sharpness(state.fit)
            sharpened_softmax(state.base, sharpness, state.estimates)
            multiply(plan.graph.cost_sums, state.estimates, state.expected)
            adjust_to_costs(state.expected, sharpness, state.adjusted)
        else:
            for k in range(state.base.size):
                state.adjusted[k] = min(1.0, max(-1.0, state.base[k]))
        self.set_rates(state, plan, x)

    @compiled
    def fill_scores(self, state: Any, x: Row, kept: Floats) -> None:
        """Fill in the scores that came with x, which stand in front of what the round keeps, and those of the scorer.

        A scorer that only passes them on has their weight: they get none of their own.
        """
        is_given = kept[0] > 0.0
        for k in range(state.given.size):
            state.given[k] = kept[1 + k] if is_given else 0.0
        self.scorer.judge(state.scorer, x, state.given, is_given, state.base)
        if self.scorer.passes_on():
            for k in range(state.given.size):
                state.given[k] = 0.0

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        eta = state.rates[ETA]
        a, own = weigh_scores(state)
        shift = eta * state.rates[CUT]
        dot(state.gradients, x, out)
        for k in range(out.size):
            out[k] = a * state.adjusted[k] - own * state.given[k] - shift * out[k]

    def split_scores(self, state: Any, plan: Plan, x: Row, kept: Floats) -> ScoreParts:
        """The scorer's, times a_t; what its scores change by where they are cut, or adjusted to costs; and what the
        guard has learned itself.
        """
        has_given, K = kept[0] > 0.0, state.base.size
        eta, given = state.rates[ETA], kept[1 : 1 + K]
        a, own = weigh_scores(state)
        base, change = state.base.copy(), state.adjusted - state.base
        learned = -own * state.given
        part = self.scorer.split_scores(state.scorer, x, given * has_given, has_given)
        others = {name: a * values for name, values in part.others.items()}
        if not np.allclose(part.total(), base, rtol=1e-9, atol=1e-9):
            raise not_linear(repr(self.scorer))
        reason = COSTS if plan.graph.has_costs else LIMITS
        others[reason] = others.get(reason, 0.0) + a * change
        if has_given:
            others[GIVEN] = others.get(GIVEN, 0.0) + learned
        else:
            others.pop(GIVEN, None)
        gradients = score_entries(functools.partial(dot, state.gradients), x, K).sum(axis=0)
        others[GUARD] = -eta * state.rates[CUT] * gradients
        return ScoreParts(a * part.entries, others)

    @compiled
    def set_rates(self, state: Any, plan: Plan, x: Row) -> None:
        """Write gamma_t and eta_t of the next round, neither of which ever grows within a phase, what its row x is
        multiplied by, and a_t, which V_t may be.

        a_t is gamma_t, so that the sum of V is at most ``2 c sqrt(n)``. What earlier rounds have left of that may be
        spent while the scorer suspects a change: the sum keeps its bound.
        """
        kappa, c = self.find_steps(state, max(state.rho[0], plan.graph.dominating.size))
        gamma = find_gamma(c, state.blind[0])
        most = LONGEST * LONGEST * state.lengths[0]
        is_long = x.squared * state.lengths[1] > most > 0.0
        state.rates[CUT] = math.sqrt(most / (x.squared * state.lengths[1])) if is_long else 1.0
        state.rates[GAMMA] = gamma
        state.rates[ALLOWED] = gamma
        if self.scorer.suspicion(state.scorer) > 0.0:
            left = 2.0 * c * math.sqrt(1.0 + state.blind[0]) - state.paid[0]
            state.rates[ALLOWED] = max(gamma, min(1.0, left))
        state.rates[TRUST] = find_trust(state)
        state.rates[SIZE] = max(state.size[0], measure_size(state, plan, x))
        state.rates[ETA] = kappa * gamma / state.rates[SIZE]

    @compiled
    def find_steps(self, state: Any, rho: float) -> tuple[float, float]:
        """Return the size of the steps relative to the largest, and c, for dominating sets of this size."""
        kappa, c = min(self.kappa, 1.0 / rho), self.c
        if is_bold(state.phase[0]):
            kappa, c = 1.0 / rho, max(c, (BOLD if state.share[0] > 0.0 else ALONE) * math.sqrt(rho))
        if self.delay > 0.0:
            kappa = min(kappa, 0.5 / rho, 0.25 / self.delay)
        return kappa, c

    @compiled
    def find_rate(self, state: Any) -> float:
        """Return the least eta of this phase so far; 0 before the first round."""
        if state.size[0] == 0.0:
            return 0.0
        kappa, c = self.find_steps(state, state.rho[0])
        return kappa * find_gamma(c, state.blind[0]) / state.size[0]

    def label_probabilities(self, state: Any, scores: Floats, out: Floats) -> None:
        """``softmax(b s)`` of the scorer's scores s, averaged over the values of b: the more likely one made what was
        shown lately, the more it counts.
        """
        average_softmax(state.fit, state.base, state.estimates, out)

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        greedy = argmax(scores)
        sharpness = 1.0
        if plan.graph.has_costs:  # then the estimates are those that the scores were adjusted by
            sharpness = best_sharpness(state.fit)
        else:
            for k in range(scores.size):
                state.estimates[k] = 0.5 + 0.5 * min(1.0, max(-1.0, scores[k]))
        recency, suspicion = self.scorer.recency(state.scorer), self.scorer.suspicion(state.scorer)
        outlook = Outlook(self.scorer, state.scorer, x, greedy, recency, suspicion, self.scorer.changes(state.scorer))
        own = Plan(plan.graph, plan.table.rule)
        self.exploration.appraise(state.exploration, own, outlook, state.estimates, sharpness)
        r = rival(state.estimates, greedy)
        gap = min(1.0, max(0.0, 1.0 - (state.estimates[greedy] - state.estimates[r])))
        self.exploration.explore(state.exploration, own, greedy, gap, out)
        price_labels(state, plan, x, scores, greedy, self.delay)
        secure(state, plan, greedy, self.delay > 0.0, out)
        return Decision(greedy, 1.0 - out[greedy])

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        self.exploration.count_round(state.exploration, Plan(plan.graph, plan.table.rule), greedy)
        state.rounds[0] += 1.0

    def take_distribution(self, state: Any, plan: Plan, x: Row, probabilities: Floats, kept: Floats) -> None:
        """Count V_t of the distribution that is played, which limits may have changed; keep the scorer's scores."""
        V = value(plan.table.game, state.losses, state.prices, probabilities, state.room)
        if LEAST_VALUE * plan.table.largest < V:
            state.blind[0] += 1.0
            if math.inf > V:
                state.sums[VALUES] += V
                state.paid[0] += V / plan.table.largest
            else:
                state.sums[UNCOVERED] += 1.0
        state.size[0] = state.rates[SIZE]
        state.lengths[0] += cut_length(state, x)
        state.lengths[1] += 1.0
        state.rho[0] = max(state.rho[0], plan.graph.dominating.size)
        K = state.adjusted.size
        for k in range(K):
            kept[1 + K + k] = state.adjusted[k]
        kept[1 + 2 * K] = state.rates[CUT]

    # ----------------------------------------------------------------------------------------------------- the feedback

    def recall(self, state: Any, x: Row, played: Round) -> None:
        # The scorer learns late feedback at its scores of today, as the estimators do; the guard learns at those of
        # prediction time, which the round has kept.
        self.fill_scores(state, x, played.kept)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        own = Plan(plan.graph, plan.table.rule)
        self.exploration.count_feedback(state.exploration, own, played.action)
        if not plan.table.shows[played.action]:
            return
        state.sums[LATEST] = max(state.sums[LATEST], played.delay)
        K = played.scores.size
        adjusted = played.kept[1 + K : 1 + 2 * K]
        best = argmax(adjusted)
        is_known = plan.graph.visible[played.action, best]
        if played.label >= 0 or is_known:
            # Where the best class is not the label, which stays hidden, the loss is at least that of the next class.
            second = rival(adjusted, best)
            y = played.label if played.label >= 0 else second
            loss = smooth_hinge(y == best, adjusted[y] - adjusted[second if y == best else best])
            mistake = 1.0 if y != best else 0.0
            weight, excess = 0.0, 0.0
            if is_known:
                weight = plan.table.game.top[y] / (plan.table.largest * propensity(plan, played, best))
                excess = mistake - USELESS_ERROR * (1.0 - 1.0 / K)
                state.errors[0] += excess
            if not self.scorer.learns():
                excess = loss - USELESS_LOSS
                if is_bold(state.phase[0]):
                    weight = 0.0
                    if played.label >= 0:
                        weight = plan.table.game.top[y] / (plan.table.largest * propensity(plan, played, y))
                        excess = max(excess, mistake - self.find_own_mistake(state, adjusted, played))
            if played.label >= 0:
                self.correct(state, plan, x, played, loss)
            if weight > 0.0:
                self.doubt_scorer(state, weight * excess)
        if state.learned[0] == 0.0:
            begin_comparison(state.fit, K)
        state.learned[0] += 1.0
        if plan.graph.has_costs or is_followed(state.learned[0]):
            for b in range(state.fit.size):
                state.fit[b] *= FORGETTING
            compare_sharpness(state.fit, plan, state.base, played, 1.0, state.estimates)
        reason = self.scorer.absorb(state.scorer, own, x, played)
        if reason != NONE:
            self.note_restart(state, reason)

    @compiled
    def note_restart(self, state: Any, reason: int) -> None:
        """Remember when and why the scorer began anew. Unless it went back to what it knew before, explore anew and
        compare the values of b anew.
        """
        if reason != RETURN:
            self.exploration.restart(state.exploration)
            for b in range(state.fit.size):
                state.fit[b] = 0.0
            state.learned[0] = 0.0
        place = int(state.restarts[0]) % REMEMBERED
        state.restarted[0, place] = state.rounds[0]
        state.restarted[1, place] = reason
        state.restarts[0] += 1.0

    @compiled
    def find_own_mistake(self, state: Any, adjusted: Floats, played: Round) -> float:
        """Return 1 where the guard's own part of the scores, G x, has another largest class than the label, else 0."""
        a, best = state.share[0] - self.find_rate(state) * find_trust(state) * state.slopes[0], 0
        for k in range(1, played.scores.size):
            if played.scores[k] - a * adjusted[k] > played.scores[best] - a * adjusted[best]:
                best = k
        return 1.0 if best != played.label else 0.0

    @compiled
    def correct(self, state: Any, plan: Plan, x: Row, played: Round, loss: float) -> None:
        """Learn the guard's own weights from a label that was seen, where the scorer's loss is given."""
        y, scores, K = played.label, played.scores, played.scores.size
        P = propensity(plan, played, y)
        weight = plan.table.game.top[y] / P
        top = argmax(scores)
        other = rival(scores, top) if y == top else top
        m = scores[y] - scores[other]
        slope = smooth_slope(y == top, m)
        if slope > 0.0:
            adjusted = played.kept[1 + K : 1 + 2 * K]
            exchange(state.gradients, x, other, y, weight * slope * played.kept[1 + 2 * K])
            state.slopes[0] += weight * slope * (adjusted[other] - adjusted[y])
            if played.kept[0] > 0.0 and not self.scorer.passes_on():
                state.slopes[1] += weight * slope * (played.kept[1 + other] - played.kept[1 + y])
        state.sums[SCORER] += weight * loss
        state.sums[SQUARES] += weight * weight * loss * loss * max(0.0, 1.0 - P)
        state.sums[OWN] += weight * smooth_hinge(y == top, m)
        state.sums[SEEN] += 1.0

    @compiled
    def doubt_scorer(self, state: Any, excess: float) -> None:
        """Ask whether the scorer fails, or does well again; then begin a phase with the largest steps, or with small
        ones.

        `excess` is by how much it does worse than it should, divided by the probability of being shown.
        """
        if is_bold(state.phase[0]):
            excess = -excess
        state.evidence[1] += excess * excess
        state.evidence[0] = max(0.0, state.evidence[0] + excess)
        if state.evidence[0] == 0.0:
            state.evidence[1] = 0.0
        elif state.evidence[0] > max(
            math.ldexp(LEAST_SUM, int(state.phase[0])), LEAST_SCORE * math.sqrt(state.evidence[1])
        ):
            begin_phase(self, state)

    def reset(self, state: Any) -> None:
        self.scorer.restart_now(state.scorer)
        self.note_restart(state, RESET)

    def bound(self, state: Any) -> RunBound:
        eta, sums = float(self.find_rate(state)), state.sums.tolist()
        present = 0.5 / eta if eta > 0.0 else 0.0
        return RunBound(
            rounds=int(state.rounds[0]),
            scorer_loss=sums[SCORER],
            scorer_error=math.sqrt(sums[SQUARES]),
            own_loss=sums[OWN],
            value_sum=sums[VALUES],
            distance=sums[FROM_SCORER] + present * state.share.item(),
            distance_from_nothing=sums[FROM_NOTHING] + present * (1.0 - state.share.item()),
            labels_seen=int(sums[SEEN]),
            phases=int(state.phase[0]) + 1,
            uncovered=int(sums[UNCOVERED]),
            latest=int(sums[LATEST]),
            delay=self.delay,
        )

    def count_restarts(self, state: Any) -> int:
        return int(state.restarts[0])

    def restarts(self, state: Any) -> tuple[Restart, ...]:
        count = self.count_restarts(state)
        places = [n % REMEMBERED for n in range(max(0, count - REMEMBERED), count)]
        return tuple(Restart(int(state.restarted[0, p]), REASONS[int(state.restarted[1, p])]) for p in places)

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        return smooth_hinge(y == argmax(scores), margin(scores, y))

    def weights(self, state: Any) -> Floats:
        """Those of the scorer; 0 for a scorer without any."""
        own = self.scorer.weights(state.scorer)
        return 0.0 * state.gradients if own is None else own


@seldom
def begin_phase(guard: Guarded, state: Any) -> None:
    """Forget the guard's own weights, and choose how the next phase begins: with the scorer, at (0, 1), or, where the
    scorer does not learn and is hardly better than guessing, without it, at (0, 0).

    A phase without a round, as there are where feedback is late, costs nothing.
    """
    eta = guard.find_rate(state)
    if eta > 0.0:
        state.sums[FROM_SCORER if state.share[0] > 0.0 else FROM_NOTHING] += 0.5 / eta
    is_left_out = state.errors[0] >= 0.0 and not (guard.scorer.learns() or is_bold(state.phase[0]))
    state.share[0] = 0.0 if is_left_out else 1.0
    state.errors[0] = 0.0
    state.size[0] = 0.0
    fill_all(state.gradients, 0.0)
    state.slopes[0] = 0.0
    state.slopes[1] = 0.0
    state.blind[0] = 0.0
    state.paid[0] = 0.0
    state.evidence[0] = 0.0
    state.evidence[1] = 0.0
    state.phase[0] += 1.0


@helper
def find_gamma(c: float, blind: float) -> float:
    """gamma_t after so many rounds with V > 0."""
    return min(0.5, c / math.sqrt(1.0 + blind))


@helper
def weigh_scores(state: Any) -> tuple[float, float]:
    """The weight of the scorer's scores in this round, and minus that of the scores that came with x."""
    eta = state.rates[ETA]
    return state.share[0] - eta * state.rates[TRUST] * state.slopes[0], eta * state.slopes[1]


@helper
def find_trust(state: Any) -> float:
    """How large the steps of the scorer's weight are: less in a phase that began without the scorer, so that scores
    which undo what was learned there soon have no say.
    """
    return 1.0 if state.share[0] > 0.0 else 1.0 / DISTRUST


@helper
def is_bold(phase: float) -> bool:
    """Whether the steps of a phase are the largest: in every other one, beginning with small steps."""
    return phase % 2.0 == 1.0


@helper
def cut_length(state: Any, x: Row) -> float:
    """||x||^2 of the row as the guard sees it."""
    return state.rates[CUT] * state.rates[CUT] * x.squared


@helper
def measure_size(state: Any, plan: Plan, x: Row) -> float:
    """What eta_t is divided by, if no row before was larger: ``C (4 ||x||^2 + 2 D^2)`` with the largest cost C and the
    largest difference D between the scores of two classes; the scores that came with x have a D of their own.
    """
    own, given = find_spread(state.adjusted), find_spread(state.given)
    spread = state.rates[TRUST] * own * own + given * given
    return plan.table.largest * max(LEAST_SIZE, 4.0 * cut_length(state, x) + 2.0 * spread)


@helper
def find_spread(scores: Floats) -> float:
    """The largest score minus the smallest."""
    low = high = scores[0]
    for k in range(1, scores.size):
        low, high = min(low, scores[k]), max(high, scores[k])
    return high - low


@helper
def adjust_to_costs(expected: Floats, sharpness: float, out: Floats) -> None:
    """Fill `out` with scores in [-1, 1] whose order is that of the expected costs under ``softmax(sharpness s)``, the
    cheapest class first. Without costs, and for two classes, their differences would be those of s.
    """
    worst_cost, best = 0.0, 0
    for k in range(out.size):
        worst_cost = max(worst_cost, expected[k])
        if expected[k] < expected[best]:
            best = k
    if worst_cost == 0.0:
        worst_cost = 1.0
    least = expected[best] / worst_cost + LEAST_COST
    for k in range(out.size):
        out[k] = max(-1.0, 1.0 - math.log((expected[k] / worst_cost + LEAST_COST) / least) / sharpness)


@helper
def price_labels(state: Any, plan: Plan, x: Row, scores: Floats, greedy: int, delay: float) -> None:
    """Fill the losses ``c_y l_y`` and the stabilities ``c_y^2 eta/2 ||g_y||^2`` of the labels.

    For feedback that is at most `delay` rounds late the losses are less by ``delay eta G ||g_y||``, with G the largest
    norm of a gradient.
    """
    r = rival(scores, greedy)
    eta, length = state.rates[ETA], cut_length(state, x)
    late = delay * eta * math.sqrt(2.0 * plan.table.largest * state.rates[SIZE]) if delay > 0.0 else 0.0
    for y in range(scores.size):
        c, other = plan.table.game.top[y], r if y == greedy else greedy
        m = scores[y] - scores[other]
        slope = smooth_slope(y == greedy, m)
        loss = smooth_hinge(y == greedy, m)
        b, g = state.adjusted[y] - state.adjusted[other], state.given[y] - state.given[other]
        squared = slope * slope * (2.0 * length + state.rates[TRUST] * b * b + g * g)
        state.losses[y] = c * loss
        if late > 0.0:
            state.losses[y] -= c * late * math.sqrt(squared)
        state.prices[y] = 0.5 * c * c * eta * squared


LEARNERS: dict[str, Learner] = {"auto": Guarded()}
