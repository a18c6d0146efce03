"""Which part of a batch a filter leaves: only by topic, queue and offset, which are known without reading.

Spark applies every filter again, so that this may be coarser than the filter, never finer.
"""

from collections.abc import Iterable

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from logherd_spark.ranges import Range

__all__ = ["narrowed"]


def narrowed(ranges: Iterable[Range], filters: Iterable[Filter]) -> list[Range]:
    """What of the ranges can pass all filters."""
    found = list(ranges)
    for each in filters:
        column = getattr(each, "attribute", ())
        if column == ("offset",):
            found = [_by_offset(span, each) for span in found]
        elif column in (("queue",), ("topic",)) and isinstance(each, (EqualTo, In)):
            values = {each.value} if isinstance(each, EqualTo) else set(each.value)
            found = [
                span for span in found if (span.queue.queue_id if column == ("queue",) else span.queue.topic) in values
            ]
    return [span for span in found if span.length > 0]


def _by_offset(span: Range, condition: Filter) -> Range:
    start, end = span.start, span.end
    match condition:
        case EqualTo(value=int(value)):
            start, end = max(start, value), min(end, value + 1)
        case GreaterThan(value=int(value)):
            start = max(start, value + 1)
        case GreaterThanOrEqual(value=int(value)):
            start = max(start, value)
        case LessThan(value=int(value)):
            end = min(end, value)
        case LessThanOrEqual(value=int(value)):
            end = min(end, value + 1)
        case _:
            return span
    return Range(span.queue, start, max(start, end))
