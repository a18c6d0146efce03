"""What was flushed and what was dispatched: the codec of the `checkpoint` file. Bytes only, no file.

4096 bytes, big-endian. RocketMQ's own fields come first and are kept right, so that it can open the store:

      0 last record's store ms i64 | 8 the same for queues | 16 for the index | 24 flushed i64 | 32 confirmed i64
    512 slot A, 1024 slot B:
        0 magic "LHCHKPT\\0" | 8 version u32 | 12 index files u32 | 16 counter u64
        24 log start u64 | 32 flushed u64 | 40 queues dispatched u64 | 48 index dispatched u64
        56 newest index file's name i64 | 64 its next entry u32 | 68 its used slots u32
        72 window u64 | 80 bare end u64 | 88 flags u32 | 92 crc32 of bytes 0..92
    version 2, of a replica:
        92 committed u64 | 100 loose end u64 | 108 start epoch u64 | 116 crc32 of bytes 0..116

The slots are written in turn, each inside one sector, so that a torn write costs the newer slot only.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/StoreCheckpoint.java
"""

from struct import Struct

import msgspec

from logherd.kit.checksum import crc32

__all__ = ["CHECKPOINT_SIZE", "SLOT_OFFSETS", "SLOT_VERSION", "Checkpoint", "decode_checkpoint", "encode_java_fields",
           "encode_slot", "slot_version"]  # fmt: skip

CHECKPOINT_SIZE = 4096
SLOT_OFFSETS = (512, 1024)
SLOT_VERSION = 2
"""The newest. A store that is no replica's is written with version 1, which earlier releases read."""
CLOSED = 0x1
_MAGIC = b"LHCHKPT\0"
_JAVA = Struct(">qqqqq")
_SLOT = Struct(">8sIIQQQQQqIIQQI")
_REPLICA = Struct(">QQQ")
_CRC = Struct(">I")
_CHECKED_BYTES = {1: _SLOT.size, 2: _SLOT.size + _REPLICA.size}
_SLOT_BYTES_MAX = _SLOT.size + _REPLICA.size + _CRC.size


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One decoded slot. Positions in bytes of the log. A new one is made per flush, which a Struct makes cheap.

    1. log_start <= queues_dispatched, index_dispatched <= flushed.
    2. Everything below `flushed` was flushed when the slot was written.
    3. Consume queues hold, durably, every record below `queues_dispatched`; the index below `index_dispatched`.
    4. Never were more than `window` bytes of log written beyond what was flushed; behind a cut that was begun, bytes
       up to `loose` may still be what they were before it.
    """

    counter: int = 0
    log_start: int = 0
    flushed: int = 0
    queues_dispatched: int = 0
    index_dispatched: int = 0
    index_name: int = 0
    """Name of the newest index file as a number, 0 if there is none."""
    index_count: int = 0
    """Number of the next entry of that file; 0 if there is none."""
    index_used_slots: int = 0
    index_files: int = 0
    window: int = 0
    bare_end: int = 0
    """Records below this position may lack a whole-record checksum: RocketMQ wrote them, the store was adopted."""
    closed: bool = False
    """The store was closed in order after this slot's values were reached."""
    committed: int | None = None
    """What the replica's group had committed, at most `flushed`. None: no replica, whatever is flushed is committed."""
    loose: int = 0
    start_epoch: int = 0
    """Of the leadership that wrote the record before `log_start`."""

    def reach(self, end: int) -> int:
        """How many bytes behind `end`, where the records end, may hold what was never promised; 0: not known."""
        return max(self.window, self.loose - end)


def encode_slot(value: Checkpoint) -> bytes:
    """The 96 bytes of one slot, 120 of a replica's."""
    committed = value.committed
    head = _SLOT.pack(
        _MAGIC, 1 if committed is None else 2, value.index_files, value.counter, value.log_start, value.flushed,
        value.queues_dispatched, value.index_dispatched, value.index_name, value.index_count, value.index_used_slots,
        value.window, value.bare_end, CLOSED if value.closed else 0,
    )  # fmt: skip
    if committed is not None:
        head += _REPLICA.pack(committed, value.loose, value.start_epoch)
    return head + _CRC.pack(crc32(head))


def encode_java_fields(last_store_timestamp: int, flushed: int) -> bytes:
    """RocketMQ's five fields. It keeps what lies 3 s before the timestamps and looks at everything after them."""
    return _JAVA.pack(last_store_timestamp, last_store_timestamp, last_store_timestamp, flushed, flushed)


def slot_version(page: bytes) -> int | None:
    """The highest version that a slot with our magic names, None if neither slot is ours."""
    versions = [int.from_bytes(page[at + 8 : at + 12]) for at in SLOT_OFFSETS if page[at : at + len(_MAGIC)] == _MAGIC]
    return max(versions, default=None)


def decode_checkpoint(page: bytes) -> Checkpoint | None:
    """The newer of the slots that are whole and of a known version; None if neither is."""
    found = [slot for at in SLOT_OFFSETS if (slot := _decode_slot(page[at : at + _SLOT_BYTES_MAX])) is not None]
    return max(found, key=lambda slot: slot.counter, default=None)


def _decode_slot(data: bytes) -> Checkpoint | None:
    if len(data) != _SLOT_BYTES_MAX:
        return None
    size = _CHECKED_BYTES.get(int.from_bytes(data[8:12]))
    if size is None or crc32(data[:size]) != _CRC.unpack_from(data, size)[0]:
        return None
    fields = _SLOT.unpack_from(data)
    magic, version, files, counter, log_start, flushed, queues, index, *rest = fields
    name, count, used_slots, window, bare_end, flags = rest
    if magic != _MAGIC:
        return None
    committed, loose, start_epoch = _REPLICA.unpack_from(data, _SLOT.size) if version > 1 else (None, 0, 0)
    return Checkpoint(
        counter=counter, log_start=log_start, flushed=flushed, queues_dispatched=queues, index_dispatched=index,
        index_name=name, index_count=count, index_used_slots=used_slots, index_files=files, window=window,
        bare_end=bare_end, closed=bool(flags & CLOSED), committed=committed, loose=loose,
        start_epoch=start_epoch,
    )  # fmt: skip
