"""What a model is: its player, its encoder, the receipts that wait and the answers that are kept; also in files.

:class:`gappletron.Online` adds what makes it safe to use: a lock, care for signals and forks, and a journal.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from numpy.typing import NDArray

from gappletron.base.checks import Label, whole
from gappletron.base.errors import UserError
from gappletron.data.records.encoder import Encoder
from gappletron.data.stream import MOST_FEATURES
from gappletron.data.vectors import Vector, Vectors
from gappletron.kernel.numerics import UNSEEN_LABEL
from gappletron.kernel.pieces import Piece
from gappletron.online.answers import Answers
from gappletron.online.receipts import UNSEEN, Receipt, Unseen
from gappletron.online.waiting import Waiting
from gappletron.play.player import Player
from gappletron.play.watch import NoWatch

__all__ = ["FORMAT", "TOGETHER", "Parts"]

T = TypeVar("T")

FORMAT = "gappletron.Online"
"""The kind of a file."""
TOGETHER = 32
"""So many rows are played together; below that, holding signals back takes longer."""


class Parts:
    """A model without a lock and without a journal.

    `feature_limit` is the most features of a growing model, else None. `marks` are places in the log of a journal with
    the number of rounds up to there.

    >>> from gappletron import FeedbackGraph, Player
    >>> parts = Parts(Player("auto", FeedbackGraph.bandit(3), features=2))
    >>> len(parts.waiting.pending), parts.encoder
    (0, None)
    """

    def __init__(
        self,
        player: Player,
        encoder: Encoder | None = None,
        feature_limit: int | None = None,
        waiting: Waiting | None = None,
        answers: Answers | None = None,
    ) -> None:
        self.player, self.encoder, self.feature_limit = player, encoder, feature_limit
        self.waiting = Waiting(player.rounds) if waiting is None else waiting
        self.answers = Answers() if answers is None else answers
        self.marks: list[tuple[int, int]] = []
        player.may_have_more = feature_limit is not None

    def __copy__(self) -> Parts:
        """A copy that shares nothing that changes; its marks are those of no journal."""
        player, waiting, answers = copy.copy(self.player), copy.copy(self.waiting), copy.copy(self.answers)
        return Parts(player, self.encoder, self.feature_limit, waiting, answers)

    def made_of(self) -> dict[str, Any]:
        """The arguments that a model like this one is made with."""
        player = self.player
        found = {"learner": player.learner, "graph": player.graph, "features": player.features}
        return found | {"encoder": self.encoder, "monitor": not isinstance(player.watch, NoWatch)}

    # ------------------------------------------------------------------------------------------------------------- rows

    def matrix(self, X: Any) -> Any:
        """A batch of records as the rows of a sparse matrix; other batches, also those encoded before, as they are."""
        return X if self.encoder is None or hasattr(X, "tocsr") else self.encoder.matrix(X)

    def taken(self, x: Any) -> Vector:
        """x for a call that learns, checked, and the player grown for it where it grows."""
        return self.player.take(x if self.encoder is None else self.encoder.encode(x), self.feature_limit)

    def taken_many(self, X: Any) -> list[Vector] | Vectors:
        """Rows for a call that learns, checked: few as single vectors, many together. Nothing grows before all are
        checked.

        :param X: a list of rows, a sparse matrix, or with an encoder a table.
        """
        rows, limit = X, self.feature_limit
        if isinstance(X, list) and len(X) == 1:
            return [self.taken(X[0])]
        if self.encoder is not None and (not isinstance(X, list) or len(X) >= TOGETHER):
            rows = self._encoded(X)
        elif self.encoder is None and hasattr(X, "tocsr"):
            rows = X.tocsr()
        if hasattr(rows, "indptr"):
            together = self.player.take_many(rows, limit) if rows.shape[0] >= TOGETHER else None
            if together is not None:
                return together
            ends = rows.indptr.tolist()
            rows = [(rows.indices[a:b], rows.data[a:b]) for a, b in itertools.pairwise(ends)]
            vectors = [named_row(place, self.player.checked, x, limit) for place, x in enumerate(rows)]
        else:
            vectors = [named_row(place, self._checked, x) for place, x in enumerate(rows)]
        if limit is not None:
            for vector in vectors:
                self.player.make_room(vector, limit)
        return vectors if len(vectors) < TOGETHER else Vectors.joined(vectors)

    def _checked(self, x: Any) -> Vector:
        return self.player.checked(x if self.encoder is None else self.encoder.encode(x), self.feature_limit)

    def _encoded(self, records: Any) -> Any:
        """Many records as a sparse matrix; an error names the record."""
        assert self.encoder is not None
        try:
            return self.encoder.matrix(records)
        except UserError:
            if isinstance(records, list):
                for place, record in enumerate(records):
                    named_row(place, self.encoder.encode, record)
            raise

    # --------------------------------------------------------------------------------------------------------- receipts

    def found(self, receipt: Receipt | str) -> Receipt:
        """The waiting receipt that is meant."""
        found = self.waiting.get(receipt)
        return self.waiting.find(receipt, self.player.rounds) if found is None else found

    def position(self, receipt: Receipt, label: Label | Unseen) -> int:
        """The position of a label that the action of a receipt reveals, or that of none."""
        turn, own = receipt._turn, self.player.graph
        graph, action = turn.graph, turn.action
        if label is UNSEEN:
            # A class that was added since the action is one that the action did not reveal.
            if graph.arrays.revealing.item(action) and graph.n_classes == own.n_classes:
                raise UserError(
                    f"the action {receipt.action!r} reveals every label, so there is one to learn: give it, or "
                    "forget the receipt if the label will never be known"
                )
            return UNSEEN_LABEL
        position = own.class_index(label)
        if position >= graph.n_classes:
            raise UserError(
                f"the class {label!r} was added after the action of receipt {receipt.id!r}, which does not reveal it: "
                'pass UNSEEN (over HTTP, "unseen": true)'
            )
        if not graph.visible.item(action, position):
            raise UserError(
                f"the action {receipt.action!r} does not reveal the label {label!r}, so learning from it would be "
                'biased: pass UNSEEN (over HTTP, "unseen": true)'
            )
        return position

    # --------------------------------------------------------------------------------------------------------- in files

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything that the model is, as a JSON-ready header and named arrays."""
        header, arrays = self.player.snapshot()
        about, receipts = self.beside_player()
        return header | about, arrays | receipts | self.answers.to_arrays()

    def beside_player(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What the model is beside its player and its answers; the arrays are its own."""
        graphs, arrays = self.waiting.to_arrays(self.player.graph)
        header = self.waiting.header(self.player.rounds) | {
            "feature_limit": self.feature_limit,
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "graphs": graphs,
            "marks": list(self.marks),
        }
        return header, arrays

    def comparable(self) -> dict[str, Any]:
        """Everything that the model is, by name; times and sessions, in which equal models differ, are left out."""
        header, arrays = self.snapshot()
        del header["sessions"], header["marks"], header["now"], arrays["times"]
        return header | {name: (array.shape, array.tobytes()) for name, array in arrays.items()}

    @classmethod
    def restored(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], pieces: Iterable[type[Piece]]) -> Parts:
        """The model of a :meth:`snapshot`, checked; `pieces` are classes that its learner is made of."""
        player = Player.restored(header, arrays, pieces)
        limit = header["feature_limit"]
        if limit is not None:
            limit = whole(limit, "feature_limit", least=player.features, most=MOST_FEATURES)
        saved = header.get("encoder")  # absent in files of version 0.1
        encoder = None if saved is None else Encoder.from_dict(saved)
        if encoder is not None and (encoder.features != player.features or limit is not None):
            raise UserError("the encoder does not fit the number of features: the file is damaged")
        waiting, answers = Waiting.restored(header, arrays, player), Answers.from_arrays(arrays)
        parts = cls(player, encoder, limit, waiting, answers)
        parts.marks = [(whole(at, "a mark"), whole(rounds, "a mark")) for at, rounds in header.get("marks", ())]
        return parts


def named_row(place: int, check: Callable[..., T], *arguments: Any) -> T:
    """What a check of one row of many returns; its error says which row it is."""
    try:
        return check(*arguments)
    except UserError as error:
        raise error.at(f"row {place}") from None
