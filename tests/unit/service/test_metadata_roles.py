"""Metadata of a replica over a log in memory: following, being promoted and demoted, logs that begin in the middle."""

from collections.abc import Callable

import pytest

from logherd.kit.errors import InvariantError
from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.metadata import (
    CHANGES,
    SNAPSHOTS,
    DefaultsOptions,
    Metadata,
    MetadataDamagedError,
    MetadataOptions,
    MetadataRefusedError,
    NotLeading,
    TopicChange,
    barriers,
    contents,
    ensure_defaults,
)
from unit.service.fixed_clock import FixedClock
from unit.service.memory_log import MemoryLog
from unit.service.test_metadata import state_of

NEVER = MetadataOptions(change_bytes=1 << 40, log_bytes=1 << 40)


def followed(log: MemoryLog, committed: int | None = None) -> Metadata:
    position = log.committed_position if committed is None else committed
    return Metadata.follow(log, FixedClock(), committed=position, options=NEVER)


def led(log: MemoryLog, epoch: int = 1) -> Metadata:
    """A leader whose barrier, topic, group and offset are committed."""
    metadata = followed(log)
    metadata.promote(epoch)
    metadata.topics.put(TopicConfig("old"))
    metadata.groups.put(GroupConfig("g"))
    metadata.offsets.commit("g", "old", 0, 5)
    metadata.offsets.reset("g", "old", {1: 2})
    log.commit()
    return metadata


def shipped(source: MemoryLog, position: int | None = None) -> MemoryLog:
    """A log of another replica that has the same records up to a position, none of them committed."""
    log = MemoryLog()
    end = source.end_position if position is None else position
    ship(source, log, end)
    return log


def ship(source: MemoryLog, log: MemoryLog, end: int) -> None:
    for queue_id, entries in source.entries.items():
        log.entries[queue_id] = [entry for entry in entries if entry.end <= end]
        log.first[queue_id] = source.first[queue_id]
    log.end_position = end


def commit(metadata: Metadata, log: MemoryLog, position: int) -> None:
    log.committed_position = position
    metadata.advance(position)


CHANGING: list[Callable[[Metadata], object]] = [
    lambda m: m.topics.put(TopicConfig("new")),
    lambda m: m.topics.put(TopicConfig("old")),
    lambda m: m.topics.delete("old"),
    lambda m: m.topics.delete("unknown"),
    lambda m: m.groups.put(GroupConfig("new")),
    lambda m: m.groups.delete("g", clean_offsets=True),
    lambda m: m.offsets.commit("g", "old", 0, 6),
    lambda m: m.offsets.reset("g", "old", {0: 1}),
    lambda m: m.offsets.take_reset("g", "old", 1),
    lambda m: m.owners.take("g", "c", []),
    lambda m: ensure_defaults(m, DefaultsOptions("Red", "red-a")),
]


@pytest.mark.parametrize("change", CHANGING)
def test_who_does_not_lead_changes_nothing(change: Callable[[Metadata], object]) -> None:
    log = MemoryLog()
    led(log)
    for metadata in (followed(log), Metadata.read(log, FixedClock())):
        before, end = state_of(metadata), log.end_position
        with pytest.raises(NotLeading, match="does not lead"):
            change(metadata)
        metadata.request_snapshot()
        metadata.end_pass()
        assert metadata.flush_pending() == metadata.position
        assert (state_of(metadata), log.end_position, metadata.leading) == (before, end, False)


@pytest.mark.parametrize("change", CHANGING)
def test_who_led_changes_nothing_any_more(change: Callable[[Metadata], object]) -> None:
    log = MemoryLog()
    metadata = led(log)
    metadata.demote()
    with pytest.raises(NotLeading):
        change(metadata)


def test_a_follower_has_what_is_committed_and_takes_the_rest_as_it_is_committed() -> None:
    log = MemoryLog()
    leader = led(log)
    old = state_of(leader)
    middle = leader.topics.put(TopicConfig("new"))
    leader.groups.put(GroupConfig("h"))
    follower = followed(log)
    assert state_of(follower) == old
    assert follower.position == log.committed_position
    commit(follower, log, middle)
    assert "new" in follower.topics
    assert "h" not in follower.groups
    assert follower.position == middle
    commit(follower, log, log.end_position)
    assert state_of(follower) == state_of(leader)
    assert (follower.version, follower.epochs) == (leader.version, leader.epochs)
    assert follower.flush_pending() == follower.position == log.end_position


def test_a_follower_takes_no_more_than_it_was_told_of() -> None:
    log = MemoryLog()
    leader = led(log)
    middle = leader.topics.put(TopicConfig("new"))
    end = leader.topics.put(TopicConfig("newer"))
    log.commit()
    follower = followed(log, committed=middle - 1)
    assert "new" not in follower.topics
    follower.advance(middle)
    assert "new" in follower.topics
    assert "newer" not in follower.topics
    follower.advance(end)
    assert "newer" in follower.topics


def test_a_commit_without_metadata_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    led(log)
    follower = followed(log)
    monkeypatch.setattr(MemoryLog, "read", None)
    log.end_position += 1_000_000
    commit(follower, log, log.end_position)


def test_a_promoted_replica_has_the_whole_log_and_its_barrier_behind_it() -> None:
    log = MemoryLog()
    leader = led(log, epoch=3)
    leader.topics.put(TopicConfig("late"))
    leader.groups.delete("g", clean_offsets=True)
    expected = state_of(leader)
    other = shipped(log)
    follower = followed(other)
    assert follower.epoch == 0
    end = other.end_position
    position = follower.promote(7, incarnation="5a")
    assert position == other.end_position == follower.position
    assert follower.flush_pending() == position, "no offset is told of before the barrier is committed"
    assert state_of(follower) == expected
    assert follower.epochs == [(3, 0), (7, end)]
    assert other.entries[CHANGES][-1].body.endswith(b',1,"5a"]')
    assert follower.version.state_version == follower.groups.version.state_version == 7
    follower.topics.put(TopicConfig("mine"))
    assert follower.version.counter == leader.version.counter + 1
    assert follower.leading


def test_defaults_can_be_completed_after_a_promotion() -> None:
    log = MemoryLog()
    metadata = followed(log)
    assert metadata.is_new
    metadata.promote(1)
    ensure_defaults(metadata, DefaultsOptions("Red", "red-a"))
    assert "TBW102" in metadata.topics


def test_an_epoch_that_is_not_later_is_never_led() -> None:
    log = MemoryLog()
    led(log, epoch=3)
    with pytest.raises(InvariantError, match="later than all"):
        followed(log).promote(3)


def test_a_leader_is_not_promoted_again() -> None:
    with pytest.raises(InvariantError, match="who leads"):
        led(MemoryLog()).promote(2)


def test_a_promotion_that_the_log_refuses_leaves_a_follower() -> None:
    log = MemoryLog()
    leader = led(log)
    before = state_of(leader)
    leader.topics.put(TopicConfig("uncommitted"))
    follower = followed(log)
    heard: list[TopicChange] = []
    follower.on_topic_change.append(heard.append)
    log.full = True
    with pytest.raises(MetadataRefusedError):
        follower.promote(2)
    assert (state_of(follower), follower.leading, follower.epoch) == (before, False, 1)
    assert [change.config is None for change in heard] == [False, True]
    log.full = False
    follower.promote(2)
    assert "uncommitted" in follower.topics


def test_a_demoted_leader_forgets_what_is_not_committed() -> None:
    log = MemoryLog()
    leader = led(log)
    before = state_of(leader)
    heard: list[TopicChange] = []
    leader.on_topic_change.append(heard.append)
    leader.topics.put(TopicConfig("new"))
    leader.topics.put(TopicConfig("old", 3, 3))
    leader.topics.delete("old")
    leader.groups.put(GroupConfig("h"))
    del heard[:]
    leader.demote()
    assert state_of(leader) == before
    assert {change.name: change.config for change in heard} == {"new": None, "old": TopicConfig("old")}
    commit(leader, log, log.end_position)
    assert "new" in leader.topics
    assert "old" not in leader.topics


def test_hooks_hear_of_a_topic_that_was_deleted_and_made_again_the_same_when_both_are_forgotten() -> None:
    log = MemoryLog()
    leader = led(log)
    heard: list[TopicChange] = []
    leader.on_topic_change.append(heard.append)
    leader.topics.delete("old")
    leader.topics.put(TopicConfig("old"))
    del heard[:]
    leader.demote()
    assert heard == [TopicChange("old", TopicConfig("old"), log.committed_position)]


def test_who_leads_again_waits_for_no_change_of_its_that_was_cut() -> None:
    log = MemoryLog()
    leader = led(log)
    assert (leader.unsettled, leader.topics.unsettled, leader.groups.unsettled) == (0, 0, 0)
    at = log.committed_position
    for number in range(9):
        leader.topics.put(TopicConfig(f"new{number}"))
        leader.groups.put(GroupConfig(f"new{number}"))
    assert leader.unsettled == leader.groups.unsettled == log.end_position > leader.topics.unsettled > at
    log.crash()
    leader.cut(at)
    leader.promote(2)
    log.commit()
    assert (leader.unsettled, leader.topics.unsettled, leader.groups.unsettled) == (0, 0, 0)


def test_a_demoted_leader_forgets_offsets_that_no_record_tells_of() -> None:
    log = MemoryLog()
    leader = led(log)
    before = state_of(leader)
    leader.offsets.commit("g", "old", 0, 99)
    leader.demote()
    assert state_of(leader) == before
    assert not leader.offsets.is_pending
    leader.promote(2)
    end = log.end_position
    leader.end_pass()
    assert log.end_position == end


def test_a_demotion_with_all_committed_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    leader = led(log)
    before = state_of(leader)
    with monkeypatch.context() as patched:
        patched.setattr(MemoryLog, "read", None)
        leader.demote()
        leader.demote()
    assert state_of(leader) == before


def test_a_cut_of_a_former_leaders_log_leaves_what_is_committed() -> None:
    for demoted_first in (True, False):
        log = MemoryLog()
        leader = led(log)
        before, at = state_of(leader), log.committed_position
        leader.topics.put(TopicConfig("new"))
        if demoted_first:
            leader.demote()
        log.crash()
        leader.cut(at)
        assert state_of(leader) == before
        assert not leader.leading
        with pytest.raises(InvariantError, match="never cut"):
            leader.cut(at - 1)


def test_hooks_of_a_follower_hear_what_is_committed_with_its_position() -> None:
    log = MemoryLog()
    leader = led(log)
    follower = followed(log)
    heard: list[TopicChange] = []
    follower.on_topic_change.append(heard.append)
    leader.topics.put(TopicConfig("a"))
    put = leader.topics.put(TopicConfig("a", 2, 2))
    deleted = leader.topics.delete("old")
    assert heard == []
    commit(follower, log, log.end_position)
    assert heard == [TopicChange("a", TopicConfig("a", 2, 2), put), TopicChange("old", None, deleted)]


def test_hooks_hear_of_each_group_that_goes_whoever_deletes_it_and_why_ever() -> None:
    log, heard = MemoryLog(), list[str]()
    leader, follower = led(log), followed(log)
    for each in (leader, follower):
        each.groups.gone_hooks.append(heard.append)
    leader.groups.delete("g", clean_offsets=True)
    assert heard == ["g"]
    commit(follower, log, log.end_position)
    assert heard == ["g", "g"]
    leader.groups.put(GroupConfig("never committed"))
    leader.groups.put(GroupConfig("g"))
    leader.demote()
    assert sorted(heard[2:]) == ["g", "never committed"]


def test_the_handle_that_every_send_asks_stays_the_same_whatever_happens() -> None:
    log = MemoryLog()
    leader = led(log)
    get, get_group = leader.topics.get, leader.groups.get
    leader.topics.put(TopicConfig("new"))
    leader.groups.put(GroupConfig("h"))
    leader.demote()
    assert get("new") is get_group("h") is None
    commit(leader, log, log.end_position)
    assert get("new") == TopicConfig("new")
    assert get_group("h") == GroupConfig("h")


def test_a_follower_tells_its_log_of_deleted_topics_once_they_are_committed() -> None:
    log = MemoryLog()
    leader = led(log)
    other = shipped(log)
    other.commit()
    follower = followed(other)
    deleted = leader.topics.delete("old")
    ship(log, other, log.end_position)
    assert other.forgotten == {}
    commit(follower, other, other.end_position)
    assert other.forgotten == {"old": deleted}
    other.forgotten.clear()
    followed(other)
    assert other.forgotten == {"old": deleted}


def test_a_promoted_replica_tells_its_log_of_deletions_that_are_not_committed() -> None:
    log = MemoryLog()
    deleted = led(log).topics.delete("old")
    other = shipped(log)
    followed(other).promote(2)
    assert other.forgotten == {"old": deleted}


# ---- snapshots


def snapshot(leader: Metadata) -> None:
    leader.request_snapshot()
    for _ in range(3):
        leader.end_pass()


def test_a_follower_is_pinned_by_the_newest_snapshot_that_is_committed() -> None:
    log = MemoryLog()
    leader = led(log)
    follower = followed(log)
    assert follower.pinned_position == 0
    snapshot(leader)
    begin, _, end = log.entries[SNAPSHOTS]
    commit(follower, log, end.end - 1)
    assert follower.pinned_position == 0
    commit(follower, log, end.end)
    assert follower.pinned_position == begin.position
    assert followed(log).pinned_position == begin.position
    leader.topics.put(TopicConfig("x" * 200, attributes={"n": "y" * 2000}))
    snapshot(leader)
    commit(follower, log, log.end_position)
    assert follower.pinned_position == log.entries[SNAPSHOTS][3].position


def test_a_snapshot_that_a_deposed_leader_did_not_end_is_passed_over() -> None:
    log = MemoryLog()
    leader = led(log)
    leader.request_snapshot()
    leader.end_pass()
    leader.end_pass()
    log.commit()
    leader.demote()
    end = log.end_position
    leader.end_pass()
    assert log.end_position == end
    follower = followed(log)
    follower.promote(2)
    snapshot(follower)
    log.commit()
    leader.advance(log.end_position)
    assert leader.pinned_position == follower.pinned_position == log.entries[SNAPSHOTS][2].position
    assert state_of(followed(log)) == state_of(follower)


def test_a_snapshot_that_was_not_committed_pins_nobody_after_a_demotion() -> None:
    log = MemoryLog()
    leader = led(log)
    at = log.committed_position
    snapshot(leader)
    leader.demote()
    log.crash()
    leader.cut(at)
    assert leader.pinned_position == 0
    leader.promote(2)
    snapshot(leader)
    log.commit()
    assert leader.pinned_position == log.entries[SNAPSHOTS][0].position


def test_a_follower_notices_a_snapshot_that_differs_from_its_digest() -> None:
    log = MemoryLog()
    leader = led(log)
    follower = followed(log)
    snapshot(leader)
    part = log.entries[SNAPSHOTS][1]
    log.entries[SNAPSHOTS][1] = part._replace(body=part.body.replace(b"old", b"odd"))
    with pytest.raises(MetadataDamagedError, match="differs from the digest"):
        commit(follower, log, log.end_position)


# ---- a log that begins in the middle


def begun(source: MemoryLog, at: int) -> MemoryLog:
    """The log of a replica that has given up its own, to receive another's from there on."""
    log = MemoryLog()
    log.start_epoch = 1
    log.end_position = log.committed_position = at
    log.first = {
        queue_id: sum(entry.position < at for entry in entries) for queue_id, entries in source.entries.items()
    }
    return log


def receive(source: MemoryLog, log: MemoryLog, end: int) -> None:
    for queue_id, entries in source.entries.items():
        log.entries[queue_id] = [entry for entry in entries[log.first[queue_id] :] if entry.end <= end]
    log.end_position = end


def test_nothing_is_known_until_a_snapshot_was_committed() -> None:
    log = MemoryLog()
    leader = led(log)
    at = log.end_position
    leader.topics.put(TopicConfig("between"))
    snapshot(leader)
    snapshot_end = log.end_position
    leader.topics.put(TopicConfig("after"))
    other = begun(log, at)
    follower = followed(other)
    for position in (at, snapshot_end - 1):
        receive(log, other, log.end_position)
        commit(follower, other, position)
        assert not follower.is_whole
        assert (len(follower.topics), follower.epoch, follower.pinned_position) == (0, 0, 0)
    commit(follower, other, snapshot_end)
    assert follower.is_whole
    assert "after" not in follower.topics
    commit(follower, other, other.end_position)
    assert state_of(follower) == state_of(leader)
    assert follower.pinned_position == log.entries[SNAPSHOTS][0].position


def test_what_was_received_and_not_committed_is_enough_to_lead() -> None:
    log = MemoryLog()
    leader = led(log)
    at = log.end_position
    snapshot(leader)
    leader.topics.put(TopicConfig("after"))
    other = begun(log, at)
    receive(log, other, log.end_position)
    follower = followed(other)
    assert not follower.is_whole
    follower.promote(2)
    assert state_of(follower) == state_of(leader)
    assert follower.pinned_position == 0
    other.commit()
    assert follower.pinned_position == log.entries[SNAPSHOTS][0].position


def test_a_log_without_a_complete_state_is_never_led() -> None:
    log = MemoryLog()
    leader = led(log)
    at = log.end_position
    leader.topics.put(TopicConfig("between"))
    other = begun(log, at)
    receive(log, other, log.end_position)
    follower = followed(other)
    with pytest.raises(MetadataDamagedError, match="no snapshot covers them"):
        follower.promote(2)
    assert not follower.leading


def test_a_log_that_begins_inside_a_snapshot_waits_for_the_next() -> None:
    log = MemoryLog()
    leader = led(log)
    snapshot(leader)
    at = log.entries[SNAPSHOTS][1].position
    leader.topics.put(TopicConfig("x" * 200, attributes={"n": "y" * 2000}))
    middle = log.end_position
    snapshot(leader)
    other = begun(log, at)
    receive(log, other, log.end_position)
    other.committed_position = middle
    follower = followed(other)
    assert not follower.is_whole
    commit(follower, other, other.end_position)
    assert state_of(follower) == state_of(leader)


# ---- epochs


def test_barriers_are_those_of_the_newest_snapshot_and_of_what_follows_it() -> None:
    log = MemoryLog()
    assert barriers(log) == []
    leader = led(log, epoch=2)
    leader.demote()
    leader.promote(5)
    assert barriers(log) == leader.epochs
    assert [epoch for epoch, _ in barriers(log)] == [2, 5]
    snapshot(leader)
    assert barriers(log) == leader.epochs
    log.commit()
    log.cut_below(leader.pinned_position)
    assert barriers(log) == leader.epochs
    leader.demote()
    leader.promote(9)
    assert [epoch for epoch, _ in barriers(log)] == [2, 5, 9]
    assert barriers(log) == leader.epochs


@pytest.mark.parametrize(("start_epoch", "known"), [(0, [1, 2, 3, 4, 5, 6]), (4, [4, 5, 6])])
def test_barriers_that_a_snapshot_leaves_out_are_read_from_the_log_unless_they_are_gone_with_its_start(
    monkeypatch: pytest.MonkeyPatch, start_epoch: int, known: list[int]
) -> None:
    monkeypatch.setattr(contents, "_EPOCHS_KEPT", 3)
    log = MemoryLog()
    leader = led(log)
    for epoch in range(2, 7):
        leader.demote()
        leader.promote(epoch)
    snapshot(leader)
    log.commit()
    log.start_epoch = start_epoch
    assert [epoch for epoch, _ in barriers(log)] == known
