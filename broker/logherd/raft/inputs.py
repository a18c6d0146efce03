"""Everything that can happen to a Raft core. `request` numbers are the shell's own and come back in the answers."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from logherd.model.names import Epoch, Position
from logherd.raft.members import Goal
from logherd.replication.epochs import Point
from logherd.replication.log import Image
from logherd.replication.messages import Envelope, ReplicaId

__all__ = [
    "Appended",
    "Applied",
    "ChangeMembers",
    "DiskFull",
    "Flushed",
    "ImageKept",
    "Input",
    "Linked",
    "Patience",
    "Propose",
    "ProposeAll",
    "Read",
    "Received",
    "RecoverQuorum",
    "StoreBroken",
    "Tick",
    "Transfer",
]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Taken every 20 ms or so; only after the messages that have arrived."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message has arrived, from whomever it claims; the shell has authenticated the sender's name."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Linked:
    """There is a new connection to this member; what was under way on an older one is lost."""

    peer: ReplicaId


@dataclass(frozen=True, slots=True)
class Patience:
    """The shortest election time-outs that other replicas tell of themselves, in milliseconds, whoever is not named has
    the own one. Takes the place of what was told before; told before any message of a process whose time-out it names.
    """

    election_ms: Mapping[ReplicaId, int]


@dataclass(frozen=True, slots=True)
class Flushed:
    """All changes of the store up to this token are durable. A failed flush is not told: the process stops."""

    token: int


class Propose(msgspec.Struct, frozen=True, gc=False):
    """Append these bytes as one record."""

    request: int
    body: bytes


@dataclass(frozen=True, slots=True)
class ProposeAll:
    """Everything that was proposed in one pass of the loop: each is a record, shipped and flushed together."""

    proposals: tuple[Propose, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Tell me how far to apply before I may answer a read that begins now. `lease`: without asking the others."""

    request: int
    lease: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """The state machine has applied everything up to here."""

    position: Position


@dataclass(frozen=True, slots=True)
class ImageKept:
    """An image of the applied state was handed to the store. The log below the image before it may go."""

    image: Image


@dataclass(frozen=True, slots=True)
class ChangeMembers:
    """Work towards other members; only the leader does, one change at a time. `instead`: in place of a change that
    waits for its new voters, if there is one."""

    request: int
    goal: Goal
    instead: bool = False


@dataclass(frozen=True, slots=True)
class Transfer:
    """Hand leadership over; to the member with the longest log if none is named."""

    request: int
    target: ReplicaId | None = None


@dataclass(frozen=True, slots=True)
class DiskFull:
    """The reserve of the disk is touched (or free again): no records, but votes and heartbeats go on.

    `short`: where the owner appends, clients' records are refused already and others are taken. Such a leader hands
    over to who has space once that has lasted, and such a follower stands after all who have (H4). Without `barrier`
    the owner could not append the record with which a term begins: nobody stands for one, but who leads goes on.
    """

    full: bool
    short: bool = False
    barrier: bool = True


@dataclass(frozen=True, slots=True)
class StoreBroken:
    """The store does not work (or does again): a leader lets go at once, and nobody stands for election."""

    broken: bool


@dataclass(frozen=True, slots=True)
class Appended:
    """The log's owner has written to it (`RaftOptions.owner_appends`). Any other input notices, too."""


@dataclass(frozen=True, slots=True)
class RecoverQuorum:
    """An operator's decision that the voters not listed will never come back. It can lose committed records.

    Given, with the same words, to every survivor; legal only where no leader is heard. `survivors` names each with the
    end of its log; the longest one begins the new term `term` (above all of theirs) with a record that makes the
    survivors the voters; the rest promise it their vote. `reset` is above the cluster's at each survivor, so that an
    order that reached only some of them can be followed by another: envelopes of the old quorum are refused.
    """

    request: int
    reset: int
    term: Epoch
    survivors: tuple[tuple[ReplicaId, Point], ...]


Input = (
    Tick
    | Received
    | Linked
    | Patience
    | Flushed
    | Propose
    | ProposeAll
    | Read
    | Applied
    | ImageKept
    | ChangeMembers
    | Transfer
    | DiskFull
    | StoreBroken
    | Appended
    | RecoverQuorum
)
