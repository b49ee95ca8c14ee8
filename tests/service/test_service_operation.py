"""What an operator sees of a service: problems of the store, limits, columns that do not fit, forgotten receipts."""

from __future__ import annotations

import asyncio
import re
import time

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from scipy.sparse import csr_array

import storms
from gappletron import Budget, Encoder, FeedbackGraph, Greedy, Guarded, Online, UserError, interpreted, read_decisions
from gappletron.play import archive, engine
from gappletron.service import models
from gappletron.service.app import create_app
from gappletron.service.client import Client
from gappletron.service.models import HostedModel
from problems import ended
from servers import FILTER, Browser, mail_model, running, served, vector_model
from stores import full_disk


@pytest.fixture
def mail(tmp_path):
    with mail_model(tmp_path / "mail", durability="os") as model:
        yield model


def metrics(browser):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(browser.get("/metrics").body.decode())
        for sample in family.samples
    }


def shadowed(folder, **options):
    """A champion and its shadow, and a browser that talks to them."""
    champion = mail_model(folder / "a", durability="os")
    with interpreted():
        shadow = Online.open(
            folder / "b", "gapsmh", FILTER, encoder=Encoder(text="message", features=2**12), durability="os"
        )
    follower = HostedModel("b", shadow)
    return champion, shadow, Browser(create_app([HostedModel("a", champion, shadows=[follower], **options), follower]))


# ------------------------------------------------------------------------------------------------------------- problems


def no_space(*_):
    raise OSError(28, "No space left on device")


def test_a_snapshot_that_failed_is_told_and_the_service_goes_on(tmp_path, monkeypatch):
    with mail_model(tmp_path / "mail", durability="os", snapshot_every=3) as model:
        browser = Browser(create_app([HostedModel("mail", model)]))
        assert metrics(browser)["gappletron_storage_problem", "mail"] == 0
        with monkeypatch.context() as patch:
            patch.setattr(archive, "to_bytes", no_space)
            for n in range(4):
                assert browser.post("/v1/act", {"x": f"text {n}"}).status == 200
            storms.wait_for_snapshot(model)
        health = browser.get("/v1/health")
        assert (health.status, health.json["status"]) == (200, "degraded")  # to start it again would not help
        assert "No space left on device" in health.json["problems"][0]
        assert browser.get("/v1/model").json["problem"] == health.json["problems"][0]
        assert metrics(browser)["gappletron_storage_problem", "mail"] == 1
        for n in range(4):  # the next snapshot succeeds
            browser.post("/v1/act", {"x": f"text {n}"})
        storms.wait_for_snapshot(model)
        assert browser.get("/v1/health").json == {"status": "ok"}
        assert browser.get("/v1/model").json["problem"] is None


@pytest.mark.parametrize("how", ["removed", "moved"])
def test_files_that_are_gone_are_noticed(tmp_path, how):
    place = tmp_path / "mail"
    model = mail_model(place, durability="os")
    browser = Browser(create_app([HostedModel("mail", model)]))
    decision = browser.post("/v1/act", {"x": "a"}).json
    if how == "removed":
        place.unlink()
    else:
        place.rename(tmp_path / "elsewhere")
    health = browser.get("/v1/health")
    assert health.status == 503
    assert "was removed, moved or replaced while it was open" in health.error
    refused = browser.post("/v1/learn", {"id": decision["id"], "label": "ham"})
    assert refused.status == 503
    assert "was removed, moved or replaced" in refused.error
    if how == "moved":  # and back: what could not be stored is stored now
        (tmp_path / "elsewhere").rename(place)
        assert browser.post("/v1/act", {"x": "b"}).status == 200
        assert browser.get("/v1/health").json == {"status": "ok"}
        model.close()
        assert Online.from_store(place).rounds == 2
        assert Online.from_store(place).waiting == 1
    else:
        with pytest.raises(UserError, match="was removed, moved or replaced"):
            model.close()


def test_a_shadow_that_cannot_be_stored_does_not_stop_its_champion(tmp_path):
    champion, shadow, browser = shadowed(tmp_path)
    with champion:
        (tmp_path / "b").unlink()
        assert browser.post("/v1/act", {"x": "a"}).status == 200
        health = browser.get("/v1/health")
        assert (health.status, health.json["status"]) == (200, "degraded")
        with pytest.raises(UserError, match="was removed"):
            shadow.close()


def look_after_for_a_while(hosted):
    async def story():
        task = asyncio.create_task(models.look_after([hosted], every=0.01))
        await asyncio.sleep(0.2)
        assert not task.done()
        task.cancel()

    asyncio.run(story())


def test_the_log_of_the_server_tells_of_a_problem_once(mail, caplog):
    mail._contents.journal.background_error = "the disk is full"
    look_after_for_a_while(HostedModel("mail", mail))
    assert caplog.text.count("the disk is full") == 1


def test_after_a_full_disk_the_service_is_well_again_without_a_request(tmp_path):
    with mail_model(tmp_path / "mail", durability="os") as model:
        hosted = HostedModel("mail", model)
        browser = Browser(create_app([hosted]))
        with full_disk(model):
            assert browser.post("/v1/act", {"x": "a"}).status == 503
            look_after_for_a_while(hosted)
            assert browser.get("/v1/health").status == 503
        look_after_for_a_while(hosted)
        assert browser.get("/v1/health").json == {"status": "ok"}
        assert Online.from_store(tmp_path / "mail").rounds == 1


def test_a_store_that_is_out_of_reach_is_not_tried_by_every_request(mail, monkeypatch):
    """It would keep the others waiting; whoever looks after the models tries it."""
    journal, tried = mail._contents.journal, []
    browser = Browser(create_app([HostedModel("mail", mail)]))
    with full_disk(mail):
        assert browser.post("/v1/act", {"x": "a"}).status == 503
    with monkeypatch.context() as patch:
        patch.setattr(journal.store.database, "find_loss", lambda: "the server is away")
        patch.setattr(journal.store, "append", tried.append)
        assert browser.post("/v1/act", {"x": "b"}).status == 503
        assert tried == []
    assert browser.post("/v1/act", {"x": "b"}).status == 200
    assert mail.rounds == 2


# --------------------------------------------------------------------------------------------------------------- expiry


def test_receipts_expire_although_no_request_comes(tmp_path):
    with mail_model(tmp_path / "mail", durability="os", pending_age=0.5) as model:
        hosted = HostedModel("mail", model)
        browser = Browser(create_app([hosted]))
        browser.post("/v1/act/batch", {"rows": ["a", "b"]})
        assert metrics(browser)["gappletron_waiting_receipts", "mail"] == 2
        time.sleep(0.6)
        assert metrics(browser)["gappletron_waiting_receipts", "mail"] == 0
        browser.post("/v1/act", {"x": "c"})
        time.sleep(0.6)
        look_after_for_a_while(hosted)
        assert model.waiting == 0
        # It is in the log, and not only in the memory of this process.
        again = Online.from_store(tmp_path / "mail", replay="first")
        assert again.waiting == 0
        assert not again.differences(model)
        statuses = [row["status"] for batch in read_decisions(tmp_path / "mail") for row in batch.to_pylist()]
        assert statuses == ["expired"] * 3


@pytest.mark.parametrize("kind", ["records", "vectors"])
def test_nothing_is_compiled_in_a_request(tmp_path, monkeypatch, kind):
    """Also for a shadow: whatever requests need was asked for when the service was made."""
    asked = set()

    def ask(function, *arguments):
        asked.add((function.__name__, type(arguments[-1])))
        return function

    monkeypatch.setattr(engine, "entry_now", ask)
    made, x = (mail_model, "hello") if kind == "records" else (vector_model, {"indices": [1], "values": [2.0]})
    with made(tmp_path / "a", durability="os") as model:
        rows = {"features": "grow"} if kind == "vectors" else {"encoder": model.encoder}
        with Online.open(tmp_path / "b", "auto", model.graph, durability="os", **rows) as shadow:
            follower = HostedModel("b", shadow)
            browser = Browser(create_app([HostedModel("a", model, shadows=[follower]), follower]))
            before = asked.copy()
            decisions = [browser.post("/v1/act", {"x": x}).json]
            decisions += browser.post("/v1/act/batch", {"rows": [x] * 40}).json["decisions"]
            for path, body in [("learn", decisions[0]), ("learn/batch", decisions[1])]:
                feedback = {"id": body["id"], "unseen": True}
                if body["reveals"]:
                    feedback = {"id": body["id"], "label": body["reveals"][0]}
                browser.post(f"/v1/{path}", {"feedback": [feedback]} if "batch" in path else feedback)
            browser.post("/v1/forget", {"id": decisions[2]["id"]})
            for name in "ab":
                assert browser.post(f"/v1/models/{name}/predict", {"x": x}).status == 200
                assert browser.post(f"/v1/models/{name}/predict/batch", {"rows": [x] * 40}).status == 200
            assert (model.rounds, shadow.rounds, follower.missed) == (41, 41, 0)
    assert asked == before


# --------------------------------------------------------------------------------------------------------------- limits


def test_limits_are_shown(tmp_path):
    graph = FeedbackGraph.label_efficient(["bug", "praise"])
    limits = {"min_propensity": 0.2, "budget": Budget(5, per=100), "pending": 70, "pending_age": 3600.0}
    with interpreted():
        model = Online.open(tmp_path / "m", graph=graph, features=3, durability="os", **limits)
    with model:
        browser = Browser(create_app([HostedModel("m", model, max_waiting=60)]))
        asked = 0
        for n in range(50):
            decision = browser.post("/v1/act", {"x": [1.0, n % 2, 0.5]}).json
            asked += decision["action"] not in graph.classes  # what has a price by default
        found = browser.get("/v1/model").json["limits"]
        assert found == {
            "min_propensity": 0.2,
            "propensity": model.limits_report.propensity,
            "budget": {"limit": 5.0, "per": 100, "prices": None},
            "spent": asked,
            "clock_resets": 0,
            "pending": 70,
            "pending_bytes": model.pending_limits[1],
            "pending_age": 3600.0,
            "max_waiting": 60,
        }
        assert 0 < asked <= 5
        assert 0.02 < found["propensity"] < 0.1  # 0.2 is asked for, and 5 of 100 are paid
        shown = metrics(browser)
        assert shown["gappletron_min_propensity", "m"] == 0.2
        assert shown["gappletron_propensity", "m"] == found["propensity"]
        assert shown["gappletron_budget_clock_resets_total", "m"] == 0
        assert shown["gappletron_budget_limit", "100", "m"] == 5
        assert shown["gappletron_budget_spent", "100", "m"] == asked
        assert shown["gappletron_waiting_limit", "m"] == 60
        for n in range(50):
            browser.post("/v1/act", {"x": [1.0, n % 2, 0.5]})
            browser.post("/v1/forget", {"id": model.pending[0].id})
        assert browser.get("/v1/model").json["limits"]["spent"] == 0  # the next round opens a window
        assert model.monitor.report().spent >= asked
    code, out, _ = ended("store", "show", str(tmp_path / "m"))
    assert code == 0
    kept = model.limits_report.propensity
    least = f"every label is seen with probability 0.2 or more, of which the budget left {kept:.3g} on average"
    assert f"{least}; a budget of 5 per 100 decisions, " in out
    assert f"{model.monitor.report().spent:g} spent in all" in out
    assert "70 receipts, " in out
    assert "3600 seconds" in out


def test_limits_without_any_and_after_a_change(tmp_path):
    with interpreted():
        model = Online.open(tmp_path / "m", graph=FILTER, features=3, snapshot_every=10**6)
    with model:
        model.act([1.0, 0.0, 0.0])
        _, out, _ = ended("store", "show", str(tmp_path / "m"))
        assert "no limits" in out
        assert "2 events, to be done again" in out  # the opening, and a decision
        model.set_limits(min_propensity=0.25, budget=Budget(2.5, per="day"))
        _, out, _ = ended("store", "show", str(tmp_path / "m"))
        assert "probability 0.25 or more; a budget of 2.5 per day" in out
        browser = Browser(create_app([HostedModel("m", model)]))
        assert browser.get("/v1/model").json["limits"]["budget"] == {"limit": 2.5, "per": "day", "prices": None}


def test_the_limit_that_lets_receipts_expire_is_counted(tmp_path):
    with interpreted():
        model = Online.open(tmp_path / "m", graph=FILTER, features=3, durability="os", pending=5, pending_bytes=10_000)
    with model:
        browser = Browser(create_app([HostedModel("m", model)]))
        decisions = [browser.post("/v1/act", {"x": [1.0, 0.0, 0.5]}).json for _ in range(8)]
        shown = metrics(browser)
        assert shown["gappletron_expired_total", "m", "pending"] == 3
        assert shown["gappletron_expired_total", "m", "pending_bytes"] == 0
        answer = browser.post("/v1/learn", {"id": decisions[0]["id"], "label": "ham"})
        assert answer.status == 409
        assert "more than 5 others were waiting (pending)" in answer.error


def test_the_command_sets_and_takes_away_limits(tmp_path):
    begin = [tmp_path / "m", "--durability", "os"]
    new = ["--graph", "filtering", "--classes", "ham,spam", "--budget", "5/hour", "--pending-bytes", "5000"]
    with served(*begin, *new) as (address, _), Client(address) as client:
        limits = client.model()["limits"]
        assert (limits["budget"]["limit"], limits["pending_bytes"]) == (5.0, 5000)
    with served(*begin, "--budget", "none") as (address, _), Client(address) as client:
        assert client.model()["limits"]["budget"] is None


# -------------------------------------------------------------------------------------------------------------- columns


def columns_model(folder):
    encoder = Encoder(text="message", numeric=["links", "sender.age"], drop="note", features=2**12)
    return Online.open(folder, graph=FILTER, encoder=encoder, durability="os")


FITTING = {"message": "hello", "links": 3, "sender": {"age": None}}


def test_columns_that_do_not_fit_are_counted(tmp_path):
    with columns_model(tmp_path / "m") as model:
        browser = Browser(create_app([HostedModel("m", model)]))
        for x in (
            FITTING,
            {**FITTING, "note": "ignored"},
            {"mesage": "hello", "links": 3, "sender": {"age": 4}},
            {**FITTING, "sender": {"age": 4, "name": "Eve"}},
            "a text",
        ):
            assert browser.post("/v1/act", {"x": x}).status == 200
        browser.post("/v1/act/batch", {"rows": [FITTING, {**FITTING, "tags": [1, 2]}]})
        found = browser.get("/v1/model").json["columns"]
        assert found == {
            "strict": False,
            "missing": {"records": 2, "columns": {"message": 2, "links": 1, "sender.age": 1}},
            "undeclared": {"records": 3, "columns": {"mesage": 1, "sender.name": 1, "tags": 1}},
        }
        shown = metrics(browser)
        assert shown["gappletron_records_with_other_columns_total", "m", "missing"] == 2
        assert shown["gappletron_records_with_other_columns_total", "m", "undeclared"] == 3


def test_examples_fit_and_tell_nothing_of_what_was_sent(tmp_path):
    with Online.open(tmp_path / "m", graph=FILTER, encoder=Encoder(), durability="os") as model:
        browser = Browser(create_app([HostedModel("m", model)]))
        sent = {"name": "Eve", "age": 41, "member": True, "tags": ["a", "b"], "home": {"zip": 53111}}
        for x in (browser.get("/v1/model").json["example"], sent):
            assert browser.post("/v1/predict", {"x": x}).status == 200
            assert browser.post("/v1/act", {"x": x}).status == 200
        example = browser.get("/v1/model").json["example"]
        assert "Eve" not in str(example)
        assert "41" not in str(example)
        assert "53111" not in str(example)
    with columns_model(tmp_path / "declared") as model:
        browser = Browser(create_app([HostedModel("m", model, strict=True)]))
        assert browser.post("/v1/act", {"x": browser.get("/v1/model").json["example"]}).status == 200
    for features in (1, 2, 8, 9, "grow"):
        with Online.open(tmp_path / str(features), graph=FILTER, features=features, durability="os") as model:
            browser = Browser(create_app([HostedModel("m", model)]))
            assert browser.post("/v1/act", {"x": browser.get("/v1/model").json["example"]}).status == 200


def test_names_of_columns_cannot_fill_the_memory(tmp_path):
    with columns_model(tmp_path / "m") as model:
        browser = Browser(create_app([HostedModel("m", model)]))
        browser.post("/v1/act/batch", {"rows": [{f"c{n}": 1} for n in range(500)]})
        found = browser.get("/v1/model").json["columns"]["undeclared"]
        assert found["records"] == 500
        assert len(found["columns"]) == 50


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        ({**FITTING, "mesage": 1}, "x: there is no column 'mesage'"),
        (
            {"mesage": "a", "links": 1, "sender": {"age": 1}},
            "x: there is no column 'mesage', did you mean 'message'? Choose one of 'links', 'message', 'sender.age'",
        ),
        (
            {"message": "a", "sender": {"age": 1}},
            "x: it lacks the column 'links': give it, as null (None) where there is no value",
        ),
        (
            "a text",
            "x: it is a text without a column: give a record with the columns 'links', 'message', 'sender.age'",
        ),
        ({**FITTING, "deep": {"a": {"b": 1}}}, "x: there is no column 'deep.a.b'"),
    ],
)
def test_strict_columns(tmp_path, x, sentence):
    with columns_model(tmp_path / "m") as model:
        browser = Browser(create_app([HostedModel("m", model, strict=True)]))
        for path in ("/v1/act", "/v1/predict"):
            refused = browser.post(path, {"x": x})
            assert refused.status == 422
            assert sentence in refused.error
        refused = browser.post("/v1/act/batch", {"rows": [FITTING, x]})
        assert refused.status == 422
        assert sentence.replace("x:", "rows[1]:", 1) in refused.error
        assert model.rounds == 0
        for each in (FITTING, {**FITTING, "note": "ignored"}, {**FITTING, "message": None}):
            assert browser.post("/v1/act", {"x": each}).status == 200
            assert browser.post("/v1/predict/batch", {"rows": [each]}).status == 200


def test_strict_columns_of_deep_records_are_no_error_of_ours(tmp_path):
    with columns_model(tmp_path / "m") as model:
        browser = Browser(create_app([HostedModel("m", model, strict=True)]))
        body = b'{"x": ' + b'{"a":' * 400 + b"1" + b"}" * 401
        assert browser("POST", "/v1/act", body).status == 422


def test_models_without_declared_columns_have_nothing_to_compare(tmp_path):
    with Online.open(tmp_path / "m", graph=FILTER, encoder=Encoder(), durability="os") as model:
        browser = Browser(create_app([HostedModel("m", model)]))
        browser.post("/v1/act", {"x": {"anything": 1}})
        assert browser.get("/v1/model").json["columns"] is None
        assert not [name for name, *_ in metrics(browser) if "columns" in name]


def test_the_command_can_be_strict(tmp_path):
    options = ["--graph", "filtering", "--classes", "ham,spam", "--text", "message"]
    with served(tmp_path / "mail", *options, "--strict") as (address, _), Client(address) as client:
        client.act({"message": "hello"})
        with pytest.raises(UserError, match="did you mean 'message'"):
            client.act({"mesage": "hello"})


# ----------------------------------------------------------------------------------------------------------- forgetting


def test_a_receipt_can_be_forgotten(mail, tmp_path):
    browser = Browser(create_app([HostedModel("mail", mail)]))
    first, second, third = (
        each["id"] for each in browser.post("/v1/act/batch", {"rows": ["a", "b", "c"]}).json["decisions"]
    )
    weights = mail.weights.copy()
    answers = [browser.post("/v1/forget", {"id": first}, key="k") for _ in range(2)]
    assert answers[0].json == answers[1].json == {"forgotten": 1}
    again = browser.post("/v1/forget", {"id": first})
    assert again.status == 409
    assert "was already learned from or forgotten" in again.error
    assert browser.post("/v1/learn", {"id": first, "label": "ham"}).status == 409
    assert browser.post("/v1/forget", {"id": "nobody-1"}).status == 404
    refused = browser.post("/v1/forget/batch", {"ids": [second, first]})
    assert refused.status == 409
    assert mail.waiting == 2  # all or none
    assert browser.post("/v1/forget/batch", {"ids": [second, third, second]}).json == {"forgotten": 2}
    assert mail.waiting == 0
    assert (mail.weights == weights).all()
    statuses = [row["status"] for batch in read_decisions(tmp_path / "mail") for row in batch.to_pylist()]
    assert statuses == ["forgotten"] * 3


def test_a_shadow_forgets_what_its_champion_forgets(tmp_path):
    champion, shadow, browser = shadowed(tmp_path)
    with champion, shadow:
        ids = [each["id"] for each in browser.post("/v1/act/batch", {"rows": ["a", "b", "c"]}).json["decisions"]]
        browser.post("/v1/forget", {"id": ids[0]})
        browser.post("/v1/forget/batch", {"ids": ids[1:]})
        assert (champion.waiting, shadow.waiting) == (0, 0)
        refused = browser.post("/v1/models/b/forget", {"id": ids[0]})
        assert refused.status == 409
        assert "shadows 'a'" in refused.error


def test_the_client_forgets(mail):
    with running(create_app([HostedModel("mail", mail)])) as address, Client(address) as client:
        first, second, third = client.act_many(["a", "b", "c"])
        client.forget(first)
        client.forget_many([second.id, third])
        assert mail.waiting == 0
        with pytest.raises(UserError, match="was already learned from or forgotten"):
            client.forget(first.id)


# ------------------------------------------------------------------------------------------------------------ sentences


def test_one_wording_serves_python_and_http(mail, tmp_path):
    """What to do instead is said in words that fit a call and a request."""
    browser = Browser(create_app([HostedModel("mail", mail)]))
    with pytest.raises(UserError) as foreign:
        mail.learn("nobody-1", "ham")
    decision = browser.post("/v1/act", {"x": "a"}).json
    sentences = {
        "every label": browser.post("/v1/learn", {"id": decision["id"], "unseen": True}).error,
        "foreign": browser.post("/v1/learn", {"id": "nobody-1", "label": "ham"}).error,
        "large": browser.post("/v1/act", {"x": {"a": 1e60}}).error,
    }
    assert sentences["foreign"] == str(foreign.value)
    assert "give it, or forget the receipt" in sentences["every label"]
    assert "give one that its own decisions returned" in sentences["foreign"]
    assert "leave it out" in sentences["large"]
    with Online.open(tmp_path / "bandit", graph=FeedbackGraph.bandit(["a", "b", "c"]), features=2, pending=1) as model:
        browser = Browser(create_app([HostedModel("bandit", model)]))
        first, second = (browser.post("/v1/act", {"x": [1.0, 2.0]}).json for _ in range(2))
        hidden = next(label for label in "abc" if label not in second["reveals"])
        sentences["hidden"] = browser.post("/v1/learn", {"id": second["id"], "label": hidden}).error
        sentences["expired"] = browser.post("/v1/learn", {"id": first["id"], "label": "a"}).error
        sentences["shape"] = browser.post("/v1/act", {"x": [1.0]}).error
        sentences["outside"] = browser.post("/v1/act", {"x": {"indices": [7], "values": [1.0]}}).error
    assert '"unseen": true' in sentences["hidden"]
    assert "larger pending" in sentences["expired"]
    assert "give 2 numbers, or their indices and values" in sentences["shape"]
    assert "make the model with more features" in sentences["outside"]
    for sentence in sentences.values():
        assert not [word for word in ("act()", "Online", "pending=", "features=") if word in sentence]


def test_a_model_without_a_monitor_is_refused_at_the_start(tmp_path):
    with interpreted():
        Online.open(tmp_path / "m", graph=FeedbackGraph.bandit(2), features=2, monitor=False).close()
        with Online.open(tmp_path / "m") as model, pytest.raises(UserError, match="is not monitored"):
            create_app([HostedModel("m", model)])


def test_strict_is_about_records_alone(tmp_path):
    with Online.open(tmp_path / "m", graph=FILTER, features=2) as model:
        browser = Browser(create_app([HostedModel("m", model, strict=True)]))
        assert browser.post("/v1/act", {"x": {"indices": [0], "values": [1.0]}}).status == 200


def test_an_id_has_one_way_of_writing(mail):
    browser = Browser(create_app([HostedModel("mail", mail)]))
    session, _, digits = browser.post("/v1/act", {"x": "a"}).json["id"].rpartition("-")
    answer = browser.post("/v1/forget/batch", {"ids": [f"{session}-{digits}", f"{session}-0{digits}"]})
    assert answer.status == 404
    assert mail.waiting == 1


def test_a_file_that_cannot_be_looked_at_is_told_and_watched_on(mail, monkeypatch):
    hosted = HostedModel("mail", mail)
    monkeypatch.setattr("pathlib.Path.stat", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    assert "cannot be looked at (Input/output error)" in hosted.problem

    async def watch():
        task = asyncio.create_task(models.look_after([hosted], every=0.01))
        await asyncio.sleep(0.1)
        assert not task.done()
        task.cancel()

    asyncio.run(watch())
    monkeypatch.undo()
    assert hosted.problem is None


# -------------------------------------------------------------------------------------------- restarts, and being stuck


def test_restarts_and_the_lack_of_labels_are_told(tmp_path):
    graph = FeedbackGraph.label_efficient(["a", "b"])
    with interpreted():
        start = Online(Guarded(exploration=Greedy()), graph, 2, monitor=True)
        start.act_many(csr_array(np.ones((1100, 2))))  # most actions show nothing, and are judged at once
        with Online.open(tmp_path / "model", start=start, durability="os") as model:
            browser = Browser(create_app([HostedModel("m", model)]))
            assert metrics(browser)["gappletron_restarts_total", "m"] == 0
            model.reset()
            model.reset()
            again = Browser(create_app([HostedModel("m", model)]))
            assert metrics(again)["gappletron_restarts_total", "m"] == 2
            report = again.get("/v1/estimates").json["report"]
    assert report["restarts"] == [{"round": 1100, "reason": "reset"}] * 2
    assert re.match(r"No label was seen in 1,\d\d\d rounds", report["warning"])
