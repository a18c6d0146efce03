"""`logherd store verify`: read a closed store in full and say what is there and what is wrong. Changes nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from logherd.store.checkpoint import Checkpoint
from logherd.store.consume_queue import UNIT, UNIT_SIZE
from logherd.store.errors import StoreInUse
from logherd.store.extract import has_unit
from logherd.store.files import Files
from logherd.store.format_file import FORMAT_BYTES_MAX, FormatState, decode_format, format_path
from logherd.store.index_file import ENTRY_SIZE, HEADER_SIZE, IndexFile, index_timestamp
from logherd.store.index_set import index_directory
from logherd.store.queue_files import FileCache, queue_directory, queue_file_name
from logherd.store.queue_list import QueueEntry, QueueListDamaged, read_queue_list
from logherd.store.readable import Unreadable, ensure_readable, is_unreadable, read_or_empty
from logherd.store.scan import ScanEnd, Scanned, find_record, scan_records
from logherd.store.segment import Segment, segment_start

__all__ = ["FileReport", "VerifyReport", "listed_queues", "open_segments", "scan_log", "verify_files"]

_PROBLEMS_MAX = 20
_ZEROS = "zeros where a record should be"


@dataclass(slots=True)
class FileReport:
    """One row: a file, or a queue with all its files. `first` and `last` are positions of records, -1 if none."""

    path: str
    kind: str
    records: int = 0
    first: int = -1
    last: int = -1
    problems: list[str] = field(default_factory=list)

    def add(self, position: int) -> None:
        self.records += 1
        self.first = position if self.first < 0 else self.first
        self.last = position

    def blame(self, problem: str) -> None:
        """Note a problem; the first few of a file are enough."""
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """All rows. `end_position` is where the whole records end (bytes)."""

    rows: tuple[FileReport, ...]
    end_position: int

    @property
    def whole(self) -> bool:
        return not any(row.problems for row in self.rows)


def open_segments(files: Files, root: str) -> list[Segment]:
    """Segments as they lie there, without any judgement."""
    directory = f"{root}/commitlog"
    starts = [start for name in files.list(directory) if (start := segment_start(name)) is not None]
    return [
        Segment(files, directory, start, size)
        for start in starts if (size := files.size(f"{directory}/{start:020d}"))
    ]  # fmt: skip


def scan_log(segments: list[Segment], reports: list[FileReport], bare_end: int) -> Iterator[Scanned]:
    """All whole records of the log, also behind damage; what lies between goes into the reports of the segments."""
    empty: list[tuple[FileReport, int]] = []
    for segment, report in zip(segments, reports, strict=True):
        at = 0
        while at < segment.size:
            for found in scan_records(segment.view, segment.start, at, bare_end, segment.readable):
                if isinstance(found, Scanned):
                    while empty:
                        before, byte = empty.pop()
                        before.blame(f"byte {byte}: {_ZEROS}; whole records follow in a later file")
                    report.add(found.position)
                    yield found
                else:
                    at = _behind(segment, found, report, bare_end)
                    if found.reason == "" and at == segment.size:
                        empty.append((report, found.offset))


def _behind(segment: Segment, end: ScanEnd, report: FileReport, bare_end: int) -> int:
    """The byte in the file at which the scan goes on behind what is no record; its size if nothing follows."""
    if end.reason is None:
        return segment.size
    following = None
    for start, stop in segment.file.written_ranges(end.offset + 1):
        following = find_record(
            segment.view, segment.start, start, min(stop, segment.size), bare_end=bare_end, readable=segment.readable
        )  # fmt: skip
        if following is not None:
            break
    if following is not None:
        what = end.reason or _ZEROS
        report.blame(f"bytes {end.offset} to {following.position - segment.start}: {what}; whole records follow")
        return following.position - segment.start
    if end.reason:
        report.blame(f"byte {end.offset}: {end.reason}; no whole record follows")
    return segment.size


def listed_queues(files: Files, root: str) -> list[QueueEntry]:
    """Live queues of the list, the last line of each. Raises QueueListDamaged; an absent list is empty."""
    if files.size(f"{root}/queues") is None:
        return []
    file = files.open(f"{root}/queues")
    try:
        entries = {(entry.topic, entry.queue_id): entry for entry in read_queue_list(file)}
    finally:
        file.close()
    return [entry for entry in entries.values() if entry.live]


class _Queues:
    """Compares units with records as these pass."""

    def __init__(self, files: Files, root: str, units_per_file: int, dispatched: int) -> None:
        self._cache = FileCache(files, 256)
        self._root = root
        self._units = units_per_file
        self._dispatched = dispatched
        self._next: dict[tuple[str, int], int] = {}
        self.reports: dict[tuple[str, int], FileReport] = {}

    def take(self, record: Scanned) -> None:
        if not has_unit(record.sys_flag) or record.position >= self._dispatched:
            return
        topic = record.topic.decode()
        directory = queue_directory(self._root, topic, record.queue_id)
        key = (topic, record.queue_id)
        report = self.reports.get(key)
        if report is None or record.queue_offset < self._next[key]:  # a deleted topic began anew: no unit names the old
            report = self.reports[key] = FileReport(directory, "queue")
        self._next[key] = record.queue_offset + 1
        report.add(record.position)
        within = record.queue_offset % self._units
        try:
            file = self._cache.get(f"{directory}/{queue_file_name(record.queue_offset - within)}")
        except FileNotFoundError:
            report.blame(f"the file of unit {record.queue_offset} is missing")
            return
        try:
            data = file.read(within * UNIT_SIZE, UNIT_SIZE)
        except OSError as error:
            if not is_unreadable(error):
                raise
            report.blame(f"unit {record.queue_offset} cannot be read: {error.strerror}")
            return
        if len(data) < UNIT_SIZE or UNIT.unpack(data)[:2] != (record.position, record.size):
            report.blame(f"unit {record.queue_offset} does not name the record at position {record.position}")

    def compare(self, entries: list[QueueEntry]) -> None:
        """Blame deleted queues' records on nobody, nor those of a queue that began anew and is empty since."""
        listed = {(entry.topic, entry.queue_id) for entry in entries if entry.units}
        for key in list(self.reports):
            if key not in listed:
                del self.reports[key]


def verify_files(
    files: Files, root: str, *, checkpoint: Checkpoint | None, units_per_file: int, index_slots: int,
    seen: Callable[[int, int], None] = lambda _done, _of: None,
) -> VerifyReport:  # fmt: skip
    """See tools.verify. Raises StoreInUse, OSError."""
    lock = files.lock(f"{root}/lock")
    if lock is None:
        raise StoreInUse(f"another process holds {root}/lock")
    try:
        return _verify(
            files, root, checkpoint=checkpoint, units_per_file=units_per_file, index_slots=index_slots, seen=seen
        )
    finally:
        lock.release()


def _verify(
    files: Files, root: str, *, checkpoint: Checkpoint | None, units_per_file: int, index_slots: int,
    seen: Callable[[int, int], None],
) -> VerifyReport:  # fmt: skip
    segments = open_segments(files, root)
    reports = [FileReport(segment.path, "segment") for segment in segments]
    bare_end = checkpoint.bare_end if checkpoint is not None else 1 << 62
    queues = _Queues(files, root, units_per_file, checkpoint.queues_dispatched if checkpoint is not None else 0)
    end = start = segments[0].start if segments else 0
    size = segments[-1].end - start if segments else 0
    for record in scan_log(segments, reports, bare_end):
        end = record.position + record.size
        seen(end - start, size)
        queues.take(record)
    if segments and checkpoint is not None and segments[0].start > checkpoint.log_start:
        reports[0].blame(f"the log should begin at position {checkpoint.log_start}: files are missing before this one")
    for segment, following, report in zip(segments[:-1], segments[1:], reports[:-1], strict=True):
        if following.start != segment.end:
            report.blame(f"the next file begins at {following.start}, this one ends at {segment.end}")
    rows = list(reports)
    list_report = FileReport(f"{root}/queues", "queue list")
    try:
        entries = listed_queues(files, root)
        list_report.records = len(entries)
        queues.compare(entries)
    except QueueListDamaged as error:
        list_report.blame(str(error))
    rows += _format_rows(files, root)
    rows.append(_checkpoint_row(root, checkpoint, end, {segment.end for segment in segments}))
    if checkpoint is not None:
        rows += [list_report, *queues.reports.values()]
        rows += [_index_row(files, root, name, index_slots) for name in files.list(index_directory(root))]
    for segment in segments:
        segment.close()
    return VerifyReport(tuple(rows), end)


def _format_rows(files: Files, root: str) -> list[FileReport]:
    """A row for store.json if a broker would not open the store because of it."""
    path = format_path(root)
    data = read_or_empty(files, path, FORMAT_BYTES_MAX)
    state, _ = decode_format(data)
    if state in (FormatState.KNOWN, FormatState.ABSENT):
        return []
    report = FileReport(path, "format")
    garbage = "no store wrote this" if data or not files.size(path) else "it cannot be read"
    report.blame(garbage if state is FormatState.GARBAGE else "it names the format of a later release")
    return [report]


def _checkpoint_row(root: str, checkpoint: Checkpoint | None, end: int, ends: set[int]) -> FileReport:
    report = FileReport(f"{root}/checkpoint", "checkpoint")
    if checkpoint is None:
        report.blame("no whole slot of ours: a RocketMQ store, or a checkpoint that is lost or cannot be read")
    elif checkpoint.flushed > end and checkpoint.flushed not in ends:  # behind a blank the promise ends with the file
        report.blame(f"flushed up to position {checkpoint.flushed}, whole records end at {end}")
    return report


def _index_row(files: Files, root: str, name: str, slots: int) -> FileReport:
    report = FileReport(f"{index_directory(root)}/{name}", "index")
    number = index_timestamp(name)
    size = files.size(report.path) or 0
    if number is None or size < HEADER_SIZE + 4 * slots:
        report.blame(f"no index file of {slots} slots: {size} bytes")
        return report
    try:
        ensure_readable(files, report.path, size)
    except Unreadable as error:
        report.blame(str(error))
        return report
    file = IndexFile.open(files, index_directory(root), number, slots=slots, writable=False)
    report.records = file.count - 1
    report.first, report.last = file.begin_position, file.end_position
    if size < file.size_needed(file.count):
        report.blame(f"the header says {file.count - 1} entries, {size} bytes are too few")
    previous_position = -1
    for number in range(1, min(file.count, (size - file.size_needed(0)) // ENTRY_SIZE)):
        _, position, _, previous = file.entry(number)
        if previous >= number or position < previous_position:
            report.blame(f"entry {number} names position {position} and entry {previous}")
        previous_position = position
    file.close()
    return report
