"""Files of saved models: a NumPy archive with a JSON header, written whole or not at all, read with every check.

Nothing in a file can run code. A checksum over all members binds them to each other. It finds damage, not malice: what
a file says is checked as well, here (sizes, before memory is taken) and by those who make graphs and states from it.
"""

import contextlib
import functools
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from gappletron.base import files
from gappletron.base.errors import Damaged, UserError
from gappletron.base.signals import held_back
from gappletron.graphs.graph import FeedbackGraph

VERSION = 3

MOST_HEADER_BYTES = 2**24
MOST_MEMBERS = 2**16
MOST_DIRECTORY_BYTES = 2**24
# How a file of SQLite begins.
SQLITE = b"SQLite format 3\0"
# Who may read and write a new file: it holds what was learned, and rows that wait.
PRIVATE = 0o600
# What damaged bytes raise.
DAMAGES = (Damaged, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError)

T = TypeVar("T")
Arrays = dict[str, NDArray[Any]]
# Makes a model of the header and the arrays of a file.
Rebuild = Callable[[dict[str, Any], Arrays], T]


def write(path: str | os.PathLike[str], kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Write a model file of this kind; an older one is replaced at once or not at all.

    Signals wait until the file is complete: an exception inside an archive would be lost in the code that closes it.
    """
    members = _add_header(kind, header, arrays)
    if files.is_special(path):  # a pipe, which may block: signals must not wait for it
        with files.replacing(path) as file:
            file.write(to_bytes(kind, header, arrays))
    else:
        with held_back(), files.replacing(path, PRIVATE) as file:
            write_archive(file, members)


def to_bytes(kind: str, header: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes that :func:`write` would write."""
    whole, members = io.BytesIO(), _add_header(kind, header, arrays)
    with held_back():
        write_archive(whole, members)
    return whole.getvalue()


def _add_header(kind: str, header: dict[str, Any], arrays: Arrays) -> Arrays:
    """Return the members of an archive: the header, then the arrays."""
    text = json.dumps({"format": kind, "version": VERSION, **header}).encode()
    if len(text) > MOST_HEADER_BYTES or len(arrays) > MOST_MEMBERS - 2:
        raise UserError(
            f"the model cannot be saved: the names of its classes take more than {MOST_HEADER_BYTES >> 20} MiB, or its "
            f"waiting receipts have more than {MOST_MEMBERS} graphs; use shorter names or fewer graphs"
        )
    return {"header": np.frombuffer(text, np.uint8), **arrays}


def write_archive(file: IO[bytes], members: Arrays) -> None:
    """Write the arrays as :func:`numpy.savez` does, and at last the checksum of their names and contents."""
    digest = hashlib.sha256()  # with the instructions of current processors twice as fast as BLAKE2b
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            digest.update(name.encode() + b"\0")
            _write_member(archive, name, array, digest)
        _write_member(archive, "checksum", np.frombuffer(digest.digest(), np.uint8), digest)


def _write_member(archive: zipfile.ZipFile, name: str, array: NDArray[Any], digest: Any) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        rows_first = np.ascontiguousarray(array) if array.flags.fnc else array
        npy.write_array(_Digested(member, digest), rows_first, version=(1, 0), allow_pickle=False)


class _Digested:
    """A file that also updates a checksum with what is written."""

    def __init__(self, file: IO[bytes], digest: Any) -> None:
        self.file, self.digest = file, digest

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self.file.write(data)


def read(path: str | os.PathLike[str], kind: str, rebuild: Rebuild[T]) -> T:
    """Return what `rebuild` makes of the header and the arrays of a file, or raise a UserError that names the file."""
    with _open_file(path) as file:
        if file.read(len(SQLITE)) == SQLITE:
            raise UserError(
                f"{str(path)!r} is a store, not a saved model: save its model in Python, "
                "Online.from_store(...).save('model.npz')"
            )
        file.seek(0)
        return _rebuild(file, kind, rebuild, repr(str(path)))


def from_bytes(data: bytes, kind: str, rebuild: Rebuild[T]) -> T:
    """As :func:`read`, for the bytes of a file."""
    return _rebuild(io.BytesIO(data), kind, rebuild, "the data")


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Return whether the bytes of a file are those that were written."""
    try:
        with _open_file(path) as file:
            _parse(file)
    except (UserError, Damaged):
        return False
    return True


@contextlib.contextmanager
def _open_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a regular file to be read."""
    if files.is_special(path):
        raise UserError(f"{str(path)!r} is a pipe or a device: give a file that save() wrote")
    try:
        with Path(path).open("rb") as file:
            yield file
    except UserError:
        raise
    except (OSError, ValueError) as error:  # also a path with a zero in it
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {str(path)!r} ({reason}): give a file that save() wrote") from None


def _parse(file: IO[bytes]) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of an archive."""
    try:
        arrays, is_sound = read_archive(file)
        header = json.loads(bytes(arrays.pop("header")))
        version = header["version"]  # that of a file of another version, whose checksum may be another, is reported
        if type(version) is not int or version < 1 or (version == VERSION and not is_sound):
            raise Damaged
    except OSError:
        raise
    except Exception as error:  # damaged bytes raise many kinds of exceptions in zipfile, JSON and NumPy
        raise Damaged from error
    return header, arrays


def _rebuild(file: IO[bytes], kind: str, rebuild: Rebuild[T], where: str) -> T:
    """Return what `rebuild` makes of the contents of a file, if they are of this kind and version."""
    try:
        header, arrays = _parse(file)
        if header.get("format") != kind:
            raise UserError(f"it holds a {header.get('format')!r}, not a {kind!r}: load it with that class")
        version = header["version"]
        if version != VERSION:
            age, cure = ("a newer", "upgrade gappletron") if version > VERSION else ("an older", "use that version")
            raise UserError(f"written by {age} gappletron (format {version}, this one reads {VERSION}): {cure}")
        return rebuild(header, arrays)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except DAMAGES as error:
        message = f"{where} is damaged or not a saved model: use a file that save() wrote"
        raise UserError(message) from error.__cause__


class _Bounded:
    """A file of which no more than so many bytes are read at once."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self.file, self.most = file, most

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def read(self, size: int = -1) -> bytes:
        if size > self.most:
            raise Damaged
        return self.file.read(size)


def read_archive(file: IO[bytes]) -> tuple[Arrays, bool]:
    """Return the arrays of an archive, and whether the checksum, the last of them, is right.

    They take no more memory than the file has bytes: nothing in it is compressed, and no two members share bytes.
    """
    digest, expected = hashlib.sha256(), b""
    found: Arrays = {}
    size = file.seek(0, os.SEEK_END)
    bounded = _Bounded(file, MOST_DIRECTORY_BYTES)  # zipfile would take memory for a directory of any size
    with zipfile.ZipFile(bounded) as archive:
        members, bounded.most = archive.infolist(), 2**62
        if members[0].header_offset != 0 or len(members) > MOST_MEMBERS or sum(m.file_size for m in members) > size:
            raise Damaged
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in found or member.compress_type != zipfile.ZIP_STORED:
                raise Damaged
            if name == "header" and member.file_size > MOST_HEADER_BYTES + 1024:
                raise Damaged
            expected, content = digest.digest(), archive.read(member)
            digest.update(name.encode() + b"\0")
            digest.update(content)
            found[name] = _read_array(content)
    return found, name == "checksum" and found.pop("checksum").tobytes() == expected


def _read_array(content: bytes) -> NDArray[Any]:
    """Return the array of numbers of a member; it is not copied, and cannot be written to."""
    begin = 10 + int.from_bytes(content[8:10], "little")
    shape, dtype = _parse_array_header(content[:begin])
    return np.frombuffer(content, dtype, offset=begin).reshape(shape)  # an error where the size is another


@functools.lru_cache(1000)  # NumPy parses it as Python, and the models of a fleet have the same ones
def _parse_array_header(head: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    file = io.BytesIO(head)
    if npy.read_magic(file) != (1, 0):
        raise Damaged
    shape, is_by_columns, dtype = npy.read_array_header_1_0(file, max_header_size=1024)
    if is_by_columns or dtype.kind not in "biuf" or not dtype.isnative:
        raise Damaged
    return shape, dtype


# --------------------------------------------------------------------------------------------------------------- graphs


def describe_graph(graph: FeedbackGraph) -> dict[str, Any]:
    """Return what a header says of a graph; the edges and the costs are arrays of their own."""
    return {
        "classes": graph.classes,
        "actions": graph.actions,
        "name": graph.name,
        "dominating_set": graph.dominating_set,
        "dominating_set_is_given": graph.dominating_set_is_given,
        "dominating_set_is_exact": graph.dominating_set_is_exact,
    }


def graph_arrays(graph: FeedbackGraph, suffix: str = "") -> Arrays:
    """Return the arrays of a graph: the edges that were given, and costs if they are not 0 and 1."""
    costs = {f"costs{suffix}": graph.costs} if graph.has_costs else {}
    return {f"edges{suffix}": graph.given, **costs}


def build_graph(about: dict[str, Any], arrays: Arrays, suffix: str = "") -> FeedbackGraph:
    """Return the graph of a header and of its arrays. Its dominating set is that of the file: none is searched for."""
    edges, costs = arrays[f"edges{suffix}"], arrays.get(f"costs{suffix}")
    classes, actions, members = lists = [about[name] for name in ("classes", "actions", "dominating_set")]
    flags = {name: about[name] for name in ("dominating_set_is_given", "dominating_set_is_exact")}
    matrices = [(edges, np.bool_), *([] if costs is None else [(costs, np.float64)])]
    if not (
        all(type(names) is list for names in lists)
        and all(type(flag) is bool for flag in flags.values())
        and all(matrix.dtype == kind and matrix.shape == (len(actions), len(classes)) for matrix, kind in matrices)
    ):
        raise UserError("a graph has other edges, costs or names than it should: the file is damaged")
    graph = FeedbackGraph(edges, classes, actions, name=about["name"], dominating_set=members, costs=costs)
    return graph._copy(**flags)


def encode_graph(graph: FeedbackGraph) -> dict[str, Any]:
    """Return a graph as plain values for JSON, with all that a file would hold of it."""
    return describe_graph(graph) | {name: array.tolist() for name, array in graph_arrays(graph).items()}


def decode_graph(document: dict[str, Any]) -> FeedbackGraph:
    """Return the graph of :func:`encode_graph`, also after JSON made lists of its tuples."""
    about = {name: list(value) if isinstance(value, tuple) else value for name, value in document.items()}
    kinds = {"edges": np.bool_, "costs": np.float64}
    return build_graph(about, {name: np.array(about[name], kind) for name, kind in kinds.items() if name in about})
