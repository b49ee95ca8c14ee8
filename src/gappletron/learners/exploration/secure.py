"""Securing a distribution: change p as little as is needed for the guard's theorem: ``V_t(p) <= C a_t``, where a_t is
gamma_t, or more while a change is suspected.

``V(p) = max_y { sum_i p_i C[i, y] - l_y + s_y / P_p(y) }`` for losses l and stabilities s of the labels, costs C that
are 0 for the right class, and the probability P_p(y) that label y is shown (docs, page Guard). There are closed forms
for the bandit graph, for full information and for actions that reveal; elsewhere p is mixed with a distribution that is
known to do.
"""

import math
from typing import Any

from gappletron.graphs.graph import GraphArrays, Plan
from gappletron.kernel.pieces import helper, seldom
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.minimax import ANY, BANDIT, REVEALING, Game, bandit_root, worst

BISECTIONS = 40

# Where a comparison holds by this much, relative to its terms, it holds whatever the rounding errors are.
CLEARLY = 1e-9


@helper
def value(game: Game, losses: Floats, prices: Floats, p: Floats, room: Floats) -> float:
    """V(p): :func:`~gappletron.learners.exploration.minimax.worst`, in O(K) where each action shows itself, or all."""
    if game.kind not in (BANDIT, REVEALING):
        return worst(game, losses, prices, p, room)
    seen = 0.0
    if game.kind == REVEALING:
        for i in range(p.size):
            if game.revealing[i]:
                seen += p[i]
    found = -math.inf
    for y in range(losses.size):
        cost = game.top[y] * (1.0 - p[y]) - losses[y]
        if prices[y] > 0.0:
            P = p[y] if game.kind == BANDIT else seen
            cost += prices[y] / P if P > 0.0 else math.inf
        found = max(found, cost)
    return found


@seldom
def secure(state: Any, plan: Plan, greedy: int, is_late: bool, out: Floats) -> None:
    """Change p as little as is needed for ``V_t(p) <= C a_t``; for late feedback half of gamma_t is left for its price
    in the distribution that is known to do.

    Where y* shows itself, a_t is gamma_t: there a change shows as errors.
    """
    game, losses, prices = plan.table.game, state.losses, state.prices
    gamma, allowed = state.rates[0], state.rates[3]
    most = plan.table.largest * (gamma if plan.graph.visible[greedy, greedy] else allowed)
    if game.kind == BANDIT:
        secure_bandit(game, losses, prices, greedy, most, out)
        return
    if game.kind == REVEALING and not game.revealing[greedy]:
        secure_revealing(game, plan.graph, losses, prices, greedy, most, out)
        return
    if game.kind == REVEALING and plan.table.is_full and secure_full(game, losses, prices, greedy, out):
        return
    # Where y* reveals, playing it for certain has V <= most.
    if (game.kind == ANY or out[greedy] < 1.0) and value(game, losses, prices, out, state.room) > most:
        gamma *= 0.5 if is_late else 1.0
        arrays = (losses, prices, state.safe, state.candidate, state.room)
        mix_with_safe(game, plan.graph.dominating, arrays, greedy, gamma, most, out)


@helper
def secure_bandit(game: Game, losses: Floats, prices: Floats, greedy: int, most: float, out: Floats) -> None:
    """Each other class gets at least what it needs, and all together at most what the greedy class can give."""
    total, enough = 0.0, True
    for y in range(losses.size):
        if y != greedy:
            enough = enough and has_enough(game.unit, losses, prices, y, most, out[y])
            total += out[y]
    if enough and has_enough(game.unit, losses, prices, greedy, most, 1.0 - total - CLEARLY):
        out[greedy] = max(0.0, 1.0 - total)
    else:
        give_needs(game.unit, losses, prices, greedy, most, out)


@helper
def has_enough(unit: Floats, losses: Floats, prices: Floats, y: int, most: float, p: float) -> bool:
    """Whether p is clearly more than :func:`find_need`, without a root: as it is in nearly all rounds."""
    b, s = 1.0 - (losses[y] + most) * unit[y], prices[y] * unit[y]
    return p > 0.0 and p * (p - b) > s + CLEARLY * (p * (p + abs(b)) + s)


@seldom
def give_needs(unit: Floats, losses: Floats, prices: Floats, greedy: int, most: float, out: Floats) -> None:
    """As :func:`secure_bandit`, where some class has too little."""
    needs = total = 0.0
    for y in range(losses.size):
        if y != greedy:
            need = find_need(unit, losses, prices, y, most)
            needs += need
            out[y] = max(out[y], need)
            total += out[y]
    can_give = max(0.0, 1.0 - find_need(unit, losses, prices, greedy, most))
    if total > can_give and total > needs:
        factor = max(0.0, (can_give - needs) / (total - needs))
        total = 0.0
        for y in range(losses.size):
            if y != greedy:
                need = find_need(unit, losses, prices, y, most)
                out[y] = need + factor * (out[y] - need)
                total += out[y]
    out[greedy] = max(0.0, 1.0 - total)


@helper
def find_need(unit: Floats, losses: Floats, prices: Floats, y: int, most: float) -> float:
    """The least p_y with ``c (1 - p_y) - l_y + s_y / p_y <= most``."""
    return bandit_root(1.0 - (losses[y] + most) * unit[y], prices[y] * unit[y])


@helper
def secure_full(game: Game, losses: Floats, prices: Floats, greedy: int, out: Floats) -> bool:
    """Fill in ``p_y >= max(0, 1 - l_y + s_y)``, so that V <= 0, and return True; False, and nothing is changed, where
    these add up to more than 1: where stabilities are large, feedback is late, or much else was proposed.
    """
    needed = max(0.0, 1.0 - (losses[greedy] - prices[greedy]) * game.unit[greedy])
    total = 0.0
    for y in range(losses.size):
        if y != greedy:
            total += max(out[y], 1.0 - (losses[y] - prices[y]) * game.unit[y])
    for i in range(losses.size, out.size):
        total += out[i]
    if total + needed > 1.0 + CLEARLY:
        return False
    for y in range(losses.size):
        if y != greedy:
            out[y] = max(out[y], 1.0 - (losses[y] - prices[y]) * game.unit[y])
    out[greedy] = max(0.0, 1.0 - total)
    return True


@helper
def secure_revealing(
    game: Game, graph: GraphArrays, losses: Floats, prices: Floats, greedy: int, most: float, out: Floats
) -> None:
    """The probability q of the actions that reveal, in the interval that the labels allow.

    Other labels ask for ``q >= s_y / (most + l_y - c_y)``, and the greedy class for q between the roots of
    ``c q^2 - (most + l) q + s``.
    """
    seen = 0.0
    for i in range(out.size):
        if game.revealing[i]:
            seen += out[i]
    low = 0.0
    for y in range(losses.size):
        if y != greedy and prices[y] > 0.0:
            low = max(low, prices[y] / (most + losses[y] - game.top[y]))
    c, half = game.top[greedy], 0.5 * (most + losses[greedy])
    root = math.sqrt(max(0.0, half * half - c * prices[greedy]))
    low = max(low, prices[greedy] / (half + root))
    q = min(max(seen, low), max(low, min(1.0, (half + root) / c)))
    for i in range(out.size):
        if game.revealing[i]:
            out[i] = out[i] * (q / seen) if seen > 0.0 else 0.0
        elif i != greedy:
            out[i] = 0.0
    if seen == 0.0:
        out[graph.dominating[0]] = q
    out[greedy] = max(0.0, 1.0 - q)


@seldom
def mix_with_safe(
    game: Game, dominating: Any, arrays: tuple[Floats, ...], greedy: int, gamma: float, most: float, out: Floats
) -> None:
    """Mix p with the distribution of the lemma, ``(1 - q) e_{y*} + q/rho 1_D`` with ``q = max(gamma, l_{y*})``, for
    which V <= C gamma: as little as is needed, since V is convex. `arrays`: losses, stabilities, and room for two
    distributions and for V.
    """
    losses, prices, safe, p, room = arrays
    c = game.top[greedy]
    q = min(1.0, max(gamma, losses[greedy] / c if c > 0.0 else 1.0))
    for i in range(out.size):
        safe[i] = 0.0
    safe[greedy] = 1.0 - q
    for s in range(dominating.size):
        safe[dominating[s]] += q / dominating.size
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        for i in range(out.size):
            p[i] = (1.0 - middle) * out[i] + middle * safe[i]
        if value(game, losses, prices, p, room) <= most:
            high = middle
        else:
            low = middle
    for i in range(out.size):
        out[i] = (1.0 - high) * out[i] + high * safe[i]
