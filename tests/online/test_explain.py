"""Explanations: they add up to the scores, agree with leaving parts out, and name every feature of a record."""

from __future__ import annotations

import copy
import datetime
import json

import numpy as np
import pytest

from gappletron import (
    UNSEEN,
    Budget,
    Encoder,
    FeedbackGraph,
    GivenScores,
    Guarded,
    Online,
    UserError,
    interpreted,
    names,
)
from gappletron.kernel.numerics import dot
from gappletron.learners.learner import exchange
from gappletron.learners.perceptron import FullInformation
from gappletron.learners.score_parts import COSTS, GIVEN, GUARD, LIMITS
from problems import playable, small_stream

LINEAR = [name for name in names() if name != "exp3-g"]


def taught(learner, graph, rounds=25, features=6, **options):
    """A model that has played some rounds, as plain Python, and rows that it has not seen."""
    X, y = small_stream(np.random.default_rng(3), rounds + 3, features, graph.n_classes)
    model = Online(learner, graph, features=features, seed=1, **options)
    for row, label in zip(X[:rounds], y[:rounds], strict=True):
        receipt, name = model.act(row), graph.classes[label]
        model.learn(receipt, name if name in receipt.reveals else UNSEEN)
    return model, X[rounds:]


def difference(model, x, why, scores=None):
    """The difference that `why` explains, by the model's scores."""
    found = model.scores([x], None if scores is None else [scores])[0]
    classes = list(model.graph.classes)
    return found[classes.index(why.label)] - found[classes.index(why.against)]


def total(why):
    return sum(part.added for part in why.parts) + sum(why.others.values())


@pytest.mark.parametrize("name", LINEAR)
def test_the_parts_add_up_to_the_scores_of_every_learner(name):
    with interpreted():
        for options in ({"normalize": "columns", "bias": True}, {"normalize": None, "bias": False}):
            model, rows = taught(name, playable(name)[-1], **options)
            for x in rows:
                why = model.explain(x)
                assert why.label == model.predict(x)
                assert why.difference == difference(model, x, why)
                assert total(why) == pytest.approx(why.difference, rel=1e-12, abs=1e-12)
                assert ("bias" in why.others) == model.player.engine.bias
                assert list(why.probabilities.values()) == model.probabilities([x])[0].tolist()
                assert list(why.chances.values()) == model.predict_proba([x])[0].tolist()
                assert why.probability + why.exploration == pytest.approx(1.0)


@pytest.mark.parametrize("name", LINEAR)
def test_what_a_part_adds_is_what_the_score_loses_without_it(name):
    """Leaving an entry out, by the model's own scores. What else changes then, such as the guard's part, has a name."""
    with interpreted():
        model, rows = taught(name, playable(name)[-1], normalize=None, bias=False)
        for x in rows:
            why = model.explain(x)
            added = {part.name: part.added for part in why.parts}
            for j in np.flatnonzero(x):
                rest = x.copy()
                rest[j] = 0.0
                without = difference(model, rest, why)
                lost = added[f"feature {j}"]
                if name == "auto":  # the guard's own part, and what is cut, are of the row as a whole
                    other = model.explain(rest)
                    sign = 1.0 if other.label == why.label else -1.0
                    if {other.label, other.against} != {why.label, why.against}:
                        continue
                    lost += sum(why.others.values()) - sign * sum(other.others.values())
                assert why.difference - without == pytest.approx(lost, rel=1e-9, abs=1e-9)


def test_nothing_is_changed():
    with interpreted():
        model, rows = taught("auto", FeedbackGraph.filtering(3), monitor=True, budget=Budget(5, per=100))
        before = copy.copy(model)
        model.explain(rows[0])
        assert model.differences(before) == []
        assert model.act(rows[0]).probabilities.tolist() == before.act(rows[0]).probabilities.tolist()


def test_limits_costs_and_the_guard_have_parts_of_their_own():
    with interpreted():
        model, rows = taught("auto", FeedbackGraph.full(3), rounds=100, normalize=None, bias=False)
        far = model.explain(50.0 * rows[0])
        assert abs(far.others[LIMITS]) > 1.0  # scores of long rows are cut
        assert abs(far.difference) <= 2.5
        assert GUARD in far.others
        graph = FeedbackGraph.full(["ham", "spam"]).with_costs([("spam", "ham", 20.0)])
        model, rows = taught("auto", graph, rounds=100)
        turned = [why for why in map(model.explain, rows) if why.others[COSTS] > 0 and total(why) > 0]
        assert turned
        assert all(why.label == "ham" for why in turned)


def test_scores_of_ones_own_are_a_part():
    with interpreted():
        graph = FeedbackGraph.filtering(["ham", "spam"])
        scores = {"ham": 0.2, "spam": 0.8}
        model = Online(Guarded(scorer=GivenScores()), graph, features=3, seed=1)
        why = model.explain([1.0, 2.0, 0.5], scores=scores)
        assert [part.added for part in why.parts] == [0.0, 0.0, 0.0]
        assert why.others[GIVEN] == pytest.approx(why.difference)
        assert why.label == "spam"
        model, rows = taught("auto", graph)
        for x in rows:
            with_scores = model.explain(x, scores=scores)
            assert total(with_scores) == pytest.approx(with_scores.difference, rel=1e-12)
            assert with_scores.difference == difference(model, x, with_scores, scores)
            towards = 1.0 if with_scores.label == "spam" else -1.0
            assert towards * with_scores.others[GIVEN] > 0.0
            assert GIVEN not in model.explain(x).others


def test_learners_whose_scores_are_not_linear_say_so():
    class Curved(FullInformation):
        def scores(self, state, x, out):
            dot(state.weights, x, out)
            for k in range(out.size):
                out[k] = out[k] * out[k] * out[k]

        def update(self, state, plan, x, played):
            exchange(state.weights, x, played.label, played.greedy, 1.0)

    with interpreted():
        for learner in ("exp3-g", Curved()):
            model, rows = taught(learner, FeedbackGraph.full(3))
            with pytest.raises(UserError, match="not a sum over the columns"):
                model.explain(rows[0])


RECORDS = [
    {"message": "Win a PRIZE, win now! 日本 😀 naïve", "links": 3, "country": "DE", "age": None},
    {"nested": {"a": 1.5, "b": "two words", "c": [1, 2, "x", "y"]}, "flag": True, "none": []},
    {"day": datetime.date(2024, 1, 5), "price": "12.50", "code": 53111, "message": "", "number": "NA"},
    {"price": "many", "nan": float("nan"), "zero": 0, "message": None, 7: "key"},
    "a bare text, twice: a text",
    b"bytes \xe9",
]


@pytest.mark.parametrize("features", [2**62, 50])
@pytest.mark.parametrize("ngrams", [1, 3])
def test_every_feature_of_a_record_has_a_name(features, ngrams):
    encoder = Encoder(
        text=["message", "day"], numeric=["price", "number"], categorical="code", features=features, ngrams=ngrams
    )
    for record in RECORDS:
        found = encoder.find_names(record)
        assert set(encoder.encode(record)[0].tolist()) <= set(found)
        assert all(found.values())
    assert sorted(Encoder(numeric="n").find_names({"n": "3", "c": "b", "m": None}).values()) == [
        "c = b",
        "m is missing",
        "n",
    ]


def test_a_record_is_explained_in_its_own_words():
    with interpreted():
        encoder = Encoder(text="message", numeric="links", categorical="country")
        model = Online(graph=FeedbackGraph.full(["ham", "spam"]), encoder=encoder)
        for _ in range(20):
            model.teach({"message": "win a prize", "links": 5, "country": "US"}, "spam")
            model.teach({"message": "see you", "links": 0, "country": "DE"}, "ham")
        why = model.explain({"message": "Win win a day", "links": 4, "country": "US", "new": None})
        values = {part.name: part.value for part in why.parts}
        assert values == {
            "message: win": 2,
            "message: a": 1,
            "message: day": 1,
            "links": 4,
            "country = US": 1,
            "new is missing": 1,
        }
        added = {part.name: part.added for part in why.parts}
        assert (why.label, why.against) == ("spam", "ham")
        assert added["message: win"] > added["message: a"] > 0
        assert added["country = US"] > 0
        assert added["message: day"] == added["new is missing"] == 0.0  # never seen
        sizes = [abs(part.added) for part in why.parts]
        assert sizes == sorted(sizes, reverse=True)
        text = str(why)
        assert text.startswith("spam, not ham: decided with probability")
        assert json.loads(json.dumps(why.to_dict()))["parts"][0] == vars(why.parts[0])
        assert "message: win" in why._repr_html_()
        assert "&lt;b&gt;" in model.explain({"message": "x", "country": "<b>"})._repr_html_()
