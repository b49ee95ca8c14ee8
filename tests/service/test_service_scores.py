"""Scores of one's own model over HTTP: the same bits as in Python, also for shadows and through the client."""

from __future__ import annotations

import numpy as np
import pytest

from gappletron import FeedbackGraph, Online, UserError, interpreted
from gappletron.service.app import create_app
from gappletron.service.client import Client
from gappletron.service.models import HostedModel
from servers import Browser, running

CLASSES = (0, "1", True, None)
NAMES = ("0", "1", "true", "null")
GRAPH = FeedbackGraph.bandit(CLASSES)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1000.0)
    with interpreted():
        yield


def data(rounds):
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=rounds)
    return rng.normal(size=(rounds, 3)).tolist(), rng.normal(size=(rounds, 4)) + 2.0 * np.eye(4)[labels], labels


def named(scores, names=NAMES):
    return dict(zip(names, scores.tolist(), strict=True))


@pytest.fixture
def models(tmp_path):
    """One that decides, two shadows, one of which takes no scores, and a twin in memory."""
    with (
        Online.open(tmp_path / "a", "auto", GRAPH, 3, durability="os") as champion,
        Online.open(tmp_path / "b", "auto", GRAPH, 3, seed=5, durability="os") as shadow,
        Online.open(tmp_path / "c", "gapsmh", GRAPH, 3, durability="os") as other,
    ):
        yield champion, shadow, other, Online("auto", graph=GRAPH, features=3, monitor=True)


def hosted(champion, shadow, other):
    followers = [HostedModel("b", shadow), HostedModel("c", other)]
    return create_app([HostedModel("a", champion, shadows=followers), *followers])


def test_the_same_bits_as_the_library(models):
    *served, twin = models
    browser, shadow_twin = Browser(hosted(*served)), Online("auto", graph=GRAPH, features=3, seed=5, monitor=True)
    X, S, labels = data(60)
    for start in range(0, 60, 20):
        rows, scores, truths = X[start : start + 20], S[start : start + 20], labels[start : start + 20]
        if start:
            content = {"rows": rows, "scores": [named(s) for s in scores]}
            decisions = browser.post("/v1/act/batch", content).json["decisions"]
        else:
            decisions = [
                browser.post("/v1/act", {"x": x, "scores": named(s)}).json for x, s in zip(rows, scores, strict=True)
            ]
        receipts = [twin.act(x, scores=s) for x, s in zip(rows, scores, strict=True)]
        own = [
            shadow_twin.follow(x, receipt.action, receipt.probabilities, scores=s)
            for x, receipt, s in zip(rows, receipts, scores, strict=True)
        ]
        assert [each["probability"] for each in decisions] == [each.probability for each in receipts]
        for each, receipt, mine, truth in zip(decisions, receipts, own, truths, strict=True):
            label = CLASSES[truth]
            if label not in receipt.reveals:
                continue
            assert browser.post("/v1/learn", {"id": each["id"], "label": label}).status == 200
            twin.learn(receipt, label)
            shadow_twin.learn(mine, label)
    champion, shadow, other = served
    assert champion.differences(twin) == []
    assert set(shadow.differences(shadow_twin)) <= {"answers.sizes", "answers.bytes"}  # shadows note the receipts
    assert other.rounds == 60
    one = browser.post("/v1/predict", {"x": X[0], "scores": named(S[0])}).json
    assert one["class"] == twin.predict(X[0], scores=S[0])
    assert one["probabilities"] == twin.predict_proba(X[:1], scores=S[:1])[0].tolist()
    many = browser.post("/v1/predict/batch", {"rows": X, "scores": [named(s) for s in S]}).json["predictions"]
    assert [each["class"] for each in many] == twin.predict_many(X, scores=S)


def test_wrong_scores_are_refused_and_nothing_is_done(models):
    *served, _ = models
    browser, x = Browser(hosted(*served)), [1.0, 0.0, 0.0]
    right = named(np.arange(4.0))
    for path, content, status in [
        ("act", {"x": x, "scores": {"0": 1.0}}, 422),
        ("act", {"x": x, "scores": {**right, "else": 1.0}}, 422),
        ("act", {"x": x, "scores": named(np.arange(4.0), ("0", "1", "True", "null"))}, 422),
        ("act", {"x": x, "scores": [1, 2, 3, 4]}, 400),
        ("act", {"x": x, "scores": None}, 400),
        ("act", {"x": x, "scores": {**right, "0": "one"}}, 400),
        ("act/batch", {"rows": [x, x], "scores": [right]}, 422),
        ("act/batch", {"rows": [x], "scores": right}, 400),
        ("act/batch", {"rows": [x, x], "scores": [right, {}]}, 422),
        ("predict", {"x": x, "scores": {}}, 422),
        ("predict/batch", {"rows": [x, x], "scores": [right]}, 422),
        ("models/c/predict", {"x": x, "scores": right}, 422),
    ]:
        answer = browser.post(f"/v1/{path}", content)
        assert answer.status == status, content
        assert "scores" in answer.error
    assert [model.rounds for model in served] == [0, 0, 0]


def test_the_client_sends_them(models):
    *served, twin = models
    X, S, _ = data(6)
    given = [dict(zip(CLASSES, s, strict=True)) for s in S]  # NumPy's numbers, labels as they are
    with running(hosted(*served)) as address, Client(address) as client:
        decisions = [client.act(X[0], given[0]), *client.act_many(X[1:], given[1:])]
        receipts = [twin.act(x, scores=s) for x, s in zip(X, S, strict=True)]
        assert [each.probability for each in decisions] == [each.probability for each in receipts]
        assert client.predict(X[0], given[0]).label == twin.predict(X[0], scores=S[0])
        found = [each.label for each in client.predict_many(X, given)]
        assert found == twin.predict_many(X, scores=S)
        with pytest.raises(UserError, match="row 0: scores have none for the class '1'"):
            client.act(X[0], {"0": 1.0})
        with pytest.raises(UserError, match="map every class to its score"):
            client.act(X[0], S[0])
