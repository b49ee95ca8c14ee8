"""What a player is given, checked: chunks of rounds, totals, graphs of single rounds, probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gappletron.base.errors import UserError
from gappletron.data.prepared import Prepared, prepare
from gappletron.data.stream import Chunk
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import is_distribution
from gappletron.kernel.types import Floats
from gappletron.learners.registry import check_can_play
from gappletron.play.rounds import Tally


def check(player: Any, chunk: Chunk | Prepared) -> Prepared:
    """Return a chunk that compiled code may trust, with features and classes that the player has."""
    checked = chunk if isinstance(chunk, Prepared) else prepare(chunk)
    if checked.features > player.features or checked.classes > player.graph.n_classes:
        raise UserError(
            f"the chunk has indices up to {checked.features - 1} and labels up to {checked.classes - 1}, and the "
            f"player {player.features} features and {player.graph.n_classes} classes: make it larger"
        )
    return checked


def check_tally(player: Any, tally: Tally) -> Tally:
    """Return totals whose confusion table has the size of the player's graph."""
    actions, classes = player.graph.visible.shape
    if tally.confusion.shape != (actions, classes):
        raise UserError(
            f"the tally counts {tally.confusion.shape[0]} actions and {tally.confusion.shape[1]} classes, and the "
            f"player has {actions} and {classes}: start a new one when a class is added"
        )
    return tally


def find_stretches(player: Any, graphs: Sequence[FeedbackGraph], rounds: int) -> list[tuple[int, int, FeedbackGraph]]:
    """Return the maximal stretches of rounds with one graph; all graphs are checked before the first round."""
    if len(graphs) != rounds:
        raise UserError(f"there are {len(graphs)} graphs for {rounds} rounds: give one for each round")
    found: list[tuple[int, int, FeedbackGraph]] = []
    for t, given in enumerate(graphs):
        graph = player.check_graph(given)
        if found and (found[-1][2] is graph or found[-1][2] == graph):
            found[-1] = (found[-1][0], t + 1, found[-1][2])
        else:
            check_can_play(player.learner, graph)
            found.append((t, t + 1, graph))
    return found


def check_propensities(given: Any, rows: int) -> Floats:
    """Return the probabilities with which the labels of so many rows were observed; None stands for 1."""
    if given is None:
        return np.ones(rows)
    try:
        found = np.array(given, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"propensity must be a number for each row, not {type(given).__name__}") from None
    if found.shape not in ((), (rows,)):
        raise UserError(f"propensity has the shape {found.shape}, and there are {rows} rows: give a number for each")
    if not ((found > 0.0) & (found <= 1.0)).all():  # so NaN is refused as well
        raise UserError("propensity has a value that is not above 0 and at most 1: give probabilities")
    return np.full(rows, found) if found.ndim == 0 else found


def check_distribution(given: Any, actions: int) -> Floats:
    """Return the probabilities of so many actions, checked."""
    try:
        found = np.array(given, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"probabilities must be {actions} numbers, one for each action") from None
    if found.shape != (actions,):
        raise UserError(
            f"probabilities have the shape {found.shape}, and there are {actions} actions: give one for each"
        )
    if not is_distribution(found):
        raise UserError("probabilities must be numbers from 0 to 1 that add up to 1")
    return found
