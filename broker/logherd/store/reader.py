"""Reading committed messages: by queue offset, by position, by time, by key."""

import errno
from collections.abc import Iterable
from itertools import islice
from struct import Struct

from logherd.model.record import MAGIC_V1, MAGIC_V2, RecordError, SysFlag, check_record, is_whole
from logherd.store.consume_queue import UNIT, UNIT_SIZE, QueueLog
from logherd.store.errors import StoreDamaged
from logherd.store.files import Buffer
from logherd.store.log import CommitLog
from logherd.store.queue_files import queue_directory
from logherd.store.queues import QueueTable
from logherd.store.read import ReadResult, ReadStatus
from logherd.store.readable import LatelyRead, Unreadable
from logherd.store.scan import find_record
from logherd.store.writer import NO_DESCRIPTOR

__all__ = ["INDEX_ENTRIES_MAX", "NOT_NOW", "QueueReader"]

SCANNED_UNITS_MAX = 800
"""Units that one read looks at when a filter lets few of them pass; RocketMQ's maxFilterMessageSize. As many damaged
ones in a row does a search by time pass over."""

_FRESH_BYTES = 256 << 20
"""Far less than a machine forgets of what it has just written."""

_SEARCH_BYTES = 4 << 20

RECORD_BYTES_MAX = 64 << 20
"""Four times what a frame holds. A message may hold what looks like the head of a larger one, up to the file's end,
which the loop would read and compare with a checksum for whoever names its place."""
INDEX_ENTRIES_MAX = 200_000
"""Most entries of the key index that one query looks at: some tenths of a second, in which nothing else is done."""

NOT_NOW = (*NO_DESCRIPTOR, errno.ENOMEM)
"""What a read that may be repeated meets where the system has no descriptor or memory for it at the moment."""

_I32 = Struct(">i")
_I64 = Struct(">q")
_PLACE = Struct(">i4xqq")
_PLACE_AT = 12  # the record's queue id, flag, queue offset and position
_BLANK_HEAD = 8
_HEAD_SIZE = 76  # up to and with the store timestamp, whatever the born host


class QueueReader:
    """Reads of the owner thread. Slices are taken from the log's mappings, never copied.

    What may come from the disk is compared with its checksums whenever it is read, and with the unit that led to it, so
    that damage is told and never served, and no message is passed over. That is what this process did not write itself,
    and what it wrote some time ago: closed segments, and all but the newest bytes of the last one. Those still lie in
    the page cache as they were checksummed, and are what nearly all reads are about.
    """

    __slots__ = ("_bare_end", "_directory", "_found", "_found_end", "_lately_read", "_log", "_table")

    def __init__(self, log: CommitLog, table: QueueTable, directory: str) -> None:
        """Made when the store is opened: the queues in `table` hold what was found in `directory`."""
        self._log = log
        self._table = table
        self._directory = directory
        self._bare_end = log.bare_end
        self._found_end = log.end_position
        self._lately_read = LatelyRead()
        self._found = {queue: queue.next_offset for queue in table if queue.next_offset}

    @property
    def suspect_below(self) -> int:
        """What lies below this position may be read from the disk."""
        log = self._log
        return max(self._found_end, log.active.start, log.end_position - _FRESH_BYTES, log.cached_from)

    def read(
        self, queue: QueueLog, offset: int, *, messages_max: int, bytes_max: int, tag_codes: frozenset[int] | None
    ) -> ReadResult:
        """See MessageStore.read."""
        low, high = queue.min_offset, queue.max_offset
        if not low <= offset < high:
            return _outside(offset, low, high)
        slices: list[memoryview] = []
        count = total = 0
        next_offset, run_start, run_end = offset, 0, -1
        last_offset = min(high, offset + (messages_max if tag_codes is None else SCANNED_UNITS_MAX))
        full = False
        found, suspect_below = offset < self._found.get(queue, 0), self.suspect_below
        while next_offset < last_offset and not full:
            for position, size, code in UNIT.iter_unpack(
                self._table.units(queue, next_offset, last_offset - next_offset)
            ):
                if tag_codes is None or code in tag_codes:
                    if count and (total + size > bytes_max or count >= messages_max):
                        full = True
                        break
                    if (found or position < suspect_below) and not self._is_proven(
                        queue, next_offset, position, size, first=not count
                    ):
                        full = True
                        break
                    if position != run_end:
                        if run_end >= 0:
                            self._add(slices, run_start, run_end)
                        run_start = position
                    run_end = position + size
                    total += size
                    count += 1
                next_offset += 1
        if run_end >= 0:
            self._add(slices, run_start, run_end)
        status = ReadStatus.FOUND if count else ReadStatus.NO_MATCH
        return ReadResult(status, slices, next_offset, low, high, count)

    def _add(self, slices: list[memoryview], start: int, end: int) -> None:
        view = self._log.view(start, end - start)
        if view is not None:
            slices.append(view)

    def _is_proven(self, queue: QueueLog, offset: int, position: int, size: int, *, first: bool) -> bool:
        """Does the unit name a whole record, as it was written, that is this queue's message of this offset?

        Raises: StoreDamaged if it does not and nothing was read before it: what is whole is served up to the damage.
        """
        place = (queue.queue_id, offset, position)
        try:
            self.touch(position, size)
            view = self._log.view(position, size) if size > _HEAD_SIZE else None
            if view is not None and is_whole(view) and _PLACE.unpack_from(view, _PLACE_AT) == place:
                return True
            self._prove(queue, offset, position, view, size)
        except StoreDamaged:
            if first:
                raise
            return False
        return True

    def _prove(self, queue: QueueLog, offset: int, position: int, view: memoryview | None, size: int) -> None:
        if view is None:
            raise self._unit_damaged(queue, offset, f"it names {size} bytes at position {position}")
        try:
            check_record(view, position, bare=position < self._bare_end)
        except RecordError as error:
            what = f"{error}; message {offset} of queue {queue.queue_id} of {queue.topic} should be there"
            raise self._log.damaged(position, what) from error
        if _PLACE.unpack_from(view, _PLACE_AT) != (queue.queue_id, offset, position):
            raise self._unit_damaged(queue, offset, f"at position {position} is another message")

    def _unit_damaged(self, queue: QueueLog, offset: int, what: str) -> StoreDamaged:
        path = queue_directory(self._directory, queue.topic, queue.queue_id)
        return StoreDamaged(path, offset * UNIT_SIZE, f"the unit of message {offset} is wrong: {what}", self._directory)

    def record_at(self, position: int, committed: int) -> memoryview | None:
        """The record that begins at `position`, None if none does or it is not committed. Raises: StoreDamaged."""
        if not 0 <= position <= committed - 91:
            return None
        suspect = position < self.suspect_below
        if suspect:
            self.touch(position, 36)
        head = self._log.view(position, 36)
        if head is None:
            return None
        size = _I32.unpack_from(head)[0]
        magic = int.from_bytes(head[4:8])
        if magic not in (MAGIC_V1, MAGIC_V2) or _I64.unpack_from(head, 28)[0] != position:
            return None
        if not 91 <= size <= RECORD_BYTES_MAX or position + size > committed:
            return None
        if suspect:
            self.touch(position, size)
        record = self._log.view(position, size)
        if record is not None and suspect:
            try:
                check_record(record, position, bare=position < self._bare_end)
            except RecordError as error:
                raise self._log.damaged(position, str(error)) from error
        return record

    def read_raw(self, after: int, bytes_max: int) -> tuple[Buffer, int]:
        """See MessageStore.read_raw."""
        suspect_below = self.suspect_below
        if after < suspect_below:
            self.touch(after, min(bytes_max + _BLANK_HEAD, self._log.end_position - after))
        data, end = self._log.read_raw(after, bytes_max)
        if after < suspect_below:
            self.touch(after, len(data))
            self._check_raw(data, after, suspect_below)
        return data, end

    def touch(self, position: int, size: int) -> None:
        """Have the disk give bytes of the log before they are touched in the mapping, as far as they are in one file.
        Raises: StoreDamaged if it does not; OSError."""
        if self._lately_read.has_just(position, size):
            return
        segment = self._log.segment_of(position)
        if segment is None:
            return
        at = position - segment.start
        try:
            segment.ensure_mappable()
            self._lately_read.ensure(segment.file, segment.start, segment.size, at, min(at + size, segment.size))
        except Unreadable as error:
            raise self._log.damaged(segment.start + error.at, str(error)) from error

    def _check_raw(self, data: Buffer, position: int, suspect_below: int) -> None:
        """Compare records, as they lie in the log from `position` on, with their checksums, as far as they may come
        from the disk. Raises: StoreDamaged."""
        view, at = memoryview(data), 0
        while position + at < suspect_below and at < len(view) - _BLANK_HEAD:
            size = _I32.unpack_from(view, at)[0]
            try:
                check_record(view[at : at + size], position + at, bare=position + at < self._bare_end)
            except RecordError as error:
                raise self._log.damaged(position + at, str(error)) from error
            at += size

    def store_timestamp(self, queue: QueueLog, offset: int) -> int | None:
        """When the message was stored (ms), None if the queue has no such message, or it is damaged."""
        if not queue.min_offset <= offset < queue.max_offset:
            return None
        return self.proven_timestamp(self._table.unit(queue, offset)[0])

    def position_timestamp(self, position: int) -> int | None:
        """Store timestamp of the committed record at a position that is known to begin one. Raises: StoreDamaged if the
        disk does not give it."""
        if position < self.suspect_below:
            self.touch(position, _HEAD_SIZE)
        head = self._log.view(position, _HEAD_SIZE)
        if head is None:
            return None
        at = 68 if _I32.unpack_from(head, 36)[0] & SysFlag.BORN_HOST_V6 else 56
        timestamp: int = _I64.unpack_from(head, at)[0]
        return timestamp

    def proven_timestamp(self, position: int) -> int | None:
        """The same of a record that is as it was written, None of another: nothing is to be decided by its time."""
        try:
            record = self.record_at(position, self._log.end_position)
        except StoreDamaged:
            return None
        return None if record is None else self.position_timestamp(position)

    def stored_between(
        self, entries: Iterable[int | None], begin: int, end: int, *, max_count: int
    ) -> list[int]:  # fmt: skip
        """See MessageStore.query_index: the positions among the entries."""
        found: dict[int, None] = {}
        for position in islice(entries, INDEX_ENTRIES_MAX):
            if len(found) >= max_count:
                break
            if position is not None and self._may_be_of(position, begin, end):
                found[position] = None
        return list(found)

    def _may_be_of(self, position: int, begin: int, end: int) -> bool:
        """Whether a record was stored in [begin, end], or is damaged and may have been: who reads it meets that."""
        try:
            stored = self.position_timestamp(position)
        except StoreDamaged:
            return True
        return stored is not None and (begin <= stored <= end or self.proven_timestamp(position) is None)

    def first_timestamp(self, start: int) -> int | None:
        """Store timestamp of the first record that is as it was written in the segment that begins at `start`, where a
        committed record is known to begin; None if a damaged part is too long to look behind it, or if there is no
        descriptor or memory now to look at all. Raises: OSError from the disk."""
        try:
            return self._first_timestamp(start)
        except OSError as error:
            if error.errno not in NOT_NOW:
                raise
            return None

    def _first_timestamp(self, start: int) -> int | None:
        stored, segment = self.proven_timestamp(start), self._log.segment_of(start)
        if stored is None and segment is not None and segment.is_mappable:
            found = find_record(
                segment.view, start, 0, min(_SEARCH_BYTES, segment.size), bare_end=self._bare_end,
                readable=segment.readable,
            )  # fmt: skip
            stored = None if found is None else found.store_timestamp
        return stored

    def offset_by_time(self, queue: QueueLog, timestamp: int, *, upper: bool) -> int:
        """See MessageStore.offset_by_time."""
        low, high = queue.min_offset, queue.max_offset
        first = low
        while low < high:
            middle = whole = (low + high) // 2
            last = min(high, middle + SCANNED_UNITS_MAX) - 1
            # Of a damaged message only its place is known: it was stored before those behind it. Behind very many of
            # them nothing is looked for, and the search goes on before them.
            while (stored := self.store_timestamp(queue, whole)) is None and whole < last:
                whole += 1
            if stored is not None and (stored <= timestamp if upper else stored < timestamp):
                low = whole + 1
            else:
                high = middle
        return max(low - 1, first) if upper else low


def _outside(offset: int, low: int, high: int) -> ReadResult:
    """RocketMQ's answers for an offset without a message, and where it sends the consumer."""
    if high == 0:
        status, next_offset = ReadStatus.QUEUE_EMPTY, 0
    elif offset < low:
        status, next_offset = ReadStatus.TOO_SMALL, low
    elif offset == high:
        status, next_offset = ReadStatus.AT_END, offset
    else:
        status, next_offset = ReadStatus.BEYOND_END, high
    return ReadResult(status, [], next_offset, low, high, 0)
