"""A scrape as text: the Prometheus format 0.0.4, or OpenMetrics for who asks for it.

The client library is loaded by the first scrape, on the thread that writes it down: it takes 4 MB and 50 ms, and who is
never scraped pays neither.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from logherd.app.admin_routes import Scrape, Text
from logherd.telemetry import metrics
from logherd.telemetry.metrics import Kind, Metric, Reading, Readings
from logherd.telemetry.spread import Spread

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

__all__ = ["scrape_of", "to_text"]


def scrape_of(collect: Callable[[], Readings]) -> Scrape:
    """`collect` runs on the loop and only reads; the rest has a thread of its own for a moment."""

    async def scrape(accept: str) -> tuple[int, object]:
        readings = collect()
        return 200, await asyncio.to_thread(partial(to_text, readings, accept))

    return scrape


def to_text(readings: Readings, accept: str = "") -> Text:
    """The text and its media type; adds what /proc knows of this process."""
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    readings.tell(metrics.MEMORY, _anonymous_bytes())
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(readings))
    ProcessCollector(registry=registry)
    try:
        encode, media_type = choose_encoder(accept)
        media_type.encode("ascii")  # it quotes the version
        return Text(encode(registry), media_type)
    except (TypeError, ValueError):  # the library compares what it has made of a version, also of one that is none
        encode, media_type = choose_encoder("")
        return Text(encode(registry), media_type)


class _Collector:
    """The library's idea of where metrics come from."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> "Iterator[Family]":
        for metric, readings in self._readings:
            yield _family(metric, readings)


def _family(metric: Metric, readings: list[Reading]) -> "Family":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if metric.kind is Kind.HISTOGRAM:
        spreads = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in readings:
            if isinstance(value, Spread):
                spreads.add_metric(labels, buckets=_buckets(value), sum_value=value.sum)
        return spreads
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in readings:
        if not isinstance(value, Spread):
            family.add_metric(labels, value)
    return family


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    """Each bound with the number of values up to it."""
    bounds = [*(f"{bound:g}" if bound < 1 else str(bound) for bound in spread.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(spread.counts)), strict=True))


def _anonymous_bytes() -> int:
    with Path("/proc/self/status").open(encoding="ascii", errors="replace") as status:
        kib = next((line.split()[1] for line in status if line.startswith("RssAnon:")), "0")
    return int(kib) * 1024
