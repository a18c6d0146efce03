"""A log in memory that metadata can be written to: what is appended is durable at `commit()`, and can be lost."""

from collections.abc import Iterator, Mapping, Sequence

from logherd.service.metadata import METADATA_TOPIC, Entry, MetadataRefusedError

_OVERHEAD = 140


class MemoryLog:
    """Two queues in one sequence of positions. `full` refuses appends; `crash()` keeps only what was committed."""

    def __init__(self) -> None:
        self.entries: dict[int, list[Entry]] = {0: [], 1: []}
        self.first: dict[int, int] = {0: 0, 1: 0}
        self.end_position = 0
        self.committed_position = 0
        self.start_epoch = 0
        self.full = False
        self.body_bytes_max = 4 << 20
        self.forgotten: dict[str, int] = {}
        self.ends: dict[tuple[str, int], int] = {}
        """Of queues of messages, which this log does not have: the test says how far they go."""

    def append(self, queue_id: int, body: bytes) -> tuple[int, int]:
        if self.full:
            raise MetadataRefusedError("the disk is full")
        if len(body) > self.body_bytes_max:
            raise MetadataRefusedError("the record is too large")
        start, end = self.end_position, self.end_position + _OVERHEAD + len(body)
        queue = self.entries[queue_id]
        queue.append(Entry(self.bounds(queue_id)[1], start, end, body))
        self.end_position = end
        return start, end

    def bounds(self, queue_id: int) -> tuple[int, int]:
        return self.first[queue_id], self.first[queue_id] + len(self.entries[queue_id])

    def queue_ends(self, topic: str) -> Sequence[int]:
        return [number for (name, queue_id), end in self.ends.items() if name == topic for number in (queue_id, end)]

    def queues_went_to(self, topic: str, ends: Sequence[int], _below: int) -> None:
        for queue_id, end in zip(ends[::2], ends[1::2], strict=True):
            if topic == METADATA_TOPIC:
                assert self.bounds(queue_id)[1] >= end, "this log remembers it"
                continue
            self.ends.setdefault((topic, queue_id), end)

    def queue_end(self, topic: str, queue_id: int) -> int:
        return self.bounds(queue_id)[1] if topic == METADATA_TOPIC else self.ends.get((topic, queue_id), 0)

    def committed_end(self, queue_id: int) -> int:
        queue = self.entries[queue_id]
        return self.first[queue_id] + sum(entry.end <= self.committed_position for entry in queue)

    def read(self, queue_id: int, queue_offset: int, below: int) -> Iterator[Entry]:
        for entry in self.entries[queue_id][max(queue_offset - self.first[queue_id], 0) :]:
            if entry.end > below:
                return
            yield entry

    def forget_topics(self, deleted: Mapping[str, int]) -> None:
        self.forgotten.update(deleted)

    def commit(self) -> None:
        self.committed_position = self.end_position

    def crash(self) -> None:
        for queue_id, queue in self.entries.items():
            self.entries[queue_id] = [entry for entry in queue if entry.end <= self.committed_position]
        self.end_position = self.committed_position
        self.full = False

    def cut_below(self, position: int) -> None:
        """Retention: forget every record that starts below `position`."""
        for queue_id, queue in self.entries.items():
            kept = [entry for entry in queue if entry.position >= position]
            self.first[queue_id] += len(queue) - len(kept)
            self.entries[queue_id] = kept
