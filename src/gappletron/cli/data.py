"""What the commands that read data share: the options that say what a file holds, and opening it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.cli.output import tell

if TYPE_CHECKING:
    from pathlib import Path

    from gappletron.data.records.encoder import Encoder
    from gappletron.data.stream import Stream
    from gappletron.online.model import Online

Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="Tables: the column of the labels.")]
Text = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Tables: a column of text, whose words are features; repeatable."),
]
Numeric = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Tables: a column of numbers; repeatable.")]
Categorical = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Tables: a column of categories, also where they are numbers; repeatable."),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Tables: a column to ignore; repeatable.")]
Format = Annotated[
    str | None,
    typer.Option(
        help="csv, tsv, jsonl, parquet, vw or svmlight. Default: by the end of the file's name, or by its first line."
    ),
]
Columns = Annotated[
    str | None, typer.Option(metavar="NAMES", help="CSV and TSV without a header: the names, as in label,message.")
]


class Table(NamedTuple):
    """What was said of a table."""

    label: str | None = None
    text: list[str] | None = None
    numeric: list[str] | None = None
    categorical: list[str] | None = None
    drop: list[str] | None = None
    format: str | None = None
    columns: str | None = None

    @property
    def names(self) -> list[str] | None:
        """The names of the columns, where they were given."""
        return None if self.columns is None else [name.strip() for name in self.columns.split(",")]

    def arguments(self, encoder: Encoder | None = None) -> dict[str, Any]:
        """For :func:`gappletron.open_stream`; the encoder of a saved model takes the place of the columns' kinds."""
        kinds = {kind: getattr(self, kind) or () for kind in ("text", "numeric", "categorical", "drop")}
        return {
            "label": self.label,
            "format": self.format,
            "columns": self.names,
            "encoder": encoder,
            **kinds,
        }


def show_columns(stream: Stream) -> None:
    """Say, on the standard error, what the columns of a table were taken for."""
    encoder, label = stream.encoder, stream.label
    if encoder is None:
        return
    parts = [
        f"{kind}: {', '.join(names)}"
        for kind in ("text", "numeric", "categorical", "drop")
        if (names := [name for name in getattr(encoder, kind) if name != label])
    ]
    if label in encoder.drop:
        parts.insert(0, f"label: {label}")
    if parts:
        tell(f"columns: {'; '.join(parts)}")


def opened(data: str, table: Table, options: dict[str, Any], model: Online | None = None) -> Stream:
    """The stream, ready to be played; with a model, encoded as the model does it."""
    from gappletron.data.open import open_stream

    if model is None:
        stream = open_stream(data, **table.arguments(), **options)
    elif model.encoder is None:
        stream = open_stream(
            data, **table.arguments(), **{**options, "features": options["features"] or model.features}
        )
    else:
        if any((table.text, table.numeric, table.categorical, table.drop, options["features"])):
            raise UserError(
                "the model has its own columns: omit --text, --numeric, --categorical, --drop and --features"
            )
        stream = open_stream(data, **table.arguments(model.encoder), **options)
    with progress("reading") as show:
        stream.prepare(show)
    if model is not None and model.encoder is None and stream.encoder is not None:
        raise UserError(
            f"{stream.name} is a table, and the model was made without an encoder: it takes svmlight files, or rows of "
            "numbers in Python"
        )
    if model is not None and model.encoder is not None:
        model.encoder = stream.encoder  # columns that are new have a kind from now on
    show_columns(stream)
    return stream


def loaded(path: Path, fixed: dict[str, Any]) -> Online:
    """A saved model; options that it has values for cannot be given again."""
    from gappletron.online.model import Online

    given = [f"--{name}" for name, value in fixed.items() if value is not None]
    if given:
        raise UserError(f"{given[0]} was given, and the model of {str(path)!r} has its own: omit it")
    return Online.load(path)
