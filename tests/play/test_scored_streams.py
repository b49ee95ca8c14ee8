"""Scores that come with a stream: arrays, tables, streams of one's own and the command line play the same rounds."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from gappletron import (
    UNSEEN,
    ArrayStream,
    Encoder,
    FeedbackGraph,
    Online,
    Player,
    Runs,
    Stream,
    UserError,
    interpreted,
    play,
)
from gappletron.data.open import open_stream
from gappletron.data.prepared import Remembered, prepare_chunks
from gappletron.data.scores import squash_scores
from gappletron.data.transform import transform
from problems import ended

CLASSES = ("ham", "odd", "spam")


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


def data(rounds, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=rounds)
    S = rng.normal(size=(rounds, 3)) + 2.0 * np.eye(3)[labels]
    return rng.normal(size=(rounds, 4)), np.array(CLASSES)[labels], S


def replayed(X, y, S, graph, seed=0):
    """The same rounds, one at a time."""
    player = Player("auto", graph, X.shape[1], seed=seed)
    mistakes = 0
    for x, label, s in zip(X, y, S, strict=True):
        turn, position = player.act(x, scores=s), graph.class_index(label)
        mistakes += turn.action != position
        player.learn(turn, position if graph.visible[turn.action, position] else -1)
    return player, mistakes


@pytest.mark.parametrize("order", [CLASSES, ("spam", "ham", "odd"), (*CLASSES, "never")])
def test_an_array_of_scores_is_in_the_order_of_the_graph(order):
    X, y, S = data(80)
    columns = np.full((80, len(order)), -3.0)
    columns[:, [order.index(name) for name in CLASSES]] = S
    graph = FeedbackGraph.filtering(order)
    runs = Runs("auto", (X, y), graph, scores=np.asfortranarray(columns))
    assert list(runs) == [80]
    player, mistakes = replayed(X, y, columns, graph)
    assert (runs.weights() == player.weights).all()
    assert runs.histories()[0].mistakes == mistakes
    without = play("auto", (X, y), graph)[0]
    assert mistakes < without.mistakes
    first = play("auto", (X, y), graph, scores=columns, rounds=30)[0]
    assert first.mistakes == replayed(X[:30], y[:30], columns[:30], graph)[1]


class Own(Stream):
    """A stream from outside, whose scores are given as they are."""

    name, features, classes, rounds, max_norm = "own", 4, CLASSES, 80, None

    def __init__(self, scores):
        self.X, self.y, S = data(80)
        self.given = S if scores is None else scores

    def chunks(self):
        return (chunk for chunk, _ in self.scored())

    def scored(self):
        for start in range(0, 80, 32):
            (chunk,) = ArrayStream(self.X[start : start + 32], self.y[start : start + 32], classes=CLASSES).chunks()
            yield chunk, self.given[start : start + 32]


def test_streams_and_their_wrappers_carry_scores():
    X, y, S = data(80)
    graph = FeedbackGraph.filtering(("spam", "ham", "odd"))
    inside = S[:, [2, 0, 1]]
    player, mistakes = replayed(X, y, inside, graph)
    for stream in (Own(None), Remembered(Own(None)), open_stream(Own(None), rounds=1000)):
        runs = Runs(["auto", "gapsmh"], stream, graph)  # one of them takes none
        for _ in runs:
            pass
        assert (runs.weights("auto") == player.weights).all()
        assert runs.histories()[0].mistakes == mistakes
    cut = list(prepare_chunks(transform(open_stream(Own(None), rounds=40), bias=True)))
    assert [len(ready.scores) for ready in cut] == [32, 8]
    assert (np.concatenate([ready.scores for ready in cut]) == squash_scores(S[:40])).all()
    with pytest.raises(UserError, match="'gapsmh' takes no scores"):
        play("gapsmh", Own(None), graph)
    with pytest.raises(UserError, match="scores of chunk 1 of own must be finite numbers, and those of row 8 are"):
        play("auto", Own(np.where(np.arange(80)[:, np.newaxis] == 40, np.nan, S)), graph)
    with pytest.raises(UserError, match="name all of its classes"):
        play("auto", Own(None), FeedbackGraph.bandit((*CLASSES, "never")[::-1]))
    with pytest.raises(UserError, match="a score for each class"):
        play("auto", Own(None), FeedbackGraph.bandit((*CLASSES, "never")))


def test_wrong_arrays_are_refused():
    X, y, S = data(20)
    for wrong in (S[:19], S[:, :2], "scores", S * np.nan):
        with pytest.raises(UserError, match=r"scores must be (numbers in 20 rows|finite numbers, and those of row 0)"):
            play("auto", (X, y), "bandit", scores=wrong)
    with pytest.raises(UserError, match="'gapsmh' takes no scores"):
        play("gapsmh", (X, y), "bandit", scores=S)


# --------------------------------------------------------------------------------------------------------------- tables


def write(path, X, y, S):
    names = ["label", "a", "b", "c", "d", "p_ham", "p_odd", "p_spam"]
    rows = [[label, *x, *s] for x, label, s in zip(X.tolist(), y.tolist(), S.tolist(), strict=True)]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([names, *rows])


COLUMNS = {"spam": "p_spam", "ham": "p_ham", "odd": "p_odd"}
OPTIONS = [part for name, column in COLUMNS.items() for part in ("--scores", f"{name}={column}")]


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_columns_of_a_table_are_scores_and_no_features(tmp_path, name):
    X, y, S = data(80)
    path = tmp_path / name
    write(path, X, y, S)
    stream = open_stream(path, label="label", scores=COLUMNS)
    runs = Runs("auto", stream, "bandit")
    for _ in runs:
        pass
    assert set(stream.encoder.drop) == {"label", "p_ham", "p_odd", "p_spam"}
    records = [dict(zip("abcd", x, strict=True)) for x in X.tolist()]
    graph = FeedbackGraph.bandit(CLASSES)
    model = Online("auto", graph, encoder=Encoder())
    for record, label, s in zip(records, y.tolist(), S, strict=True):
        receipt = model.act(record, scores=s)
        model.learn(receipt, label if label in receipt.reveals else UNSEEN)
    assert (runs.weights() == model.weights).all()


def test_wrong_columns_are_refused(tmp_path):
    X, y, S = data(20)
    path = tmp_path / "rows.csv"
    write(path, X, y, S)
    for scores, message in [
        ({"ham": "p_ham"}, "scores are given for .ham., and the classes are .ham., .odd., .spam.: name a column"),
        ({**COLUMNS, "else": "a"}, "name a column for each class"),
        ({**COLUMNS, "ham": "p_hum"}, "p_hum"),
        ({**COLUMNS, "ham": "label"}, "declared as something else"),
    ]:
        with pytest.raises(UserError, match=message):
            open_stream(path, label="label", scores=scores).prepare()
    with pytest.raises(UserError, match="'a' holds scores and is declared as something else"):
        open_stream(path, label="label", numeric="a", scores={**COLUMNS, "ham": "a"})
    S[7, 1] = np.nan
    write(path, X, y, S)
    with pytest.raises(UserError, match="row 8 has no number in the column 'p_odd'"):
        play("auto", open_stream(path, label="label", scores=COLUMNS), "bandit")
    with pytest.raises(UserError, match="scores= is only for files"):
        open_stream((X, y), scores=COLUMNS)


def test_the_command_line_plays_teaches_and_predicts_with_scores(tmp_path):
    X, y, S = data(80)
    path, model = tmp_path / "rows.csv", tmp_path / "model.npz"
    write(path, X, y, S)
    played = ended(
        "run",
        path,
        "--learner",
        "auto",
        "--label",
        "label",
        *OPTIONS,
        "--save",
        model,
        "--json",
        tmp_path / "found.json",
    )
    assert played[0] == 0, played
    runs = Runs("auto", open_stream(path, label="label", scores=COLUMNS), "bandit")
    for _ in runs:
        pass
    saved = Online.load(model)
    assert (saved.weights == runs.weights()).all()
    code, out, err = ended("predict", model, path, "--label", "label", *OPTIONS)
    assert code == 0, err
    records = [dict(zip("abcd", x, strict=True)) for x in X.tolist()]
    chances = saved.predict_proba(records, scores=S)
    lines = list(csv.reader(out.splitlines()))
    assert [line[0] for line in lines[1:]] == saved.predict_many(records, scores=S)
    assert lines[1][1:] == [f"{chance:.6g}" for chance in chances[0]]
    assert ended("run", path, "--label", "label", *OPTIONS, "--load", model, "--save", tmp_path / "more.npz")[0] == 0
    player = runs.player()
    for _ in Runs.continuing(player, open_stream(path, label="label", scores=COLUMNS)):
        pass
    assert (Online.load(tmp_path / "more.npz").weights == player.weights).all()
    code, _, err = ended("teach", tmp_path / "taught.npz", path, "--learner", "auto", "--label", "label", *OPTIONS)
    assert code == 0, err
    taught = Online.load(tmp_path / "taught.npz")
    twin = Online("auto", taught.graph, encoder=Encoder())
    for record, label, s in zip(records, y.tolist(), S, strict=True):
        twin.teach(record, label, scores=s)
    assert (taught.weights == twin.weights).all()
    assert taught.predict_proba(records, scores=S).tolist() == twin.predict_proba(records, scores=S).tolist()
    for wrong in ("ham", "ham=", "ham=p_ham"):
        code, _, err = ended(
            "run", path, "--learner", "auto", "--label", "label", "--scores", wrong, "--scores", "ham=p_ham"
        )
        assert code == 2
        assert "CLASS=COLUMN" in err
    code, _, err = ended("run", path, "--label", "label", *OPTIONS, "--learner", "gapsmh")
    assert code == 2
    assert "takes no scores" in err
