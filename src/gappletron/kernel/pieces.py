"""Pieces, and how they are compiled: the only module that knows Numba's machinery.

A *piece* (a loss, an optimizer, an exploration rule, a learner, ...) is an immutable tuple of numbers and other pieces.
Its behaviour is written as ordinary methods; those that its family marks with :func:`compiled` also run inside compiled
loops, where Numba finds them through the class of the tuple. So pieces compose without a cost per round, and the same
source runs interpreted (:func:`interpreted`) to be debugged and compared.

Three of Numba's habits are answered here, each with a test in ``tests/kernel/test_pieces.py``:

* Its fingerprint of a named tuple is the name and the fields, not the class. :func:`specialised` therefore keeps one
  dispatcher for each nested tuple of *classes*, by identity, so a class redefined in a notebook takes effect.
* Its on-disk cache does not notice an edit in a callee's file, and crashes when a class was renamed. The cache files of
  the package carry a hash of all its sources, and of the classes they were compiled for: processes that start together
  on a cold cache never write to each other's index.
* A piece from outside the package has sources that nobody hashes, so code that contains one is never cached on disk.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numba
from numba.core import types
from numba.core.caching import NullCache
from numba.core.errors import NumbaError
from numba.extending import models, overload, overload_method, register_jitable, register_model, typeof_impl

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.base.signals import held_back
from gappletron.kernel.code_cache import code_cache
from gappletron.kernel.inlined import EntryCompiler, InlinedCompiler

__all__ = ["Piece", "compiled", "helper", "interpreted"]

PACKAGE = Path(__file__).parent.parent
F = TypeVar("F", bound="Callable[..., Any]")

OPTIONS = {"error_model": "numpy", "_nrt": False, "forceinline": True}
COMPILED = ("kernel", "graphs", "data", "learners", "play")
"""The packages whose functions any compiled loop may contain: an edit elsewhere leaves their machine code valid."""
INNER = {**OPTIONS, "no_cfunc_wrapper": True, "pipeline_class": InlinedCompiler}
"""For functions that only compiled code calls."""

helper: Callable[[F], F] = register_jitable(**INNER)
"""Marks a plain function that compiled methods call; interpreted, it is the function itself."""


seldom: Callable[[F], F] = register_jitable(**{**INNER, "forceinline": False})
"""As :data:`helper`, for long functions: copying them to where they are called would take long to compile."""


def compiled_by(function: Callable[..., Any]) -> Callable[[F], F]:
    """Decorate what gives, for the types of its arguments, the function that compiled code runs in its place."""
    return overload(function, strict=False, jit_options=INNER)


# --------------------------------------------------------------------------------------------------------------- pieces


class CompiledPiece(types.NamedTuple):  # type: ignore[name-defined]
    """A piece as Numba sees it. A type of its own, so that a state may have a field named as some method is."""

    def __bool__(
        self,
    ) -> bool:  # Numba asks a method call's receiver for its truth, and a piece without fields has length 0
        return True


register_model(CompiledPiece)(models.TupleModel)


def compiled(method: F) -> F:
    """Mark a method of an abstract family: every piece's version of it also runs inside compiled loops.

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
package_pieces: dict[str, Any] = {}
"""The pieces that the package itself defines and that were imported so far, by the names of their classes."""


def _declare(method: Callable[..., Any], family: str) -> None:
    """Teach Numba that `piece.name(...)` is the method `name` of the piece's class; once for each name."""
    name = method.__name__
    if name in _declared:
        if _arguments(method) != _declared[name]:
            raise UserError(
                f"{family}.{name} takes ({', '.join(_arguments(method))}), but another family declares {name}"
                f"({', '.join(_declared[name])}): choose another name, compiled methods are shared by all families"
            )
        return
    _declared[name] = _arguments(method)

    def find(self: Any, *args: Any) -> Any:  # noqa: ARG001 - Numba passes the types of the arguments
        return getattr(self.instance_class, name, None)

    find.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    # strict would also compare annotations, which may differ: a piece names its own state. The metaclass compares the
    # names.
    overload_method(CompiledPiece, name, strict=False, jit_options=INNER)(find)


def _arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def _annotated(body: dict[str, Any]) -> list[str]:
    """The names that a class statement annotates, in their order."""
    if sys.version_info >= (3, 14) and "__annotations__" not in body:
        import annotationlib  # annotations are a function there, until somebody asks

        annotate = annotationlib.get_annotate_from_class_namespace(body)
        return list(annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)) if annotate else []
    return list(body.get("__annotations__", {}))


class PieceType(type):
    """Makes a class statement into a named tuple class, and refuses a piece that its family could not run."""

    _fields: tuple[str, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], abstract: bool = False) -> PieceType:
        if not bases or bases == (tuple,):
            return super().__new__(mcs, name, bases, body)
        for base in bases:
            if getattr(base, "_final", False):
                public = next(cls.__name__ for cls in base.__mro__ if Piece in cls.__bases__)
                raise UserError(f"{name} extends {base.__name__}, and a piece cannot be extended: extend {public}")
        body.update(__slots__=(), _final=not abstract)
        if not abstract:
            fields = tuple(field for field in _annotated(body) if not field.startswith("_"))
            body.update(_field_defaults={field: body.pop(field) for field in fields if field in body})
            body.update(
                {field: property(functools.partial(_item, place), doc=field) for place, field in enumerate(fields)}
            )
            body.update(_fields=fields, __match_args__=fields)
        cls = super().__new__(mcs, name, bases, body)
        family = {
            key: value
            for base in cls.__mro__[1:]
            for key, value in vars(base).items()
            if hasattr(value, "__compiled__")
        }
        for key, value in vars(cls).items():
            if hasattr(value, "__compiled__"):
                _declare(value, name)
            elif key in family and _arguments(value) != _arguments(family[key]):
                raise UserError(
                    f"{name}.{key} takes ({', '.join(_arguments(value))}), but its family calls it with "
                    f"({', '.join(_arguments(family[key]))}): use those names"
                )
        if not abstract:
            missing = sorted(key for key in dir(cls) if getattr(getattr(cls, key, None), "__isabstractmethod__", False))
            if missing:
                raise UserError(
                    f"{name} lacks {', '.join(missing)}: a {bases[0].__name__} needs "
                    f"{'it' if len(missing) == 1 else 'them'}"
                )
            if _ours(cls):
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


def _item(place: int, piece: tuple[Any, ...]) -> Any:
    return tuple.__getitem__(piece, place)


@dataclass_transform(frozen_default=True)
class Piece(tuple, metaclass=PieceType):  # type: ignore[type-arg]
    """An immutable, picklable tuple of numbers and other pieces that prints itself.

    A family is declared with ``class Loss(Piece, abstract=True)``; a piece with ``class SmoothHinge(Loss)``, its fields
    annotated ``float``, ``int``, ``bool`` or with a family of pieces. Numbers are normalised on every way of
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
    _field_defaults: ClassVar[dict[str, Any]] = {}

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if not cls._final:
            raise TypeError(f"{cls.__name__} is a family of pieces, not a piece: use one of its members")
        if len(args) > len(cls._fields):
            raise TypeError(f"{cls.__name__} takes {len(cls._fields)} arguments, not {len(args)}")
        given = dict(zip(cls._fields, args, strict=False))
        for key, value in kwargs.items():
            if key not in cls._fields:
                raise TypeError(f"{cls.__name__} has no argument {key!r}: it takes ({', '.join(cls._fields)})")
            if key in given:
                raise TypeError(f"{cls.__name__} got the argument {key!r} twice")
            given[key] = value
        values = {**cls._field_defaults, **given}
        missing = [field for field in cls._fields if field not in values]
        if missing:
            raise TypeError(f"{cls.__name__} needs the argument {', '.join(missing)}")
        kinds = _field_kinds(cls)
        self = super().__new__(cls, (_normal(values[f], kinds[f], f"{cls.__name__}'s {f}") for f in cls._fields))
        self.check()
        return self

    def check(self) -> None:
        """Raise UserError where the numbers make no sense; called on every construction."""

    @classmethod
    def _make(cls, values: Any) -> Any:
        return cls(*values)

    def replace(self, **changes: Any) -> Any:
        """The same piece with some values changed: its own fields, or numbers of the pieces that it is made of.

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
        """The same piece with a field of exactly one of the pieces in it changed."""
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
def _field_kinds(cls: type[Piece]) -> dict[str, type]:
    """The declared kind of each field: float, int, bool or a family of pieces."""
    try:
        hints = typing.get_type_hints(cls)
    except NameError:  # a name that only the class statement's function could see
        basic = {"float": float, "int": int, "bool": bool}
        hints = {f: basic.get(str(cls.__annotations__[f]), Piece) for f in cls._fields}
    for field in cls._fields:
        kind = hints[field]
        if kind not in (float, int, bool) and not (isinstance(kind, type) and issubclass(kind, Piece)):
            raise UserError(
                f"{cls.__name__}.{field} is annotated {kind!r}: a piece holds float, int, bool or other pieces"
            )
    return {field: hints[field] for field in cls._fields}


def _normal(value: Any, kind: type, name: str) -> Any:
    if kind is float:
        return number(value, name, finite=False)
    if kind is int:
        return whole(value, name, least=-(2**62))
    if kind is bool:
        if type(value) is not bool:
            raise UserError(f"{name} must be True or False, not {value!r}")
        return value
    if not isinstance(value, kind):
        raise UserError(f"{name} must be a piece, not {value!r}: give {_piece_like(value, kind)}")
    return value


def _piece_like(value: Any, kind: type) -> str:
    """The piece that a text seems to mean, as in ``AdaGrad()`` for "ada-grad", or what kind is wanted."""
    if isinstance(value, str):
        plain = value.replace("-", "").replace("_", "").lower()
        for found, cls in package_pieces.items():
            if found.lower() == plain and issubclass(cls, kind):
                return f"{found}()"
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return f"{article} {kind.__name__}, for example one of gappletron.{kind.__module__.removeprefix('gappletron.')}"


# ---------------------------------------------------------------------------------------------------------- compilation

_interpreted: ContextVar[bool] = ContextVar("interpreted", default=False)


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Run everything inside as plain Python: slow, but a debugger and a print work inside a piece.

    It holds for the current thread (or asynchronous task) alone, and for the models and runs that are made inside.

    >>> import gappletron
    >>> with gappletron.interpreted():
    ...     history = gappletron.play(gappletron.named("gapsmh"), "synthetic:T=50", "bandit")
    """
    with in_mode(True):
        yield


def is_interpreted() -> bool:
    """Whether this runs inside :func:`interpreted`."""
    return _interpreted.get()


@contextlib.contextmanager
def in_mode(interpreted: bool) -> Iterator[None]:
    """Run everything inside interpreted or compiled, for what keeps the mode in which it was made."""
    token = _interpreted.set(interpreted)
    try:
        yield
    finally:
        _interpreted.reset(token)


@functools.cache
def source_hash(*packages: str) -> str:
    """Return a hash of the sources of these packages, or of all: what compiled code and stored results are valid for."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if not packages or place.parts[0] in packages:
            digest.update(place.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _package(item: Any) -> str:
    """The package of a function or class of ours; empty for those of others."""
    return item.__module__.split(".")[1] if item is not tuple and _ours(item) else ""


def _classes(value: Any) -> tuple[Any, ...]:
    """The nested tuple of the tuple classes in a value."""
    value = getattr(value, "_packed_arguments", value)
    if not isinstance(value, tuple):
        return ()
    return (type(value), *(_classes(item) for item in value))


def _flat(classes: tuple[Any, ...]) -> Iterator[type]:
    for item in classes:
        if isinstance(item, tuple):
            yield from _flat(item)
        else:
            yield item


def _ours(cls: Any) -> bool:
    return cls is tuple or cls.__module__.split(".")[0] == __name__.split(".")[0]


def specialised(function: F, *arguments: Any) -> F:
    """`function` compiled for the classes of these arguments (named tuples all the way down), or itself when
    interpreted.
    """
    if is_interpreted():
        return function
    return _specialised(function, tuple(_classes(argument) for argument in arguments))


entry_points: list[Any] = []
"""What Python calls of compiled code. None may return a named tuple: Numba makes one by unpickling its class, which
crashes the process if a signal handler has raised in the meantime."""


@functools.cache
def _specialised(function: Callable[..., Any], classes: tuple[Any, ...]) -> Any:
    dispatcher = numba.njit(nogil=True, pipeline_class=EntryCompiler, **OPTIONS)(function)
    entry_points.append(dispatcher)
    found = list(_flat(classes))
    if all(_ours(cls) for cls in found):
        names = repr([f"{cls.__module__}.{cls.__qualname__}" for cls in found])
        others = {_package(item) for item in (function, *found)}.difference(COMPILED, {""})
        if others:
            names += source_hash(*sorted(others))
        code = hashlib.sha256(names.encode()).hexdigest()[:10]
        dispatcher._cache = code_cache(function, code, source_hash(*COMPILED))
    return dispatcher


def ready(function: F, *arguments: Any) -> F:
    """`function` specialised for these arguments and compiled for their types: the first call costs no more than
    others.

    Where Numba cannot compile a piece from outside the package, a UserError says so.
    """
    kernel = specialised(function, *arguments)
    if kernel is not function:
        try:
            with held_back():
                kernel.compile(tuple(map(numba.typeof, arguments)))  # type: ignore[attr-defined]
        except (NumbaError, NotImplementedError) as error:
            outside = sorted({cls.__name__ for cls in _flat(tuple(map(_classes, arguments))) if not _ours(cls)})
            if not outside:
                raise
            raise UserError(
                f"{', '.join(outside)} cannot be compiled; play it inside gappletron.interpreted() to "
                "debug it as plain "
                "Python, and use only numbers, math, loops over the arrays given and functions marked "
                "gappletron.helper (new "
                f"arrays belong into the state). Numba said: {innermost(str(error))}"
            ) from error
    return kernel


def same_types(first: Any, second: Any) -> bool:
    """Whether compiled code takes one of these values where it was compiled for the other."""
    return bool(numba.typeof(first) == numba.typeof(second))


def can_be_loaded(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether `function` is compiled for these arguments: here, or in the on-disk cache (or cannot be stored there)."""
    kernel = specialised(function, *arguments)
    if kernel is function or isinstance(kernel._cache, NullCache):  # type: ignore[attr-defined]
        return True
    signature = tuple(map(numba.typeof, arguments))
    loaded = kernel._cache.load_overload(signature, kernel.targetctx)  # type: ignore[attr-defined]
    return signature in kernel.overloads or loaded is not None  # type: ignore[attr-defined]


def innermost(message: str) -> str:
    """The cause in Numba's nested messages: the last reason, and the last place outside of Numba and the package.

    >>> told = "Failed\\nUntyped global name 'f': Cannot determine its type\\nFile \\"own.py\\", line 3:\\ndef gap():"
    >>> innermost(told)
    "Untyped global name 'f': Cannot determine its type (own.py, line 3)"
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", message)
    reasons = re.findall(
        r"^\s*(?:- )?((?:Untyped|Unknown|Use of|Cannot|Invalid|No (?:implementation|definition)|Unsupported|"
        r"Undecided|Unable|[A-Z]\w+Error:).*)$",
        text,
        re.MULTILINE,
    )
    places = [
        f"{file}, line {line}"
        for file, line in re.findall(r'File "([^"]+)", line (\d+)', text)
        if "gappletron/" not in file
    ]
    reason = reasons[-1].strip() if reasons else text.strip().splitlines()[0]
    return f"{reason} ({places[-1]})" if places else reason


def entry(function: F, *arguments: Any) -> F:
    """As :func:`ready`, but the machine code itself, without the dispatcher that looks at the types in every call.

    For one round at a time: the look costs ten times the round. Later calls must give arguments of exactly the same
    types.
    """
    kernel = ready(function, *arguments)
    if kernel is function:
        return function
    return kernel.get_overload(tuple(map(numba.typeof, arguments)))  # type: ignore[attr-defined, no-any-return, unused-ignore]
