"""A journal leads to the same bits as if nothing had happened: after crashes, torn ends, full disks, signals."""

from __future__ import annotations

import contextlib
import csv
import errno
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

import storms
from gappletron import UNSEEN, Budget, Encoder, FeedbackGraph, Online, Receipt, UserError, interpreted, read_decisions
from gappletron.base.errors import Damaged, KeyReused
from gappletron.data.scores import NO_SCORES
from gappletron.online import decisions, events, folder_store as folders, journal as journals, transitions
from gappletron.online.folder_store import FRAME, FolderStore, read_groups, repair
from gappletron.online.store import Group
from problems import ended
from stores import MemoryStore

GRAPH = FeedbackGraph.filtering(["ham", "spam", "odd"])
FULL = FeedbackGraph.full(["ham", "spam", "odd"])


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Interpreted rounds, and a clock that stands still, so that all curves are the same."""
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1000.0)
    with interpreted():
        yield


def rows(seed=0, features=5):
    rng = np.random.default_rng(seed)
    while True:
        yield rng.normal(size=features), GRAPH.classes[rng.integers(3)]


def crash(model):
    """What a kill leaves: the files as they are, the lock free."""
    storms.wait_for_snapshot(model)
    model._contents.journal.store.close()


def feedback(receipt, label):
    return label if label in receipt.reveals else UNSEEN


def play(model, stream, rounds, late=3):
    """Rounds whose feedback comes some rounds later; what waits at the end."""
    waiting = []
    for x, label in itertools.islice(stream, rounds):
        waiting.append((model.act(x), label))
        if len(waiting) > late:
            receipt, truth = waiting.pop(0)
            model.learn(receipt.id, feedback(receipt, truth))
    return waiting


def same(first, second):
    assert first.differences(second) == []


def opened(folder, **options):
    return Online.open(folder, "gapsmh", GRAPH, 5, seed=3, **options)


# -------------------------------------------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("snapshot_every", [7, 100_000])
def test_a_crash_at_any_moment_leads_to_the_same_bits(tmp_path, snapshot_every):
    plain_model, stream, others = Online("gapsmh", GRAPH, 5, seed=3, monitor=True), rows(), rows()
    waiting, again = [], []
    for part in range(6):
        model = opened(tmp_path / "journal", durability="os", snapshot_every=snapshot_every)
        for receipt, label in again:
            model.learn(receipt.id, feedback(receipt, label))
        for receipt, label in waiting:
            plain_model.learn(receipt, feedback(receipt, label))
        again, waiting = play(model, stream, 5 + part), play(plain_model, others, 5 + part)
        same(model, plain_model)
        crash(model)
    same(Online.from_journal(tmp_path / "journal", replay="first"), plain_model)
    same(Online.from_journal(tmp_path / "journal"), plain_model)
    assert len({receipt.session for receipt, _ in again} | {model._receipts.session.name}) == 1


def everything(model, extra):
    """A call of every method that changes a model."""
    stream = rows(4)
    play(model, stream, 4, late=2)
    first, second, third = model.act_many([next(stream)[0] for _ in range(3)])
    model.learn_many([(second, feedback(second, "ham")), (first.id, feedback(first, "odd"))])
    model.forget(third)
    model.teach(next(stream)[0], "spam", propensity=0.5)
    model.teach(next(stream)[0], "spam")
    model.act(next(stream)[0], graph=FULL)
    model.learn(model.follow(next(stream)[0], "ham", [0.5, 0.25, 0.25]), "spam")
    model.follow(next(stream)[0], "odd", [0.5, 0.25, 0.25])
    model.set_limits(min_propensity=0.1, budget=Budget(2, per="day"))
    model.act(next(stream)[0])
    if model.learner.can_reset:
        model.reset()
    model.add_class("new")
    model.learn(model.pending[0], "odd")
    with model.hold():
        receipt = model.act(next(stream)[0])
        model.remember("key", b"print", b"answer")
        if extra:
            receipt = model.act({1600: 1.0})
        else:
            model.grow(6)
    model.commit()
    return receipt


@pytest.mark.parametrize("extra", [False, True])
def test_every_kind_of_event_is_replayed(tmp_path, extra):
    options = {"learner": "auto", "graph": GRAPH, "features": "grow" if extra else 5, "pending": 3, "seed": 5}
    plain_model = Online(**options, monitor=True)
    model = Online.open(tmp_path / "journal", **options)
    receipt = everything(model, extra)
    everything(plain_model, extra)
    same(model, plain_model)
    crash(model)
    again = Online.open(tmp_path / "journal")
    same(again, plain_model)
    assert again.recall("key", b"print") == b"answer"
    assert again.receipt(receipt.id).to_dict() == receipt.to_dict()
    with pytest.raises(UserError, match="has expired"):
        again.learn(f"{receipt.session}-2", "ham")
    again.close()
    kinds = {type(event) for group in read_groups(tmp_path / "journal") for event in events.unpack_events(group.events)}
    assert kinds == set(events.KINDS) - ({events.Grown} if extra else set())


def test_records_through_an_encoder_are_logged_as_features(tmp_path):
    encoder = Encoder(text="message", features=64)
    options = {"learner": "auto", "graph": FeedbackGraph.filtering(["ham", "spam"]), "encoder": encoder}
    model, plain_model = Online.open(tmp_path / "journal", **options), Online(**options, monitor=True)
    for target in (model, plain_model):
        for message, label in [("win a prize", "spam"), ("see you at five", "ham"), ("", "ham")] * 5:
            receipt = target.act({"message": message, "hour": 3})
            target.learn(receipt, feedback(receipt, label))
    crash(model)
    again = Online.open(tmp_path / "journal", encoder=Encoder(text="message", features=64))
    same(again, plain_model)
    assert again.encoder == encoder
    again.close()


def test_compiled_rounds_are_replayed_to_the_same_bits(tmp_path):
    from gappletron.kernel.compiling import in_mode

    with in_mode(False):
        model = opened(tmp_path / "journal", durability="os", snapshot_every=40)
        waiting = play(model, rows(2), 100)
        crash(model)
        again = Online.open(tmp_path / "journal")
        same(again, model)
        again.learn(waiting[0][0].id, feedback(*waiting[0]))
        again.close()


def test_a_model_to_start_with(tmp_path):
    taught = Online("auto", GRAPH, 5, monitor=True)
    for x, label in itertools.islice(rows(), 20):
        taught.teach(x, label)
    model = Online.open(tmp_path / "journal", start=taught)
    same(model, taught)
    model.act(np.ones(5))
    assert taught.rounds == 0
    model.close()
    Online.open(tmp_path / "journal", "auto", GRAPH, 5).close()
    with pytest.raises(UserError, match="holds a model already"):
        Online.open(tmp_path / "journal", start=taught)
    with pytest.raises(UserError, match="beside start"):
        Online.open(tmp_path / "other", graph=GRAPH, start=taught)


def test_receipts_expire_by_age_and_the_log_says_so(tmp_path, monkeypatch):
    clock = itertools.count(1_000.0, 5.0)  # it is read twice in every act
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: next(clock))
    model = opened(tmp_path / "journal", pending_age=25.0)
    receipts = [model.act(x) for x, _ in itertools.islice(rows(), 6)]
    assert [receipt.serial for receipt in model.pending] == [3, 4, 5]
    crash(model)
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1e9)  # replay reads no clock
    same(Online.from_journal(tmp_path / "journal"), model)
    again = Online.open(tmp_path / "journal")
    assert again.waiting == 0  # but by now the others are too old as well
    with pytest.raises(UserError, match=r"has expired.*waited for more than 25 seconds.*pending_age"):
        again.learn(receipts[5].id, UNSEEN)
    crash(again)
    same(Online.from_journal(tmp_path / "journal"), again)


# ----------------------------------------------------------------------------------------------- stateful, with crashes


class Crashes(RuleBasedStateMachine):
    """Any order of calls, crashes, torn ends and full disks, beside a model without a journal."""

    receipts = Bundle("receipts")
    make_store = staticmethod(FolderStore)

    def __init__(self):
        super().__init__()
        self.mode = contextlib.ExitStack()
        self.mode.enter_context(interpreted())
        self.folder = Path(self.mode.enter_context(storms.tempfile.TemporaryDirectory())) / "journal"
        self.model = self.opened()
        self.reference = Online("gapsmh", GRAPH, 5, seed=3, pending=4, monitor=True)
        self.stream = rows(9)
        self.ids = {}

    def opened(self):
        store = FolderStore(self.folder, segment_bytes=600)
        return Online.open(store, "gapsmh", GRAPH, 5, seed=3, pending=4, durability="os", snapshot_every=9)

    def teardown(self):
        crash(self.model)
        self.mode.close()

    @rule(target=receipts)
    def act(self):
        x, label = next(self.stream)
        ours, theirs = self.model.act(x), self.reference.act(x)
        assert ours.action == theirs.action
        self.ids[ours.id] = theirs
        return ours.id, label

    @rule(given=consumes(receipts))
    def learn(self, given):
        name, label = given
        theirs = self.ids[name]
        answers = []
        for model, receipt in ((self.model, name), (self.reference, theirs)):
            try:
                model.learn(receipt, feedback(theirs, label))
                answers.append("learned")
            except UserError as error:
                answers.append(re.sub(r"'\w+-\d+'", "it", str(error)))
        assert answers[0] == answers[1]

    @rule(given=receipts)
    def again(self, given):
        with contextlib.suppress(UserError):  # already learned from, or expired
            self.model.receipt(given[0])

    @rule()
    def teach(self):
        x, label = next(self.stream)
        self.model.teach(x, label)
        self.reference.teach(x, label)

    @rule(torn=st.integers(0, 60))
    def crash(self, torn):
        crash(self.model)
        last = max(self.folder.glob("log-*.gap"))
        with last.open("ab") as file:  # what a kill in the middle of a write leaves
            file.write(folders.framed(Group(self.model._contents.journal.store.count, 1, b"x" * 40))[:torn])
        self.model = self.opened()

    @rule(room=st.integers(0, 150))
    def full_disk(self, room):
        left = [room]
        write = os.write

        def limited(descriptor, data):
            size = min(len(data), left[0])
            if size == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left[0] -= size
            return write(descriptor, data[:size])

        x, _ = next(self.stream)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(folders.os, "write", limited)
            try:
                self.model.act(x)
            except UserError as error:
                assert "No space left" in str(error)  # noqa: PT017 - it may fit
        self.model.commit()
        self.reference.act(x)  # it was not acknowledged, and it did happen

    @rule()
    def close(self):
        self.model.close()
        self.model = self.opened()

    @invariant()
    def equal(self):
        same(self.model, self.reference)


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=25, stateful_step_count=25)


# -------------------------------------------------------------------------------------------- damage, torn ends, repair


@pytest.fixture
def some_log(tmp_path):
    """A folder with a log of one segment, and where each of its frames begins."""
    model = opened(tmp_path / "journal", durability="os")
    play(model, rows(), 5)
    crash(model)
    (path,) = (tmp_path / "journal").glob("log-*.gap")
    data, at, starts = path.read_bytes(), len(folders.MAGIC), []
    while at < len(data):
        starts.append(at)
        at += FRAME.size + FRAME.unpack_from(data, at)[1]
    return path, data, starts


def test_a_log_cut_anywhere_keeps_the_whole_frames_before_the_cut(some_log):
    path, data, starts = some_log
    for cut in range(starts[-2], len(data)):
        path.write_bytes(data[:cut])
        store = FolderStore(path.parent)
        whole = sum(start + FRAME.size + FRAME.unpack_from(data, start)[1] <= cut for start in starts)
        assert len(list(store.groups())) == whole
        store.close()
        assert path.stat().st_size == (starts[whole] if whole < len(starts) else len(data))


def test_a_flipped_bit_in_the_last_frame_is_a_torn_end_and_elsewhere_damage(some_log):
    path, data, starts = some_log
    for at in range(starts[-1], len(data), 3):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        store = FolderStore(path.parent)
        assert len(list(store.groups())) == len(starts) - 1
        store.close()
    for at in range(starts[0], starts[-1], 17):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(UserError, match=r"is damaged at byte .*--repair"):
            FolderStore(path.parent)


def test_repair_cuts_before_the_damage_and_keeps_the_rest(some_log):
    path, data, starts = some_log
    path.write_bytes(data[: starts[3]] + b"????" + data[starts[3] + 4 :])
    left = repair(path.parent)
    assert path.read_bytes() == data[: starts[3]]
    assert path.with_suffix(".damaged").read_bytes()[4:] == data[starts[3] + 4 :]
    model = Online.open(path.parent)
    assert left == sum(group.size for group in itertools.islice(read_groups(path.parent), 3))
    model.act(np.ones(5))
    model.close()


def test_a_damaged_snapshot_is_replaced_by_the_one_before_it(tmp_path):
    model = opened(tmp_path / "journal", durability="os")
    for _ in range(3):
        play(model, rows(), 4)
        model.checkpoint()
    play(model, rows(), 4)
    crash(model)
    newest = max((tmp_path / "journal").glob("state-*.npz"))
    newest.write_bytes(newest.read_bytes()[:-100])
    again = Online.open(tmp_path / "journal")
    same(again, model)
    again.close()


def test_a_folder_that_is_open_is_refused(tmp_path):
    model = opened(tmp_path / "journal")
    with pytest.raises(UserError, match=r"is open in another process \(or twice in this one\)"):
        Online.open(tmp_path / "journal")
    code = f"from gappletron import Online; Online.open({str(tmp_path / 'journal')!r})"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is open in another process" in other.stderr
    model.act(np.ones(5))
    model.close()
    with pytest.raises(UserError, match="was closed: open it again"):
        model.act(np.ones(5))
    assert model.rounds == 1
    Online.open(tmp_path / "journal").close()


def test_a_start_that_was_interrupted_begins_again(tmp_path):
    store = FolderStore(tmp_path / "journal")
    store.put_snapshot(
        0, "gappletron.Online", *Online("gapsmh", GRAPH, 5)._contents.describe()
    )  # the settings come last
    store.close()
    again = opened(tmp_path / "journal")
    assert again.rounds == 0
    again.act(np.ones(5))
    again.close()


def test_a_journal_that_has_lost_its_settings_is_left_alone(tmp_path):
    model = opened(tmp_path / "journal")
    crash(model)
    (tmp_path / "journal" / "journal.json").unlink()
    before = sorted((path.name, path.stat().st_size) for path in (tmp_path / "journal").iterdir())
    for arguments in ({}, {"graph": GRAPH}):
        with pytest.raises(UserError, match=r"has lost its file 'journal.json'"):
            Online.open(tmp_path / "journal", **arguments)
    assert sorted((path.name, path.stat().st_size) for path in (tmp_path / "journal").iterdir()) == before


def test_foreign_folders_and_other_arguments_are_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear", encoding="ascii")
    with pytest.raises(UserError, match=r"holds 'letter.txt' and no journal"):
        opened(tmp_path)
    with pytest.raises(UserError, match=r"there is no model in .*new.* yet, and a new one needs a graph"):
        Online.open(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    model = opened(tmp_path / "journal")
    model.add_class("later")
    model.close()
    for options, words in [
        ({"learner": "gaphin"}, r"the model in .* was made with another learner \(name 'gapsmh', not 'gaphin'\)"),
        ({"learner": "gapsmh:gamma=3"}, r"learner \(exploration\.gamma 1\.0, not 3\.0\): omit it"),
        ({"graph": FULL}, r"graph \(name 'filtering', not 'full'\): omit it"),
        ({"graph": FeedbackGraph.filtering(["a", "b"])}, r"\(classes \['ham', 'spam', 'odd'\], not \['a', 'b'\]\)"),
        ({"graph": FeedbackGraph.filtering(GRAPH.classes, revealing="odd")}, r"graph \(other edges\)"),
        ({"features": 6}, r"features \(5, not 6\): omit it"),
        ({"normalize": "unit"}, r"normalize \('auto', not 'unit'\)"),
        ({"encoder": Encoder(text="a")}, r"encoder \(None, not .*'text'"),
        ({"speed": 3}, "speed was given, and nothing is known of it"),
        ({"durability": "paper"}, "choose 'disk' or 'os'"),
        ({"pending": 0}, "pending must be at least 1"),
    ]:
        with pytest.raises(UserError, match=words):
            Online.open(tmp_path / "journal", **options)
    again = opened(tmp_path / "journal", pending=7, min_propensity=0.2, monitor=True, normalize="auto")
    assert (again._receipts.limits.pending, again.graph.n_classes) == (7, 4)
    crash(again)
    assert Online.from_journal(tmp_path / "journal").limits.min_propensity == 0.2


# ----------------------------------------------------------------------------------------------------------- full disks


@pytest.mark.parametrize("call", ["act", "learn"])
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path, monkeypatch, call):
    model = opened(tmp_path / "journal", durability="os")
    receipts = [model.act(x) for x, _ in itertools.islice(rows(), 3)]
    plain_model = Online("gapsmh", GRAPH, 5, seed=3, monitor=True)
    theirs = [plain_model.act(x) for x, _ in itertools.islice(rows(), 3)]
    full = True

    def write(descriptor, data, write=os.write):
        if full:
            write(descriptor, data[:10])  # part of it fits
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(folders.os, "write", write)
    for _ in range(2):  # the second changes nothing at all
        with pytest.raises(UserError, match=r"No space left on device.*free some space"):
            model.act(np.ones(5)) if call == "act" else model.learn(receipts[0], feedback(receipts[0], "ham"))
    if call == "act":
        plain_model.act(np.ones(5))
    else:
        plain_model.learn(theirs[0], feedback(theirs[0], "ham"))
    same(model, plain_model)
    full = False
    model.learn(receipts[1], feedback(receipts[1], "ham"))  # it goes on by itself
    plain_model.learn(theirs[1], feedback(theirs[1], "ham"))
    crash(model)
    again = Online.open(tmp_path / "journal")
    same(again, plain_model)
    again.close()


def test_a_limit_on_the_size_of_files_is_a_full_disk_too(tmp_path):
    code = f"""
import resource, numpy as np
from gappletron import FeedbackGraph, Online, UserError, interpreted
with interpreted():
    model = Online.open({str(tmp_path / "journal")!r}, "gapsmh", FeedbackGraph.bandit(3), 5, durability="disk")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
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
    assert "File too large" in error
    again = Online.from_journal(tmp_path / "journal")
    assert again.rounds == int(rounds) == len(acknowledged) + 1
    assert [receipt.id for receipt in again.pending][:-1] == acknowledged


def test_a_failed_fsync_is_final(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal")
    first = model.act(np.ones(5))

    def fail(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(folders, "_synchronised", fail)
    for _ in range(2):
        with pytest.raises(UserError, match=r"could not be written to the disk.*open it again"):
            model.act(np.ones(5))
    monkeypatch.undo()
    crash(model)
    again = Online.open(tmp_path / "journal")
    assert again.receipt(first.id).action == first.action
    again.close()


def test_a_snapshot_that_fails_does_not_stop_the_model(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal", durability="os", snapshot_every=3)
    monkeypatch.setattr(FolderStore, "put_snapshot", lambda *_: (_ for _ in ()).throw(UserError("no room")))
    play(model, rows(), 10)
    storms.wait_for_snapshot(model)
    assert model._contents.journal.background_error == "no room"
    crash(model)
    monkeypatch.undo()
    again = Online.open(tmp_path / "journal")
    same(again, model)
    again.close()


# ---------------------------------------------------------------------------------------------- kills, signals, threads


def test_ten_kills_under_load(tmp_path):
    assert storms.killed_journals(10, tmp_path, seed=1) >= 20


@pytest.mark.parametrize("call", ["act", "follow", "grow", "learn", "forget", "hold"])
def test_a_journal_struck_at_every_moment(tmp_path, call):
    folder, count = None, itertools.count()

    def make():
        nonlocal folder
        folder = tmp_path / str(next(count))
        features = "grow" if call == "grow" else 5
        model = Online.open(folder, "gapsmh", GRAPH, features, seed=3, pending=2, durability="os")
        model.act(np.ones(5))
        model.act(np.ones(5))
        return model

    def strike(model):
        x, receipt = np.full(5, 2.0), model.pending[0]
        if call == "act":
            model.act(x)
        elif call == "follow":
            model.follow(x, "ham", [0.5, 0.25, 0.25])
        elif call == "grow":
            model.act({3000: 1.0})
        elif call == "learn":
            model.learn(receipt, feedback(receipt, "ham"))
        elif call == "forget":
            model.forget(receipt)
        else:
            with model.hold():
                model.learn(model.act(x), feedback(receipt, "ham"))

    moments = 0
    for model, _ in storms.at_every_moment(make, strike, files=(*storms.FILES, "folder_store.py")):
        moments += 1
        assert not model._lock._is_owned()
        with contextlib.suppress(UserError):  # it may not wait any more
            model.learn(model.pending[-1], UNSEEN)
        model.act(np.ones(5))
        crash(model)
        with Online.open(folder) as again:
            same(again, model)
        same(Online.from_journal(folder, replay="first"), model)
        shutil.rmtree(folder)
    assert moments > 15


def test_commit_stores_also_what_an_interrupted_call_has_done(tmp_path):
    folder, count, rounds = None, itertools.count(), []

    def make():
        nonlocal folder
        folder = tmp_path / str(next(count))
        return Online.open(folder, "gapsmh", GRAPH, 5, durability="os")

    for model, _ in storms.at_every_moment(make, lambda model: model.act(np.ones(5))):
        model.commit()
        assert Online.from_journal(folder).rounds == model.rounds
        rounds.append(model.rounds)
        model.close()
    assert {0, 1} == set(rounds)


def test_a_journal_whose_close_was_struck_at_every_moment_is_closed_by_the_next(tmp_path):
    count = itertools.count()

    def make():
        model = Online.open(tmp_path / str(next(count)), "gapsmh", GRAPH, 5, durability="os")
        model.act(np.ones(5))
        return model

    for place, (model, _) in enumerate(storms.at_every_moment(make, lambda model: model.close())):
        model.close()
        with Online.open(tmp_path / str(place)) as again:
            assert again.rounds == 1


def test_a_signal_waits_until_what_was_taught_is_logged(tmp_path):
    rng = np.random.default_rng(5)
    model = opened(tmp_path / "journal", durability="os")
    struck = 0
    with storms.lightning() as strike:
        for number in range(60):
            with contextlib.suppress(storms.Struck):
                strike(rng.uniform(1.0, 1500.0))
                model.teach(np.full(5, number), "ham")
                model.remember(str(number), b"", b"answer")
                strike(0)
                continue
            struck += 1
    assert struck > 5
    model.act(np.ones(5))  # what an interrupted call has done is stored with the next one
    crash(model)
    again = Online.open(tmp_path / "journal")
    same(again, model)
    again.close()


def test_threads_share_writes_and_nothing_is_lost(tmp_path, monkeypatch):
    writes, busy, go_on = [], threading.Event(), threading.Event()

    def synchronised(descriptor):
        writes.append(descriptor)
        busy.set()
        assert go_on.wait(30)
        os.fsync(descriptor)

    model = opened(tmp_path / "journal")
    monkeypatch.setattr(folders, "_synchronised", synchronised)
    receipts = []
    threads = [threading.Thread(target=lambda: receipts.append(model.act(np.ones(5)))) for _ in range(8)]
    threads[0].start()
    assert busy.wait(30)
    for thread in threads[1:]:  # their rounds are played while the disk is busy with the first
        thread.start()
    for _ in range(3000):
        if model.rounds == len(threads):
            break
        time.sleep(0.01)
    assert receipts == []  # none is acknowledged
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(writes) == 2  # the first, and one for all the others
    crash(model)
    again = Online.open(tmp_path / "journal")
    same(again, model)
    assert {receipt.id for receipt in again.pending} == {receipt.id for receipt in receipts}
    again.close()


def test_what_is_held_is_written_together_or_not_at_all(tmp_path):
    model = opened(tmp_path / "journal")
    before = model._contents.journal.store.count
    with model.hold():
        receipt = model.act(np.ones(5))
        model.learn(receipt, feedback(receipt, "ham"))
        model.remember("key", b"", b"answer")
        model.commit()
        assert model._contents.journal.store.count == before
    copied = shutil.copytree(tmp_path / "journal", tmp_path / "copy")
    model.commit()
    last = list(read_groups(tmp_path / "journal"))[-1]
    names = [type(event).__name__ for event in events.unpack_events(last.events)]
    assert names == ["GraphMade", "Decided", "Fed", "Answered"]
    lost = Online.from_journal(copied)
    assert (lost.rounds, lost.recall("key", b"")) == (0, None)
    model.close()


def test_a_copy_of_the_process_does_not_write(tmp_path):
    model = opened(tmp_path / "journal")
    child = os.fork()
    if child == 0:
        try:
            model.act(np.ones(5))
        except UserError as error:
            os._exit(7 if "is a copy (fork)" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert model.act(np.ones(5)).serial == 0
    model.close()


# ----------------------------------------------------------------------------------- idempotency keys, receipts as data


def test_answers_are_recalled_and_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("gappletron.online.contents.MOST_ANSWERS", 3)
    model = opened(tmp_path / "journal")
    for number in range(5):
        model.remember(f"key {number}", b"f", b"%d" % number)
    model.remember("key 2", b"f", b"two")
    model.close()
    again = Online.open(tmp_path / "journal")
    assert [again.recall(f"key {number}", b"f") for number in range(5)] == [None, None, b"two", b"3", b"4"]
    with pytest.raises(KeyReused, match="was used for another request"):
        again.recall("key 3", b"other")
    with pytest.raises(UserError, match="1 to 255 bytes"):
        again.recall("", b"")
    again.close()


def test_receipts_survive_as_json():
    model = Online("auto", GRAPH, 5)
    receipt = model.act([1.0, 0.0, 2.0, 0.0, 0.5])
    again = Receipt.from_dict(json.loads(json.dumps(receipt.to_dict())))
    assert again.to_dict() == receipt.to_dict()
    assert (again.turn.record == receipt.turn.record).all()
    twin = Online.from_player(model.player)
    model.learn(again, feedback(again, "ham"))
    assert not model.pending
    assert twin.pending == ()
    for damage in (
        {"probabilities": [1.0]},
        {"action": "none"},
        {"id": "7"},
        {"scores": ["x"]},
        {"graph": {}},
        {"features": {"indices": [3, 1], "values": [1.0, 1.0]}},
        {"rate": -1.0},
        {"time": None},
    ):
        with pytest.raises(UserError, match="not the values of a receipt"):
            Receipt.from_dict({**receipt.to_dict(), **damage})


# ---------------------------------------------------------------------------------------- the table, compaction, stores


def test_the_table_holds_what_happened(tmp_path):
    model = opened(tmp_path / "journal", pending=3, durability="os", snapshot_every=8)
    expected, stream = [], rows()
    for number in range(12):
        x, label = next(stream)
        receipt = model.act(x, graph=FULL if number == 5 else None)
        row = {"id": receipt.id, "action": receipt.action, "greedy": receipt.greedy, "status": "waiting", "label": None}
        row |= {"values": x.tolist(), "indices": list(range(5)), "probabilities": receipt.probabilities.tolist()}
        expected.append(row | {"round": number, "probability": receipt.probability})
        if number % 3 == 0:
            told = feedback(receipt, label)
            model.learn(receipt, told)
            row = expected[-1]
            row |= {"status": "unseen" if told is UNSEEN else "seen", "label": None if told is UNSEEN else told}
        elif number == 4:
            model.forget(receipt)
            expected[-1]["status"] = "forgotten"
    for row in expected:
        if row["status"] == "waiting" and row["id"] not in {receipt.id for receipt in model.pending}:
            row["status"] = "expired"
    decisions.export(tmp_path / "journal", tmp_path / "decisions.parquet")  # while the model is open
    found = pq.read_table(tmp_path / "decisions.parquet").to_pylist()
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    assert len({row["graph"] for row in found}) == 2
    assert all((row["feedback_time"] is None) == (row["status"] == "waiting") for row in found)
    decisions.export(tmp_path / "journal", tmp_path / "decisions.csv")
    with (tmp_path / "decisions.csv").open(newline="", encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert [json.loads(row["values"]) for row in written] == [row["values"] for row in expected]
    assert [row["label"] for row in written] == [row["label"] or "" for row in expected]
    with pytest.raises(UserError, match=r"end in .parquet or .csv"):
        decisions.export(tmp_path / "journal", tmp_path / "decisions.xlsx")
    summary = decisions.summarise(tmp_path / "journal")
    assert summary.rounds == 12
    assert summary.statuses["expired"] == sum(row["status"] == "expired" for row in expected)
    model.close()


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_compacted_rows_are_hashes_and_are_not_replayed(tmp_path, kind):
    store = MemoryStore() if kind == "memory" else FolderStore(tmp_path / "journal", segment_bytes=1500)
    model = Online.open(store, "gapsmh", GRAPH, 5, seed=3, durability="os", keep_rows=10)
    for _ in range(6):
        play(model, rows(), 10)
        model.checkpoint()
    kept = [
        not event.features.digest
        for group in store.groups()
        for event in events.unpack_events(group.events)
        if isinstance(event, events.Decided)
    ]
    assert len(kept) == 60
    assert kept == sorted(kept)
    assert not kept[0]
    assert sum(kept) >= 10
    crash(model)
    if kind == "folder":
        again = Online.open(tmp_path / "journal")
        same(again, model)
        again.close()
        with pytest.raises(UserError, match="were compacted, so it cannot be replayed"):
            Online.from_journal(tmp_path / "journal", replay="first")
        rows_found = [row for batch in read_decisions(tmp_path / "journal") for row in batch.to_pylist()]
        assert [row["features_hash"] is None for row in rows_found] == kept
        assert [row["values"] is not None for row in rows_found] == kept


def test_a_store_in_memory_does_the_same(tmp_path):
    store = MemoryStore()
    model, plain_model = opened(store, snapshot_every=9), Online("gapsmh", GRAPH, 5, seed=3, monitor=True)
    play(model, rows(), 20)
    play(plain_model, rows(), 20)
    storms.wait_for_snapshot(model)
    again = Online.open(store)
    same(again, plain_model)
    with pytest.raises(UserError, match="write them in order"):
        store.append(Group(1, 1, b""), durable=True)


def test_events_survive_as_bytes_and_damaged_bytes_are_noticed():
    features = events.Features(np.array([1, 5], np.int32), np.array([0.5, -2.0]))
    some = [
        events.Opened("name", 3, 1.5, {"python": "3"}, [10, 20, None]),
        events.GraphMade(7, {"a": [1, None]}),
        events.Decided(3, 1.5, 1, 0, 7, True, features, np.array([0.25, 0.75])),
        events.Decided(4, 1.5, 1, 0, 7, False, features, np.array([0.25, 0.75]), np.array([-0.5, 0.5])),
        events.Fed(3, 2.5, -1),
        events.Expired(4, 2.5),
        events.Taught(1.0, 2, 0.5, features),
        events.Taught(1.0, 2, 0.5, features, np.array([0.5, -0.5])),
        events.Added(8, 1.0),
        events.Grown(2000),
        events.Limited({"min_propensity": 0.0, "budget": None}, 3.0),
        events.Answered(1.0, "clé", b"f", b"answer"),
        events.WasReset(2.0),
        events.Restarted(10, "memory", 2.0),
    ]
    data = b"".join(map(events.pack_event, some))
    assert repr(list(events.unpack_events(data))) == repr(some)
    shorter = events.drop_features(data)
    hashed = [event for event in events.unpack_events(shorter) if isinstance(event, events.Decided | events.Taught)]
    assert len({event.features.digest for event in hashed} - {b""}) == 1  # of the same row
    assert [event.scores.tolist() for event in hashed] == [[], [-0.5, 0.5], [], [0.5, -0.5]]
    assert events.drop_features(shorter) == shorter
    for cut in range(1, len(data)):
        with contextlib.suppress(Damaged):
            list(events.unpack_events(data[:cut]))
    with pytest.raises(Damaged):
        list(events.unpack_events(data[:-1]))


def test_restarts_are_in_the_log_for_readers(tmp_path):
    """With a memory of 10 rounds and every label shown; `round` is the number of decisions so far."""
    label = itertools.cycle(FULL.classes)
    model = Online.open(tmp_path / "journal", "auto", FULL, 3, memory=10, durability="os", snapshot_every=15)
    for x, truth in zip(np.eye(3)[np.arange(25) % 3], label, strict=False):
        model.learn(model.act(x), truth)
    receipts = model.act_many(np.eye(3)[np.arange(40) % 3])
    model.learn_many([(receipt, FULL.classes[n % 3]) for n, receipt in enumerate(receipts)])
    for n in range(10):
        model.teach(np.eye(3)[n % 3], FULL.classes[n % 3])
    model.reset()
    restarts = model.restarts
    crash(model)
    logged = [
        (event.round, event.reason)
        for group in read_groups(tmp_path / "journal")
        for event in events.unpack_events(group.events)
        if isinstance(event, events.Restarted)
    ]
    assert logged == [(10, "memory"), (20, "memory"), *[(65, "memory")] * 5, (65, "reset")]
    for replay in ("first", "last"):
        again = Online.from_journal(tmp_path / "journal", replay=replay)
        same(again, model)
        assert again.restarts == restarts
        assert len(restarts) == 8
    (batch,) = read_decisions(tmp_path / "journal")
    assert batch["restarts"].to_pylist() == [0] * 10 + [1] * 10 + [2] * 45
    summary = decisions.summarise(tmp_path / "journal")
    assert (summary.restarts, summary.restarted) == (8, events.Restarted(65, "reset", 1000.0))
    code, out, _ = ended("journal", tmp_path / "journal")
    assert code == 0
    told = "began anew        8 times, last after round 65, 1970-01-01 00:16:40 UTC, since it was reset"
    assert told in out.splitlines()


def test_decisions_of_other_versions_keep_their_logged_probabilities(tmp_path):
    store = MemoryStore()
    model = opened(store)
    model.act(np.ones(5))
    group = store._groups[-1]
    changed = []
    for event in events.unpack_events(group.events):
        if isinstance(event, events.Decided):
            event = event._replace(action=1, probabilities=np.array([0.2, 0.5, 0.3]))  # noqa: PLW2901
        changed.append(events.pack_event(event))
    store._groups[-1] = group._replace(events=b"".join(changed))
    with pytest.warns(UserWarning, match="1 decisions of the journal .* those of the log were kept"):
        again = Online.open(store)
    assert again.pending[0].action == "spam"
    assert again.pending[0].probabilities.tolist() == [0.2, 0.5, 0.3]


def test_the_player_of_a_journal_is_not_lent(tmp_path):
    model = opened(tmp_path / "journal")
    with pytest.raises(UserError, match="nothing that the player of a model with a journal plays is logged"):
        _ = model.player
    with pytest.raises(UserError, match="has no journal"):
        Online("gapsmh", GRAPH, 5).checkpoint()
    model.close()
    model.close()


def test_a_policy_that_is_not_known():
    with pytest.raises(UserError, match="choose 'disk' or 'os'"):
        journals.Journal(MemoryStore(), journals.Policy(durability="stone"))


def test_two_kills_of_a_server_under_load(tmp_path):
    assert storms.killed_services(2, tmp_path, seed=3) > 10


# ------------------------------------------------------------------------------------------- forks, limits, odd moments


def in_a_copy(work):
    """The exit code of a forked process that does some work; 8 where it raises."""
    child = os.fork()
    if child == 0:
        code = 8
        with contextlib.suppress(BaseException):
            code = work() or 0
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_copy_of_the_process_neither_writes_nor_keeps_the_lock(tmp_path):
    model = opened(tmp_path / "journal")
    with model.hold():
        model.act(np.ones(5))  # published, and not stored yet

    def work():
        with pytest.raises(UserError, match=r"is a copy \(fork\)"):
            model.commit()
        with pytest.raises(UserError, match=r"is a copy \(fork\)"):
            model.checkpoint()
        with pytest.raises(UserError, match=r"is a copy \(fork\)"):
            model.close()
        return 7

    assert in_a_copy(work) == 7
    model.commit()
    model.act(np.ones(5))
    crash(model)
    with Online.open(tmp_path / "journal") as again:
        assert again.rounds == 2
    running = opened(tmp_path / "other")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # it outlives the model
        os.write(writing, b"ready")
        time.sleep(30)
        os._exit(0)
    os.read(reading, 5)
    os.close(reading)
    os.close(writing)
    crash(running)
    Online.open(tmp_path / "other").close()
    os.kill(child, 9)
    os.waitpid(child, 0)


def test_fewer_receipts_may_wait_after_opening_again(tmp_path):
    model = opened(tmp_path / "journal", durability="os")
    receipts = [model.act(x) for x, _ in itertools.islice(rows(), 9)]
    crash(model)
    again = opened(tmp_path / "journal", durability="os", pending=3)
    assert [receipt.id for receipt in again.pending] == [receipt.id for receipt in receipts[-3:]]
    with pytest.raises(UserError, match="expired"):
        again.learn(receipts[0].id, feedback(receipts[0], "ham"))
    again.checkpoint()
    again.learn(receipts[-1].id, feedback(receipts[-1], "ham"))
    crash(again)
    for replay in ("first", "last"):
        same(Online.from_journal(tmp_path / "journal", replay=replay), again)


def test_a_log_that_ends_before_its_newest_snapshot_is_refused_and_repaired(tmp_path):
    model = opened(tmp_path / "journal", durability="os")
    play(model, rows(), 6)
    model.close()
    (path,) = (tmp_path / "journal").glob("log-*.gap")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UserError, match=r"ends before its newest snapshot.*--repair"):
        Online.open(tmp_path / "journal")
    repair(tmp_path / "journal")
    again = Online.open(tmp_path / "journal")
    same(again, model)  # the snapshot has all of it
    again.act(np.ones(5))
    crash(again)
    same(Online.from_journal(tmp_path / "journal"), again)
    assert 1 <= sum(batch.num_rows for batch in read_decisions(tmp_path / "journal")) <= 7


@pytest.mark.parametrize("at", [400, 3])  # in a frame, and at the very beginning
def test_repair_keeps_what_is_whole_behind_the_damage(tmp_path, at):
    store = FolderStore(tmp_path / "journal", segment_bytes=1200)
    model = Online.open(store, "gapsmh", GRAPH, 5, seed=3, durability="os")
    play(model, rows(), 40)
    model.close()
    second = sorted((tmp_path / "journal").glob("log-*.gap"))[1]
    data = bytearray(second.read_bytes())
    data[at] ^= 4
    second.write_bytes(data)
    with pytest.raises(UserError, match="is damaged"):
        list(read_groups(tmp_path / "journal"))
    for _ in range(2):  # a second repair finds nothing to do
        repair(tmp_path / "journal")
    again = Online.open(tmp_path / "journal")
    same(again, model)
    again.close()
    rounds = [row["round"] for batch in read_decisions(tmp_path / "journal") for row in batch.to_pylist()]
    assert 20 < len(rounds) < 40
    assert rounds == sorted(rounds)
    assert len(list((tmp_path / "journal").glob("*.damaged"))) == 1


def test_calls_that_are_refused_leave_the_journal_as_it_is(tmp_path):
    model = Online.open(tmp_path / "journal", "auto", GRAPH, durability="os", normalize=None)
    assert type(model._player.engine.normalization).__name__ == "AsGiven"
    other = FeedbackGraph.full(["ham", "spam"])
    for call, words in [
        (lambda: model.act({2000: 1.0}, graph=other), "has other classes"),  # the model has grown by then
        (lambda: model.grow(5000), "nothing must be grown"),
        (lambda: model.teach([1.0], "ham", [0.5]), "propensity must be a number"),
        (lambda: model.remember("key", b"", "text"), "an answer must be bytes"),
        (lambda: model.remember("\ud800", b"", b""), "printable"),
    ]:
        with pytest.raises(UserError, match=words):
            call()
    with model.hold():
        receipt = model.act([1.0])
        for call in (model.hold().__enter__, model.close, model.checkpoint):
            with pytest.raises(UserError, match=r"hold\(\) block"):
                call()
        model.learn(receipt, feedback(receipt, "ham"))
    model.act([1.0, 2.0], graph=FeedbackGraph.filtering(["ham", "spam", "odd"]))  # equal, and another object
    model.commit()
    crash(model)
    same(Online.from_journal(tmp_path / "journal"), model)


@pytest.mark.parametrize(("size", "expected"), [(0, 10), (2**20, 10), (2**20 + 8, 42)])
def test_a_large_snapshot_waits_until_the_log_has_grown_as_well(size, expected):
    """Events of 100,000 bytes, at least 10 of them; four times the size of the snapshot only where that is large."""
    journal = journals.Journal(MemoryStore(), journals.Policy(snapshot_every=10))

    def made():
        return journals.Snapshot(journal.store.count, "kind", {}, {"a": np.zeros(size // 8)}, None)

    def events_until_due():
        for number in range(1, 100):
            journal.add(journals.Entry(lambda: bytes(100_000)))
            journal.publish()
            journal.commit()
            if journal.is_snapshot_due:
                return number
        return None

    assert events_until_due() == 10  # the size of the last one is not known yet
    for _ in range(2):
        journal.put_snapshot(made)
        assert events_until_due() == expected


@pytest.mark.parametrize("classes", [0, 2])
def test_the_events_of_a_batch_are_those_of_its_rows(classes):
    rng = np.random.default_rng(4)
    sizes = [2, 0, 3]
    indptr, indices = np.cumsum([0, *sizes]), np.arange(5, dtype=np.int32)
    values, decisions, scores = rng.normal(size=5), rng.random((3, 5)), rng.random((3, classes))
    singles = []
    for a, size, given, row in zip(indptr.tolist(), sizes, scores, decisions, strict=False):
        features = events.Features(indices[a : a + size], values[a : a + size])
        event = events.Decided(*(2, 2.5, 1, 0), 77, False, features, row[3:], given)
        singles.append(events.pack_event(event))
    decisions[:, :3] = 2, 1, 0
    many = events.pack_decisions(2.5, 77, indptr, indices, values, scores if classes else NO_SCORES, decisions)
    assert many == b"".join(singles)


def test_rounds_that_could_not_be_packed_are_logged_by_the_next_call(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal", durability="os")
    model.act_many([np.ones(5)] * 40)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(transitions, "pack_decisions", fail)
    for _ in range(2):  # the second changes nothing at all
        with pytest.raises(MemoryError):
            model.act_many([np.ones(5)] * 40)
    assert Online.from_journal(tmp_path / "journal").rounds == 40
    monkeypatch.undo()
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1000.0)
    model.act(np.ones(5))
    assert model.rounds == 81
    crash(model)
    same(Online.from_journal(tmp_path / "journal"), model)


def test_a_model_with_rounds_that_were_not_logged_stores_no_snapshot(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal", durability="os")
    model.act_many([np.ones(5)] * 40)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(transitions, "pack_decisions", fail)
    for call in (lambda: model.act_many([np.ones(5)] * 40), model.close):
        with pytest.raises(MemoryError):
            call()
    first, last = (Online.from_journal(tmp_path / "journal", replay=replay) for replay in ("first", "last"))
    assert first.rounds == last.rounds == 40
    monkeypatch.undo()
    with interpreted(), opened(tmp_path / "journal") as again:
        again.act(np.ones(5))
        assert again.rounds == 41


def test_a_handler_that_closes_in_the_middle_of_a_write_is_refused(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal")
    errors = []

    def synchronised(descriptor):
        try:
            model.close()  # as a handler of SIGTERM might
        except UserError as error:
            errors.append(str(error))
        os.fsync(descriptor)

    monkeypatch.setattr(folders, "_synchronised", synchronised)
    model.act(np.ones(5))
    assert "let the handler set a flag or raise" in errors[0]
    monkeypatch.undo()
    model.close()


def test_rows_are_compacted_also_where_every_opening_is_short(tmp_path):
    for _ in range(8):
        store = FolderStore(tmp_path / "journal", segment_bytes=1000)
        with Online.open(store, "gapsmh", GRAPH, 5, durability="os", keep_rows=15) as model:
            play(model, rows(), 10)
    found = decisions.summarise(tmp_path / "journal")
    assert 40 <= found.compacted <= 65
    newest = max((tmp_path / "journal").glob("state-*.npz"))
    newest.write_bytes(newest.read_bytes()[:-9])
    with Online.open(tmp_path / "journal") as again:  # the one before it leads on
        assert again.rounds == 80


@pytest.mark.parametrize(
    "change",
    [
        {"action": 10**7},
        {"action": -1},
        {"greedy": 9},
        {"probabilities": np.array([np.nan, 0.5, 0.5])},
        {"probabilities": np.array([1.0])},
        {"round": 7},
        {"graph": 3},
    ],
)
def test_events_that_no_model_wrote_are_refused(change):
    store = MemoryStore()
    model = opened(store)
    model.act(np.ones(5))
    group = store._groups[-1]
    changed = [
        event._replace(**change) if isinstance(event, events.Decided) else event
        for event in events.unpack_events(group.events)
    ]
    store._groups[-1] = group._replace(events=b"".join(map(events.pack_event, changed)))
    with pytest.raises(UserError, match="does not fit those before it"):
        Online.open(store)


def test_what_a_kill_leaves_of_a_snapshot_is_removed(tmp_path):
    model = opened(tmp_path / "journal")
    crash(model)
    (tmp_path / "journal" / ".state-00000000000000000009.npz.0123abcd.part").write_bytes(b"half")
    Online.open(tmp_path / "journal").close()
    assert not list((tmp_path / "journal").glob(".*"))


@pytest.mark.parametrize("end", ["close", "crash"])
def test_a_log_that_is_gone_is_noticed(tmp_path, end):
    model = opened(tmp_path / "journal")
    play(model, rows(), 5)
    model.close() if end == "close" else crash(model)
    for path in (tmp_path / "journal").glob("log-*.gap"):
        path.unlink()
    with pytest.raises(UserError, match=r"the log in .* has lost its beginning, or all of it.*--repair"):
        Online.open(tmp_path / "journal")
    repair(tmp_path / "journal")
    again = Online.open(tmp_path / "journal")
    assert again.rounds == (5 if end == "close" else 0)
    again.act(np.ones(5))
    crash(again)
    same(Online.from_journal(tmp_path / "journal"), again)


def test_readers_notice_damage_too(some_log):
    path, data, starts = some_log
    path.write_bytes(data[: starts[2] + 30] + b"?" + data[starts[2] + 31 :])
    with pytest.raises(UserError, match="is damaged at byte"):
        list(read_decisions(path.parent))
    path.write_bytes(data[:-3])  # only torn, as it may be while another process writes
    assert sum(batch.num_rows for batch in read_decisions(path.parent)) == 5


def test_an_old_receipt_is_refused_also_without_new_decisions(tmp_path, monkeypatch):
    model = opened(tmp_path / "journal", pending_age=10.0)
    receipt = model.act(np.ones(5))
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1050.0)
    with pytest.raises(UserError, match="has expired"):
        model.learn(receipt, UNSEEN)
    model.set_limits(min_propensity=0.1)
    model.set_limits(budget=Budget(5))
    assert (model.limits.min_propensity, model.limits.budget) == (0.1, Budget(5))
    crash(model)
    same(Online.from_journal(tmp_path / "journal"), model)


def test_a_call_that_is_refused_does_not_grow_the_model(tmp_path):
    with interpreted():
        model = Online.open(tmp_path / "journal", "gapsmh", GRAPH, "grow", durability="os")
        with pytest.raises(UserError):
            model.teach({5000: 1.0}, "nobody knows this label")
        features = model.features
        for probabilities in ([0.5], [0.0, 0.5, 0.5], [0.5, 0.5, 0.5], "odd"):
            with pytest.raises(UserError, match="probabilities"):
                model.follow({6000: 1.0}, model.graph.actions[0], probabilities)
        assert model.features == features
        model.act({4000: 1.0})
        same(Online.from_journal(tmp_path / "journal"), model)
        crash(model)


def test_a_write_that_fails_meanwhile_does_not_refuse_the_middle_of_a_hold(tmp_path, monkeypatch):
    """A commit in another thread fails between a decision and its answer: both are stored together later."""
    with interpreted():
        model = opened(tmp_path / "journal", durability="os")

        def fail(*_, **__):
            raise UserError("no room")

        with model.hold():
            receipt = model.act(np.ones(5))
            monkeypatch.setattr(model._contents.journal.store, "append", fail)
            model._contents.journal._is_stuck = True
            model.remember("key", b"request", receipt.id.encode())
        with pytest.raises(UserError, match="no room"):
            model.commit()
        monkeypatch.undo()
        monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1000.0)
        model.commit()
        crash(model)
        again = Online.from_journal(tmp_path / "journal")
    assert again.recall("key", b"request") == receipt.id.encode()
    assert again.rounds == 1
