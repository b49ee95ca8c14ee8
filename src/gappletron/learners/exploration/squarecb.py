"""SquareCB.G: exploration by the decision-estimation program, for learners that estimate how likely each label is.

The program finds the p over the actions that is best against every probability of the labels that the estimates do not
exclude.

Let q be estimates of how likely each label is. The cost of action i is ``c_i = b_i - sum_k D[i, k] q_k``, where b_i is
its largest cost and ``D[i, k] = b_i - C[i, k]`` what it saves where the label is k; all in units of the largest cost of
the graph. For costs of 0 and 1 this is 1 - q_i for a class, and 1 for an action that is no class: a cost that is known
does not depend on the estimates. Let ``P_p(k)`` be the probability that p shows k. A true q' that is far from q is
found out, at a price of ``gamma/4 sum_k P_p(k) (q'_k - q_k)^2``. The largest regret against action a, less that price,
has a closed form, and the program is the minimum over p of ::

    max_a { sum_i p_i c_i - c_a + 1/gamma sum_k (sum_i p_i D[i, k] - D[a, k])^2 / P_p(k) }

(Zhang, Zhang, Vrousgou, Luo, Mineiro 2023, whose gamma is this one; Foster, Rakhlin 2020 for bandits.) For costs of 0
and 1 the last sum is ``(1 - p_a)^2 / P_p(a) + sum_{k != a} p_k^2 / P_p(k)``. a runs over the actions that no other
action dominates by being as cheap at every label. So a query that costs as much as a mistake is played, but no regret
is measured against it.

All functions here take ``g_i = gamma (c_i - min c)`` and solve gamma times the program. For costs of 0 and 1 there are
closed forms for the bandit graph (:func:`inverse_gaps`) and for full information (:func:`level_out`), and a search in
one dimension where one action shows everything and the others nothing (:func:`best_share`). For all others there is an
interior point method (:func:`follow`).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import GOLDEN
from gappletron.kernel.pieces import NotNegative, seldom
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.exploration import barrier
from gappletron.learners.exploration.barrier import PLAY, STEP, Flags
from gappletron.learners.exploration.rules import Exploration, Outlook

# Kinds of programs: each action shows its own class; all show everything; one shows everything, the others nothing.
BANDIT, FULL, SOLE, ANY = range(4)

NEWTON_STEPS = 100  # at most so many, for the bandit graph: about six are needed
SEARCH_STEPS = 52  # golden sections of ln q: then it is known to 4e-10
LEAST_SHARE = -27.0  # ln of the least probability with which the revealing action is played
BARRIER_STEPS = 80  # at most so many steps of the interior point method: 25 to 50 are needed
ACCURACY = 1e-6  # where the interior point method stops, relative to the larger of 1 and the regret
GROWTH = 15.0  # the factor by which the weight of the objective, against the barrier, grows from step to step


class Program(NamedTuple):
    """A graph and its costs, for :func:`best_play`.

    :param revealer: the action that shows everything, where there is one.
    :param worst: N: b_i, the largest cost of the action.
    :param saved: K x N: D[i, k], what the action (column) saves where the label is the class (row).
    :param rivals: the actions that no other dominates.
    :param observers: K x N: whether the action (column) shows the class (row).

    >>> make_program(np.eye(3, dtype=bool), 1.0 - np.eye(3)).kind == BANDIT
    True
    """

    kind: int
    revealer: int
    worst: Floats
    saved: Floats
    rivals: NDArray[np.int64]
    observers: Flags


def make_program(visible: Flags, costs: Floats) -> Program:
    """Return the program of a graph (N x K) with these costs (N x K)."""
    N, K = visible.shape
    costs = costs / (costs.max() or 1.0)
    worst = np.ascontiguousarray(costs.max(axis=1))
    saved = np.ascontiguousarray((worst[:, np.newaxis] - costs).T)
    rivals = np.array([a for a in range(N) if not any(dominates(costs, i, a) for i in range(N))])
    revealing = visible.all(axis=1)
    kind = ANY
    if (worst == 1.0).all() and (saved == np.eye(K, N)).all():
        if N == K and (visible == np.eye(K, dtype=bool)).all():
            kind = BANDIT
        elif N == K and revealing.all():
            kind = FULL
        elif revealing.sum() == 1 and visible.sum() == K:
            kind = SOLE
    return Program(kind, int(np.argmax(revealing)), worst, saved, rivals, np.ascontiguousarray(visible.T))


def dominates(costs: Floats, i: int, a: int) -> bool:
    """Whether action i never costs more than action a; of two that cost the same, the first does.

    >>> dominates(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]), 0, 1)
    True
    """
    return bool((costs[i] <= costs[a]).all() and ((costs[i] < costs[a]).any() or i < a))


class SquareCB(Exploration):
    """SquareCB.G: plays what has the least regret against all labels that the estimates do not exclude.

    With the estimated costs c of the actions and ``gamma_t = scale * sqrt(t)`` in round t, it plays the p that makes ::

        max_a { sum_i p_i c_i - c_a + 1/gamma_t [ (1 - p_a)^2 / P_p(a) + sum_{k != a} p_k^2 / P_p(k) ] }

    least, where P_p(k) is the probability that p reveals class k (Zhang, Zhang, Vrousgou, Luo, Mineiro 2023). On the
    bandit graph this is inverse gap weighting, ``p_a = 1 / (lambda + gamma_t (c_a - min c))``. A query has its known
    cost, and for other costs than 0 and 1 the squares are those of the costs (see the docstring of the module).

    >>> SquareCB()
    SquareCB(scale=10.0)
    """

    scale: NotNegative = 10.0

    needs_estimates = True

    def declare(self) -> Layout:
        """The rounds so far; and for one round gamma_t times the costs, and room for solving the program."""
        return {"rounds": Field(dtype="int64", least=0), "gaps": Scratch("actions"), "work": barrier.work_space()}

    def table(self, graph: FeedbackGraph) -> Program:
        return make_program(graph.visible, graph.costs)

    def appraise(self, state: Any, plan: Plan, outlook: Outlook, estimates: Floats, sharpness: float) -> None:
        program, gaps = plan.table, state.gaps
        least = math.inf
        for i in range(gaps.size):
            gaps[i] = program.worst[i]
        for k in range(estimates.size):
            q = min(1.0, max(0.0, estimates[k]))
            for i in range(gaps.size):
                gaps[i] -= program.saved[k, i] * q
        for i in range(gaps.size):
            least = min(least, gaps[i])
        gamma = self.scale * math.sqrt(state.rounds[0] + 1.0)
        for i in range(gaps.size):
            gaps[i] = gamma * (gaps[i] - least)

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        best_play(plan.table, state.gaps, state.work, out)
        return 1.0 - out[greedy]

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        state.rounds[0] += 1


PULL, BEND = barrier.OWN, barrier.OWN + 1


@seldom
def best_play(program: Program, gaps: Floats, work: Any, out: Floats) -> None:
    """Fill `out` with the p that solves the program.

    :param gaps: g_i, of which the least is 0.
    :param work: the scratch of :func:`gappletron.learners.exploration.barrier.work_space`.

    >>> from gappletron.kernel.state import Sizes, State
    >>> from gappletron.learners.exploration.barrier import work_space
    >>> seen, out = np.eye(3, dtype=bool), np.zeros(3)
    >>> work = State(work_space(), Sizes(1, 3, 3)).tuple
    >>> best_play(make_program(seen, 1.0 - np.eye(3)), np.array([0.0, 1.0, 4.0]), work, out)
    >>> out.round(3), (1 / out - 1 / out[0]).round(3)
    (array([0.5  , 0.333, 0.167]), array([0., 1., 4.]))
    """
    if program.kind == BANDIT:
        inverse_gaps(gaps, out)
    elif program.kind == FULL:
        level_out(gaps, -1, 1.0, 1.0, out)
    elif program.kind == SOLE:
        best_share(program, gaps, out)
    elif not is_cheapest_best(program, gaps, work, out):
        follow(program, gaps, work, out)
    total = 0.0
    for i in range(out.size):
        total += out[i]
    for i in range(out.size):
        out[i] /= total


# --------------------------------------------------------------------------------------------------------- closed forms


@seldom
def inverse_gaps(gaps: Floats, out: Floats) -> None:
    """Fill `out` with p_a = 1 / (lambda + g_a) with the lambda in [1, K] for which they add up to 1.

    On the bandit graph the regret against a is, but for what does not depend on a, ``1/p_a - g_a``: all are equal. The
    sum is convex and falls with lambda, so Newton's steps from 1 do not pass the solution.
    """
    level = 1.0
    for _ in range(NEWTON_STEPS):
        total = slope = 0.0
        for a in range(gaps.size):
            out[a] = 1.0 / (level + gaps[a])
            total += out[a]
            slope += out[a] * out[a]
        higher = level + (total - 1.0) / slope
        if not higher > level:
            break
        level = higher


@seldom
def water_level(gaps: Floats, classes: int, left_out: int, volume: float) -> float:
    """Return the theta with ``sum_k max(0, theta - g_k) = volume`` over the classes but one: all are in at first, and
    those that are above the level leave.
    """
    level = math.inf
    while True:
        total, count = volume, 0
        for k in range(classes):
            if k != left_out and gaps[k] < level:
                total += gaps[k]
                count += 1
        lower = total / count if count > 0 else level
        if not lower < level:
            return level
        level = lower


@seldom
def level_out(gaps: Floats, left_out: int, mass: float, q: float, out: Floats) -> None:
    """Fill `out` with p_k = max(0, theta - g_k) q/2, which add up to the mass; `left_out` gets nothing.

    Where every class is seen with probability q the regret against a is ``sum_i p_i g_i - g_a + (sum_k p_k^2 + 1 - 2
    p_a) / q``. Its maximum over a is least for these p: the classes that are played have the same regret.
    """
    level = water_level(gaps, out.size, left_out, 2.0 * mass / q)
    for k in range(out.size):
        out[k] = max(0.0, level - gaps[k]) * (0.5 * q) if k != left_out else 0.0


@seldom
def share_regret(program: Program, gaps: Floats, q: float, out: Floats) -> float:
    """Return the largest regret where the revealing action is played with probability q, and the best p with that q."""
    K, r = program.saved.shape[0], program.revealer
    level = water_level(gaps, K, r, 2.0 * (1.0 - q) / q)
    cost, squares, most = q * gaps[r], 1.0, -math.inf
    for k in range(K):
        out[k] = q if k == r else max(0.0, level - gaps[k]) * (0.5 * q)
        squares += out[k] * out[k]
        most = max(most, -gaps[k] - 2.0 * out[k] / q)
        if k != r:
            cost += out[k] * gaps[k]
    out[r] = q
    return cost + squares / q + most


@seldom
def best_share(program: Program, gaps: Floats, out: Floats) -> None:
    """Fill `out` with the best play, for the q with the least regret: convex in q, so golden sections in ln q."""
    low, high = LEAST_SHARE, 0.0
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left = share_regret(program, gaps, math.exp(left), out)
    at_right = share_regret(program, gaps, math.exp(right), out)
    for _ in range(SEARCH_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = share_regret(program, gaps, math.exp(left), out)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = share_regret(program, gaps, math.exp(right), out)
    if share_regret(program, gaps, 1.0, out) > min(at_left, at_right):
        share_regret(program, gaps, math.exp(left if at_left <= at_right else right), out)


# ------------------------------------------------------------------------------------------------------------ any graph


@seldom
def squared_error(program: Program, a: int, work: Any) -> float:
    """Return h_a(p), the sum over k of ``(sum_i p_i D[i, k] - D[a, k])^2 / P_p(k)``; 0/0 is 0."""
    total = 0.0
    for k in range(program.saved.shape[0]):
        off = work.labels[barrier.SAVED, k] - program.saved[k, a]
        if off != 0.0:
            P = work.labels[barrier.SEEN, k]
            total += off * off / P if P > 0.0 else math.inf
    return total


@seldom
def regret(program: Program, gaps: Floats, p: Floats, work: Any) -> float:
    """Return gamma times the program's maximum over a."""
    cost, most = 0.0, -math.inf
    for i in range(p.size):
        work.actions[PLAY, i] = p[i]
        cost += p[i] * gaps[i]
    barrier.measure(program, work.actions[PLAY], 0.0, work.labels[barrier.SEEN], work.labels[barrier.SAVED])
    for s in range(program.rivals.size):
        a = program.rivals[s]
        most = max(most, squared_error(program, a, work) - gaps[a])
    return cost + most


@seldom
def is_cheapest_best(program: Program, gaps: Floats, work: Any, out: Floats) -> bool:
    """Whether the cheapest action alone has no regret, and so is the solution; then `out` is that play."""
    cheapest = 0
    for i in range(out.size):
        out[i] = 0.0
        if gaps[i] < gaps[cheapest]:
            cheapest = i
    out[cheapest] = 1.0
    return regret(program, gaps, out, work) <= 0.0


@seldom
def follow(program: Program, gaps: Floats, work: Any, out: Floats) -> None:
    """An interior point method for the least ``sum_i p_i g_i + V`` with ``V + g_a - h_a(p) > 0`` for every a.

    It follows the minimum of ``tau * objective - sum_a ln(slack_a) - sum_i ln p_i`` over the p that add up to 1, for a
    growing tau, by Newton steps. The number of logarithms over tau bounds the distance to the optimum.
    """
    actions, rivals = work.actions, program.rivals
    N = out.size
    for i in range(N):
        out[i] = 1.0 / N
    V = regret(program, gaps, out, work) + 1.0
    spread = 1.0
    for i in range(N):
        spread += out[i] * gaps[i]
    V -= spread - 1.0
    tau = 1.0 / spread
    for _ in range(BARRIER_STEPS):
        cost = V
        for s in range(rivals.size):
            actions[barrier.SLACK, s] = V + gaps[rivals[s]] - squared_error(program, rivals[s], work)
        for i in range(N):
            cost += out[i] * gaps[i]
        differentiate(program, work)
        barrier.factorise(work.matrix, work.actions[barrier.PIVOTS])
        dV, decrement = direction(gaps, rivals.size, tau, work)
        while decrement < barrier.NEAR:
            if N + rivals.size <= tau * ACCURACY * max(1.0, cost):
                return
            tau *= GROWTH
            dV, decrement = direction(gaps, rivals.size, tau, work)
        size = step_size(program, gaps, V, dV, tau, decrement, work)
        if not size > 0.0:
            return
        V += size * dV
        for i in range(N):
            actions[PLAY, i] += size * actions[STEP, i]
            out[i] = actions[PLAY, i]
        barrier.measure(program, work.actions[PLAY], 0.0, work.labels[barrier.SEEN], work.labels[barrier.SAVED])


@seldom
def differentiate(program: Program, work: Any) -> None:
    """The gradient of the barrier by p, its second derivatives (the lower half), and those by p and V.

    With ``u = (sum_i p_i D[i, k] - D[a, k]) / P_p(k)`` the derivative of h_a by p_i is ``sum_k 2 u D[i, k] - u^2 A[i,
    k]``, and its second derivative ``sum_k 2/P_p(k) (D_k - u A_k) (D_k - u A_k)^T``.
    """
    actions, labels, matrix = work.actions, work.labels, work.matrix
    K, N = program.observers.shape
    for k in range(K):
        labels[PULL, k] = 0.0
        labels[BEND, k] = 0.0
    barrier.begin_derivatives(work, 0.0)
    total = 0.0
    for s in range(program.rivals.size):
        r = 1.0 / actions[barrier.SLACK, s]
        total += r
        differentiate_rival(program, program.rivals[s], r, work)
        for i in range(N):
            slope = r * actions[barrier.SLOPE, i]
            actions[barrier.GRADIENT, i] += slope
            actions[barrier.COLUMN, i] -= r * slope
            for j in range(i + 1):
                matrix[i, j] += slope * (r * actions[barrier.SLOPE, j])
    for k in range(K):
        factor = 2.0 / labels[barrier.SEEN, k]
        pull, bend = factor * labels[PULL, k], factor * labels[BEND, k]
        for i in range(N):
            saved = program.saved[k, i]
            by_saving = factor * total * saved - (pull if program.observers[k, i] else 0.0)
            by_seeing = (bend if program.observers[k, i] else 0.0) - pull * saved
            for j in range(i + 1):
                matrix[i, j] += by_saving * program.saved[k, j] + (by_seeing if program.observers[k, j] else 0.0)


@seldom
def differentiate_rival(program: Program, a: int, r: float, work: Any) -> None:
    """The derivatives of h_a by p, and r times what its second derivatives need of u."""
    actions, labels = work.actions, work.labels
    K, N = program.observers.shape
    for i in range(N):
        actions[barrier.SLOPE, i] = 0.0
    for k in range(K):
        u = (labels[barrier.SAVED, k] - program.saved[k, a]) / labels[barrier.SEEN, k]
        labels[PULL, k] += r * u
        labels[BEND, k] += r * u * u
        for i in range(N):
            actions[barrier.SLOPE, i] += 2.0 * u * program.saved[k, i] - (u * u if program.observers[k, i] else 0.0)


@seldom
def direction(gaps: Floats, rivals: int, tau: float, work: Any) -> tuple[float, float]:
    """Newton's step for this tau: that of p goes to the row STEP, that of V and the squared decrement are returned.

    With M the second derivatives by p: ``M dp + column dV + nu 1 = -gradient``, ``<column, dp> + bent dV = -pull`` and
    ``<1, dp> = 0``.
    """
    actions = work.actions
    N = gaps.size
    pull, bent = tau, 0.0
    for s in range(rivals):
        pull -= 1.0 / actions[barrier.SLACK, s]
        bent += 1.0 / actions[barrier.SLACK, s] / actions[barrier.SLACK, s]
    for i in range(N):
        actions[STEP, i] = actions[barrier.GRADIENT, i] + tau * gaps[i]
        actions[barrier.SOLVED, i] = actions[barrier.COLUMN, i]
        actions[barrier.ONES, i] = 1.0
    for row in (STEP, barrier.SOLVED, barrier.ONES):
        barrier.back_substitute(work.matrix, work.actions[barrier.PIVOTS], work.actions[row])
    by_step = by_column = all_ones = all_step = all_column = 0.0
    for i in range(N):
        by_step += actions[barrier.COLUMN, i] * actions[STEP, i]
        by_column += actions[barrier.COLUMN, i] * actions[barrier.SOLVED, i]
        all_ones += actions[barrier.ONES, i]
        all_step += actions[STEP, i]
        all_column += actions[barrier.SOLVED, i]
    dV = (by_step - pull - all_column * all_step / all_ones) / (bent - by_column + all_column * all_column / all_ones)
    nu = -(all_step + all_column * dV) / all_ones
    decrement = -dV * pull
    for i in range(N):
        actions[STEP, i] = -actions[STEP, i] - actions[barrier.SOLVED, i] * dV - actions[barrier.ONES, i] * nu
        decrement -= (actions[barrier.GRADIENT, i] + tau * gaps[i]) * actions[STEP, i]
    return dV, decrement


@seldom
def step_size(program: Program, gaps: Floats, V: float, dV: float, tau: float, decrement: float, work: Any) -> float:
    """Return the length of a Newton step: at most 1, feasible, and not far behind the minimum along it; or 0."""
    actions, labels = work.actions, work.labels
    size, along = barrier.longest_step(work), tau * dV
    for i in range(gaps.size):
        along += tau * (actions[STEP, i] * gaps[i])
    barrier.measure(program, actions[STEP], 0.0, labels[barrier.SEEN_STEP], labels[barrier.SAVED_STEP])
    for _ in range(barrier.LINE_STEPS):
        slope = barrier.add_slopes(work, size, along)
        for s in range(program.rivals.size):
            a = program.rivals[s]
            slope += slack_slope(program, a, V + size * dV + gaps[a], dV, size, work)
        if slope <= 0.5 * decrement:
            return size
        size *= barrier.SHORTER
    return 0.0


@seldom
def slack_slope(program: Program, a: int, level: float, dV: float, size: float, work: Any) -> float:
    """Return the derivative of ``-ln(level - h_a)`` along a step of this size; infinite where that is not feasible."""
    labels = work.labels
    slack, rise = level, dV
    for k in range(program.saved.shape[0]):
        off = labels[barrier.SAVED, k] + size * labels[barrier.SAVED_STEP, k] - program.saved[k, a]
        u = off / (labels[barrier.SEEN, k] + size * labels[barrier.SEEN_STEP, k])
        slack -= off * u
        rise -= 2.0 * u * labels[barrier.SAVED_STEP, k] - u * u * labels[barrier.SEEN_STEP, k]
    return -rise / slack if slack > 0.0 else math.inf
