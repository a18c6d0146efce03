"""What a reader makes of answers that hold no messages: it waits, or says what is gone, and passes nothing over."""

from collections.abc import Callable

import pytest

from logherd.model.record import SysFlag
from logherd.wire.codes import ResponseCode
from logherd.wire.compression import compress_body
from logherd.wire.frame import Frame
from logherd_spark.cluster import Cluster, QueueRef
from logherd_spark.connection import Connection, ConnectionLost
from logherd_spark.errors import DataLost
from logherd_spark.options import read_options
from logherd_spark.patience import Patience
from logherd_spark.pulling import RangePuller
from logherd_spark.ranges import Range
from spark.test_encoding import record

QUEUE = QueueRef("Events", "a", 0)
NAMES = ("offset",)


class Told(Cluster):
    """A queue with messages 0 to 9 that gives these answers first, one to each pull."""

    def __init__(self, *first: Frame) -> None:
        super().__init__(("names:9876",), Patience(1.0, 0.0))
        self.first = list(first)

    def connection(self, queue: QueueRef) -> Connection:
        raise ConnectionLost(f"nothing is asked ahead of {queue}")

    def lost(self, queue: QueueRef) -> None:
        del queue

    def ask(self, queue: QueueRef, request: Callable[[], Frame], *, good: frozenset[int] = frozenset({0})) -> Frame:
        del queue, good
        if self.first:
            return self.first.pop(0)
        start = int(request().ext["queueOffset"])
        body = b"".join(record(offset, b"body", {"TAGS": "A"}) for offset in range(start, 10))
        return answer(ResponseCode.SUCCESS, 10, body=body)


def answer(code: ResponseCode, next_offset: int, *, least: int = 0, body: bytes = b"") -> Frame:
    ends = {"nextBeginOffset": str(next_offset), "minOffset": str(least), "maxOffset": "10"}
    return Frame(code, 0, ext={**ends, "suggestWhichBrokerId": "0"}, body=body)


def offsets(cluster: Cluster, **options: str) -> list[int]:
    given = {"bootstrap": "names:9876", "subscribe": "Events", **options}
    puller = RangePuller(cluster, Range(QUEUE, 0, 10), read_options(given, streaming=False))
    return [row["offset"] for batch in puller.batches(NAMES) for row in batch.to_pylist()]


@pytest.mark.parametrize("tags", ["*", "A"])
def test_a_reset_of_the_consumer_group_moves_no_reader(tags: str) -> None:
    """As after `mqadmin resetOffsetByTime` for the group of option groupId: its next pull is told the new offset."""
    cluster = Told(answer(ResponseCode.PULL_OFFSET_MOVED, 7))
    cluster.patience = Patience(1.0, 5.0)
    assert offsets(cluster, groupId="billing", tags=tags) == list(range(10))


def test_messages_that_a_broker_passed_over_are_told_where_no_tags_were_asked_for() -> None:
    """A RocketMQ broker whose log lost a file meanwhile says: go on behind it."""
    removed = answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 4)
    with pytest.raises(DataLost, match="offsets 0 to 3 are gone"):
        offsets(Told(removed))
    assert offsets(Told(removed), failOnDataLoss="false") == list(range(4, 10))


@pytest.mark.parametrize(("whole", "gone"), [(range(0), "0 to 3"), (range(2), "2 to 3")])
def test_messages_that_an_answer_passes_over_at_its_end_are_told(whole: range, gone: str) -> None:
    """Nothing comes behind them in this partition that would show it."""
    body = b"".join(record(offset, b"body", {}) for offset in whole)
    given = read_options({"bootstrap": "names:9876", "subscribe": "Events"}, streaming=False)
    told = Told(answer(ResponseCode.SUCCESS, 4, body=body))
    with pytest.raises(DataLost, match=f"offsets {gone} are gone"):
        list(RangePuller(told, Range(QUEUE, 0, 4), given).batches(NAMES))


def test_where_tags_were_asked_for_what_has_others_is_passed_over() -> None:
    assert offsets(Told(answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 4)), tags="A") == list(range(4, 10))


@pytest.mark.parametrize("end", [3, 17, 30])
def test_a_range_ends_where_it_should_also_in_answers_whose_bodies_grow_to_much(end: int) -> None:
    packed, bits = compress_body(bytes(3 << 20), SysFlag.COMPRESSION_ZLIB)
    body = b"".join(record(n, packed, {}, sys_flag=SysFlag.COMPRESSED | bits) for n in range(30))
    told = Told(
        Frame(ResponseCode.SUCCESS, 0, ext={**answer(ResponseCode.SUCCESS, 30).ext, "maxOffset": "30"}, body=body)
    )
    given = read_options({"bootstrap": "names:9876", "subscribe": "Events"}, streaming=False)
    batches = RangePuller(told, Range(QUEUE, 0, end), given).batches(("value", "offset"))
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(end))
