"""Randomized decoding: p_t from the losses of all labels, for a bound without K (docs, page Decoding)."""

import math
from typing import Any

from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.pieces import NotNegative, Positive, helper
from gappletron.kernel.state import Layout, Scratch
from gappletron.kernel.types import Floats
from gappletron.learners.exploration.rules import Decaying, Outlook


@helper
def decoding_rate(gamma: float, horizon: float, blind: int) -> float:
    """gamma_t after so many rounds whose y* does not reveal: ``min(1/2, gamma / sqrt(max(n_t, horizon)))``."""
    return min(0.5, gamma / math.sqrt(max(float(blind + 1), horizon)))


class Decoding(Decaying):
    """Plays label y with probability ``max(0, 1 - l(y)/2)`` and y* with the rest; then tops up as little as is needed.

    For the logistic loss in base 2 these probabilities add up to at most 1, so a mistake has a probability of at most
    half of the loss, for every number of classes. Then ``p = (1-c) b + (c/rho) 1_S`` as in :class:`gappletron.TopUp`:
    every label is revealed with probability at least ``gamma_t/rho``. The rate is ``gamma_t = min(1/2, gamma /
    sqrt(max(n_t, horizon)))``, and 0 where y* reveals: with ``horizon=T`` it is the same in all T rounds, and by
    default it falls. The docs, page Decoding, have the theorem; it is for :class:`gappletron.DecodedLogistic`.

    >>> Decoding()
    Decoding(gamma=1.0, horizon=0.0)
    """

    gamma: Positive = 1.0
    horizon: NotNegative = 0.0

    needs_loss = True

    def declare(self) -> Layout:
        """n_t; the losses of the labels, and the probability that b shows each."""
        return {**super().declare(), "losses": Scratch("classes"), "shown": Scratch("classes")}

    def table(self, graph: FeedbackGraph) -> Any:
        """For each class, how many actions of the dominating set show it."""
        return graph.visible[list(graph.dominating_indices)].sum(axis=0).astype(float)

    def prepare(self, state: Any, plan: Plan, outlook: Outlook, loss: Any, scores: Floats, work: Floats) -> None:
        loss.values_with(scores, outlook.greedy, work, state.losses)

    def explore(self, state: Any, plan: Plan, greedy: int, gap: float, out: Floats) -> float:
        decode(state.losses, greedy, out)
        if plan.graph.revealing[greedy]:
            return 0.0
        rate = decoding_rate(self.gamma, self.horizon, state.blind[0])
        top_up(plan, rate, state.shown, out)
        return rate


@helper
def decode(losses: Floats, greedy: int, out: Floats) -> None:
    """Fill `out` with ``max(0, 1 - l(y)/2)`` for every label, the rest for y*; scaled down if that is more than 1."""
    total = 0.0
    for i in range(out.size):
        out[i] = 0.0
    for y in range(losses.size):
        if y != greedy and losses[y] < 2.0:
            out[y] = 1.0 - 0.5 * losses[y]
            total += out[y]
    if total > 1.0:  # not with the logistic loss in base 2
        for y in range(losses.size):
            out[y] /= total
        total = 1.0
    out[greedy] = 1.0 - total


@helper
def top_up(plan: Plan, rate: float, shown: Floats, out: Floats) -> None:
    """Mix in the dominating set, as little as is needed for every label to be shown with probability rate/rho."""
    graph, cover = plan.graph, plan.table
    rho = graph.dominating.size
    for y in range(shown.size):
        shown[y] = 0.0
    for i in range(shown.size):
        if out[i] > 0.0:  # at most three classes with the logistic loss in base 2
            for y in range(shown.size):
                if graph.visible[i, y]:
                    shown[y] += out[i]
    wanted, c = rate / rho, 0.0
    for y in range(shown.size):
        if shown[y] < wanted:
            c = max(c, (wanted - shown[y]) / (cover[y] / rho - shown[y]))
    if c > 0.0:
        for i in range(out.size):
            out[i] *= 1.0 - c
        for s in range(rho):
            out[graph.dominating[s]] += c / rho
