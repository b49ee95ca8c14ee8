"""The receipts of a model that wait for feedback: how many may, which have expired, and which sessions issued them.

A signal handler may raise between any two steps; :class:`gappletron.Online` brings to its end what was interrupted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import number, whole
from gappletron.base.errors import SpentReceipt, UnknownReceipt, UserError
from gappletron.graphs.graph import FeedbackGraph
from gappletron.online.receipts import (
    Receipt,
    Session,
    checked_sessions,
    is_serial,
    new_session,
    read_receipts,
    split_id,
    write_receipts,
)
from gappletron.play.player import Player

__all__ = ["PENDING", "PENDING_BYTES", "Waiting"]

PENDING, PENDING_BYTES = 10_000, 2**28
"""How many receipts may wait for feedback unless said otherwise, and how much memory they may take."""
MOST_SESSIONS = 256
"""Past sessions whose receipts are told from those of other models."""


class Waiting:
    """The waiting receipts by their serial numbers, oldest first.

    :param first: the serial number of the first receipt that will be issued.
    :param limit: how many may wait.
    :param most_bytes: how much memory they may take.
    :param age: for how many seconds each may wait; None for any time.

    >>> waiting = Waiting(0)
    >>> len(waiting.pending), waiting.session.first
    (0, 0)
    """

    def __init__(
        self, first: int, limit: Any = PENDING, most_bytes: Any = PENDING_BYTES, age: float | None = None
    ) -> None:
        self.set_limits(limit, most_bytes, age)
        self.pending: OrderedDict[int, Receipt] = OrderedDict()
        self.expired: OrderedDict[int, None] = OrderedDict()
        """The last serial numbers that expired, as many as may wait."""
        self.nbytes = 0
        self.session = new_session(first)
        self.past: dict[str, Session] = {}

    def set_limits(self, limit: Any, most_bytes: Any, age: Any) -> None:
        """How many may wait, and for how long."""
        self.limit = whole(limit, "pending", least=1)
        self.most_bytes = whole(most_bytes, "pending_bytes", least=1)
        self.age = None if age is None else number(age, "pending_age", above=0.0)

    def __copy__(self) -> Waiting:
        copied = Waiting.__new__(Waiting)
        pending, expired = self.settled()
        copied.__dict__.update(self.__dict__, pending=pending, expired=expired, past=self.past.copy())
        copied.recount()
        return copied

    # ---------------------------------------------------------------------------------------------- coming and going

    def add(self, receipt: Receipt) -> None:
        """A receipt waits from now on."""
        self.pending[receipt.serial] = receipt
        self.nbytes += receipt._turn.record.nbytes

    def add_many(self, receipts: list[Receipt]) -> None:
        """These receipts wait from now on."""
        self.pending.update((receipt.serial, receipt) for receipt in receipts)
        self.nbytes += sum(receipt._turn.record.nbytes for receipt in receipts)

    def remove(self, receipt: Receipt) -> None:
        """A receipt waits no more."""
        self.pending.pop(receipt.serial, None)
        self.nbytes -= receipt._turn.record.nbytes

    def overdue(self, now: float) -> Iterator[Receipt]:
        """The oldest receipts, as long as too many wait, or for too long: each is to expire before the next is told."""
        while self.pending:
            oldest = next(iter(self.pending.values()))
            too_many = len(self.pending) > self.limit
            too_large = self.nbytes > self.most_bytes and len(self.pending) > 1
            too_old = self.age is not None and now - oldest.time > self.age
            if not (too_many or too_large or too_old):
                return
            yield oldest

    @property
    def may_be_overdue(self) -> bool:
        """Whether :meth:`overdue` need be asked."""
        return len(self.pending) > self.limit or self.nbytes > self.most_bytes or self.age is not None

    def expire(self, receipt: Receipt) -> None:
        """A receipt has expired."""
        self.expired[receipt.serial] = None
        self.remove(receipt)
        while len(self.expired) > self.limit:
            self.expired.popitem(last=False)

    def settled(self) -> tuple[OrderedDict[int, Receipt], OrderedDict[int, None]]:
        """The waiting and the expired receipts, as they are after the call that a signal handler has interrupted."""
        expired = OrderedDict(self.expired)
        waiting = OrderedDict((serial, receipt) for serial, receipt in self.pending.items() if serial not in expired)
        size = sum(receipt._turn.record.nbytes for receipt in waiting.values())
        while len(waiting) > self.limit or (size > self.most_bytes and len(waiting) > 1):
            serial, receipt = waiting.popitem(last=False)
            size -= receipt._turn.record.nbytes
            expired[serial] = None
        while len(expired) > self.limit:
            expired.popitem(last=False)
        return waiting, expired

    def recount(self) -> None:
        """Add up the memory of the receipts anew."""
        self.nbytes = sum(receipt._turn.record.nbytes for receipt in self.pending.values())

    # -------------------------------------------------------------------------------------------------------- finding

    def get(self, receipt: Any) -> Receipt | None:
        """The waiting receipt that is meant, by itself or by its id, in the usual cases; None where :meth:`find` is to
        be asked.
        """
        if type(receipt) is str:
            session, _, digits = receipt.rpartition("-")
            if is_serial(digits):
                found = self.pending.get(int(digits))
                return found if found is not None and found.session == session else None
        elif type(receipt) is Receipt and self.pending.get(receipt.serial) is receipt:
            return receipt
        return None

    def find(self, receipt: Any, rounds: int) -> Receipt:
        """The waiting receipt that is meant, by itself or by its id, after so many rounds; a UserError that says why
        there is none.
        """
        name = receipt.id if isinstance(receipt, Receipt) else receipt
        if not isinstance(name, str):
            raise UserError(f"{receipt!r} is not a receipt: give what act() returned, or its id")
        try:
            session, serial = split_id(name)
        except ValueError:
            raise _foreign(name) from None
        found = self.pending.get(serial)
        if found is not None and found.session == session:
            return found
        past = self.past.get(session)
        if past is not None and serial >= past.stop:
            raise UnknownReceipt(
                f"the receipt {name!r} was issued after this model was saved or copied, by the one that went on: "
                "give the feedback there; if that one is lost, so is what happened in between, so save more often"
            )
        known = self.session._replace(stop=rounds) if session == self.session.name else past
        if known is None or not known.first <= serial < known.stop:
            raise _foreign(name)
        if found is not None:
            return found
        if serial in self.expired:
            raise self._has_expired(name)
        raise SpentReceipt(
            f"the receipt {name!r} was already learned from, forgotten, or expired long ago: feedback counts once"
        )

    def _has_expired(self, name: str) -> SpentReceipt:
        too_long = "" if self.age is None else f", or it waited for more than {self.age:g} seconds"
        or_age = "" if self.age is None else " or pending_age"
        return SpentReceipt(
            f"the receipt {name!r} has expired, since more than {self.limit} others, or more than "
            f"{self.most_bytes:,} bytes, were waiting{too_long}: give the feedback sooner, or allow more with a larger "
            f"pending or pending_bytes{or_age}"
        )

    # ------------------------------------------------------------------------------------------------------- sessions

    def start_session(self, first: int, name: str | None = None) -> None:
        """From this round on receipts have another random part; those of before are known as past."""
        session = self.session._replace(stop=first)
        self.past[session.name] = session
        self.session = new_session(first) if name is None else Session(name, first, first)
        self.past.pop(self.session.name, None)  # a journal goes on with the session of its first snapshot

    def resume_session(self) -> None:
        """Go on with the last session of a file: the receipts that follow in a journal are its own."""
        _, self.session = self.past.popitem()

    # ------------------------------------------------------------------------------------------------------ in a file

    def header(self, rounds: int) -> dict[str, Any]:
        """What the header of a file says, ready for JSON."""
        return {
            "sessions": [*self.past.values(), self.session._replace(stop=rounds)],
            "pending_limit": self.limit,
            "pending_bytes": self.most_bytes,
            "pending_age": self.age,
        }

    def to_arrays(self, own: FeedbackGraph) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        """The receipts for a file: their graphs other than the model's own, ready for JSON, and named arrays."""
        waiting, expired = self.settled()
        graphs, arrays = write_receipts(waiting.values(), own)
        return graphs, arrays | {"expired": np.array(list(expired), np.int64)}

    @classmethod
    def restored(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], player: Player) -> Waiting:
        """The receipts of a file, checked; those issued from now on have a session of their own."""
        waiting = cls(player.rounds, header["pending_limit"], header["pending_bytes"], header.get("pending_age"))
        past = checked_sessions(header["sessions"], player.rounds)
        for serial, turn, issued in read_receipts(header["graphs"], arrays, player, waiting.limit):
            session = next((each.name for each in past if each.first <= serial < each.stop), None)
            if session is None:
                raise UserError("a waiting receipt belongs to no session: the file is damaged")
            waiting.add(Receipt(session, serial, turn, issued))
        waiting.expired = OrderedDict.fromkeys(_expired(arrays["expired"], waiting, player.rounds))
        needed = {receipt.session for receipt in waiting.pending.values()}
        kept = [each for place, each in enumerate(past, MOST_SESSIONS) if place >= len(past) or each.name in needed]
        waiting.past = {each.name: each for each in kept}
        return waiting


def _foreign(name: str) -> UnknownReceipt:
    return UnknownReceipt(f"the receipt {name!r} is not from this model: give one that its own decisions returned")


def _expired(serials: NDArray[Any], waiting: Waiting, rounds: int) -> list[int]:
    """The last expired receipts of a file, checked."""
    if serials.ndim != 1 or serials.dtype != np.int64 or serials.size > waiting.limit:
        raise UserError("the expired receipts do not fit the model: the file is damaged")
    found = [whole(serial, "a serial", most=rounds - 1) for serial in serials.tolist()]
    if not waiting.pending.keys().isdisjoint(found):
        raise UserError("a receipt is both waiting and expired: the file is damaged")
    return found
