"""A journal leads to the same bits as if nothing had happened: after crashes, torn ends, full disks, signals."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import os
import re
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
from gappletron.base.errors import KeyReused, Unavailable
from gappletron.online import decisions, events, journal as journals, replay as replays, upkeep
from gappletron.online.follower import Follower
from gappletron.online.postgres import Postgres
from gappletron.online.sqlite import Sqlite
from gappletron.online.store import Store
from gappletron.online.tables import PARTS
from problems import ended
from stores import MEMORY, crash, full_disk, leave, read_log, start_postgres, tamper

GRAPH = FeedbackGraph.filtering(["ham", "spam", "odd"])
FULL = FeedbackGraph.full(["ham", "spam", "odd"])


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Interpreted rounds, a clock that stands still, so that all curves are the same, and replay in short blocks."""
    monkeypatch.setattr(replays, "LEAST", 2)
    monkeypatch.setattr(replays, "MOST", 9)
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1000.0)
    with interpreted():
        yield


# Where a call of a model with a store may be struck.
FILES = (*storms.FILES, "store.py", "sqlite.py", "events.py")


def rows(seed=0, features=5):
    rng = np.random.default_rng(seed)
    while True:
        yield rng.normal(size=features), GRAPH.classes[rng.integers(3)]


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


def opened(place, **options):
    return Online.open(place, **{"learner": "gapsmh", "graph": GRAPH, "features": 5, "seed": 3} | options)


# -------------------------------------------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("snapshot_every", [7, 100_000])
def test_a_crash_at_any_moment_leads_to_the_same_bits(place, snapshot_every):
    plain_model, stream, others = Online("gapsmh", GRAPH, 5, seed=3, monitor=True), rows(), rows()
    waiting, again = [], []
    for part in range(6):
        model = opened(place, durability="os", snapshot_every=snapshot_every)
        for receipt, label in again:
            model.learn(receipt.id, feedback(receipt, label))
        for receipt, label in waiting:
            plain_model.learn(receipt, feedback(receipt, label))
        again, waiting = play(model, stream, 5 + part), play(plain_model, others, 5 + part)
        same(model, plain_model)
        crash(model)
    same(Online.from_store(place, replay="first"), plain_model)
    same(Online.from_store(place), plain_model)
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
    model.set_graph(FeedbackGraph.full([*GRAPH.classes, "new"], costs={("ham", "spam"): 3.0}), who="anna")
    model.learn(model.pending[0], "odd")
    with model.hold():
        receipt = model.act(next(stream)[0])
        if model._contents.journal is not None:
            model.remember("key", b"print", b"answer")
        if extra:
            receipt = model.act({1600: 1.0})
        else:
            model.grow(6)
    model.commit()
    return receipt


@pytest.mark.parametrize("extra", [False, True])
def test_every_kind_of_event_is_replayed(place, extra):
    options = {"learner": "auto", "graph": GRAPH, "features": "grow" if extra else 5, "pending": 3, "seed": 5}
    plain_model = Online(**options, monitor=True)
    model = Online.open(place, **options)
    receipt = everything(model, extra)
    everything(plain_model, extra)
    same(model, plain_model)
    crash(model)
    again = Online.open(place)
    same(again, plain_model)
    assert again.recall("key", b"print") == b"answer"
    assert again.receipt(receipt.id).to_dict() == receipt.to_dict()
    with pytest.raises(UserError, match="has expired"):
        again.learn(f"{receipt.session}-2", "ham")
    again.close()
    kinds = {type(event) for event in read_log(place)}
    others = {
        events.RolledBack,
        events.Promoted,
        events.Demoted,
        events.Named,
        *([events.Grown] if extra else []),
    }  # tested elsewhere
    assert kinds == {events.Decided, events.Fed, *events.KINDS.values()} - others


def test_records_through_an_encoder_are_logged_as_features(place):
    encoder = Encoder(text="message", features=64)
    options = {"learner": "auto", "graph": FeedbackGraph.filtering(["ham", "spam"]), "encoder": encoder}
    model, plain_model = Online.open(place, **options), Online(**options, monitor=True)
    for target in (model, plain_model):
        for message, label in [("win a prize", "spam"), ("see you at five", "ham"), ("", "ham")] * 5:
            receipt = target.act({"message": message, "hour": 3})
            target.learn(receipt, feedback(receipt, label))
    crash(model)
    again = Online.open(place, encoder=Encoder(text="message", features=64))
    same(again, plain_model)
    assert again.encoder == encoder
    again.close()


def test_compiled_rounds_are_replayed_to_the_same_bits(place):
    from gappletron.kernel.compiling import in_mode

    with in_mode(False):
        model = opened(place, durability="os", snapshot_every=40)
        waiting = play(model, rows(2), 100)
        crash(model)
        again = Online.open(place)
        same(again, model)
        again.learn(waiting[0][0].id, feedback(*waiting[0]))
        again.close()


@pytest.mark.parametrize("kind", ["vectors", "records", "scores", "budget"])
def test_blocks_of_a_log_are_replayed_to_the_same_bits(place, monkeypatch, kind):
    """Late feedback, batches, expired and forgotten receipts, new features: as one by one, and counted as such."""
    rng = np.random.default_rng(7)
    encoder = Encoder(text="text", features=2**20) if kind == "records" else None
    limits = {"budget": Budget(3, per="day"), "min_propensity": 0.05} if kind == "budget" else {}
    model = Online.open(place, "auto", GRAPH, encoder=encoder, pending=6, max_features=40, **limits)
    for _ in range(60):
        n = int(rng.integers(1, 4))
        xs = [rng.normal(size=4) for _ in range(n)]
        if encoder is not None:
            xs = [{"text": " ".join(f"w{word}" for word in rng.integers(60, size=3))} for _ in range(n)]
        model.act_many(xs, scores=rng.normal(size=(n, 3)) if kind == "scores" else None)
        for receipt in rng.permutation(np.array(model.pending, object))[: rng.integers(5)]:
            if rng.random() < 0.2:
                model.forget(receipt)
            else:
                model.learn(receipt, feedback(receipt, GRAPH.classes[rng.integers(3)]))
    while not any(each.action != "ham" and each.serial % 2 == 0 for each in model.pending):  # one that is swapped below
        model.act(
            xs[0] if encoder is not None else rng.normal(size=4),
            scores=rng.normal(size=3) if kind == "scores" else None,
        )
    crash(model)
    together = []

    def count(*arguments, play=replays.replay_together):
        changed = play(*arguments)
        together.append(len(arguments[1]))
        return changed

    monkeypatch.setattr("gappletron.online.opening.replay_together", count)
    same(Online.from_store(place), model)
    assert sum(together) >= 0.9 * model._contents.journal.store.count

    def swap(each):  # spam and odd, which show the same, in every other decision: as if another machine had acted
        place, event = each
        if not isinstance(event, events.Decided) or event.round % 2:
            return each
        return place, event._replace(action=-event.action % 3, probabilities=event.probabilities[[0, 2, 1]])

    split = replays.split_events
    monkeypatch.setattr("gappletron.online.opening.split_events", lambda found: split(map(swap, found)))
    with pytest.warns(UserWarning, match="other probabilities") as by_blocks:
        first = Online.from_store(place)
    monkeypatch.setattr(replays, "LEAST", 10**6)
    with pytest.warns(UserWarning, match="other probabilities") as one_by_one:
        same(Online.from_store(place), first)
    assert [str(each.message) for each in by_blocks] == [str(each.message) for each in one_by_one]
    assert first.differences(model)


def test_a_model_to_start_with(place, tmp_path):
    taught = Online("auto", GRAPH, 5, monitor=True)
    for x, label in itertools.islice(rows(), 20):
        taught.teach(x, label)
    model = Online.open(place, start=taught)
    same(model, taught)
    model.act(np.ones(5))
    assert taught.rounds == 0
    model.close()
    Online.open(place, "auto", GRAPH, 5).close()
    with pytest.raises(UserError, match="holds a model 'model' already"):
        Online.open(place, start=taught)
    with pytest.raises(UserError, match="beside start"):
        Online.open(tmp_path / "other", graph=GRAPH, start=taught)


def test_receipts_expire_by_age_and_the_log_says_so(place, monkeypatch):
    clock = itertools.count(1_000.0, 5.0)  # it is read twice in every act
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: next(clock))
    model = opened(place, pending_age=25.0)
    receipts = [model.act(x) for x, _ in itertools.islice(rows(), 6)]
    assert [receipt.serial for receipt in model.pending] == [3, 4, 5]
    crash(model)
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1e9)  # replay reads no clock
    same(Online.from_store(place), model)
    again = Online.open(place)
    assert again.waiting == 0  # but by now the others are too old as well
    with pytest.raises(UserError, match=r"has expired.*waited for more than 25 seconds.*pending_age"):
        again.learn(receipts[5].id, UNSEEN)
    crash(again)
    same(Online.from_store(place), again)


# ----------------------------------------------------------------------------------------------- stateful, with crashes


class Crashes(RuleBasedStateMachine):
    """Any order of calls, crashes and full disks, beside a model without a store."""

    receipts = Bundle("receipts")

    def __init__(self):
        super().__init__()
        self.mode = contextlib.ExitStack()
        self.mode.enter_context(interpreted())
        self.place = self.make_place()
        self.model = self.opened()
        self.reference = Online("gapsmh", GRAPH, 5, seed=3, pending=4, monitor=True)
        self.stream = rows(9)
        self.ids = {}

    def make_place(self):
        return Path(self.mode.enter_context(storms.tempfile.TemporaryDirectory(dir=MEMORY))) / "store.sqlite"

    def opened(self):
        return Online.open(self.place, "gapsmh", GRAPH, 5, seed=3, pending=4, durability="os", snapshot_every=9)

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

    @rule()
    def crash(self):
        crash(self.model)
        self.model = self.opened()

    @rule(room=st.integers(0, 3))
    def full_disk(self, room):
        left = itertools.count(room, -1)
        x, _ = next(self.stream)
        with full_disk(self.model, lambda: next(left) <= 0):
            try:
                self.model.act(x)
            except UserError as error:
                assert "free some space" in str(error)  # noqa: PT017 - it may fit
        self.model.commit()
        self.reference.act(x)  # it was not acknowledged, and it did happen

    @rule()
    def close(self):
        self.model.close()
        self.model = self.opened()

    @invariant()
    def equal(self):
        same(self.model, self.reference)


class CrashesInPostgres(Crashes):
    """The same in PostgreSQL."""

    def make_place(self):
        return start_postgres().make_place()


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=25, stateful_step_count=25)
TestCrashesInPostgres = CrashesInPostgres.TestCase
TestCrashesInPostgres.settings = settings(max_examples=5, stateful_step_count=25)


# ------------------------------------------------------------------------------------------------- opening and refusing


def test_a_model_that_is_added_meanwhile_is_no_damage(place, monkeypatch):
    opened(place).close()
    added = []
    for kind in (Sqlite, Postgres):

        def read(database, sql, *values, real=kind.read):
            rows = real(database, sql, *values)
            if "ORDER BY name" in sql and not added:
                added.append("other")
                opened(place, name="other").close()
            return rows

        monkeypatch.setattr(kind, "read", read)
    with pytest.raises(UserError, match="there is no model 'third'"):
        Online.from_store(place, name="third")
    assert added


def test_a_damaged_snapshot_is_replaced_by_the_one_before_it(place):
    model = opened(place, durability="os")
    for _ in range(3):
        play(model, rows(), 4)
        model.checkpoint()
    play(model, rows(), 4)
    crash(model)
    last = "(SELECT max(at) FROM snapshots)"
    tamper(place, f"UPDATE snapshot_parts SET data = substr(data, 1, 5000) WHERE at = {last}")
    again = Online.open(place)
    same(again, model)
    again.close()


def test_a_store_that_is_open_is_refused(place):
    model = opened(place)
    with pytest.raises(UserError, match=r"is open in another process \(or twice in this one\)"):
        Online.open(place)
    code = f"from gappletron import Online; Online.open({place!r})"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is open in another process" in other.stderr
    model.act(np.ones(5))
    model.close()
    with pytest.raises(UserError, match="was closed: open it again"):
        model.act(np.ones(5))
    assert model.rounds == 1
    Online.open(place).close()


def test_a_start_that_was_interrupted_begins_again(place):
    """The settings come last; a snapshot whose row is missing is none."""
    store = Store(place, durability="os")
    store.put_snapshot(0, "gappletron.Online", *Online("gapsmh", GRAPH, 7)._contents.describe())
    with store.database.transaction():
        store.database.insert(PARTS, [(store.model, 9, 0, b"half")])
    leave(store.database)
    with pytest.raises(UserError, match="was not made to the end: open it with its graph"):
        Online.from_store(place)
    with pytest.raises(UserError, match="a new one needs a graph"):
        Online.open(place)
    again = opened(place)
    assert tamper(place, "SELECT at FROM snapshot_parts") == [(0,)]
    assert again.rounds == 0
    again.act(np.ones(5))
    again.close()


def test_other_arguments_are_refused_and_the_current_ones_are_not(place):
    with pytest.raises(UserError, match=r"there is no model 'model' in .* yet, and a new one needs a graph"):
        Online.open(place)
    model = opened(place)
    model.add_class("later")
    graph = model.graph
    model.close()
    opened(place, graph=graph).close()
    with pytest.raises(UserError, match=r"there is no model 'other' in .* yet"):
        Online.open(place, name="other")
    with pytest.raises(UserError, match=r"there is no model 'other' in .*, such as 'model'"):
        Online.from_store(place, name="other")
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
            Online.open(place, **options)
    again = opened(place, pending=7, min_propensity=0.2, monitor=True, normalize="auto")
    assert (again._receipts.limits.pending, again.graph.n_classes) == (7, 4)
    crash(again)
    assert Online.from_store(place).limits.min_propensity == 0.2


# ----------------------------------------------------------------------------------------------------------- full disks


@pytest.mark.parametrize("call", ["act", "learn"])
def test_a_full_disk_loses_nothing_that_was_acknowledged(place, call):
    model = opened(place, durability="os")
    receipts = [model.act(x) for x, _ in itertools.islice(rows(), 3)]
    plain_model = Online("gapsmh", GRAPH, 5, seed=3, monitor=True)
    theirs = [plain_model.act(x) for x, _ in itertools.islice(rows(), 3)]
    for _ in range(2):  # the second changes nothing at all
        with (
            full_disk(model),
            pytest.raises(Unavailable, match="nothing that was acknowledged is lost; free some space"),
        ):
            model.act(np.ones(5)) if call == "act" else model.learn(receipts[0], feedback(receipts[0], "ham"))
    if call == "act":
        plain_model.act(np.ones(5))
    else:
        plain_model.learn(theirs[0], feedback(theirs[0], "ham"))
    same(model, plain_model)
    model.learn(receipts[1], feedback(receipts[1], "ham"))  # it goes on by itself
    plain_model.learn(theirs[1], feedback(theirs[1], "ham"))
    crash(model)
    again = Online.open(place)
    same(again, plain_model)
    again.close()


def test_a_snapshot_that_fails_does_not_stop_the_model(place, monkeypatch):
    model = opened(place, durability="os", snapshot_every=3)
    monkeypatch.setattr(Store, "put_snapshot", lambda *_: (_ for _ in ()).throw(UserError("no room")))
    play(model, rows(), 10)
    storms.wait_for_snapshot(model)
    assert model._contents.journal.background_error == "no room"
    crash(model)
    monkeypatch.undo()
    again = Online.open(place)
    same(again, model)
    again.close()


# ---------------------------------------------------------------------------------------------- kills, signals, threads


def test_some_kills_under_load(place):
    assert storms.killed_stores(6, place, seed=1) >= 12


@pytest.mark.parametrize("call", ["act", "follow", "grow", "learn", "forget", "hold"])
def test_a_store_struck_at_every_moment(memory_path, call):
    folder, count = None, itertools.count()

    def make():
        nonlocal folder
        folder = memory_path / str(next(count))
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
    for model, _ in storms.at_every_moment(make, strike, files=FILES):
        moments += 1
        assert not model._lock._is_owned()
        with contextlib.suppress(UserError):  # it may not wait any more
            model.learn(model.pending[-1], UNSEEN)
        model.act(np.ones(5))
        crash(model)
        with Online.open(folder) as again:
            same(again, model)
        same(Online.from_store(folder, replay="first"), model)
        folder.unlink()
    assert moments > 15


def test_commit_stores_also_what_an_interrupted_call_has_done(memory_path):
    folder, count, rounds = None, itertools.count(), []

    def make():
        nonlocal folder
        folder = memory_path / str(next(count))
        return Online.open(folder, "gapsmh", GRAPH, 5, durability="os")

    for model, _ in storms.at_every_moment(make, lambda model: model.act(np.ones(5)), files=FILES):
        model.commit()
        assert Online.from_store(folder).rounds == model.rounds
        rounds.append(model.rounds)
        model.close()
    assert {0, 1} == set(rounds)


def test_a_store_whose_close_was_struck_at_every_moment_is_closed_by_the_next(memory_path):
    count = itertools.count()

    def make():
        model = Online.open(memory_path / str(next(count)), "gapsmh", GRAPH, 5, durability="os")
        model.act(np.ones(5))
        return model

    for number, (model, _) in enumerate(storms.at_every_moment(make, lambda model: model.close(), files=FILES)):
        model.close()
        with Online.open(memory_path / str(number)) as again:
            assert again.rounds == 1
    again.close()


def test_a_signal_waits_until_what_was_taught_is_logged(place):
    rng = np.random.default_rng(5)
    model = opened(place, durability="os")
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
    again = Online.open(place)
    same(again, model)
    again.close()


def test_threads_share_writes_and_nothing_is_lost(place, monkeypatch):
    model = opened(place)
    store = model._contents.journal.store
    writes, busy, go_on, append = [], threading.Event(), threading.Event(), store.append

    def append_slowly(batch):
        writes.append(batch)
        busy.set()
        assert go_on.wait(30)
        append(batch)

    monkeypatch.setattr(store, "append", append_slowly)
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
    again = Online.open(place)
    same(again, model)
    assert {receipt.id for receipt in again.pending} == {receipt.id for receipt in receipts}
    again.close()


def test_what_is_held_is_written_together_or_not_at_all(place):
    model = opened(place)
    before = model._contents.journal.store.count
    with model.hold():
        receipt = model.act(np.ones(5))
        model.learn(receipt, feedback(receipt, "ham"))
        model.remember("key", b"", b"answer")
        model.commit()
        assert model._contents.journal.store.count == before
    assert Online.from_store(place).rounds == 0  # all that a kill would leave
    assert tamper(place, "SELECT count(*) FROM answers") == [(0,)]
    assert model.recall("key", b"") == b"answer"
    (before,) = tamper(place, "SELECT max(number) FROM commits")[0]
    model.commit()
    assert tamper(place, "SELECT first, size FROM commits WHERE number > ?", before) == [(1, 2)]
    assert [type(event) for event in read_log(place)[1:]] == [events.Decided, events.Fed]
    assert tamper(place, "SELECT key, answer FROM answers") == [("key", b"answer")]
    model.close()


def test_a_copy_of_the_process_does_not_write(place):
    model = opened(place)
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


def test_the_table_holds_what_happened(place, tmp_path):
    model = opened(place, pending=3, durability="os", snapshot_every=8)
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
    decisions.export(place, tmp_path / "decisions.parquet")  # while the model is open
    found = pq.read_table(tmp_path / "decisions.parquet").to_pylist()
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    assert len({row["graph"] for row in found}) == 2
    assert all((row["feedback_time"] is None) == (row["status"] == "waiting") for row in found)
    decisions.export(place, tmp_path / "decisions.csv")
    with (tmp_path / "decisions.csv").open(newline="", encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert [json.loads(row["values"]) for row in written] == [row["values"] for row in expected]
    assert [row["label"] for row in written] == [row["label"] or "" for row in expected]
    with pytest.raises(UserError, match=r"end in .parquet or .csv"):
        decisions.export(place, tmp_path / "decisions.xlsx")
    summary = decisions.summarise(place)
    assert summary.rounds == 12
    assert summary.statuses["expired"] == sum(row["status"] == "expired" for row in expected)
    model.close()


def test_restarts_are_in_the_log_for_readers(place):
    """With a memory of 10 rounds and every label shown; `round` is the number of decisions so far."""
    label = itertools.cycle(FULL.classes)
    model = Online.open(place, "auto", FULL, 3, memory=10, durability="os", snapshot_every=15)
    for x, truth in zip(np.eye(3)[np.arange(25) % 3], label, strict=False):
        model.learn(model.act(x), truth)
    receipts = model.act_many(np.eye(3)[np.arange(40) % 3])
    model.learn_many([(receipt, FULL.classes[n % 3]) for n, receipt in enumerate(receipts)])
    for n in range(10):
        model.teach(np.eye(3)[n % 3], FULL.classes[n % 3])
    model.reset()
    restarts = model.restarts
    crash(model)
    logged = [(event.round, event.reason) for event in read_log(place) if isinstance(event, events.Restarted)]
    assert logged == [(10, "memory"), (20, "memory"), *[(65, "memory")] * 5, (65, "reset")]
    for replay in ("first", "last"):
        again = Online.from_store(place, replay=replay)
        same(again, model)
        assert again.restarts == restarts
        assert len(restarts) == 8
    (batch,) = read_decisions(place)
    assert batch["restarts"].to_pylist() == [0] * 10 + [1] * 10 + [2] * 45
    summary = decisions.summarise(place)
    assert (summary.restarts, summary.restarted) == (8, events.Restarted(1000.0, 65, "reset"))
    code, out, _ = ended("store", "show", place)
    assert code == 0
    told = "restarts          8 times, last after round 65, 1970-01-01 00:16:40 UTC, because it was reset"
    assert told in out.splitlines()


def forge(place, **changes):
    """Change the last decision of a log, with checksums that fit."""
    (row,) = tamper(place, "SELECT * FROM acts ORDER BY seq DESC LIMIT 1")
    event = events.read_act(row)._replace(**changes)
    head = row[1], event.round, event.time, event.action, event.greedy, row[7], event.graph, event.followed, row[14]
    chances = event.probabilities.tobytes()
    values = event.round, event.action, event.greedy, event.graph, chances
    set_all = (
        "UPDATE acts SET round = ?, action_index = ?, greedy_index = ?, graph = ?, probabilities = ?, checksum = ?"
    )
    tamper(place, f"{set_all} WHERE seq = ?", *values, events._sum_act(head, row[2], chances, b""), row[1])


def test_decisions_of_other_versions_keep_their_logged_probabilities(place):
    model = opened(place)
    model.act(np.ones(5))
    crash(model)
    forge(place, action=1, probabilities=np.array([0.2, 0.5, 0.3]))
    with pytest.warns(UserWarning, match="1 decisions in the store .* those of the log were kept"):
        again = Online.open(place)
    assert again.pending[0].action == "spam"
    assert again.pending[0].probabilities.tolist() == [0.2, 0.5, 0.3]
    again.close()


def test_the_player_of_a_store_is_not_lent(place):
    model = opened(place)
    with pytest.raises(UserError, match="nothing that the player of a model with a store plays is logged"):
        _ = model.player
    with pytest.raises(UserError, match="has no store"):
        Online("gapsmh", GRAPH, 5).checkpoint()
    model.close()
    model.close()


def test_a_policy_that_is_not_known():
    with pytest.raises(UserError, match="choose 'disk' or 'os'"):
        journals.Policy(durability="stone")


def test_two_kills_of_a_server_under_load(place):
    assert storms.killed_services(2, place, seed=3) > 10


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


def test_a_copy_of_the_process_neither_writes_nor_keeps_the_lock(new_place):
    place, other = new_place(), new_place()
    model = opened(place)
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
    with Online.open(place) as again:
        assert again.rounds == 2
    running = opened(other)
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
    Online.open(other).close()
    os.kill(child, 9)
    os.waitpid(child, 0)


def test_fewer_receipts_may_wait_after_opening_again(place):
    model = opened(place, durability="os")
    receipts = [model.act(x) for x, _ in itertools.islice(rows(), 9)]
    crash(model)
    again = opened(place, durability="os", pending=3)
    assert [receipt.id for receipt in again.pending] == [receipt.id for receipt in receipts[-3:]]
    with pytest.raises(UserError, match="expired"):
        again.learn(receipts[0].id, feedback(receipts[0], "ham"))
    again.checkpoint()
    again.learn(receipts[-1].id, feedback(receipts[-1], "ham"))
    crash(again)
    for replay in ("first", "last"):
        same(Online.from_store(place, replay=replay), again)


def test_calls_that_are_refused_leave_the_store_as_it_is(place):
    model = Online.open(place, "auto", GRAPH, durability="os", normalize=None)
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
    same(Online.from_store(place), model)


@pytest.mark.parametrize(("size", "expected"), [(0, 10), (2**20, 10), (2**20 + 8, 42)])
def test_a_large_snapshot_waits_until_the_log_has_grown_as_well(tmp_path, size, expected):
    """Events of 100,000 bytes, at least 10 of them; four times the size of the snapshot only where that is large."""
    store = Store(tmp_path / "store.sqlite", durability="os")
    journal = journals.Journal(store, journals.Policy(snapshot_every=10))

    def made():
        return journals.Snapshot(journal.store.count, 0, "kind", {}, {"a": np.zeros(size // 8)})

    def add(batch):
        batch.stop += 1
        batch.nbytes += 100_000

    def events_until_due():
        for number in range(1, 100):
            journal.add(journals.Entry(add))
            journal.publish()
            journal.commit()
            if journal.is_snapshot_due:
                return number
        return None

    assert events_until_due() == 10  # the size of the last one is not known yet
    for _ in range(2):
        journal.put_snapshot(made)
        assert events_until_due() == expected
    store.close()


def test_rounds_that_could_not_be_written_are_logged_by_the_next_call(place, monkeypatch):
    model = opened(place, durability="os")
    model.act_many([np.ones(5)] * 40)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(events.Batch, "add_acts", fail)
    for _ in range(2):  # the second changes nothing at all
        with pytest.raises(MemoryError):
            model.act_many([np.ones(5)] * 40)
    assert Online.from_store(place).rounds == 40
    monkeypatch.undo()
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1000.0)
    model.act(np.ones(5))
    assert model.rounds == 81
    crash(model)
    same(Online.from_store(place), model)


def test_a_model_with_rounds_that_were_not_logged_stores_no_snapshot(place, monkeypatch):
    model = opened(place, durability="os")
    model.act_many([np.ones(5)] * 40)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(events.Batch, "add_acts", fail)
    for call in (lambda: model.act_many([np.ones(5)] * 40), model.close):
        with pytest.raises(MemoryError):
            call()
    first, last = (Online.from_store(place, replay=replay) for replay in ("first", "last"))
    assert first.rounds == last.rounds == 40
    monkeypatch.undo()
    with interpreted(), opened(place) as again:
        again.act(np.ones(5))
        assert again.rounds == 41


def test_a_handler_that_closes_in_the_middle_of_a_write_is_refused(place, monkeypatch):
    model = opened(place)
    store, errors = model._contents.journal.store, []

    def append(batch, append=store.append):
        try:
            model.close()  # as a handler of SIGTERM might
        except UserError as error:
            errors.append(str(error))
        append(batch)

    monkeypatch.setattr(store, "append", append)
    model.act(np.ones(5))
    assert "let the handler set a flag or raise" in errors[0]
    monkeypatch.undo()
    model.close()


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
def test_events_that_no_model_wrote_are_refused(place, change):
    model = opened(place)
    model.act(np.ones(5))
    crash(model)
    forge(place, **change)
    with pytest.raises(UserError, match=r"does not fit those before it|a graph .* is missing"):
        Online.open(place)


# ------------------------------------------------------------------------------------------------ answers and retention


def test_answers_are_recalled_and_kept_by_age(place, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: clock[0])
    monkeypatch.setattr(journals.time, "time", lambda: clock[0])
    model = opened(place, keep_answers=50.0)
    for number in range(5):
        clock[0] = 1000.0 + 10 * number
        model.remember(f"key {number}", b"f", b"%d" % number)
    model.remember("key 2", b"f", b"two")
    model.close()
    sql = "INSERT INTO answers SELECT model, ?, fingerprint, answer, 0.0, 0 FROM answers WHERE key = 'key 1'"
    for number in range(5):
        tamper(place, sql, f"old {number}")
    monkeypatch.setattr("gappletron.online.store.SOME", 2)
    again = opened(place, keep_answers=50.0)
    assert [again.recall(f"key {number}", b"f") for number in range(5)] == [b"0", b"1", b"two", b"3", b"4"]
    with pytest.raises(KeyReused, match="was used for another request"):
        again.recall("key 3", b"other")
    with pytest.raises(UserError, match="1 to 255 bytes"):
        again.recall("", b"")
    clock[0] = 1065.0
    assert [again.recall(f"key {number}", b"f") for number in range(5)] == [None, None, b"two", b"3", b"4"]
    again.remember("key 0", b"other", b"new")  # as a key that was never used
    assert again.recall("key 0", b"other") == b"new"
    again.checkpoint()
    assert tamper(place, "SELECT key FROM answers ORDER BY key") == [("key 0",), ("key 2",), ("key 3",), ("key 4",)]
    again.close()
    with pytest.raises(UserError, match="has no store: make it with"):
        Online("gapsmh", GRAPH, 5).recall("key", b"")


def test_old_features_are_dropped_and_not_replayed(place):
    model = opened(place, durability="os", keep_rows=10)
    model.teach(np.ones(5), "ham")
    for _ in range(6):
        play(model, rows(), 10)
        model.checkpoint()
    kept = [event.features is not None for event in read_decided(place)]
    assert len(kept) == 60
    assert kept == sorted(kept)
    assert 10 <= sum(kept) <= 20
    crash(model)
    again = Online.open(place)
    same(again, model)
    again.close()
    with pytest.raises(UserError, match="were dropped, so it cannot be replayed"):
        Online.from_store(place, replay="first")
    checked = upkeep.check(place)  # what can be replayed is
    assert (checked.rounds, checked.beginning, checked.first in range(1, checked.snapshot)) == (60, 0, True)
    code, out, _ = ended("store", "check", place)
    assert (code, f"60 rounds read, and replayed from event {checked.first:,} on" in out) == (0, True)
    found = [row for batch in read_decisions(place) for row in batch.to_pylist()]
    assert [row["values"] is not None for row in found] == kept
    assert decisions.summarise(place).dropped == kept.count(False)


def read_decided(place):
    with contextlib.closing(Store(place)) as store:
        seqs = [row[0] for row in store.read("SELECT seq FROM acts WHERE model = ? ORDER BY seq")]
        rows = [store.read("SELECT * FROM acts WHERE model = ? AND seq = ?", seq)[0] for seq in seqs]
    return [events.read_act(row) for row in rows]


def test_old_decisions_are_removed_whole(place):
    model = opened(place, durability="os")
    for _ in range(4):
        waiting = play(model, rows(), 20)
        model.checkpoint()
    model.close()
    removed = upkeep.retain(
        place,
        features=upkeep.Limit("round", 30),
        decisions=upkeep.Limit("round", 50),
        answers=upkeep.Limit("time", 1e9),
    )
    assert removed["features"] >= 40
    assert removed["decisions"] > 40
    found = [row for batch in read_decisions(place) for row in batch.to_pylist()]
    rounds = [row["round"] for row in found]
    assert rounds == list(range(rounds[0], 80))
    assert 25 <= rounds[0] <= 31  # to a transaction, and not beyond the snapshot before the last
    with Online.open(place) as again:
        same(again, model)
        again.learn(waiting[0][0].id, feedback(*waiting[0]))
        again.act(np.ones(5))
    checked = upkeep.check(place)
    assert (checked.rounds, checked.beginning > 0) == (len(rounds) + 1, True)
    with pytest.raises(UserError, match="answers have no rounds"):
        upkeep.retain(place, answers=upkeep.Limit("round", 5))


def test_the_view_is_for_anyone(place):
    model = opened(place)
    for x, label in itertools.islice(rows(), 20):
        receipt = model.act(x)
        model.learn(receipt, feedback(receipt, label))
    sql = "SELECT action, count(*), COALESCE(sum(correct), 0) FROM decisions GROUP BY action"
    found = {row["id"]: row for batch in read_decisions(place) for row in batch.to_pylist()}
    expected = {
        action: (len(ours), sum(row["label"] == action for row in ours))
        for action in GRAPH.classes
        if (ours := [row for row in found.values() if row["action"] == action])
    }
    assert {action: tuple(counts) for action, *counts in tamper(place, sql)} == expected
    sql = "SELECT count(*) FROM decisions WHERE label IS NOT NULL"
    assert tamper(place, sql.replace("label", "correct")) == tamper(place, sql)
    columns = "id, status, label, greedy, round, probability, restarts"
    for id, *values in tamper(place, f"SELECT {columns} FROM decisions"):
        assert values == [found[id][name] for name in columns.split(", ")[1:]]
    model.close()


def test_cells_of_a_table_are_no_formulas(place, tmp_path):
    names = ["=1+1", "-5", "@ham", "+x", "\uff1dA1", "ham"]
    with Online.open(place, "gapsmh", FeedbackGraph.full(names), 2) as model:
        for number, name in enumerate(names * 3):
            model.learn(model.act([1.0, float(number % 6)]), name)
    decisions.export(place, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    assert labels[:6] == ["'=1+1", "-5", "'@ham", "'+x", "'\uff1dA1", "ham"]


# --------------------------------------------------------------------------------------------------- damage and fencing


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE acts SET probabilities = feature_values WHERE seq = some",
        "UPDATE acts SET time = time + 1 WHERE seq = some",
        "UPDATE acts SET feature_values = probabilities WHERE seq = some",
        "UPDATE acts SET session = 'other' WHERE seq = some",
        "UPDATE feedback SET label_index = 2 - label_index WHERE status = 'seen'",
        "UPDATE feedback SET status = 'forgotten' WHERE seq = (SELECT max(seq) FROM feedback)",
        "UPDATE changes SET document = '{}' WHERE seq = (SELECT max(seq) FROM changes)",
        "DELETE FROM acts WHERE seq = some",
        "UPDATE graphs SET document = replace(document, 'odd', 'old')",
    ],
)
def test_a_damaged_row_is_noticed(place, sql):
    model = opened(place)
    play(model, rows(), 8)
    model.teach(np.ones(5), "ham")
    crash(model)
    (act,) = tamper(place, "SELECT min(seq) FROM acts WHERE seq > 5")[0]
    tamper(place, sql.replace("some", str(act)))
    for read in (lambda: Online.open(place), lambda: upkeep.check(place), lambda: list(read_decisions(place))):
        with pytest.raises(UserError, match=r"damaged|missing|does not fit"):
            read()


@pytest.mark.parametrize(
    ("sql", "is_refused"),
    [
        ("UPDATE commits SET first = first - 1 WHERE number = (SELECT max(number) FROM commits)", True),
        ("UPDATE commits SET size = size - 1 WHERE number = (SELECT max(number) FROM commits)", True),
        ("DELETE FROM commits WHERE number = (SELECT max(number) FROM commits)", True),
        ("DELETE FROM commits", True),
        ("UPDATE models SET name = 'modem'", True),
        ("UPDATE models SET model = 2", True),
        ("DELETE FROM models", True),
        ("UPDATE commits SET size = 7 WHERE number = 4", False),
        ("DELETE FROM commits WHERE number = 4", False),
        ("UPDATE answers SET answer = fingerprint", False),
        ("UPDATE answers SET key = 'other'", False),
        ("UPDATE names SET name = 'hat' WHERE position = 0", False),
        ("DELETE FROM names WHERE position = 2", False),
        ("UPDATE snapshot_parts SET data = substr(data, 1, 5000) WHERE at = (SELECT max(at) FROM snapshots)", False),
    ],
)
def test_damage_of_what_is_no_event_is_noticed(place, sql, is_refused):
    """Where it could lead to another model, or an older one, by whoever opens it; all of it by the check."""
    model = opened(place)
    play(model, rows(), 8)
    model.remember("key", b"print", b"answer")
    model.checkpoint()
    model.act_many([np.ones(5)] * 3)
    crash(model)
    upkeep.check(place)
    tamper(place, sql)
    with pytest.raises(UserError, match=r"damaged|missing|has lost") as caught:
        upkeep.check(place)
    assert "restore a backup" in str(caught.value)
    if is_refused:
        for read in (lambda: opened(place), lambda: Online.from_store(place), lambda: list(read_decisions(place))):
            with pytest.raises(UserError, match="restore a backup"):
                read()
        return
    with opened(place) as again:
        same(again, model)
        if "answers SET answer" in sql:
            with pytest.raises(UserError, match=r"the answer to a request of the store .* is damaged"):
                again.recall("key", b"print")


def test_a_writer_that_was_replaced_gives_up(place, monkeypatch):
    """Where no lock keeps the second out, the key does: what the first has not acknowledged is not there."""
    monkeypatch.setattr("gappletron.base.files.fcntl", None)
    monkeypatch.setattr("gappletron.online.sqlite.Identity.fits", lambda *_: True)  # see test_sqlite.py
    monkeypatch.setattr("gappletron.online.postgres.Postgres.elect", lambda *_: None, raising=False)
    first = opened(place)
    kept = first.act(np.ones(5)).id
    second = opened(place)
    for _ in range(2):
        with pytest.raises(Unavailable, match="was opened by another process, which has taken over"):
            first.act(np.ones(5))
    others = [second.act(np.ones(5)).id for _ in range(3)]
    assert [receipt.id for receipt in second.pending] == [kept, *others]
    assert first.trouble.stops_writes
    with contextlib.suppress(UserError):
        first.close()
    second.act(np.ones(5))
    second.close()
    assert upkeep.check(place).rounds == 5


def test_a_writer_that_was_replaced_stores_and_removes_nothing_beside_the_log(place, monkeypatch):
    """Before it has heard of it, and where no lock tells: as a process of a fleet that was stopped and goes on."""
    monkeypatch.setattr("gappletron.base.files.fcntl", None)
    monkeypatch.setattr("gappletron.online.sqlite.Identity.fits", lambda *_: True)
    monkeypatch.setattr("gappletron.online.postgres.Postgres.elect", lambda *_: None)
    first = opened(place)
    first.act(np.ones(5))
    first.remember("key", b"", b"answer")
    second = opened(place)
    store = first._contents.journal.store
    calls = first.checkpoint, store.drop_snapshots, lambda: store.drop_answers(2000.0), lambda: store.drop_decisions(1)
    for call in calls:
        store.database.problem = None
        with pytest.raises(Unavailable, match="was opened by another process, which has taken over"):
            call()
    second.act(np.ones(5))
    crash(second)
    assert upkeep.check(place) == (2, 0, 0, 0)
    assert tamper(place, "SELECT count(*) FROM answers") == [(1,)]
    with contextlib.suppress(UserError):
        first.close()


def test_several_models_share_a_database(place):
    first = Online.open(place, "gapsmh", GRAPH, 5, name="first", durability="os")
    first.act(np.ones(5))
    first.remember("key", b"", b"first")
    crash(first)
    with Online.open(place, "gapsmh", FULL, 5, name="second") as second:
        assert (second.rounds, second.recall("key", b"")) == (0, None)
        second.act_many([np.ones(5)] * 3)
    same(Online.from_store(place, name="first"), first)
    counts = [sum(batch.num_rows for batch in read_decisions(place, name=name)) for name in ("first", "second")]
    assert counts == [1, 3]


def test_an_old_receipt_is_refused_also_without_new_decisions(place, monkeypatch):
    model = opened(place, pending_age=10.0)
    receipt = model.act(np.ones(5))
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1050.0)
    with pytest.raises(UserError, match="has expired"):
        model.learn(receipt, UNSEEN)
    model.set_limits(min_propensity=0.1)
    model.set_limits(budget=Budget(5))
    assert (model.limits.min_propensity, model.limits.budget) == (0.1, Budget(5))
    crash(model)
    same(Online.from_store(place), model)


def test_a_call_that_is_refused_does_not_grow_the_model(place):
    with interpreted():
        model = Online.open(place, "gapsmh", GRAPH, "grow", durability="os")
        with pytest.raises(UserError):
            model.teach({5000: 1.0}, "nobody knows this label")
        features = model.features
        for probabilities in ([0.5], [0.0, 0.5, 0.5], [0.5, 0.5, 0.5], "odd"):
            with pytest.raises(UserError, match="probabilities"):
                model.follow({6000: 1.0}, model.graph.actions[0], probabilities)
        assert model.features == features
        model.act({4000: 1.0})
        same(Online.from_store(place), model)
        crash(model)


def test_a_write_that_fails_meanwhile_does_not_refuse_the_middle_of_a_hold(place, monkeypatch):
    """A commit in another thread fails between a decision and its answer: both are stored together later."""
    with interpreted():
        model = opened(place, durability="os")

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
        again = Online.open(place)
    assert again.recall("key", b"request") == receipt.id.encode()
    assert again.rounds == 1
    again.close()


# ------------------------------------------------------------------------------------------------------------- follower


def test_a_follower_has_the_bits_of_the_model(place):
    """Also when the model is opened again, grows, and is fed late."""
    model = opened(place, durability="os", snapshot_every=15)
    play(model, rows(), 3)
    with Follower(place) as follower:
        for part in range(6):
            play(model, rows(part), 7)
            if part == 2:
                model.add_class("new")
            if part == 4:
                crash(model)
                model = Online.open(place, durability="os", snapshot_every=15)
            before = follower.position
            assert follower.catch_up() == follower.position - before > 7
            same(follower.model, model)
            assert [each.id for each in follower.model.pending] == [each.id for each in model.pending]
            x = next(rows(part))[0]
            assert follower.model.predict(x) == model.predict(x)
        assert follower.catch_up() == 0
    model.close()


class Succession(RuleBasedStateMachine):
    """Leaders that are paused and go on, others that take over, a disk that is full: what was acknowledged is in the
    log once, for ever, in order, and every copy that follows has the bits of the leader.
    """

    def __init__(self):
        super().__init__()
        self.mode = contextlib.ExitStack()
        self.mode.enter_context(interpreted())
        self.patch = self.mode.enter_context(pytest.MonkeyPatch.context())
        self.place = self.make_place()
        self.leaders, self.acknowledged, self.refused, self.fed = [], [], 0, set()
        self.stream = rows(3)
        self.take_over()
        self.follower = self.mode.enter_context(Follower(self.place))

    def make_place(self):
        """No lock keeps a second writer out, and nobody looks at the files: the key alone decides."""
        self.patch.setattr("gappletron.base.files.fcntl", None)
        self.patch.setattr("gappletron.online.sqlite.Identity.fits", lambda *_: True)
        return Path(self.mode.enter_context(storms.tempfile.TemporaryDirectory(dir=MEMORY))) / "store.sqlite"

    def teardown(self):
        for leader in self.leaders:
            leave(leader._contents.journal.store.database)
        self.mode.close()

    @rule()
    def take_over(self):
        if len(self.leaders) < 4:
            self.leaders.append(opened(self.place, durability="os", snapshot_every=11))

    @rule(which=st.integers(0, 3), is_full=st.booleans())
    def act(self, which, is_full):
        """A leader goes on, the present one or one that was paused."""
        leader = self.leaders[which % len(self.leaders)]
        try:
            with full_disk(leader) if is_full else contextlib.nullcontext():
                self.acknowledged.append(leader.act(next(self.stream)[0]).id)
            assert leader is self.leaders[-1]
        except Unavailable as error:
            assert is_full or leader is not self.leaders[-1], error  # noqa: PT017
            if leader is self.leaders[-1]:
                leader.commit()  # there is room again
                self.acknowledged.append(leader.pending[-1].id)

    @rule(which=st.integers(0, 3))
    def learn(self, which):
        leader = self.leaders[which % len(self.leaders)]
        if not leader.waiting:
            return
        receipt = leader.pending[0]
        with contextlib.suppress(Unavailable):
            leader.learn(receipt, feedback(receipt, "ham"))
            assert leader is self.leaders[-1]
            assert receipt.id not in self.fed
            self.fed.add(receipt.id)

    @rule()
    def follow(self):
        self.follower.catch_up()
        same(self.follower.model, self.leaders[-1])

    @invariant()
    def acknowledged_once_and_in_order(self):
        found = [f"{event.session}-{event.round}" for event in read_decided(self.place)]
        assert found == self.acknowledged
        learned = [event.round for event in read_log(self.place) if isinstance(event, events.Fed)]
        assert len(set(learned)) == len(learned) == len(self.fed)


class SuccessionInPostgres(Succession):
    """The same in PostgreSQL."""

    def make_place(self):
        self.patch.setattr("gappletron.online.postgres.Postgres.elect", lambda *_: None)
        return start_postgres().make_place()


TestSuccession = Succession.TestCase
TestSuccession.settings = settings(max_examples=15, stateful_step_count=20)
TestSuccessionInPostgres = SuccessionInPostgres.TestCase
TestSuccessionInPostgres.settings = settings(max_examples=4, stateful_step_count=20)
