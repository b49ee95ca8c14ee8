"""An easy stream, on which the bounds of the paper are small: one unit vector per class, and label noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gappletron.base.checks import number, whole
from gappletron.base.text import read_settings
from gappletron.data.stream import CHUNK, Chunk, Stream, frozen

__all__ = ["UnitVectors"]


class UnitVectors(Stream):
    """x is the unit vector of a uniformly drawn class; with probability `noise` the label is another class, uniformly.

    Features have norm 1 and there are as many as classes, so the constants of the theorems are small. The comparator
    ``U = c (I - 11'/K)`` has margin c and norm ``c sqrt(K - 1)``.

    >>> from gappletron.data.open import UnitVectors
    >>> stream = UnitVectors(classes=3, noise=0.0, rounds=5)
    >>> stream, stream.features, stream.max_norm
    (<UnitVectors 'unit-vectors:K=3,noise=0.0,T=5,seed=0'>, 3, 1.0)
    >>> chunk = next(stream.chunks())
    >>> bool((chunk.indices == chunk.labels).all())
    True
    """

    def __init__(self, classes: int = 3, noise: float = 0.05, rounds: int = 100_000, seed: int = 0) -> None:
        self.features = whole(classes, "the number of classes K", least=2, most=10_000)
        self.noise = number(noise, "noise", least=0.0, most=1.0)
        self.rounds: int = whole(rounds, "the number of rounds T", least=1)
        self.seed = whole(seed, "seed")
        self.classes = tuple(range(self.features))
        self.max_norm = 1.0
        self.name = f"unit-vectors:K={self.features},noise={self.noise!r},T={self.rounds},seed={self.seed}"

    @classmethod
    def parse(cls, spec: str) -> UnitVectors:
        """The stream of a specification such as ``K=3,noise=0.05,T=100000,seed=0``; what is left out has that value.

        >>> from gappletron.data.open import UnitVectors
        >>> UnitVectors.parse("T=1e6").name
        'unit-vectors:K=3,noise=0.05,T=1000000,seed=0'
        """
        keys = {"K": "classes", "noise": "noise", "T": "rounds", "seed": "seed"}
        return cls(**read_settings(spec, "unit-vectors", keys, "K=3,noise=0.05,T=100000,seed=0"))

    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed)))
        K = self.features
        for start in range(0, self.rounds, CHUNK):
            n = min(CHUNK, self.rounds - start)
            # Three draws per round, in the order of the rounds: a longer stream begins like a shorter one.
            drawn = rng.random((n, 3))
            clean = (drawn[:, 0] * K).astype(np.int64)  # never rounds up to K: see `below` in synthetic.py
            other = (clean + 1 + (drawn[:, 2] * (K - 1)).astype(np.int64)) % K
            yield frozen(np.arange(n + 1), clean, np.ones(n), np.where(drawn[:, 1] < self.noise, other, clean))
