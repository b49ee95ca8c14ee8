"""Streams of rounds (x, y): synthetic data, arrays, files and pipes, all in the same chunks.

:func:`open_stream` makes a stream from a name, a path or arrays; the classes can also be used directly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from gappletron.base.errors import UserError
from gappletron.data.adversarial import FreshFeatures, FreshThenSegments, Segments
from gappletron.data.readers import SVMLIGHT, Source, format_of
from gappletron.data.records.encoder import Encoder
from gappletron.data.stream import CHUNK, ArrayStream, Chunk, Stream, digits, limited, trusted
from gappletron.data.svmlight import SvmlightFile
from gappletron.data.synthetic import Synthetic
from gappletron.data.tables import RecordStream, TableFile, are_records, sniffed_format
from gappletron.data.transform import transformed
from gappletron.data.unit_vectors import UnitVectors

__all__ = [
    "CHUNK",
    "ArrayStream",
    "Chunk",
    "FreshFeatures",
    "FreshThenSegments",
    "RecordStream",
    "Segments",
    "Stream",
    "SvmlightFile",
    "Synthetic",
    "TableFile",
    "UnitVectors",
    "digits",
    "limited",
    "open_stream",
    "transformed",
]


MADE: dict[str, Callable[[str], Stream]] = {
    "synthetic": Synthetic.parse,
    "unit-vectors": UnitVectors.parse,
    "segments": Segments.parse,
    "fresh": FreshFeatures.parse,
    "fresh-segments": FreshThenSegments.parse,
}
"""The streams that are generated from a few numbers, by the first word of their names."""


def open_stream(
    data: Any,
    *,
    label: str | None = None,
    text: str | Iterable[str] = (),
    numeric: str | Iterable[str] = (),
    categorical: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    encoder: Encoder | None = None,
    format: str | None = None,
    columns: Iterable[str] | None = None,
    features: int | None = None,
    classes: Iterable[Any] | None = None,
    max_norm: float | None = None,
    rounds: int | None = None,
    normalize: str | None = "none",
    bias: bool = False,
) -> Stream:
    """The stream that `data` names: a file's path, ``"-"`` for the standard input, a pair of rows and labels, a Stream,
    ``"digits"`` or ``"synthetic:K=9,d=120,..."``.

    :param label: for tables, the column of the labels.
    :param text: for tables, columns of text; likewise `numeric`, `categorical` and `drop`. The kinds of other columns
        are found in the first block: see :class:`TableFile`.
    :param encoder: for tables and records, in place of these four.
    :param format: ``"csv"``, ``"tsv"``, ``"jsonl"``, ``"parquet"``, ``"vw"`` or ``"svmlight"``; by default by the end
        of the file's name, or else by its first line.
    :param columns: the names of the columns of a CSV file without a header.
    :param features: of a svmlight file or pipe; for tables, the number that everything is hashed into.
    :param classes: the labels, where they should not be found in the data.
    :param rounds: at most so many are played.
    :param normalize: with `bias`, that of :func:`transformed`.

    The rows of a pair are an array, a sparse matrix or a frame of numbers; or records: a frame that has other columns,
    a list of dicts or of texts. (A file that is called digits is ``"./digits"``.)

    >>> from gappletron.data.open import open_stream
    >>> open_stream("synthetic:K=6,d=80,seed=1", rounds=500).rounds
    500
    >>> open_stream("digits", normalize="unit", bias=True).features
    65
    >>> open_stream(([[0, 1], [1, 0]], ["ham", "spam"])).classes
    ('ham', 'spam')
    >>> open_stream((["see you at five", "win a prize"], ["ham", "spam"])).encoder
    Encoder()
    """
    stream: Stream
    declared = _declared(encoder, text, numeric, categorical, drop)
    required = () if encoder is not None or declared is None else tuple(declared.kinds)
    table = {"label": label, "format": format, "columns": columns}
    unused: dict[str, Any] = {
        "encoder": declared,
        **table,
        "features": features,
        "max_norm": max_norm,
        "classes": classes,
    }
    if isinstance(data, Stream):
        stream = trusted(data)
    elif isinstance(data, tuple):
        if len(data) != 2:
            raise UserError(f"expected a pair (X, y), not a tuple of {len(data)}: give the rows and their labels")
        stream = _pair(*data, unused)
    elif isinstance(data, str) and data == "digits":
        stream = digits()
    elif isinstance(data, str) and data.partition(":")[0] in MADE:
        kind, _, spec = data.partition(":")
        stream = MADE[kind](spec)
    elif isinstance(data, str | os.PathLike):
        stream = _file(os.fsdecode(data), unused, rounds, required)
        unused = {}
    else:
        raise UserError(
            f"a {type(data).__name__} is not a stream: give a path, 'digits', 'synthetic:K=9,d=120', a pair (X, y) "
            "or a Stream"
        )
    for name, value in unused.items():
        if value is not None:
            raise UserError(f"{name}= is only for files, and {stream.name} is not one: omit it")
    if rounds is not None and not isinstance(stream, SvmlightFile):
        stream = limited(stream, rounds)
    return transformed(stream, normalize, bias)


def _declared(encoder: Encoder | None, text: Any, numeric: Any, categorical: Any, drop: Any) -> Encoder | None:
    """The encoder given, or one with these columns; None where nothing is said."""
    if not any((text, numeric, categorical, drop)):
        return encoder
    if encoder is not None:
        raise UserError("columns were given beside an encoder, which has its own: give one of the two")
    return Encoder(text=text, numeric=numeric, categorical=categorical, drop=drop)


def _pair(X: Any, y: Any, options: dict[str, Any]) -> Stream:
    """Rows and labels in memory; what is used of the options is taken out."""
    classes, encoder = options.pop("classes"), options.pop("encoder")
    if encoder is not None or are_records(X):
        return RecordStream(X, y, encoder=encoder, classes=classes)
    return ArrayStream(X, y, classes=classes)


def _file(path: str, options: dict[str, Any], rounds: int | None, required: tuple[str, ...]) -> Stream:
    """A table or a svmlight file."""
    found = options["format"] or format_of(path)
    if found is None:
        name = "standard input" if path == "-" else path
        found = SVMLIGHT if _is_generic(options) else sniffed_format(Source(path, name))
    own = {name: options[name] for name in ("classes", "max_norm")}
    if found == SVMLIGHT:
        for name in ("label", "columns", "encoder"):
            if options[name] is not None:
                raise UserError(
                    f"{path} is read as svmlight, which has no named columns: omit {name}, or name its format "
                    "(--format csv)"
                )
        return SvmlightFile(path, features=options["features"], rounds=rounds, **own)
    encoder = options["encoder"]
    if options["features"] is not None:
        columns = {} if encoder is None else encoder.to_dict()
        encoder = Encoder.from_dict(columns | {"features": options["features"]})
    return TableFile(
        path,
        options["label"],
        format=found,
        encoder=encoder,
        columns=options["columns"],
        required=required,
        **own,
    )


def _is_generic(options: dict[str, Any]) -> bool:
    """Whether nothing that was given speaks of a table."""
    return all(options[name] is None for name in ("label", "columns", "encoder"))
