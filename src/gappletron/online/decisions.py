"""The decisions of a journal as a table, for analysis and for tools of off-policy evaluation."""

from __future__ import annotations

import array
import collections
import contextlib
import functools
import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from gappletron.base import files
from gappletron.base.errors import UserError
from gappletron.graphs.graph import FeedbackGraph
from gappletron.online import events
from gappletron.online.contents import FORMAT
from gappletron.online.events import Event, Restarted
from gappletron.online.store import Log, read_store
from gappletron.play.archive import decode_graph
from gappletron.play.limits import Limits

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 10_000
WAITING, EXPIRED = -4, -3
# What became of a round, by what stands in place of the position of its label; 0 is for all positions.
STATUSES = {WAITING: "waiting", 0: "seen", -1: "unseen", events.FORGOTTEN_LABEL: "forgotten", EXPIRED: "expired"}


def schema() -> pa.Schema:
    """Return the columns of the table."""
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
            ("scores", pa.list_(pa.float64())),
            ("graph", pa.string()),
            ("followed", pa.bool_()),
            ("status", pa.string()),
            ("label", pa.string()),
            ("feedback_time", moment),
            ("indices", pa.list_(pa.int32())),
            ("values", pa.list_(pa.float64())),
            ("features_hash", pa.string()),
            ("restarts", pa.int64()),
        ]
    )


def read_decisions(folder: str | os.PathLike[str]) -> Iterator[pa.RecordBatch]:
    """Return the decisions of a journal with their feedback, in batches of 10,000 rows (:func:`schema`).

    Another process may be writing to the journal. Memory: a batch, a segment of the log, and 12 bytes per round.

    >>> import tempfile
    >>> from gappletron import FeedbackGraph, Online, read_decisions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Online.open(folder, graph=FeedbackGraph.full(["a", "b"]), features=2) as model:
    ...         receipt = model.act([0.5, 1.0])
    ...         model.learn(receipt, "b")
    ...     table = next(read_decisions(folder)).to_pylist()
    >>> table[0]["action"], table[0]["label"], [round(p, 4) for p in table[0]["probabilities"]], table[0]["values"]
    ('a', 'b', [0.9975, 0.0025], [0.5, 1.0])
    """
    import pyarrow as pa

    rows = _make_rows(read_store(folder))
    while batch := list(itertools.islice(rows, BATCH)):
        yield pa.RecordBatch.from_pylist(batch, schema=schema())


def _make_rows(reader: Log) -> Iterator[dict[str, Any]]:
    """Return the rows of the table."""
    feedback, session, restarts = _Feedback(reader), "", 0
    graphs: dict[int, FeedbackGraph] = {}
    for _, event in reader.events():
        match event:
            case events.GraphMade(version, document):
                graphs[version] = decode_graph(document)
            case events.Opened(name):
                session = name
            case events.Restarted():
                restarts += 1
            case events.Decided(round) if round < len(feedback.labels):
                yield _make_row(event, graphs[event.graph], session, feedback) | {"restarts": restarts}


def _make_row(event: events.Decided, graph: FeedbackGraph, session: str, feedback: _Feedback) -> dict[str, Any]:
    label, features = feedback.labels[event.round], event.features
    return {
        "id": f"{session}-{event.round}",
        "round": event.round,
        "time": round(1e6 * event.time),
        "action": str(graph.actions[event.action]),
        "action_index": event.action,
        "probability": event.probabilities[event.action],
        "greedy": str(graph.classes[event.greedy]),
        "probabilities": event.probabilities,
        "scores": event.scores if event.scores.size else None,
        "graph": f"{event.graph:016x}",
        "followed": event.followed,
        "status": STATUSES[min(label, 0)],
        "label": str(graph.classes[label]) if label >= 0 else None,
        "feedback_time": None if label == WAITING else round(1e6 * feedback.times[event.round]),
        "indices": None if features.digest else features.indices,
        "values": None if features.digest else features.values,
        "features_hash": features.digest.hex() if features.digest else None,
    }


class _Feedback:
    """What became of each round, from a pass over the whole log: its label, or what stands in its place, and when.

    Each event is passed to `also`.
    """

    def __init__(self, reader: Log, also: Callable[[Event], None] | None = None) -> None:
        self.labels, self.times = array.array("i"), array.array("d")
        for _, event in reader.events():
            match event:
                case events.Decided(round):
                    self._note(round, 0.0, WAITING)
                case events.Fed(round, time, label):
                    self._note(round, time, label)
                case events.Expired(round, time):
                    self._note(round, time, EXPIRED)
            if also is not None:
                also(event)

    def _note(self, round: int, time: float, label: int) -> None:
        while len(self.labels) <= round:  # by one, unless a repair has removed some
            self.labels.append(WAITING)
            self.times.append(0.0)
        self.labels[round], self.times[round] = label, time


def export(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> int:
    """Write the decisions of a journal to a Parquet or CSV file; return the number of rows.

    In CSV the lists are JSON.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    suffix, names = Path(path).suffix.lower(), schema()
    if suffix not in (".parquet", ".csv"):
        raise UserError(f"cannot write the decisions to {str(path)!r}: let its name end in .parquet or .csv")
    rows = 0
    with files.replacing(path) as file:
        if suffix == ".parquet":
            writer: Any = parquet.ParquetWriter(file, names, compression="zstd")
        else:
            flat = [pa.field(each.name, pa.string()) if pa.types.is_list(each.type) else each for each in names]
            writer = csv.CSVWriter(file, pa.schema(flat))
        with writer:
            for batch in read_decisions(folder):
                writer.write_batch(batch if suffix == ".parquet" else _flatten(batch))
                rows += batch.num_rows
    return rows


def _flatten(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with its lists as JSON."""
    import pyarrow as pa

    columns = [
        pa.array([None if item is None else json.dumps(item) for item in column.to_pylist()], pa.string())
        if pa.types.is_list(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


@dataclass
class Summary:
    """What a journal holds.

    `since_snapshot` events were logged after the newest snapshot. `limits` are those on exploration, and `spent` what
    that had cost at the newest snapshot, where there is a budget. `waiting` are the limits of receipts that wait: their
    number, their bytes, their age in seconds. The learner began anew `restarts` times, and `restarted` is the last one.
    """

    bytes: int
    snapshots: int
    rounds: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    events: int = 0
    since_snapshot: int = 0
    taught: int = 0
    restarts: int = 0
    restarted: Restarted | None = None
    compacted: int = 0
    first: float | None = None
    last: float | None = None
    limits: Limits = field(default_factory=Limits)
    spent: float | None = None
    waiting: list[Any] | None = None
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Count an event."""
        self.events += 1
        match event:
            case events.Decided():
                self.first, self.last = (event.time if self.first is None else self.first), event.time
                self.compacted += bool(event.features.digest)
            case events.Taught():
                self.taught += 1
            case events.Restarted():
                self.restarts, self.restarted = self.restarts + 1, event
            case events.Opened():
                self.versions, self.waiting = event.versions, event.limits
            case events.Limited():
                self.limits = Limits.from_dict(event.limits)


def summarise(folder: str | os.PathLike[str]) -> Summary:
    """Count what a journal holds; another process may be writing to it."""
    reader = read_store(folder)
    snapshots = reader.snapshots()
    found = Summary(reader.nbytes, len(snapshots))
    labels = _Feedback(reader, found.add).labels
    found.rounds, found.since_snapshot = len(labels), max(0, found.events - max(snapshots, default=0))
    numbers = collections.Counter(min(label, 0) for label in labels)
    found.statuses = {name: numbers[code] for code, name in STATUSES.items()}
    with contextlib.suppress(UserError):  # the newest snapshot is damaged
        found.spent = reader.read_snapshot(max(snapshots), FORMAT, functools.partial(_read_spent, found.limits))
    return found


def _read_spent(limits: Limits, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> float | None:
    """Return what exploration had cost in a saved model with this budget; None where it had another."""
    is_same = limits.budget is not None and limits.to_dict()["budget"] == header["limits"]["budget"]
    return float(arrays["limits.spending.spent"][1]) if is_same else None
