"""``gappletron teach``: a warm start from a file in which every label is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.cli.options import DataOptions, FeatureOptions, GraphOptions, SeedOptions, load_model, option
from gappletron.cli.output import check_outputs, tell


@dataclass(frozen=True)
class TeachOptions:
    """What is taught, and where it goes."""

    learner: str | None = option(None, "A learner (see `gappletron learners`). Default: auto.")
    out: Path | None = option(None, "Where to write the model. Default: MODEL itself.", metavar="PATH")


def teach(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved model, or the name of a new one.")],
    data: Annotated[
        str, typer.Argument(metavar="FILE", help="A file of the kind that the model was made from; '-' for a pipe.")
    ],
    source: DataOptions,
    graph: GraphOptions,
    options: TeachOptions,
    seed: SeedOptions,
) -> None:
    """Learn from a file in which every label is known, without acting: a warm start.

    The options of the graph (bandit by default), the learner, the features and the seed are for a new model.
    """
    from gappletron import Online, Player
    from gappletron.data.prepared import prepare_chunks
    from gappletron.graphs.open import find_new_classes, match_classes

    target = options.out or model
    check_outputs(out=target, inputs=(data,))
    if model.exists():
        saved = load_model(model, graph, replace(options, out=None), seed, FeatureOptions(source.features))
        stream = source.open(data, graph.classes, saved)
        for name in find_new_classes(stream.classes, saved.graph):
            saved.add_class(name)
    else:
        stream = source.open(data, graph.classes)
        kind = "vectors" if stream.encoder is None else "records"
        learner, feedback = options.learner or "auto", graph.open(stream)
        player = Player(learner, feedback, stream.features, rows=kind, seed=seed.seed or 0)
        saved = Online.from_player(player, stream.encoder)
    if stream.is_open:
        raise UserError(f"{stream.name} is a pipe: name its --classes, or write it to a file first")
    positions = match_classes(stream.classes, saved.graph)
    rows = 0
    with progress("teaching") as show:
        for chunk in prepare_chunks(stream):
            saved.player.teach(chunk if positions is None else chunk.relabelled(positions))
            rows += len(chunk.chunk.labels)
            show(rows, stream.rounds)
    saved.save(target)
    tell(f"{rows:,} rows taught; the model is in {target}")
