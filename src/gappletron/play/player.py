"""A learner that plays: its state, the plan of its graph, and its random generator, for whole chunks or single rounds.

:meth:`Player.advance` plays the rounds of a chunk; :meth:`Player.act` and :meth:`Player.learn` are the two halves of
one round. Any mixture of them gives the same bits. Classes and actions are positions in the graph here;
:class:`gappletron.Online` is the layer above that knows names and receipts, and :func:`gappletron.play` the one that
plays streams.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import UserError
from gappletron.data.normalization import AsGiven, Copied, Normalization, Room, normalization_of
from gappletron.data.prepared import Prepared, prepared
from gappletron.data.stream import MOST_FEATURES, Chunk, frozen
from gappletron.data.vectors import NO_VECTOR, Checker, Vector, Vectors, batches_of, sparse_parts
from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.compiling import can_be_loaded, entry, in_mode, is_interpreted, same_types
from gappletron.kernel.numerics import UNSEEN_LABEL, Floats, is_distribution
from gappletron.kernel.packed import Packed, packed
from gappletron.kernel.pieces import Piece
from gappletron.kernel.spelling import decode_piece, encode_piece
from gappletron.kernel.state import Sizes, State, check_shapes
from gappletron.learners.learner import Learner
from gappletron.learners.registry import check_can_play, named
from gappletron.play import saved
from gappletron.play.limits import Limits, NoLimits, limits_of
from gappletron.play.rounds import (
    ACTION,
    FOLLOWS,
    GREEDY,
    HEAD,
    LEARNED,
    PLAYED,
    RATE,
    ROUND,
    SQUARED,
    Counts,
    Desk,
    Losses,
    Rows,
    Tally,
    act,
    act_rows,
    advance,
    follow,
    generator,
    learn,
    learn_rows,
    many_greedy,
    many_label_probabilities,
    many_probabilities,
    new_clock,
    new_desk,
    new_record,
    new_tally,
    own_part,
    record_size,
    row_indices,
    row_size,
    row_values,
    scale_rows,
    teach,
)
from gappletron.play.watch import NoWatch, Watching, check_saved, watch_of

__all__ = ["Player", "Turn", "Turns", "learner_of"]

FORMAT = "gappletron.Player"
MOST_PLANS = 64
MOST_ROUNDS = 2**53
"""A record holds the number of its round as a float."""
AS_GIVEN = AsGiven()
NO_MARKS = np.zeros(0, np.int64)
NO_MARKS.flags.writeable = False
NO_LABELS = np.zeros(0, np.int64)
NO_NUMBERS = np.zeros(0)
NO_ROWS = frozen(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64))


class Turn:
    """An action that was drawn, and all that learning from it later needs.

    `graph` is the feedback graph of the round; actions and classes are positions in it. `record` holds all numbers
    (:func:`gappletron.play.rounds.new_record`).

    >>> turn = Player("gapsmh", FeedbackGraph.bandit(3), features=2).act([1.0, 0.5])
    >>> turn.greedy, turn.probabilities.round(2).tolist()
    (0, [0.33, 0.33, 0.33])
    """

    __slots__ = ("features", "graph", "record")

    def __init__(self, graph: FeedbackGraph, features: int, record: Floats) -> None:
        self.graph, self.features, self.record = graph, features, record

    @property
    def nbytes(self) -> int:
        """The memory of its numbers."""
        return self.record.nbytes

    @property
    def x(self) -> Vector:
        """The row as the learner sees it: with the bias first, and scaled."""
        record = self.record
        return Vector(_read_only(row_indices(record)), _read_only(row_values(record)), record.item(SQUARED))

    @property
    def round(self) -> int:
        """The number of the round, from 0; -1 where the action was not drawn yet."""
        return int(self.record.item(ROUND))

    @property
    def action(self) -> int:
        """The action drawn."""
        return int(self.record.item(ACTION))

    @property
    def greedy(self) -> int:
        """The class that the learner would predict without exploration, y*."""
        return int(self.record.item(GREEDY))

    @property
    def rate(self) -> float:
        """The rate of exploration, gamma_t."""
        return float(self.record[RATE])

    @property
    def probability(self) -> float:
        """The probability of the action drawn."""
        return self.record.item(HEAD + self.action)

    @property
    def probabilities(self) -> Floats:
        """The probability of every action; not to be written to, since learning will need it."""
        return _read_only(self.record[HEAD : HEAD + self.graph.n_actions])

    @property
    def own_probabilities(self) -> Floats:
        """The learner's own distribution, where the turn follows the decision of another; else as `probabilities`."""
        own = own_part(self.record, self.graph.n_actions)
        return _read_only(own) if own.size else self.probabilities

    @property
    def is_following(self) -> bool:
        """Whether the action is that of another's decision: see :meth:`Player.follow`."""
        return self.record.item(FOLLOWS) > 0.0

    def decision(self) -> Floats:
        """The numbers that a journal keeps: the round, the action, y*, and the probability of every action."""
        return self.record[ROUND : HEAD + self.graph.n_actions]

    @property
    def scores(self) -> Floats:
        """The score of every class at prediction time; after :meth:`Player.learn` those that it was learned at."""
        start = HEAD + self.graph.n_actions
        return _read_only(self.record[start : start + self.graph.n_classes])


class Turns(NamedTuple):
    """The turns of many rounds, the first of which is number `first`; the record of turn t is the part of `records`
    from `ends[t]` to `ends[t + 1]`.
    """

    graph: FeedbackGraph
    features: int
    first: int
    ends: NDArray[np.int64]
    records: Floats

    def each(self) -> list[Turn]:
        """The turns one by one, as copies: one that waits for long must not keep the others in memory."""
        graph, features, records, ends = self.graph, self.features, self.records, self.ends.tolist()
        return [Turn(graph, features, records[a:b].copy()) for a, b in itertools.pairwise(ends)]

    def decisions(self) -> Floats:
        """The numbers of each that a journal keeps (:meth:`Turn.decision`), in a row."""
        return self.records[self.ends[:-1, np.newaxis] + np.arange(ROUND, HEAD + self.graph.n_actions)]


def _checked_random(state: Any) -> dict[str, Any]:
    """The state of a PCG64 generator, as NumPy gives it: its numbers are copied without another look."""
    numbers = state["state"]
    for value, bits in (
        (numbers["state"], 128),
        (numbers["inc"], 128),
        (state["has_uint32"], 1),
        (state["uinteger"], 32),
    ):
        whole(value, "a number of the random state", most=2**bits - 1)
    if state["bit_generator"] != "PCG64" or numbers["inc"] % 2 == 0:
        raise UserError("the random state is not one of PCG64: the file is damaged")
    return {"bit_generator": "PCG64", **{key: state[key] for key in ("state", "has_uint32", "uinteger")}}


def _read_only(view: NDArray[Any]) -> NDArray[Any]:
    view.flags.writeable = False
    return view


def _with_prefix(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with the prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _rows_of(header: dict[str, Any], pieces: Iterable[type[Piece]]) -> tuple[Normalization, bool]:
    """The normalization and the bias of a saved player; those of version 0.1 had none."""
    normalization = decode_piece(header.get("normalization", encode_piece(AS_GIVEN)), tuple(pieces))
    bias = header.get("bias", False)
    if not isinstance(normalization, Normalization) or type(bias) is not bool:
        raise UserError("the normalization or the bias is not one: the file is damaged")
    return normalization, bias


def _watch_of(header: dict[str, Any], pieces: Iterable[type[Piece]]) -> Watching:
    """The watch of a saved player; those of version 0.1 had none."""
    watch = decode_piece(header["watch"], tuple(pieces)) if "watch" in header else NoWatch()
    if not isinstance(watch, Watching):
        raise UserError("the watch is not one: the file is damaged")
    return watch


def _bias_of(given: Any, learner: Learner) -> bool:
    """Whether rows get a bias."""
    if given == "auto":
        return learner.default_bias
    if type(given) is not bool:
        raise UserError(f"bias must be True, False or 'auto', not {given!r}")
    return given


def for_records(normalize: Any, bias: Any) -> tuple[Any, Any]:
    """What ``"auto"`` means for records, whose columns have any scale: for the learners of the paper as well."""
    return ("columns" if normalize == "auto" else normalize), (True if bias == "auto" else bias)


def _one_row(vector: Vector, label: int = 0) -> Prepared:
    """A checked vector as a chunk of one row."""
    indptr = np.array([0, vector.indices.size])
    features = int(vector.indices[-1]) + 1 if vector.indices.size else 0
    chunk = frozen(indptr, vector.indices, vector.values, np.array([label]))
    return Prepared(chunk, np.array([vector.squared]), features, label + 1)


def _propensities(given: Any, rows: int) -> Floats:
    """The probabilities with which the labels of so many rows were observed; None stands for 1."""
    if given is None:
        return np.ones(rows)
    try:
        found = np.array(given, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"propensity must be a number for each row, not {type(given).__name__}") from None
    if found.shape not in ((), (rows,)):
        raise UserError(f"propensity has the shape {found.shape}, and there are {rows} rows: give a number for each")
    if not ((found > 0.0) & (found <= 1.0)).all():  # so NaN is refused as well
        raise UserError("propensity has a value that is not above 0 and at most 1: give probabilities")
    return np.full(rows, found) if found.ndim == 0 else found


def _distribution(given: Any, actions: int) -> Floats:
    """Probabilities of so many actions, checked."""
    try:
        found = np.array(given, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"probabilities must be {actions} numbers, one for each action") from None
    if found.shape != (actions,):
        raise UserError(
            f"probabilities have the shape {found.shape}, and there are {actions} actions: give one for each"
        )
    if not is_distribution(found):
        raise UserError("probabilities must be numbers from 0 to 1 that add up to 1")
    return found


def learner_of(given: Any) -> Learner:
    """A learner, or the one of this name."""
    if isinstance(given, str):
        return named(given)
    if not isinstance(given, Learner):
        raise UserError(f"{given!r} is not a learner: give one, or the name of one")
    return given


class Player:
    """A learner on a feedback graph: it owns the state, the plan made from the graph, and the random generator.

    :param learner: a learner, or the name of one.
    :param graph: which action reveals which label.
    :param features: the number of features; indices run from 0 to features - 1.
    :param seed: of the random generator.
    :param repeat: which of several runs with this seed; each has its own draws.
    :param normalize: how rows are scaled before the learner sees them: ``"columns"``, ``"unit"``, ``"log1p-unit"``,
        None (as they are), or ``"auto"``, what the learner is made for: none for those of the paper.
    :param bias: whether rows get one more feature that is always 1; ``"auto"`` as above. It is the first row of the
        weights.
    :param watch: True, or a :class:`gappletron.Watch`, where the rounds are to be watched: then a
        :class:`gappletron.Monitor` estimates the error from the labels that were seen.
    :param limits: :class:`gappletron.Limits` on the exploration: a least propensity, a budget.

    >>> from gappletron import FeedbackGraph, Player, Synthetic
    >>> player = Player("gapsmh", FeedbackGraph.bandit(3), features=40, seed=1)
    >>> for chunk in Synthetic(classes=3, features=40, noise=0, rounds=1000).chunks():
    ...     player.advance(chunk)
    >>> turn = player.act(([0, 7], [1.0, 1.0]))
    >>> player.learn(turn, label=turn.action)  # positions of classes; -1 where the label was not revealed
    >>> player.rounds, player.weights.shape
    (1001, (40, 3))
    """

    graph: FeedbackGraph
    may_have_more: bool = False
    """Whether :meth:`predict_many`, :meth:`scores` and :meth:`probabilities` take rows with more features than there
    are: that of a growing model."""
    needs_time: bool
    """Whether anything depends on :attr:`now`."""
    _state: State
    _watched: State
    _limited: State
    _plan: Plan
    _desk: Desk
    _bare: int
    _plans: OrderedDict[FeedbackGraph, Plan]
    _desks: OrderedDict[FeedbackGraph, Desk]
    _packs: OrderedDict[FeedbackGraph, Packed]
    _own_pack: Packed | None
    _kernels: dict[Any, Any]
    _full: FeedbackGraph | None
    _act: Any
    _act_rows: Any
    _follow: Any
    _learn: Any
    _learn_rows: Any

    def __init__(
        self,
        learner: Learner | str,
        graph: FeedbackGraph,
        features: int,
        seed: int = 0,
        *,
        repeat: int = 0,
        normalize: Normalization | str | None = "auto",
        bias: bool | str = "auto",
        watch: Watching | bool | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.learner = learner_of(learner)
        self.normalization = normalization_of(normalize, self.learner.default_normalize)
        self.bias = _bias_of(bias, self.learner)
        self.watch, self.limits = watch_of(watch), limits_of(limits)
        if not isinstance(graph, FeedbackGraph):
            raise UserError(
                f"{graph!r} is not a FeedbackGraph: make one, for example FeedbackGraph.bandit(['a', 'b', 'c'])"
            )
        check_can_play(self.learner, graph)
        features = whole(features, "features", least=1, most=MOST_FEATURES) + self.bias
        self._clock = new_clock()
        self._now = np.zeros(1)
        # Kept: machine code and packed arguments must not be mixed with plain ones.
        self._interpreted = is_interpreted()
        self._rng = generator(whole(seed, "the seed"), whole(repeat, "repeat"))
        self._first_draw = (0, self._rng.bit_generator.state)
        self._is_drawing = False
        self.checker = Checker()
        self._scales = State(self.normalization.declare(), Sizes(features, 1, 1))
        self._limited = State(self.limits.piece().declare(), Sizes(1, 1, 1))
        state = State(self.learner.declare(), Sizes(features, graph.n_classes, graph.n_actions))
        watched = State(self.watch.declare(), Sizes(1, graph.n_classes, graph.n_actions))
        self._bind(graph, state, watched, self.learner.plan(graph))

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: what the player is, without machine code and addresses."""
        return {
            "made": (self.learner, self.graph, self.features),
            "options": {
                "normalize": self.normalization,
                "bias": self.bias,
                "watch": self.watch,
                "limits": self.limits,
            },
            "mode": self._interpreted,
            "arrays": {name: array.copy() for name, array in self._state.arrays.items()},
            "scales": {name: array.copy() for name, array in self._scales.arrays.items()},
            "watched": {name: array.copy() for name, array in self._watched.arrays.items()},
            "limited": {name: array.copy() for name, array in self._limited.arrays.items()},
            "rounds": self.rounds,
            "now": self.now,
            "random": self._random_state(),
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        with in_mode(saved["mode"]):
            self.__init__(*saved["made"], **saved["options"])  # type: ignore[misc]
        self._watched.load(saved["watched"])
        self._limited.load(saved["limited"])
        self._resume(saved["arrays"], saved["scales"], saved["rounds"], saved["now"], saved["random"])

    def _resume(
        self,
        arrays: dict[str, NDArray[Any]],
        scales: dict[str, NDArray[Any]],
        rounds: int,
        now: float,
        random: dict[str, Any],
    ) -> None:
        """Go on from the state that a player had after so many rounds."""
        self._state.load(arrays)
        self._scales.load(scales)
        self._clock[PLAYED] = rounds
        self._now[0] = now
        self._first_draw = (rounds, random)
        self._synchronise()

    def __repr__(self) -> str:
        return f"<Player {self.learner.name} on {self.graph}: {self.rounds} rounds, {self.features} features>"

    @property
    def rounds(self) -> int:
        """The number of rounds played so far."""
        return int(self._clock[PLAYED])

    @property
    def now(self) -> float:
        """The time of the next rounds, in seconds: for budgets by time, and for the points of a watch's curve.

        Nothing here reads a clock: whoever acts sets it.
        """
        return float(self._now[0])

    @now.setter
    def now(self, seconds: float) -> None:
        is_plain = type(seconds) is float and 0.0 <= seconds < math.inf  # every decision of a server sets it
        self._now[0] = seconds if is_plain else number(seconds, "now", least=0.0)

    @property
    def spent(self) -> float | None:
        """What exploration has cost so far; None without a budget."""
        return None if self.limits.budget is None else float(self._limited.tuple.spending.spent[1])

    def spent_until(self, now: float) -> float | None:
        """What exploration has cost so far in the budget's window of the next round, which comes at this time; None
        without a budget.
        """
        return self.limits.spent_in_window(self._limited.tuple, self.rounds, now)

    def begin_watch(self, watch: Watching | bool = True) -> None:
        """Watch the rounds from now on, where none were watched so far.

        >>> player = Player("auto", FeedbackGraph.bandit(3), features=2)
        >>> player.begin_watch()
        >>> player.watch
        Watch(window=10000, alpha=0.05)
        """
        if not isinstance(self.watch, NoWatch):
            raise UserError("the player is watched already: a watch lasts as long as its player")
        begun = watch_of(watch)
        watched = State(begun.declare(), Sizes(1, self.graph.n_classes, self.graph.n_actions))
        self.watch = begun
        self._bind(self.graph, self._state, watched, self._plan)

    def watched(self) -> State:
        """A copy of what the watch has written down, for :class:`gappletron.Monitor`."""
        return self._watched.resized(self._watched.sizes)

    @property
    def last_learned(self) -> int:
        """The number of the round that the last call of :meth:`learn` was about; -1 if there was none."""
        return int(self._clock[LEARNED])

    @property
    def features(self) -> int:
        """The number of features, without the bias."""
        return self._state.sizes.features - self.bias

    @property
    def width(self) -> int:
        """The number of features that the learner sees, with the bias."""
        return self._state.sizes.features

    @property
    def nbytes(self) -> int:
        """The memory of the state."""
        return self._state.nbytes + self._scales.nbytes + self._watched.nbytes

    @property
    def weights(self) -> Floats:
        """W as a matrix of features x classes; with a bias, its weights are the first row."""
        return self.learner.weights(self._state.tuple)[:, : self.graph.n_classes].copy()

    def _bind(self, graph: FeedbackGraph, state: State, watched: State, plan: Plan) -> None:
        """Take over a graph, states of its size and its plan; no machine code yet. Nothing here can fail half-way."""
        new: dict[str, Any] = {
            "graph": graph,
            "_state": state,
            "_watched": watched,
            "_plan": plan,
            "_desk": self._new_desk(graph, self._scales, watched),
            "_desks": OrderedDict(),
            "_bare": record_size(graph.n_classes, graph.n_actions),
            "_plans": OrderedDict({graph: plan}),
            "_packs": OrderedDict(),
            "_own_pack": None,
            "_kernels": {},
            "_full": None,
            "_act": None,
            "_act_rows": None,
            "_follow": None,
            "_learn": None,
            "_learn_rows": None,
            "needs_time": not (isinstance(self.watch, NoWatch) and isinstance(self.limits.piece(), NoLimits)),
        }
        self.__dict__.update(new)  # in one step: a signal handler may raise between any two others

    def _new_desk(self, graph: FeedbackGraph, scales: State, watched: State) -> Desk:
        """Room for a round on this graph."""
        normalization = Copied() if self.bias and self.normalization == AS_GIVEN else self.normalization
        desk = new_desk(graph.n_classes, graph.n_actions, self._clock, normalization, scales.tuple, int(self.bias))
        return desk._replace(
            now=self._now,
            limits=self.limits.piece(),
            limited=self._limited.tuple,
            bounds=self.limits.bounds(graph),
            watch=self.watch,
            watched=watched.tuple,
            sight=self.watch.sight(graph),
        )

    def _desk_of(self, graph: FeedbackGraph) -> Desk:
        """The desk for rounds on this graph; those of the last 64 graphs are kept."""
        if graph is self.graph or (isinstance(self.watch, NoWatch) and isinstance(self._desk.limits, NoLimits)):
            return self._desk
        if graph in self._desks:
            self._desks.move_to_end(graph)
            return self._desks[graph]
        desk = self._desk._replace(sight=self.watch.sight(graph), bounds=self.limits.bounds(graph))
        self._desks[graph] = desk
        if len(self._desks) > MOST_PLANS:
            self._desks.popitem(last=False)
        return desk

    def compile_rounds(self) -> None:
        """Compile, or load from the cache, what :meth:`act` and :meth:`learn` need."""
        record, player = new_record(self._record_size(0)), self._packed(self.graph)
        with in_mode(self._interpreted):
            self._act = entry(act, player, *NO_VECTOR, 0.5, 0, record)
            self._learn = entry(learn, player, record, UNSEEN_LABEL)

    def _packed(self, graph: FeedbackGraph) -> Packed:
        """The arguments of rounds on this graph that do not change; those of the last 64 graphs are kept."""
        if graph is self.graph and self._own_pack is not None:
            return self._own_pack
        if graph in self._packs:
            self._packs.move_to_end(graph)
            return self._packs[graph]
        if not graph.may_precede(self.graph):
            raise UserError(f"the graph {graph.name!r} is not one that this player had: learn from its own turns")
        state = self._state.view(graph.n_classes)
        with in_mode(self._interpreted):
            pack = self._packs[graph] = packed(self.learner, state, self._plan_of(graph), self._desk_of(graph))
        if graph is self.graph:
            self._own_pack = pack
        if len(self._packs) > MOST_PLANS:
            self._packs.popitem(last=False)
        return pack

    def _plan_of(self, graph: FeedbackGraph) -> Plan:
        """The plan of a graph; the last 64 are kept."""
        if graph is self.graph:
            return self._plan
        if graph in self._plans:
            self._plans.move_to_end(graph)
            return self._plans[graph]
        check_can_play(self.learner, graph)
        plan = self.learner.plan(graph)
        if not same_types(plan, self._plan):
            raise UserError(
                f"{self.learner.name} makes a table of another type for the graph {graph.name!r}, and compiled code "
                "expects the same types for every graph"
            )
        self._plans[graph] = plan
        if len(self._plans) > MOST_PLANS:
            self._plans.popitem(last=False)
        return plan

    def _checked_graph(self, graph: FeedbackGraph | None) -> FeedbackGraph:
        """The graph of one round: the player's own, or another over the same classes and actions."""
        if graph is None or graph is self.graph:
            return self.graph
        if not isinstance(graph, FeedbackGraph):
            raise UserError(f"{graph!r} is not a FeedbackGraph: the graph of a round is one")
        if graph == self.graph:
            return self.graph  # the same object, so that a saved model goes on with the same bits
        if graph.classes != self.graph.classes or graph.actions != self.graph.actions:
            raise UserError(
                f"the graph {graph.name!r} has other classes or actions than the player's {self.graph.name!r}: a "
                "round's graph changes edges and costs only"
            )
        return graph

    # ----------------------------------------------------------------------------------------------------------- chunks

    def advance(
        self,
        chunk: Chunk | Prepared,
        tally: Tally | None = None,
        *,
        record: Counts | Losses | None = None,
        graphs: Sequence[FeedbackGraph] | None = None,
    ) -> None:
        """Play every round of a chunk: draw an action, see what the graph reveals, learn.

        :param tally: where mistakes, labels seen and so on are added up; its confusion table has the size of the graph.
        :param graphs: the graph of each round, where it is not the player's own.
        """
        checked = self._checked_chunk(chunk)
        if tally is not None and tally.confusion.shape != self.graph.visible.shape:
            raise UserError(
                f"the tally counts {tally.confusion.shape[0]} actions and {tally.confusion.shape[1]} classes, and the "
                f"player has {self.graph.n_actions} and {self.graph.n_classes}: start a new one when a class is added"
            )
        rounds = len(checked.chunk.labels)
        stretches = [(0, rounds, self.graph)] if graphs is None else self._stretches(graphs, rounds)
        if self._is_drawing:
            self._synchronise()
        self._is_drawing = True
        first, draws = self.rounds, self._rng.random(rounds)
        tally = self._new_tally() if tally is None else tally
        record = Counts() if record is None else record
        indptr, indices, values, labels = checked.chunk
        room = self._room(indptr)
        for start, stop, graph in stretches:
            here = slice(start, stop)
            ends, squared = indptr[start : stop + 1], checked.squared[here]
            rows = Rows(ends, indices, values, labels[here], squared, draws[here], room)
            desk = self._desk_of(graph)
            arguments = (self.learner, self._state.tuple, self._plan_of(graph), rows, desk, tally, record)
            self._kernel(advance, *arguments)(*arguments)
        if self.rounds != first + rounds:  # a signal handler has played in between
            self._synchronise()
        self._is_drawing = False

    def teach(self, chunk: Chunk | Prepared, propensity: Any = None) -> None:
        """Learn from rows whose labels are known, without acting: a warm start, or labels that came from elsewhere.

        Every row is learned from as if the feedback graph showed every label. Nothing is drawn: `rounds` and the random
        generator stay as they are. On a graph that does show every label the state becomes the one that
        :meth:`advance` would leave. Rules that count rounds, such as :class:`gappletron.BurnIn`, count these too.

        :param propensity: for each row the probability, above 0 and at most 1, with which its label was observed; by
            default 1. Learners with importance weights divide by it. The default learner does not need it.

        Learners for bandit feedback, and `label-efficient-perceptron`, learn from the action that was drawn: they
        cannot be taught, and say so.

        >>> from gappletron import FeedbackGraph, Player, Synthetic
        >>> player = Player("auto", FeedbackGraph.filtering(3), features=40)
        >>> for chunk in Synthetic(classes=3, features=40, noise=0, rounds=1000).chunks():
        ...     player.teach(chunk)
        >>> player.rounds, bool(player.weights.any())
        (0, True)
        """
        checked = self._checked_chunk(chunk)
        indptr, indices, values, labels = checked.chunk
        observed = _propensities(propensity, len(labels))
        plan = self._plan_of(self._full_graph())
        rows = Rows(indptr, indices, values, labels, checked.squared, np.zeros(0), self._room(indptr))
        arguments = (self.learner, self._state.tuple, plan, rows, self._desk, observed)
        self._kernel(teach, *arguments)(*arguments)

    def teach_on(self, vector: Vector, label: int, propensity: Any = None) -> None:
        """As :meth:`teach`, for one vector that was checked and the position of its label."""
        self.teach(_one_row(vector, whole(label, "the position of a label")), propensity)

    def _full_graph(self) -> FeedbackGraph:
        """The graph with the same classes, actions and costs on which every action shows every label."""
        if not self.learner.teachable:
            raise UserError(
                f"{self.learner.name} cannot be taught labels, since it learns only from the action that it drew: play "
                "the rows instead, or choose another learner, for example auto"
            )
        if self.graph.visible.all():
            return self.graph
        if self._full is None:
            graph = self.graph
            costs = graph.costs if graph.has_costs else None
            self._full = FeedbackGraph(
                np.ones_like(graph.visible), graph.classes, graph.actions, name="full", costs=costs
            )
        return self._full

    def _checked_chunk(self, chunk: Chunk | Prepared) -> Prepared:
        """A chunk that compiled code may trust, with features and classes that the player has."""
        checked = chunk if isinstance(chunk, Prepared) else prepared(chunk)
        if checked.features > self.features or checked.classes > self.graph.n_classes:
            raise UserError(
                f"the chunk has indices up to {checked.features - 1} and labels up to {checked.classes - 1}, and the "
                f"player {self.features} features and {self.graph.n_classes} classes: make it larger"
            )
        return checked

    def _room(self, indptr: NDArray[np.int64]) -> Room:
        """Room for the longest row with its bias, where rows are copied."""
        copies = self._desk.normalization != AS_GIVEN
        longest = int(np.diff(indptr).max(initial=0)) + self.bias if copies else 0
        return Room(np.empty(longest, np.int32), np.empty(longest))

    def _random_state(self) -> dict[str, Any]:
        """The state of the random generator before the next round. Every round takes one draw."""
        rounds, state = self._first_draw
        source: Any = np.random.PCG64(0)
        source.state = state
        source.advance(self.rounds - rounds)
        return dict(source.state)

    def _synchronise(self) -> None:
        """Set the generator to the rounds played: a signal may have come between a draw and the round that takes it."""
        self._rng.bit_generator.state = self._random_state()
        self._is_drawing = False

    def compile(self, record: Counts | Losses | None = None) -> None:
        """Compile, or load from the cache, what :meth:`advance` needs."""
        self._kernel(advance, *self._nothing_to_play(record))

    def is_compiled(self, record: Counts | Losses | None = None) -> bool:
        """Whether :meth:`compile` would find its code in memory or in the cache."""
        with in_mode(self._interpreted):
            return can_be_loaded(advance, *self._nothing_to_play(record))

    def _nothing_to_play(self, record: Counts | Losses | None) -> tuple[Any, ...]:
        """The arguments of :func:`~gappletron.play.rounds.advance` without a round."""
        tally, rows = self._new_tally(), Rows(*NO_ROWS, np.zeros(0), np.zeros(0), self._room(NO_ROWS.indptr))
        record = Counts() if record is None else record
        return self.learner, self._state.tuple, self._plan, rows, self._desk, tally, record

    def _new_tally(self) -> Tally:
        """Totals for a call that was given none."""
        return new_tally(NO_MARKS, self.graph.n_actions, self.graph.n_classes)

    def _kernel(self, function: Any, *arguments: Any) -> Any:
        """The machine code of a function for the player's types, which change only with the padded width."""
        key = (function, type(arguments[-1]))
        if key not in self._kernels:
            with in_mode(self._interpreted):
                self._kernels[key] = entry(function, *arguments)
        return self._kernels[key]

    def _stretches(self, graphs: Sequence[FeedbackGraph], rounds: int) -> list[tuple[int, int, FeedbackGraph]]:
        """Maximal stretches of rounds with one graph; all graphs are checked before the first round."""
        if len(graphs) != rounds:
            raise UserError(f"there are {len(graphs)} graphs for {rounds} rounds: give one for each round")
        found: list[tuple[int, int, FeedbackGraph]] = []
        for t, given in enumerate(graphs):
            graph = self._checked_graph(given)
            if found and (found[-1][2] is graph or found[-1][2] == graph):
                found[-1] = (found[-1][0], t + 1, found[-1][2])
            else:
                check_can_play(self.learner, graph)
                found.append((t, t + 1, graph))
        return found

    # ---------------------------------------------------------------------------------------------- one round at a time

    def act(self, x: Any, graph: FeedbackGraph | None = None) -> Turn:
        """Draw an action for x.

        :param x: ``(indices, values)`` (the fastest), a dense vector, a one-row sparse matrix or a mapping.
        :param graph: the feedback graph of this round, over the same classes and actions; by default the player's own.
        """
        return self.act_on(self.checker.vector(x, self.features), graph)

    def take(self, x: Any, limit: int | None = None) -> Vector:
        """x, checked; where a `limit` is given, with any index below it: the state doubles where it must.

        >>> player = Player("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> vector = player.take({5: 1.0}, limit=100)
        >>> player.features
        6
        """
        vector = self.checked(x, limit)
        if limit is not None:
            self.make_room(vector, limit)
        return vector

    def checked(self, x: Any, limit: int | None = None) -> Vector:
        """As :meth:`take`, but nothing grows."""
        if limit is None:
            return self.checker.vector(x, self.features)
        return self.checker.vector(tuple(sparse_parts(x, None)), limit)

    def make_room(self, vector: Vector, limit: int) -> None:
        """Let the state have the features of a checked vector."""
        self._grow_to(int(vector.indices[-1]) + 1 if vector.indices.size else 0, limit)

    def take_many(self, matrix: Any, limit: int | None = None) -> Vectors | None:
        """The rows of a sparse matrix, checked, as :meth:`take` takes each; None where one must be converted, or is
        wrong.

        >>> from scipy.sparse import csr_array
        >>> Player("gapsmh", FeedbackGraph.bandit(3), features=2).take_many(csr_array([[0.0, 1.0], [2.0, 0.0]])).squared
        array([1., 4.])
        """
        found = self.checker.vectors(matrix, self.features if limit is None else limit)
        if found is not None and limit is not None and found.indices.max(initial=-1) >= self.features:
            ends = found.indptr[1:][np.diff(found.indptr) > 0]
            for last in found.indices[ends - 1].tolist():  # in the same steps as row by row
                self._grow_to(last + 1, limit)
        return found

    def _grow_to(self, needed: int, limit: int) -> None:
        """Let there be so many features; the state doubles where it must grow."""
        if needed > self.features:
            self.grow(min(limit, max(2 * self.features, needed)))

    def act_on(self, vector: Vector, graph: FeedbackGraph | None = None) -> Turn:
        """As :meth:`act`, for a vector that was checked for this number of features."""
        turn = self.new_turn(vector, graph)
        self.draw(turn, vector)
        return turn

    def new_turn(self, vector: Vector, graph: FeedbackGraph | None = None) -> Turn:
        """A turn for a checked vector, whose action :meth:`draw` will draw; changes nothing."""
        here = self.graph if graph is None else self._checked_graph(graph)
        return Turn(here, self._state.sizes.features, new_record(self._record_size(vector.values.size)))

    def _record_size(self, entries: int) -> int:
        """The numbers in the record of a round whose row, without a bias, has so many entries."""
        return self._bare + row_size(entries + self.bias)

    def draw(self, turn: Turn, vector: Vector) -> int:
        """Draw the action of a new turn for its vector, which is copied; the number of its round.

        The state changes in one call of compiled code, which also writes the turn's record: where a signal handler
        raises, the turn has a round's number exactly if the round was played.
        """
        own = self._own_pack if turn.graph is self.graph else None
        pack = self._packed(turn.graph) if own is None else own
        if self._act is None:
            self.compile_rounds()
        if self._is_drawing:
            self._synchronise()
        self._is_drawing = True
        at: int = self._clock.item(PLAYED)
        while not self._act(pack, *vector, self._rng.random(), at, turn.record):
            self._synchronise()  # a signal handler has played a round in between
            self._is_drawing = True
            at = self._clock.item(PLAYED)
        self._is_drawing = False
        return at

    def draw_many(self, rows: Vectors, graph: FeedbackGraph | None = None) -> Turns:
        """Turns for many checked rows, with their actions drawn: the same bits as :meth:`new_turn` and :meth:`draw` for
        each, in one call of compiled code. The rows are copied.

        >>> import numpy as np
        >>> from gappletron.data.vectors import Vectors
        >>> one, many = (Player("auto", FeedbackGraph.bandit(3), features=2) for _ in range(2))
        >>> rows = Vectors.joined([one.checker.vector(x, 2) for x in np.eye(2)])
        >>> [turn.action for turn in many.draw_many(rows).each()] == [one.act(x).action for x in np.eye(2)]
        True
        """
        here = self.graph if graph is None else self._checked_graph(graph)
        pack = self._packed(here)
        entries = np.diff(rows.indptr) + int(self.bias)
        ends = np.zeros(rows.indptr.size, np.int64)
        np.cumsum(self._bare + entries + (entries + 1) // 2, out=ends[1:])
        records = np.zeros(ends[-1])
        if self._act_rows is None:
            with in_mode(self._interpreted):
                self._act_rows = entry(act_rows, pack, *rows, rows.squared, 0, ends, records)
        if self._is_drawing:
            self._synchronise()
        self._is_drawing = True
        at: int = self._clock.item(PLAYED)
        draws = self._rng.random(rows.squared.size)
        while not self._act_rows(pack, *rows, draws, at, ends, records):
            self._synchronise()  # a signal handler has played a round in between
            self._is_drawing = True
            at = self._clock.item(PLAYED)
            draws = self._rng.random(rows.squared.size)
        self._is_drawing = False
        return Turns(here, self.width, at, ends, records)

    def follow(
        self,
        x: Any,
        action: int,
        probabilities: Any,
        graph: FeedbackGraph | None = None,
        greedy: int | None = None,
    ) -> Turn:
        """As :meth:`act`, but the decision is another's: a model in the shadow of one that acts, or a logged round.

        The learner learns from the given action and its propensities, and a watch estimates what the learner's own
        distribution, and its own greedy class, would have led to.

        :param x, graph: as those of :meth:`act`.
        :param action: the position of the action that was played.
        :param probabilities: of all actions, when it was drawn.
        :param greedy: the position of the greedy class of that decision, where it is to stand for the learner's own.

        >>> player = Player("auto", FeedbackGraph.bandit(3), features=2)
        >>> turn = player.follow([1.0, 0.5], action=1, probabilities=[0.1, 0.8, 0.1])
        >>> turn.action, turn.probabilities.tolist(), turn.own_probabilities.round(2).tolist()
        (1, [0.1, 0.8, 0.1], [0.33, 0.33, 0.33])
        """
        vector = self.checker.vector(x, self.features)
        turn = self.new_turn(vector, graph)
        self.follow_turn(turn, vector, action, probabilities, greedy)
        return turn

    def follow_turn(
        self, turn: Turn, vector: Vector, action: int, probabilities: Any, greedy: int | None = None
    ) -> int:
        """As :meth:`follow`, for a :meth:`new_turn` and its vector; the number of the round."""
        given = _distribution(probabilities, self.graph.n_actions)
        action = whole(action, "the position of an action", most=self.graph.n_actions - 1)
        if given[action] <= 0.0:
            raise UserError(f"the action {action} has the probability 0: give the probabilities that it was drawn with")
        wanted = -1 if greedy is None else whole(greedy, "the position of a class", most=self.graph.n_classes - 1)
        pack = self._packed(self._checked_graph(turn.graph))
        record = new_record(self._record_size(vector.values.size) + given.size)
        record[HEAD : HEAD + given.size] = given
        if self._follow is None:
            with in_mode(self._interpreted):
                self._follow = entry(follow, pack, *vector, action, wanted, 0, record)
        turn.record = record
        if self._is_drawing:
            self._synchronise()
        self._is_drawing = True
        at: int = self._clock.item(PLAYED)
        self._rng.random()  # every round takes one draw
        while not self._follow(pack, *vector, action, wanted, at, record):
            self._synchronise()  # a signal handler has played a round in between
            self._is_drawing = True
            at = self._clock.item(PLAYED)
            self._rng.random()
        self._is_drawing = False
        return at

    def learn(self, turn: Turn, label: int) -> None:
        """Take in the feedback of a turn: the position of the label, or -1 where the graph did not reveal it.

        Feedback may come late: the default learner learns it as if the row came today; for those of the paper the
        gradient is that of prediction time, applied to the weights of today. A turn from before a class was added
        teaches what it could teach then.
        """
        label = self._checked_label(turn, label)
        if self._learn is None:
            self.compile_rounds()
        own = self._own_pack if turn.graph is self.graph else None
        self._learn(self._packed(turn.graph) if own is None else own, turn.record, label)

    def _checked_label(self, turn: Turn, label: int) -> int:
        """The position of a label that a turn may have, or -1; compiled code will trust it."""
        if type(label) is not int:
            label = whole(label, "the position of a label", least=-1)
        if not -1 <= label < turn.graph.n_classes:
            raise UserError(f"{label} is not the position of a label: expected -1 to {turn.graph.n_classes - 1}")
        if turn.features > self._state.sizes.features:
            raise UserError("the turn has more features than this player: learn from the turns that its act() returned")
        return label

    def learn_many(self, turns: Sequence[Turn], labels: Sequence[int]) -> None:
        """Take in the feedback of many turns, in order: the same bits as :meth:`learn` for each, in one call of
        compiled code where all have the player's own graph.

        >>> player = Player("auto", FeedbackGraph.bandit(3), features=2)
        >>> turns = [player.act([1.0, 0.5]), player.act([0.0, 1.0])]
        >>> player.learn_many(turns, [turns[0].action, -1])
        >>> player.last_learned
        1
        """
        if len(turns) != len(labels):
            raise UserError(f"there are {len(turns)} turns and {len(labels)} labels: give one for each")
        if len(set(map(id, turns))) < len(turns):
            raise UserError("a turn stands twice in the feedback: learn from each once")
        checked = [self._checked_label(turn, label) for turn, label in zip(turns, labels, strict=True)]
        if not all(turn.graph is self.graph for turn in turns):
            for turn, label in zip(turns, checked, strict=True):
                self.learn(turn, label)
            return
        given = np.array(checked, np.int64)
        ends = np.zeros(len(turns) + 1, np.int64)
        np.cumsum([turn.record.size for turn in turns], out=ends[1:])
        records = np.concatenate([NO_NUMBERS, *(turn.record for turn in turns)])
        pack = self._packed(self.graph)
        if self._learn_rows is None:
            with in_mode(self._interpreted):
                self._learn_rows = entry(learn_rows, pack, ends, records, given)
        self._learn_rows(pack, ends, records, given)
        places = ends.tolist()
        for turn, (start, stop) in zip(turns, itertools.pairwise(places), strict=True):
            turn.record[:] = records[start:stop]

    # ---------------------------------------------------------------------------------------- looking, changing nothing

    def predict(self, x: Any, graph: FeedbackGraph | None = None) -> int:
        """The greedy class for x, y*; draws nothing and changes nothing.

        :param graph: as that of :meth:`act`; it matters to learners that use its costs.
        """
        return self.predict_on(self.checker.vector(x, self.features), graph)

    def predict_on(self, vector: Vector, graph: FeedbackGraph | None = None) -> int:
        """As :meth:`predict`, for a vector that was checked; features that the player does not have have weights 0."""
        return int(self._looked(self._scaled(_one_row(vector)), graph)[1][0])

    def predict_many(self, X: Any, graph: FeedbackGraph | None = None) -> NDArray[np.int64]:
        """The greedy class of every row of a dense array or a sparse matrix.

        >>> Player("gapsmh", FeedbackGraph.bandit(3), features=2).predict_many([[1.0, 0.5], [0.0, 2.0]])
        array([0, 0])
        """
        return np.concatenate([NO_LABELS, *(self._looked(rows, graph)[1] for rows in self._batches(X))])

    def scores(self, X: Any) -> Floats:
        """The scores of every row, n x K; most learners predict the class with the largest."""
        none = np.zeros((0, self.graph.n_classes))
        return np.concatenate([none, *(self._looked(rows)[0] for rows in self._batches(X))])

    def predict_proba(self, X: Any) -> Floats:
        """The probability of every label, n x K, as the learner estimates it; the rows sum to 1.

        For the default learner and the other estimators these are probabilities of a softmax, whose sharpness follows
        what was shown so far. Other learners may have no model of probabilities: then it is the softmax of their
        scores, which is not calibrated (:meth:`Learner.label_probabilities`).

        The probabilities of the actions, which are drawn from, are :meth:`probabilities`.

        >>> Player("auto", FeedbackGraph.full(4), features=2).predict_proba([[1.0, 0.5]])
        array([[0.25, 0.25, 0.25, 0.25]])
        """
        none = np.zeros((0, self.graph.n_classes))
        return np.concatenate([none, *(self._label_probabilities(rows) for rows in self._batches(X))])

    def predict_proba_on(self, vector: Vector) -> Floats:
        """As :meth:`predict_proba`, for one vector that was checked; one probability per label."""
        return self._label_probabilities(self._scaled(_one_row(vector)))[0]

    def _label_probabilities(self, rows: Rows) -> Floats:
        """The probabilities of the labels of rows that were scaled."""
        out = np.empty((len(rows.labels), self.graph.n_classes))
        arguments = (self.learner, self._state.tuple, rows, self._desk, out)
        self._kernel(many_label_probabilities, *arguments)(*arguments)
        return out

    def probabilities(self, X: Any, graph: FeedbackGraph | None = None) -> Floats:
        """The probability of every action, n x N: what each row would meet if it came next."""
        here = self._checked_graph(graph)
        plan, desk = self._plan_of(here), self._desk_of(here)
        parts = [np.zeros((0, self.graph.n_actions))]
        for rows in self._batches(X):
            out = np.empty((len(rows.labels), self.graph.n_actions))
            arguments = (self.learner, self._state.tuple, plan, rows, desk, out)
            self._kernel(many_probabilities, *arguments)(*arguments)
            parts.append(out)
        return np.concatenate(parts)

    def _batches(self, X: Any) -> Iterator[Rows]:
        """The rows of X, some at a time, without draws."""
        for chunk in batches_of(X, self.features, may_have_more=self.may_have_more):
            yield self._scaled(prepared(chunk, "X"))

    def _scaled(self, checked: Prepared) -> Rows:
        """The rows of a chunk as the learner would see them if they came next, without draws."""
        ready = checked.biased() if self.bias else checked
        room = self._room(NO_ROWS.indptr)
        if self._desk.normalization == AS_GIVEN and ready.features <= self.width:
            return Rows(*ready.chunk, ready.squared, np.zeros(0), room)
        own = ready.chunk._replace(indices=ready.chunk.indices.copy(), values=ready.chunk.values.copy())
        rows = Rows(*own, ready.squared.copy(), np.zeros(0), room)
        self._kernel(scale_rows, self._desk, rows, self.width)(self._desk, rows, self.width)
        return rows

    def _looked(self, rows: Rows, graph: FeedbackGraph | None = None) -> tuple[Floats, NDArray[np.int64]]:
        """The scores and the greedy class of every row."""
        n = len(rows.labels)
        scores, greedy = np.empty((n, self.graph.n_classes)), np.empty(n, np.int64)
        plan = self._plan_of(self._checked_graph(graph))
        arguments = (self.learner, self._state.tuple, plan, rows, self._desk, scores, greedy)
        self._kernel(many_greedy, *arguments)(*arguments)
        return scores, greedy

    # ---------------------------------------------------------------------------------------------------------- growing

    def grow(self, features: int) -> None:
        """Give the state more features; what was learned stays, and the new ones start as if they had been there.

        >>> player = Player("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> player.grow(features=5)
        >>> player.weights.shape
        (5, 3)
        """
        wanted = whole(features, "features", least=self.features, most=MOST_FEATURES)
        if wanted > self.features:
            width = wanted + self.bias
            state = self._state.resized(self._state.sizes._replace(features=width))
            scales = self._scales.resized(self._scales.sizes._replace(features=width))
            desk = self._new_desk(self.graph, scales, self._watched)
            new = {"_state": state, "_scales": scales, "_desk": desk, "_desks": OrderedDict()}
            self.__dict__.update(new, _packs=OrderedDict(), _own_pack=None)  # in one step

    def add_class(
        self,
        name: Label,
        reveals: Iterable[Label] | None = None,
        revealed_by: Iterable[Label] | None = None,
        costs: Any = None,
    ) -> None:
        """Add a class, and the action that predicts it, while running; see :meth:`FeedbackGraph.with_class`.

        What was learned stays. Code is compiled once per padded number of classes (a multiple of 4), so one class in
        four may take some seconds the first time.

        >>> player = Player("gapsmh", FeedbackGraph.bandit(["cat", "dog"]), features=2)
        >>> player.add_class("fox")
        >>> player.graph.classes
        ('cat', 'dog', 'fox')
        """
        self.extend(self.graph.with_class(name, reveals, revealed_by, costs))

    def extend(self, graph: FeedbackGraph) -> None:
        """Go on with a graph that has more classes than the player's own, which comes before it.

        >>> player = Player("gapsmh", FeedbackGraph.bandit(["cat", "dog"]), features=2)
        >>> player.extend(player.graph.with_class("fox"))
        >>> player.graph.classes
        ('cat', 'dog', 'fox')
        """
        if not self.graph.may_precede(graph):
            raise UserError(f"the graph {graph.name!r} does not continue the player's own: use its with_class")
        check_can_play(self.learner, graph)
        state = self._state.resized(Sizes(self._state.sizes.features, graph.n_classes, graph.n_actions))
        self.learner.grown(state.tuple, self.graph.n_classes)
        watched = self._watched.resized(Sizes(1, graph.n_classes, graph.n_actions))
        self._bind(graph, state, watched, self.learner.plan(graph))

    def set_limits(self, limits: Limits | None) -> None:
        """Go on with other limits on the exploration. A budget starts with nothing spent, unless it is the same.

        >>> from gappletron import Limits
        >>> player = Player("gapsmh", FeedbackGraph.filtering(3), features=2)
        >>> player.set_limits(Limits(min_propensity=0.1))
        >>> player.limits
        Limits(min_propensity=0.1, budget=None)
        """
        new = limits_of(limits)
        new.bounds(self.graph)  # an error where the graph cannot keep to them
        if new != self.limits:
            kept = self._limited.arrays if new.budget == self.limits.budget else {}
            limited = State(new.piece().declare(), Sizes(1, 1, 1))
            if kept.keys() == limited.arrays.keys():
                limited.load(kept)
            self.__dict__.update(limits=new, _limited=limited)
            self._bind(self.graph, self._state, self._watched, self._plan)

    # ----------------------------------------------------------------------------------------------- saving and loading

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything that the player is, as a JSON-ready header and named arrays.

        A state that the learner's fields do not allow, such as one with NaN, is a UserError.
        """
        states = (self._state, self._scales, self._watched, self._limited)
        problem = next((found for state in states if (found := state.problem()) is not None), None)
        if problem is not None:
            raise UserError(
                f"the state of {self.learner.name} is broken and cannot be saved, since {problem}: go on from an older "
                "copy, and find the rows or the piece that broke it"
            )
        header = {
            "learner": encode_piece(self.learner),
            "features": self.features,
            "normalization": encode_piece(self.normalization),
            "bias": self.bias,
            "graph": saved.graph_header(self.graph),
            "watch": encode_piece(self.watch),
            "limits": self.limits.to_dict(),
            "rounds": self.rounds,
            "now": self.now,
            "random": self._random_state(),
        }
        state = {f"state.{name}": array for name, array in self._state.arrays.items()}
        scales = {f"scales.{name}": array for name, array in self._scales.arrays.items()}
        watched = {f"watch.{name}": array for name, array in self._watched.arrays.items()}
        limited = {f"limits.{name}": array for name, array in self._limited.arrays.items()}
        return header, {**saved.graph_arrays(self.graph), **state, **scales, **watched, **limited}

    @classmethod
    def restored(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], pieces: Iterable[type[Piece]] = ()
    ) -> Player:
        """The player of a :meth:`snapshot`; `pieces` are classes of your own that its learner is made of."""
        graph = saved.graph_of(header["graph"], arrays)
        learner = learner_of(decode_piece(header["learner"], tuple(pieces)))
        features = whole(header["features"], "features", least=1, most=MOST_FEATURES)
        normalization, bias = _rows_of(header, pieces)
        rounds = whole(header["rounds"], "the rounds", most=MOST_ROUNDS)
        now = number(header.get("now", 0.0), "the time", least=0.0)  # absent, as the watch, in files of version 0.1
        random = _checked_random(header["random"])
        watch = _watch_of(header, pieces)
        limits = Limits.from_dict(header["limits"]) if "limits" in header else Limits()
        state, scales, watched, limited = (
            _with_prefix(arrays, f"{name}.") for name in ("state", "scales", "watch", "limits")
        )
        sizes = Sizes(features + bias, graph.n_classes, graph.n_actions)
        check_shapes(learner.declare(), sizes, state)
        check_shapes(normalization.declare(), Sizes(features + bias, 1, 1), scales)
        check_shapes(watch.declare(), sizes._replace(features=1), watched)
        check_saved(watch, watched, rounds)
        check_shapes(limits.piece().declare(), Sizes(1, 1, 1), limited)
        player = cls(learner, graph, features, normalize=normalization, bias=bias, watch=watch, limits=limits)
        player._limited.load(limited)
        player._watched.load(watched)
        player._resume(state, scales, rounds, now, random)
        return player

    def save(self, path: str | PathLike[str]) -> None:
        """Write the player to a file: weights, accumulators, graph and random state.

        The file is a NumPy archive with a JSON header: nothing in it can run code. It replaces an older one at once or
        not at all. A player that was saved and loaded at any round goes on bit for bit.
        """
        saved.write(path, FORMAT, *self.snapshot())

    @classmethod
    def load(cls, path: str | PathLike[str], *, pieces: Iterable[type[Piece]] = ()) -> Player:
        """Read what :meth:`save` wrote; `pieces` are the classes of your own that the learner is made of.

        >>> import pathlib, tempfile
        >>> player = Player("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> turn = player.act([1.0, 0.5])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     player.save(pathlib.Path(folder) / "player.npz")
        ...     again = Player.load(pathlib.Path(folder) / "player.npz")
        >>> again.rounds
        1
        """
        return saved.read(path, FORMAT, lambda header, arrays: cls.restored(header, arrays, pieces))

    def to_bytes(self) -> bytes:
        """The bytes that :meth:`save` would write; nothing in them can run code.

        >>> player = Player("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> Player.from_bytes(player.to_bytes()).features
        2
        """
        return saved.to_bytes(FORMAT, *self.snapshot())

    @classmethod
    def from_bytes(cls, data: bytes, *, pieces: Iterable[type[Piece]] = ()) -> Player:
        """The player of :meth:`to_bytes`, or of a file that :meth:`save` wrote; `pieces` as in :meth:`load`."""
        return saved.from_bytes(data, FORMAT, lambda header, arrays: cls.restored(header, arrays, pieces))
