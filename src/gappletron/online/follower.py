"""A copy of a stored model that follows its log: what a read replica answers from, and a standby takes over with."""

import time
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, NamedTuple, Self

from gappletron.base.errors import Unavailable
from gappletron.kernel.pieces import Piece
from gappletron.online.database import NAME, Place
from gappletron.online.journal import Journal, Policy
from gappletron.online.model import Online
from gappletron.online.opening import begin_logging, find_changes, read_pasts, recover, replay
from gappletron.online.store import BLOCK, Store


class Lag(NamedTuple):
    """How far a copy is behind: the rounds that were missing when the log was last read, and the seconds since the copy
    had all of it.
    """

    rounds: int
    seconds: float


class Follower:
    """A copy of a stored model, as far as its log was read. The process that writes the log knows nothing of it.

    `model` is for looking at: predictions, weights, receipts that wait. A change of it would be a change of the copy
    alone, which does not fit the log any more. After :meth:`take_over` it is a model like any other.

    :param place, name, pieces: as those of :meth:`gappletron.Online.open`.

    >>> import tempfile
    >>> from gappletron import FeedbackGraph, Online
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = f"{folder}/mail.sqlite"
    ...     with Online.open(place, graph=FeedbackGraph.full(["a", "b"]), features=2) as model:
    ...         with Follower(place) as follower:
    ...             model.learn(model.act([0.5, 1.0]), "b")
    ...             follower.catch_up(), follower.model.rounds, follower.model.differences(model)
    (2, 1, [])
    """

    def __init__(self, place: str | PathLike[str], *, name: str = NAME, pieces: Iterable[type[Piece]] = ()) -> None:
        self._place, self._name = place, name
        # Whether this process writes the log.
        self.is_leading = False
        self._is_whole, self._behind, self._level = True, 0, time.monotonic()
        self._store = Store(place, name)
        try:
            self._contents = recover(self._store, tuple(pieces), self._store.snapshots(), self._store.count)
            self._contents.receipts.resume_session()
            self.model = Online._from_contents(self._contents)
            # The number of the next event that is read.
            self.position = self._store.count
        except BaseException:
            self._store.close()
            raise

    @property
    def stored_as(self) -> tuple[Place, str]:
        """The URL or the file of the store that it follows, and the name of the model there."""
        return self._store.place, self._store.model_name

    @property
    def lag(self) -> Lag | None:
        """How far it is behind; None where it writes the log itself."""
        return None if self.is_leading else Lag(self._behind, time.monotonic() - self._level)

    @property
    def is_lost(self) -> bool:
        """Whether it can neither follow nor lead any more, so that another follower must be made in its place."""
        return not self._is_whole or self._store.database.problem is not None

    def catch_up(self) -> int:
        """Read what was stored since the last call, at most 10,000 events, and make it again; return how many events
        that were.

        An :class:`gappletron.base.errors.Unavailable` may be tried again, unless :attr:`is_lost`.
        """
        begin, store = time.monotonic(), self._store
        loss = store.database.problem = store.database.find_loss()
        if loss is not None:
            raise Unavailable(loss)
        store.refresh()
        stop = min(store.count, self.position + BLOCK)
        # This and the models of earlier times come before the lock is taken: predictions do not wait for them.
        events = list(store.events(self.position, stop))
        last = store.read("SELECT round FROM acts WHERE model = ? ORDER BY seq DESC LIMIT 1") if events else []
        self._is_whole = False
        known = read_pasts(self._contents, store, events)
        with self.model._lock:
            replay(self._contents, store, events, known=known)
        self._is_whole, self.position = True, stop
        self._behind = max(0, last[0][0] + 1 - self.model.rounds) if last else 0
        if stop == store.count:
            self._level = begin
        return len(events)

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the arguments of a model that may change; the others must be those that it has."""
        return find_changes(self._store, self._contents, given)

    @property
    def is_led(self) -> bool:
        """Whether a process that shows signs of life writes the log."""
        return self._store.database.is_led(self._store.model)

    def take_over(self, policy: Policy, given: Mapping[str, Any]) -> None:
        """Become the writer of the log, read it to its end, and let `model` go on from there.

        A UserError, and nothing has changed, where another process writes it. After an error :attr:`is_lost` may be
        true.

        :param given: arguments of the model, as those of :meth:`gappletron.Online.open`.
        """
        store = Store(self._place, self._name, policy.durability)
        try:
            while self.catch_up():
                pass
            changes = self.check(given)
            if self.position != store.count:
                raise Unavailable(f"another process has written to the store {store.name!r} meanwhile: try again")
            self._is_whole = False
            with self.model._lock:
                self._contents.receipts.start_session(self.model.rounds)
                begin_logging(self._contents, Journal(store, policy), changes)
            self._is_whole = self.is_leading = True
        except BaseException:
            store.close()
            raise
        self._store, followed = store, self._store
        followed.close()

    def close(self) -> None:
        """Stop following; `model` stays as it is, and is closed too where it is the one that writes."""
        try:
            if self.is_leading and not self.is_lost:
                self.model.close()
        finally:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
