"""The documentation site: it builds without a warning, and its links and anchors lead somewhere."""

from __future__ import annotations

import doctest
import functools
import importlib
import json
import re
import shutil
import subprocess
import sys
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

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


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


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


def test_the_site_builds_and_its_links_lead_somewhere(site):
    assert len(list(site.rglob("*.html"))) > 60
    assert list_dead_ends(site) == []


LOOK = """<!doctype html><pre id="seen">waiting</pre><script>
const seen = {sideways: [], found: 0, menu: 0};
async function open(address, width) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 800px; border: 0`;
  const loaded = new Promise(done => frame.onload = done);
  frame.src = address;
  document.body.append(frame);
  await loaded;
  return frame;
}
async function look() {
  for (const page of PAGES) for (const width of [390, 1300]) {
    const frame = await open(page, width), root = frame.contentDocument.documentElement;
    if (root.scrollWidth > width) seen.sideways.push([page, width, root.scrollWidth]);
    frame.remove();
  }
  const start = await open("index.html", 1300);
  seen.menu = start.contentDocument.querySelectorAll(".sidebar-tree a.internal").length;
  const search = await open("search.html?q=learn_many", 1300);
  for (let wait = 0; wait < 100 && !seen.found; wait++) {
    await new Promise(done => setTimeout(done, 100));
    seen.found = search.contentDocument.querySelectorAll("#search-results li").length;
  }
}
look().catch(error => seen.error = String(error)).finally(
  () => document.getElementById("seen").textContent = JSON.stringify(seen));
</script>"""


def test_in_a_browser(site, tmp_path):
    """On a phone and on a desk no page is wider than the screen; the menu has all pages, and the search finds some."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((found for name in names if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no Chromium on this machine")
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if "_static" not in path.parts)
    (site / "look.html").write_text(LOOK.replace("PAGES", json.dumps(pages)), encoding="utf-8")
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
        command += ["--virtual-time-budget=120000", "--dump-dom", f"http://127.0.0.1:{server.server_port}/look.html"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
        server.shutdown()
    seen = json.loads(re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)[1])
    assert "error" not in seen
    assert seen["sideways"] == []
    assert seen["menu"] >= len(list((ROOT / "docs").glob("*.md"))) - 1
    assert seen["found"] > 0


def test_examples_of_the_sites_own_code(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    for path in sorted((ROOT / "docs" / "sitepages").glob("*.py")):
        assert doctest.testmod(importlib.import_module(f"sitepages.{path.stem}")).failed == 0, path.name


def test_dead_ends_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<p id="here"><a href="#there"><a href="b.html"><script src="https://x.org/y.js">')
    (tmp_path / "c.html").write_text('<a href="a.html#here"><a href="https://example.org">')
    assert len(list_dead_ends(tmp_path)) == 3
