"""Pulling: 11 and 361.

Source: apache/rocketmq: remoting/.../protocol/header/PullMessageRequestHeader.java, PullMessageResponseHeader.java
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = ["PullFlag", "PullMessageHeader", "PullMessageResponse"]


class PullFlag:
    """Bits of a pull's sys flag."""

    COMMIT_OFFSET = 0x1
    SUSPEND = 0x2
    SUBSCRIPTION = 0x4
    CLASS_FILTER = 0x8
    LITE_PULL = 0x10


class PullMessageHeader(Header, frozen=True, kw_only=True):
    """11 and 361. `commit_offset` counts with COMMIT_OFFSET only, may be -1; `subscription` with SUBSCRIPTION only."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    messages_max: Int32 = field(name="maxMsgNums")
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_ms: Int64 = field(name="suspendTimeoutMillis")
    subscription_version: Int64 = field(name="subVersion")
    subscription: str | None = None
    expression_type: str | None = None
    bytes_max: Int32 | None = field(name="maxMsgBytes", default=None)
    request_source: Int32 | None = None
    proxy_forward_client_id: str | None = field(name="proxyFrowardClientId", default=None)
    broker_name: str | None = field(name="bname", default=None)


class PullMessageResponse(Header, frozen=True, kw_only=True):
    """The answer with codes 0, 19, 20 and 21; the first four fields are needed in each of them.

    `suggested_broker_id` 0 is the master.
    """

    suggested_broker_id: Int64 = field(name="suggestWhichBrokerId", default=0)
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
