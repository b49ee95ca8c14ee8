"""Public names in code font become links to their reference: `Online`, `Online.act`, `play(...)`."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref

import gappletron

NAMES = set(gappletron.__dir__())


def find_target(text: str) -> str | None:
    """Return what a name in code font refers to.

    >>> find_target("Online.act(x)"), find_target("FixedOGD(rate=0.1)"), find_target("model.act")
    ('gappletron.Online.act', 'gappletron.FixedOGD', None)
    """
    found = re.fullmatch(r"(?:gappletron\.)?(\w+)(\.\w+)?(\(.*\))?", text)
    return f"gappletron.{found[1]}{found[2] or ''}" if found and found[1] in NAMES else None


def link_names(app: Any, document: nodes.document) -> None:
    """Turn names of a page into references; those that no page documents stay as they are."""
    page = app.env.docname
    for literal in list(document.findall(nodes.literal)):
        target = find_target(literal.astext())
        inside = literal.parent
        while inside is not None and not isinstance(inside, nodes.reference | nodes.title | pending_xref):
            inside = inside.parent
        if target is None or inside is not None:
            continue
        link = pending_xref(
            "", refdoc=page, refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=False
        )
        literal.replace_self(link)
        link += literal


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True}
