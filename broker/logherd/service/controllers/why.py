"""One sentence on a group: why nobody leads it, or what is pending. For whoever looks at it in the night."""

from logherd.controller.choosing import (
    absent_members,
    best_of,
    best_of_longest,
    choose,
    founders,
    have_more,
    longest,
    outrun_lacks,
    outrun_loses,
    unfit,
)
from logherd.controller.office import Office
from logherd.controller.values import BrokerId, Group, Replica
from logherd.controller.verdicts import Refusal
from logherd.replication.epochs import ORIGIN
from logherd.service.controllers.documents import NOTHING_PENDING

__all__ = ["why", "why_refused"]

_OF_THE_GROUP = frozenset({Refusal.NOT_IN_SYNC, Refusal.NOBODY, Refusal.BELOW_MINIMUM})
"""Refusals of an election that say nothing of what the group waits for."""


def why(group: Group, office: Office | None, now: int, *, disk_full: bool = False) -> str:
    """Without an office this controller does not lead, and knows only what is replicated.

    `disk_full`: it takes no records, so whatever is to be decided waits.
    """
    if not group.replicas:
        return f"All brokers were forgotten; the next one that registers begins after epoch {group.epoch}."
    led = group.master is not None if office is None else office.leads(group, now)
    if group.transfer is not None and led:
        return (
            f"Leadership is being handed to broker {group.transfer.target}: the leader takes no writes until that has "
            "everything."
        )
    if office is None:
        if group.master is not None:
            return f"Broker {group.master.broker_id} was elected; whether it still leads, the leading controller knows."
        return "Nobody is elected; why, the leading controller knows, which hears the brokers."
    if led:
        return _led(group, office, now)
    if disk_full:
        return (
            "Nobody can be elected: the disk of the controller that decides is at its reserve, or the system grants it "
            "no descriptor; its log says which."
        )
    return _founding(group, office, now) if not group.founded else _without(group, office, now)


def why_refused(refusal: Refusal, group: Group, office: Office, now: int, *, disk_full: bool = False) -> str:
    """What else is said of an election that was refused: what a group that nobody leads waits for."""
    if refusal not in _OF_THE_GROUP or office.leads(group, now):
        return ""
    return why(group, office, now, disk_full=disk_full)


def _led(group: Group, office: Office, now: int) -> str:
    master, rules = group.master, group.rules
    if master is None:
        return ""
    if office.serving(group, now) is None:
        return _unserved(group, master, office, now)
    seen = office.seen(master, group.key, now)
    if seen is None:
        wait = max(office.over_at(group) - now, 0)
        return f"Broker {master.broker_id} leads and does not report; its lease may run for {wait} ms more."
    if not seen.report.space:
        return _full(group, master, office, now)
    if len(group.sync.members) < rules.min_in_sync:
        return (
            f"Writes wait: {_ids(group.sync.members)} in sync, of at least {rules.min_in_sync}; another broker must "
            "catch up."
        )
    behind = [
        each for each in group.replicas
        if not each.learner and each.registration and each.broker_id not in group.sync.members
    ]  # fmt: skip
    if behind:
        return _behind(group, behind, office, now)
    preferred = group.rules.preferred
    if preferred is not None and preferred != master.broker_id:
        return f"Broker {preferred} is preferred and does not lead."
    return NOTHING_PENDING


def _behind(group: Group, behind: list[Replica], office: Office, now: int) -> str:
    heard = [(each.broker_id, office.seen(each, group.key, now)) for each in behind]
    full = [number for number, seen in heard if seen is not None and not seen.report.space]
    said = f"Not in sync, and no learner: {_ids([number for number, _ in heard])}"
    return f"{said}; the disk of {_ids(full)} is at its reserve." if full else f"{said}."


def _full(group: Group, master: Replica, office: Office, now: int) -> str:
    found = office.better(group, now)
    leader = f"the disk of broker {master.broker_id}, which leads"
    refused = f"Messages are refused: {leader}, is at its reserve, or would be by a further segment"
    if found is None:
        return f"{refused}, and fewer others than {group.rules.min_in_sync} are in sync and have space."
    return f"{refused}; broker {found.replica.broker_id} leads once that has been so for {found.patience_ms} ms."


def _unserved(group: Group, master: Replica, office: Office, now: int) -> str:
    seen = office.seen(master, group.key, now)
    state = "has asked for no lease yet"
    if seen is None:
        state = "does not report"
    elif not seen.report.healthy:
        state = "gets no lease because its store is sick"
    wait = max(office.over_at(group) - now, 0)
    return f"Broker {master.broker_id} was elected in epoch {group.epoch} and {state}; after {wait} ms another may be."


def _founding(group: Group, office: Office, now: int) -> str:
    seen_of = office.seen_in(group, now)
    present = founders(group, seen_of)
    wait = office.over_at(group) - now
    led = group.epoch > office.options.epochs_above or any(each.end != ORIGIN for each in group.replicas)
    if wait > 0 and led:
        return f"The brokers have logs of a leadership that is not known here; its lease may run for {wait} ms more."
    if len(present) >= group.rules.replicas:
        ahead = longest(group, present, seen_of)
        best = best_of(group, ahead, seen_of)
        if best is None:
            reasons = "; ".join(_unfit(group, each, office, now) for each in ahead)
            return f"The group is new, and nobody with the longest log can lead it: {reasons}."
        if more := have_more(group, best, seen_of):
            return f"The group is new here. The first election waits for {_more(more, best)}."
        return "The first election is under way."
    patience = office.options.bootstrap_ms
    also = f", or after {patience} ms if their logs are empty" if patience else ""
    return (
        f"The group is new: of {group.rules.replicas} configured brokers {len(present)} report; the first election "
        f"waits for all of them{also}."
    )


def _without(group: Group, office: Office, now: int) -> str:
    tenure, seen_of = group.tenure, office.seen_in(group, now)
    wait = office.over_at(group) - now
    if wait > 0:
        who = f"of broker {tenure.broker_id}" if tenure is not None else "of an earlier leadership"
        return f"The lease {who} may run for {wait} ms more; nobody is elected before."
    best = choose(group, seen_of)
    if best is not None:
        absent = absent_members(group, seen_of)
        waiting = f" unless {_ids(absent)}, with perhaps a longer log, reports first" if absent else ""
        return f"Broker {best.broker_id} is about to be elected{waiting}."
    trusted = group.sync.holders
    if group.outrun:
        return _outrun(group, office, now)
    if not trusted and group.sync.doubted:
        replicas = [group.replica(each) for each in group.sync.doubted]
        unable = [each.broker_id for each in replicas if each is not None and unfit(each, seen_of(each)) is not None]
        reasons = "; ".join(_unfit(group, each, office, now) for each in unable)
        return (
            f"{_ids(group.sync.doubted).capitalize()} went down before all was flushed (`flush: async`). Whose log is "
            f"the longest leads as soon as all of them report and could lead; what is missing: {reasons}."
        )
    if not trusted:
        return "No broker has everything that was acknowledged; only an unclean election, which loses data, helps."
    reasons = "; ".join(_unfit(group, each, office, now) for each in trusted)
    return f"Nobody can be elected without loss: {reasons}."


def _outrun(group: Group, office: Office, now: int) -> str:
    silent = [each.broker_id for each in group.replicas if not office.alive(group, each.broker_id, now)]
    reasons = "; ".join(_unfit(group, each, office, now) for each in silent)
    seen_of = office.seen_in(group, now)
    lacking = outrun_lacks(group, seen_of)
    best = best_of_longest(group, founders(group, seen_of), seen_of)
    if not lacking and best is not None and (losing := outrun_loses(group, best, seen_of)):
        return (
            "The controllers have lost decisions, and there are two histories: what a later leadership than the latest "
            f"on record wrote, whose log broker {best.broker_id} has, and what {_ids(losing)} told to be committed and "
            "that log does not hold. Only an unclean election, which loses one of them, helps."
        )
    if not lacking and best is not None and (more := have_more(group, best, seen_of)):
        return f"The controllers have lost decisions. The election waits for {_more(more, best)}."
    until = f"once {lacking} more that were in sync report" if lacking else "as soon as it could lead"
    return (
        "The controllers have lost decisions: a broker has a log of a later leadership than the latest on record. The "
        f"longest log leads {until}{'; ' + reasons if reasons else ''}."
    )


def _unfit(group: Group, broker_id: BrokerId, office: Office, now: int) -> str:
    replica = group.replica(broker_id)
    seen = office.seen(replica, group.key, now) if replica is not None else None
    wrong = unfit(replica, seen)
    if wrong is None and replica is not None and office.seen_in(group, now)(replica) is None:
        return f"broker {broker_id} has not reported since the last lease was over"
    if wrong is None:
        return f"broker {broker_id} let its lease run out, and may begin again when it has resigned or restarted"
    if wrong is Refusal.NOT_ALIVE and replica is not None and replica.exited:
        return f"broker {broker_id} has exited"
    if wrong is Refusal.NOT_FIT and seen is not None:
        full = "its disk is full, or it has no descriptor left"
        return f"broker {broker_id}: {full if seen.report.healthy else 'its store is broken'}"
    return f"broker {broker_id}: {wrong.value}"


def _more(more: list[BrokerId], best: Replica) -> str:
    return (
        f"{_ids(more)}, with a longer log than broker {best.broker_id} has, the best that could lead: to report, to be "
        "promoted if it is a learner, or to be forgotten"
    )


def _ids(ids: tuple[BrokerId, ...] | list[BrokerId]) -> str:
    if not ids:
        return "none"
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
