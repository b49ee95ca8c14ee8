"""The store of finished runs: one SQLite file, one transaction per run, one writer.

A stored run survives a kill at any moment (write-ahead log), and the file can be read while it is written. A stored run
is used for a task only if everything that it depends on is the same: its parameters and the sources of the package.

Every row has a checksum of its contents. A row that does not match it, or that holds what no run can give, is never
read as a result. A file with anything but the table of this module is refused before its rows are read.
"""

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Self

from gappletron.base import files
from gappletron.base.errors import UserError
from gappletron.base.text import defuse, shorten
from gappletron.paper.results import Outcome, Result, Task

FILE = "results.sqlite"

_KINDS = {field.name: str(field.type) for kind in (Task, Outcome) for field in fields(kind) if field.name != "setup"}
COLUMNS = tuple(_KINDS)
_TASK_COLUMNS = COLUMNS[: -len(fields(Outcome))]
NOT_IN_TABLES = ("curve",)
# The type of a column in SQLite, in Python and in Parquet, by the annotation of the field.
_TYPES: dict[str, tuple[str, tuple[type, ...], str]] = {
    "int": ("INTEGER NOT NULL", (int,), "int64"),
    "float": ("REAL NOT NULL", (float,), "float64"),
    "float | None": ("REAL", (float, type(None)), "float64"),
    "str": ("TEXT NOT NULL", (str,), "string"),
}
_TABLE = (
    "CREATE TABLE runs ("
    + ", ".join(f"{name} {_TYPES[_KINDS[name]][0]}" for name in COLUMNS)
    + ", checksum TEXT NOT NULL, PRIMARY KEY (id))"
)
_SCHEMA = {("table", "runs", _TABLE), ("index", "sqlite_autoindex_runs_1", None)}
# The largest size of a row.
MOST_BYTES = 2**24

UNUSABLE = "{path!r} cannot be used as a file of results ({reason}): move it away or choose another folder"
UNWRITABLE = "cannot write {path!r} ({reason}): fix that and start again; the runs stored so far are kept"


class Store:
    """The runs of one folder, open for writing. There can be only one writer at a time.

    Opening it removes the rows that are not as they were written, or that no run can have given; `damaged` has their
    ids.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
    ...     store.damaged, len(store.finished([], sources="0123456789abcdef"))
    ([], 0)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder) / FILE
        lock = _lock(Path(folder))
        with contextlib.ExitStack() as stack:
            if lock is not None:
                stack.callback(files.unlock_file, lock)
            with _explain_errors(self.path, UNUSABLE):
                self._connection = stack.enter_context(contextlib.closing(_connect(self.path)))
                if not self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    self._connection.execute(_TABLE)
                _check_structure(self._connection, self.path)
                # WAL: a commit appends, so after a kill a row is either complete or absent, and readers do not wait.
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._stored, self.damaged = self._remove_damaged()
            self._close = stack.pop_all().close

    def _remove_damaged(self) -> tuple[dict[str, Result], list[str]]:
        """Return the good rows by id, and the ids of the damaged ones, which are removed."""
        rows = list(_read_rows(self._connection))
        if self._connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
            self._connection.execute("REINDEX")  # rows are found by a scan, but replaced through the index
        damaged = [row for row in rows if row.result is None]
        with self._connection:
            self._connection.executemany("DELETE FROM runs WHERE rowid = ?", [(row.number,) for row in damaged])
        return {row.id: row.result for row in rows if row.result is not None}, [row.id for row in damaged]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def finished(self, tasks: Iterable[Task], sources: str) -> dict[str, Result]:
        """Return the stored results of these tasks, by id: those with the same parameters and the same sources."""
        stored = self._stored
        return {
            task.id: Result(task, stored[task.id].outcome)
            for task in tasks
            if task.id in stored and stored[task.id].task == task and stored[task.id].outcome.sources == sources
        }

    def add(self, result: Result) -> None:
        """Store a finished run in a transaction of its own; it replaces an older run with the same id."""
        values = _values(result)
        if not _is_sound(values):
            raise UserError(
                f"the run {result.task.id!r} gave a number that is not finite, or a value of another type than its "
                "column: it cannot be stored"
            )
        row = (*values, _checksum(values))
        with _explain_errors(self.path, UNWRITABLE), self._connection:
            self._connection.execute(f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(row))})", row)
        self._stored[result.task.id] = result


@contextlib.contextmanager
def _explain_errors(path: Path, sentence: str) -> Iterator[None]:
    """Raise what SQLite says in the block as one sentence about a file; it may repeat damaged bytes of the file."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        said = "".join(letter if letter.isprintable() else "?" for letter in str(error))
        reason = shorten(said, 200) if isinstance(error, sqlite3.Error) else "it is damaged"
        raise UserError(sentence.format(path=str(path), reason=reason)) from error


def _connect(path: Path, mode: str = "mode=rwc") -> sqlite3.Connection:
    """Return a connection that does not run what the file may define, and reads no row without end."""
    if path.exists() and not path.is_file():
        raise UserError(f"{str(path)!r} is not a file: move it away or choose another folder")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=30.0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")  # then the checksum does not match
    for setting in ("trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _lock(folder: Path) -> int | None:
    """Return a lock on the folder, released when the process ends; None where the system has no such locks."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return files.lock_file(folder)
    except BlockingIOError:
        raise UserError(
            f"another process is writing results to {str(folder)!r}: wait for it or choose another folder with --out"
        ) from None
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "it is a file or is inside a file" if is_file else error.strerror or error
        raise UserError(f"cannot create the folder {str(folder)!r} ({reason}): choose another with --out") from None


def _check_structure(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file with other tables, views or triggers than the table of this module, or with damaged pages."""
    found = set(connection.execute(f"SELECT type, name, sql FROM sqlite_master LIMIT {len(_SCHEMA) + 1}"))
    if not {(kind, name) for kind, name, _ in found} <= {(kind, name) for kind, name, _ in _SCHEMA}:
        raise UserError(
            f"{str(path)!r} holds tables, views or triggers that gappletron does not write: move it away or choose "
            "another folder"
        )
    if found != _SCHEMA:
        raise UserError(
            f"{str(path)!r} was written by another program or by another version of gappletron, with other columns: "
            "move it away or choose another folder"
        )
    for (problem,) in connection.execute("PRAGMA quick_check(100)"):
        # A missing value is a damaged row, which is found by its checksum.
        if problem != "ok" and not problem.startswith("NULL value in"):
            raise sqlite3.DatabaseError("damaged pages")


def _values(result: Result) -> tuple[Any, ...]:
    """Return the values of a row, in the order of the columns."""
    outcome = attrgetter(*COLUMNS[len(_TASK_COLUMNS) :])(result.outcome)
    return (*attrgetter(*_TASK_COLUMNS)(result.task), *outcome)


class _Row(NamedTuple):
    """A row of the table by its number, its id, and its result; None where it is damaged or not one of a run."""

    number: int
    id: str
    result: Result | None


def _read_rows(connection: sqlite3.Connection) -> Iterator[_Row]:
    cut = len(_TASK_COLUMNS)
    # By a scan of the table: an index that is damaged would hide rows.
    found = connection.execute(f"SELECT rowid, {', '.join(COLUMNS)}, checksum FROM runs NOT INDEXED")
    for number, *values, checksum in found:
        row = tuple(values)
        is_good = _is_sound(row) and checksum == _checksum(row)
        yield _Row(number, str(row[0]), Result(Task(*row[:cut]), Outcome(*row[cut:])) if is_good else None)


def _checksum(values: tuple[Any, ...]) -> str:
    """Return the checksum of the values of a row with their types.

    Floats count by their bits, but for the sign of zero, which SQLite drops.
    """
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        content = struct.pack("<d", value + 0.0) if isinstance(value, float) else str(value).encode()
        digest.update(f"{type(value).__name__} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _is_sound(values: tuple[Any, ...]) -> bool:
    """Whether the values of a row have the types of their columns, and numbers are finite."""
    row = dict(zip(COLUMNS, values, strict=True))
    if any(type(value) not in _TYPES[_KINDS[name]][1] for name, value in row.items()):
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
    """Return all runs stored in a folder, sorted by id. Another process may write to the folder at the same time.

    A file with a damaged row is refused: :func:`reproduce` runs it again.

    >>> read_results("nowhere")
    Traceback (most recent call last):
        ...
    gappletron.UserError: there is no 'nowhere/results.sqlite': run `gappletron reproduce --out nowhere` first
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise UserError(f"there is no {str(path)!r}: run `gappletron reproduce --out {os.fspath(folder)}` first")
    with _explain_errors(path, UNUSABLE):
        try:
            results = _read_file(path, "mode=ro")
        except sqlite3.OperationalError:  # in a folder without write permission SQLite cannot create its log
            results = _read_file(path, "mode=ro&immutable=1")
    good = [result for result in results if result is not None]
    if len(good) < len(results):
        raise UserError(
            f"{len(results) - len(good)} of the {len(results)} rows of {str(path)!r} are damaged: run "
            f"`gappletron reproduce --out {os.fspath(folder)}`, which removes them and repeats the runs that it needs"
        )
    return sorted(good, key=lambda result: result.task.id)


def _read_file(path: Path, mode: str) -> list[Result | None]:
    with contextlib.closing(_connect(path, mode)) as connection:
        _check_structure(connection, path)
        return [row.result for row in _read_rows(connection)]


def table_kind(path: str | os.PathLike[str]) -> Callable[[list[str], list[list[Any]]], bytes]:
    """Return the function that writes a table in the format that the file's name ends with."""
    kinds = {".csv": _write_csv, ".parquet": _write_parquet}
    kind = Path(path).suffix.lower()
    if kind not in kinds:
        raise UserError(f"cannot write a table to {os.fspath(path)!r}: use a name that ends in .csv or .parquet")
    return kinds[kind]


def write_table(results: Iterable[Result], path: str | os.PathLike[str]) -> None:
    """Write the runs as CSV or Parquet, as the file's name ends; an existing file is replaced in one step."""
    columns = [name for name in COLUMNS if name not in NOT_IN_TABLES]
    places = [COLUMNS.index(name) for name in columns]
    rows = [[values[place] for place in places] for values in map(_values, results)]
    content = table_kind(path)(columns, rows)
    with files.replacing(path) as file:
        file.write(content)


def _write_csv(columns: list[str], rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([defuse(value) if isinstance(value, str) else value for value in row] for row in rows)
    return text.getvalue().encode()


def _write_parquet(columns: list[str], rows: list[list[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, _TYPES[_KINDS[name]][2]) for name in columns])
    by_column = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    sink = io.BytesIO()
    pq.write_table(pa.table(by_column, schema=schema), sink)
    return sink.getvalue()
