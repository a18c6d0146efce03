"""Which messages a batch reads, as plain ranges of queue offsets; nothing here asks anybody.

A stream's place is a plain dict, as it stands in a checkpoint:

    topic -> "group:queue" -> queue offset
    "#before" -> "topic@queue offset@group:queue" -> seal of the message before that offset (`calls.seal_at`)
    "#begin" -> "topic@group:queue" -> queue offset; only at the end of a stream's first micro-batch: where that begins

The seals say of which queue the offsets are: one of the same name in another cluster, or of a topic that was made anew,
has other messages. Where a stream begins stands nowhere else, and whoever carries its first micro-batch out once more
has to begin at the same place. A release before takes all this for queues that do not move, and goes on if no
micro-batch was open.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from logherd_spark.cluster import QueueRef

__all__ = ["Offsets", "Place", "Range", "from_checkpoint", "limited", "split", "to_checkpoint"]

Offsets = dict[QueueRef, int]
_SEALS, _BEGINS = "#before", "#begin"
"""No topic has such a name."""


class Place(NamedTuple):
    """Where a stream is. `seals`: of the message before the offset of a queue, where that is known. `begins`: where the
    stream began, if this is the end of its first micro-batch; else empty."""

    offsets: Offsets
    seals: dict[QueueRef, int]
    begins: Offsets


class Range(NamedTuple):
    """Messages [start, end) of one queue."""

    queue: QueueRef
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def to_checkpoint(
    offsets: Mapping[QueueRef, int], seals: Mapping[QueueRef, int] | None = None, begins: Offsets | None = None
) -> dict[str, Any]:
    found: dict[str, dict[str, int]] = {}
    for queue, offset in sorted(offsets.items()):
        found.setdefault(queue.topic, {})[f"{queue.group}:{queue.queue_id}"] = offset
    for queue, seal in sorted((seals or {}).items()):
        found.setdefault(_SEALS, {})[f"{queue.topic}@{offsets[queue]}@{queue.group}:{queue.queue_id}"] = seal
    for queue, offset in sorted((begins or {}).items()):
        found.setdefault(_BEGINS, {})[f"{queue.topic}@{queue.group}:{queue.queue_id}"] = offset
    return found


def from_checkpoint(offsets: Mapping[str, Mapping[str, int]]) -> Place:
    """The inverse. A seal of another offset than the queue's is of no use: a release before has moved on without it."""
    found = Place({}, {}, {})
    for topic in offsets.keys() - {_SEALS, _BEGINS}:
        found.offsets.update({_queue(topic, name): int(offset) for name, offset in offsets[topic].items()})
    for name, seal in offsets.get(_SEALS, {}).items():
        topic, at, rest = name.split("@", 2)
        queue = _queue(topic, rest)
        if found.offsets.get(queue) == int(at):
            found.seals[queue] = int(seal)
    for name, offset in offsets.get(_BEGINS, {}).items():
        found.begins[_queue(*name.split("@", 1))] = int(offset)
    return found


def _queue(topic: str, name: str) -> QueueRef:
    group, _, number = name.rpartition(":")
    return QueueRef(topic, group, int(number))


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
