"""Which of RocketMQ's response codes stands for a refusal; it depends on what was asked.

Source: apache/rocketmq: controller/.../manager/ReplicasInfoManager.java, and the numbers' names
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from logherd.controller.verdicts import Refusal
from logherd.service.ports import Reply
from logherd.wire.codes import RequestCode, ResponseCode

__all__ = ["refusal_reply", "response_code"]

_R = Refusal
_BASE: Final[Mapping[Refusal, ResponseCode]] = MappingProxyType({
    _R.UNKNOWN_GROUP: ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    _R.UNKNOWN_REPLICA: ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    _R.ID_TAKEN: ResponseCode.CONTROLLER_BROKER_ID_INVALID,
    _R.NOT_MASTER: ResponseCode.CONTROLLER_INVALID_MASTER,
    _R.FENCED_EPOCH: ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    _R.FENCED_VERSION: ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
    _R.FENCED_PROCESS: ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    _R.UNCHANGED: ResponseCode.CONTROLLER_INVALID_REQUEST,
    _R.WITHOUT_MASTER: ResponseCode.CONTROLLER_INVALID_REQUEST,
    _R.NOT_IN_SYNC: ResponseCode.CONTROLLER_INVALID_REPLICAS,
    _R.NOT_ALIVE: ResponseCode.CONTROLLER_BROKER_NOT_ALIVE,
    _R.NOT_FIT: ResponseCode.CONTROLLER_INVALID_REPLICAS,
    _R.LEARNER: ResponseCode.CONTROLLER_INVALID_REPLICAS,
    _R.IN_SYNC: ResponseCode.CONTROLLER_INVALID_REQUEST,
    _R.ALIVE: ResponseCode.CONTROLLER_INVALID_REQUEST,
    _R.LEASE_RUNS: ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
    _R.NOBODY: ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
    _R.EMPTY: ResponseCode.CONTROLLER_INVALID_REPLICAS,
    _R.BELOW_MINIMUM: ResponseCode.CONTROLLER_INVALID_REQUEST,
    _R.RESIGNED: ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
    _R.RUNNING: ResponseCode.CONTROLLER_INVALID_REQUEST,
    _R.WRONG_RULES: ResponseCode.CONTROLLER_INVALID_REQUEST,
    _R.REQUEST_REUSED: ResponseCode.CONTROLLER_INVALID_REQUEST,
})  # fmt: skip

_ALTER_FAILED = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
_OF_REQUEST: Final[Mapping[int, Mapping[Refusal, ResponseCode]]] = MappingProxyType({
    RequestCode.BROKER_HEARTBEAT: {_R.FENCED_EPOCH: ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED},
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: {
        _R.UNKNOWN_GROUP: _ALTER_FAILED,
        _R.UNCHANGED: _ALTER_FAILED,
        _R.WITHOUT_MASTER: _ALTER_FAILED,
        _R.WRONG_RULES: _ALTER_FAILED,
        _R.UNKNOWN_REPLICA: ResponseCode.CONTROLLER_INVALID_REPLICAS,
        _R.FENCED_PROCESS: ResponseCode.CONTROLLER_INVALID_REPLICAS,
    },
    RequestCode.CONTROLLER_ELECT_MASTER: {
        **dict.fromkeys(Refusal, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED),
        _R.UNKNOWN_GROUP: ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
        _R.UNCHANGED: ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
        _R.NOBODY: ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
    },
    RequestCode.CLEAN_BROKER_DATA: dict.fromkeys(Refusal, ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA),
    RequestCode.CONTROLLER_GET_REPLICA_INFO: dict.fromkeys(
        Refusal, ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
    ),
})  # fmt: skip


def response_code(request: int, refusal: Refusal) -> ResponseCode:
    """The number by which RocketMQ knows this refusal of this request."""
    return _OF_REQUEST.get(request, {}).get(refusal) or _BASE[refusal]


def refusal_reply(request: int, refusal: Refusal, detail: str = "") -> Reply:
    """The refusal as an answer; its remark is what a person reads."""
    return Reply(response_code(request, refusal), remark=f"{refusal.value}: {detail}" if detail else refusal.value)
