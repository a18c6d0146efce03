"""Which segments may go: by age and by size, never the active one, never at or above a pinned position.

Deleting is done in an order that a crash at any step leaves a store without a gap: first all that was written is
flushed, for what is deleted may go because of that; then the checkpoint says where the log begins from now on, then
files go from the oldest on, each name durably before the next, then what was derived.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from msgspec.structs import replace

from logherd.store.background import Task
from logherd.store.files import Files
from logherd.store.options import RetentionOptions
from logherd.store.segment import Segment
from logherd.store.writer import LogWriter, with_descriptor

__all__ = ["delete_segments", "expired_segments"]


def expired_segments(
    segments: list[Segment], active: Segment, options: RetentionOptions, *, now_ms: int, pinned: int,
    stored_at: Callable[[int], int | None],
) -> list[Segment]:  # fmt: skip
    """The oldest segments that may be deleted now.

    The newest record of a segment is about as old as the first of the next, whose store timestamp (ms) `stored_at`
    tells for a position; None if there is none yet.
    """
    expired = []
    total = sum(segment.size for segment in segments)
    for segment, following in pairwise(segments):
        if segment is active or segment.end > pinned:
            break
        stored = stored_at(following.start)
        too_old = options.age_ms is not None and stored is not None and stored < now_ms - options.age_ms
        too_much = options.bytes_max is not None and total > options.bytes_max
        if not (too_old or too_much):
            break
        total -= segment.size
        expired.append(segment)
    return expired


def delete_segments(
    files: Files, directory: str, segments: list[Segment], *, writer: LogWriter, derived: Task, start_epoch: int
) -> Task:
    """Delete forgotten segments and then what was derived from them. A task of the writer thread.

    The latter in the order of what else is done with derived files, which may be under way.
    """
    start = segments[-1].end
    writer.flush_for_derived()
    writer.checkpoint.record(replace(writer.checkpoint.value, log_start=start, start_epoch=start_epoch))
    writer.checkpoint.sync()
    yield None
    for segment in segments:
        segment.close()
        files.unlink(segment.path)
        yield from with_descriptor(partial(files.sync_dir, directory))
        yield None
    writer.tasks.append(derived)
