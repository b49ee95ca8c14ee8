"""Writing files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gappletron._validate import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends well; otherwise what was there stays.

    An error, a kill or a full disk inside the block leaves the old file as it was.
    """
    target = Path(path)
    part = None
    try:
        # In the target's own folder, since only a rename within one file system is atomic.
        descriptor, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".part")
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _share(Path(part))
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        Path(part).replace(target)
        part = None
    except (OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot write {str(path)!r} ({reason}): name a file in a folder you can write to") from None
    finally:
        if part is not None:
            Path(part).unlink(missing_ok=True)


def _share(part: Path) -> None:
    """Give a temporary file, which only its owner may read, the rights that a new file has."""
    mask = os.umask(0)
    os.umask(mask)
    part.chmod(0o666 & ~mask)
