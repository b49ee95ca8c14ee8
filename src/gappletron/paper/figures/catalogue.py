"""The list of all figures: their runs, and how they are drawn and saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gappletron.base import files
from gappletron.base.errors import UserError
from gappletron.base.text import unknown
from gappletron.paper.figures.beyond import draw_ours
from gappletron.paper.figures.bounds import (
    draw_bounds,
    draw_lower_both,
    draw_lower_classes,
    draw_lower_filtering,
    draw_lower_full,
)
from gappletron.paper.figures.drawing import DPI, EMPTY, Drawn, Figure, Saved, make_page, our_settings
from gappletron.paper.figures.grids import draw_exploration, draw_grid, draw_noisy_cells, draw_queries
from gappletron.paper.figures.remarks import draw_drift, draw_future, draw_norms
from gappletron.paper.results import Result, Task
from gappletron.paper.sweeps import ROUNDS, SWEEPS, list_tasks
from gappletron.paper.templates import list_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

THEORY, ONLY_T = ("theory",), ("only-t",)


def _make(id: str, title: str, draw: Callable[..., Drawn | None], *sweeps: str, **options: Any) -> Figure:
    """Return a figure of these sweeps; by default of the one with the same id."""
    return Figure(id, title, draw, sweeps or (id,), **options)


FIGURES: tuple[Figure, ...] = (
    _make(
        "bandit-intro",
        "Bandit graph, noisy labels, each learner with its better tuning",
        draw_noisy_cells,
        "bandit",
        paper=1,
    ),
    _make("bandit-best", "Bandit graph, each learner with its better tuning", draw_grid, "bandit", paper=2),
    _make("bandit-only-t", "Bandit graph, all parameters 1 except T", draw_grid, "bandit", tunings=ONLY_T, paper=3),
    _make("bandit-theory", "Bandit graph, tuned by theory", draw_grid, "bandit", tunings=THEORY, paper=4),
    _make(
        "filtering-best", "Multiclass filtering, each learner with its better tuning", draw_grid, "filtering", paper=8
    ),
    _make(
        "filtering-only-t",
        "Multiclass filtering, all parameters 1 except T",
        draw_grid,
        "filtering",
        tunings=ONLY_T,
        paper=5,
    ),
    _make("filtering-theory", "Multiclass filtering, tuned by theory", draw_grid, "filtering", tunings=THEORY, paper=6),
    _make("full", "Full information", draw_grid, paper=7),
    _make("label-efficient", "Label efficient: mistakes and queries", draw_queries),
    _make(
        "exploration",
        "Exploration: top-up compared with Algorithm 1 (paper)",
        draw_exploration,
        "exploration",
        "filtering",
        "label-efficient",
        tunings=ONLY_T,
    ),
    _make("bounds", "Mistakes and the bounds of the theorems", draw_bounds),
    _make("lower-filtering", "The lower bound for filtering", draw_lower_filtering, many_lengths=True),
    _make("lower-full", "The lower bound for full information", draw_lower_full),
    _make("lower-classes", "The lower bound for full information: a line in K", draw_lower_classes, many_lengths=True),
    _make("lower-both", "Both lower bounds on one filtering graph", draw_lower_both, many_lengths=True),
    _make("norms", "Another norm: exponentiated gradient on dense rows", draw_norms),
    _make("drift", "Dynamic regret: classes that change", draw_drift),
    _make("future", "Bandit feedback on data that may be separable", draw_future),
    _make(
        "ours",
        "The default learner beside the best of the paper's learners",
        draw_ours,
        *("ours", "bandit", "filtering", "label-efficient", "full"),
        beyond=True,
    ),
)
"""All figures, in the order of the report."""


# ------------------------------------------------------------------------------------------------------------- the runs


def select_tasks(wanted: Iterable[str] = (), rounds: int = ROUNDS, repeats: int | None = None) -> list[Task]:
    """Return the runs of these figures or sweeps (ids), of all if none is given; each run once, sorted by id.

    >>> len(select_tasks(["full"], repeats=1)), len(select_tasks(["bandit-theory", "bandit-intro"], repeats=1))
    (162, 378)
    """
    ids = list(wanted)
    known = list(dict.fromkeys([*(sweep.id for sweep in SWEEPS), *(figure.id for figure in FIGURES)]))
    for name in ids:
        if name not in known:
            raise unknown(name, "figure", known)
    drawn = [figure for figure in FIGURES if not ids or figure.id in ids]
    found = {
        task.id: task
        for sweep in SWEEPS
        if sweep.id in ids or any(sweep.id in figure.sweeps for figure in drawn)
        for task in list_tasks(sweep, rounds, repeats)
        if sweep.id in ids or any(figure.shows(task) for figure in drawn)
    }
    return [found[key] for key in sorted(found)]


def list_missing(wanted: Iterable[str], present: Iterable[str]) -> list[str]:
    """Return the requested figures (all if none is given) that have no runs at this T.

    >>> list_missing(["full", "lower-full"], ["full"])
    ['lower-full']
    """
    ids, drawn = set(wanted), choose_drawable(wanted, present)
    return [figure.id for figure in FIGURES if figure not in drawn and (not ids or figure.id in ids)]


def choose_drawable(wanted: Iterable[str], present: Iterable[str]) -> list[Figure]:
    """Return the requested figures (all if none is given) whose sweeps are all present.

    >>> [figure.id for figure in choose_drawable(["filtering"], ["filtering"])]
    ['filtering-best', 'filtering-only-t', 'filtering-theory']
    """
    ids, there = set(wanted), set(present)
    return [
        figure
        for figure in FIGURES
        if there.issuperset(figure.sweeps) and (not ids or figure.id in ids or ids & set(figure.sweeps))
    ]


# --------------------------------------------------------------------------------------------------------- the pictures


def draw(figure: Figure, results: Sequence[Result]) -> Drawn:
    """Draw a figure from the results and describe it; runs of other sweeps are ignored."""
    runs = [result for result in results if result.task.sweep in figure.sweeps]
    horizons = sorted({result.task.rounds for result in figure.choose(runs)})
    if len(horizons) > 1 and not figure.many_lengths:
        lengths = list_words([f"{rounds:,}" for rounds in horizons])
        raise UserError(f"the runs of {figure.id!r} have T = {lengths}: draw the runs of one T at a time")
    with our_settings():
        found = figure.draw(figure, runs) if horizons else None
        return found or Drawn(make_page(figure.title, 1, 1, (5.0, 0.8)).mark_empty(), f"{figure.title}: {EMPTY}.")


def save(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG and as SVG, to `path` plus .png and .svg."""
    with our_settings():
        for kind in ("png", "svg"):
            files.save_figure(picture, f"{os.fspath(path)}.{kind}", dpi=DPI)


def draw_all(
    wanted: Sequence[str], results: Sequence[Result], folder: Path, notify: Callable[[str], None]
) -> list[Saved]:
    """Write the figures as PNG and SVG files, and remove those of an earlier command."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise files.cannot_write(folder, error.strerror or str(error)) from None
    drawn = choose_drawable(wanted, {result.task.sweep for result in results})
    for figure in FIGURES:
        if figure not in drawn:
            for kind in ("png", "svg"):
                (folder / f"{figure.id}.{kind}").unlink(missing_ok=True)
    found = []
    for figure in drawn:
        notify(figure.id)
        picture, caption = draw(figure, results)
        save(picture, folder / figure.id)
        found.append(Saved(figure, (folder / f"{figure.id}.svg").read_bytes(), caption))
    return found
