"""Rows scaled by what was seen before them: against a naive reference, and whatever the columns' units are."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from scipy import sparse

from gappletron import UNSEEN, ArrayStream, FeedbackGraph, Online, Player, UserError, interpreted, play
from gappletron.data.transform import transform
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


def columns(rows, limit=3.0):
    """The docstring of Columns, one value at a time, from the history of each column."""
    width = len(rows[0])
    seen = [[] for _ in range(width)]  # values as they count, with outliers cut
    deviations, centres = [0.0] * width, [0.0] * width
    out, noted = [], 0
    for t, row in enumerate(rows, 1):
        scaled = []
        for j, v in enumerate(row):
            if v == 0.0:
                z = 0.0
            elif seen[j]:
                z = (v - centres[j]) / (deviations[j] / len(seen[j]))
            else:
                z = math.copysign(1.0, v)
            scaled.append(min(limit, max(-limit, z)))
        entries = sum(v != 0.0 for v in row)
        out.append([z / math.sqrt(max(1, entries)) for z in scaled])
        follows = t <= 1024 or (t * (math.sqrt(5) - 1) / 2) % 1 < 1 / 8
        noted += follows
        for j, v in enumerate(row):
            if v != 0.0 and (follows or not seen[j]):
                most = 10.0 * np.mean(np.abs(seen[j])) if seen[j] else math.inf
                seen[j].append(min(most, max(-most, v)))
                density = len(seen[j]) / noted
                share = min(1.0, max(0.0, (density - 0.5) / 0.45)) if noted >= 2 else 0.0
                centres[j] = share * np.mean(seen[j])
                if len(seen[j]) == 2:
                    deviations[j] = abs(seen[j][0] - centres[j])
                deviations[j] += abs(seen[j][-1] - centres[j])
    return np.array(out)


@pytest.mark.parametrize("outlier", [None, 1e6])
def test_columns_against_the_naive_reference(outlier):
    X, y = mixed_rows(np.random.default_rng(0), 1200)
    if outlier is not None:
        X[60] *= outlier
    (chunk,) = transform(ArrayStream(X, y), "columns").chunks()
    found = sparse.csr_matrix((chunk.values, chunk.indices, chunk.indptr), shape=X.shape).toarray()
    np.testing.assert_allclose(found, columns(X.tolist()), atol=1e-12)


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
        model = Online(graph=GRAPH, seed=7, feature_limit=64)
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
        assert (model.learner.name, model.features) == ("auto", 64)
        for chunk in stream.chunks():
            fixed.advance(chunk)
        # One more round was played at 40, so only the shapes agree; bit for bit is what the contract tests compare.
        assert model.weights.shape == (65, 3)
        assert fixed.weights.shape == (7, 3)
        assert np.isfinite(model.weights).all()
        assert (model.weights[7:] == 0.0).all()


def test_zeros_that_are_written_down_are_no_entries():
    X, _ = mixed_rows(np.random.default_rng(8), 60)
    with interpreted():
        model = Online(graph=GRAPH, features=6)
        for row in X:
            model.act(row)
        written = {j: float(v) for j, v in enumerate(X[0])}
        assert 0.0 in written.values()
        twins = [copy.copy(model).act(x) for x in (X[0], written, (list(written), list(written.values())))]
        assert len({receipt.turn.scores.tobytes() for receipt in twins}) == 1


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
        grown.grow(wide.shape[1])
        np.testing.assert_allclose(model.scores(wide), grown.scores(wide), rtol=1e-12)
        assert not np.allclose(model.scores(wide), model.scores(X[:9]))
        assert model.predict_many(wide) == [model.predict(wide[[t]]) for t in range(9)]
        assert model.predict_many(wide) == [copy.copy(model).act(wide[[t]]).greedy for t in range(9)]
        assert model.features == 1024


def test_a_column_that_keeps_step_with_the_rows_gets_a_scale():
    for parity in (0, 1):
        rows = np.ones((3000, 2))
        rows[:1100, 1] = 0.0
        rows[1100 + parity :: 2, 1] = np.random.default_rng(0).normal(500, 1, len(rows[1100 + parity :: 2]))
        rows[1101 - parity :: 2, 1] = 0.0
        (chunk,) = transform(ArrayStream(rows, np.arange(3000) % 2), "columns").chunks()
        late = chunk.values[chunk.indptr[2000] : chunk.indptr[3000]]
        assert np.abs(late).max() < 3.0


def test_a_dense_column_with_some_zeros_far_from_0():
    """Its mean is a hundred times its deviation, and one entry in a hundred is missing."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 6))
    y = (X[:, 0] > 0.0).astype(int)
    X[:, 0] += 100.0
    X[rng.random(2000) < 0.01, 0] = 0.0
    assert play("auto", (X, y), "full")[0].error_rate < 0.05


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
