"""The streams: real ones from `../shared/data` where that folder is there, else those that the dependencies bundle.

A stream comes in three forms. "raw" is what the file holds. "prepared" is what the recorded errors of peers were
measured on: text as log(1 + count), numbers divided by the largest size in the first 500 rows and cut to [-3, 3], rows
of length 1, and a constant feature. "natural" is raw too, of the streams whose rows are in the order of their time.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"
TEXT = {"sms_spam": 16384, "spamassassin_stream": 39916, "reuters21578": 65536, "news20": 65536, "banking77": 16384}
NUMBERS = ("spambase", "letter", "covtype_half")
SHUFFLED = {"covtype_half": 60_000}
"""Streams whose rows are shuffled and cut to so many: the labels of covtype are strongly autocorrelated."""
WARM_UP = 500
"""The rows whose largest sizes scale a column of numbers."""
FORMS = ("prepared", "raw", "natural")
TABLES = {"elec": "class", "gas": "gas", "occupancy": "Occupancy", "outdoor": "label"}
"""Tables of numbers in the order of their time, and their columns of labels."""
NATURAL = (*TABLES, "spamassassin_stream", "reuters21578")


class Stream(NamedTuple):
    """Rows (CSR), their labels 0, ..., K - 1, and K."""

    name: str
    rows: Any
    labels: NDArray[np.int64]
    classes: int

    @property
    def rounds(self) -> int:
        """The number of rows."""
        return len(self.labels)

    @property
    def most_frequent(self) -> int:
        """The most frequent class of the whole stream, which reveals on the filtering graph."""
        return int(np.bincount(self.labels, minlength=self.classes).argmax())

    def first(self, rounds: int) -> Stream:
        """The first rounds only."""
        return self._replace(rows=self.rows[:rounds], labels=self.labels[:rounds])


# ---------------------------------------------------------------------------------------------------------- preparation


def log_counts(rows: Any) -> Any:
    """Each count c as log(1 + c)."""
    changed = rows.copy()
    changed.data = np.log1p(changed.data)
    return changed


def scaled_columns(rows: Any) -> Any:
    """Each column divided by its largest size in the first rows, and cut to [-3, 3]."""
    largest = np.asarray(abs(rows[:WARM_UP]).max(axis=0).todense()).ravel()
    divisors = np.where(largest == 0, 1.0, largest)
    changed = (rows @ sparse.diags(1.0 / divisors)).tocsr()
    changed.data = np.clip(changed.data, -3.0, 3.0)
    return changed


def unit_rows(rows: Any) -> Any:
    """Each row divided by its Euclidean length; rows of zeros stay."""
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return (sparse.diags(1.0 / np.where(lengths == 0, 1.0, lengths)) @ rows).tocsr()


def with_constant(rows: Any) -> Any:
    """One more column, of ones."""
    return sparse.hstack([rows, np.ones((rows.shape[0], 1))]).tocsr()


def prepared(raw: Stream, is_text: bool) -> Stream:
    """The stream as the recorded errors of peers were measured on it."""
    rows = log_counts(raw.rows) if is_text else scaled_columns(raw.rows)
    rows.eliminate_zeros()
    rows = with_constant(unit_rows(rows))
    rows.sort_indices()
    return raw._replace(rows=rows)


# -------------------------------------------------------------------------------------------------------------- reading


def from_folder(name: str) -> Stream:
    """A stream of `../shared/data`."""
    from sklearn.datasets import load_svmlight_file

    rows, labels = load_svmlight_file(str(FOLDER / f"{name}.svm.gz"), n_features=TEXT.get(name), zero_based=False)
    stream = Stream(name, rows.tocsr(), labels.astype(np.int64), classes_of(name))
    if name not in SHUFFLED:
        return stream
    order = np.random.default_rng(0).permutation(stream.rounds)[: SHUFFLED[name]]
    return stream._replace(rows=stream.rows[order], labels=stream.labels[order])


def from_table(name: str) -> Stream:
    """A table of `../shared/data`. A zero is a value like any other, so zeros are stored."""
    from pyarrow import csv

    table = csv.read_csv(FOLDER / f"{name}.csv.gz")
    classes, labels = np.unique(table[TABLES[name]].to_pylist(), return_inverse=True)
    values = np.column_stack([column.to_numpy() for column in table.drop_columns(TABLES[name]).columns]).astype(float)
    count, width = values.shape
    places = np.tile(np.arange(width, dtype=np.int32), count)
    rows = sparse.csr_matrix((values.ravel(), places, np.arange(0, values.size + 1, width)), shape=values.shape)
    return Stream(name, rows, labels.astype(np.int64), len(classes))


def from_scikit_learn(load: Callable[..., Any], name: str) -> Stream:
    """A data set that scikit-learn bundles, shuffled, since some are sorted by label."""
    rows, labels = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return Stream(name, sparse.csr_matrix(rows[order]), labels[order].astype(np.int64), int(labels.max()) + 1)


def from_river(name: str) -> Stream:
    """A data set that River bundles, with features that are numbers, in its own order."""
    from river import datasets

    pairs = list(getattr(datasets, name)())
    columns = sorted(pairs[0][0])
    rows = np.array([[float(x[column]) for column in columns] for x, _ in pairs])
    _, labels = np.unique([str(y) for _, y in pairs], return_inverse=True)
    return Stream(name, sparse.csr_matrix(rows), labels.astype(np.int64), int(labels.max()) + 1)


def bundled() -> dict[str, Callable[[], Stream]]:
    """The streams that need no download, by name."""
    from sklearn.datasets import load_breast_cancer, load_digits

    found = {
        "digits": lambda: from_scikit_learn(load_digits, "digits"),
        "breast_cancer": lambda: from_scikit_learn(load_breast_cancer, "breast_cancer"),
    }
    try:
        import river  # noqa: F401 - is it there?
    except ImportError:
        return found
    more = {name: functools.partial(from_river, name) for name in ("Phishing", "ImageSegments", "Bananas")}
    return found | more


def names() -> list[str]:
    """The streams that can be played here."""
    found = [name for name in (*TEXT, *NUMBERS) if (FOLDER / f"{name}.svm.gz").exists()]
    return found or list(bundled())


def natural_names() -> list[str]:
    """The streams in the order of their time that can be played here."""
    return [name for name in NATURAL if any(FOLDER.glob(f"{name}.*.gz"))]


def classes_of(name: str) -> int:
    """The number of classes of a stream, without reading its rows where a file says it."""
    path = FOLDER / f"{name}.labels.txt"
    return len(path.read_text().strip("\n").split("\n")) if path.exists() else load(name).classes


@functools.lru_cache(maxsize=2)
def load(name: str, form: str = "prepared") -> Stream:
    """A stream by its name, in one of the forms."""
    if name in TABLES:
        return from_table(name)
    raw = from_folder(name) if (FOLDER / f"{name}.svm.gz").exists() else bundled()[name]()
    return prepared(raw, name in TEXT) if form == "prepared" else raw


# ------------------------------------------------------------------------------------------- a stream that begins badly


def moved_to_front(stream: Stream, label: int, count: int) -> Stream:
    """The same rows with the first `count` rows of one class at the beginning."""
    early = np.flatnonzero(stream.labels == label)[:count]
    late = np.setdiff1d(np.arange(stream.rounds), early)
    order = np.concatenate([early, late])
    return stream._replace(name=f"{stream.name}, a bad start", rows=stream.rows[order], labels=stream.labels[order])
