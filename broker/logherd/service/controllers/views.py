"""The replicated state in the shapes that RocketMQ's tools and brokers read."""

from functools import lru_cache

from msgspec.structs import replace

from logherd.controller.office import Office
from logherd.controller.reports import Granted, RoleView, Withheld
from logherd.controller.values import Group
from logherd.service.ports import Reply, SharedReply
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.brokers import (
    ElectMasterAnswer,
    LeaseSyncStateSet,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
)
from logherd.wire.bodies.routes import MemberGroup
from logherd.wire.headers.controller import MasterResponse
from logherd.wire.headers.leases import LeaseAnswer

__all__ = ["elected_reply", "lease_reply", "master_header", "replicas_info", "sync_body"]


def sync_body(group: Group) -> SyncStateSet:
    """The in-sync set and its version."""
    return SyncStateSet(members=group.sync.members, epoch=group.sync.version)


def master_header(group: Group) -> MasterResponse:
    """Who leads in which epoch; no master, no id."""
    master = group.master
    return MasterResponse(
        master_broker_id=master.broker_id if master is not None else None,
        master_address=master.address if master is not None else None,
        master_epoch=group.epoch,
        sync_state_set_epoch=group.sync.version,
    )


def elected_reply(group: Group, code: int = 0, remark: str | None = None) -> Reply:
    """The answer to 1002, with the members at both places where tools look for them."""
    addresses = {int(each.broker_id): each.address for each in group.replicas if each.registration}
    members = MemberGroup(cluster=group.key.cluster, broker_name=group.key.name, addresses=addresses)
    body = ElectMasterAnswer(
        group=members, members=group.sync.members, cluster=group.key.cluster, broker_name=group.key.name,
        addresses=addresses,
    )  # fmt: skip
    return Reply(code, master_header(group), encode_body(body), remark)


def replicas_info(group: Group, office: Office, now: int) -> ReplicasInfo:
    """Every replica, in sync or not, and whether it reports."""
    master = group.master
    rows = {True: list[ReplicaIdentity](), False: list[ReplicaIdentity]()}
    for each in group.replicas:
        row = ReplicaIdentity(
            broker_name=group.key.name, broker_id=each.broker_id, address=each.address,
            alive=office.alive(group, each.broker_id, now),
        )  # fmt: skip
        rows[each.broker_id in group.sync.members].append(row)
    return ReplicasInfo(
        master_broker_id=master.broker_id if master is not None else None,
        master_address=master.address if master is not None else None,
        master_epoch=group.epoch, sync_state_set_epoch=group.sync.version, in_sync=rows[True], not_in_sync=rows[False],
    )  # fmt: skip


@lru_cache(maxsize=1 << 14)
def lease_reply(answer: Granted | Withheld, code: int = 0) -> SharedReply:
    """The answer to a heartbeat; while a group does not change, all its brokers are given one of two."""
    if isinstance(answer, Granted):
        header = replace(
            _lease_answer(answer.view), lease_ms=answer.holder_ms, hand_over=answer.hand_over,
            endpoint=answer.endpoint or None,
        )  # fmt: skip
    else:
        withheld = answer.refusal.value if answer.refusal is not None else None
        header = replace(_lease_answer(answer.view), withheld=withheld)
    view = answer.view
    return SharedReply(code, header, b"" if view is None else encode_body(_lease_body(view)))


def _lease_body(view: RoleView) -> SyncStateSet:
    if not view.others:
        return SyncStateSet(members=view.members, epoch=view.version)
    return LeaseSyncStateSet(members=view.members, epoch=view.version, others=view.others)


def _lease_answer(view: RoleView | None) -> LeaseAnswer:
    if view is None:
        return LeaseAnswer()
    return LeaseAnswer(
        master_broker_id=view.master, master_address=view.master_address or None, master_epoch=view.epoch,
        sync_state_set_epoch=view.version, master_registration=view.master_registration or None,
        processes=";".join(map(str, view.processes)) or None, learners=";".join(map(str, view.learners)) or None,
        min_in_sync=view.min_in_sync,
    )  # fmt: skip
