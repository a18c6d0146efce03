"""A run of records as a LogHerd leader writes them, verified and taken in one pass: nearly all that a follower gets.

It takes what raises no question: layout version 1, hosts of IPv4, checksums of the whole and of the body that match,
living queues of which each record is the next one. Anything else is for raw.py and follow.py, which say what is wrong
with it, or know how it is taken all the same.
"""

from struct import Struct

from logherd.kit.checksum import crc32
from logherd.model.record import CHECKSUM_SIZE, MAGIC_V1, SysFlag
from logherd.store.consume_queue import UNIT, QueueLog
from logherd.store.extract import Extractor, tags_code_is_time
from logherd.store.log import CommitLog
from logherd.store.queues import QueueTable

__all__ = ["take_common_run"]

_HEAD = Struct(">IIIi4xqqi16xq20xi")
"""size, magic, body checksum, queue id, queue offset, position, sys flag, store ms, body length; see model/record.py"""
_HEAD_SIZE = _HEAD.size
_RECORD_SIZE_MIN = 91 + CHECKSUM_SIZE
_UNUSUAL = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | SysFlag.TRANSACTION_PREPARED
_CHECKSUM_BACKWARDS = b"\x02%010d\x01#23CRC__"
_MASK = 0x7FFFFFFF
_TAGS = b"\x02TAGS\x01"

_unpack = _HEAD.unpack_from
_pack_unit = UNIT.pack


class _Place:
    """What one queue gets."""

    __slots__ = ("end", "queue", "units")

    def __init__(self, queue: QueueLog) -> None:
        self.queue = queue
        self.end = queue.next_offset
        self.units = bytearray()


class _Run:
    """What a run adds, gathered before anything is changed."""

    __slots__ = ("entries", "places", "store_timestamp")

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.entries = bytearray()
        self.store_timestamp = 0


def take_common_run(data: bytes, log: CommitLog, table: QueueTable, extract: Extractor) -> bool:
    """Append whole records at the log's end; False if they are not of the common kind: then nothing was changed."""
    start, size = log.end_position, len(data)
    if not size or start + size > log.append_limit:
        return False
    run, at = _Run(), 0
    while at < size:
        at = _read_stretch(run, data, at, start, table=table, extract=extract)
        if at < 0:
            return False
    for place in run.places:
        place.queue.tail += place.units
        place.queue.next_offset = log.touched[place.queue] = place.end
    extract.pending += run.entries
    log.parts.append(data)
    log.end_position = start + size
    log.store_timestamp = run.store_timestamp
    return True


def _read_stretch(run: _Run, data: bytes, at: int, start: int, *, table: QueueTable, extract: Extractor) -> int:
    """Verify records of one topic from byte `at` on; where the first one of another topic begins, -1 if any of them is
    not of the common kind."""
    view, size_of_all = memoryview(data), len(data)
    part, places = b"", dict[int, _Place]()
    properties, positions, stored = list[bytes](), list[int](), list[int]()
    while size_of_all - at >= _RECORD_SIZE_MIN:
        size, magic, body_checksum, queue_id, offset, position, sys_flag, store_ms, length = _unpack(data, at)
        end, topic_at = at + size, at + _HEAD_SIZE + length
        if magic != MAGIC_V1 or sys_flag & _UNUSUAL or position != start + at or length < 0 or end > size_of_all:
            return -1
        if not part:
            part = data[topic_at : topic_at + 1 + data[topic_at]] if topic_at < end else b""
        properties_at = topic_at + len(part) + 2
        if data[topic_at : properties_at - 2] != part:
            break
        whole_at = end - CHECKSUM_SIZE
        if (
            properties_at > whole_at
            or data[properties_at - 2] << 8 | data[properties_at - 1] != end - properties_at
            or data[whole_at:end] != (_CHECKSUM_BACKWARDS % (crc32(view[at:whole_at]) & _MASK))[::-1]
            or (length and crc32(view[at + _HEAD_SIZE : topic_at]) & _MASK != body_checksum)
        ):
            return -1
        place = places.get(queue_id) or _find(run, places, part, queue_id, table)
        if place is None or place.end != offset:
            return -1
        marked = b"\x02" + data[properties_at:whole_at]
        properties.append(marked)
        positions.append(position)
        stored.append(store_ms)
        place.units += _pack_unit(position, size, extract.tags_code(marked) if marked.find(_TAGS) >= 0 else 0)
        place.end = offset + 1
        at = end
    if not places:
        return -1
    topic_hash = next(iter(places.values())).queue.topic_hash
    run.entries += extract.entries(topic_hash, properties, positions, stored)
    run.store_timestamp = stored[-1]
    return at


def _find(run: _Run, places: dict[int, _Place], part: bytes, queue_id: int, table: QueueTable) -> _Place | None:
    """The queue's place in the run. A topic may come back after another one."""
    topic = part[1:]
    if not topic.isascii():
        return None
    queue = table.find(topic.decode(), queue_id)
    if queue is None or queue.deleted or tags_code_is_time(queue.topic):
        return None
    place = next((each for each in run.places if each.queue is queue), None)
    if place is None:
        place = _Place(queue)
        run.places.append(place)
    places[queue_id] = place
    return place
