"""``gappletron explain``: why a saved model decides as it does, row by row of a file."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import gappletron as gp
from gappletron.base.errors import UserError
from gappletron.base.tables import find_width
from gappletron.cli.options import RESULTS, JsonPath, RowsArgument, TableOptions
from gappletron.cli.output import STANDARD_OUTPUT, check_outputs, say, write_text
from gappletron.cli.predict import read_rows

EXAMPLES = """\
gappletron explain filter.npz unread.csv
gappletron explain filter.npz unread.csv --row 17 --top 50
gappletron explain filter.npz unread.csv --rows 1000 --json why.json"""


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that --save or Online.save wrote.")],
    data: RowsArgument,
    table: TableOptions,
    row: Annotated[
        int | None, typer.Option(help="Only this row; the first is 1.", min=1, rich_help_panel=RESULTS)
    ] = None,
    rows: Annotated[
        int, typer.Option(help="Explain at most this many rows. Default: 3.", min=1, rich_help_panel=RESULTS)
    ] = 3,
    top: Annotated[
        int,
        typer.Option(
            help="How many parts of each row to print, the largest first. Default: 20.", min=1, rich_help_panel=RESULTS
        ),
    ] = 20,
    json_path: JsonPath = None,
) -> None:
    """Explain decisions: what each column, word and category of a row adds to the score of its class.

    The parts are those of the score of the decided class minus the score of the next one: above 0 they speak for the
    class, below 0 for the next one.
    """
    check_outputs(json=json_path, inputs=(data, str(model)))
    saved = gp.Online.load(model)
    first, stop = (0, rows) if row is None else (row - 1, row)
    found: list[dict[str, Any]] = []
    for number, (x, scores) in enumerate(itertools.islice(read_rows(saved, data, table), first, stop), first + 1):
        why = saved.explain(x, scores=scores)
        if json_path != STANDARD_OUTPUT:
            say(("\n" if found else "") + f"row {number}\n{why.to_text(find_width(sys.stdout), top)}")
        found.append({"row": number, **why.to_dict()})
    if not found:
        raise UserError(f"{data} has no row {first + 1}: give a smaller --row, or a file with rows")
    if json_path is not None:
        write_text(json_path, json.dumps(found, indent=1))
