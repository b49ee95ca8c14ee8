"""Exploration rules: from what a learner knows to the distribution p_t over actions that is played.

After the family come the rules that people use in practice (none, a fixed share of the rounds, the first rounds) and
the paper's, which turn the gap a_t and the rate gamma_t into p_t: ``gamma_t = min(1/2, gamma / sqrt(n_t))`` where n_t
counts the rounds so far whose y* does not reveal, and gamma_t = 0 when y* reveals (Algorithm 1, lines 4 to 8). The last
one, :class:`InverseGap`, is for learners that estimate how likely each label is.
"""

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.graphs.graph import FeedbackGraph, GraphArrays, Plan
from gappletron.graphs.sums import multiply
from gappletron.kernel.numerics import Row
from gappletron.kernel.pieces import NotNegative, Piece, Share, compiled, helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats


class Outlook(NamedTuple):
    """What any rule may look at before the action: the optimizer or scorer with its state (`memory`), the row, and y*.

    `recency` says how far only the last rounds count, from 0 (all of them count) to 1. `suspicion` is the least
    probability of exploring that the scorer asks for, since what was revealed last contradicts what it had learned, and
    `changes` the number of changes it has noticed so far.
    """

    optimizer: Any
    memory: Any
    x: Row
    greedy: int
    recency: float
    suspicion: float
    changes: float


@helper
def mix_in_dominating(graph: GraphArrays, greedy: int, share: float, out: Floats) -> None:
    """Fill `out` with p = (1 - share) e_{y*} + share/rho 1_S, with the dominating set S."""
    for i in range(out.size):
        out[i] = 0.0
    out[greedy] = 1.0 - share
    if share > 0.0:
        rho = graph.dominating.size
        for s in range(rho):
            out[graph.dominating[s]] += share / rho


class Exploration(Piece, abstract=True):
    """The family of exploration rules.

    >>> from gappletron import FeedbackGraph, Paper, TopUp
    >>> import numpy as np
    >>> from gappletron.graphs.graph import Plan
    >>> from gappletron.kernel.state import Sizes, State
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
    """Whether the rule can only be used with an optimizer that states its stability."""

    needs_loss: ClassVar[bool] = False
    """Whether the rule can only be used with a learner that has a loss."""

    needs_estimates: ClassVar[bool] = False
    """Whether the rule can only be used with a learner that estimates how likely each label is."""

    uses_costs: ClassVar[bool] = False
    """Whether a loss of the label, with this rule, minimises the costs of the graph."""

    @compiled
    def prepare(self, state: Any, plan: Plan, outlook: Outlook, loss: Any, scores: Floats, work: Floats) -> None:
        """Write into the state's scratch what :meth:`explore` needs to know beyond the gap; nothing by default.

        `work` is what ``loss.gap_with`` has left there.
        """

    @compiled
    def appraise(self, state: Any, plan: Plan, outlook: Outlook, estimates: Floats, sharpness: float) -> None:
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

    @compiled
    def restart(self, state: Any) -> None:
        """Forget how much was seen: the world has changed; nothing by default."""

    def theorem_refusal(self, graph: FeedbackGraph) -> str | None:
        """Why the theorems do not apply to this rule on this graph, as the end of a sentence; None where they do.

        They apply to a rule with a field `gamma` that reveals every label with probability at least ``gamma_t /
        effective_rho(graph)`` in every round, and for which Lemma 1 holds.
        """
        return f"needs the exploration rule TopUp or Paper, not {self!r}"

    def effective_rho(self, graph: FeedbackGraph) -> int:
        """rho', which stands for rho in the bounds and in their gamma."""
        return graph.rho


# ---------------------------------------------------------------------------------------------------- rules of practice


class Greedy(Exploration):
    """Always plays the greedy class, and so learns only from what its own predictions reveal.

    >>> Greedy()
    Greedy()
    """

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        mix_in_dominating(plan.graph, greedy, 0.0, out)
        return 0.0


class EpsilonGreedy(Exploration):
    """Plays the dominating set, uniformly, in a fixed share of the rounds; else the greedy class.

    On the bandit graph the dominating set is all classes; in filtering it is the class that reveals, in label efficient
    classification the query.

    >>> EpsilonGreedy()
    EpsilonGreedy(epsilon=0.05)
    """

    epsilon: Share = 0.05

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        share = 0.0 if plan.graph.revealing[greedy] else self.epsilon
        mix_in_dominating(plan.graph, greedy, share, out)
        return share


class BurnIn(Exploration):
    """Plays the dominating set, uniformly, in those of the first rounds whose greedy class does not reveal; then always
    the greedy class.

    >>> BurnIn(rounds=30)
    BurnIn(rounds=30.0)
    """

    rounds: NotNegative = 100.0

    def declare(self) -> Layout:
        return {"played": Field(dtype="int64", least=0)}

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        share = 1.0 if state.played[0] < self.rounds and not plan.graph.revealing[greedy] else 0.0
        mix_in_dominating(plan.graph, greedy, share, out)
        return share

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        state.played[0] += 1


# ---------------------------------------------------------------------------------------------------- the paper's rules


class Decaying(Exploration, abstract=True):
    """Rules with the rate ``gamma_t = min(1/2, gamma / sqrt(n_t))``; `blind` counts n_t."""

    gamma: NotNegative = 1.0

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
    holds on every graph, its first part as stated, which it does not with the rule of Algorithm 1 (docs, page
    Exploration, with the proof).

    >>> TopUp()
    TopUp(gamma=1.0)
    """

    def table(self, graph: FeedbackGraph) -> TopUpTable:
        return find_profiles(graph)

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


def find_profiles(graph: FeedbackGraph) -> TopUpTable:
    """Return what TopUp needs to know of the classes.

    Seen from y*, all that matters of a class y is whether y* reveals it, n_y = |in(y) n [K]| and k_y = |in(y) n S|; and
    c grows when any of the three falls. So only the minimal triples need a look in a round: one on the bandit graph.
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
    return TopUpTable(first, *(np.ascontiguousarray(row[columns]) for row in table))


class Paper(Decaying):
    """Algorithm 1 exactly, line 10, for reproduction: uniform where gamma_t <= a_t, else the dominating set.

    ``p = (1 - zeta a - (1-zeta) gamma_t) e_{y*} + zeta a/N 1 + (1-zeta) gamma_t/rho 1_S`` with ``zeta = 1[gamma_t <=
    a]``. "Uniform" is over all N actions (the paper has N = K; with an extra action nothing would ever be observed
    otherwise). For rho < K its theorem needs rho replaced by K (docs, page Errata).

    >>> Paper(gamma=2)
    Paper(gamma=2.0)
    """

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


# ------------------------------------------------------------------------------------------------------- for estimators

# In units of the cost of the worst class: an action that explores is never taken for cheaper, and every action costs at
# least this much in expectation.
LEAST_PRICE, LEAST_COST = 0.05, 1e-12
# After a change was noticed, the next one is so many times as likely as the first one was.
AGAIN = 24.0
# As far as only the last rounds count, n is at most this many per class.
RECENT = 50.0


class Shown(NamedTuple):
    """What actions reveal: classes ``first[s]`` to ``first[s + 1]`` are those of the dominating set's s-th member; and
    whether each action reveals something.
    """

    first: NDArray[np.int64]
    classes: NDArray[np.int64]
    something: NDArray[np.bool_]


class InverseGap(Exploration):
    """Explores with a probability that falls with the squared gap between the greedy class and the others.

    Let q be the learner's estimates, y* the greedy class, ``d_k = q_{y*} - q_k`` the gap of class k, and e_i by how
    much action i is expected to cost more than y*: ``e_k = d_k`` for a class and ``e_i = q_{y*}`` for a query. Let V in
    (0, 1] be the optimizer's uncertainty at x between y* and the closest class, and n the number of rounds with
    feedback so far. An action i of the dominating set S is played with probability ::

        1/rho max_k V / (V + scale * n/K * d_k^2 * max(0.05, e_i))

    where k runs over the classes that i reveals and y* does not; for y* itself, which not every graph reveals where it
    is played, d_k is that of the closest class. The rest is played as y*. So it explores where classes are close
    together (d), where the features are new (V), where exploring is cheap (e), and as long as there are few labels per
    class. Nothing is explored where y* reveals. Where an action that is not a class, such as a query, is expected to
    cost less than y*, it is played in place of y*.

    With costs, let ``c_i = sum_y C[i, y] q_y`` for the probabilities ``q = softmax(b s)``. Then ``d_k = ln(c_k /
    c_{y*}) / (2b)``, how far the scores are from where the two classes would cost the same, and ``e_i = (c_i - c_{y*})
    / max(c_{y*}, max_k c_k / 20)``: what exploring costs more, in units of the most that could be gained.

    For a world that changes: with `floor` above 0 the dominating set is explored with probability at least ``min(1/2,
    floor sqrt((1 + 24 c) / rounds))`` after c changes, divided by ``sqrt(max(1, e_i))``; c counts as 0 where y* shows
    itself. As far as only the last rounds count, n is at most 50 K.

    A heuristic without a theorem of its own: :class:`gappletron.Guarded` makes it keep one. The docs, page Default,
    have the evidence.

    >>> InverseGap()
    InverseGap(scale=2.4, floor=0.0)
    """

    scale: NotNegative = 2.4
    floor: NotNegative = 0.0

    needs_estimates = True

    def declare(self) -> Layout:
        """n, and the rounds; for one round V, ``scale * n/K``, the least share of exploration, the gaps of the classes
        (y* has that of the closest class), and what the actions cost more than y*.
        """
        return {
            "informed": Field(dtype="int64", least=0),
            "rounds": Field(dtype="int64", least=0),
            "doubt": Scratch(3),
            "gaps": Scratch("classes"),
            "prices": Scratch("actions"),
        }

    def table(self, graph: FeedbackGraph) -> Shown:
        rows = graph.visible[list(graph.dominating_indices)]
        first = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(np.int64)
        return Shown(first, np.nonzero(rows)[1].astype(np.int64), np.asarray(graph.visible.any(axis=1)))

    def appraise(self, state: Any, plan: Plan, outlook: Outlook, estimates: Floats, sharpness: float) -> None:
        graph, greedy = plan.graph, outlook.greedy
        if graph.has_costs:
            compare_costs(graph, estimates, sharpness, greedy, state.gaps, state.prices)
        elif not graph.revealing[greedy]:
            compare_mistakes(estimates, greedy, state.gaps, state.prices)
        if not graph.revealing[greedy]:
            closest = closest_class(state.gaps, greedy)
            state.gaps[greedy] = state.gaps[closest]
            n = float(state.informed[0])
            n -= outlook.recency * max(0.0, n - RECENT * state.gaps.size)
            factor = self.scale * n / state.gaps.size
            # Where y* shows itself, a change shows as its errors, and needs no exploration to be noticed.
            changes = 0.0 if graph.visible[greedy, greedy] else outlook.changes
            least = self.floor * math.sqrt((1.0 + AGAIN * changes) / (1.0 + state.rounds[0]))
            least = min(0.5, max(least, outlook.suspicion))
            # No d is below the closest gap, and without costs no e below both that and q_{y*}. Where V = 1 would give
            # less than `least` even for these, V does not matter.
            d, V = state.gaps[greedy], 1.0
            e = max(LEAST_PRICE, min(d, estimates[greedy]))
            if graph.has_costs or least * (1.0 + factor * (d * d) * e) < max(1.0, d):
                V = outlook.optimizer.uncertainty(outlook.memory, outlook.x, greedy, closest)
            state.doubt[0], state.doubt[1], state.doubt[2] = V, factor, least

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        graph = plan.graph
        for i in range(out.size):
            out[i] = 0.0
        explored = 0.0
        chosen = greedy
        if graph.has_costs:
            chosen = cheapest(state.prices, greedy, state.gaps.size)
        if not (graph.revealing[chosen] or graph.revealing[greedy]):
            rho = graph.dominating.size
            V, factor, least = state.doubt[0], state.doubt[1], state.doubt[2]
            for s in range(rho):
                i = graph.dominating[s]
                d = hidden_gap(plan, state.gaps, greedy, s) if i != chosen else -1.0
                if d >= 0.0:
                    e = state.prices[i]
                    # A change costs as long as it is not seen, which takes 1 / share rounds, and exploring costs e:
                    # the best share falls with the root of e.
                    share = V / (V + factor * (d * d) * max(LEAST_PRICE, e))
                    out[i] = max(share, least / math.sqrt(e) if e > 1.0 else least) / rho
                    explored += out[i]
        out[chosen] = max(0.0, 1.0 - explored)
        return 1.0 - out[greedy]

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        state.rounds[0] += 1

    def count_feedback(self, state: Any, plan: Plan, action: int) -> None:
        if plan.table.something[action]:
            state.informed[0] += 1

    def restart(self, state: Any) -> None:
        state.informed[0] = 0


@helper
def compare_mistakes(estimates: Floats, greedy: int, gaps: Floats, prices: Floats) -> None:
    """d_k and e_i where only mistakes count."""
    K = estimates.size
    for k in range(K):
        gaps[k] = abs(estimates[greedy] - estimates[k])
        prices[k] = gaps[k]
    for i in range(K, prices.size):
        prices[i] = estimates[greedy]


@helper
def compare_costs(
    graph: GraphArrays, estimates: Floats, sharpness: float, greedy: int, gaps: Floats, prices: Floats
) -> None:
    """d_k and e_i where actions have costs."""
    K = estimates.size
    worst = 0.0
    multiply(graph.cost_sums, estimates, prices)
    for k in range(K):
        worst = max(worst, prices[k])
    if worst == 0.0:
        worst = 1.0  # no class costs anything
    base = prices[greedy] / worst
    for k in range(K):
        # No cost is taken for 0, so that its logarithm is finite.
        gaps[k] = abs(math.log((prices[k] / worst + LEAST_COST) / (base + LEAST_COST))) / (2.0 * sharpness)
    for i in range(prices.size):
        prices[i] = (prices[i] / worst - base) / max(LEAST_PRICE, base)


@helper
def cheapest(prices: Floats, greedy: int, classes: int) -> int:
    """The action of least expected cost among y* and those that are no classes; y* on a tie."""
    best = greedy
    for i in range(classes, prices.size):
        if prices[i] < prices[best]:
            best = i
    return best


@helper
def closest_class(gaps: Floats, greedy: int) -> int:
    """The class with the smallest gap other than the greedy one; the lowest index on a tie."""
    best = 1 if greedy == 0 else 0
    for k in range(best + 1, gaps.size):
        if k != greedy and gaps[k] < gaps[best]:
            best = k
    return best


@helper
def hidden_gap(plan: Plan, gaps: Floats, greedy: int, s: int) -> float:
    """The smallest gap of the classes that the dominating set's s-th member shows and y* does not; -1 without any."""
    smallest = -1.0
    for place in range(plan.table.first[s], plan.table.first[s + 1]):
        k = plan.table.classes[place]
        if not plan.graph.visible[greedy, k] and (smallest < 0.0 or gaps[k] < smallest):
            smallest = gaps[k]
    return smallest
