"""``gappletron journal``: what a journal holds, as a table, verified, repaired."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import gappletron as gp
from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.cli.options import FolderArgument
from gappletron.cli.output import check_outputs, say, tell

if TYPE_CHECKING:
    from gappletron.online.decisions import Summary
    from gappletron.online.events import Restarted


def journal(
    folder: FolderArgument,
    out: Annotated[
        Path | None, typer.Option(help="Write the decisions with their feedback: .parquet or .csv.", metavar="PATH")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Do everything again that was logged, and compare it with the last snapshot."),
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Cut a damaged log off before the damage; what is cut off is kept.")
    ] = False,
) -> None:
    """Show what a journal holds, export it, verify it or repair it."""
    from gappletron.online import decisions, folder_store
    from gappletron.online.store import read_store

    if repair:
        read_store(folder)  # an error where there is no journal
        before = set(folder.glob("*.damaged"))
        events = folder_store.repair(folder)
        aside = sorted(path.name for path in set(folder.glob("*.damaged")) - before)
        say(f"the journal in {folder} leads to event {events:,} again; set aside: {', '.join(aside) or 'nothing'}")
    if verify:
        _verify(folder)
    if out is not None:
        check_outputs(out=out, inputs=(str(folder),))
        with progress("exporting"):
            rows = decisions.export(folder, out)
        tell(f"{rows:,} decisions are in {out}")
    if not (repair or verify or out):
        _show(folder, decisions.summarise(folder))


def _verify(folder: Path) -> None:
    """Compare the state that the whole log leads to with that of the last snapshot and the rest of the log."""
    from gappletron.online.store import read_store

    reader = read_store(folder)
    stop = max((group.first + group.size for group in reader.groups()), default=0)
    newest = max(reader.snapshots())
    if newest > stop:
        raise UserError(
            f"the log in {folder} ends before its newest snapshot: see gappletron journal --help (--repair)"
        )
    with progress("replaying"):
        whole, short = (gp.Online.from_journal(folder, replay=start, stop=stop) for start in ("first", "last"))
    different = whole.differences(short)
    if different:
        raise UserError(
            f"the log in {folder} leads to another state than its last snapshot, in {different[0]}, as after a change "
            "of versions or of the machine: where neither changed, report it"
        )
    if newest == 0:
        say(f"{whole.rounds:,} rounds replayed; there is no later snapshot to compare them with yet")
        return
    say(f"{whole.rounds:,} rounds replayed: the state is that of the last snapshot, bit for bit")


def _show(folder: Path, found: Summary) -> None:
    rows = [
        ("rounds", f"{found.rounds:,}"),
        *((f"  {name}", f"{number:,}") for name, number in found.statuses.items() if number),
        ("rows taught", f"{found.taught:,}"),
        *([] if found.restarted is None else [("began anew", _describe_restarts(found.restarts, found.restarted))]),
        ("rows compacted", f"{found.compacted:,}"),
        ("first, last", " to ".join(_format_time(time) for time in (found.first, found.last))),
        ("size", f"{found.bytes / 1e6:,.1f} MB, {found.events:,} events, {found.snapshots} snapshots"),
        ("since the last", f"{found.since_snapshot:,} events, to be done again when it is opened"),
        ("exploration", _describe_limits(found)),
        *([] if found.waiting is None else [("may wait", _describe_waiting(*found.waiting))]),
        ("last opened with", ", ".join(f"{name} {version}" for name, version in found.versions.items())),
    ]
    width = max(len(name) for name, _ in rows)
    say(f"journal in {folder}")
    for name, value in rows:
        say(f"{name:<{width}}  {value}")


def _describe_restarts(number: int, last: Restarted) -> str:
    from gappletron.learners.run_bound import WHY

    times = "once," if number == 1 else f"{number:,} times, last"
    return f"{times} after round {last.round:,}, {_format_time(last.time)}, since {WHY[last.reason]}"


def _describe_limits(found: Summary) -> str:
    """Describe the limits on exploration, and what of the budget is spent."""
    least, budget = found.limits.min_propensity, found.limits.budget
    parts = [] if least == 0.0 else [f"every label is seen with probability {least:g} or more"]
    if budget is not None:
        per = f"{budget.per:,} decisions" if isinstance(budget.per, int) else budget.per
        spent = "" if found.spent is None else f", {found.spent:g} spent in all up to the last snapshot"
        parts.append(f"a budget of {budget.limit:g} per {per}{spent}")
    return "; ".join(parts) or "no limits"


def _describe_waiting(most: int, size: int, age: float | None) -> str:
    return f"{most:,} receipts, {size / 1e6:,.0f} MB" + ("" if age is None else f", {age:g} seconds")


def _format_time(time: float | None) -> str:
    return "never" if time is None else f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"
