"""Prints docs/metrics.md from the module that names all metrics, so that the page cannot disagree with it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "broker")]

from logherd.telemetry.metrics import SECTIONS, Metric  # noqa: E402 -- the path has to be there first

HEAD = """# Metrics

This page is generated (`make docs`); a test compares it. Every broker and every controller answers `GET /metrics` on
its admin port, in the Prometheus text format 0.0.4 or, if `Accept` asks for it, as OpenMetrics. It needs no secret.

```yaml
scrape_configs:
  - job_name: logherd
    static_configs:
      - targets: [broker-1:10913, broker-2:10913, broker-3:10913, controller-0:8088]
```

Names end in their base unit, counters in `_total`. Labels have few values: request and answer codes by RocketMQ's
names, `unknown` for all others; no topics, groups or clients. What has no meaning for a process is left out.
Heartbeats of brokers are `logherd_requests_total{code="BROKER_HEARTBEAT"}` at a controller. The time that a request
takes is not measured by itself: beside the network it is the flush, `logherd_flush_seconds`, and the replicas' lag.
"""


def main() -> None:
    print(HEAD, end="")
    for title, metrics in SECTIONS.items():
        print(f"\n## {title}\n\n| metric | kind | labels | meaning |\n| --- | --- | --- | --- |")
        for metric in metrics:
            print(row(metric))


def row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


if __name__ == "__main__":
    main()
