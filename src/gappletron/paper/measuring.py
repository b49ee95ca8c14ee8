"""Compares runs with the theorems one by one: ``gappletron bound --run`` and ``gappletron bound --measure``.

:func:`examine` finds the best comparator in hindsight for a stored run, and :func:`measure` plays a stream for a
theorem.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from gappletron.base.errors import UserError
from gappletron.base.text import read_numbers
from gappletron.data.open import open_stream
from gappletron.data.stream import Stream
from gappletron.data.synthetic import UnitVectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.graphs.open import open_graph
from gappletron.kernel.compiling import source_hash
from gappletron.learners.decoded import DecodedLogistic
from gappletron.learners.gappletron import Gappletron
from gappletron.learners.optimizers import FixedOGD
from gappletron.paper.comparator import best_comparator
from gappletron.paper.remarks import Signs, Turning
from gappletron.paper.results import Result, Setup
from gappletron.paper.runner import find_stream
from gappletron.paper.theorems import DELTA, Examined, Measured, apply_comparator, compute_bounds
from gappletron.paper.theory import MOVING, SINGLE, Bound, Proved, Theorem, bounds, list_theorems
from gappletron.paper.tuning import tuned
from gappletron.play.runs import play

# -------------------------------------------------------------------------------------------------------- a stored run

# The streams of the paper's remarks, by the first word of their names; all others are opened by their names.
REMARK_STREAMS: dict[str, Callable[..., Stream]] = {"signs": Signs, "turning": Turning}


def read_setup(result: Result) -> Setup:
    """Return the pieces of a stored run, from its texts: the learner as it was tuned, the graph and the stream."""
    name, _, probes = result.task.stream.partition(",turned=quietest,repeats=")
    kind, numbers = read_numbers(name)
    stream = REMARK_STREAMS[kind](*numbers.values()) if kind in REMARK_STREAMS else open_stream(name)
    graph = open_graph(result.task.graph, result.task.classes)
    return Setup(result.learner, graph, stream, probes=int(probes) if probes else None)


def examine(
    result: Result,
    radius: float | None = None,
    delta: float = DELTA,
    progress: Callable[[int, int | None], None] | None = None,
) -> Examined:
    """Find the best comparator in hindsight for a run, in the ball of its optimizer or in one of this radius.

    For the hinge the comparator depends on the run, through the case split at the learner's weights, so the run is
    played again.
    """
    task = result.task
    if result.outcome.sources != source_hash():
        raise UserError(
            f"{task.id!r} was run with other sources of gappletron, so it cannot be played again: run "
            "`gappletron reproduce` again first"
        )
    learner = result.learner
    if not isinstance(learner, Proved):
        raise UserError(
            f"the theorems are about Gappletron, and {task.id!r} is a run of {task.learner}: choose "
            "one of gapsmh, gaphin, gaplog2, gaplog or decoded-logistic"
        )
    reach = learner.optimizer.reach()
    if radius is not None and radius > reach:
        raise UserError(
            f"the optimizer of this run keeps the weights in a ball of radius {reach:g}, and the bounds hold for "
            "comparators in that ball: give a smaller --radius, or none"
        )
    ball = radius if radius is not None else 1.0 if math.isinf(reach) else reach
    task = dataclasses.replace(task, setup=read_setup(result))
    result = dataclasses.replace(result, task=task)
    graph, stream, skipped = task.pieces.graph, find_stream(task), None
    if learner.loss.has_case_split:
        again = play(learner, stream, graph, repeats=[task.repeat], seed=task.seed, losses=True, curve="every")[0]
        assert again.curve.loss_sum is not None
        skipped = np.diff(again.curve.loss_sum, prepend=0.0) == 0.0
    comparator = best_comparator(learner.loss, stream, graph, ball, skipped=skipped, progress=progress)
    every = compute_bounds(result, delta, None if isinstance(learner, Gappletron) else ball)
    found = [apply_comparator(bound, comparator.loss, comparator.gap) for bound in every]
    return Examined(result, learner, ball, comparator, found)


# ------------------------------------------------------------------------------------------------------- a new run

# The label noise where a theorem does not need separable data.
NOISE = 0.05


def measure(
    theorem: Theorem,
    learner: Proved,
    graph: FeedbackGraph,
    *,
    rounds: int,
    repeats: int,
    delta: float,
    radius: float | None = None,
) -> Measured | str:
    """Play unit vectors with a learner that a theorem applies to; noise-free if the theorem needs separable data.

    A text says why the theorem does not apply. As in the report, the comparator of the hinge ignores the case split.

    :param radius: B, for a learner whose weights are in no ball.

    >>> from gappletron import FeedbackGraph, Gappletron, ProjectedOGD
    >>> from gappletron.paper.theory import THEOREMS
    >>> learner, graph = Gappletron(optimizer=ProjectedOGD(2**0.5)), FeedbackGraph.full(3)
    >>> found = measure(THEOREMS[4], learner, graph, rounds=500, repeats=2, delta=0.05)
    >>> 0.0 < found.tightness < 1.0
    True
    """
    stream = UnitVectors(graph.n_classes, 0.0 if theorem.separable else NOISE, rounds)
    stream.classes = graph.classes
    place = list_theorems(learner).index(theorem)

    def compute_bound(**measured: float) -> Bound:
        return bounds(learner, graph, rounds=rounds, max_norm=1.0, delta=delta, radius=radius, **measured)[place]

    bound, reach = compute_bound(), learner.optimizer.reach() if radius is None else radius
    if bound.refusal is None:
        comparator = best_comparator(learner.loss, stream, graph, 1.0 if math.isinf(reach) else reach)
        bound = apply_comparator(bound, comparator.loss, comparator.gap)
    if bound.refusal is not None:
        return bound.refusal
    runs = play(learner, stream, graph, repeats=repeats, losses=True)
    added = 0.0 if theorem.separable else comparator.loss
    limits = [compute_bound(blind_rounds=run.blind_rounds, loss_sum=run.loss_sum or 0.0).value + added for run in runs]
    return Measured.compute(theorem.name, [run.mistakes for run in runs], limits)


def tune_for_theorem(
    theorem: Theorem,
    learner: Proved,
    graph: FeedbackGraph,
    max_norm: float,
    delta: float,
    *,
    rounds: int,
    radius: float | None = None,
) -> Proved:
    """Return the learner with the gamma of a theorem, or with the fixed rate that it is about.

    :param rounds, radius: T and B, for the theorems of :class:`gappletron.DecodedLogistic`.
    """
    if isinstance(learner, DecodedLogistic):
        tuning = {MOVING: "moving", SINGLE: "high-probability"}.get(theorem, "theory")
        return tuned(learner, tuning, graph, rounds=rounds, max_norm=max_norm, radius=radius, delta=delta)
    if theorem.fixed_rate:
        L = learner.loss.smoothness(graph.n_classes, max_norm)
        return learner.replace(optimizer=FixedOGD(1.0 / (2.0 * L), learner.optimizer.reach()))
    if theorem.tuning is None:
        return learner
    return tuned(learner, theorem.tuning, graph, max_norm=max_norm, delta=delta)
