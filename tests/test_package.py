"""What a release needs: the wheel and the sdist, packages that are really optional, and the files beside the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import gappletron

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def run_python(*arguments, cwd, path):
    """Run this Python, without the sources that are under test unless `path` names them."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(path), "HOME": str(cwd), "SYSTEMROOT": "C:\\Windows"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist, as a release builds them; made from a copy, since a build may leave files behind."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_is_the_sources_and_nothing_else(built):
    wheel, _ = built
    assert wheel.name == f"gappletron-{gappletron.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "gappletron").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == sources
    assert "gappletron/py.typed" in names


def test_the_sdist_has_what_tests_and_docs_need(built):
    _, sdist = built
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CITATION.cff", "pyproject.toml", "tests/reference.py", "docs/which.md"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith((".venv", "results", "shared"))]


def test_the_wheel_is_installed_and_works(built, tmp_path):
    wheel, _ = built
    place = tmp_path / "installed"
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", place]
    run_python("-m", "pip", "install", *options, wheel, cwd=tmp_path, path="")
    where = run_python("-c", "import gappletron; print(gappletron.__file__)", cwd=tmp_path, path=place)
    assert Path(where.strip()).is_relative_to(place)
    shown = run_python("-m", "gappletron", "--version", cwd=tmp_path, path=place)
    assert shown.strip() == f"gappletron {gappletron.__version__}"
    shown = run_python("-m", "gappletron", "learners", cwd=tmp_path, path=place)
    assert "gapsmh" in shown


SERVER = """
import sys
from importlib.machinery import PathFinder

hidden = {"matplotlib", "jinja2", "sklearn", "pandas", "pyarrow"}
found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *args: None if name.partition(".")[0] in hidden else found(name, *args)
from gappletron import *
from gappletron.service.app import create_app
from gappletron.service.models import HostedModel
from servers import Browser

graph = FeedbackGraph.filtering(["ham", "spam"])
with Online.open("mail.sqlite", graph=graph, encoder=Encoder(text="message"), monitor=True) as model:
    browser = Browser(create_app([HostedModel("mail", model)]))
    decision = browser.post("/v1/act", {"x": {"message": "win a prize", "links": 3}}).json
    feedback = {"label": "spam"} if decision["reveals"] else {"unseen": True}
    assert browser.post("/v1/learn", {"id": decision["id"], **feedback}).status == 200
    assert browser.post("/v1/act/batch", {"rows": [{"message": "hello"}, {"message": "a", "links": 1}]}).status == 200
    assert browser.post("/v1/predict", {"x": {"message": "hello"}}).json["class"] in ("ham", "spam")
    assert browser.get("/metrics").status == 200
    page = browser.get("/")
    print(page.status, page.body.decode(), end="")
assert not hidden & set(sys.modules)
"""


def test_a_server_needs_no_package_that_is_optional(tmp_path):
    shown = run_python("-c", SERVER, cwd=tmp_path, path=f"{ROOT / 'src'}:{ROOT / 'tests'}")
    assert shown == "501 this page needs jinja2, which the server does not have: pip install jinja2\n"


COMMAND = """
import sys
from importlib.machinery import PathFinder

found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *args: None if name.partition(".")[0] == sys.argv[1] else found(name, *args)
from gappletron.cli import run_command

assert run_command(sys.argv[2:]) == 2
"""


@pytest.mark.parametrize(
    ("module", "package", "command"),
    [
        ("pyarrow", "pyarrow", ["run", "t.csv", "--label", "y", "--graph", "full"]),
        ("sklearn", "scikit-learn", ["demo"]),
    ],
)
def test_a_missing_package_is_one_sentence_with_its_cure(tmp_path, module, package, command):
    (tmp_path / "t.csv").write_text("x,y\n1,a\n2,b\n")
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, module, *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"gappletron: this needs {module}, which is not installed: pip install {package}"
    )


def test_citation_and_recipe_say_what_the_project_says():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"] == gappletron.__version__
    assert citation["license"] == PROJECT["license"]
    recipe = re.sub(r"{%.*%}\n", "", (ROOT / "deploy" / "conda" / "meta.yaml").read_text())
    recipe = yaml.safe_load(re.sub(r"{{ *(\w+) *}}", r"\1", recipe))
    run = {Requirement(text.replace(" ", "", 1)) for text in recipe["requirements"]["run"]}
    wanted = {Requirement(text) for text in PROJECT["dependencies"]}
    assert run - {Requirement(f"python{PROJECT['requires-python']}")} == wanted


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_what_they_use(path):
    text = path.read_text()
    jobs = yaml.safe_load(text)["jobs"]
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert used
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets
    assert "password" not in text
    assert "secrets." not in text
