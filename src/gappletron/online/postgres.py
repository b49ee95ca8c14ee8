"""A PostgreSQL database, through psycopg.

An advisory lock of the session elects the writer of a model, and the key of `commits` protects: a writer that was cut
off or stopped, and goes on when another has taken over, finds its next number taken. A connection that is lost is made
again by the next transaction, which first looks whether the last one was committed.

A process that is stopped, or whose network is cut, keeps its session, and with it the lock. So a writer sends a
statement twice a second, and whoever opens the model ends a session that has the lock and was silent for longer. Only
the server's clock is read for that, and nothing but the time of a takeover depends on it.
"""

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator
from os import PathLike
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from gappletron.base.errors import Unavailable, UserError
from gappletron.base.signals import held_back
from gappletron.online.database import Conflict, Database, Missing, Row
from gappletron.online.tables import TABLES, Table

# From so many rows on they are copied.
MANY = 50
LOCK = "hashtext(current_schema() || '.models'), ?"
# Seconds after which a server that does not answer counts as gone, in place of the hours that systems wait.
KEEPALIVE = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 3000,  # milliseconds
    "connect_timeout": 10,
}
# Seconds between two signs of life of a writer, and after which one that is silent may be replaced.
BEAT, SILENCE = 0.5, 2.5
# The sessions of this database by what they have locked: a model; which of them wait for their client for too long; and
# which are in the middle of a transaction of a writer.
SESSIONS = """pg_locks JOIN pg_stat_activity USING (pid)
WHERE pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
HOLDERS = f"""{SESSIONS} AND locktype = 'advisory' AND granted AND objsubid = 2
AND classid::bigint = hashtext(current_schema() || '.models')::bigint & 4294967295 AND objid::bigint = ?"""
SILENT = f"""(state <> 'active' OR wait_event_type = 'Client')
AND state_change < clock_timestamp() - interval '{SILENCE} seconds'"""
WRITERS = f"{SESSIONS} AND locktype = 'relation' AND relation = to_regclass('commits') AND mode = 'RowExclusiveLock'"
CREATING = 0x67617001
# By the first letters of SQLSTATE: no room on the disk, or no memory; a lock that is not to be had.
TROUBLES = {
    "53": ("write to", "free some space on the server"),
    "55": ("write to", "end the session that keeps its rows, or wait until it is ended"),
}
NAMES = f"ARRAY[{', '.join(repr(table.name) for table in TABLES)}]"


class Postgres(Database):
    """A PostgreSQL database.

    :param url: what psycopg connects to. The tables are in the first schema of its search path.
    :param durability: ``"disk"`` or ``"os"``, to write to it; None to read it while another process may write.
    """

    types = {"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}  # noqa: RUF012

    def __init__(self, url: str, durability: str | None) -> None:
        super().__init__()
        self._url, self._durability = url, durability
        self._model: int | None = None
        self._session: Row | None = None
        # When the server last answered the writer.
        self._heard = 0.0
        self._closing = threading.Event()
        self._reading = threading.Lock()
        self._reader: psycopg.Connection | None = None
        self._writer: psycopg.Connection | None = None
        self.name = name_url(url)
        try:
            with self._explaining():
                self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """Make the tables where there are none, or look whether they are of this version."""
        if self.read("SELECT to_regclass('about') IS NULL") == [(True,)]:
            if self._durability is None:
                raise Missing(f"there is no store in {self.name!r}: name a database in which Online.open made one")
            with self.transaction():
                self.run("SELECT pg_advisory_xact_lock(?)", CREATING)  # one of those that come at once makes them
                if self.run("SELECT to_regclass('about') IS NULL") == [(True,)]:
                    self.make_tables()
        self.check_format()

    def _connect(self) -> psycopg.Connection:
        known = conninfo_to_dict(self._url)
        options: dict[str, Any] = {name: value for name, value in KEEPALIVE.items() if name not in known}
        return psycopg.connect(self._url, autocommit=True, **options)

    def read(self, sql: str, *values: Any) -> list[Row]:
        with self._explaining(), self._reading:
            self._reader = reader = self._keep(self._reader)
            return reader.execute(_mark(sql), values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        # What interrupts psycopg in the middle of a statement may be lost in the errors that follow.
        with held_back(), self.lock, self._explaining():
            writer = self._find_writer()
            try:
                with writer.transaction():
                    yield
            except psycopg.errors.LockNotAvailable:
                # A process of a fleet that was stopped, or cut off, has the next number of its model, and ends nothing.
                writer.execute(
                    f"SELECT pg_terminate_backend(pid, 5000) FROM {WRITERS} AND {SILENT} AND pid <> pg_backend_pid()"
                )
                raise
            if writer.closed:  # lost inside of the block: then psycopg commits nothing, and does not tell
                raise psycopg.OperationalError("the connection is lost")
            self._heard = time.monotonic()

    def _find_writer(self) -> psycopg.Connection:
        """Return the connection that writes, a new one where it was lost."""
        before = self._writer
        self._writer = writer = self._keep(before)
        if writer is not before:
            try:
                writer.execute(f"SET lock_timeout = {1000 * SILENCE:.0f}")
                if self._durability == "os":
                    writer.execute("SET synchronous_commit = off")
                if self._model is not None:
                    self._take_lock(self._model)
            except BaseException:  # else it would be used without the lock
                writer.close()
                raise
        return writer

    def _keep(self, connection: psycopg.Connection | None) -> psycopg.Connection:
        """Return a connection, or a new one where it is lost, or a signal handler has raised while it was used."""
        self.check_open()
        if connection is not None:
            if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                return connection
            connection.close()
        return self._connect()

    def run(self, sql: str, *values: Any) -> list[Row]:
        assert self._writer is not None
        cursor = self._writer.execute(_mark(sql), values)
        return [] if cursor.description is None else cursor.fetchall()

    def run_many(self, sql: str, rows: list[Row]) -> None:
        assert self._writer is not None
        with self._writer.cursor() as cursor:
            cursor.executemany(_mark(sql), rows)

    def insert(self, table: Table, rows: list[Row]) -> None:
        if len(rows) < MANY:
            super().insert(table, rows)
            return
        assert self._writer is not None
        with self._writer.cursor() as cursor, cursor.copy(f"COPY {table.name} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def elect(self, model: int) -> None:
        with self.lock, self._explaining():
            self._find_writer()
            self._take_lock(model)
            self._model, self._heard = model, time.monotonic()
        threading.Thread(target=_beat, args=(weakref.ref(self), self._closing), name="gappletron", daemon=True).start()

    def is_led(self, model: int) -> bool:
        ((number,),) = self.read(f"SELECT count(*) FROM {HOLDERS} AND ({SILENT}) IS NOT TRUE", model)
        return bool(number)

    def confirm(self) -> None:
        with self.lock, self._explaining():
            self._find_writer().execute("SELECT 1")
            self._heard = time.monotonic()

    def find_loss(self) -> str | None:
        silence = time.monotonic() - self._heard
        if self.problem is None and self._model is not None and silence > 2 * SILENCE:
            return f"the store {self.name!r} has not answered for {silence:.0f} seconds: look after the server"
        return self.problem

    def _take_lock(self, model: int) -> None:
        """Take the lock of a model for this session. The one that was lost may have it still, and is ended first, and
        so is one that is silent.
        """
        self.run(
            f"SELECT pg_terminate_backend(pid, 5000) FROM {HOLDERS} AND {SILENT} AND pid <> pg_backend_pid()", model
        )
        if self._session is not None:
            ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = ? AND backend_start = ? "
            self.run(f"{ended} AND pid <> pg_backend_pid()", *self._session)
        if self.run(f"SELECT pg_try_advisory_lock({LOCK})", model) != [(True,)]:
            if self._model is not None:
                raise self.fail("was opened by another process, which has taken over: open it again")
            raise UserError(
                f"the store {self.name!r} is open in another process (or twice in this one): close it there"
            )
        self._session = self.run("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")[0]

    def find_damage(self) -> str | None:
        return None  # its pages have checksums where it was set up with them

    def backup(self, path: str | PathLike[str]) -> None:
        raise UserError("a PostgreSQL database is backed up by its own tools: pg_dump, or pg_basebackup")

    def vacuum(self) -> None:
        with self.lock, self._explaining():
            for table in TABLES:
                self._find_writer().execute(f"VACUUM FULL {table.name}")

    @property
    def nbytes(self) -> int:
        return int(self.read(f"SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest({NAMES}) AS name")[0][0])

    def close(self) -> None:
        self._closing.set()
        with self.lock, self._reading:
            self.problem = self.problem or f"the store {self.name!r} is closed: open it again"
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raise one sentence in place of an error of psycopg."""
        try:
            yield
        except psycopg.errors.UniqueViolation as error:
            raise Conflict from error
        except psycopg.Error as error:
            is_lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            verb, cure = TROUBLES.get(
                (error.sqlstate or "")[:2], ("reach" if is_lost else "use", "look after the server")
            )
            raise Unavailable(
                f"cannot {verb} the store {self.name!r} ({' '.join(str(error).split())}): nothing that was "
                f"acknowledged is lost; {cure}, then try again"
            ) from None


def _beat(reference: "weakref.ref[Postgres]", closing: threading.Event) -> None:
    """Show the server again and again that the writer is alive, until it is closed or was replaced."""
    while not closing.wait(BEAT):
        database = reference()
        if database is None or database.problem is not None:
            return
        with contextlib.suppress(UserError):
            try:
                database.confirm()
            except Unavailable:  # the connection was lost: a new one may be had at once
                database.confirm()
        del database  # so that it may be forgotten meanwhile


def _mark(sql: str) -> str:
    """Return a statement with the placeholders of psycopg."""
    return sql.replace("?", "%s")


def name_url(url: str) -> str:
    """Return a URL without what is secret in it.

    >>> name_url("postgresql://me:secret@db.example/mail")
    'postgresql://db.example/mail'
    """
    try:
        known = conninfo_to_dict(url)
    except psycopg.Error:
        raise UserError("this is not the URL of a PostgreSQL database: write postgresql://host/database") from None
    return f"postgresql://{known.get('host', '')}/{known.get('dbname', '')}"
