"""Writes the table of docs/learners.md that follows from the code. Run it as `python docs/learners.py`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from gappletron import named, names
from gappletron.cli.learners import _parameters

PAGE = Path(__file__).with_name("learners.md")
BEGIN, END = "<!-- begin of the table made by `python docs/learners.py` -->\n", "<!-- end of the table -->\n"


def table() -> str:
    """Every learner's name, feedback, parameters, summary, what happens to a new class, and reference."""
    lines = [
        "| name | feedback | parameters | what it is | a class added later starts with | reference |",
        "|---|---|---|---|---|---|",
    ]
    for name in names():
        learner = named(name)
        summary = (inspect.getdoc(type(learner)) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
        cells = [
            f"`{name}`",
            learner.setting,
            f"`{_parameters(learner)}`",
            summary,
            learner.new_class,
            learner.reference,
        ]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page, with the table of today."""
    text = PAGE.read_text(encoding="utf-8")
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: BEGIN + table() + END, text, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
