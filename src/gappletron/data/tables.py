"""Streams of records: tables in files, and records in memory, encoded as they are played."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, label as checked_label, labels
from gappletron.base.errors import UserError
from gappletron.base.text import listing, shorten, unknown
from gappletron.data import sources
from gappletron.data.readers import READERS, VW_LABEL, Source, first_bytes, format_in, format_of, looks_like
from gappletron.data.records.batches import as_batch, is_text, plain_column, texts_of_column
from gappletron.data.records.cells import CATEGORICAL, DROP, NUMERIC, TEXT, is_record
from gappletron.data.records.encoder import Encoder
from gappletron.data.records.values import is_missing, number_of, text_of
from gappletron.data.stream import (
    CHUNK,
    Chunk,
    Stream,
    frozen,
    label_positions,
    plain_names,
    plain_numbers,
    two_classes,
)

__all__ = ["RecordStream", "TableFile"]

MOST_CLASSES = 100_000
SAMPLED = 2000
"""Values of a column that are looked at to tell what it is."""
MOSTLY = 0.9
"""A column is numeric where at least this share of its values are numbers; the others count as categories."""
WORDS = 3.0
"""A column of texts, not of categories, has at least so many words in the mean."""


INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
"""Names of columns in which pandas writes the numbers of its rows; they are dropped unless they are declared."""


class Scan(NamedTuple):
    """What a scan of a table finds: the number of rows, and the labels, sorted."""

    rows: int
    labels: tuple[str, ...]


class TableFile(Stream):
    """The rows of a table in a file, one round each: CSV, TSV, JSON lines, Parquet or Vowpal Wabbit's text.

    :param path: of the file, plain or compressed by gzip or zstd; ``-`` for the standard input.
    :param label: the column of the labels (not for Vowpal Wabbit's text, which has one).
    :param format: ``"csv"``, ``"tsv"``, ``"jsonl"``, ``"parquet"`` or ``"vw"``.
    :param encoder: how the other columns become features. What it does not declare is found in the first block: a
        column of numbers is numeric, one with three words per value or more, or with dates, is text, others are
        categorical.
    :param columns: the names of the columns of a CSV file without a header.
    :param classes: the labels, as text. By default they are found by a first scan of the file. A pipe cannot be
        scanned: there, classes are added in the order in which they come.
    :param max_norm: the largest norm of a row, where it is known.
    :param required: columns that must be there, in a format with a header.

    The classes are the labels' own text: ``"1"``, not 1.

    >>> import pathlib, tempfile
    >>> from gappletron.data.open import TableFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "mails.tsv")
    ...     _ = path.write_text("label\\tmessage\\nham\\tsee you at five\\nspam\\twin a big prize\\n")
    ...     stream = TableFile(path, "label", format="tsv")
    ...     stream.prepare()
    ...     stream.classes, stream.rounds, stream.encoder
    (('ham', 'spam'), 2, Encoder(text=['message'], drop=['label']))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        label: str | None,
        *,
        format: str,
        encoder: Encoder | None = None,
        columns: Iterable[str] | None = None,
        classes: Iterable[Any] | None = None,
        max_norm: float | None = None,
        required: Iterable[str] = (),
    ) -> None:
        if format not in READERS:
            raise unknown(format, "format", list(READERS))
        if columns is not None and format not in ("csv", "tsv"):
            raise UserError(
                f"columns name those of a CSV file without a header, not of a {format} file: leave them out"
            )
        path = os.fsdecode(path)
        self.path, self.format = path, format
        self.name = "standard input" if path == "-" else path
        self.max_norm = max_norm
        self._pipe = sources.is_pipe(path)
        self._source = Source(path, self.name, None if columns is None else tuple(columns))
        self.label = VW_LABEL if format == "vw" else label
        self._required = tuple(required)
        self._encoder = encoder or Encoder()
        declared = self._encoder.kinds.get(self.label or "", DROP)
        if self.label is not None and declared != DROP:
            raise UserError(
                f"the column {self.label!r} holds the labels and is declared as {declared}, which would show them to "
                "the learner: declare other columns"
            )
        self._ready: Encoder | None = None
        self._classes = None if classes is None else two_classes(_names(classes))
        self._found: dict[str, None] = {}
        self.classes_given = classes is not None
        self._scan: Scan | None = None
        self._blocks: Iterator[Any] | None = None
        self._waiting: list[Any] = []

    @property
    def features(self) -> int:  # type: ignore[override]
        """Those of the encoder."""
        return self._encoder.features

    @property
    def encoder(self) -> Encoder:  # type: ignore[override]
        """The encoder, with every column of the first block declared."""
        if self._ready is None:
            self.prepare()
        return self._ready or self._encoder

    @property
    def is_open(self) -> bool:  # type: ignore[override]
        """Whether classes are added as they come."""
        return self._pipe and self._classes is None

    @property
    def classes(self) -> tuple[Label, ...]:  # type: ignore[override]
        """The classes that were given or found; of a pipe, those that have come so far."""
        if self._classes is not None:
            return self._classes
        self.prepare()
        return tuple(self._found) if self._scan is None else self._scan.labels

    @property
    def rounds(self) -> int | None:  # type: ignore[override]
        """The number of rows, where the file is scanned for its classes."""
        self.prepare()
        return None if self._scan is None else self._scan.rows

    def prepare(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Look at the first block, and scan the file for its classes where they were not given."""
        if self._ready is None:
            self._look()
        if self._classes is None and self._scan is None and not self._pipe:
            self._scan = self._scanned(progress)

    def _look(self) -> None:
        """Read the first block, and on a pipe as many as hold two classes."""
        self._blocks = READERS[self.format](self._source)
        first = next(self._blocks, None)
        if first is None:
            raise UserError(f"{self.name} has no rows: a table needs at least one")
        self._check_label(first)
        self._waiting = [first]
        encoder = self._encoder.declaring({self.label or "": "drop"})
        self._ready = encoder.declaring(kinds_of(first, encoder))
        if self.is_open:
            self._note_classes(first)
            while len(self._found) < 2:
                block = next(self._blocks, None)
                if block is None:
                    raise UserError(
                        f"{self.name} has only the label {next(iter(self._found))!r}: a stream needs at least 2 "
                        "classes, name all of them with --classes (classes=)"
                    )
                self._waiting.append(block)
                self._note_classes(block)

    def _check_label(self, block: Any) -> None:
        """A table without labels, or without this column, cannot be played."""
        known = list(block[0]) if isinstance(block, list) else list(block.schema.names)
        if self.label is None:
            raise UserError(
                f"{self.name} is a table: name the column of its labels with --label, or in Python with "
                f"open_stream(..., label=...), one of {listing(known)}"
            )
        if self.label not in known:
            if self.format == "vw":
                raise UserError(f"{self.name}, line 1 has no label in front of the first '|': write one")
            hint = ""
            if self.format in ("csv", "tsv") and self._source.columns is None:
                hint = "; if the file has no header, name its columns with --columns (columns=)"
                first = b"" if self._pipe else first_bytes(self._source)
                if format_in(first) in ("jsonl", "parquet", "vw"):
                    raise UserError(f"{self.name} is read as {self.format.upper()}, but {looks_like(first)}")
            error = unknown(self.label, f"column in {self.name} called", known)
            raise UserError(f"{error}{hint}")
        missing = [name for name in self._required if name not in known]
        if missing and not isinstance(block, list):
            raise unknown(missing[0], f"column in {self.name} called", known)

    def _note_classes(self, block: Any) -> None:
        for text in self._labels_in(block, 0).names:
            self._found.setdefault(text)

    def _scanned(self, progress: Callable[[int, int], None] | None) -> Scan:
        """Read the labels of the whole file."""
        rows, found = 0, set()
        for block in READERS[self.format](self._source, progress):
            here = self._labels_in(block, rows)
            found.update(here.names)
            rows += len(here.places)
            if len(found) > MOST_CLASSES:
                raise UserError(
                    f"{self.name} has more than {MOST_CLASSES:,} distinct labels in the column {self.label!r}, which "
                    "looks like regression or an identifier: labels must be classes"
                )
        if len(found) < 2:
            raise UserError(
                f"{self.name} has only the label {next(iter(found))!r}: a stream needs at least 2 classes, name all of "
                "them with --classes (classes=)"
            )
        return Scan(rows, tuple(sorted(found, key=_as_number_or_text)))

    def _labels_in(self, block: Any, rows: int) -> Labels:
        """The labels of a block, which begins after so many rows; every row must have one."""
        here = labels_of(block, self.label or "")
        if "" in here.names:
            row = int(np.argmax(here.places == here.names.index("")))
            raise UserError(
                f"{self.name}, row {rows + row + 1:,} has no label in the column {self.label!r}: drop the row, or use "
                "gappletron predict for rows without labels"
            )
        if self.label in here.names and not isinstance(block, list):
            row = int(np.argmax(here.places == here.names.index(self.label)))
            names = block.schema.names
            if all(text_of(block.column(place)[row].as_py()) == name for place, name in enumerate(names)):
                raise UserError(
                    f"{self.name}, row {rows + row + 1:,} repeats the header: remove it (files that were joined have "
                    "it several times)"
                )
        return here

    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning; a pipe can be read only once."""
        self.prepare()
        if self._blocks is None:
            if self._pipe:
                raise UserError(
                    f"{self.name} is a pipe and was read already: write it to a file first to play it more than once"
                )
            blocks, waiting = READERS[self.format](self._source), []
        else:
            blocks, waiting = self._blocks, self._waiting
        self._blocks, self._waiting = None, []
        return self._played(waiting, blocks)

    def _played(self, waiting: list[Any], blocks: Iterator[Any]) -> Iterator[Chunk]:
        rows = 0
        for block in _chained(waiting, blocks):
            positions = self._positions(self._labels_in(block, rows), rows)
            indptr, indices, values = self.encoder.encode_many(block)
            for start in range(0, len(positions), CHUNK):
                stop = min(start + CHUNK, len(positions))
                first, last = indptr[start], indptr[stop]
                yield frozen(
                    indptr[start : stop + 1] - first, indices[first:last], values[first:last], positions[start:stop]
                )
            rows += len(positions)
        if self._scan is not None and rows != self._scan.rows:
            raise UserError(
                f"{self.name} had {self._scan.rows} rows when it was scanned and now has {rows}: the file has changed, "
                "open it again"
            )

    def _positions(self, here: Labels, rows: int) -> NDArray[np.int64]:
        """The labels of a block as positions in the classes."""
        if self.is_open:
            for name in here.names:
                self._found.setdefault(name)
        place = {name: position for position, name in enumerate(self.classes)}
        for number, name in enumerate(here.names):
            if name not in place:
                row = int(np.argmax(here.places == number))
                raise UserError(
                    f"{self.name}, row {rows + row + 1:,} has the label {shorten(name)!r}, which is not among the "
                    f"classes {listing(self.classes)}: add it to --classes (classes=), or drop the row"
                )
        return np.array([place[name] for name in here.names], np.int64)[here.places]


class RecordStream(Stream):
    """Records in memory, and a label for each: a frame of pandas or polars, a list of dicts or of texts.

    :param encoder: how records become features; by default by the types of their values.

    >>> from gappletron.data.open import RecordStream
    >>> stream = RecordStream(["win a prize", "see you at five"], ["spam", "ham"])
    >>> stream.classes, stream.rounds, stream.features
    (('ham', 'spam'), 2, 262144)
    """

    max_norm = None

    def __init__(
        self,
        records: Any,
        y: Any,
        *,
        encoder: Encoder | None = None,
        classes: Iterable[Any] | None = None,
        name: str = "records",
    ) -> None:
        table = as_batch(records)
        self._records: Any = list(records) if table is None and not hasattr(records, "columns") else records
        if table is not None:
            self._records = table
        self.name = name
        self.encoder: Encoder = encoder or Encoder()
        self.features = self.encoder.features
        self.rounds = self._records.num_rows if table is not None else len(self._records)
        self.classes, self._labels = label_positions(y, self.rounds, classes)
        self.classes_given = classes is not None

    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning."""
        for start in range(0, self.rounds or 0, CHUNK):
            stop = start + CHUNK
            if isinstance(self._records, list):
                part = self._records[start:stop]
            elif hasattr(self._records, "iloc"):  # a pandas frame that Arrow cannot hold
                part = self._records.iloc[start:stop]
            else:
                part = self._records.slice(start, CHUNK)
            indptr, indices, values = self.encoder.encode_many(part)
            yield frozen(indptr, indices, values, self._labels[start:stop])


def table_blocks(path: str, format: str | None = None, columns: Iterable[str] | None = None) -> Iterator[Any]:
    """The rows of a table in a file, with or without labels: record batches, or lists of dicts.

    The format is found as :func:`gappletron.open_stream` does it.
    """
    source = Source(path, "standard input" if path == "-" else path, None if columns is None else tuple(columns))
    found = format or format_of(path) or sniffed_format(source)
    if found not in READERS:
        raise unknown(found, "format of a table", list(READERS))
    return READERS[found](source)


def sniffed_format(source: Source) -> str:
    """The format of a file whose name tells nothing."""
    if sources.is_pipe(source.path):
        raise UserError(f"{source.name} has no name that tells its format: add it, as in --format csv (format='csv')")
    found = format_in(first_bytes(source))
    if found is None:
        raise UserError(
            f"{source.name} looks like no table that is known: name its format, as in --format csv (format='csv')"
        )
    return found


def are_records(rows: Any) -> bool:
    """Whether these are records rather than rows of numbers: a frame with other columns, or dicts or texts.

    >>> are_records([{"age": 41}]), are_records(["some words"]), are_records([[0.5, 1.0]])
    (True, True, False)
    """
    if isinstance(rows, list | tuple):
        return len(rows) > 0 and is_record(rows[0])
    if not hasattr(rows, "columns"):
        values = getattr(rows, "to_list", None)  # a series of pandas or polars
        return values is not None and len(rows) > 0 and isinstance(values()[0], str)
    if hasattr(rows, "schema"):  # polars and Arrow
        kinds = getattr(rows, "dtypes", None)
        return not all(kind.is_numeric() or str(kind) == "Boolean" for kind in kinds) if kinds is not None else True
    return not all(
        getattr(kind, "kind", "O") in "biuf" or plain_numbers(np.asarray(rows.iloc[:, place])).dtype.kind in "biuf"
        for place, kind in enumerate(rows.dtypes)
    )


class Labels(NamedTuple):
    """The distinct labels of a block as texts, empty where there is none, and which of them each row has."""

    names: list[str]
    places: NDArray[np.int64]

    def texts(self) -> list[str]:
        """The label of every row."""
        return [self.names[place] for place in self.places.tolist()]


def labels_of(block: Any, label: str) -> Labels:
    """The labels of a block, those that are distinct in the order in which they come."""
    if isinstance(block, list):
        texts = ["" if is_missing(record.get(label)) else text_of(record[label]) for record in block]
    else:
        encoded = _dictionary(block.column(label), label)
        if encoded.null_count == 0:
            values = [value.as_py() for value in encoded.dictionary]
            names = ["" if is_missing(value) else text_of(value) for value in values]
            if len(set(names)) == len(names):
                return Labels(names, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))
        texts = ["" if is_missing(value) else text_of(value) for value in block.column(label).to_pylist()]
    places: dict[str, int] = {}
    found = np.array([places.setdefault(text, len(places)) for text in texts], np.int64)
    return Labels(list(places), found)


def _dictionary(column: Any, label: str) -> Any:
    """The labels, each distinct one once."""
    import pyarrow as pa

    try:
        return column.dictionary_encode()
    except pa.ArrowException:
        raise UserError(
            f"the column {label!r} holds values of type {column.type}, which cannot be labels: give texts or numbers"
        ) from None


def kinds_of(block: Any, encoder: Encoder) -> dict[str, str]:
    """What the columns of a first block are that the encoder does not declare; those that it does not tell of itself
    go by their values.
    """
    found = {}
    if not isinstance(block, list):
        found = {name: DROP for name in block.schema.names if INDEX.fullmatch(name) and name not in encoder.kinds}
    if isinstance(block, list):
        names = list(dict.fromkeys(name for record in block[:SAMPLED] for name in record))
        columns = {name: [record.get(name) for record in block[:SAMPLED]] for name in names}
        texts = {name: values for name, values in columns.items() if any(isinstance(value, str) for value in values)}
    else:
        import pyarrow as pa

        part = block.slice(0, SAMPLED)
        for field in part.schema:
            if pa.types.is_dictionary(field.type) and field.name not in encoder.kinds:
                found[field.name] = CATEGORICAL
        texts = {
            name: texts_of_column(plain_column(part.column(name)))
            for name in part.schema.names
            if is_text(part.schema.field(name).type)
        }
    for name, values in texts.items():
        if name not in encoder.kinds and name not in found:
            found[name] = kind_of([value for value in values if isinstance(value, str) and value])
    return found


def kind_of(texts: list[str]) -> str:
    """What a column with these values is.

    >>> kind_of(["1", "2.5", "NA"]), kind_of(["red", "green"]), kind_of(["see you at five", "ok"])
    ('numeric', 'categorical', 'categorical')
    >>> kind_of(["2024-01-05", "2024-02-29"]), kind_of(["see you at five", "win a big prize now"])
    ('text', 'text')
    """
    if sum(number_of(text) is not None for text in texts) >= MOSTLY * len(texts):
        return NUMERIC
    words = sum(len(text.split()) for text in texts) / len(texts)
    return TEXT if words >= WORDS or all(map(_is_date, texts[:100])) else CATEGORICAL


def _is_date(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def _chained(first: list[Any], rest: Iterator[Any]) -> Iterator[Any]:
    """The blocks of a list, each let go as it is played, and then the rest."""
    while first:
        yield first.pop(0)
    yield from rest


def _names(classes: Iterable[Any]) -> tuple[Label, ...]:
    return labels((text_of(checked_label(item, "class")) for item in plain_names(classes)), "class")


def _as_number_or_text(name: str) -> tuple[float, str]:
    """Sorts "2" before "10", and numbers before words."""
    number = number_of(name)
    return (np.inf if number is None or np.isnan(number) else number), name
