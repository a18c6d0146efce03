"""State of one broker and of RocketMQ's controller: 315, 907, 1001 to 1008.

Source: apache/rocketmq: remoting/.../protocol/body/BrokerStatsData.java, HARuntimeInfo.java, BrokerReplicasInfo.java
"""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType, field

from logherd.wire.bodies.base import Body, Int32, Int64
from logherd.wire.bodies.routes import MemberGroup

__all__ = [
    "BrokerStats",
    "ElectMasterAnswer",
    "EpochCache",
    "EpochEntry",
    "HaConnection",
    "HaRuntimeInfo",
    "HaSlaveInfo",
    "LeaseSyncStateSet",
    "ReplicaIdentity",
    "ReplicasInfo",
    "StatsItem",
    "SyncStateData",
    "SyncStateSet",
]


class StatsItem(Body, frozen=True, kw_only=True, gc=False):
    """A sum over a period, its rate per second, and the average per call."""

    total: Int64 = field(name="sum", default=0)
    rate: float = field(name="tps", default=0.0)
    average: float = field(name="avgpt", default=0.0)


class BrokerStats(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 315."""

    minute: StatsItem = field(name="statsMinute", default_factory=StatsItem)
    hour: StatsItem = field(name="statsHour", default_factory=StatsItem)
    day: StatsItem = field(name="statsDay", default_factory=StatsItem)


class HaConnection(Body, frozen=True, kw_only=True, gc=False):
    address: str | None = field(name="addr", default=None)
    acknowledged_position: Int64 = field(name="slaveAckOffset", default=0)
    lag: Int64 = field(name="diff", default=0)
    in_sync: bool = False
    bytes_per_second: Int64 = field(name="transferredByteInSecond", default=0)
    transfer_position: Int64 = field(name="transferFromWhere", default=0)


class HaSlaveInfo(Body, frozen=True, kw_only=True, gc=False):
    master_address: str | None = field(name="masterAddr", default=None)
    bytes_per_second: Int64 = field(name="transferredByteInSecond", default=0)
    max_position: Int64 = field(name="maxOffset", default=0)
    last_read_ms: Int64 = field(name="lastReadTimestamp", default=0)
    last_write_ms: Int64 = field(name="lastWriteTimestamp", default=0)
    master_flush_position: Int64 = field(name="masterFlushOffset", default=0)
    activated: bool = field(name="activated", default=False)


class HaRuntimeInfo(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 907. Tools read `slave` without a null check when `master` is false."""

    master: bool = True
    max_position: Int64 = field(name="masterCommitLogMaxOffset", default=0)
    in_sync_slaves: Int32 = field(name="inSyncSlaveNums", default=0)
    connections: Sequence[HaConnection] = field(name="haConnectionInfo", default_factory=list)
    slave: HaSlaveInfo = field(name="haClientRuntimeInfo", default_factory=HaSlaveInfo)


class EpochEntry(Body, frozen=True, kw_only=True, gc=False):
    epoch: Int32
    start_position: Int64 = field(name="startOffset")
    end_position: Int64 = field(name="endOffset", default=(1 << 63) - 1)


class EpochCache(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 1007. The end of the last entry is the largest number of 64 bits."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 = 0
    epochs: Sequence[EpochEntry] = field(name="epochList", default_factory=list)
    max_position: Int64 = field(name="maxOffset", default=0)


class SyncStateSet(Body, frozen=True, kw_only=True, gc=False):
    """1001, and the answer to 1001, 1003 and 1004: broker ids."""

    members: Sequence[Int64] = field(name="syncStateSet", default_factory=list)
    epoch: Int32 = field(name="syncStateSetEpoch", default=0)


class LeaseSyncStateSet(SyncStateSet, frozen=True, kw_only=True, gc=False):
    """904, of our controllers: also the latest process of each broker that is not in the set."""

    others: Sequence[tuple[Int64, Int64]] = field(name="logherdOtherRegistrations", default_factory=list)


class ReplicaIdentity(Body, frozen=True, kw_only=True, gc=False):
    broker_name: str | None = None
    broker_id: Int64 = 0
    address: str | None = field(name="brokerAddress", default=None)
    alive: bool = False


class ReplicasInfo(Body, frozen=True, kw_only=True, gc=False):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    in_sync: Sequence[ReplicaIdentity] = field(name="inSyncReplicas", default_factory=list)
    not_in_sync: Sequence[ReplicaIdentity] = field(name="notInSyncReplicas", default_factory=list)


class SyncStateData(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 1006, by broker name; the request's body is a list of names."""

    replicas: Mapping[str, ReplicasInfo] = field(name="replicasInfoTable", default_factory=dict)


class ElectMasterAnswer(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 1002, with the group's fields at both places where tools look for them."""

    group: MemberGroup = field(name="brokerMemberGroup", default_factory=MemberGroup)
    members: Sequence[Int64] = field(name="syncStateSet", default_factory=list)
    cluster: str | UnsetType = UNSET
    broker_name: str | UnsetType = UNSET
    addresses: Mapping[int, str] | UnsetType = field(name="brokerAddrs", default=UNSET)
