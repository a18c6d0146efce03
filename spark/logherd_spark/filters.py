"""Which part of a batch a filter leaves: only by topic, queue and offset, which are known without reading.

Spark applies every filter again, so that this may be coarser than the filter, never finer.
"""

from collections.abc import Iterable
from typing import Any

from logherd_spark.ranges import Range

__all__ = ["Filter", "narrowed"]

Filter = Any
"""One of `pyspark.sql.datasource`, by the name of its class: Spark 4.0 has none of them."""


def narrowed(ranges: Iterable[Range], filters: Iterable[Filter]) -> list[Range]:
    """What of the ranges can pass all filters."""
    found = list(ranges)
    for each in filters:
        column, kind = getattr(each, "attribute", ()), type(each).__name__
        if column == ("offset",):
            found = [_by_offset(span, kind, getattr(each, "value", None)) for span in found]
        elif column in (("queue",), ("topic",)) and kind in ("EqualTo", "In"):
            values = {each.value} if kind == "EqualTo" else set(each.value)
            found = [
                span for span in found if (span.queue.queue_id if column == ("queue",) else span.queue.topic) in values
            ]
    return [span for span in found if span.length > 0]


def _by_offset(span: Range, kind: str, value: object) -> Range:
    start, end = span.start, span.end
    match kind, value:
        case "EqualTo", int(number):
            start, end = max(start, number), min(end, number + 1)
        case "GreaterThan", int(number):
            start = max(start, number + 1)
        case "GreaterThanOrEqual", int(number):
            start = max(start, number)
        case "LessThan", int(number):
            end = min(end, number)
        case "LessThanOrEqual", int(number):
            end = min(end, number + 1)
        case _:
            return span
    return Range(span.queue, start, max(start, end))
