"""Every change of a model, once: :class:`gappletron.Online` makes it live, and a replay makes it again.

:func:`decide`, :func:`learn`, :func:`forget` and :func:`expire` change a receipt and its record; where a signal handler
raises in the middle, the record tells what has happened, and the journal's entry is dropped or kept accordingly. All
other changes are events (:func:`change`), for which signals are held back. Each logs what it does if the model has a
journal.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gappletron.base.errors import Damaged, UserError
from gappletron.base.signals import held_back
from gappletron.data.records.kept_names import check_names
from gappletron.data.scores import NO_SCORES
from gappletron.data.vectors import Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import Floats, Vector
from gappletron.online import events
from gappletron.online.contents import Contents
from gappletron.online.events import EXPIRED_LABEL, FORGOTTEN_LABEL, Batch
from gappletron.online.journal import Entry, Journal
from gappletron.online.receipts import Receipt, WaitingLimits
from gappletron.play.checks import check_distribution
from gappletron.play.limits import Limits
from gappletron.play.player import Player
from gappletron.play.turns import EXPIRED, FORGOTTEN


def decide(
    model: Contents,
    vector: Vector,
    graph: FeedbackGraph | None,
    now: float,
    followed: tuple[int, Any] | None = None,
    given: Floats | None = None,
) -> Receipt:
    """Play a round; the receipt waits from now on.

    :param followed: the action and the probabilities of another's decision, which the model takes over.
    :param given: checked scores that came with the vector.
    """
    player, receipts, journal = model.player, model.receipts, model.journal
    engine = player.engine
    if engine.needs_time:
        engine.now[0] = now
    here = player.check_graph(graph)  # no feature gets a row for a call that is refused
    action, probabilities = (None, None) if followed is None else followed
    if probabilities is not None:
        check_distribution(probabilities, here.n_actions)
    serial = engine.played.item(0)
    placed = player.place(vector, serial)
    turn = player.new_turn(placed, graph, probabilities, given)
    receipt = Receipt(receipts.session.name, serial, turn, now)
    receipts.begin(receipt)
    if journal is not None:
        version, scores = journal.find_version(turn.graph), b"" if given is None else given.tobytes()
        journal.add(Entry(partial(_write_act, receipt, vector, scores, version, followed is not None), turn))
    if not player.draw(turn, placed, serial, action):
        raise UserError("the player of this model has played in the middle of a call: use one of them at a time")
    receipts.count(turn.record.nbytes)
    return receipt


def _write_act(receipt: Receipt, vector: Vector, scores: bytes, version: int, followed: bool, batch: Batch) -> None:
    ids, values = vector.indices.astype(np.int64).tobytes(), vector.values.tobytes()
    batch.add_act(receipt.session, receipt.time, version, followed, receipt.turn.decision, ids, values, scores)


def decide_many(
    model: Contents, rows: Vectors, graph: FeedbackGraph | None, now: float, given: Floats = NO_SCORES
) -> list[Receipt]:
    """Play many rounds in one call of compiled code; signals must be held back.

    :param given: checked scores that came with the rows, n x K.
    """
    player, receipts, journal = model.player, model.receipts, model.journal
    if player.engine.needs_time:
        player.engine.now[0] = now
    here = player.check_graph(graph)
    version = 0 if journal is None else journal.find_version(here)
    turns = player.draw_many(rows, here, given)
    session = receipts.session.name
    if journal is not None:  # at once: what takes memory comes later
        journal.add(Entry(lambda batch: batch.add_acts(session, now, version, rows, turns.decisions, given)))
    found = [Receipt(session, serial, turn, now) for serial, turn in enumerate(turns.split(), turns.first)]
    receipts.add(found)
    return found


def learn(model: Contents, receipt: Receipt, label: int, now: float) -> None:
    """Take in the feedback of a waiting receipt: the position of the label, or -1 where the graph hid it."""
    player, journal = model.player, model.journal
    before = 0
    if journal is not None:
        before = player.restart_count
        journal.announce(receipt.turn, now, label)
    model.receipts.is_settled = False
    player.learn(receipt.turn, label)
    model.receipts.remove(receipt)
    if journal is not None:
        _log_restarts(journal, player, before, now)


def _log_restarts(journal: Journal, player: Player, before: int, now: float) -> None:
    """Log that the learner began anew, where it had done so this often before.

    Where a signal handler raises before this, it is missing in the log. There it is for readers only.
    """
    new = player.restart_count - before  # below 0 after it was rolled back
    for each in player.restarts[-new:] if new > 0 else ():
        journal.add_change(events.Restarted(now, player.rounds, each.reason))


def learn_many(model: Contents, feedback: list[tuple[Receipt, int]], now: float) -> None:
    """Take in much feedback, for the model's own graph, with one entry in the journal; signals must be held back."""
    serials, labels = [receipt.serial for receipt, _ in feedback], [label for _, label in feedback]
    entry = Entry(lambda batch: batch.add_feedback(serials, now, labels))
    before = model.player.restart_count
    model.receipts.is_settled = False
    model.player.learn_many([receipt.turn for receipt, _ in feedback], labels)
    if model.journal is not None:
        model.journal.add(entry)
        _log_restarts(model.journal, model.player, before, now)
    model.receipts.remove(*(receipt for receipt, _ in feedback))


def forget(model: Contents, receipt: Receipt, now: float) -> None:
    """Stop waiting for the feedback of a receipt."""
    _end_waiting(model, receipt, FORGOTTEN, FORGOTTEN_LABEL, now)


def expire(model: Contents, receipt: Receipt, now: float) -> None:
    """Let a receipt expire."""
    _end_waiting(model, receipt, EXPIRED, EXPIRED_LABEL, now)


def _end_waiting(model: Contents, receipt: Receipt, status: int, label: int, now: float) -> None:
    """Let a receipt wait no more, without learning from it."""
    if model.journal is not None:
        model.journal.announce(receipt.turn, now, label)
    model.receipts.is_settled = False
    receipt.turn.status = status
    model.receipts.remove(receipt)


def expire_overdue(model: Contents, now: float) -> None:
    """Let the oldest receipts expire where too many wait, or for too long. A replay does not: the log says which."""
    while (overdue := model.receipts.find_overdue(now)) is not None:
        receipt, limit = overdue
        expire(model, receipt, now)
        model.receipts.note_expired(receipt, limit)


def change(
    model: Contents,
    event: events.Change,
    who: str | None = None,
    *,
    graphs: dict[int, FeedbackGraph] | None = None,
    earlier: Player | None = None,
) -> None:
    """Make a change that is not about a receipt, and log it: signals wait meanwhile, since no record tells of it."""
    with held_back():
        before = model.player.restart_count
        apply(model, event, graphs or {}, earlier)
        if model.journal is not None:
            model.journal.add_change(event, who)
            _log_restarts(model.journal, model.player, before, event.time)


def apply(
    model: Contents, event: events.Change, graphs: Mapping[int, FeedbackGraph], earlier: Player | None = None
) -> None:
    """Make a change that is not about a receipt.

    :param graphs: the graphs of the log by their versions.
    :param earlier: the player to which the model is rolled back.
    """
    player = model.player
    match event:
        case events.Taught(_, label, propensity, indices, values, scores):
            given = None if scores is None else np.array(scores)
            player.teach_vector(player.check((indices, values)), label, propensity, given)
        case events.Added(_, version):
            player.extend(graphs[version])
        case events.GraphChanged(_, version):
            player.set_graph(graphs[version])
        case events.RolledBack(_, _, rounds):
            if earlier is None or earlier.rounds != rounds:
                raise Damaged
            player.roll_back(earlier)
        case events.Grown(_, features):
            player.grow(features)
        case events.Named(_, names):
            model.names.add(check_names(names))
        case events.WasReset():
            player.reset()
        case events.Restarted() | events.Promoted() | events.Demoted():
            pass
        case events.Limited(_, limits):
            player.set_limits(Limits.from_dict(limits))
        case events.Opened(_, name, first, _, limits):
            if first != player.rounds:
                raise Damaged
            model.receipts.start_session(first, name)
            model.receipts.limits = WaitingLimits.check(*limits)
