"""What happened in a run, as data: sends with their outcomes, reads, and the final drain of every queue.

Times are monotonic nanoseconds of one host. A value is unique per attempt, so a resend is a value of its own.
"""

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["History", "Outcome", "Read", "Send"]

Queue = tuple[str, int]


class Outcome(Enum):
    """What the sender may believe: stored, certainly not stored, or either."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Send:
    """One attempt. `queue` and `offset` are the answer's and only set when the outcome is OK."""

    value: str
    outcome: Outcome
    invoked: int
    returned: int | None = None
    queue: Queue | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """One answered read of one queue: what it showed, in order, and the maximum it reported (None: no strong read).

    `start` is the offset from which it asked for messages, None if it asked for none.
    """

    queue: Queue
    entries: tuple[tuple[int, str], ...]
    invoked: int
    returned: int
    max_offset: int | None = None
    start: int | None = None


@dataclass(slots=True)
class History:
    """A whole run. `final` is the drain of every queue after the last fault: (min offset, entries from there).

    `deletes`: whether retention may have taken the beginning of a queue.
    """

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    final: dict[Queue, tuple[int, list[tuple[int, str]]]] = field(default_factory=dict)
    drained: bool = False
    deletes: bool = False
