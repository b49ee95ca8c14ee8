"""Normalization of rows, one at a time and without looking ahead: what a player does to x first."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from gappletron._dispatch import Piece, compiled, helper
from gappletron._validate import number, unknown
from gappletron.numerics import LARGEST_VALUE
from gappletron.state import Field

if TYPE_CHECKING:
    from gappletron.numerics import Floats, Ints
    from gappletron.state import Layout

__all__ = ["AsGiven", "Columns", "LogUnit", "Normalization", "Unit", "normalization_of"]

LONGEST_JUMP = 10.0
"""A value counts for at most this many times the mean size of its column so far: one outlier does not set the scale."""

DENSE = 0.5
"""A column whose share of entries that are not 0 is larger than this is centred, the more the larger the share."""


class Normalization(Piece, abstract=True):
    """The family of normalizations.

    A row is entries `start` to `stop` of `indices` and `values`; its values are replaced in place.
    """

    def declare(self) -> Layout:
        """What is remembered of the rows so far; nothing by default."""
        return {}

    @compiled
    def observe(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        """Take note of a row, before it is scaled; nothing by default."""

    @abstractmethod
    @compiled
    def apply(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        """Scale a row by what is known so far; changes nothing else."""

    @compiled
    def take(
        self, state: Any, indices: Ints, values: Floats, start: int, stop: int, bias: int, squared: float
    ) -> float:
        """Take note of a row and scale it, but for its first `bias` entries; ||x||^2, where it was `squared` before."""
        self.observe(state, indices, values, start + bias, stop)
        self.apply(state, indices, values, start + bias, stop)
        return squared_size(values, start, stop)


class AsGiven(Normalization):
    """No normalization.

    >>> AsGiven()
    AsGiven()
    """

    def apply(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        pass

    def take(
        self, state: Any, indices: Ints, values: Floats, start: int, stop: int, bias: int, squared: float
    ) -> float:
        return squared_size(values, start, stop) if bias else squared


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
    """Each column is centred where it is dense and divided by its mean deviation so far; then the row gets norm 1.

    The deviation of a column is the mean of ``|v - m|`` over its entries that are not 0. The centre m is the mean of
    the column, times a factor that grows from 0 for a column with half of its entries 0 to 1 for one without zeros:
    entries that are 0 are not stored, so a sparse column cannot be centred. Values are cut to `limit` deviations.
    Multiplying a column by any number does not matter; counts, texts and numbers need no other preparation.

    >>> Columns()
    Columns(limit=3.0)
    """

    limit: float = 3.0

    def check(self) -> None:
        number(self.limit, "Columns' limit", above=0.0)

    def declare(self) -> Layout:
        """The number of rows; for each column that of its entries, the sums of their sizes, values and deviations."""
        return {
            "rows": Field(least=0),
            "entries": Field("features", least=0),
            "sizes": Field("features", least=0),
            "sums": Field("features"),
            "deviations": Field("features", least=0),
        }

    def observe(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        state.rows[0] += 1.0
        for p in range(start, stop):
            j = indices[p]
            value = min(LARGEST_VALUE, max(-LARGEST_VALUE, values[p]))
            if value != 0.0:
                if state.entries[j] > 0.0:
                    most = LONGEST_JUMP * (state.sizes[j] / state.entries[j])
                    value = min(most, max(-most, value))
                state.entries[j] += 1.0
                state.sizes[j] += abs(value)
                state.sums[j] += value
                state.deviations[j] += abs(value - centre(state, j))

    def apply(self, state: Any, indices: Ints, values: Floats, start: int, stop: int) -> None:
        for p in range(start, stop):
            j = indices[p]
            if state.deviations[j] > 0.0:
                deviation = state.deviations[j] / state.entries[j]
                scaled = (values[p] - centre(state, j)) / deviation
                values[p] = min(self.limit, max(-self.limit, scaled))
            elif values[p] != 0.0:  # a column that was never seen
                values[p] = math.copysign(1.0, values[p])
        scale_to_unit(values, start, stop)


@helper
def centre(state: Any, j: int) -> float:
    """What is subtracted from the entries of column j: its mean, as far as the column is dense."""
    rows = state.rows[0]
    share = (state.entries[j] / rows - DENSE) / (1.0 - DENSE)
    if rows < 2.0 or share <= 0.0:
        return 0.0
    return share * (state.sums[j] / rows)


@helper
def squared_size(values: Floats, start: int, stop: int) -> float:
    """The sum of the squares of values[start:stop]."""
    total = 0.0
    for p in range(start, stop):
        total += values[p] * values[p]
    return total


@helper
def scale_to_unit(values: Any, start: int, stop: int) -> None:
    """Divide values[start:stop] by their Euclidean norm, also where the squares leave the range of doubles."""
    total = 0.0
    for i in range(start, stop):
        value = float(values[i])
        total += value * value
    if not 1e-280 < total < 1e300:
        largest = 0.0
        for i in range(start, stop):
            largest = max(largest, abs(float(values[i])))
        if largest == 0.0:
            return
        total = 0.0
        for i in range(start, stop):
            values[i] = float(values[i]) / largest
            total += float(values[i]) * float(values[i])
    norm = math.sqrt(total)
    for i in range(start, stop):
        values[i] = float(values[i]) / norm


NORMALIZATIONS: dict[str, Normalization] = {
    "none": AsGiven(),
    "unit": Unit(),
    "log1p-unit": LogUnit(),
    "columns": Columns(),
}
"""The ways to normalize rows, by the names that options take."""


def normalization_of(given: Any, default: str) -> Normalization:
    """The normalization of this name; None is none, and ``"auto"`` the default.

    >>> normalization_of("unit", "none"), normalization_of("auto", "columns"), normalization_of(None, "columns")
    (Unit(), Columns(limit=3.0), AsGiven())
    """
    if isinstance(given, Normalization):
        return given
    name = "none" if given is None else default if given == "auto" else given
    if name not in NORMALIZATIONS:
        raise unknown(name, "normalization", ["auto", *NORMALIZATIONS])
    return NORMALIZATIONS[name]
