"""What is proved about the cost of a guarded player so far, as numbers, and what cannot be known (docs, page Guard)."""

from collections.abc import Sequence
from dataclasses import dataclass

# Why a learner restarted, by the number that its state keeps (0: it did not); and in words.
REASONS = ("", "change", "memory", "reset", "return")
WHY = {
    "reset": "it was reset",
    "change": "it noticed a change",
    "memory": "its memory ended",
    "return": "what it knew before holds again",
}
# So many restarts are named in a sentence, for each reason.
NAMED = 4

# In a phase that began without the scorer, the square of its weight counts so many times in the distance from there.
DISTRUST = 8.0


@dataclass(frozen=True)
class Restart:
    """The scorer of a learner restarted after this number of rounds, with those that were taught: because a change was
    noticed (``"change"``), its memory ended (``"memory"``), or somebody asked for it (``"reset"``). Or it went back to
    the weights of before the last restart, because what they knew holds again (``"return"``).

    >>> Restart(5000, "change").round
    5000
    """

    round: int
    reason: str


def describe_restarts(restarts: Sequence[Restart]) -> str:
    """Return when a learner restarted, and why: a sentence without its subject.

    >>> describe_restarts([Restart(5052, "change"), Restart(7062, "change"), Restart(9000, "return")])
    'restarted after rounds 5,052 and 7,062, because it noticed a change; went back after round 9,000, \
because what it knew before holds again'
    >>> describe_restarts([Restart(n, "memory") for n in range(100, 1000, 100)])
    'restarted lately after rounds 600, 700, 800 and 900, because its memory ended'
    """
    parts = []
    for reason in dict.fromkeys(each.reason for each in restarts):
        rounds = [f"{each.round:,}" for each in restarts if each.reason == reason]
        *first, last = rounds[-NAMED:]
        places = f"rounds {', '.join(first)} and {last}" if first else f"round {last}"
        verb = "went back" if reason == "return" else "restarted"
        parts.append(f"{verb} {'lately ' * (len(rounds) > NAMED)}after {places}, because {WHY[reason]}")
    return "; ".join(parts)


@dataclass(frozen=True)
class RunBound:
    """The bound of a run so far on the expected cost, above what the right classes cost: by the scorer's loss it is
    :attr:`cost`.

    It is also at most the loss of any fixed linear classifier (U, a), plus what :meth:`against` returns.

    :param rounds: the rounds that it is about, with those that were taught.
    :param scorer_loss: the sum of the scorer's losses, each label that was seen weighted by 1 / P. Where every label is
        seen this is the sum itself. Under partial feedback the sum cannot be known; this estimates it without bias.
    :param scorer_error: the standard error of that estimate; 0 where every label is seen. It is estimated from the same
        labels, so it is too small where a rare label with a large loss was never seen.
    :param own_loss: the same sum for the scores that were played.
    :param value_sum: the sum of max(0, V_t), which is known exactly.
    :param distance: the sum of 1 / (2 eta) over the phases that began with the scorer, at (0, 1).
    :param distance_from_nothing: the same sum over those that began without it, at (0, 0), where a^2 counts 8 times.
    :param labels_seen: how many labels the estimates rest on.
    :param phases: how often the guard began anew, and one.
    :param uncovered: the rounds in which a limit on the exploration hid a label for certain: nothing is proved then.
    :param latest: the longest delay of feedback, in rounds; the bound covers delays up to the learner's `delay`.
    :param taught: how many of the rounds were taught: nothing is proved of these.
    :param waiting: in how many rounds something was shown that the learner has not been told yet.
    :param undone: the rounds that the learner was rolled back over, of which nothing is proved; they are not in
        `rounds`.

    >>> from gappletron import FeedbackGraph, Player, Synthetic
    >>> player = Player("auto", FeedbackGraph.filtering(3), 40)
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
    distance_from_nothing: float
    labels_seen: int
    phases: int
    uncovered: int
    latest: int
    delay: float
    taught: int = 0
    waiting: int = 0
    undone: int = 0

    @property
    def cost(self) -> float:
        """The bound on the expected cost by the scorer's loss, as far as it was seen."""
        return self.scorer_loss + self.against(0.0, 1.0)

    @property
    def is_proved(self) -> bool:
        """Whether all rounds are covered by the theorem."""
        is_in_time = self.latest <= self.delay and not self.is_mixed
        return self.uncovered == self.taught == self.waiting == self.undone == 0 and is_in_time

    @property
    def is_mixed(self) -> bool:
        """Whether feedback may have come in a later phase than that of its round, of which nothing is proved."""
        return self.latest > 0 and self.phases > 1

    def against(self, norm: float, a: float = 0.0) -> float:
        """Return what is added to the loss of a fixed linear classifier (U, a) with ``||U|| = norm``."""
        U, from_scorer, from_nothing = norm * norm, (a - 1.0) ** 2, DISTRUST * a * a
        distances = self.distance * (U + from_scorer) + self.distance_from_nothing * (U + from_nothing)
        return distances + self.value_sum

    def __str__(self) -> str:
        lines = [
            f"Expected cost of {self.rounds:,} rounds, above that of the right classes: at most the scorer's loss, "
            f"{self.scorer_loss:,.1f} (from {self.labels_seen:,} labels, standard error {self.scorer_error:,.1f}), "
            f"plus {self.against(0.0, 1.0):,.1f}.",
            f"For a fixed linear classifier U: at most its loss plus "
            f"{self.distance + self.distance_from_nothing:,.0f} ||U||^2 plus {self.against(0.0):,.1f}.",
        ]
        is_late = self.latest > self.delay
        reasons = {
            f"in {self.uncovered:,} rounds a limit on the exploration hid a label for certain": self.uncovered,
            f"feedback came up to {self.latest:,} rounds late, and the learner's delay is {self.delay:g}; use "
            f"auto:delay={self.latest}": is_late,
            "feedback was late, and may have come after the guard began a new phase": self.is_mixed and not is_late,
            f"{self.taught:,} of the rounds were taught": self.taught,
            f"the learner was rolled back over {self.undone:,} other rounds": self.undone,
            f"the feedback of {self.waiting:,} rounds that reveal something has not come yet": self.waiting,
        }
        return "\n".join([*lines, *(f"Not proved: {reason}." for reason, holds in reasons.items() if holds)])
