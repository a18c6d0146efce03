"""What a step wants done, and in which order; and what it reports.

The shell's duty, in this order: (1) take `events` in their order, before it touches the log again; (2) send `messages`;
(3) if `flush` is set: if `keep` is set, make that promise durable, then flush every change of the log so far, then send
`held`, then feed `Flushed(flush)`; (4) make everything up to `commit` visible, and release the answers that waited
for it, each only if `serving(now)` still holds; (5) send `asks` to the controllers. What this leads to (a
barrier to append, an answer) is fed to the core after all of it.
"""

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from logherd.controller.commands import AlterSyncSet, Register, Release
from logherd.controller.reports import Report
from logherd.controller.values import BrokerId
from logherd.kit.errors import broken
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import Point
from logherd.replication.log import Image
from logherd.replication.messages import Envelope, ReplicaId
from logherd.replication.shipping import LostData, RefusedAck

__all__ = [
    "Ask", "Behind", "Closed", "Cut", "Drained", "Draining", "Event", "Fenced", "Following", "Installed", "Leading",
    "MustRebuild", "Outbox", "Output", "Promise", "Resumed", "Serving", "SetChanged", "StorageStalled", "Strange",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Promise:
    """What a replica must not forget: the highest epoch seen, and in `raft` mode whom it has voted for in that epoch,
    and how often the group was rebuilt after a lost majority.

    Kept as one record, the newest in place of the one before; a core is made with the one that was found. `doubtful`:
    damage may have taken a newer one, or records that were acknowledged (raft/doubt.py).
    """

    epoch: Epoch = Epoch(0)  # noqa: RUF009
    vote: ReplicaId | None = None
    doubtful: bool = False
    reset: int = 0


class Closed(Enum):
    """Why a client's write is not taken now. Nothing was appended, so it may be sent again, elsewhere or later."""

    NOT_SERVING = "this replica does not lead, or its lease is over"
    DRAINING = "leadership is being handed over"
    STOPPING = "its process is about to stop"
    NO_SPACE = "the disk's reserve is touched"
    TOO_FEW = "fewer replicas are in sync than must be"
    LACKING = "its table names it as the leader, and it lacks what was acknowledged: another broker has to be promoted"


@dataclass(frozen=True, slots=True)
class Fenced:
    """Serve nothing any more; whoever waits for an answer hears that it is unknown."""

    epoch: Epoch
    cause: str


@dataclass(frozen=True, slots=True)
class Leading:
    """A leadership begins: append its barrier, with the end before it, and say so. `in_sync`: in mode controller the
    set with which it begins. `votes`: in mode raft those that it has got, its own among them."""

    epoch: Epoch
    after: Position
    in_sync: tuple[BrokerId, ...] = ()
    votes: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class Serving:
    """The barrier is committed and the lease runs: serve, checking the lease at each answer; not while it is handed
    over."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Draining:
    """Take no more writes: leadership goes to `target`, or to anybody if this process is about to stop."""

    epoch: Epoch
    target: BrokerId | None


@dataclass(frozen=True, slots=True)
class Resumed:
    """The hand-over was given up: take writes again, if service has begun and not ended since."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Following:
    """Whom clients are to be sent to; None: nobody is known to lead. The address is "" until the controllers tell."""

    epoch: Epoch
    leader: BrokerId | None
    address: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The log was cut here: what was derived from records above it is wrong."""

    at: Position


@dataclass(frozen=True, slots=True)
class Installed:
    """The log now begins with this image; everything that was derived from older records is gone."""

    image: Image


@dataclass(frozen=True, slots=True)
class MustRebuild:
    """An operator has given up records that are committed here: this replica must begin anew, with an empty store."""

    committed: Point
    leader: ReplicaId


@dataclass(frozen=True, slots=True)
class SetChanged:
    """Another in-sync set is in force."""

    before: tuple[BrokerId, ...]
    members: tuple[BrokerId, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Behind:
    """`static` mode: the synchronous followers that do not keep up; an empty tuple: all do again."""

    epoch: Epoch
    members: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Drained:
    """Nobody waits for this process any more: it may stop."""


@dataclass(frozen=True, slots=True)
class StorageStalled:
    """The oldest flush has been waiting since then; a leader lets go."""

    since: int


@dataclass(frozen=True, slots=True)
class Strange:
    """A message was dropped because of where it comes from, where it goes to, or what it is."""

    sender: ReplicaId
    reason: str


Event = (
    Fenced | Leading | Serving | Draining | Resumed | Following | Cut | Installed | MustRebuild | SetChanged | Drained
    | StorageStalled | Strange | Behind | LostData | RefusedAck
)  # fmt: skip

Ask = Report | AlterSyncSet | Register | Release
"""What the controllers are asked; each is sent as it is by `service.controllers.asking`, and asked again if need be."""


class Output(msgspec.Struct, frozen=True):
    """See the module's text for the order. `held` is empty unless `flush` is set."""

    events: tuple[Event, ...] = ()
    messages: tuple[Envelope, ...] = ()
    keep: Promise | None = None
    flush: int | None = None
    held: tuple[Envelope, ...] = ()
    commit: Position | None = None
    asks: tuple[Ask, ...] = ()


_NOTHING = Output()


@dataclass(slots=True)
class Outbox:
    """Collects one step's output."""

    events: list[Event] = field(default_factory=list)
    messages: list[Envelope] = field(default_factory=list)
    held: list[Envelope] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    keep: Promise | None = None
    flush: int | None = None

    def drain(self, commit: Position | None) -> Output:
        """Hand over what was collected, and begin anew."""
        if self.flush is None:
            if self.held:
                broken("a held message names what it waits for", self.held)
            if self.keep is not None:
                broken("a promise is kept by a flush", self.keep)
            if commit is None and not (self.events or self.messages or self.asks):
                return _NOTHING
        output = Output(
            tuple(self.events), tuple(self.messages), self.keep, self.flush, tuple(self.held), commit,
            tuple(self.asks),
        )  # fmt: skip
        self.events, self.messages, self.held, self.asks = [], [], [], []
        self.keep = self.flush = None
        return output
