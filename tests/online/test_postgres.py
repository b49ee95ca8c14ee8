"""What PostgreSQL alone has: writers that are stopped, connections that are cut, servers that are started again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gappletron import FeedbackGraph, Online, UserError, interpreted, read_decisions
from gappletron.base.errors import Unavailable
from gappletron.cli import serve
from gappletron.online import events, upkeep
from gappletron.online.follower import Follower
from gappletron.online.postgres import SILENCE, Postgres
from gappletron.online.shared import Shared
from gappletron.online.store import Store
from problems import ended
from stores import crash, read_log, start_postgres, tamper

GRAPH = FeedbackGraph.full(["a", "b", "c"])


@pytest.fixture(autouse=True)
def plain():
    with interpreted():
        yield


@pytest.fixture
def server():
    return start_postgres()


@pytest.fixture
def place(server):
    return server.make_place()


def opened(place, **options):
    return Online.open(place, "gapsmh", GRAPH, 3, seed=3, **options)


CHILD = """
import sys
import numpy as np
from gappletron import FeedbackGraph, Online, UserError, interpreted

with interpreted():
    model = Online.open(sys.argv[1], "gapsmh", FeedbackGraph.full(["a", "b", "c"]), 3, seed=3, pending=10**6)
    try:
        while True:
            print(model.act(np.ones(3)).id, flush=True)
    except UserError as error:
        print("refused", error, flush=True)
    try:
        model.act(np.ones(3))
    except UserError as error:
        print("refused", error, flush=True)
"""


def open_in_time(place):
    """The model, once its writer has been silent for long enough."""
    deadline = time.monotonic() + 10 * SILENCE
    while True:
        try:
            return opened(place, pending=10**6)
        except UserError as error:
            assert "is open in another process" in str(error), error  # noqa: PT017
            assert time.monotonic() < deadline
            time.sleep(0.05)


def cut(place, server):
    """End the connections of writers to a schema."""
    schema = place.rpartition("%3D")[2]
    server.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND granted "
        f"AND classid::bigint = (hashtext('{schema}.models')::bigint & 4294967295)"
    )


def test_a_writer_that_was_stopped_while_another_took_over_writes_nothing(place, server):
    with subprocess.Popen([sys.executable, "-c", CHILD, place], stdout=subprocess.PIPE, text=True) as child:
        try:
            acknowledged = [child.stdout.readline().strip() for _ in range(20)]
            with pytest.raises(UserError, match="is open in another process"):
                opened(place)
            child.send_signal(signal.SIGSTOP)
            model = open_in_time(place)
            ours = [model.act(np.ones(3)).id for _ in range(5)]
            child.send_signal(signal.SIGCONT)
            rest = child.stdout.read().splitlines()
        finally:
            child.kill()
    refused = [line for line in rest if line.startswith("refused")]
    acknowledged += [line for line in rest if not line.startswith("refused")]
    assert len(refused) == 2  # that the connection is lost, and why
    assert "was opened by another process, which has taken over: open it again" in refused[1]
    more = [model.act(np.ones(3)).id for _ in range(5)]
    model.close()
    found = [row["id"] for batch in read_decisions(place) for row in batch.to_pylist()]
    assert found[-10:] == ours + more
    assert set(acknowledged) <= set(found[:-10])
    assert len(found) <= len(acknowledged) + 11  # what was committed when it was stopped was not acknowledged
    assert upkeep.check(place).rounds == len(found)


def test_a_connection_that_was_cut_is_made_again(place, server):
    """Also the lock that the old connection still has is taken from it."""
    model = opened(place)
    kept = [model.act(np.ones(3)).id]
    store = model._contents.journal.store
    for number in range(3):
        if number == 0:
            cut(place, server)
        elif number == 1:
            store.database._writer.pgconn.finish()  # the server knows nothing of it
        else:
            store.database._writer.close()
        for _ in range(3):
            try:
                kept.append(model.act(np.ones(3)).id)
            except Unavailable as error:
                assert "nothing that was acknowledged is lost; look after the server" in str(error)  # noqa: PT017
    model.close()
    with opened(place) as again:
        found = [receipt.id for receipt in again.pending]
    assert set(kept) <= set(found)
    assert len(kept) >= 8


def test_a_server_that_is_started_again(place, server):
    """What was acknowledged is there once, whether or not the transaction that was cut off was committed."""
    model = opened(place, pending=10**6)
    acknowledged, stop = [], threading.Event()

    def work():
        with interpreted():
            while not stop.is_set():
                with contextlib.suppress(Unavailable):
                    acknowledged.append(model.act(np.ones(3)).id)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(2):
            time.sleep(0.2)
            server.stop()
            time.sleep(0.05)
            server.start()
            before = len(acknowledged)
            deadline = time.monotonic() + 20
            while len(acknowledged) < before + 5:
                assert time.monotonic() < deadline
                time.sleep(0.01)
    finally:
        stop.set()
        thread.join()
    model.commit()
    crash(model)
    found = [row["id"] for batch in read_decisions(place) for row in batch.to_pylist()]
    assert len(set(found)) == len(found) == model.rounds
    assert set(acknowledged) <= set(found)
    with opened(place) as again:
        assert again.differences(model) == []


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_server_that_has_lost_what_was_acknowledged(place, is_replaced):
    """As with synchronous_commit=off, or where a replica that lags takes over: nothing is written after a gap."""
    model = opened(place)
    kept = [model.act(np.ones(3)).id for _ in range(3)]
    tamper(place, "DELETE FROM acts WHERE seq = (SELECT max(seq) FROM acts)")
    tamper(place, "DELETE FROM commits WHERE number = (SELECT max(number) FROM commits)")
    if is_replaced:
        other = Store(place)
        row = events.with_sum(other.commits + 1, "another", other.count, 0)
        tamper(place, "INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?)", other.model, *row)
        other.close()
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"has lost transactions that were stored.*open it again"):
            model.act(np.ones(3))
    with contextlib.suppress(UserError):
        model.close()
    with opened(place) as again:
        assert [receipt.id for receipt in again.pending] == kept[:2]
        again.act(np.ones(3))
    assert upkeep.check(place).rounds == 3


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_connection_that_is_lost_in_a_commit(place, is_committed):
    """Nobody knows how it ended; the next call looks, and stores it if it must."""
    model = opened(place)
    database, calls = model._contents.journal.store.database, []
    insert = database.insert

    def insert_and_lose(table, rows):
        insert(table, rows)
        if not calls and table.name == "acts":
            calls.append(table)
            if is_committed:
                database._writer.execute("COMMIT")
            database._writer.pgconn.finish()

    database.insert = insert_and_lose
    with pytest.raises(Unavailable, match="cannot reach the store"):
        model.act(np.ones(3))
    assert model.act(np.ones(3)).serial == 1
    assert len(read_log(place)) == 3
    model.close()
    assert upkeep.check(place).rounds == 2


def test_a_connection_that_could_not_take_the_lock_writes_nothing(place, server, monkeypatch):
    """A new one is tried: without the lock another process would be let in."""
    model, taken = opened(place), []

    def fail_once(database, number, real=Postgres._take_lock):
        taken.append(number)
        if len(taken) == 1:
            raise Unavailable("the server took too long")
        real(database, number)

    monkeypatch.setattr(Postgres, "_take_lock", fail_once)
    cut(place, server)
    for _ in range(4):
        with contextlib.suppress(Unavailable):
            model.act(np.ones(3))
    assert len(taken) >= 2
    with pytest.raises(UserError, match="is open in another process"):
        opened(place)
    model.close()
    assert upkeep.check(place).rounds == model.rounds


@contextlib.contextmanager
def missing_replica(server):
    """Inside, a commit waits for a replica that does not come, although it is on the disk of the server."""
    for sql in ("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"):
        server.execute(sql)
    try:
        yield
    finally:
        for sql in ("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"):
            server.execute(sql)


def wait_until(is_so):
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_connection_that_is_lost_while_a_commit_waits_for_a_replica(place, server):
    """The transaction is seen only when its session was ended. What came after it must not be taken for stored."""
    model = opened(place, pending=100)
    database, acknowledged = model._contents.journal.store.database, []
    pid = database._writer.info.backend_pid

    def act():
        with interpreted(), contextlib.suppress(Unavailable):
            acknowledged.append(model.act(np.ones(3)).id)

    threads = [threading.Thread(target=act) for _ in range(6)]
    with missing_replica(server):
        threads[0].start()
        waiting = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'SyncRep'"
        wait_until(lambda: server.execute(waiting) == [(1,)])
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: model.rounds == 6)
        with socket.socket(fileno=os.dup(database._writer.pgconn.socket)) as connection:
            connection.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: server.execute(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}") == [(0,)])
    for thread in threads:
        thread.join()
    assert len(acknowledged) == 5  # all but the one whose connection was lost
    acknowledged.append(model.act(np.ones(3)).id)
    crash(model)
    found = [row["id"] for batch in read_decisions(place) for row in batch.to_pylist()]
    assert set(acknowledged) < set(found)
    assert len(set(found)) == len(found) == 7


def test_a_process_that_was_stopped_in_the_middle_of_a_transaction_keeps_nobody_waiting(place, server):
    """Of a fleet, whose lock is in another session than its transactions: the next number of the model is taken."""
    import psycopg

    with Shared(place, "os") as shared, Online.open(shared, "gapsmh", GRAPH, 3, name="a", durability="os") as model:
        model.act(np.ones(3))
        store = model._contents.journal.store
        stopped = psycopg.connect(place)
        stopped.execute("INSERT INTO commits VALUES (%s, %s, 'other', 2, 1, 0)", (store.model, store.commits + 1))
        begin, before = time.monotonic(), store.commits
        with pytest.raises(Unavailable, match="end the session that keeps its rows"):
            model.act(np.ones(3))

        def is_stored():
            with contextlib.suppress(Unavailable):
                model.commit()
            return store.commits > before

        wait_until(is_stored)
        assert time.monotonic() - begin < 5 * SILENCE
        with pytest.raises(psycopg.OperationalError):
            stopped.execute("SELECT 1")
    assert upkeep.check(place, name="a").rounds == 2


def test_a_follower_notices_that_what_it_has_followed_was_replaced(place):
    """By a server that had not received it, and on which another leads now: the log is not shorter than it was."""
    model = opened(place)
    receipt = model.act(np.ones(3))
    model.learn(receipt, "a")
    with Follower(place) as follower:
        crash(model)
        for table, column in (("feedback", "seq"), ("commits", "number")):
            tamper(place, f"DELETE FROM {table} WHERE {column} = (SELECT max({column}) FROM {table})")
        with opened(place) as other:
            other.act(np.ones(3))
            with pytest.raises(Unavailable, match="has lost transactions that were stored"):
                follower.catch_up()
            assert follower.is_lost


def test_a_new_database_is_made_once(place, server):
    """Several processes at once: one of them opens the model, the others are told."""
    opened_by, refused = [], []

    def work(number):
        try:
            opened_by.append(Store(place, durability="disk"))
        except UserError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (store,) = opened_by
    assert all("is open in another process" in text for text in refused), refused
    assert tamper(place, "SELECT name FROM models") == [("model",)]
    store.close()


def test_a_graph_that_two_models_store_at_the_same_moment(place):
    """The second waits for the first, and is not taken for a writer that was replaced."""
    import psycopg

    models = [opened(place, name=name) for name in ("a", "b")]
    document = events.encode_graph(GRAPH)
    names = [("action", models[0].graph.actions), ("class", models[0].graph.classes)]
    with psycopg.connect(place) as connection, ThreadPoolExecutor(1) as threads:
        version = events.hash_graph(document)
        connection.execute("INSERT INTO graphs VALUES (%s, %s)", (version, document))
        for kind, each in names:
            for position, name in enumerate(each):
                connection.execute("INSERT INTO names VALUES (%s, %s, %s, %s)", (version, kind, position, name))
        waiting = threads.submit(models[1].act, np.ones(3))
        time.sleep(0.2)
        assert not waiting.done()
        connection.commit()
        assert waiting.result().serial == 0
    models[0].act(np.ones(3))
    for model in models:
        model.close()
    assert upkeep.check(place, name="b").rounds == 1


def test_errors_are_sentences_without_secrets(place):
    for url, words in [
        ("postgresql://user:hidden@127.0.0.1:1/nowhere", "cannot reach the store 'postgresql://127.0.0.1/nowhere'"),
        ("postgresql://%%%", "is not the URL of a PostgreSQL database"),
    ]:
        with pytest.raises(UserError, match=words) as caught:
            opened(url)
        assert "hidden" not in str(caught.value)
    with pytest.raises(UserError, match="there is no store in"):
        Online.from_store(place)
    secret = place.replace("postgresql:///", "postgresql://test:hidden@/")
    for call, words in [
        (lambda: Online.open(secret, name="b"), "there is no model 'b' in 'postgresql:///"),
        (lambda: serve.open_model(secret, "b", None, {}), "there is no model in 'postgresql:///"),
        (lambda: serve.parse_places([secret]), "a database has no name for an address"),
    ]:
        with pytest.raises(UserError, match=words) as caught:
            call()
        assert "hidden" not in str(caught.value)
    opened(place).close()
    assert "hidden" not in ended("store", "show", secret)[1]
    tamper(place, "UPDATE about SET value = 99")
    with pytest.raises(UserError, match="was written by another gappletron"):
        Online.open(place)


def test_the_commands(place, tmp_path):
    with opened(place) as model:
        model.learn_many([(receipt, "a") for receipt in model.act_many([np.ones(3)] * 60)])
    assert "60 rounds read and replayed" in ended("store", "check", place)[1]
    assert ended("store", "export", place, tmp_path / "table.parquet")[0] == 0
    assert ended("store", "vacuum", place)[0] == 0
    code, _, error = ended("store", "backup", place, tmp_path / "copy")
    assert (code, "pg_dump" in error) == (2, True)
