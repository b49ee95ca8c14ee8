"""Files of saved models: a NumPy archive with a JSON header, written whole or not at all, read with every check.

Nothing in a file can run code. A checksum over all members binds them to each other. It finds damage, not malice: what
a file says is checked as well, here (sizes, before memory is taken) and by those who make graphs and states from it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gappletron.base import files
from gappletron.base.errors import Damaged, UserError
from gappletron.base.signals import held_back
from gappletron.graphs.cover import find_greedy_dominating_set
from gappletron.graphs.graph import FeedbackGraph

VERSION = 3
"""Version 1 is that of gappletron 0.1: another header, states under other names, no checksum. Version 2 was never
released."""

MOST_HEADER_BYTES = 2**24
MOST_MEMBERS = 2**16

T = TypeVar("T")


def write(path: str | os.PathLike[str], kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a model file of this kind; an older one is replaced at once or not at all.

    Signals wait until the file is complete: an exception inside an archive would be lost in the code that closes it.
    """
    members = _with_header(kind, header, arrays, f"in {os.fspath(path)!r}")
    if files.is_special(path):  # a pipe: it may block, and the sizes stand in front of the members
        whole = io.BytesIO()
        with held_back():
            write_archive(whole, members)
        with files.replacing(path) as file:
            file.write(whole.getbuffer())
    else:
        with held_back(), files.replacing(path) as file:
            write_archive(file, members)


def to_bytes(kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """The bytes that :func:`write` would write."""
    whole, members = io.BytesIO(), _with_header(kind, header, arrays, "as bytes")
    with held_back():
        write_archive(whole, members)
    return whole.getvalue()


def _with_header(
    kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str
) -> dict[str, NDArray[Any]]:
    """The members of an archive: the header, then the arrays."""
    text = json.dumps({"format": kind, "version": VERSION, **header}).encode()
    if len(text) > MOST_HEADER_BYTES or len(arrays) > MOST_MEMBERS - 2:
        raise UserError(
            f"the model cannot be saved {where}: the names of its classes take more than "
            f"{MOST_HEADER_BYTES >> 20} MiB, or its waiting receipts have more than {MOST_MEMBERS} graphs; use "
            "shorter names or fewer graphs"
        )
    return {"header": np.frombuffer(text, np.uint8), **arrays}


def write_archive(file: IO[bytes], members: dict[str, NDArray[Any]]) -> None:
    """Write the arrays as :func:`numpy.savez` does, and at last the checksum of their names and contents."""
    digest = _new_digest()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            digest.update(name.encode() + b"\0")
            _write_member(archive, name, array, digest)
        _write_member(archive, "checksum", np.frombuffer(digest.digest(), np.uint8), digest)


def _new_digest() -> Any:
    return hashlib.sha256()  # with the instructions of current processors twice as fast as BLAKE2b


def _write_member(archive: zipfile.ZipFile, name: str, array: NDArray[Any], digest: Any) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        rows_first = np.ascontiguousarray(array) if array.flags.fnc else array
        np.lib.format.write_array(_Summed(member, digest), rows_first, version=(1, 0), allow_pickle=False)


class _Summed:
    """A file for writing that also updates a checksum."""

    def __init__(self, file: IO[bytes], digest: Any) -> None:
        self.file, self.digest = file, digest

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self.file.write(data)


Rebuild = Callable[[dict[str, Any], dict[str, NDArray[Any]]], T]
"""Makes a model of the header and the arrays of a file."""


def read(path: str | os.PathLike[str], kind: str, rebuilt: Rebuild[T]) -> T:
    """What `rebuilt` makes of the header and the arrays of a file, or a UserError that names the file."""
    damaged = f"{str(path)!r} is damaged or not a saved model: use a file that save() wrote"
    header, arrays = _contents(path, damaged)
    return _checked(header, arrays, kind, rebuilt, repr(str(path)), damaged)


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Whether the bytes of a file are those that were written."""
    try:
        _contents(path, "")
    except UserError:
        return False
    return True


def from_bytes(data: bytes, kind: str, rebuilt: Rebuild[T]) -> T:
    """As :func:`read`, for the bytes of a file."""
    damaged = "the bytes are damaged or not those of a saved model: use what to_bytes() returned"
    try:
        header, arrays = _parsed(io.BytesIO(data), len(data))
    except Exception as error:  # as below
        raise UserError(damaged) from error
    return _checked(header, arrays, kind, rebuilt, "the saved model", damaged)


def _checked(
    header: Any, arrays: dict[str, NDArray[Any]], kind: str, rebuilt: Rebuild[T], where: str, damaged: str
) -> T:
    """What `rebuilt` makes of the contents of a file, if they are of this kind and of a version that is known."""
    if not isinstance(header, dict) or type(header.get("version")) is not int or header["version"] < 1:
        raise UserError(damaged)
    if header.get("format") != kind:
        raise UserError(f"{where} holds a {header.get('format')!r}, not a {kind!r}: load it with that class")
    if header["version"] > VERSION:
        raise UserError(
            f"{where} was written by a newer gappletron (format {header['version']}, this one reads up to "
            f"{VERSION}): upgrade gappletron"
        )
    if header["version"] == 2:
        raise UserError(
            f"{where} was written by a development version of gappletron (format 2), and only the files of released "
            "versions are read: load it with the version that wrote it"
        )
    try:
        return rebuilt(*((header, arrays) if header["version"] == VERSION else _from_version_1(header, arrays)))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, MemoryError):
        raise UserError(damaged) from None


def _contents(path: str | os.PathLike[str], damaged: str) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The header and the arrays of a file whose bytes are as they were written."""
    try:
        with open(Path(path), "rb", opener=_opened) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"{str(path)!r} is a pipe or a device: give a file that save() wrote")
            return _parsed(file, status.st_size)
    except OSError as error:
        raise UserError(
            f"cannot read {str(path)!r} ({error.strerror or error}): give a file that save() wrote"
        ) from None
    except UserError:
        raise
    except Exception as error:  # damaged bytes raise many kinds of exceptions in JSON and NumPy
        raise UserError(damaged) from error


def _parsed(file: IO[bytes], size: int) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The header and the arrays of a file of this size."""
    arrays, digest = _arrays(file, size)
    header = json.loads(bytes(arrays.pop("header")))
    # Files of version 1 have the checksums of the archive alone.
    if header["version"] == VERSION and arrays.pop("checksum").tobytes() != digest:
        raise Damaged
    return header, arrays


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe without a writer would block


class _Member(NamedTuple):
    """An array in the archive: its name, where its bytes are, and their checksum."""

    name: str
    start: int
    size: int
    sum: int


def _arrays(file: IO[bytes], size: int) -> tuple[dict[str, NDArray[Any]], bytes]:
    """All arrays of an archive, and the checksum of all but the one that is called so. They take no more memory than
    the file has bytes.
    """
    digest = _new_digest()
    found: dict[str, NDArray[Any]] = {}
    for member in _members(file, size):
        if member.name in found or len(found) == MOST_MEMBERS:
            raise Damaged
        if member.name == "header" and member.size > MOST_HEADER_BYTES + 1024:
            raise Damaged
        head, array = _array(file, member)
        if zlib.crc32(array.data, zlib.crc32(head)) != member.sum:
            raise Damaged
        if member.name != "checksum":
            digest.update(member.name.encode() + b"\0" + head)
            digest.update(array.data)
        found[member.name] = array
    return found, digest.digest()


LOCAL_HEAD = struct.Struct("<4s5H3I2H")
ZIP64_SIZES = struct.Struct("<2H2Q")
END_OF_ARCHIVE = 22


def _members(file: IO[bytes], size: int) -> Iterator[_Member]:
    """The members of an archive without compression, from its beginning. Its directory, at the end, is not needed."""
    file.seek(max(0, size - END_OF_ARCHIVE))
    if file.read(4) != b"PK\5\6":
        raise Damaged  # it is cut off
    position = 0
    while True:
        file.seek(position)
        head = file.read(LOCAL_HEAD.size)
        if position > 0 and head[:4] == b"PK\1\2":
            return
        signature, _, flags, method, _, _, crc, packed, unpacked, name_size, extra_size = LOCAL_HEAD.unpack(head)
        if signature != b"PK\3\4" or flags or method != zipfile.ZIP_STORED:
            raise Damaged
        name, extra = file.read(name_size).decode("ascii"), file.read(extra_size)
        if unpacked == packed == 2**32 - 1:
            _, _, unpacked, packed = ZIP64_SIZES.unpack(extra)
        start = position + LOCAL_HEAD.size + name_size + extra_size
        position = start + unpacked
        if packed != unpacked or position > size - END_OF_ARCHIVE or not name.endswith(".npy"):
            raise Damaged
        yield _Member(name.removesuffix(".npy"), start, unpacked, crc)


ARRAY_HEAD = struct.Struct("<8sH")


def _array(file: IO[bytes], member: _Member) -> tuple[bytes, NDArray[Any]]:
    """The head of a member and its array of numbers, flat or of its shape."""
    file.seek(member.start)
    head = file.read(ARRAY_HEAD.size)
    magic, length = ARRAY_HEAD.unpack(head)
    if magic != b"\x93NUMPY\1\0" or not length <= min(1024, member.size):
        raise Damaged
    text = file.read(length)
    about = ast.literal_eval(text.decode("ascii").strip())
    kind, shape = about["descr"], about["shape"]
    if about["fortran_order"] or not re.fullmatch(r"[<|][biuf]\d{1,2}", kind):
        raise Damaged
    if not all(type(axis) is int and axis >= 0 for axis in shape):
        raise Damaged
    dtype = np.dtype(kind)
    if math.prod(shape) * dtype.itemsize != member.size - len(head) - length:
        raise Damaged
    array = np.empty(math.prod(shape), dtype)
    if file.readinto(array.view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
        raise Damaged
    return head + text, array.reshape(shape)


# --------------------------------------------------------------------------------------------------------------- graphs


def graph_header(graph: FeedbackGraph) -> dict[str, Any]:
    """What a header says of a graph; the edges and the costs are arrays of their own."""
    return {
        "classes": graph.classes,
        "actions": graph.actions,
        "name": graph.name,
        "dominating_set": graph.dominating_set,
        "dominating_set_is_given": graph.dominating_set_is_given,
        "dominating_set_is_exact": graph.dominating_set_is_exact,
    }


def graph_arrays(graph: FeedbackGraph, suffix: str = "") -> dict[str, NDArray[Any]]:
    """The arrays of a graph: the edges that were given, and costs if they are not 0 and 1."""
    costs = {f"costs{suffix}": graph.costs} if graph.has_costs else {}
    return {f"edges{suffix}": graph.given, **costs}


def graph_of(about: dict[str, Any], arrays: dict[str, NDArray[Any]], suffix: str = "") -> FeedbackGraph:
    """The graph of a header and of its arrays. Its dominating set is that of the file: none is searched for."""
    edges, costs = arrays[f"edges{suffix}"], arrays.get(f"costs{suffix}")
    classes, actions, members = (about[name] for name in ("classes", "actions", "dominating_set"))
    if not all(type(names) is list for names in (classes, actions, members)):
        raise UserError("a graph's classes, actions or dominating set are not lists: the file is damaged")
    if edges.dtype != bool or edges.shape != (len(actions), len(classes)):
        raise UserError("a graph has other edges than classes and actions: the file is damaged")
    if costs is not None and (costs.dtype != np.float64 or costs.shape != edges.shape):
        raise UserError("a graph has other costs than classes and actions: the file is damaged")
    flags = {name: about[name] for name in ("dominating_set_is_given", "dominating_set_is_exact")}
    if not all(type(flag) is bool for flag in flags.values()):
        raise UserError("what is said of a graph's dominating set is not true or false: the file is damaged")
    graph = FeedbackGraph(edges, classes, actions, name=about["name"], dominating_set=members, costs=costs)
    return graph._restored(**flags)


def graph_document(graph: FeedbackGraph) -> dict[str, Any]:
    """A graph as plain values for JSON, with all that a file would hold of it."""
    matrices = {name: array.tolist() for name, array in graph_arrays(graph).items()}
    return {**graph_header(graph), **matrices}


def graph_from(document: dict[str, Any]) -> FeedbackGraph:
    """The graph of :func:`graph_document`, also after JSON made lists of its tuples."""
    about = {name: list(value) if isinstance(value, tuple) else value for name, value in document.items()}
    arrays: dict[str, NDArray[Any]] = {"edges": np.array(about["edges"], np.bool_)}
    if "costs" in about:
        arrays["costs"] = np.array(about["costs"], np.float64)
    return graph_of(about, arrays)


# ------------------------------------------------------------------------------------------------ files of version 0.1


def _from_version_1(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A file of gappletron 0.1 as this version would have written it."""
    graph = header["graph"]
    edges = arrays["visible"]
    if edges.shape == (2, 2) and graph["name"] in ("bandit", "disease-prevention"):  # version 0.1 kept the closure only
        edges = FeedbackGraph.preset(graph["name"], graph["classes"]).given
    state = {name: array for name, array in arrays.items() if name.startswith("state.")}
    inverse = state.get("state.inverse")
    if inverse is not None:
        shape = state["state.weights"].shape
        state["state.inverse"] = inverse.reshape(*shape, *shape)
    rows = header["pending"]
    parts = {name: arrays[name] for name in ("indices", "values", "scores", "probabilities")}
    parts["receipts"] = np.array(
        [[serial, action, greedy, size, -1] for serial, action, greedy, _, size in rows], np.int64
    ).reshape(len(rows), 5)
    parts["rates"] = np.array([row[3] for row in rows], np.float64)
    parts["expired"] = np.array(header["expired"], np.int64)
    about_model = {
        **header,
        "graph": {**graph, **_dominating_set_of_version_1(graph, arrays["visible"])},
        "graphs": [],
        "sessions": [[header["id"], 0, header["rounds"]]],
        "feature_limit": None,
        "pending_bytes": 2**28,
    }
    return about_model, {"edges": edges, **parts, **state}


def _dominating_set_of_version_1(graph: dict[str, Any], visible: NDArray[Any]) -> dict[str, bool]:
    """Who chose the dominating set, and whether it is known to be the smallest, as far as that is quickly found."""
    members = {graph["actions"].index(name) for name in graph["dominating_set"]}
    lone = set(visible[:, visible.sum(axis=0) == 1].argmax(axis=0).tolist())  # the only observers of some class
    return {
        "dominating_set_is_given": members != set(find_greedy_dominating_set(visible)),
        "dominating_set_is_exact": len(members) == 1 or members <= lone,
    }
