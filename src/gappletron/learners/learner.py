"""What a learner is: scores, a distribution over actions, and an update from what the graph showed.

Below the contract, :class:`Learner`, stands what the linear learners share: W as it is, the hinge, and steps on single
columns of W.
"""

import functools
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from gappletron.base.errors import UserError
from gappletron.base.text import to_kebab_case
from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.numerics import LEAST_PROBABILITY, Row, argmax, dot, margin, sharpened_softmax, shown_probability
from gappletron.kernel.pieces import Piece, compiled, helper
from gappletron.kernel.state import Field, Layout, freeze
from gappletron.kernel.types import NO_VECTOR, Floats
from gappletron.learners.run_bound import Restart, RunBound
from gappletron.learners.score_parts import ScoreParts, score_entries


@dataclass(frozen=True)
class Problem:
    """What a tuning may depend on; an entry that is None is unknown.

    `max_norm` is X >= ||x_t||_2, `guarantee` is h(U), `radius` is B >= ||U||, and `delta` the allowed probability of
    failure.

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
        """Return X; where it is unknown or extreme, raise UserError."""
        norm: float = _check_known(self.max_norm, "largest norm of the features", "max_norm (--max-norm)")
        if not 1e-100 < norm < 1e100:
            raise UserError(
                f"no tuning is sensible for features whose largest norm is {norm:g}: scale the rows, for example to "
                "unit norm"
            )
        return norm

    def horizon(self) -> int:
        """Return T; where it is unknown, raise UserError."""
        return _check_known(self.rounds, "number of rounds", "rounds")

    def dimension(self) -> int:
        """Return d; where it is unknown, raise UserError."""
        return _check_known(self.features, "number of features", "features")


def _check_known(value: Any, meaning: str, argument: str) -> Any:
    if value is None:
        raise UserError(f"this tuning depends on the {meaning}, which is unknown: give {argument}")
    return value


class Decision(NamedTuple):
    """What a distribution was made from: the greedy class y*, and the exploration rate gamma_t.

    >>> Decision(greedy=2, rate=0.1).greedy
    2
    """

    greedy: int
    rate: float


class Round(NamedTuple):
    """A round after the action: what an update may use, all as of prediction time.

    `label` is the label's position, or -1 where the graph did not reveal it; then the learner still knows that the
    label is none of those that `action` reveals. `kept` is what the learner has kept of the round
    (:meth:`Learner.keeps`), and `delay` the number of rounds that were played since.

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
    kept: Floats = NO_VECTOR.values
    delay: int = 0


@helper
def propensity(plan: Plan, played: Round, y: int) -> float:
    """P_t(y observed), at least 2^-53, so that dividing by it is safe."""
    return max(LEAST_PROBABILITY, shown_probability(plan.graph, played.probabilities, y))


@helper
def cost_of(plan: Plan, action: int, y: int) -> float:
    """C[action, y]: 1 for a mistake where the graph has no costs, which then keeps no matrix."""
    return plan.graph.costs[action, y] if plan.graph.has_costs else 1.0 * (action != y)


@helper
def action_probability(played: Round) -> float:
    """p_t of the action that was drawn, at least 2^-53, so that dividing by it is safe."""
    return max(LEAST_PROBABILITY, played.probabilities[played.action])


class Learner(Piece, abstract=True):
    """The family of learners.

    The round loop calls `take_row`, `scores`, `distribution`, `count_round`, `take_distribution` and `update`, in this
    order, once per round.

    >>> from gappletron import FeedbackGraph, named
    >>> learner = named("perceptron")
    >>> full, bandit = FeedbackGraph.full(3), FeedbackGraph.bandit(3)
    >>> learner.setting, learner.refusal(full) is None, learner.refusal(bandit) is None
    ('full information', True, False)
    """

    setting: ClassVar[str] = ""
    """The kind of feedback it is made for, in a few words."""

    reference: ClassVar[str] = ""
    """Where it comes from: authors, title, year."""

    @property
    def uses_costs(self) -> bool:
        """Whether it minimises the costs of the graph.

        A learner that does not minimises mistakes, and a graph with costs other than 0 and 1 is refused.
        """
        return False

    teachable: ClassVar[bool] = True
    """Whether it can learn from labels without acting (:meth:`gappletron.Player.teach`): under full information its
    update must not depend on the action that was drawn."""

    default_normalize: ClassVar[str] = "none"
    """How rows are normalized by default (:func:`gappletron.data.normalization.find_normalization`)."""

    default_bias: ClassVar[bool] = False
    """Whether rows get a bias for it unless said otherwise."""

    @property
    def name(self) -> str:
        """What tables, figures and the command line call it."""
        return to_kebab_case(type(self).__name__)

    def refusal(self, graph: FeedbackGraph) -> str | None:
        """Why it cannot play this graph, as the end of a sentence that begins with its name; None where it can."""
        return None

    @property
    def has_gamma(self) -> bool:
        """Whether it has an exploration parameter gamma, of its own or of its exploration rule."""
        return self._holds("gamma")

    def with_gamma(self, gamma: float) -> Self:
        """The same learner with another exploration parameter gamma."""
        if not self.has_gamma:
            raise UserError(f"{self!r} has no gamma to set: leave it out")
        return self.replace(gamma=gamma)

    def with_memory(self, rounds: float) -> Self:
        """The same learner with a scorer whose memory is so many rounds with feedback.

        >>> from gappletron import named
        >>> named("auto").with_memory(5000).scorer.memory
        5000.0
        """
        if not self._holds("memory"):
            raise UserError(f"{self.name} has no memory to set: omit it, or use the learner 'auto'")
        return self.replace(memory=rounds)

    @abstractmethod
    def declare(self) -> Layout:
        """The fields of the state; the engine allocates them, and compiled methods change them in place."""

    def table(self, graph: FeedbackGraph) -> Any:
        """What the learner derives from the graph alone: a (named) tuple of numbers and read-only arrays."""
        return ()

    @functools.lru_cache(maxsize=32)  # noqa: B019 - a piece is a small value
    def plan(self, graph: FeedbackGraph) -> Plan:
        """What a round on this graph needs to know of it."""
        return Plan(graph.arrays, freeze(self.table(graph)))

    new_class: ClassVar[str] = "weights 0"
    """What happens when a class is added while the learner runs: what it starts with, and which formulas change."""

    def grown(self, state: Any, before: int) -> None:
        """Set what the new classes start with, where the fill value will not do; there were `before` classes."""

    takes_scores: ClassVar[bool] = False
    """Whether it can use scores that come with a row."""

    def keeps(self, classes: int) -> int:
        """How many numbers of its own a round keeps until its feedback comes; 0 by default.

        For a learner that takes scores the first is 1 where scores came with the row, and the next are these scores.
        """
        return 0

    @compiled
    def take_row(self, state: Any, plan: Plan, x: Row, kept: Floats) -> None:
        """Look at a row before it is scored; writes scratch only, by default nothing.

        `kept` begins with the scores that came with the row, for a learner that takes any.
        """

    @abstractmethod
    @compiled
    def scores(self, state: Any, x: Row, out: Floats) -> None:
        """Fill `out` with a score for every class."""

    @compiled
    def choice(self, state: Any, plan: Plan, scores: Floats) -> int:
        """The greedy class y*, which is predicted without exploration: that of the largest score.

        A learner with probabilities may return the class of least expected cost. `distribution` must return the same
        class.
        """
        return argmax(scores)

    @compiled
    def label_probabilities(self, state: Any, scores: Floats, out: Floats) -> None:
        """Fill `out` with a probability for every label, given the scores: ``softmax(scores)``.

        Unless the learner's loss is the logistic one, or it says otherwise, that is not calibrated. May use the state's
        scratch, and changes nothing else.
        """
        sharpened_softmax(scores, 1.0, out)

    @abstractmethod
    @compiled
    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        """Fill `out` with the probability of every action in the next round; changes nothing else."""

    @compiled
    def count_round(self, state: Any, plan: Plan, greedy: int) -> None:
        """Count the round, once it is played; `greedy` is y*."""

    @compiled
    def take_distribution(self, state: Any, plan: Plan, x: Row, probabilities: Floats, kept: Floats) -> None:
        """Look at the distribution that is played, which limits may have changed, and write to `kept` what the feedback
        will need; by default nothing.
        """

    @compiled
    def reset(self, state: Any) -> None:
        """Forget what may be out of date, as after a change that was noticed; by default nothing."""

    def bound(self, state: Any) -> RunBound | None:
        """What is proved about the cost of a run that led to this state; None where there is no such bound."""
        return None

    def restarts(self, state: Any) -> tuple[Restart, ...]:
        """The last restarts of a learner that restarts, oldest first."""
        return ()

    def count_restarts(self, state: Any) -> int:
        """How often it restarted in all."""
        return 0

    @property
    def can_reset(self) -> bool:
        """Whether :meth:`reset` does anything."""
        return False

    @compiled
    def recall(self, state: Any, x: Row, played: Round) -> None:
        """Restore the scratch that `update` expects from `distribution`, where other rounds came in between.

        A learner may also replace the scores of prediction time, `played.scores`, by those of today.
        """

    @abstractmethod
    @compiled
    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        """Learn from the round; called in every round, seen or not."""

    @abstractmethod
    @compiled
    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        """The surrogate loss l_t(W_t) of label y at these scores."""

    def split_scores(self, state: Any, plan: Plan, x: Row, kept: Floats) -> ScoreParts:
        """What the scores of x are the sum of: by default, what each entry of x has as its score on its own.

        Who calls it compares the sums with the scores, so a learner whose scores are not linear need not say so.
        Called where :meth:`take_row` was called for this row; writes scratch only.
        """
        classes = plan.graph.visible.shape[1]
        return ScoreParts(score_entries(functools.partial(self.scores, state), x, classes), {})

    @abstractmethod
    def weights(self, state: Any) -> Floats:
        """W as a matrix d x K (1 x K for a learner that ignores the features); columns of padding may follow."""

    tunings: ClassVar[tuple[str, ...]] = ("theory", "only-t")
    """The names that :meth:`tuned` knows."""

    def tuned(self, tuning: str, problem: Problem) -> Self:
        """The same learner with its numbers set for a problem, as the paper's figures do under this name.

        A learner that does not explore has one tuning, itself. Called by :func:`gappletron.tuned`, which checks the
        name.
        """
        return self


class Linear(Learner, abstract=True):
    """Learners whose state holds W in its field `weights`, with the multiclass hinge ``max(0, 1 - m(y))`` as surrogate
    loss.
    """

    def declare(self) -> Layout:
        return {"weights": Field("features", "classes")}

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        dot(state.weights, x, out)

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        return max(0.0, 1.0 - margin(scores, y))

    def weights(self, state: Any) -> Floats:
        return state.weights


@helper
def explore_uniformly(greedy: int, rate: float, out: Floats) -> None:
    """p = (1 - rate) e_greedy + rate/N."""
    for i in range(out.size):
        out[i] = rate / out.size
    out[greedy] += 1.0 - rate


@helper
def add_column(weights: Floats, x: Row, k: int, factor: float) -> None:
    """W^k += factor * x."""
    for p in range(x.start, x.stop):
        weights[x.indices[p], k] += factor * x.values[p]


@helper
def exchange(weights: Floats, x: Row, towards: int, away: int, step: float) -> None:
    """W += step (e_towards - e_away) (x) x."""
    for p in range(x.start, x.stop):
        j = x.indices[p]
        weights[j, towards] += step * x.values[p]
        weights[j, away] -= step * x.values[p]
