"""Scores and probabilities of rows, without playing them: nothing is drawn, and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.data.prepared import Prepared, prepare_rows
from gappletron.data.stream import make_chunk
from gappletron.data.vectors import Vector
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import Floats
from gappletron.play.engine import Engine
from gappletron.play.rounds import Rows, many_greedy, many_label_probabilities, many_probabilities, scale_rows


def one_row(vector: Vector, label: int = 0) -> Prepared:
    """Return a checked vector as a chunk of one row."""
    indptr = np.array([0, vector.indices.size])
    features = int(vector.indices[-1]) + 1 if vector.indices.size else 0
    chunk = make_chunk(indptr, vector.indices, vector.values, np.array([label]))
    return Prepared(chunk, np.array([vector.squared]), features, label + 1)


def batches(engine: Engine, X: Any, features: int, may_have_more: bool) -> Iterator[Rows]:
    """Return the rows of X, some at a time, as the learner would see them.

    :param may_have_more: whether rows may have more features than there are: those of a growing model.
    """
    for rows in prepare_rows(X, features, may_have_more):
        yield scale(engine, rows)


def scale(engine: Engine, checked: Prepared) -> Rows:
    """Return the rows of a chunk as the learner would see them if they came next."""
    ready = checked.biased() if engine.bias else checked
    room = engine.room(np.zeros(1, np.int64))
    width = engine.state.sizes.features
    if not engine.copies_rows and ready.features <= width:
        return Rows(*ready.chunk, ready.squared, np.zeros(0), room)
    own = ready.chunk._replace(indices=ready.chunk.indices.copy(), values=ready.chunk.values.copy())
    rows = Rows(*own, ready.squared.copy(), np.zeros(0), room)
    engine.call(scale_rows, engine.own.desk, rows, width)
    return rows


def score(engine: Engine, rows: Rows, graph: FeedbackGraph) -> tuple[Floats, NDArray[np.int64]]:
    """Return the scores and the greedy class of every row."""
    n, seat = len(rows.labels), engine.seat(graph)
    scores, greedy = np.empty((n, engine.graph.n_classes)), np.empty(n, np.int64)
    engine.call(many_greedy, engine.learner, engine.state.tuple, seat.plan, rows, engine.own.desk, scores, greedy)
    return scores, greedy


def label_probabilities(engine: Engine, rows: Rows) -> Floats:
    """Return the probabilities of the labels of every row."""
    out = np.empty((len(rows.labels), engine.graph.n_classes))
    engine.call(many_label_probabilities, engine.learner, engine.state.tuple, rows, engine.own.desk, out)
    return out


def action_probabilities(engine: Engine, rows: Rows, graph: FeedbackGraph) -> Floats:
    """Return the probabilities of the actions of every row, if it came next."""
    seat, out = engine.seat(graph), np.empty((len(rows.labels), graph.n_actions))
    engine.call(many_probabilities, engine.learner, engine.state.tuple, seat.plan, rows, seat.desk, out)
    return out
