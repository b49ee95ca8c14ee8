"""Whether the files of a journal are still where they were: a file that is open can be written to after its removal."""

from __future__ import annotations

from typing import NamedTuple

from gappletron.online.folder import SETTINGS, FolderStore
from gappletron.online.store import Store

__all__ = ["Trouble", "lost"]


class Trouble(NamedTuple):
    """What is wrong with a journal, in one sentence, and whether it keeps anything from being stored.

    >>> Trouble("the last snapshot failed: look after the disk", stops_writes=False).stops_writes
    False
    """

    sentence: str
    stops_writes: bool


def lost(store: Store) -> str | None:
    """Why nothing that is written to this store can be found again, in one sentence; None where all is well.

    It takes some microseconds.

    >>> import shutil, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> store = FolderStore(folder)
    >>> lost(store) is None
    True
    >>> shutil.rmtree(folder)
    >>> lost(store).partition(": ")[2]
    'bring it back, or restore it from a copy and open it again'
    >>> store.close()
    """
    if not isinstance(store, FolderStore):
        return None
    try:
        if store.has_name and _is_in_place(store):
            return None
    except OSError as error:  # the disk is gone, or may not be looked at
        return (
            f"the journal in {store.name!r} cannot be looked at ({error.strerror or error}), so nothing more is "
            "stored: look after its disk"
        )
    return (
        f"the journal in {store.name!r} was removed or moved while it was open, so nothing more can be stored: bring "
        "it back, or restore it from a copy and open it again"
    )


def _is_in_place(store: FolderStore) -> bool:
    """Whether the folder is where it was, and not an empty one of the same name."""
    return (store.folder if store.settings() is None else store.folder / SETTINGS).exists()
