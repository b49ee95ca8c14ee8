"""The synthetic stream against an interpreted transcription of the paper's text, and its distributions."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from scipy import stats

from gappletron.base.errors import UserError
from gappletron.data import synthetic
from gappletron.data.stream import CHUNK, Chunk, FirstRounds
from gappletron.data.synthetic import Synthetic
from gappletron.kernel.compiling import interpreted

FALSE_ALARM = 1e-6
"""Chance that a distributional test fails on correct code, were the seed not fixed."""


def everything(stream):
    """All chunks as one."""
    chunks = list(stream.chunks())
    starts = np.cumsum([0] + [len(chunk.indices) for chunk in chunks])
    indptr = np.concatenate([[0]] + [chunk.indptr[1:] + start for chunk, start in zip(chunks, starts, strict=False)])
    return Chunk(indptr, *(np.concatenate([chunk[part] for chunk in chunks]) for part in (1, 2, 3)))


def naive(classes, features, noise, rounds, seed):
    """The generator as the paper words it, with one draw for each choice; nothing shared with the package."""
    scale = features // 40
    for_keywords, for_rounds = (
        np.random.Generator(np.random.PCG64(s))
        for s in (np.random.SeedSequence(seed, spawn_key=(0, part)) for part in (0, 1))
    )

    def pick(rng, order, count):
        for i in range(count):
            j = i + math.floor(rng.random() * (len(order) - i))
            order[i], order[j] = order[j], order[i]
        return sorted(order[:count])

    keywords = []
    while len(keywords) < classes:
        count = scale + math.floor(for_keywords.random() * (4 * scale + 1))
        drawn = pick(for_keywords, list(range(10 * scale)), count)
        if drawn not in keywords:
            keywords.append(drawn)
    order = list(range(10 * scale, 40 * scale))
    rows, labels = [], []
    for _ in range(rounds):
        label = math.floor(for_rounds.random() * classes)
        rows.append(keywords[label] + pick(for_rounds, order, 5 * scale))
        replaced, other = for_rounds.random() < noise, math.floor(for_rounds.random() * classes)
        labels.append(other if replaced else label)
    return keywords, rows, labels


@pytest.mark.parametrize(
    ("classes", "features", "noise", "seed"),
    [(9, 120, 0.05, 0), (6, 80, 0.0, 1), (12, 160, 1.0, 2), (2, 40, 0.3, 3), (3, 400, 0.1, 4)],
)
def test_same_bits_as_the_naive_transcription(classes, features, noise, seed):
    stream = Synthetic(classes, features, noise, 300, seed)
    keywords, rows, labels = naive(classes, features, noise, 300, seed)
    chunk = everything(stream)
    assert [one.tolist() for one in stream.keywords] == keywords
    assert [chunk.indices[a:b].tolist() for a, b in zip(chunk.indptr, chunk.indptr[1:], strict=False)] == rows
    assert chunk.labels.tolist() == labels
    assert (chunk.values == 1.0).all()
    with interpreted():
        again = everything(stream)
    assert all(np.array_equal(a, b) for a, b in zip(chunk, again, strict=True))


@pytest.mark.parametrize(
    ("classes", "features", "noise", "rounds", "seed", "digest"),
    [
        (9, 120, 0.05, 200_000, 0, "6905f03e6dd8d9a4"),
        (9, 120, 0.05, 1, 0, "117e1b957edab4c8"),
        (9, 120, 0.2, 65_537, 2**62, "8b9b85437a02844d"),
        (6, 80, 0.0, 65_536, 1, "edf87dcb7e794304"),
        (12, 160, 1.0, 70_000, 2, "eeef9433bb7415d1"),
        (2, 40, 0.3, 65_535, 3, "bac6a7844e933941"),
        (637, 40, 0.1, 30_000, 4, "847a58b9add26add"),
        (5, 200, 0.1, 50_000, 5, "c7a6e80015ac991f"),
        (10_000, 240, 0.1, 50_000, 6, "facdfe14d626de18"),
        (4, 4_000, 0.05, 9_000, 7, "2998c222a7fb07a5"),
        (2, 400_000, 0.05, 30, 8, "b22a7a7cc1a8677c"),
    ],
)
def test_streams_never_change(classes, features, noise, rounds, seed, digest):
    """Stored results belong to a stream's name, so every chunk must stay as version 0.1 made it."""
    found = hashlib.sha256()
    for chunk in Synthetic(classes, features, noise, rounds, seed).chunks():
        for array in chunk:
            found.update(array)
    assert found.hexdigest()[:16] == digest


def test_a_longer_stream_begins_as_the_shorter_and_chunks_do_not_matter(monkeypatch):
    whole_stream = everything(Synthetic(rounds=CHUNK + 1000))
    assert [len(chunk.labels) for chunk in Synthetic(rounds=CHUNK + 1000).chunks()] == [CHUNK, 1000]
    short = everything(Synthetic(rounds=700))
    entries = short.indptr[-1]
    assert np.array_equal(whole_stream.indptr[:701], short.indptr)
    assert np.array_equal(whole_stream.indices[:entries], short.indices)
    assert np.array_equal(whole_stream.labels[:700], short.labels)
    monkeypatch.setattr(synthetic, "CHUNK", 97)
    cut = everything(FirstRounds(Synthetic(rounds=CHUNK + 1000), 700))
    assert all(np.array_equal(a, b) for a, b in zip(cut, short, strict=True))
    monkeypatch.setattr(synthetic, "ENTRIES", 100)  # three rows of at most 30
    assert {len(chunk.labels) for chunk in Synthetic(rounds=9).chunks()} <= {3, 4}


def test_rows_noise_levels_share():
    clean, noisy = everything(Synthetic(noise=0.0, rounds=5000)), everything(Synthetic(noise=0.2, rounds=5000))
    assert np.array_equal(clean.indices, noisy.indices)
    assert 0 < np.mean(clean.labels != noisy.labels) < 0.2


def test_largest_norm_is_exact():
    for seed in range(5):
        stream = Synthetic(rounds=2000, seed=seed)
        assert stream.max_norm == math.sqrt(np.diff(everything(stream).indptr).max())


def test_distributions():
    """Chi-square and binomial tests, each with a false-alarm rate of 1e-6; the seed is fixed."""
    rounds, classes, scale = 200_000, 9, 3
    chunk = everything(Synthetic(classes, 40 * scale, 0.0, rounds, seed=11))
    assert stats.chisquare(np.bincount(chunk.labels, minlength=classes)).pvalue > FALSE_ALARM

    bits = np.zeros((rounds, 40 * scale), np.float32)
    bits[np.repeat(np.arange(rounds), np.diff(chunk.indptr)), chunk.indices] = 1
    unrelated = bits[:, 10 * scale :]
    assert (unrelated.sum(axis=1) == 5 * scale).all()
    together = unrelated.T @ unrelated
    n = 30 * scale
    both = 5 * scale * (5 * scale - 1) / (n * (n - 1))
    for count, chance in ((np.diag(together), 1 / 6), (together[np.triu_indices(n, 1)], both)):
        worst = np.abs(count - rounds * chance).max() / math.sqrt(rounds * chance * (1 - chance))
        assert 2 * len(count) * stats.norm.sf(worst) > FALSE_ALARM  # union bound over the bits, or the pairs

    # Consecutive rounds share the shuffled order, and must be independent all the same.
    overlap = (unrelated[1:] * unrelated[:-1]).sum(axis=1)
    expected = stats.hypergeom(n, 5 * scale, 5 * scale).pmf(np.arange(5 * scale + 1)) * (rounds - 1)
    seen = np.bincount(overlap.astype(int), minlength=5 * scale + 1)
    tail = int(np.argmax(expected[::-1] > 20))
    merged = [np.append(x[: -tail - 1], x[-tail - 1 :].sum()) for x in (seen.astype(float), expected)]
    assert stats.chisquare(merged[0], merged[1] * merged[0].sum() / merged[1].sum()).pvalue > FALSE_ALARM

    noise = 0.1
    noisy = everything(Synthetic(classes, 40 * scale, noise, rounds, seed=11))
    changed = noisy.labels != chunk.labels
    assert stats.binomtest(int(changed.sum()), rounds, noise * (1 - 1 / classes)).pvalue > FALSE_ALARM
    shift = (noisy.labels - chunk.labels)[changed] % classes
    assert stats.chisquare(np.bincount(shift, minlength=classes)[1:]).pvalue > FALSE_ALARM


def test_keyword_sets_are_uniform_in_size_and_place():
    """1000 seeds with false-alarm rate 1e-6 each for the sizes d'..5d' and for the places."""
    sets = [one for seed in range(1000) for one in Synthetic(2, 120, seed=seed).keywords]
    sizes = np.bincount([len(one) for one in sets], minlength=16)
    assert sizes[:3].sum() == 0
    assert len(sizes) == 16
    assert stats.chisquare(sizes[3:]).pvalue > FALSE_ALARM
    places = np.bincount(np.concatenate(sets), minlength=30)
    assert len(places) == 30
    chance = 0.3  # the mean of 3..15 of 30 bits
    worst = np.abs(places - len(sets) * chance).max() / math.sqrt(len(sets) * chance * (1 - chance))
    assert 2 * 30 * stats.norm.sf(worst) > FALSE_ALARM


def test_no_two_classes_share_keywords_even_when_every_set_is_needed():
    every = sum(math.comb(10, size) for size in range(1, 6))
    stream = Synthetic(classes=every, features=40, rounds=10)
    assert len({tuple(one) for one in stream.keywords}) == every
    with pytest.raises(UserError, match=f"only {every} different sets"):
        Synthetic(classes=every + 1, features=40)


def test_parse():
    assert Synthetic.parse("").name == "synthetic:K=9,d=120,noise=0.05,T=100000,seed=0"
    stream = Synthetic.parse(" seed=3, noise=0 ,K=4,T=1_000,d=40")
    assert (stream.seed, stream.noise, len(stream.classes), stream.rounds, stream.features) == (3, 0.0, 4, 1000, 40)
    assert Synthetic.parse(stream.name.partition(":")[2]).name == stream.name


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("k=9", "'synthetic:k=9': there is no setting 'k'"),
        ("K=9,K=9", "'synthetic:K=9,K=9' sets 'K' twice"),
        ("K=nine", "K=nine in 'synthetic:K=nine' is not a number"),
        ("K=9.5", "the number of classes K must be a whole number"),
        ("K=1", "at least 2"),
        ("T=1e999", "T must be a whole number"),
        ("T=0", "at least 1"),
        ("noise=1.5", "noise must be at most 1"),
        ("noise=nan", "noise must be finite"),
        ("d=100", "multiple of 40, not 100: the nearest is 80"),
        ("d=101", "the nearest is 120"),
        ("d=1", "the nearest is 40"),
        ("seed=-1", "seed must be at least 0"),
        ("K=9,,d=120", "expected key=value in 'synthetic:K=9,,d=120', not ''"),
        ("K", "expected key=value in 'synthetic:K', not 'K'"),
    ],
)
def test_parse_errors(spec, message):
    with pytest.raises(UserError, match=message):
        Synthetic.parse(spec)
