"""The store and the runner: the same table whoever plays it, whatever is killed, and nothing lost or done twice."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import json
import logging
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from gappletron import FixedOGD, UserError, play
from gappletron.base.progress import View, sweep_view
from gappletron.kernel import compiling
from gappletron.kernel.compiling import source_hash
from gappletron.kernel.spelling import decode_piece, encode_piece, to_json
from gappletron.paper import runner
from gappletron.paper.figures.catalogue import select_tasks
from gappletron.paper.reproduce import reproduce
from gappletron.paper.results import Outcome, Result
from gappletron.paper.runner import execute, prepare, tune_learner
from gappletron.paper.store import COLUMNS, Store, read_results, write_table
from gappletron.play.rounds import advance

FREE = ("seconds", "machine", "finished_at")
NEEDED = [
    "id",
    "sweep",
    "graph",
    "exploration",
    "learner",
    "tuning",
    "classes",
    "features",
    "noise",
    "rounds",
    "repeat",
    "seed",
    "mistakes",
    "labels_seen",
    "error_rate",
    "seconds",
]


def table_of(folder):
    """results.csv without the columns that may differ."""
    with (Path(folder) / "results.csv").open(newline="") as file:
        return [{key: value for key, value in row.items() if key not in FREE} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The sweep "full" at T = 300 on one thread."""
    folder = tmp_path_factory.mktemp("undisturbed")
    reproduce(folder, figures=["full"], rounds=300, repeats=2, jobs=1)
    return folder


class Watching(View):
    def __init__(self):
        self.missing = None
        self.done = 0

    def begun(self, runs, missing):
        self.missing = len(missing)

    def finished(self, sweep, rounds):
        self.done += 1


# ----------------------------------------------------------------------------------------------------------------- rows


def test_a_row_is_what_play_says():
    task = next(task for task in select_tasks(["bandit"], rounds=700) if task.learner == "gaplog" and task.repeat == 4)
    outcome = execute(task)
    history = play(tune_learner(task), task.stream, task.pieces.graph, repeats=5, losses=True)[4]
    assert (outcome.mistakes, outcome.labels_seen, outcome.explored, outcome.blind_rounds) == (
        history.mistakes,
        history.labels_seen,
        history.explored,
        history.blind_rounds,
    )
    assert outcome.error_rate == history.mistakes / 700
    assert outcome.loss_sum == history.loss_sum
    assert json.loads(outcome.parameters)["exploration"] == {
        "piece": "Paper",
        "gamma": tune_learner(task).exploration.gamma,
    }
    assert outcome.sources == source_hash()


@pytest.mark.parametrize("figure", ["bandit", "label-efficient", "bounds", "lower-filtering", "lower-full"])
def test_the_stored_parameters_are_the_learner(figure):
    """Also where a number is infinite, which JSON cannot hold."""
    for task in {
        (task.graph, task.learner, task.tuning): task for task in select_tasks([figure], rounds=1000)
    }.values():
        parameters = json.dumps(to_json(encode_piece(tune_learner(task))))
        outcome = dataclasses.replace(result_for(task).outcome, parameters=parameters)
        assert Result(task, outcome).learner == tune_learner(task)
    endless = FixedOGD(rate=0.5)
    assert decode_piece(json.loads(json.dumps(to_json(encode_piece(endless)), allow_nan=False))) == endless


def test_the_table_has_its_columns_and_is_sorted(undisturbed):
    with (undisturbed / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert set(NEEDED) <= set(rows[0])
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert len(rows) == 27 * (3 * 2 + 3)
    assert {row["sweep"] for row in rows} == {"full"}
    assert {row["seed"] for row in rows} == {"0"}


@pytest.mark.parametrize("jobs", [2, 5])
def test_threads_change_nothing(undisturbed, tmp_path, jobs):
    reproduce(tmp_path, figures=["full"], rounds=300, repeats=2, jobs=jobs)
    assert table_of(tmp_path) == table_of(undisturbed)


def test_processes_change_nothing(tmp_path):
    figures = {"figures": ["lower-filtering"], "rounds": 60, "repeats": 2}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        reproduce(tmp_path / "processes", jobs=2, executor=pool, **figures)
    reproduce(tmp_path / "threads", **figures)
    assert table_of(tmp_path / "processes") == table_of(tmp_path / "threads")


# --------------------------------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize("figure", ["bandit-best", "bandit-theory", "norms", "ours"])
def test_every_loop_that_is_played_is_compiled_before(figure):
    """With some tunings a learner has other pieces, and so another loop."""
    tasks = select_tasks([figure], rounds=1000, repeats=1)

    def loops(some):
        return {(compiling.list_classes(tune_learner(task)), runner.lanes_for(task.classes)) for task in some}

    chosen = runner.choose_loops(tasks)
    assert loops(chosen) == loops(tasks)
    assert len(loops(chosen)) == len(chosen)


def test_nothing_is_played_twice(undisturbed):
    before, view = table_of(undisturbed), Watching()
    reproduce(undisturbed, figures=["full"], rounds=300, repeats=2, view=view)
    assert (view.missing, view.done) == (0, 0)
    assert table_of(undisturbed) == before


def test_only_what_matches_is_taken(tmp_path):
    tasks = select_tasks(["lower-filtering"], rounds=50, repeats=1)
    reproduce(tmp_path, figures=["lower-filtering"], rounds=50, repeats=1)
    with contextlib.closing(sqlite3.connect(tmp_path / "results.sqlite")) as connection, connection:
        connection.execute("UPDATE runs SET sources = 'of yesterday' WHERE id = ?", (tasks[0].id,))
        connection.execute("UPDATE runs SET seed = 7 WHERE id = ?", (tasks[1].id,))
        connection.execute("UPDATE runs SET learner = 'gapsmh:gamma=2' WHERE id = ?", (tasks[2].id,))
    view = Watching()
    reproduce(tmp_path, figures=["lower-filtering"], rounds=50, repeats=1, view=view)
    assert view.missing == 3
    assert [result.task for result in read_results(tmp_path)] == tasks


def test_runs_against_the_adversary_depend_on_the_number_of_repeats(tmp_path):
    """A stored run is not used where its turned segment was found with another number of repeats."""
    figures = {"figures": ["lower-filtering"], "rounds": 50}
    reproduce(tmp_path / "twice", repeats=2, **figures)
    view = Watching()
    reproduce(tmp_path / "twice", repeats=3, view=view, **figures)
    learners = 6
    assert view.missing == learners * (1 + 3)  # the third repeat without a turned segment, and all with one
    reproduce(tmp_path / "once", repeats=3, **figures)
    assert table_of(tmp_path / "twice") == table_of(tmp_path / "once")


def test_other_rounds_live_beside_them(tmp_path):
    reproduce(tmp_path, figures=["lower-full"], rounds=30, repeats=1)
    reproduce(tmp_path, figures=["lower-full"], rounds=40, repeats=1)
    assert {row["rounds"] for row in table_of(tmp_path)} == {"40"}
    assert {result.task.rounds for result in read_results(tmp_path)} == {30, 40}
    view = Watching()
    reproduce(tmp_path, figures=["lower-full"], rounds=30, repeats=1, view=view)
    assert view.missing == 0


COUNTING = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from gappletron.paper import runner
from gappletron.paper.reproduce import reproduce

class Counting(ThreadPoolExecutor):
    def submit(self, function, *arguments):
        def counted():
            descriptor = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, b".")
            os.close(descriptor)
            return function(*arguments)
        return super().submit(counted)

if __name__ == "__main__":
    with Counting(2) as pool:
        reproduce(sys.argv[1], figures=["full"], rounds=20_000, repeats=2, jobs=2, executor=pool)
"""


def stored_in(folder):
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{folder}/results.sqlite?mode=ro", uri=True, timeout=30)
        ) as connection:
            return connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    except sqlite3.OperationalError:  # not there yet
        return 0


def test_killed_again_and_again_it_ends_with_the_same_table(tmp_path):
    """kill -9 while 0 < done < all, four times; executions <= runs + kills x jobs."""
    script, folder, counter = tmp_path / "sweep.py", tmp_path / "killed", tmp_path / "executions"
    script.write_text(COUNTING)
    command = [sys.executable, str(script), str(folder), str(counter)]
    runs = 27 * (3 * 2 + 3)
    kills = 0
    for target in (1, 40, 90, 150):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while stored_in(folder) < target and process.poll() is None:
            time.sleep(0.002)
        assert process.poll() is None, "it ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        assert 0 < stored_in(folder) < runs
    subprocess.run(command, check=True, capture_output=True)
    assert runs <= counter.stat().st_size <= runs + kills * 2
    reproduce(tmp_path / "whole", figures=["full"], rounds=20_000, repeats=2)
    assert table_of(folder) == table_of(tmp_path / "whole")
    assert len(read_results(folder)) == runs


def test_one_loop_probes_and_plays(monkeypatch):
    """What an adversary plays to find its segment needs no compilation of its own."""
    monkeypatch.setattr(compiling, "entry_points", [])
    monkeypatch.setattr(compiling, "_specialised", functools.cache(compiling._specialised.__wrapped__))
    for learner in ("gapsmh", "banditron-iw"):
        execute(next(task for task in select_tasks(["lower-filtering"], 60, 2) if task.learner.startswith(learner)))
    loops = [kernel for kernel in compiling.entry_points if kernel.py_func is advance]
    assert [len(kernel.signatures) for kernel in loops] == [1, 1]


def test_ctrl_c_while_compiling_waits_for_the_loop_and_stops():
    calls = []

    def told(done, total):
        calls.append((done, total))
        if done == 1:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        prepare(select_tasks(["full"], rounds=20), told)
    assert calls == [(0, 12), (1, 12)]  # six learners, for 6 classes and for 9 or 12
    assert signal.getsignal(signal.SIGINT) is before


# ---------------------------------------------------------------------------------------------------------------- store


def test_two_writers_are_one_too_many(tmp_path):
    with Store(tmp_path), pytest.raises(UserError, match="another process is writing"):
        Store(tmp_path)
    with Store(tmp_path):  # and the lock is gone with its holder
        pass


def result_for(task):
    return Result(
        task,
        Outcome("{}", 1.0, 1, 1, 0, 1, 0.5, 0.0, None, None, None, "[[1], [1]]", "0", source_hash(), "m", 0.1, "now"),
    )


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path):
    tasks = select_tasks(["bandit"], rounds=10, repeats=2)
    with Store(tmp_path) as store:
        store.add(result_for(tasks[0]))
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(UserError, match=r"full.*the runs stored so far are kept"):
            list(map(store.add, map(result_for, tasks)))
        kept = len(store.finished(tasks, source_hash()))
    assert 1 <= kept < len(tasks)
    assert len(read_results(tmp_path)) == kept


def test_what_is_no_store_is_refused(tmp_path):
    (tmp_path / "results.sqlite").write_text(
        "this is not a data base, but it is long enough to be looked at as one" * 40
    )
    with pytest.raises(UserError, match="cannot be used as a file of results"):
        Store(tmp_path)
    with pytest.raises(UserError, match="cannot be used as a file of results"):
        read_results(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        Store(tmp_path / "file")
    other = tmp_path / "other"
    other.mkdir()
    with contextlib.closing(sqlite3.connect(other / "results.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE runs (id TEXT, colour TEXT)")
    before = (other / "results.sqlite").read_bytes()
    with pytest.raises(UserError, match="another version"):
        Store(other)
    assert (other / "results.sqlite").read_bytes() == before


OTHER_COLUMNS = (
    "id figure graph exploration learner tuning optimizer classes features noise rounds stream repeat seed parameters "
    "max_norm mistakes labels_seen explored blind_rounds error_rate rate_sum loss_sum comparator_loss comparator_gap "
    "curve version sources machine seconds finished_at"
)


def test_a_store_with_other_columns_is_refused(tmp_path):
    """Its column "figure" is called "sweep" here."""
    path = tmp_path / "results.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE runs ({', '.join(OTHER_COLUMNS.split())})")
    before = path.read_bytes()
    for opened in (Store, read_results):
        with pytest.raises(
            UserError, match=r"another version of gappletron, with other columns: move it away"
        ) as error:
            opened(tmp_path)
        assert "\n" not in str(error.value)
    assert path.read_bytes() == before


def test_a_damaged_store_is_one_sentence(tmp_path):
    with Store(tmp_path) as store:
        for task in select_tasks(["bandit"], rounds=10, repeats=1):
            store.add(result_for(task))
    path = tmp_path / "results.sqlite"
    content = bytearray(path.read_bytes())
    content[4096:-4096] = b"?" * (len(content) - 8192)
    path.write_bytes(content)
    for opened in (Store, read_results):
        with pytest.raises(UserError, match="move it away"):
            opened(tmp_path)


def test_a_damaged_row_is_told_and_run_again(undisturbed, tmp_path, capsys):
    folder = shutil.copytree(undisturbed, tmp_path / "results")
    victim = min(result.task.id for result in read_results(folder))
    with contextlib.closing(sqlite3.connect(folder / "results.sqlite")) as connection, connection:
        connection.execute("UPDATE runs SET mistakes = 0, error_rate = 0.0 WHERE id = ?", (victim,))
    with pytest.raises(UserError, match=r"1 of the .* rows of .* are damaged: run `gappletron reproduce"):
        read_results(folder)
    with sweep_view(lambda: None) as view:
        reproduce(folder, figures=["full"], rounds=300, repeats=2, jobs=1, view=view)
    told = capsys.readouterr().err
    total = len(table_of(undisturbed))
    assert f"damaged rows of the stored runs are removed, and run again where needed: '{victim}'\n" in told
    assert f"{total - 1} of {total} runs are already stored" in told
    assert table_of(folder) == table_of(undisturbed)


def test_readers_look_while_it_writes(tmp_path):
    tasks = select_tasks(["bandit"], rounds=10, repeats=1)[:3]
    with Store(tmp_path) as store:
        for done, task in enumerate(tasks, start=1):
            store.add(result_for(task))
            assert len(read_results(tmp_path)) == done


def test_tables_in_both_formats(undisturbed, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    results = read_results(undisturbed)
    write_table(results, tmp_path / "all.csv")
    write_table(results, tmp_path / "all.parquet")
    assert (tmp_path / "all.csv").read_bytes() == (undisturbed / "results.csv").read_bytes()
    columns = pq.read_table(tmp_path / "all.parquet").to_pydict()
    assert list(columns) == [name for name in COLUMNS if name != "curve"]
    assert columns["mistakes"] == [result.outcome.mistakes for result in results]
    assert columns["noise"] == [result.task.noise for result in results]
    assert columns["comparator_loss"] == [None] * len(results)
    with pytest.raises(UserError, match=r"ends in \.csv or \.parquet"):
        write_table(results, tmp_path / "all.xlsx")


def test_results_of_other_sources_on_a_worker_are_refused(tmp_path, monkeypatch):
    real = runner.execute
    monkeypatch.setattr(runner, "execute", lambda task: dataclasses.replace(real(task), sources="other"))
    with pytest.raises(UserError, match="other sources"):
        reproduce(tmp_path, figures=["lower-full"], rounds=30, repeats=1)
    assert read_results(tmp_path) == []


# -------------------------------------------------------------------------------------------------------------- cluster


def address_in(scheduler_file):
    """What the scheduler wrote, as soon as all of it is there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            return json.loads(scheduler_file.read_text())["address"]
        time.sleep(0.05)
    pytest.fail("no scheduler within a minute")


@pytest.fixture
def cluster(tmp_path):
    """A real scheduler and two real workers, each a process; their address, and the workers."""
    pytest.importorskip("distributed", reason="Dask is not installed")
    scheduler_file = tmp_path / "scheduler.json"
    environment = {
        **os.environ,
        "DASK_TEMPORARY_DIRECTORY": str(tmp_path),
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "20s",
    }
    with contextlib.ExitStack() as stack:

        def started(*words):
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=tmp_path,
                env=environment,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        started(
            "dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(scheduler_file),
        )
        address = address_in(scheduler_file)
        worker = ("dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        yield address, [started(*worker) for _ in range(2)]


def test_a_cluster_that_loses_a_worker_gives_the_same_table(cluster, undisturbed, tmp_path):
    from gappletron.paper.cluster import open_dask_executor

    address, workers = cluster

    class Killing(Watching):
        def finished(self, sweep, rounds):
            super().finished(sweep, rounds)
            if self.done == 30:
                workers[0].kill()

    view = Killing()
    with open_dask_executor(address, print) as (executor, in_flight):
        while in_flight() < 4:  # two workers, two runs for each
            time.sleep(0.05)
        reproduce(
            tmp_path / "dask",
            figures=["full"],
            rounds=300,
            repeats=2,
            executor=executor,
            in_flight=in_flight,
            view=view,
        )
    assert view.done == 27 * 9
    assert workers[0].wait() == -signal.SIGKILL
    assert table_of(tmp_path / "dask") == table_of(undisturbed)


def test_no_cluster_is_one_sentence():
    pytest.importorskip("distributed", reason="Dask is not installed")
    from gappletron.paper import cluster as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SECONDS_TO_CONNECT", 1)
        with (
            pytest.raises(UserError, match="no Dask scheduler at"),
            module.open_dask_executor("tcp://127.0.0.1:9", print),
        ):
            pass


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (None, "has no worker"),
        ({"a": "other"}, "has other sources"),
        (ImportError("no numba"), "cannot import gappletron"),
    ],
)
def test_dask_logs_again_after_an_error(monkeypatch, sources, message):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    from gappletron.paper.cluster import open_dask_executor

    class Client:
        """A cluster that is refused: its workers have these sources, or raise, or are not there."""

        def __init__(self, address, timeout):
            pass

        def nthreads(self):
            return {}

        def wait_for_workers(self, n_workers, timeout):
            if sources is None:
                raise TimeoutError

        def run(self, function):
            if isinstance(sources, Exception):
                raise sources
            return sources

        def close(self):
            pass

    monkeypatch.setattr(distributed, "Client", Client)
    logger = logging.getLogger("distributed")
    monkeypatch.setattr(logger, "level", logging.INFO)
    with pytest.raises(UserError, match=message), open_dask_executor("tcp://127.0.0.1:9", print):
        pass
    assert logger.level == logging.INFO
