"""A fleet of 1,000 models on two processes, one of which is killed: how long until all models answer again.

Run it as ``GAPPLETRON_POSTGRES=postgresql://... python benchmarks/fleet.py``, with an empty schema of a database. Each
model decides for 70 texts of 15 words (1,000 words), and learns from half of them. Clients and servers share the
machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from gappletron import UNSEEN, read_decisions
from gappletron.service.client import Client

TEXTS, WORDS, THREADS = 70, 15, 8
NEW = ["--graph", "filtering", "--classes", "ham,spam", "--text", "message"]


@contextlib.contextmanager
def served(place: str, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A process of the fleet, and its address."""
    command = [sys.executable, "-m", "gappletron", "fleet", place, *NEW, "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "the page is at" in line)
        try:
            yield line.split()[-1].rstrip("/"), process
        finally:
            process.terminate()
            process.stderr.read()


def resident(process: subprocess.Popen[str]) -> float:
    """The resident memory of a process in MB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))


def processor_time(process: subprocess.Popen[str]) -> float:
    """The seconds of processor time of a process so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[Any], Any], over: Any) -> tuple[list[Any], float]:
    """What a function returns for each, called by some threads, and the seconds that it took."""
    start = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(work, over))
    return found, time.perf_counter() - start


def play(client: Client, seed: int) -> list[str]:
    """Decide for texts and learn; the decisions."""
    words = np.random.default_rng(seed).permutation(TEXTS * WORDS)
    texts = [" ".join(f"word{k}" for k in row) for row in words.reshape(TEXTS, WORDS)]
    decisions = client.act_many([{"message": text} for text in texts])
    client.learn_many([(each, "ham" if each.reveals else UNSEEN) for each in decisions[: TEXTS // 2]])
    return [each.id for each in decisions]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    number = parser.parse_args().models
    place = os.environ.get("GAPPLETRON_POSTGRES")
    if place is None:
        parser.error("set GAPPLETRON_POSTGRES to the URL of an empty schema")
    names = [f"customer-{k}" for k in range(number)]
    with served(place) as (one, first), served(place) as (two, second):
        empty = resident(first)
        servers = [one, two]
        makers = [Client(address, retries=50) for address in servers]
        _, seconds = timed(lambda k: makers[k % 2].create_model(names[k]), range(number))
        print(f"{number:,} models made in {seconds:.1f} s")
        owners = [Client(servers[k % 2], model=names[k], retries=50) for k in range(number)]
        acted, seconds = timed(lambda k: play(owners[k], k), range(number))
        print(f"{TEXTS} decisions of each, half with feedback, in {seconds:.1f} s")
        print(f"memory of a process: {empty:.0f} MB, with {number // 2:,} models {resident(first):.0f} MB")
        clients = [Client(two, model=name, retries=50) for name in names]  # of which half will be sent on
        timed(lambda client: client.predict({"message": "word1 word2"}), clients)
        before = processor_time(second)
        first.kill()
        killed = time.time()
        more, seconds = timed(lambda client: (client.act({"message": "word1 word2"}).id, time.time()), clients)
        waits = np.array([when - killed for _, when in more])
        print(
            f"after the kill all {number:,} models have answered in {seconds:.1f} s, half of them in "
            f"{np.median(waits):.1f} s; processor time of the other process {processor_time(second) - before:.1f} s"
        )
        print(f"memory of the other process: {resident(second):.0f} MB")
    lost = 0
    for name, ids, (last, _) in zip(names, acted, more, strict=True):
        found = [row["id"] for batch in read_decisions(place, name=name) for row in batch.to_pylist()]
        lost += len({*ids, last} - set(found)) + len(found) - len(ids) - 1
    print(f"acknowledged decisions that are lost or doubled: {lost}")
    with served(place, "--model-memory", "30000000") as (three, third):
        few = [Client(three, model=name) for name in names[:200]]
        _, seconds = timed(lambda k: few[k % len(few)].act({"message": "word1"}), range(400))
        print(
            f"{len(few)} models with --model-memory 30000000: {seconds / 400 * 1e3:.0f} ms for a request that opens "
            f"its model (and closes another), memory {resident(third):.0f} MB"
        )


if __name__ == "__main__":
    main()
