"""``gappletron replay``: evaluate other learners on the decisions of a journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gappletron.base.progress import progress
from gappletron.cli.output import STANDARD_OUTPUT, check_outputs, say


def replay(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="What Online.open or gappletron serve writes to; it may be open.")
    ],
    learner: Annotated[
        list[str] | None,
        typer.Option(help="A learner (see `gappletron learners`), with parameters as in gapsmh:gamma=2; repeatable."),
    ] = None,
    first: Annotated[int, typer.Option(help="Begin with this round, where older ones were compacted.")] = 0,
    seed: Annotated[int, typer.Option(help="The seed of the learners.")] = 0,
    alpha: Annotated[float, typer.Option(help="Intervals have the confidence 1 - alpha.")] = 0.05,
    json_path: Annotated[
        Path | None,
        typer.Option("--json", metavar="PATH", help="Write the estimates to this file; - for the standard output."),
    ] = None,
) -> None:
    """Estimate the error that other learners would have had on the logged decisions, by importance weighting."""
    from gappletron.base import files
    from gappletron.learners.registry import named
    from gappletron.online.off_policy import evaluate_off_policy

    check_outputs(json_path, None, inputs=(str(folder),))
    names = learner or ["auto"]
    for name in names:
        named(name)  # an error before the work
    found = []
    for name in names:
        with progress(f"replaying {name}") as show:
            found.append(evaluate_off_policy(folder, name, first=first, seed=seed, alpha=alpha, show=show))
        if json_path != STANDARD_OUTPUT:
            say(("\n" if len(found) > 1 else "") + str(found[-1]))
    if json_path is not None:
        text = json.dumps([each.to_dict() for each in found], indent=1)
        if json_path == STANDARD_OUTPUT:
            say(text)
        else:
            with files.replacing(json_path) as file:
                file.write(text.encode() + b"\n")
