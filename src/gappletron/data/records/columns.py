"""What the values of columns become, by the kinds of the columns: one value at a time (:class:`Cells`), or a whole
column of Arrow (:func:`encode_column`).

A text becomes its words, and up to `ngrams` words in a row. A number is one feature with this value; in a numeric
column, a text that is a number is read as such, and any other text is a category. A category is one feature for each
distinct value. In a column that is not declared, numbers are numbers; of a text, the whole is a category and its words
are features; dates are texts.
"""

import datetime
import decimal
import itertools
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.base.text import describe, shorten
from gappletron.data.records.hashing import (
    Entries,
    Hasher,
    Texts,
    category_feature,
    column_seed,
    hash_categories,
    number_feature,
    pack_texts,
    to_codes,
)
from gappletron.data.records.values import decode, is_missing, to_number, to_text
from gappletron.kernel.numerics import LARGEST_VALUE
from gappletron.kernel.types import Floats

# What a column may be declared as.
TEXT, NUMERIC, CATEGORICAL, DROP = KINDS = ("text", "numeric", "categorical", "drop")

# Mappings and lists within a record may be nested this deep.
MOST_DEPTH = 8

NUMBERS = (bool, numbers.Real, np.bool_, decimal.Decimal)
DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)  # a datetime is a date

LISTS = (list, tuple, set, frozenset, np.ndarray)

# The seed of a text without columns: the hash of an empty name.
NO_COLUMN = 0


# -------------------------------------------------------------------------------------------------- one value at a time


class Cells:
    """Records, value by value: their features that are not words, and their texts, whose words are features."""

    def __init__(self, kinds: Mapping[str, str], features: int) -> None:
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
            for name, value in list_fields(record):
                self.add(name, value)
        self.end_row()

    def end_row(self) -> None:
        """End the row: what is added from now on belongs to the next one."""
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
            self._add_value(kind, name, value)
        elif isinstance(value, Mapping):
            _check_depth(name, depth)
            for inner, part in value.items():
                self.add(f"{name}.{inner}", part, depth + 1)
        elif isinstance(value, LISTS):
            self._add_list(name, value, depth)
        elif is_missing(value):
            self.add_category(name, "")
        else:
            self._add_value(kind, name, value)

    def _add_value(self, kind: str | None, name: str, value: Any) -> None:
        """Add a value that is neither missing nor a list or a mapping."""
        if kind == NUMERIC or (kind is None and type(value) is not str and isinstance(value, NUMBERS)):
            self.add_number(name, value)
            return
        text = _write(name, value)
        if kind == CATEGORICAL or (kind is None and not isinstance(value, DATES)):
            self.add_category(name, text)
        if kind != CATEGORICAL:
            self.add_text(name, text)

    def _add_list(self, name: str, value: Any, depth: int) -> None:
        """Add a list: each text of it is a value of the column; numbers are columns of their own, by position."""
        _check_depth(name, depth)
        place = -1
        for place, item in enumerate(list_items(value)):
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
            self.add_category(name, _write(name, value))
        elif math.isnan(found):
            self.add_category(name, "")
        elif not abs(found) <= LARGEST_VALUE:
            raise _too_large(name, found)
        else:
            self.indices.append(number_feature(name, self._features))
            self.values.append(found)

    def encode(self, hasher: Hasher) -> list[Entries]:
        """Return the features of what was added."""
        ends = np.array([0, 0, *self._ends], np.int64).reshape(-1, 2)
        counts, text_counts = np.ascontiguousarray(np.diff(ends, axis=0).T)
        entries = Entries(counts, np.array(self.indices, np.int64), np.array(self.values, np.float64))
        return [entries, hasher.hash_texts(pack_texts(text_counts, self.seeds, self.texts))]


def list_items(value: Any) -> list[Any]:
    """Return the items of one of :data:`LISTS`; those of a set by their texts, since it keeps them in any order."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    items = value.tolist() if isinstance(value, np.ndarray) else list(value)
    return items if isinstance(items, list) else [items]  # an array without dimensions


def list_fields(record: Any) -> Iterable[tuple[str, Any]]:
    """Return the columns and values of a record."""
    if type(record) is dict and all(type(name) is str for name in record):
        return record.items()
    if isinstance(record, str | bytes):
        return [("", record if isinstance(record, str) else decode(record))]
    if hasattr(record, "_asdict"):  # a named tuple
        record = record._asdict()
    # a row of a pandas frame has items as well
    if isinstance(record, Mapping) or (
        hasattr(record, "items") and hasattr(record, "index") and not is_many_records(record)
    ):
        return ((str(name), value) for name, value in record.items())
    cure = "name its columns, as in {'age': 41, 'city': 'Bonn'}"
    if is_many_records(record):
        cure = "for many rows use act_many, teach_many or predict_many"
    given = describe(record) if hasattr(record, "shape") else f"a {type(record).__name__} ({describe(record)})"
    raise UserError(f"a record is a dict, a row of a frame or a text, not {given}: {cure}")


def is_many_records(value: Any) -> bool:
    """Return whether this is many records rather than one: a list, a frame, or a column of a frame."""
    if isinstance(value, tuple):
        return not hasattr(value, "_asdict")
    if isinstance(value, list | np.ndarray) or hasattr(value, "columns") or hasattr(value, "column_names"):
        return True
    index = getattr(value, "index", None)  # the index of a row of a frame are the names of its columns
    return type(index).__name__ == "RangeIndex" and isinstance(value.name, str)


def _write(name: str, value: Any) -> str:
    """Return the text of a value of a column."""
    try:
        return to_text(value)
    except UserError as error:
        raise error.at(f"the column {shorten(name)!r}") from None


def _check_depth(name: str, depth: int) -> None:
    if depth >= MOST_DEPTH:
        raise UserError(f"the column {shorten(name)!r} is nested more than {MOST_DEPTH} deep: flatten the record")


def _too_large(name: str, value: float) -> UserError:
    limits = f"numbers must be finite and at most {LARGEST_VALUE:g} in size"
    return UserError(f"the column {name!r} has the value {value}: {limits}, leave it out (None) or clip it")


# ------------------------------------------------------------------------------------------------------- whole columns


class Block(NamedTuple):
    """Some rows of a file: by columns, as an Arrow table, or a list of dicts where values do not fit into columns.

    `has_header` says whether every row of the file has these columns. A null in one of the columns that are `partial`
    means that the row does not have it; in others, that the value is missing.
    """

    rows: Any
    has_header: bool = False
    partial: frozenset[str] = frozenset()

    def column(self, name: str) -> Any:
        """Return the values of a column: an Arrow array, or a list; a row that does not have it counts as None."""
        if isinstance(self.rows, list):
            return [record.get(name) for record in self.rows]
        return self.rows.column(name) if name in self.rows.schema.names else [None] * len(self.rows)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as records, one dict for each."""
        if isinstance(self.rows, list):
            return self.rows
        columns: dict[str, list[Any]] = {}
        for name, column in zip(self.rows.schema.names, self.rows.columns, strict=True):
            columns[name] = to_objects(to_plain(column), name)
            if is_sparse(column.type):
                columns[name] = [None if pairs is None else dict(pairs) for pairs in columns[name]]
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        for row in rows if self.partial else ():
            for name in self.partial:
                if row[name] is None:
                    del row[name]
        return rows

    def names(self) -> list[str]:
        """Return the names of all columns."""
        rows = self.rows
        return list(dict.fromkeys(itertools.chain(*rows)) if isinstance(rows, list) else rows.schema.names)

    def first_names(self) -> list[str]:
        """Return the names of the columns of the first row."""
        has_it = (name not in self.partial or self.rows.column(name)[0].is_valid for name in self.names())
        return list(self.rows[0]) if isinstance(self.rows, list) else list(itertools.compress(self.names(), has_it))


def encode_block(kinds: Mapping[str, str], hasher: Hasher, block: Block) -> list[Entries]:
    """Return the features of the columns of an Arrow table."""
    import pyarrow as pa

    parts = []
    for name, column in zip(block.rows.column_names, block.rows.columns, strict=True):
        if name in block.partial and column.null_count:
            has_it = to_array(column.is_valid().cast(pa.int8())) != 0
            for found in encode_column(kinds, hasher, name, column.drop_null()):
                counts = np.zeros(has_it.size, np.int64)
                counts[has_it] = found.counts
                parts.append(found._replace(counts=counts))
        else:
            parts += encode_column(kinds, hasher, name, column)
    return parts


def encode_column(kinds: Mapping[str, str], hasher: Hasher, name: str, column: Any) -> list[Entries]:
    """Return the features of a column of an Arrow table."""
    kind = kinds.get(name)
    if kind == DROP:
        return []
    column = to_plain(column)
    if is_sparse(column.type):
        return _encode_sparse(kinds, hasher, name, column)
    if is_number(column.type) and kind in (None, NUMERIC):
        return _encode_doubles(hasher, name, to_doubles(column))
    if not is_text(column.type):
        return _encode_values(kinds, hasher, name, to_objects(column, name))
    if kind == NUMERIC:
        return _encode_numerals(kinds, hasher, name, column)
    data, offsets = get_text_buffers(column)
    if kind == TEXT:
        wholes = _mark_missing(hasher, name, np.diff(offsets) == 0)
    else:
        wholes = hash_categories(data, offsets, column_seed(name), hasher.features)
    return [wholes] if kind == CATEGORICAL else [hasher.hash_texts(_pack_column(column, column_seed(name))), wholes]


def _pack_column(column: Any, seed: int) -> Texts:
    """Return the characters of a column of texts."""
    import pyarrow as pa

    rows = len(column)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # a Parquet file may hold any bytes as texts
        return pack_texts(np.ones(rows, np.int64), [seed] * rows, to_strings(column))
    data, offsets = get_text_buffers(column)
    data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
    codes = to_codes([data.tobytes().decode()])
    if codes.size < data.size:  # bytes that continue a character are not counted
        offsets = np.cumsum(np.r_[0, (data & 0xC0) != 0x80])[offsets]
    return Texts(np.ones(rows, np.int64), np.full(rows, seed), offsets, codes)


def _encode_numerals(kinds: Mapping[str, str], hasher: Hasher, name: str, column: Any) -> list[Entries]:
    """Return the features of a numeric column that is written as texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    has_text = pc.binary_length(column).cast(pa.bool_())
    try:
        found = pc.if_else(has_text, column, pa.nulls(1, column.type)[0]).cast(pa.float64())
    except pa.ArrowInvalid:  # there are words among the numbers, or spaces around them
        texts = to_strings(column)
        read = {text: to_number(text) for text in set(texts)}
        if None in read.values():
            return _encode_values(kinds, hasher, name, texts)
        found = pa.array([read[text] for text in texts], pa.float64())
    return _encode_doubles(hasher, name, to_doubles(found))


def _encode_sparse(kinds: Mapping[str, str], hasher: Hasher, name: str, column: Any) -> list[Entries]:
    """Return the features of a column of mappings from words to finite numbers, none of which is missing."""
    words, places = column.keys.dictionary.to_pylist(), to_array(column.keys.indices)
    numbers, counts = to_array(column.items), np.diff(to_array(column.offsets))
    used = np.flatnonzero(np.bincount(places, minlength=len(words))).tolist()
    names = {place: f"{name}.{words[place]}" for place in used}
    if any(kinds.get(inner, NUMERIC) != NUMERIC for inner in names.values()):
        return _encode_values(kinds, hasher, name, [dict(pairs) for pairs in column.to_pylist()])
    features = np.zeros(len(words), np.int64)
    features[used] = [number_feature(inner, hasher.features) for inner in names.values()]
    return [Entries(counts.astype(np.int64), features[places], numbers)]


def _encode_doubles(hasher: Hasher, name: str, numbers: Floats) -> list[Entries]:
    """Return the features of a column of numbers, NaN where they are missing."""
    missing = np.isnan(numbers)
    beyond = np.abs(numbers) > LARGEST_VALUE
    if beyond.any():
        raise _too_large(name, float(numbers[np.argmax(beyond)]))
    present = ~missing
    found = numbers[present]
    index = number_feature(name, hasher.features)
    entries = Entries(present.astype(np.int64), np.full(found.size, index), found)
    return [entries, _mark_missing(hasher, name, missing)]


def _mark_missing(hasher: Hasher, name: str, rows: NDArray[np.bool_]) -> Entries:
    """Return the feature of a missing value in each of the rows that are marked."""
    index, value = category_feature(name, "", hasher.features)
    count = int(np.count_nonzero(rows))
    return Entries(rows.astype(np.int64), np.full(count, index), np.full(count, value))


def _encode_values(kinds: Mapping[str, str], hasher: Hasher, name: str, values: list[Any]) -> list[Entries]:
    """Return the features of a column value by value: dates, lists, mappings, or numbers that are categories."""
    cells = Cells(kinds, hasher.features)
    for value in values:
        cells.add(name, value)
        cells.end_row()
    return cells.encode(hasher)


# ----------------------------------------------------------------------------------------------------- tables of Arrow


def to_table(records: Any) -> Any:
    """Return a frame of pandas or polars, or a table of Arrow, as an Arrow table; None for anything else.

    A frame that Arrow cannot hold, such as one with a column of mixed types, is None too: its rows are records.
    """
    module = type(records).__module__.partition(".")[0]
    if module not in ("pandas", "polars", "pyarrow") or not hasattr(records, "columns"):
        return None
    import pyarrow as pa

    if module == "polars":
        records = records.collect() if hasattr(records, "collect") else records
        return records.to_arrow()
    if module == "pyarrow":
        return records
    names = [str(name) for name in records.columns]
    if len(set(names)) < len(names):
        raise UserError(f"the frame has two columns called {max(names, key=names.count)!r}: rename one of them")
    if any(_has_objects(kind) for kind in records.dtypes):
        return None
    try:
        return pa.Table.from_pandas(records.set_axis(names, axis=1), preserve_index=False)
    except (pa.ArrowException, OverflowError):
        return None


def _has_objects(kind: Any) -> bool:
    """Return whether a pandas column holds objects that Arrow would take apart: intervals, periods."""
    inner = getattr(getattr(kind, "categories", None), "dtype", kind)
    return str(inner).startswith(("interval", "period"))


def to_plain(column: Any) -> Any:
    """Return a column in one piece, without a dictionary, its bytes as texts."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return bytes_to_texts(column) if _is_binary(column.type) else column


def is_number(of_type: Any) -> bool:
    """Return whether this is a type of numbers or booleans."""
    import pyarrow.types as t

    return any(test(of_type) for test in (t.is_boolean, t.is_integer, t.is_floating, t.is_decimal))


def is_text(of_type: Any) -> bool:
    """Return whether this is a type of texts, or of bytes that are taken for texts."""
    import pyarrow.types as t

    return any(test(of_type) for test in (t.is_string, t.is_large_string, t.is_string_view, _is_binary))


def is_sparse(of_type: Any) -> bool:
    """Return whether this is a type of mappings from the words of a dictionary to numbers, as of a line for Vowpal
    Wabbit.
    """
    import pyarrow.types as t

    return bool(t.is_map(of_type) and t.is_dictionary(of_type.key_type) and t.is_float64(of_type.item_type))


def _is_binary(of_type: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_binary(of_type) or t.is_large_binary(of_type))


def to_doubles(column: Any) -> NDArray[np.float64]:
    """Return numbers and booleans as doubles, NaN where they are missing."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    column = column.cast(pa.float64(), safe=False)
    return to_array(column.fill_null(_make_scalar(column.type, np.array([np.nan]))) if column.null_count else column)


def to_array(column: Any) -> NDArray[Any]:
    """Return numbers, none of them missing, as an array."""
    return np.from_dlpack(column)  # pyarrow's to_numpy imports pandas, where that is installed


def _make_scalar(of_type: Any, *buffers: Any) -> Any:
    """Return a value of Arrow; to make it from one of Python, pyarrow imports pandas too."""
    import pyarrow as pa

    return pa.Array.from_buffers(of_type, 1, [None, *map(pa.py_buffer, buffers)])[0]


def get_text_buffers(column: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of a column of texts, and where each of them begins; missing ones are empty."""
    import pyarrow as pa

    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    if column.null_count:
        column = column.fill_null(_make_scalar(column.type, np.zeros(2, width), b""))
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, width)[column.offset : column.offset + len(column) + 1] if ends else np.zeros(1)
    # Read-only, as the one type of array that loops are compiled for.
    return np.frombuffer(memoryview(data or b"").toreadonly(), np.uint8), offsets.astype(np.int64)


def bytes_to_texts(column: Any) -> Any:
    """Return a column of bytes as one of texts: UTF-8, and Latin-1 for a value that is not valid UTF-8."""
    import pyarrow as pa

    try:
        return column.cast(pa.large_string() if pa.types.is_large_binary(column.type) else pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else decode(value) for value in column.to_pylist()], pa.string())


def to_strings(column: Any) -> list[str]:
    """Return the values of a column of texts as Python's; missing ones are empty."""
    data, offsets = get_text_buffers(column)
    joined = data.tobytes()
    return [decode(joined[start:stop]) for start, stop in itertools.pairwise(offsets.tolist())]


def to_objects(column: Any, name: str) -> list[Any]:
    """Return the values of any column as Python's, or raise a UserError that names the column."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        unit = pa.timestamp("us", column.type.tz) if pa.types.is_timestamp(column.type) else pa.duration("us")
        column = column.cast(unit, safe=False)  # Python's dates have no nanoseconds
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, pa.ArrowException) as error:
        what = f"the column {name!r} has a value that Python cannot hold ({error})"
        raise UserError(f"{what}: drop the column, or write it as text") from None
