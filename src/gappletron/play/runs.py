"""Playing: learners against a stream on a graph, each in several repeats, the stream read once for all of them."""

import contextlib
import dataclasses
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, check_memory, whole
from gappletron.base.errors import UserError
from gappletron.base.parts import part
from gappletron.base.text import listing, make_printable, shorten
from gappletron.data.open import open_stream
from gappletron.data.prepared import Prepared, prepare_chunks
from gappletron.data.scores import NO_SCORES, check_score_table
from gappletron.data.stream import FirstRounds, Stream
from gappletron.graphs.graph import FeedbackGraph
from gappletron.graphs.open import find_new_classes, match_classes, open_graph
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Learner
from gappletron.learners.registry import find_learner
from gappletron.play.history import Histories, History, read_curve
from gappletron.play.options import PlayerOptions, takes_options
from gappletron.play.player import Player
from gappletron.play.rounds import TOTALS, Counts, Losses, new_tally

Graphs = FeedbackGraph | str | Sequence[FeedbackGraph] | Callable[[int], FeedbackGraph]

Learners = Learner | str | Sequence[Learner | str] | Mapping[str, Learner | str] | Mapping[str, Player]
MARKS_A_DECADE = 24


def play(
    learners: Learners = "auto",
    stream: Any = None,
    graph: Graphs | None = None,
    *,
    progress: Callable[[int, int | None], None] | None = None,
    **arguments: Any,
) -> Histories:
    """Play a stream with every learner, `repeats` times each, and return what happened.

    :param learners: a learner, its name (see :func:`gappletron.named`), several of them, or a mapping from names of
        your own; by default ``"auto"``.
    :param stream: a :class:`~gappletron.data.stream.Stream`, an ``(X, y)`` pair of arrays or a sparse matrix and
        labels, or what the command line takes: a svmlight file's path, ``"synthetic:K=9,d=120"``, ``"digits"``.
    :param graph: a :class:`FeedbackGraph`, its JSON file, or the name of a preset, which is made for the classes of the
        stream: ``"bandit"``, ``"filtering:revealing=ham"``. Where it changes from round to round: a sequence with the
        graph of each round, or a function from the number of the round (from 0) to its graph, all over the same classes
        and actions.
    :param revealing: with the preset ``"filtering"`` or ``"apple-tasting"``, the class (or a list of classes) that
        reveals. By default the first class, where the order of the classes was given; it must be named where the order
        was derived from the data (the sorted labels of arrays, the scan of a file).
    :param repeats: how often each learner plays, on the same data with its own randomness; or which repeats, by their
        numbers.
    :param seed: of the learners' randomness; repeat r of every learner draws from ``SeedSequence(seed,
        spawn_key=(r,))``.
    :param rounds: stop after this many.
    :param scores: what a model of your own says of the rows (docs, page Scores of your own model): an array with a row
        for each round and a column for each class of the graph, in place of scores that the stream may have. Learners
        that take no scores play without them.
    :param losses: also add up the surrogate losses l_t(W_t), seen or not.
    :param curve: at which rounds totals are kept: ``"log"``, ``"every"``, or the rounds.
    :param jobs: threads; by default as many as the machine has cores. The results do not depend on it.
    :param progress: called after every chunk with the rounds played so far and those there are (None where unknown).

    Further arguments are the options of a :class:`gappletron.Player` (`normalize`, `bias`, `min_propensity`, ...). Each
    learner's rows are scaled by what it has seen so far. A budget by time takes that of playing.

    >>> runs = play("gapsmh", "synthetic:K=3,d=40,noise=0,T=1000", "filtering", repeats=3)
    >>> runs
    <Histories of gapsmh: 3 runs>
    """
    if stream is None or graph is None:
        raise UserError(
            f"there is no {'stream' if stream is None else 'graph'} to play: give the rows and labels as "
            'stream=(X, y), and what a prediction reveals as graph="bandit", "filtering" or another'
        )
    runs = Runs(learners, stream, graph, **arguments)
    for played in runs:
        if progress is not None:
            progress(played, runs.stream.rounds)
    return runs.histories()


class Runs:
    """The runs behind :func:`play`, chunk by chunk: iterate to play, and ask for the histories at any time.

    The arguments are those of :func:`play`. With the option `monitor`, a :class:`gappletron.Monitor` of :meth:`player`
    estimates the error from the labels that were seen.

    >>> runs = Runs("gapsmh", "synthetic:K=3,d=40,T=1000", "bandit")
    >>> for played in runs:
    ...     print(played, "rounds,", runs.histories()[0].labels_seen < 1000)
    1000 rounds, True
    """

    @takes_options(PlayerOptions)
    def __init__(
        self,
        learners: Learners,
        stream: Any,
        graph: Graphs,
        *,
        revealing: Any = None,
        repeats: int | Sequence[int] = 1,
        rounds: int | None = None,
        scores: Any = None,
        losses: bool = False,
        curve: str | Sequence[int] = "log",
        jobs: int | None = None,
        **options: Any,
    ) -> None:
        if type(losses) is not bool:
            raise UserError(f"losses must be True or False, not {losses!r}")
        self.repeats = _check_repeats(repeats)
        self.jobs = usable_cores() if jobs is None else whole(jobs, "jobs", least=1, most=4096)
        self.learners = _name_learners(learners)
        opened = open_stream(stream)
        self.stream: Stream = opened if rounds is None else FirstRounds(opened, rounds)
        self.graph, self._changing = _open_graphs(graph, self.stream, revealing)
        self._positions = match_classes(self.stream.classes, self.graph)
        self._scores = self._check_scores(scores, opened)
        marks = find_marks(curve, self.stream.rounds)
        seed = PlayerOptions.parse(options).seed
        kind = "vectors" if self.stream.encoder is None else "records"
        rows = "transformed" if self.stream.is_transformed else kind

        self._runs: list[_Run] = []
        needed = 0
        for name, repeat in itertools.product(self.learners, self.repeats):
            player = self.learners[name]
            if not isinstance(player, Player):
                player = Player(player, self.graph, self.stream.features, repeat=repeat, rows=rows, **options)
            self._runs.append(run := _Run(name, repeat, seed, player, marks, losses))
            if repeat == self.repeats[0]:
                needed += len(self.repeats) * run.nbytes
                what = f"{len(self.repeats)} run{'s' * (len(self.repeats) > 1)} of {listing(self.learners)}"
                check_memory(needed, what, "play fewer repeats or learners at once, or hash the features into fewer")
        for run in self._runs:  # or loaded from the cache, before anything is timed
            run.player.engine.compile_chunks(run.record)
        self._has_costs = self.graph.has_costs
        self._begun = False

    @classmethod
    def continuing(cls, player: Player, stream: Any, *, jobs: int | None = None) -> Self:
        """Return a run that goes on with a player as it is; classes of the stream that are new to it are added.

        >>> from gappletron import FeedbackGraph, Player
        >>> player = Player("auto", FeedbackGraph.bandit(3), features=40)
        >>> for _ in Runs.continuing(player, "synthetic:K=3,d=40,T=500"):
        ...     player.rounds
        500
        """
        opened = open_stream(stream)
        for name in find_new_classes(opened.classes, player.graph):
            player.add_class(name)
        return cls({player.learner.name: player}, opened, player.graph, jobs=jobs)

    rounds: int | None = part("stream.rounds", "The rounds of the stream, where their number is known.")

    def player(self, name: str | None = None, repeat: int = 0) -> Player:
        """Return the player of one run, as it is now; by default of the first learner."""
        first = next(iter(self.learners)) if name is None else name
        for run in self._runs:
            if (run.name, run.repeat) == (first, repeat):
                return run.player
        raise UserError(f"there is no run of {first!r} with repeat {repeat}: the learners are {listing(self.learners)}")

    def __iter__(self) -> Iterator[int]:
        """Play the stream, once; after each chunk, the number of rounds played so far."""
        if self._begun:
            raise UserError("these runs were played already, and the learners have learned: make new ones")
        self._begun = True
        played = 0
        jobs = min(self.jobs, len(self._runs))
        # One job is done in the calling thread: a pool costs as much as a short run.
        with contextlib.nullcontext() if jobs == 1 else ThreadPoolExecutor(jobs) as pool:
            each = map if pool is None else pool.map
            for chunk in prepare_chunks(self.stream):
                if self.stream.is_open:
                    self._add_classes()
                ready = chunk if self._positions is None else chunk.relabel(self._positions)
                rounds = len(ready.chunk.labels)
                if self._scores.size:
                    ready = dataclasses.replace(ready, scores=self._scores[played : played + rounds])
                if ready.scores.size and not any(run.player.learner.takes_scores for run in self._runs):
                    raise UserError(f"{listing(self.learners)} takes no scores: use 'auto', or leave the scores out")
                graphs = self._find_graphs(played, rounds)
                # What is no graph is refused when it is played.
                self._has_costs |= any(getattr(graph, "has_costs", False) for graph in graphs or ())
                list(each(functools.partial(_Run.play, chunk=ready, graphs=graphs), self._runs))
                played += rounds
                yield played

    def _check_scores(self, scores: Any, stream: Stream) -> Floats:
        """Return the scores of all rounds of a stream, checked, in the order of the graph's classes."""
        if scores is None:
            return NO_SCORES
        if stream.rounds is None:
            raise UserError(f"the length of {stream.name} is unknown: give the scores as columns of the stream")
        return check_score_table(scores, stream.rounds, self.graph.n_classes)

    def _add_classes(self) -> None:
        """Give every player the classes that have come since the last chunk."""
        new = find_new_classes(self.stream.classes, self.graph)
        for name in new:
            for run in self._runs:
                run.add_class(name)
        if new:
            self.graph = self._runs[0].player.graph
            self._positions = match_classes(self.stream.classes, self.graph)

    def _find_graphs(self, played: int, rounds: int) -> list[FeedbackGraph] | None:
        """Return the graph of each of the next rounds, where it changes."""
        if self._changing is None:
            return None
        if callable(self._changing):
            return [self._changing(t) for t in range(played, played + rounds)]
        return list(self._changing[played : played + rounds])

    def histories(self) -> Histories:
        """Return what happened up to now."""
        title = f"{make_printable(self.stream.name)}, {self.graph.caption}"
        return Histories([run.history(self._has_costs) for run in self._runs], title)

    def weights(self, name: str | None = None, repeat: int = 0) -> Floats:
        """Return W of one run as it is now, features x classes, with a bias first; by default of the first learner."""
        return self.player(name, repeat).weights


class _Run:
    """One learner with one seed: a player, its totals, and the time it took."""

    def __init__(
        self, name: str, repeat: int, seed: int, player: Player, marks: NDArray[np.int64], losses: bool
    ) -> None:
        self.name, self.repeat, self.seed, self.player, self.losses = name, repeat, seed, player, losses
        self.tally = new_tally(marks, *player.graph.visible.shape)
        self.record = Losses() if losses else Counts()
        self.seconds = 0.0
        self._restarts_before = player.restart_count

    @property
    def nbytes(self) -> int:
        """The memory of the state and of the totals."""
        return self.player.engine.nbytes + sum(array.nbytes for array in self.tally)

    def add_class(self, name: Label) -> None:
        """Let the player have one class more; a preset's graph stays that preset."""
        self.player.add_class(name)
        actions, classes = self.player.graph.visible.shape
        confusion = np.zeros((actions, classes), np.int64)
        old = self.tally.confusion
        # Extra actions stay last: the rows of classes are copied to the front, theirs to the end.
        confusion[: classes - 1, : classes - 1] = old[: classes - 1]
        confusion[classes:, : classes - 1] = old[classes - 1 :]
        self.tally = self.tally._replace(confusion=confusion)

    def play(self, chunk: Prepared, graphs: list[FeedbackGraph] | None) -> None:
        """Play the rounds of a chunk."""
        if self.player.limits.is_timed:
            self.player.now = time.time()
        selected = self.player.engine.select(chunk)  # before the clock starts: it is done once for all runs
        start = time.perf_counter()
        self.player.advance(selected, self.tally, record=self.record, graphs=graphs)
        self.seconds += time.perf_counter() - start

    def history(self, has_costs: bool) -> History:
        """Return what happened up to now."""
        totals = dict(zip(TOTALS, [*self.tally.counts.tolist(), *self.tally.sums.tolist()], strict=True))
        confusion = self.tally.confusion.copy()
        confusion.flags.writeable = False
        restarts = self.player.restart_count - self._restarts_before
        return History(
            name=self.name,
            learner=self.player.learner,
            repeat=self.repeat,
            seed=self.seed,
            rounds=int(self.tally.played[0]),
            **totals if self.losses else totals | {"loss_sum": None},
            seconds=self.seconds,
            curve=read_curve(self.tally, self.losses),
            graph=self.player.graph,
            confusion=confusion,
            has_costs=has_costs,
            restarts=self.player.restarts[-restarts:] if restarts else (),
        )


def _check_repeats(repeats: int | Sequence[int]) -> tuple[int, ...]:
    if not isinstance(repeats, Sequence) or isinstance(repeats, str):
        return tuple(range(whole(repeats, "repeats", least=1, most=100_000)))
    numbers = tuple(whole(repeat, "the number of a repeat", least=0) for repeat in repeats)
    if not numbers or len(set(numbers)) < len(numbers):
        raise UserError(
            f"the repeats {shorten(str(list(numbers)))} are no set of runs: name at least one, and each once"
        )
    return numbers


def _open_graphs(graph: Graphs, stream: Stream, revealing: Label | Sequence[Label] | None) -> tuple[FeedbackGraph, Any]:
    """Return the graph that players start with, and the sequence or the function of graphs that changes it, or None."""
    if callable(graph):
        first = graph(0)
    elif isinstance(graph, Sequence) and not isinstance(graph, str):
        if not graph:
            raise UserError("the sequence of graphs is empty: give one graph for each round")
        first = graph[0]
    else:
        return open_graph(graph, stream.classes, revealing, classes_given=stream.classes_given), None
    if not isinstance(first, FeedbackGraph):
        raise UserError(f"the graph of the first round is {first!r}: the graph of a round must be a FeedbackGraph")
    return first, graph


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _name_learners(learners: Learners) -> dict[str, Any]:
    """Return the learners, or the players that go on, by their names."""
    if isinstance(learners, Mapping):
        named = [(str(name), learner) for name, learner in learners.items()]
    else:
        is_one = isinstance(learners, Learner | str) or not isinstance(learners, Iterable)
        several: list[Any] = [learners] if is_one else list(learners)
        # A name is called as it was given, so that "banditron" and "banditron:gamma=0.1" can be told apart.
        names = [learner if isinstance(learner, str) else find_learner(learner).name for learner in several]
        named = [
            (name if names.count(name) == 1 else repr(find_learner(learner)), learner)
            for name, learner in zip(names, several, strict=True)
        ]
    result = {name: given if isinstance(given, Player) else find_learner(given) for name, given in named}
    if not result:
        raise UserError("no learner was given: name at least one")
    if len(result) < len(named):
        repeated = listing(name for name, _ in named)
        raise UserError(f"the same learner was given twice ({repeated}): name it once, and ask for more repeats")
    return result


def find_marks(curve: str | Sequence[int], rounds: int | None) -> NDArray[np.int64]:
    """Return the rounds at which totals are kept: sorted, counted from 1."""
    if isinstance(curve, Iterable) and not isinstance(curve, str):
        return np.unique(np.array([whole(mark, "a round of the curve", least=1) for mark in curve], dtype=np.int64))
    if curve == "log":
        decades = np.log10(rounds) if rounds else 15.0
        return np.unique(np.round(np.logspace(0.0, decades, 1 + int(MARKS_A_DECADE * decades))).astype(np.int64))
    if curve != "every":
        raise UserError(f"there is no curve {curve!r}: choose 'log', 'every', or give the rounds")
    if rounds is None:
        raise UserError("this stream's length is unknown, so not every round can be kept: give rounds=")
    check_memory(64 * rounds, f"a curve of {rounds} rounds", "keep the rounds of 'log', or name some")
    return np.arange(1, rounds + 1, dtype=np.int64)
