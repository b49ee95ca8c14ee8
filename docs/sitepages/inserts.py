"""Parts of pages that are made from the code: a page says `<!-- made: NAME -->` where one stands on the site."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"


def show_changelog() -> str:
    """Return the changelog without its title, with links from docs/."""
    text = CHANGELOG.read_text(encoding="utf-8").partition("\n")[2]
    return text.replace("](docs/", "](")


MAKERS: dict[str, Callable[[], str]] = {"changelog": show_changelog}


def insert_parts(app: Any, page: str, source: list[str]) -> None:
    """Put what is made in the place of its comment."""
    source[0] = re.sub(r"<!-- made: ([a-z]+) -->", lambda found: MAKERS[found[1]](), source[0])


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", insert_parts)
    return {"parallel_read_safe": True}
