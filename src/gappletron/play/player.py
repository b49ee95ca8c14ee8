"""A learner that plays: for whole chunks or single rounds.

:meth:`Player.advance` plays the rounds of a chunk; :meth:`Player.act` and :meth:`Player.learn` are the two halves of
one round. Any mixture of them gives the same bits. Classes and actions are positions in the graph here;
:class:`gappletron.Online` is the layer above that knows names and receipts, and :func:`gappletron.play` the one that
plays streams.
"""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import UserError
from gappletron.base.parts import part
from gappletron.base.signals import held_back
from gappletron.base.text import describe, unknown
from gappletron.data.normalization import find_normalization
from gappletron.data.prepared import Prepared, prepare_rows, prepare_vector
from gappletron.data.scores import NO_SCORES
from gappletron.data.stream import Chunk
from gappletron.data.vectors import Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.compiling import in_mode
from gappletron.kernel.pieces import Piece
from gappletron.kernel.spelling import decode_piece
from gappletron.kernel.types import MOST_FEATURES, MOST_NARROW, NO_VECTOR, Floats, Vector
from gappletron.learners.learner import Learner
from gappletron.learners.registry import check_can_play, find_learner
from gappletron.learners.run_bound import Restart, RunBound
from gappletron.play import archive, checks, rounds
from gappletron.play.draws import Draws
from gappletron.play.engine import Engine
from gappletron.play.explaining import Explained, Weighed, explain, weigh
from gappletron.play.index import DirectIndex, FeatureIndex
from gappletron.play.limits import Limits, LimitsReport
from gappletron.play.monitor_state import NoWatch, Watching, find_watch
from gappletron.play.options import PlayerOptions, takes_options
from gappletron.play.placing import place_chunk, place_many, place_vector
from gappletron.play.rounds import Counts, Logged, Losses, Rows, Tally
from gappletron.play.turns import HEAD, Turn, Turns

# The kind of a file.
FORMAT = "gappletron.Player"
# So many features have a row each from the start.
MOST_DIRECT = 2**16
# What "auto" means for the normalization and the bias of rows of these kinds; for vectors the learner says it.
AUTO = {"records": ("columns", True), "transformed": ("none", False)}


class Player:
    """A learner on a feedback graph: it owns the state and the random draws.

    :param learner: a learner, or the name of one.
    :param graph: which action reveals which label.
    :param features: the number of features: indices run from 0 to features - 1; ``"grow"`` for any index. Up to 65,536
        features have a row of the state each. Of more, those that have come have one.
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
        features: int | str,
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
            raise UserError(
                f"{describe(graph)} is not a FeedbackGraph: make one, as in FeedbackGraph.bandit(['a', 'b', 'c'])"
            )
        if rows not in ("vectors", *AUTO):
            raise unknown(rows, "kind of rows", ["vectors", *AUTO])
        normalize, bias = AUTO.get(rows, (made.default_normalize, made.default_bias))
        bias = bias if chosen.bias == "auto" else bool(chosen.bias)
        if isinstance(features, str) and features != "grow":
            raise UserError(f"features={features!r} is neither a number nor 'grow': give one of them")
        below = MOST_FEATURES if features == "grow" else whole(features, "features", least=1, most=MOST_FEATURES)
        most = chosen.max_features if below == MOST_FEATURES else below
        index = FeatureIndex(most, bias) if below > MOST_DIRECT else DirectIndex(below, bias)
        normalization = find_normalization(chosen.normalize, normalize)
        draws = Draws.seeded(chosen.seed, whole(repeat, "repeat"))
        watch = find_watch(chosen.monitor)
        # What compiled rounds work on: the states, the draws, and the machine code.
        self.engine = Engine(made, graph, below, index, normalization, watch, chosen.limits, draws)

    @classmethod
    def build(cls, header: dict[str, Any], arrays: archive.Arrays, pieces: Iterable[type[Piece]] = ()) -> Self:
        """Return the player of a saved header and its arrays; `pieces` are classes of your own that it is made of."""
        known = tuple(pieces)
        graph = archive.build_graph(header["graph"], arrays)
        player = object.__new__(cls)
        learner = find_learner(decode_piece(header["learner"], known))
        player.engine = Engine.build(header, arrays, graph, learner, known)
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
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        with in_mode(saved["mode"]):
            self.engine = Engine.build(saved["header"], saved["arrays"], saved["graph"], saved["learner"])

    def __repr__(self) -> str:
        return f"<Player {self.learner.name} on {self.graph}: {self.rounds} rounds, {self.features} features>"

    learner: Learner = part("engine.learner", "The learner with all its numbers.")

    graph: FeedbackGraph = part("engine.graph", "The feedback graph of rounds for which no other is given.")

    watch: Watching = part("engine.watch", "What is written down of every round.")

    limits: Limits = part("engine.limits", "The limits on the exploration.")

    rounds: int = part("engine.rounds", "The number of rounds played so far.")

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

    def report_limits(self, now: float) -> LimitsReport:
        """Return what the limits have done so far, for a next round that comes at this time."""
        return self.limits.report(self.engine.limited.tuple, self.rounds, now)

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

    def bound(self, waiting: int = 0) -> RunBound | None:
        """Return what is proved about the cost so far, for the learner `auto`; None for learners without such a bound.

        :param waiting: in how many rounds something was shown that the player has not been told yet.
        """
        found = self.learner.bound(self.engine.state.tuple)
        if found is None:
            return None
        undone = self.engine.undone
        return dataclasses.replace(found, taught=found.rounds - self.rounds + undone, waiting=waiting, undone=undone)

    @property
    def restarts(self) -> tuple[Restart, ...]:
        """The last restarts of the learner, oldest first: where it noticed a change, or was reset."""
        return self.learner.restarts(self.engine.state.tuple)

    @property
    def restart_count(self) -> int:
        """How often the learner restarted in all; :attr:`restarts` are the last ones."""
        return self.learner.count_restarts(self.engine.state.tuple)

    def reset(self) -> None:
        """Let the learner forget what may be out of date, as if it had noticed a change; a part of it stays."""
        if not self.learner.can_reset:
            raise UserError(f"{self.learner.name} has nothing to reset: make a new model, or use the learner 'auto'")
        self.engine.call(rounds.reset, self.engine.pack(self.graph))

    features: int = part("engine.index.used", "How many features have a row: all, or those that have come.")

    grows: bool = part("engine.index.grows", "Whether a feature gets a row when it first comes.")

    fixed_features: int | None = part("engine.checker.length", "How many features a dense row must have; None for any.")

    max_features: int = part("engine.index.most", "How many features may have a row.")

    features_left_out: int = part("engine.index.left_out", "How many entries were left out, as there was no row left.")

    @property
    def feature_indices(self) -> NDArray[np.int64]:
        """The indices of the features that have a row, in the order of the rows of :attr:`weights`."""
        return self.engine.index.features.copy()

    @property
    def weights(self) -> Floats:
        """W as a matrix of features x classes, in the order of :attr:`feature_indices`; with a bias, its weights are
        the first row.
        """
        return self.learner.weights(self.engine.state.tuple)[: self.engine.index.rows, : self.graph.n_classes].copy()

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
        checked = self._place_chunk(chunk, scores)
        engine = self.engine
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

        Every row is learned from as if the feedback graph revealed every label. Nothing is drawn: `rounds` and the
        random draws stay as they are. On a graph that does reveal every label the state becomes the one that
        :meth:`advance` would leave. Rules that count rounds, such as :class:`gappletron.BurnIn`, count these too.

        :param propensity: for each row the probability, above 0 and at most 1, with which its label was observed; by
            default 1. Learners with importance weights divide by it. The default learner does not need it.
        :param scores: a score of your own for every class of every row; see :meth:`act`.

        Learners for bandit feedback, and `label-efficient-perceptron`, learn from the action that was drawn: they
        cannot be taught, and say so.
        """
        checks.check_teachable(self.learner)
        ready = checks.check_chunk(self, chunk, scores)
        observed = checks.check_propensities(propensity, len(ready.chunk.labels))
        checked = self._place_chunk(ready)
        engine = self.engine
        rows = Rows(*checked.chunk, checked.squared, engine.room(checked.chunk.indptr), checked.scores)
        engine.call(rounds.teach, engine.pack_full(), rows, observed)

    def teach_vector(self, vector: Vector, label: int, propensity: Any = None, given: Floats | None = None) -> None:
        """Learn the position of the label of one vector that was checked: see :meth:`teach`.

        :param given: checked scores that came with the vector.
        """
        self.teach(prepare_vector(vector, whole(label, "the position of a label"), given), propensity)

    # ---------------------------------------------------------------------------------------------- one round at a time

    def check(self, x: Any) -> Vector:
        """Return x as a checked vector; nothing grows.

        :param x: ``(indices, values)`` (the fastest), a dense vector, a one-row sparse matrix or a mapping.
        """
        return self.engine.checker.vector(x)

    def check_scores(self, scores: Any) -> Floats | None:
        """Return the scores that came with a row, checked and between -1 and 1; None where there are none."""
        return None if scores is None else checks.check_scores(self.learner, self.graph, scores)

    def check_many(self, matrix: Any) -> Vectors | None:
        """Return the rows of a sparse matrix or a 2-D array, checked; None where one must be converted, or is wrong."""
        if isinstance(matrix, np.ndarray) and matrix.shape[1] != (self.fixed_features or matrix.shape[1]):
            return None
        return self.engine.checker.vectors(matrix)

    def check_graph(self, graph: FeedbackGraph | None) -> FeedbackGraph:
        """Return the graph of one round: the player's own, or another over the same classes and actions."""
        own = self.engine.graph
        return own if graph is None or graph is own else checks.check_graph(own, graph)

    def place(self, vector: Vector, at: int) -> Vector:
        """Return a checked vector with the rows of its features as indices, to be played as round number `at`; new
        features get a row, or are left out where there is none left.
        """
        index = self.engine.index
        if not isinstance(index, FeatureIndex):
            return vector
        placed = place_vector(index, vector, at)
        self._make_room()
        return placed

    def _place_chunk(self, chunk: Chunk | Prepared, scores: Any = None) -> Prepared:
        """Return a chunk, checked, with the rows of its features as indices."""
        placed = place_chunk(self.engine.index, checks.check_chunk(self, chunk, scores))
        self._make_room()
        return self.engine.select(placed)

    def _make_room(self) -> None:
        """Let the state have a row for each feature that has one."""
        engine = self.engine
        if engine.index.rows >= engine.state.sizes.features and engine.index.grows:
            self._change(Engine.make_room)

    def act(self, x: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> Turn:
        """Draw an action for x.

        :param x: ``(indices, values)`` (the fastest), a dense vector, a one-row sparse matrix or a mapping.
        :param graph: the feedback graph of this round, over the same classes and actions; by default the player's own.
        :param scores: a score of your own for every class (:func:`gappletron.play.checks.check_scores`).
        """
        vector, given = self.check(x), self.check_scores(scores)
        self.check_graph(graph)  # no feature gets a row for a call that is refused
        while True:  # again where a signal handler has played a round in between
            at = self.engine.played.item(0)
            placed = self.place(vector, at)
            turn = self.new_turn(placed, graph, given=given)
            if self.draw(turn, placed, at):
                return turn

    def new_turn(
        self, vector: Vector, graph: FeedbackGraph | None = None, probabilities: Any = None, given: Floats | None = None
    ) -> Turn:
        """Return a turn for a vector of :meth:`place`, whose action :meth:`draw` will draw, or take over from another's
        decision with these probabilities. Nothing is changed.

        :param given: checked scores that came with the vector (:meth:`check_scores`).
        """
        chances = None if probabilities is None else checks.check_distribution(probabilities, self.graph.n_actions)
        here = self.engine.graph if graph is None else self.check_graph(graph)
        engine = self.engine
        return Turn(here, engine.index, engine.new_record(vector.values.size, chances, given))

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
        while True:  # again where a signal handler has played a round in between
            at = self.rounds
            placed = place_many(self.engine.index, rows, at)
            self._make_room()
            engine, n = self.engine, rows.squared.size
            ends, records = engine.new_records(np.diff(placed.indptr), given)
            draws = engine.draws.draw_many(at, n)
            if engine.call(rounds.act_rows, engine.pack(here), placed, draws, at, ends, records):
                return Turns(here, engine.index, at, ends, records)

    def repeat(self, rows: Vectors, given: Floats, log: Logged, older: list[Floats]) -> tuple[Turns, int] | None:
        """Play rounds of a log again, and learn from them: the same bits as one by one. Return the turns of these rows,
        and how many of them come out differently now; None, and nothing is changed, while there is no machine code.

        :param older: the records of earlier turns, whose places in the steps of the log follow those of the rows.
        """
        play, at, n = self.engine.find_repeat(), self.rounds, rows.squared.size
        if play is None:
            return None
        placed = place_many(self.engine.index, rows, at)
        self._make_room()
        engine = self.engine
        ends, records = engine.new_records(np.diff(placed.indptr), given)
        ends = np.concatenate([ends, ends[-1] + np.cumsum([record.size for record in older], dtype=np.int64)])
        records = np.concatenate([records, *older])
        if not engine.needs_time:
            log = log._replace(times=np.full(n, engine.now[0]))
        changed = play(engine.pack(self.graph), placed, engine.draws.draw_many(at, n), at, ends, records, log)
        return Turns(self.graph, engine.index, at, ends, records), changed

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
        checks.check_distribution(probabilities, self.check_graph(graph).n_actions)
        while True:  # again where a signal handler has played a round in between
            at = self.rounds
            placed = self.place(vector, at)
            turn = self.new_turn(placed, graph, probabilities, given)
            if self.draw(turn, placed, at, action, greedy):
                return turn

    def learn(self, turn: Turn, label: int) -> None:
        """Take in the feedback of a turn: the position of the label, or -1 where the graph did not reveal it.

        Feedback may come late: the default learner learns it as if the row came today; for those of the paper the
        gradient is that of prediction time, applied to the weights of today. A turn from before a class was added
        teaches what it could teach then.
        """
        self._learn(turn, checks.check_label(self.engine, turn, label))

    def learn_many(self, turns: Sequence[Turn], labels: Sequence[int]) -> None:
        """Take in the feedback of many turns, in order, as :meth:`learn` does; all are checked before the first."""
        for turn, label in zip(turns, checks.check_labels(self.engine, turns, labels), strict=True):
            self._learn(turn, label)

    def _learn(self, turn: Turn, label: int) -> None:
        engine = self.engine
        learn = engine.learn  # first: what it works on is packed then
        pack = engine.own if turn.graph is engine.graph else engine.pack(turn.graph)
        learn(pack, turn.record, label)

    # ----------------------------------------------------------------------------------------- predict, without changes

    def predict(self, x: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> int:
        """Return the greedy class for x, y*; draws nothing and changes nothing.

        :param x: as that of :meth:`act`; or a checked vector, whose features beyond those of the player have weights 0.
        :param graph, scores: as those of :meth:`act`; the graph matters to learners that use its costs.
        """
        vector = x if isinstance(x, Vector) else self.check(x)
        return self.predict_vector(vector, NO_VECTOR.values, self.check_scores(scores), graph)

    def predict_vector(
        self, vector: Vector, chances: Floats, given: Floats | None = None, graph: FeedbackGraph | None = None
    ) -> int:
        """Return the greedy class of a checked vector, and fill `chances`, unless it is empty, with the probability of
        every label: :meth:`predict` and :meth:`predict_proba` for one row, in one call of compiled code.

        :param given: checked scores that came with the vector.
        """
        engine = self.engine
        pack, record = engine.pack(self.check_graph(graph)), engine.new_record(vector.values.size, None, given)
        found = engine.call(rounds.predict, pack, engine.index.find(vector.indices), vector.values, record, chances)
        return int(found)

    def predict_many(self, X: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> NDArray[np.int64]:
        """Return the greedy class of every row of a dense array or a sparse matrix."""
        return self._look(rounds.write_greedy, X, 1, graph, scores, np.int64)[:, 0]

    def scores(self, X: Any, scores: Any = None) -> Floats:
        """Return the scores of every row, n x K; most learners predict the class with the largest."""
        return self._look(rounds.write_scores, X, self.graph.n_classes, scores=scores)

    def predict_proba(self, X: Any, scores: Any = None) -> Floats:
        """Return the probability of every label, n x K, as the learner estimates it; the rows sum to 1.

        For the default learner and the other estimators these are probabilities of a softmax, whose sharpness follows
        what was revealed so far. Other learners may have no model of probabilities: then it is the softmax of their
        scores, which is not calibrated (:meth:`Learner.label_probabilities`).

        The probabilities of the actions, which are drawn from, are :meth:`probabilities`.
        """
        return self._look(rounds.write_label_probabilities, X, self.graph.n_classes, scores=scores)

    def probabilities(self, X: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> Floats:
        """Return the probability of every action, n x N: what each row would meet if it came next."""
        return self._look(rounds.write_probabilities, X, self.graph.n_actions, graph, scores)

    def explain(self, vector: Vector, graph: FeedbackGraph | None = None, given: Floats | None = None) -> Explained:
        """Return what the scores of a checked vector are the sum of, and its distribution, if it came next.

        :param given: checked scores that came with the vector.

        >>> from gappletron import FeedbackGraph, Player
        >>> player = Player("perceptron", FeedbackGraph.full(["ham", "spam"]), features=2)
        >>> player.teach_vector(player.check([1.0, 0.0]), label=1)
        >>> found = player.explain(player.check([1.0, 3.0]))
        >>> found.parts.entries[:, 1] - found.parts.entries[:, 0], found.greedy
        (array([2., 0.]), 1)
        """
        return explain(self.engine, vector, self.check_graph(graph), given)

    def weigh(self, features: NDArray[np.int64], values: Floats) -> Weighed:
        """Return what features add to the scores of rows of their own.

        :param values: of the entries; for 0 one as large as those of this column usually are.

        >>> from gappletron import FeedbackGraph, Player
        >>> player = Player("perceptron", FeedbackGraph.full(["ham", "spam"]), features=2)
        >>> player.teach_vector(player.check([1.0, 0.0]), label=1)
        >>> player.weigh(np.arange(2), np.ones(2)).weights
        array([[-1.,  1.],
               [ 0.,  0.]])
        """
        return weigh(self.engine, features, values)

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
        chunks = checks.add_scores(self, prepare_rows(X, self.fixed_features), scores)
        return self.engine.look(write, chunks, columns, self.check_graph(graph), dtype)

    # ---------------------------------------------------------------------------------------------------------- growing

    def grow(self, features: int) -> None:
        """Give the state more features; what was learned stays, and the new ones start as if they had been there.

        With ``features="grow"`` it is not needed.
        """
        if self.grows:
            raise UserError("features get a row when they first come: nothing must be grown")
        wanted = whole(features, "features", least=self.engine.features, most=MOST_NARROW)
        if wanted > self.features:
            self._change(Engine.grow, wanted)

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

    def set_graph(self, graph: FeedbackGraph) -> None:
        """Go on with a graph that has other edges or costs over the same classes and actions; what was learned stays.

        A turn that waits is learned from under the graph that it was played on.
        """
        graph = self.check_graph(graph)
        if graph is not self.graph:
            check_can_play(self.learner, graph)
            self._change(Engine.set_graph, graph)

    def roll_back(self, earlier: Self) -> None:
        """Let the learner know what it knew earlier: `earlier` is a copy of this player from then.

        The rounds and their numbers go on, and so do the graph, the limits, what was spent, and the watch: the rounds
        since then were played. Turns that wait can be learned from.
        """
        self._change(Engine.roll_back, copy.copy(earlier).engine)

    def set_limits(self, limits: Limits) -> None:
        """Go on with other limits on the exploration. What was spent counts for a budget that replaces another."""
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
