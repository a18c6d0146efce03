"""Requests of brokers: identity, registration, heartbeats, the in-sync set."""

from functools import lru_cache, partial

from msgspec import UNSET

from logherd.controller.admission import admit_register, admit_sync_set
from logherd.controller.commands import AlterSyncSet, Claim, Promote, Register, Release, SyncMember
from logherd.controller.office import Office
from logherd.controller.reports import Report, Withheld
from logherd.controller.values import BrokerId, GroupKey, Registration, Rules
from logherd.controller.verdicts import Refusal, Verdict
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import ORIGIN, Point
from logherd.service.controllers.codes import refusal_reply, response_code
from logherd.service.controllers.scope import key_of
from logherd.service.controllers.steps import Confirm, Decide, Seat, Step
from logherd.service.controllers.views import lease_reply, sync_body
from logherd.service.errors import RequestError
from logherd.service.ports import Reply
from logherd.service.requests import body_reply
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.insync import AlteringBody
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.controller import (
    AlterSyncStateSetResponse,
    ApplyBrokerIdHeader,
    ApplyBrokerIdResponse,
    NextBrokerIdHeader,
    NextBrokerIdResponse,
)
from logherd.wire.headers.leases import (
    AlteringHeader,
    HeartbeatHeader,
    LeaseReleaseHeader,
    LeaseReleaseResponse,
    RegisteredResponse,
    RegisteringHeader,
)
from logherd.wire.headers.roles import RolesPromoteHeader, RolesPromoteResponse

__all__ = ["alter", "apply_id", "heartbeat", "next_id", "promote", "register", "release"]

_INVALID = ResponseCode.CONTROLLER_INVALID_REQUEST
_EPOCH_MAX = 1 << 30
"""No group comes to so many elections. A later epoch would be the group's for good, and RocketMQ's fields hold 31 bits
of it, so that nobody of that group could register or change the in-sync set any more."""
_ID_MAX = 999
"""As the settings of a broker have it. With each heartbeat a broker hears of all learners of its group, and reads no
answer that is too long."""
_NAME_LENGTH_MAX = 255
_TEXT_LENGTH_MAX = 1_024
"""What is decided is kept for good, in the log and in images of the state."""


def _point(epoch: int | None, position: int | None) -> Point:
    if not epoch and not position:
        return ORIGIN
    return Point(Epoch(max(epoch or 0, 0)), Position(max(position or 0, 0)))


def _points(field: str, text: str) -> tuple[Point, ...]:
    """Raises: RequestError."""
    _check_lengths(_TEXT_LENGTH_MAX, **{field: text})
    try:
        return tuple(_point(*map(int, each.split(":", 1))) for each in text.split(";"))
    except (TypeError, ValueError) as error:
        raise RequestError(_INVALID, f"{field} holds no places in a log, as 1:900;3:4096") from error


def _check_lengths(most: int, **texts: str) -> None:
    """By their names on the wire. Raises: RequestError."""
    for field, text in texts.items():
        if len(text) > most:
            raise RequestError(_INVALID, f"{field} has {len(text)} characters, at most {most} are kept")


def _check_id(broker_id: int) -> None:
    if broker_id > _ID_MAX:
        raise RequestError(_INVALID, f"broker ids are 1 to {_ID_MAX}, not {broker_id}")


@lru_cache(maxsize=1 << 14)
def _known_key(cluster: str, name: str) -> GroupKey:
    """The same object for the same names, which is found in tables without being hashed and compared anew."""
    return GroupKey(cluster, name)


def next_id(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """1012: the id that a new broker should claim."""
    header = decode_header(NextBrokerIdHeader, frame.ext)
    key = GroupKey(header.cluster_name, header.broker_name)

    def then(now: int) -> Step[Reply]:
        group = office.machine.group(key)
        return Reply(
            header=NextBrokerIdResponse(
                cluster_name=key.cluster, broker_name=key.name, next_broker_id=group.next_id if group else 1
            )
        )

    return Confirm(then)


def apply_id(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """1013: claim an id."""
    header = decode_header(ApplyBrokerIdHeader, frame.ext)
    _check_id(header.applied_broker_id)
    _check_lengths(_NAME_LENGTH_MAX, clusterName=header.cluster_name, brokerName=header.broker_name)
    _check_lengths(_TEXT_LENGTH_MAX, registerCheckCode=header.register_check_code)
    key = GroupKey(header.cluster_name, header.broker_name)
    command = Claim(group=key, broker_id=BrokerId(header.applied_broker_id), check_code=header.register_check_code)

    def then(verdict: Verdict, now: int) -> Step[Reply]:
        if verdict.refusal is not None:
            return refusal_reply(frame.code, verdict.refusal, verdict.detail)
        return Reply(header=ApplyBrokerIdResponse(cluster_name=key.cluster, broker_name=key.name))

    return Decide(command, then)


def register(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """1003: a broker process has started."""
    header = decode_header(RegisteringHeader, frame.ext)
    if not header.store_id or not header.incarnation:
        raise RequestError(_INVALID, "a broker must send logherdStoreId and logherdIncarnation to join a group")
    if header.epoch_seen > _EPOCH_MAX:
        raise RequestError(_INVALID, f"no group has come to epoch {header.epoch_seen}; the highest is {_EPOCH_MAX}")
    _check_id(header.broker_id)
    _check_lengths(_NAME_LENGTH_MAX, clusterName=header.cluster_name, brokerName=header.broker_name)
    _check_lengths(
        _TEXT_LENGTH_MAX, brokerAddress=header.broker_address, logherdStoreId=header.store_id,
        logherdIncarnation=header.incarnation,
    )  # fmt: skip
    wish = Register(
        group=GroupKey(header.cluster_name, header.broker_name), broker_id=BrokerId(header.broker_id),
        store_id=header.store_id, incarnation=header.incarnation, address=header.broker_address,
        end=_point(header.end_epoch, header.end_position), epoch_seen=Epoch(max(header.epoch_seen, 0)),
        trusted=header.trusted, learner=header.learner,
        rules=Rules(replicas=header.replicas, min_in_sync=header.min_in_sync),
    )  # fmt: skip
    admitted = admit_register(office, wish, now)
    if isinstance(admitted, Refusal):
        return refusal_reply(frame.code, admitted, "who has this id reports, or may yet")
    return Decide(admitted, lambda verdict, now: _registered(office, wish, verdict, now))


def _registered(office: Office, wish: Register, verdict: Verdict, now: int) -> Step[Reply]:
    group = verdict.group
    if verdict.refusal is not None or group is None:
        refusal = verdict.refusal or Refusal.UNKNOWN_GROUP
        return refusal_reply(RequestCode.CONTROLLER_REGISTER_BROKER, refusal, verdict.detail)
    replica = group.replica(wish.broker_id)
    master = group.master if office.leads(group, now) else None
    answer = RegisteredResponse(
        cluster_name=wish.group.cluster,
        broker_name=wish.group.name,
        master_broker_id=master.broker_id if master is not None else None,
        master_address=master.address if master is not None else None,
        master_epoch=group.epoch if master is not None else None,
        sync_state_set_epoch=group.sync.version if master is not None else None,
        registration=replica.registration if replica is not None else 0,
        min_in_sync=group.rules.min_in_sync,
    )
    return body_reply(sync_body(group), answer)


def heartbeat(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """904: heard at once; answered, perhaps with a lease, when the quorum has confirmed that this controller leads.

    So is who has to register: one that leads no more, and does not know it yet, has not heard of registrations since,
    and a leader that it sends away lets go.
    """
    header = decode_header(HeartbeatHeader, frame.ext)
    if header.broker_id is None or header.registration is None:
        raise RequestError(_INVALID, "a broker must send brokerId and logherdRegistration with its heartbeat")
    if len(header.broker_address) > _TEXT_LENGTH_MAX:
        _check_lengths(_TEXT_LENGTH_MAX, brokerAddr=header.broker_address)
    if len(header.cluster_name) + len(header.broker_name) > _NAME_LENGTH_MAX:
        _check_lengths(_NAME_LENGTH_MAX, clusterName=header.cluster_name, brokerName=header.broker_name)
    report = Report(
        group=_known_key(header.cluster_name, header.broker_name), broker_id=BrokerId(header.broker_id),
        registration=Registration(header.registration), address=header.broker_address,
        end=_point(header.epoch, header.max_position),
        committed=_point(header.committed_epoch, header.confirmed_position),
        healthy=header.healthy, space=header.space,
        barrier=header.space if header.barrier is None else header.barrier, priority=header.election_priority or 0,
        resigned=Epoch(header.resigned), number=header.number, answered=header.answered,
        epoch_ends=_points("logherdEpochEnds", header.epoch_ends) if header.epoch_ends else (),
    )  # fmt: skip
    office.hear(report, now)
    return Confirm(partial(_renewed, office, report, now), Seat(report.group, report.broker_id, report.registration))


def _renewed(office: Office, report: Report, heard: int, now: int) -> Reply:
    answer = office.renew(report, now, heard=heard)
    if isinstance(answer, Withheld) and answer.view is None and answer.refusal is not None:
        return lease_reply(answer, response_code(RequestCode.BROKER_HEARTBEAT, answer.refusal))
    return lease_reply(answer)


def alter(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """1001: the master proposes another in-sync set."""
    header = decode_header(AlteringHeader, frame.ext)
    body = decode_body(AlteringBody, frame.body)
    if header.registration is None:
        raise RequestError(_INVALID, "a master must send logherdRegistration with its proposal")
    count = max(len(body.members), len(body.processes))
    if count > _ID_MAX:  # each is 60 bytes of a command, and whether a master says so is known only when it is applied
        raise RequestError(_INVALID, f"the set has {count} members; a group has at most {_ID_MAX} brokers")
    _check_lengths(_TEXT_LENGTH_MAX, logherdRequest=header.request)
    heard = {each.broker_id: each for each in body.processes}
    members = []
    for broker_id in body.members:
        process = heard.get(broker_id)
        number, end = (process.registration, _point(process.end_epoch, process.end_position)) if process else (0, None)
        members.append(
            SyncMember(broker_id=BrokerId(broker_id), registration=Registration(number), end=end or _point(0, 0))
        )
    command = AlterSyncSet(
        group=key_of(office, header.cluster_name, header.broker_name), broker_id=BrokerId(header.master_broker_id),
        registration=Registration(header.registration), epoch=Epoch(header.master_epoch), version=body.version,
        members=tuple(members), committed=_point(header.committed_epoch, header.committed_position),
        min_in_sync=header.min_in_sync, request=header.request,
    )  # fmt: skip
    admitted = admit_sync_set(office, command, now)
    if isinstance(admitted, Refusal):
        return refusal_reply(frame.code, admitted)

    def then(verdict: Verdict, now: int) -> Step[Reply]:
        if verdict.refusal is not None or verdict.group is None:
            return refusal_reply(frame.code, verdict.refusal or Refusal.UNKNOWN_GROUP, verdict.detail)
        group = verdict.group
        return body_reply(sync_body(group), AlterSyncStateSetResponse(sync_state_set_epoch=group.sync.version))

    return Decide(admitted, then)


def release(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """27001: a process leads no more, as it says itself, or has exited, as its guardian says (H14).

    Always proposed, never judged by what is applied here: its registration may stand right before it in the log. The
    answer to a wrong incarnation does not tell the right one.
    """
    header = decode_header(LeaseReleaseHeader, frame.ext)
    command = Release(
        group=GroupKey(header.cluster_name, header.broker_name), broker_id=BrokerId(header.broker_id),
        store_id=header.store_id, incarnation=header.incarnation, exited=header.exited,
        committed=_point(header.committed_epoch, header.committed_position),
        epoch=Epoch(header.epoch) if header.epoch else UNSET,
    )  # fmt: skip

    def then(verdict: Verdict, now: int) -> Step[Reply]:
        if verdict.refusal is not None or verdict.group is None:
            return refusal_reply(frame.code, verdict.refusal or Refusal.UNKNOWN_GROUP, verdict.detail)
        return Reply(header=LeaseReleaseResponse(master_epoch=verdict.group.epoch))

    return Decide(command, then)


def promote(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """27002: a broker in static mode is to lead. Answered with what is recorded, also if that is another promotion."""
    header = decode_header(RolesPromoteHeader, frame.ext)
    _check_lengths(_NAME_LENGTH_MAX, clusterName=header.cluster_name, brokerName=header.broker_name)
    command = Promote(
        group=GroupKey(header.cluster_name, header.broker_name), after=header.after,
        broker_id=BrokerId(header.broker_id), table=header.table,
    )  # fmt: skip

    def then(verdict: Verdict, now: int) -> Step[Reply]:
        if verdict.refusal is None:
            number = command.after + 1
            return Reply(header=RolesPromoteResponse(number=number, broker_id=command.broker_id, table=command.table))
        refusal = refusal_reply(frame.code, verdict.refusal, verdict.detail)
        found = office.machine.roles(command.group)
        if found is None:
            return refusal
        shown = RolesPromoteResponse(number=found.number, broker_id=found.broker_id, table=found.table)
        return Reply(refusal.code, shown, remark=refusal.remark)

    return Decide(command, then)
