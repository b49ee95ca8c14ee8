"""Remarks of the paper, as pieces of the experiments: an optimizer of another geometry, a stream that drifts, and a
learner for the question in its section on future work.

*Other norms.* The analysis needs ``||grad l||^2 <= 2 L l`` in any norm, and an optimizer whose regret is at most
``h(U) sqrt(sum ||g||^2)`` in the same norm. :class:`ExponentiatedGradient` has such an h for the largest entry of a
gradient, with U in a ball of the sum of absolute values. On rows of many entries of size 1, of which few matter, L is
2 and not 4 d, and h grows with the logarithm of d only (:class:`Signs`).

*Dynamic regret.* For gradient descent in a ball of radius B with a fixed rate eta, and comparators U_1, ..., U_T with
the path length ``P = sum ||U_{t+1} - U_t||``, ``sum (l_t(W_t) - l_t(U_t)) <= (B^2 + 2 B P) / (2 eta) + eta/2 sum
||g_t||^2`` (Zinkevich 2003). With full information and ``eta = 1/(K L)`` the step of the surrogate gap gives
``E[mistakes] <= sum l_t(U_t) + K L (B^2 + 2 B P) / 2`` (:class:`Turning`).

*Future work.* An algorithm for bandit feedback with O(K ||U||^2) mistakes on separable data and O(K sqrt T) surrogate
regret otherwise, without knowing which: :class:`PerceptronsFirst`, for strongly separable data.
"""

import math
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from gappletron.base.checks import number, whole
from gappletron.data.stream import CHUNK, Chunk, Stream, make_chunk
from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import Row, add_outer, argmax, dot
from gappletron.kernel.state import Field, Layout
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Decision, Learner, Problem, Round, add_column
from gappletron.learners.optimizers import Optimizer
from gappletron.learners.registry import named


class ExponentiatedGradient(Optimizer):
    """Scale-free FTRL with the entropy, on the ball ``sum |W_jk| <= B``: ``W = B (p+ - p-)``, ``p+- ~ exp(-+ theta)``.

    ``theta = s sum_t g_t / sqrt(sum_t ||g_t||^2)`` with the largest entry as the norm of g, and ``s = sqrt(ln(2n) /
    2.75)`` for n = d K coordinates. Theorem 1 of Orabona and Pal (2018), for a regulariser that is 1/B^2-strongly
    convex in the sum of absolute values and at most ln(2n), and the diameter 2 B, gives
    ``h = B (2 sqrt(2.75 ln(2n)) + 7)``. A step costs O(d K).

    >>> round(ExponentiatedGradient(radius=1.0, coordinates=100).guarantee(), 3)
    14.634
    """

    radius: float = 1.0
    coordinates: float = 1.0

    def check(self) -> None:
        number(self.radius, "ExponentiatedGradient's radius", above=0.0)
        number(self.coordinates, "ExponentiatedGradient's coordinates", least=1.0)

    def declare(self) -> Layout:
        """Declare W, the sum of the gradients, and the sum of their squared norms."""
        return {"weights": Field("features", "classes"), "sums": Field("features", "classes"), "total": Field(least=0)}

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        dot(state.weights, x, out)

    def step(self, state: Any, x: Row, direction: Floats, weight: float) -> None:
        steepest, largest = 0.0, 0.0
        for k in range(direction.size):
            steepest = max(steepest, abs(direction[k]))
        for p in range(x.start, x.stop):
            largest = max(largest, abs(x.values[p]))
        norm = weight * steepest * largest
        if norm > 0.0:
            state.total[0] += norm * norm
            add_outer(state.sums, x, direction, weight)
            scale = math.sqrt(math.log(2.0 * self.coordinates) / 2.75 / state.total[0])
            top = 0.0
            for j in range(state.sums.shape[0]):
                for k in range(direction.size):
                    top = max(top, abs(state.sums[j, k]))
            mass = 0.0
            for j in range(state.sums.shape[0]):
                for k in range(direction.size):
                    up = math.exp(scale * (-state.sums[j, k] - top))
                    down = math.exp(scale * (state.sums[j, k] - top))
                    state.weights[j, k] = up - down
                    mass += up + down
            for j in range(state.sums.shape[0]):
                for k in range(direction.size):
                    state.weights[j, k] *= self.radius / mass

    def weights(self, state: Any) -> Floats:
        return state.weights

    def guarantee(self) -> float:
        """h, for gradients measured by their largest entry."""
        return self.radius * (2.0 * math.sqrt(2.75 * math.log(2.0 * self.coordinates)) + 7.0)


def norm_bound(classes: int, guarantee: float, max_entry: float = 1.0) -> float:
    """K L h^2 / 2 for the smooth hinge in the norm of the largest entry, where ``L = 2 max_entry^2``.

    A gradient of the smooth hinge has two rows, ``+-a x`` with ``a^2 <= 4 l``; so its largest entry, squared, is at
    most ``4 max_entry^2 l``.

    >>> norm_bound(3, 10.0)
    300.0
    """
    return classes * 2.0 * max_entry**2 * guarantee**2 / 2.0


def drift_bound(classes: int, smoothness: float, radius: float, path: float) -> float:
    """K L (B^2 + 2 B P) / 2, the bound on the dynamic surrogate regret under full information.

    >>> drift_bound(3, 4.0, 2.0, 5.0)
    144.0
    """
    return classes * smoothness * (radius**2 + 2.0 * radius * path) / 2.0


class PerceptronsFirst(Learner):
    """One Perceptron for each class, until they have made more updates than separable data allow; then Gappletron.

    The Perceptrons are those of Beygelzimer et al. (2019), for bandit feedback. If some have a positive score, it plays
    the class with the largest, and on a mistake ``W^k -= x``. Otherwise it plays uniformly, and if that is right,
    ``W^y += x``. If ``<U^y, x> >= 1`` and ``<U^k, x> <= -1`` for all other k (strong separability), each Perceptron
    makes at most ``X^2 ||U^k||^2`` updates, so all of them at most ``X^2 ||U||^2``, the `budget`. A mistake is an
    update, or a uniform round, which is an update with probability 1/K. So there are at most ``(K - 1) (budget + 1)``
    mistakes in expectation before Gappletron starts, on any data, and it starts only if the data are not separable.

    >>> from gappletron import UnitVectors, play
    >>> run = play(PerceptronsFirst(9.0), UnitVectors(3, 0.0, 5000), "bandit")[0]
    >>> run.mistakes < 60
    True
    """

    budget: float = 1.0
    then: Learner = named("gapsmh")

    setting = "bandit"
    tunings = named("gapsmh").tunings

    def tuned(self, tuning: str, problem: Problem) -> Self:
        """Return the learner with its Gappletron tuned."""
        return self.replace(then=self.then.tuned(tuning, problem))

    def check(self) -> None:
        number(self.budget, "PerceptronsFirst's budget", least=0.0)

    def refusal(self, graph: FeedbackGraph) -> str | None:
        return None if graph.is_bandit else "is made for bandit feedback"

    def declare(self) -> Layout:
        """Declare the Perceptrons, the number of their updates, and the state of Gappletron."""
        return {"perceptrons": Field("features", "classes"), "updates": Field(least=0), "then": self.then.declare()}

    def table(self, graph: FeedbackGraph) -> Any:
        return self.then.table(graph)

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        if state.updates[0] > self.budget:
            self.then.scores(state.then, x, out)
        else:
            dot(state.perceptrons, x, out)

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        if state.updates[0] > self.budget:
            return self.then.distribution(state.then, plan, x, scores, out)
        greedy = argmax(scores)
        sure = scores[greedy] > 0.0
        for i in range(out.size):
            out[i] = 0.0 if sure else 1.0 / out.size
        if sure:
            out[greedy] = 1.0
        return Decision(greedy, 0.0 if sure else 1.0)

    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        if state.updates[0] > self.budget:
            self.then.count_round(state.then, plan, greedy)

    def recall(self, state: Any, x: Row, played: Round) -> None:
        if state.updates[0] > self.budget:
            self.then.recall(state.then, x, played)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        if state.updates[0] > self.budget:
            self.then.update(state.then, plan, x, played)
        else:
            sure = played.scores[played.greedy] > 0.0
            right = played.label == played.action
            if sure != right:
                add_column(state.perceptrons, x, played.action, 1.0 if right else -1.0)
                state.updates[0] += 1.0

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        return self.then.surrogate(scores, greedy, y)

    def weights(self, state: Any) -> Floats:
        return state.perceptrons if state.updates[0] <= self.budget else self.then.weights(state.then)


def perceptrons_bound(classes: int, budget: float) -> float:
    """(K - 1)(X^2 B^2 + 1): the expected mistakes of :class:`PerceptronsFirst` before Gappletron starts.

    >>> perceptrons_bound(3, 9.0)
    20.0
    """
    return (classes - 1.0) * (budget + 1.0)


class Signs(Stream):
    """Dense rows of d signs; the first K tell the label: 1 for it, -1 for the others. All other signs are fair coins.

    The comparator with 1/2 at entry k of class k has margin 1. The sum of its entries is K/2, its norm sqrt(K)/2.

    >>> stream = Signs(3, 10, rounds=5)
    >>> stream.name, stream.max_norm**2
    ('signs:K=3,d=10,T=5,seed=0', 10.000000000000002)
    """

    def __init__(self, classes: int, features: int, rounds: int, seed: int = 0) -> None:
        K = whole(classes, "the number of classes K", least=2)
        self.features = whole(features, "the number of features d", least=K)
        self.rounds: int = whole(rounds, "the number of rounds T", least=1)
        self.seed = whole(seed, "seed")
        self.classes = tuple(range(K))
        self.max_norm = math.sqrt(self.features)
        self.name = f"signs:K={K},d={self.features},T={self.rounds},seed={self.seed}"

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed)))
        K, d = len(self.classes), self.features
        for start in range(0, self.rounds, CHUNK):
            n = min(CHUNK, self.rounds - start)
            labels = rng.integers(0, K, n)
            X = 2.0 * rng.integers(0, 2, (n, d)) - 1.0
            X[:, :K] = -1.0
            X[np.arange(n), labels] = 1.0
            yield make_chunk(
                np.arange(0, n * d + 1, d), np.tile(np.arange(d, dtype=np.int32), n), X.reshape(-1), labels
            )


class Turning(Stream):
    """One unit vector for each of K classes; S times, at equal distances, the vectors change their classes cyclically.

    ``U_t = (I - 11'/K)`` with its rows turned has margin 1 in every round and the norm sqrt(K - 1); each turn moves it
    by sqrt(2 K).

    >>> stream = Turning(3, 2, rounds=9)
    >>> stream.name, round(stream.path, 3)
    ('turning:K=3,S=2,T=9,seed=0', 4.899)
    >>> chunk = next(stream.chunks())
    >>> ((chunk.labels - chunk.indices) % 3).tolist()
    [0, 0, 0, 1, 1, 1, 2, 2, 2]
    """

    def __init__(self, classes: int, turns: int, rounds: int, seed: int = 0) -> None:
        self.features = whole(classes, "the number of classes K", least=2)
        self.turns = whole(turns, "the number of turns S")
        self.rounds: int = whole(rounds, "the number of rounds T", least=self.turns + 1)
        self.seed = whole(seed, "seed")
        self.classes = tuple(range(self.features))
        self.max_norm = 1.0
        self.name = f"turning:K={self.features},S={self.turns},T={self.rounds},seed={self.seed}"

    @property
    def path(self) -> float:
        """P, the path length of the comparators."""
        return self.turns * math.sqrt(2.0 * self.features)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed)))
        K = self.features
        for start in range(0, self.rounds, CHUNK):
            n = min(CHUNK, self.rounds - start)
            turned = np.arange(start, start + n) * (self.turns + 1) // self.rounds
            clean = rng.integers(0, K, n).astype(np.int32)
            yield make_chunk(np.arange(n + 1), clean, np.ones(n), (clean + turned) % K)
