"""A store on disks that fail, beside threads that close and fork: what was acknowledged is in the log, once."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
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
from gappletron.online import events, upkeep
from stores import crash, read_log, tamper

GRAPH = FeedbackGraph.full(["a", "b", "c"])


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


def opened(place, **options):
    return Online.open(place, "gapsmh", GRAPH, 3, seed=3, **options)


def broken(*_, **__):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


# ---------------------------------------------------------------------------------------------- a disk, as Linux has it


CHILD = """
import os, sys
import numpy as np
from gappletron import FeedbackGraph, Online, UserError, interpreted
from gappletron.online import sqlite

sqlite.WAL_BYTES = 60_000  # so that checkpoints fail as well
place, rounds = sys.argv[1], int(sys.argv[2])
with interpreted():
    try:
        graph = FeedbackGraph.full(["a", "b", "c"])
        model = Online.open(place, "gapsmh", graph, 3, seed=3, pending=10_000, snapshot_every=15)
        for _ in range(rounds):
            print(model.act(np.ones(3)).id, flush=True)
    except UserError as error:
        print("refused", error, flush=True)
        try:
            model.act(np.ones(3))
        except UserError as again:
            print("refused", again, flush=True)
        except NameError:
            pass
    os._exit(0)  # without closing anything
"""


def test_what_was_acknowledged_survives_failed_synchronisations_and_a_power_failure(tmp_path):
    """After each failure the file is opened again, without a power failure: the system still shows what it lost."""
    compiler, library = shutil.which("cc"), tmp_path / "faults.so"
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the disk of this test is a library in C for Linux")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, Path(__file__).parent.parent / "faults.c", "-ldl"], check=True
    )
    place, acknowledged, refused = tmp_path / "mail.sqlite", [], []
    for number in range(12):
        faults = {"FAULTS": "0" if number in (0, 11) else "0.08", "FAULTS_SEED": str(number)}
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(place), "6" if number in (0, 11) else "40"],
            env={**os.environ, **faults, "LD_PRELOAD": str(library)},
            capture_output=True,
            text=True,
            check=True,
        )
        lines = done.stdout.splitlines()
        acknowledged += [line for line in lines if not line.startswith("refused")]
        refused += [line for line in lines if line.startswith("refused")]
    assert len(acknowledged) > 30
    assert sum("could not be written to the disk (disk I/O error): open it again" in line for line in refused) > 8
    for name in ("mail.sqlite", "mail.sqlite-wal", "mail.sqlite-mark"):  # the power fails: what is on the disk is left
        shutil.copy(tmp_path / f"{name}.disk", tmp_path / name)
    (tmp_path / "mail.sqlite-shm").unlink()
    with opened(place) as again:
        found = [receipt.id for receipt in again.pending]
    assert set(acknowledged) <= set(found)
    assert len(found) <= len(acknowledged) + len(refused)
    assert upkeep.check(place).rounds == len(found)


# ------------------------------------------------------------------------------------------------- files and folders


def test_a_folder_that_cannot_be_synchronised_is_told_apart_from_one_that_has_failed(tmp_path, monkeypatch):
    for code in (errno.EINVAL, errno.ENOTSUP):
        monkeypatch.setattr(files.os, "fsync", lambda _, code=code: (_ for _ in ()).throw(OSError(code, "no")))
        files.synchronise_folder(tmp_path)
    monkeypatch.setattr(files.os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        files.synchronise_folder(tmp_path)
    files.synchronise_folder(tmp_path / "missing")


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


def test_the_drive_is_flushed_where_the_system_can(monkeypatch):
    plain_calls = []
    monkeypatch.setattr(files.os, "fsync", plain_calls.append)
    for error, expected in [(None, 0), (errno.ENOTSUP, 1), (errno.EINVAL, 1)]:
        plain_calls.clear()
        monkeypatch.setattr(files, "fcntl", Fcntl(error))
        files.synchronise(7)
        assert files.fcntl.calls == [(7, 51)]
        assert plain_calls == [7] * expected
    monkeypatch.setattr(files, "fcntl", Fcntl(errno.EIO))  # a failure is not something to try again in another way
    plain_calls.clear()
    with pytest.raises(OSError, match="Input/output error"):
        files.synchronise(7)
    assert plain_calls == []
    for module in (None, types.SimpleNamespace()):  # Windows, Linux
        monkeypatch.setattr(files, "fcntl", module)
        files.synchronise(7)
    assert len(plain_calls) == 2


# ---------------------------------------------------------------------------------------------------- threads and forks


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_closing_while_other_threads_write(new_place, durability):
    """Every call is acknowledged and in the log, or refused with a sentence."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(4):
            _close_while_others_write(new_place(), durability, number)
    finally:
        sys.setswitchinterval(before)


def _close_while_others_write(place, durability, number):
    model = opened(place, durability=durability, snapshot_every=15)
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
        model.checkpoint()  # it would write to a store that another process may have by now
    rows = {row["id"]: row for batch in read_decisions(place) for row in batch.to_pylist()}
    assert all(rows[name]["action"] == action for name, action in acted)
    assert all(rows[name]["label"] == "b" for name in learned)
    assert len(rows) <= len(acted) + 3
    fed = [event.round for event in read_log(place) if isinstance(event, events.Fed)]
    assert len(set(fed)) == len(fed)
    assert Online.from_store(place, replay="first").differences(Online.from_store(place)) == []


@pytest.mark.parametrize("seed", [0, 1])
def test_threads_share_a_store_on_a_disk_that_is_full_at_times(place, seed):
    assert storms.shared_store(seed, place, seconds=0.25) > 10


@pytest.mark.filterwarnings("ignore")  # Python warns of forks in a process with threads
def test_threads_that_fork_at_once_beside_a_store(place):
    model = opened(place, durability="os")
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
    crash(model)
    with opened(place) as again:
        assert [receipt.id for receipt in again.pending] == sorted(acted, key=lambda name: int(name.split("-")[1]))


def test_follow_struck_at_every_moment(memory_path):
    """Whatever the moment: the store leads to the bits of the model."""
    decision = ("b", [0.25, 0.5, 0.25])
    places = []

    def make():
        places.append(memory_path / str(len(places)))
        model = Online.open(places[-1], "gapsmh", GRAPH, 3, seed=3, pending=1, durability="os")
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
        crash(model)
        assert Online.from_store(places[-1]).differences(model) == []
        assert sum(isinstance(each, events.Decided) for each in read_log(places[-1])) == model.rounds
    assert played > 10


def test_a_probability_that_was_rounded_above_1_can_be_read_again(place, tmp_path):
    """Logs may hold one: what a budget took from other actions was added to the greedy class without a limit."""
    model = opened(place)
    action = model.act(np.ones(3)).turn.action
    crash(model)
    above = np.where(np.arange(3) == action, np.nextafter(1.0, 2.0), 0.0)
    (row,) = tamper(place, "SELECT * FROM acts")
    head = row[1], *row[3:8], row[10], row[11], row[14]
    checksum = events._sum_act(head, row[2], above.tobytes(), b"")
    tamper(place, "UPDATE acts SET probabilities = ?, checksum = ?", above.tobytes(), checksum)
    with pytest.warns(UserWarning, match="those of the log were kept"):
        model = Online.open(place)
    model.save(tmp_path / "model.npz")
    for found in (model.pending[0], Online.load(tmp_path / "model.npz").pending[0]):
        assert Receipt.from_dict(found.to_dict()).probabilities.tolist() == above.tolist()
    model.close()
