"""``gappletron run``: play a stream with one or more learners."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.base.signals import held_back
from gappletron.base.text import listing, unknown
from gappletron.cli.data import (
    Categorical,
    Columns,
    Drop,
    Format,
    Label,
    Numeric,
    Table,
    Text,
    loaded,
    opened,
)
from gappletron.cli.graph import with_costs
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
    from gappletron.data.stream import Stream
    from gappletron.graphs.graph import FeedbackGraph
    from gappletron.learners.learner import Learner
    from gappletron.online.model import Online
    from gappletron.play.limits import Limits
    from gappletron.play.runs import Runs


def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file (CSV, TSV, JSON lines, Parquet, Vowpal Wabbit or svmlight; plain, gzip or zstd), '-' for a "
            "pipe, 'digits', or 'synthetic:K=9,d=120,noise=0.05,T=100000,seed=0'.",
        ),
    ],
    label: Label = None,
    text: Text = None,
    numeric: Numeric = None,
    categorical: Categorical = None,
    drop: Drop = None,
    format: Format = None,
    columns: Columns = None,
    graph: Annotated[
        str | None,
        typer.Option(
            help="bandit (default), full, filtering, label-efficient, apple-tasting, disease-prevention, or a "
            "FILE.json; the revealing class as in filtering:revealing=ham."
        ),
    ] = None,
    revealing: Annotated[
        str | None,
        typer.Option(
            help="Filtering and apple tasting: the class that reveals. Default: the first of --classes; required where "
            "the classes are found in the data."
        ),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACTION,CLASS=NUMBER",
            help="What an action costs at a label, as in spam,ham=10; * for every class; repeatable. Only for learners "
            "that minimise cost.",
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            help="A learner (see `gappletron learners`), with parameters as in banditron:gamma=0.1; repeatable. "
            "Default: auto."
        ),
    ] = None,
    exploration: Annotated[
        str | None,
        typer.Option(
            help="The exploration rule, for auto and Gappletron. For auto: inverse-gap (default), greedy, "
            "epsilon-greedy, burn-in:rounds=100 or square-cb. For Gappletron: top-up (default: the minimum that "
            "reveals every label often enough), paper (exactly Algorithm 1) or optimised (the minimiser of the bound, "
            "best with --optimizer ada-grad). Parameters as in top-up:gamma=2."
        ),
    ] = None,
    gamma: Annotated[
        float | None,
        typer.Option(help="The exploration parameter of all learners that explore. Default for Gappletron: 1."),
    ] = None,
    tuning: Annotated[
        str | None,
        typer.Option(
            help="Set the parameters from the data: theory or only-t for every learner; for "
            "Gappletron also expectation, expectation-separable, high-probability, "
            "high-probability-separable."
        ),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            help="The optimizer, for auto and Gappletron: confidence-weighted (default of auto), adaptive-ogd (of "
            "Gappletron), projected-ogd, fixed-ogd, ada-grad or scale-free-ftrl; parameters as in "
            "projected-ogd:radius=5."
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Runs of each learner, on the same data.")] = 1,
    seed: Annotated[int, typer.Option(help="The seed of the learners.")] = 0,
    rounds: Annotated[int | None, typer.Option(help="Play at most this many rounds.")] = None,
    normalize: Annotated[
        str,
        typer.Option(
            help="Normalization of rows: columns (each by what was seen of it so far), unit, log1p-unit (for counts), "
            "none, or auto: columns for auto, none for the learners of the paper."
        ),
    ] = "auto",
    bias: Annotated[
        bool | None,
        typer.Option("--bias/--no-bias", help="Add a feature that is always 1. Default: for auto only."),
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(
            help="svmlight: the number of features, which replaces a scan of the file. Tables: the number of features "
            "that everything is hashed into; default 262144."
        ),
    ] = None,
    classes: Annotated[str | None, typer.Option(help="The labels, as in 0,1,2; replaces a scan of the file.")] = None,
    max_norm: Annotated[
        float | None, typer.Option(help="The largest norm of a row; replaces a scan of the file.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads. Default: one per core.")] = None,
    json_path: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="PATH", help="Write every run to this file; - for the standard output, without the table."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PATH", help="Draw the error curves: PNG, SVG or PDF.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Write the model to this file: one learner, one repeat.")
    ] = None,
    load: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Go on with the model of this file: its learner, graph, columns and seed."),
    ] = None,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate",
            help="Also estimate the error from the labels that were seen alone, with an interval: in the progress "
            "line, beside the true error, and in the JSON.",
        ),
    ] = False,
    alpha: Annotated[
        float | None, typer.Option(help="With --estimate: intervals of confidence 1 - alpha. Default: 0.05.")
    ] = None,
    min_propensity: Annotated[
        float | None,
        typer.Option(help="Show every label with at least this probability; at most 1 / (size of the dominating set)."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="LIMIT/PER",
            help="Spend at most so much on exploration, as in 50/1000 (decisions), 50/hour or 50/day (of playing). A "
            "query costs 1; without queries every action that is not the greedy class.",
        ),
    ] = None,
    confusion: Annotated[
        bool, typer.Option("--confusion", help="Also print how often each action was played at each label.")
    ] = False,
) -> None:
    """Play a stream with one or more learners and print their error rates."""
    from gappletron.graphs.open import open_graph
    from gappletron.play.history import Histories
    from gappletron.play.runs import Runs

    if gamma is not None and tuning is not None:
        raise UserError("--gamma and --tuning were both given, and both set gamma: omit one of them")
    estimates = Estimates.asked(estimate, alpha)
    check_outputs(json_path, plot, save, inputs=(data, graph or ""))
    table = Table(label, text, numeric, categorical, drop, format, columns)
    options = {
        "classes": None if classes is None else classes.split(","),
        "max_norm": max_norm,
        "rounds": rounds,
        "features": features,
    }
    model = None
    if load is not None:
        fixed: dict[str, Any] = {
            "graph": graph,
            "revealing": revealing,
            "cost": cost,
            "learner": learner,
            "tuning": tuning,
            "exploration": exploration,
            "optimizer": optimizer,
            "gamma": gamma,
            "bias": bias,
            "min-propensity": min_propensity,
            "budget": budget,
            "normalize": None if normalize == "auto" else normalize,
            "seed": seed or None,
        }
        if repeats != 1:
            raise UserError(f"--load goes on with one model, and --repeats {repeats} asks for several: omit --repeats")
        model = loaded(load, fixed)
        stream = opened(data, table, options, model)
        estimates.begin(model.player)
        with progress("compiling"):
            runs = Runs.continuing(model.player, stream, jobs=jobs)
    else:
        learners = _configured(learner or ["auto"], exploration, optimizer, gamma, tuning)
        if save is not None and (len(learners) > 1 or repeats > 1):
            raise UserError("--save writes one model, and there are several runs: give one --learner and one repeat")
        stream = opened(data, table, options)
        normalize, row_bias = _rows_of(stream, normalize, bias)
        preset = graph or "bandit"
        feedback = with_costs(open_graph(preset, stream.classes, revealing, classes_given=stream.classes_given), cost)
        if tuning is not None:
            learners = _tuned(learners, tuning, feedback, stream, normalize, row_bias is True)
        with progress("compiling"):
            runs = Runs(
                learners,
                stream,
                feedback,
                repeats=repeats,
                seed=seed,
                normalize=normalize,
                bias=row_bias,
                monitor=estimates.watch,
                min_propensity=min_propensity or 0.0,
                budget=None if budget is None else Budget.parse(budget),
                jobs=jobs,
            )

    def report(histories: Histories, stopped: str | None) -> None:
        if stopped is not None:
            histories = Histories(histories, f"{histories.title}, stopped after {histories[0].rounds:,} rounds")
        reports = estimates.of(runs, histories)
        with contextlib.ExitStack() as last:  # whatever fails, the rest is written: the files first
            if json_path != STANDARD_OUTPUT:
                if confusion:
                    last.callback(show_confusion, histories)
                last.callback(show_estimates, histories, reports)
                last.callback(show_table, histories)
            with contextlib.nullcontext() if _may_block(json_path, plot) else held_back():
                if plot is not None:
                    last.callback(histories.plot, plot)
                if json_path is not None:
                    write_json(json_path, runs, histories, stopped, reports)
                if save is not None:
                    last.callback(_save, save, runs, model)

    play_and_report(runs, report, lambda: estimates.note(runs))


def _limits(min_propensity: float | None, budget: str | None) -> Limits:
    """The limits that the options ask for."""
    from gappletron.play.limits import Budget, Limits

    return Limits(min_propensity or 0.0, None if budget is None else Budget.parse(budget))


def _rows_of(stream: Stream, normalize: str, bias: bool | None) -> tuple[str, bool | str]:
    """How the rows of this stream are prepared."""
    row_bias: bool | str = "auto" if bias is None else bias
    if stream.encoder is None:
        return normalize, row_bias
    return "columns" if normalize == "auto" else normalize, True if row_bias == "auto" else row_bias


def _save(path: Path, runs: Runs, model: Online | None) -> None:
    """Write the model of the only run."""
    from gappletron.online.model import Online

    (model or Online.from_player(runs.player(), runs.stream.encoder)).save(path)


def _tuned(
    learners: dict[str, Learner], tuning: str, graph: FeedbackGraph, stream: Stream, normalize: str, bias: bool
) -> dict[str, Learner]:
    """The learners with the parameters that a tuning sets."""
    from gappletron.data.normalization import normalization_of
    from gappletron.paper.tuning import tuned

    with progress("reading"):  # a file without --max-norm is scanned for it
        norm = normalization_of(normalize, "none").longest() or stream.max_norm
    norm = math.hypot(1.0, norm) if bias and norm is not None else norm
    features = stream.features + bias
    return {
        name: tuned(learner, tuning, graph, rounds=stream.rounds, features=features, max_norm=norm)
        for name, learner in learners.items()
    }


def _may_block(*outputs: Path | None) -> bool:
    """Whether an output is a pipe or a device, which may make the command wait: then signals must reach it."""
    from gappletron.base.files import is_special

    return any(path is not None and (path == STANDARD_OUTPUT or is_special(path)) for path in outputs)


def _configured(
    names: list[str], exploration: str | None, optimizer: str | None, gamma: float | None, tuning: str | None
) -> dict[str, Learner]:
    """The learners with the options applied to those that have such a part. A tuning is only checked: it needs the
    data.
    """
    from gappletron.kernel.spelling import read_piece
    from gappletron.learners.estimators import Estimator
    from gappletron.learners.exploration.rule import Exploration
    from gappletron.learners.gappletron import Gappletron
    from gappletron.learners.optimizers import Optimizer
    from gappletron.learners.registry import named

    composite = (Gappletron, Estimator)
    changes: dict[str, Any] = {}
    if exploration is not None:
        changes["exploration"] = read_piece(Exploration, exploration, "exploration rule")
    if optimizer is not None:
        changes["optimizer"] = read_piece(Optimizer, optimizer, "optimizer")
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
    if gamma is not None:
        if not any(learner.has_gamma for learner in learners):
            raise UserError(f"--gamma was given, but none of {listing(names)} has one: omit it")
        learners = [learner.with_gamma(gamma) if learner.has_gamma else learner for learner in learners]
    for learner in learners:
        if tuning is not None and tuning not in learner.tunings:
            raise unknown(tuning, f"tuning of {learner.name}", learner.tunings)
    return dict(zip(names, learners, strict=True))
