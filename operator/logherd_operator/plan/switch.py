"""Handing the leadership over before the leader is restarted or removed: to whom, how often, and when to give up."""

from collections.abc import Iterator

from logherd_operator.observed.quorum import Group
from logherd_operator.observed.slots import Slot
from logherd_operator.plan.actions import RestartReason, Switchover
from logherd_operator.plan.outcome import Act, Block, Code, Operation, OperationType, Step, Wait
from logherd_operator.plan.situation import Situation, transfer_fact

__all__ = ["await_transfer", "switch_from"]

_TRIES_MAX = 3


def switch_from(
    situation: Situation, group: Group, leader: Slot, kind: OperationType, why: RestartReason | None = None
) -> Iterator[Step]:
    """Order it once for each target and epoch, up to three targets; then say that it failed, and after a long rest
    begin again. Beside one that is under way none is ordered. Always ends the plan. `why`: of the restart that it is
    for."""
    if group.transfer is not None:
        yield from await_transfer(situation, group, group.transfer, leader, kind)
        return
    tried = _tried(situation, group)
    current = [each for each in tried if situation.lasting(_fact(group, each)) < _patience(situation)]
    if current:
        yield Wait(operation=_operation(kind, "Switch", f"broker {current[0]} was asked to take over", leader))
        return
    targets = [each for each in _targets(situation, group, leader) if each not in tried]
    if not targets or len(tried) >= _TRIES_MAX:
        yield _failed(group, leader, tried)
        yield Wait(operation=_operation(kind, "SwitchoverFailed", "nobody took over", leader))
        return
    target, how = targets[0], "does not run as it should" if why is RestartReason.STUCK else "goes last"
    yield Act(
        fact=_fact(group, target),
        action=Switchover(
            target=target, expected_epoch=group.epoch, request_id=f"planned-{group.epoch}-{target}",
            ordered=why is RestartReason.MANUAL, heals=why is RestartReason.STUCK,
            leader=None if situation.by_controllers else leader.broker_id,
            reason=f"broker {leader.broker_id} leads and {how}; broker {target} takes over",
        ),
        operation=_operation(kind, "Switch", f"broker {target} takes over", leader),
    )  # fmt: skip


def await_transfer(
    situation: Situation, group: Group, target: int, leader: Slot, kind: OperationType
) -> Iterator[Step]:  # fmt: skip
    """A hand-over is under way. Of one that does not end it is told, and everything waits."""
    if situation.lasting(transfer_fact(group)) >= _patience(situation):
        yield _unended(target, leader)
    yield Wait(operation=_operation(kind, "Switch", f"broker {target} is taking over", leader))


def _targets(situation: Situation, group: Group, leader: Slot) -> list[int]:
    """Who is in sync and serves; of these first who is up to date, is to stay, and has the longest log."""
    found = []
    for slot in situation.kept():
        replica = group.replica(slot.broker_id)
        if slot == leader or replica is None or replica.learner or not slot.ready:
            continue
        if slot.broker_id in group.in_sync and replica.alive is not False:
            leaving = slot.ordinal >= situation.spec.replicas
            found.append((leaving, situation.stale(slot), replica.lag, slot.broker_id))
    return [each[-1] for each in sorted(found)]


def _tried(situation: Situation, group: Group) -> list[int]:
    """In this epoch. Nobody, once it has long been said that they failed: an order may never have arrived, or what
    stood against it is over, and who has one follower has nobody else to ask."""
    prefix = f"switch:{group.epoch}:"
    found = sorted(fact for fact in situation.since if fact.startswith(prefix))
    rest = _patience(situation) + situation.pace.stalled
    if found and min(situation.lasting(fact) for fact in found) >= rest:
        for fact in found:
            del situation.since[fact]
        return []
    return sorted(int(fact.removeprefix(prefix)) for fact in found)


def _fact(group: Group, target: int) -> str:
    return f"switch:{group.epoch}:{target}"


def _patience(situation: Situation) -> float:
    return float(situation.spec.switchover_timeout_seconds)


def _unended(target: int, leader: Slot) -> Block:
    return Block(
        code=Code.SWITCHOVER_FAILED,
        message=f"broker {target} is taking over from broker {leader.broker_id}, and that does not end",
        unblocks="the controllers have to give it up, as they do by themselves with what takes too long; look at the "
        "log of the one that leads them",
    )  # fmt: skip


def _failed(group: Group, leader: Slot, tried: list[int]) -> Block:
    who = f"brokers {tried} were asked" if tried else "no other broker is in sync and ready"
    return Block(
        code=Code.SWITCHOVER_FAILED,
        message=f"broker {leader.broker_id} leads in epoch {group.epoch}, and nobody took over: {who}",
        unblocks="another replica in sync and ready; or, if what stood against it is over: logherd switchover (with "
        "Kubernetes kubectl logherd switchover)",
    )


def _operation(kind: OperationType, state: str, message: str, slot: Slot) -> Operation:
    return Operation(type=kind, state=state, message=message, ordinal=slot.ordinal)
