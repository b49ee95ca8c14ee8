"""The events of a model's log, as values and as rows of the tables (:mod:`gappletron.online.tables`).

Events are data, with what happened by chance or by the clock in them, so a replay reads no clock. Classes and actions
are positions in the graph of the round. Arrays are little-endian doubles, and 64-bit integers for the indices of
features. Each row has a checksum of its other columns: a database does not notice a bit that flips inside a value.
"""

import functools
import hashlib
import itertools
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from gappletron.base.errors import Damaged
from gappletron.data.vectors import Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import Floats, Indices
from gappletron.play import archive

# The numbers before the probabilities: the round, the action, and the greedy class.
BEFORE = 3
# In place of the scores that came with a row, where none did.
NONE = np.zeros(0)
# In place of a label: the graph hid it; no feedback will come; the receipt has expired.
UNSEEN_LABEL, FORGOTTEN_LABEL, EXPIRED_LABEL = -1, -2, -3
STATUSES = {0: "seen", UNSEEN_LABEL: "unseen", FORGOTTEN_LABEL: "forgotten", EXPIRED_LABEL: "expired"}
SEEN, LABELS = STATUSES[0], {status: label for label, status in STATUSES.items()}
# What the checksums of rows are over, beside bytes and texts.
ACT = struct.Struct("<qqdqqdqqq")
FED = struct.Struct("<qqdq")


class Features(NamedTuple):
    """A checked row as it was given, without bias and scaling."""

    indices: Indices = np.zeros(0, np.int64)
    values: Floats = np.zeros(0)


class Opened(NamedTuple):
    """A process has opened the model: from round `first` on its receipts have this name.

    `limits` are those of waiting receipts from then on: their number, their bytes, their age.
    """

    time: float
    name: str
    first: int
    versions: dict[str, str]
    limits: list[Any]


class Decided(NamedTuple):
    """An action was drawn (or, where `followed`, taken over from another model).

    `scores` are those that came with the row, checked and between -1 and 1; empty where none came. `features` are None
    where they were dropped.
    """

    session: str
    round: int
    time: float
    action: int
    greedy: int
    graph: int
    followed: bool
    features: Features | None
    probabilities: Floats
    scores: Floats = NONE


class Fed(NamedTuple):
    """The feedback of a decision: the label's position, or what stands in its place where there is none."""

    round: int
    time: float
    label: int


class Taught(NamedTuple):
    """A row with a known label was learned without acting; the propensity is None where none was given."""

    time: float
    label: int
    propensity: float | None
    indices: list[int]
    values: list[float]
    scores: list[float] | None


class Dropped(NamedTuple):
    """A row was taught, and dropped when it was old."""

    time: float


class Added(NamedTuple):
    """A class was added: from now on the model's graph is the one of this version."""

    time: float
    graph: int


class GraphChanged(NamedTuple):
    """From now on the model's graph is the one of this version: other edges or costs, the same classes and actions."""

    time: float
    graph: int


class RolledBack(NamedTuple):
    """The learner was made what it was before event number `event`, after so many rounds."""

    time: float
    event: int
    round: int


class Promoted(NamedTuple):
    """The model decides from now on, and no longer `over`, in whose shadow it was.

    Of several models the one with the largest `term` decides. For readers, and for who starts the models: a replay does
    nothing here.
    """

    time: float
    over: str
    term: int


class Demoted(NamedTuple):
    """The model is from now on in the shadow of `by`; as :class:`Promoted`."""

    time: float
    by: str
    term: int


class Grown(NamedTuple):
    """The model got more features."""

    time: float
    features: int


class Limited(NamedTuple):
    """The limits on the exploration were changed (:meth:`gappletron.Limits.to_dict`)."""

    time: float
    limits: dict[str, Any]


class Named(NamedTuple):
    """Names of features are kept from now on: lists of a feature, its name and its sign
    (:class:`gappletron.data.records.kept_names.KeptName`).
    """

    time: float
    names: list[Any]


class WasReset(NamedTuple):
    """Somebody asked the learner to forget what may be out of date."""

    time: float


class Restarted(NamedTuple):
    """The learner restarted after this number of decisions, and why (:class:`gappletron.Restart`).

    For readers: it follows from the events before it, and a replay does nothing here.
    """

    time: float
    round: int
    reason: str


Change: TypeAlias = (
    Opened
    | Taught
    | Added
    | GraphChanged
    | Grown
    | Limited
    | Named
    | WasReset
    | Restarted
    | RolledBack
    | Promoted
    | Demoted
)
Event: TypeAlias = Decided | Fed | Change | Dropped
KINDS: dict[str, Any] = {
    "opened": Opened,
    "taught": Taught,
    "class added": Added,
    "graph changed": GraphChanged,
    "grown": Grown,
    "limited": Limited,
    "named": Named,
    "reset": WasReset,
    "restarted": Restarted,
    "rolled back": RolledBack,
    "promoted": Promoted,
    "demoted": Demoted,
}
NAMES_OF_KINDS = {made: kind for kind, made in KINDS.items()}


# -------------------------------------------------------------------------------------------------------------- writing


def encode_graph(graph: FeedbackGraph) -> str:
    """Return the document of a graph in the table of graphs."""
    return json.dumps(archive.encode_graph(graph), sort_keys=True)


def hash_graph(document: str) -> int:
    """Return the version of a graph: a hash of its document, so it means the same in every store."""
    return int.from_bytes(hashlib.blake2b(document.encode(), digest_size=8).digest(), "little") >> 1  # 63 bits


class Answer(NamedTuple):
    """The answer to a request under its idempotency key."""

    key: str
    fingerprint: bytes
    answer: bytes
    time: float


@dataclass
class Batch:
    """The rows of one transaction of a model: event number `first` is its first, `stop` the next one after it."""

    model: int
    first: int
    stop: int = field(init=False)
    graphs: dict[int, str] = field(default_factory=dict)
    acts: list[tuple[Any, ...]] = field(default_factory=list)
    feedback: list[tuple[Any, ...]] = field(default_factory=list)
    changes: list[tuple[Any, ...]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    nbytes: int = 0
    """About how much memory it takes."""

    def __post_init__(self) -> None:
        self.stop = self.first

    def add_act(
        self,
        session: str,
        time: float,
        graph: int,
        followed: bool,
        decision: Floats,
        ids: bytes,
        values: bytes,
        scores: bytes,
    ) -> None:
        """Add a decision.

        :param decision: the round, the action, the greedy class, and the probabilities.
        """
        round, action, greedy = map(int, decision[:BEFORE].tolist())
        chances, chance = decision[BEFORE:].tobytes(), decision.item(BEFORE + action)
        features = crc32(values, crc32(ids))
        head = self.stop, round, time, action, greedy, chance, graph, int(followed), features
        checksum = _sum_act(head, session, chances, scores)
        own = self.model, self.stop, session, round, time, action, greedy, chance, chances
        self.acts.append((*own, scores or None, graph, int(followed), ids, values, features, checksum))
        self.stop += 1
        self.nbytes += 200 + len(chances) + len(scores) + len(ids) + len(values)

    def add_acts(self, session: str, time: float, graph: int, rows: Vectors, decisions: Floats, scores: Floats) -> None:
        """Add many decisions; `decisions` has a row for each, and so has `scores`, where scores came with the rows."""
        ids, numbers, given = rows.indices.astype(np.int64).tobytes(), rows.values.tobytes(), scores.tobytes()
        size = 8 * scores.shape[1]
        for t, (decision, (a, b)) in enumerate(zip(decisions, itertools.pairwise(rows.indptr.tolist()), strict=True)):
            row = ids[8 * a : 8 * b], numbers[8 * a : 8 * b], given[size * t : size * (t + 1)]
            self.add_act(session, time, graph, False, decision, *row)

    def add_feedback(self, rounds: Sequence[int], time: float, labels: Sequence[int]) -> None:
        """Add feedback for these rounds."""
        for seq, round, label in zip(itertools.count(self.stop), rounds, labels, strict=False):
            status = (SEEN, label) if label >= 0 else (STATUSES[label], None)
            self.feedback.append((self.model, seq, round, time, *status, _sum_feedback(seq, round, time, label)))
        self.stop += len(rounds)
        self.nbytes += 100 * len(rounds)

    def add_change(self, change: Change, who: str | None = None) -> None:
        """Add a change of another kind."""
        document = change._asdict()
        row = self.stop, NAMES_OF_KINDS[type(change)], document.pop("time"), json.dumps(document), who
        self.changes.append((self.model, *with_sum(*row)))
        self.stop += 1
        self.nbytes += 100 + len(row[3])


def _sum_act(head: tuple[Any, ...], session: str, chances: bytes, scores: bytes) -> int:
    """Return the checksum of a decision; `head` has its numbers, and the checksum of its features."""
    return crc32(scores, crc32(chances, crc32(session.encode(), crc32(ACT.pack(*head)))))


def _sum_feedback(seq: int, round: int, time: float, label: int) -> int:
    return crc32(FED.pack(seq, round, time, label))


def with_sum(*columns: Any) -> tuple[Any, ...]:
    """Return the columns of a row with their checksum as the last."""
    return (*columns, functools.reduce(_add, columns, 0))


def _add(sum: int, column: Any) -> int:
    return crc32(column if isinstance(column, bytes) else repr(column).encode(), sum)


# -------------------------------------------------------------------------------------------------------------- reading


def read_act(row: Sequence[Any]) -> Decided:
    """Return the decision of a row of `acts`; :class:`Damaged` where its checksums do not fit."""
    _, seq, session, round, time, action, greedy, chance, *rest = row
    chances, scores, graph, followed, ids, values, sum, whole = rest
    head = seq, round, time, action, greedy, chance, graph, followed, sum
    features = None
    try:
        is_whole = _sum_act(head, session, chances, scores or b"") == whole
        if is_whole and ids is not None:
            is_whole = crc32(values, crc32(ids)) == sum
            features = Features(np.frombuffer(ids, np.int64), np.frombuffer(values))
        given, chosen = NONE if scores is None else np.frombuffer(scores), np.frombuffer(chances)
    except (struct.error, TypeError, ValueError, AttributeError):  # a value of another type
        raise Damaged from None
    if not is_whole:
        raise Damaged
    return Decided(session, round, time, action, greedy, graph, bool(followed), features, chosen, given)


def read_feedback(row: Sequence[Any]) -> Fed:
    """Return the feedback of a row of `feedback`; :class:`Damaged` where its checksum does not fit."""
    _, seq, round, time, status, index, checksum = row
    label: Any = LABELS.get(status) if index is None else index
    try:
        if _sum_feedback(seq, round, time, label) != checksum or STATUSES[min(label, 0)] != status:
            raise Damaged
    except (struct.error, TypeError):
        raise Damaged from None
    return Fed(round, time, label)


def read_change(row: Sequence[Any]) -> Change | Dropped:
    """Return the change of a row of `changes`; :class:`Damaged` where its checksum does not fit."""
    _, _, kind, time, document, _who, _ = row
    if document is None and kind == NAMES_OF_KINDS[Taught]:
        return Dropped(time)
    check_sum(row[1:])
    try:
        change = KINDS[kind](time, **json.loads(document))
    except (LookupError, TypeError, ValueError, RecursionError):
        raise Damaged from None
    if isinstance(change, RolledBack | Promoted | Demoted) and not _has_types(change):
        raise Damaged
    return change


def _has_types(change: Any) -> bool:
    """Return whether the fields of a change, beside its time, have the types that they are declared with."""
    return all(
        type(value) is kind
        for value, kind in zip(change[1:], list(type(change).__annotations__.values())[1:], strict=True)
    )


def check_sum(row: Sequence[Any], *types: type) -> None:
    """Refuse a row whose last column is not the checksum of the others (see :func:`with_sum`), or where they have other
    types: a checksum finds damage, not a forger.
    """
    if with_sum(*row[:-1]) != tuple(row) or any(type(each) is not kind for each, kind in zip(row, types, strict=False)):
        raise Damaged


def check_commit(row: Sequence[Any]) -> None:
    """Refuse a row of `commits` that is damaged."""
    check_sum(row[1:], int, str, int, int)


def check_answer(row: Sequence[Any]) -> None:
    """Refuse a row of `answers` that is damaged."""
    check_sum(row[1:], str, bytes, bytes, float)
