"""From a store to the model whose journal it holds, or to a new one: what :meth:`gappletron.Online.open` does first."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import Any

from gappletron.base.errors import Damaged, UserError
from gappletron.kernel.pieces import Piece
from gappletron.online.folder import FolderReader
from gappletron.online.parts import FORMAT, Parts
from gappletron.online.recovery import replay
from gappletron.online.settings import check_settings, settings_of
from gappletron.online.store import Store

__all__ = ["begin", "read", "resumed"]

WAITING = {"pending": "limit", "pending_bytes": "most_bytes", "pending_age": "age"}
"""Arguments that limit the waiting receipts, and the attributes that hold them."""
LIMITS = ("min_propensity", "budget")
"""Arguments that limit the exploration."""
CHANGEABLE = (*WAITING, *LIMITS)
"""Arguments that may change from one opening of a journal to the next."""


def begin(store: Store, parts: Parts, options: dict[str, Any]) -> None:
    """Let an empty store hold a new model, which was made with these arguments."""
    store.put_snapshot(0, FORMAT, *parts.snapshot())
    store.put_settings({"options": settings_of({name: options[name] for name in options if name not in CHANGEABLE})})


def resumed(
    store: Store, settings: dict[str, Any], given: dict[str, Any], pieces: tuple[type[Piece], ...]
) -> tuple[Parts, dict[str, Any]]:
    """The model of a store, and the limits on its exploration that are to change; the arguments must be those that it
    was made with, but for those that may change.
    """
    changes = {name: given[name] for name in CHANGEABLE if name in given}
    check_settings(
        store.name, settings.get("options", {}), {name: given[name] for name in given if name not in changes}
    )
    parts = recovered(store, pieces, store.snapshots())
    waiting = parts.waiting
    waiting.set_limits(*(changes.get(name, getattr(waiting, kept)) for name, kept in WAITING.items()))
    return parts, {name: changes[name] for name in LIMITS if name in changes}


def read(folder: str | PathLike[str], first: str, stop: int | None, pieces: tuple[type[Piece], ...]) -> Parts:
    """A copy of the model in a folder, which stays as it is: see :meth:`gappletron.Online.from_journal`."""
    if first not in ("last", "first"):
        raise UserError(f"replay={first!r} is not known: choose 'last' or 'first'")
    reader = FolderReader(folder)
    found = reader.snapshots()
    chosen = found[:1] if first == "first" else [at for at in found if stop is None or at <= stop]
    return recovered(reader, pieces, chosen, stop)


def recovered(
    store: Store | FolderReader, pieces: tuple[type[Piece], ...], found: list[int], stop: int | None = None
) -> Parts:
    """The model of a journal: the newest of these snapshots that is whole, and what was logged since then."""
    problem = UserError(f"the journal in {store.name!r} has no snapshot left: restore the folder from a copy")
    for at in reversed(found):
        try:
            parts = store.read_snapshot(at, FORMAT, lambda header, arrays: Parts.restored(header, arrays, pieces))
            parts.waiting.resume_session()
            _replay(parts, store, at, stop)
        except UserError as error:  # then the one before it, and more of the log, lead to the same state
            problem = error
            continue
        parts.waiting.start_session(parts.player.rounds)
        return parts
    raise problem


def _replay(parts: Parts, store: Store | FolderReader, start: int, stop: int | None) -> None:
    """Do again what was logged from event number `start` on, to before `stop`."""
    try:
        changed = replay(parts, store.groups(start), start, stop)
    except Damaged:
        raise UserError(
            f"an event in the journal in {store.name!r} does not fit those before it: restore the folder from a copy"
        ) from None
    if changed:
        warnings.warn(
            f"{changed:,} decisions of the journal in {store.name!r} have other probabilities when they are computed "
            "again, as after a change of versions or of the machine: those of the log were kept",
            stacklevel=5,
        )
