"""Records beside the columns that were declared: which of these they lack, and which others they have.

An encoder takes any column: those that were declared as what they were declared, others by their values. So a column
that is misspelled is no error, unless the encoder is strict.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gappletron.base.errors import UserError
from gappletron.base.text import listing, unknown
from gappletron.data.records.columns import DROP, LISTS, MOST_DEPTH, list_fields, list_items


class Declared:
    """The columns that were declared, by their kinds.

    >>> declared = Declared({"message": "text", "note": "drop"})
    >>> declared.compare({"mesage": "hello", "links": 3, "note": "mine"})
    (['message'], ['mesage', 'links'])
    >>> declared.check({"mesage": "hello"})
    Traceback (most recent call last):
        ...
    gappletron.UserError: there is no column 'mesage', did you mean 'message'? Choose one of 'message'
    """

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds = kinds
        self.needed = frozenset(name for name, kind in kinds.items() if kind != DROP)

    def compare(self, record: Any) -> tuple[list[str], list[str]]:
        """Return the columns that a record lacks, and those that it should not have."""
        if type(record) is dict and record.keys() == self.needed:  # nearly always, and much quicker
            return [], []
        given = [] if isinstance(record, str | bytes) else list(self._list_names(list_fields(record)))
        return sorted(self.needed.difference(given)), [name for name in given if name not in self.kinds]

    def check(self, record: Any) -> None:
        """Refuse a record with other columns than those declared."""
        missing, undeclared = self.compare(record)
        if not missing and not undeclared:
            return
        if isinstance(record, str | bytes):
            columns = listing(sorted(self.needed))
            raise UserError(f"it is a text without a column: give a record with the columns {columns}")
        if undeclared:
            raise unknown(undeclared[0], "column", sorted(self.needed))
        raise UserError(f"it lacks the column {missing[0]!r}: give it, as null (None) where there is no value")

    def check_table(self, table: Any) -> None:
        """Refuse a table of Arrow with other columns than those declared."""
        if not self.needed <= set(table.column_names) <= self.kinds.keys():  # or they are columns of structures
            for start in range(0, table.num_rows, 1000):
                for record in table.slice(start, 1000).to_pylist():
                    self.check(record)

    def _list_names(self, fields: Any, prefix: str = "", depth: int = 0) -> Iterator[str]:
        """Yield the columns of a record as the encoder names them.

        Those of a mapping within it, or of a list of numbers, begin with its name and a point. What was declared as a
        whole counts as one.
        """
        for inner, value in fields:
            name = f"{prefix}{inner}"
            is_mapping = isinstance(value, Mapping)
            if name in self.kinds or not (is_mapping or isinstance(value, LISTS)) or depth == MOST_DEPTH:
                yield name
            elif is_mapping:
                yield from self._list_names(value.items(), f"{name}.", depth + 1) if value else [name]
            else:
                places = [
                    f"{name}.{place}" for place, item in enumerate(list_items(value)) if not isinstance(item, str)
                ]
                yield from [place for place in places if place in self.kinds] or [name]
