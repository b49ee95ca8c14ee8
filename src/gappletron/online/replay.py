"""Decisions and feedback of a log, made again by the thousand in one call of compiled code.

The bits are those of single calls. Blocks in which anything is unusual, or wrong, are left to these.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from gappletron.data.scores import NO_SCORES
from gappletron.data.vectors import Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import is_distribution
from gappletron.kernel.types import NO_VECTOR, Floats
from gappletron.online.contents import Contents
from gappletron.online.events import NONE, UNSEEN_LABEL, Decided, Event, Fed, Restarted
from gappletron.online.receipts import Receipt
from gappletron.play.player import Player
from gappletron.play.rounds import DECISION, Logged
from gappletron.play.turns import Turn

# The least and the most events of a block, and the most numbers of their rows: for few nothing needs to be compiled;
# many take memory, and the collector of garbage looks at all of them.
LEAST, MOST, MOST_NUMBERS = 1_000, 2_048, 2**20
# The least where what is needed is there already, as in a process that opens many models.
FEW = 16
KNOWN = frozenset({Decided, Fed, Restarted})


class UnusualError(Exception):
    """A block must be played one by one."""


def split_events(events: Iterable[tuple[int, Event]]) -> Iterator[tuple[int, list[Event]]]:
    """Return the events in blocks that :func:`replay_together` may take, and one by one where it does not know them,
    each with the number of the first.
    """
    start, block, numbers = 0, list[Event](), 0
    for place, event in events:
        if type(event) is Decided and event.features is not None:
            numbers += event.features.indices.size + event.probabilities.size
        elif type(event) not in KNOWN or type(event) is Decided:
            yield start, block
            yield place, [event]
            start, block, numbers = place + 1, [], 0
            continue
        if not block:
            start = place
        block.append(event)
        if len(block) == MOST or numbers > MOST_NUMBERS:
            yield start, block
            block, numbers = [], 0
    yield start, block


def replay_together(model: Contents, block: list[Event], graphs: dict[int, FeedbackGraph]) -> int:
    """Make the changes of a block again; return how many decisions have other probabilities now. An
    :class:`UnusualError`, and nothing is changed, where they must be made one by one.
    """
    player, receipts = model.player, model.receipts
    if len(block) < LEAST and not (len(block) >= FEW and player.engine.knows_repeat):
        raise UnusualError
    decisions = [event for event in block if type(event) is Decided]
    if any(graphs[version] is not player.graph for version in {event.graph for event in decisions}):
        raise UnusualError
    steps, waiting, ended = _find_steps(model, block, len(decisions))
    rows, scores, times, logged = _read_decisions(player, decisions)
    log = Logged(np.array(steps, np.int64).reshape(-1, 2), times, logged)
    played = player.repeat(rows, scores, log, [receipt.turn.record for receipt in ended.values()])
    if played is None:
        raise UnusualError
    turns, changed = played
    receipts.remove(*ended.values())
    ends, session = turns.ends.tolist(), receipts.session.name
    left = {
        place: Turn(turns.graph, turns.features, turns.records[ends[place] : ends[place + 1]].copy())
        for place in waiting.values()
    }
    receipts.add(Receipt(session, decisions[place].round, turn, decisions[place].time) for place, turn in left.items())
    return changed


def _find_steps(
    model: Contents, block: list[Event], n: int
) -> tuple[list[tuple[int, int]], dict[int, int], dict[int, Receipt]]:
    """Return the halves of rounds (:class:`gappletron.play.rounds.Logged`); the places of the decisions that wait in
    the end, by their serial numbers; and the earlier receipts that do not.
    """
    first, pending, graph = model.player.rounds, model.receipts.pending, model.player.graph
    steps: list[tuple[int, int]] = []
    waiting: dict[int, int] = {}
    ended: dict[int, Receipt] = {}
    for event in block:
        if type(event) is Decided:
            place = waiting[event.round] = event.round - first
            steps.append((place, DECISION))
        elif type(event) is Fed:
            place = waiting.pop(event.round, -1)
            if place < 0:
                receipt = pending.get(event.round)
                if receipt is None or event.round in ended or receipt.graph is not graph:
                    raise UnusualError
                place = n + len(ended)
                ended[event.round] = receipt
            if event.label >= UNSEEN_LABEL:
                if event.label >= graph.n_classes:
                    raise UnusualError
                steps.append((place, event.label))
    return steps, waiting, ended


def _read_decisions(player: Player, decisions: list[Decided]) -> tuple[Vectors, Floats, Floats, Floats]:
    """Return the rows of decisions, the scores that came with them, their times, and their actions with the
    probabilities of all.
    """
    n, K, N = len(decisions), player.graph.n_classes, player.graph.n_actions
    count = K if decisions and decisions[0].scores.size else 0
    features = [event.features for event in decisions if event.features is not None and not event.followed]
    if len(features) < n:
        raise UnusualError
    sizes = [(e.indices.size, e.values.size) for e in features]
    others = [(e.probabilities.size, e.scores.size) for e in decisions]
    if any(a != b for a, b in sizes) or any(each != (N, count) for each in others):
        raise UnusualError
    if count > K * player.learner.takes_scores:
        raise UnusualError
    numbers = np.array([(e.round, e.action, e.greedy, e.time) for e in decisions], np.float64).reshape(n, 4)
    chances = np.concatenate([NONE, *(event.probabilities for event in decisions)]).reshape(n, N)
    scores = np.concatenate([NONE, *(event.scores for event in decisions)]).reshape(n, count) if count else NO_SCORES
    least, bounds = [player.rounds, 0, 0, 0], [player.rounds + n, N, K, np.inf]
    fits = (numbers >= least).all() and (numbers < bounds).all() and (np.diff(numbers[:, 0]) == 1.0).all()
    if not fits or not is_distribution(chances) or not (np.abs(scores) <= 1.0).all():
        raise UnusualError
    ends = np.cumsum([0, *(size for size, *_ in sizes)], dtype=np.int64)
    indices = np.concatenate([NO_VECTOR.indices, *(row.indices for row in features)])
    values = np.concatenate([NO_VECTOR.values, *(row.values for row in features)])
    rows = player.engine.checker.rows(ends, indices, values)
    if rows is None or (chances[np.arange(n), numbers[:, 1].astype(np.int64)] <= 0.0).any():
        raise UnusualError
    return rows, scores, numbers[:, 3].copy(), np.column_stack([numbers[:, 1], chances])
