"""Limits on a learner's exploration: every label is revealed often enough, and no more is spent than a budget allows.

:class:`Limits` and :class:`Budget` are what a user gives. A player makes a piece of them, which changes the
distribution of every round before the action is drawn. So the probabilities that are written down are those that the
action was drawn with, and propensities stay right.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph, GraphArrays
from gappletron.kernel.numerics import least_propensity, shown_probability
from gappletron.kernel.pieces import Piece, compiled, helper
from gappletron.kernel.state import Field, Layout, Scratch
from gappletron.kernel.types import Floats

# The windows of a budget by time, of UTC.
SECONDS = {"hour": 3600.0, "day": 86400.0}

# A price may exceed what is left by this share of the limit: twenty times 0.05 are a little more than 1.
SLACK = 1e-9

# A budget by time begins as if so much of a window had passed, with a demand that it suffices for. The first decisions
# may be a burst; to go by them alone would buy nothing until the window is over.
HEAD_START = 0.05


@dataclass(frozen=True)
class Budget:
    """What exploration may cost: at most `limit` in each window.

    :param limit: what may be spent in a window.
    :param per: the length of the window: a number of decisions (they are counted by the number of the round), or
        ``"hour"`` or ``"day"`` of UTC, by the time of the round (:attr:`gappletron.Player.now`).
    :param prices: of actions by their names. By default an extra action (a query) costs 1 and a class nothing; on a
        graph without extra actions every class costs 1. A price is paid when the action is played and is not the
        greedy class.

    The probabilities of priced actions are scaled by one factor, from what is left and the mean of what the learner
    has asked for so far, so that the budget lasts through the window. What is taken goes to the greedy class.

    Where the clock is set back by more than a window, the window begins anew there, with what was spent; it is counted
    (:attr:`LimitsReport.clock_resets`).

    >>> Budget(50, per=1000)
    Budget(limit=50.0, per=1000, prices=None)
    >>> Budget(2.5, per="day", prices={"query": 0.05}).prices
    {'query': 0.05}
    """

    limit: float
    per: int | str = 1000
    prices: Mapping[Label, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", number(self.limit, "the limit of a budget", least=0.0))
        if not isinstance(self.per, str):
            object.__setattr__(self, "per", whole(self.per, "the decisions of a budget", least=1, most=2**40))
        elif self.per not in SECONDS:
            raise UserError(f"a budget per {self.per!r} is not known: give a number of decisions, 'hour' or 'day'")
        if self.prices is not None:
            if not isinstance(self.prices, Mapping):
                raise UserError("prices must be a mapping from actions to numbers, as in {'query': 0.05}")
            checked = {name: number(price, f"the price of {name!r}", least=0.0) for name, price in self.prices.items()}
            object.__setattr__(self, "prices", checked)

    @property
    def is_timed(self) -> bool:
        """Whether the windows are those of a clock, not numbers of decisions."""
        return isinstance(self.per, str)

    @property
    def length(self) -> float:
        """The length of a window, in seconds or in decisions.

        >>> Budget(1, per="hour").length
        3600.0
        """
        return float(SECONDS.get(self.per, self.per))  # type: ignore[arg-type]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the budget that a text means: ``50/1000`` or ``50/day``.

        >>> Budget.parse("2.5/day")
        Budget(limit=2.5, per='day', prices=None)
        """
        limit, _, per = (part.strip() for part in text.partition("/"))
        try:
            amount = float(limit)
        except ValueError:
            amount = math.nan
        if math.isnan(amount) or not per:
            raise UserError(f"{text!r} is not a budget: write it as in 50/1000 or 50/day")
        return cls(amount, int(per) if per.isdecimal() else per)

    def prices_on(self, graph: FeedbackGraph) -> Floats:
        """Return the price of every action of a graph.

        >>> from gappletron import FeedbackGraph
        >>> Budget(50).prices_on(FeedbackGraph.label_efficient(3))
        array([0., 0., 0., 1.])
        """
        found = np.ones(graph.n_actions)
        if graph.n_actions > graph.n_classes:
            found[: graph.n_classes] = 0.0
        for name, price in (self.prices or {}).items():
            found[graph.action_index(name)] = price
        return found


@dataclass(frozen=True)
class Limits:
    """Limits on exploration.

    :param min_propensity: every label is revealed with at least this probability: the distribution is mixed with the
        uniform one on the graph's dominating set, as little as possible. At most 1 / rho.
    :param budget: what exploration may cost. It comes after `min_propensity` and wins over it: without money no label
        is bought.

    >>> Limits(min_propensity=0.01, budget=Budget(50, per=1000))
    Limits(min_propensity=0.01, budget=Budget(limit=50.0, per=1000, prices=None))
    """

    min_propensity: float = 0.0
    budget: Budget | None = None

    def __post_init__(self) -> None:
        least = number(self.min_propensity, "min_propensity", least=0.0, most=1.0)
        object.__setattr__(self, "min_propensity", least)
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise UserError(f"{self.budget!r} is not a budget: give Budget(50, per=1000), or None")

    def changed(self, min_propensity: float | None, budget: Budget | str | None) -> Self:
        """Return other limits: None keeps the propensity, and ``"keep"`` the budget.

        >>> Limits(0.1).changed(None, Budget(5))
        Limits(min_propensity=0.1, budget=Budget(limit=5.0, per=1000, prices=None))
        """
        if isinstance(budget, str) and budget != "keep":
            raise UserError(f"budget={budget!r} is not a budget: give Budget(50, per=1000), None, or 'keep'")
        least = self.min_propensity if min_propensity is None else min_propensity
        return type(self)(least, self.budget if isinstance(budget, str) else budget)

    @property
    def is_timed(self) -> bool:
        """Whether there is a budget by time, for which a player must know the time of its rounds."""
        return self.budget is not None and self.budget.is_timed

    def piece(self) -> "Limiting":
        """Return the part of the compiled round that keeps to these limits."""
        if self.budget is not None:
            return Budgeted(self.min_propensity, self.budget.limit, self.budget.length, self.budget.is_timed)
        return LeastPropensity(self.min_propensity) if self.min_propensity > 0.0 else NoLimits()

    def plan(self, graph: FeedbackGraph) -> Any:
        """Return what the piece needs to know of a graph; a UserError where the graph cannot keep to the limits."""
        if self.min_propensity * graph.rho > 1.0 + SLACK:
            raise UserError(
                f"min_propensity={self.min_propensity:g} is too much for the graph {graph.name!r}, which needs "
                f"{graph.rho} actions to reveal every label: give at most {1 / graph.rho:.3g}"
            )
        if isinstance(self.piece(), NoLimits):
            return ()
        shares = graph.visible[list(graph.dominating_indices)].mean(axis=0)
        prices = np.zeros(graph.n_actions) if self.budget is None else self.budget.prices_on(graph)
        for array in (shares, prices):
            array.flags.writeable = False
        return LimitsPlan(shares, prices)

    def report(self, limited: Any, rounds: int, now: float) -> "LimitsReport":
        """Return what the limits have done so far, of a state that :meth:`piece` declared.

        :param rounds: decided so far.
        :param now: in seconds since 1970.

        >>> Limits(0.1).report((), 0, 0.0)
        LimitsReport(propensity=0.1, spent=None, spent_in_all=None, clock_resets=0)
        """
        least = self.min_propensity or None
        if self.budget is None:
            return LimitsReport(least, None, None, 0)
        spending = limited.spending
        clock = read_clock(self.budget.length, self.is_timed, Time(rounds, now))
        total, count = spending.propensity.tolist()
        kept = None if least is None or count == 0.0 else total / count
        spent = spent_by(spending, window_at(spending, clock))
        return LimitsReport(kept, float(spent), spending.spent.item(1), int(spending.resets[0]))

    def continue_from(self, other: Self, before: Any, limited: Any, rounds: int, now: float) -> None:
        """Write into a new state what was spent under other limits, if both have a budget.

        Where the windows differ, all that was spent in the last one counts for the present one.

        :param before: the state of the other limits.
        :param limited: the new state, that :meth:`piece` declared.
        :param rounds: decided so far.
        :param now: of the last round, in seconds since 1970.
        """
        if self.budget is None or other.budget is None or before.spending.window[0] < 0.0:
            return
        old, new = before.spending, limited.spending
        for name in ("window", "spent", "resets"):
            getattr(new, name)[:] = getattr(old, name)
        if self.min_propensity == other.min_propensity:
            new.propensity[:] = old.propensity
        if self.is_timed is other.is_timed:
            new.demand[:] = old.demand
        else:
            new.demand[2] = now if self.is_timed else rounds
        if self.budget.per != other.budget.per:
            new.window[:] = math.floor((now if self.is_timed else rounds - 1.0) / self.budget.length), -1.0

    def to_dict(self) -> dict[str, Any]:
        """Return them ready for JSON.

        >>> Limits(0.01).to_dict()
        {'min_propensity': 0.01, 'budget': None}
        """
        document = asdict(self)
        if self.budget is not None and self.budget.prices is not None:
            document["budget"]["prices"] = [list(item) for item in self.budget.prices.items()]
        return document

    @classmethod
    def from_dict(cls, saved: Any) -> Self:
        """Return the limits of :meth:`to_dict`.

        >>> Limits.from_dict({"min_propensity": 0.01, "budget": None})
        Limits(min_propensity=0.01, budget=None)
        """
        try:
            least, about = saved["min_propensity"], saved["budget"]
            if about is None:
                return cls(least)
            prices = None if about["prices"] is None else dict(about["prices"])
            return cls(least, Budget(about["limit"], about["per"], prices))
        except (KeyError, TypeError, ValueError):
            raise UserError("the limits are not those of a model: the file is damaged") from None


class LimitsReport(NamedTuple):
    """What limits on exploration have done so far.

    >>> from gappletron import Budget, FeedbackGraph, Online
    >>> model = Online("auto", FeedbackGraph.filtering(["ham", "spam"]), 2, min_propensity=0.1, budget=Budget(5))
    >>> model.limits_report
    LimitsReport(propensity=None, spent=0.0, spent_in_all=0.0, clock_resets=0)
    """

    propensity: float | None
    """What the budget leaves of `min_propensity`: the mean, over the rounds, of the least probability with which a
    label was revealed, but at most `min_propensity`. Each window counts twice the one before. None where none is asked
    for, and before the first round with a budget."""
    spent: float | None
    """What exploration has cost in the present window of the budget; None without one."""
    spent_in_all: float | None
    """What it has cost in all windows."""
    clock_resets: int
    """How often the clock was set back by more than a window."""


# ----------------------------------------------------------------------------------------------------- in compiled code


class LimitsPlan(NamedTuple):
    """Of a graph: the share of the dominating set that reveals each label, and the price of each action."""

    shares: Floats
    prices: Floats


class Time(NamedTuple):
    """When a round is played: its number, and the seconds that :attr:`gappletron.Player.now` told."""

    round: int
    now: float


class Limiting(Piece, abstract=True):
    """The family of what is done to a distribution before the action is drawn; by default nothing."""

    def declare(self) -> Layout:
        """Return what is remembered; nothing by default."""
        return {}

    @compiled
    def restrain(self, limited: Any, plan: Any, graph: GraphArrays, time: Time, greedy: int, p: Floats) -> None:
        """Change the distribution p of a round; changes nothing else but scratch."""

    @compiled
    def charge(self, limited: Any, plan: Any, time: Time, greedy: int, action: int, p: Floats) -> None:
        """Count what the action of a round cost; where another has decided, and it is -1, the mean cost under p."""


class NoLimits(Limiting):
    """Distributions stay as they are.

    >>> NoLimits()
    NoLimits()
    """


class LeastPropensity(Limiting):
    """The distribution is mixed with the dominating set.

    >>> LeastPropensity(0.01)
    LeastPropensity(min_propensity=0.01)
    """

    min_propensity: float

    def restrain(self, limited: Any, plan: Any, graph: GraphArrays, time: Time, greedy: int, p: Floats) -> None:
        mix(self.min_propensity, plan.shares, graph, p)


class Budgeted(Limiting):
    """The distribution is mixed with the dominating set, and then kept within a budget: at most `limit` in every
    `length` rounds, by their numbers, or seconds, by the time of the round.

    >>> Budgeted(0.01, 50, 3600, True)
    Budgeted(min_propensity=0.01, limit=50.0, length=3600.0, is_timed=True)
    """

    min_propensity: float
    limit: float
    length: float
    is_timed: bool

    def declare(self) -> Layout:
        """Return what is remembered: `window` are the numbers of the present window and of the one before, `spent` what
        was spent in it, in all windows, and in the one before, and `demand` the sum of what was asked for, the time in
        which, and the end of that time. `propensity` is the sum of the least propensities, and the number of rounds;
        `resets` how often the clock was set back. `asked` is of the round: what it asks for, and its least propensity.
        """
        return {
            "spending": {
                "window": Field(2, fill=-1.0, least=-1.0),
                "spent": Field(3, least=0.0),
                "demand": Field(3, least=0.0),
                "propensity": Field(2, least=0.0),
                "resets": Field(1, least=0.0),
                "asked": Scratch(2),
            }
        }

    def restrain(self, limited: Any, plan: Any, graph: GraphArrays, time: Time, greedy: int, p: Floats) -> None:
        if self.min_propensity > 0.0:
            mix(self.min_propensity, plan.shares, graph, p)
        clock, least = read_clock(self.length, self.is_timed, time), self.min_propensity
        if pace(limited.spending, plan.prices, self.limit, clock, greedy, p) and least > 0.0:
            least = min(least, least_propensity(graph, p))
        limited.spending.asked[1] = least

    def charge(self, limited: Any, plan: Any, time: Time, greedy: int, action: int, p: Floats) -> None:
        if action < 0:
            price = expected_price(plan.prices, greedy, p)
        else:
            price = plan.prices[action] if action != greedy else 0.0
        pay(limited.spending, self.limit, read_clock(self.length, self.is_timed, time), price)


class Clock(NamedTuple):
    """The clock of a budget: the length of a window, what it shows now, what it shows when the round is over, and the
    share of a window that is taken to have passed before the first round.
    """

    length: float
    reading: float
    after: float
    head_start: float


@helper
def read_clock(length: float, is_timed: bool, time: Time) -> Clock:
    """Return the clock in a round: it counts seconds or rounds."""
    if is_timed:
        return Clock(length, time.now, time.now, HEAD_START)
    return Clock(length, 1.0 * time.round, time.round + 1.0, 0.0)


@helper
def mix(least: float, shares: Floats, graph: GraphArrays, probabilities: Floats) -> None:
    """Mix p to (1 - e) p + e u, with u uniform on the dominating set and the smallest e that gives every label the
    propensity `least`.

    A label y of propensity P(y) < least has the propensity U(y) >= 1 / rho >= least under u, and needs
    e >= (least - P(y)) / (U(y) - P(y)).
    """
    e = 0.0
    for y in range(shares.size):
        propensity = shown_probability(graph, probabilities, y)
        if propensity < least:
            e = max(e, (least - propensity) / max(shares[y] - propensity, least - propensity))
    if e > 0.0:
        for i in range(probabilities.size):
            probabilities[i] *= 1.0 - e
        for i in graph.dominating:
            probabilities[i] += e / graph.dominating.size


@helper
def expected_price(prices: Floats, greedy: int, probabilities: Floats) -> float:
    """Return what a round costs on average: the prices of all actions but the greedy one, by their probabilities."""
    price = 0.0
    for i in range(probabilities.size):
        if i != greedy:
            price += prices[i] * probabilities[i]
    return price


@helper
def window_at(spending: Any, clock: Clock) -> float:
    """Return the number of the window.

    A clock that is set back a little does not open an old window again. Where the present one begins more than its
    length ahead, the clock was wrong before, or is now: without a new window nothing could be spent until then.
    """
    window, known = math.floor(clock.reading / clock.length), spending.window[0]
    return window if known > window + 1.0 else max(known, 1.0 * window)


@helper
def spent_by(spending: Any, window: float) -> float:
    """Return what was spent in a window of :func:`window_at`.

    In one that comes before the present one, since the clock was wrong, it is what both have spent.
    """
    if window > spending.window[0]:
        return 0.0
    again = spending.spent[2] if window < spending.window[0] and window == spending.window[1] else 0.0
    return spending.spent[0] + again


@helper
def asked_before(spending: Any, limit: float, clock: Clock, window: float) -> tuple[float, float]:
    """Return what was asked for before this round, and in which time until its end. A new window halves both.

    No pause counts for more than a window, since one may be a clock that is wrong.
    """
    if spending.window[0] < 0.0:
        return clock.head_start * limit, clock.head_start * clock.length + clock.after - clock.reading
    weight = 0.5 if window > spending.window[0] else 1.0
    passed = min(clock.length, max(0.0, clock.after - spending.demand[2]))
    return weight * spending.demand[0], weight * spending.demand[1] + passed


@helper
def pace(spending: Any, prices: Floats, limit: float, clock: Clock, greedy: int, probabilities: Floats) -> bool:
    """Scale the probabilities of priced actions by min(1, left / (rate * remaining)); return whether any is changed.

    `rate` is the mean of what was asked for so far, with this round, per unit of the clock. Each window counts twice
    the one before it.
    """
    asked = expected_price(prices, greedy, probabilities)
    spending.asked[0] = asked
    if asked <= 0.0:
        return False
    window = window_at(spending, clock)
    left = limit - spent_by(spending, window)
    demand, elapsed = asked_before(spending, limit, clock, window)
    rate = (demand + asked) / max(1.0, elapsed)
    remaining = min(clock.length, max(0.0, (window + 1.0) * clock.length - clock.reading))
    factor = 1.0
    if rate * remaining > left:
        factor = max(0.0, left) / (rate * remaining)
    moved = 0.0
    for i in range(probabilities.size):
        if i != greedy and prices[i] > 0.0:
            kept = factor * probabilities[i] if prices[i] <= left + SLACK * limit else 0.0
            moved += probabilities[i] - kept
            probabilities[i] = kept
    probabilities[greedy] = min(1.0, probabilities[greedy] + moved)  # a sum may be rounded up to more than 1
    return moved > 0.0


@helper
def pay(spending: Any, limit: float, clock: Clock, price: float) -> None:
    """Count the price of a round, and what it had asked for."""
    window, known = window_at(spending, clock), spending.window[0]
    demand, elapsed = asked_before(spending, limit, clock, window)
    spent = spent_by(spending, window)
    if window > known:
        spending.window[1], spending.spent[2] = known, spending.spent[0]
        spending.propensity[0] *= 0.5
        spending.propensity[1] *= 0.5
    elif window < known:
        spending.window[1], spending.spent[2] = -1.0, 0.0
        spending.resets[0] += 1.0
    spending.window[0] = window
    spending.spent[0] = spent + price
    spending.spent[1] += price
    spending.demand[0] = demand + spending.asked[0]
    spending.demand[1] = elapsed
    is_ahead = spending.demand[2] > clock.after + clock.length
    spending.demand[2] = clock.after if is_ahead else max(spending.demand[2], clock.after)
    spending.propensity[0] += spending.asked[1]
    spending.propensity[1] += 1.0
