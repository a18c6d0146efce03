"""Places for brokers and controllers: what stands there, on which volume, and what it says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["COMPONENTS", "Component", "Instance", "Report", "Slot", "Volume"]

Component = Literal["broker", "controller"]
COMPONENTS: tuple[Component, ...] = ("broker", "controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A pod, or a process of this machine with its guardian. Times are seconds since 1970.

    `uid` names exactly this one: of its successor it is another. `revision` is what it was started from. `failing` says
    why it cannot start, as the platform words it, and `unschedulable` why it has no node; empty if that is not so.
    `unstarted`: it has a node, and nothing of it ever ran there. `leaves_by`: it was told to stop and should be gone
    then. `unreachable`: its node does not answer. `budgets`: names of the disruption budgets over it; under more than
    one nobody can evict it.
    """

    uid: str
    revision: str
    started_at: float
    ready: bool = False
    leaves_by: float | None = None
    unreachable: bool = False
    failing: str = ""
    unschedulable: str = ""
    unstarted: bool = False
    node: str = ""
    zone: str = ""
    budgets: tuple[str, ...] = ()

    @property
    def terminating(self) -> bool:
        """Was it told to stop?"""
        return self.leaves_by is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The volume of a place, or a folder of this machine. Sizes in bytes; `lost`: there is nothing behind it any more.

    `leaving`: it was deleted, and is there only until what uses it stops. `resize_waits_since`: it has grown, but what
    uses it has to be restarted first.
    """

    uid: str
    requested: int = 0
    capacity: int = 0
    lost: bool = False
    leaving: bool = False
    resize_waits_since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a broker says at its admin port. `hot`: the settings in force that can be changed while it runs.

    `fault`: why it refuses to serve. `refuses`: why it takes no messages, or would not if it led.
    `rejected`: settings (`name=value`) that it was told and refused.
    """

    broker_id: int
    role: str
    epoch: int
    store_id: str = ""
    end: int = 0
    committed: int = 0
    version: str = ""
    address: str = ""
    fault: str = ""
    refuses: str = ""
    hot: Mapping[str, str] = field(default_factory=dict)
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One place of a component. A broker's id is its ordinal + 1; a controller's node is named by its ordinal."""

    ordinal: int
    instance: Instance | None = None
    volume: Volume | None = None
    report: Report | None = None

    @property
    def broker_id(self) -> int:
        """Of the broker that stands here."""
        return self.ordinal + 1

    @property
    def ready(self) -> bool:
        """Does something stand here that serves and is not about to go?"""
        return self.instance is not None and self.instance.ready and not self.instance.terminating
