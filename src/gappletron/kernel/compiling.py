"""How loops over pieces are compiled, cached on disk, or run as plain Python.

Three of Numba's habits are answered here, each with a test in ``tests/kernel/test_pieces.py``:

* Its fingerprint of a named tuple is the name and the fields, not the class. :func:`specialise` therefore keeps one
  dispatcher for each list of *classes*, by identity, so a class redefined in a notebook takes effect.
* Its on-disk cache does not notice an edit in a callee's file, and crashes when a class was renamed or a byte is wrong,
  since it unpickles and runs what the files hold. Here the names of the files carry a hash of the package's sources and
  of the classes they were compiled for, and every file begins with a checksum. A file whose checksum is wrong counts as
  absent: the code is compiled again, and the file is replaced.
* A piece from outside the package has sources that nobody hashes, so code that contains one is never cached on disk.
"""

import contextlib
import functools
import gc
import hashlib
import pickle
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.errors import NumbaError

from gappletron.base.errors import UserError
from gappletron.base.signals import held_back
from gappletron.kernel.inlined import OPTIONS, EntryCompiler

F = TypeVar("F", bound="Callable[..., Any]")

PACKAGE = Path(__file__).parent.parent
DIGEST_BYTES = 32

# The packages whose functions any compiled loop may contain: an edit elsewhere leaves their machine code valid.
COMPILED = ("kernel", "graphs", "data", "learners", "play")

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
    return _specialised(function, list_classes(arguments))


def brief(function: F) -> F:
    """Mark a function that Python calls for one row, and that takes a microsecond: it keeps the interpreter's lock.

    To give up the GIL for so short a time lets another thread take it, and to get it back takes longer.
    """
    function.__brief__ = True  # type: ignore[attr-defined]
    return function


# What Python calls of compiled code. None may return a named tuple: Numba makes one by unpickling its class, which
# crashes the process if a signal handler has raised in the meantime.
entry_points: list[Any] = []


@functools.cache
def _specialised(function: Callable[..., Any], classes: tuple[type, ...]) -> Any:
    releases = not hasattr(function, "__brief__")
    dispatcher = numba.njit(nogil=releases, pipeline_class=EntryCompiler, **OPTIONS)(function)
    entry_points.append(dispatcher)
    if all(map(_is_ours, classes)):
        names = repr([f"{cls.__module__}.{cls.__qualname__}" for cls in classes])
        modules = [item.__module__ for item in (function, *classes) if item is not tuple and _is_ours(item)]
        others = {module.split(".")[1] for module in modules}.difference(COMPILED)
        if others:
            names += source_hash(*sorted(others))
        code = hashlib.sha256(names.encode()).hexdigest()[:10]
        with contextlib.suppress(RuntimeError):  # no place on this machine where a cache could be written
            dispatcher._cache = CheckedCache(function, code, source_hash(*COMPILED))
    return dispatcher


def list_classes(value: Any) -> tuple[type, ...]:
    """Return the classes of a tuple, such as a piece, and of the tuples in it; none for other values.

    >>> from gappletron import AdaGrad, Gappletron
    >>> [cls.__name__ for cls in list_classes(Gappletron(optimizer=AdaGrad()))]
    ['Gappletron', 'SmoothHinge', 'AdaGrad', 'TopUp']
    >>> list_classes("auto")
    ()
    """
    value = getattr(value, "_packed_arguments", value)
    if not isinstance(value, tuple):
        return ()
    return (type(value), *(cls for part in value for cls in list_classes(part)))


def _is_ours(item: Any) -> bool:
    return item is tuple or item.__module__.split(".")[0] == "gappletron"


def prepare(function: F, *arguments: Any) -> F:
    """Return `function` compiled for the types of these arguments: the first call costs no more than others.

    Where Numba cannot compile a piece from outside the package, a UserError says so.
    """
    kernel = specialise(function, *arguments)
    if kernel is not function:
        _compile(kernel, arguments)
    return kernel


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Keep the collector of reference cycles from running: Numba makes so many objects that it would take an eighth of
    the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _compile(kernel: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Compile a dispatcher, or load its code from the cache; return the types of the arguments.

    To find the types takes most of the time where the code is there already.
    """
    types = tuple(map(numba.typeof, arguments))
    try:
        with held_back(), without_collection():
            kernel.compile(types)
    except (NumbaError, NotImplementedError) as error:
        outside = sorted({cls.__name__ for cls in list_classes(arguments) if not _is_ours(cls)})
        if not outside:
            raise
        raise UserError(
            f"{', '.join(outside)} cannot be compiled; play it inside gappletron.interpreted() to debug it as "
            "plain Python, and use only numbers, math, loops over the arrays given and functions marked "
            "gappletron.helper (new arrays belong into the state). Numba said: "
            f"{find_cause(str(error))}"
        ) from error
    return types


def entry(function: F, *arguments: Any) -> F:
    """Return the machine code of :func:`prepare` itself, without the dispatcher that looks at the types in every call.

    For one round at a time: the look costs ten times the round. Later calls must give arguments of exactly the same
    types.
    """
    if is_interpreted():
        return function
    return look_up(function, arguments, lambda: _find_entry(function, arguments))


def _find_entry(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    kernel: Any = specialise(function, *arguments)
    return kernel.get_overload(_compile(kernel, arguments))


_known: dict[Any, Any] = {}


def look_up(what: Any, arguments: tuple[Any, ...], find: Callable[[], Any]) -> Any:
    """Return what was found before for arguments of the same types, or find it now.

    To ask Numba for the types of a player's arrays, and to compare these, takes ten times as long as to make them.
    """
    key = what, _specialised, _outline(arguments)  # what is found comes from the dispatchers that are kept there
    if key not in _known:
        _known[key] = find()
    return _known[key]


# The flags of an array that its type depends on: contiguous (C, Fortran), aligned, writeable.
FLAGS = 0x1 | 0x2 | 0x100 | 0x400


def _outline(value: Any) -> Any:
    """Return what the type of a value depends on, as something that can be compared quickly: classes by identity."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num & FLAGS
    if isinstance(value, tuple):
        return type(value), *map(_outline, value)
    return getattr(value, "_packed_kind", type(value))


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


# ------------------------------------------------------------------------------------------------ machine code on disk


class CheckedCache(FunctionCache):
    """Numba's cache over :class:`CheckedFiles`. A cache that cannot be written does not stop the program."""

    def __init__(self, function: Callable[..., Any], classes: str, sources: str) -> None:
        super().__init__(function)
        self._sources = sources
        name = f"{self._impl.filename_base}-{classes}-{sources}"
        self._cache_file = CheckedFiles(self._cache_path, name, self._impl.locator.get_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)
            remove_older(Path(self._cache_path), self._sources)


class CheckedFiles(IndexDataCacheFile):
    """The files of one function, one for each signature. Each is a checksum and a pickle.

    The checksum covers the file's name and the versions, so files cannot stand in for each other.
    """

    def load(self, key: Any) -> Any:
        """Return the code for a signature; None where it is missing or damaged."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, pickled = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        return pickle.loads(pickled) if digest == self._digest(path.name, pickled) else None

    def save(self, key: Any, data: Any) -> None:
        """Write the code for a signature."""
        path, pickled = self._path(key), self._dump(data)
        with self._open_for_write(path) as file:
            file.write(self._digest(path.name, pickled) + pickled)

    def _path(self, key: Any) -> Path:
        signature = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return Path(self._index_path).with_suffix(f".{signature}.nbc")

    def _digest(self, name: str, pickled: bytes) -> bytes:
        versions = repr((numba.__version__, self._source_stamp, name)).encode()
        return hashlib.blake2b(versions + b"\0" + pickled, digest_size=DIGEST_BYTES).digest()


CODE_FILE = re.compile(r".+\.py\d+\w*-[0-9a-f]{10}-([0-9a-f]{16})\.[0-9a-f]{16}\.nbc(\.tmp\.[0-9a-f]+)?")


@functools.cache  # once per process and folder
def remove_older(folder: Path, sources: str) -> None:
    """Remove the files of other sources: no process that starts from now on can use them.

    A process that still runs with older sources finds its files missing and compiles again.
    """
    for path in folder.iterdir():
        found = CODE_FILE.fullmatch(path.name)
        if found and found[1] != sources:
            path.unlink(missing_ok=True)
