"""How far long work is: bars on a terminal, a plain line now and then elsewhere, always on the standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gappletron.experiments.store import Result
    from gappletron.experiments.sweeps import Figure, Task

__all__ = ["View", "progress", "sweep_view"]

SECONDS_BETWEEN_LINES = 5.0


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Something to call with what is done and how much there is; it shows nothing for what is over at once."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        last = time.monotonic()

        def show(done: int, total: int | None) -> None:
            nonlocal last
            if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                _say(f"{what}: {done:,}" + (f" of {total:,}" if total else ""))

        yield show


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class View:
    """Who is told how far a sweep is; this one says nothing."""

    def compiling(self, done: int, total: int) -> None:
        """So many of the learners' loops are compiled."""

    def begun(self, tasks: Sequence[Task], missing: Sequence[Task]) -> None:
        """All runs, and those that are still to be played."""

    def finished(self, result: Result) -> None:
        """One more run is stored."""

    def drawing(self, figure: Figure) -> None:
        """All runs are stored, and this figure comes next."""


@contextlib.contextmanager
def sweep_view() -> Iterator[View]:
    """What a sweep shows while it runs: a bar for each figure's runs and one for all, with the time that is left."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[runs]}"), TimeElapsedColumn(),
                   TextColumn("left"), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), speed_estimate_period=120.0) as bars:
            yield _Bars(bars)
    else:
        yield _Lines()


class _Counting(View):
    """Counts runs, and estimates what is left from the rounds played so far: runs differ much in length."""

    def begun(self, tasks: Sequence[Task], missing: Sequence[Task]) -> None:
        self.all, self.stored = len(tasks), len(tasks) - len(missing)
        self.done = 0
        self.rounds_done, self.rounds = 0, sum(task.rounds for task in missing)
        self.start = time.monotonic()
        if self.stored:
            _say(f"{self.stored:,} of {self.all:,} runs are stored already")

    def finished(self, result: Result) -> None:
        self.done += 1
        self.rounds_done += result.task.rounds

class _Lines(_Counting):
    def __init__(self) -> None:
        self.last = time.monotonic()

    def compiling(self, done: int, total: int) -> None:
        if time.monotonic() - self.last >= SECONDS_BETWEEN_LINES:
            self.last = time.monotonic()
            _say(f"compiling: {done} of {total} loops")

    def finished(self, result: Result) -> None:
        super().finished(result)
        now = time.monotonic()
        if now - self.last >= SECONDS_BETWEEN_LINES or self.done + self.stored == self.all:
            self.last = now
            left = (now - self.start) * (self.rounds / self.rounds_done - 1.0)
            _say(f"{self.stored + self.done:,} of {self.all:,} runs, about {_in_words(left)} left")

    def drawing(self, figure: Figure) -> None:
        _say(f"drawing {figure.id}")


class _Bars(_Counting):
    def __init__(self, bars: object) -> None:
        from rich.progress import Progress

        assert isinstance(bars, Progress)
        self.bars = bars
        self.loops = bars.add_task("compiling", total=None, runs="")

    def compiling(self, done: int, total: int) -> None:
        self.bars.update(self.loops, completed=done, total=total, runs=f"{done}/{total} loops")

    def begun(self, tasks: Sequence[Task], missing: Sequence[Task]) -> None:
        super().begun(tasks, missing)
        self.bars.update(self.loops, visible=False)
        self.rows = {}
        self.counts: dict[str, list[int]] = {}
        for name in [*dict.fromkeys(task.figure for task in tasks), "all"]:
            some = [task for task in tasks if name in (task.figure, "all")]
            open_ones = [task for task in missing if name in (task.figure, "all")]
            self.counts[name] = [len(some) - len(open_ones), len(some)]
            self.rows[name] = self.bars.add_task(name, total=sum(task.rounds for task in open_ones) or 1, runs=self._runs(name),
                                                 completed=0 if open_ones else 1)

    def finished(self, result: Result) -> None:
        super().finished(result)
        for name in (result.task.figure, "all"):
            self.counts[name][0] += 1
            self.bars.update(self.rows[name], advance=result.task.rounds, runs=self._runs(name))

    def _runs(self, name: str) -> str:
        done, total = self.counts[name]
        return f"{done:,}/{total:,} runs"

    def drawing(self, figure: Figure) -> None:
        self.bars.update(self.rows["all"], description=f"drawing {figure.id}")


def _in_words(seconds: float) -> str:
    """A time to wait, rounded as people say it.

    >>> _in_words(8), _in_words(200)
    ('8 s', '3 min')
    """
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
