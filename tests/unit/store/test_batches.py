"""Messages of one batch, appended together: the same store as when they are appended one by one."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from logherd.kit.errors import InvariantError
from logherd.kit.javahash import java_hash
from logherd.model.record import SysFlag
from logherd.store import MessageStore, RecordTooLarge, StoreFull
from logherd.store.append_run import append_batch
from logherd.store.extract import Extractor
from logherd.store.key_index import PENDING
from logherd.store.segment import Segment
from unit.store.helpers import (
    HOST,
    ROOT,
    SimClock,
    SimDisk,
    append,
    bodies,
    flush,
    none_left,
    open_store,
    small_options,
)
from unit.store.test_common_run import state

V6 = bytes(15) + b"\x01" + bytes(4)
PROPERTIES = [
    b"", b"KEYS\x01plane\x02", b"KEYS\x01plane boat  \x02TAGS\x01t\x02", b"KEYS\x01n%d\x02", b"TAGS\x01t\x02",
    b"UNIQ_KEY\x017F00000100002A9F00000000000A%04X\x02", b"KEYS\x01plane\x02UNIQ_KEY\x01u%d\x02", b"KEYS\x01\x02",
    b"KEYS\x01" + "schlüssel".encode() + b"\x02", b"xKEYS\x01no\x02", b"KEYS\x01" + b"k" * 300 + b"\x02",
]  # fmt: skip


def opened() -> MessageStore:
    return MessageStore.open(ROOT, replace(small_options(), replicated=True), SimDisk(), clock=SimClock())


def messages(random: Random, count: int) -> list[tuple[int, bytes, bytes]]:
    found = []
    for n in range(count):
        properties = random.choice(PROPERTIES)
        filled = properties % n if b"%" in properties else properties
        found.append((n % 3, b"%d" % n * random.choice([0, 1, 90]), filled))
    return found


@pytest.mark.parametrize("born_host", [HOST, V6])
@pytest.mark.parametrize("seed", range(8))
def test_a_batch_leaves_the_same_store_as_its_messages_one_by_one(seed: int, born_host: bytes) -> None:
    random = Random(seed)
    together, one_by_one = opened(), opened()
    for moment in range(6):
        batch, number = messages(random, random.choice([1, 5, 40])), random.randrange(3)
        flags = SysFlag.BORN_HOST_V6 if moment % 2 else 0
        queue = together.queue("A", number)
        first, positions = together.append_all(
            queue, batch, born_timestamp=moment, born_host=born_host, store_timestamp=1000 + moment, sys_flag=flags,
            reconsume_times=moment,
        )  # fmt: skip
        placed = [
            one_by_one.append(
                one_by_one.queue("A", number), body, properties, born_timestamp=moment, born_host=born_host,
                store_timestamp=1000 + moment, flag=flag, sys_flag=flags, reconsume_times=moment,
            )
            for flag, body, properties in batch
        ]  # fmt: skip
        assert [(first + n, position) for n, position in enumerate(positions)] == placed
        assert state(together) == state(one_by_one)
    at = 0
    while at < together.end_position:
        data, end = together.read_raw(at, 1000)
        assert (bytes(data), end) == (bytes(one_by_one.read_raw(at, 1000)[0]), end)
        at = end


def test_a_batch_goes_on_in_a_further_batch_of_the_log_and_in_its_next_segment() -> None:
    store = opened()
    options = small_options().log
    rows = [(0, b"x" * 90, b"KEYS\x01k\x02")] * (options.segment_bytes // 200)
    queue = store.queue("A", 0)
    store.append_all(queue, rows, born_timestamp=1, born_host=HOST, store_timestamp=1)
    assert store.end_position > options.segment_bytes
    assert queue.next_offset == len(rows)
    ends = []
    while (batch := store.take_batch()) is not None:
        ends.append(batch.end)
    assert len(ends) > 2
    assert options.segment_bytes in ends


def test_a_deleted_queue_gets_no_batch() -> None:
    store = opened()
    queue = store.queue("A", 0)
    queue.deleted = 1
    with pytest.raises(InvariantError, match="living queues"):
        store.append_all(queue, [(0, b"a", b"")], born_timestamp=1, born_host=HOST, store_timestamp=1)


def test_what_is_remembered_of_keys_is_bounded_and_of_one_topic() -> None:
    extract = Extractor()
    for topic_hash in (7, 8):
        for n in range(10_000):
            marked = b"\x02KEYS\x01%d\x02" % n
            found = extract.entries(topic_hash, [marked] * 2, [n, n + 1], [5, 6])
            fresh = Extractor()
            if n % 1000 == 0:
                assert found == fresh.entries(topic_hash, [marked] * 2, [n, n + 1], [5, 6])
    assert len(extract._known) <= 8192


def test_no_long_tag_is_remembered() -> None:
    """Its sender chose it, and of each number there is one."""
    extract = Extractor()
    for length in (100, 30_000):
        tag = b"x" * length
        assert extract.tags_code(b"\x02TAGS\x01" + tag + b"\x02") == java_hash(tag.decode())
    assert sum(map(len, extract._tag_codes)) == 100


def test_the_quick_way_is_the_one_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    monkeypatch.setattr(
        "logherd.store.store.append_batch", lambda *args: taken.append(append_batch(*args)) or taken[-1]
    )
    store = opened()
    store.append_all(
        store.queue("A", 0), [(0, b"a", b"")] * 5, born_timestamp=1, born_host=HOST, store_timestamp=1
    )  # fmt: skip
    assert [len(each) for each in taken] == [5]


def ensure_as_before(store: MessageStore, disk: SimDisk, position: int) -> None:
    """It holds its one message, is written as if nothing had been refused, and goes on."""
    assert (store.end_position, store.queue("T", 0).next_offset) == (position, 1)
    assert len(store._extract.pending) == PENDING.size
    append(store, body=b"next")
    flush(store)
    store.advance(store.end_position)
    assert bodies(store) == [b"x" * 100, b"next"]
    store.close()
    assert bodies(open_store(disk)) == [b"x" * 100, b"next"]


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_a_batch_whose_third_segment_cannot_be_made_leaves_nothing(
    *, taken: bool, replicated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, disk = replace(small_options(), replicated=replicated), SimDisk()
    store = MessageStore.open(ROOT, options, disk, clock=SimClock())
    append(store, properties=b"KEYS\x01k\x02")
    position, made, create = store.end_position, list[int](), Segment.create
    batch = store.take_batch() if taken else None

    def once(*given: Any) -> Segment:
        if made:
            none_left()
        made.append(1)
        return create(*given)

    rows = [(0, b"b" * 1000, b"KEYS\x01x\x02")] * (3 * options.log.segment_bytes // 1200)
    with monkeypatch.context() as patch:
        patch.setattr(Segment, "create", once)
        with pytest.raises(StoreFull):
            store.append_all(store.queue("T", 0), rows, born_timestamp=1, born_host=HOST, store_timestamp=1)
    assert made
    if batch is not None:
        batch.write_and_flush()
        store.flushed(batch)
    ensure_as_before(store, disk, position)


def test_a_batch_with_a_message_that_no_record_can_hold_leaves_nothing() -> None:
    log, disk = {"segment_bytes": 1 << 20, "record_bytes_max": 1 << 16}, SimDisk()
    store = MessageStore.open(ROOT, small_options(log=log), disk, clock=SimClock())
    append(store, properties=b"KEYS\x01k\x02")
    position = store.end_position
    rows = [(0, b"fits", b""), (0, b"does not", b"K\x01" + b"v" * 32_760 + b"\x02")]
    with pytest.raises(RecordTooLarge, match="properties take"):
        store.append_all(store.queue("T", 0), rows, born_timestamp=1, born_host=HOST, store_timestamp=1)
    ensure_as_before(store, disk, position)
