"""Where a journal is kept: what any store must do, and one in memory.

A store holds groups of events, numbered from 0, and snapshots of the state, named by the number of events before them.
:class:`~gappletron.online.folder.FolderStore` keeps them in files. A database can stand behind the same methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from numpy.typing import NDArray

from gappletron.base.errors import Unavailable, UserError
from gappletron.play import saved
from gappletron.play.saved import Rebuild

__all__ = ["Group", "MemoryStore", "Store"]

T = TypeVar("T")


class Group(NamedTuple):
    """Events that were written together: the number of the first, how many there are, and their bytes."""

    first: int
    size: int
    events: bytes


class Store(ABC):
    """Groups of events and snapshots.

    One process writes, one call at a time. Every method that fails raises a UserError and leaves what was stored before
    as it was.
    """

    name: str
    """Where it is, for messages."""
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
        """The error for events that belong together and do not fit into one group."""
        return Unavailable(
            f"one call or one hold() block has logged more than the {self.group_limit:,} bytes that a group of the "
            f"journal in {self.name!r} can hold, so nothing of it was stored: open the folder again, and give fewer "
            "rows at once"
        )

    @abstractmethod
    def synchronise(self) -> None:
        """When the call returns, all that was appended survives a power failure."""

    @abstractmethod
    def groups(self, start: int = 0) -> Iterator[Group]:
        """The groups that hold events from number `start` on, in order; the first may begin before it."""

    @abstractmethod
    def snapshots(self) -> list[int]:
        """The numbers of events before each snapshot, ascending."""

    @abstractmethod
    def put_snapshot(self, at: int, kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Store a snapshot of a model (:mod:`gappletron.play.saved`) as a whole or not at all."""

    @abstractmethod
    def read_snapshot(self, at: int, kind: str, rebuilt: Rebuild[T]) -> T:
        """What `rebuilt` makes of a snapshot; a UserError where it is damaged."""

    @abstractmethod
    def drop_snapshot(self, at: int) -> None:
        """Remove a snapshot."""

    @abstractmethod
    def compact(self, stop: int, rewritten: Callable[[bytes], bytes]) -> None:
        """Replace the bytes of old groups, all of whose events have numbers below `stop`, by `rewritten` of them; a
        store may leave some of them for later.
        """

    @abstractmethod
    def settings(self) -> dict[str, Any] | None:
        """What :meth:`put_settings` stored; None in a new store."""

    @abstractmethod
    def put_settings(self, settings: dict[str, Any]) -> None:
        """Store how the model was made, ready for JSON. It is the last step of making a journal."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The size of everything stored."""

    @abstractmethod
    def close(self) -> None:
        """Let another process open it; in a copy of the process (fork), leave it to the other one."""


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
