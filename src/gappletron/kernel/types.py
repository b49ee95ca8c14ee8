"""Types that compiled loops and everything above them share."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
# The largest number of features, and of those whose indices are int32; those of more are int64.
MOST_FEATURES, MOST_NARROW = 2**62, 2**31 - 1
Indices = NDArray[Any]


class Vector(NamedTuple):
    """A checked sparse vector x: its indices, their values, and ||x||^2.

    The indices are features, which increase, or rows of a state (:mod:`gappletron.play.index`), which are int32.
    """

    indices: Indices
    values: Floats
    squared: float


# A vector without entries.
NO_VECTOR = Vector(np.zeros(0, np.int32), np.zeros(0), 0.0)
