"""Bytes from files and pipes, plain or compressed, a block at a time."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from gappletron.base.errors import UserError

Progress = Callable[[int, int], None] | None
"""Called with the bytes (or rows) that were read, and those that there are."""

BLOCK = 1 << 20
"""Bytes that are read, and at most decompressed, in one step."""

LONGEST_LINE = 1 << 26
"""The longest line, in bytes: a line is held in memory as a whole."""

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
        """Return whether it can be read only once; raise a UserError if there is nothing to read."""
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
        """The bytes, unpacked, some at a time."""
        with open_file(self.path, self.name) as file:
            yield _unpack(_read(file, self.name, progress), self.name)

    def first_bytes(self) -> bytes:
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
    while True:
        try:
            text = read(BLOCK)
        except (OSError, EOFError, zlib.error) as error:
            what = "truncated" if isinstance(error, EOFError) or "runcated" in str(error) else "corrupt"
            raise UserError(
                f"{name} is {what}: decompressing it as {kind} failed, download or compress it again"
            ) from None
        if not text:
            return
        yield text


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
            raise UserError(
                f"{name}, line {lines + 1} is longer than {LONGEST_LINE >> 20} MiB: write one row on each line"
            )


class BlockFile(io.RawIOBase):
    """Blocks of bytes as a file that can be read once, for readers that want one.

    >>> BlockFile(iter([b"ab", b"cde"])).read(3)
    b'abc'
    """

    def __init__(self, source: Iterator[bytes]) -> None:
        super().__init__()
        self._source, self._rest = source, b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as there is something to read."""
        view, filled = memoryview(buffer).cast("B"), 0
        while filled < len(view):
            if not self._rest:
                self._rest = next(self._source, b"")
                if not self._rest:
                    break
            part = self._rest[: len(view) - filled]
            view[filled : filled + len(part)] = part
            self._rest = self._rest[len(part) :]
            filled += len(part)
        return filled
