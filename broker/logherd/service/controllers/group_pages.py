"""Broker groups as documents."""

from logherd.controller.office import Office
from logherd.controller.values import Group, Replica
from logherd.service.controllers.documents import (
    BrokerShape,
    GroupPage,
    GroupSummary,
    MasterShape,
    RulesShape,
    TransferShape,
    point_shape,
)
from logherd.service.controllers.standing import Progress
from logherd.service.controllers.why import why

__all__ = ["group_page", "group_summary"]


def group_page(group: Group, office: Office | None, now: int, progress: Progress, *, confirmed: bool) -> GroupPage:
    """One group with its brokers. Incarnations are secrets and not shown (H14)."""
    rules, transfer = group.rules, group.transfer
    return GroupPage(
        position=progress.applied, confirmed=confirmed, live=office is not None, cluster=group.key.cluster,
        name=group.key.name, epoch=group.epoch, version=group.sync.version, founded=group.founded,
        leader=_master(group, office, now), in_sync=group.sync.members, eligible=group.sync.eligible,
        learners=[each.broker_id for each in group.replicas if each.learner],
        committed=point_shape(max(group.sync.committed, office.committed(group.key)) if office is not None
                              else group.sync.committed),
        brokers=[_broker(group, each, office, now) for each in group.replicas],
        rules=RulesShape(replicas=rules.replicas, min_in_sync=rules.min_in_sync, preferred=rules.preferred),
        transfer=TransferShape(target=transfer.target, request_id=transfer.request) if transfer is not None else None,
        why=why(group, office, now, disk_full=progress.disk_full),
    )  # fmt: skip


def group_summary(group: Group, office: Office | None, now: int, progress: Progress) -> GroupSummary:
    """One group as a line of a list."""
    alive = None
    if office is not None:
        alive = sum(office.alive(group, each.broker_id, now) for each in group.replicas)
    return GroupSummary(
        cluster=group.key.cluster, name=group.key.name, epoch=group.epoch, leader=_master(group, office, now),
        in_sync=group.sync.members, min_in_sync=group.rules.min_in_sync, brokers=len(group.replicas), alive=alive,
        why=why(group, office, now, disk_full=progress.disk_full),
    )  # fmt: skip


def _master(group: Group, office: Office | None, now: int) -> MasterShape | None:
    """Who leads: at the leading controller one whose lease may run, elsewhere one that was elected last."""
    master = group.master
    if master is None or (office is not None and not office.leads(group, now)):
        return None
    serving = None if office is None else office.serving(group, now) is not None
    return MasterShape(
        broker_id=master.broker_id, address=master.address, registration=master.registration, serving=serving
    )


def _broker(group: Group, replica: Replica, office: Office | None, now: int) -> BrokerShape:
    seen = office.last_seen(replica, group.key) if office is not None else None
    return BrokerShape(
        broker_id=replica.broker_id, address=replica.address, store_id=replica.store_id,
        registration=replica.registration,
        alive=None if office is None else office.alive(group, replica.broker_id, now),
        learner=replica.learner, exited=replica.exited,
        end=point_shape(seen.report.end if seen is not None else replica.end),
        heard_ms=now - seen.at if seen is not None else None,
    )  # fmt: skip
