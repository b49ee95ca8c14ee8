"""Exploration: from the gap a_t and the rate gamma_t to the distribution p_t over actions that is played.

``gamma_t = min(1/2, gamma / sqrt(n_t))`` where n_t counts the rounds so far whose y* does not reveal, and gamma_t = 0
when y* reveals (Algorithm 1, lines 4 to 8). :class:`Optimised` has no gamma: it looks at the loss of every label and at
the stability of the optimizer instead.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gappletron._dispatch import Piece, compiled, helper, seldom
from gappletron._validate import number
from gappletron.minimax import ANY, Game, game_of, least_play, work_space, worst
from gappletron.state import Field, Scratch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gappletron.graphs import FeedbackGraph, GraphArrays, Plan
    from gappletron.numerics import Floats, Row
    from gappletron.state import Layout

__all__ = ["Exploration", "Optimised", "Paper", "TopUp"]


class Exploration(Piece, abstract=True):
    """The family of exploration rules.

    >>> from gappletron import FeedbackGraph, Paper, TopUp
    >>> import numpy as np
    >>> from gappletron.graphs import Plan
    >>> from gappletron.state import Sizes, State
    >>> graph, p = FeedbackGraph.apple_tasting(), np.zeros(2)
    >>> for rule in TopUp(gamma=0.3), Paper(gamma=0.3):
    ...     state = State(rule.declare(), Sizes(1, 2, 2)).tuple
    ...     rate = rule.explore(state, Plan(graph.arrays, rule.table(graph)), 1, 0.3, p)
    ...     print(p.round(3), "sees a label with probability", p[0].round(3))
    [0.3 0.7] sees a label with probability 0.3
    [0.15 0.85] sees a label with probability 0.15
    """

    def declare(self) -> Layout:
        """The fields of the state; none by default."""
        return {}

    def table(self, graph: FeedbackGraph) -> Any:
        """What the rule derives from the graph alone, for :attr:`Plan.table`."""
        return ()

    needs_stability: ClassVar[bool] = False
    """Whether the rule can only be used with a loss, and with an optimizer that states its stability."""

    needs_estimates: ClassVar[bool] = False
    """Whether the rule can only be used with a learner that estimates how likely each label is."""

    uses_costs: ClassVar[bool] = False
    """Whether a loss of the label, with this rule, minimises the costs of the graph."""

    has_gamma: ClassVar[bool] = True
    """Whether :meth:`tuned` sets anything."""

    @compiled
    def prepare(
        self,
        state: Any,
        plan: Plan,
        loss: Any,
        optimizer: Any,
        memory: Any,
        x: Row,
        scores: Floats,
        greedy: int,
        work: Floats,
    ) -> None:
        """Write into the state's scratch what :meth:`explore` needs to know beyond the gap; nothing by default.

        `memory` is the state of the optimizer, and `work` what ``loss.gap_with`` has left there.
        """

    @compiled
    def appraise(
        self,
        state: Any,
        plan: Plan,
        optimizer: Any,
        memory: Any,
        x: Row,
        estimates: Floats,
        sharpness: float,
        greedy: int,
    ) -> None:
        """As :meth:`prepare`, for a learner that estimates how likely each label is; nothing by default.

        With costs the estimates are ``softmax(sharpness * scores)``.
        """

    @compiled
    def label_weight(self, plan: Plan, y: int) -> float:
        """By how much the loss of label `y` is multiplied before its gradient goes to the optimizer; 1 by default."""
        return 1.0

    @abstractmethod
    @compiled
    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        """Fill `out` with p_t and return gamma_t; changes nothing else."""

    @compiled
    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        """Count the round, once it is played; nothing by default."""

    @compiled
    def count_feedback(self, state: Any, plan: Plan, action: int) -> None:
        """Count the feedback on an action, once it is there; nothing by default."""

    def tuned(self, gamma: float) -> Exploration:
        """The same rule with another gamma; itself, where it has none."""
        return self

    def theorem_refusal(self, graph: FeedbackGraph) -> str | None:
        """Why the theorems do not apply to this rule on this graph, as the end of a sentence; None where they do.

        They apply to a rule with a field `gamma` that shows every label with probability at least ``gamma_t /
        effective_rho(graph)`` in every round, and for which Lemma 1 holds.
        """
        return f"needs the exploration rule TopUp or Paper, not {self!r}"

    def effective_rho(self, graph: FeedbackGraph) -> int:
        """rho', which stands for rho in the bounds and in their gamma."""
        return graph.rho


class Decaying(Exploration, abstract=True):
    """Rules with the rate ``gamma_t = min(1/2, gamma / sqrt(n_t))``; `blind` counts n_t."""

    gamma: float

    def declare(self) -> Layout:
        return {"blind": Field(dtype="int64", least=0)}

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        if not plan.graph.revealing[greedy]:
            state.blind[0] += 1


@helper
def exploration_rate(state: Any, plan: Plan, greedy: int, gamma: float) -> float:
    """gamma_t, where this round is one more than the state has counted."""
    if plan.graph.revealing[greedy]:
        return 0.0
    return min(0.5, gamma / math.sqrt(state.blind[0] + 1))


class TopUpTable(NamedTuple):
    """What the classes look like from each y*: rows ``first[y*]`` to ``first[y* + 1]`` of the other three."""

    first: NDArray[np.int64]
    shown: Floats
    observers: Floats
    cover: Floats


class TopUp(Decaying):
    """The least exploration of the dominating set S that makes every label visible often enough; the default.

    With ``b = (1-a) e_{y*} + (a/K) 1_[K]`` and ``o(y) = sum_i b(i) A[i, y]``, it plays ``p = (1-c) b + (c/rho) 1_S``
    for the smallest ``c >= 0`` with ``P_t(y observed) >= gamma_t/rho`` for every y. So the paper's expectation theorem
    holds as stated on every graph, which it does not with the rule of Algorithm 1 (docs, page Exploration, with the
    proof).

    >>> TopUp()
    TopUp(gamma=1.0)
    """

    gamma: float = 1.0

    def check(self) -> None:
        number(self.gamma, "TopUp's gamma", least=0.0)

    def table(self, graph: FeedbackGraph) -> TopUpTable:
        return profiles(graph)

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        graph, table = plan.graph, plan.table
        rate = exploration_rate(state, plan, greedy, self.gamma)
        K = graph.visible.shape[1]
        rho = graph.dominating.size
        wanted = rate / rho
        c = 0.0
        for q in range(table.first[greedy], table.first[greedy + 1]):
            o = (1.0 - gap) * table.shown[q] + gap / K * table.observers[q]
            if o < wanted:
                c = max(c, (wanted - o) / (table.cover[q] / rho - o))
        for i in range(K):
            out[i] = (1.0 - c) * (gap / K)
        for i in range(K, out.size):
            out[i] = 0.0
        out[greedy] += (1.0 - c) * (1.0 - gap)
        if c > 0.0:
            for s in range(rho):
                out[graph.dominating[s]] += c / rho
        return rate

    def tuned(self, gamma: float) -> TopUp:
        return TopUp(gamma)

    def theorem_refusal(self, graph: FeedbackGraph) -> None:
        return None


@functools.lru_cache(maxsize=32)
def profiles(graph: FeedbackGraph) -> TopUpTable:
    """What TopUp needs to know of the classes, once per graph.

    Seen from y*, all that matters of a class y is whether y* shows it, n_y = |in(y) n [K]| and k_y = |in(y) n S|; and c
    grows when any of the three falls. So only the minimal triples need a look in a round: one on the bandit graph.
    """
    K = graph.n_classes
    visible = graph.visible[:K]
    n, k = visible.sum(axis=0), graph.visible[list(graph.dominating_indices)].sum(axis=0)
    pairs, which = np.unique(np.column_stack([n, k]), axis=0, return_inverse=True)  # sorted by n, then by k
    members = np.zeros((K, len(pairs)), np.float32)
    members[np.arange(K), which.ravel()] = 1.0
    # For each y* and pair, whether a class with it is hidden from y*, or shown; then the least k among the pairs before
    # it.
    hidden, shown = (~visible).astype(np.float32) @ members > 0, visible.astype(np.float32) @ members > 0
    cover = pairs[:, 1].astype(np.float32)
    least_hidden, least_shown = (
        np.minimum.accumulate(np.where(here, cover, np.inf), axis=1) for here in (hidden, shown)
    )
    before = np.full((K, 1), np.inf)
    keep_hidden = hidden & (cover < np.hstack([before, least_hidden[:, :-1]]))
    keep_shown = shown & (cover < np.hstack([before, least_shown[:, :-1]])) & (cover < least_hidden)
    keep = np.hstack([keep_hidden, keep_shown])
    first = np.concatenate([[0], np.cumsum(keep.sum(axis=1))]).astype(np.int64)
    columns = np.nonzero(keep)[1]
    table = np.vstack([np.repeat([[0], [1]], len(pairs), axis=0).T, np.tile(pairs.T, 2)]).astype(np.float64)
    found = TopUpTable(first, *(np.ascontiguousarray(row[columns]) for row in table))
    for array in found:
        array.setflags(write=False)
    return found


class Paper(Decaying):
    """Algorithm 1 exactly, line 10, for reproduction: uniform where gamma_t <= a_t, else the dominating set.

    ``p = (1 - zeta a - (1-zeta) gamma_t) e_{y*} + zeta a/N 1 + (1-zeta) gamma_t/rho 1_S`` with ``zeta = 1[gamma_t <=
    a]``. "Uniform" is over all N actions (the paper has N = K; with an extra action nothing would ever be observed
    otherwise). For rho < K its theorem needs rho replaced by K (docs, page Errata).

    >>> Paper(gamma=2)
    Paper(gamma=2.0)
    """

    gamma: float = 1.0

    def check(self) -> None:
        number(self.gamma, "Paper's gamma", least=0.0)

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        graph = plan.graph
        rate = exploration_rate(state, plan, greedy, self.gamma)
        N = out.size
        if rate <= gap:
            for i in range(N):
                out[i] = gap / N
            out[greedy] += 1.0 - gap
        else:
            rho = graph.dominating.size
            for i in range(N):
                out[i] = 0.0
            out[greedy] = 1.0 - rate
            for s in range(rho):
                out[graph.dominating[s]] += rate / rho
        return rate

    def tuned(self, gamma: float) -> Paper:
        return Paper(gamma)

    def theorem_refusal(self, graph: FeedbackGraph) -> str | None:
        if graph.n_actions > graph.n_classes:
            return (
                "is not proved for Algorithm 1 with an extra action, whose uniform draw is over all actions: use TopUp"
            )
        if graph.rho < graph.n_classes and not graph.is_full_information:
            return "is proved for Algorithm 1's rule with K in place of rho, also in gamma: use TopUp"
        return None

    def effective_rho(self, graph: FeedbackGraph) -> int:
        return graph.n_actions  # erratum 2


class Optimised(Exploration):
    """Plays the p that makes ``max_y { sum_i p_i C[i, y] - l_t(W_t, y) + S_t(grad l_t(W_t, y)) / P_p(y) }`` least.

    C is the cost of an action where the label is y (1 for a mistake), ``P_p(y)`` the probability that p shows y, and
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

    caution: float = 0.1

    needs_stability = True
    has_gamma = False
    uses_costs = True

    def check(self) -> None:
        number(self.caution, "Optimised's caution", least=0.0)

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
        return game_on(graph)

    def prepare(
        self,
        state: Any,
        plan: Plan,
        loss: Any,
        optimizer: Any,
        memory: Any,
        x: Row,
        scores: Floats,
        greedy: int,
        work: Floats,
    ) -> None:
        loss.values_with(scores, greedy, work, state.losses)
        stabilities(loss, optimizer, memory, x, scores, greedy, work, state.direction, state.room, state.prices)
        for y in range(scores.size):
            c = plan.table.top[y]
            state.losses[y] *= c
            state.prices[y] *= self.caution * max(c, c * c)  # at least the stability of c times the gradient

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        graph, game = plan.graph, plan.table
        V = least_play(game, graph.observers, graph.revealing, state.losses, state.prices, greedy, 0.0, state.work, out)
        if game.kind == ANY and V > 0.0:
            V = worst(game, graph.observers, state.losses, state.prices, out)
            for a in (gap, 0.0):
                V = better_mixture(graph, game, state.losses, state.prices, state.candidate, greedy, a, V, out)
        return max(0.0, V)

    def label_weight(self, plan: Plan, y: int) -> float:
        return plan.table.top[y]


@functools.lru_cache(maxsize=32)
def game_on(graph: FeedbackGraph) -> Game:
    """What :class:`Optimised` needs to know of a graph."""
    return game_of(graph.visible, graph.costs)


@seldom
def stabilities(
    loss: Any,
    optimizer: Any,
    memory: Any,
    x: Row,
    scores: Floats,
    greedy: int,
    work: Floats,
    direction: Floats,
    room: Floats,
    out: Floats,
) -> None:
    """S_t of the gradient of every label's loss.

    A share of a class is computed again only where the size of the derivative is not that of the label before. The
    gradients of hinges have two entries, and those of logistic losses for two labels differ in two: so there are O(K)
    shares, and all labels together cost O(nnz(x) K).
    """
    sizes, shares = room[0], room[1]
    K = scores.size
    for k in range(K):
        sizes[k] = 0.0
        shares[k] = 0.0
    for y in range(K):
        loss.gradient_with(scores, greedy, y, work, direction)
        total = 0.0
        for k in range(K):
            size = abs(direction[k])
            if size > 0.0:
                if size != sizes[k]:
                    sizes[k] = size
                    shares[k] = optimizer.share(memory, x, k, size)
                total += shares[k]
        out[y] = optimizer.stability(memory, total)


@seldom
def better_mixture(
    graph: GraphArrays,
    game: Game,
    losses: Floats,
    prices: Floats,
    p: Floats,
    greedy: int,
    gap: float,
    V: float,
    out: Floats,
) -> float:
    """The p of the rule TopUp with the best rate, if its V is less than that of `out`; the lower V.

    These are the mixtures ``(1-c) b + (c/rho) 1_S`` with ``b = (1-a) e_{y*} + (a/K) 1_[K]``, along which V is convex: a
    search by golden sections. With the gap a = 0 they are those of Algorithm 1. So the play is never worse than the two
    rules, not even by the accuracy of the solver.
    """
    low, high = 0.0, 1.0
    found, best = mixture(graph, game, losses, prices, p, greedy, gap, 0.0), 0.0
    left, right = high - GOLDEN, low + GOLDEN
    at_left, at_right = (
        mixture(graph, game, losses, prices, p, greedy, gap, left),
        mixture(graph, game, losses, prices, p, greedy, gap, right),
    )
    for _ in range(45):
        if at_left <= at_right:
            if at_left < found:
                found, best = at_left, left
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = mixture(graph, game, losses, prices, p, greedy, gap, left)
        else:
            if at_right < found:
                found, best = at_right, right
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = mixture(graph, game, losses, prices, p, greedy, gap, right)
    if not found < V:
        return V
    mixture(graph, game, losses, prices, p, greedy, gap, best)
    for i in range(out.size):
        out[i] = p[i]
    return found


GOLDEN = 0.6180339887498949
"""The golden section, (sqrt(5) - 1) / 2."""


@seldom
def mixture(
    graph: GraphArrays, game: Game, losses: Floats, prices: Floats, p: Floats, greedy: int, gap: float, c: float
) -> float:
    """V of ``p = (1-c) b + (c/rho) 1_S``."""
    K, rho = losses.size, graph.dominating.size
    for i in range(p.size):
        p[i] = (1.0 - c) * (gap / K) if i < K else 0.0
    p[greedy] += (1.0 - c) * (1.0 - gap)
    for s in range(rho):
        p[graph.dominating[s]] += c / rho
    return worst(game, graph.observers, losses, prices, p)
