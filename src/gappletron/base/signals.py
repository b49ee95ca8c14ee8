"""What Ctrl-C and SIGTERM do: end the process at once, raise, or wait until a block has ended.

A signal handler of Python runs between two steps of the interpreter, and its exception appears wherever the program
happens to be. Inside an import or a callback of the compiler that exception is lost or breaks the library that meets
it. So commands end at once while they import and compile (:func:`exit_at_once`), raise while they play
(:func:`raising`), and code that must not be interrupted holds signals back (:func:`held_back`).
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gappletron.base.errors import Terminated

STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
NOTHING_YET = "stopped before anything was measured"
SHOW_CURSOR = "\x1b[?25h"


def exit_code(stop: BaseException | None) -> int:
    """Return the exit code of a command that a signal has ended: 130 for Ctrl-C, 143 for SIGTERM.

    >>> exit_code(KeyboardInterrupt()), exit_code(Terminated(signal.SIGTERM))
    (130, 143)
    """
    return 128 + (stop.number if isinstance(stop, Terminated) else signal.SIGINT)


def exit_at_once() -> None:
    """Let the first signal from here on end the process with one line on the standard error."""
    _handle(STOPPING, _exit, {})


def _exit(number: int, _frame: Any) -> None:
    line = (SHOW_CURSOR if sys.stderr is not None and sys.stderr.isatty() else "") + NOTHING_YET + "\n"
    with contextlib.suppress(OSError):
        os.write(2, line.encode())
    os._exit(128 + number)


@contextlib.contextmanager
def raising() -> Iterator[Callable[[], None]]:
    """Inside the block a signal raises KeyboardInterrupt; the function raises it again where a library has caught it.

    Exceptions are lost in finalizers and callbacks. So call the function now and then in a loop that may last long.
    """
    arrived: list[int] = []

    def check() -> None:
        if arrived:
            raise _make_exception(arrived[0])

    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
        yield check
        return

    def stop(number: int, _frame: Any) -> None:
        arrived.append(number)
        raise _make_exception(number)

    before: dict[int, Any] = {}
    try:
        _handle(STOPPING, stop, before)
        yield check
        check()
    finally:
        _restore(before)


def _make_exception(number: int) -> KeyboardInterrupt:
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


# All signals of the system; to ask for them takes longer than all the rest of holding them back.
VALID = tuple(signal.valid_signals())


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Deliver the signals that arrive inside the block when it has ended, if Python handles them.

    Inside the callbacks of LLVM an exception would be lost, and Numba would fail later.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
        yield
        return
    arrived: list[int] = []
    before: dict[int, Any] = {}
    try:
        handled = [number for number in VALID if callable(signal.getsignal(number))]
        _handle(handled, lambda number, _frame: arrived.append(number), before)
        yield
    finally:
        handlers = dict(before)
        try:
            _restore(before)
        finally:
            _deliver(arrived, handlers)


def _deliver(arrived: list[int], handlers: dict[int, Any]) -> None:
    """Call each handler once, also when another raises.

    The handlers themselves: a signal that is raised again would be told twice to an event loop that listens.
    """
    raised: list[BaseException] = []  # emptied by raising: a frame that holds its error waits for the collector
    for number in dict.fromkeys(arrived):
        try:
            handlers[number](number, sys._getframe())
        except BaseException as error:
            raised[:] = [error]
    if raised:
        raise raised.pop()


def _handle(numbers: Iterable[int], handler: Any, before: dict[int, Any]) -> None:
    """Set a handler and note those before it. A signal that is ignored, as in a background job, stays ignored."""
    for number in numbers:
        found = signal.getsignal(number)
        if found not in (signal.SIG_IGN, None):  # None: a handler that Python did not install
            before[number] = found  # noted first: the handlers that are not replaced yet may raise at any moment
            signal.signal(number, handler)


def _restore(before: dict[int, Any]) -> None:
    """Set these handlers again, all of them: those that are set again may raise while others are not yet."""
    raised: list[BaseException] = []
    while before:
        try:
            for number in list(before):
                signal.signal(number, before[number])
                del before[number]
        except BaseException as error:
            raised[:] = [error]
    if raised:
        raise raised.pop()
