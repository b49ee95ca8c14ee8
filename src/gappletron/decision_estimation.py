"""The decision-estimation program: the p over the actions that is best against every probability of the labels that the
estimates do not exclude.

Let q be estimates of how likely each label is. The cost of action i is ``c_i = b_i - sum_k D[i, k] q_k``, where b_i is
its largest cost and ``D[i, k] = b_i - C[i, k]`` what it saves where the label is k; all in units of the largest cost of
the graph. For costs of 0 and 1 this is 1 - q_i for a class, and 1 for an action that is no class: a cost that is known
does not depend on the estimates. Let ``P_p(k)`` be the probability that p shows k. A true q' that is far from q shows in
what is seen, at a price of ``gamma/4 sum_k P_p(k) (q'_k - q_k)^2``. The largest regret against action a, less that
price, is attained by a q' that is known, and the program is the minimum over p of ::

    max_a { sum_i p_i c_i - c_a + 1/gamma sum_k (sum_i p_i D[i, k] - D[a, k])^2 / P_p(k) }

(Zhang, Zhang, Vrousgou, Luo, Mineiro 2023, whose gamma is this one; Foster, Rakhlin 2020 for bandits.) For costs of 0
and 1 the last sum is ``(1 - p_a)^2 / P_p(a) + sum_{k != a} p_k^2 / P_p(k)``. a runs over the actions that no other action
dominates, being as cheap at every label; so a query that costs as much as a mistake is played, but nobody's regret is
measured against it.

All functions here take ``g_i = gamma (c_i - min c)`` and solve gamma times the program. There are closed forms for costs
of 0 and 1 on three graphs: :func:`inverse_gaps` (bandit), :func:`water_level` (full information), and
:func:`best_share`, a search in one dimension (one action shows everything, the others nothing). For all others there is
an interior point method (:func:`follow`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gappletron._dispatch import helper, seldom
from gappletron.state import Scratch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gappletron.state import Layout

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

__all__ = ["Program", "best_play", "program_of", "regret", "work_space"]

BANDIT, FULL, SOLE, ANY = range(4)
"""Kinds of programs: each action shows its own class; all show everything; one shows everything, the others nothing."""

NEWTON_STEPS = 100
"""At most so many, for the bandit graph: about six are needed."""

SEARCH_STEPS = 52
"""Golden sections of ln q: then it is known to 4e-10."""

LEAST_SHARE = -27.0
"""ln of the least probability with which the revealing action is played."""

GOLDEN = 0.6180339887498949
"""The golden section, (sqrt(5) - 1) / 2."""

BARRIER_STEPS = 80
"""At most so many steps of the interior point method: about thirty are needed."""

ACCURACY = 1e-7
"""Where the interior point method stops, relative to the larger of 1 and the regret."""

GROWTH = 15.0
"""How fast the interior point method turns from the barrier to the objective."""


class Program(NamedTuple):
    """A graph and its costs, for :func:`best_play`.

    >>> program_of(np.eye(3, dtype=bool), 1.0 - np.eye(3)).kind == BANDIT
    True
    """

    kind: int
    revealer: int
    """The action that shows everything, where there is one."""
    worst: Floats
    """N: b_i, the largest cost of the action."""
    saved: Floats
    """K x N: D[i, k], what the action (column) saves where the label is the class (row)."""
    rivals: NDArray[np.int64]
    """The actions that no other dominates."""


def program_of(visible: Flags, costs: Floats) -> Program:
    """The program of a graph (N x K) with these costs (N x K)."""
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
    program = Program(kind, int(np.argmax(revealing)), worst, saved, rivals)
    for array in program[2:]:
        array.setflags(write=False)
    return program


def dominates(costs: Floats, i: int, a: int) -> bool:
    """Whether action i never costs more than action a; of two that cost the same, the first does.

    >>> dominates(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]), 0, 1)
    True
    """
    return bool((costs[i] <= costs[a]).all() and ((costs[i] < costs[a]).any() or i < a))


SEEN, SAVED, SEEN_STEP, SAVED_STEP, PULL, BEND = range(6)
PLAY, STEP, GRADIENT, COLUMN, SOLVED, ONES, SLOPE, PIVOTS, SLACK = range(9)


def work_space() -> Layout:
    """The scratch that :func:`best_play` needs. Few arrays, each with several rows, take less time to compile."""
    return {"labels": Scratch(6, "classes"), "actions": Scratch(9, "actions"), "matrix": Scratch("actions", "actions")}


@helper
def best_play(program: Program, observers: Flags, gaps: Floats, work: Any, out: Floats) -> None:
    """Fill `out` with the p that solves the program.

    :param observers: K x N, which actions show a class.
    :param gaps: g_i, of which the least is 0.
    :param work: the scratch of :func:`work_space`.

    >>> from gappletron.state import Sizes, State
    >>> seen, out = np.eye(3, dtype=bool), np.zeros(3)
    >>> work = State(work_space(), Sizes(1, 3, 3)).tuple
    >>> best_play(program_of(seen, 1.0 - np.eye(3)), seen, np.array([0.0, 1.0, 4.0]), work, out)
    >>> out.round(3), (1 / out - 1 / out[0]).round(3)
    (array([0.549, 0.354, 0.172]), array([0., 1., 4.]))
    """
    if program.kind == BANDIT:
        inverse_gaps(gaps, out)
    elif program.kind == FULL:
        level_out(gaps, -1, 1.0, 1.0, out)
    elif program.kind == SOLE:
        best_share(program, gaps, out)
    elif not is_settled(program, observers, gaps, work, out):
        follow(program, observers, gaps, work)
        for i in range(out.size):
            out[i] = work.actions[PLAY, i]
    total = 0.0
    for i in range(out.size):
        total += out[i]
    for i in range(out.size):
        out[i] /= total


# --------------------------------------------------------------------------------------------------------- closed forms


@helper
def inverse_gaps(gaps: Floats, out: Floats) -> None:
    """p_a = 1 / (lambda + g_a) with the lambda in [1, K] for which they add up to 1.

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


@helper
def water_level(gaps: Floats, classes: int, left_out: int, volume: float) -> float:
    """The theta with ``sum_k max(0, theta - g_k) = volume`` over the classes but one: all are in at first, and those
    that are above the level leave.
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


@helper
def level_out(gaps: Floats, left_out: int, mass: float, q: float, out: Floats) -> None:
    """p_k = max(0, theta - g_k) q/2, which add up to the mass; `left_out` gets nothing.

    Where every class is seen with probability q the regret against a is ``sum_i p_i g_i - g_a + (sum_k p_k^2 + 1 - 2
    p_a) / q``. Its maximum over a is least for these p: the classes that are played have the same regret.
    """
    level = water_level(gaps, out.size, left_out, 2.0 * mass / q)
    for k in range(out.size):
        out[k] = max(0.0, level - gaps[k]) * (0.5 * q) if k != left_out else 0.0


@seldom
def share_regret(program: Program, gaps: Floats, q: float, out: Floats) -> float:
    """The largest regret where the revealing action is played with probability q, and the best p with that q."""
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
    """The q with the least regret: convex in q, so a search by golden sections in ln q."""
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


@helper
def measure(program: Program, observers: Flags, p: Floats, work: Any) -> None:
    """P_p(k), and what p saves where the label is k."""
    for k in range(observers.shape[0]):
        P = saving = 0.0
        for i in range(p.size):
            saving += p[i] * program.saved[k, i]
            if observers[k, i]:
                P += p[i]
        work.labels[SEEN, k] = P
        work.labels[SAVED, k] = saving


@helper
def error(program: Program, a: int, work: Any) -> float:
    """h_a(p), the sum over k of ``(sum_i p_i D[i, k] - D[a, k])^2 / P_p(k)``; 0/0 is 0."""
    total = 0.0
    for k in range(program.saved.shape[0]):
        off = work.labels[SAVED, k] - program.saved[k, a]
        if off != 0.0:
            P = work.labels[SEEN, k]
            total += off * off / P if P > 0.0 else math.inf
    return total


@seldom
def regret(program: Program, observers: Flags, gaps: Floats, p: Floats, work: Any) -> float:
    """gamma times the program's maximum over a."""
    measure(program, observers, p, work)
    cost, most = 0.0, -math.inf
    for i in range(p.size):
        cost += p[i] * gaps[i]
    for s in range(program.rivals.size):
        a = program.rivals[s]
        most = max(most, error(program, a, work) - gaps[a])
    return cost + most


@seldom
def is_settled(program: Program, observers: Flags, gaps: Floats, work: Any, out: Floats) -> bool:
    """Whether the cheapest action alone has no regret, and so is the solution; then `out` is that play."""
    cheapest = 0
    for i in range(out.size):
        if gaps[i] < gaps[cheapest]:
            cheapest = i
    for i in range(out.size):
        out[i] = 1.0 if i == cheapest else 0.0
    return regret(program, observers, gaps, out, work) <= 0.0


@seldom
def follow(program: Program, observers: Flags, gaps: Floats, work: Any) -> None:
    """An interior point method for the least ``sum_i p_i g_i + V`` with ``V + g_a - h_a(p) > 0`` for every a.

    It follows the minimum of ``tau * objective - sum_a ln(slack_a) - sum_i ln p_i`` over the p that add up to 1, for a
    growing tau, by Newton steps. The number of logarithms over tau bounds the distance to the optimum.
    """
    p, step, slack = work.actions[PLAY], work.actions[STEP], work.actions[SLACK]
    N, rivals = p.size, program.rivals
    for i in range(N):
        p[i] = 1.0 / N
    measure(program, observers, p, work)
    V = -math.inf
    for s in range(rivals.size):
        V = max(V, error(program, rivals[s], work) - gaps[rivals[s]])
    V += 1.0
    terms, spread = float(N + rivals.size), 1.0
    for i in range(N):
        spread += p[i] * gaps[i]
    tau = 1.0 / spread
    for _ in range(BARRIER_STEPS):
        cost = V
        for s in range(rivals.size):
            slack[s] = V + gaps[rivals[s]] - error(program, rivals[s], work)
        for i in range(N):
            cost += p[i] * gaps[i]
        barrier(program, observers, work)
        factorise(work.matrix, work.actions[PIVOTS])
        dV, decrement = direction(gaps, rivals.size, tau, work)
        while decrement < 0.3:
            if terms <= tau * ACCURACY * max(1.0, cost):
                return
            tau *= GROWTH
            dV, decrement = direction(gaps, rivals.size, tau, work)
        size = step_size(program, observers, gaps, V, dV, tau, decrement, work)
        if not size > 0.0:
            return
        V += size * dV
        for i in range(N):
            p[i] += size * step[i]
        measure(program, observers, p, work)


@seldom
def barrier(program: Program, observers: Flags, work: Any) -> None:
    """The gradient of the barrier by p, its second derivatives (the lower half), and those by p and V.

    With ``u = (sum_i p_i D[i, k] - D[a, k]) / P_p(k)`` the derivative of h_a by p_i is ``sum_k 2 u D[i, k] - u^2 A[i,
    k]``, and its second derivative ``sum_k 2/P_p(k) (D_k - u A_k) (D_k - u A_k)^T``.
    """
    p, gradient, column, slope, slack = (
        work.actions[PLAY],
        work.actions[GRADIENT],
        work.actions[COLUMN],
        work.actions[SLOPE],
        work.actions[SLACK],
    )
    K, N = observers.shape
    matrix = work.matrix
    total = 0.0
    for k in range(K):
        work.labels[PULL, k] = 0.0
        work.labels[BEND, k] = 0.0
    for i in range(N):
        gradient[i] = -1.0 / p[i]
        column[i] = 0.0
        for j in range(i):
            matrix[i, j] = 0.0
        matrix[i, i] = 1.0 / (p[i] * p[i])
    for s in range(program.rivals.size):
        a, r = program.rivals[s], 1.0 / slack[s]
        total += r
        for i in range(N):
            slope[i] = 0.0
        for k in range(K):
            u = (work.labels[SAVED, k] - program.saved[k, a]) / work.labels[SEEN, k]
            work.labels[PULL, k] += r * u
            work.labels[BEND, k] += r * u * u
            for i in range(N):
                slope[i] += 2.0 * u * program.saved[k, i]
                if observers[k, i]:
                    slope[i] -= u * u
        for i in range(N):
            gradient[i] += r * slope[i]
            column[i] -= r * r * slope[i]
            for j in range(i + 1):
                matrix[i, j] += r * slope[i] * (r * slope[j])
    for k in range(K):
        factor = 2.0 / work.labels[SEEN, k]
        pull, bend = factor * work.labels[PULL, k], factor * work.labels[BEND, k]
        for i in range(N):
            by_saving, by_seeing = factor * total * program.saved[k, i], -pull * program.saved[k, i]
            if observers[k, i]:
                by_saving -= pull
                by_seeing += bend
            if by_saving == 0.0 and by_seeing == 0.0:
                continue
            for j in range(i + 1):
                matrix[i, j] += by_saving * program.saved[k, j]
                if observers[k, j]:
                    matrix[i, j] += by_seeing


@seldom
def direction(gaps: Floats, rivals: int, tau: float, work: Any) -> tuple[float, float]:
    """Newton's step for this tau: that of p goes to the row STEP, that of V and the squared decrement are returned.

    With M the second derivatives by p: ``M dp + column dV + nu 1 = -gradient``, ``<column, dp> + bent dV = -pull`` and
    ``<1, dp> = 0``.
    """
    step, gradient, column, solved, ones, slack = (
        work.actions[STEP],
        work.actions[GRADIENT],
        work.actions[COLUMN],
        work.actions[SOLVED],
        work.actions[ONES],
        work.actions[SLACK],
    )
    N = step.size
    pull, bent = tau, 0.0
    for s in range(rivals):
        pull -= 1.0 / slack[s]
        bent += 1.0 / slack[s] / slack[s]
    for i in range(N):
        step[i] = gradient[i] + tau * gaps[i]
        solved[i] = column[i]
        ones[i] = 1.0
    back_substitute(work.matrix, work.actions[PIVOTS], step)
    back_substitute(work.matrix, work.actions[PIVOTS], solved)
    back_substitute(work.matrix, work.actions[PIVOTS], ones)
    by_step = by_column = all_ones = all_step = all_column = 0.0
    for i in range(N):
        by_step += column[i] * step[i]
        by_column += column[i] * solved[i]
        all_ones += ones[i]
        all_step += step[i]
        all_column += solved[i]
    dV = (by_step - pull - all_column * all_step / all_ones) / (bent - by_column + all_column * all_column / all_ones)
    nu = -(all_step + all_column * dV) / all_ones
    decrement = -dV * pull
    for i in range(N):
        step[i] = -step[i] - solved[i] * dV - ones[i] * nu
        decrement -= (gradient[i] + tau * gaps[i]) * step[i]
    return dV, decrement


@seldom
def step_size(
    program: Program, observers: Flags, gaps: Floats, V: float, dV: float, tau: float, decrement: float, work: Any
) -> float:
    """The length of a Newton step: at most 1, feasible, and not far behind the minimum along it; 0 where none is."""
    p, step = work.actions[PLAY], work.actions[STEP]
    K, N = observers.shape
    size, along = 1.0, dV
    for i in range(N):
        along += step[i] * gaps[i]
        if step[i] < 0.0:
            size = min(size, 0.99 * p[i] / -step[i])
    for k in range(K):
        seen = saving = 0.0
        for i in range(N):
            saving += step[i] * program.saved[k, i]
            if observers[k, i]:
                seen += step[i]
        work.labels[SEEN_STEP, k] = seen
        work.labels[SAVED_STEP, k] = saving
    for _ in range(60):
        slope = tau * along
        for i in range(N):
            slope -= step[i] / (p[i] + size * step[i])
        for s in range(program.rivals.size):
            a = program.rivals[s]
            slack, rise = V + size * dV + gaps[a], dV
            for k in range(K):
                P = work.labels[SEEN, k] + size * work.labels[SEEN_STEP, k]
                off = work.labels[SAVED, k] + size * work.labels[SAVED_STEP, k] - program.saved[k, a]
                u = off / P
                slack -= off * u
                rise -= 2.0 * u * work.labels[SAVED_STEP, k] - u * u * work.labels[SEEN_STEP, k]
            slope = slope - rise / slack if slack > 0.0 else math.inf
        if slope <= 0.5 * decrement:
            return size
        size *= 0.6
    return 0.0


@seldom
def factorise(matrix: Floats, pivots: Floats) -> None:
    """Cholesky's factor in the lower half; a pivot that rounding has eaten becomes so large that its row is fixed."""
    for i in range(pivots.size):
        for j in range(i):
            entry = matrix[i, j]
            for k in range(j):
                entry -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = entry / pivots[j]
        entry = matrix[i, i]
        for k in range(i):
            entry -= matrix[i, k] * matrix[i, k]
        pivots[i] = math.sqrt(entry) if entry > 1e-15 * matrix[i, i] else 1e100


@seldom
def back_substitute(matrix: Floats, pivots: Floats, vector: Floats) -> None:
    """Solve for the vector in place, with the factor of :func:`factorise`."""
    N = pivots.size
    for i in range(N):
        entry = vector[i]
        for k in range(i):
            entry -= matrix[i, k] * vector[k]
        vector[i] = entry / pivots[i]
    for i in range(N - 1, -1, -1):
        entry = vector[i]
        for k in range(i + 1, N):
            entry -= matrix[k, i] * vector[k]
        vector[i] = entry / pivots[i]
