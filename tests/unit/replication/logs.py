"""Logs in memory for tests of shipping."""

from logherd.model.names import Epoch
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Kind

__all__ = ["SIZE", "even_log"]


def even_log(*epochs: int, segment_bytes: int = 1 << 20) -> MemoryLog:
    """A record of each of these epochs, all of one size."""
    log = MemoryLog(segment_bytes)
    for number, epoch in enumerate(epochs):
        log.append(Kind.DATA, Epoch(epoch), b"%d of %d" % (number, epoch))
    return log


SIZE = even_log(1).end
