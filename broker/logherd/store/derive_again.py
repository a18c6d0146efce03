"""Bringing the derived files up to the log when a store is opened: from the checkpoint on, or all of them anew."""

from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from msgspec.structs import replace

from logherd.store.checkpoint import Checkpoint
from logherd.store.consume_queue import UNIT_SIZE
from logherd.store.derived import Derived
from logherd.store.errors import StoreDamaged, StoreFull
from logherd.store.files import Files
from logherd.store.index_set import IndexDamaged, index_directory
from logherd.store.queue_files import queue_directory, queue_file_name, queues_directory
from logherd.store.queue_list import QueueEntry, QueueList, QueueListDamaged, read_queue_list
from logherd.store.readable import Readable, Unreadable
from logherd.store.recovery_rows import DERIVED_ROWS, DerivedAction, Row, choose
from logherd.store.replay import QueueJump, Replay
from logherd.store.scan import ScanEnd, scan_records
from logherd.store.segment import Segment
from logherd.store.writer import LogWriter

__all__ = ["DerivedReport", "derive_again", "throw_away"]

_SEALED_RECORDS = 50_000

MakeDerived = Callable[[QueueList], Derived]


@dataclass(frozen=True, slots=True)
class DerivedReport:
    """Which row decided, why in detail if it was damage, and how many records were derived again."""

    row: Row[DerivedAction]
    detail: str
    records: int


class _NotWhole(Exception):
    """The derived files cannot be continued; the message says why."""


def derive_again(
    files: Files, root: str, *, writer: LogWriter, segments: list[Segment], end: int, checkpoint: Checkpoint | None,
    same_geometry: bool, queue_file_units: int, make: MakeDerived, opened: ExitStack,
) -> tuple[Derived, DerivedReport]:  # fmt: skip
    """Derived files that hold every record below the position `end`, or have them in memory until they are written.

    `opened` closes what was opened, if it comes to nothing.

    Raises: StoreDamaged if the log itself cannot be read to its end; OSError.
    """
    within = checkpoint is not None and max(checkpoint.queues_dispatched, checkpoint.index_dispatched) <= end
    facts = {
        "checkpoint": checkpoint is not None, "geometry": same_geometry, "within_log": within, "files_whole": True,
    }  # fmt: skip
    detail = ""
    if checkpoint is not None and choose(DERIVED_ROWS, facts).action is DerivedAction.CONTINUE:
        try:
            with ExitStack() as tried:
                derived, records = _continue(
                    files, root, checkpoint, segments=segments, end=end, queue_file_units=queue_file_units, make=make,
                    writer=writer, opened=tried,
                )  # fmt: skip
                tried.pop_all()
            return derived, DerivedReport(choose(DERIVED_ROWS, facts), detail, records)
        except (_NotWhole, QueueListDamaged, IndexDamaged, QueueJump) as error:
            detail = str(error)
    row = choose(DERIVED_ROWS, {**facts, "files_whole": False})
    derived, records = _rebuild(files, root, segments=segments, end=end, make=make, writer=writer, opened=opened)
    return derived, DerivedReport(row, detail, records)


def _continue(
    files: Files, root: str, checkpoint: Checkpoint, *, segments: list[Segment], end: int, queue_file_units: int,
    make: MakeDerived, writer: LogWriter, opened: ExitStack,
) -> tuple[Derived, int]:  # fmt: skip
    if files.size(f"{root}/queues") is None:
        raise _NotWhole("the list of queues is missing")
    file = files.open(f"{root}/queues")
    opened.callback(file.close)
    file.flush()  # what a killed process wrote last is believed below
    entries = {(entry.topic, entry.queue_id): entry for entry in read_queue_list(file)}
    live = [entry for entry in entries.values() if entry.live]
    gone = {key: entry.at for key, entry in entries.items() if not entry.live}
    emptied = frozenset(key for key, entry in entries.items() if not entry.units)
    _check_queue_files(files, root, live, queue_file_units, suspect=not checkpoint.closed)
    start = max(min(checkpoint.queues_dispatched, checkpoint.index_dispatched), segments[0].start)
    queue_list = QueueList(files, root, file, gone=gone)
    _remove_gone(files, root, gone)
    if gone and start == end:
        with suppress(StoreFull):  # the list as it is will do
            queue_list, live = QueueList.create(files, root, live)
            file.close()
    derived = make(queue_list)
    opened.callback(derived.close)
    for entry in live:
        queue = derived.table.get(entry.topic, entry.queue_id)
        queue.start_at(entry.first, entry.units)
        queue.entry_at = entry.at
    derived.index.load(checkpoint)
    replay = Replay(
        derived, queues_from=checkpoint.queues_dispatched, index_from=checkpoint.index_dispatched, emptied=emptied,
        complete=checkpoint.queues_dispatched <= segments[0].start,
    )  # fmt: skip
    _run(replay, derived, writer, root, segments=segments, start=start, end=end)
    _check_no_other_queues(files, root, derived, gone)
    return derived, replay.records


def _check_queue_files(
    files: Files, root: str, entries: list[QueueEntry], units_per_file: int, *, suspect: bool
) -> None:
    """Every queue has its files from its first to its last unit. `suspect`: the process before may have ended because
    the disk has lost the block into which a queue's next unit goes."""
    for entry in entries:
        if not entry.units:
            continue
        directory = queue_directory(root, entry.topic, entry.queue_id)
        last = (entry.units - 1) // units_per_file * units_per_file
        if last > entry.first:
            _check_earlier_files(files, directory, entry, units_per_file)
        path = f"{directory}/{queue_file_name(last)}"
        size = files.size(path)
        if size is None or size < (entry.units - last) * UNIT_SIZE:
            raise _NotWhole(f"{path} has {size} bytes, {entry.units - last} units should be in it")
        if suspect:
            _ensure_goes_on(files, path, (entry.units - last) * UNIT_SIZE)


def _ensure_goes_on(files: Files, path: str, at: int) -> None:
    """What lies in one block with byte `at`, before it, can be read, as the system does when it is written there."""
    file = files.open(path)
    try:
        Readable(file, at).ensure_block_before(at)
    except Unreadable as error:
        raise _NotWhole(f"{path}: {error}") from error
    finally:
        file.close()


def _check_earlier_files(files: Files, directory: str, entry: QueueEntry, units_per_file: int) -> None:
    starts = [int(name) // UNIT_SIZE for name in files.list(directory) if name.isdigit()]
    begin = entry.first - entry.first % units_per_file  # what lies before is left from a queue that was deleted
    starts = [start for start in starts if begin <= start < entry.units]
    if not starts or starts != list(range(starts[0], entry.units, units_per_file)):
        raise _NotWhole(f"{directory} lacks a file between its first and its last")
    for start in starts[:-1]:
        path = f"{directory}/{queue_file_name(start)}"
        if files.size(path) != units_per_file * UNIT_SIZE:
            raise _NotWhole(f"{path} has {files.size(path)} bytes, {units_per_file} units should be in it")
    if starts[0] > entry.first:
        raise _NotWhole(f"{directory} begins with unit {starts[0]}, should with {entry.first}")


def _remove_gone(files: Files, root: str, gone: Collection[tuple[str, int]]) -> None:
    """Finish deletions that a crash interrupted."""
    for topic, queue_id in sorted(gone):
        files.remove_directory(queue_directory(root, topic, queue_id))


def _check_no_other_queues(files: Files, root: str, derived: Derived, gone: Collection[tuple[str, int]]) -> None:
    for topic in files.list(queues_directory(root)):
        for name in files.list(f"{queues_directory(root)}/{topic}"):
            known = name.isdigit() and (derived.table.find(topic, int(name)) or (topic, int(name)) in gone)
            if not known:
                raise _NotWhole(f"the list of queues lacks {topic}/{name}, which has files")


def _rebuild(
    files: Files, root: str, *, segments: list[Segment], end: int, make: MakeDerived, writer: LogWriter,
    opened: ExitStack,
) -> tuple[Derived, int]:  # fmt: skip
    start = segments[0].start
    throw_away(files, root, writer=writer, start=start)
    queue_list, _ = QueueList.create(files, root, ())
    derived = make(queue_list)
    opened.callback(derived.close)
    replay = Replay(derived, queues_from=start, index_from=start, complete=True, emptied=frozenset())
    try:
        _run(replay, derived, writer, root, segments=segments, start=start, end=end)
    except QueueJump as jump:
        segment = next(segment for segment in segments if jump.position < segment.end)
        raise StoreDamaged(segment.path, jump.position - segment.start, str(jump), root) from jump
    return derived, replay.records


def throw_away(files: Files, root: str, *, writer: LogWriter, start: int) -> None:
    """Delete all derived files. First the checkpoint says, durably, that they hold nothing of a log that begins at
    position `start`, so that what a crash leaves of them is never continued. Raises: OSError."""
    writer.checkpoint.record(
        replace(
            writer.checkpoint.value, queues_dispatched=start, index_dispatched=start, index_name=0, index_count=0,
            index_used_slots=0, index_files=0,
        )
    )  # fmt: skip
    writer.checkpoint.sync()
    files.unlink(f"{root}/queues")
    files.sync_dir(root)
    for topic in files.list(queues_directory(root)):
        for name in files.list(f"{queues_directory(root)}/{topic}"):
            files.remove_directory(f"{queues_directory(root)}/{topic}/{name}")
        files.remove_directory(f"{queues_directory(root)}/{topic}")
    files.remove_directory(index_directory(root))


def _run(
    replay: Replay, derived: Derived, writer: LogWriter, root: str, *, segments: list[Segment], start: int, end: int
) -> None:
    """Give the records of [start, end) to `replay`, writing derived files as they grow."""
    bare_end = writer.checkpoint.value.bare_end
    for segment in segments:
        if segment.end <= start or segment.start >= end:
            continue
        at = max(start - segment.start, 0)
        for found in scan_records(segment.view, segment.start, at, bare_end, segment.readable):
            if isinstance(found, ScanEnd):
                if found.reason is not None and segment.start + found.offset < end:
                    what = found.reason or "zeros where a record should be"
                    raise StoreDamaged(segment.path, found.offset, what, root)
                break
            if found.position >= end:
                break
            replay.take(found)
            if replay.records % _SEALED_RECORDS == 0:
                derived.distrust_names()
                derived.seal()
                writer.run_tasks()
                if writer.tasks:
                    raise StoreFull(f"no room in {root} to derive queues and index from the log")
    derived.distrust_names()
    derived.position = end
