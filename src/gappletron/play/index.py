"""Which row of the states each feature has: the one of its number, or one on demand.

On demand a feature gets a row when it first comes, so a model is as large as what it has seen, whatever its features
are numbered by. The table from features to rows is compiled; it is open addressing with linear probing, at most half
full. Rows are given out in the order in which features come, and a feature keeps its row.

Rows are claimed for a round before it is played. Where the round is not played after all, since a signal handler has
raised in between, the next claim gives its rows back: so the rows depend only on the rounds that were played.

With a bias the first row is that of the bias. Compiled rounds move the other rows behind it, so it is not counted in
the rows that are found here.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.base.signals import held_back
from gappletron.kernel.compiling import KeptCode, brief, entry_now
from gappletron.kernel.pieces import helper
from gappletron.kernel.types import Indices

Rows = NDArray[np.int32]

FIRST_ROWS = 32
NOTHING, NO_ROWS = np.zeros(0, np.int64), np.zeros(0, np.int32)
# Multiplied with this, numbers that lie close together are spread over the table.
SPREAD = 0x9E3779B1
LOW_31 = 0x7FFFFFFF

# What is counted: the rows in use, the entries that were left out, both before the last claim, and the number of the
# round that it was for, -1 for none.
USED, LEFT_OUT, USED_BEFORE, LEFT_OUT_BEFORE, ROUND = range(5)


@helper
def find_slot(features: Any, slots: Any, feature: int) -> int:
    """Return the slot of a feature, or the free one where it belongs."""
    number = int(feature)
    slot = ((number ^ number >> 31) & LOW_31) * SPREAD >> 16 & (slots.size - 1)
    while slots[slot] > 0 and features[slots[slot] - 1] != number:
        slot = slot + 1 & (slots.size - 1)
    return slot


@brief
def find_rows(features: Any, slots: Any, counts: Any, indices: Any, out: Rows) -> None:
    """Write the row of each feature; for one that has none, the first row that nobody has."""
    for p in range(indices.size):
        row = slots[find_slot(features, slots, indices[p])] - 1
        out[p] = row if row >= 0 else counts[USED]


@helper
def give_back(features: Any, slots: Any, counts: Any, at: int) -> None:
    """Take back the rows of the last claim if it was for round `at`, which comes next: so it was not played."""
    if at < 0 or counts[ROUND] != at:
        return
    while counts[USED] > counts[USED_BEFORE]:  # the last one first: nothing was put behind it in the table
        counts[USED] -= 1
        slots[find_slot(features, slots, features[counts[USED]])] = 0
    counts[LEFT_OUT] = counts[LEFT_OUT_BEFORE]


@brief
def claim_rows(features: Any, slots: Any, counts: Any, most: int, at: int, indices: Any, out: Rows, start: int) -> int:
    """Write the row of each feature from `start` on, and give rows to new ones; return where the table is full.

    Where there are `most` rows, a new feature has none: -1.
    """
    if start == 0:
        give_back(features, slots, counts, at)
        counts[USED_BEFORE] = counts[USED]
        counts[LEFT_OUT_BEFORE] = counts[LEFT_OUT]
        counts[ROUND] = at
    for p in range(start, indices.size):
        slot = find_slot(features, slots, indices[p])
        if slots[slot] == 0:
            if counts[USED] >= most:
                counts[LEFT_OUT] += 1
                out[p] = -1
                continue
            if counts[USED] == features.size:
                return p
            features[counts[USED]] = indices[p]
            counts[USED] += 1
            slots[slot] = counts[USED]
        out[p] = slots[slot] - 1
    return indices.size


def fill_slots(features: Any, slots: Any, used: int) -> bool:
    """Fill an empty table with the features of the first rows; False where one stands there twice."""
    for row in range(used):
        slot = find_slot(features, slots, features[row])
        if slots[slot] > 0:
            return False
        slots[slot] = row + 1
    return True


class DirectIndex:
    """Feature j has row j: there is a row for each of so many features."""

    grows, left_out, nbytes = False, 0, 0

    def __init__(self, features: int, bias: bool) -> None:
        self.used = self.most = features
        self.bias = bias
        # The rows of the states, with that of the bias: those in use, and those that there is room for.
        self.rows = self.room = features + bias

    @property
    def features(self) -> NDArray[np.int64]:
        """The feature of each row."""
        return np.arange(self.used)

    def find(self, indices: Indices) -> Indices:
        """Return the row of each feature."""
        return indices

    def name(self, rows: Rows) -> NDArray[np.int64]:
        """Return the feature of each of these rows."""
        return rows.astype(np.int64)

    def settle(self, at: int) -> None:
        """Take back the rows of a round that was not played: there are none."""


class FeatureIndex:
    """The rows of the features that were seen.

    :param most: the largest number of rows; features that come after it are left out.
    :param bias: whether there is a row for a bias too.
    :param features: the features of the first rows.

    >>> index = FeatureIndex(3, bias=False)
    >>> index.claim(np.array([70, 5])), index.claim(np.array([5, 9, 4]))
    (array([0, 1], dtype=int32), array([ 1,  2, -1], dtype=int32))
    >>> index.find(np.array([4, 5])), index.used, index.left_out
    (array([3, 1], dtype=int32), 3, 1)
    """

    grows = True

    def __init__(self, most: int, bias: bool, features: NDArray[np.int64] | None = None, left_out: int = 0) -> None:
        self.most, self.bias = most, bias
        known = np.zeros(0, np.int64) if features is None else features
        self.counts = np.array([known.size, left_out, 0, 0, -1], np.int64)
        self._table = self._new_table(known)
        _ = self._find, self._claim  # asked for early, and interpreted for life where it is made so

    def __reduce__(self) -> Any:
        return FeatureIndex, (self.most, self.bias, self.features.copy(), self.left_out)

    _find = KeptCode(lambda self: entry_now(find_rows, *self._table, self.counts, NOTHING, NO_ROWS))
    _claim = KeptCode(lambda self: entry_now(claim_rows, *self._table, self.counts, 1, 0, NOTHING, NO_ROWS, 0))

    @staticmethod
    def _new_table(known: NDArray[np.int64]) -> tuple[NDArray[np.int64], Rows]:
        """Return a table for at least twice as many features as are known."""
        room = max(FIRST_ROWS, 1 << known.size.bit_length())
        features, slots = np.zeros(room, np.int64), np.zeros(2 * room, np.int32)
        features[: known.size] = known
        if not entry_now(fill_slots, features, slots, 0)(features, slots, known.size):
            raise UserError("a feature has two rows: the file is damaged, load an older copy")
        return features, slots

    @property
    def used(self) -> int:
        """The number of features that have a row."""
        return self.counts.item(USED)

    @property
    def left_out(self) -> int:
        """How many entries were left out, since there were as many rows as there may be."""
        return self.counts.item(LEFT_OUT)

    @property
    def features(self) -> NDArray[np.int64]:
        """The feature of each row."""
        return self._table[0][: self.used]

    @property
    def rows(self) -> int:
        """The number of rows of the states that are in use, with that of the bias."""
        return self.counts.item(USED) + self.bias

    @property
    def room(self) -> int:
        """For how many rows a state has room: an eighth more than are in use, and at least one."""
        return self.rows + self.used // 8 + FIRST_ROWS

    def name(self, rows: Rows) -> NDArray[np.int64]:
        """Return the feature of each of these rows."""
        return self._table[0][rows]

    def find(self, indices: Indices) -> Rows:
        """Return the row of each feature; for one that has none, the first row that nobody has."""
        rows = np.empty(indices.size, np.int32)
        self._find(*self._table, self.counts, indices.astype(np.int64, copy=False), rows)
        return rows

    def claim(self, indices: Indices, at: int = -1) -> Rows:
        """Return the row of each feature; new ones get one, or -1 where there are none left.

        :param at: the number of the round that is to be played with them; -1 for none.
        """
        indices, rows = indices.astype(np.int64, copy=False), np.empty(indices.size, np.int32)
        done = self._claim(*self._table, self.counts, self.most, at, indices, rows, 0)
        while done < indices.size:
            with held_back():
                self._table = self._new_table(self.features)
                done = self._claim(*self._table, self.counts, self.most, at, indices, rows, done)
        return rows

    def settle(self, at: int) -> None:
        """Take back the rows of a round that was not played, where round `at` comes next."""
        self.claim(NOTHING, at)
        self.counts[ROUND] = -1

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return sum(array.nbytes for array in self._table)


# What tells the row of a feature.
Index = DirectIndex | FeatureIndex
