"""A cold start: rounds run as plain Python until another process has compiled them, with the same bits."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest
from scipy.sparse import csr_array

import storms
from gappletron import UNSEEN, Budget, FeedbackGraph, Online, UserError
from gappletron.cli import run_command
from gappletron.cli.compile import ask_for_code
from gappletron.data.vectors import check_vector
from gappletron.kernel import background as processes, compiling
from gappletron.kernel.compiling import StandIn, Wanted, entry, entry_now
from problems import small_stream

EMPTY = np.zeros(0, np.int32), np.zeros(0), 1, np.zeros(0, np.int32)
CASES = {
    "auto": ("auto", FeedbackGraph.filtering(["a", "b", "c"]), {}),
    "gapsmh": ("gapsmh", FeedbackGraph.bandit(["a", "b", "c"]), {}),
    "watched": (
        "gapsmh",
        FeedbackGraph.filtering(["a", "b", "c"]),
        {"monitor": True, "min_propensity": 0.02, "budget": Budget(20, per=50)},
    ),
}

# --------------------------------------------------------------------------------- plain Python and machine code, mixed


def use(model, seed, calls=120):
    """Random calls of every kind; what they returned."""
    rng = np.random.default_rng(seed)
    X, y = small_stream(rng, 400, 6, 3)
    seen = []

    def feedback(receipt):
        return receipt, receipt.reveals[int(rng.integers(len(receipt.reveals)))] if receipt.reveals else UNSEEN

    for number in range(calls):
        kind, row = int(rng.integers(9)), X[int(rng.integers(400))]
        if kind < 3:
            seen.append(model.act(row).action)
        elif kind == 3:
            seen += [receipt.action for receipt in model.act_many(csr_array(X[number : number + 7]))]
        elif kind == 4 and model.waiting:
            model.learn(*feedback(model.pending[int(rng.integers(model.waiting))]))
        elif kind == 5:
            model.learn_many([feedback(receipt) for receipt in model.pending[: int(rng.integers(30))]])
        elif kind == 6:
            model.teach(row, model.graph.classes[int(rng.integers(3))])
        elif kind == 7:
            seen += [model.predict(row), *model.probabilities([row, X[0]]).ravel().tolist()]
        elif model._contents.journal is None:
            model.player.advance(storms.chunk_of(X[number : number + 9], y[number : number + 9]))
    return seen


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_mixed_rounds_have_the_bits_of_compiled_ones(case, share, monkeypatch):
    learner, graph, options = CASES[case]
    monkeypatch.setattr(time, "time", lambda: 1e9)
    compiled = Online(learner, graph, 6, seed=3, **options)
    expected = use(compiled, 5)
    with storms.mixed_code(7, share):
        mixed = Online(learner, graph, 6, seed=3, **options)
        assert use(mixed, 5) == expected
        mixed.add_class("d")
        mixed.grow(9)
        mixed.act([1.0] * 9)
    compiled.add_class("d")
    compiled.grow(9)
    compiled.act([1.0] * 9)
    assert mixed.differences(compiled) == []


def test_the_store_of_mixed_rounds_leads_to_the_same_bits(tmp_path):
    with storms.mixed_code(8):
        model = Online.open(tmp_path / "m", "gapsmh", FeedbackGraph.filtering(["a", "b", "c"]), 6, durability="os")
        use(model, 6)
        model.close()
        replayed = Online.from_store(tmp_path / "m", replay="first")
    assert replayed.differences(model) == []
    assert Online.from_store(tmp_path / "m", replay="first").differences(model) == []


def test_threads_share_a_model_of_mixed_rounds(tmp_path):
    wrong = []

    def work(number):
        rng = np.random.default_rng(number)
        try:
            for _ in range(40):
                receipt = model.act(rng.normal(size=6))
                model.learn(receipt, "b")
                model.predict(rng.normal(size=6))
        except BaseException as error:
            wrong.append(error)

    with storms.mixed_code(9):
        model = Online.open(tmp_path / "m", "gapsmh", FeedbackGraph.full(["a", "b"]), 6, durability="os")
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[0]
    model.close()
    assert model.rounds == 160
    assert Online.from_store(tmp_path / "m", replay="first").differences(model) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_storm_of_signals_over_mixed_rounds():
    with storms.mixed_code(10):
        struck = storms.interrupted_rounds(80, seed=7)
    assert min(struck.values()) > 5


def test_plain_rounds_struck_at_every_moment(monkeypatch):
    """They are done or not, as if they were machine code."""
    monkeypatch.setattr(time, "time", lambda: 1e9)
    graph, x, files = FeedbackGraph.bandit(3), [1.0, 0.5], (*storms.FILES, "compiling.py", "rounds.py")

    def bits_of(model):
        return [array.tobytes() for array in model._contents.describe()[1].values()]

    with storms.mixed_code(11, share=1.0):
        model = Online("gapsmh", graph, 2, seed=1)
        before = bits_of(model)
        model.act(x)
        after, seen = bits_of(model), set()
        make = lambda: Online("gapsmh", graph, 2, seed=1)  # noqa: E731
        for model, struck in storms.at_every_moment(make, lambda model: model.act(x), files=files):
            assert bits_of(model) == (after if model.rounds else before)
            assert len(model.pending) == model.rounds
            seen.add((struck, model.rounds))
    assert {(True, 0), (True, 1), (False, 1)} == seen


# ------------------------------------------------------------------------------------------ compiled by another process


@pytest.fixture
def cold(tmp_path, monkeypatch):
    """As a new process sees it: nothing in memory, an empty cache, and another process may compile."""
    monkeypatch.setenv(processes.VARIABLE, "1")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    background = compiling.Background()
    monkeypatch.setattr(compiling, "background", background)
    monkeypatch.setattr(compiling, "_specialised", compiling.functools.cache(compiling._specialised.__wrapped__))
    with background.using(1):
        yield background


def until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_stand_in_comes_first_and_machine_code_later(cold):
    first = entry_now(check_vector, *EMPTY)
    assert isinstance(first, StandIn)
    out = np.zeros(2, np.int32)
    given = np.array([0, 3], np.int32), np.array([1.0, 2.0]), 5, out
    assert first(*given) == (0, 0, 5.0)
    until(lambda: not isinstance(entry_now(check_vector, *EMPTY), StandIn))
    assert entry(check_vector, *EMPTY)(*given) == (0, 0, 5.0)
    (file,) = cold.asked
    assert file.exists()
    assert cold.list_missing() == []
    until(lambda: not cold.asked[file].is_at_work())
    assert [path.name for path in file.parent.iterdir()] == [file.name]  # and no lock


def test_large_arguments_wait_for_machine_code(cold, caplog):
    caplog.set_level("INFO", "gappletron.compiling")
    n = compiling.SMALL
    large = np.arange(n, dtype=np.int32), np.ones(n), n, np.zeros(n, np.int32)
    assert not isinstance(entry_now(check_vector, *large), StandIn)
    assert len(cold.asked) == 1
    for line in caplog.messages:
        assert re.fullmatch(r"compiling check_vector, once: \d+ s so far", line)


def test_a_process_that_fails_is_not_asked_again(cold, monkeypatch, caplog):
    caplog.set_level("INFO", "gappletron.compiling")
    monkeypatch.setattr(Wanted, "fill_cache", fail)
    assert isinstance(entry_now(check_vector, *EMPTY), StandIn)
    assert not isinstance(entry(check_vector, *EMPTY), StandIn)
    assert caplog.messages[-1] == "compiling check_vector in this process, which waits for it"


def fail(wanted):
    raise SystemExit(1)


@pytest.mark.parametrize("trouble", ["no process", "no cache", "a function from outside", "not wanted"])
def test_where_no_other_process_can_compile_this_one_does(cold, monkeypatch, trouble):
    function = check_vector

    def refuse(*_, **__):
        raise OSError("no")

    if trouble == "no process":
        monkeypatch.setattr(processes.Worker, "_start", refuse)
    elif trouble == "no cache":
        monkeypatch.setattr(compiling.FunctionCache, "__init__", lambda *_: (_ for _ in ()).throw(RuntimeError))
    elif trouble == "a function from outside":
        function = storms.doubled
    else:
        monkeypatch.setenv(processes.VARIABLE, "0")
    arguments = (4,) if function is storms.doubled else EMPTY
    assert not isinstance(entry_now(function, *arguments), StandIn)
    assert cold.list_missing() == []


def test_two_processes_at_once_compile_once(cold):
    wanted = Wanted.make(check_vector, EMPTY)
    workers = [processes.Worker({"NUMBA_CACHE_DIR": numba.config.CACHE_DIR}) for _ in range(2)]
    for worker in workers:
        worker.send(wanted.fill_cache)
    until(wanted.file.exists)
    first = wanted.file.stat().st_ino  # another file would replace it
    until(lambda: not any(worker.is_at_work() for worker in workers))
    assert wanted.file.stat().st_ino == first
    assert [worker._process.returncode for worker in workers] == [0, 0]


def test_a_process_that_ends_between_two_jobs_is_followed_by_another(cold):
    wide = np.zeros(0, np.int64)
    for indices in (EMPTY[0], wide):
        entry_now(check_vector, indices, *EMPTY[1:])
        until(lambda: not any(worker.is_at_work() for worker in cold._workers.values()))
    assert len(cold.asked) == 2
    assert all(file.exists() for file in cold.asked)


def test_a_class_beyond_the_padded_width_does_not_stall(cold):
    model = Online("gapsmh", FeedbackGraph.bandit(4), 2, seed=1)
    with contextlib.suppress(UserError):
        model.learn(model.act([1.0, 0.5]), 0)
    assert isinstance(model._player.engine.act, StandIn)
    asked = len(cold.asked)
    model.add_class("new")
    assert len(cold.asked) == asked + 2  # act and learn
    receipt = model.act([1.0, 0.5])
    model.learn(receipt, receipt.action)
    assert isinstance(model._player.engine.learn, StandIn)
    assert model.rounds == 2


STREAMED = """
import hashlib, sys, time
import numpy as np
from gappletron import FeedbackGraph, Online
model = Online("gapsmh", FeedbackGraph.bandit(3), 4, seed=2)
rng, rounds, is_cold = np.random.default_rng(5), 0, "act" not in vars(model.player.engine)
print("cold" if is_cold else "warm", flush=True)
while not {"act", "learn"} <= vars(model.player.engine).keys() or rounds % 500:
    receipt = model.act(rng.normal(size=4))
    model.learn(receipt, receipt.action)
    rounds += 1
print(rounds, hashlib.sha256(model.weights.tobytes()).hexdigest())
"""


def test_a_cold_process_goes_over_to_machine_code(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), processes.VARIABLE: "1"}
    command = [sys.executable, "-c", STREAMED]
    cold = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True).stdout
    assert cold.startswith("cold\n")
    rounds, digest = cold.split()[1:]
    warm = subprocess.run(
        [*command[:2], STREAMED.replace("rounds % 500", f"rounds < {rounds}")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    assert warm.split() == ["warm", rounds, digest]


def test_ctrl_c_ends_the_wait_at_once(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), processes.VARIABLE: "1"}
    command = [sys.executable, "-m", "gappletron", "run", "synthetic:T=300000", "--graph", "bandit"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "compiling advance, Guarded, up to" in line:
                break
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        process.wait(30)
        assert time.monotonic() - start < 1.0
    assert process.returncode == 130, lines


# -------------------------------------------------------------------------------------------------- gappletron compile


def test_the_command_asks_for_all_that_models_need(cold, monkeypatch):
    monkeypatch.setattr(processes.Worker, "_start", lambda _: subprocess.Popen(["sleep", "600"]))
    ask_for_code("auto", "bandit", 4)
    names = {file.name.partition("-")[0] for file in cold.list_missing()}
    batches = {"act_rows", "repeat", "write_greedy", "write_label_probabilities", "scale_rows", "advance"}
    assert {f"rounds.{name}" for name in ("act", "learn", *batches)} <= names
    assert {"vectors.check_vector", "hashing._hash_row", "hashing._hash_texts", "prepared.measure_rows"} <= names


def test_the_command_fills_the_cache(cold, monkeypatch, capsys):
    def ask(*_):
        for indices in (EMPTY[0], np.zeros(0, np.int64)):
            entry_now(check_vector, indices, *EMPTY[1:])

    monkeypatch.setattr("gappletron.cli.compile.ask_for_code", ask)
    assert run_command(["compile", "--learner", "gapsmh", "--classes", "3", "--jobs", "2"]) == 0
    assert len(cold._workers) == 2
    assert all(file.exists() for file in cold.asked)
    assert re.fullmatch(r"2 functions were compiled in \d+ s; all others were in the cache", last_line(capsys))


def test_the_command_says_where_the_cache_cannot_be_filled(cold, monkeypatch, capsys):
    monkeypatch.setattr(Wanted, "fill_cache", fail)
    assert run_command(["compile", "--learner", "banditron", "--classes", "3"]) == 2
    assert re.search(r"functions could not be kept in '.*': make room there, or set NUMBA_CACHE", last_line(capsys))


def last_line(capsys):
    return capsys.readouterr().err.splitlines()[-1]
