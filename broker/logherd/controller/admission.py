"""Requests of brokers and operators, before they become commands: what only the leader's office can know.

Who lives, whose store is sound, whether a lease still runs. Each function gives the command to propose, or why not;
what the machine checks again when the command is applied is not checked twice here.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from logherd.controller import membership
from logherd.controller.choosing import (
    best_of,
    best_of_longest,
    choose,
    founders,
    gives_way,
    have_more,
    longest,
    unfit,
)
from logherd.controller.commands import AlterSyncSet, Clean, Command, Elect, Grounds, PlanTransfer, Register
from logherd.controller.electing import elect_command, grounds_of
from logherd.controller.insync import added_members
from logherd.controller.office import Office
from logherd.controller.values import BrokerId, Group, GroupKey, Replica
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN

__all__ = ["ElectionRequest", "admit_clean", "admit_election", "admit_register", "admit_sync_set"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRequest:
    """An operator's request. `unclean`: the operator accepts the loss of whatever the target does not have.

    Without a target: whoever is best, other than the master. `request` names the request when it is repeated.
    """

    group: GroupKey
    target: BrokerId | None
    request: str = ""
    expected_epoch: Epoch | None = None
    unclean: bool = False


def admit_register(office: Office, command: Register, now: int) -> Command | Refusal:
    """A store may take over an id only from one that is dead for sure; what is known to be committed is added.

    Who registers the same store and lacks something, while another process of it reports, was overtaken by that one on
    the way here: it had ended before the other could begin. Or the other has ended a moment ago: then it asks again.
    """
    group = office.machine.group(command.group)
    found = group.replica(command.broker_id) if group is not None else None
    before = found.store_id if found is not None else ""
    if group is not None and before not in ("", command.store_id) and office.may_live(group, command.broker_id, now):
        return Refusal.ID_TAKEN
    seen = _leapt(office, group, command.epoch_seen, now)
    wish = replace(command, replaces=before, committed=office.committed(command.group), epoch_seen=seen)
    if group is not None and found is not None and _overtaken(office, group, found, wish, now):
        return Refusal.ALIVE
    return wish


def _leapt(office: Office, group: Group | None, seen: Epoch, now: int) -> Epoch:
    """The epoch that a registration brings, so far ahead that none is granted again of which a recovery of the quorum
    knew nothing; one further where somebody has led, so that the group does not pass for a new one. No leadership ends
    for it."""
    above, known = office.options.epochs_above, group.epoch if group is not None else Epoch(0)
    if group is not None and office.leads(group, now):
        return seen
    led = any(0 < epoch < above for epoch in (seen, known))
    return max(seen, Epoch(above + 1) if led else above)


def _overtaken(office: Office, group: Group, found: Replica, wish: Register, now: int) -> bool:
    another = found.store_id == wish.store_id and found.incarnation != wish.incarnation
    return another and membership.lacks(group, found, wish) and office.alive(group, found.broker_id, now)


def admit_sync_set(office: Office, command: AlterSyncSet, now: int) -> Command | Refusal:
    """Only who reports may join; who stays or leaves may be dead (R9).

    Who may not join is left out, if what is left is a change that can be made: else a member that is gone would be
    waited for as long as somebody keeps up with the master and is not heard here. Without whom too few would be in sync
    joins unheard: that it acknowledges, the master knows; it cannot be elected before it is heard, but nothing could be
    committed until then.
    """
    group = office.machine.group(command.group)
    if group is None:
        return command
    unheard = [member for member in added_members(group, command) if not office.alive(group, member.broker_id, now)]
    if not unheard:
        return command
    rest = tuple(member for member in command.members if member not in unheard)
    ids, minimum = tuple(sorted({member.broker_id for member in rest})), group.rules.min_in_sync
    if len(ids) >= minimum and ids != group.sync.members:
        return replace(command, members=rest)
    known = any(group.replica(member.broker_id) is not None for member in unheard)
    needed = len(ids) < minimum <= len({member.broker_id for member in command.members})
    return Refusal.NOT_ALIVE if known and not needed else command


def admit_clean(office: Office, command: Clean, now: int, *, living: bool) -> Command | Refusal:
    """Forgetting a broker that lives, or a group that is led, must be asked for by name."""
    group = office.machine.group(command.group)
    if group is None or living:
        return command
    if not command.broker_ids and group.master is not None:
        return Refusal.IN_SYNC
    if any(office.alive(group, broker_id, now) for broker_id in command.broker_ids):
        return Refusal.ALIVE
    return command


def admit_election(office: Office, wanted: ElectionRequest, now: int) -> Command | Refusal:
    """A planned transfer if there is a master, else the election of the target if that loses nothing."""
    group = office.machine.group(wanted.group)
    if group is None or not group.replicas:
        return Refusal.UNKNOWN_GROUP
    tenure = group.tenure
    if wanted.request and tenure is not None and tenure.request == wanted.request:
        same = wanted.target in (None, tenure.broker_id)
        return Refusal.UNCHANGED if same else Refusal.REQUEST_REUSED
    if wanted.target is not None and group.replica(wanted.target) is None:
        return Refusal.UNKNOWN_REPLICA
    if wanted.expected_epoch not in (None, group.epoch):
        return Refusal.FENCED_EPOCH
    target = group.replica(wanted.target) if wanted.target is not None else _best(office, group, wanted, now)
    if target is None:
        return Refusal.NOBODY
    wrong, leads = unfit(target, office.seen(target, group.key, now)), office.leads(group, now)
    if target == group.master and leads:
        return Refusal.UNCHANGED
    if wrong is not None:
        return wrong
    if gives_way(target, group.master if leads else _best(office, group, wanted, now), office.seen_in(group, now)):
        return Refusal.NOT_FIT
    return _transfer(group, target, wanted) if leads else _succession(office, group, target, wanted, now)


def _best(office: Office, group: Group, wanted: ElectionRequest, now: int) -> Replica | None:
    """Whom to elect when nobody is named; when the request is repeated, whom it means already."""
    seen_of = office.seen_in(group, now)
    if not group.founded:
        return best_of_longest(group, founders(group, seen_of), seen_of)
    if not office.leads(group, now):
        return choose(group, seen_of)
    if group.transfer is not None and group.transfer.request == wanted.request:
        return group.replica(group.transfer.target)
    return best_of(group, [each for each in group.sync.members if group.replica(each) != group.master], seen_of)


def _transfer(group: Group, target: Replica, wanted: ElectionRequest) -> Command | Refusal:
    if target.broker_id not in group.sync.members:
        return Refusal.NOT_IN_SYNC
    return PlanTransfer(
        group=group.key, expected_epoch=group.epoch, broker_id=target.broker_id, registration=target.registration,
        request=wanted.request or f"transfer to {target.broker_id} after epoch {group.epoch}",
    )  # fmt: skip


def _succession(
    office: Office, group: Group, target: Replica, wanted: ElectionRequest, now: int
) -> Elect | Refusal:  # fmt: skip
    seen_of = office.seen_in(group, now)
    if now < office.over_at(group) and (group.epoch > office.options.epochs_above or wanted.unclean):
        return Refusal.LEASE_RUNS
    if office.must_leap(group, now):
        return Refusal.RUNNING
    if office.unproven(group, now):
        return Refusal.LEASE_RUNS
    if not group.founded:
        present = founders(group, seen_of)
        few = len(present) < group.rules.replicas
        whole = target.broker_id in longest(group, present, seen_of) and not have_more(group, target, seen_of)
        if not wanted.unclean and (few or not whole):
            return Refusal.BELOW_MINIMUM if few else Refusal.NOT_IN_SYNC
        if _loses_all(office, group, target, now):
            return Refusal.EMPTY
        grounds = Grounds.FIRST if whole and not few else Grounds.FIRST_BY_OPERATOR
        return elect_command(group, target, present, grounds, wanted.request)
    living = office.living_members(group, now)
    best = choose(group, seen_of)
    if target == best or (target.broker_id in group.sync.holders and not group.outrun):
        return elect_command(group, target, living, grounds_of(group), wanted.request)
    if not wanted.unclean:
        return Refusal.NOT_IN_SYNC
    if best is not None:
        return Refusal.IN_SYNC
    if _loses_all(office, group, target, now):
        return Refusal.EMPTY
    grounds = Grounds.OUTRUN if group.outrun else Grounds.UNCLEAN
    return elect_command(group, target, living, grounds, wanted.request)


def _loses_all(office: Office, group: Group, target: Replica, now: int) -> bool:
    """Has it no record, while somebody who reports has some? Who accepts a loss means what the target lacks, and hardly
    all there is: a number is easily wrong by one."""
    seen = {each.broker_id: office.seen(each, group.key, now) for each in group.replicas}
    records = {broker for broker, found in seen.items() if found is not None and found.report.end != ORIGIN}
    return bool(records) and target.broker_id not in records
