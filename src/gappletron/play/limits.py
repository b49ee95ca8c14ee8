"""Limits on a learner's exploration: every label is shown often enough, and no more is spent than a budget allows.

:class:`Limits` and :class:`Budget` are what a user gives. A player makes a piece of them, which changes the
distribution of every round before the action is drawn. So the probabilities that are written down are those that the
action was drawn with, and propensities stay right.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph, GraphArrays
from gappletron.kernel.numerics import Floats
from gappletron.kernel.pieces import Piece, compiled, helper
from gappletron.kernel.state import Field, Layout, Scratch

__all__ = ["Budget", "Limiting", "Limits", "limits_of"]

SECONDS = {"hour": 3600.0, "day": 86400.0}
"""The windows of a budget by time, of UTC."""

SLACK = 1e-9
"""A price may exceed what is left by this share of the limit: twenty times 0.05 are a little more than 1."""


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

    >>> Budget(50, per=1000)
    Budget(limit=50.0, per=1000, prices=None)
    >>> Budget(2.5, per="day", prices={"query": 0.05}).prices
    {'query': 0.05}
    """

    limit: float
    per: int | str = 1000
    prices: Mapping[Label, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", number(self.limit, "the limit of a budget", least=0.0))
        if isinstance(self.per, str):
            if self.per not in SECONDS:
                raise UserError(f"a budget per {self.per!r} is not known: give a number of decisions, 'hour' or 'day'")
        else:
            object.__setattr__(self, "per", whole(self.per, "the decisions of a budget", least=1, most=2**40))
        if self.prices is not None:
            if not isinstance(self.prices, Mapping):
                raise UserError("prices must be a mapping from actions to numbers, as in {'query': 0.05}")
            checked = {name: number(price, f"the price of {name!r}", least=0.0) for name, price in self.prices.items()}
            object.__setattr__(self, "prices", checked)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """The budget that a text means: ``50/1000`` or ``50/day``.

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
        """The price of every action of a graph.

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

    def __hash__(self) -> int:
        return hash((self.limit, self.per, None if self.prices is None else tuple(self.prices.items())))


@dataclass(frozen=True)
class Limits:
    """Limits on exploration.

    :param min_propensity: every label is shown with at least this probability: the distribution is mixed with the
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

    def changed(self, min_propensity: float | None, budget: Budget | str | None) -> Limits:
        """Return other limits: None keeps the propensity, and ``"keep"`` the budget.

        >>> Limits(0.1).changed(None, Budget(5))
        Limits(min_propensity=0.1, budget=Budget(limit=5.0, per=1000, prices=None))
        """
        if isinstance(budget, str) and budget != "keep":
            raise UserError(f"budget={budget!r} is not a budget: give Budget(50, per=1000), None, or 'keep'")
        least = self.min_propensity if min_propensity is None else min_propensity
        return Limits(least, self.budget if isinstance(budget, str) else budget)

    @property
    def is_timed(self) -> bool:
        """Whether there is a budget by time, for which a player must know the time of its rounds."""
        return self.budget is not None and isinstance(self.budget.per, str)

    def piece(self) -> Limiting:
        """The part of the compiled round that keeps to these limits."""
        if self.min_propensity == 0.0 and self.budget is None:
            return NoLimits()
        spending: Spending = NoSpending()
        if self.budget is not None:
            per, limit = self.budget.per, self.budget.limit
            spending = TimedSpending(limit, SECONDS[per]) if isinstance(per, str) else CountedSpending(limit, per)
        return Limited(self.min_propensity, spending)

    def bounds(self, graph: FeedbackGraph) -> Any:
        """What the piece needs to know of a graph; a UserError where the graph cannot keep to the limits."""
        if self.min_propensity * graph.rho > 1.0 + SLACK:
            raise UserError(
                f"min_propensity={self.min_propensity:g} is too much for the graph {graph.name!r}, which needs "
                f"{graph.rho} actions to show every label: give at most {1 / graph.rho:.3g}"
            )
        if isinstance(self.piece(), NoLimits):
            return ()
        shares = graph.visible[list(graph.dominating_indices)].mean(axis=0)
        prices = np.zeros(graph.n_actions) if self.budget is None else self.budget.prices_on(graph)
        for array in (shares, prices):
            array.flags.writeable = False
        return Bounds(shares, prices)

    def spent_in_window(self, limited: Any, rounds: int, now: float) -> float | None:
        """What was spent in the window of the next round, of a state that :meth:`piece` declared; None without a
        budget.

        :param rounds: decided so far.
        :param now: in seconds since 1970.

        >>> Limits().spent_in_window((), 0, 0.0) is None
        True
        """
        if self.budget is None:
            return None
        per = self.budget.per
        window = math.floor(now / SECONDS[per]) if isinstance(per, str) else rounds // per
        found = limited.spending
        return float(found.spent[0]) if window <= found.window[0] else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON.

        >>> Limits(0.01).to_dict()
        {'min_propensity': 0.01, 'budget': None}
        """
        budget = self.budget
        if budget is None:
            return {"min_propensity": self.min_propensity, "budget": None}
        prices = None if budget.prices is None else [list(item) for item in budget.prices.items()]
        about = {"limit": budget.limit, "per": budget.per, "prices": prices}
        return {"min_propensity": self.min_propensity, "budget": about}

    @classmethod
    def from_dict(cls, saved: Any) -> Limits:
        """What :meth:`to_dict` gave.

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


def limits_of(given: Any) -> Limits:
    """The limits that an argument means; None is none.

    >>> limits_of(None)
    Limits(min_propensity=0.0, budget=None)
    """
    if given is None:
        return Limits()
    if not isinstance(given, Limits):
        raise UserError(f"{given!r} are no limits: give Limits(min_propensity=0.01, budget=Budget(50)), or None")
    return given


# ----------------------------------------------------------------------------------------------------- in compiled code


class Bounds(NamedTuple):
    """Of a graph: the share of the dominating set that shows each label, and the price of each action."""

    shares: Floats
    prices: Floats


class Limiting(Piece, abstract=True):
    """The family of what is done to a distribution before the action is drawn."""

    def declare(self) -> Layout:
        """What is remembered; nothing by default."""
        return {}

    @abstractmethod
    @compiled
    def restrain(
        self, limited: Any, bounds: Any, graph: GraphArrays, at: int, now: float, greedy: int, probabilities: Floats
    ) -> None:
        """Change the distribution of round number `at`; changes nothing else but scratch."""

    @abstractmethod
    @compiled
    def settle(self, limited: Any, bounds: Any, at: int, now: float, greedy: int, action: int) -> None:
        """Count what the action of the round cost."""

    @abstractmethod
    @compiled
    def settle_expected(
        self, limited: Any, bounds: Any, at: int, now: float, greedy: int, probabilities: Floats
    ) -> None:
        """Count what a round would have cost on average, where another has decided: with these probabilities."""


class NoLimits(Limiting):
    """Distributions stay as they are.

    >>> NoLimits()
    NoLimits()
    """

    def restrain(
        self, limited: Any, bounds: Any, graph: GraphArrays, at: int, now: float, greedy: int, probabilities: Floats
    ) -> None:
        pass

    def settle(self, limited: Any, bounds: Any, at: int, now: float, greedy: int, action: int) -> None:
        pass

    def settle_expected(
        self, limited: Any, bounds: Any, at: int, now: float, greedy: int, probabilities: Floats
    ) -> None:
        pass


class Spending(Piece, abstract=True):
    """The family of budgets."""

    def declare(self) -> Layout:
        """The window, what was spent in it and in all; the sum of what was asked for, over how long, and until when."""
        return {
            "window": Field(1, fill=-1.0, least=-1.0),
            "spent": Field(2, least=0.0),
            "demand": Field(3, least=0.0),
            "asked": Scratch(1),
        }

    @abstractmethod
    @compiled
    def pace(self, limited: Any, prices: Floats, at: int, now: float, greedy: int, probabilities: Floats) -> None:
        """Scale the probabilities of priced actions so that the budget lasts through the window."""

    @abstractmethod
    @compiled
    def pay(self, limited: Any, at: int, now: float, price: float) -> None:
        """Pay the price of a round."""


class NoSpending(Spending):
    """Exploration costs nothing.

    >>> NoSpending()
    NoSpending()
    """

    def declare(self) -> Layout:
        return {}

    def pace(self, limited: Any, prices: Floats, at: int, now: float, greedy: int, probabilities: Floats) -> None:
        pass

    def pay(self, limited: Any, at: int, now: float, price: float) -> None:
        pass


class CountedSpending(Spending):
    """At most `limit` in every `length` rounds, by their numbers.

    >>> CountedSpending(50, 1000)
    CountedSpending(limit=50.0, length=1000.0)
    """

    limit: float
    length: float

    def pace(self, limited: Any, prices: Floats, at: int, now: float, greedy: int, probabilities: Floats) -> None:
        pace_until(limited, prices, self.limit, self.length, 1.0 * at, at + 1.0, greedy, probabilities)

    def pay(self, limited: Any, at: int, now: float, price: float) -> None:
        pay_until(limited, self.length, 1.0 * at, at + 1.0, price)


class TimedSpending(Spending):
    """At most `limit` in every `length` seconds, by the time of the round.

    >>> TimedSpending(50, 3600)
    TimedSpending(limit=50.0, length=3600.0)
    """

    limit: float
    length: float

    def pace(self, limited: Any, prices: Floats, at: int, now: float, greedy: int, probabilities: Floats) -> None:
        pace_until(limited, prices, self.limit, self.length, now, now, greedy, probabilities)

    def pay(self, limited: Any, at: int, now: float, price: float) -> None:
        pay_until(limited, self.length, now, now, price)


class Limited(Limiting):
    """The distribution is mixed with the dominating set, and then kept within a budget.

    >>> Limited(0.01, NoSpending())
    Limited(min_propensity=0.01, spending=NoSpending())
    """

    min_propensity: float
    spending: Spending

    def declare(self) -> Layout:
        return {"spending": self.spending.declare()}

    def restrain(
        self, limited: Any, bounds: Any, graph: GraphArrays, at: int, now: float, greedy: int, probabilities: Floats
    ) -> None:
        if self.min_propensity > 0.0:
            mix(self.min_propensity, bounds.shares, graph, probabilities)
        self.spending.pace(limited.spending, bounds.prices, at, now, greedy, probabilities)

    def settle(self, limited: Any, bounds: Any, at: int, now: float, greedy: int, action: int) -> None:
        self.spending.pay(limited.spending, at, now, bounds.prices[action] if action != greedy else 0.0)

    def settle_expected(
        self, limited: Any, bounds: Any, at: int, now: float, greedy: int, probabilities: Floats
    ) -> None:
        self.spending.pay(limited.spending, at, now, expected_price(bounds.prices, greedy, probabilities))


@helper
def mix(least: float, shares: Floats, graph: GraphArrays, probabilities: Floats) -> None:
    """p' = (1 - e) p + e u, with u uniform on the dominating set and the smallest e that gives every label the
    propensity `least`.

    A label y of propensity P(y) < least has the propensity U(y) >= 1 / rho >= least under u, and needs
    e >= (least - P(y)) / (U(y) - P(y)).
    """
    e = 0.0
    for y in range(shares.size):
        propensity = 0.0
        for i in range(probabilities.size):
            if graph.observers[y, i]:
                propensity += probabilities[i]
        if propensity < least:
            e = max(e, (least - propensity) / max(shares[y] - propensity, least - propensity))
    if e > 0.0:
        for i in range(probabilities.size):
            probabilities[i] *= 1.0 - e
        for i in graph.dominating:
            probabilities[i] += e / graph.dominating.size


@helper
def expected_price(prices: Floats, greedy: int, probabilities: Floats) -> float:
    """What a round costs on average: the prices of all actions but the greedy one, by their probabilities."""
    price = 0.0
    for i in range(probabilities.size):
        if i != greedy:
            price += prices[i] * probabilities[i]
    return price


@helper
def window_at(limited: Any, length: float, reading: float) -> float:
    """The number of the window; a clock that is set back does not open an old one again."""
    return max(limited.window[0], math.floor(reading / length))


@helper
def pace_until(
    limited: Any,
    prices: Floats,
    limit: float,
    length: float,
    reading: float,
    after: float,
    greedy: int,
    probabilities: Floats,
) -> None:
    """Scale the probabilities of priced actions by min(1, left / (rate * remaining)).

    `rate` is the mean of what was asked for so far, with this round, per unit of the budget's clock, which shows
    `reading` now and `after` when the round is over. Each window counts twice the one before it.
    """
    asked = expected_price(prices, greedy, probabilities)
    limited.asked[0] = asked
    if asked <= 0.0:
        return
    window = window_at(limited, length, reading)
    is_new = window != limited.window[0]
    left = limit if is_new else limit - limited.spent[0]
    weight = 0.5 if is_new else 1.0
    elapsed = weight * limited.demand[1] + passed(limited, reading, after)
    rate = (weight * limited.demand[0] + asked) / max(1.0, elapsed)
    remaining = min(length, max(0.0, (window + 1.0) * length - reading))
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


@helper
def passed(limited: Any, reading: float, after: float) -> float:
    """How far the budget's clock moves from the last round to the end of this one; 0 where there was no round."""
    if limited.window[0] < 0.0:
        return after - reading
    return max(0.0, after - limited.demand[2])


@helper
def pay_until(limited: Any, length: float, reading: float, after: float, price: float) -> None:
    """Count the price of a round, and what it had asked for."""
    window = window_at(limited, length, reading)
    elapsed = passed(limited, reading, after)
    if window != limited.window[0]:
        limited.window[0] = window
        limited.spent[0] = 0.0
        limited.demand[0] *= 0.5
        limited.demand[1] *= 0.5
    limited.demand[0] += limited.asked[0]
    limited.demand[1] += elapsed
    limited.demand[2] = max(limited.demand[2], after)
    limited.spent[0] += price
    limited.spent[1] += price
