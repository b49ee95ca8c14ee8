"""The JSON file of a feedback graph: ``{"classes": [...], "actions": [...], "edges": [[action, class], ...]}``.

Costs are written as ``"costs": [[action, class, number], ...]``, those alone that are not 0 or 1 as by default.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gappletron.base.errors import UserError
from gappletron.base.text import shorten, unknown
from gappletron.graphs import costs as graph_costs
from gappletron.graphs.view import GraphView

FILE_BYTES = 2**28
FILE_ACTIONS = 20_000  # the matrix takes 0.4 GB
FILE_KEYS = ("classes", "actions", "edges", "name", "dominating_set", "costs")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of :meth:`FeedbackGraph.from_edges` that a file holds."""
    try:
        return {"name": Path(path).stem, **_arguments(_read_json(path))}
    except RecursionError:
        raise UserError("it is nested too deeply: a graph needs lists of names and of pairs, nothing deeper") from None


def written(graph: GraphView) -> bytes:
    """The file of a graph. The edges are those that were given: the closure adds the others again."""
    given = graph.visible.copy()
    for edge in graph.completed:
        given[edge] = False
    lines = [f'  "name": {json.dumps(graph.name)}', f'  "classes": {json.dumps(graph.classes)}']
    if graph.n_actions > graph.n_classes:
        lines.append(f'  "actions": {json.dumps(graph.actions)}')
    if graph.dominating_set_is_given:
        lines.append(f'  "dominating_set": {json.dumps(graph.dominating_set)}')
    pairs = [json.dumps([graph.actions[i], graph.classes[y]]) for i, y in np.argwhere(given)]
    lines.append('  "edges": [\n    ' + ",\n    ".join(pairs) + "\n  ]")
    changed = graph_costs.changed(graph)
    if changed:
        triples = [json.dumps([i, y, int(cost) if cost.is_integer() else cost]) for i, y, cost in changed]
        lines.append('  "costs": [\n    ' + ",\n    ".join(triples) + "\n  ]")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _arguments(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UserError(f'it holds {_json_kind(document)}: write an object with "classes" and "edges"')
    for key in document:
        if key not in FILE_KEYS:
            raise unknown(shorten(key), "key", FILE_KEYS)
    for key in ("classes", "edges"):
        if key not in document:
            raise UserError(f'"{key}" is missing: a graph needs "classes" and "edges"')
    for key in ("classes", "actions"):
        if isinstance(document.get(key), list) and len(document[key]) > FILE_ACTIONS:
            raise UserError(
                f'"{key}" has {len(document[key]):,} names: a graph in a file has at most {FILE_ACTIONS:,}, so make a '
                "larger one in Python"
            )
    parts = {key: _json_names(document, key) for key in ("classes", "actions", "dominating_set") if key in document}
    edges = _json_edges(document["edges"])
    if not isinstance(document.get("name", ""), str):
        raise UserError(f'"name" is {_json_kind(document["name"])}: write a string')
    if "costs" in document:
        parts["costs"] = _json_costs(document["costs"])
    return {**parts, "edges": edges, **{key: document[key] for key in ("name",) if key in document}}


def _read_json(path: str | os.PathLike[str]) -> object:
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise UserError(f"it cannot be read ({error.strerror}): name a readable file") from None
    except ValueError as error:
        raise UserError(f"it cannot be read ({error}): name a readable file") from None
    if len(content) > FILE_BYTES:
        raise UserError(f"it is larger than {FILE_BYTES >> 20} MiB: a graph file must be smaller")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"byte {error.start + 1} is not UTF-8: save the file as UTF-8") from None
    try:
        return json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise UserError(
            f"line {error.lineno}, column {error.colno} is not JSON ({error.msg}): correct it there"
        ) from None
    except UserError:
        raise
    except ValueError:
        raise UserError("a number in it has too many digits: write it as a string") from None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UserError(f"the key {shorten(key)!r} is given twice: keep one")
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise UserError(f"{name} is neither a name nor a cost: names may be strings, whole numbers, true, false or null")


def _json_kind(value: object) -> str:
    kinds = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return kinds.get(type(value), "null")


def _json_names(document: dict[str, Any], key: str) -> list[Any]:
    names = document[key]
    if not isinstance(names, list):
        raise UserError(f'"{key}" is {_json_kind(names)}: write a list of names')
    for place, item in enumerate(names, start=1):
        _json_name(item, f'entry {place} of "{key}"')
    return names


def _json_edges(edges: object) -> list[Any]:
    if not isinstance(edges, list):
        raise UserError(f'"edges" is {_json_kind(edges)}: write a list of [action, class] pairs')
    for place, edge in enumerate(edges, start=1):
        if not isinstance(edge, list) or len(edge) != 2:
            raise UserError(f"edge {place} is not a pair: write it as [action, class]")
        for end in edge:
            _json_name(end, f"edge {place}")
    return edges


def _json_costs(costs: object) -> list[Any]:
    if not isinstance(costs, list):
        raise UserError(f'"costs" is {_json_kind(costs)}: write a list of [action, class, number]')
    for place, cost in enumerate(costs, start=1):
        if not isinstance(cost, list) or len(cost) != 3:
            raise UserError(f"cost {place} is not of three parts: write it as [action, class, number]")
        for name in cost[:2]:
            _json_name(name, f"cost {place}")
    return [tuple(cost) for cost in costs]


def _json_name(value: object, place: str) -> None:
    if isinstance(value, list | dict | float):
        what = "a float" if isinstance(value, float) else _json_kind(value)
        raise UserError(f"{place} holds {what}: names may be strings, whole numbers, true, false or null")
