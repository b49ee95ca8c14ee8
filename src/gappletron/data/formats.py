"""The formats of files: CSV, TSV, JSON lines, Parquet, Vowpal Wabbit's text and svmlight, all in :data:`FORMATS`.

To add a format, write a reader and an entry of the table. A reader yields blocks of rows; asked for `only` one column,
it may leave out others. CSV and Parquet are read by pyarrow. Lines of JSON and of Vowpal Wabbit's text are read by
columns where all of a block fit into such (:mod:`gappletron.data.lines`), else one by one; each block may have other
columns.
"""

import codecs
import csv
import functools
import io
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from gappletron.base.errors import UserError
from gappletron.base.text import listing, shorten, unknown
from gappletron.data import sources
from gappletron.data.lines import VW_LABEL, scan_json, scan_vw
from gappletron.data.records.columns import Block, bytes_to_texts
from gappletron.data.records.values import decode
from gappletron.data.sources import Progress, Source

# Rows at most in a block of Parquet, or of lines that are read one by one.
BLOCK_ROWS = 4096
DELIMITERS = (",", "\t", ";")

# ------------------------------------------------------------------------------------------------------------ CSV, TSV


class Header(NamedTuple):
    """The names of the columns, the delimiter, and how many bytes to skip before the first row."""

    names: list[str]
    delimiter: str
    length: int


def read_delimited(
    source: Source,
    progress: Progress = None,
    only: str | None = None,
    *,
    delimiter: str | None = None,
    quote: str | bool = '"',
) -> Iterator[Block]:
    """Yield the rows of a CSV file as texts; an empty field is null.

    The delimiter (comma, semicolon or tab) is found in the header where it is not given. Fields may be quoted, and then
    hold delimiters and line breaks; with ``quote=False`` a quotation mark is a character like others. A field that is
    not UTF-8 is taken for Latin-1.
    """
    import pyarrow as pa
    import pyarrow.csv as pacsv

    with source.blocks(progress) as blocks:
        first = next(blocks, b"")
        header = _read_header(source, first, delimiter)
        types = dict.fromkeys(header.names, pa.binary())
        wanted = None if only is None else list(dict.fromkeys([only, header.names[-1]]))
        marks = rows = 0

        def count_marks() -> Iterator[bytes]:
            nonlocal marks
            for block in itertools.chain([first[header.length :]], blocks):
                marks += block.count(b'"')
                yield block

        last = None
        try:
            with pacsv.open_csv(
                io.BufferedReader(sources.BlockFile(count_marks())),
                pacsv.ReadOptions(column_names=header.names, block_size=sources.BLOCK, use_threads=False),
                pacsv.ParseOptions(delimiter=header.delimiter, quote_char=quote, newlines_in_values=bool(quote)),
                pacsv.ConvertOptions(
                    column_types=types, strings_can_be_null=True, null_values=[""], include_columns=wanted
                ),
            ) as reader:
                for batch in reader:
                    yield Block(_as_texts(batch, header.delimiter), has_header=only is None)
                    rows += batch.num_rows
                    last = batch[-1][-1].as_py() if batch.num_rows else last
        except pa.ArrowInvalid as error:
            raise _explain_csv(source.name, str(error), rows, header) from None
        if quote and marks % 2 and b"\n" in (last or b""):
            cure = "close the quotation mark, or use --format tsv for tabs without quotes"
            raise UserError(f"{source.name} ends inside a quoted field of row {rows:,}: {cure}")


def _as_texts(batch: Any, delimiter: str) -> Any:
    """Return a batch of bytes as one of texts. Between semicolons, 1,5 is a number: it becomes 1.5."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [bytes_to_texts(column) for column in batch.columns]
    if delimiter == ";":
        columns = [pc.replace_substring_regex(column, r"^([+-]?\d+),(\d+)$", r"\1.\2") for column in columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _read_header(source: Source, first: bytes, delimiter: str | None) -> Header:
    """Return the header of a CSV file, from its first block."""
    name, columns = source.name, source.columns
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{name} is UTF-16: save it as UTF-8, for example with iconv -f UTF-16 -t UTF-8")
    if b"\0" in first[:4096]:
        raise UserError(f"{name} has NUL bytes, so it is not text: {describe_content(first)}")
    body = first.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    skipped = len(first) - len(body)
    # Each byte is taken for one character here, so that lengths are those of bytes; names are decoded one by one.
    text = body.decode("latin-1")
    if not text.strip():
        raise UserError(f"{name} is empty: a table needs a header and at least one row")
    found = delimiter or _find_delimiter(text.splitlines()[0], columns)
    lines = io.StringIO(text, newline="")  # a quoted name may hold a line break
    try:
        row = next(csv.reader(lines, delimiter=found, quoting=csv.QUOTE_NONE if delimiter else csv.QUOTE_MINIMAL), [])
    except csv.Error as error:
        cure = "close its quotation marks, or use --format tsv, which has no quotes"
        raise UserError(f"{name} has a first row that cannot be read ({error}): {cure}") from None
    names, length = [decode(field.encode("latin-1")) for field in row], lines.tell()
    if columns is None:
        _check_names(name, names)
        return Header(names, found, skipped + length)
    if len(columns) != len(names):
        given = f"{len(columns)} names were given ({listing(columns)})"
        raise UserError(f"{name} has {len(names)} columns and {given}: name each column once")
    return Header(list(columns), found, skipped + length if names == list(columns) else skipped)


def _check_names(name: str, names: list[str]) -> None:
    twice = [column for column in names if names.count(column) > 1]
    if twice:
        cure = "rename one of them, or name all columns of a CSV file with --columns (columns=)"
        raise UserError(f"{name} has the column {twice[0]!r} more than once: {cure}")


def _find_delimiter(line: str, columns: Sequence[str] | None = None) -> str:
    """Return the delimiter that the first line has most of; where the columns are named, one that fits their number."""
    if columns is not None:
        fitting = [delimiter for delimiter in DELIMITERS if line.count(delimiter) == len(columns) - 1]
        if len(fitting) == 1:
            return fitting[0]
    return max(DELIMITERS, key=line.count)


def _explain_csv(name: str, error: str, rows: int, header: Header) -> UserError:
    """Return what pyarrow says as a sentence; `rows` were read before."""
    if rows == 0 and "Empty CSV" in error:
        return UserError(f"{name} has a header and no rows: a table needs at least one")
    if "straddl" in error:
        what = f"a row is longer than {sources.BLOCK >> 20} MiB, or a quotation mark is not closed"
        return UserError(f"{name}, after row {rows:,}: {what}: correct the row, or use JSON lines")
    text = shorten(" ".join(error.split()), 120)
    quotes = "add --format csv if fields are quoted" if header.delimiter == "\t" else "quote fields with delimiters"
    return UserError(f"{name} cannot be read after row {rows:,} ({text}): {quotes}, or correct the row")


# ----------------------------------------------------------------------------------------------------- lines of a text


def read_by_lines(
    source: Source,
    progress: Progress = None,
    only: str | None = None,  # noqa: ARG001 - a line is read as a whole
    *,
    scan: Callable[[bytes], Block | None],
    parse: Callable[[str], dict[str, Any]],
) -> Iterator[Block]:
    """Yield the lines that are not blank: by columns where `scan` can, else what `parse` makes of each.

    `parse` raises a ValueError that says what is wrong with a line.
    """
    lines = 0
    with source.blocks(progress) as blocks:
        for block in sources.read_lines(blocks, source.name):
            text = block.removeprefix(codecs.BOM_UTF8) if lines == 0 else block
            found = scan(text)
            yield from [found] if found is not None else _parse_lines(text, source.name, lines, parse)
            lines += int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))


def _parse_lines(block: bytes, name: str, lines: int, parse: Callable[[str], dict[str, Any]]) -> Iterator[Block]:
    """Yield the lines of a block, which comes after so many, as some dicts at a time."""
    records: list[dict[str, Any]] = []
    for number, line in enumerate(block.split(b"\n")[:-1], lines + 1):
        if not line.strip():
            continue
        try:
            records.append(parse(decode(line)))
        except ValueError as error:
            raise UserError(f"{name}, line {number} {error}") from None
        if len(records) == BLOCK_ROWS:
            yield Block(records)
            records = []
    if records:
        yield Block(records)


def parse_json(line: str) -> Any:
    """Return the object that a line of JSON holds."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({error}): write one object on each line") from None
    if not isinstance(record, dict):
        raise ValueError('is JSON but not an object: write one on each line, as in {"label": "spam", "text": "..."}')
    return record


def parse_vw(line: str) -> dict[str, Any]:
    """Return a line for Vowpal Wabbit, ``label |namespace word word:value``, as a dict without weight and tag."""
    head, *namespaces = line.split("|")
    if not namespaces:
        raise ValueError("has no '|': expected lines such as '1 |words free prize:2'")
    label = head.split("'")[0].split()
    record: dict[str, Any] = {VW_LABEL: label[0]} if label else {}
    for part in namespaces:
        words = part.split()
        space, _, weight = words.pop(0).partition(":") if words and not part[0].isspace() else ("", "", "")
        features = record.setdefault(space, {})
        for word in words:
            name, _, value = word.partition(":")
            try:
                features[name] = features.get(name, 0.0) + float(weight or 1.0) * float(value or 1.0)
            except ValueError:
                raise ValueError(
                    f"has {shorten(word)!r}, whose value or weight is no number: write word:value"
                ) from None
    return record


# -------------------------------------------------------------------------------------------------------------- Parquet


def read_parquet(source: Source, progress: Progress = None, only: str | None = None) -> Iterator[Block]:
    """Yield the rows of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if source.is_pipe():
        raise UserError(f"{source.name} is a pipe, and Parquet is read from its end: write it to a file first")
    try:
        with pq.ParquetFile(source.path) as file:
            total, done = file.metadata.num_rows, 0
            _check_names(source.name, file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=BLOCK_ROWS, columns=None if only is None else [only]):
                yield Block(batch, has_header=only is None)
                done += batch.num_rows
                if progress is not None:
                    progress(done, total)
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())
        look = describe_content(source.read_first_bytes()) or "check the file, or name its --format"
        raise UserError(f"{source.name} cannot be read as Parquet ({shorten(text, 100)}): {look}") from None


# -------------------------------------------------------------------------------------------------------------- formats


def refuse_svmlight(source: Source, progress: Progress = None) -> Iterator[Block]:  # noqa: ARG001 - as all readers
    """Raise a UserError: svmlight files are no tables."""
    cure = "omit the label and the columns, or name its format (--format csv)"
    raise UserError(f"{source.name} is read as svmlight, which has no named columns: {cure}")


class Format(NamedTuple):
    """A format of files: what it is called in options and in sentences, how the names of such files end (before
    ``.gz``, ``.zst`` or ``.zstd``), whether the first bytes of a file and its first line look like it, and the reader
    of its tables.
    """

    name: str
    title: str
    endings: tuple[str, ...]
    fits: Callable[[bytes, str], bool]
    read: Callable[..., Iterator[Block]]


read_tsv = functools.partial(read_delimited, delimiter="\t", quote=False)
read_json = functools.partial(read_by_lines, scan=scan_json, parse=parse_json)
read_vw = functools.partial(read_by_lines, scan=scan_vw, parse=parse_vw)

# The formats by their names. Of several that a file looks like, the first one is meant.
FORMATS = {
    one.name: one
    for one in (
        Format("parquet", "Parquet", (".parquet", ".pq"), lambda first, _: first.startswith(b"PAR1"), read_parquet),
        Format("jsonl", "JSON lines", (".jsonl", ".ndjson", ".json"), lambda _, line: line.startswith("{"), read_json),
        Format(
            "vw",
            "the text format of Vowpal Wabbit",
            (".vw",),
            lambda _, line: "|" in line and len(line.split("|")[0].split()) <= 3,
            read_vw,
        ),
        Format("tsv", "TSV", (".tsv", ".tab"), lambda _, line: _find_delimiter(line) == "\t", read_tsv),
        Format("csv", "CSV", (".csv",), lambda _, line: _find_delimiter(line) in line, read_delimited),
        Format("svmlight", "svmlight", (".svm", ".svmlight", ".libsvm"), lambda *_: False, refuse_svmlight),
    )
}

SVMLIGHT = FORMATS["svmlight"]

PACKED = (".gz", ".zst", ".zstd")


def find_ending(path: str) -> Format | None:
    """Return the format that the name of a file tells; None where it tells nothing.

    >>> find_ending("mails.tsv.gz").name, find_ending("data.svm").name, find_ending("-")
    ('tsv', 'svmlight', None)
    """
    name = PurePath(path.lower())
    ending = PurePath(name.stem).suffix if name.suffix in PACKED else name.suffix
    return next((one for one in FORMATS.values() if ending in one.endings), None)


def recognise(first: bytes) -> Format | None:
    """Return the format that the first bytes of a file look like; None where they look like svmlight, or nothing known.

    >>> recognise(b"label,age\\nyes,41\\n").name, recognise(b"1 3:0.5\\n")
    ('csv', None)
    """
    line = decode(first.removeprefix(codecs.BOM_UTF8)[:65536].split(b"\n")[0]).strip()
    return next((one for one in FORMATS.values() if one.fits(first, line)), None)


def find_format(source: Source, name: str | None, is_table: bool) -> Format:
    """Return the format of this name, or the one that the name of the file tells; else that of the first line of a
    table, or svmlight.
    """
    if name is not None and name not in FORMATS:
        raise unknown(name, "format", list(FORMATS))
    found = FORMATS[name] if name is not None else find_ending(source.path)
    if found is not None or not is_table:
        return found or SVMLIGHT
    if source.is_pipe():
        raise UserError(f"{source.name} has no name that tells its format: add it, as in --format csv (format='csv')")
    found = recognise(source.read_first_bytes())
    if found is None:
        raise UserError(f"{source.name} looks like no known table: name its format, as in --format csv (format='csv')")
    return found


def describe_content(first: bytes) -> str:
    """Return what a file seems to be, by its first bytes, as the end of a sentence; empty where nothing is known.

    >>> describe_content(b"label\\tmessage\\nham\\thello there\\n")
    'this looks like TSV: add --label COLUMN, and --columns with a name for each if without a header'
    """
    found = recognise(first)
    if found is None:
        return ""
    if found.name not in ("csv", "tsv"):
        label = "" if found.name == "vw" else " --label COLUMN"
        return f"this looks like {found.title}: use --format {found.name}{label}"
    return f"this looks like {found.title}: add --label COLUMN, and --columns with a name for each if without a header"
