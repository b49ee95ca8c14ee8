"""A store in an SQLite file: what is done to its files is refused or noticed, and never silently wrong."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gappletron import UNSEEN, FeedbackGraph, Online, UserError, interpreted, read_decisions
from gappletron.base.errors import Unavailable
from gappletron.online import sqlite, upkeep
from gappletron.online.events import Batch
from gappletron.online.follower import Follower
from gappletron.online.shared import Shared
from gappletron.online.sqlite import Mark, Sqlite, accept
from gappletron.online.store import Store
from problems import ended
from stores import crash, tamper

GRAPH = FeedbackGraph.filtering(["ham", "spam", "odd"])


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


@pytest.fixture
def place(tmp_path):
    return tmp_path / "mail.sqlite"


def opened(place, **options):
    return Online.open(place, "gapsmh", GRAPH, 5, seed=3, **options)


def play(model, rounds, seed=0):
    """The ids of rounds whose feedback has come."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(rounds):
        receipt = model.act(rng.normal(size=5))
        model.learn(receipt, receipt.reveals[0] if receipt.reveals else UNSEEN)
        found.append(receipt.id)
    return found


def side(place, name):
    return place.with_name(f"{place.name}-{name}")


# ---------------------------------------------------------------------------------------------------------- which files


def test_one_file_is_left_and_nobody_else_reads_it(place):
    before = os.umask(0o022)
    try:
        model = opened(place)
        names = {"mail.sqlite", *(f"mail.sqlite-{name}" for name in ("wal", "shm", "mark", "lock"))}
        assert {path.name for path in place.parent.iterdir()} == names
        for path in place.parent.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        play(model, 3)
        model.close()
    finally:
        os.umask(before)
    assert [path.name for path in place.parent.iterdir()] == ["mail.sqlite"]


def test_what_is_no_store_is_refused(place, tmp_path):
    place.write_bytes(b"dear reader, " * 500)
    for call in (lambda: opened(place), lambda: Online.from_store(place), lambda: upkeep.check(place)):
        with pytest.raises(UserError, match="is not an SQLite file"):
            call()
    assert place.read_bytes() == b"dear reader, " * 500
    other = tmp_path / "other.sqlite"
    tamper(other, "CREATE TABLE letters (text)")
    with pytest.raises(UserError, match="is a store, not a saved model"):
        Online.load(other)
    for call in (lambda: opened(other), lambda: Online.from_store(other)):
        with pytest.raises(UserError, match="holds other tables, or none, and no store"):
            call()
    assert tamper(other, "SELECT name FROM sqlite_master") == [("letters",)]
    with pytest.raises(UserError, match=r"cannot use the file .* \(No such file or directory\)"):
        opened(tmp_path / "nowhere" / "mail.sqlite")
    with pytest.raises(UserError, match="there is no store in"):
        Online.from_store(tmp_path / "nowhere.sqlite")
    opened(place.with_name("third.sqlite")).close()
    tamper(place.with_name("third.sqlite"), "UPDATE about SET value = 99")
    with pytest.raises(UserError, match="was written by another gappletron"):
        Online.open(place.with_name("third.sqlite"))


def test_a_folder_changed_by_the_process_does_not_matter(place, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    model = opened("mail.sqlite")
    play(model, 2)
    monkeypatch.chdir(tmp_path / "other")
    play(model, 2)
    model.close()
    assert Online.from_store(place).rounds == 4
    assert not list((tmp_path / "other").iterdir())


def test_the_lock_file_may_be_removed(place):
    """The key refuses the first before it acknowledges anything."""
    first = opened(place)
    kept = play(first, 2)
    side(place, "lock").unlink()
    second = opened(place)
    with pytest.raises(Unavailable, match="open it again"):
        first.act(np.ones(5))
    kept += play(second, 2)
    second.close()
    with contextlib.suppress(UserError):
        first.close()
    assert [row["id"] for batch in read_decisions(place) for row in batch.to_pylist()] == kept
    upkeep.check(place)


# --------------------------------------------------------------------------------------- what others do to an open file


def overwrite(place, source):
    """What ``cp`` does to a file that is there."""
    data = source.read_bytes()
    with place.open("r+b") as file:
        file.truncate(0)
        file.write(data)


@pytest.mark.parametrize("what", ["rm", "mv", "cp", "cp -r", "rm -wal", "cp -wal", "rm -shm", "sqlite3"])
def test_what_happens_to_an_open_file_is_noticed_before_anything_is_acknowledged(place, tmp_path, what):
    with opened(place) as model:
        play(model, 5)
    old = tmp_path / "old"
    old.mkdir()
    model = opened(place)
    play(model, 5, seed=1)
    for path in place.parent.glob("mail.sqlite*"):
        shutil.copy(path, old)
    acknowledged = play(model, 5, seed=2)
    time.sleep(0.01)  # a tick of the clock of the file system
    if what == "rm":
        place.unlink()
    elif what == "mv":
        place.rename(tmp_path / "elsewhere")
    elif what == "cp":
        overwrite(place, old / place.name)
    elif what == "cp -r":
        for path in old.iterdir():
            overwrite(place.parent / path.name, path)
    elif what == "cp -wal":
        overwrite(side(place, "wal"), old / "mail.sqlite-wal")
    elif what == "sqlite3":
        tamper(place, "UPDATE acts SET time = 0")
    else:
        side(place, what.split()[1][1:]).unlink()
    assert len(acknowledged) == 5
    if what not in ("cp -wal", "sqlite3"):
        assert model.trouble.stops_writes
    for _ in range(2):
        with pytest.raises(
            Unavailable, match=r"moved or replaced|written to by another program|disk I/O error|lost transactions"
        ):
            model.act(np.ones(5))
    with contextlib.suppress(UserError):
        model.close()


def test_a_file_that_is_moved_back_goes_on(place, tmp_path):
    model = opened(place)
    play(model, 2)
    place.rename(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="bring it back"):
        model.act(np.ones(5))
    (tmp_path / "elsewhere").rename(place)
    model.commit()
    play(model, 2)
    crash(model)
    assert Online.from_store(place).differences(model) == []


# ------------------------------------------------------------------------------------------------ losses, and going on


def crashed(place, rounds=5):
    """A file after a kill, with some rounds that are in the -wal alone, and the state of the model."""
    model = opened(place)
    play(model, rounds)
    crash(model)
    return model


def test_a_missing_wal_is_noticed_and_can_be_accepted(place, tmp_path):
    model = crashed(place)
    side(place, "wal").unlink()
    for call in (  # also those who only read, so that no copy hides the loss
        Online.open,
        Online.open,  # nothing has changed
        Online.from_store,
        upkeep.check,
        lambda each: list(read_decisions(each)),
        lambda each: Sqlite(each, None).backup(tmp_path / "copy.sqlite"),
    ):
        with pytest.raises(UserError, match=r"has lost 1[01] of the transactions .* gappletron store accept"):
            call(place)
    code, out, _ = ended("store", "accept", place)
    assert (code, "can be opened" in out) == (0, True)
    with opened(place) as again:
        assert again.rounds == 0
        again.act(np.ones(5))
    assert model.rounds == 5


def test_what_is_left_is_not_given_up_while_somebody_reads_it(place, monkeypatch):
    monkeypatch.setattr(sqlite, "PATIENCE", 0.2)
    crashed(place)
    side(place, "wal").unlink()
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM acts").fetchall()
        with pytest.raises(UserError, match=r"is read by another program \(database is locked\): end it there"):
            accept(place)
    accept(place)
    with opened(place) as again:
        assert again.rounds == 0


def test_a_flipped_bit_in_the_last_frame_is_noticed(place):
    crashed(place)
    wal = side(place, "wal")
    data = bytearray(wal.read_bytes())
    data[-2000] ^= 4
    wal.write_bytes(data)
    with pytest.raises(UserError, match=r"has lost 1 of the transactions that were acknowledged, the last of 11"):
        Online.open(place)
    accept(place)
    with Online.open(place) as again:
        assert (again.rounds, again.waiting) == (5, 1)


def test_a_power_failure_may_lose_what_was_for_the_system_only(place, monkeypatch):
    """With durability="os" the mark says of which start of the system it is."""
    with opened(place, durability="os") as model:
        play(model, 5)
    model = opened(place, durability="os")
    play(model, 5)
    crash(model)
    side(place, "wal").write_bytes(b"")
    with pytest.raises(UserError, match="has lost"):
        Online.open(place)
    monkeypatch.setattr(sqlite, "_read_boot", lambda: 77)
    with Online.open(place) as again:
        assert again.rounds == 5


def test_a_reader_at_the_opening_is_no_reason_to_refuse_the_wal(place, monkeypatch):
    """It keeps the number of the opening out of the main file, which then has another than the mark could have."""
    monkeypatch.setattr(sqlite, "PATIENCE", 0.2)
    opened(place).close()
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM acts").fetchone() == (0,)
        model = opened(place)
        play(model, 5)
        crash(model)
        left = {path: path.read_bytes() for path in (place, side(place, "wal"), side(place, "mark"))}
    for path, data in left.items():  # the end of the reader has changed them, which a kill of both does not
        path.write_bytes(data)
    with Online.open(place) as again:
        assert again.differences(model) == []


def test_the_mark_names_the_last_transaction_of_all_models(place, monkeypatch):
    """A model that is about to acknowledge does not come after another that was stored later."""
    with Shared(str(place), "os") as shared:
        one, two = (Store(shared, name, "os") for name in ("one", "two"))
        other = threading.Thread(target=two.append, args=(Batch(two.model, 0),))

        def acknowledge(database, model, number, real=Sqlite.acknowledge):
            if model == one.model:
                other.start()
                other.join(0.3)
            real(database, model, number)

        monkeypatch.setattr(Sqlite, "acknowledge", acknowledge)
        one.append(Batch(one.model, 0))
        other.join()
        assert Mark.read(side(place, "mark")).model == two.model


def test_a_copy_without_the_wal_is_refused(place, tmp_path):
    model = opened(place)
    play(model, 5)
    copy = tmp_path / "copy.sqlite"
    shutil.copy(place, copy)
    with pytest.raises(UserError, match=r"is a copy of a store that was open .* store backup, or go on"):
        opened(copy)
    accept(copy)
    with opened(copy) as other:
        assert other.rounds == 0
    for name in ("", "-wal", "-mark"):  # copied one after the other, they need not belong together
        shutil.copy(f"{place}{name}", f"{copy}{name}")
    with pytest.raises(UserError, match=r"is a copy of a store that was open"):
        opened(copy)
    accept(copy)
    with opened(copy) as other:
        assert other.rounds == 5
    model.close()


def test_a_backup_put_over_a_crashed_file_is_not_mixed_with_its_wal(place, tmp_path):
    with opened(place) as model:
        play(model, 5)
    backup = tmp_path / "backup.sqlite"
    assert ended("store", "backup", place, backup)[0] == 0
    model = opened(place)
    play(model, 5)
    crash(model)
    shutil.copy(backup, place)
    with pytest.raises(UserError, match=r"was replaced after a crash, and the -wal .* belongs to the file before"):
        Online.open(place)
    accept(place)
    with Online.open(place) as again:
        assert again.rounds == 5
    upkeep.check(place)


def test_the_main_file_alone_that_is_gone(place):
    crashed(place)
    place.unlink()
    with pytest.raises(UserError, match="is gone, and files that belong to it are there: bring it back, or remove"):
        opened(place)
    assert not place.exists()


def test_a_reader_that_closes_last_takes_nothing_with_it(place):
    """A program that opens the file after a crash brings the -wal into it, and removes it."""
    model = crashed(place)
    assert tamper(place, "SELECT count(*) FROM acts") == [(5,)]
    assert not side(place, "wal").exists()
    with Online.open(place) as again:
        assert again.differences(model) == []


def test_kills_at_every_step_of_opening_and_closing(place, monkeypatch):
    """Whatever was done of it when the process was killed: the file can be opened, and has everything."""
    monkeypatch.setattr(sqlite.files, "synchronise", lambda *_, **__: None)
    expected, kills = 0, Counter()
    for step in ("_write_mark", "_set_generation", "_check_mark", "_let_go"):
        for after in (False, True):
            for number in range(3):
                is_acted, is_killed = _killed_at(place, step, number, after)
                expected += is_acted
                kills[step] += is_killed
                with opened(place) as model:
                    assert model.rounds == expected
                assert upkeep.check(place).rounds == expected
    assert len(kills) == 4
    assert min(kills.values()) >= 2, kills


def _killed_at(place, step, number, after):
    """How many decisions were acknowledged by a process that is killed at a step of opening or closing; and whether it
    came to that step so often.
    """
    real, calls = getattr(Sqlite, step), []

    def struck(self, *arguments):
        calls.append(step)
        if len(calls) > number and not after:
            os._exit(9)
        result = real(self, *arguments)
        if len(calls) > number:
            os._exit(9)
        return result

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        setattr(Sqlite, step, struck)
        with contextlib.suppress(BaseException):
            model = opened(place)
            model.act(np.ones(5))
            os.write(writing, b"acted")
            model.close()
            os._exit(0)
        os._exit(8)
    os.close(writing)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    with os.fdopen(reading, "rb") as file:
        return file.read().count(b"acted"), code == 9


def test_a_checkpoint_that_was_interrupted_after_its_first_page(place):
    """By a kill or a full disk: the file is shorter than it says, and the -wal has everything."""
    model = crashed(place, rounds=60)
    data = bytearray(place.read_bytes())
    data[28:32] = (1000).to_bytes(4, "big")
    place.write_bytes(data)
    with Online.open(place) as again:
        assert again.differences(model) == []
    assert upkeep.check(place).rounds == 60


def test_a_child_that_outlives_its_parent_does_not_keep_the_lock(place):
    code = f"""
import os, time
from gappletron import FeedbackGraph, Online
model = Online.open({str(place)!r}, "gapsmh", FeedbackGraph.filtering(["ham", "spam", "odd"]), 5, seed=3)
if not os.fork():
    print(os.getpid(), flush=True)  # the child runs, so it has let go of what it must not keep
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        try:
            opened(place).close()
        finally:
            os.kill(child, 9)


def test_a_mark_that_cannot_be_written_is_a_full_disk(place, monkeypatch):
    """On a file system that writes to other places, also the same bytes may find no room."""
    model = opened(place)
    play(model, 2)
    real, mark = os.write, model._contents.journal.store.database._mark_file

    def full(descriptor, data):
        if descriptor == mark:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"\(No space left on device\): nothing that was acknowledged is lost"):
            model.act(np.ones(5))
    monkeypatch.undo()
    model.act(np.ones(5))
    crash(model)
    with interpreted():
        assert Online.from_store(place).differences(model) == []


def test_a_mistake_in_a_name_makes_no_store(place, tmp_path):
    for command in (("retain", "--features", "30d"), ("vacuum",), ("check",), ("accept",)):
        code, _, error = ended("store", command[0], tmp_path / "nowhere.sqlite", *command[1:])
        assert (code, "there is no store in" in error) == (2, True)
    opened(place).close()
    code, _, error = ended("store", "retain", place, "--features", "30d", "--name", "modem")
    assert (code, "there is no model 'modem'" in error) == (2, True)
    assert not list(tmp_path.glob("nowhere*"))
    assert tamper(place, "SELECT name FROM models") == [("model",)]


# --------------------------------------------------------------------------------------------------------------- damage


def test_a_view_that_says_something_else_is_noticed(place):
    opened(place).close()
    (sql,) = tamper(place, "SELECT sql FROM sqlite_master WHERE name = 'decisions'")[0]
    tamper(place, "DROP VIEW decisions")
    tamper(place, sql.replace("acts.action_index AS", "acts.greedy_index AS"))
    with pytest.raises(UserError, match="the declaration of a table, an index or the view is damaged"):
        upkeep.check(place)


def test_damage_of_every_page_is_noticed_or_harmless(place, tmp_path):
    """Bits of one page after another are flipped: what is read is what was written, or an error."""
    rng, opens = np.random.default_rng(1), 0
    with opened(place, durability="os") as model:
        play(model, 15)
        model.checkpoint()
        play(model, 15, seed=1)
    rows = [row for batch in read_decisions(place) for row in batch.to_pylist()]
    data = place.read_bytes()
    copy = tmp_path / "copy.sqlite"
    for page in range(len(data) // 4096):
        damaged = bytearray(data)
        for at in rng.integers(4096 * page, 4096 * (page + 1), 3):
            damaged[at] ^= 1 << int(rng.integers(8))
        copy.write_bytes(damaged)
        with contextlib.suppress(UserError):
            again = Online.from_store(copy)
            assert again.differences(model) == [], page
            opens += 1
        with contextlib.suppress(UserError):
            found = [row for batch in read_decisions(copy) for row in batch.to_pylist()]
            assert found == rows, page
        with contextlib.suppress(UserError):
            upkeep.check(copy)
            assert [row for batch in read_decisions(copy) for row in batch.to_pylist()] == rows, page
        with contextlib.suppress(UserError):
            again = opened(copy)
            again.act(np.ones(5))
            crash(again)
            assert Online.from_store(copy).differences(again) == []
        for path in tmp_path.glob("copy.sqlite*"):
            path.unlink()
    assert opens > 5


# ---------------------------------------------------------------------------------------------- backups and checkpoints


def test_backups_of_a_running_store_can_be_opened(place, tmp_path):
    model = opened(place, durability="os", snapshot_every=50)
    stop, acted = threading.Event(), []

    def work():
        rng = np.random.default_rng(1)
        with interpreted():
            while not stop.is_set():
                acted.append(model.act(rng.normal(size=5)).id)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for number in range(4):
            known = len(acted)
            copy = tmp_path / f"copy-{number}.sqlite"
            database = Sqlite(place, None)
            database.backup(copy)
            database.close()
            with opened(copy, durability="os") as again:
                assert again.rounds >= known
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
            upkeep.check(copy)
    finally:
        stop.set()
        thread.join()
    with pytest.raises(UserError, match="is a store that is open, or was not closed"):
        model._contents.journal.store.database.backup(place)
    model.close()


def test_the_wal_is_brought_into_the_file_beside_the_rounds(place, monkeypatch):
    monkeypatch.setattr(sqlite, "WAL_BYTES", 200_000)
    model = opened(place, durability="os", snapshot_every=10**6)
    largest = 0
    for seed in range(30):
        play(model, 20, seed)
        largest = max(largest, side(place, "wal").stat().st_size)
    with model._contents.journal.store.database._checkpointing:
        pass
    assert 200_000 < largest < 2_500_000
    assert place.stat().st_size > 200_000
    assert model.trouble is None
    crash(model)
    assert Online.from_store(place).differences(model) == []


def test_a_reader_that_takes_long_keeps_its_view(place, monkeypatch):
    """It keeps the -wal from beginning anew, and the rounds go on."""
    monkeypatch.setattr(sqlite, "WAL_BYTES", 100_000)
    model = opened(place, durability="os", snapshot_every=10**6)
    play(model, 10)
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM acts").fetchone() == (10,)
        for seed in range(20):
            play(model, 20, seed)
        assert reader.execute("SELECT count(*) FROM acts").fetchone() == (10,)
        reader.execute("COMMIT")
    play(model, 20)
    assert model.trouble is None
    model.close()
    assert upkeep.check(place).rounds == 430


def test_a_checkpoint_for_which_there_is_no_thread_keeps_nothing_waiting(place, monkeypatch):
    """As when the interpreter ends: closing must not wait for it."""
    monkeypatch.setattr(sqlite, "WAL_BYTES", 50_000)
    model = opened(place, durability="os")

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        play(model, 30)
    assert not model._contents.journal.store.database._checkpointing.locked()
    model.close()
    assert Online.from_store(place).rounds == 30


def test_a_follower_does_not_follow_a_file_that_was_replaced(place, tmp_path):
    with opened(place) as model:
        play(model, 3)
    shutil.copy(place, tmp_path / "backup.sqlite")
    with Follower(place) as follower:
        assert follower.catch_up() == 0
        (tmp_path / "backup.sqlite").replace(place)
        with pytest.raises(Unavailable, match="was removed, moved or replaced"):
            follower.catch_up()
        assert follower.is_lost


def test_a_vacuum_gives_room_back(place):
    with opened(place, durability="os") as model:
        play(model, 1000)
        model.checkpoint()
        play(model, 1)
    assert upkeep.retain(place, decisions=upkeep.Limit("round", 1))["decisions"] > 1900
    before = place.stat().st_size
    code, out, _ = ended("store", "vacuum", place)
    assert (code, "MB before" in out) == (0, True)
    assert place.stat().st_size < before / 2
    with Online.open(place) as again:
        assert again.differences(model) == []


def test_the_mark_is_ignored_where_its_bytes_are_others(tmp_path):
    for data in (b"", b"x", bytes(sqlite.MARK.size)):
        (tmp_path / "mark").write_bytes(data)
        assert Mark.read(tmp_path / "mark") is None
    assert Mark.read(tmp_path / "none") is None


def test_a_full_database_is_a_full_disk(place):
    """SQLite's own error, from a limit on the number of its pages."""
    model = opened(place)
    play(model, 3)
    database = model._contents.journal.store.database
    database._writer.execute("PRAGMA max_page_count = 10")
    with pytest.raises(Unavailable, match=r"database or disk is full\): nothing that was acknowledged is lost; free"):
        play(model, 100)
    rounds = model.rounds
    with pytest.raises(Unavailable, match="is full"):
        model.act(np.ones(5))
    assert model.rounds == rounds
    database._writer.execute(f"PRAGMA max_page_count = {2**30}")
    model.commit()
    crash(model)
    assert Online.from_store(place).differences(model) == []


def test_a_limit_on_the_size_of_files_is_a_full_disk_too(place):
    code = f"""
import resource, numpy as np
from gappletron import FeedbackGraph, Online, UserError, interpreted
with interpreted():
    model = Online.open({str(place)!r}, "gapsmh", FeedbackGraph.bandit(3), 5, durability="disk")
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        while True:
            print(model.act(np.ones(5)).id, flush=True)
    except UserError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    model.commit()
    print(model.rounds)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *acknowledged, error, rounds = done.stdout.splitlines()
    assert "nothing that was acknowledged is lost; look after the disk" in error
    with Online.open(place) as again:
        assert again.rounds == int(rounds) == len(acknowledged) + 1
        assert [receipt.id for receipt in again.pending][:-1] == acknowledged


def test_permissions(place):
    with opened(place) as model:
        play(model, 1)
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    place.chmod(0)
    with pytest.raises(UserError, match="permissions"):
        Online.open(place)
    place.chmod(0o600)
    assert Path(place).exists()
