"""The events of a journal, as values and as bytes.

An event is its kind (one byte), the length of its body (four bytes) and the body. Decisions, feedback, taught rows and
answers are packed, the others are JSON. Numbers are little-endian. Classes and actions are positions in the graph of
the round, whose version the event names.
"""

import hashlib
import itertools
import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import Damaged
from gappletron.kernel.types import Floats

HEAD = struct.Struct("<BI")
# Kind, length, time, graph, flags, the size of the row, and the number of scores that came with it; then the row, these
# scores, and what was decided.
DECISION = struct.Struct("<BIdqBII")
FEEDBACK = struct.Struct("<BIqdi")
# Time, label, propensity, the size of the row, and the number of scores; then the scores, and the row.
TEACHING = struct.Struct("<didII")
ANSWER = struct.Struct("<dHH")
# The numbers before the probabilities: the round, the action, and the greedy class.
BEFORE = 3
# Flags of a decision: the action was another model's; a hash stands for the features.
FOLLOWED, HASHED = 1, 2
HASH_BYTES = 16
# In place of the scores that came with a row, where none did.
NONE = np.zeros(0)
# In place of a label: no feedback will come. -1 stands for a label that the graph hid.
FORGOTTEN_LABEL = -2


class Features(NamedTuple):
    """A checked row as it was given, without bias and scaling; `digest` stands for it once it was compacted."""

    indices: NDArray[np.int32] = np.zeros(0, np.int32)
    values: Floats = np.zeros(0)
    digest: bytes = b""

    def to_bytes(self) -> bytes:
        """Return the row, or its digest."""
        return self.digest or self.indices.tobytes() + self.values.tobytes()

    def hashed(self) -> "Features":
        """Return a hash in place of the row."""
        made = self.digest or hashlib.blake2b(self.to_bytes(), digest_size=HASH_BYTES).digest()
        return Features(digest=made)


class Opened(NamedTuple):
    """A process has opened the journal: from round `first` on its receipts have this name.

    `limits` are those of waiting receipts from then on: their number, their bytes, their age.
    """

    name: str
    first: int
    time: float
    versions: dict[str, str]
    limits: list[Any]


class GraphMade(NamedTuple):
    """A feedback graph, which decisions refer to by its version: a hash of the document, so it means the same in every
    journal.
    """

    version: int
    document: dict[str, Any]


class Decided(NamedTuple):
    """An action was drawn (or, where `followed`, taken over from another model).

    `scores` are those that came with the row, checked and between -1 and 1; empty where none came.
    """

    round: int
    time: float
    action: int
    greedy: int
    graph: int
    followed: bool
    features: Features
    probabilities: Floats
    scores: Floats = NONE


class Fed(NamedTuple):
    """The feedback of a decision: the label's position, -1 where the graph hid it, -2 where none will come."""

    round: int
    time: float
    label: int


class Expired(NamedTuple):
    """A receipt has expired."""

    round: int
    time: float


class Taught(NamedTuple):
    """A row with a known label was learned without acting; the propensity is NaN where none was given."""

    time: float
    label: int
    propensity: float
    features: Features
    scores: Floats = NONE


class Added(NamedTuple):
    """A class was added: from now on the model's graph is the one of this version."""

    graph: int
    time: float


class Grown(NamedTuple):
    """The model got more features."""

    features: int


class Limited(NamedTuple):
    """The limits on the exploration were changed (:meth:`gappletron.Limits.to_dict`)."""

    limits: dict[str, Any]
    time: float


class WasReset(NamedTuple):
    """Somebody asked the learner to forget what may be out of date."""

    time: float


class Restarted(NamedTuple):
    """The learner began anew after this number of decisions, and why (:class:`gappletron.Restart`).

    For readers: it follows from the events before it, and a replay does nothing here.
    """

    round: int
    reason: str
    time: float


class Answered(NamedTuple):
    """A request was answered under an idempotency key."""

    time: float
    key: str
    fingerprint: bytes
    answer: bytes


Event: TypeAlias = (
    Opened | GraphMade | Decided | Fed | Expired | Taught | Added | Grown | Answered | Limited | WasReset | Restarted
)
# The number of an event's kind is its place here, from 1.
KINDS: tuple[Any, ...] = get_args(Event)
DECIDED, FED = KINDS.index(Decided) + 1, KINDS.index(Fed) + 1


# -------------------------------------------------------------------------------------------------------------- writing


def pack_event(event: Event) -> bytes:
    """Return the bytes of an event."""
    match event:
        case Decided(round, time, action, greedy, graph, followed, features, probabilities, scores):
            flags = FOLLOWED * followed | HASHED * bool(features.digest)
            decision = np.concatenate([[round, action, greedy], probabilities]).tobytes()
            return pack_decision(time, graph, flags, features.indices.size, features.to_bytes(), scores, decision)
        case Fed(round, time, label):
            return pack_feedback(round, time, label)
        case Taught(time, label, propensity, features, scores):
            body = TEACHING.pack(time, label, propensity, features.indices.size, scores.size)
            body += scores.tobytes() + features.to_bytes()
        case Answered(time, key, fingerprint, answer):
            name = key.encode()
            body = ANSWER.pack(time, len(name), len(fingerprint)) + name + fingerprint + answer
        case _:
            body = json.dumps(event._asdict()).encode()
    return HEAD.pack(KINDS.index(type(event)) + 1, len(body)) + body


def pack_decision(time: float, graph: int, flags: int, size: int, row: bytes, scores: Floats, decision: bytes) -> bytes:
    """Return the bytes of a :class:`Decided` whose features, and whose round, action, greedy class and probabilities,
    are bytes already.
    """
    length = DECISION.size - HEAD.size + len(row) + scores.nbytes + len(decision)
    head = DECISION.pack(DECIDED, length, time, graph, flags, size, scores.size)
    return head + row + scores.tobytes() + decision


def pack_decisions(
    time: float,
    graph: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: Floats,
    scores: Floats,
    decisions: Floats,
) -> bytes:
    """Return the bytes of many decisions for the rows of a sparse matrix; `decisions` has a row for each, with the
    round, the action, the greedy class and the probabilities, and so has `scores`, where scores came with the rows.
    """
    index_bytes, value_bytes, decision_bytes = indices.tobytes(), values.tobytes(), decisions.tobytes()
    score_bytes, count = scores.tobytes(), scores.shape[1]
    width = 8 * decisions.shape[1]
    least = DECISION.size - HEAD.size + 8 * count + width
    parts: list[bytes] = []
    for t, (start, stop) in enumerate(itertools.pairwise(indptr.tolist())):
        parts += (
            DECISION.pack(DECIDED, least + 12 * (stop - start), time, graph, 0, stop - start, count),
            index_bytes[4 * start : 4 * stop],
            value_bytes[8 * start : 8 * stop],
            score_bytes[8 * count * t : 8 * count * (t + 1)],
            decision_bytes[width * t : width * (t + 1)],
        )
    return b"".join(parts)


def pack_feedback(round: int, time: float, label: int) -> bytes:
    """Return the bytes of a :class:`Fed`."""
    return FEEDBACK.pack(FED, FEEDBACK.size - HEAD.size, round, time, label)


def pack_feedbacks(rounds: list[int], time: float, labels: list[int]) -> bytes:
    """Return the bytes of much feedback, for these rounds."""
    return b"".join(pack_feedback(round, time, label) for round, label in zip(rounds, labels, strict=True))


def drop_features(group: bytes) -> bytes:
    """Return the same events with a hash in place of the features of each row."""
    return b"".join(pack_event(_hash_row(event)) for event in unpack_events(group))


def _hash_row(event: Event) -> Event:
    return event._replace(features=event.features.hashed()) if isinstance(event, Decided | Taught) else event


# -------------------------------------------------------------------------------------------------------------- reading


def unpack_events(group: bytes) -> Iterator[Event]:
    """Return the events of a group, in order; :class:`Damaged` where these are not the bytes of events."""
    at = 0
    while at < len(group):
        if at + HEAD.size > len(group):
            raise Damaged
        kind, size = HEAD.unpack_from(group, at)
        stop = at + HEAD.size + size
        if not 1 <= kind <= len(KINDS) or stop > len(group):
            raise Damaged
        try:
            yield _unpack(KINDS[kind - 1], group[at:stop])
        except (struct.error, ValueError, TypeError) as error:
            raise Damaged from error
        at = stop


def _unpack(kind: Any, data: bytes) -> Event:
    """Return the event of this kind with these bytes, head and body."""
    body = data[HEAD.size :]
    if kind is Decided:
        return _unpack_decision(data)
    if kind is Fed:
        return Fed(*FEEDBACK.unpack(data)[2:])
    if kind is Taught:
        time, label, propensity, size, count = TEACHING.unpack_from(body)
        row = body[TEACHING.size + 8 * count :]
        scores = np.frombuffer(body, np.float64, count, TEACHING.size).copy()
        return Taught(time, label, propensity, _unpack_features(row, size, size == 0 and bool(row)), scores)
    if kind is Answered:
        time, key, fingerprint = ANSWER.unpack_from(body)
        first, second = ANSWER.size + key, ANSWER.size + key + fingerprint
        return Answered(time, body[ANSWER.size : first].decode(), body[first:second], body[second:])
    return kind(**json.loads(body))


def _unpack_decision(data: bytes) -> Decided:
    _, _, time, graph, flags, size, count = DECISION.unpack_from(data)
    hashed = bool(flags & HASHED)
    stop = DECISION.size + (HASH_BYTES if hashed else 12 * size)
    if len(data) < stop + 8 * (count + BEFORE + 1) or (len(data) - stop) % 8:
        raise Damaged
    features = _unpack_features(data[DECISION.size : stop], size, hashed)
    numbers = np.frombuffer(data, np.float64, offset=stop).copy()  # aligned, as compiled code expects it
    scores, decision = numbers[:count], numbers[count:]
    round, action, greedy = (int(number) for number in decision[:BEFORE])
    return Decided(round, time, action, greedy, graph, bool(flags & FOLLOWED), features, decision[BEFORE:], scores)


def _unpack_features(row: bytes, size: int, hashed: bool) -> Features:
    if len(row) != (HASH_BYTES if hashed else 12 * size):
        raise Damaged
    if hashed:
        return Features(digest=row)
    values = np.frombuffer(row, np.float64, size, 4 * size).copy()
    return Features(np.frombuffer(row, np.int32, size).copy(), values)
