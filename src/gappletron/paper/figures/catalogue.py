"""The list of all figures: their runs, and how they are drawn and saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gappletron.base import files
from gappletron.base.errors import UserError
from gappletron.base.text import unknown
from gappletron.paper.figures import bounds, grids
from gappletron.paper.figures.drawing import DPI, EMPTY, Drawn, Figure, Saved, make_page, mark_empty, use_figure_style
from gappletron.paper.results import Result, Task
from gappletron.paper.sweeps import ROUNDS, SWEEPS, list_tasks
from gappletron.paper.templates import list_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

ONLY_T = ("only-t",)


def _make(id: str, title: str, draw: Callable[..., Drawn | None], *sweeps: str, **options: Any) -> Figure:
    """Return a figure of these sweeps; by default of the one with the same id."""
    return Figure(id, title, draw, sweeps or (id,), **options)


def _make_grids(sweep: str, graph: str, best: int, only_t: int, theory: int) -> tuple[Figure, ...]:
    """Return the grids of a sweep with each learner's better tuning and with either, by their numbers in the paper."""
    grid_by_tuning = (
        ("best", "each learner with its better tuning", None, best),
        ("only-t", "all parameters 1 except T", ONLY_T, only_t),
        ("theory", "tuned by theory", ("theory",), theory),
    )
    return tuple(
        _make(f"{sweep}-{name}", f"{graph}, {words}", grids.draw_grid, sweep, tunings=tunings, paper=number)
        for name, words, tunings, number in grid_by_tuning
    )


# All figures, in the order of the report.
FIGURES: tuple[Figure, ...] = (
    _make(
        "bandit-intro",
        "Bandit graph, noisy labels, each learner with its better tuning",
        grids.draw_noisy_cells,
        "bandit",
        paper=1,
    ),
    *_make_grids("bandit", "Bandit graph", 2, 3, 4),
    *_make_grids("filtering", "Multiclass filtering", 8, 5, 6),
    _make("full", "Full information", grids.draw_grid, paper=7),
    _make("label-efficient", "Label efficient: mistakes and queries", grids.draw_queries),
    _make(
        "exploration",
        "Exploration: top-up compared with Algorithm 1 (paper)",
        grids.draw_exploration,
        "exploration",
        "filtering",
        "label-efficient",
        tunings=ONLY_T,
    ),
    _make("bounds", "Mistakes and the bounds of the theorems", bounds.draw_bounds),
    _make("lower-filtering", "The lower bound for filtering", bounds.draw_lower_filtering, many_lengths=True),
    _make("lower-full", "The lower bound for full information", bounds.draw_lower_full),
    _make(
        "lower-classes",
        "The lower bound for full information: a line in K",
        bounds.draw_lower_classes,
        many_lengths=True,
    ),
    _make("lower-both", "Both lower bounds on one filtering graph", bounds.draw_lower_both, many_lengths=True),
    _make("norms", "Another norm: exponentiated gradient on dense rows", bounds.draw_norms),
    _make("drift", "Dynamic regret: classes that change", bounds.draw_drift),
    _make("future", "Bandit feedback on data that may be separable", bounds.draw_future),
    _make(
        "decoded",
        "The learner whose bound has no K beside the best of the paper's learners",
        grids.draw_ours,
        *("decoded", "bandit", "filtering", "label-efficient", "full"),
        beyond=True,
    ),
    _make(
        "ours",
        "The default learner beside the best of the paper's learners",
        grids.draw_ours,
        *("ours", "bandit", "filtering", "label-efficient", "full"),
        beyond=True,
    ),
)


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
    with use_figure_style():
        found = figure.draw(figure, runs) if horizons else None
        if found is not None:
            return found
        page = make_page(figure.title, 1, 1, (5.0, 0.8))
        mark_empty(page.axes[0][0])
        page.axes[0][0].set_axis_off()
        return Drawn(page.picture, f"{figure.title}: {EMPTY}.")


def save(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG and as SVG, to `path` plus .png and .svg."""
    with use_figure_style():
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
