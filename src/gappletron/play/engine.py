"""What compiled rounds work on: a learner's states, the arguments derived from a graph, and the machine code.

:class:`gappletron.Player` checks what comes from outside, draws, and calls the functions of
:mod:`gappletron.play.rounds` with what an :class:`Engine` holds.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import UserError
from gappletron.data.normalization import AsGiven, Copied, Normalization, Room
from gappletron.data.prepared import Prepared
from gappletron.data.stream import make_chunk
from gappletron.graphs.graph import FeedbackGraph, Plan
from gappletron.kernel.compiling import can_be_loaded, entry, in_mode, is_interpreted, same_types
from gappletron.kernel.numerics import lanes_for
from gappletron.kernel.packed import Packed, packed
from gappletron.kernel.state import Sizes, State
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Learner
from gappletron.learners.registry import check_can_play
from gappletron.play.limits import Limits, NoLimits
from gappletron.play.rounds import (
    PLAYED,
    Counts,
    Desk,
    Losses,
    Rows,
    Tally,
    act,
    advance,
    learn,
    many_greedy,
    many_label_probabilities,
    many_probabilities,
    new_tally,
    scale_rows,
)
from gappletron.play.turns import record_size, row_size
from gappletron.play.watch import NoWatch, Watching

MOST_SEATS = 64
AS_GIVEN = AsGiven()
NO_MARKS = np.zeros(0, np.int64)
NO_MARKS.flags.writeable = False
NO_ROWS = make_chunk(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64))
NO_ROW = (np.zeros(0, np.int32), np.zeros(0), 0.0)


class Seat:
    """What rounds on one graph need: the learner's plan, the desk, and both with the state as one argument."""

    def __init__(self, engine: Engine, graph: FeedbackGraph, plan: Plan) -> None:
        # Not the engine itself: a cycle would keep large states in memory until the garbage collector comes.
        self._packs = engine.learner, engine.state, graph.n_classes, engine.interpreted
        self.plan = plan
        self.desk: Desk = engine.desk._replace(sight=engine.watch.sight(graph), bounds=engine.limits.bounds(graph))

    @functools.cached_property
    def pack(self) -> Packed:
        """The learner, its state, the plan and the desk, for single rounds."""
        learner, state, classes, interpreted = self._packs
        with in_mode(interpreted):
            return packed(learner, state.view(classes), self.plan, self.desk)


class Engine:
    """The state of a learner on a feedback graph, and the machine code that plays it.

    :param width: the number of features that the learner sees, with the bias.
    """

    def __init__(
        self,
        learner: Learner,
        graph: FeedbackGraph,
        width: int,
        normalization: Normalization,
        bias: bool,
        watch: Watching,
        limits: Limits,
    ) -> None:
        self.learner, self.normalization, self.bias = learner, normalization, bias
        self.watch, self.limits = watch, limits
        self.clock, self.now = np.zeros(1, np.int64), np.zeros(1)
        # Kept: machine code and packed arguments must not be mixed with plain ones.
        self.interpreted = is_interpreted()
        self.scales = State(normalization.declare(), Sizes(width, 1, 1))
        self.limited = State(limits.piece().declare(), Sizes(1, 1, 1))
        self.state = State(learner.declare(), Sizes(width, graph.n_classes, graph.n_actions))
        self.watched = State(watch.declare(), Sizes(1, graph.n_classes, graph.n_actions))
        self.bind(graph)

    @property
    def states(self) -> dict[str, State]:
        """All that is remembered, by the prefix of the names of saved arrays."""
        return {"state": self.state, "scales": self.scales, "watch": self.watched, "limits": self.limited}

    @property
    def nbytes(self) -> int:
        """The memory of the states."""
        return sum(state.nbytes for state in self.states.values())

    @property
    def rounds(self) -> int:
        """The number of rounds played so far."""
        return self.clock.item(PLAYED)

    # -------------------------------------------------------------------------------------------------------- per graph

    def bind(self, graph: FeedbackGraph) -> None:
        """Take over a graph of the size of the states, and forget what was derived from others."""
        self.graph = graph
        self.bare_size = record_size(graph.n_classes, graph.n_actions)
        lanes = lanes_for(graph.n_classes)
        self.desk = Desk(
            scores=np.zeros(lanes.padded(graph.n_classes))[: graph.n_classes],
            probabilities=np.zeros(graph.n_actions),
            clock=self.clock,
            lanes=lanes,
            normalization=Copied() if self.bias and self.normalization == AS_GIVEN else self.normalization,
            scales=self.scales.tuple,
            bias=int(self.bias),
            now=self.now,
            limits=self.limits.piece(),
            limited=self.limited.tuple,
            bounds=(),
            watch=self.watch,
            watched=self.watched.tuple,
            sight=(),
        )
        self.needs_time = not (isinstance(self.watch, NoWatch) and isinstance(self.desk.limits, NoLimits))
        """Whether anything depends on the time of a round."""
        self._kernels: dict[Any, Any] = {}
        self._seats: dict[FeedbackGraph, Seat] = {}
        self.own = Seat(self, graph, self.learner.plan(graph))
        self.act: Any = None
        self.learn: Any = None
        self._full: FeedbackGraph | None = None

    def seat(self, graph: FeedbackGraph) -> Seat:
        """Return what rounds on a graph need; that of the last 64 graphs is kept."""
        if graph is self.graph:
            return self.own
        if graph not in self._seats:
            seat = self._new_seat(graph)
            if len(self._seats) == MOST_SEATS:
                del self._seats[next(iter(self._seats))]
            self._seats[graph] = seat
        return self._seats[graph]

    def _new_seat(self, graph: FeedbackGraph) -> Seat:
        """Return what rounds need on a graph other than the player's own."""
        if not graph.may_precede(self.graph):
            raise UserError(f"the graph {graph.name!r} is not one that this player had: learn from its own turns")
        check_can_play(self.learner, graph)
        plan = self.learner.plan(graph)
        if not same_types(plan, self.own.plan):
            raise UserError(
                f"{self.learner.name} makes a table of another type for the graph {graph.name!r}, and compiled code "
                "expects the same types for every graph"
            )
        return Seat(self, graph, plan)

    def full_plan(self) -> Plan:
        """Return the plan of the same graph with every label shown by every action."""
        graph = self.graph
        if self._full is None:
            costs = graph.costs if graph.has_costs else None
            self._full = FeedbackGraph(
                np.ones_like(graph.visible), graph.classes, graph.actions, name="full", costs=costs
            )
        return self.seat(graph if graph.visible.all() else self._full).plan

    # ----------------------------------------------------------------------------------------------------- machine code

    def compile_rounds(self) -> None:
        """Compile, or load from the cache, what single rounds need."""
        record = np.zeros(self.bare_size + row_size(int(self.bias)))
        with in_mode(self.interpreted):
            self.act = entry(act, self.own.pack, *NO_ROW, 0.5, 0, record)
            self.learn = entry(learn, self.own.pack, record, -1)

    def compile_chunks(self, record: Counts | Losses) -> None:
        """Compile, or load from the cache, what whole chunks need."""
        self.kernel(advance, *self._nothing_to_play(record))

    def can_load_chunks(self, record: Counts | Losses) -> bool:
        """Return whether :meth:`compile_chunks` would find its code in memory or in the cache."""
        with in_mode(self.interpreted):
            return can_be_loaded(advance, *self._nothing_to_play(record))

    def _nothing_to_play(self, record: Counts | Losses) -> tuple[Any, ...]:
        """Return the arguments of :func:`~gappletron.play.rounds.advance` without a round."""
        rows = Rows(*NO_ROWS, np.zeros(0), np.zeros(0), self.room(NO_ROWS.indptr))
        return self.learner, self.state.tuple, self.own.plan, rows, self.own.desk, self.new_tally(), record

    def call(self, function: Any, *arguments: Any) -> Any:
        """Call a function of :mod:`gappletron.play.rounds`, compiled for the player's types, which change only with
        the padded width.
        """
        return self.kernel(function, *arguments)(*arguments)

    def kernel(self, function: Any, *arguments: Any) -> Any:
        """Return the machine code of a function for the types of these arguments."""
        key = (function, type(arguments[-1]))
        if key not in self._kernels:
            with in_mode(self.interpreted):
                self._kernels[key] = entry(function, *arguments)
        return self._kernels[key]

    # ------------------------------------------------------------------------------------------------------------- room

    def new_tally(self) -> Tally:
        """Return totals for rounds that nobody counts."""
        return new_tally(NO_MARKS, self.graph.n_actions, self.graph.n_classes)

    @property
    def copies_rows(self) -> bool:
        """Whether a row is copied before the learner sees it."""
        return self.desk.normalization != AS_GIVEN

    def room(self, indptr: NDArray[np.int64]) -> Room:
        """Return room for the longest row with its bias, where rows are copied."""
        longest = int(np.diff(indptr).max(initial=0)) + self.bias if self.copies_rows else 0
        return Room(np.empty(longest, np.int32), np.empty(longest))

    # ------------------------------------------------------------------------------------- predict, nothing is changed

    def scale(self, checked: Prepared) -> Rows:
        """Return the rows of a chunk as the learner would see them if they came next."""
        ready = checked.biased() if self.bias else checked
        room, width = self.room(np.zeros(1, np.int64)), self.state.sizes.features
        if not self.copies_rows and ready.features <= width:
            return Rows(*ready.chunk, ready.squared, np.zeros(0), room)
        own = ready.chunk._replace(indices=ready.chunk.indices.copy(), values=ready.chunk.values.copy())
        rows = Rows(*own, ready.squared.copy(), np.zeros(0), room)
        self.call(scale_rows, self.own.desk, rows, width)
        return rows

    def score(self, rows: Rows, graph: FeedbackGraph) -> tuple[Floats, NDArray[np.int64]]:
        """Return the scores and the greedy class of every scaled row."""
        n, seat = len(rows.labels), self.seat(graph)
        scores, greedy = np.empty((n, self.graph.n_classes)), np.empty(n, np.int64)
        self.call(many_greedy, self.learner, self.state.tuple, seat.plan, rows, self.own.desk, scores, greedy)
        return scores, greedy

    def label_probabilities(self, rows: Rows) -> Floats:
        """Return the probabilities of the labels of every scaled row."""
        out = np.empty((len(rows.labels), self.graph.n_classes))
        self.call(many_label_probabilities, self.learner, self.state.tuple, rows, self.own.desk, out)
        return out

    def action_probabilities(self, rows: Rows, graph: FeedbackGraph) -> Floats:
        """Return the probabilities of the actions of every scaled row, if it came next."""
        seat, out = self.seat(graph), np.empty((len(rows.labels), graph.n_actions))
        self.call(many_probabilities, self.learner, self.state.tuple, seat.plan, rows, seat.desk, out)
        return out

    # ---------------------------------------------------------------------------------------------------------- growing

    def grow(self, width: int) -> None:
        """Give the states more features; the types, and so the machine code, stay the same."""
        self.state = self.state.resized(self.state.sizes._replace(features=width))
        self.scales = self.scales.resized(self.scales.sizes._replace(features=width))
        code = self._kernels, self.act, self.learn
        self.bind(self.graph)
        self._kernels, self.act, self.learn = code

    def extend(self, graph: FeedbackGraph) -> None:
        """Go on with a graph that has more classes."""
        classes, sizes = self.graph.n_classes, Sizes(1, graph.n_classes, graph.n_actions)
        self.state = self.state.resized(sizes._replace(features=self.state.sizes.features))
        self.learner.grown(self.state.tuple, classes)
        self.watched = self.watched.resized(sizes)
        self.bind(graph)

    def begin_watch(self, watch: Watching) -> None:
        """Watch the rounds from now on."""
        self.watch = watch
        self.watched = State(watch.declare(), Sizes(1, self.graph.n_classes, self.graph.n_actions))
        self.bind(self.graph)

    def set_limits(self, limits: Limits) -> None:
        """Go on with other limits. A budget starts with nothing spent, unless it is the same."""
        limited = State(limits.piece().declare(), Sizes(1, 1, 1))
        if limits.budget == self.limits.budget and self.limited.arrays.keys() == limited.arrays.keys():
            limited.load(self.limited.arrays)
        self.limits, self.limited = limits, limited
        self.bind(self.graph)
