"""The contract of replication.log.ReplicaLog, on a message store; and which flush covers what."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace as changed

from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.replica import LogStartGone, ReplicaStore
from logherd.replication.epochs import NOWHERE, ORIGIN, Point, Run
from logherd.replication.log import Image, SpanDamagedError, UnreadableError
from logherd.store import MessageStore, RawRefused, StoreDamaged, StoreFull, begin_again, common_run
from logherd.store.files_os import OsFiles
from sim.disk import SimDisk, SimulatedCrash
from unit.store.helpers import HOST, ROOT, SimClock, none_left, settle, small_options

SEGMENT = 8192
OPTIONS = replace(small_options(derived={"interval_ms": 0}), replicated=True)


def open_log(disk: SimDisk | None = None, barriers: list[tuple[int, int]] | None = None) -> ReplicaStore:
    store = MessageStore.open(ROOT, OPTIONS, disk or SimDisk(), clock=SimClock())
    return ReplicaStore(store, barriers or [])


@pytest.fixture
def log() -> ReplicaStore:
    return open_log()


def fill(log: ReplicaStore, *epochs: int, size: int = 200) -> list[Position]:
    ends = []
    for number, epoch in enumerate(epochs):
        if epoch > log.epochs.last_epoch:
            log.begin_epoch(Epoch(epoch))
        log.store.append(
            log.store.queue("T", 0), b"%d" % number * size, b"", born_timestamp=1, born_host=HOST, store_timestamp=1
        )
        ends.append(log.end)
    return ends


def flush(log: ReplicaStore) -> list[int]:
    """Write everything; the tokens that were reported."""
    tokens = []
    while (batch := log.take_batch()) is not None:
        batch.write_and_flush()
        token = log.flushed(batch)
        if token is not None:
            tokens.append(token)
    return tokens


def copy_of(log: ReplicaStore, bytes_max: int) -> ReplicaStore:
    copy = open_log()
    while copy.end < log.end:
        copy.write(log.read(copy.end, bytes_max), copy.end)
    return copy


def test_a_new_log_is_empty(log: ReplicaStore) -> None:
    assert (log.end, log.epochs.base, log.epochs.runs, log.image()) == (0, ORIGIN, (), None)


@pytest.mark.parametrize("bytes_max", [1, 1000, 100_000])
def test_a_range_read_is_a_range_written(log: ReplicaStore, bytes_max: int) -> None:
    fill(log, *[1] * 20, *[2] * 20, *[5] * 30)
    assert log.end > SEGMENT
    copy = copy_of(log, bytes_max)
    assert (copy.end, copy.epochs) == (log.end, log.epochs)
    assert copy.epochs.runs == (Run(Epoch(1), Position(0)), *log.epochs.runs[1:])


def test_a_blank_record_belongs_to_the_epoch_of_the_record_behind_it(log: ReplicaStore) -> None:
    ends = fill(log, *[1] * 12, size=600)
    last = next(end for end in reversed(ends) if end < SEGMENT - 100)
    log.truncate(last)
    log.begin_epoch(Epoch(2))
    fill(log, 2, 2, size=900)
    assert log.end > SEGMENT
    assert log.epochs.runs[-1] == Run(Epoch(2), last)
    assert copy_of(log, 1).epochs == log.epochs


def test_a_read_gives_one_record_at_least_and_no_more_than_asked(log: ReplicaStore) -> None:
    ends = fill(log, 1, 1, 1)
    assert log.read(Position(0), 1).end == ends[0]
    assert log.read(Position(0), ends[1]).end == ends[1]
    assert log.read(Position(0), ends[1]) is log.read(Position(0), ends[1])


def test_the_part_of_a_range_that_is_here_is_skipped(log: ReplicaStore) -> None:
    ends = fill(log, 1, 1, 2)
    copy = open_log()
    copy.write(log.read(Position(0), 1), Position(0))
    copy.write(log.read(Position(0), 10_000), ends[0])
    assert (copy.end, copy.epochs) == (log.end, log.epochs)


def test_damage_on_the_way_changes_nothing(log: ReplicaStore) -> None:
    fill(log, 1, 1)
    span = log.read(Position(0), 10_000)
    copy = open_log()
    broken = bytes(span.data)[:-3] + b"!!!"
    for bad in (changed(span, data=broken), changed(span, end=Position(span.end + 1))):
        with pytest.raises(SpanDamagedError):
            copy.write(bad, Position(0))
        assert (copy.end, copy.epochs.runs) == (0, ())


def test_a_cut_takes_records_and_epochs(log: ReplicaStore) -> None:
    ends = fill(log, 1, 2, 3)
    flush(log)
    log.truncate(ends[0])
    assert (log.end, log.epochs.last_epoch) == (ends[0], 1)
    fill(log, 4)
    assert log.epochs.runs[-1] == Run(Epoch(4), ends[0])


def test_a_cut_inside_a_record_or_of_what_is_committed_is_an_error(log: ReplicaStore) -> None:
    ends = fill(log, 1, 1)
    flush(log)
    log.advance(ends[0])
    for at in (5, 0):
        with pytest.raises(InvariantError):
            log.truncate(Position(at))
    assert log.epochs.runs == (Run(Epoch(1), Position(0)),)


def test_an_epoch_without_a_record_leaves_no_trace(log: ReplicaStore) -> None:
    ends = fill(log, 1)
    log.begin_epoch(Epoch(2))
    assert log.epochs.last_epoch == 1
    log.begin_epoch(Epoch(3))
    fill(log, 3)
    assert log.epochs.runs == (Run(Epoch(1), Position(0)), Run(Epoch(3), ends[0]))
    with pytest.raises(InvariantError):
        log.begin_epoch(Epoch(3))


def test_the_epochs_of_a_log_that_is_opened_are_those_of_its_barriers() -> None:
    disk = SimDisk()
    log = open_log(disk)
    ends = fill(log, 1, 1, 4)
    flush(log)
    disk.locks.clear()
    again = open_log(disk, [(1, 0), (4, ends[1]), (9, log.end)])
    assert again.epochs == log.epochs


def test_records_from_before_any_barrier_are_of_epoch_0() -> None:
    disk = SimDisk()
    log = open_log(disk)
    ends = fill(log, 1, 1)
    flush(log)
    disk.locks.clear()
    assert open_log(disk, [(3, ends[0])]).epochs.runs == (Run(Epoch(0), Position(0)), Run(Epoch(3), ends[0]))


def test_the_base_follows_retention_and_is_what_an_image_says() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, *[1] * 30, *[2] * 40)
    flush(log)
    log.advance(log.end)
    log.store.retention = replace(OPTIONS.retention, bytes_max=9000)
    settle(log.store)
    assert log.apply_retention(0, log.end) > 0
    image = log.image()
    assert image is not None
    assert (image.size, image.point) == (0, log.epochs.base)
    assert image.point.position == log.store.min_position > 0
    assert log.epochs.runs[0].after == image.point.position
    assert log.image_chunk(image, 0, 100) == b""
    log.install(image)
    assert log.end > image.point.position, "what holds the point stays"
    settle(log.store)
    log.store.close()
    again = open_log(disk, [(2, log.epochs.runs[-1].after)] if len(log.epochs.runs) > 1 else [])
    assert again.epochs == log.epochs, "though the first barrier went with what was deleted"


def test_a_log_that_lacks_the_images_point_says_where_to_begin(log: ReplicaStore) -> None:
    fill(log, 1)
    point = Point(Epoch(3), Position(2 * SEGMENT))
    with pytest.raises(LogStartGone) as gone:
        log.install(Image("i", point, 0, 0, 0, b""))
    assert gone.value.point == point
    with pytest.raises(SpanDamagedError):
        log.install(Image("i", point, 0, 0, 5, b""))


# ---- beginning again


@pytest.mark.parametrize("calls", range(1, 60))
def test_a_crash_while_beginning_again_leaves_the_old_log_or_the_new_one(calls: int) -> None:
    disk = SimDisk()
    log = open_log(disk)
    ends = fill(log, *[1] * 90)
    flush(log)
    log.advance(ends[10])
    log.store.background_work()
    settle(log.store)
    log.store.close()
    at = 2 * SEGMENT
    assert log.end > at
    disk.crash_after(calls)
    try:
        begin_again(ROOT, disk, position=at, epoch=7)
        open_log(disk)
    except SimulatedCrash:
        pass
    disk = disk.crash(Random(calls), power=calls % 3 > 0)
    found = open_log(disk)
    if found.store.min_position:
        assert (found.end, found.epochs.base, list(found.store.queues())) == (at, Point(Epoch(7), Position(at)), [])
    else:
        assert found.end >= ends[10]
        assert found.store.committed_position >= ends[10]
    found.store.close()
    begin_again(ROOT, disk, position=at, epoch=7)
    again = open_log(disk)
    assert (again.end, again.store.committed_position, again.epochs.base.epoch) == (at, at, 7)
    again.begin_epoch(Epoch(8))
    fill(again, 8)
    assert again.epochs.runs == (Run(Epoch(8), Position(at)),)


def test_only_a_replica_begins_again_and_only_where_a_segment_does() -> None:
    disk = SimDisk()
    MessageStore.open(ROOT, small_options(), disk, clock=SimClock()).close()
    with pytest.raises(StoreDamaged):
        begin_again(ROOT, disk, position=SEGMENT, epoch=1)
    disk = SimDisk()
    log = open_log(disk)
    fill(log, 1)
    flush(log)
    log.advance(log.end)
    log.store.close()
    with pytest.raises(RawRefused, match="the same segment size"):
        begin_again(ROOT, disk, position=5000, epoch=1)
    with pytest.raises(InvariantError):
        begin_again(ROOT, disk, position=0, epoch=1)


# ---- tokens


def test_a_token_comes_back_when_all_that_had_changed_is_flushed(log: ReplicaStore) -> None:
    fill(log, *[1] * 5, size=600)
    assert not log.note(1)
    first = log.take_batch()
    assert first is not None
    fill(log, 1)
    assert not log.note(2)
    first.write_and_flush()
    assert log.flushed(first) is None, "there is more to take"
    assert flush(log) == [2]
    assert log.note(3), "nothing has changed"


def test_a_token_noted_while_all_is_taken_comes_back_with_the_last_batch(log: ReplicaStore) -> None:
    fill(log, 1)
    batch = log.take_batch()
    assert batch is not None
    assert not log.note(1)
    fill(log, 1)
    assert not log.note(2)
    batch.write_and_flush()
    assert log.flushed(batch) == 1
    assert flush(log) == [2]


def test_a_token_comes_back_though_more_is_appended_than_each_batch_takes(log: ReplicaStore) -> None:
    ends, token, told = {0: NOWHERE}, 0, 0
    fill(log, *[1] * 5, size=600)
    for _ in range(20):
        token += 1
        ends[token] = log.end
        log.note(token)
        batch = log.take_batch()
        assert batch is not None
        fill(log, *[1] * 4, size=600)
        assert log.store.untaken
        batch.write_and_flush()
        told = log.flushed(batch) or told
        assert ends[told] <= log.store.flushed_position, "all that was there is flushed"
        assert told == token or ends[told + 1] > log.store.flushed_position, "and is told then"
    assert told > 1
    assert flush(log)[-1] == token


def test_a_token_noted_before_a_cut_comes_back_when_the_cut_is_flushed(log: ReplicaStore) -> None:
    ends = fill(log, *[1] * 3, size=600)
    flush(log)
    more = fill(log, *[1] * 9, size=600)
    assert not log.note(1)
    log.truncate(more[4])
    assert not log.note(2)
    log.truncate(ends[0])
    assert not log.note(3)
    fill(log, *[1] * 9, size=600)
    cut = log.take_batch()
    assert cut is not None
    cut.write_and_flush()
    assert (log.flushed(cut), log.store.flushed_position) == (3, ends[0])
    assert flush(log) == []


def test_a_cut_is_flushed_before_its_token_comes_back(log: ReplicaStore) -> None:
    ends = fill(log, 1, 1)
    flush(log)
    log.truncate(ends[0])
    assert not log.note(1)
    assert log.store.flushed_position == ends[1]
    assert flush(log) == [1]
    assert log.store.flushed_position == ends[0]


def roll(log: ReplicaStore, epoch: int) -> tuple[Position, Position]:
    """Fill the segment so far that the first record of `epoch` begins the next; the ends before and behind it."""
    fill(log, epoch - 1, size=200)
    left = SEGMENT - log.store.end_position % SEGMENT
    while left > 1500:
        fill(log, epoch - 1, size=1000)
        left = SEGMENT - log.store.end_position % SEGMENT
    before = log.end
    (after,) = fill(log, epoch, size=left)
    assert before < SEGMENT < after
    return before, after


def test_a_blank_is_shipped_with_the_record_behind_it(log: ReplicaStore) -> None:
    before, after = roll(log, 2)
    spans, at = [], Position(0)
    while at < log.end:
        spans.append(log.read(at, 1500))
        at = spans[-1].end
    ends = [span.end for span in spans]
    assert before in ends
    assert after in ends
    assert SEGMENT not in ends
    assert spans[-1].history.runs == (Run(Epoch(2), before),)
    copy = copy_of(log, 1500)
    assert copy.epochs.runs == log.epochs.runs
    assert bytes(copy.read(before, 10_000).data) == bytes(log.read(before, 10_000).data)


def append_run(log: ReplicaStore, count: int) -> Position:
    queue = log.store.queue("T", 0)
    messages = [(queue, b"x" * 50, b"UNIQ_KEY\x01k%d\x02" % n, b"k%d" % n, 1, 0, 0, 0) for n in range(count)]
    assert len(log.store.append_run(messages, HOST, 1)) == count
    return log.end


@pytest.mark.parametrize("held", range(2))
def test_runs_are_shipped_with_their_outline(log: ReplicaStore, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also to whom the first of them have come before."""
    copy, first = open_log(), fill(log, 1)[0]
    copy.write(log.read(Position(0), 10_000), Position(0))
    for n in range(2):
        after = log.end
        append_run(log, 3)
        span = log.read(after, 10_000)
        if n < held:
            copy.write(span, after)
    span = log.read(first, 10_000)
    assert span.outline
    read = []
    take = common_run._read_stretch
    monkeypatch.setattr(common_run, "_read_stretch", lambda *args, **more: read.append(args) or take(*args, **more))
    copy.write(span, copy.end)
    assert read == []
    assert (copy.end, copy.epochs) == (log.end, log.epochs)
    assert bytes(copy.store.queue("T", 0).tail) == bytes(log.store.queue("T", 0).tail)


def test_an_outline_that_is_none_is_passed_over(log: ReplicaStore) -> None:
    copy, first = open_log(), fill(log, 1)[0]
    copy.write(log.read(Position(0), 1), Position(0))
    append_run(log, 3)
    copy.write(changed(log.read(first, 10_000), outline=b"\xc1what"), first)
    assert bytes(copy.store.queue("T", 0).tail) == bytes(log.store.queue("T", 0).tail)


def test_damage_behind_a_blank_leaves_nothing_appended(log: ReplicaStore) -> None:
    before, _ = roll(log, 2)
    copy = open_log()
    while copy.end < before:
        copy.write(log.read(copy.end, 1500), copy.end)
    span = log.read(before, 10_000)
    damaged = bytearray(span.data)
    damaged[-20] ^= 1
    with pytest.raises(SpanDamagedError):
        copy.write(changed(span, data=bytes(damaged)), copy.end)
    assert copy.end == before
    copy.write(span, copy.end)
    assert copy.end == log.end


def test_a_blank_that_a_crash_left_at_the_end_is_cut_so_that_no_epoch_is_guessed(log: ReplicaStore) -> None:
    before, after = roll(log, 2)
    disk = SimDisk()
    follower = open_log(disk)
    while follower.end < before:
        follower.write(log.read(follower.end, 1500), follower.end)
    data, end = log.store.read_raw(before, 1)
    follower.store.append_raw(data, before, end=end)
    assert follower.store.end_position == SEGMENT
    with pytest.raises(UnreadableError, match="no record is behind the blank"):
        follower.read(before, 1000)
    flush(follower)
    follower.store.close()
    again = open_log(disk, [(1, 0)])
    assert again.end == before
    assert again.epochs.runs == (Run(Epoch(1), Position(0)),)
    again.write(log.read(before, 10_000), again.end)
    flush(again)
    assert again.epochs.runs == log.epochs.runs
    assert again.end == after


def test_h4_a_follower_whose_disk_is_as_full_as_its_leaders_takes_what_that_still_takes() -> None:
    """Else nothing that the reserve is for is ever committed: no offset, no snapshot, no barrier."""
    leader, follower = (open_tight() for _ in range(2))
    with pytest.raises(StoreFull):
        fill(leader, *[1] * 100, size=100)
    clients_end = leader.end
    for _ in range(2):
        append_metadata(leader)
    while follower.end < leader.end:
        assert not follower.full, f"at {follower.end} of {clients_end}"
        follower.write(leader.read(follower.end, 300), follower.end)
    while not follower.full:
        append_metadata(leader)
        follower.write(leader.read(follower.end, 300), follower.end)
    assert SEGMENT - 700 < follower.end < SEGMENT - 300, "whatever comes next may need a further segment"


@pytest.mark.parametrize(
    ("foreign", "record"), [(128, 264), (1024, 264), (8192, 264), (8192, 2000), (8192, 8192)],
    ids=["1GiB", "128MiB", "64MiB", "16MiB", "8MiB"],
)  # fmt: skip
def test_h4_a_group_on_full_disks_has_room_for_metadata_whatever_the_length_of_its_segments(
    foreign: int, record: int
) -> None:
    """What may come from another replica, and what a message may take, as parts of a segment of that length."""
    leader, follower = (open_tight(foreign, record, metadata=512) for _ in range(2))
    with pytest.raises(StoreFull):
        fill(leader, *[1] * 100, size=30)
    clients_end = leader.end
    assert clients_end > SEGMENT // 4, "clients have room, too"
    while not follower.full:
        append_metadata(leader)
        while follower.end < leader.end and not follower.full:
            follower.write(leader.read(follower.end, 200), follower.end)
    assert 512 <= follower.end - clients_end < 1024


def open_tight(foreign: int = 500, record: int = 500, *, metadata: int = 1 << 20) -> ReplicaStore:
    """A log whose disk has no room for a second segment."""
    sizes = {"foreign_record_bytes_max": foreign, "record_bytes_max": record, "metadata_bytes": metadata}
    options = replace(small_options(log=sizes, derived={"interval_ms": 0}), replicated=True)
    disk = SimDisk(capacity=2 * SEGMENT)
    return ReplicaStore(MessageStore.open(ROOT, options, disk, clock=SimClock()), [])


def append_metadata(log: ReplicaStore) -> None:
    log.store.append(
        log.store.queue("M", 0), b"m" * 20, b"", born_timestamp=1, born_host=HOST, store_timestamp=1, reserve=True
    )


# ---- damage


def test_what_is_damaged_is_not_shipped_and_told_once(tmp_path: Path) -> None:
    log = ReplicaStore(MessageStore.open(tmp_path, OPTIONS, OsFiles(), clock=SimClock()), [])
    ends = fill(log, *(1 for _ in range(60)))
    flush(log)
    told: list[tuple[str, int, Position]] = []
    log.on_damage = lambda error, after: told.append((error.path, error.offset, after))
    path = tmp_path / "commitlog" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(ends[3] + 100)
        (was,) = file.read(1)
        file.seek(ends[3] + 100)
        file.write(bytes((was ^ 4,)))
    assert log.read(Position(0), ends[3]).end == ends[3], "what lies before it is whole"
    for _ in range(3):
        with pytest.raises(UnreadableError):
            log.read(ends[3], 1)
    assert told == [(str(path), ends[3], ends[3])]
    assert log.read(ends[4], 1).end == ends[5]
    log.store.close()


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("bytes_max", [1, 1000, 100_000])
def test_a_place_inside_a_record_ends_no_leader_and_is_no_damage(flushed: bool, bytes_max: int) -> None:
    """As a follower names it that is damaged itself. What it gets then, it refuses."""
    disk = SimDisk()
    log = open_log(disk)
    ends = fill(log, *(1 for _ in range(60)))
    assert log.end > SEGMENT
    if flushed:
        flush(log)
        log.store.close()
        log = open_log(disk, [(1, 0)])
    told: list[StoreDamaged] = []
    log.on_damage = lambda error, after: told.append(error)
    assert ends[-1] > SEGMENT
    for end in (*ends, Position(SEGMENT)):
        for before in (1, 7, 8, 9, 60, 150):
            with suppress(UnreadableError):
                log.read(Position(end - before), bytes_max)
    assert not told
    assert log.read(Position(0), 1).end == ends[0]
    log.store.close()


def test_where_no_record_began_another_one_is_read_when_the_log_was_cut_and_goes_on() -> None:
    disk = SimDisk()
    log = open_log(disk)
    ends = fill(log, *(1 for _ in range(60)))
    flush(log)
    log.store.close()
    log = open_log(disk, [(1, 0)])
    place = Position(ends[41] - 50)
    with pytest.raises(UnreadableError, match="one lies across"):
        log.read(place, 1)
    log.truncate(ends[40])
    body = b"x" * (len(b"41" * 200) - 50)
    for _ in range(2):
        log.store.append(log.store.queue("T", 0), body, b"", born_timestamp=1, born_host=HOST, store_timestamp=1)
    assert log.read(place, 1).end == log.end
    log.store.close()


def test_what_no_descriptor_is_left_for_is_read_later_and_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ReplicaStore(MessageStore.open(tmp_path, OPTIONS, OsFiles(), clock=SimClock()), [])
    fill(log, *(1 for _ in range(60)))
    flush(log)
    log.store.close()
    log = ReplicaStore(MessageStore.open(tmp_path, OPTIONS, OsFiles(), clock=SimClock()), [(1, 0)])
    assert log.end > SEGMENT
    for segment in log.store._log.segments:
        segment.close()
    told: list[StoreDamaged] = []
    log.on_damage = lambda error, after: told.append(error)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", none_left)
        with pytest.raises(UnreadableError, match="no descriptor"):
            log.read(Position(0), 1)
    assert log.read(Position(0), 1).end > 0
    assert not told
    log.store.close()
