"""Runs the paper under every reading, and writes ``sensitivity.html`` with its heat map."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from gappletron.base import files
from gappletron.base.progress import View
from gappletron.paper import templates
from gappletron.paper.figures.drawing import DPI, our_settings
from gappletron.paper.runner import complete
from gappletron.paper.sensitivity import (
    BASE_SETTING,
    FILE,
    SETTINGS,
    Interval,
    Size,
    Tally,
    average_share,
    compute_interval,
    count_claims,
    count_held,
    list_stages,
    summarise,
    to_json,
)
from gappletron.paper.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

QUESTIONS = {
    "rounds": "T",
    "constant": "L",
    "norm": "X",
    "gamma": "only-T γ",
    "root": "SOBAdiag's rate",
    "banditron": "Banditron",
    "least_b": "b",
    "plane": "L and T",
}
"""The axes, as columns of the page."""


def draw_heat_map(found: Tally) -> Picture:
    """Draw claims by settings: the colour is the share of cells in which the rule is true.

    A dot marks that the claim holds, which is with more than half of the seeds of the data.
    """
    from matplotlib.figure import Figure as Picture

    claims, settings = found.claims(), found.settings()
    with our_settings():
        height, width = 0.22 * len(claims) + 3.2, 0.22 * len(settings) + 3.6
        picture = Picture(figsize=(width, height), dpi=DPI)
        ax = picture.add_axes((2.9 / width, 2.55 / height, 1.0 - 3.5 / width, 1.0 - 3.1 / height))
        shares = [
            [
                found.share(claim.id, setting).mean if found.of(claim.id, setting) else float("nan")
                for setting in settings
            ]
            for claim in claims
        ]
        image = ax.imshow(shares, cmap="viridis", vmin=0.0, vmax=1.0, aspect="auto", interpolation="none")
        held = [
            (x, y)
            for y, claim in enumerate(claims)
            for x, setting in enumerate(settings)
            if found.of(claim.id, setting) and found.held(claim.id, setting) > 0.5
        ]
        if held:
            ax.plot(*zip(*held, strict=True), linestyle="none", marker="o", markersize=3.2, color="#cc3311")
        ax.set_xticks(range(len(settings)), [setting.label for setting in settings], rotation=90, fontsize=7.0)
        ax.set_yticks(range(len(claims)), [claim.id for claim in claims], fontsize=7.0)
        ax.tick_params(length=0)
        for place in range(1, len(settings)):
            if settings[place].axis != settings[place - 1].axis:
                ax.axvline(place - 0.5, color="white", linewidth=2.5)
        ax.set_title("Share of cells in which each claim's rule is true; a dot: the claim holds", fontsize=10.0)
        bar = picture.add_axes((1.0 - 0.42 / width, 2.55 / height, 0.12 / width, 1.0 - 3.1 / height))
        picture.colorbar(image, cax=bar).ax.tick_params(labelsize=7.0)
    return picture


def _average_along(found: Tally, claim: str, axis: str) -> Interval | None:
    """Return the mean share along an axis, with its interval over those seeds that all settings of the axis have."""
    counts = [found.of(claim, setting) for setting in found.settings(claim) if setting.axis in ("base", axis)]
    if len(counts) < 2:
        return None
    # Settings with fewer seeds, those with the most rounds, are left out where others have more.
    seeds = max(map(len, counts))
    complete = [some for some in counts if len(some) == seeds]
    return compute_interval([sum(some[place].share for some in complete) / len(complete) for place in range(seeds)])


def render(found: Tally, picture: bytes) -> str:
    """Return the HTML page, with the heat map as PNG."""
    return templates.render(
        "sensitivity.html.jinja",
        study=summarise(found),
        questions=QUESTIONS,
        axes={
            claim.id: {axis: _average_along(found, claim.id, axis) for axis in QUESTIONS} for claim in found.claims()
        },
        picture="data:image/png;base64," + base64.b64encode(picture).decode(),
        held_by_seed=_count_by_seed(found),
        settings=[(some, count_held(found, some), average_share(found, some)) for some in found.settings()],
        seeds=max(len(found.of(claim.id, BASE_SETTING)) for claim in found.claims()),
        repeats=found.repeats,
    )


def _count_by_seed(found: Tally) -> list[int]:
    """Return the number of claims that hold at the base, for each seed of the data."""
    counts = [(claim.share, found.of(claim.id, BASE_SETTING)) for claim in found.claims()]
    return [
        sum(least <= some[place].share <= most for (least, most), some in counts)
        for place in range(min(len(some) for _, some in counts))
    ]


def write_page(found: Tally, folder: str | os.PathLike[str]) -> None:
    """Write ``sensitivity.html`` and ``sensitivity.png`` to a folder."""
    with our_settings():
        files.save_figure(draw_heat_map(found), Path(folder) / "sensitivity.png", dpi=DPI)
    page = render(found, (Path(folder) / "sensitivity.png").read_bytes())
    with files.replacing(Path(folder) / "sensitivity.html") as file:
        file.write(page.encode())


def carry_out_sensitivity(
    out: str | os.PathLike[str],
    size: Size,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    in_flight: Callable[[], int] | None = None,
    view: View | None = None,
) -> Tally:
    """Run the paper's experiments under every reading, and write ``sensitivity.json``, ``.html`` and ``.png``."""
    view = view or View()
    with Store(out) as store:
        results = complete(store, list_stages(SETTINGS, size), jobs, executor, in_flight, view)
        view.drawing("sensitivity")
        found = count_claims(results, SETTINGS, size)
        with files.replacing(Path(out) / FILE) as file:
            file.write(to_json(found, size).encode())
        write_page(found, out)
    return found
