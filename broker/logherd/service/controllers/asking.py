"""The broker's side of the controllers' requests: what it has to say as headers and bodies, and answers read back.

Each function is the inverse of what the desk does with the same request or answer (brokers.py, views.py). Pure:
sending, deadlines and finding the leader are the caller's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from logherd.controller.commands import AlterSyncSet, Register, Release
from logherd.controller.reports import Granted, Report, RoleView, Withheld
from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.brokers import ElectMasterAnswer, LeaseSyncStateSet, SyncStateSet
from logherd.wire.bodies.insync import AlteringBody, AlteringMember
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import HeaderError
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.controller import AlterSyncStateSetResponse, ElectMasterHeader, MasterResponse
from logherd.wire.headers.leases import (
    AlteringHeader,
    HeartbeatHeader,
    LeaderHint,
    LeaseAnswer,
    LeaseReleaseHeader,
    RegisteredResponse,
    RegisteringHeader,
)

__all__ = [
    "Asking", "Enrolled", "Joined", "Redirected", "Refused", "SetChanged", "altering", "enrolled", "enrolling",
    "heartbeat", "joined", "leased", "registering", "released", "releasing", "set_changed",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asking:
    """A request to be sent to the leading controller."""

    code: RequestCode
    header: msgspec.Struct
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Redirected:
    """Nothing was done: another controller leads, at `address` if it is known."""

    address: str | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was done, or (code 1) nobody knows; `code` is RocketMQ's."""

    code: int
    remark: str


@dataclass(frozen=True, slots=True)
class Joined:
    """The process is registered under this number. What it must do now it hears with its first heartbeat."""

    registration: Registration
    min_in_sync: int


@dataclass(frozen=True, slots=True)
class SetChanged:
    """The in-sync set that is in force."""

    members: tuple[BrokerId, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Enrolled:
    """All brokers that have registered in a group and whom no operator has taken out, and the group's latest epoch."""

    brokers: frozenset[int]
    epoch: Epoch


# ---- requests ------------------------------------------------------------------------------------------------------


def registering(wish: Register) -> Asking:
    """1003. The controllers find out by themselves what `replaces` and `committed` are."""
    header = RegisteringHeader(
        cluster_name=wish.group.cluster, broker_name=wish.group.name, broker_id=wish.broker_id,
        broker_address=wish.address, store_id=wish.store_id, incarnation=wish.incarnation, end_epoch=wish.end.epoch,
        end_position=wish.end.position, epoch_seen=wish.epoch_seen, trusted=wish.trusted, learner=wish.learner,
        replicas=wish.rules.replicas, min_in_sync=wish.rules.min_in_sync,
    )  # fmt: skip
    return Asking(RequestCode.CONTROLLER_REGISTER_BROKER, header)


def heartbeat(report: Report) -> Asking:
    """904. Note the time before it is sent: a lease counts from there."""
    header = HeartbeatHeader(
        cluster_name=report.group.cluster, broker_name=report.group.name, broker_id=report.broker_id,
        broker_address=report.address, epoch=report.end.epoch, max_position=report.end.position,
        confirmed_position=report.committed.position, committed_epoch=report.committed.epoch,
        election_priority=report.priority, registration=report.registration, healthy=report.healthy,
        space=report.space, barrier=report.barrier, resigned=report.resigned, number=report.number,
        answered=report.answered,
        epoch_ends=";".join(f"{each.epoch}:{each.position}" for each in report.epoch_ends) or None,
    )  # fmt: skip
    return Asking(RequestCode.BROKER_HEARTBEAT, header)


def altering(proposal: AlterSyncSet) -> Asking:
    """1001, for a master's proposal."""
    header = AlteringHeader(
        cluster_name=proposal.group.cluster, broker_name=proposal.group.name, master_broker_id=proposal.broker_id,
        master_epoch=proposal.epoch, registration=proposal.registration, committed_epoch=proposal.committed.epoch,
        committed_position=proposal.committed.position, min_in_sync=proposal.min_in_sync, request=proposal.request,
    )  # fmt: skip
    members = [
        AlteringMember(
            broker_id=each.broker_id, registration=each.registration, end_epoch=each.end.epoch,
            end_position=each.end.position,
        )
        for each in proposal.members
    ]  # fmt: skip
    body = AlteringBody(members=[each.broker_id for each in members], version=proposal.version, processes=members)
    return Asking(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, encode_body(body))


def releasing(release: Release) -> Asking:
    """27001, of a broker that has resigned or of its guardian after waitpid."""
    header = LeaseReleaseHeader(
        cluster_name=release.group.cluster, broker_name=release.group.name, broker_id=release.broker_id,
        store_id=release.store_id, incarnation=release.incarnation, exited=release.exited,
        committed_epoch=release.committed.epoch, committed_position=release.committed.position,
        epoch=0 if release.epoch is msgspec.UNSET else release.epoch,
    )  # fmt: skip
    return Asking(RequestCode.LEASE_RELEASE, header)


def enrolling(group: GroupKey) -> Asking:
    """1002 of nobody: who leads, and with that all who have registered. It changes nothing. The controller has its
    quorum confirm that it leads; while nobody leads the group it waits for that, 2.5 s, and then tells the rest."""
    header = ElectMasterHeader(
        cluster_name=group.cluster, broker_name=group.name, broker_id=-1, designated=False
    )  # fmt: skip
    return Asking(RequestCode.CONTROLLER_ELECT_MASTER, header)


# ---- answers -------------------------------------------------------------------------------------------------------


def joined(answer: Frame) -> Joined | Redirected | Refused:
    """The answer to 1003. Raises: HeaderError if it is no controller's of LogHerd."""
    if answer.code != ResponseCode.SUCCESS:
        return _declined(answer)
    header = decode_header(RegisteredResponse, answer.ext)
    return Joined(Registration(header.registration), header.min_in_sync)


def leased(answer: Frame) -> Granted | Withheld | Redirected | Refused:
    """The answer to 904: a lease, the role without one, or (2010) that the process must register again.

    Raises: HeaderError, BodyError if it is no controller's of LogHerd.
    """
    if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
        return _declined(answer)
    header = decode_header(LeaseAnswer, answer.ext)
    if header.master_epoch is None:
        return _declined(answer)
    view = _view(header, decode_body(LeaseSyncStateSet, answer.body), header.master_epoch)
    if header.lease_ms is None:
        return Withheld(view, _refusal(header.withheld))
    target = BrokerId(header.hand_over) if header.hand_over is not None else None
    return Granted(view=view, holder_ms=header.lease_ms, hand_over=target, endpoint=bool(header.endpoint))


def set_changed(answer: Frame) -> SetChanged | Redirected | Refused:
    """The answer to 1001. Raises: HeaderError, BodyError."""
    if answer.code != ResponseCode.SUCCESS:
        return _declined(answer)
    version = decode_header(AlterSyncStateSetResponse, answer.ext).sync_state_set_epoch
    members = decode_body(SyncStateSet, answer.body).members
    return SetChanged(tuple(BrokerId(each) for each in members), version)


def enrolled(answer: Frame, group: GroupKey) -> Enrolled | Redirected | Refused:
    """The answer to 1002. Raises: HeaderError, BodyError."""
    if answer.code == ResponseCode.CONTROLLER_NOT_LEADER or not answer.body:
        return _declined(answer)
    found, epoch = decode_body(ElectMasterAnswer, answer.body), decode_header(MasterResponse, answer.ext).master_epoch
    of_group = (found.cluster, found.broker_name) == (group.cluster, group.name)
    if not isinstance(found.addresses, Mapping) or epoch is None or not of_group:
        return Refused(answer.code, "it does not say of this group who has registered")
    return Enrolled(frozenset(found.addresses), Epoch(epoch))


def released(answer: Frame) -> bool | Redirected | Refused:
    """The answer to 27001: True if nobody waits for this process any more.

    False: the controllers know another process under this id, so there is nothing left to release.
    """
    if answer.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED:
        return False
    return True if answer.code == ResponseCode.SUCCESS else _declined(answer)


def _declined(answer: Frame) -> Redirected | Refused:
    if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
        return Redirected(decode_header(LeaderHint, answer.ext).leader_address)
    return Refused(answer.code, answer.remark or "")


def _view(header: LeaseAnswer, body: LeaseSyncStateSet, epoch: int) -> RoleView:
    learners = _numbers("logherdLearners", header.learners)
    processes = _numbers("logherdMemberRegistrations", header.processes)
    if len(processes) != len(body.members):
        raise HeaderError("logherdMemberRegistrations", header.processes, f"{len(body.members)} numbers, as members")
    minimum = header.min_in_sync
    if minimum is None or minimum < 1:  # a leader that knows of none would commit alone
        raise HeaderError("logherdMinInSync", None if minimum is None else str(minimum), "1 or more")
    return RoleView(
        epoch=Epoch(epoch),
        master=BrokerId(header.master_broker_id) if header.master_broker_id is not None else None,
        master_address=header.master_address or "",
        master_registration=Registration(header.master_registration or 0), version=header.sync_state_set_epoch or 0,
        members=tuple(BrokerId(each) for each in body.members), learners=tuple(map(BrokerId, learners)),
        processes=tuple(map(Registration, processes)), min_in_sync=minimum,
        others=tuple((BrokerId(each), Registration(process)) for each, process in body.others),
    )  # fmt: skip


def _numbers(field: str, text: str | None) -> list[int]:
    """Raises: HeaderError."""
    try:
        return [int(each) for each in (text or "").split(";") if each]
    except ValueError as error:
        raise HeaderError(field, text, "numbers, as 1;2") from error


def _refusal(text: str | None) -> Refusal | None:
    """Why there is no lease; a reason of a newer controller is one that this program does not know."""
    return next((each for each in Refusal if each.value == text), None)
