"""The commands of the service's pages work in their order, and the files in deploy/ name options that exist."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gappletron.cli import serve
from problems import ended
from servers import served
from stores import start_postgres

ROOT = Path(__file__).resolve().parents[2]


def commands(name: str) -> str:
    """What the blocks of commands of a page say, in their order."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / name).read_text(), re.MULTILINE | re.DOTALL))


def run_commands(script: str, folder: Path) -> str:
    """What a shell prints; commands that fail end it, also HTTP errors."""
    if shutil.which("bash") is None or shutil.which("curl") is None:
        pytest.skip("the commands of the page need bash and curl")
    programs = folder / "bin"
    programs.mkdir()
    for name, command in {
        "gappletron": f"exec {shlex.quote(sys.executable)} -m gappletron",
        "python3": f"exec {shlex.quote(sys.executable)}",
        "curl": f"exec {shutil.which('curl')} --silent --show-error --fail-with-body",
    }.items():
        (programs / name).write_text(f'#!/bin/sh\n{command} "$@"\n')
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    script = f"set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tutorial(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    printed = run_commands(commands("deploy.md").replace("8080", str(port)), tmp_path)
    looks = re.findall(r"(filter|trial): (\d+) mails, (\d+) labels seen, error ([\d.]+), between ([\d.]+) and", printed)
    assert [(name, int(rounds)) for name, rounds, *_ in looks] == [
        ("filter", 1001),
        ("filter", 1001),
        ("filter", 2001),
        ("trial", 1000),
    ]
    assert looks[0] == looks[1]  # after the crash
    for _, _, seen, error, low in looks:
        assert int(seen) > 0
        assert float(low) <= float(error) <= 1.0
    assert 'gappletron_error_estimate{figure="high",model="filter",of="policy"}' in printed
    assert len((tmp_path / "decisions.csv").read_text().splitlines()) == 1002


def test_the_commands_of_the_reference(tmp_path):
    options = ["--graph", "filtering", "--classes", "ham,spam", "--text", "message"]
    with served(tmp_path / "mail", *options) as (address, _):
        script = commands("service.md") + commands("http.md")
        printed = run_commands(script.replace("http://127.0.0.1:8080", address), tmp_path)
    assert '"learned":1' in printed
    assert '"predictions":[' in printed
    assert printed.endswith('{"status":"ok"}')


def test_two_machines(tmp_path):
    script = commands("high-availability.md")
    url = "postgresql://gappletron@db.example/models"
    assert url in script
    script = script.replace(url, f"'{start_postgres().make_place()}'")
    with contextlib.ExitStack() as taken:
        free = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        for port, found in zip((8080, 8081, 8082), free, strict=True):
            script = script.replace(str(port), str(found.getsockname()[1]))
    printed = run_commands(script, tmp_path)
    assert '"following":{"mail":{"rounds":0,' in printed
    assert re.search(r"gappletron-lag: rounds=\d, seconds=0\.\d+", printed)
    assert "follows the model 'mail' and changes nothing" in printed
    first, second = re.findall(r"(\d+) rounds; the longest took ([\d.]+) seconds", printed)
    assert (int(first[0]), int(second[0])) == (101, 401)
    assert float(second[1]) < 20.0
    assert "this server leads now, from round" in printed
    assert '"class":' in printed


def test_the_constraints_of_the_image_fit_the_dependencies():
    """Every dependency of the service, and of the build, is pinned with hashes to a version that is allowed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = {}
    for entry in re.split(
        r"\n(?=\S)", re.sub(r"^#.*\n", "", (ROOT / "deploy" / "constraints.txt").read_text(), flags=re.M)
    ):
        name, version, rest = re.match(r"([\w.-]+)==([\w.]+)(.*)", entry, re.DOTALL).groups()
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", rest)) >= 1, name
        pinned[canonicalize_name(name)] = version
    needed = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["serve"]
    for text in needed + project["build-system"]["requires"]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), text


@pytest.mark.parametrize("name", ["gappletron.service", "Dockerfile"])
def test_deployed_options_exist(name):
    text = (ROOT / "deploy" / name).read_text()
    started = text[text.index("ExecStart=" if name.endswith("service") else "ENTRYPOINT") :].partition("\n\n")[0]
    options = set(re.findall(r"--[a-z-]+", started.partition("LoadCredential")[0]))
    assert {"--token-file"} <= options
    code, out, _ = ended("serve", "--help")
    assert code == 0
    assert options - {"--help"} <= set(re.findall(r"--[a-z-]+", out))


def test_every_option_is_in_the_reference():
    """The table of the page has all options of the command, and no others."""
    _, out, _ = ended("serve", "--help")
    known = set(re.findall(r"^\s+(--[a-z-]+)", out, re.MULTILINE)) - {"--help"}
    text = (ROOT / "docs" / "service.md").read_text()
    table = text[text.index("| option |") : text.index("SIGTERM and Ctrl-C")]
    assert set(re.findall(r"`(--[a-z-]+)", table)) == known
    assert serve.serve.__doc__
