"""LogHerd's own fields in RocketMQ's controller requests, and its own request: leases and the in-sync set.

Whoever does not know the fields ignores them. A broker of LogHerd sends and reads them; one without them (a Java
broker) cannot join a group: nothing would prove that its store is the one that acknowledged.
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64
from logherd.wire.headers.controller import AlterSyncStateSetHeader, RegisterReplicaHeader, RegisterReplicaResponse
from logherd.wire.headers.names import BrokerHeartbeatHeader

__all__ = [
    "AlteringHeader", "HeartbeatHeader", "LeaderHint", "LeaseAnswer", "LeaseReleaseHeader", "LeaseReleaseResponse",
    "RegisteredResponse", "RegisteringHeader",
]  # fmt: skip


class LeaderHint(Header, frozen=True, kw_only=True):
    """With 2007: where the leader is, under the names that 1005 gives it."""

    leader_id: str | None = field(name="controllerLeaderId", default=None)
    leader_address: str | None = field(name="controllerLeaderAddress", default=None)


class RegisteringHeader(RegisterReplicaHeader, frozen=True, kw_only=True):
    """1003 of a broker of ours."""

    store_id: str | None = field(name="logherdStoreId", default=None)
    incarnation: str | None = field(name="logherdIncarnation", default=None)
    end_epoch: Int64 = field(name="logherdEndEpoch", default=0)
    end_position: Int64 = field(name="logherdEndPosition", default=0)
    epoch_seen: Int64 = field(name="logherdEpochSeen", default=0)
    trusted: bool = field(name="logherdTrusted", default=True)
    learner: bool = field(name="logherdLearner", default=False)
    replicas: Int32 = field(name="logherdReplicas", default=3)
    min_in_sync: Int32 = field(name="logherdMinInSync", default=2)


class RegisteredResponse(RegisterReplicaResponse, frozen=True, kw_only=True):
    """The answer to it."""

    registration: Int64 = field(name="logherdRegistration")
    min_in_sync: Int32 = field(name="logherdMinInSync")


class HeartbeatHeader(BrokerHeartbeatHeader, frozen=True, kw_only=True):
    """904 of a broker of ours, which waits for the answer. `epoch` and `max_position` are the end of its log."""

    registration: Int64 | None = field(name="logherdRegistration", default=None)
    committed_epoch: Int64 = field(name="logherdConfirmEpoch", default=0)
    healthy: bool = field(name="logherdHealthy", default=True)
    space: bool = field(name="logherdSpace", default=True)
    barrier: bool | None = field(name="logherdBarrier", default=None)
    """Without `space`: whether there is room for the barrier of an epoch all the same. Brokers of earlier releases do
    not say so."""
    resigned: Int64 = field(name="logherdResigned", default=0)
    epoch_ends: str | None = field(name="logherdEpochEnds", default=None)
    """What its log begins after, and where each leadership but the newest ends in it, as EPOCH:POSITION, `;` between
    them; only the latest, and only while it knows of no leader."""
    number: Int64 = field(name="logherdBeat", default=0)
    """Counts the heartbeats of this process, so that one that comes late is known."""
    answered: Int64 | None = field(name="logherdAnswered", default=None)
    """The latest of them of which it knew the answer when it made this one. Brokers of earlier releases do not say."""


class LeaseAnswer(Header, frozen=True, kw_only=True):
    """The answer to it: the role of everybody, and a lease or the reason why there is none."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int64 | None = None
    sync_state_set_epoch: Int64 | None = None
    master_registration: Int64 | None = field(name="logherdMasterRegistration", default=None)
    processes: str | None = field(name="logherdMemberRegistrations", default=None)
    """The latest process of each member of the in-sync set, `;` between them, in the order of the body."""
    learners: str | None = field(name="logherdLearners", default=None)
    min_in_sync: Int32 | None = field(name="logherdMinInSync", default=None)
    lease_ms: Int64 | None = field(name="logherdLeaseMs", default=None)
    """Counted by the broker from when it sent the heartbeat; absent without a lease."""
    hand_over: Int64 | None = field(name="logherdHandOver", default=None)
    endpoint: bool | None = field(name="logherdEndpoint", default=None)
    """With a lease: the address that follows the leader is known to lead to this broker in this epoch."""
    withheld: str | None = field(name="logherdWithheld", default=None)


class AlteringHeader(AlterSyncStateSetHeader, frozen=True, kw_only=True):
    """1001 of a broker of ours."""

    cluster_name: str | None = field(name="logherdCluster", default=None)
    registration: Int64 | None = field(name="logherdRegistration", default=None)
    committed_epoch: Int64 = field(name="logherdConfirmEpoch", default=0)
    committed_position: Int64 = field(name="logherdConfirmOffset", default=0)
    min_in_sync: Int32 = field(name="logherdMinInSync", default=0)
    request: str = field(name="logherdRequest", default="")


class LeaseReleaseHeader(Header, frozen=True, kw_only=True):
    """27001. `incarnation` is the secret of one process and its guardian: whoever knows it speaks for that process."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    store_id: str
    incarnation: str
    exited: bool
    """The process has ended, which waitpid proves; otherwise it lives and leads no more."""
    committed_epoch: Int64 = field(name="confirmEpoch", default=0)
    committed_position: Int64 = field(name="confirmOffset", default=0)
    epoch: Int64 = field(name="masterEpoch", default=0)
    """The newest epoch that a living process gives up; 0: whichever it leads."""


class LeaseReleaseResponse(Header, frozen=True, kw_only=True):
    """The answer to it: nobody has to wait for this process any more. `master_epoch` is the group's epoch now."""

    master_epoch: Int64
