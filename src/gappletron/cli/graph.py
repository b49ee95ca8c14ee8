"""``gappletron graph``: describe a feedback graph."""

from __future__ import annotations

from typing import Annotated

import typer

from gappletron.cli.options import GRAPHS, CostOptions, PlotOptions, PresetOptions
from gappletron.cli.output import check_outputs, say


def describe_graph(
    graph: Annotated[str, typer.Argument(metavar="PRESET|FILE", help=f"{GRAPHS}.")],
    preset: PresetOptions,
    cost: CostOptions,
    plot: PlotOptions,
) -> None:
    """Describe a feedback graph, print its matrix, and draw it."""
    path = plot.plot
    check_outputs(plot=path, inputs=(graph,))
    feedback = cost.add_costs(preset.open_alone(graph))
    try:
        if path is not None:
            feedback.draw(path)
    finally:
        say(f"{feedback.describe()}\n\n{feedback.as_text()}")
    if path is not None:
        say(f"\nThe drawing is in {path}")
