"""What is proved about the cost of a guarded player so far, as numbers, and what cannot be known (docs, page Guard)."""

import math
from dataclasses import dataclass
from typing import Any

from gappletron.base.errors import UserError
from gappletron.learners import guard
from gappletron.learners.guard import Guarded

# Why a learner began anew, by the number that its state keeps.
REASONS = ("reset", "change", "memory")


@dataclass(frozen=True)
class Restart:
    """The scorer of a learner began anew after this number of rounds: since a change was noticed (``"change"``), since
    its memory ended (``"memory"``), or since somebody asked for it (``"reset"``).

    >>> Restart(5000, "change").round
    5000
    """

    round: int
    reason: str


@dataclass(frozen=True)
class RunBound:
    """The bound of a run so far: the expected cost is at most `scorer_loss` + `value_sum`.

    It is also at most the loss of any fixed linear classifier (U, a), plus ``distance * ||(U, a - 1)||^2``, plus
    `value_sum`.

    :param rounds: the rounds that it is about, with those that were taught.
    :param scorer_loss: the sum of the scorer's losses, each label that was seen weighted by 1 / P. Where every label is
        seen this is the sum itself. Under partial feedback the sum cannot be known; this estimates it without bias.
    :param scorer_error: the standard error of that estimate, at most.
    :param own_loss: the same sum for the scores that were played.
    :param value_sum: the sum of max(0, V_t), which is known exactly.
    :param distance: the sum of 1 / (2 eta) over the phases.
    :param labels_seen: how many labels the estimates rest on.
    :param phases: how often the guard began anew, and one.
    :param uncovered: the rounds in which a limit on the exploration hid a label for certain: nothing is proved then.
    :param latest: the longest delay of feedback, in rounds; the bound covers delays up to the learner's `delay`.

    >>> from gappletron import FeedbackGraph, Player, Synthetic
    >>> player = Player("guarded", FeedbackGraph.filtering(3), 40)
    >>> for chunk in Synthetic(classes=3, features=40, noise=0, rounds=2000).chunks():
    ...     player.advance(chunk)
    >>> found = player.bound()
    >>> found.rounds, found.is_proved, found.cost < 1000
    (2000, True, True)
    """

    rounds: int
    scorer_loss: float
    scorer_error: float
    own_loss: float
    value_sum: float
    distance: float
    labels_seen: int
    phases: int
    uncovered: int
    latest: int
    delay: float

    @property
    def cost(self) -> float:
        """The bound on the expected cost by the scorer's loss, as far as it was seen."""
        return self.scorer_loss + self.value_sum

    @property
    def is_proved(self) -> bool:
        """Whether all rounds are covered by the theorem."""
        return self.uncovered == 0 and self.latest <= self.delay

    def against(self, norm: float) -> float:
        """Return what is added to the loss of a fixed linear classifier with ``||(U, a - 1)|| = norm``."""
        return self.distance * norm * norm + self.value_sum

    def __str__(self) -> str:
        lines = [
            f"Expected cost of {self.rounds:,} rounds: at most the scorer's loss, {self.scorer_loss:,.1f} (estimated "
            f"from {self.labels_seen:,} labels, standard error {self.scorer_error:,.1f}), plus {self.value_sum:,.1f}.",
            f"For a fixed linear classifier (U, a): at most its loss plus {self.distance:,.0f} ||(U, a - 1)||^2 plus "
            f"{self.value_sum:,.1f}.",
        ]
        if self.uncovered:
            lines.append(
                f"Not proved: in {self.uncovered:,} rounds a limit on the exploration hid a label for certain."
            )
        if self.latest > self.delay:
            lines.append(
                f"Not proved: feedback came up to {self.latest:,} rounds late, and the learner's delay is "
                f"{self.delay:g}; use guarded:delay={self.latest}."
            )
        return "\n".join(lines)


def compute_bound(learner: Any, state: Any) -> RunBound:
    """Return the bound of a guarded learner with this state; other learners are a UserError."""
    if not isinstance(learner, Guarded):
        raise UserError(f"{learner.name} has no bound of this kind: use the learner 'guarded', or see the page Theory")
    sums = state.sums.tolist()
    eta = learner.find_rate(state)
    squares = max(0.0, sums[guard.SQUARES])
    return RunBound(
        rounds=int(state.rounds[0]),
        scorer_loss=sums[guard.SCORER],
        scorer_error=math.sqrt(squares),
        own_loss=sums[guard.OWN],
        value_sum=sums[guard.VALUES],
        distance=sums[guard.OFFSETS] + (0.5 / eta if eta > 0.0 else 0.0),
        labels_seen=int(sums[guard.SEEN]),
        phases=int(state.phase[0]) + 1,
        uncovered=int(sums[guard.UNCOVERED]),
        latest=int(sums[guard.LATEST]),
        delay=learner.delay,
    )


def list_restarts(learner: Any, state: Any) -> tuple[Restart, ...]:
    """Return the last restarts of a learner, oldest first; none for one that does not restart."""
    if not isinstance(learner, Guarded):
        return ()
    count = int(state.restarts[0])
    places = [n % guard.REMEMBERED for n in range(max(0, count - guard.REMEMBERED), count)]
    return tuple(Restart(int(state.restarted[0, p]), REASONS[int(state.restarted[1, p])]) for p in places)
