"""A feedback graph in words, numbers and letters, for people at a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gappletron._validate import listing, shortened

if TYPE_CHECKING:
    from gappletron.graph_view import GraphView

MATRIX_ACTIONS, MATRIX_CLASSES = 40, 24


def described(graph: GraphView) -> str:
    """What :meth:`FeedbackGraph.describe` says."""
    extra = graph.n_actions - graph.n_classes
    lines = [
        f"Feedback graph {graph.name!r}: {graph.n_classes} classes, {graph.n_actions} actions"
        + (f" ({extra} of them extra: {listing(graph.actions[graph.n_classes :])})" if extra else "")
        + f", {graph.n_edges} edge{'s' if graph.n_edges > 1 else ''}.",
        "",
        "What each action shows",
        *(f"  {what}: {listing(graph.actions[i] for i in members)}" for what, members in _kinds(graph) if members),
    ]
    if graph.completed:
        lines += ["", *_closure_in_words(graph)]
    lines += [
        "",
        *_observability_in_words(graph),
        "",
        f"Dominating set: {listing(graph.actions[i] for i in graph.dominating_set)} (rho = {graph.rho}, "
        + ("the smallest possible" if graph.dominating_set_is_exact else "a smaller one may exist")
        + ").",
    ]
    if graph.is_full_information:
        lines.append(
            "  It is never needed: every prediction shows the label, so there is nothing to explore, and the\n"
            "  surrogate regret does not grow with the number of rounds."
        )
    else:
        product = graph.rho * graph.n_classes
        lines.append(
            "  Exploring means playing one of these; between them they see every class. The surrogate regret is\n"
            f"  of order sqrt(rho K T) = sqrt({product} T): about {math.sqrt(product * 1e5):,.0f} mistakes over "
            "T = 100,000 rounds, constants aside."
        )
    return "\n".join(lines)


def _kinds(graph: GraphView) -> list[tuple[str, list[int]]]:
    counts = graph.visible.sum(axis=1)
    kinds: dict[str, list[int]] = {
        "the label, whatever it is": [],
        "only whether it is right itself": [],
        "some of the classes": [],
        "nothing": [],
    }
    everything, itself, some, nothing = kinds.values()
    for i, count in enumerate(counts.tolist()):
        if count == graph.n_classes:
            everything.append(i)
        elif count == 0:
            nothing.append(i)
        elif count == 1 and i < graph.n_classes and graph.visible[i, i]:
            itself.append(i)
        else:
            some.append(i)
    return list(kinds.items())


def _observability_in_words(graph: GraphView) -> list[str]:
    if graph.observability == "strong":
        return ["Observability: strong. Every class is seen by its own action or by every other action."]
    hidden = [graph.classes[y] for y in np.flatnonzero(~graph.strongly_observed())]
    return [
        f"Observability: weak. Neither its own action nor every other action sees {listing(hidden)},",
        "  so learning about such a class means playing, at times, something that looks worse.",
    ]


def _closure_in_words(graph: GraphView) -> list[str]:
    pairs = [f"{graph.actions[i]!r} -> {graph.classes[y]!r}" for i, y in graph.completed]
    more = len(pairs) - 6
    shown = ", ".join(pairs[:6]) + (f" and {more} more" if more > 0 else "")
    return [
        f"Added edge{'s' if len(pairs) > 1 else ''}: {shown}.",
        "  An action that sees all classes but one sees that one as well: a label that is none of the others is it.",
    ]


def matrix(graph: GraphView) -> str:
    """What :meth:`FeedbackGraph.as_text` shows."""
    if graph.n_actions > MATRIX_ACTIONS or graph.n_classes > MATRIX_CLASSES:
        return (
            f"(The matrix of {graph.n_actions} x {graph.n_classes} is too large for a terminal: draw it into a file.)"
        )
    columns = [shortened(str(name), 8) for name in graph.classes]
    rows = [shortened(str(name), 16) for name in graph.actions]
    left = max(map(len, [*rows, "action played"]))
    lines = [f"{'action played':{left}}   " + "  ".join(columns)]
    for i, name in enumerate(rows):
        cells = "  ".join(
            ("#" if seen else ".").center(len(column)) for seen, column in zip(graph.visible[i], columns, strict=True)
        )
        mark = "*" if i in graph.dominating_set else " "
        lines.append(f"{name:{left}} {mark} {cells}".rstrip())
    return "\n".join([*lines, "", "# shows whether the label is the column's class; * is in the dominating set"])
