"""The names that a model with ``Encoder(names=True)`` keeps: what was hashed to the features that it has weights for.

A feature is a hash, which cannot be turned back, so names are written down when their records come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.data.records.encoder import Encoder
from gappletron.kernel.types import MOST_FEATURES, Indices

# So many names are kept; those that come later are not.
MOST_KEPT = 100_000
DAMAGED = "the names of the features are damaged"


class KeptName(NamedTuple):
    """The name of a feature, and its value where the name occurs once: 1 or -1 by the hash, 0 for a column of numbers.

    >>> KeptName(7, "links", 0).is_number
    True
    """

    feature: int
    text: str
    sign: int

    @property
    def is_number(self) -> bool:
        """Whether the feature is a column of numbers."""
        return self.sign == 0


class KeptNames:
    """At most `most` names, in the order in which they came.

    >>> names = KeptNames(most=3)
    >>> names.take(Encoder(text="message"), [{"message": "win a prize", "links": 3}])
    >>> [name.text for name in names], names.is_full
    (['message: win', 'message: a', 'message: prize'], True)
    """

    def __init__(self, found: Iterable[KeptName] = (), *, most: int = MOST_KEPT) -> None:
        self._most = most
        self._names: dict[tuple[int, str], KeptName] = {}
        self._features: set[int] = set()
        self.add(found)

    def __iter__(self) -> Any:
        return iter(self._names.values())

    def __len__(self) -> int:
        return len(self._names)

    @property
    def is_full(self) -> bool:
        """Whether no further name is kept."""
        return len(self._names) >= self._most

    def copy(self) -> KeptNames:
        """Return a copy that shares nothing that changes."""
        return KeptNames(self, most=self._most)

    def add(self, found: Iterable[KeptName]) -> None:
        """Keep these names, as long as there is room."""
        for name in found:
            if self.is_full:
                return
            self._names.setdefault((name.feature, name.text), name)
            self._features.add(name.feature)

    def take(self, encoder: Encoder, records: Iterable[Any], rows: Sequence[Indices] | None = None) -> None:
        """Keep the names of records, as long as there is room."""
        self.add(self.find_new(encoder, records, rows))

    def find_new(
        self, encoder: Encoder, records: Iterable[Any], rows: Sequence[Indices] | None = None
    ) -> list[KeptName]:
        """Return the names of records that are not kept yet, at most as many as there is room for.

        :param rows: the features of each record, where they are known: a record that has no new one is quickly done.
        """
        found: dict[tuple[int, str], KeptName] = {}
        features: set[int] = set()
        has_own = encoder.features == MOST_FEATURES  # else several names may share a feature
        room = self._most - len(self._names)
        for place, record in enumerate(records if room > 0 else ()):
            if rows is not None and has_own and set(rows[place].tolist()).difference(self._features) <= features:
                continue
            for (feature, text), sign in encoder.sign_names(record).items():
                if (feature, text) not in self._names:
                    found.setdefault((feature, text), KeptName(feature, text, sign))
                    features.add(feature)
            if len(found) >= room:
                break
        return list(found.values())[:room]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the names as arrays for a file."""
        texts = json.dumps([name.text for name in self]).encode()
        return {
            "names.features": np.array([name.feature for name in self], np.int64),
            "names.signs": np.array([name.sign for name in self], np.int64),
            "names.texts": np.frombuffer(texts, np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> KeptNames:
        """Return the names of :meth:`to_arrays`, checked.

        >>> names = KeptNames([KeptName(7, "links", 0)])
        >>> list(KeptNames.from_arrays(names.to_arrays())) == list(names)
        True
        """
        try:
            columns = arrays["names.features"], arrays["names.signs"]
            texts = json.loads(arrays["names.texts"].tobytes())
            if any(column.dtype != np.int64 for column in columns) or not isinstance(texts, list):
                raise UserError(DAMAGED)
            rows = zip(columns[0].tolist(), texts, columns[1].tolist(), strict=True)
            return cls(check_names(rows))
        except (LookupError, ValueError, TypeError, RecursionError):
            raise UserError(DAMAGED) from None


def check_names(rows: Iterable[Any]) -> list[KeptName]:
    """Return rows of features, texts and signs as names; a ValueError where they are none."""
    found = [KeptName(*row) for row in rows]
    for feature, text, sign in found:
        if type(feature) is not int or type(text) is not str or not 0 <= feature < MOST_FEATURES:
            raise ValueError(DAMAGED)
        if type(sign) is not int or abs(sign) > 1:
            raise ValueError(DAMAGED)
    return found
