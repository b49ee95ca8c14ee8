"""How loops over pieces are compiled, here or by another process, cached on disk, or run as plain Python.

Three of Numba's habits are answered here, each with a test in ``tests/kernel/test_pieces.py``:

* Its fingerprint of a named tuple is the name and the fields, not the class. :func:`specialise` therefore keeps one
  dispatcher for each list of *classes*, by identity, so a class redefined in a notebook takes effect.
* Its on-disk cache does not notice an edit in a callee's file, and crashes when a class was renamed or a byte is wrong,
  since it unpickles and runs what the files hold. Here the names of the files carry a hash of the package's sources and
  of the classes they were compiled for, and every file begins with a checksum. A file whose checksum is wrong counts as
  absent: the code is compiled again, and the file is replaced.
* A piece from outside the package has sources that nobody hashes, so code that contains one is never cached on disk.

Machine code that is not in the cache takes some seconds. Another process compiles it into the cache, which is also how
it gets here; until then single rounds and small batches run as plain Python (:class:`StandIn`), and large ones wait. So
what cannot be cached is compiled in this process, as is everything where there is no other process.
"""

import contextlib
import functools
import gc
import hashlib
import logging
import os
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numba
import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target

from gappletron.base.errors import UserError
from gappletron.base.files import lock_file, unlock_file
from gappletron.base.progress import SECONDS_BETWEEN_LINES
from gappletron.base.signals import held_back
from gappletron.kernel.background import Worker, is_allowed
from gappletron.kernel.inlined import OPTIONS, EntryCompiler

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")

PACKAGE = Path(__file__).parent.parent
DIGEST_BYTES = 32

# The packages whose functions any compiled loop may contain: an edit elsewhere leaves their machine code valid.
COMPILED = ("kernel", "graphs", "data", "learners", "play")

# Arguments with at most so many entries are played interpreted as long as there is no machine code: some tenths of a
# second at most, in which signals wait.
SMALL = 100_000

# Seconds of a processor that the machine code of one function takes, about.
SECONDS_TO_COMPILE = 3
# Pieces that a run has only where they are asked for, and what they are called in the log.
OPTIONAL = {"Watch": "with estimates", "LeastPropensity": "with a least propensity", "Budgeted": "with a budget"}
log = logging.getLogger("gappletron.compiling")

_interpreted: ContextVar[bool] = ContextVar("interpreted", default=False)


def interpreted() -> contextlib.AbstractContextManager[None]:
    """Run everything inside as plain Python: slow, but a debugger and a print work inside a component.

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
    """Return what runs `function` on these arguments, compiled for their classes (tuples all the way down).

    Interpreted, that is the function itself; while another process compiles it, a :class:`StandIn`.
    """
    if is_interpreted():
        return function
    kernel = _specialised(function, list_classes(arguments))
    if not kernel.overloads and is_allowed():  # for other types of the same classes a dispatcher compiles by itself
        found = entry_now(function, *arguments)
        return found if isinstance(found, StandIn) else kernel
    return kernel


def run(function: Callable[..., T], *arguments: Any) -> T:
    """Call what :func:`specialise` returns."""
    return specialise(function, *arguments)(*arguments)


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
    entry(function, *arguments)
    return specialise(function, *arguments)


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


class Wanted(NamedTuple):
    """Machine code that is wanted: of a function, for the classes and types of its arguments."""

    function: Callable[..., Any]
    classes: tuple[type, ...]
    types: tuple[Any, ...]

    @classmethod
    def make(cls, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Self:
        """Return what is wanted to call a function with such arguments."""
        return cls(function, list_classes(arguments), tuple(map(numba.typeof, arguments)))

    @property
    def kernel(self) -> Any:
        """The dispatcher that holds it."""
        return _specialised(self.function, self.classes)

    def __str__(self) -> str:
        pieces = [cls.__name__ for cls in self.classes if cls is not tuple]
        lanes = [name.replace("Lanes", "up to ") + " classes" for name in pieces if name[5:].isdigit()]
        # Each of these is compiled by itself, after the same code without it.
        more = [words for name, words in OPTIONAL.items() if name in pieces]
        return ", ".join([self.function.__name__, *pieces[:1], *lanes, *more])

    @property
    def file(self) -> Path | None:
        """Where the cache keeps the code; None where it is not kept."""
        cache = self.kernel._cache
        return None if isinstance(cache, NullCache) else cache.file_for(self.types, self.kernel.targetctx.codegen())

    def find(self) -> Any:
        """Return the code, perhaps compiled now; None while another process compiles it."""
        if self.types not in self.kernel.overloads:
            file = self.file
            if file is None or not file.exists():
                if file is not None and _is_ours(self.function) and background.compiles(file, self.fill_cache):
                    return None
                if is_allowed():
                    log.info("compiling %s in this process, which waits for it", self)
        return self.compile()

    def wait(self) -> Any:
        """Return the code when it is there. Signals are not held back meanwhile."""
        start, said = time.monotonic(), 0
        while (code := self.find()) is None:
            seconds = time.monotonic() - start
            if seconds >= 1.0 + said * SECONDS_BETWEEN_LINES:
                if said == 0:
                    log.info("compiling %s: once, for all later runs; that takes 10 to 60 seconds", self)
                else:
                    log.info("compiling %s: %.0f s so far", self, seconds)
                said += 1
            time.sleep(0.02)
        return code

    def compile(self) -> Any:
        """Return the code, compiled here or loaded from the cache if it is not there already."""
        kernel = self.kernel  # once: two threads that ask for the first time may get two
        try:
            with held_back(), without_collection():
                kernel.compile(self.types)
        except (NumbaError, NotImplementedError) as error:
            outside = sorted({cls.__name__ for cls in self.classes if not _is_ours(cls)})
            if not outside:
                raise
            raise UserError(
                f"{', '.join(outside)} cannot be compiled; play it inside gappletron.interpreted() to debug it as "
                "plain Python, and use only numbers, math, loops over the arrays given and functions marked "
                "gappletron.helper (new arrays belong into the state). Numba said: "
                f"{find_cause(str(error))}"
            ) from error
        return kernel.get_overload(self.types)

    def fill_cache(self) -> None:
        """Compile in a process that does it for others, unless another one does it at this moment or has done it."""
        file = self.file
        assert file is not None
        with locked(file.with_name(f"{file.name}.lock")):
            if not file.exists():
                self.compile()
        if not file.exists():
            raise OSError(f"{file} cannot be written")


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """Wait until no other process is in such a block with this file, which is there meanwhile."""
    while True:
        with contextlib.suppress(BlockingIOError):
            lock = lock_file(place)
            break
        time.sleep(0.05)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        if lock is not None:
            unlock_file(lock)


def entry(function: F, *arguments: Any) -> F:
    """Return the machine code of a function itself, without the dispatcher that looks at the types in every call.

    For one round at a time: the look costs ten times the round. Later calls must give arguments of exactly the same
    types. Code that is neither here nor in the cache is compiled by another process, and waited for.
    """
    if is_interpreted():
        return function
    return look_up(function, arguments, lambda: Wanted.make(function, arguments).wait())


def entry_now(function: F, *arguments: Any) -> F:
    """As :func:`entry`; but while another process compiles, a :class:`StandIn` for arguments that are small."""
    if is_interpreted():
        return function
    if count_entries(arguments) > SMALL:
        return entry(function, *arguments)
    found = look_up(function, arguments, lambda: Wanted.make(function, arguments).find())
    return StandIn(function) if found is None else found  # type: ignore[return-value]


def entry_known(function: F, *arguments: Any) -> F:
    """As :func:`entry_now`, but nothing is loaded or compiled: what was not asked for before is a :class:`StandIn`."""
    if is_interpreted():
        return function
    found = look_up(function, arguments, lambda: None)
    return StandIn(function) if found is None else found  # type: ignore[return-value]


def count_entries(value: Any) -> int:
    """Return the number of entries of all arrays of a tuple, without those of packed arguments.

    >>> import numpy as np
    >>> count_entries((np.zeros(3), (1.0, np.zeros((2, 2)))))
    7
    """
    return sum(map(count_entries, value)) if isinstance(value, tuple) else getattr(value, "size", 0)


class StandIn:
    """Runs a function as plain Python as long as there is no machine code: the bits are the same.

    As in machine code, signals wait until it has ended, and a number beyond the range is no error.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        with held_back(), np.errstate(all="ignore"):
            return self.function(*arguments)


class KeptCode:
    """A property that asks a function of its owner for an entry again until it is there, and keeps it then.

    >>> class Doubler:
    ...     double = KeptCode(lambda self: entry_now(lambda x: 2 * x, 1))
    >>> with interpreted():
    ...     Doubler().double(4)
    8
    """

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self.find, self.__doc__ = find, find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self
        code = self.find(owner)
        if not isinstance(code, StandIn):
            vars(owner)[self.name] = code  # where Python looks first
        return code


def load_tables() -> None:
    """Load Numba's tables of functions, without which no machine code can be loaded: some tenths of a second, once.

    Another thread than that of the rounds may do it.
    """
    with held_back(), global_compiler_lock:
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


_known: dict[Any, Any] = {}


def look_up(what: Any, arguments: tuple[Any, ...], find: Callable[[], Any]) -> Any:
    """Return what was found before for arguments of the same types, or find it now; None is asked for again.

    To ask Numba for the types of a player's arrays, and to compare these, takes ten times as long as to make them.
    """
    key = what, _specialised, _outline(arguments)  # what is found comes from the dispatchers that are kept there
    found = _known.get(key)
    if found is None:
        found = find()
        if found is not None:
            _known[key] = found
    return found


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

    def file_for(self, signature: Any, codegen: Any) -> Path:
        """Return the file with the code for a signature, on this kind of processor."""
        return self._cache_file.path_for(self._index_key(signature, codegen))

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
        path = self.path_for(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, pickled = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        return pickle.loads(pickled) if digest == self._digest(path.name, pickled) else None

    def save(self, key: Any, data: Any) -> None:
        """Write the code for a signature."""
        path, pickled = self.path_for(key), self._dump(data)
        with self._open_for_write(path) as file:
            file.write(self._digest(path.name, pickled) + pickled)

    def path_for(self, key: Any) -> Path:
        """Return the file of a signature."""
        signature = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return Path(self._index_path).with_suffix(f".{signature}.nbc")

    def _digest(self, name: str, pickled: bytes) -> bytes:
        versions = repr((numba.__version__, self._source_stamp, name)).encode()
        return hashlib.blake2b(versions + b"\0" + pickled, digest_size=DIGEST_BYTES).digest()


CODE_FILE = re.compile(r".+\.py\d+\w*-[0-9a-f]{10}-([0-9a-f]{16})\.[0-9a-f]{16}\.nbc(\.tmp\.[0-9a-f]+|\.lock)?")


@functools.cache  # once per process and folder
def remove_older(folder: Path, sources: str) -> None:
    """Remove the files of other sources: no process that starts from now on can use them.

    A process that still runs with older sources finds its files missing and compiles again.
    """
    for path in folder.iterdir():
        found = CODE_FILE.fullmatch(path.name)
        if found and found[1] != sources:
            path.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------- in another process


class Background:
    """The processes that compile for this one, and the files that they were asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes = 1  # how many may be at work
        self._workers: dict[int, Worker] = {}
        self.asked: dict[Path, Worker] = {}
        self._failed: set[Path] = set()

    def compiles(self, file: Path, job: Callable[[], object]) -> bool:
        """Return whether another process compiles into this file; it is asked once."""
        if file in self._failed or not is_allowed():
            return False
        with held_back(), self._lock:
            if file not in self.asked:
                with contextlib.suppress(OSError, pickle.PicklingError):
                    self.asked[file] = self._send(job)
            if file in self.asked and self.asked[file].is_at_work():
                return True
            self._failed.add(file)
            return False

    def _send(self, job: Callable[[], object]) -> Worker:
        turn = len(self.asked) % self._processes
        if turn in self._workers:
            with contextlib.suppress(FileNotFoundError):  # it had nothing left to do
                self._workers[turn].send(job)
                return self._workers[turn]
        worker = self._workers[turn] = Worker({"NUMBA_CACHE_DIR": numba.config.CACHE_DIR})
        worker.send(job)
        return worker

    def list_missing(self) -> list[Path]:
        """Return the files that were asked for and are still to come."""
        return [file for file, worker in list(self.asked.items()) if not file.exists() and worker.is_at_work()]

    def wait(self, notify: Callable[[int], None]) -> None:
        """Return when nothing is still to come; `notify` is called with how many files are."""
        while left := len(self.list_missing()):
            notify(left)
            time.sleep(0.05)

    @contextlib.contextmanager
    def using(self, processes: int) -> Iterator[None]:
        """Let so many processes work at the same time; those that still do when the block ends are ended."""
        self._processes = processes
        try:
            yield
        finally:
            self._processes = 1
            for worker in self._workers.values():
                worker.stop()


background = Background()
if hasattr(os, "register_at_fork"):  # the lock may be taken, and the process is the child of another
    os.register_at_fork(after_in_child=background.__init__)  # type: ignore[misc]
