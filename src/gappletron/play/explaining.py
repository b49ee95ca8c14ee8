"""One row, looked at closely: what its scores are the sum of, and what would be drawn if it came next.

The functions of a round are called as plain Python here, which gives the same bits as compiled code, so that nothing
has to be compiled for a question that is asked now and then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import Row
from gappletron.kernel.types import Floats, Indices, Vector
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


class Weighed(NamedTuple):
    """What features add to the scores of rows that have no other entry.

    :param values: what the entry of each feature is.
    :param weights: what it adds to the score of each class (n x K).
    """

    values: Floats
    weights: Floats


def weigh(engine: Engine, features: Indices, values: Floats) -> Weighed:
    """Return what features add to the scores of rows of their own; changes nothing.

    :param values: of the entries; for 0 one as large as those of this column usually are.
    """
    learner, state, setup, graph = engine.learner, engine.state.tuple, engine.setup, engine.graph
    indices = engine.index.find(features).astype(np.int32) + np.int32(setup.bias)
    given, entries = values.copy(), np.empty(values.size)
    for p, value in enumerate(values.tolist()):
        entry = np.array([value or setup.normalization.find_usual(setup.scales, int(indices[p]))])
        given[p] = entry[0]
        setup.normalization.apply(setup.scales, indices[p : p + 1], entry, 0, 1)
        entries[p] = entry[0]
    # One row of all of them, made as short as usual ones are: what an entry adds is proportional to it.
    length = max(1.0, float(np.linalg.norm(entries)))
    squared = float(np.sum((entries / length) ** 2))
    with np.errstate(all="ignore"):
        x = Row(indices, entries / length, 0, entries.size, squared, setup.lanes)
        kept, scores = np.zeros(setup.kept.size), np.empty(graph.n_classes)
        rounds.score(learner, state, engine.plan, x, kept, scores)
        found = learner.split_scores(state, engine.plan, x, kept)
    check_linear(learner.name, found, scores)
    return Weighed(given, length * found.entries)


def check_linear(name: str, found: ScoreParts, scores: Floats) -> None:
    """Refuse scores that are not the sum of their parts."""
    sizes = np.abs(found.entries).sum(axis=0) + sum(map(np.abs, found.others.values())) + np.abs(scores)
    if not (np.abs(found.total() - scores) <= ROUNDING * sizes).all():
        raise not_linear(name)


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
    check_linear(learner.name, found, scores)
    return Explained(found, scores, int(greedy), probabilities, chances)
