"""Blocks of lines read by columns: JSON by pyarrow's reader, and Vowpal Wabbit's text by its separators.

A block is read so only where the result is certainly that of reading one line after the other, as
:mod:`gappletron.data.formats` does it; else the answer is None. So errors are found there, too.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.data.records.columns import Block, to_array
from gappletron.kernel.compiling import run
from gappletron.kernel.numerics import LARGEST_VALUE
from gappletron.kernel.types import Floats

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

# From here on a double need not be the whole number that was written.
MOST_EXACT = 2.0**53
# What may come behind a number in a line of JSON.
BEHIND = (b",", b"}", b" ", b"\t", b"\r")
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
    if np.signbit(numbers[numbers == 0.0]).any() and any(b"-0" + end in block for end in BEHIND):
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

    data = np.frombuffer(block, np.uint8)
    rows, openers = np.empty(data.size, np.int64), np.empty(data.size, np.int64)
    spans, values = np.empty((data.size, 2), np.int64), np.empty((data.size, 2), np.int64)
    heads = np.empty((int(np.count_nonzero(data == ord("\n"))), 2), np.int64)
    count = run(_split, data, np.frombuffer(MARKS, np.uint8), heads, rows, openers, spans, values)
    if count < 0:
        return None
    rows, openers, spans, values = rows[:count], openers[:count], spans[:count], values[:count]
    numbers, valued = np.ones(count), np.flatnonzero(values[:, 1] > values[:, 0])
    numbers[valued] = _cut(block, values[valued]).cast(pa.float64())
    is_space = openers == np.arange(count)
    spaces, words = np.flatnonzero(is_space), np.flatnonzero(~is_space)
    labels = _cut(block, heads).dictionary_encode()
    texts = [(head.split("'")[0].split() or [None])[0] for head in labels.dictionary.to_pylist()]
    columns = {VW_LABEL: pa.array(texts, pa.string()).take(labels.indices)}
    names = _cut(block, spans[spaces]).dictionary_encode()
    found = _cut(block, spans[words]).dictionary_encode()
    if len(names.dictionary) > MOST_SPACES or VW_LABEL in names.dictionary.to_pylist():
        return None
    known = len(found.dictionary)
    if len(names.dictionary) * known > MOST_WORDS:
        return None
    row, opener = rows[words], openers[words]
    pairs = to_array(names.indices)[np.cumsum(is_space)[opener] - 1].astype(np.int64) * known + to_array(found.indices)
    numbers = numbers[opener] * numbers[words]
    kept = run(_add_up, row, pairs, numbers, np.full(len(names.dictionary) * known, -1))
    if not (np.abs(numbers[:kept]) <= LARGEST_VALUE).all():
        return None
    space, word = np.divmod(pairs[:kept].astype(np.int32), np.int32(known))
    for place, name in enumerate(names.dictionary.to_pylist()):
        here = np.flatnonzero(space == place)
        offsets = np.r_[0, np.cumsum(np.bincount(row[here], minlength=len(heads)))]
        texts = pa.DictionaryArray.from_arrays(word[here], found.dictionary)
        columns[name] = pa.MapArray.from_arrays(offsets.astype(np.int32), texts, numbers[here])
    return Block(pa.RecordBatch.from_pydict(columns), partial=frozenset([VW_LABEL]))


def _split(
    data: Bytes, marks: Bytes, heads: Places, rows: Places, openers: Places, spans: Places, values: Places
) -> int:
    """Find the names of namespaces and the words: the row of each, the place among them of its namespace, and where it
    and its number begin and stop. `heads` is what each line has in front of its first '|'. Return how many there are;
    -1 where a line has no '|', or a word two numbers.
    """
    count, row, space, first, start, before = 0, 0, -1, 0, 0, NEWLINE
    for p in range(data.size):
        mark = marks[data[p]]
        if mark == 0:
            continue
        if space < 0:  # in the head
            if mark == PIPE:
                heads[row, 0], heads[row, 1], space = first, p, count
            elif mark == NEWLINE:
                return -1
        else:
            if before == COLON:
                if mark == COLON:
                    return -1
                values[count - 1, 0], values[count - 1, 1] = start, p
            elif before == PIPE or p > start or mark == COLON:
                space = count if before == PIPE else space
                rows[count], openers[count] = row, space
                spans[count, 0], spans[count, 1] = start, p
                values[count, 0] = values[count, 1] = 0
                count += 1
            if mark == NEWLINE:
                row, space, first = row + 1, -1, p + 1
        before, start = mark, p + 1
    return count


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


def _cut(block: bytes, spans: Places) -> Any:
    """Return these parts of a block as an array of texts."""
    import pyarrow as pa

    offsets = pa.py_buffer(spans.astype(np.int32))
    every = pa.StringArray.from_buffers(max(spans.size - 1, 0), offsets, pa.py_buffer(block))
    return every.take(np.arange(0, spans.size, 2))
