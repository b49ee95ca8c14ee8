"""``gappletron predict``: the predictions of a saved model for a file of rows."""

from __future__ import annotations

import csv
import io
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import gappletron as gp
from gappletron.base.errors import UserError
from gappletron.base.files import replacing
from gappletron.base.progress import progress
from gappletron.base.text import defuse, listing, unknown
from gappletron.cli.options import RowsArgument, TableOptions
from gappletron.cli.output import STANDARD_OUTPUT, check_outputs, tell

EXAMPLES = """\
gappletron predict filter.npz unread.csv
gappletron predict filter.npz unread.csv --out predictions.csv
gappletron predict filter.npz mail.csv --label label"""

if TYPE_CHECKING:  # it loads NumPy, which the help does not need
    from gappletron.kernel.types import Floats


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that --save or Online.save wrote.")],
    data: RowsArgument,
    table: TableOptions,
    out: Annotated[Path, typer.Option(help="The CSV file to write; - for the standard output.", metavar="PATH")] = (
        STANDARD_OUTPUT
    ),
) -> None:
    """Predict every row of a file: its class, and the probability of each class, as CSV.

    With --label, also print the share of wrong predictions.
    """
    check_outputs(out=out, inputs=(data, str(model)))
    saved = gp.Online.load(model)
    if out == STANDARD_OUTPUT:
        write_predictions(saved, data, table, sys.stdout)
        return
    with replacing(out) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        write_predictions(saved, data, table, text)
        text.detach()


def write_predictions(model: gp.Online, data: str, table: TableOptions, file: Any) -> None:
    """Write a header, and a row for each row of the data."""
    writer = csv.writer(file, lineterminator="\n")
    header = ["prediction", *(f"p({name})" for name in model.graph.classes)]
    rows = labelled = wrong = 0
    with progress("predicting") as show:
        for X, labels, scores in read_batches(model, data, table):
            if rows == 0:
                writer.writerow(header)
            names, chances = model.predict_many(X, scores=scores), model.predict_proba(X, scores)
            writer.writerows(
                [defuse(str(name)), *(f"{chance:.6g}" for chance in row)]
                for name, row in zip(names, chances, strict=True)
            )
            rows += len(names)
            labelled += sum(label != "" for label in labels)
            wrong += sum(label not in ("", str(name)) for name, label in zip(names, labels, strict=False))
            show(rows, None)
    if table.label is None:
        return
    if labelled == 0:
        raise UserError(f"no row of {data} has a label in the column {table.label!r}: omit --label, or correct it")
    gaps = f"; {rows - labelled:,} rows have no label" if labelled < rows else ""
    tell(f"{wrong:,} of {labelled:,} predictions differ from the labels ({wrong / labelled:.4f}){gaps}")


def read_rows(model: gp.Online, data: str, table: TableOptions) -> Iterator[tuple[Any, Any]]:
    """Yield the rows of a file one at a time, as the model takes them, with their scores where columns have them."""
    if model.encoder is None:
        for X, _, _ in read_batches(model, data, table):
            for first, last in itertools.pairwise(X.indptr.tolist()):
                yield (X.indices[first:last], X.data[first:last]), None
        return
    for block, encoder, _, scores in read_blocks(model, data, table):
        model.encoder = encoder
        for place, record in enumerate(block.records()):
            yield record, None if scores is None else scores[place]


def read_batches(model: gp.Online, data: str, table: TableOptions) -> Iterator[tuple[Any, list[str], Floats | None]]:
    """Yield some encoded rows at a time, their labels where a column has them, empty where there is none, and their
    scores where columns have them.
    """
    from scipy.sparse import csr_array

    from gappletron.data.formats import SVMLIGHT, find_ending
    from gappletron.kernel.types import MOST_NARROW

    label, columns = table.label, table.score_columns
    if model.encoder is None:
        is_svmlight = table.format in (None, SVMLIGHT.name) and find_ending(data) in (None, SVMLIGHT)
        if label is not None or columns is not None or not is_svmlight:
            raise UserError(
                "the model was made without an encoder, so it takes svmlight files only, without --label and --scores"
            )
        features = model.fixed_features or MOST_NARROW
        for chunk in gp.SvmlightFile(data, features=features, classes=(0, 1)).rows():
            yield csr_array((chunk.values, chunk.indices, chunk.indptr), (len(chunk.indptr) - 1, features)), [], None
        return
    for block, encoder, labels, scores in read_blocks(model, data, table):
        yield encoder.vectors(block), labels, scores


def read_blocks(
    model: gp.Online, data: str, table: TableOptions
) -> Iterator[tuple[Any, gp.Encoder, list[str], Floats | None]]:
    """Yield the rows of a table by blocks, each with the encoder for its columns, its labels and its scores."""
    from gappletron.data.tables import find_kinds, find_labels, order_columns, read_scores, read_table

    assert model.encoder is not None
    label, columns = table.label, table.score_columns
    ordered = [] if columns is None else order_columns(columns, model.graph.classes)
    aside = [*ordered, *([] if label is None else [label])]
    encoder, rows = model.encoder.declaring(dict.fromkeys(aside, "drop")), 0
    wanted = {name for name, kind in encoder.kinds.items() if kind != "drop"}
    for number, block in enumerate(read_table(data, table.format, table.column_names)):
        here = block.names()
        if number == 0:
            if wanted and wanted.isdisjoint(here):
                raise UserError(
                    f"{data} has none of the model's columns {listing(sorted(wanted))}: name its columns so, or use "
                    "--columns where it has no header"
                )
            encoder = encoder.declaring(find_kinds(block, encoder))  # of columns that are new
        for name in aside if block.has_header else ():
            if name not in here:
                raise unknown(name, f"column in {data} called", here)
        scores = read_scores(block, ordered, data, rows) if ordered else None
        labels = [] if label is None else find_labels(block, label).texts()
        yield block, encoder, labels, scores
        rows += len(block.rows)
