"""The events of a journal, as bytes and as values.

An event is its kind (one byte), the length of its body (four bytes) and the body. Numbers are little-endian. Classes
and actions are positions in the graph of the round, whose version the event names.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import Damaged
from gappletron.kernel.numerics import Floats

__all__ = [
    "Added",
    "Answered",
    "Damaged",
    "Decided",
    "Event",
    "Expired",
    "Fed",
    "GraphMade",
    "Grown",
    "Limited",
    "Opened",
    "Taught",
    "events_of",
    "without_features",
]

HEAD = struct.Struct("<BI")
DECISION = struct.Struct("<dqBI")
"""Time, graph, flags, and the size of the row; then the row, and what was decided."""
BEFORE = 3
"""The numbers before the probabilities: the round, the action, and the greedy class."""
WHOLE_DECISION = struct.Struct("<BIdqBI")
FEEDBACK = struct.Struct("<qdi")
WHOLE_FEEDBACK = struct.Struct("<BIqdi")
DECISION_HEADS = np.dtype(
    [("kind", "u1"), ("length", "<u4"), ("time", "<f8"), ("graph", "<i8"), ("flags", "u1"), ("size", "<u4")]
)
FEEDBACKS = np.dtype([("kind", "u1"), ("length", "<u4"), ("round", "<i8"), ("time", "<f8"), ("label", "<i4")])
"""The same two for many at once."""
EXPIRY = struct.Struct("<qd")
TEACHING = struct.Struct("<didI")
ANSWER = struct.Struct("<dHH")
GROWTH = struct.Struct("<q")

FOLLOWED, HASHED = 1, 2
"""Flags of a decision: the action was another model's; a hash stands for the features."""
HASH_BYTES = 16
FORGOTTEN = -2
"""In place of a label: no feedback will come. -1 stands for a label that the graph hid."""


class Features(NamedTuple):
    """A checked row as it was given, without bias and scaling; `digest` stands for it once it was compacted."""

    indices: NDArray[np.int32]
    values: Floats
    digest: bytes = b""


NO_FEATURES = np.zeros(0, np.int32), np.zeros(0)


class Opened(NamedTuple):
    """A process has opened the journal: from round `first` on its receipts have this name.

    `waiting` are the limits of waiting receipts from then on: their number, their bytes, their age.
    """

    name: str
    first: int
    time: float
    versions: dict[str, str]
    waiting: list[Any]

    def to_bytes(self) -> bytes:
        return _json_event(Opened, self._asdict())


class GraphMade(NamedTuple):
    """A feedback graph, which decisions refer to by its version: a hash of the document, so it means the same in every
    journal.
    """

    version: int
    document: dict[str, Any]

    def to_bytes(self) -> bytes:
        return _json_event(GraphMade, self._asdict())


class Decided(NamedTuple):
    """An action was drawn (or, where `followed`, taken over from another model)."""

    round: int
    time: float
    action: int
    greedy: int
    graph: int
    followed: bool
    features: Features
    probabilities: Floats

    def to_bytes(self) -> bytes:
        indices, values, digest = self.features
        row = digest or indices.tobytes() + values.tobytes()
        flags = FOLLOWED * self.followed | HASHED * bool(digest)
        decision = np.concatenate([[self.round, self.action, self.greedy], self.probabilities])
        return packed_decision(self.time, self.graph, flags, len(indices), row, decision.tobytes())


class Fed(NamedTuple):
    """The feedback of a decision: the label's position, -1 where the graph hid it, -2 where none will come."""

    round: int
    time: float
    label: int

    def to_bytes(self) -> bytes:
        return packed_feedback(*self)


class Expired(NamedTuple):
    """A receipt has expired."""

    round: int
    time: float

    def to_bytes(self) -> bytes:
        return HEAD.pack(KIND_OF[Expired], EXPIRY.size) + EXPIRY.pack(*self)


class Taught(NamedTuple):
    """A row with a known label was learned without acting."""

    time: float
    label: int
    propensity: float
    features: Features

    def to_bytes(self) -> bytes:
        indices, values, digest = self.features
        row = digest or indices.tobytes() + values.tobytes()
        size = 0 if digest else len(indices)
        body = TEACHING.pack(self.time, self.label, self.propensity, size) + row
        return HEAD.pack(KIND_OF[Taught], len(body)) + body


class Added(NamedTuple):
    """A class was added: from now on the model's graph is the one of this version."""

    graph: int
    time: float

    def to_bytes(self) -> bytes:
        return _json_event(Added, self._asdict())


class Grown(NamedTuple):
    """The model got more features."""

    features: int

    def to_bytes(self) -> bytes:
        return HEAD.pack(KIND_OF[Grown], GROWTH.size) + GROWTH.pack(self.features)


class Limited(NamedTuple):
    """The limits on the exploration were changed (:meth:`gappletron.Limits.to_dict`)."""

    limits: dict[str, Any]
    time: float

    def to_bytes(self) -> bytes:
        return _json_event(Limited, self._asdict())


class Answered(NamedTuple):
    """A request was answered under an idempotency key."""

    time: float
    key: str
    fingerprint: bytes
    answer: bytes

    def to_bytes(self) -> bytes:
        key = self.key.encode()
        body = ANSWER.pack(self.time, len(key), len(self.fingerprint)) + key + self.fingerprint + self.answer
        return HEAD.pack(KIND_OF[Answered], len(body)) + body


Event: TypeAlias = Opened | GraphMade | Decided | Fed | Expired | Taught | Added | Grown | Answered | Limited

KIND_OF: dict[Any, int] = {
    kind: number
    for number, kind in enumerate(
        (Opened, GraphMade, Decided, Fed, Expired, Taught, Added, Grown, Answered, Limited), 1
    )
}


DECIDED, FED = KIND_OF[Decided], KIND_OF[Fed]


def packed_decision(time: float, graph: int, flags: int, size: int, row: bytes, decision: bytes) -> bytes:
    """The bytes of a :class:`Decided` whose features, and whose round, action, greedy class and probabilities, are
    bytes already.
    """
    length = DECISION.size + len(row) + len(decision)
    return WHOLE_DECISION.pack(DECIDED, length, time, graph, flags, size) + row + decision


def packed_decisions(
    time: float, graph: int, indptr: NDArray[np.int64], indices: NDArray[np.int32], values: Floats, decisions: Floats
) -> bytes:
    """The bytes of many decisions for the rows of a sparse matrix; `decisions` has a row for each, with the round, the
    action, the greedy class and the probabilities.
    """
    sizes = np.diff(indptr)
    heads = np.zeros(sizes.size, DECISION_HEADS)
    heads["kind"], heads["time"], heads["graph"], heads["size"] = DECIDED, time, graph, sizes
    heads["length"] = DECISION.size + 12 * sizes + 8 * decisions.shape[1]
    head_bytes, decision_bytes = heads.tobytes(), decisions.tobytes()
    index_bytes, value_bytes = indices.tobytes(), values.tobytes()
    head, decision = WHOLE_DECISION.size, 8 * decisions.shape[1]
    parts: list[bytes] = []
    for t, (start, stop) in enumerate(itertools.pairwise(indptr.tolist())):
        parts += (
            head_bytes[head * t : head * (t + 1)],
            index_bytes[4 * start : 4 * stop],
            value_bytes[8 * start : 8 * stop],
            decision_bytes[decision * t : decision * (t + 1)],
        )
    return b"".join(parts)


def packed_feedback(round: int, time: float, label: int) -> bytes:
    """The bytes of a :class:`Fed`."""
    return WHOLE_FEEDBACK.pack(FED, FEEDBACK.size, round, time, label)


def packed_feedbacks(rounds: list[int], time: float, labels: list[int]) -> bytes:
    """The bytes of much feedback, for these rounds.

    >>> packed_feedbacks([3, 5], 0.5, [1, -1]) == packed_feedback(3, 0.5, 1) + packed_feedback(5, 0.5, -1)
    True
    """
    found = np.empty(len(rounds), FEEDBACKS)
    found["kind"], found["length"], found["time"] = FED, FEEDBACK.size, time
    found["round"], found["label"] = rounds, labels
    return found.tobytes()


def _json_event(kind: Any, values: dict[str, Any]) -> bytes:
    body = json.dumps(values).encode()
    return HEAD.pack(KIND_OF[kind], len(body)) + body


# -------------------------------------------------------------------------------------------------------------- reading


def raw_events(group: bytes) -> Iterator[tuple[int, bytes]]:
    """The kinds and bodies of a group of events."""
    at = 0
    while at < len(group):
        if at + HEAD.size > len(group):
            raise Damaged
        kind, size = HEAD.unpack_from(group, at)
        at += HEAD.size
        if kind not in READERS or at + size > len(group):
            raise Damaged
        yield kind, group[at : at + size]
        at += size


def events_of(group: bytes) -> Iterator[Event]:
    """The events of a group, in order."""
    for kind, body in raw_events(group):
        yield _event(kind, body)


def _event(kind: int, body: bytes) -> Event:
    try:
        return READERS[kind](body)
    except (struct.error, ValueError, TypeError) as error:
        raise Damaged from error


def _decision(body: bytes) -> Decided:
    time, graph, flags, size = DECISION.unpack_from(body)
    hashed = bool(flags & HASHED)
    stop = DECISION.size + (HASH_BYTES if hashed else 12 * size)
    if len(body) < stop + 8 * (BEFORE + 1) or (len(body) - stop) % 8:
        raise Damaged
    features = _features(body[DECISION.size : stop], size, hashed)
    decision = np.frombuffer(body, np.float64, offset=stop)
    round, action, greedy = (int(number) for number in decision[:BEFORE])
    probabilities = decision[BEFORE:].copy()  # aligned, as compiled code expects it
    return Decided(round, time, action, greedy, graph, bool(flags & FOLLOWED), features, probabilities)


def _teaching(body: bytes) -> Taught:
    time, label, propensity, size = TEACHING.unpack_from(body)
    return Taught(time, label, propensity, _features(body[TEACHING.size :], size, size == 0))


def _answer(body: bytes) -> Answered:
    time, key, fingerprint = ANSWER.unpack_from(body)
    first, second = ANSWER.size + key, ANSWER.size + key + fingerprint
    return Answered(time, body[ANSWER.size : first].decode(), body[first:second], body[second:])


def _features(row: bytes, size: int, hashed: bool) -> Features:
    if hashed and row:
        if len(row) != HASH_BYTES:
            raise Damaged
        return Features(*NO_FEATURES, row)
    if len(row) != 12 * size:
        raise Damaged
    values = np.frombuffer(row, np.float64, size, 4 * size).copy()
    return Features(np.frombuffer(row, np.int32, size).copy(), values)


READERS: dict[int, Callable[[bytes], Event]] = {
    1: lambda body: Opened(**json.loads(body)),
    2: lambda body: GraphMade(**json.loads(body)),
    3: _decision,
    4: lambda body: Fed(*FEEDBACK.unpack(body)),
    5: lambda body: Expired(*EXPIRY.unpack(body)),
    6: _teaching,
    7: lambda body: Added(**json.loads(body)),
    8: lambda body: Grown(*GROWTH.unpack(body)),
    9: _answer,
    10: lambda body: Limited(**json.loads(body)),
}


# ----------------------------------------------------------------------------------------------------------- compaction


def without_features(group: bytes) -> bytes:
    """The same events with a hash in place of the features of each row."""
    parts = []
    for kind, body in raw_events(group):
        event = _event(kind, body)
        if isinstance(event, Decided | Taught) and not event.features.digest:
            parts.append(event._replace(features=_hashed(event.features)).to_bytes())
        else:
            parts.append(HEAD.pack(kind, len(body)) + body)
    return b"".join(parts)


def _hashed(features: Features) -> Features:
    row = features.indices.tobytes() + features.values.tobytes()
    return Features(*NO_FEATURES, hashlib.blake2b(row, digest_size=HASH_BYTES).digest())
