"""Models and :func:`os.fork`: no lock of a model is held by another thread while the process forks.

A copy that is made in the middle of a round would be torn, and a lock that another thread held would never be released
in the child.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Protocol

from gappletron.base.signals import Held

__all__ = ["forks", "guard"]

forks = [0]
"""The number of forks between the first process and this one. After a fork, models start a new session."""


class Guarded(Protocol):
    """What has a lock that must be free when the process forks."""

    _lock: threading.RLock

    def _owns_lock(self) -> bool:
        """Whether this thread holds the lock."""

    def _leave_journal(self) -> None:
        """In a copy of the process: leave the journal to the process that opened it."""


_guarded: dict[int, weakref.ref[Guarded]] = {}
"""Every model of this process."""
_held_locks: list[threading.RLock] = []
"""The locks that are held while the process forks."""
_one_at_a_time = threading.Lock()
"""Held from before a fork to after it: two threads may fork at once."""
_held_signals = Held()
"""A handler that raises inside the functions below would leave locks behind. Its exception is lost in any case: Python
ignores those of functions that it calls around a fork, and says so on the standard error."""


def guard(model: Guarded) -> None:
    """From now on, hold the model's lock while the process forks."""
    key = id(model)
    _guarded[key] = weakref.ref(model, lambda _: _guarded.pop(key, None))


def _before_fork() -> None:
    _one_at_a_time.acquire()
    _held_signals.begin()
    patience = 0.05
    # Never wait for long with other locks held: a thread that has this lock may be waiting for one of those.
    while not _all_acquired(patience):
        _release_all()
        time.sleep(0.001)
        patience = min(2.0 * patience, 5.0)  # others may hold several for long, one after the other


def _all_acquired(patience: float) -> bool:
    """Take the locks of all models, also of those that are made meanwhile, but not again those that this thread has;
    False where one was not to be had in time.
    """
    while True:
        models = [reference() for reference in list(_guarded.values())]
        missing = [model._lock for model in models if model is not None and not model._owns_lock()]
        if not missing:
            return True
        for lock in missing:
            if not lock.acquire(timeout=patience):
                return False
            _held_locks.append(lock)


def _release_all() -> None:
    while _held_locks:
        _held_locks.pop().release()


def _after_fork_in_parent() -> None:
    _release_all()
    _one_at_a_time.release()
    _held_signals.end()


def _after_fork_in_child() -> None:
    forks[0] += 1
    _held_signals.arrived.clear()  # they were sent to the parent
    for reference in list(_guarded.values()):
        model = reference()
        if model is not None:
            model._leave_journal()
    _after_fork_in_parent()  # the thread that forks holds them all


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
