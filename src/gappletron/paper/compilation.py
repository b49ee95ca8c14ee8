"""Compiling the loops of a sweep in several processes, which fill the on-disk cache for the one that plays.

Each process is ``python -m gappletron.paper.compilation``: it reads tasks as JSON from its standard input and
writes a line for each loop that is ready. If a process fails, the one that plays compiles what is missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable

from gappletron.paper.runner import is_prepared, kinds_of, prepare
from gappletron.paper.sweeps import Task

__all__ = ["compile_in_processes"]


def compile_in_processes(tasks: Iterable[Task], processes: int, notify: Callable[[int, int], None]) -> None:
    """Compile the loops that the tasks need, or find them in the cache; `notify` is called with (done, total)."""
    kinds = [task for task in kinds_of(tasks) if not is_prepared(task)]
    if len(kinds) < 2 or processes < 2:
        prepare(kinds, notify)
        return
    done, lock = 0, threading.Lock()

    def follow(worker: subprocess.Popen[str], share: list[Task]) -> None:
        nonlocal done
        assert worker.stdin is not None
        assert worker.stdout is not None
        with contextlib.suppress(BrokenPipeError), worker.stdin:  # a worker that died: others, or the player, compile
            json.dump([dataclasses.asdict(task) for task in share], worker.stdin)
        with worker.stdout:
            for _ in worker.stdout:
                with lock:
                    done += 1
                    notify(done, len(kinds))

    notify(0, len(kinds))
    shares = [share for share in (kinds[start::processes] for start in range(processes)) if share]
    workers: list[subprocess.Popen[str]] = []
    threads: list[threading.Thread] = []
    try:
        for share in shares:
            workers.append(_started())
            threads.append(threading.Thread(target=follow, args=(workers[-1], share)))
            threads[-1].start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.1)  # in short waits, so that Ctrl-C is noticed
    finally:
        for worker in workers:
            worker.kill()  # those that are still at work
            worker.wait()


def _started() -> subprocess.Popen[str]:
    # In a session of its own: Ctrl-C goes to the process that waits, which ends the others.
    command = [sys.executable, "-m", __name__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env=environment,
    )


def main() -> None:
    """What a process does: compile, and say so."""
    for task in json.load(sys.stdin):
        prepare([Task(**task)], lambda done, total: None)  # noqa: ARG005
        print("ready", flush=True)


if __name__ == "__main__":
    main()
