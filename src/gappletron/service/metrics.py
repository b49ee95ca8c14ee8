"""What ``/metrics`` shows, in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector

from gappletron import Budget
from gappletron.service.models import HostedModel

if TYPE_CHECKING:
    from prometheus_client import Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds: the upper ends of the buckets for the time of requests."""
FIGURES = ("value", "low", "high", "naive")


Read = Callable[[HostedModel, dict[str, Any]], Any]
"""Returns a value, or values by their labels, of a model and its report; those that are None are left out."""


def read_waiting_limit(hosted: HostedModel, _: object) -> int:
    """Return how many receipts may wait."""
    most = hosted.model.pending_limits[0]
    return most if hosted.max_waiting is None else min(most, hosted.max_waiting)


def read_budget(hosted: HostedModel, value: Callable[[Budget], float | None]) -> dict[tuple[str], float | None]:
    """Return a value of the budget by its window, where the model has a budget."""
    budget = hosted.model.limits.budget
    return {} if budget is None else {(str(budget.per),): value(budget)}


def read_rates(report: dict[str, Any], name: str) -> dict[tuple[str, str], float | None]:
    """Return the figures of the estimated error, or of the estimated cost."""
    rates = {of: report[of][name] or {} for of in ("policy", "greedy")}
    return {(of, figure): rate.get(figure) for of, rate in rates.items() for figure in FIGURES}


def read_columns(hosted: HostedModel, _: object) -> dict[tuple[str], int]:
    """Return how many records had other columns than those declared."""
    columns = hosted.columns
    return {(kind,): number for kind, number in columns.records.items()} if columns.needed else {}


COUNTERS: dict[str, tuple[str, Read]] = {
    "decisions": ("Decisions since the start of the server.", lambda hosted, _: hosted.decisions),
    "feedback": ("Pieces of feedback learned from since the start.", lambda hosted, _: hosted.feedback),
    "commits": ("Writes to the disk that requests waited for.", lambda hosted, _: hosted.commits.count),
    "commit_seconds": ("Time of these writes.", lambda hosted, _: hosted.commits.seconds),
    "shadow_missed": ("Decisions or feedback that a shadow could not follow.", lambda hosted, _: hosted.missed),
    "records_with_other_columns": (
        "Records since the start that lacked a declared column (missing), or had another (undeclared).",
        read_columns,
    ),
}
GAUGES: dict[str, tuple[str, Read]] = {
    "rounds": ("Decisions of the model, in its whole life.", lambda hosted, _: hosted.model.rounds),
    "waiting_receipts": ("Receipts that wait for feedback.", lambda hosted, _: hosted.model.waiting),
    "waiting_limit": ("So many receipts may wait.", read_waiting_limit),
    "min_propensity": (
        "Every label is seen at least with this probability.",
        lambda hosted, _: hosted.model.limits.min_propensity,
    ),
    "budget_limit": (
        "What exploration may cost in a window.",
        lambda hosted, _: read_budget(hosted, lambda budget: budget.limit),
    ),
    "budget_spent": (
        "What it has cost in the present window.",
        lambda hosted, _: read_budget(hosted, lambda _: hosted.model.spent),
    ),
    "storage_problem": (
        "1 while something is wrong with the journal: /v1/health says what.",
        lambda hosted, _: hosted.problem is not None,
    ),
    "error_estimate": ("Estimated share of mistakes.", lambda _, report: read_rates(report, "error")),
    "cost_estimate": ("Estimated cost of a decision.", lambda _, report: read_rates(report, "cost")),
    "labels_seen": ("Labels that the graph revealed.", lambda _, report: report["labels_seen"]),
    "explored": ("Actions other than the greedy class.", lambda _, report: report["explored"]),
    "actions": (
        "How often each action was taken.",
        lambda _, report: {(action,): number for action, number in report["actions"].items()},
    ),
    "drift_alarm": ("1 while the drift alarm is on.", lambda _, report: report["alarm"] is not None),
}
LABELS = {
    "records_with_other_columns": ["columns"],
    "budget_limit": ["per"],
    "budget_spent": ["per"],
    "error_estimate": ["of", "figure"],
    "cost_estimate": ["of", "figure"],
    "actions": ["action"],
}
"""Labels that some metrics have beside the name of the model."""


class Metrics:
    """Counts requests, and reads everything else from the models when it is asked for."""

    def __init__(self, models: Sequence[HostedModel]) -> None:
        self._models = models
        self._reports: dict[str, dict[str, Any]] = {}
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("gappletron_requests", "Requests answered.", ["endpoint", "status"], registry=registry)
        self._seconds = Histogram(
            "gappletron_request_seconds", "Time of requests.", ["endpoint"], registry=registry, buckets=BUCKETS
        )
        registry.register(self)
        ProcessCollector(registry=registry)

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(endpoint, status).inc()
        self._seconds.labels(endpoint).observe(seconds)

    async def write(self) -> bytes:
        """Return the whole page."""
        for hosted in self._models:
            await hosted.tend()
            self._reports[hosted.name], _ = await hosted.read_monitor()
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the models, for the registry."""
        for kind, table in (CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES):
            for name, (about, read) in table.items():
                family = kind(f"gappletron_{name}", about, labels=["model", *LABELS.get(name, ())])
                for hosted in self._models:
                    found = read(hosted, self._reports[hosted.name])
                    for labels, value in (found if isinstance(found, dict) else {(): found}).items():
                        if value is not None:
                            family.add_metric([hosted.name, *labels], float(value))
                yield family
