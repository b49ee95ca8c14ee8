"""Runs a sweep on any ``concurrent.futures`` executor; each run is stored when it finishes.

:func:`execute` is a pure function of its task (except for the time taken) and is all that a worker needs. The process
that calls :func:`run` is the only writer. At most `in_flight` runs are submitted and not yet stored at any moment, so a
kill loses at most that many.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import json
import math
import platform
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any

from gappletron.base.errors import UserError
from gappletron.base.text import read_numbers
from gappletron.base.version import __version__
from gappletron.data.adversarial import FreshThenSegments, Segments
from gappletron.data.open import open_stream
from gappletron.data.prepared import Remembered
from gappletron.data.stream import Stream
from gappletron.graphs.graph import FeedbackGraph
from gappletron.graphs.open import open_graph
from gappletron.kernel.compiling import source_hash
from gappletron.kernel.numerics import lanes_for
from gappletron.kernel.spelling import encode_piece, read_piece, set_numbers, to_json
from gappletron.learners.exploration.rule import Exploration
from gappletron.learners.gappletron import Gappletron
from gappletron.learners.learner import Learner
from gappletron.learners.optimizers import Optimizer
from gappletron.learners.registry import named
from gappletron.paper import remarks
from gappletron.paper.adversary import quietest_after_fresh, quietest_segment
from gappletron.paper.comparator import Comparator, best_comparator
from gappletron.paper.readings import tuned_as_read
from gappletron.paper.store import Outcome, Result, Store
from gappletron.paper.sweeps import COMPARED, Task, probes
from gappletron.play.player import Player
from gappletron.play.rounds import Counts, Losses
from gappletron.play.runs import play

__all__ = ["execute", "graph_of", "is_prepared", "kinds_of", "learner_of", "prepare", "run", "stream_of"]

REMEMBERED_ROUNDS = 2_000_000
MARKS_PER_DECADE = 6
SECONDS_BETWEEN_CHECKS = 30.0

# Threads that need the same data or the same comparator wait until one of them has computed it.
_data_lock, _comparator_lock, _probe_lock = threading.Lock(), threading.Lock(), threading.Lock()


def graph_of(task: Task) -> FeedbackGraph:
    """The feedback graph of a task.

    >>> from gappletron.paper.sweeps import SWEEPS, tasks
    >>> graph_of(tasks(SWEEPS[0])[0])
    FeedbackGraph('bandit': 6 classes, 6 actions, 6 edges, rho 6)
    """
    return _graph(task.graph, task.classes)


@functools.lru_cache(maxsize=64)
def _graph(name: str, classes: int) -> FeedbackGraph:
    return open_graph(name, classes)


def learner_of(task: Task) -> Learner:
    """The learner of a task with all its numbers set."""
    kind, given = read_numbers(task.learner)
    if kind == "perceptrons-first":
        then = learner_of(dataclasses.replace(task, learner="gapsmh"))
        return remarks.PerceptronsFirst(given["budget"], then)  # type: ignore[arg-type]
    learner = named(task.learner)
    if isinstance(learner, Gappletron):
        if task.exploration:
            learner = learner.replace(exploration=read_piece(Exploration, task.exploration, "exploration rule"))
        if task.optimizer:
            learner = learner.replace(optimizer=_optimizer(task.optimizer))
    if not task.tuning:
        return learner
    return tuned_as_read(learner, task.tuning, graph_of(task), _named_stream(task.stream))


def _optimizer(text: str) -> Optimizer:
    """The optimizer of a task; one of them is a piece of the experiments."""
    name, given = read_numbers(text)
    if name == "exponentiated-gradient":
        return set_numbers(remarks.ExponentiatedGradient(), given, text)
    found: Optimizer = read_piece(Optimizer, text, "optimizer")
    return found


@functools.lru_cache(maxsize=128)
def _named_stream(name: str) -> Stream:
    plain = probes(name)[0]
    kind, _, numbers = plain.partition(":")
    return remarks.STREAMS[kind](numbers) if kind in remarks.STREAMS else open_stream(plain)


@functools.lru_cache(maxsize=2)
def _remembered(name: str) -> Stream:
    stream = _named_stream(name)
    return Remembered(stream) if stream.rounds is not None and stream.rounds <= REMEMBERED_ROUNDS else stream


def stream_of(task: Task) -> Stream:
    """The stream that a task plays.

    An adversary's depends on the learner: it is played with the repeats and the seed of the sweep, so that the lower
    bound holds for the averages of these runs.
    """
    repeats = probes(task.stream)[1]
    if repeats is not None:
        stream = _named_stream(task.stream)
        if isinstance(stream, FreshThenSegments):
            first = stream.first
            with _probe_lock:
                turned = _quietest_after_fresh(
                    learner_of(task), len(stream.classes), first.radius, stream.root, repeats, task.seed
                )
            return FreshThenSegments(len(stream.classes), first.radius, stream.root, turned, stream.seed)
        assert isinstance(stream, Segments)
        with _probe_lock:
            return Segments(stream.root, _quietest(learner_of(task), stream.root, repeats, task.seed))
    with _data_lock:
        return _remembered(task.stream)


@functools.lru_cache(maxsize=256)
def _quietest(learner: Learner, root: int, repeats: int, seed: int) -> int:
    losses = isinstance(learner, Gappletron)
    return quietest_segment(learner, root, repeats=repeats, seed=seed, jobs=1, losses=losses).segment


@functools.lru_cache(maxsize=256)
def _quietest_after_fresh(learner: Learner, K: int, B: int, root: int, repeats: int, seed: int) -> int:
    stream, losses = FreshThenSegments(K, B, root), isinstance(learner, Gappletron)
    return quietest_after_fresh(learner, stream, repeats=repeats, seed=seed, losses=losses)


def _compared(learner: Gappletron, task: Task) -> Comparator:
    """The best U in the ball of the optimizer.

    For the hinge the case split of the learner is ignored, so the loss is an upper bound.
    """
    with _comparator_lock:
        return _comparator(learner.loss, task.stream, task.graph, learner.optimizer.reach())


@functools.lru_cache(maxsize=64)
def _comparator(loss: Any, stream: str, graph: str, radius: float) -> Comparator:
    data = _named_stream(stream)
    return best_comparator(loss, data, _graph(graph, len(data.classes)), radius)


def marks(rounds: int) -> list[int]:
    """The rounds at which the mistakes of a run are stored: a few per decade, half of the rounds, and the last round.

    >>> marks(20)
    [1, 2, 3, 5, 7, 10, 15, 20]
    """
    steps = int(MARKS_PER_DECADE * math.log10(rounds)) + 1
    spaced = {round(10 ** (step / MARKS_PER_DECADE)) for step in range(steps)}
    return sorted({*spaced, max(1, rounds // 2), rounds})


def execute(task: Task) -> Outcome:
    """Run one task."""
    graph, stream, learner = graph_of(task), stream_of(task), learner_of(task)
    is_gappletron = isinstance(learner, Gappletron)
    history = play(
        {task.learner: learner},
        stream,
        graph,
        repeats=[task.repeat],
        seed=task.seed,
        jobs=1,
        losses=is_gappletron,
        curve=marks(task.rounds),
    )[0]
    comparator = None
    if isinstance(learner, Gappletron) and task.sweep in COMPARED:
        comparator = _compared(learner, task)
    curve = json.dumps([history.curve.rounds.tolist(), history.curve.mistakes.tolist()])
    return Outcome(
        parameters=json.dumps(to_json(encode_piece(learner)), sort_keys=True),
        max_norm=float(stream.max_norm or 0.0),
        mistakes=history.mistakes,
        labels_seen=history.labels_seen,
        explored=history.explored,
        blind_rounds=history.blind_rounds,
        error_rate=history.error_rate,
        rate_sum=history.rate_sum,
        loss_sum=history.loss_sum,
        comparator_loss=None if comparator is None else comparator.loss,
        comparator_gap=None if comparator is None else comparator.gap,
        curve=curve,
        version=__version__,
        sources=source_hash(),
        machine=_machine(),
        seconds=history.seconds,
        finished_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


@functools.cache
def _machine() -> str:
    return f"{platform.node()}, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def prepare(tasks: Iterable[Task], notify: Callable[[int, int], None]) -> None:
    """Compile the loops that the tasks need, or load them from the cache; `notify` is called with (done, total).

    Numba compiles one function at a time in a process: see :mod:`gappletron.paper.compilation` for several.
    """
    kinds = kinds_of(tasks)
    for done, task in enumerate(kinds):
        notify(done, len(kinds))
        player, record = _player_of(task)
        player._engine.compile_chunks(record)
    notify(len(kinds), len(kinds))


def is_prepared(task: Task) -> bool:
    """Whether the loop that a task needs is compiled, here or in the cache."""
    player, record = _player_of(task)
    return player._engine.can_load_chunks(record)


def _player_of(task: Task) -> tuple[Player, Counts | Losses]:
    """A player of the same types as the task's, which are all that compilation depends on."""
    learner = learner_of(task)
    return Player(learner, graph_of(task), 1), Losses() if isinstance(learner, Gappletron) else Counts()


def kinds_of(tasks: Iterable[Task]) -> list[Task]:
    """One task for each loop that must be compiled: by the classes of the pieces and the padded number of classes."""
    found = {}
    for task in tasks:
        # With another update a learner is made of other pieces.
        parts = (
            task.learner.partition(":")[0],
            task.exploration,
            task.optimizer.partition(":")[0],
            "update=" in task.tuning,
        )
        found[(*parts, lanes_for(task.classes))] = task
    return list(found.values())


def run(
    tasks: Iterable[Task],
    store: Store,
    executor: Executor,
    in_flight: Callable[[], int],
    finished: Callable[[Result], None],
) -> None:
    """Run the tasks and store each outcome as soon as it is available.

    :param executor: any executor of ``concurrent.futures``. Threads are enough on one machine: the compiled loops
        release Python's global lock.
    :param in_flight: returns how many runs may be submitted and not yet stored at this moment.
    :param finished: called with each result after it is stored.
    """
    # Sorted by stream, so that each data set is generated once; the slow runs first, so that none is left at the end.
    waiting = iter(sorted(tasks, key=lambda task: (task.sweep not in COMPARED, -task.classes, task.stream, task.id)))
    submitted: dict[Future[Outcome], Task] = {}
    try:
        while True:
            # At least one, also while there is no worker: the next worker that connects gets it.
            for task in itertools.islice(waiting, max(in_flight() - len(submitted), 0 if submitted else 1)):
                submitted[executor.submit(execute, task)] = task
            if not submitted:
                return
            # With a timeout, so that `in_flight` is called again and can report that no worker is left.
            done, _ = wait(submitted, timeout=SECONDS_BETWEEN_CHECKS, return_when=FIRST_COMPLETED)
            for future in done:
                task = submitted.pop(future)
                result = Result(task, _of_these_sources(future.result()))
                store.add(result)
                finished(result)
    finally:
        for future in submitted:
            future.cancel()


def _of_these_sources(outcome: Outcome) -> Outcome:
    if outcome.sources != source_hash():
        raise UserError(
            f"a worker on {outcome.machine} has other sources of gappletron than this process: install the same "
            "version on every worker and restart them"
        )
    return outcome
