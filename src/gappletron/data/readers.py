"""Tables from files: CSV, TSV, JSON lines, Parquet and Vowpal Wabbit's text, some rows at a time.

A block is an Arrow record batch, or a list of dicts where the format has no fixed columns. CSV and Parquet are read by
pyarrow. JSON lines are read by Python: pyarrow fixes the columns at the first block, and records may get new ones.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any, NamedTuple

from gappletron.base.errors import UserError
from gappletron.base.text import listing, shorten
from gappletron.data import sources
from gappletron.data.records.batches import texts_from_bytes
from gappletron.data.records.values import decoded, number_of

Progress = Callable[[int, int], None] | None

__all__ = ["READERS", "SUFFIXES", "Source", "format_in", "format_of", "looks_like"]

BLOCK_ROWS = 4096
"""Rows in a block of JSON lines or of Vowpal Wabbit's text, and at most in one of Parquet."""
LONGEST_LINE = 1 << 26
VW_LABEL = "vw label"
"""The column that holds the label of a line for Vowpal Wabbit."""
DELIMITERS = {",": "CSV", "\t": "TSV", ";": "CSV with semicolons"}


class Source(NamedTuple):
    """What is read: a path or ``-``, its name in messages, and for CSV the names of the columns where there is no
    header.
    """

    path: str
    name: str
    columns: tuple[str, ...] | None = None

    @contextlib.contextmanager
    def blocks(self, progress: Progress = None) -> Iterator[Iterator[bytes]]:
        """The bytes, unpacked, some at a time."""
        with sources.opened(self.path, self.name) as file:
            yield sources.unpacked(sources.blocks(file, self.name, progress), self.name)


# ------------------------------------------------------------------------------------------------------------ CSV, TSV


def read_csv(source: Source, progress: Progress = None) -> Iterator[Any]:
    """The rows of a CSV file as record batches of texts; an empty field is null.

    The delimiter (comma, semicolon or tab) is found in the header. Fields may be quoted, and then hold delimiters and
    line breaks. A field that is not UTF-8 is taken for Latin-1.
    """
    return _read_delimited(source, progress, None, '"')


def read_tsv(source: Source, progress: Progress = None) -> Iterator[Any]:
    """As :func:`read_csv`, but separated by tabs, and without quotes: a quotation mark is a character like others."""
    return _read_delimited(source, progress, "\t", False)


def _read_delimited(source: Source, progress: Progress, delimiter: str | None, quote: Any) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    with source.blocks(progress) as blocks:
        first = next(blocks, b"")
        header = _header(source, first, delimiter)
        options = {
            "read_options": pacsv.ReadOptions(
                column_names=header.names, skip_rows=0, block_size=sources.BLOCK, use_threads=False
            ),
            "parse_options": pacsv.ParseOptions(
                delimiter=header.delimiter,
                quote_char=quote,
                newlines_in_values=bool(quote),
            ),
            "convert_options": pacsv.ConvertOptions(
                column_types=dict.fromkeys(header.names, pa.binary()), strings_can_be_null=True, null_values=[""]
            ),
        }
        marks = _Marks(itertools.chain([first[header.length :]], blocks))
        rows, last = 0, None
        try:
            with pacsv.open_csv(sources.BlockFile(iter(marks)), **options) as reader:
                for batch in reader:
                    yield _as_texts(batch, header)
                    rows += batch.num_rows
                    last = batch[-1][-1].as_py() if batch.num_rows else last
            if quote and marks.count % 2 and b"\n" in (last or b""):
                raise UserError(
                    f"{source.name} ends inside a quoted field of row {rows:,}: close the quotation mark, or add "
                    "--format tsv for tabs without quotes"
                )
        except pa.ArrowInvalid as error:
            raise _csv_error(source, str(error), rows, header) from None


def _as_texts(batch: Any, header: Header) -> Any:
    """A batch of bytes as one of texts. Between semicolons, 1,5 is a number: it becomes 1.5."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [texts_from_bytes(column) for column in batch.columns]
    if header.delimiter == ";":
        columns = [pc.replace_substring_regex(column, r"^([+-]?\d+),(\d+)$", r"\1.\2") for column in columns]
    return pa.RecordBatch.from_arrays(columns, header.names)


class _Marks:
    """Blocks of bytes, and the number of quotation marks in those that were read."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self.count = blocks, 0

    def __iter__(self) -> Iterator[bytes]:
        for block in self._blocks:
            self.count += block.count(b'"')
            yield block


class Header(NamedTuple):
    """The names of the columns, the delimiter, and how many bytes to skip before the first row."""

    names: list[str]
    delimiter: str
    length: int


def _header(source: Source, first: bytes, delimiter: str | None) -> Header:
    """The header of a CSV file, in its first block."""
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{source.name} is UTF-16: save it as UTF-8, for example with iconv -f UTF-16 -t UTF-8")
    if b"\0" in first[:4096]:
        raise UserError(f"{source.name} has NUL bytes, so it is not text: {looks_like(first)}")
    mark = len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0
    mark += len(first) - mark - len(first[mark:].lstrip(b"\r\n"))  # blank lines in front
    # Each byte is taken for one character here, so that lengths are those of bytes; names are decoded one by one.
    text = first[mark:].decode("latin-1")
    if not text.strip():
        raise UserError(f"{source.name} is empty: a table needs a header and at least one row")
    found = delimiter or _delimiter_in(text.splitlines()[0], source.columns)
    fields, length = _first_row(source, text, found, "" if delimiter == "\t" else '"')
    names = [decoded(field.encode("latin-1")) for field in fields]
    if source.columns is not None:
        if len(source.columns) != len(names):
            raise UserError(
                f"{source.name} has {len(names)} columns and {len(source.columns)} names were given "
                f"({listing(source.columns)}): name each column once"
            )
        return Header(list(source.columns), found, mark + length if names == list(source.columns) else mark)
    _check_names(source, names)
    return Header(names, found, mark + length)


def _check_names(source: Source, names: list[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(
            f"{source.name} has the column {twice[0]!r} more than once: rename one of them, or name all columns of a "
            "CSV file with --columns (columns=)"
        )


def _delimiter_in(line: str, columns: tuple[str, ...] | None = None) -> str:
    """The delimiter that the first line has most of; where the columns are named, one that fits their number."""
    if columns is not None:
        fitting = [delimiter for delimiter in DELIMITERS if line.count(delimiter) == len(columns) - 1]
        if len(fitting) == 1:
            return fitting[0]
    return max(DELIMITERS, key=line.count)


def _first_row(source: Source, text: str, delimiter: str, quote: str) -> tuple[list[str], int]:
    """The fields of the first row, and its length: a quoted name may hold a line break."""
    lines = io.StringIO(text, newline="")
    quoting: Any = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    try:
        row = next(csv.reader(lines, delimiter=delimiter, **quoting), [])
    except csv.Error as error:
        raise UserError(
            f"{source.name} has a first row that cannot be read ({error}): close its quotation marks, or give the "
            "format (--format tsv has no quotes)"
        ) from None
    return row, lines.tell()


def _csv_error(source: Source, error: str, rows: int, header: Header) -> UserError:
    """What pyarrow says, as a sentence; `rows` were read before."""
    if rows == 0 and "Empty CSV" in error:
        return UserError(f"{source.name} has a header and no rows: a table needs at least one")
    if "straddl" in error:
        return UserError(
            f"{source.name}, after row {rows:,}: a row is longer than {sources.BLOCK >> 20} MiB, or a quotation mark "
            "is not closed: correct the row, or use JSON lines"
        )
    found = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+): (.*)", error, re.DOTALL)
    if found is None:
        text = shorten(" ".join(error.split()), 120)
        return UserError(f"{source.name} cannot be read after row {rows:,} ({text}): correct the file")
    number, wanted, fields, text = found.groups()
    where = f"{source.name}, row {number}" if number else f"{source.name}, after row {rows:,}"
    quotes = (
        "add --format csv if fields are quoted" if header.delimiter == "\t" else "quote fields that hold a delimiter"
    )
    return UserError(
        f"{where}: a row has {fields} fields and the header {wanted} ({shorten(text, 60)!r}): {quotes}, or correct "
        "the row"
    )


# ----------------------------------------------------------------------------------------------------- lines of a text


def _lines(source: Source, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    with source.blocks(progress) as blocks:
        number, rest = 0, b""
        for block in itertools.chain(blocks, [b"\n"]):
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                number += 1
                if line.strip():
                    yield number, line
            if len(rest) > LONGEST_LINE:
                raise UserError(f"{source.name}, line {number + 1} is longer than {LONGEST_LINE >> 20} MiB: split it")


def _in_blocks(records: Iterator[tuple[int, Any]]) -> Iterator[list[Any]]:
    """Records, each with its bytes, in lists that are short in rows and in bytes."""
    block: list[Any] = []
    total = 0
    for size, record in records:
        block.append(record)
        total += size
        if len(block) == BLOCK_ROWS or total > sources.BLOCK:
            yield block
            block, total = [], 0
    if block:
        yield block


def read_json(source: Source, progress: Progress = None) -> Iterator[list[dict[str, Any]]]:
    """A JSON object on every line, as lists of dicts."""
    return _in_blocks(_json_records(source, progress))


def _json_records(source: Source, progress: Progress) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(source, progress):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        try:
            record = json.loads(decoded(text))
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{source.name}, line {number} is not JSON ({error}): write one object on each line"
            ) from None
        if not isinstance(record, dict):
            raise UserError(
                f"{source.name}, line {number} is JSON but not an object: write one object on each line, as in "
                '{"label": "spam", "text": "..."}'
            )
        yield len(line), record


def read_vw(source: Source, progress: Progress = None) -> Iterator[list[dict[str, Any]]]:
    """Lines for Vowpal Wabbit, ``label |namespace word word:value``, as lists of dicts. Importance weights and tags are
    left out.
    """
    return _in_blocks(_vw_records(source, progress))


def _vw_records(source: Source, progress: Progress) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(source, progress):
        head, *namespaces = decoded(line).split("|")
        if not namespaces:
            raise UserError(f"{source.name}, line {number} has no '|': expected lines such as '1 |words free prize:2'")
        label = head.split("'")[0].split()
        record: dict[str, Any] = {VW_LABEL: label[0]} if label else {}
        for part in namespaces:
            named = not part[:1].isspace()
            words = part.split()
            space, _, weight = words[0].partition(":") if named and words else ("", "", "")
            features = record.setdefault(space, {})
            for word in words[1:] if named else words:
                name, _, value = word.partition(":")
                try:
                    features[name] = features.get(name, 0.0) + float(weight or 1.0) * float(value or 1.0)
                except ValueError:
                    raise UserError(
                        f"{source.name}, line {number}: {shorten(word)!r} has a value or a weight that is no number: "
                        "expected word:value"
                    ) from None
        yield len(line), record


# -------------------------------------------------------------------------------------------------------------- Parquet


def read_parquet(source: Source, progress: Progress = None) -> Iterator[Any]:
    """The rows of a Parquet file as record batches."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if sources.is_pipe(source.path):
        raise UserError(f"{source.name} is a pipe, and Parquet is read from its end: write it to a file first")
    try:
        with pq.ParquetFile(source.path) as file:
            total, done = file.metadata.num_rows, 0
            _check_names(source, file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=BLOCK_ROWS):
                yield batch
                done += batch.num_rows
                if progress is not None:
                    progress(done, total)
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())
        raise UserError(f"{source.name} cannot be read as Parquet ({shorten(text, 100)}): {_look(source)}") from None


# -------------------------------------------------------------------------------------------------------------- formats


READERS: dict[str, Callable[..., Iterator[Any]]] = {
    "csv": read_csv,
    "tsv": read_tsv,
    "jsonl": read_json,
    "parquet": read_parquet,
    "vw": read_vw,
}
"""How each format is read."""

SVMLIGHT = "svmlight"

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".vw": "vw",
    ".svm": SVMLIGHT,
    ".svmlight": SVMLIGHT,
    ".libsvm": SVMLIGHT,
}
"""The format of a file by the end of its name; ``.gz``, ``.zst`` and ``.zstd`` behind it are left out."""

PACKED = (".gz", ".zst", ".zstd")


def format_of(path: str) -> str | None:
    """The format that the name of a file tells; None where it tells nothing.

    >>> format_of("mails.tsv.gz"), format_of("data.svm"), format_of("-")
    ('tsv', 'svmlight', None)
    """
    name = PurePath(path.lower())
    return SUFFIXES.get(PurePath(name.stem).suffix if name.suffix in PACKED else name.suffix)


def format_in(first: bytes) -> str | None:
    """The format that the first bytes of a file look like; None where they look like nothing known, or svmlight.

    >>> format_in(b"label,age\\nyes,41\\n"), format_in(b"1 3:0.5\\n")
    ('csv', None)
    """
    if first.startswith(b"PAR1"):
        return "parquet"
    line = _first_line(first)
    if line.startswith("{"):
        return "jsonl"
    if "|" in line and len(line.split("|")[0].split()) <= 3:
        return "vw"
    delimiter = _delimiter_in(line)
    if not line.count(delimiter):
        return None
    return "tsv" if delimiter == "\t" else "csv"


def _first_line(first: bytes) -> str:
    return decoded(first.removeprefix(codecs.BOM_UTF8)[:65536].split(b"\n")[0]).strip()


def looks_like(first: bytes) -> str:
    """What a file seems to be, by its first bytes, as the end of a sentence; empty where nothing is known.

    >>> looks_like(b"label\\tmessage\\nham\\thello there\\n")
    'this looks like TSV with a header: add --label COLUMN'
    """
    line, found = _first_line(first), format_in(first)
    if found in ("csv", "tsv"):
        delimiter = _delimiter_in(line)
        return f"this looks like {DELIMITERS[delimiter]} {_with_header(line.split(delimiter))}"
    named = {"parquet": "Parquet", "jsonl": "JSON lines", "vw": "the text format of Vowpal Wabbit"}
    if found is None:
        return ""
    label = "" if found == "vw" else " --label COLUMN"
    return f"this looks like {named[found]}: use --format {found}{label}"


def _with_header(fields: list[str]) -> str:
    """Whether the first row seems to be a header, and what to add."""
    short = all(field.strip() and len(field) <= 40 and len(field.split()) <= 4 for field in fields)
    if short and not any(number_of(field) is not None for field in fields):
        return "with a header: add --label COLUMN"
    return "without a header: add --columns with a name for each, and --label COLUMN"


def first_bytes(source: Source) -> bytes:
    """The first block of a file; nothing where it cannot be read."""
    with contextlib.suppress(UserError, OSError), source.blocks() as blocks:
        return next(blocks, b"")
    return b""


def _look(source: Source) -> str:
    """What a file seems to be, or else to check it."""
    return looks_like(first_bytes(source)) or "check the file, or name its --format"
