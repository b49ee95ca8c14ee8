"""Runs: what is to be played, playing it in processes, and a file with a line for each finished run.

A second call plays only what the file does not have. Our own runs are known by the library's sources too, so that they
are played again after a change.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.peers import recorded, settings, streams
from benchmarks.peers.feedback import GRAPHS, Feedback
from benchmarks.peers.players import Allowance, Game, Outcome, play_game

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.peers.settings import Setting

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Every run has one thread: on rows as short as these, more of them make scikit-learn ten times as slow."""
SEEDS = range(5)
PEER_SEEDS = range(3)
PATIENCE = {"--graph_feedback": 6.0}
"""Methods that are slow: how many allowances a run has. They are played once."""
BAD_START = 50
"""How many messages of the class that hides come first in the stream that begins badly."""


class Task(NamedTuple):
    """One run."""

    stream: str
    form: str
    """prepared, raw, natural, or bad start (prepared, and the class that hides comes first)."""
    graph: str
    setting: Setting
    seed: int
    rounds: int | None
    """Play no more rounds than this."""


class Run(NamedTuple):
    """A run that was played."""

    task: Task
    outcome: Outcome


# ------------------------------------------------------------------------------------------------- what is to be played


def seeds_of(setting: Setting, count: int | None) -> list[int]:
    """The seeds of a player: one where seeds make no difference, or where a run takes minutes."""
    if not setting.is_random or setting.method in PATIENCE:
        return [0]
    return list(SEEDS if setting.package == "Ours" else PEER_SEEDS)[:count]


def interleaved(stream: str, form: str, graph: str, players: list[Setting], options: Options) -> Iterator[Task]:
    """The runs of some players, seed by seed, so that ours and theirs alternate."""
    for seed in SEEDS:
        for setting in players:
            if seed in seeds_of(setting, options.seeds):
                yield Task(stream, form, graph, setting, seed, options.rounds)


class Options(NamedTuple):
    """How much to play."""

    rounds: int | None = None
    seeds: int | None = None
    with_peers: bool = True
    seconds: float = 20.0
    """The allowance of each run."""


def our_players() -> list[Setting]:
    """All our learners."""
    return [settings.ours(learner) for learner in settings.OURS]


def prepared_tasks(stream: str, graph: str, options: Options, bests: list[recorded.Best]) -> list[Task]:
    """The runs on a prepared stream: ours, the peers' defaults, and the settings that were best in hindsight."""
    players = our_players()
    if options.with_peers:
        players += settings.default_peers(graph, streams.classes_of(stream))
        players += recorded.tuned_settings(stream, graph, bests)
    return list(interleaved(stream, "prepared", graph, players, options))


def raw_tasks(stream: str, graph: str, options: Options) -> list[Task]:
    """The runs on a raw stream: ours, and the peers that scale features themselves."""
    players = our_players() + settings.raw_peers(graph)
    return list(interleaved(stream, "raw", graph, players, options))


def natural_tasks(stream: str, graph: str, options: Options) -> list[Task]:
    """The runs on a stream in the order of its time: as on a raw one, and the default of version 0.2.0."""
    players = [*our_players(), settings.ours(settings.BEFORE), *settings.raw_peers(graph)]
    return list(interleaved(stream, "natural", graph, players, options))


def picture_settings(with_peers: bool) -> list[Setting]:
    """The players of the front page's picture."""
    greedy = [settings.one_vs_all("hinge"), settings.river("SoftmaxRegression", 1.0)]
    cautious = [settings.burn_in(settings.one_vs_all("hinge"), 100)]
    return our_players() + (greedy + cautious if with_peers else [])


def picture_stream() -> str:
    """The stream of the front page's picture."""
    return "sms_spam" if "sms_spam" in streams.names() else "breast_cancer"


def picture_tasks(options: Options) -> list[Task]:
    """The runs of the front page's picture: only delivered mail is seen, and the first messages are spam."""
    whole = options._replace(rounds=None)
    players = picture_settings(options.with_peers)
    return list(interleaved(picture_stream(), "bad start", "filtering", players, whole))


def all_tasks(options: Options) -> list[Task]:
    """Everything, stream by stream, so that a process reads each stream once."""
    bests = recorded.read()
    tasks = picture_tasks(options)
    for stream in streams.names():
        for graph in GRAPHS:
            tasks += prepared_tasks(stream, graph, options, bests)
        for graph in GRAPHS if options.with_peers else ():
            tasks += raw_tasks(stream, graph, options)
    for stream in streams.natural_names() if options.with_peers else ():
        for graph in GRAPHS:
            tasks += natural_tasks(stream, graph, options)
    return tasks


# -------------------------------------------------------------------------------------------------------------- playing


def whole_stream(task: Task) -> streams.Stream:
    """All rows, in their own order."""
    return streams.load(task.stream, "prepared" if task.form == "bad start" else task.form)


def stream_of(task: Task) -> streams.Stream:
    """The rows that a task plays."""
    stream = whole_stream(task)
    if task.form == "bad start":
        hides = next(k for k in range(stream.classes) if k != stream.most_frequent)
        stream = streams.moved_to_front(stream, hides, BAD_START)
    return stream if task.rounds is None else stream.first(task.rounds)


def play(task: Task, seconds: float) -> Outcome:
    """Play one run."""
    stream = stream_of(task)
    whole = whole_stream(task)
    feedback = Feedback(task.graph, whole.classes, whole.most_frequent)
    game = Game(task.setting, stream, feedback, task.seed, is_prepared=task.form not in ("raw", "natural"))
    return play_game(game, Allowance(seconds * PATIENCE.get(task.setting.method, 1.0)))


def play_all(tasks: list[Task], jobs: int, seconds: float, done: Callable[[Task, Outcome | Exception], None]) -> None:
    """Play in processes, in the given order, a few runs ahead; `done` hears of each as it ends."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    waiting = iter(tasks)
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running: dict[Future[Outcome], Task] = {}
        while True:
            while len(running) < jobs and (task := next(waiting, None)) is not None:
                running[pool.submit(play, task, seconds)] = task
            if not running:
                return
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                error = future.exception()
                done(running.pop(future), future.result() if error is None else error)


# -------------------------------------------------------------------------------------------------------------- storing


def sources() -> str:
    """A hash of the library's sources."""
    import gappletron

    folder = Path(gappletron.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def key_of(task: Task, code: str) -> str:
    """What a run is found by in the file."""
    mark = code if task.setting.package == "Ours" else ""
    return json.dumps([*task._replace(setting=list(task.setting)), mark])


class Store:
    """A file of finished runs, a line each."""

    def __init__(self, path: Path, code: str) -> None:
        self.path, self.code = path, code
        self._found: dict[str, Outcome] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self._found[row["key"]] = Outcome(**row["outcome"])

    def lacks(self, task: Task) -> bool:
        """Whether this run is still to be played."""
        return key_of(task, self.code) not in self._found

    def add(self, task: Task, outcome: Outcome) -> None:
        """Keep a run."""
        key = key_of(task, self.code)
        self._found[key] = outcome
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"key": key, "outcome": outcome._asdict()}) + "\n")

    def runs(self, tasks: list[Task]) -> list[Run]:
        """Those of the tasks that were played."""
        keyed = ((task, self._found.get(key_of(task, self.code))) for task in tasks)
        return [Run(task, outcome) for task, outcome in keyed if outcome is not None]
