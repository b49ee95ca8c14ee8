"""The random draws of a run: number t is the draw of round t, whoever asks for it and however often."""

from typing import Any, Self

import numpy as np

from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.kernel.types import Floats

# As many draws are made at once for single rounds.
BLOCK = 256


class Draws:
    """The uniform draws of a run, from one PCG64 generator.

    A draw is a function of its round alone. So there is no position that a signal handler could leave between a draw
    and the round that takes it.

    >>> draws = Draws.seeded(1)
    >>> bool(draws.draw(2) == draws.draw_many(0, 3)[2])
    True
    """

    def __init__(self, first: int, state: dict[str, Any]) -> None:
        self._first, self._state = first, state
        self._block = (first, np.zeros(0))

    @classmethod
    def seeded(cls, seed: int, repeat: int = 0) -> Self:
        """Return the draws of a run with this seed; each repeat has its own."""
        return cls(0, dict(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(repeat,))).state))

    def draw(self, t: int) -> float:
        """Return the draw of round t."""
        start, block = self._block
        if not 0 <= t - start < block.size:
            start, block = self._block = t, self.draw_many(t, BLOCK)
        return block.item(t - start)

    def draw_many(self, start: int, count: int) -> Floats:
        """Return the draws of `count` rounds from `start` on."""
        return np.random.Generator(self._source(start)).random(count)

    def state_at(self, t: int) -> dict[str, Any]:
        """Return the state of the generator before round t."""
        return dict(self._source(t).state)

    def _source(self, t: int) -> Any:
        source: Any = np.random.PCG64(0)
        source.state = self._state
        source.advance(t - self._first)
        return source


def check_random_state(state: Any) -> dict[str, Any]:
    """Return the state of a PCG64 generator, checked: NumPy copies its numbers without another look."""
    numbers = {**state, **state["state"]}
    for name, bits in {"state": 128, "inc": 128, "has_uint32": 1, "uinteger": 32}.items():
        whole(numbers[name], "a number of the random state", most=2**bits - 1)
    if state["bit_generator"] != "PCG64" or numbers["inc"] % 2 == 0:
        raise UserError("the random state is not one of PCG64: the file is damaged")
    return {"bit_generator": "PCG64", **{key: state[key] for key in ("state", "has_uint32", "uinteger")}}
