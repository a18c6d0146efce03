"""Damage inside a replica's log: found by reading all of it, mended with the bytes that another replica holds there.

    restore_files(files, root)                             a file that is gone or short is one of zeros, so damage;
                                                           one that reaches into the next ends where that begins
    found = survey(files, root)                            which ranges are no records, and what stands around them
    for each damage below found.committed:
        piece = what another replica holds from there on   checked by it against `before` and `after`
        mend(files, root, piece.start, data, end=...)      until the range is passed
    survey again

Only what is known to be committed is mended: there all logs of a group are the same, byte for byte, and a position
is enough to name what is missing. It is written where it belongs, over what is damaged, and every byte of it belongs
to a verified record; so whatever a crash leaves of a write, each record is as it was, damaged, or whole. What the disk
cannot read is damage like any other: the write over it lets the disk store it elsewhere (readable.write_over).
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from logherd.kit.checksum import crc32
from logherd.model.record import BLANK_SIZE_MIN, RecordError
from logherd.store.checkpoint import CHECKPOINT_SIZE, Checkpoint, decode_checkpoint
from logherd.store.errors import RawRefused, StoreDamaged
from logherd.store.files import File, Files
from logherd.store.format_file import FORMAT_BYTES_MAX, decode_format, format_path
from logherd.store.raw import decode_run
from logherd.store.readable import is_unreadable, read_or_empty, write_over
from logherd.store.scan import ScanEnd, Scanned, scan_records
from logherd.store.segment import Segment, allocate_segment, segment_name
from logherd.store.tail import find_record_from
from logherd.store.verify import open_segments

__all__ = ["Damage", "Neighbour", "Survey", "further_behind", "mend", "replica_checkpoint", "restore_files", "survey"]

_ZEROS = bytes(1 << 20)
_FURTHER_BYTES = 1 << 20


class Neighbour(msgspec.Struct, frozen=True):
    """A whole record beside damage: positions [start, end), and the crc32 of its bytes."""

    start: int
    end: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Positions [start, end) of one segment hold no records. `before` and `after` are the nearest ones that are whole;
    None if there is none."""

    start: int
    end: int
    path: str
    what: str
    before: Neighbour | None
    after: Neighbour | None


@dataclass(frozen=True, slots=True)
class Survey:
    """All damage below what was flushed, in order; up to where the group had committed, as far as is known here.
    `log_end`: behind what was flushed, too, as far as the checkpoint knows, records are whole up to there."""

    damages: tuple[Damage, ...]
    committed: int
    log_start: int
    log_end: int

    @property
    def mendable(self) -> tuple[Damage, ...]:
        """Those that begin in what is committed, each as far as that goes."""
        return tuple(damage for damage in self.damages if damage.start < self.committed)


def restore_files(files: Files, root: str) -> list[str]:
    """Make the files of the log that are missing, too short or too long what they should be, with zeros; durable. Their
    names. What is cut off is no part of the log that the survey after this reads, and whatever that lacks is damage.

    Raises: StoreDamaged if no file is left, for then a volume may be missing; StoreFull, OSError.
    """
    checkpoint, directory, made = replica_checkpoint(files, root), f"{root}/commitlog", _cut(files, root)
    there = {each.start: each for each in open_segments(files, root) if each.end > checkpoint.log_start}
    if not there:
        raise StoreDamaged(directory, 0, "no file of the log is there", root)
    usual = max(each.size for each in there.values())
    at = min(checkpoint.log_start, *there)
    while at < checkpoint.flushed or at < max(there):
        size = min([usual, *(start - at for start in there if start > at)])
        if at not in there or there[at].size < size:
            path = f"{directory}/{segment_name(at)}"
            allocate_segment(files, path, size, create=True)
            files.sync_dir(directory)
            made.append(path)
        at += max(size, there[at].size if at in there else 0)
    return made


def _cut(files: Files, root: str) -> list[str]:
    """Cut files that reach into the next one, or as the last further than files of this store do, to the length of the
    others. Where that would make one another length it is the next one that does not belong there, which a person has
    to see."""
    segments, cut = open_segments(files, root), list[str]()
    places = {each.start: following.start - each.start for each, following in pairwise(segments)}
    _, found = decode_format(read_or_empty(files, format_path(root), FORMAT_BYTES_MAX))
    if segments and found is not None and found.segment_bytes:
        places[segments[-1].start] = max(found.segment_bytes)
    long = [each for each in segments if each.size > places.get(each.start, each.size)]
    usual = max((each.size for each in segments if each not in long), default=places[long[0].start] if long else 0)
    for each in long:
        if places[each.start] == usual:
            file = files.open(each.path)
            try:
                file.truncate(usual)
                file.flush()
            finally:
                file.close()
            cut.append(each.path)
    return cut


def survey(files: Files, root: str, *, progress: Callable[[int, int], None] = lambda _done, _all: None) -> Survey:
    """Read the log of a closed store in full. Blocks, about 1 s per 200 MB; `progress` hears of bytes read, and all.

    Raises: StoreDamaged if damage is not all that is wrong: no checkpoint of a replica, files missing; OSError.
    """
    checkpoint = replica_checkpoint(files, root)
    segments = open_segments(files, root)
    try:
        _check_files(segments, root, checkpoint)
        walk = _Walk(segments, checkpoint, progress)
        damages, end = tuple(walk.damages()), _end(segments, checkpoint)
        return Survey(damages, checkpoint.committed or 0, checkpoint.log_start, end)
    finally:
        for segment in segments:
            segment.close()


def replica_checkpoint(files: Files, root: str) -> Checkpoint:
    """What is promised of a replica's store. Raises: StoreDamaged."""
    path = f"{root}/checkpoint"
    checkpoint = None
    if files.size(path) is not None:
        file = files.open(path)
        try:
            checkpoint = decode_checkpoint(file.read(0, CHECKPOINT_SIZE))
        except OSError as error:
            if not is_unreadable(error):
                raise
        finally:
            file.close()
    if checkpoint is None or checkpoint.committed is None:
        raise StoreDamaged(path, 0, "no slot of a replica is whole, so nothing says what was committed", root)
    return checkpoint


def _check_files(segments: list[Segment], root: str, checkpoint: Checkpoint) -> None:
    """All positions that were flushed have a place. Raises: StoreDamaged."""
    at = checkpoint.log_start
    for segment in segments:
        if segment.end <= checkpoint.log_start:
            continue
        if segment.start > at:
            raise StoreDamaged(segment.path, 0, f"the log has no file for positions {at} to {segment.start}", root)
        at = segment.end
    if at < checkpoint.flushed:
        raise StoreDamaged(f"{root}/commitlog", 0, f"the files end at {at}, flushed was {checkpoint.flushed}", root)


def _end(segments: list[Segment], checkpoint: Checkpoint) -> int:
    """Where the log ends: the checkpoint of a process that was killed may lag. Behind the first place that holds no
    record nothing counts; it is cut when the store is opened."""
    at = checkpoint.flushed
    for segment in segments:
        if segment.end <= at:
            continue
        for found in scan_records(
            segment.view, segment.start, at - segment.start, checkpoint.bare_end, segment.readable
        ):
            if isinstance(found, ScanEnd) and found.reason is not None:
                return segment.start + found.offset
        at = segment.end
    return at


class _Walk:
    """Goes through the log once. A damage is told when the record behind it is known."""

    def __init__(self, segments: list[Segment], checkpoint: Checkpoint, progress: Callable[[int, int], None]) -> None:
        self._flushed = checkpoint.flushed
        self._start = checkpoint.log_start
        self._bare_end = checkpoint.bare_end
        self._segments = [each for each in segments if each.end > self._start and each.start < self._flushed]
        self._progress = progress
        self._last: Neighbour | None = None
        self._open: list[tuple[int, int, str, str, Neighbour | None]] = []

    def damages(self) -> Iterator[Damage]:
        for segment in self._segments:
            self._progress(max(segment.start - self._start, 0), self._flushed - self._start)
            at = 0
            while at < segment.size and segment.start + at < self._flushed:
                last: Scanned | None = None
                for found in scan_records(segment.view, segment.start, at, self._bare_end, segment.readable):
                    if isinstance(found, Scanned):
                        last = found
                        if self._open:
                            yield from self._close(_neighbour(segment, found))
                    else:
                        if last is not None:
                            self._last = _neighbour(segment, last)
                        at = self._behind(segment, found)
        yield from self._close(None)

    def _behind(self, segment: Segment, end: ScanEnd) -> int:
        """The byte of the segment where the walk goes on."""
        start = segment.start + end.offset
        if end.reason is None or start >= self._flushed:
            return segment.size
        following = find_record_from([segment], start + 1, self._bare_end)
        stop = min(segment.end if following is None else following.position, max(self._flushed, start + 1))
        self._open.append((start, stop, segment.path, end.reason or "zeros where a record should be", self._last))
        return stop - segment.start

    def _close(self, after: Neighbour | None) -> Iterator[Damage]:
        for start, stop, path, what, before in self._open:
            yield Damage(start, stop, path, what, before, after)
        self._open.clear()


def _neighbour(segment: Segment, record: Scanned) -> Neighbour:
    at = record.position - segment.start
    end = record.position + record.size
    return Neighbour(record.position, end, crc32(segment.view[at : at + record.size]))


def further_behind(files: Files, root: str, after: Neighbour) -> tuple[Neighbour, ...]:
    """Some of the committed records behind a whole one, each twice as many records on as the one before, up to 1 MiB.
    Blocks. Raises: StoreDamaged for the checkpoint; OSError."""
    checkpoint, found, number = replica_checkpoint(files, root), list[Neighbour](), 0
    end = min(checkpoint.committed or 0, after.end + _FURTHER_BYTES)
    segments = open_segments(files, root)
    try:
        for segment in segments:
            if segment.end <= after.end or segment.start >= end:
                continue
            at = max(after.end - segment.start, 0)
            for each in scan_records(segment.view, segment.start, at, checkpoint.bare_end, segment.readable):
                if isinstance(each, ScanEnd):
                    if each.reason is not None:
                        return tuple(found)
                    break
                if each.position + each.size > end:
                    return tuple(found)
                number += 1
                if number & (number - 1) == 0:
                    found.append(_neighbour(segment, each))
        return tuple(found)
    finally:
        for segment in segments:
            segment.close()


def mend(files: Files, root: str, start: int, data: bytes, *, end: int) -> None:
    """Write the records that another replica has committed in [start, end), which lie in one segment, where they
    belong. Durable when it returns. Blocks.

    Raises: RawRefused if they are not whole records of this place, and nothing was changed; OSError.
    """
    checkpoint = replica_checkpoint(files, root)
    if end > (checkpoint.committed or 0):
        raise RawRefused(f"records up to {end} were refused: here the log is known to be committed up to less")
    segments = open_segments(files, root)
    try:
        segment = next(each for each in segments if each.start <= start < each.end)
        try:
            run = decode_run(data, start, segment.end, bare_end=checkpoint.bare_end)
        except RecordError as error:
            raise RawRefused(f"records of another replica were refused: {error}") from error
        if run.end != end:
            raise RawRefused(f"records of another replica end at {run.end}, they were said to end at {end}")
        at = start - segment.start
        write_over(segment.file, at, data)
        if run.blank_at >= 0:
            for first in range(run.blank_at - segment.start + BLANK_SIZE_MIN, segment.size, len(_ZEROS)):
                write_over(segment.file, first, _ZEROS[: segment.size - first])
        segment.file.flush()
        _uncache(segment.file, at, end - start)
    finally:
        for segment in segments:
            segment.close()


def _uncache(file: File, at: int, size: int) -> None:
    """Have the next reading of this ask the disk, which may have kept nothing of what was written. The system drops no
    page that is asked for in part, and pages may be large."""
    first = at - at % len(_ZEROS)
    with suppress(OSError):  # not every file system takes advice
        file.uncache(first, -(-(at + size) // len(_ZEROS)) * len(_ZEROS) - first)
