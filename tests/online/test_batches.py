"""Many rows at once, act_many and learn_many: the same bits as one by one, also from a store."""

from __future__ import annotations

import contextlib
import copy
import itertools
import signal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from gappletron import UNSEEN, Budget, Encoder, FeedbackGraph, Online, Player, UserError, interpreted
from gappletron.kernel.compiling import entry_points
from gappletron.play.turns import WAITING
from problems import GRAPHS, random_graph
from stores import crash

FEATURES = 12


def rows_of(rng, number, features=FEATURES):
    dense = rng.normal(size=(number, features)) * (rng.random((number, features)) < 0.4)
    dense[rng.random(number) < 0.1] = 0.0
    return csr_array(dense)


def pairs_of(matrix):
    ends = matrix.indptr
    return [(matrix.indices[a:b], matrix.data[a:b]) for a, b in itertools.pairwise(ends)]


def labels_for(rng, receipts):
    """The feedback of labels drawn at random: what each action shows of its own."""
    found = []
    for receipt in receipts:
        label = receipt.graph.classes[rng.integers(receipt.graph.n_classes)]
        found.append((receipt.id, label if label in receipt.reveals else UNSEEN))
    return found


def assert_same(one, many):
    assert one.rounds == many.rounds
    assert one.features == many.features
    assert (one.weights == many.weights).all()
    assert [receipt.serial for receipt in one.pending] == [receipt.serial for receipt in many.pending]
    for mine, other in zip(one.pending, many.pending, strict=True):
        first, second = mine.to_dict(), other.to_dict()
        assert {**first, "id": 0, "time": 0} == {**second, "id": 0, "time": 0}
    assert one.monitor.report() == many.monitor.report()
    assert one.act([0.5] * FEATURES).probability == many.act([0.5] * FEATURES).probability  # the generator, too


def play_both(one, many, seed, sizes=(40, 7, 100, 33), form=csr_array):
    for size in sizes:
        X = rows_of(np.random.default_rng(seed + size), size)
        singles = [one.act(x) for x in pairs_of(X)]
        together = many.act_many(X if form is csr_array else pairs_of(X))
        assert [each.action for each in singles] == [each.action for each in together]
        assert [each.probability for each in singles] == [each.probability for each in together]
        kept = np.random.default_rng(size).permutation(size)[: 9 * size // 10]
        for name, label in labels_for(np.random.default_rng(seed), [singles[place] for place in kept]):
            one.learn(name, label)
        many.learn_many(labels_for(np.random.default_rng(seed), [together[place] for place in kept]))


@pytest.mark.parametrize("graph", [name for name in GRAPHS if GRAPHS[name].n_classes <= 4])  # one width: one kernel
def test_batches_are_the_rounds_one_by_one(graph):
    one, many = (Online(graph=GRAPHS[graph], features=FEATURES, seed=3, monitor=True) for _ in range(2))
    play_both(one, many, 0)
    assert_same(one, many)


@pytest.mark.parametrize(
    ("learner", "options"),
    [
        ("gapsmh", {}),
        ("gapsmh", {"min_propensity": 0.05, "budget": Budget(5, per=50)}),
    ],
)
@pytest.mark.parametrize("form", [csr_array, list])
def test_also_with_another_learner_and_limits(learner, options, form):
    graph = FeedbackGraph.bandit(4)
    one, many = (Online(learner, graph, FEATURES, seed=3, monitor=True, **options) for _ in range(2))
    play_both(one, many, 1, form=form)
    assert_same(one, many)


def test_feedback_of_rounds_on_several_graphs():
    """Rounds on another graph, and from before a class was added."""
    other = FeedbackGraph.bandit(["a", "b", "c"])
    one, many = (Online("auto", FeedbackGraph.full(["a", "b", "c"]), FEATURES, monitor=True) for _ in range(2))
    X, rng = rows_of(np.random.default_rng(0), 40), np.random.default_rng(1)
    for model in (one, many):
        model.kept = [*model.act_many(X), *model.act_many(X, other)]
        model.add_class("d")
        model.kept += model.act_many(X)
    order = rng.permutation(120)
    names = [one.graph.classes[k] for k in rng.integers(3, size=120)]
    feedback = [
        [(model.kept[n], names[n] if names[n] in model.kept[n].reveals else UNSEEN) for n in order]
        for model in (one, many)
    ]
    for receipt, label in feedback[0]:
        one.learn(receipt, label)
    many.learn_many(feedback[1])
    assert_same(one, many)
    numbers = [[receipt.to_dict()["scores"] for receipt in model.kept] for model in (one, many)]
    assert numbers[0] == numbers[1]  # those that it was learned at


def test_interpreted_is_compiled():
    graph = random_graph(np.random.default_rng(5), 3, 1)
    one = Online("gapsmh", graph, FEATURES, seed=3, monitor=True)
    with interpreted():
        many = Online("gapsmh", graph, FEATURES, seed=3, monitor=True)
        play_both(one, many, 2, sizes=(35,))
    assert_same(one, many)


def test_growing_takes_the_same_steps():
    one, many = (Online("gapsmh", FeedbackGraph.bandit(3), "grow", monitor=True) for _ in range(2))
    rng = np.random.default_rng(0)
    X = csr_array((np.ones(60), np.sort(rng.integers(0, 6000, 60)), np.arange(61)), shape=(60, 6000))
    singles, together = [one.act(x) for x in pairs_of(X)], many.act_many(X)
    assert [each.probability for each in singles] == [each.probability for each in together]
    for receipts in (singles, together):
        model = one if receipts is singles else many
        model.learn_many([(each, each.action if n % 2 else UNSEEN) for n, each in enumerate(receipts)])
    assert one.features == many.features == np.unique(X.indices).size
    assert (one.weights == many.weights).all()


def test_records_in_batches():
    graph = FeedbackGraph.filtering(["ham", "spam"])
    one, many = (Online(graph=graph, encoder=Encoder(text="m", features=64), monitor=True) for _ in range(2))
    records = [{"m": f"word{n % 7} and {n % 3}", "n": n} for n in range(80)]
    singles, together = [one.act(record) for record in records], many.act_many(records)
    assert [each.probability for each in singles] == [each.probability for each in together]
    many.learn_many([(each, "ham" if each.reveals else UNSEEN) for each in together])
    for each in singles:
        one.learn(each, "ham" if each.reveals else UNSEEN)
    assert (one.weights == many.weights).all()


@pytest.mark.parametrize("size", [5, 50])
def test_frames_in_batches(size):
    graph = FeedbackGraph.bandit(["a", "b"])
    with interpreted():
        models = [Online("gapsmh", graph, encoder=Encoder(text="m", features=64)) for _ in range(3)]
    records = [{"m": f"word{n % 7} and {n % 3}", "n": n % 5} for n in range(size)]
    frames = [records, pd.DataFrame(records), pa.Table.from_pylist(records)]
    weights = []
    for model, frame in zip(models, frames, strict=True):
        receipts = model.act_many(frame)
        model.learn_many([(receipt, receipt.action) for receipt in receipts])
        weights.append(model.weights.tobytes())
    assert weights[0] == weights[1] == weights[2]


def test_rows_out_of_order_are_put_in_order_and_wrong_ones_change_nothing():
    one, many = (Online("gapsmh", FeedbackGraph.bandit(3), FEATURES, monitor=True) for _ in range(2))
    indices, values = np.tile([5, 2, 5], 40), np.tile([1.0, 2.0, 3.0], 40)
    X = csr_array((values, indices, 3 * np.arange(41)), shape=(40, FEATURES))
    for x in pairs_of(X):
        one.act(x)
    many.act_many(X)
    assert_same(one, many)
    rounds = many.rounds
    for wrong, sentence in (
        (csr_array((np.full(40, np.nan), np.zeros(40, int), np.arange(41)), shape=(40, FEATURES)), "must be finite"),
        (csr_array((np.ones(40), np.full(40, FEATURES), np.arange(41)), shape=(40, FEATURES + 1)), "x has the index"),
    ):
        with pytest.raises(UserError, match=sentence):
            many.act_many(wrong)
    receipts = many.act_many(rows_of(np.random.default_rng(0), 50))
    with pytest.raises(UserError, match="stands twice"):
        many.learn_many([(each, UNSEEN) for each in receipts] + [(receipts[0], UNSEEN)])
    assert many.rounds == rounds + 50
    assert many.waiting >= 50


@pytest.mark.parametrize("rows", [3, 300])  # few are checked one by one, many by compiled code
@pytest.mark.parametrize(("place", "end"), [(1, -(10**12)), (1, 1000), (2, 0), (-1, 1000)])
def test_a_sparse_matrix_whose_parts_do_not_fit_is_refused(rows, place, end):
    model = Online("gapsmh", FeedbackGraph.bandit(3), FEATURES)
    matrix = csr_array((np.ones(rows), np.zeros(rows, np.int64), np.arange(rows + 1)), shape=(rows, FEATURES))
    matrix.indptr[place] = end
    with pytest.raises(UserError, match="not a consistent sparse matrix"):
        model.act_many(matrix)
    assert model.rounds == 0


def test_an_index_of_a_sparse_matrix_that_would_wrap_is_refused():
    model = Online("gapsmh", FeedbackGraph.bandit(3), FEATURES)
    matrix = csr_array((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, FEATURES))
    matrix.indices = np.array([0, -(2**32) + 7])
    with pytest.raises(UserError):
        model.act_many(matrix)
    assert model.rounds == 0


def test_a_batch_from_the_store(tmp_path):
    options = {"graph": FeedbackGraph.filtering(3), "features": FEATURES, "pending": 120, "durability": "os"}
    twin = Online(graph=options["graph"], features=FEATURES, pending=120, monitor=True)
    with Online.open(tmp_path / "m", **options) as model:
        play_both(twin, model, 4, sizes=(50, 90))
        more = rows_of(np.random.default_rng(9), 150)
        model.act_many(more)
        for x in pairs_of(more):
            twin.act(x)
        weights, waiting = model.weights.copy(), [receipt.id for receipt in model.pending]
        crash(model)
        with contextlib.suppress(UserError):
            model.close()
    with Online.open(tmp_path / "m", **options) as again:
        assert (again.weights == weights).all()
        assert [receipt.id for receipt in again.pending] == waiting
        assert len(waiting) == 120
        assert_same(twin, again)


def test_signals_wait_for_a_batch():
    """A handler that raises finds the model before the batch, or after it."""
    model = Online(graph=FeedbackGraph.bandit(3), features=FEATURES)
    X = rows_of(np.random.default_rng(0), 300)
    model.act_many(X)

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for moment in np.linspace(1e-4, 4e-3, 25):
            rounds, waiting = model.rounds, model.waiting
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, moment)
                model.act_many(X)
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert model.rounds - rounds in (0, 300)
            assert model.waiting - waiting == model.rounds - rounds
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("classes", "way"), [(3, "learn"), (4, "learn"), (4, "learn_many"), (4, "follow")])
def test_feedback_after_a_class_was_added_is_learned_as_before(classes, way):
    """Rows of scores are padded to a multiple of 4: a record from before has less room than the state of today.

    With nothing learned in between, it makes no difference whether the class is added before or after the feedback.
    """
    graph = FeedbackGraph.bandit([f"c{k}" for k in range(classes)])
    before, after = (Online(graph=graph, features=FEATURES) for _ in range(2))
    X = pairs_of(rows_of(np.random.default_rng(3), 40))
    p = np.full(classes, 1.0 / classes)
    receipts = {}
    for model in (before, after):
        if way == "follow":
            receipts[model] = [model.follow(x, "c1", p) for x in X]
        else:
            receipts[model] = [model.act(x) for x in X]
    seen = [(receipt.to_dict()["features"], receipt.to_dict()["own_probabilities"]) for receipt in receipts[after]]
    after.add_class("new")
    for model in (before, after):
        feedback = [(receipt, receipt.action) for receipt in receipts[model]]
        if way == "learn_many":
            model.learn_many(feedback)
        else:
            for receipt, label in feedback:
                model.learn(receipt, label)
    assert (before.weights != 0).any()
    assert (after.weights[:, :classes] == before.weights).all()
    assert [
        (receipt.to_dict()["features"], receipt.to_dict()["own_probabilities"]) for receipt in receipts[after]
    ] == seen  # nothing of a record but its scores was written to


def test_a_batch_names_the_row_that_is_wrong_and_nothing_grows():
    with interpreted():
        model = Online("gapsmh", FeedbackGraph.bandit(3))
        records = Online("gapsmh", FeedbackGraph.bandit(3), encoder=Encoder(features=64))
    for X in ([{5000: 1.0}, {0: float("nan")}], [{5000: 1.0}] * 40 + [{0: float("nan")}]):
        with pytest.raises(UserError, match=rf"^row {len(X) - 1}: x has the value nan"):
            model.act_many(X)
    assert (model.features, model.rounds) == (0, 0)
    for X in ([{"a": 1.0}, {"a": 1e60}], [{"a": 1.0}] * 40 + [{"a": 1e60}]):
        with pytest.raises(UserError, match=rf"^row {len(X) - 1}: the column 'a'"):
            records.act_many(X)


def test_a_player_refuses_feedback_that_learn_would_refuse():
    player = Player("gapsmh", FeedbackGraph.bandit(3), features=2)
    turns = [player.act([1.0, 0.5]) for _ in range(2)]
    for wrong, labels in ((turns, [0, 1.7]), (turns, [0, 3]), (turns, [0, 2**70]), ([turns[0]] * 2, [0, 0])):
        with pytest.raises(UserError):
            player.learn_many(wrong, labels)
    assert [turn.status for turn in turns] == [WAITING, WAITING]


# ----------------------------------------------------------------------------------------------- batches of one, arrays


@pytest.mark.parametrize("features", [FEATURES, "grow"])
@pytest.mark.parametrize("learner", ["auto", "gapsmh", "one-against-all"])
def test_the_rows_of_an_array_are_played_as_one_by_one(learner, features):
    one, many = (Online(learner, FeedbackGraph.bandit(list("abc")), features, seed=3) for _ in range(2))
    for size in (40, 7, 100):
        X = rows_of(np.random.default_rng(size), size).toarray()
        singles, together = [one.act(x) for x in X], many.act_many(X)
        assert [each.action for each in singles] == [each.action for each in together]
        feedback = labels_for(np.random.default_rng(size), singles)
        one.learn_many(feedback)
        many.learn_many([(mine, label) for mine, (_, label) in zip(together, feedback, strict=True)])
        assert one.differences(many) == []
    X[3, 2] = np.nan
    with pytest.raises(UserError, match="row 3: x has the value nan at index 2"):
        many.act_many(X)
    with pytest.raises(UserError, match="row 0: "):
        Online(learner, FeedbackGraph.bandit(list("abc")), 5).act_many(X[:40])


@pytest.mark.parametrize(
    ("learner", "normalize", "features"),
    [
        ("auto", "columns", FEATURES),
        ("auto", "columns", "grow"),
        ("auto", "none", FEATURES),
        ("gapsmh", "none", "grow"),
        ("gapsmh", "unit", FEATURES),
        ("one-against-all", "log1p-unit", "grow"),
        ("one-against-all", "columns", FEATURES),
        ("exp3-g", "unit", "grow"),
    ],
)
def test_one_row_is_predicted_as_among_many(tmp_path, learner, normalize, features):
    """The code for many rows is another one: it scales a copy of all rows, and drops zeros."""
    graph, rng = FeedbackGraph.bandit(list("abc")), np.random.default_rng(0)
    with interpreted():  # so that only predictions are compiled
        trained = Online(learner, graph, features, seed=1, normalize=normalize, bias=normalize != "none")
        for receipt in trained.act_many(rows_of(rng, 60)):
            trained.learn(receipt, receipt.action)
    trained.save(tmp_path / "model.npz")
    model = Online.load(tmp_path / "model.npz")
    width = FEATURES if features == FEATURES else 2000  # beyond the features that the model has
    X = rows_of(rng, 50, width)
    before = copy.copy(model)
    dense = X.toarray()  # its zeros count where columns are scaled
    chances, labels, dense_chances = model.predict_proba(X), model.predict_many(X), model.predict_proba(dense)
    dense_labels = model.predict_many(dense)
    for place, (row, x) in enumerate(zip(dense, pairs_of(X), strict=True)):
        assert model.predict_proba(row[np.newaxis]).tolist() == [dense_chances[place].tolist()]
        assert model.predict_proba(row[np.newaxis].astype(object)).tolist() == [dense_chances[place].tolist()]
        assert model.predict_proba(csr_array(row[np.newaxis])).tolist() == [chances[place].tolist()]
        assert (model.predict(x), model.predict(row)) == (labels[place], dense_labels[place])
        label, found = model.predict_both(x)
        assert (label, found.tolist()) == (labels[place], chances[place].tolist())
    assert model.differences(before) == []


def test_one_record_is_predicted_as_among_many():
    model = Online("auto", FeedbackGraph.bandit(list("abc")), encoder=Encoder(text="text"), seed=1)
    records = [{"text": f"word{i % 7} and word{i % 5}", "n": i, "city": "Bonn"} for i in range(50)]
    scores = np.random.default_rng(0).normal(size=(50, 3))
    for receipt in model.act_many(records):
        model.learn(receipt, receipt.action)
    for given in (None, scores):
        chances, labels = model.predict_proba(records, given), model.predict_many(records, scores=given)
        for place, record in enumerate(records):
            own = None if given is None else given[place]
            label, found = model.predict_both(record, scores=own)
            assert (label, found.tolist()) == (labels[place], chances[place].tolist())
            assert model.predict(record, scores=own) == label
            alone = model.predict_proba([record], None if given is None else given[place : place + 1])
            assert alone.tolist() == [chances[place].tolist()]


@pytest.mark.parametrize("X", [[[1.0]], np.zeros((1, 5)), np.full((1, 3), np.nan), np.zeros((1, 0)), csr_array((1, 5))])
def test_a_wrong_row_alone_is_refused_as_among_many(X):
    model = Online("gapsmh", FeedbackGraph.bandit(list("abc")), 3)
    with pytest.raises(UserError) as alone:
        model.predict_proba(X)
    with pytest.raises(UserError) as asked:
        model.scores(X)
    assert str(alone.value) == str(asked.value)


def test_single_rounds_keep_the_interpreters_lock_and_whole_chunks_release_it():
    model = Online("gapsmh", FeedbackGraph.bandit(list("abc")), 3)
    model.learn(model.act([1.0, 0.0, 1.0]), UNSEEN if model.pending[0].action != "a" else "a")
    model.predict([1.0, 0.0, 1.0])
    model.act_many(np.ones((40, 3)))
    releases = {each.py_func.__name__: each.targetoptions["nogil"] for each in entry_points if each.signatures}
    assert not any(releases[name] for name in ("act", "learn", "predict", "check_vector"))
    assert releases["act_rows"]
    assert releases["check_rows"]
