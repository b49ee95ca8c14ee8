"""Streams that are generated from a few numbers: unit vectors, and the synthetic data of the paper's experiments."""

import inspect
import math
from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.base.text import read_settings
from gappletron.data.stream import CHUNK, ENTRIES, Chunk, Stream, make_chunk
from gappletron.kernel.compiling import run
from gappletron.kernel.pieces import helper


class GeneratedStream(Stream):
    """A stream that is made from a few numbers, with a name such as ``synthetic:K=9,d=120,T=100000`` to make it again.

    A subclass says how names begin, which of its arguments each key stands for, and gives an example.

    :cvar kind: the word in front of the colon.
    :cvar keys: the arguments by their keys in the name.
    :cvar example: what may stand behind the colon. Arguments that have a default may be left out.
    """

    kind: str
    keys: dict[str, str]
    example: str

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Return the stream whose name has this text behind the colon.

        >>> from gappletron import Synthetic
        >>> Synthetic.parse("K=6,T=1e6").name
        'synthetic:K=6,d=120,noise=0.05,T=1000000,seed=0'
        """
        arguments = inspect.signature(cls).parameters
        needed = tuple(key for key, name in cls.keys.items() if arguments[name].default is inspect.Parameter.empty)
        return cls(**read_settings(spec, cls.kind, cls.keys, cls.example, needed))

    @property
    def name(self) -> str:  # type: ignore[override]
        """The text that :func:`gappletron.open_stream` makes this stream from; an argument that is None is left out."""
        numbers = {**vars(self), "classes": len(self.classes)}
        given = ((key, numbers[argument]) for key, argument in self.keys.items())
        return f"{self.kind}:" + ",".join(f"{key}={number!r}" for key, number in given if number is not None)


class UnitVectors(GeneratedStream):
    """x is the unit vector of a uniformly drawn class; with probability `noise` the label is another class, uniformly.

    Features have norm 1 and there are as many as classes, so the constants of the theorems are small. The comparator
    ``U = c (I - 11'/K)`` has margin c and norm ``c sqrt(K - 1)``.

    >>> from gappletron import UnitVectors
    >>> stream = UnitVectors(classes=3, noise=0.0, rounds=5)
    >>> stream, stream.features, stream.max_norm
    (<UnitVectors 'unit-vectors:K=3,noise=0.0,T=5,seed=0'>, 3, 1.0)
    >>> chunk = next(stream.chunks())
    >>> bool((chunk.indices == chunk.labels).all())
    True
    """

    kind = "unit-vectors"
    keys = {"K": "classes", "noise": "noise", "T": "rounds", "seed": "seed"}  # noqa: RUF012
    example = "K=3,noise=0.05,T=100000,seed=0"

    def __init__(self, classes: int = 3, noise: float = 0.05, rounds: int = 100_000, seed: int = 0) -> None:
        self.features = whole(classes, "the number of classes K", least=2, most=10_000)
        self.noise = number(noise, "noise", least=0.0, most=1.0)
        self.rounds: int = whole(rounds, "the number of rounds T", least=1)
        self.seed = whole(seed, "seed")
        self.classes = tuple(range(self.features))
        self.max_norm = 1.0

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed)))
        K = self.features
        for start in range(0, self.rounds, CHUNK):
            n = min(CHUNK, self.rounds - start)
            # Three draws per round, in the order of the rounds: a longer stream begins like a shorter one.
            drawn = rng.random((n, 3))
            clean = (drawn[:, 0] * K).astype(np.int64)  # never rounds up to K: see `draw_below`
            other = (clean + 1 + (drawn[:, 2] * (K - 1)).astype(np.int64)) % K
            yield make_chunk(np.arange(n + 1), clean, np.ones(n), np.where(drawn[:, 1] < self.noise, other, clean))


# ------------------------------------------------------------------------------------------- the paper's synthetic data

# Unrelated bits in one word of a round's bit set: two words for d = 120 and 160, and a signed integer is enough.
WORD = 60


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
def draw_below(rng: np.random.Generator, n: int) -> int:
    """Return a uniform integer from 0 to n - 1, from one draw.

    The product cannot round up to n: the largest draw is 1 - 2^-53, and n 2^-53 is at least half the spacing of the
    doubles just below n, with equality only where n (1 - 2^-53) is itself a double.
    """
    return int(rng.random() * n)


@helper
def find_lowest_bit(word: int) -> int:
    """Return the place of the lowest bit that is not 0: the exponent of that bit as a double, which is exact."""
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
        label = draw_below(rng, classes)
        # The same number for each class, since a branch that depends on the label would be mispredicted. What follows
        # the keywords of the class is overwritten.
        start = np.uint64(starts[label])
        for i in range(recipe.most):
            indices[entries + np.uint64(i)] = keywords[start + np.uint64(i)]
        entries += np.uint64(starts[label + 1]) - start
        # The head of a Fisher-Yates shuffle is a uniform subset from whatever order it starts, so the order need not be
        # reset.
        for i in range(recipe.draws):
            j = np.uint64(i + draw_below(rng, unrelated - i))
            bit = order[j]
            order[j] = order[i]
            order[i] = bit
            words[np.uint32(bit) >> np.uint32(6)] |= np.int64(1) << np.int64(bit & 63)
        # A bit set is read in order: sorted indices without a sort, or a look at the bits that are off.
        for w in range(len(words)):
            word = words[w]
            words[w] = 0
            while word:
                indices[entries] = first + WORD * w + find_lowest_bit(word)
                entries += np.uint64(1)
                word &= word - 1
        noisy = rng.random() < recipe.noise
        other = draw_below(rng, classes)
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
        # The sorted keywords of each class.
        self.keywords: tuple[NDArray[np.int32], ...] = _keyword_sets(
            self._generators()[0], n_classes, self.features // 40
        )
        self.max_norm = math.sqrt(max(map(len, self.keywords)) + self.features // 8)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
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
            entries = run(_generate, rng, recipe, indptr, indices, labels)
            yield make_chunk(indptr, indices[:entries], ones[:entries], labels)
            left -= rounds

    def _generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """Return a generator for the keywords and one for the rounds, so that neither moves when the other draws more.

        Their keys have two parts, since (0,) and (1,) are those of the learners' repeats, whose seed may be the same
        number.
        """
        keywords, rounds = np.random.SeedSequence(self.seed, spawn_key=(0,)).spawn(2)
        return np.random.Generator(np.random.PCG64(keywords)), np.random.Generator(np.random.PCG64(rounds))


def _keyword_sets(rng: np.random.Generator, classes: int, scale: int) -> tuple[NDArray[np.int32], ...]:
    """Draw distinct sets of keywords, one for each class: d'..5d' among 10 d' bits, where `scale` is d'."""
    # All of them for d' = 1; for larger d' the smallest sets alone are more than the classes there may be.
    possible = sum(math.comb(10 * scale, size) for size in range(scale, scale + 5))
    if possible < classes:
        few = f"with d={40 * scale} there are only {possible} different sets of keywords"
        raise UserError(f"{few}, too few for {classes} classes: raise d or lower K")
    sets: dict[tuple[int, ...], None] = {}
    while len(sets) < classes:
        size = scale + draw_below(rng, 4 * scale + 1)
        order = list(range(10 * scale))
        for i in range(size):
            j = i + draw_below(rng, 10 * scale - i)
            order[i], order[j] = order[j], order[i]
        sets.setdefault(tuple(sorted(order[:size])))
    return tuple(np.array(one, np.int32) for one in sets)
