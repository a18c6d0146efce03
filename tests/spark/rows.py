"""Rows to write, and what a topic holds, to be compared one by one."""

from collections import Counter
from collections.abc import Iterable
from contextlib import closing

import pyarrow as pa

from logherd_spark.bounds import latest, queues_of
from logherd_spark.cluster import Cluster
from logherd_spark.options import read_options
from logherd_spark.pulling import RangePuller
from logherd_spark.ranges import Range

__all__ = ["batch", "by_value", "stored"]


def batch(numbers: Iterable[int], *, keys: int = 17) -> pa.RecordBatch:
    """One row for each number: value and property say it, the key is one of a few."""
    listed = list(numbers)
    return pa.record_batch(
        {
            "key": [f"key-{number % keys}" for number in listed],
            "value": pa.array([f"value-{number}".encode() for number in listed]),
            "tags": [f"tag-{number % 2}" for number in listed],
            "properties": pa.array([[("number", str(number))] for number in listed], pa.map_(pa.string(), pa.string())),
        }
    )


def stored(cluster: Cluster, topic: str) -> list[dict[str, object]]:
    """Every row of a topic, queue by queue in the order of their offsets."""
    options = read_options({"bootstrap": "nobody:1", "subscribe": topic}, streaming=False)
    names = ("key", "value", "queue", "offset", "tags", "properties")
    found: list[dict[str, object]] = []
    with closing(cluster):
        for queue, end in latest(cluster, queues_of(cluster, [topic])).items():
            for each in RangePuller(cluster, Range(queue, 0, end), options).batches(names):
                found += each.to_pylist()
    return found


def by_value(rows: Iterable[dict[str, object]]) -> Counter[str]:
    return Counter(bytes(row["value"]).decode() for row in rows)  # type: ignore[call-overload]
