"""The right-hand side of every theorem of the paper, for a learner and a problem, with the corrections of the errata;
and of the theorems without K of :class:`DecodedLogistic`, which are ours (docs, page Decoding).

Most theorems bound the surrogate regret: the mistakes of a run minus the loss of the comparator. A separable theorem
bounds the mistakes themselves. Symbols: K is the number of classes (K' the number that the loss requires), rho the size
of the dominating set, Q the number of revealing classes (at least 1), L and h the constants in ``||grad l||^2 <= 2 L
l`` and ``regret <= h sqrt(sum ||g||^2)``, B the radius of the ball of the comparators, T the number of rounds, n the
number of rounds whose y* does not reveal, lmax the largest loss on the ball, and delta the allowed probability of
failure. ``R = max{rho, K/Q}`` where a class reveals (erratum 14), and ``R = rho`` where none does.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph
from gappletron.learners.decoded import DEVIATION, EXPLORED, DecodedLogistic
from gappletron.learners.gappletron import Gappletron, constants, find_gamma
from gappletron.learners.learner import Problem
from gappletron.learners.optimizers import FixedOGD


class Symbols(NamedTuple):
    """The numbers in the theorems."""

    K: float
    effective: float
    rho: float
    R: float
    L: float
    h: float
    lmax: float
    T: int
    n: float
    delta: float
    loss_sum: float
    B: float


def find_least_weight(graph: FeedbackGraph, rho: int) -> float:
    """R: no importance weight exceeds ``max{rho / gamma_T, 2 R}``. Where no class reveals, y* never does.

    >>> from gappletron import FeedbackGraph
    >>> find_least_weight(FeedbackGraph.filtering(10), 1), find_least_weight(FeedbackGraph.label_efficient(10), 1)
    (10.0, 1.0)
    """
    Q = len(graph.revealing_classes)
    return max(float(rho), graph.n_classes / Q) if Q else float(rho)


class Theorem(NamedTuple):
    """One statement of the paper, which its name describes."""

    name: str
    right_hand_side: Callable[[Any], float]
    fixed_rate: bool = False
    """Whether it is about :class:`FixedOGD` with one particular rate, not about every optimizer with an h."""

    @property
    def full_information(self) -> bool:
        """Whether it is about full information; else it is about every graph."""
        return self.name.startswith("full-")

    @property
    def tuning(self) -> str | None:
        """The tuning that it is proved for; with full information there is nothing to tune."""
        return None if self.full_information else self.name

    @property
    def separable(self) -> bool:
        """Whether it is about separable data; then it bounds the mistakes, and otherwise the surrogate regret."""
        return "separable" in self.name or self is MARGIN

    @property
    def statement(self) -> str:
        """What is bounded, and by what."""
        if self is MARGIN:
            return "E[mistakes] <= value, where a U of norm B has the margin 1 in every round"
        if self is MOVING:
            return "E[mistakes] <= sum l_t(U_t) + value, for U_t in the ball of radius B on a path of length P"
        bounded = f"<= {'' if self.separable else 'sum l_t(U) + '}value"
        if "high-probability" in self.name:
            return f"mistakes {bounded} with probability 1 - delta"
        return f"E[mistakes] {bounded}"


class Bound(NamedTuple):
    """The right-hand side of a theorem on one problem; `refusal` says why the theorem does not apply, or is None.

    `value` bounds the mistakes if `separable`, and the surrogate regret otherwise.

    >>> from gappletron import FeedbackGraph, Gappletron, bounds
    >>> bounds(Gappletron(), FeedbackGraph.full(3), rounds=10, max_norm=1.0)[4].refusal
    'needs an optimizer with a guarantee h, and AdaptiveOGD(scale=1.0) has none'
    """

    theorem: str
    statement: str
    value: float
    separable: bool
    refusal: str | None

    @classmethod
    def make(cls, theorem: Theorem, value: float, refusal: str | None) -> Self:
        """Return the bound of a theorem."""
        return cls(theorem.name, theorem.statement, value, theorem.separable, refusal)


# The constant of the expectation theorem while gamma_t = 1/2 (docs, page Errata, number 6).
SHORT = 4.0 - 2.0 * math.sqrt(2.0)


def expectation(c: Symbols) -> float:
    """max{1.172 K' R L h^2, 2 h sqrt(rho K' L n)} (K' in place of K, except in R: docs, page Errata, number 3).

    The paper has 2 for 1.172 = 4 - 2 sqrt 2 (erratum 6).
    """
    return max(SHORT * c.effective * c.R * c.L * c.h**2, 2.0 * c.h * math.sqrt(c.rho * c.effective * c.L * c.n))


def expectation_separable(c: Symbols) -> float:
    """max{4 h sqrt(rho L n), 4.687 R L h^2} - (1/K') sum l_t(W_t): as corrected in erratum 6."""
    return max(4.0 * c.h * math.sqrt(c.rho * c.L * c.n), 4.0 * SHORT * c.R * c.L * c.h**2) - c.loss_sum / c.effective


def high_probability(c: Symbols) -> float:
    """(3K'+1) ln(2/delta) + max{5 sqrt(K' rho T z), 7 K' R z} with z = L h^2 + 5 lmax ln(2/delta)."""
    log = math.log(2.0 / c.delta)
    z = c.L * c.h**2 + 5.0 * c.lmax * log
    largest = max(5.0 * math.sqrt(c.effective * c.rho * c.T * z), 7.0 * c.effective * c.R * z)
    return (3.0 * c.effective + 1.0) * log + largest


def high_probability_separable(c: Symbols) -> float:
    """2 ln(2/delta) + 5 max{sqrt(z rho T), 2 R z} with z = (K'+2) lmax ln(2/delta) + L h^2."""
    log = math.log(2.0 / c.delta)
    z = (c.effective + 2.0) * c.lmax * log + c.L * c.h**2
    return 2.0 * log + 5.0 * max(math.sqrt(z * c.rho * c.T), 2.0 * c.R * z)


def full_expectation(c: Symbols) -> float:
    """K' L h^2 / 2, for every T."""
    return c.effective * c.L * c.h**2 / 2.0


def full_expectation_separable(c: Symbols) -> float:
    """2 L h^2 - (1/K') sum l_t(W_t): Lemma 1 and sum l_t(W_t) <= 2 L h^2.

    The proof of the expectation theorem with v_max = 1, for every optimizer with ``regret <= h sqrt(sum ||g||^2)``.
    """
    return 2.0 * c.L * c.h**2 - c.loss_sum / c.effective


def full_expectation_separable_ogd(c: Symbols) -> float:
    """4 L B^2 - (1/K') sum l_t(W_t), the paper's ``4 L ||U||^2``: gradient descent with the rate 1/(2L).

    Its regret is at most ``||U||^2 / (2 eta) + eta L sum l_t(W_t)``. With ``eta = 1/(2L)`` and a comparator of zero
    loss, ``sum l_t(W_t) <= 2 L ||U||^2``: the proof gives half of the paper's number.
    """
    return 4.0 * c.L * c.B**2 - c.loss_sum / c.effective


def full_high_probability(c: Symbols) -> float:
    """K' L h^2 + (3K'+1)/2 ln(1/delta)."""
    return c.effective * c.L * c.h**2 + (3.0 * c.effective + 1.0) / 2.0 * math.log(1.0 / c.delta)


def full_high_probability_separable(c: Symbols) -> float:
    """4 L h^2 + 11/4 ln(1/delta)."""
    return 4.0 * c.L * c.h**2 + 11.0 / 4.0 * math.log(1.0 / c.delta)


THEOREMS = (
    Theorem("expectation", expectation),
    Theorem("expectation-separable", expectation_separable),
    Theorem("high-probability", high_probability),
    Theorem("high-probability-separable", high_probability_separable),
    Theorem("full-expectation", full_expectation),
    Theorem("full-expectation-separable", full_expectation_separable),
    Theorem("full-expectation-separable-ogd", full_expectation_separable_ogd, fixed_rate=True),
    Theorem("full-high-probability", full_high_probability),
    Theorem("full-high-probability-separable", full_high_probability_separable),
)


class DecodedSymbols(NamedTuple):
    """The numbers in the theorems of :class:`DecodedLogistic`: eta_T, the sum of gamma_t, B, P, K and T; and V lmax
    with V the largest importance weight (0 where every label is seen), and delta.
    """

    last_rate: float
    explored: float
    B: float
    P: float
    K: int
    T: int
    weighted: float
    delta: float


def decoded(c: DecodedSymbols) -> float:
    """B^2 / (2 eta_T) + sum gamma_t."""
    return c.B**2 / (2.0 * c.last_rate) + c.explored


def decoded_moving(c: DecodedSymbols) -> float:
    """(B^2 + 2 B P) / (2 eta) + sum gamma_t."""
    return (c.B**2 + 2.0 * c.B * c.P) / (2.0 * c.last_rate) + c.explored


def decoded_margin(c: DecodedSymbols) -> float:
    """min over s of T log_2(1 + (K-1) e^-s) + (s B)^2 / (2 eta_T), plus sum gamma_t.

    The minimum is the root of the derivative, found by bisection: the first term falls, the second rises, and both are
    convex in s.
    """

    def slope(s: float) -> float:
        tail = (c.K - 1) * math.exp(-s)
        return s * c.B**2 / c.last_rate - c.T / math.log(2.0) * tail / (1.0 + tail)

    low, high = 0.0, 800.0
    for _ in range(100):
        s = (low + high) / 2.0
        low, high = (s, high) if slope(s) < 0.0 else (low, s)
    loss = c.T * math.log1p((c.K - 1) * math.exp(-high)) / math.log(2.0)
    return loss + (high * c.B) ** 2 / (2.0 * c.last_rate) + c.explored


def decoded_high_probability(c: DecodedSymbols) -> float:
    """B^2 / (2 eta) + 5 V lmax ln(2/delta) + 1.15 sum gamma_t + 5 ln(2/delta)."""
    deviation = DEVIATION * (c.weighted + 1.0) * math.log(2.0 / c.delta)
    return c.B**2 / (2.0 * c.last_rate) + EXPLORED * c.explored + deviation


MOVING, MARGIN = Theorem("decoded-moving", decoded_moving), Theorem("decoded-margin", decoded_margin)
SINGLE = Theorem("decoded-high-probability", decoded_high_probability)
# The learners that have theorems.
Proved = Gappletron | DecodedLogistic

# The theorems of DecodedLogistic, in place of the paper's.
DECODED = (Theorem("decoded", decoded), MARGIN, MOVING, SINGLE)


def list_theorems(learner: Proved) -> tuple[Theorem, ...]:
    """Return the theorems that are about this kind of learner.

    >>> [theorem.name for theorem in list_theorems(DecodedLogistic())]
    ['decoded', 'decoded-margin', 'decoded-moving', 'decoded-high-probability']
    """
    return DECODED if isinstance(learner, DecodedLogistic) else THEOREMS


def bounds(
    learner: Proved,
    graph: FeedbackGraph | Sequence[FeedbackGraph] | Callable[[int], FeedbackGraph],
    *,
    rounds: int,
    max_norm: float,
    blind_rounds: float | None = None,
    loss_sum: float = 0.0,
    guarantee: float | None = None,
    radius: float | None = None,
    path: float = 0.0,
    delta: float = 0.05,
) -> list[Bound]:
    """Evaluate every theorem for a learner on a problem: those of the paper, or those of a
    :class:`DecodedLogistic`.

    :param graph: the feedback graph. Where it changes from round to round: a sequence of the graphs that occur, or a
        function from the round, 0 to T - 1, to its graph. Then rho and R are the largest of a round, also in gamma.
    :param rounds: T.
    :param max_norm: X, the largest Euclidean norm of a feature vector.
    :param blind_rounds: n, from a run; by default its maximum: T, or 0 under full information.
    :param loss_sum: sum l_t(W_t), from a run; it is subtracted in the separable bounds.
    :param guarantee: h(U); by default that of the optimizer.
    :param radius: B, for the largest loss and for gradient descent with a fixed rate; by default the radius of the
        optimizer's ball, or 1 if it has none.
    :param path: P, the length of the path ``sum ||U_{t+1} - U_t||`` of a comparator that moves, for "decoded-moving".
    :param delta: the probability with which a high-probability bound may fail.

    >>> from gappletron import FeedbackGraph, Gappletron, ProjectedOGD, tuned
    >>> graph = FeedbackGraph.filtering(2)
    >>> learner = tuned(Gappletron(optimizer=ProjectedOGD(1.0)), "expectation", graph, max_norm=1.0)
    >>> for bound in bounds(learner, graph, rounds=60_000, max_norm=1.0)[:2]:
    ...     print(bound.theorem, round(bound.value), bound.refusal)
    expectation 3919 None
    expectation-separable 5543 is proved for gamma = 5.657, and the learner has 4
    """
    if not isinstance(learner, Proved):
        raise UserError(f"{learner!r} is not a Gappletron: the theorems apply to Gappletron and DecodedLogistic only")
    rounds, max_norm = whole(rounds, "rounds", least=1), number(max_norm, "max_norm", above=0.0)
    delta = number(delta, "delta", above=0.0, most=1.0)
    graphs = _list_graphs(graph, rounds)
    rhos = [learner.exploration.effective_rho(each) for each in graphs]
    worst = graphs[rhos.index(max(rhos))]
    full = all(each.is_full_information for each in graphs)
    if not full and worst.is_full_information:
        worst = next(each for each in graphs if not each.is_full_information)  # of the same rho
    problem = Problem(worst, rounds, None, max_norm, guarantee, radius, delta)
    n = (0 if full else rounds) if blind_rounds is None else blind_rounds
    if isinstance(learner, DecodedLogistic):
        return _bound_decoded(learner, problem, graphs, n, number(path, "path", least=0.0))
    c = constants(learner, problem)
    R = max(map(find_least_weight, graphs, rhos))
    symbols = Symbols(worst.n_classes, c.K, max(rhos), R, c.L, c.h, c.lmax, rounds, n, delta, loss_sum, c.B)
    return [
        Bound.make(theorem, theorem.right_hand_side(symbols), _find_refusal(theorem, learner, problem, graphs))
        for theorem in THEOREMS
    ]


def _list_graphs(
    given: FeedbackGraph | Sequence[FeedbackGraph] | Callable[[int], FeedbackGraph], rounds: int
) -> list[FeedbackGraph]:
    """Return the graphs that occur, each once."""
    if isinstance(given, FeedbackGraph):
        return [given]
    several = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    found: dict[int, FeedbackGraph] = {}
    for graph in map(given, range(rounds)) if callable(given) else given if several else [given]:
        if not isinstance(graph, FeedbackGraph):
            raise UserError(
                f"{graph!r} is not a FeedbackGraph: pass one, for example FeedbackGraph.bandit(9), a sequence of "
                "them, or a function from the round to its graph"
            )
        found[id(graph)] = graph
    graphs = list(dict.fromkeys(found.values()))
    if len({graph.classes for graph in graphs}) > 1:
        raise UserError("the graphs have different classes: pass graphs with the same classes in every round")
    return graphs


def _bound_decoded(
    learner: DecodedLogistic, problem: Problem, graphs: Sequence[FeedbackGraph], n: float, path: float
) -> list[Bound]:
    """Return the bounds without K. Before the last round at most min(n, T - 1) were counted: eta_T is not smaller."""
    rule, optimizer = learner.exploration, learner.optimizer
    ball = optimizer.radius * learner.pace_after(0)  # W is in it while the rate stays the same
    B = problem.radius if problem.radius is not None else 1.0 if math.isinf(ball) else ball
    last = learner.rate_after(min(math.ceil(n), problem.horizon() - 1))
    explored = min(n / 2.0, rule.gamma * n / math.sqrt(max(rule.horizon, n / 4.0))) if n else 0.0
    costs = "bounds mistakes, and the graph has costs" if any(graph.has_costs for graph in graphs) else None
    V = 0.0 if problem.graph.is_full_information else problem.graph.rho / learner.pace_after(0)
    weighted = V * learner.largest_loss(problem, B if math.isinf(ball) else ball)
    symbols = DecodedSymbols(
        last, explored, B, path, problem.graph.n_classes, problem.horizon(), weighted, problem.delta
    )
    return [
        Bound.make(
            theorem, theorem.right_hand_side(symbols), costs or _refuse_decoded(theorem, learner, problem, B, ball)
        )
        for theorem in DECODED
    ]


def _refuse_decoded(theorem: Theorem, learner: DecodedLogistic, problem: Problem, B: float, ball: float) -> str | None:
    """Return why a theorem without K does not apply, or None."""
    graph, rule, optimizer = problem.graph, learner.exploration, learner.optimizer
    largest = learner.largest_rate(problem, theorem is SINGLE)
    if optimizer.rate > largest * (1.0 + 1e-9):
        return f"is proved for a rate of at most {largest:.4g}, and the learner has {optimizer.rate:.4g}"
    is_fixed = graph.is_full_information or rule.horizon >= problem.horizon()
    if math.isinf(ball) and (theorem is MOVING or (theorem is SINGLE and not graph.is_full_information)):
        tuning = "moving" if theorem is MOVING else "high-probability"
        return f"needs weights in a ball, as with the tuning {tuning!r}"
    if not math.isinf(ball) and theorem is MARGIN:  # its comparator is longer than B
        return "needs weights that are not kept in a ball"
    if not math.isinf(ball) and not is_fixed:
        return "needs a horizon of T or more where the weights stay in a ball"
    if ball < B * (1.0 - 1e-9):
        return f"needs weights in a ball of radius {B:g} or more"
    return None


def _find_refusal(
    theorem: Theorem, learner: Gappletron, problem: Problem, graphs: Sequence[FeedbackGraph]
) -> str | None:
    """Return why a theorem does not apply to this learner on this problem, or None."""
    K = problem.graph.n_classes
    if any(graph.has_costs for graph in graphs):
        return "bounds mistakes, and the graph has costs"
    if theorem.full_information and not all(graph.is_full_information for graph in graphs):
        return "needs full information"
    if not learner.loss.is_regular(K) and learner.loss.effective_classes(K) == K:
        return f"needs a regular loss, and {learner.loss!r} is not one for {K} classes"
    by_rule = next(filter(None, map(learner.exploration.theorem_refusal, graphs)), None)
    if theorem.fixed_rate:
        return _check_rate(learner, problem) or by_rule
    if problem.guarantee is None and learner.optimizer.guarantee() is None:
        return f"needs an optimizer with a guarantee h, and {learner.optimizer!r} has none"
    return by_rule or _check_gamma(theorem, learner, problem)


def _check_rate(learner: Gappletron, problem: Problem) -> str | None:
    """Return why a theorem about gradient descent with the rate 1/(2L) does not apply, or None."""
    c, optimizer = constants(learner, problem), learner.optimizer
    wanted = FixedOGD(1.0 / (2.0 * c.L), optimizer.reach())
    if isinstance(optimizer, FixedOGD) and math.isclose(optimizer.rate, wanted.rate, rel_tol=1e-9):
        return None if optimizer.radius >= c.B else f"needs weights in a ball of radius {c.B:g} or more"
    return f"is proved for the optimizer {wanted!r}, and the learner has {optimizer!r}"


def _check_gamma(theorem: Theorem, learner: Gappletron, problem: Problem) -> str | None:
    graph, rule = problem.graph, learner.exploration
    if theorem.tuning is None or graph.is_full_information:
        return None
    # The tuning uses graph.rho; the gamma of every theorem is proportional to its square root.
    wanted = find_gamma(theorem.tuning, learner, problem) * math.sqrt(rule.effective_rho(graph) / graph.rho)
    gamma: float = rule.gamma  # type: ignore[attr-defined]
    if math.isclose(gamma, wanted, rel_tol=1e-9):
        return None
    return f"is proved for gamma = {wanted:.4g}, and the learner has {gamma:.4g}"
