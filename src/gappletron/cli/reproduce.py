"""``gappletron reproduce``: the experiments of the paper."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

import gappletron as gp
from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.base.progress import sweep_view
from gappletron.base.signals import exit_code, raising
from gappletron.cli.options import option
from gappletron.cli.output import say, tell

EXAMPLES = """\
gappletron reproduce
gappletron reproduce --rounds 10000 --figure bandit-best
gappletron reproduce --sensitivity --jobs 4"""


@dataclass(frozen=True)
class ReproduceOptions:
    """What is run, how long, where and with what."""

    out: Path | None = option(
        None, "The folder of all results. Default: results, or results/sensitivity.", metavar="DIR"
    )
    figure: list[str] | None = option(
        None, "Only this figure or sweep, such as bandit-theory; repeatable. Default: all.", metavar="ID"
    )
    rounds: int = option(100_000, "The number of rounds T; the paper does not give it.")
    repeats: int | None = option(
        None, "Runs of each randomized learner. Default: 10 as in the paper; 20, 40 against adversaries; 3 of ours."
    )
    jobs: int | None = option(None, "Runs at the same time. Default: one per core.")
    scheduler: str | None = option(
        None, "Run on the Dask cluster of this scheduler, such as tcp://127.0.0.1:8786.", metavar="ADDRESS"
    )
    sensitivity: bool = option(
        False, "Run the experiments under other readings of the paper: about an hour on two cores.", "--sensitivity"
    )


def reproduce(options: ReproduceOptions) -> None:
    """Run the paper's experiments: figures, claims, bounds and lower bounds.

    Finished runs are stored; after an interruption the same command continues.
    """
    from gappletron.paper.reproduce import reproduce_readings

    folder = options.out or Path("results", *(["sensitivity"] if options.sensitivity else []))
    work: Callable[..., Any]
    if options.sensitivity:
        work = partial(reproduce_readings, folder, read_size(options))
    else:
        figures = options.figure or ()
        work = partial(gp.reproduce, folder, figures=figures, rounds=options.rounds, repeats=options.repeats)
    try:
        with raising() as check, contextlib.ExitStack() as stack:
            executor = in_flight = None
            if options.scheduler is not None:
                from gappletron.paper.cluster import open_dask_executor

                executor, in_flight = stack.enter_context(open_dask_executor(options.scheduler, tell))
            view = stack.enter_context(sweep_view(check))
            room = in_flight if options.jobs is None else None
            found: Any = work(jobs=options.jobs, executor=executor, in_flight=room, view=view)
    except KeyboardInterrupt as stop:
        tell(f"stopped: the finished runs are stored in {folder}, and the same command continues from there")
        raise typer.Exit(exit_code(stop)) from None
    if options.sensitivity:
        say(f"{len(found.claims())} claims under {len(found.settings())} readings; see {folder / 'sensitivity.html'}")
        return
    from gappletron.paper.claims import ENOUGH_ROUNDS, OURS

    paper = [verdict for verdict in found.verdicts if verdict.claim.source != OURS]
    if paper:
        say(f"{sum(verdict.holds for verdict in paper)} of {len(paper)} claims of the paper hold")
        if options.rounds < ENOUGH_ROUNDS:
            say("with so few rounds the learners are still at the start of learning: the verdicts are not meaningful")
    say(f"{len(found.results):,} runs; the report is {folder / 'report.html'}")


def read_size(options: ReproduceOptions) -> Any:
    """Return how much is run with --sensitivity, a :class:`gappletron.paper.sensitivity.Size`."""
    from gappletron.paper.sensitivity import Size

    if options.figure:
        raise UserError("--sensitivity runs all of the paper's figures: leave out --figure")
    least = 100  # below this the shortest of the T would be less than 3 rounds
    size = Size(rounds=whole(options.rounds, "rounds with --sensitivity", least=least))
    repeats = options.repeats
    return size if repeats is None else size._replace(repeats=whole(repeats, "repeats", least=2, most=1000))
