"""The columns of records that come in, against those that the encoder was told of.

An encoder takes any column: those that were declared as what they were declared, others by their values. So a column
that is misspelled is no error, and nobody hears of it. Here such columns are counted, and refused where that is wanted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gappletron import Encoder
from gappletron.base.errors import UserError
from gappletron.base.text import listing, shorten, unknown
from gappletron.data.records.columns import CATEGORICAL, DROP, MOST_DEPTH, NUMERIC, TEXT

# So many names of columns are counted, so that records of any columns cannot fill the memory.
MOST_NAMES = 50
# A vector of so many numbers is written as a list.
MOST_DENSE = 8
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
    gappletron.UserError: x: there is no column 'mesage', did you mean 'message'? Choose one of 'message'
    """

    def __init__(self, encoder: Encoder | None, *, is_strict: bool = False, name: str = "") -> None:
        self.kinds: Mapping[str, str] = {} if encoder is None else encoder.kinds
        self.needed = frozenset(name for name, kind in self.kinds.items() if kind != DROP)
        self.is_strict = is_strict and encoder is not None
        # How many records lacked a declared column, and how many had one that was not declared.
        self.records: Counter[str] = Counter({MISSING: 0, UNDECLARED: 0})
        # Which columns these were, and how often; of the first ones only.
        self.names: dict[str, Counter[str]] = {MISSING: Counter(), UNDECLARED: Counter()}
        if is_strict and encoder is not None and not self.needed:
            raise nothing_declared(name)

    def check(self, rows: Sequence[Any]) -> None:
        """Refuse rows with other columns than those declared, if that is wanted."""
        if not self.is_strict:
            return
        for place, row in enumerate(rows):
            missing, undeclared = self._compare(row)
            if missing or undeclared:
                where = "x" if len(rows) == 1 else f"rows[{place}]"
                raise self._make_error(row, missing, undeclared).at(where)

    def count(self, rows: Sequence[Any]) -> None:
        """Count the rows with other columns than those declared."""
        needed = self.needed
        for row in rows if needed else ():
            if type(row) is dict and row.keys() == needed:  # nearly always, and much quicker
                continue
            for kind, names in zip((MISSING, UNDECLARED), self._compare(row), strict=True):
                if names:
                    self._count(kind, names)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, ready for JSON.

        >>> Columns(None).to_dict()["missing"]
        {'records': 0, 'columns': {}}
        """
        counts = {kind: {"records": self.records[kind], "columns": dict(self.names[kind])} for kind in self.records}
        return {"strict": self.is_strict, **counts}

    def make_example(self) -> dict[str, Any]:
        """Return a made-up record with the declared columns, or with others where none are declared.

        >>> from gappletron import Encoder
        >>> Columns(Encoder(text="message", numeric="links")).make_example()
        {'message': 'some words', 'links': 1.5}
        """
        kinds = self.kinds if self.needed else {"message": TEXT, "length": NUMERIC}
        return {name: EXAMPLES[kind] for name, kind in kinds.items() if kind != DROP}

    def _compare(self, row: Any) -> tuple[list[str], list[str]]:
        """Return the columns that a row lacks, and those that it should not have."""
        kinds = self.kinds
        given = list(_list_names(row, kinds))
        return sorted(self.needed.difference(given)), [name for name in given if name not in kinds]

    def _count(self, kind: str, found: list[str]) -> None:
        self.records[kind] += 1
        counted = self.names[kind]
        for name in found:
            short = shorten(name, 100)
            if short in counted or len(counted) < MOST_NAMES:
                counted[short] += 1

    def _make_error(self, row: Any, missing: list[str], undeclared: list[str]) -> UserError:
        declared = sorted(self.needed)
        if isinstance(row, str):
            return UserError(f"it is a text without a column: send an object with the columns {listing(declared)}")
        if undeclared:
            return unknown(undeclared[0], "column", declared)
        return UserError(f"it lacks the column {missing[0]!r}: send it, as null where there is no value")


def nothing_declared(name: str) -> UserError:
    """Return the error where columns are to be checked and the model of this name has none."""
    return UserError(
        f"the model {name!r} declares no columns, so there is nothing to be strict about: omit --strict, or make a "
        "model with --text, --numeric and --categorical"
    )


EXAMPLES: dict[str, Any] = {TEXT: "some words", NUMERIC: 1.5, CATEGORICAL: "some category"}


def make_example_vector(features: int) -> list[float] | dict[str, list[float]]:
    """Return a vector for a model without an encoder: all numbers where they are few, else a sparse one.

    >>> make_example_vector(3), make_example_vector(1024)
    ([1.0, 0.5, 0.0], {'indices': [0, 2], 'values': [1.0, 0.5]})
    """
    if features <= MOST_DENSE:
        return [1.0, 0.5, *[0.0] * features][:features]
    return {"indices": [0, 2], "values": [1.0, 0.5]}


def _list_names(row: Any, kinds: Mapping[str, str], prefix: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the columns of a record as the encoder names them.

    Those of an object within it, or of a list of numbers, begin with its name and a point. What was declared as a whole
    counts as one.
    """
    if isinstance(row, str):  # a text without a column lacks all of them
        return
    for inner, value in row.items():
        name = f"{prefix}{inner}"
        if name in kinds or not isinstance(value, dict | list) or not value or depth == MOST_DEPTH:
            yield name
        elif isinstance(value, dict):
            yield from _list_names(value, kinds, f"{name}.", depth + 1)
        else:
            places = [f"{name}.{place}" for place, item in enumerate(value) if not isinstance(item, str)]
            yield from [place for place in places if place in kinds] or [name]
