"""One round at a time: receipts, late feedback, refusals, and files that continue a run or are refused."""

from __future__ import annotations

import collections
import contextlib
import errno
import gc
import json
import math
import os
import pickle
import re
import resource
import threading
import types
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse

from gappletron import (
    UNSEEN,
    AdaptiveOGD,
    Exploration,
    FeedbackGraph,
    Gappletron,
    Online,
    Paper,
    Player,
    Receipt,
    SmoothHinge,
    TopUp,
    UserError,
    interpreted,
)
from gappletron.kernel.state import Field
from gappletron.play import archive as model_files
from gappletron.play.turns import ACTION, ENTRIES, FOLLOWS, GREEDY, HEAD, RATE, ROUND, SQUARED, STATUS
from problems import GRAPHS, OPTIMIZERS, small_stream

FEATURES = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def plain():
    """Plain Python for one test: nothing is compiled."""
    with interpreted():
        yield


def a_model(graph=None, learner=None, **options):
    return Online(learner or Gappletron(), graph or FeedbackGraph.bandit(4), FEATURES, **options)


def feedback(receipt, label):
    return label if label in receipt.reveals else UNSEEN


def content(model, folder):
    """All that a model is: bytes by name, its sessions, and the ids of its waiting receipts."""
    path = folder / "content.npz"
    model.save(path)
    with np.load(path) as archive:
        header = json.loads(bytes(archive["header"]))
        left_out = ("header", "checksum", "times")  # the times are those of the clock
        arrays = {name: archive[name].tobytes() for name in archive.files if name not in left_out}
    sessions = header.pop("sessions")
    return {**arrays, "header": header, "sessions": sessions, "ids": [receipt.id for receipt in model.pending]}


def loaded_content(model, folder):
    """The content without the session that a loaded copy starts for itself."""
    found = content(model, folder)
    return {**found, "sessions": found["sessions"][:-1]}


def train(model, rounds=20, seed=0):
    """Some rounds with immediate feedback."""
    X, y = small_stream(np.random.default_rng(seed), rounds, model.features, model.graph.n_classes)
    for row, label in zip(X, y, strict=True):
        receipt = model.act(row)
        model.learn(receipt, feedback(receipt, model.graph.classes[label]))
    return model


# ------------------------------------------------------------------------------------------------------------- receipts


@pytest.mark.parametrize("name", GRAPHS)
def test_a_receipt_says_what_was_done(name, plain):
    graph = GRAPHS[name]
    X, y = small_stream(np.random.default_rng(3), 40, FEATURES, graph.n_classes)
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(11, spawn_key=(0,)))).random(len(y))
    model = a_model(graph, seed=11)
    ids = set()
    for row, label, u in zip(X, y, draws, strict=True):
        scores = row @ model.weights
        receipt = model.act(row)
        p = receipt.probabilities
        assert p.shape == (graph.n_actions,)
        assert (p >= 0).all()
        assert math.fsum(p) == pytest.approx(1.0, abs=1e-12)
        assert graph.classes.index(receipt.greedy) == int(np.argmax(scores))
        drawn = graph.actions.index(receipt.action)
        assert math.fsum(p[:drawn]) <= u + 1e-12
        assert u < math.fsum(p[: drawn + 1]) + 1e-12
        assert receipt.probability == p[drawn]
        assert list(receipt.reveals) == [graph.classes[k] for k in range(graph.n_classes) if graph.visible[drawn, k]]
        for k, class_name in enumerate(graph.classes):
            by_hand = sum(p[i] for i in range(graph.n_actions) if graph.visible[i, k])
            assert receipt.propensity(class_name) == pytest.approx(by_hand, abs=1e-15)
        ids.add(receipt.id)
        model.learn(receipt, feedback(receipt, graph.classes[label]))
    assert len(ids) == len(y) == model.rounds


def test_a_receipt_cannot_be_spoiled(plain):
    model = a_model()
    receipt = model.act([1.0, 2, 0, 0, 0])
    with pytest.raises(ValueError, match="read-only"):
        receipt.probabilities[0] = 7.0
    with pytest.raises(AttributeError):
        receipt.probabilities = np.ones(4)
    assert repr(receipt.action) in repr(receipt)
    assert receipt.id in repr(receipt)


# -------------------------------------------------------------------------------------------------------- late feedback


class ByHand:
    """AdaptiveOGD with SmoothHinge and TopUp on the bandit graph, K >= 3, feedback at any time; only NumPy."""

    def __init__(self, classes, features, scale, gamma):
        self.W, self.total, self.blind = np.zeros((classes, features)), 0.0, 0
        self.scale, self.gamma = scale, gamma

    def act(self, x):
        s = self.W @ x
        K = len(s)
        top = int(np.argmax(s))
        gap = max(0.0, 1.0 - (s[top] - np.delete(s, top).max())) ** 2
        self.blind += 1
        rate = min(0.5, self.gamma / math.sqrt(self.blind))
        base = np.full(K, gap / K)
        base[top] += 1.0 - gap
        c = (rate - gap) / (1.0 - gap) if gap < rate else 0.0
        return x, s, top, (1.0 - c) * base + c / K

    def learn(self, then, y):
        x, s, top, p = then
        others = [k for k in range(len(s)) if k != y]
        rival = max(others, key=lambda k: (s[k], -k))
        slope = 2.0 if y != top else 2.0 * max(0.0, 1.0 - (s[y] - s[rival]))
        g = np.zeros_like(self.W)
        g[y], g[rival] = -slope * x / p[y], slope * x / p[y]
        self.total += float((g**2).sum())
        self.W -= self.scale / math.sqrt(1e-8 + self.total) * g


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("delay", [1, 2, 10, 60])
def test_late_feedback_in_any_order(delay, by_id, plain):
    """The gradient is that of prediction time, the weights are those of today."""
    rng = np.random.default_rng([delay, by_id])
    X, y = small_stream(rng, 60, FEATURES, 4)
    model = a_model(learner=Gappletron(SmoothHinge(), AdaptiveOGD(0.7), TopUp(0.8)), seed=2)
    expected = ByHand(4, FEATURES, 0.7, 0.8)
    waiting, learned = [], 0
    for t, row in enumerate(X):
        given = row.copy()
        receipt = model.act(given)
        given[:] = 99.0  # act has its own copy
        then = expected.act(row)
        np.testing.assert_allclose(receipt.probabilities, then[3], rtol=1e-9, atol=1e-12)
        waiting.append((receipt, then, y[t]))
        if len(waiting) == delay:
            rng.shuffle(waiting)
            for late, scores_then, label in waiting:
                if label in late.reveals:
                    model.learn(late.id if by_id else late, label)
                    expected.learn(scores_then, label)
                    learned += 1
                else:
                    model.learn(late.id if by_id else late, UNSEEN)
                np.testing.assert_allclose(model.weights.T, expected.W, rtol=1e-9, atol=1e-12)
            waiting = []
    assert learned > 10
    assert model.pending == ()


def test_act_copies_sparse_input(plain):
    indices, values = np.array([0, 3]), np.array([1.0, -2.0])
    model, twin = a_model(), a_model()
    receipt, other = model.act((indices, values)), twin.act(([0, 3], [1.0, -2.0]))
    indices[:], values[:] = 4, 50.0
    assert receipt.action == other.action
    for one, name in ((model, receipt), (twin, other)):
        one.learn(name, name.action)
    assert model.weights.tobytes() == twin.weights.tobytes()
    assert np.flatnonzero(model.weights.any(axis=1)).tolist() == [0, 3]


def test_an_action_without_feedback_changes_no_weights(plain):
    model = train(a_model())
    before = model.weights.tobytes()
    for row in small_stream(np.random.default_rng(1), 30, FEATURES, 4)[0]:
        model.act(row)
    assert model.weights.tobytes() == before
    assert len(model.pending) == 30


def test_unseen_changes_no_weights_of_this_learner(plain):
    model = a_model(FeedbackGraph.filtering(3), seed=4)
    blind = [receipt for receipt in (model.act([1.0, 0, 0, 0, 2]) for _ in range(40)) if not receipt.reveals]
    assert blind
    for receipt in blind:
        model.learn(receipt, UNSEEN)
    assert not model.weights.any()
    assert all(receipt.reveals for receipt in model.pending)


# -------------------------------------------------------------------------------------------------------------- predict


@given(st.integers(0, 2**32 - 1))
def test_predict_is_the_first_argmax(seed):
    """Small whole numbers, so that sums are exact and ties abound."""
    rng = np.random.default_rng(seed)
    with interpreted():
        model = a_model()
    W = rng.integers(-1, 2, (FEATURES, 4)).astype(float)
    model._player.engine.state.arrays["optimizer.weights"][...] = W
    x = rng.integers(-1, 2, FEATURES)
    scores = (x @ W).tolist()
    assert model.predict(x) == scores.index(max(scores))
    assert (model.weights == W).all()


def test_predict_is_pure(folder, plain):
    model, twin = (train(a_model(GRAPHS["filtering"], seed=5)) for _ in range(2))
    waiting, other = (one.act([1.0, 1, 1, 0, 0]) for one in (model, twin))
    before = content(model, folder)
    X, _ = small_stream(np.random.default_rng(6), 30, FEATURES, 4)
    predictions = [model.predict(row) for row in X]
    assert len(set(predictions)) > 1
    assert content(model, folder) == before
    assert predictions == [model.predict(row) for row in X]
    for row in X:
        assert model.act(row).action == twin.act(row).action
    for one, receipt in ((model, waiting), (twin, other)):
        one.learn(receipt, feedback(receipt, 2))
    assert model.weights.tobytes() == twin.weights.tobytes()


# ------------------------------------------------------------------------------------------------------------- refusals


def revealing_and_blind(model):
    """A receipt that shows every label and one that shows none."""
    found = {}
    while len(found) < 2:
        receipt = model.act([1.0, 0, 0, 1, 0])
        found.setdefault(bool(receipt.reveals), receipt)
    return found[True], found[False]


@contextlib.contextmanager
def refused(model, folder, words):
    """A UserError with these words, and nothing changed."""
    before = content(model, folder)
    with pytest.raises(UserError, match=words) as caught:
        yield
    assert "\n" not in str(caught.value)
    assert content(model, folder) == before


@pytest.fixture
def filtering():
    with interpreted():
        return Online(Gappletron(), FeedbackGraph.filtering(["ham", 1, "spam"]), FEATURES, seed=8)


def test_learn_refuses_a_label_that_was_not_shown(filtering, folder):
    revealing, blind = revealing_and_blind(filtering)
    with refused(filtering, folder, "does not reveal the label 'ham'.*pass UNSEEN"):
        filtering.learn(blind, "ham")
    with refused(filtering, folder, "reveals every label, so there is one to learn"):
        filtering.learn(revealing, UNSEEN)
    for label in ("Ham", "", 2, True, np.True_, 1.0, np.float64(1.0), "1", b"ham", None):
        with refused(filtering, folder, "class"):
            filtering.learn(revealing, label)
    for label in (["ham"], ("ham",), {"ham": 1}, object(), np.array([1, 2])):
        with refused(filtering, folder, "names may be str, int, bool or None|sequence"):
            filtering.learn(revealing, label)
    assert not filtering.weights.any()
    filtering.learn(revealing, 1)
    filtering.learn(blind, UNSEEN)
    assert filtering.weights.any()


def test_learn_refuses_a_foreign_receipt(filtering, folder, plain):
    stranger = a_model(FeedbackGraph.filtering(["ham", 1, "spam"]), seed=8)
    (revealing, blind), (theirs, _) = revealing_and_blind(filtering), revealing_and_blind(stranger)
    assert theirs.serial == revealing.serial
    for foreign in (theirs, theirs.id):
        with refused(filtering, folder, "is not from this model"):
            filtering.learn(foreign, "ham")
    prefix = revealing.id.rpartition("-")[0]
    numbers = ("", "x", str(filtering.rounds), "-1", "+1", " 1", "1_0", "٠", "²", "9" * 5000, "\0", "0\n")
    for name in (
        "",
        "-",
        "0",
        prefix,
        "x" * 100_000,
        revealing.id + "\n",
        *(f"{prefix}-{number}" for number in numbers),
    ):
        with refused(filtering, folder, "is not from this model"):
            filtering.learn(name, "ham")
    for thing in (0, None, 1.5, b"0", [revealing], object(), (revealing.id,), 10**30):
        with refused(filtering, folder, "is not a receipt"):
            filtering.learn(thing, "ham")
    filtering.learn(revealing.id, "ham")
    filtering.learn(blind.id, UNSEEN)


def test_learn_refuses_a_second_use(filtering, folder):
    revealing, blind = revealing_and_blind(filtering)
    filtering.learn(revealing, "spam")
    filtering.learn(blind.id, UNSEEN)
    for receipt in (revealing, revealing.id, blind, blind.id):
        for label in ("spam", UNSEEN):
            with refused(filtering, folder, "already learned from"):
                filtering.learn(receipt, label)


def test_waiting_receipts_are_bounded_and_the_oldest_expire(folder, plain):
    graph = FeedbackGraph.bandit([f"class {k}" for k in range(4)])
    model = a_model(graph, pending=3)
    names = []
    for _ in range(50):
        names.append(model.act([1.0, 0, 0, 0, 0]).id)
        assert [receipt.id for receipt in model.pending] == names[-3:]
    gc.collect()
    alive = [thing for thing in gc.get_objects() if type(thing) is Receipt and thing.graph is graph]
    assert len(alive) == 3
    for name in (names[0], *names[-6:-3]):
        with refused(model, folder, "has expired, since more than 3 others were waiting.*allow a larger pending"):
            model.learn(name, "class 1")
    for name in names[-3:]:
        model.learn(name, model.pending[0].action)
    assert model.pending == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"features": 0},
        {"features": 2**62 + 1},
        {"features": 1.5},
        {"features": True},
        {"features": "3"},
        {"features": None},
        {"seed": -1},
        {"seed": 0.5},
        {"seed": None},
        {"pending": 0},
        {"pending": -1},
        {"pending": 1.0},
        {"learner": "gapsnh"},
        {"learner": None},
        {"learner": SmoothHinge()},
        {"learner": Gappletron},
        {"graph": "bandit"},
        {"graph": np.eye(3)},
    ],
    ids=str,
)
def test_a_model_is_refused(changes):
    arguments = {"learner": Gappletron(), "graph": FeedbackGraph.bandit(3), "features": 4, **changes}
    with interpreted(), pytest.raises(UserError, match=r"must be|is not a|is neither|there is no learner|would take"):
        Online(**arguments)


# ----------------------------------------------------------------------------------------------------------- input rows

BAD_ROWS = {
    "too short": ([1.0, 2], "shape"),
    "too long": (np.ones(6), "shape"),
    "a number": (3.0, "shape"),
    "nothing": (None, "shape"),
    "an empty list": ([], "shape"),
    "two rows": (np.ones((2, FEATURES)), "shape"),
    "a column": (np.ones((FEATURES, 1)), "shape"),
    "a text": ("1 2 3 4 5", "x is a text.*Encoder"),
    "a set": ({1, 2}, "shape"),
    "a generator": ((i for i in range(FEATURES)), "shape"),
    "texts": (["1", "2", "3", "4", "5"], "type"),
    "complex": (np.ones(FEATURES, complex), "type"),
    "dates": (np.zeros(FEATURES, "M8[s]"), "type"),
    "objects": ([1, None, 2, 3, 4], "type"),
    "huge whole numbers": ([10**400] * FEATURES, "type"),
    "ragged": ([[1], [1, 2]], "cannot be made into an array"),
    "ragged pair": (([0, [1]], [1.0, 2.0]), "cannot be made into an array"),
    "ragged values": (([0, 1], [1.0, [2.0]]), "cannot be made into an array"),
    "nan": ([1, 2, math.nan, 4, 5], "nan at index 2.*finite"),
    "inf": ([1, 2, 3, 4, -math.inf], "-inf at index 4.*finite"),
    "sparse nan": (([1, 3], [0.0, math.nan]), "nan at index 3"),
    "sparse inf": (([1, 3], [math.inf, 0.0]), "inf at index 1"),
    "a long double too large": ([np.longdouble("1e400")] * FEATURES, "inf at index 0"),
    "duplicates that overflow": (([1, 1], [6e49, 6e49]), "1.2e\\+50 at index 1"),
    "index too large": (([0, 5], [1, 1]), "index 5.*from 0 to 4"),
    "index negative": (([-1, 0], [1, 1]), "index -1"),
    "index huge": ((np.array([2**64 - 1], np.uint64), [1.0]), "index 18446744073709551615.*0 to 4"),
    "index beyond 64 bits": (([2**64], [1.0]), "index 18446744073709551616, and the model takes"),
    "index of 31 digits": (([10**30], [1.0]), "index of more than 30 digits"),
    "index wraps to 32 bits": (([2**32], [1.0]), "index 4294967296"),
    "float indices": (([0.0, 1.0], [1, 1]), "whole numbers"),
    "bool indices": (([True, False], [1, 1]), "whole numbers"),
    "text indices": ((["0"], [1]), "whole numbers"),
    "text values": (([0, 1], ["1", "2"]), "type"),
    "complex values": (([0], [1j]), "type"),
    "one index more": (([0, 1, 2], [1, 1]), "one length"),
    "one value more": (([0], [1, 1]), "one length"),
    "2-d pair": (([[0, 1]], [[1, 1]]), "flat"),
    "two numbers": ((0, 1.0), "is a tuple of two numbers"),
    "two texts": (("01", "23"), "type"),
    "dict with names": ({"a": 1.0}, "record with named columns.*Encoder"),
    "dict out of range": ({7: 1.0}, "index 7"),
    "dict with nan": ({1: math.nan}, "nan at index 1"),
    "dict of lists": ({0: [1, 2]}, "flat|one length"),
    "sparse two rows": (sparse.csr_matrix(np.ones((2, FEATURES))), "one row of 5"),
    "sparse column": (sparse.csr_matrix(np.ones((FEATURES, 1))), "one row of 5"),
    "sparse too wide": (sparse.coo_array(np.ones((1, 6))), "one row of 5"),
    "sparse complex": (sparse.csr_matrix(np.ones((1, FEATURES), complex)), "type"),
    "sparse with nan": (sparse.csr_array([[0, 0, math.nan, 0, 0]]), "nan at index 2"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_refused(name, folder, plain):
    row, words = BAD_ROWS[name]
    model = train(a_model(), rounds=3)
    with refused(model, folder, words):
        model.act(row)
    if name in ("two rows", "sparse two rows"):  # predict takes many rows as well
        assert len(model.predict(row)) == 2
        return
    with refused(model, folder, "[xX] "):
        model.predict(row if name != "a generator" else None)


def good_rows():
    """One row in every form, beside what it is when written out."""
    plain_row = [0.0, 2.0, 0.0, 0.0, -1.0]
    dense = np.array(plain_row)
    yield from (
        (form, plain_row)
        for form in (
            plain_row,
            tuple(plain_row),
            dense,
            dense[None],
            dense.astype(np.float32),
            dense.astype(np.int8),
            np.asfortranarray(dense),
            dense.astype(">f8"),
            dense.astype(np.longdouble),
            np.repeat(dense, 2)[::2],
            dense[::-1].copy()[::-1],
            ([1, 4], [2.0, -1.0]),
            ([4, 1], [-1, 2]),
            (np.array([1, 4], np.uint8), np.array([2, -1], np.float16)),
            (np.array([4, 1])[::-1], np.array([-1.0, 2.0])[::-1]),
            (range(1, 5), (2, 0, 0, -1)),
            ((1, 4), (2, -1)),
            (np.array([1, 4], ">i4"), np.array([2, -1], ">i2")),
            (np.array([1, 4], np.uint64), [2, -1]),
            ([1, 1, 4, 1], [1.5, 1.5, -1, -1]),
            ([4, 1, 4], [-0.5, 2, -0.5]),
            {1: 2.0, 4: -1.0},
            {4: -1, 1: 2, 0: 0},
            types.MappingProxyType({1: 2.0, 4: -1.0}),
            collections.UserDict({1: 2.0, 4: -1.0}),
            sparse.csr_matrix(dense[None]),
            sparse.csr_array(dense[None]),
            sparse.csr_array(dense),
            sparse.coo_array(dense),
            sparse.coo_matrix(dense[None]),
            sparse.csc_array(dense[None]),
            sparse.lil_matrix(dense[None]),
            sparse.dok_array(dense[None]),
            sparse.coo_array(([1.0, 1.0, -1.0], ([0, 0, 0], [1, 1, 4])), shape=(1, FEATURES)),
        )
    )
    yield from (
        (form, [0, 1, 0, 0, 1])
        for form in (
            [False, True, False, False, True],
            np.array([0, 1, 0, 0, 1], bool),
            ([1, 4], [True, True]),
            sparse.csr_matrix(np.array([[0, 1, 0, 0, 1]], bool)),
        )
    )
    yield from (
        (form, [0] * 5)
        for form in (
            ([], []),
            ((), ()),
            (np.array([]), np.array([])),
            {},
            np.zeros(5),
            sparse.csr_matrix((1, 5)),
            ([2], [0.0]),
            ([2, 2], [1, -1]),
        )
    )


def test_every_form_of_a_row(plain):
    for form, written_out in good_rows():
        model, twin = train(a_model()), train(a_model())
        found = model.predict(form)  # a list where the form is a matrix with one row
        assert (found[0] if isinstance(found, list) else found) == twin.predict(written_out)
        receipt, other = model.act(form), twin.act(written_out)
        assert receipt.action == other.action
        assert receipt.probabilities.tobytes() == other.probabilities.tobytes()
        model.learn(receipt, receipt.action)
        twin.learn(other, other.action)
        assert model.weights.tobytes() == twin.weights.tobytes()


def test_every_form_of_a_row_compiled():
    """Machine code trusts the types it is given."""
    model = a_model()
    with interpreted():
        twin = a_model()
    for form, written_out in good_rows():
        receipt, other = model.act(form), twin.act(written_out)
        assert receipt.action == other.action
        assert model.predict(form) == twin.predict(form)
        model.learn(receipt, receipt.action)
        twin.learn(other, other.action)
    assert model.weights.tobytes() == twin.weights.tobytes()
    assert model.weights.any()


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.dates(),
    st.just(10**400),
    st.just(object()),
    st.just(len),
    st.just(np.float64),
    st.integers(0, FEATURES),
    st.fractions(),
    st.decimals(),
)
THINGS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.lists(inner, max_size=3).map(tuple),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.integers(-1, 6), st.text(max_size=2), st.floats(), st.none()), inner, max_size=4),
    ),
    max_leaves=12,
)
ARRAYS = npst.arrays(st.one_of(npst.scalar_dtypes(), npst.array_dtypes()), npst.array_shapes(min_dims=0, max_side=6))
ROWS = st.one_of(
    THINGS,
    ARRAYS,
    st.tuples(ARRAYS, ARRAYS),
    st.tuples(THINGS, ARRAYS),
    st.tuples(ARRAYS, THINGS),
    st.lists(st.floats(), min_size=FEATURES, max_size=FEATURES),
    st.tuples(st.lists(st.integers(-1, 6)), st.lists(st.floats())),
)


@given(ROWS)
@settings(max_examples=300)
def test_any_thing_is_a_row_or_a_user_error(thing):
    with interpreted(), np.errstate(all="ignore"):
        model = a_model()
        try:
            receipt = model.act(thing)
        except UserError:
            assert model.rounds == 0
            assert model.pending == ()
        else:
            assert math.fsum(receipt.probabilities) == pytest.approx(1.0)
            assert not model.weights.any()


def test_a_list_within_itself(plain):
    loop = []
    loop.append(loop)
    for thing in (loop, ([0], loop), (loop, [1.0]), {0: loop}):
        with pytest.raises(UserError):
            a_model().act(thing)


# --------------------------------------------------------------------------------------------------------------- labels


def test_labels_of_every_kind(plain):
    names = ["ham", 7, None, False]
    boxed = [np.str_("ham"), np.int8(7), None, np.False_]
    model, twin = (a_model(FeedbackGraph.full(names), seed=1) for _ in range(2))
    X = np.random.default_rng(0).normal(size=(40, FEATURES))
    for t, row in enumerate(X):
        receipt, other = model.act(row), twin.act(row)
        assert any(receipt.action is name for name in names)
        model.learn(receipt, boxed[t % 4])
        twin.learn(other, names[t % 4])
    assert model.weights.any(axis=0).all()
    assert model.weights.tobytes() == twin.weights.tobytes()
    for wrong in (True, 0, np.int64(0), 7.0, "7", "None", "False"):
        with pytest.raises(UserError, match="class"):
            model.learn(model.act(X[0]), wrong)


# -------------------------------------------------------------------------------------------------------- save and load


def played(model, X, y, *, reload=lambda model, t: model, seed=0):
    """Play with feedback that comes late and out of order, some of it never; give the model and what it did.

    `reload` may put another model in place of this one before any round.
    """
    rng = np.random.default_rng(seed)
    waiting, told = {}, []
    for t, (row, label) in enumerate(zip(X, y, strict=True)):
        model = reload(model, t)
        receipt = model.act(row)
        told.append((receipt.serial, receipt.action, receipt.greedy, receipt.probabilities.tobytes()))
        waiting[receipt.id] = feedback(receipt, model.graph.classes[label])
        for name in rng.permutation(list(waiting)).tolist():
            if rng.random() < 0.4 and name in {receipt.id for receipt in model.pending}:
                model.learn(name, waiting.pop(name))
    return model, told


def assert_continues(learner, graph, when, folder):
    X, y = small_stream(np.random.default_rng(when), 40, FEATURES, graph.n_classes)
    path = folder / "going on.npz"
    Online(learner, graph, FEATURES, seed=9, pending=4).save(path)
    start = path.read_bytes()

    def reload(model, t):
        if t != when:
            return model
        model.save(path)
        loaded = Online.load(path)
        assert loaded is not model
        assert [receipt.id for receipt in loaded.pending] == [receipt.id for receipt in model.pending]
        expected = content(model, folder)
        *earlier, last = expected["sessions"]  # one that issued no receipt is not kept, unless it is the last
        expected["sessions"] = [session for session in earlier if session[2] > session[1]] + [last]
        assert loaded_content(loaded, folder) == expected
        for one, other in zip(loaded.pending, model.pending, strict=True):
            assert (one.action, one.greedy, one.reveals) == (other.action, other.greedy, other.reveals)
            assert one.probabilities.tobytes() == other.probabilities.tobytes()
        return loaded

    never, told = played(Online.load(path), X, y)
    path.write_bytes(start)
    saved, told_again = played(Online.load(path), X, y, reload=reload)
    assert told == told_again
    anew = {"sessions": None, "ids": None}  # the serials of the waiting receipts are in the header
    assert content(never, folder) | anew == content(saved, folder) | anew
    assert never.weights.any()
    assert (saved.learner, saved.graph, saved.features, saved.pending_limits[0]) == (learner, graph, FEATURES, 4)


@pytest.mark.parametrize("graph", ["bandit", "label efficient", "disease prevention"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_saved_run_continues_bit_for_bit(optimizer, graph, folder, plain):
    for when, exploration in ((0, TopUp()), (1, Paper(0.3)), (17, TopUp(0.2)), (39, Paper())):
        assert_continues(Gappletron(SmoothHinge(), OPTIMIZERS[optimizer][0], exploration), GRAPHS[graph], when, folder)


@given(st.integers(0, 39), st.sampled_from(list(GRAPHS)))
@settings(max_examples=25)
def test_a_saved_run_continues_from_any_round(folder, when, graph):
    with interpreted():
        assert_continues(Gappletron(), GRAPHS[graph], when, folder)


def test_a_saved_run_continues_compiled(folder):
    graph = FeedbackGraph.filtering(["ham", None, True, "späm"], revealing=True)
    for when in (0, 5, 30):
        assert_continues(Gappletron(), graph, when, folder)


class Coin(Exploration):
    """An exploration rule from outside the package: the greedy class or the first action."""

    heads: float = 0.5

    def declare(self):
        return {"tosses": Field(dtype="int64")}

    def explore(self, state, plan, greedy, gap, out):
        for i in range(out.size):
            out[i] = 0.0
        out[greedy] += 1.0 - self.heads
        out[0] += self.heads
        return self.heads

    def count_round(self, state, plan, greedy):
        state.tosses[0] += 1

    def tuned(self, gamma):
        return Coin(gamma)


def test_pieces_of_ones_own_must_be_named(folder, plain):
    model = train(a_model(FeedbackGraph.full(3), Gappletron(exploration=Coin(0.25)), seed=3))
    path = folder / "own.npz"
    model.save(path)
    with pytest.raises(UserError, match=r"own.npz.*'Coin'.*pass its class in pieces="):
        Online.load(path)
    loaded = Online.load(path, pieces=[Coin])
    assert loaded.learner == model.learner
    assert loaded_content(loaded, folder) == content(model, folder)
    anew = {"sessions": None}
    assert content(train(loaded, seed=7), folder) | anew == content(train(model, seed=7), folder) | anew
    assert loaded._player.engine.state.arrays["exploration.tosses"].tolist() == [40]


# ------------------------------------------------------------------------------------------------------------ bad files


@pytest.fixture(scope="module")
def saved(folder):
    """The bytes of a file with waiting and expired receipts."""
    with interpreted():
        model = Online(Gappletron(), FeedbackGraph.label_efficient(["a", "b", "c"]), FEATURES, seed=1, pending=3)
        train(model)
        for row in np.eye(FEATURES):
            model.act(row)
        path = folder / "good.npz"
        model.save(path)
        return path.read_bytes(), content(model, folder)


def load_bytes(folder, data):
    path = folder / "bad.npz"
    path.write_bytes(data)
    with interpreted():
        return Online.load(path)


def refusal(folder, data):
    """The sentence with which a file is refused."""
    with pytest.raises(UserError) as caught:
        load_bytes(folder, data)
    assert "bad.npz" in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


DAMAGED = "damaged or not a saved model: use a file that save() wrote"


def test_the_good_file_is_good(saved, folder):
    assert loaded_content(load_bytes(folder, saved[0]), folder) == saved[1]


def test_a_truncated_file(saved, folder):
    data = saved[0]
    for length in {*range(0, 40), *range(40, len(data), 97), *range(len(data) - 40, len(data))}:
        assert DAMAGED in refusal(folder, data[:length])


def assert_detected_or_harmless(folder, data, expected):
    try:
        model = load_bytes(folder, data)
    except UserError:
        return False
    assert loaded_content(model, folder) == expected
    return True


@given(st.data())
@settings(max_examples=300)
def test_changed_bytes_are_noticed_or_change_nothing(folder, saved, data):
    changed = bytearray(saved[0])
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    assert_detected_or_harmless(folder, bytes(changed), saved[1])


def test_a_changed_directory_is_noticed_or_changes_nothing(saved, folder):
    """Every byte of the archive's directory, at its end, which is not needed, and of the first member's own head."""
    data, expected = saved
    masks = np.random.default_rng(0).integers(1, 256, len(data))
    directory = data.index(b"PK\x01\x02")
    outcomes = collections.Counter()
    for place in (*range(100), *range(directory, len(data))):
        changed = bytearray(data)
        changed[place] ^= int(masks[place])
        outcomes[assert_detected_or_harmless(folder, bytes(changed), expected)] += 1
    assert outcomes[False] >= 60


def test_a_changed_size_does_not_hide_changed_data(folder, plain):
    """A reader that stops where a large array ends never sees its checksum if the directory says that more follows."""
    Online(Gappletron(), FeedbackGraph.bandit(4), 5000).save(folder / "large.npz")
    data = bytearray((folder / "large.npz").read_bytes())
    entry = data.index(b"state.optimizer.weights.npy", data.index(b"PK\x01\x02")) - 46
    sizes = slice(entry + 20, entry + 28)
    packed, unpacked = np.frombuffer(bytes(data[sizes]), "<u4")
    data[sizes] = np.array([packed + 8, unpacked + 8], "<u4").tobytes()
    start = data.index(b"\x93NUMPY", data.index(b"state.optimizer.weights.npy"))
    data[start + packed - 1] ^= 0x40
    assert DAMAGED in refusal(folder, bytes(data))


def archived(**members):
    """A zip with these files in it."""
    import io

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def repacked(folder, data, change):
    """The file with its header and arrays changed by a function, everything else in order, the checksum included."""
    source, target = folder / "source.npz", folder / "target.npz"
    source.write_bytes(data)
    with np.load(source) as archive:
        arrays = {name: archive[name] for name in archive.files}
    del arrays["checksum"]
    before = arrays["header"]
    header = json.loads(bytes(before))
    header = change(header, arrays) or header
    if arrays.get("header") is before:
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with target.open("wb") as file:
        if any(array.dtype == object for array in arrays.values()):
            np.savez(file, **arrays)
        else:
            model_files.write_archive(file, arrays)
    return target.read_bytes()


def test_files_of_other_kinds(folder, saved):
    import io

    plain_array, several = io.BytesIO(), io.BytesIO()
    np.save(plain_array, np.arange(5))
    np.savez(several, header=np.arange(5), other=np.zeros(3))
    broken_array = b"\x93NUMPY\x01\x00\x2c\x00{'descr': '<f8', 'fortran_order': False, 'sh(\n"
    for data in (
        b"",
        b"\0" * 1000,
        b"hello",
        b"PK",
        pickle.dumps({"a": 1}),
        plain_array.getvalue(),
        several.getvalue(),
        archived(readme="hello"),
        archived(header="{}"),
        archived(**{"header.npy": "{}"}),
        archived(**{"header.npy": broken_array}),
        archived(**{"header.npy": b"\x93NUMPY\x09\x09"}),
        saved[0].replace(b"state", b"stale"),
    ):
        assert DAMAGED in refusal(folder, data)


@pytest.mark.parametrize("method", [0, 1, 6, 8, 9, 12, 14, 93, 99])
def test_members_packed_in_another_way(saved, folder, method):
    """The members' heads and the directory say how they are packed: only those that are not packed are read."""
    data = bytearray(saved[0])
    for head, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = data.index(head)
        while place >= 0:
            data[place + offset] = method
            place = data.find(head, place + 1)
    assert assert_detected_or_harmless(folder, bytes(data), saved[1]) == (method == 0)


def test_places_that_are_no_files(folder):
    for path, words in (
        (folder, "directory"),
        (folder / "missing.npz", "No such file"),
        (folder / "a" / "b", "No such file"),
        (folder / ("x" * 300), "too long"),
        ("", "directory"),
        ("a\0b", "embedded null byte"),
    ):
        with pytest.raises(UserError, match=words):
            Online.load(path)


def test_nothing_in_a_file_is_executed(saved, folder):
    trap = folder / "trap"

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(trap),)

    def put(name):
        def change(header, arrays):
            arrays[name] = np.array([Trap()], dtype=object)

        return change

    for name in ("header", "edges", "state.optimizer.weights", "values", "something else"):
        assert DAMAGED in refusal(folder, repacked(folder, saved[0], put(name)))
    (folder / "bad.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(UserError, match=re.escape(DAMAGED)):
        Online.load(folder / "bad.npz")
    assert not trap.exists()
    pickle.loads(pickle.dumps(Trap()))  # the trap works
    trap.rmdir()


def test_a_newer_file(saved, folder):
    newer = repacked(folder, saved[0], lambda header, arrays: header | {"version": 4})
    assert "newer gappletron (format 4, this one reads 3): upgrade" in refusal(folder, newer)
    older = repacked(folder, saved[0], lambda header, arrays: header | {"version": 1})
    assert "an older gappletron (format 1, this one reads 3): use that version" in refusal(folder, older)
    for version in (0, -1, "3", 3.0, True, None, [3]):
        wrong = repacked(folder, saved[0], lambda header, arrays, version=version: header | {"version": version})
        assert DAMAGED in refusal(folder, wrong)
    foreign = repacked(folder, saved[0], lambda header, arrays: header | {"format": "another"})
    assert "holds a 'another', not a 'gappletron.Online': load it with that class" in refusal(folder, foreign)


def leaves(value, path=()):
    """The places in a JSON document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield from leaves(entry, (*path, key))


def put_at(document, path, value):
    if not path:
        return value
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value
    return None


JUNK = [None, True, -1, 1.5, math.nan, 10**30, "x", "", [], {}, [[]], {"piece": "Hinge"}]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_a_header_with_wrong_types(saved, folder, junk):
    """Whatever stands where, either a sentence or a model that works; never another exception."""
    with zipfile.ZipFile(folder / "good.npz") as archive, archive.open("header.npy") as file:
        header = json.loads(bytes(np.lib.format.read_array(file)))
    for path in leaves(header):
        changed = repacked(
            folder,
            saved[0],
            lambda header, arrays, path=path: put_at({"": header}, ("", *path), junk) if path else junk,
        )
        with contextlib.suppress(UserError):
            model = load_bytes(folder, changed)
            for receipt in model.pending:
                assert receipt.id.rpartition("-")[2] == str(receipt.serial)
                model.learn(receipt.id, feedback(receipt, model.graph.classes[0]))
            assert train(model).weights.any()


def test_what_a_header_must_not_say(saved, folder):
    def wrong(**changes):
        return refusal(folder, repacked(folder, saved[0], lambda header, arrays: header | changes))

    for changes in (
        {"features": FEATURES + 1},
        {"features": 2**31 - 1},
        {"features": 10**12},
        {"pending": [1, 2**28, None]},
        {"pending": [4, 0, None]},
        {"pending": [4, 2**28, 0.0]},
        {"pending": [4, 2**28]},
        {"pending": 7},
        {"learner": {"piece": "SmoothHinge"}},
        {"learner": {"piece": "Gappletron", "loss": {"piece": "TopUp"}}},
        {"rounds": 3},
        {"sessions": []},
        {"sessions": 7},
        {"sessions": [[7, 0, 25]]},
        {"sessions": [["", 0, 25]]},
        {"sessions": [["a", 0]]},
        {"sessions": [["a", 0, 26]]},
        {"sessions": [["a", 0, 24]]},
        {"sessions": [["a", 23, 25]]},
        {"sessions": [["a", 0, 9], ["b", 8, 25]]},
        {"sessions": [["a", 25, 0]]},
        {"sessions": [["a", 0, 9], ["a", 9, 25]]},
        {"sessions": [["a" * 101, 0, 25]]},
        {"index": 0},
        {"index": {"most": 10, "left_out": 0}},
    ):
        wrong(**changes)
    deep = {"piece": "Gappletron"}
    for _ in range(400):
        deep = {"piece": "Gappletron", "loss": deep}
    wrong(learner=deep)


def test_values_of_receipts_that_cannot_be(saved, folder):
    """Numbers of the records, their sizes and graphs; then times. N is 4, K is 3."""

    def changed(name, place, value):
        def change(header, arrays):
            arrays[name] = arrays[name].copy()
            arrays[name][place] = value

        return repacked(folder, saved[0], change)

    with np.load(folder / "good.npz") as archive:
        records, sizes = archive["receipts.records"], archive["receipts.sizes"].tolist()
    assert len(sizes) == 3
    starts = [0, sizes[0], sizes[0] + sizes[1]]
    size = sizes[0]

    def record(place, *values):
        """The file with these numbers at this place of the records."""
        return changed("receipts.records", [start + place for start in starts[: len(values)]], values)

    serials = records[[start + ROUND for start in starts]].tolist()
    assert len(load_bytes(folder, record(ROUND, *serials)).pending) == 3
    for serials in ([-1, 23, 24], [22, 22, 24], [23, 22, 24], [22, 23, 25], [2, 2**52, 2**53], [22, math.nan, 24]):
        refusal(folder, record(ROUND, *serials))
    for place, values in {
        ACTION: (4, -1, 2**40, math.nan),
        GREEDY: (3, -1, 2**40, math.nan),
        ENTRIES: (2, 0, -1, 2**40, math.inf, math.nan),
        STATUS: (0, 2, 3, 4, 5, -1, 1.5, math.nan),
        FOLLOWS: (1, 0.5, -1, math.nan),
        RATE: (math.nan, math.inf, -0.1),
        SQUARED: (math.nan, math.inf, -1.0, 2.0),
    }.items():
        for value in values:
            refusal(folder, record(place, value))
    for place, values in (
        (slice(0, 4), ([0.5, 0.5, 0.5, 0.5], [1.5, -0.5, 0.0, 0.0], [math.nan] * 4, [0.0] * 4, [0.3, 0.3, 0.3, 0.09])),
        (0, (math.inf, 1e-3)),
    ):
        for value in values:
            here = HEAD + place if place == 0 else slice(HEAD, HEAD + 4)
            refusal(folder, changed("receipts.records", here, value))
    for value in (math.nan, math.inf, -math.inf):
        refusal(folder, record(HEAD + 4 + 2, value))
    # The greedy class is that of the largest score; most learners predict it.
    scores = records[HEAD + 4 : HEAD + 7].copy()
    scores[(int(records[GREEDY]) + 1) % 3] = scores.max() + 1.0
    refusal(folder, changed("receipts.records", slice(HEAD + 4, HEAD + 7), scores))
    # The action that was drawn had a probability.
    action, probabilities = int(records[ACTION]), records[HEAD : HEAD + 4].copy()
    probabilities[action - 1] += probabilities[action]
    probabilities[action] = 0.0
    refusal(folder, changed("receipts.records", slice(HEAD, HEAD + 4), probabilities))
    for value in (size - 1, size + 1, 0, -size, 2**40, 2**62):
        refusal(folder, changed("receipts.sizes", 0, value))
    refusal(folder, changed("receipts.sizes", slice(0, 2), [size - 1, sizes[1] + 1]))
    for value in (0, -2, 2**40):
        refusal(folder, changed("receipts.graphs", 1, value))
    for value in (math.nan, math.inf, -1.0):
        refusal(folder, changed("times", 1, value))


def test_a_random_state_that_cannot_be(saved, folder):
    def wrong(*path, value):
        def change(header, arrays):
            put_at(header["random"], path, value)

        return refusal(folder, repacked(folder, saved[0], change))

    for value in (-1, 2**128, 1.5, "7", None):
        wrong("state", "state", value=value)
    for value in (-1, 2, 2**128 + 1):
        wrong("state", "inc", value=value)
    for value in (2, -1):
        wrong("has_uint32", value=value)
    wrong("uinteger", value=2**32)
    wrong("bit_generator", value="MT19937")


def with_index(records, value):
    """The records with another index in the last row, whose only one stands at the end."""
    changed = records.copy()
    changed[-1:].view(np.int32)[0] = value
    return changed


def test_arrays_that_do_not_fit(saved, folder):
    def wrong(name, value):
        def change(header, arrays):
            arrays[name] = value(arrays[name])

        return refusal(folder, repacked(folder, saved[0], change))

    for name in (
        "receipts.records",
        "receipts.sizes",
        "receipts.graphs",
        "times",
        "state.optimizer.weights",
        "state.exploration.blind",
        "edges",
    ):
        wrong(name, lambda array: array[:-1])
        wrong(name, lambda array: array.astype("U8"))
        wrong(name, lambda array: array[None])
        wrong(name, lambda array: np.array(0))
    for name in ("receipts.records", "receipts.sizes", "times", "state.optimizer.weights", "state.exploration.blind"):
        wrong(name, lambda array: array.astype(np.float32))
    for value in (FEATURES, -1, 2**31 - 1):
        wrong("receipts.records", lambda array, value=value: with_index(array, value))
    wrong("receipts.records", lambda array: array * np.nan)
    for name, words in (
        ("receipts.records", DAMAGED),
        ("state.optimizer.total", "the saved array 'optimizer.total' does not fit the learner: the file is damaged"),
        ("edges", DAMAGED),
        ("header", DAMAGED),
    ):
        missing = repacked(folder, saved[0], lambda header, arrays, name=name: arrays.pop(name) is None or None)
        assert words in refusal(folder, missing)


# --------------------------------------------------------------------------------------------------------- failed saves


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch, plain):
    path = tmp_path / "model.npz"
    model = train(a_model())
    model.save(path)
    old = path.read_bytes()
    train(model, seed=1)

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for broken in ("os.replace", "os.fsync", "numpy.lib.format.write_array"):
        with monkeypatch.context() as patch:
            patch.setattr(broken, full)
            with pytest.raises(UserError, match=r"cannot write .*model.npz.*No space left"):
                model.save(path)
        assert path.read_bytes() == old
        assert list(tmp_path.iterdir()) == [path]
    with monkeypatch.context() as patch:
        patch.setattr(
            "numpy.lib.format.write_array", lambda *arguments, **options: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            model.save(path)
    assert list(tmp_path.iterdir()) == [path]
    model.save(path)
    assert path.read_bytes() != old
    assert Online.load(path).weights.tobytes() == model.weights.tobytes()


def test_a_file_that_may_not_grow(tmp_path, plain):
    """The limit on a file's size stands for a disk that is full."""
    path = tmp_path / "model.npz"
    model = Online(Gappletron(), FeedbackGraph.bandit(4), 4000)
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(UserError, match=r"cannot write .*too large"):
            model.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_places_where_nothing_can_be_saved(tmp_path, plain):
    model = a_model()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, words in (
        (tmp_path, "directory"),
        (tmp_path / "no" / "model", "No such file"),
        (tmp_path / "file" / "x", "directory"),
        (tmp_path / ("x" * 300), "too long"),
        (tmp_path / "loop", "circle|symbolic"),
        ("a\0b", "NUL"),
        ("/proc/model.npz", "cannot write"),
    ):
        with pytest.raises(UserError, match=words):
            model.save(path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "loop"]


def test_links_and_permissions_survive_a_save(tmp_path, plain):
    real, link = tmp_path / "real.npz", tmp_path / "link.npz"
    link.symlink_to(real)
    model = train(a_model())
    model.save(link)
    assert link.is_symlink()
    assert Online.load(real).weights.tobytes() == model.weights.tobytes()
    real.chmod(0o600)
    model.save(real)
    assert real.stat().st_mode & 0o777 == 0o600
    mask = os.umask(0o022)
    try:
        model.save(tmp_path / "new.npz")
    finally:
        os.umask(mask)
    assert (tmp_path / "new.npz").stat().st_mode & 0o777 == 0o600


class Compass(Exploration):
    """A rule whose state would not be made of arrays."""

    def declare(self):
        return {"direction": "north"}

    def explore(self, state, plan, greedy, gap, out):
        return 0.0

    def tuned(self, gamma):
        return self


def test_a_state_that_is_not_made_of_arrays_is_refused(plain):
    with pytest.raises(UserError, match=r"the state declares exploration.direction = 'north': declare a Field"):
        a_model(learner=Gappletron(exploration=Compass()))


def test_an_overdue_receipt_is_refused_also_without_a_journal(monkeypatch):
    with interpreted():
        model = Online("gapsmh", FeedbackGraph.bandit(3), features=2, pending_age=10.0)
        monkeypatch.setattr("time.time", lambda: 1000.0)
        receipt = model.act([1.0, 0.5])
        monkeypatch.setattr("time.time", lambda: 1011.0)
        with pytest.raises(UserError, match="has expired"):
            model.learn(receipt, receipt.action)


def test_two_models_that_are_compared_with_each_other_do_not_wait_for_ever():
    with interpreted():
        first, second = (Online("gapsmh", FeedbackGraph.bandit(3), features=2) for _ in range(2))
    pairs = [(first, second), (second, first)]
    threads = [threading.Thread(target=lambda a=a, b=b: [a.differences(b) for _ in range(60)]) for a, b in pairs]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)


def test_an_unknown_kind_of_rows_is_refused():
    with pytest.raises(UserError, match="did you mean 'records'"):
        Player("gapsmh", FeedbackGraph.bandit(3), 2, rows="record")
