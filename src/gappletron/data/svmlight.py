"""Streams from svmlight (libsvm) files: plain or compressed, regular files or pipes, in bounded memory."""

import functools
import math
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import UserError
from gappletron.base.text import listing, shorten
from gappletron.data import sources
from gappletron.data.arrays import check_classes, plain_names
from gappletron.data.formats import describe_content
from gappletron.data.sources import FileStream, Progress
from gappletron.data.stream import CHUNK, Chunk, check_norm, largest_norm, make_chunk
from gappletron.data.svmlight_parser import Rows, make_powers, make_rows, parse
from gappletron.kernel.compiling import run
from gappletron.kernel.types import MOST_NARROW


class Scan(NamedTuple):
    """What a scan of a file finds."""

    rows: int
    features: int
    labels: tuple[float, ...]
    max_norm: float


class Parsed(NamedTuple):
    """Some consecutive rows, the numbers that are their labels, and the lines they came from."""

    chunk: Chunk  # its labels mean nothing
    labels: NDArray[np.float64]
    lines: NDArray[np.int64]
    largest: int  # index in the block, counted from 1


class SvmlightFile(FileStream):
    """The rows of an svmlight file, ``label index:value index:value ...`` with indices from 1, one round each.

    The file may be compressed by gzip or zstd, whatever its name. It is read as scikit-learn reads it with
    ``zero_based=False``, but faster and in bounded memory; nan, inf, digits with underscores and indices below 1 are
    errors. Zeros are left out.

    What is not given here is found by one scan of the file when it is first needed (see :meth:`scan`): the features are
    as many as the largest index, the classes are the distinct labels in increasing order, as ints if all are whole and
    else as text. So the file is read twice, for the scan and for playing. With `features` and `classes` given it is
    read once, and the number of rounds is not known beforehand; asking for :attr:`max_norm` scans, unless it was given
    too. `classes` are compared by number (1, 1.0 and "1" are the same), named as the scan would name them, and stay in
    the order given. The rows before a wrong line are played before the error is raised.

    A pipe, or ``-`` for standard input, can be read only once and so needs `features` and `classes`.

    >>> import pathlib, tempfile
    >>> from gappletron import SvmlightFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "mail.svm")
    ...     _ = path.write_text("+1 2:0.5 7:1  # spam\\n-1 7:2\\n")
    ...     stream = SvmlightFile(path)
    ...     stream.classes, stream.features, stream.rounds, stream.max_norm
    ...     next(stream.chunks()).labels
    ((-1, 1), 7, 2, 2.0)
    array([1, 0])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        features: int | None = None,
        classes: Iterable[Any] | None = None,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(path)
        self._scan: Scan | None = None
        self._features = None if features is None else whole(features, "features", least=1, most=MOST_NARROW)
        self._classes = (
            None if classes is None else check_classes(_name_classes(map(_read_class, plain_names(classes))))
        )
        self.classes_given = classes is not None
        self._max_norm = None if max_norm is None else number(max_norm, "max_norm", above=0.0)
        self._needs_scan = features is None or classes is None
        if self.is_pipe and self._needs_scan:
            cure = "give the features and the classes, or write it to a file first"
            raise UserError(f"{self.name} is a pipe and can be read only once: {cure}")

    @functools.cached_property
    def features(self) -> int:  # type: ignore[override]
        """The number of features given, or the largest index in the file."""
        return self._features or self.scan().features

    @functools.cached_property
    def classes(self) -> tuple[Label, ...]:  # type: ignore[override]
        """The classes given, or the distinct labels in the file."""
        return self._classes or _name_classes(self.scan().labels)

    @functools.cached_property
    def max_norm(self) -> float | None:  # type: ignore[override]
        """The largest norm given or found; None for a pipe."""
        if self._max_norm is not None or self.is_pipe:
            return self._max_norm
        return check_norm(self.scan().max_norm, self.name)

    @property
    def rounds(self) -> int | None:  # type: ignore[override]
        """The number of rows; None where nothing has to be scanned, and nothing was."""
        self.prepare()
        return self._rows

    def prepare(self, progress: Progress = None) -> None:
        """Scan the file, unless its features and classes were given."""
        if self._needs_scan:
            self.scan(progress)

    def scan(self, progress: Progress = None) -> Scan:
        """Read the whole file once and remember what is in it; `progress` is called with (bytes read, bytes in all).

        >>> import pathlib, tempfile
        >>> from gappletron import SvmlightFile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "two.svm")
        ...     _ = path.write_text("0 1:3 2:4\\n1\\n")
        ...     SvmlightFile(path).scan(lambda done, total: print(done, "of", total, "bytes"))
        12 of 12 bytes
        Scan(rows=2, features=2, labels=(0.0, 1.0), max_norm=5.0)
        """
        if self._scan is not None:
            return self._scan
        if self.is_pipe:
            raise UserError(f"{self.name} is a pipe and cannot be scanned: give the features, the classes and max_norm")
        rows, largest, norm = 0, 1, 0.0
        found = np.empty(0)
        for part in self._parse(self._features or MOST_NARROW, progress):
            rows += len(part.labels)
            largest = max(largest, part.largest)
            norm = max(norm, largest_norm(part.chunk))
            if self._classes is None:
                found = np.union1d(found, part.labels[_locate(found, part.labels) < 0])
                self._check_count(found, f"by line {part.lines[-1]}")
            else:
                self._check_labels(part, self._locate_labels(part))
        if self._classes is None and len(found) == 1:
            raise self._explain_one_class(_name_classes(found.tolist())[0])
        self._rows, self._scan = rows, Scan(rows, int(largest), tuple(found.tolist()), norm)
        return self._scan

    def chunks(self) -> Iterator[Chunk]:
        """Return the rounds from the beginning; a pipe can be read only once."""
        self.prepare()
        self._begin()
        return self._play(self.features)

    def rows(self) -> Iterator[Chunk]:
        """Yield the rows for predictions: their labels mean nothing, whatever stands in the file."""
        self._begin()
        for part in self._parse(self.features):
            yield part.chunk

    def _play(self, features: int) -> Iterator[Chunk]:
        rows = 0
        for part in self._parse(features):
            positions = self._locate_labels(part)
            if len(positions):
                yield part.chunk._replace(labels=positions).part(0, len(positions))
            self._check_labels(part, positions)
            rows += len(positions)
        self._check_rows(rows)

    def _locate_labels(self, part: Parsed) -> NDArray[np.int64]:
        """Return the labels as positions in the classes, up to the first that is no class."""
        numbers, places = self._numbers
        ranks = _locate(numbers, part.labels)
        unknown = np.flatnonzero(ranks < 0)
        return places[ranks[: unknown[0]] if len(unknown) else ranks]

    def _check_labels(self, part: Parsed, positions: NDArray[np.int64]) -> None:
        """Raise a UserError if not all labels have positions in the classes."""
        row = len(positions)
        if row < len(part.labels):
            (name,) = _name_classes([part.labels.item(row)])
            what = f"{self.name}, line {part.lines[row]}: the label {name!r}"
            is_new = "it was not there when the file was scanned, open the file again"
            cure = is_new if self._classes is None else "add it to classes or drop the line"
            raise UserError(f"{what} is not among the classes {listing(self.classes)}: {cure}")

    @functools.cached_property
    def _numbers(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The numbers that the classes have in the file, increasing, and the position of each among the classes."""
        if self._classes is None:
            found = np.array(self.scan().labels)
            return found, np.arange(len(found))
        numbers = np.array([_read_class(name) for name in self._classes])
        order = np.argsort(numbers)
        return numbers[order], order

    def _parse(self, most: int, progress: Progress = None) -> Iterator[Parsed]:
        """Yield the rows of the file, some at a time, or raise a UserError that says where the file is wrong.

        Indices above `most` are wrong.
        """
        lines, total, rows = 0, 0, make_rows(0)
        with self._source.blocks(progress) as blocks:
            for block in sources.read_lines(blocks, self.name):
                if len(rows.labels) <= len(block) // 2:
                    rows = make_rows(2 * len(block))
                data = np.frombuffer(block, np.uint8)
                count, doubtful, largest, lines, line, token = run(parse, data, lines, rows, most, make_powers())
                wrong = "" if token < 0 else self._explain_token(block, lines, line, token, most)
                count, reason = _read_doubtful(block, rows, count, doubtful)
                if reason:
                    wrong = f"{self.name}, line {rows.lines[count]}: {reason}"
                entries = rows.indptr[count]
                found = rows.indptr[: count + 1], rows.indices[:entries].copy(), rows.values[:entries].copy()
                chunk = make_chunk(*found, np.zeros(count, np.int64))
                for start in range(0, count, CHUNK):
                    stop = min(start + CHUNK, count)
                    yield Parsed(chunk.part(start, stop), rows.labels[start:stop], rows.lines[start:stop], largest)
                if wrong:
                    raise UserError(wrong)
                total += count
        if total == 0:
            raise UserError(f"{self.name} has no rows: a stream needs at least one line such as '1 3:0.5'")

    def _explain_token(self, block: bytes, number: int, line: int, token: int, most: int) -> str:
        """Return what is wrong with the token that the parser stopped at, in the line that begins at `line`."""
        before = block[line:token].split()
        rest = re.split(rb"[ \t\n\v\f\r#]", block[token : token + 4096], maxsplit=1)[0]
        if number == 1 and not before:
            look = describe_content(block)
            if look and not re.search(rb"\d:[-+.\d]", block.split(b"\n")[0]):
                return f"{self.name} is not an svmlight file, and {look}"
        previous = before[-1].partition(b":")[0].lstrip(b"+0") if len(before) > 1 else b""
        index = int(previous) if previous.isdigit() else 0
        reason = self._explain(rest.decode("ascii", "backslashreplace"), not before, index, most)
        return f"{self.name}, line {number}: {reason}"

    def _explain(self, token: str, first: bool, previous: int, most: int) -> str:  # noqa: PLR0911 - a list of reasons
        """Return what is wrong with a token that the parser refused, and the cure."""
        shown = repr(shorten(token))
        if "\0" in token:
            return "there is a NUL byte, so this is not text: give an svmlight file, plain or gzipped"
        if first:
            return f"the label {shown} is not a finite number: a line begins with its label, such as 1 or -0.5"
        pair = re.match(r"([+-]?[0-9]+):", token)
        if pair is None:
            return f"{shown} is not index:value: write for example 3:0.5"
        index = pair[1]
        digits = index.lstrip("+-0")
        if index.startswith("-") or not digits:
            return f"{shown} has an index below 1: count the features from 1"
        if int(digits) > most:
            given = "raise features or omit it" if self._features else "renumber or hash the features"
            cure = given if self._scan is None else "the file has changed since it was scanned, open it again"
            return f"{shown} has an index above {most}: {cure}"
        if int(digits) <= previous:
            return f"{shown} comes after index {previous}: sort the indices of a line, each of them once"
        return f"{shown} has a value that is not a finite number: write for example 3:0.5"


# -------------------------------------------------------------------------------------------------------------- classes


def _name_classes(found: Iterable[float]) -> tuple[Label, ...]:
    values = tuple(found)
    return tuple(map(int if all(value.is_integer() for value in values) else repr, values))


def _read_class(name: Any) -> float:
    """Return the number that a class has in the file."""
    try:
        value = float(name)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"the class {name!r} is not a number, as the labels of an svmlight file are: give numbers")
    return value


def _locate(numbers: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return where each number stands in the increasing `numbers`, -1 if it does not."""
    if len(numbers) == 0:
        return np.full(len(wanted), -1, np.int64)
    places = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[places] == wanted, places, -1)


def _read_doubtful(block: bytes, rows: Rows, count: int, doubtful: int) -> tuple[int, str]:
    """Read the doubtful numbers with Python's float; return how many rows are good, and what is wrong with the next."""
    for slot, start, stop in rows.doubtful[:doubtful].tolist():
        value = float(block[start:stop])
        row = -1 - slot if slot < 0 else int(np.searchsorted(rows.indptr[1 : count + 1], slot, side="right"))
        if math.isinf(value):
            return row, f"{shorten(block[start:stop].decode())!r} is too large for a double: give a finite number"
        if slot < 0:
            rows.labels[row] = value
        else:
            rows.values[slot] = value
    return count, ""
