"""What a journal says of how its model was made, and with which versions."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from gappletron.base.errors import UserError
from gappletron.base.text import LETTERS_SHOWN, make_printable, shorten
from gappletron.base.version import __version__
from gappletron.kernel.spelling import decode_piece, encode_piece
from gappletron.learners.registry import find_learner
from gappletron.play.saved import graph_document


def find_versions() -> dict[str, str]:
    """Return the versions on which the last bits of a number may depend."""
    import numba

    return {
        "gappletron": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
    }


def describe_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model as JSON has them."""
    return json.loads(json.dumps({name: _plain(name, value) for name, value in options.items()}))


def _plain(name: str, value: Any) -> Any:
    """Return one argument as a plain value; what has no such form is told by its text."""
    if name == "graph":
        return graph_document(value)
    if name == "learner":
        return encode_piece(find_learner(value))
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    try:
        return encode_piece(value)
    except (UserError, TypeError, AttributeError):
        return repr(value)


def check_settings(where: str, made: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse arguments that are not those that a model was made with."""
    for name, value in describe_settings(given).items():
        if name not in made:
            raise UserError(f"{name} was given, and nothing is known of it in {where!r}: omit it")
        if made[name] != value:
            difference = _difference(name, made[name], value)
            raise UserError(
                f"the model in {where!r} was made with another value of {name} ({difference}): omit it, or use another "
                "folder"
            )


def _difference(name: str, old: Any, new: Any) -> str:
    """In what two values of an argument differ, in short.

    >>> _difference("encoder", {"text": ["message"], "features": 64}, {"text": ["subject"], "features": 64})
    "text ['message'], not ['subject']"
    >>> _difference("seed", 0, 1)
    '0, not 1'
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return f"{_shown(old)}, not {_shown(new)}"
    if name == "learner" and _learner_name(old) != _learner_name(new):
        return f"{_learner_name(old)!r}, not {_learner_name(new)!r}"
    path = []
    while isinstance(old, dict) and isinstance(new, dict):
        # The first parts of a graph say more of it than what follows from them.
        part = next(part for part in (*FIRST, *old, *new) if old.get(part) != new.get(part))
        path.append(part)
        old, new = old.get(part), new.get(part)
    where = ".".join(path)
    return f"other {where}" if where in MATRICES else f"{where} {_shown(old)}, not {_shown(new)}"


FIRST = ("piece", "name", "classes", "actions", "edges", "costs")
MATRICES = ("edges", "costs")
"""Parts of a graph that are too large to be shown."""


def _learner_name(data: dict[str, Any]) -> str:
    """What a learner is called; the name of its class where that is not known here, since it is one of a user."""
    try:
        return str(decode_piece(data).name)
    except (UserError, AttributeError):
        return str(data.get("piece"))


def _shown(value: Any) -> str:
    return shorten(make_printable(repr(value)), LETTERS_SHOWN)
