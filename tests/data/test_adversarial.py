"""The streams of the lower bounds against the paper's text, and the two theorems in simulation, for every learner."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy import stats

from gappletron import FeedbackGraph, UserError, named, names, play, tuned
from gappletron.data import adversarial
from gappletron.data.adversarial import FreshFeatures, FreshThenSegments, Segments
from gappletron.data.open import open_stream
from gappletron.data.stream import CHUNK, FirstRounds
from gappletron.paper.adversary import GRAPH, quietest_after_fresh, quietest_segment

FALSE_ALARM = 1e-6
"""Chance that a distributional test fails on correct code, were the seed not fixed."""

FULL = FeedbackGraph.full(3)


def rounds_of(stream):
    """Every round as ({feature: value}, label)."""
    return [
        (dict(zip(chunk.indices[a:b].tolist(), chunk.values[a:b].tolist(), strict=True)), label)
        for chunk in stream.chunks()
        for a, b, label in zip(chunk.indptr, chunk.indptr[1:], chunk.labels.tolist(), strict=False)
    ]


def smooth_hinge(U, x, y):
    """Of the weights U (features x classes) on one round, by its definition."""
    scores = [sum(value * U[z, k] for z, value in x.items()) for k in range(U.shape[1])]
    margin = scores[y] - max(score for k, score in enumerate(scores) if k != y)
    if margin >= 1:
        return 0.0
    return (1 - margin) ** 2 if margin >= 0 else 1 - 2 * margin


def at_its_best(name, graph, stream):
    return tuned(name, "theory", graph, rounds=stream.rounds, features=stream.features, max_norm=stream.max_norm)


# ------------------------------------------------------------------------------------------------ filtering: what it is


def naive_segments(R, turned):
    """The proof's stream in the proof's numbers, from 1; its classes 1 and 2 are ours 0 and 1."""
    T = 2 * R**2
    found = []
    for t in range(1, T + 1):
        i = math.ceil(t / (T // (2 * R)))
        y = 2 if turned is not None and i == turned + 1 else 1
        found.append(({z - 1: 1.0 for z in (1, i + 1)}, y - 1))
    return found


@pytest.mark.parametrize(("root", "turned"), [(1, None), (1, 1), (5, None), (8, 0), (8, 3), (8, 15)])
def test_segments_are_the_proofs(root, turned):
    stream = Segments(root, turned)
    played = rounds_of(stream)
    assert played == naive_segments(root, turned)
    assert (stream.rounds, stream.features, stream.classes) == (len(played), 2 * root + 1, (0, 1))
    assert {math.sqrt(sum(value**2 for value in x.values())) for x, _ in played} == {stream.max_norm}
    assert list(stream.segment_ends) == [root * (i + 1) for i in range(2 * root)]
    assert stream.lower_bound == min(root, stream.rounds / (4 * root))


@pytest.mark.parametrize(("turned", "norm"), [(None, 1.0), (0, math.sqrt(5)), (7, math.sqrt(5))])
def test_the_comparator_of_the_segments_loses_nothing(turned, norm):
    stream = Segments(4, turned)
    U = np.zeros((stream.features, 2))
    U[0, 0] = 1.0
    if turned is not None:
        U[turned + 1, 1] = 2.0
    assert np.linalg.norm(U) == norm
    assert {smooth_hinge(U, x, y) for x, y in rounds_of(stream)} == {0.0}


# ----------------------------------------------------------------------------------------- full information: what it is


def naive_fresh(K, B, rounds, seed):
    M = (B**2 - 1) * K**2
    rng = np.random.default_rng(seed)
    y = [math.floor(rng.random() * K) for _ in range(M + 1)]
    return [({min(t, M): 1.0}, y[min(t, M)]) for t in range(rounds)]


@pytest.mark.parametrize(("K", "B", "rounds", "seed"), [(2, 2, 13, 0), (3, 2, 28, 1), (3, 2, 100, 1), (5, 3, 500, 2)])
def test_fresh_features_are_the_proofs(K, B, rounds, seed):
    stream = FreshFeatures(K, B, rounds, seed)
    assert rounds_of(stream) == naive_fresh(K, B, rounds, seed)
    M = (B**2 - 1) * K**2
    assert (stream.rounds, stream.features, stream.classes, stream.max_norm) == (rounds, M + 1, tuple(range(K)), 1.0)


@pytest.mark.parametrize(("K", "B"), [(2, 2), (3, 2), (4, 3)])
def test_the_comparator_of_the_fresh_features(K, B):
    M = (B**2 - 1) * K**2
    stream = FreshFeatures(K, B, M + 50, seed=4)
    played = rounds_of(stream)
    U = np.zeros((stream.features, K))
    for t, (_, y) in enumerate(played[: M + 1]):
        U[t, y] = 1 / K if t < M else 1.0
    assert np.linalg.norm(U) == pytest.approx(B)
    loss = sum(smooth_hinge(U, x, y) for x, y in played)
    assert loss == pytest.approx(M * (1 - 1 / K) ** 2) == pytest.approx(stream.comparator_loss)
    regret = (B**2 - 1) * (K - 1) + (K - 1) / K
    assert stream.lower_bound == pytest.approx(loss + regret) == pytest.approx(M * (K - 1) / K + (K - 1) / K)


def test_fresh_labels_are_uniform_and_independent():
    """Chi-square tests of the labels and of consecutive pairs, each with a false-alarm rate of 1e-6; the seed
    is fixed.
    """
    K = 5
    stream = FreshFeatures(K, 60, 90_000, seed=11)
    labels = np.concatenate([chunk.labels for chunk in stream.chunks()])[: stream.features]
    pairs = labels[: labels.size // 2 * 2].reshape(-1, 2) @ [K, 1]
    assert stats.chisquare(np.bincount(labels, minlength=K)).pvalue > FALSE_ALARM
    assert stats.chisquare(np.bincount(pairs, minlength=K * K)).pvalue > FALSE_ALARM


# -------------------------------------------------------------------------------------------------------- as streams


@pytest.mark.parametrize("stream", [Segments(30, 7), FreshFeatures(3, 5, 1800, 3)], ids=str)
def test_chunks_do_not_matter(stream, monkeypatch):
    plain = rounds_of(stream)
    for chunk in (1, 97, 217, 899, 1800):  # 216 = M of the second
        monkeypatch.setattr(adversarial, "CHUNK", chunk)
        assert max(part.labels.size for part in stream.chunks()) == chunk
        assert rounds_of(stream) == plain


def test_long_streams_come_in_several_chunks():
    for stream in Segments(200, 399), FreshFeatures(5, 60, 100_000):
        chunks = list(stream.chunks())
        assert [chunk.labels.size for chunk in chunks] == [CHUNK, stream.rounds - CHUNK]
        assert [array.dtype.name for array in chunks[1]] == ["int64", "int32", "float64", "int64"]
        assert not any(array.flags.writeable for array in chunks[1])
        assert chunks[1].indices.max() == stream.features - 1


def test_a_longer_stream_of_fresh_features_begins_as_the_shorter():
    short = rounds_of(FreshFeatures(3, 2, 40, 5))
    assert rounds_of(FirstRounds(FreshFeatures(3, 2, 1000, 5), 40)) == short
    assert rounds_of(FreshFeatures(3, 2, 40, 6)) != short


@pytest.mark.parametrize(
    ("stream", "name"),
    [
        (Segments(8), "segments:R=8"),
        (Segments(8, 3), "segments:R=8,turned=3"),
        (FreshFeatures(3, 2, 100, 2**60 + 1), f"fresh:K=3,B=2,T=100,seed={2**60 + 1}"),
    ],
)
def test_names_and_pickles(stream, name):
    assert stream.name == name
    for again in open_stream(name), pickle.loads(pickle.dumps(stream)):
        assert vars(again) == vars(stream)
        assert rounds_of(again) == rounds_of(stream)


def test_large_streams_are_made_at_once():
    assert Segments(10**6).rounds == 2 * 10**12
    assert next(FreshFeatures(10, 1000, 10**9).chunks()).labels.size == CHUNK


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Segments(0), "the root R must be at least 1, not 0"),
        (lambda: Segments(2.5), "the root R must be a whole number, not 2.5"),
        (lambda: Segments(2**30), "the root R must be at most 1073741823, not 1073741824"),
        (lambda: Segments(8, 16), "the turned segment, counted from 0, must be at most 15, not 16"),
        (lambda: Segments(8, -1), "the turned segment, counted from 0, must be at least 0, not -1"),
        (lambda: FreshFeatures(1, 2, 100), "the number of classes K must be at least 2, not 1"),
        (lambda: FreshFeatures(3, 1, 100), "the comparator's norm B must be at least 2, not 1"),
        (
            lambda: FreshFeatures(3, 2, 27),
            r"the number of rounds T, with .* features, must be at least 28, not 27",
        ),
        (
            lambda: FreshFeatures(10_000, 10, 10**12),
            r"the number of features, \(B\^2 - 1\) K\^2 \+ 1, must be at most 2147483647, not 9900000001",
        ),
        (lambda: Segments.parse(""), "'segments:' needs 'R': write for example segments:R=8,turned=3"),
        (
            lambda: Segments.parse("R=8,turn=3"),
            "there is no setting 'turn', did you mean 'turned'",
        ),
        (lambda: Segments.parse("R=8,R=9"), "'segments:R=8,R=9' sets 'R' twice: keep one"),
        (lambda: Segments.parse("R=8.5"), "the root R must be a whole number, not 8.5"),
        (
            lambda: Segments.parse("R=8,turned=quiet"),
            "turned=quiet in 'segments:R=8,turned=quiet' is not a number: write for example",
        ),
        (
            lambda: FreshFeatures.parse("K=3,T=1e2"),
            "'fresh:K=3,T=1e2' needs 'B': write for example fresh:K=3,B=2",
        ),
    ],
)
def test_mistakes_of_users(make, message):
    with pytest.raises(UserError, match=message):
        make()


# ------------------------------------------------------------------------------------------------------- the theorems

REPEATS = 60
# The learners with their theory's tuning explore much; these look so seldom that they come near the bound.
TIMID = ("banditron-iw:gamma=0", "banditron-iw:gamma=0.02", "gapsmh:gamma=0", "gapsmh:gamma=0.1")


@pytest.mark.parametrize("root", [8, 16])
@pytest.mark.parametrize("name", [*names(GRAPH), *TIMID])
def test_filtering_lower_bound(name, root):
    """Theorem "apple lower bound", without tolerance: it is applied to the learner that draws one of these seeds.

    The adversary turns the segment in which the runs play 1 least often. A run that does not play 1 there cannot
    notice, and errs in all of its R rounds; so the averages obey what the proof says of expectations.
    """
    quiet = Segments(root)
    learner = named(name) if name in TIMID else at_its_best(name, GRAPH, quiet)
    probe = quietest_segment(learner, root, repeats=REPEATS, seed=3)
    turned = Segments(root, probe.segment)
    before, after = (
        np.array(
            [
                np.diff(run.curve.mistakes, prepend=0)
                for run in play(learner, stream, GRAPH, repeats=REPEATS, seed=3, curve=stream.segment_ends)
            ]
        )
        for stream in (quiet, turned)
    )

    j = probe.segment
    assert np.array_equal(before[:, :j], after[:, :j])
    assert (after[before[:, j] == 0, j] == root).all()
    m, cost = before.sum(), after.sum()  # of all repeats: whole numbers, so that the comparisons are exact
    assert 2 * root * before[:, j].sum() <= m
    assert 2 * cost >= 2 * root * REPEATS - m
    assert 3 * max(m, cost) >= 2 * root * REPEATS
    assert max(m, cost) / REPEATS >= quiet.lower_bound == turned.lower_bound

    assert probe == (j, before[:, j].sum() / REPEATS, m / REPEATS)
    assert j == min(range(2 * root), key=lambda i: (before[:, i].sum(), i))


def test_the_quietest_segment_of_a_learner_that_never_looks_is_the_first():
    assert quietest_segment("banditron-iw:gamma=0", 8, repeats=3) == (0, 0.0, 0.0)
    assert play("banditron-iw:gamma=0", Segments(8, 0), GRAPH)[0].mistakes == 8


def test_the_probe_is_reproducible():
    probes = [
        quietest_segment("gapsmh", 8, repeats=20, seed=seed, jobs=jobs) for seed, jobs in ((0, 1), (0, 2), (1, 1))
    ]
    assert probes[0] == probes[1] != probes[2]


def test_whom_one_cannot_probe():
    with pytest.raises(UserError, match="perceptron cannot play the graph 'filtering'"):
        quietest_segment("perceptron", 8)
    with pytest.raises(UserError, match="is not a learner"):
        quietest_segment(["gapsmh"], 8)


def test_the_blind_class_is_what_costs():
    """A learner that sees the labels is far below the bound: the stream is easy, the graph is not."""
    for root in (16, 64):
        worst = max(
            np.mean([run.mistakes for run in play("gapsmh", Segments(root, turned), FeedbackGraph.full(2), repeats=50)])
            for turned in (None, 0, root, 2 * root - 1)
        )
        assert worst < Segments(16).lower_bound / 2


SEEDS = 120


@pytest.mark.parametrize("name", names(FULL))
def test_full_information_lower_bound(name):
    """Theorem "full info lower bound": in the first M + 1 rounds nobody can know the label, so that whatever a learner
    does, its mistakes there are binomial, exactly. Two-sided, with a false-alarm rate of 1e-6 for each learner; the
    seeds are fixed.
    """
    shape = FreshFeatures(3, 2, 60)
    learner = at_its_best(name, FULL, shape)
    runs = [
        play(learner, FreshFeatures(3, 2, 60, seed), FULL, seed=seed, curve=[shape.features])[0]
        for seed in range(SEEDS)
    ]
    unknowable = sum(int(run.curve.mistakes[0]) for run in runs)
    chance = stats.binom(SEEDS * shape.features, 2 / 3)
    assert chance.mean() == pytest.approx(SEEDS * shape.lower_bound)
    assert chance.ppf(FALSE_ALARM / 2) <= unknowable <= chance.isf(FALSE_ALARM / 2)
    assert sum(run.mistakes for run in runs) >= unknowable
    if name == "perceptron":  # it attains the bound: one look at the last feature is enough
        assert sum(run.mistakes for run in runs) == unknowable


# ------------------------------------------------------------------------------------------------ both, one after other


@pytest.mark.parametrize("turned", [None, 4])
def test_both_parts_follow_each_other_on_features_of_their_own(turned):
    """The comparator of the corollary has the squared norm B^2 + 5 (or B^2 + 1), and loses M (1 - 1/K)^2."""
    K, B, R = 4, 2, 6
    stream = FreshThenSegments(K, B, R, turned, seed=5)
    rounds = rounds_of(stream)
    assert len(rounds) == stream.rounds == 49 + 72
    assert rounds[:49] == rounds_of(FreshFeatures(K, B, 49, seed=5))
    assert rounds[49:] == [({z + 49: v for z, v in x.items()}, y) for x, y in rounds_of(Segments(R, turned))]
    U = np.zeros((stream.features, K))
    for x, y in rounds[:48]:
        U[next(iter(x)), y] = 1.0 / K
    U[48, rounds[48][1]] = 1.0
    U[49, 0] = 1.0
    if turned is not None:
        U[49 + turned + 1, 1] = 2.0
    assert (U**2).sum() == pytest.approx(B * B + (1 if turned is None else 5))
    assert sum(smooth_hinge(U, x, y) for x, y in rounds) == pytest.approx(stream.comparator_loss)
    assert stream.lower_bound == pytest.approx(49 * 0.75 + R / 2)
    assert open_stream(stream.name).name == stream.name


@pytest.mark.parametrize("name", ["gapsmh", "banditron-iw", "exp3-g"])
def test_the_second_part_costs_as_much_as_on_two_classes(name):
    """With the same seeds the second part of the bound holds exactly: the larger of the two averages is R/2 or more."""
    K, B, R, repeats = 4, 2, 6, 8
    graph = FeedbackGraph.filtering(K, revealing=1)
    learner = at_its_best(name, graph, FreshThenSegments(K, B, R))
    segment = quietest_after_fresh(learner, FreshThenSegments(K, B, R), repeats=repeats)
    means = []
    for turned in (None, segment):
        late = []
        for repeat in range(repeats):
            stream = FreshThenSegments(K, B, R, turned, seed=repeat)
            run = play(learner, stream, graph, repeats=[repeat], curve=[stream.first.rounds, stream.rounds])[0]
            late.append(run.curve.mistakes[1] - run.curve.mistakes[0])
        means.append(np.mean(late))
    assert max(means) >= R / 2
