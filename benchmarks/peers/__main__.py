"""The command: `python -m benchmarks.peers`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.peers import report, runs
from benchmarks.peers.runs import Options, Store, Task

ROOT = Path(__file__).resolve().parents[2]
QUICK_ROUNDS = 1000
QUICK_SECONDS = 10.0


def arguments() -> argparse.Namespace:
    """What the user asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 rounds, one seed: a few minutes")
    parser.add_argument("--ours", action="store_true", help="only ours, against the recorded errors of peers")
    parser.add_argument("--report", action="store_true", help="play nothing; tables and figures from the stored runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (all cores)")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench", help="where finished runs are stored")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where the tables and figures go")
    return parser.parse_args()


def options_of(given: argparse.Namespace) -> Options:
    """How much to play."""
    if given.quick:
        return Options(QUICK_ROUNDS, 1, with_peers=not given.ours, seconds=QUICK_SECONDS)
    return Options(with_peers=not given.ours)


class Progress:
    """A line for each finished run, and what failed."""

    def __init__(self, store: Store, total: int) -> None:
        self.store, self.total, self.count, self.failed = store, total, 0, 0
        self.start = time.perf_counter()

    def __call__(self, task: Task, outcome: runs.Outcome | BaseException) -> None:
        self.count += 1
        if isinstance(outcome, BaseException):
            self.failed += 1
            words = f"failed: {outcome}"
        else:
            self.store.add(task, outcome)
            error = outcome.mistakes[-1] / outcome.rounds[-1]
            words = f"error {error:.4f} after {outcome.rounds[-1]:,} rounds, {outcome.nanoseconds:,.0f} ns per round"
        minutes = (time.perf_counter() - self.start) / 60
        where = f"{task.stream} ({task.form}), {task.graph}: {task.setting.name}, seed {task.seed}"
        print(f"[{self.count}/{self.total}, {minutes:.1f} min] {where}: {words}", flush=True)


def main() -> int:
    """Play what is missing, then write the report."""
    given = arguments()
    options = options_of(given)
    store = Store(given.out / "runs.jsonl", runs.sources())
    tasks = runs.all_tasks(options)
    missing = [task for task in tasks if store.lacks(task)]
    progress = Progress(store, len(missing))
    if not given.report:
        print(f"{len(tasks):,} runs, {len(missing):,} of them to be played on {given.jobs} processes", flush=True)
        runs.play_all(missing, given.jobs, options.seconds, progress)
    everything = runs.all_tasks(options._replace(with_peers=True))
    played = store.runs(everything)
    if not played:
        print("nothing was played yet: run it without --report first", file=sys.stderr)
        return 1
    report.write(played, given.docs, planned=len(everything), is_quick=given.quick)
    if progress.failed:
        print(f"{progress.failed} runs failed; the same command tries them again", file=sys.stderr)
    return 1 if progress.failed else 0


if __name__ == "__main__":
    sys.exit(main())
