"""Who may use a model when: one thread at a time, with every change logged before it is acknowledged."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from gappletron.base.errors import UserError
from gappletron.base.signals import held_back
from gappletron.graphs.graph import FeedbackGraph
from gappletron.online import events, transitions
from gappletron.online.journal import Journal, Snapshot
from gappletron.online.saved import FORMAT, Contents
from gappletron.online.settings import find_versions
from gappletron.play import player_files

P = ParamSpec("P")
T = TypeVar("T")


class Access:
    """A lock around the contents of a model, and its journal, if it has one.

    Where a signal handler raises in the middle of a change, the next one begins with :meth:`settle`: what has happened
    is read off the records.
    """

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.journal: Journal | None = None
        self.lock = threading.RLock()  # reentrant: a signal handler may save in the middle of a call
        self.is_inside: Callable[[], bool] = self.lock._is_owned  # type: ignore[attr-defined]
        """Return whether this thread is in the middle of a call or of a block of :meth:`hold`."""
        self.is_changing = False
        """Whether a change is being made; a handler that raises leaves it False."""
        self._held_by: int | None = None
        self.process = os.getpid()

    def check_process(self) -> None:
        """Refuse a copy of the process (fork): another thread may have held the lock, and the journal is not its."""
        if self.process != os.getpid():
            raise UserError(
                "this process is a copy (fork) of the one that made the model, which goes on there: make or load a "
                "model in this process"
            )

    def check_outside(self) -> None:
        """Refuse a change in the middle of another one, unless a block of :meth:`hold` is all that is around it."""
        if self.is_changing or self._held_by is None:
            raise UserError(
                "the model is in the middle of another call, which a signal handler has interrupted (or an x that runs "
                "code of its own): there, it may be saved and looked at; act, learn, teach, forget, grow or add a "
                "class after that call has ended"
            )

    def attach(self, journal: Journal, changes: dict[str, Any]) -> None:
        """Log from now on, with these options changed. The session is new, so its name is logged first."""
        receipts, player = self.contents.receipts, self.contents.player
        names = ("pending", "pending_bytes", "pending_age")
        receipts.set_limits(*(changes.get(name, kept) for name, kept in zip(names, receipts.limits, strict=True)))
        opened = events.Opened(receipts.session.name, player.rounds, time.time(), find_versions(), receipts.limits)
        limits = player.limits.changed(changes.get("min_propensity"), changes.get("budget", "keep"))
        self.journal = journal
        with self.lock:
            journal.add_event(opened)
            transitions.expire_overdue(self.contents, time.time(), journal)  # the limits may have changed
            if limits != player.limits:
                self.change(events.Limited(limits.to_dict(), time.time()))
            self.publish()
        journal.commit()

    def settle(self) -> None:
        """Bring to its end what a signal handler has interrupted; at the beginning of every change."""
        journal, receipts = self.journal, self.contents.receipts
        is_outside = self._held_by is None  # a block of hold() has begun with it, and must not be refused in its middle
        if journal is not None:
            journal.settle()
            journal.refuse_gap()
            if is_outside:
                journal.check()
        if (is_outside and receipts.age is not None) or not receipts.is_settled:
            self._settle_receipts()

    def _settle_receipts(self) -> None:
        """Let receipts wait, or expire, as an interrupted call would have done."""
        if self.journal is not None:
            self.journal.settle()  # first: what was announced and not done is announced again
        self.contents.receipts.settle()
        transitions.expire_overdue(self.contents, time.time(), self.journal)

    def publish(self) -> None:
        """Let what a change has logged be written, unless a block of :meth:`hold` goes on; at its end."""
        if self.journal is not None:
            self.journal.settle()
            if self._held_by is None:
                self.journal.publish()

    def acknowledge(self) -> None:
        """Wait until a change is stored; after it, without the lock."""
        if self.journal is not None and self._held_by != threading.get_ident():
            self.commit()

    def change(self, event: events.Event, graphs: dict[int, FeedbackGraph] | None = None) -> None:
        """Make a change that no record tells of, and log it: signals wait meanwhile."""
        with held_back():
            transitions.apply(self.contents, event, graphs or {})
            if self.journal is not None:
                with self.journal.noting_gaps():
                    self.journal.add_event(event)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Let no other thread in, and no call wait for the disk; what happens inside is logged together."""
        self.check_process()
        if self.is_inside():
            raise UserError("a hold() block was begun inside of another one or of a call: one block is enough")
        with self.lock:
            self.settle()
            self._held_by = threading.get_ident()
            try:
                yield
            finally:
                self._held_by = None
                if not self.contents.receipts.is_settled:
                    self._settle_receipts()
                self.publish()

    def commit(self) -> None:
        """Return when everything up to now is stored."""
        if self.journal is not None:
            self.check_process()
            self.journal.commit()
            if self.journal.is_snapshot_due and not self.is_inside():
                self.journal.put_snapshot_in_background(self._copy_state)

    def checkpoint(self) -> None:
        """Store a snapshot of the state now."""
        self.check_process()
        self._refuse_inside("checkpoint()")
        if self.journal is None:
            raise UserError("the model has no journal: use save(), or make it with Online.open()")
        self.journal.put_snapshot(self._copy_state)

    def close(self) -> None:
        """Store a snapshot and let another process open the store."""
        self.check_process()
        journal = self.journal
        if journal is not None and not journal.is_closed:
            self._refuse_inside("close()")
            try:
                self.checkpoint()
            finally:
                journal.close()

    def _refuse_inside(self, name: str) -> None:
        if self.is_inside():
            raise UserError(f"{name} was called in the middle of a call or of a hold() block: call it afterwards")

    def _copy_state(self) -> Snapshot:
        """Return a copy of the state for the journal, and what of the log need not be kept any more."""
        with self.lock:
            contents, journal = self.contents, self.journal
            assert journal is not None
            journal.refuse_gap()  # a snapshot of what was not logged would not fit the log
            if not contents.receipts.is_settled:
                self._settle_receipts()
            self.publish()
            at, rounds = journal.begin_part(), contents.player.rounds
            contents.marks.append((at, rounds))
            header, arrays = player_files.describe(contents.player)
            copied = {name: array.copy() for name, array in arrays.items()}
            about, receipts = contents.describe_receipts()
            stop = None
            if journal.policy.keep_rows is not None:
                last = rounds - journal.policy.keep_rows
                stop = max((place for place, before in contents.marks if before <= last), default=0)
                contents.marks = [mark for mark in contents.marks if mark[0] >= stop]
            answers = copy.copy(contents.answers)
            return Snapshot(at, FORMAT, header | about, copied | receipts, answers.to_arrays, stop)


class HasAccess(Protocol):
    """What has an :class:`Access`."""

    _access: Access


M = TypeVar("M", bound=HasAccess)


def changing(method: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Decorate a method that changes the model: alone under the lock, and stored when it returns."""

    @functools.wraps(method)
    def call(self: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
        access = self._access
        if access.process != os.getpid():
            access.check_process()
        if access.is_inside():
            access.check_outside()
        with access.lock:
            access.is_changing = True
            try:
                receipts = access.contents.receipts
                if access.journal is not None or not receipts.is_settled or receipts.age is not None:
                    access.settle()
                result = method(self, *args, **kwargs)
                if access.journal is not None:
                    access.publish()
            finally:
                access.is_changing = False
        if access.journal is not None:
            access.acknowledge()
        return result

    return call


def looking(method: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Decorate a method that changes nothing: alone under the lock. A signal handler may call it in any other call."""

    @functools.wraps(method)
    def call(self: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
        access = self._access
        access.check_process()
        with access.lock:
            return method(self, *args, **kwargs)

    return call
