"""The synthetic data of the paper's experiments: noisy labels, a few keywords for each class, many unrelated bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.data.generated import GeneratedStream
from gappletron.data.stream import CHUNK, ENTRIES, Chunk, make_chunk
from gappletron.kernel.compiling import specialise
from gappletron.kernel.pieces import helper

WORD = 60
"""Unrelated bits in one word of a round's bit set: two words for d = 120 and 160, and a signed integer is enough."""


class Recipe(NamedTuple):
    """How a round is made: the keywords of class k are ``keywords[starts[k]:starts[k + 1]]``.

    Unrelated bit b is place ``b % WORD`` of word ``b // WORD``, stored in `order` as ``64 * word + place``.
    """

    keywords: NDArray[np.int32]  # then at least `most` entries that no class has
    starts: NDArray[np.int64]
    most: int  # the number of keywords of the class that has most
    noise: float
    draws: int  # unrelated bits on in each round: 5 d'
    order: NDArray[np.int32]  # a permutation of the 30 d' unrelated bits; it carries over from round to round
    words: NDArray[np.int64]  # the set of the unrelated bits that are on, empty between rounds


@helper
def below(rng: np.random.Generator, n: int) -> int:
    """A uniform integer from 0 to n - 1, from one draw.

    The product cannot round up to n: the largest draw is 1 - 2^-53, and n 2^-53 is at least half the spacing of the
    doubles just below n, with equality only where n (1 - 2^-53) is itself a double.
    """
    return int(rng.random() * n)


@helper
def lowest(word: int) -> int:
    """The place of the lowest bit of a word that is not 0: the exponent of that bit as a double, where it is exact."""
    return int(np.float64(word & -word).view(np.int64) >> 52) - 1023


def _generate(
    rng: np.random.Generator,
    recipe: Recipe,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    labels: NDArray[np.int64],
) -> int:
    """Write one round to each row of a chunk and return the number of indices written.

    `indices` is long enough if each row were the longest.

    A round takes the same number of draws whatever comes out, so streams that differ only in their noise have the same
    rows and the same labels before the noise.
    """
    classes = len(recipe.starts) - 1
    unrelated = len(recipe.order)
    first = unrelated // 3  # 10 d' bits hold the keywords, the other 30 d' come after them
    keywords, starts, order, words = recipe.keywords, recipe.starts, recipe.order, recipe.words
    # Unsigned, here and below: Numba then leaves out its check for indices that count from the end.
    entries = np.uint64(0)
    indptr[0] = 0
    for row in range(len(labels)):
        label = below(rng, classes)
        # The same number for each class, since a branch that depends on the label would be mispredicted. What follows
        # the keywords of the class is overwritten.
        start = np.uint64(starts[label])
        for i in range(recipe.most):
            indices[entries + np.uint64(i)] = keywords[start + np.uint64(i)]
        entries += np.uint64(starts[label + 1]) - start
        # The head of a Fisher-Yates shuffle is a uniform subset from whatever order it starts, so the order need not be
        # reset.
        for i in range(recipe.draws):
            j = np.uint64(i + below(rng, unrelated - i))
            bit = order[j]
            order[j] = order[i]
            order[i] = bit
            words[np.uint32(bit) >> np.uint32(6)] |= np.int64(1) << np.int64(bit & 63)
        # A bit set is read in order: sorted indices without a sort, or a look at the bits that are off.
        for w in range(len(words)):
            word = words[w]
            words[w] = 0
            while word:
                indices[entries] = first + WORD * w + lowest(word)
                entries += np.uint64(1)
                word &= word - 1
        noisy = rng.random() < recipe.noise
        other = below(rng, classes)
        labels[row] = other if noisy else label
        indptr[row + 1] = entries
    return int(entries)


class Synthetic(GeneratedStream):
    """The paper's synthetic stream: x in {0, 1}^d with d = 40 d', and a label that the keywords in x give away.

    Each class has keywords of its own, drawn once: their number is uniform on d'..5d', and they lie among the first 10
    d' bits. In each round a class is drawn uniformly, its keywords are on, and so are 5 d' of the other 30 d' bits,
    drawn anew; then with probability `noise` the label is replaced by a uniformly random one (which may be the same).
    No two classes have the same keywords, so without noise the classes are separable.

    The stream depends on `seed` alone: the first rounds of a longer stream are the shorter stream.

    >>> from gappletron import Synthetic
    >>> stream = Synthetic(classes=3, features=80, noise=0.1, rounds=1000, seed=7)
    >>> stream
    <Synthetic 'synthetic:K=3,d=80,noise=0.1,T=1000,seed=7'>
    >>> stream.features, stream.classes, stream.rounds
    (80, (0, 1, 2), 1000)
    >>> Synthetic(features=100)
    Traceback (most recent call last):
        ...
    gappletron.UserError: d must be a multiple of 40, not 100: the nearest is 80
    """

    kind = "synthetic"
    keys = {"K": "classes", "d": "features", "noise": "noise", "T": "rounds", "seed": "seed"}  # noqa: RUF012
    example = "K=9,d=120,noise=0.05,T=100000,seed=0"

    def __init__(
        self, classes: int = 9, features: int = 120, noise: float = 0.05, rounds: int = 100_000, seed: int = 0
    ) -> None:
        n_classes = whole(classes, "the number of classes K", least=2, most=10_000)
        self.features = whole(features, "d", least=1, most=400_000)
        if self.features % 40:
            nearest = max(40, 40 * ((self.features + 19) // 40))
            raise UserError(f"d must be a multiple of 40, not {self.features}: the nearest is {nearest}")
        self.noise = number(noise, "noise", least=0.0, most=1.0)
        self.rounds: int = whole(rounds, "the number of rounds T", least=1)
        self.seed = whole(seed, "seed")
        self.classes = tuple(range(n_classes))
        self._set_name(n_classes, self.features, self.noise, self.rounds, self.seed)
        self.keywords: tuple[NDArray[np.int32], ...] = _keyword_sets(
            self._generators()[0], n_classes, self.features // 40
        )
        """The sorted keywords of each class."""
        self.max_norm = math.sqrt(max(map(len, self.keywords)) + self.features // 8)

    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning."""
        rng = self._generators()[1]
        draws = self.features // 8
        unrelated = 3 * self.features // 4
        bits = np.arange(unrelated, dtype=np.int32)
        most_keywords = max(map(len, self.keywords))
        width = most_keywords + draws
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(one) for one in self.keywords], dtype=np.int64)))
        recipe = Recipe(
            np.concatenate((*self.keywords, np.zeros(most_keywords, np.int32))),
            starts,
            most_keywords,
            self.noise,
            draws,
            bits // WORD * 64 + bits % WORD,
            np.zeros(-(-unrelated // WORD), np.int64),
        )
        left: int = self.rounds
        most = min(CHUNK, left, max(1, ENTRIES // width))
        ones = np.ones(most * width)  # every value is 1, so that all chunks may share them
        while left:
            rounds = min(most, left)
            indptr, labels = np.empty(rounds + 1, np.int64), np.empty(rounds, np.int64)
            indices = np.empty(rounds * width, np.int32)
            arguments = (rng, recipe, indptr, indices, labels)
            entries = specialise(_generate, *arguments)(*arguments)
            yield make_chunk(indptr, indices[:entries], ones[:entries], labels)
            left -= rounds

    def _generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """One generator for the keywords and one for the rounds, so that neither moves when the other draws more.

        Their keys have two parts, since (0,) and (1,) are those of the learners' repeats, whose seed may be the same
        number.
        """
        keywords, rounds = np.random.SeedSequence(self.seed, spawn_key=(0,)).spawn(2)
        return np.random.Generator(np.random.PCG64(keywords)), np.random.Generator(np.random.PCG64(rounds))


def _keyword_sets(rng: np.random.Generator, classes: int, scale: int) -> tuple[NDArray[np.int32], ...]:
    """A set for each class, of d'..5d' among 10 d' bits (`scale` is d'); one that is taken already is drawn again."""
    possible = 0
    for size in range(scale, 5 * scale + 1):
        possible += math.comb(10 * scale, size)
        if possible >= classes:
            break
    else:
        raise UserError(
            f"with d={40 * scale} there are only {possible} different sets of keywords, too few for {classes} "
            "classes: raise d or lower K"
        )
    sets: dict[tuple[int, ...], None] = {}
    while len(sets) < classes:
        size = scale + below(rng, 4 * scale + 1)
        order = list(range(10 * scale))
        for i in range(size):
            j = i + below(rng, 10 * scale - i)
            order[i], order[j] = order[j], order[i]
        sets.setdefault(tuple(sorted(order[:size])))
    return tuple(np.array(one, np.int32) for one in sets)
