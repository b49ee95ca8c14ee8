"""Where a journal is kept: what any store must do, and one in memory.

A store holds groups of events, numbered from 0, and snapshots of the state, named by the number of events before them.
:class:`~gappletron.online.folder.FolderStore` keeps them in files. Everything else knows only this interface: to add a
store, write a class, and let :func:`open_store` and :func:`read_store` find it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any, NamedTuple, TypeVar

from numpy.typing import NDArray

from gappletron.base.errors import Unavailable, UserError
from gappletron.online.events import Event, unpack_events
from gappletron.play import saved
from gappletron.play.saved import Rebuild

T = TypeVar("T")


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
        """Return the events from number `start` on with their numbers; :class:`Damaged` where one cannot be read."""
        for group in self.groups(start):
            for place, event in enumerate(unpack_events(group.events), group.first):
                if place >= start:
                    yield place, event


class Store(Log):
    """Groups of events and snapshots, to be written and read.

    One process writes, one call at a time. Every method that fails raises a UserError and leaves what was stored before
    as it was.
    """

    group_limit: int = 2**63 - 1
    """The most bytes that the events of one group may have."""

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

    def too_large(self) -> Unavailable:
        """Return the error for events that belong together and do not fit into one group."""
        return Unavailable(
            f"one call or one hold() block has logged more than the {self.group_limit:,} bytes that a group of the "
            f"journal in {self.name!r} can hold, so nothing of it was stored: open the folder again, and give fewer "
            "rows at once"
        )

    def find_loss(self) -> str | None:
        """Return why nothing that is written can be found again, in one sentence; None where all is well."""
        return None

    @abstractmethod
    def synchronise(self) -> None:
        """When the call returns, all that was appended survives a power failure."""

    @abstractmethod
    def put_snapshot(self, at: int, kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Store a snapshot of a model (:mod:`gappletron.play.saved`) as a whole or not at all."""

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
    from gappletron.online.folder import FolderStore

    return place if isinstance(place, Store) else FolderStore(place)


def read_store(place: str | PathLike[str] | Log) -> Log:
    """Return what is stored at a place, to be read; another process may be writing to it."""
    from gappletron.online.folder import FolderLog

    return place if isinstance(place, Log) else FolderLog(place)


def repair_store(place: str | PathLike[str]) -> int:
    """Set aside what is damaged at a place, so that it can be opened; the number of events that it then leads to."""
    from gappletron.online.folder import repair

    return repair(place)


class MemoryStore(Store):
    """A store that ends with the process, for tests and experiments.

    >>> store = MemoryStore()
    >>> store.append(Group(0, 1, b"event"), durable=True)
    >>> store.count, [group.events for group in store.groups()]
    (1, [b'event'])
    """

    name = "memory"

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._snapshots: dict[int, bytes] = {}
        self._settings: dict[str, Any] | None = None

    @property
    def count(self) -> int:
        return self._groups[-1].first + self._groups[-1].size if self._groups else 0

    def append(self, group: Group, *, durable: bool) -> None:
        if group.first != self.count:
            raise UserError(f"the next event has the number {self.count}, not {group.first}: write them in order")
        self._groups.append(group)

    def synchronise(self) -> None:
        pass

    def groups(self, start: int = 0) -> Iterator[Group]:
        return (group for group in list(self._groups) if group.first + group.size > start)

    def snapshots(self) -> list[int]:
        return sorted(self._snapshots)

    def put_snapshot(self, at: int, kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._snapshots[at] = saved.to_bytes(kind, header, arrays)

    def read_snapshot(self, at: int, kind: str, rebuilt: Rebuild[T]) -> T:
        return saved.from_bytes(self._snapshots[at], kind, rebuilt)

    def drop_snapshot(self, at: int) -> None:
        del self._snapshots[at]

    def compact(self, stop: int, rewritten: Callable[[bytes], bytes]) -> None:
        for place, group in enumerate(self._groups):
            if group.first + group.size <= stop:
                self._groups[place] = group._replace(events=rewritten(group.events))

    def settings(self) -> dict[str, Any] | None:
        return self._settings

    def put_settings(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    @property
    def nbytes(self) -> int:
        return sum(len(group.events) for group in self._groups) + sum(map(len, self._snapshots.values()))

    def close(self) -> None:
        pass
