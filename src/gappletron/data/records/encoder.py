"""Records as feature vectors: dicts, rows of tables, texts, one at a time or many.

The features of a record depend on the record alone, so nothing is looked up in the rows before it, and nothing is
learned. What does depend on them, the running scale of every column, is the player's
:class:`~gappletron.data.normalization.Columns`, which is on by default where there is an encoder.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.base.text import listing
from gappletron.data.records.columns import KINDS, NO_COLUMN, Block, Cells, encode_block, to_table
from gappletron.data.records.declared import Declared
from gappletron.data.records.hashing import Hasher
from gappletron.data.records.naming import FeatureName, name_cells
from gappletron.data.vectors import Vectors, check_sizes
from gappletron.kernel.types import MOST_FEATURES, MOST_NARROW, Floats, Indices, Vector

MOST_NGRAMS = 5


class Encoder:
    """Turns records into feature vectors by hashing.

    :param text: columns of text; their words (and `ngrams`) become features.
    :param numeric: columns of numbers. Texts that are numbers are read as such, dates become seconds; other values
        count as categories.
    :param categorical: columns of categories, also where they are written as numbers.
    :param drop: columns that are ignored, such as the label.
    :param features: the number of places that everything is hashed into, where there must be few, as for a matrix. The
        default is so many that no two features share one; a model takes memory for those that come.
    :param ngrams: up to so many words in a row become a feature of their own.
    :param strict: records must have the declared columns, and no others; they are refused otherwise.
    :param names: models keep the names of the first 100,000 columns, categories and words that they learn, in plain
        text, for :meth:`gappletron.Online.feature_weights`. A record with new ones takes about 0.1 milliseconds more.

    A record is a mapping from the names of columns to values (a dict, a row of a pandas frame), a named tuple, or a
    text. Columns that are not declared go by their values: numbers and booleans are numeric; of a text, the whole and
    each of its words become features; dates are text. A missing value (None, NaN, an empty text) is a feature of its
    own. Columns and categories may appear and vanish at any time.

    With h(c) the 64-bit xxHash of the column's name, a number in column c is the value of the feature h(c), and a
    category or a word w is 1 or -1 at the hash of w with the seed h(c). :mod:`gappletron.data.records.hashing` has the
    details, which stay the same in all versions and on all platforms.

    >>> from gappletron import Encoder
    >>> encoder = Encoder(text="message")
    >>> indices, values = encoder.encode({"message": "Win a prize, win now!", "length": 21, "country": None})
    >>> values
    array([21.,  1.,  1.,  1., -1.,  1., -1., -2.])
    >>> encoder.encode("Win a prize!")  # a bare text is a column without a name
    (array([1319208283076849243, 2207892603277487288, 3403583308797759795,
           3844442086805858278]), array([-1., -1.,  1., -1.]))
    """

    def __init__(
        self,
        *,
        text: str | Iterable[str] = (),
        numeric: str | Iterable[str] = (),
        categorical: str | Iterable[str] = (),
        drop: str | Iterable[str] = (),
        features: int = MOST_FEATURES,
        ngrams: int = 1,
        strict: bool = False,
        names: bool = False,
    ) -> None:
        self.text, self.numeric = _check_names(text, "text"), _check_names(numeric, "numeric")
        self.categorical, self.drop = _check_names(categorical, "categorical"), _check_names(drop, "drop")
        self.features = whole(features, "features", least=1, most=MOST_FEATURES)
        self.ngrams = whole(ngrams, "ngrams", least=1, most=MOST_NGRAMS)
        # What each declared column is.
        self.kinds: dict[str, str] = {}
        for kind in KINDS:
            for name in getattr(self, kind):
                if name in self.kinds:
                    raise UserError(f"the column {name!r} is both {self.kinds[name]} and {kind}: name it once")
                self.kinds[name] = kind
        for option, given in {"strict": strict, "names": names}.items():
            if type(given) is not bool:
                raise UserError(f"{option} must be True or False, not {given!r}")
        self.strict, self.names, self._declared = strict, names, Declared(self.kinds)
        if strict and not self._declared.needed:
            raise UserError("no columns are declared, so there is nothing to be strict about: give text, numeric, ...")
        self._hasher = Hasher(self.features, self.ngrams)

    # ------------------------------------------------------------------------------------------------------- as a value

    def to_dict(self) -> dict[str, Any]:
        """Return the encoder as plain values, for JSON.

        >>> Encoder(text="message").to_dict()["text"]
        ['message']
        """
        columns = {kind: list(getattr(self, kind)) for kind in KINDS}
        return columns | self._settings

    @property
    def _settings(self) -> dict[str, Any]:
        """What is said of all columns."""
        return {"features": self.features, "ngrams": self.ngrams, "strict": self.strict, "names": self.names}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the encoder that :meth:`to_dict` was called on.

        >>> Encoder.from_dict(Encoder(text="message").to_dict())
        Encoder(text=['message'])
        """
        return cls(**data)

    def declaring(self, kinds: Mapping[str, str]) -> "Encoder":
        """Return the same encoder with these kinds for columns that it does not declare itself.

        >>> Encoder(text="message").declaring({"message": "categorical", "age": "numeric"})
        Encoder(text=['message'], numeric=['age'])
        """
        merged = {**kinds, **self.kinds}
        columns: dict[str, Any] = {kind: [name for name in merged if merged[name] == kind] for kind in KINDS}
        return Encoder(**columns, **self._settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoder) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((*self.kinds.items(), self.features, self.ngrams))

    def __repr__(self) -> str:
        plain = {"text": [], "numeric": [], "categorical": [], "drop": [], "features": MOST_FEATURES, "ngrams": 1}
        plain |= {"strict": False, "names": False}
        changed = (f"{name}={value!r}" for name, value in self.to_dict().items() if value != plain[name])
        return f"Encoder({', '.join(changed)})"

    def __reduce__(self) -> Any:
        return Encoder.from_dict, (self.to_dict(),)

    # --------------------------------------------------------------------------------------------------------- encoding

    def encode(self, record: Any) -> tuple[NDArray[np.int64], Floats]:
        """Return the features of one record: increasing indices, and their values."""
        return self._encode_one(record)[:2]

    def encode_many(self, records: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """Return the features of many records as a compressed sparse row matrix: indptr, indices, values.

        :param records: a frame of pandas or polars, a pyarrow table, or a list (or other sequence) of records or of
            texts.

        >>> indptr, indices, values = Encoder().encode_many([{"age": 41}, {"age": 37, "city": "Bonn"}])
        >>> indptr
        array([0, 1, 4])
        """
        return self._encode_all(records)[:3]

    def find_names(self, record: Any) -> dict[int, str]:
        """Return what each feature of a record stands for; names of values that share a feature are joined by "or".

        >>> sorted(Encoder(text="message").find_names({"message": "Win a prize", "links": 3}).values())
        ['links', 'message: a', 'message: prize', 'message: win']
        """
        return {feature: name.text for feature, name in self.name_features(record).items()}

    def name_features(self, record: Any) -> dict[int, FeatureName]:
        """Return what each feature of a record stands for, and whether that is a number."""
        return name_cells(self.kinds, self.features, self.ngrams, record).names

    def sign_names(self, record: Any) -> dict[tuple[int, str], int]:
        """Return the names of the features of a record, each as a pair of the feature and its name, with the value of
        the feature where the name occurs once: 1 or -1 by the hash; 0 for a column of numbers.
        """
        return name_cells(self.kinds, self.features, self.ngrams, record).signs

    def matrix(self, records: Any) -> Any:
        """Return the features of many records, given as to :meth:`encode_many`, as a SciPy sparse matrix.

        >>> Encoder(features=100).matrix([{"age": 41}, {"age": 37, "city": "Bonn"}]).shape
        (2, 100)
        """
        from scipy.sparse import csr_array

        indptr, indices, values = self.encode_many(records)
        return csr_array((values, indices, indptr), shape=(len(indptr) - 1, self.features))

    def vector(self, record: Any) -> Vector:
        """Return the features of one record, ready to be played."""
        indices, values, squared = self._encode_one(record)
        found = Vector(self._narrow(indices), values, squared)
        check_sizes(*found)
        return found

    def vectors(self, records: Any) -> Vectors:
        """Return the features of many records, given as to :meth:`encode_many`, ready to be played."""
        indptr, indices, values, squared = self._encode_all(records)
        found = Vectors(indptr, self._narrow(indices), values, squared)
        check_sizes(found.indices, found.values, found.squared.max(initial=0.0))
        return found

    def _narrow(self, indices: NDArray[np.int64]) -> Indices:
        """Return indices in the type that a player with so many features takes."""
        return indices.astype(np.int32) if self.features <= MOST_NARROW else indices

    def _encode_all(self, records: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
        """Return indptr, indices, values, and ||x||^2 of each row."""
        table = None if isinstance(records, Block) else to_table(records)
        block = records if isinstance(records, Block) else Block(list_records(records) if table is None else table)
        if not isinstance(block.rows, list):
            if self.strict:
                self._declared.check_table(block.rows)
            parts, rows = encode_block(self.kinds, self._hasher, block), block.rows.num_rows
        else:
            cells = Cells(self.kinds, self.features)
            for record in block.rows:
                if self.strict:
                    self._declared.check(record)
                cells.add_record(record)
            parts, rows = cells.encode(self._hasher), len(block.rows)
        return self._hasher.merge_parts(parts, rows)

    def _encode_one(self, record: Any) -> tuple[NDArray[np.int64], Floats, float]:
        """Return indices, values, and ||x||^2."""
        if self.strict:
            self._declared.check(record)
        if type(record) is str and record:
            return self._hasher.hash_row([], [], [NO_COLUMN], [record])
        cells = Cells(self.kinds, self.features)
        cells.add_record(record)
        return self._hasher.hash_row(cells.indices, cells.values, cells.seeds, cells.texts)


def list_records(records: Any) -> list[Any]:
    """Return many records as a list."""
    if isinstance(records, str | bytes | Mapping):
        raise UserError("expected many records, not one: put it in a list, or use predict or act")
    if hasattr(records, "columns") and hasattr(records, "to_dict"):  # a pandas frame that Arrow cannot hold
        return [dict(zip(map(str, records.columns), row, strict=True)) for row in records.itertuples(index=False)]
    try:
        return list(records)
    except TypeError:
        raise UserError(f"a {type(records).__name__} is not a sequence of records: give a list or a frame") from None


def _check_names(given: Any, kind: str) -> tuple[str, ...]:
    """Return the names of the columns that were declared to be of this kind."""
    names = [given] if isinstance(given, str) else given
    try:
        found = tuple(names)
    except TypeError:
        raise UserError(f"{kind} must be the name of a column or a list of names, not {given!r}") from None
    wrong = [name for name in found if not isinstance(name, str)]
    if wrong:
        raise UserError(f"{kind} has {listing(wrong)}: names of columns are texts")
    return found
