"""``gappletron graph``: describe a feedback graph."""

from typing import Annotated

import typer

from gappletron.cli.options import GRAPHS, GraphOptions, PlotPath
from gappletron.cli.output import check_outputs, say


def graph(
    graph: Annotated[str, typer.Argument(metavar="PRESET|FILE", help=f"{GRAPHS}.")],
    preset: GraphOptions,
    plot: PlotPath = None,
) -> None:
    """Describe a feedback graph, print its matrix, and draw it."""
    check_outputs(plot=plot, inputs=(graph,))
    feedback = preset.add_costs(preset.open_alone(graph))
    try:
        if plot is not None:
            feedback.draw(plot)
    finally:
        say(f"{feedback.describe()}\n\n{feedback.as_text()}")
    if plot is not None:
        say(f"\nThe drawing is in {plot}")
