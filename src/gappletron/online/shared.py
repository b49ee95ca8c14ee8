"""Connections to a database that the models of one process share: a fleet of thousands needs no more than one model.

A model is stored as it always is; only its :class:`Database` is one of :class:`Shared`, which passes every statement on
to one of a few connections. In PostgreSQL :class:`~gappletron.online.ownership.Ownership` elects the writers.
"""

import contextlib
import itertools
from collections.abc import Iterator
from os import PathLike
from typing import Any

from gappletron.online.database import URLS, Database, Row, Source, open_database
from gappletron.online.tables import Table

# So many models can write to PostgreSQL at the same moment, each with a connection; another of each reads.
LANES = 4


class Shared(Source):
    """The connections of this process to a database.

    :param place: an SQLite file, which is locked as long as they are open, or the URL of a PostgreSQL database.
    :param durability: ``"disk"`` or ``"os"``.
    :param address: where other processes send the requests for models that this one has open (PostgreSQL).

    >>> import tempfile
    >>> from gappletron.online.store import Store
    >>> with tempfile.TemporaryDirectory() as folder, Shared(f"{folder}/models.sqlite", "os") as shared:
    ...     one, two = Store(shared, "one", "os"), Store(shared, "two", "os")
    ...     one.close()
    ...     one.database.problem is None, two.database.problem is None
    (False, True)
    """

    def __init__(self, place: str, durability: str, address: str = "") -> None:
        is_server = place.startswith(URLS)
        self._lanes = [open_database(place, durability) for _ in range(LANES if is_server else 1)]
        self._next = itertools.cycle(self._lanes)
        self.ownership = None
        if is_server:
            from gappletron.online.ownership import Ownership

            try:
                self.ownership = Ownership(place, address)
            except BaseException:
                self.close()
                raise

    def __str__(self) -> str:
        return self._lanes[0].name

    def open(self, durability: str | None) -> Database:
        """Return the database for one model; its connections stay when it is closed."""
        return _Member(self, next(self._next))

    @property
    def problem(self) -> str | None:
        """Why nothing can be stored at present, in one sentence; None where all is well."""
        if self.ownership is not None and self.ownership.problem is not None:
            return self.ownership.problem
        return next(filter(None, (lane.find_loss() for lane in self._lanes)), None)

    def close(self) -> None:
        """Close the connections. The models must have been closed before."""
        if self.ownership is not None:
            self.ownership.close()
        for lane in self._lanes:
            lane.close()

    def __enter__(self) -> "Shared":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Member(Database):
    """The database for one model: what it does is done by a connection that others use as well."""

    def __init__(self, shared: Shared, lane: Database) -> None:
        super().__init__()
        self._shared, self._lane = shared, lane
        self._model: int | None = None
        self.name, self.types, self.lock = lane.name, lane.types, lane.lock

    def read(self, sql: str, *values: Any) -> list[Row]:
        return self._lane.read(sql, *values)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.check_open()
        with self._lane.transaction():
            yield

    def run(self, sql: str, *values: Any) -> list[Row]:
        return self._lane.run(sql, *values)

    def run_many(self, sql: str, rows: list[Row]) -> None:
        self._lane.run_many(sql, rows)

    def insert(self, table: Table, rows: list[Row]) -> None:
        self._lane.insert(table, rows)

    def elect(self, model: int) -> None:
        if self._shared.ownership is not None:
            self._shared.ownership.take(model, self)
            self._model = model

    def is_led(self, model: int) -> bool:
        return self._lane.is_led(model)

    def acknowledge(self, model: int, number: int) -> None:
        self._lane.acknowledge(model, number)

    def find_loss(self) -> str | None:
        return self.problem or self._lane.find_loss()

    def find_damage(self) -> str | None:
        return self._lane.find_damage()

    def backup(self, path: str | PathLike[str]) -> None:
        self._lane.backup(path)

    def checkpoint(self) -> None:
        self._lane.checkpoint()

    def vacuum(self) -> None:
        self._lane.vacuum()

    @property
    def nbytes(self) -> int:
        return self._lane.nbytes

    def close(self) -> None:
        self.problem = self.problem or f"the model in the store {self.name!r} is closed: open it again"
        model, self._model = self._model, None
        if model is not None and self._shared.ownership is not None:
            self._shared.ownership.give_up(model)
