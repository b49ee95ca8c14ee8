"""The right-hand side of every theorem of the paper, for a learner and a problem, with the corrections of the errata.

Most theorems bound the surrogate regret: the mistakes of a run minus the loss of the comparator. A separable theorem
bounds the mistakes themselves. Symbols: K is the number of classes (K' the number that the loss requires), rho the size
of the dominating set, Q the number of revealing classes (at least 1), L and h the constants in ``||grad l||^2 <= 2 L
l`` and ``regret <= h sqrt(sum ||g||^2)``, B the radius of the ball of the comparators, T the number of rounds, n the
number of rounds whose y* does not reveal, lmax the largest loss on the ball, and delta the allowed probability of
failure. ``R = max{rho, K/Q}``, which is K/Q for a minimum dominating set (erratum 14).
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph
from gappletron.learners.gappletron import Gappletron, constants, find_gamma
from gappletron.learners.learner import Problem
from gappletron.learners.optimizers import FixedOGD


class Symbols(NamedTuple):
    """The numbers in the theorems."""

    K: float
    effective: float
    rho: float
    Q: int
    L: float
    h: float
    lmax: float
    T: int
    n: float
    delta: float
    loss_sum: float
    B: float

    @property
    def R(self) -> float:
        """max{rho, K/Q}: no importance weight exceeds ``max{rho sqrt(n) / gamma, 2 R}``."""
        return max(self.rho, self.K / self.Q)


class Theorem(NamedTuple):
    """One statement of the paper, which its name describes."""

    name: str
    right_hand_side: Callable[[Symbols], float]
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
        return "separable" in self.name

    @property
    def statement(self) -> str:
        """What is bounded, and by what."""
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


def expectation(c: Symbols) -> float:
    """max{2 K' R L h^2, 2 h sqrt(rho K' L n)} (K' in place of K, except in R: docs, page Errata, number 3)."""
    return max(2.0 * c.effective * c.R * c.L * c.h**2, 2.0 * c.h * math.sqrt(c.rho * c.effective * c.L * c.n))


def expectation_separable(c: Symbols) -> float:
    """max{4 h sqrt(rho L n), 8 R L h^2} - (1/K') sum l_t(W_t): as corrected in erratum 6."""
    return max(4.0 * c.h * math.sqrt(c.rho * c.L * c.n), 8.0 * c.R * c.L * c.h**2) - c.loss_sum / c.effective


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


def bounds(
    learner: Gappletron,
    graph: FeedbackGraph | Sequence[FeedbackGraph] | Callable[[int], FeedbackGraph],
    *,
    rounds: int,
    max_norm: float,
    blind_rounds: float | None = None,
    loss_sum: float = 0.0,
    guarantee: float | None = None,
    radius: float | None = None,
    delta: float = 0.05,
) -> list[Bound]:
    """Evaluate every theorem for a learner on a problem.

    :param graph: the feedback graph. No theorem covers a graph that changes from round to round: for a sequence of
        graphs, or a function from the round to its graph, every bound has a refusal and the value nan.
    :param rounds: T.
    :param max_norm: X, the largest Euclidean norm of a feature vector.
    :param blind_rounds: n, from a run; by default its maximum: T, or 0 under full information.
    :param loss_sum: sum l_t(W_t), from a run; it is subtracted in the separable bounds.
    :param guarantee: h(U); by default that of the optimizer.
    :param radius: B, for the largest loss and for gradient descent with a fixed rate; by default the radius of the
        optimizer's ball, or 1 if it has none.
    :param delta: the probability with which a high-probability bound may fail.

    >>> from gappletron import FeedbackGraph, Gappletron, ProjectedOGD, tuned
    >>> graph = FeedbackGraph.filtering(2)
    >>> learner = tuned(Gappletron(optimizer=ProjectedOGD(1.0)), "expectation", graph, max_norm=1.0)
    >>> for bound in bounds(learner, graph, rounds=60_000, max_norm=1.0)[:2]:
    ...     print(bound.theorem, round(bound.value), bound.refusal)
    expectation 3919 None
    expectation-separable 5543 is proved for gamma = 5.657, and the learner has 4
    """
    if not isinstance(learner, Gappletron):
        raise UserError(f"{learner!r} is not a Gappletron: the theorems apply to Gappletron only")
    rounds, max_norm = whole(rounds, "rounds", least=1), number(max_norm, "max_norm", above=0.0)
    delta = number(delta, "delta", above=0.0, most=1.0)
    if not isinstance(graph, FeedbackGraph):
        return _refuse_changing_graph(graph)
    problem = Problem(graph, rounds, None, max_norm, guarantee, radius, delta)
    c = constants(learner, problem)
    full = graph.is_full_information
    n = (0 if full else rounds) if blind_rounds is None else blind_rounds
    Q = max(1, len(graph.revealing_classes))
    rho = learner.exploration.effective_rho(graph)
    symbols = Symbols(graph.n_classes, c.K, rho, Q, c.L, c.h, c.lmax, rounds, n, delta, loss_sum, c.B)
    return [
        Bound.make(theorem, theorem.right_hand_side(symbols), _find_refusal(theorem, learner, problem))
        for theorem in THEOREMS
    ]


def _refuse_changing_graph(graphs: Sequence[FeedbackGraph] | Callable[[int], FeedbackGraph]) -> list[Bound]:
    """Return every theorem with its refusal for a graph that changes from round to round."""
    if not callable(graphs):
        several = isinstance(graphs, Sequence) and not isinstance(graphs, str) and len(graphs) > 0
        for graph in graphs if several else [graphs]:
            if not isinstance(graph, FeedbackGraph):
                raise UserError(
                    f"{graph!r} is not a FeedbackGraph: pass one, for example FeedbackGraph.bandit(9), a sequence of "
                    "them, or a function from the round to its graph"
                )
    refusal = "is not proved for a feedback graph that changes from round to round"
    return [Bound.make(theorem, math.nan, refusal) for theorem in THEOREMS]


def _find_refusal(theorem: Theorem, learner: Gappletron, problem: Problem) -> str | None:
    """Return why a theorem does not apply to this learner on this problem, or None."""
    graph, K = problem.graph, problem.graph.n_classes
    if graph.has_costs:
        return "bounds mistakes, and the graph has costs"
    if theorem.full_information and not graph.is_full_information:
        return "needs full information"
    if not learner.loss.is_regular(K) and learner.loss.effective_classes(K) == K:
        return f"needs a regular loss, and {learner.loss!r} is not one for {K} classes"
    if theorem.fixed_rate:
        return _check_rate(learner, problem) or learner.exploration.theorem_refusal(graph)
    if problem.guarantee is None and learner.optimizer.guarantee() is None:
        return f"needs an optimizer with a guarantee h, and {learner.optimizer!r} has none"
    return learner.exploration.theorem_refusal(graph) or _check_gamma(theorem, learner, problem)


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
