"""The client: what it sends, what it raises, and that its retries are safe."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time

import numpy as np
import pytest

from gappletron import UNSEEN, UserError
from gappletron.base.errors import ServiceError
from gappletron.service import client as client_module
from gappletron.service.app import create_app
from gappletron.service.client import Client, Decision
from gappletron.service.models import HostedModel
from servers import mail_model, running, vector_model

TOKEN = "0123456789abcdef"


@pytest.fixture
def model(tmp_path):
    with mail_model(tmp_path / "mail", durability="os") as model:
        yield model


@pytest.fixture
def no_pauses(monkeypatch):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_everything_once(model):
    with running(create_app([HostedModel("mail", model)])) as address, Client(address) as client:
        decision = client.act({"message": "Win a prize", "links": 3})
        receipt = model.receipt(decision.id)
        assert decision == Decision(
            receipt.id, receipt.action, receipt.probability, receipt.greedy, tuple(receipt.reveals)
        )
        client.learn(decision, "spam" if decision.reveals else UNSEEN)
        more = client.act_many(["see you at five", {"message": "cheap pills"}])
        client.learn_many([(each, "ham" if each.reveals else UNSEEN) for each in more])
        assert model.waiting == 0
        assert client.predict("pills").label == model.predict("pills")
        assert sum(client.predict("pills").probabilities.values()) == pytest.approx(1.0)
        assert [each.label for each in client.predict_many(["a", "b"])] == model.predict_many(["a", "b"])
        why = model.explain({"message": "cheap pills"})
        assert client.explain({"message": "cheap pills"}) == why.to_dict()
        assert client.model()["rounds"] == client.models()[0]["rounds"] == 3
        assert client.estimates()["report"]["rounds"] == 3
        assert client.health() == {"status": "ok"}


def test_vectors_and_names_of_models(model, tmp_path):
    with vector_model(tmp_path / "v", durability="os") as vectors:
        app = create_app([HostedModel("mail", model), HostedModel("v", vectors)], tokens=[TOKEN])
        with running(app) as address, Client(address + "/", TOKEN, "v") as client:
            decisions = client.act_many([(np.array([1, 7]), np.array([1.0, 2.0])), ([3], [1]), [0.0, 1.5]])
            client.learn_many([(each.id, each.action) for each in decisions])
            assert client.model()["name"] == "v"
            with pytest.raises(UserError, match="there is no model 'w'"):
                Client(address, TOKEN, "w").act([1.0])
            with pytest.raises(ServiceError, match="a token of this server is missing") as refused:
                Client(address).act([1.0])
            assert refused.value.status == 401
    assert vectors.rounds == 3


def test_errors_are_the_servers_sentences(model):
    with running(create_app([HostedModel("mail", model)])) as address:
        client = Client(address)
        decision = client.act("hello")
        with pytest.raises(UserError, match="there is no class 'eggs'"):
            client.learn(decision, "eggs")
        client.learn(decision, "ham" if decision.reveals else UNSEEN)
        with pytest.raises(UserError, match="was already learned from"):
            client.learn(decision.id, "ham")
        with pytest.raises(UserError, match="cannot be written as JSON"):
            client.act({"a": object()})
        with pytest.raises(UserError, match="cannot be written as JSON"):
            client.act({"a": float("nan")})
    with pytest.raises(ServiceError, match="cannot be reached"):
        Client(address, retries=0).health()
    with pytest.raises(UserError, match="is not the address of a server"):
        Client("127.0.0.1:8080")


# -------------------------------------------------------------------------------------------------------------- retries


class Troubled(http.server.ThreadingHTTPServer):
    """Stands before the real server, and does to each request what `troubles` says, in turn: "drop" (the request is
    done, and the answer is lost), "refuse" (it is not done), or a status.
    """

    daemon_threads = True

    def __init__(self, target, troubles, seconds):
        super().__init__(("127.0.0.1", 0), Relay)
        self.target, self.troubles, self.seen = target, list(troubles), []
        self.seconds = seconds


class Relay(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        import urllib.request

        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers.get("Idempotency-Key"), body))
        trouble = self.server.troubles.pop(0) if self.server.troubles else None
        if isinstance(trouble, int):
            self.send_response(trouble)
            self.send_header("Retry-After", self.server.seconds)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if trouble == "refuse":
            self.close_connection = True
            return
        headers = {name: self.headers[name] for name in ("Content-Type", "Idempotency-Key") if name in self.headers}
        request = urllib.request.Request(self.server.target + self.path, body, headers)
        with urllib.request.urlopen(request) as answer:
            found = answer.read()
        if trouble == "drop":
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def troubled(target, *troubles, seconds="7"):
    with Troubled(target, troubles, seconds) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_lost_answers_are_asked_for_again_and_nothing_is_done_twice(model, no_pauses):
    with running(create_app([HostedModel("mail", model)])) as address:
        troubles = ["drop", "refuse", 503, 502, "drop", None, "drop", 429, None]
        with troubled(address, *troubles) as (server, between), Client(between, retries=5) as client:
            decision = client.act("hello")
            client.learn(decision, "ham" if decision.reveals else UNSEEN)
            assert not server.troubles
    assert model.rounds == 1
    assert model.waiting == 0
    acts, learns = (
        [(key, body) for path, key, body in server.seen if path == f"/v1/{name}"] for name in ("act", "learn")
    )
    assert len(acts) == 6
    assert len(learns) == 3
    for requests in (acts, learns):
        assert len(set(requests)) == 1  # the same key, and the same bytes
        assert len(requests[0][0]) == 32
    assert acts[0][0] != learns[0][0]
    assert no_pauses.count(7.0) == 3  # what the server asked for


def test_retries_end(model, no_pauses):
    with running(create_app([HostedModel("mail", model)])) as address:
        with troubled(address, 503, 503, 503) as (_, between), Client(between, retries=2) as client:
            with pytest.raises(ServiceError) as stopped:
                client.act("hello")
            assert stopped.value.status == 503
        with troubled(address, 400) as (server, between), Client(between, retries=2) as client:
            with pytest.raises(UserError):
                client.act("hello")  # trying again would not help
            assert len(server.seen) == 1
    assert model.rounds == 0


def test_pauses_grow_and_differ(model, no_pauses):
    with running(create_app([HostedModel("mail", model)])) as address:
        with troubled(address, *["refuse"] * 6) as (_, between), Client(between, retries=6) as client:
            client.act("hello")
        grown = [pause for pause in no_pauses if pause > 0.1]
        assert len(grown) == 5  # the first attempt after the first failure comes at once
        assert all(0.2 * 2**place <= pause <= 0.2 * 2**place + 0.1 for place, pause in enumerate(grown))
        no_pauses.clear()
        with troubled(address, 503, seconds="1000000") as (_, between), Client(between) as client:
            client.act("hello")
    assert client_module.LONGEST_PAUSE in no_pauses


def test_threads_share_a_client(model):
    with running(create_app([HostedModel("mail", model)])) as address, Client(address) as client:

        def work():
            for n in range(20):
                decision = client.act(f"text {n}")
                client.learn(decision, "ham" if decision.reveals else UNSEEN)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert model.rounds == 80
    assert model.waiting == 0


def test_the_client_needs_nothing_of_the_library():
    import subprocess
    import sys

    script = "import json, sys, gappletron.service.client; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "numba", "starlette", "msgspec"} & set(json.loads(done.stdout))
