"""What is fuzzed: each target takes bytes, makes an input of them, and fails if anything but a UserError comes out.

``run.py`` plays them under atheris, which is guided by coverage; ``test_fuzz.py`` replays the corpus with what was
found. atheris does not see into compiled code, so the targets run inside ``interpreted()`` there. The parser's corpus
is also replayed compiled, with bounds checks.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import sqlite3
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from gappletron import UNSEEN, FeedbackGraph, Online, UserError
from gappletron.data.svmlight import SvmlightFile
from gappletron.paper import store as store_module
from gappletron.paper.figures.catalogue import select_tasks
from gappletron.paper.store import COLUMNS, Store, read_results, write_table
from gappletron.play import archive
from storms import stored_result

FOLDER = Path(tempfile.mkdtemp(prefix="gappletron-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def one_sentence(error):
    """An error message for users: one line, not empty, without control characters."""
    text = str(error)
    assert text
    assert len(text) < 2000, text[:300]
    assert text.isprintable(), text[:300]


def svmlight(data):
    """The parser: rows that are valid, the same ones with a reading in two passes, or one sentence."""
    path = FOLDER / f"{os.getpid()}.svm"
    path.write_bytes(data)
    try:
        stream = SvmlightFile(path)
        rows = list(stream.chunks())
    except UserError as error:
        one_sentence(error)
        return
    count = 0
    for chunk in rows:
        count += len(chunk.labels)
        assert chunk.indptr[0] == 0
        assert (np.diff(chunk.indptr) >= 0).all()
        assert np.isfinite(chunk.values).all()
        for start, stop in zip(chunk.indptr[:-1], chunk.indptr[1:], strict=True):
            row = chunk.indices[start:stop]
            assert (np.diff(row) > 0).all()
            assert not row.size or 0 <= row[0] <= row[-1] < stream.features
        assert ((chunk.labels >= 0) & (chunk.labels < len(stream.classes))).all()
    assert count == stream.rounds
    given = SvmlightFile(path, features=stream.features, classes=stream.classes)
    again = [array.tobytes() for chunk in given.chunks() for array in chunk]
    assert again == [array.tobytes() for chunk in rows for array in chunk]


def graph_file(data):
    """A graph's JSON: a graph that is written and read again as itself, or one sentence."""
    path = FOLDER / f"{os.getpid()}.json"
    path.write_bytes(data)
    try:
        graph = FeedbackGraph.from_json(path)
    except UserError as error:
        one_sentence(error)
        return
    graph.describe()
    assert graph.visible[graph.dominating_indices].any(axis=0).all()
    graph.to_json(path)
    assert FeedbackGraph.from_json(path) == graph


class Reader:
    """Decisions from bytes: zeros when they are used up."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, below):
        """A number from 0 to below - 1."""
        size = 1 if below <= 256 else 4
        part = self.data[self.at : self.at + size]
        self.at += size
        return int.from_bytes(part, "little") % below

    def choice(self, items):
        return items[self.number(len(items))]

    def bytes(self, size):
        part = self.data[self.at : self.at + size]
        self.at += size
        return part + bytes(size - len(part))

    @property
    def is_empty(self):
        return self.at >= len(self.data)


VALUES = [
    None,
    True,
    0,
    1,
    -1,
    2**31,
    2**63,
    2**64,
    10**30,
    0.5,
    -0.0,
    1e308,
    "",
    "x",
    "\x1b[31m",
    [],
    [1],
    {},
    {"a": 1},
]
DTYPES = ["f8", "f4", "i8", "i4", "u1", "?", "c16", "U3", "S3", "M8[s]", "f8"]


@functools.cache
def _saved():
    """A header and arrays of a model with waiting receipts."""
    model = Online("gaplog", FeedbackGraph.filtering(["ham", "spam", "junk"]), features=4, seed=1)
    for t in range(20):
        receipt = model.act(([t % 4], [1.0 + t]))
        if t % 3:
            model.learn(receipt, "ham" if "ham" in receipt.reveals else UNSEEN)
    return model._contents.describe()


def _mutated(value, reader):
    """The value with something inside it changed."""
    if isinstance(value, (dict, list)) and value and reader.number(4):
        place = reader.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
        changed = value.copy()
        if reader.number(8) == 0:
            del changed[place]
        else:
            changed[place] = _mutated(value[place], reader)
        return changed
    if isinstance(value, (int, float)) and reader.number(2):
        return reader.choice([value + 1, value - 1, -value, value * 2, value + 0.5])
    return reader.choice(VALUES)


def _mutated_array(array, reader):
    kind = reader.number(5)
    if kind == 0 and array.dtype.kind in "biuf":
        return array.astype(reader.choice(DTYPES[:6]), copy=True)
    if kind == 1:
        return array[: reader.number(array.shape[0] + 1)] if array.ndim else np.zeros(2)
    if kind == 2:
        return np.zeros(reader.choice([(0,), (1,), (3, 3), (4, 3), (2, 2, 2)]), reader.choice(DTYPES))
    changed = array.copy()
    if changed.size and changed.dtype.itemsize:
        flat = changed.reshape(-1).view(np.uint8)
        place = reader.number(changed.size) * changed.dtype.itemsize
        if kind == 3:
            flat[place : place + changed.dtype.itemsize] = np.frombuffer(reader.bytes(changed.dtype.itemsize), np.uint8)
        elif changed.dtype.kind == "f":
            changed.reshape(-1)[reader.number(changed.size)] = reader.choice(
                [np.nan, np.inf, -np.inf, -1.0, 1e308, 5e-324, 0.0]
            )
    return changed


def saved_model(data):
    """A model file with a right checksum and wrong contents: it is refused in one sentence, or it plays on."""
    reader = Reader(data)
    header, arrays = _saved()
    header = json.loads(json.dumps(header))
    arrays = dict(arrays)
    for _ in range(1 + reader.number(4)):
        if reader.number(2):
            header = _mutated(header, reader)
            header = header if isinstance(header, dict) else {"graph": header}
        else:
            name = reader.choice(sorted(arrays))
            arrays[name] = _mutated_array(arrays[name], reader)
            if reader.number(16) == 0:
                del arrays[name]
        if reader.is_empty:
            break
    path = FOLDER / f"{os.getpid()}.npz"
    archive.write(path, "gappletron.Online", header, arrays)
    _load_and_play(path)


def model_bytes(data):
    """Any bytes in place of a model file."""
    path = FOLDER / f"{os.getpid()}.npz"
    path.write_bytes(data)
    _load_and_play(path)


def _load_and_play(path):
    try:
        model = Online.load(path)
    except UserError as error:
        one_sentence(error)
        return
    assert np.isfinite(model.weights).all()
    features = min(model.features, 1000)
    receipt = model.act(([0, features - 1] if features > 1 else [0], [1.0, -2.0][: min(features, 2)]))
    assert np.isfinite(receipt.probabilities).all()
    assert (receipt.probabilities >= 0.0).all()
    assert abs(receipt.probabilities.sum() - 1.0) < 1e-6
    for waiting in model.pending[:5]:
        model.learn(waiting, waiting.reveals[0] if waiting.reveals else UNSEEN)
    assert np.isfinite(model.weights).all()


@functools.cache
def _stored():
    """The bytes of a small store, and its runs."""
    results = [stored_result(task) for task in select_tasks(["full"], rounds=10, repeats=1)[:3]]
    folder = FOLDER / f"{os.getpid()}-made"
    with Store(folder) as store:
        for result in results:
            store.add(result)
    return (folder / "results.sqlite").read_bytes(), results


SCHEMAS = [
    "CREATE VIEW more AS SELECT 1",
    "CREATE TRIGGER more AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
    "CREATE TABLE more (x)",
    "ALTER TABLE runs ADD COLUMN more",
    "DROP TABLE runs",
    "CREATE INDEX more ON runs (seed)",
]


def store(data):
    """A store with changed bytes, changed values under a right checksum, or a foreign schema: runs with finite numbers
    are read, or one sentence comes out.
    """
    reader = Reader(data)
    content, results = _stored()
    folder = FOLDER / f"{os.getpid()}-store"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    path = folder / "results.sqlite"
    kind = reader.number(3)
    changed = bytearray(content)
    if kind == 0:
        while not reader.is_empty:
            changed[reader.number(len(changed))] = reader.number(256)
    path.write_bytes(bytes(changed))
    if kind > 0:
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            if kind == 1:
                column = reader.choice(COLUMNS)
                value = reader.choice([None, 0, -1, 2**62, 0.5, math.inf, math.nan, -1e308, "", "x", "[[1],[2]]", b"x"])
                row = list(connection.execute(f"SELECT {', '.join(COLUMNS)} FROM runs").fetchone())
                row[COLUMNS.index(column)] = value
                with contextlib.suppress(sqlite3.Error, AttributeError, TypeError, ValueError):
                    checksum = store_module._checksum(tuple(row))
                    connection.execute(f"UPDATE runs SET {column} = ?, checksum = ? WHERE rowid = 1", (value, checksum))
            else:
                connection.execute(reader.choice(SCHEMAS))
    try:
        found = read_results(folder)
        assert {result.task.id for result in found} <= {result.task.id for result in results} | {"", "x", "[[1],[2]]"}
        write_table(found, folder / "table.csv")
        assert "nan" not in (folder / "table.csv").read_text(encoding="utf-8")
    except UserError as error:
        one_sentence(error)
    try:
        with Store(folder) as opened:
            assert isinstance(opened.damaged, list)
    except UserError as error:
        one_sentence(error)


TARGETS = {
    "svmlight": svmlight,
    "graph_file": graph_file,
    "saved_model": saved_model,
    "model_bytes": model_bytes,
    "store": store,
}
