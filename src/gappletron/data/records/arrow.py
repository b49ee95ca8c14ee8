"""Tables of Arrow: how frames become one, and how the columns of one are read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.data.records.values import decode


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


def _is_binary(of_type: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_binary(of_type) or t.is_large_binary(of_type))


def to_doubles(column: Any) -> NDArray[np.float64]:
    """Return numbers and booleans as doubles, NaN where they are missing."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def text_buffers(column: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of a column of texts, and where each of them begins; missing ones are empty."""
    import pyarrow as pa

    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    if column.null_count:
        column = column.fill_null("")
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
    data, offsets = text_buffers(column)
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
        raise UserError(
            f"the column {name!r} has a value that Python cannot hold ({error}): drop the column, or write it as text"
        ) from None
