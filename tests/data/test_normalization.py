"""Rows scaled by what was seen before them: against a naive reference, and whatever the columns' units are."""

from __future__ import annotations

import copy
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from gappletron import (
    UNSEEN,
    ArrayStream,
    Encoder,
    FeedbackGraph,
    Online,
    Player,
    SvmlightFile,
    UserError,
    interpreted,
    open_stream,
    play,
)
from gappletron.data import normalization
from gappletron.data.stream import largest_norm
from gappletron.data.transform import transform
from gappletron.kernel.types import Vector
from problems import small_stream

GRAPH = FeedbackGraph.filtering(["a", "b", "c"])
SCALES = np.array([1e-3, 1.0, 50.0, 7.0, 1.0, 2e4])
RAW = np.random.default_rng(7).normal(size=(60, 4))


def mixed_rows(rng, rounds):
    """Columns in different units: dense ones far from 0, sparse ones, counts."""
    X, y = small_stream(rng, rounds, 6, 3)
    X[:, 1] += 5.0
    X[:, 5] = 3.0 + rng.normal(size=rounds)
    X[:, 3] = rng.poisson(0.4, rounds)
    return X * SCALES, y


def columns(rows, limit=2.0, memory=4096):
    """The docstring of Columns, one value at a time, from the history of each column; None is an entry left out."""
    width = len(rows[0])
    # For each column its entries as they count, with outliers cut: weight, value, deviation; and its rows.
    seen, counted = [np.zeros((3, 0)) for _ in range(width)], [0.0] * width
    centres, scales = [0.0] * width, [0.0] * width
    out, noted = [], 0
    for t, row in enumerate(rows, 1):
        entries = sum(v is not None for v in row)
        scaled = []
        for j, v in enumerate(row):
            z = 0.0 if v is None else (v - centres[j]) / scales[j] if scales[j] else float(np.sign(v))
            if abs(z) > limit:
                z = math.copysign(limit + math.log(1 + abs(z) - limit), z)
            scaled.append(z / math.sqrt(max(1, entries)))
        out.append(scaled)
        follows = t <= 1024 or (t * (math.sqrt(5) - 1) / 2) % 1 < 1 / 8
        noted += follows
        for j, given in enumerate(row):
            counted[j] += follows
            if given is None or not (follows or scales[j] == 0.0):
                continue
            weights, values, deviations = seen[j]
            some = values.any()
            # A first entry that is far larger than the second one counts as ten times that.
            if given and weights[values != 0.0].sum() == 1.0 and abs(values).max() > 100.0 * abs(given):
                factor = 10.0 * abs(given) / abs(values).max()
                values, deviations = values * factor, deviations * factor
            most = 10.0 * (weights * abs(values)).sum() / weights[values != 0.0].sum() if some else math.inf
            v = min(most, max(-most, given))
            weights, values = np.append(weights, 1.0), np.append(values, v)
            share = min(1.0, max(0.0, (weights.sum() / counted[j] - 0.5) / 0.45)) if noted >= 2 else 0.0
            centres[j] = share * (weights * values).sum() / weights.sum()
            deviations = np.append(deviations, abs(v - centres[j]))
            if len(values) == 2:
                deviations[0] = abs(values[0] - centres[j])
            scales[j] = (weights * deviations).sum() / weights.sum()
            if weights.sum() > memory:
                counted[j] *= memory / weights.sum()
                weights = weights * (memory / weights.sum())
            seen[j] = np.array([weights, values, deviations])
    return np.array(out)


def left_out(X):
    """Rows for the reference without their zeros."""
    return [[v or None for v in row] for row in X.tolist()]


def with_all_zeros(X):
    """A sparse matrix in which every zero is stored."""
    return sparse.csr_array((X.reshape(-1), np.tile(np.arange(X.shape[1]), len(X)), np.arange(len(X) + 1) * X.shape[1]))


def scale(X, y):
    """What a transformed stream has in place of X."""
    chunks = transform(ArrayStream(X, y), "columns").chunks()
    return np.vstack(
        [
            sparse.csr_matrix((c.values, c.indices, c.indptr), shape=(len(c.labels), X.shape[1])).toarray()
            for c in chunks
        ]
    )


@pytest.mark.parametrize("outlier", [None, 1e6])
def test_columns_against_the_naive_reference(outlier):
    X, y = mixed_rows(np.random.default_rng(0), 1200)
    if outlier is not None:
        X[0] *= outlier
        X[60] *= outlier
    np.testing.assert_allclose(scale(X, y), columns(X.tolist()), atol=1e-12)
    np.testing.assert_allclose(scale(sparse.csr_array(X), y), columns(left_out(X)), atol=1e-12)


def test_columns_forget_as_the_naive_reference_does():
    """Columns that change after 4,096 entries were noted: a dense one, one with gaps, and a rare one."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(45_000, 3)) + 5.0
    X[30_000:] = 100.0 + 10.0 * X[30_000:]
    X[rng.random(45_000) < 0.2, 1] = 0.0
    X[rng.random(45_000) < 0.95, 2] = 0.0
    y = np.arange(45_000) % 2
    found = scale(sparse.csr_array(X), y)
    np.testing.assert_allclose(found, columns(left_out(X)), atol=1e-9)
    without = columns(left_out(X), memory=math.inf)
    assert abs(found[-3000:, 0].mean()) < 0.9 * abs(without[-3000:, 0].mean())


def test_columns_forget_with_the_same_bits_interpreted_and_compiled(monkeypatch):
    X, y = mixed_rows(np.random.default_rng(4), 12_000)
    with interpreted():
        slow = scale(X, y)
        monkeypatch.setattr(normalization, "MOST_ENTRIES", 100.0)
        np.testing.assert_allclose(scale(X[:500], y[:500]), columns(X[:500].tolist(), memory=100), atol=1e-12)
        sparse_rows = sparse.csr_array(X[:500])
        np.testing.assert_allclose(scale(sparse_rows, y[:500]), columns(left_out(X[:500]), memory=100), atol=1e-12)
    assert scale(X, y).tobytes() == slow.tobytes()


def test_a_zero_is_the_same_however_it_is_given(tmp_path):
    """Dense, stored in a sparse matrix, in a file; as a pair, a mapping and a one-row matrix: the same bits."""
    X, y = mixed_rows(np.random.default_rng(8), 60)
    stored = with_all_zeros(X)
    file = tmp_path / "rows.svm"
    rows = (" ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(row)) for row in X)
    file.write_text("".join(f"{label} {row}\n" for label, row in zip(y, rows, strict=True)))
    given = [ArrayStream(X, y), ArrayStream(stored, y), SvmlightFile(file)]
    assert len({next(transform(stream, "columns").chunks()).values.tobytes() for stream in given}) == 1
    with interpreted():
        model = Online(graph=GRAPH, features=6)
        for row, label in zip(X, y, strict=True):
            receipt = model.act(row)
            name = GRAPH.classes[label]
            model.learn(receipt, name if name in receipt.reveals else UNSEEN)
        written = {j: float(v) for j, v in enumerate(X[0])}
        assert 0.0 in written.values()
        forms = (X[0], written, (list(written), list(written.values())), stored[[0]])
        twins = [copy.copy(model).act(x).turn.scores.tobytes() for x in forms]
        assert len(set(twins)) == 1
        assert copy.copy(model).act(sparse.csr_array(X[[0]])).turn.scores.tobytes() != twins[0]
        scores = [model.scores(rows).tobytes() for rows in (X, stored)]
        assert scores[0] == scores[1]


def test_a_number_0_of_a_record_is_a_value():
    """A record, a list of records and a frame have the same features; a number 0 is an entry, a missing one is not."""
    encoder = Encoder(numeric=["a", "b"])
    records = [{"a": 0, "b": 2.5}, {"a": 0.0, "b": -0.0}, {"a": 1, "b": 0}]
    table = pa.table({name: [float(record[name]) for record in records] for name in "ab"})
    listed, framed = encoder.encode_many(records), encoder.encode_many(table)
    assert all(one.tobytes() == other.tobytes() for one, other in zip(listed, framed, strict=True))
    assert listed[0].tolist() == [0, 2, 4, 6]
    assert encoder.encode(records[0])[1].tolist() == listed[2][:2].tolist()
    assert sorted(listed[2][:2].tolist()) == [0.0, 2.5]


@pytest.mark.parametrize("normalize", ["columns", "unit", "log1p-unit", None])
def test_one_at_a_time_equals_bulk_with_zeros_that_are_given(normalize):
    X, y = mixed_rows(np.random.default_rng(10), 200)
    stream = ArrayStream(X, [GRAPH.classes[k] for k in y], classes=GRAPH.classes)
    with interpreted():
        one, bulk = (Player("auto", GRAPH, 6, seed=2, normalize=normalize) for _ in range(2))
        for row, label in zip(X, y, strict=True):
            turn = one.act(row)
            one.learn(turn, label if GRAPH.visible[turn.action, label] else -1)
        for chunk in stream.chunks():
            bulk.advance(chunk)
        assert one.to_bytes() == bulk.to_bytes()
        assert one.predict_many(X).tolist() == [one.predict(row) for row in X]


def test_a_player_scales_as_a_stream_does():
    """The same weights to the last bit, with the bias in front."""
    X, y = mixed_rows(np.random.default_rng(1), 200)
    stream = ArrayStream(X, [GRAPH.classes[k] for k in y], classes=GRAPH.classes)
    with interpreted():
        for normalize in ("columns", "unit", "log1p-unit", None):
            for bias in (False, True):
                player = Player("auto", GRAPH, 6, seed=1, normalize=normalize, bias=bias)
                given = Player("auto", GRAPH, 6 + bias, seed=1, normalize=None, bias=False)
                for chunk in stream.chunks():
                    player.advance(chunk)
                for chunk in transform(stream, normalize, bias).chunks():
                    given.advance(chunk)
                assert player.weights.tobytes() == given.weights.tobytes()
                assert player.features == 6
                assert player.weights.shape == (6 + bias, 3)


def played(X, y, **options):
    stream = ArrayStream(X, [GRAPH.classes[k] for k in y], classes=GRAPH.classes)
    return play("auto", stream, GRAPH, seed=5, curve="every", **options)[0].curve.mistakes.tolist()


def test_units_do_not_matter():
    X, y = mixed_rows(np.random.default_rng(2), 400)
    wanted = played(X, y)
    assert played(X * 1000, y) == wanted
    assert played(X / 1024, y) == wanted
    for j in range(6):
        changed = X.copy()
        changed[:, j] *= 1000
        assert played(changed, y) == wanted
    assert played(X * 1000, y, normalize="unit") == played(X, y, normalize="unit")
    assert played(X * 1024, y, normalize=None, bias=False) == played(X, y, normalize=None, bias=False)


def test_one_outlier_is_forgotten():
    X, y = mixed_rows(np.random.default_rng(4), 1500)
    usual = played(X, y)[-1]
    X[300] *= 1e6
    assert played(X, y)[-1] <= usual + 30  # 2 percent of the rounds; a scale set by the outlier would cost hundreds


def test_one_at_a_time_with_a_growing_number_of_features(tmp_path):
    X, y = mixed_rows(np.random.default_rng(5), 80)
    stream = ArrayStream(X, [GRAPH.classes[k] for k in y], classes=GRAPH.classes)
    with interpreted():
        model = Online(graph=GRAPH, seed=7)
        fixed = Player("auto", GRAPH, 6, seed=7)
        for t, (row, label) in enumerate(zip(X, y, strict=True)):
            receipt = model.act(row)
            name = GRAPH.classes[label]
            model.learn(receipt, name if name in receipt.reveals else UNSEEN)
            if t == 40:
                model.act(row)  # waits when the model is saved
                model.save(tmp_path / "model.npz")
                model = Online.load(tmp_path / "model.npz")
                waiting = model.pending[0]
                model.learn(waiting, "a" if "a" in waiting.reveals else UNSEEN)
        assert (model.learner.name, model.features) == ("auto", 6)
        for chunk in stream.chunks():
            fixed.advance(chunk)
        # One more round was played at 40, so only the shapes agree; bit for bit is what the contract tests compare.
        assert model.weights.shape == fixed.weights.shape == (7, 3)
        assert np.isfinite(model.weights).all()


def test_looking_at_features_that_are_not_there_yet():
    """A growing model predicts as it would if it had grown."""
    X, y = mixed_rows(np.random.default_rng(9), 60)
    with interpreted():
        model = Online(graph=GRAPH)
        for row, label in zip(X, y, strict=True):
            receipt = model.act(row)
            model.learn(receipt, GRAPH.classes[label] if GRAPH.classes[label] in receipt.reveals else UNSEEN)
        wide = sparse.csr_array(np.hstack([X[:9], np.zeros((9, 3000)), RAW[:9]]))
        grown = copy.copy(model)
        for index in np.setdiff1d(wide.indices, np.arange(X.shape[1])):  # rows without effect: an entry of 0
            grown.player.place(Vector(np.array([index], np.int32), np.zeros(1), 0.0), -1)
        assert grown.features > model.features
        np.testing.assert_allclose(model.scores(wide), grown.scores(wide), rtol=1e-12)
        assert not np.allclose(model.scores(wide), model.scores(X[:9]))
        assert model.predict_many(wide) == [model.predict(wide[[t]]) for t in range(9)]
        assert model.predict_many(wide) == [copy.copy(model).act(wide[[t]]).greedy for t in range(9)]
        assert model.features == X.shape[1]


def test_a_column_that_keeps_step_with_the_rows_gets_a_scale():
    for parity in (0, 1):
        rows = np.ones((3000, 2))
        rows[:1100, 1] = 0.0
        rows[1100 + parity :: 2, 1] = np.random.default_rng(0).normal(500, 1, len(rows[1100 + parity :: 2]))
        rows[1101 - parity :: 2, 1] = 0.0
        (chunk,) = transform(ArrayStream(sparse.csr_array(rows), np.arange(3000) % 2), "columns").chunks()
        late = chunk.values[chunk.indptr[2000] : chunk.indptr[3000]]
        assert np.abs(late).max() < 3.0


def test_a_dense_column_with_some_gaps_far_from_0():
    """Its mean is a hundred times its deviation, and one entry in a hundred is missing."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 6))
    y = (X[:, 0] > 0.0).astype(int)
    X[:, 0] += 100.0
    X[rng.random(2000) < 0.01, 0] = 0.0
    assert play("auto", (sparse.csr_array(X), y), "full")[0].error_rate < 0.05


def test_where_0_lies_does_not_matter():
    """Columns from 0 to 100 where 0 is frequent; moved by a constant they are learned as well."""
    rng = np.random.default_rng(11)
    X = rng.integers(0, 101, (3000, 5)) * (rng.random((3000, 5)) < 0.6)
    y = (X @ [1.0, -1.0, 0.5, 0.5, 0.0] > 25.0).astype(int)
    usual = play("auto", (X, y), "full")[0].error_rate
    assert usual < 0.06
    for shift in (-100, 7, 1000):
        assert abs(play("auto", (X + shift, y), "full")[0].error_rate - usual) < 0.01


def test_a_rare_outlier_is_a_signal():
    """One row in twenty is 30 deviations away, and is of the other class; those up to 8 deviations away are not."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(4000, 3))
    far = rng.random(4000)
    X[far < 0.15, 0] = rng.uniform(4.0, 8.0, (far < 0.15).sum())
    X[far < 0.05, 0] = rng.uniform(30.0, 40.0, (far < 0.05).sum())
    y = (far < 0.05).astype(int)
    run = play("auto", (X, y), "full", curve=[2000])[0]
    assert run.mistakes - run.curve.mistakes[0] <= 0.02 * 2000


def test_one_row_of_a_million_does_not_ruin_a_model():
    """On average at most 2 percent more mistakes; a single run has a standard deviation of 20."""
    X, y = mixed_rows(np.random.default_rng(13), 1500)

    def count_mistakes(rows):
        stream = ArrayStream(rows, [GRAPH.classes[k] for k in y], classes=GRAPH.classes)
        return np.mean([run.mistakes for run in play("auto", stream, GRAPH, seed=5, repeats=16)])

    usual = count_mistakes(X)
    for at in (0, 1, 5, 300):
        changed = X.copy()
        changed[at] = 1e6 * SCALES
        assert count_mistakes(changed) <= usual + 30


@pytest.mark.parametrize("width", [1, 2, 5])
def test_few_columns_and_a_threshold_away_from_the_mean(width):
    X = np.random.default_rng(2).normal(size=(3000, width))
    y = (X.sum(axis=1) > math.sqrt(width)).astype(int)  # 16 percent
    assert play("auto", (X, y), "full")[0].error_rate < 0.04


def test_a_transformed_stream_is_not_transformed_again():
    X, y = mixed_rows(np.random.default_rng(6), 150)
    stream = ArrayStream(X, [GRAPH.classes[k] for k in y], classes=GRAPH.classes)
    by_stream = play("auto", transform(stream, "columns", bias=True), GRAPH, seed=5)[0]
    assert by_stream.mistakes == play("auto", stream, GRAPH, seed=5)[0].mistakes


def test_the_largest_norm_of_scaled_columns_is_measured():
    X, y = mixed_rows(np.random.default_rng(14), 300)
    X[200] *= 1e6
    for bias in (False, True):
        stream = transform(ArrayStream(X, y), "columns", bias)
        assert stream.max_norm == max(map(largest_norm, stream.chunks()))
        short = open_stream((X, y), normalize="columns", bias=bias, rounds=100)
        assert (short.rounds, short.max_norm) == (100, stream.max_norm)


def test_wrong_options():
    for option, message in (
        ({"normalize": "l2"}, "no normalization 'l2': choose one of 'auto', 'none', 'unit', 'log1p-unit', 'columns'"),
        ({"bias": 1}, "bias must be True, False or 'auto', not 1"),
    ):
        with pytest.raises(UserError, match=message):
            Player("auto", GRAPH, 3, **option)
    with pytest.raises(UserError, match="there is no feedback graph: say what is seen after which prediction"):
        Online()
    with pytest.raises(UserError, match="there is no stream to play"):
        play(graph="bandit")
    with pytest.raises(UserError, match="there is no graph to play"):
        play(stream=([[1.0], [2.0]], ["a", "b"]))
