"""A run of records as a LogHerd leader writes them, verified and taken in one pass: nearly all that a follower gets.

It takes what raises no question: layout version 1, hosts of IPv4, checksums of the whole and of the body that match,
living queues of which each record is the next one. Anything else is for raw.py and follow.py, which say what is wrong
with it, or know how it is taken all the same. What the leader has outlined is compared as a whole (outline.py).
"""

from collections.abc import Iterable
from struct import Struct

from logherd.kit.checksum import crc32
from logherd.model.record import CHECKSUM_SIZE, MAGIC_V1, SysFlag
from logherd.store.consume_queue import UNIT, UNIT_SIZE, QueueLog
from logherd.store.extract import Extractor, tags_code_is_time
from logherd.store.log import CommitLog
from logherd.store.outline import Outline, tiles
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


def take_common_run(
    data: bytes, log: CommitLog, table: QueueTable, extract: Extractor, outlines: Iterable[Outline] = ()
) -> bool:
    """Append whole records at the log's end; False if they are not of the common kind: then nothing was changed.

    `outlines` of parts of them are in order; one that does not fit is as good as none.
    """
    start, size = log.end_position, len(data)
    if not size or start + size > log.append_limit:
        return False
    run, at, view = _Run(), 0, memoryview(data)
    for outline in outlines:
        outlined_at = outline.position - start
        if not at <= outlined_at < size:
            continue
        while at < outlined_at:
            at = _read_stretch(run, data, at, outlined_at, start=start, table=table, extract=extract)
            if at < 0:
                return False
        at = _take_outlined(run, view, at, outline, table)
    while at < size:
        at = _read_stretch(run, data, at, size, start=start, table=table, extract=extract)
        if at < 0:
            return False
    for place in run.places:
        if place.units:  # else only an outline that did not fit has named it
            place.queue.tail += place.units
            place.queue.next_offset = log.touched[place.queue] = place.end
    extract.pending += run.entries
    log.parts.append(data)
    log.end_position = start + size
    log.store_timestamp = run.store_timestamp
    return True


def _take_outlined(run: _Run, view: memoryview, at: int, outline: Outline, table: QueueTable) -> int:
    """Take the outlined records that begin at byte `at`; where they end, `at` itself if the outline does not fit."""
    end = at + outline.size
    if not tiles(outline, view[at:end]):
        return at
    found = list[_Place]()
    for share in outline.shares:
        queue = _usual(table, outline.topic, share.queue_id)
        if queue is None:
            return at
        place = _place_of(run, queue)
        if place.end != share.first_offset or place in found:
            return at
        found.append(place)
    for place, share in zip(found, outline.shares, strict=True):
        place.units += share.units
        place.end += len(share.units) // UNIT_SIZE
    run.entries += outline.entries
    run.store_timestamp = outline.stored_ms
    return end


def _read_stretch(
    run: _Run, data: bytes, at: int, stop: int, *, start: int, table: QueueTable, extract: Extractor
) -> int:
    """Verify records of one topic from byte `at` on, none beyond `stop`; where the first one of another topic begins,
    -1 if any of them is not of the common kind. The data begin at position `start` of the log."""
    view = memoryview(data)
    part, places = b"", dict[int, _Place]()
    properties, positions, stored = list[bytes](), list[int](), list[int]()
    while stop - at >= _RECORD_SIZE_MIN:
        size, magic, body_checksum, queue_id, offset, position, sys_flag, store_ms, length = _unpack(data, at)
        end, topic_at = at + size, at + _HEAD_SIZE + length
        if magic != MAGIC_V1 or sys_flag & _UNUSUAL or position != start + at or length < 0 or end > stop:
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
    queue = _usual(table, topic.decode(), queue_id) if topic.isascii() else None
    if queue is None:
        return None
    place = places[queue_id] = _place_of(run, queue)
    return place


def _usual(table: QueueTable, topic: str, queue_id: int) -> QueueLog | None:
    """A living queue whose units hold what those of nearly all do."""
    queue = table.find(topic, queue_id)
    return None if queue is None or queue.deleted or tags_code_is_time(topic) else queue


def _place_of(run: _Run, queue: QueueLog) -> _Place:
    place = next((each for each in run.places if each.queue is queue), None)
    if place is None:
        place = _Place(queue)
        run.places.append(place)
    return place
