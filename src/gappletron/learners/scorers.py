"""Scorers: from a row, and what was revealed so far, to a score for every class.

:class:`gappletron.Guarded` plays on top of a scorer with a theorem that holds whatever the scorer does. So a scorer is
free to use what works: several learners of different memory, weights by their recent losses, restarts.

A scorer learns from all that a round reveals, without importance weights: after action i it is known of every class k
with ``A[i, k]`` whether it was the label. Which rounds reveal it depends on x and on the draw, not on the label.
"""

import functools
import math
from abc import abstractmethod
from typing import Any

import numpy as np

from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import Row, argmax, dot, rival, to_double
from gappletron.kernel.pieces import Piece, Positive, PositiveOrInfinite, compiled, helper, seldom
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Round
from gappletron.learners.optimizers import AdaGrad, ConfidenceWeighted, copy_all, exchange_all, fill_all
from gappletron.learners.score_parts import GIVEN as GIVEN_PART, LIMITS, ScoreParts, score_entries

# The members of a mixture: the optimizers with a long and a short memory, AdaGrad, and the scores that came with x.
SLOW, FAST, THIRD, GIVEN = range(4)

DECAY = 0.99  # what a member's loss counts for after one more round with feedback
SHARPNESS = 0.5  # members are weighed by exp(-SHARPNESS * loss)

# A change is looked for in the errors of the slow member, in so many bins of the gap between its two best classes.
BINS = 4
# The error rate of a bin begins as if it had seen so many rounds with the error rate of all bins, and that as if it had
# seen so many of guessing: luck in a few rounds is not a rate that has risen later.
SHARED, GUESSED = 8.0, 16.0
# No error rate counts as less than the first number. Where it is above the second, a round says nothing.
LEAST_ERROR, MOST_ERROR, MOST_CHANGED = 0.002, 0.75, 0.95

# A sum of log-likelihood ratios that reached this much before it fell back to 0 was a change too, though a small one:
# it counts for the floor under exploration, and its rounds say nothing of the error rate before.
NOTICED = 6.0

KEPT = 0.3  # what a restart leaves of the weights

# After a change the slow member goes back to its weights of before the last restart where, since the sum was last 0,
# these were right or wrong in at least so many rounds that show it, wrong in at most this part of them, and wrong at
# most half as often there as the present weights: in a world that stays, that cannot be true in both directions.
LEAST_JUDGED, MOST_WRONG, BETTER = 3.0, 0.25, 0.5
# What is counted of those weights: rounds, errors, the errors of the present ones there, and whether there are any.
JUDGED, WRONG, PRESENT, KNOWN = range(4)

LONGEST = 1e36  # AdaGrad does not learn from longer rows: its sums of squares are single floats

MOST_ROWS = 8192.0  # the mean of ||x||^2 remembers at most so many rows

# What a restart was for: there was none, a change that was noticed, the end of the memory, or somebody asked for it; or
# a change after which the weights of before the last restart are right again.
NONE, CHANGE, AGE, RESET, RETURN = range(5)


class Scorer(Piece, abstract=True):
    """The family of scorers. A new one is a subclass with the methods below.

    >>> Tracking().memory
    inf
    """

    @abstractmethod
    def declare(self) -> Layout:
        """The fields of the state."""

    @abstractmethod
    @compiled
    def judge(self, state: Any, x: Row, given: Floats, has_given: bool, out: Floats) -> None:
        """Fill `out` with a score for every class: about 1 for the label, -1 for others. Changes only scratch.

        The guard cuts the scores to [-1, 1]. `given` are the scores that came with x, where there are any.
        """

    @abstractmethod
    @compiled
    def absorb(self, state: Any, plan: Plan, x: Row, played: Round) -> int:
        """Learn from what the round showed; scratch is that of :meth:`judge` for the same row.

        Returns whether the scorer began anew, and why: NONE, CHANGE, AGE or RETURN.
        """

    @compiled
    def uncertainty(self, state: Any, x: Row, a: int, b: int) -> float:
        """How little is known of the score of `a` minus that of `b` at x: from 1 (nothing) towards 0; 1 by default."""
        return 1.0

    @compiled
    def recency(self, state: Any) -> float:
        """How far only the last rounds count in the scores, from 0 to 1; 0 by default."""
        return 0.0

    @compiled
    def suspicion(self, state: Any) -> float:
        """The least probability of exploring that the scorer asks for; 0 by default."""
        return 0.0

    @compiled
    def changes(self, state: Any) -> float:
        """How many changes it has noticed so far; 0 by default."""
        return 0.0

    @compiled
    def passes_on(self) -> bool:
        """Whether its scores are those that came with x, so that the guard needs no second weight for them."""
        return False

    @compiled
    def learns(self) -> bool:
        """Whether it gets better by itself with what is revealed, so that it may know nothing at first; False by
        default.

        The guard is more patient with such a scorer.
        """
        return False

    @compiled
    def restart_now(self, state: Any) -> None:
        """Begin anew, as after a change that was noticed; nothing by default."""

    def split_scores(self, state: Any, x: Row, given: Floats, has_given: bool) -> ScoreParts:
        """What the scores of x are the sum of; by default, what each entry of x has as its score on its own.

        Called where :meth:`judge` was called for this row; writes scratch only.
        """

        def judge(row: Row, out: Floats) -> None:
            self.judge(state, row, np.zeros(given.size), False, out)

        return ScoreParts(score_entries(judge, x, given.size), {})

    def weights(self, state: Any) -> Floats | None:
        """W as a matrix d x K, where the scores are linear but for their bounds; None by default."""
        return None


@helper
def cut(score: float) -> float:
    """A score within [-1, 1]."""
    return min(1.0, max(-1.0, score))


@helper
def squared_error(score: float, z: float) -> float:
    """``(s - z)^2``, with s cut to [-1, 1]; z is 1 or -1."""
    error = min(2.0, max(0.0, 1.0 - z * score))
    return error * error


@helper
def differentiate_hinge(raw: Floats, k: int, z: float, out: Floats) -> float:
    """Fill `out` at k with the derivative of ``max(0, 1 - z s_k)^2 / 2``, and return :func:`squared_error`."""
    out[k] = -z * max(0.0, 1.0 - z * raw[k])
    return squared_error(raw[k], z)


class GivenScores(Scorer):
    """The scores that came with x, and nothing else: 0 in a round without any. It does not learn.

    >>> GivenScores()
    GivenScores()
    """

    def declare(self) -> Layout:
        return {}

    def judge(self, state: Any, x: Row, given: Floats, has_given: bool, out: Floats) -> None:
        for k in range(out.size):
            out[k] = given[k] if has_given else 0.0

    def absorb(self, state: Any, plan: Plan, x: Row, played: Round) -> int:
        return NONE

    def split_scores(self, state: Any, x: Row, given: Floats, has_given: bool) -> ScoreParts:
        return ScoreParts(np.zeros((x.stop - x.start, given.size)), {GIVEN_PART: given * has_given})

    def passes_on(self) -> bool:
        return True


class Tracking(Scorer):
    """Three linear scorers of different memory, weighed by how well each did lately; it restarts after a change.

    Each has a score for every class with the squared hinge of :class:`gappletron.OneAgainstAll` as its loss. `slow` and
    `fast` are diagonal AROWs of which the second forgets how certain it was, and `third` is AdaGrad, whose scores are
    divided by the root mean square of ||x||. Scores are cut to [-1, 1] and averaged with weights proportional to
    ``exp(-L/2)``. L is the sum of squared errors at the classes that were revealed, each round counting .99 times as
    much as the one after it. Scores that come with x are a fourth member in such rounds.

    **Changes.** Where it is revealed whether the best class of the slow scorer was right, the logarithm of ``p1/p0`` is
    added for an error and of ``(1-p1)/(1-p0)`` otherwise; a negative sum becomes 0. p0 is the error rate so far of
    rounds with a similar gap (and 8 with that of all rounds, which begins with 16 of guessing), and p1 the error rate
    since the sum was last 0, at least ``2 p0 + .2``. Where p0 is above 3/4, a round says nothing. After n rounds that
    showed something, the slow and the third scorer begin anew where the sum exceeds ``alarm + ln(1 + n)``: they forget
    how certain they were, and .3 of their weights stays. If p0 were the true rate, the expected number of restarts up
    to round n would be at most ``e^-alarm ln(1 + n)``. Until then a sum of u asks for an exploration of at least ``(u /
    limit)^2``.

    **Returns.** A restart keeps the weights that the slow scorer had. While the sum is above 0 it is also counted
    whether these are right. Where they are when the sum exceeds its limit, in at least 3 of 4 rounds (of at least 3)
    and wrong at most half as often as the present ones, the slow scorer takes them back in place of beginning anew, and
    its present ones are kept: what comes again is not learned again.

    With a finite `memory`, they forget how certain they are after so many rounds with feedback; their weights stay.

    >>> Tracking()
    Tracking(slow=ConfidenceWeighted(noise=0.03, shrink=0.3, retain=1.0), fast=ConfidenceWeighted(noise=0.03, \
shrink=0.3, retain=0.9), third=AdaGrad(rate=0.5, clip=inf), memory=inf, alarm=5.0)
    """

    slow: ConfidenceWeighted = ConfidenceWeighted()
    fast: ConfidenceWeighted = ConfidenceWeighted(retain=0.9)
    third: AdaGrad = AdaGrad(rate=0.5)
    memory: PositiveOrInfinite = math.inf
    alarm: Positive = 5.0

    def declare(self) -> Layout:
        """The three scorers; L of each; rounds and errors of the slow one by the gap, before the sum that looks for a
        change rose above 0 and since then; that sum and its largest value since; the changes noticed; the rounds
        learned from, and those since the last restart; the mean of ||x||^2, as a sum and a number; and the weights of
        the slow one before the last restart, with what was counted of them.
        """
        return {
            "slow": in_single_floats(self.slow.declare()),
            "fast": in_single_floats(self.fast.declare()),
            "third": in_single_floats(self.third.declare()),
            "losses": Field(4, least=0),
            "bins": Field(2, BINS, least=0),
            "doubtful": Field(2, BINS, least=0),
            "contradiction": Field(least=0),
            "peak": Field(least=0),
            "changes": Field(least=0),
            "learned": Field(least=0),
            "age": Field(least=0),
            "size": Field(2, least=0),
            "before": Field("features", "classes", dtype=np.float32),
            "returning": Field(4, least=0),
            "slow_scores": Scratch("classes"),
            "fast_scores": Scratch("classes"),
            "third_scores": Scratch("classes"),
            "before_scores": Scratch("classes"),
            "given": Scratch("classes"),
            "shares": Scratch(4),
            "slow_direction": Scratch("classes"),
            "fast_direction": Scratch("classes"),
            "third_direction": Scratch("classes"),
        }

    def judge(self, state: Any, x: Row, given: Floats, has_given: bool, out: Floats) -> None:
        self.slow.scores(state.slow, x, state.slow_scores)
        self.fast.scores(state.fast, x, state.fast_scores)
        self.third.scores(state.third, x, state.third_scores)
        scale = 1.0
        if state.size[0] > 0.0:
            scale = math.sqrt(state.size[1] / state.size[0])
        weigh_members(state.losses, has_given, state.shares)
        slow, fast, third, own = state.shares[SLOW], state.shares[FAST], state.shares[THIRD], state.shares[GIVEN]
        for k in range(out.size):
            state.third_scores[k] *= scale
            state.given[k] = given[k] if has_given else 0.0
            total = slow * cut(state.slow_scores[k]) + fast * cut(state.fast_scores[k])
            out[k] = total + third * cut(state.third_scores[k]) + own * state.given[k]

    def absorb(self, state: Any, plan: Plan, x: Row, played: Round) -> int:
        reason = NONE
        look_for_change(state, plan, x, played)
        if state.contradiction[0] > restart_limit(self.alarm, state):
            state.changes[0] += 1.0
            if is_returning(state.returning):
                reason = RETURN
                go_back(self, state, x)
            else:
                reason = CHANGE
                self.restart_now(state)
        state.size[0] += x.squared
        state.size[1] += 1.0
        if state.size[1] > MOST_ROWS:  # rows of long ago count half
            state.size[0] *= 0.5
            state.size[1] *= 0.5
        slow = fast = third = own = 0.0
        for k in range(state.slow_scores.size):
            state.slow_direction[k] = state.fast_direction[k] = state.third_direction[k] = 0.0
            if plan.graph.visible[played.action, k]:
                z = 1.0 if k == played.label else -1.0
                slow += differentiate_hinge(state.slow_scores, k, z, state.slow_direction)
                fast += differentiate_hinge(state.fast_scores, k, z, state.fast_direction)
                third += differentiate_hinge(state.third_scores, k, z, state.third_direction)
                own += squared_error(state.given[k], z)
        state.losses[SLOW] = DECAY * state.losses[SLOW] + slow
        state.losses[FAST] = DECAY * state.losses[FAST] + fast
        state.losses[THIRD] = DECAY * state.losses[THIRD] + third
        if state.shares[GIVEN] > 0.0:
            state.losses[GIVEN] = DECAY * state.losses[GIVEN] + own
        if slow > 0.0:
            self.slow.step(state.slow, x, state.slow_direction, 1.0)
        if fast > 0.0:
            self.fast.step(state.fast, x, state.fast_direction, 1.0)
        if third > 0.0 and x.squared < LONGEST:
            self.third.step(state.third, x, state.third_direction, 1.0)
        state.learned[0] += 1.0
        state.age[0] += 1.0
        if state.age[0] >= self.memory:
            reason = AGE
            self.slow.begin_anew(state.slow, 1.0)
            self.third.begin_anew(state.third, 1.0)
            state.age[0] = 0.0
        return reason

    def restart_now(self, state: Any) -> None:
        begin_anew(self, state)

    def uncertainty(self, state: Any, x: Row, a: int, b: int) -> float:
        """Those of the slow and the fast scorer, by the weight of the fast one; in one loop over the row."""
        share, total = state.shares[FAST], 0.0
        for p in range(x.start, x.stop):
            j = x.indices[p]
            slow = to_double(state.slow.variances[j, a]) + to_double(state.slow.variances[j, b])
            fast = to_double(state.fast.variances[j, a]) + to_double(state.fast.variances[j, b])
            total += x.values[p] * x.values[p] * ((1.0 - share) * slow + share * fast)
        return 0.5 * total / x.squared if total > 0.0 else 1.0

    def learns(self) -> bool:
        return True

    def recency(self, state: Any) -> float:
        """The weight of the fast scorer."""
        return state.shares[FAST]

    def suspicion(self, state: Any) -> float:
        if state.contradiction[0] == 0.0:
            return 0.0
        part = state.contradiction[0] / restart_limit(self.alarm, state)
        return part * part

    def changes(self, state: Any) -> float:
        return state.changes[0]

    def split_scores(self, state: Any, x: Row, given: Floats, has_given: bool) -> ScoreParts:
        """The entries in each member, by the members' weights; that scores are cut to [-1, 1] is a part of its own."""
        raw = (state.slow_scores, state.fast_scores, state.third_scores)
        scale = math.sqrt(state.size[1] / state.size[0]) if state.size[0] > 0.0 else 1.0
        members = (
            (self.slow, state.slow, state.shares[SLOW]),
            (self.fast, state.fast, state.shares[FAST]),
            (self.third, state.third, state.shares[THIRD] * scale),
        )
        entries, limits = np.zeros((x.stop - x.start, given.size)), np.zeros(given.size)
        for (optimizer, own, share), scores, place in zip(members, raw, (SLOW, FAST, THIRD), strict=True):
            entries += share * score_entries(functools.partial(optimizer.scores, own), x, given.size)
            limits += state.shares[place] * (np.clip(scores, -1.0, 1.0) - scores)
        return ScoreParts(entries, {GIVEN_PART: state.shares[GIVEN] * given * has_given, LIMITS: limits})

    def weights(self, state: Any) -> Floats:
        """Those of the slow scorer."""
        return self.slow.weights(state.slow).astype(np.float64)


def in_single_floats(layout: Layout) -> Layout:
    """Return a layout whose matrices of features x classes are single floats: half of the memory, and scores of which
    seven digits are right.
    """
    return {
        name: Field(*field.axes, dtype=np.float32, fill=field.fill, least=field.least, above=field.above)
        if isinstance(field, Field) and field.axes == ("features", "classes")
        else field
        for name, field in layout.items()
    }


@seldom
def begin_anew(scorer: Tracking, state: Any) -> None:
    """Forget the error rates, how certain the slow and the third scorer were, and most of their weights; those of the
    slow one are kept aside.
    """
    copy_all(state.slow.weights, state.before)
    state.returning[KNOWN] = 1.0
    scorer.slow.begin_anew(state.slow, KEPT)
    fill_all(state.bins, 0.0)
    state.age[0] = 0.0
    forget_doubts(scorer, state)
    state.losses[SLOW] = state.losses[FAST]
    state.losses[THIRD] = state.losses[FAST]


@seldom
def go_back(scorer: Tracking, state: Any, x: Row) -> None:
    """Exchange the weights of the slow scorer for those before the last restart, and score the row with them. How
    certain the weights are, and the error rates, stay those of the weights that are put aside.
    """
    exchange_all(state.slow.weights, state.before)
    scorer.slow.scores(state.slow, x, state.slow_scores)
    forget_doubts(scorer, state)
    state.losses[SLOW] = 0.0


@helper
def forget_doubts(scorer: Tracking, state: Any) -> None:
    """Begin to look for a change anew; the third scorer begins anew in any case."""
    scorer.third.begin_anew(state.third, KEPT)
    state.contradiction[0] = 0.0
    state.peak[0] = 0.0
    fill_all(state.doubtful, 0.0)
    forget_returning(state.returning)


@helper
def is_returning(returning: Floats) -> bool:
    """Whether the weights of before the last restart are right again, and better than the present ones."""
    is_right = returning[JUDGED] >= LEAST_JUDGED and returning[WRONG] <= MOST_WRONG * returning[JUDGED]
    return is_right and returning[WRONG] <= BETTER * returning[PRESENT]


@helper
def forget_returning(returning: Floats) -> None:
    """Count anew how often the weights of before the last restart are right."""
    returning[JUDGED] = 0.0
    returning[WRONG] = 0.0
    returning[PRESENT] = 0.0


@helper
def judge_before(state: Any, plan: Plan, x: Row, played: Round, error: bool) -> None:
    """Count whether the weights of before the last restart are right, where the round reveals it, and whether the
    present ones are wrong there.
    """
    dot(state.before, x, state.before_scores)
    best = argmax(state.before_scores)
    if played.label >= 0 or plan.graph.visible[played.action, best]:
        state.returning[JUDGED] += 1.0
        if best != played.label:
            state.returning[WRONG] += 1.0
        if error:
            state.returning[PRESENT] += 1.0


@helper
def weigh_members(losses: Floats, has_given: bool, out: Floats) -> None:
    """Fill `out` with weights proportional to exp(-L/2); that of the given scores is 0 where there are none."""
    members = GIVEN + 1 if has_given else GIVEN
    least = losses[SLOW]
    for m in range(1, members):
        least = min(least, losses[m])
    total = 0.0
    out[GIVEN] = 0.0
    for m in range(members):
        out[m] = 1.0 if losses[m] == least else math.exp(-SHARPNESS * (losses[m] - least))
        total += out[m]
    for m in range(members):
        out[m] /= total


@helper
def restart_limit(alarm: float, state: Any) -> float:
    """The contradiction above which the scorer begins anew."""
    return alarm + math.log(1.0 + state.learned[0])


@helper
def look_for_change(state: Any, plan: Plan, x: Row, played: Round) -> None:
    """Add what the round says of the error rate of the slow scorer to the sum that looks for a change."""
    best = argmax(state.slow_scores)
    if played.label < 0 and not plan.graph.visible[played.action, best]:
        return
    gap = cut(state.slow_scores[best]) - cut(state.slow_scores[rival(state.slow_scores, best)])
    place = min(BINS - 1, int(0.5 * BINS * gap))
    error = best != played.label
    if not error and state.contradiction[0] == 0.0:
        state.bins[0, place] += 1.0
    else:
        doubt_rate(state, place, error, played.scores.size)
        if state.contradiction[0] == 0.0:
            forget_returning(state.returning)
        elif state.returning[KNOWN] > 0.0:
            judge_before(state, plan, x, played, error)


@seldom
def doubt_rate(state: Any, place: int, error: bool, classes: int) -> None:
    """As :func:`look_for_change`, where the round is an error or follows one."""
    rounds = errors = before = wrong = 0.0
    for other in range(BINS):
        rounds += state.doubtful[0, other]
        errors += state.doubtful[1, other]
        before += state.bins[0, other]
        wrong += state.bins[1, other]
    guessing = 1.0 - 1.0 / classes
    overall = (wrong + GUESSED * guessing) / (before + GUESSED)
    p0 = max(LEAST_ERROR, (state.bins[1, place] + SHARED * overall) / (state.bins[0, place] + SHARED))
    p1 = min(MOST_CHANGED, max(2.0 * p0 + 0.2, (errors + 1.0) / (rounds + 4.0)))
    change = 0.0
    if p0 < MOST_ERROR:
        change = math.log(p1 / p0) if error else math.log((1.0 - p1) / (1.0 - p0))
    state.contradiction[0] = max(0.0, state.contradiction[0] + change)
    state.peak[0] = max(state.peak[0], state.contradiction[0])
    state.doubtful[0, place] += 1.0
    if error:
        state.doubtful[1, place] += 1.0
    if state.contradiction[0] == 0.0:
        if state.peak[0] >= NOTICED:
            state.changes[0] += 1.0
        else:
            for other in range(BINS):
                state.bins[0, other] += state.doubtful[0, other]
                state.bins[1, other] += state.doubtful[1, other]
        fill_all(state.doubtful, 0.0)
        state.peak[0] = 0.0
