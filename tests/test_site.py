"""The documentation site: it builds without a warning, and its links and anchors lead somewhere."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent


class Page(HTMLParser):
    """What a page of the site links to and can be linked to: addresses, anchors, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.anchors, self.loaded = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id":
                self.anchors.add(value)
            elif key == "href":
                (self.links if tag == "a" else self.loaded).append((tag, value))
            elif key == "src":
                self.loaded.append((tag, value))


def build(folder: Path) -> None:
    """Build the site as `make docs` does."""
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def list_dead_ends(site: Path) -> list[str]:
    """Links to files and anchors that are not there, and what would be loaded from elsewhere."""
    pages = {path: Page(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for tag, address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme in ("http", "https"):
                if tag != "a":
                    found.append(f"{path.name} loads {address}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file() and parts.scheme != "data":
                found.append(f"{path.name}: {address} is not there")
            elif tag == "a" and parts.fragment and target in pages and parts.fragment not in pages[target].anchors:
                found.append(f"{path.name}: {address} has no such anchor")
    return found


def test_the_site_builds_and_its_links_lead_somewhere(tmp_path):
    build(tmp_path)
    assert len(list(tmp_path.rglob("*.html"))) > 40
    assert list_dead_ends(tmp_path) == []
    search = (tmp_path / "searchindex.js").read_text(encoding="utf-8")
    assert "learn_many" in search


def test_dead_ends_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<p id="here"><a href="#there"><a href="b.html"><script src="https://x.org/y.js">')
    (tmp_path / "c.html").write_text('<a href="a.html#here"><a href="https://example.org">')
    assert len(list_dead_ends(tmp_path)) == 3
