"""Storms: signals, kills, threads, damaged bytes and extreme numbers, of a length that the caller chooses.

The test command runs short ones (``test_signals.py`` and others), ``make stress`` long ones (:func:`main`).
"""

from __future__ import annotations

import contextlib
import dis
import functools
import math
import re
import signal
import sys
import threading
from pathlib import Path

import numpy as np

from gappletron import UNSEEN, FeedbackGraph, Online, Player, TopUp
from gappletron.numerics import LARGEST_VALUE
from gappletron.streams.stream import frozen


class Struck(BaseException):
    """What the handler of a storm raises."""


@contextlib.contextmanager
def lightning():
    """A function that lets a signal, whose handler raises Struck, strike after about so many microseconds."""

    def strike(*_):
        raise Struck

    before = signal.signal(signal.SIGALRM, strike)
    try:
        yield lambda microseconds: signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def catches(pid, number):
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    caught = int(re.search(r"SigCgt:\s*([0-9a-f]+)", status)[1], 16)
    return bool(caught >> (number - 1) & 1)


def at_every_moment(call, files=("online.py", "player.py", "inputs.py", "engine.py")):
    """Call again and again, each time with Struck raised one moment later, until no moment is left; after each one,
    whether it was struck.

    Python runs signal handlers when a function is entered, after calls and at the ends of loops. A trace function that
    raises at the next instruction strikes at all of these moments in these files, one after the other.
    """
    moment = 0
    while True:
        struck = _struck_at(moment, call, files)
        yield struck
        if not struck:
            return
        moment += 1


def _struck_at(moment, call, files):
    left = [moment]
    last = {}

    def trace(frame, event, _):
        if Path(frame.f_code.co_filename).name not in files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before, last[frame] = last.get(frame), frame.f_lasti
            if before is not None and _is_moment(frame.f_code, before, frame.f_lasti):
                if left[0] == 0:
                    sys.settrace(None)
                    raise Struck
                left[0] -= 1
        return trace

    sys.settrace(trace)
    try:
        call()
    except Struck:
        return True
    finally:
        sys.settrace(None)
    return False


@functools.cache
def _is_moment(code, before, here):
    """Whether a handler may run after the instruction at `before`, and its exception would be met as one at `here`."""
    name = dis.opname[code.co_code[before]]
    if not name.startswith(("CALL", "RESUME", "JUMP_BACKWARD", "BEFORE_WITH")):
        return False
    table = dis._parse_exception_table(code)
    blocks = [[(e.start, e.end) for e in table if e.start <= place < e.end] for place in (before, here)]
    return blocks[0] == blocks[1]


def interrupted_rounds(strikes, seed, learner="gapsmh", graph=None):
    """Play one round at a time under a storm, then again without one, and compare; how many calls were struck.

    An interrupted `act` was played exactly if its receipt waits, an interrupted `learn` exactly if its receipt does not
    wait any more. The calls that took effect are replayed by a model that nothing interrupts: the same bits.
    """
    rng = np.random.default_rng(seed)
    graph = FeedbackGraph.bandit(3) if graph is None else graph
    rows = rng.normal(size=(64, 5))
    model = Online(learner, graph, features=5, seed=seed, pending=20)
    model.predict(rows[0])
    effects, struck = [], {"act": 0, "learn": 0}

    def check():
        assert not model._lock._is_owned(), "a lock that is never released"

    with lightning() as strike_after:
        while sum(struck.values()) < strikes:
            row, rounds = int(rng.integers(64)), model.rounds
            at_act = struck["act"] <= struck["learn"]
            try:
                strike_after(int(rng.integers(5, 60)) if at_act else 0)
                model.act(rows[row])
                strike_after(0)
            except Struck:
                struck["act"] += 1
            check()
            waiting = {receipt.serial: receipt for receipt in model.pending}
            assert model.rounds - rounds == (rounds in waiting)
            if model.rounds == rounds:
                continue
            effects.append(("act", row))
            if rng.random() < 0.2:
                continue
            serial = int(rng.choice(list(waiting)))
            receipt = waiting[serial]
            label = receipt.reveals[0] if receipt.reveals and rng.random() < 0.7 else UNSEEN
            if label is UNSEEN and len(receipt.reveals) == graph.n_classes:
                label = receipt.reveals[-1]
            try:
                strike_after(0 if at_act else int(rng.integers(5, 60)))
                model.learn(receipt if rng.random() < 0.5 else receipt.id, label)
                strike_after(0)
            except Struck:
                struck["learn"] += 1
            check()
            if serial not in {receipt.serial for receipt in model.pending}:
                effects.append(("learn", serial, label))
    again = Online(learner, graph, features=5, seed=seed, pending=20)
    for effect in effects:
        if effect[0] == "act":
            again.act(rows[effect[1]])
        else:
            receipt = next(receipt for receipt in again.pending if receipt.serial == effect[1])
            again.learn(receipt, effect[2])
    assert [receipt.serial for receipt in again.pending] == [receipt.serial for receipt in model.pending]
    (about, arrays), (told, others) = model._player.snapshot(), again._player.snapshot()
    assert about == told
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in others.items()
    }
    return struck


def shared_model(threads, calls):
    """Several threads on one model: every receipt id is issued once, and every piece of feedback counts once."""
    graph = FeedbackGraph.bandit(3)
    model = Online("gapsmh", graph, features=4, seed=0, pending=calls * threads)
    rows = np.random.default_rng(0).normal(size=(32, 4))
    ids, wrong = [[] for _ in range(threads)], []

    def play(own):
        try:
            for t in range(calls):
                receipt = model.act(rows[t % 32])
                own.append(receipt.id)
                model.predict(rows[t % 32])
                model.learn(receipt, receipt.action if t % 2 else UNSEEN)
        except Exception as error:
            wrong.append(error)

    workers = [threading.Thread(target=play, args=(own,)) for own in ids]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    issued = [name for own in ids for name in own]
    assert len(set(issued)) == len(issued) == model.rounds == threads * calls
    assert not model.pending
    assert np.isfinite(model.weights).all()


# ------------------------------------------------------------------------------------------------------ extreme numbers


LIMIT_EXPONENT = math.log10(LARGEST_VALUE)


def _outliers(rng, size):
    return np.where(rng.random((size[0], 1)) < 0.1, 10.0 ** rng.uniform(3, LIMIT_EXPONENT, size), 1.0)


MAGNITUDES = {
    "mixed": lambda rng, size: 10.0 ** rng.uniform(-300, LIMIT_EXPONENT, size),
    "one size": lambda rng, size: np.full(size, 10.0 ** rng.uniform(-300, LIMIT_EXPONENT)),
    "limit": lambda _, size: np.full(size, LARGEST_VALUE),
    "square underflows": lambda rng, size: 10.0 ** rng.uniform(-165, -145, size),
    "subnormal": lambda rng, size: rng.integers(1, 1000, size) * 5e-324,
    "large": lambda rng, size: 10.0 ** rng.uniform(2, 12, size),
    "outliers": _outliers,
    "ordinary": lambda rng, size: rng.exponential(size=size),
}
"""Kinds of absolute values, which follow each other in a storm."""


def extreme_rows(rng, rounds, features):
    """Rows of one kind: sparse or dense, of random signs, repeated, or of features that come once."""
    kind = MAGNITUDES[rng.choice(list(MAGNITUDES))]
    X = kind(rng, (rounds, features)) * rng.choice([-1.0, 1.0], (rounds, features))
    shape = rng.integers(5)
    if shape == 0:
        X[:] = X[0]
    elif shape == 1:
        X[np.arange(features)[None, :] != rng.integers(0, features, (rounds, 1))] = 0.0
    elif shape == 2:
        X *= rng.random((rounds, features)) < 0.5
    elif shape == 3:
        X = np.abs(X)
    return np.clip(X, -LARGEST_VALUE, LARGEST_VALUE)


def chunk_of(X, y):
    """Rows and labels as a chunk, zeros left out."""
    rows, indices = np.nonzero(X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    return frozen(indptr, indices, X[rows, indices], y)


def broken(player):
    """What does not hold of a player's state that must hold after any accepted input; None where all is well."""
    state, learner = player._state, player.learner
    wrong = state.problem()
    if wrong is not None:
        return wrong
    arrays = {name.removeprefix("optimizer."): array for name, array in state.arrays.items()}
    reach = learner.optimizer.reach() if hasattr(learner, "optimizer") else getattr(learner, "radius", math.inf)
    W = player.weights
    if not np.isfinite(W).all():
        return "W is not finite"
    if length(W) > reach * (1 + 1e-6):
        return f"W has the norm {length(W)}, beyond the radius {reach}"
    if "squared" in arrays and math.isfinite(reach):
        kept, measured = math.sqrt(arrays["squared"][0]), length(arrays["weights"])
        if abs(kept - measured) * abs(arrays["scale"][0]) > 1e-4 * reach:
            return f"the norm of V is {measured}, and kept as {kept}"
    if "inverse" in arrays:
        d, K = W.shape
        inverse = arrays["inverse"].reshape(d * K, d * K)
        if not (np.diag(inverse) > 0).all() or not (inverse == inverse.T).all():
            return "A^-1 is not symmetric with a positive diagonal"
    return None


def length(W):
    """The Euclidean norm, also where squares leave the range of doubles."""
    top = np.abs(W).max()
    return float(top * np.linalg.norm(W / top)) if top > 0 else 0.0


def check_turn(turn, learner):
    """Finite scores, and probabilities that are some; TopUp shows every label often enough."""
    p = turn.probabilities
    assert np.isfinite(turn.scores).all(), turn.scores
    assert (p >= 0).all(), p
    assert abs(p.sum() - 1) < 1e-9, p
    if isinstance(getattr(learner, "exploration", None), TopUp):
        shown = p @ turn.graph.visible
        assert (shown >= turn.rate / turn.graph.rho * (1 - 1e-9)).all(), (p, turn.rate)


def extreme_numbers(rounds, seed, learner, graph, features=5, block=40):
    """Play extreme rows in chunks and one at a time, with late, wrong and missing labels: nothing may break."""
    rng = np.random.default_rng(seed)
    player = Player(learner, graph, features, seed=seed)
    waiting = []
    while player.rounds < rounds:
        n = int(rng.integers(1, block))
        X = extreme_rows(rng, n, features)
        y = rng.integers(0, graph.n_classes, n) if rng.random() < 0.7 else np.full(n, rng.integers(graph.n_classes))
        if rng.random() < 0.5:
            player.advance(chunk_of(X, y))
        else:
            hostile = rng.random() < 0.5  # the label is never what is predicted, if another one can be told
            late = rng.random() < 0.3
            for x, label in zip(X, y, strict=True):
                turn = player.act(x)
                check_turn(turn, player.learner)
                if hostile and label == turn.greedy:
                    label = (label + 1) % graph.n_classes  # noqa: PLW2901
                waiting.append((turn, int(label) if graph.visible[turn.action, label] else -1))
                while waiting and not late:
                    player.learn(*waiting.pop(int(rng.integers(len(waiting)))))
        wrong = broken(player)
        assert wrong is None, f"seed {seed}, round {player.rounds}, {player.learner} on {graph}: {wrong}"
    return player
