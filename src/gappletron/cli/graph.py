"""``gappletron graph``: describe a feedback graph."""

import sys
from typing import Annotated

import typer

from gappletron.base.tables import find_width
from gappletron.cli.options import GRAPHS, GraphOptions, PlotPath
from gappletron.cli.output import check_outputs, say

EXAMPLES = """\
gappletron graph filtering --classes inbox,work,spam --revealing inbox
gappletron graph apple-tasting --plot apple.svg
gappletron graph label-efficient --classes ham,spam --cost spam,ham=10 --cost 'query,*=0.1'"""


def graph(
    graph: Annotated[str, typer.Argument(metavar="PRESET|FILE", help=f"{GRAPHS}.")],
    preset: GraphOptions,
    plot: PlotPath = None,
) -> None:
    """Describe a feedback graph, print its matrix, and draw it."""
    check_outputs(plot=plot, inputs=(graph,))
    feedback = preset.add_costs(preset.open_alone(graph))
    width = find_width(sys.stdout) or 100
    try:
        if plot is not None:
            feedback.draw(plot)
    finally:
        say(f"{feedback.describe(width)}\n\n{feedback.as_text(width)}")
    if plot is not None:
        say(f"\nThe drawing is in {plot}")
