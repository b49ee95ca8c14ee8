"""Files of saved models: a NumPy archive with a JSON header, written whole or not at all, read with every check.

Nothing in a file can run code. A checksum over all members binds them to each other. It finds damage, not malice: what
a file says is checked as well, here (sizes, before memory is taken) and by those who make graphs and states from it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable
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
MOST_READ = 2**24  # bytes at once; the directory of an archive is read at once
CHUNK = 2**20
NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # to open a pipe without a writer would block

T = TypeVar("T")
Arrays = dict[str, NDArray[Any]]
Rebuild = Callable[[dict[str, Any], Arrays], T]
"""Makes a model of the header and the arrays of a file."""


def write(path: str | os.PathLike[str], kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Write a model file of this kind; an older one is replaced at once or not at all.

    Signals wait until the file is complete: an exception inside an archive would be lost in the code that closes it.
    """
    members = _add_header(kind, header, arrays, f"in {os.fspath(path)!r}")
    if files.is_special(path):  # a pipe: it may block, and the sizes stand in front of the members
        whole = to_bytes(kind, header, arrays)
        with files.replacing(path) as file:
            file.write(whole)
    else:
        with held_back(), files.replacing(path) as file:
            write_archive(file, members)


def to_bytes(kind: str, header: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes that :func:`write` would write."""
    whole, members = io.BytesIO(), _add_header(kind, header, arrays, "as bytes")
    with held_back():
        write_archive(whole, members)
    return whole.getvalue()


def _add_header(kind: str, header: dict[str, Any], arrays: Arrays, where: str) -> Arrays:
    """Return the members of an archive: the header, then the arrays."""
    text = json.dumps({"format": kind, "version": VERSION, **header}).encode()
    if len(text) > MOST_HEADER_BYTES or len(arrays) > MOST_MEMBERS - 2:
        raise UserError(
            f"the model cannot be saved {where}: the names of its classes take more than "
            f"{MOST_HEADER_BYTES >> 20} MiB, or its waiting receipts have more than {MOST_MEMBERS} graphs; use "
            "shorter names or fewer graphs"
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
        npy.write_array(_Summed(member, digest), rows_first, version=(1, 0), allow_pickle=False)


class _Summed:
    """A file that also updates a checksum with what is read or written."""

    def __init__(self, file: IO[bytes], digest: Any) -> None:
        self.file, self.digest = file, digest

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self.file.write(data)

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.digest.update(data)
        return data


def read(path: str | os.PathLike[str], kind: str, rebuild: Rebuild[T]) -> T:
    """Return what `rebuild` makes of the header and the arrays of a file, or raise a UserError that names the file."""
    where = repr(str(path))
    damaged = f"{where} is damaged or not a saved model: use a file that save() wrote"
    return _rebuild(*_read_file(path, damaged), kind, rebuild, where, damaged)


def from_bytes(data: bytes, kind: str, rebuild: Rebuild[T]) -> T:
    """As :func:`read`, for the bytes of a file."""
    damaged = "the bytes are damaged or not those of a saved model: use what to_bytes() returned"
    return _rebuild(*_parse(io.BytesIO(data), len(data), damaged), kind, rebuild, "the saved model", damaged)


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Whether the bytes of a file are those that were written."""
    try:
        _read_file(path, "")
    except UserError:
        return False
    return True


def _read_file(path: str | os.PathLike[str], damaged: str) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a regular file."""
    try:
        with open(Path(path), "rb", opener=lambda name, flags: os.open(name, flags | NO_WAITING)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"{str(path)!r} is a pipe or a device: give a file that save() wrote")
            return _parse(file, status.st_size, damaged)
    except UserError:
        raise
    except ValueError:  # a path with a zero in it
        raise UserError(damaged) from None
    except OSError as error:
        raise UserError(
            f"cannot read {str(path)!r} ({error.strerror or error}): give a file that save() wrote"
        ) from None


def _parse(file: IO[bytes], size: int, damaged: str) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of an archive of this size."""
    try:
        arrays, is_sound = read_archive(file, size)
        header = json.loads(bytes(arrays.pop("header")))
        version = header["version"]  # that of a file of another version, whose checksum may be another, is reported
        if type(version) is not int or version < 1 or (version == VERSION and not is_sound):
            raise Damaged
    except OSError:
        raise
    except Exception as error:  # damaged bytes raise many kinds of exceptions in zipfile, JSON and NumPy
        raise UserError(damaged) from error
    return header, arrays


def _rebuild(header: dict[str, Any], arrays: Arrays, kind: str, rebuild: Rebuild[T], where: str, damaged: str) -> T:
    """Return what `rebuild` makes of the contents of a file, if they are of this kind and version."""
    if header.get("format") != kind:
        raise UserError(f"{where} holds a {header.get('format')!r}, not a {kind!r}: load it with that class")
    version = header["version"]
    if version != VERSION:
        age, cure = ("a newer", "upgrade gappletron") if version > VERSION else ("an older", "use that version")
        raise UserError(f"{where} was written by {age} gappletron (format {version}, this one reads {VERSION}): {cure}")
    try:
        return rebuild(header, arrays)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, MemoryError):
        raise UserError(damaged) from None


class _Shallow:
    """A file that is never read far at once: zipfile would take memory for a directory of any size."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def read(self, size: int = -1) -> bytes:
        if size > MOST_READ:
            raise Damaged
        return self.file.read(size)


def read_archive(file: IO[bytes], size: int) -> tuple[Arrays, bool]:
    """Return the arrays of an archive of this size, and whether the checksum, the last of them, is right.

    They take no more memory than the file has bytes: nothing in it is compressed, and no two members share bytes.
    """
    digest, expected = hashlib.sha256(), b""
    found: Arrays = {}
    with zipfile.ZipFile(_Shallow(file)) as archive:
        members = archive.infolist()
        if members[0].header_offset != 0 or len(members) > MOST_MEMBERS or sum(m.file_size for m in members) > size:
            raise Damaged
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in found or member.compress_type != zipfile.ZIP_STORED:
                raise Damaged
            if name == "header" and member.file_size > MOST_HEADER_BYTES + 1024:
                raise Damaged
            expected = digest.digest()
            digest.update(name.encode() + b"\0")
            with archive.open(member) as content:
                found[name] = _read_array(content, member.file_size, digest)
    return found, name == "checksum" and found.pop("checksum").tobytes() == expected


def _read_array(member: IO[bytes], size: int, digest: Any) -> NDArray[Any]:
    """Return the array of numbers of a member of this size; zipfile compares the checksum of the archive."""
    source = _Summed(member, digest)
    if npy.read_magic(source) != (1, 0):  # type: ignore[arg-type]
        raise Damaged
    shape, is_by_columns, dtype = npy.read_array_header_1_0(source, max_header_size=1024)  # type: ignore[arg-type]
    left = size - member.tell()
    if is_by_columns or dtype.kind not in "biuf" or not dtype.isnative or math.prod(shape) * dtype.itemsize != left:
        raise Damaged
    array = np.empty(math.prod(shape), dtype)
    content = array.view(np.uint8).data
    for start in range(0, left, CHUNK):
        content[start : start + CHUNK] = source.read(CHUNK)  # an error where there is less
    return array.reshape(shape)


# --------------------------------------------------------------------------------------------------------------- graphs


def graph_header(graph: FeedbackGraph) -> dict[str, Any]:
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


def graph_of(about: dict[str, Any], arrays: Arrays, suffix: str = "") -> FeedbackGraph:
    """Return the graph of a header and of its arrays. Its dominating set is that of the file: none is searched for."""
    edges, costs = arrays[f"edges{suffix}"], arrays.get(f"costs{suffix}")
    classes, actions, members = (about[name] for name in ("classes", "actions", "dominating_set"))
    if not all(type(names) is list for names in (classes, actions, members)):
        raise UserError("a graph's classes, actions or dominating set are not lists: the file is damaged")
    for kind, dtype, matrix in (("edges", np.bool_, edges), ("costs", np.float64, costs)):
        if matrix is not None and (matrix.dtype != dtype or matrix.shape != (len(actions), len(classes))):
            raise UserError(f"a graph has other {kind} than classes and actions: the file is damaged")
    flags = {name: about[name] for name in ("dominating_set_is_given", "dominating_set_is_exact")}
    if not all(type(flag) is bool for flag in flags.values()):
        raise UserError("what is said of a graph's dominating set is not true or false: the file is damaged")
    graph = FeedbackGraph(edges, classes, actions, name=about["name"], dominating_set=members, costs=costs)
    return graph._copy(**flags)


def graph_document(graph: FeedbackGraph) -> dict[str, Any]:
    """Return a graph as plain values for JSON, with all that a file would hold of it."""
    return graph_header(graph) | {name: array.tolist() for name, array in graph_arrays(graph).items()}


def graph_from(document: dict[str, Any]) -> FeedbackGraph:
    """Return the graph of :func:`graph_document`, also after JSON made lists of its tuples."""
    about = {name: list(value) if isinstance(value, tuple) else value for name, value in document.items()}
    kinds = {"edges": np.bool_, "costs": np.float64}
    return graph_of(about, {name: np.array(about[name], kind) for name, kind in kinds.items() if name in about})
