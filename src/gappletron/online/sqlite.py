"""A database in an SQLite file, in WAL mode: ``mail.sqlite``, and beside it, while it is open, four more files.

SQLite makes each transaction whole. It trusts the files, so this module looks after them:

- ``-lock`` is locked while a process has the file open to write. Where the system has no locks, the key of `commits`
  keeps a second writer out.
- ``-mark`` says how many transactions were acknowledged. SQLite takes a damaged or missing ``-wal`` for one that was
  never written; the mark tells the difference. It is written without waiting for the disk, so it may lag, never lead.
- Only checkpoints change the main file, and only transactions the ``-wal``. Files that differ from how they were left
  were changed, removed or replaced by somebody else.
- Each opening gives the main file a generation (``user_version``), which is 0 after `close` and in a backup. With the
  one in the mark it tells a ``-wal`` that belongs to another file.
"""

import contextlib
import math
import os
import secrets
import sqlite3
import struct
import threading
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from gappletron.base import files
from gappletron.base.errors import Unavailable, UserError
from gappletron.base.signals import held_back
from gappletron.online.database import Conflict, Database, Missing, Row
from gappletron.online.tables import INDEXES, TABLES, VIEW

# Bytes of the -wal from which on it is brought into the main file.
WAL_BYTES = 2**25
# Seconds that a transaction waits for one of another program, such as sqlite3 on the command line.
PATIENCE = 5.0
MARK = struct.Struct("<qqqqqI")
# Errors after which the same transaction may succeed; after others of the system nobody knows what is on the disk.
PASSING = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_NOMEM")
CURES = {"SQLITE_FULL": "free some space on the disk", "SQLITE_BUSY": "end what else has the file open"}
TABLE_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"
CHANGED = "was written to by another program while it was open: open it again"
RESTORE = "restore a backup, or go on with what is left: gappletron store accept"


class Identity(NamedTuple):
    """Which file stands under a name, and how it was left; without size and time where that is not known."""

    inode: int
    size: int | None = None
    time: int | None = None

    def fits(self, path: Path) -> bool:
        """Return whether the file of this name is still this one."""
        found = path.stat()
        left = (found.st_size, found.st_mtime_ns) if self.size is not None else (None, None)
        return self == (found.st_ino, *left)


def _side(path: Path, name: str) -> Path:
    """Return the file beside another."""
    return path.with_name(f"{path.name}-{name}")


def _identify(path: Path) -> Identity:
    found = path.stat()
    return Identity(found.st_ino, found.st_size, found.st_mtime_ns)


class Mark(NamedTuple):
    """What was acknowledged: so many transactions of a model, to the file of this generation (0: of any).

    `boot` is the start of the system that they survive, where they need not survive a power failure; else 0. `inode` is
    the number of the main file, which a copy does not have.
    """

    generation: int = 0
    model: int = 0
    number: int = 0
    boot: int = 0
    inode: int = 0

    @classmethod
    def read(cls, path: Path) -> "Mark | None":
        """Return what a file says; None where there is none, or where a power failure has left other bytes."""
        try:
            *numbers, checksum = MARK.unpack(path.read_bytes())
        except (FileNotFoundError, struct.error):
            return None
        return cls(*numbers) if _sum(numbers) == checksum else None


def _sum(numbers: Any) -> int:
    return crc32(repr(tuple(numbers)).encode())


class Sqlite(Database):
    """An SQLite file.

    :param durability: ``"disk"`` or ``"os"``, to write to it; None to read it while another process may write.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = Sqlite(f"{folder}/mail.sqlite", "os")
    ...     found = database.read("SELECT count(*) FROM acts")
    ...     database.close()
    >>> found
    [(0,)]
    """

    types: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, path: str | PathLike[str], durability: str | None) -> None:
        super().__init__()
        # Not the path as it was given: the process may go to another folder, and SQLite follows links.
        self.name, self.path = str(path), Path(path).resolve()
        sides = ("wal", "shm", "mark", "lock")
        self._wal_path, self._shm_path, self._mark_path, self._lock_path = (_side(self.path, side) for side in sides)
        self._reading, self._checkpointing = threading.Lock(), threading.Lock()
        self._writer: sqlite3.Connection | None = None
        # How our own last write left the files: looked at before each transaction, and after it.
        self._known: dict[Path, Identity] = {}
        self._checkpoint_at = math.inf  # until it is open
        self._lock_file: int | None = None
        with self._explaining():
            if durability is None:
                if not self.path.is_file():
                    raise Missing(f"there is no store in {self.name!r}: name a file that Online.open made")
                mark = Mark.read(self._mark_path)  # first: it may lag behind a process that is writing, never lead
                self._reader = self._connect("ro")
                try:
                    self._check_tables()
                    self._check_mark(mark)
                except BaseException:
                    self._reader.close()
                    raise
                self._known = {self.path: Identity(self.path.stat().st_ino)}
            else:
                self._open(durability)

    # ---------------------------------------------------------------------------------------------------------- opening

    def _open(self, durability: str) -> None:
        self._lock_file = self._take_lock()
        try:
            mark = Mark.read(self._mark_path)
            self._check_files(mark)
            self._rewrite_wal()
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, 0o600))
            self._writer = writer = self._connect("rw")
            if writer.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise UserError(f"{self.name!r} is on a file system without shared memory: use a local disk")
            writer.execute(f"PRAGMA synchronous = {'FULL' if durability == 'disk' else 'NORMAL'}")
            for setting in (
                "fullfsync = 1",
                "checkpoint_fullfsync = 1",
                "wal_autocheckpoint = 0",
                "cell_size_check = 1",
            ):
                writer.execute(f"PRAGMA {setting}")
            writer.execute("PRAGMA journal_size_limit = 0")  # so that the size of the -wal is what is in it
            self._reader, self._keeper = self._connect("ro"), self._connect("rw")
            tables = self.read(TABLE_NAMES)
            if not tables:
                with self.transaction():
                    self.make_tables()
            self._check_tables()
            self._check_mark(mark)
            self._begin_generation(mark, durability)
        except BaseException:
            self._let_go()
            raise

    def _take_lock(self) -> int | None:
        """Lock the file beside; None where the system has no locks."""
        while True:
            try:
                lock = files.lock_file(self._lock_path)
            except BlockingIOError:
                raise UserError(
                    f"the store {self.name!r} is open in another process (or twice in this one): close it there"
                ) from None
            with contextlib.suppress(FileNotFoundError):
                if lock is None or os.fstat(lock).st_ino == self._lock_path.stat().st_ino:
                    return lock
            assert lock is not None
            files.unlock_file(lock)  # the one that had it has just removed the file

    def _check_files(self, mark: Mark | None) -> None:
        """Refuse files that do not belong together, before SQLite makes one of them."""
        wal_size = self._wal_path.stat().st_size if self._wal_path.exists() else None
        if not self.path.exists():
            if wal_size or mark is not None:
                raise UserError(
                    f"the store {self.name!r} is gone, and files that belong to it are there: bring it back, or remove "
                    f"{str(self._wal_path)!r} and {str(self._mark_path)!r} to begin anew"
                )
            return
        generation = _read_generation(self.path)
        if wal_size and mark is not None and mark.generation not in (0, generation):
            raise UserError(
                f"{self.name!r} was replaced after a crash, and the -wal beside it belongs to the file before: bring "
                f"that file back, or go on without the -wal: gappletron store accept {self.name}"
            )
        if generation != 0 and (mark is None or mark.inode != self._inode):
            raise UserError(
                f"{self.name!r} is a copy of a store that was open or not closed, and may lack the last rounds: copy "
                f"with gappletron store backup, or go on with what it holds: gappletron store accept {self.name}"
            )

    @property
    def _inode(self) -> int:
        return self.path.stat().st_ino % 2**63

    def _check_tables(self) -> None:
        if ("about",) not in self.read(TABLE_NAMES):
            raise UserError(f"{self.name!r} holds other tables, or none, and no store: name another file")
        self.check_format()

    def _rewrite_wal(self) -> None:
        """Write the bytes of the -wal again. A process before this one may have failed to synchronise them: then the
        system may show what is not on the disk, and take it for written.
        """
        if self._wal_path.exists():
            with self._wal_path.open("r+b") as file:
                while data := file.read(2**20):  # it is large where a reader has kept it from beginning anew
                    file.seek(-len(data), os.SEEK_CUR)
                    file.write(data)
                    file.flush()
                files.synchronise(file.fileno())

    def _check_mark(self, mark: Mark | None) -> None:
        """Refuse a file with fewer transactions than were acknowledged."""
        if mark is None:
            return
        ((found,),) = self.read("SELECT COALESCE(max(number), 0) FROM commits WHERE model = ?", mark.model)
        if found < mark.number and mark.boot in (0, _read_boot()):
            raise UserError(
                f"the store {self.name!r} has lost {mark.number - found:,} of the transactions that were acknowledged, "
                f"the last of {mark.number:,}: {RESTORE} {self.name}"
            )

    def _begin_generation(self, mark: Mark | None, durability: str) -> None:
        """Give the main file a number that says that it is open, and whose the -wal is."""
        self._mark_file = os.open(self._mark_path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        before = (mark or Mark())._replace(inode=self._inode)
        self._write_mark(before._replace(generation=0))
        files.synchronise(self._mark_file)  # a mark of before must not name a generation that is over
        files.synchronise_folder(self.path.parent)
        self._boot = 0 if durability == "disk" else _read_boot()
        self._generation = secrets.randbits(30) + 1
        if not self._set_generation(self._generation):
            self._generation = 0  # a reader keeps it out of the main file: a mark that had it would refuse the -wal
        self._checkpoint_at = WAL_BYTES
        self._known = {path: _identify(path) for path in (self.path, self._wal_path, self._shm_path)}
        self._expect_change(self._shm_path)  # which SQLite writes to at any time
        self._write_mark(before._replace(generation=self._generation))

    def _set_generation(self, generation: int) -> bool:
        """Store a generation in the main file, with all that is in the -wal; return whether all of it is there, which
        it is not while a reader needs what was there before.
        """
        assert self._writer is not None
        self._writer.execute(f"PRAGMA user_version = {generation}")
        busy, _, _ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def _write_mark(self, mark: Mark) -> None:
        os.lseek(self._mark_file, 0, os.SEEK_SET)
        os.write(self._mark_file, MARK.pack(*mark, _sum(mark)))

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, PATIENCE, isolation_level=None, check_same_thread=False, uri=True)
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection

    # ------------------------------------------------------------------------------------------------------- statements

    def read(self, sql: str, *values: Any) -> list[Row]:
        with self._explaining(), self._reading:
            return self._reader.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self.lock, self._explaining():
            self.check_open()
            writer = self._writer
            assert writer is not None
            if writer.in_transaction:  # a signal handler has raised in the middle of one
                writer.execute("ROLLBACK")
            self._check_loss()
            self._expect_change(self._wal_path)
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield
                writer.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    if writer.in_transaction:
                        writer.execute("ROLLBACK")
                raise
            self._check_loss()
            wal = _identify(self._wal_path)
            if self._known:
                self._known[self._wal_path] = wal
            if (wal.size or 0) > self._checkpoint_at:
                self._checkpoint_in_background()

    def _expect_change(self, path: Path) -> None:
        """Note that a file of ours is about to change."""
        if path in self._known:
            self._known[path] = Identity(self._known[path].inode)

    def run(self, sql: str, *values: Any) -> list[Row]:
        assert self._writer is not None
        return self._writer.execute(sql, values).fetchall()

    def run_many(self, sql: str, rows: list[Row]) -> None:
        assert self._writer is not None
        self._writer.executemany(sql, rows)

    def elect(self, model: int) -> None:
        """The lock of the file has chosen already."""

    def acknowledge(self, model: int, number: int) -> None:
        with self._explaining():
            self._write_mark(Mark(self._generation, model, number, self._boot, self._known[self.path].inode % 2**63))

    def find_loss(self) -> str | None:
        if self.problem is not None:
            return self.problem
        try:
            if all(self._is_ours(path) for path in self._known):
                return None
            if all(Identity(known.inode).fits(path) for path, known in self._known.items()):
                return f"the store {self.name!r} {CHANGED}"
        except FileNotFoundError:
            pass
        except OSError as error:  # the disk is gone, or may not be looked at
            return f"the store {self.name!r} cannot be looked at ({error.strerror or error}): look after its disk"
        return (
            f"the store {self.name!r} was removed, moved or replaced while it was open: bring it back, or restore a "
            "backup and open it again"
        )

    def _is_ours(self, path: Path) -> bool:
        """Return whether a file is as we left it; what it should be may change while it is looked at."""
        known = None
        while known is not self._known[path]:
            known = self._known[path]
            if known.fits(path):
                return True
        return False

    def _check_loss(self) -> None:
        loss = self.find_loss()
        if loss is not None:
            raise Unavailable(loss)

    def find_damage(self) -> str | None:
        found = [text for (text,) in self.read("PRAGMA integrity_check")]
        if found != ["ok"]:
            return f"{len(found)} pages or rows are damaged ({found[0]})"
        made = {sql for (sql,) in self.read("SELECT sql FROM sqlite_master")}
        changed = {*(table.create(self.types) for table in TABLES), *INDEXES, VIEW} - made
        return "the declaration of a table, an index or the view is damaged" if changed else None

    def backup(self, path: str | PathLike[str]) -> None:
        target = Path(path).absolute()
        if _side(target, "wal").exists() or _side(target, "mark").exists():
            raise UserError(f"{str(path)!r} is a store that is open, or was not closed: name another file")
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            os.close(os.open(part, os.O_CREAT | os.O_EXCL, 0o600))
            with self._explaining(), contextlib.closing(sqlite3.connect(part, isolation_level=None)) as copy:
                with self._reading:
                    self._reader.backup(copy)
                _end_generation(copy)
            part.replace(target)
            files.synchronise_folder(target.parent)
        except OSError as error:
            raise files.cannot_write(path, error.strerror or str(error)) from None
        finally:
            part.unlink(missing_ok=True)
            _side(part, "journal").unlink(missing_ok=True)

    def vacuum(self) -> None:
        self._rewrite("VACUUM")

    def checkpoint(self) -> None:
        self._rewrite("PRAGMA wal_checkpoint")

    def _rewrite(self, statement: str) -> None:
        """Execute a statement that changes the main file, and bring the -wal into it."""
        with self._checkpointing, self.lock, self._explaining():
            assert self._writer is not None
            self._check_loss()
            self._expect_change(self.path)
            self._expect_change(self._wal_path)
            self._writer.execute(statement).fetchall()
            self._set_generation(self._generation)
            self._known[self.path] = _identify(self.path)

    @property
    def nbytes(self) -> int:
        return sum(Path(path).stat().st_size for path in (self.path, self._wal_path) if Path(path).exists())

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raise one sentence in place of an error of SQLite or of the system."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise Conflict from error
        except sqlite3.Error as error:
            raise self._explain(error, getattr(error, "sqlite_errorname", "")) from None
        except UnicodeDecodeError as error:  # of a name in the file that SQLite's own error quotes
            raise self._explain(sqlite3.DatabaseError(error.reason), "") from None
        except OSError as error:
            reason = error.strerror or error
            if self._known:  # it is open
                raise Unavailable(
                    f"cannot write to the store {self.name!r} ({reason}): nothing that was acknowledged is lost; look "
                    "after the disk, then try again"
                ) from None
            raise UserError(
                f"cannot use the file {self.name!r} ({reason}): look after its disk, or name another"
            ) from None

    def _explain(self, error: sqlite3.Error, code: str) -> UserError:
        if code.startswith(PASSING):
            cure = CURES.get(code, "look after the disk")
            return Unavailable(
                f"cannot write to the store {self.name!r} ({error}): nothing that was acknowledged is lost; {cure}, "
                "then try again"
            )
        if code == "SQLITE_NOTADB":
            return UserError(
                f"{self.name!r} is not an SQLite file: name one that Online.open made; for a model that was saved, "
                "make one in Python: Online.open('new.sqlite', start=Online.load('model.npz')).close()"
            )
        if isinstance(error, sqlite3.ProgrammingError):
            return self.fail("is closed: open it again")
        if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
            return self.fail(f"cannot be opened ({error}): look after its permissions, and those of its folder")
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_ERROR")) or not code:  # without: a text that is none
            sentence = f"is damaged ({error}): {RESTORE.partition(',')[0]}, or see what is left: gappletron store check"
            return self.fail(sentence) if self._writer is not None else UserError(f"the store {self.name!r} {sentence}")
        return self.fail(f"could not be written to the disk ({error}): open it again (restart the server)")

    # ------------------------------------------------------------------------------------------------------ checkpoints

    def _checkpoint_in_background(self) -> None:
        """Bring the -wal into the main file: nearly all of it beside the transactions, the rest between two of them."""
        with held_back():  # the lock is released by the thread, so there must be one
            if self._checkpointing.acquire(blocking=False):
                self._expect_change(self.path)
                thread = threading.Thread(target=self._checkpoint, name="gappletron checkpoint")
                try:
                    thread.start()
                except RuntimeError:  # there can be no more threads, as when the interpreter ends
                    self._checkpointing.release()

    def _checkpoint(self) -> None:
        try:
            self._keeper.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            with self.lock:
                if self._writer is not None and not self._writer.in_transaction:
                    _, size, done = self._keeper.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                    # Where a reader keeps it from beginning anew, it is tried again when it has grown.
                    grown = 0 if size == done else self._wal_path.stat().st_size
                    self._checkpoint_at = grown + WAL_BYTES
        except (sqlite3.Error, OSError):  # a full disk, for example: the -wal has everything
            self._checkpoint_at *= 2
        finally:
            with self.lock, contextlib.suppress(OSError):
                self._known[self.path] = _identify(self.path)
            self._checkpointing.release()

    # ---------------------------------------------------------------------------------------------------------- closing

    def close(self) -> None:
        if self._writer is None:
            with self._reading:
                self._reader.close()
            return
        with self._checkpointing, self.lock:
            was_sound, self.problem = (
                self.problem is None,
                self.problem or f"the store {self.name!r} is closed: open it again",
            )
            try:
                if was_sound and self._known and all(self._is_ours(path) for path in self._known):
                    self._close_cleanly()
            except (OSError, sqlite3.Error):  # the -wal has everything
                pass
            finally:
                self._let_go()

    def _close_cleanly(self) -> None:
        """Leave one file. The mark names no generation meanwhile: a kill may come before or after the change."""
        self._write_mark((Mark.read(self._mark_path) or Mark())._replace(generation=0))
        files.synchronise(self._mark_file)
        if self._set_generation(0):
            self._mark_path.unlink(missing_ok=True)
            self._lock_path.unlink(missing_ok=True)  # who waits for it looks whether it is still there

    def _let_go(self) -> None:
        """Close what is open, and let another process have the file."""
        for name in ("_keeper", "_reader", "_writer"):
            connection = self.__dict__.get(name)
            if connection is not None:
                connection.close()
        if "_mark_file" in self.__dict__:
            os.close(self.__dict__.pop("_mark_file"))
        if self._lock_file is not None:
            lock, self._lock_file = self._lock_file, None
            files.unlock_file(lock)


def _read_generation(path: Path) -> int:
    """Return the generation in the main file alone, without the -wal."""
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        # Alone it may be shorter than it says: a kill or a full disk has ended a checkpoint after its first page.
        connection.execute("PRAGMA writable_schema = ON")
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _end_generation(connection: sqlite3.Connection) -> None:
    """Let a file that nobody else has open be one that was closed, and the only one."""
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA user_version = 0")
    connection.execute("PRAGMA journal_mode = DELETE")


def accept(path: str | PathLike[str]) -> None:
    """Let a file that was refused be opened with what it holds: after a loss that was reported, or without its -wal.

    Nothing is done to a file that another process has open. What is set aside is renamed, and not removed.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise Missing(f"there is no store in {str(path)!r}: name a file that Online.open made")
    try:
        lock = files.lock_file(_side(file, "lock"))
    except BlockingIOError:
        raise UserError(f"the store {str(path)!r} is open in another process: close it there") from None
    try:
        mark, wal = Mark.read(_side(file, "mark")), _side(file, "wal")
        generation = _read_generation(file)
        if mark is not None and mark.generation not in (0, generation) and wal.exists():
            wal.replace(f"{wal}.{secrets.token_hex(4)}.aside")
        _side(file, "mark").unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(file, PATIENCE, isolation_level=None)) as connection:
            _end_generation(connection)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise UserError(f"the store {str(path)!r} is read by another program ({error}): end it there") from None
        raise UserError(f"the store {str(path)!r} cannot be opened at all ({error}): restore a backup") from None
    finally:
        if lock is not None:
            files.unlock_file(lock)


def _read_boot() -> int:
    """Return a number that changes when the system starts; 0 where that is not known."""
    try:
        return crc32(Path("/proc/sys/kernel/random/boot_id").read_bytes())
    except OSError:
        return 0
