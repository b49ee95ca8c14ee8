"""Who may use a model when: one thread at a time, with every change logged before it is acknowledged."""

import functools
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Concatenate, ParamSpec, Self, TypeVar

from gappletron.base.errors import UserError
from gappletron.online import transitions
from gappletron.online.contents import FORMAT, Contents
from gappletron.online.journal import Snapshot
from gappletron.online.store import Trouble

# What tells this process from its forks: to ask the system for its number takes longer than the lock.
process = [object()]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: process.__setitem__(0, object()))

P = ParamSpec("P")
T = TypeVar("T")


class DurableModel:
    """A model that one thread at a time uses, and whose changes are logged before they are acknowledged.

    Where a signal handler raises in the middle of a change, the next one begins with :meth:`_settle`: what has happened
    is read off the records.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._lock = threading.RLock()  # reentrant: a signal handler may save in the middle of a call
        # Return whether this thread is in the middle of a call or of a block of :meth:`hold`.
        self._is_inside: Callable[[], bool] = self._lock._is_owned  # type: ignore[attr-defined]
        # Whether the thread that has the lock is in the middle of a call; a handler that raises leaves it False.
        self._is_busy = False
        # Whether the thread that has the lock is in a block of :meth:`hold`.
        self._is_held = False
        self._process = process[0]

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the store, also where no call has failed yet: a snapshot in the background that could
        not be stored, or files that were removed. None where all is well, or where there is no store.
        """
        return None if self._contents.journal is None else self._contents.journal.trouble

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_process(self) -> None:
        """Refuse use in a forked child: the lock and the store belong to the parent."""
        if self._process is not process[0]:
            raise UserError(
                "this process is a copy (fork) of the one that made the model: make or load a model in this process"
            )

    def _check_outside(self) -> None:
        """Refuse a change in the middle of another call, unless a block of :meth:`hold` is all that is around it."""
        if self._is_busy or not self._is_held:
            raise UserError(
                "the model is in the middle of another call, which a signal handler has interrupted (or an x that runs "
                "code of its own): there it may be saved and looked at; change it after that call has ended"
            )

    def _begin_change(self) -> None:
        """Finish what was interrupted, and write what could not be written; at the beginning of every change."""
        if self._contents.journal is not None and not self._is_held:  # a block must not be refused in its middle
            self._contents.journal.check()
        self._settle()

    def _settle(self) -> None:
        """Finish or drop what an interrupted call left behind: receipts wait or expire as the records say."""
        contents, receipts = self._contents, self._contents.receipts
        if contents.journal is not None:
            contents.journal.drop_undone()  # first: what was announced and not done is announced again
        if not receipts.is_settled or (receipts.limits.pending_age is not None and not self._is_held):
            receipts.settle()
            transitions.expire_overdue(contents, time.time())

    def hold(self) -> AbstractContextManager[None]:
        """Inside the block no other thread uses the model, and no call waits for the disk; :meth:`commit` does later.

        What happens inside is logged together: after a crash all of it is there, or nothing. A server uses this: it
        collects the requests that arrive while the disk is busy, and one write serves them all.
        """
        return _Block(self._hold())

    def _hold(self) -> Generator[None]:
        self._check_process()
        if self._is_inside():
            raise UserError("a hold() block was begun inside of another one or of a call: one block is enough")
        with self._lock:
            self._begin_change()
            self._is_held = True
            try:
                yield
            finally:
                self._is_held = False
                self._publish()

    def _publish(self) -> None:
        """Finish what an interrupted call left behind, and let all that has happened be written."""
        try:
            self._settle()
        finally:
            if self._contents.journal is not None:
                self._contents.journal.publish()

    def commit(self) -> None:
        """Return when everything up to now is stored; after a full disk, try again to store it.

        Every call does this by itself, except inside :meth:`hold`. Without a store there is nothing to wait for.
        """
        self._check_process()
        if self._contents.journal is not None and not self._is_inside():
            with self._lock:
                self._publish()
        self._store()

    def _store(self) -> None:
        """Write what is published, without the lock; and a snapshot where it is time for one."""
        journal = self._contents.journal
        if journal is not None:
            journal.commit()
            if journal.is_snapshot_due and not self._is_inside():
                journal.put_snapshot_in_background(self._copy_state)

    def checkpoint(self) -> None:
        """Store a snapshot of the state now, so that opening again need not replay the log.

        This happens by itself, in the background, once in `snapshot_every` events, and in :meth:`close`.
        """
        self._check_process()
        if self._is_inside():
            raise UserError("checkpoint() or close() was called in the middle of a call or of a hold() block")
        if self._contents.journal is None:
            raise UserError("the model has no store: use save(), or make it with Online.open()")
        self._contents.journal.put_snapshot(self._copy_state)

    def close(self) -> None:
        """Store a snapshot and let another process open the store; afterwards the model can only be looked at.

        Without a store there is nothing to close.
        """
        self._check_process()
        journal = self._contents.journal
        if journal is not None:
            try:
                if not journal.is_closed:
                    self.checkpoint()
            finally:
                if not self._is_inside():
                    journal.close()

    def _copy_state(self) -> Snapshot:
        """Return a copy of the state for the journal, all of which is stored."""
        with self._lock:
            contents, journal = self._contents, self._contents.journal
            assert journal is not None
            self._publish()
            journal.commit()
            at, rounds = journal.store.count, contents.player.rounds
            header, arrays = contents.describe()
            return Snapshot(at, rounds, FORMAT, header, {name: array.copy() for name, array in arrays.items()})


class _Block:
    """What :meth:`DurableModel.hold` returns: a generator as a context manager.

    A signal handler may raise when the generator has taken the lock and before the block begins. Then the generator is
    closed at once; contextlib would let it hold the lock for as long as the exception lives.
    """

    def __init__(self, generator: Generator[None]) -> None:
        self._generator = generator

    def __enter__(self) -> None:
        try:
            next(self._generator)
        except BaseException:
            self._generator.close()
            raise

    def __exit__(self, *error: object) -> None:
        self._generator.close()


M = TypeVar("M", bound=DurableModel)


def changing(method: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Decorate a method that changes the model: alone under the lock, and stored when it returns."""

    @functools.wraps(method)
    def call(self: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
        contents = self._contents
        self._check_process()
        if self._is_inside():
            self._check_outside()
        with self._lock:
            self._is_busy = True
            try:
                receipts = contents.receipts
                if contents.journal is not None or not receipts.is_settled or receipts.limits.pending_age is not None:
                    self._begin_change()
                result = method(self, *args, **kwargs)
                if contents.journal is not None and not self._is_held:
                    contents.journal.publish()
            finally:
                self._is_busy = False
        if contents.journal is not None and not self._is_inside():
            self._store()
        return result

    return call


def looking(method: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Decorate a method that changes nothing: alone under the lock. A signal handler may call it in any other call."""

    @functools.wraps(method)
    def call(self: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._check_process()
        with self._lock:
            was_busy, self._is_busy = self._is_busy, True
            try:
                return method(self, *args, **kwargs)
            finally:
                self._is_busy = was_busy

    return call
