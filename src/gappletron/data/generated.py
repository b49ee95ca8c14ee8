"""Streams that are generated from a few numbers; the easiest of them has one unit vector per class, and label noise."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Self

import numpy as np

from gappletron.base.checks import number, whole
from gappletron.base.text import read_settings
from gappletron.data.stream import CHUNK, Chunk, Stream, make_chunk


class GeneratedStream(Stream):
    """A stream that is made from a few numbers, with a name such as ``synthetic:K=9,d=120,T=100000`` to make it again.

    A subclass says how names begin, which of its arguments each key stands for, and gives an example.
    """

    kind: str
    """The word in front of the colon."""
    keys: dict[str, str]
    """The arguments by their keys in the name."""
    example: str
    """What may stand behind the colon. Arguments that have a default may be left out."""

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

    def _set_name(self, *numbers: float | None) -> None:
        """Set the name from the numbers of all keys, in their order; None: it is left out."""
        pairs = zip(self.keys, numbers, strict=True)
        self.name = f"{self.kind}:" + ",".join(f"{key}={value!r}" for key, value in pairs if value is not None)


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
        self._set_name(self.features, self.noise, self.rounds, self.seed)

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
            yield make_chunk(np.arange(n + 1), clean, np.ones(n), np.where(drawn[:, 1] < self.noise, other, clean))
