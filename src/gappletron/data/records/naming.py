"""The names of features: which column, word or category each feature of a record stands for.

Features are hashes, and nothing is looked up to make them. But whoever has the record can hash each of its values
again, and so knows what each of its features is.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from gappletron.base.text import shorten
from gappletron.data.records.columns import NO_COLUMN, Cells
from gappletron.data.records.hashing import (
    category_feature,
    column_seed,
    cut,
    hash_string,
    make_alphabet,
    number_feature,
    place,
    sign,
    to_codes,
)

# The longest name that is written out.
LONGEST = 100
# Between the names of values that share a feature.
OR = " or "


@functools.cache
def list_alphabet() -> list[int]:
    """Return :func:`make_alphabet` as a list."""
    return [int(code) for code in make_alphabet()]


def list_tokens(text: str, ngrams: int) -> list[str]:
    """Return the words of a text as they are hashed, and then what is made of several in a row.

    >>> list_tokens("Win a PRIZE!", 2)
    ['win', 'a', 'prize', '!', 'win a', 'a prize', 'prize !']
    """
    # Lists, since Python reads single numbers from them several times as fast as from arrays.
    codes: Any = to_codes([text]).tolist()
    alphabet, words, ends = list_alphabet(), bytearray(5 * len(codes) + 8), [0] * (len(codes) + 1)
    count = cut(codes, 0, len(codes), alphabet, words, ends)  # type: ignore[arg-type]
    starts = [0, *(end + 1 for end in ends[:count])]
    spans = zip(starts, ends[:count], strict=False)
    tokens = [words[start:end].decode("utf-8", "surrogatepass") for start, end in spans]
    return [" ".join(tokens[first : first + n]) for n in range(1, ngrams + 1) for first in range(count - n + 1)]


class FeatureName(NamedTuple):
    """What a feature stands for: a column of numbers, or a category or a word of a column.

    >>> FeatureName("country = DE", is_number=False).text
    'country = DE'
    """

    text: str
    is_number: bool


class NamedCells(Cells):
    """Cells that write down the names of features in place of their values."""

    def __init__(self, kinds: Mapping[str, str], features: int, ngrams: int) -> None:
        super().__init__(kinds, features)
        self._size, self._ngrams = features, ngrams
        self.names: dict[int, FeatureName] = {}
        # By the feature and the name; 0 for a number.
        self.signs: dict[tuple[int, str], int] = {}

    def add_record(self, record: Any) -> None:
        """Add the names of a record."""
        if type(record) is str and record:
            self._add_words("", record, NO_COLUMN)
        else:
            super().add_record(record)

    def add_category(self, name: str, text: str) -> None:
        """Add the name of a category."""
        feature, sign = category_feature(name, text, self._size)
        self._add(feature, f"{name} = {text}" if text else f"{name} is missing", int(sign))

    def add_text(self, name: str, text: str) -> None:
        """Add the names of the words of a text."""
        self._add_words(name, text, column_seed(name))

    def add_number(self, name: str, value: Any) -> None:
        """Add the name of a column of numbers, or of the category that a value without a number is."""
        before = len(self.indices)
        super().add_number(name, value)
        if len(self.indices) > before:  # else it was added as a category
            self._add(number_feature(name, self._size), name, 0)

    def _add_words(self, name: str, text: str, seed: int) -> None:
        for token in dict.fromkeys(list_tokens(text, self._ngrams)):
            if token != text or name in self._kinds or not name:  # else it is the category, too
                h = hash_string(token, seed)
                self._add(place(h, self._size), f"{name}: {token}" if name else token, int(sign(h)))

    def _add(self, feature: int, name: str, sign: int) -> None:
        text, known, is_number = shorten(name, LONGEST), self.names.get(feature), sign == 0
        self.signs.setdefault((feature, text), sign)
        if known is None:
            self.names[feature] = FeatureName(text, is_number)
        elif text not in known.text.split(OR):
            self.names[feature] = FeatureName(known.text + OR + text, is_number or known.is_number)


def name_cells(kinds: Mapping[str, str], features: int, ngrams: int, record: Any) -> NamedCells:
    """Return the names of the features of a record; those of values that share a feature are joined by "or".

    >>> record = {"message": "Win!", "links": 3, "country": None}
    >>> sorted(name.text for name in name_cells({"message": "text"}, 2**62, 1, record).names.values())
    ['country is missing', 'links', 'message: !', 'message: win']
    """
    cells = NamedCells(kinds, features, ngrams)
    cells.add_record(record)
    return cells
