"""Streams of rounds (x, y): synthetic data, arrays, files and pipes, all in the same chunks.

:func:`open_stream` makes a stream from a name, a path or arrays; the classes can also be used directly.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gappletron._validate import UserError
from gappletron.streams.adversarial import FreshFeatures, Segments
from gappletron.streams.stream import CHUNK, ArrayStream, Chunk, Stream, digits, limited, trusted
from gappletron.streams.svmlight import SvmlightFile
from gappletron.streams.synthetic import Synthetic
from gappletron.streams.transform import transformed
from gappletron.streams.unit_vectors import UnitVectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "CHUNK",
    "ArrayStream",
    "Chunk",
    "FreshFeatures",
    "Segments",
    "Stream",
    "SvmlightFile",
    "Synthetic",
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
}
"""The streams that are generated from a few numbers, by the first word of their names."""


def open_stream(
    data: Any,
    *,
    features: int | None = None,
    classes: Iterable[Any] | None = None,
    max_norm: float | None = None,
    rounds: int | None = None,
    normalize: str | None = "none",
    bias: bool = False,
) -> Stream:
    """The stream that `data` names: ``"synthetic:K=9,d=120,..."``, ``"digits"``, a path, ``"-"``, a pair (X, y) or a
    Stream.

    `features` and `max_norm` are for files and pipes, `classes` for these and for arrays. At most `rounds` rounds are
    played. `normalize` and `bias` are those of :func:`transformed`. (A file that is called digits is ``"./digits"``.)

    >>> from gappletron.streams import open_stream
    >>> open_stream("synthetic:K=6,d=80,seed=1", rounds=500).rounds
    500
    >>> open_stream("digits", normalize="unit", bias=True).features
    65
    >>> open_stream(([[0, 1], [1, 0]], ["ham", "spam"])).classes
    ('ham', 'spam')
    """
    stream: Stream
    unused: dict[str, Any] = {"features": features, "classes": classes, "max_norm": max_norm}
    if isinstance(data, Stream):
        stream = trusted(data)
    elif isinstance(data, tuple):
        if len(data) != 2:
            raise UserError(f"expected a pair (X, y), not a tuple of {len(data)}: give the rows and their labels")
        stream = ArrayStream(*data, classes=unused.pop("classes"))
    elif isinstance(data, str) and data == "digits":
        stream = digits()
    elif isinstance(data, str) and data.partition(":")[0] in MADE:
        kind, _, spec = data.partition(":")
        stream = MADE[kind](spec)
    elif isinstance(data, str | os.PathLike):
        stream = SvmlightFile(data, rounds=rounds, **unused)
        unused, rounds = {}, None
    else:
        raise UserError(
            f"a {type(data).__name__} is not a stream: give a path, 'digits', 'synthetic:K=9,d=120', a pair (X, y) "
            "or a Stream"
        )
    for name, value in unused.items():
        if value is not None:
            raise UserError(f"{name}= is only for files, and {stream.name} is not one: omit it")
    if rounds is not None:
        stream = limited(stream, rounds)
    return transformed(stream, normalize, bias)
