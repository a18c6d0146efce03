"""The name service: 100 to 105, 205, 216 to 219, 224, 322, 327, 901, 904.

Source: apache/rocketmq: remoting/.../protocol/header/namesrv/*.java
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = [
    "AddWritePermissionResponse",
    "BrokerHeartbeatHeader",
    "BrokerNameHeader",
    "ClusterHeader",
    "DataVersionHeader",
    "DataVersionResponse",
    "DeleteNamesTopicHeader",
    "KVHeader",
    "KVResponse",
    "MemberGroupHeader",
    "NamespaceHeader",
    "PutKVHeader",
    "RegisterBrokerHeader",
    "RegisterBrokerResponse",
    "RegistrationRefusal",
    "RouteHeader",
    "UnregisterBrokerHeader",
    "WipeWritePermissionResponse",
]


class RouteHeader(Header, frozen=True, kw_only=True):
    """105. Zones are asked for where `zone_mode` is "true" in any case; anything else means no, as in RocketMQ."""

    topic: str
    strict_json: bool | None = field(name="acceptStandardJsonOnly", default=None)
    zone_mode: str | None = field(name="__ZONE_MODE", default=None)
    zone_name: str | None = field(name="__ZONE_NAME", default=None)


class RegisterBrokerHeader(Header, frozen=True, kw_only=True):
    """103. `body_crc` is over the body as sent; 0 or absent means not checked.

    Ours, which others ignore: `complete`, topics that are not listed are gone; `epoch`, that of a group's leader, which
    registers as broker id 0 whatever its own id is.
    """

    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str
    ha_address: str = field(name="haServerAddr")
    broker_id: Int64
    heartbeat_timeout_ms: Int64 | None = field(name="heartbeatTimeoutMillis", default=None)
    acting_master: bool | None = field(name="enableActingMaster", default=None)
    compressed: bool = False
    body_crc: Int32 = field(name="bodyCrc32", default=0)
    complete: bool | None = field(name="logherdComplete", default=None)
    epoch: Int64 | None = field(name="logherdEpoch", default=None)


class RegistrationRefusal(Header, frozen=True, kw_only=True):
    """With CONTROLLER_FENCED_MASTER_EPOCH, for a 103 of a leader whose time is over: nothing was changed.

    `offered` is the epoch that it named, 0 if none; `epoch` the highest that is known of its broker name, `leader` the
    "host:port" that routes name now.
    """

    offered: Int64 = field(name="logherdOffered")
    epoch: Int64 = field(name="logherdEpoch")
    leader: str | None = field(name="logherdLeader", default=None)


class RegisterBrokerResponse(Header, frozen=True, kw_only=True):
    """The answer to 103, of use to slaves only."""

    ha_address: str | None = field(name="haServerAddr", default=None)
    master_address: str | None = field(name="masterAddr", default=None)


class UnregisterBrokerHeader(Header, frozen=True, kw_only=True):
    """104. `epoch` is ours: only what was registered in it is taken back."""

    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str
    broker_id: Int64
    epoch: Int64 | None = field(name="logherdEpoch", default=None)


class DataVersionHeader(Header, frozen=True, kw_only=True):
    """322; the broker's DataVersion is the body."""

    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str
    broker_id: Int64


class DataVersionResponse(Header, frozen=True, kw_only=True):
    """The answer to 322."""

    changed: bool


class BrokerHeartbeatHeader(Header, frozen=True, kw_only=True):
    """904 to the name service and to the controller; the latter reads the optional fields."""

    cluster_name: str
    broker_address: str = field(name="brokerAddr")
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_position: Int64 | None = field(name="maxOffset", default=None)
    confirmed_position: Int64 | None = field(name="confirmOffset", default=None)
    heartbeat_timeout_ms: Int64 | None = field(name="heartbeatTimeoutMills", default=None)
    election_priority: Int32 | None = None


class MemberGroupHeader(Header, frozen=True, kw_only=True):
    """901."""

    cluster_name: str
    broker_name: str


class BrokerNameHeader(Header, frozen=True, kw_only=True):
    """205 and 327."""

    broker_name: str


class WipeWritePermissionResponse(Header, frozen=True, kw_only=True):
    """The answer to 205."""

    topics: Int32 = field(name="wipeTopicCount")


class AddWritePermissionResponse(Header, frozen=True, kw_only=True):
    """The answer to 327."""

    topics: Int32 = field(name="addTopicCount")


class DeleteNamesTopicHeader(Header, frozen=True, kw_only=True):
    """216."""

    topic: str
    cluster_name: str | None = None


class ClusterHeader(Header, frozen=True, kw_only=True):
    """224."""

    cluster: str


class PutKVHeader(Header, frozen=True, kw_only=True):
    """100."""

    namespace: str
    key: str
    value: str


class KVHeader(Header, frozen=True, kw_only=True):
    """101 and 102."""

    namespace: str
    key: str


class KVResponse(Header, frozen=True, kw_only=True):
    """The answer to 101."""

    value: str | None = None


class NamespaceHeader(Header, frozen=True, kw_only=True):
    """219."""

    namespace: str
