"""Normalization of rows, one at a time and without looking ahead: what a player does to x first."""

import math
from abc import abstractmethod
from typing import Any, NamedTuple

from gappletron.base.checks import number
from gappletron.base.text import unknown
from gappletron.data.stream import largest_size, squared_size
from gappletron.kernel.numerics import LARGEST_VALUE, Row, is_followed
from gappletron.kernel.pieces import Piece, compiled, helper, seldom
from gappletron.kernel.state import Field, Layout
from gappletron.kernel.types import Floats, Ints

# A value counts for at most this many times the mean size of those in its column that are not 0: one outlier does not
# set the scale.
LONGEST_JUMP = 10.0

# Nothing is known that could cut the first entry of a column that is not 0. Where it is more than so many times as
# large as the second, it counts afterwards as LONGEST_JUMP times that: it may have been the outlier.
FIRST_JUMP = 100.0

# A column whose deviations add up to less, or that was never seen, has no scale: the signs of its entries count.
LEAST_DEVIATION = 1e-200

# A column that has an entry in a share of the rows between these is centred in part; above, by its mean.
SPARSE, DENSE = 0.5, 0.95

# A column remembers so many entries.
MOST_ENTRIES = 4096.0


class Room(NamedTuple):
    """Where a row is copied to before it is scaled; as long as the longest row, with its bias."""

    indices: Ints
    values: Floats


class Normalization(Piece, abstract=True):
    """The family of normalizations.

    A row is entries `start` to `stop` of `indices` and `values`; its values are replaced in place.
    """

    def declare(self) -> Layout:
        """Return the state: what is remembered of the rows so far; nothing by default."""
        return {}

    def longest(self) -> float | None:
        """Return an upper bound on the norm of a scaled row; None where there is none."""
        return 1.0

    def counts_zeros(self) -> bool:
        """Return whether an entry of 0 makes a difference."""
        return False

    def find_usual(self, state: Any, j: int) -> float:
        """Return a value of the numbers in column j that is as large as they usually are; 1 by default."""
        return 1.0

    @abstractmethod
    @compiled
    def apply(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        """Scale a row by what is known so far, and change nothing else."""

    @compiled
    def take(
        self, state: Any, indices: Ints, values: Floats, start: int, stop: int, bias: int, squared: float
    ) -> float:
        """Scale a row, but for its first `bias` entries, and take note of it; return ||x||^2, which was `squared`."""
        self.apply(state, indices, values, start + bias, stop)
        return squared_size(values, start, stop)

    @compiled
    def present(self, state: Any, x: Row, bias: int, room: Room) -> Row:
        """Return x, the next row of a chunk, as the learner sees it: copied after `bias` entries of 1, and scaled."""
        size = bias + x.stop - x.start
        for p in range(x.start, x.stop):
            room.indices[bias + p - x.start] = x.indices[p] + bias
            room.values[bias + p - x.start] = x.values[p]
        if bias:
            room.indices[0] = 0
            room.values[0] = 1.0
        squared = self.take(state, room.indices, room.values, 0, size, bias, x.squared)
        return Row(room.indices, room.values, 0, size, squared, x.lanes)


class AsGiven(Normalization):
    """No normalization.

    >>> AsGiven()
    AsGiven()
    """

    def longest(self) -> None:
        return None

    def apply(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        pass

    def take(
        self, state: Any, indices: Ints, values: Floats, start: int, stop: int, bias: int, squared: float
    ) -> float:
        return squared

    def present(self, state: Any, x: Row, bias: int, room: Room) -> Row:
        return x


class Copied(Normalization):
    """No normalization, for rows that get a bias and must be copied for it.

    >>> Copied()
    Copied()
    """

    def longest(self) -> None:
        return None

    def apply(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        pass


class Unit(Normalization):
    """Rows of Euclidean norm 1; an empty row stays as it is.

    >>> Unit()
    Unit()
    """

    def apply(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        scale_to_unit(values, start, stop)


class LogUnit(Normalization):
    """Each value v becomes sign(v) ln(1 + |v|), then the row gets norm 1: for counts.

    >>> LogUnit()
    LogUnit()
    """

    def apply(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        for p in range(start, stop):
            values[p] = math.copysign(math.log1p(abs(values[p])), values[p])
        scale_to_unit(values, start, stop)


class Columns(Normalization):
    """Each column is centred where it is dense and divided by its mean deviation so far; then the row is divided by the
    root of the number of its entries.

    A zero that was given is an entry like any other. What a sparse row leaves out is none. The deviation of a column is
    the mean of ``|v - m|`` over its entries. The centre m is the mean of the entries for a column that has an entry in
    at least 95 percent of the rows, and falls to 0 for one that has an entry in half of them: what is left out cannot
    be centred. Up to `limit` deviations a value z counts as it is, beyond as ``sign(z) (limit + ln(1 + |z| - limit))``.
    Multiplying a column by any number does not matter; counts, texts and numbers need no other preparation.

    After 1,024 rows the scales follow one row in eight. They follow change: a column with more than 4,096 entries
    counts as one with 4,096, all its sums and its number of rows multiplied by the same factor. So its memory is that
    of 4,096 entries, about 30,000 rows for a dense column.

    >>> Columns()
    Columns(limit=2.0)
    """

    limit: float = 2.0

    def check(self) -> None:
        number(self.limit, "Columns' limit", above=0.0)

    def longest(self) -> None:
        return None

    def counts_zeros(self) -> bool:
        return True

    def declare(self) -> Layout:
        """Return the state: the numbers of rows, and of those that the scales follow; for each column what :func:`note`
        keeps.
        """
        return {"rows": Field(least=0), "noted": Field(least=0), "columns": Field("features", 8)}

    def find_usual(self, state: Any, j: int) -> float:
        """One mean deviation above the centre, which becomes 1."""
        scale = float(state.columns[j, SCALE])
        return float(state.columns[j, CENTRE]) + 1.0 / scale if scale > 0.0 else 1.0

    def apply(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        factor = 1.0 / math.sqrt(max(1, stop - start))
        for p in range(start, stop):
            values[p] = factor * standardize(state.columns, indices[p], values[p], self.limit)

    def take(
        self, state: Any, indices: Ints, values: Floats, start: int, stop: int, bias: int, squared: float
    ) -> float:
        state.rows[0] += 1.0
        is_noted = is_followed(state.rows[0])
        if is_noted:
            state.noted[0] += 1.0
        noted = state.noted[0]
        factor = 1.0 / math.sqrt(max(1, stop - start - bias))
        for p in range(start + bias, stop):
            j = indices[p]
            # Rows of a stream are checked after they are transformed.
            value = min(LARGEST_VALUE, max(-LARGEST_VALUE, values[p]))
            values[p] = factor * standardize(state.columns, j, value, self.limit)
            if is_noted or state.columns[j, SCALE] == 0.0:
                note(state.columns, j, value, noted)
        return squared_size(values, start, stop)

    def present(self, state: Any, x: Row, bias: int, room: Room) -> Row:
        # As `take`, but first all entries without a branch, which is enough for most rows, then what that left out.
        state.rows[0] += 1.0
        is_noted = is_followed(state.rows[0])
        if is_noted:
            state.noted[0] += 1.0
        if bias:
            room.indices[0] = 0
            room.values[0] = 1.0
        size, total, special = x.stop - x.start, 1.0 * bias, 0
        factor = 1.0 / math.sqrt(max(1, size))
        for p in range(size):
            j = x.indices[x.start + p] + bias
            value = min(LARGEST_VALUE, max(-LARGEST_VALUE, x.values[x.start + p]))
            # A Python float: its square may overflow, which does no harm, and NumPy's would warn of it.
            z = float((value - state.columns[j, CENTRE]) * state.columns[j, SCALE])
            special += int(abs(z) > self.limit) | int(state.columns[j, SCALE] == 0.0)
            room.indices[bias + p] = j
            room.values[bias + p] = factor * z
            total += factor * z * (factor * z)
        if is_noted or special > 0:
            total = present_special(state.columns, x, bias, room.values, factor, self.limit, is_noted, state.noted[0])
        return Row(room.indices, room.values, 0, bias + size, total, x.lanes)


ENTRIES, NONZEROS, SIZES, SUMS, DEVIATIONS, BEFORE, CENTRE, SCALE = range(8)


@helper
def note(columns: Floats, j: int, value: float, noted: float) -> None:
    """Update the statistics of column j with one entry, in the row that is number `noted` of those that are followed.

    They are the numbers of entries and of those that are not 0, the sums of sizes, values and deviations, how many of
    the rows are forgotten, and the centre and the scale that follow from these.
    """
    nonzeros, sizes = columns[j, NONZEROS], columns[j, SIZES]
    if nonzeros == 1.0 and sizes > FIRST_JUMP * abs(value) > 0.0:
        shrink_first(columns, j, LONGEST_JUMP * abs(value) / sizes)
        sizes = columns[j, SIZES]
    if abs(value) * nonzeros > LONGEST_JUMP * sizes and nonzeros > 0.0:
        value = math.copysign(LONGEST_JUMP * sizes / nonzeros, value)
    entries = columns[j, ENTRIES] + 1.0
    sums = columns[j, SUMS] + value
    centre = compute_centred_share(entries, noted - columns[j, BEFORE]) * (sums / entries)
    # The first entry had nothing to be compared with: its deviation is that from the centre which the second gives.
    before = abs(columns[j, SUMS] - centre) if entries == 2.0 else columns[j, DEVIATIONS]
    deviations = before + abs(value - centre)
    columns[j, ENTRIES] = entries
    columns[j, NONZEROS] = nonzeros + (value != 0.0)
    columns[j, SIZES] = sizes + abs(value)
    columns[j, SUMS] = sums
    columns[j, DEVIATIONS] = deviations
    columns[j, CENTRE] = centre
    columns[j, SCALE] = entries / deviations if deviations > LEAST_DEVIATION else 0.0
    if entries > MOST_ENTRIES:
        forget(columns, j, MOST_ENTRIES / entries, noted)


@seldom
def shrink_first(columns: Floats, j: int, factor: float) -> None:
    """Multiply the only entry of column j that is not 0 by this factor: all its sums are multiples of that entry."""
    columns[j, SIZES] *= factor
    columns[j, SUMS] *= factor
    columns[j, DEVIATIONS] *= factor


@seldom
def present_special(
    columns: Floats, x: Row, bias: int, values: Floats, factor: float, limit: float, is_noted: bool, noted: float
) -> float:
    """Replace the values of outliers, and of columns without a scale; take note of these, or of all. Return ||x||^2."""
    for p in range(x.start, x.stop):
        j = x.indices[p] + bias
        value = min(LARGEST_VALUE, max(-LARGEST_VALUE, x.values[p]))
        scale = columns[j, SCALE]
        if scale == 0.0 or abs((value - columns[j, CENTRE]) * scale) > limit:
            values[bias + p - x.start] = factor * standardize(columns, j, value, limit)
        if is_noted or scale == 0.0:
            note(columns, j, value, noted)
    return squared_size(values, 0, bias + x.stop - x.start)


@helper
def forget(columns: Floats, j: int, share: float, noted: float) -> None:
    """Keep this share of the entries of column j, and of the rows they came in: means and the density stay."""
    columns[j, BEFORE] = noted - share * (noted - columns[j, BEFORE])
    for statistic in range(DEVIATIONS + 1):
        columns[j, statistic] *= share


@helper
def compute_centred_share(entries: float, rows: float) -> float:
    """Return which share of its mean is subtracted from a column with so many entries in so many rows; in the first
    row, none.
    """
    if rows < 2.0 or entries <= SPARSE * rows:
        return 0.0
    return min(1.0, max(0.0, (entries / rows - SPARSE) / (DENSE - SPARSE)))


@helper
def standardize(columns: Floats, j: int, value: float, limit: float) -> float:
    """Return an entry of column j, less the centre, in mean deviations, and softened beyond the limit; its sign where
    the column has no scale.
    """
    scale = columns[j, SCALE]
    if scale > 0.0:
        return soften((value - columns[j, CENTRE]) * scale, limit)
    return 0.0 if value == 0.0 else math.copysign(1.0, value)


@helper
def soften(z: float, limit: float) -> float:
    """Return z as it is up to the limit; beyond it grows as a logarithm: an outlier can be seen, and does no harm."""
    size = abs(z)
    return z if size <= limit else math.copysign(limit + math.log1p(size - limit), z)


@helper
def scale_to_unit(values: Any, start: int, stop: int) -> None:
    """Divide values[start:stop] by their Euclidean norm, also where the squares leave the range of doubles."""
    total = squared_size(values, start, stop)
    if not 1e-280 < total < 1e300:
        largest = largest_size(values, start, stop)
        if largest == 0.0:
            return
        for i in range(start, stop):
            values[i] = float(values[i]) / largest
        total = squared_size(values, start, stop)
    norm = math.sqrt(total)
    for i in range(start, stop):
        values[i] = float(values[i]) / norm


# The ways to normalize rows, by the names that options take.
NORMALIZATIONS: dict[str, Normalization] = {
    "none": AsGiven(),
    "unit": Unit(),
    "log1p-unit": LogUnit(),
    "columns": Columns(),
}


def find_normalization(given: Any, default: str) -> Normalization:
    """Return the normalization of this name; None is none, and ``"auto"`` the default.

    >>> find_normalization("unit", "none"), find_normalization("auto", "columns"), find_normalization(None, "columns")
    (Unit(), Columns(limit=2.0), AsGiven())
    """
    if isinstance(given, Normalization):
        return given
    name = "none" if given is None else default if given == "auto" else given
    if not isinstance(name, str) or name not in NORMALIZATIONS:
        raise unknown(name, "normalization", ["auto", *NORMALIZATIONS])
    return NORMALIZATIONS[name]
