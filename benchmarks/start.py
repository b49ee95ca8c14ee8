"""How long a cold start takes: with an empty cache of machine code, from the start of the process to the first answer.

    python benchmarks/start.py

In Python the first `act` of a model of vectors and of one of records; over HTTP the first answer of ``gappletron
serve``. Beside each its target, on a machine where importing NumPy and Numba takes half a second; so the time of that
import is measured too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

REPEATS = 3

IMPORT = "import numpy, numba"
VECTORS = """
from gappletron import FeedbackGraph, Online
model = Online("auto", FeedbackGraph.bandit(["a", "b", "c"]), features=20)
model.act([0.5] * 20)
"""
RECORDS = """
from gappletron import Encoder, FeedbackGraph, Online
model = Online("auto", FeedbackGraph.bandit(["a", "b", "c"]), encoder=Encoder())
model.act({"message": "free entry in a weekly draw for those who call now", "length": 51, "country": "it"})
"""


def run(code: str, folder: str) -> float:
    """Return the seconds of a process that runs this code, up to its last line."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    start = time.perf_counter()
    command = [sys.executable, "-c", f"{code}\nprint(flush=True)"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "the process has failed"
        return time.perf_counter() - start


def serve(folder: str) -> float:
    """Return the seconds from the start of a server to its first answer."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "gappletron", "serve", f"{folder}/mail", "--port", str(port)]
    options = ["--graph", "filtering", "--classes", "ham,spam", "--text", "message"]
    body = json.dumps({"x": {"message": "free entry in a weekly draw"}}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/act", body, {"Content-Type": "application/json"})
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    start = time.perf_counter()
    with subprocess.Popen(command + options, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=60) as answer:
                    json.load(answer)
                    return time.perf_counter() - start
                time.sleep(0.01)
            raise AssertionError("the server has ended")
        finally:
            process.send_signal(signal.SIGTERM)


def measure(work: Callable[[str], float]) -> list[float]:
    """Return the seconds of several runs, each with an empty cache."""
    seconds = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            seconds.append(work(folder))
            wait_for_quiet(Path(folder))
    return seconds


def wait_for_quiet(folder: Path) -> None:
    """Wait until nothing is compiled any more: as long as it is, there is a lock in the cache, but for moments."""
    since = time.monotonic()
    while time.monotonic() - since < 2.0:
        if any(folder.rglob("*.lock")):
            since = time.monotonic()
        time.sleep(0.05)


def main() -> None:
    """Print a table."""
    rows: list[tuple[str, Callable[[str], float], str]] = [
        ("import numpy, numba", lambda folder: run(IMPORT, folder), ""),
        ("first act, vectors", lambda folder: run(VECTORS, folder), "2.0"),
        ("first act, records", lambda folder: run(RECORDS, folder), "2.0"),
        ("first answer of serve", serve, "4.0"),
    ]
    print(f"{'seconds from the start':<24}{'median':>8}{'most':>8}{'target':>8}")
    for name, work, target in rows:
        seconds = measure(work)
        print(f"{name:<24}{statistics.median(seconds):>8.2f}{max(seconds):>8.2f}{target:>8}", flush=True)


if __name__ == "__main__":
    main()
