"""The types of columns: what their values become, one value at a time (:class:`Cells`) or a whole column of Arrow.

To add a type, write a subclass of :class:`ColumnType` and put it into :data:`COLUMN_TYPES`.
"""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.base.text import shorten
from gappletron.data.records.arrow import is_number, is_text, text_buffers, to_doubles, to_objects, to_plain, to_strings
from gappletron.data.records.hashing import (
    Entries,
    Hasher,
    Texts,
    category_feature,
    column_seed,
    hash_categories,
    number_feature,
    pack_texts,
)
from gappletron.data.records.values import decode, is_missing, to_number, to_text
from gappletron.kernel.numerics import LARGEST_VALUE
from gappletron.kernel.types import Floats

TEXT, NUMERIC, CATEGORICAL, DROP = KINDS = ("text", "numeric", "categorical", "drop")
"""What a column may be declared as."""

MOST_DEPTH = 8
"""Mappings and lists within a record may be nested this deep."""

DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)  # a datetime is a date

NO_COLUMN = 0
"""The seed of a text without columns: the hash of an empty name."""


class ColumnType:
    """What the values of a column become: features of their own, and texts, whose words are features."""

    kind: str | None
    """What such a column is declared as; None: it is not declared."""

    def add_value(self, cells: Cells, name: str, value: Any) -> None:
        """Add one value that is neither missing nor a list or a mapping."""

    def encode_numbers(self, hasher: Hasher, name: str, column: Any) -> list[Entries]:
        """Return the features of an Arrow column of numbers."""
        return [_encode_values({name: self.kind}, hasher, name, to_objects(column, name))]

    def encode_texts(self, hasher: Hasher, name: str, column: Any) -> list[Entries]:
        """Return the features of an Arrow column of texts."""
        return []


class Text(ColumnType):
    """The words of a text, and up to `ngrams` words in a row."""

    kind = TEXT

    def add_value(self, cells: Cells, name: str, value: Any) -> None:
        cells.add_text(name, to_text(value))

    def encode_texts(self, hasher: Hasher, name: str, column: Any) -> list[Entries]:
        texts = to_strings(column)
        is_missing = np.array([not text for text in texts], np.bool_)
        return [hasher.hash_column(texts, column_seed(name)), _mark_missing(hasher, name, is_missing)]


class Numeric(ColumnType):
    """One feature whose value is the number. Texts that are numbers are read as such; others count as categories."""

    kind = NUMERIC

    def add_value(self, cells: Cells, name: str, value: Any) -> None:
        cells.add_number(name, value)

    def encode_numbers(self, hasher: Hasher, name: str, column: Any) -> list[Entries]:
        return _encode_doubles(hasher, name, to_doubles(column))

    def encode_texts(self, hasher: Hasher, name: str, column: Any) -> list[Entries]:
        import pyarrow as pa
        import pyarrow.compute as pc

        missing = pc.equal(pc.binary_length(column), 0)
        try:
            found = pc.if_else(missing, pa.scalar(None, column.type), column).cast(pa.float64())
        except pa.ArrowInvalid:  # there are words among the numbers, or spaces around them
            texts = to_strings(column)
            read = {text: to_number(text) for text in set(texts)}
            if None in read.values():
                return [_encode_values({name: self.kind}, hasher, name, texts)]
            return _encode_doubles(hasher, name, np.array([read[text] for text in texts], np.float64))
        return _encode_doubles(hasher, name, np.asarray(found.to_numpy(zero_copy_only=False), np.float64))


class Categorical(ColumnType):
    """One feature for each distinct value."""

    kind = CATEGORICAL

    def add_value(self, cells: Cells, name: str, value: Any) -> None:
        cells.add_category(name, to_text(value))

    def encode_texts(self, hasher: Hasher, name: str, column: Any) -> list[Entries]:
        return [hash_categories(*text_buffers(column), column_seed(name), hasher.features)]


class Undeclared(Numeric):
    """By the values: numbers are numbers; of a text, the whole is a category and its words are features."""

    kind = None  # type: ignore[assignment]

    def add_value(self, cells: Cells, name: str, value: Any) -> None:
        if isinstance(value, numbers.Real | np.bool_ | decimal.Decimal):
            cells.add_number(name, value)
            return
        text = to_text(value)
        if not isinstance(value, DATES):
            cells.add_category(name, text)
        cells.add_text(name, text)

    def encode_texts(self, hasher: Hasher, name: str, column: Any) -> list[Entries]:
        words = hasher.hash_column(to_strings(column), column_seed(name))
        return [words, hash_categories(*text_buffers(column), column_seed(name), hasher.features)]


class Dropped(ColumnType):
    """Nothing."""

    kind = DROP


COLUMN_TYPES: dict[str | None, ColumnType] = {
    one.kind: one for one in (Text(), Numeric(), Categorical(), Dropped(), Undeclared())
}
"""The types of columns by what they are declared as."""


# -------------------------------------------------------------------------------------------------- one value at a time


class Cells:
    """Records, value by value: their features that are not words, and their texts, whose words are features."""

    def __init__(self, kinds: Mapping[str, str | None], features: int) -> None:
        self._kinds, self._features = kinds, features
        self.indices: list[int] = []
        self.values: list[float] = []
        self.seeds: list[int] = []
        self.texts: list[str] = []
        self._ends: list[int] = []

    def add_record(self, record: Any) -> None:
        """Add the values of a record."""
        if type(record) is str and record:  # a text without columns: its words are its features, and the whole is not
            self.texts.append(record)
            self.seeds.append(NO_COLUMN)
        else:
            for name, value in _fields(record):
                self.add(name, value)
        self.end_row()

    def end_row(self) -> None:
        """Let what is added from now on belong to the next row."""
        self._ends += (len(self.indices), len(self.texts))

    def add(self, name: str, value: Any, depth: int = 0) -> None:
        """Add one value of a column."""
        kind = self._kinds.get(name)
        if kind == DROP:
            return
        simple = type(value)
        if (simple is float or simple is int) and (kind is None or kind == NUMERIC):
            self.add_number(name, value)  # the usual case first: asking for abstract classes takes longer than hashing
        elif simple is str and value:
            COLUMN_TYPES[kind].add_value(self, name, value)
        elif isinstance(value, Mapping):
            _check_depth(name, depth)
            for inner, part in value.items():
                self.add(f"{name}.{inner}", part, depth + 1)
        elif isinstance(value, list | tuple | set | frozenset | np.ndarray):
            self._add_list(name, value, depth)
        elif is_missing(value):
            self.add_category(name, "")
        else:
            COLUMN_TYPES[kind].add_value(self, name, value)

    def _add_list(self, name: str, value: Any, depth: int) -> None:
        """Each text of a list is a value of the column; numbers are columns of their own, by position."""
        _check_depth(name, depth)
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, Iterable):
            items = [items]  # an array without dimensions
        if isinstance(items, set | frozenset):
            items = sorted(items, key=repr)  # positions must not depend on how a set keeps its items
        place = -1
        for place, item in enumerate(items):
            self.add(name if isinstance(item, str) else f"{name}.{place}", item, depth + 1)
        if place < 0:
            self.add_category(name, "")

    def add_category(self, name: str, text: str) -> None:
        """Add a category of a column; the empty text stands for a missing value."""
        index, value = category_feature(name, text, self._features)
        self.indices.append(index)
        self.values.append(value)

    def add_text(self, name: str, text: str) -> None:
        """Add a text, whose words become features."""
        self.texts.append(text)
        self.seeds.append(column_seed(name))

    def add_number(self, name: str, value: Any) -> None:
        """Add a number; what is none counts as a category."""
        found = to_number(value)
        if found is None:
            self.add_category(name, to_text(value))
        elif math.isnan(found):
            self.add_category(name, "")
        elif not abs(found) <= LARGEST_VALUE:
            raise _too_large(name, found)
        elif found != 0.0:
            self.indices.append(number_feature(name, self._features))
            self.values.append(found)

    def pack(self) -> tuple[Entries, Texts]:
        """Return what was added as arrays."""
        ends = np.array([0, 0, *self._ends], np.int64).reshape(-1, 2)
        counts, text_counts = np.ascontiguousarray(np.diff(ends, axis=0).T)
        entries = Entries(counts, np.array(self.indices, np.int32), np.array(self.values, np.float64))
        return entries, pack_texts(text_counts, self.seeds, self.texts)


def _fields(record: Any) -> Iterable[tuple[str, Any]]:
    """Return the columns and values of a record."""
    if isinstance(record, str | bytes):
        return [("", record if isinstance(record, str) else decode(record))]
    if hasattr(record, "_asdict"):  # a named tuple
        record = record._asdict()
    # a row of a pandas frame has items as well
    if isinstance(record, Mapping) or (
        hasattr(record, "items") and hasattr(record, "index") and not hasattr(record, "columns")
    ):
        return ((str(name), value) for name, value in record.items())
    raise UserError(
        f"a record is a dict, a row of a frame or a text, not a {type(record).__name__} "
        f"({shorten(repr(record))}): name its columns, as in {{'age': 41, 'city': 'Bonn'}}"
    )


def _check_depth(name: str, depth: int) -> None:
    if depth >= MOST_DEPTH:
        raise UserError(f"the column {shorten(name)!r} is nested more than {MOST_DEPTH} deep: flatten the record")


def _too_large(name: str, value: float) -> UserError:
    return UserError(
        f"the column {name!r} has the value {value}: numbers must be finite and at most {LARGEST_VALUE:g} in size, "
        "leave such a value out (None) or clip it"
    )


# ------------------------------------------------------------------------------------------------------- whole columns


def encode_column(kinds: Mapping[str, str | None], hasher: Hasher, name: str, column: Any) -> list[Entries]:
    """Return the features of a column of an Arrow table."""
    import pyarrow as pa

    column_type = COLUMN_TYPES[kinds.get(name)]
    if column_type.kind == DROP:
        return []
    column = to_plain(column)
    if pa.types.is_null(column.type):
        return [_mark_missing(hasher, name, np.ones(len(column), np.bool_))]
    if is_number(column.type):
        return column_type.encode_numbers(hasher, name, column)
    if is_text(column.type):
        return column_type.encode_texts(hasher, name, column)
    return [_encode_values(kinds, hasher, name, to_objects(column, name))]


def _encode_doubles(hasher: Hasher, name: str, numbers: Floats) -> list[Entries]:
    """Return the features of a column of numbers, NaN where they are missing."""
    missing = np.isnan(numbers)
    with np.errstate(invalid="ignore"):
        beyond = np.abs(numbers) > LARGEST_VALUE
    if beyond.any():
        raise _too_large(name, float(numbers[np.argmax(beyond)]))
    present = ~missing & (numbers != 0.0)
    found = numbers[present]
    index = number_feature(name, hasher.features)
    parts = [Entries(present.astype(np.int64), np.full(found.size, index, np.int32), found)]
    return [*parts, _mark_missing(hasher, name, missing)] if missing.any() else parts


def _mark_missing(hasher: Hasher, name: str, rows: NDArray[np.bool_]) -> Entries:
    """Return the feature of a missing value in each of the rows that are marked."""
    index, value = category_feature(name, "", hasher.features)
    count = int(np.count_nonzero(rows))
    return Entries(rows.astype(np.int64), np.full(count, index, np.int32), np.full(count, value))


def _encode_values(kinds: Mapping[str, str | None], hasher: Hasher, name: str, values: list[Any]) -> Entries:
    """Return the features of a column value by value: dates, lists, mappings, or numbers that are categories."""
    cells = Cells(kinds, hasher.features)
    for value in values:
        cells.add(name, value)
        cells.end_row()
    return hasher.hash_rows(*cells.pack(), merges=False)[0]
