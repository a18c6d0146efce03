"""Records that another replica appended first: found to continue this log, then taken into queues and key index.

Nothing here writes. `plan_run` makes handles at most, so a run is taken whole or not at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from logherd.model.record import RecordError
from logherd.store.consume_queue import UNIT, QueueLog, topic_hash
from logherd.store.extract import Extractor, batch_words, has_unit
from logherd.store.queues import QueueTable
from logherd.store.scan import Scanned

__all__ = ["Placed", "QueuePlan", "note_record", "plan_run"]


@dataclass(slots=True)
class QueuePlan:
    """`placed` are the records and the queue of each, None where it belongs to none. `reborn` are queues that begin
    again at offset 0, because their topic was deleted before the record at that position; `begun` are queues that this
    log does not hold from their beginning, and the offset of their first record here."""

    placed: list["Placed"]
    reborn: list[tuple[int, QueueLog, QueueLog]]
    begun: dict[QueueLog, int]


Placed = tuple[Scanned, QueueLog | None]


def plan_run(records: Sequence[Scanned], table: QueueTable, *, from_start: bool) -> QueuePlan:
    """Find the queue of each record. `from_start`: the log is here from its first record on, so queues begin at 0.

    Raises: RecordError for a record that is not its queue's next one.
    """
    plan = QueuePlan([], [], {})
    known: dict[tuple[bytes, int], QueueLog] = {}
    ends: dict[QueueLog, int] = {}
    for record in records:
        if not has_unit(record.sys_flag):
            plan.placed.append((record, None))
            continue
        name, offset = (record.topic, record.queue_id), record.queue_offset
        queue = known.get(name)
        if queue is None:
            queue = known[name] = table.get(record.topic.decode(), record.queue_id)
        expected = ends.get(queue, queue.next_offset)
        if offset != expected:
            queue = known[name] = _judge(plan, record, queue, expected, table, from_start=from_start)
        ends[queue] = offset + 1
        plan.placed.append((record, queue))
    return plan


def _judge(
    plan: QueuePlan, record: Scanned, queue: QueueLog, expected: int, table: QueueTable, *, from_start: bool
) -> QueueLog:
    """The queue of a record that is not the next one of the queue that has its name."""
    if not record.queue_offset:
        again = table.make(queue.topic, queue.queue_id)
        plan.reborn.append((record.position, queue, again))
        return again
    if expected or from_start:
        raise RecordError(
            f"position {record.position}: message {record.queue_offset} of queue {queue.queue_id} of {queue.topic}; "
            f"the next one here would be {expected}{batch_words(record.sys_flag)}"
        )
    plan.begun[queue] = record.queue_offset
    return queue


def note_record(record: Scanned, queue: QueueLog | None, extract: Extractor) -> int | None:
    """Put a record's keys among the waiting index entries and its unit at the queue's end; the queue's new end."""
    marked = b"\x02" + record.properties
    hash_of_topic = queue.topic_hash if queue is not None else topic_hash(record.topic.decode())
    extract.add_keys(marked, hash_of_topic, record.position, record.store_timestamp)
    if queue is None:
        return None
    code = extract.replayed_tags_code(queue.topic, marked, record.store_timestamp)
    queue.tail += UNIT.pack(record.position, record.size, code)
    queue.next_offset = end = record.queue_offset + 1
    return end
