"""Feedback graphs that get new classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, label
from gappletron.base.errors import UserError
from gappletron.graphs.cover import is_dominating
from gappletron.graphs.graph import FeedbackGraph, close_edges
from gappletron.graphs.labels import Positions, check_labels


def add_class(
    graph: FeedbackGraph,
    name: Label,
    reveals: Iterable[Label] | None,
    revealed_by: Iterable[Label] | None,
    costs: Any,
) -> FeedbackGraph:
    """Return the graph with one more class: see :meth:`FeedbackGraph.with_class`."""
    new = label(name, "class")
    if (type(new), new) in graph._action_positions.places:
        raise UserError(f"there is a class or an action {new!r} already: choose another name for the new class")
    K, N = graph.n_classes, graph.n_actions
    classes, actions = (*graph.classes, new), (*graph.classes, new, *graph.actions[K:])
    old = np.ix_([*range(K), *range(K + 1, N + 1)], range(K))  # the extra actions stay last
    edges = np.zeros((N + 1, K + 1), dtype=bool)
    edges[old] = graph.given
    rows = Positions(actions, "action")
    if reveals is None and revealed_by is None:
        edges[K], edges[:, K] = _extend_preset(graph)
    else:
        columns = Positions(classes, "class")
        edges[K, [columns.find(item) for item in check_labels(reveals or (), "reveals", "class")]] = True
        edges[[rows.find(item) for item in check_labels(revealed_by or (), "revealed_by", "action")], K] = True
    if not edges[:, K].any() and not (edges[:, :K].sum(axis=1) == K).any():
        raise UserError(
            f"no action would reveal the new class {new!r}: name at least one in revealed_by (or {new!r} itself in "
            "reveals)"
        )
    kept = graph.dominating_set if graph.dominating_set_is_given else None
    if kept is not None and not is_dominating(close_edges(edges), map(rows.find, kept)):
        kept = None
    title = "filtering" if graph.name == "apple-tasting" else graph.name  # apple tasting has two classes
    grown = FeedbackGraph(edges, classes, actions, name=title, dominating_set=kept)
    if graph.has_costs:
        base = grown.costs.copy()
        base[old] = graph.costs
        grown = grown.with_costs(base)
    return grown if costs is None else grown.with_costs(costs)


def _extend_preset(graph: FeedbackGraph) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the row and the column of a new class where the graph is a preset's."""
    K, given = graph.n_classes, graph.given
    row, column = np.zeros(K + 1, dtype=bool), np.zeros(graph.n_actions + 1, dtype=bool)
    square, own = given[:K], np.eye(K, dtype=bool)
    reveals_all: NDArray[np.bool_] = np.asarray(given.all(axis=1))
    if graph.n_actions == K and (square == own).all():  # bandit
        row[K] = column[K] = True
    elif graph.n_actions == K and (square == ~own).all():  # disease prevention
        row[:K] = column[:K] = True
    elif (reveals_all | ~given.any(axis=1)).all():  # full, filtering, label efficient
        column[np.delete(np.arange(graph.n_actions + 1), K)] = reveals_all
        row[:] = column[K] = reveals_all[:K].all()
    else:
        raise UserError(
            f"the graph {graph.name!r} is not a preset, so its edges do not follow for a new class: say what it "
            "reveals=[...] and what it is revealed_by=[...]"
        )
    return row, column
