"""Every exception of the library, in one tree.

::

    ValueError
    └── UserError              input that cannot be used; one sentence: what is wrong, where, what to do
        ├── UnknownReceipt     the receipt is not from this model
        ├── SpentReceipt       the receipt was learned from, forgotten, or has expired
        ├── KeyReused          an idempotency key came again with another request
        ├── NotDeciding        a model that follows another was asked to decide
        ├── TooManyWaiting     too many receipts wait for feedback
        └── Unavailable        it cannot be done now, and may work later without any change
            ├── Elsewhere      another process has the model open
            └── NotLeading     a server that follows another was asked for a change
    RuntimeError
    └── ServiceError           what the client of the service raises
    KeyboardInterrupt
    └── Terminated             a signal other than Ctrl-C's asks the process to end
    Exception
    └── Damaged                stored bytes are not those that were written; always turned into a UserError

The public ones are shown as ``gappletron.UserError`` and so on, the way in which users import them.
"""

from __future__ import annotations


class UserError(ValueError):
    """Input that cannot be used. Its text is one sentence: what is wrong, where, what to do.

    >>> from gappletron import FeedbackGraph
    >>> FeedbackGraph.bandit(1)
    Traceback (most recent call last):
        ...
    gappletron.UserError: a graph needs at least 2 classes, not 1: name two or more
    """

    __module__ = "gappletron"

    def at(self, place: str) -> UserError:
        """Return the same error with a place in front: which of many rows it is about.

        >>> print(UserError("x has no numbers: give some").at("row 3"))
        row 3: x has no numbers: give some
        """
        return type(self)(f"{place}: {self}")


class UnknownReceipt(UserError):
    """The receipt is not from this model.

    >>> issubclass(UnknownReceipt, UserError)
    True
    """

    __module__ = "gappletron"


class SpentReceipt(UserError):
    """The receipt was learned from, forgotten, or has expired: no feedback can be given for it any more.

    >>> issubclass(SpentReceipt, UserError)
    True
    """

    __module__ = "gappletron"


class KeyReused(UserError):
    """An idempotency key came again with another request."""


class NotDeciding(UserError):
    """A model that follows another one was asked for a decision, or given feedback."""


class TooManyWaiting(UserError):
    """So many receipts wait for feedback that no more decisions are made."""


class Unavailable(UserError):
    """It cannot be done now, and may work later without any change of the request: the disk is full, for example.

    >>> issubclass(Unavailable, UserError)
    True
    """

    __module__ = "gappletron"


class Elsewhere(Unavailable):
    """Another process of a fleet has the model open: `address` is where it answers."""

    def __init__(self, sentence: str, address: str) -> None:
        super().__init__(sentence)
        self.address = address


class NotLeading(Unavailable):
    """A server that follows the log of another one was asked for a decision, or given feedback."""


class ServiceError(RuntimeError):
    """The service could not be reached, or could not do it; its text is the service's sentence.

    `status` is that of HTTP, and None where there was no answer.

    >>> ServiceError("the disk is full", 503).status
    503
    """

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


class Terminated(KeyboardInterrupt):
    """The process was asked to end by a signal other than Ctrl-C's; it is handled like Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Damaged(Exception):
    """Stored bytes are not those that were written."""
