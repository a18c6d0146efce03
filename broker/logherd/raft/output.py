"""What a step wants done, and in which order; and what it reports.

The shell's duty, in this order: (1) send `messages`; (2) if `flush` is set, flush every change of the store so far,
then send `held`, then feed `Flushed(flush)`; (3) load `load` if set, then apply up to `apply_to`, then feed `Applied`;
(4) give `answers` to whoever asked, and write `events` to the log.
"""

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from logherd.kit.errors import broken
from logherd.model.names import Epoch, Position
from logherd.raft.members import Configuration
from logherd.replication.log import Image
from logherd.replication.messages import Envelope, ReplicaId
from logherd.replication.shipping import LostData, RefusedAck

__all__ = [
    "Answer",
    "Decided",
    "DoubtEnded",
    "Event",
    "MembersChanged",
    "Outbox",
    "Output",
    "QuorumRecovered",
    "ReadReady",
    "Refusal",
    "Refused",
    "Role",
    "RoleChanged",
    "StorageStalled",
    "Strange",
    "Unknown",
]


class Role(Enum):
    """What a member does in its term."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Refusal(Enum):
    """Why a request was not begun. Nothing was appended, so it may be sent again, elsewhere or later."""

    NOT_LEADER = "not leader"
    NOT_READY = "leader has not committed in its term yet"
    TRANSFERRING = "leadership is being handed over"
    BUSY = "too much is uncommitted"
    DISK_FULL = "disk reserve touched"
    STORAGE_STALLED = "storage does not answer"
    RUNNING = "another change is running"
    INVALID = "not possible for this group"
    BEHIND = "a new voter did not catch up in time"
    TIMED_OUT = "no answer in time"


class Decided(msgspec.Struct, frozen=True, gc=False):
    """Committed, and durable on a majority; `position` is the record's end."""

    request: int
    position: Position


@dataclass(frozen=True, slots=True)
class ReadReady:
    """The state applied here, now, is new enough for this read."""

    request: int
    position: Position


@dataclass(frozen=True, slots=True)
class Refused:
    """Not begun. `leader` is a hint."""

    request: int
    reason: Refusal
    leader: ReplicaId | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Leadership was lost while the record was pending: it may yet be committed, or never."""

    request: int


Answer = Decided | ReadReady | Refused | Unknown


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """`ready` is set once a leader has applied a record of its own term: only then may it serve. `votes`: whose it has
    got, where an election was won."""

    role: Role
    term: Epoch
    leader: ReplicaId | None
    cause: str
    ready: bool = False
    votes: tuple[ReplicaId, ...] = ()


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """Another configuration holds since the record that ends at `since`."""

    configuration: Configuration
    since: Position


@dataclass(frozen=True, slots=True)
class Strange:
    """A message was refused because of where it comes from or goes to."""

    sender: ReplicaId
    reason: str


@dataclass(frozen=True, slots=True)
class StorageStalled:
    """The oldest flush has been waiting for an election time-out: this member must not look alive as a leader."""

    since: int


@dataclass(frozen=True, slots=True)
class QuorumRecovered:
    """An operator has replaced the quorum. To be logged loudly."""

    reset: int
    term: Epoch
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class DoubtEnded:
    """This member was doubtful after damage, has been brought up to `position`, and votes again."""

    position: Position


Event = RoleChanged | MembersChanged | Strange | StorageStalled | QuorumRecovered | DoubtEnded | LostData | RefusedAck


class Output(msgspec.Struct, frozen=True):
    """See the module's text for the order. `held` is empty unless `flush` is set."""

    messages: tuple[Envelope, ...] = ()
    flush: int | None = None
    held: tuple[Envelope, ...] = ()
    load: Image | None = None
    apply_to: Position | None = None
    answers: tuple[Answer, ...] = ()
    events: tuple[Event, ...] = ()


_NOTHING = Output()


@dataclass(slots=True)
class Outbox:
    """Collects one step's output."""

    messages: list[Envelope] = field(default_factory=list)
    held: list[Envelope] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    load: Image | None = None

    def drain(self, flush: int | None, apply_to: Position | None) -> Output:
        """Hand over what was collected, and begin anew."""
        if not (self.messages or self.held or self.answers or self.events or self.load is not None):
            return _NOTHING if flush is None and apply_to is None else Output((), flush, (), None, apply_to)
        if self.held and flush is None:
            broken("a held message names what it waits for", self.held)
        output = Output(
            tuple(self.messages),
            flush,
            tuple(self.held),
            self.load,
            apply_to,
            tuple(self.answers),
            tuple(self.events),
        )
        self.messages, self.held, self.answers, self.events, self.load = [], [], [], [], None
        return output
