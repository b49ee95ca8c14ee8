"""The service: what it answers, what it refuses, what survives, and what others may read of it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import urllib.request
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gappletron import UNSEEN, Encoder, Online, UserError, interpreted
from gappletron.online.follower import Lag
from gappletron.service import activity, models as hosting, openapi, tokens
from gappletron.service.app import create_app
from gappletron.service.commits import Commits
from gappletron.service.models import HostedModel
from problems import ended
from servers import FILTER, Browser, mail_model, served, vector_model
from stores import full_disk

TOKEN = "0123456789abcdef"


@pytest.fixture
def mail(tmp_path):
    with mail_model(tmp_path / "mail", durability="os") as model:
        yield model


@pytest.fixture
def vectors(tmp_path):
    with vector_model(tmp_path / "vectors", durability="os") as model:
        yield model


@pytest.fixture
def browser(mail, vectors):
    return Browser(create_app([HostedModel("mail", mail), HostedModel("vectors", vectors)]))


# ------------------------------------------------------------------------------------------------------------ decisions


def test_a_decision_and_its_feedback(browser, mail):
    decision = browser.post("/v1/act", {"x": {"message": "Win a prize", "links": 3, "from": None}}).json
    receipt = mail.receipt(decision["id"])
    assert decision == {
        "id": receipt.id,
        "action": receipt.action,
        "probability": receipt.probability,
        "greedy": receipt.greedy,
        "reveals": list(receipt.reveals),
    }
    label = {"label": "spam"} if decision["reveals"] else {"unseen": True}
    assert browser.post("/v1/learn", {"id": decision["id"], **label}).json == {"learned": 1}
    assert mail.rounds == 1
    assert mail.waiting == 0


def test_the_same_bits_as_the_library(browser, mail, tmp_path):
    """Over HTTP, one by one and in batches, a model learns what it learns in Python."""
    twin = Online(graph=FILTER, encoder=Encoder(text="message", features=2**12))
    texts = ["win a prize", "see you at five", "cheap pills", "minutes of the meeting"] * 10
    for start in range(0, 40, 4):
        rows = [{"message": text} for text in texts[start : start + 4]]
        if start % 8:
            decisions = browser.post("/v1/act/batch", {"rows": rows}).json["decisions"]
        else:
            decisions = [browser.post("/v1/act", {"x": row}).json for row in rows]
        receipts = [twin.act(row) for row in rows]
        assert [each["action"] for each in decisions] == [each.action for each in receipts]
        assert [each["probability"] for each in decisions] == [each.probability for each in receipts]
        labels = ["ham" if "e" in text[:4] else "spam" for text in texts[start : start + 4]]
        seen = [label if each["reveals"] else None for each, label in zip(decisions, labels, strict=True)]
        feedback = [
            {"id": each["id"], **({"unseen": True} if label is None else {"label": label})}
            for each, label in zip(decisions, seen, strict=True)
        ]
        assert browser.post("/v1/learn/batch", {"feedback": feedback}).json == {"learned": 4}
        for receipt, label in zip(receipts, seen, strict=True):
            twin.learn(receipt, UNSEEN if label is None else label)
    assert (mail.weights == twin.weights).all()
    predicted = browser.post("/v1/predict", {"x": {"message": "win a prize"}}).json
    assert predicted["class"] == twin.predict({"message": "win a prize"})
    assert predicted["probabilities"] == twin.predict_proba([{"message": "win a prize"}])[0].tolist()
    why = browser.post("/v1/explain", {"x": {"message": "win a prize"}}).json
    assert why == twin.explain({"message": "win a prize"}).to_dict()
    assert {part["name"] for part in why["parts"]} == {"message: win", "message: a", "message: prize"}
    too_long = browser.post("/v1/explain", {"x": {"message": "a " * 6_000}})
    assert (too_long.status, too_long.json["error"][:30]) == (422, "x has more than 10,000 bytes: ")
    many = browser.post("/v1/predict/batch", {"rows": ["win a prize", {"message": "at five"}]}).json
    assert many["classes"] == ["ham", "spam"]
    assert [each["class"] for each in many["predictions"]] == twin.predict_many(["win a prize", {"message": "at five"}])


def test_vectors_sparse_and_dense(browser, vectors):
    base = "/v1/models/vectors"
    for x in [{"indices": [3, 5000], "values": [1.0, -2]}, [0.5, 0, 1], {"indices": [], "values": []}]:
        decision = browser.post(f"{base}/act", {"x": x}).json
        assert decision["reveals"] == [decision["action"]]  # a number, not a text
        assert browser.post(f"{base}/learn", {"id": decision["id"], "label": decision["action"]}).status == 200
    assert vectors.features == 5  # those that have come
    predicted = browser.post(f"{base}/predict/batch", {"rows": [[0.5, 0, 1], {"indices": [9**6], "values": [1]}]}).json
    assert [each["class"] for each in predicted["predictions"]] == [
        vectors.predict([0.5, 0, 1]),
        vectors.predict({9**6: 1.0}),
    ]


def test_feedback_is_all_or_nothing(browser, mail):
    decisions = browser.post("/v1/act/batch", {"rows": ["a", "b"]}).json["decisions"]
    weights = mail.weights.copy()
    pairs = [{"id": each["id"], "label": "ham"} for each in decisions]
    refused = browser.post("/v1/learn/batch", {"feedback": [*pairs, {"id": "nobody-1", "label": "ham"}]})
    assert refused.status == 404
    assert browser.post("/v1/learn/batch", {"feedback": [*pairs, pairs[0]]}).status == 409
    assert (mail.weights == weights).all()
    assert mail.waiting == 2


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/v1/act", b"{", 400, "not JSON"),
        ("/v1/act", b"\xff\xfe", 400, "not JSON"),
        ("/v1/act", b"[" * 100_000, 400, "Expected `object`, got `array`"),
        ("/v1/act", b'{"x":' + b'{"a":' * 100_000, 400, "not JSON"),
        ("/v1/act", b'{"y": {}}', 400, "unknown field `y`"),
        ("/v1/act", b'{"x": 3}', 400, "Expected `str | object`, got `int` - at `$.x`"),
        ("/v1/act", b'{"x": {"a": 1e60}}', 422, "the column 'a' has the value 1e+60"),
        ("/v1/act", b'{"x": ' + b'{"a":' * 20 + b"1" + b"}" * 21, 422, "nested more than 8 deep"),
        (
            "/v1/models/vectors/act",
            b'{"x": {"indices": [1, 2], "values": [1]}}',
            422,
            "1 values: give flat lists of one length",
        ),
        ("/v1/models/vectors/act", b'{"x": {"indices": [-1], "values": [1]}}', 422, "x has the index -1"),
        ("/v1/models/vectors/act", b'{"x": {"indices": [' + b"9" * 40 + b'], "values": [1]}}', 422, "x has the index"),
        ("/v1/models/vectors/act", b'{"x": "text"}', 400, "Expected `object | array`"),
        (
            "/v1/models/vectors/predict",
            b'{"x": {"indices": [1], "values": []}}',
            422,
            "0 values: give flat lists of one length",
        ),
        ("/v1/models/nobody/act", b'{"x": {}}', 404, "there is no model 'nobody': choose one of 'mail', 'vectors'"),
        ("/v1/learn", b'{"id": "nobody-1", "label": "ham"}', 404, "is not from this model"),
        ("/v1/learn", b'{"id": "a"}', 400, 'either a "label" or "unseen": true'),
        ("/v1/learn", b'{"id": "a", "label": null, "unseen": true}', 400, 'either a "label"'),
        ("/v1/learn", b'{"id": "a", "unseen": false}', 400, 'either a "label"'),
        ("/v1/learn", b'{"id": "a", "label": 1.5}', 400, "Expected `bool | int | str | null`"),
        ("/v1/learn/batch", b'{"feedback": []}', 400, "length >= 1"),
        (
            "/v1/teach",
            b'{"rows": [' + b'{"x": "", "label": "ham"},' * 1_000 + b'{"x": "", "label": "ham"}]}',
            400,
            "<= 1000",
        ),
        ("/v1/act/batch", b'{"rows": [' + b'"",' * 10_000 + b'""]}', 400, "length <= 10000"),
        ("/v1/act/batch", b'{"rows": ["a", 3]}', 400, "at `$.rows[1]`"),
        ("/v1/nothing", b"{}", 404, "there is nothing at /v1/nothing"),
        ("/v1/model", b"{}", 405, "/v1/model does not take POST"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said(browser, mail, path, body, status, sentence):
    answer = browser("POST", path, body)
    assert answer.status == status
    assert sentence in answer.error
    assert mail.rounds == 0


def test_labels_that_cannot_be_learned(browser):
    decision = browser.post("/v1/act", {"x": "hello"}).json
    assert decision["action"] == "ham"  # the first is always delivered
    refused = browser.post("/v1/learn", {"id": decision["id"], "unseen": True})
    assert refused.status == 422
    assert "reveals every label" in refused.error
    assert browser.post("/v1/learn", {"id": decision["id"], "label": "eggs"}).status == 422
    assert browser.post("/v1/learn", {"id": decision["id"], "label": "ham"}).status == 200
    again = browser.post("/v1/learn", {"id": decision["id"], "label": "ham"})
    assert again.status == 409
    assert "already learned from" in again.error


def test_bodies_that_are_too_large_or_of_another_type(mail):
    browser = Browser(create_app([HostedModel("mail", mail)], max_body=100))
    assert browser.post("/v1/act", {"x": "a" * 80}).status == 200
    declared = browser("POST", "/v1/act", b"", {"content-length": "101"})
    in_parts = browser("POST", "/v1/act", [b'{"x": "', b"a" * 60, b"b" * 60, b'"}'])
    for answer in (declared, in_parts):
        assert answer.status == 413
        assert answer.error.startswith("the body has more than 100 bytes")
        assert answer.headers["connection"] == "close"
    other = browser("POST", "/v1/act", b'{"x": "a"}', {"content-type": "text/plain"})
    assert other.status == 415
    assert mail.rounds == 1


def test_too_many_waiting_receipts(mail):
    browser = Browser(create_app([HostedModel("mail", mail, max_waiting=2)]))
    assert browser.post("/v1/act/batch", {"rows": ["a", "b", "c"]}).status == 429
    decisions = browser.post("/v1/act/batch", {"rows": ["a", "b"]}).json["decisions"]
    refused = browser.post("/v1/act", {"x": "c"})
    assert refused.status == 429
    assert refused.headers["retry-after"] == "1"
    assert "2 receipts wait for feedback, and at most 2 may" in refused.error
    label = {"label": "ham"} if decisions[0]["reveals"] else {"unseen": True}
    browser.post("/v1/learn", {"id": decisions[0]["id"], **label})
    assert browser.post("/v1/act", {"x": "c"}).status == 200


def test_a_full_disk_is_503_and_no_health(mail):
    browser = Browser(create_app([HostedModel("mail", mail)]))
    store = mail._contents.journal.store
    with full_disk(mail):
        refused = browser.post("/v1/act", {"x": "a"})
        assert refused.status == 503
        assert "free some space on the disk" in refused.error
        assert refused.headers["retry-after"] == "5"
        health = browser.get("/v1/health")
        assert health.status == 503
        assert browser.post("/v1/act", {"x": "a"}).status == 503
    count = store.count
    assert browser.post("/v1/act", {"x": "b"}, key="later").status == 200
    assert store.count > count
    assert browser.get("/v1/health").json == {"status": "ok"}


def test_errors_of_ours_are_said_to_be_ours(mail, monkeypatch):
    browser = Browser(create_app([HostedModel("mail", mail)]))
    monkeypatch.setattr(mail, "act_many", lambda rows, scores: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # for the log of the server, after the answer
        browser.post("/v1/act", {"x": "a"})


# ---------------------------------------------------------------------------------------------------------- idempotency


def test_a_repeated_request_gets_the_same_bytes(browser, mail):
    first = browser.post("/v1/act", {"x": "hello"}, key="k1")
    again = browser.post("/v1/act", {"x": "hello"}, key='"k1"')  # in quotes, as the draft has it
    assert first == again
    assert mail.rounds == 1
    other = browser.post("/v1/act", {"x": "other"}, key="k1")
    assert other.status == 422
    assert "was used for another request" in other.error
    batch = browser.post("/v1/act/batch", {"rows": ["hello"]}, key="k1")  # another endpoint
    assert batch.status == 200
    taught = [browser.post("/v1/learn", {"id": first.json["id"], "label": "ham"}, key="k1") for _ in range(2)]
    assert taught[0].json == taught[1].json == {"learned": 1}
    assert browser.post("/v1/learn", {"id": first.json["id"], "label": "ham"}, key="k2").status == 409


@pytest.mark.parametrize("key", ["", "x" * 201, "ä"])
def test_keys_that_are_none(browser, key):
    assert browser.post("/v1/act", {"x": "hello"}, key=key).status == 400


def test_a_repeated_request_after_a_restart(tmp_path):
    with mail_model(tmp_path / "mail") as model:
        browser = Browser(create_app([HostedModel("mail", model)]))
        first = browser.post("/v1/act", {"x": "hello"}, key="k1")
    with mail_model(tmp_path / "mail") as model:
        browser = Browser(create_app([HostedModel("mail", model)]))
        assert browser.post("/v1/act", {"x": "hello"}, key="k1").body == first.body
        assert browser.post("/v1/act", {"x": "other"}, key="k1").status == 422
        assert model.rounds == 1
        assert browser.post("/v1/learn", {"id": first.json["id"], "label": "ham"}).status == 200


def test_a_request_that_was_refused_may_be_corrected_under_its_key(browser):
    assert browser.post("/v1/act", {"x": {"a": 1e60}}, key="k").status == 422
    assert browser.post("/v1/act", {"x": {"a": 1e6}}, key="k").status == 200


def test_the_same_key_twice_at_once(mail):
    app = create_app([HostedModel("mail", mail)])

    async def both():
        send = Browser(app).send
        body, headers = b'{"x": "hello"}', {"idempotency-key": "k"}
        return await asyncio.gather(*(send("POST", "/v1/act", body, headers) for _ in range(5)))

    assert len({answer.body for answer in asyncio.run(both())}) == 1
    assert mail.rounds == 1


# -------------------------------------------------------------------------------------------------------- group commits


def test_requests_that_come_together_share_a_commit(mail, monkeypatch):
    app = create_app([HostedModel("mail", mail)])
    calls = []
    write = mail._contents.journal._write
    monkeypatch.setattr(mail._contents.journal, "_write", lambda bundles: (calls.append(1), write(bundles)))

    async def many():
        send = Browser(app).send
        return await asyncio.gather(*(send("POST", "/v1/act", b'{"x": "hello"}') for _ in range(100)))

    assert {answer.status for answer in asyncio.run(many())} == {200}
    assert len(calls) <= 10
    assert mail._contents.journal.store.count >= 100


def test_an_answer_waits_for_its_own_commit():
    """What is done while a commit is under way is not covered by it."""

    async def story():
        begun, go = asyncio.Event(), asyncio.Event()
        loop, state, seen = asyncio.get_running_loop(), {"done": 0, "durable": 0}, []

        def commit():
            covered = state["done"]
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
            state["durable"] = covered

        commits = Commits(commit)

        async def request():
            state["done"] += 1
            mine = state["done"]
            await commits.durable()
            seen.append(state["durable"] >= mine)

        first = asyncio.create_task(request())
        await begun.wait()
        second = asyncio.create_task(request())
        await asyncio.sleep(0.01)
        assert not first.done()
        go.set()
        await asyncio.gather(first, second)
        commits.close()
        return seen, commits.count

    assert asyncio.run(story()) == ([True, True], 2)


# --------------------------------------------------------------------------------------------------------------- access


def test_tokens(mail):
    browser = Browser(create_app([HostedModel("mail", mail)], tokens=[TOKEN, "another-token-of-mine"]))
    assert browser.post("/v1/act", {"x": "a"}).status == 401
    refused = browser.get("/v1/models", authorization="Bearer wrong")
    assert refused.status == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert browser.get("/metrics").status == 401
    for token in (TOKEN, "another-token-of-mine"):
        assert browser.get("/v1/model", authorization=f"Bearer {token}", host="example.com").status == 200
    assert browser.get("/v1/model", authorization=f"Basic {TOKEN}").status == 401
    for path in ("/v1/health", "/", "/docs", "/openapi.json"):
        assert browser.get(path).status == 200
    described = browser.get("/openapi.json").json
    assert described["security"] == [{"token": []}]
    assert "401" in described["paths"]["/v1/act"]["post"]["responses"]


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("given", [[], [TOKEN]])
def test_health_without_a_token_names_no_files(mail, monkeypatch, given, is_stored):
    secret = "the folder '/srv/customers/acme' was removed"
    monkeypatch.setattr(hosting.HostedModel, "problem", secret)
    monkeypatch.setattr(hosting.HostedModel, "is_storing", is_stored)
    browser = Browser(create_app([HostedModel("mail", mail)], tokens=given))
    stranger = browser.get("/v1/health", host="evil.example")
    friend = browser.get("/v1/health", authorization=f"Bearer {TOKEN}")
    assert stranger.status == friend.status == (200 if is_stored else 503)
    assert "acme" not in stranger.body.decode()
    assert b"ask with a token" in stranger.body
    assert secret in friend.body.decode()


def test_health_without_a_token_does_not_say_how_far_a_server_is_behind(mail, monkeypatch):
    monkeypatch.setattr(hosting.HostedModel, "lag", Lag(3, 1.5))
    browser = Browser(create_app([HostedModel("mail", mail)], tokens=[TOKEN]))
    assert browser.get("/v1/health").json == {"status": "ok"}
    friend = browser.get("/v1/health", authorization=f"Bearer {TOKEN}")
    assert friend.json["following"] == {"mail": {"rounds": 3, "seconds": 1.5}}


def test_without_tokens_only_names_of_this_machine_are_answered_to(browser):
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080", "127.0.0.1:99"):
        assert browser.get("/v1/model", host=host).status == 200
    for host in ("evil.example", "evil.example:8080", "", "127.0.0.1.evil.example"):
        answer = browser.get("/v1/model", host=host)
        assert answer.status == 403
        assert "--token-file" in answer.error


@pytest.mark.parametrize(
    "content", ["", "# only a remark\n", "short\n", "with a space in it\n", "äöüäöüäöüäöüäöüäöü\n"]
)
def test_token_files_that_are_refused(tmp_path, content):
    (tmp_path / "tokens").write_text(content)
    with pytest.raises(UserError, match="token"):
        tokens.read_tokens(tmp_path / "tokens")


def test_token_files(tmp_path):
    (tmp_path / "tokens").write_text(f"# mine\n{TOKEN}\n\nanother-token-of-mine\n")
    assert tokens.read_tokens(tmp_path / "tokens") == [tokens.Token(TOKEN), tokens.Token("another-token-of-mine")]
    with pytest.raises(UserError, match="cannot be read"):
        tokens.read_tokens(tmp_path / "nothing")


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True), (0o604, True)])
def test_a_token_file_that_others_may_read_is_told(tmp_path, mode, warned):
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN}\n")
    path.chmod(mode)
    code, _, err = ended("serve", str(tmp_path / "no-model"), "--token-file", str(path))
    assert code == 2  # a new model needs a graph
    assert ("warning: every user of this machine may read the tokens" in err) is warned


def test_a_token_file_of_another_user(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tokens.Path, "read_text", refused)
    with pytest.raises(UserError, match=r"may not be read by the user of this process .*: let it belong to that user"):
        tokens.read_tokens(tmp_path / "tokens")


# ----------------------------------------------------------------------------------------------------- several models


def test_a_shadow_follows_and_never_decides(tmp_path):
    """It is told x, the action and the probabilities of the champion, and gets the same feedback, also after both were
    opened again.
    """
    followed = []

    class Watched(Online):
        def follow(self, x, action, probabilities, graph=None, scores=None):
            followed.append((x, action, list(probabilities)))
            return super().follow(x, action, probabilities, graph, scores)

    def opened():
        champion = mail_model(tmp_path / "a", durability="os")
        encoder = Encoder(text="message", features=2**12)
        with interpreted():
            shadow = Watched.open(tmp_path / "b", "gapsmh", FILTER, encoder=encoder, durability="os")
        follower = HostedModel("b", shadow)
        return champion, shadow, Browser(create_app([HostedModel("a", champion, shadows=[follower]), follower]))

    champion, shadow, browser = opened()
    with champion, shadow:
        ids = [browser.post("/v1/act", {"x": f"text {n}"}).json["id"] for n in range(3)]
        ids += [each["id"] for each in browser.post("/v1/act/batch", {"rows": ["x", "y"]}).json["decisions"]]
        assert [x for x, _, _ in followed] == ["text 0", "text 1", "text 2", "x", "y"]
        for (_, action, probabilities), name in zip(followed, ids, strict=True):
            receipt = champion.receipt(name)
            assert receipt.action == action
            assert receipt.probabilities.tolist() == probabilities
        for path in ("act", "learn"):
            content = {"x": "a"} if path == "act" else {"id": "x-1", "label": "ham"}
            refused = browser.post(f"/v1/models/b/{path}", content)
            assert refused.status == 409
            assert "shadows 'a'" in refused.error
        assert browser.post("/v1/models/b/predict", {"x": "a"}).status == 200
        assert shadow.waiting == 5
        listed = browser.get("/v1/models").json["models"]
        assert [(each["name"], each["shadows"], each["rounds"]) for each in listed] == [("a", None, 5), ("b", "a", 5)]
        assert all("error" in each["estimates"]["policy"] for each in listed)

    champion, shadow, browser = opened()
    with champion, shadow:
        for name in ids:
            receipt = champion.receipt(name)
            label = {"label": "ham"} if receipt.reveals else {"unseen": True}
            own = shadow.receipt(shadow.recall(*hosting.shadow_key(name)).decode())
            assert own.action == receipt.action
            waiting = shadow.waiting
            assert browser.post("/v1/learn", {"id": name, **label}).status == 200
            assert shadow.waiting == waiting - 1


def test_the_failure_of_a_shadow_is_its_own(tmp_path, caplog):
    class Broken(Online):
        def follow(self, x, action, probabilities, graph=None, scores=None):
            raise RuntimeError("this shadow is broken")

    with mail_model(tmp_path / "a") as champion, Broken.open(tmp_path / "b", graph=FILTER, encoder=Encoder()) as shadow:
        follower = HostedModel("b", shadow)
        browser = Browser(create_app([HostedModel("a", champion, shadows=[follower]), follower]))
        decision = browser.post("/v1/act", {"x": "a"})
        assert decision.status == 200
        assert browser.post("/v1/learn", {"id": decision.json["id"], "label": "ham"}).status == 200
        assert follower.missed == 2
        assert "this shadow is broken" in caplog.text


def test_shadows_must_fit_their_champions(mail, vectors, tmp_path):
    with pytest.raises(UserError, match="their graphs differ"):
        HostedModel("mail", mail, shadows=[HostedModel("vectors", vectors)])
    with (
        Online.open(tmp_path / "c", graph=FILTER, features=4) as plain,
        pytest.raises(UserError, match="one takes records and the other vectors"),
    ):
        HostedModel("mail", mail, shadows=[HostedModel("plain", plain)])
    with pytest.raises(UserError, match="the same name"):
        create_app([HostedModel("mail", mail), HostedModel("mail", mail)])


# ----------------------------------------------------------------------------------------------------- what others read


def test_the_model_tells_what_it_is(browser):
    browser.post("/v1/act", {"x": "a"})
    info = browser.get("/v1/model").json
    assert (info["name"], info["learner"], info["rounds"], info["waiting"]) == ("mail", "auto", 1, 1)
    assert info["graph"] == {
        "name": "filtering",
        "classes": ["ham", "spam"],
        "actions": ["ham", "spam"],
        "reveals": [["ham", "spam"], []],
    }
    assert info["encoder"]["text"] == ["message"]
    assert browser.get("/v1/models/vectors/model").json["graph"]["classes"] == [0, 1, 2]
    estimates = browser.get("/v1/estimates").json
    assert estimates["report"]["actions"] == {"ham": 1, "spam": 0}
    assert len(estimates["activity"]) == activity.SECONDS
    assert browser.get("/v1/models/vectors/estimates").json["report"]["actions"] == {"0": 0, "1": 0, "2": 0}


def test_metrics_are_what_prometheus_reads(browser):
    for n in range(3):
        decision = browser.post("/v1/act", {"x": f"text {n}"}).json
    browser.post("/v1/learn", {"id": decision["id"], "label": "eggs"})
    answer = browser.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }
    assert found["gappletron_decisions_total", "mail"] == 3
    assert found["gappletron_waiting_receipts", "mail"] == 3
    assert found["gappletron_requests_total", "/v1/act", "200"] == 3
    assert found["gappletron_requests_total", "/v1/learn", "422"] == 1
    assert found["gappletron_request_seconds_count", "/v1/act"] == 3
    assert found["gappletron_request_seconds_bucket", "+Inf", "/v1/act"] == 3
    assert found["gappletron_rounds", "vectors"] == 0
    assert found["gappletron_drift_alarm", "mail"] == 0
    assert found["gappletron_unjudged", "mail"] == 3
    assert ("gappletron_error_estimate", "high", "mail", "policy") in found


def test_dashboard_and_alerts_name_metrics_that_exist(browser):
    known = set(re.findall(r"^# TYPE (\w+)", browser.get("/metrics").body.decode(), re.MULTILINE))
    known |= {f"{name}_bucket" for name in known}
    folder = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
    panels = json.loads((folder / "grafana.json").read_text())["panels"]
    rules = yaml.safe_load((folder / "alerts.yml").read_text())["groups"][0]["rules"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]] + [rule["expr"] for rule in rules]
    for expression in asked:
        assert set(re.findall(r"\bgappletron_\w+", expression)) <= known, expression


def test_the_pages_load_nothing_from_elsewhere(browser):
    for path in ("/", "/docs"):
        answer = browser.get(path)
        text = answer.body.decode()
        assert answer.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?https?:""", text)
        assert "{{" not in text
        assert "{%" not in text


def test_every_endpoint_is_described_and_every_example_is_true(browser):
    """The examples of the description fit its schemas; the routes and the description are the same."""
    import jsonschema_rs

    described = openapi.describe_service(needs_token=False, takes_records=True)
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            answer = browser(method.upper(), path.replace("{name}", "mail"), b"{}")
            assert answer.status not in (404, 405, 500), path
            contents = [each["content"] for each in operation["responses"].values()]
            if "requestBody" in operation:
                contents.append(operation["requestBody"]["content"])
            for content in contents:
                for kind, each in content.items():
                    if kind == "application/json":
                        schema = {**each["schema"], "components": described["components"]}
                        jsonschema_rs.validator_for(schema).validate(each["example"])
    assert browser.get("/openapi.json").json == json.loads(json.dumps(described))


# ---------------------------------------------------------------------------------------------------------- the command


def fetched(address, content=None, **headers):
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_the_command_serves_stops_gracefully_and_goes_on(tmp_path):
    options = [tmp_path / "mail", "--text", "message", "--graph", "filtering", "--classes", "ham,spam"]
    with served(*options) as (address, _):
        decision = fetched(f"{address}/v1/act", {"x": {"message": "hello"}})
        assert fetched(f"{address}/v1/health") == {"status": "ok"}
    with served(*options) as (address, process):  # the same command, as systemd would start it
        assert fetched(f"{address}/v1/learn", {"id": decision["id"], "label": "ham"}) == {"learned": 1}
        process.send_signal(signal.SIGINT)
    with served(tmp_path / "mail") as (address, _):  # what the model is, the folder knows
        info = fetched(f"{address}/v1/model")
        assert (info["rounds"], info["waiting"], info["encoder"]["text"]) == (1, 0, ["message"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["new"], "there is no model in 'new' yet, and a new one needs a graph"),
        (["new", "--graph", "bandit", "--classes", "a,b", "--host", "0.0.0.0"], "there is no token: give --token-file"),
        (["a", "b/a"], "two models are called 'a'"),
        (["a", "b=c", "--shadow", "c=a"], "there is no model for --shadow NAME=CHAMPION called 'c'"),
        (["a", "b=c", "--shadow", "a=b"], "the first model 'a' is the one that decides"),
        (["a", "b=c", "d=e", "--shadow", "b=d", "--shadow", "d=a"], "which is a shadow itself"),
        (["a", "--graph", "bandit", "--classes", "a,b", "--vectors", "--text", "m"], "--vectors takes numbers"),
        (["a", "--graph", "bandit", "--classes", "a,b", "--alpha", "1"], "Invalid value for '--alpha'"),
        (["a", "--graph", "bandit", "--classes", "a,b", "--durability", "never"], "--durability never is not known"),
        (["a", "--host", "nowhere.invalid", "--token-file", "tokens"], "cannot listen on 'nowhere.invalid'"),
        (["a b", "--graph", "bandit"], "has no name for an address"),
        (["a", "--graph", "bandit"], "the preset 'bandit' does not say which labels there are: give --classes"),
        (["a", "--graph", "apple-tasting:revealing=ham"], "does not say which labels there are: give --classes"),
        (["a", "--graph", "bandit", "--classes", "a,b", "--vectors", "--strict"], "no model takes records: omit it"),
        (["a", "--graph", "bandit", "--classes", "a,b", "--strict"], "the model 'a' declares no columns"),
    ],
)
def test_what_the_command_refuses(tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokens").write_text(TOKEN)
    (tmp_path / "tokens").chmod(0o600)
    code, _, err = ended("serve", *arguments, "--port", "0", compiled=True)
    assert code == 2
    (said,) = [line for line in err.splitlines() if not line.startswith("opening ")]
    assert sentence in said
