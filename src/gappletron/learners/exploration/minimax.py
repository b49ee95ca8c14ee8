"""The distribution p over the actions that makes ``max_y { sum_i p_i C[i, y] - l_y + s_y / P_p(y) }`` least.

``P_p(y) = sum_i p_i A[i, y]`` is the probability that p shows label y, and 0/0 counts as 0. With the largest cost ``c_y
= max_i C[i, y]`` and what an action saves, ``D[i, y] = c_y - C[i, y] >= 0``, the maximum is at most V if and only if

    sum_i p_i D[i, y] - s_y / P_p(y) >= w_y - V  for every y,  where w_y = c_y - l_y.

No entry of p can hurt here. So for each V there is a least p, whose entries have the smallest sum m(V). m is convex
and falls, and the least V is where m(V) = 1. :func:`least_play` plays the least p for the larger of that V and `floor`;
what is left, 1 - m, goes to the greedy class.

Where ``C[i, y] = c_y 1[i != y]``, m has closed forms for the bandit graph (:func:`bandit_mass`) and for graphs whose
actions show everything or nothing (:func:`revealing_mass`), and V is found by Newton steps that rise towards it. For
all others there is an interior point method (:func:`follow`).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from gappletron.graphs.sums import Sums, multiply, split
from gappletron.kernel.pieces import helper, seldom
from gappletron.kernel.types import Floats
from gappletron.learners.exploration import barrier
from gappletron.learners.exploration.barrier import PLAY, STEP, Flags

# Kinds of games: each action shows its own class; all or nothing; any other.
BANDIT, REVEALING, ANY = range(3)

NEWTON_STEPS = 100  # at most so many, in V or in q: about ten are needed, more for numbers of very different sizes
BARRIER_STEPS = 120  # at most so many steps of the interior point method: about thirty are needed
ACCURACY = 1e-7  # where the interior point method stops, relative to max(1, |V|)
SMALLEST = 1e-307  # what a probability counts as that is smaller, where something is divided by it
LARGEST = 1e10  # where a stability is larger than this, the interior point method is left out
GROWTH = 6.0  # the factor by which the weight of the objective, against the barrier, grows from step to step


class Game(NamedTuple):
    """A graph and its costs, for :func:`least_play`.

    :param top: K: c_y, the largest cost where the label is y.
    :param unit: K: 1 / c_y; 0 where c_y is 0.
    :param saved: K x N: what an action saves where the label is y, c_y - C[i, y].
    :param always: K: every action shows the label.
    :param observers: K x N: whether the action (column) shows the label (row).
    :param revealing: N: the action shows every label.
    :param revealer: the first of them, where there is one.
    :param saving, seeing: `saved` and `observers`, for :func:`gappletron.graphs.sums.multiply`.

    >>> make_game(np.eye(3, dtype=bool), 1.0 - np.eye(3)).kind == BANDIT
    True
    """

    kind: int
    top: Floats
    unit: Floats
    saved: Floats
    always: Flags
    observers: Flags
    revealing: Flags
    revealer: int
    saving: Sums
    seeing: Sums


def make_game(visible: Flags, costs: Floats) -> Game:
    """Return the game of a graph (N x K) with these costs (N x K)."""
    N, K = visible.shape
    top = np.ascontiguousarray(costs.max(axis=0))
    saved = np.ascontiguousarray((top - costs).T)
    always = np.logical_and.reduce(visible, axis=0)
    kind = ANY
    if (top > 0.0).all() and (saved[:, :K].diagonal() == top).all() and np.count_nonzero(saved) == K:
        if N == K and (visible == np.eye(K, dtype=bool)).all():
            kind = BANDIT
        elif (visible.all(axis=1) == visible.any(axis=1)).all():
            kind = REVEALING
    unit = np.divide(1.0, top, out=np.zeros(K), where=top > 0.0)
    revealing = np.logical_and.reduce(visible, axis=1)
    observers = np.ascontiguousarray(visible.T)
    # With the least entries P is a sum of probabilities, never a difference.
    sums = split(saved), split(observers.astype(np.float64), np.min)
    return Game(kind, top, unit, saved, always, observers, revealing, int(np.argmax(revealing)), *sums)


WANTS, PRICES, SLACK = range(barrier.OWN, barrier.OWN + 3)


@seldom
def worst(game: Game, losses: Floats, prices: Floats, p: Floats, room: Floats) -> float:
    """Return V(p), the maximum over the labels; `prices` are s_y, and `room` is for two numbers per label."""
    saved, seen = room[0], room[1]
    multiply(game.saving, p, saved)
    multiply(game.seeing, p, seen)
    found = -math.inf
    for y in range(losses.size):
        cost = game.top[y] - losses[y] - saved[y]
        if prices[y] > 0.0:
            cost += prices[y] / seen[y] if seen[y] > 0.0 else math.inf
        found = max(found, cost)
    return found


@helper
def least_play(game: Game, losses: Floats, prices: Floats, greedy: int, floor: float, work: Any, out: Floats) -> float:
    """Fill `out` with the least play for the least V that is at least `floor`, and return that V.

    :param losses: l_y.
    :param prices: s_y.
    :param greedy: the class that gets what is left.
    :param work: the scratch of :func:`gappletron.learners.exploration.barrier.work_space`.

    >>> from gappletron.kernel.state import Sizes, State
    >>> from gappletron.learners.exploration.barrier import work_space
    >>> game, out = make_game(np.eye(3, dtype=bool), 1.0 - np.eye(3)), np.zeros(3)
    >>> work = State(work_space(), Sizes(1, 3, 3)).tuple
    >>> l, s = np.array([0.5, 3.0, 3.0]), np.array([0.0, 0.02, 0.02])
    >>> float(least_play(game, l, s, 0, 0.0, work, out)), out.round(2)
    (0.0, array([0.98, 0.01, 0.01]))
    """
    wants, asked = work.labels[WANTS], work.labels[PRICES]
    V = floor
    for y in range(losses.size):
        wants[y] = game.top[y] - losses[y]
        asked[y] = prices[y]
        V = max(V, prices[y] - losses[y])  # no p costs less, since P <= 1
        if game.always[y]:
            wants[y] += prices[y]  # P = 1, also where the sum of p is less
            asked[y] = 0.0
    if game.kind == ANY:
        V = solve(game, floor, work, out)
    else:
        for y in range(losses.size):
            wants[y] *= game.unit[y]
            asked[y] *= game.unit[y]
        V = raise_value(game, V, greedy, wants, asked, out)
    total = 0.0
    for i in range(out.size):
        total += out[i]
    if total <= 1.0:
        out[greedy] += 1.0 - total
    else:
        for i in range(out.size):
            out[i] /= total
    return V


# --------------------------------------------------------------------------------------------------------- closed forms


@seldom
def raise_value(game: Game, V: float, greedy: int, wants: Floats, prices: Floats, out: Floats) -> float:
    """Newton's steps to m(V) = 1 from a V with m(V) >= 1, or none where m(V) <= 1.

    m is convex and falls, so no step passes the solution.
    """
    for _ in range(NEWTON_STEPS):
        if game.kind == BANDIT:
            mass, slope = bandit_mass(game, V, wants, prices, out)
        else:
            mass, slope = revealing_mass(game, V, greedy, wants, prices, out)
        if not mass > 1.0 + 1e-15:
            break
        higher = V + (mass - 1.0) / slope
        if not V < higher < math.inf:
            break
        V = higher
    return V


@helper
def bandit_root(b: float, s: float) -> float:
    """Return the p >= 0 with ``p = b + s/p``; for s = 0 the larger of b and 0."""
    root = math.sqrt(b * b + 4.0 * s)
    if b >= 0.0:
        return 0.5 * (b + root)
    return 2.0 * s / (root - b)


@helper
def bandit_mass(game: Game, V: float, wants: Floats, prices: Floats, out: Floats) -> tuple[float, float]:
    """Return m(V) and -m'(V) on the bandit graph, and the least p: the roots for ``b_y = (w_y - V) / c_y``."""
    mass = slope = 0.0
    for y in range(out.size):
        b, s = wants[y] - V * game.unit[y], prices[y]
        out[y] = bandit_root(b, s)
        mass += out[y]
        if out[y] > 0.0:
            slope += out[y] / math.sqrt(b * b + 4.0 * s) * game.unit[y]
    return mass, slope


@helper
def part_at(q: float, b: float, s: float) -> float:
    """``b + s/q``; what a class asks for, if positive, where labels are seen with probability q."""
    return b + s / max(q, SMALLEST) if s > 0.0 else b


@helper
def pull_at(q: float, s: float) -> float:
    """``s / q^2``: how fast that falls with q."""
    return s / q / q if s > 0.0 else 0.0


@seldom
def revealing_mass(
    game: Game, V: float, greedy: int, wants: Floats, prices: Floats, out: Floats
) -> tuple[float, float]:
    """m(V) and -m'(V) where actions show everything or nothing, and the least p.

    With q the probability of the actions that reveal, ``p_y = max(0, b_y + s_y / q)``. q minimises q + the sum of p_y
    over the classes that do not reveal, but is at least the sum of p_y over those that do.
    """
    free, weight = blind_optimum(game, V, wants, prices)
    q = revealing_root(game, V, free, wants, prices)
    bound = q > free
    mass, slope, pull, own, own_slope, own_pull = q, 0.0, 0.0, 0.0, 0.0, 1.0
    for i in range(out.size):
        out[i] = 0.0
    for y in range(game.top.size):
        b, s = wants[y] - V * game.unit[y], prices[y]
        part = part_at(q, b, s)
        if not bound and not game.revealing[y] and b < 0.0 and s > 0.0 and s / -b == q:
            slope += weight * game.unit[y]
        elif part > 0.0 and game.revealing[y]:
            out[y] = part
            own += part
            own_slope += game.unit[y]
            own_pull += pull_at(q, s)
        elif part > 0.0:
            out[y] = part
            mass += part
            slope += game.unit[y]
            pull += pull_at(q, s)
    if bound:
        slope += max(0.0, 1.0 - pull) * own_slope / own_pull
    # What no class asks for is revealed by the greedy class, if it reveals, else by the first action that does.
    out[greedy if game.revealing[greedy] else game.revealer] += max(0.0, q - own)
    return mass, slope


@helper
def blind_optimum(game: Game, V: float, wants: Floats, prices: Floats) -> tuple[float, float]:
    """Return the q that minimises ``q + sum max(0, b_y + s_y / q)`` over the classes that do not reveal.

    A class with b_y < 0 is active below its edge s_y / -b_y. So q is the root of the sum of s_y over the active
    classes, or an edge; then the second number is the multiplier in [0, 1] of the classes whose edge it is.
    """
    active, edge = 0.0, math.inf
    while True:
        before, edge, joining = edge, 0.0, 0.0
        for y in range(game.top.size):
            b = wants[y] - V * game.unit[y]
            at = prices[y] / -b if b < 0.0 else math.inf
            if game.revealing[y] or at == 0.0:
                continue
            if at == math.inf and before == math.inf:
                active += prices[y]
            elif edge < at < before:
                edge, joining = at, prices[y]
            elif at == edge:
                joining += prices[y]
        if math.sqrt(active) >= edge:
            return math.sqrt(active), 0.0
        if math.sqrt(active + joining) >= edge:
            return edge, (edge * edge - active) / joining
        active += joining


@helper
def revealing_root(game: Game, V: float, q: float, wants: Floats, prices: Floats) -> float:
    """Return the least number from `q` on that is at least ``sum max(0, b_y + s_y / q)`` over the classes that reveal.

    Newton's steps from the left, since the sum is convex and falls; for one class the start is the solution.
    """
    K = game.top.size
    for y in range(K):
        if game.revealing[y]:
            q = max(q, bandit_root(wants[y] - V * game.unit[y], prices[y]))
    for _ in range(NEWTON_STEPS):
        more, pull = -q, 1.0
        for y in range(K):
            if game.revealing[y]:
                part = part_at(q, wants[y] - V * game.unit[y], prices[y])
                if part > 0.0:
                    more += part
                    pull += pull_at(q, prices[y])
        higher = q + more / pull
        if not higher > q:
            break
        q = higher
    return q


# ------------------------------------------------------------------------------------------------------------ any graph


@seldom
def solve(game: Game, floor: float, work: Any, out: Floats) -> float:
    """As :func:`least_play` before it fills up, for any graph and any costs, to :data:`ACCURACY`."""
    p, N = work.actions[PLAY], out.size
    if not bound_sizes(game, work.labels[WANTS], work.labels[PRICES]):
        for i in range(N):
            out[i] = 1.0 / N
        return math.inf
    V = floor
    start = find_start(game, floor, work)
    for free in (False, True):
        if not free and start == math.inf:
            continue
        for i in range(N):
            p[i] = 1.0 / (N + 1.0) if free else start
        V = follow(game, find_feasible(game, work) if free else floor, free, work)
        mass = 0.0
        for i in range(N):
            mass += p[i]
            out[i] = p[i]
        if mass <= 1.0:
            break
    return V


@helper
def find_start(game: Game, V: float, work: Any) -> float:
    """Return a number that is strictly feasible for this V if every action is played with it; infinite where
    m(V) >= 1, since one label alone asks for that, or where V has no lower bound.
    """
    wants, prices = work.labels[WANTS], work.labels[PRICES]
    start = 0.0
    for y in range(game.top.size):
        saved = shown = best = 0.0
        for i in range(game.observers.shape[1]):
            saved += game.saved[y, i]
            best = max(best, game.saved[y, i])
            shown += 1.0 if game.observers[y, i] else 0.0
        if -math.inf == V or wants[y] - V >= best:
            return math.inf
        if saved > 0.0:
            start = max(start, bandit_root((wants[y] - V) / saved, prices[y] / shown / saved))
    return 2.0 * start + 1.0 / game.observers.shape[1]


@helper
def find_feasible(game: Game, work: Any) -> float:
    """Return a V for which the p in the row PLAY is strictly feasible."""
    find_slacks(game, 0.0, work)
    highest = -math.inf
    for y in range(game.top.size):
        highest = max(highest, -work.labels[SLACK, y])
    return highest + max(0.1, 0.1 * abs(highest))


@helper
def bound_sizes(game: Game, wants: Floats, prices: Floats) -> bool:
    """Whether the numbers are of sizes that the interior point method can handle; very small ones are replaced.

    A larger w_y or s_y asks for more, so p stays valid.
    """
    for y in range(game.top.size):
        if not prices[y] < LARGEST:
            return False
        if prices[y] > 0.0:
            prices[y] = max(prices[y], 1.0 / LARGEST / LARGEST)
        wants[y] = max(wants[y], -LARGEST)
    return True


@helper
def find_slacks(game: Game, V: float, work: Any) -> None:
    """Find P_p(y), what p saves beyond ``w_y - V``, and the slack of the constraint of every label y."""
    seen, saved = work.labels[barrier.SEEN], work.labels[barrier.SAVED]
    wants, prices, slack = work.labels[WANTS], work.labels[PRICES], work.labels[SLACK]
    barrier.measure(game, work.actions[PLAY], 0.0, seen, saved)
    for y in range(game.top.size):
        saved[y] = saved[y] + V - wants[y]
        slack[y] = saved[y] - (prices[y] / seen[y] if prices[y] > 0.0 else 0.0)


@seldom
def follow(game: Game, V: float, free: bool, work: Any) -> float:
    """An interior point method: the least V with sum p <= 1 if V is `free`, else the least sum of p for this V.

    From a strictly feasible p, in ``work.actions[PLAY]``, and V it follows the minimum of ``tau * objective + barrier``
    for a growing tau by damped Newton steps. The barrier, ``- sum_i ln p_i - sum_y ln(slack_y) - sum_y ln P_p(y)``, and
    with a free V ``- ln(1 - sum_i p_i)``, is self-concordant: it is that of the cones ``u P >= s``. So theta/tau, with
    theta its number of terms, bounds the distance to the optimum. Every p on the way is feasible.

    Where tau has just grown by a factor g, the step is at most 1/g of Newton's. The path is nearly linear in 1/tau, and
    its tangent, as far as the new tau, is that part of the step: a p_i that falls as 1/tau lands where it should.
    """
    p, step = work.actions[PLAY], work.actions[STEP]
    N, K = game.observers.shape[1], game.observers.shape[0]
    theta = float(N + K + 1)
    for y in range(K):
        theta += 1.0 if work.labels[PRICES, y] > 0.0 else 0.0
    tau = 0.0
    for _ in range(BARRIER_STEPS):
        if not differentiate(game, V, free, work):
            return V
        mass = pull = bent = 0.0
        for i in range(N):
            mass += p[i]
        for y in range(K):
            pull += 1.0 / work.labels[SLACK, y]
            bent += 1.0 / work.labels[SLACK, y] / work.labels[SLACK, y]
        barrier.factorise(work.matrix, work.actions[barrier.PIVOTS])
        bent = eliminate_play(bent, free, work)
        if tau == 0.0:
            tau = pull if free else theta / mass
        grown = 1.0
        while True:
            dV, decrement = direction(tau, pull, bent, free, work)
            if not decrement < barrier.NEAR:
                break
            if theta <= tau * ACCURACY * max(1.0, abs(V) if free else mass):
                return V
            if not free and mass - 2.0 * theta / tau > 1.0:
                return V  # the least sum is above 1: V must rise
            tau *= GROWTH
            grown *= GROWTH
        size = step_size(game, dV, tau, decrement, free, 1.0 / grown, work)
        if not size > 0.0:
            return V
        V += size * dV
        for i in range(N):
            p[i] += size * step[i]
    return V


@helper
def eliminate_play(bent: float, free: bool, work: Any) -> float:
    """Return the second derivative by V that is left where p follows V; that of p by V goes to the row SOLVED."""
    column, solved = work.actions[barrier.COLUMN], work.actions[barrier.SOLVED]
    for i in range(column.size):
        solved[i] = column[i] if free else 0.0
    barrier.back_substitute(work.matrix, work.actions[barrier.PIVOTS], solved)
    for i in range(column.size):
        bent -= column[i] * solved[i]
    return bent


@helper
def direction(tau: float, pull: float, bent: float, free: bool, work: Any) -> tuple[float, float]:
    """Newton's step for this tau: that of p goes to the row STEP, that of V and the squared decrement are returned."""
    step, gradient = work.actions[STEP], work.actions[barrier.GRADIENT]
    column, solved = work.actions[barrier.COLUMN], work.actions[barrier.SOLVED]
    each = 0.0 if free else tau
    for i in range(step.size):
        step[i] = gradient[i] + each
    barrier.back_substitute(work.matrix, work.actions[barrier.PIVOTS], step)
    dV = 0.0
    if free:
        along = tau - pull
        for i in range(step.size):
            along -= column[i] * step[i]
        dV = -along / bent
    decrement = -dV * (tau - pull)
    for i in range(step.size):
        step[i] = -step[i] - solved[i] * dV
        decrement -= (gradient[i] + each) * step[i]
    return dV, decrement


@seldom
def differentiate(game: Game, V: float, free: bool, work: Any) -> bool:
    """The gradient of the barrier by p, its second derivatives (the lower half) and those by p and V.

    False where a constraint is met to within rounding errors only.
    """
    p, room = work.actions[PLAY], 1.0
    for i in range(p.size):
        room -= p[i]
    if free and not room > 0.0:
        return False
    barrier.begin_derivatives(work, 1.0 / room if free else 0.0)
    find_slacks(game, V, work)
    for y in range(game.top.size):
        if not work.labels[SLACK, y] > 0.0:
            return False
        add_label(game, y, work)
    return True


@helper
def add_label(game: Game, y: int, work: Any) -> None:
    """Add the terms of label y to the derivatives of the barrier. The rows STEP and SOLVED are free meanwhile."""
    gradient, column = work.actions[barrier.GRADIENT], work.actions[barrier.COLUMN]
    first, second = work.actions[STEP], work.actions[barrier.SOLVED]  # whose outer products are the second derivatives
    s, P, r = work.labels[PRICES, y], work.labels[barrier.SEEN, y], 1.0 / work.labels[SLACK, y]
    pull = shown = bend = 0.0
    if s > 0.0:
        pull, shown = s / P / P, 1.0 / P
        bend = math.sqrt(2.0 * pull / P * r + shown * shown)
    for i in range(gradient.size):
        sees = 1.0 if game.observers[y, i] else 0.0
        first[i] = (game.saved[y, i] + sees * pull) * r
        second[i] = sees * bend
        gradient[i] -= first[i] + sees * shown
        column[i] += first[i] * r
    for i in range(gradient.size):
        if first[i] != 0.0:  # else the action neither saves nor shows anything here
            add_products(work.matrix[i], first[i], first, second[i], second, i + 1)


@helper
def add_products(line: Floats, a: float, first: Floats, b: float, second: Floats, stop: int) -> None:
    """Add ``a first + b second`` to a line, up to an entry; on its own, so that the compiler makes vectors of it."""
    for j in range(stop):
        line[j] += a * first[j] + b * second[j]


@seldom
def step_size(game: Game, dV: float, tau: float, decrement: float, free: bool, most: float, work: Any) -> float:
    """Return the length of a Newton step: at most `most`, feasible, and not far behind the minimum along it; or 0."""
    p, step, prices = work.actions[PLAY], work.actions[STEP], work.labels[PRICES]
    seen, saved = work.labels[barrier.SEEN], work.labels[barrier.SAVED]
    seen_step, saved_step = work.labels[barrier.SEEN_STEP], work.labels[barrier.SAVED_STEP]
    size, total, room = min(most, barrier.longest_step(work)), 0.0, 1.0
    for i in range(p.size):
        total += step[i]
        room -= p[i]
    if free and total > 0.0:
        size = min(size, 0.99 * room / total)
    barrier.measure(game, step, dV, seen_step, saved_step)
    for _ in range(barrier.LINE_STEPS):
        slope = tau * (dV if free else total) + (total / (room - size * total) if free else 0.0)
        slope = barrier.add_slopes(work, size, slope)
        for y in range(game.top.size):
            s, pull, slack = prices[y], saved_step[y], saved[y] + size * saved_step[y]
            if s > 0.0:
                P = seen[y] + size * seen_step[y]
                slack -= s / P
                pull += s / P / P * seen_step[y]
                slope -= seen_step[y] / P
            slope = slope - pull / slack if slack > 0.0 else math.inf
        if slope <= 0.5 * decrement:
            return size
        size *= barrier.SHORTER
    return 0.0
