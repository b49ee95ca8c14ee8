"""Texts as hashed features, compiled: words and their n-grams by XXH64.

The hash is the 64-bit xxHash (XXH64) of UTF-8 bytes. Its lowest 62 bits are the feature, and its highest one the sign,
minus where it is set. So among n distinct features n^2 / 2^63 pairs are expected to share a number: none in practice.
A call of scikit-learn's ``HashingVectorizer`` for one short text takes some hundred microseconds, and 10 are all that a
round may cost.

A text becomes lower case and is cut into words, which are runs of letters, digits, combining marks and underscores. All
other characters that can be seen (punctuation, symbols, emoji) are tokens of one character, as are the characters of
Chinese and Japanese. Kinds of characters are those of Unicode 3.2, which every Python carries, so that a saved model
reads a text in the same way under every version. Newer letters count as letters. A byte that is not UTF-8 is taken for
Latin-1.
"""

import functools
import itertools
import unicodedata
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.kernel.compiling import KeptCode, brief, entry_now, run
from gappletron.kernel.pieces import compiled_by, helper
from gappletron.kernel.types import Floats

Bytes = NDArray[np.uint8]
# The characters of texts, one number each.
Codes = NDArray[np.uint32]
Ints = NDArray[np.int64]
# The alphabet, and room for the tokens of a text and for where each of them ends.
Room = tuple[Ints, Bytes, Ints]
Features = tuple[Ints, Floats]
# Room for the entries of a row, and for marks while they are put in order.
Merging = tuple[Features, Ints]
# The longest n-gram, and the number of features.
Hashing = tuple[int, int]

ONE_PLANE = 65_536
# The part of a hash that is a feature.
LOW_62 = 2**62 - 1
# The primes of XXH64.
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
SPACE = 0x20
# Kana and ideographs: these scripts put no space between words.
OWN_TOKENS = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF))
# Hashes of columns and categories that are kept, so that they need not be computed again.
REMEMBERED = 65_536
# The distances of Shell's sort, by Ciura, and how many of them a row must have for one to be worth its time where
# entries are nearly in order.
GAPS = (701, 301, 132, 57, 23, 10, 4, 1)
SPREAD = 50


class Entries(NamedTuple):
    """Some features of every row: how many each row has, and all of them in the order of the rows.

    >>> Entries(np.array([2, 0, 1]), np.array([4, 7, 4]), np.ones(3)).counts.tolist()
    [2, 0, 1]
    """

    counts: Ints
    indices: Ints
    values: Floats


@functools.cache
def make_alphabet() -> Ints:
    """Return for each character below 65,536: 0 between words; in a word, its lower case; as a token, minus itself."""
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


def wrap(n: int) -> int:
    """Return the lowest 64 bits of a number: 64 unsigned bits in compiled code, where signed ones must not overflow."""
    return n & 2**64 - 1


@compiled_by(wrap)
def _compiled_wrap(n: Any) -> Any:  # noqa: ARG001 - Numba passes its type
    return lambda n: np.uint64(n)  # noqa: PLW0108 - a function of Python is wanted


def to_signed(n: int) -> int:
    """Return 64 bits as a signed number."""
    return n - 2**64 if n >= 2**63 else n


@compiled_by(to_signed)
def _compiled_to_signed(n: Any) -> Any:  # noqa: ARG001
    return lambda n: np.int64(n)  # noqa: PLW0108


@helper
def rotate(n: int, bits: int) -> int:
    """Return 64 bits moved to the left, those that fall out on the right."""
    return wrap(n << bits) | n >> 64 - bits


@helper
def read_4(data: Bytes, at: int) -> int:
    """Return the number that four bytes are, the lowest first; it is one load of the machine."""
    return wrap(int(data[at]) | int(data[at + 1]) << 8 | int(data[at + 2]) << 16 | int(data[at + 3]) << 24)


@helper
def mix(h: int, k: int) -> int:
    """Return the hash so far with eight more bytes, as XXH64 mixes them."""
    return wrap(rotate(wrap(h + k * wrap(P2)), 31) * wrap(P1))


@helper
def mix_8(h: int, data: Bytes, at: int) -> int:
    """As :func:`mix`, for the bytes at this place."""
    return mix(h, read_4(data, at) | read_4(data, at + 4) << 32)


@helper
def xxh64(data: Bytes, start: int, stop: int, seed: int) -> int:
    """Return XXH64 of data[start:stop] as a signed number."""
    p, size, begin = start, int(stop - start), wrap(seed)
    h = wrap(begin + wrap(P5))
    if size >= 32:
        a, b, c, d = wrap(begin + wrap(P1 + P2)), wrap(begin + wrap(P2)), begin, wrap(begin - wrap(P1))
        while stop - p >= 32:
            a, b, c, d = mix_8(a, data, p), mix_8(b, data, p + 8), mix_8(c, data, p + 16), mix_8(d, data, p + 24)
            p += 32
        h = wrap(rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18))
        for lane in (a, b, c, d):
            h = wrap((h ^ mix(wrap(0), lane)) * wrap(P1) + wrap(P4))
    h = wrap(h + wrap(size))
    while stop - p >= 8:
        h = wrap(rotate(h ^ mix_8(wrap(0), data, p), 27) * wrap(P1) + wrap(P4))
        p += 8
    if stop - p >= 4:
        h = wrap(rotate(h ^ wrap(read_4(data, p) * wrap(P1)), 23) * wrap(P2) + wrap(P3))
        p += 4
    while p < stop:
        h = wrap(rotate(h ^ wrap(wrap(int(data[p])) * wrap(P5)), 11) * wrap(P1))
        p += 1
    h = wrap((h ^ h >> 33) * wrap(P2))
    h = wrap((h ^ h >> 29) * wrap(P3))
    return to_signed(h ^ h >> 32)


@helper
def place(h: int, features: int) -> int:
    """Return the feature that a hash stands for."""
    return (h & LOW_62) % features


@helper
def sign(h: int) -> float:
    """Return the sign that a hash gives to the value of its feature."""
    return -1.0 if h < 0 else 1.0


@helper
def write_code(words: Bytes, at: int, code: int) -> int:
    """Write a character as UTF-8; return where the next one goes."""
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
def cut(data: Codes, start: int, stop: int, alphabet: Ints, words: Bytes, ends: Ints) -> int:
    """Write the tokens of a text, each followed by a space, and where each ends; return the number of tokens."""
    tokens, at, begin, last = 0, 0, 0, 0
    for p in range(start, stop + 1):
        code = int(data[p]) if p < stop else SPACE
        kind = alphabet[code] if code < ONE_PLANE else -code
        if at > begin and (kind <= 0 or last < 0):
            ends[tokens] = at
            tokens += 1
            words[at] = SPACE
            at += 1
            begin = at
        if kind != 0:
            at = write_code(words, at, abs(kind))
        last = kind
    return tokens


@helper
def hash_text(
    data: Codes, start: int, stop: int, seed: int, hashing: Hashing, room: Room, out: Features, filled: int
) -> int:
    """Write the features of one text from `filled` on; return where the next ones go."""
    ngrams, features = hashing
    alphabet, words, ends = room
    indices, values = out
    tokens = cut(data, start, stop, alphabet, words, ends)
    for n in range(1, ngrams + 1):
        for first in range(tokens - n + 1):
            begin = ends[first - 1] + 1 if first > 0 else 0
            h = xxh64(words, begin, ends[first + n - 1], seed)
            indices[filled], values[filled] = place(h, features), sign(h)
            filled += 1
    return filled


@helper
def spread(row: Features, size: int, bits: int, marks: Ints, out: Features, at: int) -> None:
    """Write the first entries of a row from `at` on, in the order of the highest bits of their features.

    Features are hashes, so these bits tell the place of each, but for one or two. `marks` has room for
    :func:`count_marks`.
    """
    indices, values = row
    into_indices, into_values = out
    buckets, shift = 1, bits
    while buckets < 2 * size and shift > 0:
        buckets, shift = 2 * buckets, shift - 1
    for bucket in range(buckets + 1):
        marks[bucket] = 0
    for p in range(size):
        marks[(indices[p] >> shift) + 1] += 1
    place = at
    for bucket in range(buckets):
        place += marks[bucket]
        marks[bucket] = place
    for p in range(size):
        bucket = indices[p] >> shift
        place = marks[bucket]
        marks[bucket] = place + 1
        into_indices[place], into_values[place] = indices[p], values[p]


@helper
def sort(indices: Ints, values: Floats, start: int, stop: int) -> None:
    """Sort the entries from start to stop by their features, and by the values of one feature."""
    for gap in GAPS:
        if gap == 1 or SPREAD * gap <= stop - start:
            for p in range(start + gap, stop):
                index, value = indices[p], values[p]
                q = p
                while q >= start + gap and (
                    indices[q - gap] > index or (indices[q - gap] == index and values[q - gap] > value)
                ):
                    indices[q], values[q] = indices[q - gap], values[q - gap]
                    q -= gap
                indices[q], values[q] = index, value


@helper
def merge(row: Features, size: int, bits: int, marks: Ints, out: Features, at: int) -> tuple[int, float]:
    """Write the first entries of a row from `at` on in the order of their features, those of one feature added up;
    leave out those that cancel each other, but not a number 0. Return where they end, and the sum of their squares.

    Values of one feature are sorted too, so that the sums have the same bits in whatever order the entries come.
    """
    spread(row, size, bits, marks, out, at)
    indices, values = out
    p, stop = at, at + size
    sort(indices, values, p, stop)
    squared = 0.0
    while p < stop:
        index, total = indices[p], values[p]
        has_zero = total == 0.0
        p += 1
        while p < stop and indices[p] == index:
            has_zero = has_zero or values[p] == 0.0
            total += values[p]
            p += 1
        if total != 0.0 or has_zero:
            indices[at], values[at] = index, total
            squared += total * total
            at += 1
    return at, squared


class Texts(NamedTuple):
    """The texts of many rows: how many each row has; then for each, in the order of the rows, the seed of its hashes,
    and where it begins in `data`.
    """

    counts: Ints
    seeds: Ints
    offsets: Ints
    data: Codes


def pack_texts(counts: Ints, seeds: list[int], texts: list[str]) -> Texts:
    """Return these texts with their seeds, of which each row has so many."""
    offsets = np.array([0, *itertools.accumulate(map(len, texts))], np.int64)
    return Texts(counts, np.array(seeds, np.int64), offsets, to_codes(texts))


def to_codes(texts: list[str]) -> Codes:
    """Return the characters of texts as one array of numbers."""
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)


def _hash_texts(texts: Texts, hashing: Hashing, room: Room, out: Entries) -> int:
    text = filled = 0
    for row in range(out.counts.size):
        start = filled
        for _ in range(texts.counts[row]):
            first, last, seed = texts.offsets[text], texts.offsets[text + 1], int(texts.seeds[text])
            filled = hash_text(texts.data, first, last, seed, hashing, room, (out.indices, out.values), filled)
            text += 1
        out.counts[row] = filled - start
    return filled


@brief
def _hash_row(
    data: Codes, spans: Ints, hashing: Hashing, bits: int, room: Room, row: Features, out: Features, filled: int
) -> tuple[int, float]:
    texts = spans.size // 2
    start = 0
    for text in range(texts):
        stop = start + spans[texts + text]
        filled = hash_text(data, start, stop, int(spans[text]), hashing, room, row, filled)
        start = stop
    return merge(row, filled, bits, room[2], out, 0)


def _merge_rows(
    counts: Ints, starts: Ints, given: Features, bits: int, room: Merging, indptr: Ints, out: Features, squared: Floats
) -> None:
    (indices, values), marks = room
    at = 0
    for row in range(squared.size):
        size = 0
        for part in range(counts.shape[0]):
            p = starts[part]
            for _ in range(counts[part, row]):
                indices[size], values[size] = given[0][p], given[1][p]
                size += 1
                p += 1
            starts[part] = p
        at, squared[row] = merge((indices, values), size, bits, marks, out, at)
        indptr[row + 1] = at


class Hasher:
    """The compiled hashing of rows for a number of features and a longest n-gram."""

    def __init__(self, features: int, ngrams: int) -> None:
        self.features, self.ngrams, self.bits = features, ngrams, (features - 1).bit_length()
        _ = self._hash_row  # asked for early, and interpreted for life where the hasher is made so

    @KeptCode
    def _hash_row(self) -> Any:
        # Without a dispatcher, and without named tuples to unpack, a call takes some microseconds.
        row = make_features(0)
        return entry_now(_hash_row, to_codes([]), np.zeros(0, np.int64), (1, 1), 1, _make_room(0), row, row, 0)

    def hash_row(
        self, indices: list[int], values: list[float], seeds: list[int], texts: list[str]
    ) -> tuple[Ints, Floats, float]:
        """Return the features of one row, and ||x||^2: those given, and the words of texts; merged as by
        :meth:`merge_parts`.

        >>> Hasher(2**18, 1).hash_row([7], [2.5], [0], ["Free entry! free"])
        (array([     7,  76984, 191011, 212115]), array([ 2.5, -1. ,  1. ,  2. ]), 12.25)
        """
        data, count = to_codes(texts), len(indices)
        spans = np.array([*seeds, *map(len, texts)], np.int64)
        most = count + data.size * self.ngrams
        row, out = make_features(most), make_features(most)
        if count:
            row[0][:count], row[1][:count] = indices, values
        room = _make_room(data.size, count_marks(most))
        stop, squared = self._hash_row(data, spans, (self.ngrams, self.features), self.bits, room, row, out, count)
        return out[0][:stop], out[1][:stop], squared

    def hash_texts(self, texts: Texts) -> Entries:
        """Return the words and n-grams of the texts of rows.

        >>> Hasher(2**18, 1).hash_texts(pack_texts(np.ones(2, np.int64), [0, 0], ["Free", " entry!"])).counts
        array([1, 2])
        """
        most, longest = texts.data.size * self.ngrams, int(np.diff(texts.offsets).max(initial=0))
        out = Entries(np.empty(texts.counts.size, np.int64), *make_features(most))
        filled = run(_hash_texts, texts, (self.ngrams, self.features), _make_room(longest), out)
        return Entries(out.counts, out.indices[:filled], out.values[:filled])

    def merge_parts(self, parts: list[Entries], rows: int) -> tuple[Ints, Ints, Floats, Floats]:
        """Return the entries of all parts row by row: indptr, indices, values and ||x||^2 of each row.

        The indices of a row increase, values of one feature are added up, and those that cancel each other are left
        out. The sums have the same bits as those of :meth:`hash_row`.

        >>> parts = [Entries(np.array([3]), np.array([9, 2, 9]), np.array([1.0, 4.0, 1.0]))]
        >>> Hasher(2**18, 1).merge_parts(parts, 1)[1:3]
        (array([2, 9]), array([4., 2.]))
        """
        parts = [part for part in parts if part.indices.size]
        counts = np.array([part.counts for part in parts], np.int64).reshape(len(parts), rows)
        given = (
            np.concatenate([np.zeros(0, np.int64), *(part.indices for part in parts)]),
            np.concatenate([np.zeros(0), *(part.values for part in parts)]),
        )
        indptr = to_indptr(counts.sum(axis=0))
        longest = int(np.diff(indptr).max(initial=0))
        room = make_features(longest), np.empty(count_marks(longest), np.int64)
        starts, out, squared = to_indptr(counts.sum(axis=1)), make_features(indptr[-1]), np.empty(rows)
        run(_merge_rows, counts, starts, given, self.bits, room, indptr, out, squared)
        return indptr, out[0][: indptr[-1]], out[1][: indptr[-1]], squared


def _make_room(longest: int, marks: int = 0) -> Room:
    """Return the alphabet, and room for the tokens of a text with so many characters: each has at most four bytes, and
    every token has a space behind it. For where they end there is room for so many marks at least.
    """
    return make_alphabet(), np.empty(5 * longest + 8, np.uint8), np.empty(max(longest + 1, marks), np.int64)


def make_features(size: int) -> Features:
    """Return room for so many features and their values."""
    return np.empty(size, np.int64), np.empty(size)


def count_marks(size: int) -> int:
    """Return how many marks there must be to put so many entries in order."""
    return 4 * size + 2


def _hash_categories(data: Bytes, offsets: Ints, seed: int, features: int, out: Entries) -> None:
    for row in range(out.counts.size):
        h = xxh64(data, offsets[row], offsets[row + 1], seed)
        out.indices[row], out.values[row] = place(h, features), sign(h)


def hash_categories(data: Bytes, offsets: Ints, seed: int, features: int) -> Entries:
    """Return one feature for each value of a column of categories; row i is ``data[offsets[i]:offsets[i + 1]]``.

    >>> hash_categories(np.frombuffer(b"redblue", np.uint8), np.array([0, 3, 7]), 0, 2**18).values
    array([-1.,  1.])
    """
    rows = len(offsets) - 1
    out = Entries(np.ones(rows, np.int64), np.empty(rows, np.int64), np.empty(rows))
    run(_hash_categories, data, offsets, seed, features, out)
    return out


def hash_string(text: str, seed: int = 0) -> int:
    """Return the 64-bit xxHash of a text, as a signed number.

    >>> hash_string("hello"), hash_string("")
    (2794345569481354659, -1205034819632174695)
    """
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    return int(run(xxh64, data, 0, data.size, seed))


@functools.lru_cache(REMEMBERED)
def column_seed(name: str) -> int:
    """Return h(c), the seed of everything in column c."""
    return hash_string(name)


@functools.lru_cache(REMEMBERED)
def number_feature(name: str, features: int) -> int:
    """Return the feature of the numbers in a column."""
    return place(column_seed(name), features)


@functools.lru_cache(REMEMBERED)
def category_feature(name: str, text: str, features: int) -> tuple[int, float]:
    """Return the feature of a category of a column, and its value, 1 or -1; the category of missing values is the
    empty text.
    """
    h = hash_string(text, column_seed(name))
    return place(h, features), sign(h)


def to_indptr(counts: Ints) -> Ints:
    """Return where each row begins, and where the last one ends, from the numbers of their entries."""
    indptr = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr
