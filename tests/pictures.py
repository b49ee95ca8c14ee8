"""Runs that never happened, and what a picture of them shows: shared by the tests of the figures."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import numpy as np

from gappletron.kernel.spelling import encode_piece, to_json
from gappletron.paper.figures import catalogue
from gappletron.paper.figures.catalogue import FIGURES, select_tasks
from gappletron.paper.results import Outcome, Result
from gappletron.paper.runner import choose_marks, tune_learner

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from gappletron.paper.figures.drawing import Figure
    from gappletron.paper.results import Task

BY_ID = {figure.id: figure for figure in FIGURES}


def result_of(
    task: Task,
    mistakes: int,
    labels_seen: int = 0,
    curve: list[tuple[int, int]] | None = None,
    comparator: float | None = None,
) -> Result:
    rounds, made = zip(*(curve or [(t, mistakes * t // task.rounds) for t in choose_marks(task.rounds)]), strict=True)
    norm = 4.0 if task.stream.startswith("synthetic") else float(task.pieces.stream.max_norm or 0.0)
    return Result(
        task,
        Outcome(
            json.dumps(to_json(encode_piece(tune_learner(task)))),
            norm,
            mistakes,
            labels_seen,
            0,
            0,
            mistakes / task.rounds,
            0.0,
            1.0,
            comparator,
            None if comparator is None else 0.0,
            json.dumps([rounds, made]),
            "",
            "",
            "",
            0.1,
            "",
        ),
    )


def faked(task: Task, rng: random.Random) -> Result:
    """A run that never happened: any numbers, of the right kind."""
    at = choose_marks(task.rounds)
    share = rng.uniform(0.01, 0.9)
    curve = [(t, round(share * t)) for t in at]
    seen = rng.randint(1, max(1, curve[-1][1]))
    lost = (
        None
        if task.sweep != "bounds"
        else 0.0
        if task.noise == 0.0 and "log" not in task.learner
        else 0.1 * task.rounds
    )
    return result_of(task, curve[-1][1], seen, curve, lost)


def fakes(*figures: str, rounds: int = 1000, repeats: int = 3, seed: int = 0) -> list[Result]:
    rng = random.Random(seed)
    return [faked(task, rng) for task in select_tasks(figures, rounds, repeats)]


def draw(figure: Figure, results: list[Result]) -> Picture:
    return catalogue.draw(figure, results).picture


def caption(figure: Figure, results: list[Result]) -> str:
    return catalogue.draw(figure, results).caption


def panels(picture: Picture) -> list[Axes]:
    return picture.get_axes()


def lines(ax: Axes, label: str) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        tuple(np.asarray(data, float) for data in line.get_data())
        for line in ax.get_lines()
        if line.get_label() == label
    ]
