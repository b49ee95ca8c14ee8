"""What compiled rounds work on: a learner's states, the arguments derived from a graph, and the machine code.

:class:`gappletron.Player` checks what comes from outside, draws, and calls the functions of
:mod:`gappletron.play.rounds` with what an :class:`Engine` holds.
"""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.base.parts import part
from gappletron.data.normalization import AsGiven, Copied, Normalization, Room
from gappletron.data.prepared import Prepared
from gappletron.data.scores import NO_SCORES
from gappletron.data.stream import make_chunk
from gappletron.data.vectors import Checker, Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.compiling import (
    KeptCode,
    StandIn,
    entry,
    entry_known,
    entry_now,
    in_mode,
    is_interpreted,
    same_types,
)
from gappletron.kernel.numerics import lanes_for
from gappletron.kernel.packed import Packed, packed
from gappletron.kernel.pieces import Piece
from gappletron.kernel.spelling import decode_piece, encode_piece
from gappletron.kernel.state import Layout, Sizes, State, check_shapes
from gappletron.kernel.types import MOST_FEATURES, NO_VECTOR, Floats
from gappletron.learners.learner import Learner
from gappletron.learners.registry import check_can_play
from gappletron.play import rounds
from gappletron.play.archive import Arrays, describe_graph, graph_arrays
from gappletron.play.draws import Draws, check_random_state
from gappletron.play.index import DirectIndex, FeatureIndex, Index
from gappletron.play.limits import Limits, NoLimits
from gappletron.play.monitor_state import NoWatch, Watching
from gappletron.play.rounds import Counts, Logged, Losses, Rows, Setup, Tally
from gappletron.play.turns import HEAD, record_size, row_size

# What is derived from so many graphs is kept.
MOST_GRAPHS = 64
# A record holds the number of its round as a float.
MOST_ROUNDS = 2**53
AS_GIVEN = AsGiven()
NO_ROWS = make_chunk(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64))
# The attributes of an engine that are the machine code of single rounds.
SINGLE = ("act", "learn")
NO_ROW = (np.zeros(0, np.int32), np.zeros(0), 0.0)


def _declare(
    learner: Learner, graph: FeedbackGraph, width: int, normalization: Normalization, watch: Watching, limits: Limits
) -> dict[str, tuple[Layout, Sizes]]:
    """Return what each part of a player remembers, by the prefix of the names of saved arrays."""
    sizes = Sizes(width, graph.n_classes, graph.n_actions)
    return {
        "state": (learner.declare(), sizes),
        "scales": (normalization.declare(), Sizes(width, 1, 1)),
        "watch": (watch.declare(), sizes._replace(features=1)),
        "limits": (limits.piece().declare(), Sizes(1, 1, 1)),
    }


def _build_index(features: int, bias: bool, header: dict[str, Any] | None, arrays: Arrays) -> Index:
    """Return the rows of the features of a saved model, checked."""
    if header is None:
        return DirectIndex(features, bias)
    most, left_out = (whole(header[name], "a number of rows") for name in ("most", "left_out"))
    known = arrays["index.features"]
    if (
        known.dtype != np.int64
        or known.ndim != 1
        or known.size > most
        or (known < 0).any()
        or (known >= features).any()
    ):
        raise UserError("the features of the rows are damaged: load an older copy")
    return FeatureIndex(most, bias, known, left_out)


class Engine:
    """The state of a learner on a feedback graph, its random draws, and the machine code that plays it.

    :param features: indices are below this.
    :param index: which row of the state each feature has.
    """

    def __init__(
        self,
        learner: Learner,
        graph: FeedbackGraph,
        features: int,
        index: Index,
        normalization: Normalization,
        watch: Watching,
        limits: Limits,
        draws: Draws,
    ) -> None:
        check_can_play(learner, graph)
        self.learner, self.normalization, self.bias = learner, normalization, index.bias
        self.checker, self.index = Checker(features), index
        self.watch, self.limits, self.draws = watch, limits, draws
        self.played, self.now = np.zeros(1, np.int64), np.zeros(1)
        # Rounds that the learner knows nothing of, since it was rolled back.
        self.undone = 0
        # Kept: machine code and packed arguments must not be mixed with plain ones.
        self.interpreted = is_interpreted()
        declared = _declare(learner, graph, index.room, normalization, watch, limits)
        self.state, self.scales, self.watched, self.limited = (State(*each) for each in declared.values())
        self.bind(graph)

    @property
    def states(self) -> dict[str, State]:
        """All that is remembered, by the prefix of the names of saved arrays."""
        return {"state": self.state, "scales": self.scales, "watch": self.watched, "limits": self.limited}

    @property
    def nbytes(self) -> int:
        """The memory of the states, and of the rows of the features."""
        return sum(part.nbytes for part in (*self.states.values(), self.index))

    @property
    def rounds(self) -> int:
        """The number of rounds played so far."""
        return self.played.item(0)

    features: int = part("checker.features", "Indices are below this.")

    # -------------------------------------------------------------------------------------------------------- per graph

    def bind(self, graph: FeedbackGraph) -> None:
        """Take over a graph of the size of the states, and forget what was derived from others."""
        self.graph, self.plan = graph, self.learner.plan(graph)
        lanes, kept = lanes_for(graph.n_classes), self.learner.keeps(graph.n_classes)
        # How many numbers of its own a turn on this graph keeps.
        self.kept = kept
        self.setup = Setup(
            scores=np.zeros(lanes.padded(graph.n_classes))[: graph.n_classes],
            probabilities=np.zeros(graph.n_actions),
            kept=np.zeros(kept),
            record_size=record_size(graph.n_classes, graph.n_actions, kept),
            played=self.played,
            lanes=lanes,
            normalization=Copied() if self.bias and self.normalization == AS_GIVEN else self.normalization,
            scales=self.scales.tuple,
            bias=int(self.bias),
            now=self.now,
            limits=self.limits.piece(),
            limited=self.limited.tuple,
            limits_plan=self.limits.plan(graph),
            watch=self.watch,
            watched=self.watched.tuple,
            watch_plan=self.watch.plan(graph),
        )
        # Whether anything depends on the time of a round.
        self.needs_time = not (isinstance(self.watch, NoWatch) and isinstance(self.setup.limits, NoLimits))
        self._kernels: dict[Any, Any] = {}
        self._packs: dict[FeedbackGraph, Packed] = {}
        for name in SINGLE:
            vars(self).pop(name, None)
        self.own: Any = None
        self._full: FeedbackGraph | None = None

    def pack(self, graph: FeedbackGraph) -> Packed:
        """Return the learner, its state, its plan and the setup for rounds on a graph, as one argument; those for the
        player's own graph (`own`) and for the last 64 others are kept.
        """
        if graph is self.graph:
            if self.own is None:
                with in_mode(self.interpreted):
                    self.own = packed(self.learner, self.state.tuple, self.plan, self.setup)
            return self.own
        if graph not in self._packs:
            made = self._new_pack(graph)
            if len(self._packs) == MOST_GRAPHS:
                del self._packs[next(iter(self._packs))]
            self._packs[graph] = made
        return self._packs[graph]

    def pack_full(self) -> Packed:
        """Return the packed arguments for the graph on which every action reveals every label."""
        graph = self.graph
        if self._full is None and not graph.visible.all():
            shown, costs = np.ones_like(graph.visible), graph.costs if graph.has_costs else None
            self._full = FeedbackGraph(shown, graph.classes, graph.actions, name="full", costs=costs)
        return self.pack(self._full or graph)

    def _new_pack(self, graph: FeedbackGraph) -> Packed:
        if not graph.may_precede(self.graph):
            raise UserError(f"the graph {graph.name!r} is not one that this player had: learn from its own turns")
        check_can_play(self.learner, graph)
        plan = self.learner.plan(graph)
        if not same_types(plan, self.plan):
            raise UserError(f"{self.learner.name} makes a table of another type for {graph.name!r}: use one for all")
        plans = {"limits_plan": self.limits.plan(graph), "watch_plan": self.watch.plan(graph)}
        with in_mode(self.interpreted):
            return packed(self.learner, self.state.view(graph.n_classes), plan, self.setup._replace(**plans))

    # ----------------------------------------------------------------------------------------------------- machine code

    @KeptCode
    def act(self) -> Any:
        """The first half of a single round, on packed arguments, which are there when this is."""
        return self._find_single(rounds.act, *NO_ROW, 0.5, 0, self.new_record(1, None, None))

    @KeptCode
    def learn(self) -> Any:
        """The second half of a single round, as :attr:`act`."""
        return self._find_single(rounds.learn, self.new_record(1, None, None), -1)

    def _find_single(self, function: Any, *arguments: Any) -> Any:
        with in_mode(self.interpreted):
            return entry_now(function, self.pack(self.graph), *arguments)

    def compile_rounds(self) -> None:
        """Load what single rounds need from the cache, or have it compiled, by another process if possible."""
        for name in SINGLE:
            getattr(self, name)

    def compile_following(self) -> None:
        """Load what rounds that another decides need from the cache, or have it compiled."""
        record = self.new_record(0, np.zeros(self.graph.n_actions), None)
        self.kernel(rounds.follow, self.pack(self.graph), NO_VECTOR, 0, -1, 0, record)

    def compile_chunks(self, record: Counts | Losses) -> None:
        """Compile, or load from the cache, what whole chunks need."""
        rows = Rows(*NO_ROWS, np.zeros(0), self.room(NO_ROWS.indptr), NO_SCORES)
        self.kernel(rounds.advance, self.pack(self.graph), rows, np.zeros(0), 0, self.new_tally(), record, find=entry)

    @property
    def knows_repeat(self) -> bool:
        """Whether what plays logged rounds again is there already, since this process has asked for it before."""
        return self.find_repeat(entry_known) is not None

    def find_repeat(self, find: Any = entry_now) -> Any:
        """Return what plays logged rounds again; None while another process compiles it."""
        nothing = Vectors(*NO_ROWS[:3], np.zeros(0)), np.zeros(0), 0, np.zeros(1, np.int64), np.zeros(0)
        log = Logged(np.zeros((0, 2), np.int64), np.zeros(0), np.zeros((0, 1)))
        code = self.kernel(rounds.repeat, self.pack(self.graph), *nothing, log, find=find)
        return None if isinstance(code, StandIn) else code

    def call(self, function: Any, *arguments: Any) -> Any:
        """Call a function of :mod:`gappletron.play.rounds`, compiled for the player's types, which change only with
        the padded width.
        """
        return self.kernel(function, *arguments)(*arguments)

    def kernel(self, function: Any, *arguments: Any, find: Any = entry_now) -> Any:
        """Return the machine code of a function for the types of these arguments, or what `find` gives in its place."""
        key = (function, type(arguments[-1]))
        code = self._kernels.get(key)
        if code is None:
            with in_mode(self.interpreted):
                code = find(function, *arguments)
            if not isinstance(code, StandIn):
                self._kernels[key] = code
        return code

    # ------------------------------------------------------------------------------------------------------------- rows

    def new_tally(self) -> Tally:
        """Return an empty tally."""
        return rounds.new_tally(np.zeros(0, np.int64), self.graph.n_actions, self.graph.n_classes)

    @property
    def copies_rows(self) -> bool:
        """Whether a row is copied before the learner sees it."""
        return self.setup.normalization != AS_GIVEN

    def room(self, indptr: NDArray[np.int64]) -> Room:
        """Return room for the longest row with its bias, where rows are copied."""
        longest = int(np.diff(indptr).max(initial=0)) + self.bias if self.copies_rows else 0
        return Room(np.empty(longest, np.int32), np.empty(longest))

    def select(self, checked: Prepared) -> Prepared:
        """Return a chunk without its zeros, unless rows are scaled by them: no learner's step depends on them."""
        return checked if self.setup.normalization.counts_zeros() else checked.without_zeros()

    def new_record(self, entries: int, chances: Floats | None, given: Floats | None) -> Floats:
        """Return the record of a round to be played, for a row with so many entries; with the probabilities of
        another's decision, and the scores that came with the row, where there are any.
        """
        room = self.setup.record_size + row_size(entries + self.bias)
        record = np.zeros(room if chances is None else room + chances.size)
        if chances is not None:
            record[HEAD : HEAD + chances.size] = chances
        if given is not None:
            start = self.setup.record_size - self.kept
            record[start] = 1.0
            record[start + 1 : start + 1 + given.size] = given
        return record

    def new_records(self, entries: NDArray[np.int64], given: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Return where the records of many rounds begin and end, and the records, one after the other."""
        ends = np.zeros(entries.size + 1, np.int64)
        np.cumsum(self.setup.record_size + row_size(entries + int(self.bias)), out=ends[1:])
        records = np.zeros(ends[-1])
        if given.size:
            first = ends[:-1, np.newaxis] + self.setup.record_size - self.kept
            records[first] = 1.0
            records[first + 1 + np.arange(given.shape[1])] = given
        return ends, records

    def scale(self, checked: Prepared) -> Rows:
        """Return the rows of a chunk as the learner would see them if they came next."""
        if self.index.grows:
            checked = checked.move(self.index.find(checked.chunk.indices))
        selected = self.select(checked)
        ready = selected.with_bias() if self.bias else selected
        room = self.room(NO_ROWS.indptr)
        if not self.copies_rows:
            return Rows(*ready.chunk, ready.squared, room, checked.scores)
        own = ready.chunk._replace(values=ready.chunk.values.copy())
        rows = Rows(*own, ready.squared.copy(), room, checked.scores)
        self.call(rounds.scale_rows, self.pack(self.graph), rows)
        return rows

    def look(
        self, write: Any, chunks: Iterable[Prepared], columns: int, graph: FeedbackGraph, dtype: type[Any]
    ) -> NDArray[Any]:
        """Return what a function of :mod:`gappletron.play.rounds` writes for every row, in so many columns."""
        pack, parts = self.pack(graph), [np.empty((0, columns), dtype)]
        for rows in map(self.scale, chunks):
            parts.append(np.empty((len(rows.labels), columns), dtype))
            self.call(write, pack, rows, parts[-1])
        return np.concatenate(parts)

    # ---------------------------------------------------------------------------------------------------------- growing

    def make_room(self) -> None:
        """Give the states rows for all features of the index, and one that nobody has."""
        self.resize(self.index.room)

    def grow(self, features: int) -> None:
        """Take more features, which have rows of their own."""
        with in_mode(self.interpreted):
            self.checker, self.index = Checker(features), DirectIndex(features, self.bias)
        self.make_room()

    def resize(self, width: int) -> None:
        """Give the states so many rows; the types, and so the machine code, stay the same."""
        self.state = self.state.resized(self.state.sizes._replace(features=width))
        self.scales = self.scales.resized(self.scales.sizes._replace(features=width))
        self.rebind(self.graph)

    def rebind(self, graph: FeedbackGraph) -> None:
        """As :meth:`bind`, where all types stay the same, and so does the machine code."""
        code = {name: vars(self)[name] for name in ("_kernels", *SINGLE) if name in vars(self)}
        self.bind(graph)
        vars(self).update(code)
        if len(code) > 1:
            self.pack(graph)

    def set_graph(self, graph: FeedbackGraph) -> None:
        """Go on with other edges or costs over the same classes and actions."""
        if not same_types(self.learner.plan(graph), self.plan):
            raise UserError(f"{self.learner.name} makes a table of another type for {graph.name!r}: make a new model")
        self.rebind(graph)

    def roll_back(self, earlier: Self) -> None:
        """Let the learner, and the scales of the rows, be as they were: `earlier` is the same player after fewer
        rounds, and is changed. Features and classes that came since start anew; everything else stays as it is.
        """
        if earlier.graph.n_classes < self.graph.n_classes:
            earlier.extend(self.graph)
        earlier.index.settle(earlier.rounds)
        known = earlier.index.features
        if not np.array_equal(self.index.features[: known.size], known):
            raise UserError("an earlier state has other features: it is not one of this model")
        for name in ("state", "scales"):
            before, now = getattr(earlier, name), getattr(self, name)
            used = before.sizes._replace(features=min(before.sizes.features, earlier.index.rows))
            state = State(now.layout, now.sizes)
            state.load(before.cut(used), used)
            setattr(self, name, state)
        self.undone = self.rounds - earlier.rounds + earlier.undone
        self.rebind(self.graph)

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
        """Go on with other limits; what was spent is kept, unless there was no budget, or there is none."""
        limited = State(limits.piece().declare(), Sizes(1, 1, 1))
        limits.continue_from(self.limits, self.limited.tuple, limited.tuple, self.rounds, self.now.item(0))
        self.limits, self.limited = limits, limited
        self.bind(self.graph)

    # ----------------------------------------------------------------------------------------------- saving and loading

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return everything that a player is, as a JSON-ready header and named arrays.

        A state that the learner's fields do not allow, such as one with NaN, is a UserError.
        """
        arrays = graph_arrays(self.graph)
        self.index.settle(self.rounds)
        if self.index.grows:
            arrays["index.features"] = self.index.features
        for prefix, state in self.states.items():
            problem = state.problem()
            if problem is not None:
                broken = f"the state of {self.learner.name} is broken and cannot be saved, since {problem}"
                raise UserError(f"{broken}: go on from an older copy, and find the rows or the component that broke it")
            used = state.sizes._replace(features=min(state.sizes.features, self.index.rows))
            arrays |= {f"{prefix}.{name}": array for name, array in state.cut(used).items()}
        header = {
            "learner": encode_piece(self.learner),
            "features": self.features,
            "index": {"most": self.index.most, "left_out": self.index.left_out} if self.index.grows else None,
            "normalization": encode_piece(self.normalization),
            "bias": self.bias,
            "graph": describe_graph(self.graph),
            "watch": encode_piece(self.watch),
            "limits": self.limits.to_dict(),
            "rounds": self.rounds,
            "undone": self.undone,
            "now": self.now.item(0),
            "random": self.draws.state_at(self.rounds),
        }
        return header, arrays

    @classmethod
    def build(
        cls,
        header: dict[str, Any],
        arrays: Arrays,
        graph: FeedbackGraph,
        learner: Learner,
        pieces: tuple[type[Piece], ...] = (),
    ) -> Self:
        """Return the engine that :meth:`describe` described, checked; `pieces` are the classes of a user's own."""
        normalization, watch = (decode_piece(header[name], pieces) for name in ("normalization", "watch"))
        bias = header["bias"]
        if not isinstance(normalization, Normalization) or not isinstance(watch, Watching) or type(bias) is not bool:
            raise UserError("the normalization, the bias or the watch is not one: the file is damaged")
        features = whole(header["features"], "features", least=1, most=MOST_FEATURES)
        index = _build_index(features, bias, header["index"], arrays)
        played = whole(header["rounds"], "the rounds", most=MOST_ROUNDS)
        undone = whole(header["undone"], "the undone rounds", most=played)
        now, random = number(header["now"], "the time", least=0.0), check_random_state(header["random"])
        limits = Limits.from_dict(header["limits"])
        declared = _declare(learner, graph, index.rows, normalization, watch, limits)
        parts: dict[str, Arrays] = {prefix: {} for prefix in declared}
        for name, array in arrays.items():
            prefix, _, rest = name.partition(".")
            parts.get(prefix, {})[rest] = array
        # No state is allocated before the shapes of the saved arrays are those that are declared.
        for prefix, (layout, sizes) in declared.items():
            check_shapes(layout, sizes, parts[prefix])
        watch.check_state(parts["watch"], played)
        draws = Draws(played, random)
        engine = cls(learner, graph, features, index, normalization, watch, limits, draws)
        for prefix, state in engine.states.items():
            state.load(parts[prefix], declared[prefix][1])
        engine.played[0], engine.now[0], engine.undone = played, now, undone
        return engine
