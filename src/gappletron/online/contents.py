"""What a model is, what it takes, and how it is stored (:mod:`gappletron.play.archive`)."""

import copy
import dataclasses
import functools
import itertools
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label
from gappletron.base.errors import SpentReceipt, UserError
from gappletron.data.arrays import check_sparse
from gappletron.data.records.columns import Block, is_many_records, to_table
from gappletron.data.records.encoder import Encoder, list_records
from gappletron.data.records.kept_names import KeptName, KeptNames
from gappletron.data.vectors import Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.compiling import list_classes, without_collection
from gappletron.kernel.numerics import UNSEEN_LABEL
from gappletron.kernel.pieces import Piece
from gappletron.kernel.types import Floats, Vector
from gappletron.learners.learner import Learner
from gappletron.online.journal import Journal
from gappletron.online.receipts import UNSEEN, Receipt, Receipts, Session, Unseen, WaitingLimits
from gappletron.play import archive
from gappletron.play.checks import check_many_scores
from gappletron.play.options import Options, PlayerOptions
from gappletron.play.player import Player
from gappletron.play.turns import ACTION, GREEDY, HEAD, Turn, check_records

# The kind of a file.
FORMAT = "gappletron.Online"
# Characters in the name of a session.
MOST_NAME = 100
# Past sessions whose receipts are told from those of other models.
MOST_SESSIONS = 256
# So many rows are played together; below that, holding signals back takes longer.
TOGETHER = 32
# So many numbers of waiting receipts are checked together.
MOST_NUMBERS = 2**20
DAMAGED = "a waiting receipt does not fit the model: the file is damaged"


class SavedPlayer(Player):
    """A player whose pickles, and copies, are the bytes of a saved model: nothing in them can run code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(SavedPlayer.from_bytes, pieces=list_classes(self.learner)), (self.to_bytes(),)


@dataclass
class Contents:
    """What a model is: :class:`gappletron.Online` adds a lock, and :mod:`gappletron.online.transitions` change it."""

    player: Player
    encoder: Encoder | None
    receipts: Receipts
    journal: Journal | None = None
    names: KeptNames = field(default_factory=KeptNames)
    """Of the features, where the encoder says that they are kept."""

    @classmethod
    def make(
        cls,
        learner: Learner | str = "auto",
        graph: FeedbackGraph | None = None,
        features: int | str = "grow",
        encoder: Encoder | None = None,
        **options: Any,
    ) -> Self:
        """Return a new model with the arguments of :class:`gappletron.Online`."""
        if graph is None:
            raise UserError(
                "there is no feedback graph: say what is seen after which prediction, for example "
                "graph=FeedbackGraph.filtering(['ham', 'spam']), where only what is predicted as ham is looked at"
            )
        chosen = Options.parse(options)
        if encoder is not None and not isinstance(encoder, Encoder):
            raise UserError(f"{encoder!r} is not an encoder: give Encoder(), or one with your columns")
        if encoder is not None and features not in ("grow", encoder.features):
            raise UserError(f"features={features!r} was given beside an encoder: leave it out")
        own = {each.name: getattr(chosen, each.name) for each in dataclasses.fields(PlayerOptions)}
        below, rows = (features, "vectors") if encoder is None else (encoder.features, "records")
        player = Player(learner, graph, below, rows=rows, **own)
        return cls(player, encoder, Receipts(0, WaitingLimits.select(chosen)))

    def copy(self) -> Self:
        """Return a copy that shares nothing that changes, without a journal."""
        return type(self)(copy.copy(self.player), self.encoder, self.receipts.copy(), names=self.names.copy())

    # ------------------------------------------------------------------------------------------ what comes from outside

    def check_row(self, x: Any) -> Vector:
        """Return a row or a record as a checked vector."""
        return self.player.check(x) if self.encoder is None else self.encoder.vector(x)

    def holds_many(self, x: Any) -> bool:
        """Return whether this is many rows rather than one; nothing is checked."""
        if self.encoder is not None:
            return is_many_records(x)
        if hasattr(x, "tocsr"):
            return bool(x.ndim == 2 and x.shape[0] != 1)
        if hasattr(x, "ndim"):
            return bool(x.ndim == 2)
        return isinstance(x, list) and bool(x) and not isinstance(x[0], numbers.Real) and np.ndim(x[0]) == 1

    def check_only_row(self, X: Any) -> Vector | None:
        """Return the row or the record of a batch of one to predict, checked; None where the batch is a larger one, or
        of another form: then it is looked at as such.
        """
        if self.encoder is not None:
            return self.encoder.vector(X[0]) if type(X) is list and len(X) == 1 else None
        return self.player.engine.checker.only_row(X)

    @property
    def keeps_names(self) -> bool:
        """Whether the names of features are kept."""
        return self.encoder is not None and self.encoder.names

    def find_new_names(self, records: Any, rows: list[Vector] | Vectors) -> list[KeptName]:
        """Return the names of checked records that are to be kept."""
        if self.encoder is None or not self.encoder.names or self.names.is_full:
            return []
        if isinstance(rows, Vectors):
            indices = np.split(rows.indices, rows.indptr[1:-1])
        else:
            indices = [row.indices for row in rows]
        table = to_table(records)
        each = list_records(records) if table is None else Block(table).records()
        return self.names.find_new(self.encoder, each, indices)

    def check_rows(self, X: Any) -> list[Vector] | Vectors:
        """Return many rows as checked vectors: few as single ones, many together. An error names the row.

        :param X: rows, an array, a sparse matrix, or with an encoder a table.
        """
        is_table = hasattr(X, "tocsr") or (self.encoder is not None and hasattr(X, "columns"))
        is_array = self.encoder is None and isinstance(X, np.ndarray) and X.ndim == 2
        rows: Any = X if is_table or is_array else list(X)
        if self.encoder is not None and (is_table or len(rows) >= TOGETHER):
            encoded = _encode(self.encoder, rows)
            return encoded if encoded.squared.size >= TOGETHER else encoded.each()
        if is_table:
            rows = X.tocsr()
        if (is_table or is_array) and rows.shape[0] >= TOGETHER:
            together = self.player.check_many(rows)
            if together is not None:
                return together
        if is_table:
            check_sparse(rows)
            rows = [(rows.indices[a:b], rows.data[a:b]) for a, b in itertools.pairwise(rows.indptr.tolist())]
        if len(rows) == 1:
            return [self.check_row(rows[0])]
        vectors = [_name_row(place, self.check_row, x) for place, x in enumerate(rows)]
        return vectors if len(vectors) < TOGETHER else Vectors.join(vectors)

    def check_many_scores(self, scores: Any, rows: int) -> Floats:
        """Return the scores that came with so many rows, checked and between -1 and 1 (n x K); empty for None."""
        return check_many_scores(self.player.learner, self.player.graph, scores, rows)

    def encode_rows(self, X: Any) -> Any:
        """Return a batch of records as checked vectors; other batches as they are."""
        return X if self.encoder is None or isinstance(X, Vectors) else self.encoder.vectors(X)

    def check_label(self, receipt: Receipt, label: Label | Unseen) -> int:
        """Return the position of a label that the action of a receipt reveals, or -1 for UNSEEN."""
        turn, own = receipt.turn, self.player.graph
        graph, action = turn.graph, int(turn.record.item(ACTION))
        if label is UNSEEN:
            # A class that was added since the action is one that the action did not reveal.
            if graph.arrays.revealing.item(action) and graph.n_classes == own.n_classes:
                raise UserError(
                    f"the action {receipt.action!r} reveals every label, so there is one to learn: give it, or forget "
                    "the receipt if the label will never be known"
                )
            return UNSEEN_LABEL
        if label is None and None not in own.classes:
            raise UserError(
                "the label None is no class: pass UNSEEN where the round is over and the label stayed hidden, and call "
                "forget() where no feedback will come"
            )
        position = own.class_index(label)
        if position >= graph.n_classes or not graph.visible.item(action, position):
            added = ", which was added later" if position >= graph.n_classes else ""
            raise UserError(
                f"the action {receipt.action!r} does not reveal the label {label!r}{added}, so learning from it would "
                'be biased: pass UNSEEN (over HTTP, "unseen": true)'
            )
        return position

    def check_feedback(self, feedback: Iterable[tuple[Receipt | str, Label | Unseen]]) -> list[tuple[Receipt, int]]:
        """Return the receipts of much feedback with the positions of their labels; each may stand there once."""
        found: dict[int, tuple[Receipt, int]] = {}
        for given, label in feedback:
            receipt = self.receipts.find(given, self.player)
            if receipt.serial in found:
                raise SpentReceipt(f"the receipt {receipt.id!r} stands twice in the feedback: feedback counts once")
            found[receipt.serial] = receipt, self.check_label(receipt, label)
        return list(found.values())

    # -------------------------------------------------------------------------------------------------------- as a file

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return everything that the model is, as a JSON-ready header and named arrays."""
        header, arrays = self.player.engine.describe()
        receipts = self.receipts
        graphs, waiting = _write_receipts(self)
        header |= {
            "sessions": [*receipts.past.values(), receipts.session._replace(stop=self.player.rounds)],
            "pending": receipts.limits,
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "graphs": graphs,
        }
        return header, arrays | waiting | (self.names.to_arrays() if self.keeps_names else {})

    def compare(self) -> dict[str, Any]:
        """Return everything that the model is, by name; times and sessions, in which equal models differ, are left
        out.
        """
        header, arrays = self.describe()
        del header["sessions"], header["now"], arrays["times"]
        return header | {name: (array.shape, array.tobytes()) for name, array in arrays.items()}

    @classmethod
    def build(cls, pieces: Iterable[type[Piece]], header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the model of :meth:`describe`, checked; `pieces` are classes that its learner is made of."""
        player = Player.build(header, arrays, pieces)
        encoder = None if header["encoder"] is None else Encoder.from_dict(header["encoder"])
        if encoder is not None and encoder.features != player.engine.features:
            raise UserError("the encoder does not fit the number of features: the file is damaged")
        with without_collection():  # of a million objects none is garbage
            receipts = _read_receipts(header, arrays, player)
        names = KeptNames.from_arrays(arrays) if encoder is not None and encoder.names else KeptNames()
        return cls(player, encoder, receipts, names=names)


def _encode(encoder: Encoder, records: Any) -> Vectors:
    """Return many records as checked vectors; an error names the record."""
    try:
        return encoder.vectors(records)
    except UserError:
        for place, record in enumerate(records if isinstance(records, list) else ()):
            _name_row(place, encoder.vector, record)
        raise


def _name_row(place: int, check: Callable[[Any], Vector], row: Any) -> Vector:
    """Return what a check of one row of many returns; its error says which row it is."""
    try:
        return check(row)
    except UserError as error:
        raise error.at(f"row {place}") from None


# ------------------------------------------------------------------------------------------------------------- receipts


def _write_receipts(model: Contents) -> tuple[list[Any], dict[str, NDArray[Any]]]:
    """Return the waiting receipts for a file: their graphs other than the model's own, as JSON, and named arrays.

    A model may have a million of them, and nobody can use it meanwhile: so their records are written as they are.
    """
    receipts, own = model.receipts.waiting, model.player.graph
    turns = [receipt.turn for receipt in receipts]
    graphs = [graph for graph in dict.fromkeys(turn.graph for turn in turns if turn.graph is not own) if graph != own]
    places = {graph: place for place, graph in enumerate(graphs)}
    arrays: dict[str, NDArray[Any]] = {}
    for graph, place in places.items():
        arrays |= archive.graph_arrays(graph, f".{place}")
    arrays |= {
        "receipts.records": np.concatenate([np.zeros(0), *(turn.record for turn in turns)]),
        "receipts.sizes": np.array([turn.record.size for turn in turns], np.int64),
        "receipts.graphs": np.array(
            [-1 if turn.graph is own else places.get(turn.graph, -1) for turn in turns], np.int64
        ),
        "times": np.array([receipt.time for receipt in receipts], np.float64),
    }
    return [archive.describe_graph(graph) for graph in graphs], arrays


def _read_receipts(header: dict[str, Any], arrays: dict[str, NDArray[Any]], player: Player) -> Receipts:
    """Return the receipts of a file, checked; those issued from now on have a session of their own."""
    receipts = Receipts(player.rounds, WaitingLimits.check(*header["pending"]))
    past = _check_sessions(header["sessions"], player.rounds)
    turns = _read_turns(header["graphs"], arrays, player, receipts.limits.pending)
    serials = np.array([turn.round for turn in turns], np.int64)
    places = np.searchsorted([session.first for session in past], serials, "right") - 1
    stops = np.array([session.stop for session in past])[places]
    if (np.diff(serials) <= 0).any() or (places < 0).any() or (serials >= stops).any():
        raise UserError("a waiting receipt belongs to no session: the file is damaged")
    columns = (places.tolist(), serials.tolist(), turns, arrays["times"].tolist())
    receipts.add(Receipt(past[place].name, *about) for place, *about in zip(*columns, strict=True))
    needed = {past[place].name for place in np.unique(places)}
    kept = [each for place, each in enumerate(past, MOST_SESSIONS) if place >= len(past) or each.name in needed]
    receipts.past = {each.name: each for each in kept}
    return receipts


def _check_sessions(rows: list[Any], rounds: int) -> list[Session]:
    """Return the sessions of a file that gave out receipts, checked."""
    found = [Session(*row) for row in rows]
    names = {session.name for session in found}
    bounds = [0, *itertools.chain(*(session[1:] for session in found))]
    if not all(isinstance(name, str) and 0 < len(name) <= MOST_NAME for name in names) or len(names) < len(found):
        raise UserError("the sessions share a name, or have none: the file is damaged")
    if not all(type(bound) is int for bound in bounds) or bounds != sorted(bounds) or bounds[-1] != rounds or not found:
        raise UserError("the sessions do not fit the number of rounds: the file is damaged")
    # One that issued nothing is of no use, but the last may have issued receipts after it was saved.
    return [session for session in found if session.stop > session.first or session is found[-1]]


def _read_turns(headers: list[Any], arrays: dict[str, NDArray[Any]], player: Player, most: int) -> list[Turn]:
    """Return the turns of the waiting receipts of a file, checked."""
    graphs = [player.graph, *(archive.build_graph(about, arrays, f".{place}") for place, about in enumerate(headers))]
    kinds = {"receipts.records": "float64", "receipts.sizes": "int64", "receipts.graphs": "int64", "times": "float64"}
    records, sizes, places, times = (arrays[name] for name in kinds)
    if any(arrays[name].dtype != kind or arrays[name].ndim != 1 for name, kind in kinds.items()):
        raise UserError(DAMAGED)
    is_right = sizes.size <= most and sizes.shape == places.shape == times.shape and records.size == sizes.sum()
    is_right = is_right and ((sizes > 0) & (sizes <= records.size) & (times >= 0.0) & (times < np.inf)).all()
    is_right = is_right and ((places >= -1) & (places < len(headers))).all()
    if not is_right or not all(graph.may_precede(player.graph) for graph in graphs):
        raise UserError(DAMAGED)
    ends = np.cumsum(sizes)
    for place, graph in enumerate(graphs, -1):
        here = np.flatnonzero(places == place)
        step = MOST_NUMBERS // int(sizes[here].max(initial=1)) + 1
        for part in np.split(here, range(step, here.size, step)):
            starts = (ends - sizes)[part]
            _check_records(player, graph, records, starts, sizes[part])
    spans = zip(places.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True)
    return [Turn(graphs[place + 1], player.engine.index, records[start:end].copy()) for place, start, end in spans]


def _check_records(
    player: Player, graph: FeedbackGraph, records: Floats, starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> None:
    """Refuse parts of an array that are not records of waiting turns of a player on a graph."""
    rows, kept = player.engine.index.rows, player.learner.keeps(graph.n_classes)
    if not check_records(graph, rows, kept, records, starts, sizes):
        raise UserError(DAMAGED)
    scores = records[starts[:, np.newaxis] + HEAD + graph.n_actions + np.arange(graph.n_classes)]
    by_score = type(player.learner).choice is Learner.choice
    if by_score and (scores.argmax(1) != records[starts + GREEDY]).any():
        raise UserError(DAMAGED)
