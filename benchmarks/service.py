"""The service under load on this machine: decisions with feedback per second, one by one and in batches, their times at
half of the targets, and the server's memory. Run it as `python -m benchmarks.service`.

The server is `gappletron serve` with a file of SQLite on the disk, or with `--store postgresql://...` (of an empty
schema), pinned to one core; the clients are pinned to another. A decision with feedback is two requests, or two rows of
two requests in batches.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
ONE_BY_ONE, IN_BATCHES, LATENCY = 3_000, {"vectors": 30_000, "records": 20_000}, 0.025
"""The targets: decisions with feedback per second, and the seconds that 99% of requests may take at half of that."""
BESIDE, LARGE = 100, 5_000
"""Single decisions with feedback per second, and the rows of the batches beside them."""
WORDS = [
    "win",
    "prize",
    "now",
    "reply",
    "free",
    "cheap",
    "offer",
    "meeting",
    "lunch",
    "report",
    "notes",
    "five",
    "tomorrow",
    "project",
    "invoice",
]
decoded = msgspec.json.Decoder().decode


class Load(NamedTuple):
    """What is asked for: the options of the server, and rows as JSON."""

    name: str
    options: list[str]
    rows: list[Any]


def loads() -> dict[str, Load]:
    rng = np.random.default_rng(0)
    graph = ["--graph", "filtering", "--classes", "ham,spam"]
    vectors = [
        {
            "indices": np.sort(rng.choice(1000, 10, replace=False)).tolist(),
            "values": rng.normal(size=10).round(4).tolist(),
        }
        for _ in range(5000)
    ]
    records = [{"message": " ".join(rng.choice(WORDS, 8)), "links": int(rng.integers(5))} for _ in range(5000)]
    return {
        "vectors": Load("vectors (10 of 1,000 features)", [*graph, "--vectors", "--features", "1000"], vectors),
        "records": Load("records (a text of 8 words, a number)", [*graph, "--text", "message"], records),
    }


# ----------------------------------------------------------------------------------------------------------- the server


class Server(NamedTuple):
    port: int
    pid: int

    def cpu(self) -> float:
        """The seconds of processor time that it has taken, of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Its resident memory, in MB."""
        text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


@contextmanager
def served(load: Load, store: str, core: int, *more: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "gappletron", "serve", store, *load.options, "--port", "0", *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        os.sched_setaffinity(process.pid, {core})
        line = ""
        for line in process.stderr:
            if "the page is at" in line:
                break
        else:
            raise RuntimeError(line)
        try:
            yield Server(int(line.rstrip("/\n").rpartition(":")[2]), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()


# ---------------------------------------------------------------------------------------------------------- the clients


class Connection(asyncio.Protocol):
    """One connection that is kept open: a request at a time, as bytes."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.wanted = -1
        self.waiter: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.wanted < 0:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.buffer[:end]).lower()
            if b" 200 " not in head[:16]:
                raise RuntimeError(bytes(self.buffer).decode())
            at = head.index(b"content-length:") + 15
            self.wanted = end + 4 + int(head[at:].split(b"\r\n", 1)[0])
            self.start = end + 4
        if len(self.buffer) >= self.wanted and self.waiter is not None:
            answer = bytes(self.buffer[self.start : self.wanted])
            del self.buffer[: self.wanted]
            self.wanted = -1
            self.waiter.set_result(answer)

    async def asked(self, path: bytes, body: bytes) -> bytes:
        self.waiter = asyncio.get_running_loop().create_future()
        head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.transport.write(head % (path, len(body)) + body)
        return await self.waiter


async def connected(port: int) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


def feedback(decision: dict[str, Any]) -> dict[str, Any]:
    return {"id": decision["id"], "label": "ham"} if decision["reveals"] else {"id": decision["id"], "unseen": True}


class Work:
    """Requests of one kind: a row, or a batch of them."""

    def __init__(self, rows: list[Any], size: int) -> None:
        self.size = size
        parts = [rows[at : at + size] for at in range(0, len(rows) - size + 1, size)]
        if size == 1:
            self.paths, self.bodies = (
                (b"/v1/act", b"/v1/learn"),
                [json.dumps({"x": part[0]}).encode() for part in parts],
            )
        else:
            self.paths = (b"/v1/act/batch", b"/v1/learn/batch")
            self.bodies = [json.dumps({"rows": part}).encode() for part in parts]
        self.at = 0

    async def done(self, connection: Connection, times: list[float], begin: float) -> None:
        """A decision with its feedback; `begin` is when it was to start."""
        self.at = (self.at + 1) % len(self.bodies)
        answer = decoded(await connection.asked(self.paths[0], self.bodies[self.at]))
        middle = time.perf_counter()
        times.append(middle - begin)
        content = feedback(answer) if self.size == 1 else {"feedback": [feedback(each) for each in answer["decisions"]]}
        body = msgspec.json.encode(content)
        middle = time.perf_counter()
        await connection.asked(self.paths[1], body)
        times.append(time.perf_counter() - middle)


async def as_fast_as_it_goes(port: int, work: Work, connections: int, seconds: float) -> float:
    """Decisions with feedback per second, on so many connections."""
    end = time.perf_counter() + seconds
    done = 0

    async def client() -> None:
        nonlocal done
        connection = await connected(port)
        while time.perf_counter() < end:
            await work.done(connection, [], 0.0)
            done += work.size
        connection.transport.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(connections)))
    return done / (time.perf_counter() - begin)


def measure(server: Server, work: Work, connections: int, seconds: float, target: int) -> None:
    """Print decisions per second, and the processor time of the server for each: where other programs use the machine,
    the second tells more than the first.
    """
    before, begin = server.cpu(), time.perf_counter()
    rate = asyncio.run(as_fast_as_it_goes(server.port, work, connections, seconds))
    spent, passed = server.cpu() - before, time.perf_counter() - begin
    kind = "one by one" if work.size == 1 else f"batches of {work.size}"
    print(
        f"  {kind}, {connections} connections: {rate:,.0f} per second (target {target:,}); the server takes "
        f"{1e6 * spent / (rate * passed):.1f} us of processor time for each, {spent / passed:.0%} of its core"
    )


async def at_a_rate(port: int, work: Work, rate: float, seconds: float) -> list[float]:
    """The times of requests that start at random moments, so many per second (a Poisson process); a request that must
    wait for a free connection has begun when it was to start.
    """
    rng = np.random.default_rng(1)
    free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()  # the last one first, as pools of connections do
    for _ in range(64):
        free.put_nowait(await connected(port))
    times: list[float] = []

    async def one(begin: float) -> None:
        connection = await free.get()
        await work.done(connection, times, begin)
        free.put_nowait(connection)

    tasks = []
    start = time.perf_counter()
    moment = start
    while moment < start + seconds:
        moment += rng.exponential(work.size / rate)
        pause = moment - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        tasks.append(asyncio.create_task(one(max(moment, start))))
    await asyncio.gather(*tasks)
    while not free.empty():
        free.get_nowait().transport.close()
    return times


async def beside_batches(port: int, single: Work, batch: Work, rate: float, seconds: float) -> list[float]:
    """The times of single requests, so many decisions per second, beside one client that sends batch after batch."""
    batches = asyncio.create_task(as_fast_as_it_goes(port, batch, 1, seconds))
    times = await at_a_rate(port, single, rate, seconds)
    await batches
    return times


async def memory_over(server: Server, work: Work, rounds: int) -> list[tuple[int, float]]:
    """The server's memory, in MB, over so many rounds in batches."""
    found, played = [], 0
    while played < rounds:
        rate = await as_fast_as_it_goes(server.port, work, 4, 10.0)
        played += int(rate * 10.0)
        found.append((played, server.memory()))
        print(f"  {played:>12,} rounds: {server.memory():8.1f} MB, {rate:,.0f} per second", flush=True)
    return found


def percentile(times: list[float], share: float) -> float:
    return statistics.quantiles(times, n=1000)[int(share * 1000) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--batch", type=int, default=250, help="rows in a batch")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=0, help="also look at the memory over so many rounds")
    parser.add_argument("--loads", nargs="*", default=["vectors", "records"])
    parser.add_argument("--store", help="a place in place of a new file of SQLite")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    for name in options.loads:
        load = loads()[name]
        print(load.name)
        with (
            tempfile.TemporaryDirectory(dir=Path.cwd()) as folder,
            served(load, options.store or f"{folder}/m.sqlite", cores[0]) as server,
        ):
            single, batch = Work(load.rows, 1), Work(load.rows, options.batch)
            asyncio.run(as_fast_as_it_goes(server.port, single, 4, 1.0))
            asyncio.run(as_fast_as_it_goes(server.port, batch, 4, 1.0))
            measure(server, single, options.connections, options.seconds, ONE_BY_ONE)
            measure(server, batch, 4, options.seconds, IN_BATCHES[name])
            for work, half in ((single, ONE_BY_ONE / 2), (batch, IN_BATCHES[name] / 2)):
                times = asyncio.run(at_a_rate(server.port, work, half, options.seconds))
                print(
                    f"  at {half:,.0f} per second, {'batches' if work.size > 1 else 'one by one'}: median "
                    f"{1e3 * statistics.median(times):.1f} ms, 99% {1e3 * percentile(times, 0.99):.1f} ms "
                    f"(target {1e3 * LATENCY:.0f})"
                )
            large = Work(load.rows, LARGE)
            times = asyncio.run(beside_batches(server.port, single, large, BESIDE, options.seconds))
            print(
                f"  {BESIDE} per second, one by one, beside batches of {LARGE:,}: median "
                f"{1e3 * statistics.median(times):.1f} ms, 99% {1e3 * percentile(times, 0.99):.1f} ms "
                f"(target {1e3 * LATENCY:.0f})"
            )
            if options.rounds:
                asyncio.run(memory_over(server, batch, options.rounds))


if __name__ == "__main__":
    main()
