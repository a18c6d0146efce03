"""Whom to elect: a pure choice among replicas from what they reported last.

Source: controller-ha R10 (in-sync first, then eligible; longest log; priority), design H4 (a master has space; where
nobody has, the best of all leads and refuses messages: reads go on, and without a leader nothing old can be deleted).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from logherd.controller.reports import Report, Seen
from logherd.controller.settings import OfficeOptions
from logherd.controller.values import BrokerId, Group, Replica
from logherd.controller.verdicts import Refusal
from logherd.replication.epochs import Point

__all__ = [
    "RELIEF", "Better", "absent_members", "best_of", "best_of_longest", "better", "choose", "founders", "gives_way",
    "have_more", "knows_more", "longest", "longest_leads", "outrun_lacks", "outrun_loses", "unfit",
]  # fmt: skip

RELIEF = "relieve by"
"""Why who has space should lead in place of who has none; so begins the name of the transfer."""

SeenOf = Callable[[Replica], Seen | None]
"""The fresh report of a replica's latest process, if there is one."""


def unfit(replica: Replica | None, seen: Seen | None) -> Refusal | None:
    """Why a replica cannot lead, whatever its log holds."""
    if replica is None or not replica.registration:
        return Refusal.UNKNOWN_REPLICA
    if replica.learner:
        return Refusal.LEARNER
    if replica.exited or seen is None:
        return Refusal.NOT_ALIVE
    return None if seen.report.healthy and seen.report.barrier else Refusal.NOT_FIT


def _with_space(seen_of: SeenOf) -> SeenOf:
    """As if only those reported who have space."""

    def seen(replica: Replica) -> Seen | None:
        found = seen_of(replica)
        return found if found is not None and found.report.space else None

    return seen


def gives_way(target: Replica, other: Replica | None, seen_of: SeenOf) -> bool:
    """H4: whether `other`, who leads or could, has space, and `target` has none, and so should not lead."""
    spacious = _with_space(seen_of)
    return other is not None and spacious(other) is not None and spacious(target) is None


def best_of(group: Group, ids: Iterable[BrokerId], seen_of: SeenOf) -> Replica | None:
    """The fit replica with the longest log, of those with space if there are any; of equals the preferred one, then by
    priority, then by id. Of these ids each has all that must not be lost."""
    best: tuple[tuple[object, ...], Replica] | None = None
    for broker_id in ids:
        replica = group.replica(broker_id)
        seen = seen_of(replica) if replica is not None else None
        if replica is None or seen is None or unfit(replica, seen) is not None:
            continue
        report = seen.report
        preferred = broker_id == group.rules.preferred
        rank = (report.space, report.end.epoch, report.end.position, preferred, -report.priority, -broker_id)
        if best is None or rank > best[0]:
            best = (rank, replica)
    return best[1] if best is not None else None


def choose(group: Group, seen_of: SeenOf) -> Replica | None:
    """The next master without any loss that could be avoided, or nobody.

    The process that led last is no candidate while its leadership stands: it could have renewed its lease, and did not.
    If its leadership has ended it may begin another, when nobody else in the set can. When nobody is left who holds
    everything for sure, it is the longest log of those who are doubted, once all of them report. Who has no space comes
    after all who have (H4). Where controllers have lost decisions, who was in sync by what is left of them says little.
    """
    if group.outrun:
        return _best_outrun(group, seen_of)
    return _choose(group, _with_space(seen_of)) or _choose(group, seen_of)


def _choose(group: Group, seen_of: SeenOf) -> Replica | None:
    tenure, members = group.tenure, group.sync.members
    others = [member for member in members if not _led_last(group, member)]
    if group.transfer is not None and group.transfer.target in others:
        planned = best_of(group, [group.transfer.target], seen_of)
        if planned is not None:
            return planned
    found = best_of(group, others, seen_of)
    if found is None and (tenure is None or tenure.ended):
        found = best_of(group, members, seen_of)
    return found or best_of(group, group.sync.eligible, seen_of) or _best_doubted(group, seen_of)


class Better(NamedTuple):
    """Who should lead in place of a master that leads, once that has been so for a while, and why, in a word."""

    replica: Replica
    patience_ms: int
    why: str


def better(group: Group, seen_of: SeenOf, options: OfficeOptions) -> Better | None:
    """Whom with space a master should hand over to, if there is a reason: it has none itself and refuses every message,
    and so many others of the set have some as must be in sync (fewer: a full disk is no reason to resign, and what is
    kept free is not for messages, H4); or the preferred broker could lead.
    """
    master = group.master
    if master is None:
        return None
    seen, spacious = seen_of(master), _with_space(seen_of)
    if seen is not None and not seen.report.space:
        others = [each for each in map(group.replica, group.sync.members) if each is not None and each != master]
        fit = [each.broker_id for each in others if unfit(each, spacious(each)) is None]
        found = best_of(group, fit, spacious) if len(fit) >= group.rules.min_in_sync else None
        return Better(found, options.relieve_after_ms, RELIEF) if found is not None else None
    wanted = group.rules.preferred
    if wanted is None or wanted == master.broker_id or wanted not in group.sync.members or not options.prefer_after_ms:
        return None
    found = best_of(group, [wanted], spacious)
    return Better(found, options.prefer_after_ms, "prefer") if found is not None else None


def _best_doubted(group: Group, seen_of: SeenOf) -> Replica | None:
    doubted = () if group.sync.holders else group.sync.doubted
    replicas = [group.replica(each) for each in doubted]
    if any(each is None or unfit(each, seen_of(each)) is not None for each in replicas):
        return None
    return best_of_longest(group, doubted, seen_of)


def outrun_lacks(group: Group, seen_of: SeenOf) -> int:
    """How many brokers have to report that were in sync by the record of a group that has outrun it; see Group.outrun.

    What is committed was on as many of all brokers as must be in sync. So one of any that are more than all others may
    be has it, if none of them has lost anything since, which is known of those who are still in sync by the record. Or
    all brokers report: there is nobody else then.
    """
    known = max(sum(1 for each in group.replicas if each.registration and not each.learner), group.rules.replicas)
    present = founders(group, seen_of)
    sure = [broker_id for broker_id in present if broker_id in group.sync.holders]
    return 0 if len(present) >= known else max(known - group.rules.min_in_sync + 1 - len(sure), 0)


def outrun_loses(group: Group, best: Replica, seen_of: SeenOf) -> list[BrokerId]:
    """Who knows to be committed what this one does not have: who led by the record went on by it, below a later
    leadership that had been forgotten. One of two histories must be given up then, and which one, only a person may
    say. `best` is one of the founders."""
    replicas = [each for each in map(group.replica, founders(group, seen_of)) if each is not None]
    reports = {each.broker_id: seen.report for each in replicas if (seen := seen_of(each)) is not None}
    own = reports[best.broker_id]
    # Of its last leadership it may know nothing to be committed: then all behind what it does know may be another's.
    limit = own.end if own.committed.epoch == own.end.epoch else own.committed
    marks = {each: report.committed for each, report in reports.items()}
    return [each for each, mark in marks.items() if _beyond(mark, limit, own.end) or _replaced(mark, own)]


def _beyond(committed: Point, limit: Point, end: Point) -> bool:
    return committed.position > limit.position or (committed.position == end.position and committed != end)


def _replaced(committed: Point, own: Report) -> bool:
    """Whether that log has the record of another leadership there: up to each end that it tells, from the one before,
    all are of the same. Of what is below the first one it is only known that none is of a later one."""
    ends = (*(own.epoch_ends or (own.committed,)), own.end)
    if committed.position < ends[0].position:
        return committed.epoch > ends[0].epoch
    return committed.epoch != next((each.epoch for each in ends if each.position >= committed.position), None)


def _best_outrun(group: Group, seen_of: SeenOf) -> Replica | None:
    if outrun_lacks(group, seen_of):
        return None
    best = best_of_longest(group, founders(group, seen_of), seen_of)
    return None if best is None or have_more(group, best, seen_of) or outrun_loses(group, best, seen_of) else best


def _led_last(group: Group, broker_id: BrokerId) -> bool:
    replica = group.replica(broker_id)
    return replica is not None and group.tenure is not None and replica.registration == group.tenure.registration


def absent_members(group: Group, seen_of: SeenOf) -> list[BrokerId]:
    """Members that may have a longer log than those who report, and may report soon."""
    absent = []
    for member in group.sync.members:
        replica = group.replica(member)
        if replica is not None and not replica.exited and not _led_last(group, member) and seen_of(replica) is None:
            absent.append(member)
    return absent


def founders(group: Group, seen_of: SeenOf) -> list[BrokerId]:
    """Who may found a new group: every replica that reports and is no learner."""
    return [
        each.broker_id for each in group.replicas if not each.learner and not each.exited and seen_of(each) is not None
    ]


def longest(group: Group, ids: Iterable[BrokerId], seen_of: SeenOf) -> list[BrokerId]:
    """Those who report the longest log, whether they could lead or not. Of a group without a known leadership only they
    may lead: what they have and others lack may have been acknowledged, by controllers that lost their log."""
    replicas = [replica for each in ids if (replica := group.replica(each)) is not None]
    ends = {each.broker_id: seen.report.end for each in replicas if (seen := seen_of(each)) is not None}
    return [broker_id for broker_id, end in ends.items() if end == max(ends.values())]


def best_of_longest(group: Group, ids: Iterable[BrokerId], seen_of: SeenOf) -> Replica | None:
    """The best of those who report the longest log; nobody if none of these could lead."""
    return best_of(group, longest(group, ids, seen_of), seen_of)


def have_more(group: Group, best: Replica, seen_of: SeenOf) -> list[BrokerId]:
    """Who may have acknowledged what `best` lacks, the best of those whose longest log is to lead. A group may have
    grown beyond the number that it is founded with, so it is also who registered and is silent now; and brokers that it
    grew by began as learners, which they are again where it is forgotten that they were promoted."""
    own = seen_of(best)
    if own is None:
        return []
    others = [each for each in group.replicas if each.learner or not group.founded]
    ends = {each.broker_id: each.end if (seen := seen_of(each)) is None else seen.report.end for each in others}
    return [broker_id for broker_id, end in ends.items() if end > own.report.end]


def longest_leads(group: Group) -> bool:
    """Whether the next master is whoever has the longest log, in sync or not, of a group that may have been led until
    now. What a broker told of its log before the last lease was over says too little: what was acknowledged then came
    to it."""
    return group.epoch > 0 and (group.outrun or not group.founded or not group.sync.holders)


def knows_more(group: Group, replica: Replica, report: Report) -> bool:
    """Whether this broker has seen a leadership of which the group does not know: the quorum was made of controllers
    that had not heard of it. Nobody may lead in that epoch again, so whoever knows of it has to register (R20).

    Or it has copied more since it registered, and the group, which was dissolved meanwhile, is to be founded by the
    logs that are on record: all who registered with an empty one are in sync then."""
    grown = not group.founded and report.end > replica.end
    return grown or max(report.end.epoch, report.resigned) > group.epoch
