"""The pages and the captions as Jinja templates: all prose of the report that is not part of a claim."""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gappletron.paper.styles import label_learner

if TYPE_CHECKING:
    import jinja2


def render(name: str, **facts: Any) -> str:
    """Fill a template of this folder with facts; HTML is escaped in pages only."""
    return _environment().get_template(name).render(facts)


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.PackageLoader("gappletron.paper"),
        autoescape=lambda name: name is not None and name.endswith(".html.jinja"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        thousands=lambda number: f"{number:,.0f}",
        short=lambda number: f"{number:.4g}",
        count=lambda number: f"{number:,.0f}" if number >= 1000 else f"{number:.4g}",
        duration=_format_duration,
        label=label_learner,
        data_uri=lambda content, kind: f"data:image/{kind};base64,{base64.b64encode(content).decode()}",
        listed=list_words,
        numbers=list_numbers,
        interval=_format_interval,
        column=lambda results, name: sorted({getattr(result.outcome, name) for result in results}),
    )
    return found


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _format_interval(found: Any) -> str:
    """Return a share with its interval over the seeds of the data (:class:`gappletron.paper.sensitivity.Interval`)."""
    if found is None:
        return "–"
    return f"{found.mean:.0%}" + f" ({100 * found.low:.0f}–{100 * found.high:.0f})" * (found.seeds > 1)


def list_words(words: Sequence[str]) -> str:
    """Return words joined by commas and "and".

    >>> list_words(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


def list_numbers(values: Iterable[float]) -> str:
    """Return different numbers in ascending order, joined by commas and "and".

    >>> list_numbers([9, 6, 9, 0.5])
    '0.5, 6 and 9'
    """
    return list_words([f"{value:g}" for value in sorted(set(values))])
