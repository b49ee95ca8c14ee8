"""Followers that take over: a search for an order of steps in which something acknowledged is lost, or done twice."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gappletron import UNSEEN, FeedbackGraph, Online, interpreted
from gappletron.base.errors import SpentReceipt, Unavailable, UnknownReceipt
from gappletron.online import events, opening
from gappletron.online.follower import Follower
from gappletron.online.journal import Policy
from stores import MEMORY, full_disk, leave, read_log, start_postgres

GRAPH = FeedbackGraph.filtering(["ham", "spam"])
X = [1.0, -2.0, 0.5]
WHICH = st.integers(0, 3)
TROUBLES = st.sampled_from([None, None, "full", "lost", "late"])


@contextlib.contextmanager
def lost_answer(model):
    """Inside, transactions are stored, and the connection is lost before the writer hears of it."""
    database = model._contents.journal.store.database

    def lose(*_):
        raise Unavailable("the connection is lost")

    database.acknowledge = lose
    try:
        yield
    finally:
        del database.acknowledge


@contextlib.contextmanager
def late_commit(model):
    """The same, and the writer's next look does not see the transaction yet, as where it waits for a replica."""
    store = model._contents.journal.store

    def see_nothing():
        store._is_dirty = False
        del store.refresh

    store.refresh = see_nothing
    with lost_answer(model):
        yield


class Requests(RuleBasedStateMachine):
    """Processes that follow, take over without any lock, go on after a pause, and die; full disks and lost connections;
    and clients that send what was not acknowledged again, to any process that thinks that it leads.

    What was acknowledged is in the log once, for ever, and in order: after all that was acknowledged before it was
    first sent. Every copy that follows has the bits of a replay.
    """

    def __init__(self):
        super().__init__()
        self.mode = contextlib.ExitStack()
        self.mode.enter_context(interpreted())
        self.patch = self.mode.enter_context(pytest.MonkeyPatch.context())
        self.place = self.make_place()
        Online.open(self.place, "gapsmh", GRAPH, 3, seed=5, durability="os").close()
        self.processes = [Follower(self.place) for _ in range(2)]
        self.last = self.processes[0]
        self.last.take_over(Policy("os"), {})
        # Of each request: what it asks for, the rows of the log before it was first sent, and its answer.
        self.asked, self.before, self.answers = {}, {}, {}

    def make_place(self):
        self.patch.setattr("gappletron.base.files.fcntl", None)
        self.patch.setattr("gappletron.online.sqlite.Identity.fits", lambda *_: True)
        return Path(self.mode.enter_context(tempfile.TemporaryDirectory(dir=MEMORY))) / "store.sqlite"

    def teardown(self):
        Online.from_store(self.place, replay="first")
        for process in self.processes:
            leave(process._store.database)
        self.mode.close()

    def find(self, is_leading):
        """The processes that think that they lead, or that they do not."""
        return [process for process in self.processes if process.is_leading is is_leading]

    # ------------------------------------------------------------------------------------------------------- processes

    @precondition(lambda self: len(self.processes) < 4)
    @rule()
    def start(self):
        self.processes.append(Follower(self.place))

    @precondition(lambda self: self.find(is_leading=False))
    @rule(which=WHICH)
    def follow(self, which):
        process = choose(self.find(is_leading=False), which)
        process.catch_up()
        copy = Online.from_store(self.place, replay="first", stop=process.position)
        assert copy.differences(process.model) == []

    @precondition(lambda self: self.find(is_leading=False))
    @rule(which=WHICH)
    def take_over(self, which):
        process = choose(self.find(is_leading=False), which)
        process.take_over(Policy("os"), {})
        self.last = process

    @precondition(lambda self: any(process.is_lost for process in self.processes))
    @rule()
    def step_down(self):
        """What the service does with processes that were replaced."""
        for place, process in enumerate(self.processes):
            if process.is_lost:
                assert process is not self.last
                leave(process._store.database)
                self.processes[place] = Follower(self.place)

    @precondition(lambda self: len(self.processes) > 2)
    @rule(which=WHICH)
    def die(self, which):
        process = choose(self.processes, which)
        leave(process._store.database)
        self.processes.remove(process)

    # -------------------------------------------------------------------------------------------------------- requests

    @rule(which=WHICH, trouble=TROUBLES)
    def act(self, which, trouble):
        key = f"request {len(self.asked)}"
        self.asked[key], self.before[key] = lambda model: model.act(X).id, len(self.read())
        self.send(which, key, trouble)

    @rule(which=WHICH, trouble=TROUBLES, number=st.integers(0, 100))
    def learn(self, which, trouble, number):
        done = {key.partition(" of ")[2] for key in self.asked}
        receipts = [answer for answer in self.answers.values() if "-" in answer and answer not in done]
        if receipts:
            receipt = choose(receipts, number)
            key = f"feedback {len(self.asked)} of {receipt}"
            self.asked[key], self.before[key] = lambda model: give(model, receipt), len(self.read())
            self.send(which, key, trouble)

    @precondition(lambda self: self.asked)
    @rule(which=WHICH, trouble=TROUBLES, number=st.integers(0, 100))
    def send_again(self, which, trouble, number):
        """Also what was acknowledged: the answer may have been lost on its way."""
        self.send(which, choose(list(self.asked), number), trouble)

    def send(self, which, key, trouble):
        leaders = self.find(is_leading=True)
        if not leaders:
            return
        process = choose(leaders, which)
        model = process.model
        troubles = {None: contextlib.nullcontext, "full": full_disk, "lost": lost_answer, "late": late_commit}
        troubled = troubles[trouble]
        args = () if trouble is None else (model,)
        try:
            with troubled(*args):
                with model.hold():
                    known = model.recall(key, b"")
                    answer = self.asked[key](model) if known is None else known.decode()
                    if known is None:
                        model.remember(key, b"", answer.encode())
                model.commit()
        except (UnknownReceipt, SpentReceipt):
            # Before it is answered, the service asks whether it leads.
            with pytest.raises(Unavailable):
                process.model.confirm_writer()
            assert process is not self.last
        except Unavailable:
            assert trouble is not None or process is not self.last
        else:
            assert self.answers.setdefault(key, answer) == answer

    def read(self):
        with_rows = (events.Decided, events.Fed)
        return [each for each in read_log(self.place) if isinstance(each, with_rows)]

    @invariant()
    def acknowledged_once_for_ever_in_order(self):
        log = self.read()
        places = {f"{each.session}-{each.round}": n for n, each in enumerate(log) if isinstance(each, events.Decided)}
        assert [each.round for each in log if isinstance(each, events.Decided)] == list(range(len(places)))
        fed = [each.round for each in log if isinstance(each, events.Fed)]
        assert len(set(fed)) == len(fed)
        decided = [answer for answer in self.answers.values() if "-" in answer]
        assert len(set(decided)) == len(decided)  # no two requests have the same decision
        assert len(places) <= sum(key.startswith("request") for key in self.asked)  # and none has two
        rounds = {n: f"{each.session}-{each.round}" for n, each in enumerate(log) if isinstance(each, events.Decided)}
        names = {log[n].round: name for n, name in rounds.items()}
        learned = {names[each.round]: n for n, each in enumerate(log) if isinstance(each, events.Fed)}
        for key, answer in self.answers.items():
            place = places[answer] if "-" in answer else learned[key.partition(" of ")[2]]
            assert place >= self.before[key]


def choose(things, which):
    return things[which % len(things)]


def give(model, receipt):
    """Give the feedback of a receipt; the answer."""
    reveals = model.receipt(receipt).reveals
    model.learn(receipt, reveals[0] if reveals else UNSEEN)
    return "learned"


class RequestsToPostgres(Requests):
    """The same in PostgreSQL."""

    def make_place(self):
        self.patch.setattr("gappletron.online.postgres.Postgres.elect", lambda *_: None)
        return start_postgres().make_place()


TestRequests = Requests.TestCase
TestRequests.settings = settings(max_examples=20, stateful_step_count=40)
TestRequestsToPostgres = RequestsToPostgres.TestCase
TestRequestsToPostgres.settings = settings(max_examples=3, stateful_step_count=40)


def test_predictions_do_not_wait_for_the_model_to_which_the_log_rolls_back(tmp_path, monkeypatch):
    read, answered = opening._recover_player, []

    def read_slowly(*given):
        thread = threading.Thread(target=lambda: answered.append(follower.model.predict([1.0, 1.0])), daemon=True)
        thread.start()
        thread.join(10)
        answered.append("the past is read")
        return read(*given)

    place = tmp_path / "mail.sqlite"
    with (
        interpreted(),
        Online.open(place, "gapsmh", GRAPH, 2, seed=1, durability="os") as model,
        Follower(place) as follower,
    ):
        for label in ["ham", "ham", "spam", "spam", "spam"]:
            receipt = model.act([1.0, 1.0])
            model.learn(receipt, label if label in receipt.reveals else UNSEEN)
        model.roll_back(round=2)
        monkeypatch.setattr(opening, "_recover_player", read_slowly)
        assert follower.catch_up() > 0
        assert follower.model.differences(model) == []
    assert answered[1:] == ["the past is read"]
