"""Appending messages of one sender that came together: what they share is looked at once."""

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from logherd.kit.errors import InvariantError
from logherd.model.record import RecordError, SysFlag
from logherd.model.record_run import RunEncoder
from logherd.store.consume_queue import UNIT, QueueLog
from logherd.store.extract import Extractor
from logherd.store.log import CommitLog

__all__ = ["BatchFacts", "BatchPart", "RunMessage", "append_batch", "append_run"]

RunMessage = tuple[QueueLog, bytes, bytes, bytes | None, int, int, int, int]
"""(queue, body, properties, sole key, born ms, flag, sys flag, reconsume times), as `append_plain` takes them."""

BatchPart = tuple[int, bytes | memoryview, bytes]
"""(flag, body, properties) of one message of a batch."""


class BatchFacts(NamedTuple):
    """What the messages of a batch have in common. Times in ms."""

    born_timestamp: int
    store_timestamp: int
    sys_flag: int
    reconsume_times: int


_pack_unit = UNIT.pack
_TAGS = b"TAGS\x01"
_HOSTS_V6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6


def append_run(
    log: CommitLog, extract: Extractor, encode: RunEncoder, messages: list[RunMessage], store_timestamp: int
) -> list[tuple[int, int]]:
    """Append messages until one needs more than room in the current batch: (position, queue offset) of each.

    All of them are of one topic; sys flags are without bits for hosts and transactions.
    """
    position, limit, touched = log.end_position, log.append_limit, log.touched
    pieces, placed = list[bytes](), list[tuple[int, int]]()
    keys, keyed = list[bytes](), list[int]()
    topic_hash, outlines = messages[0][0].topic_hash, extract.outlines
    begun = dict[QueueLog, int]() if outlines is None else outlines.begin(messages[0][0].topic, position)
    for queue, body, properties, sole_key, born_timestamp, flag, sys_flag, reconsume_times in messages:
        if queue.deleted or queue.topic_hash != topic_hash:
            raise InvariantError(f"a run goes to living queues of one topic: {queue}")
        offset = queue.next_offset
        try:
            size = encode(
                pieces, queue.topic_part, body, properties, queue.queue_id, flag, offset, position, sys_flag,
                born_timestamp, reconsume_times,
            )  # fmt: skip
        except RecordError:
            break
        if position + size > limit:
            del pieces[-2:]
            break
        if sole_key is None:
            extract.add_ids(topic_hash, keys, keyed, store_timestamp)
            keys, keyed = [], []
            tags_code = extract.extract(properties, None, topic_hash, position, store_timestamp)
        else:
            keys.append(sole_key)
            keyed.append(position)
            tags_code = 0
        if queue not in begun:
            begun[queue] = offset
        queue.tail += _pack_unit(position, size, tags_code)
        touched[queue] = queue.next_offset = offset + 1
        placed.append((position, offset))
        position += size
    if placed:
        extract.add_ids(topic_hash, keys, keyed, store_timestamp)
        data = b"".join(pieces)
        log.parts.append(data)
        if outlines is not None:
            outlines.extend(data, len(placed), store_timestamp)
        log.end_position = position
        log.store_timestamp = store_timestamp
    return placed


def append_batch(
    log: CommitLog, extract: Extractor, encode: RunEncoder, queue: QueueLog, messages: Sequence[BatchPart],
    facts: BatchFacts,
) -> list[int]:  # fmt: skip
    """Append messages to a living queue until one needs more than room in the current batch: the position of each."""
    position, limit, offset = log.end_position, log.append_limit, queue.next_offset
    born_timestamp, store_timestamp, sys_flag, reconsume_times = facts
    sys_flag &= ~_HOSTS_V6
    topic_part, queue_id = queue.topic_part, queue.queue_id
    pieces, positions, marked_of, units = list[bytes](), list[int](), list[bytes](), list[bytes]()
    for flag, body, properties in messages:
        try:
            size = encode(
                pieces, topic_part, body, properties, queue_id, flag, offset, position, sys_flag, born_timestamp,
                reconsume_times,
            )  # fmt: skip
        except RecordError:
            break
        if position + size > limit:
            del pieces[-2:]
            break
        marked = b"\x02" + properties
        units.append(_pack_unit(position, size, extract.tags_code(marked) if _TAGS in properties else 0))
        marked_of.append(marked)
        positions.append(position)
        position += size
        offset += 1
    if positions:
        data = b"".join(pieces)
        if extract.outlines is not None:
            extract.outlines.begin(queue.topic, log.end_position).setdefault(queue, queue.next_offset)
            extract.outlines.extend(data, len(positions), store_timestamp)
        extract.pending += extract.entries(queue.topic_hash, marked_of, positions, repeat(store_timestamp))
        queue.tail += b"".join(units)
        log.touched[queue] = queue.next_offset = offset
        log.parts.append(data)
        log.end_position = position
        log.store_timestamp = store_timestamp
    return positions
