"""Opening a store: find out what is there, decide by the tables of `recovery_rows`, act.

The order makes a crash at any step harmless: nothing is changed before every refusal has been ruled out; a torn tail is
cut before anything is derived or appended; the checkpoint promises derived files only after they are flushed.
"""

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from msgspec.structs import replace

from logherd.kit.clock import Clock
from logherd.store.checkpoint import CHECKPOINT_SIZE, SLOT_VERSION, Checkpoint, decode_checkpoint, slot_version
from logherd.store.derive_again import DerivedReport, derive_again, throw_away
from logherd.store.derived import Derived
from logherd.store.errors import StoreDamaged, StoreFull, StoreInUse, StoreVersionError
from logherd.store.files import Files, Lock
from logherd.store.format_file import (
    FORMAT,
    FormatFile,
    FormatState,
    decode_format,
    format_path,
    wanted_format,
    write_format,
)
from logherd.store.log import CommitLog
from logherd.store.options import StoreOptions
from logherd.store.readable import Unreadable, is_unreadable
from logherd.store.recovery_rows import (
    STORE_ROWS,
    TAIL_ROWS,
    Fact,
    Row,
    Seen,
    SegmentAction,
    SlotState,
    StoreAction,
    TailAction,
    choose,
)
from logherd.store.scan import ScanEnd, scan_records
from logherd.store.segment import Segment, allocate_segment, segment_start
from logherd.store.segment_survey import SegmentSurvey, carry_out, survey_segments
from logherd.store.tail import cut_tail, look_behind, write_again
from logherd.store.uncommitted import Uncommitted, recover_uncommitted
from logherd.store.writer import CheckpointFile, LogWriter

__all__ = ["Look", "Recovered", "Recovery", "Tail", "find_tail", "look", "recover"]


_EVERYTHING = 1 << 62


@dataclass(frozen=True, slots=True)
class Look:
    """What the small files say, before the log is read."""

    row: Row[StoreAction]
    format: FormatFile | None
    checkpoint: Checkpoint | None
    first: int
    """The position that the oldest file of the log is named by; 0 without one."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the log ends: `position`, `behind` is the end of what lies behind it, `reason` why no record is there."""

    row: Row[TailAction]
    position: int
    behind: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening found and did, for the log and `status`. Positions and sizes in bytes.

    `store`, `tail` and `derived` are labels of the rows that decided; `notes` say the rest in sentences. Below
    `bare_end` records may be without a checksum of the whole: RocketMQ wrote them.
    """

    store: str
    tail: str
    derived: str
    end_position: int
    dropped_bytes: int
    derived_records: int
    notes: tuple[str, ...]
    bare_end: int = 0


@dataclass(slots=True)
class Recovered:
    """The parts of a store that is ready."""

    root: str
    lock: Lock
    log: CommitLog
    writer: LogWriter
    derived: Derived
    uncommitted: Uncommitted
    committed: int
    report: Recovery


def look(files: Files, root: str) -> Look:
    """Read format file and checkpoint. Raises StoreDamaged, StoreVersionError; changes nothing."""
    state, format_file = decode_format(_content(files, format_path(root), root))
    page = _content(files, f"{root}/checkpoint", root) or b""
    checkpoint = decode_checkpoint(page)
    version = slot_version(page)
    slot = SlotState.ABSENT if version is None else SlotState.GOOD if checkpoint is not None else SlotState.BAD
    if version is not None and version > SLOT_VERSION:
        slot = SlotState.UNKNOWN
    directory = f"{root}/commitlog"
    named = sorted((start, name) for name in files.list(directory) if (start := segment_start(name)) is not None)
    first = next((start for start, name in named if files.size(f"{directory}/{name}")), None)
    facts: dict[str, Fact] = {
        "format": state, "slot": slot,
        "segments": first is not None,
        "promised": checkpoint is not None and checkpoint.flushed > checkpoint.log_start,
    }  # fmt: skip
    row = choose(STORE_ROWS, facts)
    if row.action is StoreAction.REFUSE:
        path = format_path(root) if state is FormatState.GARBAGE else f"{root}/commitlog"
        raise StoreDamaged(path, 0, f"{row.label}: {row.reason}", root)
    if row.action is StoreAction.REFUSE_VERSION:
        found = f"checkpoint version {version}"
        if format_file is not None and state is FormatState.UNKNOWN:
            found = f"format {format_file.format}"
        raise StoreVersionError(
            f"{root} is of {found}, this release knows format {FORMAT} and checkpoint version {SLOT_VERSION}: "
            f"{row.reason}"
        )
    return Look(row, format_file, checkpoint, first or 0)


def _content(files: Files, path: str, root: str) -> bytes | None:
    size = files.size(path)
    if size is None:
        return None
    file = files.open(path)
    try:
        return file.read(0, min(size, max(CHECKPOINT_SIZE, 1 << 16)))
    except OSError as error:
        if not is_unreadable(error):
            raise
        raise StoreDamaged(path, 0, f"it cannot be read: {error.strerror}", root) from error
    finally:
        file.close()


def find_tail(segments: list[Segment], checkpoint: Checkpoint, root: str) -> Tail:
    """Verify what the checkpoint does not vouch for and decide where the log ends; nothing is changed.

    Raises: StoreDamaged.
    """
    start = max(min(checkpoint.queues_dispatched, checkpoint.index_dispatched), segments[0].start)
    position, reason, finished = start, "", False
    for segment in segments:
        if segment.end <= start:
            continue
        at = max(start - segment.start, 0)
        _ensure_block_before(segment, at, root)
        for found in scan_records(segment.view, segment.start, at, checkpoint.bare_end, segment.readable):
            if isinstance(found, ScanEnd):
                position, reason = segment.start + found.offset, found.reason or ""
                finished = found.reason is not None
        if finished:
            break
    zeros = not reason
    if checkpoint.closed and zeros and position == checkpoint.flushed:
        row = choose(TAIL_ROWS, {"promised": False, "behind": Seen.NOTHING, "zeros": True})
        return Tail(row, position, position, reason)
    behind, end = look_behind(segments, position, checkpoint.reach(position), bare_end=checkpoint.bare_end)
    row = choose(TAIL_ROWS, {"promised": position < checkpoint.flushed, "behind": behind, "zeros": zeros})
    if row.action is TailAction.REFUSE:
        segment = next((segment for segment in segments if position < segment.end), segments[-1])
        raise StoreDamaged(
            segment.path, position - segment.start,
            f"{row.label}: {reason or 'zeros where a record should be'}; {row.reason} (flushed up to position "
            f"{checkpoint.flushed}; behind it: {behind.value}, up to {end})", root,
        )  # fmt: skip
    return Tail(row, position, end, reason)


def _ensure_block_before(segment: Segment, at: int, root: str) -> None:
    """What is written at byte `at` next, or cut there, goes into a block with records, which must not be lost by it.

    Raises: StoreDamaged.
    """
    try:
        segment.readable.ensure_block_before(at)
    except Unreadable as error:
        raise StoreDamaged(segment.path, error.at, f"{error}; records were flushed there", root) from error


def recover(root: str, options: StoreOptions, files: Files, *, clock: Clock) -> Recovered:
    """See MessageStore.open."""
    _make_root(files, root)
    lock = files.lock(f"{root}/lock")
    if lock is None:
        raise StoreInUse(f"another process holds {root}/lock")
    with ExitStack() as opened:
        opened.callback(lock.release)
        recovered = _recover(root, options, files, clock=clock, lock=lock, opened=opened)
        opened.pop_all()
    return recovered


def _make_root(files: Files, root: str) -> None:
    """Make the directory and its name durable; an earlier process may have died between the two."""
    parent, _, name = root.rpartition("/")
    new_parents = []
    while parent and name not in files.list(parent):
        new_parents.append(parent)
        parent, _, name = parent.rpartition("/")
    files.make_directory(root)
    for path in dict.fromkeys((*reversed(new_parents), root.rpartition("/")[0])):
        files.sync_dir(path or "/")


def _recover(
    root: str, options: StoreOptions, files: Files, *, clock: Clock, lock: Lock, opened: ExitStack
) -> Recovered:
    """`opened` closes what was opened, if it comes to nothing."""
    found = look(files, root)
    checkpoint = _believed(found, options)
    known = found.format.segment_bytes if found.format is not None else ()
    survey = survey_segments(files, root, checkpoint=checkpoint, known_sizes=known, replicated=options.replicated)
    whole = [Segment(files, f"{root}/commitlog", file.start, file.size) for file in survey.kept() if file.size]
    try:
        tail = find_tail(whole, checkpoint, root) if whole else None
    finally:
        for segment in whole:
            segment.close()
    # From here on files are changed: every refusal that needs no derived file has been ruled out.
    if found.row.action is StoreAction.CREATE:
        write_format(files, root, wanted_format(options, known, adopted_end=0))
    segments = _prepare_segments(files, root, options, survey, tail, checkpoint)
    position = tail.position if tail is not None else segments[0].start
    # A replica is told by another one, before it has anything of that.
    bare_end = checkpoint.bare_end if options.replicated else min(checkpoint.bare_end, position)
    checkpoint = replace(checkpoint, bare_end=_EVERYTHING if options.bare else bare_end)
    wanted = wanted_format(options, (*known, *(each.size for each in segments)), adopted_end=checkpoint.bare_end)
    before = _write_format(files, root, found.format, wanted)
    committed = _committed(found, options, start=segments[0].start, end=position)
    checkpoint = replace(checkpoint, committed=committed if options.replicated else None, loose=0)
    writer = _make_writer(
        files, root, options, clock=clock, segments=segments, position=position, checkpoint=checkpoint
    )  # fmt: skip
    log = CommitLog(files, root, options.log, segments=segments, position=position, writer=writer)
    opened.callback(log.close)
    opened.callback(writer.checkpoint.close)
    if before != wanted:
        throw_away(files, root, writer=writer, start=segments[0].start)
        write_format(files, root, wanted)
    derived, derived_report = derive_again(
        files, root, writer=writer, segments=segments, end=committed, checkpoint=found.checkpoint,
        same_geometry=found.format is None or found.format.same_geometry(wanted),
        queue_file_units=options.derived.queue_file_units, opened=opened,
        make=lambda queue_list: Derived(
            files, root, options, clock=clock, writer=writer, min_position=segments[0].start, queue_list=queue_list
        ),
    )  # fmt: skip
    uncommitted = recover_uncommitted(derived, writer, root, segments=segments, start=committed, end=position)
    report = _report(found, survey, tail, derived_report, position=position, bare_end=log.bare_end)
    return Recovered(root, lock, log, writer, derived, uncommitted, committed, report)


def _write_format(files: Files, root: str, found: FormatFile | None, wanted: FormatFile) -> FormatFile:
    """Of derived files of other lengths the format speaks only once all are gone that were made with those before, for
    a crash may come first: until then all the rest is said. What the file says now."""
    said = wanted.with_geometry(found or wanted)
    if found != said:
        write_format(files, root, said)
    return said


def _committed(found: Look, options: StoreOptions, *, start: int, end: int) -> int:
    """Up to where records are readable at once. What a lone broker had flushed was committed; of a replica's log that
    much is certain which its checkpoint says, and nothing without one."""
    checkpoint = found.checkpoint
    if not options.replicated or found.row.action in (StoreAction.CREATE, StoreAction.ADOPT):
        return end
    if checkpoint is None:
        return start
    if checkpoint.committed is None:
        return end
    return min(max(checkpoint.committed, checkpoint.queues_dispatched, checkpoint.index_dispatched, start), end)


def _believed(found: Look, options: StoreOptions) -> Checkpoint:
    """The checkpoint, or what to assume without one.

    Records of a RocketMQ store may lack the whole-record checksum, and nothing tells how much of it was unflushed: so
    any record behind a damaged one means damage there. Nor does anything tell where the log begins, so it is with its
    first file; but of a replica's the epoch before that would not be known, by which logs are compared.
    """
    adopted_end = found.format.adopted_end if found.format is not None else 0
    if found.checkpoint is not None:
        return replace(found.checkpoint, bare_end=max(found.checkpoint.bare_end, adopted_end))
    start = 0 if options.replicated else found.first
    if found.row.action is StoreAction.ADOPT:
        return Checkpoint(log_start=start, bare_end=_EVERYTHING)
    return Checkpoint(log_start=start, window=options.log.window_bytes, bare_end=adopted_end)


def _prepare_segments(
    files: Files, root: str, options: StoreOptions, survey: SegmentSurvey, tail: Tail | None, checkpoint: Checkpoint
) -> list[Segment]:
    """Carry out what was decided about the log's files; the segments, the last of them with room or a successor."""
    directory = f"{root}/commitlog"
    files.make_directory(directory)
    files.sync_dir(root)
    segments = carry_out(
        files, root, survey, segment_bytes=options.log.segment_bytes, replicated=options.replicated
    )  # fmt: skip
    if tail is not None:
        # Zeros may be in the cache only, of a cut that the process before did not finish: all that it can have reached.
        if tail.row.action is TailAction.CUT or tail.position < checkpoint.loose:
            cut_tail(segments, tail.position, max(tail.behind, tail.position + checkpoint.reach(tail.position)))
        while len(segments) > 1 and segments[-2].start > tail.position:
            extra = segments.pop()  # prepared ahead of appends that were never written
            extra.close()
            files.unlink(extra.path)
            files.sync_dir(directory)
        if not checkpoint.counter:
            _fill_holes(files, segments, tail.position)
        if tail.position < segments[-1].end:
            return segments
    elif segments:
        return segments
    start = segments[-1].end if segments else checkpoint.log_start
    try:
        segments.append(Segment.create(files, directory, start, options.log.segment_bytes))
    except OSError as error:
        raise StoreFull(f"no room for a segment of {options.log.segment_bytes} bytes: {error}") from error
    segments[-1].make_durable(directory)
    return segments


def _fill_holes(files: Files, segments: list[Segment], position: int) -> None:
    """Give what the log goes on into all its blocks, if there is room. RocketMQ's files are holes behind their records,
    where a full disk takes no record, and a write that failed ends a store. Raises: OSError."""
    for segment in segments:
        if segment.end > position:
            with suppress(StoreFull):
                allocate_segment(files, segment.path, segment.size)


def _make_writer(
    files: Files, root: str, options: StoreOptions, *, clock: Clock, segments: list[Segment], position: int,
    checkpoint: Checkpoint,
) -> LogWriter:  # fmt: skip
    """The writer, and a checkpoint that promises what was found: made durable first, for readers see it from now on."""
    # Where no checkpoint says what was flushed: all but a window.
    write_again(segments, checkpoint.flushed if checkpoint.counter else position - checkpoint.window, position)
    for segment in segments:  # a killed process leaves bytes, lengths and names that are seen and not yet durable
        if segment.end > checkpoint.flushed:
            segment.file.flush()
    files.sync_dir(f"{root}/commitlog")
    file = CheckpointFile.create(files, root)
    checkpoint_file = CheckpointFile(file, checkpoint)  # carries what is committed into all that is recorded
    checkpoint_file.last_store_timestamp = int.from_bytes(file.read(0, 8), signed=True)
    start = segments[0].start
    checkpoint_file.record(
        replace(
            checkpoint, log_start=max(start, checkpoint.log_start), flushed=position, window=options.log.window_bytes,
            closed=False, queues_dispatched=max(start, checkpoint.queues_dispatched),
            index_dispatched=max(start, checkpoint.index_dispatched),
        )
    )  # fmt: skip
    checkpoint_file.sync()
    files.sync_dir(root)
    _mark_running(files, root)
    active = next(segment for segment in segments if position < segment.end)
    return LogWriter(files, root, options, clock=clock, checkpoint=checkpoint_file, active=active, position=position)


def _mark_running(files: Files, root: str) -> None:
    """Leave RocketMQ's mark that a store was not closed in order. Ours is in the checkpoint."""
    try:
        abort = files.open(f"{root}/abort", create=True)
        abort.write(0, (str(os.getpid()).encode(),))
        abort.close()
    except OSError:  # on a full disk: reads must go on all the same
        return


def _report(
    found: Look, survey: SegmentSurvey, tail: Tail | None, derived: DerivedReport, *, position: int, bare_end: int
) -> Recovery:
    notes = [f"{found.row.label}: {found.row.reason}"]
    notes += [
        f"{file.path}: {file.row.label}: {file.row.reason}"
        for file in survey.decided if file.row.action is not SegmentAction.KEEP
    ]  # fmt: skip
    notes += [f"{name} in commitlog is no segment and was left alone" for name in survey.extra]
    dropped = 0
    if tail is not None and tail.row.action is TailAction.CUT:
        dropped = tail.behind - tail.position
        what = f"{dropped} bytes from position {tail.position} on ({tail.reason or 'zeros'})"
        notes.append(f"{tail.row.label}: {what}: {tail.row.reason}")
    if derived.detail:
        notes.append(f"{derived.row.label}: {derived.detail}")
    return Recovery(
        found.row.label, tail.row.label if tail is not None else "new", derived.row.label, position, dropped,
        derived.records, tuple(notes), bare_end,
    )  # fmt: skip
