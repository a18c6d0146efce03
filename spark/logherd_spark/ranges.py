"""Which messages a batch reads, as plain ranges of queue offsets; nothing here asks anybody.

Offsets of a stream are plain dicts, topic -> "group:queue" -> queue offset, as they stand in a checkpoint.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from logherd_spark.cluster import QueueRef

__all__ = ["Offsets", "Range", "from_checkpoint", "limited", "split", "to_checkpoint"]

Offsets = dict[QueueRef, int]


class Range(NamedTuple):
    """Messages [start, end) of one queue."""

    queue: QueueRef
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def to_checkpoint(offsets: Mapping[QueueRef, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for queue, offset in sorted(offsets.items()):
        found.setdefault(queue.topic, {})[f"{queue.group}:{queue.queue_id}"] = offset
    return found


def from_checkpoint(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    found: Offsets = {}
    for topic, queues in offsets.items():
        for name, offset in queues.items():
            group, _, number = name.rpartition(":")
            found[QueueRef(topic, group, int(number))] = int(offset)
    return found


def limited(start: Mapping[QueueRef, int], end: Mapping[QueueRef, int], rows: int) -> Offsets:
    """Ends that are at most `rows` messages from the starts together; the queues share them evenly, so none starves.

    Which queue gets the last ones, when there are fewer rows than queues, turns with what waits: the most goes first.
    """
    waiting = {queue: max(0, last - start.get(queue, 0)) for queue, last in end.items()}
    total = sum(waiting.values())
    if total <= rows:
        return dict(end)
    found: Offsets = {}
    # Small ones first: what is left of their share goes to those with more.
    queues = sorted((queue for queue in end if waiting[queue]), key=lambda each: (waiting[each], each))
    for number, queue in enumerate(queues):
        fair = rows // (len(queues) - number)
        share = min(waiting[queue], fair)
        rows -= share
        found[queue] = start.get(queue, 0) + share
    return {queue: found.get(queue, start.get(queue, 0)) for queue in end}


def split(ranges: Iterable[Range], *, parts_min: int | None, rows_max: int | None) -> list[Range]:
    """The ranges that are not empty, cut so that there are about `parts_min` or more, none above `rows_max`."""
    whole = [each for each in ranges if each.length > 0]
    total = sum(each.length for each in whole)
    found: list[Range] = []
    for each in whole:
        pieces = 1
        if rows_max:
            pieces = -(-each.length // rows_max)
        if parts_min and len(whole) < parts_min:
            pieces = max(pieces, round(each.length / total * parts_min))
        pieces = min(max(pieces, 1), each.length)
        edges = [each.start + each.length * number // pieces for number in range(pieces + 1)]
        found += [Range(each.queue, first, last) for first, last in pairwise(edges)]
    return found
