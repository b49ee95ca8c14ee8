"""The monitor again, from the formulas of docs/estimates.md: a list of rounds, dictionaries, and no running sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

STAKES = [0.9 / 2**j for j in range(16)]


@dataclass
class Played:
    """A round: its number, graph, distribution, own distribution (of one that follows), greedy class and action."""

    at: int
    graph: Any
    p: list[float]
    own: list[float] | None
    greedy: int
    action: int
    label: int | None = None
    is_judged: bool = False

    @property
    def is_seen(self) -> bool:
        return self.is_judged and self.label is not None

    def hidden(self, i: int) -> list[int]:
        return [y for y in range(self.graph.n_classes) if not self.graph.visible[i, y]]

    def shows(self) -> bool:
        return len(self.hidden(self.action)) < self.graph.n_classes

    def propensity(self, y: int) -> float:
        return sum(p for i, p in enumerate(self.p) if self.graph.visible[i, y])

    def largest_x(self) -> float:
        least = min(self.propensity(y) for y in range(self.graph.n_classes))
        return (1 - least) / least if least > 0 else math.inf


def cost(graph, i: int, y: int) -> float:
    return float(graph.costs[i, y]) if graph.has_costs else float(i != y)


def policy_error(r: Played, i: int, y: int) -> float:
    return float(i != y) if r.own is None else 1 - r.own[y]


def greedy_error(r: Played, i: int, y: int) -> float:
    return float(r.greedy != y)


def policy_cost(r: Played, i: int, y: int) -> float:
    if r.own is None:
        return cost(r.graph, i, y)
    return sum(q * cost(r.graph, j, y) for j, q in enumerate(r.own))


def greedy_cost(r: Played, i: int, y: int) -> float:
    return cost(r.graph, r.greedy, y)


def share(r: Played, i: int, k: int, who: str) -> float:
    if k >= r.graph.n_classes:  # a class that was added since
        return 0.0
    if who == "greedy":
        return float(r.greedy == k)
    return float(i == k) if r.own is None else r.own[k]


def class_value(k: int, who: str, is_hit: bool):
    def value(r: Played, i: int, y: int) -> float:
        hit = share(r, i, k, who)
        return (hit if is_hit else 1 - hit) * (y == k)

    return value


def scale_of(r: Played, value) -> float:
    """d: of costs, the largest difference that may be hidden; 1 for the others."""
    if value not in (policy_cost, greedy_cost) or not r.graph.has_costs:
        return 1.0
    costs = r.graph.costs
    if value is policy_cost and r.own is None:
        spans = [costs[i, r.hidden(i)] for i in range(r.graph.n_actions) if r.hidden(i)]
        return max((float(span.max() - span.min()) for span in spans), default=0.0)
    return float((costs.max(axis=1) - costs.min(axis=1)).max())


def extremes(r: Played, i: int, value) -> tuple[float, float]:
    values = [value(r, i, y) for y in r.hidden(i)]
    return min(values), max(values)


def total(rounds: list[Played], value, alpha: float) -> tuple[float, float, float]:
    """An estimate of the sum of a value over the judged rounds, and its bounds with alpha on each side."""
    known_low = known_high = estimate = opened = waiting = 0.0
    gains, savings, losses, outside = ([0.0] * 16 for _ in range(4))
    scales = [scale for r in rounds if (scale := scale_of(r, value)) > 0] or [1.0]
    for r in rounds:
        d, largest = scale_of(r, value), r.largest_x()
        covers = [stake * largest <= 0.75 for stake in STAKES]
        low, high = extremes(r, r.action, value) if r.hidden(r.action) else (0.0, 0.0)
        if not r.is_judged:
            if r.shows():
                waiting += (high - low) / d if high > low else 0.0
                for j, stake in enumerate(STAKES):
                    losses[j] -= math.log(4) / 0.75 * stake * largest if covers[j] else 0.0
        elif not r.is_seen:
            known_low, known_high = known_low + low, known_high + high
            if high > low:
                opened += (high - low) / d
                for j in range(16):
                    outside[j] += 0.0 if covers[j] else (high - low) / d
        else:
            found = value(r, r.action, r.label)
            known_low, known_high = known_low + found, known_high + found
            excess = saving = 0.0
            for i, p in enumerate(r.p):
                if r.label in r.hidden(i):
                    low, high = extremes(r, i, value)
                    excess += p * (value(r, i, r.label) - low)
                    saving += p * (high - value(r, i, r.label))
            x, s = excess / r.propensity(r.label), saving / r.propensity(r.label)
            estimate += x
            for j, stake in enumerate(STAKES):
                gains[j] += math.log(1 + stake * x / d) if x else 0.0
                savings[j] += math.log(1 + stake * s / d) if s else 0.0
                losses[j] += math.log(1 - stake * x / d) if x and covers[j] else 0.0
    stakes, level = np.array(STAKES), math.log(1 / alpha)

    def evidence_of_less(h: float) -> float:  # that the hidden sum is at most h
        return logsumexp(np.array(gains) + h * np.log(1 - stakes)) - math.log(16) - level

    def evidence_of_more(h: float) -> float:  # that it is at least h
        first = np.array(savings) + (opened + waiting - h) * np.log(1 - stakes)
        second = np.array(losses) + np.maximum(0, h - np.array(outside)) * np.log(1 + stakes)
        return logsumexp(np.concatenate([first, second])) - math.log(32) - level

    at_least = brentq(evidence_of_less, 0, 1e9, xtol=1e-12) if evidence_of_less(0) > 0 else 0.0
    at_most = opened
    if evidence_of_more(opened) > 0:
        at_most = brentq(evidence_of_more, 0, opened, xtol=1e-12) if evidence_of_more(0) < 0 else 0.0
    low = known_low + max(0.0, at_least * min(scales) - waiting * max(scales))
    high = max(known_low, min(known_low + at_most * max(scales), known_high - (opened - at_most) * min(scales)))
    low = min(low, high)
    return min(high, max(low, known_low + estimate)), low, high


def mean_bounds(least: float, most: float, n: int, alpha: float) -> tuple[float, float]:
    """Bounds on the mean of the conditional probabilities of n events, between `least` and `most` of which happened."""

    def evidence(successes: float, factors: np.ndarray):
        return lambda q: (
            logsumexp(successes * np.log(1 + factors) - n * np.log(1 + factors * q))
            - math.log(16)
            - math.log(1 / alpha)
        )

    stakes = np.array(STAKES)
    below, above = evidence(least, 8 * stakes), evidence(most, -stakes)
    low = brentq(below, 0, least / n, xtol=1e-14) if below(0) > 0 else 0.0
    high = brentq(above, most / n, 1, xtol=1e-14) if above(1) > 0 else 1.0
    return low, high
