"""Many records at once, column by column, as Arrow keeps them; the same features as one record at a time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.data.records.cells import CATEGORICAL, DROP, NUMERIC, TEXT, Cells, Spec
from gappletron.data.records.hashing import Entries, append_entries, hash_cells, hash_texts, settle_rows
from gappletron.data.records.values import category_feature, column_feature, column_hash, decoded, number_of, too_large
from gappletron.kernel.numerics import LARGEST_VALUE, Floats

__all__ = ["as_batch", "encode_batch", "is_text", "plain_column", "texts_from_bytes", "texts_of_column"]


def as_batch(records: Any) -> Any:
    """A frame of pandas or polars, or a table of Arrow, as an Arrow table; None for anything else.

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
    """Whether the values of a pandas column are objects that Arrow would take apart: intervals, periods."""
    inner = getattr(getattr(kind, "categories", None), "dtype", kind)
    return str(inner).startswith(("interval", "period"))


def encode_batch(spec: Spec, table: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """The features of every row of an Arrow table or record batch: indptr, indices, values."""
    parts: list[Entries] = []
    rows = table.num_rows
    for place, name in enumerate(table.column_names):
        if spec.kinds.get(name) != DROP:
            parts += encode_column(spec, name, plain_column(table.column(place)))
    return settle_rows(*append_entries(parts, rows))


def plain_column(column: Any) -> Any:
    """A column in one piece, without a dictionary, its bytes as texts."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(column, pa.ChunkedArray):  # combine_chunks of some versions
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return texts_from_bytes(column) if _is_binary(column.type) else column


def encode_column(spec: Spec, name: str, column: Any) -> list[Entries]:
    """The features of a column."""
    import pyarrow as pa

    kind, of_type = spec.kinds.get(name), column.type
    if _is_number(of_type) and kind in (NUMERIC, None):
        return number_entries(spec, name, _doubles(column))
    if pa.types.is_null(of_type):
        return [_same_entry(category_feature(name, "", spec.features), len(column))]
    if not is_text(of_type):
        return [_object_entries(spec, name, column)]
    return _numbers_in_texts(spec, name, column) if kind == NUMERIC else _text_entries(spec, name, column, kind)


def _text_entries(spec: Spec, name: str, column: Any, kind: str | None) -> list[Entries]:
    """A column of texts or categories."""
    data, offsets = text_buffers(column)
    seed = column_hash(name)
    if kind == CATEGORICAL:
        return [hash_cells(data, offsets, seed, spec.features)]
    words = hash_texts(data, offsets, seed, spec.ngrams, spec.features)
    if kind == TEXT:
        return [words, _some_entries(category_feature(name, "", spec.features), np.diff(offsets) == 0)]
    return [words, hash_cells(data, offsets, seed, spec.features)]


def _is_number(of_type: Any) -> bool:
    import pyarrow as pa

    return any(
        test(of_type) for test in (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    )


def is_text(of_type: Any) -> bool:
    """Whether this is a type of texts, or of bytes that are taken for texts."""
    import pyarrow as pa

    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(of_type) for test in texts) or _is_binary(of_type)


def _doubles(column: Any) -> Floats:
    """Numbers and booleans as doubles, NaN where they are missing."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def number_entries(spec: Spec, name: str, numbers: Floats) -> list[Entries]:
    """The features of a column of numbers, NaN where they are missing."""
    missing = np.isnan(numbers)
    with np.errstate(invalid="ignore"):
        beyond = np.abs(numbers) > LARGEST_VALUE
    if beyond.any():
        raise too_large(name, float(numbers[np.argmax(beyond)]))
    present = ~missing & (numbers != 0.0)
    found = numbers[present]
    index = column_feature(name, spec.features)
    parts = [Entries(present.astype(np.int64), np.full(found.size, index, np.int32), found)]
    if missing.any():
        parts.append(_some_entries(category_feature(name, "", spec.features), missing))
    return parts


def _some_entries(entry: tuple[int, float], rows: NDArray[np.bool_]) -> Entries:
    """One entry in the rows that are marked."""
    count = int(np.count_nonzero(rows))
    return Entries(rows.astype(np.int64), np.full(count, entry[0], np.int32), np.full(count, entry[1]))


def _same_entry(entry: tuple[int, float], rows: int) -> Entries:
    return _some_entries(entry, np.ones(rows, np.bool_))


def text_buffers(column: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of a column of texts, and where each of them begins; missing ones are empty."""
    import pyarrow as pa

    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    wide = pa.types.is_large_string(column.type)
    if column.null_count:
        column = column.fill_null("")
    _, ends, data = column.buffers()
    width = np.int64 if wide else np.int32
    offsets = np.frombuffer(ends, width)[column.offset : column.offset + len(column) + 1] if ends else np.zeros(1)
    return (
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8),
        offsets.astype(np.int64),
    )


def _is_binary(of_type: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_binary(of_type) or pa.types.is_large_binary(of_type)


def texts_from_bytes(column: Any) -> Any:
    """A column of bytes as one of texts: UTF-8, and Latin-1 for a value that is not valid UTF-8."""
    import pyarrow as pa

    try:
        return column.cast(pa.large_string() if pa.types.is_large_binary(column.type) else pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else decoded(value) for value in column.to_pylist()], pa.string())


def texts_of_column(column: Any) -> list[str]:
    """The values of a column of texts as Python's; missing ones are empty."""
    data, offsets = text_buffers(column)
    joined = data.tobytes()
    ends = offsets.tolist()
    return [decoded(joined[start:stop]) for start, stop in itertools.pairwise(ends)]


def _numbers_in_texts(spec: Spec, name: str, column: Any) -> list[Entries]:
    """A numeric column that is written as text. What is no number counts as a category."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pc.equal(pc.binary_length(column), 0)
    try:
        numbers = pc.if_else(missing, pa.scalar(None, column.type), column).cast(pa.float64())
    except pa.ArrowInvalid:
        return _doubtful_numbers(spec, name, column)
    return number_entries(spec, name, np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64))


def _doubtful_numbers(spec: Spec, name: str, column: Any) -> list[Entries]:
    """The same, value by value: there are words among the numbers, or spaces around them."""
    texts = texts_of_column(column)
    read = {text: number_of(text) for text in set(texts)}
    numbers = np.array([np.nan if read[text] is None else read[text] for text in texts], np.float64)
    words = np.array([read[text] is None for text in texts], np.bool_)
    entries = [category_feature(name, text, spec.features) for text in texts if read[text] is None]
    parts = number_entries(spec, name, np.where(words, 0.0, numbers))
    indices = np.array([index for index, _ in entries], np.int32)
    return [*parts, Entries(words.astype(np.int64), indices, np.array([value for _, value in entries], np.float64))]


def _object_entries(spec: Spec, name: str, column: Any) -> Entries:
    """A column of dates, lists or mappings, or of numbers that are categories: value by value."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        unit = pa.timestamp("us", column.type.tz) if pa.types.is_timestamp(column.type) else pa.duration("us")
        column = column.cast(unit, safe=False)  # Python's dates have no nanoseconds
    counts = np.empty(len(column), np.int64)
    indices: list[NDArray[Any]] = [np.zeros(0, np.int32)]
    values: list[NDArray[Any]] = [np.zeros(0)]
    try:
        found = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise UserError(
            f"the column {name!r} has a value that Python cannot hold ({error}): drop the column, or write it as text"
        ) from None
    for row, value in enumerate(found):
        cells = Cells(spec)
        cells.add(name, value)
        own = [np.array([index for index, _ in cells.entries], np.int32)]
        weights = [np.array([weight for _, weight in cells.entries], np.float64)]
        for seed, text in cells.texts:
            data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
            words = hash_texts(data, np.array([0, data.size]), seed, spec.ngrams, spec.features)
            own.append(words.indices)
            weights.append(words.values)
        indices += own
        values += weights
        counts[row] = sum(part.size for part in own)
    return Entries(counts, np.concatenate(indices), np.concatenate(values))
