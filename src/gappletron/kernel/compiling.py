"""How loops over pieces are compiled, cached on disk, or run as plain Python.

Three of Numba's habits are answered here, each with a test in ``tests/kernel/test_pieces.py``:

* Its fingerprint of a named tuple is the name and the fields, not the class. :func:`specialise` therefore keeps one
  dispatcher for each nested tuple of *classes*, by identity, so a class redefined in a notebook takes effect.
* Its on-disk cache does not notice an edit in a callee's file, and crashes when a class was renamed. The cache files of
  the package carry a hash of all its sources, and of the classes they were compiled for.
* A piece from outside the package has sources that nobody hashes, so code that contains one is never cached on disk.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import numba
from numba.core.caching import NullCache
from numba.core.errors import NumbaError

from gappletron.base.errors import UserError
from gappletron.base.signals import held_back
from gappletron.kernel.code_cache import PACKAGE, make_cache
from gappletron.kernel.inlined import OPTIONS, EntryCompiler

F = TypeVar("F", bound="Callable[..., Any]")

COMPILED = ("kernel", "graphs", "data", "learners", "play")
"""The packages whose functions any compiled loop may contain: an edit elsewhere leaves their machine code valid."""

_interpreted: ContextVar[bool] = ContextVar("interpreted", default=False)


def interpreted() -> contextlib.AbstractContextManager[None]:
    """Run everything inside as plain Python: slow, but a debugger and a print work inside a piece.

    It holds for the current thread (or asynchronous task) alone, and for the models and runs that are made inside.

    >>> import gappletron
    >>> with gappletron.interpreted():
    ...     history = gappletron.play(gappletron.named("gapsmh"), "synthetic:T=50", "bandit")
    """
    return in_mode(True)


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
    """Return a hash of the sources of these packages, or of all: compiled code and results are valid for them."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if not packages or place.parts[0] in packages:
            digest.update(place.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def specialise(function: F, *arguments: Any) -> F:
    """Return `function` to be compiled for the classes of these arguments (tuples all the way down).

    Interpreted, that is the function itself.
    """
    if is_interpreted():
        return function
    return _specialised(function, tuple(map(_classes, arguments)))


entry_points: list[Any] = []
"""What Python calls of compiled code. None may return a named tuple: Numba makes one by unpickling its class, which
crashes the process if a signal handler has raised in the meantime."""


@functools.cache
def _specialised(function: Callable[..., Any], classes: tuple[Any, ...]) -> Any:
    dispatcher = numba.njit(nogil=True, pipeline_class=EntryCompiler, **OPTIONS)(function)
    entry_points.append(dispatcher)
    found = list(_flatten(classes))
    if all(map(_is_ours, found)):
        names = repr([f"{cls.__module__}.{cls.__qualname__}" for cls in found])
        modules = [item.__module__ for item in (function, *found) if item is not tuple and _is_ours(item)]
        others = {module.split(".")[1] for module in modules}.difference(COMPILED)
        if others:
            names += source_hash(*sorted(others))
        code = hashlib.sha256(names.encode()).hexdigest()[:10]
        dispatcher._cache = make_cache(function, code, source_hash(*COMPILED))
    return dispatcher


def _classes(value: Any) -> tuple[Any, ...]:
    """Return the nested tuple of the tuple classes in a value."""
    value = getattr(value, "_packed_arguments", value)
    return (type(value), *map(_classes, value)) if isinstance(value, tuple) else ()


def _flatten(classes: tuple[Any, ...]) -> Iterator[type]:
    for item in classes:
        if isinstance(item, tuple):
            yield from _flatten(item)
        else:
            yield item


def _is_ours(item: Any) -> bool:
    return item is tuple or item.__module__.split(".")[0] == "gappletron"


def prepare(function: F, *arguments: Any) -> F:
    """Return `function` compiled for the types of these arguments: the first call costs no more than others.

    Where Numba cannot compile a piece from outside the package, a UserError says so.
    """
    kernel = specialise(function, *arguments)
    if kernel is not function:
        try:
            with held_back():
                kernel.compile(tuple(map(numba.typeof, arguments)))  # type: ignore[attr-defined]
        except (NumbaError, NotImplementedError) as error:
            outside = sorted({cls.__name__ for cls in _flatten(_classes(arguments)) if not _is_ours(cls)})
            if not outside:
                raise
            raise UserError(
                f"{', '.join(outside)} cannot be compiled; play it inside gappletron.interpreted() to debug it as "
                "plain Python, and use only numbers, math, loops over the arrays given and functions marked "
                "gappletron.helper (new arrays belong into the state). Numba said: "
                f"{find_cause(str(error))}"
            ) from error
    return kernel


def entry(function: F, *arguments: Any) -> F:
    """Return the machine code of :func:`prepare` itself, without the dispatcher that looks at the types in every call.

    For one round at a time: the look costs ten times the round. Later calls must give arguments of exactly the same
    types.
    """
    kernel = prepare(function, *arguments)
    if kernel is function:
        return function
    return kernel.get_overload(tuple(map(numba.typeof, arguments)))  # type: ignore[attr-defined, no-any-return, unused-ignore]


def same_types(first: Any, second: Any) -> bool:
    """Whether compiled code takes one of these values where it was compiled for the other."""
    return bool(numba.typeof(first) == numba.typeof(second))


def can_be_loaded(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether `function` is compiled for these arguments: here, or in the on-disk cache (or cannot be stored there)."""
    kernel: Any = specialise(function, *arguments)
    if kernel is function or isinstance(kernel._cache, NullCache):
        return True
    signature = tuple(map(numba.typeof, arguments))
    return signature in kernel.overloads or kernel._cache.load_overload(signature, kernel.targetctx) is not None


def find_cause(message: str) -> str:
    """Return the cause in Numba's nested messages: the last reason, and the last place outside of the package.

    >>> text = "Failed\\nUntyped global name 'f': Cannot determine its type\\nFile \\"own.py\\", line 3:\\ndef gap():"
    >>> find_cause(text)
    "Untyped global name 'f': Cannot determine its type (own.py, line 3)"
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", message)
    reasons = re.findall(
        r"^\s*(?:- )?((?:Untyped|Unknown|Use of|Cannot|Invalid|No (?:implementation|definition)|Unsupported|"
        r"Undecided|Unable|[A-Z]\w+Error:).*)$",
        text,
        re.MULTILINE,
    )
    places = [place for place in re.findall(r'File "([^"]+)", line (\d+)', text) if "gappletron/" not in place[0]]
    reason = reasons[-1].strip() if reasons else text.strip().splitlines()[0]
    return f"{reason} ({places[-1][0]}, line {places[-1][1]})" if places else reason
