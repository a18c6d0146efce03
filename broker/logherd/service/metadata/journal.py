"""How metadata reaches the log: the log as a protocol, and the one place that appends changes.

The system topic has two queues: 0 holds the changes, 1 the snapshots. Order between both is their position.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from logherd.service.metadata.changes import Change, encode
from logherd.service.metadata.errors import NotLeading

__all__ = ["CHANGES", "METADATA_TOPIC", "SNAPSHOTS", "Entry", "Journal", "MetadataLog"]

METADATA_TOPIC = "rmq_sys_LOGHERD_METADATA"
CHANGES = 0
SNAPSHOTS = 1


class Entry(NamedTuple):
    """One record: number in its queue, its first byte in the log and the one after its last, its body."""

    queue_offset: int
    position: int
    end: int
    body: bytes


class MetadataLog(Protocol):
    """What metadata needs of the message store. Positions are bytes of the log, ends are exclusive."""

    @property
    def end_position(self) -> int:
        """End of everything appended."""

    @property
    def committed_position(self) -> int:
        """Everything below is durable, and committed by the group."""

    @property
    def start_epoch(self) -> int:
        """The epoch of what stood before the log's first record; 0 if nothing did, or nothing of an epoch."""

    def append(self, queue_id: int, body: bytes) -> tuple[int, int]:
        """(start, end) position of the new record, which is not durable yet.

        Raises: MetadataRefusedError when the log takes nothing more, even from its reserve.
        """

    def bounds(self, queue_id: int) -> tuple[int, int]:
        """(first kept, next to be appended) queue offset. May read a file. Raises: StoreDamaged, OSError."""

    def queue_ends(self, topic: str) -> Sequence[int]:
        """[queue id, the queue offset that its next message would get, ...] of all queues that had one."""

    def queues_went_to(self, topic: str, ends: Sequence[int], below: int) -> None:
        """A snapshot says so, also of the changes' queue; no record that ends at or below the position `below` deletes
        the topic. Of a queue with a message in this log, the log itself says it better; where the log begins behind all
        messages of one, nothing else says which number the next one has."""

    def queue_end(self, topic: str, queue_id: int) -> int:
        """The queue offset that the next message to this queue of any topic would get. Reads nothing."""

    def committed_end(self, queue_id: int) -> int:
        """The queue offset after the last committed record. Costs nothing, so that every commit may ask."""

    def read(self, queue_id: int, queue_offset: int, below: int) -> Iterator[Entry]:
        """Records from `queue_offset` on that end at or below position `below`, committed or not."""

    def forget_topics(self, deleted: Mapping[str, int]) -> None:
        """Topics were deleted by records that end at these positions, which another replica appended: their queues end
        there. Where that is not committed, a cut brings them back."""


class Journal:
    """Appends changes and keeps count of them; knows nothing of their meaning. `leading`: whether it may append."""

    def __init__(self, log: MetadataLog) -> None:
        self.log = log
        self.leading = False
        self.position = 0
        """End of the newest change that memory has: an answer that tells of any change waits for this position."""
        self.next_offset = 0
        """Queue offset of the first change that memory does not have."""
        self.bytes_since_snapshot = 0

    def append(self, change: Change) -> int:
        """Write one change; returns its end position. Raises MetadataRefusedError, and then nothing was written."""
        self.check()
        start, end = self.log.append(CHANGES, encode(change))
        self.note(start, end)
        return end

    def note(self, start: int, end: int) -> None:
        """Memory has the next change now, a record from `start` to `end`."""
        self.next_offset += 1
        self.position = end
        self.bytes_since_snapshot += end - start

    def unsettled(self, position: int) -> int:
        """The position if the log is not committed up to it yet, else 0."""
        return position if position > self.log.committed_position else 0

    def check(self) -> None:
        """Raises NotLeading unless this replica may append."""
        if not self.leading:
            raise NotLeading("this replica does not lead its group: it changes no topic, group or offset")
