"""``sensitivity.html`` and its heat map: what each verdict depends on, from the counts of the sensitivity run only."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gappletron.base import files
from gappletron.paper.claims import Claim
from gappletron.paper.drawing import DPI, our_settings
from gappletron.paper.sensitivity import (
    SEEDS,
    SETTINGS,
    Interval,
    Tally,
    best,
    best_by_share,
    flips,
    held_claims,
    interval,
    mean_share,
    robust,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

__all__ = ["heat_map", "render", "write_page"]

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


def heat_map(found: Tally) -> Picture:
    """Claims by settings: the colour is the share of cells in which the rule is true, a dot marks that the claim holds.

    "Holds" is with more than half of the seeds of the data.
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


class Row(NamedTuple):
    """A claim on the page: its intervals at the base and along each axis, and the sentence about what flips it."""

    claim: Claim
    base: Interval
    axes: Mapping[str, Interval | None]
    best: Interval | None
    sentence: str
    robust: bool | None
    word: str | None


def rows(found: Tally, words: Mapping[str, str]) -> list[Row]:
    """One row per claim. Along an axis the shares of its settings, the base included, are averaged for each seed."""
    most = best(found)
    return [
        Row(
            claim,
            found.share(claim.id, SETTINGS[0]),
            {axis: _along(found, claim.id, axis) for axis in QUESTIONS},
            found.share(claim.id, most) if found.of(claim.id, most) else None,
            flips(found, claim.id),
            robust(found, claim.id),
            words.get(claim.id),
        )
        for claim in found.claims()
    ]


def _along(found: Tally, claim: str, axis: str) -> Interval | None:
    """The mean share along an axis, with its interval over those seeds that all settings of the axis have."""
    counts = [
        found.of(claim, setting)
        for setting in (SETTINGS[0], *(one for one in SETTINGS if one.axis == axis))
        if found.of(claim, setting)
    ]
    if len(counts) < 2:
        return None
    # Settings with fewer seeds, those with the most rounds, are left out where others have more.
    seeds = max(map(len, counts))
    complete = [some for some in counts if len(some) == seeds]
    return interval([sum(some[place].share for some in complete) / len(complete) for place in range(seeds)])


def render(found: Tally, words: Mapping[str, str], picture: bytes) -> str:
    """The HTML page, with the heat map as PNG."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(interval=_shown)
    template = environment.from_string(
        resources.files(__package__).joinpath("sensitivity.html.jinja").read_text(encoding="utf-8")
    )
    most, settings = best(found), found.settings()
    claims = found.claims()
    return template.render(
        rows=rows(found, words),
        questions=QUESTIONS,
        picture="data:image/png;base64," + base64.b64encode(picture).decode(),
        best=most,
        held_best=held_claims(found, most),
        held_base=held_claims(found, SETTINGS[0]),
        held_by_seed=_held_by_seed(found, claims),
        claims=len(claims),
        settings=[(setting, held_claims(found, setting), mean_share(found, setting)) for setting in settings],
        by_share=best_by_share(found),
        seeds=max(len(found.of(claim.id, SETTINGS[0])) for claim in claims),
        all_seeds=len(SEEDS),
        repeats=found.repeats,
    )


def _held_by_seed(found: Tally, claims: Sequence[Claim]) -> list[int]:
    """The number of claims that hold at the base, for each seed of the data."""
    counts = [(claim.share, found.of(claim.id, SETTINGS[0])) for claim in claims]
    return [
        sum(least <= some[place].share <= most for (least, most), some in counts)
        for place in range(min(len(some) for _, some in counts))
    ]


def _shown(found: Interval | None) -> str:
    """A share with its interval, in percent.

    >>> from gappletron.paper.sensitivity import Interval
    >>> _shown(Interval(0.5, 0.4, 0.6, 5)), _shown(Interval(0.5, 0.0, 1.0, 1)), _shown(None)
    ('50% (40–60)', '50%', '–')
    """
    if found is None:
        return "–"
    return f"{found.mean:.0%}" + f" ({100 * found.low:.0f}–{100 * found.high:.0f})" * (found.seeds > 1)


def write_page(found: Tally, words: Mapping[str, str], folder: str | os.PathLike[str]) -> None:
    """Write ``sensitivity.html`` and ``sensitivity.png`` to a folder."""
    with our_settings():
        files.save_figure(heat_map(found), Path(folder) / "sensitivity.png", dpi=DPI)
    page = render(found, words, (Path(folder) / "sensitivity.png").read_bytes())
    with files.replacing(Path(folder) / "sensitivity.html") as file:
        file.write(page.encode())
