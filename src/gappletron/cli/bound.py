"""``gappletron bound``: the theorems as numbers, for a learner or for a stored run."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import gappletron as gp
from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.base.files import save_figure
from gappletron.base.progress import progress
from gappletron.cli.options import GraphName, PlotPath, PresetOptions, Results, given_options, option
from gappletron.cli.output import check_outputs, say

EXAMPLES = """\
gappletron bound gapsmh --graph filtering --classes 3
gappletron bound gapsmh --graph filtering --classes 3 --rounds 2000 --measure 3
gappletron bound --run ID --results results --plot bounds.png"""


@dataclass(frozen=True)
class BoundOptions:
    """What the theorems need to know."""

    rounds: int = option(100_000, "T, the number of rounds. Default: 100000.")
    max_norm: float = option(1.0, "X, the largest norm of the features. Default: 1.")
    radius: float | None = option(
        None, "B, the radius of the ball of the weights. Default: 1, or that of the stored run."
    )
    delta: float = option(0.05, "The allowed probability of failure. Default: 0.05.")
    run: str | None = option(
        None, "A stored run, by its id in results.csv; --plot draws its mistakes with the bounds.", metavar="ID"
    )
    measure: int = option(
        0,
        "Also play this many runs on unit vectors, by default with B = sqrt(K - 1), and print their mistakes over each "
        "bound.",
        metavar="RUNS",
    )


def bound(
    preset: PresetOptions,
    options: BoundOptions,
    learner: Annotated[
        str | None,
        typer.Argument(metavar="[LEARNER]", help="One of gapsmh, gaphin, gaplog2, gaplog, or decoded-logistic."),
    ] = None,
    graph: GraphName = None,
    results: Results = Path("results"),
    plot: PlotPath = None,
) -> None:
    """Print the bound of every theorem of the paper, with the gamma of the theorem or for a stored run.

    The graph is bandit by default, with 4 classes (2 for apple-tasting).
    """
    if (learner is None) == (options.run is None):
        raise UserError(
            "expected a learner, as in `gappletron bound gapsmh`, or a stored run, --run ID: give one of them"
        )
    if options.run is not None:
        if given_options(preset, options, graph=graph).keys() - {"run", "radius", "delta"}:
            raise UserError(
                "a stored run has its own graph, rounds and norm: with --run give only --results, --radius, "
                "--delta and --plot"
            )
        show_bounds_of_run(options.run, results, options.radius, options.delta, plot)
        return
    if plot is not None:
        raise UserError("--plot is only for a stored run: name one with --run ID")
    if options.measure and options.max_norm != 1.0:
        raise UserError("--measure plays unit vectors, whose norm is 1: leave out --max-norm")
    chosen = gp.named(learner or "")
    if not isinstance(chosen, gp.Gappletron | gp.DecodedLogistic):
        raise UserError(
            f"the theorems are about Gappletron and DecodedLogistic, not about {learner!r}: choose for example 'gapsmh'"
        )
    show_bounds(chosen, preset.open_alone(graph or "bandit"), options)


def show_bounds(learner: gp.Gappletron | gp.DecodedLogistic, graph: gp.FeedbackGraph, options: BoundOptions) -> None:
    """Print the bounds of a learner, and how tight they are where that is asked for."""
    from gappletron.paper.measuring import NOISE, measure, tune_for_theorem
    from gappletron.paper.theory import list_theorems

    rounds, max_norm, delta = options.rounds, options.max_norm, options.delta
    runs = whole(options.measure, "--measure")
    default = math.sqrt(graph.n_classes - 1.0) if runs else 1.0
    B = default if options.radius is None else options.radius
    given = f"T = {rounds:,}, X = {max_norm:g}"
    if isinstance(learner, gp.Gappletron):
        learner = in_ball = learner.replace(optimizer=gp.ProjectedOGD(B))
        radius = None
        lines = [
            f"{in_ball.loss!r} with {in_ball.optimizer!r} on {graph}, {given}, delta = {delta:g}",
            _show_constants(in_ball, graph, max_norm),
        ]
    else:
        radius = B
        lines = [
            f"{learner.name} on {graph}, {given}, B = {B:g}, P = 0",
            f"constants: {_show_decoded_constants(graph)}",
        ]
    theorems = list_theorems(learner)
    tuned = [
        tune_for_theorem(theorem, learner, graph, max_norm, delta, rounds=rounds, radius=radius) for theorem in theorems
    ]
    for position, (theorem, player) in enumerate(zip(theorems, tuned, strict=True)):
        found = gp.bounds(player, graph, rounds=rounds, max_norm=max_norm, delta=delta, radius=radius)[position]
        gamma = f"gamma = {getattr(player.exploration, 'gamma', math.nan):.4g}" if theorem.tuning else ""
        lines.append(_show_bound(found, f"{gamma:16} "))
    if runs:
        lines += [
            "",
            f"measured on unit vectors, {runs} runs, noise {NOISE:g} (none for separable theorems); the bounds include "
            "the loss of the best comparator",
        ]
        with progress("playing") as show:
            for position, (theorem, player) in enumerate(zip(theorems, tuned, strict=True)):
                show(position, len(theorems))
                ran = measure(theorem, player, graph, rounds=rounds, repeats=runs, delta=delta, radius=radius)
                shown = (
                    f"does not apply: it {ran}"
                    if isinstance(ran, str)
                    else (
                        f"mistakes / bound = {ran.tightness:.3f}: {ran.mistakes:,.1f} mistakes in the mean, "
                        f"{ran.most:,} at most, bound {ran.bound:,.1f}"
                    )
                )
                lines.append(f"{theorem.name:32} {shown}")
    say("\n".join(lines))


def _show_constants(learner: gp.Gappletron, graph: gp.FeedbackGraph, max_norm: float) -> str:
    """Return a line with the constants of the theorems."""
    from gappletron.learners.gappletron import constants

    c = constants(learner, gp.Problem(graph, max_norm=max_norm))
    return (
        f"constants: K = {graph.n_classes}, K' = {c.K:g}, rho = {c.rho}, Q = {max(1, len(graph.revealing_classes))}, "
        f"L = {c.L:.4g}, h = {c.h:.4g}, lmax = {c.lmax:.4g}"
    )


def _show_decoded_constants(graph: gp.FeedbackGraph) -> str:
    from gappletron.learners.losses import CURVATURE

    return f"K = {graph.n_classes}, rho = {graph.rho}, b = {CURVATURE:.4f}"


def _show_bound(bound: gp.Bound, gamma: str = "") -> str:
    what = f"does not apply: it {bound.refusal}" if bound.refusal else f"{bound.statement}, value = {bound.value:,.1f}"
    return f"{bound.theorem:32} {gamma}{what}"


def show_bounds_of_run(run: str, results: Path, radius: float | None, delta: float, plot: Path | None) -> None:
    """Print the bounds of a stored run beside its mistakes, and draw them."""
    from gappletron.paper.figures.bounds import draw_examined
    from gappletron.paper.measuring import examine

    check_outputs(plot=plot)
    stored = {result.task.id: result for result in gp.read_results(results)}
    if not stored:
        raise UserError(f"no run in {str(results)!r} is finished: run `gappletron reproduce --out {results}` first")
    if run not in stored:
        begun = [name for name in stored if name.startswith(run)]
        near = begun[:1] or difflib.get_close_matches(run, stored, n=1, cutoff=0.0)
        raise UserError(
            f"there is no stored run {run!r}; the closest id is {near[0]!r}: all ids are in "
            f"{str(results / 'results.csv')!r}"
        )
    with progress("comparing") as show:
        found = examine(stored[run], radius, delta, show)
    task, outcome, graph = found.result.task, found.result.outcome, found.result.task.pieces.graph
    lines = [
        run,
        repr(found.learner),
        f"on {graph}, T = {task.rounds:,}, n = {outcome.blind_rounds:,}, "
        f"X = {outcome.max_norm:.4g}, delta = {delta:g}, sum l_t(W_t) = {outcome.loss_sum:,.1f}",
        _show_constants(found.learner, graph, outcome.max_norm)
        if isinstance(found.learner, gp.Gappletron)
        else f"constants: {_show_decoded_constants(graph)}",
        f"best comparator with norm at most {found.radius:g} (--radius sets another): loss "
        f"{found.comparator.loss:,.1f} (the minimum is at most {found.comparator.gap:,.1f} lower)",
        f"mistakes {outcome.mistakes:,}, surrogate regret {found.regret:,.1f}",
    ]
    for each in found.bounds:
        limit = each.value + (0.0 if each.separable else found.comparator.loss)
        share = "" if each.refusal else f", mistakes / bound = {outcome.mistakes / limit:.3f}"
        lines.append(_show_bound(each) + share)
    try:
        if plot is not None:
            save_figure(draw_examined(found), plot)
    finally:
        say("\n".join(lines))
