"""Menus from the lists of links in pages: each section of index.md is a part of the navigation."""

from __future__ import annotations

import re
from typing import Any

# The pages whose lists are menus, and how deep their entries unfold.
MENUS = {"index", "gallery"}


def list_sections(text: str) -> list[tuple[str, list[str]]]:
    """Return the title of every section, and an entry of a menu for each page that its list links to.

    A link to a section of a page is no entry.

    >>> list_sections("# A\\n\\n- [B b](b.md): x\\n\\n## C\\n\\n- [D](d.md)\\n- [E](e.md#f)\\n")
    [('', ['B b <b>']), ('C', ['D <d>'])]
    """
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        if line.startswith("## "):
            found.append((line[3:], []))
        elif link := re.match(r"- \[([^]]*)\]\(([a-z-]+)\.md\)", line):
            found[-1][1].append(f"{link[1]} <{link[2]}>")
    return [(title, pages) for title, pages in found if pages]


def add_menus(app: Any, page: str, source: list[str]) -> None:
    """Put a hidden table of contents for every list of links behind the text of a menu page."""
    if page not in MENUS:
        return
    for title, pages in list_sections(source[0]):
        caption = f":caption: {title}\n" if title else ""
        source[0] += f"\n```{{toctree}}\n:hidden:\n{caption}\n" + "\n".join(pages) + "\n```\n"


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", add_menus)
    return {"parallel_read_safe": True}
