"""A store in memory: what any store must do, in few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from numpy.typing import NDArray

from gappletron import UserError
from gappletron.online.store import Group, Store
from gappletron.play import archive
from gappletron.play.archive import Rebuild

T = TypeVar("T")


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
        self._snapshots[at] = archive.to_bytes(kind, header, arrays)

    def read_snapshot(self, at: int, kind: str, rebuilt: Rebuild[T]) -> T:
        return archive.from_bytes(self._snapshots[at], kind, rebuilt)

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
