"""What came of a command: refused for a reason, or done, with the events that others must hear of."""

from dataclasses import dataclass
from enum import Enum

from logherd.controller.values import BrokerId, Group, GroupKey, Registration
from logherd.model.names import Epoch

__all__ = [
    "Cleaned", "Event", "LossAccepted", "MasterElected", "MasterEnded", "Promoted", "Refusal", "Registered",
    "SyncSetChanged", "TransferCancelled", "TransferPlanned", "Verdict", "refused",
]  # fmt: skip


class Refusal(Enum):
    """Why a command was refused. Nothing was changed."""

    UNKNOWN_GROUP = "no such group"
    UNKNOWN_REPLICA = "no such broker in the group"
    ID_TAKEN = "the broker id belongs to another broker"
    NOT_MASTER = "not the master of this group"
    FENCED_EPOCH = "another epoch"
    FENCED_VERSION = "another version of the in-sync set"
    FENCED_PROCESS = "another process of this broker"
    UNCHANGED = "nothing would change"
    WITHOUT_MASTER = "the in-sync set must contain the master"
    NOT_IN_SYNC = "the broker is not in sync"
    NOT_ALIVE = "the broker does not report"
    NOT_FIT = "the broker's store is broken or has no space"
    LEARNER = "the broker is a learner"
    IN_SYNC = "the broker is in sync"
    ALIVE = "the broker reports"
    LEASE_RUNS = "the lease of the latest master may still run"
    NOBODY = "nobody can be elected without loss"
    EMPTY = "the broker has no record, and others who report have some"
    BELOW_MINIMUM = "too few would be in sync"
    RESIGNED = "the broker has let go of this leadership"
    RUNNING = "another change is running"
    WRONG_RULES = "the rules do not fit this group"
    REQUEST_REUSED = "the request id stood for something else"


@dataclass(frozen=True, slots=True)
class Registered:
    """A process of a broker has registered. `lost`: what it had acknowledged is not there any more."""

    group: GroupKey
    broker_id: BrokerId
    registration: Registration
    lost: bool


@dataclass(frozen=True, slots=True)
class MasterElected:
    """A leadership has begun; it is effective with its first lease. `former`: whose leadership was the latest.
    `in_sync`: the set that it begins with."""

    group: GroupKey
    broker_id: BrokerId
    epoch: Epoch
    cause: str
    former: BrokerId | None
    in_sync: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class MasterEnded:
    """A leadership gets no more leases. `released`: and it holds none, so that nobody need wait."""

    group: GroupKey
    broker_id: BrokerId
    epoch: Epoch
    released: bool
    cause: str


@dataclass(frozen=True, slots=True)
class SyncSetChanged:
    """There is another in-sync set."""

    group: GroupKey
    before: tuple[BrokerId, ...]
    members: tuple[BrokerId, ...]
    eligible: tuple[BrokerId, ...]
    version: int


@dataclass(frozen=True, slots=True)
class LossAccepted:
    """A replica was elected that may lack committed records: by an operator, or because all who had them went down
    before they had flushed them. To be logged loudly."""

    group: GroupKey
    broker_id: BrokerId
    in_sync: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Promoted:
    """Static mode: an operator has said who leads."""

    group: GroupKey
    broker_id: BrokerId
    table: int


@dataclass(frozen=True, slots=True)
class TransferPlanned:
    """The master is to hand over."""

    group: GroupKey
    target: BrokerId


@dataclass(frozen=True, slots=True)
class TransferCancelled:
    """The master is to go on."""

    group: GroupKey
    target: BrokerId


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Brokers were forgotten; all of the group if there are no ids."""

    group: GroupKey
    broker_ids: tuple[BrokerId, ...]


Event = (
    Registered | MasterElected | MasterEnded | SyncSetChanged | LossAccepted | TransferPlanned | TransferCancelled
    | Cleaned | Promoted
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """`group` is the group as it is after the command; None if there is none, or for settings."""

    group: Group | None = None
    refusal: Refusal | None = None
    detail: str = ""
    events: tuple[Event, ...] = ()


def refused(group: Group | None, refusal: Refusal, detail: str = "") -> Verdict:
    """A verdict that changes nothing. `detail` says what was found."""
    return Verdict(group, refusal, detail)
