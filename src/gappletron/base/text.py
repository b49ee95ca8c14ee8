"""Texts: names and settings that users write, and how names are shown in messages.

A text that names a learner, a stream, a graph or a piece is a name that may be followed by settings,
``name:key=value,key=value``. :func:`split_settings` is the only parser of it, so all of them are written in the same
way and have the same error messages.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from gappletron.base.errors import UserError

MOST_CLASSES = 10_000

LETTERS_SHOWN = 80


def listing(items: Iterable[object], most: int = 8, letters: int = LETTERS_SHOWN) -> str:
    """Return the items as a phrase, each shortened to so many letters, cut after `most` of them.

    >>> listing("abc"), listing(range(10), most=3), listing(range(4), most=3)
    ("'a', 'b', 'c'", '0, 1, 2 and 7 more', '0, 1, 2, 3')
    """
    listed = list(items)
    if len(listed) == most + 1:  # the last one is no longer than "and 1 more", and may be the one that is looked for
        most += 1
    more = len(listed) - most
    shown = ", ".join(shorten(repr(item), letters) for item in listed[:most])
    return shown if more <= 0 else f"{shown} and {more} more"


def make_printable(text: str) -> str:
    """Return the text with escapes in place of what a terminal or a picture cannot show.

    These are control characters, line breaks, the invisible characters of Unicode, and the bytes of a file name that
    are not valid text.

    >>> print(make_printable("data[1].svm"), make_printable("a\\x1b[2Jb\\n"), make_printable("\\udcff"))
    data[1].svm a\\x1b[2Jb\\n \\udcff
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


# What a program for tables takes for a formula, unless it is a number.
_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20](?![0-9.]+\Z)")


def defuse(text: str) -> str:
    """Return the text as a cell of a CSV file: after an apostrophe where it would be taken for a formula.

    >>> defuse("=1+A1"), defuse("-1"), defuse("ham")
    ("'=1+A1", '-1', 'ham')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def shorten(text: str, most: int = 40) -> str:
    """Return the text, cut with an ellipsis where it is longer than `most` characters.

    >>> shorten("abcdef", most=4)
    'abc…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def describe(value: object, most: int = 40) -> str:
    """Return a short text for any value: arrays and frames by their sizes, since they print on many lines.

    >>> import numpy as np
    >>> describe("ham"), describe(np.eye(3))
    ("'ham'", 'a ndarray of 3 x 3')
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"a {type(value).__name__} of {' x '.join(map(str, shape))}"
    return shorten(" ".join(repr(value).split()), most)


# At most this many names are compared with an unknown one, which takes some ten milliseconds.
COMPARED_NAMES = 1000


def unknown(value: object, name: str, known: Sequence[object]) -> UserError:
    """Return the error for a name that is not one of `known`.

    >>> print(unknown("gapsnh", "learner", ["gaphin", "gapsmh"]))
    there is no learner 'gapsnh', did you mean 'gapsmh'? Choose one of 'gaphin', 'gapsmh'
    >>> print(unknown("x", "learner", ["gaphin", "gapsmh"]))
    there is no learner 'x': choose one of 'gaphin', 'gapsmh'
    """
    choices = listing(known, most=24)
    shown = shorten(repr(value), LETTERS_SHOWN)
    comparable = [item for item in known[:COMPARED_NAMES] if isinstance(item, str) and len(item) <= LETTERS_SHOWN]
    short = isinstance(value, str) and len(value) <= LETTERS_SHOWN
    near = difflib.get_close_matches(str(value), comparable, n=1) if short else []
    hint = f", did you mean {near[0]!r}? Choose" if near else ": choose"
    return UserError(f"there is no {name} {shown}{hint} one of {choices}")


def quote(text: str) -> str:
    """Return a text in quotes, shortened.

    >>> quote("bandit")
    "'bandit'"
    """
    return repr(shorten(text, LETTERS_SHOWN))


def to_kebab_case(name: str) -> str:
    """Return the name of a Python class as texts write it.

    >>> to_kebab_case("ScaleFreeFTRL"), to_kebab_case("TopUp")
    ('scale-free-ftrl', 'top-up')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def split_settings(text: str) -> tuple[str, dict[str, str]]:
    """Split a text into its name and its settings.

    >>> split_settings("filtering:revealing=ham"), split_settings("digits")
    (('filtering', {'revealing': 'ham'}), ('digits', {}))
    >>> split_settings("ada-grad:rate")
    Traceback (most recent call last):
        ...
    gappletron.UserError: expected key=value in 'ada-grad:rate', not 'rate': write for example ada-grad:rate=1
    """
    name, _, rest = text.partition(":")
    given: dict[str, str] = {}
    for entry in rest.split(",") if rest.strip() else ():
        key, equals, value = (part.strip() for part in entry.partition("="))
        if not (key and equals):
            raise UserError(
                f"expected key=value in {quote(text)}, not {quote(entry)}: write for example "
                f"{shorten(name)}:{shorten(key or 'key')}=1"
            )
        if key in given:
            raise UserError(f"{quote(text)} sets {quote(key)} twice: keep one")
        given[key] = value
    return name, given


def read_numbers(text: str) -> tuple[str, dict[str, int | float]]:
    """Split a text whose settings are numbers; whole ones are ints, so that T=1e6 is one.

    >>> read_numbers("synthetic:noise=0.05,T=1e6")
    ('synthetic', {'noise': 0.05, 'T': 1000000})
    """
    name, given = split_settings(text)
    return name, {key: _read_number(value, key, text) for key, value in given.items()}


def check_settings(given: Iterable[str], known: Sequence[str], text: str) -> None:
    """Check that each setting exists.

    >>> check_settings({"rate": 1.0}, ["rate", "radius"], "fixed-ogd:rate=1")
    """
    for key in given:
        if not known:
            raise UserError(f"{quote(text)} sets {quote(key)}, but there is nothing to set: omit it")
        if key not in known:
            raise UserError(f"{quote(text)}: {unknown(shorten(key), 'setting', known)}")


def read_settings(
    spec: str, kind: str, keys: dict[str, str], example: str, needed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the numbers of the stream ``kind:spec``, by the names of the arguments that they are for.

    >>> read_settings("K=6,T=1e6", "synthetic", {"K": "classes", "T": "rounds"}, "K=9,T=100000")
    {'classes': 6, 'rounds': 1000000}
    """
    text = f"{kind}:{spec}"
    given = read_numbers(text)[1]
    check_settings(given, list(keys), text)
    missing = [key for key in needed if key not in given]
    if missing:
        raise UserError(f"{quote(text)} needs {listing(missing)}: write for example {kind}:{example}")
    return {keys[key]: value for key, value in given.items()}


def read_classes(text: str) -> tuple[str, ...] | tuple[int, ...]:
    """Return the classes that a text names: 0 to K-1 for a number K, else names separated by commas.

    >>> read_classes("3"), read_classes("spam,ham")
    ((0, 1, 2), ('spam', 'ham'))
    """
    if not (text.isascii() and text.isdigit()):
        return tuple(text.split(","))
    if len(text) > len(str(MOST_CLASSES)) or not 2 <= int(text) <= MOST_CLASSES:
        raise UserError(f"{quote(text)} is not a number of classes: choose 2 to {MOST_CLASSES}")
    return tuple(range(int(text)))


def _read_number(value: str, key: str, text: str) -> int | float:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        result = float(value)
    except ValueError:
        if key in ("exploration", "optimizer"):
            raise UserError(
                f"{key}={shorten(value)} in {quote(text)} is not a number: give it as --{key} "
                f"{shorten(value)}, or in Python make the learner with {key}=..."
            ) from None
        raise UserError(f"{key}={shorten(value)} in {quote(text)} is not a number: write for example {key}=1") from None
    return int(result) if result.is_integer() else result
