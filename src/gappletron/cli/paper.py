"""``gappletron reproduce`` and ``gappletron export``: the experiments of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gappletron.base.progress import sweep_view
from gappletron.base.signals import exit_code, raising
from gappletron.cli.output import say, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gappletron.paper.sensitivity import Size


def reproduce(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for results.sqlite, results.csv, figures/ and report.html. Default: results, or "
            "results/sensitivity.",
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Only this figure or sweep, such as bandit-theory or lower-full; can be repeated. Default: all.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="The number of rounds T; the paper does not give it.")] = 100_000,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Runs of each randomized learner. Default: 10 as in the paper; 20, 40 against adversaries; 3 of ours."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at the same time. Default: one per core.")] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Run on the Dask cluster of the scheduler at this address, such as tcp://127.0.0.1:8786.",
        ),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Run the experiments under other readings of the paper, to see what the verdicts depend on; about "
            "an hour on two cores.",
        ),
    ] = False,
) -> None:
    """Run the paper's experiments: figures, claims, bounds and lower bounds.

    Finished runs are stored; after an interruption the same command continues.
    """
    import contextlib

    from gappletron.paper.reproduce import carry_out, carry_out_sensitivity, planned

    folder = out or Path("results", "sensitivity") if sensitivity else out or Path("results")
    # Errors in the options come before the connection to a cluster.
    size = _size(figure or (), rounds, repeats) if sensitivity else None
    plan = None if sensitivity else planned(figure or (), rounds, repeats)
    try:
        with raising() as check, contextlib.ExitStack() as stack:
            executor = in_flight = None
            if scheduler is not None:
                from gappletron.paper.cluster import dask_executor

                executor, in_flight = stack.enter_context(dask_executor(scheduler, tell))
            view = stack.enter_context(sweep_view(check))
            room = in_flight if jobs is None else None
            if size is not None:
                found = carry_out_sensitivity(folder, size, jobs=jobs, executor=executor, in_flight=room, view=view)
            elif plan is not None:
                done = carry_out(plan, folder, jobs=jobs, executor=executor, in_flight=room, view=view)
    except KeyboardInterrupt as stop:
        tell(f"stopped: the finished runs are stored in {folder}, and the same command continues from there")
        raise typer.Exit(exit_code(stop)) from None
    if sensitivity:
        say(f"{len(found.claims())} claims under {len(found.settings())} readings; see {folder / 'sensitivity.html'}")
        return
    if done.verdicts:
        held = sum(verdict.holds for verdict in done.verdicts)
        say(f"{held} of {len(done.verdicts)} claims hold")
    say(f"{len(done.results):,} runs; the report is {folder / 'report.html'}")


def _size(figures: Sequence[str], rounds: int, repeats: int | None) -> Size:
    """What is run with --sensitivity."""
    from gappletron.base.checks import whole
    from gappletron.base.errors import UserError
    from gappletron.paper.sensitivity import Size

    if figures:
        raise UserError("--sensitivity runs all of the paper's figures: leave out --figure")
    least = 100  # below this the shortest of the T would be less than 3 rounds
    size = Size(rounds=whole(rounds, "rounds with --sensitivity", least=least))
    return size if repeats is None else size._replace(repeats=whole(repeats, "repeats", least=2, most=1000))


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; its name ends in .csv or .parquet.")],
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder of `gappletron reproduce`.")] = Path(
        "results"
    ),
) -> None:
    """Write all stored runs as a CSV or Parquet table."""
    from gappletron.base.files import check_writable
    from gappletron.paper.store import read_results, table_kind, write_table

    table_kind(file)
    check_writable(file)
    runs = read_results(results)
    write_table(runs, file)
    say(f"{len(runs):,} runs in {file}")
