"""The contract that every registered learner keeps. Adding a learner adds its tests: nothing here names one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import gappletron
from gappletron import (
    UNSEEN,
    ArrayStream,
    FeedbackGraph,
    Learner,
    Online,
    Player,
    Runs,
    Synthetic,
    UserError,
    interpreted,
    named,
    names,
    play,
    tuned,
)
from gappletron.kernel.compiling import prepare
from gappletron.kernel.spelling import decode_piece, encode_piece
from gappletron.play.rounds import new_tally
from problems import CONTRACT_GRAPHS, playable, small_stream
from storms import broken, chunk_of, extreme_rows

FEATURES = 5


@pytest.fixture(params=names())
def learner(request) -> Learner:
    return named(request.param)


@pytest.fixture(params=names())
def name(request) -> str:
    return request.param


def stream_of(graph, X, y):
    return ArrayStream(X, [graph.classes[k] for k in y], classes=graph.classes)


def bulk(learner, graph, X, y, seed=2, **options):
    runs = Runs(learner, stream_of(graph, X, y), graph, seed=seed, jobs=1, **options)
    for _ in runs:
        pass
    return runs.histories()[0], runs.weights()


def feedback(graph, receipt, label):
    return label if label in receipt.reveals else UNSEEN


def play_online(model, X, labels):
    actions = []
    for row, label in zip(X, labels, strict=True):
        receipt = model.act(row)
        actions.append(receipt.action)
        model.learn(receipt, feedback(model.graph, receipt, label))
    return actions


def test_a_new_file_is_all_that_a_new_learner_needs(tmp_path):
    """In a copy of the package; a file without LEARNERS registers nothing."""
    package = tmp_path / "gappletron"
    shutil.copytree(Path(gappletron.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "learners" / "a_new_file.py").write_text(
        "from gappletron.learners.perceptron import Perceptron\nLEARNERS = {'a-new-name': Perceptron()}\n"
    )
    (package / "learners" / "a_helper.py").write_text("USEFUL = {'nothing': 1}\n")
    done = subprocess.run(
        [sys.executable, "-m", "gappletron", "learners"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    listed = re.findall(r"^  ([a-z0-9-]+) ", done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted([*names(), "a-new-name"])


def test_can_play_something_and_says_what_it_is(learner, name):
    assert playable(learner.name)
    assert learner.setting
    assert learner.reference
    assert named(learner.name) == learner
    assert decode_piece(encode_piece(learner)) == learner


def test_a_graph_it_cannot_play_is_refused_in_a_sentence_that_names_others(name, monkeypatch):
    def fail(*args):
        raise AssertionError("something was compiled")

    monkeypatch.setattr("gappletron.kernel.compiling.specialise", fail)
    for graph in CONTRACT_GRAPHS:
        if named(name).refusal(graph) is not None:
            for attempt in (
                lambda graph=graph: Runs(name, (np.eye(graph.n_classes), graph.classes), graph),
                lambda graph=graph: Online(name, graph, features=3),
            ):
                with pytest.raises(
                    UserError, match=rf"^{name} cannot play the graph .*: it .*; choose for example"
                ) as caught:
                    attempt()
                for other in str(caught.value).split("for example ")[1].split(" and ")[0].split(", "):
                    assert named(other.strip("'")).refusal(graph) is None


def test_one_at_a_time_equals_bulk_in_seen_unseen_and_wrong_rounds(name):
    with interpreted():
        for number, graph in enumerate(playable(name)):
            X, y = small_stream(np.random.default_rng(number), 120, FEATURES, graph.n_classes)
            history, W = bulk(named(name), graph, X, y)
            model = Online(name, graph, FEATURES, seed=2)
            labels = [graph.classes[k] for k in y]
            actions = play_online(model, X, labels)
            assert model.weights.tobytes() == W.tobytes()
            assert history.mistakes == sum(action != label for action, label in zip(actions, labels, strict=True))
            assert np.isfinite(W).all()


def test_compiled_equals_interpreted(name):
    graph = playable(name)[0]
    X, y = small_stream(np.random.default_rng(1), 300, FEATURES, graph.n_classes)
    compiled, W = bulk(named(name), graph, X, y)
    with interpreted():
        plain, W_plain = bulk(named(name), graph, X, y)
    assert W.tobytes() == W_plain.tobytes()
    assert (compiled.mistakes, compiled.explored, compiled.rate_sum) == (plain.mistakes, plain.explored, plain.rate_sum)
    learner, scores = named(name), np.random.default_rng(2).normal(size=graph.n_classes)
    greedy = int(np.argmax(scores))
    loss = prepare(surrogate_of, learner, scores, greedy, 0)
    for label in range(graph.n_classes):
        assert loss(learner, scores, greedy, label) == learner.surrogate(scores, greedy, label)
    assert_equal_on_extreme_rows(name, graph)  # here, and not in test_numbers.py: the same code is compiled once


def surrogate_of(learner, scores, greedy, y):
    return learner.surrogate(scores, greedy, y)


def assert_equal_on_extreme_rows(name, graph):
    """Thousands of rounds, the first hundreds as in interpreted code."""
    rng = np.random.default_rng(7)
    player, tally = (
        Player(name, graph, FEATURES, seed=1),
        new_tally(np.zeros(0, np.int64), graph.n_actions, graph.n_classes),
    )
    with interpreted():
        plain = Player(name, graph, FEATURES, seed=1)
    for number in range(60):
        n = int(rng.integers(1, 100))
        chunk = chunk_of(extreme_rows(rng, n, FEATURES), rng.integers(0, graph.n_classes, n))
        player.advance(chunk, tally=tally)
        assert broken(player) is None
        if number < 4:
            with interpreted():
                plain.advance(chunk)
            assert player.engine.state == plain.engine.state


def test_the_same_seed_gives_the_same_bits_and_another_seed_other_actions(name):
    with interpreted():
        graph = playable(name)[0]
        X, y = small_stream(np.random.default_rng(3), 150, FEATURES, graph.n_classes)
        labels = [graph.classes[k] for k in y]

        first, again, other = (play_online(Online(name, graph, FEATURES, seed=seed), X, labels) for seed in (1, 1, 2))
        assert first == again
        # Whoever draws from a distribution that is not a point must draw otherwise with another seed.
        randomises = any(receipt.probability < 1.0 for receipt in receipts(name, graph, X, labels))
        assert (first != other) == randomises


def receipts(name, graph, X, labels):
    model = Online(name, graph, FEATURES, seed=1)
    for row, label in zip(X, labels, strict=True):
        receipt = model.act(row)
        model.learn(receipt, feedback(graph, receipt, label))
        yield receipt


def test_one_draw_a_round_whatever_happens(name):
    with interpreted():
        for graph in playable(name):
            X, y = small_stream(np.random.default_rng(4), 40, FEATURES, graph.n_classes)
            model = Online(name, graph, FEATURES, seed=9)
            play_online(model, X, [graph.classes[k] for k in y])
            expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence(9, spawn_key=(0,))))
            expected.random(40)
            assert model._player.engine.draws.draw(40) == expected.random()


def test_probabilities_are_a_distribution_and_decide_the_action(name):
    with interpreted():
        for graph in playable(name):
            X, y = small_stream(np.random.default_rng(7), 60, FEATURES, graph.n_classes)
            model = Online(name, graph, FEATURES, seed=3)
            draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(3, spawn_key=(0,)))).random(60)
            for row, k, u in zip(X, y, draws, strict=True):
                receipt = model.act(row)
                p = receipt.probabilities
                assert (p >= 0).all()
                assert p.sum() == pytest.approx(1.0, abs=1e-9)
                assert receipt.action == graph.actions[int(np.searchsorted(np.cumsum(p[:-1]), u, side="right"))]
                model.learn(receipt, feedback(graph, receipt, graph.classes[k]))


def test_predict_is_pure_and_agrees_with_the_greedy_class(name):
    with interpreted():
        graph = playable(name)[-1]
        X, y = small_stream(np.random.default_rng(8), 60, FEATURES, graph.n_classes)
        labels = [graph.classes[k] for k in y]
        quiet, asked = (Online(name, graph, FEATURES, seed=5) for _ in range(2))
        for row, label in zip(X, labels, strict=True):
            guess = asked.predict(row)
            for other in X[:3]:
                asked.predict(other)
            receipt = asked.act(row)
            assert guess == receipt.greedy
            asked.learn(receipt, feedback(graph, receipt, label))
        play_online(quiet, X, labels)
        assert quiet.weights.tobytes() == asked.weights.tobytes()


def test_saved_and_loaded_it_goes_on_bit_for_bit(name, tmp_path):
    with interpreted():
        graph = playable(name)[0]
        X, y = small_stream(np.random.default_rng(11), 80, FEATURES, graph.n_classes)
        labels = [graph.classes[k] for k in y]
        model = Online(name, graph, FEATURES, seed=6)
        play_online(model, X[:37], labels[:37])
        waiting = model.act(X[37])
        model.save(tmp_path / "model.npz")
        again = Online.load(tmp_path / "model.npz")
        for copy in (model, again):
            copy.learn(waiting.id, feedback(graph, waiting, labels[37]))
        assert play_online(model, X[38:], labels[38:]) == play_online(again, X[38:], labels[38:])
        assert model.weights.tobytes() == again.weights.tobytes()


def test_sparse_equals_dense(name):
    with interpreted():
        graph = playable(name)[0]
        X, y = small_stream(np.random.default_rng(12), 80, FEATURES, graph.n_classes)
        stored = sparse.csr_matrix(np.ones_like(X))
        stored.data[:] = X.reshape(-1)  # every zero is given, as by an array
        wanted = bulk(named(name), graph, X, y)[1].tobytes()
        assert bulk(named(name), graph, sparse.csc_matrix(stored), y)[1].tobytes() == wanted
        plain, sparser = (bulk(named(name), graph, x, y, normalize=None)[1] for x in (X, sparse.csc_matrix(X)))
        assert sparser.tobytes() == plain.tobytes()
        if named(name).default_normalize == "none":
            assert bulk(named(name), graph, sparse.csc_matrix(X), y)[1].tobytes() == wanted


def test_zeros_that_are_given_change_no_bit_of_rows_that_are_not_scaled(name):
    """In bulk they are dropped, one at a time they are played."""
    with interpreted():
        for graph in playable(name):
            X, y = small_stream(np.random.default_rng(14), 60, FEATURES, graph.n_classes)
            zeros, none, chunks = (Player(name, graph, FEATURES, seed=1, normalize=None) for _ in range(3))
            for t, row in enumerate(X):
                for player, x in ((zeros, row), (none, sparse.csr_array(X[[t]]))):
                    turn = player.act(x)
                    player.learn(turn, y[t] if graph.visible[turn.action, y[t]] else -1)
            for chunk in stream_of(graph, X, y).chunks():
                chunks.advance(chunk)
            assert zeros.to_bytes() == none.to_bytes() == chunks.to_bytes()


def test_an_empty_row_changes_no_weights(name):
    with interpreted():
        for graph in playable(name):
            if named(name).setting == "any graph, ignores the features":
                continue
            X, y = small_stream(np.random.default_rng(13), 30, FEATURES, graph.n_classes)
            model = Online(name, graph, FEATURES, seed=1, bias=False)
            play_online(model, X, [graph.classes[k] for k in y])
            before = model.weights
            play_online(model, [sparse.csr_array((1, FEATURES))] * 5, [graph.classes[0]] * 5)
            assert model.weights.tobytes() == before.tobytes()
            if named(name).default_normalize == "none":  # where columns are scaled, a zero that is given is a value
                play_online(model, np.zeros((5, FEATURES)), [graph.classes[0]] * 5)
                assert model.weights.tobytes() == before.tobytes()


def test_both_tunings_of_the_figures(name):
    for graph in playable(name):
        for tuning in ("theory", "only-t"):
            learner = tuned(named(name), tuning, graph, rounds=100_000, features=120, max_norm=5.0)
            assert type(learner) is type(named(name))
            assert learner.name == name
            again = tuned(learner, tuning, graph, rounds=100_000, features=120, max_norm=5.0)
            assert again == learner
        with pytest.raises(UserError, match="nonsense"):
            tuned(named(name), "nonsense", graph, rounds=1000, features=12, max_norm=5.0)


@pytest.mark.parametrize("x", [[1.0] * 4, [np.nan] * 5, ([7], [1.0]), "text", None])
def test_bad_input_is_refused_and_changes_nothing(name, x):
    with interpreted():
        model = Online(name, playable(name)[0], FEATURES, seed=1)
        with pytest.raises(UserError):
            model.act(x)
        fresh = Online(name, playable(name)[0], FEATURES, seed=1)
        assert (
            model.act(np.ones(FEATURES)).probabilities.tobytes() == fresh.act(np.ones(FEATURES)).probabilities.tobytes()
        )


@pytest.mark.parametrize("norm", [0.0, 1e-200, 1e200])
def test_a_norm_that_no_tuning_can_use_is_refused_or_not_needed(name, norm):
    graph = playable(name)[0]
    for tuning in ("theory", "only-t"):
        try:
            learner = tuned(named(name), tuning, graph, rounds=1000, features=10, max_norm=norm)
        except UserError:
            with pytest.raises(UserError, match="scale the rows"):
                tuned(named(name), tuning, graph, rounds=1000, features=10, max_norm=norm)
        else:
            assert learner == tuned(named(name), tuning, graph, rounds=1000, features=10, max_norm=1.0)


NOT_SEPARATING = {
    "banditron-iw": "it explores at a fixed rate, also where there is nothing to explore",
    "exp3-g": "it ignores the features",
    "gaptron-log": "with D = 1 and rows of norm 5, a rate of ln 2 / (2 K X^2) hardly moves W in 20,000 rounds",
}


@pytest.mark.parametrize("name", names(FeedbackGraph.full(4)))
def test_with_full_information_the_noise_free_stream_is_separated(name):
    """The last tenth of the paper's stream: (almost) no mistakes, at most 1 percent, for all but those with a
    reason.
    """
    stream, graph = "synthetic:K=4,d=80,noise=0,T=20000,seed=3", FeedbackGraph.full(4)
    learner = tuned(
        named(name), "theory", graph, rounds=20_000, features=80, max_norm=Synthetic.parse(stream[10:]).max_norm
    )
    curve = play(learner, stream, graph, curve=[18_000])[0].curve
    late = int(curve.mistakes[1] - curve.mistakes[0])
    assert (late <= 20) == (name not in NOT_SEPARATING), late
