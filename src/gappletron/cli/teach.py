"""``gappletron teach``: a warm start from a file in which every label is known."""

from pathlib import Path
from typing import Annotated

import typer

import gappletron as gp
from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.cli.options import (
    LEARNER,
    RESULTS,
    DataOptions,
    GraphName,
    GraphOptions,
    Memory,
    RowsArgument,
    Seed,
    given_options,
    load_model,
)
from gappletron.cli.output import check_outputs, tell

EXAMPLES = """\
gappletron teach filter.npz history.csv --label label --text message --graph filtering --revealing ham
gappletron teach filter.npz more.csv --label label
gappletron teach other.npz history.csv --label label --graph bandit --learner one-against-all"""


def teach(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved model, or the name of a new one.")],
    data: RowsArgument,
    *,
    source: DataOptions,
    graph: GraphName = None,
    preset: GraphOptions,
    learner: Annotated[
        str | None,
        typer.Option(
            help="A learner (see `gappletron learners`). Default: auto.", metavar="LEARNER", rich_help_panel=LEARNER
        ),
    ] = None,
    memory: Memory = None,
    seed: Seed = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write the model. Default: MODEL itself.", metavar="PATH", rich_help_panel=RESULTS),
    ] = None,
) -> None:
    """Learn from a file in which every label is known, without acting: a warm start.

    The options of the graph (bandit by default), the learner and its memory, the features and the seed are for a new
    model.
    """
    from gappletron.data.prepared import prepare_chunks
    from gappletron.graphs.open import find_new_classes, match_classes

    target, default = out or model, ""
    check_outputs(out=target, inputs=(data,))
    preset.check(graph)
    gp.named(learner or "auto")  # an error before the file is opened
    gp.Encoder(**source.kinds)
    if model.exists():
        saved = load_model(
            model,
            given_options(preset, graph=graph, learner=learner, seed=seed, memory=memory, features=source.features),
        )
        stream = source.open(data, preset.classes, saved)
        for name in find_new_classes(stream.classes, saved.graph):
            saved.add_class(name)
    else:
        if graph is None:
            default = ", for the bandit graph, since no --graph was given"
        stream = source.open(data, preset.classes)
        kind = "vectors" if stream.encoder is None else "records"
        feedback = preset.open(graph, stream)
        player = gp.Player(learner or "auto", feedback, stream.features, rows=kind, seed=seed or 0, memory=memory)
        saved = gp.Online.from_player(player, stream.encoder)
    if stream.is_open:
        raise UserError(f"{stream.name} is a pipe: name its --classes, or write it to a file first")
    positions = match_classes(stream.classes, saved.graph)
    rows = 0
    with progress("teaching") as show:
        for chunk in prepare_chunks(stream):
            saved.player.teach(chunk if positions is None else chunk.relabel(positions))
            rows += len(chunk.chunk.labels)
            show(rows, stream.rounds)
    if stream.encoder is not None and stream.encoder.names:
        saved.keep_names(stream.names)
    saved.save(target)
    tell(f"{rows:,} rows taught; the model is in {target}{default}")
