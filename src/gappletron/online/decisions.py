"""The decisions of a journal as a table, for analysis and for tools of off-policy evaluation."""

from __future__ import annotations

import array
import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base import files
from gappletron.base.errors import Damaged, UserError
from gappletron.graphs.graph import FeedbackGraph
from gappletron.online import events
from gappletron.online.store import Log, read_store
from gappletron.play.limits import Limits
from gappletron.play.saved import graph_from

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 10_000
WAITING, SEEN, UNSEEN, FORGOTTEN, EXPIRED = "waiting", "seen", "unseen", "forgotten", "expired"
STATUSES = (WAITING, SEEN, UNSEEN, FORGOTTEN, EXPIRED)


class Feedback(NamedTuple):
    """What became of each round: its status, the label's position, and when."""

    status: NDArray[np.int8]
    label: NDArray[np.int32]
    time: NDArray[np.float64]


class Session(NamedTuple):
    """From round `first` on the ids of receipts begin with this name."""

    first: int
    name: str


def schema() -> pa.Schema:
    """The columns of the table."""
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            ("id", pa.string()),
            ("round", pa.int64()),
            ("time", moment),
            ("action", pa.string()),
            ("action_index", pa.int32()),
            ("probability", pa.float64()),
            ("greedy", pa.string()),
            ("probabilities", pa.list_(pa.float64())),
            ("graph", pa.string()),
            ("followed", pa.bool_()),
            ("status", pa.string()),
            ("label", pa.string()),
            ("feedback_time", moment),
            ("indices", pa.list_(pa.int32())),
            ("values", pa.list_(pa.float64())),
            ("features_hash", pa.string()),
        ]
    )


def read_decisions(folder: str | os.PathLike[str]) -> Iterator[pa.RecordBatch]:
    """The decisions of a journal with their feedback, in batches of 10,000 rows (:func:`schema`).

    Another process may be writing to the journal. Memory: a batch, and some 35 bytes per round.

    >>> import tempfile
    >>> from gappletron import FeedbackGraph, Online, read_decisions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Online.open(folder, graph=FeedbackGraph.full(["a", "b"]), features=2) as model:
    ...         receipt = model.act([0.5, 1.0])
    ...         model.learn(receipt, "b")
    ...     table = next(read_decisions(folder)).to_pylist()
    >>> table[0]["action"], table[0]["label"], table[0]["probabilities"], table[0]["values"]
    ('a', 'b', [1.0, 0.0], [0.5, 1.0])
    """
    import pyarrow as pa

    reader = read_store(folder)
    feedback = _feedback(reader)
    graphs: dict[int, FeedbackGraph] = {}
    session = Session(0, "")
    rows: list[dict[str, Any]] = []
    names = schema()
    for event in _events(reader):
        match event:
            case events.GraphMade(version, document):
                graphs[version] = graph_from(document)
            case events.Opened(name, first):
                session = Session(first, name)
            case events.Decided() if event.round < len(feedback.status):
                rows.append(_row(event, graphs[event.graph], session, feedback))
        if len(rows) == BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=names)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=names)


def _row(event: events.Decided, graph: FeedbackGraph, session: Session, feedback: Feedback) -> dict[str, Any]:
    status = STATUSES[feedback.status[event.round]]
    features = event.features
    return {
        "id": f"{session.name}-{event.round}",
        "round": event.round,
        "time": _microseconds(event.time),
        "action": str(graph.actions[event.action]),
        "action_index": event.action,
        "probability": event.probabilities[event.action],
        "greedy": str(graph.classes[event.greedy]),
        "probabilities": event.probabilities,
        "graph": f"{event.graph:016x}",
        "followed": event.followed,
        "status": status,
        "label": str(graph.classes[feedback.label[event.round]]) if status == SEEN else None,
        "feedback_time": None if status == WAITING else _microseconds(feedback.time[event.round]),
        "indices": None if features.digest else features.indices,
        "values": None if features.digest else features.values,
        "features_hash": features.digest.hex() if features.digest else None,
    }


def _microseconds(seconds: float) -> int:
    return round(1e6 * seconds)


def _events(reader: Log) -> Iterator[events.Event]:
    try:
        yield from (event for _, event in reader.events())
    except Damaged:
        raise UserError(
            f"an event in the journal in {reader.name!r} is damaged: see gappletron journal --help"
        ) from None


def _feedback(reader: Log) -> Feedback:
    """What became of each round, from a pass over the whole log."""
    rounds, labels, times = array.array("q"), array.array("i"), array.array("d")
    count = 0
    for event in _events(reader):
        match event:
            case events.Decided():
                count = event.round + 1
            case events.Fed(serial, time, label):
                rounds.append(serial)
                labels.append(label)
                times.append(time)
            case events.Expired(serial, time):
                rounds.append(serial)
                labels.append(EXPIRED_LABEL)
                times.append(time)
    feedback = Feedback(np.zeros(count, np.int8), np.full(count, -1, np.int32), np.zeros(count))
    at, found = np.frombuffer(rounds, np.int64), np.frombuffer(labels, np.int32)
    statuses = np.select(
        [found >= 0, found == -1, found == events.FORGOTTEN_LABEL],
        [STATUSES.index(SEEN), STATUSES.index(UNSEEN), STATUSES.index(FORGOTTEN)],
        STATUSES.index(EXPIRED),
    )
    feedback.status[at], feedback.label[at] = statuses, found
    feedback.time[at] = np.frombuffer(times, np.float64)
    return feedback


EXPIRED_LABEL = -3


def export(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> int:
    """Write the decisions of a journal to a Parquet or CSV file; the number of rows.

    In CSV the lists are JSON.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        raise UserError(f"cannot write the decisions to {str(path)!r}: let its name end in .parquet or .csv")
    rows = 0
    with files.replacing(path) as file, WRITERS[suffix](file, schema()) as writer:
        for batch in read_decisions(folder):
            writer.write_batch(batch if suffix == ".parquet" else _flat(batch))
            rows += batch.num_rows
    return rows


def _parquet(file: Any, names: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(file, names, compression="zstd")


def _csv(file: Any, names: pa.Schema) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    flat = [pa.field(field.name, pa.string()) if pa.types.is_list(field.type) else field for field in names]
    return csv.CSVWriter(file, pa.schema(flat))


WRITERS: dict[str, Callable[[Any, Any], Any]] = {".parquet": _parquet, ".csv": _csv}


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its lists as JSON."""
    import pyarrow as pa

    columns = [
        pa.array([None if item is None else json.dumps(item) for item in column.to_pylist()], pa.string())
        if pa.types.is_list(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


class Kept(NamedTuple):
    """Of the newest snapshot: the number of events before it, the limits on exploration, and what that had cost."""

    at: int
    limits: Limits
    spent: float | None


class Summary(NamedTuple):
    """What a journal holds.

    `since_snapshot` events were logged after the newest snapshot. `limits` are those on exploration, and `spent` what
    that had cost at the newest snapshot, where there is a budget. `waiting` are the limits of receipts that wait: their
    number, their bytes, their age in seconds.
    """

    rounds: int
    statuses: dict[str, int]
    compacted: int
    taught: int
    events: int
    bytes: int
    snapshots: int
    first: float | None
    last: float | None
    versions: dict[str, str]
    since_snapshot: int
    limits: Limits
    spent: float | None
    waiting: tuple[int, int, float | None] | None


def summary(folder: str | os.PathLike[str]) -> Summary:
    """Count what a journal holds; another process may be writing to it."""
    reader = read_store(folder)
    feedback = _feedback(reader)
    compacted = taught = count = 0
    first = last = None
    versions: dict[str, str] = {}
    kept, waiting = _kept(reader), None
    limits = kept.limits
    for count, event in enumerate(_events(reader), 1):
        match event:
            case events.Decided():
                first, last = (event.time if first is None else first), event.time
                compacted += bool(event.features.digest)
            case events.Taught():
                taught += 1
            case events.Opened(versions=found, limits=(most, size, age)):
                versions, waiting = found, (most, size, age)
            case events.Limited(limits=found) if count > kept.at:
                limits = Limits.from_dict(found)
    numbers = np.bincount(feedback.status, minlength=len(STATUSES)).tolist()
    return Summary(
        len(feedback.status),
        dict(zip(STATUSES, numbers, strict=True)),
        compacted,
        taught,
        count,
        reader.nbytes,
        len(reader.snapshots()),
        first,
        last,
        versions,
        max(0, count - kept.at),
        limits,
        kept.spent if limits.budget == kept.limits.budget else None,
        waiting,
    )


MODEL = "gappletron.Online"
"""The kind of saved model that snapshots are."""


def _kept(reader: Log) -> Kept:
    """What the newest snapshot that is whole tells."""
    for at in reversed(reader.snapshots()):
        try:
            return reader.read_snapshot(at, MODEL, functools.partial(_kept_of, at))
        except UserError:  # then the one before it
            continue
    return Kept(0, Limits(), None)


def _kept_of(at: int, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Kept:
    limits = Limits.from_dict(header["limits"])
    return Kept(at, limits, None if limits.budget is None else float(arrays["limits.spending.spent"][1]))
