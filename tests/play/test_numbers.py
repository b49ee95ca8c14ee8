"""Numbers at the edges: accepted input never breaks a learner's state, and a broken state is not saved or loaded."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from gappletron import (
    ConfidenceWeighted,
    FeedbackGraph,
    FixedOGD,
    Gappletron,
    Hinge,
    LogisticBase2,
    Online,
    Paper,
    Player,
    ProjectedOGD,
    ScaleFreeFTRL,
    TopUp,
    UserError,
    interpreted,
    named,
    names,
)
from gappletron.kernel.numerics import LARGEST_VALUE
from gappletron.learners.learner import Round, propensity
from gappletron.play import archive as model_files
from problems import CONTRACT_GRAPHS, OPTIMIZERS, playable, row_of, state_of
from storms import broken, chunk_of, extreme_numbers, length

BANDIT, FULL = FeedbackGraph.bandit(3), FeedbackGraph.full(2)


# ------------------------------------------------------------------------------------------------------------- storms


@pytest.mark.parametrize("name", names())
def test_extreme_rows_break_no_learner(name):
    with interpreted():
        for number, graph in enumerate(playable(name)):
            extreme_numbers(150, number, name, graph)


@pytest.mark.parametrize("rule", [TopUp(), TopUp(gamma=0), Paper()], ids=str)
@pytest.mark.parametrize(
    "optimizer", [*(optimizer for optimizer, _ in OPTIMIZERS.values()), ConfidenceWeighted()], ids=str
)
def test_extreme_rows_break_no_optimizer_and_no_exploration_rule(optimizer, rule):
    with interpreted():
        for number, graph in enumerate(CONTRACT_GRAPHS[:5:2]):
            for loss in (Hinge(), LogisticBase2()):
                extreme_numbers(100, number, Gappletron(loss, optimizer, rule), graph)


# ------------------------------------------------------------------------------------------------- one cure at a time


def stepped(optimizer, rows, flip=True):
    """The state after gradients along these rows, whose sign changes from row to row or not."""
    state = state_of(optimizer, len(rows[0]), 2)
    for t, row in enumerate(rows):
        sign = (-1.0) ** t if flip else 1.0
        optimizer.step(state.tuple, row_of(row, 2), np.array([sign, -sign]), 1.0)
        assert state.problem() is None
    return state


def weights_of(optimizer, state):
    return optimizer.weights(state.tuple)[:, : state.sizes.classes]


@pytest.mark.parametrize("size", [LARGEST_VALUE, 1e30, 1e-100])
def test_a_fixed_rate_stays_in_its_ball_whatever_the_rows(size):
    optimizer = FixedOGD(1.0, 1e-3)
    rng = np.random.default_rng(0)
    rows = size * rng.choice([-1.0, 1.0], (50, 3))
    state = stepped(optimizer, np.vstack([rows, 1e-3 * rows, rng.normal(size=(50, 3))]))
    assert length(weights_of(optimizer, state)) <= 1e-3 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("radius", "sizes"),
    [
        (1e-3, [1e30, 1e30, 1e30, LARGEST_VALUE]),  # a step on V of 1e165: the scale is multiplied into V before it
        (1e-24, [1e26, 1e-1, LARGEST_VALUE]),  # a scale of 1e-163 after it, whose square is 0
    ],
)
def test_a_long_row_at_a_small_scale(radius, sizes):
    optimizer = FixedOGD(1.0, radius)
    state = state_of(optimizer, 2, 2)
    for size in sizes:
        weight = 2.0**53 if size == LARGEST_VALUE else 1.0
        optimizer.step(state.tuple, row_of([size, size], 2), np.array([1.0, -1.0]), weight)
        assert state.problem() is None
        assert length(weights_of(optimizer, state)) == pytest.approx(radius, rel=1e-9, abs=0)
        kept = math.sqrt(state.arrays["squared"][0]) * state.arrays["scale"][0]
        assert kept == pytest.approx(radius, rel=1e-9, abs=0)


@pytest.mark.parametrize("size", [1e-60, 1e-99, 1e-155, 1e-161])
def test_rows_of_any_shortness_stay_in_the_ball(size):
    """The same rows a thousand times: the scale falls, and the factors of the steps grow."""
    for optimizer in (ProjectedOGD(1.0), ScaleFreeFTRL(1.0)):
        state = stepped(optimizer, size * np.array([[1.0, (-1.0) ** (t // 2)] for t in range(1000)]))
        assert length(weights_of(optimizer, state)) <= 1 + 1e-9


def test_short_rows_are_learned_from_as_long_as_their_squares_add_up():
    for size in (1e-90, 1.0, 1e40):
        optimizer = ProjectedOGD(1.0)
        W = weights_of(optimizer, stepped(optimizer, size * np.array([[1.0, 2.0], [2.0, 1.0], [1.0, -1.0]])))
        reference = weights_of(optimizer, stepped(optimizer, np.array([[1.0, 2.0], [2.0, 1.0], [1.0, -1.0]])))
        np.testing.assert_allclose(W, reference, rtol=1e-9)  # it is scale-free


def test_a_sum_of_gradients_that_cancels_is_measured_again():
    optimizer = ScaleFreeFTRL(1e-12)
    rows = [[1 / 3, 0.0]] * 60 + [[-1 / 3, 1e-10]] * 60
    state = stepped(optimizer, rows, flip=False)
    assert length(weights_of(optimizer, state)) == pytest.approx(1e-12, rel=1e-6, abs=0)


def test_pnewtron_measures_again_what_cancelled():
    with interpreted():
        for seed in range(12):
            player = Player("pnewtron", BANDIT, 4, seed=seed)
            rng = np.random.default_rng(seed)
            for _ in range(30):
                X = rng.choice([-1.0, 1.0], (8, 4)) * 10.0 ** rng.choice([0, 0, 0, 9], (8, 4))
                player.advance(chunk_of(X, rng.integers(0, 3, 8)))
                assert broken(player) is None


@pytest.mark.parametrize("name", ["second-order-perceptron", "soba", "newtron"])
@pytest.mark.parametrize("size", [1e5, 1e7, 1e9, 1e15, LARGEST_VALUE])
def test_full_matrices_stay_positive_definite_and_go_on_learning(name, size):
    graph = playable(name)[0]
    rng = np.random.default_rng(1)
    rule = rng.normal(size=(3, graph.n_classes))
    with interpreted():
        player = Player(name, graph, 3, seed=1)
        X = np.clip(size * rng.normal(size=(40, 3)), -LARGEST_VALUE, LARGEST_VALUE)
        player.advance(chunk_of(X, rng.integers(0, graph.n_classes, 40)))
        inverse = player.engine.state.arrays["inverse"].reshape(3 * graph.n_classes, -1)
        eigenvalues = np.linalg.eigvalsh(inverse)
        assert eigenvalues.min() > -1e-12 * eigenvalues.max()
        assert broken(player) is None
        before = player.weights
        X = rng.normal(size=(60, 3))
        player.advance(chunk_of(X, np.argmax(X @ rule, axis=1)))
        assert broken(player) is None
        assert (player.weights != before).any()


SPOILED = {
    "a negative form": lambda A, W: A.__setitem__(np.ix_([0, 1], [0, 1]), [[1e-9, 1.003e-9], [1.003e-9, 1e-9]]),
    "a diagonal that is too small": lambda A, W: A.__setitem__(np.ix_([0, 2], [0, 2]), [[1.0, 1e-8], [1e-8, 1e-18]]),
    "weights that are too large": lambda A, W: W.__setitem__((0, 0), 1e40),
}
"""What rounding errors could do to A^-1 (features and classes: 00, 01, 10, 11) and to W."""


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_step_that_rounding_errors_decide_is_left_out(spoil):
    with interpreted():
        player = Player("second-order-perceptron", FULL, 2)
        inverse = player.engine.state.arrays["inverse"]
        matrix = inverse.reshape(4, 4).copy()
        spoil(matrix, player.engine.state.arrays["weights"])
        inverse[...] = matrix.reshape(inverse.shape)
        before = {name: array.tobytes() for name, array in player.engine.state.arrays.items()}
        x = [7e5 if matrix[0, 0] < 1 else 10.0, 0.0]
        turn = player.act(x)
        player.learn(turn, 1 - turn.greedy)
        assert before == {name: array.tobytes() for name, array in player.engine.state.arrays.items()}


def test_late_feedback_does_not_make_passive_aggressive_diverge():
    """A hundred turns wait; each of them corrects the same error, so the scores grow a hundredfold each time."""
    with interpreted():
        for name in ("passive-aggressive", "arow"):
            player = Player(name, FULL, 2)
            for _ in range(170):
                turns = [player.act([1.0, -1.0]) for _ in range(100)]
                for turn in turns:
                    player.learn(turn, 1 - turn.greedy)
            assert broken(player) is None
            assert np.isfinite(player.scores([[LARGEST_VALUE, -LARGEST_VALUE]])).all()


@pytest.mark.parametrize("name", names(BANDIT))
def test_an_action_that_is_almost_never_drawn(name):
    """A draw of exactly 0 takes an action of any positive probability, also one whose reciprocal is infinite."""
    with interpreted():
        player = Player(name, BANDIT, 2)
        p = np.array([1e-310, 1.0, 0.0])
        kept = np.zeros(player.learner.keeps(3))
        played = Round(np.array([0.1, 0.3, 0.2]), p, 1, 0, 0, kept)
        state, plan = player.engine.state.tuple, player.engine.plan
        for values in ([1.0, 1.0], [LARGEST_VALUE, 1e-300]):
            x = row_of(values, 3)
            player.learner.recall(state, x, played)
            player.learner.update(state, plan, x, played)
            assert broken(player) is None
        assert propensity(plan, played, 0) == 2.0**-53


def test_the_limit_of_values():
    with interpreted():
        player = Player("gapsmh", BANDIT, 2)
        player.learn(player.act([LARGEST_VALUE, -LARGEST_VALUE]), -1)
        player.advance(chunk_of(np.array([[LARGEST_VALUE, 1.0]]), np.array([0])))
        beyond = np.nextafter(LARGEST_VALUE, math.inf)
        with pytest.raises(UserError, match=re.escape("features must be finite, and at most 1e+50 in size")):
            player.act([beyond, 1.0])
        with pytest.raises(UserError, match=r"in row \d+, and values must be at most 1e\+50 in size: scale the rows"):
            player.advance(chunk_of(np.array([[1.0, -beyond]]), np.array([0])))


# ----------------------------------------------------------------------------------------------------- saving, loading


def played(name, graph):
    """A learner after some rounds."""
    player = Player(name, graph, 3, seed=1)
    X = np.random.default_rng(0).normal(size=(20, 3))
    player.advance(chunk_of(X, np.arange(20) % graph.n_classes))
    return player


def saved(player):
    """The header and the arrays of a player's file."""
    header, arrays = player.engine.describe()
    return json.loads(json.dumps(header)), arrays


@pytest.mark.parametrize("name", names())
def test_a_state_that_is_not_finite_is_neither_saved_nor_loaded(name, tmp_path):
    with interpreted():
        for field in played(name, playable(name)[0]).engine.state.arrays:
            for value in (math.nan, math.inf, -math.inf):
                player = played(name, playable(name)[0])
                array = player.engine.state.arrays[field]
                if array.dtype.kind != "f":
                    continue
                array.flat[0] = value
                with pytest.raises(
                    UserError, match=f"{name} is broken and cannot be saved, since '{field}' is not fin"
                ):
                    player.save(tmp_path / "model.npz")
                assert not list(tmp_path.iterdir())
                header, arrays = saved(played(name, playable(name)[0]))
                arrays[f"state.{field}"] = array
                with pytest.raises(UserError, match=f"the saved array '{field}' is not finite: the file is damaged"):
                    Player.build(header, arrays)


NEVER_NEGATIVE = {"total", "totals", "blind", "losses", "rounds", "credit", "volume", "squared", "informed", "rows"}
ABOVE_ZERO = {"precision", "diagonal", "variances", "inverse"}


@pytest.mark.parametrize("name", names())
def test_negative_counters_and_precisions_are_refused(name):
    with interpreted():
        header, members = saved(played(name, playable(name)[0]))
        Player.build(header, members)
        for key, array in members.items():
            field = key.split(".")[-1]
            for value in [-1] * (field in NEVER_NEGATIVE) + [0, -1] * (field in ABOVE_ZERO):
                wrong = array.copy()
                wrong.flat[0] = value
                with pytest.raises(UserError, match=f"{field}' has an entry"):
                    Player.build(header, {**members, key: wrong})


def test_online_refuses_them_too_in_one_sentence(tmp_path):
    with interpreted():
        model = Online("gaptron-smh", BANDIT, features=3)
        model.save(tmp_path / "model.npz")
        header, members = model._contents.describe()
        for field, value in (("weights", math.nan), ("scale", 0.0), ("scale", -1.0), ("total", -1.0)):
            wrong = members[f"state.optimizer.{field}"].copy()
            wrong.flat[0] = value
            arrays = {**members, f"state.optimizer.{field}": wrong}
            model_files.write(tmp_path / "wrong.npz", "gappletron.Online", header, arrays)
            with pytest.raises(UserError, match=rf"wrong.npz': .*optimizer.{field}' (is|has) .*load an older copy$"):
                Online.load(tmp_path / "wrong.npz")
        before = (tmp_path / "model.npz").read_bytes()
        model._player.engine.state.arrays["optimizer.weights"][0, 0] = math.inf
        with pytest.raises(UserError, match=r"cannot be saved, since 'optimizer.weights' is not finite: go on from"):
            model.save(tmp_path / "model.npz")
        assert (tmp_path / "model.npz").read_bytes() == before


def test_scales_of_the_learners_that_project():
    assert named("gaptron-smh").declare()["optimizer"]["scale"].above == 0
    assert ScaleFreeFTRL(1.0).declare()["scale"].above is None
