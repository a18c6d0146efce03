"""Logs that begin late, because an image covers what came before."""

from logherd.model.names import Position
from logherd.raft.memory import MemoryLog
from logherd.replication.epochs import Point
from logherd.replication.log import Image

__all__ = ["drop_before"]


def drop_before(log: MemoryLog, at: Position) -> Point:
    """Keep an empty image of what lies before `at`, and drop that; the log's base from now on."""
    base = log.epochs.point_at(at)
    log.keep_image(Image("base", base, log.seal_at(at), 0, 0, b""), b"")
    log.compact(at)
    return base
