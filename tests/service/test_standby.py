"""Two servers for one model: what the one that follows answers, and what is left when the one that leads fails."""

from __future__ import annotations

import asyncio
import re
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from failovers import MOST_SECONDS, fail_over
from gappletron import FeedbackGraph, Online, UserError, interpreted
from gappletron.base.errors import ServiceError, Unavailable
from gappletron.online import postgres
from gappletron.online.follower import Follower
from gappletron.online.journal import Policy
from gappletron.service import standby as module
from gappletron.service.app import create_app
from gappletron.service.client import Client
from gappletron.service.models import HostedModel
from gappletron.service.standby import Standby
from problems import ended
from servers import Browser, running
from stores import start_postgres, tamper

X = {"x": [1.0, -0.5, 2.0]}


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


@pytest.fixture
def server():
    return start_postgres()


@pytest.fixture
def place(server):
    return server.make_place()


class Seat:
    """A server of the model, in this process; it looks at the others when it is told to."""

    def __init__(self, place, is_replica=False):
        def take_over(follower):
            follower.take_over(Policy("os"), {})

        follower = Follower(place)
        self.hosted = HostedModel("mail", follower.model, follower=follower)
        self.standby = Standby(self.hosted, lambda: Follower(place), None if is_replica else take_over)
        self.browser = Browser(create_app([self.hosted], standbys=[self.standby]))

    @property
    def model(self):
        return self.hosted.model

    def look(self):
        asyncio.run(self.standby.look())

    def act(self, key=None):
        return self.browser.post("/v1/act", X, key)

    def metric(self, name):
        families = text_string_to_metric_families(self.browser.get("/metrics").body.decode())
        return {sample.name: sample.value for family in families for sample in family.samples}[f"gappletron_{name}"]

    def close(self):
        self.hosted.follower.close()


@pytest.fixture
def seats(place):
    """One that leads, and one that follows."""
    graph = FeedbackGraph.filtering(["ham", "spam"])
    Online.open(place, "gapsmh", graph, 3, seed=2, durability="os").close()
    pair = Seat(place), Seat(place)
    pair[0].look()
    yield pair
    for seat in pair:
        seat.close()


def test_one_that_follows_answers_predictions_with_its_lag(seats):
    leader, other = seats
    for _ in range(3):
        decision = leader.act().json
        leader.browser.post("/v1/learn", {"id": decision["id"], "label": (decision["reveals"] or ["x"])[0]})
    other.look()
    for path, body in [("predict", X), ("predict/batch", {"rows": [X["x"]]})]:
        first, second = (seat.browser.post(f"/v1/{path}", body) for seat in seats)
        assert first.body == second.body
        assert "gappletron-lag" not in first.headers
        assert second.headers["gappletron-lag"].startswith("rounds=0, seconds=0.")
    assert other.browser.get("/v1/model").json["rounds"] == 3
    assert other.browser.get("/v1/model").json["following"]["rounds"] == 0
    assert leader.browser.get("/v1/model").json["following"] is None
    assert other.browser.get("/v1/health").json["following"]["mail"]["rounds"] == 0
    assert leader.browser.get("/v1/health").json == {"status": "ok"}
    assert other.browser.get("/v1/estimates").json["rounds"] == 3
    assert [seat.metric("leading") for seat in seats] == [1.0, 0.0]
    assert [seat.metric("rounds") for seat in seats] == [3.0, 3.0]
    assert 0.0 == leader.metric("lag_seconds") < other.metric("lag_seconds") < 30.0
    assert other.model.differences(leader.model) == []


def test_one_that_follows_changes_nothing(seats):
    _, other = seats
    for path, body in [("act", X), ("learn", {"id": "a-0", "unseen": True}), ("forget", {"id": "a-0"})]:
        answer = other.browser.post(f"/v1/{path}", body)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "this server follows the model 'mail' and changes nothing" in answer.error
    assert other.model.rounds == 0
    assert other.model.waiting == 0


def test_receipts_do_not_expire_in_a_copy(place):
    graph = FeedbackGraph.full(["ham", "spam"])
    with Online.open(place, "gapsmh", graph, 3, pending_age=0.05, durability="os") as model:
        model.act([1.0, 0.0, 0.0])
        seat = Seat(place, is_replica=True)
        time.sleep(0.1)
        assert (seat.metric("waiting_receipts"), seat.model.waiting) == (1.0, 1)
        model.commit()
        with model.hold():  # the model that is written lets it expire
            pass
        model.commit()
        seat.look()
        assert seat.model.waiting == 0
        seat.close()


def test_a_takeover_goes_on_bit_for_bit(seats, place, monkeypatch):
    leader, other = seats
    first = [leader.act(f"k{n}") for n in range(4)]
    monkeypatch.setattr(module, "GRACE", 0.0)
    other.look()
    assert other.hosted.lag is not None  # as long as the other is there
    leader.hosted.follower._store.database.close()  # the process has died
    other.look()
    assert other.hosted.lag is None
    assert [other.act(f"k{n}").body for n in range(4)] == [answer.body for answer in first]  # what was answered stays
    decision = first[0].json
    feedback = {"id": decision["id"], "label": decision["reveals"][0]} if decision["reveals"] else None
    learned = other.browser.post("/v1/learn", feedback or {"id": decision["id"], "unseen": True})
    assert learned.json == {"learned": 1}
    assert other.act("k4").status == 200
    leader.look()  # it follows again
    assert leader.hosted.lag is not None
    assert leader.act("k5").status == 503
    assert leader.model.differences(other.model) == []
    assert Online.from_store(place, replay="first").differences(other.model) == []


def test_a_leader_that_was_replaced_acknowledges_nothing_and_refuses_nothing_for_good(seats, monkeypatch):
    """What it says of receipts may be out of date as well: 404 would make a client give up."""
    leader, other = seats
    own = leader.act("a").json
    leader.hosted.follower._store.database._closing.set()  # it shows no sign of life any more
    with monkeypatch.context() as patch:
        patch.setattr(postgres, "SILENT", "TRUE")  # for long
        patch.setattr(module, "GRACE", 0.0)
        other.look()
    assert other.hosted.lag is None
    new = other.act("b").json
    assert leader.hosted.lag is None  # it does not know yet
    answer = leader.browser.post("/v1/learn", {"id": new["id"], "unseen": True})
    assert answer.status == 503
    for _ in range(3):
        assert leader.act("c").status == 503
    assert leader.browser.get("/v1/health").status == 503
    assert "was opened by another process, which has taken over" in leader.browser.get("/v1/health").error
    leader.look()
    assert leader.browser.get("/v1/health").json["status"] == "ok"
    assert [each.id for each in leader.model.pending] == [own["id"], new["id"]]


def test_a_replica_never_leads(seats, place, monkeypatch):
    leader, _ = seats
    monkeypatch.setattr(module, "GRACE", 0.0)
    replica = Seat(place, is_replica=True)
    leader.hosted.follower._store.database.close()
    for _ in range(3):
        replica.look()
    assert replica.hosted.lag is not None
    replica.close()


def test_a_log_that_cannot_be_followed_is_told(seats, monkeypatch):
    _, other = seats
    monkeypatch.setattr(module, "LONGEST_SILENCE", 0.0)

    def refuse(*_):
        raise Unavailable("the server is away")

    async def story():
        task = asyncio.create_task(other.standby.run())
        await asyncio.sleep(0.3)
        task.cancel()

    with monkeypatch.context() as patch:
        patch.setattr(other.hosted.follower._store.database, "read", refuse)
        asyncio.run(story())
        health = other.browser.get("/v1/health")
        assert (health.status, health.json["status"]) == (200, "degraded")  # predictions go on
        problem = health.json["problems"][0]
        assert re.fullmatch(r"the log cannot be followed for \d+ seconds: the server is away", problem)
    asyncio.run(story())
    assert other.browser.get("/v1/health").json["status"] == "ok"


def test_one_that_follows_begins_anew_where_the_database_was_set_back(seats, place):
    leader, other = seats
    for _ in range(3):
        leader.act()
    other.look()
    leader.hosted.follower._store.database.close()
    for table, column in [("acts", "seq"), ("commits", "number")]:
        tamper(place, f"DELETE FROM {table} WHERE {column} = (SELECT max({column}) FROM {table})")
    with pytest.raises(Unavailable, match="has lost transactions"):
        other.look()
    other.look()
    assert other.model.rounds == 2


def test_failovers(server):
    """Under load: the process is killed, stopped, cut off from PostgreSQL; and PostgreSQL is started again."""
    for fault, seconds in fail_over(("kill", "stop", "cut", "restart"), server, seed=5):
        assert seconds < MOST_SECONDS, fault


# ------------------------------------------------------------------------------------------------- command and client


def test_the_command_refuses_what_does_not_go_together(place, tmp_path):
    for arguments, sentence in [
        ((tmp_path / "mail.sqlite", "--standby"), "--standby needs PostgreSQL"),
        ((f"mail={place}", "--standby", "--replica"), "give one of them"),
        ((f"a={place}", f"b={place}", "--standby", "--shadow", "b=a"), "--shadow needs the server that decides"),
        ((f"mail={place}", "--replica"), "there is no store"),
    ]:
        code, _, error = ended("serve", *arguments, "--port", "0")
        assert (code, sentence in error) == (2, True), error
    Online.open(place, "gapsmh", FeedbackGraph.full(["a", "b"]), 3, name="mail").close()
    for kind in ("--standby", "--replica"):
        code, _, error = ended("serve", f"mail={place}", kind, "--learner", "gaplog", "--port", "0")
        assert (code, "was made with another learner" in error) == (2, True), error


def test_a_client_finds_the_server_that_leads(seats, monkeypatch):
    pauses = []
    leader, other = seats
    with running(leader.browser.app) as first, running(other.browser.app) as second:
        monkeypatch.setattr(time, "sleep", pauses.append)
        with Client(["http://127.0.0.1:9", second, first], timeout=5.0) as client:
            decisions = [client.act(X["x"]) for _ in range(3)]
            assert client.health() == {"status": "ok"}  # the one that answered last is asked first
        assert not [seconds for seconds in pauses if seconds > 0.5]
        assert len({each.id for each in decisions}) == leader.model.rounds == 3
        pauses.clear()
        with Client([second, "http://127.0.0.1:9"], retries=2) as client, pytest.raises(ServiceError) as stopped:
            client.act(X["x"])
        assert stopped.value.status == 503
        monkeypatch.undo()
        assert pauses.count(1.0) == 2  # what the one that follows asks for, also where another does not answer
    with pytest.raises(UserError, match="there is no address"):
        Client([])


def test_predictions_do_not_wait_for_the_database(seats, monkeypatch):
    """A database that answers slowly holds no lock of the model that predictions need."""
    leader, other = seats
    leader.act()
    store = other.hosted.follower._store
    read = store.database.read
    seen = []

    def slow(sql, *values):
        seen.append(other.model._lock.acquire(blocking=False))
        if seen[-1]:
            other.model._lock.release()
        return read(sql, *values)

    monkeypatch.setattr(store.database, "read", slow)
    other.look()
    assert len(seen) > 4
    assert all(seen)
