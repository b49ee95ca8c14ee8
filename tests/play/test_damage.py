"""Damaged and hostile files: found, refused in one sentence, and never a hang or a surprise of memory."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sqlite3
import struct
import threading
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

from gappletron import FeedbackGraph, Online, Player, UserError, interpreted
from gappletron.graphs import cover, graph as graphs
from gappletron.kernel.compiling import source_hash
from gappletron.paper.figures.catalogue import select_tasks
from gappletron.paper.results import Result
from gappletron.paper.store import COLUMNS, Store, _checksum, _values, read_results
from gappletron.play import archive, engine
from storms import flipped_bytes, killed_saves, stored_result

GRAPH = FeedbackGraph.label_efficient(["a", "b", "c"])


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


def a_model(seed):
    model = Online("gapsmh", GRAPH, features=4, seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        receipt = model.act(rng.normal(size=4))
        if receipt.reveals and rng.random() < 0.7:
            model.learn(receipt, receipt.reveals[0])
    return model


def refusal(path, kind=Online):
    before = time.monotonic()
    with pytest.raises(UserError) as caught:
        kind.load(path)
    assert time.monotonic() - before < 5
    assert "\n" not in str(caught.value)
    return str(caught.value)


def members_of(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files if name != "checksum"}


def test_members_swapped_between_two_archives_are_refused(tmp_path):
    for seed in (1, 2):
        a_model(seed).save(tmp_path / f"{seed}.npz")
    contents = [{}, {}]
    for seed in (1, 2):
        with zipfile.ZipFile(tmp_path / f"{seed}.npz") as archive:
            contents[seed - 1] = {name: archive.read(name) for name in archive.namelist()}
    swapped = 0
    for name in contents[0]:
        if contents[0][name] == contents[1][name]:
            continue
        with zipfile.ZipFile(tmp_path / "mixed.npz", "w") as archive:
            for member, content in {**contents[0], name: contents[1][name]}.items():
                archive.writestr(member, content)
        assert "damaged or not a saved model" in refusal(tmp_path / "mixed.npz")
        swapped += 1
    assert swapped > 5
    with zipfile.ZipFile(tmp_path / "same.npz", "w") as archive:  # the archiver is not what was noticed
        for member, content in contents[0].items():
            archive.writestr(member, content)
    Online.load(tmp_path / "same.npz")


def test_a_small_file_that_expands_is_refused_without_taking_memory(tmp_path):
    path = tmp_path / "model.npz"
    a_model(1).save(path)
    members = members_of(path)
    members["state.optimizer.weights"] = np.zeros((2**22, 3))
    np.savez_compressed(tmp_path / "packed.npz", **members)
    assert (tmp_path / "packed.npz").stat().st_size < 2**18
    tracemalloc.start()
    refusal(tmp_path / "packed.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_a_member_that_claims_more_than_the_file_has_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    a_model(1).save(path)
    data = path.read_bytes()
    shape = data.index(b"(4, 3)")
    for claim in (b"(2**40,", b"(40000, 30000)"):
        path.write_bytes(data[:shape] + claim + data[shape + len(claim) :])
        refusal(path)
    sizes = data.index(b"PK\x01\x02") + 20  # in the directory: of the first member, packed and unpacked
    for claim in (2**20, 2**31, 2**32 - 1):
        path.write_bytes(data[:sizes] + struct.pack("<LL", claim, claim) + data[sizes + 8 :])
        refusal(path)


@pytest.mark.parametrize("size", [2**20, 2**31])
def test_a_directory_that_claims_more_than_the_file_has_takes_no_memory(tmp_path, size):
    path = tmp_path / "model.npz"
    a_model(1).save(path)
    data = path.read_bytes()
    path.write_bytes(data[:-10] + struct.pack("<L", size) + data[-6:])
    tracemalloc.start()
    refusal(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_a_directory_without_end_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "model.npz"
    entry = b"PK\x03\x04" + bytes(26)
    directory = b"\0" * (2**24 + 46)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, len(directory), len(entry), 0)
    path.write_bytes(entry + directory + end)
    tracemalloc.start()
    refusal(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def sealed(path, change):
    """The file with its header and members changed by a function, under a checksum that is right."""
    members = members_of(path)
    header = json.loads(bytes(members.pop("header")))
    change(header, members)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        archive.write_archive(file, {"header": text, **members})


@pytest.mark.parametrize("features", [5, 2**24, 2**31 - 1])
def test_no_memory_is_taken_for_what_the_file_does_not_hold(tmp_path, features, monkeypatch):
    path = tmp_path / "model.npz"
    a_model(1).save(path)
    sealed(path, lambda header, members: header.update(features=features))

    def never(*_):
        raise AssertionError("a state was made")

    monkeypatch.setattr(engine, "State", never)
    assert "does not fit the learner" in refusal(path)


@pytest.mark.parametrize(
    "about",
    [
        {"dominating_set": None},
        {"dominating_set": []},
        {"dominating_set": ["a"]},
        {"dominating_set": "abc"},
        {"dominating_set": {"a": 1}},
        {"classes": 3},
        {"classes": 10**9},
        {"classes": "abc"},
        {"actions": None},
        {"dominating_set_is_exact": 1},
        {"dominating_set_is_given": None},
    ],
)
def test_a_graph_is_as_it_was_saved_or_refused(tmp_path, about, monkeypatch):
    path = tmp_path / "model.npz"
    Player("gapsmh", GRAPH, features=2).save(path)
    assert Player.load(path).graph == GRAPH
    sealed(path, lambda header, members: header["graph"].update(about))

    def never(*_):
        raise AssertionError("the exact search was run")

    monkeypatch.setattr(graphs, "find_dominating_set", never)
    refusal(path, Player)


def hard_graph(seed=0):
    """A graph on which the exact search takes long."""
    rng = np.random.default_rng(seed)
    edges = np.zeros((110, 50), dtype=bool)
    for y in range(50):
        edges[50 + rng.choice(60, 3, replace=False), y] = True
    return FeedbackGraph(edges, dominating_set=[*range(50, 110)], actions=[*range(110)])


def test_loading_never_searches_for_a_dominating_set(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    graph = hard_graph()
    model = Online("gapsmh", graph, features=2)
    model.save(path)
    for module, name in ((graphs, "find_dominating_set"), (cover, "_find_first_minimum")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("the exact search was run"))
    loaded = Online.load(path)
    assert loaded.graph == graph
    assert loaded.graph.dominating_set_is_given
    assert not loaded.graph.dominating_set_is_exact


def test_pipes_and_devices_do_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    for path in (tmp_path / "pipe.npz", "/dev/zero", "/dev/null"):
        assert "is a pipe or a device: give a file that save() wrote" in refusal(path)


def test_a_model_saved_through_a_pipe_can_be_loaded(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    model, received = a_model(1), []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    model.save(tmp_path / "pipe")
    reader.join()
    (tmp_path / "model.npz").write_bytes(received[0])
    assert Online.load(tmp_path / "model.npz").player.to_bytes() == model.player.to_bytes()


def test_a_header_or_a_list_of_members_without_end_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    with path.open("wb") as file:
        archive.write_archive(file, {"header": np.full(2**24 + 2048, ord("["), np.uint8)})
    refusal(path)
    a_model(1).save(path)
    data = path.read_bytes()
    end = data.index(b"PK\x03\x04", 10)
    path.write_bytes(data[:end] * 2 + data[end:])  # the header twice
    refusal(path)


def test_more_rounds_than_a_receipt_can_number_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    Player("gapsmh", GRAPH, features=2).save(path)
    sealed(path, lambda header, members: header.update(rounds=2**53 + 1))
    assert "the rounds must be at most" in refusal(path, Player)


def test_names_that_no_file_could_hold_are_refused_by_save(tmp_path):
    graph = FeedbackGraph.bandit(["a" * 2**24, "b"])
    with pytest.raises(UserError, match="use shorter names"):
        Player("gapsmh", graph, features=2).save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_the_same_model_gives_the_same_bytes(tmp_path):
    saver = Player("gapsmh", GRAPH, features=2)
    saver.save(tmp_path / "one.npz")
    saver.save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_arrays_in_another_order_are_written_by_rows(tmp_path):
    with (tmp_path / "file.npz").open("wb") as file:
        archive.write_archive(file, {"a": np.arange(6.0).reshape(2, 3).T, "b": np.arange(24).reshape(4, 6)[:, 1:4]})
    with np.load(tmp_path / "file.npz") as loaded:
        assert loaded["a"].tolist() == [[0, 3], [1, 4], [2, 5]]
        assert loaded["b"].tolist() == np.arange(24).reshape(4, 6)[:, 1:4].tolist()
    with (tmp_path / "file.npz").open("rb") as file:
        arrays, is_sound = archive.read_archive(file)
    assert arrays["a"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert is_sound


# ---------------------------------------------------------------------------------------------------------------- store

TASKS = select_tasks(["full"], rounds=10, repeats=1)[:6]


@pytest.fixture
def store(tmp_path):
    """A folder with six stored runs."""
    with Store(tmp_path) as opened:
        for task in TASKS:
            opened.add(stored_result(task))
    return tmp_path


def changed(folder, *statements):
    with contextlib.closing(sqlite3.connect(folder / "results.sqlite")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def one_sentence(folder, words, kinds=(Store, read_results)):
    for opened in kinds:
        before = time.monotonic()
        with pytest.raises(UserError, match=words) as caught:
            opened(folder)
        assert time.monotonic() - before < 5
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        "mistakes = mistakes + 1",
        "error_rate = error_rate + 1e-16",
        "loss_sum = NULL",
        "comparator_gap = 0.0",
        "learner = 'gaplog'",
        "curve = '[[1, 5, 10], [1, 2, 4]]'",
        "checksum = ''",
        "checksum = x'00'",
        "sources = 'x'",
        "id = 'another'",
        "id = cast(x'ff' as text)",
    ],
)
def test_a_changed_row_is_reported_and_run_again(store, change):
    victim = TASKS[2].id
    changed(store, f"UPDATE runs SET {change} WHERE id = '{victim}'")
    one_sentence(store, "1 of the 6 rows of .* are damaged: run `gappletron reproduce", [read_results])
    with Store(store) as opened:
        assert len(opened.finished(TASKS, source_hash())) == 5
        assert len(opened.damaged) == 1
    with Store(store) as opened:
        assert opened.damaged == []
        opened.add(stored_result(TASKS[2]))
    assert read_results(store) == sorted(map(stored_result, TASKS), key=lambda result: result.task.id)


@pytest.mark.parametrize(
    "changes",
    [
        {"error_rate": math.nan},
        {"error_rate": math.inf},
        {"rate_sum": "0.25"},
        {"mistakes": 3.0},
        {"mistakes": "many"},
        {"curve": "{}"},
        {"curve": "[[1], [1, 2]]"},
        {"curve": "[[1], [null]]"},
        {"curve": "[" * 100_000},
        {"parameters": "no JSON"},
        {"machine": "\x1b[2Jm"},
        {"max_norm": None},
        {"loss_sum": b"bytes"},
    ],
)
def test_what_no_run_gives_is_never_a_result_even_with_the_right_checksum(store, changes):
    """Written with another program, which computes the checksum."""
    result = stored_result(TASKS[2])
    strange = Result(result.task, dataclasses.replace(result.outcome, **changes))
    values = _values(strange)
    with Store(store) as opened, pytest.raises(UserError, match="cannot be stored"):
        opened.add(strange)
    row = (*values, _checksum(values))
    with contextlib.closing(sqlite3.connect(store / "results.sqlite")) as connection, connection:
        connection.execute("DELETE FROM runs WHERE id = ?", (TASKS[2].id,))
        try:
            connection.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(row))})", row)
        except sqlite3.IntegrityError:  # NaN is NULL, which the column does not take
            return
    # SQLite turns some values into the type of the column: then nothing is strange any more, but for the checksum.
    one_sentence(store, "1 of the 6 rows of .* are damaged", [read_results])
    with Store(store) as opened:
        assert opened.damaged == [TASKS[2].id]


FOREIGN = "holds tables, views or triggers that gappletron does not write: move it away"


def test_a_view_in_place_of_the_table_is_refused_before_it_is_read(tmp_path):
    columns = ", ".join(f"1 AS {name}" for name in (*COLUMNS, "checksum"))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    changed(tmp_path, f"CREATE VIEW runs AS {endless} SELECT {columns} FROM n")
    one_sentence(tmp_path, FOREIGN)


def test_a_message_of_sqlite_with_damaged_bytes_is_one_sentence(store):
    path = store / "results.sqlite"
    data = path.read_bytes()
    place = data.index(b"CREATE TABLE runs")
    for wrong in (b"CREATE \xf9ABLE", b"CREATE TABLE \x1b[", b"CREATE\nT\nB"):
        path.write_bytes(data[:place] + wrong + data[place + len(wrong) :])
        one_sentence(store, "move it away")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE other (a)",
        "CREATE VIEW other AS SELECT * FROM runs",
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        "CREATE INDEX i ON runs (mistakes)",
        "CREATE VIRTUAL TABLE f USING fts5(a)",
    ],
)
def test_anything_beside_the_table_is_refused(store, statement):
    changed(store, statement)
    one_sentence(store, FOREIGN)


def test_columns_that_compute_are_refused(tmp_path):
    columns = ", ".join((*COLUMNS[:-1], "checksum"))
    changed(tmp_path, f"CREATE TABLE runs ({columns}, finished_at AS (zeroblob(1000000000)))")
    one_sentence(tmp_path, "another program or by another version")


def test_rows_without_end_are_refused(store):
    changed(store, f"UPDATE runs SET machine = printf('%.*c', {2**24 + 10}, 'x') WHERE id = '{TASKS[0].id}'")
    one_sentence(store, "cannot be used as a file of results")


def test_a_pipe_in_place_of_the_store_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "results.sqlite")
    one_sentence(tmp_path, "is not a file|there is no")


# --------------------------------------------------------------------------------------------------------------- storms


def test_a_storm_of_flipped_bytes():
    outcomes = flipped_bytes(360, seed=1)
    assert outcomes["model"]["refused"] > 60
    assert outcomes["cache"] == {"compiled again": 120}
    assert outcomes["store"]["run again"] + outcomes["store"]["refused"] > 20


def test_a_storm_of_kills_of_a_process_that_saves():
    assert killed_saves(4, seed=1)["rounds"] > 0
