"""RocketMQ's controller protocol: 1001 to 1005, 1008, 1011 to 1013. Stock tools ask it; LogHerd's own is another.

Source: apache/rocketmq: remoting/.../protocol/header/controller/**/*.java
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = [
    "AlterSyncStateSetHeader",
    "AlterSyncStateSetResponse",
    "ApplyBrokerIdHeader",
    "ApplyBrokerIdResponse",
    "CleanBrokerDataHeader",
    "ControllerMetadataResponse",
    "ElectMasterHeader",
    "MasterResponse",
    "NextBrokerIdHeader",
    "NextBrokerIdResponse",
    "RegisterReplicaHeader",
    "RegisterReplicaResponse",
    "ReplicaInfoHeader",
    "RoleChangedHeader",
]


class ControllerMetadataResponse(Header, frozen=True, kw_only=True):
    """The answer to 1005. `peers` is a list joined by semicolons."""

    group: str | None = None
    leader_id: str | None = field(name="controllerLeaderId", default=None)
    leader_address: str | None = field(name="controllerLeaderAddress", default=None)
    leader: bool = field(name="isLeader", default=False)
    peers: str | None = None


class ElectMasterHeader(Header, frozen=True, kw_only=True):
    """1002."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    designated: bool = field(name="designateElect")
    invoke_time: Int64 | None = None


class MasterResponse(Header, frozen=True, kw_only=True):
    """The answer to 1002 and 1004."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class AlterSyncStateSetHeader(Header, frozen=True, kw_only=True):
    """1001; the set is the body."""

    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32
    invoke_time: Int64 | None = None


class AlterSyncStateSetResponse(Header, frozen=True, kw_only=True):
    """The answer to 1001."""

    sync_state_set_epoch: Int32 = field(name="newSyncStateSetEpoch")


class RegisterReplicaHeader(Header, frozen=True, kw_only=True):
    """1003."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64 | None = None


class RegisterReplicaResponse(Header, frozen=True, kw_only=True):
    """The answer to 1003."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ReplicaInfoHeader(Header, frozen=True, kw_only=True):
    """1004."""

    broker_name: str


class NextBrokerIdHeader(Header, frozen=True, kw_only=True):
    """1012."""

    cluster_name: str
    broker_name: str


class NextBrokerIdResponse(Header, frozen=True, kw_only=True):
    """The answer to 1012."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64


class ApplyBrokerIdHeader(Header, frozen=True, kw_only=True):
    """1013."""

    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str


class ApplyBrokerIdResponse(Header, frozen=True, kw_only=True):
    """The answer to 1013."""

    cluster_name: str | None = None
    broker_name: str | None = None


class CleanBrokerDataHeader(Header, frozen=True, kw_only=True):
    """1011. The ids are a list joined by semicolons."""

    cluster_name: str | None = None
    broker_name: str
    broker_ids: str | None = field(name="brokerControllerIdsToClean", default=None)
    clean_living: bool = field(name="isCleanLivingBroker", default=False)
    invoke_time: Int64 | None = None


class RoleChangedHeader(Header, frozen=True, kw_only=True):
    """1008, controller to broker; the in-sync set is the body."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None
