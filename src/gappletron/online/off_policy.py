"""What another learner would have done: it follows the decisions of a store, and is judged by importance weighting.

The learner sees the logged rows in order, with the actions and probabilities of the log, and learns from the same
feedback. Before each row it says what it would predict: the distribution p' over actions, and the greedy class g. With
costs C (0 and 1 for mistakes) the value of a round is ``u(y) = sum_i p'_i C[i, y]`` for its policy and ``C[g, y]`` for
its greedy class. Where y was seen, its propensity is P(y), and w = 1 / P(y); else w = 0. The estimates over n rounds:

- inverse propensities (IPS): ``sum w u / n``;
- self-normalised: ``sum w u / sum w``;
- doubly robust: ``sum m + w (u - m) / n``, where m is u as the learner itself expects it, ``sum_y q(y) u(y)``.

Their intervals are those of the normal approximation. The interval by betting is that of :class:`gappletron.Monitor`:
it holds for every n at once, without an approximation, and labels of propensity 0 enter it with their worst case.
"""

import array
import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from gappletron.base import tables
from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.data.vectors import Vectors
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Learner
from gappletron.online import events
from gappletron.online.database import NAME
from gappletron.online.opening import Graphs, check_row, expect_fit, recover
from gappletron.online.store import Store
from gappletron.play.monitor import Estimate, Monitor
from gappletron.play.player import Player
from gappletron.play.turns import Turn

# Events between two calls that show the progress.
SHOW_EVERY = 1000
TARGETS = ("policy error", "greedy error", "policy cost", "greedy cost")


@dataclass(frozen=True)
class OffPolicyEstimate:
    """An estimate of one rate, and its interval.

    >>> OffPolicyEstimate("greedy error", "ips", 0.11, 0.08, 0.14).method
    'ips'
    """

    target: str
    """``"policy error"``, ``"greedy error"``, and with costs ``"policy cost"`` and ``"greedy cost"``."""
    method: str
    """``"betting"``, ``"ips"``, ``"self-normalised"`` or ``"doubly robust"``."""
    value: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """What :func:`evaluate_off_policy` found.

    `judged` rounds count: those whose feedback came, or whose action reveals nothing. In `unsupported` of them some
    label had the propensity 0, and `missing` others would have revealed something and got no feedback. Where there are
    such rounds, only the interval by betting is right.

    >>> Evaluation("auto", 1000, 990, 200, 0, 10, 0.05, ()).labels_seen
    200
    """

    learner: str
    rounds: int
    judged: int
    labels_seen: int
    unsupported: int
    missing: int
    alpha: float
    estimates: tuple[OffPolicyEstimate, ...]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int | None = None) -> str:
        """Return the estimates as a table; lines have at most so many characters."""
        head = (
            f"{self.learner} on {self.judged:,} judged rounds of {self.rounds:,}, {self.labels_seen:,} labels seen; "
            f"intervals of confidence {1.0 - self.alpha:g}"
        )
        rows = [
            (each.target, each.method, *("-" if x is None else f"{x:.4f}" for x in (each.value, each.low, each.high)))
            for each in self.estimates
        ]
        lines = [head, *tables.align(("estimate of", "method", "estimate", "low", "high"), rows, width)]
        reasons = [
            f"in {self.unsupported:,} rounds some label had the propensity 0" if self.unsupported else "",
            f"{self.missing:,} rounds would have shown something and got no feedback" if self.missing else "",
        ]
        if any(reasons):
            lines.append(f"Only the intervals by betting are right: {', and '.join(filter(None, reasons))}.")
        return "\n".join(tables.wrap(line, width) for line in lines)


def evaluate_off_policy(
    place: str | os.PathLike[str],
    learner: Learner | str = "auto",
    *,
    name: str = NAME,
    first: int = 0,
    seed: int = 0,
    alpha: float = 0.05,
    show: Callable[[int, int | None], None] | None = None,
) -> Evaluation:
    """Evaluate a learner on the decisions of a stored model, which may be open.

    :param place, name: as those of :meth:`gappletron.Online.open`.
    :param learner: a learner, or the name of one. It starts from nothing, and is taught what the log says was taught
        (unless it cannot be taught).
    :param first: begin with this round: where the features of older ones were dropped. What was taught before it is
        left out.
    :param seed: of the learner's randomness.
    :param alpha: the intervals have the confidence 1 - alpha, each for itself.
    :param show: called now and then with the rounds so far.

    >>> import tempfile
    >>> from gappletron import UNSEEN, FeedbackGraph, Online
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = f"{folder}/mail.sqlite"
    ...     with Online.open(place, graph=FeedbackGraph.bandit(["a", "b"]), features=2, durability="os") as model:
    ...         for label in "ab" * 100:
    ...             receipt = model.act([1.0, float(label == "a")])
    ...             model.learn(receipt, label)
    ...     found = evaluate_off_policy(place, "gapsmh")
    >>> found.judged, [each.method for each in found.estimates[:4]]
    (200, ['betting', 'ips', 'self-normalised', 'doubly robust'])
    """
    alpha = number(alpha, "alpha", above=0.0, most=0.5)
    with contextlib.closing(Store(place, name)) as store:
        follower = _Follower(store, learner, whole(first, "first"), whole(seed, "the seed"))
        for number_of_event, event in store.events(store.beginning):
            with expect_fit(store, number_of_event):
                follower.follow(event)
            if show is not None and number_of_event % SHOW_EVERY == 0:
                show(follower.rounds, None)
        return follower.evaluate(alpha)


class _Follower:
    """A learner that follows a log, and the numbers of its estimates."""

    def __init__(self, store: Store, learner: Learner | str, first: int, seed: int) -> None:
        start = store.snapshots()[:1]
        logged = recover(store, (), start, max(start, default=0))  # as it was at the start
        like, rows = logged.player, "vectors" if logged.encoder is None else "records"
        below, most = like.engine.features, like.max_features
        self.player = Player(learner, like.graph, below, rows=rows, seed=seed, monitor=True, max_features=most)
        self.name, self.first = learner if isinstance(learner, str) else self.player.learner.name, first
        self.has_begun = first == 0  # the features of what stands before the first round may be gone
        self.graphs = Graphs(store)
        self.waiting: dict[int, tuple[Turn, Floats]] = {}
        self.rounds = self.judged = self.unsupported = self.missing = 0
        # The weight, the value u and the expected value m of every judged round.
        self.values = {target: array.array("d") for target in TARGETS}

    def follow(self, event: events.Event) -> None:
        """Go on by one event of the log."""
        match event:
            case events.Decided() if event.round >= self.first:
                self._decide(event)
            case events.Fed(serial, _, label) if serial in self.waiting:
                turn, expected = self.waiting.pop(serial)
                if label in (events.FORGOTTEN_LABEL, events.EXPIRED_LABEL):
                    self.missing += _shows(turn)
                else:
                    self.player.learn(turn, label)
                    if _shows(turn):
                        self._judge(turn, expected, label)
            case events.Taught(_, label, propensity, indices, values, scores) if (
                self.player.learner.teachable and self.has_begun
            ):
                vector = self.player.check((indices, values))
                given = np.array(scores) if scores is not None and self.player.learner.takes_scores else None
                self.player.teach_vector(vector, label, propensity, given)
            case events.Dropped() if self.player.learner.teachable and self.has_begun:
                check_row(self.player, None, "a row that was taught")
            case events.Added(_, version):
                self.player.extend(self.graphs[version])
            case events.GraphChanged(_, version):
                self.player.set_graph(self.graphs[version])
            case events.Grown(_, features):
                self.player.grow(max(features, self.player.engine.features))

    def _decide(self, event: events.Decided) -> None:
        """Let the learner say what it would do, and follow what was done."""
        graph, player = self.graphs[event.graph], self.player
        vector = check_row(player, event.features, f"round {event.round:,}")
        # As probabilities, of which such scores are made again.
        scores = (1.0 + event.scores) / 2.0 if event.scores.size and player.learner.takes_scores else None
        expected = player.predict_proba(Vectors.join([vector]), None if scores is None else [scores])[0]
        player.now = event.time
        row = vector.indices, vector.values
        turn = player.follow(row, event.action, event.probabilities, graph, scores=scores)
        self.rounds += 1
        self.has_begun = True
        self.waiting[event.round] = turn, expected
        if not _shows(turn):
            self._judge(turn, expected, -1)

    def _judge(self, turn: Turn, expected: Floats, label: int) -> None:
        """Count a round; the label is -1 where the action hid it."""
        graph = turn.graph
        self.judged += 1
        propensities = turn.probabilities @ graph.visible
        self.unsupported += bool((propensities <= 0.0).any())
        weight = 1.0 / float(propensities[label]) if label >= 0 else 0.0
        mistakes = np.ones((graph.n_actions, graph.n_classes)) - np.eye(graph.n_actions, graph.n_classes)
        for target, costs in (("error", mistakes), ("cost", graph.costs)):
            values = {"policy": turn.own_probabilities @ costs, "greedy": costs[turn.greedy]}
            for who, u in values.items():
                m = float(expected[: graph.n_classes] @ u)
                self.values[f"{who} {target}"].extend((weight, float(u[label]) if label >= 0 else 0.0, m))

    def evaluate(self, alpha: float) -> Evaluation:
        """Return what was found."""
        if self.judged == 0:
            raise UserError("the store has no judged round to evaluate a learner on: collect feedback first")
        report = Monitor(self.player).report(alpha)
        estimates: list[OffPolicyEstimate] = []
        for target in TARGETS:
            who, what = target.split()
            bound: Estimate | None = getattr(getattr(report, who), what)
            if bound is not None:
                estimates.append(OffPolicyEstimate(target, "betting", bound.value, bound.low, bound.high))
                estimates += _estimate(np.array(self.values[target]), target, alpha)
        missing = self.missing + sum(_shows(turn) for turn, _ in self.waiting.values())
        counts = (self.rounds, self.judged, report.labels_seen, self.unsupported, missing)
        return Evaluation(self.name, *counts, alpha, tuple(estimates))


def _shows(turn: Turn) -> bool:
    """Whether the action reveals any label; otherwise the round is judged at once."""
    return bool(turn.graph.visible[turn.action].any())


def _estimate(values: Floats, target: str, alpha: float) -> Iterator[OffPolicyEstimate]:
    """Return the three estimates with the intervals of the normal approximation."""
    weights, u, m = values.reshape(-1, 3).T
    z = NormalDist().inv_cdf(1.0 - alpha / 2.0)

    def around(method: str, value: float, half: float) -> OffPolicyEstimate:
        return OffPolicyEstimate(target, method, float(value), float(value - half), float(value + half))

    def mean(method: str, each: Floats) -> OffPolicyEstimate:
        return around(method, each.mean(), z * each.std() / math.sqrt(each.size))

    yield mean("ips", weights * u)
    if not weights.any():
        yield OffPolicyEstimate(target, "self-normalised", None, 0.0, math.inf)
    else:
        # sum w u / sum w; its variance by the delta method is that of w (u - r), over the squared mean of w.
        ratio = weights @ u / weights.sum()
        yield around("self-normalised", ratio, z * np.linalg.norm(weights * (u - ratio)) / weights.sum())
    yield mean("doubly robust", m + weights * (u - m))
