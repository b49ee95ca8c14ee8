"""Records, value by value: what each column is, and which features its values become."""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gappletron.base.errors import UserError
from gappletron.base.text import shorten
from gappletron.data.records.values import (
    category_feature,
    column_feature,
    column_hash,
    decoded,
    is_missing,
    number_of,
    text_of,
    too_large,
)
from gappletron.kernel.numerics import LARGEST_VALUE

__all__ = ["CATEGORICAL", "DROP", "KINDS", "NUMERIC", "TEXT", "Cells", "Spec", "cells_of", "fields_of", "is_record"]

TEXT, NUMERIC, CATEGORICAL, DROP = KINDS = ("text", "numeric", "categorical", "drop")
"""What a column may be declared as."""

MOST_DEPTH = 8
"""Mappings and lists within a record may be nested this deep."""

DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)  # a datetime is a date


class Spec(NamedTuple):
    """What an encoder is told: the declared columns, the number of features, the longest n-gram."""

    kinds: Mapping[str, str]
    features: int
    ngrams: int


class Cells:
    """The features of one record that are not words, and its texts, whose words are features, with their seeds."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.entries: list[tuple[int, float]] = []
        self.texts: list[tuple[int, str]] = []

    def add(self, name: str, value: Any, depth: int = 0) -> None:
        """Append the features of one value of a column."""
        kind = self.spec.kinds.get(name)
        if kind == DROP:
            return
        simple = type(value)
        if (simple is float or simple is int) and (kind is None or kind == NUMERIC):
            self._add_number(name, value)  # the usual case first: asking for abstract classes takes longer than hashing
        elif simple is str and value and (kind in (CATEGORICAL, TEXT)):
            if kind == TEXT:
                self.texts.append((column_hash(name), value))
            else:
                self._add_category(name, value)
        else:
            self._add_any(name, value, kind, depth)

    def _add_any(self, name: str, value: Any, kind: str | None, depth: int) -> None:
        """As :meth:`add`, for every type of value."""
        if isinstance(value, Mapping):
            _check_depth(name, depth)
            for inner, part in value.items():
                self.add(f"{name}.{inner}", part, depth + 1)
        elif isinstance(value, list | tuple | set | frozenset | np.ndarray):
            self._add_list(name, value, depth)
        elif is_missing(value):
            self._add_category(name, "")
        elif kind == TEXT:
            self.texts.append((column_hash(name), text_of(value)))
        elif kind == CATEGORICAL:
            self._add_category(name, text_of(value))
        elif kind == NUMERIC or isinstance(value, numbers.Real | np.bool_ | decimal.Decimal):
            self._add_number(name, value)
        else:
            text = text_of(value)
            if not isinstance(value, DATES):
                self._add_category(name, text)
            self.texts.append((column_hash(name), text))

    def _add_list(self, name: str, value: Any, depth: int) -> None:
        """Each text of a list is a value of the column; numbers are columns of their own, by position."""
        _check_depth(name, depth)
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, Iterable):
            items = [items]  # an array without dimensions
        if isinstance(items, set | frozenset):
            items = sorted(items, key=repr)  # positions must not depend on how a set keeps its items
        empty = True
        for place, item in enumerate(items):
            empty = False
            self.add(name if isinstance(item, str) else f"{name}.{place}", item, depth + 1)
        if empty:
            self._add_category(name, "")

    def _add_category(self, name: str, text: str) -> None:
        self.entries.append(category_feature(name, text, self.spec.features))

    def _add_number(self, name: str, value: Any) -> None:
        """A number; what is none counts as a category."""
        found = number_of(value)
        if found is None:
            self._add_category(name, text_of(value))
        elif math.isnan(found):
            self._add_category(name, "")
        elif not abs(found) <= LARGEST_VALUE:
            raise too_large(name, found)
        elif found != 0.0:
            self.entries.append((column_feature(name, self.spec.features), found))


def cells_of(spec: Spec, record: Any) -> Cells:
    """The features of a record, its texts not yet cut into words."""
    cells = Cells(spec)
    for name, value in fields_of(record):
        cells.add(name, value)
    return cells


def fields_of(record: Any) -> Iterable[tuple[str, Any]]:
    """The columns and values of a record."""
    if isinstance(record, str):
        return [("", record)]
    if isinstance(record, Mapping):
        return ((str(name), value) for name, value in record.items())
    if hasattr(record, "_asdict"):  # a named tuple
        return ((str(name), value) for name, value in record._asdict().items())
    if (
        hasattr(record, "items") and hasattr(record, "index") and not hasattr(record, "columns")
    ):  # a row of a pandas frame
        return ((str(name), value) for name, value in record.items())
    if isinstance(record, bytes):
        return [("", decoded(record))]
    raise UserError(
        f"a record is a dict, a row of a frame or a text, not a {type(record).__name__} "
        f"({shorten(repr(record))}): name its columns, as in {{'age': 41, 'city': 'Bonn'}}"
    )


def is_record(x: Any) -> bool:
    """Whether this is a record rather than a vector of numbers: a text, or a mapping with a text among its keys.

    >>> is_record("some words"), is_record({"age": 41}), is_record({0: 1.0}), is_record([1.0, 2.0])
    (True, True, False, False)
    """
    if isinstance(x, str | bytes):
        return True
    return isinstance(x, Mapping) and any(isinstance(name, str) for name in x)


def _check_depth(name: str, depth: int) -> None:
    if depth >= MOST_DEPTH:
        raise UserError(f"the column {shorten(name)!r} is nested more than {MOST_DEPTH} deep: flatten the record")
