"""How metadata reaches the log: the log as a protocol, and the one place that appends changes.

The system topic has two queues: 0 holds the changes, 1 the snapshots. Order between both is their position.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from logherd.service.metadata.changes import Change, encode

__all__ = ["CHANGES", "METADATA_TOPIC", "SNAPSHOTS", "Entry", "Journal", "MetadataLog"]

METADATA_TOPIC = "rmq_sys_LOGHERD_METADATA"
CHANGES = 0
SNAPSHOTS = 1


class Entry(NamedTuple):
    """One committed record: number in its queue, its first byte in the log and the one after its last, its body."""

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
        """Everything below is durable."""

    def append(self, queue_id: int, body: bytes) -> tuple[int, int]:
        """(start, end) position of the new record, which is not durable yet.

        Raises: MetadataRefusedError when the log takes nothing more, even from its reserve.
        """

    def bounds(self, queue_id: int) -> tuple[int, int]:
        """(first kept, next to be appended) queue offset."""

    def queue_end(self, topic: str, queue_id: int) -> int:
        """The queue offset that the next message to this queue of any topic would get."""

    def read(self, queue_id: int, queue_offset: int) -> Iterator[Entry]:
        """Committed records from `queue_offset` to the end."""


class Journal:
    """Appends changes and keeps count of them; knows nothing of their meaning."""

    def __init__(self, log: MetadataLog) -> None:
        self.log = log
        self.position = 0
        """End of the newest change: an answer that tells of any change waits for this position."""
        self.bytes_since_snapshot = 0

    def append(self, change: Change) -> int:
        """Write one change; returns its end position. Raises MetadataRefusedError, and then nothing was written."""
        start, end = self.log.append(CHANGES, encode(change))
        self.bytes_since_snapshot += end - start
        self.position = end
        return end
