"""``gappletron replay``: evaluate other learners on the decisions of a journal."""

import json
from typing import Annotated

import typer

import gappletron as gp
from gappletron.base.progress import progress
from gappletron.cli.options import ALPHA, Alpha, FolderArgument, JsonPath, Learners, Seed
from gappletron.cli.output import STANDARD_OUTPUT, check_outputs, say, write_text


def replay(
    folder: FolderArgument,
    learner: Learners = None,
    first: Annotated[int, typer.Option(help="Begin with this round, where older ones were compacted.")] = 0,
    seed: Seed = None,
    alpha: Alpha = ALPHA,
    json_path: JsonPath = None,
) -> None:
    """Estimate the error that other learners would have had on the logged decisions, by importance weighting."""
    check_outputs(json=json_path, inputs=(str(folder),))
    names = learner or ["auto"]
    for name in names:
        gp.named(name)  # an error before the work
    found = []
    for name in names:
        with progress(f"replaying {name}") as show:
            found.append(gp.evaluate_off_policy(folder, name, first=first, seed=seed or 0, alpha=alpha, show=show))
        if json_path != STANDARD_OUTPUT:
            say(("\n" if len(found) > 1 else "") + str(found[-1]))
    if json_path is not None:
        write_text(json_path, json.dumps([each.to_dict() for each in found], indent=1))
