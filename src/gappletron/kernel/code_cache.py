"""Machine code on disk: Numba's cache, with one file per signature and a checksum in every file.

Numba unpickles and runs what its cache files hold, so one wrong byte can crash the process. Here a file is read only if
its checksum is right and if nobody else may write to it. Otherwise it counts as absent: the code is compiled again, and
the file is replaced. The checksum covers the file's name and the versions, so files cannot stand in for each other.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

PACKAGE = Path(__file__).parent.parent
DIGEST_BYTES = 32


def make_cache(function: Callable[..., Any], classes: str, sources: str) -> Any:
    """Return the cache of a function's machine code, in files whose names have these hashes of classes and sources.

    Where there is no folder for it, or one that somebody else may write to, nothing is cached.
    """
    try:
        cache = CheckedCache(function, classes, sources)
    except RuntimeError:  # no place on this machine where a cache could be written
        return NullCache()
    return cache if is_trusted(Path(cache.cache_path).stat()) else NullCache()


class CheckedCache(FunctionCache):
    """Numba's cache over :class:`CheckedFiles`. A cache that cannot be written does not stop the program."""

    def __init__(self, function: Callable[..., Any], classes: str, sources: str) -> None:
        super().__init__(function)
        self._sources = sources
        name = f"{self._impl.filename_base}-{classes}-{sources}"
        self._cache_file = CheckedFiles(self._cache_path, name, self._impl.locator.get_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)
            remove_older(Path(self._cache_path), self._sources)


class CheckedFiles(IndexDataCacheFile):
    """The files of one function, one for each signature. Each is a checksum and a pickle."""

    def load(self, key: Any) -> Any:
        """Return the code for a signature; None where it is missing or damaged, or where others may write to it."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                if not is_trusted(os.fstat(file.fileno())):
                    return None
                digest, pickled = file.read(DIGEST_BYTES), file.read()
        except OSError:
            return None
        return pickle.loads(pickled) if digest == self._digest(path.name, pickled) else None

    def save(self, key: Any, data: Any) -> None:
        """Write the code for a signature."""
        path, pickled = self._path(key), self._dump(data)
        with self._open_for_write(path) as file:
            file.write(self._digest(path.name, pickled) + pickled)
        path.chmod(path.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))

    def _path(self, key: Any) -> Path:
        signature = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return Path(self._index_path).with_suffix(f".{signature}.nbc")

    def _digest(self, name: str, pickled: bytes) -> bytes:
        versions = repr((numba.__version__, self._source_stamp, name)).encode()
        return hashlib.blake2b(versions + b"\0" + pickled, digest_size=DIGEST_BYTES).digest()


def is_trusted(status: os.stat_result) -> bool:
    """Whether only this user, root and those who may write to the package's sources can write to a file or folder."""
    if not hasattr(os, "getuid"):  # Windows
        return True
    user = os.getuid()
    # A group with the number of the user is the user's own on most systems.
    trusted = {("user", user), ("user", 0), ("group", user), *_list_writers(PACKAGE.stat())}
    return _list_writers(status) <= trusted


def _list_writers(status: os.stat_result) -> set[tuple[str, int]]:
    groups = {("group", status.st_gid)} if status.st_mode & stat.S_IWGRP else set()
    others = {("others", 0)} if status.st_mode & stat.S_IWOTH else set()
    return {("user", status.st_uid)} | groups | others


CODE_FILE = re.compile(r".+\.py\d+\w*-[0-9a-f]{10}-([0-9a-f]{16})\.[0-9a-f]{16}\.nbc(\.tmp\.[0-9a-f]+)?")


@functools.cache  # once per process and folder
def remove_older(folder: Path, sources: str) -> None:
    """Remove the files of other sources: no process that starts from now on can use them.

    A process that still runs with older sources finds its files missing and compiles again.
    """
    for path in folder.iterdir():
        found = CODE_FILE.fullmatch(path.name)
        if found and found[1] != sources:
            path.unlink(missing_ok=True)
