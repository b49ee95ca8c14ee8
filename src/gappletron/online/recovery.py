"""From a journal back to a model: its events are done again, to the same bits."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from gappletron.base.errors import Damaged, UserError
from gappletron.data.vectors import Vector
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import is_distribution
from gappletron.online import events
from gappletron.online.parts import Parts
from gappletron.online.receipts import Receipt
from gappletron.online.store import Group
from gappletron.play.limits import Limits
from gappletron.play.rounds import ACTION, HEAD
from gappletron.play.saved import graph_from

__all__ = ["replay"]


def replay(parts: Parts, groups: Iterable[Group], start: int, stop: int | None = None) -> int:
    """Do again what was logged from event number `start` on, to before `stop`; how many decisions have other
    probabilities now, as after a change of versions. Events that do not fit raise :class:`Damaged`.
    """
    graphs: dict[int, FeedbackGraph] = {}
    changed = 0
    for group in groups:
        if stop is not None and group.first >= stop:
            break
        for place, event in enumerate(events.events_of(group.events), group.first):
            if place >= start and (stop is None or place < stop):
                try:
                    changed += _redo(parts, event, graphs)
                except UserError:
                    raise
                except (
                    KeyError,
                    TypeError,
                    ValueError,
                    IndexError,
                ):  # a receipt or a graph that is not there, or worse
                    raise Damaged from None
    return changed


def _redo(parts: Parts, event: events.Event, graphs: dict[int, FeedbackGraph]) -> bool:
    """Do again what an event tells of; whether a decision came out differently."""
    match event:
        case events.GraphMade(version, document):
            graph = graph_from(document)
            graphs[version] = parts.player.graph if graph == parts.player.graph else graph
        case events.Decided():
            return _redo_decision(parts, event, graphs[event.graph])
        case events.Fed():
            _redo_feedback(parts, event)
        case events.Expired(serial, _):
            if serial in parts.waiting.pending:  # the same expiry may be logged twice
                parts.waiting.expire(parts.waiting.pending[serial])
        case events.Opened(name, first, _, _, limits):
            if first != parts.player.rounds:
                raise Damaged
            parts.waiting.start_session(first, name)
            parts.waiting.set_limits(*limits)
        case events.Answered(_, key, fingerprint, answer):
            parts.answers.put(key, fingerprint, answer)
        case _:
            _redo_change(parts, event, graphs)
    return False


def _redo_decision(parts: Parts, event: events.Decided, graph: FeedbackGraph) -> bool:
    """Play a round again. Its action and probabilities are those of the log: they were acknowledged."""
    player, waiting = parts.player, parts.waiting
    chances, K, N = event.probabilities, graph.n_classes, graph.n_actions
    fits = chances.shape == (N,) and 0 <= event.action < N and 0 <= event.greedy < K  # compiled code will trust it
    if event.round != player.rounds or not fits or not is_distribution(chances) or chances[event.action] <= 0.0:
        raise Damaged
    vector = _taken(parts, event.features)
    turn = player.new_turn(vector, graph)
    if player.needs_time:
        player.now = event.time
    if event.followed:
        player.follow_turn(turn, vector, event.action, event.probabilities)
    else:
        player.draw(turn, vector)
    drawn = turn.record[HEAD : HEAD + N]
    differs = turn.action != event.action or not np.array_equal(drawn, chances)
    if differs:
        turn.record[ACTION], drawn[:] = event.action, chances
    waiting.add(Receipt(waiting.session.name, event.round, turn, event.time))
    return differs


def _redo_feedback(parts: Parts, event: events.Fed) -> None:
    receipt = parts.waiting.pending[event.round]
    parts.waiting.remove(receipt)
    if event.label != events.FORGOTTEN:
        parts.player.learn(receipt._turn, event.label)


def _redo_change(parts: Parts, event: events.Event, graphs: dict[int, FeedbackGraph]) -> None:
    """What is not a round."""
    player = parts.player
    match event:
        case events.Taught(_, label, propensity, features):
            known = None if math.isnan(propensity) else propensity
            player.teach_on(_taken(parts, features), label, known)
        case events.Added(version, _):
            player.extend(graphs[version])
            player.compile_rounds()
        case events.Grown(size):
            player.grow(max(size, player.features))
        case events.Limited(limits, _):
            player.set_limits(Limits.from_dict(limits))
            player.compile_rounds()


def _taken(parts: Parts, features: events.Features) -> Vector:
    """The row of an event, as it was taken then."""
    if features.digest:
        raise UserError(
            "the features of this part of the log were compacted, so it cannot be replayed: only the snapshots after "
            "it lead on"
        )
    return parts.player.take((features.indices, features.values), parts.feature_limit)
