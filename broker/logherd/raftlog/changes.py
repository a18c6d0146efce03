"""What the owner changed and the writer thread is to make durable, in this order."""

from dataclasses import dataclass

from logherd.model.names import Position
from logherd.raft.record import Record
from logherd.replication.epochs import Point
from logherd.replication.log import Image

__all__ = ["Change", "Compacted", "Cut", "ImageKept", "Restarted"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Everything above `at` goes; the first record there begins at `first`, the last one ends at `end`."""

    at: Position
    seal: int
    first: Position
    end: Position


@dataclass(frozen=True, slots=True)
class ImageKept:
    """An image. One that the group sent is `needed`: the log cannot go on without it."""

    image: Image
    data: bytes
    needed: bool


@dataclass(frozen=True, slots=True)
class Compacted:
    """The records up to `base` go; the image that was kept last covers them."""

    base: Point
    seal: int


@dataclass(frozen=True, slots=True)
class Restarted:
    """The image kept just before is the log's new base; no record of the old log, which ended at `end`, stays."""

    base: Point
    seal: int
    end: Position


Change = Record | Cut | ImageKept | Compacted | Restarted
"""A record stands for itself: it was added."""
