"""Machine code on disk: Numba's cache with a checksum in every file.

Numba unpickles and runs what its cache files hold, so one wrong byte can crash the process. Here a file is read only if
its checksum is right and if nobody else may write to it. Otherwise it counts as absent: the code is compiled again, and
the file is replaced. The checksum covers the file's name and the versions, so files cannot stand in for each other.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import pickle
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from gappletron.base import files
from gappletron.base.errors import UserError

__all__ = ["code_cache"]

PACKAGE = Path(__file__).parent.parent
DIGEST_BYTES = 32


def code_cache(function: Callable[..., Any], classes: str, sources: str) -> Any:
    """The cache of a function's machine code, in files whose names end with these hashes of classes and sources.

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
        self._cache_file = CheckedFiles(
            self._cache_path,
            f"{self._impl.filename_base}-{classes}-{sources}",
            self._impl.locator.get_source_stamp(),
        )

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError, UserError):
            super().save_overload(sig, data)
            remove_older(Path(self._cache_path), self._sources)


class CheckedFiles(IndexDataCacheFile):
    """An index from signatures to files of machine code, and these files. Each is a checksum and a pickle."""

    def load(self, key: Any) -> Any:
        name = self._load_index().get(key)
        found = None if name is None else self._content(name)
        # Two processes may have given the same name to the code of two signatures.
        return found[1] if found is not None and found[0] == key else None

    def save(self, key: Any, data: Any) -> None:
        overloads = self._load_index()
        names = map(self._data_name, itertools.count(1))
        name = overloads.get(key) or next(name for name in names if name not in overloads.values())
        self._write(name, (key, data))
        self._save_index({**overloads, key: name})

    def _load_index(self) -> dict[Any, str]:
        return self._content(self._index_name) or {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_name, overloads)

    def _content(self, name: str) -> Any:
        """The content of a file; None where it is missing or damaged, or where somebody else may write to it."""
        try:
            with Path(self._data_path(name)).open("rb") as file:
                if not is_trusted(os.fstat(file.fileno())):
                    return None
                digest, pickled = file.read(DIGEST_BYTES), file.read()
        except OSError:
            return None
        return pickle.loads(pickled) if digest == self._digest(name, pickled) else None

    def _write(self, name: str, content: Any) -> None:
        pickled = self._dump(content)
        path = Path(self._data_path(name))
        with files.replacing(path) as file:
            file.write(self._digest(name, pickled))
            file.write(pickled)
        path.chmod(path.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))

    def _digest(self, name: str, pickled: bytes) -> bytes:
        versions = repr((numba.__version__, self._source_stamp, name)).encode()
        return hashlib.blake2b(versions + b"\0" + pickled, digest_size=DIGEST_BYTES).digest()


def is_trusted(status: os.stat_result) -> bool:
    """Whether a file or folder can be written to only by this user, by root and by those who may write to the
    package's sources.
    """
    if not hasattr(os, "getuid"):  # Windows
        return True
    user = os.getuid()
    # A group with the number of the user is the user's own on most systems.
    trusted = {("user", user), ("user", 0), ("group", user), *_writers(PACKAGE.stat())}
    return _writers(status) <= trusted


def _writers(status: os.stat_result) -> set[tuple[str, int]]:
    found = {("user", status.st_uid)}
    if status.st_mode & stat.S_IWGRP:
        found.add(("group", status.st_gid))
    if status.st_mode & stat.S_IWOTH:
        found.add(("others", 0))
    return found


CODE_FILE = re.compile(r".+\.py\d+\w*-[0-9a-f]{10}-([0-9a-f]{16})\.(nbi|\d+\.nbc)(\.tmp\.[0-9a-f]+)?")


@functools.cache  # once per process and folder
def remove_older(folder: Path, sources: str) -> None:
    """Remove the files of other sources: no process that starts from now on can use them.

    A process that still runs with older sources finds its files missing and compiles again.
    """
    for path in folder.iterdir():
        found = CODE_FILE.fullmatch(path.name)
        if found and found[1] != sources:
            path.unlink(missing_ok=True)
