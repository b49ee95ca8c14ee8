"""From a store to the model whose journal it holds: the newest snapshot, and the events since then made again.

For a new store, from the arguments of a model: what :meth:`gappletron.Online.open` does first.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gappletron.base.errors import Damaged, UserError
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import is_distribution
from gappletron.kernel.pieces import Piece
from gappletron.kernel.types import Vector
from gappletron.online import events, transitions
from gappletron.online.saved import FORMAT, Contents
from gappletron.online.settings import check_settings, describe_settings
from gappletron.online.store import Log, Store, read_store
from gappletron.play.options import Options
from gappletron.play.player import Player
from gappletron.play.saved import graph_from
from gappletron.play.turns import ACTION, HEAD
from gappletron.play.watch import NoWatch


def check_place(place: str | PathLike[str] | Store, *, may_be_new: bool) -> None:
    """Refuse a folder that is not there, where nothing says what a new model is to be."""
    if not may_be_new and not isinstance(place, Store) and not Path(place).exists():
        raise UserError(
            f"there is no model in {str(place)!r} yet, and a new one needs a graph: give one, for example "
            "graph=FeedbackGraph.filtering(['ham', 'spam'])"
        )


def open_contents(
    store: Store, given: dict[str, Any], start: Contents | None, pieces: tuple[type[Piece], ...]
) -> tuple[Contents, dict[str, Any]]:
    """Return the model of a store, and the options that are to change.

    :param given: the arguments of the model, by name; for a stored one they must be those that it was made with, but
        for the options that may change.
    :param start: a model to begin with, in place of a new one.
    """
    settings = store.settings()
    if settings is None:
        contents = Contents.make(**({"monitor": True} | given)) if start is None else start
        store.put_snapshot(0, FORMAT, *contents.describe())
        made = describe_settings(_made_with(given) if start is None else _made_like(start))
        store.put_settings({"options": made})
        return contents, {}
    if start is not None:
        raise UserError(f"{store.name!r} holds a model already: omit start, or use another folder")
    changes = {name: given[name] for name in Options.may_change() if name in given}
    fixed = {name: value for name, value in given.items() if name not in changes}
    check_settings(store.name, settings["options"], fixed)
    return recover(store, pieces, store.snapshots()), changes


def _made_with(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a new model with their defaults, without those that may change."""
    defaults: dict[str, Any] = {"learner": "auto", "features": "grow", "encoder": None}
    defaults |= {field.name: field.default for field in dataclasses.fields(Options)}
    made = defaults | {"monitor": True} | given
    return {name: value for name, value in made.items() if name not in Options.may_change()}


def _made_like(model: Contents) -> dict[str, Any]:
    """Return the arguments that a model like this one is made with."""
    player = model.player
    made = {"learner": player.learner, "graph": player.graph, "features": player.features}
    return made | {"encoder": model.encoder, "monitor": not isinstance(player.watch, NoWatch)}


def read_model(
    place: str | PathLike[str] | Log, first: str, stop: int | None, pieces: tuple[type[Piece], ...]
) -> Contents:
    """Return a copy of the stored model, which stays as it is: see :meth:`gappletron.Online.from_journal`."""
    if first not in ("last", "first"):
        raise UserError(f"replay={first!r} is not known: choose 'last' or 'first'")
    log = read_store(place)
    found = log.snapshots()
    return recover(
        log, pieces, found[:1] if first == "first" else [at for at in found if stop is None or at <= stop], stop
    )


def recover(log: Log, pieces: tuple[type[Piece], ...], snapshots: list[int], stop: int | None = None) -> Contents:
    """Return the model of a journal: the newest of these snapshots that is whole, and what was logged since then."""
    problem = UserError(f"the journal in {log.name!r} has no snapshot left: restore the folder from a copy")
    for at in reversed(snapshots):
        try:
            model = log.read_snapshot(at, FORMAT, functools.partial(Contents.build, pieces))
            model.receipts.resume_session()
            changed = replay(model, log.events(at), stop)
        except UserError as error:  # then the one before it, and more of the log, lead to the same state
            problem = error
        except Damaged:
            problem = UserError(
                f"an event in the journal in {log.name!r} does not fit those before it: restore the folder from a copy"
            )
        else:
            if changed:
                warnings.warn(
                    f"{changed:,} decisions of the journal in {log.name!r} have other probabilities when they are "
                    "computed again, as after a change of versions or of the machine: those of the log were kept",
                    stacklevel=4,
                )
            model.receipts.start_session(model.player.rounds)
            return model
    raise problem


def replay(model: Contents, log: Iterable[tuple[int, events.Event]], stop: int | None = None) -> int:
    """Make again what was logged, to before event number `stop`; return how many decisions have other probabilities
    now, as after a change of versions. Events that do not fit raise :class:`Damaged`.
    """
    graphs: dict[int, FeedbackGraph] = {}
    changed = 0
    for place, event in log:
        if stop is not None and place >= stop:
            break
        try:
            changed += _replay_event(model, event, graphs)
        except UserError:
            raise
        except (KeyError, TypeError, ValueError, IndexError):  # a receipt or a graph that is not there, or worse
            raise Damaged from None
    return changed


def _replay_event(model: Contents, event: events.Event, graphs: dict[int, FeedbackGraph]) -> bool:
    """Make one change again; return whether a decision came out differently."""
    pending, own = model.receipts.pending, model.player.graph
    match event:
        case events.GraphMade(version, document):
            graph = graph_from(document)
            graphs[version] = own if graph == own else graph
        case events.Decided():
            return _replay_decision(model, event, graphs[event.graph])
        case events.Fed(serial, time, events.FORGOTTEN_LABEL):
            transitions.forget(model, pending[serial], time)
        case events.Fed(serial, time, label):
            transitions.learn(model, pending[serial], label, time)
        case events.Expired(serial, time):
            transitions.expire(model, pending[serial], time)
        case _:
            if isinstance(event, events.Taught):
                check_row(model.player, event.features)
            transitions.apply(model, event, graphs)
    return False


def _replay_decision(model: Contents, event: events.Decided, graph: FeedbackGraph) -> bool:
    """Play a round again. Its action and probabilities are those of the log: they were acknowledged."""
    chances, K, N = event.probabilities, graph.n_classes, graph.n_actions
    fits = chances.shape == (N,) and 0 <= event.action < N and 0 <= event.greedy < K  # compiled code will trust it
    fits = fits and 0.0 <= event.time < math.inf
    if event.round != model.player.rounds or not fits or not is_distribution(chances) or chances[event.action] <= 0.0:
        raise Damaged
    vector = check_row(model.player, event.features)
    followed = (event.action, chances) if event.followed else None
    record = transitions.decide(model, vector, graph, event.time, followed=followed).turn.record
    drawn = record[HEAD : HEAD + N]
    differs = int(record[ACTION]) != event.action or not np.array_equal(drawn, chances)
    if differs:
        record[ACTION], drawn[:] = event.action, chances
    return differs


def check_row(player: Player, features: events.Features, which: str = "this part of the log") -> Vector:
    """Return the row of an event, checked; a UserError where a hash stands for it."""
    if features.digest:
        raise UserError(
            f"the features of {which} were compacted, so it cannot be replayed: begin after it, from a later snapshot "
            "or round (--first)"
        )
    return player.check((features.indices, features.values))
