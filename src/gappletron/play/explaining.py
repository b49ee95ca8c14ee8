"""One row, looked at closely: what its scores are the sum of, and what would be drawn if it came next.

The functions of a round are called as plain Python here, which gives the same bits as compiled code, so that nothing
has to be compiled for a question that is asked now and then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import Row
from gappletron.kernel.types import Floats, Vector
from gappletron.learners.score_parts import ScoreParts, not_linear
from gappletron.play import rounds
from gappletron.play.engine import Engine

# How far a sum may be from the score, relative to the sizes of what is added up: single floats have seven digits.
ROUNDING = 1e-9


class Explained(NamedTuple):
    """What a row's scores are the sum of, by positions.

    :param parts: what each entry, and what else, adds to each score. With a bias the first entry is its own.
    :param scores: of the classes.
    :param greedy: the position of the class that is decided without exploration.
    :param probabilities: of the actions, if the row came next.
    :param chances: of the labels, as the learner estimates them.
    """

    parts: ScoreParts
    scores: Floats
    greedy: int
    probabilities: Floats
    chances: Floats


def explain(engine: Engine, vector: Vector, graph: FeedbackGraph, given: Floats | None) -> Explained:
    """Return what the scores of a checked vector are the sum of; changes nothing."""
    learner, state, setup = engine.learner, engine.state.tuple, engine.setup
    plan = engine.plan if graph is engine.graph else learner.plan(graph)
    indices, values, kept = rounds.write_row(
        setup, engine.index.find(vector.indices), vector.values, engine.new_record(vector.values.size, None, given)
    )
    size = setup.bias + vector.indices.size
    with np.errstate(all="ignore"):  # compiled code does not warn either
        squared = rounds.scale_row(setup, indices, values, 0, size)
        x = Row(indices, values, 0, size, squared, setup.lanes)
        own = setup._replace(limits_plan=engine.limits.plan(graph))
        greedy = rounds.decide(learner, state, plan, x, own, kept, engine.rounds).greedy
        scores, probabilities = setup.scores.copy(), setup.probabilities.copy()
        chances = np.empty(graph.n_classes)
        learner.label_probabilities(state, scores.copy(), chances)
        learner.take_row(state, plan, x, kept)  # again: the estimates above may have used its scratch
        found = learner.split_scores(state, plan, x, kept)
    sizes = np.abs(found.entries).sum(axis=0) + sum(map(np.abs, found.others.values())) + np.abs(scores)
    if not (np.abs(found.total() - scores) <= ROUNDING * sizes).all():
        raise not_linear(learner.name)
    return Explained(found, scores, int(greedy), probabilities, chances)
