"""A feedback graph as text: a description, and the matrix."""

import math
from html import escape

import numpy as np

from gappletron.base import tables
from gappletron.base.tables import wrap
from gappletron.base.text import listing, make_printable, shorten
from gappletron.graphs.costs import list_changed
from gappletron.graphs.edges import find_strongly_observed
from gappletron.graphs.graph import LETTERS_IN_CAPTION, FeedbackGraph

MATRIX_ACTIONS, MATRIX_CLASSES = 40, 24
COSTS_SHOWN = 12


def describe(graph: FeedbackGraph, width: int | None) -> str:
    """Return the text of :meth:`FeedbackGraph.describe`."""
    K, extra = graph.n_classes, graph.actions[graph.n_classes :]
    lines = [
        f"Feedback graph {shorten(repr(graph.name), 80)}: {K} classes, {graph.n_actions} actions"
        + (f" ({len(extra)} of them extra: {listing(extra)})" if extra else "")
        + f", {graph.n_edges} edges.",
        "",
        "What each action reveals",
        *_describe_actions(graph),
        "",
    ]
    if graph.completed:
        added = [(graph.actions[i], graph.classes[y]) for i, y in graph.completed]
        lines += [
            f"Added edges, from action to class: {listing(added, 6, 2 * LETTERS_IN_CAPTION)}.",
            "  An action that reveals all classes but one also reveals that one: a label that is none of the others is "
            "it.",
            "",
        ]
    hidden = [graph.classes[y] for y in np.flatnonzero(~find_strongly_observed(graph.visible))]
    if hidden:
        lines += [
            f"Observability: weak. Neither its own action nor every other action reveals {listing(hidden)}, so "
            "learning such a class requires playing actions that look worse.",
        ]
    else:
        lines.append("Observability: strong. Every class is revealed by its own action or by every other action.")
    size = "minimum"
    if graph.rho > graph.least_rho:
        how = "given" if graph.dominating_set_is_given else "greedy"
        size = f"{how}, at most {graph.rho / graph.least_rho:.3g} times the minimum"
    lines += ["", f"Dominating set: {listing(graph.dominating_set)} (rho = {graph.rho}, {size})."]
    if graph.is_full_information:
        lines.append(
            "  It is not used: every prediction reveals the label, so no exploration is needed, and the "
            "surrogate regret does not grow with the number of rounds."
        )
    else:
        several = "one of these actions; together they reveal every class"
        lines.append(
            f"  Exploration plays {several if graph.rho > 1 else 'this action, which reveals every class'}. "
            f"The surrogate regret is of order sqrt(rho K T) = sqrt({graph.rho * K} T): about "
            f"{math.sqrt(graph.rho * K * 1e5):,.0f} mistakes over T = 100,000 rounds, up to constants."
        )
    if graph.has_costs:
        lines += ["", *_describe_costs(graph)]
    return "\n".join(wrap(line, width) for line in lines)


def _describe_costs(graph: FeedbackGraph) -> list[str]:
    """List the costs that are not 0 or 1 as by default; one line for an action that costs the same at every label."""
    same = {action for i, action in enumerate(graph.actions) if (graph.costs[i] == graph.costs[i, 0]).all()}
    lines: dict[str, None] = {}
    for action, seen, cost in list_changed(graph.costs, graph.actions, graph.classes):
        name, where = shorten(repr(action), LETTERS_IN_CAPTION), shorten(repr(seen), LETTERS_IN_CAPTION)
        lines[f"  {name} {'at any label' if action in same else f'at the label {where}'}: {cost:g}"] = None
    more = len(lines) - COSTS_SHOWN
    return [
        "Costs: 0 for the label, 1 for any other action, except",
        *list(lines)[:COSTS_SHOWN],
        *([f"  and {more} more"] if more > 0 else []),
    ]


def _describe_actions(graph: FeedbackGraph) -> list[str]:
    counts = graph.visible.sum(axis=1)
    everything, nothing, itself = counts == graph.n_classes, counts == 0, counts == 1
    itself[: graph.n_classes] &= graph.visible[: graph.n_classes].diagonal()
    itself[graph.n_classes :] = False
    some = ~(everything | nothing | itself)
    kinds = {"every label": everything, "only whether it is correct": itself, "some classes": some, "nothing": nothing}
    return [
        f"  {kind}: {listing(graph.actions[i] for i in np.flatnonzero(members))}"
        for kind, members in kinds.items()
        if members.any()
    ]


def make_html(graph: FeedbackGraph) -> str:
    """Return the matrix for a notebook, or where it is large the description."""
    if graph.n_actions > MATRIX_ACTIONS or graph.n_classes > MATRIX_CLASSES:
        return f"<pre>{escape(describe(graph, 100))}</pre>"
    rows = [
        [f"{name}{' *' if i in graph.dominating_indices else ''}", *("#" if seen else "" for seen in graph.visible[i])]
        for i, name in enumerate(graph.actions)
    ]
    title = f"{graph!r}: # where the action reveals whether the label is the class; * is in the dominating set"
    return tables.make_html(["action played", *map(str, graph.classes)], rows, title)


def show_matrix(graph: FeedbackGraph, width: int | None = None) -> str:
    """Return the text of :meth:`FeedbackGraph.as_text`.

    >>> print(show_matrix(FeedbackGraph.label_efficient(["cat", "dog"])))
    action played   cat  dog
    cat              .    .
    dog              .    .
    query         *  #    #
    <BLANKLINE>
    # reveals whether the label is the class of the column; * is in the dominating set
    """
    if graph.n_actions > MATRIX_ACTIONS or graph.n_classes > MATRIX_CLASSES:
        return f"(The matrix of {graph.n_actions} x {graph.n_classes} is too large to print: use draw() or --plot.)"
    columns = [shorten(make_printable(str(name)), 8) for name in graph.classes]
    rows = [shorten(make_printable(str(name)), 16) for name in graph.actions]
    left = max(map(len, [*rows, "action played"]))
    lines: list[str] = []
    room = math.inf if width is None else width - left - 1
    first = 0
    while first < len(columns):
        stop = first + 1
        while stop < len(columns) and sum(2 + len(name) for name in columns[first : stop + 1]) <= room:
            stop += 1
        here = columns[first:stop]
        lines += ["", f"{'action played':{left}}   " + "  ".join(here)]
        for i, name in enumerate(rows):
            seen = graph.visible[i, first:stop]
            cells = "  ".join(("#" if each else ".").center(len(c)) for each, c in zip(seen, here, strict=True))
            mark = "*" if i in graph.dominating_indices else " "
            lines.append(f"{name:{left}} {mark} {cells}".rstrip())
        first = stop
    legend = "# reveals whether the label is the class of the column; * is in the dominating set"
    return "\n".join([*lines[1:], "", wrap(legend, width)])
