"""A service that changes its models: classes, graphs, limits, roll-backs, promotions; what a kill has torn apart."""

from __future__ import annotations

import asyncio
import json

import pytest

from gappletron import Encoder, FeedbackGraph, Online, UserError, interpreted
from gappletron.online import upkeep
from gappletron.service import tokens
from gappletron.service.app import create_app
from gappletron.service.client import Client
from gappletron.service.models import HostedModel, host_models
from servers import FILTER, Browser, running
from stores import crash, full_disk, tamper

TOKEN, ADMIN = "0123456789abcdef", "fedcba9876543210"
MESSAGES = ["win a prize", "see you at five", "cheap pills", "minutes of the meeting"]


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


def opened(place, learner="auto", **options):
    encoder = Encoder(text="message", features=2**12)
    return Online.open(place, learner, FILTER, encoder=encoder, durability="os", min_propensity=0.1, **options)


class Group:
    """A champion and its shadow, in stores of their own, that are started as the command does."""

    def __init__(self, places, **options):
        self.places, self.options = places, options
        self.start()

    def start(self):
        first, *others = self.places
        self.models = {
            name: opened(place, "auto" if name == first else "gapsmh") for name, place in self.places.items()
        }
        shadows = dict.fromkeys(others, first)
        self.hosted = {
            each.name: each for each in host_models(self.models, shadows, alpha=0.05, max_waiting=None, strict=False)
        }
        self.browser = Browser(create_app(list(self.hosted.values()), **self.options))
        self.post = self.browser.post

    def crash(self):
        for model in self.models.values():
            crash(model)

    def close(self):
        for model in self.models.values():
            model.close()

    def decide(self, number, path="/v1", learn=True):
        """So many decisions with feedback; the ids of those that wait."""
        ids = []
        for t in range(number):
            decision = self.post(f"{path}/act", {"x": MESSAGES[t % 4]})
            assert decision.status == 200, decision.body
            ids.append((decision.json["id"], decision.json["reveals"]))
        if learn:
            for name, reveals in ids:
                self.give(name, reveals, path)
        return ids

    def give(self, name, reveals, path="/v1"):
        content = {"label": "spam"} if "spam" in reveals else {"unseen": True}
        answer = self.post(f"{path}/learn", {"id": name, **content})
        assert answer.status == 200, answer.body

    def counts(self):
        return {name: (model.rounds, model.waiting) for name, model in self.models.items()}


@pytest.fixture
def group(new_place):
    made = Group({"mail": new_place(), "trial": new_place()})
    yield made
    made.close()


@pytest.fixture
def three(new_place):
    made = Group({"mail": new_place(), "trial": new_place(), "third": new_place()})
    yield made
    made.close()


@pytest.fixture
def mail(place):
    with opened(place) as model:
        yield model


# -------------------------------------------------------------------------------------------------------------- changes


def test_every_change_is_that_of_the_library_and_logged(place, new_place):
    """Over HTTP, and by the library: the same bits; who asked is in the log."""
    by_hand = opened(new_place())
    with opened(place) as model:
        browser = Browser(create_app([HostedModel("mail", model)]))
        for t in range(8):
            decision = browser.post("/v1/act", {"x": MESSAGES[t % 4]}).json
            receipt = by_hand.act(MESSAGES[t % 4])
            if "spam" in decision["reveals"]:
                browser.post("/v1/learn", {"id": decision["id"], "label": "spam"})
                by_hand.learn(receipt, "spam")
        steps = [
            ("teach", {"rows": [{"x": "hello", "label": "ham"}, {"x": "win", "label": "spam", "propensity": 0.5}]}),
            ("class", {"name": "news", "reveals": ["ham", "spam", "news"], "revealed_by": ["ham"]}),
            ("graph", {"costs": [["spam", "ham", 10.0]]}),
            ("limits", {"min_propensity": 0.05, "budget": {"limit": 5, "per": 100, "prices": [["ham", 2.0]]}}),
            ("graph", {"edges": [["ham", "ham"], ["ham", "spam"], ["ham", "news"], ["news", "news"]]}),
            ("reset", {}),
            ("rollback", {"round": 3}),
        ]
        for path, content in steps:
            answer = browser.post(f"/v1/{path}", {**content, "who": "anna"}, key=f"key of {path} {content}")
            assert answer.status == 200, answer.body
            assert answer.json["who"] == "anna"
        by_hand.teach_many(["hello", "win"], ["ham", "spam"], [1.0, 0.5])
        by_hand.add_class("news", ["ham", "spam", "news"], ["ham"])
        by_hand.set_graph(by_hand.graph.with_costs({("spam", "ham"): 10.0}))
        from gappletron import Budget

        by_hand.set_limits(min_propensity=0.05, budget=Budget(5, per=100, prices={"ham": 2.0}))
        edges = [("ham", "ham"), ("ham", "spam"), ("ham", "news"), ("news", "news")]
        classes = by_hand.graph.classes
        by_hand.set_graph(FeedbackGraph.from_edges(classes, edges, costs=by_hand.graph.costs))
        by_hand.reset()
        by_hand.roll_back(round=3)
        assert model.differences(by_hand) == []
        path, content = steps[-1]  # a repetition changes nothing
        again = browser.post(f"/v1/{path}", {**content, "who": "anna"}, key=f"key of {path} {content}")
        assert again.json == answer.json
        assert browser.post("/v1/act", {"x": "hello"}).status == 200
        listed = browser.get("/v1/changes").json
        kinds = ["taught", "taught", "class added", "graph changed", "limited", "graph changed", "reset", "rolled back"]
        assert [each["kind"] for each in listed["changes"] if each["who"] == "anna"] == kinds
        assert listed["snapshots"] == [0]
    rows = tamper(place, "SELECT kind FROM changes WHERE who = 'anna' ORDER BY seq")
    assert [kind for (kind,) in rows] == kinds
    upkeep.check(place)
    by_hand.close()


@pytest.mark.parametrize(
    ("path", "content", "status", "sentence"),
    [
        ("teach", {"rows": [{"x": "a", "label": "ham"}, {"x": "b", "label": "no"}]}, 422, "there is no class 'no'"),
        ("teach", {"rows": [{"x": "a", "label": "ham", "propensity": 0}]}, 400, "propensity"),
        ("class", {"name": "ham"}, 422, "ham"),
        ("class", {"name": "x", "reveals": ["y"]}, 422, "'y'"),
        ("graph", {}, 422, "nothing of the graph is to change"),
        ("graph", {"edges": []}, 422, "no action reveals 'ham', 'spam'"),
        ("graph", {"costs": [["no", "ham", 1]]}, 422, "'no'"),
        ("limits", {"min_propensity": 2}, 422, "min_propensity"),
        ("limits", {"budget": {"limit": 1, "per": "week"}}, 422, "week"),
        ("rollback", {}, 422, "give either event= or round="),
        ("rollback", {"round": 99}, 422, "no decision number 99"),
        ("promote", {}, 409, "decides already: promote one of its shadows"),
        ("reset", {"who": ""}, 400, "who"),
    ],
)
def test_changes_that_are_refused_change_nothing(mail, path, content, status, sentence):
    browser = Browser(create_app([HostedModel("mail", mail)]))
    mail.act("hello")
    before = mail._contents.compare()
    answer = browser.post(f"/v1/{path}", content)
    assert answer.status == status
    assert sentence in answer.error
    assert mail._contents.compare() == before


def test_tokens_that_may_change_a_model(mail, tmp_path):
    (tmp_path / "tokens").write_text(f"app {TOKEN}\n")
    (tmp_path / "admins").write_text(f"# operators\nanna {ADMIN}\n")
    both = tokens.read_tokens(tmp_path / "tokens", may_change=False) + tokens.read_tokens(tmp_path / "admins")
    browser = Browser(create_app([HostedModel("mail", mail)], tokens=both))
    given = {token: {"authorization": f"Bearer {token}"} for token in (TOKEN, ADMIN)}
    assert browser.post("/v1/act", {"x": "a"}, **given[TOKEN]).status == 200
    refused = browser.post("/v1/reset", {}, **given[TOKEN])
    assert (refused.status, refused.error) == (
        403,
        "this token may not change the model: use one of --admin-token-file",
    )
    assert (
        browser.post("/v1/reset", {"who": "somebody"}, **given[ADMIN]).json["who"] == "anna"
    )  # the token's name counts
    (tmp_path / "tokens").write_text("a b 0123456789abcdef\n")
    with pytest.raises(UserError, match="more stands in its line"):
        tokens.read_tokens(tmp_path / "tokens")


def test_the_client_changes_models(group):
    with running(group.browser.app) as address, Client(address) as client, Client(address, model="trial") as trial:
        for t in range(6):
            client.act(MESSAGES[t % 4])
        client.teach([("hello", "ham")], who="anna")
        client.add_class("news", reveals=["ham", "spam", "news"], revealed_by=["ham"])
        client.set_graph(edges=[("ham", "ham"), ("ham", "spam"), ("ham", "news")])
        client.set_limits(0.05, {"limit": 5})
        client.set_limits(budget=None)
        client.reset()
        client.roll_back(round=2, who="bob")
        trial.promote(who="carol")
        client.act("hello")
        kinds = [(each["kind"], each["who"]) for each in client.changes()["changes"]]
        assert kinds[-1] == ("promoted", "carol")
    assert group.models["mail"].graph == group.models["trial"].graph
    assert group.models["trial"].limits == group.models["mail"].limits
    assert group.hosted["mail"].missed == group.hosted["trial"].missed == 0


# ------------------------------------------------------------------------------------------------------------ promotion


def test_a_promoted_shadow_decides_and_clients_notice_nothing(group):
    waiting = group.decide(6, learn=False)
    group.post("/v1/act", {"x": "once"}, key="a key")
    first = group.post("/v1/act", {"x": "once"}, key="a key")
    answer = group.post("/v1/models/trial/promote", {"who": "anna"}, key="promotion")
    assert (answer.status, answer.json["change"], answer.json["model"]) == (200, "promoted", "trial")
    assert group.post("/v1/models/trial/promote", {"who": "anna"}, key="promotion").json == answer.json
    assert group.post("/v1/act", {"x": "once"}, key="a key").body == first.body  # answered before: not done again
    assert group.counts() == {"mail": (7, 7), "trial": (7, 7)}
    for name, reveals in waiting[:3]:  # decided by the one, learned by both
        group.give(name, reveals)
    group.decide(2)
    group.decide(2, "/v1/models/mail")  # a client that knows the name alone
    group.decide(2, "/v1/models/trial")
    assert group.counts() == {"mail": (13, 4), "trial": (13, 4)}
    described = {each["name"]: each["shadows"] for each in group.browser.get("/v1/models").json["models"]}
    assert described == {"mail": "trial", "trial": None}
    assert group.browser.get("/v1/model").json["name"] == "trial"
    assert (group.hosted["mail"].missed, group.hosted["trial"].missed) == (0, 0)
    assert group.post("/v1/models/mail/promote", {"who": "bob"}).status == 200  # and back
    for name, reveals in waiting[3:]:
        group.give(name, reveals)
    group.post("/v1/forget", {"id": first.json["id"]})
    assert group.counts() == {"mail": (13, 0), "trial": (13, 0)}
    assert group.post("/v1/models/trial/act", {"x": "a"}).status == 409 or group.hosted["trial"].passes_on
    rows = tamper(
        group.places["trial"], "SELECT kind, who FROM changes WHERE kind IN ('promoted', 'demoted') ORDER BY seq"
    )
    assert rows == [("promoted", "anna"), ("demoted", "bob")]


def test_a_promotion_outlives_a_kill(group):
    group.decide(4)
    group.post("/v1/models/trial/promote", {})
    waiting = group.decide(3, learn=False)
    group.crash()
    group.start()  # with the command of before
    assert group.hosted["mail"].champion is group.hosted["trial"]
    for name, reveals in waiting:
        group.give(name, reveals, "/v1/models/mail")
    group.decide(1)
    assert group.counts() == {"mail": (8, 0), "trial": (8, 0)}
    for place in group.places.values():
        upkeep.check(place)


def test_requests_that_wait_go_to_the_promoted_model(group):
    """A request that waits for its turn while the roles change is answered by the one that decides then."""

    async def story():
        async with group.hosted["mail"]._steps:
            waits = asyncio.create_task(group.browser.send("POST", "/v1/act", json.dumps({"x": "a"}).encode()))
            await asyncio.sleep(0.05)
            promoted = await group.browser.send("POST", "/v1/models/trial/promote", b"{}")
            assert promoted.status == 200
        return await waits

    answer = asyncio.run(story())
    assert answer.status == 200
    assert group.models["trial"].receipt(answer.json["id"])


def test_a_shadow_that_cannot_store_is_not_promoted(group):
    group.decide(2)
    with full_disk(group.models["trial"]):
        assert group.post("/v1/act", {"x": "a"}).status == 200
        assert group.post("/v1/models/trial/promote", {}).status == 503
    assert group.hosted["trial"].champion is group.hosted["mail"]


# ------------------------------------------------------------------------------------------------------- after the kill


def lose(group, name, monkeypatch):
    """From now on, what a model does is not stored."""
    model = group.models[name]

    def fail(*_):
        raise UserError("the process is killed")

    monkeypatch.setattr(model._contents.journal.store, "append", fail)


def test_a_shadow_catches_up_after_a_kill(group, monkeypatch):
    """What only the champion had stored when the process was killed is followed at the start, in the same order."""
    waiting = group.decide(4, learn=False)
    with monkeypatch.context() as patch:
        lose(group, "trial", patch)
        for name, reveals in waiting[:2]:
            group.give(name, reveals)
        group.decide(3)
        group.post("/v1/class", {"name": "news", "revealed_by": ["ham"]})
        group.post("/v1/forget", {"id": waiting[3][0]})
        late = group.decide(1, learn=False)
        group.crash()
    group.start()
    assert group.counts() == {"mail": (8, 2), "trial": (8, 2)}
    assert group.models["mail"].graph == group.models["trial"].graph
    for name, reveals in (waiting[2], *late):
        group.give(name, reveals)
    assert group.counts() == {"mail": (8, 0), "trial": (8, 0)}
    assert group.hosted["trial"].missed == 0
    upkeep.check(group.places["trial"])


def test_a_promotion_of_which_half_was_stored_is_completed(group, monkeypatch):
    """The process was killed before the former champion had stored that it decides no more."""
    waiting = group.decide(3, learn=False)
    first = group.post("/v1/act", {"x": "once"}, key="a key")
    with monkeypatch.context() as patch:
        lose(group, "mail", patch)
        assert group.post("/v1/models/trial/promote", {"who": "anna"}).status == 200
        group.crash()
    for _ in range(2):
        group.start()
        assert group.post("/v1/act", {"x": "once"}, key="a key").body == first.body  # not done again
        assert group.counts()["mail"] == group.counts()["trial"]
        group.give(*waiting.pop())
        assert group.counts() == {name: (4, 1 + len(waiting)) for name in group.places}
        assert group.hosted["mail"].missed == 0
        group.crash()
    rows = tamper(group.places["mail"], "SELECT document FROM changes WHERE kind = 'demoted'")
    assert [json.loads(document)["by"] for (document,) in rows] == ["trial"]
    group.start()


def test_the_second_of_two_promotions_outlives_a_kill(three):
    three.post("/v1/models/trial/promote", {})
    first = three.post("/v1/act", {"x": "once"}, key="a key")
    three.post("/v1/models/third/promote", {})
    three.crash()
    three.start()
    for name in three.places:
        assert three.hosted["third"] is three.hosted[name].find_deciding()
        assert three.post(f"/v1/models/{name}/act", {"x": "once"}, key="a key").body == first.body
    three.decide(2, "/v1/models/trial")
    assert set(three.counts().values()) == {(3, 1)}


def test_a_third_model_catches_up_with_feedback_for_decisions_before_a_promotion(three, monkeypatch):
    waiting = three.decide(3, learn=False)
    three.post("/v1/models/trial/promote", {})
    with monkeypatch.context() as patch:
        for name in ("mail", "third"):
            lose(three, name, patch)
        for name, reveals in waiting:
            three.give(name, reveals)
        three.crash()
    three.start()
    assert set(three.counts().values()) == {(3, 0)}


def test_feedback_that_a_shadow_cannot_repeat_is_counted(three, monkeypatch, caplog):
    """Its answers were removed, so it does not know its own receipts any more."""
    waiting = three.decide(2, learn=False)
    three.post("/v1/models/trial/promote", {})
    three.decide(1)
    with monkeypatch.context() as patch:
        lose(three, "third", patch)
        for name, reveals in waiting:
            three.give(name, reveals)
        three.crash()
    tamper(three.places["third"], "DELETE FROM answers WHERE key LIKE ?", f"{waiting[0][0]}%")
    three.start()
    assert "the shadow 'third' has missed 1 decisions or pieces of feedback of 'trial'" in caplog.text
    assert three.counts()["third"] == (3, 1)


def test_feedback_for_decisions_before_a_promotion_is_caught_up_with(group, monkeypatch):
    """The former champion has decided, and has not stored the feedback that the present one was given."""
    waiting = group.decide(3, learn=False)
    assert group.post("/v1/models/trial/promote", {}).status == 200
    with monkeypatch.context() as patch:
        lose(group, "mail", patch)
        for name, reveals in waiting:
            group.give(name, reveals)
        group.decide(1)
        group.crash()
    group.start()
    assert group.counts() == {"mail": (4, 0), "trial": (4, 0)}


def test_what_only_a_shadow_has_stored_is_forgotten(group, monkeypatch):
    """The champion never answered it."""
    group.decide(3, learn=False)
    with monkeypatch.context() as patch:
        lose(group, "mail", patch)
        assert group.post("/v1/act", {"x": "a"}).status != 200
        group.models["trial"].commit()
        group.crash()
    group.start()
    assert group.counts() == {"mail": (3, 3), "trial": (4, 3)}
    group.decide(2)
    assert group.counts() == {"mail": (5, 3), "trial": (6, 3)}


def test_a_new_shadow_follows_from_where_it_joins(group, new_place):
    group.decide(3)
    group.close()
    group.places["trial"] = new_place()
    group.start()
    assert group.counts() == {"mail": (3, 0), "trial": (0, 0)}
