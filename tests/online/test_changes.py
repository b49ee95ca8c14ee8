"""A stored model whose graph changes, and that is rolled back: the bits of a model that was made so by hand."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import storms
from gappletron import (
    UNSEEN,
    FeedbackGraph,
    Online,
    UserError,
    evaluate_off_policy,
    interpreted,
    read_decisions,
)
from gappletron.online import events, replay as replays, upkeep
from gappletron.online.follower import Follower
from stores import MEMORY, crash, start_postgres, tamper, wait_for_snapshot

CLASSES = ["ham", "spam", "odd"]
GRAPH = FeedbackGraph.filtering(CLASSES)
COSTLY = GRAPH.with_costs({("spam", "ham"): 10.0, ("ham", "spam"): 2.0})
GRAPHS = [GRAPH, COSTLY, FeedbackGraph.full(CLASSES, costs={("odd", "ham"): 4.0}), FeedbackGraph.bandit(CLASSES)]


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Interpreted rounds, a clock that stands still, and replay in short blocks."""
    monkeypatch.setattr(replays, "LEAST", 2)
    monkeypatch.setattr(replays, "MOST", 9)
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1000.0)
    with interpreted():
        yield


def rows(seed=0):
    """Sparse rows of 30 features, and labels."""
    rng = np.random.default_rng(seed)
    while True:
        yield (rng.choice(30, 3, replace=False), rng.normal(size=3)), CLASSES[rng.integers(3)]


def play(model, stream, rounds, **options):
    """Rounds whose feedback comes at once, but for every third; the receipts that wait."""
    waiting = []
    for t, (x, label) in enumerate(itertools.islice(stream, rounds)):
        receipt = model.act(x, **options)
        if t % 3 == 2:
            waiting.append((receipt, label))
        else:
            model.learn(receipt, label if label in receipt.reveals else UNSEEN)
    return waiting


def opened(place, learner="auto", **options):
    return Online.open(place, learner, GRAPH, "grow", seed=3, durability="os", **options)


def check_reopened(place, model):
    """The log leads to the bits of the model: from its beginning, and from the last snapshot, also in a copy."""
    for which in ("first", "last"):
        assert Online.from_store(place, replay=which).differences(model) == []


# ------------------------------------------------------------------------------------------------------------ the graph


@pytest.mark.parametrize("learner", ["auto", "gapsmh"])
def test_a_graph_from_a_round_on(place, learner):
    """As a model to which every later round is given with the graph: the learner, the estimates, what it cost."""
    later = COSTLY if learner == "auto" else FeedbackGraph.bandit(CLASSES)
    model, by_hand = opened(place, learner), Online(learner, GRAPH, "grow", seed=3, monitor=True)
    waiting = [play(each, rows(), 30) for each in (model, by_hand)]
    model.set_graph(later, who="anna")
    assert model.graph == later
    play(model, rows(1), 30)
    play(by_hand, rows(1), 30, graph=later)
    for each, receipts in zip((model, by_hand), waiting, strict=True):  # decided under the graph of before
        for receipt, label in receipts:
            assert receipt.graph == GRAPH
            each.learn(receipt, label if label in receipt.reveals else UNSEEN)
    assert set(model.differences(by_hand)) <= {
        "graph",
        "graphs",
        "edges",
        "costs",
        "edges.0",
        "costs.0",
        "receipts.graphs",
    }
    assert model.monitor.report() == by_hand.monitor.report()
    crash(model)
    check_reopened(place, model)
    again = Online.open(place, graph=later)  # the current graph, and the one that it was made with
    again.close()
    opened(place, learner).close()


def test_the_table_and_the_evaluation_know_the_graph_of_a_round(place):
    with opened(place, snapshot_every=20) as model:
        play(model, rows(), 20)
        model.set_graph(COSTLY, who="anna")
        play(model, rows(1), 40)
    table = [row for batch in read_decisions(place) for row in batch.to_pylist()]
    first, second = table[0]["graph"], table[20]["graph"]
    assert [row["graph"] for row in table] == [first] * 20 + [second] * 40
    assert first != second
    assert tamper(place, "SELECT kind, who FROM changes WHERE who IS NOT NULL") == [("graph changed", "anna")]
    found = evaluate_off_policy(place, "auto")
    # The learner of the store follows itself, so its costs are those of the rounds: 0 and 1 at first.
    costs = [each for each in found.estimates if each.target == "policy cost"]
    assert found.rounds == 60
    assert costs


def test_a_graph_and_back_again(place):
    """Also under another name: the bits of a replay are those of the model, with receipts of each time waiting."""
    model = opened(place, pending=100)
    for t, graph in enumerate([COSTLY, GRAPH, COSTLY, GRAPHS[3], FeedbackGraph(GRAPH.visible, CLASSES, name="own")]):
        play(model, rows(t), 5)
        model.set_graph(graph)
    play(model, rows(9), 5)
    crash(model)
    check_reopened(place, model)
    again = Online.open(place)
    for receipt in again.pending:
        again.learn(receipt, receipt.reveals[0] if receipt.reveals else UNSEEN)
    again.close()
    check_reopened(place, again)


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (FeedbackGraph.full(["ham", "spam"]), "other classes or actions: only edges and costs may change"),
        (COSTLY, "gapsmh cannot play the graph .* it minimises mistakes"),
        (FeedbackGraph.bandit(CLASSES), "min_propensity=0.5 is too much"),
        ("full", "is not a FeedbackGraph"),
    ],
)
def test_graphs_that_are_refused(place, graph, sentence):
    with opened(place, "gapsmh", min_propensity=0.5) as model:
        play(model, rows(), 5)
        before = copy.copy(model)
        with pytest.raises(UserError, match=sentence):
            model.set_graph(graph)
        assert model.differences(before) == []
        play(model, rows(1), 5)
    check_reopened(place, model)


@pytest.mark.parametrize("between", [[], [[("odd", "odd")]]])
def test_a_graph_whose_given_edges_alone_differ_is_another(place, between):
    """The closure adds what the one lacks to the other; a new class undoes it, so the log must know which it is."""
    common = [("ham", label) for label in CLASSES] + [("odd", "odd"), ("spam", "odd")]
    first, second = (FeedbackGraph.from_edges(CLASSES, [*common, ("spam", own)], CLASSES) for own in ("ham", "spam"))
    assert first == second
    model = Online.open(place, "auto", first, "grow", durability="os")
    model.act(([0], [1.0]))  # the graph is in the log
    for edges in between:
        model.set_graph(FeedbackGraph.from_edges(CLASSES, [*common[:3], *edges], CLASSES))
    model.set_graph(second)
    crash(model)
    for each in (model, Online.from_store(place)):
        assert each.graph.with_class("new", ["new"], ["ham"]).reveals("spam") == ("spam", "odd")


# --------------------------------------------------------------------------------------------------------- rolling back


@pytest.mark.parametrize("learner", ["auto", "gapsmh"])
def test_what_was_learned_is_undone_and_nothing_else(place, learner):
    model = opened(place, learner, snapshot_every=25)
    play(model, rows(), 20)
    then = copy.copy(model)
    waiting = play(model, rows(1), 20)
    model.set_limits(min_propensity=0.1)
    model.add_class("new")
    play(model, rows(2), 10)
    now = copy.copy(model)
    model.roll_back(round=20, who="anna")
    assert (model.rounds, model.graph, model.limits, model.waiting) == (50, now.graph, now.limits, now.waiting)
    assert model.monitor.report().policy == now.monitor.report().policy
    then.add_class("new")  # of which nothing was known
    known = len(then.weights)
    assert np.array_equal(model.weights[:known], then.weights)
    assert not model.weights[known:].any()
    if learner == "auto":
        bound = model.bound()
        assert (bound.rounds, bound.taught, bound.undone, bound.is_proved) == (20, 0, 30, False)
        assert "rolled back over 30 other rounds" in str(bound)
    for receipt, label in waiting:  # their feedback is learned by what the learner is now
        model.learn(receipt, label if label in receipt.reveals else UNSEEN)
    play(model, rows(3), 10)
    crash(model)
    check_reopened(place, model)
    again = Online.open(place)
    assert again.differences(model) == []
    again.close()
    assert len([row for batch in read_decisions(place) for row in batch.to_pylist()]) == 60  # the log has all of them
    ((who, document),) = tamper(place, "SELECT who, document FROM changes WHERE kind = 'rolled back'")
    assert (who, json.loads(document)["round"]) == ("anna", 20)


def test_a_roll_back_can_be_undone_and_done_again(place):
    """To an event, also one that has a roll-back before it: each state is that of the time, bit for bit."""
    model, ends = opened(place, snapshot_every=1000), []
    for part in range(4):
        play(model, rows(part), 10)
        ends.append(model._contents.journal.store.count)
        if part == 2:
            model.roll_back(event=ends[0])
    for part in (1, 3, 0, 2):
        model.roll_back(event=ends[part])
        then = Online.from_store(place, stop=ends[part])
        assert np.array_equal(model.weights[: len(then.weights)], then.weights)
        assert not model.weights[len(then.weights) :].any()
        assert model.bound().rounds == then.bound().rounds
    with Follower(place) as follower:
        play(model, rows(8), 5)
        model.roll_back(event=ends[0])
        play(model, rows(9), 5)
        follower.catch_up()
        assert follower.model.differences(model) == []
    model.close()
    check_reopened(place, model)


def test_how_far_a_model_can_be_rolled_back(place):
    with opened(place, snapshot_every=10, keep_rows=5) as model:
        for part in range(4):
            play(model, rows(part), 20)
            model.checkpoint()
        for given, sentence in [
            ({}, "give either event= or round="),
            ({"event": 3, "round": 3}, "give either event= or round="),
            ({"round": 80}, "no decision number 80"),
            ({"event": 10**6}, "event"),
            ({"round": 40}, "features of this part of the log were dropped"),
        ]:
            with pytest.raises(UserError, match=sentence):
                model.roll_back(**given)
        with pytest.raises(UserError, match="cannot be logged as who asked"):
            model.roll_back(event=0, who="\n")
        model.roll_back(event=model._contents.journal.store.snapshots()[-2])
    assert Online.from_store(place).differences(model) == []
    with pytest.raises(UserError, match=r"make it with Online.open\(\)"):
        Online("auto", GRAPH, 3).roll_back(round=0)


def played(place, **options):
    """A model with some snapshots, and the number of an event between the last two."""
    model = opened(place, snapshot_every=30, **options)
    for part in range(5):
        play(model, rows(part), 20)
        wait_for_snapshot(model)
    return model, model._contents.journal.store.snapshots()[-2] + 3


@pytest.mark.parametrize("what", ["features", "decisions"])
def test_retention_keeps_what_a_roll_back_needs(place, what):
    model, _ = played(place)
    model.checkpoint()
    model.roll_back(event=20)
    play(model, rows(7), 5)
    crash(model)
    upkeep.retain(place, **{what: upkeep.Limit("round", 5)})
    assert Online.from_store(place).differences(model) == []


def test_what_a_roll_back_needs_stays_while_it_may_be_done_again(place):
    """After the next snapshot too: the newest may be damaged. Then it is removed."""
    model, target = played(place, keep_rows=5)
    model.roll_back(event=target)
    model.checkpoint()
    newest = model._contents.journal.store.snapshots()[-1]
    play(model, rows(8), 5)
    crash(model)
    whole = tamper(place, "SELECT part, data FROM snapshot_parts WHERE at = ?", newest)
    tamper(place, "UPDATE snapshot_parts SET data = ? WHERE at = ?", b"", newest)
    assert Online.from_store(place).differences(model) == []
    for part, data in whole:
        tamper(place, "UPDATE snapshot_parts SET data = ? WHERE at = ? AND part = ?", data, newest, part)
    with Online.open(place, snapshot_every=30, keep_rows=5) as again:
        for part in range(3):
            play(again, rows(part), 30)
            again.checkpoint()
        with pytest.raises(UserError, match="features of this part of the log were dropped"):
            again.roll_back(event=target)


def test_a_snapshot_that_ends_after_a_roll_back_keeps_what_that_needs(place, monkeypatch):
    model = opened(place, snapshot_every=30, keep_rows=5)
    journal, go = model._contents.journal, threading.Event()
    play(model, rows(), 60)
    wait_for_snapshot(model)
    put, target = journal._put, journal.store.snapshots()[-1] - 3
    monkeypatch.setattr(journal, "_put", lambda snapshot: go.wait() and put(snapshot))
    for part in range(1, 4):
        play(model, rows(part), 20)
    assert journal._snapshotting.locked()
    model.roll_back(event=target)
    go.set()
    crash(model)
    assert Online.from_store(place).differences(model) == []


def test_a_roll_back_to_what_was_removed_meanwhile_is_refused(place):
    model, target = played(place, keep_rows=5)
    past = model.read_past(event=target)
    for part in range(3):
        play(model, rows(part), 40)
        model.checkpoint()
    with pytest.raises(UserError, match="was removed meanwhile"):
        model.roll_back(past)
    crash(model)
    assert Online.from_store(place).differences(model) == []


@pytest.mark.parametrize(
    "document",
    ['{"event": 900, "round": 0}', '{"event": 3, "round": 7}', '{"event": [], "round": 0}', "[" * 200_000, "{}"],
)
def test_roll_backs_that_no_model_wrote_are_refused(place, document):
    model = opened(place)
    play(model, rows(), 5)
    model.roll_back(round=2)
    crash(model)
    ((number, kind, time, who),) = tamper(place, "SELECT seq, kind, time, who FROM changes WHERE kind = 'rolled back'")
    checksum = events.with_sum(number, kind, time, document, who)[-1]
    tamper(place, "UPDATE changes SET document = ?, checksum = ? WHERE seq = ?", document, checksum, number)
    with pytest.raises(UserError, match=r"does not fit those before it|is damaged"):
        Online.open(place)


class Changes(RuleBasedStateMachine):
    """Any order of rounds, changes, roll-backs and crashes, beside a model without a store that is rolled back to
    copies that were made at the time.
    """

    def __init__(self):
        super().__init__()
        self.mode = contextlib.ExitStack()
        self.mode.enter_context(interpreted())
        self.place = self.make_place()
        self.model = self.opened()
        self.reference = Online("gapsmh", GRAPH, "grow", seed=3, pending=4, monitor=True)
        self.stream, self.copies = rows(7), []

    def make_place(self):
        return Path(self.mode.enter_context(storms.tempfile.TemporaryDirectory(dir=MEMORY))) / "store.sqlite"

    def opened(self):
        return opened(self.place, "gapsmh", pending=4, snapshot_every=9)

    def teardown(self):
        check_reopened(self.place, self.model)
        crash(self.model)
        self.mode.close()

    @rule(n=st.integers(1, 4))
    def play(self, n):
        for x, label in itertools.islice(self.stream, n):
            self.copies.append(copy.copy(self.reference._contents.player))
            for model in (self.model, self.reference):
                receipt = model.act(x)
                if label != "odd":
                    model.learn(receipt, label if label in receipt.reveals else UNSEEN)

    @rule(which=st.sampled_from([0, 3]))
    def set_graph(self, which):
        if self.reference.graph.n_classes == 3:
            for model in (self.model, self.reference):
                model.set_graph(GRAPHS[which])

    @rule()
    def add_class(self):
        if self.reference.graph.n_classes < 4:
            for model in (self.model, self.reference):
                model.add_class("new", reveals=CLASSES, revealed_by=["ham"])

    @rule(place=st.floats(0, 1))
    def roll_back(self, place):
        if self.copies:
            to = int(place * (len(self.copies) - 1))
            self.model.roll_back(round=to)
            self.reference._contents.player.roll_back(self.copies[to])

    @rule()
    def crash(self):
        crash(self.model)
        self.model = self.opened()

    @invariant()
    def equal(self):
        assert self.model.differences(self.reference) == []


class ChangesInPostgres(Changes):
    """The same in PostgreSQL."""

    def make_place(self):
        return start_postgres().make_place()


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=15, stateful_step_count=15)
TestChangesInPostgres = ChangesInPostgres.TestCase
TestChangesInPostgres.settings = settings(max_examples=4, stateful_step_count=15)
