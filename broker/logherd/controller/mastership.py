"""Who leads: elections, released leases, planned transfers. Each function is (group, command) -> verdict.

Waiting is the office's business; everything else that makes an election right is checked here, in the log's order, so
that two controllers who both thought they led cannot both have their way.

Source: controller-ha rules R2, R10, R12, R13; design H14.
"""

from msgspec import UNSET
from msgspec.structs import replace

from logherd.controller.commands import CancelTransfer, Elect, Grounds, PlanTransfer, Release
from logherd.controller.membership import sync_event
from logherd.controller.values import BrokerId, Group, Replica, SyncSet, Tenure, Transfer
from logherd.controller.verdicts import (
    Event,
    LossAccepted,
    MasterElected,
    MasterEnded,
    Refusal,
    TransferCancelled,
    TransferPlanned,
    Verdict,
    refused,
)
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN

__all__ = ["cancel_transfer", "elect", "plan_transfer", "release"]

_FIRST = (Grounds.FIRST, Grounds.FIRST_BY_OPERATOR)
_WITH_LOSS = (Grounds.DOUBTED, Grounds.OUTRUN, Grounds.UNCLEAN)


def elect(group: Group | None, command: Elect) -> Verdict:
    """Begin the next epoch under this process, if nothing has happened since it was proposed."""
    if group is None:
        return refused(None, Refusal.UNKNOWN_GROUP)
    if (repeated := _repeated(group, command)) is not None:
        return repeated
    if command.expected_epoch != group.epoch:
        return refused(group, Refusal.FENCED_EPOCH, f"the epoch is {group.epoch}, not {command.expected_epoch}")
    winner = group.replica(command.broker_id)
    if winner is None:
        return refused(group, Refusal.UNKNOWN_REPLICA, f"broker {command.broker_id} is not registered")
    wrong = _unelectable(winner, command) or _groundless(group, winner, command)
    if wrong is not None:
        return refused(group, wrong, f"broker {winner.broker_id}, {command.grounds.value}: {wrong.value}")
    epoch = Epoch(group.epoch + 1) if command.epoch is UNSET else command.epoch
    if epoch <= group.epoch:
        return refused(group, Refusal.FENCED_EPOCH, f"the epoch is {group.epoch}, and {epoch} is no later one")
    tenure = Tenure(
        broker_id=winner.broker_id, store_id=winner.store_id, incarnation=winner.incarnation,
        registration=winner.registration, epoch=epoch, request=command.request,
    )  # fmt: skip
    sync = _new_set(group, winner, command)
    after = replace(group, epoch=epoch, tenure=tenure, sync=sync, transfer=None, founded=True)
    former = group.tenure.broker_id if group.tenure is not None else None
    events: list[Event] = [
        MasterElected(group.key, winner.broker_id, epoch, command.grounds.value, former, sync.members)
    ]
    if command.grounds in _WITH_LOSS:
        events.append(LossAccepted(group.key, winner.broker_id, group.sync.holders or group.sync.doubted))
    return Verdict(after, events=(*events, *sync_event(group, after)))


def _repeated(group: Group, command: Elect | PlanTransfer) -> Verdict | None:
    """What is said to a request that has been carried out: the same as then, unless it asks for somebody else.

    A transfer under the request of the leadership that stands would otherwise end it, and its election do nothing.
    """
    tenure = group.tenure
    if not command.request or tenure is None or tenure.request != command.request:
        return None
    if tenure.broker_id == command.broker_id:
        return Verdict(group)
    return refused(group, Refusal.REQUEST_REUSED, f"{command.request!r} made broker {tenure.broker_id} the master")


def _unelectable(winner: Replica, command: Elect) -> Refusal | None:
    if winner.registration != command.registration or winner.exited or not winner.registration:
        return Refusal.FENCED_PROCESS
    return Refusal.LEARNER if winner.learner else None


def _groundless(group: Group, winner: Replica, command: Elect) -> Refusal | None:
    """The reason that does not hold, of those that can be checked without a clock."""
    tenure, trusted = group.tenure, group.sync.holders
    if command.grounds in _FIRST:
        if group.founded:
            return Refusal.NOT_IN_SYNC
        present = {each.broker_id for each in group.replicas if each.registration and not each.learner}
        few = len(present & {*command.alive, winner.broker_id}) < group.rules.replicas
        return Refusal.BELOW_MINIMUM if few and command.grounds is Grounds.FIRST else None
    if command.grounds is Grounds.RELEASED and (tenure is None or not tenure.released):
        return Refusal.LEASE_RUNS
    if command.grounds is Grounds.DOUBTED:
        last = group.founded and not trusted and winner.broker_id in group.sync.doubted
        return None if last else Refusal.NOT_IN_SYNC
    if command.grounds is Grounds.OUTRUN:
        return None if group.outrun else Refusal.NOT_IN_SYNC
    if command.grounds is Grounds.UNCLEAN:
        return None if group.founded and winner.broker_id not in trusted else Refusal.IN_SYNC
    return None if winner.broker_id in trusted else Refusal.NOT_IN_SYNC


def _new_set(group: Group, winner: Replica, command: Elect) -> SyncSet:
    minimum, alive = group.rules.min_in_sync, set(command.alive)
    if command.grounds in _WITH_LOSS:
        # What was known to be committed may be gone; only what the winner commits from now on counts.
        return replace(group.sync.changed((winner.broker_id,), minimum=minimum, keep=False), committed=ORIGIN)
    if command.grounds in _FIRST:
        empty = {r.broker_id for r in group.replicas if r.end == ORIGIN and r.registration and not r.learner}
        together = empty & alive if winner.end == ORIGIN else set[BrokerId]()
        founded = group.sync.changed(tuple(sorted({winner.broker_id} | together)), minimum=minimum, keep=False)
        # A late release of a leadership that was forgotten with its group says nothing about this one.
        return replace(founded, committed=ORIGIN)
    # R10: members that live stay members, so that the next failure finds somebody to elect (DX-27).
    kept = {member for member in group.sync.members if member in alive}
    return group.sync.changed(tuple(sorted({winner.broker_id} | kept)), minimum=minimum)


def release(group: Group | None, command: Release) -> Verdict:
    """Give the lease back at once. Compare-and-set on (store, incarnation), and of a process that lives on the epoch: a
    late report ends no other process, and no later leadership of the same one."""
    if group is None:
        return refused(None, Refusal.UNKNOWN_GROUP)
    process = (command.broker_id, command.store_id, command.incarnation)
    found, tenure = group.replica(command.broker_id), group.tenure
    known = found is not None and (found.broker_id, found.store_id, found.incarnation) == process
    leads = tenure is not None and (tenure.broker_id, tenure.store_id, tenure.incarnation) == process
    if not known and not leads:
        return refused(group, Refusal.FENCED_PROCESS, f"broker {command.broker_id} has another process")
    after, events = group, list[Event]()
    if known and found is not None and command.exited:
        after = after.having(replace(found, exited=True))
    if tenure is not None and not command.exited and command.epoch is not UNSET and tenure.epoch > command.epoch:
        leads = False
    if leads and tenure is not None and not tenure.released:
        after = after.ending_tenure(released=True)
        after = replace(after, sync=replace(after.sync, committed=max(after.sync.committed, command.committed)))
        cause = _cause(group, command)
        events.append(MasterEnded(group.key, tenure.broker_id, tenure.epoch, released=True, cause=cause))
    return Verdict(after, events=tuple(events))


def _cause(group: Group, command: Release) -> str:
    if command.exited:
        return "its process has exited"
    return "it let go" if group.transfer is None else f"it handed over to broker {group.transfer.target}"


def plan_transfer(group: Group | None, command: PlanTransfer) -> Verdict:
    """Ask the master to hand over to another in-sync process; it stops writes first, so nothing is lost."""
    if group is None:
        return refused(None, Refusal.UNKNOWN_GROUP)
    if (repeated := _repeated(group, command)) is not None:
        return repeated
    if group.transfer is not None and (group.transfer.request, group.transfer.target) == (
        command.request, command.broker_id,
    ):  # fmt: skip
        return Verdict(group)
    if command.expected_epoch != group.epoch:
        return refused(group, Refusal.FENCED_EPOCH, f"the epoch is {group.epoch}, not {command.expected_epoch}")
    target, master = group.replica(command.broker_id), group.master
    if target is None:
        return refused(group, Refusal.UNKNOWN_REPLICA, f"broker {command.broker_id} is not registered")
    if master is None:
        return refused(group, Refusal.NOT_MASTER, "there is no master that could hand over")
    if target == master:
        return refused(group, Refusal.UNCHANGED, f"broker {target.broker_id} is the master")
    if group.transfer is not None:
        return refused(group, Refusal.RUNNING, f"a transfer to broker {group.transfer.target} is running")
    if target.registration != command.registration or target.exited:
        return refused(group, Refusal.FENCED_PROCESS, f"broker {target.broker_id} has another process")
    if target.broker_id not in group.sync.members:
        return refused(group, Refusal.NOT_IN_SYNC, f"broker {target.broker_id} is not in sync")
    after = replace(group, transfer=Transfer(target=target.broker_id, request=command.request))
    return Verdict(after, events=(TransferPlanned(group.key, target.broker_id),))


def cancel_transfer(group: Group | None, command: CancelTransfer) -> Verdict:
    """Give a planned transfer up, if it is still this one and the master has not let go."""
    if group is None:
        return refused(None, Refusal.UNKNOWN_GROUP)
    transfer = group.transfer
    if transfer is None or transfer.request != command.request or command.expected_epoch != group.epoch:
        return refused(group, Refusal.UNCHANGED, "this transfer is not planned")
    after = replace(group, transfer=None)
    return Verdict(after, events=(TransferCancelled(group.key, transfer.target),))
