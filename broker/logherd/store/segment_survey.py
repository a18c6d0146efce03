"""The files of the commit log when a store is opened: which to keep, complete or delete, or why to refuse."""

from dataclasses import dataclass

from logherd.store.checkpoint import CHECKPOINT_SIZE, Checkpoint
from logherd.store.errors import StoreDamaged, StoreFull
from logherd.store.files import Files
from logherd.store.recovery_rows import SEGMENT_ROWS, Fact, Length, Place, Row, SegmentAction, choose
from logherd.store.segment import Segment, allocate_segment, segment_start

__all__ = ["SegmentSurvey", "carry_out", "survey_segments"]


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    start: int
    size: int
    row: Row[SegmentAction]


@dataclass(frozen=True, slots=True)
class SegmentSurvey:
    """`decided` are all segment files with the row of each, in order; `extra` names what is no segment."""

    decided: tuple[_File, ...]
    extra: tuple[str, ...]

    def kept(self) -> list[_File]:
        return [file for file in self.decided if file.row.action is not SegmentAction.DELETE]


def survey_segments(
    files: Files, root: str, *, checkpoint: Checkpoint, known_sizes: tuple[int, ...], replicated: bool
) -> SegmentSurvey:  # fmt: skip
    """Decide on every file; nothing is changed.

    `known_sizes` are the lengths that segments of this store were made with; without any, the longest file tells. Those
    of a replica end where the others' end.
    Raises: StoreDamaged.
    """
    directory = f"{root}/commitlog"
    names = files.list(directory)
    starts = [start for name in names if (start := segment_start(name)) is not None]
    sizes = [files.size(f"{directory}/{start:020d}") or 0 for start in starts]
    usual = known_sizes or (max(sizes, default=0),)
    longest = max(known_sizes) if replicated and known_sizes else None
    begun_again = checkpoint.committed is not None and checkpoint.flushed == checkpoint.log_start
    below = [
        start + size <= checkpoint.log_start and (start != starts[-1] or begun_again)
        for start, size in zip(starts, sizes, strict=True)
    ]  # fmt: skip
    decided = []
    for index, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        following = starts[index + 1] if index + 1 < len(starts) else None
        first = not below[index] and all(below[:index])
        facts: dict[str, Fact] = {
            "below_start": below[index],
            "first_missing": first and start > checkpoint.log_start,
            "length": _length(start, size, following, usual, longest),
            "place": _place(start, size, following),
            "promised": checkpoint.flushed > start,
            "covers": checkpoint.flushed <= start + size,
        }
        row = choose(SEGMENT_ROWS, facts)
        file = _File(f"{directory}/{start:020d}", start, size, row)
        if row.action is SegmentAction.REFUSE:
            raise StoreDamaged(file.path, size, f"{row.label}: {row.reason}", root)
        decided.append(file)
    return SegmentSurvey(tuple(decided), tuple(name for name in names if segment_start(name) is None))


def _length(start: int, size: int, following: int | None, usual: tuple[int, ...], longest: int | None) -> Length:
    if size == 0:
        return Length.EMPTY
    if start + size > following if following is not None else longest is not None and size > longest:
        return Length.LONG
    if start + size == following or size in usual or size > max(usual):
        return Length.FULL
    return Length.SHORT


def _place(start: int, size: int, following: int | None) -> Place:
    if following is None:
        return Place.LAST
    return Place.GAP if following > start + size else Place.INSIDE


def carry_out(
    files: Files, root: str, survey: SegmentSurvey, *, segment_bytes: int, replicated: bool
) -> list[Segment]:  # fmt: skip
    """Delete and complete files as decided; the segments that remain. Raises StoreFull, OSError."""
    directory = f"{root}/commitlog"
    segments = []
    if any(decided.row.action is SegmentAction.DELETE for decided in survey.decided):
        _keep_checkpoint(files, root)
    for decided in survey.decided:
        size = decided.size
        if decided.row.action is SegmentAction.DELETE:
            files.unlink(decided.path)
            files.sync_dir(directory)
            continue
        if decided.row.action in (SegmentAction.COMPLETE, SegmentAction.LENGTHEN):
            needed = replicated or decided.row.action is SegmentAction.COMPLETE
            if _lengthen(files, decided.path, max(size, segment_bytes), needed=needed):
                size = max(size, segment_bytes)
            files.sync_dir(directory)
        segments.append(Segment(files, directory, decided.start, size))
    return segments


def _lengthen(files: Files, path: str, size: int, *, needed: bool) -> bool:
    """Whether the file is so long now. Raises StoreFull if it is not and that is needed; OSError."""
    try:
        allocate_segment(files, path, size)
    except StoreFull:
        if needed:
            raise
        return False
    return True


def _keep_checkpoint(files: Files, root: str) -> None:
    """Make durable what was read of it: a killed process may have left it in the cache only. If it were lost with the
    power after files were deleted on its word, the one before would miss them. Raises OSError."""
    if files.size(f"{root}/checkpoint") is None:
        return
    file = files.open(f"{root}/checkpoint")
    try:
        file.write(0, (file.read(0, CHECKPOINT_SIZE),))
        file.flush()
    finally:
        file.close()
