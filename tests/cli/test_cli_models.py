"""Tables on the command line; models that are saved, loaded, taught and asked."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from gappletron import Encoder, FeedbackGraph, Online, open_stream, play
from problems import ended

WORDS = {"ham": ["see", "you", "lunch", "at", "five", "home"], "spam": ["win", "free", "prize", "call", "now", "cash"]}


def rows(count, seed):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        label = "spam" if rng.random() < 0.3 else "ham"
        other = WORDS["ham" if label == "spam" else "spam"]
        words = [*rng.choice(WORDS[label], 4), *rng.choice(other, 1)]
        found.append((label, " ".join(words), round(float(rng.normal()), 3)))
    return found


def write(path, found, header=True):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([("label", "message", "score"), *found] if header else found)
    return path


@pytest.fixture
def mails(tmp_path):
    return write(tmp_path / "mails.tsv", rows(300, 0))


FILTER = ("--label", "label", "--graph", "filtering", "--revealing", "ham")


def test_a_table_is_played_as_by_the_library(mails, tmp_path):
    code, out, err = ended("run", mails, *FILTER, "--json", tmp_path / "run.json", "--confusion")
    assert (code, err) == (0, "columns: label: label; text: message; numeric: score\n")
    assert "action \\ label" in out
    document = json.loads((tmp_path / "run.json").read_text())
    run = document["runs"][0]
    history = play("auto", open_stream(mails, label="label"), "filtering", revealing="ham")[0]
    assert (run["mistakes"], run["labels_seen"]) == (history.mistakes, history.labels_seen)
    assert run["confusion"] == history.confusion.tolist()
    assert run["curve"]["mistakes"] == history.curve.mistakes.tolist()
    assert run["curve"]["rounds"][-1] == 300
    assert (run["normalization"]["piece"], run["bias"]) == ("Columns", True)
    assert document["graph"]["edges"] == [["ham", "ham"], ["ham", "spam"]]
    assert document["data"]["encoder"]["text"] == ["message"]
    assert history.error_rate < 0.1


def test_kinds_can_be_given(mails, tmp_path):
    code, _, err = ended("run", mails, *FILTER, "--categorical", "score", "--drop", "message")
    assert (code, err) == (0, "columns: label: label; categorical: score; drop: message\n")
    code, _, err = ended("run", mails, *FILTER, "--text", "score", "--numeric", "message", "--features", 1024)
    assert (code, err) == (0, "columns: label: label; text: score; numeric: message\n")
    bare = write(tmp_path / "bare.tsv", rows(50, 1), header=False)
    code, _, err = ended("run", bare, *FILTER, "--columns", "label,message,score")
    assert code == 0


def test_saved_and_loaded_is_one_run(mails, tmp_path):
    """Two halves, the second by a loaded model, give the same model as the whole in one run."""
    found = rows(300, 0)
    first, second = write(tmp_path / "a.tsv", found[:120]), write(tmp_path / "b.tsv", found[120:])
    assert ended("run", mails, *FILTER, "--save", tmp_path / "whole.npz")[0] == 0
    assert ended("run", first, *FILTER, "--save", tmp_path / "half.npz")[0] == 0
    code, out, _ = ended(
        "run", second, "--label", "label", "--load", tmp_path / "half.npz", "--save", tmp_path / "c.npz"
    )
    assert code == 0
    assert "filtering graph, 'ham' reveals" in out
    whole, both = Online.load(tmp_path / "whole.npz"), Online.load(tmp_path / "c.npz")
    assert whole.rounds == both.rounds == 300
    np.testing.assert_array_equal(whole.weights, both.weights)
    assert whole.encoder == both.encoder
    record = {"message": "win free cash", "score": 0.5}
    assert whole.act(record).action == both.act(record).action


def test_a_new_class_in_a_loaded_model(mails, tmp_path):
    assert ended("run", mails, "--label", "label", "--save", tmp_path / "m.npz")[0] == 0
    more = write(tmp_path / "more.tsv", [*rows(20, 1), ("news", "the paper of today", 0.0)] * 10)
    code, _, _ = ended("run", more, "--label", "label", "--load", tmp_path / "m.npz", "--save", tmp_path / "m.npz")
    assert code == 0
    assert Online.load(tmp_path / "m.npz").graph.classes == ("ham", "spam", "news")


def test_predictions(mails, tmp_path):
    model = tmp_path / "m.npz"
    assert ended("run", mails, *FILTER, "--save", model)[0] == 0
    code, out, err = ended("predict", model, mails, "--label", "label")
    assert code == 0
    found = list(csv.reader(out.splitlines()))
    assert found[0] == ["prediction", "p(ham)", "p(spam)"]
    online = Online.load(model)
    records = [{"message": message, "score": score} for _, message, score in rows(300, 0)]
    assert [row[0] for row in found[1:]] == online.predict_many(records)
    np.testing.assert_allclose(
        [[float(cell) for cell in row[1:]] for row in found[1:]], online.predict_proba(records), rtol=1e-5
    )
    wrong = sum(row[0] != label for row, (label, _, _) in zip(found[1:], rows(300, 0), strict=True))
    assert err.startswith(f"{wrong} of 300 predictions differ from the labels")
    unlabelled = tmp_path / "new.jsonl"
    unlabelled.write_text("".join(json.dumps(record) + "\n" for record in records[:5]))
    code, out, err = ended("predict", model, unlabelled, "--out", tmp_path / "p.csv")
    assert (code, out, err) == (0, "", "")
    assert list(csv.reader((tmp_path / "p.csv").read_text().splitlines())) == found[:6]


def test_teaching(mails, tmp_path):
    model = tmp_path / "m.npz"
    code, out, err = ended("teach", model, mails, *FILTER)
    assert (code, out) == (0, "")
    assert err.endswith(f"300 rows taught; the model is in {model}\n")
    taught = Online.load(model)
    assert (taught.rounds, taught.graph.name) == (0, "filtering")
    full = play("auto", open_stream(mails, label="label"), "full")  # what teaching is equal to
    assert full[0].rounds == 300
    code, out, _ = ended("predict", model, mails)
    assert code == 0
    code, _, err = ended("teach", model, write(tmp_path / "more.tsv", rows(50, 4)), "--label", "label")
    assert (code, err.splitlines()[-1]) == (0, f"50 rows taught; the model is in {model}")
    code, out, _ = ended("run", mails, "--label", "label", "--load", model)
    assert code == 0


def test_the_memory_of_a_learner(mails, tmp_path):
    run, taught = tmp_path / "run.npz", tmp_path / "taught.npz"
    assert ended("run", mails, *FILTER, "--learner", "auto", "--memory", 40, "--save", run)[0] == 0
    assert ended("teach", taught, mails, *FILTER, "--learner", "auto", "--memory", 40)[0] == 0
    for path in (run, taught):
        assert Online.load(path).learner.scorer.memory == 40
    new = ("--graph", "filtering", "--classes", "ham,spam", "--learner", "gapsmh")
    code, _, err = ended("serve", tmp_path / "mail", *new, "--memory", 40)
    assert code == 2
    assert "gapsmh has no memory to set" in err


def test_a_svmlight_model(tmp_path):
    path, model = tmp_path / "data.svm", tmp_path / "m.npz"
    path.write_text("".join(f"{n % 2} {1 + n % 2}:1 3:{n % 5}\n" for n in range(60)))
    assert ended("run", path, "--save", model)[0] == 0
    code, out, _ = ended("predict", model, path)
    assert code == 0
    assert [line.split(",")[0] for line in out.splitlines()[-4:]] == ["0", "1", "0", "1"]
    assert ended("run", path, "--load", model, "--save", model)[0] == 0
    assert Online.load(model).rounds == 120
    path.write_text("".join(f"{n % 2} {1 + 100_000 * (n % 2)}:1 200000:{n % 5}\n" for n in range(60)))
    assert ended("run", path, "--save", model)[0] == 0
    assert Online.load(model).features == 3  # rows on demand
    code, out, _ = ended("predict", model, path)
    assert [line.split(",")[0] for line in out.splitlines()[-4:]] == ["0", "1", "0", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--learner", "auto", "--learner", "gapsmh", "--save", "x.npz"), "--save writes one model"),
        (("--repeats", "2", "--save", "x.npz"), "--save writes one model"),
        (("--graph", "bandit", "--load", "MODEL"), "--graph was given, and the model of"),
        (("--seed", "4", "--load", "MODEL"), "--seed was given, and the model of"),
        (("--memory", "40", "--load", "MODEL"), "--memory was given, and the model of"),
        (("--memory", "40", "--learner", "gapsmh"), "gapsmh has no memory to set"),
        (("--repeats", "2", "--load", "MODEL"), "--load goes on with one model"),
        (("--text", "message", "--load", "MODEL"), "the model has its own columns"),
        (("--load", "missing.npz"), "missing.npz"),
        (("--save", "x.npz", "--json", "x.npz"), "--json and --save both name"),
        (("--label", "labl"), "did you mean 'label'"),
    ],
)
def test_refusals(arguments, message, mails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ended("run", mails, "--label", "label", "--save", "MODEL")[0] == 0
    label = () if "--label" in arguments else ("--label", "label")
    code, _, err = ended("run", mails, *label, *arguments)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) <= 2


def test_predicting_with_a_label_that_is_not_there(mails, tmp_path):
    assert ended("run", mails, "--label", "label", "--save", tmp_path / "m.npz")[0] == 0
    code, _, err = ended("predict", tmp_path / "m.npz", mails, "--label", "lable")
    assert code == 2
    assert "called 'lable', did you mean 'label'" in err
    assert len(err.splitlines()) == 1


def test_a_pipe_of_rows(mails):
    command = [sys.executable, "-m", "gappletron", "run", "-", "--format", "tsv", *FILTER]
    done = subprocess.run(command, input=mails.read_bytes(), capture_output=True, timeout=120, check=True)
    by_file = ended("run", mails, *FILTER)[1]
    assert done.stdout.decode().split()[-5:-1] == by_file.split()[-5:-1]


def test_classes_are_matched_by_their_text(tmp_path):
    """A model of a svmlight file has the classes 0 and 1; a table's "0" is the same class, "2" a new one."""
    path, model = tmp_path / "data.svm", tmp_path / "m.npz"
    path.write_text("".join(f"{n % 2} {1 + n % 2}:1\n" for n in range(40)))
    assert ended("run", path, "--save", model)[0] == 0
    more = tmp_path / "more.svm"
    more.write_text("".join(f"{n % 3} {1 + n % 2}:1\n" for n in range(40)))
    assert ended("run", more, "--load", model, "--save", model)[0] == 0
    assert Online.load(model).graph.classes == (0, 1, 2)


def test_new_columns_are_judged_once_and_kept(tmp_path):
    """A model without declared columns is taught from a table, and predicts the table as it was taught."""
    model = tmp_path / "blank.npz"
    Online(graph=FeedbackGraph.full(["ham", "spam"]), encoder=Encoder(features=4096)).save(model)
    table = write(tmp_path / "mails.tsv", rows(300, 0))
    assert ended("teach", model, table, "--label", "label")[0] == 0
    assert Online.load(model).encoder.kinds == {"label": "drop", "message": "text", "score": "numeric"}
    code, _, err = ended("predict", model, table, "--label", "label")
    assert code == 0
    assert int(err.split()[0]) < 20


def test_labels_that_are_missing_are_not_mistakes(mails, tmp_path):
    model = tmp_path / "m.npz"
    assert ended("run", mails, *FILTER, "--save", model)[0] == 0
    wrong = ended("predict", model, mails, "--label", "label")[2].split()[0]
    found = [("" if n % 10 == 0 else label, *rest) for n, (label, *rest) in enumerate(rows(300, 0))]
    code, _, err = ended("predict", model, write(tmp_path / "gaps.tsv", found), "--label", "label")
    assert code == 0
    assert "of 270 predictions" in err
    assert err.endswith("; 30 rows have no label\n")
    assert int(err.split()[0]) <= int(wrong)
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"message": "win", "score": 1}\n')
    code, _, err = ended("predict", model, lines, "--label", "labl")
    assert (code, "no row of" in err) == (2, True)
    code, out, err = ended("predict", model, tmp_path / "nowhere.tsv")
    assert (code, out) == (2, "")


def test_a_model_without_an_encoder_takes_no_tables(mails, tmp_path):
    model = tmp_path / "m.npz"
    Online(graph=FeedbackGraph.full(["ham", "spam"]), features=3).save(model)
    for command in (("predict", model, mails), ("teach", model, mails, "--label", "label")):
        code, _, err = ended(*command)
        assert code == 2
        assert "without an encoder" in err
    code, _, err = ended("run", mails, "--label", "label", "--load", model)
    assert (code, "without an encoder" in err) == (2, True)


def test_one_label_is_enough_to_predict(tmp_path):
    path, model = tmp_path / "data.svm", tmp_path / "m.npz"
    path.write_text("".join(f"{n % 2} {1 + n % 2}:1\n" for n in range(40)))
    assert ended("run", path, "--save", model)[0] == 0
    path.write_text("0 1:1\n0 2:1\n")
    code, out, _ = ended("predict", model, path)
    assert code == 0
    assert [line.split(",")[0] for line in out.splitlines()] == ["prediction", "0", "1"]


def test_a_tuning_knows_how_rows_are_prepared(mails, tmp_path):
    """The default bias of tables counts in the largest norm, as one that is asked for."""
    arguments = ("--learner", "gapsmh", "--optimizer", "projected-ogd:radius=3", "--tuning", "expectation")
    gammas = []
    for bias in ((), ("--bias",)):
        code, _, _ = ended(
            "run", mails, *FILTER, *arguments, "--normalize", "unit", *bias, "--json", tmp_path / "a.json"
        )
        assert code == 0
        run = json.loads((tmp_path / "a.json").read_text())["runs"][0]
        gammas.append(run["parameters"]["exploration"]["gamma"])
    assert gammas[0] == gammas[1]


def test_a_pipe_can_be_taught_from(mails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "gappletron", "teach", "new.npz", "-", "--format", "tsv", "--label", "label"]
    done = subprocess.run(
        [*command, "--classes", "ham,spam"], input=mails.read_bytes(), capture_output=True, timeout=120, check=True
    )
    assert b"300 rows taught" in done.stderr
    assert b"for the bandit graph, since no --graph was given" in done.stderr
