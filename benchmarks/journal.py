"""What a journal costs: our log beside SQLite in WAL mode, rounds with a journal, and opening again.

Run it as ``python benchmarks/journal.py``. Times are medians of several interleaved runs on this machine.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from gappletron import FeedbackGraph, Online
from gappletron.online.events import NONE, pack_decision
from gappletron.online.folder_store import FolderStore
from gappletron.online.store import Group

REPEATS = 5
ROW = np.arange(10, dtype=np.int32).tobytes() + np.ones(10).tobytes()
CHANCES = np.full(3, 1 / 3)
RECORD = np.concatenate([[0.0, 1.0, 1.0, 0.0, 10.0], CHANCES])


def decision(number: int) -> bytes:
    RECORD[0] = number
    return pack_decision(1.7e9, 7, 0, 10, ROW, NONE, RECORD.tobytes())


class Log:
    """Our log."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderStore(folder / "log")

    def write(self, count: int, durable: bool) -> None:
        first = self.store.count
        data = b"".join(decision(number) for number in range(first, first + count))
        self.store.append(Group(first, count, data), durable=durable)


class Sqlite:
    """The same columns in a table of SQLite in WAL mode."""

    def __init__(self, folder: Path) -> None:
        self.connection = sqlite3.connect(folder / "log.sqlite", isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute(
            "CREATE TABLE decisions (round INTEGER PRIMARY KEY, time REAL, action INT, greedy INT, graph INT, "
            "features BLOB, probabilities BLOB)"
        )
        self.count = 0

    def write(self, count: int, durable: bool) -> None:
        self.connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        chances = CHANCES.tobytes()
        rows = ((self.count + k, 1.7e9, 1, 1, 7, ROW, chances) for k in range(count))
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        self.connection.execute("COMMIT")
        self.count += count


def seconds(work, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - start) / repeats


def beside_a_busy_thread(work) -> float:
    """The time of a group while another thread of the process computes, as that of a server does."""
    stop = threading.Event()

    def compute() -> None:
        total = 0
        while not stop.is_set():
            total += sum(range(100))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        return seconds(work, 3)
    finally:
        stop.set()
        thread.join()


def compare(folder: Path) -> None:
    stores = {"our log": Log(folder), "SQLite": Sqlite(folder)}
    cases = {
        "one decision, to the disk (microseconds)": lambda s: 1e6 * seconds(lambda: s.write(1, True), 100),
        "1,000 decisions, to the disk (ms)": lambda s: 1e3 * seconds(lambda: s.write(1000, True), 5),
        "1,000 decisions, to the system (ms)": lambda s: 1e3 * seconds(lambda: s.write(1000, False), 5),
        "100 decisions beside a busy thread, to the disk (ms)": lambda s: (
            1e3 * beside_a_busy_thread(lambda: s.write(100, True))
        ),
    }
    for name, measure in cases.items():
        found = {kind: [] for kind in stores}
        for _ in range(REPEATS):
            for kind, store in stores.items():
                found[kind].append(measure(store))
        print(f"{name:<55}", *(f"{kind}: {statistics.median(times):8.1f}" for kind, times in found.items()))


def rounds(folder: Path) -> None:
    graph, x = FeedbackGraph.bandit(3), (np.arange(10), np.ones(10))
    models = {
        "no journal": Online(graph=graph, features=20),
        "no journal, monitored": Online(graph=graph, features=20, monitor=True),
        "durability='os'": Online.open(folder / "os", graph=graph, features=20, durability="os"),
        "durability='disk'": Online.open(folder / "disk", graph=graph, features=20),
    }
    found = {name: [] for name in models}
    for _ in range(REPEATS):
        for name, model in models.items():

            def one(model=model) -> None:
                receipt = model.act(x)
                model.learn(receipt, receipt.action)

            found[name].append(1e6 * seconds(one, 300))
    for name, times in found.items():
        print(f"act + learn, {name:<42}", f"{statistics.median(times):8.1f} microseconds")
    model = models["durability='os'"]
    start = time.perf_counter()
    for _ in range(100):
        with model.hold():
            model.learn_many([(receipt, receipt.action) for receipt in model.act_many([x] * 200)])
        model.commit()
    print(
        f"{'act_many + learn_many of 200, per decision':<55}",
        f"{(time.perf_counter() - start) / 2e4 * 1e6:8.1f} microseconds",
    )
    model._contents.journal.store.close()
    start = time.perf_counter()
    again = Online.open(folder / "os")
    spent = time.perf_counter() - start
    print(f"opening again after a kill: {again.rounds:,} rounds replayed in {spent:.2f} s")
    again.close()
    start = time.perf_counter()
    Online.open(folder / "os").close()
    print(f"opening again after close(): {time.perf_counter() - start:.2f} s")


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("GAPPLETRON_BENCH_FOLDER")) as folder:
        compare(Path(folder))
        rounds(Path(folder))


if __name__ == "__main__":
    main()
