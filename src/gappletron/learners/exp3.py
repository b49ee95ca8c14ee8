"""Exp3.G: exponential weights over the actions of a feedback graph, blind to the features."""

import math
from typing import Any, Self

from gappletron.graphs.graph import Plan
from gappletron.kernel.numerics import Row, argmax
from gappletron.kernel.pieces import Positive, Share
from gappletron.kernel.state import Field, Layout
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Decision, Learner, Problem, Round, propensity
from gappletron.learners.score_parts import ScoreParts, not_linear


class Exp3G(Learner):
    """Exp3.G plays the best fixed class: the floor for learners that look at the features.

    Alon, Cesa-Bianchi, Dekel and Koren, "Online learning with feedback graphs: beyond bandits" (2015), on every graph.
    Over the N actions, ``q(i) ~ exp(-eta sum lhat(i))`` and ``p = (1 - gamma) q + (gamma / rho) 1_S`` with the
    dominating set S. The loss of class i is seen where ``A[action, i]`` (it is 0 if i is the label, else 1), and
    ``lhat(i) = loss(i) 1[seen] / P(seen)``. An extra action's loss is a known 1 in every round.

    Tunings: strongly observable graphs ``gamma = min(1/2, 1 / sqrt(rho T))`` and ``eta = 2 gamma``, weakly observable
    ones ``gamma = min(1/2, (rho ln N / T)^(1/3))`` and ``eta = gamma^2 / rho``; ``only-t`` the same with ``rho = ln N =
    1``.

    Chosen here: S is explored on every graph, and rho stands where their tuning for strongly observable graphs has the
    independence number. Where the label itself is seen, the losses of the classes that the action does not reveal would
    follow, but they are not used, as in their model of feedback. The scores are minus the losses added up, so the
    greedy class is the one with the least. They do not depend on x: :meth:`weights` has one row, for a feature that is
    always 1. There is no surrogate: the loss that is reported is the zero-one loss of the greedy class. The defaults
    are the weakly observable tuning for T = 8,000 with ``rho = ln N = 1``.

    >>> from gappletron import play
    >>> play(Exp3G(), "synthetic:K=3,d=40,noise=0,T=500", "filtering")[0].rounds
    500
    """

    gamma: Share = 0.05
    eta: Positive = 0.0025

    setting = "any graph, ignores the features"
    reference = "Alon, Cesa-Bianchi, Dekel, Koren: Online learning with feedback graphs: beyond bandits (2015)"

    name = "exp3-g"

    def declare(self) -> Layout:
        """The estimated losses of the classes, added up; an extra action's are the number of rounds."""
        return {"losses": Field("classes", least=0), "rounds": Field(least=0)}

    new_class = "the smallest estimated loss of the others, since with 0 it would be played almost always"

    def grown(self, state: Any, before: int) -> None:
        state.losses[before:] = state.losses[:before].min()

    def scores(self, state: Any, x: Row, out: Floats) -> None:
        for k in range(out.size):
            out[k] = -state.losses[k]

    def split_scores(self, state: Any, plan: Plan, x: Row, kept: Floats) -> ScoreParts:
        raise not_linear(self.name)

    def label_probabilities(self, state: Any, scores: Floats, out: Floats) -> None:
        """How often each label came, by the estimated losses; all the same as long as that is not known."""
        total = 0.0
        for k in range(out.size):
            out[k] = max(0.0, state.rounds[0] + scores[k])
            total += out[k]
        for k in range(out.size):
            out[k] = out[k] / total if total > 0.0 else 1.0 / out.size

    def distribution(self, state: Any, plan: Plan, x: Row, scores: Floats, out: Floats) -> Decision:
        dominating = plan.graph.dominating
        K = state.losses.size
        greedy = argmax(scores)
        least = state.losses[greedy]
        if out.size > K:
            least = min(least, state.rounds[0])
        total = 0.0
        for i in range(out.size):
            loss = state.losses[i] if i < K else state.rounds[0]
            out[i] = math.exp(-self.eta * (loss - least))
            total += out[i]
        for i in range(out.size):
            out[i] = (1.0 - self.gamma) * (out[i] / total)
        for s in range(dominating.size):
            out[dominating[s]] += self.gamma / dominating.size
        return Decision(greedy, self.gamma)

    def update(self, state: Any, plan: Plan, x: Row, played: Round) -> None:
        state.rounds[0] += 1.0
        for i in range(state.losses.size):
            if plan.graph.visible[played.action, i] and i != played.label:
                state.losses[i] += 1.0 / propensity(plan, played, i)

    def surrogate(self, scores: Floats, greedy: int, y: int) -> float:
        return 0.0 if greedy == y else 1.0

    def weights(self, state: Any) -> Floats:
        """The scores as a 1 x K matrix: the weights of a feature that is always 1."""
        return -state.losses.reshape(1, -1)

    def tuned(self, tuning: str, problem: Problem) -> Self:
        T = problem.horizon()
        rho = problem.graph.rho if tuning == "theory" else 1
        if problem.graph.observability == "strong":
            gamma = min(0.5, 1.0 / math.sqrt(rho * T))
            return self.replace(gamma=gamma, eta=2.0 * gamma)
        log_N = math.log(problem.graph.n_actions) if tuning == "theory" else 1.0
        gamma = min(0.5, math.cbrt(rho * log_N / T))
        return self.replace(gamma=gamma, eta=gamma * gamma / rho)


LEARNERS: dict[str, Learner] = {"exp3-g": Exp3G()}
