"""What a topic and a consumer group are configured to be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["DLQ_PREFIX", "RETRY_PREFIX", "GroupConfig", "Permission", "TopicConfig"]

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"


class Permission:
    """Bits of a topic's or broker's permission."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    READ_WRITE = 6


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic on one broker group. Queue counts are numbers of queues; queues are 0 .. max(read, write) - 1."""

    name: str
    read_queues: int = 8
    write_queues: int = 8
    permission: int = Permission.READ_WRITE
    system_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def queues(self) -> int:
        """Number of queues that can hold messages."""
        return max(self.read_queues, self.write_queues)

    @property
    def readable(self) -> bool:
        return bool(self.permission & Permission.READ)

    @property
    def writable(self) -> bool:
        return bool(self.permission & Permission.WRITE)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One consumer group. Defaults are RocketMQ's ("SubscriptionGroupConfig")."""

    name: str
    consume_enabled: bool = True
    consume_from_min_enabled: bool = True
    broadcast_enabled: bool = True
    orderly: bool = False
    retry_queues: int = 1
    retries_max: int = 16
    broker_id: int = 0
    broker_id_when_slow: int = 1
    notify_members: bool = True
    system_flag: int = 0
    consume_timeout_minutes: int = 15
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
