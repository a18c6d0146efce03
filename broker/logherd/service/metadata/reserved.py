"""Names that belong to the broker.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/topic/TopicValidator.java
"""

__all__ = [
    "BENCHMARK_TOPIC", "DEFAULT_TOPIC", "OFFSET_MOVED_TOPIC", "SELF_TEST_TOPIC", "SYSTEM_GROUPS", "TRACE_TOPIC",
    "is_reserved", "is_system_group", "is_system_topic", "reply_topic",
]  # fmt: skip

DEFAULT_TOPIC = "TBW102"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
"""Of the system by its name only: the broker neither makes nor uses it, so people and clients may do both."""
_SYSTEM_PREFIX = "rmq_sys_"
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

_RESERVED = frozenset({
    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
    SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC,
})  # fmt: skip
_SYSTEM = _RESERVED | {DEFAULT_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
)  # fmt: skip


def is_reserved(topic: str) -> bool:
    """Whether clients may not send to it. RocketMQ forgets its `rmq_sys_` topics here (T-9); all of them count."""
    return topic in _RESERVED or topic.startswith(_SYSTEM_PREFIX)


def is_system_topic(topic: str) -> bool:
    """Whether lists keep it apart, and clients may neither create, change nor delete it, except for `TRACE_TOPIC`. The
    cluster's and broker's own topics come on top."""
    return topic in _SYSTEM or topic.startswith(_SYSTEM_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether clients may not delete it."""
    return group in SYSTEM_GROUPS or group.startswith(_SYSTEM_GROUP_PREFIX)


def reply_topic(cluster: str) -> str:
    """Where replies of request-reply are kept."""
    return f"{cluster}_REPLY_TOPIC"
