"""What a journal says of how its model was made, and with which versions."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from gappletron._validate import UserError, printable
from gappletron._version import __version__
from gappletron.model_files import graph_document
from gappletron.player import learner_of
from gappletron.spelling import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_settings", "settings_of", "versions"]


def versions() -> dict[str, str]:
    """The versions on which the last bits of a number may depend."""
    import numba

    return {
        "gappletron": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
    }


def settings_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a model as plain values, ready for JSON."""
    return {name: _plain(name, value) for name, value in options.items()}


def _plain(name: str, value: Any) -> Any:
    """One argument as a plain value; what has no such form is told by its text."""
    if name == "graph":
        return graph_document(value)
    if name == "learner":
        return spelled(learner_of(value))
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    try:
        return spelled(value)
    except (UserError, TypeError, AttributeError):
        return repr(value)


def check_settings(where: str, made: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse arguments that are not those that a model was made with."""
    for name, value in settings_of(given).items():
        if name not in made:
            raise UserError(f"{name} was given, and nothing is known of it in {where!r}: omit it")
        if _comparable(made[name]) != _comparable(value):
            shown = "another one" if isinstance(made[name], dict) else printable(repr(made[name]))
            raise UserError(
                f"{name} is not what the model in {where!r} was made with, which is {shown}: omit it, or use another "
                "folder"
            )


def _comparable(value: Any) -> Any:
    """Lists for tuples, as JSON has it."""
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    return value
