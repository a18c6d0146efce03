"""What the operator counts of itself, under its names; docs/metrics.md lists them from here."""

from typing import Final, NamedTuple

__all__ = ["API_REQUESTS", "IS_LEADER", "METRICS", "QUEUE_DEPTH", "QUEUE_OLDEST", "Metric", "exposed"]


class Metric(NamedTuple):
    """`name` is the exposed one."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


IS_LEADER: Final = Metric("logherd_operator_is_leader", "gauge", "1 at the operator that holds the Lease and acts.")
QUEUE_DEPTH: Final = Metric("logherd_operator_queue_depth", "gauge", "Groups that are due to be looked at.")
QUEUE_OLDEST: Final = Metric(
    "logherd_operator_queue_oldest_seconds", "gauge", "For how long the group that waits longest has been due."
)
API_REQUESTS: Final = Metric(
    "logherd_operator_api_requests_total", "counter", "Requests to the API server by what they were answered with.",
    ("verb", "resource", "code"),
)  # fmt: skip
METRICS: Final = (IS_LEADER, QUEUE_DEPTH, QUEUE_OLDEST, API_REQUESTS)


def exposed(metric: Metric, *readings: tuple[tuple[str, ...], float]) -> list[str]:
    """Lines of the Prometheus text format: what it means, its kind, and each reading, labels in the metric's order."""
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
    for labels, value in readings:
        marks = ",".join(f'{name}="{label}"' for name, label in zip(metric.labels, labels, strict=True))
        lines.append(f"{metric.name}{{{marks}}} {value:.12g}" if marks else f"{metric.name} {value:.12g}")
    return lines
