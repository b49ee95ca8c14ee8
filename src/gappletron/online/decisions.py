"""The decisions of a store as a table, for analysis and for tools of off-policy evaluation; and what a store holds."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from gappletron.base import files
from gappletron.base.errors import UserError
from gappletron.base.text import defuse
from gappletron.online import events
from gappletron.online.contents import FORMAT
from gappletron.online.database import NAME, Place
from gappletron.online.events import Opened, Restarted
from gappletron.online.opening import Graphs
from gappletron.online.store import CURE, Store
from gappletron.play.limits import Limits

if TYPE_CHECKING:
    import pyarrow as pa

WAITING = "waiting"


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
            ("graph", pa.int64()),
            ("followed", pa.bool_()),
            ("status", pa.string()),
            ("label", pa.string()),
            ("feedback_time", moment),
            ("indices", pa.list_(pa.int64())),
            ("values", pa.list_(pa.float64())),
            ("restarts", pa.int64()),
        ]
    )


def read_decisions(place: str | os.PathLike[str], *, name: str = NAME) -> Iterator[pa.RecordBatch]:
    """Return the decisions of a stored model with their feedback, in batches of at most 10,000 rows (:func:`schema`).

    Another process may have it open. Every checksum is compared, so a damaged row is an error.

    >>> import tempfile
    >>> from gappletron import FeedbackGraph, Online, read_decisions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = f"{folder}/mail.sqlite"
    ...     with Online.open(place, graph=FeedbackGraph.full(["a", "b"]), features=2) as model:
    ...         receipt = model.act([0.5, 1.0])
    ...         model.learn(receipt, "b")
    ...     table = next(read_decisions(place)).to_pylist()
    >>> table[0]["action"], table[0]["label"], [round(p, 4) for p in table[0]["probabilities"]], table[0]["values"]
    ('a', 'b', [0.995, 0.005], [0.5, 1.0])
    """
    import pyarrow as pa

    with contextlib.closing(Store(place, name)) as store:
        for rows in _read_rows(store):
            yield pa.RecordBatch.from_pylist(rows, schema=schema())


def _read_rows(store: Store) -> Iterator[list[dict[str, Any]]]:
    """Return the rows of the table, in lists of at most one block of events."""
    beginning, stop = store.beginning, store.count
    restarts = store.read("SELECT count(*) FROM changes WHERE model = ? AND kind = 'restarted' AND seq < ?", beginning)[
        0
    ][0]
    graphs, first, fed, found = Graphs(store), 2**62, 0, 0
    for block in store.read_blocks(beginning, stop):
        decided = [event for _, event in block if isinstance(event, events.Decided)]
        fed += sum(isinstance(event, events.Fed) for _, event in block)
        feedback: dict[int, events.Fed] = {}
        if decided:
            first = min(first, decided[0].round)
            feedback = store.read_feedback(decided[0].round, decided[-1].round, stop)
            found += len(feedback)
        rows = []
        for _, event in block:
            if isinstance(event, events.Decided):
                rows.append(_make_row(event, graphs, feedback.get(event.round)) | {"restarts": restarts})
            restarts += isinstance(event, events.Restarted)
        if rows:
            yield rows
    # Some may belong to older decisions, which were removed.
    sql = "SELECT count(*) FROM feedback WHERE model = ? AND round < ? AND seq >= ? AND seq < ?"
    found += store.read(sql, first, beginning, stop)[0][0]
    if fed != found:  # an index is damaged: the log has feedback that is not found by its round
        raise UserError(f"{fed:,} pieces of feedback are in {store.name!r}, and {found:,} belong to decisions: {CURE}")


def _make_row(event: events.Decided, graphs: Graphs, feedback: events.Fed | None) -> dict[str, Any]:
    graph, features = graphs[event.graph], event.features
    label = None if feedback is None or feedback.label < 0 else str(graph.classes[feedback.label])
    return {
        "id": f"{event.session}-{event.round}",
        "round": event.round,
        "time": round(1e6 * event.time),
        "action": str(graph.actions[event.action]),
        "action_index": event.action,
        "probability": event.probabilities[event.action],
        "greedy": str(graph.classes[event.greedy]),
        "probabilities": event.probabilities,
        "scores": event.scores if event.scores.size else None,
        "graph": event.graph,
        "followed": event.followed,
        "status": WAITING if feedback is None else events.STATUSES[min(feedback.label, 0)],
        "label": label,
        "feedback_time": None if feedback is None else round(1e6 * feedback.time),
        "indices": None if features is None else features.indices,
        "values": None if features is None else features.values,
    }


def export(place: str | os.PathLike[str], path: str | os.PathLike[str], *, name: str = NAME) -> int:
    """Write the decisions of a stored model to a Parquet or CSV file; return the number of rows.

    In CSV the lists are JSON, and a text that a program for tables would take for a formula begins with an apostrophe.
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
            for batch in read_decisions(place, name=name):
                writer.write_batch(batch if suffix == ".parquet" else _flatten(batch))
                rows += batch.num_rows
    return rows


def _flatten(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with its lists as JSON, and no formulas."""
    import pyarrow as pa

    def flatten(column: Any) -> Any:
        if pa.types.is_list(column.type):
            return pa.array([None if item is None else json.dumps(item) for item in column.to_pylist()], pa.string())
        if pa.types.is_string(column.type):
            return pa.array([item and defuse(item) for item in column.to_pylist()], pa.string())
        return column

    return pa.RecordBatch.from_arrays([flatten(column) for column in batch.columns], batch.schema.names)


# -------------------------------------------------------------------------------------------------------------- summary


@dataclass
class Summary:
    """What a store holds of a model.

    `snapshots` are the numbers of events after which there is one, and `since_snapshot` events were logged after the
    newest. `statuses` counts the decisions by what became of them, and `dropped` those without features. `limits` are
    those on exploration, and `spent` what that had cost at the newest snapshot, where there is a budget; `propensity`
    what that had left of the least one, on average. The learner restarted `restarts` times; `restarted` is the last
    one, and `opened` the last time that the model was opened.
    """

    bytes: int
    snapshots: list[int]
    events: int
    since_snapshot: int
    rounds: int
    dropped: int
    first: float | None
    last: float | None
    statuses: dict[str, int]
    taught: int
    restarts: int
    restarted: Restarted | None
    opened: Opened | None
    answers: int
    limits: Limits
    spent: float | None = None
    propensity: float | None = None


def summarise(place: str | os.PathLike[str], *, name: str = NAME) -> Summary:
    """Count what a store holds of a model; another process may have it open."""
    with contextlib.closing(Store(place, name)) as store:
        snapshots, read = store.snapshots(), store.read
        newest = max(snapshots, default=0)
        acts = "SELECT count(*), count(*) - count(feature_ids), min(time), max(time) FROM acts WHERE model = ?"
        ((rounds, dropped, first, last),) = read(acts)
        kinds: dict[str, int] = dict(read("SELECT kind, count(*) FROM changes WHERE model = ? GROUP BY kind"))
        statuses: dict[str, int] = dict(read(f"SELECT status, count(*) FROM ({VIEW_OF_ONE}) AS found GROUP BY status"))
        limited: Any = store.read_last_change("limited")
        found = Summary(
            store.database.nbytes,
            snapshots,
            store.count,
            store.count - newest,
            rounds,
            dropped,
            first,
            last,
            {status: statuses[status] for status in (WAITING, *events.STATUSES.values()) if status in statuses},
            kinds.get("taught", 0),
            kinds.get("restarted", 0),
            store.read_last_change("restarted"),
            store.read_last_change("opened"),
            read("SELECT count(*) FROM answers WHERE model = ?")[0][0],
            Limits() if limited is None else Limits.from_dict(limited.limits),
        )
        with contextlib.suppress(UserError):  # the newest snapshot is damaged
            found.spent, found.propensity = store.read_snapshot(
                newest, FORMAT, functools.partial(_read_spent, found.limits)
            )
        return found


class Changes(NamedTuple):
    """The last changes of a model, oldest first, as tuples of the event, the kind, the time, who asked for it, and what
    it was (None for rows that were taught); how many events there are, and before which there is a snapshot.
    """

    events: int
    snapshots: list[int]
    changes: list[tuple[int, str, float, str | None, dict[str, Any] | None]]


def list_changes(place: Place, name: str = NAME, last: int = 100) -> Changes:
    """Return the last changes of a stored model; another process may have it open."""
    sql = "SELECT * FROM changes WHERE model = ? AND kind NOT IN ('restarted', 'named') ORDER BY seq DESC LIMIT ?"
    with contextlib.closing(Store(place, name)) as store:
        found = []
        for row in store.read(sql, last):
            change, (_, number, kind, when, document, who, _) = store.decode_change(row), row
            about = None if isinstance(change, events.Taught | events.Dropped) else json.loads(document)
            found.append((number, kind, when, who, about))
        return Changes(store.count, store.snapshots(), found[::-1])


VIEW_OF_ONE = "SELECT status FROM decisions WHERE model = (SELECT name FROM models WHERE model = ?)"


def _read_spent(limits: Limits, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> tuple[Any, Any]:
    """Return what exploration had cost in a saved model with these limits, and the mean of the least propensities; None
    where it had others, or no rounds.
    """
    if limits.budget is None or limits.to_dict() != header["limits"]:
        return None, None
    total, count = arrays["limits.spending.propensity"].tolist()
    return arrays["limits.spending.spent"].item(1), total / count if count else None
