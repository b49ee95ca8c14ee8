"""A journal in a folder: segments of a log with checksums, and snapshots as saved models.

A segment is a file that begins with :data:`MAGIC` and goes on with frames. A frame is a group of events: a mark, the
length, a checksum, the number of the first event, their count, and their bytes. Frames are written one at a time and
whole. The end of the last segment may be torn by a kill or a power failure: what does not match its checksum there was
never acknowledged, and is cut off when the folder is opened. Damage anywhere else is refused.
"""

import collections
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
from typing import Any, NamedTuple, Self, TypeVar

from numpy.typing import NDArray

from gappletron.base import files
from gappletron.base.errors import Unavailable, UserError
from gappletron.online.store import Group, Log, Store
from gappletron.play import archive
from gappletron.play.archive import Rebuild

T = TypeVar("T")

MAGIC = b"gappletron log 1\n"
# How a segment begins whose rows were replaced by hashes.
COMPACTED = b"gappletron log 1c"
# How a segment begins before which events are missing since a repair.
REPAIRED = b"gappletron log 1r"
# How many marks behind a torn frame are looked at.
MOST_TRIES = 1024
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FRAME = struct.Struct("<4sQIQI")
MARK = b"\xf4gap"
SEGMENT_BYTES = 2**26
LOCK, SETTINGS = "lock", "journal.json"
SEGMENT, SNAPSHOT = re.compile(r"log-(\d{20})\.gap"), re.compile(r"state-(\d{20})\.npz")
FORMAT = 5
BINARY = getattr(os, "O_BINARY", 0)  # Windows


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
        with _explaining(self.folder):
            self._settings = _read_settings(self.folder) if self.folder.is_dir() else None
        if self._settings is None:
            raise UserError(f"there is no journal in {self.name!r}: name a folder that Online.open made")

    def groups(self, start: int = 0) -> Iterator[Group]:
        return read_groups(self.folder, start)

    def snapshots(self) -> list[int]:
        return sorted(_numbered(self.folder, SNAPSHOT))

    def read_snapshot(self, at: int, kind: str, rebuilt: Rebuild[T]) -> T:
        return archive.read(_snapshot(self.folder, at), kind, rebuilt)

    def settings(self) -> dict[str, Any] | None:
        return self._settings

    @property
    def nbytes(self) -> int:
        total = 0
        for path in (*_numbered(self.folder, SEGMENT).values(), *_numbered(self.folder, SNAPSHOT).values()):
            with contextlib.suppress(FileNotFoundError):  # an old snapshot is removed when a new one is there
                total += path.stat().st_size
        return total


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

    def __init__(self, folder: str | os.PathLike[str], *, segment_bytes: int = SEGMENT_BYTES) -> None:
        # Not the path as it was given: after os.chdir the next segment would be written to another folder.
        self.folder, self.segment_bytes = Path(folder).absolute(), segment_bytes
        self.name = str(Path(folder))
        self._lock = _locked(self.folder)
        self._problem: str | None = None
        self._is_dirty = self._is_closed = False
        try:
            with _explaining(self.folder):
                for path in self.folder.glob(".*.part"):
                    path.unlink()  # of a process that was killed: nobody else writes here
                self._settings = _read_settings(self.folder)
                if self._settings is None:
                    _clear_beginning(self.folder)
                self._tail = self._find_tail()
        except BaseException:
            self._unlock()
            raise

    # ----------------------------------------------------------------------------------------------------------- events

    @property
    def count(self) -> int:
        return self._tail.events

    def append(self, group: Group, *, durable: bool) -> None:
        self._check_open()
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
            is_there = (self.folder if self._settings is None else self.folder / SETTINGS).exists()
        except OSError as error:  # the disk is gone, or may not be looked at
            return f"the journal in {self.name!r} cannot be looked at ({error.strerror or error}): look after its disk"
        with contextlib.suppress(OSError):  # closed: by close(), or another thread has begun the next segment just now
            is_there = is_there and os.fstat(self._tail.descriptor).st_nlink > 0
        if is_there:
            return None
        cure = "bring it back, or restore it from a copy and open it again"
        return f"the journal in {self.name!r} was removed or moved while it was open: {cure}"

    def _check_open(self) -> None:
        if self._problem is not None:
            raise Unavailable(f"the journal in {self.name!r} {self._problem}: open it again (restart the server)")

    def groups(self, start: int = 0) -> Iterator[Group]:
        return read_groups(self.folder, start, stop=self.count)

    def _find_tail(self) -> Tail:
        """The end of the log; what is torn there is cut off."""
        segments = _numbered(self.folder, SEGMENT)
        if self._settings is None:
            return self._new_segment(0)
        cure = f"restore it from a copy, or go on from the newest snapshot: gappletron journal {self.name} --repair"
        if not segments or (min(segments) > 0 and _beginning(segments[min(segments)]) != REPAIRED):
            raise UserError(f"the log in {self.name!r} has lost its beginning, or all of it: {cure}")
        last = _Segment.read(*max(segments.items()))
        if last.is_damaged():
            raise last.damage()
        if last.stop < max(_numbered(self.folder, SNAPSHOT), default=0):
            raise UserError(f"the log in {self.name!r} ends before its newest snapshot: {cure}")
        # A process before this one may have closed itself after a failed synchronisation. Then the system may show
        # bytes that are not on the disk, and take them for written. Written again, they are part of the next one.
        return self._write_segment(last.path, last.data[: last.end] or MAGIC, last.stop)

    def _begin_segment(self) -> None:
        before = self._tail.descriptor
        self._reach_disk(_synchronised, before)  # so that only the last segment can be torn
        self._tail = self._new_segment(self._tail.events)
        os.close(before)

    def _new_segment(self, first: int) -> Tail:
        return self._write_segment(self.folder / f"log-{first:020d}.gap", MAGIC, first)

    def _write_segment(self, path: Path, data: bytes, events: int) -> Tail:
        """Open a segment that holds this, and nothing else, on the disk too."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o666)
        try:
            os.ftruncate(descriptor, len(data))
            _write_all(descriptor, data, 0)
            self._reach_disk(_synchronised, descriptor)
            self._reach_disk(files.synchronise_folder, self.folder)
        except BaseException:
            os.close(descriptor)
            raise
        return Tail(descriptor, len(data), events)

    # -------------------------------------------------------------------------------------------------------- snapshots

    def put_snapshot(self, at: int, kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        archive.write(_snapshot(self.folder, at), kind, header, arrays)

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
            segment = _Segment(first, path)
            with files.replacing(path) as new:
                new.write(COMPACTED)
                for group in segment.groups():
                    new.write(framed(group._replace(events=rewritten(group.events))))
                if segment.end != len(segment.data):
                    raise segment.damage()

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
    for place, (first, path) in enumerate(segments):
        after, following = segments[place + 1] if path != segments[-1][1] else (None, None)
        if after is not None and after <= start:
            continue
        segment = _Segment(first, path)
        for group in segment.groups():
            if stop is not None and group.first >= stop:
                return
            if group.first + group.size > start:
                yield group
        if following is not None:
            is_whole = segment.stop == after or _beginning(following) == REPAIRED
        else:
            is_whole = not segment.is_damaged() if stop is None else segment.stop >= stop
        if not is_whole:
            raise segment.damage()


class _Segment:
    """One file of the log; what :meth:`groups` has read reaches up to the byte `end` and the event number `stop`."""

    def __init__(self, first: int, path: Path) -> None:
        self.first, self.path, self.data = first, path, path.read_bytes()
        self.end, self.stop = 0, first

    @classmethod
    def read(cls, first: int, path: Path) -> Self:
        """Return a segment of which everything is read."""
        segment = cls(first, path)
        collections.deque(segment.groups(), maxlen=0)
        return segment

    def groups(self) -> Iterator[Group]:
        """Return the groups up to the end, or to the first frame that is not whole."""
        if not self.data.startswith((MAGIC, COMPACTED, REPAIRED)):
            return
        self.end, self.stop = len(MAGIC), self.first
        while (group := _unframed(self.data, self.end, self.stop)) is not None:
            self.end += FRAME.size + len(group.events)
            self.stop += group.size
            yield group

    def is_damaged(self) -> bool:
        """Whether a whole frame stands behind the end: then something in between is damaged, not torn. So is a file
        that does not begin as a segment does, unless hardly anything of it was written.
        """
        rest = self.data[self.end :]
        if self.end == 0 and (len(rest) > len(MAGIC) or rest.strip(b"\0")) and not MAGIC.startswith(rest):
            return True
        marks = itertools.islice(re.finditer(re.escape(MARK), rest), MOST_TRIES)
        if all(_unframed(rest, mark.start()) is None for mark in marks):
            return False
        # Another process may be writing: what was torn a moment ago may be whole by now.
        return _unframed(self.path.read_bytes(), self.end, self.stop) is None

    def damage(self) -> UserError:
        """Return the error for what is not whole."""
        return UserError(
            f"the journal's file {str(self.path)!r} is damaged at byte {self.end:,}: restore the folder from a copy, "
            f"or cut the log off there: gappletron journal {self.path.parent!s} --repair"
        )


def _unframed(data: bytes, at: int, number: int | None = None) -> Group | None:
    """Return the group of the frame that begins here; None where no whole one does, or one with another number."""
    if len(data) < at + FRAME.size:
        return None
    mark, length, checksum, first, count = FRAME.unpack_from(data, at)
    start = at + FRAME.size
    if mark != MARK or length > len(data) - start or number not in (None, first):
        return None
    events = data[start : start + length]
    return Group(first, count, events) if _checksum(first, count, events) == checksum else None


def framed(group: Group) -> bytes:
    """The frame of a group."""
    checksum = _checksum(group.first, group.size, group.events)
    return FRAME.pack(MARK, len(group.events), checksum, group.first, group.size) + group.events


def _checksum(first: int, count: int, events: bytes) -> int:
    return zlib.crc32(events, zlib.crc32(struct.pack("<QI", first, count)))


def _snapshot(folder: Path, at: int) -> Path:
    return folder / f"state-{at:020d}.npz"


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(MAGIC))


def _numbered(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    found = ((pattern.fullmatch(path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in found if match is not None}


# --------------------------------------------------------------------------------------------------------------- repair


def repair(folder: str | os.PathLike[str]) -> int:
    """Set aside what is damaged in a log, so that it can be opened; the number of events that it then leads to.

    Where the newest whole snapshot stands behind the damage, only what is damaged is lost, from the table of decisions
    and not from the model. Otherwise the model goes on from that snapshot, or from the end of what is whole. What is
    set aside is kept beside the log, in files that end in ``.damaged``.
    """
    place = Path(folder)
    lock = _locked(place)
    try:
        with _explaining(place):
            return _repaired(place)
    finally:
        files.synchronise_folder(place)
        if lock is not None:
            os.close(lock)


def _repaired(place: Path) -> int:
    for path in _numbered(place, SNAPSHOT).values():
        if not archive.is_whole(path):
            path.rename(_free_name(path))
    newest = max(_numbered(place, SNAPSHOT), default=0)
    stop, is_empty = 0, True
    for first, path in sorted(_numbered(place, SEGMENT).items()):
        segment = _Segment.read(first, path)
        # Events may be missing before the newest snapshot: these are for the table only.
        if segment.end == 0 or (first != stop and not stop < first <= newest):
            path.rename(_free_name(path))
            continue
        _cut(segment)
        if first != stop:
            _begin_again(path)
        stop, is_empty = segment.stop, False
    if stop < newest or is_empty:
        path = place / f"log-{newest:020d}.gap"
        path.touch()
        _begin_again(path)
    return max(newest, stop)


def _cut(segment: _Segment) -> None:
    """Remove what is not whole from the end of a segment, and keep it."""
    if segment.end < len(segment.data):
        with files.replacing(_free_name(segment.path)) as kept:
            kept.write(segment.data[segment.end :])
        with segment.path.open("r+b") as file:
            file.truncate(segment.end)
            _synchronised(file.fileno())


def _begin_again(path: Path) -> None:
    """Note in a segment that events are missing before it."""
    with path.open("r+b") as file:
        file.write(REPAIRED)
        file.flush()
        _synchronised(file.fileno())


def _free_name(path: Path) -> Path:
    """Return the name under which a file, or a part of it, is set aside."""
    names = (path.with_name(f"{path.stem}{ending}.damaged") for ending in ("", *(f"-{n}" for n in range(1, 10**6))))
    return next(name for name in names if not name.exists())


# -------------------------------------------------------------------------------------------------------------- helpers


def _locked(folder: Path) -> int | None:
    """A lock on the folder that ends with the process; None where the system has no such locks."""
    try:
        with _explaining(folder):
            files.make_folder(folder)
            return files.lock_file(folder / LOCK)
    except BlockingIOError:
        raise UserError(
            f"the journal in {str(folder)!r} is open in another process (or twice in this one): close it there"
        ) from None


def _read_settings(folder: Path) -> dict[str, Any] | None:
    path = folder / SETTINGS
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
        version = found.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{str(path)!r} is damaged: restore it from a copy of the folder") from None
    if version != FORMAT:
        raise UserError(f"the journal in {str(folder)!r} was written by another gappletron: open it with that version")
    return dict(found)


def _clear_beginning(folder: Path) -> None:
    """Remove what is left of a journal whose making was interrupted; refuse what is none, or has lost its settings."""
    segments, snapshots = _numbered(folder, SEGMENT), _numbered(folder, SNAPSHOT)
    begun = (*segments.values(), *snapshots.values())
    for path in folder.iterdir():
        if path not in begun and path.name != LOCK:
            raise UserError(
                f"the folder {str(folder)!r} holds {path.name!r} and no journal: name an empty folder, or a new one"
            )
    if any(segments) or any(snapshots) or any(path.stat().st_size > len(MAGIC) for path in segments.values()):
        raise UserError(f"the journal in {str(folder)!r} has lost its file {SETTINGS!r}: restore it from a copy")
    for path in begun:
        path.unlink()


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    os.lseek(descriptor, offset, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextlib.contextmanager
def _explaining(folder: Path) -> Iterator[None]:
    """Raise a UserError in place of an error of the system, but for a lock that another process has."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        problem = error.strerror or error
        raise UserError(f"cannot use the folder {str(folder)!r} ({problem}): name one that you can write to") from None
