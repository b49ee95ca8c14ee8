"""Every change of a model, once: :class:`gappletron.Online` makes it live, and a replay makes it again.

:func:`decide`, :func:`learn`, :func:`forget` and :func:`expire` change a receipt and its record; where a signal handler
raises in the middle, the record tells what has happened, and the journal's entry is dropped or kept accordingly. All
other changes are events (:func:`apply`), for which signals are held back.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

from gappletron.base.errors import Damaged
from gappletron.base.signals import held_back
from gappletron.data.vectors import Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import Vector
from gappletron.online import events
from gappletron.online.events import FORGOTTEN_LABEL, Expired, Fed, pack_decisions, pack_feedbacks
from gappletron.online.journal import DecisionEntry, Entry, FeedbackEntry, Journal
from gappletron.online.receipts import Receipt
from gappletron.online.saved import Contents
from gappletron.play.limits import Limits
from gappletron.play.rounds import PLAYED
from gappletron.play.turns import EXPIRED, FORGOTTEN, LEARNED


def decide(
    model: Contents,
    vector: Vector,
    graph: FeedbackGraph | None,
    now: float,
    journal: Journal | None = None,
    followed: tuple[int, Any] | None = None,
) -> Receipt:
    """Play a round; the receipt waits from now on.

    :param followed: the action and the probabilities of another's decision, which the model takes over.
    """
    player, receipts = model.player, model.receipts
    if player.engine.needs_time:
        player.engine.now[0] = now
    if player.feature_limit is not None and vector.indices.size:
        player.check_graph(graph)  # nothing grows for a call that is refused
        _make_room(model, vector.indices.item(-1), journal)
    action, probabilities = (None, None) if followed is None else followed
    played = False
    while not played:  # again where a signal handler has played a round in between
        serial = player.engine.clock.item(PLAYED)
        turn = player.new_turn(vector, graph, probabilities)
        receipt = Receipt(receipts.session.name, serial, turn, now)
        receipts.begin(receipt)
        if journal is not None:
            version = journal.version_of(turn.graph)
            journal.add(DecisionEntry(receipt, vector, version, followed is not None))
        played = player.draw(turn, vector, serial, action)
        if not played:
            del receipts.pending[serial]
    receipts.add(receipt)
    return receipt


def _make_room(model: Contents, last: int, journal: Journal | None) -> None:
    """Let a growing model have the feature with this index. Growth is logged: the round may be interrupted after it."""
    player = model.player
    if last >= player.features:
        with held_back():
            player.make_room(last)
            if journal is not None:
                journal.add_event(events.Grown(player.features))


def decide_many(
    model: Contents, rows: Vectors, graph: FeedbackGraph | None, now: float, journal: Journal | None = None
) -> list[Receipt]:
    """Play many rounds in one call of compiled code; signals must be held back."""
    player, receipts = model.player, model.receipts
    if player.engine.needs_time:
        player.engine.now[0] = now
    here = player.check_graph(graph)
    version = 0 if journal is None else journal.version_of(here)
    turns = player.draw_many(rows, here)
    with contextlib.nullcontext() if journal is None else journal.noting_gaps():
        if journal is not None:
            journal.add(Entry(pack_decisions(now, version, *rows[:3], turns.decisions), rows.squared.size))
        session = receipts.session.name
        found = [Receipt(session, serial, turn, now) for serial, turn in enumerate(turns.split(), turns.first)]
        receipts.add(*found)
    return found


def learn(model: Contents, receipt: Receipt, label: int, now: float, journal: Journal | None = None) -> None:
    """Take in the feedback of a waiting receipt: the position of the label, or -1 where the graph hid it."""
    if journal is not None:
        journal.add(FeedbackEntry(receipt, LEARNED, Fed(receipt.serial, now, label)))
    model.receipts.is_settled = False
    model.player.learn(receipt.turn, label)
    model.receipts.remove(receipt)


def learn_many(
    model: Contents, feedback: list[tuple[Receipt, int]], now: float, journal: Journal | None = None
) -> None:
    """Take in much feedback in one call of compiled code; signals must be held back."""
    serials, labels = [receipt.serial for receipt, _ in feedback], [label for _, label in feedback]
    entry = Entry(pack_feedbacks(serials, now, labels), len(serials))
    model.receipts.is_settled = False
    with contextlib.nullcontext() if journal is None else journal.noting_gaps():
        model.player.learn_many([receipt.turn for receipt, _ in feedback], labels)
        if journal is not None:
            journal.add(entry)
        for receipt, _ in feedback:
            model.receipts.remove(receipt)


def forget(model: Contents, receipt: Receipt, now: float, journal: Journal | None = None) -> None:
    """Stop waiting for the feedback of a receipt."""
    if journal is not None:
        journal.add(FeedbackEntry(receipt, FORGOTTEN, Fed(receipt.serial, now, FORGOTTEN_LABEL)))
    model.receipts.is_settled = False
    receipt.turn.status = FORGOTTEN
    model.receipts.remove(receipt)


def expire(model: Contents, receipt: Receipt, now: float, journal: Journal | None = None) -> None:
    """Let a receipt expire."""
    if journal is not None:
        journal.add(FeedbackEntry(receipt, EXPIRED, Expired(receipt.serial, now)))
    model.receipts.expire(receipt)


def expire_overdue(model: Contents, now: float, journal: Journal | None = None) -> None:
    """Let the oldest receipts expire where too many wait, or for too long. A replay does not: the log says which."""
    while (oldest := model.receipts.find_overdue(now)) is not None:
        expire(model, oldest, now, journal)


def compile_batches(model: Contents) -> None:
    """Compile, or load from the cache, what :func:`decide_many` and :func:`learn_many` need."""
    from scipy.sparse import csr_array

    nothing = model.player.check_many(csr_array((0, 1)))
    assert nothing is not None
    model.player.draw_many(nothing)
    model.player.learn_many([], [])
    if model.encoder is not None:
        model.encoder.encode_many(["word"])


def apply(model: Contents, event: events.Event, graphs: dict[int, FeedbackGraph]) -> None:
    """Make a change that is not about a receipt.

    :param graphs: the graphs of the log by their versions.
    """
    player = model.player
    match event:
        case events.Taught(_, label, propensity, features):
            vector = player.check((features.indices, features.values))
            player.teach_vector(vector, label, None if math.isnan(propensity) else propensity)
        case events.Added(version, _):
            player.extend(graphs[version])
        case events.Grown(features):
            player.grow(features)
        case events.Limited(limits, _):
            player.set_limits(Limits.from_dict(limits))
        case events.Answered(_, key, fingerprint, answer):
            model.answers.put(key, fingerprint, answer)
        case events.Opened(name, first, _, _, limits):
            if first != player.rounds:
                raise Damaged
            model.receipts.start_session(first, name)
            model.receipts.set_limits(*limits)
        case _:
            raise TypeError(f"{type(event).__name__} is about a receipt")
