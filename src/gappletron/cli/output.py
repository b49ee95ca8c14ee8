"""What several commands share: playing with a progress bar, tables, JSON, error messages."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gappletron import __version__
from gappletron.base.errors import UserError
from gappletron.base.progress import console, print_line, progress
from gappletron.base.signals import NOTHING_YET, exit_code, raising
from gappletron.base.text import make_printable

if TYPE_CHECKING:
    from gappletron import Histories, History, Player, Report, Runs, Watch


STANDARD_OUTPUT = Path("-")
ALPHA = 0.05
"""Intervals of estimates have the confidence 1 - alpha, by default."""


def say(text: str = "") -> None:
    """Print lines on the standard output, with escapes for what a terminal must not interpret."""
    print("\n".join(map(make_printable, text.split("\n"))), flush=True)


def tell(line: str) -> None:
    """Print a line on the standard error, likewise."""
    print_line(make_printable(line))


def show_error(error: Exception) -> None:
    """Print one sentence on the standard error, but nothing for a reader that has closed its pipe."""
    if isinstance(error, BrokenPipeError):
        return
    if isinstance(error, OSError):
        tell(f"gappletron: cannot write to the standard output ({error.strerror}): send it elsewhere")
    else:
        tell(f"gappletron: {' '.join(str(error).splitlines())}")


def check_outputs(*, inputs: tuple[str, ...] = (), **outputs: Path | None) -> None:
    """Raise UserError, before anything is played, if an output cannot be written or is also an input.

    :param outputs: by the names of their options; one that is called plot must be a picture.
    """
    from gappletron.base.files import check_writable, figure_kind

    places: dict[Path, str] = {}
    named = {f"--{name}": path for name, path in outputs.items() if path is not None}
    for option, path in named.items():
        if option == "--plot":
            figure_kind(path)
        if path != STANDARD_OUTPUT:
            check_writable(path)
            if any(_same_file(path, name) for name in inputs):
                raise UserError(f"{str(path)!r} is an input and would be overwritten: name another file for the result")
    for option, path in named.items():
        other = places.setdefault(path.resolve(), option)
        if other != option:
            raise UserError(f"{other} and {option} both name {str(path)!r}: name two files")


def _same_file(path: Path, name: str) -> bool:
    try:
        return path.is_file() and path.samefile(name)
    except (OSError, ValueError):  # the name may not be the name of a file
        return False


def play_and_report(runs: Any, report: Callable[[Histories, str | None], None], note: Callable[[], str] = str) -> None:
    """Play, and then call `report` with what was measured and with what ended playing early, if anything did.

    :param runs: :class:`~gappletron.play.runs.Runs`, or what is iterated likewise and has `rounds` and `histories`.
    :param note: gives a text for the progress line.

    Where an error in the stream, Ctrl-C or SIGTERM ends playing early, what was measured until then is reported, and
    then the error is raised, or the command ends with exit code 130 or 143.
    """
    try:
        with raising() as check:
            _play_and_report(runs, report, note, check)
    except KeyboardInterrupt as stop:  # while the results are shown
        tell("stopped")
        raise typer.Exit(exit_code(stop)) from None


def _play_and_report(
    runs: Any,
    report: Callable[[Histories, str | None], None],
    note: Callable[[], str],
    check: Callable[[], None],
) -> None:
    try:
        with progress("playing", note) as show:
            for played in runs:
                show(played, runs.rounds)
                check()
    except (UserError, KeyboardInterrupt) as stop:
        histories = runs.histories()
        interrupted = isinstance(stop, KeyboardInterrupt)
        if any(run.rounds for run in histories):
            if interrupted:
                rounds = min(run.rounds for run in histories)
                tell(f"stopped: what follows is what was measured, {rounds:,} rounds")
            try:
                report(histories, "interrupted" if interrupted else str(stop))
            except (UserError, OSError) as error:  # a second error, such as a full disk, must not hide the first
                show_error(error)
        elif interrupted:
            tell(NOTHING_YET)
        if interrupted:
            raise typer.Exit(exit_code(stop)) from None
        raise
    report(runs.histories(), None)


def show_table(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table: with lines on a terminal that is wide enough, else as plain text."""
    from gappletron.play.history import aligned

    plain = "\n".join([title, *aligned(header, rows)])
    if not sys.stdout.isatty():
        say(plain)
        return
    from rich.table import Table

    drawn = Table(title=title, title_justify="left", title_style="bold")
    for place, column in enumerate(header):
        drawn.add_column(column, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        drawn.add_row(*row)
    screen = console()
    if screen.measure(drawn, options=screen.options.update(width=10_000)).minimum > screen.width:
        say(plain)
        return
    screen.print(drawn)
    sys.stdout.flush()


def show_confusion(histories: Histories) -> None:
    """Print the confusion table of every learner."""
    for name in histories.names:
        runs = len(histories.of(name))
        say(f"\n{name}, how often each action was played at each label{f' in {runs} runs' if runs > 1 else ''}")
        say(str(histories.confusion(name)))


@dataclass(frozen=True)
class Estimates:
    """What ``--estimate`` asks for: intervals with this alpha; nothing where it is None."""

    alpha: float | None

    @classmethod
    def choose(cls, estimate: bool, alpha: float | None) -> Estimates:
        """Return what the options of the command line ask for, checked."""
        if alpha is not None and not estimate:
            raise UserError("--alpha was given without --estimate, to which it belongs: give both or none")
        return cls((ALPHA if alpha is None else alpha) if estimate else None)

    @property
    def watch(self) -> Watch | None:
        """The watch of new players."""
        from gappletron import Watch

        return None if self.alpha is None else Watch(alpha=self.alpha)

    def begin(self, player: Player) -> None:
        """Watch a player that is not watched yet."""
        from gappletron.play.watch import NoWatch

        if self.watch is not None and isinstance(player.watch, NoWatch):
            player.begin_watch(self.watch)

    def note(self, runs: Runs) -> str:
        """Return the error of the first run so far, for the progress line."""
        from gappletron import Monitor

        if self.alpha is None:
            return ""
        return f"error {Monitor(runs.player(repeat=runs.repeats[0])).rates('policy', self.alpha).error}"

    def read(self, runs: Runs, histories: Histories) -> list[Report]:
        """Return what the monitor of each run says, from the labels that were seen alone."""
        from gappletron import Monitor

        if self.alpha is None:
            return []
        return [Monitor(runs.player(run.name, run.repeat)).report(self.alpha) for run in histories]


def show_estimates(histories: Histories, reports: list[Report]) -> None:
    """Print the estimated errors beside the true ones; that of the greedy class was not counted."""
    from gappletron.play.history import aligned

    if not reports:
        return
    rows = []
    for run, report in zip(histories, reports, strict=True):
        name = make_printable(run.name) + (f" {run.repeat}" if len(histories.of(run.name)) > 1 else "")
        for who, rates, truth in (("policy", report.policy, f"{run.error_rate:.4f}"), ("greedy", report.greedy, "-")):
            error = rates.error
            numbers = (error.value, error.low, error.high, error.naive)
            cells = ["-" if found is None else f"{found:.4f}" for found in numbers]
            rows.append((f"{name}, {who}", truth, *cells))
    say(f"\nfrom the labels seen alone, with confidence {1.0 - reports[0].alpha:g}")
    say("\n".join(aligned(("error of", "true", "estimate", "low", "high", "naive"), rows)))
    for run, report in zip(histories, reports, strict=True):
        if report.alarm is not None:
            say(f"{make_printable(run.name)}: drift since round {report.alarm.since:,}")


def write_json(path: Path, runs: Runs, histories: Histories, stopped: str | None, reports: list[Report]) -> None:
    """Write what ``--json`` asks for, to the standard output where it names that."""
    written = document(runs, histories, stopped)
    for run, report in zip(written["runs"], reports, strict=bool(reports)):
        run["estimate"] = report.to_dict()
    write_text(path, _rows_in_lines(json.dumps(written, indent=2, allow_nan=False)))


def write_text(path: Path, text: str) -> None:
    """Write a text to a file, or to the standard output where the path names that."""
    from gappletron.base import files

    if path == STANDARD_OUTPUT:
        say(text)
        return
    with files.replacing(path) as file:
        file.write(text.encode() + b"\n")


SCALAR = r'(?:-?\d+|true|false|null|"(?:[^"\\\n]|\\.)*")'


def _rows_in_lines(text: str) -> str:
    """Indented JSON with each list of counts or names in one line; texts have no line breaks, so none is changed."""
    rows = rf"\[\n\s*{SCALAR}(?:,\n\s*{SCALAR})*\n\s*\]"
    return re.sub(
        rows, lambda found: re.sub(r"\n\s*", " ", found[0]).replace("[ ", "[", 1).removesuffix(" ]") + "]", text
    )


def document(runs: Runs, histories: Histories, stopped: str | None) -> dict[str, Any]:
    """Return what ``--json`` writes."""
    from gappletron.graphs.costs import list_changed

    graph, encoder = runs.graph, runs.stream.encoder
    return {
        "version": __version__,
        "stopped": None if stopped is None else make_printable(stopped),
        "data": {
            "name": make_printable(runs.stream.name),
            "rounds": max(run.rounds for run in histories),
            "features": int(runs.stream.features),
            "classes": len(runs.stream.classes),
            **({} if encoder is None else {"encoder": encoder.to_dict()}),
        },
        "graph": {
            "name": make_printable(graph.name),
            "actions": graph.n_actions,
            "classes": graph.n_classes,
            "action_names": graph.actions,
            "class_names": graph.classes,
            "revealing": graph.revealing,
            "edges": [[action, name] for action in graph.actions for name in graph.reveals(action)],
            "dominating_set": graph.dominating_set,
            "dominating_set_is_exact": graph.dominating_set_is_exact,
            "rho": graph.rho,
            "least_rho": graph.least_rho,
            **({"costs": list_changed(graph.costs, graph.actions, graph.classes)} if graph.has_costs else {}),
        },
        "runs": [describe_run(run, runs.player(run.name, run.repeat)) for run in histories],
    }


def describe_run(run: History, player: Player) -> dict[str, Any]:
    """Return what ``--json`` writes of one run."""
    from gappletron.kernel.spelling import encode_piece, to_json

    return {
        "learner": run.name,
        "repeat": run.repeat,
        "seed": run.seed,
        "parameters": to_json(encode_piece(run.learner)),
        "normalization": encode_piece(player._engine.normalization),
        "bias": player._engine.bias,
        "rounds": run.rounds,
        "mistakes": run.mistakes,
        "error_rate": run.error_rate,
        **({"cost": run.cost, "mean_cost": run.mean_cost} if run.has_costs else {}),
        "labels_seen": run.labels_seen,
        "seconds": run.seconds,
        "confusion": run.confusion.tolist(),
        "curve": {name: getattr(run.curve, name).tolist() for name in ("rounds", "mistakes", "labels_seen")},
    }
