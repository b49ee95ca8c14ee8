"""The command line: what it prints and writes, and what it says when something is wrong."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from xml.dom import minidom

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from typer.testing import CliRunner

import gappletron
from gappletron import FeedbackGraph, Gappletron, Paper, cli, interpreted, named, open_stream, play, tuned
from gappletron.play.runs import Runs
from problems import ended

SMALL = "synthetic:K=3,d=40,noise=0.05,T=120,seed=0"
COMMAND = [sys.executable, "-m", "gappletron"]
GAPSMH = ("--learner", "gapsmh")


def result(tmp_path, *arguments):
    """What a run writes as JSON."""
    path = tmp_path / "result.json"
    code, _, err = ended("run", *arguments, "--json", path)
    assert (code, err) == (0, "")
    return json.loads(path.read_text())


def mistakes(document):
    return [(run["learner"], run["repeat"], run["mistakes"], run["labels_seen"]) for run in document["runs"]]


def by_library(learners, stream, graph, **options):
    with interpreted():
        histories = play(learners, stream, graph, **options)
    return [(run.name, run.repeat, run.mistakes, run.labels_seen) for run in histories]


def process(*arguments, **options):
    """A real process, from the start to its end."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, timeout=120, check=False, **options)
    done.stderr = without_progress(done.stderr)
    return done


def without_progress(err):
    """What a command said, without the progress that a busy machine sees."""
    return re.sub(rb"(?m)^(compiling|playing|reading)( \.\.\.|:).*\n", b"", err)


@pytest.fixture
def svm(tmp_path):
    """A file of 80 rows, three classes and six features."""
    rng = np.random.default_rng(5)
    path = tmp_path / "data.svm"
    lines = []
    for row in range(80):
        label = row % 3
        values = rng.normal(size=6) + 3.0 * (np.arange(6) == label)
        lines.append(f"{label} " + " ".join(f"{j + 1}:{value:.6g}" for j, value in enumerate(values)))
    path.write_text("\n".join(lines) + "\n")
    return path


# ----------------------------------------------------------------------------------------------------------- the result


def test_the_json_of_a_run(tmp_path):
    document = result(
        tmp_path, SMALL, "--graph", "filtering", "--repeats", 2, "--learner", "gapsmh", "--learner", "gaphin"
    )
    assert set(document) == {"version", "stopped", "data", "graph", "runs"}
    assert (document["version"], document["stopped"]) == (gappletron.__version__, None)
    assert document["data"] == {"name": SMALL, "rounds": 120, "features": 40, "classes": 3}
    assert document["graph"] == {
        "name": "filtering",
        "actions": 3,
        "classes": 3,
        "action_names": [0, 1, 2],
        "class_names": [0, 1, 2],
        "revealing": [0],
        "edges": [[0, 0], [0, 1], [0, 2]],
        "dominating_set": [0],
        "dominating_set_is_exact": True,
        "rho": 1,
        "least_rho": 1,
    }
    assert [(run["learner"], run["repeat"]) for run in document["runs"]] == [
        ("gapsmh", 0),
        ("gapsmh", 1),
        ("gaphin", 0),
        ("gaphin", 1),
    ]
    for run in document["runs"]:
        assert set(run) == {
            "learner",
            "repeat",
            "seed",
            "parameters",
            "rounds",
            "mistakes",
            "error_rate",
            "labels_seen",
            "seconds",
            "restarts",
            "confusion",
            "curve",
            "normalization",
            "bias",
        }
        assert (run["seed"], run["rounds"]) == (0, 120)
        assert 0 < run["mistakes"] < 120
        assert 0 < run["labels_seen"] < 120
        assert run["error_rate"] == run["mistakes"] / 120
        assert run["seconds"] > 0
        assert run["parameters"]["optimizer"] == {"piece": "AdaptiveOGD", "scale": 1.0}
    assert document["runs"][2]["parameters"]["loss"] == {"piece": "Hinge", "kappa": 0.5}


def test_the_graph_in_the_json(tmp_path):
    graph = result(tmp_path, SMALL, "--graph", "label-efficient")["graph"]
    assert graph == {
        "name": "label-efficient",
        "actions": 4,
        "classes": 3,
        "action_names": [0, 1, 2, "query"],
        "class_names": [0, 1, 2],
        "revealing": ["query"],
        "edges": [["query", 0], ["query", 1], ["query", 2]],
        "dominating_set": ["query"],
        "dominating_set_is_exact": True,
        "rho": 1,
        "least_rho": 1,
    }
    graph = result(tmp_path, SMALL, "--graph", "full")["graph"]
    assert (graph["revealing"], graph["dominating_set"]) == ([0, 1, 2], [0])


def test_the_table(tmp_path):
    code, out, err = ended("run", SMALL, "--repeats", 3, "--json", tmp_path / "a.json")
    runs = json.loads((tmp_path / "a.json").read_text())["runs"]
    rates = [run["error_rate"] for run in runs]
    title, header, _, row = out.splitlines()
    assert (code, err) == (0, "")
    assert title == f"{SMALL}, bandit graph"
    assert header.split() == ["learner", "mean", "error", "min", "max", "labels", "seen", "ns", "per", "round"]
    nanoseconds = sum(run["seconds"] for run in runs) / 360 * 1e9
    assert row.split() == [
        "auto",
        f"{sum(rates) / 3:.4f}",
        f"{min(rates):.4f}",
        f"{max(rates):.4f}",
        f"{sum(run['labels_seen'] for run in runs) / 3:.0f}",
        f"{nanoseconds:,.0f}",
    ]


def test_the_same_command_gives_the_same_numbers(tmp_path):
    first, second = (result(tmp_path, SMALL, "--repeats", 2, "--seed", 4) for _ in range(2))
    for document in (first, second):
        for run in document["runs"]:
            del run["seconds"]
    assert first == second


# -------------------------------------------------------------------------------------------------------------- options


def test_repeats_and_seed(tmp_path):
    once, thrice = (mistakes(result(tmp_path, SMALL, "--repeats", n)) for n in (1, 3))
    assert thrice[:1] == once
    assert thrice == by_library("auto", SMALL, "bandit", repeats=3)
    other = result(tmp_path, SMALL, "--repeats", 3, "--seed", 7)
    assert {run["seed"] for run in other["runs"]} == {7}
    assert mistakes(other) == by_library("auto", SMALL, "bandit", repeats=3, seed=7) != thrice
    assert mistakes(result(tmp_path, SMALL, "--repeats", 3, "--jobs", 1)) == thrice


def test_rounds(tmp_path):
    document = result(tmp_path, SMALL, "--rounds", 50)
    assert document["data"]["rounds"] == document["runs"][0]["rounds"] == 50
    assert mistakes(document) == by_library("auto", SMALL, "bandit", rounds=50)
    assert result(tmp_path, SMALL, "--rounds", 10**18)["data"]["rounds"] == 120


def test_learners(tmp_path):
    names = ["gaplog", "gaplog2", "gaphin", "gapsmh"]
    document = result(tmp_path, SMALL, *(part for name in names for part in ("--learner", name)))
    found = mistakes(document)
    assert found == by_library(names, SMALL, "bandit")
    assert [run["parameters"]["loss"]["piece"] for run in document["runs"]] == [
        "LogisticBaseK",
        "LogisticBase2",
        "Hinge",
        "SmoothHinge",
    ]
    assert len({entry[2:] for entry in found}) > 1


def test_graphs_and_the_revealing_class(tmp_path):
    seen = {}
    for preset in ("bandit", "full", "filtering", "label-efficient", "disease-prevention"):
        seen[preset] = mistakes(result(tmp_path, SMALL, "--graph", preset))
        assert seen[preset] == by_library("auto", SMALL, preset)
    assert seen["full"][0][3] == 120
    document = result(tmp_path, SMALL, "--graph", "filtering", "--revealing", 2)
    assert document["graph"]["revealing"] == [2]
    assert mistakes(document) == by_library("auto", SMALL, FeedbackGraph.filtering(3, revealing=2)) != seen["filtering"]


def test_the_revealing_class_of_a_file_must_be_named(svm, tmp_path):
    told = sentence("run", svm, "--graph", "filtering")
    assert "the filtering graph needs the class that reveals, because the order of the classes 0, 1, 2 was" in told
    code, out, _ = ended("run", svm, "--graph", "filtering", "--revealing", 1, "--json", tmp_path / "a.json")
    assert code == 0
    assert out.startswith(f"{svm}, filtering graph, 1 reveals\n")
    assert json.loads((tmp_path / "a.json").read_text())["graph"]["revealing"] == [1]
    assert result(tmp_path, svm, "--graph", "filtering:revealing=1")["graph"]["revealing"] == [1]
    assert result(tmp_path, svm, "--graph", "filtering", "--classes", "2,0,1")["graph"]["revealing"] == [2]


def test_exploration_by_optimisation(tmp_path):
    options = ("--graph", "label-efficient", "--optimizer", "ada-grad", "--exploration", "optimised:caution=0.2")
    document = result(tmp_path, SMALL, *GAPSMH, *options)
    learner = Gappletron(optimizer=gappletron.AdaGrad(), exploration=gappletron.Optimised(0.2))
    assert document["runs"][0]["parameters"]["exploration"] == {"piece": "Optimised", "caution": 0.2}
    assert mistakes(document) == by_library(learner, SMALL, FeedbackGraph.label_efficient(3))


def test_exploration_gamma_and_tuning(tmp_path):
    graph = FeedbackGraph.filtering(3)
    stream = open_stream(SMALL)
    expected = {
        (): Gappletron(),
        ("--exploration", "paper"): Gappletron(exploration=Paper()),
        ("--exploration", "paper", "--gamma", "0.2"): Gappletron(exploration=Paper(0.2)),
        ("--gamma", "0.2"): Gappletron(exploration=gappletron.TopUp(0.2)),
        ("--exploration", "top-up:gamma=2"): Gappletron(exploration=gappletron.TopUp(2.0)),
        ("--gamma", "0"): Gappletron(exploration=gappletron.TopUp(0.0)),
        **{
            ("--tuning", name): tuned(named("gapsmh"), name, graph, max_norm=stream.max_norm)
            for name in named("gapsmh").tunings
        },
    }
    gammas = set()
    for options, learner in expected.items():
        document = result(tmp_path, SMALL, *GAPSMH, "--graph", "filtering", *options)
        exploration = document["runs"][0]["parameters"]["exploration"]
        assert exploration == {"piece": type(learner.exploration).__name__, "gamma": learner.exploration.gamma}
        gammas.add(exploration["gamma"])
        assert mistakes(document) == by_library(learner, SMALL, graph)
    assert len(gammas) == 8
    # With X^2 = 20: L = 4 X^2, h = 1, K = 3, rho = 1, so gamma = sqrt(3 * 80) / 2.
    by_hand = math.sqrt(3 * 4 * stream.max_norm**2) / 2
    assert expected["--tuning", "expectation"].exploration.gamma == pytest.approx(by_hand)


def test_optimizers(tmp_path):
    expected = {
        "adaptive-ogd": gappletron.AdaptiveOGD(),
        "projected-ogd:radius=5": gappletron.ProjectedOGD(5.0),
        "fixed-ogd:rate=0.3,radius=2": gappletron.FixedOGD(0.3, 2.0),
        "fixed-ogd": gappletron.FixedOGD(),
        "ada-grad:rate=0.5": gappletron.AdaGrad(0.5),
        "scale-free-ftrl": gappletron.ScaleFreeFTRL(),
    }
    found = []
    for spelling, optimizer in expected.items():
        document = result(tmp_path, SMALL, *GAPSMH, "--optimizer", spelling)
        assert document["runs"][0]["parameters"]["optimizer"]["piece"] == type(optimizer).__name__
        found.append(mistakes(document))
        assert found[-1] == by_library(Gappletron(optimizer=optimizer), SMALL, "bandit")
    assert len({tuple(one) for one in found}) > 3
    assert (
        result(tmp_path, SMALL, *GAPSMH, "--optimizer", "fixed-ogd")["runs"][0]["parameters"]["optimizer"]["radius"]
        == "inf"
    )


def test_normalize_and_bias(svm, tmp_path):
    found = []
    for normalize in ("none", "unit", "log1p-unit", "columns"):
        for bias in (False, True):
            options = ("--normalize", normalize, *(["--bias"] if bias else []))
            document = result(tmp_path, svm, *GAPSMH, *options)
            found.append(mistakes(document))
            stream = open_stream(svm, normalize=normalize, bias=bias)
            assert found[-1] == by_library("gapsmh", stream, "bandit")
    assert len({tuple(one) for one in found}) > 3
    # By default each learner gets what it is made for.
    both = mistakes(result(tmp_path, svm, "--learner", "auto", *GAPSMH))
    assert both == by_library(["auto", "gapsmh"], svm, "bandit")
    assert both[1] == found[0][0]
    plain = mistakes(result(tmp_path, svm, "--normalize", "none", "--no-bias"))
    assert plain == by_library("auto", svm, "bandit", normalize=None, bias=False) != both[:1]


def test_the_norm_of_a_tuning_is_that_of_the_normalized_rows(svm, tmp_path):
    def gamma(*options):
        document = result(tmp_path, svm, *GAPSMH, "--tuning", "expectation", *options)
        return document["runs"][0]["parameters"]["exploration"]["gamma"]

    # gamma = h sqrt(K rho L) / 2 with L = 4 X^2, h = 1 and K = rho = 3: 3 X.
    assert gamma("--normalize", "unit") == pytest.approx(3.0)
    assert gamma("--normalize", "unit", "--bias") == pytest.approx(3.0 * math.sqrt(2.0))
    assert gamma() == pytest.approx(3.0 * open_stream(svm).max_norm)


def test_features_classes_and_the_largest_norm(svm, tmp_path):
    scanned = result(tmp_path, svm)
    assert scanned["data"] == {"name": str(svm), "rounds": 80, "features": 6, "classes": 3}
    told = result(tmp_path, svm, "--features", 9, "--classes", "0,1,2")
    assert told["data"] == {"name": str(svm), "rounds": 80, "features": 9, "classes": 3}
    assert mistakes(told) == mistakes(scanned)
    turned = result(tmp_path, svm, "--classes", "2,1,0,7", "--graph", "filtering")
    assert turned["data"]["classes"] == 4
    assert mistakes(turned) == by_library("auto", open_stream(svm, classes=[2, 1, 0, 7]), "filtering")
    small, large = (result(tmp_path, svm, *GAPSMH, "--tuning", "expectation", "--max-norm", norm) for norm in (1, 3))
    gammas = [document["runs"][0]["parameters"]["exploration"]["gamma"] for document in (small, large)]
    assert gammas[1] == pytest.approx(3 * gammas[0])


@pytest.mark.parametrize(
    ("options", "openings"),
    [
        ([], 2),
        (["--features", 6], 2),
        (["--classes", "0,1,2"], 2),
        (["--max-norm", 9], 2),
        (["--tuning", "theory"], 2),
        (["--rounds", 5], 2),
        (["--features", 6, "--classes", "0,1,2"], 1),
        (["--features", 6, "--classes", "0,1,2", "--bias", "--normalize", "unit"], 1),
        (["--features", 6, "--classes", "0,1,2", "--tuning", "theory"], 2),
        (["--features", 6, "--classes", "0,1,2", "--tuning", "only-t", "--learner", "banditron"], 2),
        (["--features", 6, "--classes", "0,1,2", "--tuning", "theory", "--max-norm", 9], 1),
    ],
)
def test_a_file_is_read_once_to_play_after_at_most_one_scan(options, openings, svm, monkeypatch):
    """However many learners and repeats play."""
    opened = []
    reader = gappletron.data.sources.open_file
    monkeypatch.setattr(
        "gappletron.data.sources.open_file", lambda path, name: opened.append(path) or reader(path, name)
    )
    code, _, err = ended("run", svm, "--learner", "gapsmh", "--learner", "gaphin", "--repeats", 2, *options)
    assert (code, err) == (0, "")
    assert opened == [str(svm)] * openings


def test_plain_gzip_and_arrays_agree(svm, tmp_path):
    packed = tmp_path / "data.gz"
    packed.write_bytes(gzip.compress(svm.read_bytes()))
    rows = [line.split() for line in svm.read_text().splitlines()]
    X = np.array([[float(entry.partition(":")[2]) for entry in row[1:]] for row in rows])
    y = [int(row[0]) for row in rows]
    expected = by_library("auto", (X, y), "bandit")
    assert mistakes(result(tmp_path, svm)) == mistakes(result(tmp_path, packed)) == expected


def test_a_graph_file(svm, tmp_path):
    """A file's labels 0, 1, 2 are the classes "2", "0", "1" of the graph, in another order."""
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"classes": ["2", "0", "1"], "edges": [["1", "0"], ["1", "1"], ["1", "2"]]}))
    document = result(tmp_path, svm, "--graph", path)
    assert (document["graph"]["revealing"], document["graph"]["rho"]) == (["1"], 1)
    with interpreted():
        stream = open_stream(svm, classes=[2, 0, 1])
        assert mistakes(document) == by_library("auto", stream, FeedbackGraph.filtering([2, 0, 1], revealing=1))


def test_version_and_help():
    runner = CliRunner()
    assert runner.invoke(cli.app, ["--version"]).output == f"gappletron {gappletron.__version__}\n"
    told = runner.invoke(cli.app, ["run", "--help"])
    assert told.exit_code == 0
    for option in (
        "graph",
        "revealing",
        "learner",
        "exploration",
        "gamma",
        "tuning",
        "optimizer",
        "repeats",
        "seed",
        "rounds",
        "normalize",
        "bias",
        "features",
        "classes",
        "max-norm",
        "jobs",
        "json",
        "plot",
    ):
        assert re.search(rf"--{option}\b", told.output)


def test_help_lists_what_there_is():
    """The help is written without loading the library: so that nothing is forgotten, it is compared here."""
    from gappletron import Exploration, Optimizer
    from gappletron.base.text import to_kebab_case
    from gappletron.data.formats import FORMATS
    from gappletron.data.normalization import NORMALIZATIONS
    from gappletron.kernel.pieces import package_pieces
    from gappletron.learners.registry import names

    assert names()  # all pieces are loaded
    told = " ".join(CliRunner().invoke(cli.app, ["run", "--help"], terminal_width=10_000).output.split())
    wanted = [*FeedbackGraph.PRESETS, *FORMATS, *NORMALIZATIONS]
    for family in (Exploration, Optimizer):
        home = family.__module__.removesuffix(".rule")
        wanted += [
            to_kebab_case(name)
            for name, piece in package_pieces.items()
            if issubclass(piece, family) and piece.__module__.startswith(home)
        ]
    assert [name for name in wanted if not re.search(rf"(?<![\w-]){name}(?![\w-])", told)] == []


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], []])
def test_help_loads_no_heavy_library(arguments):
    """The import of NumPy would double the time."""
    code = (
        "import sys\n"
        "from gappletron import cli\n"
        f"sys.argv = ['gappletron', *{arguments!r}]\n"
        "try:\n"
        "    cli.main()\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ersion" in done.stdout or "gappletron" in done.stdout
    assert "typer" in done.stderr.split()
    assert not {"numpy", "numba", "scipy", "matplotlib", "rich", "sklearn", "pandas"} & set(done.stderr.split())


# ---------------------------------------------------------------------------------------------------------- user errors


def sentence(*arguments):
    """The one sentence that a wrong command ends with."""
    code, out, err = ended(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("gappletron: ")
    assert err.count("\n") == 1
    return err


BAD_LINES = {
    "0 1:1\n1 2:x\n": "line 2: .*value that is not a finite number",
    "0 1:1\n\n1 2:nan\n": "line 3: .*'2:nan'",
    "0 1:1\n1 2:inf\n": "line 2: .*value that is not a finite number",
    "0 1:1\n1 2:1e999\n": "line 2: .*too large",
    "0 1:1\nnan 2:1\n": "line 2: the label 'nan'",
    "0 1:1\n1 0:1\n": "line 2: .*index below 1",
    "0 1:1\n1 -3:1\n": "line 2: .*index below 1",
    "0 1:1\n1 99999999999:1\n": "line 2: .*index above 2147483647",
    "0 1:1\n1 2\n": "line 2: '2' is not index:value",
    "0 1:1\n1 2:1 2:1\n": "line 2: .*comes after index 2",
    "spam 1:1\n": "line 1: the label 'spam'",
    "0 1:1\n0 2:1\n": "only the label 0.*at least 2 classes",
    "": "has no rows",
    "# nothing\n\n": "has no rows",
    "\0\0\0": "NUL byte",
}


@pytest.mark.parametrize("text", BAD_LINES)
def test_a_bad_file(text, tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text(text)
    told = sentence("run", path)
    assert str(path) in told
    assert re.search(BAD_LINES[text], told)


def test_bad_places(svm, tmp_path):
    assert f"no file '{tmp_path / 'none.svm'}'" in sentence("run", tmp_path / "none.svm")
    assert "is a directory" in sentence("run", tmp_path)
    packed = tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress(svm.read_bytes())[:-20])
    assert "truncated" in sentence("run", packed)
    packed.write_bytes(gzip.compress(svm.read_bytes())[:60] + b"\xff" * 200)
    assert "corrupt" in sentence("run", packed)
    assert "the features and the classes" in sentence("run", "-")
    assert "line 1: the label 0 is not among the classes 1, 2" in sentence("run", svm, "--classes", "1,2")
    assert "has an index above 3" in sentence("run", svm, "--features", 3)
    graph = graph_file(tmp_path, {"classes": ["a", "b"], "edges": [["a", "a"], ["a", "b"]]})
    assert "the stream has the class 0" in sentence("run", svm, "--graph", graph)


def graph_file(tmp_path, document):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--learner", "gapsnh"],
            "there is no learner 'gapsnh', did you mean 'gapsmh'? Choose one of 'auto', 'one-against-all'",
        ),
        (["--learner", ""], "there is no learner ''"),
        (["--learner", "gapsmh", "--learner", "gapsmh"], "given twice"),
        (["--graph", "bandits"], "there is no graph 'bandits', did you mean 'bandit'? Choose one of 'bandit'"),
        (["--graph", "none.json"], "none.json"),
        (["--graph", "filtering", "--revealing", "9"], "there is no class '9': choose one of 0, 1, 2"),
        (["--graph", "x.json", "--revealing", "1"], "omit it"),
        (["--revealing", "1"], "revealing"),
        (["--exploration", "epsilon"], "'epsilon', did you mean 'epsilon-greedy'? Choose one of"),
        ([*GAPSMH, "--exploration", "optimised", "--gamma", "1"], "none of 'gapsmh' has one: omit it"),
        (["--gamma", "1"], "none of 'auto' has one: omit it"),
        (["--exploration", "optimised:caution=-1"], "caution must be"),
        (["--exploration", "optimised"], "needs a learner with a loss: use it with Gappletron (gapsmh)"),
        (
            [*GAPSMH, "--exploration", "inverse-gap"],
            "use it with OneAgainstAll (one-against-all) or PartialLikelihood (partial-likelihood)",
        ),
        ([*GAPSMH, "--exploration", "optimised", "--optimizer", "scale-free-ftrl"], "states its stability"),
        ([*GAPSMH, "--tuning", "best"], "'best': choose one of 'expectation'"),
        (["--optimizer", "adam"], "there is no optimizer 'adam'"),
        (["--optimizer", "fixed-ogd:rate"], "expected key=value in 'fixed-ogd:rate', not 'rate'"),
        (["--exploration", "top-up:rate=1"], "there is no setting 'rate': choose one of 'gamma'"),
        (["--graph", "filtering:reveal=1"], "there is no setting 'reveal', did you mean 'revealing'?"),
        (["--graph", "filtering:revealing=1", "--revealing", "1"], "give one of them"),
        (["--optimizer", "fixed-ogd:speed=1"], "'speed'"),
        (["--optimizer", "fixed-ogd:rate=nan"], "rate"),
        (["--optimizer", "fixed-ogd:rate=-1"], "above 0"),
        (["--normalize", "l2"], "there is no normalization 'l2'"),
        (["--gamma", "1", "--tuning", "theory"], "--gamma and --tuning were both given"),
        ([*GAPSMH, "--gamma", "nan"], "gamma must be finite"),
        ([*GAPSMH, "--gamma", "inf"], "finite"),
        ([*GAPSMH, "--gamma=-1"], "at least 0"),
        (["--rounds", "0"], "rounds must be at least 1"),
        (["--rounds=-5"], "rounds must be at least 1"),
        (["--repeats", "0"], "repeats must be at least 1"),
        (["--repeats", "1000000000"], "repeats must be at most"),
        (["--seed=-1"], "seed must be at least 0"),
        (["--seed", str(10**40)], "seed must be at most"),
        (["--jobs", "0"], "jobs must be at least 1"),
        (["--features", "5"], "features= is only for files"),
        (["--classes", "0,1"], "classes= is only for files"),
        (["--max-norm", "1"], "max_norm= is only for files"),
    ],
)
def test_a_bad_option(options, words):
    assert words in sentence("run", SMALL, *options)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("K=1", "at least 2"),
        ("K=1000000000", "at most"),
        ("d=41", "multiple of 40"),
        ("d=1e30", "at most"),
        ("T=0", "at least 1"),
        ("T=1e30", "at most"),
        ("T=1.5", "whole number"),
        ("noise=2", "at most 1"),
        ("noise=nan", "finite"),
        ("K", "expected key=value in 'synthetic:K', not 'K'"),
        ("k=3", "there is no setting"),
        ("K=3,K=4", "twice"),
        ("K=three", "not a number"),
        ("seed=-1", "at least 0"),
        ("K=" + "9" * 5000, "whole number"),
        ("K=100000,d=40,T=10", "at most 10000"),
    ],
)
def test_a_bad_synthetic_stream(spec, words):
    start = time.monotonic()
    assert words in sentence("run", f"synthetic:{spec}")
    assert time.monotonic() - start < 10.0


@pytest.mark.parametrize("option", ["--repeats", "--seed", "--rounds", "--features", "--jobs", "--gamma", "--max-norm"])
@pytest.mark.parametrize("value", ["x", "", "1_0x", "0x10", "²"])
def test_a_number_that_is_none(option, value):
    code, out, err = ended("run", SMALL, option, value)
    assert (code, out) == (2, "")
    assert f"Invalid value for '{option}'" in err.splitlines()[-1]


def test_what_would_not_fit_is_refused_at_once(svm):
    start = time.monotonic()
    assert "100000 runs of 'auto' would take" in sentence("run", svm, "--features", 2**16, "--repeats", 100_000)
    assert "features must be at most" in sentence("run", svm, "--features", 2**31)
    assert time.monotonic() - start < 10.0


# -------------------------------------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize("option", ["--json", "--plot"])
def test_an_output_that_cannot_be_written_is_refused_before_playing(option, svm, tmp_path, monkeypatch):
    monkeypatch.setattr(Runs, "__iter__", lambda self: pytest.fail("it was played"))
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    names = ["folder.png", "loop.png", "none/x.png", "file/x.png", "x" * 300 + ".png"]
    for path in [*(tmp_path / name for name in names), "/proc/x.png"]:
        assert "cannot write" in sentence("run", SMALL, option, path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.svm", "file", "folder.png", "loop.png"]


def test_a_picture_of_an_unknown_kind_is_refused_before_playing(tmp_path, monkeypatch):
    monkeypatch.setattr(Runs, "__iter__", lambda self: pytest.fail("it was played"))
    for name in ("x.xyz", "x", "x.jpg", ".png"):
        assert ".png, .svg or .pdf" in sentence("run", SMALL, "--plot", tmp_path / name)
    assert "name two files" in sentence("run", SMALL, "--plot", tmp_path / "x.png", "--json", tmp_path / "x.png")


def test_an_input_is_not_written_over(svm, tmp_path):
    before = svm.read_bytes()
    link = tmp_path / "link.json"
    link.symlink_to(svm)
    for path in (svm, link):
        assert "would be overwritten" in sentence("run", svm, "--json", path)
    graph = graph_file(tmp_path, {"classes": [0, 1, 2], "edges": [[0, 0], [0, 1], [0, 2]]})
    assert "would be overwritten" in sentence("run", svm, "--graph", graph, "--json", graph)
    assert svm.read_bytes() == before


def test_outputs_are_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    path.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *arguments: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        code, out, err = ended("run", SMALL, "--json", path)
    assert code == 2
    assert "auto" in out  # what was measured is not lost
    assert "No space left on device" in err
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    assert ended("run", SMALL, "--json", path)[0] == 0
    assert json.loads(path.read_text())["data"]["rounds"] == 120


@pytest.mark.parametrize(("name", "start"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("x.PDF", b"%PDF")])
def test_pictures(name, start, tmp_path):
    assert ended("run", SMALL, "--repeats", 2, "--plot", tmp_path / name)[0] == 0
    assert (tmp_path / name).read_bytes().startswith(start)


# ----------------------------------------------------------------------------------------------------------- the others


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("bandit", "rho = 4"),
        ("full", "rho = 1"),
        ("filtering", "rho = 1"),
        ("label-efficient", "query"),
        ("apple-tasting", "2 classes"),
        ("disease-prevention", "4 classes"),
    ],
)
def test_the_graph_command(preset, words, tmp_path):
    path = tmp_path / "graph.svg"
    code, out, err = ended("graph", preset, "--plot", path)
    assert (code, err) == (0, "")
    assert f"Feedback graph '{preset}'" in out
    assert words in out
    assert str(path) in out.splitlines()[-1]
    assert path.read_bytes().startswith(b"<?xml")


def test_the_graph_command_with_names_and_files(tmp_path):
    assert "'spam'" in ended("graph", "filtering", "--classes", "ham,spam,news", "--revealing", "spam")[1]
    path = graph_file(
        tmp_path, {"classes": ["a", "b", "c"], "edges": [["a", "b"], ["b", "a"], ["b", "c"]], "name": "mine"}
    )
    code, out, _ = ended("graph", path)
    assert code == 0
    assert "Feedback graph 'mine': 3 classes" in out
    for arguments, words in (
        (["bandits"], "there is no graph 'bandits'"),
        (["bandit", "--classes", "1"], "choose 2 to 10000"),
        (["bandit", "--classes", "10001"], "choose 2 to 10000"),
        (["bandit", "--classes", "a,a"], "compare equal"),
        (["bandit", "--classes", "9" * 5000], "number"),
        (["apple-tasting", "--classes", "3"], "has 2 classes"),
        ([path, "--classes", "3"], "omit it"),
        ([path, "--plot", path], ".png, .svg or .pdf"),
        ([tmp_path / "none.json"], "none.json"),
        ([tmp_path / "none" / "x.json"], "x.json"),
    ):
        assert words in sentence("graph", *arguments)
    path.write_text('{"classes": ["a", "b", "c"],\n "edges": [["a", "a"]}')
    assert "line 2" in sentence("graph", path)
    assert "'b', 'c'" in sentence("graph", graph_file(tmp_path, {"classes": ["a", "b", "c"], "edges": [["a", "a"]]}))


def test_the_demo(tmp_path):
    code, out, err = ended("demo", "--rounds", 150, "--repeats", 2, "--out", tmp_path / "new" / "demo", compiled=True)
    assert (code, err) == (0, "")
    assert (tmp_path / "new" / "demo" / "demo.png").read_bytes().startswith(b"\x89PNG")
    for words in ("Breast cancer screening", "unlucky start", "Handwritten digits as a bandit", "2 random orders"):
        assert words in out
    for method in ("Gappletron (auto)", "\ngreedy  ", "greedy after a burn-in of 50", "sees every label"):
        assert out.count(method) == 3


def test_the_demo_cannot_write(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "x", "/proc/nowhere"):
        assert "cannot write" in sentence("demo", "--rounds", 10, "--out", place)


# ------------------------------------------------------------------------------------------------------- real processes


@pytest.fixture(scope="module")
def long_stream():
    """More rounds than anybody waits for."""
    return "synthetic:K=9,d=120,noise=0.05,T=20000000000,seed=0"


def test_a_process(tmp_path):
    path = tmp_path / "result.json"
    ran = process("run", "synthetic:T=3000", "--json", path)
    assert (ran.returncode, ran.stderr) == (0, b"")
    run = json.loads(path.read_text())["runs"][0]
    expected = play("auto", "synthetic:T=3000", "bandit")[0]
    assert (run["mistakes"], run["labels_seen"]) == (expected.mistakes, expected.labels_seen)
    assert b"\x1b" not in ran.stdout


def test_a_wrong_process(tmp_path):
    (tmp_path / "bad.svm").write_text("0 1:1\n1 2:x\n")
    ran = process("run", tmp_path / "bad.svm")
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.decode().startswith(f"gappletron: {tmp_path / 'bad.svm'}, line 2: ")
    assert ran.stderr.count(b"\n") == 1


def test_a_pipe(svm, tmp_path):
    path = tmp_path / "result.json"
    ran = process("run", "-", "--features", "6", "--classes", "0,1,2", "--json", path, input=svm.read_bytes())
    assert (ran.returncode, ran.stderr) == (0, b"")
    document = json.loads(path.read_text())
    assert document["data"] == {"name": "standard input", "rounds": 80, "features": 6, "classes": 3}
    assert mistakes(document) == by_library("auto", svm, "bandit")


def test_a_pipe_that_breaks_late_leaves_what_was_measured(svm, tmp_path):
    path = tmp_path / "result.json"
    text = svm.read_bytes() + b"1 1:1 2:oops\n" + svm.read_bytes()
    ran = process("run", "-", "--features", "6", "--classes", "0,1,2", "--json", path, input=text)
    assert ran.returncode == 2
    assert b"standard input, line 81" in ran.stderr
    assert ran.stderr.count(b"\n") == 1
    assert b"auto" in ran.stdout
    assert mistakes(json.loads(path.read_text())) == by_library("auto", svm, "bandit")


def stopping_with(patch, error, after=1):
    """Let every play end with this error after some chunks."""
    play_all = gappletron.Runs.__iter__

    def play_some(self):
        chunks = play_all(self)
        for _ in range(after):
            yield next(chunks)
        raise error

    patch.setattr(gappletron.Runs, "__iter__", play_some)


@pytest.mark.parametrize("command", [["run", SMALL], ["demo", "--rounds", 20, "--repeats", 1]])
def test_an_error_while_playing_is_reported_after_what_was_measured(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stopping_with(monkeypatch, gappletron.UserError("the stream broke: repair it"))
    code, out, err = ended(*command)
    assert (code, err) == (2, "gappletron: the stream broke: repair it\n")
    assert out.count("auto") == 1
    stopping_with(monkeypatch, gappletron.UserError("it broke at once: repair it"), after=0)
    assert ended(*command) == (2, "", "gappletron: it broke at once: repair it\n")


@pytest.mark.parametrize("command", [["run", SMALL], ["demo", "--rounds", 20, "--repeats", 1]])
def test_ctrl_c_while_playing(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stopping_with(monkeypatch, KeyboardInterrupt())
    code, out, err = ended(*command)
    assert (code, out.count("auto")) == (130, 1)
    assert "stopped: what follows is what was measured" in err
    stopping_with(monkeypatch, KeyboardInterrupt(), after=0)
    assert ended(*command) == (130, "", "stopped before anything was measured\n")


@pytest.mark.parametrize("error", [gappletron.UserError("the stream broke: repair it"), KeyboardInterrupt()])
def test_a_full_disk_does_not_hide_what_ended_playing(error, tmp_path, monkeypatch):
    stopping_with(monkeypatch, error)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    code, out, err = ended("run", SMALL, "--json", tmp_path / "result.json")
    assert "auto" in out
    assert "No space left on device" in err
    if isinstance(error, KeyboardInterrupt):
        assert code == 130
    else:
        assert code == 2
        assert err.endswith("gappletron: the stream broke: repair it\n")


def test_ctrl_c_leaves_what_was_measured(tmp_path, long_stream):
    path, picture = tmp_path / "result.json", tmp_path / "curves.png"
    # A bar on a terminal tells when playing has begun.
    main, terminal = pty.openpty()
    # A suite that a script started in the background ignores SIGINT, and its children inherit that.
    running = subprocess.Popen(
        [*COMMAND, "run", long_stream, "--json", str(path), "--plot", str(picture)],
        stdout=subprocess.PIPE,
        stderr=terminal,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    os.close(terminal)
    rescue = threading.Timer(120, running.kill)  # else a read would wait for ever
    rescue.start()
    try:
        shown = b""
        while not re.search(rb"[1-9][0-9]*/20000000000", shown):
            shown += os.read(main, 4096)
        running.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal is gone when the process is
            while block := os.read(main, 4096):
                shown += block
        out = running.communicate(timeout=60)[0].decode()
    finally:
        rescue.cancel()
        running.kill()
        os.close(main)
    assert running.returncode == 130
    assert "Traceback" not in shown.decode()
    assert "what follows is what was measured" in shown.decode()
    document = json.loads(path.read_text())
    assert document["stopped"] == "interrupted"
    rounds = document["runs"][0]["rounds"]
    assert 0 < rounds == document["data"]["rounds"] < 20_000_000_000
    assert f"{rounds:,} rounds" in shown.decode()
    assert f"{document['runs'][0]['error_rate']:.4f}" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def on_terminal(*arguments, cwd=None, **environment):
    """The exit code of a process on a terminal, and what the terminal was sent."""
    main, terminal = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment},
    )
    os.close(terminal)
    shown = b""
    try:
        with contextlib.suppress(OSError):
            while block := os.read(main, 4096):
                shown += block
        return running.wait(timeout=60), shown.decode()
    finally:
        running.kill()
        os.close(main)


def test_a_terminal_gets_a_bar():
    code, text = on_terminal("run", "synthetic:T=400000")
    assert code == 0
    assert "playing" in text
    assert "━" in text  # the bar
    assert "mean error" in text  # the table
    assert "\x1b[" in text


def test_a_reader_that_has_had_enough():
    pipe = subprocess.Popen([*COMMAND, "graph", "bandit"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pipe.stdout.close()
    err = pipe.stderr.read().decode()
    pipe.stderr.close()
    pipe.wait(timeout=60)
    assert err == ""
    several = subprocess.run(
        f"'{sys.executable}' -m gappletron run synthetic:T=200 | head -1",
        shell=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert several.stdout.startswith(b"synthetic:")
    assert several.stdout.count(b"\n") == 1
    assert without_progress(several.stderr) == b""


def shell(line, tmp_path):
    """The exit code and the standard error of a line in which $G is the command."""
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("$G", f"'{sys.executable}' -m gappletron")],
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    return ran.returncode, without_progress(ran.stderr).decode()


FULL = "gappletron: cannot write to the standard output (No space left on device): send it elsewhere\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, the device of Linux that is always full")
@pytest.mark.parametrize(
    "command", ["run synthetic:T=99 --json x.json --plot x.png", "graph full --plot x.png", "--help"]
)
def test_a_full_output_loses_no_result(command, tmp_path):
    assert shell(f"$G {command} > /dev/full", tmp_path) == (2, FULL)
    assert {path.name for path in tmp_path.iterdir()} == set(re.findall(r"x\.\w+", command))


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("| true", 0),
        (">&-", 0),
        ("2>&-", 0),
        (">&- 2>&- <&-", 0),
        ("--rounds x 2>&-", 2),
        ("--rounds x 2>/dev/full", 2),
    ],
)
def test_a_closed_output_loses_no_result(ending, code, tmp_path):
    assert shell(f"$G run synthetic:T=99 --json x.json --plot x.svg {ending}", tmp_path) == (code, "")
    assert {path.name for path in tmp_path.iterdir()} == ({"x.json", "x.svg"} if code == 0 else set())


def test_an_output_file_that_fails_leaves_the_others(tmp_path, monkeypatch):
    def full(*given):
        raise gappletron.UserError("the disk is full: make space")

    monkeypatch.setattr("gappletron.cli.run.write_json", full)
    code, out, err = ended("run", SMALL, "--json", tmp_path / "x.json", "--plot", tmp_path / "x.png")
    assert (code, err) == (2, "gappletron: the disk is full: make space\n")
    assert "auto" in out
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


ODD_NAMES = [
    "data[1].svm",
    "[red]x.svm",
    "$x_$.svm",
    "a\x1b[31mb\n.svm",
    "\udcff\udce4.svm",
    "x\u202ey.svm",
    "<b>&.svm",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_shown_as_they_are_or_escaped(name, svm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(svm.read_bytes())
    shown = name.encode("unicode_escape").decode() if not name.isprintable() else name
    for picture in ("x.svg", "x.png", "x.pdf"):
        code, out, err = ended("run", name, "--rounds", 9, "--json", "x.json", "--plot", picture)
        assert (code, err, out.partition(",")[0]) == (0, "", shown)
    assert json.loads(Path("x.json").read_bytes().decode())["data"]["name"] == shown
    texts = [node.firstChild.data for node in minidom.parse("x.svg").getElementsByTagName("text")]
    assert f"{shown}, bandit graph" in texts
    missing = ended("run", f"no-{name}")
    assert (missing[0], missing[2].count("\n")) == (2, 1)
    assert missing[2].rstrip("\n").isprintable()


def test_odd_names_on_a_terminal(svm, tmp_path):
    path = tmp_path / "[red]\x1b]0;\x07 :smile:.svm"
    path.write_bytes(svm.read_bytes())
    code, text = on_terminal("run", path.name, cwd=tmp_path)
    assert code == 0
    assert "[red]\\x1b]0;\\x07 :smile:.svm" in text
    assert "\x1b]0" not in text


def test_a_graph_file_with_escape_sequences(tmp_path):
    path = tmp_path / "x.json"
    classes = ["a\x1b[31m", "b\r\nc", "\udcff"]
    edges = [[classes[0], classes[0]], [classes[1], classes[1]], [classes[1], classes[2]]]
    path.write_text(json.dumps({"name": "x\x1b[2J", "classes": classes, "edges": edges}))
    code, out, err = ended("graph", path, "--plot", tmp_path / "x.svg")
    assert (code, err) == (0, "")
    assert all(line.isprintable() for line in out.split("\n"))
    assert "a\\x1b[3…" in out
    minidom.parse(str(tmp_path / "x.svg"))
    code, out, err = ended("run", SMALL, "--graph", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.rstrip("\n").isprintable()
    code, out, err = ended("run", SMALL, "--no\x1b[31m")
    assert (code, err.rstrip("\n").isprintable()) == (2, True)


@pytest.mark.parametrize(
    "environment",
    [
        {"COLUMNS": "0"},
        {"COLUMNS": "abc", "LINES": "0"},
        {"TERM": "dumb", "COLUMNS": "1"},
        {"PYTHONIOENCODING": "ascii"},
    ],
)
def test_odd_terminals(environment):
    code, text = on_terminal("run", SMALL, **environment)
    assert code == 0
    assert "auto" in text


def test_an_odd_backend_of_matplotlib(tmp_path):
    ran = process("graph", "full", "--plot", tmp_path / "x.png", env={**os.environ, "MPLBACKEND": "nonsense"})
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_names_that_the_terminal_cannot_show(svm, tmp_path):
    odd = os.fsencode(tmp_path) + b"/\xff\xe4.svm"
    Path(os.fsdecode(odd)).write_bytes(svm.read_bytes())
    ran = subprocess.run([*COMMAND, "run", odd, "--rounds", "5"], capture_output=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"\\udcff" in ran.stdout
    ran = process("graph", "bandit", "--classes", "ä,ö,ü", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"only whether it is correct" in ran.stdout


# ------------------------------------------------------------------------------------------------------------- surprise

ODD = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "0",
            "-1",
            "1",
            "2",
            "3",
            "1.5",
            "nan",
            "inf",
            "-inf",
            "1e400",
            str(10**20),
            str(2**63),
            "9" * 5000,
            "\0",
            "a\0b",
            "ä",
            "𝟙",
            "²",
            "\udcff",
            "a\nb",
            "-",
            "--",
            "--json",
            "bandit",
            "full",
            "filtering",
            "label-efficient",
            "apple-tasting",
            "disease-prevention",
            "auto",
            "gaplog",
            "paper",
            "top-up",
            "theory",
            "expectation",
            "unit",
            "log1p-unit",
            "projected-ogd:radius=2",
            "fixed-ogd:rate=1e300",
            "fixed-ogd:=",
            "ada-grad:rate=",
            ":",
            ",",
            "0,1",
            "0,1,2",
            "1,2,1",
            "a,b",
            "{}",
            "[]",
            "%s",
            "x.json",
            "x.png",
            "digits:",
            "synthetic",
            "synthetic:",
            "/",
            ".",
            "..",
            "/dev/null",
            "../x.json",
        ]
    ),
    st.text(max_size=8),
    st.integers(-3, 300).map(str),
    st.floats().map(repr),
)
OPTIONS = [
    "--graph",
    "--revealing",
    "--learner",
    "--exploration",
    "--gamma",
    "--tuning",
    "--optimizer",
    "--repeats",
    "--seed",
    "--normalize",
    "--features",
    "--classes",
    "--max-norm",
    "--jobs",
    "--json",
    "--plot",
    "--rounds",
]
FILE_OPTIONS = [
    ("--features", "3"),
    ("--features", "12"),
    ("--classes", "0,1"),
    ("--bias",),
    ("--normalize", "unit"),
    ("--normalize", "log1p-unit"),
    ("--tuning", "theory"),
    ("--rounds", "2"),
    ("--graph", "filtering"),
    ("--max-norm", "2"),
]
LINES = st.tuples(
    st.sampled_from(["0", "1", "-1", "2.5", "x", "nan"]),
    st.integers(-1, 12),
    st.sampled_from(["1", "0.5", "-3", "inf", "1e308"]),
)
CONTENTS = st.one_of(
    st.binary(max_size=80),
    st.text(alphabet="01 :.-+e#\n", max_size=80).map(str.encode),
    st.lists(LINES, max_size=8).map(lambda rows: "".join(f"{y} {j}:{v}\n" for y, j, v in rows).encode()),
    st.binary(max_size=30).map(gzip.compress),
    st.binary(max_size=30).map(lambda data: gzip.compress(data)[:-5]),
)
WORDS = ["run", "graph", "demo", "--help", "--version", "--classes", "--plot", "--out", "--rounds"]
FUZZ = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    """A folder to run in, so that odd names of outputs stay there."""
    return tmp_path_factory.mktemp("playground")


def assert_no_surprise(playground, arguments):
    inside = playground / "in" / "side"
    inside.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(inside), np.errstate(all="ignore"):
        code, _, err = ended(*arguments)
    assert code in (0, 2)
    assert err or code == 0
    if err.startswith("gappletron: "):
        assert err.count("\n") == 1
    return code


@FUZZ
@given(
    st.lists(st.tuples(st.sampled_from(OPTIONS), ODD), max_size=3), st.sampled_from(["synthetic:K=3,d=40,T=12", "file"])
)
def test_any_options(playground, options, data):
    """Whatever stands after an option, the command does its work or says one sentence."""
    (playground / "data.svm").write_text("0 1:1\n1 2:1 3:-2\n2 3:0.5\n0 1:2\n")
    source = str(playground / "data.svm") if data == "file" else data
    assert_no_surprise(playground, ["run", source, *(part for pair in options for part in pair)])


@FUZZ
@given(CONTENTS, st.lists(st.sampled_from(FILE_OPTIONS), max_size=3, unique=True))
def test_any_file(playground, content, options):
    (playground / "any.svm").write_bytes(content)
    assert_no_surprise(playground, ["run", playground / "any.svm", *(part for option in options for part in option)])


@FUZZ
@given(
    st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.one_of(
                st.none(), st.booleans(), st.integers(-2, 3), st.floats(), st.sampled_from(["a", "b", "c", "edges", ""])
            ),
            lambda inner: st.one_of(
                st.lists(inner, max_size=4),
                st.dictionaries(
                    st.sampled_from(["classes", "actions", "edges", "name", "dominating_set", "x"]), inner, max_size=5
                ),
            ),
            max_leaves=14,
        ).map(lambda document: json.dumps(document).encode()),
    )
)
def test_any_graph_file(playground, content):
    path = playground / "any.json"
    path.write_bytes(content)
    assert_no_surprise(playground, ["graph", path])
    assert_no_surprise(playground, ["run", "synthetic:K=3,d=40,T=5", "--graph", path])


@FUZZ
@given(st.lists(st.one_of(st.sampled_from(WORDS), ODD), max_size=4))
def test_any_words(playground, words):
    if "demo" in words and "--rounds" not in words:
        words = [*words, "--rounds", "3", "--repeats", "1"]
    if "run" in words:
        words = [*words, "--rounds", "3"]
    assert_no_surprise(playground, words)


@FUZZ
@given(st.lists(st.tuples(st.sampled_from(["K", "d", "noise", "T", "seed", "x", ""]), ODD), max_size=3))
def test_any_synthetic_stream(playground, settings_given):
    spec = ",".join(f"{key}={value}" for key, value in settings_given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gappletron.data.synthetic.CHUNK", 8)  # a chunk is made whole, and here as plain Python
        assert_no_surprise(playground, ["run", f"synthetic:{spec}", "--rounds", 5])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["perceptron"], "the theorems are about Gappletron"),
        (["gapsmh", "--rounds", "0"], "rounds must be at least 1"),
        (["gapsmh", "--max-norm", "0"], "features whose largest norm is 0"),
        (["gapsmh", "--delta", "2"], "delta must be at most 1"),
        (["gapsmh", "--radius", "0"], "radius must be above 0"),
        (["gapsmh", "--graph", "x"], "there is no graph 'x'"),
        (["gapsmh", "--measure", "2", "--max-norm", "2"], "leave out --max-norm"),
        (["gapsmh", "--measure", "-1"], "--measure must be at least 0"),
    ],
)
def test_bad_bounds(options, words):
    assert words in sentence("bound", *options)


def test_bounds_are_those_of_the_theorems():
    code, out, _ = ended(
        "bound", "gapsmh", "--graph", "filtering", "--classes", "3", "--rounds", "1000", "--max-norm", "1"
    )
    lines = out.splitlines()
    assert code == 0
    assert len(lines) == 11
    assert (
        lines[1] == "constants: K = 3, K' = 3, rho = 1, Q = 1, L = 4, h = 2.828, lmax = 3.828"
    )  # lmax = 1 + 2 sqrt(2)
    assert "value = 619.7" in lines[2]  # 2 sqrt(8) sqrt(3 * 4 * 1000)
    assert "does not apply: it needs full information" in lines[6]


def test_measured_mistakes_over_the_bounds():
    """On the graph of full information, with classes that have names; every number is computed once more."""
    from gappletron import FeedbackGraph, Gappletron, ProjectedOGD, UnitVectors, best_comparator, bounds, play

    code, out, _ = ended(
        "bound", "gapsmh", "--graph", "full", "--classes", "a,b,c", "--rounds", "300", "--measure", "3"
    )
    assert code == 0
    lines = out.splitlines()
    assert "ProjectedOGD(radius=1.414" in lines[0]  # sqrt(K - 1)
    found = {line.split()[0]: line for line in lines[lines.index("") + 2 :]}
    stream, graph = UnitVectors(3, 0.05, 300), FeedbackGraph.full(3)
    learner = Gappletron(optimizer=ProjectedOGD(math.sqrt(2.0)))
    mistakes = [run.mistakes for run in play(learner, stream, graph, repeats=3, losses=True)]
    loss = best_comparator(learner.loss, stream, graph, math.sqrt(2.0)).loss
    limits = {bound.theorem: bound.value + loss for bound in bounds(learner, graph, rounds=300, max_norm=1.0)}
    wanted = sum(mistakes) / 3 / limits["full-expectation"]
    assert f"mistakes / bound = {wanted:.3f}: {sum(mistakes) / 3:,.1f} mistakes" in found["full-expectation"]
    wanted = max(mistakes) / limits["full-high-probability"]
    assert f"mistakes / bound = {wanted:.3f}: " in found["full-high-probability"]
    assert all("mistakes / bound = 0." in line for line in found.values())
    assert len(found) == 9


def test_json_on_the_standard_output(tmp_path):
    for name in ("-", "/dev/stdout"):
        ran = process("run", SMALL, "--json", name, cwd=tmp_path)
        text = ran.stdout.decode()
        assert (ran.returncode, ran.stderr) == (0, b"")
        assert json.loads(text[: text.rindex("\n}\n") + 3])["stopped"] is None
        assert ("mean error" in text[text.rindex("\n}\n") :]) == (name != "-")
    assert not list(tmp_path.iterdir())
    with (tmp_path / "out.txt").open("wb") as file:
        ran = subprocess.run([*COMMAND, "run", SMALL, "--json", "/dev/stdout"], stdout=file, check=False)
    assert (ran.returncode, [path.name for path in tmp_path.iterdir()]) == (0, ["out.txt"])
    with (tmp_path / "out.txt").open("ab") as file:
        subprocess.run([*COMMAND, "run", SMALL, "--json", "/dev/stdout"], stdout=file, check=True)
    parts = (tmp_path / "out.txt").read_text().split("\n}\n")  # JSON, then a table and JSON, then a table
    assert json.loads(parts[0] + "}")["runs"][0]["learner"] == "auto"
    assert [part.count("mean error") for part in parts] == [0, 1, 1]


def test_a_signal_ends_a_command_that_waits_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    command = subprocess.Popen([*COMMAND, "run", SMALL, "--json", str(tmp_path / "pipe")], stderr=subprocess.PIPE)
    try:
        while not waits_for_a_reader(command.pid):
            assert command.poll() is None
            time.sleep(0.02)
        command.terminate()
        assert command.wait(60) == 143
    finally:
        command.kill()
        command.communicate()


def waits_for_a_reader(pid):
    """Whether the process opens a pipe that nobody reads."""
    wchan = Path(f"/proc/{pid}/wchan").read_text()
    return "fifo" in wchan or "wait_for_partner" in wchan


# -------------------------------------------------------------------------------------------- restarts, and being stuck


def test_restarts_stand_under_the_table_and_in_the_json(tmp_path):
    path = tmp_path / "run.json"
    arguments = ("run", SMALL, "--graph", "full", "--learner", "auto", "--memory", 50, "--json", path)
    code, out, err = ended(*arguments)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "auto restarted after rounds 50 and 100, because its memory ended"
    (run,) = json.loads(path.read_text())["runs"]
    assert run["restarts"] == [{"round": 50, "reason": "memory"}, {"round": 100, "reason": "memory"}]
    _, out, _ = ended(*arguments, "--repeats", 2)
    assert out.splitlines()[-1] == "auto restarted in 2 of 2 runs"


@pytest.mark.parametrize("more", [(), ("--estimate",), ("--repeats", 2), ("--json", "-")])
def test_a_run_that_sees_no_labels_says_what_to_do(more):
    stuck = ("--graph", "label-efficient", "--exploration", "greedy", "--learner", "partial-likelihood")
    code, _, err = ended("run", "synthetic:K=3,d=40,T=1000", *stuck, *more)
    assert code == 0
    (line,) = err.splitlines()
    assert line.startswith("partial-likelihood: No label was seen in 1,000 rounds")
    assert "(teach)" in line
    assert ended("run", "synthetic:K=3,d=40,T=1000", *stuck, *more, "--min-propensity", 0.2)[2] == ""
