"""The leader's view of one follower: where it is, what is under way to it, and what to send next.

Three modes. PROBE: not known how far the logs agree; one question is out, asked again with growing gaps. REPLICATE:
known; records are sent ahead as far as the window allows. COPY: what it needs is no longer kept; a full copy runs.

Source: raft-log rule 5.5; the modes are those of etcd's tracker and JRaft's replicator.
"""

from dataclasses import dataclass
from enum import Enum

from logherd.kit.errors import ensure
from logherd.model.names import Position
from logherd.replication.epochs import NOWHERE
from logherd.replication.log import Image
from logherd.replication.messages import ReplicaId
from logherd.replication.window import Window

__all__ = ["CopyState", "Mark", "Mode", "Room", "Sender", "ShipOptions"]


class Mode(Enum):
    """What the leader is doing with a follower."""

    PROBE = "probe"
    REPLICATE = "replicate"
    COPY = "copy"


class Room(Enum):
    """What a follower said last of its disk; see HeartbeatAck."""

    ENOUGH = "enough"
    SHORT = "none for clients' records, or no wish to lead"
    NONE = "none now"


@dataclass(frozen=True, slots=True)
class ShipOptions:
    """Limits of shipping. Times in milliseconds, sizes in bytes."""

    heartbeat_ms: int = 150
    answer_ms: int = 500
    """No progress for this long: go back to probing."""
    backoff_ms_max: int = 5_000
    message_bytes_max: int = 1 << 20
    window_messages: int = 64
    window_bytes: int = 8 << 20
    small_bytes: int = 64 << 10
    small_ahead: int = 1
    """Records of less than `small_bytes` wait while so many messages are under way, and travel with what comes
    meanwhile. Each message costs a pass, a flush and an answer, so with many small ones processors are busy in vain."""
    chunk_bytes: int = 1 << 20
    chunks_ahead: int = 4
    catch_up_bytes_per_second: int = 64 << 20
    """All followers that are behind share this, and each may have what is appended meanwhile besides. Those in step are
    not limited by it."""

    def __post_init__(self) -> None:
        ensure(self.heartbeat_ms > 0 and self.answer_ms > 0, "times are positive", self)
        ensure(self.answer_ms <= self.backoff_ms_max, "back-off starts below its limit", self)
        ensure(0 < self.message_bytes_max <= self.window_bytes, "the window holds a full message", self)
        ensure(self.small_bytes >= 0 and self.small_ahead > 0, "small messages move", self)
        ensure(self.chunk_bytes > 0 and self.chunks_ahead > 0, "copies move", self)
        ensure(self.catch_up_bytes_per_second > 0, "followers behind must be able to catch up", self)


@dataclass(slots=True)
class CopyState:
    """A full copy on its way: bytes that the follower confirmed, and bytes sent."""

    image: Image
    confirmed: int = 0
    sent: int = 0
    asked: bool = False
    """Whether the follower has said how far it already is; until then one question is out."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How things stood when a round began that the follower has not answered yet, or has answered last."""

    round: int = 0
    end: Position = NOWHERE
    match: Position = NOWHERE


@dataclass(slots=True)
class Sender:
    """Invariants: (1) match <= next <= end of the log, and match never falls while the follower keeps its disk;

    (2) `generation` rises with every entry to PROBE; (3) only an answer of the current generation moves `next` down,
    and never to below match.
    """

    peer: ReplicaId
    window: Window
    next: Position
    match: Position = NOWHERE
    mode: Mode = Mode.PROBE
    generation: int = 1
    retry_at: int | None = None
    failures: int = 0
    room: Room = Room.ENOUGH
    behind: bool = True
    copy: CopyState | None = None
    mark: Mark = Mark()

    def become_probe(self, at: Position) -> None:
        """Ask again from `at` (but not below what is confirmed), as a new generation."""
        self.mode = Mode.PROBE
        self.generation += 1
        self.next = max(at, self.match)
        self.window.clear()
        self.copy = None
        self.retry_at = None
        self.behind = True

    def become_replicate(self, verified: Position) -> None:
        """The logs agree up to `verified`: send ahead from there."""
        ensure(self.mode is not Mode.REPLICATE, "replicate is entered from another mode", self.mode)
        self.mode = Mode.REPLICATE
        self.next = max(verified, self.match)
        self.window.clear()
        self.copy = None
        self.retry_at = None
        self.failures = 0

    def become_copy(self, image: Image) -> None:
        """What it needs is gone: send the image instead."""
        self.mode = Mode.COPY
        self.window.clear()
        self.copy = CopyState(image)
        self.retry_at = None
        self.behind = True

    def confirm(self, durable: Position) -> bool:
        """The follower has flushed up to `durable`; True if that is news."""
        self.window.release(durable)
        if durable <= self.match:
            return False
        self.match = durable
        self.next = max(self.next, durable)
        self.failures = 0
        return True

    def asked(self, now: int, options: ShipOptions) -> None:
        """A message that needs an answer has gone out: set the deadline, further away after each failure."""
        wait = min(options.answer_ms << min(self.failures, 16), options.backoff_ms_max)
        self.retry_at = now + wait
