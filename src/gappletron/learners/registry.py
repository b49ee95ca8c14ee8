"""The learners, one family per file, and their names.

Every module here that defines ``LEARNERS``, a mapping from names to learners, is found by itself: a new family is one
new file.
"""

import importlib
import pkgutil
from typing import Any

from gappletron.base.errors import UserError
from gappletron.base.text import listing, read_numbers, unknown
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.spelling import set_numbers
from gappletron.learners.learner import Learner

# The files that are listed first; others follow in alphabetical order and need no entry here.
ORDER = ("guard", "estimators", "gappletron", "decoded", "bandits", "gaptron", "perceptron", "exp3")


def _registered() -> dict[str, Learner]:
    """Import every module here, so that all pieces are known by name, and return the learners of each LEARNERS."""
    here = importlib.import_module(__package__).__path__
    first = [f"{__package__}.{name}" for name in ORDER]
    others = {file.name for file in pkgutil.walk_packages(here, f"{__package__}.")}.difference(first, {__name__})
    modules = [importlib.import_module(name) for name in [*first, *sorted(others)]]
    return {name: learner for module in modules for name, learner in getattr(module, "LEARNERS", {}).items()}


REGISTERED = _registered()


def names(graph: FeedbackGraph | None = None) -> list[str]:
    """The names that :func:`named` accepts; with a graph, of those that can play it.

    >>> names()[:4]
    ['auto', 'one-against-all', 'partial-likelihood', 'squarecb-g']
    """
    return [name for name, learner in REGISTERED.items() if graph is None or _find_refusal(learner, graph) is None]


def named(name: str) -> Learner:
    """The learner of this name, with default parameters or those given.

    >>> named("banditron:gamma=0.1")
    Banditron(gamma=0.1)
    >>> named("gaphin:kappa=0.3,gamma=2").exploration
    TopUp(gamma=2.0)
    >>> named("gaphin")
    Gappletron(loss=Hinge(kappa=0.5), optimizer=AdaptiveOGD(scale=1.0), exploration=TopUp(gamma=1.0))
    """
    bare, given = read_numbers(str(name))
    if bare not in REGISTERED:
        raise unknown(bare, "learner", names())
    learner = REGISTERED[bare]
    if "gamma" in given and learner.has_gamma:
        learner = learner.with_gamma(given.pop("gamma"))
    return set_numbers(learner, given, name)


def find_learner(given: Any) -> Learner:
    """Return a learner that was given as itself or by its name."""
    if isinstance(given, str):
        return named(given)
    if not isinstance(given, Learner):
        raise UserError(f"{given!r} is not a learner: give one, or the name of one")
    return given


def check_can_play(learner: Learner, graph: FeedbackGraph) -> None:
    """Raise UserError if the learner cannot play the graph, before anything is compiled."""
    reason = _find_refusal(learner, graph)
    if reason is not None:
        raise UserError(
            f"{learner.name} cannot play the graph {graph.name!r}: it {reason}; choose for example "
            f"{listing(names(graph))}"
        )


def _find_refusal(learner: Learner, graph: FeedbackGraph) -> str | None:
    """Return why the learner cannot play the graph, as the end of a sentence that begins with its name, or None."""
    if graph.has_costs and not learner.uses_costs:
        return "minimises mistakes, and the graph has costs (leave them out to play it)"
    return learner.refusal(graph)
