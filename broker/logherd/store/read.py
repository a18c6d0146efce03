"""What a read of a queue answers."""

from dataclasses import dataclass
from enum import Enum

__all__ = ["ReadResult", "ReadStatus"]


class ReadStatus(Enum):
    """Why a read ended as it did. RocketMQ's name for each is its value, for those who map to response codes."""

    FOUND = "FOUND"
    NO_MATCH = "NO_MATCHED_MESSAGE"
    """Units were there, none with a wanted tag."""
    QUEUE_EMPTY = "NO_MESSAGE_IN_QUEUE"
    """The queue never had a message."""
    TOO_SMALL = "OFFSET_TOO_SMALL"
    AT_END = "OFFSET_OVERFLOW_ONE"
    """The offset is the next one to be written: wait for it."""
    BEYOND_END = "OFFSET_OVERFLOW_BADLY"


@dataclass(slots=True)
class ReadResult:
    """`slices` are views of the log that stay valid for as long as they are kept; joined they are whole records, in
    order of offset. `count` is the number of records in them."""

    status: ReadStatus
    slices: list[memoryview]
    next_offset: int
    min_offset: int
    max_offset: int
    count: int
