"""Texts as hashed features, compiled: words and their n-grams by MurmurHash3.

The hash is the 32-bit MurmurHash3 (x86) of UTF-8 bytes. Feature and sign are those of scikit-learn's ``FeatureHasher``:
``abs(h) % features``, minus where h, as a signed number, is negative. scikit-learn hashes as fast as we do, but a call
of its ``HashingVectorizer`` for one short text takes some hundred microseconds, and 10 are all that a round may cost.

A text becomes lower case and is cut into words, which are runs of letters, digits, combining marks and underscores. All
other characters that can be seen (punctuation, symbols, emoji) are tokens of one character, as are the characters of
Chinese and Japanese. Kinds of characters are those of Unicode 3.2, which every Python carries, so that a saved model
reads a text in the same way under every version. Newer letters count as letters. A byte that is not UTF-8 is taken for
Latin-1.
"""

from __future__ import annotations

import functools
import unicodedata
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.kernel.compiling import entry, specialise
from gappletron.kernel.numerics import Floats
from gappletron.kernel.pieces import helper

Bytes = NDArray[np.uint8]

__all__ = [
    "Entries",
    "append_entries",
    "hash_cells",
    "hash_records",
    "hash_texts",
    "hashed",
    "settle_rows",
    "texts_of",
]

ONE_PLANE = 65_536
LOW_32 = 0xFFFFFFFF
SIGN_32 = 0x80000000
SPACE = 0x20
OWN_TOKENS = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF))
"""Kana and ideographs: these scripts put no space between words."""
GAPS = (701, 301, 132, 57, 23, 10, 4, 1)
"""The distances of Shell's sort, by Ciura."""


class Entries(NamedTuple):
    """Some features of every row: how many each row has, and all of them in the order of the rows.

    >>> Entries(np.array([2, 0, 1]), np.array([4, 7, 4], np.int32), np.ones(3)).counts.tolist()
    [2, 0, 1]
    """

    counts: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: Floats


@functools.cache
def alphabet() -> NDArray[np.int64]:
    """What each character below 65,536 is: 0 between words; in a word, its lower case; minus itself as a token."""
    frozen = unicodedata.ucd_3_2_0
    table = np.zeros(ONE_PLANE, np.int64)
    for code in range(ONE_PLANE):
        letter = chr(code)
        kind = frozen.category(letter)
        if kind == "Cn":  # not assigned in Unicode 3.2
            table[code] = code
        elif any(first <= code <= last for first, last in OWN_TOKENS) or (kind[0] in "PS" and kind != "Pc"):
            table[code] = -code
        elif kind[0] in "LMN" or kind == "Pc":
            table[code] = ord(letter.lower()[0])
    table.flags.writeable = False
    return table


@helper
def murmur(data: Bytes, start: int, stop: int, seed: int) -> int:
    """The 32-bit MurmurHash3 of data[start:stop], from 0 to 2^32 - 1."""
    h = seed
    last = start + (stop - start) // 4 * 4
    for p in range(start, last, 4):
        k = int(data[p]) | int(data[p + 1]) << 8 | int(data[p + 2]) << 16 | int(data[p + 3]) << 24
        h ^= mixed(k)
        h = (h << 13 | h >> 19) & LOW_32
        h = (h * 5 + 0xE6546B64) & LOW_32
    k = 0
    for p in range(stop - 1, last - 1, -1):
        k = k << 8 | int(data[p])
    if stop > last:
        h ^= mixed(k)
    h ^= int(stop - start)
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & LOW_32
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & LOW_32
    return h ^ h >> 16


@helper
def mixed(k: int) -> int:
    """Four bytes of the key, as MurmurHash3 stirs them."""
    k = (k * 0xCC9E2D51) & LOW_32
    k = (k << 15 | k >> 17) & LOW_32
    return (k * 0x1B873593) & LOW_32


@helper
def feature_of(h: int, features: int) -> int:
    """The feature that a hash stands for."""
    return (h if h < SIGN_32 else LOW_32 + 1 - h) % features


@helper
def sign_of(h: int) -> float:
    """The sign of its value."""
    return 1.0 if h < SIGN_32 else -1.0


@helper
def follows(data: Bytes, p: int, stop: int, count: int) -> bool:
    """Whether `count` bytes that continue a UTF-8 character stand after position p."""
    if p + count >= stop:
        return False
    for q in range(p + 1, p + 1 + count):  # noqa: SIM110 - compiled code has no generators
        if int(data[q]) & 0xC0 != 0x80:
            return False
    return True


@helper
def length_at(data: Bytes, p: int, stop: int) -> int:
    """The number of bytes of the character at p; 1 where the bytes are not UTF-8."""
    first = int(data[p])
    if 0xC2 <= first <= 0xDF and follows(data, p, stop, 1):
        return 2
    if 0xE0 <= first <= 0xEF and follows(data, p, stop, 2):
        return 3
    if 0xF0 <= first <= 0xF4 and follows(data, p, stop, 3):
        return 4
    return 1


@helper
def code_at(data: Bytes, p: int, length: int) -> int:
    """The character at p."""
    first = int(data[p])
    if length == 1:
        return first
    code = first & (0x7F >> length)
    for q in range(p + 1, p + length):
        code = code << 6 | int(data[q]) & 0x3F
    return code


@helper
def write_code(words: Bytes, at: int, code: int) -> int:
    """Write a character as UTF-8; where the next one goes."""
    if code < 0x80:
        words[at] = code
        return at + 1
    if code < 0x800:
        words[at] = 0xC0 | code >> 6
    else:
        if code < ONE_PLANE:
            words[at] = 0xE0 | code >> 12
        else:
            words[at] = 0xF0 | code >> 18
            at += 1
            words[at] = 0x80 | code >> 12 & 0x3F
        at += 1
        words[at] = 0x80 | code >> 6 & 0x3F
    words[at + 1] = 0x80 | code & 0x3F
    return at + 2


@helper
def cut(data: Bytes, start: int, stop: int, alphabet: NDArray[np.int64], words: Bytes, ends: NDArray[np.int64]) -> int:
    """Write the tokens of a text, each followed by a space, and where each ends; the number of tokens."""
    tokens, at, begin = 0, 0, 0
    p = start
    while p < stop:
        length = length_at(data, p, stop)
        code = code_at(data, p, length)
        p += length
        kind = alphabet[code] if code < ONE_PLANE else -code
        if kind <= 0 and at > begin:  # the end of a word
            ends[tokens] = at
            tokens += 1
            words[at] = SPACE
            at += 1
            begin = at
        if kind != 0:
            at = write_code(words, at, abs(kind))
        if kind < 0:
            ends[tokens] = at
            tokens += 1
            words[at] = SPACE
            at += 1
            begin = at
    if at > begin:
        ends[tokens] = at
        tokens += 1
    return tokens


def _read_only(data: Bytes) -> Bytes:
    """The same bytes as the one type of array that loops are compiled for."""
    view = data.view()
    view.flags.writeable = False
    return view


@helper
def hash_text(
    data: Bytes,
    start: int,
    stop: int,
    hashing: tuple[int, int, int],
    room: tuple[NDArray[np.int64], Bytes, NDArray[np.int64]],
    indices: NDArray[np.int32],
    values: Floats,
    filled: int,
) -> int:
    """Write the features of one text from `filled` on; where the next ones go."""
    seed, ngrams, features = hashing
    alphabet, words, ends = room
    tokens = cut(data, start, stop, alphabet, words, ends)
    for n in range(1, ngrams + 1):
        for first in range(tokens - n + 1):
            begin = ends[first - 1] + 1 if first > 0 else 0
            h = murmur(words, begin, ends[first + n - 1], seed)
            indices[filled], values[filled] = feature_of(h, features), sign_of(h)
            filled += 1
    return filled


def _hash_texts(
    data: Bytes,
    offsets: NDArray[np.int64],
    hashing: tuple[int, int, int],
    room: tuple[NDArray[np.int64], Bytes, NDArray[np.int64]],
    out: Entries,
) -> int:
    filled = 0
    for row in range(out.counts.size):
        before = filled
        filled = hash_text(data, offsets[row], offsets[row + 1], hashing, room, out.indices, out.values, filled)
        out.counts[row] = filled - before
    return filled


def hash_texts(data: Bytes, offsets: NDArray[np.int64], seed: int, ngrams: int, features: int) -> Entries:
    """The words and n-grams of texts; row i is ``data[offsets[i]:offsets[i + 1]]``.

    >>> entries = hash_texts(np.frombuffer(b"Free entry!", np.uint8), np.array([0, 5, 11]), 0, 1, 2**18)
    >>> entries.counts
    array([1, 2])
    """
    data = _read_only(data)
    rows = len(offsets) - 1
    length = int(offsets[-1] - offsets[0])
    longest = int(np.diff(offsets).max(initial=0))
    most = length * ngrams
    out = Entries(np.empty(rows, np.int64), np.empty(most, np.int32), np.empty(most))
    arguments = (data, offsets, (seed, ngrams, features), _room_for(longest), out)
    filled = specialise(_hash_texts, *arguments)(*arguments)
    return Entries(out.counts, out.indices[:filled], out.values[:filled])


def _room_for(longest: int) -> tuple[NDArray[np.int64], Bytes, NDArray[np.int64]]:
    """The alphabet, and room for the tokens of a text with so many bytes: in lower case a character may have one byte
    more, and every token has a space behind it.
    """
    return alphabet(), np.empty(3 * longest + 8, np.uint8), np.empty(longest + 1, np.int64)


def _hash_cells(data: Bytes, offsets: NDArray[np.int64], seed: int, features: int, out: Entries) -> None:
    for row in range(out.counts.size):
        h = murmur(data, offsets[row], offsets[row + 1], seed)
        out.indices[row], out.values[row] = feature_of(h, features), sign_of(h)
        out.counts[row] = 1


def hash_cells(data: Bytes, offsets: NDArray[np.int64], seed: int, features: int) -> Entries:
    """One feature for each value of a column of categories; row i is ``data[offsets[i]:offsets[i + 1]]``.

    >>> hash_cells(np.frombuffer(b"redblue", np.uint8), np.array([0, 3, 7]), 0, 2**18).values
    array([-1., -1.])
    """
    data = _read_only(data)
    rows = len(offsets) - 1
    out = Entries(np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(rows))
    arguments = (data, offsets, seed, features, out)
    specialise(_hash_cells, *arguments)(*arguments)
    return out


def _hashed(data: Bytes, seed: int) -> int:
    return murmur(data, 0, data.size, seed)


def hashed(text: str, seed: int = 0) -> int:
    """The 32-bit MurmurHash3 of a text, from 0 to 2^32 - 1.

    >>> hashed("hello"), hashed("")
    (613153351, 0)
    """
    arguments = (np.frombuffer(bytes_of(text), np.uint8), seed)
    return int(specialise(_hashed, *arguments)(*arguments))


def bytes_of(text: str) -> bytes:
    """The text as UTF-8, also where it holds half of a surrogate pair."""
    return text.encode("utf-8", "surrogatepass")


def feature(h: int, features: int) -> tuple[int, float]:
    """The feature that a hash stands for, and its sign."""
    return feature_of(h, features), sign_of(h)


def _append(part: Entries, ends: NDArray[np.int64], indices: NDArray[np.int32], values: Floats) -> None:
    p = 0
    for row in range(part.counts.size):
        at = ends[row]
        for q in range(part.counts[row]):
            indices[at + q] = part.indices[p + q]
            values[at + q] = part.values[p + q]
        ends[row] = at + part.counts[row]
        p += part.counts[row]


def append_entries(parts: list[Entries], rows: int) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """The entries of all parts, row by row: indptr, indices and values, not sorted."""
    counts = np.zeros(rows, np.int64)
    for part in parts:
        counts += part.counts
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    ends = indptr[:-1].copy()
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
    for part in parts:
        arguments = (part, ends, indices, values)
        specialise(_append, *arguments)(*arguments)
    return indptr, indices, values


@helper
def settle(indices: NDArray[np.int32], values: Floats, start: int, stop: int, at: int) -> int:
    """Sort the entries from start to stop, add up those of one feature, leave out zeros; written from `at`."""
    for gap in GAPS:
        for p in range(start + gap, stop):
            index, value = indices[p], values[p]
            q = p
            while q >= start + gap and indices[q - gap] > index:
                indices[q], values[q] = indices[q - gap], values[q - gap]
                q -= gap
            indices[q], values[q] = index, value
    p = start
    while p < stop:
        index, total = indices[p], values[p]
        p += 1
        while p < stop and indices[p] == index:
            total += values[p]
            p += 1
        if total != 0.0:
            indices[at], values[at] = index, total
            at += 1
    return at


def _settle_rows(indptr: NDArray[np.int64], indices: NDArray[np.int32], values: Floats) -> None:
    at = 0
    start = indptr[0]
    for row in range(indptr.size - 1):
        stop = indptr[row + 1]
        at = settle(indices, values, start, stop, at)
        indptr[row + 1] = at
        start = stop


def settle_rows(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], values: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """Rows with increasing indices and without zeros; values of one feature are added up. Changes the arrays.

    >>> settle_rows(np.array([0, 3]), np.array([9, 2, 9], np.int32), np.array([1.0, 4.0, 1.0]))
    (array([0, 2]), array([2, 9], dtype=int32), array([4., 2.]))
    """
    arguments: Any = (indptr, indices, values)
    specialise(_settle_rows, *arguments)(*arguments)
    return indptr, indices[: indptr[-1]], values[: indptr[-1]]


def _one_text(
    data: Bytes,
    hashing: tuple[int, int, int],
    room: tuple[NDArray[np.int64], Bytes, NDArray[np.int64]],
    indices: NDArray[np.int32],
    values: Floats,
) -> int:
    filled = hash_text(data, 0, data.size, hashing, room, indices, values, 0)
    return settle(indices, values, 0, filled, 0)


def _one_row(indices: NDArray[np.int32], values: Floats) -> int:
    return settle(indices, values, 0, indices.size, 0)


class Texts(NamedTuple):
    """The texts of many rows: how many each row has; then for each, in the order of the rows, the seed of its hashes,
    and where it begins in `data`.
    """

    counts: NDArray[np.int64]
    seeds: NDArray[np.int64]
    offsets: NDArray[np.int64]
    data: Bytes


def texts_of(counts: list[int], seeds: list[int], texts: list[str]) -> Texts:
    """These texts with their seeds, of which each row has so many."""
    parts = [bytes_of(text) for text in texts]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    data = np.frombuffer(b"".join(parts), np.uint8)
    return Texts(np.array(counts, np.int64), np.array(seeds, np.int64), offsets, data)


def _hash_records(
    cells: Entries,
    texts: Texts,
    ngrams: int,
    features: int,
    room: tuple[NDArray[np.int64], Bytes, NDArray[np.int64]],
    out: Entries,
) -> int:
    cell = text = filled = 0
    for row in range(out.counts.size):
        start = filled
        for _ in range(cells.counts[row]):
            out.indices[filled], out.values[filled] = cells.indices[cell], cells.values[cell]
            filled += 1
            cell += 1
        for _ in range(texts.counts[row]):
            begin, hashing = filled, (int(texts.seeds[text]), ngrams, features)
            first, last = texts.offsets[text], texts.offsets[text + 1]
            filled = hash_text(texts.data, first, last, hashing, room, out.indices, out.values, begin)
            filled = settle(out.indices, out.values, begin, filled, begin)
            text += 1
        filled = settle(out.indices, out.values, start, filled, start)
        out.counts[row] = filled - start
    return filled


def hash_records(
    cells: Entries, texts: Texts, ngrams: int, features: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """The features of many records from those that are not words, and their texts: indptr, indices, values.

    The steps are those of :class:`OneRow` for each record, in the same order, so the sums have the same bits.

    >>> cells = Entries(np.array([0, 1]), np.array([7], np.int32), np.array([2.5]))
    >>> hash_records(cells, texts_of([1, 0], [0], ["Free entry! free"]), 1, 2**18)
    (array([0, 3, 4]), array([138484, 156782, 253893,      7], dtype=int32), array([1. , 2. , 1. , 2.5]))
    """
    rows, most = cells.counts.size, cells.indices.size + texts.data.size * ngrams
    longest = int(np.diff(texts.offsets).max(initial=0))
    out = Entries(np.empty(rows, np.int64), np.empty(most, np.int32), np.empty(most))
    arguments = (cells, texts, ngrams, features, _room_for(longest), out)
    filled = specialise(_hash_records, *arguments)(*arguments)
    indptr = np.zeros(rows + 1, np.int64)
    np.cumsum(out.counts, out=indptr[1:])
    return indptr, out.indices[:filled], out.values[:filled]


class OneRow:
    """One text, or one row, at a time. Compiled beforehand: a call takes some microseconds.

    >>> OneRow().text("Free entry! free", 0, 1, 2**18)
    (array([138484, 156782, 253893], dtype=int32), array([1., 2., 1.]))
    """

    def __init__(self) -> None:
        row = (np.zeros(1, np.int32), np.zeros(1))
        self._text = entry(_one_text, _read_only(np.zeros(0, np.uint8)), (0, 1, 1), _room_for(0), *row)
        self._row = entry(_one_row, *row)

    def text(self, text: str, seed: int, ngrams: int, features: int) -> tuple[NDArray[np.int32], Floats]:
        """The features of a text, increasing, and their values."""
        data = np.frombuffer(bytes_of(text), np.uint8)
        most = data.size * ngrams
        indices, values = np.empty(most, np.int32), np.empty(most)
        count = self._text(data, (seed, ngrams, features), _room_for(data.size), indices, values)
        return indices[:count], values[:count]

    def settled(self, indices: NDArray[np.int32], values: Floats) -> tuple[NDArray[np.int32], Floats]:
        """A row with increasing indices and without zeros; values of one feature are added up. Changes the arrays."""
        count = self._row(indices, values)
        return indices[:count], values[:count]
