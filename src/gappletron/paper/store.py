"""The store of finished runs: one SQLite file, one transaction per run, one writer.

A stored run survives a kill at any moment (write-ahead log), and the file can be read while it is written. A stored run
is used for a task only if everything that it depends on is the same: its parameters and the sources of the package.

Every row has a checksum of its contents. A row that does not match it, or that holds what no run can give, is never
read as a result. A file with anything but the table of this module is refused before its rows are read.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
import io
import json
import math
import os
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gappletron.base import files
from gappletron.base.errors import UserError
from gappletron.base.text import shorten
from gappletron.learners.learner import Learner
from gappletron.paper.sweeps import Task

__all__ = ["Outcome", "Result", "Store", "read_results", "write_table"]

FILE = "results.sqlite"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: totals, mistakes at some rounds, and the version, machine and time that it was run with.

    `parameters` is the learner with all its numbers, as JSON. `comparator_loss` is sum l_t(U) of the best U found in
    the ball of the optimizer, at most `comparator_gap` above the minimum; None where it was not computed.

    >>> from gappletron.paper.runner import execute
    >>> from gappletron.paper.sweeps import selected
    >>> outcome = execute(selected(["full"], rounds=100)[0])
    >>> outcome.error_rate == outcome.mistakes / 100, outcome.labels_seen, outcome.comparator_loss
    (True, 100, None)
    """

    parameters: str
    max_norm: float
    mistakes: int
    labels_seen: int
    explored: int
    blind_rounds: int
    error_rate: float
    rate_sum: float
    loss_sum: float | None
    comparator_loss: float | None
    comparator_gap: float | None
    curve: str
    version: str
    sources: str
    machine: str
    seconds: float
    finished_at: str


@dataclass(frozen=True)
class Result:
    """A task and its outcome: one row of the table.

    >>> result = Result(Task("a/b/c/d/00", "a", "bandit", "", "perceptron", "", "", 3, 40, 0.0, 10, "s", 0, 0),
    ...                 Outcome("{}", 1.0, 4, 6, 4, 10, 0.4, 0.0, None, None, None, "[[5, 10], [3, 4]]",
    ...                         "", "", "", 0.1, ""))
    >>> result.curve
    [(5, 3), (10, 4)]
    """

    task: Task
    outcome: Outcome

    @property
    def learner(self) -> Learner:
        """The learner with all the numbers that it played with, from the stored `parameters`.

        >>> from gappletron.paper.runner import execute
        >>> from gappletron.paper.sweeps import selected
        >>> task = selected(["full"], rounds=100)[0]
        >>> Result(task, execute(task)).learner
        Gappletron(loss=Hinge(kappa=0.5), optimizer=AdaptiveOGD(scale=1.0), exploration=Paper(gamma=1.0))
        """
        import gappletron.learners.registry  # noqa: F401 - makes their classes known
        from gappletron.kernel.spelling import decode_piece, from_json

        return decode_piece(from_json(json.loads(self.outcome.parameters)))

    @property
    def curve(self) -> list[tuple[int, int]]:
        """Pairs of a round and the number of mistakes up to it, at the rounds that are stored."""
        rounds, mistakes = json.loads(self.outcome.curve)
        return list(zip(rounds, mistakes, strict=True))


TASK_COLUMNS = tuple(field.name for field in fields(Task))
OUTCOME_COLUMNS = tuple(field.name for field in fields(Outcome))
COLUMNS = TASK_COLUMNS + OUTCOME_COLUMNS
NOT_IN_TABLES = ("curve",)
_KINDS = {field.name: str(field.type) for kind in (Task, Outcome) for field in fields(kind)}
_TYPES = {"int": "INTEGER NOT NULL", "float": "REAL NOT NULL", "float | None": "REAL", "str": "TEXT NOT NULL"}
_TABLE = (
    "CREATE TABLE runs ("
    + ", ".join(f"{name} {_TYPES[_KINDS[name]]}" for name in COLUMNS)
    + ", checksum TEXT NOT NULL, PRIMARY KEY (id))"
)
_SCHEMA = {("table", "runs", _TABLE), ("index", "sqlite_autoindex_runs_1", None)}
ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises; the second where the message of the first holds damaged bytes."""
MOST_RUNS = 1_000_000
MOST_BYTES = 2**24
"""In one row."""


class Store:
    """The runs of one folder, open for writing. There can be only one writer at a time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
    ...     len(store.finished([], sources="0123456789abcdef"))
    0
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder) / FILE
        self._lock = _locked(Path(folder))
        with contextlib.ExitStack() as undo:
            undo.callback(_unlock, self._lock)
            try:
                self._connection = _connected(self.path)
                undo.callback(self._connection.close)
                self._prepare()
            except ERRORS as error:
                raise _unusable(self.path, error) from error
            undo.pop_all()

    def _prepare(self) -> None:
        """Create the table, or check that an existing file has this table and nothing else."""
        if not self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._connection.execute(_TABLE)
        _check_structure(self._connection, self.path)
        # WAL: a commit appends, so after a kill a row is either complete or absent, and readers do not wait.
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        _unlock(self._lock)

    def remove_damaged(self) -> list[str]:
        """Remove the rows that are not as they were written, or that no run can have given; their ids."""
        try:
            damaged = [(number, row) for number, row, result in _rows(self._connection) if result is None]
            if self._connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                self._connection.execute("REINDEX")  # rows are found by a scan, but replaced through the index
            with self._connection:
                self._connection.executemany("DELETE FROM runs WHERE rowid = ?", [(number,) for number, _ in damaged])
        except ERRORS as error:
            raise _unusable(self.path, error) from error
        return [str(row[0]) for _, row in damaged]

    def finished(self, tasks: Iterable[Task], sources: str) -> dict[str, Result]:
        """The stored results of these tasks, by id: those with the same parameters and the same sources."""
        try:
            stored = {result.task.id: result for _, _, result in _rows(self._connection) if result is not None}
        except ERRORS as error:
            raise _unusable(self.path, error) from error
        return {
            task.id: stored[task.id]
            for task in tasks
            if task.id in stored and stored[task.id].task == task and stored[task.id].outcome.sources == sources
        }

    def add(self, result: Result) -> None:
        """Store a finished run in a transaction of its own; it replaces an older run with the same id."""
        values = (*dataclasses.astuple(result.task), *dataclasses.astuple(result.outcome))
        if not _is_sound(values):
            raise UserError(
                f"the run {result.task.id!r} gave a number that is not finite, or a value of another type than its "
                "column: it cannot be stored"
            )
        row = (*values, _checksum(values))
        try:
            with self._connection:
                self._connection.execute(f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(row))})", row)
        except ERRORS as error:
            raise UserError(
                f"cannot write {str(self.path)!r} ({_told(error)}): fix that and start again; the runs stored so far "
                "are kept"
            ) from error


def _connected(path: Path, mode: str = "mode=rwc") -> sqlite3.Connection:
    """A connection that does not run what the file may define, and reads no row without end."""
    if path.exists() and not path.is_file():
        raise UserError(f"{str(path)!r} is not a file: move it away or choose another folder")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=30.0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")  # then the checksum does not match
    for setting in ("trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _locked(folder: Path) -> int | None:
    """A lock on the folder that is released when the process ends; None where the system has no such locks."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(
            f"{str(folder)!r} is a file or is inside a file, and results need a folder: choose another with --out"
        ) from None
    except OSError as error:
        raise UserError(
            f"cannot create the folder {str(folder)!r} ({error.strerror or error}): choose another with --out"
        ) from None
    try:
        import fcntl
    except ImportError:  # Windows: SQLite's own locks protect the file, but two commands would repeat each other's runs
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(
            f"another process is writing results to {str(folder)!r}: wait for it or choose another folder with --out"
        ) from None
    except OSError:  # a file system without locks
        os.close(descriptor)
        return None
    return descriptor


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _unusable(path: Path, error: Exception | str) -> UserError:
    return UserError(
        f"{str(path)!r} cannot be used as a file of results ({_told(error)}): move it away or choose another folder"
    )


def _told(error: Exception | str) -> str:
    """What SQLite says, which may repeat bytes of the file."""
    if isinstance(error, UnicodeDecodeError):
        return "it is damaged"
    return shorten("".join(letter if letter.isprintable() else "?" for letter in str(error)), 200)


def _check_structure(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file with other tables, views or triggers than the table of this module, or with damaged pages."""
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > len(_SCHEMA):
        raise _foreign(path)
    found = set(connection.execute("SELECT type, name, sql FROM sqlite_master"))
    if not {(kind, name) for kind, name, _ in found} <= {(kind, name) for kind, name, _ in _SCHEMA}:
        raise _foreign(path)
    if found != _SCHEMA:
        raise UserError(
            f"{str(path)!r} was written by another program or by another version of gappletron, with other columns: "
            "move it away or choose another folder"
        )
    for (problem,) in connection.execute("PRAGMA quick_check(100)"):
        # A missing value is a damaged row, which is found by its checksum.
        if problem != "ok" and not problem.startswith("NULL value in"):
            raise _unusable(path, "damaged pages")


def _foreign(path: Path) -> UserError:
    return UserError(
        f"{str(path)!r} holds tables, views or triggers that gappletron does not write: move it away or choose another "
        "folder"
    )


def _rows(connection: sqlite3.Connection) -> Iterator[tuple[int, tuple[Any, ...], Result | None]]:
    """The number of each row, its values, and the result; None where it is damaged or not one of a run."""
    cut = len(TASK_COLUMNS)
    # By a scan of the table: an index that is damaged would hide rows.
    found = connection.execute(
        f"SELECT rowid, {', '.join(COLUMNS)}, checksum FROM runs NOT INDEXED LIMIT {MOST_RUNS + 1}"
    )
    for place, (number, *values, checksum) in enumerate(found):
        if place == MOST_RUNS:
            raise sqlite3.DataError(f"more than {MOST_RUNS:,} rows")
        row = tuple(values)
        is_good = _is_sound(row) and checksum == _checksum(row)
        yield number, row, Result(Task(*row[:cut]), Outcome(*row[cut:])) if is_good else None


def _checksum(values: tuple[Any, ...]) -> str:
    """Of the values of a row, with their types; floats by their bits, but for the sign of zero, which SQLite drops."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        content = struct.pack("<d", value + 0.0) if isinstance(value, float) else str(value).encode()
        digest.update(f"{type(value).__name__} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _is_sound(values: tuple[Any, ...]) -> bool:
    """Whether the values of a row have the types of their columns, and numbers are finite."""
    kinds: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (float,),
        "float | None": (float, type(None)),
        "str": (str,),
    }
    row = dict(zip(COLUMNS, values, strict=True))
    if any(type(value) not in kinds[_KINDS[name]] for name, value in row.items()):
        return False
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return False
    if not all(value.isprintable() for value in values if isinstance(value, str)):
        return False
    try:
        rounds, mistakes = json.loads(row["curve"])
        return (
            len(rounds) == len(mistakes)
            and all(type(value) is int for value in (*rounds, *mistakes))
            and type(json.loads(row["parameters"])) is dict
        )
    except (ValueError, TypeError, RecursionError):
        return False


def read_results(folder: str | os.PathLike[str]) -> list[Result]:
    """All runs stored in a folder, sorted by id. Another process may write to the folder at the same time.

    A file with a damaged row is refused: :func:`reproduce` runs it again.

    >>> read_results("nowhere")
    Traceback (most recent call last):
        ...
    gappletron.UserError: there is no 'nowhere/results.sqlite': run `gappletron reproduce --out nowhere` first
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise UserError(f"there is no {str(path)!r}: run `gappletron reproduce --out {os.fspath(folder)}` first")
    # In a folder without write permission SQLite cannot create its log, so the file is read as immutable.
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        try:
            with contextlib.closing(_connected(path, mode)) as connection:
                _check_structure(connection, path)
                results = [result for _, _, result in _rows(connection)]
                break
        except ERRORS as error:
            reason = _told(error)
    else:
        raise _unusable(path, reason)
    good = [result for result in results if result is not None]
    if len(good) < len(results):
        raise UserError(
            f"{len(results) - len(good)} of the {len(results)} rows of {str(path)!r} are damaged: run "
            f"`gappletron reproduce --out {os.fspath(folder)}`, which removes them and repeats the runs that it needs"
        )
    return sorted(good, key=lambda result: result.task.id)


def table(results: Iterable[Result]) -> tuple[list[str], list[list[Any]]]:
    """The columns of the tables, and one row per run."""
    places = [place for place, name in enumerate(COLUMNS) if name not in NOT_IN_TABLES]
    rows = []
    for result in results:
        values = (*dataclasses.astuple(result.task), *dataclasses.astuple(result.outcome))
        rows.append([values[place] for place in places])
    return [COLUMNS[place] for place in places], rows


def table_kind(path: str | os.PathLike[str]) -> Callable[[list[str], list[list[Any]]], bytes]:
    """The function that writes a table in the format that the file's name ends with."""
    kinds = {".csv": _csv, ".parquet": _parquet}
    kind = Path(path).suffix.lower()
    if kind not in kinds:
        raise UserError(f"cannot write a table to {os.fspath(path)!r}: use a name that ends in .csv or .parquet")
    return kinds[kind]


def write_table(results: Iterable[Result], path: str | os.PathLike[str]) -> None:
    """Write the runs as CSV or Parquet, as the file's name ends; an existing file is replaced in one step."""
    content = table_kind(path)(*table(results))
    with files.replacing(path) as file:
        file.write(content)


def _csv(columns: list[str], rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(columns: list[str], rows: list[list[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"int": pa.int64(), "float": pa.float64(), "float | None": pa.float64(), "str": pa.string()}
    schema = pa.schema([(name, kinds[_KINDS[name]]) for name in columns])
    by_column = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    sink = io.BytesIO()
    pq.write_table(pa.table(by_column, schema=schema), sink)
    return sink.getvalue()
