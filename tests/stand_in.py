"""A model in memory with the interface of a journalled one, for the tests of the service.

Everything but durability and the mathematics of the estimates is the library's: the estimates are plain shares.
"""

from __future__ import annotations

import contextlib
import os
import time

import numpy as np

from gappletron import UNSEEN, Online, UserError
from gappletron._validate import KeyReused, SpentReceipt, Unavailable, UnknownReceipt


class StandIn(Online):
    """`file` is written to, and synchronised, in every commit; `broken` is the sentence of a full disk."""

    def __init__(self, *arguments, file=None, **options):
        super().__init__(*arguments, **options)
        self.answers, self.file, self.broken, self.closed = {}, file, None, False
        self.unwritten = []
        self.monitor = StandInMonitor(self)

    waiting = property(lambda self: len(self._pending))

    @contextlib.contextmanager
    def hold(self):
        if self.broken:
            raise Unavailable(self.broken)
        yield

    def act_many(self, X):
        given = [self._taken(x) for x in X]  # all are checked before the first is played
        with contextlib.ExitStack() as stack:
            if self.encoder is not None:
                encoder, self.encoder = self.encoder, None
                stack.callback(setattr, self, "encoder", encoder)
            receipts = [self.act((x.indices, x.values)) for x in given]
        for receipt in receipts:
            self.monitor.acted(receipt.action, receipt.greedy)
            self.unwritten.append(receipt._turn.x.values.tobytes())
        return receipts

    def _waiting(self, receipt):
        try:
            return super()._waiting(receipt)
        except UserError as error:
            kind = UnknownReceipt if "is not from this model" in str(error) else SpentReceipt
            raise kind(str(error)) from None

    def learn_many(self, feedback):
        names = [name for name, _ in feedback]
        if len(set(names)) < len(names):
            raise SpentReceipt("a receipt is given twice: feedback counts once")
        for name, label in feedback:
            self._position(self._waiting(name), label)
        for name, label in feedback:
            receipt = self._waiting(name)
            self.learn(receipt, label)
            self.monitor.learned(receipt, label)
            self.unwritten.append(name.encode())

    def follow(self, x, action, probabilities):
        receipt = self.act(x)
        self.monitor.acted(action, receipt.greedy)
        return receipt

    def recall(self, key, fingerprint):
        known = self.answers.get(key)
        if known is None:
            return None
        if known[0] != fingerprint:
            raise KeyReused(f"the idempotency key {key!r} was used for another request: give every request its own")
        return known[1]

    def remember(self, key, fingerprint, answer):
        self.answers[key] = fingerprint, answer
        self.unwritten.append(answer)

    def commit(self):
        if self.broken:
            raise Unavailable(self.broken)
        unwritten, self.unwritten = self.unwritten, []
        if self.file is not None:
            os.write(self.file, b"".join(unwritten))
            os.fdatasync(self.file)

    def close(self):
        self.commit()
        self.closed = True


class StandInMonitor:
    def __init__(self, model):
        self.model = model
        self.seen = self.explored = self.wrong = self.judged = 0
        self.actions = dict.fromkeys(model.graph.actions, 0)
        self.curve = []

    def acted(self, action, greedy):
        self.actions[action] += 1
        self.explored += action != greedy

    def learned(self, receipt, label):
        self.judged += 1
        if label is not UNSEEN:
            self.seen += 1
            self.wrong += label != receipt.action
        if self.judged % 10 == 0:
            report = self.report().to_dict()
            rates = [
                [report[of]["error"][key] for key in ("value", "low", "high", "naive")] for of in ("policy", "greedy")
            ]
            self.curve.append(
                {"round": sum(self.actions.values()), "time": time.time(), "policy": rates[0], "greedy": rates[1],
                 "labels_seen": self.seen, "explored": self.explored}
            )  # fmt: skip
            if len(self.curve) > 400:
                del self.curve[::2]

    def report(self, alpha=0.05):
        return StandInReport(self, alpha)


class StandInReport:
    def __init__(self, monitor, alpha):
        self.monitor, self.alpha = monitor, alpha

    def to_dict(self):
        monitor = self.monitor
        naive = monitor.wrong / monitor.seen if monitor.seen else None
        value = min(1.0, 1.4 * (naive or 0.0))
        half = float(np.sqrt(1.0 / (monitor.judged + 1)))
        rate = {"value": value, "low": max(0.0, value - half), "high": min(1.0, value + half), "naive": naive}
        below = {key: None if each is None else 0.8 * each for key, each in rate.items()}
        graph = monitor.model.graph
        share = {name: {"share": rate, "error": rate, "precision_error": rate} for name in graph.classes}
        costs = {"cost": rate if graph.has_costs else None}
        return {
            "rounds": sum(monitor.actions.values()),
            "judged": monitor.judged,
            "labels_seen": monitor.seen,
            "explored": monitor.explored,
            "actions": monitor.actions,
            "alpha": self.alpha,
            "policy": {"error": rate, **costs, "classes": share},
            "greedy": {"error": below, **costs, "classes": share},
            "window": None,
            "alarm": None,
        }
