"""What brokers tell the controllers with each heartbeat, and what they hear back."""

from msgspec import Struct

from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point

__all__ = ["Granted", "Report", "RoleView", "Seen", "Turn", "Withheld"]


class Turn(Struct, frozen=True, kw_only=True):
    """The place of a heartbeat among those of its process."""

    number: int = 0
    """Counts the heartbeats of this process: one with a lower number than another comes late. 0: not counted."""
    answered: int | None = None
    """The highest number of a heartbeat of which this process knew the answer when it made this one; 0: of none. None:
    it does not say."""


class Report(Turn, frozen=True, kw_only=True):
    """A heartbeat. `healthy`: the store has appended and flushed within its bound; `barrier`: that of an epoch can
    be appended, be it in the reserve; `space`: so it can, and messages find room above the reserve."""

    group: GroupKey
    broker_id: BrokerId
    registration: Registration
    address: str
    end: Point = ORIGIN
    epoch_ends: tuple[Point, ...] = ()
    """What its log begins after, and where each leadership but that of `end` ends in it; the latest of them. Told while
    the broker knows of no leader; by one of an earlier release, never."""
    committed: Point = ORIGIN
    healthy: bool = True
    space: bool = True
    barrier: bool = True
    priority: int = 0
    """Smaller is better; compared only between equally long logs."""
    resigned: Epoch = Epoch(0)
    """The latest epoch in which this process will not lead any more, said again and again: a release may be lost."""


class Seen(Struct, frozen=True):
    """The latest report of a broker and when it came, by the controller leader's clock."""

    report: Report
    at: int
    stands: bool = True
    """Whether it says something about now: no longer once its process has let go. Its number counts all the same."""
    after: int = 0
    """It was made after this moment, by the same clock; see SeenTable."""


class RoleView(Struct, frozen=True, kw_only=True, cache_hash=True):
    """What a broker must know of its group, in every answer (R19): level-triggered, nothing is told only once."""

    epoch: Epoch
    master: BrokerId | None
    master_address: str
    master_registration: Registration
    version: int
    members: tuple[BrokerId, ...]
    processes: tuple[Registration, ...]
    """The latest process of each member, in the order of `members`: what an earlier one acknowledges does not count,
    because it may have another store (R6)."""
    learners: tuple[BrokerId, ...]
    min_in_sync: int
    others: tuple[tuple[BrokerId, Registration], ...] = ()
    """The latest process of each other broker that has one."""


class Granted(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The broker leads in this epoch for `holder_ms`, counted from when it sent the heartbeat by its own clock.

    `hand_over`: stop taking writes, and release the lease once this broker has everything. `endpoint`: the address
    that follows the leader is known to lead to it in this epoch.
    """

    view: RoleView
    holder_ms: int
    hand_over: BrokerId | None
    endpoint: bool = False


class Withheld(Struct, frozen=True, cache_hash=True):
    """No lease. `refusal` says why, None if the broker simply does not lead."""

    view: RoleView | None
    refusal: Refusal | None
