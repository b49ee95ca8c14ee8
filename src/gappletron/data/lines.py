"""Blocks of lines read by columns: JSON by pyarrow's reader, and Vowpal Wabbit's text by its separators.

A block is read so only where the result is certainly that of reading one line after the other, as
:mod:`gappletron.data.formats` does it; else the answer is None. So errors are found there, too.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.data.records.columns import Block, to_array
from gappletron.kernel.compiling import specialise
from gappletron.kernel.numerics import LARGEST_VALUE
from gappletron.kernel.types import Floats

Places = NDArray[np.int64]

# From here on a double need not be the whole number that was written.
MOST_EXACT = 2.0**53
# The column that holds the label of a line for Vowpal Wabbit.
VW_LABEL = "vw label"
# Each namespace is a column, as long as there are few; a number is kept for each word in each of them.
MOST_SPACES = 256
MOST_WORDS = 1 << 22
# What separates the parts of a line for Vowpal Wabbit; zero stands for all other bytes.
NEWLINE, PIPE, COLON, BLANK = 1, 2, 3, 4
KINDS = {"\n": NEWLINE, "|": PIPE, ":": COLON}
MARKS = bytes(KINDS.get(chr(byte), BLANK * chr(byte).isspace()) for byte in range(128)) + bytes(128)
WIDE_SPACES = re.compile(r"[^\S\0-\x7f]")


# ----------------------------------------------------------------------------------------------------------------- JSON


def scan_json(block: bytes) -> Block | None:
    """Return lines of JSON by columns, or None.

    >>> scan_json(b'{"age": 41}\\n{"age": 37, "city": "Bonn"}\\n').rows.to_pylist()
    [{'age': 41, 'city': None}, {'age': 37, 'city': 'Bonn'}]
    >>> scan_json(b'{"age": 41}\\n{"age": "many"}\\n')
    """
    import pyarrow as pa

    block = block.replace(b"\r\n", b"\n") if b"\r" in block else block
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    # pyarrow also takes objects that share a line or go over several. Here a line begins and ends with an object.
    if not block.startswith(b"{") or (data[ends - 1] != ord("}")).any() or (data[ends[:-1] + 1] != ord("{")).any():
        return None
    try:
        str(block, "utf-8")
        batch = _read_json(block)
        if any(map(pa.types.is_timestamp, batch.schema.types)):
            fields = [pa.field(f.name, pa.string() if pa.types.is_timestamp(f.type) else f.type) for f in batch.schema]
            batch = _read_json(block, pa.schema(fields))
    except (UnicodeDecodeError, pa.ArrowException):
        return None
    if len(batch) != ends.size or not all(_is_plain(column, block) for column in batch.columns):
        return None
    partial = {name for name, column in zip(batch.schema.names, batch.columns, strict=True) if column.null_count}
    if partial and b"null" in block:
        # All nulls were written if every row has the name. In a text, a quotation mark before a colon is escaped, and
        # names that are written with escapes could be taken for others.
        names = "".join(batch.schema.names)
        if '"' in names or "\\" in names or any(block.count(f'"{n}":'.encode()) != len(batch) for n in partial):
            return None
        partial = set()
    return Block(batch, partial=frozenset(partial))


def _read_json(block: bytes, schema: Any = None) -> Any:
    import pyarrow as pa
    from pyarrow import json

    parsing = json.ParseOptions(explicit_schema=schema)
    reading = json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    return json.read_json(pa.BufferReader(block), reading, parsing).to_batches()[0]


def _is_plain(column: Any, block: bytes) -> bool:
    """Return whether the values of a column are those that Python's json would read from this block."""
    import pyarrow.types as t

    if not t.is_floating(column.type):
        return any(test(column.type) for test in (t.is_null, t.is_boolean, t.is_int64, t.is_string))
    numbers = to_array(column.drop_null())
    if np.signbit(numbers[numbers == 0.0]).any() and re.search(rb"[^eE]-0[^.eE]", block):
        return False  # a whole number has no -0
    return bool((np.abs(numbers) < MOST_EXACT).all())


# ---------------------------------------------------------------------------------------------- text of Vowpal Wabbit


def scan_vw(block: bytes) -> Block | None:
    """Return lines for Vowpal Wabbit by columns, a column of mappings for each namespace; or None.

    >>> scan_vw(b"1 |n free prize:2\\n0 |n free free\\n").rows.to_pylist()
    [{'vw label': '1', 'n': [('free', 1.0), ('prize', 2.0)]}, {'vw label': '0', 'n': [('free', 2.0)]}]
    """
    import pyarrow as pa

    try:
        has_wide_spaces = not block.isascii() and WIDE_SPACES.search(str(block, "utf-8"))
        return None if has_wide_spaces else _scan_words(block)
    except (UnicodeDecodeError, pa.ArrowInvalid):
        return None


def _scan_words(block: bytes) -> Block | None:
    import pyarrow as pa

    # Each mark ends a piece of text: where that begins and stops, the mark before it, and the mark after it.
    kinds = np.frombuffer(block.translate(MARKS), np.uint8)
    stops = np.flatnonzero(kinds.view(np.bool_))
    starts, after = np.r_[0, stops[:-1] + 1], kinds[stops]
    before = np.r_[np.uint8(NEWLINE), after[:-1]]
    row, part = np.cumsum(before == NEWLINE) - 1, np.cumsum(before == PIPE)
    first, spaces = np.flatnonzero(before == NEWLINE), np.flatnonzero(before == PIPE)
    is_head = part == part[first][row]
    if is_head[after == NEWLINE].any() or ((before == COLON) & (after == COLON) & ~is_head).any():
        return None  # a line without '|', or two numbers for a word
    words = np.flatnonzero((before == BLANK) & ~is_head & ((stops > starts) | (after == COLON)))
    numbers = np.ones(stops.size)
    valued = np.flatnonzero((before == COLON) & ~is_head & (stops > starts))
    numbers[valued - 1] = _cut(block, starts[valued], stops[valued]).cast(pa.float64())
    heads = _cut(block, starts[first], starts[spaces[part[first]]] - 1).dictionary_encode()
    labels = pa.array([(head.split("'")[0].split() or [None])[0] for head in heads.dictionary.to_pylist()], pa.string())
    columns = {VW_LABEL: labels.take(heads.indices)}
    names = _cut(block, starts[spaces], stops[spaces]).dictionary_encode()
    found = _cut(block, starts[words], stops[words]).dictionary_encode()
    if len(names.dictionary) > MOST_SPACES or VW_LABEL in names.dictionary.to_pylist():
        return None
    known = len(found.dictionary)
    if len(names.dictionary) * known > MOST_WORDS:
        return None
    row, opener = row[words], part[words] - 1
    pairs = to_array(names.indices)[opener].astype(np.int64) * known + to_array(found.indices)
    numbers = numbers[spaces[opener]] * numbers[words]
    arguments = (row, pairs, numbers, np.full(len(names.dictionary) * known, -1))
    kept = specialise(_add_up, *arguments)(*arguments)
    if not (np.abs(numbers[:kept]) <= LARGEST_VALUE).all():
        return None
    space, word = np.divmod(pairs[:kept].astype(np.int32), np.int32(known))
    for place, name in enumerate(names.dictionary.to_pylist()):
        here = np.flatnonzero(space == place)
        offsets = np.r_[0, np.cumsum(np.bincount(row[here], minlength=first.size))]
        texts = pa.DictionaryArray.from_arrays(word[here], found.dictionary)
        columns[name] = pa.MapArray.from_arrays(offsets.astype(np.int32), texts, numbers[here])
    return Block(pa.RecordBatch.from_pydict(columns), partial=frozenset([VW_LABEL]))


def _add_up(rows: Places, words: Places, numbers: Floats, entry: Places) -> int:
    """Add up the numbers of a word that comes several times in a row, at the place of its first, and close the gaps;
    return how many entries are left. `entry` has a place for each word.
    """
    kept = 0
    for p in range(rows.size):
        row, word, number = rows[p], words[p], numbers[p]
        at = entry[word]
        if at < 0 or rows[at] != row:
            at = entry[word] = kept
            rows[at], words[at], numbers[at] = row, word, 0.0
            kept += 1
        numbers[at] += number
    return kept


def _cut(block: bytes, starts: Places, stops: Places) -> Any:
    """Return these parts of a block as an array of texts."""
    import pyarrow as pa

    offsets = np.column_stack((starts, stops)).astype(np.int32)
    every = pa.StringArray.from_buffers(max(offsets.size - 1, 0), pa.py_buffer(offsets), pa.py_buffer(block))
    return every.take(np.arange(0, offsets.size, 2))
