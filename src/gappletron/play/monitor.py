"""Honest numbers without labels: the error of a player, estimated from what its graph revealed.

:class:`Monitor` reads what a :class:`gappletron.Watch` has written down. The docs, page Monitoring, say what the
numbers mean and prove the intervals.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gappletron.base import files, tables
from gappletron.base.checks import Label, number
from gappletron.base.colours import COLOURS
from gappletron.base.errors import UserError
from gappletron.base.text import make_printable
from gappletron.learners.run_bound import Restart, RunBound, describe_restarts
from gappletron.play import monitor_state
from gappletron.play.few_labels import warn_of_few_labels
from gappletron.play.history import draw_band, label_axes, new_figure
from gappletron.play.monitor_state import BLOCKS, GREEDY, GREEDY_ERROR, JUDGED, POLICY, POLICY_ERROR, SEEN, SLOTS
from gappletron.play.player import Player

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Estimate:
    """A rate that is known only in part.

    The truth is between `low` and `high` with the confidence of the report. `value` is the estimate, and `naive` what
    it would be among the rounds whose label was seen, which is biased. Both are None where there is nothing to
    estimate from.

    >>> Estimate(0.05, 0.04, 0.07, 0.02).width
    0.03
    """

    value: float | None
    low: float
    high: float
    naive: float | None

    @property
    def width(self) -> float:
        """high - low."""
        return round(self.high - self.low, 12)

    def cells(self) -> list[str]:
        """Return the four numbers as texts for a table.

        >>> Estimate(None, 0.0, 1.0, None).cells()
        ['-', '0.0000', '1.0000', '-']
        """
        return ["-" if found is None else f"{found:.4f}" for found in (self.value, self.low, self.high, self.naive)]

    def __str__(self) -> str:
        value, low, high, _ = self.cells()
        return f"{value} [{low}, {high}]"


@dataclass(frozen=True)
class ClassRates:
    """The numbers of one class.

    `share` is that of the judged rounds whose label is the class, `error` the share of these in which it was not
    predicted, and `precision_error` the share of wrong ones among the rounds in which it was predicted. The confidence
    is that of each number alone, not of all at once.

    >>> unknown = Estimate(None, 0.0, 1.0, None)
    >>> ClassRates(unknown, unknown, unknown).share.high
    1.0
    """

    share: Estimate
    error: Estimate
    precision_error: Estimate


@dataclass(frozen=True)
class Rates:
    """Mistakes per round, and cost per round (None where only mistakes count), in all and by class (None: not kept).

    All are of the judged rounds, but `error_of_all`: an interval for the mistakes per round over all rounds. Those
    that are not judged may all be right or all be wrong.

    >>> Rates(Estimate(0.05, 0.04, 0.07, 0.02)).cost is None
    True
    """

    error: Estimate
    cost: Estimate | None = None
    error_of_all: tuple[float, float] = (0.0, 1.0)
    classes: Mapping[Label, ClassRates] | None = None


@dataclass(frozen=True)
class WindowRates:
    """The rates of the last rounds, from number `first` to number `last`.

    >>> rates = Rates(Estimate(0.05, 0.04, 0.07, 0.02))
    >>> WindowRates(40_000, 49_999, 10_000, rates, rates).first
    40000
    """

    first: int
    last: int
    judged: int
    policy: Rates
    greedy: Rates


@dataclass(frozen=True)
class Alarm:
    """The greedy class errs more often than it once did: the intervals, for the probability of an error, of the last
    complete window and of the best window before it do not overlap.

    >>> Alarm(since=30_000, error=(0.2, 0.24), best=(0.05, 0.07)).since
    30000
    """

    since: int
    error: tuple[float, float]
    best: tuple[float, float]


@dataclass(frozen=True)
class Report:
    """What :meth:`Monitor.report` found.

    `rounds` counts decisions since the watch began, `judged` those whose feedback came or whose action shows nothing.
    The other rounds, :attr:`unjudged`, wait for their feedback, or it never came. All rates are of the judged rounds,
    but :attr:`Rates.error_of_all`. `policy` is what was played (or, for a player that follows another, what it
    would have played), `greedy` the greedy class. `spent` is what exploration has cost, where there is a budget.
    `restart_count` is how often the learner restarted in all, and `restarts` are the last 16 times.

    >>> from gappletron import FeedbackGraph, Player
    >>> report = Monitor(Player("auto", FeedbackGraph.bandit(3), 2, monitor=True)).report()
    >>> report.rounds, report.greedy.error, report.to_dict()["greedy"]["error"]["high"]
    (0, Estimate(value=None, low=0.0, high=1.0, naive=None), 1.0)
    """

    rounds: int
    judged: int
    labels_seen: int
    explored: int
    actions: Mapping[Label, int]
    alpha: float
    policy: Rates
    greedy: Rates
    window: WindowRates | None
    alarm: Alarm | None
    spent: float | None
    restarts: tuple[Restart, ...] = ()
    restart_count: int = 0
    bound: RunBound | None = None

    @property
    def unjudged(self) -> int:
        """The rounds whose feedback has not come: they wait, have expired, or were forgotten."""
        return self.rounds - self.judged

    @property
    def warning(self) -> str | None:
        """That so few labels are seen that a better policy could not be told from the present one, and the cure; None
        where there are enough.
        """
        rates = self.policy if self.window is None else self.window.policy
        return warn_of_few_labels(self.labels_seen, self.judged, rates.error.low, rates.error.high)

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON, with the warning; names of classes and actions become texts."""
        return {**asdict(self, dict_factory=_make_json_ready), "unjudged": self.unjudged, "warning": self.warning}

    def _repr_html_(self) -> str:
        more = "".join(f"<p>{escape(line)}</p>" for line in self._remarks())
        return tables.make_html(("", "estimate", "low", "high", "naive"), self._rows(), self._headline()) + more

    def _headline(self) -> str:
        return (
            f"{self.rounds:,} rounds, {self.judged:,} judged, {self.labels_seen:,} labels seen, {self.explored:,} "
            f"explored; intervals of confidence {1.0 - self.alpha:g}"
        )

    def __str__(self) -> str:
        table = tables.align(("", "estimate", "low", "high", "naive"), self._rows())
        return "\n".join([self._headline(), *table, *self._remarks()])

    def _remarks(self) -> list[str]:
        """Return what is said below the table."""
        lines = []
        if self.unjudged:
            (low, high), (greedy_low, greedy_high) = self.policy.error_of_all, self.greedy.error_of_all
            lines.append(
                f"{self.unjudged:,} rounds have had no feedback. With them, whatever they were, the error of all "
                f"rounds is {low:.4f} to {high:.4f} for the policy, and {greedy_low:.4f} to {greedy_high:.4f} for the "
                "greedy class."
            )
        if self.window is not None:
            lines.append(f"The window: rounds {self.window.first:,} to {self.window.last:,}.")
        if self.alarm is not None:
            (low, high), (best, worst) = self.alarm.error, self.alarm.best
            lines.append(
                f"Drift since round {self.alarm.since:,}: an error has the probability {low:.4f} to {high:.4f}, and "
                f"had {best:.4f} to {worst:.4f}."
            )
        if self.restarts:
            lines.append(f"The learner {describe_restarts(self.restarts)}.")
        if self.bound is not None:
            lines.append(str(self.bound))
        if self.warning is not None:
            lines.append(self.warning)
        return lines

    def _rows(self) -> list[tuple[str, ...]]:
        """Return a row of the table for each estimate."""
        found = {}
        for where, rates in (("", self), (", window", self.window)):
            for who in ("policy", "greedy") if rates is not None else ():
                found[f"{who} error{where}"] = getattr(rates, who).error
                found[f"{who} cost{where}"] = getattr(rates, who).cost
        for name, rates_of_class in (self.greedy.classes or {}).items():
            found[f"greedy error at {make_printable(str(name))}"] = rates_of_class.error
        return [(name, *estimate.cells()) for name, estimate in found.items() if estimate is not None]


def _make_json_ready(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a dataclass with names as texts and tuples as lists, without classes that are not kept."""
    found: dict[str, Any] = {name: list(value) if isinstance(value, tuple) else value for name, value in items}
    for name in ("actions", "classes"):
        if found.get(name) is not None:
            found[name] = {str(label): value for label, value in found[name].items()}
    return {name: value for name, value in found.items() if name != "classes" or value is not None}


class Monitor:
    """What is known of a player's error, as the player is now; make another one after more rounds.

    One thing is assumed: the label of a round does not depend on the action that is drawn in it. It may depend on all
    that was before, and on the probabilities. Where an action changes the outcome, the intervals can be wrong (docs,
    page Monitoring).

    :param player: one with a watch: ``Player(..., monitor=True)``.

    >>> from gappletron import FeedbackGraph, Limits, Player, Synthetic
    >>> graph = FeedbackGraph.filtering(3)
    >>> player = Player("auto", graph, 40, monitor=True, min_propensity=0.05)
    >>> for chunk in Synthetic(classes=3, features=40, noise=0.05, rounds=20_000).chunks():
    ...     player.advance(chunk)
    >>> error = Monitor(player).report().greedy.error
    >>> error.low < 0.035 < error.high < 0.1
    True
    """

    def __init__(self, player: Player, waiting: int = 0) -> None:
        if not isinstance(player.watch, monitor_state.Watch):
            raise UserError("the player is not watched, so nothing is known of its error: make it with monitor=True")
        self._watch, self._graph = player.watch, player.graph
        self._state = player.engine.watched.resized(player.engine.watched.sizes)  # a copy
        self._rounds, self._now, self._spent = player.rounds, player.now, player.spent
        self._restarts, self._restart_count = player.restarts, player.restart_count
        self._bound = player.bound(waiting)

    def report(self, alpha: float = 0.05) -> Report:
        """Return the estimates with their intervals.

        Each interval holds at all rounds at once with a probability of at least 1 - alpha; that of the window holds
        for all windows at all rounds at once. The alarm is that of :class:`gappletron.Watch`, with its own alpha.
        """
        alpha = number(alpha, "alpha", above=0.0, most=0.5)
        level = math.log(2.0 / alpha)
        watched = self._state.tuple
        return Report(
            rounds=self._count(monitor_state.DECIDED, SLOTS),
            judged=self._count(JUDGED, SLOTS),
            labels_seen=self._count(SEEN, SLOTS),
            explored=self._count(monitor_state.EXPLORED, SLOTS),
            actions=dict(zip(self._graph.actions, watched.actions.tolist(), strict=True)),
            alpha=alpha,
            policy=self._rates(POLICY_ERROR, SLOTS, level, self._classes(POLICY, alpha)),
            greedy=self._rates(GREEDY_ERROR, SLOTS, level, self._classes(GREEDY, alpha)),
            window=self._window(alpha),
            alarm=self._alarm(),
            spent=self._spent,
            restarts=self._restarts,
            restart_count=self._restart_count,
            bound=self._bound,
        )

    def rates(self, who: str, alpha: float = 0.05) -> Rates:
        """Return the rates of ``"policy"`` or ``"greedy"`` alone, without those of classes."""
        if who not in ("policy", "greedy"):
            raise UserError(f"there are no rates of {who!r}: choose 'policy' or 'greedy'")
        q = POLICY_ERROR if who == "policy" else GREEDY_ERROR
        return self._rates(q, SLOTS, math.log(2.0 / number(alpha, "alpha", above=0.0, most=0.5)))

    def _count(self, which: int, slots: int) -> int:
        return int(self._state.tuple.counts[:slots, which].sum())

    def _rates(self, q: int, slots: int, level: float, classes: dict[Label, ClassRates] | None = None) -> Rates:
        """Return the error, and the cost where there is one, of the policy or the greedy class over the first slots."""
        cost = None
        if self._state.tuple.costly[0] > 0:
            cost = self._quantity(q + monitor_state.POLICY_COST, slots, level, float(self._graph.costs.max()))
        error = self._quantity(q, slots, level, 1.0)
        rounds, judged = self._count(monitor_state.DECIDED, slots), self._count(JUDGED, slots)
        low = _ratio(error.low * judged, rounds, 0.0)
        high = _ratio(error.high * judged + rounds - judged, rounds, 1.0)
        return Rates(error, cost, (low, min(1.0, high)), classes)

    def _quantity(self, q: int, slots: int, level: float, most: float) -> Estimate:
        """Return the mean of a quantity, which is at most `most`, over the judged rounds of the first slots."""
        watched, judged = self._state.tuple, self._count(JUDGED, slots)
        low, high = monitor_state.bound_total(watched, q, slots, level)
        value = monitor_state.estimate_total(watched, q, slots, low, high)
        naive = _ratio(monitor_state.sum_slots(watched, q, monitor_state.AMONG_SEEN, slots), self._count(SEEN, slots))
        return _estimate(_ratio(value, judged), _ratio(low, judged, 0.0), _ratio(high, judged, most), naive)

    def _window(self, alpha: float) -> WindowRates | None:
        block, first, since = self._state.tuple.place.tolist()
        if block < 0:
            return None
        start = max(first, block - (BLOCKS - 1))
        level = math.log(2.0 / monitor_state.share_alpha(alpha, start - first))
        return WindowRates(
            first=max(since, start * (self._watch.window // BLOCKS)),
            last=self._rounds - 1,
            judged=self._count(JUDGED, BLOCKS),
            policy=self._rates(POLICY_ERROR, BLOCKS, level),
            greedy=self._rates(GREEDY_ERROR, BLOCKS, level),
        )

    def _alarm(self) -> Alarm | None:
        best_low, best_high, _, last_low, last_high, _, since = self._state.tuple.alarm.tolist()
        return Alarm(int(since), (last_low, last_high), (best_low, best_high)) if since >= 0.0 else None

    def _classes(self, who: int, alpha: float) -> dict[Label, ClassRates]:
        return {name: self._class(k, who, alpha) for k, name in enumerate(self._graph.classes)}

    def _class(self, k: int, who: int, alpha: float) -> ClassRates:
        """Return the numbers of class k.

        The share and the error are made of four bounds with alpha / 4 each, the error of the predictions of two.
        """
        watched, judged, seen = self._state.tuple, self._count(JUDGED, SLOTS), self._count(SEEN, SLOTS)
        predicted, seen_missed, seen_hit, hidden_missed, hidden_hit, seen_predicted = watched.class_sums[
            k, who
        ].tolist()
        missed, hit, labels = seen_missed + hidden_missed, seen_hit + hidden_hit, seen_missed + seen_hit
        missed_low, missed_high = monitor_state.bound_class_total(watched, k, who, 0, math.log(4.0 / alpha))
        hit_low, hit_high = monitor_state.bound_class_total(watched, k, who, 1, math.log(4.0 / alpha))
        share = _estimate(
            _ratio(missed + hit, judged),
            _ratio(missed_low + hit_low, judged, 0.0),
            _ratio(missed_high + hit_high, judged, 1.0),
            _ratio(labels, seen),
        )
        error = _estimate(
            _ratio(missed, missed + hit),
            _ratio(missed_low, missed_low + hit_high, 0.0),
            _ratio(missed_high, missed_high + hit_low, 1.0),
            _ratio(seen_missed, labels),
        )
        precision = Estimate(None, 0.0, 1.0, None)
        if predicted > 0.0:
            hit_low, hit_high = monitor_state.bound_class_total(watched, k, who, 1, math.log(2.0 / alpha))
            naive = 1.0 - seen_hit / seen_predicted if seen_predicted else None
            precision = _estimate(1.0 - hit / predicted, 1.0 - hit_high / predicted, 1.0 - hit_low / predicted, naive)
        return ClassRates(share, error, precision)

    @property
    def curve(self) -> list[dict[str, Any]]:
        """The estimates over time: at most some 250 points, and the present one.

        Each has the rounds so far, the time of the round (:attr:`gappletron.Player.now`), `policy` and `greedy` as
        ``[value, low, high, naive]``, and the labels seen and the rounds explored so far.

        >>> from gappletron import FeedbackGraph, Player
        >>> player = Player("auto", FeedbackGraph.bandit(3), 2, monitor=True)
        >>> turn = player.act([1.0, 0.5])
        >>> player.learn(turn, turn.action)
        >>> Monitor(player).curve[0]["policy"]
        [0.0, 0.0, 0.0, 0.0]
        """
        state = self._state.resized(self._state.sizes)
        watched, points = state.tuple, int(self._state.tuple.drawn[0])
        rounds = [int(found) for found in watched.curve[:points, 0]]
        if self._rounds > watched.place[monitor_state.SINCE] >= 0 and (not rounds or rounds[-1] < self._rounds):
            monitor_state.fill_point(watched, points, self._rounds, self._now, self._watch.alpha)
            points += 1
        return [_point(row) for row in watched.curve[:points].tolist()]

    def plot(self, path: str | Path | None = None, ax: "Axes | None" = None) -> "Figure":
        """Draw the estimated error of the policy and of the greedy class with their bands over the rounds, and the
        naive estimate. With `path`, also write it, as PNG, SVG or PDF by the suffix.
        """
        figure, (ax,) = new_figure(ax)
        points = self.curve
        rounds = [point["round"] for point in points]
        for who, colour in (("policy", COLOURS[0]), ("greedy", COLOURS[1])):
            value, low, high, naive = ([point[who][i] for point in points] for i in range(4))
            ax.plot(rounds, value, color=colour, linewidth=1.8, label=f"{who}, estimate and interval")
            draw_band(ax, rounds, low, high, colour)
            ax.plot(rounds, naive, color=colour, linewidth=1.2, linestyle=":", label=f"{who}, seen labels")
        label_axes(ax, "round", "error rate so far", as_percent=True)
        if path is not None:
            files.save_figure(figure, path)
        return figure


def _ratio(part: float, whole: float, otherwise: Any = None) -> Any:
    """Return a part of a whole, or something else where the whole is 0."""
    return part / whole if whole > 0.0 else otherwise


def _estimate(value: float | None, low: float, high: float, naive: float | None) -> Estimate:
    """Return an estimate whose value is inside of the interval, of plain numbers."""
    low, high = float(low), float(high)
    inside = None if value is None else min(high, max(low, float(value)))
    return Estimate(inside, low, high, None if naive is None else float(naive))


def _point(row: list[float]) -> dict[str, Any]:
    known = [None if place in (2, 5, 6, 9) and number < 0.0 else number for place, number in enumerate(row)]
    return {
        "round": int(row[0]),
        "time": row[1],
        "policy": known[2:6],
        "greedy": known[6:10],
        "labels_seen": int(row[10]),
        "explored": int(row[11]),
    }
