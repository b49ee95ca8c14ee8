"""The compiled byte parser behind :class:`gappletron.SvmlightFile`.

It reads a block of whole lines into arrays that are long enough for it, and stops if a token is wrong. The error
messages are made in ``svmlight.py``.
"""

import functools
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.kernel.pieces import helper

# As many decimal digits always fit in an int64; longer numbers are left to Python.
MOST_DIGITS = 18

# Powers of ten between which every number of 18 digits is a normal double, so that rounding happens at bit 53.
LOWEST, HIGHEST = -290, 280


class Rows(NamedTuple):
    """What the parser writes: rows as in a chunk, but labels as numbers, with the line that each row came from.

    ``doubtful[i]`` is (slot, start, stop): the value in this slot (the label of row r is slot -1 - r) is still to be
    read from the bytes from start to stop, by Python's correctly rounding ``float``.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    labels: NDArray[np.float64]
    lines: NDArray[np.int64]
    doubtful: NDArray[np.int64]


def make_rows(size: int) -> Rows:
    """Return arrays for what a text of so many bytes may hold: a row takes at least two, an entry four of them."""
    # The operating system gives memory only where it is written, so that arrays that are too long cost nothing.
    entries, rows = size // 4 + 1, size // 2 + 1
    return Rows(
        np.empty(rows + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty((entries, 3), np.int64),
    )


class Powers(NamedTuple):
    """Tables for turning digits into doubles."""

    tens: NDArray[np.float64]  # 10^q, exact for q = 0..22
    heads: NDArray[np.uint64]  # 64 leading bits of 10^(q + LOWEST), rounded down
    exponents: NDArray[np.int64]  # 10^(q + LOWEST) is in [heads, heads + 1) * 2^exponents
    twos: NDArray[np.float64]  # 2^(k - 1022)


@functools.cache
def make_powers() -> Powers:
    """Return the tables, computed from exact integers.

    >>> table = make_powers()
    >>> hex(table.heads[-LOWEST]), int(table.exponents[-LOWEST])
    ('0x8000000000000000', -63)
    """
    heads, exponents = [], []
    for q in range(LOWEST, HIGHEST + 1):
        # Enough binary places before the division that the quotient has more than 64 bits.
        places = 0 if q >= 0 else 1100
        power = 10**q if q >= 0 else 2**places // 10**-q
        surplus = power.bit_length() - 64
        heads.append(power >> surplus if surplus >= 0 else power << -surplus)
        exponents.append(surplus - places)
    return Powers(
        np.array([float(10**q) for q in range(23)]),
        np.array(heads, np.uint64),
        np.array(exponents, np.int64),
        np.array([2.0**k for k in range(-1022, sys.float_info.max_exp)]),
    )


NEWLINE, SPACE, HASH, PLUS, MINUS, DOT, ZERO, NINE, COLON = b"\n #+-.09:"
BIG_E, SMALL_E, SMALL_Q, SMALL_I, SMALL_D = b"Eeqid"
# Between these lie tab, newline, vertical tab, form feed and carriage return, and nothing else.
BLANK_FROM, BLANK_TO = b"\t\r"

EXACT, DOUBTFUL, NO_NUMBER = 0, 1, 2

LOW_HALF = np.uint64(0xFFFFFFFF)
TOP_BIT = np.uint64(1 << 63)
SHIFTS = tuple(np.uint64(n) for n in (32, 16, 8, 4, 2, 1))
U1, U2, U10, U11, U32 = np.uint64(1), np.uint64(2), np.uint64(10), np.uint64(11), np.uint64(32)


@helper
def is_blank(byte: int) -> bool:
    """Return whether bytes.split() splits here."""
    return byte == SPACE or (BLANK_FROM <= byte <= BLANK_TO)


@helper
def ends_token(byte: int) -> bool:
    """Return whether a token ends before this byte."""
    return byte == HASH or is_blank(byte)


@helper
def round_decimal(digits: int, q: int, powers: Powers) -> tuple[float, int]:
    """Return the double nearest to digits * 10^q for 0 < digits < 10^18, and EXACT or, where too few bits are known to
    decide, DOUBTFUL.

    With w = digits * 2^s scaled to 64 bits and 10^q = (head + r) 2^e, 0 <= r < 1, the number is w (head + r) 2^(e - s).
    The high half of the 128-bit product w * head differs from the truth, in units of its last bit, by less than 2: the
    low half is less than one unit, and so is w r. Ten or eleven bits lie below the 53 of a double; only if these are
    within that error of one half (about one number in 700) is the rounding in doubt.
    """
    # Clinger: both factors are exact, so the one rounding of the operation is the right one.
    if digits <= 9007199254740992 and -22 <= q <= 22:
        return (digits / powers.tens[-q] if q < 0 else digits * powers.tens[q]), EXACT
    if not LOWEST <= q <= HIGHEST:
        return 0.0, DOUBTFUL
    w = np.uint64(digits)
    s: Any = 0
    for shift in SHIFTS:
        if (w >> (np.uint64(64) - shift)) == np.uint64(0):
            w = w << shift
            s += np.int64(shift)
    head = powers.heads[q - LOWEST]
    w_high, w_low, head_high, head_low = w >> U32, w & LOW_HALF, head >> U32, head & LOW_HALF
    cross_1, cross_2 = w_high * head_low, w_low * head_high
    carry = ((w_low * head_low) >> U32) + (cross_1 & LOW_HALF) + (cross_2 & LOW_HALF)
    high = w_high * head_high + (cross_1 >> U32) + (cross_2 >> U32) + (carry >> U32)
    drop = U11 if high >= TOP_BIT else U10
    below = high & ((U1 << drop) - U1)
    half = U1 << (drop - U1)
    mantissa = high >> drop
    if below > half:
        mantissa = mantissa + U1
    elif below + U2 > half:
        return 0.0, DOUBTFUL
    k = np.int64(drop) + 64 + powers.exponents[q - LOWEST] - s
    return np.float64(np.int64(mantissa)) * powers.twos[k + 1022], EXACT


@helper
def read_digits(text: Any, at: int, digits: Any, count: int) -> tuple[int, Any, int]:
    """Return where the digits that begin here end, `digits` followed by them, and how many count (no leading zeros)."""
    while count == 0 and text[at] == ZERO:
        at += 1
    while ZERO <= text[at] <= NINE:
        if count < MOST_DIGITS:
            digits = digits * 10 + (np.int64(text[at]) - ZERO)
        count += 1
        at += 1
    return at, digits, count


@helper
def read_number(text: Any, at: int, powers: Powers) -> tuple[float, int, int]:
    """Return the value of the decimal number that begins here, where it stops, and EXACT, DOUBTFUL or NO_NUMBER."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    begin, q = at, 0
    at, digits, count = read_digits(text, at, 0, 0)
    is_number = at > begin
    if text[at] == DOT:
        begin = at + 1
        at, digits, count = read_digits(text, begin, digits, count)
        q = begin - at
        is_number = is_number or at > begin
    if not is_number:
        return 0.0, at, NO_NUMBER
    if text[at] == SMALL_E or text[at] == BIG_E:
        at += 1
        down = text[at] == MINUS
        if down or text[at] == PLUS:
            at += 1
        begin = at
        exponent: Any = 0
        while ZERO <= text[at] <= NINE:
            # No line is long enough for its digits to make up for such an exponent.
            exponent = min(exponent * 10 + (np.int64(text[at]) - ZERO), 1_000_000_000)
            at += 1
        if at == begin:
            return 0.0, at, NO_NUMBER
        q += -exponent if down else exponent
    value, status = 0.0, EXACT
    if count > MOST_DIGITS:
        status = DOUBTFUL
    elif digits > 0:
        value, status = round_decimal(digits, q, powers)
    return (-value if negative else value), at, status


@helper
def find_comment_end(text: Any, at: int) -> int:
    """Return the place of the newline that ends a comment, or of a NUL byte in it."""
    while text[at] != NEWLINE and text[at] != 0:
        at += 1
    return at


@helper
def find_query_end(text: Any, at: int) -> int:
    """Return where the token that begins with "qid" ends, or `at` itself if it has no colon."""
    begin = at
    colon = False
    while not ends_token(text[at]):
        if text[at] == 0:
            return begin
        colon = colon or text[at] == COLON
        at += 1
    return at if colon else begin


@helper
def read_index(text: Any, at: int) -> tuple[int, int]:
    """Return the feature index that begins here and the place after its colon; index 0 if there is none."""
    if text[at] == PLUS:
        at += 1
    index: Any = 0
    while ZERO <= text[at] <= NINE:
        index = min(index * 10 + (np.int64(text[at]) - ZERO), 2**31)
        at += 1
    if text[at] != COLON:
        return 0, at
    return index, at + 1


@helper
def note_doubtful(rows: Rows, doubtful: int, slot: int, start: int, stop: int) -> int:
    """Leave a number to Python; return how many there are of these."""
    rows.doubtful[doubtful, 0] = slot
    rows.doubtful[doubtful, 1] = start
    rows.doubtful[doubtful, 2] = stop
    return doubtful + 1


def parse(  # noqa: PLR0912, PLR0915 - one pass over bytes
    text: NDArray[np.uint8], lines: int, rows: Rows, most: int, powers: Powers
) -> tuple[int, ...]:
    """Read lines, of which so many stand before the text; return the numbers of rows and of doubtful numbers, the
    largest index, the last line, and where that line and its wrong token begin if it is wrong, else -1 twice.

    Indices above `most` are wrong.
    """
    at, row, entries, doubtful, largest = 0, 0, 0, 0, 0
    rows.indptr[0] = 0
    while at < text.size:
        line, doubtful_before = at, doubtful
        lines += 1
        # The newline at the end of the text stops every loop below; none has to compare with its length.
        while text[at] != NEWLINE and is_blank(text[at]):
            at += 1
        if text[at] == HASH:
            at = find_comment_end(text, at)
        if text[at] == NEWLINE:
            at += 1
            continue

        token = at
        label, at, kind = read_number(text, at, powers)
        wrong = kind == NO_NUMBER or not ends_token(text[at])
        if kind == DOUBTFUL:
            doubtful = note_doubtful(rows, doubtful, -1 - row, token, at)
        rows.labels[row] = label

        previous = 0
        first = True
        while not wrong:
            while text[at] != NEWLINE and is_blank(text[at]):
                at += 1
            token = at
            if text[at] == HASH:
                at = find_comment_end(text, at)
                token = at
            if text[at] == NEWLINE:
                break
            if first and text[at] == SMALL_Q and text[at + 1] == SMALL_I and text[at + 2] == SMALL_D:
                at = find_query_end(text, at)
                first = False
                wrong = at == token
                continue
            first = False
            index, at = read_index(text, at)
            wrong = index <= previous or index > most  # also where there is no index at all, which reads as 0
            if wrong:
                break
            previous = index
            begin = at
            value, at, kind = read_number(text, at, powers)
            wrong = kind == NO_NUMBER or not ends_token(text[at])
            if not wrong:
                if kind == DOUBTFUL:
                    doubtful = note_doubtful(rows, doubtful, entries, begin, at)
                rows.indices[entries] = index - 1
                rows.values[entries] = value
                entries += 1
        if wrong:
            return row, doubtful_before, largest, lines, line, token
        at += 1
        rows.lines[row] = lines
        row += 1
        rows.indptr[row] = entries
        largest = max(largest, previous)
    return row, doubtful, largest, lines, -1, -1
