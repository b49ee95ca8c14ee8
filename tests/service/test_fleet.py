"""A fleet: models that open and close by themselves, several processes, and one that dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time

import numpy as np
import pytest

from gappletron import UNSEEN, Encoder, FeedbackGraph, Online, UserError, interpreted, read_decisions
from gappletron.online import upkeep
from gappletron.online.postgres import SILENCE, Postgres
from gappletron.online.shared import Shared
from gappletron.service import client as client_module, openapi
from gappletron.service.client import Client
from gappletron.service.fleet import Fleet, FleetService
from problems import ended
from servers import FILTER, Browser, running, served, started
from stores import start_postgres, tamper

OPTIONS = {"learner": "gapsmh", "graph": FILTER, "encoder": Encoder(text="message"), "durability": "os"}


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


@pytest.fixture
def server():
    return start_postgres()


@contextlib.asynccontextmanager
async def service(place, address="http://one", most_bytes=10**9, makes=True, **options):
    """A browser that talks to a fleet in this process, and the fleet."""
    fleet = Fleet(
        Shared(str(place), "os", address), {**OPTIONS, **options}, makes=makes, most_bytes=most_bytes, hosting={}
    )
    application = FleetService(fleet)
    async with application.lifespan(application.app):
        yield Talker(application), fleet
    assert application.failures == []


def read_seed(place, name):
    ((settings,),) = tamper(place, "SELECT settings FROM models WHERE name = ?", name)
    return json.loads(settings)["options"]["seed"]


class Talker(Browser):
    """Sends requests in the loop that runs."""

    async def make(self, name):
        return await self.send("POST", "/v1/models/new", json.dumps({"name": name}).encode())

    async def ask(self, name, what, content, key=None):
        headers = {} if key is None else {"idempotency-key": key}
        return await self.send("POST", f"/v1/models/{name}/{what}", json.dumps(content).encode(), headers)

    async def act(self, name, text, key=None):
        return await self.ask(name, "act", {"x": text}, key)

    async def learn(self, name, decision):
        label = {"label": "ham"} if decision["reveals"] else {"unseen": True}
        return await self.ask(name, "learn", {"id": decision["id"], **label})


# ---------------------------------------------------------------------------------------------------- opening, closing


def test_models_that_are_closed_and_opened_again_have_the_same_bits(place):
    """Memory for one model, and requests for four in turn: each goes on as a twin that was never closed."""
    names, twins = ["a", "b", "c", "d"], {}
    rng = np.random.default_rng(3)

    async def play():
        async with service(place, most_bytes=1) as (browser, fleet):
            for name in names:
                assert (await browser.make(name)).json["rounds"] == 0
            for t in range(40):
                name = names[t % 4] if t < 20 else names[int(rng.integers(4))]
                text = f"word{rng.integers(9)} word{rng.integers(9)}"
                decision = (await browser.act(name, text)).json
                assert (await browser.learn(name, decision)).json == {"learned": 1}
                if name not in twins:
                    seed = read_seed(place, name)
                    assert seed not in [seed for seed, _ in twins.values()]  # they draw on their own
                    given = {key: value for key, value in OPTIONS.items() if key != "durability"}
                    twins[name] = seed, Online(**given, seed=seed, monitor=True)
                twin = twins[name][1]
                receipt = twin.act(text)
                assert (decision["action"], decision["probability"]) == (receipt.action, receipt.probability)
                twin.learn(receipt, "ham" if receipt.reveals else UNSEEN)
            assert fleet.counts["opened"] > 20
            assert fleet.counts["created"] == 4
            assert len(fleet) <= 2
            assert fleet.done == {"decisions": 40, "feedback": 40}

    asyncio.run(play())
    for name in names:
        assert Online.from_store(place, name=name).differences(twins[name][1]) == []
        assert upkeep.check(place, name=name).rounds == twins[name][1].rounds


def test_what_was_used_last_stays(tmp_path):
    async def play():
        async with service(tmp_path / "models.sqlite") as (browser, fleet):
            for name in "abcd":
                await browser.make(name)
            await browser.act("a", "hello")
            fleet.most_bytes = fleet.nbytes // 2
            await browser.make("e")
            while fleet._busy:
                await asyncio.sleep(0.01)
            assert [hosted.name for hosted in fleet] == ["e", "a"]
            assert [each["name"] for each in (await browser.send("GET", "/v1/models")).json["models"]] == ["e", "a"]
            sizes = fleet.nbytes
            await browser.act("a", " ".join(f"word{number}" for number in range(3000)))
            task = asyncio.create_task(fleet.keep_small(0.01))  # it has grown
            await asyncio.sleep(0.05)
            task.cancel()
            assert fleet.nbytes > sizes or len(fleet) == 1

    asyncio.run(play())


def test_many_requests_at_once_open_a_model_once(place):
    """Also where there is memory for one of five models only: each request is answered."""

    async def play():
        async with service(place, most_bytes=1) as (browser, fleet):
            for number in range(5):
                await browser.make(f"m{number}")
            answers = await asyncio.gather(*(browser.act(f"m{t % 5}", f"text {t}") for t in range(100)))
            assert {answer.status for answer in answers} == {200}
            assert len({answer.json["id"] for answer in answers}) == 100
            assert fleet.done["decisions"] == 100

    asyncio.run(play())


# ------------------------------------------------------------------------------------------------------ making, naming


def test_creation(place):
    async def play():
        async with service(place) as (browser, fleet):
            made = await asyncio.gather(*(browser.make("a") for _ in range(5)))
            assert {answer.status for answer in made} == {200}
            assert (await browser.act("a", "hello")).status == 200
            assert (await browser.make("a")).json["rounds"] == 1  # as it is
            assert fleet.counts["created"] == 1
            missing = await browser.act("b", "hello")
            assert (missing.status, missing.error[:38]) == (404, "there is no model 'b': create it first")
        async with service(place, makes=False, learner=None, graph=None) as (browser, _):
            assert (await browser.make("c")).status == 403
            assert (await browser.act("a", "hello")).status == 200
            assert (await browser.act("c", "hello")).status == 404

    asyncio.run(play())
    assert tamper(place, "SELECT name FROM models") == [("a",)]


def test_a_model_is_made_while_others_ask_for_it(tmp_path):
    """What they began says that there is none: this is no answer to the request that makes it."""

    async def play():
        async with service(tmp_path / "models.sqlite") as (browser, fleet):
            for name in ("a", "b", "c", "d"):

                async def ask(name=name):
                    while (answer := await browser.act(name, "hello")).status != 200:
                        assert answer.status == 404

                asking = [asyncio.create_task(ask()) for _ in range(4)]
                await asyncio.sleep(0.005)
                made = await asyncio.gather(browser.make(name), browser.make(name))
                assert [answer.status for answer in made] == [200, 200]
                await asyncio.gather(*asking)
            assert fleet.counts["created"] == 4

    asyncio.run(play())


@pytest.mark.parametrize("how", ["path", "body"])
def test_hostile_names(place, how):
    names = [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "-rf",
        "a b",
        "'; DROP TABLE models; --",
        "%00",
        "a\0b",
        "ä",
        "x" * 101,
        "\n",
    ]
    names += ["a\r\nLocation: http://evil", "%2e%2e", "{name}", "%s", "?", *(["\ud800"] if how == "body" else [])]

    async def play():
        async with service(place) as (browser, fleet):
            await browser.make("good")
            for name in names:
                answer = await (browser.make(name) if how == "body" else browser.act(name, "hello"))
                assert answer.status in (400, 404, 422), name
                assert "\n" not in answer.error
            answer = await browser.send("POST", "/v1/models/new", b'{"name": 3}')
            assert answer.status == 400
            assert (await browser.act("good", "hello")).status == 200
            assert len(fleet) == 1

    asyncio.run(play())
    assert tamper(place, "SELECT name FROM models") == [("good",)]


def test_models_of_other_names_and_kinds_are_served(place):
    """Made by the library: what the options of new models say is not asked of them."""
    name = "müller & söhne's"
    with Online.open(place, "gaplog", FeedbackGraph.bandit([0, 1, 2]), 2, name=name, durability="os") as model:
        model.act([1.0, 2.0])

    async def play():
        async with service(place, min_propensity=0.1) as (browser, _):
            answer = await browser.ask(name, "act", {"x": [1.0, 2.0]})
            assert answer.status == 200
            described = await browser.send("GET", f"/v1/models/{name}/model")
            assert described.json["limits"]["min_propensity"] == 0.1  # limits are those of all models
            assert described.json["rounds"] == 2

    asyncio.run(play())


def test_the_log_of_a_model_is_read_where_it_is_written(place):
    """Also where the address of the database has parts that no message shows, such as the search path."""

    async def play():
        async with service(place) as (browser, _):
            await browser.make("a")
            first = (await browser.act("a", "hello")).json
            await browser.learn("a", first)
            probabilities = [(await browser.ask("a", "predict", {"x": "hello"})).json["probabilities"]]
            await browser.learn("a", (await browser.act("a", "other words")).json)
            assert (await browser.ask("a", "rollback", {"round": 1})).status == 200
            probabilities.append((await browser.ask("a", "predict", {"x": "hello"})).json["probabilities"])
            assert probabilities[0] == probabilities[1]
            changes = (await browser.send("GET", "/v1/models/a/changes")).json
            assert [change["kind"] for change in changes["changes"]] == ["opened", "rolled back"]

    asyncio.run(play())


def test_every_endpoint_is_described(tmp_path):
    described = openapi.describe_service(needs_token=False, takes_records=None)
    assert "/v1/act" not in described["paths"]
    assert "307" in described["paths"]["/v1/models/{name}/act"]["post"]["responses"]
    operations = [each["operationId"] for methods in described["paths"].values() for each in methods.values()]
    assert len(set(operations)) == len(operations)

    async def play():
        async with service(tmp_path / "models.sqlite") as (browser, _):
            await browser.make("a")
            for path, methods in described["paths"].items():
                for method in methods:
                    answer = await browser.send(method.upper(), path.replace("{name}", "a"), b"{}")
                    assert answer.status not in (404, 405, 500), path
            assert (await browser.send("GET", "/openapi.json")).json == json.loads(json.dumps(described))
            metrics = (await browser.send("GET", "/metrics")).body.decode()
            assert "gappletron_models_created_total 1.0" in metrics
            assert "gappletron_open_models 1.0" in metrics
            assert (await browser.send("GET", "/v1/health")).json == {"status": "ok"}

    asyncio.run(play())


# --------------------------------------------------------------------------------------------------- several processes


def test_one_of_two_opens_a_model_and_the_other_tells_where(server):
    place = server.make_place()

    async def play():
        async with service(place, "http://one") as (one, first), service(place, "http://two/") as (two, second):
            names = [f"m{number}" for number in range(8)]
            made = await asyncio.gather(*(each.make(name) for name in names for each in (one, two)))
            assert {answer.status for answer in made} <= {200, 307}
            assert first.counts["created"] + second.counts["created"] == 8
            for fleet in (first, second):  # nobody has them open
                for name in list(fleet._open):
                    await fleet._close(name, fleet._drop(name))
            await asyncio.sleep(0.6)
            answers = await asyncio.gather(*(each.act(name, "hello") for name in names for each in (one, two)))
            for name, *pair in zip(names, answers[::2], answers[1::2], strict=True):
                assert sorted(answer.status for answer in pair) == [200, 307], pair
                other = next(answer for answer in pair if answer.status == 307)
                there = "http://one" if other is pair[1] else "http://two"
                assert other.headers["location"] == f"{there}/v1/models/{name}/act"
            rows = tamper(place, "SELECT address, count(*) FROM owners JOIN servers USING (server) GROUP BY 1")
            assert sum(count for _, count in rows) == 8
            with pytest.raises(UserError, match="is open in another process"):
                Online.open(place, name="m0")
        with Online.open(place, name="m0") as model:
            assert model.rounds == 1
            async with service(place) as (browser, _):
                refused = await browser.act("m0", "hello")
                assert refused.status == 503
                assert "is open in a process that does not belong to this fleet" in refused.error
            async with service(place) as (one, _), service(place) as (two, _):  # with one address
                await one.act("m1", "hello")
                refused = await two.act("m1", "hello")
                assert (refused.status, "has the address 'http://one' as well" in refused.error) == (503, True)
        assert tamper(place, "SELECT * FROM owners") == tamper(place, "SELECT * FROM servers") == []

    asyncio.run(play())


def test_a_process_that_is_silent_is_replaced_and_notices(server):
    """As one that was stopped, or cut off: what it acknowledged is there, and it writes nothing more."""
    place = server.make_place()

    async def play():
        async with service(place, "http://one") as (one, first), service(place, "http://two") as (two, _):
            await one.make("a")
            kept = [(await one.act("a", f"text {t}")).json["id"] for t in range(3)]
            beat = first.shared.ownership
            beat._stop.set()
            beat._thread.join()
            await asyncio.sleep(SILENCE + 0.5)
            answer = await two.act("a", "from the other")
            assert answer.status == 200
            kept.append(answer.json["id"])
            refused = await one.act("a", "too late", key="k1")
            assert refused.status == 503
            assert "has taken over" in refused.error
            again = await one.act("a", "too late", key="k1")
            assert (again.status, again.headers["location"]) == (307, "http://two/v1/models/a/act")
            answer = await two.act("a", "too late", key="k1")  # where the client sends it then
            kept.append(answer.json["id"])
            with contextlib.suppress(UserError):
                beat._note_life()
            beat._note_life()
            assert (await two.act("a", "too late", key="k1")).body == answer.body
            found = [row["id"] for batch in read_decisions(place, name="a") for row in batch.to_pylist()]
            assert found == kept

    asyncio.run(play())


def test_a_process_that_was_replaced_does_not_say_that_a_receipt_is_unknown(server):
    """It has not read what the one that has the model now decided: its answers of "no" do not count."""
    place = server.make_place()

    async def play():
        async with service(place, "http://one") as (one, first), service(place, "http://two") as (two, _):
            await one.make("a")
            assert (await one.ask("a", "learn", {"id": "other-0", "label": "ham"})).status == 404
            beat = first.shared.ownership
            beat._stop.set()
            beat._thread.join()
            server.execute(f"SELECT pg_terminate_backend({beat._session[0]}, 5000)")
            decision = (await two.act("a", "hello")).json
            refused = await one.learn("a", decision)
            assert (refused.status, "has taken over" in refused.error) == (503, True)
            again = await one.learn("a", decision)
            assert (again.status, again.headers["location"]) == (307, "http://two/v1/models/a/learn")
            assert (await two.learn("a", decision)).json == {"learned": 1}
            with contextlib.suppress(UserError):
                beat._note_life()
            beat._note_life()

    asyncio.run(play())


def test_where_the_database_is_out_of_reach_nothing_waits_for_it(server, monkeypatch):
    place = server.make_place()

    async def play():
        async with service(place) as (browser, fleet):
            await browser.make("a")
            assert (await browser.act("a", "hello", key="k")).status == 200
            with monkeypatch.context() as patched:
                fleet.shared.ownership._stop.set()
                fleet.shared.ownership._thread.join()
                fleet.shared.ownership.problem = "cannot reach the store"
                patched.setattr(Postgres, "_connect", lambda self: pytest.fail("it is tried again"))
                patched.setattr(Postgres, "read", lambda self, *given: pytest.fail("it is tried again"))
                refused = await browser.act("a", "hello", key="k2")
                assert (refused.status, refused.error) == (503, "cannot reach the store")
                assert (await browser.ask("a", "predict", {"x": "hello"})).status == 200
            fleet.shared.ownership.problem = None
            assert (await browser.act("a", "hello", key="k2")).status == 200

    asyncio.run(play())


@pytest.mark.parametrize("how", ["cut", "restarted"])
def test_connections_that_are_lost_are_made_again_with_all_locks(server, how):
    place = server.make_place()

    async def play():
        async with service(place, "http://one") as (one, first), service(place, "http://two") as (two, second):
            for name in "abc":
                await one.make(name)
            before = first.shared.ownership._session
            if how == "cut":
                server.execute(f"SELECT pg_terminate_backend({before[0]}, 5000)")
            else:
                server.stop()
                server.start()
            deadline = time.monotonic() + 10
            while first.shared.ownership._session == before or first.shared.problem or second.shared.problem:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            for name in "abc":
                for browser, status in ((one, 200), (two, 307)):  # each of their connections fails once
                    answers = [(await browser.act(name, "hello", key="k")).status for _ in range(10)]
                    assert answers[-1] == status, answers
            assert (await one.send("GET", "/v1/health")).status == 200

    asyncio.run(play())


# ------------------------------------------------------------------------------------------------------- whole servers


SERVER = """
import sys
from gappletron import Encoder, FeedbackGraph, interpreted
from gappletron.cli.serve import ServerOptions, run
from gappletron.online.shared import Shared
from gappletron.service.fleet import Fleet, FleetService
from gappletron.service.serving import bind_socket

options = {"learner": "gapsmh", "graph": FeedbackGraph.filtering(["ham", "spam"]), "encoder": Encoder(text="message")}
with interpreted(), bind_socket("127.0.0.1", 0) as listening:
    shared = Shared(sys.argv[1], "disk", f"http://127.0.0.1:{listening.getsockname()[1]}")
    fleet = Fleet(shared, options, makes=True, most_bytes=10**9, hosting={})
    run(FleetService(fleet), listening, ServerOptions(), "a fleet")
"""


def test_a_server_that_is_killed_gives_its_models_to_the_other(server, monkeypatch):
    """60 models on two servers, clients that act and learn, kill -9: all answer, and everything is there once."""
    monkeypatch.setattr(client_module, "LONGEST_PAUSE", 0.2)
    place, names = server.make_place(), [f"customer-{number}" for number in range(60)]
    command = [sys.executable, "-c", SERVER, place]
    with started(command, is_killed=True) as (one, process), started(command) as (two, _):
        acted, failed, answered = {name: [] for name in names}, [], {}
        stop = threading.Event()

        def work(mine):
            try:
                clients = {name: Client(two, model=name, retries=50) for name in mine}
                for name, client in clients.items():
                    Client((one, two)[names.index(name) % 2], retries=50).create_model(name)
                    acted[name].append(client.act("hello"))
                while not stop.is_set():
                    for name, client in clients.items():
                        client.learn(acted[name][-1], "ham" if acted[name][-1].reveals else UNSEEN)
                        acted[name].append(client.act(f"text {len(acted[name])}"))
                        answered[name] = time.monotonic()
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(names[number::4],)) for number in range(4)]
        for thread in threads:
            thread.start()
        while len(answered) < 60 and not failed:
            time.sleep(0.01)
        moved = tamper(place, "SELECT count(*) FROM owners JOIN servers USING (server) WHERE address = ?", one)
        assert failed or moved == [(30,)]
        process.kill()
        killed = time.monotonic()
        while (len(answered) < 60 or min(answered.values()) < killed) and not failed:
            assert time.monotonic() < killed + 60
            time.sleep(0.01)
        taken = max(answered.values()) - killed
        stop.set()
        for thread in threads:
            thread.join()
        assert not failed, failed[0]
        assert taken < 10
    found = tamper(place, "SELECT model, id FROM decisions ORDER BY round")
    for name in names:
        assert [id for model, id in found if model == name] == [decision.id for decision in acted[name]]
    for name in names[::10]:
        assert upkeep.check(place, name=name).rounds == len(acted[name])


class PlainFleet(Fleet):
    """A fleet whose models are plain Python, also in a loop of another thread."""

    def _load(self, name, makes):
        with interpreted():
            return super()._load(name, makes)


def test_a_client_follows_with_its_token_and_not_to_anywhere(server):
    place, token = server.make_place(), "0123456789abcdef"

    def opened(address):
        return PlainFleet(Shared(place, "os", address), OPTIONS, makes=True, most_bytes=10**9, hosting={})

    with contextlib.ExitStack() as stack:
        addresses = []
        for _ in range(2):
            fleet = opened("")
            application = FleetService(fleet, [token])
            addresses.append(stack.enter_context(running(application, lifespan="on")))
            fleet.shared.ownership.address = addresses[-1]
            tamper(place, "UPDATE servers SET address = ? WHERE address = ''", addresses[-1])
        one, two = addresses
        with Client(one, token) as client:
            assert [client.create_model(name)["rounds"] for name in "ab"] == [0, 0]
            assert Client(two, token).create_model("a")["name"] == "a"  # by the way of the first
        with Client(two, token, "a") as client:
            decision = client.act("hello")
            client.learn(decision, "ham" if decision.reveals else UNSEEN)
            assert client.model()["rounds"] == 1
            assert Client(one, token, "a").model()["rounds"] == 1
        Client(one, token, "b").act("hello")
        tamper(place, "UPDATE servers SET address = 'ftp://evil' WHERE address = ?", one)
        with pytest.raises(client_module.ServiceError, match="sends the request on to 'ftp://evil"):
            Client(two, token, "b").model()


def test_addresses_without_tls_get_no_token_that_had_it():
    with pytest.raises(client_module.ServiceError, match="sends the request on to"):
        client_module._read_address("http://host/v1/models/a/act", "/v1/models/a/act", "https://host")


def test_the_command(server):
    """Without the options of new models it makes none."""
    with served(server.make_place(), command="fleet") as (address, _), Client(address) as client:
        assert client.health() == {"status": "ok"}
        assert client.models() == []
        with pytest.raises(UserError, match="there is no model 'a'"):
            Client(address, model="a").act("hello")
        with pytest.raises(client_module.ServiceError, match="this server makes no models"):
            client.create_model("a")


def test_the_command_says_what_is_wrong(tmp_path):
    place = tmp_path / "models.sqlite"
    for arguments, words in [
        (["--text", "message"], "none can be made without a graph"),
        (["--address", "10.0.0.5:8080"], "is not the address of a server"),
        (["--graph", "filtering"], "does not say which labels there are"),
    ]:
        code, _, error = ended("fleet", place, *arguments)
        assert (code, words in error) == (2, True), error
    with Shared(str(place), "os"):
        code, _, error = ended("fleet", place)
        assert (code, "is open in another process" in error) == (2, True), error
