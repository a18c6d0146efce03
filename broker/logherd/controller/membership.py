"""Who belongs to a group: claims, registrations, learners, rules. Each function is (group, command) -> verdict.

Source: controller-ha rules R11, R12, R20; defects DX-18, DX-19, DX-25 name what goes wrong otherwise.
"""

from msgspec.structs import replace

from logherd.controller.commands import Claim, Clean, Configure, Move, Register, SetLearner
from logherd.controller.values import BrokerId, Group, Registration, Replica, Rules, SyncSet
from logherd.controller.verdicts import (
    Cleaned,
    Event,
    MasterEnded,
    Refusal,
    Registered,
    SyncSetChanged,
    Verdict,
    refused,
)
from logherd.model.names import Epoch
from logherd.replication.epochs import Point

__all__ = ["claim", "clean", "configure", "lacks", "move", "register", "set_learner", "sync_event"]

_ID_MAX = (1 << 31) - 1

_LATER_EPOCH = "a later epoch is known"


def sync_event(before: Group, after: Group) -> tuple[Event, ...]:
    """The change of the in-sync set between two states of a group, if there is one."""
    old, new = before.sync, after.sync
    if (old.members, old.eligible) == (new.members, new.eligible):
        return ()
    return (SyncSetChanged(after.key, old.members, new.members, new.eligible, new.version),)


def claim(group: Group | None, command: Claim) -> Verdict:
    """Reserve an id. An unknown group begins with id 1, so that two first brokers cannot both be new."""
    if group is None:
        if command.broker_id != 1:
            return refused(None, Refusal.ID_TAKEN, f"the first id of a group is 1, not {command.broker_id}")
        group = Group(key=command.group)
    if not 1 <= command.broker_id <= _ID_MAX:
        return refused(group, Refusal.ID_TAKEN, f"broker ids are 1 to {_ID_MAX}, not {command.broker_id}")
    found = group.replica(command.broker_id)
    if found is not None and found.check_code != command.check_code:
        return refused(group, Refusal.ID_TAKEN, f"broker id {command.broker_id} is taken")
    if found is not None:
        return Verdict(group)
    return Verdict(group.having(Replica(broker_id=command.broker_id, check_code=command.check_code)))


def register(group: Group | None, command: Register) -> Verdict:
    """Take in a broker process, and find out first whether its store still has what it had acknowledged (R11)."""
    if group is None:
        rules = command.rules
        if not _sensible(rules):
            return refused(None, Refusal.WRONG_RULES, f"{rules.min_in_sync} of {rules.replicas} cannot be in sync")
        group = Group(key=command.group, rules=rules)
    if not 1 <= command.broker_id <= _ID_MAX or not command.store_id or not command.incarnation:
        return refused(group, Refusal.ID_TAKEN, "a broker registers with an id from 1, a store id and an incarnation")
    found = group.replica(command.broker_id) or Replica(broker_id=command.broker_id, learner=command.learner)
    if found.store_id not in (command.store_id, command.replaces):
        return refused(group, Refusal.ID_TAKEN, f"broker id {command.broker_id} belongs to another store")
    same = (found.store_id, found.incarnation) == (command.store_id, command.incarnation)
    if same and found.exited:
        return refused(group, Refusal.FENCED_PROCESS, "this process is known to have exited")
    if same:
        # Said again, or overtaken: whichever of them comes first, what the other one knows more counts as well.
        known = replace(found, address=command.address, end=max(found.end, command.end))
        after = _reaching(group.having(known), command.epoch_seen)
        return Verdict(after, events=_ended(group, after, _LATER_EPOCH))
    return _take_in(group, found, command)


def _take_in(group: Group, found: Replica, command: Register) -> Verdict:
    number = Registration(group.registrations + 1)
    started = replace(
        found,
        store_id=command.store_id, incarnation=command.incarnation, address=command.address, registration=number,
        exited=False, end=command.end,
    )  # fmt: skip
    lost = lacks(group, found, command)
    doubted = not command.trusted and command.store_id == found.store_id
    sync = group.sync.without(found.broker_id, doubted=doubted) if lost else group.sync
    after = replace(group, sync=sync, registrations=number)
    cause = _LATER_EPOCH
    if group.tenure is not None and group.tenure.broker_id == found.broker_id:
        after, cause = after.ending_tenure(), "another process of it has registered"  # a leadership is of one (R13)
    after = _reaching(after.having(started), command.epoch_seen)
    registered = Registered(group.key, found.broker_id, number, lost)
    return Verdict(after, events=(registered, *_ended(group, after, cause), *sync_event(group, after)))


def _reaching(group: Group, seen: Epoch) -> Group:
    """The group of which somebody has seen that epoch: a leadership is of the highest one (R20)."""
    after = replace(group, epoch=max(group.epoch, seen))
    return after.ending_tenure() if group.tenure is not None and group.tenure.epoch < seen else after


def _ended(before: Group, after: Group, cause: str) -> tuple[Event, ...]:
    tenure = before.tenure
    if tenure is None or after.tenure == tenure:
        return ()
    return (MasterEnded(before.key, tenure.broker_id, tenure.epoch, tenure.released, cause),)


def lacks(group: Group, found: Replica, command: Register) -> bool:
    """Whether the broker may lack something that it acknowledged. Only who was trusted has anything to lose, or who was
    doubted and comes back as another store."""
    if found.broker_id in group.sync.doubted:
        return command.store_id != found.store_id
    if found.broker_id not in group.sync.holders:
        return False
    known = (group.sync.committed, command.committed)
    return not command.trusted or command.store_id != found.store_id or any(_below(command.end, each) for each in known)


def _below(end: Point, committed: Point) -> bool:
    return end.epoch < committed.epoch or end.position < committed.position


def move(group: Group | None, command: Move) -> Verdict:
    """Note another address of a running process."""
    found = group.replica(command.broker_id) if group is not None else None
    if group is None or found is None:
        return refused(group, Refusal.UNKNOWN_REPLICA, f"broker {command.broker_id} is not registered")
    if found.registration != command.registration:
        return refused(group, Refusal.FENCED_PROCESS, f"registration {command.registration} is not the latest")
    return Verdict(group.having(replace(found, address=command.address)))


def set_learner(group: Group | None, command: SetLearner) -> Verdict:
    """Promote a learner, or demote a replica and take it out of the in-sync set if enough others are left.

    The set has another version then, so that a proposal that was refused for a learner stays refused (R9).
    """
    found = group.replica(command.broker_id) if group is not None else None
    if group is None or found is None:
        return refused(group, Refusal.UNKNOWN_REPLICA, f"broker {command.broker_id} is not registered")
    if command.expected_epoch != group.epoch:
        return refused(group, Refusal.FENCED_EPOCH, f"the epoch is {group.epoch}, not {command.expected_epoch}")
    if found.learner == command.learner:
        return Verdict(group)
    sync = replace(group.sync, version=group.sync.version + 1, request="")
    if command.learner:
        if found == group.master or found.broker_id in sync.eligible or _last_hope(group, found.broker_id):
            return refused(group, Refusal.IN_SYNC, f"broker {found.broker_id} may hold what others do not")
        if found.broker_id in sync.members:
            members = tuple(member for member in sync.members if member != found.broker_id)
            if len(members) < group.rules.min_in_sync:
                return refused(group, Refusal.BELOW_MINIMUM, f"{len(members)} would be left in sync")
            sync = group.sync.changed(members, minimum=group.rules.min_in_sync)
        sync = replace(sync, doubted=tuple(each for each in sync.doubted if each != found.broker_id))
    after = replace(group, sync=sync).having(replace(found, learner=command.learner))
    return Verdict(after, events=sync_event(group, after))


def configure(group: Group | None, command: Configure) -> Verdict:
    """Set the rules. With a lower minimum the master may commit without those who left, so they lose eligibility.

    With another minimum the set has another version: what was proposed by the old one stays refused (R9).
    """
    if group is None:
        return refused(None, Refusal.UNKNOWN_GROUP)
    rules = Rules(replicas=command.replicas, min_in_sync=command.min_in_sync, preferred=command.preferred)
    if not _sensible(rules):
        return refused(group, Refusal.WRONG_RULES, f"{rules.min_in_sync} of {rules.replicas} cannot be in sync")
    sync = group.sync
    if rules.min_in_sync != group.rules.min_in_sync:
        sync = replace(sync, version=sync.version + 1, request="")
    if sync.eligible and len(sync.members) >= rules.min_in_sync:
        sync = replace(sync, eligible=(), doubted=())
    after = replace(group, rules=rules, sync=sync)
    return Verdict(after, events=sync_event(group, after))


def _sensible(rules: Rules) -> bool:
    return 1 <= rules.min_in_sync <= rules.replicas <= _ID_MAX


def clean(group: Group | None, command: Clean) -> Verdict:
    """Forget brokers that hold nothing the group needs, or on demand the whole group; its epoch stays (DX-18)."""
    if group is None or not group.replicas:
        return refused(group, Refusal.UNKNOWN_GROUP)
    if command.expected_epoch != group.epoch:
        return refused(group, Refusal.FENCED_EPOCH, f"the epoch is {group.epoch}, not {command.expected_epoch}")
    if not command.broker_ids:
        sync = SyncSet(version=group.sync.version + 1)
        rest = replace(group.ending_tenure(), replicas=(), sync=sync, founded=False, transfer=None)
        return Verdict(rest, events=(Cleaned(group.key, ()), *sync_event(group, rest)))
    for broker_id in command.broker_ids:
        if group.replica(broker_id) is None:
            return refused(group, Refusal.UNKNOWN_REPLICA, f"broker {broker_id} is not registered")
        if broker_id in group.sync.holders or _last_hope(group, broker_id):
            return refused(group, Refusal.IN_SYNC, f"broker {broker_id} may hold what others do not")
    gone: set[BrokerId] = set(command.broker_ids)
    replicas = tuple(each for each in group.replicas if each.broker_id not in gone)
    sync = replace(group.sync, doubted=tuple(each for each in group.sync.doubted if each not in gone))
    return Verdict(replace(group, replicas=replicas, sync=sync), events=(Cleaned(group.key, command.broker_ids),))


def _last_hope(group: Group, broker_id: BrokerId) -> bool:
    return not group.sync.holders and broker_id in group.sync.doubted
