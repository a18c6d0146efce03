"""One look at a group together with what is wanted: the questions that several chapters ask."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logherd_operator.observed.observed import Observed
from logherd_operator.observed.quorum import Group, Replica
from logherd_operator.observed.slots import COMPONENTS, Component, Instance, Slot
from logherd_operator.plan.pace import Pace
from logherd_operator.spec.group import BrokerGroupSpec

__all__ = [
    "Situation", "deletion_fact", "flapping_fact", "growth_fact", "held_for_orders", "lasting_facts", "order_fact",
    "rebuild_fact", "rebuild_order", "removed_fact", "resizing_fact", "transfer_fact", "unready_fact",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a chapter sees. `group` is what the controllers say of the broker group, None if nobody could tell."""

    observed: Observed
    spec: BrokerGroupSpec
    now: float
    pace: Pace
    since: dict[str, float]

    @property
    def group(self) -> Group | None:
        """The broker group, or None: unknown, which is not the same as gone."""
        return self.observed.group

    @property
    def by_controllers(self) -> bool:
        """Do the controllers say who leads, who counts, and what the group's rules are?"""
        return self.spec.by_controllers

    def kept(self) -> tuple[Slot, ...]:
        """Places of brokers that the platform keeps now, in order."""
        count = self.observed.platform.brokers or 0
        known = {each.ordinal: each for each in self.observed.brokers}
        return tuple(known.get(ordinal, Slot(ordinal=ordinal)) for ordinal in range(count))

    def staying(self) -> tuple[Slot, ...]:
        """Those of them that the spec wants."""
        return self.kept()[: self.spec.replicas]

    def removed(self) -> tuple[Slot, ...]:
        """Places above those that the platform keeps, of which something is left."""
        count = self.observed.platform.brokers or 0
        return tuple(each for each in self.observed.brokers if each.ordinal >= count)

    def controllers(self) -> tuple[Slot, ...]:
        """Places of the group's own controllers: those that the spec wants, and others where one stands. Where only a
        volume was left behind nobody will come back."""
        embedded = self.spec.controllers.embedded
        wanted = embedded.replicas if embedded is not None else 0
        return tuple(
            each
            for each in self.observed.controllers
            if each.ordinal < wanted or (wanted and each.instance is not None)
        )

    def lasting(self, fact: str) -> float:
        """For how many seconds something has been so without a break; 0 if it is not so."""
        first = self.since.get(fact)
        return 0.0 if first is None else self.now - first

    def rests(self, tried: str) -> bool:
        """Is what was tried left alone for a while? It may fail for ever, and everything else would wait for it."""
        return self.lasting(tried) % self.pace.stalled >= self.pace.stuck

    def placeless(self, slot: Slot) -> bool:
        """Has no node taken what belongs here for so long that people hear of it?"""
        return self.lasting(f"unschedulable:{slot.ordinal}") >= self.pace.unschedulable

    def ordered_anew(self, instance: Instance) -> bool:
        """Was it started before a person's order to restart, whose time has come?

        Of an order from the future, as of a clock that is ahead, whatever has just been restarted would be older, too.
        """
        ordered = self.observed.orders.restart_at
        return ordered is not None and instance.started_at < ordered <= self.now

    def renewed(self, component: Component) -> bool:
        """Is everything of a component to be restarted by order, and nothing of it was yet? Once that has begun,
        another template would have what was restarted restarted again."""
        standing = [each.instance for each in self.observed.slots(component) if each.instance is not None]
        return bool(standing) and all(self.ordered_anew(each) for each in standing)

    def resize_is_due(self, slot: Slot) -> bool:
        """Has the volume grown and waited long enough for a restart of what uses it?"""
        waits_since = slot.volume.resize_waits_since if slot.volume is not None else None
        return waits_since is not None and self.now - waits_since >= self.pace.resize

    def stale(self, slot: Slot) -> bool:
        """Was what stands here made from another revision than the wanted one?"""
        return slot.instance is not None and slot.instance.revision != self.observed.platform.broker_revision

    def broken(self, instance: Instance, wanted: str, siblings: Iterable[Slot]) -> bool:
        """Does it not run, for a reason of its own, while another revision might?

        Without controllers that lead, or a group that leads itself, nobody becomes ready: then only what the platform
        calls failing counts, what no node takes, and what never ran on its node, as without a volume. And what merely
        is not ready is not exchanged for a revision that fails elsewhere; nor, if it has run and may come back, for one
        with which another waits to run: not for long, for the other may wait for ever for a reason of its own.
        """
        if instance.ready or instance.terminating or instance.revision == wanted:
            return False
        if instance.failing:
            return True
        quorum = self.observed.quorum
        idle = _is_idle(instance)
        lost = idle or self.lasting(unready_fact(instance)) >= self.pace.stalled
        others = [each.instance for each in siblings if each.instance is not None and each.instance.revision == wanted]
        known_bad = any(each.failing or (not lost and _is_idle(each)) for each in others)
        led = quorum is not None and quorum.leader is not None
        if not self.by_controllers:
            led = self.group is not None and self.group.led
        return (led or idle) and not known_bad and not self.starting(instance)

    def starting(self, instance: Instance) -> bool:
        """May it still become ready by itself, so that nobody touches it (OP-52)?"""
        return not instance.ready and not instance.failing and self.now - instance.started_at < self.pace.starting

    def overdue(self, instance: Instance) -> bool:
        """Has it not been ready for longer than one may take? When it was made says nothing of when it restarted."""
        return self.lasting(unready_fact(instance)) > self.spec.update.pod_ready_timeout_seconds


def _is_idle(instance: Instance) -> bool:
    """Has nothing of it run? It has no node, or nothing starts there."""
    return bool(instance.unschedulable) or instance.unstarted


def unready_fact(instance: Instance) -> str:
    """That exactly this one is not ready."""
    return f"unready:{instance.uid}"


def held_for_orders(situation: Situation, stale: Iterable[Slot]) -> bool:
    """Does a changed spec wait for a person's order, which did not come after any of these was started?"""
    return situation.spec.update.strategy == "Manual" and not any(
        each.instance is not None and situation.ordered_anew(each.instance) for each in stale
    )


def growth_fact(component: Component, slot: Slot) -> str:
    """That the volume of a place was asked to grow; once it has, that is another fact."""
    return f"grow:{component}:{slot.ordinal}:{slot.volume.requested if slot.volume is not None else 0}"


def resizing_fact(component: Component, slot: Slot) -> str:
    """That the volume of a place was let grow and has not yet."""
    return f"resizing:{component}:{slot.ordinal}"


def deletion_fact(slot: Slot) -> str:
    """That the volume of a place was to be deleted."""
    return f"delete:{slot.ordinal}:{slot.volume.uid if slot.volume is not None else ''}"


def rebuild_fact(slot: Slot) -> str:
    """That the volume of a place was to be given up."""
    return f"rebuild:{slot.ordinal}:{slot.volume.uid if slot.volume is not None else ''}"


def rebuild_order(slot: Slot) -> str:
    """By which a person gives up the volume of a place."""
    volume = slot.volume.uid if slot.volume is not None else "UID"
    return f"give it an empty one: annotate the group with logherd.dev/rebuild={slot.ordinal}@{volume}"


def order_fact(target: int, epoch: int) -> str:
    """That a broker was ordered to lead, and asked to."""
    return f"ordered:{epoch}:{target}"


def removed_fact(instance: Instance) -> str:
    """That the place of exactly this one was taken away, and it is still there."""
    return f"removed:{instance.uid}"


def transfer_fact(group: Group) -> str:
    """That the hand-over to a broker is under way."""
    return f"transfer:{group.epoch}:{group.transfer}"


def flapping_fact(slot: Slot) -> str:
    """That a broker has taken messages again for moments only, and may be about to refuse them."""
    return f"flaps:{slot.broker_id}"


def lasting_facts(observed: Observed, now: float, pace: Pace) -> dict[str, float]:
    """What is so, and since when it has been seen to be so. Who saw it in the future had a clock that was ahead."""
    found = {fact: min(observed.since.get(fact, now), now) for fact in _facts(observed, pace)}
    for slot in observed.brokers:
        found |= _refusing(observed, slot, now, pace)
    return found


def _refusing(observed: Observed, slot: Slot, now: float, pace: Pace) -> dict[str, float]:
    """A broker whose disk is at its reserve may refuse messages at one look and not at the next. Who does so again soon
    after it took them flaps, until it has taken them for a while. A look that tells neither changes nothing."""
    told, refusal = observed.since, observed.refusal(slot)
    refuses, takes, flaps = f"refuses:{slot.broker_id}", f"takes:{slot.broker_id}", flapping_fact(slot)
    known = {fact: min(told[fact], now) for fact in (refuses, flaps) if fact in told}
    if refusal is None:
        return {**known, **({takes: min(told[takes], now)} if takes in told else {})}
    if refusal:
        return {refuses: now, **({flaps: now} if takes in told else {}), **known}
    took = min(told.get(takes, now), now)
    return {**known, takes: took} if refuses in known and now - took < pace.stuck else {}


def _facts(observed: Observed, pace: Pace) -> Iterator[str]:
    for slot in observed.brokers:
        if slot.instance is not None and slot.instance.unschedulable:
            yield f"unschedulable:{slot.ordinal}"
    places = [(component, slot) for component in COMPONENTS for slot in observed.slots(component)]
    standing = (slot.instance for _, slot in places if slot.instance is not None)
    yield from (unready_fact(instance) for instance in standing if not instance.ready)
    yield from (resizing_fact(component, slot) for component, slot in places if _is_resizing(slot))
    count = observed.platform.brokers
    above = (each.instance for each in observed.brokers if count is not None and each.ordinal >= count)
    yield from (removed_fact(instance) for instance in above if instance is not None)
    # What was tried is remembered for as long as it is not so.
    asked = {growth_fact(component, slot) for component, slot in places}
    asked |= {fact(each) for each in observed.brokers for fact in (deletion_fact, rebuild_fact)}
    yield from sorted(asked & observed.since.keys())
    group = observed.group
    if group is None:
        return
    if group.led:
        yield f"leader:{group.leader}@{group.epoch}"
    if group.transfer is not None:
        yield transfer_fact(group)
    for replica in group.replicas:
        yield from _facts_of(replica, group, pace)
    # What was tried is remembered for as long as the epoch lasts in which it was tried.
    tried = f"switch:{group.epoch}:"
    yield from (fact for fact in observed.since if fact.startswith(tried))
    if observed.orders.switchover is not None:
        fact = order_fact(*observed.orders.switchover)
        yield from {fact} & observed.since.keys()


def _is_resizing(slot: Slot) -> bool:
    return slot.volume is not None and 0 < slot.volume.capacity < slot.volume.requested


def _facts_of(replica: Replica, group: Group, pace: Pace) -> Iterator[str]:
    number = replica.broker_id
    if group.settled(number):
        yield f"in-sync:{number}"
    else:
        yield f"behind:{number}"
    # Of a full member it says nothing, and under load it would be another at each look.
    if replica.learner and replica.alive and replica.lag <= pace.caught_up_bytes:
        yield f"near:{number}"
