"""The best comparator against closed forms and other solvers; its gap against every comparator that we can think of."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import linalg, optimize

import gappletron.paper.comparator as module
from gappletron import (
    ArrayStream,
    FeedbackGraph,
    Gappletron,
    GaptronHinge,
    GaptronLogistic,
    Hinge,
    LogisticBase2,
    LogisticBaseK,
    Loss,
    Online,
    ProjectedOGD,
    SmoothHinge,
    Stream,
    SvmlightFile,
    UserError,
    bounds,
    interpreted,
    open_stream,
    play,
    tuned,
)
from gappletron.data.stream import make_chunk
from gappletron.kernel.compiling import prepare
from gappletron.kernel.numerics import hinge_direction, lanes_for, margin, rival
from gappletron.learners.losses import hinge_plane
from gappletron.paper.comparator import best_comparator
from problems import LOSSES, small_stream

ALL = [*LOSSES.values(), GaptronHinge(), GaptronLogistic()]


def margins(S, y):
    """m(y) of every row of scores."""
    rows = np.arange(len(y))
    rivals = S.copy()
    rivals[rows, y] = -np.inf
    return S[rows, y] - rivals.max(axis=1)


def losses(loss, S, y):
    """The loss of every row of scores, transcribed from the paper; the hinge without its split."""
    if isinstance(loss, SmoothHinge):
        m = margins(S, y)
        return np.where(m < 0, 1 - 2 * m, np.maximum(0, 1 - m) ** 2)
    if isinstance(loss, Hinge | GaptronHinge):
        return np.maximum(0, 1 - margins(S, y))
    in_nats = np.logaddexp.reduce(S, axis=1) - S[np.arange(len(y)), y]
    return in_nats / math.log(S.shape[1] if isinstance(loss, LogisticBaseK) else 2)


def total(loss, X, y, U):
    return losses(loss, X @ U, y).sum()


def a_problem(seed, rounds=60, features=3, classes=3):
    X, y = small_stream(np.random.default_rng(seed), rounds, features, classes)
    return X, y, ArrayStream(X, y, classes=range(classes)), FeedbackGraph.bandit(classes)


def points_of_the_ball(rng, found, radius, count):
    """Points anywhere in the ball, on its surface, and near the one found."""
    for i in range(count):
        V = rng.normal(size=found.weights.shape)
        V *= radius * rng.choice([rng.random(), 1.0]) / np.linalg.norm(V)
        if i % 2:
            V = found.weights + 10.0 ** rng.uniform(-4, 0) * (V - found.weights)  # on the way there: in the ball
        yield V


# ----------------------------------------------------------------------------------------------------------- the answer


def other_solver(loss, X, y, K, radius):
    """The least loss by SLSQP, each kink written as constraints: margins m_t below every s_y - s_k, and slacks of the
    hinge.
    """
    T, d = X.shape
    size = d * K
    ball = {"type": "ineq", "fun": lambda v: radius**2 - v[:size] @ v[:size]}
    rows = np.array(
        [np.outer(X[t], np.eye(K)[y[t]] - np.eye(K)[k]).ravel() for t in range(T) for k in range(K) if k != y[t]]
    )
    which = np.repeat(np.arange(T), K - 1)
    if isinstance(loss, LogisticBaseK | LogisticBase2):
        return optimize.minimize(
            lambda v: total(loss, X, y, v.reshape(d, K)),
            np.full(size, 1e-3),
            method="SLSQP",
            constraints=[ball],
            options={"maxiter": 1000, "ftol": 1e-10},
        ).fun
    jacobian = np.hstack([rows, -np.eye(T)[which]])
    below = {"type": "ineq", "fun": lambda v: jacobian @ v, "jac": lambda _: jacobian}

    def objective(v):
        m = v[size:]
        if isinstance(loss, SmoothHinge):
            return (
                np.where(m < 0, 1 - 2 * m, np.maximum(0, 1 - m) ** 2).sum(),
                np.concatenate([np.zeros(size), np.where(m < 0, -2.0, -2 * np.maximum(0, 1 - m))]),
            )
        return (1 - m).sum(), np.concatenate([np.zeros(size), -np.ones(T)])  # with m <= 1, max(0, 1 - m) is linear

    highest = 1.0 if isinstance(loss, Hinge) else None
    limits = [(None, None)] * size + [(None, highest)] * T
    start = np.concatenate([np.full(size, 1e-3), np.full(T, -0.1)])
    found = optimize.minimize(
        objective,
        start,
        jac=True,
        method="SLSQP",
        bounds=limits,
        constraints=[ball, below],
        options={"maxiter": 1000, "ftol": 1e-10},
    )
    assert found.success
    return found.fun


@pytest.mark.parametrize("radius", [0.3, 2.0, 50.0])
@pytest.mark.parametrize("name", LOSSES)
def test_another_solver_finds_the_same(name, radius):
    X, y, stream, graph = a_problem(7, rounds=14, features=2)
    found = best_comparator(LOSSES[name], stream, graph, radius, tolerance=1e-5)
    assert found.gap <= 1e-5 * max(1.0, found.loss)
    assert np.linalg.norm(found.weights) <= radius * (1 + 1e-9)
    assert found.loss == pytest.approx(total(LOSSES[name], X, y, found.weights), rel=1e-9, abs=1e-12)
    assert found.loss == pytest.approx(other_solver(LOSSES[name], X, y, 3, radius), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("radius", [0.5, 1.7, 100.0])
@pytest.mark.parametrize("name", LOSSES)
def test_in_closed_form(name, radius):
    """A unit vector for each of K classes, with symmetric noise: U = c (I - 11'/K), by symmetry and convexity.

    Its norm is c sqrt(K - 1); a clean label has the margin c, a noisy one -c. What is left is a search for c.
    """
    K, clean, noisy, loss = 4, 17, 2, LOSSES[name]
    x = np.repeat(np.arange(K), clean + (K - 1) * noisy)
    y = np.concatenate([[k] * clean + [j for j in range(K) if j != k] * noisy for k in range(K)])

    def loss_of(c):
        return total(loss, np.eye(K)[x], y, c * (np.eye(K) - 1 / K))

    best = optimize.minimize_scalar(
        loss_of, bounds=(0, radius / math.sqrt(K - 1)), method="bounded", options={"xatol": 1e-9}
    )
    found = best_comparator(loss, ArrayStream(np.eye(K)[x], y), FeedbackGraph.filtering(K), radius, tolerance=1e-5)
    assert found.gap <= 1e-5 * found.loss
    assert found.loss == pytest.approx(best.fun, rel=2e-5)


class Outside(Loss, abstract=True):
    """A loss from outside the package; what only learners ask for is the same for all of them."""

    def gap(self, scores, greedy):
        return 0.0

    def is_regular(self, classes):
        return False

    def smoothness(self, classes, max_norm):
        return 2.0 * max_norm**2

    def gradient_bound(self, classes, max_norm):
        return math.inf


class Squares(Outside):
    """sum_k (s_k - 1[k = y])^2, whose best comparator is a matter of linear algebra."""

    def value(self, scores, greedy, y):
        result = 0.0
        for k in range(scores.size):
            result += (scores[k] - (k == y)) * (scores[k] - (k == y))
        return result

    def gradient(self, scores, greedy, y, out):
        for k in range(scores.size):
            out[k] = 2.0 * (scores[k] - (k == y))


@pytest.mark.parametrize("radius", [0.2, 0.6, 30.0])
def test_least_squares_over_a_ball(radius):
    X, y, stream, graph = a_problem(3)
    A, B = X.T @ X, X.T @ np.eye(3)[y]

    def solution(weight):
        return linalg.solve(A + weight * np.eye(3), B, assume_a="pos")

    U = solution(0.0)
    if np.linalg.norm(U) > radius:
        U = solution(optimize.brentq(lambda weight: np.linalg.norm(solution(weight)) - radius, 0, 1e6))
    found = best_comparator(Squares(), stream, graph, radius, tolerance=1e-7)
    assert found.weights == pytest.approx(U, abs=1e-3)
    assert found.loss == pytest.approx(((X @ U - np.eye(3)[y]) ** 2).sum(), rel=1e-6)


def test_a_separable_stream_and_a_large_ball():
    for loss in (*LOSSES.values(), GaptronHinge(), GaptronLogistic()):
        found = best_comparator(loss, "synthetic:K=4,d=40,noise=0,T=500", "bandit", 200.0)
        assert 0.0 <= found.gap <= found.loss <= 1e-3


def test_a_larger_ball_is_no_worse():
    _, _, stream, graph = a_problem(5, rounds=200, features=5)
    for loss in LOSSES.values():
        found = [best_comparator(loss, stream, graph, radius) for radius in (1e-9, 0.1, 0.5, 1.0, 2.0, 10.0)]
        assert found[0].loss == pytest.approx(200 * loss.at_zero(3), rel=1e-3)
        for smaller, larger in pairwise(found):
            assert larger.loss - larger.gap <= smaller.loss
            assert larger.loss <= smaller.loss + larger.gap
        assert found[-1].loss < 0.9 * found[0].loss


@pytest.mark.parametrize("radius", [1.0, 10.0])
@pytest.mark.parametrize("name", LOSSES)
def test_the_tolerance_is_reached_on_the_papers_stream(name, radius):
    passes = []
    found = best_comparator(
        LOSSES[name],
        "synthetic:K=6,d=80,noise=0.05,T=3000",
        "bandit",
        radius,
        progress=lambda done, most: passes.append((done, most)),
    )
    assert found.gap <= 1e-3 * found.loss
    assert passes == [(i + 1, module.MAX_PASSES) for i in range(len(passes))]
    assert len(passes) < 900


# ------------------------------------------------------------------------------------------------------ the certificate


@pytest.mark.parametrize("tolerance", [0.3, 1e-4])  # a search that stopped early has a large gap, and a true one
@pytest.mark.parametrize("radius", [0.4, 3.0])
@pytest.mark.parametrize("name", LOSSES)
def test_no_comparator_loses_less_than_the_gap_says(name, radius, tolerance):
    loss, rng = LOSSES[name], np.random.default_rng(11)
    X, y, stream, graph = a_problem(13)
    found = best_comparator(loss, stream, graph, radius, tolerance=tolerance)
    best = best_comparator(loss, stream, graph, radius, tolerance=1e-6)
    assert best.loss >= found.loss - found.gap - 1e-9
    for V in points_of_the_ball(rng, best, radius, 200):
        assert np.linalg.norm(V) <= radius * (1 + 1e-9)
        assert total(loss, X, y, V) >= found.loss - found.gap - 1e-9


class Kinks(Outside):
    """max(0, 1 - m), as a user would write it: its gradient says little at the kinks."""

    def value(self, scores, greedy, y):
        return max(0.0, 1.0 - margin(scores, y))

    def gradient(self, scores, greedy, y, out):
        r = rival(scores, y)
        hinge_direction(y, r, 1.0 if scores[y] - scores[r] < 1.0 else 0.0, out)


@pytest.mark.parametrize("radius", [0.4, 5.0])
def test_the_gap_is_true_for_a_users_loss_with_kinks(radius):
    _, _, stream, graph = a_problem(17)
    found, best = best_comparator(Kinks(), stream, graph, radius), best_comparator(Hinge(), stream, graph, radius)
    assert best.gap <= 1e-3 * best.loss
    assert found.loss - found.gap <= best.loss
    assert best.loss - best.gap <= found.loss <= 1.05 * best.loss


class SmoothedKinks(Outside):
    """The same loss, which says itself how it is smoothed, and that it has a case split."""

    has_case_split = True

    def value(self, scores, greedy, y):
        return max(0.0, 1.0 - margin(scores, y))

    def gradient(self, scores, greedy, y, out):
        r = rival(scores, y)
        hinge_direction(y, r, 1.0 if scores[y] - scores[r] < 1.0 else 0.0, out)

    def plane(self, scores, y, mu, out):
        return hinge_plane(scores, y, mu, out)


def test_a_users_loss_says_itself_how_it_is_smoothed():
    _, _, stream, graph = a_problem(17)
    skipped = np.arange(60) % 3 == 0
    tangents, own = (best_comparator(loss, stream, graph, 5.0) for loss in (Kinks(), SmoothedKinks()))
    assert tangents.gap > 1e-3 * tangents.loss
    assert own.gap <= 1e-3 * own.loss
    assert same(own, best_comparator(Hinge(), stream, graph, 5.0))
    assert same(
        best_comparator(SmoothedKinks(), stream, graph, 5.0, skipped=skipped),
        best_comparator(Hinge(), stream, graph, 5.0, skipped=skipped),
    )


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    _, _, stream, graph = a_problem(19)
    full, passes = best_comparator(Hinge(), stream, graph, 2.0, tolerance=1e-5), []
    monkeypatch.setattr(module, "MAX_PASSES", 8)
    short = best_comparator(
        Hinge(), stream, graph, 2.0, tolerance=1e-5, progress=lambda done, most: passes.append(done)
    )
    assert passes[-1] <= 8
    assert short.gap > 1e-5 * short.loss
    assert short.loss - short.gap <= full.loss <= short.loss


def test_rounding_does_not_break_the_gap():
    """With scores around 1e45 a plane's constant is the difference of huge numbers: nothing is claimed then."""
    X, y, _, graph = a_problem(23)
    for loss in LOSSES.values():
        found = best_comparator(loss, ArrayStream(1e45 * X, y, classes=range(3)), graph, 1.0)
        attained = total(loss, 1e45 * X, y, found.weights)
        small = best_comparator(loss, ArrayStream(X, y, classes=range(3)), graph, 1e3).loss  # what U / 1e45 would lose
        assert found.loss == pytest.approx(attained)
        assert found.loss - found.gap <= small


@pytest.mark.parametrize("loss", ALL, ids=str)
@pytest.mark.parametrize("mu", [0.5, 0.1, 0.01])
def test_planes_lie_below_and_smoothed_losses_above(loss, mu):
    rng = np.random.default_rng(0)
    for _ in range(60):
        K = int(rng.integers(2, 6))
        s, y, out, unused = (
            rng.normal(size=K) * rng.choice([0.01, 1.0, 5.0]),
            int(rng.integers(K)),
            np.zeros(K),
            np.zeros(K),
        )
        plane = loss.plane(s, y, mu, out)
        value = losses(loss, s[None], np.array([y]))[0]
        assert plane.value == pytest.approx(value, abs=1e-12)
        assert -1e-12 <= plane.smoothed - value <= 2 * mu * math.log(K) + 1e-12
        others = s + rng.normal(size=(200, K)) * 10.0 ** rng.uniform(-3, 1, size=(200, 1))
        assert (plane.constant + others @ out <= losses(loss, others, np.full(200, y)) + 1e-9).all()
        step = 1e-5 * mu
        for k in range(K):
            ahead, behind = (loss.plane(s + sign * step * np.eye(K)[k], y, mu, unused).smoothed for sign in (1, -1))
            assert out[k] == pytest.approx((ahead - behind) / (2 * step), abs=2e-4)


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_a_pass_adds_up(loss):
    """Compiled, over a chunk with skipped rounds: value, smoothed loss and constant; the gradient by finite
    differences.
    """
    X, y, stream, _ = a_problem(29, rounds=20)
    chunk, rng = next(stream.chunks()), np.random.default_rng(1)
    skipped = rng.random(20) < 0.3
    U = rng.normal(size=(3, 3))

    def passed(U, mu=0.2):
        lanes = lanes_for(3)
        weights, gradient = np.zeros((3, lanes.padded(3))), np.zeros((3, lanes.padded(3)))
        weights[:, :3] = U
        scores, direction = (np.zeros(lanes.padded(3))[:3] for _ in range(2))
        buffers = module.Buffers(scores, direction, np.zeros(4), lanes)
        arguments = loss, weights, chunk, skipped, mu, gradient, buffers
        prepare(module.add_planes, *arguments)(*arguments)
        assert not gradient[:, 3:].any()
        return buffers.sums, gradient[:, :3]

    sums, gradient = passed(U)
    assert sums[0] == pytest.approx(losses(loss, X @ U, y)[~skipped].sum())
    for _ in range(5):
        direction = rng.normal(size=(3, 3))
        slope = (passed(U + 1e-6 * direction)[0][1] - passed(U - 1e-6 * direction)[0][1]) / 2e-6
        assert (gradient * direction).sum() == pytest.approx(slope, abs=1e-4)
        V = U + direction
        assert sums[2] + (gradient * V).sum() <= losses(loss, X @ V, y)[~skipped].sum() + 1e-9


# ----------------------------------------------------------------------------------------------- the hinge's case split


def hinge_run(loss=None, rounds=400):
    rng = np.random.default_rng(31)
    X, y = small_stream(rng, rounds, 4, 3)
    X[:, 0] = 1.0
    graph = FeedbackGraph.full(3)
    learner = Gappletron(loss or Hinge(0.4), ProjectedOGD(3.0))
    stream = ArrayStream(X, y, classes=range(3))
    run = play(learner, stream, graph, seed=2, losses=True, curve="every")[0]
    return X, y, stream, graph, learner, run, np.diff(run.curve.loss_sum, prepend=0.0) == 0.0


def test_the_rounds_to_skip_are_those_of_the_learners_split():
    X, y, _, graph, learner, _, skipped = hinge_run(rounds=80)
    model, expected = Online(learner, graph, features=4, seed=2), []
    for row, label in zip(X, y, strict=True):
        s = row @ model.weights
        expected.append(int(np.argmax(s)) == label and margins(s[None], [label])[0] >= 0.4)
        model.learn(model.act(row), int(label))
    assert skipped.tolist() == expected
    assert 10 < skipped.sum() < 70


def test_with_the_split_of_a_run():
    X, y, stream, graph, _, run, skipped = hinge_run()
    found = best_comparator(Hinge(0.4), stream, graph, 3.0, skipped=skipped, tolerance=1e-4)
    alone = best_comparator(Hinge(0.4), (X[~skipped], y[~skipped]), graph, 3.0, tolerance=1e-4)
    without = best_comparator(Hinge(0.4), stream, graph, 3.0, tolerance=1e-4)
    assert found.gap <= 1e-4 * found.loss
    assert found.loss == pytest.approx(losses(Hinge(), X @ found.weights, y)[~skipped].sum())
    assert abs(found.loss - alone.loss) <= found.gap + alone.gap
    assert found.loss - found.gap < without.loss - 1.0  # without the split, an upper bound
    # The regret is about the same losses: those of the learner, whose sum the run has, and those of U.
    assert run.loss_sum <= found.loss + learner_regret(X, skipped)


def learner_regret(X, skipped):
    """h sqrt(sum ||g||^2) with h = 2 sqrt 2 B and ||g||^2 = 2 ||x||^2: full information, every unskipped
    round is seen.
    """
    return 2 * math.sqrt(2) * 3.0 * math.sqrt(2 * (X[~skipped] ** 2).sum())


def test_all_rounds_skipped_cost_nothing():
    _, _, stream, graph = a_problem(37)
    for loss in (Hinge(), GaptronHinge()):
        assert best_comparator(loss, stream, graph, 1.0, skipped=[True] * 60)[1:] == (0.0, 0.0)


# ---------------------------------------------------------------------------------------------------------- the theorem


@pytest.mark.parametrize("loss", [SmoothHinge(), Hinge()], ids=str)
@pytest.mark.parametrize("graph", [FeedbackGraph.full(2), FeedbackGraph.filtering(2)], ids=lambda graph: graph.name)
def test_mistakes_stay_below_the_comparators_loss_and_the_bound(loss, graph):
    """The expectation theorem with the best U of the ball, not just any; for the hinge, with that of each run.

    By Azuma's inequality the mistakes of 6 runs of 20,000 rounds are 3,600 or more above the sum of their conditional
    probabilities with a probability below 1e-90; the averages, which would move by 600, stay 1,200 and more below the
    bound.
    """
    rng, rounds = np.random.default_rng(41), 20_000
    clean = rng.integers(0, 2, rounds)
    y = np.where(rng.random(rounds) < 0.08, 1 - clean, clean)
    stream = ArrayStream(np.eye(2)[clean], y, classes=range(2))
    learner = tuned(Gappletron(loss, ProjectedOGD(1.0)), "expectation", graph, max_norm=1.0)
    runs = play(learner, stream, graph, repeats=6, seed=7, losses=True, curve="every")
    name = "full-expectation" if graph.is_full_information else "expectation"
    right = []
    for run in runs:
        skipped = np.diff(run.curve.loss_sum, prepend=0.0) == 0.0 if isinstance(loss, Hinge) else None
        found = best_comparator(loss, stream, graph, 1.0, skipped=skipped)
        bound = next(
            bound
            for bound in bounds(learner, graph, rounds=rounds, max_norm=1.0, blind_rounds=run.blind_rounds)
            if bound.theorem == name
        )
        assert bound.refusal is None
        assert found.gap <= 1e-3 * found.loss
        right.append(found.loss + bound.value)
    assert np.mean([run.mistakes for run in runs]) <= np.mean(right) < rounds / 2


# --------------------------------------------------------------------------------------------------- streams and errors


class InPieces(Stream):
    """The chunks of a stream, each cut in three."""

    def __init__(self, stream):
        self.stream = stream
        self.name, self.features, self.classes, self.rounds = (
            "in pieces",
            stream.features,
            stream.classes,
            stream.rounds,
        )
        self.max_norm = stream.max_norm

    def chunks(self):
        for chunk in self.stream.chunks():
            for some in np.array_split(np.arange(chunk.labels.size), 3):
                begin, end = chunk.indptr[some[0]], chunk.indptr[some[-1] + 1]
                yield make_chunk(
                    chunk.indptr[some[0] : some[-1] + 2] - begin,
                    chunk.indices[begin:end],
                    chunk.values[begin:end],
                    chunk.labels[some],
                )


def same(one, other):
    return one.loss == other.loss and one.gap == other.gap and np.array_equal(one.weights, other.weights)


def test_chunks_and_compilation_change_nothing():
    _, _, stream, graph, _, _, skipped = hinge_run(rounds=60)
    for loss, options in ((Hinge(), {"skipped": skipped}), (SmoothHinge(), {}), (LogisticBase2(), {})):
        found = best_comparator(loss, stream, graph, 2.0, **options)
        assert same(found, best_comparator(loss, InPieces(stream), graph, 2.0, **options))
        with interpreted():
            assert same(found, best_comparator(loss, stream, graph, 2.0, **options))


def test_classes_are_those_of_the_graph():
    X, y, stream, graph = a_problem(43)
    found = best_comparator(SmoothHinge(), stream, graph, 1.0, tolerance=1e-6)
    turned = best_comparator(SmoothHinge(), stream, FeedbackGraph.bandit([2, 0, 1]), 1.0, tolerance=1e-6)
    assert turned.loss == pytest.approx(found.loss, rel=1e-5)
    assert total(SmoothHinge(), X, y, turned.weights[:, [1, 2, 0]]) == pytest.approx(turned.loss)
    wide = best_comparator(
        SmoothHinge(), stream, FeedbackGraph.bandit(5), 1.0
    )  # a class that never comes is still a rival
    assert wide.weights.shape == (3, 5)


class Nowhere(Outside):
    """Finite nowhere."""

    def value(self, scores, greedy, y):
        return math.inf

    def gradient(self, scores, greedy, y, out):
        hinge_direction(y, rival(scores, y), 1.0, out)


def test_errors_say_the_cure(tmp_path):
    X, y, stream, graph = a_problem(47)
    mail = tmp_path / "mail.svm"
    mail.write_text("0 1:1\n1 2:1\n")

    def refuses(text, *arguments, **options):
        with pytest.raises(UserError, match=text):
            best_comparator(*arguments, **options)

    refuses("is not a loss", "smooth-hinge", stream, graph, 1.0)
    refuses("radius must be above 0", SmoothHinge(), stream, graph, 0.0)
    refuses("radius must be finite", SmoothHinge(), stream, graph, math.inf)
    refuses("tolerance must be above 0", SmoothHinge(), stream, graph, 1.0, tolerance=0.0)
    refuses(r"SmoothHinge\(\) has none: remove it", SmoothHinge(), stream, graph, 1.0, skipped=[False] * 60)
    refuses(
        r"each of the 60 rounds: expected shape \(60,\) and dtype bool, got shape \(59,\) and dtype bool",
        Hinge(),
        stream,
        graph,
        1.0,
        skipped=[False] * 59,
    )
    refuses(r"got shape \(60,\) and dtype int64", Hinge(), stream, graph, 1.0, skipped=[0] * 60)
    with interpreted():
        refuses("needs a finite loss", Nowhere(), stream, graph, 1.0)
    refuses("exceed the range of 64-bit floats", SmoothHinge(), (1e49 * X / np.abs(X).max(), y), graph, 100.0)
    refuses("knows only", SmoothHinge(), stream, FeedbackGraph.bandit(["a", "b", "c"]), 1.0)
    refuses("length of .* is unknown", SmoothHinge(), SvmlightFile(mail, features=2, classes=[0, 1]), "bandit", 1.0)
    limited = open_stream(mail, features=2, classes=[0, 1], rounds=10)
    assert best_comparator(SmoothHinge(), limited, "bandit", 5.0).loss <= 1e-3
