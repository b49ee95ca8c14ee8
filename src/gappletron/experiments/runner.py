"""Playing a sweep: one run at a time on any ``concurrent.futures`` executor, each stored when it is finished.

:func:`execute` is a pure function of its task (but for the seconds it took), and is all that a worker needs. The
process that calls :func:`run` is the one writer. At most `in_flight` runs have been handed out and not stored at any
moment, so a kill costs at most that many.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import json
import math
import platform
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TYPE_CHECKING, Any

from gappletron._dispatch import json_ready, parsed, source_hash, spelled
from gappletron._validate import UserError
from gappletron._version import __version__
from gappletron.adversary import quietest_segment
from gappletron.comparator import Comparator, best_comparator
from gappletron.experiments.store import Outcome, Result, Store
from gappletron.experiments.sweeps import COMPARED, probes
from gappletron.exploration import Paper, TopUp
from gappletron.graphs import FeedbackGraph
from gappletron.learners import named
from gappletron.learners.gappletron import Gappletron
from gappletron.optimizers import Optimizer
from gappletron.runs import play
from gappletron.streams import open_stream
from gappletron.streams.adversarial import Segments
from gappletron.streams.stream import Remembered
from gappletron.tuning import tuned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gappletron.experiments.sweeps import Task
    from gappletron.learners.learner import Learner
    from gappletron.streams.stream import Stream

__all__ = ["execute", "graph_of", "player", "prepare", "run", "stream_of"]

REMEMBERED_ROUNDS = 2_000_000
MARKS_A_DECADE = 6
PATIENCE = 30.0

# Threads that want the same data or the same comparator wait for one of them to make it.
_data_lock, _comparator_lock, _probe_lock = threading.Lock(), threading.Lock(), threading.Lock()


def graph_of(task: Task) -> FeedbackGraph:
    """The feedback graph of a task.

    >>> from gappletron.experiments.sweeps import SWEEPS, tasks
    >>> graph_of(tasks(SWEEPS[0])[0])
    FeedbackGraph('bandit': 6 classes, 6 actions, 6 edges, rho 6)
    """
    return _graph(task.graph, task.classes)


@functools.lru_cache(maxsize=64)
def _graph(name: str, classes: int) -> FeedbackGraph:
    preset, _, revealing = name.partition(":revealing=")
    return FeedbackGraph.preset(preset, classes, int(revealing) if revealing else None)


def player(task: Task) -> Learner:
    """The learner of a task with every number set, before its first round."""
    learner = named(task.learner)
    if isinstance(learner, Gappletron):
        if task.exploration:
            learner = learner._replace(exploration={"paper": Paper(), "top-up": TopUp()}[task.exploration])
        if task.optimizer:
            learner = learner._replace(optimizer=parsed(Optimizer, task.optimizer, "optimizer"))
    if not task.tuning:
        return learner
    stream = _named_stream(task.stream)
    return tuned(
        learner, task.tuning, graph_of(task), rounds=stream.rounds, features=stream.features, max_norm=stream.max_norm
    )


@functools.lru_cache(maxsize=128)
def _named_stream(name: str) -> Stream:
    return open_stream(probes(name)[0])


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
        assert isinstance(stream, Segments)
        with _probe_lock:
            return Segments(stream.root, _quietest(player(task), stream.root, repeats, task.seed))
    with _data_lock:
        return _remembered(task.stream)


@functools.lru_cache(maxsize=256)
def _quietest(learner: Learner, root: int, repeats: int, seed: int) -> int:
    return quietest_segment(learner, root, repeats=repeats, seed=seed, jobs=1).segment


def _compared(learner: Gappletron, task: Task) -> Comparator:
    """The best U in the optimizer's ball. The hinge's is without the learner's case split, so its loss is an upper
    bound.
    """
    with _comparator_lock:
        return _comparator(learner.loss, task.stream, task.graph, learner.optimizer.reach())


@functools.lru_cache(maxsize=64)
def _comparator(loss: Any, stream: str, graph: str, radius: float) -> Comparator:
    data = _named_stream(stream)
    return best_comparator(loss, data, _graph(graph, len(data.classes)), radius)


def marks(rounds: int) -> list[int]:
    """The rounds at which a run's mistakes are kept: a few in every decade, half of the rounds, and the last.

    >>> marks(20)
    [1, 2, 3, 5, 7, 10, 15, 20]
    """
    steps = int(MARKS_A_DECADE * math.log10(rounds)) + 1
    spaced = {round(10 ** (step / MARKS_A_DECADE)) for step in range(steps)}
    return sorted({*spaced, max(1, rounds // 2), rounds})


def execute(task: Task) -> Outcome:
    """Play one run."""
    graph, stream, learner = graph_of(task), stream_of(task), player(task)
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
        parameters=json.dumps(json_ready(spelled(learner)), sort_keys=True),
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


def prepare(tasks: Iterable[Task], told: Callable[[int, int], None]) -> None:
    """Compile, or load, what the tasks need, so that the first runs take no longer than others; `told` gets (done,
    all).

    Numba compiles one thing at a time, so there is nothing to gain from threads here.
    """
    by_kind = {
        (task.learner.partition(":")[0], task.exploration, task.optimizer.partition(":")[0]): task for task in tasks
    }
    for done, task in enumerate(by_kind.values()):
        told(done, len(by_kind))
        learner = player(task)
        with _interrupted_after():
            play(
                learner,
                _named_stream(task.stream),
                graph_of(task),
                rounds=1,
                losses=isinstance(learner, Gappletron),
                jobs=1,
            )
    told(len(by_kind), len(by_kind))


@contextlib.contextmanager
def _interrupted_after() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block: raised inside LLVM's callbacks it is swallowed, and Numba fails
    instead.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def run(
    tasks: Iterable[Task],
    store: Store,
    executor: Executor,
    in_flight: Callable[[], int],
    finished: Callable[[Result], None],
) -> None:
    """Play tasks and keep each outcome as soon as it is there.

    :param executor: any of ``concurrent.futures``: threads suffice on one machine, since playing releases Python's
        lock.
    :param in_flight: how many runs may be handed out and not stored at this moment.
    :param finished: called with each result after it was stored.
    """
    # By stream, so that a data set is made once for all that play it; the costly ones first, so that none is left to
    # the end.
    waiting = iter(sorted(tasks, key=lambda task: (task.sweep not in COMPARED, -task.classes, task.stream, task.id)))
    handed_out: dict[Future[Outcome], Task] = {}
    try:
        while True:
            # One at least, where nobody is there to play at the moment: whoever comes plays it.
            for task in itertools.islice(waiting, max(in_flight() - len(handed_out), 0 if handed_out else 1)):
                handed_out[executor.submit(execute, task)] = task
            if not handed_out:
                return
            # Not for ever: `in_flight` is asked again, and can tell that nobody is left.
            done, _ = wait(handed_out, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            for future in done:
                task = handed_out.pop(future)
                result = Result(task, _of_these_sources(future.result()))
                store.add(result)
                finished(result)
    finally:
        for future in handed_out:
            future.cancel()


def _of_these_sources(outcome: Outcome) -> Outcome:
    if outcome.sources != source_hash():
        raise UserError(
            f"a worker on {outcome.machine} plays with other sources of gappletron than this process: install the "
            "same version on every worker and start them anew"
        )
    return outcome
