"""Settings of the whole suite: reproducible Hypothesis, and the shared data where it lies beside the project."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from stores import MEMORY, start_postgres

# The same examples in every run: a failure is a failure of the change, not of the day.
settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=80
)
settings.load_profile("suite")

# What is compiled is compiled where it is used: no process of one test goes on in the next. Those of
# tests/play/test_start.py ask for another process.
os.environ["GAPPLETRON_BACKGROUND"] = "0"
# What commands print in a test is as wide as it likes, whatever terminal the tests run in. readline, which pytest
# imports, sets the variable for child processes without telling os.environ: only what was set there is taken away.
os.environ["COLUMNS"] = ""
del os.environ["COLUMNS"]

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real streams."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real streams are not beside this checkout (../shared/data)")
    return folder


@pytest.fixture
def memory_path():
    """A folder in memory, where there is one: for tests that open a store hundreds of times."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(params=["sqlite", "postgres"])
def new_place(request, tmp_path):
    """A function that returns a place for a new store: a file of SQLite, then a schema of PostgreSQL."""
    names = (f"store-{number}.sqlite" for number in itertools.count())
    return (lambda: str(tmp_path / next(names))) if request.param == "sqlite" else start_postgres().make_place


@pytest.fixture
def place(new_place):
    """A place for a new store, in both databases."""
    return new_place()
