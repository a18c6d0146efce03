"""The contract of a log store, shown on the one in memory and on the one on files."""

from collections.abc import Callable
from zlib import crc32

import pytest

from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import HEADER_SIZE, Kind
from logherd.raft.store import HardState, LogStore
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Image, SpanDamagedError
from logherd.replication.messages import ClusterId, ReplicaId
from sim.disk import SimDisk

SEGMENT = 128


def on_files(segment_bytes: int) -> LogStore:
    return RaftLog.open(SimDisk(), "/raft", RaftLogOptions(segment_bytes=segment_bytes, reserve_bytes=0))


@pytest.fixture(params=[MemoryLog, on_files])
def log(request: pytest.FixtureRequest) -> LogStore:
    make: Callable[[int], LogStore] = request.param
    return make(SEGMENT)


def fill(log: LogStore, *epochs: int) -> list[Position]:
    return [log.append(Kind.DATA, Epoch(epoch), b"x" * 20) for epoch in epochs]


def image_of(log: LogStore, at: Position, data: bytes) -> Image:
    return Image(f"at {at}", log.epochs.point_at(at), log.seal_at(at), crc32(data), len(data), b"note")


def test_a_new_store_is_empty(log: LogStore) -> None:
    assert (log.end, log.epochs.base, log.hard_state(), log.image()) == (0, ORIGIN, None, None)


def test_a_record_never_crosses_a_segment_and_positions_have_gaps(log: LogStore) -> None:
    ends = fill(log, 1, 1, 1)
    size = HEADER_SIZE + 20
    assert ends == [size, 2 * size, SEGMENT + size]


def test_records_that_are_appended_together_lie_as_if_one_after_the_other(log: LogStore) -> None:
    bodies = [b"x" * size for size in (20, 3, 200, 0, 61, 20, 20)]
    fill(log, 1)
    other = MemoryLog(SEGMENT)
    fill(other, 1)
    ends = [*log.append_all(Kind.DATA, Epoch(2), bodies), *log.append_all(Kind.NOOP, Epoch(3), [b""])]
    one_by_one = [other.append(Kind.DATA, Epoch(2), body) for body in bodies]
    assert ends == [*one_by_one, other.append(Kind.NOOP, Epoch(3), b"")]
    assert log.records(Position(0), log.end) == other.records(Position(0), other.end)
    assert log.epochs == other.epochs


def test_a_read_after_a_cut_gives_what_was_written_since(log: LogStore) -> None:
    first = fill(log, 1)[0]
    log.append(Kind.DATA, Epoch(1), b"old")
    assert log.read(first, 100).data != log.read(Position(0), 100).data
    log.truncate(first)
    log.append(Kind.DATA, Epoch(2), b"new")
    assert bytes(log.read(first, 100).data).endswith(b"new")
    assert log.read(first, 100).runs[0].epoch == 2


def test_a_range_read_is_a_range_written(log: LogStore) -> None:
    fill(log, 1, 1, 2, 2)
    copy = MemoryLog(SEGMENT)
    while copy.end < log.end:
        copy.write(log.read(copy.end, 100), copy.end)
    assert copy.records(Position(0), copy.end) == log.records(Position(0), log.end)
    assert copy.epochs == log.epochs
    assert copy.seal_at(copy.end) == log.seal_at(log.end)


def test_a_read_gives_one_record_at_least_and_no_more_than_asked(log: LogStore) -> None:
    ends = fill(log, 1, 1, 1)
    assert log.read(Position(0), 1).end == ends[0]
    assert log.read(Position(0), 2 * (HEADER_SIZE + 20)).end == ends[1]


def test_the_part_of_a_range_that_is_here_is_skipped(log: LogStore) -> None:
    ends = fill(log, 1, 1, 1)
    copy = MemoryLog(SEGMENT)
    copy.write(log.read(Position(0), 1), Position(0))
    copy.write(log.read(Position(0), 10_000), ends[0])
    assert copy.end == log.end


def test_damage_on_the_way_changes_nothing(log: LogStore) -> None:
    fill(log, 1, 1)
    span = log.read(Position(0), 10_000)
    broken = type(span)(span.previous, span.end, span.runs, bytes(span.data)[:-1] + b"!")
    copy = MemoryLog(SEGMENT)
    with pytest.raises(SpanDamagedError):
        copy.write(broken, Position(0))
    assert copy.end == 0


def test_a_cut_takes_records_and_epochs(log: LogStore) -> None:
    ends = fill(log, 1, 2, 3)
    log.truncate(ends[0])
    assert (log.end, log.epochs.last_epoch) == (ends[0], 1)
    log.append(Kind.DATA, Epoch(4), b"new")
    assert log.epochs.last_epoch == 4


def test_a_cut_inside_a_record_is_an_error(log: LogStore) -> None:
    fill(log, 1)
    with pytest.raises(InvariantError):
        log.truncate(Position(5))


def test_compaction_needs_an_image_and_keeps_what_lies_above(log: LogStore) -> None:
    ends = fill(log, 1, 2, 2)
    with pytest.raises(InvariantError):
        log.compact(ends[0])
    seal = log.seal_at(ends[1])
    log.keep_image(image_of(log, ends[1], b"state"), b"state")
    log.compact(ends[1])
    assert log.epochs.base == Point(Epoch(2), ends[1])
    assert log.seal_at(ends[1]) == seal
    assert log.end == ends[2]


def test_an_image_is_staged_in_order_and_resumed(log: LogStore) -> None:
    image = Image("i", Point(Epoch(3), Position(50)), 9, crc32(b"state"), 5, b"")
    log.stage(image, 0, b"sta")
    assert log.staged(image) == 3
    with pytest.raises(InvariantError):
        log.stage(image, 4, b"e")
    log.stage(image, 3, b"te")
    log.install(image)
    assert (log.end, log.epochs.base, log.seal_at(Position(50))) == (50, image.point, 9)
    assert log.image_chunk(image, 1, 3) == b"tat"


def test_another_image_begins_from_nothing(log: LogStore) -> None:
    first = Image("a", Point(Epoch(3), Position(50)), 9, 0, 5, b"")
    log.stage(first, 0, b"sta")
    assert log.staged(Image("b", first.point, 9, 0, 5, b"")) == 0


def test_a_copy_that_is_not_the_image_is_refused(log: LogStore) -> None:
    image = Image("i", Point(Epoch(3), Position(50)), 9, crc32(b"state"), 5, b"")
    log.stage(image, 0, b"stale")
    with pytest.raises(SpanDamagedError):
        log.install(image)
    assert log.end == 0


def test_records_that_continue_an_installed_image_stay(log: LogStore) -> None:
    """B14: an image must not drop a longer log that agrees with it."""
    ends = fill(log, 1, 1, 2)
    image = image_of(log, ends[1], b"")
    log.install(image)
    assert (log.end, log.epochs.base.position) == (ends[2], ends[1])


def test_records_that_differ_from_an_installed_image_go(log: LogStore) -> None:
    ends = fill(log, 1, 1, 2)
    log.install(Image("i", Point(Epoch(3), ends[1]), 9, 0, 0, b""))
    assert (log.end, log.epochs.last_epoch) == (ends[1], 3)


def test_the_hard_state_is_replaced_as_one(log: LogStore) -> None:
    state = HardState(ClusterId("c"), ReplicaId("a"), Epoch(4), ReplicaId("b"))
    log.keep_hard_state(state)
    assert log.hard_state() == state
