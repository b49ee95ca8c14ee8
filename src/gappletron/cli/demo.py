"""``gappletron demo``: real data under partial feedback, the default learner beside greedy ones, in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gappletron.base.progress import progress
from gappletron.cli.output import play_and_report, say, show_table

if TYPE_CHECKING:
    from gappletron.paper.demo import Shown


def demo(
    rounds: Annotated[int | None, typer.Option(help="Play at most this many rows of each data set.")] = None,
    repeats: Annotated[int, typer.Option(help="Random orders of the rows.")] = 20,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the picture goes.")] = Path("demo"),
) -> None:
    """Play two real data sets under partial feedback, beside a greedy model; print the tables and draw the picture."""
    from gappletron.base.files import cannot_write, check_writable
    from gappletron.paper.demo import LAST, Comparison, draw, settings

    picture = out / "demo.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(picture, error.strerror or str(error)) from None
    check_writable(picture)
    shown: list[Shown] = []

    def report(histories: Any, _: str | None) -> None:
        show_table(histories)
        say()
        shown.append(histories)

    for setting in settings():
        comparison = Comparison(setting, repeats, rounds)
        with progress("compiling"):
            comparison.compile()
        play_and_report(comparison, report)
    draw(shown, picture)
    say("All four are the same learner; they differ in the labels that they get to see.")
    say(f"'stuck' counts the orders in which no label was seen in the last {LAST} rounds.")
    say(f"The picture is in {picture}")
