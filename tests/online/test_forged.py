"""A store that somebody has written to, with checksums that fit: one sentence, whatever the values are."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3

import pytest

from gappletron import UNSEEN, FeedbackGraph, Online, UserError, evaluate_off_policy, interpreted, read_decisions
from gappletron.online import decisions, events, upkeep

DEEP = "[" * 200_000
DOCUMENTS = (DEEP, "[]", "null", '{"x": 1}', b"\xff\xfe")


def changed(kind, **document):
    return "changes", f"WHERE kind = '{kind}'", {"document": json.dumps(document)}


def taught(**changes):
    known = {"label": 0, "propensity": None, "indices": [0], "values": [1.0], "scores": None}
    return changed("taught", **known | changes)


CASES = [
    *(("models", "", {"settings": each}) for each in (DEEP, '{"options": null}', "[]", "{}", "null", b"\xff", 5)),
    ("models", "", {"name": 5}),
    *(
        ("changes", f"WHERE kind = '{kind}'", {"document": each})
        for kind in ("opened", "limited", "class added", "rolled back", "promoted")
        for each in DOCUMENTS
    ),
    changed("opened", name="a", first="0", versions={}, limits=[1, 1, None]),
    changed("opened", name="a", first=0, versions={}, limits=None),
    changed("opened", name=[], first=0, versions={}, limits=[10, 10**6, None]),
    changed("limited", limits={"min_propensity": 0, "budget": {"limit": 1, "per": [], "prices": None}}),
    changed("limited", limits={"min_propensity": 0, "budget": {"limit": 1, "per": 10, "prices": 5}}),
    *(changed("graph changed", graph=each) for each in (5, "x", [], None, 10**30)),
    taught(label=9),
    taught(label="a"),
    taught(indices="x"),
    taught(indices=[-1]),
    taught(values=[1.0, 2.0]),
    taught(values=["a"]),
    taught(scores=[5]),
    ("changes", "WHERE kind = 'opened'", {"kind": "another"}),
    ("changes", "WHERE kind = 'limited'", {"time": None}),
    *(("commits", "", change) for change in ({"number": "x"}, {"first": "x"}, {"size": None}, {"size": -5})),
    *(("answers", "", change) for change in ({"answer": 5}, {"fingerprint": None}, {"time": "late"})),
    *(("snapshot_parts", "", {"data": each}) for each in (10**12, "text", None)),
    *(("snapshots", "", {"at": each}) for each in ("x", -3, 10**9)),
]


def forge(path, table, where, change):
    """Change the last of these rows of a table, and its checksum."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.row_factory = sqlite3.Row
        before = dict(database.execute(f"SELECT * FROM {table} {where}").fetchall()[-1])
        row = before | change
        if "checksum" in row:
            summed = [row[name] for name in row if name not in ("checksum", "model")]
            known = (row["model"], row["name"]) if table == "models" else summed
            row["checksum"] = events.with_sum(*known)[-1]
        fields, test = ", ".join(f"{name} = ?" for name in row), " AND ".join(f"{name} IS ?" for name in row)
        database.execute(f"UPDATE {table} SET {fields} WHERE {test}", [*row.values(), *before.values()])


def use(path):
    """Everything that reads a store; how often it was refused."""

    def open_it():
        with Online.open(path) as model:
            model.recall("key", b"print")
            model.find_role(decides=True)

    refused = 0
    for read in (
        lambda: upkeep.check(path),
        lambda: decisions.summarise(path),
        lambda: decisions.list_changes(path),
        lambda: list(read_decisions(path)),
        lambda: evaluate_off_policy(path),
        open_it,
    ):
        try:
            read()
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017 - not all of them read everything
            refused += 1
    return refused


@pytest.mark.filterwarnings("ignore:.*decisions in the store")
def test_forged_rows_are_refused_in_one_sentence(memory_path):
    whole = memory_path / "whole.sqlite"
    with interpreted():
        model = Online.open(whole, graph=FeedbackGraph.filtering(["ham", "spam"]), min_propensity=0.05)
        for t in range(4):
            receipt = model.act([1.0, float(t)])
            if t < 3:
                model.learn(receipt, "ham" if receipt.reveals else UNSEEN)
        model.teach([1.0, 2.0], "ham")
        model.add_class("new")
        model.set_graph(model.graph.with_costs({("ham", "spam"): 2.0}))
        model.roll_back(round=2)
        model.note_role(decides=True, other="b", term=1)
        model.remember("key", b"print", b"answer")
        model._contents.journal.put_snapshot = lambda _: None  # so that the whole log is read
        model.close()
        assert use(shutil.copy(whole, memory_path / "copy.sqlite")) == 0
        for number, (table, where, change) in enumerate(CASES):
            path = shutil.copy(whole, memory_path / f"{number}.sqlite")
            forge(path, table, where, change)
            refused = use(path)  # and nothing but a UserError
            assert refused or change.keys() & {"at", "kind", "time"}, (table, where, change)  # these may be harmless
