"""``gappletron export``: the stored runs of the paper's experiments as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gappletron.cli.options import ResultOptions
from gappletron.cli.output import say


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; its name ends in .csv or .parquet.")],
    stored: ResultOptions,
) -> None:
    """Write all stored runs as a CSV or Parquet table."""
    from gappletron import read_results
    from gappletron.base.files import check_writable
    from gappletron.paper.store import table_kind, write_table

    table_kind(file)
    check_writable(file)
    runs = read_results(stored.results)
    write_table(runs, file)
    say(f"{len(runs):,} runs in {file}")
