"""What an older Spark cannot keep is refused by name."""

import pytest

from logherd_spark import versions
from logherd_spark.errors import OptionRefused
from logherd_spark.filters import narrowed
from logherd_spark.ranges import Range
from logherd_spark.versions import refuse_what_is_missing
from spark.test_options import QUEUES


def test_options_that_this_spark_has_no_way_to_ask_for_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "HAS_FILTERS", False)
    monkeypatch.setattr(versions, "HAS_LIMITS", False)
    refuse_what_is_missing(filters=False, limits=False)
    with pytest.raises(OptionRefused, match=r"option filterPushdown needs Spark 4\.1, this is "):
        refuse_what_is_missing(filters=True, limits=False)
    with pytest.raises(OptionRefused, match=r"option maxOffsetsPerTrigger needs Spark 4\.2, this is "):
        refuse_what_is_missing(filters=False, limits=True)


def test_filters_of_spark_leave_what_can_pass_them() -> None:
    filters = pytest.importorskip("pyspark.sql.datasource")
    offset, queue, topic = ("offset",), ("queue",), ("topic",)
    ranges = [Range(each, 10, 20) for each in QUEUES[:3]]
    narrow = [filters.GreaterThan(offset, 11), filters.LessThanOrEqual(offset, 15), filters.In(queue, (1, 2, 9))]
    assert narrowed(ranges, narrow) == [Range(each, 12, 16) for each in QUEUES[1:3]]
    exact = [filters.EqualTo(offset, 13), filters.EqualTo(topic, "t"), filters.EqualTo(queue, 0)]
    assert narrowed(ranges, exact) == [Range(QUEUES[0], 13, 14)]
    assert narrowed(ranges, [filters.GreaterThanOrEqual(offset, 12), filters.LessThan(offset, 12)]) == []
    others = [filters.IsNotNull(offset), filters.Not(filters.EqualTo(offset, 13)), filters.EqualTo(("key",), "k")]
    assert narrowed(ranges, others) == ranges, "what is not understood leaves everything"
