"""The README and every page of the docs: their examples run, their commands work, their links lead somewhere."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import re
import shlex
from pathlib import Path

import pytest
import typer

from gappletron import __version__, cli, named, names
from problems import ended

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def kinds_and_blocks(page: Path) -> list[tuple[str, str]]:
    """The code blocks of a page, in their order: what kind each is, and its text."""
    return re.findall(r"^```([a-z]+)\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str) -> list[str]:
    return [text for found, text in kinds_and_blocks(page) if found == kind]


def pages_with(*kinds: str):
    return [pytest.param(page, id=page.name) for page in PAGES if any(blocks(page, kind) for kind in kinds)]


def comparable(text: str) -> list[list[str]]:
    """The words of every line, without those that depend on the machine: times, and progress."""
    lines, timed = [], False
    for line in text.splitlines():
        timed = line.endswith("ns per round") or (timed and bool(line.strip()))
        if not re.match(r"(compiling|reading|playing|predicting|teaching)\b", line):
            lines.append(line.split()[: -1 if timed else None])
    return lines


def run_commands(block: str) -> None:
    """Run the commands of a console block; where output is shown, it is what the command prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        assert command.startswith("gappletron ")
        code, out, err = ended(*shlex.split(command)[1:], compiled=True)
        assert code == 0, f"{command}\n{err}"
        if shown.strip():
            assert comparable(err + out) == comparable(shown.rstrip("\n")), command


@pytest.mark.parametrize("page", pages_with("python", "console"))
def test_code_and_commands_run(page, tmp_path, monkeypatch):
    """In the order of the page, in one folder: what an example writes, a later one may read.

    An `output` block shows what the Python block before it prints. Each block of the README stands alone.
    """
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    printed = ""
    for number, (kind, text) in enumerate(kinds_and_blocks(page)):
        if page.name == "README.md":
            (tmp_path / str(number)).mkdir()
            monkeypatch.chdir(tmp_path / str(number))
            names = {"__name__": "__main__"}
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as caught:
                exec(compile(text, str(page), "exec"), names)
            printed = caught.getvalue()
        elif kind == "output":
            assert comparable(printed) == comparable(text)
        elif kind == "console":
            assert text.startswith("$ ")
            run_commands(text)


@pytest.mark.parametrize("page", pages_with("pycon"))
def test_sessions_show_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = "\n".join(block.rstrip("\n") + "\n" for block in blocks(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    assert test.examples
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert outcome.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not link.startswith("https://"):
            assert (page.parent / link).exists(), link


def test_every_page_is_in_the_navigation():
    """The lists of index.md and of the gallery are the menus of the site."""
    listed = [
        page
        for menu in ("index", "gallery")
        for page in re.findall(r"^- \[[^]]+\]\(([a-z-]+)\.md\)", menu_text(menu), re.M)
    ]
    assert sorted(listed) == sorted(page.stem for page in (ROOT / "docs").glob("*.md") if page.stem != "index")


def menu_text(name: str) -> str:
    path = ROOT / "docs" / f"{name}.md"
    return path.read_text() if path.exists() else ""


def test_the_reference_of_the_command_line_names_every_option():
    """In the section of the command, or on a page that it links to; options may be those of `run`."""
    text = (ROOT / "docs" / "command-line.md").read_text()
    sections = {name: part for part in text.split("\n## ") for name in re.findall(r"^`gappletron ([a-z]+)", part)}
    for name, command in typer.main.get_command(cli.app).commands.items():
        said = sections.get(name, sections["reproduce"] if name == "export" else "")
        said += "".join((ROOT / "docs" / page).read_text() for page in re.findall(r"\]\(([a-z-]+\.md)", said))
        said += sections["run"] if "`run`" in said else ""
        for part in getattr(command, "commands", {"": command}).values():
            options = {option for each in part.params for option in each.opts if option.startswith("--")}
            assert [option for option in sorted(options) if not re.search(rf"{option}(?![a-z-])", said)] == [], name


def test_pages_cite_this_version_and_install_from_a_clone():
    """Nothing is on an index of packages yet."""
    assert f"version = {{{__version__}}}" in (ROOT / "docs" / "cite.md").read_text()
    for page in PAGES:
        assert not re.search(r"pip install ['\"]?gappletron", page.read_text()), page.name


def test_the_readmes_commands_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "README.md").read_text())) <= targets


def test_the_architecture_page_names_every_module_and_dependency():
    import tomllib

    text = (ROOT / "docs" / "architecture.md").read_text()
    picture = text[text.index("cli  ") :].partition("```")[0]
    for path in (ROOT / "src" / "gappletron").iterdir():
        if path.stem not in ("__init__", "__main__", "__pycache__", "py"):
            assert path.stem in picture, path.stem
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        assert re.search(rf"^\| {re.match('[a-z0-9-]+', requirement)[0]}\b", text, re.MULTILINE)


def test_the_table_of_learners_is_up_to_date():
    spec = importlib.util.spec_from_file_location("learners_page", ROOT / "docs" / "learners.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.PAGE.read_text(encoding="utf-8")
    assert text == module.page(), "run python docs/learners.py"
    made = text[text.index(module.BEGIN) : text.index(module.END)]
    assert re.findall(r"^\| `(\S+)` \|", made, flags=re.MULTILINE) == names()
    for name in names():
        assert f"| `{name}` | {named(name).setting} | `" in made
        assert f"| {named(name).reference} |" in made


def test_the_formulas_of_learners_are_full_rows():
    """The remarks that are written by hand are about learners that exist, in their order."""
    text = (ROOT / "docs" / "learners.md").read_text()
    section = text[text.index("## Formulas and choices") : text.index("## The two tunings")]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    described = [row[0].strip(" `") for row in rows]
    assert described == [name for name in names() if name in described] != []
    for _, formula, cost, paper, _ in rows:
        assert formula
        assert cost.startswith("O(")
        assert paper


def test_outputs_are_shown_and_compared():
    """The README shows what its commands print, and a table of a run is among it."""
    shown = "".join(blocks(ROOT / "README.md", "console"))
    assert shown.count("$ ") == 1
    assert "mean error" in shown
    assert comparable("a  ns per round\nx  12\n\ny 3") == [["a", "ns", "per"], ["x"], [], ["y", "3"]]
