"""Streams of records: tables in files, and records in memory, encoded as they are played."""

import datetime
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, label
from gappletron.base.errors import UserError
from gappletron.base.parts import part
from gappletron.base.text import listing, shorten, unknown
from gappletron.data.arrays import check_classes, locate_labels, plain_names
from gappletron.data.formats import describe_content, find_format, recognise
from gappletron.data.lines import VW_LABEL
from gappletron.data.records.columns import (
    CATEGORICAL,
    DROP,
    NUMERIC,
    TEXT,
    Block,
    is_text,
    to_array,
    to_plain,
    to_strings,
    to_table,
)
from gappletron.data.records.encoder import Encoder, list_records
from gappletron.data.records.kept_names import KeptNames
from gappletron.data.records.values import is_missing, is_record, to_number, to_text, unbox_numbers
from gappletron.data.scores import NO_SCORES, squash_scores
from gappletron.data.sources import FileStream, Progress, Source, read_ahead
from gappletron.data.stream import CHUNK, Chunk, Stream, make_chunk
from gappletron.kernel.types import Floats

# Values of a column that are looked at to tell what it is.
SAMPLED = 2000
# A column is numeric where at least this share of its values are numbers; the others count as categories.
MOSTLY = 0.9
# A column of texts, not of categories, has at least so many words in the mean.
WORDS = 3.0


# Names of columns in which pandas writes the numbers of its rows; they are dropped unless they are declared.
INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")


class Labels(NamedTuple):
    """The distinct labels of a block as texts, empty where there is none, and which of them each row has."""

    names: list[str]
    places: NDArray[np.int64]

    def texts(self) -> list[str]:
        """Return the label of every row."""
        return [self.names[place] for place in self.places.tolist()]

    def first_row(self, name: str) -> int:
        """Return the number of the first row that has this label, counted from 1."""
        return int(np.argmax(self.places == self.names.index(name))) + 1


class TableFile(FileStream):
    """The rows of a table in a file, one round each: CSV, TSV, JSON lines, Parquet or Vowpal Wabbit's text.

    :param path: of the file, plain or compressed by gzip or zstd; ``-`` for the standard input.
    :param label: the column of the labels (not for Vowpal Wabbit's text, which has one).
    :param format: the name of one of :data:`gappletron.data.formats.FORMATS`.
    :param encoder: how the other columns become features. What it does not declare is found in the first block: a
        column of numbers is numeric, one with three words per value or more, or with dates, is text, others are
        categorical.
    :param columns: the names of the columns of a CSV file without a header.
    :param classes: the labels, as text. By default they are found by a first scan of the file. A pipe cannot be
        scanned: there, classes are added in the order in which they come.
    :param max_norm: the largest norm of a row, where it is known.
    :param required: columns that must be there, in a format with a header.
    :param scores: the column that holds the score of each class, by the class: what a model of your own says of the
        rows. These columns are no features.

    The classes are the labels' own text: ``"1"``, not 1.

    >>> import pathlib, tempfile
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
        scores: Mapping[Any, str] | None = None,
    ) -> None:
        super().__init__(path, columns)
        self.format = format
        self._read = find_format(self._source, format, is_table=True).read
        if columns is not None and format not in ("csv", "tsv"):
            raise UserError(f"columns name those of a CSV file without a header, not of a {format} file: omit them")
        self.max_norm = max_norm
        self.label = VW_LABEL if format == "vw" else label
        self._scores = {_name_class(name): column for name, column in (scores or {}).items()}
        self._required = (*required, *self._scores.values())
        self._encoder, self.names = encoder or Encoder(), KeptNames()
        declared = self._encoder.kinds.get(self.label or "", DROP)
        if self.label is not None and declared != DROP:
            what = f"the column {self.label!r} holds the labels and is declared as {declared}"
            raise UserError(f"{what}, which would show them to the learner: declare other columns")
        for column in self._scores.values():
            if self._encoder.kinds.get(column, DROP) != DROP or column == self.label:
                raise UserError(f"the column {column!r} holds scores and is declared as something else: name it once")
        self._classes = None if classes is None else check_classes(map(_name_class, plain_names(classes)))
        self.classes_given = classes is not None
        self.is_open = self.is_pipe and classes is None
        if self.is_open and self._scores:
            raise UserError(f"{self.name} is a pipe, and its rows have scores: name its --classes (classes=)")
        self._is_prepared = False
        self._found: dict[str, None] = {}
        self._blocks: Iterator[Block] | None = None

    features: int = part("_encoder.features", "The number of features of the encoder.")

    @property
    def encoder(self) -> Encoder:
        """The encoder, with every column of the first block declared."""
        self.prepare()
        return self._encoder

    @property
    def classes(self) -> tuple[Label, ...]:  # type: ignore[override]
        """The classes that were given or found; of a pipe, those that have come so far."""
        if self._classes is None:
            self.prepare()
        return tuple(self._found) if self._classes is None else self._classes

    @property
    def rounds(self) -> int | None:  # type: ignore[override]
        """The number of rows, where the file is scanned for its classes."""
        self.prepare()
        return self._rows

    def prepare(self, progress: Progress = None) -> None:
        """Look at the first block, and scan the file for its classes where they were not given."""
        if self._is_prepared:
            return
        rest = self._read(self._source)
        first = next(rest, None)
        if first is None:
            raise UserError(f"{self.name} has no rows: a table needs at least one")
        self._check_columns(first)
        encoder = self._encoder.declaring(dict.fromkeys([self.label or "", *self._scores.values()], DROP))
        encoder = encoder.declaring(find_kinds(first, encoder))
        if self.is_pipe:
            blocks = itertools.chain([first], rest)
            self._blocks = self._await_classes(blocks) if self.is_open else blocks
        elif self._classes is None:
            found = self._read_labels(self._read(self._source, progress, only=self.label))
            if self.label in found[1]:  # a repeated header is told by all of its columns
                found = self._read_labels(self._read(self._source, progress))
            self._rows, self._classes = found
        self._encoder, self._is_prepared = encoder, True
        if self._scores:
            order_columns(self._scores, self.classes)  # an error where one is missing

    def _await_classes(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Read a pipe until two classes have come; return all of its blocks."""
        waiting = []
        for block in blocks:
            waiting.append(block)
            self._found.update(dict.fromkeys(self._find_labels(block, 0).names))
            if len(self._found) > 1:
                return itertools.chain(waiting, blocks)
        raise self._explain_one_class(next(iter(self._found)))

    def _check_columns(self, block: Block) -> None:
        """Raise a UserError if the table has no labels, or lacks a column that was declared."""
        known = block.first_names()
        if self.label is None:
            cure = f"name the column of its labels with --label (label=), one of {listing(known)}"
            raise UserError(f"{self.name} is a table: {cure}")
        if self.label not in known:
            if self.format == "vw":
                raise UserError(f"{self.name}, line 1 has no label in front of the first '|': write one")
            has_header = self.format in ("csv", "tsv") and self._source.columns is None
            first = self._source.read_first_bytes() if has_header and not self.is_pipe else b""
            found = recognise(first)
            if found is not None and found.name not in ("csv", "tsv"):
                raise UserError(f"{self.name} is read as {self.format.upper()}, but {describe_content(first)}")
            hint = "; if the file has no header, name its columns with --columns (columns=)" if has_header else ""
            raise UserError(f"{unknown(self.label, f'column in {self.name} called', known)}{hint}")
        missing = [name for name in self._required if name not in known]
        if missing and block.has_header:
            raise unknown(missing[0], f"column in {self.name} called", known)

    def _read_labels(self, blocks: Iterator[Block]) -> tuple[int, tuple[str, ...]]:
        """Return the number of rows of the whole file, and its labels, sorted."""
        rows, found = 0, set()
        for block in blocks:
            here = self._find_labels(block, rows)
            found.update(here.names)
            rows += len(here.places)
            self._check_count(found, f"in the column {self.label!r}")
        if len(found) < 2:
            raise self._explain_one_class(next(iter(found)))
        return rows, tuple(sorted(found, key=_sort_key))

    def _find_labels(self, block: Block, rows: int) -> Labels:
        """Return the labels of a block, which begins after so many rows; every row must have one."""
        here = find_labels(block, self.label or "")
        if "" in here.names:
            where = f"{self.name}, row {rows + here.first_row(''):,}"
            cure = "drop the row, or use gappletron predict for rows without labels"
            raise UserError(f"{where} has no label in the column {self.label!r}: {cure}")
        if self.label in here.names and block.has_header:
            row = here.first_row(self.label)
            if block.rows.slice(row - 1, 1).to_pylist() == [{name: name for name in block.names()}]:
                raise UserError(f"{self.name}, row {rows + row:,} repeats the header, as in joined files: remove it")
        return here

    def chunks(self) -> Iterator[Chunk]:
        """Return the rounds from the beginning; a pipe can be read only once."""
        return (chunk for chunk, _ in self.scored())

    def scored(self) -> Iterator[tuple[Chunk, Floats]]:
        """Return the rounds from the beginning with their scores; a pipe can be read only once."""
        self.prepare()
        self._begin()
        chunks = self._play(self._blocks or self._read(self._source))
        return chunks if self.is_pipe else read_ahead(chunks)  # a pipe may wait forever

    def _play(self, blocks: Iterator[Block]) -> Iterator[tuple[Chunk, Floats]]:
        rows, columns = 0, order_columns(self._scores, self.classes) if self._scores else []
        for block in blocks:
            positions = self._locate_labels(self._find_labels(block, rows), rows)
            encoded = self.encoder.encode_many(block)
            if self.encoder.names:
                self.names.take(self.encoder, block.records(), np.split(encoded[1], encoded[0][1:-1]))
            chunk = make_chunk(*encoded, positions)
            scores = squash_scores(read_scores(block, columns, self.name, rows)) if columns else NO_SCORES
            for start in range(0, len(positions), CHUNK):
                yield chunk.part(start, start + CHUNK), scores[start : start + CHUNK]
            rows += len(positions)
        self._check_rows(rows)

    def _locate_labels(self, here: Labels, rows: int) -> NDArray[np.int64]:
        """Return the labels of a block as positions in the classes."""
        if self.is_open:
            self._found.update(dict.fromkeys(here.names))
        place = {name: position for position, name in enumerate(self.classes)}
        for name in here.names:
            if name not in place:
                what = f"{self.name}, row {rows + here.first_row(name):,} has the label {shorten(name)!r}"
                cure = "add it to --classes (classes=), or drop the row"
                raise UserError(f"{what}, which is not among the classes {listing(self.classes)}: {cure}")
        return np.array([place[name] for name in here.names], np.int64)[here.places]


class RecordStream(Stream):
    """Records in memory, and a label for each: a frame of pandas or polars, a list of dicts or of texts.

    :param encoder: how records become features; by default by the types of their values.

    >>> stream = RecordStream(["win a prize", "see you at five"], ["spam", "ham"])
    >>> stream.classes, stream.rounds, stream.encoder
    (('ham', 'spam'), 2, Encoder())
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
        table = to_table(records)
        self._records = list_records(records) if table is None else table
        self.name = name
        self.encoder: Encoder = encoder or Encoder()
        self.names = KeptNames()
        self.features = self.encoder.features
        self.rounds: int = len(self._records)
        self.classes, self._labels = locate_labels(y, self.rounds, classes)
        self.classes_given = classes is not None

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rounds from the beginning."""
        for start in range(0, self.rounds, CHUNK):
            rows = self._records
            part = rows[start : start + CHUNK] if isinstance(rows, list) else rows.slice(start, CHUNK)
            encoded = self.encoder.encode_many(part)
            if self.encoder.names:
                self.names.take(self.encoder, Block(part).records(), np.split(encoded[1], encoded[0][1:-1]))
            yield make_chunk(*encoded, self._labels[start : start + CHUNK])


def read_table(path: str, format: str | None = None, columns: Iterable[str] | None = None) -> Iterator[Block]:
    """Yield the rows of a table in a file, with or without labels.

    The format is found as :func:`gappletron.open_stream` does it.
    """
    source = Source(path, columns)
    return find_format(source, format, is_table=True).read(source)


def are_records(rows: Any) -> bool:
    """Return whether these are records rather than rows of numbers: a frame with other columns, or dicts or texts.

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
        getattr(kind, "kind", "O") in "biuf" or unbox_numbers(np.asarray(rows.iloc[:, place])).dtype.kind in "biuf"
        for place, kind in enumerate(rows.dtypes)
    )


def find_labels(block: Block, label: str) -> Labels:
    """Return the labels of a block, those that are distinct in the order in which they come."""
    import pyarrow as pa

    column = block.column(label)
    if isinstance(column, list):
        values = column
    else:
        try:
            encoded = column.dictionary_encode()
        except pa.ArrowException:
            what = f"the column {label!r} holds values of type {column.type}"
            raise UserError(f"{what}, which cannot be labels: give texts or numbers") from None
        names = [_label_text(value.as_py()) for value in encoded.dictionary]
        if encoded.null_count == 0 and len(set(names)) == len(names):
            return Labels(names, to_array(encoded.indices).astype(np.int64))
        values = column.to_pylist()
    places: dict[str, int] = {}
    found = np.array([places.setdefault(_label_text(value), len(places)) for value in values], np.int64)
    return Labels(list(places), found)


def order_columns(scores: Mapping[str, str], classes: Iterable[Label]) -> list[str]:
    """Return the columns that hold the scores of the classes, in the order of the classes.

    >>> order_columns({"spam": "p1", "ham": "p0"}, ["ham", "spam"])
    ['p0', 'p1']
    """
    names = [_name_class(name) for name in classes]
    if set(scores) != set(names):
        raise UserError(
            f"scores are given for {listing(scores)}, and the classes are {listing(names)}: name a column for each "
            "class, and no other; classes that do not occur are named with --classes (classes=)"
        )
    return [scores[name] for name in names]


def read_scores(block: Block, columns: list[str], where: str, rows: int) -> Floats:
    """Return the scores of a block of a table, which begins after so many rows, from these columns."""
    found = np.empty((len(block.rows), len(columns)))
    for place, name in enumerate(columns):
        column = block.column(name)
        values = column if isinstance(column, list) else column.to_pylist()
        found[:, place] = [np.nan if (number := to_number(value)) is None else number for value in values]
    if not np.isfinite(found).all():
        row, place = np.argwhere(~np.isfinite(found))[0].tolist()
        what = f"{where}, row {rows + row + 1:,} has no number in the column {columns[place]!r}"
        raise UserError(f"{what}, which holds scores: give a finite number for every class, or drop the row")
    return found


def _label_text(value: Any) -> str:
    return "" if is_missing(value) else to_text(value)


def find_kinds(block: Block, encoder: Encoder) -> dict[str, str]:
    """Return what the columns of a first block are that the encoder does not declare; those that are left out go by
    their values.
    """
    found: dict[str, str] = {}
    if encoder.strict:  # what it does not declare is refused
        return found
    if isinstance(block.rows, list):
        sample = block.rows[:SAMPLED]
        names = dict.fromkeys(name for record in sample for name in record)
        columns = {name: [record.get(name) for record in sample] for name in names}
        texts = {name: values for name, values in columns.items() if any(isinstance(value, str) for value in values)}
    else:
        import pyarrow as pa

        part, texts = block.rows.slice(0, SAMPLED), {}
        for field, column in zip(part.schema, part.columns, strict=True):
            if block.has_header and pa.types.is_dictionary(field.type):
                found[field.name] = CATEGORICAL
            elif block.has_header and INDEX.fullmatch(field.name):
                found[field.name] = DROP
            elif is_text(field.type) and (block.has_header or column.null_count < len(column)):
                texts[field.name] = to_strings(to_plain(column))
    for name, values in texts.items():
        found[name] = find_kind([value for value in values if isinstance(value, str) and value])
    return {name: kind for name, kind in found.items() if name not in encoder.kinds}


def find_kind(texts: list[str]) -> str:
    """Return what a column with these values is.

    >>> find_kind(["1", "2.5", "NA"]), find_kind(["red", "green"]), find_kind(["see you at five", "ok"])
    ('numeric', 'categorical', 'categorical')
    >>> find_kind(["2024-01-05", "2024-02-29"]), find_kind(["see you at five", "win a big prize now"])
    ('text', 'text')
    """
    if sum(to_number(text) is not None for text in texts) >= MOSTLY * len(texts):
        return NUMERIC
    words = sum(len(text.split()) for text in texts) / len(texts)
    return TEXT if words >= WORDS or all(map(_is_date, texts[:100])) else CATEGORICAL


def _is_date(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def _name_class(item: Any) -> str:
    return to_text(label(item, "class"))


def _sort_key(name: str) -> tuple[float, str]:
    """Return what sorts "2" before "10", and numbers before words."""
    number = to_number(name)
    return (np.inf if number is None or np.isnan(number) else number), name
