"""What ``/metrics`` shows, in the format of Prometheus."""

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector

from gappletron.online.follower import Lag
from gappletron.service.models import HostedModel

# Seconds: the upper ends of the buckets for the time of requests.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
COUNTER, GAUGE = CounterMetricFamily, GaugeMetricFamily


def list_metrics(hosted: HostedModel, report: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the metrics of a model: kind, name, help, value, and the names of labels beside that of the model.

    Where there are labels, the value is a mapping from the values of the labels to numbers; a number that is None is
    left out.

    :param report: what :meth:`HostedModel.read_monitor` returns.
    """
    model, budget, columns = hosted.model, hosted.model.limits.budget, hosted.columns
    most, window = model.pending_limits[0], () if budget is None else (str(budget.per),)
    limited, lag = model.limits_report, hosted.lag or Lag(0, 0.0)
    estimates = {
        name: {
            (of, figure): (report[of][name] or {}).get(figure)
            for of in ("policy", "greedy")
            for figure in ("value", "low", "high", "naive")
        }
        for name in ("error", "cost")
    }
    for of in ("policy", "greedy"):
        low, high = report[of]["error_of_all"]
        estimates["error"] |= {(of, "low_of_all"): low, (of, "high_of_all"): high}
    return [
        (COUNTER, "decisions", "Decisions since the start of the server.", hosted.decisions),
        (COUNTER, "feedback", "Pieces of feedback learned from since the start of the server.", hosted.feedback),
        (COUNTER, "commits", "Writes to the disk that requests waited for.", hosted.commits.count),
        (COUNTER, "commit_seconds", "Seconds that writes to the disk took.", hosted.commits.seconds),
        (COUNTER, "shadow_missed", "Decisions or feedback that a shadow could not follow.", hosted.missed),
        (
            COUNTER,
            "records_with_other_columns",
            "Records since the start that lacked a declared column (missing), or had another (undeclared).",
            {(kind,): number for kind, number in columns.records.items() if columns.needed},
            "columns",
        ),
        (GAUGE, "rounds", "Decisions of the model, in its whole life.", model.rounds),
        (GAUGE, "waiting_receipts", "Receipts that wait for feedback.", model.waiting),
        (GAUGE, "waiting_limit", "How many receipts may wait.", min(most, hosted.max_waiting or most)),
        (
            COUNTER,
            "expired",
            "Receipts that expired since the start, by the limit that acted.",
            {(limit,): number for limit, number in model.expired.items()},
            "limit",
        ),
        (GAUGE, "min_propensity", "Every label is to be seen with this probability.", model.limits.min_propensity),
        (GAUGE, "propensity", "What the budget leaves of min_propensity, on average.", limited.propensity),
        (GAUGE, "budget_limit", "What exploration may cost in a window.", {window: budget and budget.limit}, "per"),
        (GAUGE, "budget_spent", "What exploration has cost in the present window.", {window: limited.spent}, "per"),
        (
            COUNTER,
            "budget_clock_resets",
            "Windows of the budget that were restarted because the clock was set back.",
            limited.clock_resets,
        ),
        (
            GAUGE,
            "storage_problem",
            "1 while something is wrong with the store: /v1/health says what.",
            hosted.problem is not None,
        ),
        (GAUGE, "leading", "1 while this server decides, 0 while it follows another.", hosted.lag is None),
        (GAUGE, "lag_rounds", "Decisions of the leader that were missing when the log was last read.", lag.rounds),
        (GAUGE, "lag_seconds", "Seconds since this server had all of the log.", lag.seconds),
        (GAUGE, "error_estimate", "Estimated share of mistakes.", estimates["error"], "of", "figure"),
        (GAUGE, "cost_estimate", "Estimated cost of a decision.", estimates["cost"], "of", "figure"),
        (GAUGE, "labels_seen", "Labels that the graph revealed.", report["labels_seen"]),
        (GAUGE, "unjudged", "Rounds without feedback: it waits, or never came.", report["unjudged"]),
        (GAUGE, "explored", "Actions other than the greedy class.", report["explored"]),
        (
            GAUGE,
            "actions",
            "How often each action was taken.",
            {(action,): number for action, number in report["actions"].items()},
            "action",
        ),
        (COUNTER, "restarts", "Restarts of the learner, in its whole life.", report["restart_count"]),
        (GAUGE, "drift_alarm", "1 while the drift alarm is on.", report["alarm"] is not None),
    ]


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
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for hosted in self._models:
            for kind, name, about, value, *labels in list_metrics(hosted, self._reports[hosted.name]):
                family = families.setdefault(name, kind(f"gappletron_{name}", about, labels=["model", *labels]))
                for places, number in (value if labels else {(): value}).items():
                    if number is not None:
                        family.add_metric([hosted.name, *places], float(number))
        yield from families.values()
