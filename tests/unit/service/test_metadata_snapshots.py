"""Snapshots of metadata: how large their records are, when they are written, and which of them are believed."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.metadata import CHANGES, SNAPSHOTS, Entry, Metadata, MetadataDamagedError, MetadataOptions
from logherd.service.metadata.changes import (
    FORMAT,
    SnapshotBegin,
    SnapshotEnd,
    SnapshotPart,
    SnapshotRecord,
    decode_snapshot_record,
    digest_parts,
    encode,
)
from unit.service.fixed_clock import FixedClock
from unit.service.memory_log import MemoryLog
from unit.service.test_metadata import opened, pass_ends, state_of
from unit.service.test_metadata_roles import begun, commit, followed, led, receive, snapshot


def large(log: MemoryLog, options: MetadataOptions, topics: int = 100) -> Metadata:
    """Metadata with topics of two kilobytes each."""
    metadata = opened(log, options)
    for number in range(topics):
        metadata.topics.put(TopicConfig(f"t{number}", attributes={"n": "y" * 2000}))
    return metadata


def numbers(log: MemoryLog) -> list[int]:
    """The snapshots in a log."""
    records = [decode_snapshot_record(entry.body, entry.queue_offset) for entry in log.entries[SNAPSHOTS]]
    return [record.number for record in records if isinstance(record, SnapshotEnd)]


def test_no_record_of_a_snapshot_is_larger_than_the_log_takes_whatever_topics_are_like() -> None:
    log = MemoryLog()
    metadata = large(log, MetadataOptions())
    metadata.request_snapshot()
    for _ in range(10):
        pass_ends(metadata, log)
    sizes = [len(entry.body) for entry in log.entries[SNAPSHOTS]]
    assert max(sizes) < (64 << 10) + 4000
    assert sum(sizes) > 200_000
    assert state_of(opened(log)) == state_of(metadata)


SMALLEST = 128 << 10
"""What a log takes at least, however small messages are to be: about the largest body with messageSizeMax 1 KiB."""
QUEUES = 16_384


def test_offsets_of_all_queues_of_the_largest_topic_fit_the_smallest_records() -> None:
    """Else they stay pending for ever, and with them every offset that anybody commits later."""
    log = MemoryLog()
    log.body_bytes_max = SMALLEST
    metadata = opened(log)
    for queue_id in range(QUEUES):
        metadata.offsets.commit("g", "t", queue_id, 10**12 + queue_id)
    metadata.offsets.commit("h", "t", 0, 7)
    metadata.flush_pending()
    assert not metadata.offsets.pending
    log.commit()
    again = opened(log)
    assert list(again.offsets.queues("g", "t").items()) == [(number, 10**12 + number) for number in range(QUEUES)]
    assert again.offsets.get("h", "t", 0) == 7


def test_a_reset_of_all_queues_of_the_largest_topic_fits_the_smallest_records() -> None:
    log = MemoryLog()
    log.body_bytes_max = SMALLEST
    metadata = opened(log)
    wanted = {queue_id: 10**12 + queue_id for queue_id in range(QUEUES)}
    assert metadata.offsets.reset("g", "t", wanted) == metadata.position
    log.commit()
    again = opened(log)
    assert again.offsets.queues("g", "t") == wanted
    assert list(again.offsets.resets()) == [("g", "t", wanted)]


def test_a_snapshot_of_the_largest_topic_fits_the_smallest_records() -> None:
    """Else no snapshot is ever whole again, and retention deletes nothing any more."""
    log = MemoryLog()
    log.body_bytes_max = SMALLEST
    metadata = opened(log)
    metadata.topics.put(TopicConfig("t", QUEUES, QUEUES))
    log.ends = {("t", queue_id): 10**12 + queue_id for queue_id in range(QUEUES)}
    ends = log.queue_ends("t")
    for queue_id in range(QUEUES):
        metadata.offsets.commit("g", "t", queue_id, 10**12 + queue_id)
    metadata.topics.put(TopicConfig("large", attributes={"n": "y" * (SMALLEST - 1000)}))
    pass_ends(metadata, log)
    metadata.request_snapshot()
    for _ in range(100):
        pass_ends(metadata, log)
    assert numbers(log) == [1]
    log.ends = {}
    assert state_of(opened(log)) == state_of(metadata)
    assert log.queue_ends("t") == ends


def test_the_version_of_groups_outlives_a_snapshot_in_which_there_are_none() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.groups.put(GroupConfig("g"))
    metadata.groups.delete("g", clean_offsets=False)
    metadata.request_snapshot()
    for _ in range(10):
        pass_ends(metadata, log)
    assert numbers(log) == [1]
    assert state_of(opened(log)) == state_of(metadata)


def test_a_snapshot_is_written_while_groups_topics_and_offsets_come_and_go() -> None:
    log = MemoryLog()
    metadata = opened(log, MetadataOptions())
    for number in range(1200):
        metadata.offsets.commit(f"g{number}", "t", 0, number)
        metadata.topics.put(TopicConfig(f"t{number}"))
    metadata.request_snapshot()
    for number in range(20):
        pass_ends(metadata, log)
        metadata.offsets.commit(f"h{number}", f"t{number}", 0, number)
        metadata.topics.delete(f"t{number + 10}")
        metadata.topics.put(TopicConfig(f"u{number}"))
    pass_ends(metadata, log)
    assert numbers(log) == [1]
    assert len(log.entries[SNAPSHOTS]) > 6
    assert state_of(opened(log)) == state_of(metadata)


def test_what_a_pass_could_not_write_keeps_the_passes_coming() -> None:
    """A broker that nobody asks anything makes no pass of its own."""
    log = MemoryLog()
    metadata = opened(log)
    assert not metadata.unfinished
    metadata.request_snapshot()
    passes = 0
    metadata.end_pass()
    while metadata.unfinished:
        metadata.end_pass()
        passes += 1
    assert (passes, numbers(log)) == (2, [1])
    log.full = True
    metadata.offsets.commit("g", "t", 0, 1)
    metadata.end_pass()
    assert metadata.unfinished
    log.full = False
    metadata.end_pass()
    assert not metadata.unfinished


# ---- when one is written


@pytest.mark.parametrize("restarted", [False, True])
def test_snapshots_take_no_more_of_the_log_than_the_changes_between_them(restarted: bool) -> None:
    """A large state is written rarely, however little change would make a small one due."""
    log = MemoryLog()
    options = MetadataOptions(change_bytes=1000, log_bytes=5000)
    metadata = large(log, options)
    for _ in range(10):
        pass_ends(metadata, log)
    assert numbers(log) == [1]
    if restarted:
        metadata = opened(log, options)
    written = sum(entry.end - entry.position for entry in log.entries[SNAPSHOTS])
    start = log.end_position
    for number in range(200):
        metadata.offsets.commit("g" * 100, "t", number % 2, number)
        pass_ends(metadata, log)
    assert 10_000 < log.end_position - start < written
    for _ in range(5):
        metadata.request_snapshot()
        pass_ends(metadata, log)
    assert numbers(log) == [1], "nor by request"


def test_a_snapshot_makes_the_next_one_due_by_nothing_that_came_before_it() -> None:
    log = MemoryLog()
    metadata = opened(log, MetadataOptions(change_bytes=1000, log_bytes=1 << 40))
    for number in range(40):
        metadata.offsets.commit("g" * 100, "t", 0, number)
        metadata.flush_pending()
    for _ in range(20):
        pass_ends(metadata, log)
    assert numbers(log) == [1]


def test_a_snapshot_is_due_when_the_log_has_grown_though_hardly_any_metadata_changed() -> None:
    """Retention may then delete messages up to it."""
    log = MemoryLog()
    options = MetadataOptions(change_bytes=1 << 40, log_bytes=10_000)
    metadata = opened(log, options)
    for length, written in ((9000, []), (3000, [1])):
        log.end_position += length
        for _ in range(5):
            pass_ends(metadata, log)
        assert numbers(log) == written
    metadata = opened(log, options)
    log.end_position += 6000
    for _ in range(5):
        pass_ends(metadata, log)
    assert numbers(log) == [1], "counted from the last one, also after a start"
    log.end_position += 6000
    for _ in range(5):
        pass_ends(metadata, log)
    assert numbers(log) == [1, 2]


def test_changes_before_a_start_count_for_the_next_snapshot() -> None:
    log = MemoryLog()
    options = MetadataOptions(change_bytes=4000, log_bytes=1 << 40)
    for start in range(20):
        metadata = opened(log, options)
        metadata.offsets.commit("g" * 100, "t", 0, start)
        for _ in range(4):
            pass_ends(metadata, log)
    assert len(numbers(log)) in (1, 2)


def test_changes_that_are_covered_by_a_followers_newest_snapshot_make_none_due_when_it_leads() -> None:
    log = MemoryLog()
    leader = led(log)
    follower = Metadata.follow(
        log, FixedClock(), committed=log.committed_position,
        options=MetadataOptions(change_bytes=3000, log_bytes=1 << 40),
    )  # fmt: skip
    for number in range(20):
        leader.offsets.commit("g" * 100, "t", 0, number)
        leader.end_pass()
    commit(follower, log, log.end_position)
    snapshot(leader)
    commit(follower, log, log.end_position)
    leader.demote()
    follower.promote(2)
    for _ in range(5):
        pass_ends(follower, log)
    assert numbers(log) == [1]
    follower.topics.put(TopicConfig("x", attributes={"n": "y" * 4000}))
    for _ in range(5):
        pass_ends(follower, log)
    assert numbers(log) == [1, 2], "it goes on with the numbers, too"


def test_who_led_goes_on_with_no_snapshot_that_it_had_begun_or_was_asked_for() -> None:
    for passes in (0, 1):
        log = MemoryLog()
        leader = led(log)
        leader.request_snapshot()
        for _ in range(passes):
            leader.end_pass()
        log.commit()
        leader.demote()
        assert not leader.unfinished
        leader.request_snapshot()
        leader.promote(2)
        for _ in range(5):
            pass_ends(leader, log)
        assert numbers(log) == []


def test_h2_an_older_snapshot_pins_until_a_newer_one_is_committed() -> None:
    """Whether or not anybody has asked meanwhile."""
    log = MemoryLog()
    leader = led(log)
    snapshot(leader)
    log.commit()
    leader.topics.put(TopicConfig("x", attributes={"n": "y" * 4000}))
    snapshot(leader)
    assert numbers(log) == [1, 2]
    assert leader.pinned_position == log.entries[SNAPSHOTS][0].position
    log.commit()
    assert leader.pinned_position == log.entries[SNAPSHOTS][3].position


def test_an_older_snapshot_pins_who_is_elected_with_a_newer_one_that_is_not_committed() -> None:
    log = MemoryLog()
    leader = led(log)
    follower = followed(log)
    snapshot(leader)
    commit(follower, log, log.end_position)
    leader.topics.put(TopicConfig("x", attributes={"n": "y" * 4000}))
    snapshot(leader)
    follower.promote(2)
    assert numbers(log) == [1, 2]
    assert follower.pinned_position == log.entries[SNAPSHOTS][0].position


def test_a_leader_reads_nothing_of_what_it_has_written(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    leader = led(log)
    snapshot(leader)
    monkeypatch.setattr(MemoryLog, "read", None)
    commit(leader, log, log.end_position)


def test_a_former_leader_reads_nothing_again_of_a_snapshot_that_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    leader = led(log)
    snapshot(leader)
    log.commit()
    leader.demote()
    monkeypatch.setattr(MemoryLog, "read", None)
    log.end_position += 1_000_000
    commit(leader, log, log.end_position)


# ---- which is believed


Change = Callable[[SnapshotRecord], SnapshotRecord]


def tamper(log: MemoryLog, index: int, change: Change) -> None:
    """Another record in the place of one; the end then has the digest of the parts as they are now, unless it is that
    record itself."""
    entries = log.entries[SNAPSHOTS]
    entries[index] = entries[index]._replace(body=encode(change(decode_snapshot_record(entries[index].body, index))))
    if index != len(entries) - 1:
        end = decode_snapshot_record(entries[-1].body, len(entries) - 1)
        assert isinstance(end, SnapshotEnd)
        digest = digest_parts([entry.body for entry in entries[1:-1]])
        entries[-1] = entries[-1]._replace(body=encode(replace(end, digest=digest)))


NEWER: Change = lambda record: replace(record, format=FORMAT + 1)  # noqa: E731
OTHER: Change = lambda record: replace(record, number=record.number + 1)  # noqa: E731
NO_DIGEST: Change = lambda record: replace(record, digest="0" * 64)  # noqa: E731
NO_PARTS: Change = lambda record: replace(record, parts=0)  # noqa: E731


@pytest.mark.parametrize(
    ("index", "change", "why"),
    [
        (0, NEWER, "snapshot 1 has format 2, this LogHerd reads 1"),
        (0, OTHER, "snapshot 1 differs from the digest in its end"),
        (0, lambda _: SnapshotPart(1, []), "snapshot 1 has an end .2. but no beginning"),
        (1, OTHER, "record 1 stands inside snapshot 1"),
        (1, lambda _: SnapshotBegin(1, 0), "record 1 stands inside snapshot 1"),
        (2, OTHER, "snapshot 2 differs|record 1 stands inside snapshot 2"),
        (2, NO_DIGEST, "snapshot 1 differs from the digest in its end"),
        (2, NO_PARTS, "snapshot 1 has an end .2. but no beginning"),
    ],
)  # fmt: skip
def test_a_snapshot_whose_records_do_not_belong_together_is_refused(index: int, change: Change, why: str) -> None:
    log = MemoryLog()
    snapshot(led(log))
    log.commit()
    tamper(log, index, change)
    with pytest.raises(MetadataDamagedError, match=why):
        opened(log)


@pytest.mark.parametrize(("index", "change"), [(0, NEWER), (0, OTHER), (2, OTHER), (2, NO_DIGEST), (2, NO_PARTS)])
def test_a_follower_refuses_a_snapshot_whose_records_do_not_belong_together(index: int, change: Change) -> None:
    log = MemoryLog()
    leader = led(log)
    follower = followed(log)
    snapshot(leader)
    tamper(log, index, change)
    with pytest.raises(MetadataDamagedError, match=r"snapshot . (has format|differs)"):
        commit(follower, log, log.end_position)


class Lossy(MemoryLog):
    """Reads over one record, as a file that was damaged makes it."""

    def __init__(self, queue_id: int, queue_offset: int) -> None:
        super().__init__()
        self.lost = (queue_id, queue_offset)
        self.losing = False

    def read(self, queue_id: int, queue_offset: int, below: int) -> Iterator[Entry]:
        for entry in super().read(queue_id, queue_offset, below):
            if not self.losing or (queue_id, entry.queue_offset) != self.lost:
                yield entry


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("queue_id", [CHANGES, SNAPSHOTS])
def test_no_state_is_made_of_a_log_that_lacks_a_record_of_metadata(queue_id: int, last: bool) -> None:
    log = Lossy(queue_id, 0)
    leader = led(log)
    snapshot(leader)
    leader.topics.put(TopicConfig("a"))
    leader.topics.put(TopicConfig("b"))
    log.commit()
    log.lost = (queue_id, log.bounds(queue_id)[1] - (1 if last else 2))
    log.losing = True
    for start in (opened, followed):
        with pytest.raises(MetadataDamagedError, match=r"missing|no beginning|differs"):
            start(log)


@pytest.mark.parametrize("last", [True, False])
def test_nobody_leads_with_a_log_that_lacks_a_record_of_metadata(last: bool) -> None:
    log = Lossy(CHANGES, 0)
    leader = led(log)
    for name in "abc":
        leader.topics.put(TopicConfig(name))
    follower = followed(log)
    before = state_of(follower)
    log.lost = (CHANGES, log.bounds(CHANGES)[1] - (1 if last else 2))
    log.losing = True
    end = log.end_position
    with pytest.raises(MetadataDamagedError, match=r"metadata changes \d+ to \d+ are missing from the log"):
        follower.promote(2)
    assert (log.end_position, follower.leading, state_of(follower)) == (end, False, before)


def test_a_follower_passes_over_no_record_of_metadata() -> None:
    log = Lossy(CHANGES, 0)
    leader = led(log)
    follower = followed(log)
    for name in "ab":
        leader.topics.put(TopicConfig(name))
    log.lost = (CHANGES, log.bounds(CHANGES)[1] - 2)
    log.losing = True
    with pytest.raises(MetadataDamagedError, match=r"metadata changes \d+ to \d+ are missing from the log"):
        commit(follower, log, log.end_position)


def test_what_is_committed_later_than_a_follower_was_told_is_no_record_that_is_missing() -> None:
    log = MemoryLog()
    leader = led(log)
    at = log.committed_position
    expected = state_of(leader)
    leader.topics.put(TopicConfig("later"))
    snapshot(leader)
    log.commit()
    follower = followed(log, committed=at)
    assert state_of(follower) == expected
    leader.topics.put(TopicConfig("not committed"))
    for told in (followed(log, committed=log.end_position), follower):
        told.advance(log.end_position)
        assert told.topics.get("later") is not None
        assert told.topics.get("not committed") is None
    commit(follower, log, log.end_position)
    assert state_of(follower) == state_of(leader)


def test_a_log_that_begins_in_the_middle_and_has_received_nothing_is_not_the_empty_log_of_a_new_group() -> None:
    log = MemoryLog()
    led(log)
    other = begun(log, log.end_position)
    other.first = {CHANGES: 0, SNAPSHOTS: 0}  # nothing says yet how far the numbers went
    follower = followed(other)
    assert not follower.is_whole
    with pytest.raises(MetadataDamagedError, match="no snapshot covers them"):
        follower.promote(2)


def test_a_log_that_has_lost_changes_behind_its_newest_snapshot_is_refused() -> None:
    log = MemoryLog()
    leader = led(log)
    snapshot(leader)
    for number in range(3):
        leader.topics.put(TopicConfig(f"t{number}"))
    log.commit()
    del log.entries[CHANGES][: log.bounds(CHANGES)[1] - 2]
    log.first[CHANGES] += log.entries[CHANGES][0].queue_offset
    with pytest.raises(MetadataDamagedError, match="are gone, and no snapshot covers them"):
        opened(log)


def test_who_receives_a_snapshot_and_not_yet_its_end_learns_nothing_from_it() -> None:
    log = MemoryLog()
    leader = led(log)
    at = log.end_position
    snapshot(leader)
    other = begun(log, at)
    receive(log, other, log.entries[SNAPSHOTS][1].end)
    follower = followed(other)
    other.commit()
    follower.advance(other.end_position)
    assert (follower.is_whole, follower.pinned_position) == (False, 0)
