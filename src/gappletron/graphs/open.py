"""Graphs from texts, JSON files and networkx, and where the classes of a stream are in a graph.

A file is ``{"classes": [...], "actions": [...], "edges": [[action, class], ...]}``. Costs are written as
``"costs": [[action, class, number], ...]``, those alone that are not 0 or 1 as by default.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label
from gappletron.base.errors import UserError
from gappletron.base.files import replacing
from gappletron.base.text import check_settings, listing, quote, shorten, split_settings, unknown
from gappletron.graphs.costs import list_changed
from gappletron.graphs.graph import FeedbackGraph
from gappletron.graphs.labels import Positions, check_classes, check_list
from gappletron.graphs.presets import PRESETS

EVERY_CLASS = "*"
FILE_KEYS = ("classes", "actions", "edges", "name", "dominating_set", "costs")


def open_graph(
    graph: FeedbackGraph | str | os.PathLike[str],
    classes: int | Iterable[Any],
    revealing: Any = None,
    *,
    classes_given: bool = True,
) -> FeedbackGraph:
    """Return the graph that `graph` names: a FeedbackGraph, a file that ends in ``.json``, or a preset.

    The class that reveals is part of the text, ``"filtering:revealing=ham"``, or is given as `revealing`: a class, or a
    list of them. A class is found by its name, or by its text where that is unique, so ``"1"`` finds the class 1.
    By default the first class reveals; where `classes_given` is False (their order was derived from data), there is no
    default.

    >>> open_graph("bandit", 3)
    FeedbackGraph('bandit': 3 classes, 3 actions, 3 edges, rho 3)
    >>> open_graph("filtering:revealing=ham", ["spam", "ham"]).caption
    "filtering graph, 'ham' reveals"
    """
    is_file = isinstance(graph, str | os.PathLike) and os.fspath(graph).endswith(".json")
    if revealing is not None and (is_file or isinstance(graph, FeedbackGraph)):
        raise UserError("revealing is only for presets, and this graph has edges of its own: omit it")
    if isinstance(graph, FeedbackGraph):
        return graph
    if is_file:
        return FeedbackGraph.from_json(graph)
    name, settings = split_settings(graph) if isinstance(graph, str) else (graph, {})
    if name not in FeedbackGraph.PRESETS:  # a tuple: what is not a text need not have a hash
        raise unknown(name, "graph", [*PRESETS, "FILE.json"])
    names = check_classes(classes)
    by_class = PRESETS[name].by_class
    check_settings(settings, ["revealing"] if by_class else [], str(graph))
    if settings and revealing is not None:
        raise UserError(
            f"{graph!r} names the class that reveals, and so does revealing={revealing!r}: give one of them"
        )
    chosen = settings.get("revealing", revealing)
    if by_class and chosen is None and not classes_given:
        raise UserError(
            f"the {name} graph needs the class that reveals, because the order of the classes {listing(names)} was "
            f"derived from the data: name it, for example '{name}:revealing={names[0]}'"
        )
    return FeedbackGraph.preset(name, names, chosen)


def match_classes(stream_classes: Sequence[Label], graph: FeedbackGraph) -> NDArray[np.int64] | None:
    """Return the position of each of the stream's classes in the graph, or None where the two agree.

    A class that the graph does not have is looked for by its text, since a file's 1 may be a graph file's "1".

    >>> match_classes([0, 1, 2], FeedbackGraph.bandit(["2", "0", "1"]))
    array([1, 2, 0])
    """
    found = [graph.class_positions.match(name) for name in stream_classes]
    for name, place in zip(stream_classes, found, strict=True):
        if place is None:
            raise UserError(
                f"the stream has the class {name!r}, but the graph {graph.name!r} knows only "
                f"{listing(graph.classes)}: make the graph for the stream's classes, {listing(stream_classes)}"
            )
    if len(set(found)) < len(found):
        raise UserError(
            f"several of the stream's classes {listing(stream_classes)} are one class of the graph {graph.name!r}: "
            "make the graph for the stream's classes"
        )
    return None if found == list(range(graph.n_classes)) else np.array(found, dtype=np.int64)


def find_new_classes(stream_classes: Sequence[Label], graph: FeedbackGraph) -> list[Label]:
    """Return those of the stream's classes that the graph does not have, neither by name nor by text.

    >>> find_new_classes(["0", "2"], FeedbackGraph.bandit([0, 1]))
    ['2']
    """
    return [name for name in stream_classes if graph.class_positions.match(name) is None]


def read_costs(text: str, actions: Sequence[Label], classes: Sequence[Label]) -> list[tuple[Label, Label, float]]:
    """Return the costs of a text ``ACTION,CLASS=NUMBER``, as (action, class, number); ``*`` for every class.

    The class is what follows the last comma, so an action may have commas in its name; equals signs may be in both.

    >>> read_costs("spam,ham=10", ["ham", "spam"], ["ham", "spam"])
    [('spam', 'ham', 10.0)]
    >>> read_costs("query,*=0.1", [0, 1, "query"], [0, 1])
    [('query', 0, 0.1), ('query', 1, 0.1)]
    """
    names, equals, value = text.rpartition("=")
    action, comma, name = names.rpartition(",")
    if not equals or not comma:
        raise UserError(f"expected ACTION,CLASS=NUMBER, not {quote(text)}: write for example spam,ham=10")
    try:
        cost = float(value)
    except ValueError:
        raise UserError(f"{quote(value)} in {quote(text)} is not a number: write for example spam,ham=10") from None
    if name.strip() == EVERY_CLASS and {name, EVERY_CLASS}.isdisjoint(classes):
        seen = classes
    else:
        seen = [_match(name, classes, "class", text)]
    return [(_match(action, actions, "action", text), each, cost) for each in seen]


def _match(name: str, names: Sequence[Label], kind: str, text: str) -> Label:
    """Return which of the names a part of a text means, with or without the spaces around it."""
    positions = Positions(names, kind)
    for spelling in (name, name.strip()):
        place = positions.match(spelling)
        if place is not None:
            return names[place]
    raise UserError(f"{quote(text)}: {unknown(name.strip(), kind, names)}")


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
    for key in ("classes", "edges"):
        if key not in document:
            raise UserError(f'"{key}" is missing: a graph needs "classes" and "edges"')
    if "costs" in document:
        document["costs"] = [tuple(cost) if isinstance(cost, list) else (cost,) for cost in document["costs"]]
    return {"name": Path(path).stem, **document}


def _read_json(path: str | os.PathLike[str]) -> object:
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise UserError(f"it cannot be read ({getattr(error, 'strerror', error)}): name a readable file") from None
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"it is not JSON ({error}): correct it") from None
