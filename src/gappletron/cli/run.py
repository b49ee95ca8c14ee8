"""``gappletron run``: play a stream with one or more learners."""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

import gappletron as gp
from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.base.text import listing, unknown
from gappletron.cli import options, output
from gappletron.cli.options import ALPHA, LEARNER, RESULTS, given_options, model_option, option
from gappletron.cli.output import STANDARD_OUTPUT, write_json

EXAMPLES = """\
gappletron run mail.csv --label label --text message --graph filtering --revealing ham
gappletron run digits --graph bandit --learner auto --learner gapsmh --repeats 5 --plot digits.png
gappletron run mail.csv --label label --graph filtering --revealing ham --cost spam,ham=10 --save filter.npz"""


@dataclass(frozen=True)
class PieceOptions:
    """What learners are made of, and how rows are prepared for them."""

    title: ClassVar[str] = LEARNER
    exploration: str | None = option(
        None,
        "The exploration rule. For auto (which explores more where its theorem needs it) and one-against-all: "
        "inverse-gap (default), greedy, epsilon-greedy, burn-in:rounds=100 or square-cb. For Gappletron: top-up "
        "(default: the minimum that reveals every label often enough), paper (exactly Algorithm 1) or optimised (the "
        "minimiser of the bound, best with --optimizer ada-grad). Parameters as in top-up:gamma=2.",
        metavar="RULE",
    )
    gamma: float | None = option(None, "The parameter of learners that explore. Default for Gappletron: 1.")
    tuning: str | None = option(
        None,
        "Set the parameters from the data: theory or only-t for every learner; for Gappletron also expectation, "
        "expectation-separable, high-probability, high-probability-separable.",
        metavar="TUNING",
    )
    optimizer: str | None = option(
        None,
        "The optimizer: confidence-weighted (default of one-against-all), adaptive-ogd (of Gappletron), "
        "projected-ogd, fixed-ogd, ada-grad or scale-free-ftrl; parameters as in projected-ogd:radius=5.",
        metavar="OPTIMIZER",
    )
    normalize: str | None = model_option("normalize")
    bias: bool | None = option(
        None, "Add a feature that is always 1. Default: for auto and for tables.", "--bias/--no-bias"
    )


@dataclass(frozen=True)
class PlayOptions:
    """How often, how long, and with what is shown of it."""

    title: ClassVar[str] = "Playing"
    repeats: int = option(1, "Runs of each learner, on the same data. Default: 1.")
    rounds: int | None = option(None, "Play at most this many rounds.")
    max_norm: float | None = option(None, "The largest norm of a row; replaces a scan of the file.")
    jobs: int | None = option(None, "Threads. Default: one per core.")
    save: Path | None = option(None, "Write the model to this file: one learner, one repeat.", metavar="MODEL")
    load: Path | None = option(None, "Go on with the model of this file, and with its options.", metavar="MODEL")
    estimate: bool = option(
        False, "Also estimate the error from the labels that were seen alone.", "--estimate", title=RESULTS
    )
    confusion: bool = option(
        False, "Also print how often each action was played at each label.", "--confusion", title=RESULTS
    )


def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file (CSV, TSV, JSON lines, Parquet, Vowpal Wabbit or svmlight; plain, gzip or zstd), '-' for a "
            "pipe, 'digits', or 'synthetic:K=9,d=120,noise=0.05,T=100000,seed=0'.",
        ),
    ],
    *,
    source: options.DataOptions,
    graph: options.GraphName = None,
    preset: options.GraphOptions,
    learner: options.Learners = None,
    pieces: PieceOptions,
    memory: options.Memory = None,
    seed: options.Seed = None,
    limits: options.LimitOptions,
    playing: PlayOptions,
    alpha: options.Alpha = ALPHA,
    json: options.JsonPath = None,
    plot: options.PlotPath = None,
) -> None:
    """Play a recorded stream with one or more learners, and print how often each errs.

    A learner gets the labels of the file only where the feedback graph reveals them. Without --graph that is the bandit
    graph: a prediction reveals only whether it was right.
    """
    from gappletron.play.monitor_state import NoWatch

    save = playing.save
    output.check_outputs(json=json, plot=plot, save=save, inputs=(data, graph or ""))
    preset.check(graph)
    given = given_options(normalize=pieces.normalize, bias=pieces.bias, seed=seed, memory=memory) | limits.parse()
    check_early(source, playing, alpha, learner or ["auto"], given)
    open_stream = functools.partial(source.open, data, preset.classes, max_norm=playing.max_norm, rounds=playing.rounds)
    watch = gp.Watch(alpha=alpha) if playing.estimate else None
    model = None
    if playing.load is not None:
        given = given_options(preset, pieces, limits, graph=graph, learner=learner, seed=seed, memory=memory)
        model = options.load_model(playing.load, given)
        stream = open_stream(model)
        if watch is not None and isinstance(model.player.watch, NoWatch):
            model.player.begin_watch(watch)
        with progress("compiling"):
            runs = gp.Runs.continuing(model.player, stream, jobs=playing.jobs)
    else:
        learners = choose_learners(learner or ["auto"], pieces)
        stream = open_stream()
        feedback = preset.open(graph, stream)
        if pieces.tuning is not None:
            learners = tune_learners(learners, pieces.tuning, pieces, feedback, stream)
        with progress("compiling"):
            runs = gp.Runs(
                learners, stream, feedback, repeats=playing.repeats, monitor=watch, jobs=playing.jobs, **given
            )

    tells_default = graph is None and model is None

    def report(histories: gp.Histories, stopped: str | None) -> None:
        if stopped is not None:
            histories = gp.Histories(histories, f"{histories.title}, stopped after {histories[0].rounds:,} rounds")
        watched = histories if playing.estimate else ()
        reports = [gp.Monitor(runs.player(run.name, run.repeat)).report(alpha) for run in watched]
        with contextlib.ExitStack() as last:  # whatever fails, the rest is written: the files first
            last.callback(output.warn, histories, reports)
            last.callback(warn_of_default, histories if tells_default else ())
            if json != STANDARD_OUTPUT:
                last.callback(output.show_confusion, histories if playing.confusion else gp.Histories(()))
                last.callback(output.show_estimates, histories, reports)
                last.callback(output.show_histories, histories)
            if plot is not None:
                last.callback(histories.plot, plot)
            if json is not None:
                write_json(json, runs, histories, stopped, reports)
            if save is not None:
                saved = model or gp.Online.from_player(runs.player(), stream.encoder)
                if stream.encoder is not None and stream.encoder.names:
                    saved.keep_names(stream.names)
                last.callback(saved.save, save)

    def note() -> str:
        return f"error {gp.Monitor(runs.player(repeat=runs.repeats[0])).rates('policy', alpha).error}"

    output.play_and_report(runs, report, note if playing.estimate else str)


def check_early(
    source: options.DataOptions, playing: PlayOptions, alpha: float, learners: Sequence[str], given: dict[str, Any]
) -> None:
    """Raise UserError for what is wrong whatever the data are, before a file is opened."""
    from gappletron.play.options import PlayerOptions

    PlayerOptions.parse(given)
    if alpha != ALPHA and not playing.estimate:
        raise UserError("--alpha was given without --estimate, to which it belongs: give both or none")
    if playing.load is not None and playing.repeats != 1:
        raise UserError(
            f"--load goes on with one model, and --repeats {playing.repeats} asks for several: omit --repeats"
        )
    if playing.save is not None and playing.load is None and (len(learners) > 1 or playing.repeats > 1):
        raise UserError("--save writes one model, and there are several runs: give one --learner and one repeat")
    gp.Encoder(**source.kinds)  # a column of two kinds
    _ = source.score_columns
    for name in ("repeats", "rounds", "jobs"):
        if getattr(playing, name) is not None:
            whole(getattr(playing, name), f"--{name}", least=1)


def warn_of_default(histories: Sequence[gp.History]) -> None:
    """Say that every label was seen, where nobody has said what is seen: then the numbers are not those of real use."""
    if histories and all(run.labels_seen == run.rounds for run in histories):
        revealing = shlex.quote(str(histories[0].graph.classes[0]))
        output.tell(
            "every label was seen: no --graph was given, and by default a prediction reveals whether it was right, "
            "which hides nothing between two classes. Say what is seen in real use, as in "
            f"--graph filtering --revealing {revealing}"
        )


def choose_learners(names: list[str], pieces: PieceOptions) -> dict[str, gp.Learner]:
    """Return the learners, with the options applied to those that have such a part. A tuning is only checked: it needs
    the data.
    """
    from gappletron.kernel.spelling import read_piece

    if pieces.gamma is not None and pieces.tuning is not None:
        raise UserError("--gamma and --tuning were both given, and both set gamma: omit one of them")
    changes: dict[str, Any] = {}
    if pieces.exploration is not None:
        changes["exploration"] = read_piece(gp.Exploration, pieces.exploration, "exploration rule")
    if pieces.optimizer is not None:
        changes["optimizer"] = read_piece(gp.Optimizer, pieces.optimizer, "optimizer")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"--learner {twice[0]} was given twice: give it once, and use --repeats for more runs")
    learners = [gp.named(name) for name in names]
    for part, piece in changes.items():
        if not any(part in learner._fields for learner in learners):
            raise UserError(
                f"--{part} is only for learners that have such a part, and none is among these: omit it, or choose for "
                "example --learner one-against-all or --learner gapsmh"
            )
        learners = [learner.replace(**{part: piece}) if part in learner._fields else learner for learner in learners]
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
    learners: dict[str, gp.Learner], tuning: str, pieces: PieceOptions, graph: gp.FeedbackGraph, stream: gp.Stream
) -> dict[str, gp.Learner]:
    """Return the learners with the parameters that a tuning sets, for rows as they will be prepared."""
    from gappletron.data.normalization import find_normalization
    from gappletron.data.transform import Transformed
    from gappletron.play.player import AUTO

    default, with_bias = ("none", False) if stream.encoder is None else AUTO["records"]
    bias = with_bias if pieces.bias is None else pieces.bias
    prepared = Transformed(stream, find_normalization(pieces.normalize or "auto", default), bias)
    with progress("reading"):  # a file without --max-norm is scanned for it, and scaled columns are measured
        norm = prepared.max_norm
    return {
        name: gp.tuned(learner, tuning, graph, rounds=stream.rounds, features=prepared.features, max_norm=norm)
        for name, learner in learners.items()
    }
