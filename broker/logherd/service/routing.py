"""For each request code, who answers it (rule H9): one table, no code without a row.

FORWARD: the leader; another broker of the group passes the request on and relays the answer.
HERE:    the broker that was asked, whatever its role: it is about this process, its configuration or its connections.
BOTH:    the broker that was asked and the leader: sessions live on one, the group's registry on the other.
REFUSE:  nobody; the remark names the feature, so that nothing is stored or half done by mistake.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from logherd.wire.codes import RequestCode, request_name

__all__ = ["ROUTES", "Role", "Route", "Where", "refusal"]


class Where(Enum):
    """Who answers; see the module's text."""

    FORWARD = "forward"
    HERE = "here"
    BOTH = "both"
    REFUSE = "refuse"


class Role(Enum):
    """Whose request it is."""

    BROKER = "a broker"
    NAMES = "the name service"
    CONTROLLER = "a controller"
    CLIENT = "a client"


class Route(NamedTuple):
    where: Where
    role: Role = Role.BROKER
    feature: str = ""
    """What is refused, as a noun for the remark."""


_C = RequestCode
_POP = "POP consumption"
_TRANSACTIONS = "transactions"
_DELAY = "delayed delivery"
_OLD_ACL = "access control of RocketMQ 4"
_AUTH = "users and access control"
_STATIC = "static topics"
_HA = "RocketMQ's own HA protocol"
_ROCKSDB = "RocksDB"
_COLD = "cold-data flow control"

_FORWARDED = (
    _C.SEND_MESSAGE, _C.SEND_MESSAGE_V2, _C.SEND_BATCH_MESSAGE, _C.SEND_REPLY_MESSAGE, _C.SEND_REPLY_MESSAGE_V2,
    _C.PULL_MESSAGE, _C.LITE_PULL_MESSAGE, _C.QUERY_MESSAGE, _C.VIEW_MESSAGE_BY_ID, _C.QUERY_CONSUME_QUEUE,
    _C.QUERY_CONSUMER_OFFSET, _C.UPDATE_CONSUMER_OFFSET, _C.SEARCH_OFFSET_BY_TIMESTAMP, _C.GET_MAX_OFFSET,
    _C.GET_MIN_OFFSET, _C.GET_EARLIEST_MSG_STORETIME, _C.GET_ALL_CONSUMER_OFFSET, _C.INVOKE_BROKER_TO_RESET_OFFSET,
    _C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, _C.CLONE_GROUP_OFFSET, _C.QUERY_CORRECTION_OFFSET,
    _C.UPDATE_AND_CREATE_TOPIC, _C.UPDATE_AND_CREATE_TOPIC_LIST, _C.DELETE_TOPIC_IN_BROKER, _C.GET_TOPIC_CONFIG,
    _C.GET_ALL_TOPIC_CONFIG, _C.GET_TOPIC_STATS_INFO, _C.QUERY_TOPIC_CONSUME_BY_WHO,
    _C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, _C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    _C.GET_SUBSCRIPTIONGROUP_CONFIG, _C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, _C.DELETE_SUBSCRIPTIONGROUP,
    _C.GET_CONSUMER_LIST_BY_GROUP, _C.LOCK_BATCH_MQ, _C.UNLOCK_BATCH_MQ, _C.GET_CONSUMER_CONNECTION_LIST,
    _C.GET_PRODUCER_CONNECTION_LIST, _C.GET_ALL_PRODUCER_INFO, _C.GET_CONSUME_STATS, _C.GET_BROKER_CONSUME_STATS,
    _C.QUERY_CONSUME_TIME_SPAN, _C.QUERY_TOPICS_BY_CONSUMER, _C.QUERY_SUBSCRIPTION_BY_CONSUMER,
    _C.GET_CONSUMER_RUNNING_INFO, _C.CONSUME_MESSAGE_DIRECTLY, _C.GET_ALL_DELAY_OFFSET,
    _C.GET_ALL_MESSAGE_REQUEST_MODE, _C.WRITER_OPEN, _C.WRITER_CHUNK, _C.WRITER_COUNT, _C.WRITER_CLOSE,
)  # fmt: skip

_HERE = (
    _C.CHECK_CLIENT_CONFIG, _C.GET_BROKER_RUNTIME_INFO, _C.UPDATE_BROKER_CONFIG, _C.GET_BROKER_CONFIG,
    _C.VIEW_BROKER_STATS_DATA, _C.GET_BROKER_HA_STATUS, _C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    _C.FORWARDING_OPEN,
)  # fmt: skip

_BOTH = (_C.HEART_BEAT, _C.UNREGISTER_CLIENT)

_NAMES = (
    _C.PUT_KV_CONFIG, _C.GET_KV_CONFIG, _C.DELETE_KV_CONFIG, _C.REGISTER_BROKER, _C.UNREGISTER_BROKER,
    _C.GET_ROUTEINFO_BY_TOPIC, _C.GET_BROKER_CLUSTER_INFO, _C.WIPE_WRITE_PERM_OF_BROKER,
    _C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, _C.DELETE_TOPIC_IN_NAMESRV, _C.REGISTER_TOPIC_IN_NAMESRV,
    _C.GET_KVLIST_BY_NAMESPACE, _C.GET_TOPICS_BY_CLUSTER, _C.GET_SYSTEM_TOPIC_LIST_FROM_NS, _C.GET_UNIT_TOPIC_LIST,
    _C.GET_HAS_UNIT_SUB_TOPIC_LIST, _C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, _C.UPDATE_NAMESRV_CONFIG,
    _C.GET_NAMESRV_CONFIG, _C.QUERY_DATA_VERSION, _C.ADD_WRITE_PERM_OF_BROKER, _C.GET_BROKER_MEMBER_GROUP,
    _C.BROKER_HEARTBEAT,
)  # fmt: skip

_TO_CLIENTS = (
    _C.CHECK_TRANSACTION_STATE, _C.NOTIFY_CONSUMER_IDS_CHANGED, _C.RESET_CONSUMER_CLIENT_OFFSET,
    _C.GET_CONSUMER_STATUS_FROM_CLIENT, _C.PUSH_REPLY_MESSAGE_TO_CLIENT,
)  # fmt: skip

_REFUSED: Mapping[str, tuple[RequestCode, ...]] = {
    "retry by delay level": (_C.CONSUMER_SEND_MSG_BACK,),
    _TRANSACTIONS: (_C.END_TRANSACTION, _C.RESUME_CHECK_HALF_MESSAGE),
    _DELAY: (_C.GET_TIMER_CHECK_POINT, _C.GET_TIMER_METRICS),
    "recall of timed messages": (_C.RECALL_MESSAGE,),
    _POP: (
        _C.QUERY_ASSIGNMENT, _C.SET_MESSAGE_REQUEST_MODE, _C.POP_MESSAGE,
        _C.ACK_MESSAGE, _C.PEEK_MESSAGE, _C.CHANGE_MESSAGE_INVISIBLETIME, _C.NOTIFICATION, _C.POLLING_INFO,
        _C.POP_ROLLBACK, _C.BATCH_ACK_MESSAGE,
    ),
    _OLD_ACL: (
        _C.UPDATE_AND_CREATE_ACL_CONFIG, _C.DELETE_ACL_CONFIG, _C.GET_BROKER_CLUSTER_ACL_INFO,
        _C.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    ),
    _AUTH: (
        _C.AUTH_CREATE_USER, _C.AUTH_UPDATE_USER, _C.AUTH_DELETE_USER, _C.AUTH_GET_USER, _C.AUTH_LIST_USER,
        _C.AUTH_CREATE_ACL, _C.AUTH_UPDATE_ACL, _C.AUTH_DELETE_ACL, _C.AUTH_GET_ACL, _C.AUTH_LIST_ACL,
    ),
    _STATIC: (_C.UPDATE_AND_CREATE_STATIC_TOPIC,),
    _HA: (_C.NOTIFY_MIN_BROKER_ID_CHANGE, _C.EXCHANGE_BROKER_HA_INFO, _C.RESET_MASTER_FLUSH_OFFSET),
    _ROCKSDB: (_C.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, _C.EXPORT_ROCKSDB_CONFIG_TO_JSON),
    _COLD: (
        _C.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, _C.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, _C.GET_COLD_DATA_FLOW_CTR_INFO,
        _C.SET_COMMITLOG_READ_MODE,
    ),
    "forbidding a group one topic": (_C.UPDATE_AND_GET_GROUP_FORBIDDEN,),
    "cleaning by request; retention runs by itself": (
        _C.CLEAN_EXPIRED_CONSUMEQUEUE, _C.CLEAN_UNUSED_TOPIC, _C.DELETE_EXPIRED_COMMITLOG,
    ),
    "the table of epochs; GET /status of the admin port tells the epoch": (_C.GET_BROKER_EPOCH_CACHE,),
    "what controllers tell the brokers of their groups": (_C.NOTIFY_BROKER_ROLE_CHANGED,),
    "it belongs on a connection that began with 27010": (
        _C.FORWARDING_CLOCK, _C.FORWARDING_LEFT, _C.FORWARDING_COMPLETE,
    ),
}  # fmt: skip

_CONTROLLERS = (
    _C.CONTROLLER_ALTER_SYNC_STATE_SET, _C.CONTROLLER_ELECT_MASTER, _C.CONTROLLER_REGISTER_BROKER,
    _C.CONTROLLER_GET_REPLICA_INFO, _C.CONTROLLER_GET_METADATA_INFO, _C.CONTROLLER_GET_SYNC_STATE_DATA,
    _C.UPDATE_CONTROLLER_CONFIG, _C.GET_CONTROLLER_CONFIG, _C.CLEAN_BROKER_DATA, _C.CONTROLLER_GET_NEXT_BROKER_ID,
    _C.CONTROLLER_APPLY_BROKER_ID, _C.LEASE_RELEASE, _C.ROLES_PROMOTE,
)  # fmt: skip


def _table() -> dict[int, Route]:
    table: dict[int, Route] = {}
    table.update(dict.fromkeys(map(int, _FORWARDED), Route(Where.FORWARD)))
    table.update(dict.fromkeys(map(int, _HERE), Route(Where.HERE)))
    table.update(dict.fromkeys(map(int, _BOTH), Route(Where.BOTH)))
    table.update(dict.fromkeys(map(int, _NAMES), Route(Where.HERE, Role.NAMES)))
    table.update(dict.fromkeys(map(int, _TO_CLIENTS), Route(Where.REFUSE, Role.CLIENT)))
    table.update(dict.fromkeys(map(int, _CONTROLLERS), Route(Where.REFUSE, Role.CONTROLLER)))
    for feature, codes in _REFUSED.items():
        table.update(dict.fromkeys(map(int, codes), Route(Where.REFUSE, feature=feature)))
    return table


ROUTES: Mapping[int, Route] = MappingProxyType(_table())


def refusal(code: int, role: Role) -> str:
    """Why `role` does not answer this code, as a remark."""
    route = ROUTES.get(code)
    if route is None:
        return f" request type {code} not supported"
    name = f"{code} {request_name(code)}"
    if route.feature:
        return f"{name} is not supported: {route.feature}"
    if route.role is not role:
        return f"{name} is a request to {route.role.value}, this is {role.value}"
    return f"{name} is not served by this process"
