"""Records as feature vectors: dicts, rows of tables, texts, one at a time or many.

The features of a record depend on the record alone, so nothing is looked up in the rows before it, and nothing is
learned. What does depend on them, the running scale of every column, is the player's
:class:`~gappletron.data.normalization.Columns`, which is on by default where there is an encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.base.text import listing
from gappletron.data.records.batches import as_batch, encode_batch
from gappletron.data.records.cells import CATEGORICAL, DROP, KINDS, NUMERIC, TEXT, Spec, cells_of
from gappletron.data.records.hashing import Entries, OneRow, hash_records, texts_of
from gappletron.kernel.numerics import Floats

__all__ = ["Encoder"]

MOST_FEATURES = 2**24
MOST_NGRAMS = 5
NO_COLUMN = 0
"""The seed of a text without columns: the hash of an empty name."""


class Encoder:
    """Turns records into feature vectors by hashing.

    :param text: columns of text; their words (and `ngrams`) become features.
    :param numeric: columns of numbers. Texts that are numbers are read as such, dates become seconds; other values
        count as categories.
    :param categorical: columns of categories, also where they are written as numbers.
    :param drop: columns that are ignored, such as the label.
    :param features: the number of features that everything is hashed into.
    :param ngrams: up to so many words in a row become a feature of their own.

    A record is a mapping from the names of columns to values (a dict, a row of a pandas frame), a named tuple, or a
    text. Columns that are not declared go by their values: numbers and booleans are numeric; of a text, the whole and
    each of its words become features; dates are text. A missing value (None, NaN, an empty text) is a feature of its
    own. Columns and categories may appear and vanish at any time.

    With h(c) the 32-bit MurmurHash3 of the column's name, a number in column c is the value of the feature h(c), and a
    category or a word w is 1 or -1 at the hash of w with the seed h(c). :mod:`gappletron.data.records.hashing` has the
    details, which stay the same in all versions and on all platforms.

    >>> from gappletron import Encoder
    >>> encoder = Encoder(text="message")
    >>> indices, values = encoder.encode({"message": "Win a prize, win now!", "length": 21, "country": None})
    >>> values
    array([-1., -1., -1.,  1., -1., 21.,  1., -2.])
    >>> encoder.encode("Win a prize!")  # a bare text is a column without a name
    (array([ 92594, 138484, 182662, 221993], dtype=int32), array([ 1.,  1., -1.,  1.]))
    """

    def __init__(
        self,
        *,
        text: str | Iterable[str] = (),
        numeric: str | Iterable[str] = (),
        categorical: str | Iterable[str] = (),
        drop: str | Iterable[str] = (),
        features: int = 2**18,
        ngrams: int = 1,
    ) -> None:
        self.text, self.numeric = _column_names(text, TEXT), _column_names(numeric, NUMERIC)
        self.categorical, self.drop = _column_names(categorical, CATEGORICAL), _column_names(drop, DROP)
        self.features = whole(features, "features", least=1, most=MOST_FEATURES)
        self.ngrams = whole(ngrams, "ngrams", least=1, most=MOST_NGRAMS)
        self.kinds: dict[str, str] = {}
        """What each declared column is."""
        for kind in KINDS:
            for name in getattr(self, kind):
                if name in self.kinds:
                    raise UserError(
                        f"the column {name!r} is declared as {self.kinds[name]} and as {kind}: name it once"
                    )
                self.kinds[name] = kind
        self._one = OneRow()
        self.spec = Spec(self.kinds, self.features, self.ngrams)

    # ------------------------------------------------------------------------------------------------------- as a value

    def to_dict(self) -> dict[str, Any]:
        """The encoder as plain values, for JSON.

        >>> Encoder(text="message").to_dict()["text"]
        ['message']
        """
        return {kind: list(getattr(self, kind)) for kind in KINDS} | {"features": self.features, "ngrams": self.ngrams}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Encoder:
        """The encoder that :meth:`to_dict` was called on.

        >>> Encoder.from_dict(Encoder(text="message").to_dict())
        Encoder(text=['message'])
        """
        return cls(**data)

    def declaring(self, kinds: Mapping[str, str]) -> Encoder:
        """The same encoder with these kinds for columns that it does not declare itself.

        >>> Encoder(text="message").declaring({"message": "categorical", "age": "numeric"})
        Encoder(text=['message'], numeric=['age'])
        """
        merged = {**kinds, **self.kinds}
        columns = {kind: [name for name in merged if merged[name] == kind] for kind in KINDS}
        return Encoder(**columns, features=self.features, ngrams=self.ngrams)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoder) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((*self.kinds.items(), self.features, self.ngrams))

    def __repr__(self) -> str:
        plain = {"text": [], "numeric": [], "categorical": [], "drop": [], "features": 2**18, "ngrams": 1}
        changed = (f"{name}={value!r}" for name, value in self.to_dict().items() if value != plain[name])
        return f"Encoder({', '.join(changed)})"

    def __reduce__(self) -> Any:
        return Encoder.from_dict, (self.to_dict(),)

    # --------------------------------------------------------------------------------------------------------- encoding

    def encode(self, record: Any) -> tuple[NDArray[np.int32], Floats]:
        """The features of one record: increasing indices, and their values."""
        if is_bare_text(record):
            return self._one.text(record, NO_COLUMN, self.ngrams, self.features)
        cells = cells_of(self.spec, record)
        indices = np.array([index for index, _ in cells.entries], np.int32)
        values = np.array([value for _, value in cells.entries], np.float64)
        if cells.texts:
            parts = [self._one.text(text, seed, self.ngrams, self.features) for seed, text in cells.texts]
            indices = np.concatenate([indices, *(part[0] for part in parts)])
            values = np.concatenate([values, *(part[1] for part in parts)])
        return self._one.settled(indices, values)

    def matrix(self, records: Any) -> Any:
        """The features of many records, given as to :meth:`encode_many`, as a SciPy sparse matrix.

        >>> Encoder(features=100).matrix([{"age": 41}, {"age": 37, "city": "Bonn"}]).shape
        (2, 100)
        """
        from scipy.sparse import csr_array

        indptr, indices, values = self.encode_many(records)
        return csr_array((values, indices, indptr), shape=(len(indptr) - 1, self.features))

    def encode_many(self, records: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """The features of many records as a compressed sparse row matrix: indptr, indices, values.

        :param records: a frame of pandas or polars, a pyarrow table, or a list (or other sequence) of records or of
            texts.

        >>> indptr, indices, values = Encoder().encode_many([{"age": 41}, {"age": 37, "city": "Bonn"}])
        >>> indptr
        array([0, 1, 4])
        """
        batch = as_batch(records)
        if batch is not None:
            return encode_batch(self.spec, batch)
        return encode_records(self.spec, _listed(records))


def is_bare_text(record: Any) -> bool:
    """Whether a record is a text without columns: its words are its features, and the whole is not."""
    return type(record) is str and record != ""


def encode_records(spec: Spec, records: Iterable[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """The features of records one after another, their words hashed in one call: indptr, indices, values."""
    numbers: list[int] = []
    indices: list[int] = []
    values: list[float] = []
    counts: list[int] = []
    seeds: list[int] = []
    texts: list[str] = []
    for record in records:
        if is_bare_text(record):
            numbers.append(0)
            counts.append(1)
            seeds.append(NO_COLUMN)
            texts.append(record)
            continue
        cells = cells_of(spec, record)
        numbers.append(len(cells.entries))
        counts.append(len(cells.texts))
        for index, value in cells.entries:
            indices.append(index)
            values.append(value)
        for seed, text in cells.texts:
            seeds.append(seed)
            texts.append(text)
    others = Entries(np.array(numbers, np.int64), np.array(indices, np.int32), np.array(values, np.float64))
    return hash_records(others, texts_of(counts, seeds, texts), spec.ngrams, spec.features)


def joined_rows(
    rows: Sequence[tuple[NDArray[np.int32], Floats]],
) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """Feature vectors as a compressed sparse row matrix: indptr, indices, values.

    >>> joined_rows([(np.array([3], np.int32), np.ones(1)), (np.array([], np.int32), np.ones(0))])[0]
    array([0, 1, 1])
    """
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([indices.size for indices, _ in rows], out=indptr[1:])
    indices = np.concatenate([np.zeros(0, np.int32), *(part for part, _ in rows)])
    values = np.concatenate([np.zeros(0), *(part for _, part in rows)])
    return indptr, indices, values


def _listed(records: Any) -> Iterable[Any]:
    if isinstance(records, str | bytes | Mapping):
        raise UserError("expected many records, not one: put it in a list")
    if hasattr(records, "columns") and hasattr(records, "to_dict"):  # a pandas frame that Arrow cannot hold
        return [dict(zip(map(str, records.columns), row, strict=True)) for row in records.itertuples(index=False)]
    try:
        return list(records)
    except TypeError:
        raise UserError(f"a {type(records).__name__} is not a sequence of records: give a list or a frame") from None


def _column_names(given: Any, kind: str) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    try:
        found = tuple(names)
    except TypeError:
        raise UserError(f"{kind} must be the name of a column or a list of names, not {given!r}") from None
    wrong = [name for name in found if not isinstance(name, str)]
    if wrong:
        raise UserError(f"{kind} has {listing(wrong)}: names of columns are texts")
    return found
