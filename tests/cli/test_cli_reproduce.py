"""`gappletron reproduce`, `export` and `bound --run` as a user meets them: what they print, and how they stop."""

from __future__ import annotations

import csv
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from problems import ended

COMMAND = [sys.executable, "-m", "gappletron"]
HINGE = "bounds/full/unit-vectors:K=3,noise=0.05,T=500/gaphin,top-up,projected-ogd:radius=1.414214/00"
BASELINE = "lower-full/full/fresh:K=3,B=2,T=500/perceptron/00"


def process(*arguments, cwd):
    """The exit code, standard output and standard error of a process."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder in which a small part was reproduced."""
    folder = tmp_path_factory.mktemp("here")
    code, out, err = process(
        "reproduce", "--figure", "bounds", "--figure", "lower-full", "--rounds", 500, "--repeats", 1, cwd=folder
    )
    assert code == 0, err
    assert out.splitlines()[-1].endswith("runs; the report is results/report.html")
    return folder


def test_it_leaves_what_it_says(here):
    left = sorted(path.name for path in (here / "results").iterdir())
    assert left == ["figures", "report.html", "results.csv", "results.sqlite"]
    assert sorted(path.name for path in (here / "results" / "figures").iterdir()) == [
        "bounds.png",
        "bounds.svg",
        "lower-full.png",
        "lower-full.svg",
    ]


def test_again_it_plays_nothing(here):
    code, _, err = process(
        "reproduce", "--figure", "lower-full", "--rounds", 500, "--repeats", 1, "--jobs", 1, cwd=here
    )
    assert code == 0
    assert "runs are already stored" in err


def test_everything_is_selected_summarised_and_judged_once(tmp_path, monkeypatch, capsys):
    from gappletron.cli import reproduce
    from gappletron.paper import claims, sensitivity
    from gappletron.paper.figures import catalogue
    from gappletron.paper.results import Summary

    assert sensitivity.PAPER_CLAIMS  # imported before the claims are replaced below

    listed, judged, summarised = [], [], []
    real_tasks, real_init = catalogue.list_tasks, Summary.__init__

    def tasks(sweep, *numbers):
        listed.append(sweep)
        return real_tasks(sweep, *numbers)

    def init(self, results):
        some = list(results)
        summarised.append(len(some))
        real_init(self, some)

    def test(summary):
        judged.append(summary)
        yield claims.Check("everywhere", True, "")

    monkeypatch.setattr(catalogue, "list_tasks", tasks)
    monkeypatch.setattr(Summary, "__init__", init)
    monkeypatch.setattr(claims, "CLAIMS", (claims.Claim("x", "Figure 1", ("full",), "All is well.", "true", test),))
    reproduce.reproduce(reproduce.ReproduceOptions(out=tmp_path, figure=["full", "lower-full"], rounds=40, repeats=1))
    runs = 27 * 6 + 14
    out = capsys.readouterr().out
    assert out.startswith("1 of 1 claims of the paper hold\nwith so few rounds")
    assert f"\n{runs} runs;" in out
    assert len(listed) == len(set(listed)) == 4  # the sweep "full" and three of "lower-full"
    assert summarised.count(runs) == 1  # a figure's own summary is of its own runs
    assert len(judged) == 1


def test_export(here):
    code, out, err = process("export", "all.csv", cwd=here)
    assert (code, err) == (0, "")
    with (here / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with sqlite3.connect(here / "results" / "results.sqlite") as connection:
        stored = connection.execute("SELECT id, mistakes FROM runs ORDER BY id").fetchall()
    connection.close()
    assert [(row["id"], int(row["mistakes"])) for row in rows] == stored
    assert out == f"{len(stored):,} runs in all.csv\n"


def test_the_bounds_of_a_stored_run(here):
    code, out, _ = process("bound", "--run", HINGE, "--plot", "bounds.svg", cwd=here)
    assert code == 0
    with sqlite3.connect(here / "results" / "results.sqlite") as connection:
        (mistakes,) = connection.execute("SELECT mistakes FROM runs WHERE id = ?", (HINGE,)).fetchone()
    connection.close()
    assert f"mistakes {mistakes:,}, surrogate regret" in out
    assert "best comparator with norm at most 1.41421 (--radius sets another): loss" in out
    assert "full-expectation-separable" in out
    assert "it needs a comparator with zero loss, and the best in the ball has loss" in out  # these data are noisy
    assert (
        "full-expectation                 E[mistakes] <= sum l_t(U) + value, value = 48.0, mistakes / bound = 0." in out
    )  # K L h^2 / 2 with h = 4
    assert "<svg" in (here / "bounds.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reproduce", "--figure", "bandits"), "there is no figure 'bandits'"),
        (("reproduce", "--rounds", "0"), "rounds must be"),
        (("reproduce", "--repeats", "0"), "repeats must be"),
        (("reproduce", "--jobs", "0"), "jobs must be"),
        (("reproduce", "--figure", "lower-full", "--rounds", "9"), "give more rounds"),
        (("reproduce", "--out", "results/report.html"), "is a file"),
        (("export", "all.txt"), "use a name that ends in .csv or .parquet"),
        (("export", "all.csv", "--results", "elsewhere"), "run `gappletron reproduce --out elsewhere` first"),
        (("export", "nowhere/all.csv"), "there is no folder"),
        (("bound",), "expected a learner"),
        (("bound", "gapsmh", "--run", HINGE), "expected a learner"),
        (("bound", "gapsmh", "--plot", "x.png"), "--plot is only for a stored run"),
        (("bound", "--run", HINGE[:-2]), f"the closest id is {HINGE!r}"),
        (("bound", "--run", "nothing"), "there is no stored run"),
        (("bound", "--run", HINGE, "--rounds", "7"), "with --run give only"),
        (("bound", "--run", HINGE, "--radius", "50"), "give a smaller --radius"),
        (("bound", "--run", BASELINE), "the theorems are about Gappletron"),
    ],
)
def test_errors_are_one_sentence(here, arguments, message, monkeypatch):
    monkeypatch.chdir(here)
    code, out, err = ended(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("gappletron: ")
    assert err.count("\n") == 1


def test_the_bounds_of_a_store_without_runs(tmp_path):
    """As after a command that was stopped before its first run was finished."""
    from gappletron.paper.store import Store

    with Store(tmp_path / "results"):
        pass
    code, out, err = process("bound", "--run", HINGE, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert err == "gappletron: no run in 'results' is finished: run `gappletron reproduce --out results` first\n"


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "reproduce", "--figure", "full", "--rounds", "50000"],
        cwd=tmp_path,
        text=True,
        stderr=subprocess.PIPE,
    )
    store = tmp_path / "results" / "results.sqlite"

    def stored():
        if not store.exists():
            return 0
        connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        try:
            return connection.execute("SELECT count(*) FROM runs").fetchone()[0]
        except sqlite3.OperationalError:
            return 0
        finally:
            connection.close()

    while stored() < 3 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == (
        "stopped: the finished runs are stored in results, and the same command continues from there"
    )
    assert 3 <= stored() < 891


def test_a_terminal_shows_bars(tmp_path):
    main, child = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "reproduce", "--figure", "lower-full", "--rounds", "40", "--repeats", "2"],
        cwd=tmp_path,
        stderr=child,
        stdout=child,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"},
    )
    os.close(child)
    shown = b""
    while True:
        try:
            block = os.read(main, 65536)
        except OSError:
            break
        if not block:
            break
        shown += block
    os.close(main)
    assert process.wait() == 0
    text = shown.decode(errors="replace")
    assert "28/28 runs" in text
    assert "left" in text
    assert "results/report.html" in text
