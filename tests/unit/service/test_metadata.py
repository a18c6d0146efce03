"""logherd.service.metadata over a log in memory; over a real store see test_metadata_store.py."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.metadata import (
    DefaultsOptions,
    Metadata,
    MetadataDamagedError,
    MetadataOptions,
    MetadataRefusedError,
    TopicChange,
    contents,
    ensure_defaults,
)
from logherd.service.metadata.changes import FORMAT, Barrier, encode
from logherd.service.metadata.tables import DELETIONS_KEPT
from unit.service.fixed_clock import FixedClock
from unit.service.memory_log import MemoryLog

SMALL = MetadataOptions(change_bytes=4096, log_bytes=1 << 40)


def opened(log: MemoryLog, options: MetadataOptions = SMALL) -> Metadata:
    return Metadata.open(log, FixedClock(), options)


def pass_ends(metadata: Metadata, log: MemoryLog) -> None:
    metadata.end_pass()
    log.commit()


def state_of(metadata: Metadata) -> dict[str, object]:
    return {
        "topics": {config.name: config for config in metadata.topics},
        "deleted": dict(metadata.topics.deleted),
        "groups": {config.name: config for config in metadata.groups},
        "offsets": {(g, t, q): o for g, t, queues in metadata.offsets for q, o in queues.items()},
        "resets": {(g, t, q): o for g, t, queues in metadata.offsets.resets() for q, o in queues.items()},
        "owners": {group: dict(owners) for group, owners in metadata.owners},
        "counters": (metadata.version.counter, metadata.groups.version.counter),
    }


def test_state_is_rebuilt_after_a_restart() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.topics.put(TopicConfig("orders", 4, 8, 6, 1, order=True, attributes={"message.type": "FIFO"}))
    metadata.topics.put(TopicConfig("gone"))
    metadata.groups.put(GroupConfig("billing", retries_max=3, attributes={"a": "b"}))
    metadata.offsets.commit("billing", "orders", 3, 17)
    metadata.offsets.commit("billing", "gone", 0, 5)
    metadata.flush_pending()
    metadata.offsets.reset("billing", "orders", {1: 9})
    metadata.topics.delete("gone")
    log.commit()
    before = state_of(metadata)
    assert before["offsets"] == {("billing", "orders", 3): 17, ("billing", "orders", 1): 9}
    assert before["resets"] == {("billing", "orders", 1): 9}
    assert state_of(opened(log)) == before


def test_every_start_begins_the_next_epoch_with_a_barrier_at_its_position() -> None:
    log = MemoryLog()
    assert opened(log).epoch == 1
    log.commit()
    second = opened(log)
    log.commit()
    assert second.epoch == 2
    third = opened(log)
    assert [epoch for epoch, _ in third.epochs] == [1, 2, 3]
    assert third.epochs[-1][1] == log.entries[0][-1].position
    assert third.version.state_version == 3


def test_a_barrier_that_was_not_flushed_does_not_count() -> None:
    log = MemoryLog()
    opened(log)
    log.crash()
    assert opened(log).epoch == 1


def test_commits_of_one_pass_are_one_record_and_unchanged_ones_none() -> None:
    log = MemoryLog()
    metadata = opened(log)
    records = len(log.entries[0])
    for queue_id in range(8):
        metadata.offsets.commit("g", "t", queue_id, 100)
        metadata.offsets.commit("g", "u", queue_id, 100)
        metadata.offsets.commit("g", "t", queue_id, 101)
    metadata.end_pass()
    assert len(log.entries[0]) == records + 1
    metadata.offsets.commit("g", "t", 0, 101)
    metadata.end_pass()
    assert len(log.entries[0]) == records + 1


def test_a_huge_pass_is_cut_into_records_the_log_can_take() -> None:
    log = MemoryLog()
    metadata = opened(log)
    for topic in range(300):
        for queue_id in range(100):
            metadata.offsets.commit("g" * 200, f"{topic}" + "t" * 100, queue_id, 1 << 60)
    for group in range(2000):
        metadata.offsets.commit("g" * 250 + f"{group}", "t", 0, 1)
    metadata.flush_pending()
    log.commit()
    assert max(len(entry.body) for entry in log.entries[0]) < 100_000
    assert state_of(opened(log)) == state_of(metadata)


def test_the_position_returned_covers_the_change() -> None:
    log = MemoryLog()
    metadata = opened(log)
    assert metadata.topics.put(TopicConfig("t")) == log.end_position
    unchanged = metadata.topics.put(TopicConfig("t"))
    assert unchanged == log.end_position == metadata.position
    metadata.offsets.commit("g", "t", 0, 1)
    assert metadata.flush_pending() == log.end_position


@pytest.mark.parametrize(
    "repeat",
    [
        lambda m: m.topics.put(TopicConfig("t")),
        lambda m: m.topics.delete("gone"),
        lambda m: m.groups.put(GroupConfig("g")),
        lambda m: m.groups.delete("gone", clean_offsets=True),
    ],
)
def test_what_is_so_already_is_not_logged_again_and_answered_no_sooner_than_the_change(
    repeat: Callable[[Metadata], int],
) -> None:
    """Whoever repeats an order that was not answered hears of success once the first one is committed."""
    log = MemoryLog()
    metadata = opened(log)
    for name in ("t", "gone"):
        metadata.topics.put(TopicConfig(name))
    for name in ("g", "gone"):
        metadata.groups.put(GroupConfig(name))
    metadata.topics.delete("gone")
    metadata.groups.delete("gone", clean_offsets=True)
    end = log.end_position
    assert repeat(metadata) == end == log.end_position > log.committed_position


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.topics.put(TopicConfig("new")),
        lambda m: m.topics.delete("old"),
        lambda m: m.groups.put(GroupConfig("new")),
        lambda m: m.groups.delete("old", clean_offsets=True),
        lambda m: m.offsets.reset("old", "old", {0: 1}),
        lambda m: m.offsets.take_reset("old", "old", 1),
    ],
)
def test_what_the_log_refuses_is_not_in_memory_either(change: Callable[[Metadata], object]) -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.topics.put(TopicConfig("old"))
    metadata.groups.put(GroupConfig("old"))
    metadata.offsets.commit("old", "old", 0, 5)
    metadata.offsets.reset("old", "old", {1: 2})
    before = state_of(metadata)
    log.full = True
    with pytest.raises(MetadataRefusedError):
        change(metadata)
    assert state_of(metadata) == before


def test_commits_wait_for_space_and_are_written_then() -> None:
    log = MemoryLog()
    metadata = opened(log)
    log.full = True
    metadata.offsets.commit("g", "t", 0, 7)
    metadata.end_pass()
    assert log.end_position == log.entries[0][-1].end
    log.full = False
    pass_ends(metadata, log)
    assert opened(log).offsets.get("g", "t", 0) == 7


@pytest.mark.parametrize("deleted", ["group", "topic"])
def test_nothing_that_is_not_written_yet_outlives_the_deletion_of_its_group_or_topic(deleted: str) -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.topics.put(TopicConfig("t"))
    metadata.groups.put(GroupConfig("g"))
    metadata.offsets.reset("g", "t", {1: 10})
    metadata.offsets.commit("g", "t", 0, 7)
    if deleted == "group":
        metadata.groups.delete("g", clean_offsets=True)
    else:
        metadata.topics.delete("t")
    pass_ends(metadata, log)
    for each in (metadata, opened(log)):
        assert each.offsets.get("g", "t", 0) is None
        assert each.offsets.pending_reset("g", "t", 1) is None


def test_the_offsets_of_a_group_that_is_deleted_stay_until_they_are_to_go_too() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.groups.put(GroupConfig("g"))
    metadata.offsets.commit("g", "t", 0, 7)
    metadata.flush_pending()
    for clean, left in ((False, 7), (True, None)):
        metadata.groups.delete("g", clean_offsets=clean)
        pass_ends(metadata, log)
        for each in (metadata, opened(log)):
            assert (each.groups.get("g"), each.offsets.get("g", "t", 0)) == (None, left)


def test_a_pending_reset_refuses_commits_until_it_was_told() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.offsets.commit("g", "t", 0, 50)
    metadata.offsets.reset("g", "t", {0: 10})
    assert not metadata.offsets.commit("g", "t", 0, 60)
    assert metadata.offsets.commit("g", "t", 1, 60)
    assert metadata.offsets.pending_reset("g", "t", 0) == 10
    metadata.offsets.take_reset("g", "t", 0)
    assert metadata.offsets.pending_reset("g", "t", 0) is None
    assert metadata.offsets.get("g", "t", 0) == 10
    assert metadata.offsets.commit("g", "t", 0, 11)
    pass_ends(metadata, log)
    assert state_of(opened(log)) == state_of(metadata)


def test_a_deletion_is_remembered_with_its_position_until_the_log_begins_above_it() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.topics.put(TopicConfig("orders"))
    position = metadata.topics.delete("orders")
    metadata.topics.put(TopicConfig("orders"))
    metadata.request_snapshot()
    for _ in range(5):
        pass_ends(metadata, log)
    log.cut_below(metadata.pinned_position)
    rebuilt = opened(log)
    assert rebuilt.topics.deleted == {"orders": position}
    assert "orders" in rebuilt.topics
    for number in reversed(range(DELETIONS_KEPT)):  # not in the order of their names
        rebuilt.topics.put(TopicConfig(f"a{number:04}"))
        last = rebuilt.topics.delete(f"a{number:04}")
    rebuilt.topics.forget_deletions(position - 1)
    assert len(rebuilt.topics.deleted) == DELETIONS_KEPT + 1
    rebuilt.topics.forget_deletions(position)  # other replicas may still hold what it was about
    assert rebuilt.topics.deleted["orders"] == position
    rebuilt.topics.forget_deletions(last)
    assert "orders" not in rebuilt.topics.deleted
    assert len(rebuilt.topics.deleted) == DELETIONS_KEPT


def test_hooks_hear_each_topic_change_once_with_its_position() -> None:
    log = MemoryLog()
    metadata = opened(log)
    heard: list[TopicChange] = []
    metadata.on_topic_change.append(heard.append)
    config = TopicConfig("t")
    first = metadata.topics.put(config)
    metadata.topics.put(config)
    second = metadata.topics.delete("t")
    metadata.topics.delete("t")
    assert heard == [TopicChange("t", config, first), TopicChange("t", None, second)]
    assert metadata.version.counter == 2


def test_defaults_exist_at_the_first_start_and_changes_to_them_stay() -> None:
    log = MemoryLog()
    metadata = opened(log)
    assert metadata.is_new
    options = DefaultsOptions("Red", "red-a", auto_create_queues=8)
    ensure_defaults(metadata, options)
    names = {config.name: (config.queues, config.permission) for config in metadata.topics}
    assert names == {
        "SELF_TEST_TOPIC": (1, 6), "BenchmarkTest": (1024, 6), "Red": (16, 7), "red-a": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6), "Red_REPLY_TOPIC": (1, 6), "TBW102": (8, 7),
    }  # fmt: skip
    assert {"TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS"} < {config.name for config in metadata.groups}
    metadata.topics.put(TopicConfig("TBW102", 2, 2, 6))
    log.commit()
    again = opened(log)
    ensure_defaults(again, options)
    assert again.topics.get("TBW102") == TopicConfig("TBW102", 2, 2, 6)
    assert not again.is_new


# ---- snapshots


def churn(metadata: Metadata, log: MemoryLog, passes: int) -> None:
    for number in range(passes):
        metadata.offsets.commit(f"g{number % 7}", f"t{number % 5}", number % 3, number)
        pass_ends(metadata, log)


def test_a_snapshot_follows_enough_changes_and_start_reads_only_what_is_after_it() -> None:
    log = MemoryLog()
    metadata = opened(log)
    churn(metadata, log, 2000)
    changes_read: list[int] = []
    read = log.read

    def counting(queue_id: int, queue_offset: int, below: int):  # type: ignore[no-untyped-def]
        for entry in read(queue_id, queue_offset, below):
            if queue_id == 0:
                changes_read.append(entry.queue_offset)
            yield entry

    log.read = counting  # type: ignore[method-assign]
    assert state_of(opened(log)) == state_of(metadata)
    assert len(changes_read) < 100


def test_retention_below_the_pinned_position_loses_nothing() -> None:
    log = MemoryLog()
    metadata = opened(log)
    assert metadata.pinned_position == 0
    metadata.topics.put(TopicConfig("kept"))
    churn(metadata, log, 500)
    assert metadata.pinned_position > 0
    log.cut_below(metadata.pinned_position)
    assert log.bounds(0)[0] > 300
    assert state_of(opened(log)) == state_of(metadata)


def test_a_snapshot_pins_only_once_its_end_is_committed() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.topics.put(TopicConfig("t"))
    metadata.request_snapshot()
    for _ in range(5):
        metadata.end_pass()
    assert metadata.pinned_position == 0
    log.commit()
    assert metadata.pinned_position == log.entries[1][0].position


def test_a_request_for_a_snapshot_is_served_once_while_nothing_is_written() -> None:
    log = MemoryLog()
    metadata = opened(log)
    for _ in range(20):
        metadata.request_snapshot()
        pass_ends(metadata, log)
    assert len(log.entries[1]) == 3


def test_a_log_cut_above_its_snapshot_is_refused_by_name() -> None:
    log = MemoryLog()
    metadata = opened(log)
    churn(metadata, log, 300)
    log.cut_below(log.end_position)
    for start in (opened, lambda log: Metadata.read(log, FixedClock())):
        with pytest.raises(MetadataDamagedError, match="are gone, and no snapshot covers them"):
            start(log)


def test_a_snapshot_that_differs_from_its_digest_is_refused() -> None:
    log = MemoryLog()
    metadata = opened(log)
    metadata.topics.put(TopicConfig("orders"))
    metadata.request_snapshot()
    for _ in range(3):
        pass_ends(metadata, log)
    part = log.entries[1][1]
    log.entries[1][1] = part._replace(body=part.body.replace(b"orders", b"others"))
    with pytest.raises(MetadataDamagedError, match="differs from the digest"):
        opened(log)


def test_a_record_of_a_newer_format_is_refused_with_its_number() -> None:
    log = MemoryLog()
    opened(log)
    log.append(0, b'["quota","t",5]')
    log.commit()
    with pytest.raises(MetadataDamagedError, match="metadata record 1 "):
        opened(log)


def test_an_epoch_of_a_newer_format_is_refused_with_its_number() -> None:
    log = MemoryLog()
    opened(log)
    log.append(0, encode(Barrier(7, log.end_position, 0, format=FORMAT + 1)))
    log.commit()
    with pytest.raises(MetadataDamagedError, match="epoch 7 has metadata format 2, this reads 1"):
        opened(log)


def test_of_all_epochs_the_newest_few_thousand_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_EPOCHS_KEPT", 3)
    log = MemoryLog()
    for _ in range(5):
        metadata = opened(log)
        log.commit()
    assert [epoch for epoch, _ in metadata.epochs] == [3, 4, 5]


def test_a_snapshot_interrupted_by_a_full_disk_goes_on_where_it_stopped() -> None:
    log = MemoryLog()
    metadata = opened(log)
    for number in range(1200):
        metadata.offsets.commit("g", f"t{number}", 0, number)
    metadata.request_snapshot()
    for _ in range(20):
        metadata.end_pass()
        log.full = not log.full
    log.full = False
    log.commit()
    assert metadata.pinned_position > 0
    assert len(log.entries[1]) == 5
    assert state_of(opened(log)) == state_of(metadata)


# ---- any history, any crash

NAMES = st.sampled_from(["a", "b", "c"])
QUEUES = st.integers(0, 2)
STEPS = st.one_of(
    st.tuples(st.just("topic"), NAMES, st.integers(1, 9)),
    st.tuples(st.just("drop topic"), NAMES),
    st.tuples(st.just("group"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("drop group"), NAMES, st.booleans()),
    st.tuples(st.just("offset"), NAMES, NAMES, QUEUES, st.integers(0, 99)),
    st.tuples(st.just("reset"), NAMES, NAMES, QUEUES, st.integers(0, 99)),
    st.tuples(st.just("told"), NAMES, NAMES, QUEUES),
    st.tuples(st.just("pass")),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("retention")),
    st.tuples(st.just("commit")),
)


def act(metadata: Metadata, log: MemoryLog, step: tuple[object, ...]) -> None:  # noqa: C901 - one arm per step
    match step:
        case ("topic", str(name), int(queues)):
            metadata.topics.put(TopicConfig(name, queues, queues))
        case ("drop topic", str(name)):
            metadata.topics.delete(name)
        case ("group", str(name), int(retries)):
            metadata.groups.put(GroupConfig(name, retries_max=retries))
        case ("drop group", str(name), bool(clean)):
            metadata.groups.delete(name, clean_offsets=clean)
        case ("offset", str(group), str(topic), int(queue), int(offset)):
            metadata.offsets.commit(group, topic, queue, offset)
        case ("reset", str(group), str(topic), int(queue), int(offset)):
            metadata.offsets.reset(group, topic, {queue: offset})
        case ("told", str(group), str(topic), int(queue)):
            if metadata.offsets.pending_reset(group, topic, queue) is not None:
                metadata.offsets.take_reset(group, topic, queue)
        case ("pass",):
            metadata.end_pass()
        case ("snapshot",):
            metadata.request_snapshot()
        case ("retention",):
            log.cut_below(metadata.pinned_position)
        case ("commit",):
            metadata.flush_pending()
            log.commit()


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_after_any_history_a_crash_leaves_exactly_what_was_committed(steps: list[tuple[object, ...]]) -> None:
    log = MemoryLog()
    metadata = opened(log, MetadataOptions(change_bytes=600, log_bytes=1 << 40))
    log.commit()
    committed = state_of(metadata)
    for step in steps:
        act(metadata, log, step)
        if step[0] == "commit":
            committed = state_of(metadata)
    log.crash()
    rebuilt = opened(log)
    assert state_of(rebuilt) == committed
