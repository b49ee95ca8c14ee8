"""Feedback graphs from and to other forms: JSON files and networkx.

A file is ``{"classes": [...], "actions": [...], "edges": [[action, class], ...]}``. Costs are written as
``"costs": [[action, class, number], ...]``, those alone that are not 0 or 1 as by default.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gappletron.base.errors import UserError
from gappletron.base.files import replacing
from gappletron.base.text import shorten, unknown
from gappletron.graphs.costs import list_changed
from gappletron.graphs.graph import FeedbackGraph
from gappletron.graphs.labels import check_list

FILE_BYTES = 2**28
FILE_ACTIONS = 20_000  # the matrix takes 0.4 GB
FILE_KEYS = ("classes", "actions", "edges", "name", "dominating_set", "costs")


def read_networkx(graph: Any) -> dict[str, Any]:
    """Return the arguments of :meth:`FeedbackGraph.from_edges` that a networkx graph holds.

    >>> import networkx
    >>> FeedbackGraph.from_edges(**read_networkx(networkx.path_graph(["a", "b", "c"]))).reveals("a")
    ('b',)
    """
    try:
        import networkx
    except ImportError:
        raise UserError("networkx is not installed: pip install networkx") from None
    if not isinstance(graph, networkx.Graph):
        raise UserError(f"expected a networkx graph, not a {type(graph).__name__}: give a Graph or a DiGraph")
    extra = {node for node, data in graph.nodes(data=True) if data.get("extra") is True}
    classes = [node for node in graph if node not in extra]
    edges = list(graph.edges())
    if not graph.is_directed():
        edges = [pair for u, v in edges for pair in ((u, v), (v, u)) if pair[1] not in extra]
    for _, head in edges:
        if head in extra:
            raise UserError(f"an edge goes into the extra action {head!r}, whose loss is known: remove that edge")
    return {"classes": classes, "edges": edges, "actions": [*classes, *(node for node in graph if node in extra)]}


def write_graph(graph: FeedbackGraph, path: str | os.PathLike[str]) -> None:
    """Write the file of a graph. The edges are those that were given: the closure adds the others again."""
    parts: dict[str, Any] = {"name": graph.name, "classes": graph.classes}
    if graph.n_actions > graph.n_classes:
        parts["actions"] = graph.actions
    if graph.dominating_set_is_given:
        parts["dominating_set"] = graph.dominating_set
    lines = {key: json.dumps(value) for key, value in parts.items()}
    lines["edges"] = _write_rows([graph.actions[i], graph.classes[y]] for i, y in np.argwhere(graph.given))
    if graph.has_costs:
        changed = list_changed(graph.costs, graph.actions, graph.classes)
        lines["costs"] = _write_rows([i, y, int(cost) if cost.is_integer() else cost] for i, y, cost in changed)
    document = "{\n" + ",\n".join(f'  "{key}": {text}' for key, text in lines.items()) + "\n}\n"
    with replacing(path) as file:
        file.write(document.encode())


def _write_rows(rows: Iterable[list[Any]]) -> str:
    return "[\n    " + ",\n    ".join(map(json.dumps, rows)) + "\n  ]"


def read_graph(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of :meth:`FeedbackGraph.from_edges` that a file holds; the names in it are checked there."""
    document = _read_json(path)
    if not isinstance(document, dict):
        raise UserError('it holds no object: write an object with "classes" and "edges"')
    for key, value in document.items():
        if key not in FILE_KEYS:
            raise unknown(shorten(key), "key", FILE_KEYS)
        if key != "name":
            check_list(value, f'"{key}"')
        if key not in ("edges", "costs", "name") and len(value) > FILE_ACTIONS:
            raise UserError(
                f'"{key}" has {len(value):,} names: a graph in a file has at most {FILE_ACTIONS:,}, so make a larger '
                "one in Python"
            )
    for key in ("classes", "edges"):
        if key not in document:
            raise UserError(f'"{key}" is missing: a graph needs "classes" and "edges"')
    if "costs" in document:
        document["costs"] = [tuple(cost) if isinstance(cost, list) else (cost,) for cost in document["costs"]]
    return {"name": Path(path).stem, **document}


def _read_json(path: str | os.PathLike[str]) -> object:
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"it cannot be read ({reason}): name a readable file") from None
    if len(content) > FILE_BYTES:
        raise UserError(f"it is larger than {FILE_BYTES >> 20} MiB: a graph file must be smaller")
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=_refuse_repeated)
    except json.JSONDecodeError as error:
        raise UserError(
            f"line {error.lineno}, column {error.colno} is not JSON ({error.msg}): correct it there"
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(f"byte {error.start + 1} is not UTF-8: save the file as UTF-8") from None
    except RecursionError:
        raise UserError("it is nested too deeply: a graph needs lists of names and of pairs, nothing deeper") from None
    except UserError:
        raise
    except ValueError:
        raise UserError("a number in it has too many digits: write it as a string") from None


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise UserError(f"the key {shorten(key)!r} is given twice: keep one")
    return found
