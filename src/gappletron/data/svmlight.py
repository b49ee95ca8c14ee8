"""Streams from svmlight (libsvm) files: plain or compressed, regular files or pipes, in bounded memory."""

from __future__ import annotations

import array
import functools
import math
import operator
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, labels, number, whole
from gappletron.base.errors import UserError
from gappletron.base.text import listing, shorten
from gappletron.data import sources
from gappletron.data.arrays import check_classes, plain_names
from gappletron.data.files import FileStream
from gappletron.data.formats import looks_like
from gappletron.data.sources import Progress
from gappletron.data.stream import (
    CHUNK,
    MOST_FEATURES,
    Chunk,
    check_norm,
    drop_zeros,
    largest_norm,
    make_chunk,
)


class Scan(NamedTuple):
    """What a scan of a file finds."""

    rows: int
    features: int
    labels: tuple[float, ...]
    max_norm: float


class Parsed(NamedTuple):
    """Some consecutive rows, the numbers that are their labels, and the lines they came from."""

    chunk: Chunk  # its labels mean nothing
    labels: list[float]
    lines: list[int]
    largest: int  # index in the block of text, counted from 1


class SvmlightFile(FileStream):
    """The rows of an svmlight file, ``label index:value index:value ...`` with indices from 1, one round each.

    The file may be compressed by gzip or zstd, whatever its name. It is read as scikit-learn reads it with
    ``zero_based=False``, but in bounded memory; nan, inf, digits with underscores and indices below 1 are
    errors. Zeros are left out.

    What is not given here is found by one scan of the file when it is first needed (see :meth:`scan`): the features are
    as many as the largest index, the classes are the distinct labels in increasing order, as ints if all are whole and
    else as text. So the file is read twice, for the scan and for playing. With `features` and `classes` given it is
    read once, and the number of rounds is not known beforehand; asking for :attr:`max_norm` scans, unless it was given
    too. `classes` are compared by number (1, 1.0 and "1" are the same), named as the scan would name them, and stay in
    the order given. At most `rounds` rows are played, and those before a wrong line are played before the error is
    raised.

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
        rounds: int | None = None,
    ) -> None:
        super().__init__(path)
        self._is_read = False
        self._features = None if features is None else whole(features, "features", least=1, most=MOST_FEATURES)
        self._classes = None if classes is None else check_classes(_read_classes(classes))
        self.classes_given = classes is not None
        self._max_norm = None if max_norm is None else number(max_norm, "max_norm", above=0.0)
        self._most = None if rounds is None else whole(rounds, "rounds", least=1)
        if self._pipe and (self._features is None or self._classes is None):
            raise UserError(
                f"{self.name} is a pipe and can be read only once: give the features and the classes, "
                "or write it to a file first"
            )

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
        if self._max_norm is not None or self._pipe:
            return self._max_norm
        return check_norm(self.scan().max_norm, self.name)

    @property
    def rounds(self) -> int | None:  # type: ignore[override]
        """The number of rows, or the limit given if that is smaller; before a scan the limit, which may be None."""
        if self._features is not None and self._classes is not None and self._scan is None:
            return self._most
        rows = self.scan().rows
        return rows if self._most is None else min(rows, self._most)

    def prepare(self, progress: Progress = None) -> None:
        """Scan the file, unless its features and classes were given."""
        if self._features is None or self._classes is None:
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
        if self._pipe:
            raise UserError(f"{self.name} is a pipe and cannot be scanned: give the features, the classes and max_norm")
        rows, largest, norm = 0, 1, 0.0
        found: set[float] = set()
        for part in self._parse(self._features or MOST_FEATURES, progress):
            rows += len(part.labels)
            largest = max(largest, part.largest)
            norm = max(norm, largest_norm(part.chunk))
            if self._classes is not None:
                wrong = self._positions(part)[1]
                if wrong is not None:
                    raise UserError(wrong)
            else:
                found.update(part.labels)
            self._check_most(found, f"by line {part.lines[-1]}")
        if self._classes is None and len(found) == 1:
            raise self._only_label(_name_class(found.pop()))
        self._scan = Scan(rows, largest, tuple(sorted(found)), norm)
        return self._scan

    def chunks(self) -> Iterator[Chunk]:
        """The rounds from the beginning; a pipe can be read only once."""
        if self._is_read:
            self._refuse_pipe()
        self.prepare()
        self._is_read = True
        return self._play(self.features)

    def rows(self) -> Iterator[Chunk]:
        """The rows with labels that mean nothing, whatever stands in the file: for predictions."""
        self._is_read = True
        for part in self._parse(self.features):
            yield part.chunk

    def _play(self, features: int) -> Iterator[Chunk]:
        left = self._most if self._most is not None else sys.maxsize
        rows = 0
        for part in self._parse(features):
            positions, wrong = self._positions(part)
            rows += len(positions)
            keep = min(left, len(positions))
            if keep:
                yield part.chunk._replace(labels=positions).part(0, keep)
            left -= keep
            if left == 0:
                return
            if wrong is not None:
                raise UserError(wrong)
        self._check_rows(rows)

    def _positions(self, part: Parsed) -> tuple[NDArray[np.int64], str | None]:
        """Return the labels as positions in the classes, up to the first that is none, and what is wrong with it."""
        found = [self._places.get(label, -1) for label in part.labels]
        wrong = None
        if -1 in found:
            row = found.index(-1)
            found = found[:row]
            cure = (
                "add it to classes or drop the line"
                if self._classes is not None
                else "it was not there when the file was scanned, open the file again"
            )
            wrong = (
                f"{self.name}, line {part.lines[row]}: the label {_name_class(part.labels[row])!r} is not among the "
                f"classes {listing(self.classes)}: {cure}"
            )
        return np.array(found, np.int64), wrong

    @functools.cached_property
    def _places(self) -> dict[float, int]:
        """The position of each class, by the number that it has in the file."""
        return {_read_class(name): position for position, name in enumerate(self.classes)}

    def _parse(self, most: int, progress: Progress = None) -> Iterator[Parsed]:
        """Yield the rows of the file, some at a time, or raise a UserError that says where the file is wrong.

        Indices above `most` are wrong. The rows before a wrong line come first.
        """
        number = count = 0
        with self._source.blocks(progress) as blocks:
            for block in sources.read_lines(blocks, self.name):
                labels, lines, ends, wrong = [], [], [0], None
                indices, values = array.array("i"), array.array("d")
                for number, line in enumerate(block.split(b"\n")[:-1], number + 1):  # noqa: B020 - it goes on
                    tokens = line.partition(b"#")[0].split()
                    row = _read_row(tokens, most) if tokens else None
                    if b"\0" in line or (tokens and row is None):
                        wrong = self._explain_line(line, number)
                        break
                    if row is not None:
                        labels.append(row[0])
                        lines.append(number)
                        indices.extend(row[1])
                        values.extend(row[2])
                        ends.append(len(values))
                count += len(labels)
                places = np.array(indices)
                rows = drop_zeros(np.array(ends), places - np.int32(1), np.array(values))
                chunk, largest = make_chunk(*rows, np.zeros(len(labels), np.int64)), int(places.max(initial=0))
                for start in range(0, len(labels), CHUNK):
                    stop = start + CHUNK
                    yield Parsed(chunk.part(start, stop), labels[start:stop], lines[start:stop], largest)
                if wrong is not None:
                    raise UserError(wrong)
        if count == 0:
            raise UserError(f"{self.name} has no rows: a stream needs at least one line such as '1 3:0.5'")

    def _explain_line(self, line: bytes, number: int) -> str:
        """Return what is wrong with a line."""
        tokens = line.partition(b"#")[0].split()
        if number == 1 and not (tokens and not _find_fault(tokens[0])):
            look = looks_like(line)
            if look and not re.search(rb"\d:[-+.\d]", line):
                return f"{self.name} is not an svmlight file, and {look}"
        reason = "there is a NUL byte, so this is not text: give an svmlight file, plain or gzipped"
        if b"\0" not in line:
            reason = self._explain(*tokens)
        return f"{self.name}, line {number}: {reason}"

    def _explain(self, label: bytes, *pairs: bytes) -> str:  # noqa: PLR0911 - a list of reasons
        """Return what is wrong with the first token of a line that is wrong, and the cure."""
        if fault := _find_fault(label):
            return f"the label {_show(label)} {fault}: a line begins with its label, a finite number"
        previous = 0
        for token in pairs[1:] if pairs[0].startswith(b"qid") and b":" in pairs[0] else pairs:
            shown = _show(token)
            pair = re.fullmatch(rb"([+-]?[0-9]+):(.*)", token, re.DOTALL)
            if pair is None:
                return f"{shown} is not index:value: write for example 3:0.5"
            index, value = pair.groups()
            digits = index.lstrip(b"+-0")
            if index.startswith(b"-") or not digits:
                return f"{shown} has an index below 1: count the features from 1"
            if len(digits) > 10 or int(digits) > MOST_FEATURES:
                return f"{shown} has an index above {MOST_FEATURES}: renumber or hash the features"
            if self._features is not None and int(digits) > self._features:
                return f"{shown} has an index above the {self._features} features given: raise features or omit it"
            if self._scan is not None and int(digits) > self._scan.features:
                return (
                    f"{shown} has an index above the {self._scan.features} found when the file was scanned: "
                    "the file has changed, open it again"
                )
            if int(digits) <= previous:
                return f"{shown} comes after index {previous}: sort the indices of a line, each of them once"
            if fault := _find_fault(value):
                return f"{shown} has a value that {fault}: give a finite number"
            previous = int(digits)
        return "an index has thousands of zeros in front: leave them out"


def _read_row(tokens: list[bytes], most: int) -> tuple[float, list[int], list[float]] | None:
    """Return the label, the indices and the values of a line; None where it is wrong."""
    is_query = len(tokens) > 1 and tokens[1].startswith(b"qid") and b":" in tokens[1]
    rest = tokens[2 if is_query else 1 :]
    try:
        label = float(tokens[0])
        pairs = [token.split(b":") for token in rest]
        indices = [int(index) for index, _ in pairs]
        values = [float(value) for _, value in pairs]
    except ValueError:
        return None
    is_sorted = all(map(operator.lt, [0, *indices], [*indices, most + 1]))
    is_finite = math.isfinite(label) and all(map(math.isfinite, values))
    if not is_sorted or not is_finite or b"_" in b"".join([tokens[0], *rest]):  # Python takes 1_0 for a number
        return None
    return label, indices, values


# -------------------------------------------------------------------------------------------------------------- classes


def _name_class(value: float) -> Label:
    return int(value) if value.is_integer() else repr(value)


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
        raise UserError(
            f"the class {name!r} is not a number, and the labels of an svmlight file are: give numbers as classes"
        )
    return value


def _read_classes(classes: Iterable[Any]) -> tuple[Label, ...]:
    """Return the names that a scan would give to these classes, in the order given."""
    return labels(_name_classes(_read_class(item) for item in plain_names(classes)), "class")


def _show(token: bytes) -> str:
    return repr(shorten(token.decode("ascii", "backslashreplace")))


def _find_fault(text: bytes) -> str:
    """Return why a text is not a finite number; nothing where it is one."""
    if text.lower().lstrip(b"+-") in (b"inf", b"infinity"):
        return "is infinite"
    try:
        value = float(text)
    except ValueError:
        return "is not a number"
    if math.isinf(value):
        return "is too large for a double"
    if math.isnan(value):
        return "is not a number"
    return "is not a valid number" if b"_" in text else ""
