"""Writes docs/api.md: every public name with the first line of its docstring. Run it as `python docs/api.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

import gappletron

PAGE = Path(__file__).with_name("api.md")
DATA = {
    "UNSEEN": "In place of a label: the round is over, and the graph hid the label.",
    "Label": "What a class or an action may be called: `str`, `int`, `bool` or `None`.",
    "helper": "Marks a plain function that compiled methods call; interpreted, it is the function itself.",
}


def first_line(name: str) -> str:
    """The first sentence or two of a name's docstring."""
    return DATA.get(name) or (inspect.getdoc(getattr(gappletron, name)) or "").split("\n\n", maxsplit=1)[0].replace(
        "\n", " "
    )


def page() -> str:
    """The whole page."""
    lines = [
        "# Public names",
        "",
        "All of them are imported from `gappletron`. (This page is made by `python docs/api.py`.)",
        "",
        "| name | |",
        "|---|---|",
    ]
    for name in sorted(gappletron.__dir__(), key=str.lower):
        if name != "__version__":
            lines.append(f"| `{name}` | {first_line(name)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
