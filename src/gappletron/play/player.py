"""A learner that plays: for whole chunks or single rounds.

:meth:`Player.advance` plays the rounds of a chunk; :meth:`Player.act` and :meth:`Player.learn` are the two halves of
one round. Any mixture of them gives the same bits. Classes and actions are positions in the graph here;
:class:`gappletron.Online` is the layer above that knows names and receipts, and :func:`gappletron.play` the one that
plays streams.
"""

import copy
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import UserError
from gappletron.base.signals import held_back
from gappletron.base.text import unknown
from gappletron.data.normalization import find_normalization
from gappletron.data.prepared import Prepared, prepare_rows, prepare_vector
from gappletron.data.scores import NO_SCORES
from gappletron.data.stream import MOST_FEATURES, Chunk
from gappletron.data.vectors import Checker, Vectors, sparse_parts
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.compiling import in_mode
from gappletron.kernel.pieces import Piece
from gappletron.kernel.spelling import decode_piece
from gappletron.kernel.types import Floats, Vector
from gappletron.learners.learner import Learner
from gappletron.learners.registry import check_can_play, find_learner
from gappletron.learners.run_bound import Restart, RunBound
from gappletron.play import archive, checks, rounds
from gappletron.play.draws import Draws
from gappletron.play.engine import Engine
from gappletron.play.limits import Limits
from gappletron.play.monitor_state import NoWatch, Watching, find_watch
from gappletron.play.options import PlayerOptions, takes_options
from gappletron.play.rounds import Counts, Losses, Rows, Tally
from gappletron.play.turns import HEAD, Turn, Turns

# The kind of a file.
FORMAT = "gappletron.Player"
# What "auto" means for the normalization and the bias of rows of these kinds; for vectors the learner says it.
AUTO = {"records": ("columns", True), "transformed": ("none", False)}


class Player:
    """A learner on a feedback graph: it owns the state and the random draws.

    :param learner: a learner, or the name of one.
    :param graph: which action reveals which label.
    :param features: the number of features; indices run from 0 to features - 1.
    :param repeat: which of several runs with this seed; each has its own draws.
    :param rows: what the rows are, which decides what ``"auto"`` means for `normalize` and `bias`: ``"vectors"`` (what
        the learner is made for: none for those of the paper), ``"records"`` (columns and a bias, since columns have any
        scale), or ``"transformed"`` (as they are).
    :param options: the fields of :class:`gappletron.play.options.PlayerOptions`.

    >>> from gappletron import FeedbackGraph, Player, Synthetic
    >>> player = Player("gapsmh", FeedbackGraph.bandit(3), features=40, seed=1)
    >>> for chunk in Synthetic(classes=3, features=40, noise=0, rounds=1000).chunks():
    ...     player.advance(chunk)
    >>> turn = player.act(([0, 7], [1.0, 1.0]))
    >>> player.learn(turn, label=turn.action)  # positions of classes; -1 where the label was not revealed
    >>> player.rounds, player.weights.shape
    (1001, (40, 3))
    """

    @takes_options(PlayerOptions)
    def __init__(
        self,
        learner: Learner | str,
        graph: FeedbackGraph,
        features: int,
        *,
        repeat: int = 0,
        rows: str = "vectors",
        **options: Any,
    ) -> None:
        made = find_learner(learner)
        chosen = PlayerOptions.parse(options)
        if chosen.memory is not None:
            made = made.with_memory(chosen.memory)
        if not isinstance(graph, FeedbackGraph):
            raise UserError(f"{graph!r} is not a FeedbackGraph: make one, as in FeedbackGraph.bandit(['a', 'b', 'c'])")
        if rows not in ("vectors", *AUTO):
            raise unknown(rows, "kind of rows", ["vectors", *AUTO])
        normalize, bias = AUTO.get(rows, (made.default_normalize, made.default_bias))
        bias = bias if chosen.bias == "auto" else bool(chosen.bias)
        width = whole(features, "features", least=1, most=MOST_FEATURES) + bias
        normalization = find_normalization(chosen.normalize, normalize)
        draws = Draws.seeded(chosen.seed, whole(repeat, "repeat"))
        self._use(Engine(made, graph, width, normalization, bias, find_watch(chosen.monitor), chosen.limits, draws))

    def _use(self, engine: Engine) -> None:
        """Play with an engine."""
        # What compiled rounds work on: the states, the draws, and the machine code.
        self.engine = engine
        self.checker = Checker()
        # With a number, rows may have any index below it, and the state doubles where it must.
        self.feature_limit: int | None = None

    @classmethod
    def build(cls, header: dict[str, Any], arrays: archive.Arrays, pieces: Iterable[type[Piece]] = ()) -> Self:
        """Return the player of a saved header and its arrays; `pieces` are classes of your own that it is made of."""
        known = tuple(pieces)
        graph = archive.build_graph(header["graph"], arrays)
        player = object.__new__(cls)
        player._use(Engine.build(header, arrays, graph, find_learner(decode_piece(header["learner"], known)), known))
        return player

    def __getstate__(self) -> dict[str, Any]:
        """Return what the player is, without machine code and addresses, for copies and pickles."""
        header, arrays = self.engine.describe()
        return {
            "mode": self.engine.interpreted,
            "header": header,
            "arrays": {name: array.copy() for name, array in arrays.items()},
            "graph": self.graph,
            "learner": self.learner,
            "feature_limit": self.feature_limit,
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        with in_mode(saved["mode"]):
            self._use(Engine.build(saved["header"], saved["arrays"], saved["graph"], saved["learner"]))
        self.feature_limit = saved["feature_limit"]

    def __repr__(self) -> str:
        return f"<Player {self.learner.name} on {self.graph}: {self.rounds} rounds, {self.features} features>"

    @property
    def learner(self) -> Learner:
        """The learner with all its numbers."""
        return self.engine.learner

    @property
    def graph(self) -> FeedbackGraph:
        """The feedback graph of rounds for which no other is given."""
        return self.engine.graph

    @property
    def watch(self) -> Watching:
        """What is written down of every round."""
        return self.engine.watch

    @property
    def limits(self) -> Limits:
        """The limits on the exploration."""
        return self.engine.limits

    @property
    def rounds(self) -> int:
        """The number of rounds played so far."""
        return self.engine.rounds

    @property
    def now(self) -> float:
        """The time of the next rounds, in seconds: for budgets by time, and for the points of a watch's curve.

        Nothing here reads a clock: whoever acts sets it.
        """
        return self.engine.now.item(0)

    @now.setter
    def now(self, seconds: float) -> None:
        self.engine.now[0] = number(seconds, "now", least=0.0)

    @property
    def spent(self) -> float | None:
        """What exploration has cost so far; None without a budget."""
        return None if self.limits.budget is None else float(self.engine.limited.tuple.spending.spent[1])

    def spent_until(self, now: float) -> float | None:
        """Return what exploration has cost so far in the budget's window of the next round, which comes at this time;
        None without a budget.
        """
        return self.limits.spent_in_window(self.engine.limited.tuple, self.rounds, now)

    def begin_watch(self, watch: Watching | bool = True) -> None:
        """Watch the rounds from now on, where none were watched so far."""
        if not isinstance(self.watch, NoWatch):
            raise UserError("the player is watched already: a watch lasts as long as its player")
        self._change(Engine.begin_watch, find_watch(watch))

    def _change(self, change: Callable[..., None], *arguments: Any) -> None:
        """Change a copy of the engine, which takes its place unless there is an error; signals wait."""
        with held_back():
            engine = copy.copy(self.engine)
            change(engine, *arguments)
            self.engine = engine

    def bound(self, waiting: int = 0) -> RunBound:
        """Return what is proved about the cost so far, for the learner `auto`.

        :param waiting: in how many rounds something was shown that the player has not been told yet.
        """
        found = self.find_bound(waiting)
        if found is None:
            raise UserError(f"{self.learner.name} has no bound of this kind: use the learner 'auto'")
        return found

    def find_bound(self, waiting: int = 0) -> RunBound | None:
        """As :meth:`bound`; None where the learner has no bound of this kind."""
        found = self.learner.bound(self.engine.state.tuple)
        if found is None:
            return None
        return dataclasses.replace(found, taught=found.rounds - self.rounds, waiting=waiting)

    @property
    def restarts(self) -> tuple[Restart, ...]:
        """The last restarts of the learner, oldest first: where it noticed a change, or was reset."""
        return self.learner.restarts(self.engine.state.tuple)

    @property
    def restart_count(self) -> int:
        """How often the learner began anew in all; :attr:`restarts` are the last ones."""
        return self.learner.count_restarts(self.engine.state.tuple)

    def reset(self) -> None:
        """Let the learner forget what may be out of date, as if it had noticed a change; a part of it stays."""
        if not self.learner.can_reset:
            raise UserError(f"{self.learner.name} has nothing to reset: make a new model, or use the learner 'auto'")
        self.engine.call(rounds.reset, self.engine.pack(self.graph))

    @property
    def features(self) -> int:
        """The number of features, without the bias."""
        return self.engine.state.sizes.features - self.engine.bias

    @property
    def weights(self) -> Floats:
        """W as a matrix of features x classes; with a bias, its weights are the first row."""
        return self.learner.weights(self.engine.state.tuple)[:, : self.graph.n_classes].copy()

    # ----------------------------------------------------------------------------------------------------------- chunks

    def advance(
        self,
        chunk: Chunk | Prepared,
        tally: Tally | None = None,
        *,
        record: Counts | Losses | None = None,
        graphs: Sequence[FeedbackGraph] | None = None,
        scores: Any = None,
    ) -> None:
        """Play every round of a chunk: draw an action, see what the graph reveals, learn.

        :param tally: where mistakes, labels seen and so on are added up; its confusion table has the size of the graph.
        :param graphs: the graph of each round, where it is not the player's own.
        :param scores: a score of your own for every class of every row; see :meth:`act`.
        """
        engine, checked = self.engine, checks.check_chunk(self, chunk, scores)
        tally = engine.new_tally() if tally is None else checks.check_tally(self, tally)
        n = len(checked.chunk.labels)
        stretches = [(0, n, self.graph)] if graphs is None else checks.find_stretches(self, graphs, n)
        first = self.rounds
        draws = engine.draws.draw_many(first, n)
        indptr, indices, values, labels = checked.chunk
        room = engine.room(indptr)
        kept = Counts() if record is None else record  # a piece without numbers counts as false
        for start, stop, graph in stretches:
            here = slice(start, stop)
            given = checked.scores[here]
            rows = Rows(indptr[start : stop + 1], indices, values, labels[here], checked.squared[here], room, given)
            while not engine.call(rounds.advance, engine.pack(graph), rows, draws[here], first + start, tally, kept):
                first = self.rounds - start  # a signal handler has played a round in between
                draws = engine.draws.draw_many(first, n)

    def teach(self, chunk: Chunk | Prepared, propensity: Any = None, scores: Any = None) -> None:
        """Learn from rows whose labels are known, without acting: a warm start, or labels that came from elsewhere.

        Every row is learned from as if the feedback graph showed every label. Nothing is drawn: `rounds` and the random
        draws stay as they are. On a graph that does show every label the state becomes the one that :meth:`advance`
        would leave. Rules that count rounds, such as :class:`gappletron.BurnIn`, count these too.

        :param propensity: for each row the probability, above 0 and at most 1, with which its label was observed; by
            default 1. Learners with importance weights divide by it. The default learner does not need it.
        :param scores: a score of your own for every class of every row; see :meth:`act`.

        Learners for bandit feedback, and `label-efficient-perceptron`, learn from the action that was drawn: they
        cannot be taught, and say so.
        """
        checks.check_teachable(self.learner)
        engine, checked = self.engine, checks.check_chunk(self, chunk, scores)
        observed = checks.check_propensities(propensity, len(checked.chunk.labels))
        rows = Rows(*checked.chunk, checked.squared, engine.room(checked.chunk.indptr), checked.scores)
        engine.call(rounds.teach, engine.pack_full(), rows, observed)

    def teach_vector(self, vector: Vector, label: int, propensity: Any = None, given: Floats | None = None) -> None:
        """Learn the position of the label of one vector that was checked: see :meth:`teach`.

        :param given: checked scores that came with the vector.
        """
        checks.check_teachable(self.learner)  # before the state grows
        if vector.indices.size:
            self.make_room(vector.indices.item(-1))
        self.teach(prepare_vector(vector, whole(label, "the position of a label"), given), propensity)

    # ---------------------------------------------------------------------------------------------- one round at a time

    def check(self, x: Any) -> Vector:
        """Return x as a checked vector; nothing grows.

        :param x: ``(indices, values)`` (the fastest), a dense vector, a one-row sparse matrix or a mapping.
        """
        if self.feature_limit is None:
            return self.checker.vector(x, self.features)
        return self.checker.vector(tuple(sparse_parts(x, None)), self.feature_limit)

    def check_scores(self, scores: Any) -> Floats | None:
        """Return the scores that came with a row, checked and between -1 and 1; None where there are none."""
        return None if scores is None else checks.check_scores(self.learner, self.graph, scores)

    def check_many(self, matrix: Any) -> Vectors | None:
        """Return the rows of a sparse matrix, checked; None where one must be converted, or is wrong."""
        return self.checker.vectors(matrix, self.feature_limit or self.features)

    def check_graph(self, graph: FeedbackGraph | None) -> FeedbackGraph:
        """Return the graph of one round: the player's own, or another over the same classes and actions."""
        own = self.engine.graph
        return own if graph is None or graph is own else checks.check_graph(own, graph)

    def make_room(self, *lasts: int) -> None:
        """Let the state of a growing player have the features with these indices, in this order."""
        for last in lasts:
            if last >= self.features and self.feature_limit is not None:
                self.grow(min(self.feature_limit, max(2 * self.features, last + 1)))

    def act(self, x: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> Turn:
        """Draw an action for x.

        :param x: ``(indices, values)`` (the fastest), a dense vector, a one-row sparse matrix or a mapping.
        :param graph: the feedback graph of this round, over the same classes and actions; by default the player's own.
        :param scores: a score of your own for every class (:func:`gappletron.play.checks.check_scores`).
        """
        vector, given = self.check(x), self.check_scores(scores)
        while True:  # again where a signal handler has played a round in between
            turn = self.new_turn(vector, graph, given=given)
            if self.draw(turn, vector, self.engine.played.item(0)):
                return turn

    def new_turn(
        self,
        vector: Vector,
        graph: FeedbackGraph | None = None,
        probabilities: Any = None,
        given: Floats | None = None,
    ) -> Turn:
        """Return a turn for a checked vector, whose action :meth:`draw` will draw, or take over from another's decision
        with these probabilities. Only the number of features may change.

        :param given: checked scores that came with the vector (:meth:`check_scores`).
        """
        chances = None if probabilities is None else checks.check_distribution(probabilities, self.graph.n_actions)
        here = self.check_graph(graph)
        if self.feature_limit is not None and vector.indices.size:
            self.make_room(vector.indices.item(-1))
        engine = self.engine
        return Turn(here, engine.state.sizes.features, engine.new_record(vector.values.size, chances, given))

    def draw(self, turn: Turn, vector: Vector, at: int, action: int | None = None, greedy: int | None = None) -> bool:
        """Draw the action of a new turn for this vector as round number `at`, or take over another's action and perhaps
        its greedy class; False, and nothing is changed, where another round comes next, or a class was added since.

        The state and the turn's record change in one call of compiled code: where a signal handler raises, the status
        of the turn tells whether the round was played.
        """
        engine = self.engine
        act = engine.act  # first: what it works on is packed then
        pack = engine.own if turn.graph is engine.graph else engine.pack(turn.graph)
        if action is None:
            return act(pack, *vector, engine.draws.draw(at), at, turn.record) is True
        action = whole(action, "the position of an action", most=self.graph.n_actions - 1)
        if turn.record[HEAD + action] <= 0.0:
            raise UserError(f"the action {action} has the probability 0: give the probabilities that it was drawn with")
        wanted = -1 if greedy is None else whole(greedy, "the position of a class", most=self.graph.n_classes - 1)
        return engine.call(rounds.follow, pack, vector, action, wanted, at, turn.record) is True

    def draw_many(self, rows: Vectors, graph: FeedbackGraph | None = None, given: Floats = NO_SCORES) -> Turns:
        """Return turns for many checked rows, with their actions drawn: the same bits as one by one, in one call of
        compiled code. The rows are copied.

        :param given: checked scores that came with the rows, n x K (:func:`gappletron.play.checks.check_many_scores`).
        """
        here = self.check_graph(graph)
        if self.feature_limit is not None:
            ends = rows.indptr[1:][np.diff(rows.indptr) > 0]
            self.make_room(*rows.indices[ends - 1].tolist())
        engine, n = self.engine, rows.squared.size
        ends, records = engine.new_records(np.diff(rows.indptr), given)
        pack = engine.pack(here)
        while True:  # again where a signal handler has played a round in between
            at = self.rounds
            if engine.call(rounds.act_rows, pack, rows, engine.draws.draw_many(at, n), at, ends, records):
                return Turns(here, engine.state.sizes.features, at, ends, records)

    def follow(
        self,
        x: Any,
        action: int,
        probabilities: Any,
        graph: FeedbackGraph | None = None,
        greedy: int | None = None,
        scores: Any = None,
    ) -> Turn:
        """As :meth:`act`, but the decision is another's: a model in the shadow of one that acts, or a logged round.

        The learner learns from the given action and its propensities, and a watch estimates what the learner's own
        distribution, and its own greedy class, would have led to.

        :param x, graph, scores: as those of :meth:`act`.
        :param action: the position of the action that was played.
        :param probabilities: of all actions, when it was drawn.
        :param greedy: the position of the greedy class of that decision, where it is to stand for the learner's own.
        """
        vector, given = self.check(x), self.check_scores(scores)
        while True:  # again where a signal handler has played a round in between
            turn = self.new_turn(vector, graph, probabilities, given)
            if self.draw(turn, vector, self.rounds, action, greedy):
                return turn

    def learn(self, turn: Turn, label: int) -> None:
        """Take in the feedback of a turn: the position of the label, or -1 where the graph did not reveal it.

        Feedback may come late: the default learner learns it as if the row came today; for those of the paper the
        gradient is that of prediction time, applied to the weights of today. A turn from before a class was added
        teaches what it could teach then.
        """
        label = checks.check_label(self.engine, turn, label)
        engine = self.engine
        learn = engine.learn  # first: what it works on is packed then
        pack = engine.own if turn.graph is engine.graph else engine.pack(turn.graph)
        learn(pack, turn.record, label)

    def learn_many(self, turns: Sequence[Turn], labels: Sequence[int]) -> None:
        """Take in the feedback of many turns, in order: the same bits as :meth:`learn` for each, in one call of
        compiled code where all have the player's own graph.
        """
        given = checks.check_labels(self.engine, turns, labels)
        if not all(turn.graph is self.graph for turn in turns):
            for turn, label in zip(turns, given, strict=True):
                self.learn(turn, label)
            return
        ends = np.zeros(len(turns) + 1, np.int64)
        np.cumsum([turn.record.size for turn in turns], out=ends[1:])
        records = np.concatenate([np.zeros(0), *(turn.record for turn in turns)])
        self.engine.call(rounds.learn_rows, self.engine.pack(self.graph), ends, records, np.array(given, np.int64))
        for turn, (start, stop) in zip(turns, itertools.pairwise(ends.tolist()), strict=True):
            turn.record[:] = records[start:stop]

    # ----------------------------------------------------------------------------------------- predict, without changes

    def predict(self, x: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> int:
        """Return the greedy class for x, y*; draws nothing and changes nothing.

        :param x: as that of :meth:`act`; or a checked vector, whose features beyond those of the player have weights 0.
        :param graph, scores: as those of :meth:`act`; the graph matters to learners that use its costs.
        """
        vector = x if isinstance(x, Vector) else self.checker.vector(x, self.features)
        ready = prepare_vector(vector, given=self.check_scores(scores))
        found = self.engine.look(rounds.write_greedy, [ready], 1, self.check_graph(graph), np.int64)
        return found.item()

    def predict_many(self, X: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> NDArray[np.int64]:
        """Return the greedy class of every row of a dense array or a sparse matrix."""
        return self._look(rounds.write_greedy, X, 1, graph, scores, np.int64)[:, 0]

    def scores(self, X: Any, scores: Any = None) -> Floats:
        """Return the scores of every row, n x K; most learners predict the class with the largest."""
        return self._look(rounds.write_scores, X, self.graph.n_classes, scores=scores)

    def predict_proba(self, X: Any, scores: Any = None) -> Floats:
        """Return the probability of every label, n x K, as the learner estimates it; the rows sum to 1.

        For the default learner and the other estimators these are probabilities of a softmax, whose sharpness follows
        what was shown so far. Other learners may have no model of probabilities: then it is the softmax of their
        scores, which is not calibrated (:meth:`Learner.label_probabilities`).

        The probabilities of the actions, which are drawn from, are :meth:`probabilities`.
        """
        return self._look(rounds.write_label_probabilities, X, self.graph.n_classes, scores=scores)

    def probabilities(self, X: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> Floats:
        """Return the probability of every action, n x N: what each row would meet if it came next."""
        return self._look(rounds.write_probabilities, X, self.graph.n_actions, graph, scores)

    def _look(
        self,
        write: Any,
        X: Any,
        columns: int,
        graph: FeedbackGraph | None = None,
        scores: Any = None,
        dtype: type[Any] = np.float64,
    ) -> NDArray[Any]:
        """Return what a function of :mod:`gappletron.play.rounds` writes for every row of X, in so many columns."""
        chunks = checks.add_scores(self, prepare_rows(X, self.features, self.feature_limit is not None), scores)
        return self.engine.look(write, chunks, columns, self.check_graph(graph), dtype)

    # ---------------------------------------------------------------------------------------------------------- growing

    def grow(self, features: int) -> None:
        """Give the state more features; what was learned stays, and the new ones start as if they had been there."""
        wanted = whole(features, "features", least=self.features, most=MOST_FEATURES)
        if wanted > self.features:
            self._change(Engine.grow, wanted + self.engine.bias)

    def add_class(
        self,
        name: Label,
        reveals: Iterable[Label] | None = None,
        revealed_by: Iterable[Label] | None = None,
        costs: Any = None,
    ) -> None:
        """Add a class, and the action that predicts it, while running; see :meth:`FeedbackGraph.with_class`.

        What was learned stays. Code is compiled once per padded number of classes (a multiple of 4): after one class in
        four, rounds may run as plain Python for some seconds.
        """
        self.extend(self.graph.with_class(name, reveals, revealed_by, costs))

    def extend(self, graph: FeedbackGraph) -> None:
        """Go on with a graph that has more classes than the player's own, which comes before it."""
        if not self.graph.may_precede(graph):
            raise UserError(f"the graph {graph.name!r} does not continue the player's own: use its with_class")
        check_can_play(self.learner, graph)
        self._change(Engine.extend, graph)

    def set_limits(self, limits: Limits) -> None:
        """Go on with other limits on the exploration. A budget starts with nothing spent, unless it is the same."""
        limits.plan(self.graph)  # an error where the graph cannot keep to them
        if limits != self.limits:
            self._change(Engine.set_limits, limits)

    # ----------------------------------------------------------------------------------------------- saving and loading

    def save(self, path: str | PathLike[str]) -> None:
        """Write the player to a file: weights, accumulators, graph and random state.

        The file is a NumPy archive with a JSON header: nothing in it can run code. It replaces an older one at once or
        not at all. A player that was saved and loaded at any round goes on bit for bit.
        """
        archive.write(path, FORMAT, *self.engine.describe())

    @classmethod
    def load(cls, path: str | PathLike[str], *, pieces: Iterable[type[Piece]] = ()) -> Self:
        """Read what :meth:`save` wrote; `pieces` are the classes of your own that the learner is made of."""
        return archive.read(path, FORMAT, functools.partial(cls.build, pieces=pieces))

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` would write; nothing in them can run code."""
        return archive.to_bytes(FORMAT, *self.engine.describe())

    @classmethod
    def from_bytes(cls, data: bytes, *, pieces: Iterable[type[Piece]] = ()) -> Self:
        """Return the player of :meth:`to_bytes`, or of a file that :meth:`save` wrote; `pieces` as in :meth:`load`."""
        return archive.from_bytes(data, FORMAT, functools.partial(cls.build, pieces=pieces))
