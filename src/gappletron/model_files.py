"""Files of saved models: a NumPy archive with a JSON header, written whole or not at all, read with every check.

Nothing in a file can run code. What a file says of a graph or a state is checked by those who make them from it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gappletron import _files
from gappletron._signals import held_back
from gappletron._validate import UserError
from gappletron.graphs import FeedbackGraph

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import NDArray

VERSION = 2
"""Version 1 is that of gappletron 0.1: another header, and states under other names."""

T = TypeVar("T")


def write(path: str | os.PathLike[str], kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a model file of this kind; an older one is replaced at once or not at all.

    Signals wait until the file is complete: an exception inside an archive would be lost in the code that closes it.
    """
    text = json.dumps({"format": kind, "version": VERSION, **header})
    with held_back(), _files.replacing(path) as file:
        np.savez(file, allow_pickle=False, header=np.frombuffer(text.encode(), np.uint8), **arrays)


def read(path: str | os.PathLike[str], kind: str, rebuilt: Callable[[dict[str, Any], dict[str, NDArray[Any]]], T]) -> T:
    """What `rebuilt` makes of the header and the arrays of a file, or a UserError that names the file."""
    damaged = f"{str(path)!r} is damaged or not a saved model: use a file that save() wrote"
    header, arrays = _contents(path, damaged)
    if not isinstance(header, dict) or type(header.get("version")) is not int or header["version"] < 1:
        raise UserError(damaged)
    if header.get("format") != kind:
        raise UserError(f"{str(path)!r} holds a {header.get('format')!r}, not a {kind!r}: load it with that class")
    if header["version"] > VERSION:
        raise UserError(
            f"{str(path)!r} was written by a newer gappletron (format {header['version']}, this one reads up to "
            f"{VERSION}): upgrade gappletron"
        )
    try:
        return rebuilt(*((header, arrays) if header["version"] == VERSION else _from_version_1(header, arrays)))
    except UserError as error:
        raise UserError(f"{str(path)!r}: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, MemoryError):
        raise UserError(damaged) from None


def _contents(path: str | os.PathLike[str], damaged: str) -> tuple[Any, dict[str, NDArray[Any]]]:
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile) or "header" not in archive.files:
                raise UserError(damaged)
            header = json.loads(bytes(archive["header"]))
            arrays = {name: archive[name] for name in archive.files}
            if archive.zip is None or archive.zip.testzip() is not None:  # reading arrays may stop before their sums
                raise UserError(damaged)
    except OSError as error:
        raise UserError(
            f"cannot read {str(path)!r} ({error.strerror or error}): give a file that save() wrote"
        ) from None
    except UserError:
        raise
    except Exception as error:  # zipfile, its decompressors, NumPy and JSON have a dozen errors for bytes gone wrong
        raise UserError(damaged) from error
    return header, arrays


# --------------------------------------------------------------------------------------------------------------- graphs


def graph_header(graph: FeedbackGraph) -> dict[str, Any]:
    """What a header says of a graph; the edges are an array of their own."""
    return {
        "classes": graph.classes,
        "actions": graph.actions,
        "name": graph.name,
        "dominating_set": graph.dominating_set,
        "dominating_set_is_given": graph.dominating_set_is_given,
        "dominating_set_is_exact": graph.dominating_set_is_exact,
    }


def graph_of(about: dict[str, Any], edges: NDArray[Any]) -> FeedbackGraph:
    """The graph of a header and of its given edges."""
    graph = FeedbackGraph(
        edges, about["classes"], about["actions"], name=about["name"], dominating_set=about["dominating_set"]
    )
    flags = {name: about[name] for name in ("dominating_set_is_given", "dominating_set_is_exact")}
    return graph._restored(**flags)


# ------------------------------------------------------------------------------------------------ files of version 0.1


def _from_version_1(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A file of gappletron 0.1 as this version would have written it."""
    graph = header["graph"]
    edges = arrays["visible"]
    if edges.shape == (2, 2) and graph["name"] in ("bandit", "disease-prevention"):  # version 0.1 kept the closure only
        edges = FeedbackGraph.preset(graph["name"], graph["classes"]).given
    found = FeedbackGraph(edges, graph["classes"], graph["actions"])
    about = {
        **graph,
        "dominating_set_is_given": list(found.dominating_set) != list(graph["dominating_set"]),
        "dominating_set_is_exact": found.dominating_set_is_exact,
    }
    state = {name: array for name, array in arrays.items() if name.startswith("state.")}
    inverse = state.get("state.inverse")
    if inverse is not None:
        shape = state["state.weights"].shape
        state["state.inverse"] = inverse.reshape(*shape, *shape)
    parts = {name: arrays[name] for name in ("indices", "values", "scores", "probabilities")}
    about_model = {
        **header,
        "graph": about,
        "graphs": [],
        "sessions": [[header["id"], 0, header["rounds"]]],
        "feature_limit": None,
        "pending_bytes": 2**28,
        "pending": [[*row, -1] for row in header["pending"]],
    }
    return about_model, {"edges": edges, **parts, **state}
