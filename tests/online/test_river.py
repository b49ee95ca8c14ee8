"""The classifier for River: River's own checks, the same bits as play and Online, and labels that stay hidden."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle

import numpy as np
import pytest
from river import (
    base,
    checks,
    compose,
    datasets,
    evaluate as river_evaluate,
    linear_model,
    metrics,
    naive_bayes,
    preprocessing,
)

from gappletron import (
    UNSEEN,
    Encoder,
    FeedbackGraph,
    Online,
    Perceptron,
    Player,
    RiverClassifier,
    Runs,
    TopUp,
    UserError,
    interpreted,
    named,
)
from gappletron.river import evaluate

SMALL = Encoder(features=64)


def phishing(rounds: int) -> list:
    return list(itertools.islice(datasets.Phishing(), rounds))


def three_labels(rounds: int, seed: int = 0) -> list:
    """Records with numbers and words; the label follows a rule, mostly."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(rounds):
        size, word = float(rng.normal()), str(rng.choice(["red", "green", "blue"]))
        label = "large" if size > 0.5 else word if rng.random() < 0.9 else "red"
        rows.append(({"size": size, "word": word}, "red" if label == "large" and word == "red" else label))
    return [(x, y if y != "large" else "green") for x, y in rows]


MODEL = RiverClassifier()


@pytest.mark.parametrize("check", [*checks.yield_checks(MODEL)], ids=lambda check: check.__name__)
def test_the_checks_of_river(check):
    with interpreted():
        check(MODEL.clone())


def test_nothing_is_left_out_of_the_checks():
    assert MODEL._unit_test_skips() == set()
    assert MODEL._multiclass
    assert len(list(checks.yield_checks(MODEL))) > 25


# ------------------------------------------------------------------------------------------------------ the same bits


@pytest.mark.parametrize("learner", ["auto", "gapsmh"])
def test_learn_one_leaves_the_weights_of_play(learner):
    rows = phishing(120)
    x, y = [x for x, _ in rows], [y for _, y in rows]
    with interpreted():
        runs = Runs(learner, (SMALL.matrix(x), y), "full", normalize="columns", bias=True)
        for _ in runs:
            pass
        named_first = RiverClassifier(learner, classes=(False, True), encoder=SMALL)
        as_they_come = RiverClassifier(learner, encoder=SMALL)
        for features, label in rows:
            named_first.learn_one(features, label)
            as_they_come.learn_one(features, np.bool_(label))
    order = [as_they_come.labels.index(label) for label in (False, True)]
    assert named_first._player.weights.tobytes() == runs.weights().tobytes()
    # Until the second label comes, a class without a label stands in its place. Ties go to the first class.
    if learner == "auto":
        np.testing.assert_array_equal(as_they_come._player.weights[:, order], runs.weights())


def played_online(rows: list, graph: FeedbackGraph, delay: int = 0) -> tuple[Online, list]:
    """The same play by Online: actions by name, and what is told later."""
    model, waiting, actions = Online("auto", graph, encoder=SMALL, seed=3), [], []
    for x, y in rows:
        receipt = model.act(x)
        actions.append(receipt.action)
        waiting.append((receipt, y))
        if len(waiting) > delay:
            told, label = waiting.pop(0)
            model.learn(told, label if label in told.reveals else UNSEEN)
    for told, label in waiting:
        model.learn(told, label if label in told.reveals else UNSEEN)
    return model, actions


class Actions:
    """A metric that writes down what was done."""

    def __init__(self):
        self.pairs = []

    def update(self, y_true, y_pred):
        self.pairs.append((y_true, y_pred))


@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("preset", ["bandit", "filtering", "label-efficient"])
def test_evaluate_plays_as_online_does(preset, delay):
    rows, classes = three_labels(100), ("red", "green", "blue")
    revealing = "red" if preset == "filtering" else None
    with interpreted():
        graph = FeedbackGraph.preset(preset, classes, revealing)
        online, actions = played_online(rows, graph, delay)
        for model in (
            RiverClassifier(graph=preset, revealing=revealing, classes=classes, encoder=SMALL, seed=3),
            RiverClassifier(graph=graph, encoder=SMALL, seed=3),
        ):
            result = evaluate(rows, model, Actions(), delay=delay)
            assert [action for _, action in result.metric.pairs] == actions
            assert model._player.weights.tobytes() == online.weights.tobytes()
            seen = [y in graph.reveals(action) for (_, y), action in zip(rows, actions, strict=True)]
            assert result.labels_seen == sum(seen) < result.rounds == 100


# ----------------------------------------------------------------------------------------------------- at home in River


def test_it_is_no_worse_than_theirs_on_their_data():
    ours = river_evaluate.progressive_val_score(datasets.Phishing(), RiverClassifier(), metrics.Accuracy()).get()
    theirs = river_evaluate.progressive_val_score(
        datasets.Phishing(), preprocessing.StandardScaler() | linear_model.LogisticRegression(), metrics.Accuracy()
    ).get()
    assert ours > theirs - 0.02


def test_labels_that_come_late():
    rows = phishing(300)
    with interpreted():
        metric = river_evaluate.progressive_val_score(
            rows, RiverClassifier(encoder=SMALL), metrics.LogLoss(), delay=20, moment=None
        )
        model, total = RiverClassifier(encoder=SMALL), metrics.LogLoss()
        predicted = []
        for t, (x, _) in enumerate(rows):
            if t >= 20:
                model.learn_one(*rows[t - 20])
            predicted.append(model.predict_proba_one(x))
        for (_, y), proba in zip(rows, predicted, strict=True):
            if proba:
                total.update(y, proba)
    assert metric.get() == pytest.approx(total.get(), rel=1e-9)
    right = [max(proba, key=proba.get) == y for (_, y), proba in zip(rows[40:], predicted[40:], strict=True)]
    assert np.mean(right) > 0.8


def test_labels_and_features_as_they_come():
    with interpreted():
        model = RiverClassifier(encoder=SMALL)
        assert model.predict_one({"a": 1.0}) is None
        assert model.predict_proba_one({"a": 1.0}) == {}
        for step, label in enumerate(["x", "x", "y", "z", "w", "v"] * 5):
            model.learn_one({f"column {step % 7}": 1.0, "kind": label}, label)
            assert label in model.predict_proba_one({"kind": label})
        assert model.labels == ("x", "y", "z", "w", "v")
        for label in model.labels:
            assert model.predict_one({"kind": label}) == label
            assert sum(model.predict_proba_one({"kind": label}).values()) == pytest.approx(1.0)


def test_a_graph_of_ones_own_takes_no_new_label():
    with interpreted():
        model = RiverClassifier(graph=FeedbackGraph.filtering(["ham", "spam"]), encoder=SMALL)
        model.learn_one({"a": 1.0}, "spam")
        with pytest.raises(UserError, match="the label 'news' is not among those of the graph, 'ham', 'spam'"):
            model.learn_one({"a": 1.0}, "news")
        assert model.labels == ("ham", "spam")


def test_a_new_label_is_learned_where_the_action_reveals_everything():
    rows = three_labels(200)
    with interpreted():
        model = RiverClassifier(graph="filtering", revealing="red", classes=("green",), encoder=SMALL)
        result = evaluate(rows, model, metrics.Accuracy())
        assert model.labels == ("red", "green", "blue")
        assert result.labels_seen < 200
        assert result.metric.get() > 0.6
        # With bandit feedback nobody ever says that there is a third one.
        model = RiverClassifier(graph="bandit", classes=("red", "green"), encoder=SMALL)
        evaluate(rows, model, metrics.Accuracy())
        assert model.labels == ("red", "green")


def drawn(act):
    return act.action, act.probability, act.reveals


def test_copies_go_on_and_a_pickle_holds_a_saved_model():
    rows = phishing(60)
    with interpreted():
        model = RiverClassifier("gapsmh", "bandit", classes=(False, True), encoder=SMALL, seed=2)
        evaluate(rows, model, metrics.Accuracy())
        data = pickle.dumps(model)
        assert model._player.to_bytes() in data
        assert b"gappletron.play.player" not in data
        copies = [model, pickle.loads(data), copy.deepcopy(model)]
        acts = [[each.act_one(x) for x, _ in rows] for each in copies]
        for other in acts[1:]:
            assert [drawn(act) for act in other] == [drawn(act) for act in acts[0]]
        assert model.clone().labels == (False, True)
        assert model.clone()._player is None


def test_learners_are_cloned_with_their_numbers():
    model = RiverClassifier(named("gapsmh").replace(exploration=TopUp(0.3)), encoder=SMALL)
    assert model.clone().learner == model.learner
    assert RiverClassifier(Perceptron()).clone().learner == "perceptron"


def test_learners_of_their_own_actions():
    rows = phishing(100)
    with interpreted():
        model = RiverClassifier("banditron", "bandit", classes=(False, True), encoder=SMALL)
        with pytest.raises(UserError, match="banditron cannot be taught labels"):
            model.learn_one(*rows[0])
        assert evaluate(rows, model, metrics.Accuracy()).rounds == 100


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: RiverClassifier(graph="filtering"), "needs the label that reveals"),
        (lambda: RiverClassifier(classes="ham"), "a tuple of labels"),
        (lambda: RiverClassifier(graph=FeedbackGraph.full(2), classes=(0, 1)), "the graph names its classes"),
        (lambda: RiverClassifier().act_one({"a": 1.0}), "no labels are known"),
        (lambda: RiverClassifier(classes=("a",)).act_one({"a": 1.0}), "only one label is known"),
        (lambda: evaluate([], Player("auto", FeedbackGraph.full(2), 2), None), "Player is not a RiverClassifier"),
        (lambda: told("b"), "does not reveal the label 'b'"),
        (lambda: told("d"), "does not reveal the label 'd'"),
    ],
)
def test_mistakes_are_told(call, sentence):
    with interpreted(), pytest.raises(UserError, match=sentence):
        call()


def told(label):
    """Learn a label that the action, some other one, does not reveal."""
    model = RiverClassifier(graph="bandit", classes=("a", "b", "c"), encoder=SMALL)
    act = next(act for act in (model.act_one({"x": 1.0}) for _ in range(100)) if act.action != label)
    model.learn_from(act, label)


def test_the_parameters_are_those_of_the_docstring():
    documented = RiverClassifier.__doc__
    for name in inspect.signature(RiverClassifier).parameters:
        assert f":param {name}:" in documented


def test_feedback_counts_once_and_only_what_was_revealed():
    model = RiverClassifier(graph="filtering", revealing="ham", classes=("ham", "spam"))
    act = model.act_one({"word": "prize"})
    while act.action != "ham":
        model.learn_from(act, UNSEEN)
        act = model.act_one({"word": "prize"})
    with pytest.raises(UserError, match="reveals every label"):
        model.learn_from(act, UNSEEN)
    model.learn_from(act, "spam")
    with pytest.raises(UserError, match="already learned from"):
        model.learn_from(act, "spam")


@pytest.mark.parametrize("label", [None, float("nan"), [1], {}])
def test_what_cannot_be_a_label(label):
    model = RiverClassifier()
    with pytest.raises(UserError, match="cannot be a label"):
        model.learn_one({"a": 1.0}, label)
    with pytest.raises(UserError, match="the column 'a' has the value inf"):
        model.learn_one({"a": float("inf")}, "new")
    assert model.labels == ()


# ---------------------------------------------------------------------------------------------- scores of another model


class Known(base.Classifier):
    """A scorer that knows some labels, and notes what it is taught."""

    def __init__(self):
        self.learned = []

    _multiclass = True

    def learn_one(self, x, y):
        self.learned.append((x["a"], y))

    def predict_proba_one(self, x):
        return {"u": 0.5 * x["a"], "elsewhere": 0.5, "v": 0.5 - 0.5 * x["a"]} if self.learned else {}


def test_a_scorer_gives_its_probabilities_and_learns_what_is_shown():
    rng = np.random.default_rng(0)
    rows = [({"a": float(a)}, "u" if a > 0.5 else "v") for a in rng.random(60)]
    encoder = Encoder(features=64)
    with interpreted():
        model = RiverClassifier("auto", "filtering", "u", ("u", "v"), encoder=encoder, scorer=Known())
        twin = Player("auto", FeedbackGraph.filtering(2), 64, rows="records")
        taught = []
        for n, (x, y) in enumerate(rows):
            scores = [x["a"], 1.0 - x["a"]] if taught else None
            if n % 3 == 0:
                model.learn_one(x, y)
                twin.teach_vector(encoder.vector(x), "uv".index(y), None, twin.check_scores(scores))
                taught.append((x["a"], y))
                continue
            act, turn = model.act_one(x), twin.act(encoder.encode(x), scores=scores)
            assert act.turn.record == pytest.approx(turn.record, abs=1e-12)
            model.learn_from(act, y if y in act.reveals else UNSEEN)
            twin.learn(turn, "uv".index(y) if y in act.reveals else -1)
            if y in act.reveals:
                taught.append((x["a"], y))
        assert model.scorer.learned == taught
        x = {"a": 0.9}
        chances = twin.predict_proba(encoder.vectors([x]), [[0.9, 0.1]])[0]
        assert list(model.predict_proba_one(x).values()) == pytest.approx(chances.tolist(), abs=1e-9)
        assert model.predict_one(x) == "uv"[twin.predict(encoder.vector(x), scores=[0.9, 0.1])]


def test_labels_that_a_scorer_does_not_know_are_added():
    with interpreted():
        model = RiverClassifier("auto", scorer=naive_bayes.GaussianNB(), encoder=Encoder(features=64))
        for n, noise in enumerate(np.random.default_rng(0).normal(scale=0.1, size=200)):
            model.learn_one({"a": n % 4 + float(noise)}, n % 4)
        assert [model.predict_one({"a": float(n)}) for n in range(4)] == [0, 1, 2, 3]
        fresh = model.clone()
        assert fresh.scorer is not model.scorer
        assert fresh.predict_one({"a": 1.0}) is None


class Recorded(base.Transformer):
    """A transformer that writes down what it learns from; with labels if it is supervised."""

    def __init__(self, supervised):
        self.supervised, self.learned = supervised, []

    @property
    def _supervised(self):
        return self.supervised

    def learn_one(self, x, y=None):
        self.learned.append(y)

    def transform_one(self, x):
        return {**x, "constant": 1.0}


def test_a_pipeline_is_evaluated_and_shown_only_what_its_graph_reveals():
    def make():
        return RiverClassifier(graph="filtering", revealing=True, classes=(True, False))

    with interpreted():
        rows = phishing(150)
        scaled = evaluate(rows, preprocessing.StandardScaler() | make(), metrics.Accuracy(), delay=3)
        by_hand, scaler, metric, waiting = make(), preprocessing.StandardScaler(), metrics.Accuracy(), []
        for x, y in rows:
            scaler.learn_one(x)
            act = by_hand.act_one(scaler.transform_one(x))
            metric.update(y, act.action)
            waiting.append((act, y))
            if len(waiting) > 3:
                earlier, label = waiting.pop(0)
                seen = earlier.reveals_all or label in earlier.reveals
                by_hand.learn_from(earlier, label if seen else UNSEEN)
        assert scaled.metric.get() == metric.get()
        plain, supervised, model = Recorded(False), Recorded(True), make()
        result = evaluate(rows, compose.Pipeline(plain, supervised, model), metrics.Accuracy())
        assert plain.learned == [None] * 150  # every row, without its label
        assert len(supervised.learned) == result.labels_seen < 150
        with pytest.raises(UserError, match="a pipeline that ends in one"):
            evaluate(rows, make() | preprocessing.StandardScaler(), metrics.Accuracy())
