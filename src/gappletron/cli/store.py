"""``gappletron store``: what a store holds, checked, backed up, exported, and made smaller."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.cli.help import Command, Group
from gappletron.cli.options import ModelName, PlaceArgument
from gappletron.cli.output import check_outputs, say, show_facts, tell

if TYPE_CHECKING:
    from gappletron.online.decisions import Summary
    from gappletron.online.events import Restarted

store = typer.Typer(cls=Group, help="Look after a store: what it holds, checks, backups, exports, retention.")


@store.callback(invoke_without_command=True)
def show_help(context: typer.Context) -> None:
    """Without a command, show which there are."""
    if context.invoked_subcommand is None:  # click's own no_args_is_help makes the help the text of an error
        print(context.get_help())


def command(*examples: str) -> Any:
    """Add a function as a command of the store, with these examples in its help."""
    return store.command(cls=Command, epilog="\n".join(f"gappletron store {each}" for each in examples))


Limit = Annotated[str | None, typer.Option(help="What is kept: 30d, 12h, or a number of rounds.", metavar="AGE|ROUNDS")]
Age = Annotated[str | None, typer.Option(help="How long they are kept: 7d, 12h.", metavar="AGE")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="An SQLite file that no process has open.")]


@command("show mail.sqlite", "show mail.sqlite --name model", "show postgresql://host/models --name mail")
def show(place: PlaceArgument, name: ModelName = "model") -> None:
    """Show what a store holds of a model; the store may be open."""
    from gappletron.online import decisions

    _show(place, decisions.summarise(place, name=name))


@command("changes mail.sqlite", "changes mail.sqlite --last 100", "changes postgresql://host/models --name mail")
def changes(
    place: PlaceArgument,
    name: ModelName = "model",
    last: Annotated[int, typer.Option(help="How many changes, the last ones. Default: 20.", min=1)] = 20,
) -> None:
    """List the last changes of a model, and who asked for them; the store may be open."""
    import json

    from gappletron.base.text import make_printable, shorten
    from gappletron.online import decisions

    found = decisions.list_changes(place, name, last)
    for number, kind, when, who, about in found.changes:
        by = "" if who is None else f" by {make_printable(who)}"
        document = "" if about is None else f": {shorten(make_printable(json.dumps(about)), 100)}"
        say(f"event {number:,}, {_format_time(when)}: {kind}{by}{document}")


@command("check mail.sqlite", "check copy.sqlite", "check postgresql://host/models --name mail")
def check(place: PlaceArgument, name: ModelName = "model") -> None:
    """Check every row and page, and replay the whole log; the store may be open."""
    from gappletron.online import upkeep

    with progress("checking"):
        found = upkeep.check(place, name=name)
    compared = "the state is that of the last snapshot, bit for bit"
    if found.snapshot <= found.first:
        compared = "there is no later snapshot to compare them with yet"
    how = "read and replayed" if found.first <= found.beginning else f"read, and replayed from event {found.first:,} on"
    say(f"{found.rounds:,} rounds {how}: {compared}")


@command("backup mail.sqlite copy.sqlite", "check copy.sqlite", "backup mail.sqlite copies/mail.sqlite")
def backup(
    place: PlaceArgument, path: Annotated[Path, typer.Argument(metavar="COPY", help="The file to write.")]
) -> None:
    """Copy an SQLite file as it is at one moment; the file may be open."""
    from gappletron.online.database import open_database

    check_outputs(copy=path, inputs=(place,))
    if path.is_file() and path.stat().st_size and not is_copy(path):
        raise UserError(f"{str(path)!r} is there, and is no SQLite file: name another file for the copy")
    database = open_database(place)
    try:
        with progress("copying"):
            database.backup(path)
    finally:
        database.close()
    tell(f"the copy is {path}")


def is_copy(path: Path) -> bool:
    """Return whether a file begins as those of SQLite do."""
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


@command(
    "export mail.sqlite decisions.csv",
    "export mail.sqlite decisions.parquet",
    "export postgresql://host/models decisions.csv --name mail",
)
def export(
    place: PlaceArgument,
    path: Annotated[Path, typer.Argument(metavar="TABLE", help="The file to write: .parquet or .csv.")],
    name: ModelName = "model",
) -> None:
    """Write the decisions with their feedback as a table; the store may be open."""
    from gappletron.online import decisions

    check_outputs(table=path, inputs=(place,))
    with progress("exporting"):
        rows = decisions.export(place, path, name=name)
    tell(f"{rows:,} decisions are in {path}")


@command(
    "retain mail.sqlite --features 30d",
    "retain mail.sqlite --decisions 1000000",
    "retain mail.sqlite --features 7d --decisions 90d --answers 12h",
)
def retain(
    place: PlaceArgument,
    features: Limit = None,
    decisions: Limit = None,
    answers: Age = None,
    name: ModelName = "model",
) -> None:
    """Remove what is older: the features of decisions, whole decisions, answers under idempotency keys."""
    from gappletron.online import upkeep

    given = {"features": features, "decisions": decisions, "answers": answers}
    now = time.time()
    limits = {key: upkeep.Limit.parse(text, now) for key, text in given.items() if text is not None}
    removed = upkeep.retain(place, name=name, **limits)
    say("removed: " + (", ".join(f"{number:,} {what}" for what, number in removed.items()) or "nothing was asked for"))


@command(
    "vacuum mail.sqlite",
    "retain mail.sqlite --features 30d && gappletron store vacuum mail.sqlite",
    "vacuum copy.sqlite",
)
def vacuum(place: PlaceArgument) -> None:
    """Give the space of what was removed back to the system."""
    from gappletron.online.database import open_database

    open_database(place).close()  # there must be one: opened to write, it would be made
    database = open_database(place, "disk")
    try:
        before = database.nbytes
        with progress("rewriting"):
            database.vacuum()
        say(f"{before / 1e6:,.1f} MB before, {database.nbytes / 1e6:,.1f} MB now")
    finally:
        database.close()


@command("accept mail.sqlite", "check mail.sqlite", "backup mail.sqlite copy.sqlite")
def accept(file: FileArgument) -> None:
    """Accept a file that was refused because something is missing in it, with what it still holds."""
    from gappletron.online.sqlite import accept

    accept(file)
    say(f"{file} can be opened: gappletron store check {file} tells what is in it")


def _show(place: str, found: Summary) -> None:
    opened = found.opened
    rows = [
        ("rounds", f"{found.rounds:,}"),
        *((f"  {name}", f"{number:,}") for name, number in found.statuses.items()),
        ("rows taught", f"{found.taught:,}"),
        *([] if found.restarted is None else [("restarts", _describe_restarts(found.restarts, found.restarted))]),
        ("without features", f"{found.dropped:,}"),
        *([] if found.first is None else [("first, last", " to ".join(map(_format_time, (found.first, found.last))))]),
        ("size", f"{found.bytes / 1e6:,.1f} MB, {found.events:,} events"),
        ("snapshots", f"after {', '.join(f'{at:,}' for at in found.snapshots)} events"),
        ("since the last", f"{found.since_snapshot:,} events, to be done again when it is opened"),
        ("answers", f"{found.answers:,}"),
        ("exploration", _describe_limits(found)),
        *([] if opened is None else [("may wait", _describe_waiting(*opened.limits))]),
        *([] if opened is None else [("last opened with", ", ".join(f"{k} {v}" for k, v in opened.versions.items()))]),
    ]
    from gappletron.online.database import name_place

    say(f"store in {name_place(place)}")
    show_facts(rows)


def _describe_restarts(number: int, last: Restarted) -> str:
    from gappletron.learners.run_bound import WHY

    times = "once," if number == 1 else f"{number:,} times, last"
    return f"{times} after round {last.round:,}, {_format_time(last.time)}, because {WHY[last.reason]}"


def _describe_limits(found: Summary) -> str:
    """Describe the limits on exploration, and what of the budget is spent."""
    least, budget = found.limits.min_propensity, found.limits.budget
    kept = "" if found.propensity is None else f", of which the budget left {found.propensity:.3g} on average"
    parts = [] if least == 0.0 else [f"every label is seen with probability {least:g} or more{kept}"]
    if budget is not None:
        per = f"{budget.per:,} decisions" if isinstance(budget.per, int) else budget.per
        spent = "" if found.spent is None else f", {found.spent:g} spent in all up to the last snapshot"
        parts.append(f"a budget of {budget.limit:g} per {per}{spent}")
    return "; ".join(parts) or "no limits"


def _describe_waiting(most: int, size: int, age: float | None) -> str:
    return f"{most:,} receipts, {size / 1e6:,.0f} MB" + ("" if age is None else f", {age:g} seconds")


def _format_time(time: float | None) -> str:
    return "never" if time is None else f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"
