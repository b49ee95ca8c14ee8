"""What the service needs of a model and is not in the library yet: a monitor, here with plausible figures.

`python tests/stand_in.py serve ...` is the command with it.
"""

from __future__ import annotations

import time

import numpy as np

from gappletron import UNSEEN, Online


class StandIn(Online):
    @property
    def monitor(self):
        return self.__dict__.setdefault("_monitor", StandInMonitor(self))

    def act_many(self, X, graph=None):
        receipts = super().act_many(X, graph)
        for receipt in receipts:
            self.monitor.acted(receipt.action, receipt.greedy)
        return receipts

    def learn_many(self, feedback):
        given = [(self._waiting(name), label) for name, label in feedback]
        super().learn_many(given)
        for receipt, label in given:
            self.monitor.learned(receipt, label)

    def follow(self, x, action, probabilities, graph=None):
        receipt = super().follow(x, action, probabilities, graph)
        self.monitor.acted(action, receipt.greedy)
        return receipt


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
                {
                    "round": sum(self.actions.values()),
                    "time": time.time(),
                    "policy": rates[0],
                    "greedy": rates[1],
                    "labels_seen": self.seen,
                    "explored": self.explored,
                }
            )
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


if __name__ == "__main__":
    import gappletron.online
    from gappletron.cli import main

    gappletron.online.Online = StandIn
    main()
