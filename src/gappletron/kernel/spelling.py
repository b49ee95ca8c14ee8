"""Learners, exploration rules, optimizers, streams and graphs as text, and pieces as JSON.

A text is a name that may be followed by settings, ``name:key=value,key=value``. :func:`split` is the only parser of it,
so all of them are written in the same way and have the same error messages. Costs, ``action,class=number``, have names
of the user's own in them, so :func:`costs` looks for these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from gappletron.base.checks import Label, listing, shortened, unknown
from gappletron.base.errors import UserError
from gappletron.kernel.pieces import Piece

__all__ = [
    "class_names",
    "costs",
    "in_kebab_case",
    "json_ready",
    "named_numbers",
    "parsed",
    "rebuilt",
    "settings",
    "spelled",
    "split",
    "with_numbers",
]

P = TypeVar("P", bound="Piece")

MOST_CLASSES = 10_000

# ----------------------------------------------------------------------------------------------------------------- text


def split(text: str) -> tuple[str, dict[str, str]]:
    """The name and the settings of a text.

    >>> split("filtering:revealing=ham"), split("digits")
    (('filtering', {'revealing': 'ham'}), ('digits', {}))
    >>> split("ada-grad:rate")
    Traceback (most recent call last):
        ...
    gappletron.UserError: expected key=value in 'ada-grad:rate', not 'rate': write for example ada-grad:rate=1
    """
    name, _, rest = text.partition(":")
    given: dict[str, str] = {}
    for entry in rest.split(",") if rest.strip() else ():
        key, equals, value = (part.strip() for part in entry.partition("="))
        if not (key and equals):
            raise UserError(
                f"expected key=value in {shown(text)}, not {shown(entry)}: write for example "
                f"{shortened(name)}:{shortened(key or 'key')}=1"
            )
        if key in given:
            raise UserError(f"{shown(text)} sets {shown(key)} twice: keep one")
        given[key] = value
    return name, given


def named_numbers(text: str) -> tuple[str, dict[str, int | float]]:
    """The name and the settings of a text whose settings are numbers; whole ones are ints, so that T=1e6 is one.

    >>> named_numbers("synthetic:noise=0.05,T=1e6")
    ('synthetic', {'noise': 0.05, 'T': 1000000})
    """
    name, given = split(text)
    return name, {key: _number(value, key, text) for key, value in given.items()}


def check_settings(given: Iterable[str], known: Sequence[str], text: str) -> None:
    """Raise UserError for a setting that does not exist.

    >>> check_settings({"rate": 1.0}, ["rate", "radius"], "fixed-ogd:rate=1")
    """
    for key in given:
        if not known:
            raise UserError(f"{shown(text)} sets {shown(key)}, but there is nothing to set: omit it")
        if key not in known:
            raise UserError(f"{shown(text)}: {unknown(shortened(key), 'setting', known)}")


def settings(spec: str, kind: str, keys: dict[str, str], example: str, needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """The numbers of the stream ``kind:spec``, by the names of the arguments that they are for.

    >>> settings("K=6,T=1e6", "synthetic", {"K": "classes", "T": "rounds"}, "K=9,T=100000")
    {'classes': 6, 'rounds': 1000000}
    """
    text = f"{kind}:{spec}"
    given = named_numbers(text)[1]
    check_settings(given, list(keys), text)
    missing = [key for key in needed if key not in given]
    if missing:
        raise UserError(f"{shown(text)} needs {listing(missing)}: write for example {kind}:{example}")
    return {keys[key]: value for key, value in given.items()}


def class_names(text: str) -> tuple[Label, ...]:
    """The classes of a text: 0 to K-1 for a number K, else names separated by commas.

    >>> class_names("3"), class_names("spam,ham")
    ((0, 1, 2), ('spam', 'ham'))
    """
    if not (text.isascii() and text.isdigit()):
        return tuple(text.split(","))
    if len(text) > len(str(MOST_CLASSES)) or not 2 <= int(text) <= MOST_CLASSES:
        raise UserError(f"{shown(text)} is not a number of classes: choose 2 to {MOST_CLASSES}")
    return tuple(range(int(text)))


EVERY_CLASS = "*"


def costs(text: str, actions: Sequence[Label], classes: Sequence[Label]) -> list[tuple[Label, Label, float]]:
    """The costs of a text ``ACTION,CLASS=NUMBER``, as (action, class, number); ``*`` for every class.

    Names may contain commas and equals signs, as long as only one action and one class fit.

    >>> costs("spam,ham=10", ["ham", "spam"], ["ham", "spam"])
    [('spam', 'ham', 10.0)]
    >>> costs("query,*=0.1", [0, 1, "query"], [0, 1])
    [('query', 0, 0.1), ('query', 1, 0.1)]
    """
    names, equals, value = text.rpartition("=")
    pieces = names.split(",")
    if not equals or len(pieces) < 2:
        raise UserError(f"expected ACTION,CLASS=NUMBER, not {shown(text)}: write for example spam,ham=10")
    try:
        cost = float(value)
    except ValueError:
        raise UserError(
            f"{shown(value)} in {shown(text)} is not a number: write for example {shown(names)[1:-1]}=10"
        ) from None
    by_action, by_class = _by_text(actions), _by_text(classes)
    if EVERY_CLASS not in by_class:
        by_class[EVERY_CLASS] = tuple(classes)
    splits = [(",".join(pieces[:at]), ",".join(pieces[at:])) for at in range(1, len(pieces))]
    for pairs in (splits, [(first.strip(), second.strip()) for first, second in splits]):
        fitting = [pair for pair in pairs if pair[0] in by_action and pair[1] in by_class]
        if len(fitting) > 1:
            ways = " or ".join(f"{shown(first)} and {shown(second)}" for first, second in fitting[:2])
            raise UserError(
                f"{shown(text)} may mean the action and the class {ways}: write these costs in a graph file, as "
                '"costs": [[action, class, number]]'
            )
        if fitting:
            (action,), meant = by_action[fitting[0][0]], by_class[fitting[0][1]]
            return [(action, name, cost) for name in meant]
    known = next((pair for pair in splits if pair[0].strip() in by_action), None)
    if known is None:
        raise UserError(f"{shown(text)}: {unknown(splits[0][0].strip(), 'action', list(actions))}")
    raise UserError(f"{shown(text)}: {unknown(known[1].strip(), 'class', list(classes))}")


def _by_text(names: Sequence[Label]) -> dict[str, tuple[Label, ...]]:
    """Names by their texts; of two with the same text, such as 1 and "1", the text itself is meant."""
    return {str(name): (name,) for name in sorted(names, key=lambda name: isinstance(name, str))}


def in_kebab_case(name: str) -> str:
    """The name of a Python class as texts write it.

    >>> in_kebab_case("ScaleFreeFTRL"), in_kebab_case("TopUp")
    ('scale-free-ftrl', 'top-up')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def shown(text: str) -> str:
    """A text in quotes, shortened.

    >>> shown("bandit")
    "'bandit'"
    """
    return repr(shortened(text, 80))


def _number(value: str, key: str, text: str) -> int | float:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        result = float(value)
    except ValueError:
        if key in ("exploration", "optimizer"):
            raise UserError(
                f"{key}={shortened(value)} in {shown(text)} is not a number: give the piece as --{key} "
                f"{shortened(value)}, or in Python make the learner with {key}=..."
            ) from None
        raise UserError(
            f"{key}={shortened(value)} in {shown(text)} is not a number: write for example {key}=1"
        ) from None
    return int(result) if result.is_integer() else result


# --------------------------------------------------------------------------------------------------------------- pieces


def parsed(family: type[Piece], text: str, kind: str) -> Any:
    """The piece that a text names, of those defined beside their family, with its default numbers or those given.

    >>> from gappletron import Exploration, Optimizer
    >>> parsed(Optimizer, "projected-ogd:radius=5", "optimizer")
    ProjectedOGD(radius=5.0)
    >>> parsed(Exploration, "paper", "exploration rule")
    Paper(gamma=1.0)
    """
    from gappletron.kernel.pieces import package_pieces

    home = ".".join(
        family.__module__.split(".")[:2]
    )  # gappletron.learners.optimizers, or the package gappletron.learners.exploration
    members = {
        in_kebab_case(name): cls
        for name, cls in package_pieces.items()
        if issubclass(cls, family) and f"{cls.__module__}.".startswith(f"{home}.")
    }
    name, given = named_numbers(text)
    if name not in members:
        raise unknown(name, kind, sorted(members))
    return with_numbers(members[name](), given, text)


def with_numbers(piece: P, given: dict[str, int | float], text: str) -> P:
    """`piece` with these numbers in place of its own, or of those of the pieces in it; `text` is where they come from.

    >>> from gappletron import FixedOGD
    >>> with_numbers(FixedOGD(), {"rate": 2}, "fixed-ogd:rate=2")
    FixedOGD(rate=2.0, radius=inf)
    """
    names = _numbers_of(piece)
    check_settings(given, [name for name in names if names.count(name) == 1], text)
    return piece.replace(**given)


def _numbers_of(piece: Piece) -> list[str]:
    """The names of the numbers of a piece and of the pieces in it, each as often as it occurs."""
    return [
        name
        for field, value in piece._asdict().items()
        for name in (_numbers_of(value) if _is_piece(value) else [field] if isinstance(value, float) else [])
    ]


def _is_piece(value: Any) -> bool:
    return isinstance(value, tuple)  # a piece is a tuple of numbers and other pieces


# ----------------------------------------------------------------------------------------------------------------- JSON


def spelled(piece: Piece) -> dict[str, Any]:
    """A piece as plain data with the name of its class, for JSON, run ids and files.

    >>> from gappletron import FixedOGD
    >>> spelled(FixedOGD(rate=2))
    {'piece': 'FixedOGD', 'rate': 2.0, 'radius': inf}
    """
    plain = {key: spelled(value) if _is_piece(value) else value for key, value in piece._asdict().items()}
    return {"piece": type(piece).__name__, **plain}


def json_ready(value: Any) -> Any:
    """A spelled piece as JSON can hold it, which has no infinity: an infinite radius is written as text.

    >>> json_ready({"radius": math.inf, "rate": 0.5})
    {'radius': 'inf', 'rate': 0.5}
    """
    if isinstance(value, dict):
        return {key: json_ready(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def from_json(value: Any) -> Any:
    """What :func:`json_ready` was given: the texts that it wrote for infinite numbers are numbers again.

    >>> from_json({"piece": "FixedOGD", "radius": "inf", "rate": 0.5})
    {'piece': 'FixedOGD', 'radius': inf, 'rate': 0.5}
    """
    if isinstance(value, dict):
        return {key: from_json(entry) for key, entry in value.items()}
    return float(value) if value in ("inf", "-inf") else value


def rebuilt(data: dict[str, Any], own: tuple[type[Piece], ...] = ()) -> Any:
    """The piece that :func:`spelled` wrote; `own` are classes from outside the package that it may be made of.

    >>> rebuilt({'piece': 'FixedOGD', 'rate': 2.0, 'radius': 3.0})
    FixedOGD(rate=2.0, radius=3.0)
    """
    from gappletron.kernel.pieces import package_pieces

    known = {**package_pieces, **{cls.__name__: cls for cls in own}}
    name = data["piece"]
    if name not in known:
        raise UserError(f"it uses the piece {name!r}, which is not part of gappletron: pass its class in pieces=")
    return known[name](
        **{
            key: rebuilt(value, own) if isinstance(value, dict) else value
            for key, value in data.items()
            if key != "piece"
        }
    )


def pieces_of(value: Any) -> tuple[type[Piece], ...]:
    """The classes of a piece and of the pieces that it is made of; none for other values.

    >>> from gappletron import AdaGrad, Gappletron
    >>> [cls.__name__ for cls in pieces_of(Gappletron(optimizer=AdaGrad()))]
    ['Gappletron', 'SmoothHinge', 'AdaGrad', 'TopUp']
    >>> pieces_of("auto")
    ()
    """
    if not _is_piece(value):
        return ()
    return (type(value), *(cls for part in value for cls in pieces_of(part)))
