"""Types that compiled loops and everything above them share."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class Vector(NamedTuple):
    """A checked sparse vector x: strictly increasing indices, their values, and ||x||^2."""

    indices: NDArray[np.int32]
    values: Floats
    squared: float


# A vector without entries.
NO_VECTOR = Vector(np.zeros(0, np.int32), np.zeros(0), 0.0)
