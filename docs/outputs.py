"""Writes into pages what their Python blocks print: each block marked `output` is made by the Python block before it.

python docs/outputs.py first-filter why ...
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def play_page(page: Path) -> tuple[dict[str, Any], str]:
    """Run the Python blocks of a page; return their names, and the page with what they print."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""

    def play_block(found: re.Match[str]) -> str:
        nonlocal printed
        if found[1] == "output":
            return f"```output\n{printed}```"
        with contextlib.redirect_stdout(io.StringIO()) as caught:
            exec(compile(found[2], str(page), "exec"), names)
        printed = caught.getvalue()
        return found[0]

    text = re.sub(r"^```(python|output)\n(.*?)^```$", play_block, page.read_text("utf-8"), flags=re.M | re.S)
    return names, text


def main() -> None:
    """Write the outputs of the pages that are named."""
    for name in sys.argv[1:]:
        page = HERE / f"{name}.md"
        _, text = play_page(page)
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
