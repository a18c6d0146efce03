"""Topics and groups on a broker: 17, 202, 207, 215, 217, 300, 343, 345, 351 to 353, 513.

Source: apache/rocketmq: remoting/.../protocol/header/CreateTopicRequestHeader.java and its neighbours
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32

__all__ = [
    "CreateTopicHeader",
    "DeleteGroupHeader",
    "ForbiddenHeader",
    "GroupHeader",
    "GroupTopicHeader",
    "TopicConfigHeader",
    "TopicHeader",
]


class CreateTopicHeader(Header, frozen=True, kw_only=True):
    """17 and 513. `attributes` is `+name=value,-name`; `filter_type` is SINGLE_TAG or MULTI_TAG."""

    topic: str
    default_topic: str
    read_queues: Int32 = field(name="readQueueNums")
    write_queues: Int32 = field(name="writeQueueNums")
    permission: Int32 = field(name="perm")
    filter_type: str = field(name="topicFilterType")
    sys_flag: Int32 | None = field(name="topicSysFlag", default=None)
    order: bool | None = None
    attributes: str | None = None
    force: bool | None = None


class TopicHeader(Header, frozen=True, kw_only=True):
    """202, 215, 217 and 300: one topic."""

    topic: str


class TopicConfigHeader(Header, frozen=True, kw_only=True):
    """351."""

    topic: str
    logical: bool | None = field(name="lo", default=None)


class GroupHeader(Header, frozen=True, kw_only=True):
    """343 and 352: one consumer group."""

    group: str


class GroupTopicHeader(Header, frozen=True, kw_only=True):
    """303 and 345."""

    group: str
    topic: str


class DeleteGroupHeader(Header, frozen=True, kw_only=True):
    """207."""

    group: str = field(name="groupName")
    clean_offsets: bool = field(name="cleanOffset", default=False)


class ForbiddenHeader(Header, frozen=True, kw_only=True):
    """353. Without `readable` it only asks."""

    group: str
    topic: str
    readable: bool | None = None
