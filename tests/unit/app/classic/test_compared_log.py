"""What a RocketMQ slave is given: every byte of the log from wherever it stands, and none of a damaged record."""

import errno
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from logherd.app.classic.compared_log import ComparedLog
from logherd.classic.frames import TransferReader, encode_report
from logherd.classic.slave_feed import SlaveFeed, SlaveOptions, UnreadableError
from logherd.store import MessageStore, StoreDamaged
from logherd.store.files_os import OsFiles
from unit.store.helpers import SimClock, SimDisk, append, flush, open_store, settle, small_options

SEGMENT = 8192
LOG = {"segment_bytes": SEGMENT, "batch_bytes_max": 4000, "record_bytes_max": 4000}
FILES = [f"/data/commitlog/{start:020d}" for start in range(0, 10 * SEGMENT, SEGMENT)]


@pytest.fixture
def disk() -> SimDisk:
    """A store of several files that was closed in order."""
    disk = SimDisk()
    store = open_store(disk, log=LOG)
    sizes = random.Random(7)
    while store.end_position < 4 * SEGMENT + 1000:
        append(store, body=sizes.randbytes(sizes.choice([0, 10, 300, 2500])))
        flush(store)
    store.close()
    return disk


@pytest.fixture
def store(disk: SimDisk) -> Iterator[MessageStore]:
    opened = open_store(disk, log=LOG)
    opened.advance(opened.flushed_position)
    yield opened
    opened.close()


def content(disk: SimDisk, end: int) -> bytes:
    """All bytes of the log up to a position, as they lie in its files."""
    return b"".join(disk.open(path).read(0, SEGMENT) for path in FILES if disk.size(path) is not None)[:end]


def starts(store: MessageStore) -> list[int]:
    """Where records and blank records begin."""
    found, at = [], store.min_position
    while at < store.committed_position:
        found.append(at)
        at = store.read_raw(at, 0)[1]
    return found


def read_on(log: ComparedLog, position: int, size: int) -> bytes:
    """Everything from a position on, in pieces of a size."""
    data = b""
    while position + len(data) < log.committed_position:
        piece = bytes(log.committed_bytes(position + len(data), size))
        assert 0 < len(piece) <= size
        data += piece
    return data


def test_h8_what_is_flushed_and_not_committed_is_not_there_for_a_slave(store: MessageStore) -> None:
    end = store.committed_position
    append(store, body=b"may yet be lost")
    batch = store.take_batch()
    assert batch is not None
    batch.write_and_flush()
    store.flushed(batch)
    log = ComparedLog(store, lambda _: None)
    assert log.durable_position == log.committed_position == end < store.flushed_position
    assert len(read_on(log, end - 500, 100)) == 500


def test_what_a_crash_of_this_machine_would_take_is_not_there_for_a_slave() -> None:
    """It compares nothing: once the log here is as long again, both would go on as if they were one."""
    clock = SimClock()
    store = open_store(SimDisk(), clock=clock, log={**LOG, "flush": "async", "async_flush_ms": 500})
    append(store)
    flush(store)
    clock.now += 1000
    settle(store)
    durable = store.flushed_position
    append(store, body=b"answered, and in memory alone")
    flush(store)
    log = ComparedLog(store, lambda _: None)
    assert log.durable_position == durable < log.committed_position
    clock.now += 1000
    settle(store)
    assert log.durable_position == log.committed_position == store.committed_position
    store.close()


@pytest.mark.parametrize("size", [1, 100, 5000, 1 << 20])
def test_every_byte_comes_from_wherever_a_slave_stands(disk: SimDisk, store: MessageStore, size: int) -> None:
    whole, told = content(disk, store.committed_position), list[StoreDamaged]()
    for position in {*starts(store)[::5], *(start + 13 for start in starts(store)), len(whole) - 1, SEGMENT - 1}:
        if position < len(whole):
            assert read_on(ComparedLog(store, told.append), position, size) == whole[position:]
    assert told == []


def test_a_reader_may_jump(disk: SimDisk, store: MessageStore) -> None:
    whole, log = content(disk, store.committed_position), ComparedLog(store, lambda _: None)
    chance = random.Random(3)
    for _ in range(300):
        position = chance.randrange(len(whole))
        piece = bytes(log.committed_bytes(position, 3000))
        assert whole.startswith(piece, position)


def damaged(disk: SimDisk, number: int) -> tuple[MessageStore, int, int]:
    """The store opened again, after a bit of this record's body has changed; where the record begins and ends."""
    before = open_store(disk, log=LOG)
    before.advance(before.flushed_position)
    places = starts(before)
    start, end = places[number], places[number + 1]
    before.close()
    file = disk.open(FILES[start // SEGMENT])
    at = (start + end) // 2 % SEGMENT
    file.write(at, [bytes([file.read(at, 1)[0] ^ 4])])
    file.flush()
    store = open_store(disk, log=LOG)
    store.advance(store.flushed_position)
    return store, start, end


def test_nothing_of_a_damaged_record_is_given_and_the_damage_is_told(disk: SimDisk) -> None:
    store, start, end = damaged(disk, 9)
    for position in (0, start, start + 1, (start + end) // 2, end - 1):
        told = list[StoreDamaged]()
        log, at = ComparedLog(store, told.append), position
        while at < start:
            at += len(log.committed_bytes(at, 700))
        assert at == max(position, start)
        with pytest.raises(UnreadableError, match="checksum"):
            log.committed_bytes(at, 700)
        assert [(error.path, error.offset) for error in told] == [(FILES[start // SEGMENT], start % SEGMENT)]
    for position in (end, end + 1):
        behind = ComparedLog(store, lambda _: None)
        assert read_on(behind, position, 700) == content(disk, store.committed_position)[position:]


def test_a_slave_gets_what_lies_before_the_damage_and_is_then_sent_away_with_the_reason(disk: SimDisk) -> None:
    store, start, _ = damaged(disk, 9)
    feed = SlaveFeed(ComparedLog(store, lambda _: None), SlaveOptions(chunk_bytes=512), now=0)
    feed.admit()
    output, transfer, given = feed.step(encode_report(0), 0), TransferReader(), b""
    for now in range(1, 5):
        given += b"".join(piece.data for piece in transfer.feed(b"".join(map(bytes, output.data))))
        if output.refusal:
            break
        output = feed.step(encode_report(len(given)), now)
    assert given == content(disk, start)
    assert "damaged here" in output.refusal
    assert "checksum" in output.refusal


def test_a_slave_is_sent_away_while_no_descriptor_is_left_and_it_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is called where commits are told: whatever came out of it would end the broker, or stop it."""
    options = replace(small_options(), log=replace(small_options().log, **LOG))
    store = MessageStore.open(tmp_path, options, OsFiles(), clock=SimClock())
    while store.end_position < 2 * SEGMENT:
        append(store, body=bytes(500))
        flush(store)
    store.advance(store.flushed_position)
    for segment in store._log.segments:
        segment.close()
    told = list[StoreDamaged]()
    feed = SlaveFeed(ComparedLog(store, told.append), SlaveOptions(), now=0)
    feed.admit()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", none_left)
        assert "Too many open files" in feed.step(encode_report(0), 0).refusal
    assert not told
    assert read_on(ComparedLog(store, told.append), 0, SEGMENT)[:4] != bytes(4)
    store.close()


def none_left(*_: object, **__: object) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
