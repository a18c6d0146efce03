"""A queue that ends before the place of a stream, as after an unclean election or when its topic was made anew."""

from collections.abc import Callable

import pytest

from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from logherd_spark.cluster import QueueRef
from logherd_spark.errors import DataLost
from logherd_spark.patience import Patience
from logherd_spark.reading import LogHerdStreamReader
from logherd_spark.versions import ReadAllAvailable
from spark.test_new_queues import KNOWN, Kept, reader

START = {"Events": {"a:0": 100}}


class Shorter(Kept):
    """A queue that ends at these offsets, one after another when it is asked; the last one stays."""

    def __init__(self, *ends: int, total_seconds: float = 0.0) -> None:
        super().__init__({KNOWN: (0, 0)})
        self.ends = list(ends)
        self.patience = Patience(1.0, total_seconds)

    def ask(self, queue: QueueRef, request: Callable[[], Frame], *, good: frozenset[int] = frozenset({0})) -> Frame:
        del queue, good
        if request().code != RequestCode.GET_MAX_OFFSET:
            return Frame(0, 0, ext={"offset": "0"})
        return Frame(0, 0, ext={"offset": str(self.ends.pop(0) if len(self.ends) > 1 else self.ends[0])})


def at(cluster: Kept, **options: str) -> LogHerdStreamReader:
    made = reader({}, **options)
    made._known = cluster
    return made


def test_what_a_stream_has_read_and_a_queue_has_no_more_is_told() -> None:
    """Else the stream would stand still, and messages that come between there and here would never be read."""
    stream = at(Shorter(50))
    with pytest.raises(DataLost, match=r"stream is at offset 100, the queue ends at 50: .*another checkpoint"):
        stream.latestOffset(START, ReadAllAvailable())
    stream.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match="the queue ends at 50"):
        stream.latestOffset(START, ReadAllAvailable())


def test_an_end_that_is_lower_for_a_moment_is_waited_for() -> None:
    stream = at(Shorter(50, 120, total_seconds=5.0))
    assert stream.latestOffset(START, ReadAllAvailable()) == {"Events": {"a:0": 120}}
    stream = at(Shorter(50, 120, 150, total_seconds=5.0))
    stream.prepareForTriggerAvailableNow()
    for start in (START, {"Events": {"a:0": 120}}):
        assert stream.latestOffset(start, ReadAllAvailable()) == {"Events": {"a:0": 120}}, "else it would never end"


def test_where_loss_is_no_matter_and_where_a_queue_has_no_route_a_stream_stays_where_it_is() -> None:
    assert at(Shorter(50), failOnDataLoss="false").latestOffset(START, ReadAllAvailable()) == START
    lost = Shorter(50)
    lost.kept = {}
    assert at(lost).latestOffset(START, ReadAllAvailable()) == START


def test_a_spark_that_does_not_say_where_a_stream_is_gets_no_end_before_what_it_was_told() -> None:
    """Before 4.2 it asks without a place. A queue that is left out once would be a new one later, and read anew."""
    other = KNOWN._replace(group="b")
    cluster = Kept({KNOWN: (0, 10), other: (0, 5)})
    stream = at(cluster)
    assert stream.latestOffset() == {"Events": {"a:0": 10, "b:0": 5}}
    cluster.kept = {KNOWN: (0, 12)}
    assert stream.latestOffset() == {"Events": {"a:0": 12, "b:0": 5}}
    again = at(cluster)
    again.partitions({"Events": {"a:0": 12, "b:0": 5}}, {"Events": {"a:0": 12, "b:0": 5}})  # after a new start
    assert again.latestOffset() == {"Events": {"a:0": 12, "b:0": 5}}
    cluster.patience = Patience(1.0, 0.0)
    cluster.kept = {KNOWN: (0, 3), other: (0, 7)}
    with pytest.raises(DataLost, match="stream is at offset 12, the queue ends at 3"):
        stream.latestOffset()
    forgiving = at(Kept({KNOWN: (0, 10)}), failOnDataLoss="false")
    forgiving.latestOffset()
    forgiving._known = Kept({KNOWN: (0, 3)})
    assert forgiving.latestOffset() == {"Events": {"a:0": 10}}
