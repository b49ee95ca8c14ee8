"""The columns of records that come in, against those that the encoder was told of.

An encoder takes any column: those that were declared as what they were declared, others by their values. So a column
that is misspelled is no error, and nobody hears of it. Here such columns are counted, and refused where that is wanted.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gappletron import Encoder
from gappletron.base.errors import UserError
from gappletron.base.text import shorten
from gappletron.data.records.columns import CATEGORICAL, DROP, NUMERIC, TEXT
from gappletron.data.records.declared import Declared

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
        self.declared = Declared({} if encoder is None else encoder.kinds)
        self.is_strict = is_strict and encoder is not None
        # How many records lacked a declared column, and how many had one that was not declared.
        self.records: Counter[str] = Counter({MISSING: 0, UNDECLARED: 0})
        # Which columns these were, and how often; of the first ones only.
        self.names: dict[str, Counter[str]] = {MISSING: Counter(), UNDECLARED: Counter()}
        if is_strict and encoder is not None and not self.needed:
            raise nothing_declared(name)

    @property
    def needed(self) -> frozenset[str]:
        """The columns that every record should have."""
        return self.declared.needed

    def check(self, rows: Sequence[Any]) -> None:
        """Refuse rows with other columns than those declared, if that is wanted."""
        if not self.is_strict:
            return
        for place, row in enumerate(rows):
            try:
                self.declared.check(row)
            except UserError as error:
                raise error.at("x" if len(rows) == 1 else f"rows[{place}]") from None

    def count(self, rows: Sequence[Any]) -> None:
        """Count the rows with other columns than those declared."""
        for row in rows if self.needed else ():
            for kind, names in zip((MISSING, UNDECLARED), self.declared.compare(row), strict=True):
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
        kinds = self.declared.kinds if self.needed else {"message": TEXT, "length": NUMERIC}
        return {name: EXAMPLES[kind] for name, kind in kinds.items() if kind != DROP}

    def _count(self, kind: str, found: list[str]) -> None:
        self.records[kind] += 1
        counted = self.names[kind]
        for name in found:
            short = shorten(name, 100)
            if short in counted or len(counted) < MOST_NAMES:
                counted[short] += 1


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
