"""``gappletron run``: play a stream with one or more learners."""

from __future__ import annotations

import contextlib
import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.base.signals import held_back
from gappletron.base.text import listing, unknown
from gappletron.cli.options import (
    AlphaOptions,
    DataOptions,
    GraphOptions,
    JsonOptions,
    LearnerOptions,
    LimitOptions,
    PlotOptions,
    SeedOptions,
    load_model,
    model_option,
    option,
)
from gappletron.cli.output import (
    STANDARD_OUTPUT,
    Estimates,
    check_outputs,
    play_and_report,
    show_confusion,
    show_estimates,
    show_table,
    write_json,
)

if TYPE_CHECKING:
    from gappletron import FeedbackGraph, Learner, Online, Runs, Stream


@dataclass(frozen=True)
class PieceOptions:
    """What learners are made of."""

    exploration: str | None = option(
        None,
        "The exploration rule, for auto and Gappletron. For auto: inverse-gap (default), greedy, epsilon-greedy, "
        "burn-in:rounds=100 or square-cb. For Gappletron: top-up (default: the minimum that reveals every label often "
        "enough), paper (exactly Algorithm 1) or optimised (the minimiser of the bound, best with --optimizer "
        "ada-grad). Parameters as in top-up:gamma=2.",
    )
    gamma: float | None = option(
        None, "The exploration parameter of all learners that explore. Default for Gappletron: 1."
    )
    tuning: str | None = option(
        None,
        "Set the parameters from the data: theory or only-t for every learner; for Gappletron also expectation, "
        "expectation-separable, high-probability, high-probability-separable.",
    )
    optimizer: str | None = option(
        None,
        "The optimizer, for auto and Gappletron: confidence-weighted (default of auto), adaptive-ogd (of Gappletron), "
        "projected-ogd, fixed-ogd, ada-grad or scale-free-ftrl; parameters as in projected-ogd:radius=5.",
    )


@dataclass(frozen=True)
class RowOptions:
    """How rows are prepared."""

    normalize: str | None = model_option("normalize")
    bias: bool | None = option(None, "Add a feature that is always 1. Default: for auto only.", "--bias/--no-bias")


@dataclass(frozen=True)
class PlayOptions:
    """How often, how long, and with what is shown of it."""

    repeats: int = option(1, "Runs of each learner, on the same data.")
    rounds: int | None = option(None, "Play at most this many rounds.")
    max_norm: float | None = option(None, "The largest norm of a row; replaces a scan of the file.")
    jobs: int | None = option(None, "Threads. Default: one per core.")
    save: Path | None = option(None, "Write the model to this file: one learner, one repeat.", metavar="MODEL")
    load: Path | None = option(
        None, "Go on with the model of this file: its learner, graph, columns and seed.", metavar="MODEL"
    )
    estimate: bool = option(
        False,
        "Also estimate the error from the labels that were seen alone, with an interval: in the progress line, beside "
        "the true error, and in the JSON.",
        "--estimate",
    )
    confusion: bool = option(False, "Also print how often each action was played at each label.", "--confusion")


def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file (CSV, TSV, JSON lines, Parquet, Vowpal Wabbit or svmlight; plain, gzip or zstd), '-' for a "
            "pipe, 'digits', or 'synthetic:K=9,d=120,noise=0.05,T=100000,seed=0'.",
        ),
    ],
    source: DataOptions,
    graph: GraphOptions,
    learner: LearnerOptions,
    pieces: PieceOptions,
    rows: RowOptions,
    seed: SeedOptions,
    limits: LimitOptions,
    playing: PlayOptions,
    alpha: AlphaOptions,
    json: JsonOptions,
    plot: PlotOptions,
) -> None:
    """Play a stream with one or more learners, on the bandit graph by default, and print their error rates."""
    from gappletron import Histories, Runs

    if pieces.gamma is not None and pieces.tuning is not None:
        raise UserError("--gamma and --tuning were both given, and both set gamma: omit one of them")
    estimates = Estimates.choose(playing.estimate, alpha.alpha)
    json_path, save = json.json_path, playing.save
    check_outputs(json=json_path, plot=plot.plot, save=save, inputs=(data, graph.graph or ""))
    open_stream = functools.partial(source.open, data, graph.classes, max_norm=playing.max_norm, rounds=playing.rounds)
    model = None
    if playing.load is not None:
        if playing.repeats != 1:
            raise UserError(
                f"--load goes on with one model, and --repeats {playing.repeats} asks for several: omit --repeats"
            )
        model = load_model(playing.load, graph, learner, pieces, rows, seed, limits)
        stream = open_stream(model)
        estimates.begin(model.player)
        with progress("compiling"):
            runs = Runs.continuing(model.player, stream, jobs=playing.jobs)
    else:
        learners = choose_learners(learner.learner or ["auto"], pieces)
        if save is not None and (len(learners) > 1 or playing.repeats > 1):
            raise UserError("--save writes one model, and there are several runs: give one --learner and one repeat")
        stream = open_stream()
        normalize, bias = choose_rows(stream, rows)
        feedback = graph.open(stream)
        if pieces.tuning is not None:
            learners = tune_learners(learners, pieces.tuning, feedback, stream, normalize, bias is True)
        with progress("compiling"):
            runs = Runs(
                learners,
                stream,
                feedback,
                repeats=playing.repeats,
                seed=seed.seed or 0,
                normalize=normalize,
                bias=bias,
                monitor=estimates.watch,
                **limits.parse(),
                jobs=playing.jobs,
            )

    def report(histories: Histories, stopped: str | None) -> None:
        if stopped is not None:
            histories = Histories(histories, f"{histories.title}, stopped after {histories[0].rounds:,} rounds")
        reports = estimates.read(runs, histories)
        with contextlib.ExitStack() as last:  # whatever fails, the rest is written: the files first
            if json_path != STANDARD_OUTPUT:
                if playing.confusion:
                    last.callback(show_confusion, histories)
                last.callback(show_estimates, histories, reports)
                last.callback(show_table, histories.title, histories.header, histories.rows())
            with contextlib.nullcontext() if may_block(json_path, plot.plot) else held_back():
                if plot.plot is not None:
                    last.callback(histories.plot, plot.plot)
                if json_path is not None:
                    write_json(json_path, runs, histories, stopped, reports)
                if save is not None:
                    last.callback(save_model, save, runs, model)

    play_and_report(runs, report, lambda: estimates.note(runs))


def choose_rows(stream: Stream, rows: RowOptions) -> tuple[str, bool | str]:
    """Return how the rows of this stream are normalized, and whether they get a bias."""
    normalize, bias = rows.normalize or "auto", "auto" if rows.bias is None else rows.bias
    if stream.encoder is None:
        return normalize, bias
    return "columns" if normalize == "auto" else normalize, True if bias == "auto" else bias


def save_model(path: Path, runs: Runs, model: Online | None) -> None:
    """Write the model of the only run."""
    from gappletron import Online

    (model or Online.from_player(runs.player(), runs.stream.encoder)).save(path)


def choose_learners(names: list[str], pieces: PieceOptions) -> dict[str, Learner]:
    """Return the learners, with the options applied to those that have such a part. A tuning is only checked: it needs
    the data.
    """
    from gappletron import Estimator, Exploration, Gappletron, Optimizer, named
    from gappletron.kernel.spelling import read_piece

    composite = (Gappletron, Estimator)
    changes: dict[str, Any] = {}
    if pieces.exploration is not None:
        changes["exploration"] = read_piece(Exploration, pieces.exploration, "exploration rule")
    if pieces.optimizer is not None:
        changes["optimizer"] = read_piece(Optimizer, pieces.optimizer, "optimizer")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"--learner {twice[0]} was given twice: give it once, and use --repeats for more runs")
    learners = [named(name) for name in names]
    if changes and not any(isinstance(learner, composite) for learner in learners):
        raise UserError(
            f"--{next(iter(changes))} is only for learners that are made of pieces, and none is among these: omit it, "
            "or choose for example --learner auto or --learner gapsmh"
        )
    learners = [learner.replace(**changes) if isinstance(learner, composite) else learner for learner in learners]
    gamma, tuning = pieces.gamma, pieces.tuning
    if gamma is not None:
        if not any(learner.has_gamma for learner in learners):
            raise UserError(f"--gamma was given, but none of {listing(names)} has one: omit it")
        learners = [learner.with_gamma(gamma) if learner.has_gamma else learner for learner in learners]
    for learner in learners:
        if tuning is not None and tuning not in learner.tunings:
            raise unknown(tuning, f"tuning of {learner.name}", learner.tunings)
    return dict(zip(names, learners, strict=True))


def tune_learners(
    learners: dict[str, Learner], tuning: str, graph: FeedbackGraph, stream: Stream, normalize: str, bias: bool
) -> dict[str, Learner]:
    """Return the learners with the parameters that a tuning sets."""
    from gappletron import tuned
    from gappletron.data.normalization import find_normalization

    with progress("reading"):  # a file without --max-norm is scanned for it
        norm = find_normalization(normalize, "none").longest() or stream.max_norm
    norm = math.hypot(1.0, norm) if bias and norm is not None else norm
    features = stream.features + bias
    return {
        name: tuned(learner, tuning, graph, rounds=stream.rounds, features=features, max_norm=norm)
        for name, learner in learners.items()
    }


def may_block(*outputs: Path | None) -> bool:
    """Return whether an output is a pipe or a device, which may make the command wait: then signals must reach it."""
    from gappletron.base.files import is_special

    return any(path is not None and (path == STANDARD_OUTPUT or is_special(path)) for path in outputs)
