"""Scores of one's own model: one by one, in bulk, after loading and after a replay the same bits."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.sparse import csr_array

from gappletron import (
    UNSEEN,
    Encoder,
    FeedbackGraph,
    Online,
    Player,
    Receipt,
    UserError,
    interpreted,
    read_decisions,
)
from gappletron.data.prepared import Prepared, prepare
from gappletron.data.scores import squash_scores
from gappletron.data.stream import make_chunk
from gappletron.online import events
from gappletron.online.contents import FORMAT
from gappletron.online.off_policy import evaluate_off_policy
from gappletron.play import archive
from stores import crash, tamper

CLASSES = ["a", "b", "c"]
GRAPH = FeedbackGraph.filtering(CLASSES)
FEATURES = 4


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Interpreted rounds, and a clock that stands still."""
    monkeypatch.setattr("gappletron.online.model.time.time", lambda: 1000.0)
    with interpreted():
        yield


def data(rounds, seed=0, classes=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=rounds)
    X = rng.normal(size=(rounds, FEATURES))
    return X, rng.normal(size=(rounds, classes)) + 2.0 * np.eye(classes)[labels], labels


def new_model(**options):
    return Online("auto", GRAPH, FEATURES, seed=3, monitor=True, **options)


def list_mappings(S):
    return [dict(zip("abc", s, strict=True)) for s in S]


def feed(model, receipts, labels):
    for receipt, label in zip(receipts, labels, strict=True):
        name = CLASSES[label]
        model.learn(receipt.id, name if name in receipt.reveals else UNSEEN)


def numbers(receipts):
    return [receipt.turn.record.tolist() for receipt in receipts]


@pytest.mark.parametrize("size", [5, 40])  # one by one inside, and together
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, list, list_mappings])
def test_many_rows_are_played_as_one_by_one(size, form):
    X, S, labels = data(3 * size)
    one, many = new_model(), new_model()
    for start in range(0, 3 * size, size):
        here = slice(start, start + size)
        singles = [one.act(x, scores=s) for x, s in zip(X[here], S[here], strict=True)]
        together = many.act_many(csr_array(X[here]) if size > 5 else X[here], scores=form(S[here]))
        assert numbers(singles) == numbers(together)
        feed(one, singles, labels[here])
        feed(many, together, labels[here])
    assert one.differences(many) == []
    # The bulk loop plays the same rounds, where feedback comes at once.
    single, bulk = new_model(), new_model()
    for x, s, label in zip(X, S, labels, strict=True):
        feed(single, [single.act(x, scores=s)], [label])
    ends = np.arange(0, X.size + 1, FEATURES)
    chunk = make_chunk(ends, np.tile(np.arange(FEATURES), len(X)), X.ravel(), labels)
    bulk.player.advance(chunk, scores=S)
    assert (bulk.weights == single.weights).all()
    assert bulk.probabilities(X, scores=S).tolist() == single.probabilities(X, scores=S).tolist()


def test_many_classes_are_squashed_to_the_same_bits_in_any_order_of_memory():
    _, S, _ = data(50, classes=19)
    graph = FeedbackGraph.bandit(19)
    one, many = Online("auto", graph, FEATURES), Online("auto", graph, FEATURES)
    X = np.ones((50, FEATURES))
    singles = [one.act(x, scores=s) for x, s in zip(X, S, strict=True)]
    assert numbers(singles) == numbers(many.act_many(X, scores=np.asfortranarray(S)))


def test_scores_matter_and_predictions_take_them():
    X, S, labels = data(60)
    model = new_model()
    for x, s, label in zip(X, S, labels, strict=True):
        feed(model, [model.act(x, scores=s)], [label])
    singles = [model.predict(x, scores=s) for x, s in zip(X, S, strict=True)]
    assert model.predict_many(X, scores=S) == singles
    assert singles == [CLASSES[k] for k in model.scores(X, scores=S).argmax(1)]
    assert singles == model.predict_many(X, scores=list_mappings(S))
    right = np.mean([CLASSES[label] == name for label, name in zip(labels, singles, strict=True)])
    alone = np.mean([CLASSES[label] == name for label, name in zip(labels, model.predict_many(X), strict=True)])
    assert right > alone + 0.2
    P = model.predict_proba(X, scores=S)
    assert P.sum(1) == pytest.approx(1.0)
    assert (model.predict_proba(X) != P).any()
    assert model.predict(X[0], scores={"c": 0.0, "b": 0.0, "a": 1.0}) == model.predict(X[0], scores=[1, 0, 0])


def test_wrong_scores_are_refused_before_anything_changes():
    model = Online("auto", GRAPH, "grow", seed=3, monitor=True)
    untouched = copy.copy(model)
    X, S, _ = data(40)
    far = [(np.array([5000]), np.array([1.0]))] * 40
    wrong = [[1.0, 2.0], {"a": 1.0, "b": 0.0}, "abc", [1.0, np.nan, 0.0], {"a": 1, "b": 2, "c": "x"}, 0.5]
    for scores in wrong:
        for call in (
            lambda s: model.act(far[0], scores=s),
            lambda s: model.follow(far[0], "a", [1.0, 0.0, 0.0], scores=s),
            lambda s: model.teach(far[0], "a", scores=s),
            lambda s: model.predict(far[0], scores=s),
            lambda s: model.act_many(far[:2], scores=[S[0], s]),
            lambda s: model.act_many(far, scores=[*S[:39], s]),
        ):
            with pytest.raises(UserError, match="scores"):
                call(scores)
    with pytest.raises(UserError, match="39 scores for 40 rows"):
        model.act_many(far, scores=list(S[:39]))
    with pytest.raises(UserError, match="40 rows and 3 columns"):
        model.act_many(far, scores=S[:39])
    assert model.differences(untouched) == []
    assert model.features == untouched.features
    other = Online("gapsmh", GRAPH, FEATURES)
    for call in (lambda: other.act(X[0], scores=S[0]), lambda: other.act_many(X, scores=S)):
        with pytest.raises(UserError, match="gapsmh takes no scores: use the learner 'auto'"):
            call()
    assert other.rounds == 0


def play_all(model, X, S, labels):
    """Every way into a model: single rounds, batches, another's decisions, and labels that are known."""
    for x, s, label in zip(X[:20], S[:20], labels[:20], strict=True):
        feed(model, [model.act(x, scores=s)], [label])
    receipts = model.act_many(csr_array(X[20:60]), scores=S[20:60])
    feed(model, receipts[:30], labels[20:50])
    feed(model, [model.follow(X[60], "a", [0.5, 0.25, 0.25], scores=S[60])], labels[60:61])
    model.teach(X[61], CLASSES[labels[61]], scores=S[61])
    model.act(X[62])  # none came
    return model.act(X[63], scores=S[63])


def test_saved_copied_and_replayed_models_go_on_with_the_same_bits(tmp_path):
    X, S, labels = data(120)
    plain_model, folder = new_model(), tmp_path / "store.sqlite"
    journalled = Online.open(folder, "auto", GRAPH, FEATURES, seed=3)
    for model in (plain_model, journalled):
        play_all(model, X, S, labels)
    plain_model.save(tmp_path / "model.npz")
    loaded, copied = Online.load(tmp_path / "model.npz"), copy.copy(plain_model)
    journalled.close()
    replayed = Online.from_store(folder, replay="first")
    again = Online.open(folder)
    models = [plain_model, loaded, copied, replayed, again]
    for _ in range(2):
        for model in models[1:]:
            assert plain_model.differences(model) == []
            assert [each.turn.kept.tolist() for each in model.pending] == [
                each.turn.kept.tolist() for each in plain_model.pending
            ]
        for model in models:  # what waits is learned from, and the next rounds are the same
            feed(model, model.pending, [label % 3 for label in range(len(model.pending))])
            model.act_many(X[64:100], scores=S[64:100])
    again.close()


def test_the_table_of_decisions_shows_the_scores_of_every_round(tmp_path):
    X, S, labels = data(120)
    with Online.open(tmp_path / "m", "auto", GRAPH, FEATURES, seed=3) as model:
        play_all(model, X, S, labels)
    (table,) = read_decisions(tmp_path / "m")
    found = table.column("scores").to_pylist()
    assert found[0] == squash_scores(S[0]).tolist()
    assert found[61] is None
    assert [row for row in found if row is not None] == squash_scores(S[[*range(61), 63]]).tolist()


def test_off_policy_evaluation_gives_the_learner_the_logged_scores(tmp_path):
    X, S, labels = data(200)
    with Online.open(tmp_path / "m", "auto", GRAPH, FEATURES, seed=3, durability="os") as model:
        for x, s, label in zip(X, S, labels, strict=True):
            model.teach(x, CLASSES[label], scores=s)
            feed(model, [model.act(x, scores=s)], [label])
    errors = {name: evaluate_off_policy(tmp_path / "m", name).estimates[0].value for name in ("auto", "gapsmh")}
    assert errors["auto"] < errors["gapsmh"]


def test_events_whose_scores_do_not_fit_are_damage(tmp_path):
    for number, scores in enumerate((np.zeros(2), np.array([0.0, 2.0, 0.0]), np.array([0.0, np.nan, 0.0]))):
        place = tmp_path / str(number)
        model = Online.open(place, "auto", GRAPH, FEATURES)
        model.act(np.ones(FEATURES), scores=[1.0, 2.0, 3.0])
        crash(model)
        (row,) = tamper(place, "SELECT * FROM acts")
        head = row[1], *row[3:8], row[10], row[11], row[14]
        checksum = events._sum_act(head, row[2], row[8], scores.tobytes())
        tamper(place, "UPDATE acts SET scores = ?, checksum = ?", scores.tobytes(), checksum)
        with pytest.raises(UserError, match="does not fit those before it"):
            Online.open(place)


def test_receipts_carry_what_was_kept():
    model = new_model()
    receipt = model.act(np.ones(FEATURES), scores=[1.0, 2.0, 3.0])
    data = receipt.to_dict()
    assert data["kept"][:4] == [1.0, *squash_scores(np.array([1.0, 2.0, 3.0]))]
    again = Receipt.from_dict(data)
    assert again.turn.record.tolist() == receipt.turn.record.tolist()
    for changed in ([[1.0]], ["x"], [np.inf], None):
        if changed is None:
            del data["kept"]
        else:
            data["kept"] = changed
        with pytest.raises(UserError, match="not the values of a receipt"):
            Receipt.from_dict(data)


def test_turns_that_kept_something_else_are_refused(tmp_path):
    X, S, _ = data(40)
    graph = FeedbackGraph.bandit(3)
    own, other = Player("auto", graph, FEATURES), Player("gapsmh", graph, FEATURES, normalize="columns", bias=True)
    for mine, theirs in ((own, other), (other, own)):
        turn = theirs.act(X[0])
        with pytest.raises(UserError, match="of another learner"):
            mine.learn(turn, 0)
        with pytest.raises(UserError, match="of another learner"):
            mine.learn_many([mine.act(X[0]), turn], [0, 0])
    # A file whose waiting receipts keep another number of values.
    model = new_model()
    model.act(X[0], scores=S[0])
    header, arrays = model._contents.describe()
    receipt = model.pending[0].to_dict()
    shorter = Receipt.from_dict(receipt | {"kept": receipt["kept"][:-1]}).turn.record
    arrays |= {"receipts.records": shorter, "receipts.sizes": np.array([shorter.size])}
    (tmp_path / "model.npz").write_bytes(archive.to_bytes(FORMAT, header, arrays))
    with pytest.raises(UserError, match="a waiting receipt does not fit the model"):
        Online.load(tmp_path / "model.npz")


def test_receipts_from_before_a_class_was_added_still_teach(tmp_path):
    model = Online("auto", FeedbackGraph.bandit(CLASSES), FEATURES, seed=1)
    receipt = model.act(np.ones(FEATURES), scores=[1.0, 2.0, 3.0])
    model.add_class("d")
    model.save(tmp_path / "model.npz")
    again = Online.load(tmp_path / "model.npz")
    for each in (model, again):
        each.learn(receipt.id, receipt.action)
        with pytest.raises(UserError, match="scores must be 4 finite numbers"):
            each.act(np.ones(FEATURES), scores=[1.0, 2.0, 3.0])
        each.act(np.ones(FEATURES), scores=[1.0, 2.0, 3.0, 0.0])
    assert model.differences(again) == []


def test_chunks_with_scores_of_other_sizes_are_refused():
    player = Player("auto", FeedbackGraph.bandit(3), FEATURES)
    ready = prepare(make_chunk(np.array([0, 1]), np.array([0]), np.ones(1), np.zeros(1, np.int64)))
    for shape in ((1, 2), (1, 9), (2, 3)):
        chunk = Prepared(ready.chunk, ready.squared, ready.features, ready.classes, np.zeros(shape))
        with pytest.raises(UserError, match="a score for each class"):
            player.advance(chunk)


def test_models_of_records_take_scores():
    encoder = Encoder(features=64)
    one, many = (Online("auto", GRAPH, encoder=encoder, monitor=True) for _ in range(2))
    _, S, _ = data(40)
    records = [{"word": f"w{k % 5}", "size": float(k)} for k in range(40)]
    singles = [one.act(record, scores=s) for record, s in zip(records, S, strict=True)]
    assert numbers(singles) == numbers(many.act_many(records, scores=S))
    assert one.predict_many(records, scores=S) == [one.predict(r, scores=s) for r, s in zip(records, S, strict=True)]
