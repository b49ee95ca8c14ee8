"""Runs tasks on any ``concurrent.futures`` executor, after compiling their loops in several processes.

:func:`execute` is a pure function of its task (except for the time taken) and is all that a worker needs. At most
`in_flight` runs are submitted and not yet handed over at any moment, so a kill loses at most that many.

The processes that compile fill the on-disk cache for the one that plays. If one fails, the process that plays compiles
what is missing.
"""

import contextlib
import datetime
import functools
import itertools
import json
import math
import platform
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.base.progress import View
from gappletron.base.version import __version__
from gappletron.data.adversarial import FreshThenSegments, Segments
from gappletron.data.prepared import Remembered
from gappletron.data.stream import Stream
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.compiling import background, list_classes, source_hash
from gappletron.kernel.numerics import lanes_for
from gappletron.kernel.spelling import encode_piece, to_json
from gappletron.learners.gappletron import Gappletron
from gappletron.learners.learner import Learner
from gappletron.learners.losses import Loss
from gappletron.paper.adversary import quietest_after_fresh, quietest_segment
from gappletron.paper.comparator import Comparator, best_comparator
from gappletron.paper.results import Outcome, Result, Task
from gappletron.paper.store import Store
from gappletron.paper.sweeps import COMPARED, WIDE
from gappletron.paper.theory import Proved
from gappletron.paper.tuning import tune
from gappletron.play.engine import NO_ROWS
from gappletron.play.player import Player
from gappletron.play.rounds import Counts, Losses
from gappletron.play.runs import play, usable_cores

REMEMBERED_ROUNDS = 2_000_000
MARKS_PER_DECADE = 6
SECONDS_BETWEEN_CHECKS = 30.0

# Threads that need the same data or the same comparator wait until one of them has computed it.
_data_lock, _comparator_lock, _probe_lock = threading.Lock(), threading.Lock(), threading.Lock()


# --------------------------------------------------------------------------------------------------------------- pieces


def tune_learner(task: Task) -> Learner:
    """Return the learner of a task with all its numbers set."""
    learner, graph, stream, tuning, _, changes = task.pieces
    return tune(learner, tuning, graph, stream, changes) if tuning else learner


@dataclass(frozen=True)
class _Named:
    """A stream as a key: streams of one name have the same rounds, also those that were sent to another process."""

    name: str
    stream: Stream = field(compare=False)


@functools.lru_cache(maxsize=2)
def _remember(data: _Named) -> Stream:
    rounds = data.stream.rounds
    return Remembered(data.stream) if rounds is not None and rounds <= REMEMBERED_ROUNDS else data.stream


def find_stream(task: Task) -> Stream:
    """Return the stream that a task plays.

    An adversary's depends on the learner: it is played with the repeats and the seed of the sweep, so that the lower
    bound holds for the averages of these runs.
    """
    stream, probes = task.pieces.stream, task.pieces.probes
    if probes is None:
        with _data_lock:
            return _remember(_Named(stream.name, stream))
    # The repeats of a task have one turned segment, also where the labels of each have a seed of their own.
    data = _Named(re.sub(r",seed=\d+", "", stream.name), stream)
    with _probe_lock:
        turned = _find_quietest(tune_learner(task), data, probes, task.seed)
    if isinstance(stream, Segments):
        return Segments(stream.root, turned)
    assert isinstance(stream, FreshThenSegments)
    return FreshThenSegments(len(stream.classes), stream.first.radius, stream.root, turned, stream.seed)


@functools.lru_cache(maxsize=512)
def _find_quietest(learner: Learner, data: _Named, repeats: int, seed: int) -> int:
    stream, losses = data.stream, isinstance(learner, Proved)
    if isinstance(stream, FreshThenSegments):
        return quietest_after_fresh(learner, stream, repeats=repeats, seed=seed, losses=losses)
    assert isinstance(stream, Segments)
    return quietest_segment(learner, stream.root, repeats=repeats, seed=seed, jobs=1, losses=losses).segment


@functools.lru_cache(maxsize=64)
def _find_comparator(loss: Loss, data: _Named, graph: FeedbackGraph, radius: float) -> Comparator:
    return best_comparator(loss, data.stream, graph, radius)


# ----------------------------------------------------------------------------------------------------------------- runs


def choose_marks(rounds: int) -> list[int]:
    """Return the rounds at which mistakes are stored: a few per decade, half of the rounds, and the last round.

    >>> choose_marks(20)
    [1, 2, 3, 5, 7, 10, 15, 20]
    """
    steps = int(MARKS_PER_DECADE * math.log10(rounds)) + 1
    spaced = {round(10 ** (step / MARKS_PER_DECADE)) for step in range(steps)}
    return sorted({*spaced, max(1, rounds // 2), rounds})


def execute(task: Task) -> Outcome:
    """Run one task."""
    graph, stream, learner = task.pieces.graph, find_stream(task), tune_learner(task)
    history = play(
        {task.learner: learner},
        stream,
        graph,
        repeats=[task.repeat],
        seed=task.seed,
        jobs=1,
        losses=isinstance(learner, Proved),
        curve=choose_marks(task.rounds),
    )[0]
    comparator = None
    if isinstance(learner, Proved) and task.sweep in COMPARED:
        reach = learner.optimizer.reach() if isinstance(learner, Gappletron) else WIDE
        # For the hinge the case split of the learner is ignored, so the loss is an upper bound.
        data = _Named(task.stream, task.pieces.stream)
        with _comparator_lock:
            comparator = _find_comparator(learner.loss, data, graph, reach)
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
        curve=json.dumps([history.curve.rounds.tolist(), history.curve.mistakes.tolist()]),
        version=__version__,
        sources=source_hash(),
        machine=_describe_machine(),
        seconds=history.seconds,
        finished_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


@functools.cache
def _describe_machine() -> str:
    return f"{platform.node()}, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def run(
    tasks: Iterable[Task], executor: Executor, in_flight: Callable[[], int], finished: Callable[[Result], None]
) -> None:
    """Run the tasks and hand over each result as soon as it is available.

    :param executor: any executor of ``concurrent.futures``. Threads are enough on one machine: the compiled loops
        release Python's global lock.
    :param in_flight: returns how many runs may be submitted and not yet handed over at this moment.
    :param finished: called with each result, in the process that calls this function.
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
                task, outcome = submitted.pop(future), future.result()
                if outcome.sources != source_hash():
                    raise UserError(
                        f"a worker on {outcome.machine} has other sources of gappletron than this process: install the "
                        "same version on every worker and restart them"
                    )
                finished(Result(task, outcome))
    finally:
        for future in submitted:
            future.cancel()


# ---------------------------------------------------------------------------------------------------------- compilation


def _make_player(task: Task) -> tuple[Player, Counts | Losses]:
    """Return a player of the same types as the task's, which are all that compilation depends on."""
    learner = tune_learner(task)
    return Player(learner, task.pieces.graph, 1), Losses() if isinstance(learner, Gappletron) else Counts()


def choose_loops(tasks: Iterable[Task]) -> list[Task]:
    """Return one task for each loop that must be compiled: by the classes of the pieces and the padded number of
    classes. With another update or tuning a learner is made of other pieces.
    """
    kinds = {}  # tuning thousands of tasks takes a while, one of each kind does not
    for task in tasks:
        learner, _, _, tuning, _, changes = task.pieces
        is_updated = any(key == "update" for key, _ in changes)
        kinds[list_classes(learner), tuning, is_updated, lanes_for(task.classes)] = task
    return list({(list_classes(tune_learner(task)), lanes_for(task.classes)): task for task in kinds.values()}.values())


def prepare(tasks: Iterable[Task], notify: Callable[[int, int], None], processes: int = 1) -> None:
    """Compile the loops that the tasks need, in so many processes where others may be started, or load them from the
    cache; `notify` is called with (done, total).
    """
    loops = choose_loops(tasks)

    def tell(left: int) -> None:
        notify(max(0, len(loops) - left), len(loops))

    with background.using(processes):
        for waiting in range(len(loops), 0, -1):
            tell(waiting)
            player, record = _make_player(loops[-waiting])
            player.advance(NO_ROWS, record=record)
        background.wait(tell)
    tell(0)


# ----------------------------------------------------------------------------------------------------- what is missing

# Processes: there are some forty loops, and each process needs a second to start.
MAX_COMPILERS = 8


def complete(
    store: Store,
    stages: Sequence[Sequence[Task]],
    jobs: int | None,
    executor: Executor | None,
    in_flight: Callable[[], int] | None,
    view: View,
) -> list[Result]:
    """Run the tasks that are not stored, stage after stage, and return the results of all."""
    workers = usable_cores() if jobs is None else whole(jobs, "jobs", least=1, most=100_000)

    def keep(result: Result) -> None:
        store.add(result)
        view.finished(result.task.sweep, result.task.rounds)

    tasks = [task for stage in stages for task in stage]
    view.damaged(store.damaged)
    stored = store.finished(tasks, source_hash())
    missing = [[task for task in stage if task.id not in stored] for stage in stages]
    waiting = [task for stage in missing for task in stage]
    if executor is None:
        prepare(waiting, view.compiling, min(workers, MAX_COMPILERS))
    view.begun(*([(task.sweep, task.rounds) for task in some] for some in (tasks, waiting)))
    with contextlib.ExitStack() as stack:
        pool = executor or stack.enter_context(ThreadPoolExecutor(workers))
        for stage in missing:
            run(stage, pool, in_flight or (lambda: workers), keep)
    stored = store.finished(tasks, source_hash())
    return [stored[task.id] for task in tasks]
