"""From a store to the model whose journal it holds, or to a new one: what :meth:`gappletron.Online.open` does."""

from __future__ import annotations

import dataclasses
import time
from os import PathLike
from pathlib import Path
from typing import Any

from gappletron.base.errors import UserError
from gappletron.kernel.pieces import Piece
from gappletron.online import events, transitions
from gappletron.online.access import Access
from gappletron.online.journal import Journal, Policy
from gappletron.online.replay import recover
from gappletron.online.saved import FORMAT, Contents
from gappletron.online.settings import check_settings, describe_settings, find_versions
from gappletron.online.store import Store, open_store
from gappletron.play.limits import Limits
from gappletron.play.options import Options
from gappletron.play.watch import NoWatch


def open_access(
    place: str | PathLike[str] | Store,
    given: dict[str, Any],
    start: Contents | None,
    policy: Policy,
    pieces: tuple[type[Piece], ...],
) -> Access:
    """Return access to the model at a place with its journal.

    :param given: the arguments of the model, by name; for a stored one they must be those that it was made with, but
        for the options that may change.
    :param start: a model to begin with, in place of a new one.
    """
    if not isinstance(place, Store) and "graph" not in given and start is None and not Path(place).exists():
        raise UserError(
            f"there is no model in {str(place)!r} yet, and a new one needs a graph: give one, for example "
            "graph=FeedbackGraph.filtering(['ham', 'spam'])"
        )
    store = open_store(place)
    try:
        settings = store.settings()
        changes: dict[str, Any] = {}
        if settings is None:
            contents = Contents.make(**({"monitor": True} | given)) if start is None else start
            store.put_snapshot(0, FORMAT, *contents.describe())
            made = describe_settings(_made_with(given) if start is None else _made_like(start))
            store.put_settings({"options": made})
        elif start is not None:
            raise UserError(f"{store.name!r} holds a model already: omit start, or use another folder")
        else:
            changes = {name: given.pop(name) for name in Options.may_change() if name in given}
            check_settings(store.name, settings["options"], given)
            contents = recover(store, pieces, store.snapshots())
        access = Access(contents)
        _attach(access, Journal(store, policy), changes)
    except BaseException:
        store.close()
        raise
    return access


def _attach(access: Access, journal: Journal, changes: dict[str, Any]) -> None:
    """Log from now on, with these options changed. The session is new, so its name is logged first."""
    contents = access.contents
    receipts, player = contents.receipts, contents.player
    names = ("pending", "pending_bytes", "pending_age")
    receipts.set_limits(*(changes.get(name, kept) for name, kept in zip(names, receipts.limits, strict=True)))
    opened = events.Opened(receipts.session.name, player.rounds, time.time(), find_versions(), receipts.limits)
    kept = player.limits
    limits = Limits(changes.get("min_propensity", kept.min_propensity), changes.get("budget", kept.budget))
    access.journal = journal
    with access.lock:
        journal.add_event(opened)
        transitions.expire_overdue(contents, time.time(), journal)  # the limits may have changed
        if limits != kept:
            access.change(events.Limited(limits.to_dict(), time.time()))
        access.publish()
    journal.commit()


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
