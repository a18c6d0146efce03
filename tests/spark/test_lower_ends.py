"""A queue that ends before the place of a stream, as after an unclean election or when its topic was made anew."""

from collections.abc import Callable

import pytest

from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd_spark.cluster import QueueRef, Route
from logherd_spark.errors import BrokerRefused, DataLost
from logherd_spark.patience import Patience
from logherd_spark.reading import LogHerdStreamReader
from logherd_spark.versions import ReadAllAvailable
from spark.test_new_queues import KNOWN, NEW, Kept, reader

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


class Fewer(Kept):
    """A topic of which fewer queues are read than have messages; the broker knows the ends of those that have a log."""

    def __init__(self, kept: dict[QueueRef, tuple[int, int]], *, read: int) -> None:
        super().__init__(kept)
        self.read = read
        self.patience = Patience(1.0, 0.0)

    def route(self, topic: str, *, fresh: bool = False) -> Route:
        route = super().route(topic, fresh=fresh)
        return Route(tuple(queue for queue in route.readable if queue.queue_id < self.read), ())

    def ask(self, queue: QueueRef, request: Callable[[], Frame], *, good: frozenset[int] = frozenset({0})) -> Frame:
        if queue not in self.kept:
            raise BrokerRefused(ResponseCode.INVALID_PARAMETER, "queueId is 1, topic Events has queues 0 to 0", "a:1")
        return super().ask(queue, request, good=good)


def test_rows_that_a_stream_has_not_read_of_a_queue_that_is_read_no_more_are_told() -> None:
    """As after `updateTopic` with fewer read queues, before the stream was there: else they are passed over."""
    start, end = {"Events": {"a:0": 10, "a:1": 10}}, {"Events": {"a:0": 12, "a:1": 10}}
    cluster = Fewer({KNOWN: (0, 12), NEW: (0, 25)}, read=1)
    told = (
        r"queue 1 of topic Events in group a: is read no more, .* at offset 10, the queue ends at 25: .*failOnDataLoss="
    )
    stream = at(cluster)
    with pytest.raises(DataLost, match=told):
        stream.latestOffset(start, ReadAllAvailable())
    stream.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match=told):
        stream.latestOffset(start, ReadAllAvailable())
    stream = at(cluster)
    stream.partitions(start, start)  # a Spark that does not say where the stream is
    with pytest.raises(DataLost, match=told):
        stream.latestOffset()
    assert at(cluster, failOnDataLoss="false").latestOffset(start, ReadAllAvailable()) == end
    cluster.read = 2
    assert at(cluster).latestOffset(start, ReadAllAvailable()) == {"Events": {"a:0": 12, "a:1": 25}}


def test_a_queue_that_is_read_no_more_may_go_where_all_of_it_was_read() -> None:
    start, end = {"Events": {"a:0": 10, "a:1": 10}}, {"Events": {"a:0": 12, "a:1": 10}}
    assert at(Fewer({KNOWN: (0, 12), NEW: (0, 10)}, read=1)).latestOffset(start, ReadAllAvailable()) == end
    never_written = at(Fewer({KNOWN: (0, 12)}, read=1))
    assert never_written.latestOffset({"Events": {"a:0": 10, "a:1": 0}}, ReadAllAvailable()) == {
        "Events": {"a:0": 12, "a:1": 0}
    }


def test_a_queue_of_which_nobody_knows_the_end_is_told_unless_nothing_was_in_it() -> None:
    start = {"Events": {"a:0": 10, "a:1": 10}}
    with pytest.raises(DataLost, match=r"at offset 10, and nobody knows where the queue ends: "):
        at(Fewer({KNOWN: (0, 12)}, read=1)).latestOffset(start, ReadAllAvailable())


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
