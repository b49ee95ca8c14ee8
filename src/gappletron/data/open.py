"""Streams of rounds (x, y) by name: generated data, arrays, records, files and pipes.

:func:`open_stream` makes a stream from a name, a path or arrays. To add a stream that is generated from a few numbers,
write a :class:`~gappletron.data.synthetic.GeneratedStream` and put it into :data:`GENERATED`; to add a format of files,
see :mod:`gappletron.data.formats`.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from gappletron.base.errors import UserError
from gappletron.base.text import listing
from gappletron.data.adversarial import FreshFeatures, FreshThenSegments, Segments
from gappletron.data.arrays import ArrayStream, load_digits
from gappletron.data.formats import SVMLIGHT, find_format, refuse_svmlight
from gappletron.data.records.encoder import Encoder
from gappletron.data.sources import Source
from gappletron.data.stream import FirstRounds, Stream, check_stream
from gappletron.data.svmlight import SvmlightFile
from gappletron.data.synthetic import GeneratedStream, Synthetic, UnitVectors
from gappletron.data.tables import RecordStream, TableFile, are_records
from gappletron.data.transform import transform

# The streams that are generated from a few numbers, by the first word of their names.
GENERATED: dict[str, type[GeneratedStream]] = {
    one.kind: one for one in (Synthetic, UnitVectors, Segments, FreshFeatures, FreshThenSegments)
}


def open_stream(  # noqa: PLR0912 - what is given decides, one form after the other
    data: Any,
    *,
    label: str | None = None,
    text: str | Iterable[str] = (),
    numeric: str | Iterable[str] = (),
    categorical: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    names: bool = False,
    scores: Mapping[Any, str] | None = None,
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
    """Return the stream that `data` names: a file's path, ``"-"`` for the standard input, a pair of rows and labels, a
    Stream, ``"digits"`` or ``"synthetic:K=9,d=120,..."`` (see :data:`GENERATED`).

    :param label: for tables, the column of the labels.
    :param text: for tables, columns of text; likewise `numeric`, `categorical` and `drop`. The kinds of other columns
        are found in the first block: see :class:`TableFile`.
    :param names: for tables and records, keep the names of features, as :class:`~gappletron.Encoder` does it.
    :param scores: for tables, the column that holds the score of each class, by the class (:class:`TableFile`).
    :param encoder: for tables and records, in place of these five.
    :param format: the name of one of :data:`gappletron.data.formats.FORMATS`; by default by the end of the file's name,
        or else by its first line.
    :param columns: the names of the columns of a CSV file without a header.
    :param features: of a svmlight file or pipe; for tables, the number that everything is hashed into.
    :param classes: the labels, where they should not be found in the data.
    :param rounds: at most so many are played.
    :param normalize: with `bias`, that of :func:`gappletron.data.transform.transform`.

    The rows of a pair are an array, a sparse matrix or a frame of numbers; or records: a frame that has other columns,
    a list of dicts or of texts. (A file that is called digits is ``"./digits"``.)

    >>> from gappletron import open_stream
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
    kinds: dict[str, Any] = {"text": text, "numeric": numeric, "categorical": categorical, "drop": drop}
    required: tuple[str, ...] = ()
    if any(kinds.values()) or names:
        if encoder is not None:
            raise UserError("columns were given beside an encoder, which has its own: give one of the two")
        encoder = Encoder(**kinds, names=names)
        required = tuple(encoder.kinds)
    options: dict[str, Any] = {"label": label, "columns": columns, "encoder": encoder, "scores": scores}
    options |= {"format": format, "features": features, "max_norm": max_norm, "classes": classes}
    if isinstance(data, Stream):
        stream = check_stream(data)
    elif isinstance(data, tuple):
        if len(data) != 2:
            raise UserError(f"expected a pair (X, y), not a tuple of {len(data)}: give the rows and their labels")
        del options["encoder"], options["classes"]
        if encoder is not None or are_records(data[0]):
            stream = RecordStream(*data, encoder=encoder, classes=classes)
        else:
            stream = ArrayStream(*data, classes=classes)
    elif isinstance(data, str) and data == "digits":
        stream = load_digits()
    elif isinstance(data, str) and data.partition(":")[0] in GENERATED:
        kind, _, spec = data.partition(":")
        stream = GENERATED[kind].parse(spec)
    elif isinstance(data, str | os.PathLike):
        stream = _open_file(data, options, required)
        options = {}
    else:
        known = listing(f"{kind}:{one.example}" for kind, one in GENERATED.items())
        cure = f"give a path, a pair (X, y), a Stream, 'digits', or one of {known}"
        raise UserError(f"a {type(data).__name__} is not a stream: {cure}")
    for name, value in options.items():
        if value is not None:
            raise UserError(f"{name}= is only for files, and {stream.name} is not one: omit it")
    stream = transform(stream, normalize, bias)
    return stream if rounds is None else FirstRounds(stream, rounds)


def _open_file(path: str | os.PathLike[str], options: dict[str, Any], required: tuple[str, ...]) -> Stream:
    """Open a table or a svmlight file; its format is the one given, or told by its name or its first line."""
    source, format, features = Source(path), options.pop("format"), options.pop("features")
    is_table = any(options[name] is not None for name in ("label", "columns", "encoder", "scores"))
    found = find_format(source, format, is_table)
    if found is SVMLIGHT:
        if is_table:
            refuse_svmlight(source)
        return SvmlightFile(path, features=features, classes=options["classes"], max_norm=options["max_norm"])
    if features is not None:
        columns = {} if options["encoder"] is None else options["encoder"].to_dict()
        options["encoder"] = Encoder.from_dict(columns | {"features": features})
    return TableFile(path, format=found.name, required=required, **options)
