"""What a player is given, checked: chunks of rounds, totals, graphs of single rounds, probabilities."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.data.prepared import Prepared, prepare
from gappletron.data.scores import NO_SCORES, check_score_table, find_wrong, read_scores, squash_scores
from gappletron.data.stream import Chunk
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.compiling import same_types
from gappletron.kernel.numerics import is_distribution
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Learner
from gappletron.learners.registry import check_can_play
from gappletron.play.rounds import Tally
from gappletron.play.turns import KEPT, Turn


def check_chunk(player: Any, chunk: Chunk | Prepared, scores: Any = None) -> Prepared:
    """Return a chunk that compiled code may trust, with features and classes that the player has."""
    checked = chunk if isinstance(chunk, Prepared) else prepare(chunk)
    if scores is not None:
        (checked,) = add_scores(player, [checked], scores)
    if checked.features > player.engine.features or checked.classes > player.graph.n_classes:
        raise UserError(
            f"the chunk has indices up to {checked.features - 1} and labels up to {checked.classes - 1}, and the "
            f"player {player.engine.features} features and {player.graph.n_classes} classes: make it larger"
        )
    if checked.scores.size and checked.scores.shape != (len(checked.chunk.labels), player.graph.n_classes):
        raise UserError(
            f"the chunk has scores for {checked.scores.shape[1]} classes, and the player {player.graph.n_classes} "
            "classes: give a score for each class of every row"
        )
    return checked


def check_tally(player: Any, tally: Tally) -> Tally:
    """Return totals that compiled code may write to; their confusion table has the size of the player's graph."""
    actions, classes = player.graph.visible.shape
    marks, own = len(tally.marks), player.engine.new_tally()
    shapes = [*(array.shape for array in own[:3]), (marks,), (marks, own.counts.size), (marks, own.sums.size)]
    if not same_types(tally, own) or [array.shape for array in tally[:-1]] != shapes:
        raise UserError("the tally has arrays of other types or sizes: make it with new_tally()")
    if tally.confusion.shape != (actions, classes):
        raise UserError(
            f"the tally counts {tally.confusion.shape[0]} actions and {tally.confusion.shape[1]} classes, and the "
            f"player has {actions} and {classes}: start a new one when a class is added"
        )
    return tally


def find_stretches(player: Any, graphs: Sequence[FeedbackGraph], rounds: int) -> list[tuple[int, int, FeedbackGraph]]:
    """Return the maximal stretches of rounds with one graph; all graphs are checked before the first round."""
    if len(graphs) != rounds:
        raise UserError(f"there are {len(graphs)} graphs for {rounds} rounds: give one graph for each round")
    found, start = [], 0
    for graph, rounds_of_graph in itertools.groupby(map(player.check_graph, graphs)):
        check_can_play(player.learner, graph)
        stop = start + len(list(rounds_of_graph))
        found.append((start, stop, graph))
        start = stop
    return found


def check_graph(own: FeedbackGraph, graph: Any) -> FeedbackGraph:
    """Return a graph over the same classes and actions as a player's own."""
    if not isinstance(graph, FeedbackGraph):
        raise UserError(f"{graph!r} is not a FeedbackGraph: the graph of a round is one")
    if graph == own and graph.completed == own.completed:  # of the same edges, given and added
        return own  # the same object, so that a saved model goes on with the same bits
    if graph.classes != own.classes or graph.actions != own.actions:
        raise UserError(f"the graph {graph.name!r} has other classes or actions: only edges and costs may change")
    return graph


def check_label(engine: Any, turn: Turn, label: int) -> int:
    """Return the position of a label that a turn may have, or -1; compiled code will trust it."""
    if type(label) is not int:
        label = whole(label, "the position of a label", least=-1)
    if not -1 <= label < turn.graph.n_classes:
        raise UserError(f"{label} is not the position of a label: expected -1 to {turn.graph.n_classes - 1}")
    if turn.index is not engine.index and turn.x.indices.max(initial=0) >= engine.index.rows:
        raise UserError("the turn has more features than this player: learn from the turns that its act() returned")
    kept = engine.kept if turn.graph is engine.graph else engine.learner.keeps(turn.graph.n_classes)
    if turn.record.item(KEPT) != kept:
        raise UserError("the turn is one of another learner, or was not drawn: learn from those that act() returned")
    return label


def check_labels(engine: Any, turns: Sequence[Turn], labels: Sequence[int]) -> list[int]:
    """Return the positions of the labels of many turns, each of which is there once."""
    if len(turns) != len(labels):
        raise UserError(f"there are {len(turns)} turns and {len(labels)} labels: give one for each")
    if len(set(map(id, turns))) < len(turns):
        raise UserError("a turn stands twice in the feedback: learn from each once")
    return [check_label(engine, turn, label) for turn, label in zip(turns, labels, strict=True)]


def check_teachable(learner: Learner) -> None:
    """Refuse a learner that cannot learn from a label without an action."""
    if not learner.teachable:
        raise UserError(
            f"{learner.name} cannot be taught labels, since it learns only from the action that it drew: play the rows "
            "instead, or choose another learner, for example auto"
        )


def check_propensities(given: Any, rows: int) -> Floats:
    """Return the probabilities with which the labels of so many rows were observed; None stands for 1."""
    found = _read_floats(1.0 if given is None else given)
    if found.shape not in ((), (rows,)) or not ((found > 0.0) & (found <= 1.0)).all():  # so NaN is refused as well
        raise UserError(f"propensity must be a number above 0 and at most 1 for each of {rows} rows")
    return np.full(rows, found)


def check_distribution(given: Any, actions: int) -> Floats:
    """Return the probabilities of so many actions, checked."""
    found = _read_floats(given)
    if found.shape != (actions,) or not is_distribution(found):
        raise UserError(f"probabilities must be {actions} numbers from 0 to 1, one for each action, that add up to 1")
    return found


def check_takes_scores(learner: Learner) -> None:
    """Refuse scores for a learner that has no use for them."""
    if not learner.takes_scores:
        raise UserError(f"{learner.name} takes no scores: use the learner 'auto', or leave them out")


def check_scores(learner: Learner, graph: FeedbackGraph, given: Any) -> Floats:
    """Return the scores of one row, in the order of the classes and between -1 and 1: see :func:`squash_scores`.

    :param given: a mapping from every class to its score, or one number per class in the order of the graph.
    """
    check_takes_scores(learner)
    if isinstance(given, Mapping):
        for name in [*given, *graph.classes]:
            if name not in given or name not in graph.classes:
                what = "have none for the class" if name not in given else "have one for"
                end = "" if name not in given else ", which is no class"
                raise UserError(f"scores {what} {name!r}{end}: give one for each class")
        given = [given[name] for name in graph.classes]
    found = read_scores(given)
    if found.shape != (graph.n_classes,) or find_wrong(found).any():
        raise UserError(f"scores must be {graph.n_classes} finite numbers, one for each class, or a mapping of them")
    return squash_scores(found)


def check_many_scores(learner: Learner, graph: FeedbackGraph, given: Any, rows: int) -> Floats:
    """Return the scores of so many rows (n x K); `given` is an array, or a sequence of what :func:`check_scores`
    takes.
    """
    if given is None:
        return NO_SCORES
    check_takes_scores(learner)
    if isinstance(given, np.ndarray) and given.ndim == 2:
        return check_score_table(given, rows, graph.n_classes)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise UserError("scores of many rows must be a 2-D array, or a list with the scores of every row")
    listed = list(given)
    if len(listed) != rows:
        raise UserError(f"there are {len(listed)} scores for {rows} rows: give one for each")
    if any(each is None for each in listed):
        raise UserError("some rows of one call have scores and others have none: give them for all, or in two calls")
    made = []
    for place, each in enumerate(listed):
        try:
            made.append(check_scores(learner, graph, each))
        except UserError as error:
            raise error.at(f"row {place}") from None
    return np.array(made).reshape(rows, graph.n_classes)


def add_scores(player: Any, given_chunks: Iterable[Prepared], given: Any) -> Iterable[Prepared]:
    """Return the chunks with the scores of all their rows, in order; as they are where there are none."""
    if given is None:
        return given_chunks
    chunks = list(given_chunks)
    rows = [len(ready.chunk.labels) for ready in chunks]
    scores = check_many_scores(player.learner, player.graph, given, sum(rows))
    ends = itertools.accumulate(rows, initial=0)
    spans = zip(chunks, itertools.pairwise(ends), strict=True)
    return (dataclasses.replace(ready, scores=scores[a:b]) for ready, (a, b) in spans)


def _read_floats(given: Any) -> Floats:
    """Return numbers as an array; NaN where they are none."""
    try:
        found = np.asarray(given)
        if found.dtype.kind != "c":  # of which the real part would be taken
            return found.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    return np.full((), np.nan)
