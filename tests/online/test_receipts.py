"""Receipts cannot be confused: across crashes, copies of a file, classes that were added, files of version 0.1."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from copy import copy as shallow, deepcopy

import numpy as np
import pytest

from gappletron import UNSEEN, FeedbackGraph, Online, UserError, interpreted
from gappletron.kernel.compiling import in_mode
from problems import no_error_left

GRAPH = FeedbackGraph.bandit(["a", "b", "c"])
X = [1.0, 0.5]


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


def model() -> Online:
    return Online("gapsmh", GRAPH, features=2, seed=3)


def test_after_a_crash_and_a_load_new_receipts_have_other_ids(tmp_path):
    running = model()
    old = running.act(X)
    running.save(tmp_path / "model.npz")
    lost = [running.act(X) for _ in range(3)]
    again = Online.load(tmp_path / "model.npz")
    new = [again.act(X) for _ in range(3)]
    assert [receipt.action for receipt in new] == [receipt.action for receipt in lost]  # the same bits
    assert len({receipt.id for receipt in [old, *lost, *new]}) == 7
    for receipt in lost:  # a late complaint about a round that the loaded model never had
        with pytest.raises(UserError, match=r"issued after this model was saved or copied.*save more often"):
            again.learn(receipt.id, receipt.action)
        with pytest.raises(UserError, match="is lost"):
            again.learn(receipt, receipt.action)
    assert len(again.pending) == 4
    again.learn(old.id, old.action)
    for receipt in new:
        again.learn(receipt.id, receipt.action)
    assert not again.pending


def test_a_receipt_issued_after_a_save_without_rounds_is_lost_too(tmp_path):
    running = model()
    running.save(tmp_path / "model.npz")
    lost = running.act(X)
    with pytest.raises(UserError, match="is lost"):
        Online.load(tmp_path / "model.npz").learn(lost.id, lost.action)


def learned(current: Online, rounds: int) -> list:
    actions = []
    for _ in range(rounds):
        receipt = current.act(X)
        actions.append(receipt.action)
        current.learn(receipt, receipt.action)
    return actions


@pytest.mark.parametrize("copied", [deepcopy, shallow, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_is_another_model_with_the_same_bits(copied):
    with in_mode(False):
        running = model()
        learned(running, 10)
        waiting = running.act(X)
        twin = copied(running)
        assert twin._player.engine.state == running._player.engine.state
        before = running.weights.copy()
        twin.learn(waiting.id, waiting.action)
        learned(twin, 5)
        if copied is not shallow:  # a shallow copy shares the player, as copies do
            assert running.weights.tobytes() == before.tobytes()
            running.learn(waiting, waiting.action)
            assert learned(running, 5)
            assert twin.weights.tobytes() == running.weights.tobytes()
        first, second = running.act(X), twin.act(X)
        assert first.id != second.id
        del running
        learned(twin, 3)


def test_two_copies_of_one_file_refuse_each_others_receipts_and_share_the_old_ones(tmp_path):
    running = model()
    waiting = running.act(X)
    running.save(tmp_path / "model.npz")
    copies = [Online.load(tmp_path / "model.npz") for _ in range(2)]
    issued = [copy.act(X) for copy in copies]
    assert issued[0].id != issued[1].id
    for copy, other in zip(copies, reversed(issued), strict=True):
        with pytest.raises(UserError, match="is not from this model"):
            copy.learn(other.id, "a")
        copy.learn(waiting.id, waiting.action)
        with pytest.raises(UserError, match="already learned from"):
            copy.learn(waiting.id, waiting.action)
    running.learn(waiting, waiting.action)


def test_ids_survive_many_loads_and_the_reasons_stay_right(tmp_path):
    current, receipts, path = model(), [], tmp_path / "model.npz"
    for _ in range(5):
        receipts.append(current.act(X))
        current.save(path)
        lost = current.act(X)
        current = Online.load(path)
        with pytest.raises(UserError, match="is lost"):
            current.learn(lost.id, lost.action)
    assert [receipt.id for receipt in current.pending] == [receipt.id for receipt in receipts]
    assert len({receipt.id.split("-")[0] for receipt in receipts}) == 5
    for receipt in receipts:
        current.learn(receipt.id, receipt.action)
        with pytest.raises(UserError, match="already learned"):
            current.learn(receipt.id, receipt.action)


def test_loading_without_playing_does_not_make_the_list_of_sessions_longer(tmp_path):
    path = tmp_path / "model.npz"
    model().save(path)
    for _ in range(20):
        Online.load(path).save(path)
    assert len(Online.load(path)._receipts.past) == 1
    playing = Online.load(path)
    playing.act(X)
    playing.save(path)
    for _ in range(20):
        Online.load(path).save(path)
    assert len(Online.load(path)._receipts.past) == 2


def test_at_most_256_sessions_are_remembered_and_waiting_receipts_never_lose_theirs(tmp_path, monkeypatch):
    monkeypatch.setattr("gappletron.online.contents.MOST_SESSIONS", 4)
    path, current = tmp_path / "model.npz", model()
    first, learned = current.act(X), []
    for _ in range(8):
        learned.append(current.act(X))
        current.learn(learned[-1], learned[-1].action)
        current.save(path)
        current = Online.load(path)
    assert len(current._receipts.past) == 4 + 1
    current.learn(first.id, first.action)
    with pytest.raises(UserError, match="already learned"):
        current.learn(learned[-1].id, "a")
    with pytest.raises(UserError, match="not from this model"):
        current.learn(learned[1].id, "a")


@pytest.mark.parametrize(
    "name", ["", "x", "-", "-1", "0", "abc-0", "0-abc", None, 7, "\N{SUPERSCRIPT TWO}-\N{SUPERSCRIPT TWO}"]
)
def test_what_is_no_receipt_of_this_model_is_refused(name):
    running = model()
    running.act(X)
    with pytest.raises(UserError, match=r"not from this model|is not a receipt"):
        running.learn(name, "a")
    session = running.pending[0].id.split("-")[0]
    for wrong in (f"{session}-1", f"{session}-99999999999999999999", f"{session}--0", f"{session}-0x0"):
        with pytest.raises(UserError, match="not from this model"):
            running.learn(wrong, "a")


def test_a_refused_receipt_leaves_nothing_behind():
    running = model()
    with no_error_left():
        for wrong in ("abc-0", "x", running.act(X).id.replace("-0", "-1")):
            with contextlib.suppress(UserError):
                running.learn(wrong, "a")


# ------------------------------------------------------------------------------------- graphs and classes that change


def test_a_receipt_keeps_the_graph_of_its_round_also_in_a_file(tmp_path):
    generous = FeedbackGraph.full(GRAPH.classes)
    running = model()
    plain, seeing = running.act(X), running.act(X, graph=generous)
    running.save(tmp_path / "model.npz")
    for copy in (running, Online.load(tmp_path / "model.npz")):
        other = next(name for name in GRAPH.classes if name != seeing.action)
        assert copy.pending[1].reveals == GRAPH.classes
        assert copy.pending[0].reveals == (plain.action,)
        with pytest.raises(UserError, match="reveals every label"):
            copy.learn(seeing.id, UNSEEN)
        copy.learn(seeing.id, other)
        with pytest.raises(UserError, match="does not reveal the label"):
            copy.learn(plain.id, next(name for name in GRAPH.classes if name != plain.action))
        copy.learn(plain.id, UNSEEN)
    assert running._player.engine.state == copy._player.engine.state


def test_receipts_of_before_a_class_was_added(tmp_path):
    running = model()
    early = [running.act(X) for _ in range(2)]
    running.add_class("d")
    late = running.act(X)
    running.save(tmp_path / "model.npz")
    for copy in (running, Online.load(tmp_path / "model.npz")):
        with pytest.raises(UserError, match="'d', which was added later"):
            copy.learn(early[0].id, "d")
        copy.learn(early[0].id, UNSEEN)
        copy.learn(early[1].id, early[1].action)
        copy.learn(late.id, late.action)
    assert running._player.engine.state == copy._player.engine.state
    assert running.predict(X) == copy.predict(X)


def test_an_action_that_revealed_everything_may_have_met_a_class_that_came_later():
    running = Online("gapsmh", FeedbackGraph.full(["a", "b"]), features=2)
    receipt = running.act(X)
    with pytest.raises(UserError, match="reveals every label"):
        running.learn(receipt, UNSEEN)
    running.add_class("c")
    running.learn(receipt, UNSEEN)


def test_features_that_grow(tmp_path):
    grown = Online("gapsmh", GRAPH, features="grow", seed=3)
    wide = Online("gapsmh", GRAPH, features=5000, seed=3)
    rng = np.random.default_rng(0)
    for t in range(60):
        indices = np.unique(rng.integers(0, 20 * (t + 1), 4))
        x = (indices, rng.normal(size=indices.size))
        assert grown.predict(x) == wide.predict(x)
        first, second = grown.act(x), wide.act(x)
        assert first.probabilities.tobytes() == second.probabilities.tobytes()
        for current, receipt in ((grown, first), (wide, second)):
            current.learn(receipt, receipt.action)
    seen = grown.player.feature_indices
    assert 150 <= grown.features == seen.size == np.unique(seen).size <= 240
    assert grown.weights.tobytes() == wide.weights[seen].tobytes()
    assert not np.delete(wide.weights, seen, axis=0).any()
    grown.act({2**62 - 1: 1.0})
    assert grown.features == seen.size + 1
    before = grown.rounds
    with pytest.raises(UserError, match="more features, or one that takes any index"):
        grown.act({2**62: 1.0})
    assert (grown.features, grown.rounds) == (seen.size + 1, before)
    small = Online("gapsmh", GRAPH, features="grow")
    for bad in (([5000], [np.nan]), ([50_000], [1.0, 2.0]), ([[1, 2], [3]], [1.0]), ([[1, 2]], [[1.0, 2.0]]), (7, 1.0)):
        with pytest.raises(UserError):
            small.act(bad)
        with pytest.raises(UserError):
            small.predict(bad)
    assert (small.features, small.rounds) == (0, 0)
    rows = np.array([[0.5, 0.25, 1.0], [0.0, 1.0, 0.0]])
    assert grown.predict_many(rows) == [grown.predict(row) for row in rows]
    assert grown.scores(np.ones((2, 6000))).shape == (2, 3)
    assert grown.probabilities(rows).shape == (2, 3)
    grown.save(tmp_path / "model.npz")
    again = Online.load(tmp_path / "model.npz")
    assert again.player.feature_indices.tolist() == grown.player.feature_indices.tolist()
    assert again.predict({10**6: 1.0}) == grown.predict({10**6: 1.0})  # unknown features weigh nothing
    for x in ([0.5, 0.25, 1.0], [[0.5, 0.25, 1.0]]):
        assert again.act(x).probabilities.tobytes() == grown.act(x).probabilities.tobytes()
    with pytest.raises(UserError, match="neither a number nor 'grow'"):
        Online("gapsmh", GRAPH, features="many")


def test_a_file_of_a_newer_version_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "model.npz"
    model().save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(bytes(np.load(io.BytesIO(members["header.npy"]))))
    buffer = io.BytesIO()
    np.save(buffer, np.frombuffer(json.dumps({**header, "version": 4}).encode(), np.uint8))
    members["header.npy"] = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(UserError, match=r"written by a newer gappletron .*upgrade"):
        Online.load(path)


def test_waiting_receipts_are_bounded_by_their_bytes(tmp_path):
    """A full row of 4,096 features takes 12 bytes per feature: 10 of them and a bit fit into half a megabyte."""
    model = Online("gapsmh", FeedbackGraph.bandit(3), features=4096, seed=0, pending_bytes=2**19)
    row = np.linspace(1.0, 2.0, 4096)
    receipts = [model.act(row) for _ in range(25)]
    assert len(model.pending) == 2**19 // (4096 * 12 + 8 * (4 + 3 + 4)) == 10
    assert [receipt.serial for receipt in model.pending] == list(range(15, 25))
    with pytest.raises(UserError, match=r"has expired.*524,288 bytes"):
        model.learn(receipts[3], receipts[3].action)
    for _ in range(5000):  # short rows: as many as `pending` allows
        model.act(([0], [1.0]))
    assert len(model.pending) > 1000
    model.save(tmp_path / "model.npz")
    again = Online.load(tmp_path / "model.npz")
    assert again.pending_limits[1] == 2**19
    assert [receipt.id for receipt in again.pending] == [receipt.id for receipt in model.pending]
    single = Online("gapsmh", FeedbackGraph.bandit(3), features=4096, pending_bytes=1)
    assert single.act(row).serial == 0
    assert len(single.pending) == 1  # the newest always waits


def test_a_bandit_graph_of_two_classes_stays_one_that_can_grow(tmp_path):
    for name in ("gapsmh", "banditron"):
        running = Online(name, FeedbackGraph.bandit(["a", "b"]), features=2, seed=3)
        running.act(X)
        running.save(tmp_path / "model.npz")
        again = Online.load(tmp_path / "model.npz")
        again.add_class("c")
        assert again.graph == FeedbackGraph.bandit(["a", "b", "c"])
        assert not again.graph.dominating_set_is_given


# -------------------------------------------------------------------------------------------------------------- expiry


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"pending": 3}, r"or has expired, since more than 3 others were waiting \(pending\): feedback"),
        (
            {"pending_bytes": 500},
            r"or has expired, since those that waited took more than 500 bytes \(pending_bytes\): f",
        ),
        ({"pending_age": 10.0}, r"or has expired, since it waited for more than 10 seconds \(pending_age\): feedback"),
    ],
)
def test_the_limit_that_acted_is_named_and_counted(limits, sentence, monkeypatch):
    now = 1_000.0
    monkeypatch.setattr("time.time", lambda: now)
    bounded = Online("gapsmh", GRAPH, features=2, seed=3, **limits)
    receipts = []
    for _ in range(20):
        receipts.append(bounded.act(X))
        now += 3.0
    now -= 3.0
    gone = 20 - bounded.waiting
    assert gone > 10
    (name,) = limits
    assert bounded.expired == {"pending": 0, "pending_bytes": 0, "pending_age": 0, name: gone}
    for receipt in receipts[:gone]:
        with pytest.raises(UserError, match=sentence):
            bounded.learn(receipt, receipt.action)
    last = receipts[-1]
    bounded.learn(last, last.action)
    with pytest.raises(UserError, match=r"already learned from or forgotten, or has expired: feedback"):
        bounded.learn(last, last.action)  # younger than all that have expired: no limit is named


@pytest.mark.parametrize("wrong", [1, 4])
def test_a_time_in_the_future_lets_no_receipt_wait_for_ever(wrong, monkeypatch):
    """One reading of the clock five years ahead: nothing that came after it expired."""
    now = 1_000.0
    monkeypatch.setattr("time.time", lambda: now)
    aged = Online("gapsmh", GRAPH, features=2, seed=3, pending_age=100.0)
    aged.act(X)
    now = 1.5e8
    for _ in range(wrong):
        aged.act(X)  # the first one expires: by this clock it is five years old
    now = 1_001.0
    for _ in range(5):
        aged.act(X)
    assert aged.waiting == wrong + 5
    now = 1_102.5  # one second more than the age after the clock was right again
    aged.act(X)
    assert aged.waiting == 1
