"""What a model writes to its store: entries are added by the model, written together, and followed by snapshots.

Calls of one model add entries under the model's lock (:meth:`Journal.add`), before what they tell of happens. A signal
handler may raise between any two steps; whether an entry has happened can be read off the record of its turn
(:mod:`gappletron.play.turns`), so what an interrupted call has announced and not done is dropped when the next one
begins (:meth:`Journal.drop_undone`). :meth:`Journal.publish` marks the end of what belongs together, and
:meth:`Journal.commit` writes everything published so far as one transaction: a thread that waits for another's finds
its own entries written by it, so that many calls share one write to the disk. The store's own count of transactions
tells whether a write has succeeded.
"""

import collections
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.base.signals import held_back
from gappletron.graphs.graph import FeedbackGraph
from gappletron.online.events import Answer, Batch, Change, encode_graph, hash_graph
from gappletron.online.store import Store, Trouble
from gappletron.play.turns import NEW, WAITING, Turn

DURABILITIES = ("disk", "os")
# A snapshot of more bytes than the first waits until the log has grown by so many times its size: it then takes some
# percent of the time at most, also where decisions come by the thousand.
SMALL, WORTH = 2**20, 4
# So many graphs are remembered as logged.
MOST_GRAPHS = 1024
WEEK = 7 * 86_400.0


@dataclass(frozen=True)
class Policy:
    """How a model is stored.

    `durability`: ``"disk"`` (a call that has returned survives a power failure) or ``"os"`` (it survives the end of the
    process). `snapshot_every`: the least number of events between snapshots. `keep_rows`: of how many rounds at least
    the features are kept; None keeps all. `keep_answers`: for how many seconds answers under idempotency keys are kept.
    """

    durability: str = "disk"
    snapshot_every: int = 100_000
    keep_rows: int | None = None
    keep_answers: float = WEEK

    def __post_init__(self) -> None:
        if self.durability not in DURABILITIES:
            raise UserError(f"durability={self.durability!r} is not known: choose 'disk' or 'os'")
        whole(self.snapshot_every, "snapshot_every", least=1)
        if self.keep_rows is not None:
            whole(self.keep_rows, "keep_rows", least=0)
        number(self.keep_answers, "keep_answers", above=0.0)


class Snapshot(NamedTuple):
    """A copy of a model's state (:mod:`gappletron.play.archive`), and how many events and rounds led to it."""

    at: int
    rounds: int
    kind: str
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class Entry(NamedTuple):
    """What adds the rows of one or more events to a batch.

    They have happened once the record of the turn has another status than `before`; without a turn, at once.
    """

    write: Callable[[Batch], None]
    turn: Turn | None = None
    before: int = NEW

    @property
    def has_happened(self) -> bool:
        """Whether the events have taken place, so that they are to be written."""
        return self.turn is None or self.turn.status != self.before


@dataclass(eq=False)
class Bundle:
    """Entries that are written together or not at all: those of one call, or of one block of `hold()`."""

    entries: list[Entry] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    commit: float = math.inf
    """The number of its transaction; infinite as long as none was tried."""
    targets: list[int] = field(default_factory=list)
    """The events before which the model was in the states that it is rolled back to."""


class Journal:
    """What a model writes to a store."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self.store, self.policy = store, policy
        # By graph, and by what is no part of its value: its name, and the edges that the closure added.
        self._versions: dict[tuple[FeedbackGraph, str, tuple[tuple[int, int], ...]], int] = {}
        # What is not stored yet, oldest first. Calls add to the last, and those before it are published.
        self._bundles = collections.deque([Bundle()])
        self._writing = threading.RLock()  # reentrant, so that it tells who has it
        self._is_stuck = False
        self.is_closed = False
        self._snapshot_at = max(store.snapshots(), default=0)
        self._snapshot_bytes = self._bytes_since = 0
        self._snapshotting = threading.Lock()
        self._removing = threading.Lock()
        # Why the last snapshot in the background failed; None where it did not.
        self.background_error: str | None = None

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the store, also where no call has failed yet; None where all is well."""
        if self.is_closed:
            return None
        gone = self.store.database.find_loss()
        if gone is not None:
            return Trouble(gone, stops_writes=True)
        if self.background_error is None:
            return None
        sentence = (
            f"the last snapshot in {self.store.name!r} could not be stored ({self.background_error}): "
            "nothing is lost, but opening it takes longer; remove the cause, and it is tried again by itself"
        )
        return Trouble(sentence, stops_writes=False)

    # ----------------------------------------------------------------------------------------------------------- events

    def add(self, entry: Entry) -> None:
        """Add an entry, before or after what it tells of happens; under the model's lock."""
        self._bundles[-1].entries.append(entry)

    def add_change(self, change: Change, who: str | None = None) -> None:
        """Add a change that has happened, and who has asked for it."""
        self.add(Entry(lambda batch: batch.add_change(change, who)))

    @contextlib.contextmanager
    def keep_state(self, target: int) -> Iterator[None]:
        """Let a roll-back to the state before an event be logged inside: what that needs is there, and stays."""
        with held_back(), self._removing:
            self.store.check_reachable(target)
            self._bundles[-1].targets.append(target)
            yield

    def announce(self, turn: Turn, time: float, label: int) -> None:
        """Add the feedback that is about to end the waiting of a turn: it has happened once the record says so."""
        self.add(Entry(lambda batch: batch.add_feedback([turn.round], time, [label]), turn, WAITING))

    def drop_undone(self) -> None:
        """Drop what an interrupted call has added and not done; at the beginning and at the end of every call."""
        entries = self._bundles[-1].entries
        while entries and not entries[-1].has_happened:
            entries.pop()

    def publish(self) -> None:
        """Close the present bundle, so that :meth:`commit` may write it."""
        self.drop_undone()
        if self._bundles[-1].entries or self._bundles[-1].answers:
            self._bundles.append(Bundle())

    def find_version(self, graph: FeedbackGraph) -> int:
        """Return the number under which the store knows a graph, which is stored when it is new."""
        key = graph, graph.name, graph.completed
        version = self._versions.get(key)
        if version is None:
            document = encode_graph(graph)
            version = hash_graph(document)
            self.add(Entry(lambda batch: batch.graphs.update({version: document})))
            self._versions[key] = version
            if len(self._versions) > MOST_GRAPHS:
                self._versions.clear()
        return version

    def put_answer(self, answer: Answer) -> None:
        """Keep the answer to a request, with what else is in its bundle."""
        self._bundles[-1].answers[answer.key] = answer

    def find_answer(self, key: str, now: float) -> Answer | None:
        """Return the answer under a key; None where there is none, or it is too old."""
        for bundle in reversed(list(self._bundles)):  # first: what is removed here is in the store by then
            if key in bundle.answers:
                return bundle.answers[key]
        return self.store.find_answer(key, now - self.policy.keep_answers)

    def check(self) -> None:
        """Write what an earlier call could not write, or raise an error: before a call that changes the model."""
        if self.is_closed:
            raise UserError(f"the store {self.store.name!r} was closed: open it again (restart the server)")
        if self._is_stuck:
            self.commit()

    def commit(self) -> None:
        """Return when everything published so far is stored; a UserError where it cannot be."""
        if len(self._bundles) == 1:  # what another thread is writing is removed when it is stored
            return
        self._refuse_nesting()
        with self._writing:
            self.store.settle()
            self._forget_stored()
            published = list(self._bundles)[:-1]
            # What was tried before is tried again alone: its first transaction may turn out to be stored.
            tried = [bundle for bundle in published if bundle.commit < math.inf]
            for bundles in (tried, published[len(tried) :]):
                if bundles:
                    self._write(bundles)

    def _refuse_nesting(self) -> None:
        """Refuse a signal handler that would wait for ever for what it has interrupted."""
        if self._writing._is_owned():  # type: ignore[attr-defined]
            raise UserError(
                "the store is in the middle of a write, which a signal handler has interrupted: let the handler set "
                "a flag or raise, and call commit() or close() afterwards"
            )

    def _write(self, bundles: list[Bundle]) -> None:
        """Store the oldest bundles as one transaction."""
        batch = Batch(self.store.model, self.store.count)
        try:
            for bundle in bundles:
                for entry in bundle.entries:
                    entry.write(batch)
                batch.answers += bundle.answers.values()
            for bundle in bundles:
                bundle.commit = self.store.commits + 1
            self.store.append(batch)
        except BaseException:
            self._is_stuck = True
            raise
        self._bytes_since += batch.nbytes
        self._forget_stored()
        self._is_stuck = False

    def _forget_stored(self) -> None:
        """Remove what was stored; may be interrupted, and called again."""
        while self._bundles[0].commit <= self.store.commits:
            self._bundles.popleft()

    # -------------------------------------------------------------------------------------------------------- snapshots

    @property
    def is_snapshot_due(self) -> bool:
        """Whether so much was logged since the last snapshot that it is time for another."""
        is_worth_it = self._snapshot_bytes <= SMALL or self._bytes_since >= WORTH * self._snapshot_bytes
        return is_worth_it and self.store.count - self._snapshot_at >= self.policy.snapshot_every

    def put_snapshot(self, make: Callable[[], Snapshot]) -> None:
        """Store the snapshot that `make` makes, after the one that is being stored."""
        self._refuse_nesting()
        with held_back(), self._snapshotting:  # a signal handler that stores one too would wait for ever
            self._put(make())

    def put_snapshot_in_background(self, make: Callable[[], Snapshot]) -> None:
        """Store a snapshot in a thread, but call `make` now; nothing happens where another is being stored.

        An error of the thread is noted, and the next snapshot tries again.
        """
        with held_back():  # the lock is released by the thread, so there must be one
            if self.is_closed or not self._snapshotting.acquire(blocking=False):
                return
            try:
                thread = threading.Thread(target=self._put_in_background, args=(make(),), name="gappletron snapshot")
                thread.start()
            except Exception as error:  # what the call did is stored: a snapshot that fails must not make it fail
                self._snapshotting.release()
                self._note_failure(error)

    def _put_in_background(self, snapshot: Snapshot) -> None:
        try:
            self._put(snapshot)
            self.background_error = None
        except Exception as error:  # nobody would see it in a thread
            self._note_failure(error)
        finally:
            self._snapshotting.release()

    def _note_failure(self, error: Exception) -> None:
        """Note that a snapshot has failed; it is tried again after as many events as between two of them."""
        self.background_error = str(error) or type(error).__name__
        self._snapshot_at, self._bytes_since = self.store.count, 0

    def _put(self, snapshot: Snapshot) -> None:
        """Store a snapshot, and remove what is not needed any more."""
        at, rounds, kind, header, arrays = snapshot
        store, policy = self.store, self.policy
        store.put_snapshot(at, kind, header, arrays)
        store.read_snapshot(at, kind, lambda *_: None)  # whole, before anything older is given up
        self._snapshot_bytes = sum(array.nbytes for array in arrays.values())
        self._snapshot_at, self._bytes_since = at, 0
        store.drop_answers(time.time() - policy.keep_answers)
        with self._removing:
            # Before the store is read: what is removed here is in the store by then.
            targets = [target for bundle in list(self._bundles) for target in bundle.targets]
            # The first snapshot leads, with the whole log, to every state.
            store.drop_snapshots(store.snapshots()[0], *store.find_needed(targets))
            if policy.keep_rows is not None:
                store.drop_features(store.find_seq("round", rounds - policy.keep_rows), targets)

    def close(self) -> None:
        """Write what is published, and let another process open the store."""
        self._refuse_nesting()
        was_closed, self.is_closed = self.is_closed, True
        try:
            if not was_closed:
                self.commit()
        finally:  # also where an earlier call was interrupted before it
            with self._snapshotting, self._writing:
                self.store.close()
