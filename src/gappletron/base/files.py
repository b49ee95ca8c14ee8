"""Files that are written whole or not at all, locks, and figures."""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import os
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING

from gappletron.base.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

SECONDS_UNTIL_ABANDONED = 3_600


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the place of `path` when the block ends well; otherwise what was there stays.

    An error, a kill or a full disk inside the block leaves the old file as it was. What is no plain file (a pipe, a
    device) is written to directly, and a link is followed. Temporary files that killed processes left behind an hour
    ago or earlier are removed first.

    :param mode: who may read and write a new file, as far as the system allows it.
    """
    try:
        if is_special(path):
            with _open_special(path) as file:
                yield file
            return
        target = _resolve(path)
        _remove_parts(target)
        # Not readable for more people than the file that it replaces.
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else mode
        # Only a rename within one file system is atomic.
        part = target.parent / f".{target.name[:40]}.{secrets.token_hex(4)}.part"
        try:
            with open(part, "xb", opener=functools.partial(os.open, mode=mode | stat.S_IWUSR)) as file:
                yield file
                file.flush()
                synchronise(file.fileno())
            if target.exists():  # a file that was there keeps its permissions
                part.chmod(mode)
            part.replace(target)
            synchronise_folder(target.parent)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error.strerror or str(error)) from None


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether this is a pipe or a device, or a name of this process's own output: it is written to, not replaced."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):  # it is not there
        return False
    plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return not plain or _find_own_output(found) is not None


def _find_own_output(found: os.stat_result) -> int | None:
    """Return the descriptor of this process's output or error stream that leads to this file."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # it may be closed
            if os.path.samestat(found, os.fstat(descriptor)):
                return descriptor
    return None


def _open_special(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a pipe, a device or an output of this process to write to.

    The own output is continued where it is: opened by its name, a file behind it would be emptied.
    """
    descriptor = _find_own_output(Path(path).stat())
    if descriptor is None:
        return Path(path).open("wb")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return os.fdopen(os.dup(descriptor), "wb")


# How a system says that it cannot do this here, and not that it has failed.
UNSUPPORTED = tuple(getattr(errno, name) for name in ("EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "ENOTTY", "EBADF"))


def synchronise(descriptor: int) -> None:
    """Let what was written to a file survive a power failure; raise an OSError where nobody can tell.

    After an error a second call proves nothing: the system may have dropped what it could not write, and reports that
    only once.
    """
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if fcntl is not None and full is not None:  # macOS, where fsync leaves the data in the memory of the drive
        try:
            fcntl.fcntl(descriptor, full)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
        else:
            return
    os.fsync(descriptor)


def synchronise_folder(folder: Path) -> None:
    """Let the new name of a file survive a power failure, where the system can do that; an OSError where it fails."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows, or a folder that may be written to and not read
        return
    try:
        synchronise(descriptor)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


def _remove_parts(target: Path) -> None:
    """Remove the temporary files for `target` that nobody has written to for an hour."""
    for part in target.parent.glob(f".{glob.escape(target.name[:40])}.????????.part"):
        with contextlib.suppress(OSError):  # it is gone already, or it is not ours
            found = part.lstat()
            if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > SECONDS_UNTIL_ABANDONED:
                part.unlink()


# The descriptors of locks. A forked child closes its copies: else it would keep a lock when its parent is killed.
_locks: set[int] = set()


def _leave_locks() -> None:
    while _locks:
        os.close(_locks.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_locks)


def lock_file(path: Path) -> int | None:
    """Lock a folder, or a file, which is made where it does not exist, until the returned descriptor is closed.

    None where the system has no such locks; a BlockingIOError where another process, or another descriptor of this one,
    has the lock.
    """
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None  # a file system without locks
    _locks.add(descriptor)
    return descriptor


def unlock_file(descriptor: int) -> None:
    """End a lock of :func:`lock_file`; in a forked child nothing, since the lock is its parent's."""
    if fcntl is not None and descriptor in _locks:
        _locks.remove(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def cannot_write(path: str | os.PathLike[str], reason: str) -> UserError:
    """Return the error for a file that cannot be written."""
    return UserError(f"cannot write {os.fspath(path)!r} ({reason}): name a file in a folder you can write to")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check that a file can be written, before the work whose result it is to hold."""
    try:
        if is_special(path):
            return
        target = _resolve(path)
        if target.is_dir():
            raise cannot_write(path, "it is a folder")
        if not target.parent.is_dir():
            raise cannot_write(path, f"there is no folder {str(target.parent)!r}")
        if target.exists() and not os.access(target, os.W_OK):
            raise cannot_write(path, "permission denied")
        tempfile.TemporaryFile(dir=target.parent).close()  # as `replacing` will: permissions do not tell all
    except OSError as error:
        raise cannot_write(path, error.strerror or str(error)) from None


def _resolve(path: str | os.PathLike[str]) -> Path:
    """Return where a path leads, links followed."""
    if "\0" in os.fspath(path):
        raise cannot_write(path, "it holds a NUL character")
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise cannot_write(path, "its links lead in a circle")
    return target


FIGURE_KINDS = ("png", "svg", "pdf")


def figure_kind(path: str | os.PathLike[str]) -> str:
    """Return how a figure is to be written, by the end of its file's name."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in FIGURE_KINDS:
        raise UserError(f"cannot draw into {os.fspath(path)!r}: let its name end in .png, .svg or .pdf")
    return kind


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: int = 150) -> None:
    """Write a figure whole or not at all; the same figure gives the same bytes, and text stays text in SVG."""
    import matplotlib as mpl

    kind = figure_kind(path)
    undated: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    # Without a salt the names inside an SVG are drawn anew each time.
    with replacing(path) as file, mpl.rc_context({"svg.hashsalt": "gappletron", "svg.fonttype": "none"}):
        figure.savefig(file, format=kind, dpi=dpi, metadata=undated.get(kind))
