"""Where a stream begins is decided once. Spark asks for it when it plans the first micro-batch, again when it carries
it out, and again when another driver has to."""

import json

from logherd_spark.ranges import Place, from_checkpoint
from logherd_spark.versions import ReadAllAvailable, ReadMaxRows
from spark.test_lower_ends import at
from spark.test_new_queues import KNOWN, NEW, Kept
from spark.test_seals import as_the_release_before

ALL = ReadAllAvailable()


def test_a_stream_that_begins_at_the_latest_message_begins_at_one_place() -> None:
    cluster = Kept({KNOWN: (0, 50)})
    stream = at(cluster)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    cluster.kept[KNOWN] = (0, 53)
    assert stream.initialOffset() == start == {"Events": {"a:0": 50}}
    assert stream.partitions(stream.initialOffset(), end) == []


def test_a_first_micro_batch_that_another_driver_carries_out_has_the_rows_of_the_first_time() -> None:
    """Else it would have none of them, and nobody would be told: the next one goes on behind it."""
    cluster = Kept({KNOWN: (0, 50), NEW: (0, 9)})
    stream = at(cluster)
    start = stream.initialOffset()
    cluster.kept[KNOWN] = (0, 60)
    end = stream.latestOffset(start, ALL)
    assert end["Events"] == {"a:0": 60, "a:1": 9}
    assert [each.value for each in stream.partitions(start, end)] == [(KNOWN, 50, 60)]

    for latest in (60, 80):
        cluster.kept[KNOWN] = (0, latest)
        other = at(cluster)
        again = other.partitions(other.initialOffset(), json.loads(json.dumps(end)))
        assert [each.value for each in again] == [(KNOWN, 50, 60)]
    later = other.latestOffset(end, ReadMaxRows(7))
    assert later == {"Events": {"a:0": 67, "a:1": 9}}
    assert [each.value for each in other.partitions(end, later)] == [(KNOWN, 60, 67)]


def test_while_nothing_comes_after_the_first_micro_batch_there_is_no_other() -> None:
    cluster = Kept({KNOWN: (0, 50)})
    stream = at(cluster)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert from_checkpoint(end) == Place({KNOWN: 50}, {}, {KNOWN: 50})
    for driver in (stream, at(cluster)):
        assert json.dumps(driver.latestOffset(json.loads(json.dumps(end)), ALL)) == json.dumps(end)
    assert as_the_release_before(end)[KNOWN] == 50


def test_a_spark_that_asks_for_the_end_first_gets_no_beginning_behind_it() -> None:
    """Before 4.2."""
    cluster = Kept({KNOWN: (0, 50)})
    stream = at(cluster)
    end = stream.latestOffset()
    cluster.kept[KNOWN] = (0, 53)
    assert stream.initialOffset() == end == {"Events": {"a:0": 50}}
    assert [each.value for each in stream.partitions(end, stream.latestOffset())] == [(KNOWN, 50, 53)]
