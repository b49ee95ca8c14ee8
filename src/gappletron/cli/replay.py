"""``gappletron replay``: evaluate other learners on the decisions of a store."""

import json
import sys
from typing import Annotated

import typer

import gappletron as gp
from gappletron.base.progress import progress
from gappletron.base.tables import find_width
from gappletron.cli.options import ALPHA, Alpha, JsonPath, Learners, ModelName, PlaceArgument, Seed
from gappletron.cli.output import STANDARD_OUTPUT, check_outputs, say, write_text

EXAMPLES = """\
gappletron replay mail.sqlite
gappletron replay mail.sqlite --learner auto --learner one-against-all
gappletron replay mail.sqlite --first 10000 --json replay.json"""


def replay(
    place: PlaceArgument,
    learner: Learners = None,
    first: Annotated[
        int, typer.Option(help="Begin with this round, where the features of older ones were dropped.")
    ] = 0,
    seed: Seed = None,
    name: ModelName = "model",
    alpha: Alpha = ALPHA,
    json_path: JsonPath = None,
) -> None:
    """Estimate the error that other learners would have had on the logged decisions, by importance weighting."""
    check_outputs(json=json_path, inputs=(place,))
    names = learner or ["auto"]
    for each in names:
        gp.named(each)  # an error before the work
    found = []
    for each in names:
        with progress(f"replaying {each}") as show:
            found.append(
                gp.evaluate_off_policy(place, each, name=name, first=first, seed=seed or 0, alpha=alpha, show=show)
            )
        if json_path != STANDARD_OUTPUT:
            say(("\n" if len(found) > 1 else "") + found[-1].to_text(find_width(sys.stdout)))
    if json_path is not None:
        write_text(json_path, json.dumps([each.to_dict() for each in found], indent=1))
