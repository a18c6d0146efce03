"""Everything that a plan is made from, besides the spec and the clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from logherd_operator.observed.quorum import Group, Quorum
from logherd_operator.observed.slots import Component, Slot

__all__ = ["Kept", "Lender", "Observed", "Orders", "Platform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What people asked for beside the spec; on Kubernetes the object's annotations.

    `restart_at`: whatever was started before is to be restarted. `accepted_risks`: codes of refusals that are overruled
    for this generation of the spec. `rebuild`: ordinal of a broker, and the uid of its volume that is to be given up;
    of another volume it is done or out of date. `switchover`: the broker that is to lead, and the epoch that this is
    to end; in another epoch it is done or out of date.
    """

    restart_at: float | None = None
    accepted_risks: frozenset[str] = frozenset()
    rebuild: tuple[int, str] | None = None
    switchover: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What the platform keeps. Counts are None before anything was made. A revision names what a place is made from.

    `broker_template_old`: what brokers are made from is known to be of another spec than the one that is looked at.
    The claims: bytes of a volume that the platform would make for a new place; None where volumes have no size.
    `leader_address`: there is one that follows whom the controllers elect, and routes name that.
    """

    brokers: int | None = None
    controllers: int | None = None
    broker_revision: str = ""
    controller_revision: str = ""
    broker_template_old: bool = False
    broker_claim: int | None = None
    controller_claim: int | None = None
    leader_address: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Lender:
    """The group whose controllers are used, from its own spec. `there`: is there such a group? `lease_ms`: for so long
    its controllers let a broker lead. `uses`: the group whose controllers it uses itself; "" if it has its own.
    """

    there: bool = True
    lease_ms: int = 0
    uses: str = ""


class Kept(NamedTuple):
    """A clause for each object that is not as the group needs it: `taken` by somebody else, who has it under a name of
    the group's, or `refused` by the API server; and for each StatefulSet to whose template others have `added`. `held`
    are those that are not to be changed before a controller answers."""

    taken: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One look at a group. `group` and `quorum` are None if no controller could tell. `lender` is None where the group
    has controllers of its own.

    `hot`: settings that all brokers should have in force and can take while they run. `since`: what the last plan
    remembered, see `Plan.since`; an empty one is never dangerous, only slow.
    """

    platform: Platform
    brokers: tuple[Slot, ...] = ()
    controllers: tuple[Slot, ...] = ()
    group: Group | None = None
    quorum: Quorum | None = None
    lender: Lender | None = None
    orders: Orders = field(default_factory=Orders)
    hot: Mapping[str, str] = field(default_factory=dict)
    since: Mapping[str, float] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)

    def slots(self, component: Component) -> tuple[Slot, ...]:
        """All places of brokers, or of controllers."""
        return self.brokers if component == "broker" else self.controllers

    def has(self, component: Component) -> bool:
        """Does anything of it stand, or is one of its volumes there? So it may be where nothing keeps its places."""
        return any(each.instance is not None or each.volume is not None for each in self.slots(component))

    @property
    def broker_runs(self) -> bool:
        """Does one run, or may it still start? From nothing but the files and the template that stand."""
        standing = (each.instance for each in self.brokers)
        return any(each is not None and not each.failing and not each.unstarted for each in standing)

    def refusal(self, slot: Slot | None) -> str | None:
        """Why a broker takes no messages that leads, or would take none if it led, in its own words; empty if it does,
        None if nobody can tell now: of one that was not heard, hands over, or has not heard yet who leads now.
        """
        group, report = self.group, slot.report if slot is not None else None
        if group is None or report is None or slot is None:
            return None
        leads = slot.broker_id == group.leader
        if leads and (group.transfer is not None or (report.role, report.epoch) != ("leader", group.epoch)):
            return None
        return (report.fault or report.refuses) if leads or report.role == "follower" else None

    def broker(self, broker_id: int) -> Slot | None:
        """The place of a broker."""
        return next((each for each in self.brokers if each.broker_id == broker_id), None)
