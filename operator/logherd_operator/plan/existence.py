"""Chapter: places for controllers and brokers exist, and the group gets its first leader."""

from collections.abc import Iterator

from logherd_operator.plan.actions import Restart, RestartReason, SetMembers, SetRules
from logherd_operator.plan.guards import not_kept, volume_stays
from logherd_operator.plan.outcome import Act, Block, Code, Operation, OperationType, Step, Wait
from logherd_operator.plan.situation import Situation
from logherd_operator.spec.replication import Failover

__all__ = ["compare_lease", "create", "found", "hear"]


def create(situation: Situation) -> Iterator[Step]:
    """Make what was never made, and what somebody deleted: places only come here, they never go."""
    platform, embedded = situation.observed.platform, situation.spec.controllers.embedded
    if embedded is not None and (platform.controllers or 0) < embedded.replicas:
        yield Act(action=SetMembers(
            component="controller", count=embedded.replicas,
            before=platform.controllers, reason=f"the group has {embedded.replicas} controllers",
        ))  # fmt: skip
    if platform.brokers is not None:
        yield from _bring_back(situation, platform.brokers)
        return
    if situation.by_controllers and situation.group is None and situation.observed.broker_runs:
        yield from hear(situation)  # what was deleted below pods that run is made again once that is known
    count = _first_count(situation)
    why = "as the spec says" if count == situation.spec.replicas else "as many as there are volumes of"
    yield Act(action=SetMembers(component="broker", count=count, before=None, reason=f"{count} brokers, {why}"))
    yield Wait(operation=Operation(type=OperationType.PROVISION, state="Create", message=f"{count} brokers are made"))


def _bring_back(situation: Situation, have: int) -> Iterator[Step]:
    """Let places of full members exist again that somebody else took away, as by scaling the StatefulSet.

    Here they go after they have stopped to count. So with too few places nothing else is done: who belongs to the group
    is no longer what the places say, and those that are left may be too few to elect a leader.
    """
    group = situation.group
    if group is None:
        return
    learners = {each.broker_id for each in group.replicas if each.learner}
    known = {*group.in_sync, *group.eligible, *(each.broker_id for each in group.replicas)} - learners
    count = max((number for number in known if number <= situation.spec.replicas), default=0)
    if count <= have:
        return
    why = f"broker {count} is a full member, and somebody left {have} places"
    yield Act(action=SetMembers(component="broker", count=count, before=have, reason=why))
    yield Wait(operation=Operation(type=OperationType.REPAIR, state="BringBack", message=why))


def _first_count(situation: Situation) -> int:
    """How many brokers were there before, if their keeper is gone and they are not; else what the spec says.

    Scaling needs copying: so a group that is found again begins as large as it was, and is then scaled in order. Where
    a leader is known it is known who belongs to it, too: then what was kept of a removed broker counts nothing.
    """
    group = situation.group
    told = group is not None and group.led
    numbers = [
        each.broker_id for each in situation.observed.brokers
        if each.instance is not None
        or (each.volume is not None and (each.ordinal < situation.spec.replicas or not told))
    ]  # fmt: skip
    if group is not None:
        numbers += [each.broker_id for each in group.replicas]
    return max(numbers, default=situation.spec.replicas)


def compare_lease(situation: Situation) -> Iterator[Step]:
    """Two heartbeats may be lost in a lease. Of own controllers the spec's rules see to it; another group's have their
    own, and whoever changes that one sees nothing of this group, whose own lease nobody asks for."""
    lender, failover, ref = situation.observed.lender, situation.spec.failover, situation.spec.controllers.ref
    if ref is None or lender is None or not lender.there or not situation.by_controllers:
        return
    beat = failover.heartbeat_interval_ms
    if lender.lease_ms < 3 * beat:
        yield Block(
            code=Code.LEASE_TOO_SHORT,
            message=f"failover.leaseMs of the group {ref.name} is {lender.lease_ms}, less than three of this group's "
            f"failover.heartbeatIntervalMs, which is {beat}: a leader may lose its lease between two heartbeats",
            unblocks=f"failover.heartbeatIntervalMs of {lender.lease_ms // 3} or less here, which restarts nothing, or "
            "a longer lease there",
        )
    # The default, which the API server fills in, is no wish.
    if failover.lease_ms not in (lender.lease_ms, Failover().lease_ms):
        yield Block(
            code=Code.LEASE_ELSEWHERE,
            message=f"failover.leaseMs of {failover.lease_ms} does nothing here: the controllers are those of the "
            f"group {ref.name}, whose failover.leaseMs of {lender.lease_ms} counts",
            unblocks="no failover.leaseMs here, or the one that is wanted there, for all groups with those controllers",
        )


def hear(situation: Situation) -> Iterator[Step]:
    """Without word of how the group stands nothing is taken away; only what serves nobody is replaced."""
    if situation.group is not None:
        return
    whose = "controllers" if situation.by_controllers else "brokers"
    ref, lender = situation.spec.controllers.ref, situation.observed.lender
    of = f" of the group {ref.name}" if ref is not None and situation.by_controllers else ""
    message = f"no {whose.removesuffix('s')}{of} tells how the group stands"
    if of and lender is not None and not lender.there:
        message += f", and there is no BrokerGroup{of.removeprefix(' of the group')} in this namespace"
    yield Block(
        code=Code.QUORUM_UNREACHABLE,
        message=message,
        unblocks=f"a majority of the {whose}{of} has to be up, and reachable from the operator",
    )
    yield from _heal_unstarted(situation)
    yield Wait(operation=_provision("AwaitQuorum", f"the {whose} do not answer"))


def found(situation: Situation) -> Iterator[Step]:
    """Until the group has had a leader it has no data: it may have any size, and what cannot start is replaced.

    Where its brokers found it themselves, they are those with which it began. The controllers go by what the first
    broker said of its size; of one that was led before, and that they have forgotten, all have to come.
    """
    group, platform = situation.group, situation.observed.platform
    if group is None or group.founded:
        return
    wanted, have = situation.spec.replicas, platform.brokers or 0
    if wanted > have and situation.by_controllers and not_kept(situation) is None:
        yield Act(action=SetMembers(component="broker", count=wanted, before=have, reason=f"{wanted} brokers found it"))
    if wanted < group.rules.replicas and situation.by_controllers and group.epoch == 0:
        yield Act(
            action=SetRules(
                replicas=wanted, min_in_sync=situation.spec.min_in_sync, preferred=group.rules.preferred,
                reason=f"{wanted} brokers found it, no more {group.rules.replicas}",
            )
        )  # fmt: skip
    yield from _heal_unstarted(situation)
    yield Wait(operation=_provision("AwaitFirstLeader", group.why or "the group has had no leader yet"))


def _heal_unstarted(situation: Situation) -> Iterator[Step]:
    """Replace one place that cannot become ready and was made from what is no longer wanted."""
    for slot in situation.kept():
        instance, wanted = slot.instance, situation.observed.platform.broker_revision
        if instance is None or slot.report is not None or volume_stays(slot) is not None:
            continue
        if situation.broken(instance, wanted, situation.observed.brokers):
            yield Act(
                action=Restart(
                    component="broker", ordinal=slot.ordinal, uid=instance.uid, why=RestartReason.STUCK, serving=False,
                    reason=f"it cannot start ({instance.failing or 'not ready'}), and its template is out of date",
                ),
                operation=_provision("Heal", "a broker that cannot start is replaced"),
            )  # fmt: skip
            return


def _provision(state: str, message: str) -> Operation:
    return Operation(type=OperationType.PROVISION, state=state, message=message)
