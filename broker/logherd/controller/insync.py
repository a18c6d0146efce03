"""The in-sync set, changed by the master alone: one proposal at a time, compare-and-set on (epoch, version).

Source: controller-ha 1.8 (order of the checks and what each is refused with), rules R9 and R11.
"""

from msgspec.structs import replace

from logherd.controller.commands import AlterSyncSet, SyncMember
from logherd.controller.membership import sync_event
from logherd.controller.values import Group
from logherd.controller.verdicts import Refusal, Verdict, refused

__all__ = ["added_members", "alter_sync_set"]


def added_members(group: Group, command: AlterSyncSet) -> list[SyncMember]:
    """Whom the proposal adds."""
    return [member for member in command.members if member.broker_id not in group.sync.members]


def alter_sync_set(group: Group | None, command: AlterSyncSet) -> Verdict:
    """Replace the set. Who merely stays is not looked at, so a shrink is never refused for another's death (DX-20).

    The current set under a new request is the current set in a new version: so a master withdraws what it proposed
    before, of which copies may still be under way, and need not wait for members that will not come (DX-9).
    """
    if group is None or not group.replicas:
        return refused(group, Refusal.UNKNOWN_GROUP)
    ids = tuple(sorted({member.broker_id for member in command.members}))
    if command.request and command.request == group.sync.request and ids == group.sync.members:
        return Verdict(group)
    if ids == group.sync.members and not command.request:
        return refused(group, Refusal.UNCHANGED, "the proposed set is the current set")
    wrong = _fenced(group, command)
    if wrong is not None:
        return wrong
    for member in command.members:
        found = group.replica(member.broker_id)
        if found is None or not found.registration:
            return refused(group, Refusal.UNKNOWN_REPLICA, f"broker {member.broker_id} is not registered")
    for member in added_members(group, command):
        wrong = _unfit(group, command, member)
        if wrong is not None:
            return wrong
    if len(ids) != len(command.members) or command.broker_id not in ids:
        return refused(group, Refusal.WITHOUT_MASTER, "the set names the master, and each member once")
    if command.min_in_sync != group.rules.min_in_sync:
        return refused(group, Refusal.WRONG_RULES, f"the minimum is {group.rules.min_in_sync}")
    sync = group.sync.changed(ids, minimum=group.rules.min_in_sync)
    sync = replace(sync, committed=max(sync.committed, command.committed), request=command.request)
    after = replace(group, sync=sync)
    return Verdict(after, events=sync_event(group, after))


def _fenced(group: Group, command: AlterSyncSet) -> Verdict | None:
    tenure = group.tenure
    if tenure is None or tenure.ended or tenure.broker_id != command.broker_id:
        return refused(group, Refusal.NOT_MASTER, f"broker {command.broker_id} is not the master")
    if tenure.epoch != command.epoch:
        return refused(group, Refusal.FENCED_EPOCH, f"the epoch is {tenure.epoch}, not {command.epoch}")
    if tenure.registration != command.registration:
        return refused(group, Refusal.NOT_MASTER, f"registration {command.registration} is not the master's")
    if group.sync.version != command.version:
        return refused(group, Refusal.FENCED_VERSION, f"the version is {group.sync.version}, not {command.version}")
    return None


def _unfit(group: Group, command: AlterSyncSet, member: SyncMember) -> Verdict | None:
    """What speaks against adding this member: its process has changed since it acknowledged, or it is behind."""
    found = group.replica(member.broker_id)
    if found is None or found.registration != member.registration or found.exited:
        return refused(group, Refusal.FENCED_PROCESS, f"broker {member.broker_id} has another process")
    if found.learner:
        return refused(group, Refusal.LEARNER, f"broker {member.broker_id} is a learner")
    committed = max(group.sync.committed, command.committed)
    if member.end.position < committed.position or member.end.epoch < committed.epoch:
        return refused(group, Refusal.NOT_IN_SYNC, f"broker {member.broker_id} ends below the committed position")
    return None
