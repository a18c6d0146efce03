"""Opening a store: find the end of the log, drop a torn tail, derive what is missing."""

import os
from dataclasses import dataclass

from logherd.kit.clock import Clock
from logherd.store.checkpoint import Checkpoint
from logherd.store.derived import Derived
from logherd.store.errors import StoreFull, StoreInUse
from logherd.store.files import Files, Lock
from logherd.store.log import CommitLog
from logherd.store.options import StoreOptions
from logherd.store.scan import ScanEnd, scan_records
from logherd.store.segment import Segment, segment_start
from logherd.store.writer import CheckpointFile, LogWriter

__all__ = ["Recovered", "Recovery", "recover"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening found and did."""

    end_position: int
    records: int
    dropped_bytes: int


@dataclass(slots=True)
class Recovered:
    """The parts of a store that is ready."""

    lock: Lock
    log: CommitLog
    writer: LogWriter
    derived: Derived
    report: Recovery


def recover(directory: str, options: StoreOptions, files: Files, *, clock: Clock) -> Recovered:
    """See MessageStore.open."""
    commitlog = f"{directory}/commitlog"
    files.make_directory(commitlog)
    lock = files.lock(f"{directory}/lock")
    if lock is None:
        raise StoreInUse(f"another process holds {directory}/lock")
    starts = [start for name in files.list(commitlog) if (start := segment_start(name)) is not None]
    segments = [Segment(files, commitlog, start, files.size(f"{commitlog}/{start:020d}") or 0) for start in starts]
    if not segments:
        try:
            segments = [Segment.create(files, commitlog, 0, options.log.segment_bytes)]
        except OSError as error:
            raise StoreFull(f"no room for the first segment: {error}") from error
    derived = Derived(segments[0].start)
    position, records = _replay(segments, derived)
    checkpoint = CheckpointFile(CheckpointFile.create(files, directory), Checkpoint())
    active = next(segment for segment in reversed(segments) if segment.start <= position)
    kept = [segment for segment in segments if segment.start <= active.end]
    writer = LogWriter(files, directory, options, clock=clock, checkpoint=checkpoint, active=active, position=position)
    log = CommitLog(files, directory, options.log, segments=kept, position=position, writer=writer)
    files_abort = files.open(f"{directory}/abort", create=True)
    files_abort.write(0, (str(os.getpid()).encode(),))
    files_abort.close()
    return Recovered(lock, log, writer, derived, Recovery(position, records, 0))


def _replay(segments: list[Segment], derived: Derived) -> tuple[int, int]:
    records = 0
    for segment in segments:
        for found in scan_records(segment.view, segment.start, 0):
            if isinstance(found, ScanEnd):
                if found.reason is not None:
                    return segment.start + found.offset, records
            else:
                derived.replay(found)
                records += 1
    return segments[-1].end, records
