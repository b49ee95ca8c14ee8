"""Other learners on logged decisions: against a transcription of the formulas, and against the truth."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from gappletron import UNSEEN, FeedbackGraph, Online, UserError, evaluate_off_policy, interpreted, read_decisions
from gappletron.cli import app

CLASSES = ["a", "b", "c"]
GRAPHS = {
    "filtering": FeedbackGraph.filtering(CLASSES),
    "label efficient with costs": FeedbackGraph.label_efficient(CLASSES, costs={("a", "b"): 3.0, ("query", "a"): 0.25}),
    "own": FeedbackGraph([[1, 0, 0], [1, 0, 1], [0, 1, 1]], CLASSES),
}


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


def stream(seed, rounds):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, 4))
    labels = rng.integers(3, size=rounds)
    return centres[labels] + 0.7 * rng.normal(size=(rounds, 4)), [CLASSES[k] for k in labels]


def logged(folder, graph, seed, rounds, **options):
    """A store of a model on a stream; some feedback is forgotten, some never comes. The rows and labels."""
    X, labels = stream(seed, rounds)
    with Online.open(folder, "auto", graph, 4, seed=seed, durability="os", min_propensity=0.1, **options) as model:
        for number, (x, label) in enumerate(zip(X, labels, strict=True)):
            receipt = model.act(x)
            if number % 17 == 5:
                model.forget(receipt)
            elif number % 13 != 4:
                model.learn(receipt, label if label in receipt.reveals else UNSEEN)
    return X, labels


@pytest.mark.parametrize("name", list(GRAPHS))
def test_the_estimates_are_their_formulas(tmp_path, name):
    graph = GRAPHS[name]
    logged(tmp_path / "store.sqlite", graph, 1, 60)
    found = evaluate_off_policy(
        tmp_path / "store.sqlite", "gaplog" if not graph.has_costs else "partial-likelihood", seed=7
    )
    rows = [row for batch in read_decisions(tmp_path / "store.sqlite") for row in batch.to_pylist()]
    learner = Online("gaplog" if not graph.has_costs else "partial-likelihood", graph, 4, seed=7)
    parts = {target: [] for target in ("policy error", "greedy error", "policy cost", "greedy cost")}
    mistakes = np.array([[float(i != y) for y in graph.classes] for i in graph.actions])
    for row in rows:
        x = np.zeros(4)
        x[row["indices"]] = row["values"]
        q = learner.predict_proba([x])[0]
        shadow = learner.follow(x, row["action"], row["probabilities"])
        own, greedy = shadow.turn.own_probabilities, graph.class_index(shadow.greedy)
        shows = bool(graph.reveals(row["action"]))
        if row["status"] in ("seen", "unseen"):
            learner.learn(shadow, row["label"] if row["status"] == "seen" else UNSEEN)
        if row["status"] in ("seen", "unseen") or not shows:
            w, y = 0.0, 0
            if row["status"] == "seen":
                y = graph.class_index(row["label"])
                w = 1.0 / sum(
                    p
                    for i, p in zip(graph.actions, row["probabilities"], strict=True)
                    if row["label"] in graph.reveals(i)
                )
            for what, costs in (("error", mistakes), ("cost", graph.costs)):
                for who, u in (("policy", own @ costs), ("greedy", costs[greedy])):
                    parts[f"{who} {what}"].append((w, u[y] if w else 0.0, float(q @ u)))
    assert found.judged == len(parts["policy error"])
    assert found.labels_seen == sum(w > 0 for w, _, _ in parts["policy error"])
    z = norm.ppf(0.975)
    estimates = {(each.target, each.method): each for each in found.estimates}
    assert len(estimates) == (16 if graph.has_costs else 8)
    for target, numbers in parts.items():
        if (target, "ips") not in estimates:
            continue
        w, u, m = np.array(numbers).T
        n, ratio = len(w), (w * u).sum() / w.sum()
        expected = {
            "ips": ((w * u).mean(), z * (w * u).std() / math.sqrt(n)),
            "self-normalised": (ratio, z * math.sqrt((w**2 * (u - ratio) ** 2).sum()) / w.sum()),
            "doubly robust": ((m + w * (u - m)).mean(), z * (m + w * (u - m)).std() / math.sqrt(n)),
        }
        for method, (value, half) in expected.items():
            each = estimates[target, method]
            assert [each.value, each.low, each.high] == pytest.approx([value, value - half, value + half], abs=1e-9)
        betting = estimates[target, "betting"]
        assert betting.low <= betting.value <= betting.high


def test_the_intervals_hold_the_truth(tmp_path):
    """Ten logs, two targets, 95 %: with independent misses of 5 % each, 6 or more of 20 happen in 3 of 10,000 suites;
    the interval by betting misses less often still: 3 or more in 8 % if it were exact, and it is far from exact."""
    missed = dict.fromkeys(("betting", "ips", "self-normalised", "doubly robust"), 0)
    for seed in range(10):
        graph = GRAPHS["filtering"]
        X, labels = logged(tmp_path / str(seed), graph, seed, 150)
        found = evaluate_off_policy(tmp_path / str(seed), "gapsmh", seed=2)
        rows = [row for batch in read_decisions(tmp_path / str(seed)) for row in batch.to_pylist()]
        learner = Online("gapsmh", graph, 4, seed=2)
        truth = {"policy error": [], "greedy error": []}
        for x, label, row in zip(X, labels, rows, strict=True):
            shadow = learner.follow(x, row["action"], row["probabilities"])
            if row["status"] in ("seen", "unseen"):
                learner.learn(shadow, row["label"] if row["status"] == "seen" else UNSEEN)
            if row["status"] in ("seen", "unseen") or not graph.reveals(row["action"]):
                truth["greedy error"].append(shadow.greedy != label)
                truth["policy error"].append(1.0 - shadow.turn.own_probabilities[graph.class_index(label)])
        for each in found.estimates:
            missed[each.method] += not each.low <= np.mean(truth[each.target]) <= each.high
    assert missed["betting"] <= 2
    assert max(missed.values()) <= 5


def test_the_same_learner_is_judged_by_its_own_decisions(tmp_path):
    X, labels = stream(3, 80)
    graph = FeedbackGraph.full(CLASSES)
    with Online.open(tmp_path / "store.sqlite", "gapsmh", graph, 4, durability="os") as model:
        wrong = 0
        for x, label in zip(X, labels, strict=True):
            receipt = model.act(x)
            wrong += receipt.greedy != label
            model.learn(receipt, label)
    found = evaluate_off_policy(tmp_path / "store.sqlite", "gapsmh")
    for each in found.estimates:
        if each.target == "greedy error":
            assert each.value == pytest.approx(wrong / 80)
    assert next(each for each in found.estimates if each.target == "greedy error").low == pytest.approx(wrong / 80)


def test_rounds_without_features_are_refused_and_can_be_skipped(tmp_path):
    store = tmp_path / "store.sqlite"
    X, labels = stream(3, 80)
    with Online.open(store, "gapsmh", GRAPHS["filtering"], 4, durability="os", keep_rows=10) as model:
        for number, (x, label) in enumerate(zip(X, labels, strict=True)):
            receipt = model.act(x)
            model.learn(receipt, label if label in receipt.reveals else UNSEEN)
            if number % 20 == 19:
                model.checkpoint()
    with pytest.raises(UserError, match=r"the features of round 0 were dropped.*--first"):
        evaluate_off_policy(tmp_path / "store.sqlite", "gapsmh")
    assert evaluate_off_policy(tmp_path / "store.sqlite", "gapsmh", first=70).rounds == 10


def test_labels_of_propensity_0_are_told(tmp_path):
    with Online.open(tmp_path / "store.sqlite", "gapsmh", GRAPHS["filtering"], 4, durability="os") as model:
        shadow = model.follow(np.ones(4), "b", [0.0, 1.0, 0.0])
        assert shadow.action == "b"
    found = evaluate_off_policy(tmp_path / "store.sqlite", "gapsmh")
    assert found.unsupported == 1
    assert "Only the intervals by betting are right: in 1 rounds" in str(found)
    betting = next(each for each in found.estimates if each.target == "greedy error")
    assert (betting.low, betting.high) == (0.0, 1.0)


def test_the_command(tmp_path, capsys):
    logged(tmp_path / "store.sqlite", GRAPHS["filtering"], 2, 30)
    arguments = ["replay", str(tmp_path / "store.sqlite"), "--learner", "gapsmh", "--learner", "gaplog:gamma=2"]
    app([*arguments, "--json", str(tmp_path / "found.json")], standalone_mode=False)
    shown = capsys.readouterr().out
    assert shown.count("self-normalised") == 4
    found = json.loads((tmp_path / "found.json").read_text())
    assert [each["learner"] for each in found] == ["gapsmh", "gaplog:gamma=2"]
    with pytest.raises(UserError, match="there is no store"):
        app(["replay", str(tmp_path)], standalone_mode=False)
    with pytest.raises(UserError, match="no learner"):
        app(["replay", str(tmp_path / "store.sqlite"), "--learner", "gapsm"], standalone_mode=False)


def test_without_feedback_there_is_nothing_to_judge(tmp_path):
    with Online.open(tmp_path / "store.sqlite", "gapsmh", FeedbackGraph.bandit(3), 4) as model:
        model.act(np.ones(4))
    with pytest.raises(UserError, match="no judged round"):
        evaluate_off_policy(tmp_path / "store.sqlite", "gapsmh")


def wrongly_predicted(learner, rows, first=0):
    """The share of rounds whose greedy class is wrong, of a model that does what `rows` say: rows to teach (with a
    propensity) and rows to follow, where every label is shown.
    """
    wrong, rounds, count = 0, 0, 0
    for kind, x, label, more in rows:
        if kind == "follow":
            count += 1
            if count > first:
                receipt = learner.follow(x, *more)
                wrong, rounds = wrong + (receipt.greedy != label), rounds + 1
                learner.learn(receipt, label)
        elif first == 0 or rounds:
            learner.teach(x, label, more)
    return wrong / rounds


def test_rows_that_were_taught_are_taught_to_other_learners(tmp_path, capsys):
    """Before, between and after the rounds; also in copies of the model."""
    graph, (X, labels) = FeedbackGraph.full(CLASSES), stream(5, 90)
    rng, rows = np.random.default_rng(0), []
    plain_model = Online("gapsmh", graph, 4, monitor=True)
    with Online.open(tmp_path / "store.sqlite", "gapsmh", graph, 4, durability="os", snapshot_every=50) as model:
        for number, (x, label) in enumerate(zip(X, labels, strict=True)):
            if number < 30 or rng.random() < 0.5:
                propensity = None if number % 2 else 0.5
                rows.append(("teach", x, label, propensity))
                for each in (model, plain_model):
                    each.teach(x, label, propensity)
            else:
                receipt, other = model.act(x), plain_model.act(x)
                rows.append(("follow", x, label, (receipt.action, receipt.probabilities)))
                model.learn(receipt, label)
                plain_model.learn(other, label)
    for replay in ("first", "last"):  # only the curve has the times of the rounds
        assert set(plain_model.differences(Online.from_store(tmp_path / "store.sqlite", replay=replay))) <= {
            "watch.curve"
        }

    def greedy_errors(name, **options):
        found = evaluate_off_policy(tmp_path / "store.sqlite", name, **options)
        return [each.value for each in found.estimates if each.target == "greedy error"]

    def expected(name, **options):
        return wrongly_predicted(Online(name, graph, 4), rows, **options)

    untaught = [row for row in rows if row[0] == "follow"]
    for first in (0, 5):
        assert greedy_errors("auto", first=first) == pytest.approx([expected("auto", first=first)] * 4)
        assert expected("auto", first=first) != wrongly_predicted(Online("auto", graph, 4), untaught, first)
    app(["replay", str(tmp_path / "store.sqlite"), "--json", "-"], standalone_mode=False)
    (told,) = json.loads(capsys.readouterr().out)
    found = [each["value"] for each in told["estimates"] if each["target"] == "greedy error"]
    assert found == pytest.approx([expected("auto")] * 4)


def test_a_learner_that_cannot_be_taught_leaves_out_what_was_taught(tmp_path):
    graph, (X, labels) = FeedbackGraph.bandit(CLASSES), stream(5, 60)
    found = []
    for taught in (20, 0):
        folder = tmp_path / str(taught)
        with Online.open(folder, "auto", graph, 4, durability="os") as model:
            for x, label in zip(X[:taught], labels[:taught], strict=True):
                model.teach(x, label)
            for x, label in zip(X, labels, strict=True):
                model.learn(model.follow(x, label, np.full(3, 1 / 3)), label)
        found.append([evaluate_off_policy(folder, name).estimates for name in ("banditron:gamma=0.5", "auto")])
    (banditron, auto), (same, other) = found
    assert banditron == same
    assert auto != other


def test_a_model_that_was_grown_can_be_replayed(tmp_path):
    graph, (X, labels) = FeedbackGraph.full(CLASSES), stream(5, 40)
    wide, wrong = np.hstack([X, X[:, :2] ** 2]), 0
    with Online.open(tmp_path / "store.sqlite", "gapsmh", graph, 4, durability="os") as model:
        for number, label in enumerate(labels):
            if number == 20:
                model.grow(6)
            receipt = model.act(X[number] if number < 20 else wide[number])
            wrong += receipt.greedy != label
            model.learn(receipt, label)
    found = evaluate_off_policy(tmp_path / "store.sqlite", "gapsmh")
    assert [each.value for each in found.estimates if each.target == "greedy error"] == pytest.approx([wrong / 40] * 4)
