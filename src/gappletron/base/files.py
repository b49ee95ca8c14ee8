"""Files that are written whole or not at all, locks, and figures."""

from __future__ import annotations

import contextlib
import errno
import os
import re
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

SECONDS_OF_A_DAY = 86_400


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the place of `path` when the block ends well; otherwise what was there stays.

    An error, a kill or a full disk inside the block leaves the old file as it was. What is no plain file (a pipe, a
    device) is written to directly, and a link is followed. Temporary files that killed processes left behind are
    removed first.
    """
    try:
        if is_special(path):
            with _open_special(path) as file:
                yield file
            return
        target = _resolve(path)
        _remove_parts(target)
        descriptor, part = _make_part(target)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                synchronise(file.fileno())
                if fcntl is None:  # Windows does not rename open files; elsewhere the lock is held until the end
                    file.close()
                if target.exists():  # a file that was there keeps its permissions
                    part.chmod(stat.S_IMODE(target.stat().st_mode))
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
    if not stat.S_ISREG(found.st_mode):
        return not stat.S_ISDIR(found.st_mode)
    return _find_own_output(found) is not None


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


UNSUPPORTED = tuple(getattr(errno, name) for name in ("EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "ENOTTY", "EBADF"))
"""How a system says that it cannot do this here, and not that it has failed."""


def synchronise(descriptor: int, *, data_only: bool = False) -> None:
    """Let what was written to a file survive a power failure; raise an OSError where nobody can tell.

    After an error a second call proves nothing: the system may have dropped what it could not write, and reports that
    only once.

    :param data_only: the content and the length are enough; the times of the file may come later.
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
    flush = getattr(os, "fdatasync", os.fsync) if data_only else os.fsync
    flush(descriptor)


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


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; the names of new ones survive a power failure."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        synchronise_folder(each.parent)


def _part_names(target: Path) -> tuple[str, str]:
    """Return the start and the end of the names of temporary files for `target`."""
    return f".{target.name[:40]}.", ".part"


def _make_part(target: Path) -> tuple[int, Path]:
    """Make a temporary file, locked while it is written, in the target's folder.

    Only a rename within one file system is atomic.
    """
    prefix, suffix = _part_names(target)
    # Not readable for more people than the file that it replaces; a new file gets what the system allows.
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    while True:
        part = target.parent / f"{prefix}{secrets.token_hex(4)}{suffix}"
        try:
            descriptor = os.open(
                part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode | stat.S_IWUSR
            )
        except FileExistsError:
            continue
        _lock(descriptor, wait=True)
        with contextlib.suppress(FileNotFoundError):  # another writer may have removed it before it was locked
            if os.path.samestat(os.fstat(descriptor), part.lstat()):
                return descriptor, part
        os.close(descriptor)


def _remove_parts(target: Path) -> None:
    """Remove the temporary files for `target` that no process is writing any more."""
    prefix, suffix = _part_names(target)
    pattern = re.compile(f"{re.escape(prefix)}[a-z0-9_]{{8}}{re.escape(suffix)}")
    parts = []
    with contextlib.suppress(OSError):  # a folder may be writable and not readable
        parts = [path for path in target.parent.iterdir() if pattern.fullmatch(path.name)]
    for part in parts:
        with contextlib.suppress(OSError):  # it is gone already, or it is not ours
            if stat.S_ISREG(part.lstat().st_mode):
                _remove_if_abandoned(part)


def _remove_if_abandoned(part: Path) -> None:
    """Remove a temporary file if no process holds its lock, or, without locks, if it is older than a day."""
    descriptor = os.open(part, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        locked = _lock(descriptor, wait=False)
        if locked is None:
            locked = time.time() - os.fstat(descriptor).st_mtime > SECONDS_OF_A_DAY
        if locked:
            part.unlink()  # with the lock held: nobody can begin to write to it
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool | None:
    """Lock an open file until it is closed; False if another process has the lock, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def lock_file(path: Path) -> int | None:
    """Lock a file, which is made where it does not exist, until the descriptor that is returned is closed.

    None where the system has no such locks; a BlockingIOError where another process, or another descriptor of this one,
    has the lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    locked = _lock(descriptor, wait=False)
    if locked:
        return descriptor
    os.close(descriptor)
    if locked is None:
        return None
    raise BlockingIOError


def unlock_file(descriptor: int) -> None:
    """End a lock of :func:`lock_file`, also where a copy of this process (fork) still has the file open."""
    if fcntl is not None:
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
        if target.is_file() or not target.exists():
            prefix, suffix = _part_names(target)
            # As `replacing` will: permissions do not tell all. What a kill leaves behind has a name that it removes.
            with tempfile.TemporaryFile(dir=target.parent, prefix=prefix, suffix=suffix):
                pass
    except OSError as error:
        raise cannot_write(path, error.strerror or str(error)) from None


def _resolve(path: str | os.PathLike[str]) -> Path:
    """Return where a path leads, links followed."""
    if "\0" in os.fspath(path):
        raise cannot_write(path, "it holds a NUL character")
    try:
        target = Path(path).resolve()
    except RuntimeError:  # before Python 3.13, which returns a link instead
        raise cannot_write(path, "its links lead in a circle") from None
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
