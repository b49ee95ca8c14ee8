"""A database that holds stores: SQLite in a file, or PostgreSQL. Both understand the same few statements.

:class:`~gappletron.online.sqlite.Sqlite` and :class:`~gappletron.online.postgres.Postgres` differ in how they connect,
in what may go wrong, and in how one writer is chosen. Placeholders are question marks.
"""

import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any

from gappletron.base.errors import Unavailable, UserError
from gappletron.online.tables import ABOUT, FORMAT, INDEXES, TABLES, VIEW, Table

Row = tuple[Any, ...]
URLS = ("postgresql://", "postgres://")
# The name of a model where none is given.
NAME = "model"


class Conflict(Exception):
    """A row with this key is there already."""


class Missing(UserError):
    """There is no store, or no model of this name."""


class Database(ABC):
    """A database that one process writes to, or that is only read.

    Every method that fails raises a UserError and leaves what was stored before as it was. One that may succeed later
    without any change is :class:`Unavailable`; after one that is final, `problem` says why nothing can be written.
    """

    name: str
    """Where it is, for messages."""
    types: dict[str, str]
    """The names of types that differ from those of SQLite."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.lock = threading.RLock()

    @abstractmethod
    def read(self, sql: str, *values: Any) -> list[Row]:
        """Return the rows of a statement about what is committed; it does not wait for a transaction."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commit at the end of the block what :meth:`run` and :meth:`insert` do inside, or else nothing of it."""

    @abstractmethod
    def run(self, sql: str, *values: Any) -> list[Row]:
        """Execute a statement inside a transaction, and return its rows."""

    @abstractmethod
    def run_many(self, sql: str, rows: list[Row]) -> None:
        """Execute a statement inside a transaction once for each row of values, without waiting for each."""

    def insert(self, table: Table, rows: list[Row]) -> None:
        """Insert rows inside a transaction; :class:`Conflict` where a key is taken."""
        self.run_many(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    @abstractmethod
    def elect(self, model: int) -> None:
        """Become the writer of a model; a UserError where another process is."""

    def is_led(self, model: int) -> bool:
        """Return whether a process that shows signs of life is the writer of a model."""
        raise UserError(f"{self.name!r} is a file, and only PostgreSQL tells whether a writer is alive: use a database")

    def confirm(self) -> None:
        """Raise an :class:`Unavailable` where this process is not the writer of its model any more."""
        self.check_open()

    def acknowledge(self, model: int, number: int) -> None:  # noqa: B027
        """Note, where no database can lose it, that so many transactions of a model were stored."""

    def find_loss(self) -> str | None:
        """Return why nothing that is written can be found again, in one sentence; None where all is well."""
        return self.problem

    @abstractmethod
    def find_damage(self) -> str | None:
        """Return what the database's own check of its pages finds, if it has one."""

    @abstractmethod
    def backup(self, path: str | PathLike[str]) -> None:
        """Copy all of it as it is at one moment to a file; another process may be writing to it."""

    def checkpoint(self) -> None:  # noqa: B027
        """Bring what was committed to where a copy of the main file has it, if there is a difference."""

    @abstractmethod
    def vacuum(self) -> None:
        """Give the room of what was removed back to the system."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The size of everything stored."""

    @abstractmethod
    def close(self) -> None:
        """Let another process write."""

    def fail(self, problem: str) -> Unavailable:
        """Refuse every transaction from now on, for this reason; return the error."""
        self.problem = self.problem or f"the store {self.name!r} {problem}"
        return Unavailable(self.problem)

    def check_open(self) -> None:
        """Raise the error for which nothing can be written any more, if there is one."""
        if self.problem is not None:
            raise Unavailable(self.problem)

    def make_tables(self) -> None:
        """Make the tables, inside a transaction."""
        for table in TABLES:
            self.run(table.create(self.types))
        for sql in (*INDEXES, VIEW):
            self.run(sql)
        self.insert(ABOUT, [("format", FORMAT)])

    def check_format(self) -> None:
        """Refuse tables that another version has made."""
        found = self.read("SELECT value FROM about WHERE name = 'format'")
        if found != [(FORMAT,)]:
            raise UserError(f"{self.name!r} was written by another gappletron: open it with that version")


class Source(ABC):
    """A place whose models share the connections of this process: see :mod:`gappletron.online.shared`."""

    @abstractmethod
    def open(self, durability: str | None) -> Database:
        """Return the database for one model, to be written if a durability is given, and else to be read."""


# Where models are stored: a file, a URL, or connections that are there already.
Place = str | PathLike[str] | Source


def name_place(place: Place) -> str:
    """Return where models are stored, for messages: a URL without what is secret in it.

    >>> name_place("mail.sqlite"), name_place("postgresql://me:secret@db.example/mail")
    ('mail.sqlite', 'postgresql://db.example/mail')
    """
    if isinstance(place, str) and place.startswith(URLS):
        from gappletron.online.postgres import name_url

        return name_url(place)
    return str(place)


def open_database(place: Place, durability: str | None = None) -> Database:
    """Return the database of a place, to be written if a durability is given, and else to be read."""
    if isinstance(place, Source):
        return place.open(durability)
    if isinstance(place, str) and place.startswith(URLS):
        try:
            from gappletron.online.postgres import Postgres
        except ImportError:
            raise UserError("PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from None
        return Postgres(place, durability)
    from gappletron.online.sqlite import Sqlite

    return Sqlite(place, durability)
