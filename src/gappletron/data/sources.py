"""Bytes from files and pipes, plain or compressed, a block at a time."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from gappletron.base.errors import UserError

__all__ = ["BlockFile", "blocks", "is_pipe", "opened", "unpacked"]

BLOCK = 1 << 20
"""Bytes that are read, and at most decompressed, in one step."""

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def is_pipe(path: str) -> bool:
    """Whether the path can be read only once; a UserError if there is nothing to read."""
    if path in ("-", "/dev/stdin") or path.startswith("/dev/fd/"):
        return True
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - an odd path such as '' must reach the operating system unchanged
    except (OSError, ValueError) as error:
        raise cannot_open(path, error) from None
    if stat.S_ISDIR(mode):
        raise UserError(f"{path} is a directory: name a file in it")
    return not stat.S_ISREG(mode)


def cannot_open(name: str, error: Exception) -> UserError:
    if isinstance(error, FileNotFoundError):
        return UserError(f"there is no file {name!r}: check the path, or use 'digits' or 'synthetic:K=9,d=120'")
    if isinstance(error, PermissionError):
        return UserError(f"{name} cannot be read (permission denied): change its permissions")
    return UserError(f"{name!r} cannot be read ({getattr(error, 'strerror', None) or error}): check the path")


@contextlib.contextmanager
def opened(path: str, name: str) -> Iterator[BinaryIO]:
    """A file, or the standard input for ``-``; `name` is for messages."""
    if path == "-":
        if getattr(sys.stdin, "buffer", None) is None:
            raise UserError("there is no standard input to read: name a file")
        yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb")  # noqa: PTH123, SIM115 - closed below; open and the body must not share an except
    except (OSError, ValueError) as error:
        raise cannot_open(name, error) from None
    with file:
        yield file


def blocks(file: BinaryIO, name: str, progress: Callable[[int, int], None] | None) -> Iterator[bytes]:
    """The bytes of a file, a block at a time; `progress` is called with (bytes read, bytes in all)."""
    total = os.fstat(file.fileno()).st_size if progress is not None else 0
    done = 0
    while True:
        try:
            block = file.read(BLOCK)
        except (OSError, ValueError) as error:
            raise cannot_open(name, error) from None
        if not block:
            return
        yield block
        done += len(block)
        if progress is not None:
            progress(done, total)


def unpacked(packed: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The blocks themselves, or what they hold if they begin as gzip or zstd does."""
    first = next(packed, b"")
    together = itertools.chain([first], packed)
    if first.startswith(GZIP):
        return _unzipped(together, name)
    if first.startswith(ZSTD):
        return _zstd_unpacked(together, name)
    return together


def _zstd_unpacked(packed: Iterator[bytes], name: str) -> Iterator[bytes]:
    import pyarrow as pa

    file = pa.CompressedInputStream(pa.PythonFile(BlockFile(packed), mode="r"), "zstd")
    while True:
        try:
            text = file.read(BLOCK)
        except OSError as error:
            what = "truncated" if "runcated" in str(error) else "corrupt"
            raise UserError(
                f"{name} is {what}: decompressing it as zstd failed, download or compress it again"
            ) from None
        if not text:
            return
        yield text


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


def _unzipped(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """What gzip has packed; several members read as one text."""
    member: Any = None
    packed = b""
    while True:
        packed = packed or next(blocks, b"")
        ended = not packed
        if member is None:
            packed = packed.lstrip(b"\0")  # padding between members, as gzip itself allows it
            if ended:
                return
            if not packed:
                continue
            member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            text = member.decompress(packed, BLOCK)  # at most a block comes out, however much is packed in
        except zlib.error as error:
            raise UserError(
                f"{name} is corrupt: decompressing it as gzip failed ({error}), download or compress it again"
            ) from None
        if text:
            yield text
        elif ended and not member.eof:
            raise UserError(f"{name} is truncated: its gzip data ends too early, download or compress it again")
        packed = member.unused_data if member.eof else member.unconsumed_tail
        if member.eof:
            member = None
