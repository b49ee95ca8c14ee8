"""``gappletron predict`` and ``gappletron teach``: saved models and files of rows."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.base.text import listing, unknown
from gappletron.cli.data import (
    Categorical,
    Columns,
    Drop,
    Format,
    Label,
    Numeric,
    Table,
    Text,
    loaded,
    opened,
)
from gappletron.cli.graph import NewCost, with_costs
from gappletron.cli.output import STANDARD_OUTPUT, check_outputs, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gappletron.online.model import Online

FILE_HELP = "A file of the kind that the model was made from; '-' for a pipe."


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What --save or Online.save wrote.")],
    data: Annotated[str, typer.Argument(metavar="FILE", help=FILE_HELP)],
    format: Format = None,
    columns: Columns = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Tables: where there are labels, also print the share of wrong predictions."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="PATH", help="The CSV file to write. Default: the standard output.")
    ] = STANDARD_OUTPUT,
) -> None:
    """Predict every row of a file: its class, and the probability of each class, as CSV."""
    from gappletron.base import files

    check_outputs(out, None, inputs=(data, str(model)))
    saved = loaded(model, {})
    table = Table(label=label, format=format, columns=columns)
    if out == STANDARD_OUTPUT:
        _write_predictions(saved, data, table, sys.stdout)
        return
    with files.replacing(out) as file:
        import io

        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        _write_predictions(saved, data, table, text)
        text.detach()


def _write_predictions(model: Online, data: str, table: Table, file: Any) -> None:
    """A header, and a row for each row of the data."""
    writer = csv.writer(file, lineterminator="\n")
    header = ["prediction", *(f"p({name})" for name in model.graph.classes)]
    rows = labelled = wrong = 0
    with progress("predicting") as show:
        for X, labels in _batches(model, data, table):
            if rows == 0:
                writer.writerow(header)
            found, chances = model.player.predict_many(X), model.player.predict_proba(X)
            names = [model.graph.classes[k] for k in found]
            writer.writerows(
                [name, *(f"{chance:.6g}" for chance in row)] for name, row in zip(names, chances, strict=True)
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


def _batches(model: Online, data: str, table: Table) -> Iterator[tuple[Any, list[str]]]:
    """Sparse matrices of some rows at a time, and their labels where a column has them, empty where there is none."""
    from scipy.sparse import csr_array

    from gappletron.data.formats import SVMLIGHT, find_ending
    from gappletron.data.svmlight import SvmlightFile
    from gappletron.data.tables import find_kinds, find_labels, read_table

    if model.encoder is None:
        if (
            table.label is not None
            or table.format not in (None, SVMLIGHT.name)
            or find_ending(data) not in (None, SVMLIGHT)
        ):
            raise UserError("the model was made without an encoder, so it takes svmlight files only, without --label")
        for chunk in SvmlightFile(data, features=model.features, classes=(0, 1)).rows():
            rows = len(chunk.indptr) - 1
            yield csr_array((chunk.values, chunk.indices, chunk.indptr), (rows, model.features)), []
        return
    encoder = model.encoder
    wanted = {name for name, kind in encoder.kinds.items() if kind != "drop"}
    for number, block in enumerate(read_table(data, table.format, table.names)):
        here = [name for record in block for name in record] if isinstance(block, list) else block.schema.names
        if number == 0:
            if wanted and wanted.isdisjoint(here):
                raise UserError(
                    f"{data} has none of the model's columns {listing(sorted(wanted))}: name its columns so, or use "
                    "--columns where it has no header"
                )
            encoder = encoder.declaring(find_kinds(block, encoder))  # of columns that are new
        if table.label is None:
            yield encoder.matrix(block), []
            continue
        if not isinstance(block, list) and table.label not in here:
            raise unknown(table.label, f"column in {data} called", here)
        yield encoder.declaring({table.label: "drop"}).matrix(block), find_labels(block, table.label).texts()


def teach(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved model, or the name of a new one.")],
    data: Annotated[str, typer.Argument(metavar="FILE", help=FILE_HELP)],
    label: Label = None,
    text: Text = None,
    numeric: Numeric = None,
    categorical: Categorical = None,
    drop: Drop = None,
    format: Format = None,
    columns: Columns = None,
    graph: Annotated[
        str | None, typer.Option(help="For a new model: bandit (default), full, filtering, ..., or a FILE.json.")
    ] = None,
    revealing: Annotated[
        str | None,
        typer.Option(help="For a new model on the filtering or apple-tasting graph: the class that reveals."),
    ] = None,
    cost: NewCost = None,
    learner: Annotated[str | None, typer.Option(help="For a new model. Default: auto.")] = None,
    classes: Annotated[
        str | None, typer.Option(help="The labels, as in ham,spam; replaces a scan of the file.")
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="For a new model: the number of features, as in gappletron run.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For a new model: the seed of its draws. Default: 0.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PATH", help="Where to write the model. Default: MODEL itself.")
    ] = None,
) -> None:
    """Learn from a file in which every label is known, without acting: a warm start."""
    from gappletron.data.prepared import prepare_chunks
    from gappletron.graphs.open import find_new_classes, match_classes, open_graph
    from gappletron.online.model import Online
    from gappletron.play.player import Player

    target = out or model
    check_outputs(None, None, target, inputs=(data,))
    table = Table(label, text, numeric, categorical, drop, format, columns)
    options: dict[str, Any] = {"features": features, "classes": None, "max_norm": None, "rounds": None}
    if classes is not None:
        options["classes"] = classes.split(",")
    fixed: dict[str, Any] = {"graph": graph, "revealing": revealing, "cost": cost, "learner": learner, "seed": seed}
    fixed["features"] = features
    if model.exists():
        saved = loaded(model, fixed)
        stream = opened(data, table, options, saved)
        for name in find_new_classes(stream.classes, saved.graph):
            saved.add_class(name)
    else:
        stream = opened(data, table, options)
        feedback = open_graph(graph or "bandit", stream.classes, revealing, classes_given=stream.classes_given)
        rows = "vectors" if stream.encoder is None else "records"
        player = Player(learner or "auto", with_costs(feedback, cost), stream.features, rows=rows, seed=seed or 0)
        saved = Online.from_player(player, stream.encoder)
    if stream.is_open:
        raise UserError(f"{stream.name} is a pipe: name its --classes, or write it to a file first")
    positions = match_classes(stream.classes, saved.graph)
    taught = 0
    with progress("teaching") as show:
        for chunk in prepare_chunks(stream):
            saved.player.teach(chunk if positions is None else chunk.relabelled(positions))
            taught += len(chunk.chunk.labels)
            show(taught, stream.rounds)
    saved.save(target)
    tell(f"{rows:,} rows taught; the model is in {target}")
