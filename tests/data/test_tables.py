"""Tables in files: against Python's own readers and one record at a time; and a sentence for what cannot be read."""

import csv
import gzip
import io
import json
import os
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gappletron import UNSEEN, Encoder, FeedbackGraph, Online, Player, Runs, UserError, open_stream, play
from gappletron.cli.options import TableOptions
from gappletron.data import formats, sources
from gappletron.data.tables import RecordStream, TableFile
from gappletron.play import archive

ROWS = [
    {"label": "ham", "message": 'He said "see you, at five"', "age": "41", "city": "Bonn", "when": "2024-01-05"},
    {"label": "spam", "message": "WIN a prize\nnow, call us", "age": "", "city": "New York", "when": "2024-02-29"},
    {"label": "ham", "message": "Grüße aus Köln heute", "age": "37.5", "city": "", "when": "2024-03-01"},
    {"label": "spam", "message": "free entry, free prize", "age": "unknown", "city": "Ulm", "when": ""},
    *(
        {"label": "ham", "message": f"lunch at {n} o'clock", "age": str(n), "city": "Bonn", "when": "2024-05-05"}
        for n in range(20)
    ),
]
KINDS = {"message": "text", "age": "numeric", "city": "categorical", "when": "text"}


def as_csv(rows, delimiter=",", newline="\n"):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator=newline)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@pytest.fixture
def write(tmp_path):
    def write(content, name="mails.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def played(stream):
    """The rows of a stream as dicts, and their labels by name."""
    found, names = [], []
    for chunk in stream.chunks():
        for row, label in enumerate(chunk.labels):
            part = slice(chunk.indptr[row], chunk.indptr[row + 1])
            found.append(dict(zip(chunk.indices[part].tolist(), chunk.values[part].tolist(), strict=True)))
            names.append(stream.classes[label])
    return found, names


def expected(rows, encoder):
    def encoded(row):
        indices, values = encoder.encode({name: value for name, value in row.items() if name != "label"})
        return dict(zip(indices.tolist(), values.tolist(), strict=True))

    return [encoded(row) for row in rows], [row["label"] for row in rows]


ENCODER = Encoder(text=["message", "when"], numeric="age", categorical="city")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.csv", as_csv(ROWS)),
        ("crlf.csv", as_csv(ROWS, newline="\r\n")),
        ("bom.csv", "\ufeff" + as_csv(ROWS)),
        ("semicolons.csv", as_csv(ROWS, ";")),
        ("tabs.csv", as_csv(ROWS, "\t")),
        ("no-newline.csv", as_csv(ROWS).rstrip("\n")),
        ("packed.csv.gz", gzip.compress(as_csv(ROWS).encode())),
        ("parts.csv.gz", gzip.compress(as_csv(ROWS).encode()[:70]) + gzip.compress(as_csv(ROWS).encode()[70:])),
        ("packed.csv.zst", pa.compress(as_csv(ROWS).encode(), "zstd", asbytes=True)),
        ("no-suffix", as_csv(ROWS)),
    ],
)
def test_csv_files_as_pythons_reader_reads_them(name, content, write):
    stream = open_stream(write(content, name), label="label")
    assert stream.encoder.kinds == {**KINDS, "label": "drop"}
    assert (stream.classes, stream.rounds, stream.classes_given) == (("ham", "spam"), len(ROWS), False)
    assert played(stream) == expected(ROWS, ENCODER)
    assert played(stream) == expected(ROWS, ENCODER)  # a file can be played again


def test_blocks_may_end_anywhere(write, monkeypatch):
    path = write(as_csv(ROWS))
    for block in (300, 411, 1000):
        monkeypatch.setattr(sources, "BLOCK", block)
        assert played(open_stream(path, label="label", encoder=ENCODER)) == expected(ROWS, ENCODER)


def test_tsv_has_no_quotes(write):
    text = 'label\tmessage\nham\t"well" he said\nspam\t"win a prize now\nham\tok then, at five\n'
    stream = open_stream(write(text, "mails.tsv"), label="label", text="message")
    assert stream.rounds == 3
    rows = [dict(zip(("label", "message"), line.split("\t"), strict=True)) for line in text.splitlines()[1:]]
    assert played(stream) == expected(rows, Encoder(text="message"))


def test_json_lines(write):
    rows = [{**row, "tags": ["a", "b"], "user": {"age": 3}} for row in ROWS]
    rows[7]["late"] = 2.5  # a new column
    del rows[8]["city"]
    path = write("\n".join(map(json.dumps, rows)) + "\n\n", "mails.jsonl")
    encoder = ENCODER
    assert played(open_stream(path, label="label", encoder=encoder)) == expected(rows, encoder)
    found = open_stream(path, label="label").encoder.kinds
    assert {name: found[name] for name in KINDS} == KINDS


def test_parquet(write, tmp_path):
    frame = pd.DataFrame(
        {
            "label": pd.Categorical(["ham", "spam"] * 10),
            "number": np.linspace(-1, 1, 20),
            "count": range(20),
            "flag": [True, False] * 10,
            "text": ["see you at five", None] * 10,
            "kind": pd.Categorical(["x", "y", None, "x"] * 5),
        }
    )
    frame.loc[3, "number"] = np.nan
    path = tmp_path / "mails.parquet"
    frame.to_parquet(path)
    stream = open_stream(path, label="label", text="text")
    rows = [
        {name: None if pd.isna(value) else value for name, value in row.items()} for row in frame.to_dict("records")
    ]
    assert played(stream) == expected(rows, Encoder(text="text", categorical="kind"))
    pq.write_table(pa.table({"label": [0, 1, 1], "x": [1.0, 2.0, 3.0]}), path)
    assert open_stream(path, label="label").classes == ("0", "1")


def test_the_index_of_a_frame_is_not_a_feature(tmp_path):
    frame = pd.DataFrame({"label": ["a", "b"] * 5, "x": np.arange(10.0)}, index=np.arange(10)[::-1])
    frame.to_csv(tmp_path / "frame.csv")
    frame.to_parquet(tmp_path / "frame.parquet")
    for name, index in (("frame.csv", ""), ("frame.parquet", "__index_level_0__")):
        stream = open_stream(tmp_path / name, label="label")
        assert stream.encoder.kinds[index] == "drop"
        assert played(stream) == expected(frame.to_dict("records"), Encoder())
    assert open_stream(tmp_path / "frame.csv", label="label", numeric=[""]).encoder.kinds[""] == "numeric"


def test_vowpal_wabbit(write):
    text = "1 |words free prize:2 |len chars:21\n2 0.5 'tag|words see you\n1 |words:0.5 free |  bare\n"
    stream = open_stream(write(text, "mails.vw"))
    rows = [
        {"label": "1", "words.free": 1.0, "words.prize": 2.0, "len.chars": 21.0},
        {"label": "2", "words.see": 1.0, "words.you": 1.0},
        {"label": "1", "words.free": 0.5, ".bare": 1.0},
    ]
    assert played(stream) == expected(rows, Encoder())
    assert stream.classes == ("1", "2")


def test_mixed_encodings(write):
    content = b"label,message\nham,Gr\xfc\xdfe aus Wien heute\n" + "spam,Grüße aus Köln heute\n".encode()
    stream = open_stream(write(content), label="label", text="message")
    rows = [
        {"label": "ham", "message": "Grüße aus Wien heute"},
        {"label": "spam", "message": "Grüße aus Köln heute"},
    ]
    assert played(stream) == expected(rows, Encoder(text="message"))
    latin = "größe,label\n1,ä\n2,ö\n".encode("latin-1")
    assert open_stream(write(latin, "latin.csv"), label="label").classes == ("ä", "ö")


def test_columns_without_a_header(write):
    rows = [{"label": "ham", "message": "see you at five"}, {"label": "spam", "message": "win a prize now"}]
    body = as_csv(rows).split("\n", 1)[1]
    stream = open_stream(write(body), label="label", columns=["label", "message"], text="message")
    assert played(stream) == expected(rows, Encoder(text="message"))
    stream = open_stream(write(as_csv(rows)), label="label", columns=["label", "message"], text="message")
    assert played(stream) == expected(rows, Encoder(text="message"))  # the header is the names given


WRONG = {
    "empty": ("", "mails.csv is empty"),
    "header alone": ("label,x\n", "has a header and no rows"),
    "a field more": ("label,x\nham,1\nspam,1,2\n", "Row #2: Expected 2 columns, got 3: spam,1,2.*: quote fields"),
    "a field less": ("label,x\nham,1\nspam\n", "Row #2: Expected 2 columns, got 1"),
    "a column twice": ("label,x,x\nham,1,2\n", "the column 'x' more than once"),
    "header twice": ("label,x\nham,1\nlabel,x\nspam,1\n", "row 2 repeats the header"),
    "one class": ("label,x\nham,1\nham,2\n", "only the label 'ham'"),
    "no label": ("label,x\nham,1\n,2\n", "row 2 has no label in the column 'label'"),
    "another column": ("class,x\nham,1\n", "no column in .* 'label'.*'class', 'x'.*no header"),
    "infinite": ("label,x\nham,1\nspam,inf\n", "the column 'x' has the value inf"),
    "utf-16": ("label,x\nham,1\n".encode("utf-16"), "is UTF-16: save it as UTF-8"),
    "nul bytes": (b"label,x\nham,\0\n", "has NUL bytes"),
    "truncated gzip": (gzip.compress(as_csv(ROWS * 50).encode())[:-20], "is truncated"),
    "corrupt gzip": (b"\x1f\x8b\x08\0" + b"x" * 50, "is corrupt"),
    "truncated zstd": (pa.compress(as_csv(ROWS * 50).encode(), "zstd", asbytes=True)[:-20], "is truncated|is corrupt"),
    "an open quote": ('label,x\nspam,2\nham,"1\nspam,3\n', "ends inside a quoted field of row 2"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(name, write):
    content, message = WRONG[name]
    path = write(content)
    with pytest.raises(UserError, match=message) as caught:
        played(open_stream(path, label="label"))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"label": "a"}\n[1, 2]\n', "line 2 is JSON but not an object"),
        ("a.jsonl", '{"label": "a"\n', "line 1 is not JSON"),
        ("a.jsonl", "{" * 100_000, "line 1 is not JSON"),
        ("a.vw", "1 2 3\n", "line 1 has no '|'"),
        ("a.vw", "1 | a:x\n", "line 1 has 'a:x', whose value or weight is no number"),
        ("a.vw", "| a\n1 | b\n", "line 1 has no label"),
        ("a.parquet", "label,x\nham,1\n", "cannot be read as Parquet.*this looks like CSV: add"),
        ("a.parquet", b"PAR1" + b"\0" * 100 + b"PAR1", "cannot be read as Parquet"),
    ],
)
def test_other_wrong_files(name, content, message, write):
    path = write(content, name)
    with pytest.raises(UserError, match=message) as caught:
        played(open_stream(path, label=None if name.endswith("vw") else "label"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("label\tmessage\nham\thello\n", "this looks like TSV: add --label COLUMN"),
        ("ham\thello there my old friend\n", "TSV: add --label COLUMN, and --columns"),
        ("label,x\nham,1\n", "this looks like CSV: add --label COLUMN"),
        ("5.1,3.5,1.4,setosa\n", "looks like CSV: add"),
        ('{"label": "ham"}\n', "JSON lines: use --format jsonl --label COLUMN"),
        ("spam |words a b\n", "Vowpal Wabbit: use --format vw"),
        (b"PAR1\0\0", "Parquet: use --format parquet"),
    ],
)
def test_a_file_that_is_not_svmlight(content, message, write):
    with pytest.raises(UserError, match=message):
        open_stream(write(content, "data.svm")).prepare()


def test_options_that_do_not_fit(write):
    path = write(as_csv(ROWS))
    with pytest.raises(UserError, match=r"is a table: name the column of its labels.*'label', 'message', 'age'"):
        open_stream(path).prepare()
    with pytest.raises(UserError, match="there is no format 'xls'"):
        open_stream(path, label="label", format="xls")
    with pytest.raises(UserError, match="columns were given beside an encoder"):
        open_stream(path, label="label", text="message", encoder=Encoder())
    with pytest.raises(UserError, match="read as svmlight, which has no named columns: omit the label"):
        open_stream(write("1 1:1\n", "a.svm"), label="label")
    with pytest.raises(UserError, match="2 names were given"):
        open_stream(path, label="label", columns=["label", "message"]).prepare()
    with pytest.raises(UserError, match="row 2 has the label 'spam', which is not among the classes"):
        played(open_stream(path, label="label", classes=["ham", "eggs"]))
    with pytest.raises(UserError, match="label= is only for files"):
        open_stream("digits", label="label")
    assert open_stream(path, label="label", classes=["spam", "ham"]).classes == ("spam", "ham")


def test_a_file_that_changes(write):
    path = write(as_csv(ROWS))
    stream = open_stream(path, label="label")
    stream.prepare()
    next(stream.chunks())
    path.write_text(as_csv(ROWS[:5]))
    with pytest.raises(UserError, match="had 24 rows when it was scanned and now has 5"):
        played(stream)


def test_numbers_that_are_not(write):
    """A word in a column of numbers, after the block from which its kind was found, is a category."""
    rows = [{"label": "ab"[n % 2], "x": str(n)} for n in range(50)] + [
        {"label": "a", "x": "many"},
        {"label": "b", "x": "NA"},
    ]
    stream = open_stream(write(as_csv(rows)), label="label")
    assert stream.encoder.kinds["x"] == "numeric"
    assert played(stream) == expected(rows, Encoder(numeric="x"))


def test_the_label_is_never_a_feature(write):
    path = write(as_csv(ROWS))
    for declared in ({"categorical": "label"}, {"encoder": Encoder(text="label")}):
        with pytest.raises(UserError, match="the column 'label' holds the labels and is declared as"):
            open_stream(path, label="label", **declared)
    assert open_stream(path, label="label", drop="label").encoder.kinds["label"] == "drop"


def test_a_declared_column_must_be_there(write):
    path = write(as_csv(ROWS))
    with pytest.raises(UserError, match=r"no column in .* called 'agee', did you mean 'age'"):
        open_stream(path, label="label", numeric="agee").prepare()
    open_stream(path, label="label", encoder=Encoder(numeric="agee")).prepare()  # a model may know more columns


def test_names_and_categories_in_any_encoding(write):
    utf8 = "Kläße,wort\na,grün\nb,rot\n".encode() + b"a,\xe9t\xe9\n"
    stream = open_stream(write(utf8), label="Kläße", categorical="wort")
    rows = [{"label": "a", "wort": "grün"}, {"label": "b", "wort": "rot"}, {"label": "a", "wort": "été"}]
    assert played(stream) == expected(rows, Encoder(categorical="wort"))


def test_semicolons_and_decimal_commas(write):
    stream = open_stream(write("label;x;t\na;1,5;one, two\nb;-2,25;3,5 and 4\n"), label="label", text="t")
    rows = [{"label": "a", "x": 1.5, "t": "one, two"}, {"label": "b", "x": -2.25, "t": "3,5 and 4"}]
    assert played(stream) == expected(rows, Encoder(text="t"))


def test_delimiters_that_fit_the_names(write):
    body = "ham,see you; at five; or six\nspam,win; now; or never\n"
    stream = open_stream(write(body), label="label", columns=["label", "message"], text="message")
    rows = [{"label": "ham", "message": "see you; at five; or six"}, {"label": "spam", "message": "win; now; or never"}]
    assert played(stream) == expected(rows, Encoder(text="message"))


def test_first_rows_that_are_hard_to_read(write):
    rows = [{"label": "ham", "message": '"quoted at first'}, {"label": "spam", "message": "x" * 200_000}]
    text = "".join(f"{row['label']}\t{row['message']}\n" for row in rows)
    stream = open_stream(write(text, "a.tsv"), label="label", columns=["label", "message"], text="message")
    assert played(stream) == expected(rows, Encoder(text="message"))
    with pytest.raises(UserError, match="first row that cannot be read"):
        open_stream(write('label,"x' + "y" * 200_000), label="label").prepare()
    assert open_stream(write("\n\r\nlabel,x\na,1\nb,2\n"), label="label").rounds == 2


def test_labels_of_numbers_with_gaps(tmp_path):
    pq.write_table(pa.table({"label": [1.0, 2.0, float("nan")], "x": [1, 2, 3]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="row 3 has no label"):
        open_stream(tmp_path / "a.parquet", label="label").prepare()
    pq.write_table(pa.table({"label": [[1], [2]], "x": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="cannot be labels"):
        open_stream(tmp_path / "a.parquet", label="label").prepare()


def test_json_blocks_are_bounded_in_bytes(write, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 1000)
    path = write("".join(json.dumps({"label": "ab"[n % 2], "t": "x" * 400}) + "\n" for n in range(20)), "a.jsonl")
    assert max(len(block.rows) for block in formats.FORMATS["jsonl"].read(sources.Source(path))) == 3


# --------------------------------------------------------------------------------------------------------------- pipes


@pytest.fixture
def pipe(tmp_path):
    threads = []

    def pipe(content, name="pipe"):
        path = tmp_path / name
        os.mkfifo(path)

        def fill():
            path.write_bytes(content.encode())

        threads.append(threading.Thread(target=fill))
        threads[-1].start()
        return path

    yield pipe
    for thread in threads:
        thread.join()


def three_classes(rows=3000):
    """The third class comes late, after the first block."""
    names = ["red", "green"] * (rows // 2) + ["blue", "red", "green"] * 100
    return [{"label": name, "x": str(len(name)), "y": str(n % 7)} for n, name in enumerate(names)]


def test_classes_are_added_as_they_come(pipe, write, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 4096)
    rows = three_classes()
    by_pipe = play("auto", open_stream(pipe(as_csv(rows)), label="label", format="csv"), "bandit", curve=[10])
    assert by_pipe[0].graph.classes == ("red", "green", "blue")
    assert by_pipe[0].rounds == len(rows)
    assert by_pipe[0].error_rate < 0.1
    assert by_pipe[0].confusion.sum() == len(rows)
    labels = [row["label"] for row in rows]
    assert by_pipe[0].confusion.sum(axis=0).tolist() == [labels.count(name) for name in ("red", "green", "blue")]

    # the same as a player that gets the class just before its chunk
    stream = open_stream(write(as_csv(rows)), label="label", classes=["red", "green", "blue"])
    player = Player("auto", FeedbackGraph.bandit(["red", "green"]), stream.features, normalize="columns", bias=True)
    for chunk in stream.chunks():
        if (chunk.labels == 2).any() and player.graph.n_classes == 2:
            player.add_class("blue")
        player.advance(chunk)
    again = open_stream(pipe(as_csv(rows), "again"), label="label", format="csv")
    runs = Runs("auto", again, "bandit")
    for _ in runs:
        pass
    np.testing.assert_array_equal(runs.weights(), player.weights)


def test_extra_actions_stay_last(pipe, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 4096)
    rows = three_classes()
    history = play("auto", open_stream(pipe(as_csv(rows)), label="label", format="csv"), "label-efficient")[0]
    assert history.graph.actions == ("red", "green", "blue", "query")
    assert history.confusion.shape == (4, 3)
    assert history.confusion[3].sum() == history.labels_seen


def test_pipes_refuse_what_needs_a_second_look(pipe, tmp_path):
    with pytest.raises(UserError, match="has no name that tells its format"):
        open_stream(pipe("x,label\n", "one"), label="label")
    (tmp_path / "one").read_bytes()  # so that its writer ends
    stream = open_stream(pipe(as_csv(ROWS), "two"), label="label", format="csv")
    played(stream)
    with pytest.raises(UserError, match="is a pipe and was read already"):
        played(stream)
    os.mkfifo(tmp_path / "three")
    with pytest.raises(UserError, match="is a pipe, and Parquet is read from its end"):
        open_stream(tmp_path / "three", label="label", format="parquet").prepare()
    with pytest.raises(UserError, match="only the label 'ham'"):
        open_stream(pipe("label,x\nham,1\n", "four"), label="label", format="csv").prepare()


def test_a_graph_of_ones_own_refuses_a_new_class(pipe, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 4096)
    graph = FeedbackGraph([[1, 1], [0, 1]], ["red", "green"])
    with pytest.raises(UserError, match=r"blue|reveals"):
        play("auto", open_stream(pipe(as_csv(three_classes())), label="label", format="csv"), graph)


# ------------------------------------------------------------------------------------------------------ in memory


def test_records_in_memory_are_the_file(write):
    rows = [{name: value or None for name, value in row.items()} for row in ROWS]
    labels = [row.pop("label") for row in rows]
    by_file = played(open_stream(write(as_csv(ROWS)), label="label"))
    for records in (rows, pd.DataFrame(rows), pd.DataFrame(rows).astype(object), pa.Table.from_pylist(rows)):
        assert played(RecordStream(records, labels, encoder=ENCODER)) == by_file
    assert isinstance(open_stream((rows, labels)), RecordStream)
    assert isinstance(open_stream((pd.DataFrame(rows), labels)), RecordStream)


def test_frames_of_numbers_are_arrays():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50, 3)), columns=list("abc"))
    frame["flag"] = rng.random(50) < 0.5
    frame["object"] = np.array([True, False] * 25, dtype=object)
    y = rng.integers(0, 2, 50)
    by_frame, by_array = open_stream((frame, y)), open_stream((frame.to_numpy(float), y))
    assert played(by_frame) == played(by_array)
    dummies = pd.get_dummies(pd.Series(["a", "b", "c"] * 5))
    assert played(open_stream((dummies, [0, 1, 0] * 5))) == played(open_stream((dummies.to_numpy(int), [0, 1, 0] * 5)))
    assert played(open_stream((polars.from_pandas(frame.drop(columns="object")), y))) == played(
        open_stream((frame.drop(columns="object").to_numpy(float), y))
    )
    assert isinstance(open_stream((polars.DataFrame({"a": ["x", "y"]}), [0, 1])), RecordStream)


# ---------------------------------------------------------------------------------------------------------- models


def test_records_in_a_model(tmp_path):
    rows = [
        ({"message": m, "n": n}, label)
        for n, (m, label) in enumerate([("win a prize", "spam"), ("see you", "ham")] * 30)
    ]
    graph = FeedbackGraph.filtering(["ham", "spam"])
    encoder = Encoder(text="message")
    model = Online("auto", graph, encoder=encoder, seed=3)
    plain = Player("auto", graph, encoder.features, seed=3, normalize="columns", bias=True)
    for record, label in rows:
        receipt, turn = model.act(record), plain.act(encoder.encode(record))
        assert graph.actions[turn.action] == receipt.action
        model.learn(receipt, label if label in receipt.reveals else UNSEEN)
        plain.learn(turn, graph.class_index(label) if label in receipt.reveals else -1)
    np.testing.assert_array_equal(model.weights, plain.weights)
    model.save(tmp_path / "model.npz")
    again = Online.load(tmp_path / "model.npz")
    assert again.encoder == encoder
    records = [record for record, _ in rows]
    assert again.predict_many(records) == [again.predict(record) for record in records]
    assert again.predict_many(pd.DataFrame(records)) == again.predict_many(records)
    np.testing.assert_array_equal(again.predict_proba(records), model.predict_proba(records))
    assert again.act(records[0]).action == model.act(records[0]).action


def test_a_damaged_encoder_is_refused(tmp_path):
    model = Online(graph=FeedbackGraph.bandit(2), encoder=Encoder(features=64))
    header, content = model._contents.describe()
    for wrong in ({"features": 63}, {"features": 64, "ngrams": 99}, {"features": 64, "text": [1]}, {"other": 1}):
        archive.write(tmp_path / "wrong.npz", "gappletron.Online", {**header, "encoder": wrong}, content)
        with pytest.raises(UserError):
            Online.load(tmp_path / "wrong.npz")


def test_encoders_and_features():
    graph = FeedbackGraph.bandit(2)
    assert Online(graph=graph, encoder=Encoder(features=64)).features == 64
    with pytest.raises(UserError, match="features=5 was given beside an encoder"):
        Online("auto", graph, 5, encoder=Encoder())
    with pytest.raises(UserError, match="is not an encoder"):
        Online(graph=graph, encoder="text")
    with pytest.raises(UserError, match="x is a text, and this model takes numbers: make one with encoder"):
        Online(graph=graph).act("some words")
    with pytest.raises(UserError, match="a record is a dict"):
        Online(graph=graph, encoder=Encoder()).act([1.0, 2.0])


def test_memory_is_stated_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("gappletron.base.checks.free_memory", lambda: 2**27)
    with pytest.raises(UserError, match=r"65537 features x 80 classes would take .* GiB.*hash the features into fewer"):
        Online(graph=FeedbackGraph.bandit(80), features=65_536)


def test_formats_by_suffix():
    for one in formats.FORMATS.values():
        assert [formats.find_ending(f"data{ending}") for ending in one.endings] == [one] * len(one.endings)
    assert formats.find_ending("a/b.CSV.GZ").name == "csv"
    assert formats.find_ending("archive.gz") is None


def test_every_format_is_in_the_help_and_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
    help_text = TableOptions.__dataclass_fields__["format"].metadata["option"].help
    for one in formats.FORMATS.values():
        assert one.name in help_text
        assert f"`{one.name}` | {', '.join(f'`{ending}`' for ending in one.endings)}" in page


def test_a_table_file_names_itself(write):
    stream = TableFile(write(as_csv(ROWS)), "label", format="csv")
    assert repr(stream).startswith("<TableFile '")
    with pytest.raises(UserError, match="there is no file"):
        TableFile("nowhere.csv", "label", format="csv")


# ------------------------------------------------------------------------------------------------------ hostile input

PARQUET = io.BytesIO()
pq.write_table(pa.table({"label": ["ham", "spam"] * 5, "x": np.arange(10.0), "t": ["a b"] * 10}), PARQUET)
GOOD = {
    "csv": as_csv(ROWS).encode(),
    "tsv": as_csv(ROWS[:1] + ROWS[2:], "\t").encode(),
    "jsonl": "\n".join(map(json.dumps, ROWS)).encode(),
    "vw": b"1 |words free prize:2 |len chars:21\n2 0.5 'tag|words see you\n" * 3,
    "parquet": PARQUET.getvalue(),
}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("format", GOOD)
def test_damaged_bytes_end_in_a_sentence(format, data, tmp_path):
    content = bytearray(GOOD[format])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        insert = data.draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"\n", b",", b"\t", b"|", b":", b"\0", b"\xff"])
        )
        content[place : place + data.draw(st.integers(0, 3))] = insert
    path = tmp_path / f"table.{format}"
    path.write_bytes(content)
    try:
        rows, names = played(open_stream(path, label=None if format == "vw" else "label", features=1000))
    except UserError as error:
        refusal = str(error)
    else:
        refusal = ""
        assert all(np.isfinite(list(row.values())).all() for row in rows)
        assert all(names)
    assert "\n" not in refusal


def test_a_file_that_is_not_what_its_name_says(tmp_path):
    path = tmp_path / "wrong.csv"
    path.write_text('{"label": "ham", "n": 1}\n{"label": "spam", "n": 2}\n')
    with pytest.raises(UserError, match="is read as CSV, but this looks like JSON lines: use --format jsonl"):
        open_stream(path, label="label").prepare()
    path.write_text("1 |words free prize:2\n2 |words see you\n")
    with pytest.raises(UserError, match="is read as CSV, but this looks like the text format of Vowpal Wabbit"):
        open_stream(path, label="label").prepare()
    path.write_text("label,n\nham,1\nspam,2\n")
    with pytest.raises(UserError, match=r"no column in .* called 'labl', did you mean 'label'"):
        open_stream(path, label="labl").prepare()
