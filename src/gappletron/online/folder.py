"""A journal in a folder: segments of a log with checksums, and snapshots as saved models.

A segment is a file that begins with :data:`MAGIC` and goes on with frames. A frame is a group of events: a mark, the
length, a checksum, the number of the first event, their count, and their bytes. Frames are written one at a time and
whole. The end of the last segment may be torn by a kill or a power failure: what does not match its checksum there was
never acknowledged, and is cut off when the folder is opened. Damage anywhere else is refused.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from numpy.typing import NDArray

from gappletron.base import files
from gappletron.base.errors import Unavailable, UserError
from gappletron.online.store import Group, Log, Store
from gappletron.play import saved
from gappletron.play.saved import Rebuild

T = TypeVar("T")

MAGIC = b"gappletron log 1\n"
COMPACTED = b"gappletron log 1c"
"""How a segment begins whose rows were replaced by hashes."""
REPAIRED = b"gappletron log 1r"
"""How a segment begins before which events are missing since a repair."""
MOST_TRIES = 64
"""How many places behind a torn frame are looked at."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FRAME = struct.Struct("<4sIIQI")
MARK = b"\xf4gap"
SEGMENT_BYTES = 2**26
LOCK, SETTINGS = "lock", "journal.json"
SEGMENT, SNAPSHOT = re.compile(r"log-(\d{20})\.gap"), re.compile(r"state-(\d{20})\.npz")
FORMAT = 3
BINARY = getattr(os, "O_BINARY", 0)  # Windows

PIECE = 2**20
"""Bytes that are written again at a time."""


def _synchronised(descriptor: int) -> None:
    files.synchronise(descriptor, data_only=True)  # the length of a file is part of its data


class Tail(NamedTuple):
    """Where the next frame goes: the open segment, the place in it, and the number of the next event."""

    descriptor: int
    offset: int
    events: int


class FolderLog(Log):
    """The journal in a folder, to be read only. It needs no lock: another process may be writing to it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = FolderStore(folder)
    ...     store.put_settings({})
    ...     FolderLog(folder).snapshots()
    ...     store.close()
    []
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()  # the process may go to another folder meanwhile
        self.name = str(Path(folder))
        try:
            self._settings = _read_settings(self.folder) if self.folder.is_dir() else None
        except OSError as error:
            raise _unusable(self.folder, error) from None
        if self._settings is None:
            raise UserError(
                f"there is no journal in {self.name!r}: name a folder that Online.open or gappletron serve made"
            )

    def groups(self, start: int = 0) -> Iterator[Group]:
        return read_groups(self.folder, start)

    def snapshots(self) -> list[int]:
        return sorted(_numbered(self.folder, SNAPSHOT))

    def read_snapshot(self, at: int, kind: str, rebuilt: Rebuild[T]) -> T:
        return saved.read(_snapshot(self.folder, at), kind, rebuilt)

    def settings(self) -> dict[str, Any] | None:
        return self._settings

    @property
    def nbytes(self) -> int:
        return _size(self.folder)


class FolderStore(FolderLog, Store):
    """A store in a folder, which is made where it does not exist.

    :param segment_bytes: a segment that is larger is not continued.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = FolderStore(folder)
    ...     store.append(Group(0, 1, b"event"), durable=True)
    ...     store.close()
    ...     [group.events for group in read_groups(folder)]
    [b'event']
    """

    group_limit = 2**32 - 1  # a frame has 32 bits for the length

    def __init__(self, folder: str | os.PathLike[str], *, segment_bytes: int = SEGMENT_BYTES) -> None:
        # Not the path as it was given: after os.chdir the next segment would be written to another folder.
        self.folder, self.segment_bytes = Path(folder).absolute(), segment_bytes
        self.name = str(Path(folder))
        self._lock = _locked(self.folder)
        self._problem: str | None = None
        self._is_dirty = self._is_closed = False
        try:
            for path in self.folder.glob(".*.part"):
                path.unlink()  # of a process that was killed: nobody else writes here
            self._settings = _read_settings(self.folder)
            if self._settings is None:
                _refuse_others(self.folder)
                _remove_beginning(self.folder)
            self._tail = self._find_tail()
        except OSError as error:
            self._unlock()
            raise _unusable(self.folder, error) from None
        except BaseException:
            self._unlock()
            raise

    # ----------------------------------------------------------------------------------------------------------- events

    @property
    def count(self) -> int:
        return self._tail.events

    def append(self, group: Group, *, durable: bool) -> None:
        self._check_open()
        if group.first != self.count:
            raise UserError(f"the next event has the number {self.count}, not {group.first}: write them in order")
        if len(group.events) > self.group_limit:
            raise self.too_large()
        frame = framed(group)
        try:
            if self._is_dirty:  # an earlier write has failed, or a signal handler has raised in the middle of it
                os.ftruncate(self._tail.descriptor, self._tail.offset)
            if self._tail.offset >= self.segment_bytes:
                self._begin_segment()
            descriptor, offset, _ = self._tail
            self._is_dirty = True
            _write_all(descriptor, frame, offset)
        except OSError as error:
            cure = "free some space on the disk" if error.errno in FULL else "look after the disk"
            raise Unavailable(
                f"cannot write to the journal in {self.name!r} ({error.strerror or error}): nothing that was "
                f"acknowledged is lost; {cure}, then try again"
            ) from None
        if durable:
            self.synchronise()
        self._tail = Tail(descriptor, offset + len(frame), group.first + group.size)
        self._is_dirty = False

    def synchronise(self) -> None:
        self._check_open()
        self._reach_disk(_synchronised, self._tail.descriptor)

    def _reach_disk(self, synchronised: Callable[[T], None], what: T) -> None:
        """Wait for the disk. A failure is final: the system may have dropped what it could not write, and tells so only
        once. A second try would succeed and prove nothing about the bytes of the first.
        """
        try:
            synchronised(what)
        except OSError as error:
            self._problem = f"could not be written to the disk ({error.strerror or error})"
            self._check_open()

    def find_loss(self) -> str | None:
        """Return why nothing that is written can be found again: a file that is open can be written to after its
        removal. It takes some microseconds.

        >>> import shutil, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> store = FolderStore(folder)
        >>> store.find_loss() is None
        True
        >>> shutil.rmtree(folder)
        >>> store.find_loss().partition(": ")[2]
        'bring it back, or restore it from a copy and open it again'
        >>> store.close()
        """
        try:
            place = self.folder if self._settings is None else self.folder / SETTINGS
            if self._has_name() and place.exists():
                return None
        except OSError as error:  # the disk is gone, or may not be looked at
            return (
                f"the journal in {self.name!r} cannot be looked at ({error.strerror or error}), so nothing more is "
                "stored: look after its disk"
            )
        return (
            f"the journal in {self.name!r} was removed or moved while it was open, so nothing more can be stored: "
            "bring it back, or restore it from a copy and open it again"
        )

    def _has_name(self) -> bool:
        """Whether the segment that is written to is still in a folder."""
        try:
            return os.fstat(self._tail.descriptor).st_nlink > 0
        except OSError:  # closed: by close(), or another thread has begun the next segment just now
            return True

    def _check_open(self) -> None:
        if self._problem is not None:
            raise Unavailable(
                f"the journal in {self.name!r} {self._problem}: open the folder again (restart the server)"
            )

    def groups(self, start: int = 0) -> Iterator[Group]:
        return read_groups(self.folder, start, stop=self.count)

    def _find_tail(self) -> Tail:
        """The end of the log; what is torn there is cut off."""
        segments = _numbered(self.folder, SEGMENT)
        if self._settings is None:
            return self._new_segment(0)
        if not segments or (min(segments) > 0 and _beginning(segments[min(segments)]) != REPAIRED):
            raise UserError(
                f"the log in {self.name!r} has lost its beginning, or all of it: restore the folder from a copy, or go "
                f"on from the newest snapshot with: gappletron journal {self.name} --repair"
            )
        first, path = max(segments.items())
        last = _Segment(path, first)
        with path.open("rb") as file:
            for group in last.groups(file):
                first = group.first + group.size
            if last.follows_something(file, first):
                raise _damaged(path, last.end)
        if first < max(_numbered(self.folder, SNAPSHOT), default=0):
            raise UserError(
                f"the log in {self.name!r} ends before its newest snapshot, so events are missing: restore the folder "
                f"from a copy, or go on from that snapshot with: gappletron journal {self.name} --repair"
            )
        descriptor = os.open(path, os.O_RDWR | BINARY)
        try:
            if last.end == 0:  # not even the beginning was written
                _write_all(descriptor, MAGIC, 0)
                last.end = len(MAGIC)
            if os.fstat(descriptor).st_size > last.end:
                os.ftruncate(descriptor, last.end)
            _write_again(descriptor, last.end)
            self._reach_disk(_synchronised, descriptor)  # what is read from now on counts as acknowledged
        except BaseException:
            os.close(descriptor)
            raise
        return Tail(descriptor, last.end, first)

    def _begin_segment(self) -> None:
        before = self._tail.descriptor
        self._reach_disk(_synchronised, before)  # so that only the last segment can be torn
        self._tail = self._new_segment(self._tail.events)
        os.close(before)

    def _new_segment(self, first: int) -> Tail:
        path = self.folder / f"log-{first:020d}.gap"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | BINARY, 0o666)
        try:
            _write_all(descriptor, MAGIC, 0)
            self._reach_disk(_synchronised, descriptor)
            self._reach_disk(files.synchronise_folder, self.folder)
        except BaseException:
            os.close(descriptor)
            raise
        return Tail(descriptor, len(MAGIC), first)

    # -------------------------------------------------------------------------------------------------------- snapshots

    def put_snapshot(self, at: int, kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        saved.write(_snapshot(self.folder, at), kind, header, arrays)

    def drop_snapshot(self, at: int) -> None:
        _snapshot(self.folder, at).unlink(missing_ok=True)

    def compact(self, stop: int, rewritten: Callable[[bytes], bytes]) -> None:
        """Segments are rewritten as a whole, so those that hold a later event wait."""
        segments = sorted(_numbered(self.folder, SEGMENT).items())
        for (first, path), (after, _) in itertools.pairwise(segments):
            if after > stop:
                return
            if _beginning(path) != MAGIC:  # compacted already, or the first after a repair
                continue
            segment = _Segment(path, first)
            with path.open("rb") as file, files.replacing(path) as new:
                new.write(COMPACTED)
                for group in segment.groups(file):
                    new.write(framed(group._replace(events=rewritten(group.events))))
                if segment.end != path.stat().st_size:
                    raise _damaged(path, segment.end)

    # --------------------------------------------------------------------------------------------------------- the rest

    def put_settings(self, settings: dict[str, Any]) -> None:
        with files.replacing(self.folder / SETTINGS) as file:
            file.write(json.dumps({"format": FORMAT, **settings}, indent=1).encode() + b"\n")
        self._settings = settings

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._problem = self._problem or "is closed"
            os.close(self._tail.descriptor)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            files.unlock_file(self._lock)
            self._lock = None


# -------------------------------------------------------------------------------------------------------------- reading


def read_groups(folder: str | os.PathLike[str], start: int = 0, stop: int | None = None) -> Iterator[Group]:
    """The groups of a journal in a folder that hold events from `start` on, to before `stop` or as far as they go.

    It needs no lock: another process may be writing to the journal.
    """
    segments = sorted(_numbered(Path(folder), SEGMENT).items())
    later = [first for first, _ in segments[1:]]
    for place, (first, path) in enumerate(segments):
        is_last = place == len(later)
        if not is_last and later[place] <= start:
            continue
        segment = _Segment(path, first)
        expected = first
        with path.open("rb") as file:
            for group in segment.groups(file):
                expected = group.first + group.size
                if stop is not None and group.first >= stop:
                    return
                if expected > start:
                    yield group
            if is_last and stop is None and segment.is_damaged(file, expected):
                raise _damaged(path, segment.end)
        if not is_last and expected != later[place] and _beginning(segments[place + 1][1]) != REPAIRED:
            raise _damaged(path, segment.end)
    if stop is not None and segments and expected < stop:
        raise _damaged(path, segment.end)


class _Segment:
    """One file of the log, read from its beginning; `end` is where its last whole frame ends."""

    def __init__(self, path: Path, first: int) -> None:
        self.path, self.first, self.end = path, first, 0

    def groups(self, file: IO[bytes]) -> Iterator[Group]:
        """The groups up to the end, or to the first frame that is not whole."""
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        if file.read(len(MAGIC)) not in (MAGIC, COMPACTED, REPAIRED):
            return
        self.end = len(MAGIC)
        number = self.first
        while True:
            group = _next_group(file, size)
            if group is None or group.first != number:
                return
            number += group.size
            self.end = file.tell()
            yield group

    def is_damaged(self, file: IO[bytes], number: int) -> bool:
        """The same while another process may be writing: what was torn a moment ago may be whole by now."""
        if not self.follows_something(file, number):
            return False
        file.seek(self.end)
        return self.end == 0 or _next_group(file, os.fstat(file.fileno()).st_size) is None

    def follows_something(self, file: IO[bytes], number: int) -> bool:
        """Whether a whole frame stands behind the end: then something in between is damaged, not torn. So is a file
        that does not begin as a segment does, unless hardly anything of it was written.
        """
        size = os.fstat(file.fileno()).st_size
        file.seek(self.end)
        rest = file.read(size - self.end)
        if self.end == 0 and (len(rest) > len(MAGIC) or rest.strip(b"\0")) and not MAGIC.startswith(rest):
            return True
        at, tries = rest.find(MARK, 1), 0
        while at >= 0 and tries < MOST_TRIES:
            head = rest[at : at + FRAME.size]
            if len(head) == FRAME.size and FRAME.unpack(head)[3] > number:
                tries += 1
                file.seek(self.end + at)
                if _next_group(file, size) is not None:
                    return True
            at = rest.find(MARK, at + 1)
        return False


def _next_group(file: IO[bytes], size: int) -> Group | None:
    """The group of the frame that begins here; None where none does."""
    head = file.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    mark, length, checksum, first, count = FRAME.unpack(head)
    if mark != MARK or length > size - file.tell():
        return None
    events = file.read(length)
    if len(events) < length or _checksum(first, count, events) != checksum:
        return None
    return Group(first, count, events)


def framed(group: Group) -> bytes:
    """The frame of a group."""
    checksum = _checksum(group.first, group.size, group.events)
    return FRAME.pack(MARK, len(group.events), checksum, group.first, group.size) + group.events


def _checksum(first: int, count: int, events: bytes) -> int:
    return zlib.crc32(events, zlib.crc32(struct.pack("<QI", first, count)))


def _snapshot(folder: Path, at: int) -> Path:
    return folder / f"state-{at:020d}.npz"


def _size(folder: Path) -> int:
    total = 0
    for path in (*_numbered(folder, SEGMENT).values(), *_numbered(folder, SNAPSHOT).values()):
        with contextlib.suppress(FileNotFoundError):  # an old snapshot is removed when a new one is there
            total += path.stat().st_size
    return total


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(MAGIC))


def _numbered(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    found = ((pattern.fullmatch(path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in found if match is not None}


# --------------------------------------------------------------------------------------------------------------- repair


class _Part(NamedTuple):
    """What is whole of a segment: from event number `first` to before `stop`, up to the byte `end` of `size`."""

    path: Path
    first: int
    stop: int
    end: int
    size: int


def repair(folder: str | os.PathLike[str]) -> int:
    """Set aside what is damaged in a log, so that it can be opened; the number of events that it then leads to.

    Where the newest whole snapshot stands behind the damage, only what is damaged is lost, from the table of decisions
    and not from the model. Otherwise the model goes on from that snapshot, or from the end of what is whole. What is
    set aside is kept beside the log, in files that end in ``.damaged``.
    """
    place = Path(folder)
    lock = _locked(place)
    try:
        return _repaired(place)
    except OSError as error:
        raise _unusable(place, error) from None
    finally:
        files.synchronise_folder(place)
        if lock is not None:
            os.close(lock)


def _repaired(place: Path) -> int:
    for at, path in _numbered(place, SNAPSHOT).items():
        if not saved.is_whole(path):
            _set_aside(path, f"state-{at}")
    newest = max(_numbered(place, SNAPSHOT), default=0)
    parts = [_part(path, first) for first, path in sorted(_numbered(place, SEGMENT).items())]
    tail = _whole_tail(parts)
    keeps_tail = bool(tail) and tail[0].first <= newest <= tail[-1].stop
    kept = tail if keeps_tail else []
    expected = parts[0].first if parts else 0
    for part in parts[: len(parts) - len(kept)]:
        if part.first != expected or part.end == 0:
            _set_aside(part.path, part.path.stem)
            continue
        _cut(part)
        expected = part.stop
        if part.end < part.size and not keeps_tail:
            expected = -1  # nothing that follows fits
    expected = max((part.stop for part in parts if part.path.exists() and part.end), default=0)
    if kept:
        _cut(kept[-1])
        if kept[0] is not parts[0]:
            _begin_again(kept[0].path)
        return kept[-1].stop
    if newest > expected or not parts:
        path = place / f"log-{newest:020d}.gap"
        path.write_bytes(REPAIRED)
        _begin_again(path)
    return max(newest, expected)


def _part(path: Path, first: int) -> _Part:
    segment, stop = _Segment(path, first), first
    with path.open("rb") as file:
        for group in segment.groups(file):
            stop = group.first + group.size
    return _Part(path, first, stop, segment.end, path.stat().st_size)


def _whole_tail(parts: list[_Part]) -> list[_Part]:
    """The last segments that follow each other and are whole, but for the end of the last."""
    tail: list[_Part] = []
    for part in reversed(parts):
        is_whole = part.end == part.size or not tail
        if part.end == 0 or not is_whole or (tail and part.stop != tail[0].first):
            break
        tail.insert(0, part)
    return tail


def _cut(part: _Part) -> None:
    """Remove what is not whole from the end of a segment, and keep it."""
    if part.end < part.size:
        with part.path.open("r+b") as file:
            file.seek(part.end)
            with files.replacing(_free_name(part.path.parent, part.path.stem)) as kept:
                kept.write(file.read())
            file.truncate(part.end)
            _synchronised(file.fileno())


def _begin_again(path: Path) -> None:
    """Note in a segment that events are missing before it."""
    with path.open("r+b") as file:
        file.write(REPAIRED)
        file.flush()
        _synchronised(file.fileno())


def _set_aside(path: Path, stem: str) -> None:
    path.rename(_free_name(path.parent, stem))


def _free_name(folder: Path, stem: str) -> Path:
    for number in itertools.count():
        path = folder / f"{stem}{f'-{number}' if number else ''}.damaged"
        if not path.exists():
            return path
    raise AssertionError("unreachable")


# -------------------------------------------------------------------------------------------------------------- helpers


def _locked(folder: Path) -> int | None:
    """A lock on the folder that ends with the process; None where the system has no such locks."""
    try:
        files.make_folder(folder)
        return files.lock_file(folder / LOCK)
    except BlockingIOError:
        raise UserError(
            f"the journal in {str(folder)!r} is open in another process (or twice in this one): close it there, or use "
            "another folder"
        ) from None
    except OSError as error:
        raise _unusable(folder, error) from None


def _read_settings(folder: Path) -> dict[str, Any] | None:
    path = folder / SETTINGS
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
        if type(found["format"]) is not int:
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{str(path)!r} is damaged: restore it from a copy of the folder") from None
    version = found.pop("format")
    if version != FORMAT:
        raise UserError(
            f"the journal in {str(folder)!r} was written by another version of gappletron: open it with that version"
        )
    return dict(found)


def _refuse_others(folder: Path) -> None:
    """A folder without settings must be empty, but for what an interrupted start leaves behind."""
    for path in folder.iterdir():
        own = path.name in (LOCK, SETTINGS) or SEGMENT.fullmatch(path.name) or SNAPSHOT.fullmatch(path.name)
        if not own and not path.name.endswith(".part"):
            raise UserError(
                f"the folder {str(folder)!r} holds {path.name!r} and no journal: name an empty folder, or a new one"
            )


def _remove_beginning(folder: Path) -> None:
    """Remove what is left of a journal whose making was interrupted; refuse one that has lost its settings."""
    segments, snapshots = _numbered(folder, SEGMENT), _numbered(folder, SNAPSHOT)
    if any(segments) or any(snapshots) or any(path.stat().st_size > len(MAGIC) for path in segments.values()):
        raise UserError(
            f"the journal in {str(folder)!r} has lost its file {SETTINGS!r}: restore it from a copy of the folder"
        )
    for path in (*segments.values(), *snapshots.values()):
        path.unlink()


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    os.lseek(descriptor, offset, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _write_again(descriptor: int, end: int) -> None:
    """Write the bytes up to `end` once more where they are.

    A process before this one may have closed itself after a failed synchronisation. Then the system may show bytes that
    are not on the disk, and take them for written. Written again, they are part of the next synchronisation.
    """
    at = 0
    while at < end:
        os.lseek(descriptor, at, os.SEEK_SET)
        data = os.read(descriptor, min(PIECE, end - at))
        if not data:
            raise OSError(errno.EIO, "the file became shorter while it was read")
        _write_all(descriptor, data, at)
        at += len(data)


def _unusable(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot use the folder {str(folder)!r} for a journal ({error.strerror or error}): name one that you can write "
        "to"
    )


def _damaged(path: Path, at: int) -> UserError:
    return UserError(
        f"the journal's file {str(path)!r} is damaged at byte {at:,}: restore the folder from a copy, or cut the log "
        f"off there with: gappletron journal {path.parent!s} --repair"
    )
