"""What a store costs: rounds one by one and in batches, opening again after a kill, memory; SQLite and PostgreSQL.

Run it as ``python benchmarks/store.py``, with ``GAPPLETRON_POSTGRES=postgresql://...`` to measure an empty schema of
that database too. ``--rounds`` is the length of the log that is opened again. Over HTTP: ``benchmarks/service.py``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import random_array

from gappletron import Encoder, FeedbackGraph, Online

BATCH, SECONDS = 250, 3.0
WORDS = [f"word{n}" for n in range(5000)]


def make_records(rng: np.random.Generator) -> list[dict[str, object]]:
    """Records with ten words of text and two more columns."""
    texts = (" ".join(WORDS[k] for k in rng.integers(5000, size=10)) for _ in range(BATCH))
    return [{"text": text, "hour": int(rng.integers(24)), "kind": "ab"[n % 2]} for n, text in enumerate(texts)]


def open_model(place: str, name: str, durability: str = "disk", **options: object) -> Online:
    graph = FeedbackGraph.bandit(3)
    return Online.open(place, graph=graph, name=name, durability=durability, pending=10**6, seed=1, **options)


def play_batch(model: Online, rows: object) -> None:
    """Decisions and their feedback, in two transactions."""
    receipts = model.act_many(rows)
    model.learn_many([(receipt, receipt.action) for receipt in receipts])


def rate(work, size: int) -> float:
    """Decisions with feedback per second."""
    work()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        work()
        count += size
    return count / (time.perf_counter() - start)


def measure_singles(model: Online) -> tuple[float, float]:
    """Decisions with feedback per second of one thread, and the 99th percentile of a call in milliseconds."""
    x, times = (np.arange(10), np.ones(10)), []

    def one() -> None:
        start = time.perf_counter()
        receipt = model.act(x)
        middle = time.perf_counter()
        model.learn(receipt, receipt.action)
        times.extend((middle - start, time.perf_counter() - middle))

    return rate(one, 1), 1e3 * float(np.quantile(times, 0.99))


def measure_threads(model: Online, threads: int = 8) -> float:
    """Decisions with feedback per second of several threads."""
    counts, stop = [0] * threads, threading.Event()

    def work(number: int) -> None:
        x = (np.arange(10), np.ones(10))
        while not stop.is_set():
            receipt = model.act(x)
            model.learn(receipt, receipt.action)
            counts[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    time.sleep(SECONDS)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts) / SECONDS


def measure_rounds(title: str, place: str) -> None:
    rng = np.random.default_rng(0)
    rows, records = random_array((BATCH, 1000), density=0.02, rng=rng, format="csr"), make_records(rng)
    print(f"{title}, decisions with feedback per second")
    for durability in ("disk", "os"):
        with open_model(place, f"vectors {durability}", durability, features=1000) as model:
            single, slow = measure_singles(model)
            print(f"  {durability}: one by one {single:9,.0f}, p99 of a call {slow:.2f} ms")
            print(f"  {durability}: 8 threads  {measure_threads(model):9,.0f}")
            batches = rate(partial(play_batch, model, rows), BATCH)
            print(f"  {durability}: batches of {BATCH} vectors {batches:9,.0f}")
    with open_model(place, "records", encoder=Encoder(text="text")) as model:
        batches = rate(partial(play_batch, model, records), BATCH)
        print(f"  disk: batches of {BATCH} records {batches:9,.0f}")


WRITER = """
import os, sys
sys.path.insert(0, "benchmarks")
import numpy as np
from scipy.sparse import random_array
from store import open_model, play_batch

place, rounds = sys.argv[1], int(sys.argv[2])
model = open_model(place, "long", "os", features=1000, snapshot_every=10**9)
rows = random_array((1000, 1000), density=0.01, rng=np.random.default_rng(1), format="csr")
for _ in range(rounds // 1000):
    play_batch(model, rows)
os._exit(0)  # as after a kill
"""


def measure_opening(title: str, place: str, rounds: int) -> None:
    subprocess.run([sys.executable, "-c", WRITER, place, str(rounds)], check=True)
    for what in ("a kill", "close()"):
        start = time.perf_counter()
        model = open_model(place, "long")
        seconds = time.perf_counter() - start
        print(f"{title}: opened after {what} with {model.rounds:,} decisions with feedback in {seconds:.2f} s")
        model.close()


def measure_memory(place: str, rounds: int) -> None:
    rows = random_array((BATCH, 1000), density=0.02, rng=np.random.default_rng(1), format="csr")
    found = []
    with open_model(place, "memory", "os", features=1000) as model:
        for _ in range(10):
            for _ in range(rounds // BATCH // 10):
                play_batch(model, rows)
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            found.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
    print(f"memory over {rounds:,} rounds, in MB:", " ".join(f"{size:.0f}" for size in found))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["rounds", "opening", "memory"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("GAPPLETRON_BENCH_FOLDER")) as folder:
        places = {"SQLite": f"{folder}/{{}}.sqlite"}
        if "GAPPLETRON_POSTGRES" in os.environ:
            places["PostgreSQL"] = os.environ["GAPPLETRON_POSTGRES"]
        for title, place in places.items():
            if options.only in (None, "rounds"):
                measure_rounds(title, place.format("rounds"))
            if options.only in (None, "opening"):
                measure_opening(title, place.format("opening"), options.rounds)
        if options.only in (None, "memory"):
            measure_memory(places["SQLite"].format("memory"), options.rounds)


if __name__ == "__main__":
    main()
