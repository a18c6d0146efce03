"""`logherd store repair`: cut the log where its damage begins, after saying what that drops, keeping a copy of it.

The log is a sequence: what lies behind a damaged record cannot be kept without inventing queue offsets for what is
lost, so repair ends the log before the damage. Everything behind goes, byte for byte, into `dropped/`; with a replica
the better way is to let it come again from there. Nothing that lies in `dropped/` is ever written over: a repair that a
crash interrupted finds less to copy than it had found before, and a later one may cut at the same position.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from logherd.store.checkpoint import (
    CHECKPOINT_SIZE,
    SLOT_OFFSETS,
    SLOT_VERSION,
    Checkpoint,
    decode_checkpoint,
    encode_slot,
    slot_version,
)
from logherd.store.errors import StoreInUse, StoreVersionError
from logherd.store.files import Files
from logherd.store.format_file import FORMAT_BYTES_MAX, FormatFile, FormatState, decode_format, format_path
from logherd.store.readable import read_or_empty, read_or_zeros
from logherd.store.scan import ScanEnd, scan_records
from logherd.store.segment import Segment, segment_name
from logherd.store.tail import cut_tail, find_record_from, last_written_byte
from logherd.store.verify import FileReport, open_segments, scan_log

__all__ = ["RepairPlan", "RepairStep", "repair_files"]

_COPY_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One thing to do. `bytes` and `records` are what the log loses by it; `copy` is where they are kept."""

    what: str
    path: str
    bytes: int = 0
    records: int = 0
    copy: str = ""


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """Steps in order; none if there is nothing to repair. `end_position` is where the log will end (bytes)."""

    steps: tuple[RepairStep, ...]
    end_position: int
    applied: bool

    @property
    def dropped_records(self) -> int:
        return sum(step.records for step in self.steps)

    @property
    def changes_log(self) -> bool:
        """Whether the log is another one by it, or nothing says any more how far it was one that was promised."""
        return any("/commitlog/" in step.path or step.path.endswith("/checkpoint") for step in self.steps)


def repair_files(files: Files, root: str, *, apply: bool, derive: bool = False) -> RepairPlan:
    """See tools.repair; with `derive` queues and index are known to be wrong. Raises StoreInUse, StoreVersionError,
    OSError."""
    lock = files.lock(f"{root}/lock")
    if lock is None:
        raise StoreInUse(f"another process holds {root}/lock")
    try:
        return _repair(files, root, apply=apply, derive=derive)
    finally:
        lock.release()


def _repair(files: Files, root: str, *, apply: bool, derive: bool) -> RepairPlan:
    state, found = decode_format(read_or_empty(files, format_path(root), FORMAT_BYTES_MAX))
    page = read_or_empty(files, f"{root}/checkpoint", CHECKPOINT_SIZE) or b""
    checkpoint = decode_checkpoint(page)
    if state is FormatState.UNKNOWN or (checkpoint is None and (slot_version(page) or 0) > SLOT_VERSION):
        raise StoreVersionError(f"{root} was written by a later release; repair it with that one")
    segments = open_segments(files, root)
    believed = checkpoint or _assumed(found, page)
    chain = _chain(segments)
    end = _end_of_records(chain, believed)
    steps: list[RepairStep] = []
    taken = set(files.list(f"{root}/dropped"))
    if not page and files.size(f"{root}/checkpoint"):
        steps.append(RepairStep("give up what the disk does not give of", f"{root}/checkpoint"))
    if state is FormatState.GARBAGE:
        what = "move away what is no format file"
        steps.append(RepairStep(what, format_path(root), copy=_new_copy(root, "store.json", taken)))
    if _is_damaged(segments, chain, believed, end):
        cut = list(_cut_steps(root, segments, chain, end, believed.bare_end, taken))
        what = f"give up what was flushed from position {end} to {believed.flushed}, without the file"
        steps += cut or [RepairStep(what, f"{root}/commitlog/{segment_name(end)}")]
        derive = True
    if derive:
        steps.append(RepairStep("derive queues and index from the log when it is opened", f"{root}/queues"))
    is_own = checkpoint is not None or state is FormatState.KNOWN  # of a RocketMQ store nothing says where it began
    if chain and is_own and chain[0].start > believed.log_start:
        steps.append(RepairStep(f"let the log begin at position {chain[0].start}", chain[0].path))
    if steps and apply:
        _apply(files, root, steps, segments=segments, chain=chain, end=end, checkpoint=believed)
    for segment in segments:
        segment.close()
    return RepairPlan(tuple(steps), end, applied=bool(steps) and apply)


def _assumed(found: FormatFile | None, page: bytes) -> Checkpoint:
    """Without a checkpoint. If nothing tells that the store is ours, RocketMQ may have written any of its records."""
    unknown = found is None and slot_version(page) is None
    return Checkpoint(bare_end=1 << 62 if unknown else found.adopted_end if found is not None else 0)


def _chain(segments: list[Segment]) -> list[Segment]:
    """The segments from the first on that follow each other, without a gap and without what claims the same bytes."""
    chain: list[Segment] = []
    for segment in segments:
        if not chain or segment.start == chain[-1].end:
            chain.append(segment)
    return chain


def _end_of_records(chain: list[Segment], checkpoint: Checkpoint) -> int:
    """The position behind the last record that follows from the first without anything else between."""
    end = 0
    for segment in chain:
        for found in scan_records(segment.view, segment.start, 0, checkpoint.bare_end, segment.readable):
            if isinstance(found, ScanEnd):
                end = segment.start + found.offset
                if found.reason is not None:
                    return end
    return end


def _is_damaged(segments: list[Segment], chain: list[Segment], checkpoint: Checkpoint, end: int) -> bool:
    """Whether opening refuses because of the log; a torn tail it cuts by itself."""
    behind = find_record_from(chain, end + checkpoint.reach(end), checkpoint.bare_end) if chain else None
    return end < checkpoint.flushed or behind is not None or len(segments) > len(chain)


def _cut_steps(
    root: str, segments: list[Segment], chain: list[Segment], end: int, bare_end: int, taken: set[str]
) -> Iterator[RepairStep]:
    for segment in segments:
        follows = segment in chain
        if follows and segment.end <= end:
            continue
        first = max(segment.start, end) if follows else segment.start
        used = last_written_byte([segment], first, segment.end) - first
        whole = scan_log([segment], [FileReport(segment.path, "segment")], bare_end)
        lost = sum(record.position >= end for record in whole)
        what = f"drop everything from position {first} on" if follows else "drop a file that does not follow"
        copy = _new_copy(root, f"{first:020d}", taken) if used else ""
        yield RepairStep(what, segment.path, used, lost, copy)


def _new_copy(root: str, name: str, taken: set[str]) -> str:
    """The path of a copy in `dropped/` under this name, or with a number if the name is among those taken, as it is
    then."""
    own, number = name, 1
    while own in taken:
        number += 1
        own = f"{name}.{number}"
    taken.add(own)
    return f"{root}/dropped/{own}"


def _apply(
    files: Files, root: str, steps: list[RepairStep], *, segments: list[Segment], chain: list[Segment], end: int,
    checkpoint: Checkpoint,
) -> None:  # fmt: skip
    """Copies, then the cut, then the checkpoint, each durably: a crash in between leaves the damage to be found."""
    files.make_directory(f"{root}/dropped")
    kept = {segment.path: end - segment.start for segment in chain if segment.start < end or segment is chain[0]}
    for step in steps:
        if step.copy:
            _copy(files, step.path, step.copy, kept.get(step.path, 0))
    files.sync_dir(f"{root}/dropped")
    files.sync_dir(root)
    small = {step.path for step in steps} & {format_path(root), f"{root}/checkpoint"}
    for path in small:
        files.unlink(path)
    if len(small) == len(steps) and format_path(root) not in small:
        files.sync_dir(root)
        return  # a store without a checkpoint is opened
    if any(step.path == f"{root}/queues" for step in steps):
        for segment in reversed(segments):
            if segment.path not in kept:
                segment.close()
                files.unlink(segment.path)
                files.sync_dir(f"{root}/commitlog")
        left = [segment for segment in chain if segment.path in kept]
        if left:
            cut_tail(left, end, left[-1].end)
        files.unlink(f"{root}/queues")
        files.sync_dir(root)  # a list that came back would be believed, once nothing is wrong with the log any more
    _write_checkpoint(files, root, chain, end, checkpoint)
    files.sync_dir(root)


def _copy(files: Files, path: str, copy: str, start: int) -> None:
    """A copy has its name once it is whole; what a crash left of an earlier attempt goes."""
    part = f"{copy}.part"
    files.unlink(part)
    source, target = files.open(path), files.open(part, create=True)
    try:
        for first, stop in source.written_ranges(start):
            for at in range(first, stop, _COPY_BYTES):
                target.write(at - start, (read_or_zeros(source, at, min(_COPY_BYTES, stop - at)),))
        target.flush()
    finally:
        source.close()
        target.close()
    files.rename(part, copy)


def _write_checkpoint(files: Files, root: str, chain: list[Segment], end: int, checkpoint: Checkpoint) -> None:
    """Promise what is left, and nothing of what is derived."""
    start = chain[0].start if chain else 0
    value = replace(
        checkpoint, log_start=start, flushed=min(checkpoint.flushed, end), queues_dispatched=start,
        index_dispatched=start, index_name=0, index_count=0, index_used_slots=0, index_files=0, closed=False,
        bare_end=min(checkpoint.bare_end, end), loose=0,
        committed=None if checkpoint.committed is None else min(checkpoint.committed, end),
    )  # fmt: skip
    file = files.open(f"{root}/checkpoint", create=True)
    for step in (1, 2):
        counter = checkpoint.counter + step
        file.write(SLOT_OFFSETS[counter % 2], (encode_slot(replace(value, counter=counter)),))
    file.flush()
    file.close()
