"""Appending records as they lie in another replica's log."""

from collections.abc import Sequence

from logherd.model.record import RecordError
from logherd.store.common_run import take_common_run
from logherd.store.errors import RawRefused, StoreFull
from logherd.store.extract import Extractor
from logherd.store.files import Buffer
from logherd.store.follow import plan_run
from logherd.store.log import CommitLog
from logherd.store.outline import Outline
from logherd.store.queues import QueueTable
from logherd.store.raw import decode_run
from logherd.store.uncommitted import Uncommitted

__all__ = ["append_raw"]


def append_raw(
    log: CommitLog, table: QueueTable, extract: Extractor, uncommitted: Uncommitted, data: Buffer, after: int,
    end: int | None, outlines: Sequence[Outline],
) -> int:  # fmt: skip
    """See MessageStore.append_raw."""
    log.expect_raw(after)
    data = data if isinstance(data, bytes) else bytes(data)
    if end in (None, after + len(data)) and take_common_run(data, log, table, extract, outlines):
        return log.end_position
    try:
        run = decode_run(data, after, log.active.end, bare_end=log.bare_end)
        plan = plan_run(run.records, table, from_start=not log.min_position)
    except RecordError as error:
        raise RawRefused(f"records of another replica were refused: {error}") from error
    if end is not None and run.end != end:
        raise RawRefused(f"records of another replica end at {run.end}, they were said to end at {end}")
    if run.blank_at >= 0 and not log.prepare_roll():
        raise StoreFull("the log needs a further segment, for which the disk has no room")
    uncommitted.take(plan)
    log.append_run(memoryview(data), plan, extract)
    if run.blank_at >= 0:
        log.roll()
    return log.end_position
