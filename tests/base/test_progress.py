"""What a sweep shows while it runs, told in names and numbers alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gappletron.base import progress
from gappletron.base.progress import View, sweep_view

if TYPE_CHECKING:
    import pytest

RUNS = [("bandit", 100), ("bandit", 100), ("full", 50), ("full", 50)]


def test_progress_imports_nothing_of_the_package() -> None:
    """It is the lowest layer: also for type checkers."""
    tree = ast.parse(Path(progress.__file__).read_text())
    imported = [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    ]
    assert imported
    assert not [name for name in imported if name is None or name.startswith("gappletron")]


def told(view: View) -> None:
    view.compiling(1, 3)
    view.left_out(["lower-full"])
    view.begun(RUNS, RUNS[1:])
    view.finished("bandit", 100)
    view.finished("full", 50)
    view.finished("full", 50)
    view.drawing("full")


def test_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with sweep_view(lambda: None) as view:
        told(view)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "compiling: 1 of 3 loops"
    assert lines[1] == "lower-full: no runs with so few rounds, skipped"
    assert lines[2] == "1 of 4 runs are already stored"
    assert [re.sub("about .* left", "about 1 s left", line) for line in lines[3:6]] == [
        f"{done} of 4 runs, about 1 s left" for done in (2, 3, 4)
    ]
    assert lines[6:] == ["drawing full"]


def test_bars() -> None:
    from rich.console import Console
    from rich.progress import Progress

    with Progress("{task.description}", console=Console(quiet=True)) as bars:
        told(progress.SweepView(bars, lambda: None))
        _, *rows = bars.tasks
        assert [(row.description, row.total, row.completed, row.fields["runs"]) for row in rows] == [
            ("bandit", 100, 100, "2/2 runs"),
            ("full", 100, 100, "2/2 runs"),
            ("drawing full", 200, 200, "4/4 runs"),
        ]


def test_nothing_is_said_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    told(View())
    assert capsys.readouterr() == ("", "")
