"""``gappletron bound``: the theorems as numbers, for a learner or for a stored run."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.cli.options import GraphName, PlotOptions, PresetOptions, ResultOptions, given_options, option
from gappletron.cli.output import check_outputs, say

if TYPE_CHECKING:
    from gappletron import Bound, FeedbackGraph, Gappletron


@dataclass(frozen=True)
class BoundOptions:
    """What the theorems need to know."""

    rounds: int = option(100_000, "T.")
    max_norm: float = option(1.0, "X, the largest norm of the features.")
    radius: float | None = option(
        None, "B, the radius of the ball of the weights. Default: 1, or that of the optimizer of the stored run."
    )
    delta: float = option(0.05, "The allowed probability of failure.")
    run: str | None = option(
        None,
        "A stored run, by its id in results.csv: with its best comparator and its surrogate regret; --plot draws its "
        "mistakes with the bounds over them.",
        "--run",
        metavar="ID",
    )
    measure: int = option(
        0,
        "Also play so many runs on unit vectors, and print the mistakes over each bound. The default radius is then "
        "sqrt(K - 1), with which the vectors are separable.",
        metavar="RUNS",
    )


def show_bounds(
    graph: GraphName,
    preset: PresetOptions,
    options: BoundOptions,
    stored: ResultOptions,
    plot: PlotOptions,
    learner: Annotated[
        str | None, typer.Argument(metavar="[LEARNER]", help="A Gappletron: gapsmh, gaphin, gaplog2, gaplog.")
    ] = None,
) -> None:
    """Print the bound of every theorem of the paper, with the gamma of the theorem or for a stored run.

    The graph is bandit by default, with 4 classes (2 for apple-tasting).
    """
    if (learner is None) == (options.run is None):
        raise UserError(
            "expected a learner, as in `gappletron bound gapsmh`, or a stored run, --run ID: give one of them"
        )
    if options.run is not None:
        if given_options(graph, preset, options).keys() - {"run", "radius", "delta"}:
            raise UserError(
                "a stored run has its own graph, rounds and norm: with --run give only --results, --radius, "
                "--delta and --plot"
            )
        show_bounds_of_run(options.run, stored.results, options.radius, options.delta, plot.plot)
        return
    if plot.plot is not None:
        raise UserError("--plot is only for a stored run: name one with --run ID")
    if options.measure and options.max_norm != 1.0:
        raise UserError("--measure plays unit vectors, whose norm is 1: leave out --max-norm")
    from gappletron import Gappletron, ProjectedOGD, bounds, named
    from gappletron.base.checks import whole
    from gappletron.paper.measuring import tune_for_theorem
    from gappletron.paper.theory import THEOREMS

    rounds, max_norm, delta = options.rounds, options.max_norm, options.delta
    measure = whole(options.measure, "--measure")
    feedback = preset.open_alone(graph.graph or "bandit")
    chosen = named(learner or "")
    if not isinstance(chosen, Gappletron):
        raise UserError(f"the theorems are about Gappletron, not about {learner!r}: choose for example 'gapsmh'")
    ball = options.radius if options.radius is not None else math.sqrt(feedback.n_classes - 1.0) if measure else 1.0
    projected = chosen.replace(optimizer=ProjectedOGD(ball))
    numbers = f"T = {rounds:,}, X = {max_norm:g}, delta = {delta:g}"
    lines = [
        f"{projected.loss!r} with {projected.optimizer!r} on {feedback}, {numbers}",
        _constants(projected, feedback, max_norm),
    ]
    for position, theorem in enumerate(THEOREMS):
        player = tune_for_theorem(theorem, projected, feedback, max_norm, delta)
        bound = bounds(player, feedback, rounds=rounds, max_norm=max_norm, delta=delta)[position]
        gamma = getattr(player.exploration, "gamma", math.nan)
        lines.append(_bound_line(bound, f"{f'gamma = {gamma:.4g}' if theorem.tuning else '':16} "))
    if measure:
        with progress("playing") as show:
            lines += _measure(projected, feedback, rounds, measure, delta, show)
    say("\n".join(lines))


def _measure(
    learner: Gappletron,
    graph: FeedbackGraph,
    rounds: int,
    runs: int,
    delta: float,
    show: Callable[[int, int | None], None],
) -> list[str]:
    """Return a line for every theorem: the mistakes of runs on unit vectors over the bound on them."""
    from gappletron.paper.measuring import NOISE, measure, tune_for_theorem
    from gappletron.paper.theory import THEOREMS

    lines = [
        "",
        f"measured on unit vectors, {runs} runs, noise {NOISE:g} (none for separable theorems); the bounds include "
        "the loss of the best comparator",
    ]
    for position, theorem in enumerate(THEOREMS):
        show(position, len(THEOREMS))
        player = tune_for_theorem(theorem, learner, graph, 1.0, delta)
        found = measure(theorem, player, graph, rounds=rounds, repeats=runs, delta=delta, noise=NOISE)
        if isinstance(found, str):
            lines.append(f"{theorem.name:32} does not apply: it {found}")
        else:
            lines.append(
                f"{theorem.name:32} mistakes / bound = {found.tightness:.3f}: {found.mistakes:,.1f} mistakes in the "
                f"mean, {found.most:,} at most, bound {found.bound:,.1f}"
            )
    show(len(THEOREMS), len(THEOREMS))
    return lines


def _constants(learner: Gappletron, graph: FeedbackGraph, max_norm: float) -> str:
    """Return a line with the constants of the theorems."""
    from gappletron import Problem
    from gappletron.learners.gappletron import constants

    c = constants(learner, Problem(graph, max_norm=max_norm))
    return (
        f"constants: K = {graph.n_classes}, K' = {c.K:g}, rho = {c.rho}, Q = {max(1, len(graph.revealing_classes))}, "
        f"L = {c.L:.4g}, h = {c.h:.4g}, lmax = {c.lmax:.4g}"
    )


def _bound_line(bound: Bound, gamma: str = "") -> str:
    what = f"does not apply: it {bound.refusal}" if bound.refusal else f"{bound.statement}, value = {bound.value:,.1f}"
    return f"{bound.theorem:32} {gamma}{what}"


def _share(bound: Bound, mistakes: int, comparator: float) -> str:
    """Return the mistakes of a run over a bound on them, as the end of a line."""
    if bound.refusal:
        return ""
    return f", mistakes / bound = {mistakes / (bound.value + (0.0 if bound.separable else comparator)):.3f}"


def show_bounds_of_run(run: str, results: Path, radius: float | None, delta: float, plot: Path | None) -> None:
    """Print the bounds of a stored run beside its mistakes, and draw them."""
    from gappletron import read_results
    from gappletron.paper.measuring import examine

    check_outputs(plot=plot)
    stored = {result.task.id: result for result in read_results(results)}
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
        _constants(found.learner, graph, outcome.max_norm),
        f"best comparator with norm at most {found.radius:g} (--radius sets another): loss "
        f"{found.comparator.loss:,.1f} (the minimum is at most {found.comparator.gap:,.1f} lower)",
        f"mistakes {outcome.mistakes:,}, surrogate regret {found.regret:,.1f}",
        *(_bound_line(bound) + _share(bound, outcome.mistakes, found.comparator.loss) for bound in found.bounds),
    ]
    try:
        if plot is not None:
            from gappletron.base.files import save_figure
            from gappletron.paper.figures.bounds import draw_examined

            save_figure(draw_examined(found), plot)
    finally:
        say("\n".join(lines))
