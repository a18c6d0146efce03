"""Where controller requests arrive: the one that any controller answers, the redirect, and the table of the rest.

Source: apache/rocketmq: controller/.../processor/ControllerRequestProcessor.java
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.settings import OfficeOptions
from logherd.service.controllers import brokers, operators
from logherd.service.controllers.steps import Endings, QuorumRefusal, Step
from logherd.service.errors import RequestError
from logherd.service.ports import Reply
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import BodyError, HeaderError
from logherd.wire.frame import Frame
from logherd.wire.headers.controller import ControllerMetadataResponse
from logherd.wire.headers.leases import LeaderHint

__all__ = ["SERVED", "QuorumView", "endings", "not_leader", "take", "unknown_outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """The quorum as this controller knows it, without asking anybody. `peers`: (id, address)."""

    group: str
    own_id: str
    leader_id: str | None
    leader_address: str | None
    peers: tuple[tuple[str, str], ...]
    shown: Mapping[str, str]
    """Settings of this process, as 1010 shows them."""
    machine: Callable[[], Machine]
    """The replicated state as it is; an image may put another in its place."""
    options: OfficeOptions
    """What this process was configured with; what was set at run time is in the machine."""


_C = RequestCode
_TABLE: Final[Mapping[int, Callable[[Frame, Office, int], Step[Reply]]]] = MappingProxyType({
    _C.BROKER_HEARTBEAT: brokers.heartbeat,
    _C.CONTROLLER_ALTER_SYNC_STATE_SET: brokers.alter,
    _C.CONTROLLER_ELECT_MASTER: operators.elect,
    _C.CONTROLLER_REGISTER_BROKER: brokers.register,
    _C.CONTROLLER_GET_REPLICA_INFO: operators.replica_info,
    _C.CONTROLLER_GET_SYNC_STATE_DATA: operators.sync_state,
    _C.UPDATE_CONTROLLER_CONFIG: operators.update_config,
    _C.CLEAN_BROKER_DATA: operators.clean,
    _C.CONTROLLER_GET_NEXT_BROKER_ID: brokers.next_id,
    _C.CONTROLLER_APPLY_BROKER_ID: brokers.apply_id,
    _C.LEASE_RELEASE: brokers.release,
    _C.ROLES_PROMOTE: brokers.promote,
})  # fmt: skip
_LOCAL = (_C.CONTROLLER_GET_METADATA_INFO, _C.GET_CONTROLLER_CONFIG)
"""What any controller answers by itself; tools put the second to each controller of a list."""
SERVED: Final = frozenset({*_TABLE, *_LOCAL})
"""The codes that a controller answers."""


def take(frame: Frame, office: Office | None, quorum: QuorumView, now: int) -> Step[Reply]:
    """What to do for a request. `office` is None while this controller does not lead, or is not ready to.

    Raises: nothing for any content of the frame.
    """
    if frame.code == _C.CONTROLLER_GET_METADATA_INFO:
        return Reply(header=_metadata(quorum, leads=office is not None))
    if frame.code == _C.GET_CONTROLLER_CONFIG:
        return operators.get_config(quorum.shown, quorum.options.tuned(quorum.machine().settings))
    if frame.code not in SERVED:
        return Reply(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {frame.code} not supported by a controller"
        )
    try:
        if office is not None:
            return _TABLE[frame.code](frame, office, now)
        if frame.code == _C.UPDATE_CONTROLLER_CONFIG:
            return operators.confirm_config(frame, quorum.machine, lambda: not_leader(quorum))
        return not_leader(quorum)
    except RequestError as error:
        return Reply(error.code, remark=error.remark)
    except (HeaderError, BodyError) as error:
        return Reply(ResponseCode.INVALID_PARAMETER, remark=str(error))


def not_leader(quorum: QuorumView) -> Reply:
    """The redirect: nothing was done here, the leader will do it."""
    # A leader that is not ready yet must not send brokers to itself in a circle.
    elsewhere = quorum.leader_id is not None and quorum.leader_id != quorum.own_id
    hint = LeaderHint(
        leader_id=quorum.leader_id if elsewhere else None,
        leader_address=quorum.leader_address if elsewhere else None,
    )
    where = f"ask {quorum.leader_address}" if elsewhere else "no leader is known"
    return Reply(ResponseCode.CONTROLLER_NOT_LEADER, hint, remark=f"this controller does not lead: {where}")


def unknown_outcome() -> Reply:
    """For a proposal that was pending when leadership was lost (R18): it may have been decided, or never will be."""
    return Reply(
        ResponseCode.SYSTEM_ERROR, remark="the outcome is unknown: the controllers' leader changed; ask, then repeat"
    )


def endings(quorum: QuorumView) -> Endings[Reply]:
    """How a frame is answered when a step of it cannot be carried out."""
    return Endings(refused=lambda refusal: _refused(quorum, refusal), unknown=unknown_outcome)


def _refused(quorum: QuorumView, refusal: QuorumRefusal) -> Reply:
    if refusal in (QuorumRefusal.NOT_LEADER, QuorumRefusal.NOT_READY, QuorumRefusal.TRANSFERRING):
        return not_leader(quorum)
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"the controllers refuse changes for now: {refusal.value}")


def _metadata(quorum: QuorumView, *, leads: bool) -> ControllerMetadataResponse:
    return ControllerMetadataResponse(
        group=quorum.group, leader_id=quorum.leader_id, leader_address=quorum.leader_address, leader=leads,
        peers=";".join(f"{name}:{address}" for name, address in quorum.peers),
    )  # fmt: skip
