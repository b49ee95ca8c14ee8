"""A copy of a stored model that follows its log: what a read replica answers from, and a standby takes over with."""

from collections.abc import Iterable
from os import PathLike
from typing import Self

from gappletron.kernel.pieces import Piece
from gappletron.online.database import NAME
from gappletron.online.model import Online
from gappletron.online.opening import recover, replay
from gappletron.online.store import Store


class Follower:
    """A copy of a stored model, as far as its log was read. The process that writes the log knows nothing of it.

    `model` is for looking at: predictions, weights, receipts that wait. A change of it would be a change of the copy
    alone, which does not fit the log any more.

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

    def catch_up(self) -> int:
        """Read what was stored since the last call, and make it again; return how many events that were."""
        self._store.refresh()
        start, self.position = self.position, self._store.count
        with self.model._lock:
            replay(self._contents, self._store, start, self.position)
        return self.position - start

    def close(self) -> None:
        """Stop following; `model` stays as it is."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
