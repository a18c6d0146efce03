"""Appending messages of one sender that came together: what they share is looked at once."""

from logherd.kit.errors import InvariantError
from logherd.model.record import RecordError
from logherd.model.record_run import RunEncoder
from logherd.store.consume_queue import UNIT, QueueLog
from logherd.store.extract import Extractor
from logherd.store.log import CommitLog

__all__ = ["RunMessage", "append_run"]

RunMessage = tuple[QueueLog, bytes, bytes, bytes | None, int, int, int, int]
"""(queue, body, properties, sole key, born ms, flag, sys flag, reconsume times), as `append_plain` takes them."""

_pack_unit = UNIT.pack


def append_run(
    log: CommitLog, extract: Extractor, encode: RunEncoder, messages: list[RunMessage], store_timestamp: int
) -> list[tuple[int, int]]:
    """Append messages until one needs more than room in the current batch: (position, queue offset) of each.

    All of them are of one topic; sys flags are without bits for hosts and transactions.
    """
    position, limit, touched = log.end_position, log.append_limit, log.touched
    pieces, placed = list[bytes](), list[tuple[int, int]]()
    keys, keyed = list[bytes](), list[int]()
    topic_hash = messages[0][0].topic_hash
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
        queue.tail += _pack_unit(position, size, tags_code)
        touched[queue] = queue.next_offset = offset + 1
        placed.append((position, offset))
        position += size
    if placed:
        extract.add_ids(topic_hash, keys, keyed, store_timestamp)
        log.parts.append(b"".join(pieces))
        log.end_position = position
        log.store_timestamp = store_timestamp
    return placed
