"""The store of one model: its log, its snapshots, its answers, and how it was made, in a database.

:mod:`gappletron.online.tables` lists the tables. Everything that a store does is in statements that both databases
understand; what differs is in :mod:`gappletron.online.database`.
"""

import contextlib
import itertools
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from numpy.typing import NDArray

from gappletron.base.errors import Damaged, Unavailable, UserError
from gappletron.graphs.graph import FeedbackGraph
from gappletron.online import events
from gappletron.online.database import NAME, Conflict, Missing, Place, Row, open_database
from gappletron.online.events import Answer, Batch, Event, Fed
from gappletron.online.tables import ACTS, CHANGES, COMMITS, FEEDBACK, GRAPHS, NAMES, PARTS, SNAPSHOTS
from gappletron.play import archive
from gappletron.play.archive import Rebuild, decode_graph

T = TypeVar("T")

# So many events are read at once.
BLOCK = 10_000
# Bytes of a part of a snapshot, and answers that are removed: a transaction of its own, so that others wait no longer
# than for this.
PART_BYTES, SOME = 2**20, 1_000
# Beside the first: if the newest is damaged, the one before it and the log lead to the same state.
KEPT_SNAPSHOTS = 2
PUT_ANSWER = (
    "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (model, key) DO UPDATE SET fingerprint = "
    "excluded.fingerprint, answer = excluded.answer, time = excluded.time, checksum = excluded.checksum"
)
# How far the tables of a model go. In one statement, since another process may be writing.
ENDS = ", ".join(
    f"(SELECT max({column}) FROM {table} WHERE model = ?)"
    for table, column in (("commits", "number"), ("acts", "seq"), ("feedback", "seq"), ("changes", "seq"))
)
CURE = "restore a backup, or see what is left: gappletron store check"


class Trouble(NamedTuple):
    """What is wrong with a store, in one sentence, and whether it keeps anything from being stored.

    >>> Trouble("the last snapshot failed: look after the disk", stops_writes=False).stops_writes
    False
    """

    sentence: str
    stops_writes: bool


class Store:
    """One model in a database.

    :param durability: ``"disk"`` or ``"os"``, to write to it; None to read it while another process may write.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(f"{folder}/mail.sqlite", durability="os")
    ...     store.settings is None, store.count
    ...     store.close()
    (True, 0)
    """

    def __init__(self, place: Place, name: str = NAME, durability: str | None = None) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable():
            raise UserError(f"a model cannot be called {name!r}: give it a name of 1 to 100 printable letters")
        self.database = open_database(place, durability)
        self.place, self.model_name = place, name
        # The number of events stored: that of the next one; and of transactions.
        self.count = self.commits = 0
        self._writer = secrets.token_hex(8)
        self._before = ""  # who wrote the last one
        self._is_dirty = False
        # Up to which event each kind of removal has come: it need not look at what is before.
        self._dropped: dict[str, int] = {}
        try:
            if durability is not None:
                self._register()
            self.model, self.settings = self._find()
            if durability is None and self.settings is None:
                raise Missing(
                    f"the model {self.model_name!r} in {self.name!r} was not made to the end: open it with its graph"
                )
            if durability is not None:
                self.database.elect(self.model)
                self.model, self.settings = self._find()
            self.refresh()
            if durability is not None:
                with self._transaction():
                    self._clear_parts()
        except BaseException:
            self.database.close()
            raise

    @property
    def name(self) -> str:
        """Where it is, for messages."""
        return self.database.name

    def _register(self) -> None:
        """Give the model a number; it has no settings until it is made."""
        try:
            with self.database.transaction():
                if not self.database.run("SELECT model FROM models WHERE name = ?", self.model_name):
                    ((number,),) = self.database.run("SELECT COALESCE(max(model), 0) + 1 FROM models")
                    self.database.run(
                        "INSERT INTO models (model, name, created, checksum) VALUES (?, ?, ?, ?)",
                        number,
                        self.model_name,
                        time.time(),
                        events.with_sum(number, self.model_name)[-1],
                    )
        except Conflict:  # another process was quicker
            self._register()

    def _find(self) -> tuple[int, dict[str, Any] | None]:
        sql = "SELECT model, name, checksum FROM models"
        found = self.database.read(f"{sql} WHERE name = ?", self.model_name)
        known = found or self.database.read(f"{sql} ORDER BY name")  # a name that is damaged is not one that is missing
        # One statement, since other processes may add models and their first commits between two.
        most = "(SELECT COALESCE(max(model), 0) FROM models)"
        if not found and self.database.read(f"SELECT 1 FROM commits WHERE model > {most} LIMIT 1"):
            raise UserError(f"the list of models in {self.name!r} is damaged: {CURE}")
        for row in known:
            self._decode(events.check_sum, row, f"the name of model {row[0]}")
        if not found:
            names = ", ".join(repr(name) for _, name, _ in known[:10])
            raise Missing(f"there is no model {self.model_name!r} in {self.name!r}: name one that is, such as {names}")
        model = found[0][0]
        ((settings,),) = self.database.read("SELECT settings FROM models WHERE model = ?", model)
        try:
            found_settings = None if settings is None else json.loads(settings)
            if found_settings is not None and type(found_settings["options"]) is not dict:
                raise Damaged
            return model, found_settings
        except (Damaged, LookupError, TypeError, ValueError, RecursionError):
            raise UserError(f"the settings of {self.model_name!r} in {self.name!r} are damaged: {CURE}") from None

    def put_settings(self, settings: dict[str, Any]) -> None:
        """Store how the model was made. It is the last step of making one."""
        with self._transaction():
            self.database.run("UPDATE models SET settings = ? WHERE model = ?", json.dumps(settings), self.model)
        self.settings = settings

    # ----------------------------------------------------------------------------------------------------------- events

    def refresh(self) -> None:
        """Read how far the log goes: where another process writes it, or where a transaction was interrupted."""
        sql = f"SELECT {ENDS}, (SELECT writer FROM commits WHERE model = ? AND number = ?)"
        ((found, *ends, before),) = self.database.read(sql, *[self.model] * 5, self.commits)
        number, stop, writer = found or 0, 0, ""
        for row in self.read("SELECT * FROM commits WHERE model = ? AND number = ?", number):
            self._decode(events.check_commit, row, f"transaction {number}")
            _, _, writer, first, size, _ = row
            stop = first + size
        known = [end for end in ends if end is not None]
        if any(type(end) is not int for end in known) or stop != 1 + max(known, default=-1):
            raise UserError(f"the end of the log in {self.name!r} is damaged: {CURE}")
        if number < self.commits or before not in (None, self._before):  # None: there was none yet, or it was removed
            raise self.database.fail(
                "has lost transactions that were stored, as after a failure of a server that does not wait for its "
                "disk or its replica: open it again to go on with what it has"
            )
        if self._is_dirty and number > self.commits and writer != self._writer:
            raise self._give_up()
        self.commits, self.count, self._before, self._is_dirty = number, stop, writer, False

    def settle(self) -> None:
        """Find out how an interrupted :meth:`append` has ended."""
        if self._is_dirty:
            self.refresh()

    def append(self, batch: Batch) -> None:
        """Store a batch as a whole or not at all; its first event must be number :attr:`count`.

        After an error the same batch must be tried again, until it is stored: the first attempt may be, although its
        end is seen only after :meth:`settle`, as where a commit waits for a replica when the connection is lost.
        """
        self.settle()
        self._is_dirty = True
        database, number = self.database, self.commits + 1
        last = "SELECT writer FROM commits WHERE model = ? AND number = ?"
        with database.lock:  # other models acknowledge in the order of their transactions
            try:
                with database.transaction():
                    if database.run(last, self.model, self.commits) != ([(self._before,)] if self.commits else []):
                        raise Conflict
                    size = batch.stop - batch.first
                    database.insert(COMMITS, [(self.model, *events.with_sum(number, self._writer, batch.first, size))])
                    for version, document in batch.graphs.items():
                        self._put_graph(version, document)
                    for table, rows in ((ACTS, batch.acts), (FEEDBACK, batch.feedback), (CHANGES, batch.changes)):
                        if rows:
                            database.insert(table, rows)
                    if batch.answers:
                        answers = [(self.model, *events.with_sum(*answer)) for answer in batch.answers]
                        database.run_many(PUT_ANSWER, answers)
            except Conflict:
                self.refresh()
                if (self.commits, self._before) != (number, self._writer):
                    raise self._give_up() from None
            database.acknowledge(self.model, number)
        self.commits, self.count, self._before, self._is_dirty = number, batch.stop, self._writer, False

    def confirm(self) -> None:
        """Raise an :class:`Unavailable` where another process has become the writer since a transaction of this one."""
        self.database.confirm()
        if self.read("SELECT writer FROM commits WHERE model = ? ORDER BY number DESC LIMIT 1") != [(self._writer,)]:
            raise self._give_up()

    def _give_up(self) -> Unavailable:
        return self.database.fail("was opened by another process, which has taken over: open it again")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction that adds nothing to the log; refused where another process has become the writer."""
        last = "SELECT writer FROM commits WHERE model = ? ORDER BY number DESC LIMIT 1"
        with self.database.transaction():
            if self.database.run(last, self.model) not in ([], [(self._before,)], [(self._writer,)]):
                raise self._give_up()
            yield

    def _put_graph(self, version: int, document: str) -> None:
        """Store a graph, and the names of its actions and classes for those who query; nothing where it is there."""
        if self.database.run("SELECT graph FROM graphs WHERE graph = ?", version):
            return
        # Another model may store the same graph now: the statement waits for it, and then its names are there.
        self.database.run(f"INSERT INTO {GRAPHS.name} VALUES (?, ?) ON CONFLICT (graph) DO NOTHING", version, document)
        if not self.database.run("SELECT graph FROM names WHERE graph = ? LIMIT 1", version):
            self.database.insert(NAMES, _list_names(version, document))

    def read_graph(self, version: int) -> FeedbackGraph:
        """Return the graph of this version."""
        found = self.database.read("SELECT document FROM graphs WHERE graph = ?", version)
        if not found or type(found[0][0]) is not str or events.hash_graph(found[0][0]) != version:
            raise UserError(f"a graph of the store {self.name!r} is missing or damaged: {CURE}")
        return decode_graph(json.loads(found[0][0]))

    @property
    def beginning(self) -> int:
        """The number of the first event that is kept."""
        for row in self.read("SELECT * FROM commits WHERE model = ? ORDER BY number LIMIT 1"):
            self._decode(events.check_commit, row, f"transaction {row[1]}")
            first = int(row[3])
            # Events before it are left by a removal that was interrupted; or the index of `commits` is damaged.
            is_more = first and self.read("SELECT 1 FROM acts WHERE model = ? AND seq < ? LIMIT 1", first)
            if is_more and self.read("SELECT min(first) FROM commits WHERE +model = ?") != [(first,)]:
                raise UserError(f"the beginning of the log in {self.name!r} is damaged: {CURE}")
            return first
        return 0

    def events(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Event]]:
        """Return the events from number `start` on, to before `stop` or as far as they go, with their numbers.

        A UserError tells of one that is missing or damaged.
        """
        for block in self.read_blocks(start, self.count if stop is None else stop):
            yield from block

    def read_blocks(self, start: int, stop: int) -> Iterator[list[tuple[int, Event]]]:
        """Return the events from one number to before another in lists of at most 10,000."""
        return (self._read_block(first, min(first + BLOCK, stop)) for first in range(start, stop, BLOCK))

    def _read_block(self, start: int, stop: int) -> list[tuple[int, Event]]:
        """Return the events of a block: those of three tables, by their numbers."""
        found: dict[int, Event] = {}
        for table, read in ((ACTS, events.read_act), (FEEDBACK, events.read_feedback), (CHANGES, events.read_change)):
            sql = f"SELECT * FROM {table.name} WHERE model = ? AND seq >= ? AND seq < ?"
            for row in self.read(sql, start, stop):
                found[row[1]] = self._decode(read, row)
        try:
            return [(number, found[number]) for number in range(start, stop)]
        except KeyError as error:
            raise UserError(f"event {error} of the store {self.name!r} is missing: {CURE}") from None

    def read(self, sql: str, *values: Any) -> list[Row]:
        """Return the rows of a statement whose first placeholder is the number of the model."""
        return self.database.read(sql, self.model, *values)

    def find_decision(self, round: int) -> int | None:
        """Return the number of the event in which a round was decided; None where it is not in the log."""
        rows = self.read("SELECT seq FROM acts WHERE model = ? AND round = ?", round)
        return rows[0][0] if rows else None

    def read_changes(self, kind: str, start: int, stop: int) -> Iterator[Any]:
        """Return the changes of a kind from event number `start` to before `stop`."""
        sql = "SELECT * FROM changes WHERE model = ? AND kind = ? AND seq >= ? AND seq < ? ORDER BY seq"
        return (self._decode(events.read_change, row) for row in self.read(sql, kind, start, stop))

    def decode_change(self, row: Row) -> Any:
        """Return the change of a row of `changes`; a UserError where it is damaged."""
        return self._decode(events.read_change, row)

    def read_feedback(self, first: int, last: int, stop: int) -> dict[int, Fed]:
        """Return the feedback of the rounds from one to another, by round, that the log has before an event."""
        sql = "SELECT * FROM feedback WHERE model = ? AND round >= ? AND round <= ? AND seq < ?"
        return {row[2]: self._decode(events.read_feedback, row) for row in self.read(sql, first, last, stop)}

    def read_last_change(self, kind: str) -> Any:
        """Return the last change of a kind; None where there is none."""
        rows = self.read("SELECT * FROM changes WHERE model = ? AND kind = ? ORDER BY seq DESC LIMIT 1", kind)
        return self._decode(events.read_change, rows[0]) if rows else None

    def _decode(self, read: Callable[[Row], T], row: Row, what: str | None = None) -> T:
        """Return what a row says, which is an event where nothing else is said."""
        try:
            return read(row)
        except Damaged:
            what = what or f"event {row[1]}"
            raise UserError(f"{what} of the store {self.name!r} is damaged: {CURE}") from None

    # -------------------------------------------------------------------------------------------------------- snapshots

    def snapshots(self) -> list[int]:
        """Return the numbers of events before each snapshot, ascending."""
        found = [at for (at,) in self.read("SELECT at FROM snapshots WHERE model = ? ORDER BY at")]
        if any(type(at) is not int for at in found):
            raise UserError(f"the list of snapshots in {self.name!r} is damaged: {CURE}")
        return found

    def find_needed(self, targets: Iterable[int] = ()) -> list[int]:
        """Return the snapshots that it takes to open the model, also where the newest is damaged, ascending; it takes
        all events since the first of them as well.

        These are the last two, and those from which the states are made again that the log rolls back to after them.

        :param targets: numbers of events before which the model was in states that roll-backs lead to which are not
            stored yet.
        """
        last = self.snapshots()[-KEPT_SNAPSHOTS:]
        stored = self.read_changes("rolled back", min(last, default=0), self.count)
        return sorted({*last, *self._find_origins([*targets, *(each.event for each in stored)]).values()})

    def _find_origins(self, targets: Iterable[int]) -> dict[int, int]:
        """Return the snapshot from which the state before each of these events is made, by the number of the event;
        with those to which the log rolls back on the way. What has no snapshot before it is left out.
        """
        snapshots, waiting, found = self.snapshots(), set(targets), dict[int, int]()
        while waiting:
            target = waiting.pop()
            before = [at for at in snapshots if at <= target]
            if before:
                found[target] = before[-1]
                waiting |= {each.event for each in self.read_changes("rolled back", before[-1], target)} - found.keys()
        return found

    def check_reachable(self, target: int) -> None:
        """Refuse a state that cannot be made from the log any more: a snapshot or features before it were removed."""
        if not self._is_reachable(target):
            raise UserError(
                f"what {self.name!r} held before event {target:,} was removed meanwhile (keep_rows): go back less far"
            )

    def _is_reachable(self, target: int) -> bool:
        """Return whether the state before an event can be made from the log."""
        origins = self._find_origins([target])
        return target in origins and not any(self._lacks_features(start, stop) for stop, start in origins.items())

    def _lacks_features(self, start: int, stop: int) -> bool:
        """Return whether features of events from one number to before another were removed."""
        return any(
            self.read(f"SELECT 1 FROM {table} WHERE model = ? AND seq >= ? AND seq < ? AND {test} LIMIT 1", start, stop)
            for table, test in (("acts", "feature_ids IS NULL"), ("changes", "document IS NULL"))
        )

    def find_first(self) -> int:
        """Return the first snapshot since which everything can be done again, as nothing was removed that it takes."""
        found = self.snapshots()
        for at in found:
            goals = (each.event for each in self.read_changes("rolled back", at, self.count))
            if not self._lacks_features(at, self.count) and all(map(self._is_reachable, goals)):
                return at
        return max(found, default=0)

    def put_snapshot(self, at: int, kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Store a snapshot of a model (:mod:`gappletron.play.archive`) as a whole or not at all."""
        if at in self.snapshots():
            return
        data = memoryview(archive.to_bytes(kind, header, arrays))
        starts = range(0, len(data), PART_BYTES)
        for part, start in enumerate(starts):
            with self._transaction():
                if part == 0:
                    self._clear_parts()
                self.database.insert(PARTS, [(self.model, at, part, bytes(data[start : start + PART_BYTES]))])
        with self._transaction():
            self.database.insert(SNAPSHOTS, [(self.model, at, len(starts), time.time())])

    def read_snapshot(self, at: int, kind: str, rebuild: Rebuild[T]) -> T:
        """Return what `rebuild` makes of a snapshot; a UserError where it is damaged."""
        sql = "SELECT data FROM snapshot_parts WHERE model = ? AND at = ? AND part = ?"
        found = (self.read(sql, at, part) for part in itertools.count())
        parts = itertools.takewhile(bool, found)
        data = [rows[0][0] for rows in parts]
        if not all(isinstance(part, bytes) for part in data):
            raise UserError(f"the snapshot after {at:,} events in {self.name!r} is damaged: {CURE}")
        return archive.from_bytes(b"".join(data), kind, rebuild)

    def drop_snapshots(self, *kept: int) -> None:
        """Remove all snapshots but these."""
        for at in self.snapshots():
            if at not in kept:
                with self._transaction():
                    self.database.run("DELETE FROM snapshots WHERE model = ? AND at = ?", self.model, at)
                    self._clear_parts()

    def _clear_parts(self) -> None:
        """Remove the parts of snapshots that were not finished, or were removed."""
        self.database.run(
            "DELETE FROM snapshot_parts WHERE model = ? AND at NOT IN (SELECT at FROM snapshots WHERE model = ?)",
            self.model,
            self.model,
        )

    # --------------------------------------------------------------------------------------------------------- the rest

    def find_answer(self, key: str, oldest: float) -> Answer | None:
        """Return the answer under a key that was given at this time or later; None where there is none."""
        for row in self.read("SELECT * FROM answers WHERE model = ? AND key = ? AND time >= ?", key, oldest):
            self._decode(events.check_answer, row, "the answer to a request")
            return Answer(*row[1:-1])
        return None

    def find_key(self, answer: bytes) -> str | None:
        """Return a key that this answer is kept under; None where there is none. All answers are looked through."""
        rows = self.read("SELECT key FROM answers WHERE model = ? AND answer = ? LIMIT 1", answer)
        return rows[0][0] if rows else None

    def check_rest(self) -> None:
        """Look at everything that is neither an event nor a snapshot; a UserError tells of damage."""
        stop, before = self.beginning, None
        for row in self._walk("commits", "number", -1):
            self._decode(events.check_commit, row, f"transaction {row[1]}")
            if row[3] != stop or before not in (None, row[1] - 1):
                raise UserError(f"a transaction before number {row[1]} of the store {self.name!r} is missing: {CURE}")
            stop, before = stop + row[4], row[1]
        for row in self._walk("answers", "key", ""):
            self._decode(events.check_answer, row, "the answer to a request")
        for (version,) in self.database.read("SELECT graph FROM graphs"):
            self.read_graph(version)
            ((document,),) = self.database.read("SELECT document FROM graphs WHERE graph = ?", version)
            names = self.database.read("SELECT * FROM names WHERE graph = ?", version)
            if set(names) != set(_list_names(version, document)):
                raise UserError(f"the names of a graph of the store {self.name!r} are damaged: {CURE}")

    def _walk(self, table: str, column: str, before: Any) -> Iterator[Row]:
        """Return the rows of a table by the second column of its key."""
        sql = f"SELECT * FROM {table} WHERE model = ? AND {column} > ? ORDER BY {column} LIMIT 1000"
        while rows := self.read(sql, before):
            yield from rows
            before = rows[-1][1]

    def drop_answers(self, before: float) -> int:
        """Remove the answers that were given before this time; return how many there were."""
        ((number,),) = self.read("SELECT count(*) FROM answers WHERE model = ? AND time < ?", before)
        some = f"SELECT key FROM answers WHERE model = ? AND time < ? LIMIT {SOME}"
        for _ in range(0, number, SOME):
            with self._transaction():
                self.database.run(f"DELETE FROM answers WHERE model = ? AND key IN ({some})", *[self.model] * 2, before)
        return int(number)

    def find_seq(self, column: str, value: float) -> int:
        """Return the number of the event after the decisions whose `round` or `time` is below a value."""
        sql = f"SELECT COALESCE(max(seq), -1) + 1 FROM acts WHERE model = ? AND {column} < ?"
        return int(self.read(sql, value)[0][0])

    def drop_features(self, stop: int, targets: Iterable[int] = ()) -> int:
        """Remove the features of decisions, and rows that were taught, before this event; return of how many events.

        :param targets: as those of :meth:`find_needed`; what that tells of stays.
        """
        return self._drop(
            min([stop, *self.find_needed(targets)]),
            ("acts", "feature_ids IS NOT NULL", "UPDATE acts SET feature_ids = NULL, feature_values = NULL"),
            ("changes", "kind = 'taught' AND document IS NOT NULL", "UPDATE changes SET document = NULL"),
        )

    def drop_decisions(self, stop: int) -> int:
        """Remove decisions and feedback before this event; return how many events. What :meth:`drop_features` keeps,
        stays.
        """
        stop = min([stop, *self.find_needed()])
        found = self.read("SELECT max(first) FROM commits WHERE model = ? AND first <= ?", stop)
        first = found[0][0] or 0
        self.drop_snapshots(*(at for at in self.snapshots() if at >= first))
        with self._transaction():
            self.database.run("DELETE FROM commits WHERE model = ? AND first < ?", self.model, first)
        return self._drop(first, ("acts", "TRUE", "DELETE FROM acts"), ("feedback", "TRUE", "DELETE FROM feedback"))

    def _drop(self, stop: int, *changes: tuple[str, str, str]) -> int:
        """Change the rows of tables before an event that pass a test, some at a time; return how many there were."""
        number = 0
        for table, test, statement in changes:
            where = f"WHERE model = ? AND seq >= ? AND seq < ? AND {test}"
            begin = self._dropped.get(statement, 0)
            rows = self.read(f"SELECT min(seq) FROM {table} {where}", begin, stop)
            for start in range(stop if rows[0][0] is None else rows[0][0], stop, BLOCK):
                block = self.model, start, min(start + BLOCK, stop)
                number += self.database.read(f"SELECT count(*) FROM {table} {where}", *block)[0][0]
                with self._transaction():
                    self.database.run(f"{statement} {where}", *block)
            self._dropped[statement] = max(begin, stop)
        return number

    def close(self) -> None:
        """Let another process open it."""
        self.database.close()


def _list_names(version: int, document: str) -> list[Row]:
    """Return the rows of `names` for a graph."""
    graph = json.loads(document)
    lists = {"action": graph["actions"], "class": graph["classes"]}
    return [(version, kind, place, _show(name)) for kind, names in lists.items() for place, name in enumerate(names)]


def _show(name: Any) -> str:
    """Return a class or an action as a text that every database takes."""
    return str(name).replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
