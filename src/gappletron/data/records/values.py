"""Single values of a record, as numbers and as texts."""

import datetime
import decimal
import math
import numbers
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.base.text import shorten

# Where an object is in memory, as in `<object object at 0x7f2a>`: another place in every process.
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")

# In a numeric column these words, in any case, mean that the value is missing.
MISSING_WORDS = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?"})


def to_text(value: Any) -> str:
    """Return how a value is written as a category, a word or a class: a whole number without a point, booleans in lower
    case. A UserError for what has no text that stays the same, such as an object without a `__str__` of its own.

    >>> to_text(3.0), to_text(True), to_text("Ham"), to_text(2.5)
    ('3', 'true', 'Ham', '2.5')
    """
    plain = value if type(value) is str else _to_python(value)
    if isinstance(plain, str):
        return plain
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, float) and plain.is_integer() and abs(plain) < 2**53:
        return str(int(plain))
    if isinstance(plain, bytes):
        return decode(plain)
    if isinstance(plain, decimal.Decimal) and plain.is_finite():
        return str(int(plain)) if plain == plain.to_integral_value() else str(plain.normalize())
    text = str(plain)
    if isinstance(plain, complex) or ADDRESS.search(text):
        raise UserError(
            f"{shorten(text)} has no text that is always the same: give numbers, texts or dates, such as its parts"
        )
    return text


def _to_python(value: Any) -> Any:
    """Return values of NumPy as Python's, and dates of pandas and NumPy as well, which then end at microseconds."""
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


def decode(data: bytes) -> str:
    """Return bytes as a text: UTF-8, or Latin-1 where they are not valid UTF-8.

    >>> decode("é".encode("utf-8")), decode("é".encode("latin-1"))
    ('é', 'é')
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def to_number(value: Any) -> float | None:
    """Return a value of a numeric column: NaN where it is missing, None where it is no number. Dates are seconds.

    >>> to_number(" 1.5 "), to_number("NA"), to_number("many"), to_number(True)
    (1.5, nan, None, 1.0)
    """
    if type(value) is float:
        return value
    if isinstance(value, str | bytes):
        return _read_number(to_text(value))
    if isinstance(value, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64):
        return _to_seconds(value)
    try:
        return None if isinstance(value, np.complexfloating) else float(value)  # float() takes the real part
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def _to_seconds(value: Any) -> float:
    """Return a date as seconds since 1970 (in UTC where it has no time zone), a duration as its seconds."""
    value = _to_python(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=value.tzinfo or datetime.UTC).timestamp()
    return 86_400.0 * (value.toordinal() - datetime.date(1970, 1, 1).toordinal())


def _read_number(text: str) -> float | None:
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
    """Return whether this is None, NaN, NaT, pandas' NA, or an empty text."""
    if value is None or (isinstance(value, str | bytes) and not value):
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")  # pandas', which compare with nothing


def is_record(x: Any) -> bool:
    """Return whether this is a record rather than a vector of numbers: a text, or a mapping with a text among its keys.

    >>> is_record("some words"), is_record({"age": 41}), is_record({0: 1.0}), is_record([1.0, 2.0])
    (True, True, False, False)
    """
    if isinstance(x, str | bytes):
        return True
    return isinstance(x, Mapping) and any(isinstance(name, str) for name in x)


def unbox_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of objects as doubles if all of them are real numbers or booleans, as in rows of mixed columns;
    other arrays as they are.

    >>> unbox_numbers(np.array([True, 2, 2.5], dtype=object))
    array([1. , 2. , 2.5])
    """
    if array.dtype.kind != "O" or not all(isinstance(item, numbers.Real | np.bool_) for item in array.flat):
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # a number of some other type, or beyond a double
        return array
