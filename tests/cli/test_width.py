"""The command line on terminals of 80 and 40 columns: no line is longer, no number is cut, every help has examples."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from gappletron import FeedbackGraph, cli, names
from gappletron.base.tables import align, split, wrap
from gappletron.cli.learners import PURPOSES
from problems import ended

COMMANDS = typer.main.get_command(cli.app).commands
ALL = {**COMMANDS, **{f"store {name}": each for name, each in COMMANDS["store"].commands.items()}}
HISTORY = ["label,message,links", *["ham,see you at five,0", "spam,win a big prize,3"] * 10]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    for name in ("mail.csv", "history.csv", "more.csv"):
        (tmp_path / name).write_text("\n".join(HISTORY))
    (tmp_path / "unread.csv").write_text("message,links\nwin a prize,2\nsee you,0\n" * 10)
    return tmp_path


def find_long(text, width):
    """The lines that are longer, but for single words, which are never cut."""
    return [line for line in text.splitlines() if len(line) > width and " " in line.strip()]


def numbers(text):
    return set(re.findall(r"\d[\d,]*\.?\d*", text))


SHOWN = [
    "run mail.csv --label label --text message --graph filtering --revealing ham --confusion --estimate",
    "run synthetic:K=12,d=40,T=300 --learner gapsmh --learner banditron --repeats 2 --confusion",
    "run mail.csv --label label --graph filtering --revealing ham --cost spam,ham=10",
    "graph label-efficient --classes ham,spam --cost spam,ham=10",
    "graph filtering --classes 20",
    "learners",
    "learners gapsmh",
    "bound gapsmh --graph filtering --classes 3",
    "explain filter.npz unread.csv --top 3",
    "weights filter.npz --top 3",
    "version",
    "",
]


@pytest.mark.parametrize("width", [80, 40])
def test_no_line_is_longer_and_no_number_is_cut(folder, width):
    teach = "teach filter.npz history.csv --label label --text message --graph filtering --revealing ham --names"
    assert ended(*shlex.split(teach))[0] == 0
    for command in SHOWN:
        code, out, err = ended(*shlex.split(command), columns=width)
        assert code == 0, err
        if command:  # the first screen has commands to paste, for 80 columns
            assert find_long(out, width) == [], command
        whole = ended(*shlex.split(command))[1]
        if "ns per round" not in whole:  # a time is another one in every run
            assert numbers(out) <= numbers(whole), command
        else:
            assert {each for each in numbers(out) if "." in each} <= numbers(whole), command
            assert "mean error" in out
            assert ("labels seen" in out) == (width == 80 or "mean cost" not in whole) or "left out" in out


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_a_help_that_fits_with_three_examples(name):
    for width in (80, 40):
        for flag in ("-h", "--help"):
            code, out, err = ended(*name.split(), flag, columns=width)
            assert (code, err) == (0, "")
            assert find_long(out, width) == []
            assert "..." not in out.replace("COMMAND ...", "").replace("NAME=STORE ...", "")
            assert not re.search(r"<\w+>|\bINTEGER|\bTEXT\b|\bFLOAT\b|\bint\b|\bstr\b", out)
    if name != "store":
        assert len(ALL[name].epilog.splitlines()) == 3
        assert out.rstrip().splitlines()[-1].startswith(" ")


@pytest.mark.parametrize("name", [name for name in ALL if name != "store"])
def test_the_examples_are_commands_with_options_that_exist(name):
    for line in ALL[name].epilog.splitlines():
        for example in line.split(" && "):
            program, *arguments = shlex.split(example)
            assert program == "gappletron"
            path = arguments[:2] if arguments[0] == "store" else arguments[:1]
            ALL[" ".join(path)].make_context("example", arguments[len(path) :])  # an error for an unknown option


def test_the_examples_of_commands_with_files_work(folder):
    for name in ("teach", "predict", "explain", "weights", "run", "graph"):
        for line in ALL[name].epilog.splitlines():
            if "digits" not in line:
                code, _, err = ended(*shlex.split(line)[1:])
                assert code == 0, f"{line}\n{err}"


def test_help_and_version_are_commands_too():
    assert ended("help", "run") == ended("run", "--help")
    assert ended("help") == ended("--help")
    assert ended("version") == ended("--version")
    assert ended("store") == ended("store", "--help")
    assert "?:" not in ended("rnu")[2]
    code, out, err = ended()
    assert (code, err) == (0, "")
    assert "Where to begin" in out
    assert max(map(len, out.splitlines())) <= 80
    assert set(COMMANDS) <= set(re.findall(r"^  ([a-z]+) ", ended("--help")[1], re.MULTILINE))


def test_what_each_learner_is_for_is_said():
    assert list(PURPOSES) == names()
    listed = ended("learners", "--graph", "full")[1]
    assert re.findall(r"^  (\S+)", listed, re.MULTILINE) == names(FeedbackGraph.full(4))
    for line in ended("learners")[1].splitlines():
        assert len(line) < 150


def test_tables_lose_columns_and_never_digits():
    header = ("learner", "mean error", "min", "max", "labels seen", "ns per round")
    rows = [("a name of several words", "0.0483", "0.0482", "0.0486", "95,166", "943")]
    for width in range(24, 90):
        lines = align(header, rows, width)
        table = "\n".join(lines[: lines.index("")] if "" in lines else lines)
        assert max(map(len, table.splitlines())) <= max(width, 24)
        assert "mean error" in table
        assert numbers(table) <= {"0.0483", "0.0482", "0.0486", "95,166", "943"}
        shown = [name for name in header if name in table]
        assert sorted(
            {*shown, *re.split(", ", " ".join(map(str.strip, lines)).partition("left out: ")[2])} & set(header)
        ) == sorted(header)
    every = "\n".join(split(header, rows, 30))
    assert numbers(every) == {"0.0483", "0.0482", "0.0486", "95,166", "943"}
    assert wrap("one two", None) == "one two"
    assert wrap("a/very/long/path and 1,234,567 more", 10) == "a/very/long/path\n  and\n  1,234,567\n  more"


def test_every_label_seen_is_said(folder):
    _, _, err = ended("run", "mail.csv", "--label", "label")
    assert "every label was seen: no --graph was given" in err
    assert err.rstrip().endswith("--graph filtering --revealing ham")  # a class of the file
    _, _, err = ended("run", "mail.csv", "--label", "label", "--graph", "bandit")
    assert "every label" not in err
    _, _, err = ended("run", "synthetic:K=5,d=40,T=200")
    assert "every label" not in err


@pytest.mark.parametrize(
    "options",
    [
        "--graph nonsense",
        "--graph filtering --classes ham,spam --revealing eggs",
        "--classes ham,spam --cost eggs,ham=1",
        "--normalize nonsense",
        "--budget nonsense",
        "--min-propensity 2",
        "--learner nonsense",
        "--repeats 0",
        "--rounds 0",
        "--text message --numeric message",
        "--scores nonsense",
        "--memory 5 --seed -1",
    ],
)
def test_mistakes_are_found_before_a_file_is_opened(folder, options):
    code, out, err = ended("run", "there-is-no-such-file.csv", *shlex.split(options))
    assert (code, out) == (2, "")
    assert "no-such-file" not in err
    assert not re.search(r"\b[a-z_]+=(?:'|\[|None|True)|\w\(", err), err  # cures are options, not Python
