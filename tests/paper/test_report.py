"""The report: complete, self-contained, and right in a real browser, on a desk and on a phone."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import re
import shutil
import subprocess
import threading
from html.parser import HTMLParser

import pytest

from gappletron.paper.claims import CLAIMS, OURS
from gappletron.paper.evidence import FAILS, HOLDS, UNKNOWN
from gappletron.paper.figures.catalogue import FIGURES
from gappletron.paper.report import render
from gappletron.paper.reproduce import reproduce

SAID = HOLDS, FAILS, UNKNOWN
TABLES = ("sweeps", "claims-table", "tightness", "upper-bounds", "lower-bounds", "times-table", "table-1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    reproduce(out, rounds=300, repeats=2)
    return out


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_one_file_holds_everything(folder):
    text = (folder / "report.html").read_text()
    elements = Elements()
    elements.feed(text)
    ids = [attributes["id"] for _, attributes in elements.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {f"figure-{figure.id}" for figure in FIGURES} <= set(ids)
    assert {f"claim-{claim.id}" for claim in CLAIMS} <= set(ids)
    assert set(TABLES) <= set(ids)
    pictures = [attributes for tag, attributes in elements.seen if tag == "img"]
    assert len(pictures) == len(FIGURES)
    assert all(picture["alt"] and picture["src"].startswith("data:image/svg+xml;base64,") for picture in pictures)
    # Nothing from outside, and no script.
    links = [value for _, attributes in elements.seen for key, value in attributes.items() if key in ("src", "href")]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert "script" not in {tag for tag, _ in elements.seen}
    assert "T = 300" in text
    # The first screen: as stated (counted and tested), under the best reading, and whether that is robust.
    head = text[: text.index('id="figures"')]
    for words in ("as the paper states it", "under other readings", "cannot be told at this size", "--sensitivity"):
        assert words in head, words
    assert head.count("test: ") == len(CLAIMS)
    assert "holds under none" not in text  # "robust: yes: holds under none" was no sentence
    # What is said of the claims comes after the warning that T is small, with the number of tests, and Holm's counts.
    said = head[head.index("T = 300 is small") : head.index("</p>", head.index("Holm"))]
    count, tests = (
        re.search(r"(\d+) of (\d+) claims of the paper hold", said),
        re.search(r"These are (\d+) tests", said),
    )
    assert int(count[2]) == sum(claim.source != OURS for claim in CLAIMS)
    rows = re.findall(r'<tr id="claim-([a-z-]+)".*?test: ([a-z ]+)', head, re.DOTALL)
    assert len(rows) == len(CLAIMS)
    words = [word for name, word in rows if not name.startswith("ours-") and word != "not about means"]
    assert int(tests[1]) == len(words)
    counts = re.findall(r"“([a-z ]+)”: (\d+)", said)  # of the tests alone, then with Holm's adjustment
    assert [(word, int(count)) for word, count in counts[:3]] == [(word, words.count(word)) for word in SAID]
    assert sum(int(count) for _, count in counts[3:]) == len(words)
    assert all(int(held) <= words.count(word) for word, held in counts[3:5])
    # The bounds without K have rows of their own, beside those of the paper.
    tight = text.split('<table id="tightness">')[1].split("</table>")[0]
    assert [name for name in ("decoded", "decoded-margin") if f"<td>{name}</td>" not in tight] == []
    # First a square for each claim, which says in words what its colour says, and the paper's first figure; then prose.
    strip, rest = text[text.index("<h1>") :].split("</dl>", 1)
    assert re.findall(r'href="#claim-(.*?)"', strip) == [claim.id for claim in CLAIMS]
    assert len(re.findall(r'<span class="spoken">[a-z-]+: holds', strip)) == len(CLAIMS)
    assert rest.index('id="figure-bandit-intro"') < rest.index("<p>The experiments of")


def test_every_claim_links_to_a_figure_that_shows_its_runs(folder):
    text = (folder / "report.html").read_text()
    figures = {figure.id: figure for figure in FIGURES}
    for claim in CLAIMS:
        row = text.split(f'<tr id="claim-{claim.id}">')[1].split("</tr>")[0]
        linked = [figures[name] for name in re.findall(r'href="#figure-(.*?)"', row)]
        assert linked
        for needed in claim.needs:
            sweep, _, tuning = needed.partition(":")
            assert any(sweep in each.sweeps and (not tuning or each.tunings == (tuning,)) for each in linked), needed
    assert "The constant L" in text[text.index('id="choices"') :]


@pytest.mark.parametrize("studied", [True, False])
def test_the_sensitivity_run_is_told_or_said_to_be_missing(studied):
    from gappletron.paper.claims import judge_claims
    from gappletron.paper.figures.catalogue import select_tasks
    from gappletron.paper.results import Result, Summary
    from gappletron.paper.runner import execute
    from gappletron.paper.sensitivity import PAPER_CLAIMS, Count, Tally

    results = [Result(task, execute(task)) for task in select_tasks(["full"], rounds=20, repeats=1)]
    counts = {claim.id: {"base": (Count(1, 9),), "norm=mean": (Count(9, 9),)} for claim in PAPER_CLAIMS}
    summary = Summary(results)
    study = Tally(counts, 3, {"full-separated": "does not hold"}) if studied else None
    page = render(results, summary, judge_claims(summary), [], study)
    assert ("was not run" in page) is not studied
    assert ("the largest number of claims holds with X the mean norm" in page) is studied
    assert ("Does not hold at the base; holds with X the mean norm. Test over" in page) is studied


def test_both_kinds_of_pictures(folder):
    for figure in FIGURES:
        assert (folder / "figures" / f"{figure.id}.png").read_bytes().startswith(b"\x89PNG")
        svg = (folder / "figures" / f"{figure.id}.svg").read_text()
        assert "<svg" in svg
        assert not re.findall(r'(?:href|src)="http', svg)


def test_ours_has_a_section_after_the_paper_s_figures(folder):
    text = (folder / "report.html").read_text()
    figures, beyond = text.split('<section id="figures">')[1].split("</section>")[:2]
    assert "<h2>Beyond the paper</h2>" in beyond
    assert re.findall(r'<figure id="figure-(.*?)"', beyond) == ["decoded", "ours"]
    assert re.findall(r'<figure id="figure-(.*?)"', figures) == [figure.id for figure in FIGURES[1:-2]]
    assert "auto is not in the paper." in beyond
    assert beyond.count("<tr><td>") == 4 * 9 + 3 * 27 + 9
    assert "auto" not in text.split('<section id="claims">')[1].split("</section>")[0]


def test_no_section_without_ours(tmp_path):
    reproduce(tmp_path, figures=["lower-full"], rounds=30, repeats=1)
    assert "beyond" not in (tmp_path / "report.html").read_text()


# One of each kind of drawing: those of the paper's grids are drawn by the same code, and all are drawn above. The one
# beyond the paper needs the runs of nearly all others.
KINDS = [figure.id for figure in FIGURES if not figure.beyond and (figure.paper is None or figure.paper in (1, 3, 7))]


@pytest.mark.parametrize("figure", KINDS)
def test_a_figure_alone_makes_a_report(tmp_path, figure):
    reproduce(tmp_path, figures=[figure], rounds=100, repeats=1)
    text = (tmp_path / "report.html").read_text()
    assert f'id="figure-{figure}"' in text
    assert [path.name for path in sorted((tmp_path / "figures").iterdir())] == [f"{figure}.png", f"{figure}.svg"]
    assert "is violated" not in text


def test_a_part_of_the_figures_makes_a_report_too(tmp_path):
    reproduce(tmp_path, figures=["full"], rounds=40, repeats=1)
    text = (tmp_path / "report.html").read_text()
    assert 'id="figure-full"' in text
    assert 'id="figure-bounds"' not in text
    assert "No bounds are about the requested figures." in text


@pytest.mark.parametrize("repeats", [2, 3])
def test_the_number_of_probes_is_that_of_the_runs(tmp_path, repeats):
    reproduce(tmp_path, figures=["lower-filtering"], rounds=60, repeats=repeats)
    text = " ".join((tmp_path / "report.html").read_text().split())
    assert f"averaged over the repeats of the sweep ({repeats} runs)." in text


@contextlib.contextmanager
def served(folder):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


# The report in a frame as wide as a phone; what a reader would see of it is written into the page around it.
LOOK = """<!doctype html><iframe id="frame" src="report.html" style="width:{width}px;height:800px;border:0"></iframe>
<pre id="seen"></pre><script>
const frame = document.getElementById("frame");
frame.onload = async () => {{
  const page = frame.contentDocument;
  const pictures = [...page.images];
  await Promise.all(pictures.map(picture => picture.decode().catch(() => 0)));
  const shown = element => element &&
    element.getClientRects().length > 0 && element.getBoundingClientRect().height > 20;
  document.getElementById("seen").textContent = JSON.stringify({{
    title: page.title,
    drawn: pictures.map(picture => [picture.closest("figure").id, picture.naturalWidth > 100 && shown(picture)]),
    tables: [...page.querySelectorAll("table[id]")]
      .map(table => [table.id, shown(table), table.tBodies[0].rows.length]),
    claims: page.querySelectorAll("tr[id^=claim-] .badge").length,
    sideways: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    small: [...page.querySelectorAll("p, td, li, dd")].filter(
      element => parseFloat(frame.contentWindow.getComputedStyle(element).fontSize) < 12).length,
  }});
}};
</script>"""


@pytest.mark.parametrize("width", [1200, 390])
def test_in_a_browser(folder, tmp_path, width):
    browser = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if browser is None:
        pytest.skip("no Chromium on this machine")
    (folder / f"look-{width}.html").write_text(LOOK.format(width=width))
    with served(folder) as address:
        shown = subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={tmp_path}",
                "--window-size=1300,900",
                "--virtual-time-budget=30000",
                "--dump-dom",
                f"{address}/look-{width}.html",
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        ).stdout
    seen = json.loads(re.search(r'<pre id="seen">(.*?)</pre>', shown, re.DOTALL)[1])
    assert seen["title"] == "Gappletron: the paper's experiments"
    assert seen["drawn"] == [[f"figure-{figure.id}", True] for figure in FIGURES]
    assert {name: fine for name, fine, _ in seen["tables"]} == dict.fromkeys(TABLES, True)
    assert all(rows for _, _, rows in seen["tables"])
    assert seen["claims"] == len(CLAIMS)
    assert seen["sideways"] <= 0  # nothing sticks out: wide things scroll in a box of their own
    assert seen["small"] == 0
