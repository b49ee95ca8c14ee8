"""Storms: signals, kills, threads, damaged bytes and extreme numbers, of a length that the caller chooses.

The test command runs short ones (``test_signals.py`` and others), ``make stress`` long ones (:func:`main`).
"""

from __future__ import annotations

import collections
import contextlib
import dis
import functools
import itertools
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numba
import numpy as np

import gappletron.service.client as client_module
from gappletron import (
    UNSEEN,
    Budget,
    FeedbackGraph,
    Online,
    Player,
    Runs,
    TopUp,
    UserError,
    interpreted,
    open_stream,
    play,
    read_decisions,
)
from gappletron.base.errors import SpentReceipt, Unavailable
from gappletron.data.stream import make_chunk
from gappletron.kernel import compiling
from gappletron.kernel.compiling import prepare
from gappletron.kernel.numerics import LARGEST_VALUE
from gappletron.online import events
from gappletron.paper.figures.catalogue import select_tasks
from gappletron.paper.results import Outcome, Result
from gappletron.paper.store import Store, read_results
from gappletron.service.client import Client
from stores import crash, full_disk, read_log, wait_for_snapshot


@contextlib.contextmanager
def mixed_code(seed, share=0.5):
    """Inside, what models that are made there call is chosen anew in every call: machine code, or with this probability
    the plain Python that stands in for it.
    """
    rng, find = random.Random(seed), compiling.Wanted.find

    def find_either(wanted):
        code, plain = find(wanted), compiling.StandIn(wanted.function)

        def call(*arguments):
            return (plain if rng.random() < share else code)(*arguments)

        return call

    compiling.Wanted.find = find_either
    try:
        yield
    finally:
        compiling.Wanted.find = find


class Struck(BaseException):
    """What the handler of a storm raises."""


@contextlib.contextmanager
def lightning():
    """A function that lets a signal, whose handler raises Struck, strike after about so many microseconds; 0: never.

    Another thread may get the signal and pass it on late, so one that comes when nothing should strike is ignored.
    """
    is_armed = False

    def strike(*_):
        if is_armed:
            raise Struck

    def strike_after(microseconds):
        nonlocal is_armed
        is_armed = microseconds > 0
        signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)

    before = signal.signal(signal.SIGALRM, strike)
    try:
        yield strike_after
    finally:
        strike_after(0)
        signal.signal(signal.SIGALRM, before)


def catches(pid, number):
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    caught = int(re.search(r"SigCgt:\s*([0-9a-f]+)", status)[1], 16)
    return bool(caught >> (number - 1) & 1)


STORE_CHILD = """
import sys
import numpy as np
from gappletron import UNSEEN, FeedbackGraph, Online, interpreted

place, first, durability = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with interpreted():
    graph = FeedbackGraph.filtering(["a", "b", "c"])
    model = Online.open(place, "gapsmh", graph, 6, seed=7, durability=durability, snapshot_every=40, pending=50)
    print("ready", model.rounds, flush=True)
    rng = np.random.default_rng(first)
    while True:
        receipt = model.act(rng.normal(size=6))
        print("act", receipt.id, receipt.action, flush=True)
        waiting = model.pending
        if len(waiting) > 5:
            old = waiting[int(rng.integers(5))]
            label = old.reveals[int(rng.integers(3))] if old.reveals else UNSEEN
            model.learn(old.id, label)
            print("learn", old.id, label, flush=True)
"""


def killed_stores(kills, place, seed):
    """Kill a process that writes to a store again and again; what it has acknowledged is in the log, once, and the log
    leads to the bits of a model that was never killed. The number of calls acknowledged.
    """
    rng = np.random.default_rng(seed)
    acted, learned = {}, {}
    for number in range(kills):
        arguments = [str(place), str(number), ("disk", "os")[number % 2]]
        child = subprocess.Popen([sys.executable, "-c", STORE_CHILD, *arguments], stdout=subprocess.PIPE, text=True)
        lines = []
        reader = threading.Thread(target=lambda child=child, lines=lines: lines.extend(child.stdout))
        assert child.stdout.readline().startswith("ready")
        reader.start()
        time.sleep(rng.uniform(0.0, 0.1))
        child.kill()
        child.wait()
        reader.join()
        child.stdout.close()
        for line in lines:
            if line.endswith("\n"):  # the last one may be torn
                kind, name, value = line.split()
                (acted if kind == "act" else learned)[name] = value
    check_log(place, acted, learned)
    return len(acted) + len(learned)


def killed_services(kills, place, seed, clients=4):
    """Kill a server again and again while clients send decisions and feedback, and repeat what was not answered. What
    was answered is in the log, every request once, and the log leads to the bits of a model that was never killed.
    """
    rng, port = np.random.default_rng(seed), free_port()
    command = [sys.executable, "-m", "gappletron", "serve", f"model={place}", "--port", str(port)]
    Online.open(place, "gapsmh", FeedbackGraph.filtering(["a", "b", "c"]), 6, seed=7).close()
    acted, learned, failed, stop = {}, {}, [], threading.Event()

    def work(number):
        own = np.random.default_rng([seed, number])
        try:
            with Client(f"http://127.0.0.1:{port}", retries=10_000) as client:
                while not stop.is_set():
                    decision = client.act(own.normal(size=6))
                    acted[decision.id] = decision.action
                    label = decision.reveals[int(own.integers(3))] if decision.reveals else UNSEEN
                    client.learn(decision, label)
                    learned[decision.id] = str(label)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    with quick_retries():
        for number in range(kills + 1):
            server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            assert any("the page is at" in line for line in server.stderr)
            if number == 0:
                for thread in threads:
                    thread.start()
            time.sleep(rng.uniform(0.0, 1.0))
            if number == kills:
                stop.set()
                for thread in threads:
                    thread.join()
                server.terminate()
            else:
                server.kill()
            server.stderr.close()
            server.wait()
    assert not failed, failed[0]
    check_log(place, acted, learned, pending=1_000_000)
    rounds = sum(batch.num_rows for batch in read_decisions(place))
    assert rounds == len(acted) == len(learned)  # every request was answered in the end, and done once
    return rounds


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@contextlib.contextmanager
def quick_retries():
    """Clients that try again some ten times a second."""
    before, client_module.LONGEST_PAUSE = client_module.LONGEST_PAUSE, 0.1
    try:
        yield
    finally:
        client_module.LONGEST_PAUSE = before


def check_log(place, acted, learned, pending=50):
    """Compare a log with what was acknowledged, and with a model that does what the log says through public methods.
    Return how many decisions it has.
    """
    rows = {row["id"]: row for batch in read_decisions(place) for row in batch.to_pylist()}
    assert {name: rows[name]["action"] for name in acted} == acted
    told = {name: rows[name]["label"] or "UNSEEN" for name in learned}
    assert told == {name: value.removeprefix("Unseen.") for name, value in learned.items()}
    ids = {row["round"]: name for name, row in rows.items()}
    assert sorted(ids) == list(range(len(rows)))
    with interpreted():
        graph = FeedbackGraph.filtering(["a", "b", "c"])
        undisturbed = Online("gapsmh", graph, 6, seed=7, pending=pending, monitor=True)
        receipts, fed = {}, []
        for event in read_log(place):
            if isinstance(event, events.Decided):
                receipt = receipts[event.round] = undisturbed.act(tuple(event.features))
                assert receipt.action == rows[ids[event.round]]["action"]
            elif isinstance(event, events.Fed) and event.label != events.EXPIRED_LABEL:
                fed.append(event.round)
                undisturbed.learn(receipts[event.round], "abc"[event.label] if event.label >= 0 else UNSEEN)
        assert len(set(fed)) == len(fed)  # nothing was learned twice
        first, last = (Online.from_store(place, replay=replay) for replay in ("first", "last"))
        assert first.differences(last) == []
        assert set(undisturbed.differences(last)) <= {"watch.curve"}  # which has the times of the rounds
    return len(rows)


def raise_struck(_):
    raise Struck


FILES = (
    "model.py",
    "access.py",
    "transitions.py",
    "journal.py",
    "receipts.py",
    "player.py",
    "engine.py",
    "draws.py",
    "turns.py",
    "vectors.py",
)
"""The files of the library in which a round is played."""


def at_every_moment(make, call, strike=raise_struck, files=FILES):
    """Call with a new thing again and again, each time struck one moment later, until no moment is left; after each
    call the thing, and whether it was struck. A strike calls a function with the thing, by default one that raises.

    Python runs signal handlers when a function is entered, after calls and at the ends of loops. A trace function that
    strikes at the next instruction meets all of these moments in these files, one after the other. Where signals are
    held back no handler runs, so there is no moment.
    """
    moment, struck = 0, True
    while struck:
        thing = make()
        struck = _struck_at(moment, thing, call, strike, files)
        yield thing, struck
        moment += 1


def _struck_at(moment, thing, call, strike, files):
    left = [moment]
    last = {}
    handler = signal.getsignal(signal.SIGINT)
    assert callable(handler), "nothing can be held back where SIGINT is ignored"

    def trace(frame, event, _):
        if Path(frame.f_code.co_filename).name not in files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before, last[frame] = last.get(frame), frame.f_lasti
            is_moment = before is not None and _is_moment(frame.f_code, before, frame.f_lasti)
            if is_moment and signal.getsignal(signal.SIGINT) is handler:
                left[0] -= 1
                if left[0] == -1:
                    sys.settrace(None)
                    strike(thing)
                    return None
        return trace

    sys.settrace(trace)
    try:
        with contextlib.suppress(Struck):
            call(thing)
    finally:
        sys.settrace(None)
    return left[0] < 0


@functools.cache
def _is_moment(code, before, here):
    """Whether a handler may run after the instruction at `before`, and its exception would be met as one at `here`."""
    name = dis.opname[code.co_code[before]]
    if not name.startswith(("CALL", "RESUME", "JUMP_BACKWARD", "BEFORE_WITH")):
        return False
    table = dis._parse_exception_table(code)
    blocks = [[(e.start, e.end) for e in table if e.start <= place < e.end] for place in (before, here)]
    return blocks[0] == blocks[1]


def interrupted_rounds(strikes, seed, learner="gapsmh", graph=None):
    """Play one round at a time under a storm, then again without one, and compare; how many calls were struck.

    An interrupted `act` was played exactly if its receipt waits, an interrupted `learn` exactly if its receipt does not
    wait any more. The calls that took effect are replayed by a model that nothing interrupts: the same bits.
    """
    rng = np.random.default_rng(seed)
    graph = FeedbackGraph.bandit(3) if graph is None else graph
    rows = rng.normal(size=(64, 5))
    model = Online(learner, graph, features=5, seed=seed, pending=20)
    model.predict(rows[0])
    effects, struck = [], {"act": 0, "learn": 0}

    def check():
        assert not model._lock._is_owned(), "a lock that is never released"

    with lightning() as strike_after:
        while sum(struck.values()) < strikes:
            row, rounds = int(rng.integers(64)), model.rounds
            at_act = struck["act"] <= struck["learn"]
            try:
                strike_after(int(rng.integers(5, 60)) if at_act else 0)
                model.act(rows[row])
                strike_after(0)
            except Struck:
                struck["act"] += 1
            check()
            waiting = {receipt.serial: receipt for receipt in model.pending}
            assert model.rounds - rounds == (rounds in waiting)
            if model.rounds == rounds:
                continue
            effects.append(("act", row))
            if rng.random() < 0.2:
                continue
            serial = int(rng.choice(list(waiting)))
            receipt = waiting[serial]
            label = receipt.reveals[0] if receipt.reveals and rng.random() < 0.7 else UNSEEN
            if label is UNSEEN and len(receipt.reveals) == graph.n_classes:
                label = receipt.reveals[-1]
            try:
                strike_after(0 if at_act else int(rng.integers(5, 60)))
                model.learn(receipt if rng.random() < 0.5 else receipt.id, label)
                strike_after(0)
            except Struck:
                struck["learn"] += 1
            check()
            if serial not in {receipt.serial for receipt in model.pending}:
                effects.append(("learn", serial, label))
    again = Online(learner, graph, features=5, seed=seed, pending=20)
    for effect in effects:
        if effect[0] == "act":
            again.act(rows[effect[1]])
        else:
            receipt = next(receipt for receipt in again.pending if receipt.serial == effect[1])
            again.learn(receipt, effect[2])
    assert [receipt.serial for receipt in again.pending] == [receipt.serial for receipt in model.pending]
    (about, arrays), (told, others) = model._player.engine.describe(), again._player.engine.describe()
    assert about == told
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in others.items()
    }
    return struck


def interrupted_follows(strikes, seed, learner="gapsmh", graph=None, place=None):
    """Strikes while a model follows the decisions of another, with a store where a place is given; how many calls
    were struck.

    An interrupted `follow` was played exactly if its receipt waits, and then with the given action and probabilities;
    an interrupted `learn` exactly if its receipt does not wait any more. A model that nothing interrupts, fed the same
    calls that took effect, has the same bits and the same receipts, and so have the models that the store leads to.
    """
    rng = np.random.default_rng(seed)
    graph = FeedbackGraph.filtering(["a", "b", "c"]) if graph is None else graph
    rows, N = rng.normal(size=(64, 5)), graph.n_actions
    options = {"features": 5, "seed": seed, "pending": 20, "monitor": True}
    if place is None:
        model = Online(learner, graph, **options)
    else:
        model = Online.open(place, learner, graph, **options, durability="os", snapshot_every=400)
    effects, struck = [], {"follow": 0, "act": 0, "learn": 0}

    def call(kind, *arguments):
        """A call that may be struck; nothing is left behind by that."""
        weather = int(rng.integers(5, 60 if place is None else 120)) if rng.random() < 0.7 else 0
        try:
            strike_after(weather)
            getattr(model, kind)(*arguments)
            strike_after(0)
        except Struck:
            struck[kind] += 1
        assert not model._lock._is_owned(), "a lock that is never released"

    with lightning() as strike_after:
        while sum(struck.values()) < strikes or min(struck.values()) == 0:
            row, rounds = int(rng.integers(64)), model.rounds
            chances = rng.dirichlet(np.ones(N))
            given = (graph.actions[int(rng.choice(N, p=chances))], chances)
            kind = "follow" if rng.random() < 0.7 else "act"
            call(kind, rows[row], *(given if kind == "follow" else ()))
            waiting = {receipt.serial: receipt for receipt in model.pending}
            assert model.rounds - rounds == (rounds in waiting)
            if model.rounds == rounds:
                continue
            effects.append((kind, rows[row], *(given if kind == "follow" else ())))
            if kind == "follow":
                assert (waiting[rounds].action, waiting[rounds].probabilities.tolist()) == (given[0], chances.tolist())
            if rng.random() < 0.2:
                continue
            serial = int(rng.choice(list(waiting)))
            receipt = waiting[serial]
            hidden = [UNSEEN] if len(receipt.reveals) < graph.n_classes else []
            labels = [*receipt.reveals, *hidden]
            label = labels[int(rng.integers(len(labels)))]
            call("learn", receipt if rng.random() < 0.5 else receipt.id, label)
            if serial not in {receipt.serial for receipt in model.pending}:
                effects.append(("learn", serial, label))
    model.commit()
    again = Online(learner, graph, **options)
    for kind, first, *rest in effects:
        given = first
        if kind == "learn":
            given = next(receipt for receipt in again.pending if receipt.serial == first)
        getattr(again, kind)(given, *rest)
    _check_same(again, model)
    if place is not None:
        model.act(rows[0])  # what an interrupted call has done is stored with the next one
        again.act(rows[0])
        wait_for_snapshot(model)
        crash(model)
        for replay in ("first", "last"):
            found = Online.from_store(place, replay=replay)
            assert found.differences(model) == []
            assert [each.id for each in found.pending] == [each.id for each in model.pending]
            _check_same(again, found)
    return struck


def _check_same(first, second):
    """The same bits and the same receipts; the curve alone has the times of the rounds."""
    assert set(first.differences(second)) <= {"watch.curve"}
    receipts = [[(each.serial, each.turn.record.tobytes()) for each in model.pending] for model in (first, second)]
    assert receipts[0] == receipts[1]


# -------------------------------------------------------------------------------------------------------- damaged bytes


def doubled(x):
    return x + x


def shifted(x):
    return x + 1


def cached_code(function):
    """A function with its machine code cached on disk, as a new process sees it."""
    return compiling._specialised.__wrapped__(function, ())


def flipped(data, rng):
    """The bytes with one of them changed."""
    changed = bytearray(data)
    changed[int(rng.integers(len(changed)))] ^= int(rng.integers(1, 256))
    return bytes(changed)


def flipped_bytes(count, seed):
    """Flip bytes in a saved model, in the cache of machine code and in the store of results, one at a time.

    Each is detected (refused, compiled again, run again) or without effect (the same contents). How many of each.
    """
    rng = np.random.default_rng(seed)
    share = count // 3
    with tempfile.TemporaryDirectory() as folder:
        return {
            "model": _flipped_models(count - 2 * share, rng, Path(folder)),
            "cache": _flipped_code(share, rng, Path(folder) / "cache"),
            "store": _flipped_stores(share, rng, Path(folder)),
        }


def _contents(model):
    """All that a model is, but for the session that a loaded copy starts."""
    header, arrays = model._contents.describe()
    del header["sessions"]
    ids = [receipt.id for receipt in model.pending]
    return header, ids, {name: array.tobytes() for name, array in arrays.items()}


def _flipped_models(count, rng, folder):
    outcomes = collections.Counter()
    path = folder / "model.npz"
    with interpreted():
        model = Online("gapsmh", FeedbackGraph.label_efficient(["a", "b", "c"]), features=6, seed=1, pending=8)
        for _ in range(40):
            receipt = model.act(rng.normal(size=6))
            if receipt.reveals and rng.random() < 0.7:
                model.learn(receipt, receipt.reveals[0])
        model.save(path)
        data, expected = path.read_bytes(), _contents(Online.load(path))
        assert expected[1]
        for _ in range(count):
            path.write_bytes(flipped(data, rng))
            try:
                loaded = Online.load(path)
            except UserError:
                outcomes["refused"] += 1
            else:
                assert _contents(loaded) == expected
                outcomes["no effect"] += 1
    return dict(outcomes)


def _flipped_code(count, rng, folder):
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
    try:
        code = cached_code(doubled)
        assert code(4) == 8
        (signature,) = code.signatures
        files = {path: path.read_bytes() for path in folder.rglob("*.nb?")}
        assert len(files) == 1
        for turn in range(count):
            (path,) = files
            path.write_bytes(flipped(files[path], rng))
            again = cached_code(doubled)
            if turn % 50 < 2:
                assert again(4) == 8
                assert sum(again.stats.cache_misses.values()) == 1
                found = cached_code(doubled)
                assert found._cache.load_overload(signature, found.targetctx) is not None
                files = {path: path.read_bytes() for path in files}
            else:
                assert again._cache.load_overload(signature, again.targetctx) is None
                path.write_bytes(files[path])
    finally:
        numba.config.CACHE_DIR = before
    return {"compiled again": count}


def stored_result(task):
    """A result for a task that nobody ran."""
    curve = "[[1, 5, 10], [1, 2, 3]]"
    return Result(
        task,
        Outcome(
            "{}", 1.0, 3, 1, 0, 1, 0.3, 0.25, 1.5, None, None, curve, "0", compiling.source_hash(), "m", 0.1, "now"
        ),
    )


def _flipped_stores(count, rng, folder):
    outcomes = collections.Counter()
    tasks = select_tasks(["full"], rounds=10, repeats=1)[:24]
    expected = sorted(map(stored_result, tasks), key=lambda result: result.task.id)
    with Store(folder) as store:
        list(map(store.add, expected))
    path = folder / "results.sqlite"
    data = path.read_bytes()
    for _ in range(count):
        path.write_bytes(flipped(data, rng))
        with contextlib.suppress(UserError):
            assert read_results(folder) == expected
        try:
            with Store(folder) as store:
                damaged = store.damaged
                found = store.finished(tasks, compiling.source_hash())
                assert all(found[result.task.id] == result for result in expected if result.task.id in found)
                assert bool(damaged) == (len(found) < len(expected))
                for result in expected:
                    if result.task.id not in found:
                        store.add(result)
        except UserError:
            outcomes["refused"] += 1
            for name in ("results.sqlite-wal", "results.sqlite-shm"):
                (folder / name).unlink(missing_ok=True)
        else:
            outcomes["run again" if damaged else "no effect"] += 1
            assert read_results(folder) == expected
    return dict(outcomes)


# ---------------------------------------------------------------------------------------------------------------- kills

SAVER = """
import sys
import gappletron
with gappletron.interpreted():
    graph = gappletron.FeedbackGraph.bandit(3)
    path = sys.argv[1]
    try:
        model = gappletron.Online.load(path)
    except gappletron.UserError:
        model = gappletron.Online("gapsmh", graph, features=2000, seed=1)
    print(model.rounds, flush=True)
    while True:
        for _ in range(3):
            receipt = model.act([1.0] * 2000)
            model.learn(receipt, receipt.action)
        model.save(path)
        print(model.rounds, flush=True)
"""


def killed_saves(kills, seed):
    """Kill a process that plays and saves a model, again and again, at random moments; the number of rounds at the end.

    After each kill the file loads and is at least as new as the last save that the process told of, and the next
    process goes on from there. What was half-written is removed by a save that comes an hour later.
    """
    rng = np.random.default_rng(seed)
    told, left = 0, 0
    with tempfile.TemporaryDirectory() as folder, interpreted():
        path = Path(folder) / "model.npz"
        for _ in range(kills):
            saver = subprocess.Popen([sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE)
            first = int(saver.stdout.readline())
            assert first >= told
            time.sleep(rng.uniform(0.02, 0.2))
            saver.kill()
            lines = saver.stdout.read().split(b"\n")[:-1]
            saver.wait()
            saver.stdout.close()
            told = max([first, *map(int, lines)])
            if told or path.exists():
                assert Online.load(path).rounds >= told
            left += sum(name.suffix == ".part" for name in Path(folder).iterdir())
        model = Online.load(path)
        for part in Path(folder).glob(".*.part"):  # as if they had been left behind two hours ago
            os.utime(part, (time.time() - 7200.0,) * 2)
        model.save(path)
        assert list(Path(folder).iterdir()) == [path]
    return {"rounds": model.rounds, "half-written": left}


def killed_sweeps(kills, seed):
    """Kill a sweep again and again, at random moments; how often it was killed, and how often it ended by itself.

    A stored run is never lost. Each time the sweep ends, its table is that of one that nobody disturbed, nothing that
    was half-written is left, and the next one begins anew.
    """
    rng = np.random.default_rng(seed)
    killed = ended = 0
    with tempfile.TemporaryDirectory() as base:
        whole, folder = Path(base) / "whole", Path(base) / "killed"
        swept(whole).wait()
        expected = read_results(whole)
        while killed < kills:
            before = stored_runs(folder)
            process = swept(folder)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0.1, 8.0))
            if process.poll() is None:
                process.kill()
                process.wait()
                killed += 1
                assert stored_runs(folder) >= before
            else:
                assert process.returncode == 0
                ended += 1
                _check_sweep(folder, whole, expected)
                shutil.rmtree(folder)
        assert swept(folder).wait() == 0
        _check_sweep(folder, whole, expected)
    return {"killed": killed, "ended": ended + 1}


def swept(folder):
    """A process that plays a sweep of 243 runs."""
    arguments = ["reproduce", "--figure", "full", "--rounds", "5000", "--repeats", "2", "--out", str(folder)]
    return subprocess.Popen(
        [sys.executable, "-m", "gappletron", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def stored_runs(folder):
    """How many runs are stored; those that can be read."""
    return len(read_results(folder)) if (folder / "results.sqlite").exists() else 0


def _check_sweep(folder, whole, expected):
    def facts(results):
        return sorted(
            (run.task.id, run.outcome.mistakes, run.outcome.labels_seen, run.outcome.curve) for run in results
        )

    assert facts(read_results(folder)) == facts(expected)
    assert sorted(path.name for path in folder.rglob("*")) == sorted(path.name for path in whole.rglob("*"))


def shared_model(threads, calls):
    """Several threads on one model: every receipt id is issued once, and every piece of feedback counts once."""
    graph = FeedbackGraph.bandit(3)
    model = Online("gapsmh", graph, features=4, seed=0, pending=calls * threads)
    rows = np.random.default_rng(0).normal(size=(32, 4))
    ids, wrong = [[] for _ in range(threads)], []

    def play(own):
        try:
            for t in range(calls):
                receipt = model.act(rows[t % 32])
                own.append(receipt.id)
                model.predict(rows[t % 32])
                model.learn(receipt, receipt.action if t % 2 else UNSEEN)
        except Exception as error:
            wrong.append(error)

    workers = [threading.Thread(target=play, args=(own,)) for own in ids]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    issued = [name for own in ids for name in own]
    assert len(set(issued)) == len(issued) == model.rounds == threads * calls
    assert not model.pending
    assert np.isfinite(model.weights).all()


def interrupted_looks(strikes, seed):
    """Strikes while a model predicts and computes probabilities: nothing changes, and the answers stay the same."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(256, 6))
    model = Online("gaplog", FeedbackGraph.bandit(4), features=6, seed=seed)
    for row in rows:
        receipt = model.act(row)
        model.learn(receipt, receipt.action)
    wanted, about = (
        (model.predict_many(rows), model.probabilities(rows).tobytes()),
        model._player.engine.describe(),
    )
    struck = 0
    with lightning() as strike_after:
        while struck < strikes:
            try:
                strike_after(int(rng.integers(5, 300)))
                model.predict(rows[0])
                model.probabilities(rows)
                strike_after(0)
            except Struck:
                struck += 1
            assert not model._lock._is_owned()
    assert (model.predict_many(rows), model.probabilities(rows).tobytes()) == wanted
    assert model._player.engine.describe()[0] == about[0]


def interrupted_parsing(strikes, seed, folder):
    """Strikes while a svmlight file is read: no crash, and the next reading gives the same rows."""
    rng = np.random.default_rng(seed)
    path = Path(folder) / "rows.svm"
    lines = [f"{rng.integers(3)} " + " ".join(f"{j}:{rng.normal():.3f}" for j in range(1, 9)) for _ in range(3000)]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")

    def read():
        stream = open_stream(str(path))
        return [array.tobytes() for chunk in stream.chunks() for array in chunk]

    wanted, struck = read(), 0
    with lightning() as strike_after:
        while struck < strikes:
            try:
                strike_after(int(rng.integers(50, 4000)))
                assert read() == wanted
                strike_after(0)
            except Struck:
                struck += 1
    assert read() == wanted


def interrupted_playing(strikes, seed):
    """Strikes while a stream is played: what was measured up to then is there, as in a run that nothing interrupts."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(3000, 4)), rng.integers(3, size=3000)
    whole = play("gapsmh", (X, y), "bandit", curve="every", seed=seed)[0].curve.mistakes
    struck = 0
    with lightning() as strike_after:
        while struck < strikes:
            runs = None
            try:
                strike_after(int(rng.integers(50, 4000)))
                runs = Runs("gapsmh", (X, y), "bandit", curve="every", seed=seed, jobs=int(rng.integers(1, 3)))
                for _ in runs:
                    pass
                strike_after(0)
            except Struck:
                struck += 1
            strike_after(0)
            if runs is not None:
                history = runs.histories()[0]
                assert history.rounds == 0 or history.mistakes == whole[history.rounds - 1]


def interrupted_saving(strikes, seed, folder):
    """Strikes while a model is saved: the file is the old or the new one, and nothing else is left in the folder."""
    rng = np.random.default_rng(seed)
    path = Path(folder) / "model.npz"
    model = Online("gapsmh", FeedbackGraph.bandit(3), features=50, seed=seed)
    model.save(path)
    struck, saved = 0, model.rounds
    with lightning() as strike_after:
        while struck < strikes:
            model.act(rng.normal(size=50))
            try:
                strike_after(int(rng.integers(50, 3000)))
                model.save(path)
                saved = model.rounds
                strike_after(0)
            except Struck:
                struck += 1
            strike_after(0)
            if struck % 10 == 0:
                found = Online.load(path).rounds
                assert saved <= found <= model.rounds
            assert [file.name for file in Path(folder).iterdir()] == ["model.npz"]


def interrupted_compiling(strikes, seed):
    """Strikes while a function is compiled: they wait for the compiler, and what it made works."""
    rng = np.random.default_rng(seed)
    for number in range(strikes):
        made = {"__name__": __name__}
        exec(f"def added(values):\n    return values[0] + {number}.0\n", made)  # a function that is not compiled yet
        values = np.ones(2)
        with lightning() as strike_after, contextlib.suppress(Struck):
            strike_after(int(rng.integers(500, 60_000)))
            prepare(made["added"], values)
        assert prepare(made["added"], values)(values) == number + 1.0


def stopped_commands(count, seed, folder):
    """Commands that get SIGINT or SIGTERM at a random moment: one line, the right exit code, no traceback."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        number, code = [(signal.SIGINT, 130), (signal.SIGTERM, 143)][int(rng.integers(2))]
        found, out, err = ended_by(number, float(rng.uniform(0, 2.5)), "run", ENDLESS, cwd=folder)
        assert found == code, (found, err)
        assert "Traceback" not in err, err
        assert ("what follows is what was measured" in err) == bool(out), (out, err)


ENDLESS = "synthetic:K=3,d=40,T=100000000000"


def ended_by(number, delay, *arguments, cwd):
    """(exit code, standard output, standard error) of a command that gets a signal so many seconds after it began."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gappletron", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        # A suite that a script started in the background ignores SIGINT, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    while not catches(process.pid, signal.SIGTERM):  # until then, the signal is Python's to handle
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


# --------------------------------------------------------------------------------------------------------- random calls

WRONG_ROWS = [
    [np.nan] * 4,
    ([0], [np.inf]),
    ([0], [-1e300]),
    ([4], [1.0]),
    ([-1], [1.0]),
    ([0, 1], [1.0]),
    ([0.5], [1.0]),
    "text",
    None,
    {0: "a"},
    [[1.0, 2.0], [3.0, 4.0]],
]
WRONG_RECEIPTS = ["", "x-1", "-", 3, None, "abc-" + "9" * 30]


def extreme_row(rng, limit):
    """A row of 4 features with magnitudes from 1e-300 to the limit, zeros and repeated indices among them."""
    size = int(rng.integers(0, 6))
    values = rng.choice([-1.0, 0.0, 1.0], size) * 10.0 ** rng.uniform(-300, math.log10(limit / 8), size)
    ordinary = rng.random(size) < 0.5
    return rng.integers(0, 4, size), np.where(ordinary, rng.normal(size=size), values)


def random_calls(calls, seed, learner, graph, limit, folder):
    """Random calls of one model, right and wrong, against a record of what must wait; how many were refused.

    A refused call changes no bit, weights and probabilities stay finite, and each piece of feedback counts once.
    """
    rng = np.random.default_rng(seed)
    model = Online(learner, graph, features=4, seed=seed, pending=6)
    waiting, learned, refused = {}, [], 0

    def bits():
        header, arrays = model._contents.describe()
        return repr(header), tuple(array.tobytes() for array in arrays.values())

    def refuses(call, *arguments):
        nonlocal refused
        before = bits()
        try:
            call(*arguments)
        except UserError:
            refused += 1
        else:
            raise AssertionError("a wrong call was accepted")
        assert bits() == before

    for _ in range(calls):
        kind = rng.integers(10)
        if kind < 4:
            receipt = model.act(extreme_row(rng, limit))
            assert np.isfinite(receipt.probabilities).all()
            assert abs(receipt.probabilities.sum() - 1.0) < 1e-9
            assert receipt.probability > 0.0
            waiting[receipt.id] = receipt
            if len(waiting) > 6:
                learned.append(waiting.pop(next(iter(waiting))))
        elif kind < 7 and waiting:
            name = list(waiting)[int(rng.integers(len(waiting)))]
            receipt = waiting.pop(name)
            seen = receipt.reveals
            hidden = len(seen) < graph.n_classes
            label = UNSEEN if hidden and (not seen or rng.random() < 0.3) else seen[int(rng.integers(len(seen)))]
            model.learn(receipt if rng.random() < 0.5 else name, label)
            learned.append(receipt)
        elif kind == 7:
            refuses(model.act, WRONG_ROWS[int(rng.integers(len(WRONG_ROWS)))])
        elif kind == 8:
            if learned and rng.random() < 0.5:
                receipt = learned[int(rng.integers(len(learned)))]
                refuses(model.learn, receipt, receipt.action)
            elif waiting:
                refuses(model.learn, next(iter(waiting)), "no such class")
            else:
                refuses(model.learn, WRONG_RECEIPTS[int(rng.integers(len(WRONG_RECEIPTS)))], UNSEEN)
        elif rng.random() < 0.05:
            model.save(Path(folder) / "model.npz")
            model = Online.load(Path(folder) / "model.npz")
        else:
            before = bits()
            model.predict(extreme_row(rng, limit))
            assert np.isfinite(model.probabilities(rng.normal(size=(2, 4)))).all()
            assert bits() == before
        assert [receipt.id for receipt in model.pending] == list(waiting)
        assert np.isfinite(model.weights).all()
    return refused


def random_stores(count, seed, cases, limit, folder):
    """Random calls of models with stores, of any learner and graph, with limits and extreme rows, and crashes in
    between: what is opened again has the bits of the model. The number of calls that were refused.
    """
    refused = 0
    with interpreted():
        for number in range(count):
            rng = np.random.default_rng([seed, number])
            learner, graph = cases[int(rng.integers(len(cases)))]
            refused += _random_store(rng, learner, graph, limit, Path(folder) / f"{number}.sqlite")
    return refused


def _random_store(rng, learner, graph, limit, folder):
    often = {"durability": "os", "snapshot_every": int(rng.choice([5, 30, 10_000]))}
    budget = Budget(5, per=int(rng.integers(5, 50))) if rng.random() < 0.5 else None
    options = {"seed": int(rng.integers(100)), "pending": int(rng.integers(2, 40)), "budget": budget}
    model = Online.open(folder, learner, graph, 4, **options, **often)
    refused = 0
    for _ in range(60):
        try:
            _random_change(model, rng, limit)
        except UserError:  # a learner that cannot be taught, a label that is not to be had, and so on
            refused += 1
        if rng.random() < 0.05:
            crash(model)
            again = Online.open(folder, **often)
            assert again.differences(model) == []
            model = again
    model.act([1.0, 0.0, 0.0, 0.0])  # what refused calls have left is stored with it
    crash(model)
    for replay in ("first", "last"):
        assert Online.from_store(folder, replay=replay).differences(model) == []
    assert sum(batch.num_rows for batch in read_decisions(folder)) == model.rounds
    return refused


def _random_change(model, rng, limit):
    """One call that changes a model."""
    kind, graph = int(rng.integers(11)), model.graph
    if kind < 4:
        model.act(extreme_row(rng, limit))
    elif kind == 4:
        model.act_many([extreme_row(rng, limit) for _ in range(int(rng.choice([2, 40])))])
    elif kind == 5:
        model.learn_many([(each, each.reveals[0] if each.reveals else UNSEEN) for each in model.pending])
    elif kind == 6 and model.waiting:
        model.forget(model.pending[int(rng.integers(model.waiting))])
    elif kind == 7:
        label = graph.classes[int(rng.integers(graph.n_classes))]
        model.teach(extreme_row(rng, limit), label, float(rng.uniform(1e-6, 1.0)))
    elif kind == 8:
        chances = rng.dirichlet(np.full(graph.n_actions, 0.3))
        model.follow(extreme_row(rng, limit), graph.actions[int(chances.argmax())], chances)
    elif kind == 9:
        model.set_limits(min_propensity=float(rng.choice([0.0, 0.02])))
    elif kind == 10:
        with model.hold():
            model.act(extreme_row(rng, limit))
            model.remember(f"key {model.rounds}", b"", b"answer")
        model.commit()


def shared_store(seed, place, threads=4, seconds=0.5):
    """Threads that share a model with a store, on a disk that is full at times: what was acknowledged is in the log,
    once, and the log leads to the bits of the model. The number of decisions that were acknowledged.
    """
    graph = FeedbackGraph.full(["a", "b", "c"])
    options = {"durability": ("disk", "os")[seed % 2], "snapshot_every": 40, "pending": 1_000_000}
    acted, learned, keys, wrong, stop = {}, {}, {}, [], threading.Event()

    def call(model, rng, key):
        kind = int(rng.integers(4))
        if kind == 0:
            receipt = model.act(rng.normal(size=3))
            acted[receipt.id] = receipt.action
        elif kind == 1:
            acted.update((receipt.id, receipt.action) for receipt in model.act_many(rng.normal(size=(3, 3)).tolist()))
        elif kind == 2:
            with model.hold():
                receipt = model.act(rng.normal(size=3))
                model.learn(receipt, "b")
                model.remember(key, b"", receipt.id.encode())
            model.commit()
            acted[receipt.id], learned[receipt.id], keys[key] = receipt.action, "b", receipt.id
        elif acted:
            name = list(acted)[int(rng.integers(len(acted)))]
            with contextlib.suppress(SpentReceipt):  # another thread may have been first
                model.learn(name, "c")
                learned[name] = "c"

    def work(number):
        rng = np.random.default_rng([seed, number])
        try:
            for turn in itertools.count():
                if stop.is_set():
                    return
                with contextlib.suppress(Unavailable):
                    call(model, rng, f"{number} {turn}")
        except BaseException as error:
            wrong.append(error)

    scarcity, weather = [0.0], np.random.default_rng(seed)
    model = Online.open(place, "gapsmh", graph, 3, seed=seed, **options)
    with interpreted(), full_disk(model, lambda: weather.random() < scarcity[0]):
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for scarcity[0] in (0.0, 0.9, 0.0, 0.3, 0.9, 0.0):
            time.sleep(seconds / 6)
        stop.set()
        for worker in workers:
            worker.join()
        assert not wrong, wrong[0]
        model.commit()
        crash(model)
        rows = {row["id"]: row for batch in read_decisions(place) for row in batch.to_pylist()}
        assert len(rows) == model.rounds
        assert {name: rows[name]["action"] for name in acted} == acted
        assert {name: rows[name]["label"] for name in learned} == learned
        fed = [event.round for event in read_log(place) if isinstance(event, events.Fed)]
        assert len(set(fed)) == len(fed)
        for replay in ("first", "last"):
            assert Online.from_store(place, replay=replay).differences(model) == []
        with Online.open(place) as again:
            assert all(again.recall(key, b"") == name.encode() for key, name in keys.items())
    return len(acted)


# ------------------------------------------------------------------------------------------------------ extreme numbers


LIMIT_EXPONENT = math.log10(LARGEST_VALUE)


def _outliers(rng, size):
    return np.where(rng.random((size[0], 1)) < 0.1, 10.0 ** rng.uniform(3, LIMIT_EXPONENT, size), 1.0)


MAGNITUDES = {
    "mixed": lambda rng, size: 10.0 ** rng.uniform(-300, LIMIT_EXPONENT, size),
    "one size": lambda rng, size: np.full(size, 10.0 ** rng.uniform(-300, LIMIT_EXPONENT)),
    "limit": lambda _, size: np.full(size, LARGEST_VALUE),
    "square underflows": lambda rng, size: 10.0 ** rng.uniform(-165, -145, size),
    "subnormal": lambda rng, size: rng.integers(1, 1000, size) * 5e-324,
    "large": lambda rng, size: 10.0 ** rng.uniform(2, 12, size),
    "outliers": _outliers,
    "ordinary": lambda rng, size: rng.exponential(size=size),
}
"""Kinds of absolute values, which follow each other in a storm."""


def extreme_rows(rng, rounds, features):
    """Rows of one kind: sparse or dense, of random signs, repeated, or of features that come once."""
    kind = MAGNITUDES[rng.choice(list(MAGNITUDES))]
    X = kind(rng, (rounds, features)) * rng.choice([-1.0, 1.0], (rounds, features))
    shape = rng.integers(5)
    if shape == 0:
        X[:] = X[0]
    elif shape == 1:
        X[np.arange(features)[None, :] != rng.integers(0, features, (rounds, 1))] = 0.0
    elif shape == 2:
        X *= rng.random((rounds, features)) < 0.5
    elif shape == 3:
        X = np.abs(X)
    return np.clip(X, -LARGEST_VALUE, LARGEST_VALUE)


def chunk_of(X, y):
    """Rows and labels as a chunk, zeros left out."""
    rows, indices = np.nonzero(X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    return make_chunk(indptr, indices, X[rows, indices], y)


def broken(player):
    """What does not hold of a player's state that must hold after any accepted input; None where all is well."""
    state, learner = player.engine.state, player.learner
    wrong = state.problem()
    if wrong is not None:
        return wrong
    arrays = {name.removeprefix("optimizer."): array for name, array in state.arrays.items()}
    reach = learner.optimizer.reach() if hasattr(learner, "optimizer") else getattr(learner, "radius", math.inf)
    W = player.weights
    if not np.isfinite(W).all():
        return "W is not finite"
    if length(W) > reach * (1 + 1e-6):
        return f"W has the norm {length(W)}, beyond the radius {reach}"
    if "squared" in arrays and math.isfinite(reach):
        kept, measured = math.sqrt(arrays["squared"][0]), length(arrays["weights"])
        if abs(kept - measured) * abs(arrays["scale"][0]) > 1e-4 * reach:
            return f"the norm of V is {measured}, and kept as {kept}"
    if "inverse" in arrays:
        d, K = W.shape
        inverse = arrays["inverse"].reshape(d * K, d * K)
        if not (np.diag(inverse) > 0).all() or not (inverse == inverse.T).all():
            return "A^-1 is not symmetric with a positive diagonal"
    return None


def length(W):
    """The Euclidean norm, also where squares leave the range of doubles."""
    top = np.abs(W).max()
    return float(top * np.linalg.norm(W / top)) if top > 0 else 0.0


def check_turn(turn, learner):
    """Finite scores, and probabilities that are some; TopUp shows every label often enough."""
    p = turn.probabilities
    assert np.isfinite(turn.scores).all(), turn.scores
    assert (p >= 0).all(), p
    assert abs(p.sum() - 1) < 1e-9, p
    if isinstance(getattr(learner, "exploration", None), TopUp):
        shown = p @ turn.graph.visible
        assert (shown >= turn.rate / turn.graph.rho * (1 - 1e-9)).all(), (p, turn.rate)


def extreme_numbers(rounds, seed, learner, graph, features=5, block=40):
    """Play extreme rows in chunks and one at a time, with late, wrong and missing labels: nothing may break."""
    rng = np.random.default_rng(seed)
    player = Player(learner, graph, features, seed=seed)
    waiting = []
    while player.rounds < rounds:
        n = int(rng.integers(1, block))
        X = extreme_rows(rng, n, features)
        y = rng.integers(0, graph.n_classes, n) if rng.random() < 0.7 else np.full(n, rng.integers(graph.n_classes))
        if rng.random() < 0.5:
            player.advance(chunk_of(X, y))
        else:
            hostile = rng.random() < 0.5  # the label is never what is predicted, if another one can be told
            late = rng.random() < 0.3
            for x, label in zip(X, y, strict=True):
                turn = player.act(x)
                check_turn(turn, player.learner)
                if hostile and label == turn.greedy:
                    label = (label + 1) % graph.n_classes  # noqa: PLW2901
                waiting.append((turn, int(label) if graph.visible[turn.action, label] else -1))
                while waiting and not late:
                    player.learn(*waiting.pop(int(rng.integers(len(waiting)))))
        wrong = broken(player)
        assert wrong is None, f"seed {seed}, round {player.rounds}, {player.learner} on {graph}: {wrong}"
    return player
