"""What a store holds beyond its committed position: batches that wait to become readable, and deletions that wait too.

A replica may have to give all of it up again: `cut` takes queues, key index and deletions back to where they were.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from logherd.model.record import RecordError
from logherd.store.consume_queue import DELETED, DOOMED, UNIT, QueueLog
from logherd.store.derived import Derived
from logherd.store.errors import RecordTooLarge, StoreDamaged, StoreFull
from logherd.store.follow import QueuePlan, note_record, plan_run
from logherd.store.log import CommitLog
from logherd.store.scan import ScanEnd, scan_records
from logherd.store.segment import Segment
from logherd.store.writer import LogWriter, WriteBatch

__all__ = ["Doomed", "Uncommitted", "recover_uncommitted"]

_PIECE_BYTES = 64 << 10
"""What was found becomes readable in pieces of this size, as the group commits them."""


@dataclass(frozen=True, slots=True)
class Doomed:
    """A queue that goes when the log is committed up to `position`; a cut below that brings it back."""

    position: int
    queue: QueueLog


class Uncommitted:
    """Belongs to the owner thread.

    1. `landed` are flushed and not committed, in order and without a gap.
    2. `told` is how far the group is known to have committed; what lies below is never cut, readable or not.
    3. `doomed` queues are in order of position, and in no table; units of their records are committed as before.
    """

    __slots__ = ("_derived", "doomed", "landed", "told")

    def __init__(self, derived: Derived) -> None:
        self._derived = derived
        self.landed: deque[WriteBatch] = deque()
        self.doomed: deque[Doomed] = deque()
        self.told = 0

    def land(self, writer: LogWriter, segment: Segment, start: int, end: int, touched: dict[QueueLog, int]) -> None:
        """Add a piece of the log that was found."""
        batch = WriteBatch(writer, segment, start, end, parts=[], touched=touched, store_timestamp=0)
        batch.taken = batch.done = True
        self.landed.append(batch)

    def landed_to(self, position: int) -> int:
        """The end of what is flushed, in whole batches, up to `position`; 0 if that is none."""
        reached = 0
        for batch in self.landed:
            if batch.kept > position:
                break
            reached = batch.kept
        return reached

    def doom(self, queue: QueueLog, position: int) -> None:
        """Take a queue out of the table; its files stay until the log is committed up to `position`."""
        self._derived.table.take_out(queue)
        self._await(queue, position)

    def _await(self, queue: QueueLog, position: int) -> None:
        place = len(self.doomed)
        while place and self.doomed[place - 1].position > position:
            place -= 1
        self.doomed.insert(place, Doomed(position, queue))

    def bury(self, committed: int) -> None:
        """Delete the queues whose deletion is committed now."""
        gone = list[QueueLog]()
        while self.doomed and self.doomed[0].position <= committed:
            gone.append(self.doomed.popleft().queue)
        if gone:
            self._derived.remove_queues(gone)

    def forget_below(self, deleted: Mapping[str, int], *, replicated: bool) -> list[str]:
        """See MessageStore.forget_deleted. A replica's queues go, and others of their names may come."""
        table, found = self._derived.table, dict[str, None]()
        for topic, position in deleted.items():
            for queue in table.of_topic(topic):
                if not queue.max_offset or not table.ends_below(queue, position):
                    continue
                if replicated:
                    table.take_out(queue)
                    self._derived.remove_queues([queue])
                else:
                    self._derived.empty(queue)
                found[topic] = None
        if replicated:
            self._bury_below(deleted)
        return list(found)

    def _bury_below(self, deleted: Mapping[str, int]) -> None:
        """These topics were deleted at these positions, which are committed: what ends below does not come back.

        A queue of which nothing was ever committed has no files; those of its name are another one's, which may.
        """
        table = self._derived.table
        gone = [
            doomed
            for doomed in self.doomed
            if doomed.queue.topic in deleted
            and doomed.queue.max_offset
            and table.ends_below(doomed.queue, deleted[doomed.queue.topic])
        ]
        for doomed in gone:
            self.doomed.remove(doomed)
        self._derived.remove_queues([doomed.queue for doomed in gone])

    def went_to(self, topic: str, ends: Sequence[int], below: int) -> None:
        """See MessageStore.queues_went_to. Of a queue that may come back the log has messages: one that began in its
        place would take its files along when it goes."""
        table, pairs = self._derived.table, zip(ends[::2], ends[1::2], strict=True)
        unknown = [(queue, end) for each, end in pairs if not (queue := table.get(topic, each)).max_offset]
        doomed = {each.queue.queue_id for each in self.doomed if each.queue.topic == topic} if unknown else set[int]()
        for queue, end in unknown:
            if queue.queue_id in doomed:
                continue
            if not queue.next_offset:
                queue.start_at(end, end)
            elif not queue.tail_start and (begun := UNIT.unpack_from(queue.tail)[0]) >= below:
                self._precede(queue, begun, end)

    def _precede(self, queue: QueueLog, begun: int, end: int) -> None:
        """A queue has begun again at offset 0, with the record at `begun`: the one before it, which had ended at `end`,
        goes with that, and comes back if that is cut."""
        before = self._derived.table.make(queue.topic, queue.queue_id)
        before.start_at(end, end)
        before.deleted = DOOMED
        self._await(before, begun + 1)

    def take(self, plan: QueuePlan) -> None:
        """Let queues begin, and begin again, as planned."""
        for position, queue, again in plan.reborn:
            self.doom(queue, position + 1)
            self._derived.table.put(again)
        for queue, offset in plan.begun.items():
            queue.start_at(offset, offset)

    @contextmanager
    def all_or_none(self, log: CommitLog) -> Iterator[None]:
        """Take back what was appended within, all in this call, if a further part of it is refused."""
        begin = log.end_position
        try:
            yield
        except (StoreFull, RecordTooLarge):
            if log.end_position > begin:
                self.cut(log, begin)
            raise

    def cut(self, log: CommitLog, at: int) -> None:
        """Take back everything at or above `at`. Parts, and `kept` of batches, are the log's matter, `touched` of all
        of them is put right here."""
        batches, touched = [batch for batch in log.pending if batch.kept > at], log.touched
        while self.landed and self.landed[-1].start >= at:
            batches.append(self.landed.pop())
        if self.landed and self.landed[-1].kept > at:
            self.landed[-1].kept = at
            batches.append(self.landed[-1])
        queues = dict.fromkeys(touched)
        for batch in batches:
            queues.update(dict.fromkeys(batch.touched))
        while self.doomed and self.doomed[-1].position > at:
            self._derived.table.put_back(self.doomed.pop().queue)
        for queue in queues:
            if queue.deleted != DELETED:
                queue.cut(at)
        for batch in batches:
            batch.touched = _kept(batch.touched, batch.start)
        still = _kept(touched, log.batch_start)
        touched.clear()
        touched.update(still)
        self._derived.extract.cut(at)
        log.cut(at)


def _kept(touched: dict[QueueLog, int], start: int) -> dict[QueueLog, int]:
    """The queues that still have a unit at or above `start`, and their ends."""
    return {
        queue: min(end, queue.next_offset)
        for queue, end in touched.items()
        if queue.deleted != DELETED and queue.holds(start)
    }


def recover_uncommitted(
    derived: Derived, writer: LogWriter, root: str, *, segments: list[Segment], start: int, end: int
) -> Uncommitted:
    """What a log that was just opened holds from `start` to its end, as if it had been appended and flushed now.

    The files of queues may hold units of these records: they were committed, and the checkpoint that says so was lost.

    Raises: StoreDamaged for a record that is not its queue's next one.
    """
    found = Uncommitted(derived)
    from_start = not segments[0].start
    seen: set[tuple[bytes, int]] = set()
    for segment in segments:
        if segment.end <= start or segment.start >= end:
            continue
        at = first = max(start, segment.start)
        touched: dict[QueueLog, int] = {}
        for record in scan_records(segment.view, segment.start, at - segment.start, writer.checkpoint.value.bare_end):
            if isinstance(record, ScanEnd):
                at = segment.end if record.reason is None else at
                break
            if (record.topic, record.queue_id) not in seen:
                seen.add((record.topic, record.queue_id))
                derived.table.go_back(record.topic.decode(), record.queue_id, start)
            try:
                plan = plan_run([record], derived.table, from_start=from_start)
            except RecordError as error:
                raise StoreDamaged(segment.path, record.position - segment.start, str(error), root) from error
            found.take(plan)
            queue = plan.placed[0][1]
            units = note_record(record, queue, derived.extract)
            if queue is not None and units is not None:
                touched[queue] = units
            at = record.position + record.size
            if at - first >= _PIECE_BYTES:
                found.land(writer, segment, first, at, touched)
                first, touched = at, {}
        if at > first:
            found.land(writer, segment, first, at, touched)
    return found
