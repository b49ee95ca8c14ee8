"""``gappletron replay``: evaluate other learners on the decisions of a journal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gappletron.base.progress import progress
from gappletron.cli.options import AlphaOptions, JsonOptions, LearnerOptions, SeedOptions, option
from gappletron.cli.output import ALPHA, STANDARD_OUTPUT, check_outputs, say, write_text


@dataclass(frozen=True)
class ReplayOptions:
    """What is replayed."""

    first: int = option(0, "Begin with this round, where older ones were compacted.")


def replay(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="What Online.open or gappletron serve writes to; it may be open.")
    ],
    learner: LearnerOptions,
    options: ReplayOptions,
    seed: SeedOptions,
    alpha: AlphaOptions,
    outputs: JsonOptions,
) -> None:
    """Estimate the error that other learners would have had on the logged decisions, by importance weighting."""
    from gappletron import evaluate_off_policy, named

    path = outputs.json_path
    check_outputs(json=path, inputs=(str(folder),))
    names = learner.learner or ["auto"]
    for name in names:
        named(name)  # an error before the work
    level = ALPHA if alpha.alpha is None else alpha.alpha
    found = []
    for name in names:
        with progress(f"replaying {name}") as show:
            found.append(
                evaluate_off_policy(folder, name, first=options.first, seed=seed.seed or 0, alpha=level, show=show)
            )
        if path != STANDARD_OUTPUT:
            say(("\n" if len(found) > 1 else "") + str(found[-1]))
    if path is not None:
        write_text(path, json.dumps([each.to_dict() for each in found], indent=1))
