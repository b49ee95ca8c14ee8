"""The journal of one model: entries are added by the model, written in groups, and followed by snapshots.

Calls of one model add entries under the model's lock (:meth:`Journal.add`), before what they tell of happens. A signal
handler may raise between any two steps; whether an entry has happened can be read off the record of its turn
(:mod:`gappletron.play.turns`), so an interrupted call is brought to its end when the next one begins
(:meth:`Journal.settle`). :meth:`Journal.publish` marks the end of what belongs together, and :meth:`Journal.commit`
writes everything published so far as one group: a thread that waits for another's write finds its own entries written
by it, so that many calls share one write to the disk. The store's own count tells whether a write has succeeded.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from gappletron.base.checks import whole
from gappletron.base.errors import Unavailable, UserError
from gappletron.base.signals import held_back
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import Vector
from gappletron.online import events
from gappletron.online.events import Event
from gappletron.online.receipts import Receipt
from gappletron.online.store import Group, Store, Trouble
from gappletron.play.saved import graph_document
from gappletron.play.turns import NEW

DURABILITIES = ("disk", "os")
KEPT_SNAPSHOTS = 2
"""Beside the first: if the newest is damaged, the one before it and the log lead to the same state."""


SMALL, WORTH = 2**20, 4
"""A snapshot of more bytes than the first waits until the log has grown by so many times its size: it then takes some
percent of the time at most, also where decisions come by the thousand."""
LOOK_EVERY = 0.1
"""Seconds after which a write looks again whether the files of the journal are still there."""


MOST_GRAPHS = 1024
"""So many graphs are remembered as logged."""


@dataclass(frozen=True)
class Policy:
    """How a journal is written.

    `durability`: ``"disk"`` (a call that has returned survives a power failure) or ``"os"`` (it survives the end of the
    process). `snapshot_every`: the least number of events between snapshots. `keep_rows`: of how many rounds at least
    the features are kept; None keeps all.
    """

    durability: str = "disk"
    snapshot_every: int = 100_000
    keep_rows: int | None = None

    def __post_init__(self) -> None:
        if self.durability not in DURABILITIES:
            raise UserError(f"durability={self.durability!r} is not known: choose 'disk' or 'os'")
        whole(self.snapshot_every, "snapshot_every", least=1)
        if self.keep_rows is not None:
            whole(self.keep_rows, "keep_rows", least=0)


class Snapshot(NamedTuple):
    """A copy of a model's state (:mod:`gappletron.play.saved`), and the number of events that led to it.

    `more` makes further arrays of it: what takes long is done there, when the model is in use again. The features of
    events below `stop` need not be kept; None where all are kept.
    """

    at: int
    kind: str
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    more: Callable[[], dict[str, NDArray[Any]]]
    stop: int | None


class Entry(NamedTuple):
    """Events that happen whatever the model's records say: their bytes, and how many there are."""

    data: bytes
    number: int = 1

    @property
    def has_happened(self) -> bool:
        """Whether it is to be written."""
        return True

    def pack(self) -> bytes:
        """Return the bytes of the events."""
        return self.data


class DecisionEntry(NamedTuple):
    """A decision, once the record of its turn says that the round was played."""

    receipt: Receipt
    vector: Vector
    version: int
    followed: bool
    number: int = 1

    @property
    def has_happened(self) -> bool:
        """Whether the round was played."""
        return self.receipt.turn.status != NEW

    def pack(self) -> bytes:
        """Return the bytes of the event."""
        indices, values, _ = self.vector
        row, decision = indices.tobytes() + values.tobytes(), self.receipt.turn.decision.tobytes()
        flags = events.FOLLOWED * self.followed
        return events.pack_decision(self.receipt.time, self.version, flags, indices.size, row, decision)


class FeedbackEntry(NamedTuple):
    """What ended the waiting of a receipt, once the record of its turn has this status."""

    receipt: Receipt
    status: int
    event: events.Fed | events.Expired
    number: int = 1

    @property
    def has_happened(self) -> bool:
        """Whether this is what has ended it."""
        return self.receipt.turn.status == self.status

    def pack(self) -> bytes:
        """Return the bytes of the event."""
        return events.pack_event(self.event)


AnyEntry: TypeAlias = Entry | DecisionEntry | FeedbackEntry


class InFlight(NamedTuple):
    """A write: the number of events after it, and the published groups that it takes."""

    after: int
    groups: list[list[AnyEntry]]


class Journal:
    """What a model writes to a store.

    >>> import tempfile
    >>> from gappletron.online.store import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal(open_store(folder), Policy())
    ...     journal.add(Entry(b"..."))
    ...     journal.publish()
    ...     journal.commit()
    ...     journal.close()
    >>> journal.store.count
    1
    """

    def __init__(self, store: Store, policy: Policy) -> None:
        self.store, self.policy = store, policy
        self._versions: dict[FeedbackGraph, int] = {}
        self._open: list[AnyEntry] = []
        """What the calls since the last :meth:`publish` have added; of these, `_settled` are known to have happened."""
        self._settled = 0
        self._published: collections.deque[list[AnyEntry]] = collections.deque()
        self._in_flight: InFlight | None = None
        self._writing = threading.RLock()  # reentrant, so that it tells who has it
        self._is_stuck = False
        self.is_closed = False
        self.has_gap = False
        """Whether something has happened that could not be logged."""
        self._snapshot_at = max(store.snapshots(), default=0)
        self._snapshot_bytes = self._bytes_since = 0
        self._snapshotting = threading.Lock()
        self.background_error: str | None = None
        """Why the last snapshot in the background failed; None where it did not."""
        self._looked = time.monotonic()

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the journal, also where no call has failed yet; None where all is well."""
        if self.is_closed:
            return None
        gone = self.store.find_loss()
        if gone is not None:
            return Trouble(gone, stops_writes=True)
        if self.background_error is None:
            return None
        sentence = (
            f"the last snapshot of the journal in {self.store.name!r} could not be stored ({self.background_error}): "
            "nothing is lost, but opening it takes longer; remove the cause, and it is tried again by itself"
        )
        return Trouble(sentence, stops_writes=False)

    # ----------------------------------------------------------------------------------------------------------- events

    def add(self, entry: AnyEntry) -> None:
        """Add an entry, before or after what it tells of happens; under the model's lock."""
        self._open.append(entry)

    def add_event(self, event: Event) -> None:
        """Add an event that has happened."""
        self._open.append(Entry(events.pack_event(event)))

    def settle(self) -> None:
        """Drop what an interrupted call has added and not done; at the beginning and at the end of every call."""
        try:
            was_published = self._published[-1] is self._open  # interrupted in the middle of publish()
        except IndexError:
            was_published = False
        if was_published:
            self._open, self._settled = [], 0
        elif self._settled != len(self._open):
            self._open[self._settled :] = [entry for entry in self._open[self._settled :] if entry.has_happened]
            self._settled = len(self._open)

    def publish(self) -> None:
        """What was added so far belongs together, and may be written from now on."""
        if self._open:
            self._published.append(self._open)
            self._open, self._settled = [], 0

    def version_of(self, graph: FeedbackGraph) -> int:
        """The number under which the journal knows a graph, which is logged when it is new."""
        version = self._versions.get(graph)
        if version is None:
            document = graph_document(graph)
            text = json.dumps(document, sort_keys=True).encode()
            version = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1  # 63 bits
            self.add_event(events.GraphMade(version, document))
            self._versions[graph] = version
            if len(self._versions) > MOST_GRAPHS:
                self._versions.clear()
        return version

    def begin_part(self) -> int:
        """Store all that is published; from here on the log can be read without what stands before: graphs are logged
        again when they are used. The number of events up to here; under the model's lock, between two calls.
        """
        self.commit()
        self._versions.clear()
        return self.store.count

    def check(self) -> None:
        """Before a call that changes the model: what an earlier call could not write is written now, or an error."""
        if self.is_closed:
            raise UserError(
                f"the journal in {self.store.name!r} was closed: open the folder again (restart the server)"
            )
        if self._is_stuck:
            self.commit()

    @contextlib.contextmanager
    def noting_gaps(self) -> Iterator[None]:
        """Note where an error keeps what has happened from being logged, such as one for want of memory."""
        try:
            yield
        except BaseException:
            self.has_gap = True
            raise

    def refuse_gap(self) -> None:
        """Refuse to go on after what could not be logged: what follows it could not be replayed."""
        if self.has_gap:
            raise Unavailable(
                f"a change of the model in {self.store.name!r} was made and not logged, after an error in the middle "
                "of it: open the folder again (restart the server)"
            )

    def commit(self) -> None:
        """Return when everything published so far is stored; a UserError where it cannot be."""
        if not self._published:  # what another thread is writing is removed when it is stored
            return
        self._refuse_nesting()
        with self._writing:
            self._forget_stored()
            while self._published:
                self._write()

    def _refuse_nesting(self) -> None:
        """A signal handler that waits for what it has interrupted would wait for ever."""
        if self._writing._is_owned():  # type: ignore[attr-defined]
            raise UserError(
                "the journal is in the middle of a write, which a signal handler has interrupted: let the handler set "
                "a flag or raise, and call commit() or close() afterwards"
            )

    def _write(self) -> None:
        """Store what is published as one group."""
        groups = list(self._published)
        entries = list(itertools.chain(*groups))
        count = sum(entry.number for entry in entries)
        group = Group(self.store.count, count, b"".join(entry.pack() for entry in entries))
        self._in_flight = InFlight(group.first + count, groups)
        self._bytes_since += len(group.events)
        try:
            if time.monotonic() - self._looked > LOOK_EVERY:
                self._refuse_lost()
                self._looked = time.monotonic()
            self.store.append(group, durable=self.policy.durability == "disk")
        except BaseException:
            self._is_stuck = True
            raise
        self._forget_stored()
        self._is_stuck = False

    def _refuse_lost(self) -> None:
        gone = self.store.find_loss()
        if gone is not None:
            raise Unavailable(gone)

    def _forget_stored(self) -> None:
        """Remove the entries of the last write if it has succeeded; may be interrupted, and called again."""
        write = self._in_flight
        if write is not None and self.store.count == write.after:
            for entries in write.groups:
                if self._published and self._published[0] is entries:
                    entries.clear()  # an interrupted publish() may still have it open
                    self._published.popleft()
        self._in_flight = None

    # -------------------------------------------------------------------------------------------------------- snapshots

    @property
    def is_snapshot_due(self) -> bool:
        """Whether so much was logged since the last snapshot that it is time for another."""
        is_worth_it = self._snapshot_bytes <= SMALL or self._bytes_since >= WORTH * self._snapshot_bytes
        return is_worth_it and self.store.count - self._snapshot_at >= self.policy.snapshot_every

    def put_snapshot(self, made: Callable[[], Snapshot]) -> None:
        """Store the snapshot that `made` makes, after the one that is being stored."""
        self._refuse_nesting()
        with held_back(), self._snapshotting:  # a signal handler that stores one too would wait for ever
            self._put(made())

    def put_snapshot_in_background(self, made: Callable[[], Snapshot]) -> None:
        """The same in a thread, but `made` is called now; nothing happens where another is being stored.

        An error of the thread is noted, and the next snapshot tries again.
        """
        with held_back():  # the lock is released by the thread, so there must be one
            if self.is_closed or not self._snapshotting.acquire(blocking=False):
                return
            try:
                thread = threading.Thread(target=self._put_in_background, args=(made(),), name="gappletron snapshot")
                thread.start()
            except Exception as error:  # what the call did is stored: a snapshot that fails must not make it fail
                self._snapshotting.release()
                self._note(error)

    def _put_in_background(self, snapshot: Snapshot) -> None:
        try:
            self._put(snapshot)
            self.background_error = None
        except Exception as error:  # nobody would see it in a thread
            self._note(error)
        finally:
            self._snapshotting.release()

    def _note(self, error: Exception) -> None:
        """A snapshot has failed; it is tried again after as many events as between two of them."""
        self.background_error = str(error) or type(error).__name__
        self._snapshot_at, self._bytes_since = self.store.count, 0

    def _put(self, snapshot: Snapshot) -> None:
        """Store a snapshot, remove those that are not needed any more, and compact the log."""
        at, kind, header, copied, more, stop = snapshot
        arrays = copied | more()
        self._refuse_lost()
        with self._writing:
            self.store.synchronise()  # a snapshot must not outlive the log that leads to it
        self.store.put_snapshot(at, kind, header, arrays)
        self.store.read_snapshot(at, kind, lambda *_: None)  # whole, before anything older is given up
        self._snapshot_bytes = sum(array.nbytes for array in arrays.values())
        self._snapshot_at, self._bytes_since = at, 0
        others = self.store.snapshots()[1:]  # the first leads, with the whole log, to every state
        for old in others[:-KEPT_SNAPSHOTS]:
            self.store.drop_snapshot(old)
        if stop is not None and len(others) >= KEPT_SNAPSHOTS:
            self.store.compact(min(stop, others[-KEPT_SNAPSHOTS]), events.drop_features)

    def wait(self) -> None:
        """Return when no snapshot is being stored."""
        with self._snapshotting:
            pass

    def close(self) -> None:
        """Write what is published, and let another process open the store."""
        self._refuse_nesting()
        self.is_closed = True
        try:
            self.commit()
        finally:
            with self._snapshotting, self._writing:
                self.store.close()
