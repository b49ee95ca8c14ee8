"""``gappletron compile``: fill the cache of machine code before it is needed."""

from __future__ import annotations

import time
from typing import Annotated

import typer

import gappletron as gp
from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.base.signals import exit_code, raising
from gappletron.cli.options import Learners
from gappletron.cli.output import tell

EXAMPLES = """\
gappletron compile
gappletron compile --classes 20
gappletron compile --learner auto --learner gapsmh --jobs 2"""


def compile(
    learner: Learners = None,
    graph: Annotated[
        str,
        typer.Option(help="A graph that the learners can play; the code is the same for all of them.", metavar="GRAPH"),
    ] = "bandit",
    classes: Annotated[
        int,
        typer.Option(help="For models with at most this many classes, padded to multiples of 4. Default: 8.", min=1),
    ] = 8,
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one per core.", min=1)] = None,
) -> None:
    """Compile ahead of time what models, the service and `run` need: some minutes, once.

    The machine code is kept on disk, and is the same for any number of features. What is there already is not compiled
    again.
    """
    from gappletron.kernel.compiling import SECONDS_TO_COMPILE, background
    from gappletron.play.runs import usable_cores

    start, processes = time.monotonic(), jobs or usable_cores()

    def note() -> str:
        now = background.list_missing()[:processes]  # each process works in the order of the list
        names = ", ".join(file.name.partition("-")[0] for file in now)
        return f"{names}; {time.monotonic() - start:.0f} s so far"

    try:
        with raising() as check, background.using(processes), progress("compiling", note) as show:

            def tell_left(left: int) -> None:
                check()
                show(len(background.asked) - left, len(background.asked))

            for name in learner or ["auto"]:
                for width in range(4, classes + 4, 4):
                    ask_for_code(name, graph, width)
            missing = len(background.list_missing())
            if missing:
                seconds = SECONDS_TO_COMPILE * missing / processes
                tell(f"compiling {missing} functions in {processes} processes, about {seconds:.0f} s")
            background.wait(tell_left)
    except KeyboardInterrupt as stop:
        tell("stopped: what was compiled until now is in the cache")
        raise typer.Exit(exit_code(stop)) from None
    lacking = [file for file in background.asked if not file.exists()]
    if lacking:
        raise UserError(
            f"{len(lacking)} of {len(background.asked)} functions could not be kept in {str(lacking[0].parent)!r}: "
            "make room there, or set NUMBA_CACHE_DIR to another folder"
        )
    seconds = time.monotonic() - start
    tell(f"{len(background.asked)} functions were compiled in {seconds:.0f} s; all others were in the cache")


def ask_for_code(learner: str, preset: str, classes: int) -> None:
    """Have compiled what a learner needs with so many classes: as a model, with a monitor or without, and in runs."""
    from gappletron.graphs.open import open_graph
    from gappletron.play.engine import NO_ROWS

    graph = open_graph(preset, classes)
    for encoder in (gp.Encoder(), None):
        model = gp.Online(learner, graph, encoder=encoder, monitor=True)
        model.compile_batches()
        model.player.engine.find_repeat()
        model.compile_following()
        gp.Online(learner, graph, encoder=encoder).player.advance(NO_ROWS)
