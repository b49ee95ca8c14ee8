"""Files and pipes: their bytes, plain or compressed, a block at a time; and what all streams from files share."""

import contextlib
import gzip
import io
import itertools
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar

import numpy as np

from gappletron.base.errors import UserError
from gappletron.data.stream import Stream

# Called with the bytes (or rows) that were read, and those that there are.
Progress = Callable[[int, int], None] | None

Item = TypeVar("Item")

# Bytes that are read, and at most decompressed, in one step.
BLOCK = 1 << 20

# The longest line, in bytes: a line is held in memory as a whole.
LONGEST_LINE = 1 << 26

# The maximum number of distinct labels: more look like the targets of a regression.
MOST_CLASSES = 100_000

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Source:
    """A file, or the standard input for ``-``; its name in messages, and for CSV the columns where it has no header."""

    def __init__(self, path: str | os.PathLike[str], columns: Iterable[str] | None = None) -> None:
        try:
            self.path = os.fsdecode(path)
        except TypeError:
            raise UserError(f"a file is named by a path, not by {path!r}") from None
        self.name = "standard input" if self.path == "-" else self.path
        self.columns = None if columns is None else tuple(columns)

    def is_pipe(self) -> bool:
        """Return whether the source can be read only once; raise a UserError if there is nothing to read."""
        if self.path in ("-", "/dev/stdin") or self.path.startswith("/dev/fd/"):
            return True
        try:
            mode = os.stat(self.path).st_mode  # noqa: PTH116 - '' must reach the operating system unchanged
        except (OSError, ValueError) as error:
            raise _explain(self.path, error) from None
        if stat.S_ISDIR(mode):
            raise UserError(f"{self.path} is a directory: name a file in it")
        return not stat.S_ISREG(mode)

    @contextlib.contextmanager
    def blocks(self, progress: Progress = None) -> Iterator[Iterator[bytes]]:
        """Open the file and give its bytes, unpacked, some at a time."""
        with open_file(self.path, self.name) as file:
            yield _unpack(_read(file, self.name, progress), self.name)

    def read_first_bytes(self) -> bytes:
        """Return the first block; nothing where it cannot be read."""
        with contextlib.suppress(UserError, OSError), self.blocks() as blocks:
            return next(blocks, b"")
        return b""


def _explain(name: str, error: Exception) -> UserError:
    if isinstance(error, FileNotFoundError):
        return UserError(f"there is no file {name!r}: check the path, or use 'digits' or 'synthetic:K=9,d=120'")
    if isinstance(error, PermissionError):
        return UserError(f"{name} cannot be read (permission denied): change its permissions")
    return UserError(f"{name!r} cannot be read ({getattr(error, 'strerror', None) or error}): check the path")


@contextlib.contextmanager
def open_file(path: str, name: str) -> Iterator[BinaryIO]:
    """Open a file, or the standard input for ``-``; `name` is for messages."""
    if path == "-":
        if getattr(sys.stdin, "buffer", None) is None:
            raise UserError("there is no standard input to read: name a file")
        yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb")  # noqa: PTH123, SIM115 - closed below; open and the body must not share an except
    except (OSError, ValueError) as error:
        raise _explain(name, error) from None
    with file:
        yield file


def _read(file: BinaryIO, name: str, progress: Progress) -> Iterator[bytes]:
    """Yield the bytes of a file, a block at a time."""
    total = os.fstat(file.fileno()).st_size if progress is not None else 0
    done = 0
    while True:
        try:
            block = file.read(BLOCK)
        except (OSError, ValueError) as error:
            raise _explain(name, error) from None
        if not block:
            return
        yield block
        done += len(block)
        if progress is not None:
            progress(done, total)


def _unpack(packed: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Return the blocks themselves, or what they hold if they begin as gzip or zstd does."""
    first = next(packed, b"")
    together = itertools.chain([first], packed)
    if first.startswith(GZIP):
        # read1 gives what one step of decompression gives, so that nothing is lost before an error.
        return _decompress(gzip.GzipFile(fileobj=BlockFile(together)).read1, name, "gzip")
    if first.startswith(ZSTD):
        import pyarrow as pa

        file = pa.CompressedInputStream(pa.PythonFile(BlockFile(together), mode="r"), "zstd")
        return _decompress(file.read, name, "zstd")
    return together


def _decompress(read: Callable[[int], bytes], name: str, kind: str) -> Iterator[bytes]:
    """Yield what the steps of decompression give, in blocks that are as long as those of plain files."""
    parts: list[bytes] = []
    problem = None
    while True:
        try:
            text = read(BLOCK)
        except (OSError, EOFError, zlib.error) as error:
            what = "truncated" if isinstance(error, EOFError) or "runcated" in str(error) else "corrupt"
            problem, text = UserError(f"{name} is {what} ({kind}): download or compress it again"), b""
        parts += [text] if text else []
        if parts and (not text or sum(map(len, parts)) >= BLOCK):
            yield b"".join(parts)
            parts = []
        if problem is not None:
            raise problem
        if not text:
            return


def read_lines(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the same bytes in blocks of whole lines, each with its newline.

    >>> list(read_lines(iter([b"one\\ntw", b"o"]), "a file"))
    [b'one\\n', b'two\\n']
    """
    parts: list[bytes] = []
    lines = 0
    for block in itertools.chain(blocks, [b"\n"]):
        stop = block.rfind(b"\n") + 1
        if stop:
            yield b"".join([*parts, memoryview(block)[:stop]])
            lines += int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))  # bytes.count is slow
            parts = []
        parts.append(block[stop:])
        if sum(map(len, parts)) > LONGEST_LINE:
            limit = f"{LONGEST_LINE >> 20} MiB"
            raise UserError(f"{name}, line {lines + 1} is longer than {limit}: write one row on each line")


class BlockFile(io.RawIOBase):
    """Blocks of bytes as a file that can be read once, for readers that want one.

    >>> io.BufferedReader(BlockFile(iter([b"ab", b"cde"]))).read(3)
    b'abc'
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self._blocks, self._rest = filter(None, blocks), b""

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes, as many as fit, at most the rest of a block."""
        block = self._rest or next(self._blocks, b"")
        size = min(len(block), len(buffer))
        buffer[:size] = block[:size]
        self._rest = block[size:]
        return size


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the same items; while one is used, a thread makes the next.

    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


class FileStream(Stream):
    """The rows of a file or of a pipe, which can be read only once.

    Opening reads nothing. What playing must know and was not given is found by one scan when it is first needed, and
    what a scan has found is kept.
    """

    _rows: int | None = None
    """The number of rows that a scan has found; None before it."""

    def __init__(self, path: str | os.PathLike[str], columns: Iterable[str] | None = None) -> None:
        self._source = Source(path, columns)
        self.path, self.name = self._source.path, self._source.name
        self.is_pipe, self._is_read = self._source.is_pipe(), False

    def _begin(self) -> None:
        """Note that the rows are read now; raise a UserError if they come from a pipe that was read before."""
        if self.is_pipe and self._is_read:
            raise UserError(f"{self.name} is a pipe and was read already: to play it again, write it to a file first")
        self._is_read = True

    def _check_rows(self, rows: int) -> None:
        """Raise a UserError if the file has another number of rows than when it was scanned."""
        if self._rows not in (None, rows):
            before = f"{self.name} had {self._rows} rows when it was scanned"
            raise UserError(f"{before} and now has {rows}: the file has changed, open it again")

    def _check_count(self, labels: Sized, where: str) -> None:
        """Raise a UserError if there are too many distinct labels to be classes."""
        if len(labels) > MOST_CLASSES:
            what = f"{self.name} has more than {MOST_CLASSES:,} distinct labels {where}"
            raise UserError(f"{what}, which looks like regression or an identifier: labels must be classes")

    def _explain_one_class(self, label: Any) -> UserError:
        """Return the error for a file that has a single class."""
        cure = "a stream needs at least 2 classes, name them with --classes (classes=)"
        return UserError(f"{self.name} has only the label {label!r}: {cure}")
