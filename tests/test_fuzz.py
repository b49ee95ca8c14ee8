"""The corpus of the fuzzer is replayed, interpreted and (the parser's) compiled with bounds checks; then it goes on for
some seconds. Hours of it: ``make stress``.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gappletron import interpreted
from problems import no_error_left

FUZZ = Path(__file__).parent / "fuzz"
sys.path.insert(0, str(FUZZ))

import targets  # noqa: E402

CASES = sorted(path for path in (FUZZ / "corpus").rglob("*") if path.is_file())
SECONDS = 3


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_the_corpus(name):
    """What was found, and what reaches as much of the code as the fuzzer ever reached."""
    cases = [path for path in CASES if path.parent.name == name]
    assert len(cases) > 5
    with interpreted(), no_error_left():
        for path in cases:
            targets.TARGETS[name](path.read_bytes())


def test_the_parsers_corpus_compiled_with_bounds_checks(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import targets\n"
        "for path in sys.argv[2:]: targets.svmlight(open(path, 'rb').read())\n"
        "print('done')"
    )
    cases = [str(path) for path in CASES if path.parent.name == "svmlight"]
    ran = subprocess.run(
        [sys.executable, "-c", code, str(FUZZ), *cases],
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)},  # not the code without checks
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-2000:]


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="needs atheris: pip install 'gappletron[fuzz]'")
@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_some_seconds_of_fuzzing(name, tmp_path):
    options = [f"-max_total_time={SECONDS}", f"-artifact_prefix={tmp_path}/", "-timeout=10"]
    # Not the resident memory: the system counts that of the process that started this one.
    options += ["-rss_limit_mb=0"]  # run.py limits the memory
    ran = subprocess.run(
        [sys.executable, FUZZ / "run.py", name, *options, tmp_path, FUZZ / "corpus" / name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]  # Python's exception is on the standard output
