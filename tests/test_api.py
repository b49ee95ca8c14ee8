"""The public interface: what is exported, documented, typed, and how little `import gappletron` costs."""

from __future__ import annotations

import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import gappletron

ROOT = Path(__file__).resolve().parent.parent
PLAIN_DATA = {"UNSEEN", "Label", "__version__", "helper"}


NAMES = sorted(gappletron.__dir__())  # those of import *, and those that need River or scikit-learn


def test_everything_that_is_listed_is_there():
    assert {"Online", "UserError", "RiverClassifier", "__version__"} <= set(NAMES)
    for name in NAMES:
        getattr(gappletron, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_has_a_docstring_with_an_example(name):
    value = getattr(gappletron, name)
    if name in PLAIN_DATA:
        return
    assert inspect.getdoc(value), name
    families = [value, *getattr(value, "__mro__", [])]
    documented = [
        inspect.getdoc(cls) or "" for cls in families if getattr(cls, "__module__", "").startswith("gappletron")
    ]
    assert any(">>>" in text for text in documented), name


def test_public_methods_have_docstrings():
    for name in NAMES:
        value = getattr(gappletron, name)
        if inspect.isclass(value):
            for key, member in inspect.getmembers(value):
                if (
                    not key.startswith("_")
                    and callable(member)
                    and getattr(member, "__module__", "") == value.__module__
                ):
                    assert inspect.getdoc(member), f"{name}.{key}"


IMPORTING_ALL = """
from importlib.machinery import PathFinder

found = PathFinder.find_spec
hidden = {hidden}
PathFinder.find_spec = lambda name, *args: None if name.partition(".")[0] in hidden else found(name, *args)
from gappletron import *
print("Online" in globals(), "RiverClassifier" in globals())
"""


@pytest.mark.parametrize("hidden", [["river", "sklearn"], []])
def test_everything_can_be_imported_without_packages_that_are_optional(hidden):
    script = IMPORTING_ALL.format(hidden=hidden)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True False"  # what needs River or scikit-learn is not part of import *


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="nonsense"):
        gappletron.nonsense  # noqa: B018
    assert set(gappletron.__all__) <= set(dir(gappletron))


def modules_after(code: str) -> set[str]:
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_costs_next_to_nothing():
    assert not modules_after("import gappletron") & {
        "numpy",
        "numba",
        "scipy",
        "matplotlib",
        "sklearn",
        "rich",
        "typer",
    }


def test_playing_needs_neither_plots_nor_solvers():
    loaded = modules_after("import gappletron; gappletron.play('gapsmh', 'synthetic:T=100', 'bandit')")
    assert not loaded & {"matplotlib", "sklearn", "scipy.optimize", "rich", "typer", "networkx"}


def test_the_page_of_names_is_up_to_date():
    spec = importlib.util.spec_from_file_location("api_page", ROOT / "docs" / "api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run python docs/api.py"


def test_the_version_is_the_projects():
    import tomllib

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == gappletron.__version__
