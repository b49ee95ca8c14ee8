"""Pieces: the values that losses, optimizers, exploration rules and learners are.

A *piece* is an immutable tuple of numbers and other pieces. Its behaviour is written as ordinary methods; those that
its family marks with :func:`compiled` also run inside compiled loops, where Numba finds them through the class of the
tuple. So pieces compose without a cost per round, and the same source runs interpreted (:func:`gappletron.interpreted`)
to be debugged and compared.
"""

from __future__ import annotations

import functools
import inspect
import operator
import typing
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform

from numba.core import types
from numba.extending import models, overload, overload_method, register_jitable, register_model, typeof_impl

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.kernel.inlined import INNER

F = TypeVar("F", bound="Callable[..., Any]")

# Numbers with bounds, which are arguments of :func:`gappletron.base.checks.number`.
Share = Annotated[float, {"least": 0.0, "most": 1.0}]
Positive = Annotated[float, {"above": 0.0}]
NotNegative = Annotated[float, {"least": 0.0}]
PositiveOrInfinite = Annotated[float, {"above": 0.0, "finite": False}]

# Marks a plain function that compiled methods call; interpreted, it is the function itself.
helper: Callable[[F], F] = register_jitable(**INNER)

# As :data:`helper`, for long functions: copying them to where they are called would take long to compile.
seldom: Callable[[F], F] = register_jitable(**{**INNER, "forceinline": False})


def compiled_by(function: Callable[..., Any]) -> Callable[[F], F]:
    """Decorate what gives, for the types of its arguments, the function that compiled code runs in its place."""
    return overload(function, strict=False, jit_options=INNER)


class CompiledPiece(types.NamedTuple):  # type: ignore[name-defined]
    """A piece as Numba sees it. A type of its own, so that a state may have a field named as some method is."""

    def __bool__(self) -> bool:
        return True  # Numba asks a method call's receiver for its truth, and a piece without fields has length 0


register_model(CompiledPiece)(models.TupleModel)


def compiled(method: F) -> F:
    """Mark a method of an abstract family: every component's version of it also runs inside compiled loops.

    >>> from abc import abstractmethod
    >>> class Schedule(Piece, abstract=True):
    ...     @abstractmethod
    ...     @compiled
    ...     def rate_at(self, t):
    ...         "The rate of round t."
    >>> class Harmonic(Schedule):
    ...     scale: float = 1.0
    ...     def rate_at(self, t):
    ...         return self.scale / t
    >>> Harmonic(2).rate_at(4)
    0.5
    """
    method.__compiled__ = True  # type: ignore[attr-defined]
    return method


_declared: dict[str, tuple[str, ...]] = {}
# The pieces that the package itself defines and that were imported so far, by the names of their classes.
package_pieces: dict[str, Any] = {}


def _declare(method: Callable[..., Any], name: str, owner: str) -> None:
    """Teach Numba that `piece.name(...)` is the method `name` of the piece's class; once for each name."""
    arguments = method.__code__.co_varnames[: method.__code__.co_argcount]
    if name in _declared:
        if arguments != _declared[name]:
            raise UserError(
                f"{owner}.{name} takes ({', '.join(arguments)}), but compiled methods of this name take "
                f"({', '.join(_declared[name])}) in all families: use those names, or choose another one for the method"
            )
        return
    _declared[name] = arguments

    def find(self: Any, *args: Any) -> Any:  # noqa: ARG001 - Numba passes the types of the arguments
        return getattr(self.instance_class, name, None)

    find.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    # strict would also compare annotations, which may differ: a piece names its own state. The metaclass compares the
    # names.
    overload_method(CompiledPiece, name, strict=False, jit_options=INNER)(find)


class PieceType(type):
    """Makes a class statement into a named tuple class, and refuses a piece that its family could not run."""

    _fields: tuple[str, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], abstract: bool = False) -> PieceType:
        if bases == (tuple,):
            return super().__new__(mcs, name, bases, body)
        for base in bases:
            if getattr(base, "_final", False):
                public = next(cls.__name__ for cls in base.__mro__ if Piece in cls.__bases__)
                raise UserError(f"{name} extends {base.__name__}, and a component cannot be extended: extend {public}")
        body.update(__slots__=(), _final=not abstract)
        cls = super().__new__(mcs, name, bases, body)
        if not abstract:
            source = next((base for base in cls.__mro__ if _list_fields(base)), cls)
            fields = _list_fields(source)
            type.__setattr__(cls, "_fields", fields)
            type.__setattr__(cls, "__match_args__", fields)
            kinds, own = inspect.get_annotations(source), vars(source)
            parameters = [
                Parameter(
                    field,
                    Parameter.POSITIONAL_OR_KEYWORD,
                    default=own.get(field, Parameter.empty),
                    annotation=kinds[field],
                )
                for field in fields
            ]
            type.__setattr__(cls, "__signature__", Signature(parameters))
            for place, field in enumerate(fields):
                type.__setattr__(cls, field, property(operator.itemgetter(place), doc=field))
        for key, value in vars(cls).items():
            if any(hasattr(vars(base).get(key), "__compiled__") for base in cls.__mro__):
                _declare(value, key, name)
        if not abstract:
            missing = sorted(key for key in dir(cls) if getattr(getattr(cls, key, None), "__isabstractmethod__", False))
            if missing:
                raise UserError(
                    f"{name} lacks {', '.join(missing)}: a {bases[0].__name__} needs "
                    f"{'it' if len(missing) == 1 else 'them'}"
                )
            if cls.__module__.split(".")[0] == "gappletron":
                package_pieces[name] = cls
        return cls

    def __setattr__(cls, key: str, value: Any) -> None:
        if key in _declared:
            raise UserError(
                f"{cls.__name__}.{key} may be compiled already, and would stay as it was: run the class statement again"
            )
        super().__setattr__(key, value)

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], abstract: bool = False) -> None:
        super().__init__(name, bases, body)


def _list_fields(cls: type) -> tuple[str, ...]:
    annotations = inspect.get_annotations(cls).items()
    return tuple(name for name, kind in annotations if not name.startswith("_") and "ClassVar" not in str(kind))


@dataclass_transform(frozen_default=True)
class Piece(tuple, metaclass=PieceType):  # type: ignore[type-arg]
    """A component: an immutable, picklable tuple of numbers and other components that prints itself.

    A family is declared with ``class Loss(Piece, abstract=True)``; a piece with ``class SmoothHinge(Loss)``, its fields
    annotated ``float``, ``int``, ``bool``, a number with bounds such as ``Positive``, or with a family of pieces. A
    piece without fields of its own has those of the nearest class above it. Numbers are normalised on every way of
    construction, so that ``FixedOGD(1)`` and ``FixedOGD(1.0)`` are one compilation, and pieces of different classes are
    never equal.

    >>> from gappletron import FixedOGD
    >>> FixedOGD(rate=1)
    FixedOGD(rate=1.0, radius=inf)
    >>> FixedOGD(1) == FixedOGD(1.0) == FixedOGD(2).replace(rate=1)
    True
    """

    __slots__ = ()
    _final: ClassVar[bool] = False
    _fields: ClassVar[tuple[str, ...]] = ()
    __signature__: ClassVar[Signature]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if not cls._final:
            raise TypeError(f"{cls.__name__} is a family of components, not a component: use one of its members")
        try:
            given = cls.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}({', '.join(cls._fields)}): {error}") from None
        given.apply_defaults()
        kinds = _find_kinds(cls)
        values = (_normalise(value, kinds[f], f"{cls.__name__}'s {f}") for f, value in given.arguments.items())
        self = super().__new__(cls, values)
        self.check()
        return self

    def check(self) -> None:
        """Raise UserError where the numbers make no sense; called on every construction."""

    @classmethod
    def _make(cls, values: Any) -> Any:
        return cls(*values)

    def replace(self, **changes: Any) -> Any:
        """Return the same piece with some values changed: its own fields, or numbers of the pieces that it is made of.

        >>> from gappletron import Gappletron, Hinge
        >>> Gappletron().replace(loss=Hinge(), gamma=2)
        Gappletron(loss=Hinge(kappa=0.5), optimizer=AdaptiveOGD(scale=1.0), exploration=TopUp(gamma=2.0))
        """
        own = {key: value for key, value in changes.items() if key in self._fields}
        piece = type(self)(**{**self._asdict(), **own})
        for key, value in changes.items():
            if key not in own:
                piece = piece._replace_inside(key, value)
        return piece

    __replace__ = replace  # copy.replace of Python 3.13

    def _replace_inside(self, key: str, value: Any) -> Any:
        """Return the same piece with a field of exactly one of the pieces in it changed."""
        holders = [field for field, part in self._asdict().items() if isinstance(part, Piece) and part._holds(key)]
        if len(holders) != 1:
            where = f"several parts with {key!r} ({', '.join(holders)})" if holders else f"no {key!r}"
            raise TypeError(f"{type(self).__name__} has {where}: it takes ({', '.join(self._fields)})")
        part = getattr(self, holders[0])
        return self.replace(**{holders[0]: part.replace(**{key: value})})

    def _holds(self, key: str) -> bool:
        return key in self._fields or any(isinstance(part, Piece) and part._holds(key) for part in self)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self._asdict().items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), tuple(self)))


@typeof_impl.register(Piece)
def _typeof(piece: Piece, context: Any) -> CompiledPiece:
    return CompiledPiece([typeof_impl(value, context) for value in piece], type(piece))


@functools.cache
def _find_kinds(cls: type[Piece]) -> dict[str, type]:
    """Return the declared kind of each field: float (perhaps with bounds), int, bool or a family of pieces."""
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError:  # a name that only the class statement's function could see
        basic = {"float": float, "int": int, "bool": bool}
        hints = {f: basic.get(str(cls.__annotations__[f]), Piece) for f in cls._fields}
    for field in cls._fields:
        kind = hints[field]
        if (
            typing.get_origin(kind) is not Annotated
            and kind not in (float, int, bool)
            and not (isinstance(kind, type) and issubclass(kind, Piece))
        ):
            raise UserError(
                f"{cls.__name__}.{field} is annotated {kind!r}: a component holds float, int, bool or other components"
            )
    return {field: hints[field] for field in cls._fields}


def _normalise(value: Any, kind: type, name: str) -> Any:
    if typing.get_origin(kind) is Annotated:
        return number(value, name, **kind.__metadata__[0])  # type: ignore[attr-defined]
    if kind is float:
        return number(value, name, finite=False)
    if kind is int:
        return whole(value, name, least=-(2**62))
    if kind is bool:
        if type(value) is not bool:
            raise UserError(f"{name} must be True or False, not {value!r}")
        return value
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise UserError(f"{name} must be {article} {kind.__name__}, not {value!r}: give {_suggest_piece(value, kind)}")
    return value


def _suggest_piece(value: Any, kind: type) -> str:
    """Return the piece that a text seems to mean, as in ``AdaGrad()`` for "ada-grad", or where to look."""
    if isinstance(value, str):
        plain = value.replace("-", "").replace("_", "").lower()
        for found, cls in package_pieces.items():
            if found.lower() == plain and issubclass(cls, kind):
                return f"{found}()"
    return f"{kind.__name__}()" if vars(kind)["_final"] else f"one of {kind.__module__}"
