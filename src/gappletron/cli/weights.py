"""``gappletron weights``: the columns, categories and words with the largest weights of a saved model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

import gappletron as gp
from gappletron.base.tables import find_width
from gappletron.cli.options import RESULTS, JsonPath
from gappletron.cli.output import STANDARD_OUTPUT, check_outputs, say, write_text

EXAMPLES = """\
gappletron teach named.npz history.csv --label label --text message --names
gappletron weights named.npz --top 50
gappletron weights named.npz --json weights.json"""


def weights(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What --save or Online.save wrote.")],
    top: Annotated[
        int, typer.Option(help="So many of each class, the largest. Default: 20.", min=1, rich_help_panel=RESULTS)
    ] = 20,
    json_path: JsonPath = None,
) -> None:
    """Show what a model has learned: the columns, categories and words with the largest weights for each class.

    For models made with --names, or with Encoder(names=True) in Python. A weight is what the name adds to the score of
    the class in a row that holds nothing else; below 0 it speaks against the class.
    """
    check_outputs(json=json_path, inputs=(str(model),))
    found = gp.Online.load(model).feature_weights(top)
    if json_path != STANDARD_OUTPUT:
        say(found.to_text(find_width(sys.stdout)))
    if json_path is not None:
        write_text(json_path, json.dumps(found.to_dict(), indent=1))
