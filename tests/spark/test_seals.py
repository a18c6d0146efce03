"""A stream whose checkpoint is of another queue of the same name says so: it neither passes messages over nor reads
some twice."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from logherd.model.record import encode_record
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd_spark.cluster import QueueRef
from logherd_spark.errors import DataLost
from logherd_spark.patience import Patience
from logherd_spark.ranges import Place, from_checkpoint, to_checkpoint
from logherd_spark.versions import ReadAllAvailable, ReadMaxRows
from spark.test_lower_ends import at
from spark.test_new_queues import KNOWN, NEW, Kept

ALL = ReadAllAvailable()
ANOTHER = r"message 99 is another one than the stream has read there: .* at offset 100: option failOnDataLoss=false"


class Stored(Kept):
    """Queues with messages that were stored at `stored_ms`, one more millisecond for each, with a `body`."""

    def __init__(self, kept: dict[QueueRef, tuple[int, int]], *, stored_ms: int = 1_000, body: bytes = b"here") -> None:
        super().__init__(kept)
        self.stored_ms = stored_ms
        self.body = body
        self.pulls = 0
        self.patience = Patience(1.0, 0.0)

    def ask(self, queue: QueueRef, request: Callable[[], Frame], *, good: frozenset[int] = frozenset({0})) -> Frame:
        asked = request()
        if asked.code != RequestCode.PULL_MESSAGE:
            return super().ask(queue, request, good=good)
        self.pulls += 1
        first, end = self.kept[queue]
        offset = int(asked.ext["queueOffset"])
        if not first <= offset < end:
            ends = {"nextBeginOffset": str(first), "minOffset": str(first), "maxOffset": str(end)}
            return Frame(ResponseCode.PULL_OFFSET_MOVED, 0, ext={**ends, "suggestWhichBrokerId": "0"})
        body = encode_record(
            b"Events", self.body, b"", queue_id=queue.queue_id, queue_offset=offset, position=0,
            store_timestamp=self.stored_ms + offset, store_host=bytes(8), born_timestamp=1, born_host=bytes(8),
        )  # fmt: skip
        return Frame(ResponseCode.SUCCESS, 0, body=body)


def place(cluster: Kept, **options: str) -> dict[str, Any]:
    """Where a stream is that has read all of it, as its checkpoint keeps it."""
    end = at(cluster, **options).latestOffset({"Events": {"a:0": 0}}, ALL)
    kept: dict[str, Any] = json.loads(json.dumps(end))
    return kept


@pytest.mark.parametrize(
    "other",
    [
        Stored({KNOWN: (0, 250)}, stored_ms=5_000),  # made anew, or of another cluster
        Stored({KNOWN: (0, 250)}, body=b"there"),  # stored at the same moment
        Stored({KNOWN: (0, 101)}, stored_ms=5_000),
    ],
)
def test_a_queue_with_another_message_before_the_place_is_told(other: Stored) -> None:
    start = place(Stored({KNOWN: (0, 100)}))
    assert start["Events"] == {"a:0": 100}
    for limit in (ALL, ReadMaxRows(7)):
        with pytest.raises(DataLost, match=ANOTHER):
            at(other).latestOffset(start, limit)


class Reset(Stored):
    """The group of option groupId was reset: a broker tells three pulls of a queue the new offset, as its rules are."""

    def __init__(self, kept: dict[QueueRef, tuple[int, int]], *, times: int, stored_ms: int) -> None:
        super().__init__(kept, stored_ms=stored_ms)
        self.times = times

    def ask(self, queue: QueueRef, request: Callable[[], Frame], *, good: frozenset[int] = frozenset({0})) -> Frame:
        if request().code == RequestCode.PULL_MESSAGE and self.times:
            self.times -= 1
            first, end = self.kept[queue]
            ends = {"nextBeginOffset": "7", "minOffset": str(first), "maxOffset": str(end)}
            return Frame(ResponseCode.PULL_OFFSET_MOVED, 0, ext={**ends, "suggestWhichBrokerId": "0"})
        return super().ask(queue, request, good=good)


def test_a_reset_of_the_consumer_group_keeps_no_message_from_being_compared() -> None:
    start = place(Stored({KNOWN: (0, 100)}))
    with pytest.raises(DataLost, match=ANOTHER):
        at(Reset({KNOWN: (0, 250)}, times=3, stored_ms=5_000)).latestOffset(start, ALL)
    same = at(Reset({KNOWN: (0, 250)}, times=3, stored_ms=1_000)).latestOffset(start, ALL)
    assert from_checkpoint(same).seals.keys() == {KNOWN}
    for_ever = at(Reset({KNOWN: (0, 250)}, times=1_000, stored_ms=5_000))
    assert for_ever.latestOffset(start, ALL)["Events"] == {"a:0": 250}, "it cannot be had: nothing is compared"


def test_the_queue_that_was_read_goes_on_and_what_has_not_moved_is_not_asked_about() -> None:
    cluster = Stored({KNOWN: (0, 100), NEW: (0, 30)})
    start = place(cluster)
    assert set(start["Events"].items()) == {("a:0", 100), ("a:1", 30)}
    cluster.pulls = 0
    stream = at(cluster)
    assert json.dumps(stream.latestOffset(start, ALL)) == json.dumps(start), "else Spark makes a micro-batch of nothing"
    assert cluster.pulls == 0
    cluster.kept[KNOWN] = (60, 140)
    end = stream.latestOffset(start, ALL)
    assert [each.value for each in stream.partitions(start, end)] == [(KNOWN, 100, 140)]
    assert cluster.pulls == 2
    assert from_checkpoint(end).seals.keys() == {KNOWN, NEW}


def test_a_topic_that_is_made_anew_while_the_stream_runs_is_told() -> None:
    cluster = Stored({KNOWN: (0, 100)})
    stream, start = at(cluster), place(cluster)
    cluster.kept[KNOWN] = (0, 110)
    end = stream.latestOffset(start, ALL)
    stream.partitions(start, end)
    cluster.kept[KNOWN], cluster.stored_ms = (0, 500), 9_000
    with pytest.raises(DataLost, match="message 109 is another one"):
        stream.latestOffset(end, ALL)


def test_a_topic_that_is_made_anew_before_a_stream_has_read_anything_of_it_is_told() -> None:
    cluster = Stored({KNOWN: (0, 100)})
    stream = at(cluster)
    start = stream.latestOffset(stream.initialOffset(), ALL)
    cluster.kept[KNOWN], cluster.stored_ms = (0, 500), 9_000
    with pytest.raises(DataLost, match=ANOTHER):
        stream.latestOffset(start, ALL)


def test_a_micro_batch_that_was_planned_over_another_queue_is_not_repeated() -> None:
    """At its beginning or, where it begins with the queue, at its end."""
    planned = Stored({KNOWN: (0, 100)})
    start, end = {"Events": {"a:0": 0}}, place(planned)
    with pytest.raises(DataLost, match=ANOTHER):
        at(Stored({KNOWN: (0, 250)}, stored_ms=5_000)).partitions(start, end)
    planned.kept[KNOWN] = (0, 120)
    later = place(planned)
    with pytest.raises(DataLost, match=ANOTHER):
        at(Stored({KNOWN: (0, 250)}, stored_ms=5_000)).partitions(end, later)
    assert [each.value for each in at(planned).partitions(end, later)] == [(KNOWN, 100, 120)]


def test_where_loss_is_no_matter_it_goes_on_at_its_place_and_forgets_the_other_queue() -> None:
    start = place(Stored({KNOWN: (0, 100), NEW: (0, 30)}))
    other = Stored({KNOWN: (0, 250), NEW: (0, 30)}, stored_ms=5_000)
    end = at(other, failOnDataLoss="false").latestOffset(start, ALL)
    assert end == {"Events": {"a:0": 250, "a:1": 30}}
    assert other.pulls == 0
    other.kept[NEW] = (0, 40)
    assert at(other).latestOffset(end, ALL)["Events"] == {"a:0": 250, "a:1": 40}


def test_what_is_gone_by_age_or_cannot_be_had_stands_in_nobodys_way() -> None:
    start = place(Stored({KNOWN: (0, 100)}))
    assert at(Stored({KNOWN: (100, 250)})).latestOffset(start, ALL)["Events"] == {"a:0": 250}


def test_queues_of_another_group_in_the_place_of_all_that_were_read_are_told() -> None:
    """Else they would be new ones, and read from their beginnings."""
    start = place(Stored({KNOWN: (0, 100)}))
    other, others = KNOWN._replace(group="b"), NEW._replace(group="b")
    elsewhere = Stored({other: (0, 20), others: (0, 0)})
    for checkpoint in (start, {"Events": {"a:0": 100}}):
        with pytest.raises(DataLost, match=r"queue 0 of topic Events in group a: has no route, .* in group b: "):
            at(elsewhere).latestOffset(checkpoint, ALL)
    end = at(elsewhere, failOnDataLoss="false").latestOffset(start, ALL)
    assert end == {"Events": {"a:0": 100, "b:0": 20, "b:1": 0}}
    assert at(elsewhere).latestOffset(end, ALL) == end, "from now on these are known"
    both = Stored({KNOWN: (0, 100), other: (0, 20)})
    assert at(both).latestOffset(start, ALL)["Events"] == {"a:0": 100, "b:0": 20}


def test_a_spark_that_does_not_say_where_a_stream_is_has_it_compared_all_the_same() -> None:
    cluster = Stored({KNOWN: (0, 100)})
    stream = at(cluster)
    first = stream.latestOffset()
    cluster.kept[KNOWN], cluster.stored_ms = (0, 500), 9_000
    with pytest.raises(DataLost, match=ANOTHER):
        stream.latestOffset()
    with pytest.raises(DataLost, match=ANOTHER):
        at(cluster).partitions(first, at(cluster).latestOffset())


def as_the_release_before(checkpoint: dict[str, dict[str, int]]) -> dict[QueueRef, int]:
    """How it reads one."""
    found = {}
    for topic, queues in checkpoint.items():
        for name, offset in queues.items():
            group, _, number = name.rpartition(":")
            found[QueueRef(topic, group, int(number))] = int(offset)
    return found


def test_checkpoints_are_read_by_this_release_and_the_one_before() -> None:
    offsets = {KNOWN: 40, NEW._replace(group="b@c"): 7}
    written = to_checkpoint(offsets, {KNOWN: 1 << 60, NEW._replace(group="b@c"): 3})
    again = from_checkpoint(json.loads(json.dumps(written)))
    assert again == Place(offsets, {KNOWN: 1 << 60, NEW._replace(group="b@c"): 3}, {})
    assert from_checkpoint({"Events": {"a:0": 40}}) == Place({KNOWN: 40}, {}, {})
    before = as_the_release_before(written)
    assert before.items() >= offsets.items()
    moved = to_checkpoint({**before, KNOWN: 50})  # it goes on, and takes the seals along as they were
    assert from_checkpoint(moved) == Place({**offsets, KNOWN: 50}, {NEW._replace(group="b@c"): 3}, {})
