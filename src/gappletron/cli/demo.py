"""``gappletron demo``: four feedback graphs, three learners, one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gappletron.cli.output import play_and_report, say, show_table
from gappletron.progress import progress

if TYPE_CHECKING:
    from gappletron.history import Histories

DEMO = {
    "bandit": "reveals whether the prediction was correct",
    "filtering": "only class 0 reveals the label",
    "label-efficient": "only the extra action reveals the label",
    "full": "every label is revealed",
}


def demo(
    rounds: Annotated[int, typer.Option(help="Rounds of the paper's synthetic stream.")] = 100_000,
    repeats: Annotated[int, typer.Option(help="Runs of each learner.")] = 5,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the plot goes.")] = Path("demo"),
) -> None:
    """Play four feedback graphs with the default learner and the Gappletrons of the paper; draw the error curves."""
    from matplotlib.figure import Figure

    from gappletron._files import cannot_write, check_writable, save_figure
    from gappletron.runs import Runs

    data = f"synthetic:K=9,d=120,noise=0.05,T={rounds},seed=0"
    picture = out / "error-curves.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(picture, error.strerror or str(error)) from None
    check_writable(picture)
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    played: list[Histories] = []
    try:
        for (preset, what), ax in zip(DEMO.items(), panels, strict=True):
            with progress("compiling"):
                runs = Runs(["auto", "gaplog", "gaphin", "gapsmh"], data, preset, repeats=repeats)
            play_and_report(runs, lambda histories, _: played.append(histories))
            runs.histories().plot(ax=ax)
            ax.set_title(f"{preset}: {what}", fontsize=10)
        figure.suptitle(f"Gappletron on {data}: mean of {repeats} runs, band from minimum to maximum")
        save_figure(figure, picture)
    finally:
        for histories in played:
            show_table(histories)
            say()
    say(f"The error curves are in {picture}")
