"""Single values of a record: as a number, as a text, as a hashed feature."""

from __future__ import annotations

import datetime
import decimal
import functools
import math
from typing import Any

import numpy as np

from gappletron.base.errors import UserError
from gappletron.data.records.hashing import feature, hashed
from gappletron.kernel.numerics import LARGEST_VALUE

__all__ = [
    "category_feature",
    "column_feature",
    "column_hash",
    "decoded",
    "is_missing",
    "number_of",
    "text_of",
    "too_large",
]

MISSING_WORDS = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?"})
"""In a numeric column these words, in any case, mean that the value is missing."""

REMEMBERED = 65_536
"""Hashes of columns and categories that are kept, so that they need not be computed again."""


@functools.lru_cache(REMEMBERED)
def column_hash(name: str) -> int:
    """h(c), the seed of everything in column c."""
    return hashed(name)


@functools.lru_cache(REMEMBERED)
def column_feature(name: str, features: int) -> int:
    """The feature of the numbers in a column."""
    return feature(column_hash(name), features)[0]


@functools.lru_cache(REMEMBERED)
def category_feature(name: str, text: str, features: int) -> tuple[int, float]:
    """The feature of a category of a column, and its value, 1 or -1; the category of missing values is the empty
    text.
    """
    return feature(hashed(text, column_hash(name)), features)


def text_of(value: Any) -> str:
    """How a value is written as a category, a word or a class: a whole number without a point, booleans in lower case.

    >>> text_of(3.0), text_of(True), text_of("Ham"), text_of(2.5)
    ('3', 'true', 'Ham', '2.5')
    """
    plain = _python_value(value)
    if isinstance(plain, str):
        return plain
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, float) and plain.is_integer() and abs(plain) < 2**53:
        return str(int(plain))
    if isinstance(plain, bytes):
        return decoded(plain)
    if isinstance(plain, decimal.Decimal) and plain.is_finite():
        return str(int(plain)) if plain == plain.to_integral_value() else str(plain.normalize())
    return str(plain)


def _python_value(value: Any) -> Any:
    """A value of NumPy as one of Python, and dates of pandas and NumPy as Python's, which end at microseconds."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return value.astype(f"{type(value).__name__}[us]").item()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.timedelta):
        return datetime.timedelta(value.days, value.seconds, value.microseconds)
    if isinstance(value, datetime.datetime):
        date, time = (value.year, value.month, value.day), (value.hour, value.minute, value.second, value.microsecond)
        return datetime.datetime(*date, *time, value.tzinfo)
    return value


def decoded(data: bytes) -> str:
    """Bytes as a text: UTF-8, or Latin-1 where they are not valid UTF-8.

    >>> decoded("é".encode("utf-8")), decoded("é".encode("latin-1"))
    ('é', 'é')
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def number_of(value: Any) -> float | None:
    """A value of a numeric column: NaN where it is missing, None where it is no number. Dates are seconds.

    >>> number_of(" 1.5 "), number_of("NA"), number_of("many"), number_of(True)
    (1.5, nan, None, 1.0)
    """
    if type(value) is float:
        return value
    if isinstance(value, str | bytes):
        return _number_in(text_of(value))
    if isinstance(value, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64):
        return _seconds(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def _seconds(value: Any) -> float:
    """A date as seconds since 1970 (in UTC where it has no time zone), a duration as its seconds."""
    value = _python_value(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=value.tzinfo or datetime.UTC).timestamp()
    return 86_400.0 * (value.toordinal() - datetime.date(1970, 1, 1).toordinal())


def _number_in(text: str) -> float | None:
    word = text.strip().lower()
    if word in MISSING_WORDS:
        return math.nan
    if word in ("true", "false"):
        return float(word == "true")
    try:
        return None if "_" in word else float(word)  # Python takes 1_000 for a number, tables do not
    except ValueError:
        return None


def is_missing(value: Any) -> bool:
    """Whether this is None, NaN, NaT, pandas' NA, or an empty text."""
    if value is None or (isinstance(value, str | bytes) and not value):
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")  # pandas', which compare with nothing


def too_large(name: str, value: float) -> UserError:
    """The error for a number that no learner can take."""
    return UserError(
        f"the column {name!r} has the value {value}: numbers must be finite and at most {LARGEST_VALUE:g} in size, "
        "leave such a value out (None) or clip it"
    )
