"""Metadata over a real store: restart, bounded start and bounded disk (proof 6)."""

import os
from dataclasses import replace
from errno import EIO, EMFILE, ENFILE, ENOMEM
from pathlib import Path
from time import process_time

import pytest

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.metadata import CHANGES, METADATA_TOPIC, Metadata, MetadataOptions, MetadataRefusedError, StoreLog
from logherd.service.send import Targets
from logherd.store.begin_again import begin_at
from logherd.store.errors import RecordTooLarge, StoreDamaged, StoreError, StoreFull, StoreStopped
from logherd.store.files_os import OsFiles
from logherd.store.options import LogOptions, StoreOptions
from logherd.store.queue_files import UnitReader
from logherd.store.queues import QueueTable
from logherd.store.store import MessageStore
from unit.service.client_fakes import FakeClock
from unit.service.rig import HOST
from unit.store.helpers import ROOT, SimClock, SimDisk, append, bodies, flush, none_left, settle, small_options

OPTIONS = StoreOptions(store_host=HOST, log=LogOptions(segment_bytes=4 << 20, zero_ahead_bytes=0, reserve_bytes=0))


def opened(directory: Path, options: MetadataOptions | None = None) -> tuple[MessageStore, Metadata]:
    clock = FakeClock()
    store = MessageStore.open(directory, OPTIONS, OsFiles(), clock=clock)
    return store, Metadata.open(StoreLog(store, clock, host=HOST), clock, options)


def end_pass(store: MessageStore, metadata: Metadata) -> None:
    """One pass of the loop and what the writer thread does meanwhile."""
    metadata.end_pass()
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)
        store.advance(batch.end)
    while store.background_work():
        pass


def test_metadata_is_rebuilt_from_the_files(tmp_path: Path) -> None:
    store, metadata = opened(tmp_path)
    metadata.topics.put(TopicConfig("orders", 4, 4, attributes={"message.type": "FIFO"}))
    metadata.groups.put(GroupConfig("billing", retries_max=3))
    metadata.offsets.commit("billing", "orders", 1, 7)
    end_pass(store, metadata)
    store.close()
    store, metadata = opened(tmp_path)
    assert metadata.topics.get("orders") == TopicConfig("orders", 4, 4, attributes={"message.type": "FIFO"})
    assert metadata.groups.get("billing") == GroupConfig("billing", retries_max=3)
    assert metadata.offsets.get("billing", "orders", 1) == 7
    assert metadata.epoch == 2
    store.close()


def replica(disk: SimDisk) -> MessageStore:
    options = replace(small_options(retention={"bytes_max": 16384}), replicated=True)
    return MessageStore.open(ROOT, options, disk, clock=SimClock())


def follow(store: MessageStore) -> Metadata:
    options = MetadataOptions(change_bytes=200, log_bytes=1000)
    log = StoreLog(store, FakeClock(), host=HOST)
    return Metadata.follow(log, FakeClock(), committed=store.committed_position, options=options)


def ship(source: MessageStore, target: MessageStore, *, committed: bool = True) -> None:
    while target.end_position < source.end_position:
        data, end = source.read_raw(target.end_position, 1 << 20)
        target.append_raw(data, target.end_position, end=end)
    while (batch := target.take_batch()) is not None:
        batch.write_and_flush()
        target.flushed(batch)
    if committed:
        target.advance(target.end_position)


def test_a_copy_that_begins_behind_every_change_leads_and_goes_on_where_they_ended() -> None:
    """Retention has deleted them all: what they add up to stands in the snapshot only."""
    old = replica(SimDisk())
    metadata = follow(old)
    metadata.promote(1)
    metadata.topics.put(TopicConfig("orders", 1, 1))
    metadata.end_pass()
    flush(old)
    while not old.min_position:
        append(old, "orders", body=b"x" * 300)
        end_pass(old, metadata)
        old.apply_retention(10**9, metadata.pinned_position)
    metadata.demote()
    disk = SimDisk()
    begin_at(Path(ROOT), disk, position=old.min_position)
    copy = replica(disk)
    ship(old, copy)
    assert copy.find_queue(METADATA_TOPIC, 0) is None or not copy.queue(METADATA_TOPIC, 0).min_offset
    leader = follow(copy)
    leader.promote(2)
    flush(copy)
    assert leader.topics.get("orders") is not None
    ship(copy, old)
    metadata.advance(old.committed_position)
    assert (metadata.epoch, metadata.topics.get("orders")) == (2, leader.topics.get("orders"))
    copy.close()
    copy = replica(disk)
    again = follow(copy)
    assert (again.epoch, again.topics.get("orders")) == (2, leader.topics.get("orders"))
    again.promote(3)
    flush(copy)
    ship(copy, old)
    metadata.advance(old.committed_position)
    assert metadata.epoch == 3


class Rarely:
    """A leader whose log begins behind the five messages of the topic "rare", of which the group g has read three."""

    def __init__(self) -> None:
        self.store = replica(SimDisk())
        self.metadata = follow(self.store)
        self.metadata.promote(1)
        self.metadata.topics.put(TopicConfig("rare", 2, 2))
        self.metadata.groups.put(GroupConfig("g"))
        self.sends(5)
        self.metadata.offsets.commit("g", "rare", 1, 3)
        while not self.store.min_position:
            append(self.store, "busy", body=b"x" * 300)
            end_pass(self.store, self.metadata)
            settle(self.store)
            self.store.apply_retention(10**9, self.metadata.pinned_position)

    def sends(self, count: int) -> None:
        for _ in range(count):
            append(self.store, "rare", 1, body=b"rare")
        end_pass(self.store, self.metadata)

    def copy(self, disk: SimDisk) -> MessageStore:
        begin_at(Path(ROOT), disk, position=self.store.min_position)
        copy = replica(disk)
        ship(self.store, copy)
        return copy


def bounds(store: MessageStore) -> tuple[int, int]:
    queue = store.queue("rare", 1)
    return queue.min_offset, queue.next_offset


@pytest.mark.parametrize("reopened", [False, True])
def test_a_copy_that_begins_behind_every_message_of_a_queue_goes_on_with_its_numbers(reopened: bool) -> None:
    """With 0 instead a consumer would be told that what it wants is beyond the end, and pass over what comes."""
    rarely, disk = Rarely(), SimDisk()
    assert bounds(rarely.store) == (5, 5)
    copy = rarely.copy(disk)
    if reopened:
        settle(copy)
        copy.close()
        copy = replica(disk)
    leader = follow(copy)
    leader.promote(2)
    flush(copy)
    assert bounds(copy) == (5, 5)
    append(copy, "rare", 1, body=b"later")
    flush(copy)
    rarely.metadata.demote()
    ship(copy, rarely.store)
    rarely.metadata.advance(rarely.store.committed_position)
    assert (bounds(rarely.store), bounds(copy)) == ((5, 6), (5, 6))
    assert bodies(copy, "rare", 1) == bodies(rarely.store, "rare", 1) == [b"later"]
    settle(copy)
    copy.close()
    copy = replica(disk)
    follow(copy)
    assert (bounds(copy), bodies(copy, "rare", 1)) == ((5, 6), [b"later"])


def test_a_copy_knows_nothing_of_the_queues_of_a_topic_that_was_made_again() -> None:
    rarely = Rarely()
    rarely.metadata.topics.delete("rare")
    rarely.store.delete_topic("rare")
    rarely.metadata.topics.put(TopicConfig("rare", 2, 2))
    rarely.sends(0)
    copy = rarely.copy(SimDisk())
    Metadata.read(StoreLog(copy, FakeClock(), host=HOST), FakeClock())
    assert bounds(copy) == bounds(rarely.store) == (0, 0)


def test_queues_that_are_derived_anew_go_on_with_their_numbers(tmp_path: Path) -> None:
    rarely, disk = Rarely(), SimDisk()
    copy = rarely.copy(disk)
    settle(copy)
    copy.close()
    disk.unlink(f"{ROOT}/queues")
    copy = replica(disk)
    assert copy.recovery.derived != "whole"
    follow(copy)
    assert bounds(copy) == (5, 5)


def test_a_copy_goes_on_with_a_queues_numbers_when_what_began_it_anew_is_cut() -> None:
    """Its topic was deleted and made again, and got a message; a start later none of that comes to be committed."""
    rarely, disk = Rarely(), SimDisk()
    copy = rarely.copy(disk)
    committed = copy.committed_position
    rarely.metadata.topics.delete("rare")
    rarely.store.delete_topic("rare")
    rarely.metadata.topics.put(TopicConfig("rare", 2, 2))
    append(rarely.store, "rare", 1, body=b"of another life")
    flush(rarely.store)
    ship(rarely.store, copy, committed=False)
    copy.close()
    copy = replica(disk)
    assert (copy.committed_position, copy.end_position) == (committed, rarely.store.end_position)
    metadata = follow(copy)
    copy.truncate(committed)
    metadata.cut(committed)
    metadata.promote(9)
    assert bounds(copy) == (5, 5)


def test_sends_find_the_queue_that_a_cut_brought_back(tmp_path: Path) -> None:
    """A topic is deleted and made again the same, nothing of it is committed, and this replica leads once more."""
    clock = FakeClock()
    store = MessageStore.open(tmp_path, replace(OPTIONS, replicated=True), OsFiles(), clock=clock)
    metadata = Metadata.follow(StoreLog(store, clock, host=HOST), clock, committed=store.committed_position)
    targets = Targets(metadata, store, auto_create=False)

    def send() -> int:
        target = targets.get("orders") or targets.resolve("orders", default_topic="", default_queues=1)
        queue = target.queue(0)
        return store.append(queue, b"m", b"", born_timestamp=0, born_host=HOST, store_timestamp=0)[0]

    metadata.promote(1)
    metadata.topics.put(TopicConfig("orders"))
    assert send() == 0
    end_pass(store, metadata)
    committed = store.committed_position
    metadata.topics.delete("orders")
    store.delete_topic("orders")
    metadata.topics.put(TopicConfig("orders"))
    assert send() == 0
    metadata.demote()
    store.truncate(committed)
    metadata.cut(committed)
    metadata.promote(3)
    assert send() == 1
    store.close()


def test_a_deletion_that_is_not_committed_takes_no_messages_of_a_topic_that_was_made_again() -> None:
    """Its first deletion is committed, its second one is not, and who ordered that leads no more."""
    disk = SimDisk()
    store = replica(disk)
    metadata = follow(store)
    metadata.promote(1)
    for _ in range(2):
        metadata.topics.put(TopicConfig("orders"))
        append(store, "orders", body=b"m")
        metadata.topics.delete("orders")
        store.delete_topic("orders")
    metadata.topics.put(TopicConfig("orders"))
    append(store, "orders", body=b"kept")
    metadata.request_snapshot()
    while not metadata.pinned_position:
        end_pass(store, metadata)
    settle(store)
    committed = store.committed_position
    metadata.topics.delete("orders")
    store.delete_topic("orders")
    metadata.demote()
    settle(store)
    store.truncate(committed)
    metadata.cut(committed)
    assert bodies(store, "orders") == [b"kept"]
    flush(store)
    store.close()
    store = replica(disk)
    assert bodies(store, "orders") == [b"kept"]
    assert store.recovery.derived == "whole"


@pytest.mark.parametrize("kind", [StoreFull, StoreStopped, RecordTooLarge])
def test_a_store_that_takes_nothing_refuses_by_the_metadata_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[StoreError]
) -> None:
    store, metadata = opened(tmp_path)

    def refuse(*_: object, **options: object) -> None:
        assert options["reserve"] is True
        raise kind("no byte more")

    monkeypatch.setattr(MessageStore, "append", refuse)
    with pytest.raises(MetadataRefusedError, match="no byte more"):
        metadata.topics.put(TopicConfig("orders"))
    store.close()


def test_a_damaged_record_of_metadata_is_named_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, metadata = opened(tmp_path)
    metadata.topics.put(TopicConfig("orders"))
    end_pass(store, metadata)
    log, queue = StoreLog(store, FakeClock(), host=HOST), store.queue(METADATA_TOPIC, CHANGES)
    unit = store.unit(queue, 1)
    assert unit is not None
    position, size, _ = unit
    segment = store._log.segment_of(position)
    assert segment is not None
    with Path(segment.path).open("r+b") as file:
        file.seek(position - segment.start + size - 60)
        file.write(b"?")
    with pytest.raises(StoreDamaged, match=r"metadata record 1 is damaged: .*logherd store repair") as damage:
        list(log.read(CHANGES, 0, log.end_position))
    assert (damage.value.path, damage.value.offset) == (segment.path, position - segment.start)
    monkeypatch.setattr(MessageStore, "uncommitted", lambda *_: [(position, bytes(size))])
    metadata.topics.put(TopicConfig("more"))
    with pytest.raises(StoreDamaged, match="a metadata record is damaged"):
        list(log.read(CHANGES, 2, log.end_position))
    store.close()


def churn(directory: Path, *, commits: int, topics: int, per_pass: int, options: MetadataOptions) -> tuple[int, int]:
    """Commit offsets over many topics; returns (bytes written, bytes of log above the pinned position)."""
    store, metadata = opened(directory, options)
    for number in range(topics):
        metadata.topics.put(TopicConfig(f"topic-{number}", 4, 4))
        if not number % 500:
            end_pass(store, metadata)
    for number in range(commits):
        metadata.offsets.commit(f"group-{number % 10}", f"topic-{number * 7919 % topics}", number % 4, number)
        if not number % per_pass:
            metadata.end_pass()
        # One flush serves many passes here, or the disk would be all that is measured.
        if not number % 500:
            end_pass(store, metadata)
    end_pass(store, metadata)
    written, pinned = store.end_position, metadata.pinned_position
    store.close()
    return written, written - pinned


def started(directory: Path, topics: int) -> tuple[float, int]:
    """(seconds of processor time that opening took, change records that it had to read)."""
    start = process_time()
    store, metadata = opened(directory)
    elapsed = process_time() - start
    assert len(metadata.topics) == topics
    read = store.queue(METADATA_TOPIC, 0).max_offset
    store.close()
    return elapsed, read


def test_what_retention_must_keep_does_not_grow_with_history(tmp_path: Path) -> None:
    options = MetadataOptions(change_bytes=100_000)
    _, kept_early = churn(tmp_path / "short", commits=2_000, topics=300, per_pass=10, options=options)
    written, kept = churn(tmp_path / "long", commits=20_000, topics=300, per_pass=10, options=options)
    assert written > 1_300_000
    assert kept < 3 * max(kept_early, 200_000)
    assert kept < written / 3


@pytest.mark.timeout(300)
@pytest.mark.parametrize("commits", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_commits_over_ten_thousand_topics_start_within_five_seconds_on_bounded_disk(
    tmp_path: Path, commits: int
) -> None:
    written, kept = churn(tmp_path, commits=commits, topics=10_000, per_pass=1, options=MetadataOptions())
    assert written > 200 * commits
    assert kept < 32 << 20
    elapsed, _ = started(tmp_path, 10_000)
    assert elapsed < 5, (elapsed, written, kept)


def test_a_snapshot_behind_retention_needs_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written at the end of a pass of the loop, where whatever is raised ends the broker."""
    options = small_options(log={"foreign_record_bytes_max": 0}, retention={"bytes_max": 1})
    store = MessageStore.open(tmp_path, options, OsFiles(), clock=SimClock())
    metadata = Metadata.open(StoreLog(store, SimClock(), host=HOST), SimClock())
    for number in range(60):
        metadata.topics.put(TopicConfig("rare", number + 1, number + 1))
        end_pass(store, metadata)
    metadata.request_snapshot()
    while metadata.pinned_position < 8192:
        end_pass(store, metadata)
    settle(store)
    assert store.apply_retention(0, metadata.pinned_position)
    append(store)
    number = store.queue(METADATA_TOPIC, 1).next_offset
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", none_left)
        append(store, body=bytes(1500))
        metadata.request_snapshot()
        while metadata.unfinished or store.queue(METADATA_TOPIC, 1).next_offset == number:
            metadata.end_pass()
    flush(store)
    assert metadata.pinned_position > 8192
    assert store.queue(METADATA_TOPIC, 1).next_offset > number + 2
    store.close()


class Followed:
    """A leader and a replica that follows it, each with a log whose beginning retention has deleted."""

    def __init__(self) -> None:
        self.store, self.copy = replica(SimDisk()), replica(SimDisk())
        self.leader, self.follower = follow(self.store), follow(self.copy)
        self.told: list[str] = []
        self.follower.on_topic_change.append(lambda change: self.told.append(change.name))
        self.leader.promote(1)
        for name in ("busy", "gone"):
            self.leader.topics.put(TopicConfig(name, 1, 1))
        while not self.copy.min_position:
            append(self.store, "busy", body=b"x" * 300)
            append(self.store, "gone", body=b"x")
            self.go_on()
        self.told.clear()

    def go_on(self) -> None:
        end_pass(self.store, self.leader)
        self.ship()
        for store, metadata in ((self.store, self.leader), (self.copy, self.follower)):
            settle(store)
            store.apply_retention(10**9, metadata.pinned_position)

    def ship(self) -> None:
        ship(self.store, self.copy)
        self.follower.advance(self.copy.committed_position)


@pytest.mark.parametrize("errno", [EMFILE, ENFILE, ENOMEM])
def test_a_follower_without_a_descriptor_takes_changes_once_there_is_one(
    monkeypatch: pytest.MonkeyPatch, errno: int
) -> None:
    """Where the queue of changes begins since a retention is looked up in its files."""
    group = Followed()
    group.leader.topics.put(TopicConfig("new", 1, 1))
    group.leader.topics.delete("gone")
    group.store.delete_topic("gone")
    end_pass(group.store, group.leader)

    def lacking(*_: object) -> bytes:
        raise OSError(errno, os.strerror(errno))

    with monkeypatch.context() as patch:
        patch.setattr(UnitReader, "read_units", lacking)
        group.ship()
        assert group.follower.is_late
        assert group.follower.pinned_position == 0, "what is to be read stays"
    group.follower.advance(group.copy.committed_position)
    assert not group.follower.is_late
    assert group.follower.pinned_position > 0
    assert group.follower.topics.get("new") == TopicConfig("new", 1, 1)
    assert group.told == ["new", "gone"]
    assert not group.copy.queues_of("gone")


def test_a_follower_without_a_descriptor_empties_queues_of_a_deleted_topic_once_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Followed()
    group.leader.topics.delete("gone")
    group.store.delete_topic("gone")
    end_pass(group.store, group.leader)
    with monkeypatch.context() as patch:
        patch.setattr(QueueTable, "ends_below", none_left)
        group.ship()
        assert group.told == ["gone"]
        assert group.follower.is_late
        group.follower.advance(group.copy.committed_position)
        assert group.follower.is_late
    assert group.copy.queues_of("gone")
    group.follower.advance(group.copy.committed_position)
    assert not group.copy.queues_of("gone")
    assert not group.follower.is_late
    assert group.told == ["gone"]


def test_a_follower_whose_disk_fails_as_it_reads_a_change_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Followed()
    group.leader.topics.delete("gone")
    end_pass(group.store, group.leader)

    def failing(*_: object) -> bytes:
        raise OSError(EIO, os.strerror(EIO))

    monkeypatch.setattr(UnitReader, "read_units", failing)
    with pytest.raises(OSError, match=os.strerror(EIO)):
        group.ship()


@pytest.mark.parametrize("errno", [EMFILE, ENFILE, ENOMEM])
def test_a_replica_without_a_descriptor_does_not_lead_and_does_once_there_is_one(
    monkeypatch: pytest.MonkeyPatch, errno: int
) -> None:
    group = Followed()
    group.leader.topics.put(TopicConfig("new", 1, 1))
    end_pass(group.store, group.leader)
    ship(group.store, group.copy, committed=False)
    follower, end = group.follower, group.copy.end_position

    def lacking(*_: object) -> bytes:
        raise OSError(errno, os.strerror(errno))

    with monkeypatch.context() as patch:
        patch.setattr(UnitReader, "read_units", lacking)
        with pytest.raises(MetadataRefusedError, match=f"cannot be read now: .*{os.strerror(errno)}"):
            follower.promote(2)
        assert (follower.leading, follower.is_late, group.copy.end_position) == (False, True, end)
        assert follower.pinned_position == 0, "what is to be read stays"
        follower.advance(group.copy.committed_position)
        assert follower.is_late, "it could still not lead"
    follower.advance(group.copy.committed_position)
    assert not follower.is_late
    assert follower.topics.get("new") is None, "it is not committed"
    follower.promote(2)
    assert (follower.leading, follower.epoch) == (True, 2)
    assert follower.topics.get("new") is not None


def test_a_replica_without_a_descriptor_as_it_ends_to_lead_forgets_what_was_cut_once_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the log holds by then, another leader's records perhaps, and as many of them."""
    group = Followed()
    leader, at = group.leader, group.store.end_position
    leader.topics.put(TopicConfig("never", 1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(UnitReader, "read_units", none_left)
        leader.demote()
        assert (leader.leading, leader.is_late, leader.pinned_position) == (False, True, 0)
        group.store.truncate(at)
        leader.cut(at)
        with pytest.raises(MetadataRefusedError):
            leader.promote(2)
    group.follower.promote(2)
    group.follower.topics.put(TopicConfig("later", 1, 1))
    end_pass(group.copy, group.follower)
    ship(group.copy, group.store)
    leader.advance(group.store.committed_position)
    assert not leader.is_late
    assert sorted(topic.name for topic in leader.topics) == ["busy", "gone", "later"]
    assert leader.epoch == 2
    leader.promote(3)
    assert leader.leading


def test_who_leads_again_after_it_had_no_descriptor_begins_with_what_the_log_holds_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Followed()
    leader, at = group.leader, group.store.end_position
    leader.topics.put(TopicConfig("never", 1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(UnitReader, "read_units", none_left)
        leader.demote()
    group.store.truncate(at)
    leader.promote(2)
    assert sorted(topic.name for topic in leader.topics) == ["busy", "gone"]


def test_a_replica_whose_disk_fails_as_it_is_to_lead_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Followed()

    def failing(*_: object) -> bytes:
        raise OSError(EIO, os.strerror(EIO))

    monkeypatch.setattr(UnitReader, "read_units", failing)
    with pytest.raises(OSError, match=os.strerror(EIO)):
        group.follower.promote(2)
