"""The pages of the API: for each task of docs/api.py one with signatures, arguments and examples, from docstrings."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from api import DATA, TASKS, list_tasks

import gappletron

FOLDER = "generated"


def name_page(title: str) -> str:
    """Return the name of a task's page.

    >>> name_page("Choose a loss")
    'generated/choose-a-loss'
    """
    return f"{FOLDER}/{re.sub('[^a-z]+', '-', title.lower()).strip('-')}"


def describe(name: str) -> str:
    """Return the directive that documents a name."""
    value = getattr(gappletron, name)
    if name in DATA:
        return f".. data:: gappletron.{name}\n\n   {DATA[name].replace('`', '``')}\n"
    if not inspect.isclass(value):
        return f".. autofunction:: gappletron.{name}\n"
    if issubclass(value, BaseException):
        return f".. autoexception:: gappletron.{name}\n"
    if issubclass(value, gappletron.Piece) and name not in TASKS["Write your own components"]:
        return f".. autoclass:: gappletron.{name}\n"  # its methods are those of its family
    return f".. autoclass:: gappletron.{name}\n   :members:\n   :inherited-members: tuple\n"


def write_pages(app: Any) -> None:
    """Write a page for each task; one that is up to date is left alone, so that it is not read again."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    wanted = {f"{name_page(title)}.md" for title in list_tasks()}
    for old in folder.glob("*.md"):  # of tasks that are no more
        if f"{FOLDER}/{old.name}" not in wanted:
            old.unlink()
    for title, names in list_tasks().items():
        parts = "\n".join(describe(name) for name in names)
        text = f"# {title}\n\n```{{eval-rst}}\n{parts}```\n"
        page = Path(app.srcdir) / f"{name_page(title)}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def link_pages(app: Any, page: str, source: list[str]) -> None:
    """Link every section of the overview to its page."""
    if page != "api":
        return
    for title in list_tasks():
        link = f"[Signatures, arguments and examples]({name_page(title)}.md)"
        source[0] = source[0].replace(f"## {title}\n", f"## {title}\n\n{link}\n")
    pages = "\n".join(name_page(title) for title in list_tasks())
    source[0] += f"\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


def skip_member(app: Any, kind: str, name: str, member: Any, skip: bool, options: Any) -> bool:
    """Leave out what comes from other libraries."""
    home = getattr(getattr(member, "fget", member), "__module__", None) or "gappletron"
    return skip or not home.startswith(("gappletron", "builtins")) or name.endswith("_request")


def split_parameters(app: Any, kind: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Say of each of several arguments what a docstring says of all, as in `:param x, graph: as those of act`."""
    text = re.sub(
        r"^( *):param ([\w*]+(?:, [\w*]+)+):((?:.*)(?:\n\1 +.*)*)",
        lambda found: "\n".join(f"{found[1]}:param {one}:{found[3]}" for one in found[2].split(", ")),
        "\n".join(lines),
        flags=re.MULTILINE,
    )
    lines[:] = text.split("\n")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", link_pages)
    app.connect("autodoc-process-docstring", split_parameters)
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True}
