"""Texts and JSON: one grammar for learners, rules, streams and graphs, and the same words where a text is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from gappletron import (
    AdaGrad,
    Banditron,
    Exploration,
    FeedbackGraph,
    FixedOGD,
    Gappletron,
    Hinge,
    Optimizer,
    Paper,
    ProjectedOGD,
    TopUp,
    UserError,
    named,
    open_stream,
    play,
)
from gappletron.base.text import read_classes, read_numbers, split_settings
from gappletron.graphs.open import match_classes, open_graph
from gappletron.kernel.spelling import decode_piece, encode_piece, read_piece, to_json

READERS = {
    "learner": lambda text: named(text.replace("NAME", "banditron").replace("KEY", "gamma")),
    "optimizer": lambda text: read_piece(
        Optimizer, text.replace("NAME", "fixed-ogd").replace("KEY", "rate"), "optimizer"
    ),
    "rule": lambda text: read_piece(
        Exploration, text.replace("NAME", "top-up").replace("KEY", "gamma"), "exploration rule"
    ),
    "stream": lambda text: open_stream(text.replace("NAME", "synthetic").replace("KEY", "seed")),
    "graph": lambda text: open_graph(text.replace("NAME", "filtering").replace("KEY", "revealing"), 3),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NAME:KEY", r"\Aexpected key=value in '[a-z-]+:[a-z]+', not '[a-z]+': write for example [a-z-]+:[a-z]+=1\Z"),
        ("NAME:=1", r"\Aexpected key=value in '[a-z-]+:=1', not '=1'"),
        ("NAME:KEY=1,", r"\Aexpected key=value in '[a-z-]+:[a-z]+=1,', not ''"),
        ("NAME:KEY=1,KEY=1", r"\A'[a-z-]+:.*' sets '[a-z]+' twice: keep one\Z"),
        ("NAME:colour=1", r"\A'[a-z-]+:colour=1': there is no setting 'colour': choose one of '"),
    ],
)
def test_every_kind_of_text_is_refused_in_the_same_words(read, text, words):
    with pytest.raises(UserError, match=words):
        read(text)


@pytest.mark.parametrize("read", [READERS[kind] for kind in ("learner", "optimizer", "rule", "stream")])
def test_a_setting_that_is_no_number(read):
    with pytest.raises(UserError, match=r"\A[a-z]+=fast in '[a-z-]+:[a-z]+=fast' is not a number: write for example"):
        read("NAME:KEY=fast")


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_spaces_and_an_empty_list_of_settings_do_no_harm(read):
    assert read("NAME:") is not None
    assert read("NAME: KEY = 1 ") is not None


def test_long_texts_are_cut_in_messages():
    with pytest.raises(UserError) as caught:
        split_settings("a:" + "9" * 5000)
    assert len(str(caught.value)) < 300


def test_texts():
    assert split_settings("digits") == ("digits", {})
    assert split_settings("a:b=c=d") == ("a", {"b": "c=d"})
    assert read_numbers("a:b=1e6,c=0.5,d=-2") == ("a", {"b": 1_000_000, "c": 0.5, "d": -2})
    assert read_classes("2") == (0, 1)
    assert read_classes("1,2") == ("1", "2")
    for wrong in ("1", "10001", "9" * 5000):
        with pytest.raises(UserError, match="is not a number of classes: choose 2 to 10000"):
            read_classes(wrong)


# --------------------------------------------------------------------------------------------------------------- pieces


def test_pieces_by_text():
    assert read_piece(Optimizer, "ada-grad", "optimizer") == AdaGrad()
    assert read_piece(Optimizer, "fixed-ogd:rate=0.5,radius=2", "optimizer") == FixedOGD(0.5, 2)
    assert read_piece(Exploration, "top-up:gamma=2", "exploration rule") == TopUp(2)
    assert read_piece(Exploration, "paper", "exploration rule") == Paper()
    assert named("banditron:gamma=0.1") == Banditron(0.1)
    for text in ("", "nonsense", "smooth-hinge", "fixed-ogd:rate=-1"):
        with pytest.raises(UserError):
            read_piece(Optimizer, text, "optimizer")


def test_only_the_rules_of_the_family_are_offered():
    """Gaptron's own way to explore is an exploration rule too, but it is a part of Gaptron."""
    named("gaptron-log")
    with pytest.raises(
        UserError,
        match=r"'gaptron-mix': choose one of 'burn-in', 'decoding', 'epsilon-greedy', 'greedy', 'inverse-gap', "
        r"'optimised', 'paper', 'square-cb', 'top-up'\Z",
    ):
        read_piece(Exploration, "gaptron-mix", "exploration rule")


def test_a_learner_without_numbers():
    with pytest.raises(UserError, match="'perceptron:rate=1' sets 'rate', but there is nothing to set: omit it"):
        named("perceptron:rate=1")


@pytest.mark.parametrize("learner", [Gappletron(), Gappletron(Hinge(0.3), ProjectedOGD(2), Paper(0.1))])
def test_spelled_and_rebuilt(learner):
    assert decode_piece(json.loads(json.dumps(encode_piece(learner)))) == learner


def test_json_has_no_infinity():
    assert to_json(encode_piece(FixedOGD())) == {"piece": "FixedOGD", "rate": FixedOGD().rate, "radius": "inf"}


# --------------------------------------------------------------------------------------------------------------- graphs


def test_graphs_by_text(tmp_path):
    assert open_graph("bandit", 4) == FeedbackGraph.bandit(4)
    assert open_graph("filtering", ["a", "b", "c"]) == FeedbackGraph.filtering(["a", "b", "c"], "a")
    assert open_graph("filtering:revealing=b", ["a", "b", "c"]) == FeedbackGraph.filtering(["a", "b", "c"], "b")
    assert open_graph("apple-tasting:revealing=1", 2) == FeedbackGraph.apple_tasting(2, 1)
    assert open_graph("filtering", 3, revealing=["2", 0]) == FeedbackGraph.filtering(3, [2, 0])
    path = tmp_path / "a:b=c.json"
    FeedbackGraph.bandit(3).to_json(path)
    for file in (path, str(path)):
        assert open_graph(file, 2) == FeedbackGraph.bandit(3)
    graph = FeedbackGraph.full(2)
    assert open_graph(graph, 7) is graph


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        ("bandits", {}, "there is no graph 'bandits', did you mean 'bandit'? Choose one of 'bandit'"),
        ("bandits:revealing=1", {}, "there is no graph 'bandits'"),
        (None, {}, "there is no graph None"),
        ("bandit:revealing=1", {}, "'bandit:revealing=1' sets 'revealing', but there is nothing to set: omit it"),
        ("bandit", {"revealing": 1}, "the bandit graph has no revealing class to choose"),
        ("filtering:revealing=9", {}, "there is no class '9': choose one of 0, 1, 2"),
        ("filtering", {"revealing": True}, "there is no class True: choose one of 0, 1, 2"),
        ("filtering:revealing=1", {"revealing": 2}, "so does revealing=2: give one of them"),
    ],
)
def test_wrong_texts_of_graphs(graph, options, message):
    with pytest.raises(UserError, match=re.escape(message)):
        open_graph(graph, 3, **options)


def test_a_class_is_found_by_its_type_before_its_text():
    assert open_graph("filtering", [1, "1"], revealing="1").revealing == ("1",)
    assert open_graph("filtering", [1, "1"], revealing=1).revealing == (1,)
    assert open_graph("filtering", [None, "x"], revealing="None").revealing == (None,)
    with pytest.raises(UserError, match="there is no class 'None'"):
        open_graph("filtering", [True, "x"], revealing="None")


def test_the_classes_of_a_stream_in_a_graph():
    assert match_classes([0, 1, 2], FeedbackGraph.bandit(3)) is None
    assert match_classes([0, 1], FeedbackGraph.bandit(["1", "0", "x"])).tolist() == [1, 0]
    assert match_classes(["1", 1], FeedbackGraph.bandit([1, "1"])).tolist() == [1, 0]
    with pytest.raises(UserError, match="the stream has the class 'c', but the graph 'bandit' knows only 'a', 'b'"):
        match_classes(["a", "c"], FeedbackGraph.bandit(["a", "b"]))
    with pytest.raises(UserError, match="are one class of the graph"):
        match_classes(["1", 1], FeedbackGraph.bandit([1, 2]))


def test_playing_a_graph_by_text():
    stream = "synthetic:K=3,d=40,T=50"
    by_text = play("gapsmh", stream, "filtering:revealing=2")
    assert by_text.title.endswith("filtering graph, 2 reveals")
    assert by_text[0].labels_seen == play("gapsmh", stream, FeedbackGraph.filtering(3, 2))[0].labels_seen


def test_graphs_by_text_need_no_compiler():
    code = "import sys\nfrom gappletron.graphs.open import open_graph\nopen_graph('filtering:revealing=1', 3)\n"
    subprocess.run([sys.executable, "-c", code + "assert 'numba' not in sys.modules"], check=True)


def test_a_piece_in_the_place_of_a_number():
    with pytest.raises(UserError, match="give it as --exploration greedy, or in Python"):
        named("auto:exploration=greedy")
