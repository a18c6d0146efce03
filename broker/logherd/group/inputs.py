"""Everything that can happen to a replica of a group, whoever leads it and however."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from logherd.controller.reports import Granted, Withheld
from logherd.controller.values import BrokerId, Registration
from logherd.group.table import Table
from logherd.model.names import Epoch
from logherd.replication.epochs import Point
from logherd.replication.messages import Envelope, ReplicaId

__all__ = [
    "Appended",
    "Assigned",
    "Drain",
    "Flushed",
    "HandOver",
    "Health",
    "Heard",
    "Input",
    "Linked",
    "MembersWanted",
    "Noticed",
    "Patience",
    "ReadWanted",
    "Rebuild",
    "Received",
    "Registered",
    "SetAnswered",
    "Tick",
    "Unlinked",
]


class Tick(msgspec.Struct, frozen=True, gc=False):
    """Time has passed. Taken every 20 ms or so; only after the messages that have arrived."""


class Received(msgspec.Struct, frozen=True, gc=False):
    """A message has arrived from another replica; the shell has authenticated the sender's name."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Linked:
    """There is a new connection to this replica; what was under way on an older one is lost."""

    peer: ReplicaId


@dataclass(frozen=True, slots=True)
class Unlinked:
    """The connection to this replica broke: it may have died. Nothing is concluded from that but to ask at once."""

    peer: ReplicaId


class Flushed(msgspec.Struct, frozen=True, gc=False):
    """All changes up to this token are durable. A failed flush is not told: the process stops."""

    token: int


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The leader's services have appended: its barrier first, then whatever they like. Any other input notices, too."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The controllers have registered this process under this number."""

    registration: Registration


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to the heartbeat that was asked for at `sent`, by this process's clock.

    Withheld without a view: the controllers do not know this process, which registers again.
    """

    answer: Granted | Withheld
    sent: int
    number: int = 0
    """That of the heartbeat."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """The controllers have news of the group: a hint to ask now, which may be false, and may be lost."""


@dataclass(frozen=True, slots=True)
class SetAnswered:
    """A proposal was accepted: this set is in force. A refusal is not told, the next view tells why."""

    request: str
    members: tuple[BrokerId, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Health:
    """How the store is. `space`: its reserve is whole; `messages`: clients' find room, also where that takes a further
    segment, so that the reserve may be whole and this not: a leader's store refuses some then, and somebody else should
    lead; `room`: some of the reserve is left; `healthy`: it works; `barrier`: that of an epoch can be appended, without
    which nobody leads."""

    space: bool = True
    room: bool = True
    healthy: bool = True
    barrier: bool = True
    messages: bool = True

    @property
    def takes_messages(self) -> bool:
        """Whether a leader with this store refuses no message for want of space: what is told and chosen by (H4)."""
        return self.space and self.messages


@dataclass(frozen=True, slots=True)
class Drain:
    """The process is about to stop: hand over, or leave the in-sync set, so that nobody waits for it."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """`static` mode: this is the latest table of roles that is known, be it from the configuration or recorded.

    `waits`: if it names this broker, that leads only when it is said once more.
    """

    table: Table
    waits: bool = False


@dataclass(frozen=True, slots=True)
class HandOver:
    """`raft` mode: an operator wants this leader to hand over, to whoever has most if no `target` is named."""

    target: BrokerId | None = None


@dataclass(frozen=True, slots=True)
class MembersWanted:
    """`raft` mode: who should belong to the group. The leader works towards it; told to everybody, again and again."""

    voters: tuple[ReplicaId, ...]
    learners: tuple[ReplicaId, ...] = ()


@dataclass(frozen=True, slots=True)
class Patience:
    """`raft` mode: the shortest election time-outs that other replicas tell of themselves, see raft.inputs.Patience."""

    election_ms: Mapping[ReplicaId, int]


@dataclass(frozen=True, slots=True)
class ReadWanted:
    """Somebody reads from this follower: ask the leader whether what is here is new enough."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """`raft` mode: an operator gives up the voters that are not named; they never come back. Given to each survivor
    with the same words, where no leader is heard. See raft.inputs.RecoverQuorum, which says what the fields mean."""

    reset: int
    epoch: Epoch
    survivors: tuple[tuple[ReplicaId, Point], ...]


Input = (
    Tick | Received | Linked | Unlinked | Flushed | Appended | Registered | Heard | SetAnswered | Health | Drain
    | Assigned | HandOver | MembersWanted | Patience | Rebuild | Noticed | ReadWanted
)  # fmt: skip
