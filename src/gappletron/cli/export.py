"""``gappletron export``: the stored runs of the paper's experiments as a table."""

from pathlib import Path
from typing import Annotated

import typer

import gappletron as gp
from gappletron.base.files import check_writable
from gappletron.cli.options import Results
from gappletron.cli.output import say

EXAMPLES = """\
gappletron export runs.csv
gappletron export runs.parquet
gappletron export runs.csv --results other-results"""


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; its name ends in .csv or .parquet.")],
    results: Results = Path("results"),
) -> None:
    """Write all stored runs as a CSV or Parquet table."""
    from gappletron.paper.store import table_kind, write_table

    table_kind(file)
    check_writable(file)
    runs = gp.read_results(results)
    write_table(runs, file)
    say(f"{len(runs):,} runs in {file}")
