"""Progress of long operations on the standard error: bars on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 5.0

# The sweep of a run, by its id, and its number of rounds.
Run: TypeAlias = tuple[str, int]


@contextlib.contextmanager
def progress(what: str, note: Callable[[], str] = str) -> Iterator[Callable[[int, int | None], None]]:
    """Give the block a function to call with the work done and the total; short operations show nothing.

    `note` is asked for a text that is shown behind them.
    """
    if sys.stderr.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), "{task.fields[note]}")
        with Progress(*columns, console=console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None, note="")
            yield lambda done, total: bar.update(task, completed=done, total=total, note=note())
    else:
        last = time.monotonic()

        def show(done: int, total: int | None) -> None:
            nonlocal last
            if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                line = f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}"
                print_line("; ".join(filter(None, [line, note()])))

        yield show


def print_line(line: str) -> None:
    """Print a line on the standard error; a line that cannot be printed there is lost, and the work goes on."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def console(stderr: bool = False) -> Console:
    """Return a terminal that reads no markup in names, and is wide enough for a table whatever COLUMNS says."""
    from rich.console import Console

    width = max(40, shutil.get_terminal_size().columns)
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


class View:
    """Receives the progress of a sweep; this one shows nothing.

    >>> class Counting(View):
    ...     done = 0
    ...
    ...     def finished(self, sweep, rounds):
    ...         self.done += 1
    >>> view = Counting()
    >>> view.finished("bandit", 1000)
    >>> view.done
    1
    """

    def compiling(self, done: int, total: int) -> None:
        """`done` of `total` loops are compiled."""

    def left_out(self, figures: Sequence[str]) -> None:
        """The requested figures that have no runs at this T."""

    def damaged(self, ids: Sequence[str]) -> None:
        """The stored runs with these ids were damaged and are removed."""

    def begun(self, runs: Sequence[Run], missing: Sequence[Run]) -> None:
        """The runs start: all of them, and those that are not stored yet."""

    def finished(self, sweep: str, rounds: int) -> None:
        """A run of this sweep with this number of rounds is stored."""

    def drawing(self, figure: str) -> None:
        """The figure with this id is drawn next."""


@contextlib.contextmanager
def sweep_view(check: Callable[[], None]) -> Iterator[View]:
    """Give the block the view of the command line: one bar per sweep and one for all runs, or plain lines.

    `check` is called after every run; it may raise to end the sweep.
    """
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    times = ("elapsed", TimeElapsedColumn(), "left", TimeRemainingColumn())
    columns = ("{task.description}", BarColumn(), "{task.fields[runs]}", *times)
    is_shown = sys.stderr.isatty()
    out = console(stderr=True)
    out.quiet = not is_shown  # older versions of rich end with an empty line, also where nothing is shown
    with Progress(*columns, speed_estimate_period=120.0, console=out, disable=not is_shown) as bars:
        yield SweepView(bars, check)


class SweepView(View):
    """One bar per sweep and one for all, measured in rounds; a line every few seconds where the bars are disabled."""

    def __init__(self, bars: Progress, check: Callable[[], None]) -> None:
        self.bars, self.check, self.last = bars, check, time.monotonic()
        self.loops = bars.add_task("compiling", total=None, runs="")

    def _say(self, line: str) -> None:
        if self.bars.disable:
            print_line(line)
        else:
            self.bars.console.print(line)

    def _say_if_due(self, line: str) -> None:
        """Print a line where there are no bars, if the last one was printed some seconds ago."""
        if self.bars.disable and time.monotonic() - self.last >= SECONDS_BETWEEN_LINES:
            self.last = time.monotonic()
            print_line(line)

    def compiling(self, done: int, total: int) -> None:
        self.bars.update(self.loops, completed=done, total=total, runs=f"{done}/{total} loops")
        self._say_if_due(f"compiling: {done} of {total} loops")

    def left_out(self, figures: Sequence[str]) -> None:
        if figures:
            self._say(f"{', '.join(figures)}: no runs with so few rounds, skipped")

    def damaged(self, ids: Sequence[str]) -> None:
        if ids:
            shown = ascii(ids[0])[:120] + (f" and {len(ids) - 1:,} more" if len(ids) > 1 else "")
            self._say(f"damaged rows of the stored runs are removed, and run again where needed: {shown}")

    def begun(self, runs: Sequence[Run], missing: Sequence[Run]) -> None:
        self.start = time.monotonic()
        self.bars.update(self.loops, visible=False)
        if len(missing) < len(runs):
            self._say(f"{len(runs) - len(missing):,} of {len(runs):,} runs are already stored")
        self.rows: dict[str, TaskID] = {}
        self.counts: dict[str, list[int]] = {}
        for name in [*dict.fromkeys(sweep for sweep, _ in runs), "all"]:
            total = sum(name in (sweep, "all") for sweep, _ in runs)
            left = [rounds for sweep, rounds in missing if name in (sweep, "all")]
            self.counts[name] = [total - len(left), total]
            self.rows[name] = self.bars.add_task(
                name, total=sum(left) or 1, runs=self._count_runs(name), completed=0 if left else 1
            )

    def finished(self, sweep: str, rounds: int) -> None:
        self.check()
        for name in (sweep, "all"):
            self.counts[name][0] += 1
            self.bars.update(self.rows[name], advance=rounds, runs=self._count_runs(name))
        done, total = self.counts["all"]
        # The time left is estimated from the rounds played, because runs differ in length.
        left = (time.monotonic() - self.start) * (100.0 / self.bars.tasks[-1].percentage - 1.0)
        self._say_if_due(f"{done:,} of {total:,} runs, about {_format_duration(left)} left")

    def _count_runs(self, name: str) -> str:
        done, total = self.counts[name]
        return f"{done:,}/{total:,} runs"

    def drawing(self, figure: str) -> None:
        self.bars.update(self.rows["all"], description=f"drawing {figure}")
        self._say_if_due(f"drawing {figure}")


def _format_duration(seconds: float) -> str:
    """Return a duration, rounded to seconds or minutes.

    >>> _format_duration(8), _format_duration(200)
    ('8 s', '3 min')
    """
    return f"{max(1.0, seconds):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
