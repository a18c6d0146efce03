"""Prints docs/metrics.md from the module that names all metrics, so that the page cannot disagree with it."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "broker"), str(ROOT / "operator")]

import yaml  # noqa: E402 -- the path has to be there first

from logherd.telemetry.metrics import SECTIONS, Metric  # noqa: E402
from logherd_operator.handlers.metrics import METRICS  # noqa: E402
from logherd_operator.handlers.metrics import Metric as OfOperator  # noqa: E402

LABEL = re.compile(r"\{\{ \$labels\.(\w+) }}")
HEAD = """# Metrics

This page is generated (`make docs`); a test compares it. Every broker and every controller answers `GET /metrics` on
its admin port, in the Prometheus text format 0.0.4 or, if `Accept` asks for it, as OpenMetrics. It needs no secret.

```yaml
scrape_configs:
  - job_name: logherd
    static_configs:
      - targets: [broker-1:10913, broker-2:10913, broker-3:10913, controller-0:8088]
        labels: {group: orders}
```

With `logherd up` the ports are 10913, 10923, 10933 of the brokers and 9877, 9887, 9897 of the controllers. On
Kubernetes every pod has the port `admin`, 8088, and `networkPolicy.metricsSelectors` has to let Prometheus in
([how](kubernetes.md#metrics)). The operator answers on its port 8080.

Names end in their base unit, counters in `_total`. Labels have few values: request and answer codes by RocketMQ's
names, `unknown` for all others; no topics, groups or clients. What has no meaning for a process is left out.
The label `group` is not ours: give it in the configuration of the scrape, as above, for the rules below need it.
Heartbeats of brokers are `logherd_requests_total{code="BROKER_HEARTBEAT"}` at a controller. The time that a request
takes is not measured by itself: beside the network it is the flush, `logherd_flush_seconds`, and the replicas' lag.
How far consumers are behind is no metric either: `mqadmin consumerProgress -g GROUP` tells it.

## Alerts

[examples/alerts.yaml](../examples/alerts.yaml) has rules for Prometheus; a test holds their names against this page.
Those with `severity: page` mean that clients are refused or soon will be; `ticket` can wait for the morning.

| alert | severity | what is so | where to look |
| --- | --- | --- | --- |
"""


def main() -> None:
    print(HEAD, end="")
    for rule in alerts():
        print(rule)
    for title, metrics in SECTIONS.items():
        print(f"\n## {title}\n\n| metric | kind | labels | meaning |\n| --- | --- | --- | --- |")
        for metric in metrics:
            print(row(metric))
    print("\n## The operator\n\n| metric | kind | labels | meaning |\n| --- | --- | --- | --- |")
    for each in METRICS:
        print(row(each))


def alerts() -> Iterator[str]:
    """A row for each rule; `{{ $labels.group }}` becomes GROUP."""
    for group in yaml.safe_load((ROOT / "examples/alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            said = [
                LABEL.sub(lambda found: found[1].upper(), rule["annotations"][each]) for each in ("summary", "look")
            ]
            cells = (f"`{rule['alert']}`", rule["labels"]["severity"], *said)
            yield f"| {' | '.join(cells)} |"


def row(metric: Metric | OfOperator) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


if __name__ == "__main__":
    main()
