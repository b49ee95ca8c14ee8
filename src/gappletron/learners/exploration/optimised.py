"""Exploration by optimisation: the distribution that makes the bound of the round smallest (docs, page Optimised)."""

from typing import Any

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import GOLDEN
from gappletron.kernel.pieces import NotNegative, seldom
from gappletron.kernel.state import Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.barrier import work_space
from gappletron.learners.exploration.minimax import ANY, Game, least_play, make_game, worst
from gappletron.learners.exploration.rules import Exploration, Outlook


class Optimised(Exploration):
    """Plays the p that makes ``max_y { sum_i p_i C[i, y] - l_t(W_t, y) + S_t(grad l_t(W_t, y)) / P_p(y) }`` least.

    C is the cost of an action where the label is y (1 for a mistake), ``P_p(y)`` the probability that p reveals y, and
    S_t the stability of the optimizer times `caution`. Call the maximum V_t(p). With ``caution=1`` and an optimizer
    whose stability is proved, the expected cost is at most ``sum l_t(U) + B_T(U) + sum max(0, V_t(p_t))`` on every
    graph and for every convex loss. With less it explores less, without a theorem. Where V_t can be at most 0, it plays
    the smallest p with ``V_t(p) <= 0`` and gives what is left to the greedy class (docs, page Optimised, with the
    proof).

    :meth:`explore` returns ``max(0, V_t)`` as the rate, so ``rate_sum`` of a run is the last sum of the bound.

    >>> from gappletron import AdaGrad, Gappletron, SmoothHinge, play
    >>> learner = Gappletron(SmoothHinge(), AdaGrad(rate=0.1), Optimised())
    >>> play(learner, "synthetic:K=3,d=40,noise=0,T=2000", "label-efficient")[0].error_rate < 0.2
    True
    """

    caution: NotNegative = 0.1

    needs_stability = True
    needs_loss = True
    uses_costs = True

    def declare(self) -> Layout:
        """The losses and stabilities of the labels, and room for computing them and p."""
        return {
            "losses": Scratch("classes"),
            "prices": Scratch("classes"),
            "direction": Scratch("classes"),
            "room": Scratch(2, "classes"),
            "candidate": Scratch("actions"),
            "work": work_space(),
        }

    def table(self, graph: FeedbackGraph) -> Game:
        return make_game(graph.visible, graph.costs)

    def prepare(self, state: Any, plan: Plan, outlook: Outlook, loss: Any, scores: Floats, work: Floats) -> None:
        loss.values_with(scores, outlook.greedy, work, state.losses)
        price_labels(state, outlook, loss, scores, work)
        for y in range(scores.size):
            c = plan.table.top[y]
            state.losses[y] *= c
            state.prices[y] *= self.caution * max(c, c * c)  # at least the stability of c times the gradient

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        game = plan.table
        V = least_play(game, state.losses, state.prices, greedy, 0.0, state.work, out)
        if game.kind == ANY and V > 0.0:
            V = worst(game, state.losses, state.prices, out, state.room)
            for a in (gap, 0.0):
                V = better_mixture(state, plan, greedy, a, V, out)
        return max(0.0, V)

    def label_weight(self, plan: Plan, y: int) -> float:
        return plan.table.top[y]


@seldom
def price_labels(state: Any, outlook: Outlook, loss: Any, scores: Floats, work: Floats) -> None:
    """Fill `state.prices` with S_t of the gradient of every label's loss.

    A share of a class is computed again only where the size of the derivative is not that of the label before. The
    gradients of hinges have two entries, and those of logistic losses for two labels differ in two: so there are O(K)
    shares, and all labels together cost O(nnz(x) K).
    """
    sizes, shares, direction = state.room[0], state.room[1], state.direction
    optimizer, memory = outlook.optimizer, outlook.memory
    K = scores.size
    for k in range(K):
        sizes[k] = 0.0
        shares[k] = 0.0
    for y in range(K):
        loss.gradient_with(scores, outlook.greedy, y, work, direction)
        total = 0.0
        for k in range(K):
            size = abs(direction[k])
            if size > 0.0:
                if size != sizes[k]:
                    sizes[k] = size
                    shares[k] = optimizer.share(memory, outlook.x, k, size)
                total += shares[k]
        state.prices[y] = optimizer.stability(memory, total)


@seldom
def better_mixture(state: Any, plan: Plan, greedy: int, gap: float, V: float, out: Floats) -> float:
    """Put the p of the rule TopUp with the best rate in `out`, if its V is less; return the lower V.

    These are the mixtures ``(1-c) b + (c/rho) 1_S`` with ``b = (1-a) e_{y*} + (a/K) 1_[K]``, along which V is convex: a
    search by golden sections. With the gap a = 0 they are those of Algorithm 1. So the play is never worse than the two
    rules, not even by the accuracy of the solver.
    """
    low, high = 0.0, 1.0
    found, best = mix(state, plan, greedy, gap, 0.0), 0.0
    left, right = high - GOLDEN, low + GOLDEN
    at_left, at_right = mix(state, plan, greedy, gap, left), mix(state, plan, greedy, gap, right)
    for _ in range(45):
        if at_left <= at_right:
            if at_left < found:
                found, best = at_left, left
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = mix(state, plan, greedy, gap, left)
        else:
            if at_right < found:
                found, best = at_right, right
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = mix(state, plan, greedy, gap, right)
    if not found < V:
        return V
    mix(state, plan, greedy, gap, best)
    for i in range(out.size):
        out[i] = state.candidate[i]
    return found


@seldom
def mix(state: Any, plan: Plan, greedy: int, gap: float, c: float) -> float:
    """Fill the candidate with ``p = (1-c) b + (c/rho) 1_S``, and return its V."""
    p, dominating = state.candidate, plan.graph.dominating
    K, rho = state.losses.size, dominating.size
    for i in range(p.size):
        p[i] = (1.0 - c) * (gap / K) if i < K else 0.0
    p[greedy] += (1.0 - c) * (1.0 - gap)
    for s in range(rho):
        p[dominating[s]] += c / rho
    return worst(plan.table, state.losses, state.prices, p, state.room)
