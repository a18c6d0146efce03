"""What a chapter yields and what a plan is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from logherd_operator.observed.slots import Component
from logherd_operator.plan.actions import Action

__all__ = ["Act", "Block", "Code", "Operation", "OperationType", "Plan", "Step", "Wait"]


class OperationType(StrEnum):
    """What is under way."""

    PROVISION = "Provision"
    UPDATE = "Update"
    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"
    SWITCHOVER = "Switchover"
    GROW = "Grow"
    REPAIR = "Repair"
    CONFIGURE = "Configure"


class Code(StrEnum):
    """Why something that was asked for is not done."""

    BELOW_MIN_IN_SYNC = "BelowMinInSync"
    DATA_LOST = "DataLost"
    LAST_COPY = "LastCopy"
    LEASE_ELSEWHERE = "LeaseElsewhere"
    LEASE_TOO_SHORT = "LeaseTooShort"
    NAME_TAKEN = "NameTaken"
    NODE_UNREACHABLE = "NodeUnreachable"
    NOT_ALL_IN_SYNC = "NotAllInSync"
    NO_LEADER = "NoLeader"
    OBJECT_REFUSED = "ObjectRefused"
    OVERLAPPING_BUDGET = "OverlappingBudget"
    PAUSED = "Paused"
    QUORUM_UNHEALTHY = "QuorumUnhealthy"
    QUORUM_UNREACHABLE = "QuorumUnreachable"
    STORE_DAMAGED = "StoreDamaged"
    STUCK_TERMINATING = "StuckTerminating"
    SWITCHOVER_FAILED = "SwitchoverFailed"
    TEMPLATE_EDITED = "TemplateEdited"
    UNSCHEDULABLE = "Unschedulable"
    UPDATE_STALLED = "UpdateStalled"
    VOLUME_LOST = "VolumeLost"
    VOLUME_NOT_GROWN = "VolumeNotGrown"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    WAITING_FOR_WINDOW = "WaitingForWindow"
    WOULD_STOP_WRITES = "WouldStopWrites"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is under way: at most one. `ordinal` is the place of `component` that it is about."""

    type: OperationType
    state: str
    message: str
    ordinal: int | None = None
    component: Component = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Do this as part of an operation; None: it stands alone. `fact`: remembered, unless it is held back."""

    action: Action
    operation: Operation | None = None
    fact: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing else may begin before this is over."""

    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Something is not done: why, and what would let it go on. Other chapters may go on."""

    code: Code
    message: str
    unblocks: str

    def beside(self, other: "Block") -> "Block":
        """With what another one of the same code says."""
        message, unblocks = _both(self.message, other.message), _both(self.unblocks, other.unblocks)
        return Block(code=self.code, message=message, unblocks=unblocks)

    @property
    def holds(self) -> bool:
        """Does anything wait for it? Else it is only told."""
        return self.code not in (Code.LEASE_ELSEWHERE, Code.LEASE_TOO_SHORT, Code.TEMPLATE_EDITED)


def _both(said: str, other: str) -> str:
    return said if other in said else f"{said}; {other}"


Step = Act | Wait | Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do now, in order; at most one action is disruptive, and it is the last.

    `since`: when what is so was first seen; to be handed back with the next look. `again_seconds`: when to look again
    if nothing wakes the operator before. `renewed`: components all of whose places are about to be restarted by order,
    so that they may be made from what the platform has kept back until then.
    """

    actions: tuple[Action, ...] = ()
    operation: Operation | None = None
    blocked: tuple[Block, ...] = ()
    since: Mapping[str, float] = field(default_factory=dict)
    again_seconds: float = 60.0
    renewed: frozenset[Component] = frozenset()

    @property
    def codes(self) -> frozenset[Code]:
        """Of everything that is blocked."""
        return frozenset(each.code for each in self.blocked)
