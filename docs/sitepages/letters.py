"""Letters of formulas within a line: `x_t` in a sentence is shown with its index below, `y*` with its star above."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

LETTER = re.compile(
    r"(?<![\w.-])(?P<base>[A-Za-zα-ωΑ-Ω]′?|max|min|Σ|log|ln)_(?P<index>\{[^{}]+\}|[A-Za-z0-9]{1,2})(?![\w-]|\.\w)"
    r"|(?<![\w*])(?P<starred>[yl])\*"
    r"|(?<=[\w)}])\^(?P<power>\([^()]+\)|−?\w+)"
)


def split_letters(text: str) -> list[nodes.Node]:
    """Return the parts of a text, with indices below and stars and powers above the line; none if it has none of them.

    >>> [part.astext() for part in split_letters("if x_t and y* are in sms_spam") if part.astext()]
    ['if ', 'x', 't', ' and ', 'y', '*', ' are in sms_spam']
    >>> [part.astext() for part in split_letters("2^−j, T^(1/3) of X_t/d.") if part.astext()]
    ['2', '−j', ', T', '1/3', ' of ', 'X', 't', '/d.']
    >>> split_letters("min_propensity of sms_spam")
    []
    """
    parts: list[nodes.Node] = []
    end = 0
    for found in LETTER.finditer(text):
        parts.append(nodes.Text(text[end : found.start()]))
        base = found["base"] or found["starred"] or ""
        parts.append(nodes.emphasis("", base) if 0 < len(base) < 3 else nodes.Text(base))
        if found["power"]:
            parts.append(nodes.superscript("", found["power"].strip("()")))
        elif found["index"]:
            below = found["index"].strip("{}")
            parts.append(nodes.subscript("", "", *(split_letters(below) or [nodes.Text(below)])))
        else:
            parts.append(nodes.superscript("", "*"))
        end = found.end()
    return [*parts, nodes.Text(text[end:])] if parts else []


def set_letters(app: Any, document: nodes.document) -> None:
    """Set the letters of all sentences; code, titles and formulas stay as they are."""
    closed = nodes.literal | nodes.literal_block | nodes.title | nodes.math | nodes.math_block | nodes.raw
    for text in list(document.findall(nodes.Text)):
        inside = text.parent
        while inside is not None and not isinstance(inside, closed):
            inside = inside.parent
        if inside is None and (parts := split_letters(text.astext())):
            text.parent.replace(text, parts)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-read", set_letters)
    return {"parallel_read_safe": True}
