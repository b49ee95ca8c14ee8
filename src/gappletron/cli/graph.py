"""``gappletron graph``: describe a feedback graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gappletron.base.errors import UserError
from gappletron.cli.output import check_outputs, say
from gappletron.graphs.presets import PRESETS

if TYPE_CHECKING:
    from gappletron.graphs.graph import FeedbackGraph

NewCost = Annotated[
    list[str] | None,
    typer.Option(metavar="ACTION,CLASS=NUMBER", help="For a new model: what an action costs at a label; repeatable."),
]


def describe_graph(
    graph: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FILE",
            help=f"{', '.join(PRESETS)}, or a FILE.json.",
        ),
    ],
    classes: Annotated[str, typer.Option(help="For a preset: how many classes, or their names as in spam,ham.")] = "",
    revealing: Annotated[
        str | None, typer.Option(help="Filtering and apple tasting: the class that reveals. Default: the first.")
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACTION,CLASS=NUMBER",
            help="What an action costs at a label, as in spam,ham=10; * for every class; repeatable.",
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PATH", help="Draw it: PNG, SVG or PDF.")] = None,
) -> None:
    """Describe a feedback graph, print its matrix, and draw it."""
    check_outputs(None, plot, inputs=(graph,))
    feedback = with_costs(named_graph(graph, classes, revealing), cost)
    try:
        if plot is not None:
            feedback.draw(plot)
    finally:
        say(f"{feedback.describe()}\n\n{feedback.as_text()}")
    if plot is not None:
        say(f"\nThe drawing is in {plot}")


def named_graph(graph: str, classes: str, revealing: str | None) -> FeedbackGraph:
    """The graph of a command without a stream, whose classes are an option."""
    from gappletron.base.text import read_classes
    from gappletron.graphs.open import open_graph

    if graph.endswith(".json") and classes:
        raise UserError("--classes is only for presets, and a file has its own classes: omit it")
    preset = PRESETS.get(graph.partition(":")[0])
    default = preset.n_classes if preset is not None and preset.n_classes is not None else 4
    return open_graph(graph, read_classes(classes or str(default)), revealing)


def with_costs(graph: FeedbackGraph, texts: list[str] | None) -> FeedbackGraph:
    """The graph with the costs of ``--cost``, in addition to those of its file."""
    from gappletron.graphs.costs import read_costs

    entries = [entry for text in texts or () for entry in read_costs(text, graph.actions, graph.classes)]
    return graph.with_costs(entries) if entries else graph
