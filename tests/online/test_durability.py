"""A journal on disks that fail, beside threads that close and fork: what was acknowledged is in the log, once."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import signal
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest

import storms
from gappletron import FeedbackGraph, Online, Receipt, UserError, interpreted, read_decisions
from gappletron.base import files
from gappletron.online import events, folder_store as folders
from gappletron.online.folder_store import FolderStore, read_groups, repair
from stores import MemoryStore

GRAPH = FeedbackGraph.full(["a", "b", "c"])


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


def opened(folder, segment_bytes=2**26, **options):
    return Online.open(FolderStore(folder, segment_bytes=segment_bytes), "gapsmh", GRAPH, 3, seed=3, **options)


def broken(*_, **__):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


# ---------------------------------------------------------------------------------------------- a disk, as Linux has it


class Disk:
    """What of a log is on the disk, beside what the system shows of it.

    Writing changes what is shown. A synchronisation brings it to the disk. One that fails drops it, and is not told of
    again, as Linux does it: what is shown stays, and counts as written.
    """

    def __init__(self, patch):
        self.stored, self.dirty, self.failing, self.failures = {}, {}, 0.0, 0
        self.rng = np.random.default_rng(1)
        for name in ("open", "write", "ftruncate", "fsync", "fdatasync"):
            patch.setattr(os, name, self._wrapped(getattr(self, f"_{name}"), getattr(os, name)))

    @staticmethod
    def _wrapped(ours, real):
        return lambda *arguments, **options: ours(real, *arguments, **options)

    def _log(self, descriptor):
        """The log that is open under this descriptor."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        return path if path.suffix == ".gap" else None

    def _open(self, real, path, flags, *rest, **options):
        if flags & os.O_TRUNC and Path(path).suffix == ".gap":
            self.dirty.setdefault(Path(path), []).append((0, None))
        return real(path, flags, *rest, **options)

    def _write(self, real, descriptor, data):
        path, at = self._log(descriptor), None
        if path is not None:
            at = os.lseek(descriptor, 0, os.SEEK_CUR)
        written = real(descriptor, data)
        if path is not None:
            self.dirty.setdefault(path, []).append((at, bytes(data[:written])))
        return written

    def _ftruncate(self, real, descriptor, size):
        real(descriptor, size)
        self.dirty.setdefault(self._log(descriptor), []).append((size, None))

    def _fsync(self, real, descriptor):
        path = self._log(descriptor)
        if path is None:
            real(descriptor)
            return
        changes = self.dirty.pop(path, [])
        if self.rng.random() < self.failing:
            self.failures += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for at, data in changes:
            stored = self.stored.setdefault(path, bytearray())
            if data is None:
                del stored[at:]
            else:
                stored += bytes(max(0, at + len(data) - len(stored)))
                stored[at : at + len(data)] = data

    _fdatasync = _fsync

    def lose_power(self, folder):
        """Only what is on the disk is left."""
        for path in Path(folder).glob("log-*.gap"):
            path.write_bytes(self.stored.get(path, b""))
        self.dirty.clear()


@pytest.mark.parametrize("segment_bytes", [600, 2**26])
def test_what_was_acknowledged_survives_failed_synchronisations_and_a_power_failure(
    tmp_path, monkeypatch, segment_bytes
):
    """After each failure the folder is opened again, without a power failure: the system still shows what it lost."""
    disk, folder = Disk(monkeypatch), tmp_path / "journal"
    acknowledged, refused = [], 0
    model = opened(folder, segment_bytes, pending=10_000)
    for number in range(150):
        if model is None:
            with contextlib.suppress(UserError):  # opening may fail as well
                model = opened(folder, segment_bytes)
            continue
        disk.failing = 0.2
        try:
            acknowledged.append(model.act(np.ones(3)).id)
        except UserError as error:
            assert "could not be written to the disk (Input/output error): open it again" in str(error)  # noqa: PT017
            with pytest.raises(UserError, match="open it again"):
                model.act(np.ones(3))
            storms.crash(model)
            model, refused = None, refused + 1
        disk.failing = 0.2 if number < 140 else 0.0
    model = model or opened(folder, segment_bytes)
    acknowledged.append(model.act(np.ones(3)).id)
    storms.crash(model)
    assert min(refused, disk.failures - refused) > 3
    disk.lose_power(folder)
    with opened(folder, segment_bytes) as again:
        found = [receipt.id for receipt in again.pending]
    assert set(acknowledged) <= set(found)
    assert len(found) <= len(acknowledged) + refused


def to_the_end_of_a_segment(model):
    """Play until the next event begins a segment; the ids of the receipts."""
    store, found = model._contents.journal.store, [model.act(np.ones(3)).id]
    while store._tail.offset < store.segment_bytes:
        found.append(model.act(np.ones(3)).id)
    return found


@pytest.mark.parametrize("what", ["the old segment", "the new segment", "the folder"])
def test_a_failure_at_the_end_of_a_segment_is_final(tmp_path, monkeypatch, what):
    """With durability="os" a segment may hold much that was never synchronised."""
    model = opened(tmp_path / "journal", 300, durability="os")
    kept = to_the_end_of_a_segment(model)
    number = itertools.count()
    with monkeypatch.context() as patch:
        if what == "the folder":
            patch.setattr(folders.files, "synchronise_folder", broken)
        else:
            wanted = 0 if what == "the old segment" else 1
            patch.setattr(folders, "_synchronised", lambda _: broken() if next(number) == wanted else None)
        with pytest.raises(UserError, match="could not be written to the disk"):
            model.act(np.ones(3))
    for call in (lambda: model.act(np.ones(3)), model.commit, model.checkpoint, model.close):
        with pytest.raises(UserError, match=r"could not be written to the disk .*: open it again"):
            call()
    with opened(tmp_path / "journal") as again:
        assert [receipt.id for receipt in again.pending] == kept


def test_no_snapshot_follows_a_log_that_could_not_be_synchronised(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal", durability="os")
    model.act(np.ones(3))
    with monkeypatch.context() as patch:
        patch.setattr(folders, "_synchronised", broken)
        with pytest.raises(UserError, match="could not be written"):
            model.checkpoint()
    with pytest.raises(UserError, match="could not be written"):
        model.checkpoint()  # now the system would say that all is well
    assert model._contents.journal.store.snapshots() == [0]
    storms.crash(model)


def test_a_full_disk_at_the_end_of_a_segment_is_tried_again(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal", 300)
    first = to_the_end_of_a_segment(model)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(folders.os, "write", full)
        with pytest.raises(UserError, match=r"No space left.*free some space"):
            model.act(np.ones(3))
    last = model.act(np.ones(3)).id
    storms.crash(model)
    with opened(tmp_path / "journal") as again:
        ids = [receipt.id for receipt in again.pending]
    assert (ids[:-2], ids[-1:]) == (first, [last])


def test_new_folders_are_told_to_the_disk(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(files, "synchronise_folder", lambda folder: told.append(Path(folder)))
    FolderStore(tmp_path / "one" / "two" / "journal").close()
    assert told[:3] == [tmp_path, tmp_path / "one", tmp_path / "one" / "two"]
    assert tmp_path / "one" / "two" / "journal" in told[3:]


def test_a_folder_that_cannot_be_synchronised_is_told_apart_from_one_that_has_failed(tmp_path, monkeypatch):
    for code in (errno.EINVAL, errno.ENOTSUP):
        monkeypatch.setattr(files.os, "fsync", lambda _, code=code: (_ for _ in ()).throw(OSError(code, "no")))
        files.synchronise_folder(tmp_path)
    monkeypatch.setattr(files.os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        files.synchronise_folder(tmp_path)
    files.synchronise_folder(tmp_path / "missing")


def test_a_repair_writes_its_mark_before_it_waits_for_the_disk(tmp_path, monkeypatch):
    """The mark must be in the file when it is synchronised, not in a buffer of Python."""
    path = tmp_path / "log"
    path.write_bytes(folders.MAGIC + b"rest")
    seen = []
    monkeypatch.setattr(folders, "_synchronised", lambda _: seen.append(path.read_bytes()))
    folders._begin_again(path)
    assert seen == [folders.REPAIRED + b"rest"]


# ---------------------------------------------------------------------------------------------------------------- macOS


class Fcntl:
    """The module of a Mac, whose file system may not know how to flush the drive."""

    F_FULLFSYNC = 51

    def __init__(self, error=None):
        self.calls, self.error = [], error

    def fcntl(self, descriptor, command):
        self.calls.append((descriptor, command))
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize("data_only", [False, True])
def test_the_drive_is_flushed_where_the_system_can(monkeypatch, data_only):
    plain_calls = []
    monkeypatch.setattr(files.os, "fsync", lambda descriptor: plain_calls.append(("fsync", descriptor)))
    monkeypatch.setattr(files.os, "fdatasync", lambda descriptor: plain_calls.append(("fdatasync", descriptor)))
    for error, expected in [(None, 0), (errno.ENOTSUP, 1), (errno.EINVAL, 1)]:
        plain_calls.clear()
        monkeypatch.setattr(files, "fcntl", Fcntl(error))
        files.synchronise(7, data_only=data_only)
        assert files.fcntl.calls == [(7, 51)]
        assert plain_calls == [("fdatasync" if data_only else "fsync", 7)] * expected
    monkeypatch.setattr(files, "fcntl", Fcntl(errno.EIO))  # a failure is not something to try again in another way
    plain_calls.clear()
    with pytest.raises(OSError, match="Input/output error"):
        files.synchronise(7, data_only=data_only)
    assert plain_calls == []
    for module in (None, types.SimpleNamespace()):  # Windows, Linux
        monkeypatch.setattr(files, "fcntl", module)
        files.synchronise(7, data_only=data_only)
    assert len(plain_calls) == 2


def test_every_write_of_a_journal_flushes_the_drive(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal")
    mac = Fcntl()
    mac.__dict__.update({name: getattr(files.fcntl, name) for name in ("flock", "LOCK_EX", "LOCK_NB", "LOCK_UN")})
    monkeypatch.setattr(files, "fcntl", mac)
    model.act(np.ones(3))
    assert mac.calls == [(model._contents.journal.store._tail.descriptor, 51)]
    model.checkpoint()
    assert len(mac.calls) == 4  # the log, the snapshot, and the folder with its name
    model.close()


# ---------------------------------------------------------------------------------------------------- threads and forks


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_closing_while_other_threads_write(tmp_path, durability):
    """Every call is acknowledged and in the log, or refused with a sentence."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(8):
            _close_while_others_write(tmp_path / str(number), durability, number)
    finally:
        sys.setswitchinterval(before)


def _close_while_others_write(folder, durability, number):
    model = opened(folder, 2000, durability=durability, snapshot_every=15)
    acted, learned, refusals, wrong = [], [], [], []

    def play():
        try:
            while True:
                receipt = model.act(np.ones(3))
                acted.append((receipt.id, receipt.action))
                model.learn(receipt, "b")
                learned.append(receipt.id)
        except UserError as error:
            refusals.append(str(error))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=play) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(learned) < 5 + 3 * number:
        time.sleep(0.0005)
    model.close()
    for thread in threads:
        thread.join(timeout=30)
    assert not wrong, wrong
    assert len(refusals) == 3
    assert all(re.search(r"(was|is) closed: open it again", text) for text in refusals)
    with pytest.raises(UserError, match="is closed: open it again"):
        model.checkpoint()  # it would write to a folder that another process may have by now
    rows = {row["id"]: row for batch in read_decisions(folder) for row in batch.to_pylist()}
    assert all(rows[name]["action"] == action for name, action in acted)
    assert all(rows[name]["label"] == "b" for name in learned)
    assert len(rows) <= len(acted) + 3
    fed = [
        event.round
        for group in read_groups(folder)
        for event in events.unpack_events(group.events)
        if isinstance(event, events.Fed)
    ]
    assert len(set(fed)) == len(fed)
    assert Online.from_journal(folder, replay="first").differences(Online.from_journal(folder)) == []


@pytest.mark.parametrize("seed", [0, 1])
def test_threads_share_a_journal_on_a_disk_that_is_full_at_times(tmp_path, seed):
    assert storms.shared_journal(seed, tmp_path / "journal", seconds=0.25) > 10


@pytest.mark.filterwarnings("ignore")  # Python warns of forks in a process with threads
def test_threads_that_fork_at_once_beside_a_journal(tmp_path):
    model = opened(tmp_path / "journal", durability="os")
    codes, acted = [], []

    def fork():
        for _ in range(12):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                try:
                    model.act(np.ones(3))
                except UserError as error:
                    os._exit(7 if "is a copy (fork)" in str(error) else 8)
                os._exit(9)
            acted.append(model.act(np.ones(3)).id)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    threads = [threading.Thread(target=fork) for _ in range(2)]
    for thread in threads:
        thread.start()
    fork()
    for thread in threads:
        thread.join(timeout=60)
    assert codes == [7] * 36
    storms.crash(model)
    with opened(tmp_path / "journal") as again:
        assert [receipt.id for receipt in again.pending] == sorted(acted, key=lambda name: int(name.split("-")[1]))


def test_follow_struck_at_every_moment():
    """Whatever the moment: the journal, here in memory, leads to the bits of the model."""
    decision = ("b", [0.25, 0.5, 0.25])
    stores = []

    def make():
        stores[:] = [MemoryStore()]
        model = Online.open(stores[0], "gapsmh", GRAPH, 3, seed=3, pending=1)
        model.follow(np.ones(3), *decision)
        return model

    played = 0
    follow = lambda model: model.follow(np.full(3, 2.0), *decision)  # noqa: E731
    for model, _ in storms.at_every_moment(make, follow):
        assert not model._lock._is_owned()
        (waiting,) = model.pending
        played += waiting.serial == 1
        assert waiting.serial == model.rounds - 1
        model.learn(waiting, "a")
        copy = Online("gapsmh", GRAPH, 3, seed=3, pending=1, monitor=True)
        receipts = [copy.follow(np.full(3, 1.0 + serial), *decision) for serial in range(model.rounds)]
        copy.learn(receipts[-1], "a")
        assert set(copy.differences(model)) <= {"watch.curve"}  # it has the times of the rounds
        again = Online.open(stores[0])
        assert again.differences(model) == []
        logged = [each for group in stores[0].groups() for each in events.unpack_events(group.events)]
        assert sum(isinstance(each, events.Decided) for each in logged) == model.rounds
    assert played > 10


def test_a_probability_that_was_rounded_above_1_can_be_read_again(tmp_path):
    """Logs may hold one: what a budget took from other actions was added to the greedy class without a limit."""
    store = MemoryStore()
    action = Online.open(store, "gapsmh", GRAPH, 3, seed=3).act(np.ones(3)).turn.action
    above = np.where(np.arange(3) == action, np.nextafter(1.0, 2.0), 0.0)
    group = store._groups[-1]
    logged = [
        each._replace(probabilities=above) if isinstance(each, events.Decided) else each
        for each in events.unpack_events(group.events)
    ]
    store._groups[-1] = group._replace(events=b"".join(map(events.pack_event, logged)))
    with pytest.warns(UserWarning, match="those of the log were kept"):
        model = Online.open(store)
    model.save(tmp_path / "model.npz")
    for found in (model.pending[0], Online.load(tmp_path / "model.npz").pending[0]):
        assert Receipt.from_dict(found.to_dict()).probabilities.tolist() == above.tolist()


def test_a_process_that_goes_to_another_folder_writes_to_the_same_journal(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "away" / "journal").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "home")
    model = opened("journal", 300)
    monkeypatch.chdir(tmp_path / "away")
    acknowledged = [model.act(np.ones(3)).id for _ in range(6)]
    model.checkpoint()
    storms.crash(model)
    assert list((tmp_path / "away" / "journal").iterdir()) == []
    with opened(tmp_path / "home" / "journal") as again:
        assert [receipt.id for receipt in again.pending] == acknowledged


def test_a_repair_can_follow_a_journal_that_closed_itself(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal")
    kept = model.act(np.ones(3)).id
    with monkeypatch.context() as patch:
        patch.setattr(folders, "_synchronised", broken)
        with pytest.raises(UserError, match="could not be written"):
            model.act(np.ones(3))
    storms.crash(model)
    repair(tmp_path / "journal")
    with opened(tmp_path / "journal") as again:
        assert again.pending[0].id == kept
