"""Two servers for one model in PostgreSQL, faults of all kinds, and clients that record what was acknowledged."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np

from gappletron import FeedbackGraph, Online
from gappletron.base.errors import ServiceError
from gappletron.online.receipts import UNSEEN
from gappletron.service.client import Client
from stores import tamper
from storms import check_log, free_port, quick_retries

FAULTS = ("kill", "stop", "cut", "silence", "restart")
# Seconds in which another server must lead, and a test gives up.
MOST_SECONDS, PATIENCE = 5.0, 60.0


class Proxy:
    """Stands between a server and PostgreSQL: it can close its connections, or pass nothing on any more."""

    def __init__(self, target):
        self.target, self.is_silent = str(target), False
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.pairs, self.selector, self.is_open = {}, selectors.DefaultSelector(), True
        self.selector.register(self.listening, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while self.is_open:
            for key, _ in self.selector.select(0.05):
                if self.is_silent:
                    time.sleep(0.01)
                elif key.fileobj is self.listening:
                    self.accept()
                elif key.fileobj in self.pairs:
                    self.pass_on(key.fileobj)

    def accept(self):
        near, _ = self.listening.accept()
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(self.target)
        except OSError:
            near.close()
            far.close()
            return
        for one, other in ((near, far), (far, near)):
            self.pairs[one] = other
            self.selector.register(one, selectors.EVENT_READ)

    def pass_on(self, one):
        try:
            data = one.recv(2**16)
            if data:
                self.pairs[one].sendall(data)
                return
        except OSError:
            pass
        self.drop(one)

    def drop(self, one):
        for each in (one, self.pairs.pop(one)):
            self.pairs.pop(each, None)
            self.selector.unregister(each)
            each.close()

    def cut(self):
        """Close every connection."""
        for each in list(self.pairs):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.is_open = False
        self.thread.join()
        for each in (self.listening, *self.pairs, self.selector):
            each.close()


class Machine:
    """A server with its own way to PostgreSQL."""

    def __init__(self, place, socket_path, *options):
        self.proxy, self.port = Proxy(socket_path), free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        schema = place.partition("&options=")[2]
        url = f"postgresql://test@127.0.0.1:{self.proxy.port}/postgres?sslmode=disable&gssencmode=disable"
        self.command = [sys.executable, "-m", "gappletron", "serve", f"model={url}&options={schema}", *options]
        self.process = None

    def start(self):
        command = [*self.command, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if "the page is at" in line:
                break
        else:
            raise AssertionError("".join(lines))
        self.lines = []
        self.reading = threading.Thread(target=self.read, args=(self.process.stderr,))
        self.reading.start()

    def read(self, stderr):
        with stderr:
            self.lines.extend(stderr)

    def end(self):
        """Kill the process, and close what it leaves."""
        self.process.kill()
        self.process.wait()
        self.reading.join()

    def is_leading(self):
        with contextlib.suppress(ServiceError), Client(self.address, timeout=1.0, retries=0) as client:
            return "following" not in client.health()
        return None

    def wait(self, is_leading):
        deadline = time.monotonic() + PATIENCE
        while self.is_leading() is not is_leading:
            assert time.monotonic() < deadline, (self.address, is_leading, self.lines)
            time.sleep(0.02)

    def close(self):
        self.proxy.close()
        if self.process is not None:
            self.end()


class Load:
    """Clients that decide and give feedback as fast as they can, or at a rate, and note what was acknowledged."""

    def __init__(self, addresses, seed, clients=4, rows=1, rate=None):
        self.addresses, self.seed, self.rows = addresses, seed, rows
        self.pause = 0.0 if rate is None else clients * rows / rate
        self.acted, self.learned, self.times, self.failed = {}, {}, [], []
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(clients)]

    def work(self, number):
        own, due = np.random.default_rng([self.seed, number]), time.monotonic()
        # Every server may be asked first.
        addresses = self.addresses[number % len(self.addresses) :] + self.addresses[: number % len(self.addresses)]
        try:
            with Client(addresses, timeout=2.0, retries=10_000) as client:
                while not self.stop.is_set():
                    decisions = client.act_many(own.normal(size=(self.rows, 6)))
                    self.times.append((time.monotonic(), decisions[0].id.partition("-")[0]))
                    self.acted |= {each.id: each.action for each in decisions}
                    labels = [each.reveals[int(own.integers(3))] if each.reveals else UNSEEN for each in decisions]
                    client.learn_many(zip(decisions, labels, strict=True))
                    self.learned |= {each.id: str(label) for each, label in zip(decisions, labels, strict=True)}
                    due = max(due + self.pause, time.monotonic() - 1.0)
                    time.sleep(max(0.0, due - time.monotonic()))
        except Exception as error:
            self.failed.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def wait(self, since, session=None):
        """The time of the first answer after a moment, of another session than the one that is named."""
        deadline = time.monotonic() + PATIENCE
        while True:
            assert not self.failed, self.failed[0]
            for at, own in self.times[-200:]:
                if at > since and own != session:
                    return at
            assert time.monotonic() < deadline
            time.sleep(0.01)


def fail_over(faults, server, seed, clients=4, rows=1, rate=None):
    """Let the leader fail in these ways, one after the other, under load. What was acknowledged is in the log, every
    request once, no row comes from a leader that was replaced, and the log leads to the bits of a model that was never
    disturbed. Return the seconds of every fault until another server has acknowledged a decision.
    """
    place = server.make_place()
    Online.open(place, "gapsmh", FeedbackGraph.filtering(["a", "b", "c"]), 6, seed=7).close()
    path = server.folder / ".s.PGSQL.5432"
    machines = [Machine(place, path, "--standby") for _ in range(2)]
    seconds = []
    try:
        for machine in machines:
            machine.start()
            machine.wait(is_leading=machine is machines[0])
        leader, other = machines
        load = Load([machine.address for machine in machines], seed, clients, rows, rate)
        with quick_retries(), load:
            load.wait(time.monotonic() + 0.5)
            for fault in faults:
                seconds.append((fault, fail(fault, leader, server, load)))
                if fault != "restart" or leader.is_leading() is not True:
                    leader, other = other, leader
                leader.wait(is_leading=True)
                other.wait(is_leading=False)
                load.wait(time.monotonic() + 0.3)
    finally:
        for machine in machines:
            machine.close()
    assert not load.failed, load.failed[0]
    assert len(load.acted) == len(load.learned)  # every request was answered in the end
    rounds = check_log(place, load.acted, load.learned, pending=1_000_000)
    assert rounds == len(load.acted)  # and done once
    writers = [row[0] for row in tamper(place, "SELECT writer FROM commits ORDER BY number")]
    changes = [new for old, new in zip([None, *writers], writers, strict=False) if new != old]
    assert len(set(changes)) == len(changes)  # none comes back
    return seconds


def fail(fault, machine, server, load):
    """Let a leader fail, and mend it when another server leads; the seconds until that has acknowledged something."""
    session, begin = load.times[-1][1], time.monotonic()
    if fault == "restart":
        server.stop()
        time.sleep(0.1)
        server.start()
        begin = time.monotonic()
        return load.wait(begin) - begin
    if fault == "kill":
        machine.end()
    elif fault == "stop":
        machine.process.send_signal(signal.SIGSTOP)
    elif fault == "cut":
        machine.proxy.is_silent = True
        machine.proxy.cut()
    else:
        machine.proxy.is_silent = True
    found = load.wait(begin, session) - begin
    if fault == "kill":
        machine.start()
    elif fault == "stop":
        machine.process.send_signal(signal.SIGCONT)
    machine.proxy.is_silent = False
    return found
