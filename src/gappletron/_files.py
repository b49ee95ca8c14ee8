"""Writing files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gappletron._validate import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends well; otherwise what was there stays.

    An error, a kill or a full disk inside the block leaves the old file as it was. What is no plain file (a pipe, a
    device) is written to directly, and a link is followed.
    """
    try:
        target = _resolved(path)
        if Path(path).exists() and not Path(path).is_file():
            with Path(path).open("wb") as file:
                yield file
            return
        # In the target's own folder, since only a rename within one file system is atomic.
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".part")
        part = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            # A temporary file is its owner's alone; a file that was there keeps its permissions.
            part.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error.strerror or str(error)) from None


def cannot_write(path: str | os.PathLike[str], reason: str) -> UserError:
    """The error for a file that cannot be written."""
    return UserError(f"cannot write {os.fspath(path)!r} ({reason}): name a file in a folder you can write to")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be written, before the work whose result it is to hold."""
    try:
        target = _resolved(path)
        if target.is_dir():
            raise cannot_write(path, "it is a folder")
        if not target.parent.is_dir():
            raise cannot_write(path, f"there is no folder {str(target.parent)!r}")
        if target.exists() and not os.access(target, os.W_OK):
            raise cannot_write(path, "permission denied")
        if target.is_file() or not target.exists():
            with tempfile.TemporaryFile(dir=target.parent):  # as `replacing` will: permissions do not tell all
                pass
    except OSError as error:
        raise cannot_write(path, error.strerror or str(error)) from None


def _resolved(path: str | os.PathLike[str]) -> Path:
    """Where a path leads, links followed."""
    if "\0" in os.fspath(path):
        raise cannot_write(path, "it holds a NUL character")
    try:
        target = Path(path).resolve()
    except RuntimeError:  # before Python 3.13, which returns a link instead
        raise cannot_write(path, "its links lead in a circle") from None
    if target.is_symlink():
        raise cannot_write(path, "its links lead in a circle")
    return target


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


FIGURE_KINDS = ("png", "svg", "pdf")


def figure_kind(path: str | os.PathLike[str]) -> str:
    """How a figure is to be written, by the end of its file's name."""
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
