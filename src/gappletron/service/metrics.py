"""What ``/metrics`` shows, in the format of Prometheus."""

from __future__ import annotations

import bisect
import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.process_collector import ProcessCollector

from gappletron.base.errors import UserError
from gappletron.service.hosted import Hosted

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds: the upper ends of the buckets for the time of requests."""


class Metrics:
    """Counts requests, and reads everything else from the models when it is asked for.

    Counting is a few additions in place of metric objects with a lock each: it is done in every request.
    """

    def __init__(self, models: Sequence[Hosted]) -> None:
        self.models = models
        self.requests: Counter[tuple[str, int]] = Counter()
        self.times: dict[str, list[int]] = {}
        self.seconds: Counter[str] = Counter()
        self.reports: dict[str, dict[str, Any]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.requests[endpoint, status] += 1
        times = self.times.get(endpoint)
        if times is None:
            times = self.times[endpoint] = [0] * (len(BUCKETS) + 1)
        times[bisect.bisect_left(BUCKETS, seconds)] += 1
        self.seconds[endpoint] += seconds  # type: ignore[assignment]  # a Counter of floats

    async def text(self) -> bytes:
        """The whole page."""
        for hosted in self.models:
            with contextlib.suppress(UserError, OSError):  # /v1/health tells of it
                await hosted.expire()
        self.reports = {hosted.name: await hosted.report() for hosted in self.models}
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """For the registry."""
        yield from self._of_requests()
        yield from self._of_models()
        yield from self._of_estimates()

    def _of_requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("gappletron_requests", "Requests answered.", labels=["endpoint", "status"])
        for (endpoint, status), number in sorted(self.requests.items()):
            requests.add_metric([endpoint, str(status)], number)
        times = HistogramMetricFamily("gappletron_request_seconds", "Time of requests.", labels=["endpoint"])
        for endpoint, counts in sorted(self.times.items()):
            total, buckets = 0, []
            for end, number in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
                total += number
                buckets.append((end, total))
            times.add_metric([endpoint], buckets, self.seconds[endpoint])
        yield from (requests, times)

    def _of_models(self) -> Iterator[Metric]:
        of_model = {
            "decisions": ("Decisions since the start of the server.", lambda each: each.decisions),
            "feedback": ("Pieces of feedback learned from since the start.", lambda each: each.feedback),
            "commits": ("Writes to the disk that requests waited for.", lambda each: each.commits.count),
            "commit_seconds": ("Time of these writes.", lambda each: each.commits.seconds),
            "shadow_missed": ("Decisions or feedback that a shadow could not follow.", lambda each: each.missed),
        }
        for name, (about, value) in of_model.items():
            family = CounterMetricFamily(f"gappletron_{name}", about, labels=["model"])
            for hosted in self.models:
                family.add_metric([hosted.name], value(hosted))  # type: ignore[no-untyped-call]
            yield family
        rounds = GaugeMetricFamily("gappletron_rounds", "Decisions of the model, in its whole life.", labels=["model"])
        waiting = GaugeMetricFamily("gappletron_waiting_receipts", "Receipts that wait for feedback.", labels=["model"])
        for hosted in self.models:
            rounds.add_metric([hosted.name], hosted.model.rounds)
            waiting.add_metric([hosted.name], hosted.model.waiting)
        yield from (rounds, waiting)
        yield from self._of_limits()
        problem = GaugeMetricFamily(
            "gappletron_storage_problem",
            "1 while something is wrong with the journal: /v1/health says what.",
            labels=["model"],
        )
        columns = CounterMetricFamily(
            "gappletron_records_with_other_columns",
            "Records since the start that lacked a declared column (missing), or had another (undeclared).",
            labels=["model", "columns"],
        )
        for hosted in self.models:
            problem.add_metric([hosted.name], float(hosted.problem is not None))
            for kind, number in hosted.columns.records.items() if hosted.columns.needed else ():
                columns.add_metric([hosted.name, kind], number)
        yield from (problem, columns)

    def _of_limits(self) -> Iterator[Metric]:
        least = GaugeMetricFamily(
            "gappletron_min_propensity", "Every label is seen at least with this probability.", labels=["model"]
        )
        budget = GaugeMetricFamily(
            "gappletron_budget_limit", "What exploration may cost in a window.", labels=["model", "per"]
        )
        spent = GaugeMetricFamily(
            "gappletron_budget_spent", "What it has cost in the present window.", labels=["model", "per"]
        )
        limit = GaugeMetricFamily("gappletron_waiting_limit", "So many receipts may wait.", labels=["model"])
        for hosted in self.models:
            model = hosted.model
            limits = model.limits
            least.add_metric([hosted.name], limits.min_propensity)
            if limits.budget is not None:
                labels = [hosted.name, str(limits.budget.per)]
                budget.add_metric(labels, limits.budget.limit)
                if hosted.spent is not None:
                    spent.add_metric(labels, hosted.spent)
            most = model.pending_limit if hosted.max_waiting is None else min(model.pending_limit, hosted.max_waiting)
            limit.add_metric([hosted.name], most)
        yield from (least, budget, spent, limit)

    def _of_estimates(self) -> Iterator[Metric]:
        rate_labels = ["model", "of", "figure"]
        error = GaugeMetricFamily("gappletron_error_estimate", "Estimated share of mistakes.", labels=rate_labels)
        cost = GaugeMetricFamily("gappletron_cost_estimate", "Estimated cost of a decision.", labels=rate_labels)
        seen = GaugeMetricFamily("gappletron_labels_seen", "Labels that the graph revealed.", labels=["model"])
        explored = GaugeMetricFamily("gappletron_explored", "Actions other than the greedy class.", labels=["model"])
        actions = GaugeMetricFamily(
            "gappletron_actions", "How often each action was taken.", labels=["model", "action"]
        )
        alarm = GaugeMetricFamily("gappletron_drift_alarm", "1 while the drift alarm is on.", labels=["model"])
        for name, report in self.reports.items():
            for of in ("policy", "greedy"):
                for family, rate in (error, report[of]["error"]), (cost, report[of]["cost"]):
                    for figure in () if rate is None else ("value", "low", "high", "naive"):
                        if rate[figure] is not None:
                            family.add_metric([name, of, figure], rate[figure])
            seen.add_metric([name], report["labels_seen"])
            explored.add_metric([name], report["explored"])
            for action, number in report["actions"].items():
                actions.add_metric([name, action], number)
            alarm.add_metric([name], float(report["alarm"] is not None))
        yield from (error, cost, seen, explored, actions, alarm)
