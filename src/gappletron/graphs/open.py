"""Graphs by name, and where the classes of a stream are in a graph."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, label
from gappletron.base.errors import UserError
from gappletron.base.text import check_settings, listing, split_settings, unknown
from gappletron.graphs.graph import FeedbackGraph
from gappletron.graphs.labels import check_classes
from gappletron.graphs.presets import PRESETS


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
    if isinstance(chosen, list | tuple | np.ndarray):
        chosen = [_match_class(item, names) for item in chosen]
    elif chosen is not None:
        chosen = _match_class(chosen, names)
    return FeedbackGraph.preset(name, names, chosen)


def match_classes(stream_classes: Sequence[Label], graph: FeedbackGraph) -> NDArray[np.int64] | None:
    """Return the position of each of the stream's classes in the graph, or None where the two agree.

    A class that the graph does not have is looked for by its text, since a file's 1 may be a graph file's "1".

    >>> match_classes([0, 1, 2], FeedbackGraph.bandit(["2", "0", "1"]))
    array([1, 2, 0])
    """
    found = _match(stream_classes, graph.classes)
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
    found = _match(stream_classes, graph.classes)
    return [name for name, place in zip(stream_classes, found, strict=True) if place is None]


def _match_class(name: Any, classes: tuple[Label, ...]) -> Label:
    plain = label(name, "revealing class")
    (place,) = _match([plain], classes)
    if place is None:
        raise unknown(plain, "class", classes)
    return classes[place]


def _match(names: Iterable[Label], classes: Sequence[Label]) -> list[int | None]:
    """Return for each name the position of the class of that type and value, else of the only class of that text."""
    exact = {(type(name), name): place for place, name in enumerate(classes)}
    texts = Counter(map(str, classes))
    by_text = {str(name): place for place, name in enumerate(classes) if texts[str(name)] == 1}
    return [exact.get((type(name), name), by_text.get(str(name))) for name in names]
