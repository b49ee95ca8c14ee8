"""The weights of names: they are what scores gain by one column, and names survive files, logs and copies."""

from __future__ import annotations

import copy
import itertools
import json
import pickle

import numpy as np
import pandas as pd
import pytest

from gappletron import UNSEEN, Encoder, FeedbackGraph, Online, Player, UserError, interpreted, names, open_stream
from gappletron.data.records import kept_names
from gappletron.data.records.kept_names import KeptName, KeptNames
from gappletron.online.opening import read_past
from problems import ended, playable

LINEAR = [name for name in names() if name != "exp3-g"]
ENCODER = Encoder(text="message", numeric="links", categorical="country", names=True)


def draw_records(n, seed=0):
    """Records and their labels, of which some are wrong."""
    rng = np.random.default_rng(seed)
    words = {"spam": ["win", "prize", "now", "big"], "ham": ["see", "you", "five", "now"]}
    found = []
    for _ in range(n):
        label = str(rng.choice(["ham", "spam"]))
        record = {
            "message": " ".join(rng.choice(words[label], 3)),
            "links": float(rng.integers(4)) + 2.0 * (label == "spam"),
            "country": [None, "DE", "US"][rng.integers(3)],
        }
        found.append((record, label if rng.random() < 0.9 else "ham"))
    return found


def taught(learner="auto", classes=("ham", "spam"), encoder=ENCODER, n=40, **options):
    model = Online(learner, FeedbackGraph.full(classes), encoder=encoder, seed=1, **options)
    records, labels = zip(*draw_records(n), strict=True)
    model.teach_many(records, labels)
    return model


def played(learner, encoder=ENCODER, n=40, **options):
    """A model that has played records on a graph that its learner can play."""
    graph = playable(learner)[-1]
    model = Online(learner, graph, encoder=encoder, seed=1, **options)
    for record, label in draw_records(n):
        receipt, name = model.act(record), graph.classes[int(label == "spam")]
        model.learn(receipt, name if name in receipt.reveals else UNSEEN)
    return model


def make_record(each):
    """A record that holds nothing but what a weight is of."""
    if ": " in each.name:
        column, word = each.name.split(": ")
        return {column: word}
    if " = " in each.name:
        column, category = each.name.split(" = ")
        return {column: category}
    if each.name.endswith(" is missing"):
        return {each.name.removesuffix(" is missing"): None}
    return {each.name: each.value}


@pytest.mark.parametrize("options", [{}, {"normalize": None, "bias": False}, {"normalize": "unit"}])
@pytest.mark.parametrize("name", [name for name in LINEAR if name != "auto"])
def test_a_weight_is_what_the_score_gains_by_a_record_of_this_name_alone(name, options):
    with interpreted():
        model = played(name, n=15, **options)
        found = model.feature_weights(100)
        before = model.scores([{}])[0]
        for position, label in enumerate(model.graph.classes):
            assert {each.name for each in found.largest[label]} >= {"message: win", "links", "country = DE"}
            for each in found.largest[label]:
                gained = model.scores([make_record(each)])[0][position] - before[position]
                assert each.weight == pytest.approx(gained, rel=1e-9, abs=1e-12)
        assert found.unnamed == 0


@pytest.mark.parametrize("options", [{}, {"normalize": None, "bias": False}])
def test_with_the_default_learner_too(options):
    """Its guard, its limits and its bias are parts of their own, which an explanation names."""
    with interpreted():
        model = taught(**options)
        found = model.feature_weights(100)
        by_class = {label: {each.name: each for each in rows} for label, rows in found.largest.items()}
        assert max(each.weight for each in found.largest["spam"]) > 0.1
        for name, each in by_class["ham"].items():
            why = model.explain(make_record(each))
            difference = by_class[why.label][name].weight - by_class[why.against][name].weight
            assert difference + sum(why.others.values()) == pytest.approx(why.difference, rel=1e-6, abs=1e-9)


def test_names_that_share_a_feature_have_their_own_signs():
    with interpreted():
        encoder = Encoder(text="message", numeric="links", categorical="country", features=3, names=True)
        model = taught("one-against-all", encoder=encoder, normalize=None, bias=False)
        found = model.feature_weights(100)
        assert found.named == 11  # seven words, links, and three countries
        for position, label in enumerate(model.graph.classes):
            for each in found.largest[label]:
                assert each.weight == pytest.approx(model.scores([make_record(each)])[0][position], rel=1e-9)


def test_the_largest_come_first_and_only_so_many():
    with interpreted():
        model = taught()
        every, few = model.feature_weights(100), model.feature_weights(top=3)
        for label, rows in every.largest.items():
            sizes = [abs(each.weight) for each in rows]
            assert sizes == sorted(sizes, reverse=True)
            assert few.largest[label] == rows[:3]
        assert every.largest["spam"][0].name.removeprefix("message: ") in "win prize big see you five links"
        with pytest.raises(UserError, match="top must be"):
            model.feature_weights(0)


def test_it_prints_as_tables():
    with interpreted():
        model = Online(graph=FeedbackGraph.full(["<a>", "b\n"]), encoder=Encoder(names=True))
        model.teach("a long line of words", "<a>")
        found = model.feature_weights()
        text = str(found)
        assert "largest weights for <a>" in text
        assert "b\\n" in text
        assert "5 names are kept" in text
        assert max(map(len, found.to_text(30).splitlines())) <= 30
        assert "&lt;a&gt;" in found._repr_html_()
        document = json.loads(json.dumps(found.to_dict()))
        assert [each["class"] for each in document["classes"]] == ["<a>", "b\n"]
        assert set(document["classes"][0]["weights"][0]) == {"name", "value", "weight"}


def test_at_most_so_many_are_kept_and_the_others_are_counted():
    with interpreted():
        model, whole = Online(graph=FeedbackGraph.full(["ham", "spam"]), encoder=ENCODER, seed=1), taught()
        model._contents.names = KeptNames(most=4)
        for record, label in draw_records(40):
            model.teach(record, label)
        found = model.feature_weights(100)
        first = [name.text for name in itertools.islice(whole._contents.names, 4)]
        assert [name.text for name in model._contents.names] == first
        assert (found.named, found.unnamed) == (4, 7)
        assert "4 names are kept; 7 features have none" in str(found)
        assert np.array_equal(model.weights, whole.weights)  # only the names are bounded
    assert kept_names.MOST_KEPT == KeptNames()._most == 100_000


def test_models_without_names_say_what_to_do():
    with interpreted():
        for model in (
            Online(graph=FeedbackGraph.full(["a", "b"]), encoder=Encoder()),
            Online(graph=FeedbackGraph.full(["a", "b"]), features=2),
        ):
            with pytest.raises(UserError, match=r"make it with Encoder\(names=True\)"):
                model.feature_weights()
            with pytest.raises(UserError, match=r"make it with Encoder\(names=True\)"):
                model.keep_names(KeptNames())
            assert not any(name.startswith("names") for name in model._contents.describe()[1])
        with pytest.raises(UserError, match="not a sum over the columns"):
            played("exp3-g").feature_weights()


def list_names(model):
    return list(model._contents.names)


def test_files_copies_and_pickles_keep_them(tmp_path):
    with interpreted():
        model = taught()
        before = str(model.feature_weights())
        model.save(tmp_path / "model.npz")
        for other in (Online.load(tmp_path / "model.npz"), copy.copy(model), pickle.loads(pickle.dumps(model))):
            assert other.encoder == model.encoder
            assert list_names(other) == list_names(model)
            assert str(other.feature_weights()) == before
            assert model.differences(other) == []
            other.teach({"message": "tomorrow"}, "ham")
            assert len(list_names(other)) == len(list_names(model)) + 1
        assert str(model.feature_weights()) == before
        assert Encoder.from_dict(ENCODER.to_dict()).names


@pytest.mark.parametrize(
    "change",
    [
        {"names.features": np.array([1, 2], np.int64)},
        {"names.features": np.array([-1], np.int64)},
        {"names.features": np.array([1.0])},
        {"names.signs": np.array([2], np.int64)},
        {"names.texts": np.frombuffer(b"[1]", np.uint8)},
        {"names.texts": np.frombuffer(b'"a"', np.uint8)},
        {"names.texts": np.frombuffer(b"\xff", np.uint8)},
    ],
)
def test_damaged_names_are_refused(change):
    arrays = KeptNames([KeptName(7, "links", 0)]).to_arrays()
    with pytest.raises(UserError, match="damaged"):
        KeptNames.from_arrays(arrays | change)


def test_a_log_has_them(tmp_path):
    """After a kill they are read from the log, from the last snapshot or from the first."""
    with interpreted():
        place, graph = tmp_path / "mail.sqlite", FeedbackGraph.filtering(["ham", "spam"])
        records = draw_records(60)
        with Online.open(place, graph=graph, encoder=ENCODER, snapshot_every=25) as model:
            for record, label in records[:20]:
                receipt = model.act(record)
                model.learn(receipt, label if label in receipt.reveals else UNSEEN)
            model.teach(*records[20])
            model.teach_many(*zip(*records[21:30], strict=True))
            model.act_many([{"message": "tomorrow"}])
            model.follow({"message": "yesterday"}, "ham", [0.5, 0.5])
            expected = list_names(model)
            assert {"message: tomorrow", "message: yesterday"} <= {name.text for name in expected}
            for replay in ("last", "first"):  # while the other is open, as after a kill
                again = Online.from_store(place, replay=replay)
                assert list_names(again) == expected
                assert model.differences(again) == []
            event = read_past(*model.stored_as, None, 10, ()).event
            model.roll_back(event=event)
            assert list_names(model) == expected  # what was learned is another matter
        with Online.open(place) as model:
            assert list_names(model) == expected


def test_nothing_is_kept_of_predictions_and_of_what_is_refused():
    with interpreted():
        model = taught()
        before = list_names(model)
        model.predict({"message": "tomorrow"})
        model.explain({"message": "tomorrow"})
        model.predict_many([{"message": "tomorrow"}])
        with pytest.raises(UserError):
            model.teach({"message": "tomorrow"}, "eggs")
        with pytest.raises(UserError):
            model.act({"message": "tomorrow"}, graph=FeedbackGraph.full(["a", "b", "c"]))
        assert list_names(model) == before


def test_every_way_to_learn_keeps_the_same():
    with interpreted():
        graph, records = FeedbackGraph.full(["ham", "spam"]), draw_records(40)
        rows, labels = map(list, zip(*records, strict=True))
        expected = {name.text for name in list_names(taught())}
        assert "country is missing" in expected
        ways = {
            "frame": lambda model: model.teach_many(pd.DataFrame(rows), labels),
            "iterator": lambda model: model.teach_many(iter(rows), iter(labels)),
            "few": lambda model: [model.teach_many(rows[at : at + 5], labels[at : at + 5]) for at in range(0, 40, 5)],
            "act": lambda model: [model.act(row) for row in rows],
            "act many": lambda model: model.act_many(iter(rows)),
            "act frame": lambda model: model.act_many(pd.DataFrame(rows)),
        }
        for way, learn in ways.items():
            model = Online(graph=graph, encoder=ENCODER)
            learn(model)
            assert {name.text for name in list_names(model)} == expected, way
        for data in ((rows, labels), (pd.DataFrame(rows), labels)):
            stream = open_stream(data, encoder=ENCODER)
            player = Player("auto", graph, stream.features, rows="records")
            for chunk in stream.chunks():
                player.teach(chunk)
            model = Online.from_player(player, stream.encoder)
            model.keep_names(stream.names)
            assert {name.text for name in list_names(model)} == expected
            assert model.feature_weights().unnamed == 0


def test_the_command_line_keeps_them_too(tmp_path):
    history, model, played_model = tmp_path / "history.csv", tmp_path / "model.npz", tmp_path / "played.npz"
    rows = [f"{label},{record['message']},{record['links']}" for record, label in draw_records(40)]
    history.write_text("\n".join(["label,message,links", *rows]))
    about = ["--label", "label", "--text", "message", "--graph", "full"]
    assert ended("teach", model, history, *about, "--names")[0] == 0
    assert ended("run", history, *about, "--names", "--save", played_model)[0] == 0
    for path in (model, played_model):
        code, out, err = ended("weights", path, "--top", 30, "--json", "-")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["named"], found["unnamed"]) == (8, 0)
        kept = {each["name"] for each in found["classes"][0]["weights"]}
        assert kept == {"links", *(f"message: {word}" for word in ["win", "prize", "now", "big", "see", "you", "five"])}
    more = tmp_path / "more.csv"
    more.write_text("label,message,links\nham,tomorrow,1\nspam,win,2\n")
    assert ended("teach", model, more, "--label", "label")[0] == 0
    assert ended("run", more, "--label", "label", "--load", played_model, "--save", played_model)[0] == 0
    for path in (model, played_model):
        assert "message: tomorrow" in ended("weights", path)[1]
    plain = tmp_path / "plain.npz"
    assert ended("teach", plain, history, *about)[0] == 0
    code, out, err = ended("weights", plain)
    assert (code, out) == (2, "")
    assert "make it with --names (of teach, run or serve)" in err
    code, _, err = ended("teach", plain, history, "--label", "label", "--names")
    assert code == 2
    assert "--names" in err
