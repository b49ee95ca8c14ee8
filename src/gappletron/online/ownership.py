"""Which process of a fleet has which model of PostgreSQL open, and where it can be reached.

Every process has one session that holds the advisory locks of all models that it has open: those that a process with
one model takes too. A process that dies loses its session, and with it the locks, so any other can take its models at
once. The tables `servers` and `owners` only tell where a model is to be found; that two processes never both write is
the key of `commits`.

A process that is stopped, or cut off, keeps its session. So each sends a statement twice a second, and whoever opens a
model ends a session that has its lock and was silent for longer, as :mod:`gappletron.online.postgres` says.
"""

import contextlib
import logging
import secrets
import threading
import time

from gappletron.base.errors import Elsewhere, Unavailable, UserError
from gappletron.online.database import Database
from gappletron.online.postgres import BEAT, CREATING, HOLDERS, LOCK, SILENT, Postgres
from gappletron.online.tables import Table

# Seconds after which what is left of a dead process is removed from the tables.
FORGOTTEN = 3600.0

SERVERS = Table("servers", "server TEXT, address TEXT, pid INTEGER, started REAL, seen REAL", "server")
OWNERS = Table("owners", "model INTEGER, server TEXT", "model")

NOW = "extract(epoch FROM clock_timestamp())::float8"
SESSION = "pid, extract(epoch FROM backend_start)::float8"
# How often, and after which pause, a lock is tried of which nobody says to have it.
TRIES, PAUSE = 5, 0.02
# How long to wait until a session is gone that was told to end, in milliseconds.
PATIENCE = 3000

log = logging.getLogger("gappletron")


class Ownership:
    """The models that this process has open, among those of other processes.

    :param url: of the database, in which there is a store.
    :param address: where other processes send the requests for models that this one has open.
    """

    def __init__(self, url: str, address: str) -> None:
        self.address = address
        self._server = secrets.token_hex(8)
        self._session: tuple[int, float] | None = None
        self._models: dict[int, Database] = {}
        self._database = Postgres(url, "os")
        self._stop = threading.Event()
        # Why the others cannot be told that this process lives; None where all is well.
        self.problem: str | None = None
        try:
            self._make_tables()
            self._note_life()
        except BaseException:
            self._database.close()
            raise
        self._thread = threading.Thread(target=self._live, name="gappletron ownership", daemon=True)
        self._thread.start()

    def _make_tables(self) -> None:
        with self._database.transaction():
            self._database.run("SELECT pg_advisory_xact_lock(?)", CREATING)  # one of those that come at once
            for table in (SERVERS, OWNERS):
                if self._database.run(f"SELECT to_regclass('{table.name}') IS NULL") == [(True,)]:
                    self._database.run(table.create(self._database.types))

    # ---------------------------------------------------------------------------------------------------------- living

    def _live(self) -> None:
        """Note again and again that this process lives, until it closes."""
        while not self._stop.wait(BEAT):
            try:
                self._note_life()
                self.problem = None
            except Exception as error:  # it goes on trying: the server may be started again
                if self.problem is None:
                    log.warning("%s", error)
                self.problem = str(error)

    def _note_life(self) -> None:
        database = self._database
        with database.lock:
            self._keep_session()
        with database.transaction():
            database.run(f"UPDATE servers SET seen = {NOW} WHERE server = ?", self._server)

    def _keep_session(self) -> None:
        """Take all locks again where the connection was lost; models that others have taken since then are lost."""
        run = self._database.run
        with self._database.transaction():
            (session,) = run(f"SELECT {SESSION} FROM pg_stat_activity WHERE pid = pg_backend_pid()")
            if session == self._session:
                return
            run("SELECT pg_advisory_unlock_all()")  # of an attempt that failed
            if self._session is not None:
                self._end_session(*self._session)  # the lost one may have the locks still
            run(f"DELETE FROM servers WHERE seen < {NOW} - ?", FORGOTTEN)
            run("DELETE FROM owners WHERE server NOT IN (SELECT server FROM servers)")
            run(f"INSERT INTO servers VALUES (?, ?, ?, ?, {NOW}) {UPSERT_SERVER}", self._server, self.address, *session)
            lock = f"pg_try_advisory_lock({LOCK.replace('?', 'model::int')})"
            for model, is_taken in run(f"SELECT model, {lock} FROM unnest(?::bigint[]) AS model", list(self._models)):
                if is_taken:
                    run(OWN, model, self._server)
                else:
                    self._models.pop(model).fail("was opened by another process, which has taken over: open it again")
        self._session = session

    def _end_session(self, pid: int, started: float) -> None:
        """End a session, if it is still there, and wait until its locks are free."""
        ended = f"SELECT pg_terminate_backend(pid, {PATIENCE}) FROM (SELECT {SESSION} FROM pg_stat_activity) AS found"
        self._database.run(f"{ended} (pid, started) WHERE pid = ? AND started = ?", pid, started)

    # ---------------------------------------------------------------------------------------------------------- models

    def take(self, model: int, database: Database) -> None:
        """Become the owner of a model; :class:`Elsewhere` or another :class:`Unavailable` where another process is.

        :param database: is closed if another process takes over.
        """
        with self._database.lock:
            if model in self._models:
                raise UserError(f"the model is open twice in this process, in {self._database.name!r}: close it first")
            self._keep_session()
            try:
                with self._database.transaction():
                    self._take_lock(model)
                    self._database.run(OWN, model, self._server)
            except Elsewhere:
                raise
            except UserError:
                self._unlock(model)
                raise
            self._models[model] = database

    def _take_lock(self, model: int) -> None:
        """Take the lock of a model, also from a process that is silent."""
        run = self._database.run
        for _ in range(TRIES):
            if run(f"SELECT pg_try_advisory_lock({LOCK})", model) == [(True,)]:
                return
            if run(f"SELECT pg_terminate_backend(pid, {PATIENCE}) FROM {HOLDERS} AND {SILENT}", model):
                log.warning("a process with models in %r is silent: its models are taken over", self._database.name)
                continue
            found = run("SELECT address FROM owners JOIN servers USING (server) WHERE model = ?", model)
            if not found:  # or it is about to say so
                time.sleep(PAUSE)
                continue
            ((address,),) = found
            if address == self.address:
                raise Unavailable(
                    f"the model is open in another process, which has the address {address!r} as well: wait until it "
                    "has ended, or give each process its own --address"
                )
            raise Elsewhere(f"the model is open in another process: ask {address}", address)
        raise Unavailable(
            f"the model is open in a process that does not belong to this fleet, in {self._database.name!r}: close it "
            "there"
        )

    def give_up(self, model: int) -> None:
        """Let other processes open a model; where the database cannot be reached, they can already."""
        with self._database.lock:
            if self._models.pop(model, None) is not None:
                self._unlock(model)

    def _unlock(self, model: int) -> None:
        with contextlib.suppress(UserError), self._database.transaction():
            self._database.run(f"SELECT pg_advisory_unlock({LOCK})", model)
            self._database.run("DELETE FROM owners WHERE model = ? AND server = ?", model, self._server)

    def close(self) -> None:
        """Say that this process has ended, and end its session."""
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(UserError), self._database.transaction():
            self._database.run("DELETE FROM owners WHERE server = ?", self._server)
            self._database.run("DELETE FROM servers WHERE server = ?", self._server)
        self._database.close()


OWN = "INSERT INTO owners VALUES (?, ?) ON CONFLICT (model) DO UPDATE SET server = excluded.server"
UPSERT_SERVER = (
    "ON CONFLICT (server) DO UPDATE SET address = excluded.address, pid = excluded.pid, started = excluded.started, "
    "seen = excluded.seen"
)
