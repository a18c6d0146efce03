"""What an adapter can be told to do. Each names what it expects to find, so that a late one fails and does no harm
(OP-3); each may be repeated. `disruptive`: it takes something away that serves, so at most one is in a plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from logherd_operator.observed.slots import Component

__all__ = [
    "Action", "DeleteVolume", "Demote", "Forget", "GrowVolume", "LeaveOut", "Promote", "PushConfig", "Rebuild",
    "RemoveMember", "RenewClaims", "Restart", "RestartReason", "SetMembers", "SetRules", "SettleQuorum", "Switchover",
    "TakeLead", "TransferQuorum",
]  # fmt: skip


class RestartReason(StrEnum):
    """Why something is restarted (OP-53)."""

    SPEC_CHANGED = "SpecChanged"
    VOLUME_RESIZE = "VolumeResize"
    MANUAL = "ManualRestart"
    STUCK = "StuckPod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Base of all. `reason` is a sentence for people."""

    disruptive: ClassVar[bool] = False
    healing: ClassVar[bool] = False
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMembers(Action):
    """Let so many places of a component exist, never fewer than now; `before` is how many there are, None for none."""

    component: Component
    count: int
    before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMember(Action):
    """Take the highest place away: `count` brokers stay. `uid` is what stands there, "" for nothing."""

    disruptive: ClassVar[bool] = True
    ordinal: int
    count: int
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Action):
    """Stop what stands at a place, in order, so that the platform starts it anew from the wanted revision.

    `serving`: it may be asked politely (an eviction); else it serves nothing and is just replaced. `leads`: it leads,
    and nobody takes over meanwhile.
    """

    disruptive: ClassVar[bool] = True
    component: Component
    ordinal: int
    uid: str
    why: RestartReason
    serving: bool
    leads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Switchover(Action):
    """Let another broker lead. Repeatable by `request_id`; refused by the controllers in any other epoch.

    `ordered`: by a person, or for a restart that was; `heals`: for one of a leader that does not run as it should.
    `leader`: who is asked to hand over, where no controllers are.
    """

    disruptive: ClassVar[bool] = True
    target: int
    expected_epoch: int
    request_id: str
    ordered: bool = False
    heals: bool = False
    leader: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeLead(Action):
    """Mode static: promote a broker, in place of table `after`; it refuses if that would lose anything."""

    disruptive: ClassVar[bool] = True
    target: int
    after: int
    synchronous: tuple[int, ...]
    copies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Promote(Action):
    """Let a learner vote and be elected."""

    broker_id: int
    expected_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Demote(Action):
    """Take a broker out of the in-sync set for good; it stays as a learner."""

    disruptive: ClassVar[bool] = True
    broker_id: int
    expected_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget(Action):
    """Let the controllers forget a broker that is gone and holds nothing that the group needs."""

    broker_id: int
    expected_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRules(Action):
    """Tell the controllers how many brokers there are to be, and how many must have a message before it counts."""

    replicas: int
    min_in_sync: int
    preferred: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConfig(Action):
    """Give a running broker these settings."""

    ordinal: int
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveOut(PushConfig):
    """Mode raft: tell a broker that another one belongs to the group no more; it loses its vote when the leader is."""

    disruptive: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQuorum(Action):
    """Let another controller lead the controllers. `ordered`: the restart for which it has to was."""

    disruptive: ClassVar[bool] = True
    node: str
    ordered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleQuorum(Action):
    """Let these nodes, and nobody else, be the voters of the quorum: a controller came back on an empty disk."""

    disruptive: ClassVar[bool] = True
    healing: ClassVar[bool] = True
    voters: tuple[str, ...]
    expected_term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowVolume(Action):
    """Ask for a larger volume."""

    component: Component
    ordinal: int
    uid: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewClaims(Action):
    """Replace the platform's keeper of the places by one that makes volumes of the new size; nothing is stopped."""

    disruptive: ClassVar[bool] = True
    component: Component
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVolume(Action):
    """Delete the volume of a broker that was removed and forgotten."""

    ordinal: int
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild(Action):
    """Give a broker an empty volume in place of a lost or damaged one; it copies everything from the leader."""

    disruptive: ClassVar[bool] = True
    healing: ClassVar[bool] = True
    ordinal: int
    uid: str
    volume_uid: str
