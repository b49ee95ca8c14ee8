"""The classifier for scikit-learn: its own checks, the same weights as play, and partial feedback."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from gappletron import (
    UNSEEN,
    Exploration,
    FeedbackGraph,
    GappletronClassifier,
    Guarded,
    OneAgainstAll,
    Player,
    Runs,
    UserError,
    interpreted,
)
from problems import small_stream


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.mark.parametrize(
    "model",
    [
        GappletronClassifier(),
        GappletronClassifier("gapsmh", "bandit"),
    ],
    ids=str,
)
def test_the_checks_of_scikit_learn(model):
    results = check_estimator(model, on_skip=None, on_fail="raise")
    assert len(results) > 40
    assert {result["check_name"] for result in results if result["status"] != "passed"} <= {"check_array_api_input"}


@pytest.mark.parametrize(
    ("learner", "preset", "revealing"),
    [
        ("auto", "full", None),
        ("auto", "filtering", 3),
        ("gapsmh", "bandit", None),
        ("banditron", "bandit", None),
    ],
)
def test_fit_draws_and_learns_as_play_does(digits, learner, preset, revealing):
    X, y = digits[0][:150], digits[1][:150]
    with interpreted():
        runs = Runs(learner, (X, y), preset, revealing=revealing, seed=7)
        for _ in runs:
            pass
        played = runs._runs[0].player
        stored = scipy.sparse.csr_matrix(np.ones_like(X))
        stored.data[:] = X.reshape(-1)  # with every zero: to `auto` it is a value, to the others nothing
        for rows in (X, stored, *([scipy.sparse.csr_matrix(X)] if learner != "auto" else [])):
            model = GappletronClassifier(learner, preset, revealing, random_state=7).fit(rows, y)
            assert model.player_.weights.tobytes() == played.weights.tobytes()
            assert model.player_.engine.draws.state_at(150) == played.engine.draws.state_at(150)
            np.testing.assert_array_equal(model.predict(X), played.predict_many(X))
            assert model.player_.rounds == 150


def test_fit_on_full_information_is_partial_fit_of_all_rows(digits):
    with interpreted():
        X, y = digits[0][:700], digits[1][:700]
        once = GappletronClassifier().fit(X, y)
        parts = GappletronClassifier()
        for rows in np.array_split(np.arange(len(y)), 7):
            parts.partial_fit(X[rows], y[rows], classes=np.arange(10))
        assert once.player_.weights.tobytes() == parts.player_.weights.tobytes()
        np.testing.assert_array_equal(once.predict_proba(X), parts.predict_proba(X))
        assert once.score(X, y) > 0.9


# -------------------------------------------------------------------------------------------- at home in scikit-learn


def test_pipelines_searches_and_clones(digits):
    X, y = digits[0][:500], digits[1][:500]
    pipeline = make_pipeline(StandardScaler(), GappletronClassifier("arow"))
    grid = {"gappletronclassifier__learner": ["gapsmh", "auto", Guarded()], "gappletronclassifier__bias": [True]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.8
    scores = search.cv_results_["mean_test_score"]
    assert scores[1] == scores[2] != scores[0]
    fresh = clone(search.best_estimator_[-1])
    assert not hasattr(fresh, "classes_")
    assert fresh.get_params() == search.best_estimator_[-1].get_params()
    assert cross_val_score(GappletronClassifier(), X, y, cv=2).mean() > 0.75


def test_one_pass_is_no_worse_than_theirs():
    """Of another library: logistic regression by SGD, five passes over scaled columns."""
    X, y = load_breast_cancer(return_X_y=True)
    ours = cross_val_score(GappletronClassifier(), X, y, cv=5).mean()
    theirs = cross_val_score(
        make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", max_iter=5, tol=None, random_state=0)),
        X,
        y,
        cv=5,
    ).mean()
    assert ours > theirs - 0.02


def test_frames_of_booleans_and_numbers():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"old": rng.random(60) < 0.5, "age": rng.integers(1, 90, 60), "size": rng.normal(size=60)})
    y = np.where(frame["age"] > 40, "senior", "junior")
    model = GappletronClassifier().fit(frame, y)
    assert model.feature_names_in_.tolist() == ["old", "age", "size"]
    assert model.n_features_in_ == 3
    plain = GappletronClassifier().fit(frame.to_numpy(float), y)
    np.testing.assert_array_equal(model.predict_proba(frame), plain.predict_proba(frame.to_numpy(float)))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["age", "old", "size"]])


def test_pickles_hold_a_saved_model_and_go_on(digits):
    with interpreted():
        X, y = digits[0][:100], digits[1][:100]
        model = GappletronClassifier("gapsmh", "bandit", random_state=3).fit(X, y)
        data = pickle.dumps(model)
        assert model.player_.to_bytes() in data
        assert b"gappletron.play.player" not in data  # the class Player is not unpickled: its bytes are read
        for again in (pickle.loads(data), copy.deepcopy(model)):
            np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
            twin = copy.deepcopy(model)
            first, second = again.act(X[:50]), twin.act(X[:50])
            np.testing.assert_array_equal(first.actions, second.actions)
            np.testing.assert_array_equal(first.probabilities, second.probabilities)
        damaged = bytearray(data)
        place = data.index(model.player_.to_bytes()) + 3000
        damaged[place] ^= 1
        with pytest.raises(UserError, match="damaged"):
            pickle.loads(bytes(damaged))


class Never(Exploration):
    """A piece from outside the package."""

    def explore(self, state, plan, greedy, gap, out):
        for i in range(out.size):
            out[i] = 1.0 if i == greedy else 0.0
        return 0.0


def test_learners_of_your_own_are_pickled_too(digits):
    X, y = digits[0][:50], digits[1][:50]
    with interpreted():
        model = GappletronClassifier(OneAgainstAll(exploration=Never())).fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        assert again.player_.learner.exploration == Never()
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_one_class_is_a_constant():
    model = GappletronClassifier(graph="bandit").fit([[1.0], [2.0]], ["only", "only"])
    assert model.predict([[3.0]]).tolist() == ["only"]
    assert model.predict_proba([[3.0]]).tolist() == [[1.0]]
    assert model.act([[3.0], [4.0]]).propensity(["only", None]).tolist() == [1.0, 1.0]
    assert pickle.loads(pickle.dumps(model)).predict([[3.0]]).tolist() == ["only"]


def test_two_classes_have_one_score():
    X, y = small_stream(np.random.default_rng(2), 80, 4, 2)
    with interpreted():
        model = GappletronClassifier("arow").fit(X, np.array(["no", "yes"])[y])
        found = model.decision_function(X)
        assert found.shape == (80,)
        np.testing.assert_array_equal(np.where(found > 0, "yes", "no"), model.predict(X))


# --------------------------------------------------------------------------------------------------- partial feedback


def test_the_order_of_a_graphs_classes_does_not_matter():
    """A graph's classes stand in any order; everything that comes out is sorted."""
    X, y = small_stream(np.random.default_rng(3), 90, 5, 3)
    labels = np.array(["a", "b", "c"])[y]
    graph = FeedbackGraph.label_efficient(["c", "a", "b"])
    with interpreted():
        model = GappletronClassifier("gapsmh", graph, random_state=4).fit(X, labels)
        player = Player("gapsmh", graph, 5, seed=4)
        for x, label in zip(X, labels, strict=True):
            turn = player.act(x)
            player.learn(turn, graph.class_index(str(label)) if turn.action == 3 else -1)
        assert model.player_.weights.tobytes() == player.weights.tobytes()
        assert model.classes_.tolist() == ["a", "b", "c"]
        assert model.predict(X).tolist() == [graph.classes[k] for k in player.predict_many(X)]
        np.testing.assert_array_equal(model.decision_function(X), player.scores(X)[:, [1, 2, 0]])
        np.testing.assert_array_equal(model.predict_proba(X), player.predict_proba(X)[:, [1, 2, 0]])
        turns = [player.act(x) for x in X]
        acts = model.act(X)
    assert acts.actions.tolist() == [graph.actions[turn.action] for turn in turns]
    assert set(acts.actions) == {"query", "a", "b", "c"}
    np.testing.assert_array_equal(acts.reveals.all(axis=1), acts.actions == "query")
    np.testing.assert_array_equal(acts.probabilities, [turn.probabilities for turn in turns])
    np.testing.assert_array_equal(acts.propensity(labels), acts.probabilities[:, 3])


def test_what_is_hidden_and_how_likely_it_was():
    X, y = small_stream(np.random.default_rng(3), 60, 5, 3)
    with interpreted():
        model = GappletronClassifier("gapsmh", "bandit").fit(X, y)
        acts = model.act(X)
    shown = acts.hide(y)
    for t in range(60):
        assert shown[t] == (y[t] if acts.actions[t] == y[t] else UNSEEN)
        assert acts.propensity(y)[t] == acts.probabilities[t, y[t]]
        assert acts.propensity(shown)[t] == (1.0 if shown[t] is UNSEEN else acts.probabilities[t, y[t]])
    assert 0 < (shown == UNSEEN).sum() < 60


@pytest.mark.parametrize("marker", [UNSEEN, None, float("nan"), pd.NA])
def test_labels_that_were_not_seen_teach_nothing(marker):
    X, y = small_stream(np.random.default_rng(5), 60, 5, 3)
    hidden = np.random.default_rng(6).random(60) < 0.5
    propensity = np.random.default_rng(7).uniform(0.2, 1.0, 60)
    labels = np.array([marker if hide else int(k) for hide, k in zip(hidden, y, strict=True)], dtype=object)
    with interpreted():
        model = GappletronClassifier("banditron-iw", "bandit")
        model.partial_fit(X, labels, classes=[0, 1, 2], propensity=np.where(hidden, np.nan, propensity))
        player = Player("banditron-iw", FeedbackGraph.bandit(3), 5)
        for x, label, chance, hide in zip(X, y, propensity, hidden, strict=True):
            if not hide:
                player.teach_vector(player.check(x), int(label), chance)
    assert model.player_.weights.tobytes() == player.weights.tobytes()
    assert model.player_.rounds == 0


def test_nan_in_an_array_of_floats_is_a_label_not_seen():
    with interpreted():
        model = GappletronClassifier().partial_fit([[1.0], [2.0]], np.array([np.nan, 2.0]), classes=[1, 2])
        one = GappletronClassifier().partial_fit([[2.0]], [2], classes=[1, 2])
        none = GappletronClassifier().partial_fit([[2.0]], [None], classes=[1, 2])
    assert model.player_.weights.tobytes() == one.player_.weights.tobytes()
    assert not none.player_.weights.any()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda model: model.partial_fit([[1.0]], ["a"]), "name all labels in the first call"),
        (lambda model: model.partial_fit([[1.0]], ["c"], classes=["a", "b"]), "not among the classes 'a', 'b'"),
        (lambda model: model.partial_fit([[1.0]], [""], classes=["a", "b"]), "not among the classes 'a', 'b'"),
        (lambda model: model.partial_fit([[1.0]], ["a", "b"], classes=["a", "b"]), "X has 1 rows and y has 2 labels"),
        (
            lambda model: model.partial_fit([[1.0]], ["a"], classes=["a", "b"], propensity=[0.5, 0.5]),
            "propensity has the shape",
        ),
        (
            lambda model: model.partial_fit([[1.0]], ["a"], classes=["a", "b"]).partial_fit([[1.0]], ["a"], ["a", "c"]),
            "give the same in every call",
        ),
        (
            lambda model: model.set_params(graph="filtering").fit([[1.0], [2.0]], ["a", "b"]),
            "the filtering graph needs the class that reveals",
        ),
        (lambda model: model.set_params(graph=3).fit([[1.0], [2.0]], ["a", "b"]), "neither the name of a preset"),
        (
            lambda model: model.set_params(learner="banditron").partial_fit([[1.0]], ["a"], classes=["a", "b"]),
            "cannot be taught labels",
        ),
    ],
)
def test_mistakes_are_told(call, sentence):
    with interpreted(), pytest.raises(UserError, match=sentence):
        call(GappletronClassifier("gapsmh", "bandit"))


def test_a_loop_under_filtering_learns():
    """Only what is predicted as malignant is looked at."""
    X, y = load_breast_cancer(return_X_y=True)
    with interpreted():
        model = GappletronClassifier("gapsmh", "filtering", 0, normalize="columns", bias=True, random_state=1)
        model.partial_fit(X[:20], y[:20], classes=[0, 1])
        seen = 0
        for start in range(20, len(y), 10):
            rows = slice(start, start + 10)
            acts = model.act(X[rows])
            shown = acts.hide(y[rows])
            seen += (shown != UNSEEN).sum()
            model.partial_fit(X[rows], shown, propensity=acts.propensity(shown))
        assert seen < 450
        assert model.score(X, y) > 0.9


def test_importing_the_package_does_not_load_scikit_learn():
    import subprocess
    import sys

    code = "import sys, gappletron; gappletron.Online; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_rows_that_are_sorted_by_class():
    """In their order the classes come one after the other; shuffled, the model is that of the shuffled rows."""
    X, y = load_iris(return_X_y=True)
    shuffled = GappletronClassifier(shuffle=True, random_state=3).fit(X, y)
    order = np.random.default_rng(3).permutation(len(y))
    np.testing.assert_array_equal(
        shuffled.player_.weights, GappletronClassifier(random_state=3).fit(X[order], y[order]).player_.weights
    )
    assert shuffled.score(X, y) > 0.8


# ---------------------------------------------------------------------------------------------- scores of another model


def scored_data():
    X, y = load_digits(return_X_y=True)
    return X[:400] / 16.0, np.array(list("abcdefghij"))[y[:400]]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_scorer_gives_its_probabilities_with_every_row(shuffle):
    X, y = scored_data()
    scorer = LogisticRegression(max_iter=300).fit(X[:80], y[:80])
    with interpreted():
        model = GappletronClassifier("auto", graph="bandit", scorer=scorer, shuffle=shuffle).fit(X[80:], y[80:])
        order = np.random.default_rng(0).permutation(320) if shuffle else np.arange(320)
        rows, S = X[80:][order], scorer.predict_proba(X[80:])[order]
        runs = Runs("auto", (rows, y[80:][order]), "bandit", scores=S)
        for _ in runs:
            pass
        assert (model.player_.weights == runs.weights()).all()
        assert model.predict_proba(rows).tolist() == runs.player().predict_proba(rows, S).tolist()
        assert (model.predict(rows) == np.array(list("abcdefghij"))[runs.player().predict_many(rows, scores=S)]).all()
        alone = GappletronClassifier("auto", graph="bandit").fit(X[80:], y[80:])
        assert model.score(X[80:], y[80:]) > alone.score(X[80:], y[80:])
        turn = runs.player().act(rows[0], scores=scorer.predict_proba(rows[:1])[0])
        assert model.act(rows[:1]).probabilities[0].tolist() == turn.probabilities.tolist()


def test_the_classes_of_a_scorer_are_matched_by_name():
    X, y = scored_data()
    few = np.isin(y, ["b", "d"])
    scorer = LinearSVC().fit(X[few], y[few])  # one decision value for two classes
    graph = FeedbackGraph.full(tuple("jihgfedcba"))
    with interpreted():
        model = GappletronClassifier("auto", graph=graph, scorer=scorer).partial_fit(X[:100], y[:100])
        twin = Player("auto", graph, X.shape[1])
        chances = np.zeros((400, 10))
        chances[:, 6] = 1.0 / (1.0 + np.exp(-scorer.decision_function(X)))
        chances[:, 8] = 1.0 - chances[:, 6]
        for x, label, own in zip(X[:100], y[:100], chances, strict=False):
            twin.teach_vector(twin.check(x), graph.class_index(label), None, twin.check_scores(own))
        assert model.predict_proba(X) == pytest.approx(twin.predict_proba(X, chances)[:, ::-1], abs=1e-9)
        with pytest.raises(UserError, match="the scorer has the class 'b', and the model 'x', 'y'"):
            GappletronClassifier("auto", scorer=scorer).fit(X[:50], np.where(y[:50] == "b", "x", "y"))
        with pytest.raises(UserError, match="gapsmh takes no scores"):
            GappletronClassifier("gapsmh", scorer=scorer).fit(X, y)
        with pytest.raises(UserError, match="the scorer is not fitted"):
            GappletronClassifier("auto", scorer=LinearSVC()).fit(X, y)


def test_a_frozen_scorer_survives_a_cross_validation():
    frozen = pytest.importorskip("sklearn.frozen")
    X, y = scored_data()
    scorer = LogisticRegression(max_iter=300).fit(X[:80], y[:80])
    with interpreted():
        model = GappletronClassifier("auto", scorer=frozen.FrozenEstimator(scorer))
        assert cross_val_score(model, X[80:], y[80:], cv=2).mean() > 0.8
