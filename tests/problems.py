"""Pieces, graphs and small streams that several tests share, with the names that `reference.py` gives them."""

from __future__ import annotations

import contextlib
import gc
import io
import math
import sys

import numpy as np
import pytest

from gappletron import (
    UNSEEN,
    AdaGrad,
    AdaptiveOGD,
    FeedbackGraph,
    FixedOGD,
    Hinge,
    LogisticBase2,
    LogisticBaseK,
    Online,
    Paper,
    ProjectedOGD,
    ScaleFreeFTRL,
    SmoothHinge,
    TopUp,
    UserError,
    cli,
    named,
)
from gappletron.kernel.compiling import in_mode
from gappletron.kernel.numerics import Row, lanes_for
from gappletron.kernel.state import Sizes, State

LOSSES = {
    "smooth hinge": SmoothHinge(),
    "hinge": Hinge(),
    "logistic base K": LogisticBaseK(),
    "logistic base 2": LogisticBase2(),
}

OPTIMIZERS = {
    "adaptive ogd": (AdaptiveOGD(0.7), {"scale": 0.7}),
    "projected ogd": (ProjectedOGD(1.5), {"radius": 1.5}),
    "fixed ogd": (FixedOGD(0.05, 0.8), {"rate": 0.05, "radius": 0.8}),
    "adagrad": (AdaGrad(0.3), {"rate": 0.3}),
    "scale-free ftrl": (ScaleFreeFTRL(2.0), {"radius": 2.0}),
}

EXPLORATIONS = {"top-up": TopUp, "paper": Paper}

# No rounds to mark in the tally of a run.
NO_MARKS = np.zeros(0, np.int64)
NO_MARKS.flags.writeable = False
GRAPHS = {
    "bandit": FeedbackGraph.bandit(5),
    "bandit of two": FeedbackGraph.bandit(2),
    "full": FeedbackGraph.full(4),
    "filtering": FeedbackGraph.filtering(4),
    "filtering by the last": FeedbackGraph.filtering(3, revealing=2),
    "apple tasting": FeedbackGraph.apple_tasting(),
    "label efficient": FeedbackGraph.label_efficient(4),
    "disease prevention": FeedbackGraph.disease_prevention(4),
}


def random_graph(rng: np.random.Generator, classes: int, extra: int = 0, density: float = 0.35) -> FeedbackGraph:
    """A random feedback graph in which every class can be observed."""
    visible = rng.random((classes + extra, classes)) < density
    for y in range(classes):
        if not visible[:, y].any():
            visible[rng.integers(classes + extra), y] = True
    return FeedbackGraph(visible)


def state_of(piece, features: int, classes: int, actions: int | None = None) -> State:
    """The state that a learner, an optimizer or an exploration rule declares."""
    return State(piece.declare(), Sizes(features, classes, classes if actions is None else actions))


def row_of(x, classes: int) -> Row:
    """A dense vector as the sparse row that methods take: its entries that are not 0."""
    x = np.asarray(x, float)
    (indices,) = np.nonzero(x)
    return sparse_row(indices, x[indices], classes)


def sparse_row(indices, values, classes: int) -> Row:
    """A sparse row of these entries, zeros included."""
    values = np.asarray(values, float)
    squared = math.fsum(value * value for value in values)
    return Row(np.asarray(indices, np.int32), values, 0, values.size, squared, lanes_for(classes))


def small_stream(rng: np.random.Generator, rounds: int, features: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Sparse rows, some of them empty; labels follow a rule, mostly.

    Scores tie exactly at the start, on empty rows and between classes not yet seen. The values are no round numbers:
    two orders of summation would else disagree by a rounding error on scores that tie only in exact arithmetic.
    """
    X = rng.normal(size=(rounds, features)) * (rng.random((rounds, features)) < 0.6)
    X[rng.random(rounds) < 0.05] = 0
    rule = rng.normal(size=(features, classes))
    y = np.where(rng.random(rounds) < 0.15, rng.integers(0, classes, rounds), np.argmax(X @ rule, axis=1))
    return X, y


def play_one_at_a_time(
    learner, graph: FeedbackGraph, X: np.ndarray, y: np.ndarray, seed: int
) -> tuple[list[int], np.ndarray]:
    """Act and learn at once, round by round; the actions, and W (d x K)."""
    model = Online(learner, graph, features=X.shape[1], seed=seed, normalize=None, bias=False)
    actions = []
    for row, label in zip(X, y, strict=True):
        receipt = model.act(row)
        actions.append(graph.action_index(receipt.action))
        name = graph.classes[label]
        model.learn(receipt, name if name in receipt.reveals else UNSEEN)
    return actions, model.weights


CONTRACT_GRAPHS = [
    FeedbackGraph.bandit(4),
    FeedbackGraph.bandit(2),
    FeedbackGraph.full(3),
    FeedbackGraph.filtering(3, revealing=1),
    FeedbackGraph.label_efficient(3),
    random_graph(np.random.default_rng(5), 5),
    random_graph(np.random.default_rng(6), 4, 2),
]
"""What the contract tests play: every kind of graph that some learner asks for."""


def playable(name: str) -> list[FeedbackGraph]:
    """Those of them that a registered learner can play."""
    return [graph for graph in CONTRACT_GRAPHS if named(name).refusal(graph) is None]


@contextlib.contextmanager
def no_error_left(*kinds: type[BaseException]):
    """Nothing inside leaves a UserError, or one of these kinds, to the garbage collector.

    That happens where a frame still holds in a variable the error that it has raised: then all arrays of the frames
    that the error went through wait as well. Files that were refused filled the memory so.
    """
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [repr(found) for found in gc.garbage if isinstance(found, kinds or UserError)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left, left


def ended(*arguments, compiled: bool = False, columns: int | None = None):
    """The exit code, standard output and standard error of a command, run in this process, by default as plain
    Python, and as wide as it likes.
    """
    out, err = (
        io.TextIOWrapper(io.BytesIO(), "utf-8"),
        io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace"),
    )
    with (
        pytest.MonkeyPatch.context() as patch,
        in_mode(interpreted=not compiled),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["gappletron", *map(str, arguments)])
        if columns is None:
            patch.delenv("COLUMNS", raising=False)
        else:
            patch.setenv("COLUMNS", str(columns))
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    # What is compiled, as the readers of files are in any case, depends on the tests before.
    texts[1] = "".join(line for line in texts[1].splitlines(keepends=True) if not line.startswith("compiling "))
    return code, *texts
