"""Where a journal is kept: what any store must do.

A store holds groups of events, numbered from 0, and snapshots of the state, named by the number of events before them.
:class:`~gappletron.online.folder_store.FolderStore` keeps them in files. Everything else knows only this interface: to
add a store, write a class, and let :func:`open_store` and :func:`read_store` find it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any, NamedTuple, TypeVar

from numpy.typing import NDArray

from gappletron.base.errors import Damaged, UserError
from gappletron.online.events import Event, unpack_events
from gappletron.play.archive import Rebuild

T = TypeVar("T")

# What helps against damage in the middle of a log.
CURE = "restore the folder from a copy, or see gappletron journal --help (--repair)"


class Group(NamedTuple):
    """Events that were written together: the number of the first, how many there are, and their bytes."""

    first: int
    size: int
    events: bytes


class Trouble(NamedTuple):
    """What is wrong with a journal, in one sentence, and whether it keeps anything from being stored.

    >>> Trouble("the last snapshot failed: look after the disk", stops_writes=False).stops_writes
    False
    """

    sentence: str
    stops_writes: bool


class Log(ABC):
    """Groups of events and snapshots, to be read. Another process may be writing to them."""

    name: str
    """Where it is, for messages."""

    @abstractmethod
    def groups(self, start: int = 0) -> Iterator[Group]:
        """Return the groups that hold events from number `start` on, in order; the first may begin before it."""

    @abstractmethod
    def snapshots(self) -> list[int]:
        """Return the numbers of events before each snapshot, ascending."""

    @abstractmethod
    def read_snapshot(self, at: int, kind: str, rebuilt: Rebuild[T]) -> T:
        """Return what `rebuilt` makes of a snapshot; a UserError where it is damaged."""

    @abstractmethod
    def settings(self) -> dict[str, Any] | None:
        """Return what :meth:`Store.put_settings` stored; None in a new store."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The size of everything stored."""

    def events(self, start: int = 0) -> Iterator[tuple[int, Event]]:
        """Return the events from number `start` on with their numbers; a UserError where one cannot be read."""
        for group in self.groups(start):
            try:
                for place, event in enumerate(unpack_events(group.events), group.first):
                    if place >= start:
                        yield place, event
            except Damaged:
                raise UserError(f"an event in the journal in {self.name!r} is damaged: {CURE}") from None


class Store(Log):
    """Groups of events and snapshots, to be written and read.

    One process writes, one call at a time. Every method that fails raises a UserError and leaves what was stored before
    as it was.
    """

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of events stored: the number of the next one."""

    @abstractmethod
    def append(self, group: Group, *, durable: bool) -> None:
        """Store a group as a whole or not at all; `group.first` must be :attr:`count`.

        :param durable: when the call returns, the group survives a power failure; else it survives the end of the
            process.
        """

    def find_loss(self) -> str | None:
        """Return why nothing that is written can be found again, in one sentence; None where all is well."""
        return None

    @abstractmethod
    def synchronise(self) -> None:
        """When the call returns, all that was appended survives a power failure."""

    @abstractmethod
    def put_snapshot(self, at: int, kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Store a snapshot of a model (:mod:`gappletron.play.archive`) as a whole or not at all."""

    @abstractmethod
    def drop_snapshot(self, at: int) -> None:
        """Remove a snapshot."""

    @abstractmethod
    def compact(self, stop: int, rewritten: Callable[[bytes], bytes]) -> None:
        """Replace the bytes of old groups, all of whose events have numbers below `stop`, by `rewritten` of them; a
        store may leave some of them for later.
        """

    @abstractmethod
    def put_settings(self, settings: dict[str, Any]) -> None:
        """Store how the model was made, ready for JSON. It is the last step of making a journal."""

    @abstractmethod
    def close(self) -> None:
        """Let another process open it."""


def open_store(place: str | PathLike[str] | Store) -> Store:
    """Return the store at a place, to be written by this process alone; a store is itself."""
    from gappletron.online.folder_store import FolderStore

    return place if isinstance(place, Store) else FolderStore(place)


def read_store(place: str | PathLike[str] | Log) -> Log:
    """Return what is stored at a place, to be read; another process may be writing to it."""
    from gappletron.online.folder_store import FolderLog

    return place if isinstance(place, Log) else FolderLog(place)
