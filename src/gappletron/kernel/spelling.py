"""Pieces as text and as JSON."""

import math
from typing import Any, TypeVar

from gappletron.base.errors import UserError
from gappletron.base.text import check_settings, read_numbers, to_kebab_case, unknown
from gappletron.kernel.pieces import Piece, package_pieces

P = TypeVar("P", bound=Piece)


def read_piece(family: type[Piece], text: str, kind: str) -> Any:
    """Return the piece that a text names, one of the family's own package, with its default numbers or those given.

    >>> from gappletron import Exploration, Optimizer
    >>> read_piece(Optimizer, "projected-ogd:radius=5", "optimizer")
    ProjectedOGD(radius=5.0)
    >>> read_piece(Exploration, "paper", "exploration rule")
    Paper(gamma=1.0)
    """
    package = family.__module__.rpartition(".")[0]
    members = {
        to_kebab_case(name): cls
        for name, cls in package_pieces.items()
        if issubclass(cls, family) and cls.__module__.startswith(f"{package}.")
    }
    name, given = read_numbers(text)
    if name not in members:
        raise unknown(name, kind, sorted(members))
    return set_numbers(members[name](), given, text)


def set_numbers(piece: P, given: dict[str, int | float], text: str) -> P:
    """Return the piece with these numbers in place of its own or of its parts'; `text` is where they come from.

    >>> from gappletron import FixedOGD
    >>> set_numbers(FixedOGD(), {"rate": 2}, "fixed-ogd:rate=2")
    FixedOGD(rate=2.0, radius=inf)
    """
    names = _list_numbers(piece)
    check_settings(given, [name for name in names if names.count(name) == 1], text)
    return piece.replace(**given)


def _list_numbers(piece: Piece) -> list[str]:
    """Return the names of the numbers of a piece and of the pieces in it, each as often as it occurs."""
    return [
        name
        for field, value in piece._asdict().items()
        for name in (_list_numbers(value) if isinstance(value, Piece) else [field] if isinstance(value, float) else [])
    ]


def encode_piece(piece: Piece) -> dict[str, Any]:
    """Return a piece as plain data with the name of its class, for JSON, run ids and files.

    >>> from gappletron import FixedOGD
    >>> encode_piece(FixedOGD(rate=2))
    {'piece': 'FixedOGD', 'rate': 2.0, 'radius': inf}
    """
    plain = {key: encode_piece(value) if isinstance(value, Piece) else value for key, value in piece._asdict().items()}
    return {"piece": type(piece).__name__, **plain}


def to_json(value: Any) -> Any:
    """Return an encoded piece as JSON can hold it, which has no infinity: an infinite radius is written as text.

    >>> to_json({"radius": math.inf, "rate": 0.5})
    {'radius': 'inf', 'rate': 0.5}
    """
    if isinstance(value, dict):
        return {key: to_json(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def decode_piece(data: dict[str, Any], own: tuple[type[Piece], ...] = ()) -> Any:
    """Return the piece that :func:`encode_piece` wrote; `own` are classes from outside the package that may be in it.

    An infinite number may be the text that :func:`to_json` makes of it.

    >>> decode_piece({'piece': 'FixedOGD', 'rate': 2.0, 'radius': 3.0})
    FixedOGD(rate=2.0, radius=3.0)
    """
    known = {**package_pieces, **{cls.__name__: cls for cls in own}}
    name = data["piece"]
    if name not in known:
        raise UserError(f"it uses the component {name!r}, which is not part of gappletron: pass its class in pieces=")
    values = {key: decode_piece(value, own) if isinstance(value, dict) else value for key, value in data.items()}
    values = {key: float(value) if value in ("inf", "-inf") else value for key, value in values.items()}
    del values["piece"]
    return known[name](**values)
