"""What several commands share: playing with a progress bar, tables, JSON, error messages."""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

import gappletron as gp
from gappletron.base.errors import UserError
from gappletron.base.files import check_writable, figure_kind, replacing
from gappletron.base.progress import print_line, progress
from gappletron.base.signals import NOTHING_YET, exit_code, raising
from gappletron.base.tables import align, find_width, wrap
from gappletron.base.text import make_printable
from gappletron.cli.cures import translate

STANDARD_OUTPUT = Path("-")


def say(text: str = "") -> None:
    """Print lines on the standard output, with escapes for what a terminal must not interpret, as wide as it is."""
    print(wrap("\n".join(map(make_printable, text.split("\n"))), find_width(sys.stdout)), flush=True)


def tell(line: str) -> None:
    """Print a sentence on the standard error, likewise; where that is no terminal, on one line."""
    print_line(wrap(make_printable(line), find_width(sys.stderr) if sys.stderr.isatty() else None))


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        is_access = record.name == "gappletron.access"  # one line for each request, however long
        (print_line if is_access else tell)(make_printable(record.getMessage()))


def show_log() -> None:
    """Print what the package logs on the standard error."""
    log = logging.getLogger("gappletron")
    if not any(isinstance(handler, _Lines) for handler in log.handlers):
        log.addHandler(_Lines())
    log.setLevel(logging.INFO)


def show_error(error: Exception) -> None:
    """Print one sentence on the standard error, but nothing for a reader that has closed its pipe."""
    if isinstance(error, BrokenPipeError):
        return
    if isinstance(error, OSError):
        tell(f"gappletron: cannot write to the standard output ({error.strerror}): send it elsewhere")
    else:
        tell(f"gappletron: {translate(' '.join(str(error).splitlines()))}")


def check_outputs(*, inputs: tuple[str, ...] = (), **outputs: Path | None) -> None:
    """Raise UserError, before anything is played, if an output cannot be written or is also an input.

    :param outputs: by the names of their options; one that is called plot must be a picture.
    """
    places: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        if option == "plot":
            figure_kind(path)
        if path != STANDARD_OUTPUT:
            check_writable(path)
            if any(_same_file(path, name) for name in inputs):
                raise UserError(f"{str(path)!r} is an input and would be overwritten: name another file for the result")
        other = places.setdefault(path.resolve(), option)
        if other != option:
            raise UserError(f"--{other} and --{option} both name {str(path)!r}: name two files")


def _same_file(path: Path, name: str) -> bool:
    try:
        return path.is_file() and path.samefile(name)
    except (OSError, ValueError):  # the name may not be the name of a file
        return False


def play_and_report(
    runs: Any, report: Callable[[gp.Histories, str | None], None], note: Callable[[], str] = str
) -> None:
    """Play, and then call `report` with what was measured and with what ended playing early, if anything did.

    :param runs: :class:`~gappletron.play.runs.Runs`, or what is iterated likewise and has `rounds` and `histories`.
    :param note: gives a text for the progress line.

    Where an error in the stream, Ctrl-C or SIGTERM ends playing early, what was measured until then is reported, and
    then the error is raised, or the command ends with exit code 130 or 143.
    """
    try:
        with raising() as check:
            try:
                with progress("playing", note) as show:
                    for played in runs:
                        show(played, runs.rounds)
                        check()
            except (UserError, KeyboardInterrupt) as stop:
                histories = runs.histories()
                rounds = [run.rounds for run in histories]
                if isinstance(stop, KeyboardInterrupt):
                    measured = f"stopped: what follows is what was measured, {min(rounds, default=0):,} rounds"
                    tell(measured if any(rounds) else NOTHING_YET)
                if any(rounds):
                    try:
                        report(histories, str(stop) or "interrupted")
                    except (UserError, OSError) as error:  # a full disk, for example, must not hide what came first
                        show_error(error)
                raise
            report(runs.histories(), None)
    except KeyboardInterrupt as stop:
        raise typer.Exit(exit_code(stop)) from None


def show_table(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table."""
    say("\n".join([title, *align(header, rows, find_width(sys.stdout))]))


def show_facts(rows: list[tuple[str, str]]) -> None:
    """Print names and what is known of each, which may take several lines."""
    column, width = max(len(name) for name, _ in rows) + 2, find_width(sys.stdout)
    for name, value in rows:
        if width is None or column + len(value) <= width:
            say(f"{name:<{column}}{value}")
        elif width < 2 * column:  # a narrow terminal
            say(f"{name}\n    {value}")
        else:
            first, *others = wrap(value, width - column - 2).split("\n")
            say("\n".join([f"{name:<{column}}{first}", *(" " * column + line for line in others)]))


def show_confusion(histories: gp.Histories) -> None:
    """Print the confusion table of every learner."""
    for name in histories.names:
        runs = len(histories.of(name))
        say(f"\n{name}, how often each action was played at each label{f' in {runs} runs' if runs > 1 else ''}")
        say(histories.confusion(name).to_text(find_width(sys.stdout)))


def show_histories(histories: gp.Histories) -> None:
    """Print the table, and for every learner that restarted, when and why; of several runs, in how many."""
    from gappletron.learners.run_bound import describe_restarts

    say(histories.to_text(find_width(sys.stdout)))
    for name in histories.names:
        runs = histories.of(name)
        began = [run.restarts for run in runs if run.restarts]
        if began:
            several = f"restarted in {len(began)} of {len(runs)} runs"
            say(f"{name} {describe_restarts(began[0]) if len(runs) == 1 else several}")


def warn(histories: gp.Histories, reports: list[gp.Report]) -> None:
    """Print, on the standard error, for every learner that sees too few labels in one of its runs, what to do."""
    found: dict[str, str] = {}
    warnings = [report.warning for report in reports] or [run.warning for run in histories]
    for run, warning in zip(histories, warnings, strict=True):
        if warning is not None:
            found.setdefault(run.name, warning)
    for name, warning in found.items():
        tell(f"{name}: {warning}")


def show_estimates(histories: gp.Histories, reports: list[gp.Report]) -> None:
    """Print the estimated errors beside the true ones; that of the greedy class was not counted."""
    if not reports:
        return
    rows = []
    for run, report in zip(histories, reports, strict=True):
        name = make_printable(run.name) + (f" {run.repeat}" if len(histories.of(run.name)) > 1 else "")
        for who, error, truth in (
            ("policy", report.policy.error, run.error_rate),
            ("greedy", report.greedy.error, None),
        ):
            numbers = (truth, error.value, error.low, error.high, error.naive)
            rows.append((f"{name}, {who}", *("-" if found is None else f"{found:.4f}" for found in numbers)))
    title = f"\nfrom the labels seen alone, with confidence {1.0 - reports[0].alpha:g}"
    show_table(title, ("error of", "true", "estimate", "low", "high", "naive"), rows)
    for run, report in zip(histories, reports, strict=True):
        if report.alarm is not None:
            say(f"{make_printable(run.name)}: drift since round {report.alarm.since:,}")


def write_json(
    path: Path, runs: gp.Runs, histories: gp.Histories, stopped: str | None, reports: list[gp.Report]
) -> None:
    """Write what ``--json`` asks for, to the standard output where it names that."""
    written = document(runs, histories, stopped)
    for run, report in zip(written["runs"], reports, strict=bool(reports)):
        run["estimate"] = report.to_dict()
    write_text(path, json.dumps(written, indent=1, allow_nan=False))


def write_text(path: Path, text: str) -> None:
    """Write a text to a file, or to the standard output where the path names that."""
    if path == STANDARD_OUTPUT:
        print(text, flush=True)
        return
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def document(runs: gp.Runs, histories: gp.Histories, stopped: str | None) -> dict[str, Any]:
    """Return what ``--json`` writes."""
    from gappletron.graphs.costs import list_changed

    graph, encoder = runs.graph, runs.stream.encoder
    return {
        "version": gp.__version__,
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
            "edges": [[action, name] for action in graph.actions for name in graph.reveals(action)],
            **{name: getattr(graph, name) for name in GRAPH_NUMBERS},
            **({"costs": list_changed(graph.costs, graph.actions, graph.classes)} if graph.has_costs else {}),
        },
        "runs": [describe_run(run, runs.player(run.name, run.repeat)) for run in histories],
    }


GRAPH_NUMBERS = ("revealing", "dominating_set", "dominating_set_is_exact", "rho", "least_rho")
# What is written under its own name.
RUN_NUMBERS = ("repeat", "seed", "rounds", "mistakes", "error_rate", "labels_seen", "seconds")


def describe_run(run: gp.History, player: gp.Player) -> dict[str, Any]:
    """Return what ``--json`` writes of one run."""
    from gappletron.kernel.spelling import encode_piece, to_json

    return {
        "learner": run.name,
        "parameters": to_json(encode_piece(run.learner)),
        "normalization": encode_piece(player.engine.normalization),
        "bias": player.engine.bias,
        **{name: getattr(run, name) for name in RUN_NUMBERS},
        **({"cost": run.cost, "mean_cost": run.mean_cost} if run.has_costs else {}),
        "restarts": [dataclasses.asdict(each) for each in run.restarts],
        "confusion": run.confusion.tolist(),
        "curve": {name: getattr(run.curve, name).tolist() for name in ("rounds", "mistakes", "labels_seen")},
    }
