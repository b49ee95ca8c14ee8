"""The columns of records that come in, against those that the encoder was told of.

An encoder takes any column: those that were declared as what they were declared, others by their values. So a column
that is misspelled is no error, and nobody hears of it. Here such columns are counted, and refused where that is wanted.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gappletron import Encoder
from gappletron.base.errors import UserError
from gappletron.base.text import listing, shorten
from gappletron.data.records.columns import CATEGORICAL, DROP, MOST_DEPTH, NUMERIC, TEXT

MOST_NAMES = 50
"""So many names of columns are counted, so that records of any columns cannot fill the memory."""
MOST_DENSE = 8
"""A vector of so many numbers is written as a list."""
MISSING, UNDECLARED = "missing", "undeclared"


class Columns:
    """Counts records whose columns are not those that were declared.

    :param encoder: of the model; where it declares no columns, or there is none, there is nothing to compare with.
    :param is_strict: refuse such records.
    :param name: of the model, for errors.

    >>> from gappletron import Encoder
    >>> columns = Columns(Encoder(text="message"))
    >>> columns.count([{"message": "hello"}, {"mesage": "hello", "links": 3}])
    >>> columns.records["missing"], columns.names["missing"], sorted(columns.names["undeclared"])
    (1, Counter({'message': 1}), ['links', 'mesage'])
    >>> Columns(Encoder(text="message"), is_strict=True).check([{"mesage": "hello"}])
    Traceback (most recent call last):
        ...
    gappletron.UserError: x has the column 'mesage', which the model was not told of, did you mean \
'message'? Send the declared columns ('message') and no others
    """

    def __init__(self, encoder: Encoder | None, *, is_strict: bool = False, name: str = "") -> None:
        self.kinds: Mapping[str, str] = {} if encoder is None else encoder.kinds
        self.needed = frozenset(name for name, kind in self.kinds.items() if kind != DROP)
        self.is_strict = is_strict and encoder is not None
        self.records: Counter[str] = Counter({MISSING: 0, UNDECLARED: 0})
        """How many records lacked a declared column, and how many had one that was not declared."""
        self.names: dict[str, Counter[str]] = {MISSING: Counter(), UNDECLARED: Counter()}
        """Which columns these were, and how often; of the first ones only."""
        if is_strict and encoder is not None and not self.needed:
            raise nothing_declared(name)

    def check(self, rows: Sequence[Any]) -> None:
        """Refuse rows with other columns than those declared, if that is wanted."""
        if not self.is_strict:
            return
        for place, row in enumerate(rows):
            missing, undeclared = self._differences(row)
            if missing or undeclared:
                where = "x" if len(rows) == 1 else f"rows[{place}]"
                raise UserError(self._refusal(where, row, missing, undeclared))

    def count(self, rows: Sequence[Any]) -> None:
        """Count the rows with other columns than those declared."""
        needed = self.needed
        for row in rows if needed else ():
            if type(row) is dict and row.keys() == needed:  # nearly always, and much quicker
                continue
            for kind, names in zip((MISSING, UNDECLARED), self._differences(row), strict=True):
                if names:
                    self._count(kind, names)

    def to_dict(self) -> dict[str, Any]:
        """The counts, ready for JSON.

        >>> Columns(None).to_dict()["missing"]
        {'records': 0, 'columns': {}}
        """
        counts = {kind: {"records": self.records[kind], "columns": dict(self.names[kind])} for kind in self.records}
        return {"strict": self.is_strict, **counts}

    def example(self) -> dict[str, Any]:
        """A record with the declared columns, or, where none are declared, with some; its values are made up.

        >>> from gappletron import Encoder
        >>> Columns(Encoder(text="message", numeric="links")).example()
        {'message': 'some words', 'links': 1.5}
        """
        kinds = self.kinds if self.needed else {"message": TEXT, "length": NUMERIC}
        return {name: EXAMPLES[kind] for name, kind in kinds.items() if kind != DROP}

    def _differences(self, row: Any) -> tuple[list[str], list[str]]:
        """The columns that a row lacks, and those that it should not have."""
        kinds = self.kinds
        given = list(_names(row, kinds))
        return sorted(self.needed.difference(given)), [name for name in given if name not in kinds]

    def _count(self, kind: str, found: list[str]) -> None:
        self.records[kind] += 1
        counted = self.names[kind]
        for name in found:
            short = shorten(name, 100)
            if short in counted or len(counted) < MOST_NAMES:
                counted[short] += 1

    def _refusal(self, where: str, row: Any, missing: list[str], undeclared: list[str]) -> str:
        declared = listing(sorted(self.needed))
        if isinstance(row, str):
            return (
                f"{where} is a text without a column, and the model was told of {declared}: send an object with "
                "these columns"
            )
        if undeclared:
            near = difflib.get_close_matches(undeclared[0][:100], missing, n=1)
            meant = f", did you mean {near[0]!r}? Send" if near else ": send"
            return (
                f"{where} has the column {shorten(undeclared[0], 80)!r}, which the model was not told of{meant} the "
                f"declared columns ({declared}) and no others"
            )
        return f"{where} lacks the column {missing[0]!r}: send it, as null where there is no value"


def nothing_declared(name: str) -> UserError:
    """The error where columns are to be checked and the model of this name has none."""
    return UserError(
        f"the model {name!r} declares no columns, so there is nothing to be strict about: omit --strict, or make a "
        "model with --text, --numeric and --categorical"
    )


EXAMPLES: dict[str, Any] = {TEXT: "some words", NUMERIC: 1.5, CATEGORICAL: "some category"}


def example_vector(features: int) -> list[float] | dict[str, list[float]]:
    """A vector for a model without an encoder: all numbers where they are few, else a sparse one.

    >>> example_vector(3), example_vector(1024)
    ([1.0, 0.5, 0.0], {'indices': [0, 2], 'values': [1.0, 0.5]})
    """
    if features <= MOST_DENSE:
        return [1.0, 0.5, *[0.0] * features][:features]
    return {"indices": [0, 2], "values": [1.0, 0.5]}


def _names(row: Any, kinds: Mapping[str, str], prefix: str = "", depth: int = 0) -> Iterator[str]:
    """The columns of a record as the encoder names them: those of an object within it, or of a list of numbers, begin
    with its name and a point. Where the whole was declared, it counts as one.
    """
    if isinstance(row, str):  # a text without a column lacks all of them
        return
    for inner, value in row.items():
        name = f"{prefix}{inner}"
        if name in kinds or not isinstance(value, dict | list) or not value or depth == MOST_DEPTH:
            yield name
        elif isinstance(value, dict):
            yield from _names(value, kinds, f"{name}.", depth + 1)
        else:
            places = [f"{name}.{place}" for place, item in enumerate(value) if not isinstance(item, str)]
            yield from [place for place in places if place in kinds] or [name]
