"""The paper's exploration: from the gap a_t and the rate gamma_t to the distribution p_t.

``gamma_t = min(1/2, gamma / sqrt(n_t))`` where n_t counts the rounds so far whose y* does not reveal, and gamma_t = 0
when y* reveals (Algorithm 1, lines 4 to 8).
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.pieces import NotNegative, helper
from gappletron.kernel.state import Field, Layout
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rule import Exploration, mix_in_dominating


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

    gamma: NotNegative = 1.0

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

    gamma: NotNegative = 1.0

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        rate = exploration_rate(state, plan, greedy, self.gamma)
        N = out.size
        if rate <= gap:
            for i in range(N):
                out[i] = gap / N
            out[greedy] += 1.0 - gap
        else:
            mix_in_dominating(plan.graph, greedy, rate, out)
        return rate

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
