"""What a learner is: scores, a distribution over actions, and an update from what the graph showed."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gappletron._dispatch import Piece, compiled
from gappletron._validate import UserError, listing

if TYPE_CHECKING:
    from gappletron.numerics import Floats, Row
    from gappletron.graphs import FeedbackGraph, GraphArrays

__all__ = ["Decision", "Learner", "Problem", "Round"]


@dataclass(frozen=True)
class Problem:
    """What a tuning may depend on; an entry that is None is unknown.

    `max_norm` is X >= ||x_t||_2, `guarantee` is h(U), `radius` is B >= ||U||, and `delta` the allowed probability of failure.

    >>> from gappletron import FeedbackGraph
    >>> Problem(FeedbackGraph.bandit(3), rounds=1000, max_norm=2.0).norm()
    2.0
    """

    graph: FeedbackGraph
    rounds: int | None = None
    features: int | None = None
    max_norm: float | None = None
    guarantee: float | None = None
    radius: float | None = None
    delta: float = 0.05

    def norm(self) -> float:
        """X, or a UserError where it is unknown."""
        if self.max_norm is None:
            raise UserError("this tuning depends on the largest norm of the features, which is unknown: give max_norm")
        return self.max_norm


class Decision(NamedTuple):
    """What a distribution was made from: the greedy class y*, and the exploration rate gamma_t.

    >>> Decision(greedy=2, rate=0.1).greedy
    2
    """

    greedy: int
    rate: float


class Round(NamedTuple):
    """A round after the action: what an update may use, all as of prediction time.

    `label` is the label's position, or -1 where the graph did not show it; then the learner still knows that the label is none
    of those that `action` shows.

    >>> import numpy as np
    >>> played = Round(np.zeros(3), np.full(3, 1 / 3), greedy=0, action=1, label=-1)
    >>> played.label >= 0  # was the label seen?
    False
    """

    scores: Floats
    probabilities: Floats
    greedy: int
    action: int
    label: int


class Learner(Piece, abstract=True):
    """The family of learners. The round loop calls `scores`, `distribution` and `update`, in this order, once a round.

    >>> from gappletron import named
    >>> named("gapsmh").start  # doctest: +ELLIPSIS
    <bound method Gappletron.start of Gappletron(loss=SmoothHinge(), ...)>
    """

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return type(self).__name__

    @abstractmethod
    def start(self, graph: FeedbackGraph, features: int) -> Any:
        """A new state (a named tuple of arrays, which the compiled methods change in place)."""

    @abstractmethod
    @compiled
    def scores(self, state: Any, x: Row, out: Floats) -> None:
        """Fill `out` with a score for every class; the greedy class is their argmax."""

    @abstractmethod
    @compiled
    def distribution(self, state: Any, graph: GraphArrays, scores: Floats, out: Floats) -> Decision:
        """Fill `out` with the probability of every action."""

    @abstractmethod
    @compiled
    def update(self, state: Any, graph: GraphArrays, x: Row, played: Round) -> None:
        """Learn from the round; called in every round, seen or not."""

    @abstractmethod
    @compiled
    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        """The surrogate loss l_t(W_t) of label y at these scores."""

    @abstractmethod
    def weights(self, state: Any) -> Floats:
        """W as a d x K matrix."""

    @property
    def tunings(self) -> tuple[str, ...]:
        """The names that :meth:`tuned` knows."""
        return ()

    def tuned(self, tuning: str, problem: Problem) -> Learner:
        """The same learner with its numbers set for a problem."""
        raise UserError(f"{self.name} has no tuning {tuning!r}: it has {listing(self.tunings) if self.tunings else 'none'}")
