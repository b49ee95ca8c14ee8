"""What a model is, and how it is stored: a JSON header and named arrays (:mod:`gappletron.play.saved`)."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.data.records.encoder import Encoder
from gappletron.data.stream import MOST_FEATURES
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.pieces import Piece
from gappletron.kernel.spelling import piece_classes
from gappletron.learners.learner import Learner
from gappletron.online.answers import Answers
from gappletron.online.receipts import Receipt, Receipts, Session
from gappletron.play import player_files, saved
from gappletron.play.options import Options, PlayerOptions
from gappletron.play.player import Player
from gappletron.play.turns import Turn, check_turn

FIRST_FEATURES = 1024
FORMAT = "gappletron.Online"
"""The kind of a file."""
MOST_NAME = 100
"""Characters in the name of a session."""
MOST_SESSIONS = 256
"""Past sessions whose receipts are told from those of other models."""
DAMAGED = "a waiting receipt does not fit the model: the file is damaged"


class SavedPlayer(Player):
    """A player whose pickles, and copies, are the bytes of a saved model: nothing in them can run code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(SavedPlayer.from_bytes, pieces=piece_classes(self.learner)), (self.to_bytes(),)


@dataclass
class Contents:
    """What a model is: :class:`gappletron.Online` adds a lock and a journal, and :mod:`gappletron.online.transitions`
    change it.

    `marks` are places in the log of a journal with the number of rounds up to there.
    """

    player: Player
    encoder: Encoder | None
    receipts: Receipts
    answers: Answers = field(default_factory=Answers)
    marks: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def make(
        cls,
        learner: Learner | str = "auto",
        graph: FeedbackGraph | None = None,
        features: int | str = "grow",
        encoder: Encoder | None = None,
        **options: Any,
    ) -> Contents:
        """Return a new model with the arguments of :class:`gappletron.Online`."""
        if not isinstance(learner, Learner | str) and graph is None:
            raise UserError(f"{learner!r} is not a learner, which comes first: write Online(graph=...)")
        if graph is None:
            raise UserError(
                "there is no feedback graph: say what is seen after which prediction, for example "
                "graph=FeedbackGraph.filtering(['ham', 'spam']), where only what is predicted as ham is looked at"
            )
        chosen = Options.parse(options)
        limit = whole(chosen.feature_limit, "feature_limit", least=1, most=MOST_FEATURES)
        first: Any = features
        if encoder is not None:
            first = _count_features(encoder, features)
        elif features == "grow":
            first = min(FIRST_FEATURES, limit)
        elif isinstance(features, str):
            raise UserError(f"features={features!r} is neither a number nor 'grow': give one of them")
        names = [field.name for field in dataclasses.fields(PlayerOptions)]
        own = {name: value for name, value in options.items() if name in names}
        player = Player(learner, graph, first, rows="vectors" if encoder is None else "records", **own)
        if encoder is None and features == "grow":
            player.feature_limit = limit
        return cls(player, encoder, Receipts(0, chosen.pending, chosen.pending_bytes, chosen.pending_age))

    def copy(self) -> Contents:
        """Return a copy that shares nothing that changes; its marks are those of no journal."""
        return Contents(copy.copy(self.player), self.encoder, self.receipts.copy(), copy.copy(self.answers))

    def replace_encoder(self, encoder: Encoder | None) -> None:
        """Set another encoder with as many features."""
        features = self.player.features
        if self.encoder is None or encoder is None or encoder.features != features:
            raise UserError(
                f"the model takes {'vectors' if self.encoder is None else f'{features} features'}, so it cannot have "
                "this encoder: make another model"
            )
        self.encoder = encoder

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return everything that the model is, as a JSON-ready header and named arrays."""
        header, arrays = player_files.describe(self.player)
        about, receipts = self.describe_receipts()
        return header | about, arrays | receipts | self.answers.to_arrays()

    def describe_receipts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what the model is beside its player and its answers; the arrays are its own."""
        receipts, rounds = self.receipts, self.player.rounds
        graphs, arrays = _write_receipts(self)
        header = {
            "sessions": [*receipts.past.values(), receipts.session._replace(stop=rounds)],
            "pending": receipts.limits,
            "feature_limit": self.player.feature_limit,
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "graphs": graphs,
            "marks": list(self.marks),
        }
        return header, arrays | {"expired": np.array(receipts.last_expired, np.int64)}

    def compare(self) -> dict[str, Any]:
        """Return everything that the model is, by name; times and sessions, in which equal models differ, are left
        out.
        """
        header, arrays = self.describe()
        del header["sessions"], header["marks"], header["now"], arrays["times"]
        return header | {name: (array.shape, array.tobytes()) for name, array in arrays.items()}

    @classmethod
    def build(cls, pieces: Iterable[type[Piece]], header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Contents:
        """Return the model of :meth:`describe`, checked; `pieces` are classes that its learner is made of."""
        player = player_files.build(Player, pieces, header, arrays)
        limit = header["feature_limit"]
        if limit is not None:
            player.feature_limit = whole(limit, "feature_limit", least=player.features, most=MOST_FEATURES)
        encoder = None if header["encoder"] is None else Encoder.from_dict(header["encoder"])
        if encoder is not None and (encoder.features != player.features or limit is not None):
            raise UserError("the encoder does not fit the number of features: the file is damaged")
        marks = [(whole(at, "a mark"), whole(rounds, "a mark")) for at, rounds in header["marks"]]
        return cls(player, encoder, _read_receipts(header, arrays, player), Answers.from_arrays(arrays), marks)


def _count_features(encoder: Any, features: Any) -> int:
    """Return the number of features of a model with this encoder."""
    if not isinstance(encoder, Encoder):
        raise UserError(f"{encoder!r} is not an encoder: give Encoder(), or one with your columns")
    if features not in ("grow", encoder.features):
        raise UserError(
            f"features={features!r} was given beside an encoder with {encoder.features} features: say it there, as in "
            "Encoder(features=2**16)"
        )
    return encoder.features


# ------------------------------------------------------------------------------------------------------------- receipts


def _write_receipts(model: Contents) -> tuple[list[Any], dict[str, NDArray[Any]]]:
    """Return the waiting receipts for a file: their graphs other than the model's own, as JSON, and named arrays.

    A model may have a million of them, and nobody can use it meanwhile: so their records are written as they are.
    """
    receipts, own = model.receipts.waiting, model.player.graph
    turns = [receipt.turn for receipt in receipts]
    graphs = list(dict.fromkeys(turn.graph for turn in turns if turn.graph is not own))
    places = {graph: place for place, graph in enumerate(graphs)}
    arrays: dict[str, NDArray[Any]] = {}
    for graph, place in places.items():
        arrays |= saved.graph_arrays(graph, f".{place}")
    arrays |= {
        "receipts.records": np.concatenate([np.zeros(0), *(turn.record for turn in turns)]),
        "receipts.sizes": np.array([turn.record.size for turn in turns], np.int64),
        "receipts.graphs": np.array([-1 if turn.graph is own else places[turn.graph] for turn in turns], np.int64),
        "times": np.array([receipt.time for receipt in receipts], np.float64),
    }
    return [saved.graph_header(graph) for graph in graphs], arrays


def _read_receipts(header: dict[str, Any], arrays: dict[str, NDArray[Any]], player: Player) -> Receipts:
    """Return the receipts of a file, checked; those issued from now on have a session of their own."""
    receipts = Receipts(player.rounds, *header["pending"])
    past = _check_sessions(header["sessions"], player.rounds)
    for serial, turn, issued in _read_turns(header["graphs"], arrays, player, receipts.limit):
        session = next((each.name for each in past if each.first <= serial < each.stop), None)
        if session is None:
            raise UserError("a waiting receipt belongs to no session: the file is damaged")
        receipts.add(Receipt(session, serial, turn, issued))
    serials = arrays["expired"]
    if serials.ndim != 1 or serials.dtype != np.int64 or serials.size > receipts.limit:
        raise UserError("the expired receipts do not fit the model: the file is damaged")
    receipts.expired.update((whole(each, "a serial", most=player.rounds - 1), None) for each in serials.tolist())
    if not receipts.pending.keys().isdisjoint(receipts.expired):
        raise UserError("a receipt is both waiting and expired: the file is damaged")
    needed = {receipt.session for receipt in receipts.pending.values()}
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


def _read_turns(
    headers: list[Any], arrays: dict[str, NDArray[Any]], player: Player, most: int
) -> Iterator[tuple[int, Turn, float]]:
    """Return the serial numbers, turns and times of the waiting receipts of a file, checked."""
    graphs = [player.graph, *(saved.graph_of(about, arrays, f".{place}") for place, about in enumerate(headers))]
    if not all(graph.may_precede(player.graph) for graph in graphs):
        raise UserError(DAMAGED)
    kinds = {
        "receipts.records": np.float64,
        "receipts.sizes": np.int64,
        "receipts.graphs": np.int64,
        "times": np.float64,
    }
    records, sizes, places, times = (arrays[name] for name in kinds)
    if any(arrays[name].dtype != kind or arrays[name].ndim != 1 for name, kind in kinds.items()):
        raise UserError(DAMAGED)
    if sizes.size > most or (sizes <= 0).any() or records.size != sizes.sum() or not np.isfinite(times).all():
        raise UserError(DAMAGED)
    by_score = type(player.learner).choice is Learner.choice
    width, least = player.width, 0
    parts = np.split(records, np.cumsum(sizes)[:-1]) if sizes.size else []
    for record, place, time in zip(parts, places.tolist(), times.tolist(), strict=True):
        turn = Turn(graphs[whole(place, "a graph", least=-1, most=len(headers) - 1) + 1], width, record.copy())
        if not check_turn(turn) or time < 0.0 or (by_score and int(np.argmax(turn.scores)) != turn.greedy):
            raise UserError(DAMAGED)
        least = whole(turn.round, "a serial", least=least, most=player.rounds - 1) + 1
        yield turn.round, turn, time
