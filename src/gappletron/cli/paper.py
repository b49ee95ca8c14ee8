"""``gappletron reproduce`` and ``gappletron export``: the experiments of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gappletron.cli.output import INTERRUPTED
from gappletron.progress import sweep_view


def reproduce(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where results.sqlite, results.csv, figures/ and report.html go.")
    ] = Path("results"),
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Only this figure or sweep, such as bandit-theory or lower-full; repeatable. Default: all.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="T, which the paper does not give.")] = 100_000,
    repeats: Annotated[
        int | None,
        typer.Option(help="Runs of each learner that draws. Default: the paper's ten (more against the adversaries)."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at the same time. Default: one a core.")] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Play on the Dask cluster whose scheduler listens there, such as tcp://127.0.0.1:8786.",
        ),
    ] = None,
) -> None:
    """Run the paper's experiments: figures, claims, bounds and lower bounds. Killed, it goes on where it was."""
    import contextlib

    from gappletron.experiments.reproduce import reproduce as reproduced
    from gappletron.experiments.sweeps import selected

    selected(figure or (), rounds, repeats)  # what is asked for must be there, before a cluster is
    try:
        with contextlib.ExitStack() as stack:
            executor = in_flight = None
            if scheduler is not None:
                from gappletron.experiments.cluster import dask_executor

                executor, in_flight = stack.enter_context(
                    dask_executor(scheduler, lambda line: typer.echo(line, err=True))
                )
            view = stack.enter_context(sweep_view())
            results = reproduced(
                out,
                figures=figure or (),
                rounds=rounds,
                repeats=repeats,
                jobs=jobs,
                executor=executor,
                in_flight=in_flight if jobs is None else None,
                view=view,
            )
    except KeyboardInterrupt:
        typer.echo(
            f"stopped: the runs finished so far are kept in {out}, and the same command goes on from there", err=True
        )
        raise typer.Exit(INTERRUPTED) from None
    from gappletron.experiments.claims import verdicts

    judged = verdicts(results)
    if judged:
        typer.echo(f"{sum(verdict.holds for verdict in judged)} of {len(judged)} claims hold as they stand")
    typer.echo(f"{len(results):,} runs; the report is {out / 'report.html'}")


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write: a name that ends in .csv or .parquet.")],
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder of `gappletron reproduce`.")] = Path(
        "results"
    ),
) -> None:
    """Write every stored run as a table, CSV or Parquet."""
    from gappletron._files import check_writable
    from gappletron.experiments.store import read_results, table_kind, write_table

    table_kind(file)
    check_writable(file)
    runs = read_results(results)
    write_table(runs, file)
    typer.echo(f"{len(runs):,} runs in {file}")
