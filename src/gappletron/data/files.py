"""What all streams from files share: pipes are read once, files are scanned at most once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sized
from typing import Any

from gappletron.base.errors import UserError
from gappletron.data.sources import Source
from gappletron.data.stream import Stream

MOST_CLASSES = 100_000
"""The maximum number of distinct labels: more look like the targets of a regression."""


class FileStream(Stream):
    """The rows of a file or of a pipe, which can be read only once.

    Opening reads nothing. What playing must know and was not given is found by one scan when it is first needed, and
    what a scan has found is kept.
    """

    _scan: Any = None
    """What a scan has found, with the number of `rows`; None before it."""

    def __init__(self, path: str | os.PathLike[str], columns: Iterable[str] | None = None) -> None:
        self._source = Source(path, columns)
        self.path, self.name = self._source.path, self._source.name
        self._pipe = self._source.is_pipe()

    def _refuse_pipe(self) -> None:
        if self._pipe:
            raise UserError(
                f"{self.name} is a pipe and was read already: write it to a file first to play it more than once"
            )

    def _check_rows(self, rows: int) -> None:
        """Raise a UserError if the file has another number of rows than when it was scanned."""
        if self._scan is not None and rows != self._scan.rows:
            raise UserError(
                f"{self.name} had {self._scan.rows} rows when it was scanned and now has {rows}: the file has changed, "
                "open it again"
            )

    def _check_most(self, found: Sized, where: str) -> None:
        """Raise a UserError if there are too many labels to be classes."""
        if len(found) > MOST_CLASSES:
            raise UserError(
                f"{self.name} has more than {MOST_CLASSES:,} distinct labels {where}, which looks like regression or "
                "an identifier: labels must be classes"
            )

    def _only_label(self, label: Any) -> UserError:
        """Return the error for a file that has a single class."""
        return UserError(
            f"{self.name} has only the label {label!r}: a stream needs at least 2 classes, name all of them with "
            "--classes (classes=)"
        )
